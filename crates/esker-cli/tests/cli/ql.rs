//! `esker ql`: statements from arguments, pipes, files and a terminal; files that are loaded and dumped.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::thread::JoinHandle;

use rexpect::session::{PtySession, spawn_command};

use crate::support::{Done, esker, esker_in, esker_with, run};

/// A machine that is stopped for a while is no failure.
const PATIENCE_MS: u64 = 60_000;

/// Runs `statements` in the store of `dir`.
fn ql(dir: &Path, statements: &str) -> Done {
    ql_with(dir, &[], statements)
}

fn ql_with(dir: &Path, options: &[&str], statements: &str) -> Done {
    let mut command = esker_in(dir);
    command.arg("ql").args(options).args(["-e", statements]);
    run(command, b"")
}

/// The same, when it succeeds: what it prints.
#[track_caller]
fn prints(dir: &Path, statements: &str) -> String {
    let done = ql(dir, statements);
    assert_eq!(done.code, 0, "{statements}: {}", done.stderr());
    done.stdout()
}

#[track_caller]
fn fails(done: &Done, code: i32, message: &str) {
    assert!(done.code == code && done.stderr().contains(message), "{} {}", done.code, done.stderr());
}

const SAMPLE: &str = "CREATE TABLE t (f, n COUNTER); \
    INSERT INTO t VALUES (1, 'row', f:q, 'value'), (5, 'r2', f:'a,b', x'00ff0a09'), (7, 'r3', f:x, 'two\nlines \"<&>'), \
    (8, 'r3', n:c, x'0000000000000007');";

/// A mistyped path is not a new store.
#[test]
fn only_a_first_table_or_namespace_makes_a_store() {
    let dir = tempfile::tempdir().unwrap();
    let reading =
        ["SELECT * FROM t", "SHOW TABLES", "GET LISTING", "USE n", "DESCRIBE TABLE t", "EXISTS TABLE t"];
    let changing = [
        "INSERT INTO t VALUES ('r', f:, 'v')",
        "DELETE * FROM t WHERE ROW = 'r'",
        "ALTER TABLE t ADD (g)",
        "CREATE TABLE t LIKE u",
        "LOAD DATA INFILE 'none' INTO TABLE t",
    ];
    for statement in reading.iter().chain(&changing) {
        fails(&ql(dir.path(), statement), 3, "there is no store at ./esker.db (put,");
        assert!(!dir.path().join("esker.db").exists(), "{statement}");
    }
    for (statement, code) in [("", 0), ("QUIT", 0), ("HELP", 0), ("x", 2), ("CREATE TABLE t (f, f)", 2)] {
        assert_eq!(ql(dir.path(), statement).code, code, "{statement}");
    }
    fails(&ql(dir.path(), "CREATE TABLE t FROM FILE 'none'"), 3, "cannot read none");
    fails(&ql(dir.path(), "SHOW TABLES; CREATE TABLE t (f)"), 3, "there is no store");
    assert!(!dir.path().join("esker.db").exists());
    fails(&ql(dir.path(), "DROP TABLE t"), 2, "there is no table \"t\"");
    prints(dir.path(), "DROP TABLE IF EXISTS t; DROP NAMESPACE IF EXISTS n");
    assert!(!dir.path().join("esker.db").exists());
    assert_eq!(prints(dir.path(), "DROP TABLE IF EXISTS t; CREATE TABLE t (f); SHOW TABLES"), "t\n");
    assert_eq!(prints(dir.path(), "SHOW TABLES"), "t\n");
    let made = esker_with(dir.path(), "--db n.db ql", b"CREATE NAMESPACE n; SHOW NAMESPACES;");
    assert_eq!((made.code, made.stdout().as_str()), (0, "default\nn\n"));
}

/// Files as some programs of Windows write them, and statements.
#[test]
fn utf_16_is_read_by_its_mark() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let utf_16 =
        |text: &str, unit: fn(u16) -> [u8; 2]| -> Vec<u8> { text.encode_utf16().flat_map(unit).collect() };
    let (cells, header) = ("row\tf:q\na\tä€🦀\n", "row\tf:q\n");
    let marked = |text: &str| utf_16(&format!("\u{feff}{text}"), u16::to_le_bytes);
    fs::write(dir.join("le"), marked(cells)).unwrap();
    fs::write(dir.join("be"), utf_16(&format!("\u{feff}{cells}"), u16::to_be_bytes)).unwrap();
    fs::write(dir.join("utf-8"), format!("\u{feff}{cells}")).unwrap();
    fs::write(dir.join("header"), marked(header)).unwrap();
    fs::write(dir.join("single"), marked("a\tf:q\tä€🦀\n")).unwrap();
    let loads = ["le", "be", "utf-8"].map(|file| format!("LOAD DATA INFILE '{file}' INTO TABLE t"));
    let others = [
        "LOAD DATA INFILE SINGLE_CELL_FORMAT 'single' INTO TABLE t".to_owned(),
        "LOAD DATA INFILE HEADER_FILE = 'header' FROM_LINE = 2 'be' INTO TABLE t".to_owned(),
    ];
    for load in loads.iter().chain(&others) {
        prints(dir, &format!("DROP TABLE IF EXISTS t; CREATE TABLE t (f); {load}"));
        assert_eq!(prints(dir, "SELECT * FROM t"), "a\tf:q\tä€🦀\n", "{load}");
    }
    fs::write(dir.join("unmarked"), utf_16(cells, u16::to_le_bytes)).unwrap();
    fails(
        &ql(dir, "LOAD DATA INFILE 'unmarked' INTO TABLE t"),
        2,
        "`iconv -f utf-16le -t utf-8 FILE` makes it UTF-8",
    );
    fs::write(dir.join("utf-32"), b"\xff\xfe\0\0r\0\0\0").unwrap();
    fails(&ql(dir, "LOAD DATA INFILE 'utf-32' INTO TABLE t"), 2, "this is UTF-32");

    let statements = marked("SELECT * FROM t;\nSELECT COUNT(*) FROM t WHERE f = 'ä€🦀'");
    assert_eq!(esker_with(dir, "ql", &statements).stdout(), "a\tf:q\tä€🦀\n1\n");
    fs::write(dir.join("s.ql"), statements).unwrap();
    assert_eq!(prints(dir, "SOURCE 's.ql'"), "a\tf:q\tä€🦀\n1\n");
    fails(&esker_with(dir, "ql", b"\xff\xfe\0\0S\0\0\0"), 2, "standard input: this is UTF-32");
    fails(&esker_with(dir, "ql", b"\xff\xfeS"), 2, "is not utf-16le");
}

#[test]
fn cells_are_printed_in_each_format() {
    let dir = tempfile::tempdir().unwrap();
    prints(dir.path(), SAMPLE);
    let shows = |format: &str| {
        let done = ql_with(dir.path(), &["--format", format], "SELECT * FROM t DISPLAY_TIMESTAMPS");
        assert_eq!(done.code, 0, "{}", done.stderr());
        done.stdout()
    };
    assert_eq!(
        shows("table"),
        "row  column  timestamp  value\n---  ------  ---------  -----\nr2   f:a,b   5          \\x00\\xff\\n\\t\n\
         r3   f:x     7          two\\nlines \"<&>\nr3   n:c     8          7\nrow  f:q     1          value\n"
    );
    assert_eq!(
        shows("tsv"),
        "5\tr2\tf:a,b\t\\x00\\xff\\n\\t\n7\tr3\tf:x\ttwo\\nlines \"<&>\n8\tr3\tn:c\t7\n1\trow\tf:q\tvalue\n"
    );
    assert_eq!(
        shows("csv"),
        "row,column,timestamp,value,base64\nr2,\"f:a,b\",5,AP8KCQ==,value\nr3,f:x,7,\"two\nlines \"\"<&>\",\n\
         r3,n:c,8,7,\nrow,f:q,1,value,\n"
    );
    assert_eq!(
        shows("jsonl").lines().next(),
        Some(
            r#"{"row":"r2","family":"f","qualifier":"a,b","timestamp":5,"value":"AP8KCQ==","encoding":"base64"}"#
        )
    );
    assert_eq!(
        shows("xml"),
        "<answers>\n<cells>\n  <cell row=\"r2\" family=\"f\" qualifier=\"a,b\" timestamp=\"5\" encoding=\"base64\">AP8KCQ==</cell>\n  \
         <cell row=\"r3\" family=\"f\" qualifier=\"x\" timestamp=\"7\">two&#10;lines &quot;&lt;&amp;&gt;</cell>\n  \
         <cell row=\"r3\" family=\"n\" qualifier=\"c\" timestamp=\"8\">7</cell>\n  \
         <cell row=\"row\" family=\"f\" qualifier=\"q\" timestamp=\"1\">value</cell>\n</cells>\n</answers>\n"
    );
    let keys = ql_with(dir.path(), &["--format", "csv"], "SELECT f FROM t KEYS_ONLY LIMIT 1");
    assert_eq!(keys.stdout(), "row,column,base64\nr2,\"f:a,b\",\n");
    assert_eq!(
        prints(dir.path(), "SELECT f FROM t WHERE ROW = 'r3' NO_ESCAPE"),
        "r3\tf:x\ttwo\nlines \"<&>\n"
    );
}

/// All answers of a run are one document, of which a parser of XML sees whether it is whole.
#[test]
fn other_commands_leave_the_trees_of_tables_alone() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    prints(dir, "CREATE TABLE t (f, INDEX f); INSERT INTO t VALUES ('r', f:, 'v')");
    let trees = esker(dir, "trees").stdout();
    let of_tables: Vec<_> = trees.lines().filter(|name| name.starts_with("table ")).collect();
    assert_eq!(of_tables, ["table 1.0", "table 1.1"], "{trees}");
    for tree in of_tables {
        let with = |command: &[&str], stdin: &[u8]| {
            let mut esker = esker_in(dir);
            esker.args(["--tree", tree]).args(command);
            run(esker, stdin)
        };
        for command in [
            &["put", "k", "v"][..],
            &["merge", "k", "--append", "v"],
            &["delete", "--all"],
            &["delete", "k"],
            &["mv", "a", "b"],
            &["cp", "a", "b"],
            &["import", "-"],
        ] {
            fails(&with(command, b"k\tv\n"), 2, "has the cells of a table");
        }
        assert_eq!(with(&["count"], b"").stdout(), "1\n");
    }
    assert_eq!(prints(dir, "SELECT * FROM t"), "r\tf:\tv\n");
}

#[test]
fn answers_are_one_document_of_xml() {
    let dir = tempfile::tempdir().unwrap();
    prints(dir.path(), "CREATE TABLE t (f, n COUNTER); INSERT INTO t VALUES (1, 'r', f:x, '<&')");
    let text = "SELECT f FROM t; SELECT n FROM t; SHOW TABLES; INCREMENT t ROW 'r' COLUMN n:c; \
        APPEND t ROW 'r' COLUMN f:y VALUE '<&\\0'; EXISTS TABLE t";
    let expected = r#"<answers>
<cells>
  <cell row="r" family="f" qualifier="x" timestamp="1">&lt;&amp;</cell>
</cells>
<cells>
</cells>
<lines>
  <line>t</line>
</lines>
<lines>
  <line>1</line>
</lines>
<lines>
  <line>&lt;&amp;\x00</line>
</lines>
<lines>
  <line>true</line>
</lines>
</answers>
"#;
    let done = ql_with(dir.path(), &["--format", "xml"], text);
    assert_eq!((done.code, done.stdout().as_str()), (0, expected), "{}", done.stderr());
    let piped = esker_with(dir.path(), "ql --format xml", b"EXISTS TABLE t;");
    assert_eq!(piped.stdout(), "<answers>\n<lines>\n  <line>true</line>\n</lines>\n</answers>\n");
    assert_eq!(ql_with(dir.path(), &["--format", "xml"], "").stdout(), "<answers>\n</answers>\n");
    let failed = ql_with(dir.path(), &["--format", "xml"], "EXISTS TABLE t; SELECT f FROM u");
    fails(&failed, 2, "there is no table \"u\"");
    assert!(failed.stdout().ends_with("</lines>\n"), "{}", failed.stdout());
}

#[test]
fn deletes_are_printed_in_each_format() {
    let dir = tempfile::tempdir().unwrap();
    prints(
        dir.path(),
        "CREATE TABLE t (f, n COUNTER); INSERT INTO t VALUES (5, 'r', f:x, 'DELETE ROW'), (5, 's', n:c, x'0000000000000007'); \
         DELETE * FROM t WHERE ROW = 'r' TIMESTAMP 1; DELETE f FROM t WHERE ROW = 'r' TIMESTAMP 2; \
         DELETE f:x FROM t WHERE ROW = 'r' TIMESTAMP 3; DELETE f:'' FROM t WHERE ROW = 's' VERSION 4",
    );
    let query = "SELECT * FROM t RETURN_DELETES DISPLAY_TIMESTAMPS";
    let shows = |format: &str, statements: &str| {
        let done = ql_with(dir.path(), &["--format", format], statements);
        assert_eq!(done.code, 0, "{}", done.stderr());
        done.stdout()
    };
    assert_eq!(
        shows("table", query),
        "row  column  timestamp  delete   value\n---  ------  ---------  -------  -----\nr            1          row\n\
         r    f       2          family\nr    f:x     3          column\nr    f:x     5                   DELETE ROW\n\
         s    f:      4          version\ns    n:c     5                   7\n"
    );
    let lines = "1\tr\t\trow\t\n2\tr\tf\tfamily\t\n3\tr\tf:x\tcolumn\t\n5\tr\tf:x\t\tDELETE ROW\n4\ts\tf:\tversion\t\n";
    assert_eq!(shows("tsv", query), format!("{lines}5\ts\tn:c\t\t7\n"));
    assert_eq!(
        shows("csv", query),
        "row,column,timestamp,delete,value,base64\nr,,1,row,,\nr,f,2,family,,\nr,f:x,3,column,,\n\
         r,f:x,5,,DELETE ROW,\ns,f:,4,version,,\ns,n:c,5,,7,\n"
    );
    assert_eq!(
        shows("jsonl", query),
        r#"{"row":"r","timestamp":1,"delete":"row"}
{"row":"r","family":"f","timestamp":2,"delete":"family"}
{"row":"r","family":"f","qualifier":"x","timestamp":3,"delete":"column"}
{"row":"r","family":"f","qualifier":"x","timestamp":5,"value":"DELETE ROW"}
{"row":"s","family":"f","qualifier":"","timestamp":4,"delete":"version"}
{"row":"s","family":"n","qualifier":"c","timestamp":5,"value":"7"}
"#
    );
    assert_eq!(
        shows("xml", query),
        r#"<answers>
<cells>
  <cell row="r" timestamp="1" delete="row"/>
  <cell row="r" family="f" timestamp="2" delete="family"/>
  <cell row="r" family="f" qualifier="x" timestamp="3" delete="column"/>
  <cell row="r" family="f" qualifier="x" timestamp="5">DELETE ROW</cell>
  <cell row="s" family="f" qualifier="" timestamp="4" delete="version"/>
  <cell row="s" family="n" qualifier="c" timestamp="5">7</cell>
</cells>
</answers>
"#
    );
    assert_eq!(shows("tsv", "SELECT f FROM t LIMIT 1 KEYS_ONLY RETURN_DELETES CELL_LIMIT 1"), "r\t\trow\n");
    // A file says that it has deletes, so nobody loads them as cells.
    let file = dir.path().join("deletes.tsv").display().to_string();
    prints(dir.path(), &format!("SELECT f FROM t RETURN_DELETES INTO FILE '{file}'"));
    let written = fs::read_to_string(&file).unwrap();
    assert_eq!(written, format!("#timestamp_ms\trow\tcolumn\tdelete\tvalue\n{lines}"));
    fails(&ql(dir.path(), &format!("LOAD DATA INFILE '{file}' INTO TABLE t")), 2, "the file has deletes");
}

/// What helps at a terminal helps from arguments too.
#[test]
fn small_answers_are_clear() {
    let dir = tempfile::tempdir().unwrap();
    prints(dir.path(), SAMPLE);
    for help in ["help", " HELP; "] {
        assert!(prints(dir.path(), help).contains("docs/eskerql.md describes the language"));
    }
    let shown = prints(dir.path(), "EXPLAIN ANALYZE SELECT f FROM t WHERE ROW = 'r2'");
    let lines: Vec<&str> = shown.lines().collect();
    let [.., read, looked, shows, time] = &lines[..] else { panic!("{shown}") };
    assert!(read.starts_with("read of access group default: seeks: "), "{shown}");
    assert_eq!(
        (*looked, *shows),
        ("looked at rows: 1, cells: 1; filters left out rows: 0, cells: 0", "shows rows: 1, cells: 1")
    );
    assert!(time.starts_with("time: ") && time.ends_with(" ms"), "{shown}");
    assert!(!prints(dir.path(), "EXPLAIN SELECT f FROM t").contains("time"));
    // Standard output, and not a file in its place.
    let cells = "#timestamp_ms\trow\tcolumn\tvalue\n1\trow\tf:q\tvalue\n";
    let query = "SHOW TABLES; SELECT f FROM t WHERE ROW = 'row' INTO FILE '/dev/stdout'; SHOW TABLES";
    assert_eq!(prints(dir.path(), query), format!("t\n{cells}t\n"));
    let out = fs::File::create(dir.path().join("out")).unwrap();
    let mut command = esker_in(dir.path());
    command.args(["ql", "-e", query]).stdout(out);
    assert!(command.status().unwrap().success());
    assert_eq!(fs::read_to_string(dir.path().join("out")).unwrap(), format!("t\n{cells}t\n"));
    fs::write(dir.path().join("one.tsv"), "#row\tcolumn\tvalue\na\tf:x\t1\n").unwrap();
    let done = ql(dir.path(), "LOAD DATA INFILE 'one.tsv' INTO TABLE t");
    assert!(done.stderr().starts_with("1 cell in "), "{}", done.stderr());
}

#[test]
fn what_fails_says_where_and_ends_it() {
    let dir = tempfile::tempdir().unwrap();
    let done = ql(dir.path(), "CREATE TABLE t (f); SELECT * FORM t; CREATE TABLE u (f)");
    fails(
        &done,
        2,
        "line 1, column 30: expected `FROM`, found `FORM`\n  CREATE TABLE t (f); SELECT * FORM t;",
    );
    let done = esker_with(dir.path(), "ql", b"SHOW TABLES;\n\nSELECT x\nFROM t;\nSHOW TABLES;");
    let message = "line 3, column 8: the table \"t\" has no column family \"x\"; it has \"f\"\n  SELECT x\n         ^\n";
    fails(&done, 2, message);
    assert_eq!(done.stdout(), "t\n");
    fs::write(dir.path().join("a.ql"), "\u{feff}SHOW TABLES;\nSHOW\nNOTHING;").unwrap();
    let done = ql(dir.path(), &format!("SOURCE '{}'", dir.path().join("a.ql").display()));
    fails(&done, 2, "a.ql: line 3, column 1: expected");
    fs::write(dir.path().join("b.ql"), format!("SOURCE '{}'", dir.path().join("b.ql").display())).unwrap();
    fails(&esker_with(dir.path(), "ql", &fs::read(dir.path().join("b.ql")).unwrap()), 2, "16 files deep");
    fails(&ql(dir.path(), "SOURCE 'nowhere'"), 3, "nowhere");
    fails(&esker(dir.path(), "ql --url redis://127.0.0.1:1"), 2, "--url thrift://HOST:PORT");
    fails(&esker(dir.path(), "ql --url thrift://127.0.0.1:1"), 3, "cannot reach thrift://127.0.0.1:1");
    fails(&esker(dir.path(), "get a --url thrift://127.0.0.1:1"), 2, "a thrift:// URL is for `esker ql`");
    fails(&esker_with(dir.path(), "shell", b"open\nql\n"), 2, "a shell cannot run inside the shell");
}

/// Statements are run as they come, wherever lines end; an unfinished one at the end is an error.
#[test]
fn statements_are_read_from_a_pipe() {
    let dir = tempfile::tempdir().unwrap();
    let text = "create table t (f)\n;\n-- a comment;\ninsert into t values ('a;\n', f:q, 'b;\n'\n);/* ;\n*/ select * from t;show tables";
    let done = esker_with(dir.path(), "ql", text.as_bytes());
    assert_eq!((done.code, done.stdout().as_str()), (0, "a;\\n\tf:q\tb;\\n\nt\n"), "{}", done.stderr());
    fails(&esker_with(dir.path(), "ql", b"SHOW TABLES; SELECT 'a;\n"), 2, "line 1, column 21");
    // A statement that is cut anywhere is no other statement.
    let mut many = "EXISTS TABLE t;".repeat(10_000);
    many.push_str("EXISTS TABLE u");
    let done = esker_with(dir.path(), "ql", many.as_bytes());
    assert_eq!(done.stdout(), format!("{}false\n", "true\n".repeat(10_000)));
    let mut long = b"SHOW TABLES; USE '".to_vec();
    long.resize(long.len() + (65 << 20), b'a');
    let done = esker_with(dir.path(), "ql", &long);
    fails(&done, 2, "bytes at most");
    assert_eq!(done.stdout(), "t\n");
}

/// Any bytes in rows, qualifiers and values come back.
#[test]
fn a_dump_is_loaded_as_the_same_cells() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name).display().to_string();
    let all: String = (0..=255_u8).map(|byte| format!("{byte:02x}")).collect();
    prints(
        dir.path(),
        &format!(
            "CREATE TABLE t (f MAX_VERSIONS ALL, n COUNTER, ACCESS GROUP g (h)); CREATE TABLE u LIKE t; \
             INSERT INTO t VALUES (1, x'{all}', f:x'{all}', x'{all}'), (2, x'{all}', f:x'{all}', ''), (3, 'r', h:, '\\\\N'), \
             (4, 'r', n:'', x'7fffffffffffffff'); \
             DUMP TABLE t INTO FILE '{}'; LOAD DATA INFILE '{}' INTO TABLE u; DUMP TABLE u INTO FILE '{}'; \
             DUMP TABLE t INTO FILE '{}'",
            file("t.tsv.zst"),
            file("t.tsv.zst"),
            file("u.tsv"),
            file("t.tsv"),
        ),
    );
    let dump = fs::read_to_string(file("t.tsv")).unwrap();
    assert_eq!(dump.lines().count(), 5);
    assert!(dump.starts_with("#timestamp_ms\trow\tcolumn\tvalue\n"), "{dump}");
    assert_eq!(fs::read_to_string(file("u.tsv")).unwrap(), dump);
    // Part of it, and what a query shows.
    prints(dir.path(), &format!("DUMP TABLE t COLUMNS n INTO FILE '{}'", file("n.tsv")));
    assert_eq!(fs::read_to_string(file("n.tsv")).unwrap().lines().count(), 2);
    prints(dir.path(), &format!("SELECT h FROM t INTO FILE '{}'", file("h.tsv")));
    assert_eq!(
        fs::read_to_string(file("h.tsv")).unwrap(),
        "#timestamp_ms\trow\tcolumn\tvalue\n3\tr\th:\t\\\\N\n"
    );
    fails(&ql(dir.path(), "DUMP TABLE t INTO FILE '/nowhere/f'"), 3, "/nowhere/f");
    // Versions keep their order, and what a file cannot hold is refused.
    prints(dir.path(), &format!("SELECT n FROM t KEYS_ONLY INTO FILE '{}'", file("k.tsv")));
    assert_eq!(fs::read_to_string(file("k.tsv")).unwrap(), "#timestamp_ms\trow\tcolumn\n4\tr\tn:\n");
    let plain = format!("SELECT f FROM t NO_ESCAPE INTO FILE '{}'", file("plain.tsv"));
    fails(&ql(dir.path(), &plain), 2, "NO_ESCAPE: a cell has a tab or a line end");
    fails(&ql(dir.path(), "SELECT * FROM t WHERE typo:x = '1'"), 2, "no column family \"typo\"");
    let counters = "#row\tcolumn\tvalue\nr\th:\tgood\nr\tn:c\tseven\n";
    fs::write(file("c.tsv"), counters).unwrap();
    let load = format!("LOAD DATA INFILE '{}' INTO TABLE u", file("c.tsv"));
    fails(&ql(dir.path(), &load), 2, "c.tsv:3: the column family \"n\" has counters");
    assert_eq!(prints(dir.path(), "SELECT h FROM u LIMIT 1 CELL_LIMIT 1"), "r\th:\tgood\n");
    fails(&ql(dir.path(), "DUMP TABLE t INTO FILE 'esker.db/f'"), 2, "in the store's own directory");
}

#[test]
fn schemas_go_to_files_and_come_from_them() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("t.xml");
    let shown = file.display();
    prints(dir.path(), "CREATE TABLE t (a TTL 1 DAY, ACCESS GROUP g (b MAX_VERSIONS 1), INDEX a)");
    prints(dir.path(), "INSERT INTO t VALUES ('r', a:x, 'v')");
    let described = prints(dir.path(), "DESCRIBE TABLE t");
    prints(dir.path(), &format!("DESCRIBE TABLE t INTO FILE '{shown}'"));
    assert_eq!(fs::read_to_string(&file).unwrap(), described);
    assert_eq!(prints(dir.path(), "DESCRIBE TABLE t INTO FILE '/dev/stdout'"), described);
    let create = format!("CREATE TABLE u FROM FILE '{shown}'");
    prints(dir.path(), &create);
    assert_eq!(prints(dir.path(), "DESCRIBE TABLE u"), described);
    fails(&ql(dir.path(), &create), 2, "there is a table \"u\" already");
    prints(dir.path(), &create.replace("TABLE u", "TABLE IF NOT EXISTS u"));
    // With the numbers of groups and families, another table can have the schema, but not this version of another's.
    prints(dir.path(), &format!("DESCRIBE TABLE WITH IDS t INTO FILE '{shown}'"));
    prints(dir.path(), &format!("CREATE TABLE w FROM FILE '{shown}'"));
    assert_eq!(prints(dir.path(), "DESCRIBE TABLE w"), described);
    let alter = |table: &str| format!("ALTER TABLE {table} FROM FILE '{shown}'");
    fails(&ql(dir.path(), &alter("w")), 2, "the schema of another table");
    // The schema that a table gets is that of the file, with the families that it does not name gone.
    let text = described.replace("name=\"b\"", "name=\"c\"");
    assert_ne!(text, described);
    fs::write(&file, &text).unwrap();
    prints(dir.path(), &alter("t"));
    assert_eq!(prints(dir.path(), "DESCRIBE TABLE t"), text);
    assert_eq!(prints(dir.path(), "SELECT * FROM t"), "r\ta:x\tv\n");
    fails(&ql(dir.path(), &alter("nothing")), 2, "there is no table \"nothing\"");
    for (wrong, why) in [
        (&b"<Schema>"[..], "t.xml:1: the text ends before </Schema>"),
        (b"\xff", "a schema is XML in UTF-8"),
        (b"", "t.xml:1: the text ends before </Schema>"),
        (
            b"<Schema>\n<AccessGroup name='g'>\n<ColumnFamily name='f' maxVersions='-1'/>",
            "t.xml:3: maxVersions=\"-1\": expected a whole number",
        ),
        (b"<Schema disabled='maybe'/>", "t.xml:1: disabled=\"maybe\": expected \"true\" or \"false\""),
        (b"<Schema/>", "t.xml: a table has one column family at least"),
    ] {
        fs::write(&file, wrong).unwrap();
        fails(&ql(dir.path(), &alter("t")), 2, why);
    }
    fs::File::create(&file).unwrap().set_len(17 << 20).unwrap();
    fails(&ql(dir.path(), &alter("t")), 2, "a schema has 16777216 bytes at most");
    fails(&ql(dir.path(), "ALTER TABLE t FROM FILE '/nowhere/f'"), 3, "/nowhere/f");
    fails(&ql(dir.path(), "DESCRIBE TABLE t INTO FILE 'esker.db/f'"), 2, "in the store's own directory");
    assert_eq!(prints(dir.path(), "DESCRIBE TABLE t"), text);
}

#[test]
fn all_lines_before_a_wrong_one_are_loaded() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("many.tsv");
    let mut lines = "#row\tcolumn\tvalue\n".to_owned();
    for row in 0..35_000 {
        lines.push_str(&format!("{row:05}\tf:\tv\n"));
    }
    fs::write(&file, format!("{lines}wrong\n")).unwrap();
    prints(dir.path(), "CREATE TABLE t (f)");
    let done = ql(dir.path(), &format!("LOAD DATA INFILE '{}' INTO TABLE t", file.display()));
    fails(&done, 2, "many.tsv:35002: 1 fields, expected 3");
    assert!(done.stderr().contains("35,000 cells"), "{}", done.stderr());
    let rows = prints(dir.path(), "SELECT * FROM t KEYS_ONLY");
    assert_eq!(rows.lines().count(), 35_000);
    assert_eq!(rows.lines().last(), Some("34999\tf:"));
    // A dump that was cut within a line is no whole one.
    prints(dir.path(), "CREATE TABLE u (f)");
    for (text, code) in
        [("#row\tcolumn\tvalue\r\na\tf:\tv\r\nb\tf:\tval", 2), ("row\tcolumn\tvalue\nc\tf:\tval", 0)]
    {
        fs::write(&file, text).unwrap();
        let done = ql(dir.path(), &format!("LOAD DATA INFILE '{}' INTO TABLE u", file.display()));
        assert_eq!(done.code, code, "{}", done.stderr());
        assert_eq!(done.stderr().contains("many.tsv:3: the file ends within this line"), code == 2);
    }
    assert_eq!(prints(dir.path(), "SELECT * FROM u"), "a\tf:\tv\nc\tf:\tval\n");
}

/// Bytes of all kinds, of any length.
fn mixed(len: usize, seed: u64) -> Vec<u8> {
    let mut rng = test_kit::Rng::new(seed);
    let mut bytes = Vec::with_capacity(len + 16);
    while bytes.len() < len {
        let state = rng.next();
        bytes.extend_from_slice(["plain ", "ä🦀", "\\", "\t\r\n", "\r"][(state % 5) as usize].as_bytes());
        bytes.extend_from_slice(&state.to_le_bytes()[..(state >> 8) as usize % 8]);
    }
    bytes.truncate(len);
    bytes
}

#[test]
fn long_cells_are_loaded_and_dumped_piece_by_piece() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name);
    let escaped = |value: &[u8]| {
        let mut escaped = Vec::with_capacity(2 * value.len());
        for byte in value {
            match byte {
                b'\t' => escaped.extend_from_slice(b"\\t"),
                b'\n' => escaped.extend_from_slice(b"\\n"),
                b'\\' => escaped.extend_from_slice(b"\\\\"),
                // A line may have this byte everywhere but at its end.
                byte if byte % 7 == 3 => escaped.extend_from_slice(format!("\\x{byte:02x}").as_bytes()),
                byte => escaped.push(*byte),
            }
        }
        escaped
    };
    prints(dir.path(), "CREATE TABLE t (f, g, n COUNTER); CREATE TABLE u LIKE t; CREATE TABLE w LIKE t");
    // A line is long from 4 MiB on.
    let len = if test_kit::is_quick() { 5 << 20 } else { 11 << 20 };
    let (long, longer) = (mixed(len - (1 << 19), 1), [mixed(len, 2), b"\r".to_vec()].concat());
    let mut text = b"#timestamp\trow\tcolumn\tvalue\r\n1\ta\tf:\tshort\n2\tb\tf:q\\t\t".to_vec();
    text.extend(escaped(&long));
    text.extend(b"\r\n3\tc\tg:\t");
    text.extend(escaped(&longer));
    text.extend(b"\r\n4\td\tf:\tlast\r\n");
    fs::write(file("t.tsv"), &text).unwrap();
    let done = ql(dir.path(), &format!("LOAD DATA INFILE '{}' INTO TABLE t", file("t.tsv").display()));
    assert_eq!(done.code, 0, "{}", done.stderr());
    assert!(done.stderr().contains("4 cells"), "{}", done.stderr());
    prints(
        dir.path(),
        &format!(
            "DUMP TABLE t INTO FILE '{}'; LOAD DATA INFILE '{}' INTO TABLE u; DUMP TABLE u INTO FILE '{}'",
            file("t2.tsv.zst").display(),
            file("t2.tsv.zst").display(),
            file("u.tsv").display()
        ),
    );
    let read = |table: &str| {
        let lines = prints(dir.path(), &format!("SELECT * FROM {table} DISPLAY_TIMESTAMPS"));
        let lines: Vec<Vec<String>> =
            lines.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect();
        assert_eq!(lines.iter().map(Vec::len).collect::<Vec<_>>(), [4; 4]);
        lines
    };
    let cells = read("t");
    assert_eq!(cells[0], ["1", "a", "f:", "short"]);
    assert_eq!(cells[1][..3], ["2", "b", "f:q\\t"]);
    assert_eq!(cells[3], ["4", "d", "f:", "last"]);
    assert!(read("u") == cells);
    for (row, column, value) in [("b", "f:q\t", &long), ("c", "g:", &longer)] {
        let done = ql(dir.path(), &format!("SELECT * FROM t WHERE ROW = '{row}' NO_ESCAPE"));
        assert!(done.stdout == [format!("{row}\t{column}\t").as_bytes(), value, b"\n"].concat(), "{row}");
    }
    // A fault far from the beginning of a long line, and one before the first line that is asked for.
    let good = [&b"#row\tcolumn\tvalue\na\tf:\tx\n"[..], b"b\tf:\t", &escaped(&long)].concat();
    for (rest, options, code, message) in test_kit::some_of([
        (&b"\\q\n"[..], "", 2, "w.tsv:3: \\q is not one of the escapes"),
        (b"\\", "", 2, "w.tsv:3: the file ends within this line"),
        (b"\\\n", "", 2, "w.tsv:3: a backslash must be followed"),
        (b"\tmore\n", "", 2, "w.tsv:3: the value has a separator in it"),
        (b"", "", 2, "w.tsv:3: the file ends within this line"),
    ])
    .chain([(&b"\\q\nc\tf:\tz\n"[..], "FROM_LINE = 4", 0, "1 cell")])
    {
        fs::write(file("w.tsv"), [&good[..], rest].concat()).unwrap();
        let load = format!("LOAD DATA INFILE {options} '{}' INTO TABLE w", file("w.tsv").display());
        let done = ql(dir.path(), &load);
        fails(&done, code, message);
        let rows = prints(dir.path(), "SELECT * FROM w KEYS_ONLY MAX_VERSIONS 1");
        assert_eq!(rows, if code == 0 { "a\tf:\nc\tf:\n" } else { "a\tf:\n" }, "{message}");
    }
    for (head, message) in test_kit::some_of([
        (&b"b\tnone:\t"[..], "no column family"),
        (b"\tf:\t", "row"),
        (b"b\tn:\t", "counters"),
        (b"", "1 fields, expected 3"),
    ]) {
        let text = [&b"#row\tcolumn\tvalue\n"[..], head, &vec![b'x'; 9 << 20], b"\n"].concat();
        fs::write(file("w.tsv"), text).unwrap();
        let done = ql(dir.path(), &format!("LOAD DATA INFILE '{}' INTO TABLE w", file("w.tsv").display()));
        fails(&done, 2, "w.tsv:2: ");
        fails(&done, 2, message);
    }
    // A spreadsheet's quotes are refused in a long value too, and others are parts of it.
    for (end, code) in [("\"\"\"", 2), ("\"\"x", 0)] {
        let text = [&b"row\tcolumn\tvalue\nq\tf:\t\"a \"\""[..], &vec![b'x'; 9 << 20], end.as_bytes(), b"\n"]
            .concat();
        fs::write(file("w.tsv"), text).unwrap();
        let done = ql(dir.path(), &format!("LOAD DATA INFILE '{}' INTO TABLE w", file("w.tsv").display()));
        fails(&done, code, if code == 0 { "1 cell" } else { "w.tsv:2: field 3 is in quotes" });
    }
    prints(dir.path(), "DELETE * FROM w WHERE ROW = 'q'");
    // Lines with several columns are taken as a whole.
    let text =
        [&b"id\tf:a\tg:b\nr\t"[..], &vec![b'x'; 5 << 20], b"\t", &vec![b'y'; 5 << 20], b"\ns\t1\t2"].concat();
    fs::write(file("w.tsv"), text).unwrap();
    prints(dir.path(), &format!("LOAD DATA INFILE '{}' INTO TABLE w", file("w.tsv").display()));
    let values = prints(dir.path(), "SELECT * FROM w WHERE ROW >= 'r' MAX_VERSIONS 1");
    let lens: Vec<usize> = values.lines().map(|line| line.len() - "r\tf:a\t".len()).collect();
    assert_eq!(lens, [5 << 20, 5 << 20, 1, 1]);
}

/// A process that may use half a GiB dumps a value of 128 MiB and loads it: a line that is taken as a whole may have an eighth.
#[test]
fn a_dump_of_long_cells_is_loaded_with_little_memory() {
    let dir = tempfile::tempdir().unwrap();
    let mut text = b"#timestamp_ms\trow\tcolumn\tvalue\n2\tb\tf:\t".to_vec();
    text.resize(text.len() + (128 << 20), b'.');
    text.push(b'\n');
    fs::write(dir.path().join("long.tsv"), &text).unwrap();
    prints(dir.path(), "CREATE TABLE t (f)");
    let mut command = std::process::Command::new("sh");
    command.args(["-c", "ulimit -v 524288; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_esker"), "ql", "-e"]);
    command.arg("LOAD DATA INFILE 'long.tsv' INTO TABLE t; DUMP TABLE t INTO FILE 'again.tsv'");
    command.current_dir(dir.path()).env("ESKER_MEMORY", "32M");
    let done = run(command, b"");
    assert_eq!(done.code, 0, "{}", done.stderr());
    assert!(fs::read(dir.path().join("again.tsv")).unwrap() == text);
}

#[test]
fn rows_are_loaded_as_their_header_says() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        fs::write(dir.path().join(name), text).unwrap();
        dir.path().join(name).display().to_string()
    };
    prints(dir.path(), "CREATE TABLE t (f, g)");
    let loads = |options: &str, path: &str| {
        ql(
            dir.path(),
            &format!("DELETE * FROM t WHERE ROW = 'a'; LOAD DATA INFILE {options} '{path}' INTO TABLE t"),
        )
    };
    let shows = |options: &str, path: &str| {
        let done = loads(options, path);
        assert_eq!(done.code, 0, "{}", done.stderr());
        let shown = prints(dir.path(), "SELECT * FROM t MAX_VERSIONS 1 DISPLAY_TIMESTAMPS");
        prints(dir.path(), "DROP TABLE t; CREATE TABLE t (f, g)");
        shown
    };
    let rows =
        file("rows.tsv", "id\tf:x\tg\twhen\tcity\n7\t\\tv\t\t2023-11-14 22:13:20\toslo\n8\t\tw\t5\trome\n");
    fails(&loads("", &rows), 2, "rows.tsv:1: the header: the table \"t\" has no column family \"when\"");
    assert_eq!(
        shows("TIMESTAMP_COLUMN = 'when' IGNORE_UNKNOWN_COLUMNS", &rows),
        "1700000000000\t7\tf:x\t\\tv\n5\t8\tg:\tw\n"
    );
    assert_eq!(
        shows("ROW_KEY_COLUMN = city + id TIMESTAMP_COLUMN = 'when'", &rows),
        "1700000000000\toslo 7\tf:x\t\\tv\n5\trome 8\tg:\tw\n"
    );
    assert_eq!(
        shows("TIMESTAMP_COLUMN = 'when' IGNORE_UNKNOWN_COLUMNS NO_ESCAPE", &rows),
        "1700000000000\t7\tf:x\t\\\\tv\n5\t8\tg:\tw\n"
    );
    let keys = file("keys.tsv", "f:id\tg:at\n1\t2\n");
    assert_eq!(
        shows("TIMESTAMP_COLUMN = 'g:at' DUPLICATE_KEY_COLUMNS", &keys),
        "2\t1\tf:id\t1\n2\t1\tg:at\t2\n"
    );
    // As ImportTsv has them.
    let with_header = file("import.tsv", "HBASE_TS_KEY,HBASE_ROW_KEY,f:a,g:b\n5\ta\tx\ty\n");
    assert_eq!(shows("", &with_header), "5\ta\tf:a\tx\n5\ta\tg:b\ty\n");
    let header = file("header", "HBASE_TS_KEY,HBASE_ROW_KEY,f:a,g:b\n");
    let values = file("values.tsv", "3\tr\tx\ty\n\n4\ts\t\tz\n");
    assert_eq!(
        shows(&format!("HEADER_FILE = '{header}'"), &values),
        "3\tr\tf:a\tx\n3\tr\tg:b\ty\n4\ts\tg:b\tz\n"
    );
    for mark in ["", "\u{feff}"] {
        let cells = file("cells.tsv", &format!("{mark}2\tr\tf:a\tx\n"));
        assert_eq!(shows("SINGLE_CELL_FORMAT", &cells), "2\tr\tf:a\tx\n");
        let values = file("values.tsv", &format!("{mark}3\tr\tx\ty\n"));
        let options = format!("HEADER_FILE = '{header}'");
        assert_eq!(shows(&options, &values), "3\tr\tf:a\tx\n3\tr\tg:b\ty\n");
    }
    let many = file("many.tsv", "id\tf:x\nr\t1\nr\t2\n");
    assert_eq!(loads("ROW_UNIQUIFY_CHARS = 8", &many).code, 0);
    let unlike = prints(dir.path(), "SELECT * FROM t WHERE 'r' < ROW");
    assert!(
        unlike.lines().count() == 2 && unlike.lines().all(|line| line.starts_with('r') && line.len() == 15),
        "{unlike}"
    );

    // Damage: what is before it is stored.
    for (text, message) in [
        ("#row\tcolumn\tvalue\na\tf:x\t1\nb\tf:x\n", "bad.tsv:3: 2 fields, expected 3"),
        (
            "#row\tcolumn\tvalue\na\tf:x\t1\nb\tnothing:x\t2\n",
            "bad.tsv:3: the table \"t\" has no column family \"nothing\"",
        ),
        (
            "#timestamp\trow\tcolumn\tvalue\n1\ta\tf:x\t1\nnow\tb\tf:x\t2\n",
            "bad.tsv:3: \"now\" is no timestamp",
        ),
        (
            "#timestamp\trow\tcolumn\tvalue\n1\ta\tf:x\t1\n-1\tb\tf:x\t2\n",
            "bad.tsv:3: \"-1\" is no timestamp",
        ),
        ("#row\tcolumn\tvalue\na\tf:x\t1\nb\tf:x\t\\q\n", "bad.tsv:3: "),
        ("#row\tcolumn\tvalue\na\tf:x\t1\n\tf:x\t2\n", "bad.tsv:3: a row has 1 to 32767 bytes"),
    ] {
        let bad = file("bad.tsv", text);
        fails(&loads("", &bad), 2, message);
        assert_eq!(prints(dir.path(), "SELECT f FROM t WHERE ROW = 'a' MAX_VERSIONS 1"), "a\tf:x\t1\n");
    }
    fails(&loads("", &file("empty.tsv", "\n")), 2, "empty.tsv:1: the header names no column");
    fails(&loads("", &file("comma.tsv", "id,f:x\n1,2\n")), 2, "comma.tsv:1: the header has no tabs");
    fails(
        &loads("", &file("twice.tsv", "id\tf:x\tf:x\n1\t2\t3\n")),
        2,
        "twice.tsv:1: the header has the column \"f:x\" twice",
    );
    let marked = file("marked.tsv", "\u{feff}#row\tcolumn\tvalue\na\tf:x\t1\n");
    assert_eq!(loads("", &marked).code, 0);
    fails(&loads("", "/nowhere"), 3, "/nowhere");
    fails(&loads("ROW_UNIQUIFY_CHARS = 1000", &many), 2, "64 at most");
}

/// Files as other programs write them: without a header, with a header that says little, with units of their own.
#[test]
fn files_of_other_programs_are_loaded_as_they_are_meant() {
    let dir = tempfile::tempdir().unwrap();
    let load = |options: &str, text: &str| {
        prints(dir.path(), "DROP TABLE IF EXISTS t; CREATE TABLE t (f MAX_VERSIONS ALL, g MAX_VERSIONS ALL)");
        fs::write(dir.path().join("f.tsv"), text).unwrap();
        ql(dir.path(), &format!("LOAD DATA INFILE {options} 'f.tsv' INTO TABLE t"))
    };
    let cell = "SINGLE_CELL_FORMAT";
    let nanoseconds = "TIMESTAMP_UNIT = NANOSECONDS";
    let (dump, dump_ms) = ("#timestamp\trow\tcolumn\tvalue\n", "#timestamp_ms\trow\tcolumn\tvalue\n");
    let dump_ns = "#timestamp_ns\trow\tcolumn\tvalue\n";
    let import_tsv = "HBASE_ROW_KEY,f:a,f:b,g:c\n";
    for (options, text, shown) in [
        // A first row that begins with `#` is a cell.
        (cell, "5\t#a\tf:q\tv\n6\tb\tf:q\tw\n".to_owned(), "5\t#a\tf:q\tv\n6\tb\tf:q\tw\n"),
        (cell, "5\t#row\tf:q\tv".to_owned(), "5\t#row\tf:q\tv\n"),
        (cell, "\n\n5\t#a\tf:q\tv\n".to_owned(), "5\t#a\tf:q\tv\n"),
        (cell, format!("{dump}5\t#a\tf:q\tv\n"), "5\t#a\tf:q\tv\n"),
        ("TIMESTAMP = 7 SINGLE_CELL_FORMAT", "#a\tf:q\tv".to_owned(), "7\t#a\tf:q\tv\n"),
        ("TIMESTAMP = 7 SINGLE_CELL_FORMAT", "#row\tcolumn\tvalue\na\tf:q\tv\n".to_owned(), "7\ta\tf:q\tv\n"),
        // Units of timestamps.
        (nanoseconds, format!("{dump}1700000000000123456\tr\tf:q\tv\n"), "1700000000000\tr\tf:q\tv\n"),
        ("", format!("{dump_ns}1700000000000123456\tr\tf:q\tv\n"), "1700000000000\tr\tf:q\tv\n"),
        (
            "TIMESTAMP_UNIT = MICROSECONDS",
            format!("{dump}1700000000000123\tr\tf:q\tv\n"),
            "1700000000000\tr\tf:q\tv\n",
        ),
        ("TIMESTAMP_UNIT = SECONDS", format!("{dump}1700000000\tr\tf:q\tv\n"), "1700000000000\tr\tf:q\tv\n"),
        (
            "TIMESTAMP_UNIT = NANOSECONDS TIMESTAMP = 1700000000000000000",
            "id\tf:q\nr\tv\n".to_owned(),
            "1700000000000\tr\tf:q\tv\n",
        ),
        ("", format!("{dump}253402300799999\tr\tf:q\tv\n"), "253402300799999\tr\tf:q\tv\n"),
        ("", format!("{dump_ms}9223372036854775806\tr\tf:q\tv\n"), "9223372036854775806\tr\tf:q\tv\n"),
        (
            "TIMESTAMP_UNIT = MILLISECONDS",
            format!("{dump}253402300800000\tr\tf:q\tv\n"),
            "253402300800000\tr\tf:q\tv\n",
        ),
        (nanoseconds, "HBASE_ROW_KEY,HBASE_TS_KEY,f:a\nr,5000000,v\n".replace(',', "\t"), "5\tr\tf:a\tv\n"),
        // HQL's texts need no unit.
        (nanoseconds, format!("{dump}2023-11-14 22:13:20.5\tr\tf:q\tv\n"), "1700000000500\tr\tf:q\tv\n"),
        ("", format!("{dump}2023-11-14 22:13:20.000000001\tr\tf:q\tv\n"), "1700000000000\tr\tf:q\tv\n"),
        ("", format!("{dump}2023-11-14 22:13:20:500000000\tr\tf:q\tv\n"), "1700000000500\tr\tf:q\tv\n"),
        ("", format!("{dump}2023-11-14T22:13:20Z\tr\tf:q\tv\n"), "1700000000000\tr\tf:q\tv\n"),
        // Of versions within one millisecond, the latest one stays, in whichever order they come.
        (
            nanoseconds,
            format!(
                "{dump}1000002\tr\tf:q\tnew\n1000001\tr\tf:q\told\n1000000\tr\tf:q\tfirst\n5\tr\tf:q\t0\n"
            ),
            "1\tr\tf:q\tnew\n0\tr\tf:q\t0\n",
        ),
        (nanoseconds, format!("{dump}1000001\tr\tf:q\told\n1000002\tr\tf:q\tnew\n"), "1\tr\tf:q\tnew\n"),
        // ImportTsv's lines may lack their last fields.
        (
            "TIMESTAMP = 7",
            format!("{import_tsv}r\t1\ns\t1\t\t3\nt\t1\t2\n"),
            "7\tr\tf:a\t1\n7\ts\tf:a\t1\n7\ts\tg:c\t3\n7\tt\tf:a\t1\n7\tt\tf:b\t2\n",
        ),
        ("", "f:a,HBASE_ROW_KEY,HBASE_TS_KEY,f:b\n1\tr\t5\n".to_owned(), "5\tr\tf:a\t1\n"),
        // Quotes are parts of a value, unless they look as if a spreadsheet had written them.
        ("TIMESTAMP = 7", "id\tf:a\nr\t\"v\"\ns\t\"\"\n".to_owned(), "7\tr\tf:a\t\"v\"\n7\ts\tf:a\t\"\"\n"),
        (
            "TIMESTAMP = 7",
            "id\tf:a\nr\t{\"a\": \"\"}\ns\t5\"\n".to_owned(),
            "7\tr\tf:a\t{\"a\": \"\"}\n7\ts\tf:a\t5\"\n",
        ),
        ("TIMESTAMP = 7", "#id\tf:a\nr\t\"v \"\"w\"\"\"\n".to_owned(), "7\tr\tf:a\t\"v \"\"w\"\"\"\n"),
        ("", format!("{dump_ms}5\tr\tf:q\t\"v \"\"w\"\"\"\n"), "5\tr\tf:q\t\"v \"\"w\"\"\"\n"),
        ("TIMESTAMP = 7", "id\tf:a\nr\t\\x22v \"\"w\"\"\"\n".to_owned(), "7\tr\tf:a\t\"v \"\"w\"\"\"\n"),
        // The same where the names have the separator of the file between them.
        (
            "TIMESTAMP = 7",
            format!("{}r\t1\ns\t1\t\t3\n", import_tsv.replace(',', "\t")),
            "7\tr\tf:a\t1\n7\ts\tf:a\t1\n7\ts\tg:c\t3\n",
        ),
        ("", "HBASE_ROW_KEY\tf:a\tHBASE_TS_KEY\nr\t1\t5\n".to_owned(), "5\tr\tf:a\t1\n"),
        ("", "HBASE_TS_KEY\tHBASE_ROW_KEY\tf:a\tf:b\n5\tr\t1\n".to_owned(), "5\tr\tf:a\t1\n"),
        ("SEPARATOR = ';'", "HBASE_ROW_KEY;HBASE_TS_KEY;f:a;f:b\nr;5;1\n".to_owned(), "5\tr\tf:a\t1\n"),
    ] {
        let done = load(options, &text);
        assert_eq!(done.code, 0, "{options} {text}: {}", done.stderr());
        assert_eq!(prints(dir.path(), "SELECT * FROM t DISPLAY_TIMESTAMPS"), shown, "{options} {text}");
    }
    for (options, text, message) in [
        (
            "",
            format!("{dump}1700000000000000000\tr\tf:q\tv\n"),
            "f.tsv:2: 1700000000000000000 milliseconds are after the year 9999: TIMESTAMP_UNIT =",
        ),
        ("", "HBASE_TS_KEY,HBASE_ROW_KEY,f:a\n253402300800000\tr\tv\n".to_owned(), "after the year 9999"),
        ("TIMESTAMP = 1700000000000000000", "id\tf:q\nr\tv\n".to_owned(), "after the year 9999"),
        (
            "TIMESTAMP_COLUMN = g SINGLE_CELL_FORMAT",
            "1700000000000000000\tr\tf:q\tv\n".to_owned(),
            "after the year 9999",
        ),
        (
            nanoseconds,
            format!("{dump_ms}1\tr\tf:q\tv\n"),
            "f.tsv:1: the header says that timestamps are in milliseconds; the statement, in nanoseconds",
        ),
        ("TIMESTAMP_UNIT = SECONDS", format!("{dump}9223372036854775807\tr\tf:q\tv\n"), "is no timestamp"),
        ("", format!("{import_tsv}r\n"), "f.tsv:2: 1 fields, expected 2 to 4"),
        ("", format!("{import_tsv}r\t1\t2\t3\t4\n"), "f.tsv:2: 5 fields, expected 2 to 4"),
        ("", "f:a,HBASE_ROW_KEY,HBASE_TS_KEY,f:b\n1\tr\n".to_owned(), "f.tsv:2: 2 fields, expected 3 to 4"),
        ("", format!("{}r\n", import_tsv.replace(',', "\t")), "f.tsv:2: 1 fields, expected 2 to 4"),
        // Fields as spreadsheets write them.
        ("", "id\tf:a\nr\t\"v \"\"w\"\"\"\n".to_owned(), "f.tsv:2: field 2 is in quotes"),
        (
            "SEPARATOR = ',' NO_ESCAPE",
            "id,f:a\n\"r \"\"s\"\"\",v\n".to_owned(),
            "f.tsv:2: field 1 is in quotes",
        ),
        (cell, "5\tr\tf:q\t\"v \"\"w\"\"\"\n".to_owned(), "f.tsv:1: field 4 is in quotes"),
        // What they say must not be lost.
        (
            "",
            "HBASE_ROW_KEY,f:a,HBASE_CELL_TTL\nr\t1\t5\n".to_owned(),
            "HBASE_CELL_TTL: there are no times to live",
        ),
        (
            "IGNORE_UNKNOWN_COLUMNS",
            "HBASE_ROW_KEY\tf:a\tHBASE_CELL_TTL\nr\t1\t5\n".to_owned(),
            "HBASE_CELL_TTL: there are no times to live",
        ),
        (
            "IGNORE_UNKNOWN_COLUMNS",
            "HBASE_ROW_KEY,HBASE_ATTRIBUTES_KEY,f:a\nr\t5\t1\n".to_owned(),
            "there are no attributes",
        ),
        (
            "IGNORE_UNKNOWN_COLUMNS",
            "id\tHBASE_CELL_VISIBILITY\tf:a\nr\tsecret\t1\n".to_owned(),
            "there are no visibility labels",
        ),
        // A header of another program says how many fields each line has.
        ("", "id\tf:a\tf:b\nr\t1\n".to_owned(), "f.tsv:2: 2 fields, expected 3"),
    ] {
        let done = load(options, &text);
        fails(&done, 2, message);
        assert_eq!(prints(dir.path(), "SELECT * FROM t"), "", "{options} {text}");
    }
    let merged = load(nanoseconds, &format!("{dump}1000002\tr\tf:q\tnew\n1000001\tr\tf:q\told\n"));
    assert!(
        merged.stderr().contains("1 versions are of the same column and millisecond"),
        "{}",
        merged.stderr()
    );
    // Whatever says the time, and however the column is written.
    for (options, text, count) in [
        ("", format!("{dump_ms}5\tr\tf:q\ta\n5\tr\tf:q\tb\n5\tr\tf:q\tc\n"), 2),
        ("TIMESTAMP = 5", "#row\tcolumn\tvalue\nr\tf:q\ta\nr\tf:q\tc\n".to_owned(), 1),
        (nanoseconds, format!("{dump}5000000\tr\tf:q\ta\n5000001\tr\tf:q\tb\n5000002\tr\tf:q\tc\n"), 2),
        (nanoseconds, format!("{dump}5000003\tr\tf\tc\n5000001\tr\tf:\ta\n"), 1),
    ] {
        let done = load(options, &text);
        assert_eq!(done.code, 0, "{text}: {}", done.stderr());
        let message = format!("{count} versions are of the same column and millisecond");
        assert!(done.stderr().contains(&message), "{text}: {}", done.stderr());
        assert!(prints(dir.path(), "SELECT * FROM t DISPLAY_TIMESTAMPS").ends_with("\tc\n"), "{text}");
    }
    let other = load("", &format!("{dump_ms}5\tr\tf:q\ta\n5\tr\tf:q:\tb\n5\tr\tf\tc\n"));
    assert!(!other.stderr().contains("same column"), "{}", other.stderr());
    for header in ["id\tf\tf:\n", "id\tf:\tg\tf\n"] {
        fails(&load("", header), 2, "twice");
    }
    // A header of any number of columns.
    let names: Vec<String> = (0..100_000).map(|name| format!("f:{name}")).collect();
    let done = load("", &format!("id\t{}\n", names.join("\t")));
    assert_eq!(done.code, 0, "{}", done.stderr());
    // A header, or a cell of a family with that name.
    prints(dir.path(), "DROP TABLE t; CREATE TABLE t (column)");
    fs::write(dir.path().join("f.tsv"), "#row\tcolumn\tvalue\n").unwrap();
    fails(
        &ql(dir.path(), &format!("LOAD DATA INFILE {cell} 'f.tsv' INTO TABLE t")),
        2,
        "f.tsv:1: the line is a header, or a cell",
    );
}

/// A carriage return at the end of a line is part of the value if the first line ends without one, as in a dump of Hypertable.
#[test]
fn the_first_line_says_how_lines_end() {
    let dir = tempfile::tempdir().unwrap();
    let long = "x".repeat(9 << 20);
    let ends = |text: &str| format!("SELECT * FROM t WHERE ROW = 'r' AND VALUE REGEXP '{text}' KEYS_ONLY");
    for (options, text, value_ends, note) in [
        ("", "#row\tcolumn\tvalue\nr\tf:\tv\r\n", "v\\r$", "at the end of 1 lines are part of their values"),
        ("", "#row\tcolumn\tvalue\r\nr\tf:\tv\r\n", "v$", ""),
        ("", "#row\tcolumn\tvalue\r\nr\tf:\tv\n", "v$", ""),
        ("NO_ESCAPE", "#row\tcolumn\tvalue\r\nr\tf:\tv\r\r\n", "v\\r$", ""),
        ("", &format!("#row\tcolumn\tvalue\nr\tf:\t{long}\r\n"), "x\\r$", "at the end of 1 lines"),
        ("", &format!("#row\tcolumn\tvalue\r\nr\tf:\t{long}\r\n"), "x$", ""),
        ("", "id\tf:\nr\tv\r\ns\tv\r\n", "v\\r$", "at the end of 2 lines"),
        ("SINGLE_CELL_FORMAT", "r\tf:\tv\r\ns\tf:\tv\r\n", "v$", ""),
        ("SINGLE_CELL_FORMAT", "s\tf:\tv\nr\tf:\tv\r\n", "v\\r$", "at the end of 1 lines"),
        ("SINGLE_CELL_FORMAT", "#row\tcolumn\tvalue\r\nr\tf:\tv\r\ns\tf:\tv\n", "v$", ""),
    ] {
        prints(dir.path(), "DROP TABLE IF EXISTS t; CREATE TABLE t (f)");
        fs::write(dir.path().join("f.tsv"), text).unwrap();
        let done = ql(dir.path(), &format!("LOAD DATA INFILE {options} 'f.tsv' INTO TABLE t"));
        let start = &text[..text.len().min(60)];
        assert_eq!(done.code, 0, "{options} {start:?}: {}", done.stderr());
        assert_eq!(
            done.stderr().contains("carriage return"),
            !note.is_empty(),
            "{start:?}: {}",
            done.stderr()
        );
        assert!(done.stderr().contains(note), "{start:?}: {}", done.stderr());
        assert_eq!(prints(dir.path(), &ends(value_ends)), "r\tf:\n", "{options} {start:?}");
    }
    // Without a header, it cannot be told.
    prints(dir.path(), "DROP TABLE t; CREATE TABLE t (f)");
    fs::write(dir.path().join("f.tsv"), "r\tf:\tv\r\ns\tf:\tv\n").unwrap();
    let done = ql(dir.path(), "LOAD DATA INFILE SINGLE_CELL_FORMAT 'f.tsv' INTO TABLE t");
    fails(&done, 2, "f.tsv:2: the line ends in a line feed, the first one in a carriage return");
}

/// Files with another separator than tabs are read as they were written, and `QUIT` ends a script.
#[test]
fn cells_go_through_files_with_another_separator() {
    let dir = tempfile::tempdir().unwrap();
    prints(dir.path(), "CREATE TABLE t (f MAX_VERSIONS ALL); CREATE TABLE u (f MAX_VERSIONS ALL)");
    prints(
        dir.path(),
        "INSERT INTO t VALUES (1, 'a,b;c', f:',;', '\\\\1,2;3\\t4\\n'), (2, 'a,b;c', f:',;', ''), (3, '\\xff', f:, '\"')",
    );
    let all = prints(dir.path(), "DUMP TABLE t");
    assert!(all.starts_with("#timestamp_ms\trow\tcolumn\tvalue\n2\t"), "{all}");
    for separator in [",", ";", "|", " ", "\\t", "~"] {
        for write in
            ["DUMP TABLE t FS='{s}' INTO FILE 'f'", "SELECT * FROM t SEPARATOR = '{s}' INTO FILE 'f'"]
        {
            prints(dir.path(), &write.replace("{s}", separator));
            let load =
                format!("TRUNCATE TABLE u; LOAD DATA INFILE SEPARATOR = '{separator}' 'f' INTO TABLE u");
            assert_eq!(ql(dir.path(), &load).code, 0);
            assert_eq!(prints(dir.path(), "DUMP TABLE u"), all, "{separator:?}");
        }
    }
    let plain = ql(dir.path(), "SELECT * FROM t NO_ESCAPE FS = ';' INTO FILE 'f'");
    fails(&plain, 2, "a cell has a `;` or a line end");
    assert_eq!(prints(dir.path(), "DUMP TABLE t MAX_VERSIONS 1").lines().count(), 3);
    assert_eq!(prints(dir.path(), "EXISTS TABLE t; PAUSE 0; quit; EXISTS TABLE none; nonsense"), "true\n");
    fs::write(dir.path().join("inner.ql"), "EXISTS TABLE u; EXIT; nonsense").unwrap();
    assert_eq!(prints(dir.path(), "SOURCE 'inner.ql'; EXISTS TABLE t"), "true\n");
}

/// A file of cells without a header: its first line is not taken for one.
#[test]
fn cells_without_a_header_are_refused_with_a_hint() {
    const HINT: &str = "SINGLE_CELL_FORMAT";
    let dir = tempfile::tempdir().unwrap();
    prints(dir.path(), "CREATE TABLE t (f MAX_VERSIONS ALL, g)");
    let load = |options: &str, text: &str| {
        fs::write(dir.path().join("c.tsv"), text).unwrap();
        ql(dir.path(), &format!("LOAD DATA INFILE {options} 'c.tsv' INTO TABLE t"))
    };
    let cells = "r\tf:a\tv\ns\tf:b\tw\n";
    let timed = "2024-01-01 10:00:00\tr\tf\tv\n7\ts\tg:b\tw\n";
    for text in [cells, timed, "1376710908572587001\tr\tf:a\tv\n"] {
        fails(&load("", text), 2, "c.tsv:1: ");
        fails(&load("SKIP_BAD_LINES", text), 2, HINT);
    }
    // As a header, the first line would make values of the columns of all further lines.
    for options in ["IGNORE_UNKNOWN_COLUMNS", "SKIP_BAD_LINES IGNORE_UNKNOWN_COLUMNS"] {
        fails(&load(options, cells), 2, HINT);
        fails(&load(options, timed), 2, HINT);
    }
    assert_eq!(prints(dir.path(), "SELECT COUNT(CELLS) FROM t"), "0\n");
    for (options, text, stored) in [
        ("SINGLE_CELL_FORMAT", cells, "r\tf:a\tv\ns\tf:b\tw\n"),
        ("SINGLE_CELL_FORMAT", timed, "r\tf:\tv\ns\tg:b\tw\n"),
        ("", "#rowkey\tcolumnkey\tvalue\nr\tf:a\tv\n", "r\tf:a\tv\n"),
        // Hypertable's escape of a zero byte.
        ("", "#row\tcolumn\tvalue\nr\\0\tf:\\0a\t\\\\0\\01\n", "r\\x00\tf:\\x00a\t\\\\0\\x001\n"),
        (
            "ROW_KEY_COLUMN=rowkey",
            "#timestamp\trowkey\tcolumn\tvalue\n2024-01-01 10:00:00.1000000000\tr\tf:a\tv\n",
            "r\tf:a\tv\n",
        ),
        // Headers.
        ("IGNORE_UNKNOWN_COLUMNS", "city\tf:wind\tnote\noslo\tstrong\tf:x\n", "oslo\tf:wind\tstrong\n"),
        ("IGNORE_UNKNOWN_COLUMNS", "#city\tf:wind\tnote\noslo\tf:a\tx\n", "oslo\tf:wind\tf:a\n"),
        (
            "IGNORE_UNKNOWN_COLUMNS ROW_KEY_COLUMN = city",
            "city\tf:wind\tnote\noslo\tf:a\tx\n",
            "oslo\tf:wind\tf:a\n",
        ),
        ("", "city\tf:wind\tg:sky\noslo\tf:a\tx\n", "oslo\tf:wind\tf:a\noslo\tg:sky\tx\n"),
    ] {
        let done = load(options, text);
        assert_eq!(done.code, 0, "{options} {text:?} {}", done.stderr());
        assert_eq!(prints(dir.path(), "SELECT * FROM t"), stored, "{options} {text:?}");
        prints(dir.path(), "TRUNCATE TABLE t");
    }
}

/// Files of any bytes go into cells and come out, short and long.
#[test]
fn a_file_goes_into_a_cell_and_comes_out() {
    let dir = tempfile::tempdir().unwrap();
    prints(dir.path(), "CREATE TABLE t (f MAX_VERSIONS ALL)");
    for (name, bytes) in
        [("empty", Vec::new()), ("short", b"a\tb\\n\0\xff\r\n".to_vec()), ("long", mixed(9 << 20, 7))]
    {
        fs::write(dir.path().join(name), &bytes).unwrap();
        prints(
            dir.path(),
            &format!(
                "LOAD CELL INFILE '{name}' INTO TABLE t ROW 'r' COLUMN f:{name} TIMESTAMP 5; \
                 DUMP CELL t ROW 'r' COLUMN f:{name} INTO FILE '{name}.out'"
            ),
        );
        assert!(fs::read(dir.path().join(format!("{name}.out"))).unwrap() == bytes, "{name}");
        let shown = ql(dir.path(), &format!("DUMP CELL t ROW 'r' COLUMN f:{name} INTO FILE '/dev/stdout'"));
        assert!(shown.code == 0 && shown.stdout == bytes, "{name}");
    }
    assert_eq!(prints(dir.path(), "SELECT COUNT(CELLS) FROM t WHERE TIMESTAMP = 5"), "3\n");
    fails(
        &ql(dir.path(), "DUMP CELL t ROW 's' COLUMN f:short INTO FILE 'none'"),
        2,
        "the table has no such cell",
    );
    assert!(!dir.path().join("none").exists());
    fails(&ql(dir.path(), "LOAD CELL INFILE 'nothing' INTO TABLE t ROW 'r' COLUMN f:q"), 3, "nothing");
    fails(&ql(dir.path(), "LOAD CELL INFILE 'short' INTO TABLE t ROW 'r' COLUMN g:q"), 2, "no column family");
}

/// With SKIP_BAD_LINES, wrong lines are told and counted, and all others are stored; a header that is wrong and a file that was cut are not.
#[test]
fn wrong_lines_may_be_left_out() {
    let dir = tempfile::tempdir().unwrap();
    prints(dir.path(), "CREATE TABLE t (f)");
    let load = |text: &str| {
        fs::write(dir.path().join("f"), text).unwrap();
        ql(dir.path(), "LOAD DATA INFILE SKIP_BAD_LINES 'f' INTO TABLE t")
    };
    let long = "x".repeat(6 << 20);
    let done = load(&format!(
        "#timestamp_ms\trow\tcolumn\tvalue\n1\ta\tf:\t1\nnow\tb\tf:\t2\n1\tc\n1\td\tg:\t{long}\n1\te\tf:\t\\q\n1\tf\tf:\t6\n"
    ));
    assert_eq!(done.code, 0, "{}", done.stderr());
    for message in
        ["f:3: \"now\" is no timestamp", "f:4: 2 fields", "f:5: ", "f: 4 wrong lines were left out"]
    {
        assert!(done.stderr().contains(message), "{}", done.stderr());
    }
    assert_eq!(prints(dir.path(), "SELECT * FROM t"), "a\tf:\t1\nf\tf:\t6\n");
    let many = load(&format!("#row\tcolumn\tvalue\n{}g\tf:\t7\n", "wrong\n".repeat(100)));
    assert!(
        many.code == 0 && many.stderr().contains("f: 100 wrong lines were left out"),
        "{}",
        many.stderr()
    );
    assert!(many.stderr().lines().count() < 20, "{}", many.stderr());
    fails(&load("#row\tcolumn\nr\tf:\n"), 2, "f:1: the header");
    fails(&load("#row\tcolumn\tvalue\nh\tf:\t8"), 2, "f:2: the file ends within this line");
}

#[test]
fn a_load_goes_on_where_it_has_failed() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("many.tsv");
    let load = |options: &str| {
        ql(dir.path(), &format!("LOAD DATA INFILE {options} '{}' INTO TABLE t", file.display()))
    };
    prints(dir.path(), "CREATE TABLE t (f MAX_VERSIONS ALL, g MAX_VERSIONS ALL)");
    // Two cells a line. More than a batch is before the damage, and more behind.
    let lines: Vec<String> = (0..12_000).map(|number| format!("r{number}\tx{number}\ty{number}\n")).collect();
    let whole = format!("row\tf:a\tg:b\n\n{}", lines.concat());
    fs::write(&file, whole.replacen("r7000\t", "\t", 1)).unwrap();
    let failed = load("");
    fails(&failed, 2, "many.tsv:7003: a row has 1 to 32767 bytes");
    assert!(
        failed.stderr().contains("the lines before line 7003 are stored; FROM_LINE = 7003 goes on there")
    );
    assert_eq!(prints(dir.path(), "SELECT f FROM t KEYS_ONLY").lines().count(), 7000);
    fs::write(&file, &whole).unwrap();
    assert_eq!(load("FROM_LINE = 7003").code, 0);
    let shown: Vec<String> =
        (0..12_000).map(|number| format!("r{number}\tf:a\tx{number}\nr{number}\tg:b\ty{number}\n")).collect();
    let mut shown: Vec<&str> = shown.iter().flat_map(|lines| lines.lines()).collect();
    shown.sort_unstable();
    let found = prints(dir.path(), "SELECT * FROM t");
    let mut found: Vec<&str> = found.lines().collect();
    found.sort_unstable();
    assert!(found == shown, "{} cells", found.len());

    fs::write(&file, format!("row\tcolumn\tvalue\nr\tf:a\t1\nr\tf:{}\t1\n", "q".repeat(131_072))).unwrap();
    fails(&load(""), 2, "many.tsv:3: the row and the qualifier are too long");

    // With a timestamp, it does not matter what was stored before.
    prints(dir.path(), "CREATE TABLE u (f MAX_VERSIONS ALL)");
    fs::write(&file, "row\tf:a\nr\tv\n").unwrap();
    let load = |options: &str, lines: usize| {
        let done = ql(dir.path(), &format!("LOAD DATA INFILE {options} '{}' INTO TABLE u", file.display()));
        assert_eq!(done.code, 0, "{}", done.stderr());
        assert_eq!(prints(dir.path(), "SELECT * FROM u").lines().count(), lines, "{options}");
    };
    load("TIMESTAMP = '2026-01-01'", 1);
    load("TIMESTAMP = '2026-01-01'", 1);
    load("TIMESTAMP = 5", 2);
    load("", 3);
    load("TIMESTAMP = 5 FROM_LINE = 3", 3);
    fs::write(&file, "#row\tcolumn\tvalue\nr\tf:a\tw\n").unwrap();
    load("TIMESTAMP = 5", 3);
    load("TIMESTAMP = 6", 4);
    // A timestamp of the file goes before.
    fs::write(&file, "#timestamp\trow\tcolumn\tvalue\n5\tr\tf:a\tw\n").unwrap();
    load("TIMESTAMP = 7", 4);
}

#[test]
fn a_damaged_file_that_is_compressed_stores_nothing() {
    let dir = tempfile::tempdir().unwrap();
    prints(dir.path(), "CREATE TABLE t (f)");
    let text: String = (0..50_000).map(|number| format!("{number}\tf:\t{}\n", number * 7919)).collect();
    let text = format!("#row\tcolumn\tvalue\n{text}");
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(text.as_bytes()).unwrap();
    let mut zst = zstd::Encoder::new(Vec::new(), 1).unwrap();
    zst.include_checksum(true).unwrap();
    zst.write_all(text.as_bytes()).unwrap();
    let (gzip, zst) = (gzip.finish().unwrap(), zst.finish().unwrap());
    for (name, packed) in [("many.tsv.gz", gzip.clone()), ("many.tsv.zst", zst), ("gz.hidden", gzip)] {
        let file = dir.path().join(name);
        let load = || ql(dir.path(), &format!("LOAD DATA INFILE '{}' INTO TABLE t", file.display()));
        let mut damaged = packed.clone();
        // Only the checksum tells, behind all of the text.
        let end = damaged.len() - if name.contains("gz") { 8 } else { 1 };
        damaged[end] ^= 1;
        for damaged in [damaged, packed[..packed.len() - 9].to_vec()] {
            fs::write(&file, damaged).unwrap();
            fails(&load(), 2, name);
            assert_eq!(prints(dir.path(), "SELECT * FROM t"), "");
        }
        fs::write(&file, packed).unwrap();
        assert_eq!(load().code, 0);
        assert_eq!(prints(dir.path(), "SELECT * FROM t").lines().count(), 50_000);
        prints(dir.path(), "DROP TABLE t; CREATE TABLE t (f)");
    }
}

fn terminal(dir: &Path) -> PtySession {
    let mut command = esker_in(dir);
    command.arg("ql");
    command.env("XDG_STATE_HOME", dir.join("state")).env("TERM", "xterm").env("NO_COLOR", "1");
    spawn_command(command, Some(PATIENCE_MS)).unwrap()
}

#[test]
fn statements_are_typed_over_several_lines() {
    let dir = tempfile::tempdir().unwrap();
    let mut typed = terminal(dir.path());
    let sees = |typed: &mut PtySession, text: &str| {
        typed.exp_string(text).unwrap_or_else(|error| panic!("{text:?}: {error}"));
    };
    sees(&mut typed, "default> ");
    typed.send_line("create table photos (title);").unwrap();
    sees(&mut typed, "default> ");
    typed.send_line("insert into photos").unwrap();
    typed.send_line("values ('rose', title:en, 'A rose;');").unwrap();
    sees(&mut typed, "default> ");
    typed.send_line("select * form photos;").unwrap();
    sees(&mut typed, "column 10: expected `FROM`");
    sees(&mut typed, "default> ");
    typed.send_line("select title from nothing;").unwrap();
    sees(&mut typed, "there is no table");
    sees(&mut typed, "default> ");
    typed.send("select * from pho\t;\r").unwrap();
    typed.flush().unwrap();
    sees(&mut typed, "rose  title:en  A rose;");
    sees(&mut typed, "default> ");
    typed.send_line("create namespace shop; use shop;").unwrap();
    sees(&mut typed, "shop> ");
    typed.send_line("exit").unwrap();
    typed.exp_eof().unwrap();
    // What was typed earlier is there again.
    let mut typed = terminal(dir.path());
    sees(&mut typed, "default> ");
    typed.send("\x1b[A\x1b[A\r").unwrap();
    typed.flush().unwrap();
    sees(&mut typed, "already");
    sees(&mut typed, "default> ");
    typed.send_control('d').unwrap();
    typed.exp_eof().unwrap();
}

/// Passes the bytes of one connection on to `server`. Returns where, and what gives the bytes of the client when the connection has
/// ended.
fn overheard(server: SocketAddr) -> (SocketAddr, JoinHandle<Vec<u8>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let passing = std::thread::spawn(move || {
        let (mut client, _) = listener.accept().unwrap();
        let mut server = TcpStream::connect(server).unwrap();
        let (mut answers, mut to_client) = (server.try_clone().unwrap(), client.try_clone().unwrap());
        std::thread::spawn(move || std::io::copy(&mut answers, &mut to_client));
        let (mut heard, mut bytes) = (Vec::new(), [0; 1 << 12]);
        while let Ok(len @ 1..) = client.read(&mut bytes) {
            heard.extend(&bytes[..len]);
            server.write_all(&bytes[..len]).unwrap();
        }
        heard
    });
    (address, passing)
}

/// Files whose fields have another byte between them, such as those that ImportTsv reads with `-Dimporttsv.separator`.
#[test]
fn fields_may_have_another_separator() {
    let dir = tempfile::tempdir().unwrap();
    prints(dir.path(), "CREATE TABLE t (f MAX_VERSIONS 1)");
    let loads = |options: &str, text: &str| {
        fs::write(dir.path().join("f"), text).unwrap();
        ql(dir.path(), &format!("LOAD DATA INFILE {options} 'f' INTO TABLE t"))
    };
    for (options, text) in [
        ("SEPARATOR = ','", "HBASE_ROW_KEY,f:a,f:b\nr1,1\t,\\x2c\n"),
        ("SEPARATOR = '|'", "HBASE_ROW_KEY,f:a,f:b\nr2|1\t|,\n"),
        ("SEPARATOR = '|' NO_ESCAPE", "id|f:a|f:b\nr3|1\t|\\\n"),
        ("SEPARATOR = x'01'", "#row\x01column\x01value\nr4\x01f:a\x011,\n"),
        ("SEPARATOR = ';' SINGLE_CELL_FORMAT", "5;r5;f:a;1\n"),
        ("SEPARATOR = ':'", "HBASE_ROW_KEY,f:a,f:b\nr6:1:2\n"),
    ] {
        let done = loads(options, text);
        assert_eq!(done.code, 0, "{options}: {}", done.stderr());
    }
    assert_eq!(
        prints(dir.path(), "SELECT * FROM t"),
        "r1\tf:a\t1\\t\nr1\tf:b\t,\nr2\tf:a\t1\\t\nr2\tf:b\t,\nr3\tf:a\t1\\t\nr3\tf:b\t\\\\\nr4\tf:a\t1,\nr5\tf:a\t1\n\
         r6\tf:a\t1\nr6\tf:b\t2\n"
    );
    fails(
        &loads("SEPARATOR = '|'", "id,f:a\nr,1\n"),
        2,
        "f:1: the header has no `|`; the fields of all lines have `|`",
    );
    fails(&loads("SEPARATOR = '|'", "HBASE_ROW_KEY,f:a\nr,1\n"), 2, "f:2: 1 fields, expected 2");
}

/// Numbers as text are counters, and what is dumped is loaded as the same bytes, whatever they look like.
#[test]
fn counters_are_loaded_from_decimal_text_and_dumped_exactly() {
    let dir = tempfile::tempdir().unwrap();
    prints(dir.path(), "CREATE TABLE t (f, n MAX_VERSIONS 1 COUNTER); CREATE TABLE u LIKE t");
    let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
    write("rows.tsv", "row\tf:x\tn:a\tn:b\nr\t17\t17\t=-3\ns\t\t\t012345678\n");
    write("cells.tsv", "#row\tcolumn\tvalue\nt\tn:a\t9223372036854775807\nt\tf:x\t12345678\n");
    let load = "LOAD DATA INFILE 'rows.tsv' INTO TABLE t; LOAD DATA INFILE 'cells.tsv' INTO TABLE t; \
        INCREMENT t ROW 'r' COLUMN n:a; SELECT * FROM t";
    let shown = "18\nr\tf:x\t17\nr\tn:a\t18\nr\tn:b\t-3\ns\tn:b\t12345678\nt\tf:x\t12345678\nt\tn:a\t9223372036854775807\n";
    assert_eq!(prints(dir.path(), load), shown);
    for (value, why) in [
        ("12345678", "is a decimal number, and the 8 bytes of 3544952156018063160"),
        ("9223372036854775808", "a number is from -2^63 to 2^63 - 1"),
        ("1.5", "a value has 8 bytes, or is a decimal number; this one has 3 bytes"),
    ] {
        write("bad.tsv", &format!("row\tf:x\tn:a\nz\t1\t{value}\n"));
        let done = ql(dir.path(), "LOAD DATA INFILE 'bad.tsv' INTO TABLE t");
        fails(
            &done,
            2,
            &format!(
                "bad.tsv:2: the column family \"n\" has counters: {}",
                if value.len() == 8 { format!("{value:?} {why}") } else { why.to_owned() }
            ),
        );
        assert_eq!(prints(dir.path(), "SELECT * FROM t WHERE ROW = 'z'"), "");
    }
    // Its bytes are the text "12345678".
    prints(dir.path(), "INCREMENT t ROW 'v' COLUMN n:a BY 3544952156018063160");
    let round = "DUMP TABLE t INTO FILE 'dump.tsv'; LOAD DATA INFILE 'dump.tsv' INTO TABLE u; \
        SELECT * FROM t INTO FILE 'query.tsv'; DUMP TABLE u INTO FILE 'again.tsv'; \
        DELETE * FROM u WHERE ROW = 'v'; LOAD DATA INFILE 'query.tsv' INTO TABLE u; SELECT n FROM u WHERE ROW =^ 'r'";
    assert_eq!(prints(dir.path(), round), "r\tn:a\t18\nr\tn:b\t-3\n");
    let read = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
    assert_eq!(read("dump.tsv"), read("again.tsv"));
    assert_eq!(read("dump.tsv"), read("query.tsv"));
    let dump = read("dump.tsv");
    assert!(dump.contains("\tr\tn:a\t\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x12\n"), "{dump}");
    assert!(dump.contains("\tv\tn:a\t3544952156018063160\n"), "{dump}");
}

/// A server that takes the connection and says nothing.
#[test]
fn a_silent_server_is_not_waited_for_for_ever() {
    let dir = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("thrift://{}", listener.local_addr().unwrap());
    let mut command = esker_in(dir.path());
    command.args(["ql", "--url", &url, "--timeout", "1", "-e", "SHOW TABLES"]);
    fails(
        &run(command, b""),
        3,
        "getTableNames: the server is silent for 1 s; it may still do the call; --timeout SECONDS gives it more time",
    );
}

/// One query makes one call for the schema, which says how the cells are shown too.
#[test]
fn a_query_asks_a_server_for_the_schema_once() {
    let dir = tempfile::tempdir().unwrap();
    prints(dir.path(), "CREATE TABLE t (f, n COUNTER); INCREMENT t ROW 'r' COLUMN n:c BY 7");
    let serving = crate::thrift::serve(dir.path());
    let (address, passing) = overheard(serving.address);
    let mut command = esker_in(dir.path());
    command.args(["ql", "--url", &format!("thrift://{address}"), "-e", "SELECT * FROM t"]);
    let done = run(command, b"");
    assert_eq!((done.code, done.stdout().as_str()), (0, "r\tn:c\t7\n"), "{}", done.stderr());
    let heard = passing.join().unwrap();
    let calls = heard.windows(11).filter(|bytes| *bytes == b"eskerSchema").count();
    assert_eq!(calls, 1);
}

/// The tables of a server.
#[test]
fn a_server_is_asked_by_its_url() {
    let dir = tempfile::tempdir().unwrap();
    let serving = crate::thrift::serve(dir.path());
    let url = format!("thrift://{}", serving.address);
    let asks = |statements: &str| {
        let mut command = esker_in(dir.path());
        command.args(["ql", "--url", &url, "-e", statements]);
        run(command, b"")
    };
    let prints = |statements: &str| {
        let done = asks(statements);
        assert_eq!(done.code, 0, "{statements}: {}", done.stderr());
        done.stdout()
    };
    let rows = "#timestamp_ms\trow\tcolumn\tvalue\n2\ta\tf:x\tone\n1\ta\tf:x\tearlier\n2\tb\tf:x\t\\x00\\t\n";
    fs::write(dir.path().join("rows.tsv"), rows).unwrap();
    let shown = prints(
        "CREATE TABLE t (f); LOAD DATA INFILE 'rows.tsv' INTO TABLE t; SELECT * FROM t MAX_VERSIONS 1; \
        DUMP TABLE t INTO FILE 'dump.tsv'; ALTER TABLE t ADD (n COUNTER)",
    );
    assert_eq!(shown, "a\tf:x\tone\nb\tf:x\t\\x00\\t\n");
    assert_eq!(fs::read_to_string(dir.path().join("dump.tsv")).unwrap(), rows);
    // Counters are numbers here too.
    let counts = "row\tn:hits\nb\t\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x07\n";
    fs::write(dir.path().join("counts.tsv"), counts).unwrap();
    let shown = prints(
        "INCREMENT t ROW 'a' COLUMN n:hits BY 41; INCREMENT t ROW 'a' COLUMN n:hits; \
        LOAD DATA INFILE 'counts.tsv' INTO TABLE t; SELECT n FROM t MAX_VERSIONS 1",
    );
    assert_eq!(shown, "41\n42\na\tn:hits\t42\nb\tn:hits\t7\n");
    fs::write(dir.path().join("counts.tsv"), "row\tn:hits\nb\tword\n").unwrap();
    let word = asks("LOAD DATA INFILE 'counts.tsv' INTO TABLE t");
    fails(&word, 2, "counts.tsv:2: the column family \"n\" has counters");
    let typo = asks("SHOW TABLES;\nSELECT nn FROM t");
    fails(&typo, 2, "line 2, column 8: the table \"t\" has no column family \"nn\"; it has \"n\", \"f\"\n");
    // The whole schema goes to a file and comes from it.
    let shown = prints(
        "CREATE TABLE u (a, ACCESS GROUP g (b COUNTER), INDEX a); DESCRIBE TABLE u INTO FILE 'u.xml'; \
        CREATE TABLE v FROM FILE 'u.xml'; SHOW CREATE TABLE v; DESCRIBE TABLE WITH IDS v INTO FILE 'v.xml'",
    );
    let created = "CREATE TABLE v (a MAX_VERSIONS 3, ACCESS GROUP g (b MAX_VERSIONS 3 COUNTER), INDEX a);\n";
    assert_eq!(shown, created);
    let xml = fs::read_to_string(dir.path().join("v.xml")).unwrap();
    fs::write(dir.path().join("v.xml"), xml.replace("name=\"a\"", "name=\"c\"")).unwrap();
    let shown = prints("ALTER TABLE v FROM FILE 'v.xml'; RENAME TABLE v TO w; SHOW CREATE TABLE w");
    assert_eq!(
        shown,
        created.replace("TABLE v", "TABLE w").replace("(a ", "(c ").replace("INDEX a", "INDEX c")
    );
    fails(
        &asks("ALTER TABLE w FROM FILE 'v.xml'"),
        2,
        "the schema was changed meanwhile: its version is 2, not 1",
    );
    // The store is the server's.
    fails(&ql(dir.path(), "SHOW TABLES"), 3, "esker.db");
}

/// Files of any bytes go into cells of a server's tables and come out.
#[test]
fn a_file_goes_into_a_cell_of_a_server_and_comes_out() {
    let dir = tempfile::tempdir().unwrap();
    let serving = crate::thrift::serve(dir.path());
    let url = format!("thrift://{}", serving.address);
    let asks = |statements: &str| {
        let mut command = esker_in(dir.path());
        command.args(["ql", "--url", &url, "-e", statements]);
        run(command, b"")
    };
    let done = asks("CREATE TABLE t (f MAX_VERSIONS ALL)");
    assert_eq!(done.code, 0, "{}", done.stderr());
    for (name, bytes) in
        [("empty", Vec::new()), ("short", b"a\tb\\n\0\xff\r\n".to_vec()), ("long", mixed(5 << 20, 7))]
    {
        fs::write(dir.path().join(name), &bytes).unwrap();
        let done = asks(&format!(
            "LOAD CELL INFILE '{name}' INTO TABLE t ROW 'r' COLUMN f:{name} TIMESTAMP 5; \
             LOAD CELL INFILE '{name}' INTO TABLE t ROW 'r' COLUMN f:{name}; \
             DUMP CELL t ROW 'r' COLUMN f:{name} INTO FILE '{name}.out'"
        ));
        assert_eq!(done.code, 0, "{}", done.stderr());
        assert!(fs::read(dir.path().join(format!("{name}.out"))).unwrap() == bytes, "{name}");
        let shown = asks(&format!("DUMP CELL t ROW 'r' COLUMN f:{name} INTO FILE '/dev/stdout'"));
        assert!(shown.code == 0 && shown.stdout == bytes, "{name}");
    }
    assert_eq!(asks("SELECT COUNT(CELLS) FROM t").stdout(), "6\n");
    assert_eq!(asks("SELECT COUNT(CELLS) FROM t WHERE TIMESTAMP = 5").stdout(), "3\n");
    fails(&asks("DUMP CELL t ROW 's' COLUMN f:short INTO FILE 'none'"), 2, "the table has no such cell");
    assert!(!dir.path().join("none").exists());
    fails(&asks("LOAD CELL INFILE 'nothing' INTO TABLE t ROW 'r' COLUMN f:q"), 3, "nothing");
    fails(&asks("LOAD CELL INFILE 'short' INTO TABLE t ROW 'r' COLUMN g:q"), 2, "no column family");
    fails(&asks("LOAD CELL INFILE 'short' INTO TABLE u ROW 'r' COLUMN f:q"), 2, "no table");
}

/// The examples of the language reference, one after the other, with the files that they read.
#[test]
fn every_example_of_the_reference_runs() {
    let text = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/eskerql.md")).unwrap();
    let blocks = text.split("```sql\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let statements: String = blocks.collect();
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
    write("photos.tsv", "city\tid\tdate\ttitle:en\tcamera\noslo\t7\t2026-11-27\tA harbour\tbox\n");
    write("cells.tsv", "#row\tcolumn\tvalue\nrose.jpg\ttitle:fr\tUne rose\n");
    write(
        "hypertable.tsv",
        "#timestamp\trow\tcolumn\tvalue\n1700000000123456789\trose.jpg\ttitle:en\tA rose\n",
    );
    write("rose.jpg", "JPEG");
    write("photos.csv", "HBASE_ROW_KEY,title:en\nrome 1,A fountain\n");
    write("statements.ql", "SHOW TABLES;\n");
    let mut command = esker_in(dir.path());
    command.arg("ql").current_dir(dir.path());
    let done = run(command, statements.as_bytes());
    assert_eq!(done.code, 0, "{}", done.stderr());
    for name in ["more.xml", "titles.tsv", "photos.dump.zst", "copy.jpg"] {
        assert!(dir.path().join(name).exists(), "{name}");
    }
    let titles = prints(dir.path(), "SELECT title FROM shop:photos WHERE VALUE REGEXP '^A [hf]'");
    assert_eq!(titles, "oslo 7\ttitle:en\tA harbour\nrome 1\ttitle:en\tA fountain\n");
}

#[test]
fn cells_of_unknown_families_may_be_left_out() {
    let dir = tempfile::tempdir().unwrap();
    prints(dir.path(), "CREATE TABLE t (f)");
    let file = dir.path().join("cells.tsv");
    // One of them is so long that it comes in parts.
    let long = "v".repeat(6 << 20);
    let text = format!("#row\tcolumn\tvalue\na\tf:q\t1\nb\tg:q\t2\nb\tg:q\t{long}\nc\tf:q\t3\n");
    fs::write(&file, text).unwrap();
    let load = |option: &str| format!("LOAD DATA INFILE {option} '{}' INTO TABLE t", file.display());
    let done = ql(dir.path(), &load(""));
    fails(
        &done,
        2,
        "cells.tsv:3: the table \"t\" has no column family \"g\"; IGNORE_UNKNOWN_COLUMNS leaves such cells out",
    );
    prints(dir.path(), &load("IGNORE_UNKNOWN_COLUMNS"));
    // A file that was cut within such a cell lacks what came behind it.
    let cut = format!("#row\tcolumn\tvalue\na\tf:q\t1\nb\tg:q\t{long}");
    fs::write(dir.path().join("cut.tsv"), cut).unwrap();
    let done = ql(dir.path(), &load("IGNORE_UNKNOWN_COLUMNS").replace("cells.tsv", "cut.tsv"));
    fails(&done, 2, "cut.tsv:3: the file ends within this line");
    assert_eq!(prints(dir.path(), "SELECT * FROM t MAX_VERSIONS 1"), "a\tf:q\t1\nc\tf:q\t3\n");
}

#[test]
fn options_of_all_commands_do_what_they_say_or_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    prints(dir.path(), SAMPLE);
    let shows = |options: &[&str]| ql_with(dir.path(), options, "SELECT f:q FROM t");
    let [json, jsonl] = [&["--json"][..], &["--format", "jsonl"]].map(|options| shows(options).stdout());
    assert!(json.starts_with("{\"row\":\"row\"") && json == jsonl, "{json}");
    assert_eq!(shows(&["--json", "--format", "tsv"]).stdout(), "row\tf:q\tvalue\n");
    for options in [&["--keys", "hex"][..], &["--values", "u64"], &["--escapes"], &["--tree", "t"]] {
        fails(&shows(options), 2, "`esker ql` has tables");
    }
}

/// The commands of `docs/command-line.md`, as they stand there.
#[test]
fn the_documented_commands_do_what_they_should() {
    let text =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/command-line.md")).unwrap();
    let block =
        text.split("## Tables").nth(1).unwrap().split("```sh\n").nth(1).unwrap().split("```").next().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_esker")).parent().unwrap().display().to_string();
    let mut shell = std::process::Command::new("sh");
    shell.args(["-ec", &format!("PATH={program}:$PATH\n{block}")]).current_dir(dir.path());
    let done = run(shell, b"");
    assert_eq!(done.code, 0, "{}", done.stderr());
    assert!(done.stdout().starts_with("{\"row\":\"ann\",\"family\":\"mail\""), "{}", done.stdout());
    assert!(dir.path().join("people.tsv.zst").exists());
}

/// Lines without a timestamp are versions of their own, as many as are counted: also those of one millisecond, and of several batches.
#[test]
fn each_line_of_a_cell_is_a_version() {
    let dir = tempfile::tempdir().unwrap();
    prints(dir.path(), "CREATE TABLE t (f MAX_VERSIONS ALL, g MAX_VERSIONS 3)");
    let three = "row\tcolumn\tvalue\nr\tf:a\t1\nr\tf:a\t2\nr\tf:a\t3\n";
    fs::write(dir.path().join("three.tsv"), three).unwrap();
    let done = ql(dir.path(), "LOAD DATA INFILE 'three.tsv' INTO TABLE t");
    assert!(done.code == 0 && done.stderr().starts_with("3 cells"), "{}", done.stderr());
    assert_eq!(prints(dir.path(), "SELECT f FROM t"), "r\tf:a\t3\nr\tf:a\t2\nr\tf:a\t1\n");
    let shown = prints(
        dir.path(),
        "INSERT INTO t VALUES ('s', f:a, '1'), ('s', f:a, '2'); INSERT INTO t VALUES ('s', f:a, '3'); \
         CHECK t ROW 's' (f:a = '3') THEN INSERT VALUES (f:a, '4') INSERT VALUES (f:a, '5'); SELECT f FROM t WHERE ROW = 's'",
    );
    assert_eq!(shown, "true\ns\tf:a\t5\ns\tf:a\t4\ns\tf:a\t3\ns\tf:a\t2\ns\tf:a\t1\n");
    // More than one batch has, which takes a millisecond for each; and few of a family with few versions.
    let many: String = (0..1100).map(|number| format!("u\t{number}\t{number}\n")).collect();
    fs::write(dir.path().join("many.tsv"), format!("row\tf:a\tg:a\n{many}")).unwrap();
    let done = ql(dir.path(), "LOAD DATA INFILE 'many.tsv' INTO TABLE t");
    assert!(done.code == 0 && done.stderr().starts_with("2,200 cells"), "{}", done.stderr());
    assert_eq!(prints(dir.path(), "SELECT COUNT(CELLS) FROM t WHERE ROW = 'u'"), "1103\n");
    assert_eq!(prints(dir.path(), "SELECT g FROM t"), "u\tg:a\t1099\nu\tg:a\t1098\nu\tg:a\t1097\n");
    assert_eq!(prints(dir.path(), "DELETE f:a FROM t WHERE ROW = 'u'; SELECT f FROM t WHERE ROW = 'u'"), "");
}

/// Merges without the tables' rule keep what was deleted.
#[test]
fn compact_gives_back_what_tables_have_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let mut rng = test_kit::Rng::new(test_kit::seed(1));
    let mut text = b"#row\tcolumn\tvalue\n".to_vec();
    for row in 0..3000 {
        text.extend(format!("r{row}\tf:\t").into_bytes());
        for _ in 0..60 {
            text.extend(format!("{:016x}", rng.next()).into_bytes());
        }
        text.push(b'\n');
    }
    fs::write(dir.join("t.tsv"), text).unwrap();
    prints(dir, "CREATE TABLE t (f); LOAD DATA INFILE 't.tsv' INTO TABLE t");
    let table_bytes = || -> u64 {
        let files = fs::read_dir(dir.join("esker.db")).unwrap().map(|entry| entry.unwrap());
        let tables = files.filter(|file| file.path().extension().is_some_and(|kind| kind == "table"));
        tables.map(|file| file.metadata().unwrap().len()).sum()
    };
    assert_eq!(esker(dir, "compact").code, 0);
    let before = table_bytes();
    assert!(before > 1_000_000, "{before}");
    prints(dir, "DELETE * FROM t WHERE ROW =^ 'r'");
    assert_eq!(esker(dir, "compact").code, 0);
    assert!(table_bytes() < before / 20, "{} of {before}", table_bytes());
}
