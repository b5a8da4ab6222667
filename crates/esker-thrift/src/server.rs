//! The server: a thread for each connection, and the end of all of them.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use esker_table::Tables;

use crate::access::{Access, Certificates};
use crate::connection::{Connection, Limits};
use crate::figures::{Counters, Figures};
use crate::gateway::Gateway;
use crate::memory::{Memory, ReplyLimits, Share};
use crate::scanners::{Numbers, Scanners};
use crate::stream::Stream;

/// How much a thread's stack may grow; memory is taken as it does.
const STACK: usize = 1 << 20;

/// After a silence of this length, the kernel asks whether a client still exists.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// How far apart lines of the log are that clients cause.
const LINES_APART: Duration = Duration::from_secs(1);

/// How long connections have to end their calls.
const ENDS_WITHIN: Duration = Duration::from_secs(10);

/// How a server of tables behaves.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where it listens.
    pub listen: SocketAddr,
    /// What clients may do; `None`: everything.
    pub access: Option<Arc<dyn Access>>,
    /// Encrypts connections.
    pub certificates: Option<Arc<dyn Certificates>>,
    /// Whether other machines may reach the address: `access` then must let nobody do anything who is unknown.
    pub is_public: bool,
    /// The most connections at once; one more is closed at once.
    pub connections_max: usize,
    /// The longest message of a client, and the longest answer, in bytes.
    pub message_len_max: usize,
    /// How many bytes all connections may have for messages together, each its first 16 KiB aside.
    pub messages_len_max: usize,
    /// How many bytes all connections may have for calls that run and for answers together, each its first 512 KiB aside. One
    /// call may exceed it.
    pub calls_len_max: usize,
    /// How long a message may take from its first byte to its last, how long a client may take nothing of an answer, and how
    /// long a call waits for memory. After a twentieth of it, clients that have memory for which others wait are closed unless
    /// they take a MiB a second of their answers.
    pub message_time: Duration,
    /// The most open scanners of a connection.
    pub scanners_max: usize,
    /// A scanner that was not asked for so long is closed.
    pub scanner_lease: Duration,
}

impl Default for Config {
    /// As many connections as HBase's gateway has. A message of 64 MiB has a cell of the largest size by far that HBase
    /// takes (10 MiB unless configured), and batches of 1,000 rows with 64 KiB each.
    fn default() -> Config {
        Config {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 9090)),
            access: None,
            certificates: None,
            is_public: false,
            connections_max: 1000,
            message_len_max: 64 << 20,
            messages_len_max: 256 << 20,
            calls_len_max: 256 << 20,
            message_time: Duration::from_secs(60),
            scanners_max: 1000,
            scanner_lease: Duration::from_secs(120),
        }
    }
}

impl Config {
    /// Whether a server may listen there.
    ///
    /// # Errors
    /// `Address` when other machines could reach the address.
    pub fn check(&self) -> Result<(), Error> {
        if self.listen.ip().is_loopback() || (self.is_public && self.access.is_some()) {
            return Ok(());
        }
        let listen = self.listen;
        Err(Error::Address(format!(
            "{listen} can be reached from other machines, and nothing tells who their clients are: \
             listen at 127.0.0.1 or [::1]"
        )))
    }
}

/// Why a server does not begin.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// It must not listen there.
    Address(String),
    /// It cannot listen there.
    Listen(SocketAddr, io::Error),
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::Address(message) => f.write_str(message),
            Error::Listen(address, error) => write!(f, "cannot listen at {address}: {error}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Address(_) => None,
            Error::Listen(_, error) => Some(error),
        }
    }
}

/// A server of tables that listens.
pub struct Server {
    shared: Arc<Shared>,
    listener: Arc<TcpListener>,
    address: SocketAddr,
}

/// Ends a server from another thread.
#[derive(Clone)]
pub struct Stopper {
    shared: Arc<Shared>,
    listener: Arc<TcpListener>,
}

struct Shared {
    tables: Tables,
    config: Config,
    limits: Limits,
    memory: Memory,
    figures: Counters,
    numbers: Numbers,
    /// Lines about connections that clients have broken, that were too many, and that could not be had.
    broken: Lines,
    too_many: Lines,
    not_accepted: Lines,
    is_ending: AtomicBool,
    connections: Mutex<BTreeMap<u64, Open>>,
    fewer: Condvar,
}

/// A connection.
struct Open {
    stream: Arc<TcpStream>,
    /// Whether nobody knows yet whose it is.
    is_handshaking: bool,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("address", &self.address).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for Stopper {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stopper").finish_non_exhaustive()
    }
}

impl Shared {
    fn connections(&self) -> MutexGuard<'_, BTreeMap<u64, Open>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, socket: &TcpStream, number: u64, address: SocketAddr) {
        let prepared = socket
            .set_nodelay(true)
            .and_then(|()| Ok(rustix::net::sockopt::set_socket_keepalive(socket, true)?))
            .and_then(|()| Ok(rustix::net::sockopt::set_tcp_keepidle(socket, KEEPALIVE)?));
        if prepared.is_err() {
            return;
        }
        // Once it has gone, nobody knows.
        let client = socket.peer_addr().map_or_else(|_| "unknown".to_owned(), |client| client.to_string());
        let (share, write_time) = (Share::new(&self.memory), self.config.message_time);
        let (stream, certificate) = match &self.config.certificates {
            None => (Stream::plain(socket, write_time, &share), None),
            Some(certificates) => match Stream::tls(socket, write_time, &share, &**certificates) {
                Ok(begun) => begun,
                Err(error) => {
                    self.figures.failed_handshakes.fetch_add(1, Ordering::Relaxed);
                    tracing::debug!(error = error.to_string(), "a TLS handshake has failed");
                    return;
                }
            },
        };
        match self.connections().get_mut(&number) {
            Some(open) => open.is_handshaking = false,
            // Others have taken its place.
            None => return,
        }
        let gateway = Gateway {
            tables: &self.tables,
            access: self.config.access.as_deref(),
            certificate,
            figures: &self.figures,
            scanners: Scanners::new(
                self.config.scanners_max,
                self.config.scanner_lease,
                self.numbers.clone(),
            ),
            host: address.ip().to_string(),
            port: address.port(),
            limits: ReplyLimits {
                len_max: self.config.message_len_max,
                rows_len: (8 << 20).min(self.config.message_len_max / 2),
                pauses_at: usize::MAX,
                share: &share,
            },
        };
        if let Some(why) = Connection::new(stream, &self.limits, gateway).run()
            && let Some(left_out) = self.broken.admits(Instant::now())
        {
            tracing::warn!(client, why, left_out, "closed a connection");
        }
    }
}

/// Which lines go to the log of those that clients cause: one in [`LINES_APART`], so that nobody fills a disk with them.
#[derive(Debug, Default)]
struct Lines {
    /// When the last one went there, and how many were left out since.
    last: Mutex<Option<(Instant, u64)>>,
}

impl Lines {
    /// How many lines were left out before this one. `None`: this one is too.
    fn admits(&self, now: Instant) -> Option<u64> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *last {
            Some((at, left_out)) if now.duration_since(*at) < LINES_APART => {
                *left_out += 1;
                None
            }
            other => Some(other.replace((now, 0)).map_or(0, |(_, left_out)| left_out)),
        }
    }
}

/// Ends a connection's entry also if its thread panics.
struct Entry {
    shared: Arc<Shared>,
    number: u64,
}

impl Drop for Entry {
    fn drop(&mut self) {
        let open = self.shared.connections().remove(&self.number);
        if let Some(open) = open {
            let _ = open.stream.shutdown(Shutdown::Both);
        }
        self.shared.fewer.notify_all();
    }
}

impl Server {
    /// Listens for clients of `tables`. They are served once [`Server::run`] is called.
    ///
    /// # Errors
    /// `Address` when other machines could reach the address, `Listen` when it cannot be had.
    pub fn bind(tables: Tables, config: Config) -> Result<Server, Error> {
        config.check()?;
        let listen = config.listen;
        let listener = TcpListener::bind(listen).map_err(|error| Error::Listen(listen, error))?;
        let address = listener.local_addr().map_err(|error| Error::Listen(listen, error))?;
        let limits = Limits {
            message_len_max: config.message_len_max,
            message_time: config.message_time,
            lease_check: (config.scanner_lease / 4).max(Duration::from_millis(10)),
            room: AtomicUsize::new(config.messages_len_max),
        };
        let memory =
            Memory::new(config.calls_len_max, config.message_len_max + (64 << 10), config.message_time);
        let shared = Shared {
            tables,
            config,
            limits,
            memory,
            figures: Counters::default(),
            numbers: Numbers::default(),
            broken: Lines::default(),
            too_many: Lines::default(),
            not_accepted: Lines::default(),
            is_ending: AtomicBool::new(false),
            connections: Mutex::default(),
            fewer: Condvar::new(),
        };
        Ok(Server { shared: Arc::new(shared), listener: Arc::new(listener), address })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What ends it.
    pub fn stopper(&self) -> Stopper {
        Stopper { shared: Arc::clone(&self.shared), listener: Arc::clone(&self.listener) }
    }

    /// Serves clients until it is told to end. Then calls that run are ended and answered, within 10 seconds.
    ///
    /// # Errors
    /// When the address cannot be listened at any more. Connections that are open are served on.
    pub fn run(self) -> io::Result<()> {
        let accepted = self.accept();
        // A stopper may hold the listener: nobody is to wait at it.
        let _ = rustix::net::shutdown(&*self.listener, rustix::net::Shutdown::Both);
        if accepted.is_ok() {
            self.end();
        }
        accepted
    }

    /// Accepts connections until it is told to end.
    fn accept(&self) -> io::Result<()> {
        let mut number = 0;
        while !self.shared.is_ending.load(Ordering::Acquire) {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(_) if self.shared.is_ending.load(Ordering::Acquire) => break,
                Err(error) if is_passing(&error) => {
                    // Without descriptors or memory, waiting for a connection to end is all that helps.
                    if let Some(left_out) = self.shared.not_accepted.admits(Instant::now()) {
                        tracing::warn!(error = error.to_string(), left_out, "cannot accept a connection");
                    }
                    let connections = self.shared.connections();
                    drop(self.shared.fewer.wait_timeout(connections, Duration::from_millis(100)));
                    continue;
                }
                Err(error) => return Err(error),
            };
            number += 1;
            self.begin(stream, number);
        }
        Ok(())
    }

    fn begin(&self, stream: TcpStream, number: u64) {
        let stream = Arc::new(stream);
        {
            let mut connections = self.shared.connections();
            let is_full = connections.len() >= self.shared.config.connections_max;
            // Of those in handshakes, the oldest one makes room: a client that says nothing keeps nobody out.
            let oldest = connections.iter().find(|(_, open)| is_full && open.is_handshaking);
            if let Some(oldest) = oldest.map(|(number, _)| *number)
                && let Some(open) = connections.remove(&oldest)
            {
                let _ = open.stream.shutdown(Shutdown::Both);
            } else if is_full {
                self.shared.figures.refused_connections.fetch_add(1, Ordering::Relaxed);
                if let Some(left_out) = self.shared.too_many.admits(Instant::now()) {
                    let connections = connections.len();
                    tracing::warn!(connections, left_out, "closed a connection: there are too many");
                }
                return;
            }
            let is_handshaking = self.shared.config.certificates.is_some();
            connections.insert(number, Open { stream: Arc::clone(&stream), is_handshaking });
            self.shared.figures.connections.fetch_add(1, Ordering::Relaxed);
        }
        let entry = Entry { shared: Arc::clone(&self.shared), number };
        let address = self.address;
        let thread = std::thread::Builder::new().name("esker-thrift".to_owned()).stack_size(STACK);
        let spawned = thread.spawn(move || entry.shared.serve(&stream, number, address));
        if let Err(error) = spawned
            && let Some(left_out) = self.shared.not_accepted.admits(Instant::now())
        {
            let error = error.to_string();
            tracing::warn!(error, left_out, "closed a connection: there is no thread for it");
        }
    }

    /// Lets the connections answer what they have read.
    fn end(&self) {
        self.shared.memory.end();
        let mut connections = self.shared.connections();
        for open in connections.values() {
            let _ = open.stream.shutdown(Shutdown::Read);
        }
        let ended = self.shared.fewer.wait_timeout_while(connections, ENDS_WITHIN, |left| !left.is_empty());
        connections = ended.unwrap_or_else(PoisonError::into_inner).0;
        for open in connections.values() {
            let _ = open.stream.shutdown(Shutdown::Both);
        }
    }
}

/// Whether another connection may be accepted after this error.
fn is_passing(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let passing = [
        Errno::CONNABORTED,
        Errno::INTR,
        Errno::MFILE,
        Errno::NFILE,
        Errno::NOBUFS,
        Errno::NOMEM,
        Errno::PERM,
        Errno::PROTO,
    ];
    Errno::from_io_error(error).is_some_and(|errno| passing.contains(&errno))
}

impl Stopper {
    /// What the server has done.
    pub fn figures(&self) -> Figures {
        let counters = &self.shared.figures;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Figures {
            open_connections: self.shared.connections().len() as u64,
            connections: read(&counters.connections),
            refused_connections: read(&counters.refused_connections),
            failed_handshakes: read(&counters.failed_handshakes),
            calls: read(&counters.calls),
            failed_calls: read(&counters.failed_calls),
            denied_calls: read(&counters.denied_calls),
            calls_len: self.shared.memory.taken(),
            waiting_calls: self.shared.memory.waiting(),
            waited_calls: self.shared.memory.waited(),
            slow_connections: read(&counters.slow_connections),
        }
    }

    /// Tells the server to end.
    pub fn stop(&self) {
        self.shared.is_ending.store(true, Ordering::Release);
        // Wakes the one who waits for a connection.
        let _ = rustix::net::shutdown(&*self.listener, rustix::net::Shutdown::Both);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_do_not_fill_the_log() {
        let (lines, begun) = (Lines::default(), Instant::now());
        let at = |ms: u64| lines.admits(begun + Duration::from_millis(ms));
        assert_eq!(
            [at(0), at(1), at(999), at(1000), at(1001), at(1500), at(2500)]
                .map(|line| line.map_or(-1, i128::from)),
            [0, -1, -1, 2, -1, -1, 2]
        );
        assert_eq!([at(9000), at(20_000)], [Some(0); 2]);
    }
}
