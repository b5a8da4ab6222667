//! Names the process that holds a lock file, for the error message to a process that is refused.
//!
//! Once a writer has the lock, it notes its process id and its start time in the lock file, `1234 5678901\n`. It
//! empties the file before it releases the lock. The note is for people and decides nothing: only the lock does.
//! Therefore it is not synced and no failure is reported. Its content counts as hostile: it is believed only if a
//! process of that id runs here and started at that time. A killed writer leaves its note in the file; the next writer
//! replaces it. A file with any other content is not a store's lock file, and is left as it is. So is a file that has a
//! second name.
//!
//! Readers write nothing. Linux lists them in `/proc/locks`, by the file's device and number.

use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};

use super::*;

/// Longer than any note.
const NOTE_MAX: usize = 48;
/// How much of a process's command line is shown, in characters.
const COMMAND_MAX: usize = 60;
/// How many holders are named.
const NAMED_MAX: usize = 3;

/// A process and its start time, in ticks since the machine started; 0 if the system does not report it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Process {
    id: u32,
    started: u64,
}

/// Notes in the lock file that this process holds the lock of `file`. Returns `false` if that was not tried.
pub(super) fn note(file: &File) -> bool {
    let own = Process { id: std::process::id(), started: started(std::process::id()).unwrap_or(0) };
    let is_ours = is_ours(file);
    if is_ours {
        let _for_people = replace(file, &format!("{} {}\n", own.id, own.started));
    }
    is_ours
}

/// Removes the note. Call it before releasing the lock.
pub(super) fn forget(file: &File) {
    if is_ours(file) {
        let _for_people = replace(file, "");
    }
}

/// The holders of the lock of `file`, as a part of a sentence; `None` if no holder can be named.
pub(super) fn holders(file: &File) -> Option<String> {
    let noted = read(file).and_then(|note| parse(&note)).filter(|process| is_running(*process));
    match noted {
        Some(process) => described(&[process.id]),
        None => lockers(file),
    }
}

/// The processes that hold the lock of `file`, which may be a directory, as far as the system lists them.
pub(super) fn lockers(file: &File) -> Option<String> {
    described(&in_kernel_table(file))
}

fn described(ids: &[u32]) -> Option<String> {
    let named: Vec<String> = ids.iter().take(NAMED_MAX).map(|id| name(*id)).collect();
    let more = if ids.len() > NAMED_MAX { " and more" } else { "" };
    (!named.is_empty()).then(|| named.join(", ") + more)
}

fn replace(mut file: &File, note: &str) -> std::io::Result<()> {
    file.set_len(0)?;
    file.seek(SeekFrom::Start(0))?;
    file.write_all(note.as_bytes())
}

/// The first bytes of the file.
fn read(mut file: &File) -> Option<Vec<u8>> {
    let mut note = Vec::new();
    file.seek(SeekFrom::Start(0)).ok()?;
    file.take(NOTE_MAX as u64 + 1).read_to_end(&mut note).ok()?;
    Some(note)
}

/// Whether the file is empty or holds a note, perhaps one that a power loss turned into zeros.
fn is_ours(file: &File) -> bool {
    file.metadata().is_ok_and(|found| found.is_file() && found.len() <= NOTE_MAX as u64)
        && read(file).is_some_and(|note| note.iter().all(|byte| *byte == 0) || parse(&note).is_some())
}

fn parse(note: &[u8]) -> Option<Process> {
    let note = std::str::from_utf8(note).ok()?.strip_suffix('\n')?;
    let (id, started) = note.split_once(' ')?;
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(id) || !digits(started) {
        return None;
    }
    Some(Process { id: id.parse().ok().filter(|id| *id > 0)?, started: started.parse().ok()? })
}

/// Whether exactly this process runs here. If the system does not report start times, whether a process of that id
/// runs.
fn is_running(process: Process) -> bool {
    match started(std::process::id()) {
        Some(_) => started(process.id) == Some(process.started),
        None => exists(process.id),
    }
}

/// Whether a process of that id runs here, of any user.
#[cfg(target_os = "linux")]
fn exists(id: u32) -> bool {
    use rustix::process::{Pid, test_kill_process};
    let id = i32::try_from(id).ok().and_then(Pid::from_raw);
    id.is_some_and(|id| !matches!(test_kill_process(id), Err(rustix::io::Errno::SRCH)))
}

/// Other systems believe the note.
#[cfg(not(target_os = "linux"))]
fn exists(_: u32) -> bool {
    true
}

/// The start time of the process `id`, from `/proc`.
#[expect(clippy::disallowed_methods, reason = "this is the room that touches files")]
fn started(id: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The second field is the program's name in parentheses, which may contain any characters.
    let (_, fields) = stat.rsplit_once(") ")?;
    fields.split(' ').nth(19)?.parse().ok()
}

/// The processes that the kernel lists as holders of a `flock` on `file`.
#[cfg(target_os = "linux")]
#[expect(clippy::disallowed_methods, reason = "this is the room that touches files")]
fn in_kernel_table(file: &File) -> Vec<u32> {
    use std::os::unix::fs::MetadataExt;
    let (Ok(found), Ok(table)) = (file.metadata(), fs::read_to_string("/proc/locks")) else {
        return Vec::new();
    };
    let (major, minor) = (rustix::fs::major(found.dev()), rustix::fs::minor(found.dev()));
    let place = format!("{major:02x}:{minor:02x}:{}", found.ino());
    let mut ids = Vec::new();
    for line in table.lines() {
        let mut fields = line.split_whitespace().skip(1);
        // A waiter's line has an arrow here.
        if fields.next() != Some("FLOCK") {
            continue;
        }
        let id = fields.nth(2).and_then(|id| id.parse().ok()).filter(|id: &u32| *id > 0);
        if let Some(id) = id
            && fields.next() == Some(place.as_str())
            && !ids.contains(&id)
        {
            ids.push(id);
        }
    }
    ids
}

#[cfg(not(target_os = "linux"))]
fn in_kernel_table(_: &File) -> Vec<u32> {
    Vec::new()
}

/// `process 1234 (esker run -)`.
fn name(id: u32) -> String {
    if id == std::process::id() {
        return format!("this process, {id}, through another handle");
    }
    match command(id) {
        Some(command) => format!("process {id} ({command})"),
        None => format!("process {id}"),
    }
}

/// The beginning of the command line, without the directory of the program. The process chose these characters.
/// Therefore those that could affect a terminal are not shown.
fn command(id: u32) -> Option<String> {
    let mut line = Vec::new();
    File::open(format!("/proc/{id}/cmdline")).ok()?.take(4096).read_to_end(&mut line).ok()?;
    let line = String::from_utf8_lossy(line.strip_suffix(b"\0").unwrap_or(&line)).into_owned();
    let (program, arguments) = line.split_once('\0').unwrap_or((&line, ""));
    let program = program.rsplit('/').next().unwrap_or(program);
    let whole = format!("{program} {}", arguments.replace('\0', " "));
    let is_plain = |c: char| c == ' ' || c.is_ascii_graphic() || c.is_alphanumeric();
    let mut shown: String =
        whole.trim().chars().take(COMMAND_MAX).map(|c| if is_plain(c) { c } else { '?' }).collect();
    if whole.trim().chars().count() > COMMAND_MAX {
        shown.push_str("...");
    }
    (!shown.is_empty()).then_some(shown)
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests look at files as anybody may")]
mod tests {
    use super::*;

    #[test]
    fn only_notes_are_read_as_such() {
        assert_eq!(parse(b"12 345\n"), Some(Process { id: 12, started: 345 }));
        for note in [
            &b""[..],
            b"12",
            b"12\n",
            b"12 \n",
            b"0 5\n",
            b"+1 5\n",
            b"-1 5\n",
            b"1 5",
            b"1 5 6\n",
            b"99999999999 5\n",
            b"1 99999999999999999999999\n",
            b"1 5\n\n",
            b"\xff 5\n",
            b"1 \x1b[31m\n",
        ] {
            assert_eq!(parse(note), None, "{:?}", note.escape_ascii().to_string());
        }
    }

    /// Without `/proc`, this is all that can be known of the process that a note names.
    #[test]
    #[cfg(target_os = "linux")]
    fn a_process_that_has_ended_does_not_exist() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let id = child.id();
        assert!(exists(id), "nobody has waited for it yet");
        child.wait().unwrap();
        assert!(!exists(id) && !exists(u32::MAX) && !exists(0));
        assert!(exists(std::process::id()) && exists(1));
    }

    /// Anything that another program has put under the lock file's name, for example by a link, stays as it is.
    #[test]
    fn what_is_no_note_is_left_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("LOCK");
        for content in ["1 2 3", "a letter", &"5".repeat(NOTE_MAX + 1)] {
            fs::write(&path, content).unwrap();
            let file = File::options().read(true).write(true).open(&path).unwrap();
            note(&file);
            forget(&file);
            assert_eq!(fs::read_to_string(&path).unwrap(), content);
        }
    }

    #[test]
    fn a_note_is_replaced_and_taken_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("LOCK");
        for old in ["\0\0\0\0\0\0", "", "4194304 12345678901234\n"] {
            fs::write(&path, old).unwrap();
            note(&File::options().read(true).write(true).open(&path).unwrap());
            assert!(fs::read_to_string(&path).unwrap().ends_with('\n'), "{old:?}");
        }
        let file = File::options().read(true).write(true).open(&path).unwrap();
        assert!(fs::read_to_string(&path).unwrap().starts_with(&format!("{} ", std::process::id())));
        let holders = holders(&file).unwrap();
        assert!(holders.starts_with("this process"), "{holders}");
        forget(&file);
        assert_eq!(fs::read_to_string(&path).unwrap(), "");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_note_of_a_process_that_is_gone_or_another_one_names_nobody() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("LOCK");
        let own = std::process::id();
        for note in ["4294967295 1\n".to_owned(), format!("{own} 1\n"), "1 0\n".to_owned()] {
            fs::write(&path, &note).unwrap();
            assert_eq!(holders(&File::open(&path).unwrap()), None, "{note}");
        }
    }
}
