//! Runs the scripts in `tests/sessions`, each in an empty directory of its own.
//!
//! ```text
//! $ esker get a          a command: esker, or one of write, cat, find, gone, mkdir, copy (see `builtin`)
//! < text                 a line of its standard input
//! > text                 a line of standard output, exactly; `>| text`: the same without a line feed
//! >~ text                standard output contains this; the rest of it does not matter
//! > *                    standard output does not matter
//! ! text                 standard error contains this
//! ? 1                    the exit code, where it is not 0
//! ```
//! A script that begins with `#! also on a server` is run a second time by way of a server (`Served`), with the same results.
//! There, a step that begins with `$store` is left out; one that begins with `$server` is only there.
//!
//! Words are split at blanks; "..." and '...' keep them, and \n \t \r \0 \xHH stand for bytes. NAME=VALUE in front of the
//! command sets a variable. Lines that begin with # are comments.
//!
//! `UPDATE_SESSIONS=1 cargo test --test cli sessions::` writes what was printed, and the exit codes, into the
//! scripts: read the difference before committing it.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use crate::serve::{Serving, serve};
use crate::support::{Done, esker_in};

/// The first line of a script that is run in both ways.
const ALSO_SERVED: &str = "#! also on a server\n";

fn scripts() -> Vec<PathBuf> {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sessions");
    let mut paths: Vec<_> = fs::read_dir(scripts).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

#[test]
fn sessions_go_as_written() {
    let paths = scripts();
    assert!(paths.len() >= 8, "the sessions are there");
    let problems: Vec<String> = paths.iter().flat_map(|path| session(path)).collect();
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

#[test]
fn sessions_go_on_a_server_as_on_a_store() {
    let mut problems = Vec::new();
    let paths = scripts();
    let also = paths.iter().filter(|path| fs::read_to_string(path).unwrap().starts_with(ALSO_SERVED));
    let mut count = 0;
    for path in also {
        count += 1;
        problems.extend(session_on_server(path));
    }
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
    assert!(count >= 8, "{count}");
}

/// Where a step is run.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum On {
    #[default]
    Both,
    Store,
    Server,
}

/// One command and what is expected of it.
#[derive(Default)]
struct Step {
    line: usize,
    on: On,
    command: String,
    stdin: Vec<u8>,
    stdout: Vec<u8>,
    any_stdout: bool,
    contained: Vec<Vec<u8>>,
    stderr: Vec<String>,
    code: i32,
}

fn session(path: &Path) -> Vec<String> {
    let script = fs::read_to_string(path).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let steps: Vec<Step> = steps(&script).into_iter().filter(|step| step.on != On::Server).collect();
    if std::env::var_os("UPDATE_SESSIONS").is_some() {
        let done: Vec<Done> = steps.iter().map(|step| perform(dir.path(), step)).collect();
        fs::write(path, updated(&script, &steps, &done)).unwrap();
        return Vec::new();
    }
    problems(path, &steps, |step| perform(dir.path(), step))
}

fn session_on_server(path: &Path) -> Vec<String> {
    let script = fs::read_to_string(path).unwrap();
    let (dir, of_server) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let steps: Vec<Step> = steps(&script).into_iter().filter(|step| step.on != On::Store).collect();
    let serving = serve(of_server.path(), "--databases 100");
    let mut served =
        Served { socket: of_server.path().join("socket"), databases: Vec::new(), _serving: serving };
    problems(path, &steps, |step| served.perform(dir.path(), step))
}

/// A server that has a database for each tree that a session names.
struct Served {
    socket: PathBuf,
    databases: Vec<Named>,
    _serving: Serving,
}

/// What `--db`, `--tree`, `--keys` and `--values` say in a session. A tree remembers the types of its first write. On a
/// server, each command has to say them.
#[derive(Default)]
struct Named {
    db: Option<OsString>,
    tree: Option<OsString>,
    keys: Option<OsString>,
    values: Option<OsString>,
}

impl Served {
    fn perform(&mut self, dir: &Path, step: &Step) -> Done {
        let all = words(&step.command);
        if all[0] != "esker" {
            return perform(dir, step);
        }
        let (mut named, mut rest) = (Named::default(), Vec::new());
        let mut all = all.into_iter().skip(1);
        while let Some(word) = all.next() {
            match word.to_str() {
                Some("--db") => named.db = all.next(),
                Some("--tree") => named.tree = all.next(),
                Some("--keys") => named.keys = all.next(),
                Some("--values") => named.values = all.next(),
                _ => rest.push(word),
            }
        }
        let is_it = |known: &Named| known.db == named.db && known.tree == named.tree;
        let number = self.databases.iter().position(is_it).unwrap_or_else(|| {
            let (db, tree) = (named.db.clone(), named.tree.clone());
            self.databases.push(Named { db, tree, ..Named::default() });
            self.databases.len() - 1
        });
        let known = &mut self.databases[number];
        let mut command = esker_in(dir);
        command.arg("--url").arg(format!("unix:{}?db={number}", self.socket.display()));
        let mut say = |option: &str, typed: Option<OsString>, known: &mut Option<OsString>| {
            let is_type = typed.as_ref().is_some_and(|typed| typed != "hex" && typed != "escaped");
            if known.is_none() && is_type {
                known.clone_from(&typed);
            }
            if let Some(name) = typed.or_else(|| known.clone()) {
                command.arg(option).arg(name);
            }
        };
        say("--keys", named.keys, &mut known.keys);
        say("--values", named.values, &mut known.values);
        command.args(rest);
        crate::support::run(command, &step.stdin)
    }
}

/// Performs the steps, and says what was not as expected.
fn problems(path: &Path, steps: &[Step], mut perform: impl FnMut(&Step) -> Done) -> Vec<String> {
    let mut problems = Vec::new();
    for step in steps {
        let done = perform(step);
        let at = format!("{}:{}: {}", path.file_name().unwrap().display(), step.line, step.command);
        if done.code != step.code {
            problems.push(format!(
                "{at}\n  exit code {} instead of {}: {}",
                done.code,
                step.code,
                done.stderr()
            ));
        }
        if !step.any_stdout && done.stdout != step.stdout {
            let (was, should) = (done.stdout(), String::from_utf8_lossy(&step.stdout).into_owned());
            problems.push(format!("{at}\n  printed {was:?}\n  instead of {should:?}; {}", done.stderr()));
        }
        for text in &step.contained {
            if !done.stdout.windows(text.len()).any(|part| part == text.as_slice()) {
                problems.push(format!("{at}\n  printed {:?}\n  without {:?}", done.stdout(), shown(text)));
            }
        }
        for text in &step.stderr {
            if !done.stderr().contains(text) {
                problems.push(format!("{at}\n  standard error {:?}\n  lacks {text:?}", done.stderr()));
            }
        }
        if done.stderr().contains("panicked") {
            problems.push(format!("{at}\n  panicked: {}", done.stderr()));
        }
    }
    problems
}

fn steps(script: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for (i, line) in script.lines().enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (mark, text) = line.split_once(' ').unwrap_or((line, ""));
        let on = match mark {
            "$" => Some(On::Both),
            "$store" => Some(On::Store),
            "$server" => Some(On::Server),
            _ => None,
        };
        if let Some(on) = on {
            steps.push(Step { line: i + 1, on, command: text.to_owned(), ..Step::default() });
            continue;
        }
        let step = steps.last_mut().expect("a session begins with a command");
        match mark {
            "<" => step.stdin.extend([&bytes(text), b"\n".as_slice()].concat()),
            ">" if text == "*" => step.any_stdout = true,
            ">" => step.stdout.extend([&bytes(text), b"\n".as_slice()].concat()),
            ">~" => {
                step.any_stdout = true;
                step.contained.push(bytes(text));
            }
            ">|" => step.stdout.extend(bytes(text)),
            "!" => step.stderr.push(text.to_owned()),
            "?" => step.code = text.parse().unwrap(),
            _ => panic!("line {}: {line:?}", i + 1),
        }
    }
    steps
}

/// The script with what was printed in the place of what was expected.
fn updated(script: &str, steps: &[Step], done: &[Done]) -> String {
    let mut out = String::new();
    let mut results = steps.iter().zip(done).peekable();
    let mut current: Option<(&Step, &Done)> = None;
    let end = |current: &mut Option<(&Step, &Done)>, out: &mut String| {
        let Some((step, done)) = current.take() else { return };
        for line in done.stdout.split_inclusive(|byte| *byte == b'\n').filter(|_| !step.any_stdout) {
            let (mark, text) = line.strip_suffix(b"\n").map_or((">|", line), |text| (">", text));
            out.push_str(&format!("{mark} {}\n", shown(text)));
        }
        if done.code != 0 {
            out.push_str(&format!("? {}\n", done.code));
        }
    };
    let mut is_elsewhere = false;
    for (i, line) in script.lines().enumerate() {
        let mark = line.split(' ').next().unwrap_or_default();
        if mark.starts_with('$') {
            is_elsewhere = mark == "$server";
        }
        let replaced = matches!(mark, ">" | ">|" | "?") && line != "> *" && !is_elsewhere;
        if matches!(mark, "" | "$" | "$store" | "$server" | "!") || line.starts_with('#') {
            end(&mut current, &mut out);
        }
        if !replaced {
            out.push_str(&format!("{line}\n"));
        }
        current = results.next_if(|(step, _)| step.line == i + 1).or(current);
    }
    end(&mut current, &mut out);
    out
}

/// `text` as it is written in a script.
fn shown(text: &[u8]) -> String {
    let mut out = String::new();
    for chunk in text.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\t' => out.push_str("\\t"),
                '\r' => out.push_str("\\r"),
                '\n' => out.push_str("\\n"),
                '\\' => out.push_str("\\\\"),
                '\0'..' ' | '\x7f' => out.push_str(&format!("\\x{:02x}", c as u8)),
                _ => out.push(c),
            }
        }
        chunk.invalid().iter().for_each(|byte| out.push_str(&format!("\\x{byte:02x}")));
    }
    out
}

fn perform(dir: &Path, step: &Step) -> Done {
    let mut words = words(&step.command);
    let mut variables = Vec::new();
    while let Some((name, value)) = assignment(&words[0]) {
        variables.push((name, value));
        words.remove(0);
    }
    let name = words.remove(0).into_string().unwrap();
    match name.as_str() {
        "esker" => {
            let mut command = esker_in(dir);
            command.args(words).envs(variables);
            crate::support::run(command, &step.stdin)
        }
        _ => builtin(dir, &name, &words, &step.stdin),
    }
}

/// What a session needs of a shell.
fn builtin(dir: &Path, name: &str, words: &[OsString], stdin: &[u8]) -> Done {
    let path = dir.join(&words[0]);
    let mut done = Done { code: 0, stdout: Vec::new(), stderr: Vec::new() };
    match name {
        // The standard input becomes the file.
        "write" => {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, stdin).unwrap();
        }
        "cat" => done.stdout = fs::read(path).unwrap(),
        // Every file below, sorted, relative.
        "find" => {
            let mut found = Vec::new();
            crate::support::files(&path, &mut found);
            for file in found {
                let below = file.strip_prefix(&path).unwrap();
                done.stdout.extend([below.as_os_str().as_encoded_bytes(), b"\n"].concat());
            }
        }
        "mkdir" => fs::create_dir(path).unwrap(),
        "copy" => drop(fs::copy(path, dir.join(&words[1])).unwrap()),
        // Code 1 when it is there.
        "gone" => done.code = i32::from(fs::symlink_metadata(path).is_ok()),
        _ => panic!("{name} is no command of a session"),
    }
    done
}

fn assignment(word: &OsString) -> Option<(String, OsString)> {
    let (name, value) = word.to_str()?.split_once('=')?;
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
    is_name.then(|| (name.to_owned(), value.into()))
}

fn words(command: &str) -> Vec<OsString> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for c in command.chars() {
        match (quote, c) {
            (Some(open), _) if c == open => quote = None,
            (Some(_), _) => word.get_or_insert_default().push(c),
            (None, '"' | '\'') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None, ' ') => words.extend(word.take()),
            (None, _) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words.into_iter().map(|word| OsString::from_vec(bytes(&word))).collect()
}

fn bytes(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        (out, rest) = match (first, after) {
            (b'\\', [b'n', after @ ..]) => ([out, vec![b'\n']].concat(), after),
            (b'\\', [b't', after @ ..]) => ([out, vec![b'\t']].concat(), after),
            (b'\\', [b'r', after @ ..]) => ([out, vec![b'\r']].concat(), after),
            (b'\\', [b'0', after @ ..]) => ([out, vec![0]].concat(), after),
            (b'\\', [b'\\', after @ ..]) => ([out, vec![b'\\']].concat(), after),
            (b'\\', [b'x', high, low, after @ ..]) => {
                let hex = String::from_utf8(vec![*high, *low]).unwrap();
                ([out, vec![u8::from_str_radix(&hex, 16).unwrap()]].concat(), after)
            }
            _ => ([out, vec![*first]].concat(), after),
        };
    }
    out
}
