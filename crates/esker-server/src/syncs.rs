//! Waits for writes to survive power loss: all clients share the syncs of the log.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use esker::{Db, Listener, WriteToken};
use tokio::sync::Notify;

/// See the module's comment.
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

    /// Waits until the write is durable.
    pub(crate) async fn wait(&self, db: &Db, token: &WriteToken) -> esker::Result<()> {
        loop {
            let synced = self.synced.notified();
            if db.is_durable(token)? {
                return Ok(());
            }
            db.request_sync();
            synced.await;
        }
    }
}

/// What a store tells a server: give it to [`esker::Options::listener`] when you open the store.
#[derive(Clone, Default)]
pub struct StoreEvents {
    pub(crate) syncs: Arc<Syncs>,
}

impl Listener for StoreEvents {
    fn synced(&self) {
        self.syncs.synced.notify_waiters();
    }

    fn ready(&self) {
        self.syncs.synced.notify_waiters();
    }
}
