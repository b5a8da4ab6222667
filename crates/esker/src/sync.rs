//! The atomics of the lock-free code: the real ones or, in a build with `RUSTFLAGS="--cfg esker_shuttle"`, those of the
//! `shuttle` scheduler, which tries many interleavings.

#[cfg(esker_shuttle)]
pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
#[cfg(not(esker_shuttle))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
