//! Keeps the largest chunks of dropped memtables for new ones. The system zeroes every page that it hands
//! out; without the pool, that costs writers a tenth of their time.

use std::alloc::{Layout, dealloc};
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use parking_lot::Mutex;

use super::arena::LARGEST_CHUNK;

/// The layout of every chunk in a pool.
pub(super) const CHUNK: Layout = match Layout::from_size_align(LARGEST_CHUNK, LARGEST_CHUNK) {
    Ok(layout) => layout,
    Err(_) => panic!("a chunk's size is not a power of two"),
};

/// Holds up to a fixed number of free chunks. Any thread may give and take.
#[derive(Debug)]
pub(crate) struct ChunkPool {
    free: Mutex<Vec<FreeChunk>>,
    keep: usize,
}

/// A chunk with the layout of [`CHUNK`], which is not in use.
#[derive(Debug)]
struct FreeChunk(NonNull<u8>);

// SAFETY: a free chunk is plain memory; only the pool points to it.
unsafe impl Send for FreeChunk {}

impl Drop for FreeChunk {
    fn drop(&mut self) {
        // SAFETY: `give` took it with that promise, and `take` forgets what it hands out.
        unsafe { dealloc(self.0.as_ptr(), CHUNK) };
    }
}

impl ChunkPool {
    /// A pool of at most `bytes` of free chunks.
    pub(crate) fn new(bytes: usize) -> Self {
        ChunkPool { free: Mutex::new(Vec::new()), keep: bytes / LARGEST_CHUNK }
    }

    /// A chunk with the layout of [`CHUNK`] and any contents.
    pub(super) fn take(&self) -> Option<NonNull<u8>> {
        self.free.lock().pop().map(|chunk| ManuallyDrop::new(chunk).0)
    }

    pub(crate) fn clear(&self) {
        let free = std::mem::take(&mut *self.free.lock());
        drop(free);
    }

    /// Keeps or frees a chunk.
    ///
    /// # Safety
    /// It was allocated with the layout of [`CHUNK`], and it is no longer in use.
    pub(super) unsafe fn give(&self, chunk: NonNull<u8>) {
        let (chunk, mut free) = (FreeChunk(chunk), self.free.lock());
        if free.len() < self.keep {
            free.push(chunk);
        } else {
            drop(free);
            drop(chunk);
        }
    }
}
