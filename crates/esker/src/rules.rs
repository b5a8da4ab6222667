//! Compaction rules: they say which entries of a tree are garbage, and flushes and merges of tables drop these.
//!
//! ```text
//! tree         TreeOptions::rule names a rule; the manifest keeps the name
//! opening      Options::compaction_rule registers rules by their names
//! flush/merge  begin -> a run; entry, key ascending -> keep or drop; look_again_us, at the end of each table
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// A program's own rule that says which entries of a tree are garbage. Flushes and merges of tables ask it, and drop
/// these entries.
///
/// A tree names its rule ([`TreeOptions::rule`](crate::TreeOptions::rule)); each opening registers rules
/// ([`Options::compaction_rule`](crate::Options::compaction_rule)). A tree whose rule is not registered keeps all
/// entries.
///
/// # What a program may rely on
/// - **Filter on reading.** Nobody knows when an entry is dropped. A program that reads has to leave out what the rule
///   would drop. What such a *filtered read* gives is the same before and after any flush or merge, if the rule keeps to
///   the conditions below. A read that does not filter may see an entry, and not see it later, also in a snapshot that
///   was taken while a merge ran.
/// - **A drop is a deletion in the entry's own place.** Older versions of the key stay hidden, newer ones stay visible,
///   and transactions see the same conflicts as without the drop.
/// - **Snapshots.** What an open snapshot or transaction saw when the flush or merge began is kept. The rule is shown
///   such an entry as [pinned](RuleEntry::pinned).
/// - **Huge values** that are dropped are given back when nobody reads them any more.
///
/// # What a rule may conclude
/// A run is shown keys in ascending order, each at most once, with the newest version that the flush or merge has. It is
/// not shown all of the tree:
///
/// - Other tables and memtables may hold other keys, and newer or older versions of the same keys. An entry that is
///   shown may be hidden by a newer version or deletion elsewhere. A key that is not shown may exist.
/// - Keys whose newest version here is a deletion, or has expired, are not shown. Nor are keys with operands of a merge
///   operator that did not become a value, and entries newer than the time of [`RuleContext::now_us`].
///
/// A rule that looks at one entry alone, and maybe at facts that only ever make more entries garbage, is always right:
/// a time to live, or the generation that a key carries. A rule that compares keys is right where what it compares with
/// cannot be taken away again. To keep the three newest versions of a cell (keys of row, column and descending time), it
/// may count three and drop the next, if cells are never deleted or expire one by one. Otherwise a deletion elsewhere
/// may hide one of those that it has counted. An entry that masks *other* keys must stay as long as one of them exists:
/// see [`RuleContext::alone`].
///
/// The answer must not depend on anything that can change back. The meaning of a rule in use may change only to make
/// more entries garbage.
///
/// # Example
/// ```
/// use esker::{CompactionRule, Options, TreeOptions};
/// use esker::rules::{RuleContext, RuleDecision, RuleEntry, RuleRun, RuleValue};
///
/// /// Values begin with the time in microseconds since 1970, 8 bytes, from which on they are garbage.
/// struct Until;
///
/// #[derive(Default)]
/// struct UntilRun {
///     next_us: Option<u64>,
/// }
///
/// fn until(value: &[u8]) -> Option<u64> {
///     value.first_chunk().map(|bytes| u64::from_be_bytes(*bytes))
/// }
///
/// impl CompactionRule for Until {
///     fn name(&self) -> &str {
///         "until"
///     }
///
///     fn begin(&self, _: &RuleContext<'_>) -> Box<dyn RuleRun + '_> {
///         Box::<UntilRun>::default()
///     }
/// }
///
/// impl RuleRun for UntilRun {
///     fn entry(&mut self, context: &RuleContext<'_>, entry: &RuleEntry<'_>) -> RuleDecision {
///         let RuleValue::Inline(value) = entry.value else { return RuleDecision::Keep };
///         match until(value) {
///             Some(until) if until <= context.now_us() => RuleDecision::Drop,
///             Some(until) => {
///                 // The latest: by then all of the table is garbage.
///                 self.next_us = self.next_us.max(Some(until));
///                 RuleDecision::Keep
///             }
///             None => RuleDecision::Keep,
///         }
///     }
///
///     fn look_again_us(&mut self) -> Option<u64> {
///         self.next_us.take()
///     }
/// }
///
/// # fn main() -> esker::Result<()> {
/// let db = esker::Db::open_in_memory(Options::default().compaction_rule(Until))?;
/// let sessions = db.create_tree("sessions", TreeOptions::default().rule("until"))?;
/// sessions.put("ada", 1_u64.to_be_bytes())?; // long ago
/// sessions.put("bob", u64::MAX.to_be_bytes())?;
/// db.compact()?;
/// assert!(!sessions.contains("ada")? && sessions.contains("bob")?);
/// # Ok(())
/// # }
/// ```
pub trait CompactionRule: Send + Sync + 'static {
    /// Its name: 1 to 255 bytes, which trees store.
    fn name(&self) -> &str;

    /// Begins a run: a flush of a tree, or a merge of some of its tables. Called on threads of the store, by several at
    /// once, also for one tree. It and the run must not call the store. If one of them panics, the run keeps all
    /// further entries, and [`Stats::rule_panics`](crate::Stats::rule_panics) counts it.
    fn begin(&self, context: &RuleContext<'_>) -> Box<dyn RuleRun + '_>;
}

/// One flush or merge, as a [`CompactionRule`] sees it. It may keep state from one entry to the next.
pub trait RuleRun {
    /// What becomes of the next entry. Keys ascend.
    fn entry(&mut self, context: &RuleContext<'_>, entry: &RuleEntry<'_>) -> RuleDecision;

    /// When the entries that were shown since the last call should be looked at again, in microseconds since 1970:
    /// called when the table that they are in is complete. From that time on, and when no snapshot is older, the
    /// background merges or rewrites the table though nothing else requires it. `None`, the default: only when it is
    /// merged anyway.
    ///
    /// Each such merge rewrites a table. Half of the time between the first and the last entry that becomes garbage
    /// makes that cost at most as much again as the table was written with. A time that has passed already counts as in
    /// a minute.
    fn look_again_us(&mut self) -> Option<u64> {
        None
    }
}

/// What becomes of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RuleDecision {
    /// It stays.
    Keep,
    /// It is garbage, and goes. If it is [pinned](RuleEntry::pinned), it stays for now.
    Drop,
}

/// An entry that a [`CompactionRule`] judges.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct RuleEntry<'a> {
    /// Its key.
    pub key: &'a [u8],
    /// Its value.
    pub value: RuleValue<'a>,
    /// When the value expires, in microseconds since 1970; `None` if it does not.
    pub expires_us: Option<u64>,
    /// The attributes beside the value ([`PutOptions`](crate::PutOptions)); empty: none.
    pub attributes: &'a [u8],
    /// Whether an open snapshot or transaction sees it, so that it is kept whatever the rule says. If an eighth of a
    /// table's entries are garbage and pinned, or a huge value is, the store looks at the table again after a minute.
    pub pinned: bool,
}

/// The value of a [`RuleEntry`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RuleValue<'a> {
    /// Its bytes.
    Inline(&'a [u8]),
    /// A huge value ([`Options::separate_at`](crate::Options::separate_at)), whose bytes are not read.
    #[non_exhaustive]
    Huge {
        /// Its length in bytes.
        len: u64,
        /// When it was stored, in microseconds since 1970.
        stored_us: u64,
    },
}

/// Whether keys from the first one on, and below the second one if there is one, lie outside a run.
type Alone<'a> = dyn Fn(&[u8], Option<&[u8]>) -> bool + 'a;

/// What a [`CompactionRule`] can ask during a run.
pub struct RuleContext<'a> {
    tree: &'a str,
    now_us: u64,
    is_flush: bool,
    alone: &'a Alone<'a>,
}

impl<'a> RuleContext<'a> {
    pub(crate) fn new(tree: &'a str, now_us: u64, is_flush: bool, alone: &'a Alone<'a>) -> Self {
        RuleContext { tree, now_us, is_flush, alone }
    }

    /// The name of the tree.
    pub fn tree(&self) -> &str {
        self.tree
    }

    /// The time of the oldest open snapshot or transaction, or of the beginning of the run if there is none, in
    /// microseconds since 1970. No reader asks for an earlier one. It is by the store's clock, which never goes back.
    pub fn now_us(&self) -> u64 {
        self.now_us
    }

    /// Whether memtables are flushed; otherwise tables are merged.
    pub fn is_flush(&self) -> bool {
        self.is_flush
    }

    /// Whether this run has everything that the tree holds from the key `lower` on and below the key `upper` (`None`: to
    /// the end), and no snapshot pins any of it. A marker that masks other keys may be dropped only if this is `true` of
    /// all keys that it masks, and if the run drops all of them too.
    ///
    /// It is `true` of what was written before the run began. A write to the range that comes later, or that had not
    /// returned by then, lies above this run and is not masked any more: if it can carry an older time than the marker
    /// and should be masked, the program has to keep markers for as long as such writes may come. It says nothing about operands of merge operators: where
    /// keys that a marker masks may have some, keep the marker.
    ///
    /// `false` may also mean that this is not certain. It searches memtables and looks at the bounds of all tables of
    /// the tree: do not ask for every entry.
    pub fn alone(&self, lower: &[u8], upper: Option<&[u8]>) -> bool {
        (self.alone)(lower, upper)
    }
}

impl fmt::Debug for RuleContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RuleContext")
            .field("tree", &self.tree)
            .field("now_us", &self.now_us)
            .field("is_flush", &self.is_flush)
            .finish_non_exhaustive()
    }
}

/// The rules that an opening has registered ([`Options::compaction_rule`](crate::Options::compaction_rule)).
#[derive(Clone, Default)]
pub struct CompactionRules {
    by_name: Arc<BTreeMap<String, Arc<dyn CompactionRule>>>,
}

impl fmt::Debug for CompactionRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.by_name.keys()).finish()
    }
}

impl CompactionRules {
    pub(crate) fn add(&mut self, rule: Arc<dyn CompactionRule>) {
        Arc::make_mut(&mut self.by_name).insert(rule.name().to_owned(), rule);
    }

    pub(crate) fn get(&self, name: &str) -> Option<&dyn CompactionRule> {
        self.by_name.get(name).map(|rule| &**rule)
    }

    /// Whether there is a rule with the name that a tree has given, if any.
    pub(crate) fn has(&self, name: Option<&str>) -> bool {
        name.is_some_and(|name| self.by_name.contains_key(name))
    }
}
