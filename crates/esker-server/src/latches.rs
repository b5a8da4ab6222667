//! Keys that a command on another thread is about to write: no other command may look at them until it has.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use tokio::sync::Notify;

use crate::canary::broken;
use crate::memory;

/// The keys of all databases that are held. A key is held in all databases at once: commands that write to two of them
/// are rare.
#[derive(Default)]
pub(crate) struct Latches {
    /// How often each key is held: a job that waits to begin holds its keys while another one commits what was written to them.
    held: RefCell<HashMap<Vec<u8>, usize>>,
    /// How often all keys are held.
    all: Cell<usize>,
    /// How many wait to hold all keys. Nobody gets a part of them meanwhile.
    want_all: Cell<usize>,
    released: Notify,
}

/// Held keys, until it is dropped.
pub(crate) struct Latched {
    latches: Rc<Latches>,
    /// `None`: all keys.
    keys: Option<Vec<Vec<u8>>>,
}

impl Latches {
    /// Whether a command with these keys, or about all keys, may run now.
    #[inline]
    pub(crate) fn are_free<'a>(&self, keys: impl IntoIterator<Item = &'a [u8]>) -> bool {
        let held = self.held.borrow();
        self.all.get() == 0 && (held.is_empty() || !keys.into_iter().any(|key| held.contains_key(key)))
    }

    /// Whether no key is held.
    #[inline]
    pub(crate) fn are_all_free(&self) -> bool {
        self.all.get() == 0 && self.held.borrow().is_empty()
    }

    /// Waits until these keys are free, and holds them. `None`: all keys.
    pub(crate) async fn hold(self: &Rc<Self>, keys: Option<Vec<Vec<u8>>>) -> Latched {
        let _wish = keys.is_none().then(|| Wish::new(self));
        loop {
            let released = self.released.notified();
            let is_free = match &keys {
                Some(keys) => self.want_all.get() == 0 && self.are_free(keys.iter().map(Vec::as_slice)),
                None => self.are_all_free(),
            };
            if is_free {
                return self.hold_now(keys);
            }
            released.await;
        }
    }

    /// Holds keys without a wait: a command was evaluated on them, and nothing may come between it and its commit, not even
    /// one that waits for all keys. Who holds some of them already waits for the commit. `None`: all keys.
    pub(crate) fn hold_now(self: &Rc<Self>, keys: Option<Vec<Vec<u8>>>) -> Latched {
        match &keys {
            Some(_) if broken("server-latch") => {}
            Some(keys) => {
                let mut held = self.held.borrow_mut();
                keys.iter().for_each(|key| *held.entry(key.clone()).or_default() += 1);
            }
            None => self.all.set(self.all.get() + 1),
        }
        Latched { latches: Rc::clone(self), keys }
    }

    /// Waits until no key is held.
    pub(crate) async fn wait_for_all(&self) {
        let _wish = Wish::new(self);
        loop {
            let released = self.released.notified();
            if self.are_all_free() {
                return;
            }
            released.await;
        }
    }

    /// Waits until these keys are free.
    pub(crate) async fn wait(&self, keys: &[Vec<u8>]) {
        loop {
            let released = self.released.notified();
            if self.are_free(keys.iter().map(Vec::as_slice)) {
                return;
            }
            released.await;
        }
    }
}

/// Counts one that waits to hold all keys.
struct Wish<'a>(&'a Latches);

impl Wish<'_> {
    fn new(latches: &Latches) -> Wish<'_> {
        latches.want_all.set(latches.want_all.get() + 1);
        Wish(latches)
    }
}

impl Drop for Wish<'_> {
    fn drop(&mut self) {
        self.0.want_all.set(self.0.want_all.get() - 1);
        self.0.released.notify_waiters();
    }
}

impl Drop for Latched {
    fn drop(&mut self) {
        match &self.keys {
            Some(keys) => {
                let mut held = self.latches.held.borrow_mut();
                for key in keys {
                    if let Some(times) = held.get_mut(key) {
                        *times -= 1;
                        if *times == 0 {
                            memory::remove(&mut held, key);
                        }
                    }
                }
            }
            None => self.latches.all.set(self.latches.all.get() - 1),
        }
        self.latches.released.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn keys(names: &[&str]) -> Option<Vec<Vec<u8>>> {
        Some(names.iter().map(|name| name.as_bytes().to_vec()).collect())
    }

    /// One that waits for all keys goes before those that come later, but not between a command and its commit.
    #[test]
    fn who_waits_for_all_keys_has_its_turn() {
        let (latches, mut cx) = (Rc::<Latches>::default(), Context::from_waker(Waker::noop()));
        let first = latches.hold_now(keys(&["a"]));
        let mut all = pin!(latches.hold(None));
        assert!(all.as_mut().poll(&mut cx).is_pending());
        let mut later = pin!(latches.hold(keys(&["b"])));
        assert!(later.as_mut().poll(&mut cx).is_pending());
        let evaluated = latches.hold_now(keys(&["c"]));
        assert!(!latches.are_free([&b"c"[..]]) && latches.are_free([&b"b"[..]]));
        drop((first, evaluated));
        assert!(later.as_mut().poll(&mut cx).is_pending());
        let Poll::Ready(held) = all.as_mut().poll(&mut cx) else { panic!("all keys are free") };
        assert!(!latches.are_free([&b"b"[..]]));
        drop(held);
        assert!(later.as_mut().poll(&mut cx).is_ready());
    }

    #[test]
    fn a_key_that_is_held_twice_is_free_when_both_have_ended() {
        let latches = Rc::<Latches>::default();
        let is_free = || latches.are_free([&b"a"[..]]);
        let (job, commit) = (latches.hold_now(keys(&["a", "b"])), latches.hold_now(keys(&["a", "a"])));
        drop(commit);
        assert!(!is_free());
        let all = latches.hold_now(None);
        drop(job);
        assert!(!is_free() && !latches.are_all_free());
        drop(all);
        assert!(is_free() && latches.are_all_free());
    }
}
