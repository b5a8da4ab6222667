//! What was done to a store, and which states a crash may leave of it.
//!
//! ```text
//! base ── event ── event ── event ── event ── event          one sequence, across all trees
//!                     │                 │        │
//!                  durable           certain    under way: the call never returned, or failed
//! after power loss:   ├──────── any of these ────┤
//! after a kill:                         ├────────┤
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) type Bytes = Arc<[u8]>;
pub(crate) type Pairs = BTreeMap<Bytes, Bytes>;
/// Every tree by name.
pub(crate) type State = BTreeMap<String, Pairs>;

/// A write of a batch: tree, key, value (`None`: deleted).
pub(crate) type Write = (String, Bytes, Option<Bytes>);

#[derive(Debug, Clone)]
pub(crate) enum Event {
    Batch(Vec<Write>),
    Create(String),
    Drop(String),
    /// A tree that has these pairs at once.
    Import(String, Pairs),
}

/// See the module's comment.
#[derive(Debug)]
pub(crate) struct History {
    base: State,
    now: State,
    events: Vec<Event>,
    /// Places of events whose calls failed and that are no record of the log. Each took effect or did not, whatever became
    /// of later ones.
    apart: Vec<usize>,
    durable: usize,
    certain: usize,
}

/// With more failures apart than this, their combinations take too long.
const APART_MAX: usize = 10;

fn apply(state: &mut State, event: &Event) {
    match event {
        Event::Batch(writes) => {
            for (tree, key, value) in writes {
                let Some(pairs) = state.get_mut(tree) else { continue };
                match value {
                    Some(value) => drop(pairs.insert(Arc::clone(key), Arc::clone(value))),
                    None => drop(pairs.remove(key)),
                }
            }
        }
        Event::Create(tree) => drop(state.insert(tree.clone(), Pairs::new())),
        Event::Drop(tree) => drop(state.remove(tree)),
        Event::Import(tree, pairs) => drop(state.insert(tree.clone(), pairs.clone())),
    }
}

impl History {
    pub(crate) fn new(base: State) -> Self {
        History { now: base.clone(), base, events: Vec::new(), apart: Vec::new(), durable: 0, certain: 0 }
    }

    /// The state that a reader must see now.
    pub(crate) fn now(&self) -> &State {
        &self.now
    }

    pub(crate) fn certain(&self) -> usize {
        self.certain
    }

    pub(crate) fn durable(&self) -> usize {
        self.durable
    }

    pub(crate) fn len(&self) -> usize {
        self.events.len()
    }

    /// A call begins. Whether it happened is unknown until [`History::acknowledge`].
    pub(crate) fn begin(&mut self, event: Event) {
        self.events.push(event);
    }

    /// The call that began last has returned with success. Calls that failed before it had no effect then:
    /// after a failure that may have had one, a store takes no more writes.
    pub(crate) fn acknowledge(&mut self) {
        if let Some(event) = self.events.pop() {
            apply(&mut self.now, &event);
            self.events.truncate(self.certain);
            self.apart.clear();
            self.events.push(event);
            self.certain += 1;
        }
    }

    /// The call that began last had no effect for certain.
    pub(crate) fn withdraw(&mut self) {
        self.events.pop();
    }

    /// The call that began last has failed. It was to change the manifest alone, so its failure says nothing of later ones.
    pub(crate) fn fail_apart(&mut self) {
        self.apart.extend(self.events.len().checked_sub(1));
    }

    /// Everything that was acknowledged survives power loss from now on.
    pub(crate) fn make_durable(&mut self) {
        self.durable = self.certain;
    }

    /// How many events `found` holds, if it is the state behind some prefix of at least `least` of them. Of those that failed
    /// apart any may be missing.
    pub(crate) fn prefix_of(&self, found: &State, least: usize) -> Result<usize, String> {
        let apart: Vec<usize> = self.apart.iter().copied().take(APART_MAX).collect();
        let mut first = None;
        for missing in 0..1_usize << apart.len() {
            let is_missing = |place: usize| {
                apart.iter().enumerate().any(|(bit, &of)| of == place && missing & 1 << bit != 0)
            };
            match self.prefix_without(found, least, is_missing) {
                Ok(taken) => return Ok(taken),
                Err(what) => drop(first.get_or_insert(what)),
            }
        }
        Err(first.unwrap_or_default())
    }

    fn prefix_without(
        &self,
        found: &State,
        least: usize,
        is_missing: impl Fn(usize) -> bool,
    ) -> Result<usize, String> {
        let mut state = self.base.clone();
        self.events[..least].iter().for_each(|event| apply(&mut state, event));
        let mut differing = differences(&state, found);
        let mut first = String::new();
        for taken in least..=self.events.len() {
            if differing == 0 {
                return Ok(taken);
            }
            if first.is_empty() {
                first = describe(&state, found);
            }
            let Some(event) = self.events.get(taken) else { break };
            if is_missing(taken) {
                continue;
            }
            differing = match event {
                Event::Batch(writes) => {
                    let before = touched(writes, &state, found);
                    apply(&mut state, event);
                    differing + touched(writes, &state, found) - before
                }
                Event::Create(_) | Event::Drop(_) | Event::Import(..) => {
                    apply(&mut state, event);
                    differences(&state, found)
                }
            };
        }
        Err(format!(
            "not the state behind any prefix of {least} to {} events\n  against {least}: {first}\n  against all: {}",
            self.events.len(),
            describe(&state, found)
        ))
    }
}

/// How many of the keys that `writes` name differ.
fn touched(writes: &[Write], a: &State, b: &State) -> usize {
    let mut keys: Vec<(&String, &Bytes)> = writes.iter().map(|(tree, key, _)| (tree, key)).collect();
    keys.sort_unstable();
    keys.dedup();
    let value =
        |state: &'_ State, tree: &String, key: &Bytes| state.get(tree).and_then(|p| p.get(key)).cloned();
    keys.iter().filter(|(tree, key)| value(a, tree, key) != value(b, tree, key)).count()
}

/// How many trees and pairs stand in one state only, or differ.
pub(crate) fn differences(a: &State, b: &State) -> usize {
    let none = Pairs::new();
    let names: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    let per_tree = names.into_iter().map(|name| {
        let (left, right) = (a.get(name).unwrap_or(&none), b.get(name).unwrap_or(&none));
        let missing = right.keys().filter(|key| !left.contains_key(*key)).count();
        let changed = left.iter().filter(|(key, value)| right.get(*key) != Some(*value)).count();
        usize::from(a.contains_key(name) != b.contains_key(name)) + missing + changed
    });
    per_tree.sum()
}

fn shown(value: Option<&Bytes>) -> String {
    let Some(value) = value else { return "nothing".to_owned() };
    let number = value.get(..8).map_or(0, |head| u64::from_le_bytes(head.try_into().unwrap()));
    format!("write {number} ({} bytes)", value.len())
}

/// Writes in words.
pub(crate) fn describe_writes(writes: &[Write]) -> String {
    let each = writes.iter().map(|(tree, key, value)| {
        format!("{tree}/{}: {}", String::from_utf8_lossy(key), shown(value.as_ref()))
    });
    each.collect::<Vec<_>>().join(", ")
}

/// The first differences in words.
pub(crate) fn describe(expected: &State, found: &State) -> String {
    let expected_names: Vec<&String> = expected.keys().collect();
    let found_names: Vec<&String> = found.keys().collect();
    if expected_names != found_names {
        return format!("trees {found_names:?}, expected {expected_names:?}");
    }
    let mut parts = Vec::new();
    for (name, pairs) in expected {
        let there = &found[name];
        let keys: std::collections::BTreeSet<&Bytes> = pairs.keys().chain(there.keys()).collect();
        for key in keys {
            let (want, got) = (pairs.get(key), there.get(key));
            if want != got && parts.len() < 4 {
                let key = String::from_utf8_lossy(key);
                parts.push(format!("{name}/{key}: {}, expected {}", shown(got), shown(want)));
            }
        }
    }
    parts.join("; ")
}
