//! The only request to the system's allocator.

/// Returns free memory that the allocator keeps between live blocks to the system. After thousands of small blocks were
/// freed together, that is most of it. The time grows with the number of free blocks: milliseconds for tens of
/// megabytes. Other threads may wait for memory meanwhile.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub fn give_back_free_memory() {
    // SAFETY: the call takes no pointer and does not touch allocated memory; any thread may call it at any time.
    let _ = unsafe { libc::malloc_trim(0) };
}

/// Other allocators return freed memory automatically.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn give_back_free_memory() {}
