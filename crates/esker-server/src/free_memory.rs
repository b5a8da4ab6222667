//! The system gets back memory that clients need no more.
//!
//! A client may make the server take hundreds of megabytes in small blocks: a transaction of a million commands, a
//! million channels. When it has gone, the allocator keeps them, because a few live blocks lie between them.

use std::time::Duration;

use tokio::task::spawn_blocking;

use crate::process::memory_bytes;

/// How often the memory is looked at.
const EVERY: Duration = Duration::from_secs(10);

/// Free memory is given back when the process has so much more than after the last time.
const GROWTH_BYTES: u64 = 64 << 20;

/// Gives back free memory, now and then.
pub(crate) async fn give_back() {
    let mut least = memory_bytes();
    loop {
        tokio::time::sleep(EVERY).await;
        let now = memory_bytes();
        least = least.min(now);
        if now > least + GROWTH_BYTES && spawn_blocking(esker::give_back_free_memory).await.is_ok() {
            least = memory_bytes();
        }
    }
}
