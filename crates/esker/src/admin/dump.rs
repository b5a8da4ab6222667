//! Shows one file of a store. The header identifies the kind of the file.

use std::path::Path;
use std::sync::Arc;

use super::key_types::{KeyTypes, ShowKey, shown};
use crate::blob::Pointer;
use crate::cache::BufferPool;
use crate::cursor::{Content, Cursor, Kind};
use crate::error::{Error, ErrorKind, Result};
use crate::fs::ReadFile;
use crate::log::pieces::Pieces;
use crate::log::segment::{RECORDS_AT, SegmentHeader};
use crate::log::stream::read_stream;
use crate::operators;
use crate::options::Options;
use crate::ranges::KeyRange;
use crate::space::RESERVE_FILE;
use crate::table::{ScanHint, TABLE_MAGIC, TableReader};
use crate::version::edit::{Edit, TableInfo, TreeId};
use crate::version::tables::table_number;
use crate::write::batch::{Ops, numbers_taken};

/// Takes each line; fails to stop the dump.
type Out<'a> = &'a mut dyn FnMut(String) -> Result<()>;

/// Shows the contents of `file`, any file of a store, line by line. `out` returns `false` to stop. Keys are shown as
/// text; bytes that are not printable are escaped.
///
/// # Errors
/// `Corruption` when the file is damaged: everything before the damage has been shown. `InvalidInput` when it is not a
/// file of a store.
pub fn dump(file: impl AsRef<Path>, out: impl FnMut(&str) -> bool, options: &Options) -> Result<()> {
    dump_with(file, |_, _| None, out, options)
}

/// As [`dump`], but `show_key` shows each key. Its first argument is the tag ([`Tree::tag`](crate::Tree::tag)) of the
/// key's tree. It is `None` if the tree has no tag or is unknown: only the manifest identifies the tree, so for other
/// files the manifest must be in the same directory. If `show_key` returns `None`, the key is shown as `dump` shows it.
///
/// # Errors
/// As [`dump`].
pub fn dump_with(
    file: impl AsRef<Path>,
    show_key: impl Fn(Option<&str>, &[u8]) -> Option<String>,
    mut out: impl FnMut(&str) -> bool,
    options: &Options,
) -> Result<()> {
    let mut is_stopped = false;
    let mut line = |line: String| {
        is_stopped = !out(&line);
        if is_stopped { Err(Error::new(ErrorKind::Cancelled, "the dump was stopped")) } else { Ok(()) }
    };
    let dumped = dump_lines(file.as_ref(), &show_key, &mut line, options);
    if is_stopped { Ok(()) } else { dumped }
}

fn dump_lines(file: &Path, show_key: ShowKey<'_>, out: Out<'_>, options: &Options) -> Result<()> {
    let source = options.env.fs.open_read(file)?;
    let mut magic = [0; 8];
    if source.len() >= 8 {
        source.read_exact_at(&mut magic, 0)?;
    }
    if file.file_name().is_some_and(|name| name == RESERVE_FILE) {
        return out(format!("{} bytes set aside for a full disk; they hold no data", source.len()));
    }
    match &magic {
        b"eskerWAL" => dump_segment(file, show_key, out, options),
        b"eskerMAN" => dump_manifest(file, show_key, out, options),
        [0, 0, 0, 0, 0, 0, 0, 0] if source.len() >= RECORDS_AT => {
            out("a log segment that was prepared but not used yet".to_owned())
        }
        _ if is_table(&*source)? => dump_table(file, show_key, out, options),
        _ => Err(Error::new(ErrorKind::InvalidInput, "this is not a file of a store").at(file)),
    }
}

/// Whether the file is a table, by its name or by its last bytes.
fn is_table(source: &dyn ReadFile) -> Result<bool> {
    let named = source.path().file_name().and_then(|name| name.to_str()).and_then(table_number).is_some();
    let mut end = [0; TABLE_MAGIC.len()];
    let at = source.len().checked_sub(end.len() as u64);
    if let Some(at) = at.filter(|_| !named) {
        source.read_exact_at(&mut end, at)?;
    }
    Ok(named || &end == TABLE_MAGIC)
}

fn told(edit: &Edit, types: &KeyTypes<'_>) -> String {
    match edit {
        Edit::AddTable { tree, level, table } => {
            let (from, to) = (types.key(*tree, &table.smallest), types.key(*tree, &table.largest));
            let rest = TableInfo { smallest: Vec::new(), largest: Vec::new(), ..table.clone() };
            let rest = format!("{rest:?}").replace(", smallest: [], largest: []", "");
            format!("AddTable {{ tree: {tree}, level: {level}, keys {from} to {to}, table: {rest} }}")
        }
        Edit::DeleteRange { tree, seq, range } => {
            format!("DeleteRange {{ tree: {tree}, seq: {seq}, keys {} }}", bounds(*tree, range, types))
        }
        Edit::KeyBounds { tree, lineage, range } => {
            format!("KeyBounds {{ tree: {tree}, lineage: {lineage}, keys {} }}", bounds(*tree, range, types))
        }
        other => format!("{other:?}"),
    }
}

fn bounds(tree: TreeId, range: &KeyRange, types: &KeyTypes<'_>) -> String {
    let bound = |key: &[u8]| if key.is_empty() { shown(key) } else { types.key(tree, key) };
    match &range.upper {
        Some(upper) => format!("from {} up to {}", bound(&range.lower), bound(upper)),
        None => format!("from {} on", bound(&range.lower)),
    }
}

fn pointed(pointer: &[u8]) -> String {
    Pointer::decode(pointer).map_or_else(
        || "a pointer that cannot be decoded".to_owned(),
        |p| format!("{} bytes, blob {} of file {}", p.len, p.ordinal, p.file),
    )
}

/// The contents of an entry with a value, in words.
fn held(entry: Content<'_>) -> String {
    let value = if entry.kind == Kind::Blob { pointed(entry.value) } else { shown(entry.value) };
    let attributes = match entry.attributes {
        [] => String::new(),
        attributes => format!(", attributes {}", shown(attributes)),
    };
    let expiry = entry.expiry.map_or(String::new(), |expiry| format!(", until {expiry} us"));
    format!("{value}{attributes}{expiry}")
}

fn operand(stored: &[u8]) -> String {
    match operators::parts(stored) {
        Some((name, operand)) => {
            let time =
                operators::time_of(stored).map_or(String::new(), |time_us| format!(", at {time_us} us"));
            format!("{} {}{time}", name.escape_debug(), shown(operand))
        }
        None => shown(stored),
    }
}

fn dump_segment(file: &Path, show_key: ShowKey<'_>, out: Out<'_>, options: &Options) -> Result<()> {
    let source = options.env.fs.open_read(file)?;
    let mut page = vec![0; RECORDS_AT.min(source.len()) as usize];
    source.read_exact_at(&mut page, 0)?;
    let Some(header) = SegmentHeader::decode(&page, file)? else { return Ok(()) };
    out(format!(
        "log segment {}: epoch {:016x}, first sequence number {}, start position {}",
        header.id, header.epoch, header.first_seq, header.start
    ))?;
    let types = KeyTypes::beside(show_key, &options.env, file);
    let (mut offset, mut seq) = (RECORDS_AT, header.first_seq);
    let mut pieces = Pieces::open(&*options.env.fs, file, header.epoch)?;
    while let Some(found) = pieces.record(offset)? {
        let synced = found.lag.map_or(String::new(), |lag| format!(", synced up to {lag} bytes before"));
        out(format!("{offset}: record of {} bytes{synced}", found.len()))?;
        if let (None, Some(next)) = (Ops::of(found.payload).next(), numbers_taken(found.payload, 0)) {
            seq = next;
        }
        for op in Ops::of(found.payload) {
            let key = types.key(op.tree, op.key);
            let what = match op.kind {
                Kind::Delete => format!("delete {key}"),
                Kind::Time => format!("time {}", op.time_us().unwrap_or(0)),
                Kind::DeleteRange => match KeyRange::decode(op.key, op.value) {
                    Some(range) => format!("delete {}", bounds(op.tree, &range, &types)),
                    None => format!("delete from {key} on"),
                },
                Kind::Merge => format!("merge {key} {}", operand(op.value)),
                kind => format!("put {key} = {}", held(Content::open(kind, op.value))),
            };
            out(format!("  {seq} tree {}: {what}", op.tree))?;
            seq += 1;
        }
        offset += found.len() as u64;
    }
    out(format!("{offset}: end of the records; {} bytes unused", pieces.len().saturating_sub(offset)))
}

fn dump_manifest(file: &Path, show_key: ShowKey<'_>, out: Out<'_>, options: &Options) -> Result<()> {
    let contents = read_stream(&*options.env.fs, file, 0)?;
    let edits = contents.records.iter().filter_map(|(_, payload)| Edit::decode_all(payload));
    let edits: Vec<Edit> = edits.flatten().collect();
    let types = KeyTypes::of_edits(show_key, edits.iter());
    for (offset, payload) in &contents.records {
        let edits = Edit::decode_all(payload)
            .ok_or_else(|| Error::corruption(file, *offset, "a manifest record cannot be decoded"))?;
        out(format!("{offset}: {} edits", edits.len()))?;
        for edit in &edits {
            out(format!("  {}", told(edit, &types)))?;
        }
    }
    if contents.end < options.env.fs.file_len(file)? {
        out(format!("{}: torn tail", contents.end))?;
    }
    Ok(())
}

fn dump_table(file: &Path, show_key: ShowKey<'_>, out: Out<'_>, options: &Options) -> Result<()> {
    let source = options.env.fs.open_read(file)?;
    let reader = Arc::new(TableReader::open(source, 0, Arc::new(BufferPool::new(0)))?);
    let types = KeyTypes::beside(show_key, &options.env, file);
    let number = file.file_name().and_then(|name| name.to_str()).and_then(table_number);
    let key = |key: &[u8]| types.key_in(number, key);
    let (filter, index) = reader.metadata_bytes();
    let properties = reader.properties();
    let head = [
        format!("table: {} entries, {} of them tombstones", properties.entries, properties.tombstones),
        format!("sequence numbers {} to {}", properties.min_seq, properties.max_seq),
        format!("{} bytes of keys and values, {} data blocks", properties.raw_bytes, properties.blocks),
        format!("{} bytes in all, of these filter {filter} and index {index}", reader.size()),
        format!("keys {} to {}", key(&properties.smallest), key(&properties.largest)),
    ];
    head.into_iter().try_for_each(&mut *out)?;
    let mut cursor = reader.cursor(ScanHint::Compaction);
    cursor.seek_to_first()?;
    while cursor.valid() {
        let what = match cursor.kind() {
            Kind::Delete => {
                let ended = Content::open(Kind::Delete, cursor.value()).ended_us();
                let ended = ended.map_or(String::new(), |ended| format!(", expired at {ended} us"));
                format!("{} deleted{ended}", key(cursor.key()))
            }
            Kind::Merge => format!("{} merged: {}", key(cursor.key()), operand(cursor.value())),
            kind => format!("{} = {}", key(cursor.key()), held(Content::open(kind, cursor.value()))),
        };
        out(format!("  {} {what}", cursor.seq()))?;
        cursor.next()?;
    }
    Ok(())
}
