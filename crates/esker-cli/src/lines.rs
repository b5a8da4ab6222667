//! Input in blocks of whole lines, read ahead by its own thread.
//!
//! ```text
//! file ──read()──> [ line \n line \n li ]      the start of a line moves to the next buffer
//!                    └── sent ────────┘└──┘
//! reader thread ──── full buffers (at most QUEUE) ───> the command
//!        ^────────── emptied buffers ──────────────────┘
//! ```
//!
//! Compressed input is unpacked on its way (`unpack`). Memory is a few buffers of a megabyte; a longer line enlarges
//! the buffer that holds it. A block ends after the end of a line; only the last line of the last block may lack its
//! end. Input that arrives slowly (from a pipe) is passed on as soon as a whole line is there.
//!
//! A command that takes long lines in parts gets them so from a length on ([`Input::blocks`]): blocks that end within the line,
//! and then one that begins with the rest of it.

use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::thread;

use crate::encoding::{Encoding, decoded};
use crate::exit::{Failure, Outcome};
use crate::interrupt;
use crate::steady::ToItsEnd;
use crate::unpack::{Packed, is_packed, unpacked};

const BLOCK: usize = 1 << 20;
/// Lines of at least this length may be passed on in parts.
const LONG_LINE: usize = 4 * BLOCK;
/// The most full blocks that wait for the command.
const QUEUE: usize = 3;
/// A buffer that a long line has enlarged beyond this is not reused.
const REUSE_AT_MOST: usize = 4 * BLOCK;

/// The source of lines.
pub(crate) struct Input {
    file: ToItsEnd,
    path: PathBuf,
    /// The compression that its name says.
    packed: Option<Packed>,
    len: Option<u64>,
    /// `None`: bytes. Otherwise it is text, and this is its encoding, if the user names one.
    text: Option<Option<Encoding>>,
    /// The most bytes of a line.
    line_max: usize,
}

impl Input {
    /// Opens `path`; `-` is standard input.
    pub(crate) fn open(path: &Path) -> Outcome<Self> {
        if path == Path::new("-") {
            let path = PathBuf::from("standard input");
            let fd = io::stdin().as_fd().try_clone_to_owned();
            let file = fd.and_then(|fd| ToItsEnd::new(fd.into()));
            let file = file.map_err(|error| Failure::io("read", &path, &error))?;
            return Ok(Input { file, path, packed: None, len: None, text: None, line_max: line_max(None) });
        }
        let failed = |error: io::Error| Failure::io("read", path, &error);
        let file = File::open(path).map_err(failed)?;
        let meta = file.metadata().map_err(failed)?;
        if meta.is_dir() {
            return Err(failed(io::ErrorKind::IsADirectory.into()));
        }
        let packed = Packed::named(path);
        // The unpacked length of compressed input is unknown.
        let len = (meta.is_file() && packed.is_none()).then_some(meta.len());
        let file = ToItsEnd::new(file).map_err(failed)?;
        Ok(Input { file, path: path.to_path_buf(), packed, len, text: None, line_max: line_max(None) })
    }

    /// Reads it as text in this encoding, or in that of its byte order mark.
    pub(crate) fn text(self, encoding: Option<Encoding>) -> Self {
        Input { text: Some(encoding), ..self }
    }

    /// Refuses lines with more bytes.
    pub(crate) fn lines_at_most(self, line_max: usize) -> Self {
        Input { line_max, ..self }
    }

    /// The name to use in messages.
    pub(crate) fn name(&self) -> String {
        self.path.display().to_string()
    }

    /// The file, for messages.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// How many bytes there are, if that is known.
    pub(crate) fn len(&self) -> Option<u64> {
        self.len
    }

    /// Whether it comes from a terminal.
    pub(crate) fn is_typed(&self) -> bool {
        self.file.file().is_terminal()
    }

    /// The open file, to compare it with another.
    pub(crate) fn file(&self) -> &File {
        self.file.file()
    }

    /// The whole input as a stream of bytes.
    pub(crate) fn stream(self) -> Outcome<Box<dyn Read + Send>> {
        let Input { file, path, packed, text, .. } = self;
        read(file, packed, text).map_err(|error| failed(&path, &error))
    }

    /// Starts to read ahead. `takes_parts`: blocks may end within a line that is long.
    pub(crate) fn blocks(self, takes_parts: bool) -> Outcome<Blocks> {
        let (full_in, full) = sync_channel(QUEUE);
        let (empty, empty_out) = sync_channel(QUEUE + 2);
        let Input { file, path, packed, text, line_max, .. } = self;
        // The thread is not joined: a command that stops early must not wait for a terminal or a pipe.
        thread::Builder::new()
            .name("reader".to_owned())
            .spawn(move || match read(file, packed, text) {
                Ok(from) => read_ahead(from, takes_parts, line_max, &full_in, &empty_out),
                Err(error) => drop(full_in.send(Err(error))),
            })
            .map_err(|error| Failure::store(format!("cannot start a thread: {error}")))?;
        Ok(Blocks { path, full, empty })
    }
}

fn read(
    file: ToItsEnd,
    packed: Option<Packed>,
    text: Option<Option<Encoding>>,
) -> io::Result<Box<dyn Read + Send>> {
    let bytes = unpacked(file, packed)?;
    match text {
        Some(encoding) => decoded(bytes, encoding),
        None => Ok(bytes),
    }
}

/// Unpacks the file `path` and forgets the contents, if it is compressed. A file that is damaged fails here: its checksum comes behind
/// what it is about. A pipe can be read only once, so it is not checked.
pub(crate) fn check_packed(path: &Path) -> Outcome {
    if !std::fs::metadata(path).is_ok_and(|meta| meta.is_file()) {
        return Ok(());
    }
    let is_packed = File::open(path).and_then(|mut file| is_packed(&mut file));
    if !is_packed.map_err(|error| failed(path, &error))? {
        return Ok(());
    }
    let mut stream = Input::open(path)?.stream()?;
    let mut buffer = vec![0; BLOCK];
    loop {
        interrupt::check()?;
        match stream.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(failed(path, &error)),
        }
    }
}

/// The blocks of an input, in order.
pub(crate) struct Blocks {
    path: PathBuf,
    full: Receiver<io::Result<Block>>,
    empty: SyncSender<Vec<u8>>,
}

impl Blocks {
    /// The next block, or `None` at the end. Before it waits for input, it calls `before_waiting`, so that results are
    /// not held back while no input comes.
    pub(crate) fn next(&mut self, before_waiting: impl FnOnce() -> Outcome) -> Outcome<Option<Block>> {
        let received = match self.full.try_recv() {
            Ok(block) => Some(block),
            Err(TryRecvError::Disconnected) => None,
            Err(TryRecvError::Empty) => {
                before_waiting()?;
                self.full.recv().ok()
            }
        };
        received.transpose().map_err(|error| failed(&self.path, &error))
    }

    /// Returns a block's memory for reuse.
    pub(crate) fn recycle(&self, block: Block) {
        if block.buffer.len() <= REUSE_AT_MOST {
            let _ = self.empty.try_send(block.buffer);
        }
    }
}

/// What to do about a row that is too long.
pub(crate) const HOW_TO_TAKE_MORE: &str = "an eighth of the memory that the command may take (--memory SIZE allows more); \
                                           `esker put KEY --file FILE` and `esker import DIR` take values of any length";

/// Whole lines, or a part of a long one.
pub(crate) struct Block {
    /// The whole buffer is initialised. The lines are the first `len` bytes.
    buffer: Vec<u8>,
    len: usize,
    is_part: bool,
}

impl Block {
    /// The lines and their ends.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[..self.len]
    }

    /// Whether it is one part of a line, which goes on in the next block: if there is none, the line ends with the input.
    pub(crate) fn is_part(&self) -> bool {
        self.is_part
    }

    /// The lines, with or without their ends (a line feed, and one carriage return before it).
    pub(crate) fn lines(&self, keeps_ends: bool) -> Lines<'_> {
        let ends = memchr::memchr_iter(b'\n', self.bytes());
        Lines { ends, bytes: self.bytes(), start: 0, keeps_ends }
    }
}

/// Iterates over the lines of a block.
pub(crate) struct Lines<'a> {
    ends: memchr::Memchr<'a>,
    bytes: &'a [u8],
    start: usize,
    keeps_ends: bool,
}

impl<'a> Iterator for Lines<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let end = match self.ends.next() {
            Some(end) => end,
            None if self.start < self.bytes.len() => self.bytes.len(),
            None => return None,
        };
        let start = std::mem::replace(&mut self.start, end + 1);
        if self.keeps_ends {
            return Some(&self.bytes[start..self.start.min(self.bytes.len())]);
        }
        let line = &self.bytes[start..end];
        Some(line.strip_suffix(b"\r").unwrap_or(line))
    }
}

/// The failure if input cannot be read. Malformed bytes are bad input.
pub(crate) fn failed(path: &Path, error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::InvalidData
        | io::ErrorKind::InvalidInput
        | io::ErrorKind::UnexpectedEof
        // What zstd finds in its input.
        | io::ErrorKind::Other => Failure::usage(format!("cannot read {}: {error}", path.display())),
        _ => Failure::io("read", path, error),
    }
}

fn read_ahead(
    mut file: impl Read,
    takes_parts: bool,
    line_max: usize,
    full: &SyncSender<io::Result<Block>>,
    empty: &Receiver<Vec<u8>>,
) {
    let mut buffer = vec![0; BLOCK];
    let mut filled = 0;
    let mut is_within_line = false;
    loop {
        let read = match read_some(&mut file, &mut buffer, filled, line_max) {
            Ok(read) => read,
            Err(error) => {
                let _ = full.send(Err(error));
                return;
            }
        };
        let (fresh, end) = (filled, filled + read);
        filled = end;
        if read == 0 {
            if filled > 0 {
                let _ = full.send(Ok(Block { buffer, len: filled, is_part: false }));
            }
            return;
        }
        let last = memchr::memrchr(b'\n', &buffer[fresh..end]);
        let is_part = last.is_none() && takes_parts && (is_within_line || filled >= LONG_LINE);
        let len = match last {
            Some(last) => fresh + last + 1,
            None if is_part => filled,
            None => continue,
        };
        is_within_line = is_part;
        let rest = filled - len;
        let mut next = empty.try_recv().unwrap_or_default();
        next.resize(next.len().max(BLOCK).max(rest), 0);
        next[..rest].copy_from_slice(&buffer[len..filled]);
        if full.send(Ok(Block { buffer, len, is_part })).is_err() {
            return;
        }
        buffer = next;
        filled = rest;
    }
}

/// A longer line is not read. The line and its results must fit in memory, and a device may never end.
/// `budget` is the memory that the user allows (`--memory`).
pub(crate) fn line_max(budget: Option<usize>) -> usize {
    let available = line_max_in(esker::Options::available_memory());
    budget.map_or(available, |budget| available.min((budget / 8).max(BLOCK)))
}

/// As [`line_max`], for a process that may use this much memory.
fn line_max_in(memory: Option<u64>) -> usize {
    memory.and_then(|memory| usize::try_from(memory / 8).ok()).unwrap_or(64 << 20).clamp(BLOCK, 8 << 30)
}

/// Reads once behind the first `filled` bytes of `buffer`, which doubles when it is full.
fn read_some(
    file: &mut impl Read,
    buffer: &mut Vec<u8>,
    filled: usize,
    line_max: usize,
) -> io::Result<usize> {
    if filled == buffer.len() {
        if filled >= line_max {
            let message =
                format!("a line has more than {filled} bytes, {HOW_TO_TAKE_MORE}; is the file text?");
            return Err(io::Error::new(io::ErrorKind::InvalidData, message));
        }
        let more = filled.min(line_max - filled);
        buffer.try_reserve_exact(more).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
        buffer.resize(filled + more, 0);
    }
    loop {
        match file.read(&mut buffer[filled..]) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn lines_of(content: &[u8]) -> Vec<Vec<u8>> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(content).unwrap();
        let mut blocks = Input::open(file.path()).unwrap().blocks(false).unwrap();
        let mut lines = Vec::new();
        while let Some(block) = blocks.next(|| Ok(())).unwrap() {
            lines.extend(block.lines(false).map(<[u8]>::to_vec));
            blocks.recycle(block);
        }
        lines
    }

    #[test]
    fn ends_of_lines() {
        let expected: [&[u8]; 5] = [b"a", b"", b"b\r", b"", b"c"];
        assert_eq!(lines_of(b"a\n\nb\r\r\n\r\nc"), expected);
        assert_eq!(lines_of(b"a\n"), [b"a"]);
        assert_eq!(lines_of(b"a"), [b"a"]);
        assert_eq!(lines_of(b"\n"), [b""]);
        assert!(lines_of(b"").is_empty());
        let content = b"a\n\r\nb\r".to_vec();
        let block = Block { len: content.len(), buffer: content, is_part: false };
        assert_eq!(block.lines(true).collect::<Vec<_>>(), [&b"a\n"[..], b"\r\n", b"b\r"]);
    }

    #[test]
    fn a_line_may_take_an_eighth_of_the_memory() {
        assert_eq!(line_max_in(Some(24 << 30)), 3 << 30);
        assert_eq!(line_max_in(Some(100 << 20)), (100 << 20) / 8);
        assert_eq!(line_max_in(Some(0)), BLOCK);
        assert_eq!(line_max_in(Some(u64::MAX)), 8 << 30);
    }

    /// Lines of every length around that of a block, so that they end everywhere relative to its bounds.
    #[test]
    fn lines_across_blocks_stay_whole() {
        let mut content = Vec::new();
        let mut expected = Vec::new();
        let sizes = [BLOCK - 2, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 17, 5, 0, 2 * BLOCK, 1, 1];
        for (i, size) in sizes.into_iter().chain((0..30_000).map(|i| i % 251)).enumerate() {
            let line = vec![b'a' + (i % 26) as u8; size];
            content.extend_from_slice(&line);
            content.push(b'\n');
            expected.push(line);
        }
        assert!(lines_of(&content) == expected);
    }

    /// Only long lines come in parts, and memory for each part stays small.
    #[test]
    fn long_lines_come_in_parts() {
        for ending in [&b"\n"[..], b"", b"\nlast"] {
            let long: Vec<u8> = (0..6 * LONG_LINE).map(|i| b'a' + (i % 26) as u8).collect();
            let content = [b"first\n", &vec![b'-'; LONG_LINE / 2][..], b"\n", &long, ending].concat();
            let mut file = tempfile::NamedTempFile::new().unwrap();
            file.write_all(&content).unwrap();
            let mut blocks = Input::open(file.path()).unwrap().blocks(true).unwrap();
            let (mut all, mut parts, mut is_within) = (Vec::new(), 0, false);
            while let Some(block) = blocks.next(|| Ok(())).unwrap() {
                assert!(!block.is_part() || !block.bytes().contains(&b'\n'));
                assert!(block.buffer.len() <= 2 * LONG_LINE);
                if block.is_part() && !is_within {
                    assert!(block.bytes().len() >= LONG_LINE && block.bytes().starts_with(b"abc"));
                }
                is_within = block.is_part();
                parts += u32::from(is_within);
                all.extend_from_slice(block.bytes());
                blocks.recycle(block);
            }
            assert!(all == content);
            assert!(parts > 2, "{parts}");
        }
    }

    #[test]
    fn a_line_is_handed_on_before_the_pipe_ends() {
        let (reader, mut writer) = io::pipe().unwrap();
        let fd: std::os::fd::OwnedFd = reader.into();
        let file = ToItsEnd::new(fd.into()).unwrap();
        let input = Input {
            file,
            path: "pipe".into(),
            packed: None,
            len: None,
            text: None,
            line_max: line_max(None),
        };
        let mut blocks = input.blocks(false).unwrap();
        writer.write_all(b"one\ntw").unwrap();
        let block = blocks.next(|| Ok(())).unwrap().unwrap();
        assert_eq!(block.lines(false).collect::<Vec<_>>(), [b"one"]);
        writer.write_all(b"o").unwrap();
        drop(writer);
        let block = blocks.next(|| Ok(())).unwrap().unwrap();
        assert_eq!(block.lines(false).collect::<Vec<_>>(), [b"two"]);
        assert!(blocks.next(|| Ok(())).unwrap().is_none());
    }

    #[test]
    fn a_directory_is_no_input() {
        assert!(Input::open(tempfile::tempdir().unwrap().path()).is_err());
        assert!(Input::open(Path::new("/nonexistent/x")).is_err());
    }
}
