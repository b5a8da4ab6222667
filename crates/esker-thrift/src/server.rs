//! The server: a thread for each connection, and the end of all of them.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use esker_table::Tables;

use crate::connection::{Connection, Limits};
use crate::gateway::Gateway;
use crate::scanners::Scanners;

/// How much a thread's stack may grow; memory is taken as it does.
const STACK: usize = 1 << 20;

/// After a silence of this length, the kernel asks whether a client still exists.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// How long connections have to end their calls.
const ENDS_WITHIN: Duration = Duration::from_secs(10);

/// How a server of tables behaves.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where it listens. Only clients of this machine can be served: they have no users and no passwords.
    pub listen: SocketAddr,
    /// The most connections at once; one more is closed at once.
    pub connections_max: usize,
    /// The longest message of a client, and the longest answer, in bytes.
    pub message_len_max: usize,
    /// How many bytes all connections may have for messages together, each its first 16 KiB aside.
    pub messages_len_max: usize,
    /// How long a message may take from its first byte to its last, and how long a client may take nothing of an answer.
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
            connections_max: 1000,
            message_len_max: 64 << 20,
            messages_len_max: 256 << 20,
            message_time: Duration::from_secs(60),
            scanners_max: 1000,
            scanner_lease: Duration::from_secs(60),
        }
    }
}

impl Config {
    /// Whether a server may listen there.
    ///
    /// # Errors
    /// `Address` when other machines could reach the address.
    pub fn check(&self) -> Result<(), Error> {
        if self.listen.ip().is_loopback() {
            return Ok(());
        }
        let listen = self.listen;
        Err(Error::Address(format!(
            "{listen} can be reached from other machines, and clients of this interface have no users: \
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
    is_ending: AtomicBool,
    connections: Mutex<BTreeMap<u64, Arc<TcpStream>>>,
    fewer: Condvar,
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
    fn connections(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<TcpStream>>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, stream: &TcpStream, address: SocketAddr) {
        let prepared = stream
            .set_nodelay(true)
            .and_then(|()| stream.set_write_timeout(Some(self.config.message_time)))
            .and_then(|()| Ok(rustix::net::sockopt::set_socket_keepalive(stream, true)?))
            .and_then(|()| Ok(rustix::net::sockopt::set_tcp_keepidle(stream, KEEPALIVE)?));
        if prepared.is_err() {
            return;
        }
        let gateway = Gateway {
            tables: &self.tables,
            scanners: Scanners::new(self.config.scanners_max, self.config.scanner_lease),
            host: address.ip().to_string(),
            port: address.port(),
            reply_len_max: self.config.message_len_max,
            rows_len: (8 << 20).min(self.config.message_len_max / 2),
        };
        if let Some(why) = Connection::new(stream, &self.limits, gateway).run() {
            let client =
                stream.peer_addr().map_or_else(|_| "unknown".to_owned(), |client| client.to_string());
            tracing::warn!(client, why, "closed a connection");
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
        let stream = self.shared.connections().remove(&self.number);
        if let Some(stream) = stream {
            let _ = stream.shutdown(Shutdown::Both);
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
        let shared = Shared {
            tables,
            config,
            limits,
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
    /// When the address cannot be listened at any more.
    pub fn run(self) -> io::Result<()> {
        let mut number = 0;
        while !self.shared.is_ending.load(Ordering::Acquire) {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(_) if self.shared.is_ending.load(Ordering::Acquire) => break,
                Err(error) if is_passing(&error) => {
                    // Without descriptors or memory, waiting for a connection to end is all that helps.
                    tracing::warn!(error = error.to_string(), "cannot accept a connection");
                    let connections = self.shared.connections();
                    drop(self.shared.fewer.wait_timeout(connections, Duration::from_millis(100)));
                    continue;
                }
                Err(error) => return Err(error),
            };
            number += 1;
            self.begin(stream, number);
        }
        self.end();
        Ok(())
    }

    fn begin(&self, stream: TcpStream, number: u64) {
        let stream = Arc::new(stream);
        {
            let mut connections = self.shared.connections();
            if connections.len() >= self.shared.config.connections_max {
                tracing::warn!(connections = connections.len(), "closed a connection: there are too many");
                return;
            }
            connections.insert(number, Arc::clone(&stream));
        }
        let entry = Entry { shared: Arc::clone(&self.shared), number };
        let address = self.address;
        let thread = std::thread::Builder::new().name("esker-thrift".to_owned()).stack_size(STACK);
        let spawned = thread.spawn(move || entry.shared.serve(&stream, address));
        if let Err(error) = spawned {
            tracing::warn!(error = error.to_string(), "closed a connection: there is no thread for it");
        }
    }

    /// Lets the connections answer what they have read.
    fn end(&self) {
        let mut connections = self.shared.connections();
        for stream in connections.values() {
            let _ = stream.shutdown(Shutdown::Read);
        }
        let ended = self.shared.fewer.wait_timeout_while(connections, ENDS_WITHIN, |left| !left.is_empty());
        connections = ended.unwrap_or_else(PoisonError::into_inner).0;
        for stream in connections.values() {
            let _ = stream.shutdown(Shutdown::Both);
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
    /// Tells the server to end.
    pub fn stop(&self) {
        self.shared.is_ending.store(true, Ordering::Release);
        // Wakes the one who waits for a connection.
        let _ = rustix::net::shutdown(&*self.listener, rustix::net::Shutdown::Both);
    }
}
