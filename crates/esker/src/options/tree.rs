//! Options of one tree.

use std::sync::{Arc, OnceLock};

use super::{Compression, FilterPrefix, setters};
use crate::codec::{Decoder, put_slice};
use crate::error::{Error, Result};

/// How a tree's tables are merged: it trades the cost of writing against the costs of reading and space.
/// `docs/tuning.md` has figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum CompactionStyle {
    /// Each level is one sorted run, [`TreeOptions::size_ratio`] times as large as the level above. Reads look into few
    /// tables, and old versions take a tenth of the space. Each entry is rewritten several times in each level. The
    /// default.
    #[default]
    Leveled = 0,
    /// Runs of about one size are merged into one when there are as many of them as the size ratio. Each such step
    /// writes an entry once: this writes the least. Reads look into all runs, and several runs may hold the same keys.
    /// Therefore the tree takes up to the size ratio times the space of its live data, and as much again while the
    /// largest runs are merged.
    Tiered = 1,
    /// Tiered, but with one sorted run at the bottom. The other runs are merged into it when they have grown to a part
    /// of it (1 in size ratio). It writes little more than tiered, and takes little more space than leveled (Dayan,
    /// Idreos: Dostoevsky, SIGMOD 2018, section 4).
    LazyLeveled = 2,
}

impl CompactionStyle {
    /// Every style.
    // In the order of their numbers in files.
    pub const ALL: &[CompactionStyle] =
        &[CompactionStyle::Leveled, CompactionStyle::Tiered, CompactionStyle::LazyLeveled];
}

/// The clock by which the values of a tree expire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum ExpiryClock {
    /// The store's clock: the machine's, which never goes back.
    #[default]
    Store = 0,
    /// The greatest time that the tree's writes have carried ([`Tree::at_us`](crate::Tree::at_us)). For replicas: all
    /// that have applied the same writes agree on which values have expired, and a fast clock of one machine cannot
    /// remove a value that a later command still finds. Reads and conditional writes should be given their time too. A
    /// call that writes nothing (a condition that does not hold, an empty transaction) carries no time:
    /// [`Batch::carry`](crate::Batch::carry) does. A snapshot does not hold this time still: its reads without a time
    /// are judged by the time of the read.
    Writes = 1,
}

/// Fails if `name`, the name of a `what`, is empty or too long.
pub(crate) fn check_name(what: &str, name: &str) -> Result<()> {
    if name.is_empty() || name.len() > NAME_MAX {
        let message = format!("a {what}'s name has 1 to {NAME_MAX} bytes; this one has {}", name.len());
        return Err(Error::invalid(message));
    }
    Ok(())
}

const SIZE_RATIOS: std::ops::RangeInclusive<u8> = 2..=32;

/// The longest name of a tree, a group or a compaction rule, in bytes.
pub(crate) const NAME_MAX: usize = 255;

/// Options that are set when a tree is created. All but [`TreeOptions::log`], [`TreeOptions::group`] and
/// [`TreeOptions::expiry_clock`] may change later ([`Tree::set_options`](crate::Tree::set_options)).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TreeOptions {
    /// How the tree's blocks are compressed.
    pub compression: Compression,
    /// Whether writes go to the log. Default: yes. [`TreeOptions::log`] describes trees without it.
    pub log: bool,
    /// How its tables are merged.
    pub compaction: CompactionStyle,
    /// How many times as large as the level above a level is, or how many runs of one size are merged into one: 2 to
    /// 32; `None`: 10 for leveled, 4 otherwise.
    pub size_ratio: Option<u8>,
    /// The group that the tree belongs to, by its name of at most 255 bytes. Default: none. [`TreeOptions::group`]
    /// describes groups.
    pub group: Option<String>,
    /// Which beginnings of keys the filters of new tables hold. Default: none. [`TreeOptions::filter_prefix`] describes
    /// it.
    pub filter_prefix: Option<FilterPrefix>,
    /// The clock by which values expire. Default: the store's.
    pub expiry_clock: ExpiryClock,
    /// The compaction rule that decides which entries of the tree are garbage, by its name of at most 255 bytes.
    /// Default: none.
    pub rule: Option<String>,
}

impl Default for TreeOptions {
    fn default() -> Self {
        let (compression, compaction) = (Compression::default(), CompactionStyle::default());
        TreeOptions {
            compression,
            log: true,
            compaction,
            size_ratio: None,
            group: None,
            rule: None,
            filter_prefix: None,
            expiry_clock: ExpiryClock::Store,
        }
    }
}

setters! {
    TreeOptions {
        /// Sets [`TreeOptions::log`]. Writes to a tree without the log become durable only by a flush. Each of these
        /// flushes the tree: [`Tree::flush`](crate::Tree::flush), [`Db::flush`](crate::Db::flush),
        /// [`Db::sync`](crate::Db::sync), closing the store, a need for memory elsewhere, and a write with
        /// [`Durability::Power`](crate::Durability::Power). After a crash the tree holds all its writes up to some
        /// flush, with batches whole, independently of other trees.
        ///
        /// Use it for data that can be made again, that comes in bulk, or whose log is kept elsewhere: it is written
        /// once instead of twice. A batch or transaction that writes to such a tree may write only to trees of its
        /// group ([`TreeOptions::group`]).
        ///
        /// # Example
        /// ```
        /// # fn main() -> esker::Result<()> {
        /// # let db = esker::Db::open_in_memory(esker::Options::default())?;
        /// let cache = db.create_tree("cache", esker::TreeOptions::default().log(false))?;
        /// cache.put("page/1", "<html>")?;
        /// cache.flush()?; // from here on it survives power loss
        /// # Ok(())
        /// # }
        /// ```
        log: bool,
        /// Sets [`TreeOptions::compression`].
        compression: Compression,
        /// Sets [`TreeOptions::compaction`].
        ///
        /// # Example
        /// ```
        /// # fn main() -> esker::Result<()> {
        /// use esker::{CompactionStyle, TreeOptions};
        /// # let db = esker::Db::open_in_memory(esker::Options::default())?;
        /// // Written much, read little.
        /// let events = db.create_tree("events", TreeOptions::default().compaction(CompactionStyle::Tiered))?;
        /// events.put("2026-11-22/1", "began")?;
        /// // It is read now.
        /// events.set_options(events.options().compaction(CompactionStyle::Leveled))?;
        /// # Ok(())
        /// # }
        /// ```
        compaction: CompactionStyle,
        /// Sets [`TreeOptions::size_ratio`].
        size_ratio: impl Into<Option<u8>>,
        /// Sets [`TreeOptions::filter_prefix`]. In addition to the keys, the filters of the tree's tables hold the
        /// prefixes of keys by this rule. A scan whose range lies within one prefix ([`ScanRange::prefix`] of it or of
        /// more, or any two bounds that share it) skips the tables whose filters do not have the prefix. The filters
        /// grow by [`Options::filter_bits`](crate::Options::filter_bits) for each prefix of a table.
        ///
        /// Use it for many short scans when the keys of one prefix are in few of the tables: for example, for versions
        /// of cells, where a get is a scan. Each table records the rule that it was written by. Therefore the rule may
        /// be changed; existing tables have prefixes by the new rule once they are merged. Tables that several small
        /// trees share have no prefixes.
        ///
        /// [`ScanRange::prefix`]: crate::ScanRange::prefix
        filter_prefix: impl Into<Option<FilterPrefix>>,
        /// Sets [`TreeOptions::expiry_clock`].
        ///
        /// # Example
        /// ```
        /// # fn main() -> esker::Result<()> {
        /// use esker::{ExpiryClock, TreeOptions};
        /// # let db = esker::Db::open_in_memory(esker::Options::default())?;
        /// let leases = db.create_tree("leases", TreeOptions::default().expiry_clock(ExpiryClock::Writes))?;
        /// // A command that every replica applies with the time 1,000 seconds:
        /// leases.at_us(1_000_000_000).put_for("desk", "Ann", std::time::Duration::from_secs(60))?;
        /// assert!(leases.at_us(1_059_000_000).contains("desk")?);
        /// assert!(!leases.at_us(1_060_000_000).contains("desk")?);
        /// # Ok(())
        /// # }
        /// ```
        expiry_clock: ExpiryClock,
    }
}

impl TreeOptions {
    /// Sets [`TreeOptions::group`]. The trees with the same group name are a group. A tree stays in its group until
    /// it is dropped. Either all trees of a group write to the log, or none does.
    ///
    /// - A batch may write to several trees of a group without the log, and stays whole: all of them are flushed
    ///   together, in one step.
    /// - The trees can be split, dropped, exported and imported together, in one step
    ///   ([`Db::split_group`](crate::Db::split_group), [`Db::export_group`](crate::Db::export_group)).
    /// - A huge value that was written for one of them can be given to keys of the others
    ///   ([`Batch::put_stored`](crate::Batch::put_stored)).
    /// - Huge values of a group have their own files.
    ///
    /// # Example
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Db::open_in_memory(esker::Options::default())?;
    /// let options = esker::TreeOptions::default().log(false).group("region 7");
    /// let rows = db.create_tree("region 7 rows", options.clone())?;
    /// let state = db.create_tree("region 7 state", options)?;
    /// let mut batch = esker::Batch::new();
    /// batch.put(&rows, "ada", "1")?;
    /// batch.put(&state, "applied", "17")?;
    /// db.write(&batch)?; // a crash leaves both or neither
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn group(mut self, name: impl Into<String>) -> Self {
        self.group = Some(name.into());
        self
    }

    /// Sets [`TreeOptions::rule`]. [`CompactionRule`](crate::CompactionRule) describes rules, with an example. Flushes
    /// and merges from now on apply the rule, if the opening has registered it
    /// ([`Options::compaction_rule`](crate::Options::compaction_rule)); without it they keep all entries. To apply it
    /// to all existing entries, call [`Db::compact`](crate::Db::compact).
    #[must_use]
    pub fn rule(mut self, name: impl Into<String>) -> Self {
        self.rule = Some(name.into());
        self
    }

    /// The size ratio; the style's default if it was not set.
    pub(crate) fn ratio(&self) -> usize {
        let own = if self.compaction == CompactionStyle::Leveled { 10 } else { 4 };
        usize::from(self.size_ratio.unwrap_or(own)).max(2)
    }

    /// The same, in one place for all trees with the default options: there may be many.
    pub(crate) fn shared(self) -> Arc<TreeOptions> {
        static DEFAULT: OnceLock<Arc<TreeOptions>> = OnceLock::new();
        let default = DEFAULT.get_or_init(Arc::default);
        if self == **default { Arc::clone(default) } else { Arc::new(self) }
    }

    pub(crate) fn check(&self) -> Result<()> {
        if let Some(ratio) = self.size_ratio.filter(|ratio| !SIZE_RATIOS.contains(ratio)) {
            return Err(Error::invalid(format!("the size ratio is {ratio}; it must be from 2 to 32")));
        }
        self.filter_prefix.map_or(Ok(()), FilterPrefix::check)?;
        self.group.as_deref().map_or(Ok(()), |name| check_name("group", name))?;
        self.rule.as_deref().map_or(Ok(()), |name| check_name("compaction rule", name))
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let ratio = self.size_ratio.unwrap_or(0);
        out.extend_from_slice(&[self.compression.to_u8(), u8::from(self.log), self.compaction as u8, ratio]);
        put_slice(out, self.group.as_deref().unwrap_or("").as_bytes());
        FilterPrefix::encode(self.filter_prefix, out);
        out.push(self.expiry_clock as u8);
        put_slice(out, self.rule.as_deref().unwrap_or("").as_bytes());
    }

    pub(crate) fn decode(from: &mut Decoder<'_>) -> Option<Self> {
        let compression = Compression::from_u8(from.u8()?)?;
        let log = from.u8().filter(|&flag| flag <= 1)? != 0;
        let compaction = *CompactionStyle::ALL.get(usize::from(from.u8()?))?;
        let size_ratio = Some(from.u8()?).filter(|&ratio| ratio != 0);
        let name = |from: &mut Decoder<'_>| {
            let name = std::str::from_utf8(from.slice()?).ok()?;
            Some(Some(name.to_owned()).filter(|name| !name.is_empty()))
        };
        let group = name(from)?;
        let filter_prefix = FilterPrefix::decode(from)?;
        let expiry_clock = match from.u8()? {
            0 => ExpiryClock::Store,
            1 => ExpiryClock::Writes,
            _ => return None,
        };
        let rule = name(from)?;
        let options = TreeOptions {
            compression,
            log,
            compaction,
            size_ratio,
            group,
            rule,
            filter_prefix,
            expiry_clock,
        };
        options.check().is_ok().then_some(options)
    }
}
