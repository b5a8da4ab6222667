//! How tasks of the event loop wake each other, and let each other go first.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::task::{Context, Poll, Waker};

/// A word from one task of a thread to another one, which waits for it or will ask for it later. Said twice before it is
/// heard, it is heard once.
///
/// Every connection waits for one with every read. It costs no lock and no list of those who wait, as
/// [`tokio::sync::Notify`] does, which other threads and many tasks may use.
#[derive(Default)]
pub(crate) struct LocalNotify {
    is_told: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl LocalNotify {
    pub(crate) fn notify(&self) {
        self.is_told.set(true);
        if let Some(waker) = self.waker.borrow().as_ref() {
            waker.wake_by_ref();
        }
    }

    /// Ready once for each word. At most one task asks.
    pub(crate) fn poll_notified(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.is_told.take() {
            return Poll::Ready(());
        }
        let mut waker = self.waker.borrow_mut();
        if !waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
        Poll::Pending
    }

    pub(crate) async fn notified(&self) {
        poll_fn(|cx| self.poll_notified(cx)).await;
    }
}

/// Lets the tasks go first that can go on by now. Unlike [`tokio::task::yield_now`] it does not look whether sockets have
/// anything for others, which is a system call.
pub(crate) async fn yield_to_ready() {
    let mut has_yielded = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use tokio::task::{LocalSet, spawn_local};

    use super::*;

    fn run(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        LocalSet::new().block_on(&runtime, test);
    }

    #[test]
    fn a_word_is_heard_once_whether_it_comes_before_or_after_the_question() {
        run(async {
            let notify = Rc::new(LocalNotify::default());
            notify.notify();
            notify.notify();
            notify.notified().await;
            assert!(poll_fn(|cx| Poll::Ready(notify.poll_notified(cx).is_pending())).await);
            let waits = {
                let notify = Rc::clone(&notify);
                spawn_local(async move { notify.notified().await })
            };
            yield_to_ready().await;
            assert!(!waits.is_finished());
            notify.notify();
            waits.await.unwrap();
        });
    }

    #[test]
    fn others_that_are_ready_go_first() {
        run(async {
            let order = Rc::new(RefCell::new(Vec::new()));
            let task = |name: char| {
                let order = Rc::clone(&order);
                spawn_local(async move {
                    for step in 0..3 {
                        order.borrow_mut().push((step, name));
                        yield_to_ready().await;
                    }
                })
            };
            for task in [task('a'), task('b'), task('c')] {
                task.await.unwrap();
            }
            let expected: Vec<_> = (0..3).flat_map(|step| ['a', 'b', 'c'].map(|name| (step, name))).collect();
            assert_eq!(*order.borrow(), expected);
        });
    }
}
