//! Estimates without reading data, from the tables' indexes and filters.

use super::Tree;
use crate::checksum::hash_key;
use crate::error::Result;
use crate::ranges::KeyRange;
use crate::read::range::ScanRange;
use crate::version::levels::Table;

impl Tree {
    /// About how many keys in `range` have a value: from the indexes of tables, and half or all of the entries that are
    /// still in memory. This is fast, but overwritten and deleted keys count until they are merged away.
    ///
    /// # Errors
    /// As [`Tree::get`].
    pub fn approximate_count(&self, range: impl Into<ScanRange>) -> Result<u64> {
        let range = range.into();
        let (state, _) = self.consistent_state()?;
        let mut total = 0;
        for mem in std::iter::once(&state.mem).chain(&state.immutable) {
            // A memtable has no index for counting: count all of it for the whole range, half for a part.
            let len = mem.table.len() as u64;
            total += if range.keys == KeyRange::default() { len } else { len / 2 };
        }
        for (_, table) in state.levels.tables() {
            if range.keys.overlaps(&table.info.smallest, &table.info.largest) {
                total += count_in(table, &range.keys)?;
            }
        }
        Ok(total)
    }

    /// How many tables whose key range covers `key` have a filter, and how many of these filters pass it. For absent
    /// keys, the second number divided by the first is the rate of false positives. Tables that small trees share do
    /// not count.
    ///
    /// # Errors
    /// As [`Tree::get`].
    pub fn filter_probe(&self, key: impl AsRef<[u8]>) -> Result<(u64, u64)> {
        let (key, state) = (key.as_ref(), self.readable_state()?);
        let hash = hash_key(key);
        let (mut asked, mut passed) = (0, 0);
        for (_, table) in
            state.levels.tables().filter(|(_, table)| table.covers(key) && table.info.prefix.is_none())
        {
            table.file.with_reader(|reader| {
                asked += u64::from(reader.has_filter());
                passed += u64::from(reader.has_filter() && reader.may_contain(hash));
                Ok(())
            })?;
        }
        Ok((asked, passed))
    }
}

/// About how many entries of `table` lie in `range`, estimated from the share of its bytes.
fn count_in(table: &Table, range: &KeyRange) -> Result<u64> {
    let lower = range.lower.as_slice().max(&table.info.smallest);
    let upper = range.upper.as_deref().filter(|key| *key < table.info.largest.as_slice());
    if lower == table.info.smallest && upper.is_none() {
        return Ok(table.info.entries);
    }
    let begin = table.offset_of(lower)?;
    let end = match upper {
        Some(upper) => table.offset_of(upper)?,
        None => table.offset_of(&table.info.largest)?.max(table.info.size),
    };
    let share = end.saturating_sub(begin).min(table.info.size);
    Ok((u128::from(table.info.entries) * u128::from(share) / u128::from(table.info.size.max(1))) as u64)
}
