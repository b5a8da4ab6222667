//! The manifest's record of a table.

use std::borrow::Cow;

use super::edit::{CLOCK_MAX, FileId, TreeId, file_id, seq, tree_id, within};
use super::imported::Renumbered;
use super::levels::shared_key;
use crate::codec::{Decoder, put_slice, put_varint};
use crate::cursor::{Kind, MAX_SEQ, SeqNo};
use crate::error::{Error, Result};
use crate::table::{Expiring, Properties, TableReader};

/// The most bytes, or entries, that are accepted for one table.
pub(super) const AMOUNT_MAX: u64 = 1 << 48;

/// A flag in the manifest's record of a table: its keys begin with a tree's number.
const PREFIX: u8 = 1;
/// All its entries have the sequence number in the manifest.
const ONE_NUMBER: u8 = 2;
/// Some of its keys are not the tree's.
const CLIPPED: u8 = 4;
/// Its pointers to huge values hold file numbers of another store.
const RENUMBERED: u8 = 8;
/// The tree's compaction rule wants to see it again at some time.
const LOOK_AGAIN_AT: u8 = 16;
/// The rule wants to see it again when no snapshot pins its garbage.
const LOOK_AGAIN_UNPINNED: u8 = 32;

/// When a tree's compaction rule wants to see a table again. Boxed: few tables need it, and there may be many.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct LookAgain {
    when: Option<Box<When>>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct When {
    at_us: Option<u64>,
    unpinned: Option<Unpinned>,
}

/// A table is to be seen again when all snapshots are older than the number `from`, and not before a time by the store's
/// clock: other snapshots may come soon, which see the garbage too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unpinned {
    pub(crate) from: SeqNo,
    /// In microseconds since 1970.
    pub(crate) not_before_us: u64,
}

/// The state by which a store decides whether to look at tables of a tree now. Times are in microseconds since 1970.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LookNow {
    /// No later read of the tree is judged by an earlier time.
    pub(crate) tree_us: u64,
    /// The time by the store's clock.
    pub(crate) clock_us: u64,
    /// No newer snapshot is registered.
    pub(crate) newest_snapshot: Option<SeqNo>,
}

/// When tables may first have to be merged although nothing else requires it, in microseconds since 1970.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Due {
    /// By the time of their tree.
    pub(crate) tree_us: Option<u64>,
    /// By the store's clock.
    pub(crate) clock_us: Option<u64>,
}

impl Due {
    /// The first of all.
    pub(crate) fn first(all: impl Iterator<Item = Due>) -> Due {
        let earlier = |a: Option<u64>, b: Option<u64>| a.into_iter().chain(b).min();
        all.fold(Due::default(), |first, due| Due {
            tree_us: earlier(first.tree_us, due.tree_us),
            clock_us: earlier(first.clock_us, due.clock_us),
        })
    }
}

impl LookAgain {
    /// At the time `at_us` of the tree, in microseconds since 1970, and by `unpinned`.
    pub(crate) fn new(at_us: Option<u64>, unpinned: Option<Unpinned>) -> LookAgain {
        let within = |us: u64| us.min(CLOCK_MAX);
        let unpinned = unpinned.map(|Unpinned { from, not_before_us }| {
            let not_before_us = within(not_before_us);
            Unpinned { from, not_before_us }
        });
        let when = When { at_us: at_us.map(within), unpinned };
        LookAgain { when: (when != When::default()).then(|| Box::new(when)) }
    }

    fn when(&self) -> When {
        self.when.as_deref().copied().unwrap_or_default()
    }

    pub(crate) fn at_us(&self) -> Option<u64> {
        self.when().at_us
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.when.is_some()
    }

    /// Whether the table is to be seen at `now`.
    pub(crate) fn is_due(&self, now: LookNow) -> bool {
        let When { at_us, unpinned } = self.when();
        let is_unpinned = |Unpinned { from, not_before_us }| {
            not_before_us <= now.clock_us && now.newest_snapshot.is_none_or(|snapshot| snapshot < from)
        };
        at_us.is_some_and(|at| at <= now.tree_us) || unpinned.is_some_and(is_unpinned)
    }

    /// The same in another store, which has other sequence numbers and no snapshot of the table.
    pub(crate) fn elsewhere(&self) -> LookAgain {
        let When { at_us, unpinned } = self.when();
        LookAgain::new(at_us, unpinned.map(|unpinned| Unpinned { from: MAX_SEQ, ..unpinned }))
    }

    fn encode(&self, out: &mut Vec<u8>) {
        let When { at_us, unpinned } = self.when();
        at_us.iter().for_each(|at| put_varint(out, *at));
        if let Some(Unpinned { from, not_before_us }) = unpinned {
            put_varint(out, from);
            put_varint(out, not_before_us);
        }
    }

    fn decode(from: &mut Decoder<'_>, flags: u8) -> Option<LookAgain> {
        let at_us = if flags & LOOK_AGAIN_AT != 0 { Some(within(from, CLOCK_MAX)?) } else { None };
        let unpinned = if flags & LOOK_AGAIN_UNPINNED != 0 {
            Some(Unpinned { from: seq(from)?, not_before_us: within(from, CLOCK_MAX)? })
        } else {
            None
        };
        Some(LookAgain::new(at_us, unpinned))
    }
}

/// The manifest's record of one table, or of one tree's part of a shared table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TableInfo {
    pub(crate) file: FileId,
    /// The file's random number, which its footer holds too. If they differ, the file is a different table: that is
    /// damage.
    pub(crate) salt: u64,
    /// The prefix of the tree's keys in a file that several trees share: the tree's number, or that of the tree that it
    /// was split from since.
    pub(crate) prefix: Option<TreeId>,
    /// Whether the file has keys outside of `smallest..=largest` that are not the tree's, because the tree was split.
    /// Then sizes and counts here are estimates.
    pub(crate) clipped: bool,
    /// Whether all entries have the sequence number `min_seq`, which equals `max_seq`, regardless of the numbers in the
    /// file: the file was written before the number was known. Such a table holds each key once.
    pub(crate) one_number: bool,
    /// How to renumber its pointers to huge values, if another store wrote it.
    pub(crate) renumbered: Option<Box<Renumbered>>,
    /// The bytes of the file, or of this tree's part of it.
    pub(crate) size: u64,
    pub(crate) entries: u64,
    pub(crate) tombstones: u64,
    /// Bytes of keys and values.
    pub(crate) raw_bytes: u64,
    pub(crate) expiring: Expiring,
    pub(crate) look_again: LookAgain,
    pub(crate) min_seq: SeqNo,
    pub(crate) max_seq: SeqNo,
    /// Range tombstones up to this sequence number hide nothing in the table.
    pub(crate) cleared: SeqNo,
    pub(crate) smallest: Vec<u8>,
    pub(crate) largest: Vec<u8>,
}

impl TableInfo {
    /// A table of one tree, as it was written.
    pub(crate) fn new(file: FileId, salt: u64, size: u64, properties: Properties) -> Self {
        let Properties { entries, tombstones, raw_bytes, expiring, min_seq, max_seq, .. } = properties;
        TableInfo {
            file,
            salt,
            prefix: None,
            clipped: false,
            one_number: false,
            renumbered: None,
            size,
            entries,
            tombstones,
            raw_bytes,
            expiring,
            look_again: LookAgain::default(),
            min_seq,
            max_seq,
            cleared: properties.owner.cleared,
            smallest: properties.smallest,
            largest: properties.largest,
        }
    }

    /// A key of the tree in the form that the file has.
    pub(crate) fn in_file(&self, key: &[u8]) -> Vec<u8> {
        self.prefix.map_or_else(|| key.to_vec(), |tree| shared_key(tree, key))
    }

    /// A key of the file without the tree's prefix; `None` if it does not have the prefix.
    pub(crate) fn strip<'a>(&self, key: &'a [u8]) -> Option<&'a [u8]> {
        self.prefix.map_or(Some(key), |tree| key.strip_prefix(&tree.to_be_bytes()))
    }

    /// The sequence number of all entries, if the file does not have it.
    pub(crate) fn number(&self) -> Option<SeqNo> {
        self.one_number.then_some(self.max_seq)
    }

    /// The content here of an entry of `kind` that holds `stored` in the file.
    pub(crate) fn reread<'a>(&self, kind: Kind, stored: &'a [u8]) -> Cow<'a, [u8]> {
        let renumbered = self.renumbered.as_ref().and_then(|by| by.apply(kind, stored));
        renumbered.map_or(Cow::Borrowed(stored), Cow::Owned)
    }

    /// Whether the manifest overrides sequence numbers or pointers in the file.
    #[inline]
    pub(crate) fn is_reread(&self) -> bool {
        self.one_number | self.renumbered.is_some()
    }

    /// When the table may have to be merged because of expired entries or, if the tree's compaction rule is registered,
    /// because the rule wants to see it.
    pub(crate) fn due(&self, has_rule: bool) -> Due {
        let When { at_us, unpinned } = if has_rule { self.look_again.when() } else { When::default() };
        Due {
            tree_us: self.expiring.due_us(self.entries).into_iter().chain(at_us).min(),
            clock_us: unpinned.map(|unpinned| unpinned.not_before_us),
        }
    }
}

/// Fails if a table is not the one that the manifest describes by `infos`, one for each tree that uses it. For a shared
/// table these may be fewer than when it was written.
pub(crate) fn check_described(table: &TableReader, infos: &[TableInfo]) -> Result<()> {
    let properties = table.properties();
    let named: u64 = infos.iter().map(|info| info.entries).sum();
    let is_part = |info: &TableInfo| info.prefix.is_some() || info.clipped;
    let whole = infos.first().is_some_and(|info| !is_part(info));
    let clipped = infos.iter().any(|info| info.clipped);
    let differs = whole
        && infos.iter().any(|info| {
            info.entries != properties.entries
                || info.smallest != properties.smallest
                || info.largest != properties.largest
                || (info.max_seq != properties.max_seq && !info.one_number)
        });
    let another = infos.iter().any(|info| info.salt != table.salt());
    if another || differs || (!infos.is_empty() && named > properties.entries && !clipped) {
        let message = "the table is not the one that the manifest describes";
        return Err(Error::corruption(table.path(), 0, message));
    }
    Ok(())
}

pub(super) fn encode_table(table: &TableInfo, out: &mut Vec<u8>) {
    put_varint(out, table.file);
    out.extend_from_slice(&table.salt.to_le_bytes());
    let flags = [
        (table.prefix.is_some(), PREFIX),
        (table.one_number, ONE_NUMBER),
        (table.clipped, CLIPPED),
        (table.renumbered.is_some(), RENUMBERED),
        (table.look_again.when().at_us.is_some(), LOOK_AGAIN_AT),
        (table.look_again.when().unpinned.is_some(), LOOK_AGAIN_UNPINNED),
    ];
    out.push(flags.iter().filter(|(set, _)| *set).map(|(_, flag)| flag).sum());
    table.prefix.iter().for_each(|tree| put_varint(out, u64::from(*tree)));
    table.renumbered.iter().for_each(|renumbered| renumbered.encode(out));
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
    table.look_again.encode(out);
    put_slice(out, &table.smallest);
    put_slice(out, &table.largest);
}

pub(super) fn decode_table(from: &mut Decoder<'_>) -> Option<TableInfo> {
    let file = file_id(from)?;
    let salt = from.u64()?;
    let known = PREFIX | ONE_NUMBER | CLIPPED | RENUMBERED | LOOK_AGAIN_AT | LOOK_AGAIN_UNPINNED;
    let flags = from.u8().filter(|flags| flags & !known == 0)?;
    let (one_number, clipped) = (flags & ONE_NUMBER != 0, flags & CLIPPED != 0);
    let prefix = if flags & PREFIX != 0 { Some(tree_id(from)?) } else { None };
    let renumbered = if flags & RENUMBERED != 0 { Some(Box::new(Renumbered::decode(from)?)) } else { None };
    let mut amount = || within(from, AMOUNT_MAX);
    let (size, entries, tombstones, raw_bytes) = (amount()?, amount()?, amount()?, amount()?);
    let min_seq = from.varint()?;
    let max_seq = min_seq.checked_add(from.varint()?).filter(|&seq| seq <= MAX_SEQ)?;
    let cleared = seq(from)?;
    let expiring = Expiring::decode(from)?;
    let look_again = LookAgain::decode(from, flags)?;
    let smallest = from.slice()?.to_vec();
    let largest = from.slice()?.to_vec();
    let is_numbered = !one_number || (min_seq == max_seq && prefix.is_none());
    let plausible = is_numbered && smallest <= largest && tombstones <= entries && expiring.count <= entries;
    plausible.then_some(TableInfo {
        file,
        salt,
        prefix,
        clipped,
        one_number,
        renumbered,
        size,
        entries,
        tombstones,
        raw_bytes,
        expiring,
        look_again,
        min_seq,
        max_seq,
        cleared,
        smallest,
        largest,
    })
}
