//! The arguments of `thrift`.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;
use clap::builder::RangedU64ValueParser;

use super::serve::{LogFormat, LogLevel};
use super::units::{parse_size, parse_time};

#[derive(Debug, Args)]
pub(crate) struct Thrift {
    /// Listen here: HOST:PORT of this machine (port 0: any free one)
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:9090")]
    pub(crate) listen: SocketAddr,
    /// The most connections at once
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    pub(crate) max_connections: usize,
    /// The longest message of a client, and the longest answer
    #[arg(long, value_name = "SIZE", default_value = "64M", value_parser = parse_message_size)]
    pub(crate) max_message: usize,
    /// The most memory for the messages of all connections that have not been answered
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = parse_size)]
    pub(crate) max_messages_memory: usize,
    /// The most memory for all calls that run and their answers, until those are sent; one call may exceed it
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = parse_size)]
    pub(crate) max_calls_memory: usize,
    /// Close a scanner that was not asked for so long: a number with s, m, h or d
    #[arg(long, value_name = "TIME", default_value = "120s", value_parser = parse_time)]
    pub(crate) scanner_lease: Duration,
    /// The most open scanners of a connection
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    pub(crate) max_scanners: usize,
    /// Answer repeated reads from so much memory, of what --memory gives, until what they read is written
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) query_cache: Option<usize>,
    /// The form of the log on standard error
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = LogFormat::Text)]
    pub(crate) log_format: LogFormat,
    /// The least important events that are logged
    #[arg(long, value_name = "LEVEL", value_enum, default_value_t = LogLevel::Info)]
    pub(crate) log_level: LogLevel,
}

/// Lengths on the wire have 31 bits.
fn parse_message_size(typed: &str) -> Result<usize, String> {
    match parse_size(typed)? {
        bytes @ 0x10000..=0x4000_0000 => Ok(bytes),
        _ => Err("a message may have 64K to 1G".to_owned()),
    }
}
