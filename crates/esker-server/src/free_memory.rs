//! The system gets back memory that clients need no more.
//!
//! A client may make the server take hundreds of megabytes in small blocks: a transaction of a million commands, a
//! million channels. When it has gone, the allocator keeps them, because a few live blocks lie between them.

use std::time::Duration;

use tokio::task::spawn_blocking;

use crate::process::memory;

/// How often the memory is looked at.
const EVERY: Duration = Duration::from_secs(10);

/// The longest pause, where giving back has brought little: the memory is in use, by the store's caches, say.
const PAUSE_MAX: Duration = Duration::from_secs(40);

/// Free memory is given back when the process has so much more than the least that it had so far.
const GROWTH_BYTES: u64 = 64 << 20;

/// Gives back free memory, now and then. What is in use at one time may be free a little later without the process getting
/// any larger, so it is tried again as long as there is much.
pub(crate) async fn give_back() {
    let (mut least, mut pause) = (memory().resident_bytes, EVERY);
    loop {
        tokio::time::sleep(pause).await;
        let now = memory().resident_bytes;
        least = least.min(now);
        pause = if now <= least + GROWTH_BYTES {
            EVERY
        } else {
            let is_done = spawn_blocking(esker::give_back_free_memory).await.is_ok();
            let has_helped = is_done && memory().resident_bytes + GROWTH_BYTES <= now;
            if has_helped { EVERY } else { PAUSE_MAX.min(2 * pause) }
        };
    }
}
