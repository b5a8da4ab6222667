//! Each command on a store and on a server; missing rows; what is refused; comparisons.

use super::options::{COMMANDS, Options};
use super::report::{self, RunResult};
use super::{Run, measured};
use crate::stores::Result;
use esker_table::Tables;
use esker_thrift::{Config, Server};
use std::path::PathBuf;

/// A directory of its own, removed at the end.
struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Dir {
        let dir = std::env::temp_dir().join(format!("esker-bench-pe-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        Dir(dir)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

/// Runs commands with three clients of 200 rows each, on the table at `place`: `--db DIR` or `--url URL`.
fn pe(place: [&str; 2], line: &str) -> Result<Run> {
    let words = ["--clients", "3", "--rows", "200", "--value-size", "100"].into_iter();
    let words = words.chain(place).chain(line.split_whitespace()).map(str::to_owned);
    measured(&Options::parse(&words.collect::<Vec<_>>())?)
}

fn figures<const N: usize>(result: &RunResult, names: [&str; N]) -> [f64; N] {
    names.map(|name| result.figure(name).unwrap())
}

/// Runs all commands, and looks at what they count.
fn every_command_runs(place: [&str; 2], counter: impl Fn() -> i64) {
    let names: Vec<&str> = COMMANDS.iter().map(|(name, _)| *name).collect();
    let run = pe(place, &format!("--caching 7 {}", names.join(" "))).unwrap();
    assert_eq!(run.results.iter().map(|result| result.command.as_str()).collect::<Vec<_>>(), names);
    for result in &run.results {
        let (rows, calls) = match result.command.as_str() {
            // Fetches of 7 rows; ranges of all 600 rows, one for each client.
            "scan" => (600.0, 3.0 * 29.0),
            "scanRange10" => (600.0, 60.0),
            "scanRange100" => (600.0, 6.0),
            "scanRange1000" | "scanRange10000" => (1800.0, 3.0),
            _ => (600.0, 600.0),
        };
        assert_eq!(figures(result, ["rows", "calls", "missing"]), [rows, calls, 0.0], "{}", result.command);
        let [median, most, longest] = figures(result, ["p50_us", "p999_us", "max_us"]);
        assert!(median > 0.0 && median <= most && most <= longest, "{result:?}");
    }
    // All three clients have incremented.
    assert_eq!(counter(), 3);
    let run = pe(place, "--batch 64 randomWrite sequentialRead").unwrap();
    assert_eq!(figures(&run.results[0], ["rows", "calls"]), [600.0, 12.0]);
    let wrong = pe(place, "--value-size 99 randomRead").err().unwrap().to_string();
    assert!(wrong.contains("has a value of 100 bytes, and not 99 (--value-size)"), "{wrong}");
}

fn counter(tables: &Tables) -> i64 {
    let read = esker_table::Read::column("info0", "IncrementTest");
    let cells = tables.table("TestTable").unwrap().get("00000000000000000000000199", &read).unwrap();
    i64::from_be_bytes(cells[0].value[..].try_into().unwrap())
}

#[test]
fn every_command_runs_on_a_store() {
    let dir = Dir::new("store");
    let path = dir.0.join("pe.db");
    every_command_runs(["--db", path.to_str().unwrap()], || {
        counter(&Tables::open(&path, esker::Options::default()).unwrap())
    });
}

#[test]
fn every_command_runs_on_a_server() {
    let tables = Tables::open_in_memory(esker::Options::default()).unwrap();
    let config = Config { listen: "127.0.0.1:0".parse().unwrap(), ..Config::default() };
    let server = Server::bind(tables.clone(), config).unwrap();
    let (url, stopper) = (format!("thrift://{}", server.address()), server.stopper());
    let served = std::thread::spawn(move || server.run());
    let place = ["--url", url.as_str()];
    every_command_runs(place, || counter(&tables));
    let own = std::process::id();
    let run = pe(place, &format!("--server-pid {own} scan")).unwrap();
    let [memory, _] = figures(&run.results[0], ["memory_peak_mib", "cpu_us_per_row"]);
    assert!(memory > 1.0);
    let missing = pe(place, "--server-pid 4294967295 scan").err().unwrap().to_string();
    assert!(missing.contains("the process 4294967295 does not exist"), "{missing}");
    stopper.stop();
    served.join().unwrap().unwrap();
    let gone = pe(place, "scan").err().unwrap().to_string();
    assert!(gone.contains(&format!("cannot reach {url}")), "{gone}");
}

/// Not all rows are there: they are counted, and are an error only if all were written before.
#[test]
fn rows_that_are_missing_are_counted() {
    let dir = Dir::new("missing");
    let path = dir.0.join("pe.db");
    let run = pe(["--db", path.to_str().unwrap()], "randomWrite sequentialRead scan").unwrap();
    let [missing] = figures(&run.results[1], ["missing"]);
    assert!((1.0..600.0).contains(&missing), "{missing}");
    assert_eq!(figures(&run.results[2], ["missing", "rows"]), [missing, 600.0 - missing]);
}

#[test]
fn another_table_of_that_name_is_refused() {
    let dir = Dir::new("refused");
    let path = dir.0.join("pe.db");
    let tables = Tables::open(&path, esker::Options::default()).unwrap();
    let families = ["info0", "b"].map(esker_table::Family::new);
    tables.create("TestTable", esker_table::Schema::new().group("default", families)).unwrap();
    drop(tables);
    let refused = pe(["--db", path.to_str().unwrap()], "scan").err().unwrap().to_string();
    assert!(refused.contains("has the column families b, info0, and not info0"), "{refused}");
}

#[test]
fn runs_are_compared() {
    let dir = Dir::new("compared");
    let line = |run: &str, command: &str, rate: &str| {
        format!("{run}\t{command}\t6\t0\t6\t1\t{rate}\t\t10\t\t\t\t\t\n")
    };
    let of_a = [("scan", "900"), ("scan", "300"), ("scan", "600"), ("x", "5")];
    let a: String = of_a.iter().map(|(command, rate)| line("a", command, rate)).collect();
    let (one, other, svg) = (dir.0.join("a.tsv"), dir.0.join("b.tsv"), dir.0.join("pe.svg"));
    std::fs::write(&one, format!("{}\n{a}", report::names())).unwrap();
    std::fs::write(&other, line("b<", "scan", "200")).unwrap();
    let runs = report::read(&[one.clone(), other.clone()]).unwrap();
    let table = report::compared(&runs);
    let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[1][..5], ["scan", "a", "3.00", "600", "10.0"]);
    assert_eq!(lines[2][..5], ["scan", "b<", "1.00", "200", "10.0"]);
    assert_eq!(lines[3][..5], ["x", "a", "-", "5.00", "10.0"]);
    report::draw(&runs, &svg).unwrap();
    assert!(std::fs::read_to_string(&svg).unwrap().contains("b&lt;"));
    std::fs::write(&other, "no result\n").unwrap();
    let wrong = report::read(&[one, other]).err().unwrap().to_string();
    assert!(wrong.ends_with("b.tsv:1: not a result of `pe --tsv`"), "{wrong}");
}
