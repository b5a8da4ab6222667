//! The store through its public API, by feature: a file each.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests, which look at real files and threads too"
)]

use engine_tests as common;

mod allocated;
mod attributes;
mod backup;
mod blob_faults;
mod blobs;
mod budgets;
mod bulk_log;
mod compaction;
mod compaction_rules;
mod cursors;
mod devices;
mod direct_io;
mod event_loop;
mod events;
mod examples;
mod expiry;
mod export_import;
mod export_import_faults;
mod export_import_moves;
mod filter_prefix;
mod filters_left_out;
mod formats;
mod full_disk;
mod groups;
mod handles;
mod hostile_paths;
mod idle_space;
mod ingest;
mod insight;
mod lent;
mod limits;
mod long_keys;
mod many_trees;
mod memory;
mod merges;
mod merges_and_expiry;
mod merges_at_once;
mod moved_paths;
mod own_time;
mod range_deletes;
mod reads;
mod reclaim;
mod scrub;
mod share;
mod small_disks;
mod smoke;
mod space;
mod split;
mod staging;
mod tiny_pairs;
mod transfer;
mod typed;
mod updates;
mod value_reads;
mod volatile;
