//! The arguments of `serve`.

use clap::Args;
use esker_server::{Address, Durability};

#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Listen here for Redis clients: HOST:PORT (port 0: any free one) or unix:PATH. May be given several times.
    /// Default: 127.0.0.1:6379
    #[arg(long, value_name = "ADDR", env = "ESKER_RESP", value_delimiter = ' ')]
    pub(crate) resp: Vec<Address>,
    /// What the reply to a write promises: `process` (it survives the death of the process), `power` (and power loss),
    /// or `every=10ms` (and power loss after this time)
    #[arg(long, value_name = "WHEN", env = "ESKER_DURABILITY", default_value = "process")]
    pub(crate) durability: Durability,
    /// How many databases there are, from 1 to 1024
    #[arg(long, value_name = "N", env = "ESKER_DATABASES", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) databases: u16,
    /// The most connections at once
    #[arg(long, value_name = "N", env = "ESKER_MAX_CLIENTS", default_value_t = 10_000)]
    pub(crate) max_clients: usize,
    /// Close a connection that has sent no command for so many seconds; 0: never
    #[arg(long, value_name = "SECONDS", env = "ESKER_TIMEOUT", default_value_t = 0)]
    pub(crate) timeout: u64,
}
