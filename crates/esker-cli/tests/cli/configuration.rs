//! The configuration of `esker serve`: flags, variables, a file, and `--print-config`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::support::{Done, esker_in, run};

/// Runs `esker serve` with these options and variables.
fn serve(dir: &Path, options: &[&str], variables: &[(&str, &str)]) -> Done {
    let mut command = esker_in(dir);
    command.arg("serve").args(options).envs(variables.iter().copied());
    run(command, b"")
}

/// What `--print-config` prints: each value, and where it comes from.
fn printed(done: &Done) -> BTreeMap<String, (String, String)> {
    assert_eq!((done.code, done.stderr().as_str()), (0, ""));
    let text = done.stdout();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let (name, rest) = line.split_once(" = ").unwrap();
            let (value, from) = rest.rsplit_once("  # ").unwrap();
            (name.to_owned(), (value.to_owned(), from.to_owned()))
        })
        .collect()
}

fn pair<'a>(value: &'a str, from: &'a str) -> (String, String) {
    (value.to_owned(), from.to_owned())
}

#[test]
fn flags_come_before_variables_before_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let text = "\n# a comment\ntimeout = 1\nmax-clients = 1\ndatabases = 0x7\ndurability = 'every=10ms'\n\
                resp = ['127.0.0.1:1', \"unix:a\\u0062\"]\nmemory = \"16M\"\nlog-level = \"warn\"\nlog-format = \"json\"\n";
    fs::write(dir.path().join("esker.toml"), text).unwrap();
    let variables = [("ESKER_TIMEOUT", "2"), ("ESKER_MAX_CLIENTS", "2"), ("ESKER_MEMORY", "32M")];
    let options = ["--config", "esker.toml", "--timeout", "3", "--log-format=text", "--print-config"];
    let found = printed(&serve(dir.path(), &options, &variables));
    for (name, value) in [
        ("timeout", pair("3", "--timeout")),
        ("max-clients", pair("2", "ESKER_MAX_CLIENTS")),
        ("databases", pair("7", "line 5 of esker.toml")),
        ("durability", pair("\"every=10ms\"", "line 6 of esker.toml")),
        ("resp", pair("[\"127.0.0.1:1\", \"unix:ab\"]", "line 7 of esker.toml")),
        ("memory", pair("\"32M\"", "ESKER_MEMORY")),
        ("log-level", pair("\"warn\"", "line 9 of esker.toml")),
        ("log-format", pair("\"text\"", "--log-format")),
        ("send-timeout", pair("300", "default")),
        ("db", pair("\"./esker.db\"", "default")),
    ] {
        assert_eq!(found.get(name), Some(&value), "{name}");
    }
    // HTTP is off, since RESP has an address.
    assert!(!found.contains_key("http"));
    // The file may also be named by a variable, and options may stand before the command.
    let mut command = esker_in(dir.path());
    command.args(["--memory", "64M", "serve", "--print-config"]).env("ESKER_CONFIG", "esker.toml");
    let found = printed(&run(command, b""));
    assert_eq!(found["memory"], pair("\"64M\"", "--memory"));
    assert_eq!(found["timeout"], pair("1", "line 3 of esker.toml"));
    assert!(!dir.path().join("esker.db").exists());
}

/// What is printed gives the same when it is read, whatever its texts contain.
#[test]
fn a_printed_configuration_gives_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let odd = "a \"b\" \\ ' # = é\u{1}\t\u{7f}";
    for options in [
        vec![],
        vec!["--db", odd, "--http", "unix:x", "--slowlog-log-slower-than", "-1"],
        vec!["--resp", "unix:a", "--resp", "[::1]:0", "--max-argument", "5M", "--wait", "10s"],
    ] {
        let all: Vec<&str> = options.iter().copied().chain(["--print-config"]).collect();
        let first = serve(dir.path(), &all, &[]);
        fs::write(dir.path().join("printed.toml"), &first.stdout).unwrap();
        let again = serve(dir.path(), &["--config", "printed.toml", "--print-config"], &[]);
        let values = |done: &Done| -> Vec<(String, String)> {
            printed(done).into_iter().map(|(name, (value, _))| (name, value)).collect()
        };
        assert_eq!(values(&first), values(&again), "{options:?}");
    }
    let found = printed(&serve(dir.path(), &["--print-config"], &[]));
    assert_eq!(found["resp"], pair("[\"127.0.0.1:6379\"]", "default"));
    assert_eq!(found["http"], pair("[\"127.0.0.1:8080\"]", "default"));
}

#[test]
fn what_is_wrong_in_a_file_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let (path, db) = (dir.path().join("bad.toml"), dir.path().join("esker.db"));
    for (text, part) in [
        ("\n\nmax_clients = 1", "bad.toml:3: there is no setting \"max_clients\": it is called max-clients"),
        ("x = 1\ny = 2", "bad.toml:1: there is no setting \"x\""),
        ("config = 'x'", "there is no setting \"config\""),
        ("print-config = true", "there is no setting \"print-config\""),
        ("tree = 'x'", "there is no setting \"tree\""),
        ("[serve]\ntimeout = 1", "bad.toml:1: there is no setting \"serve\""),
        ("timeout.x = 1", "bad.toml:1: timeout is a text or a whole number, and no table"),
        ("timeout = 1\ntimeout = 2", "bad.toml:2: duplicate key"),
        ("timeout = 1.5", "no float"),
        ("timeout = 2026-11-25", "no datetime"),
        ("timeout = 99999999999999999999999", "bad.toml:1:"),
        ("timeout = -1", "bad.toml:1: invalid value '-1'"),
        ("timeout = [1]", "timeout has one value"),
        ("resp = [['unix:a']]", "resp is an array of texts"),
        ("resp = 'nowhere'", "\"nowhere\" is no address"),
        ("databases = 2000", "2000 is not in 1..=1024"),
        ("durability = 'fast'", "\"fast\" is no durability"),
        ("log-level = 'loud'", "possible values: error, warn, info, debug"),
        ("memory = 'much'", "bad.toml:1: invalid value 'much' for '--memory"),
        ("max-argument = 1000", "at least 1M"),
        ("timeout = \"", "bad.toml:1: invalid basic string"),
        (&"[".repeat(100_000), "bad.toml:1:"),
        (&format!("timeout = {}", "[".repeat(100_000)), "bad.toml:1:"),
        (&format!("{}timeout = 1", "a.".repeat(100_000)), "bad.toml:1:"),
    ] {
        fs::write(&path, text).unwrap();
        let done = serve(dir.path(), &["--config", "bad.toml"], &[]);
        let shown = &text[..text.len().min(50)];
        assert_eq!((done.code, done.stdout().as_str()), (2, ""), "{shown}: {}", done.stderr());
        assert!(done.stderr().contains(part), "{shown}: {}", done.stderr());
        assert!(done.stderr().len() < 1000, "{shown}: {} bytes", done.stderr().len());
    }
    fs::write(&path, b"timeout = 1\n# \xff\n").unwrap();
    fs::write(dir.path().join("huge.toml"), "#".repeat((1 << 20) + 1)).unwrap();
    for (file, part) in [
        ("bad.toml", "line 2 is not UTF-8"),
        ("huge.toml", "more than 1048576 bytes"),
        (".", "no regular file"),
        ("/dev/zero", "no regular file"),
        ("absent.toml", "No such file"),
    ] {
        let done = serve(dir.path(), &["--config", file], &[]);
        assert_eq!(done.code, 2, "{file}: {}", done.stderr());
        assert!(done.stderr().contains(part), "{file}: {}", done.stderr());
    }
    assert!(!db.exists());
    // A wrong variable is no fault of the file, and the file none of a flag that comes first.
    fs::write(&path, "timeout = 1\n").unwrap();
    let done = serve(dir.path(), &["--config", "bad.toml", "--print-config"], &[("ESKER_DATABASES", "many")]);
    assert!(done.code == 2 && done.stderr().contains("--databases"), "{}", done.stderr());
}

/// A file of a billion bytes takes neither memory nor time.
#[test]
fn a_file_without_end_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    fs::File::create(dir.path().join("zeros")).unwrap().set_len(1 << 30).unwrap();
    let done = serve(dir.path(), &["--config", "zeros"], &[]);
    assert!(done.code == 2 && done.stderr().contains("more than 1048576 bytes"), "{}", done.stderr());
}
