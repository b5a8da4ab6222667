//! Waits for writes to survive power loss: all clients share the syncs of the log.
//!
//! ```text
//! connections --wait--> SyncWaits --request--> the log's job, on its thread
//!      ^                 | those whose writes are durable now      |
//!      +-----------------+ <------------- Syncs::synced -----------+
//! ```
//! While one sync is under way, further writes are made, and share the next one. Its end is one word to the event loop, and
//! wakes nobody whose writes came later.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, Waker};

use esker::{Db, Listener, WriteToken};
use tokio::sync::Notify;

use crate::server::Server;

/// What the threads of the store tell the event loop, and what is written.
#[derive(Default)]
pub(crate) struct Syncs {
    synced: Notify,
    /// Whether something was written since the last periodic sync.
    is_dirty: AtomicBool,
}

impl Syncs {
    pub(crate) fn note_written(&self) {
        self.is_dirty.store(true, Ordering::Relaxed);
    }

    /// Whether something was written since the last call.
    pub(crate) fn take_dirty(&self) -> bool {
        self.is_dirty.swap(false, Ordering::Relaxed)
    }
}

/// Who waits, on the thread of the event loop.
#[derive(Default)]
pub(crate) struct SyncWaits {
    /// In the order of their writes. Some may wait no more.
    waiting: RefCell<VecDeque<(WriteToken, Waker)>>,
    /// Whether a sync was asked for whose end has not been told.
    is_requested: Cell<bool>,
}

impl SyncWaits {
    /// Waits until the write is durable, which is no earlier one than those of earlier calls. One task has to wait to the
    /// end, or give up.
    pub(crate) async fn wait(&self, db: &Db, token: &WriteToken) -> esker::Result<()> {
        let mut is_in_row = false;
        poll_fn(|cx| {
            if let Some(done) = done(db, token) {
                return Poll::Ready(done);
            }
            if !std::mem::replace(&mut is_in_row, true) {
                self.waiting.borrow_mut().push_back((token.clone(), cx.waker().clone()));
                self.request(db);
            }
            Poll::Pending
        })
        .await
    }

    fn request(&self, db: &Db) {
        if !self.is_requested.replace(true) {
            db.request_sync();
        }
    }

    /// Wakes those whose wait is over.
    fn tell(&self, db: &Db) {
        self.is_requested.set(false);
        let mut waiting = self.waiting.borrow_mut();
        while let Some((_, waker)) = waiting.pop_front_if(|(token, _)| done(db, token).is_some()) {
            waker.wake();
        }
        if !waiting.is_empty() {
            self.request(db);
        }
    }
}

/// How the wait for a write has ended, if it has.
fn done(db: &Db, token: &WriteToken) -> Option<esker::Result<()>> {
    match db.is_durable(token) {
        Ok(false) => None,
        Ok(true) => Some(Ok(())),
        Err(error) => Some(Err(error)),
    }
}

/// Wakes those who wait for syncs, as long as the server runs.
pub(crate) async fn tell(server: Rc<Server>) {
    loop {
        server.syncs.synced.notified().await;
        server.sync_waits.tell(&server.db);
    }
}

/// What a store tells a server: give it to [`esker::Options::listener`] when you open the store.
#[derive(Clone, Default)]
pub struct StoreEvents {
    pub(crate) syncs: Arc<Syncs>,
}

impl Listener for StoreEvents {
    fn synced(&self) {
        self.syncs.synced.notify_one();
    }

    fn ready(&self) {
        self.syncs.synced.notify_one();
    }
}
