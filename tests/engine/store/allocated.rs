//! Counts the bytes that this process has allocated and not freed, and how often each thread allocates.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The system's allocator, with a counter.
struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

static ALLOCATED: AtomicUsize = AtomicUsize::new(0);

/// How many bytes are allocated now. Of use only in a process in which nothing else runs.
pub(crate) fn allocated() -> usize {
    ALLOCATED.load(Ordering::SeqCst)
}

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

/// How often this thread has allocated memory.
pub(crate) fn allocations() -> usize {
    ALLOCATIONS.get()
}

fn count(made: *mut u8, len: usize) -> *mut u8 {
    if !made.is_null() {
        ALLOCATED.fetch_add(len, Ordering::Relaxed);
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
    }
    made
}

// SAFETY: every call is passed on as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        count(unsafe { System.alloc(layout) }, layout.size())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise.
        count(unsafe { System.alloc_zeroed(layout) }, layout.size())
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(pointer, layout) };
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_len: usize) -> *mut u8 {
        // SAFETY: the caller's promise.
        let made = count(unsafe { System.realloc(pointer, layout, new_len) }, new_len);
        if !made.is_null() {
            ALLOCATED.fetch_sub(layout.size(), Ordering::Relaxed);
        }
        made
    }
}
