//! The one thing that is asked of the system's allocator.

/// Gives freed memory back to the system that the allocator keeps between what is in use: after thousands of
/// small pieces were freed at once, that is most of it. Takes a time that grows with the free pieces, milliseconds
/// for tens of megabytes.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(crate) fn give_back_free_memory() {
    // SAFETY: the call takes no pointer and leaves alone what is allocated; any thread may call it at any time.
    let _ = unsafe { libc::malloc_trim(0) };
}

/// Other allocators give freed memory back by themselves.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn give_back_free_memory() {}
