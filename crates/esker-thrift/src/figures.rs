//! What a server has done since its beginning: counted where it happens, and shown.

use std::sync::atomic::AtomicU64;

/// What a server has done since its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Figures {
    /// Connections that are open.
    pub open_connections: u64,
    /// Connections that were served, open ones too.
    pub connections: u64,
    /// Connections closed because there were too many.
    pub refused_connections: u64,
    /// TLS handshakes that have failed.
    pub failed_handshakes: u64,
    /// Calls of known methods.
    pub calls: u64,
    /// Those of them that threw something.
    pub failed_calls: u64,
    /// Those of them that the client's rights did not allow.
    pub denied_calls: u64,
    /// How many bytes connections have for calls and answers, each its first 512 KiB aside.
    pub calls_len: u64,
    /// Calls that wait for memory.
    pub waiting_calls: u64,
    /// How many times there was no memory for a call at once.
    pub waited_calls: u64,
    /// Connections closed because their clients took too little of an answer.
    pub slow_connections: u64,
}

/// What is counted for [`Figures`].
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) connections: AtomicU64,
    pub(crate) refused_connections: AtomicU64,
    pub(crate) failed_handshakes: AtomicU64,
    pub(crate) calls: AtomicU64,
    pub(crate) failed_calls: AtomicU64,
    pub(crate) denied_calls: AtomicU64,
    pub(crate) slow_connections: AtomicU64,
}
