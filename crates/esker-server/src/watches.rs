//! Which clients watch which keys (`WATCH`), and whose keys have changed since.

use std::cell::Cell;
use std::collections::HashMap;
use std::rc::{Rc, Weak};

use crate::memory;

/// A key that a client watches.
#[derive(Debug, Clone)]
pub(crate) struct Watched {
    pub(crate) database: u16,
    pub(crate) key: Vec<u8>,
    /// Whether it was there, and when it expires.
    pub(crate) existed: bool,
    pub(crate) expires_us: Option<u64>,
}

struct Watcher {
    changed: Weak<Cell<bool>>,
    /// Whether the key was there.
    existed: bool,
}

/// See the module's comment. A client that has gone is forgotten when one of its keys is touched or watched again.
#[derive(Default)]
pub(crate) struct Watches {
    by_key: HashMap<(u16, Vec<u8>), Vec<Watcher>>,
}

impl Watches {
    /// `changed` is set when the key changes.
    pub(crate) fn watch(&mut self, watched: &Watched, changed: &Rc<Cell<bool>>) {
        let watchers = self.by_key.entry((watched.database, watched.key.clone())).or_default();
        watchers.retain(|watcher| watcher.changed.strong_count() > 0);
        watchers.push(Watcher { changed: Rc::downgrade(changed), existed: watched.existed });
    }

    /// The client with `changed` watches the key no more.
    pub(crate) fn unwatch(&mut self, watched: &Watched, changed: &Rc<Cell<bool>>) {
        let place = (watched.database, watched.key.clone());
        if let Some(watchers) = self.by_key.get_mut(&place) {
            let own = Rc::downgrade(changed);
            watchers.retain(|watcher| watcher.changed.strong_count() > 0 && !watcher.changed.ptr_eq(&own));
            if watchers.is_empty() {
                memory::remove(&mut self.by_key, &place);
            }
        }
    }

    /// How many keys are watched.
    pub(crate) fn keys(&self) -> usize {
        self.by_key
            .values()
            .filter(|watchers| watchers.iter().any(|one| one.changed.strong_count() > 0))
            .count()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// All keys of the database have gone.
    pub(crate) fn touch_all(&mut self, database: u16) {
        let of_database = self.by_key.iter().filter(|((of, _), _)| *of == database);
        // What was not there has not changed.
        let affected = of_database.flat_map(|(_, watchers)| watchers).filter(|watcher| watcher.existed);
        affected.filter_map(|watcher| watcher.changed.upgrade()).for_each(|changed| changed.set(true));
    }

    /// A turn that has changed these keys is lost; `None`: any key. Clients that began to watch them meanwhile have seen its writes,
    /// so for them the keys change again.
    pub(crate) fn touch_lost(&mut self, keys: Option<&[(u16, Vec<u8>)]>) {
        match keys {
            Some(keys) => keys.iter().for_each(|(database, key)| self.touch(*database, key)),
            None => {
                let all = self.by_key.values().flatten().filter_map(|watcher| watcher.changed.upgrade());
                all.for_each(|changed| changed.set(true));
            }
        }
    }

    /// The key has changed.
    pub(crate) fn touch(&mut self, database: u16, key: &[u8]) {
        if self.by_key.is_empty() {
            return;
        }
        if let Some(watchers) = self.by_key.get(&(database, key.to_vec())) {
            let watching = watchers.iter().filter_map(|watcher| watcher.changed.upgrade());
            watching.for_each(|changed| changed.set(true));
        }
    }
}
