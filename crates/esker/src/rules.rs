//! Compaction rules: they decide which entries of a tree are garbage, and flushes and merges of tables drop these.
//!
//! ```text
//! tree         TreeOptions::rule names a rule; the manifest keeps the name
//! opening      Options::compaction_rule registers rules by their names
//! flush/merge  begin -> a run; entry, keys ascending -> keep or drop; look_again_us, at the end of each table
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// A program's own rule that decides which entries of a tree are garbage. Flushes and merges of tables apply it, and
/// drop these entries.
///
/// A tree names its rule ([`TreeOptions::rule`](crate::TreeOptions::rule)); each opening registers rules
/// ([`Options::compaction_rule`](crate::Options::compaction_rule)). A tree whose rule is not registered keeps all
/// entries.
///
/// # Promises to a program
/// - **Filter on reading.** It is unpredictable when an entry is dropped. A program that reads has to leave out the
///   entries that the rule would drop, by the present facts and by a time ([`Tree::time_us`](crate::Tree::time_us))
///   that it has read after it took its snapshot. The result of such a *filtered read* is the same before and after any
///   flush or merge, if the rule meets the conditions below. A read that does not filter may see an entry, and not see
///   it later, also in a snapshot that was taken while a merge ran.
/// - **Read a marker before the entries that it masks**, in a snapshot or transaction too: a marker and all entries
///   that it masks may go between two reads, if the snapshot was taken while a merge ran. One scan or cursor may read
///   them in any order: it sees both, or neither.
/// - **A drop is a deletion in the entry's own place.** Older versions of the key stay hidden, newer ones stay visible,
///   and transactions see the same conflicts as without the drop. A copy of the entry under another key, even one that
///   is made while a merge drops the entry, is a separate entry.
/// - **Snapshots.** Entries that an open snapshot or transaction saw when the flush or merge began are kept, unless the
///   rule returns [`RuleDecision::DropPinned`]. The rule gets such an entry as [pinned](RuleEntry::pinned).
/// - **Huge values** that are dropped are given back when no reader uses them any more.
///
/// # Valid conclusions of a rule
/// A run gets keys in ascending order, each at most once, with the newest version that the flush or merge has. It does
/// not get all of the tree:
///
/// - Other tables and memtables may hold other keys, and newer or older versions of the same keys. An entry that the
///   run gets may be hidden by a newer version or deletion elsewhere. A key that it does not get may exist.
/// - A run does not get keys whose newest version here is a deletion, or has expired. Nor does it get keys with
///   operands of a merge operator that did not become a value, or entries that were written after the run had begun.
///
/// Therefore these conclusions are valid:
///
/// - **About one entry**: a time to live, or the generation that a key carries. The answer may depend on the key, the
///   value, the attributes and [`RuleContext::now_us`]. In a tree into which operands are merged
///   ([`Tree::merge`](crate::Tree::merge)) it must depend on the key alone: operands elsewhere may change the value
///   that the run gets.
/// - **By facts outside the tree**, which only ever make more entries garbage. The run may read them in
///   [`CompactionRule::begin`] and not later: snapshots that were taken before see them as they were. They must survive
///   a crash before the rule uses them, since dropped entries are gone.
/// - **About several keys**, if the entries that the rule compares with cannot disappear. To keep the three newest
///   versions of a cell (keys of row, column and descending time), it may count three and drop the next, if cells are
///   never deleted and never expire one by one. Otherwise a deletion elsewhere may hide one of the counted versions.
/// - **About an entry that masks other keys**, if none of them exists: see [`RuleContext::alone`].
///
/// An answer must not change back: an entry that was garbage once has to stay garbage.
///
/// # Example
/// Sessions end half an hour after their last use. The time of the last use, in microseconds since 1970, is in the
/// attributes. A change of it does not rewrite the value.
/// ```
/// use esker::rules::{CompactionRule, RuleContext, RuleDecision, RuleEntry, RuleRun};
/// use esker::{Options, PutOptions, TreeOptions};
///
/// const HALF_AN_HOUR_US: u64 = 1_800_000_000;
///
/// /// When a session with these attributes ends.
/// fn ends_us(attributes: &[u8]) -> Option<u64> {
///     Some(u64::from_be_bytes(attributes.try_into().ok()?).saturating_add(HALF_AN_HOUR_US))
/// }
///
/// struct Sessions;
///
/// impl CompactionRule for Sessions {
///     fn name(&self) -> &str {
///         "sessions"
///     }
///
///     fn begin(&self, _tree: &str) -> Box<dyn RuleRun + '_> {
///         Box::<SessionsRun>::default()
///     }
/// }
///
/// /// When the first and the last session end of those that stay.
/// #[derive(Default)]
/// struct SessionsRun(Option<(u64, u64)>);
///
/// impl RuleRun for SessionsRun {
///     fn entry(&mut self, context: &RuleContext<'_>, entry: &RuleEntry<'_>) -> RuleDecision {
///         let Some(ends) = ends_us(entry.attributes) else { return RuleDecision::Keep };
///         if ends <= context.now_us() {
///             // No open snapshot is older, so no reader shows it.
///             return RuleDecision::DropPinned;
///         }
///         let (first, last) = self.0.unwrap_or((ends, ends));
///         self.0 = Some((first.min(ends), last.max(ends)));
///         RuleDecision::Keep
///     }
///
///     fn look_again_us(&mut self) -> Option<u64> {
///         self.0.take().map(|(first, last)| first + (last - first) / 2)
///     }
/// }
///
/// # fn main() -> esker::Result<()> {
/// let db = esker::Db::open_in_memory(Options::default().compaction_rule(Sessions))?;
/// let sessions = db.create_tree("sessions", TreeOptions::default().rule("sessions"))?;
/// sessions.put_opts("ada", "long ago", &PutOptions::default().attributes(1_u64.to_be_bytes()))?;
/// let now = sessions.time_us();
/// sessions.put_opts("bob", "now", &PutOptions::default().attributes(now.to_be_bytes()))?;
///
/// // A filtered read: "ada" may be there still, and does not count.
/// let lives = |key| -> esker::Result<bool> {
///     let metadata = sessions.metadata(key)?;
///     Ok(metadata.is_some_and(|metadata| ends_us(&metadata.attributes).is_none_or(|ends| ends > now)))
/// };
/// assert!(!lives("ada")? && lives("bob")?);
/// db.compact()?;
/// assert!(!sessions.contains("ada")? && lives("bob")?);
/// # Ok(())
/// # }
/// ```
pub trait CompactionRule: Send + Sync + 'static {
    /// Its name: 1 to 255 bytes, which trees store.
    fn name(&self) -> &str;

    /// Begins a run: a flush of the tree with the name `tree`, a merge of some of its tables, or an estimate of a
    /// merge, which drops nothing. It is called on threads of the store, by several at the same time, also for one
    /// tree, and also during another run on the same thread: a run must not hold a lock. The rule and its runs must not
    /// call the store.
    ///
    /// If one of them panics, the flush or merge is done again without the rule, and
    /// [`Stats::rule_panics`](crate::Stats::rule_panics) counts it. The tables are looked at again after an hour. An estimate is
    /// made without the rule then, and not counted.
    fn begin(&self, tree: &str) -> Box<dyn RuleRun + '_>;

    /// The lengths of the prefixes of `key` at which entries begin that may make it garbage, ascending. The default is
    /// empty: an entry is garbage because of its own content, or because of entries with about the same key.
    ///
    /// The store estimates how much a merge would drop. For this it gives runs parts of the tables, whose entries may
    /// lie far from the entries that make them garbage. Before such a part, which begins at `key`, a run gets the first
    /// entries of each prefix. If a length is missing here, garbage may stay until other merges drop it; nothing else
    /// depends on it.
    fn prefixes(&self, key: &[u8]) -> Vec<usize> {
        let _ = key;
        Vec::new()
    }
}

/// One flush or merge, or the estimate of one, as a [`CompactionRule`] sees it. It may keep state from one entry to the next.
pub trait RuleRun {
    /// Decides about the next entry. Keys ascend.
    fn entry(&mut self, context: &RuleContext<'_>, entry: &RuleEntry<'_>) -> RuleDecision;

    /// When the entries since the last call should be looked at again, in microseconds since 1970: called when the
    /// table that they are in is complete. When [`RuleContext::now_us`] would be that time, the background merges or
    /// rewrites the table although nothing else requires it. `None`, the default: only when it is merged anyway.
    ///
    /// Each such merge rewrites a table. A time halfway between the first and the last entry that becomes garbage
    /// bounds that cost: it is at most the cost of writing the table once more. A time before the next minute is over
    /// counts as its end.
    fn look_again_us(&mut self) -> Option<u64> {
        None
    }
}

/// The decision about an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RuleDecision {
    /// It stays.
    Keep,
    /// It is garbage from now on, and goes. If it is [pinned](RuleEntry::pinned), it stays for now. Where some snapshot
    /// is always open, most entries are always pinned: see [`RuleDecision::DropPinned`].
    Drop,
    /// It is garbage at [`RuleContext::now_us`], for the readers of all open snapshots too, and goes even if it is
    /// pinned. Right where the time or the key alone decides, or facts that are older than `now_us`.
    DropPinned,
}

/// An entry that a [`CompactionRule`] judges.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct RuleEntry<'a> {
    /// Its key.
    pub key: &'a [u8],
    /// Its value.
    pub value: RuleValue<'a>,
    /// When the value expires, in microseconds since 1970; `None` if it does not expire.
    pub expires_us: Option<u64>,
    /// The attributes of the value ([`PutOptions`](crate::PutOptions)); empty if it has none.
    pub attributes: &'a [u8],
    /// Whether an open snapshot or transaction may see it. Then [`RuleDecision::Drop`] keeps it. If an eighth of a
    /// table's entries are such garbage, or a huge value is, the store looks at the table again once no open snapshot
    /// or transaction sees any of it.
    pub pinned: bool,
    /// Whether all open snapshots and transactions see this version, or a newer one, and so does every later reader.
    /// The entries that such a marker masks are garbage for all of them ([`RuleDecision::DropPinned`]), unless
    /// something can remove the marker: a deletion, a newer version that masks less, or its expiry.
    pub seen_by_all: bool,
}

/// The value of a [`RuleEntry`].
///
/// # Example
/// Empty values are garbage:
/// ```
/// use esker::rules::{RuleContext, RuleDecision, RuleEntry, RuleRun, RuleValue};
///
/// struct NotEmpty;
///
/// impl RuleRun for NotEmpty {
///     fn entry(&mut self, _: &RuleContext<'_>, entry: &RuleEntry<'_>) -> RuleDecision {
///         match entry.value {
///             RuleValue::Inline(bytes) if bytes.is_empty() => RuleDecision::Drop,
///             _ => RuleDecision::Keep,
///         }
///     }
/// }
/// ```
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

/// Whether all keys from the first one on, and below the second one if it is given, are in the run.
type Alone<'a> = dyn Fn(&[u8], Option<&[u8]>) -> bool + 'a;

/// The facts that a [`CompactionRule`] can query during a run.
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

    /// The time of the oldest open snapshot or transaction, or of the beginning of the run if none is open, in
    /// microseconds since 1970. No later read of the tree is judged by an earlier one. For a tree that takes its time
    /// from its writes ([`ExpiryClock::Writes`](crate::ExpiryClock)) it is the time that its flushed writes have
    /// carried. Entries may have been written after it: a rule that computes ages should subtract with saturation.
    pub fn now_us(&self) -> u64 {
        self.now_us
    }

    /// Whether memtables are flushed; otherwise tables are merged.
    pub fn is_flush(&self) -> bool {
        self.is_flush
    }

    /// Whether this run has everything that the tree holds from the key `lower` on and below the key `upper` (`None`:
    /// to the end), and no snapshot pins any of it. A marker that masks other keys may be dropped only if this is
    /// `true` of all keys that it masks, and if the run drops all of them too.
    ///
    /// It is `true` of entries that were written before the run began. The marker no longer masks entries that are
    /// written to the range later. If the marker should mask some of these, the program has to keep markers until they
    /// are written. It does not cover operands of merge operators: if keys that a marker masks may have operands, keep
    /// the marker.
    ///
    /// `false` may also mean that this is not certain, or that the range goes beyond the keys that the tree has since a
    /// split. It searches memtables and looks at the bounds of all tables of the tree: do not call it for every entry.
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

    /// Whether the rule that a tree names, if it names one, is registered.
    pub(crate) fn has(&self, name: Option<&str>) -> bool {
        name.is_some_and(|name| self.by_name.contains_key(name))
    }
}
