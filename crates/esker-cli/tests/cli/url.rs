//! `--url`: which server is meant, values of every size, collections, the shell, and servers that are no servers. What
//! commands print there as they do for a store is in the sessions.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use esker::env::Env;
use tempfile::TempDir;

use crate::reader::reader;
use crate::serve::{Serving, serve};
use crate::support::{Done, esker_in, run};

/// A server, and an empty directory for its clients.
struct Place {
    serving: Serving,
    served: TempDir,
    dir: TempDir,
}

impl Place {
    fn new() -> Place {
        let (served, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        Place { serving: serve(served.path(), ""), served, dir }
    }

    fn url(&self) -> String {
        format!("unix:{}", self.served.path().join("socket").display())
    }

    /// Runs `esker` for the server, with arguments that are separated by blanks.
    fn esker(&self, arguments: &str) -> Done {
        self.esker_with(arguments, b"")
    }

    fn esker_with(&self, arguments: &str, stdin: &[u8]) -> Done {
        let mut command = esker_in(self.dir.path());
        command.arg("--url").arg(self.url()).args(arguments.split(' '));
        run(command, stdin)
    }

    /// The same, which must succeed. Returns what it printed.
    #[track_caller]
    fn printed(&self, arguments: &str) -> String {
        let done = self.esker(arguments);
        assert_eq!(done.code, 0, "{arguments}: {}", done.stderr());
        done.stdout()
    }
}

/// The store was written to while the machine's clock was ahead. Moments that are given and shown are those of the machine's
/// clock all the same, on the files and on the server.
#[test]
fn moments_are_those_of_the_machine_where_the_clock_of_the_store_is_ahead() {
    let (served, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = served.path().join("esker.db");
    test_kit::write_with_the_clock_ahead!(store, "ahead", "1", Duration::from_secs(3600));
    let now_us = Env::system().clock.wall_us();
    let given_us = (now_us / 1_000_000 + 3600) * 1_000_000;
    let row = |name: &str, us: u64| format!("key,value,expires_us\n{name},1,{us}\n");
    let expiries = |text: String| -> BTreeMap<String, u64> {
        let fields = |line: &str| line.split(',').map(str::to_owned).collect::<Vec<_>>();
        let rows = text.lines().skip(1).map(fields);
        rows.map(|fields| (fields[0].clone(), fields[2].parse().unwrap())).collect()
    };
    let local = |arguments: &str, stdin: &[u8]| {
        let done = run(esker_with(served.path(), arguments), stdin);
        assert_eq!(done.code, 0, "{arguments}: {}", done.stderr());
        done.stdout()
    };
    local("put local-ttl 1 --ttl 1h", b"");
    local("import - --format csv", row("local-at", given_us).as_bytes());
    let all = expiries(local("export - --format csv --columns key,value,expires_us", b""));
    assert_eq!(all["local-at"], given_us);
    local("check", b"");
    let stats = local("stats --json", b"");
    let ahead = stats.split_once("\"clock_ahead_us\":").unwrap().1.split(',').next().unwrap();
    assert!(ahead.parse::<u64>().unwrap() > test_kit::AHEAD_MIN_US, "{stats}");
    let listed = reader(&[Path::new("list"), &served.path().join("esker.db")]);
    assert_eq!(listed.code, 0, "{}", listed.stderr());
    assert!(all["local-ttl"].abs_diff(given_us) < 600_000_000, "{all:?}");
    let place = Place { serving: serve(served.path(), ""), served, dir };
    place.printed("put served-ttl 1 --ttl 1h");
    let done = place.esker_with("import - --format csv", row("served-at", given_us).as_bytes());
    assert_eq!(done.code, 0, "{}", done.stderr());
    let all = expiries(place.printed("export - --format csv --columns key,value,expires_us"));
    assert_eq!((all["local-at"], all["served-at"]), (given_us, given_us));
    for key in ["local-ttl", "served-ttl"] {
        assert!(all[key].abs_diff(given_us) < 600_000_000, "{key}: {all:?}");
    }
}

fn esker_with(dir: &Path, arguments: &str) -> std::process::Command {
    let mut command = esker_in(dir);
    command.args(arguments.split(' '));
    command
}

/// Runs `esker` with a URL that is typed, or in the variable.
fn with_url(dir: &Path, url: &str, arguments: &str) -> Done {
    let mut command = esker_in(dir);
    command.args(["--url", url]).args(arguments.split(' '));
    run(command, b"")
}

#[test]
fn urls_name_servers_and_databases() {
    let place = Place::new();
    let tcp = format!("redis://{}", place.serving.tcp());
    let dir = place.dir.path();
    assert_eq!(with_url(dir, &tcp, "put a 1").code, 0);
    assert_eq!(place.printed("get a"), "1\n");
    for url in [format!("redis+unix://{}", &place.url()["unix:".len()..]), format!("{}?db=0", place.url())] {
        assert_eq!(with_url(dir, &url, "get a").stdout(), "1\n", "{url}");
    }
    assert_eq!(with_url(dir, &format!("{tcp}/3"), "put a three").code, 0);
    assert_eq!(place.printed("--tree db3 get a"), "three\n");
    assert_eq!(with_url(dir, &format!("{tcp}/3"), "--tree db3 get a").stdout(), "three\n");
    for (url, arguments, code, part) in [
        (format!("{tcp}/3"), "--tree db4 get a", 2, "differ"),
        (format!("{tcp}/16"), "get a", 2, "has no database 16"),
        (tcp.clone(), "--tree db016 get a", 2, "a server has databases"),
        (tcp.clone(), "--tree users get a", 2, "a server has databases"),
        (tcp.clone(), "--db x.db get a", 2, "give one of them"),
        (format!("{tcp}/x"), "get a", 2, "database"),
        (tcp.replace("redis:", "rediss:"), "get a", 2, "rediss://"),
        ("unix:none".to_owned(), "get a", 3, "cannot connect to unix:none"),
    ] {
        let done = with_url(dir, &url, arguments);
        assert_eq!(done.code, code, "{url} {arguments}: {}", done.stderr());
        assert!(done.stderr().contains(part), "{url} {arguments}: {}", done.stderr());
    }
    assert_eq!(fs::read_dir(dir).unwrap().count(), 0, "no command made a store");
}

#[test]
fn the_variable_counts_unless_something_is_typed() {
    let place = Place::new();
    let dir = place.dir.path();
    let with = |variables: &[(&str, &str)], arguments: &str| {
        let mut command = esker_in(dir);
        command.envs(variables.iter().copied()).args(arguments.split(' '));
        run(command, b"")
    };
    let url = place.url();
    assert_eq!(with(&[("ESKER_URL", &url)], "put a served").code, 0);
    assert_eq!(with(&[("ESKER_URL", &url)], "--db own.db put a own").code, 0);
    assert_eq!(with(&[("ESKER_URL", &url)], "get a").stdout(), "served\n");
    assert_eq!(with(&[("ESKER_URL", &url)], "get a --db own.db").stdout(), "own\n");
    assert_eq!(with(&[("ESKER_DB", "own.db"), ("ESKER_URL", "")], "get a").stdout(), "own\n");
    let url_option = format!("--url {url} get a");
    assert_eq!(with(&[("ESKER_DB", "own.db")], &url_option).stdout(), "served\n");
    assert_eq!(with(&[("ESKER_DB", ""), ("ESKER_URL", &url)], "get a").stdout(), "served\n");
    let both = with(&[("ESKER_DB", "own.db"), ("ESKER_URL", &url)], "get a");
    assert!(both.code == 2 && both.stderr().contains("give --db or --url"), "{}", both.stderr());
    // A password is repeated nowhere.
    for (variables, arguments) in [
        (&[("ESKER_URL", "redis://u:secret@h:x")][..], "get a"),
        (&[], "--url redis://u:secret@h:x get a"),
        (&[("ESKER_URL", "redis://u:secret@127.0.0.1:1")], "get a"),
        (&[("ESKER_URL", "redis://u:secret@127.0.0.1:1")], "get"),
        (&[("ESKER_URL", "redis://u:secret@127.0.0.1:1")], "get --help"),
    ] {
        let done = with(variables, arguments);
        let all = done.stdout() + &done.stderr();
        assert!(!all.contains("secret") && !all.is_empty(), "{all}");
    }
}

/// Values go in and out piece by piece, whether their length is known before or not.
#[test]
fn values_of_every_size_come_back() {
    let place = Place::new();
    let file = place.dir.path().join("file");
    for len in [0, 1, 16_384, 16_385, 65_536, (1 << 20) - 1, 1 << 20, (5 << 20) + 3] {
        let bytes: Vec<u8> = (0..len).map(|i: usize| (i * 31 + i / 4_099) as u8).collect();
        fs::write(&file, &bytes).unwrap();
        assert_eq!(place.esker("put file --file file --ttl 9d").code, 0);
        assert_eq!(place.esker_with("put pipe --file -", &bytes).code, 0);
        for key in ["file", "pipe"] {
            assert!(place.esker(&format!("get {key} --file -")).stdout == bytes, "{key} {len}");
            assert_eq!(place.printed(&format!("get {key} --file copy")), "");
            assert!(fs::read(place.dir.path().join("copy")).unwrap() == bytes, "{key} {len}");
        }
        if len > 10 {
            let part = place.esker(&format!("get pipe --range 5-{}", len + 7)).stdout;
            assert!(part == bytes[5..], "{len}");
            assert!(place.esker("get pipe --range -7").stdout == bytes[len - 7..], "{len}");
        }
        let line = [b"pipe ", bytes.as_slice(), b"\n"].concat();
        assert!(place.esker("scan pipe pipe").stdout == line, "{len}");
        assert!(place.printed("get file --json").contains("\"expires_us\":"), "{len}");
        let listed = place.printed("ls p --json");
        assert!(listed.contains(&format!("\"size\":{len},")), "{listed}");
    }
}

/// More rows than a page has, in both directions, among values of all sizes.
#[test]
fn rows_come_page_by_page() {
    let place = Place::new();
    let lines: Vec<String> = (0..1000)
        .map(|i| format!("k{i:03} {}", "x".repeat(if i % 300 == 7 { 40_000 } else { i % 50 })))
        .collect();
    assert_eq!(place.esker_with("import -", (lines.join("\n") + "\n").as_bytes()).code, 0);
    let scanned = place.printed("scan");
    assert!(scanned.lines().eq(lines.iter().map(String::as_str)));
    let reversed = place.printed("scan --reverse --prefix k");
    assert!(reversed.lines().eq(lines.iter().rev().map(String::as_str)));
    for (arguments, count) in [("", 1000), ("k256 k511", 256), ("k000 k256", 257), ("--prefix k3", 100)] {
        assert_eq!(place.printed(format!("count {arguments}").trim_end()), format!("{count}\n"));
    }
    assert_eq!(place.printed("scan --limit 300 --keys-only").lines().count(), 300);
    // The successor of a prefix is no part of it.
    place.printed("put k4 behind");
    place.printed("delete --prefix k3");
    assert_eq!(place.printed("count"), "901\n");
    assert_eq!(place.printed("get k4"), "behind\n");
    place.printed("delete --from k5 --to k599");
    assert_eq!(place.printed("count"), "801\n");
    place.printed("delete --all");
    assert_eq!(place.printed("scan"), "");
}

/// Other clients may write the empty key, which a store does not have: it is read like others, also as the last row of a page.
#[test]
fn the_empty_key_of_a_server_is_shown() {
    let place = Place::new();
    let mut client = place.serving.client();
    let value = "x".repeat(40_000);
    assert_eq!(client.call_with(&["SET", "", &value]).to_string(), "+OK");
    let rows: Vec<String> = (0..255).map(|i| format!("k{i:03} v")).collect();
    assert_eq!(place.esker_with("import -", (rows.join("\n") + "\n").as_bytes()).code, 0);
    let all: Vec<String> = std::iter::once(format!(" {value}")).chain(rows).collect();
    assert!(place.printed("scan").lines().eq(all.iter().map(String::as_str)));
    assert!(place.printed("scan --reverse").lines().eq(all.iter().rev().map(String::as_str)));
    assert_eq!(place.printed("count"), "256\n");
    place.printed("export dir/");
    assert_eq!(fs::read(place.dir.path().join("dir/%")).unwrap(), value.as_bytes());
    assert_eq!(place.printed("get "), format!("{value}\n"));
    place.printed("delete --all");
    assert_eq!(client.call_with(&["EXISTS", ""]).integer(), 0);
}

/// Commands about a single key take the empty one where a server has it: by its URL and in the files of its store.
#[test]
fn the_empty_key_is_a_key_of_a_server() {
    let uses = |esker: &dyn Fn(&str) -> Done, what: &str| {
        let printed = |arguments: &str| {
            let done = esker(arguments);
            assert_eq!((done.code, done.stderr()), (0, String::new()), "{what}: {arguments}");
            done.stdout()
        };
        printed("put  one");
        assert_eq!(printed("get "), "one\n", "{what}");
        assert_eq!(printed("get  --range 1-"), "ne", "{what}");
        printed("merge  --append !");
        printed("cp  b");
        printed("delete ");
        assert_eq!(esker("get ").code, 1, "{what}");
        assert_eq!(printed("get b"), "one!\n", "{what}");
        printed("mv b ");
        assert_eq!(printed("scan"), " one!\n", "{what}");
        printed("put  41 --ttl 1h");
        printed("merge  --add 1");
        assert_eq!(printed("get "), "42\n", "{what}");
        printed("delete ");
        assert_eq!(printed("scan"), "", "{what}");
    };
    let place = Place::new();
    uses(&|arguments| place.esker(arguments), "by the URL");
    let mut client = place.serving.client();
    assert_eq!(client.call_with(&["SET", "", "x"]).to_string(), "+OK");
    drop(client);
    let Place { mut serving, served, dir } = place;
    serving.signal("-TERM");
    assert_eq!(serving.code(), Some(0));
    let in_store = |db: &Path, arguments: &str| {
        let mut command = esker_in(dir.path());
        command.arg("--db").arg(db).args(arguments.split(' '));
        run(command, b"")
    };
    uses(&|arguments| in_store(&served.path().join("esker.db"), arguments), "in the files");
    // Other stores have no such key, and none is made for it.
    let other = dir.path().join("other.db");
    for arguments in ["put  v", "merge  --add 1"] {
        let done = in_store(&other, arguments);
        assert_eq!(done.code, 2, "{arguments}: {}", done.stderr());
        assert!(done.stderr().contains("the key is empty"), "{arguments}: {}", done.stderr());
        assert!(!other.exists(), "{arguments}");
    }
    assert_eq!(in_store(&other, "put a v").code, 0);
    for arguments in ["put  v", "get ", "delete ", "merge  --append x", "mv a ", "cp  a"] {
        let done = in_store(&other, arguments);
        assert_eq!(done.code, 2, "{arguments}: {}", done.stderr());
        assert!(done.stderr().contains("the key is empty"), "{arguments}: {}", done.stderr());
    }
    assert_eq!(in_store(&other, "scan").stdout(), "a v\n");
}

/// What the empty key has goes out and in like what others have: in each format and as a file, by the server and in the files of
/// its store.
#[test]
fn the_empty_key_goes_out_and_in() {
    let place = Place::new();
    let expires_us = 4_000_000_000_000_000_u64;
    let mut client = place.serving.client();
    client.check("SELECT 1 => +OK\n SET a 1 => +OK");
    assert_eq!(
        client.call_with(&["SET", "", "of the empty key", "PXAT", "4000000000000"]).to_string(),
        "+OK"
    );
    client.check("SELECT 2 => +OK\n SET a 1 => +OK");
    assert_eq!(client.call_with(&["RPUSH", "", "x", "y"]).integer(), 2);
    let all = "key,value,expires_us,base64\n,of the empty key,4000000000000000,\na,1,,\n";
    let whole = "export - --format csv --columns key,value,expires_us";
    let formats =
        ["csv --columns key,value,expires_us", "tsv --columns key,value,expires_us", "jsonl", "json"];
    let is_there = |done: &Done, what: &str| {
        assert_eq!((done.code, done.stderr()), (0, String::new()), "{what}");
        assert_eq!(done.stdout(), all, "{what}");
    };
    for (at, format) in formats.iter().enumerate() {
        let text = place.printed(&format!("--tree db1 export - --format {format}"));
        let name = format.split(' ').next().unwrap();
        let tree = at + 10;
        let done = place.esker_with(&format!("--tree db{tree} import - --format {name}"), text.as_bytes());
        assert_eq!(done.code, 0, "{format}: {}", done.stderr());
        is_there(&place.esker(&format!("--tree db{tree} {whole}")), format);
    }
    let lines = place.printed("--tree db1 export -");
    assert_eq!(lines, "\tof the empty key\na\t1\n");
    assert_eq!(place.esker_with("--tree db5 import -", lines.as_bytes()).code, 0);
    assert_eq!(place.printed("--tree db5 scan"), " of the empty key\na 1\n");
    let list = place.printed("--tree db2 export - --format jsonl");
    assert_eq!(place.esker_with("--tree db6 import - --format jsonl", list.as_bytes()).code, 0);
    assert_eq!(place.printed("--tree db6 export - --format jsonl"), list);
    place.printed("--tree db1 export dir/");
    place.printed("--tree db7 import dir");
    assert_eq!(place.printed("--tree db7 scan"), " of the empty key\na 1\n");
    // Nothing is left to do, and the file is that of a row.
    assert_eq!(
        place.esker("--tree db1 export dir/").stderr(),
        place.esker("--tree db1 export new/").stderr()
    );
    // Rows that lack their keys are not taken for rows with the empty one.
    let refused = place.esker_with("--tree db8 import - --format csv", b"key,value\n,1\n,2\n");
    assert!(
        refused.code == 2 && refused.stderr().contains(":3: the key is empty, as that of"),
        "{refused:?}"
    );

    let Place { serving, served, dir } = place;
    drop(client);
    let mut serving = serving;
    serving.signal("-TERM");
    assert_eq!(serving.code(), Some(0));
    let local = |arguments: &str, stdin: &[u8]| {
        let mut command = esker_in(dir.path());
        let store = served.path().join("esker.db");
        if !arguments.starts_with("--db") {
            command.arg("--db").arg(store);
        }
        run(
            {
                command.args(arguments.split(' '));
                command
            },
            stdin,
        )
    };
    is_there(&local(&format!("--tree db1 {whole}"), b""), "files");
    assert_eq!(local("--tree db1 scan", b"").stdout(), " of the empty key\na 1\n");
    assert_eq!(local("--tree db1 scan --reverse", b"").stdout(), "a 1\n of the empty key\n");
    assert_eq!(local("--tree db1 scan a", b"").stdout(), "a 1\n");
    assert_eq!(local("--tree db1 count", b"").stdout(), "2\n");
    assert_eq!(local("--tree db2 export - --format jsonl", b"").stdout(), list);
    assert!(local("--tree db2 export -", b"").stderr().contains("or a list: 1 values"));
    assert_eq!(local("--tree db1 export files/", b"").code, 0);
    assert_eq!(fs::read(dir.path().join("files/%")).unwrap(), b"of the empty key");
    assert!(!local("--tree db1 export files/", b"").stderr().contains("belong to no row"));
    for format in formats {
        let text = local(&format!("--tree db1 export - --format {format}"), b"").stdout;
        let name = format.split(' ').next().unwrap();
        assert_eq!(local("--tree db10 delete --all", b"").code, 0);
        assert_eq!(local("--tree db10 count", b"").stdout(), "0\n");
        let done = local(&format!("--tree db10 import - --format {name}"), &text);
        assert_eq!(done.code, 0, "{format}: {}", done.stderr());
        is_there(&local(&format!("--tree db10 {whole}"), b""), format);
    }
    // A new store gets a database for it where it is surely meant.
    let rows = local("--tree db1 export - --format jsonl", b"").stdout;
    assert_eq!(local("--db new.db import - --format jsonl", &rows).code, 0);
    is_there(&local(&format!("--db new.db {whole}"), b""), "new");
    assert_eq!(local("--db files.db import files", b"").code, 0);
    assert_eq!(local("--db files.db scan", b"").stdout(), " of the empty key\na 1\n");
    let lines = "\tx\n";
    let refused = local("--db not.db import -", lines.as_bytes());
    assert!(refused.code == 2 && refused.stderr().contains("the key is empty"), "{refused:?}");
    assert!(!dir.path().join("not.db").exists());
    // The server has all of it.
    let serving = serve(served.path(), "");
    let mut client = serving.client();
    client.check("SELECT 10 => +OK\n DBSIZE => :2");
    assert_eq!(client.call_with(&["PEXPIRETIME", ""]).integer(), (expires_us / 1000).cast_signed());
}

/// A user with the keys of a prefix sees all of them, and nothing else.
#[test]
fn rows_of_a_prefix_need_no_right_to_what_comes_behind() {
    let place = Place::new();
    let mut admin = place.serving.client();
    admin.check("ACL SETUSER shop on >p +@all ~shop:* => +OK");
    let keys: Vec<String> = (0..600).map(|i| format!("shop:{i:03}")).collect();
    let bytes: Vec<u8> = keys.iter().flat_map(|key| format!("{key} v\n").into_bytes()).collect();
    assert_eq!(place.esker_with("import -", &bytes).code, 0);
    admin.check("SET shop: v => +OK\n SET shop; v => +OK\n SET shop v => +OK");
    let url = place.url().replace("unix:", "unix://shop:p@");
    let of_shop = |arguments: &str| with_url(place.dir.path(), &url, arguments);
    let all: Vec<&str> = std::iter::once("shop:").chain(keys.iter().map(String::as_str)).collect();
    for (arguments, is_reverse) in
        [("scan --prefix shop: --keys-only", false), ("scan --prefix shop: --keys-only --reverse", true)]
    {
        let scanned = of_shop(arguments);
        assert_eq!(scanned.code, 0, "{}", scanned.stderr());
        let scanned = scanned.stdout();
        let found: Vec<&str> =
            if is_reverse { scanned.lines().rev().collect() } else { scanned.lines().collect() };
        assert_eq!(found, all, "{arguments}");
    }
    assert_eq!(of_shop("count --prefix shop:").stdout(), "601\n");
    for arguments in ["scan", "count", "scan --prefix shop", "scan shop: shop;"] {
        let refused = of_shop(arguments);
        assert!(
            refused.code == 3 && refused.stderr().contains("NOPERM"),
            "{arguments}: {}",
            refused.stderr()
        );
    }
    assert_eq!(of_shop("delete --prefix shop:").code, 0);
    admin.check("DBSIZE => :2");
}

#[test]
fn collections_are_told_apart() {
    let place = Place::new();
    place.serving.client().check("HSET h f v => :1\n SET s text => +OK\n RPUSH z 1 => :1");
    for command in ["get h", "get h --range 0-", "get h --file copy", "merge h --append x", "merge h --add 1"]
    {
        let done = place.esker(command);
        assert_eq!(done.code, 2, "{command}: {}", done.stderr());
        assert!(done.stderr().contains("has a hash, a set"), "{command}: {}", done.stderr());
        assert_eq!(done.stdout(), "", "{command}");
    }
    let scanned = place.esker("scan");
    assert_eq!(scanned.stdout(), "h \ns text\nz \n");
    assert!(scanned.stderr().contains("a list: 2; they are shown as empty"), "{}", scanned.stderr());
    assert_eq!(place.printed("count"), "3\n");
    for target in ["-", "rows", "dir/"] {
        let done = place.esker(&format!("export {target}"));
        assert_eq!(done.code, 0);
        assert!(done.stderr().contains("a list: 2 values"), "{}", done.stderr());
        assert_eq!(done.stdout(), if target == "-" { "s\ttext\n" } else { "" });
    }
    assert_eq!(fs::read(place.dir.path().join("dir/s")).unwrap(), b"text");
    assert!(!place.dir.path().join("dir/h").exists());
    // They are renamed, copied and deleted like any value, and a put replaces them.
    place.printed("mv h moved");
    place.printed("cp moved copied");
    place.serving.client().check("HGET copied f => v\n HGET moved f => v");
    place.printed("delete moved");
    place.printed("put copied plain");
    assert_eq!(place.printed("scan --keys-only"), "copied\ns\nz\n");
    assert_eq!(place.printed("get copied"), "plain\n");
}

/// The files of a store that was served: what a command does by `--url` it does here too, or refuses as there.
#[test]
fn collections_are_told_apart_in_the_files_of_a_store() {
    let mut place = Place::new();
    let fields = (0..200).map(|number| format!("f{number} {number}")).collect::<Vec<_>>().join(" ");
    place.serving.client().check(&format!(
        "HSET large {fields} => :200\n HSET h f v => :1\n RPUSH l a b => :2\n SADD s m => :1\n ZADD z 1 m => :1
         SET text plain => +OK\n SET number 5 => +OK\n PEXPIREAT h 4000000000000 => :1"
    ));
    place.serving.signal("-TERM");
    assert_eq!(place.serving.code(), Some(0));
    let served = place.served.path();
    let local = |arguments: &str| run(esker_with(served, arguments), b"");
    let printed = |arguments: &str| -> String {
        let done = local(arguments);
        assert_eq!((done.code, done.stderr().as_str()), (0, ""), "{arguments}");
        done.stdout()
    };
    for key in ["large", "h", "l", "s", "z"] {
        for command in [
            "get KEY",
            "get KEY --range 0-",
            "get KEY --file copy",
            "--json get KEY",
            "merge KEY --append x",
            "merge KEY --add 1",
        ] {
            let command = command.replace("KEY", key);
            let done = local(&command);
            assert!(
                done.code == 2 && done.stderr().contains("has a hash, a set"),
                "{command}: {}",
                done.stderr()
            );
            assert_eq!(done.stdout(), "", "{command}");
        }
    }
    for commands in [b"GET large\n".as_slice(), b"GET l\n"] {
        let done = run(esker_with(served, "run -"), commands);
        assert!(done.code == 2 && done.stderr().contains("has a hash, a set"), "{}", done.stderr());
    }
    let scanned = local("scan");
    assert_eq!(scanned.stdout(), "h \nl \nlarge \nnumber 5\ns \ntext plain\nz \n");
    assert!(scanned.stderr().contains("a list: 5; they are shown as empty"), "{}", scanned.stderr());
    for target in ["-", "rows", "dir/"] {
        let done = local(&format!("export {target}"));
        assert_eq!(done.code, 0, "{}", done.stderr());
        assert!(done.stderr().contains("a list: 5 values"), "{}", done.stderr());
        assert_eq!(done.stdout(), if target == "-" { "number\t5\ntext\tplain\n" } else { "" });
    }
    let mut names: Vec<_> =
        fs::read_dir(served.join("dir")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, [".esker-export", "number", "text"]);

    printed("mv large moved");
    printed("cp moved copied");
    printed("cp l copied-l");
    printed("mv h text");
    printed("cp z z");
    assert_eq!(local("mv none other").code, 1);
    printed("put s plain");
    // Numbers of clients are in decimal digits.
    printed("merge number --add 37");
    printed("merge new --add -1");
    printed("merge number --append 0");
    let refused = local("merge s --add 1");
    assert!(refused.code != 0 && refused.stderr().contains("not an integer"), "{}", refused.stderr());
    assert_eq!(printed("get number") + &printed("get new"), "420\n-1\n");
    printed("delete moved");
    let again = serve(served, "");
    let mut client = again.client();
    client.check(
        "HLEN copied => :200\n HGET copied f77 => 77\n EXISTS moved large h => :0\n HGET text f => v
         PEXPIRETIME text => :4000000000000\n LRANGE copied-l 0 -1 => [a b]\n LRANGE l 0 -1 => [a b]
         ZSCORE z m => 1\n GET s => plain\n INCR number => :421\n INCR new => :0",
    );
    assert_eq!(client.call("HGETALL copied").to_string().split(' ').count(), 400);
}

/// Small and large ones, with elements of any bytes, between the server, the files of its store, and other stores.
#[test]
fn collections_go_out_and_in_as_json_lines() {
    let place = Place::new();
    let mut client = place.serving.client();
    client.check("SET a text => +OK\n HSET h f v => :1\n RPUSH l b a b => :3\n SADD s m => :1");
    client
        .check("ZADD z 1.5 m inf top -1e300 low => :3\n HSET e f v => :1\n PEXPIREAT e 4000000000000 => :1");
    for first in (0..2_500).step_by(500) {
        let all = |one: &dyn Fn(u32) -> String| (first..first + 500).map(one).collect::<Vec<_>>().join(" ");
        let (numbers, pairs) =
            (all(&|number| number.to_string()), all(&|number| format!("field{number} {number}")));
        let scores = all(&|number| format!("{number} m{number}"));
        client.check(&format!("RPUSH long {numbers} => :{}", first + 500));
        client.check(&format!("HSET fields {pairs} => :500\n ZADD scores {scores} => :500"));
    }
    // Not UTF-8, and one long value.
    let bytes =
        "{\"key\":\"bytes\",\"type\":\"hash\",\"value\":{\"/w==\":\"AP8=\"},\"encoding\":\"base64\"}\n";
    let huge = format!("{{\"key\":\"huge\",\"type\":\"list\",\"value\":[\"{}\"]}}\n", "x".repeat(200 << 10));
    assert_eq!(place.esker_with("import - --format jsonl", (bytes.to_owned() + &huge).as_bytes()).code, 0);
    client.check("HLEN bytes => :1\n LLEN huge => :1");
    let there = place.esker("export - --format jsonl");
    assert_eq!((there.code, there.stderr().as_str()), (0, ""));
    let text = there.stdout();
    for row in [
        "{\"key\":\"a\",\"value\":\"text\"}\n",
        "{\"key\":\"h\",\"type\":\"hash\",\"value\":{\"f\":\"v\"}}\n",
        "{\"key\":\"l\",\"type\":\"list\",\"value\":[\"b\",\"a\",\"b\"]}\n",
        "{\"key\":\"s\",\"type\":\"set\",\"value\":[\"m\"]}\n",
        "{\"key\":\"z\",\"type\":\"zset\",\"value\":{\"low\":-1.0000000000000001e+300,\"m\":1.5,\"top\":\"inf\"}}\n",
        "\"value\":{\"f\":\"v\"},\"expires_us\":4000000000000000}\n",
        "\"continues\":true}\n",
        bytes,
        &huge,
    ] {
        assert!(text.contains(row), "{row}: {}", &text[..text.len().min(2_000)]);
    }
    // The same import twice gives the same rows, in each format of JSON.
    for _ in 0..2 {
        assert_eq!(place.esker_with("--tree db1 import - --format jsonl", text.as_bytes()).code, 0);
    }
    assert!(place.printed("--tree db1 export - --format jsonl") == text);
    let array = place.printed("export - --format json");
    assert_eq!(place.esker_with("--tree db2 import - --format json", array.as_bytes()).code, 0);
    assert!(place.printed("--tree db2 export - --format jsonl") == text);

    // The same without the server, and in a store that no server has seen.
    let mut place = place;
    place.serving.signal("-TERM");
    assert_eq!(place.serving.code(), Some(0));
    let served = place.served.path();
    let local = |arguments: &str, stdin: &[u8]| run(esker_with(served, arguments), stdin);
    assert!(local("export - --format jsonl", b"").stdout() == text);
    let done = local("--db other.db import - --format jsonl", text.as_bytes());
    assert_eq!(done.code, 0, "{}", done.stderr());
    assert!(local("--db other.db export - --format jsonl", b"").stdout() == text);
    let csv = local("export - --format csv", b"");
    assert!(csv.stderr().contains("or a list: 10 values. JSON Lines"), "{}", csv.stderr());
    assert!(csv.stdout().starts_with("key,value,base64\na,text,\n") && csv.stdout().lines().count() == 2);
    let other = serve(served, "--db other.db");
    other
        .client()
        .check("LRANGE long 2498 -1 => [2498 2499]\n HGET fields field77 => 77\n ZSCORE z top => inf");
    other.client().check("ZCARD scores => :2500\n PEXPIRETIME e => :4000000000000");
}

#[test]
fn rows_that_are_not_collections_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let row = |rest: &str| format!("{{\"key\":\"k\",{rest}}}\n");
    let import = |options: &str, text: &str| {
        run(esker_with(dir.path(), &format!("{options} import - --format jsonl")), text.as_bytes())
    };
    let list = row("\"type\":\"list\",\"value\":[\"a\"]");
    for (text, told) in [
        (row("\"type\":\"hash\",\"value\":[\"a\"]"), "is an object"),
        (row("\"type\":\"hash\",\"value\":\"a\""), "without \"type\" it is a plain value"),
        (row("\"type\":\"set\",\"value\":1"), "is an array"),
        (row("\"type\":\"hash\",\"value\":{\"a\":\"1\",\"a\":\"2\"}"), "two fields \"a\""),
        (row("\"type\":\"hash\",\"value\":{\"a\":null}"), "neither a string nor a number"),
        (row("\"type\":\"list\",\"value\":{}"), "is an array"),
        (row("\"type\":\"set\",\"value\":[]"), "at least one element"),
        (row("\"type\":\"zset\",\"value\":{\"a\":\"high\"}"), "the score \"high\" is not a number"),
        (row("\"type\":\"zset\",\"value\":{\"a\":1e400}"), "larger than a score can be"),
        (row("\"type\":\"zset\",\"value\":{\"a\":\"nan\"}"), "is not a number"),
        (row("\"type\":\"set\",\"value\":[\"!\"],\"encoding\":\"base64\""), "not base64"),
        (row("\"type\":\"list\",\"value\":[\"b\"],\"continues\":1"), "neither true nor false"),
        (row("\"type\":\"list\",\"value\":[\"b\"],\"continues\":true"), "not the one before it"),
        (row("\"type\":\"person\",\"value\":[\"b\"]"), "the \"type\" \"person\" is unknown"),
        (row("\"type\":\"List\",\"value\":[\"b\"]"), "the \"type\" \"List\" is unknown"),
        (row("\"type\":\"stream\",\"value\":\"b\""), "--value-column value takes the value without its type"),
        (row("\"type\":7,\"value\":\"b\""), "the \"type\" 7 is unknown"),
        (row("\"value\":\"b\",\"continues\":true"), "it continues a collection, and has no \"type\""),
    ] {
        let done = import("--db db", &text);
        assert_eq!(done.code, 2, "{text}: {}", done.stderr());
        assert!(done.stderr().contains(told), "{text}: {}", done.stderr());
    }
    let done = import("--db db --tree people", &list);
    assert!(done.code == 2 && done.stderr().contains("cannot hold hashes"), "{}", done.stderr());
    // Only who names the columns says that the type does not matter.
    let done = import("--db json --values json", &list);
    assert!(done.code == 2 && done.stderr().contains("cannot be among json values"), "{}", done.stderr());
    assert!(!dir.path().join("json").exists());
    let import_value = |options: &str, text: &str| {
        run(
            esker_with(dir.path(), &format!("{options} import - --format jsonl --value-column value")),
            text.as_bytes(),
        )
    };
    assert_eq!(import_value("--db json --values json", &list).code, 0);
    assert_eq!(run(esker_with(dir.path(), "--db json get k"), b"").stdout(), "[\"a\"]\n");
    let done = import("--db json", &list);
    assert!(done.code == 2 && done.stderr().contains("cannot be among json values"), "{}", done.stderr());
    assert_eq!(import_value("--db plain", &row("\"type\":\"person\",\"value\":\"b\"")).code, 0);
    assert_eq!(import("--db plain", &row("\"type\":\"string\",\"value\":\"c\"")).code, 0);
    assert_eq!(run(esker_with(dir.path(), "--db plain get k"), b"").stdout(), "c\n");
}

/// A server refuses such an element only after it has what came before. So it is refused here, as a row like others.
#[test]
fn bad_elements_are_rows_that_are_refused_by_url_too() {
    let place = Place::new();
    let row = |key: &str, score: &str| {
        format!("{{\"key\":\"{key}\",\"type\":\"zset\",\"value\":{{\"a\":{score}}}}}\n")
    };
    for score in ["1e400", "\"nan\"", "\"x\""] {
        let good = [row("z", "1"), row("after", "\"-inf\"")];
        let text = [good[0].clone(), row("z", score), good[1].clone()].concat();
        let done = place.esker_with("import - --format jsonl --keep-going", text.as_bytes());
        assert_eq!(done.code, 2, "{score}: {}", done.stderr());
        assert!(done.stderr().contains("standard input:2: "), "{score}: {}", done.stderr());
        let rows = place.esker("export - --format jsonl").stdout();
        assert!(rows.contains("\"z\",\"type\":\"zset\",\"value\":{\"a\":1}"), "{score}: {rows}");
        assert!(rows.contains("\"after\""), "{score}: {rows}");
    }
}

#[test]
fn files_of_a_store_are_out_of_reach() {
    let place = Place::new();
    for command in [
        "check",
        "compact",
        "stats",
        "trees",
        "checkpoint d",
        "export-tree d",
        "import-tree d",
        "backup d",
        "repair",
        "destroy",
        "serve",
    ] {
        let done = place.esker(command);
        assert_eq!(done.code, 2, "{command}: {}", done.stderr());
        assert!(done.stderr().contains("works on the files of a store"), "{command}: {}", done.stderr());
    }
    assert_eq!(fs::read_dir(place.dir.path()).unwrap().count(), 0);
}

#[test]
fn the_shell_stays_connected() {
    let place = Place::new();
    let lines = format!(
        "put a 1\ntree db2\nput a two\nget a\ntree default\nget a\nstats\n--db own.db put a own\nget a\nopen own.db\nget a\n\
         open\nget a\nopen {0}?db=2\nget a\nclose\nget a\n--url {0} get a\nput b --file -\n",
        place.url()
    );
    let done = place.esker_with("shell", lines.as_bytes());
    assert_eq!(done.stdout(), "two\n1\n1\nown\n1\ntwo\n1\n", "{}", done.stderr());
    // The first line that failed.
    assert_eq!(done.code, 2);
    assert!(done.stderr().contains("the error is in line 7"), "{}", done.stderr());
    assert!(done.stderr().contains("no store is open"), "{}", done.stderr());
    assert_eq!(with_url(place.dir.path(), "unix:none", "shell").code, 3);
}

/// A directory goes in and out, and again only in what differs.
#[test]
fn directories_go_in_and_out() {
    let place = Place::new();
    let source = place.dir.path().join("in");
    fs::create_dir_all(source.join("sub")).unwrap();
    let huge: Vec<u8> = (0..3 << 20).map(|i: usize| (i % 251) as u8).collect();
    for (name, bytes) in [("a", &b"1"[..]), ("sub/b", b""), ("sub/huge", &huge)] {
        fs::write(source.join(name), bytes).unwrap();
    }
    let stored = |done: &Done| done.stderr().lines().last().unwrap().split(": ").nth(1).map(str::to_owned);
    assert_eq!(stored(&place.esker("import in")).as_deref(), Some("3 stored"));
    fs::write(source.join("a"), "other").unwrap();
    assert_eq!(stored(&place.esker("import in")).as_deref(), Some("1 stored, 2 unchanged"));
    place.printed("export out/");
    fs::write(place.dir.path().join("out/sub/huge"), &huge[1..]).unwrap();
    fs::write(place.dir.path().join("out/a"), "OTHER").unwrap();
    place.printed("export out/");
    assert!(fs::read(place.dir.path().join("out/sub/huge")).unwrap() == huge);
    assert_eq!(fs::read(place.dir.path().join("out/a")).unwrap(), b"other");
    assert_eq!(place.printed("ls sub/ --sha256").lines().count(), 2);
}

/// The server closes the connection while the value is sent. It is told why, and the value is as it was.
#[test]
fn a_value_that_is_too_long_is_refused() {
    let place = Place::new();
    place.printed("put k before");
    place.serving.client().check("CONFIG SET proto-max-bulk-len 1mb => +OK");
    fs::write(place.dir.path().join("long"), vec![b'x'; 20 << 20]).unwrap();
    let done = place.esker("put k --file long");
    assert_eq!(done.code, 2, "{}", done.stderr());
    assert!(done.stderr().contains("proto-max-bulk-len"), "{}", done.stderr());
    assert_eq!(place.printed("get k"), "before\n");
}

/// A value is stored whole or not at all: a client that is killed while it sends one stores nothing.
#[test]
fn a_value_that_does_not_arrive_whole_is_not_stored() {
    let place = Place::new();
    place.printed("put k before");
    let mut command = esker_in(place.dir.path());
    command.arg("--url").arg(place.url()).args(["put", "k", "--file", "-"]);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.as_mut().unwrap().write_all(&vec![b'x'; 3 << 20]).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(place.printed("get k"), "before\n");
}

#[test]
fn errors_of_the_server_are_told_with_their_code() {
    let dir = tempfile::tempdir().unwrap();
    // What the server answers, one after the other; the code; and what is said.
    let cases: [(&str, &[&str], i32, &str); 15] = [
        ("get k", &["HTTP/1.1 400 Bad Request\r\n\r\n"], 3, "does not speak Redis' protocol"),
        ("get k", &[":-1\r\n$9223372036854775807\r\nabc"], 3, "protocol"),
        ("get k", &[":-1\r\n$4611686018427387000\r\nabc"], 3, "closed the connection"),
        ("get k", &[":-1\r\n$3\r\nabcd\r\n"], 3, "another length"),
        ("get k", &[":-1\r\n*1\r\n:1\r\n"], 3, "unexpected reply"),
        ("get k", &[&"*1\r\n".repeat(100_000)], 3, "too deep"),
        (
            "get k",
            &["-NOAUTH Authentication required.\r\n-NOAUTH Authentication required.\r\n"],
            3,
            "password",
        ),
        ("get k", &["-NOPERM no\r\n-NOPERM no\r\n"], 3, "NOPERM no"),
        ("scan --prefix a", &["-NOPERM no\r\n", "-NOPERM still\r\n"], 3, "NOPERM still"),
        ("get k", &[""], 3, "closed the connection"),
        ("put k v", &["-MISCONF the disk is full: no room\r\n"], 3, "the disk is full: no room"),
        ("put k v", &["+OK\r\n", "*2\r\n:0\r\n:0\r\n"], 3, "not synced in time"),
        ("put k v", &["+OK\r\n", "-ERR unknown command\r\n"], 3, "unknown command"),
        ("scan", &["*1048576\r\n$1\r\na\r\n"], 3, "closed the connection"),
        ("scan", &["*6\r\n$1\r\nb\r\n:-1\r\n$0\r\n\r\n$1\r\na\r\n:-1\r\n$0\r\n\r\n"], 3, "unexpected reply"),
    ];
    for (number, (command, answers, code, part)) in cases.into_iter().enumerate() {
        let path = dir.path().join(number.to_string());
        let listener = UnixListener::bind(&path).unwrap();
        let done = std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut stream = listener.accept().unwrap().0;
                let mut buffer = [0; 4096];
                for answer in answers {
                    if stream.read(&mut buffer).unwrap_or(0) > 0 {
                        let _ = stream.write_all(answer.as_bytes());
                    }
                }
            });
            with_url(dir.path(), &format!("unix:{number}"), command)
        });
        assert_eq!(done.code, code, "{command} {answers:?}: {}", done.stderr());
        assert!(done.stderr().contains(part), "{command} {answers:?}: {}", done.stderr());
        assert!(!done.stderr().contains("panicked"), "{}", done.stderr());
    }
}

/// What a client says first, so that it is let in and in the right database.
#[test]
fn a_client_introduces_itself() {
    let dir = tempfile::tempdir().unwrap();
    for (number, (before, database, sent)) in [
        ("", "", "*2\r\n$11\r\nPEXPIRETIME\r\n$1\r\nk\r\n"),
        (":p%40w@", "", "*2\r\n$4\r\nAUTH\r\n$3\r\np@w\r\n"),
        ("ann:@", "", "*3\r\n$4\r\nAUTH\r\n$3\r\nann\r\n$0\r\n\r\n"),
        ("", "?db=12", "*2\r\n$6\r\nSELECT\r\n$2\r\n12\r\n"),
    ]
    .into_iter()
    .enumerate()
    {
        let path = dir.path().join(number.to_string());
        let listener = UnixListener::bind(&path).unwrap();
        let done = std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut stream = listener.accept().unwrap().0;
                let mut first = vec![0; sent.len()];
                stream.read_exact(&mut first).unwrap();
                assert_eq!(String::from_utf8_lossy(&first), sent);
                let _ = stream.write_all(b"-WRONGPASS not you\r\n");
            });
            with_url(dir.path(), &format!("unix://{before}{}{database}", path.display()), "get k")
        });
        assert_eq!(done.code, 3, "{}", done.stderr());
        assert!(!done.stderr().contains("p@w"), "{}", done.stderr());
    }
}

/// A server that answers each question for a page with the same one.
#[test]
fn a_scan_of_a_server_that_gets_nowhere_ends() {
    let dir = tempfile::tempdir().unwrap();
    let listener = UnixListener::bind(dir.path().join("socket")).unwrap();
    let row = "$1\r\nk\r\n:-1\r\n$1\r\nv\r\n";
    let page = format!("*{}\r\n{}", 3 * 256, row.repeat(256));
    let done = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut stream = listener.accept().unwrap().0;
            let mut bytes = vec![0; 4096];
            while stream.read(&mut bytes).is_ok_and(|read| read > 0)
                && stream.write_all(page.as_bytes()).is_ok()
            {}
        });
        with_url(dir.path(), "unix:socket", "scan --limit 1000")
    });
    assert_eq!(done.code, 3, "{}", done.stderr());
    assert!(done.stderr().contains("unexpected"), "{}", done.stderr());
}

/// A socket with more connections than its server has accepted: the system lets others wait for ever.
#[test]
fn a_wait_for_a_server_that_accepts_nobody_ends() {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, connect, listen, socket};
    let dir = tempfile::tempdir().unwrap();
    let address = SocketAddrUnix::new(dir.path().join("socket")).unwrap();
    let new = || socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
    let server = new();
    bind(&server, &address).unwrap();
    listen(&server, 0).unwrap();
    let first = new();
    connect(&first, &address).unwrap();
    let done = with_url(dir.path(), "unix:socket", "--wait 1s get k");
    assert_eq!(done.code, 3, "{}", done.stderr());
    // It is not taken for one that was left behind.
    let done = run(esker_with(dir.path(), "serve --resp unix:socket"), b"");
    assert_eq!(done.code, 2, "{}", done.stderr());
    assert!(done.stderr().contains("socket"), "{}", done.stderr());
}

/// A server that never answers, and one that does not listen yet.
#[test]
fn waits_have_an_end() {
    let dir = tempfile::tempdir().unwrap();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", silent.local_addr().unwrap());
    let done = with_url(dir.path(), &url, "--wait 1s get k");
    assert_eq!(done.code, 3);
    assert!(done.stderr().contains("no answer within 1 s"), "{}", done.stderr());
    let done = std::thread::scope(|scope| {
        let asked = scope.spawn(|| with_url(dir.path(), "unix:socket", "--wait 60s put k v"));
        let _serving = serve(dir.path(), "");
        asked.join().unwrap()
    });
    assert_eq!(done.code, 0, "{}", done.stderr());
}
