//! Finds which values a file holds: from its footer or, without one, from the descriptors.

use super::format::{DESCRIPTOR, ENTRY, Entry, Header, KEY_MAX, Layout, PAGE, TAIL, Tail, descriptor_len};
use crate::error::{Error, Result};
use crate::fs::{ReadFile, read_part};
use crate::table::Flaw;

/// Size of one read in a search for descriptors.
const WINDOW: u64 = 16 << 10;
/// Size of one read for a single key.
const KEY_WINDOW: u64 = 512;

#[derive(Debug)]
pub(crate) struct Scan {
    /// In the order in which they are in the file.
    pub(crate) entries: Vec<Entry>,
    /// Where the last value ends, with its sums or descriptor. A footer, a torn write, or nothing follows.
    pub(crate) end: u64,
}

pub(super) fn read_any_header(file: &dyn ReadFile) -> Result<Header> {
    if file.len() < PAGE {
        return Err(Error::corruption(file.path(), 0, "expected a blob file: the file is too short"));
    }
    let mut page = [0; PAGE as usize];
    file.read_exact_at(&mut page, 0)?;
    Header::decode(&page).map_err(|flaw| flaw.into_error(file.path(), 0))
}

pub(super) fn read_header(file: &dyn ReadFile, number: u64) -> Result<Header> {
    let header = read_any_header(file)?;
    if header.number != number {
        let message = format!("expected blob file {number}, found blob file {}", header.number);
        return Err(Error::corruption(file.path(), 0, message));
    }
    Ok(header)
}

pub(super) fn read_footer(file: &dyn ReadFile, header: &Header) -> Result<Vec<Entry>> {
    let len = file.len();
    let at = |offset: u64| move |flaw: Flaw| flaw.into_error(file.path(), offset);
    let Some(tail_at) = len.checked_sub(TAIL as u64) else {
        return Err(Error::corruption(file.path(), 0, "expected a blob file: the file is too short"));
    };
    let mut bytes = [0; TAIL];
    file.read_exact_at(&mut bytes, tail_at)?;
    let tail = Tail::decode(&bytes, header, len).map_err(at(tail_at))?;
    // The decoded tail guarantees that the entries fill the file up to it.
    let bytes = read_part(file, tail.footer_at, tail_at - tail.footer_at)?;
    tail.decode_entries(&bytes, header).map_err(at(tail.footer_at))
}

/// Reads the descriptors of a file, with or without a footer, up to the first that fails its checksum.
pub(super) fn scan(file: &dyn ReadFile, header: &Header) -> Result<Scan> {
    let mut window = Window { file, bytes: Vec::new(), start: 0, limit: file.len(), least: WINDOW };
    match header.layout {
        Layout::Shared => scan_shared(&mut window, header),
        Layout::Single => scan_single(&mut window, header),
    }
}

/// The key of a value, from its descriptor.
pub(super) fn read_key(file: &dyn ReadFile, header: &Header, entry: &Entry) -> Result<Vec<u8>> {
    let mut window = Window { file, bytes: Vec::new(), start: 0, limit: file.len(), least: KEY_WINDOW };
    let at = entry.desc_offset;
    let key = window.descriptor(header, at)?.filter(|(found, _, _)| found == entry).map(|(_, key, _)| key);
    key.ok_or_else(|| Error::corruption(file.path(), at, "expected the descriptor of a value"))
}

fn scan_shared(window: &mut Window<'_>, header: &Header) -> Result<Scan> {
    let mut scan = Scan { entries: Vec::new(), end: PAGE };
    while let Some((entry, ..)) = window.descriptor(header, scan.end)? {
        scan.end = entry.end(header.chunk_log2);
        scan.entries.push(entry);
    }
    Ok(scan)
}

/// The descriptor of a single value is at the end of its file, or before the footer.
fn scan_single(window: &mut Window<'_>, header: &Header) -> Result<Scan> {
    let mut scan = Scan { entries: Vec::new(), end: PAGE };
    let limit = window.limit;
    let first = limit.saturating_sub(descriptor_len(KEY_MAX) + (ENTRY + TAIL) as u64).max(PAGE) / 8 * 8;
    // All of it is read in one call, since the search goes backwards.
    window.bytes(first, limit.saturating_sub(first))?;
    for word in (first / 8..limit / 8).rev() {
        if let Some((entry, _, end)) = window.descriptor(header, word * 8)? {
            scan.end = end;
            scan.entries.push(entry);
            break;
        }
    }
    Ok(scan)
}

struct Window<'a> {
    file: &'a dyn ReadFile,
    bytes: Vec<u8>,
    start: u64,
    limit: u64,
    least: u64,
}

impl Window<'_> {
    /// The descriptor that begins at `at`, its key, and its end; `None` if `at` has no whole descriptor.
    fn descriptor(&mut self, header: &Header, at: u64) -> Result<Option<(Entry, Vec<u8>, u64)>> {
        let Some(head) = self.bytes(at, DESCRIPTOR as u64)? else { return Ok(None) };
        let Some(len) = Entry::descriptor_len_in(head) else { return Ok(None) };
        let limit = self.limit;
        let Some(bytes) = self.bytes(at, len)? else { return Ok(None) };
        let decoded = Entry::decode_descriptor(bytes, header, at, limit);
        Ok(decoded.map(|(entry, key)| (entry, key.to_vec(), at + len)))
    }

    /// `len` bytes from `at` on, if the file has them.
    fn bytes(&mut self, at: u64, len: u64) -> Result<Option<&[u8]>> {
        if at > self.limit || len > self.limit - at {
            return Ok(None);
        }
        if at < self.start || at + len > self.start + self.bytes.len() as u64 {
            self.bytes.resize(len.max(self.least).min(self.limit - at) as usize, 0);
            self.start = at;
            self.file.read_exact_at(&mut self.bytes, at)?;
        }
        let from = (at - self.start) as usize;
        Ok(self.bytes.get(from..from + len as usize))
    }
}
