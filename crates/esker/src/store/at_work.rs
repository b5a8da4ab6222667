//! Which threads do the work of a store: they cannot wait until that work ends.

use std::cell::RefCell;

use super::Core;

thread_local! {
    /// The stores whose work this thread is doing, the innermost last.
    static AT_WORK: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// Marks this thread as working for a store until it is dropped: a flush, a merge, a step of background work, a close.
pub(super) struct AtWork(());

impl AtWork {
    pub(super) fn on(core: &Core) -> AtWork {
        // A thread that ends may close a store after this thread-local is gone. It then runs no user code that could
        // call `is_on`.
        let _gone = AT_WORK.try_with(|stores| stores.borrow_mut().push(core.id));
        AtWork(())
    }

    /// Whether this thread works for the store of `core`. If it does, it cannot wait for the store's work to end.
    pub(super) fn is_on(core: &Core) -> bool {
        AT_WORK.try_with(|stores| stores.borrow().contains(&core.id)).unwrap_or(false)
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        let _gone = AT_WORK.try_with(|stores| stores.borrow_mut().pop());
    }
}
