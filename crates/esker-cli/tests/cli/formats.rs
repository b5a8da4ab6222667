//! What goes out in a format comes back the same: keys and values of random bytes, and of each type, and when they expire.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Stdio;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::support::{Rng, esker, esker_in, esker_with};
use esker::{Batch, Db, Options, ScanRange};

/// Values, and when they expire, in microseconds since 1970.
type Rows = BTreeMap<Vec<u8>, (Vec<u8>, Option<u64>)>;

/// Pieces that some format or other might stumble over.
const PIECES: [&[u8]; 30] = [
    b"\"",
    b"\"\"",
    b",",
    b"\n",
    b"\r",
    b"\r\n",
    b"\t",
    b" ",
    b"\\",
    b"\\n",
    b"\\x00",
    b"\0",
    b"\x7f",
    b"\x1b[0m",
    b"\xff",
    b"\xc3",
    b"\xed\xa0\x80",
    "\u{feff}".as_bytes(),
    "é".as_bytes(),
    "語".as_bytes(),
    "🦀".as_bytes(),
    b"'",
    b"key",
    b"value",
    b"base64",
    b"eA==",
    b"{",
    b"#",
    b"0",
    b"=1+1",
];

fn text(rng: &mut Rng, pieces_max: u64) -> Vec<u8> {
    if rng.one_in(4) {
        let len = rng.below(40) as usize;
        return rng.bytes(len);
    }
    (0..rng.below(pieces_max)).flat_map(|_| rng.pick(&PIECES).to_vec()).collect()
}

/// For good, or for some hours or years.
fn some_time(rng: &mut Rng) -> Option<u64> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros() as u64;
    rng.one_in(3).then(|| match rng.below(10) {
        0 => u64::MAX,
        _ => now + 3_600_000_000 + rng.below(1 << 52),
    })
}

fn write(store: &Path, rows: &Rows, tag: Option<&str>) {
    let db = Db::open(store, Options::default()).unwrap();
    if let Some(tag) = tag {
        db.default_tree().set_tag(tag).unwrap();
    }
    let mut batch = Batch::new();
    for (key, (value, expires_us)) in rows {
        batch.put_until_us(db.default_tree(), key, value, *expires_us).unwrap();
    }
    db.write(&batch).unwrap();
    db.close().unwrap();
}

fn read(store: &Path) -> (Rows, Option<String>) {
    let db = Db::open_read_only(store, Options::default()).unwrap();
    let (mut scan, mut rows) = (db.scan(ScanRange::all()).unwrap(), Rows::new());
    while scan.advance().unwrap() {
        rows.insert(scan.key().to_vec(), (scan.value().unwrap().to_vec(), scan.expires_us()));
    }
    (rows, db.default_tree().tag())
}

/// Exports `rows` in every format and imports them again, from a file and through a pipe.
fn go_and_come_back(rows: &Rows, tag: Option<&str>, options: &str) {
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("esker.db"), rows, tag);
    for (format, columns) in [
        ("csv", " --columns key,value,expires_us"),
        ("tsv", " --columns expires_us,value,key"),
        ("jsonl", ""),
    ] {
        let done = esker(dir.path(), &format!("export rows.{format}{columns}"));
        assert_eq!((done.code, done.stderr().as_str()), (0, ""), "{format}");
        let done = esker(dir.path(), &format!("--db {format}.db {options} import rows.{format}"));
        assert_eq!(done.code, 0, "{format}: {}", done.stderr());
        let (back, back_tag) = read(&dir.path().join(format!("{format}.db")));
        assert!(back == *rows, "{format}");
        assert_eq!(back_tag.as_deref(), tag.or(Some("text")), "{format}");

        let exported = esker(dir.path(), &format!("export - --format {format}{columns}"));
        assert!(exported.stdout == fs::read(dir.path().join(format!("rows.{format}"))).unwrap());
        let line = format!("--db {format}-pipe.db {options} import - --format {format}");
        let done = esker_with(dir.path(), &line, &exported.stdout);
        assert_eq!(done.code, 0, "{format}: {}", done.stderr());
        assert!(read(&dir.path().join(format!("{format}-pipe.db"))).0 == *rows, "{format} through a pipe");
    }
}

#[test]
fn any_bytes_survive_every_format() {
    let mut rng = Rng::new(test_kit::seed(1));
    let mut rows = Rows::new();
    for _ in 0..4_000 {
        let (mut key, value) = (text(&mut rng, 6), text(&mut rng, 12));
        key.truncate(1_000);
        if !key.is_empty() {
            let expires_us = some_time(&mut rng);
            rows.insert(key, (value, expires_us));
        }
    }
    // Longer than any buffer, as text and as bytes that are none; one with a line break a byte.
    let long_text = "zwölf \"Boxkämpfer\"\n".repeat(100_000).into_bytes();
    rows.insert(b"long text".to_vec(), (long_text, some_time(&mut rng)));
    rows.insert(b"long bytes".to_vec(), (rng.bytes(2_500_000), Some(u64::MAX - 1)));
    rows.insert(b"lines".to_vec(), (vec![b'\n'; 1_200_000], None));
    rows.insert(rng.bytes(60_000), (Vec::new(), some_time(&mut rng)));
    go_and_come_back(&rows, None, "--keys text");
}

#[test]
fn every_type_survives_every_format() {
    let mut rng = Rng::new(test_kit::seed(1));
    let types = ["text", "hex", "u64", "i64", "u32", "i32"];
    for (keys, values) in types.iter().zip(types.iter().cycle().skip(1)) {
        let bytes = |rng: &mut Rng, data: &str| match data {
            "text" | "hex" => text(rng, 8),
            data => rng.bytes(if data.ends_with("64") { 8 } else { 4 }),
        };
        let rows: Rows = (0..300)
            .map(|_| (bytes(&mut rng, keys), (bytes(&mut rng, values), some_time(&mut rng))))
            .filter(|(key, _)| !key.is_empty())
            .collect();
        let tag = format!("{keys} {values}");
        let tag = tag.strip_suffix(" text").unwrap_or(&tag);
        go_and_come_back(&rows, Some(tag), &format!("--keys {keys} --values {values}"));
    }
}

/// Whole rows, in the order of the file, and the same import again completes them.
#[test]
fn an_import_that_is_interrupted_leaves_whole_rows_and_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let rows = 30_000;
    let row = |i: u64| format!("{i:05},\"{i}\n{}\"\n", "x".repeat(100));
    let all: String = std::iter::once("key,value\n".to_owned()).chain((0..rows).map(row)).collect();
    fs::write(dir.path().join("rows.csv"), &all).unwrap();
    assert_eq!(esker(dir.path(), "run /dev/null").code, 0);
    let mut command = esker_in(dir.path());
    command.args(["import", "-", "--format", "csv"]).stdin(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    std::io::Write::write_all(&mut stdin, &all.as_bytes()[..all.len() / 2]).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let (found, _) = read(&dir.path().join("esker.db"));
    for (i, (key, (value, _))) in found.iter().enumerate() {
        let i = i as u64;
        let whole = format!("{i}\n{}", "x".repeat(100));
        assert_eq!((key.as_slice(), value.as_slice()), (format!("{i:05}").as_bytes(), whole.as_bytes()));
    }
    assert!((found.len() as u64) < rows);
    assert_eq!(esker(dir.path(), "import rows.csv").code, 0);
    assert_eq!(esker(dir.path(), "count").stdout(), format!("{rows}\n"));
}

/// Compressed rows are rows; what was cut off ends with what is whole, and an error.
#[test]
fn compressed_files_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let rows: String = (0..20_000).map(|i| format!("{i:05},value {i}\n")).collect();
    let csv = format!("key,value\n{rows}");
    let gzip = |bytes: &str| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut encoder, bytes.as_bytes()).unwrap();
        encoder.finish().unwrap()
    };
    let zstd = |bytes: &str| zstd::encode_all(bytes.as_bytes(), 1).unwrap();
    fs::write(dir.path().join("rows.csv.gz"), gzip(&csv)).unwrap();
    fs::write(dir.path().join("rows.CSV.zst"), zstd(&csv)).unwrap();
    fs::write(dir.path().join("rows.csv"), [gzip("key,value\n"), gzip(&rows)].concat()).unwrap();
    let lines = rows.replace(',', " ");
    for import in ["import rows.csv.gz", "import rows.CSV.zst", "import rows.csv"] {
        let done = esker(dir.path(), &format!("--db new.db {import}"));
        assert_eq!(done.code, 0, "{import}: {}", done.stderr());
        assert_eq!(esker(dir.path(), "--db new.db scan").stdout(), lines, "{import}");
        assert_eq!(esker(dir.path(), "--db new.db destroy --yes new.db").code, 0);
    }
    let done = esker_with(dir.path(), "import -", &zstd(&lines));
    assert_eq!(done.code, 0, "{}", done.stderr());
    assert_eq!(esker(dir.path(), "scan").stdout(), lines);
    let puts: String = lines.lines().map(|line| format!("PUT {line}\n")).collect();
    assert_eq!(esker_with(dir.path(), "--tree run run -", &gzip(&puts)).code, 0);
    assert_eq!(esker(dir.path(), "--tree run count").stdout(), "20000\n");

    let whole = gzip(&csv);
    fs::write(dir.path().join("cut.csv.gz"), &whole[..whole.len() - 9]).unwrap();
    let done = esker(dir.path(), "--tree cut import cut.csv.gz");
    assert_eq!(done.code, 2, "{}", done.stderr());
    assert!(done.stderr().contains("cannot read cut.csv.gz: "), "{}", done.stderr());
    let kept = esker(dir.path(), "--tree cut scan").stdout();
    assert!(lines.starts_with(&kept) && !kept.is_empty() && kept.ends_with('\n'));
}

/// Standard output stays plain, and a file that cannot be written whole is no success.
#[test]
fn exports_are_compressed_as_their_names_say() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let rows: String = (0..60_000).map(|i| format!("PUT {i:05} value {i}\n")).collect();
    assert_eq!(esker_with(dir.path(), "run -", rows.as_bytes()).code, 0);
    assert_eq!(esker(dir.path(), "put long --file /dev/null").code, 0);
    fs::write(path("long"), "long ".repeat(1_000_000)).unwrap();
    assert_eq!(esker(dir.path(), "put long --file long").code, 0);
    let scanned = esker(dir.path(), "scan").stdout;
    for (name, first) in test_kit::some_of([
        ("rows.csv.gz", &b"\x1f\x8b"[..]),
        ("rows.jsonl.zst", b"\x28\xb5\x2f\xfd"),
        ("rows.TSV.ZST", b"\x28\xb5\x2f\xfd"),
        ("rows.json.gz", b"\x1f\x8b"),
        ("rows.gz", b"\x1f\x8b"),
    ]) {
        fs::write(path(name), "old").unwrap();
        let done = esker(dir.path(), &format!("export {name}"));
        assert_eq!(done.code, 0, "{name}: {}", done.stderr());
        let written = fs::read(path(name)).unwrap();
        assert!(written.starts_with(first) && written.len() < scanned.len() / 3, "{name}: {}", written.len());
        let done = esker(dir.path(), &format!("--db {name}.db import {name}"));
        assert_eq!(done.code, 0, "{name}: {}", done.stderr());
        assert!(esker(dir.path(), &format!("--db {name}.db scan")).stdout == scanned, "{name}");
    }
    let done = esker(dir.path(), "export - --format tsv");
    assert!(done.stdout.starts_with(b"key\tvalue\n00000\tvalue 0\n"));
    for name in ["full.csv.gz", "full.csv.zst"] {
        std::os::unix::fs::symlink("/dev/full", path(name)).unwrap();
        let done = esker(dir.path(), &format!("export {name}"));
        assert_eq!(done.code, 3, "{name}: {}", done.stderr());
    }
}

/// An archive or a database under any name; what says that it is lines, is.
#[test]
fn a_file_that_is_no_text_is_not_taken_for_lines() {
    let dir = tempfile::tempdir().unwrap();
    let tar = [&b"words.txt"[..], &[0; 100], b"one 1\ntwo 2\n"].concat();
    for (name, content) in [("x.tar", tar.clone()), ("x", [b"SQLite format 3\0", &tar[..]].concat())] {
        fs::write(dir.path().join(name), content).unwrap();
        let done = esker(dir.path(), &format!("import {name}"));
        assert_eq!(done.code, 2, "{name}: {}", done.stderr());
        assert!(done.stderr().contains("--format lines"), "{name}: {}", done.stderr());
        assert!(!dir.path().join("esker.db").exists(), "{name}");
    }
    assert_eq!(esker(dir.path(), "import x.tar --format lines").code, 0);
    assert_eq!(esker(dir.path(), "count").stdout(), "2\n");
    assert_eq!(esker_with(dir.path(), "--db piped.db import -", &tar).code, 0);
    // A zero byte far behind is one of a value.
    let text = [b"k ".repeat(8_000), b"\nl \0\n".to_vec()].concat();
    fs::write(dir.path().join("late.txt"), text).unwrap();
    assert_eq!(esker(dir.path(), "--db late.db import late.txt").code, 0);
}

/// What unpacks to far more than memory is read in pieces, and rows that have no end are refused.
#[test]
fn bombs_are_read_in_bounded_memory() {
    let dir = tempfile::tempdir().unwrap();
    let bomb = |line: &[u8], count: u64| {
        let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
        (0..count).for_each(|_| std::io::Write::write_all(&mut encoder, line).unwrap());
        encoder.finish().unwrap()
    };
    // The same row over and over, and in JSON: more than the memory that there is.
    let value = "x".repeat(100_000);
    fs::write(dir.path().join("rows.zst"), bomb(format!("a {value}\n").as_bytes(), 1_600)).unwrap();
    fs::write(dir.path().join("rows.json.zst"), bomb(format!("[[\"b\",\"{value}\"]] ").as_bytes(), 1_600))
        .unwrap();
    let mut keys = String::new();
    for (import, key) in test_kit::some_of([("import rows.zst", "a\n"), ("import rows.json.zst", "b\n")]) {
        let command = format!("ulimit -v 150000; exec \"$0\" --memory 16M {import}");
        let mut limited = std::process::Command::new("sh");
        limited.current_dir(dir.path()).env_remove("ESKER_DB");
        let done = limited.args(["-c", &command, env!("CARGO_BIN_EXE_esker")]).output().unwrap();
        assert!(done.status.success(), "{import}: {}", String::from_utf8_lossy(&done.stderr));
        keys += key;
        assert_eq!(esker(dir.path(), "scan --keys-only").stdout(), keys);
    }
}

/// Neither a link nor a pipe that an export's directory holds leads elsewhere, or is waited for.
#[test]
fn what_stands_for_a_key_in_a_directory_must_be_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let long = "k".repeat(2_000);
    fs::write(dir.path().join("rows"), format!("{long} value\nshort value\n")).unwrap();
    assert_eq!(esker(dir.path(), "import rows").code, 0);
    fs::write(dir.path().join("secret"), "secret").unwrap();
    let fifo = |path: &Path| {
        assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
    };
    for case in ["link", "fifo", "absent", "long"] {
        assert_eq!(esker(dir.path(), &format!("export {case}/")).code, 0);
        let key = dir.path().join(case).join("%long/1.key");
        fs::remove_file(&key).unwrap();
        match case {
            "link" => std::os::unix::fs::symlink(dir.path().join("secret"), &key).unwrap(),
            "fifo" => fifo(&key),
            "long" => fs::write(&key, vec![b'k'; 2 << 20]).unwrap(),
            _ => {}
        }
        let done = esker(dir.path(), &format!("--db {case}.db import {case}"));
        assert_eq!(done.code, 3, "{case}: {}", done.stderr());
        assert!(done.stderr().contains("its key") && done.stderr().contains("1.key"), "{}", done.stderr());
        assert_eq!(esker(dir.path(), &format!("--db {case}.db scan")).stdout(), "short value\n");
    }
    // And so with the file that says that a directory is an export.
    fs::create_dir(dir.path().join("marked")).unwrap();
    fifo(&dir.path().join("marked/.esker-export"));
    for command in ["--db marked.db import marked", "export marked/"] {
        let done = esker(dir.path(), command);
        assert!(done.code == 3 && done.stderr().contains("not a regular file"), "{}", done.stderr());
    }
}

/// Two texts of JSON in a row are not JSON.
#[test]
fn nothing_is_appended_to_json() {
    let dir = tempfile::tempdir().unwrap();
    let esker = |arguments: &str| esker(dir.path(), arguments);
    // In a tree that is there, and in the first one of a store that would be new.
    assert_eq!(esker("--db store --values json put k 5").code, 0);
    for arguments in ["--db store merge k --append 5", "--db new --values json merge k --append 5"] {
        let done = esker(arguments);
        assert!(
            done.code == 2 && done.stderr().contains("would not be JSON"),
            "{arguments}: {}",
            done.stderr()
        );
    }
    assert_eq!(esker("--db store get k").stdout(), "5\n");
    assert!(!dir.path().join("new").exists());
}
