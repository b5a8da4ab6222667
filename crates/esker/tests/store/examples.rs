//! The examples run, and what they assert holds.

#[path = "../../examples/cache.rs"]
mod cache;
#[path = "../../examples/from_async.rs"]
mod from_async;
#[path = "../../examples/inventory.rs"]
mod inventory;
#[path = "../../examples/media.rs"]
mod media;
#[path = "../../examples/queue.rs"]
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
