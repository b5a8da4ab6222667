//! The entries of a database: reads, writes, batches, and values as streams in both directions.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use esker::{Error, ErrorKind, Result};

use super::connection::Connection;
use super::url::Url;
use super::wire::{Reply, command, count, string};

/// The longest key that a store takes.
const KEY_MAX: usize = 1 << 17;

/// The last millisecond at which an entry can expire.
const LAST_MS: u64 = u64::MAX / 1000;

/// Up to so many bytes of a command wait for more before they are sent.
const PENDING_MAX: usize = 64 << 10;

/// How often a part of a value is read again whose value has changed meanwhile.
const ATTEMPTS: usize = 8;

/// A database of a server. Clones share its connection.
#[derive(Clone)]
pub(crate) struct Database {
    connection: Arc<Mutex<Connection>>,
    number: u16,
}

/// When a value expires.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Expiry {
    Never,
    After(Duration),
    /// In microseconds since 1970.
    At(u64),
}

impl Expiry {
    /// The option of `SET`, and its number. A server counts in milliseconds, from 1 on.
    fn option(self) -> Option<(&'static str, u64)> {
        match self {
            Expiry::Never => None,
            Expiry::After(time) => match u64::try_from(time.as_millis()).unwrap_or(LAST_MS).min(LAST_MS) {
                // The server takes no time of zero: a moment long ago is the same.
                0 => Some(("PXAT", 1)),
                ms => Some(("PX", ms)),
            },
            Expiry::At(us) => Some(("PXAT", (us / 1000).max(1))),
        }
    }
}

impl std::fmt::Debug for Database {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Database({})", self.number)
    }
}

impl Database {
    /// The database `number` of the server at `url`. Nothing is connected yet.
    pub(crate) fn new(url: Url, number: u16, wait: Option<Duration>) -> Self {
        Database { connection: Arc::new(Mutex::new(Connection::new(url, number, wait))), number }
    }

    /// Another database of the same server, by the same connection.
    pub(crate) fn other(&self, number: u16) -> Self {
        Database { connection: Arc::clone(&self.connection), number }
    }

    /// The name of its tree in the server's store.
    pub(crate) fn name(&self) -> String {
        match self.number {
            0 => "default".to_owned(),
            number => format!("db{number}"),
        }
    }

    /// Connects, and shows that the server answers.
    pub(crate) fn greet(&self) -> Result<()> {
        self.on()?.call(&[b"PING"]).map(drop)
    }

    /// The connection, on which commands are about this database.
    fn on(&self) -> Result<MutexGuard<'_, Connection>> {
        let mut connection = lock(&self.connection);
        connection.select(self.number)?;
        Ok(connection)
    }

    fn integer(&self, arguments: &[&[u8]]) -> Result<i64> {
        let mut connection = self.on()?;
        match connection.call(arguments)? {
            Reply::Integer(number) => Ok(number),
            _ => Err(connection.unexpected()),
        }
    }

    fn done(&self, arguments: &[&[u8]]) -> Result<()> {
        let mut connection = self.on()?;
        match connection.call(arguments)? {
            Reply::Status(_) => Ok(()),
            _ => Err(connection.unexpected()),
        }
    }

    // ---- reads ---------------------------------------------------------------------------------------

    /// The value of `key`.
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Bulk>> {
        check_key(key)?;
        self.read(key, &[b"GET", key], 0).map(|(_, found)| found)
    }

    /// The bytes from `first` to `last` of the value of `key`, counted as `GETRANGE` does, if `fits` finds for the length
    /// of the value that there must be so many.
    pub(crate) fn get_range<E: From<Error>>(
        &self,
        key: &[u8],
        [first, last]: [i64; 2],
        mut fits: impl FnMut(u64) -> std::result::Result<u64, E>,
    ) -> std::result::Result<Option<Bulk>, E> {
        check_key(key)?;
        let [first, last] = [first, last].map(|number| number.to_string());
        for _ in 0..ATTEMPTS {
            let (len, part) = self.read(key, &[b"GETRANGE", key, first.as_bytes(), last.as_bytes()], 2)?;
            let (Some(len), Some(part)) = (len, part) else { return Ok(None) };
            // Another client may have changed the value between the questions for its length and for its bytes.
            if part.len == fits(len)? {
                return Ok(Some(part));
            }
        }
        Err(Error::new(ErrorKind::Io, "other clients keep changing the value while it is read").into())
    }

    /// Sends a command that returns a string, behind what asks when the key expires and, if `more` is 2, whether it
    /// exists and how long it is. Returns the length, and the string; nothing if there is no key.
    fn read(&self, key: &[u8], arguments: &[&[u8]], more: usize) -> Result<(Option<u64>, Option<Bulk>)> {
        let mut connection = self.on()?;
        let mut bytes = Vec::new();
        command(&mut bytes, &[b"PEXPIRETIME", key]);
        for name in [b"EXISTS", b"STRLEN"].into_iter().take(more) {
            command(&mut bytes, &[name, key]);
        }
        command(&mut bytes, arguments);
        connection.send(&bytes)?;
        let mut before = Vec::new();
        for _ in 0..=more {
            before.push(connection.reply()?);
        }
        let begun = connection.begin()?;
        let mut numbers = Vec::new();
        for reply in before {
            match reply {
                Reply::Integer(number) => numbers.push(number),
                Reply::Error(text) => return Err(connection.refused(&text)),
                _ => return Err(connection.unexpected()),
            }
        }
        let exists = numbers.get(1) != Some(&0);
        match begun {
            Ok(_) if !exists => Ok((None, None)),
            Ok((len, on)) => {
                let expires_us = moment(numbers.first().copied().unwrap_or(-1));
                let bulk = Bulk { connection: Arc::clone(&self.connection), on, len, left: len, expires_us };
                Ok((numbers.get(2).and_then(|len| u64::try_from(*len).ok()), Some(bulk)))
            }
            Err(Reply::Null) => Ok((None, None)),
            Err(_) => Err(connection.unexpected()),
        }
    }

    /// Whether `key` exists.
    pub(crate) fn contains(&self, key: &[u8]) -> Result<bool> {
        Ok(self.integer(&[b"EXISTS", key])? != 0)
    }

    /// The elements of a page of `RANGE`; or the error, if the user may not read all keys that may lie in the range.
    pub(super) fn page(&self, arguments: &[&[u8]]) -> Result<std::result::Result<Vec<Reply>, Error>> {
        let mut connection = self.on()?;
        let mut bytes = Vec::new();
        command(&mut bytes, arguments);
        connection.send(&bytes)?;
        match connection.reply()? {
            Reply::Array(elements) => Ok(Ok(elements)),
            Reply::Error(text) if text.starts_with(b"NOPERM") => Ok(Err(connection.refused(&text))),
            Reply::Error(text) => Err(connection.refused(&text)),
            _ => Err(connection.unexpected()),
        }
    }

    /// The error for a reply that is none to what was asked.
    pub(super) fn unexpected(&self) -> Error {
        lock(&self.connection).unexpected()
    }

    // ---- writes --------------------------------------------------------------------------------------

    /// Stores a value that is in memory.
    pub(crate) fn put(&self, key: &[u8], value: &[u8], expiry: Expiry) -> Result<()> {
        let mut upload = self.upload(key, Some(value.len() as u64), expiry)?;
        upload.add(value)?;
        upload.commit()
    }

    /// Begins a value that comes piece by piece, and has `len` bytes if that is known.
    pub(crate) fn upload(&self, key: &[u8], len: Option<u64>, expiry: Expiry) -> Result<Upload> {
        check_key(key)?;
        let (database, key, held) = (self.clone(), key.to_vec(), None);
        let mut upload =
            Upload { database, key, expiry, len, added: 0, held, pending: Vec::new(), is_cut: false };
        match len {
            Some(len) => upload.begin(len),
            None => upload.held = Some(unnamed_file()?),
        }
        Ok(upload)
    }

    /// Writes the commands of a batch, all of them or none.
    pub(crate) fn write(&self, batch: &Batch) -> Result<()> {
        if batch.count == 0 {
            return Ok(());
        }
        let mut connection = self.on()?;
        let is_several = batch.count > 1;
        let mut before = Vec::new();
        if is_several {
            command(&mut before, &[b"MULTI"]);
        }
        connection.send(&before)?;
        connection.send_more(&batch.bytes)?;
        if is_several {
            let mut behind = Vec::new();
            command(&mut behind, &[b"EXEC"]);
            connection.send_more(&behind)?;
        }
        let replies = if is_several { batch.count + 2 } else { 1 };
        let mut error = None;
        for _ in 0..replies {
            match connection.reply()? {
                Reply::Error(text) => {
                    error.get_or_insert(text);
                }
                Reply::Array(elements) => {
                    for element in elements {
                        if let Reply::Error(text) = element {
                            error.get_or_insert(text);
                        }
                    }
                }
                Reply::Status(_) | Reply::Integer(_) => {}
                _ => return Err(connection.unexpected()),
            }
        }
        match error {
            Some(text) => Err(connection.refused(&text)),
            None => Ok(()),
        }
    }

    /// Deletes a key. Another process may have done so before.
    pub(crate) fn delete(&self, key: &[u8]) -> Result<()> {
        check_key(key)?;
        self.integer(&[b"DEL", key]).map(drop)
    }

    /// Deletes every key.
    pub(crate) fn clear(&self) -> Result<()> {
        self.done(&[b"FLUSHDB"])
    }

    /// Deletes the keys from `first` to `last`, both included; an empty `last` is the end. Other clients may see a part of
    /// them gone.
    pub(crate) fn delete_range(&self, first: &[u8], last: &[u8]) -> Result<()> {
        while self.integer(&[b"RANGEDEL", first, last])? > 0 {}
        Ok(())
    }

    /// Gives the value of `from` to `to`, too if `keep`. Returns whether there is one.
    pub(crate) fn transfer(&self, from: &[u8], to: &[u8], keep: bool) -> Result<bool> {
        check_key(from)?;
        check_key(to)?;
        if from == to {
            return self.contains(from);
        }
        if keep {
            return Ok(self.integer(&[b"COPY", from, to, b"REPLACE"])? != 0);
        }
        let mut connection = self.on()?;
        let mut bytes = Vec::new();
        command(&mut bytes, &[b"RENAME", from, to]);
        connection.send(&bytes)?;
        match connection.reply()? {
            Reply::Status(_) => Ok(true),
            Reply::Error(text) if text == b"ERR no such key" => Ok(false),
            Reply::Error(text) => Err(connection.refused(&text)),
            _ => Err(connection.unexpected()),
        }
    }

    /// Appends to the value of `key`.
    pub(crate) fn append(&self, key: &[u8], appended: &[u8]) -> Result<()> {
        check_key(key)?;
        self.integer(&[b"APPEND", key, appended]).map(drop)
    }

    /// Adds to the value of `key`, a decimal number.
    pub(crate) fn add(&self, key: &[u8], number: i64) -> Result<()> {
        check_key(key)?;
        let mut connection = self.on()?;
        let mut bytes = Vec::new();
        command(&mut bytes, &[b"INCRBY", key, number.to_string().as_bytes()]);
        connection.send(&bytes)?;
        let wrong = |message: &str| Err(Error::new(ErrorKind::InvalidInput, message));
        match connection.reply()? {
            Reply::Integer(_) => Ok(()),
            Reply::Error(text) if text.ends_with(b"would overflow") => {
                wrong("the sum does not fit in i64; nothing was added")
            }
            Reply::Error(text) if text.starts_with(b"ERR value is not an integer") => {
                wrong("the value is not a decimal number that fits in i64, so nothing was added")
            }
            Reply::Error(text) => Err(connection.refused(&text)),
            _ => Err(connection.unexpected()),
        }
    }

    /// Sends commands whose writes take effect together. Returns their replies; an error of one of them is a failure.
    pub(crate) fn call(&self, commands: &[Vec<Vec<u8>>]) -> Result<Vec<Reply>> {
        let mut connection = self.on()?;
        let mut bytes = Vec::new();
        command(&mut bytes, &[b"MULTI"]);
        for arguments in commands {
            command(&mut bytes, &arguments.iter().map(Vec::as_slice).collect::<Vec<_>>());
        }
        command(&mut bytes, &[b"EXEC"]);
        connection.send(&bytes)?;
        let mut error = None;
        let mut elements = None;
        for _ in 0..commands.len() + 2 {
            match connection.reply()? {
                Reply::Error(text) => drop(error.get_or_insert(text)),
                Reply::Array(replies) => elements = Some(replies),
                _ => {}
            }
        }
        for element in elements.iter().flatten() {
            if let Reply::Error(text) = element {
                error.get_or_insert(text.clone());
            }
        }
        match (error, elements) {
            (Some(text), _) => Err(connection.refused(&text)),
            (None, Some(replies)) if replies.len() == commands.len() => Ok(replies),
            _ => Err(connection.unexpected()),
        }
    }

    /// Waits until everything written survives a power cut.
    pub(crate) fn sync(&self) -> Result<()> {
        let mut connection = self.on()?;
        // The server must be the first to give up, and not the socket.
        let ms = (connection.patience() * 9 / 10).as_millis().max(1).to_string();
        match connection.call(&[b"WAITAOF", b"1", b"0", ms.as_bytes()])? {
            Reply::Array(counts) if counts.first() == Some(&Reply::Integer(1)) => Ok(()),
            Reply::Array(_) => {
                let message = "what was written is stored, but was not synced in time (--wait)";
                Err(Error::new(ErrorKind::Io, message))
            }
            _ => Err(connection.unexpected()),
        }
    }
}

fn lock(connection: &Mutex<Connection>) -> MutexGuard<'_, Connection> {
    connection.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A time in milliseconds since 1970 in microseconds; `None` if it is negative: there is none.
pub(super) fn moment(ms: i64) -> Option<u64> {
    u64::try_from(ms).ok().map(|ms| ms.saturating_mul(1000))
}

/// The empty key is one of a server's keys.
fn check_key(key: &[u8]) -> Result<()> {
    match key.len() {
        len if len > KEY_MAX => {
            let message = format!("the key has {len} bytes; the limit is {KEY_MAX}");
            Err(Error::new(ErrorKind::InvalidInput, message))
        }
        _ => Ok(()),
    }
}

/// The greatest key that is less than `key`, whose last byte is not zero.
pub(crate) fn before(key: &[u8]) -> Vec<u8> {
    let mut before = key.to_vec();
    if let Some(last) = before.last_mut() {
        *last = last.saturating_sub(1);
    }
    before.resize(before.len().max(KEY_MAX), 0xff);
    before
}

/// The bytes of a value, which arrive while they are read.
pub(crate) struct Bulk {
    connection: Arc<Mutex<Connection>>,
    /// The number of the connection.
    on: u64,
    len: u64,
    left: u64,
    expires_us: Option<u64>,
}

impl Bulk {
    /// How many there are.
    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    /// When the value expires, in microseconds since 1970.
    pub(crate) fn expires_us(&self) -> Option<u64> {
        self.expires_us
    }

    /// Fills `buffer` with the next bytes, at most `max`: with none at the end.
    pub(crate) fn next(&mut self, max: usize, buffer: &mut Vec<u8>) -> Result<()> {
        let count = self.left.min(max as u64) as usize;
        buffer.resize(count, 0);
        lock(&self.connection).part(self.on, buffer)?;
        self.left -= count as u64;
        Ok(())
    }
}

/// A value on its way to the server. Dropped before it is committed, it has no effect.
///
/// The protocol wants the length first. If it is not known, the bytes are gathered in a file without a name.
pub(crate) struct Upload {
    database: Database,
    key: Vec<u8>,
    expiry: Expiry,
    len: Option<u64>,
    added: u64,
    held: Option<File>,
    /// Bytes of the command that have not been sent yet.
    pending: Vec<u8>,
    /// Whether a part of the command has been sent, and not all of it.
    is_cut: bool,
}

impl Upload {
    /// How many bytes there are so far.
    pub(crate) fn len(&self) -> u64 {
        self.added
    }

    /// Sends what comes before the value of `len` bytes.
    fn begin(&mut self, len: u64) {
        count(&mut self.pending, b'*', if self.expiry.option().is_some() { 5 } else { 3 });
        string(&mut self.pending, b"SET");
        string(&mut self.pending, &self.key);
        count(&mut self.pending, b'$', len);
    }

    /// Adds bytes.
    pub(crate) fn add(&mut self, bytes: &[u8]) -> Result<()> {
        let added = self.added + bytes.len() as u64;
        match &mut self.held {
            _ if self.len.is_some_and(|len| added > len) => return Err(other_length()),
            Some(file) => file.write_all(bytes).map_err(|error| unheld(&error))?,
            None => self.send(bytes)?,
        }
        self.added = added;
        Ok(())
    }

    /// Sends bytes, or keeps few of them until more come.
    fn send(&mut self, bytes: &[u8]) -> Result<()> {
        if self.pending.len() + bytes.len() <= PENDING_MAX {
            self.pending.extend_from_slice(bytes);
            return Ok(());
        }
        self.flush()?;
        lock(&self.database.connection).send_more(bytes)
    }

    fn flush(&mut self) -> Result<()> {
        let pending = std::mem::take(&mut self.pending);
        if self.is_cut {
            return lock(&self.database.connection).send_more(&pending);
        }
        let mut connection = self.database.on()?;
        self.is_cut = true;
        connection.send(&pending)
    }

    /// Gives the key its value.
    pub(crate) fn commit(mut self) -> Result<()> {
        if let Some(file) = self.held.take() {
            self.begin(self.added);
            self.send_file(file)?;
        } else if self.len != Some(self.added) {
            return Err(other_length());
        }
        self.pending.extend_from_slice(b"\r\n");
        if let Some((name, number)) = self.expiry.option() {
            string(&mut self.pending, name.as_bytes());
            string(&mut self.pending, number.to_string().as_bytes());
        }
        self.flush()?;
        self.is_cut = false;
        let answer = lock(&self.database.connection).answer();
        match answer? {
            Reply::Status(_) => Ok(()),
            _ => Err(self.database.unexpected()),
        }
    }

    fn send_file(&mut self, mut file: File) -> Result<()> {
        file.seek(SeekFrom::Start(0)).map_err(|error| unheld(&error))?;
        let mut buffer = vec![0; 1 << 20];
        let mut left = self.added;
        while left > 0 {
            let count = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            file.read_exact(&mut buffer[..count]).map_err(|error| unheld(&error))?;
            self.send(&buffer[..count])?;
            left -= count as u64;
        }
        Ok(())
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if self.is_cut {
            lock(&self.database.connection).close();
        }
    }
}

fn other_length() -> Error {
    Error::new(ErrorKind::Io, "the value has another length than it had at first; nothing was stored")
}

fn unheld(error: &std::io::Error) -> Error {
    Error::new(
        ErrorKind::Io,
        format!("cannot keep the value in a temporary file until its length is known: {error}"),
    )
}

/// A file for bytes that are read again, which is gone when it is closed.
fn unnamed_file() -> Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let dir = std::env::temp_dir();
    let mut options = File::options();
    options.read(true).write(true).mode(0o600);
    let flags = rustix::fs::OFlags::TMPFILE.bits().cast_signed();
    if let Ok(file) = options.clone().custom_flags(flags).open(&dir) {
        return Ok(file);
    }
    let path = dir.join(format!(".esker.{}.tmp", std::process::id()));
    let file = options.create_new(true).open(&path).map_err(|error| unheld(&error))?;
    std::fs::remove_file(&path).map_err(|error| unheld(&error))?;
    Ok(file)
}

/// Writes that take effect together.
#[derive(Default)]
pub(crate) struct Batch {
    bytes: Vec<u8>,
    count: usize,
}

impl Batch {
    /// How many writes there are.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// How many bytes they take.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Forgets the writes.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.count = 0;
    }

    /// Adds a put.
    pub(crate) fn put(&mut self, key: &[u8], value: &[u8], expiry: Expiry) -> Result<()> {
        check_key(key)?;
        match expiry.option() {
            None => command(&mut self.bytes, &[b"SET", key, value]),
            Some((name, number)) => {
                let number = number.to_string();
                command(&mut self.bytes, &[b"SET", key, value, name.as_bytes(), number.as_bytes()]);
            }
        }
        self.count += 1;
        Ok(())
    }

    /// Adds a delete.
    pub(crate) fn delete(&mut self, key: &[u8]) -> Result<()> {
        check_key(key)?;
        command(&mut self.bytes, &[b"DEL", key]);
        self.count += 1;
        Ok(())
    }
}
