//! Keeps the largest chunks of dropped memtables for new ones. The system zeroes every page that it hands
//! out; without the pool, that costs writers a tenth of their time.

use std::alloc::{Layout, dealloc};
use std::ptr::NonNull;

use parking_lot::Mutex;

use super::arena::LARGEST_CHUNK;

/// The layout of every chunk in a pool.
pub(super) fn chunk_layout() -> Option<Layout> {
    Layout::from_size_align(LARGEST_CHUNK, LARGEST_CHUNK).ok()
}

/// Holds up to a fixed number of free chunks. Any thread may give and take.
#[derive(Debug)]
pub(crate) struct ChunkPool {
    free: Mutex<Vec<FreeChunk>>,
    keep: usize,
}

#[derive(Debug)]
struct FreeChunk(NonNull<u8>);

// SAFETY: a free chunk is plain memory; only the pool points to it.
unsafe impl Send for FreeChunk {}

impl ChunkPool {
    /// A pool of at most `bytes` of free chunks.
    pub(crate) fn new(bytes: usize) -> Self {
        ChunkPool { free: Mutex::new(Vec::new()), keep: bytes / LARGEST_CHUNK }
    }

    /// A chunk with the layout of [`chunk_layout`] and any contents.
    pub(super) fn take(&self) -> Option<NonNull<u8>> {
        self.free.lock().pop().map(|chunk| chunk.0)
    }

    /// Frees all chunks in the pool.
    pub(crate) fn clear(&self) {
        for chunk in std::mem::take(&mut *self.free.lock()) {
            // SAFETY: `give` took it with that promise, and `take` has not handed it out since.
            unsafe { free_chunk(chunk.0) };
        }
    }

    /// Keeps or frees a chunk.
    ///
    /// # Safety
    /// It was allocated with the layout of [`chunk_layout`], and it is no longer in use.
    pub(super) unsafe fn give(&self, chunk: NonNull<u8>) {
        let mut free = self.free.lock();
        if free.len() < self.keep {
            free.push(FreeChunk(chunk));
        } else {
            drop(free);
            // SAFETY: the caller's promise.
            unsafe { free_chunk(chunk) };
        }
    }
}

/// Gives a chunk back to the system.
///
/// # Safety
/// See [`ChunkPool::give`].
pub(super) unsafe fn free_chunk(chunk: NonNull<u8>) {
    if let Some(layout) = chunk_layout() {
        // SAFETY: the caller's promise.
        unsafe { dealloc(chunk.as_ptr(), layout) };
    }
}

impl Drop for ChunkPool {
    fn drop(&mut self) {
        for chunk in self.free.get_mut().drain(..) {
            // SAFETY: `give` took it with that promise, and `take` has not handed it out since.
            unsafe { free_chunk(chunk.0) };
        }
    }
}
