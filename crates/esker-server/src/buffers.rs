//! Buffers for replies that are longer than what a connection keeps for itself.
//!
//! A pipeline of sixteen `GET`s of 1 KB has a reply of 17 KB. To get the memory for it from the system each time, and to
//! give it back, took 29 % of the time of such `GET`s. A buffer for each of many connections would take too much.

use std::cell::{Cell, RefCell};

/// The longest buffer that is kept, in bytes. Replies are written before they are much longer.
const ONE_MAX: usize = 512 << 10;

/// How many bytes all of them take at most.
const ALL_MAX: usize = 4 << 20;

/// Empty buffers that no connection uses.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    free: RefCell<Vec<Vec<u8>>>,
    bytes: Cell<usize>,
}

impl Buffers {
    /// An empty buffer, with room if there is one that is free.
    pub(crate) fn take(&self) -> Vec<u8> {
        let buffer = self.free.borrow_mut().pop().unwrap_or_default();
        self.bytes.set(self.bytes.get() - buffer.capacity());
        buffer
    }

    /// Keeps a buffer, if it is not too much.
    pub(crate) fn give(&self, mut buffer: Vec<u8>) {
        let bytes = self.bytes.get() + buffer.capacity();
        if buffer.capacity() <= ONE_MAX && bytes <= ALL_MAX {
            buffer.clear();
            self.bytes.set(bytes);
            self.free.borrow_mut().push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_back_empty_and_with_its_room() {
        let buffers = Buffers::default();
        assert_eq!(buffers.take().capacity(), 0);
        let mut buffer = Vec::with_capacity(30_000);
        buffer.extend_from_slice(b"another client's secret");
        buffers.give(buffer);
        let taken = buffers.take();
        assert!(taken.is_empty() && taken.capacity() >= 30_000);
        assert_eq!(buffers.bytes.get(), 0);
    }

    #[test]
    fn what_is_kept_has_a_limit() {
        let buffers = Buffers::default();
        buffers.give(Vec::with_capacity(ONE_MAX + 1));
        assert_eq!(buffers.take().capacity(), 0, "too long");
        (0..100).for_each(|_| buffers.give(Vec::with_capacity(ONE_MAX)));
        let kept = std::iter::repeat_with(|| buffers.take().capacity())
            .take_while(|&bytes| bytes > 0)
            .sum::<usize>();
        assert!((ONE_MAX..=ALL_MAX).contains(&kept), "{kept}");
    }
}
