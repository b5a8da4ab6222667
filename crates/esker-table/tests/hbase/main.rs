//! The same random operations on a real HBase and on tables in this process: the answers are equal.
//!
//! ```text
//! seed --> operation --line--> driver --> HBase --> answer
//!              '-----> Table --------------------> answer    are they the same?
//! ```
//! `ESKER_HBASE` is the command of the driver; without it, the test does nothing. `scripts/hbase compare` sets it, with HBase
//! up. `ESKER_SEED` chooses the operations, `ESKER_CASES` their number (default 100,000).
//!
//! Timestamps are explicit and in the future, so both sides have the same. What an increment or append writes has the
//! timestamp of the latest cell; where there is none, it has the time of the write, and the test deletes it at once.
//! `docs/tables.md`, "Differences from HBase", lists what is different on purpose: the test does not ask for that.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a test that cannot go on should stop; it starts a process, and tells its time"
)]

mod filters;
mod past;

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, BufWriter, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use esker_table::{Cell, Check, Comparison, Family, Filter, Read, RowMutation, Schema, Table, Tables};
use filters::{Allowed, some_filter};
use past::{Does, Past, Touched};
use test_kit::Rng;

const ROWS: &[&[u8]] = &[b"\0", b"a", b"a\0", b"b", b"\xff"];
const QUALIFIERS: &[&[u8]] = &[b"\0", b"q", b"q\0", b"r"];

/// In the year 2096: what is written without a timestamp is below.
const FUTURE_MS: i64 = 4_000_000_000_000;

/// In the year 1970: expired where cells live for an hour.
const PAST_MS: i64 = 1_000;

const HOUR: Duration = Duration::from_secs(3600);

/// The families: how many versions each keeps, and whether its cells live for an hour.
const FAMILIES: &[(&str, Option<u32>, bool)] =
    &[("all", None, false), ("one", Some(1), false), ("short", Some(2), true), ("three", Some(3), false)];

/// The family that keeps all versions.
const UNLIMITED: &str = "all";

/// How many operations are under way at HBase at most.
const AHEAD_MAX: usize = 256;

/// How many operations the message of a difference shows.
const HISTORY_LEN: usize = 40;

/// HBase behind its driver.
struct HBase {
    driver: Child,
    answers: Receiver<String>,
}

/// What was asked, and what it was answered here.
struct Asked {
    line: String,
    answer: String,
    filter: String,
}

impl HBase {
    fn start(command: &str) -> HBase {
        let mut driver = Command::new("sh")
            .args(["-c", command])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let (sender, answers) = channel();
        let lines = BufReader::new(driver.stdout.take().unwrap()).lines();
        std::thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| sender.send(line)));
        HBase { driver, answers }
    }
}

/// Both sides, and what is under way.
struct Both {
    hbase: HBase,
    lines: BufWriter<std::process::ChildStdin>,
    under_way: VecDeque<Asked>,
    history: VecDeque<String>,
    answered: u64,
    seed: u64,
}

impl Both {
    fn new(command: &str, seed: u64) -> Both {
        let mut hbase = HBase::start(command);
        let lines = BufWriter::new(hbase.driver.stdin.take().unwrap());
        let (under_way, history) = (VecDeque::new(), VecDeque::new());
        Both { hbase, lines, under_way, history, answered: 0, seed }
    }

    fn ask(&mut self, line: String, answer: String) {
        self.ask_of(line, answer, b"");
    }

    /// Asks what has a filter: the message of a difference shows it.
    fn ask_of(&mut self, line: String, answer: String, filter: &[u8]) {
        self.lines.write_all(line.as_bytes()).unwrap();
        self.lines.write_all(b"\n").unwrap();
        let filter = filter.escape_ascii().to_string();
        self.under_way.push_back(Asked { line, answer, filter });
        if self.under_way.len() >= AHEAD_MAX {
            self.compare(AHEAD_MAX / 2);
        }
    }

    /// Compares answers until so few are under way.
    fn compare(&mut self, remaining: usize) {
        self.lines.flush().unwrap();
        while self.under_way.len() > remaining {
            let Asked { line, answer, filter } = self.under_way.pop_front().unwrap();
            let theirs = self.hbase.answers.recv_timeout(Duration::from_secs(120)).unwrap();
            self.answered += 1;
            if theirs != answer {
                let history: Vec<_> = self.history.iter().map(String::as_str).collect();
                panic!(
                    "seed {}, answer {}: HBase differs\n{}\n{line}\n{filter}\nHBase: {theirs}\nEsker: {answer}",
                    self.seed,
                    self.answered,
                    history.join("\n"),
                );
            }
            self.history.push_back(format!("{line} -> {answer}"));
            if self.history.len() > HISTORY_LEN {
                self.history.pop_front();
            }
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::from("x"), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    })
}

fn show(row: &[u8], cell: &Cell) -> String {
    let Cell { family, qualifier, timestamp, value } = cell;
    format!("{}/{family}/{}/{timestamp}/{}", hex(row), hex(qualifier), hex(value))
}

fn some_time(random: &mut Rng) -> i64 {
    let base = if random.index(5) == 0 { PAST_MS } else { FUTURE_MS };
    base + random.index(6) as i64
}

fn some_value(random: &mut Rng) -> Vec<u8> {
    match random.index(6) {
        0 => Vec::new(),
        1 | 2 => (random.index(5) as i64 - 2).to_be_bytes().to_vec(),
        _ => vec![b'a' + random.index(4) as u8; 1 + random.index(2)],
    }
}

/// A random mutation of `row`, for both sides: its steps are appended to `line`.
fn some_mutation(
    random: &mut Rng,
    past: &Past,
    row: &'static [u8],
    line: &mut String,
) -> (RowMutation, Vec<Touched>) {
    let (mut mutation, mut steps) = (RowMutation::new(row), Vec::<Touched>::new());
    let count = random.of(&[1, 1, 1, 2, 5]);
    while steps.is_empty() || random.index(count) > 0 {
        let (family, _, _) = random.of(FAMILIES);
        let (qualifier, at) = (random.of(QUALIFIERS), some_time(random));
        let (name, value) = (hex(qualifier), some_value(random));
        let kind = random.index(16);
        let (of_family, of_qualifier, does) = match kind {
            0 => (None, None, Does::DeleteUpTo),
            1 => (Some(family), None, Does::DeleteUpTo),
            2 | 3 => (Some(family), Some(qualifier), Does::DeleteUpTo),
            4 | 5 => (Some(family), Some(qualifier), Does::DeleteVersion),
            _ => (Some(family), Some(qualifier), Does::Put),
        };
        let step = Touched { family: of_family, qualifier: of_qualifier, does, at };
        if steps.iter().any(|earlier| earlier.collides(step)) || past.would_revive(row, step) {
            continue;
        }
        steps.push(step);
        mutation = match kind {
            0 => {
                write!(line, " row {at}").unwrap();
                mutation.delete_row_up_to(at)
            }
            1 => {
                write!(line, " family {family} {at}").unwrap();
                mutation.delete_family_up_to(family, at)
            }
            2 | 3 => {
                write!(line, " column {family} {name} {at}").unwrap();
                mutation.delete_column_up_to(family, qualifier, at)
            }
            4 | 5 => {
                write!(line, " version {family} {name} {at}").unwrap();
                mutation.delete_version(family, qualifier, at)
            }
            _ => {
                write!(line, " put {family} {name} {at} {}", hex(&value)).unwrap();
                mutation.put_at(family, qualifier, at, value)
            }
        };
    }
    (mutation, steps)
}

/// What a read asks for, but for its filter, for both sides.
struct Asking {
    read: Read,
    versions: u32,
    time: (i64, i64),
    columns: String,
    families: usize,
}

fn some_read(random: &mut Rng, past: &Past, versions: u32) -> Asking {
    let mut read = Read::all().versions(versions);
    let (mut columns, mut families) = (String::new(), 0);
    // Each family as a whole, or columns of it: HBase does not add one to the other.
    if random.index(2) == 0 {
        for (family, _, _) in FAMILIES {
            match random.index(4) {
                0 => {
                    write!(columns, " {family}").unwrap();
                    read = read.family_too(family);
                }
                1 => {
                    for _ in 0..1 + random.index(2) {
                        let qualifier = random.of(QUALIFIERS);
                        write!(columns, " {family}/{}", hex(qualifier)).unwrap();
                        read = read.column_too(family, qualifier);
                    }
                }
                _ => continue,
            }
            families += 1;
        }
    }
    let from = FUTURE_MS + random.index(6) as i64;
    let has_end = !past.has_files() || columns.trim_start() == UNLIMITED;
    let time = match random.index(6) {
        0 if has_end => (from, from + 1 + random.index(5) as i64),
        1 if has_end => (0, from),
        2 => (from, i64::MAX),
        _ => (0, i64::MAX),
    };
    let read = read.time(time.0..time.1);
    Asking { read, versions, time, columns, families: if families == 0 { FAMILIES.len() } else { families } }
}

/// HBase's names say how the given value stands to the cell; ours, how the cell stands to the value.
const COMPARISONS: &[(&str, Comparison)] = &[
    ("GREATER", Comparison::Less),
    ("GREATER_OR_EQUAL", Comparison::LessOrEqual),
    ("EQUAL", Comparison::Equal),
    ("NOT_EQUAL", Comparison::NotEqual),
    ("LESS_OR_EQUAL", Comparison::GreaterOrEqual),
    ("LESS", Comparison::Greater),
];

/// The test's table, and what HBase has of it.
struct Ours {
    tables: Tables,
    table: Table,
    past: Past,
}

impl Ours {
    fn latest(&self, row: &[u8], family: &str, qualifier: &[u8]) -> Option<Cell> {
        self.table.get(row, &Read::column(family, qualifier)).unwrap().pop()
    }

    /// The cells of a scan, and their rows.
    fn cells(&self, start: &[u8], stop: &[u8], read: &Read, is_reversed: bool) -> Vec<(Vec<u8>, Cell)> {
        let mut scan = if is_reversed {
            self.table.scan_reversed(start, stop, read).unwrap()
        } else {
            self.table.scan(start, stop, read).unwrap()
        };
        let mut cells = Vec::new();
        while scan.advance().unwrap() {
            cells.push((scan.row().to_vec(), scan.cell().unwrap().unwrap()));
        }
        cells
    }
}

/// One random operation on both sides.
fn operation(random: &mut Rng, ours: &mut Ours, both: &mut Both) {
    let (row, qualifier) = (random.of(ROWS), random.of(QUALIFIERS));
    let (family, _, _) = random.of(FAMILIES);
    match random.index(100) {
        0..50 => {
            let mut line = format!("mutate {}", hex(row));
            let (mutation, steps) = some_mutation(random, &ours.past, row, &mut line);
            ours.table.mutate(&mutation).unwrap();
            steps.into_iter().for_each(|step| ours.past.note(row, step));
            both.ask(line, "ok".to_owned());
        }
        50..60 => check(random, ours, both, row, family, qualifier),
        60..70 => increment_or_append(random, ours, both, row, family, qualifier),
        70..80 => get(random, ours, both, row),
        _ => scan(random, ours, both),
    }
}

/// How many versions a read with a filter asks for: all, since in HBase the filter sees no more of them.
const ALL_VERSIONS: u32 = 100;

fn get(random: &mut Rng, ours: &Ours, both: &mut Both, row: &[u8]) {
    let has_filter = random.index(2) == 0;
    let versions = if has_filter { ALL_VERSIONS } else { random.of(&[1, 2, 100]) };
    let Asking { mut read, versions, time, columns, families } = some_read(random, &ours.past, versions);
    let mut text = Vec::new();
    if has_filter {
        let next_column = !columns.contains('/');
        let row_in_while = !ours.table.get(row, &read).unwrap().is_empty();
        text = some_filter(
            random,
            Allowed { is_reversed: false, next_column, row_in_while, column_count: families == 1 },
        );
        read = read.filter(Filter::parse(&text).unwrap());
    }
    let cells = ours.table.get(row, &read).unwrap();
    let cells: Vec<_> = cells.iter().map(|cell| show(row, cell)).collect();
    let line = format!("get {} {versions} {} {} {}{columns}", hex(row), time.0, time.1, hex(&text));
    both.ask_of(line, cells.join(" "), &text);
}

fn scan(random: &mut Rng, ours: &Ours, both: &mut Both) {
    let (mut start, mut stop) =
        (random.of(&[b"", ROWS[0], ROWS[1], ROWS[3]]), random.of(&[b"", ROWS[2], ROWS[4]]));
    let (is_reversed, has_filter) = (random.index(3) == 0, random.index(2) == 0);
    if is_reversed {
        (start, stop) = (stop, start);
    }
    let versions = if has_filter { ALL_VERSIONS } else { random.of(&[1, 2, 100]) };
    let limit = random.of(&[0, 0, 1, 2, 3]);
    // A filter may need whole rows, which HBase does not give in pieces.
    let batch = if has_filter { 0 } else { random.of(&[0, 0, 1, 3]) };
    let Asking { mut read, versions, time, columns, families } = some_read(random, &ours.past, versions);
    let mut text = Vec::new();
    if has_filter {
        let mut rows: Vec<_> =
            ours.cells(start, stop, &read, is_reversed).into_iter().map(|(row, _)| row).collect();
        rows.dedup();
        let (low, high) = if is_reversed { (stop, start) } else { (start, stop) };
        let is_in = |row: &&&[u8]| {
            let row: &[u8] = row;
            let (below, above) =
                if is_reversed { (row <= high, row > low) } else { (row < high, row >= low) };
            (high.is_empty() || below) && (low.is_empty() || above)
        };
        let next_column = !columns.contains('/');
        let row_in_while = ROWS.iter().filter(is_in).count() == rows.len();
        let allowed = Allowed { is_reversed, next_column, row_in_while, column_count: families == 1 };
        text = some_filter(random, allowed);
        read = read.filter(Filter::parse(&text).unwrap());
    }
    if limit > 0 {
        read = read.limit_rows(limit, 0);
    }
    let cells = ours.cells(start, stop, &read, is_reversed);
    let cells: Vec<_> = cells.iter().map(|(row, cell)| show(row, cell)).collect();
    let (from, to) = time;
    let line = format!(
        "scan {} {} {versions} {from} {to} {is_reversed} {limit} {batch} {}{columns}",
        hex(start),
        hex(stop),
        hex(&text),
    );
    both.ask_of(line, cells.join(" "), &text);
}

/// Changes a column by what it holds, some times, and deletes it: what is written has different timestamps on both sides.
fn increment_or_append(
    random: &mut Rng,
    ours: &mut Ours,
    both: &mut Both,
    row: &'static [u8],
    family: &'static str,
    qualifier: &'static [u8],
) {
    let place = format!("{} {family} {}", hex(row), hex(qualifier));
    for _ in 0..1 + random.index(3) {
        if random.index(2) == 0 {
            let by = random.index(5) as i64 - 2;
            let answer = ours.table.increment(row, family, qualifier, by);
            let answer = answer.map_or("error".to_owned(), |sum| sum.to_string());
            both.ask(format!("increment {place} {by}"), answer);
        } else {
            let bytes = some_value(random);
            let value = ours.table.append(row, family, qualifier, bytes.clone()).unwrap();
            both.ask(format!("append {place} {}", hex(&bytes)), hex(&value));
        }
    }
    let at = FUTURE_MS + 1_000;
    ours.table.mutate(&RowMutation::new(row).delete_column_up_to(family, qualifier, at)).unwrap();
    ours.past.note_empty(row, family, qualifier);
    both.ask(format!("mutate {} column {family} {} {at}", hex(row), hex(qualifier)), "ok".to_owned());
}

fn check(
    random: &mut Rng,
    ours: &mut Ours,
    both: &mut Both,
    row: &'static [u8],
    family: &'static str,
    qualifier: &'static [u8],
) {
    let value = some_value(random);
    let is_empty = ours.latest(row, family, qualifier).is_some_and(|cell| cell.value.is_empty());
    // To HBase, an empty value is none.
    let (name, condition) = match random.index(8) {
        0 if !is_empty => ("ABSENT", Check::absent(family, qualifier)),
        1 if !is_empty => ("PRESENT", Check::present(family, qualifier)),
        _ if value.is_empty() => return,
        _ => {
            let (name, comparison) = random.of(COMPARISONS);
            (name, Check::value(family, qualifier, comparison, value.clone()))
        }
    };
    let mut line = format!("check {} {family} {} {name} {}", hex(row), hex(qualifier), hex(&value));
    let (mutation, steps) = some_mutation(random, &ours.past, row, &mut line);
    let answer = ours.table.check_and_mutate(&[condition], &mutation).unwrap();
    if answer {
        steps.into_iter().for_each(|step| ours.past.note(row, step));
    }
    both.ask(line, answer.to_string());
}

fn schema() -> Schema {
    let of = |(name, max, is_short): &(&str, Option<u32>, bool)| {
        Family::new(*name).max_versions(*max).ttl(is_short.then_some(HOUR))
    };
    Schema::new()
        .group("b", [of(&FAMILIES[0]), of(&FAMILIES[2])])
        .group("a", [of(&FAMILIES[1]), of(&FAMILIES[3])])
}

/// Has the driver make a new table with that schema.
fn create_line() -> String {
    FAMILIES.iter().fold("create".to_owned(), |mut line, (name, max, is_short)| {
        let ttl = if *is_short { HOUR.as_secs() } else { 0 };
        write!(line, " {name} {} {ttl}", max.unwrap_or(0)).unwrap();
        line
    })
}

#[test]
fn tables_answer_as_hbase_does() {
    let Ok(command) = std::env::var("ESKER_HBASE") else {
        println!("SKIPPED: ESKER_HBASE is not set; scripts/hbase compare sets it");
        return;
    };
    let (seed, cases) = (test_kit::seed(1), test_kit::cases(100_000));
    let (mut random, begun) = (Rng::new(seed), Instant::now());
    let folder = tempfile::tempdir().unwrap();
    // So little memory that flushes and merges happen on their own too.
    let options = esker::Options::default().memtable_bytes(64 << 10);
    let tables = Tables::open(folder.path().join("store"), options).unwrap();
    let mut ours = Ours { table: tables.create("t", schema()).unwrap(), tables, past: Past::default() };
    let mut both = Both::new(&command, seed);
    both.ask(create_line(), "ok".to_owned());
    for _ in 0..cases {
        match random.index(5_000) {
            0..8 => {
                ours.tables.db().flush().unwrap();
                ours.past.flush();
                both.ask("flush".to_owned(), "ok".to_owned());
            }
            8..12 => {
                ours.table.compact().unwrap();
                ours.past.compact();
                both.ask("compact".to_owned(), "ok".to_owned());
            }
            12 | 13 => {
                let (family, versions) = ("three", random.of(&[1, 2, 3, 5]));
                let schema = (*ours.table.schema()).clone();
                let altered = Family::new(family).max_versions(versions);
                ours.tables.alter("t", schema.with_rules_of(&altered)).unwrap();
                ours.past.compact();
                both.ask(format!("versions {family} {versions}"), "ok".to_owned());
            }
            14..16 => {
                ours.tables.drop_table("t").unwrap();
                ours.table = ours.tables.create("t", schema()).unwrap();
                ours.past = Past::default();
                both.ask(create_line(), "ok".to_owned());
            }
            _ => operation(&mut random, &mut ours, &mut both),
        }
    }
    both.compare(0);
    drop(both.lines);
    both.hbase.driver.wait().unwrap();
    let seconds = begun.elapsed().as_secs_f64();
    println!("{} equal answers in {seconds:.1} s", both.answered);
}
