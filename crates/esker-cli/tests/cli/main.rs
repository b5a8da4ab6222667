//! The program `esker` as users run it, by theme: a file each.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a test that cannot go on should stop; tests look at files as anybody may"
)]

mod configuration;
mod failing_calls;
mod figures;
mod files;
mod formats;
mod harm;
mod media;
mod operations;
mod oracle;
mod outputs;
mod processes;
mod ql;
mod reader;
mod readme;
mod serve;
mod serve_chaos;
mod serve_histories;
mod serve_tables;
mod server_docs;
mod sessions;
mod shell;
mod support;
mod thrift;
mod url;
