//! Serves an Esker store to Redis clients.
//!
//! ```text
//! connection::Connection   one task a client: bytes -> commands -> replies, in order
//! server::Server           what they share: evaluates, commits, latches, watches, waiters, channels
//! pool                     threads for what would wait: files, long walks, huge values, a store that is busy
//! ```
//! One thread owns all state and runs everything that needs no wait, so commands take effect one after the other without
//! locks. `docs/server.md` says what clients may rely on.

// Sockets, times and threads are a server's business: tests drive it through its sockets.
#![allow(clippy::disallowed_types)]

use std::fmt;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use esker_journal::Journal;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::LocalSet;

mod acl;
mod backups;
mod buffers;
mod canary;
mod catalog;
mod channels;
mod clients;
mod connection;
mod descriptors;
mod expiries;
mod figures;
mod files;
mod free_memory;
mod guard;
mod handshakes;
mod http;
mod info;
mod insight;
mod keyspace;
mod latches;
mod latency;
mod latency_monitor;
mod listen;
mod logins;
mod memory;
mod metrics;
mod offline;
mod own;
mod passwords;
mod pool;
mod prefixes;
mod process;
mod rates;
mod reports;
mod security;
mod server;
mod settings;
mod syncs;
mod tls;
mod trees;
mod turn;
mod users;
mod waiters;
mod wake;
mod watches;
mod why;

pub use guard::Guard;
pub use listen::{Address, AddressError, KEEPALIVE_S_MAX};
pub use offline::Offline;
pub use security::{Password, Security, Tls};
pub use syncs::StoreEvents;

use listen::Listeners;
use logins::Logins;
use server::Server;
use tls::Certificates;
use users::Users;

/// So much higher than the event loop's is the nice value of the pool's threads. Where threads share a processor, the event
/// loop gets the larger part of it.
#[cfg(target_os = "linux")]
const POOL_NICE: i32 = 5;

/// How long running commands may take to end when the server ends.
const ENDS_WITHIN: Duration = Duration::from_secs(10);

/// How long the pool may take to end after that.
const POOL_ENDS_WITHIN: Duration = Duration::from_secs(2);

/// How often elements are looked for whose collections are gone; and how many times as long as it took it rests at least.
const SWEEP_EVERY: Duration = Duration::from_secs(10);
const SWEEP_RESTS: u32 = 20;

/// What a client may rely on when it has the reply to a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// The write survives the death of the process.
    Process,
    /// It survives power loss.
    Power,
    /// It survives the death of the process, and power loss after this time.
    Every(Duration),
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Durability::Process => f.write_str("process"),
            Durability::Power => f.write_str("power"),
            Durability::Every(time) => write!(f, "every={}ms", time.as_millis()),
        }
    }
}

impl std::str::FromStr for Durability {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no durability: process, power, or every=10ms");
        match text {
            "process" => Ok(Durability::Process),
            "power" => Ok(Durability::Power),
            _ => {
                let time = text.strip_prefix("every=").ok_or_else(wrong)?;
                let (digits, unit) = match time.strip_suffix("ms") {
                    Some(digits) => (digits, 1),
                    None => (time.strip_suffix('s').ok_or_else(wrong)?, 1000),
                };
                let ms = digits.parse::<u32>().map_err(|_| wrong())?;
                let ms = u64::from(ms).saturating_mul(unit);
                if ms == 0 { Err(wrong()) } else { Ok(Durability::Every(Duration::from_millis(ms))) }
            }
        }
    }
}

/// How to serve.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where Redis clients connect.
    pub resp: Vec<Address>,
    /// Where `/metrics`, `/health` and `/ready` are served over HTTP.
    pub http: Vec<Address>,
    /// What a reply to a write promises.
    pub durability: Durability,
    /// How many databases there are.
    pub databases: u16,
    /// The most connections at once.
    pub clients_max: usize,
    /// The most bytes of an argument (`proto-max-bulk-len`).
    pub bulk_bytes_max: u64,
    /// A connection without a command for so many seconds ends; 0: never.
    pub idle_s: u64,
    /// A connection that takes nothing of its replies for so many seconds ends; 0: never.
    pub send_s: u64,
    /// After so many seconds of silence the system asks whether a TCP client is still there; 0: never. At most
    /// [`KEEPALIVE_S_MAX`].
    pub keepalive_s: u64,
    /// The most bytes of what clients have sent and not read, together (`maxmemory-clients`).
    pub clients_bytes_max: usize,
    /// The most bytes of messages that wait for a subscriber.
    pub outbox_bytes_max: usize,
    /// Commands that take at least so many microseconds are slow; below 0: none is.
    pub slow_us: i64,
    /// Events that take at least so many milliseconds are kept for `LATENCY`; 0: none is.
    pub latency_ms: u64,
    /// Where `BGSAVE` makes backups, if it may.
    pub backup_dir: Option<PathBuf>,
    /// How many backups are kept, at least 1.
    pub backups_kept: usize,
    /// The directory of the store, which `CONFIG GET dir` shows.
    pub dir: PathBuf,
    /// Who may connect, and how.
    pub security: Security,
    /// Another server in this process that serves the store too.
    pub beside: Option<Beside>,
}

/// A server of another kind on the same store, in the same process. What it writes, [`Durability::Every`] is about as well.
#[derive(Clone)]
pub struct Beside {
    /// Tells it of the users and the certificates.
    pub guard: Guard,
    /// Whether it uses the certificates.
    pub uses_tls: bool,
    /// The most connections that it has at once: [`Beside::connections_max`] says how many it may have.
    pub connections_max: usize,
    /// Finds out its figures for `/metrics`, on any thread.
    pub figures: Arc<dyn Fn() -> Vec<Figure> + Send + Sync>,
}

impl Beside {
    /// How many of `wanted` connections such a server may have: the process has descriptors for so many, beside those of the
    /// store's files.
    pub fn connections_max(wanted: usize) -> usize {
        descriptors::connections_beside(wanted)
    }
}

impl fmt::Debug for Beside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Beside").field("uses_tls", &self.uses_tls).finish_non_exhaustive()
    }
}

/// A figure for `/metrics`.
#[derive(Debug, Clone, Copy)]
pub struct Figure {
    /// Its name, which gets `esker_` in front. That of a counter ends with `_total`.
    pub name: &'static str,
    /// What it is.
    pub help: &'static str,
    /// Its value.
    pub value: u64,
}

impl Config {
    /// The defaults, for the store in `dir`: no address, 16 databases, 10,000 connections, arguments of 512 MiB.
    pub fn new(dir: impl AsRef<Path>) -> Config {
        Config {
            resp: Vec::new(),
            http: Vec::new(),
            durability: Durability::Process,
            databases: 16,
            clients_max: 10_000,
            bulk_bytes_max: 512 << 20,
            idle_s: 0,
            send_s: 300,
            keepalive_s: 300,
            clients_bytes_max: 1 << 30,
            outbox_bytes_max: 32 << 20,
            slow_us: 10_000,
            latency_ms: 0,
            backup_dir: None,
            backups_kept: 7,
            dir: dir.as_ref().to_path_buf(),
            security: Security::default(),
            beside: None,
        }
    }
}

impl Config {
    /// Looks at the addresses, and reads the files with users and certificates. A server does that itself when it begins; this
    /// is for those who want to know before they open or make a store.
    ///
    /// # Errors
    /// [`ServeError::Address`] for one with TLS without certificates, or for HTTP with TLS. [`ServeError::Security`] if a file
    /// cannot be read, or does not hold what it should.
    pub fn check(&self) -> Result<(), ServeError> {
        let resp = self.resp.iter().map(|address| listen::check(address, self.security.tls.is_some()));
        let http = self.http.iter().map(listen::check_http);
        resp.chain(http).collect::<Result<(), _>>().map_err(ServeError::Address)?;
        users::configured(&self.security).map_err(ServeError::Security)?;
        self.certificates().map(drop)
    }

    fn certificates(&self) -> Result<Option<Certificates>, ServeError> {
        self.security.tls.as_ref().map(Certificates::load).transpose().map_err(ServeError::Security)
    }
}

/// Where a server listens: addresses in the order of the configuration, with the ports that it got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Addresses {
    /// For Redis clients.
    pub resp: Vec<Address>,
    /// For HTTP.
    pub http: Vec<Address>,
}

/// Why a server did not begin, or ended.
#[derive(Debug)]
pub enum ServeError {
    /// An address cannot be listened to; the message says why.
    Address(String),
    /// Users, certificates or keys are not as they should be; the message says how.
    Security(String),
    /// The store failed.
    Store(esker::Error),
    /// The system refused what the event loop needs.
    System(std::io::Error),
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServeError::Address(message) | ServeError::Security(message) => f.write_str(message),
            ServeError::Store(error) => error.fmt(f),
            ServeError::System(error) => write!(f, "the event loop cannot run: {error}"),
        }
    }
}

impl std::error::Error for ServeError {}

impl From<esker::Error> for ServeError {
    fn from(error: esker::Error) -> Self {
        ServeError::Store(error)
    }
}

impl From<std::io::Error> for ServeError {
    fn from(error: std::io::Error) -> Self {
        ServeError::System(error)
    }
}

/// Lowers the priority of this thread, where threads have priorities of their own. The server also works if that fails.
fn yield_to_event_loop() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::nice(POOL_NICE);
}

/// Serves the store of `journal`, which was opened with `events` as its listener, on this thread. All changes of data go
/// through the journal. `ready` is told the addresses when all of
/// them accept connections. When `end` resolves, no new connections are taken; running commands end within 10 seconds. Then
/// the store is synced.
///
/// # Errors
/// [`ServeError`] when an address cannot be listened to, or the store fails.
pub fn serve(
    journal: &Arc<dyn Journal>,
    events: &StoreEvents,
    config: Config,
    ready: impl FnOnce(&Addresses),
    end: impl Future<Output = ()> + 'static,
) -> Result<(), ServeError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(pool::THREADS)
        .thread_name("esker-pool")
        .on_thread_start(yield_to_event_loop)
        .build()?;
    let local = LocalSet::new();
    let served: Result<(), ServeError> = local.block_on(&runtime, async move {
        let configured = users::configured(&config.security).map_err(ServeError::Security)?;
        let guard = config.beside.as_ref().map(|beside| beside.guard.clone()).unwrap_or_default();
        let mut users = Users::new(configured, guard.clone());
        let logins = Logins::new().map_err(|why| ServeError::Security(why.to_owned()))?;
        let certificates = config.certificates()?.map(Arc::new);
        certificates.iter().for_each(|certificates| guard.certify(certificates));
        let resp = Listeners::bind(&config.resp, &config.security, &mut users).await;
        let resp = resp.map_err(ServeError::Address)?;
        let http = Listeners::bind_http(&config.http).await.map_err(ServeError::Address)?;
        let uses_tls = config.resp.iter().any(|address| matches!(address, Address::Tls(..)))
            || config.beside.as_ref().is_some_and(|beside| beside.uses_tls);
        if config.security.tls.is_some() && !uses_tls {
            tracing::warn!("there are certificates, and no address with TLS (tls://HOST:PORT): no connection is encrypted");
        }
        let seed = seed();
        let server = Server::new(journal, config, Arc::clone(&events.syncs), (users, logins), seed)?;
        descriptors::make_room(server.settings.borrow().clients_max);
        let mut tasks = vec![
            tokio::task::spawn_local(sweep(Rc::clone(&server))),
            tokio::task::spawn_local(expiries::tell(Rc::clone(&server))),
            tokio::task::spawn_local(free_memory::give_back()),
            tokio::task::spawn_local(rates::measure(Rc::clone(&server))),
        ];
        let mut handshakes = None;
        if let Some(certificates) = &certificates {
            handshakes = Some(handshakes::start(&server, Arc::clone(certificates))?);
        }
        // Also without certificates: who closes a terminal, or asks all to read their files again, means no end.
        let hangup = signal(SignalKind::hangup())?;
        tasks.push(tokio::task::spawn_local(reload_at(hangup, certificates)));
        let addresses = Addresses { resp: resp.addresses(), http: http.addresses() };
        server.settings.borrow_mut().note_addresses(&addresses.resp);
        ready(&addresses);
        tracing::info!(resp = shown(&addresses.resp), http = shown(&addresses.http), "ready");
        for listener in resp.into_each() {
            tasks.push(tokio::task::spawn_local(listener.accept(Rc::clone(&server), handshakes.clone())));
        }
        // Not among those that the end stops: the last replies of connections promise something too.
        tokio::task::spawn_local(syncs::tell(Rc::clone(&server)));
        if let Durability::Every(time) = server.config.durability {
            tokio::task::spawn_local(sync_every(Rc::clone(&server), time));
        }
        // These answer until the end, so that others hear of it.
        for listener in http.into_each() {
            tokio::task::spawn_local(http::accept(listener, Rc::clone(&server)));
        }
        // In a task of its own, so that it is not asked at each turn of the event loop. A panic is an end too.
        let _ = tokio::task::spawn_local(end).await;
        tracing::info!(connections = server.clients.borrow().len(), "ending");
        tasks.iter().for_each(tokio::task::JoinHandle::abort);
        server.end(ENDS_WITHIN).await;
        Ok(())
    });
    drop(local);
    // What the pool still does after that is not waited for: closing the store ends it.
    runtime.shutdown_timeout(POOL_ENDS_WITHIN);
    served?;
    Ok(journal.db().sync()?)
}

fn shown(addresses: &[Address]) -> String {
    addresses.iter().map(Address::to_string).collect::<Vec<_>>().join(" ")
}

/// Has the certificates read again at each SIGHUP, if there are any.
async fn reload_at(mut hangup: Signal, certificates: Option<Arc<Certificates>>) {
    while hangup.recv().await.is_some() {
        let Some(certificates) = certificates.clone() else { continue };
        // A panic is that of the pool's thread; the certificates stay as they are.
        let _ = tokio::task::spawn_blocking(move || certificates.reload()).await;
    }
}

/// A number that differs from run to run.
fn seed() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new().build_hasher().finish()
}

/// Has the log synced each time that `time` has passed and something was written.
async fn sync_every(server: Rc<Server>, time: Duration) {
    let mut timer = tokio::time::interval(time);
    timer.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        timer.tick().await;
        if server.syncs.take_dirty() || server.config.beside.is_some() {
            server.db.request_sync();
        }
    }
}

/// Deletes elements of collections that have expired or were overwritten, now and then.
async fn sweep(server: Rc<Server>) {
    loop {
        let begun = tokio::time::Instant::now();
        server.sweep().await;
        tokio::time::sleep(SWEEP_EVERY.max(begun.elapsed() * SWEEP_RESTS)).await;
    }
}
