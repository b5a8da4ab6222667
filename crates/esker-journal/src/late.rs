//! A journal that decides later, for tests: after some time, and in each way in which a replicated log may.
//!
//! ```text
//! propose --> queue, in order --(delay)--> Fate: done: written to the store
//!                                                refused, unknown: the ground is lost, and so are all later entries on it
//! ```

#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "tests drive it through sockets, in real time"
)]

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use esker::{Batch, Db, Error, ErrorKind, Tree, TreeOptions, ValueWriter, WriteToken};

use crate::{Decider, Ground, Journal, Local, Moment, Outcome, Pending, Proposed, Undone};

/// What becomes of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is done, if the store takes it.
    Done,
    /// It is refused.
    Refused,
    /// It is unknown.
    Unknown {
        /// Whether it takes effect all the same.
        is_applied: bool,
    },
}

/// What there is to decide.
enum What {
    Batch { batch: Batch, is_durable: bool },
    Barrier,
}

struct Entry {
    ground: Ground,
    what: What,
    decider: Decider,
    due: Instant,
}

#[derive(Default)]
struct Queue {
    entries: VecDeque<Entry>,
    ground: u64,
    has_ended: bool,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    /// Is told when an entry is added, and of the end.
    changed: Condvar,
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next entry, when its time has come. `None` at the end.
    fn next(&self) -> Option<Entry> {
        let mut queue = self.queue();
        loop {
            let now = Instant::now();
            match queue.entries.front() {
                Some(entry) if entry.due <= now || queue.has_ended => return queue.entries.pop_front(),
                Some(entry) => {
                    let left = entry.due - now;
                    queue = self.changed.wait_timeout(queue, left).unwrap_or_else(PoisonError::into_inner).0;
                }
                None if queue.has_ended => return None,
                None => queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

/// See the page's beginning. Changes of trees are done immediately.
pub struct Late {
    local: Arc<Local>,
    shared: Arc<Shared>,
    delay: Duration,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for Late {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Late").field("delay", &self.delay).finish_non_exhaustive()
    }
}

impl Late {
    /// A journal of `db` that decides each entry after `delay`, as `fate` says.
    pub fn new(db: &Db, delay: Duration, mut fate: impl FnMut() -> Fate + Send + 'static) -> Late {
        let (local, shared) = (Arc::new(Local::new(db)), Arc::<Shared>::default());
        let (writes, queue) = (Arc::clone(&local), Arc::clone(&shared));
        let thread = std::thread::spawn(move || {
            while let Some(entry) = queue.next() {
                decide(&writes, &queue, entry, &mut fate);
            }
        });
        Late { local, shared, delay, thread: Some(thread) }
    }

    fn add(&self, ground: Ground, what: What) -> Proposed {
        let (decider, pending) = Pending::new();
        let due = Instant::now() + self.delay;
        self.shared.queue().entries.push_back(Entry { ground, what, decider, due });
        self.shared.changed.notify_all();
        Proposed::Later(pending)
    }
}

/// Decides the entry that was proposed first.
fn decide(local: &Local, shared: &Shared, entry: Entry, fate: &mut impl FnMut() -> Fate) {
    let Entry { ground, what, decider, .. } = entry;
    let outcome = match what {
        What::Barrier => Ok(()),
        What::Batch { .. } if ground != Ground(shared.queue().ground) => {
            let message = "an entry before it was not taken, or not certainly: try again";
            Err(Undone::Refused(Error::new(ErrorKind::Busy, message)))
        }
        What::Batch { mut batch, is_durable } => {
            let write = || match is_durable {
                true => local.propose_durably(ground, &mut batch).wait(),
                false => local.propose(ground, &mut batch).wait(),
            };
            take(fate(), write)
        }
    };
    if outcome.is_err() {
        let mut queue = shared.queue();
        if ground == Ground(queue.ground) {
            queue.ground += 1;
        }
    }
    decider.decide(outcome);
}

/// What an entry comes to that `write` writes.
fn take(fate: Fate, write: impl FnOnce() -> Outcome) -> Outcome {
    match fate {
        Fate::Done => write(),
        Fate::Refused => Err(Undone::Refused(Error::new(ErrorKind::Busy, "the journal has refused it"))),
        Fate::Unknown { is_applied } => {
            let written = if is_applied { write().err() } else { None };
            let lost = || Undone::Unknown(Error::new(ErrorKind::Busy, "the journal decides no more"));
            Err(written.unwrap_or_else(lost))
        }
    }
}

impl Drop for Late {
    fn drop(&mut self) {
        self.shared.queue().has_ended = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Journal for Late {
    fn db(&self) -> &Db {
        self.local.db()
    }

    fn is_immediate(&self) -> bool {
        false
    }

    fn moment(&self) -> Moment {
        self.local.moment()
    }

    fn ground(&self) -> Ground {
        Ground(self.shared.queue().ground)
    }

    fn propose(&self, ground: Ground, batch: &mut Batch) -> Proposed {
        self.add(ground, What::Batch { batch: std::mem::take(batch), is_durable: false })
    }

    fn try_propose(&self, ground: Ground, batch: &mut Batch) -> Proposed {
        self.add(ground, What::Batch { batch: std::mem::take(batch), is_durable: false })
    }

    fn propose_durably(&self, ground: Ground, batch: &mut Batch) -> Proposed {
        self.add(ground, What::Batch { batch: std::mem::take(batch), is_durable: true })
    }

    fn confirm(&self) -> Proposed {
        self.add(self.ground(), What::Barrier)
    }

    fn barrier(&self) -> esker::Result<WriteToken> {
        self.local.barrier()
    }

    fn make_tree(&self, name: &str, tag: Option<&str>) -> esker::Result<Tree> {
        self.local.make_tree(name, tag)
    }

    fn new_tree(&self, name: &str, options: TreeOptions) -> esker::Result<Tree> {
        self.local.new_tree(name, options)
    }

    fn remove_tree(&self, name: &str) -> esker::Result<()> {
        self.local.remove_tree(name)
    }

    fn split_tree(&self, tree: &Tree, from: &[u8], name: &str) -> esker::Result<Tree> {
        self.local.split_tree(tree, from, name)
    }

    fn tag_tree(&self, tree: &Tree, tag: &str) -> esker::Result<()> {
        self.local.tag_tree(tree, tag)
    }

    fn writer(&self, tree: &Tree) -> esker::Result<ValueWriter> {
        self.local.writer(tree)
    }
}

#[cfg(test)]
mod tests {
    use esker::Options;

    use super::*;

    fn put(db: &Db, key: &str) -> Batch {
        let mut batch = Batch::new();
        batch.put(db.default_tree(), key, "value").unwrap();
        batch
    }

    #[test]
    fn after_a_refusal_nothing_on_the_same_ground_is_taken() {
        let db = Db::open_in_memory(Options::default()).unwrap();
        let mut number = 0;
        let late = Late::new(&db, Duration::from_millis(20), move || {
            number += 1;
            if number == 2 { Fate::Refused } else { Fate::Done }
        });
        let ground = late.ground();
        let proposed: Vec<Proposed> =
            ["a", "b", "c"].map(|key| late.propose(ground, &mut put(&db, key))).into_iter().collect();
        assert!(!db.default_tree().contains("a").unwrap());
        let outcomes: Vec<bool> = proposed.into_iter().map(|proposed| proposed.wait().is_ok()).collect();
        assert_eq!(outcomes, [true, false, false]);
        assert!(matches!(late.propose(ground, &mut put(&db, "d")).wait(), Err(Undone::Refused(_))));
        assert!(late.ground() > ground);
        late.propose(late.ground(), &mut put(&db, "e")).wait().unwrap();
        let there = ["a", "b", "c", "d", "e"].map(|key| db.default_tree().contains(key).unwrap());
        assert_eq!(there, [true, false, false, false, true]);
    }

    #[test]
    fn what_is_unknown_may_have_taken_effect() {
        let db = Db::open_in_memory(Options::default()).unwrap();
        for is_applied in [false, true] {
            let late = Late::new(&db, Duration::ZERO, move || Fate::Unknown { is_applied });
            let outcome = late.propose_durably(late.ground(), &mut put(&db, "key")).wait();
            assert!(matches!(outcome, Err(Undone::Unknown(_))));
            assert_eq!(db.default_tree().contains("key").unwrap(), is_applied);
        }
    }
}
