//! A server as clients meet it, through its sockets: a file for each theme.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a test that cannot go on should stop; tests use threads, files and clocks as any client may"
)]

use test_kit::redis as client;

mod host;

mod acl;
mod acl_files;
mod addresses;
mod atomicity;
mod backups;
mod bad_input;
mod blocking;
mod catalog;
mod channels;
mod durability;
mod full_disk;
mod http;
mod huge_values;
mod insight;
mod keepalive;
mod keyspace;
mod late;
mod like_redis;
mod limits;
mod long_names;
mod model;
mod passwords;
mod pipelines;
mod protocol;
mod restarts;
mod scans;
mod slow_clients;
mod tls;
mod transactions;
mod watches;
