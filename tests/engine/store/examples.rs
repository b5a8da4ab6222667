//! The examples run, and what they assert holds.

#[path = "../../../crates/esker/examples/cache.rs"]
mod cache;
#[path = "../../../crates/esker/examples/from_async.rs"]
mod from_async;
#[path = "../../../crates/esker/examples/inventory.rs"]
mod inventory;
#[path = "../../../crates/esker/examples/media.rs"]
mod media;
#[path = "../../../crates/esker/examples/queue.rs"]
mod queue;

#[test]
fn a_cache_whose_entries_expire() {
    cache::main().unwrap();
}

#[test]
fn calls_from_async_code() {
    from_async::main().unwrap();
}

#[test]
fn an_inventory() {
    inventory::main().unwrap();
}

#[test]
fn a_media_library() {
    media::main().unwrap();
}

#[test]
fn a_durable_queue_with_several_consumers() {
    queue::main().unwrap();
}
