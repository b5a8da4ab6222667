//! Output: a buffer of about a megabyte in front of standard output or a file.
//!
//! Nothing is line-buffered and nothing panics. If the reader goes away, the command ends without a message and with
//! exit code 141; any other failure ends it with code 3. [`NewFile`] replaces a file only when it is whole.
//!
//! A terminal never gets control sequences from data: everything except printable text, tabs and line ends is written
//! as `\xNN`, unless the user asked for raw bytes ([`Out::raw`]). Pipes and files get the bytes as they are.

use std::fs::{self, File};
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::behind::WriteBehind;
use crate::escapes;
use crate::exit::{Failure, Outcome};
use crate::interrupt;
use crate::pack::Packer;
use crate::unpack::Packed;
use crate::unseen::Unseen;

/// How many bytes are collected before a system call.
const SPILL_AT: usize = 1 << 20;
/// A buffer that a huge value has enlarged beyond this is freed.
const KEEP_AT_MOST: usize = 8 << 20;

/// Buffered output. Call [`Out::flush`] at the end: dropping it loses what is buffered.
pub(crate) struct Out {
    file: Arc<File>,
    behind: Option<WriteBehind>,
    packer: Option<Packer>,
    name: String,
    buffer: Vec<u8>,
    /// Whether it is a terminal and raw bytes were not requested.
    is_shown: bool,
}

impl Out {
    /// Standard output.
    pub(crate) fn stdout() -> Outcome<Self> {
        let name = "standard output".to_owned();
        match io::stdout().as_fd().try_clone_to_owned() {
            Ok(fd) => {
                let is_shown = fd.is_terminal();
                Ok(Out { is_shown, ..Out::new(fd.into(), name) })
            }
            Err(error) => Err(Failure::output(&name, &error)),
        }
    }

    /// The file `path`, truncated first.
    pub(crate) fn truncate(path: &Path) -> Outcome<Self> {
        let file = File::create(path).map_err(|error| Failure::io("create", path, &error))?;
        Ok(Out::new(file, path.display().to_string()))
    }

    fn new(file: File, name: String) -> Self {
        Out {
            file: Arc::new(file),
            behind: None,
            packer: None,
            name,
            buffer: Vec::with_capacity(SPILL_AT + (SPILL_AT >> 2)),
            is_shown: false,
        }
    }

    /// Writes every byte as it is, even to a terminal.
    pub(crate) fn raw(mut self) -> Self {
        self.is_shown = false;
        self
    }

    /// Whether people see what is written.
    #[inline]
    pub(crate) fn is_shown(&self) -> bool {
        self.is_shown
    }

    /// From now on writes large buffers on a separate thread.
    pub(crate) fn write_behind(mut self) -> Outcome<Self> {
        let started = WriteBehind::start(Arc::clone(&self.file));
        self.behind =
            Some(started.map_err(|error| Failure::store(format!("cannot start a thread: {error}")))?);
        Ok(self)
    }

    /// Compresses the output. Call [`Out::end`] at the end.
    fn packed(mut self, packed: Packed) -> Outcome<Self> {
        let packer = Packer::new(packed, Arc::clone(&self.file));
        self.packer = Some(packer.map_err(|error| Failure::output(&self.name, &error))?);
        Ok(self)
    }

    /// The buffer. Append to it, then call [`Out::spill`].
    #[inline]
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    /// Appends a part of a line. On a terminal it stays on that line, whatever bytes it has.
    pub(crate) fn part(&mut self, bytes: &[u8]) {
        match self.is_shown {
            true => escapes::append_shown(&mut self.buffer, bytes),
            false => self.buffer.extend_from_slice(bytes),
        }
    }

    /// As [`Out::part`], for bytes that were appended to the buffer since it had `start` bytes.
    #[inline]
    pub(crate) fn part_since(&mut self, start: usize) {
        if self.is_shown {
            let part = self.buffer.split_off(start);
            escapes::append_shown(&mut self.buffer, &part);
        }
    }

    /// Writes the buffer out once it is large.
    #[inline]
    pub(crate) fn spill(&mut self) -> Outcome {
        interrupt::check()?;
        if self.buffer.len() < SPILL_AT {
            return Ok(());
        }
        match &mut self.behind {
            _ if self.is_shown => {
                // An incomplete character waits for its remaining bytes.
                let rest = self.buffer.split_off(whole_characters(&self.buffer));
                self.flush()?;
                self.buffer.extend_from_slice(&rest);
                Ok(())
            }
            Some(behind) if self.buffer.len() <= KEEP_AT_MOST => {
                behind.send(&mut self.buffer).map_err(|error| Failure::output(&self.name, &error))
            }
            _ => self.flush(),
        }
    }

    /// Appends `bytes`. Many bytes go straight to the file.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Outcome {
        if bytes.len() < SPILL_AT || self.is_shown {
            self.buffer.extend_from_slice(bytes);
            return self.spill();
        }
        interrupt::check()?;
        self.flush()?;
        self.put(bytes)
    }

    /// Writes `bytes` to the file, past the buffer.
    fn put(&mut self, bytes: &[u8]) -> Outcome {
        let written = match &mut self.packer {
            Some(packer) => packer.write_all(bytes),
            None => self.file.as_ref().write_all(bytes),
        };
        written.map_err(|error| Failure::output(&self.name, &error))
    }

    /// Appends a line and writes the buffer out once it is large.
    pub(crate) fn line(&mut self, line: &str) -> Outcome {
        self.buffer.extend_from_slice(line.as_bytes());
        self.buffer.push(b'\n');
        self.spill()
    }

    /// Writes everything out.
    pub(crate) fn flush(&mut self) -> Outcome {
        let before = self.behind.as_mut().map_or(Ok(()), WriteBehind::wait);
        if self.is_shown {
            self.buffer = shown(&self.buffer);
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        let written =
            before.map_err(|error| Failure::output(&self.name, &error)).and_then(|()| self.put(&buffer));
        buffer.clear();
        buffer.shrink_to(KEEP_AT_MOST);
        self.buffer = buffer;
        written
    }

    /// Writes everything out, and ends the compressed stream.
    fn end(&mut self) -> Outcome {
        self.flush()?;
        let ended = self.packer.take().map_or(Ok(()), Packer::finish);
        ended.map_err(|error| Failure::output(&self.name, &error))
    }

    /// Runs `work`, writes everything out whether it succeeded or not, and returns the first failure.
    pub(crate) fn with<T>(&mut self, work: impl FnOnce(&mut Self) -> Outcome<T>) -> Outcome<T> {
        let result = work(self);
        let flushed = self.flush();
        let value = result?;
        flushed?;
        Ok(value)
    }
}

/// `bytes` in a form that is safe on a terminal: lines of printable text.
fn shown(bytes: &[u8]) -> Vec<u8> {
    let is_layout = |byte: &u8| b"\n\t".contains(byte);
    let mut out = Vec::with_capacity(bytes.len());
    for part in bytes.split_inclusive(is_layout) {
        let end = part.len() - usize::from(part.last().is_some_and(is_layout));
        escapes::append_shown(&mut out, &part[..end]);
        out.extend_from_slice(&part[end..]);
    }
    out
}

/// The length of `bytes` without an incomplete character at their end.
pub(crate) fn whole_characters(bytes: &[u8]) -> usize {
    let is_inside = |byte: &u8| byte & 0b1100_0000 == 0b1000_0000;
    let inside = bytes.iter().rev().take(3).take_while(|byte| is_inside(byte)).count();
    let Some(start) = bytes.len().checked_sub(inside + 1) else { return bytes.len() };
    let wanted = match bytes[start] {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => 1,
    };
    if inside + 1 < wanted { start } else { bytes.len() }
}

/// A file that gets its name only when [`NewFile::finish`] has succeeded; otherwise nothing of it is left (`unseen`). A
/// device or a pipe is written directly, since a rename would replace it.
pub(crate) struct NewFile {
    out: Out,
    /// Where the file gets its name, if it has none yet.
    unseen: Option<(Unseen, PathBuf)>,
}

impl NewFile {
    /// As [`NewFile::create`], with compressed content if the name says so.
    pub(crate) fn create_packed(path: &Path) -> Outcome<Self> {
        let NewFile { out, unseen } = NewFile::create(path)?;
        let out = match Packed::named(path) {
            Some(packed) => out.packed(packed)?,
            None => out,
        };
        Ok(NewFile { out, unseen })
    }

    /// Starts to write what will be `path`.
    pub(crate) fn create(path: &Path) -> Outcome<Self> {
        let target = behind_links(path).map_err(|error| Failure::io("write", path, &error))?;
        match fs::metadata(&target) {
            Ok(meta) if meta.is_dir() => {
                return Err(Failure::io("write", path, &io::ErrorKind::IsADirectory.into()));
            }
            Ok(meta) if !meta.is_file() => return Ok(NewFile { out: Out::truncate(path)?, unseen: None }),
            // Replacing it would lose what other programs write to it.
            Ok(_) if is_of_process(path) => {
                return Err(Failure::usage(format!(
                    "{} names an open file of a process: for standard output, write -",
                    path.display()
                )));
            }
            _ => {}
        }
        if target.file_name().is_none() {
            return Err(Failure::usage(format!("{} is not the name of a file", path.display())));
        }
        let failed = |error| Failure::io("create", path, &error);
        let unseen = Unseen::create(&target).map_err(failed)?;
        let out = Out::new(unseen.file().map_err(failed)?, path.display().to_string());
        Ok(NewFile { out, unseen: Some((unseen, target)) })
    }

    /// Where to write.
    pub(crate) fn out(&mut self) -> &mut Out {
        &mut self.out
    }

    /// Writes everything out and puts the file in its place.
    pub(crate) fn finish(mut self) -> Outcome {
        self.out.end()?;
        match self.unseen {
            Some((unseen, target)) => {
                unseen.finish().map_err(|error| Failure::io("replace", &target, &error))
            }
            None => Ok(()),
        }
    }
}

/// More links than a system follows.
const LINKS: usize = 64;

/// The file that `path` leads to, which need not exist. A symbolic link stays: the file that it names is created or replaced.
pub(crate) fn behind_links(path: &Path) -> io::Result<PathBuf> {
    if let Ok(target) = fs::canonicalize(path) {
        return Ok(target);
    }
    let mut at = path.to_path_buf();
    for _ in 0..LINKS {
        let Ok(to) = fs::read_link(&at) else { return Ok(at) };
        at = at.parent().unwrap_or(Path::new("")).join(to);
    }
    Err(rustix::io::Errno::LOOP.into())
}

/// Whether the path leads to a file by a name that the system gives to a descriptor of a process, as /dev/stdout does.
fn is_of_process(path: &Path) -> bool {
    let mut at = path.to_path_buf();
    for _ in 0..LINKS {
        let Some(dir) = at.parent() else { return false };
        if fs::canonicalize(dir).is_ok_and(|dir| dir.starts_with("/proc")) {
            return true;
        }
        match fs::read_link(&at) {
            Ok(to) => at = dir.join(to),
            Err(_) => return false,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(dir)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_terminal_gets_lines_of_printable_text() {
        let text = "a\tb\nü\x1b]0;t\x07\u{9b}31m\u{202e}\r\n";
        assert_eq!(shown(text.as_bytes()), b"a\tb\n\xc3\xbc\\x1b]0;t\\x07\\xc2\\x9b31m\\xe2\\x80\\xae\\r\n");
        assert_eq!(shown(b"\n\n"), b"\n\n");
        assert_eq!(shown(b""), b"");
        assert_eq!(shown(b"\xff"), b"\\xff");
    }

    /// Characters stay whole wherever the output is cut.
    #[test]
    fn characters_stay_whole_where_output_is_cut() {
        let text = "aé語🦀z";
        for end in 0..=text.len() {
            let whole = whole_characters(&text.as_bytes()[..end]);
            assert!(text.is_char_boundary(whole) && whole <= end && end - whole < 4, "{end}: {whole}");
            assert!(!text.is_char_boundary(end) || whole == end, "{end}: {whole}");
        }
        for odd in [&b"\x80\x80\x80\x80\x80"[..], b"\xff", b"\xc0", b"a\x80"] {
            assert_eq!(whole_characters(odd), odd.len(), "{odd:?}");
        }
    }

    #[test]
    fn a_new_file_replaces_the_old_one_only_when_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("f");
        fs::write(&path, "old").unwrap();
        let mut dropped = NewFile::create(&path).unwrap();
        dropped.out().line("half").unwrap();
        dropped.out().flush().unwrap();
        drop(dropped);
        assert_eq!(fs::read(&path).unwrap(), b"old");

        let mut whole = NewFile::create(&path).unwrap();
        whole.out().line("new").unwrap();
        whole.finish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new\n");
        assert_eq!(names(dir.path()), ["f"]);
    }

    #[test]
    fn links_and_devices_stay_what_they_are() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("f"), dir.path().join("link"));
        fs::write(&file, "old").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let mut through = NewFile::create(&link).unwrap();
        through.out().line("new").unwrap();
        through.finish().unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&file).unwrap(), b"new\n");

        // A link to a file that is not there yet, by way of another one.
        let (new, first) = (dir.path().join("new"), dir.path().join("first"));
        for (to, from) in [("first", dir.path().join("second")), ("new", first)] {
            std::os::unix::fs::symlink(to, from).unwrap();
        }
        let mut through = NewFile::create(&dir.path().join("second")).unwrap();
        through.out().line("made").unwrap();
        through.finish().unwrap();
        assert_eq!(fs::read(&new).unwrap(), b"made\n");
        assert!(fs::symlink_metadata(dir.path().join("second")).unwrap().is_symlink());
        std::os::unix::fs::symlink("round", dir.path().join("round")).unwrap();
        assert!(NewFile::create(&dir.path().join("round")).is_err());

        let null = Path::new("/dev/null");
        NewFile::create(null).unwrap().finish().unwrap();
        assert!(!fs::metadata(null).unwrap().is_file());
    }
}
