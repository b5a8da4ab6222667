//! What the manifest knows of a table.

use super::edit::{FileId, file_id, seq, within};
use crate::codec::{Decoder, put_slice, put_varint};
use crate::cursor::{MAX_SEQ, SeqNo};
use crate::error::{Error, Result};
use crate::table::{Expiring, TableReader};

/// The most bytes, or entries, that one table is believed to have.
pub(super) const AMOUNT_MAX: u64 = 1 << 48;

/// In what the manifest says of a table: its keys begin with the tree's number.
const SHARED: u8 = 1;
/// Its entries have the number that the manifest says.
const ONE_NUMBER: u8 = 2;

/// What the manifest knows of one table, or of one tree's part of a shared table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TableInfo {
    pub(crate) file: FileId,
    /// The file's own random number, which stands in its footer too: another file in its place is damage.
    pub(crate) salt: u64,
    /// Whether the file's keys begin with the tree's number, because several trees share it.
    pub(crate) shared: bool,
    /// Whether all entries have the number `min_seq`, which is `max_seq` too, whatever stands in the file: it was written
    /// before the number was known. Then each key is there once.
    pub(crate) one_number: bool,
    /// Bytes of the file, or of this tree's part of it.
    pub(crate) size: u64,
    pub(crate) entries: u64,
    pub(crate) tombstones: u64,
    /// Bytes of keys and values.
    pub(crate) raw_bytes: u64,
    pub(crate) expiring: Expiring,
    pub(crate) min_seq: SeqNo,
    pub(crate) max_seq: SeqNo,
    /// Range tombstones up to this number hide nothing in it.
    pub(crate) cleared: SeqNo,
    pub(crate) smallest: Vec<u8>,
    pub(crate) largest: Vec<u8>,
}

impl TableInfo {
    /// When it should be merged for what has expired in it, if ever.
    pub(crate) fn due_us(&self) -> Option<u64> {
        self.expiring.due_us(self.entries)
    }
}

/// Fails where a table is not the one that the manifest describes by `infos`, one for each tree that uses it. Of a shared
/// one these may be fewer than there were.
pub(crate) fn check_described(table: &TableReader, infos: &[TableInfo]) -> Result<()> {
    let properties = table.properties();
    let named: u64 = infos.iter().map(|info| info.entries).sum();
    let whole = infos.first().is_some_and(|info| !info.shared);
    let differs = whole
        && infos.iter().any(|info| {
            info.entries != properties.entries
                || info.smallest != properties.smallest
                || info.largest != properties.largest
                || (info.max_seq != properties.max_seq && !info.one_number)
        });
    let another = infos.iter().any(|info| info.salt != table.salt());
    if another || differs || (!infos.is_empty() && named > properties.entries) {
        let message = "the table is not the one that the manifest describes";
        return Err(Error::corruption(table.path(), 0, message));
    }
    Ok(())
}

pub(super) fn encode_table(table: &TableInfo, out: &mut Vec<u8>) {
    put_varint(out, table.file);
    out.extend_from_slice(&table.salt.to_le_bytes());
    let flags = [(table.shared, SHARED), (table.one_number, ONE_NUMBER)];
    out.push(flags.iter().filter(|(set, _)| *set).map(|(_, flag)| flag).sum());
    for number in [
        table.size,
        table.entries,
        table.tombstones,
        table.raw_bytes,
        table.min_seq,
        table.max_seq - table.min_seq,
        table.cleared,
    ] {
        put_varint(out, number);
    }
    table.expiring.encode(out);
    put_slice(out, &table.smallest);
    put_slice(out, &table.largest);
}

pub(super) fn decode_table(from: &mut Decoder<'_>) -> Option<TableInfo> {
    let file = file_id(from)?;
    let salt = from.u64()?;
    let flags = from.u8().filter(|flags| flags & !(SHARED | ONE_NUMBER) == 0)?;
    let (shared, one_number) = (flags & SHARED != 0, flags & ONE_NUMBER != 0);
    let mut amount = || within(from, AMOUNT_MAX);
    let (size, entries, tombstones, raw_bytes) = (amount()?, amount()?, amount()?, amount()?);
    let min_seq = from.varint()?;
    let max_seq = min_seq.checked_add(from.varint()?).filter(|&seq| seq <= MAX_SEQ)?;
    let cleared = seq(from)?;
    let expiring = Expiring::decode(from)?;
    let smallest = from.slice()?.to_vec();
    let largest = from.slice()?.to_vec();
    let is_numbered = !one_number || (min_seq == max_seq && !shared);
    let plausible = is_numbered && smallest <= largest && tombstones <= entries && expiring.count <= entries;
    plausible.then_some(TableInfo {
        file,
        salt,
        shared,
        one_number,
        size,
        entries,
        tombstones,
        raw_bytes,
        expiring,
        min_seq,
        max_seq,
        cleared,
        smallest,
        largest,
    })
}
