//! `esker bench pe`: each command on a store and on a server; what it refuses.

use std::path::Path;

use serde_json::Value;

use crate::support::{Done, esker, esker_in, run};

const COMMANDS: [&str; 11] = [
    "sequentialWrite",
    "randomWrite",
    "randomRead",
    "sequentialRead",
    "scan",
    "scanRange10",
    "scanRange100",
    "scanRange1000",
    "scanRange10000",
    "increment",
    "checkAndPut",
];

const SMALL: [&str; 6] = ["--clients", "3", "--rows", "200", "--value-size", "100"];

fn pe(dir: &Path, arguments: &[&str]) -> Done {
    let mut command = esker_in(dir);
    command.args(["bench", "pe"]).args(arguments);
    run(command, b"")
}

#[track_caller]
fn fails(done: &Done, code: i32, message: &str) {
    assert!(done.code == code && done.stderr().contains(message), "{} {}", done.code, done.stderr());
}

fn objects(done: &Done) -> Vec<Value> {
    assert_eq!(done.code, 0, "{}", done.stderr());
    done.stdout().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn ql(dir: &Path, url: Option<&str>, statements: &str) -> String {
    let mut command = esker_in(dir);
    command.args(["ql", "-e", statements]).args(url.iter().flat_map(|url| ["--url", url]));
    let done = run(command, b"");
    assert_eq!(done.code, 0, "{}", done.stderr());
    done.stdout()
}

/// Runs all commands, and looks at what they count and leave.
fn runs_every_command(dir: &Path, url: Option<&str>) -> String {
    let address: Vec<&str> = url.iter().flat_map(|url| ["--url", url]).collect();
    let json = ["--format", "jsonl", "--caching", "7"];
    let done = pe(dir, &[&COMMANDS[..], &SMALL, &json, &address].concat());
    let results = objects(&done);
    let names: Vec<_> = results.iter().map(|result| result["command"].as_str().unwrap()).collect();
    assert_eq!(names, COMMANDS);
    for result in &results {
        let name = result["command"].as_str().unwrap();
        let (rows, calls) = match name {
            // Fetches of 7 rows; ranges of all 600 rows, one for each client.
            "scan" => (600, 3 * 29),
            "scanRange10" => (600, 60),
            "scanRange100" => (600, 6),
            "scanRange1000" | "scanRange10000" => (1800, 3),
            _ => (600, 600),
        };
        assert_eq!(
            (&result["rows"], &result["calls"], &result["missing"]),
            (&rows.into(), &calls.into(), &0.into()),
            "{name}"
        );
        let us = |field: &str| result[field].as_f64().unwrap();
        assert!(
            us("p50_us") > 0.0 && us("p50_us") <= us("p99_us") && us("p999_us") <= us("max_us"),
            "{result}"
        );
        assert_eq!(result["run"], url.unwrap_or("embedded"));
    }
    // Batches, and values of another length than those that are there.
    let done = pe(
        dir,
        &[&["randomWrite", "sequentialRead"], &SMALL[..], &["--batch", "64"], &json, &address].concat(),
    );
    let results = objects(&done);
    assert_eq!((&results[0]["rows"], &results[0]["calls"]), (&600.into(), &12.into()));
    let done = pe(
        dir,
        &[&["randomRead", "--clients", "3", "--rows", "200", "--value-size", "99"], &address[..]].concat(),
    );
    fails(&done, 3, "has a value of 100 bytes, and not 99 (--value-size)");
    // The store stays of use, and has the rows of PerformanceEvaluation: all three clients have incremented.
    let first = "SELECT info0:0 FROM TestTable WHERE ROW = '00000000000000000000000599' KEYS_ONLY";
    assert_eq!(ql(dir, url, first), "00000000000000000000000599\tinfo0:0\n");
    let counter = "SELECT info0:IncrementTest FROM TestTable WHERE ROW = '00000000000000000000000199'";
    ql(dir, url, counter)
}

#[test]
fn every_command_runs_on_a_store() {
    let dir = tempfile::tempdir().unwrap();
    let counter = runs_every_command(dir.path(), None);
    assert!(counter.ends_with("\\x00\\x03\n"), "{counter}");
    assert_eq!(esker(dir.path(), "check").code, 0);
}

#[test]
fn every_command_runs_on_a_server() {
    let dir = tempfile::tempdir().unwrap();
    let serving = crate::thrift::serve(dir.path());
    let url = format!("thrift://{}", serving.address);
    let counter = runs_every_command(dir.path(), Some(&url));
    assert!(counter.ends_with("\\x00\\x03\n"), "{counter}");
    let pid = serving.id().to_string();
    let pids = ["--url", &url, "--server-pid", &pid, "--format", "jsonl"];
    let results = objects(&pe(dir.path(), &[&["scan"], &SMALL[..], &pids].concat()));
    assert!(results[0]["memory_peak_mib"].as_f64() > Some(1.0) && results[0]["cpu_us_per_row"].is_number());
}

/// Not all rows are there: they are counted, and no error unless all were written.
#[test]
fn rows_that_are_missing_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let done = pe(
        dir.path(),
        &[&["randomWrite", "sequentialRead", "scan", "--format", "jsonl"], &SMALL[..]].concat(),
    );
    let results = objects(&done);
    let missing = results[1]["missing"].as_u64().unwrap();
    assert!((1..600).contains(&missing), "{missing}");
    assert_eq!((&results[2]["missing"], &results[2]["rows"]), (&missing.into(), &(600 - missing).into()));
}

#[test]
fn what_cannot_be_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let refused =
        |arguments: &[&str], code: i32, message: &str| fails(&pe(dir.path(), arguments), code, message);
    refused(&[], 2, "COMMAND");
    refused(&["randomWrit"], 2, "randomWrite");
    refused(&["scan", "--rows", "0"], 2, "0 is not in 1..=");
    refused(&["scan", "--clients", "501"], 2, "501 is not in 1..=500");
    refused(&["scan", "--server-pid", "1"], 2, "--server-pid names the process of a server");
    refused(
        &["scan", "--url", "thrift://127.0.0.1:1", "--server-pid", "4294967295"],
        2,
        "--server-pid: /proc/4294967295/stat",
    );
    refused(&["scan", "--url", "thrift://127.0.0.1:1"], 3, "cannot reach thrift://127.0.0.1:1");
    refused(&["scan", "--url", "redis://127.0.0.1:1"], 2, "--url thrift://HOST:PORT");
    refused(&["--compare", "nothing.jsonl"], 3, "nothing.jsonl");
    assert!(!dir.path().join("esker.db").exists());
    refused(&["scan", "--plot", "esker.db/pe.svg"], 2, "in the store's own directory");
    ql(dir.path(), None, "CREATE TABLE TestTable (info0, b)");
    refused(&["scan"], 2, "the table TestTable has the column families b, info0, and not info0");
    fails(&crate::support::esker_with(dir.path(), "shell", b"bench pe scan\n"), 2, "outside the shell");
    let serving = crate::thrift::serve(dir.path());
    let url = format!("thrift://{}", serving.address);
    refused(&["scan", "--url", &url], 2, "the table TestTable has the column families b, info0");
}

#[test]
fn a_server_that_goes_away_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let mut serving = crate::thrift::serve(dir.path());
    let url = format!("thrift://{}", serving.address);
    let mut command = esker_in(dir.path());
    command.args(["bench", "pe", "--url", &url, "--rows", "1000000000", "sequentialWrite"]);
    let running = std::thread::spawn(move || run(command, b""));
    // It is at work when a row is there.
    let row = "SELECT info0 FROM TestTable WHERE ROW = '00000000000000000000000009' KEYS_ONLY";
    loop {
        let mut command = esker_in(dir.path());
        command.args(["ql", "--url", &url, "-e", row]);
        if !run(command, b"").stdout.is_empty() {
            break;
        }
    }
    serving.kill();
    let done = running.join().unwrap();
    fails(&done, 3, &format!("{url}: the connection has failed"));
}

#[test]
fn ctrl_c_ends_it_and_the_store_stays() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = esker_in(dir.path());
    let tiny = ["randomWrite", "--rows", "10", "--value-size", "10"];
    command.args(["bench", "pe", "--format", "tsv"]).args(tiny);
    assert_eq!(run(command, b"").code, 0);
    let mut command = esker_in(dir.path());
    command.args(["bench", "pe", "--rows", "1000000000", "increment", "--format", "tsv"]);
    let mut child =
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    // The line of names is there when the clients are connected.
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.as_mut().unwrap()), &mut line)
        .unwrap();
    assert!(line.starts_with("command\trows\t"), "{line}");
    let mut kill = std::process::Command::new("kill");
    assert!(kill.args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(esker(dir.path(), "check").code, 0);
    assert_eq!(ql(dir.path(), None, "SELECT info0:0 FROM TestTable LIMIT 1 KEYS_ONLY").lines().count(), 1);
}

#[test]
fn runs_are_compared() {
    let dir = tempfile::tempdir().unwrap();
    let result = |run: &str, command: &str, rate: f64| {
        format!(
            "{{\"run\":\"{run}\",\"command\":\"{command}\",\"rows_per_second\":{rate},\"p50_us\":10.0}}\n"
        )
    };
    let a = [
        result("a", "scan", 900.0),
        result("a", "scan", 300.0),
        result("a", "scan", 600.0),
        result("a", "x", 5.0),
    ];
    std::fs::write(dir.path().join("a.jsonl"), a.concat()).unwrap();
    std::fs::write(dir.path().join("b.jsonl"), result("b<", "scan", 200.0)).unwrap();
    let files = ["--compare", "a.jsonl", "b.jsonl", "--plot", "pe.svg"];
    let done = pe(dir.path(), &[&files[..], &["--format", "tsv"]].concat());
    assert_eq!(
        done.stdout(),
        "command\trun\trows_per_second\tratio\tp50_us\tp99_us\tp999_us\tcpu_us_per_row\tmemory_peak_mib\n\
         scan\ta\t600\t3.0\t10.0\t\t\t\t\n\
         scan\tb<\t200\t1.0\t10.0\t\t\t\t\n\
         x\ta\t5\t\t10.0\t\t\t\t\n"
    );
    let table = pe(dir.path(), &files).stdout();
    assert!(table.contains("scan            a                           600     3.00      10.0"), "{table}");
    let svg = std::fs::read_to_string(dir.path().join("pe.svg")).unwrap();
    assert_eq!((svg.matches("<title>").count(), svg.matches("b&lt;").count()), (3, 2), "{svg}");
    std::fs::write(dir.path().join("b.jsonl"), "{}\n").unwrap();
    fails(&pe(dir.path(), &files), 2, "b.jsonl:1: no result");
}

/// The commands of `docs/tables.md`, as they stand there.
#[test]
fn the_documented_commands_do_what_they_should() {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/tables.md")).unwrap();
    let section = text.split_once("## Measuring").unwrap().1;
    let block = section.split_once("```sh\n").unwrap().1.split_once("```").unwrap().0;
    let dir = tempfile::tempdir().unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_esker")).parent().unwrap().display().to_string();
    let mut shell = std::process::Command::new("sh");
    shell.args(["-ec", &format!("PATH={program}:$PATH\n{block}")]).current_dir(dir.path());
    let done = run(shell, b"");
    assert_eq!(done.code, 0, "{}", done.stderr());
    let lines: Vec<String> = done.stdout().lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), 1 + 7 + 2, "{lines:?}");
    assert!(dir.path().join("pe.svg").exists());
}
