//! A hint to the processor that it will soon read some bytes.

/// Prefetches the cache line of `bytes[at]`. Does nothing past the end, or on processors without a known
/// instruction.
#[inline]
pub(crate) fn prefetch(bytes: &[u8], at: usize) {
    if at < bytes.len() {
        prefetch_address(bytes.as_ptr().wrapping_add(at));
    }
}

/// Prefetches the cache line at an address, which may be anywhere: also where no memory is any more.
#[inline]
pub(super) fn prefetch_address<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch changes nothing that a program can see, and never faults, at any address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}
