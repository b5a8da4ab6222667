//! How cells and delete markers lie in the tree of an access group.
//!
//! ```text
//! marker of a row or family   row 00 00 | 00 00  | family   | ~timestamp | ~sequence
//! marker of a column          row 00 00 | family | qualifier 00 00 | 0 | ~timestamp | ~sequence
//! marker of a version         row 00 00 | family | qualifier 00 00 | 1 | ~timestamp | ~sequence
//! cell                        row 00 00 | family | qualifier 00 00 | 2 | ~timestamp | ~sequence
//! ```
//! Rows and qualifiers are escaped ([`push_escaped`]), so that their ends sort before all that goes on. A family is its
//! number, 2 bytes, big-endian; 0 is none, so the markers of a row and of its families are at the row's head, and the
//! marker of a row names family 0. `~` is the complement: what is newest comes first. Timestamps are milliseconds since 1970,
//! from 0 to [`TIMESTAMP_MAX`].
//!
//! So whatever hides a cell comes before it: one seek to the head of a row finds what hides rows and families, one seek to a
//! column finds its markers and then its newest cell. A key is never written twice: two writes differ in their sequence
//! number.

use esker::KEY_LEN_MAX;
use esker::keys::escaped_len;
pub(crate) use esker::keys::{push_escaped, unescape};

use crate::error::{Error, Result};

/// What the key of a cell has beside its row and its qualifier: their two ends, the family, the kind and the version.
const PUT_LEN: usize = 2 + 2 + 2 + 1 + 16;

/// The longest row, in bytes, as in HBase.
pub const ROW_LEN_MAX: usize = 32_767;

/// The latest timestamp that a cell can have, in milliseconds since 1970. HBase means "now" by the one behind it.
pub const TIMESTAMP_MAX: i64 = i64::MAX - 1;

/// The number of a column family in its table; no two families ever have the same, not even one after the other.
pub(crate) type FamilyId = u16;

/// No family: in the head of a row.
pub(crate) const NO_FAMILY: FamilyId = 0;

/// What an entry of a column is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Hides the cells of the column up to a timestamp.
    DeleteColumn = 0,
    /// Hides the cells of the column with a timestamp.
    DeleteVersion = 1,
    Put = 2,
}

/// When a cell or marker was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Version {
    /// In milliseconds since 1970; not negative.
    pub(crate) timestamp: i64,
    /// Orders all writes to a row.
    pub(crate) sequence: u64,
}

impl Version {
    fn push_to(self, key: &mut Vec<u8>) {
        key.extend_from_slice(&(!(self.timestamp as u64)).to_be_bytes());
        key.extend_from_slice(&(!self.sequence).to_be_bytes());
    }

    /// `None`: there is no such timestamp.
    fn read(bytes: &[u8]) -> Option<Version> {
        let (timestamp, sequence) = bytes.split_first_chunk::<8>()?;
        let timestamp = !u64::from_be_bytes(*timestamp);
        let sequence = !u64::from_be_bytes(sequence.try_into().ok()?);
        (timestamp <= TIMESTAMP_MAX as u64).then_some(Version { timestamp: timestamp as i64, sequence })
    }
}

/// What an entry is, apart from its row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entry<'a> {
    /// In the head of the row: hides the family's cells up to the version's timestamp; [`NO_FAMILY`]: the row's.
    Head { family: FamilyId, version: Version },
    /// Of a column, whose key begins with the `column` bytes of this one: row, family, qualifier.
    Column { family: FamilyId, qualifier: &'a [u8], column_len: usize, kind: Kind, version: Version },
}

/// Whether `key` begins with `prefix`. The last bytes of keys in a scan differ more often than the first ones, so they are
/// compared first.
pub(crate) fn begins_with(key: &[u8], prefix: &[u8]) -> bool {
    let Some(key) = key.get(..prefix.len()) else { return false };
    match (key.split_last_chunk::<8>(), prefix.split_last_chunk::<8>()) {
        (Some((key, key_end)), Some((prefix, prefix_end))) => key_end == prefix_end && key == prefix,
        _ => key == prefix,
    }
}

/// Whether the entry with this key, of which `row_len` bytes are its row's, is in the head of the row.
pub(crate) fn is_head(key: &[u8], row_len: usize) -> bool {
    is_of_family(key, row_len, NO_FAMILY)
}

/// Where the end of the escaped text ends that begins at `from` in `key`, and whether its bytes are the text that they stand
/// for.
#[inline]
pub(crate) fn text_end(key: &[u8], from: usize) -> Result<(usize, bool)> {
    let text = key.get(from..).and_then(escaped_len);
    text.map(|(len, is_plain)| (from + len, is_plain)).ok_or_else(|| damaged(key))
}

/// How many bytes at their beginnings are the same.
pub(crate) fn common_len(a: &[u8], b: &[u8]) -> usize {
    let len = a.len().min(b.len());
    let (a, b) = (&a[..len], &b[..len]);
    let words = a.as_chunks::<8>().0.iter().zip(b.as_chunks::<8>().0);
    for (place, (one, other)) in words.enumerate() {
        let differ = u64::from_le_bytes(*one) ^ u64::from_le_bytes(*other);
        if differ != 0 {
            return place * 8 + differ.trailing_zeros() as usize / 8;
        }
    }
    let at = len - len % 8;
    at + a[at..].iter().zip(&b[at..]).take_while(|(one, other)| one == other).count()
}

/// Whether the entry with this key, of which `row_len` bytes are its row's, is of this family.
pub(crate) fn is_of_family(key: &[u8], row_len: usize, family: FamilyId) -> bool {
    key.get(row_len..).is_some_and(|rest| rest.starts_with(&family.to_be_bytes()))
}

/// Fails if `row` is no row: empty or too long.
pub(crate) fn check_row(row: &[u8]) -> Result<()> {
    if row.is_empty() || row.len() > ROW_LEN_MAX {
        let len = row.len();
        return Err(Error::invalid(format!("a row has 1 to {ROW_LEN_MAX} bytes; this one has {len}")));
    }
    Ok(())
}

/// Fails if the key of a cell is too long for the store.
pub(crate) fn check_key(row: &[u8], qualifier: &[u8]) -> Result<()> {
    // Escaping doubles a text at most; it and what else is in a key are counted only where that matters.
    if 2 * (row.len() + qualifier.len()) + PUT_LEN <= KEY_LEN_MAX {
        return Ok(());
    }
    let escaped = |text: &[u8]| text.len() + text.iter().filter(|byte| **byte == 0).count();
    let len = escaped(row) + escaped(qualifier) + PUT_LEN;
    if len > KEY_LEN_MAX {
        return Err(Error::invalid(format!(
            "the row and the qualifier are too long: the key of the cell has {len} bytes, and {KEY_LEN_MAX} at most"
        )));
    }
    Ok(())
}

/// The beginning of all keys of `row`.
pub(crate) fn row_prefix(row: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(row.len() + 32);
    push_escaped(&mut key, row);
    key
}

/// The least key behind those that begin with `prefix`, which ends with the end of an escaped text.
pub(crate) fn behind(prefix: &[u8]) -> Vec<u8> {
    let mut key = Vec::new();
    write_behind(prefix, &mut key);
    key
}

/// Writes what [`behind`] returns in place of what `key` has.
pub(crate) fn write_behind(prefix: &[u8], key: &mut Vec<u8>) {
    key.clear();
    key.extend_from_slice(prefix);
    if let Some(last) = key.last_mut() {
        *last = 1;
    }
}

/// The beginning of the keys of a family in the row whose keys begin with `row`.
pub(crate) fn family_prefix(row: &[u8], family: FamilyId) -> Vec<u8> {
    let mut key = Vec::with_capacity(row.len() + 32);
    key.extend_from_slice(row);
    key.extend_from_slice(&family.to_be_bytes());
    key
}

/// The least key behind those of a family in the row whose keys begin with `row`.
pub(crate) fn behind_family(row: &[u8], family: FamilyId) -> Vec<u8> {
    family.checked_add(1).map_or_else(|| behind(row), |next| family_prefix(row, next))
}

/// The beginning of the keys of a column in the row whose keys begin with `row`.
pub(crate) fn column_prefix(row: &[u8], family: FamilyId, qualifier: &[u8]) -> Vec<u8> {
    let mut key = family_prefix(row, family);
    push_escaped(&mut key, qualifier);
    key
}

/// The key of a marker in the head of the row whose keys begin with `row`.
pub(crate) fn head_key(row: &[u8], family: FamilyId, version: Version) -> Vec<u8> {
    let mut key = family_prefix(row, NO_FAMILY);
    key.extend_from_slice(&family.to_be_bytes());
    version.push_to(&mut key);
    key
}

/// The key of an entry of the column whose keys begin with `column`.
pub(crate) fn entry_key(mut column: Vec<u8>, kind: Kind, version: Version) -> Vec<u8> {
    column.push(kind as u8);
    version.push_to(&mut column);
    column
}

/// Appends to `key`, which is the beginning of the keys of a row, what makes it that of a cell.
pub(crate) fn push_put(key: &mut Vec<u8>, family: FamilyId, qualifier: &[u8], version: Version) {
    key.extend_from_slice(&family.to_be_bytes());
    push_escaped(key, qualifier);
    key.push(Kind::Put as u8);
    version.push_to(key);
}

/// The beginning of the keys of one kind of the column whose keys begin with `column`.
pub(crate) fn entry_prefix(column: &[u8], kind: Kind) -> Vec<u8> {
    [column, &[kind as u8]].concat()
}

/// The length of the row's part of a key.
pub(crate) fn row_len(key: &[u8]) -> Result<usize> {
    Ok(text_end(key, 0)?.0)
}

/// What the entry with this key is; `row_len` bytes of the key are its row's.
pub(crate) fn entry(key: &[u8], row_len: usize) -> Result<Entry<'_>> {
    read_entry(key, row_len).ok_or_else(|| damaged(key))
}

fn read_entry(key: &[u8], row_len: usize) -> Option<Entry<'_>> {
    let (family, rest) = key.get(row_len..)?.split_first_chunk::<2>()?;
    let family = FamilyId::from_be_bytes(*family);
    if family == NO_FAMILY {
        let (of, version) = rest.split_first_chunk::<2>()?;
        let version = Version::read(version)?;
        return Some(Entry::Head { family: FamilyId::from_be_bytes(*of), version });
    }
    let (qualifier, rest) = rest.split_at_checked(escaped_len(rest)?.0)?;
    let (kind, version) = read_kind(rest)?;
    let column_len = row_len + 2 + qualifier.len();
    Some(Entry::Column { family, qualifier, column_len, kind, version })
}

/// The family and version of the marker with this key, which is in the head of its row.
pub(crate) fn head(key: &[u8], row_len: usize) -> Result<(FamilyId, Version)> {
    match entry(key, row_len)? {
        Entry::Head { family, version } => Ok((family, version)),
        Entry::Column { .. } => Err(damaged(key)),
    }
}

/// What the entry with this key is, of the column whose keys begin with `column_len` bytes of this one.
pub(crate) fn entry_of_column(key: &[u8], column_len: usize) -> Result<(Kind, Version)> {
    key.get(column_len..).and_then(read_kind).ok_or_else(|| damaged(key))
}

fn read_kind(rest: &[u8]) -> Option<(Kind, Version)> {
    let (kind, version) = rest.split_first()?;
    let kind = match kind {
        0 => Kind::DeleteColumn,
        1 => Kind::DeleteVersion,
        2 => Kind::Put,
        _ => return None,
    };
    Some((kind, Version::read(version)?))
}

/// The error of a key that is no cell's.
pub(crate) fn damaged(key: &[u8]) -> Error {
    Error::Damaged(format!(
        "a table has an entry whose key is no cell's: {:?}",
        key.escape_ascii().to_string()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows and qualifiers in the order of their bytes, with those among them that escaping could confuse.
    const TEXTS: &[&[u8]] = &[
        b"",
        b"\0",
        b"\0\0",
        b"\0\x01",
        b"\0\xff",
        b"\x01",
        b"a",
        b"a\0",
        b"a\0\0b",
        b"a\0\xff",
        b"a\x01",
        b"ab",
        b"\xff",
        b"\xff\xff",
    ];

    #[test]
    fn keys_sort_as_rows_families_qualifiers_and_newest_first() {
        let versions = [(TIMESTAMP_MAX, 7), (5, u64::MAX), (5, 2), (5, 1), (0, 9), (0, 0)]
            .map(|(timestamp, sequence)| Version { timestamp, sequence });
        let mut keys = Vec::new();
        for row in &TEXTS[1..] {
            let row = row_prefix(row);
            for family in [NO_FAMILY, 1, 255, 256] {
                keys.extend(versions.map(|version| head_key(&row, family, version)));
            }
            for family in [1, 255, 256, FamilyId::MAX] {
                for qualifier in TEXTS {
                    for kind in [Kind::DeleteColumn, Kind::DeleteVersion, Kind::Put] {
                        let column = || column_prefix(&row, family, qualifier);
                        keys.extend(versions.map(|version| entry_key(column(), kind, version)));
                    }
                }
            }
            assert!(keys.last().is_some_and(|key| *key < behind(&row)));
        }
        assert!(keys.is_sorted_by(|a, b| a < b));
    }

    #[test]
    fn keys_are_read_as_they_were_written() {
        let version = Version { timestamp: 12, sequence: 34 };
        let mut text = Vec::new();
        for row in &TEXTS[1..] {
            let prefix = row_prefix(row);
            let head = head_key(&prefix, 3, version);
            assert_eq!(row_len(&head).unwrap(), prefix.len());
            unescape(&head[..prefix.len()], &mut text);
            assert_eq!(text, *row);
            assert_eq!(entry(&head, prefix.len()).unwrap(), Entry::Head { family: 3, version });
            for qualifier in TEXTS {
                let column = column_prefix(&prefix, 7, qualifier);
                let key = entry_key(column.clone(), Kind::Put, version);
                let Entry::Column {
                    family: 7,
                    qualifier: escaped,
                    column_len,
                    kind: Kind::Put,
                    version: read,
                } = entry(&key, row_len(&key).unwrap()).unwrap()
                else {
                    panic!("{key:?}");
                };
                unescape(escaped, &mut text);
                assert_eq!((&text[..], column_len, read), (*qualifier, column.len(), version));
            }
        }
    }

    #[test]
    fn prefixes_are_compared() {
        for len in 0..40 {
            for zero in 0..=len {
                for fill in [1_u8, 0x80, 0xff] {
                    let mut bytes = vec![fill; len];
                    bytes[zero..].fill(0);
                    assert!(begins_with(&bytes, &bytes[..zero]) && begins_with(&bytes, &bytes));
                    for other in 0..zero {
                        let mut prefix = bytes[..zero].to_vec();
                        prefix[other] ^= 2;
                        assert!(!begins_with(&bytes, &prefix), "{bytes:?} {prefix:?}");
                    }
                    assert!(!begins_with(&bytes[..zero], &[&bytes[..zero], b"x"].concat()));
                }
            }
        }
    }

    #[test]
    fn the_common_beginning_ends_at_the_first_byte_that_differs() {
        for len in 0..40 {
            let bytes = vec![7_u8; len];
            for other in 0..len {
                for bit in [1, 0x80] {
                    let mut changed = bytes.clone();
                    changed[other] ^= bit;
                    // What follows must not matter.
                    changed[other + 1..].fill(9);
                    assert_eq!(common_len(&bytes, &changed), other);
                    assert_eq!(common_len(&changed, &bytes), other);
                }
                assert_eq!(common_len(&bytes, &bytes[..other]), other);
            }
            assert_eq!(common_len(&bytes, &bytes), len);
        }
    }

    #[test]
    fn bytes_that_are_no_key_are_refused() {
        let key = entry_key(
            column_prefix(&row_prefix(b"r\0"), 1, b"q\0"),
            Kind::Put,
            Version { timestamp: 1, sequence: 1 },
        );
        let reads = |key: &[u8]| row_len(key).and_then(|len| entry(key, len).map(|_| ())).is_ok();
        assert!(reads(&key));
        for cut in 0..key.len() {
            assert!(!reads(&key[..cut]), "{cut}");
        }
        assert!(!reads(&[key.as_slice(), b"x"].concat()));
        for timestamp in [-1, i64::MAX] {
            let version = Version { timestamp, sequence: 1 };
            assert!(!reads(&entry_key(column_prefix(&row_prefix(b"r"), 1, b"q"), Kind::Put, version)));
            assert!(!reads(&head_key(&row_prefix(b"r"), 1, version)));
        }
    }
}
