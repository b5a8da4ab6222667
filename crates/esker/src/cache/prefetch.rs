//! A hint to the processor that it will soon read some bytes.

/// Prefetches the cache line of `bytes[at]`. Does nothing past the end, or on processors without a known
/// instruction.
#[inline]
pub(crate) fn prefetch(bytes: &[u8], at: usize) {
    #[cfg(target_arch = "x86_64")]
    if at < bytes.len() {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: the address is inside `bytes`, and a prefetch changes nothing that a program can see.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(bytes.as_ptr().add(at).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (bytes, at);
}
