//! Files as other programs write them: `import` stores what they mean, or refuses them and says why.

use std::fs;
use std::path::Path;

use crate::support::{Done, esker, esker_in, esker_with, run};

fn import(dir: &Path, name: &str, content: &[u8], options: &[&str]) -> Done {
    fs::write(dir.join(name), content).unwrap();
    let _ = fs::remove_dir_all(dir.join("db"));
    let mut command = esker_in(dir);
    command.args(["--db", "db", "import", name]).args(options);
    run(command, b"")
}

/// The rows that an import stores, as JSON Lines.
#[track_caller]
fn is_read(dir: &Path, name: &str, content: &[u8], options: &[&str], rows: &[(&str, &str)]) {
    let done = import(dir, name, content, options);
    assert_eq!(done.code, 0, "{name} {options:?}: {}", done.stderr());
    let found = esker(dir, "--db db export - --format tsv").stdout();
    let expected: String = rows.iter().map(|(key, value)| format!("{key}\t{value}\n")).collect();
    assert_eq!(found.strip_prefix("key\tvalue\n"), Some(expected.as_str()), "{name} {options:?}");
}

/// What is told of a file that is refused.
#[track_caller]
fn is_refused(dir: &Path, name: &str, content: &[u8], options: &[&str], told: &str) {
    let done = import(dir, name, content, options);
    assert_eq!(done.code, 2, "{name} {options:?}: {}", done.stderr());
    assert!(done.stderr().contains(told), "{name} {options:?}: {}", done.stderr());
}

fn utf_16(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

#[test]
fn marks_and_encodings_are_recognized_or_said() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let contents = [
        ("a.txt", "a größe\nb 2\n"),
        ("a.csv", "key,value\na,größe\nb,2\n"),
        ("a.tsv", "key\tvalue\na\tgröße\nb\t2\n"),
        ("a.jsonl", "{\"key\":\"a\",\"value\":\"größe\"}\n{\"key\":\"b\",\"value\":2}\n"),
        ("a.json", "[[\"a\",\"größe\"],[\"b\",2]]"),
    ];
    let rows = [("a", "größe"), ("b", "2")];
    for (name, text) in contents {
        is_read(dir, name, text.as_bytes(), &[], &rows);
        is_read(dir, name, format!("\u{feff}{text}").as_bytes(), &[], &rows);
        is_read(dir, name, &utf_16(&format!("\u{feff}{text}")), &[], &rows);
        is_read(dir, name, &utf_16(text), &["--encoding", "utf-16le"], &rows);
        let latin: Vec<u8> = text.chars().map(|c| c as u8).collect();
        is_read(dir, name, &latin, &["--encoding", "latin-1"], &rows);
        is_read(dir, name, &latin, &["--encoding", "windows-1252"], &rows);
        if name != "a.txt" {
            is_refused(dir, name, &latin, &[], "--encoding windows-1252");
            is_refused(dir, name, &utf_16(text), &[], "--encoding utf-16le");
        }
        is_refused(dir, name, &utf_16(&format!("\u{feff}{text}")), &["--encoding", "utf-8"], "utf-16le");
    }
    is_read(dir, "a.csv", b"key,value\na,\x83J\n", &["--encoding", "shift_jis"], &[("a", "カ")]);
    is_read(
        dir,
        "a.jsonl",
        b"{\"key\":\"a\",\"value\":\"\xcf\"}",
        &["--encoding", "windows-1251"],
        &[("a", "П")],
    );
    is_refused(
        dir,
        "a.json",
        b"[]",
        &["--encoding", "bytes"],
        "a row with \"encoding\":\"base64\" has any bytes",
    );
    is_refused(
        dir,
        "a.jsonl",
        b"{\"key\":\"a\",\"value\":\"\xff\"}\n",
        &[],
        "gb18030, ...) says how the text is encoded, and a row with",
    );
    is_refused(dir, "a.csv", b"", &["--encoding", "cp437"], "iconv -f cp437");
    // The rows before an invalid byte are stored.
    is_refused(dir, "a.csv", b"key,value\na,1\nb,\x81\n", &["--encoding", "windows-1252"], "byte 16 ");
    assert_eq!(esker(dir, "--db db scan").stdout(), "a 1\n");
    for (name, row) in
        [("a.txt", "a \\xf6"), ("a.csv", "key,value\na,\\xf6"), ("a.tsv", "key\tvalue\na\t\\xf6")]
    {
        let bytes = row.replace("\\xf6", "\u{f6}").chars().map(|c| c as u8).collect::<Vec<_>>();
        is_read(dir, name, &bytes, &["--encoding", "bytes"], &[("a", "\\xf6")]);
    }
    // A first key that begins with a mark goes out and comes back.
    is_read(dir, "a.txt", "\u{feff}\u{feff}a 1\n".as_bytes(), &[], &[("\\xef\\xbb\\xbfa", "1")]);
    let out = esker(dir, "--db db export -").stdout;
    is_read(dir, "b.txt", &out, &[], &[("\\xef\\xbb\\xbfa", "1")]);
    for first in
        [&b"\xff\xfea"[..], b"\xfe\xff", b"\x1f\x8b", b"\x28\xb5\x2f\xfd", b"BZh91AY&SY", b"PK\x03\x04"]
    {
        let _ = fs::remove_dir_all(dir.join("odd"));
        let row = [b"\xef\xbb\xbf", first, b"\t1\n"].concat();
        assert_eq!(esker_with(dir, "--db odd import - --format lines", &row).code, 0);
        let out = esker(dir, "--db odd export -").stdout;
        assert_eq!(out, row);
    }
    let done = esker_with(dir, "--db marked run -", "\u{feff}PUT a 1\r\nGET a\r\n".as_bytes());
    assert_eq!((done.code, done.stdout().as_str()), (0, "a 1\n"), "{}", done.stderr());
}

#[test]
fn wide_text_without_a_mark_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let utf_32 = |text: &str| text.chars().flat_map(|one| u32::from(one).to_be_bytes()).collect::<Vec<u8>>();
    for text in
        ["a,b", "key,value\r\na,1\r\n", "\u{430}\u{431},\u{432}\u{433}", "\u{430},\u{431}\n\u{432},\u{433}\n"]
    {
        for (name, options) in [("a.csv", &["--no-header"][..]), ("a.txt", &[]), ("a", &[])] {
            is_refused(
                dir,
                name,
                &utf_16(text),
                options,
                "this looks like UTF-16 without a byte order mark: --encoding utf-16le",
            );
            is_refused(
                dir,
                name,
                &utf_32(text),
                options,
                "this looks like UTF-32 without a byte order mark: `iconv -f utf-32be",
            );
            assert!(!dir.join("db").exists(), "{text} {name}");
        }
    }
    is_read(dir, "a.csv", &utf_16("a,b"), &["--no-header", "--encoding", "utf-16le"], &[("a", "b")]);
    is_read(
        dir,
        "a.csv",
        b"a\0,\0b\0",
        &["--no-header", "--encoding", "bytes"],
        &[("a\\x00", "\\x00b\\x00")],
    );
}

#[test]
fn csv_under_another_name_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    for header in ["key,value", "Key;Value;expires_us", "key,value\r"] {
        is_refused(dir, "a.txt", format!("{header}\na,1\n").as_bytes(), &[], "--format csv");
    }
    let lines = [("a,1", ""), ("key,value", "")];
    is_read(dir, "a.txt", b"key,value\na,1\n", &["--format", "lines"], &lines);
    is_read(dir, "a.txt", b"keys,value\n", &[], &[("keys,value", "")]);
}

#[test]
fn what_readers_of_csv_disagree_about_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    for (row, told) in [
        ("a,\"3.5\" disk\"", "write a quote twice"),
        ("a,\"b\"c", "write a quote twice"),
        ("a, \"b\"", "blank at the start"),
        ("a,\"b", "not closed"),
        ("a,b\rc,d", "carriage return"),
        ("a,\"b\nc\" d", "write a quote twice"),
        ("a", "1 column"),
        ("a,b,c", "3 columns"),
        (",b", "empty"),
    ] {
        is_refused(dir, "a.csv", format!("key,value\nfirst,1\n{row}\n").as_bytes(), &[], told);
        assert_eq!(esker(dir, "--db db scan").stdout(), "first 1\n", "{row}");
    }
    is_read(
        dir,
        "a.csv",
        b"key,value\na,5\" pipe\nb,\"x \"\"y\"\"\"\n",
        &[],
        &[("a", "5\" pipe"), ("b", "x \"y\"")],
    );
    is_read(dir, "a.csv", b"key;value\na;1,5\n", &["--separator", ";"], &[("a", "1,5")]);
    is_read(dir, "a.csv", "\u{feff}sep=;\r\nkey;value\r\na;1,5\r\n".as_bytes(), &[], &[("a", "1,5")]);
    is_read(dir, "a.csv", b"key\tvalue\na\t\"1\t\"\n", &["--separator", "\\t"], &[("a", "1\\t")]);
    is_refused(dir, "a.csv", b"key;value\na;1,5\n", &[], "--separator ';'");
    is_refused(dir, "a.csv", b"a;1,5\n", &["--no-header"], "--separator ';'");
    is_read(dir, "a.csv", b"a;1,5\n", &["--no-header", "--separator", ","], &[("a;1", "5")]);
    is_read(dir, "a.csv", b"key,value,;\na,1,\n", &[], &[("a", "1")]);
    is_refused(dir, "a.tsv", b"key\tvalue\n", &["--separator", ";"], "--separator is for CSV");
    for (name, content) in
        [("a.txt", &b"a 1\rb 2\r"[..]), ("a.tsv", b"key\tvalue\ra\t1\r"), ("a.csv", b"key,value\ra,1\r")]
    {
        is_refused(dir, name, content, &[], "carriage return");
    }
    for row in ["a\t\"b \"\"c\"\"\"", "a\tb\rc"] {
        is_refused(dir, "a.tsv", format!("key\tvalue\nfirst\t1\n{row}\n").as_bytes(), &[], "a.tsv:3: ");
    }
    is_refused(dir, "a.tsv", b"\"key\"\t\"value\"\n\"a\"\t\"b\"\n", &["--header"], "--format csv");
    for row in ["1\t\"Smith, John\"", "1\t\"line\n2\tline\"", "1\t\"tab\there\"", "\"1\"\tx"] {
        is_refused(
            dir,
            "a.tsv",
            format!("key\tvalue\n{row}\n").as_bytes(),
            &[],
            "--format csv --separator '\\t'",
        );
    }
    is_read(dir, "a.tsv", b"key\tvalue\n1\t3.5\" disk\n", &[], &[("1", "3.5\" disk")]);
    for (name, line) in [
        ("a.bak", "{\"key\":\"a\",\"value\":\"b\"}\n"),
        ("a.txt", "[\n  {\"key\":1}]\n"),
        ("a.txt", "{\n \"key\": 1\n}\n"),
        ("a", "{ \"key\": 1 }\n{}\n"),
    ] {
        is_refused(dir, name, line.as_bytes(), &[], "--format jsonl");
    }
    is_read(dir, "a.txt", b"{} 1\n{\"a 2\n", &[], &[("{\"a", "2"), ("{}", "1")]);
    is_read(dir, "a.ldjson", b"{\"key\":\"a\",\"value\":\"b\"}\n", &[], &[("a", "b")]);
    let quoted = b"key\tvalue\na\t\"b \"\"c\"\"\"\n";
    is_read(dir, "a.tsv", quoted, &["--format", "csv", "--separator", "\\t"], &[("a", "b \"c\"")]);
    is_read(dir, "a.tsv", quoted, &["--format", "tsv"], &[("a", "\\x22b \"\"c\"\"\"")]);
    // What is exported can be imported, whatever it begins with.
    fs::write(dir.join("out.tsv"), esker(dir, "--db db export - --format tsv").stdout).unwrap();
    let done = esker(dir, "--db back import out.tsv");
    assert_eq!((done.code, esker(dir, "--db back get a").stdout().as_str()), (0, "\"b \"\"c\"\"\"\n"));
    let done = esker_with(dir, "--db other run -", b"PUT a 1\rPUT b 2\r");
    assert_eq!(done.code, 2, "{}", done.stderr());
    is_read(dir, "a.txt", b"a x\ry\nb 2\r\n", &[], &[("a", "x\\ry"), ("b", "2")]);
}

/// With `--keep-going`, nothing of a refused row is stored.
#[test]
fn a_refused_row_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let content = b"key,value\na,\"x\n\xff\ny\"\nb,2\nc,\"3\"4\nd,5\n";
    let done = import(dir, "a.csv", content, &["--keep-going"]);
    assert_eq!(done.code, 2, "{}", done.stderr());
    assert!(done.stderr().contains("a.csv:2: the line has the byte 0xff"), "{}", done.stderr());
    assert!(done.stderr().contains("a.csv:6: "), "{}", done.stderr());
    assert_eq!(esker(dir, "--db db scan").stdout(), "b 2\nd 5\n");
}

#[test]
fn json_values_stay_as_they_are_written() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    for number in ["1E5", "1.50", "-0", "1e-7", "123456789012345678901234567890"] {
        let object = format!("{{\"key\":\"a\",\"value\":{number}}}");
        for (name, content) in [("a.jsonl", object.clone()), ("a.json", format!("[{object}]"))] {
            is_read(dir, name, content.as_bytes(), &[], &[("a", number)]);
        }
    }
    let values = ["null", "true", "[1,{\"b\":\"x y\"}]", "{\"c\":1.50}"];
    for value in values {
        let object = format!("{{\"key\":\"a\",\"value\":{value}}}");
        for (name, content) in [("a.jsonl", object.clone()), ("a.json", format!("[{object}]"))] {
            is_refused(dir, name, content.as_bytes(), &[], "--values json");
            assert!(!dir.join("db").exists());
        }
    }
    let rows: String = values
        .iter()
        .chain(&["\"text\"", "1E5"])
        .enumerate()
        .fold(String::new(), |rows, (i, value)| format!("{rows}{{\"key\":\"{i}\",\"value\":{value}}}\n"));
    let done = import(dir, "a.jsonl", rows.as_bytes(), &["--values", "json"]);
    assert_eq!(done.code, 0, "{}", done.stderr());
    assert_eq!(esker(dir, "--db db export - --format jsonl").stdout(), rows);
    assert_eq!(esker(dir, "--db db get 3").stdout(), "{\"c\":1.50}\n");
    // The tree knows its type.
    assert_eq!(esker_with(dir, "--db db import - --format jsonl", b"{\"key\":\"9\",\"value\":[ ]}").code, 0);
    assert_eq!(esker(dir, "--db db get 9").stdout(), "[]\n");
    assert_eq!(esker(dir, "--db db put 9 {").code, 2);
    // A file is stored as it is, and shown on one line.
    fs::write(dir.join("pretty"), "{\n  \"a\": [1.50]\n}\n").unwrap();
    assert_eq!(esker(dir, "--db db put 8 --file pretty").code, 0);
    assert_eq!(esker(dir, "--db db get 8 --file -").stdout(), "{\n  \"a\": [1.50]\n}\n");
    assert_eq!(esker(dir, "--db db scan 8 8").stdout(), "8 {\"a\":[1.50]}\n");
    fs::write(dir.join("pretty"), "{").unwrap();
    assert_eq!(esker(dir, "--db db put 8 --file pretty").code, 2);
    for format in ["csv", "tsv", "json"] {
        let out = esker(dir, &format!("--db db export - --format {format}"));
        let done =
            esker_with(dir, &format!("--db {format} --values json import - --format {format}"), &out.stdout);
        assert_eq!(done.code, 0, "{format}: {}", done.stderr());
        let [there, back] =
            ["db", format].map(|db| esker(dir, &format!("--db {db} export - --format jsonl")).stdout());
        assert_eq!(there, back, "{format}");
    }
    for wrong in [
        "{\"key\":\"a\",\"value\":1,\"value\":2}",
        "{\"key\":\"a\",\"value\":\"\\ud800\"}",
        "{\"key\":\"a\",\"value\":NaN}",
    ] {
        is_refused(dir, "a.jsonl", wrong.as_bytes(), &[], "a.jsonl:1:");
        is_refused(dir, "a.json", wrong.as_bytes(), &[], "a.json");
    }
}

#[test]
fn a_row_takes_a_part_of_the_memory_that_is_allowed() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let long = "x".repeat(3 << 20);
    let lines = "\n".repeat(3 << 20);
    for (name, content) in [
        ("a.txt", format!("a {long}\n")),
        ("a.csv", format!("key,value\na,{long}\n")),
        ("b.csv", format!("key,value\na,\"{lines}\"\n")),
        ("a.tsv", format!("key\tvalue\na\t{long}\n")),
        ("a.jsonl", format!("{{\"key\":\"a\",\"value\":\"{long}\"}}\n")),
        ("a.json", format!("[[\"a\",\"{long}\"]]")),
    ] {
        is_refused(dir, name, content.as_bytes(), &["--memory", "16M"], "memory");
        assert_eq!(import(dir, name, content.as_bytes(), &["--memory", "64M"]).code, 0, "{name}");
        let done = esker(dir, "--db db --memory 16M export - --format jsonl");
        assert!(done.code == 2 && done.stderr().contains("esker export DIR/"), "{}", done.stderr());
    }
}

#[test]
fn what_is_not_text_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let gzip = |bytes: &[u8]| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut encoder, bytes).unwrap();
        encoder.finish().unwrap()
    };
    let mut tar = vec![0; 512];
    tar[257..262].copy_from_slice(b"ustar");
    for (content, told) in [
        (gzip(&gzip(b"key,value\na,1\n")), "compressed twice"),
        (gzip(&tar), "tar archive"),
        (b"SQLite format 3\0x".to_vec(), "SQLite"),
        (b"PK\x03\x04x".to_vec(), "unzip -p"),
        (b"BZh91AY&SYx".to_vec(), "bzip2 -dc"),
        (b"\xfd7zXZ\0x".to_vec(), "xz -dc"),
        (b"PAR1xxx".to_vec(), "Parquet"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1".to_vec(), "Excel"),
        (b"\xff\x06\0\0sNaPpY".to_vec(), "snappy"),
    ] {
        for name in ["a.csv", "a.json", "a.dat"] {
            is_refused(dir, name, &content, &[], told);
        }
        assert!(!dir.join("db").exists());
    }
    let mut skipped = b"\x50\x2a\x4d\x18\x04\0\0\0abcd".to_vec();
    skipped.extend(zstd_of(b"key,value\na,1\n"));
    is_read(dir, "a.csv.zst", &skipped, &[], &[("a", "1")]);
}

/// A zstd frame with one raw block.
fn zstd_of(bytes: &[u8]) -> Vec<u8> {
    let mut frame = b"\x28\xb5\x2f\xfd\x20".to_vec();
    frame.push(u8::try_from(bytes.len()).unwrap());
    let header = (bytes.len() as u32) << 3 | 1;
    frame.extend_from_slice(&header.to_le_bytes()[..3]);
    frame.extend_from_slice(bytes);
    frame
}

/// Tables as pandas writes them: columns whose names are numbers, and the orientations of `to_json`.
#[test]
fn tables_of_pandas_are_read_or_refused_with_a_hint() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    // `DataFrame([["a", "b"], ["c", "d"]]).to_csv(index=False)`: the names are 0 and 1, the columns 1 and 2.
    let (numbered, both) = (b"0,1\na,b\nc,d\n", &["--header", "--key-column", "1", "--value-column", "2"]);
    is_refused(dir, "a.csv", numbered, both, "tail -n +2");
    is_refused(dir, "a.tsv", b"0\t1\na\tb\n", both, "1 is the name of column 2");
    is_read(dir, "a.csv", numbered, &["--key-column", "0", "--header"], &[("a", "b"), ("c", "d")]);
    is_read(dir, "a.csv", b"1,2\na,b\n", both, &[("a", "b")]);
    let without = &["--no-header", "--key-column", "1", "--value-column", "2"];
    is_read(dir, "a.csv", b"a,b\nc,d\n", without, &[("a", "b"), ("c", "d")]);

    let rows = [("a", "b"), ("c", "1.0")];
    is_read(dir, "a.json", br#"[{"key":"a","value":"b"},{"key":"c","value":1.0}]"#, &[], &rows);
    is_read(dir, "a.json", br#"[["a","b"],["c",1.0]]"#, &[], &rows);
    let several_lines =
        b"{\n  \"key\":\"a\",\n  \"value\":\"b\"\n}\n{\n  \"key\":\"c\",\n  \"value\":1.0\n}\n";
    is_refused(dir, "a.jsonl", several_lines, &[], "--format json");
    is_read(dir, "a.jsonl", several_lines, &["--format", "json"], &rows);
    for one_object in [
        &br#"{"columns":["key","value"],"index":[0],"data":[["a","b"]]}"#[..],
        br#"{"0":{"key":"a","value":"b"}}"#,
        br#"{"key":{"0":"a"},"value":{"0":"b"}}"#,
        br#"{"schema":{"fields":[]},"data":[{"key":"a","value":"b"}]}"#,
    ] {
        for options in [&[][..], &["--values", "json"]] {
            is_refused(dir, "a.json", one_object, options, "a file is an array of rows");
        }
    }
    is_refused(dir, "a.json", br#"[{"name":"a","value":"b"}]"#, &[], "--key-column names another");
    is_refused(dir, "a.json", br#"[{"key":"a","n":"b"}]"#, &[], "--value-column names another");
    is_refused(dir, "a.json", br#"[["a","b",1]]"#, &[], "are to be objects");
    is_refused(dir, "a.json", br#"[{"key":"a","value":null}]"#, &[], "--values json");
}

/// Tables and servers would find something else in them, and refuse the store.
#[test]
fn trees_of_tables_and_servers_are_not_made_by_hand() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let with = |arguments: &[&str]| {
        let mut command = esker_in(dir);
        command.args(["--db", "db"]).args(arguments);
        run(command, b"")
    };
    assert_eq!(with(&["put", "a", "1"]).code, 0);
    for name in ["tables", "table 1.0", "default.elements", "db7.elements", "default.cursors"] {
        let done = with(&["--tree", name, "put", "a", "1"]);
        assert_eq!(done.code, 2, "{name}: {}", done.stderr());
        assert!(done.stderr().contains("choose another name"), "{name}: {}", done.stderr());
    }
    for name in ["table", "elements", "people.elements", "db5000.elements"] {
        let done = with(&["--tree", name, "put", "a", "1"]);
        assert_eq!(done.code, 0, "{name}: {}", done.stderr());
    }
    let done = with(&["ql", "-e", "CREATE TABLE t (a)"]);
    assert_eq!(done.code, 0, "{}", done.stderr());
}
