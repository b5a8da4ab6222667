//! The arguments of `serve`. Each is also a setting of its file, and has a variable (`config`).

use std::path::PathBuf;

use clap::builder::RangedU64ValueParser;
use clap::{Arg, Args, ValueEnum};
use esker_server::{Address, Durability, KEEPALIVE_S_MAX};

use super::units::parse_size;

/// The variable with the password of the user `default`.
pub(crate) const PASSWORD: &str = "ESKER_PASSWORD";

/// The flag that prints the configuration. It is not a setting.
pub(crate) const PRINT: &str = "print-config";

/// The longest time that is given in seconds.
const SECONDS_MAX: u64 = i32::MAX as u64;

/// Gives a flag of `serve` its variable: `--max-clients` has `ESKER_MAX_CLIENTS`.
fn with_variable(flag: Arg) -> Arg {
    match flag.get_long() {
        Some(PRINT) | None => flag,
        Some(name) => {
            let variable = format!("ESKER_{}", name.to_ascii_uppercase().replace('-', "_"));
            flag.env(variable)
        }
    }
}

#[derive(Debug, Args)]
#[command(mut_args(with_variable))]
pub(crate) struct Serve {
    /// Read settings from this TOML file: their names are those of the flags. Flags and variables come first
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Print the configuration in force as such a file, and exit
    #[arg(long)]
    pub(crate) print_config: bool,
    /// Listen here for Redis clients: HOST:PORT (port 0: any free one), tls://HOST:PORT or unix:PATH. May be given several times.
    /// Without --resp and --http: 127.0.0.1:6379
    #[arg(long, value_name = "ADDR", value_delimiter = ' ')]
    pub(crate) resp: Vec<Address>,
    /// Serve /metrics, /health and /ready here. May be given several times. Without --resp and --http: 127.0.0.1:8080
    #[arg(long, value_name = "ADDR", value_delimiter = ' ')]
    pub(crate) http: Vec<Address>,
    /// Serve the store's tables to HBase's Thrift clients here: HOST:PORT, or tls://HOST:PORT with the certificates below
    #[arg(long, value_name = "ADDR")]
    pub(crate) thrift: Option<Address>,
    /// The user of ACL that HBase's clients act as, unless their certificate names another one. Without it, those without such
    /// a certificate are the user `default`, at an address of this machine and if that user needs no password
    #[arg(long, value_name = "NAME")]
    pub(crate) thrift_user: Option<String>,
    /// Keep answers to repeated reads of tables in so much memory, of what --memory gives, until what they read is written
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) query_cache: Option<usize>,
    /// What the reply to a write promises: `process` (it survives the death of the process), `power` (and power loss),
    /// or `every=10ms` (and power loss after this time)
    #[arg(long, value_name = "WHEN", default_value = "process")]
    pub(crate) durability: Durability,
    /// How many databases there are, from 1 to 1024
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) databases: u16,
    /// The most connections at once
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = RangedU64ValueParser::<usize>::new().range(1..))]
    pub(crate) max_clients: usize,
    /// The most memory for what all connections have sent and not been answered, or been answered and not read
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = parse_size)]
    pub(crate) max_clients_memory: usize,
    /// The most bytes of messages that wait for a subscriber; beyond that it is disconnected
    #[arg(long, value_name = "SIZE", default_value = "32M", value_parser = parse_size)]
    pub(crate) max_outbox: usize,
    /// The longest argument of a command; at least 1M
    #[arg(long, value_name = "SIZE", default_value = "512M", value_parser = parse_argument_size)]
    pub(crate) max_argument: usize,
    /// Close a connection that has sent no command for so many seconds; 0: never
    #[arg(long, value_name = "SECONDS", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=SECONDS_MAX))]
    pub(crate) timeout: u64,
    /// Close a connection that has taken nothing of its replies for so many seconds; 0: never
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(..=SECONDS_MAX))]
    pub(crate) send_timeout: u64,
    /// After so many seconds of silence, have the system ask whether a TCP client is still there; 0: never
    #[arg(long, value_name = "SECONDS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(..=KEEPALIVE_S_MAX))]
    pub(crate) tcp_keepalive: u64,
    /// Commands that take so many microseconds are slow; -1: none is
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 10_000, allow_negative_numbers = true)]
    pub(crate) slowlog_log_slower_than: i64,
    /// Keep events that take so many milliseconds for LATENCY; 0: none
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 0)]
    pub(crate) latency_monitor_threshold: u64,
    /// Where BGSAVE makes backups (`esker restore` reads them); without it, no client can make any
    #[arg(long, value_name = "DIR")]
    pub(crate) backup_dir: Option<PathBuf>,
    /// How many backups BGSAVE keeps there
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) backup_keep: u16,
    /// The form of the log on standard error
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = LogFormat::Text)]
    pub(crate) log_format: LogFormat,
    /// The least important events that are logged
    #[arg(long, value_name = "LEVEL", value_enum, default_value_t = LogLevel::Info)]
    pub(crate) log_level: LogLevel,
    #[command(flatten)]
    pub(crate) security: Security,
}

/// Who may connect, and how.
#[derive(Debug, Args)]
pub(crate) struct Security {
    /// The server's certificate for tls:// addresses, and those between it and a root: PEM. SIGHUP has it read again
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The key of the certificate: PEM
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Ask clients for certificates, which one of these roots has signed: PEM. A client is the user whose name is in its
    /// certificate, if there is such a user
    #[arg(long, value_name = "FILE")]
    pub(crate) tls_client_ca: Option<PathBuf>,
    /// Whether a client needs a certificate (`yes`) or may come without (`optional`)
    #[arg(long, value_name = "WHEN", default_value = "yes")]
    pub(crate) tls_auth_clients: AuthClients,
    /// The file with the users and their rights, in the form of Redis: read at the start and by ACL LOAD, written by ACL SAVE
    #[arg(long, value_name = "FILE")]
    pub(crate) acl_file: Option<PathBuf>,
    /// The file whose first line is the password of the user `default`. The variable ESKER_PASSWORD does the same
    #[arg(long, value_name = "FILE")]
    pub(crate) password_file: Option<PathBuf>,
    /// Listen to addresses that other machines can reach even if a user needs no password: anybody there is that user
    #[arg(long)]
    pub(crate) insecure_no_password: bool,
}

/// Whether clients need certificates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AuthClients {
    /// They do
    Yes,
    /// They may come without
    Optional,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// A line for people
    Text,
    /// A JSON object a line
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
}

fn parse_argument_size(typed: &str) -> Result<usize, String> {
    let bytes = parse_size(typed)?;
    if bytes < 1 << 20 { Err("an argument may have at least 1M".to_owned()) } else { Ok(bytes) }
}
