//! The shell, at a terminal and fed through a pipe.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

#[cfg(target_os = "linux")]
use crate::support::can_trace;
use crate::support::{esker, esker_in, esker_with};
use rexpect::process::{PtyProcess, Signal};
use rexpect::session::{PtySession, spawn_command};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// A machine that is stopped for a while is no failure.
const PATIENCE_MS: u64 = 60_000;

const UP: &str = "\x1b[A";
const TAB: &str = "\t";

/// `esker shell` at a terminal of its own, with its history in `dir`.
fn shell(dir: &Path, options: &str) -> PtySession {
    shell_at(dir, "xterm", options)
}

/// The same at a terminal of the kind `term`.
fn shell_at(dir: &Path, term: &str, options: &str) -> PtySession {
    let mut command = esker_in(dir);
    command.arg("shell").args(options.split_whitespace());
    command.env("XDG_STATE_HOME", dir.join("state")).env("TERM", term).env("NO_COLOR", "1");
    spawn_command(command, Some(PATIENCE_MS)).unwrap()
}

/// Waits for `text`, then for the next prompt, whose store is `place`.
#[track_caller]
fn sees(shell: &mut PtySession, text: &str, place: &str) {
    shell.exp_string(text).unwrap_or_else(|error| panic!("{text:?}: {error}"));
    shell
        .exp_string(&format!("{place}> "))
        .unwrap_or_else(|error| panic!("{place}> after {text:?}: {error}"));
}

/// Types without a line's end.
fn types(shell: &mut PtySession, keys: &str) {
    shell.send(keys).unwrap();
    shell.flush().unwrap();
}

/// Types `line`, and waits for `answer` and the next prompt.
#[track_caller]
fn says(shell: &mut PtySession, line: &str, answer: &str, place: &str) {
    shell.send_line(line).unwrap();
    shell.exp_string("\n").unwrap();
    sees(shell, answer, place);
}

#[track_caller]
fn ends(shell: PtySession) {
    ends_with(shell, 0);
}

#[track_caller]
fn ends_with(mut shell: PtySession, code: u8) {
    shell.exp_eof().unwrap();
    let status = format!("{:?}", shell.process().wait().unwrap());
    assert!(status.starts_with("Exited") && status.ends_with(&format!(", {code})")), "{status}");
}

/// `esker` at a terminal. `spawn_command` switches the terminal's echo off, but not before it returns: what is sent at once may
/// be echoed or not.
fn terminal(dir: &Path, arguments: &str) -> PtySession {
    let mut command = esker_in(dir);
    command.args(arguments.split_whitespace()).env("TERM", "xterm").env("NO_COLOR", "1");
    spawn_command(command, Some(PATIENCE_MS)).unwrap()
}

fn fill(dir: &Path, rows: u64) {
    let lines: String = (0..rows).map(|i| format!("PUT {i:07} {}\n", "x".repeat(90))).collect();
    let done = esker_with(dir, "run -", lines.as_bytes());
    assert_eq!(done.code, 0, "{}", done.stderr());
}

#[test]
fn a_session_opens_puts_gets_scans_and_closes() {
    let dir = tempfile::tempdir().unwrap();
    let mut shell = shell(dir.path(), "");
    sees(&mut shell, "", "esker");
    says(&mut shell, "get a", "no store is open", "esker");
    says(&mut shell, "open x.db 4M 64M", "", "x.db");
    says(&mut shell, "put a 'one two'", "", "x.db");
    says(&mut shell, "get a", "one two", "x.db");
    says(&mut shell, "get b", "there is no such key: b", "x.db");
    says(&mut shell, "put b 2", "", "x.db");
    says(&mut shell, "scan a z", "a one two\r\nb 2", "x.db");
    says(&mut shell, "count", "2", "x.db");
    says(&mut shell, "check", "ok", "x.db");
    says(&mut shell, "tree other", "", "x.db:other");
    says(&mut shell, "put a elsewhere", "", "x.db:other");
    says(&mut shell, "trees", "default\r\nother", "x.db:other");
    says(&mut shell, "get a --tree default", "one two", "x.db:other");
    says(&mut shell, "help open", "open x.db 4M 256M", "x.db:other");
    says(&mut shell, "help", "Commands:", "x.db:other");
    says(&mut shell, "close", "", "esker");
    says(&mut shell, "close", "no store is open", "esker");
    says(&mut shell, "open x.db", "", "x.db:other");
    says(&mut shell, "tree default", "", "x.db");
    shell.send_line("destroy").unwrap();
    shell.exp_string("Type its name: ").unwrap();
    shell.send_line("y").unwrap();
    sees(&mut shell, "nothing was deleted", "x.db");
    shell.send_line("destroy").unwrap();
    shell.exp_string("Type its name: ").unwrap();
    shell.send_line("x.db").unwrap();
    sees(&mut shell, "\n", "esker");
    assert!(!dir.path().join("x.db").exists());
    shell.send_line("exit").unwrap();
    ends(shell);
}

/// As when several lines are pasted.
#[test]
fn what_is_typed_ahead_is_done_in_turn() {
    let dir = tempfile::tempdir().unwrap();
    let mut shell = shell(dir.path(), "");
    sees(&mut shell, "", "esker");
    types(&mut shell, "open x.db\rput a first\rput b second\rget b\rcount\r");
    sees(&mut shell, "\r\nsecond", "x.db");
    sees(&mut shell, "\r\n2", "x.db");
    says(&mut shell, "get a", "first", "x.db");
    shell.send_line("exit").unwrap();
    ends(shell);
}

/// Pastes `text` as a terminal does that marks what is pasted; where a program has not asked for that, it does not.
fn pastes(shell: &mut PtySession, text: &str) {
    types(shell, &format!("\x1b[200~{text}\x1b[201~"));
}

#[test]
fn pasted_lines_are_run_in_order_and_the_last_one_can_be_edited() {
    let dir = tempfile::tempdir().unwrap();
    let mut shell = shell(dir.path(), "");
    shell.exp_string("\x1b[?2004h").unwrap();
    sees(&mut shell, "", "esker");
    pastes(&mut shell, "open x.db\rput a first\rput b 'of two'\r\rget b\rnonsense\rcount\rget ");
    shell.exp_string("open x.db").unwrap();
    // Every line is seen where it is run.
    sees(&mut shell, "x.db> put a first\r\n", "x.db");
    sees(&mut shell, "put b 'of two'\r\n", "x.db");
    sees(&mut shell, "get b\r\nof two\r\n", "x.db");
    sees(&mut shell, "unrecognized subcommand 'nonsense'", "x.db");
    sees(&mut shell, "count\r\n2\r\n", "x.db");
    shell.exp_string("get ").unwrap();
    types(&mut shell, "a\r");
    sees(&mut shell, "first", "x.db");

    // Within a line, and with what are keys elsewhere: a tab completes, Ctrl-D ends the shell.
    types(&mut shell, "put \"\" 1\x1b[D\x1b[D\x1b[D");
    pastes(&mut shell, "c\td\x04");
    types(&mut shell, "\r");
    sees(&mut shell, "control characters left out of the pasted text: 1", "x.db");
    says(&mut shell, "get \"c\\td\"", "1", "x.db");
    types(&mut shell, "put one 1\x1b[D");
    pastes(&mut shell, "2\nput tw");
    sees(&mut shell, "put one 21", "x.db");
    types(&mut shell, "o\r");
    says(&mut shell, "get two", "there is no such key", "x.db");
    says(&mut shell, "get one", "2", "x.db");

    // Lines in the history, each by itself.
    types(&mut shell, &UP.repeat(2));
    shell.exp_string("get two").unwrap();
    shell.send_control('c').unwrap();
    sees(&mut shell, "", "x.db");

    // The answer to a question is not what stands in the next line.
    pastes(&mut shell, "destroy\rx.db\r");
    shell.exp_string("Type its name: ").unwrap();
    pastes(&mut shell, "no\rget a\r");
    sees(&mut shell, "nothing was deleted", "x.db");
    sees(&mut shell, "unrecognized subcommand 'x.db'", "x.db");
    pastes(&mut shell, "get a\rexit\rput never 1\r");
    shell.exp_string("first").unwrap();
    ends(shell);
    assert_eq!(esker(dir.path(), "--db x.db get never").code, 1);
}

/// Many lines come faster than they are run; each is run once, none is lost, and Ctrl-C stops those that are left.
#[test]
fn a_long_paste_is_run_whole_or_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let mut shell = shell(dir.path(), "");
    sees(&mut shell, "", "esker");
    let lines: String = (0..400).map(|i| format!("put key-{i:04} {}\r", "v".repeat(i + 1))).collect();
    pastes(&mut shell, &format!("open\r{lines}"));
    sees(&mut shell, "put key-0399", "esker.db");
    says(&mut shell, "count", "400", "esker.db");
    says(&mut shell, "get key-0399", &"v".repeat(400), "esker.db");

    fs::write(dir.path().join("endless"), "PUT a 1\nGET a\n".repeat(1_000_000)).unwrap();
    pastes(&mut shell, "put before 1\rrun endless\rput behind 1\rput unfinished");
    shell.exp_string("a 1\r\na 1").unwrap();
    shell.send_control('c').unwrap();
    shell.exp_string("interrupted").unwrap();
    sees(&mut shell, "pasted lines after this one that were not run: 1", "esker.db");
    says(&mut shell, "get before", "1", "esker.db");
    says(&mut shell, "get behind", "there is no such key", "esker.db");
    shell.send_control('d').unwrap();
    ends(shell);
}

#[test]
fn any_byte_can_be_typed_between_double_quotes() {
    let dir = tempfile::tempdir().unwrap();
    let mut shell = shell(dir.path(), "");
    sees(&mut shell, "", "esker");
    says(&mut shell, "open", "", "esker.db");
    says(&mut shell, r#"put "a\nb\x00\t\\" "\xff\r""#, "", "esker.db");
    says(&mut shell, r"put 'a\nb' plain", "", "esker.db");
    says(&mut shell, "scan --keys-only", "a\\nb\\x00\\t\\\r\na\\nb\r\n", "esker.db");
    shell.send_control('d').unwrap();
    ends(shell);
    let rows = esker_with(dir.path(), "shell", br#"get "a\nb\x00\t\\""#);
    assert_eq!(rows.stdout, b"\xff\r\n", "{}", rows.stderr());
    assert_eq!(esker(dir.path(), "get a\\nb").stdout(), "plain\n");
}

/// Rows of a store whose check reads some hundred blocks.
#[cfg(target_os = "linux")]
const ROWS: u64 = 40_000;

/// `esker` at a terminal, on a disk so slow that a user can press Ctrl-C meanwhile: each read and write waits. (A store that is
/// large enough for that took a minute of processor time to fill.)
#[cfg(target_os = "linux")]
fn on_slow_disk(dir: &Path, arguments: &str) -> PtySession {
    let program = esker_in(dir);
    let mut command = Command::new("strace");
    command.args(["-f", "--seccomp-bpf", "-q", "-o", "/dev/null", "-e", "trace=pread64,pwrite64,pwritev"]);
    // In microseconds. A check reads block by block, a backup writes larger pieces, and a restore writes a MiB at a time.
    for (call, delay) in [("pread64", 1_500), ("pwrite64", 30_000), ("pwritev", 300_000)] {
        command.args(["-e", &format!("inject={call}:delay_enter={delay}")]);
    }
    command.arg("--").arg(program.get_program()).args(arguments.split_whitespace()).current_dir(dir);
    command.env_remove("ESKER_DB").env_remove("ESKER_URL").env("XDG_STATE_HOME", dir.join("state"));
    command.env("TERM", "xterm").env("NO_COLOR", "1");
    spawn_command(command, Some(PATIENCE_MS)).unwrap()
}

/// They end promptly, and the shell has its store again.
#[test]
#[cfg(target_os = "linux")]
fn ctrl_c_ends_check_and_repair_and_the_store_is_open_again() {
    if !can_trace("ctrl_c_ends_check_and_repair_and_the_store_is_open_again") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path(), ROWS);
    let mut shell = on_slow_disk(dir.path(), "shell");
    sees(&mut shell, "", "esker.db");
    for (line, said) in [
        ("check", "interrupted: the rest of the store was not checked"),
        ("repair", "interrupted: the store was not repaired"),
        ("check --db ./esker.db", "interrupted: the rest"),
    ] {
        shell.send_line(line).unwrap();
        shell.exp_string(line).unwrap();
        // It shows that it is at work.
        shell.exp_string("ing, ").unwrap();
        shell.send_control('c').unwrap();
        sees(&mut shell, said, "esker.db");
        says(&mut shell, "put a 1", "", "esker.db");
        says(&mut shell, "get a", "1", "esker.db");
        says(&mut shell, "delete a", "", "esker.db");
    }
    shell.send_control('d').unwrap();
    ends(shell);
    assert_eq!(esker(dir.path(), "count").stdout(), format!("{ROWS}\n"));
}

/// So they do outside of the shell; what was found is printed, and the store is to be had at once.
#[test]
#[cfg(target_os = "linux")]
fn ctrl_c_ends_check_repair_and_restore_with_exit_code_130() {
    if !can_trace("ctrl_c_ends_check_repair_and_restore_with_exit_code_130") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path(), ROWS);
    let store = dir.path().join("esker.db");
    let copy = fs::read_dir(&store).unwrap().map(|entry| entry.unwrap().path());
    let copy = copy.filter(|path| path.extension().is_some_and(|end| end == "copy")).max().unwrap();
    let mut bytes = fs::read(&copy).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&copy, bytes).unwrap();
    for (command, said) in [
        ("check", "interrupted: the rest of the store was not checked"),
        ("repair", "interrupted: the store was not repaired, and it has lost nothing"),
    ] {
        let mut session = on_slow_disk(dir.path(), command);
        // The manifests are read when it shows for the second time that it is at work.
        session.exp_string("ing, ").unwrap();
        session.exp_string("ing, ").unwrap();
        session.send_control('c').unwrap();
        let before = session.exp_string(said).unwrap();
        assert_eq!(before.contains("manifest-"), command == "check", "{before}");
        ends_with(session, 130);
    }
    assert_eq!(esker(dir.path(), "repair").code, 1);
    assert_eq!(esker(dir.path(), "check").stdout(), "ok\n");
    assert_eq!(esker(dir.path(), "backup copies").code, 0);
    let mut session = on_slow_disk(dir.path(), "restore copies new.db");
    session.exp_string("ing, ").unwrap();
    session.send_control('c').unwrap();
    session.exp_string("interrupted: nothing was restored").unwrap();
    ends_with(session, 130);
    assert!(!dir.path().join("new.db").exists());
    assert_eq!(esker(dir.path(), "count").stdout(), format!("{ROWS}\n"));
}

/// A bar or a spinner would write over the lines.
#[test]
fn no_progress_is_shown_where_lines_are_typed() {
    let dir = tempfile::tempdir().unwrap();
    for (command, line) in
        [("run -", "PUT a 1"), ("import -", "b 2"), ("import - --format json", "[[\"c\",3]]")]
    {
        let mut session = terminal(dir.path(), command);
        session.send_line(line).unwrap();
        session.send_control('d').unwrap();
        let shown = session.exp_eof().unwrap();
        assert!(!shown.contains(" B ") && !shown.contains("\x1b["), "{command}: {shown:?}");
    }
    assert_eq!(esker(dir.path(), "scan").stdout(), "a 1\nb 2\nc 3\n");
}

#[test]
fn a_value_from_a_terminal_ends_with_one_ctrl_d() {
    let dir = tempfile::tempdir().unwrap();
    let mut session = terminal(dir.path(), "put a --file -");
    session.send_line("hello").unwrap();
    session.send_control('d').unwrap();
    ends(session);
    assert_eq!(esker(dir.path(), "get a").stdout(), "hello\n\n");
}

/// What is left behind has a store that is open; closing it, and opening it again, goes on.
#[test]
#[cfg(target_os = "linux")]
fn a_command_that_is_left_behind_keeps_no_store_from_being_opened() {
    if !can_trace("a_command_that_is_left_behind_keeps_no_store_from_being_opened") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path(), ROWS);
    let mut shell = on_slow_disk(dir.path(), "shell");
    sees(&mut shell, "", "esker.db");
    shell.send_line("backup copies").unwrap();
    shell.exp_string("copying, ").unwrap();
    shell.send_control('c').unwrap();
    // It may just have been done.
    sees(&mut shell, "\n", "esker.db");
    says(&mut shell, "put a 1", "", "esker.db");
    says(&mut shell, "close", "", "esker");
    says(&mut shell, "open", "", "esker.db");
    says(&mut shell, "get a", "1", "esker.db");
    shell.send_control('d').unwrap();
    ends(shell);
}

/// What a key or a value has, the terminal does not obey.
#[test]
fn a_terminal_is_shown_what_it_could_obey() {
    let title = "\x1b]0;owned\x07";
    let dir = tempfile::tempdir().unwrap();
    let put = |tree: &str, key: &str, value: &str| {
        let mut command = esker_in(dir.path());
        command.args(["--tree", tree, "put", key, value]);
        let done = crate::support::run(command, b"");
        assert_eq!(done.code, 0, "{}", done.stderr());
    };
    put("default", &format!("key{title}"), &format!("value{title}"));
    put("default", "key\u{202e}\u{9b}31m", "two\nlines\u{9b}\u{202e}");
    put("default", "long", &"x".repeat(70_000));
    put(&format!("tree{title}"), "a", "1");
    let mut shell = shell(dir.path(), "");
    sees(&mut shell, "", "esker.db");
    let key = r"key\x1b]0;owned\x07";
    let second = r"key\xe2\x80\xae\xc2\x9b31m";
    for (line, answers) in [
        (
            "scan",
            vec![format!(
                "{key} (15 bytes of binary data)\r\n{second} two\\nlines\\xc2\\x9b\\xe2\\x80\\xae\r\nlong (70000 bytes of text)\r\n"
            )],
        ),
        ("scan --keys-only", vec![format!("{key}\r\n{second}\r\nlong\r\n")]),
        ("ls", vec![format!("  data     {key}\r\n"), format!("  {second}\r\n")]),
        ("ls --du", vec![format!("  {key}\r\n")]),
        ("export -", vec![format!("{key}\t"), r"value\x1b]0;owned\x07".to_owned()]),
        ("scan --json", vec![r"key\u001b]0;owned\u0007".to_owned()]),
        ("trees", vec![r"tree\x1b]0;owned\x07".to_owned()]),
        ("trees --long", vec![r"tree\x1b]0;owned\x07".to_owned()]),
        ("stats", vec![r"tree\x1b]0;owned\x07".to_owned()]),
        (r#"get "key\x1b]0;owned\x07" --range 0-"#, vec![r"value\x1b]0;owned\x07".to_owned()]),
        (r#"get "none\x1b]0;owned\x07""#, vec![r"no such key: none\x1b]0;owned\x07".to_owned()]),
        (r#"get a --tree "none\x1b]0;owned\x07""#, vec![r"]0;owned".to_owned()]),
        (r#"get a --db "none\x1b]0;owned\x07""#, vec![r"none\x1b]0;owned\x07".to_owned()]),
        (r#""\xc2\x9b31m\x07""#, vec!["unrecognized subcommand".to_owned()]),
    ] {
        shell.send_line(line).unwrap();
        for answer in answers {
            let before =
                shell.exp_string(&answer).unwrap_or_else(|error| panic!("{line}: {answer}: {error}"));
            assert!(
                !before.contains('\u{7}') && !before.contains('\u{9b}') && !before.contains('\u{202e}'),
                "{line}: {before:?}"
            );
        }
        let after = shell.exp_string("esker.db> ").unwrap();
        assert!(
            !after.contains('\u{7}') && !after.contains('\u{9b}') && !after.contains('\u{202e}'),
            "{line}: {after:?}"
        );
    }
    // Who asks for raw bytes gets them.
    says(&mut shell, r#"get "key\x1b]0;owned\x07" --raw"#, &format!("value{title}"), "esker.db");
    says(&mut shell, "scan --limit 1 --raw", &format!("key{title} value{title}"), "esker.db");
    says(&mut shell, r#"tree "tree\x1b]0;owned\x07""#, "", r"esker.db:tree\x1b]0;owned\x07");
    shell.send_control('d').unwrap();
    ends(shell);
    // A pipe gets what is there.
    let rows = esker(dir.path(), "scan --limit 1").stdout();
    assert_eq!(rows, format!("key{title} value{title}\n"));
}

#[test]
fn bad_input_and_ctrl_c_never_end_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut shell = shell(dir.path(), "--no-history");
    sees(&mut shell, "", "esker");
    says(&mut shell, "open", "", "esker.db");
    for (line, answer) in [
        ("nonsense", "unrecognized subcommand 'nonsense'"),
        ("scan --limt 3", "--limit"),
        ("put a", "<VALUE>"),
        ("put 'a", "a quote is not closed"),
        ("put \"\\x4\" 1", "\\x is not followed by two hex digits"),
        ("mv a b", "there is no such key: a"),
        ("cp a b", "there is no such key: a"),
        ("put a 1 --keys u64", "the key is not a whole decimal number"),
        ("get a --tree none", "there is no tree"),
        ("get a --db none.db", "there is no store at none.db"),
        ("get a --db none/s.db", "there is no directory none"),
        ("get a --db ./esker.db", "there is no such key"),
        ("import -", "the shell reads its lines from standard input"),
        ("import none.csv", "cannot read none.csv"),
        ("shell", "a shell cannot run inside the shell"),
        ("open /proc/none/x", ""),
    ] {
        let place = if line.starts_with("open") { "esker" } else { "esker.db" };
        says(&mut shell, line, answer, place);
    }
    says(&mut shell, "open", "", "esker.db");
    // A line that is dropped is not run.
    types(&mut shell, "put dropped 1");
    shell.exp_string("dropped 1").unwrap();
    shell.send_control('c').unwrap();
    sees(&mut shell, "", "esker.db");
    // No answer that could be a part of what draws the line.
    says(&mut shell, "get dropped", "there is no such key", "esker.db");
    shell.send_control('c').unwrap();
    sees(&mut shell, "", "esker.db");
    // From elsewhere, too.
    shell.process_mut().signal(Signal::SIGINT).unwrap();
    says(&mut shell, "get dropped", "there is no such key", "esker.db");
    shell.send_control('d').unwrap();
    ends(shell);
    assert!(!dir.path().join("state").exists(), "no history was asked for");
}

/// Types bytes that need not be text.
fn types_bytes(shell: &mut PtySession, bytes: &[u8]) {
    let mut terminal = shell.process().get_file_handle().unwrap();
    terminal.write_all(bytes).unwrap();
}

#[test]
fn lines_that_are_not_text_are_said_and_dropped() {
    let dropped = "the line is not UTF-8, and was dropped";
    let long = [b"put k \xe9".as_slice(), &[b'x'; 3_000], b" count"].concat();
    let lines: [&[u8]; 6] =
        [b"put k caf\xe9", b"put \xc3 1", b"put k \xc0\x80 x", b"\xed\xa0\x80", b"\xff put a 1", &long];
    let dir = tempfile::tempdir().unwrap();
    let mut edited = shell(dir.path(), "");
    sees(&mut edited, "", "esker");
    says(&mut edited, "open", "", "esker.db");
    for line in lines {
        types_bytes(&mut edited, &[line, b"\r"].concat());
        sees(&mut edited, dropped, "esker.db");
        says(&mut edited, "count", "0", "esker.db");
    }
    says(&mut edited, "put k caf\u{e9}", "", "esker.db");
    // What is expected is read byte by byte.
    says(&mut edited, "get k", "caf\u{c3}\u{a9}", "esker.db");
    edited.send_control('d').unwrap();
    ends(edited);

    // Nothing is edited at such a terminal, whose echo is off here; lines that are typed ahead are run.
    let mut plain = shell_at(dir.path(), "dumb", "");
    sees(&mut plain, "", "esker.db");
    for line in lines {
        types_bytes(&mut plain, &[line, b"\ncount\n"].concat());
        sees(&mut plain, dropped, "esker.db");
        sees(&mut plain, "1\r\n", "esker.db");
    }
    plain.send_control('d').unwrap();
    ends(plain);
}

#[test]
fn a_history_that_cannot_be_read_is_said_once() {
    let dir = tempfile::tempdir().unwrap();
    let history = dir.path().join("state/esker/history");
    fs::create_dir_all(history.parent().unwrap()).unwrap();
    let content = b"#V2\nput a caf\xe9\n";
    fs::write(&history, content).unwrap();
    let mut shell = shell(dir.path(), "");
    sees(&mut shell, "history, so the shell keeps no lines in it", "esker");
    says(&mut shell, "open", "", "esker.db");
    shell.send_line("put a 1").unwrap();
    let until_prompt = shell.exp_string("esker.db> ").unwrap();
    assert!(!until_prompt.contains("history"), "{until_prompt}");
    types(&mut shell, UP);
    shell.exp_string("put a 1").unwrap();
    shell.send_control('c').unwrap();
    sees(&mut shell, "", "esker.db");
    shell.send_control('d').unwrap();
    ends(shell);
    assert_eq!(fs::read(&history).unwrap(), content, "it is left as it was");
}

/// A shell at a terminal of which no more is read than has to be seen. The reader of `PtySession` goes on for as long as
/// there is more, which a long scan may always have.
struct Watched {
    terminal: File,
    /// What was read behind the text that was waited for.
    rest: Vec<u8>,
}

impl Watched {
    fn types(&mut self, keys: &[u8]) {
        self.terminal.write_all(keys).unwrap();
    }

    /// Reads until `text` has come.
    #[track_caller]
    fn sees(&mut self, text: &str) {
        let until = Instant::now() + Duration::from_millis(PATIENCE_MS);
        let mut part = [0; 4_096];
        loop {
            if let Some(at) = self.rest.windows(text.len()).position(|window| window == text.as_bytes()) {
                self.rest.drain(..at + text.len());
                return;
            }
            // The beginning of the text may have come.
            let passed = self.rest.len().saturating_sub(text.len());
            self.rest.drain(..passed);
            let left = until.saturating_duration_since(Instant::now());
            let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: 0 };
            let ready = poll(&mut [PollFd::new(&self.terminal, PollFlags::IN)], Some(&left)).unwrap();
            assert!(ready > 0, "{text:?} does not come: {}", String::from_utf8_lossy(&self.rest));
            let len = self.terminal.read(&mut part).unwrap();
            self.rest.extend_from_slice(&part[..len]);
        }
    }
}

#[test]
fn ctrl_c_stops_the_command_that_runs() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path(), 200_000);
    let rows: String =
        (0..100_000).map(|i| format!("PUT new-{i:07} {}\nGET new-{i:07}\n", "y".repeat(90))).collect();
    fs::write(dir.path().join("long.txt"), rows).unwrap();
    let mut command = esker_in(dir.path());
    command.args(["shell", "--no-history"]).env("TERM", "xterm").env("NO_COLOR", "1");
    let process = PtyProcess::new(command).unwrap();
    let mut shell = Watched { terminal: process.get_file_handle().unwrap(), rest: Vec::new() };
    shell.sees("esker.db> ");
    // Neither command can end before Ctrl-C: the terminal holds some KiB of the output that nobody has read.
    for (line, begun) in [("scan\r", "xxxxxxxxxx"), ("run long.txt\r", "yyyyyyyyyy")] {
        shell.types(line.as_bytes());
        shell.sees(begun);
        shell.types(b"\x03");
        shell.sees("interrupted");
        shell.sees("esker.db> ");
    }
    shell.types(b"get 0000007\r");
    shell.sees("xxxxx");
    shell.sees("esker.db> ");
    shell.types(b"\x04");
    let status = format!("{:?}", process.wait().unwrap());
    assert!(status.starts_with("Exited") && status.ends_with(", 0)"), "{status}");
    assert_eq!(esker(dir.path(), "check").code, 0);
    let new: u64 = esker(dir.path(), "count --prefix new-").stdout().trim().parse().unwrap();
    assert!(new > 0 && new < 100_000, "{new}: it began and was stopped");
}

#[test]
fn lines_are_remembered_and_completed() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("rows.csv"), "key,value\nfrom-csv,1\n").unwrap();
    let mut first = shell(dir.path(), "");
    sees(&mut first, "", "esker");
    says(&mut first, "open", "", "esker.db");
    says(&mut first, "put apple red", "", "esker.db");
    says(&mut first, "put 'two words' 2", "", "esker.db");
    says(&mut first, "get apple", "red", "esker.db");
    // The line before, and the one before that.
    types(&mut first, UP);
    first.exp_string("get apple").unwrap();
    types(&mut first, UP);
    first.exp_string("put 'two words' 2").unwrap();
    first.send_control('c').unwrap();
    sees(&mut first, "", "esker.db");
    // A command, a key, an option, a key in quotes, a file.
    types(&mut first, &format!("g{TAB}"));
    first.exp_string("get ").unwrap();
    types(&mut first, &format!("ap{TAB}"));
    first.exp_string("apple ").unwrap();
    types(&mut first, &format!("--fi{TAB}"));
    first.exp_string("--file ").unwrap();
    first.send_control('c').unwrap();
    sees(&mut first, "", "esker.db");
    types(&mut first, &format!("get a{TAB}\r"));
    first.exp_string("apple").unwrap();
    sees(&mut first, "red", "esker.db");
    types(&mut first, &format!("import ro{TAB}"));
    first.exp_string("rows.csv").unwrap();
    types(&mut first, "\r");
    sees(&mut first, "1 rows", "esker.db");
    first.send_line("quit").unwrap();
    ends(first);

    let history = dir.path().join("state/esker/history");
    assert_eq!(
        fs::metadata(&history).unwrap().permissions().mode() & 0o077,
        0,
        "it is nobody else's business"
    );
    let mut second = shell(dir.path(), "");
    sees(&mut second, "", "esker.db");
    types(&mut second, UP);
    second.exp_string("quit").unwrap();
    types(&mut second, UP);
    second.exp_string("import rows.csv").unwrap();
    types(&mut second, "\r");
    sees(&mut second, "1 rows", "esker.db");
    second.send_control('d').unwrap();
    ends(second);
}

/// A script as some programs of Windows write it.
#[test]
fn a_pipe_is_read_in_the_encoding_of_its_mark() {
    let dir = tempfile::tempdir().unwrap();
    let script = "\u{feff}open a.db\r\nput ä €\r\nget ä\r\n";
    let utf_16 = script.encode_utf16().flat_map(u16::to_le_bytes).collect::<Vec<_>>();
    for script in [script.as_bytes(), &utf_16] {
        let done = esker_with(dir.path(), "shell", script);
        assert_eq!((done.code, done.stdout().as_str(), done.stderr().as_str()), (0, "€\n", ""));
    }
    let refused = esker_with(dir.path(), "shell", b"\xff\xfe\0\0e\0\0\0");
    assert!(refused.code == 2 && refused.stderr().contains("this is UTF-32"), "{refused:?}");
}

/// A line of the longest length is taken, one more byte is not, and the lines after it are.
#[test]
fn lines_from_a_pipe_have_a_longest_length() {
    const MOST: usize = 1 << 20;
    let dir = tempfile::tempdir().unwrap();
    let put = |key: &str, len: usize| format!("put {key} {}\n", "x".repeat(len - "put k ".len()));
    let (open, short) = ("open x.db\n".to_owned(), "put c 1\n".to_owned());
    let script = [open, put("a", MOST), put("b", MOST + 1), short, put("d", 3 * MOST)].concat();
    let done = esker_with(dir.path(), "--memory 8M shell", script.as_bytes());
    assert_eq!(done.code, 2, "{}", done.stderr());
    for number in [3, 5] {
        let told = format!("line {number} has more than {MOST} bytes");
        assert!(done.stderr().contains(&told), "{}", done.stderr());
    }
    assert_eq!(esker(dir.path(), "--db x.db ls").stdout().lines().count(), 2);
}

#[test]
fn lines_from_a_pipe_go_on_after_failures() {
    let dir = tempfile::tempdir().unwrap();
    let script = b"# a script\n\nopen x.db 1M 64M\nput a 1\nput b \"two words\" \r\nget absent\nbogus\nscan\nput c\nclose\nget a\nopen x.db\nget b\nexit\nput d 4\n";
    let done = esker_with(dir.path(), "shell", script);
    assert_eq!(done.stdout(), "a 1\nb two words\ntwo words\n");
    assert_eq!(done.code, 1, "the first failure is an absent key: {}", done.stderr());
    for text in [
        "there is no such key: absent\nesker: the error is in line 6",
        "line 7",
        "'bogus'",
        "line 9",
        "line 11",
        "no store is open",
    ] {
        assert!(done.stderr().contains(text), "{text}: {}", done.stderr());
    }
    assert_eq!(esker(dir.path(), "--db x.db count").stdout(), "2\n");

    let done = esker_with(dir.path(), "--db x.db shell", b"put \xff \xfe\nget \xff");
    assert_eq!((done.code, done.stdout.as_slice()), (0, b"\xfe\n".as_slice()), "{}", done.stderr());
    let done = esker_with(dir.path(), "--db x.db shell", b"");
    assert_eq!(done.code, 0, "{}", done.stderr());
    let done = esker_with(dir.path(), "shell", b"put a 1\n");
    assert_eq!(done.code, 2);
    assert!(!dir.path().join("esker.db").exists(), "only open creates one");
}

#[test]
fn a_store_that_cannot_be_opened_at_the_start_is_exit_code_3() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(esker(dir.path(), "put a 1").code, 0);
    let db = esker::Db::open(dir.path().join("esker.db"), esker::Options::default()).unwrap();
    for lines in ["", "get a\n", "# nothing\n", "bogus\n"] {
        let done = esker_with(dir.path(), "shell", lines.as_bytes());
        assert_eq!(done.code, 3, "{lines:?}: {}", done.stderr());
        assert!(done.stderr().contains("in use by process"), "{}", done.stderr());
    }
    let mut at_terminal = shell(dir.path(), "");
    sees(&mut at_terminal, "in use by process", "esker");
    at_terminal.send_control('d').unwrap();
    at_terminal.exp_eof().unwrap();
    let status = format!("{:?}", at_terminal.process().wait().unwrap());
    assert!(status.ends_with(", 3)"), "{status}");
    // The shell opens another store instead.
    let done = esker_with(dir.path(), "shell", b"open other.db\nput a 1\n");
    assert_eq!(done.code, 0, "{}", done.stderr());
    drop(db);
    fs::write(dir.path().join("esker.db/LOCK"), "").unwrap();
    assert_eq!(esker_with(dir.path(), "shell", b"get a\n").code, 0);
}

/// A line each time, as wide as the screen at most; the head comes again with each screen.
#[test]
fn stats_that_are_watched_fit_the_screen() {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path(), 10_000);
    let mut command = Command::new("sh");
    command.current_dir(dir.path()).env("ESKER", env!("CARGO_BIN_EXE_esker")).env_remove("ESKER_DB");
    command.args(["-c", "stty rows 6 columns 50 && exec \"$ESKER\" stats --watch 0.02"]);
    let mut watching = spawn_command(command, Some(PATIENCE_MS)).unwrap();
    let mut heads = 0;
    for line in 0..25 {
        let line_now = watching.read_line().unwrap();
        assert!(line_now.chars().count() <= 50, "{line_now:?}");
        let is_head = line_now.contains("UTC") && line_now.ends_with("disk");
        // Four lines and a head make a screen of six rows with the cursor's.
        assert_eq!(is_head, line % 5 == 0, "line {line}: {line_now:?}");
        heads += usize::from(is_head);
        if !is_head {
            let words: Vec<_> = line_now.split_whitespace().collect();
            assert!(words[0].len() == 8 && words[0].matches(':').count() == 2, "{line_now:?}");
            assert_eq!(words[1], "10,000", "{line_now:?}");
            assert_eq!(words[2], if line == 1 { "-" } else { "0" }, "{line_now:?}");
        }
    }
    assert_eq!(heads, 5);
    watching.send_control('c').unwrap();
    watching.exp_eof().unwrap();

    let mut shell = shell(dir.path(), "");
    sees(&mut shell, "", "esker.db");
    shell.send_line("stats --watch 0.02").unwrap();
    shell.exp_string("reads/s").unwrap();
    shell.exp_string("10,000").unwrap();
    shell.send_control('c').unwrap();
    sees(&mut shell, "interrupted", "esker.db");
    shell.send_control('d').unwrap();
    ends(shell);
}
