//! Addresses, and the sockets behind them.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::rc::Rc;
use std::str::FromStr;
use std::task::{self, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, ReadBuf};
use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixListener, UnixStream};
use tokio::sync::mpsc::Sender;

use crate::connection;
use crate::handshakes::Raw;
use crate::reports::Reports;
use crate::security::Security;
use crate::server::Server;
use crate::tls::TlsStream;
use crate::users::Users;

/// How long a listener rests that cannot accept: no descriptors are left, say.
const REST: Duration = Duration::from_millis(100);

/// So many connections may wait to be accepted. If more come, a client tries again after a second, and one that opens
/// thousands at once would often meet that. Linux allows no more by default (`net.core.somaxconn`).
pub(crate) const BACKLOG: u32 = 4096;

/// The longest silence before keepalive: Linux takes no more than a 16-bit number of seconds.
pub const KEEPALIVE_S_MAX: u64 = 32_767;

/// A client that answers none of so many questions is gone.
const PROBES: u32 = 3;

/// Where a server listens: `HOST:PORT`, where port 0 is any free one, `tls://HOST:PORT`, or `unix:PATH`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A host and a port.
    Tcp(String, u16),
    /// A host and a port, with TLS.
    Tls(String, u16),
    /// A socket in the file system.
    Unix(PathBuf),
}

/// Text that is no address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressError(String);

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for AddressError {}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Tcp(host, port) => f.write_str(&joined(host, *port)),
            Address::Tls(host, port) => write!(f, "tls://{}", joined(host, *port)),
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// A host and a port as one text.
fn joined(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let wrong =
            || AddressError(format!("{text:?} is no address: HOST:PORT, tls://HOST:PORT or unix:PATH"));
        if let Some(path) = text.strip_prefix("unix:") {
            return if path.is_empty() { Err(wrong()) } else { Ok(Address::Unix(PathBuf::from(path))) };
        }
        let (is_tls, rest) = text.strip_prefix("tls://").map_or((false, text), |rest| (true, rest));
        let (host, port) = rest.rsplit_once(':').ok_or_else(wrong)?;
        let port = port.parse().map_err(|_| wrong())?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        match host {
            host if host.is_empty() || host.contains('/') => Err(wrong()),
            host if is_tls => Ok(Address::Tls(host.to_owned(), port)),
            host => Ok(Address::Tcp(host.to_owned(), port)),
        }
    }
}

enum Socket {
    Tcp(TcpListener),
    Tls(TcpListener),
    /// With its path, and the device and the number of the file that was made there.
    Unix(UnixListener, PathBuf, (u64, u64)),
}

pub(crate) struct Listener {
    socket: Socket,
    address: Address,
}

/// All sockets that a server listens to.
pub(crate) struct Listeners(Vec<Listener>);

impl Listeners {
    /// Listens to all addresses. If other machines can reach one of them, and not everybody there shows a certificate,
    /// each user needs a password from now on.
    ///
    /// # Errors
    /// An address that cannot be listened to, or that would let anybody in.
    pub(crate) async fn bind(
        addresses: &[Address],
        security: &Security,
        users: &mut Users,
    ) -> Result<Listeners, String> {
        let mut listeners = Vec::new();
        for address in addresses {
            check(address, security.tls.is_some())?;
            listeners.push(match address {
                Address::Tcp(host, port) => tcp(host, *port, false, security, users).await?,
                Address::Tls(host, port) => tcp(host, *port, true, security, users).await?,
                Address::Unix(path) => unix(path).await?,
            });
        }
        Ok(Listeners(listeners))
    }

    /// Listens for HTTP, which has no users and no TLS: to loopback addresses and unix sockets only.
    ///
    /// # Errors
    /// An address that cannot be listened to, or that others can reach.
    pub(crate) async fn bind_http(addresses: &[Address]) -> Result<Listeners, String> {
        let mut listeners = Vec::new();
        for address in addresses {
            listeners.push(match address {
                Address::Tls(..) => return Err(http_has_no_tls(address)),
                Address::Tcp(host, port) => local_tcp(host, *port).await?,
                Address::Unix(path) => unix(path).await?,
            });
        }
        Ok(Listeners(listeners))
    }

    pub(crate) fn addresses(&self) -> Vec<Address> {
        self.0.iter().map(|listener| listener.address.clone()).collect()
    }

    pub(crate) fn into_each(self) -> impl Iterator<Item = Listener> {
        self.0.into_iter()
    }
}

/// Refuses an address with TLS if there are no certificates.
pub(crate) fn check(address: &Address, has_certificates: bool) -> Result<(), String> {
    if matches!(address, Address::Tls(..)) && !has_certificates {
        let why = "TLS needs a certificate and its key (--tls-cert, --tls-key)";
        return Err(format!("cannot listen to {address}: {why}"));
    }
    Ok(())
}

/// Refuses an address for HTTP with TLS.
pub(crate) fn check_http(address: &Address) -> Result<(), String> {
    if matches!(address, Address::Tls(..)) { Err(http_has_no_tls(address)) } else { Ok(()) }
}

fn http_has_no_tls(address: &Address) -> String {
    format!("cannot listen to {address}: HTTP has no TLS here")
}

async fn tcp(
    host: &str,
    port: u16,
    is_tls: bool,
    security: &Security,
    users: &mut Users,
) -> Result<Listener, String> {
    let failed = |error: io::Error| format!("cannot listen to {host}:{port}: {error}");
    let found: Vec<SocketAddr> = tokio::net::lookup_host((host, port)).await.map_err(failed)?.collect();
    if let Some(open) = found.iter().find(|address| !address.ip().is_loopback()) {
        let is_guarded = security.asks_for_certificates(is_tls) || security.allows_no_password;
        if let Some(name) = users.one_without_password().filter(|_| !is_guarded) {
            let name = String::from_utf8_lossy(name);
            return Err(format!(
                "will not listen to {open}: the user '{name}' needs no password, so anybody there could do what it may. Give \
                 it one (--password-file, ESKER_PASSWORD or --acl-file), ask for certificates (--tls-client-ca), or let \
                 anybody in (--insecure-no-password)"
            ));
        }
        if !is_guarded {
            users.need_passwords();
        }
        if !is_tls {
            tracing::warn!(address = %open, "passwords and data cross the network unencrypted: this address has no TLS");
        }
    }
    let socket = bind(&found).map_err(failed)?;
    let bound = socket.local_addr().map_err(failed)?;
    let (host, port) = (bound.ip().to_string(), bound.port());
    Ok(if is_tls {
        Listener { socket: Socket::Tls(socket), address: Address::Tls(host, port) }
    } else {
        Listener { socket: Socket::Tcp(socket), address: Address::Tcp(host, port) }
    })
}

/// Listens to the first of these addresses that it can.
fn bind(addresses: &[SocketAddr]) -> io::Result<TcpListener> {
    let listen = |address: SocketAddr| {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        // Connections of an earlier server that are still closing are in nobody's way.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    };
    let mut failed = io::Error::new(io::ErrorKind::InvalidInput, "the host has no address");
    for address in addresses {
        match listen(*address) {
            Ok(listener) => return Ok(listener),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

async fn local_tcp(host: &str, port: u16) -> Result<Listener, String> {
    let failed = |error: io::Error| format!("cannot listen to {host}:{port}: {error}");
    let found: Vec<SocketAddr> = tokio::net::lookup_host((host, port)).await.map_err(failed)?.collect();
    if let Some(open) = found.iter().find(|address| !address.ip().is_loopback()) {
        return Err(format!(
            "will not listen to {open} for HTTP, which has no users and no TLS: give a loopback address or unix:PATH, behind \
             a proxy if others are to read the figures"
        ));
    }
    let socket = bind(&found).map_err(failed)?;
    let bound = socket.local_addr().map_err(failed)?;
    Ok(Listener { socket: Socket::Tcp(socket), address: Address::Tcp(bound.ip().to_string(), bound.port()) })
}

async fn unix(path: &Path) -> Result<Listener, String> {
    use std::os::unix::fs::{FileTypeExt, PermissionsExt};
    let failed = |error: io::Error| format!("cannot listen to {}: {error}", path.display());
    // The socket of a server that was killed is in the way, and nothing else is removed.
    if let Ok(metadata) = std::fs::symlink_metadata(path)
        && metadata.file_type().is_socket()
        // Does not wait: whoever has too many connections to accept them is there.
        && UnixStream::connect(path).await.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
    {
        remove(path).map_err(failed)?;
    }
    let socket = UnixListener::bind(path).map_err(failed)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700)).map_err(failed)?;
    let made = identity(path).map_err(failed)?;
    Ok(Listener {
        socket: Socket::Unix(socket, path.to_path_buf(), made),
        address: Address::Unix(path.to_path_buf()),
    })
}

/// Which file a path leads to.
fn identity(path: &Path) -> io::Result<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    std::fs::symlink_metadata(path).map(|metadata| (metadata.dev(), metadata.ino()))
}

#[expect(clippy::disallowed_methods, reason = "a socket is no file of a store")]
fn remove(path: &Path) -> io::Result<()> {
    std::fs::remove_file(path)
}

impl Drop for Socket {
    fn drop(&mut self) {
        // Another server may listen there by now.
        if let Socket::Unix(_, path, made) = self
            && identity(path).is_ok_and(|found| found == *made)
        {
            let _ = remove(path);
        }
    }
}

impl Listener {
    /// Accepts connections for ever. Those with TLS go to `handshakes`.
    pub(crate) async fn accept(self, server: Rc<Server>, handshakes: Option<Sender<Raw>>) {
        let local = match &self.address {
            Address::Tls(host, port) => joined(host, *port),
            address => address.to_string(),
        };
        if let (Socket::Tls(socket), Some(handshakes)) = (&self.socket, handshakes) {
            loop {
                let raw = accept_tcp(socket).await.and_then(|(stream, address)| {
                    keep_alive(&stream, server.settings.borrow().keepalive_s);
                    Ok(Raw { socket: stream.into_std()?, address, local: local.clone() })
                });
                match raw {
                    Ok(raw) => drop(handshakes.send(raw).await),
                    Err(error) => {
                        server.reports.not_accepted(&self.address, &error);
                        tokio::time::sleep(REST).await;
                    }
                }
            }
        }
        loop {
            let (stream, address) = self.next(&server.reports).await;
            if let Stream::Tcp(socket) = &stream {
                keep_alive(socket, server.settings.borrow().keepalive_s);
            }
            connection::begin(&server, stream, address, local.clone(), None);
        }
    }

    /// The next connection without TLS, and the address of its other end.
    pub(crate) async fn next(&self, reports: &Reports) -> (Stream, String) {
        loop {
            let accepted = match &self.socket {
                // No listener with TLS is asked.
                Socket::Tcp(socket) | Socket::Tls(socket) => {
                    accept_tcp(socket).await.map(|(stream, from)| (Stream::Tcp(stream), from))
                }
                Socket::Unix(socket, path, _) => socket
                    .accept()
                    .await
                    .map(|(stream, _)| (Stream::Unix(stream), format!("{}:0", path.display()))),
            };
            match accepted {
                Ok(accepted) => return accepted,
                Err(error) => {
                    reports.not_accepted(&self.address, &error);
                    tokio::time::sleep(REST).await;
                }
            }
        }
    }
}

async fn accept_tcp(socket: &TcpListener) -> io::Result<(TcpStream, String)> {
    let (stream, from) = socket.accept().await?;
    // Replies are written whole: to wait for more only delays them.
    let _ = stream.set_nodelay(true);
    Ok((stream, from.to_string()))
}

/// Has the system ask whether the client is still there: after `idle_s` seconds of silence, and then [`PROBES`] times. A
/// client that does not answer has gone without a word, and its connection ends. 0: it never asks.
fn keep_alive(socket: &TcpStream, idle_s: u64) {
    use rustix::net::sockopt;
    if idle_s == 0 {
        return;
    }
    let idle = Duration::from_secs(idle_s.min(KEEPALIVE_S_MAX));
    // As Redis has it: the questions come at a third of that distance.
    let between = Duration::from_secs((idle.as_secs() / u64::from(PROBES)).max(1));
    let set = sockopt::set_tcp_keepidle(socket, idle)
        .and_then(|()| sockopt::set_tcp_keepintvl(socket, between))
        .and_then(|()| sockopt::set_tcp_keepcnt(socket, PROBES))
        .and_then(|()| sockopt::set_socket_keepalive(socket, true));
    if let Err(error) = set {
        tracing::debug!(%error, "keepalive could not be set: a client that goes without a word may not be noticed");
    }
}

/// A connection's bytes.
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<TlsStream>),
}

impl Stream {
    /// Reads what has come. If it is less than there is room for, the next call waits for more without asking the system
    /// again.
    pub(crate) fn poll_read(
        &mut self,
        cx: &mut task::Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let mut buffer = ReadBuf::new(buffer);
        let read = match self {
            Stream::Tcp(stream) => Pin::new(stream).poll_read(cx, &mut buffer),
            Stream::Unix(stream) => Pin::new(stream).poll_read(cx, &mut buffer),
            Stream::Tls(stream) => return stream.poll_read(cx, buffer.initialize_unfilled()),
        };
        read.map_ok(|()| buffer.filled().len())
    }

    pub(crate) async fn writable(&self) -> io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.writable().await,
            Stream::Unix(stream) => stream.writable().await,
            Stream::Tls(stream) => stream.writable().await,
        }
    }

    pub(crate) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.try_write(bytes),
            Stream::Unix(stream) => stream.try_write(bytes),
            Stream::Tls(stream) => stream.try_write(bytes),
        }
    }

    /// Sends what was written and not sent.
    pub(crate) fn try_flush(&self) -> io::Result<()> {
        match self {
            Stream::Tcp(_) | Stream::Unix(_) => Ok(()),
            Stream::Tls(stream) => stream.try_flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream as Client;

    use super::*;
    use crate::descriptors::connections_max;

    /// A thousand more than fit into the row of most programs, which is 1,024 long.
    #[tokio::test]
    #[cfg(target_os = "linux")]
    #[expect(clippy::disallowed_methods, reason = "no file of a store")]
    async fn thousands_of_clients_may_connect_at_once() {
        const CLIENTS: usize = 2000;
        let somaxconn = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap();
        if somaxconn.trim().parse::<usize>().unwrap() < CLIENTS || connections_max(CLIENTS) < CLIENTS {
            println!("this machine allows no row of {CLIENTS}");
            return;
        }
        let listener = bind(&["127.0.0.1:0".parse().unwrap()]).unwrap();
        let address = listener.local_addr().unwrap();
        // Nobody accepts them. One that finds no place in the row would never be connected.
        let connect = || Client::connect_timeout(&address, Duration::from_secs(30)).unwrap();
        let clients: Vec<Client> = std::iter::repeat_with(connect).take(CLIENTS).collect();
        assert_eq!(clients.len(), CLIENTS);
    }

    #[test]
    fn addresses_are_read_and_printed() {
        for (text, printed) in [
            ("127.0.0.1:0", "127.0.0.1:0"),
            ("[::1]:6379", "[::1]:6379"),
            ("unix:/a b", "unix:/a b"),
            ("tls://h:1", "tls://h:1"),
            ("tls://[::1]:1", "tls://[::1]:1"),
        ] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), printed);
        }
        for text in [
            "",
            "6379",
            ":6379",
            "localhost",
            "localhost:x",
            "localhost:70000",
            "unix:",
            "tls://",
            "tls://:1",
            "tls://h",
            "http://h:1",
        ] {
            assert!(text.parse::<Address>().is_err(), "{text}");
        }
    }
}
