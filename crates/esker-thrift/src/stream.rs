//! A connection's bytes, as they are or through TLS.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use rustls::{ServerConnection, StreamOwned};

use crate::access::Certificates;

/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);

pub(crate) enum Stream<'s> {
    Plain(&'s TcpStream),
    Tls(Box<StreamOwned<ServerConnection, &'s TcpStream>>),
}

impl<'s> Stream<'s> {
    /// Does the handshake of a connection with TLS. Returns the name in the client's certificate too, if it has shown one.
    ///
    /// # Errors
    /// When it fails or takes too long.
    pub(crate) fn tls(
        socket: &'s TcpStream,
        certificates: &dyn Certificates,
    ) -> io::Result<(Stream<'s>, Option<Vec<u8>>)> {
        let config = certificates.config().ok_or_else(|| io::Error::other("there is no certificate yet"))?;
        let mut session = ServerConnection::new(config).map_err(io::Error::other)?;
        let (mut stream, until) = (socket, Instant::now() + HANDSHAKE);
        while session.is_handshaking() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            socket.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
            if session.read_tls(&mut stream)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let processed = session.process_new_packets();
            // Also what is wrong, for the client to know.
            while session.wants_write() {
                session.write_tls(&mut stream)?;
            }
            processed.map_err(io::Error::other)?;
        }
        socket.set_read_timeout(None)?;
        let name = certificates.name_of_client(&session);
        Ok((Stream::Tls(Box::new(StreamOwned::new(session, socket))), name))
    }

    fn socket(&self) -> &'s TcpStream {
        match self {
            Stream::Plain(socket) => socket,
            Stream::Tls(stream) => stream.sock,
        }
    }

    /// How long a read waits. `None`: for ever.
    pub(crate) fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.socket().set_read_timeout(timeout)
    }

    /// Tells the other side that nothing follows.
    pub(crate) fn end_sending(&mut self) -> io::Result<()> {
        if let Stream::Tls(stream) = self {
            stream.conn.send_close_notify();
            stream.flush()?;
        }
        self.socket().shutdown(Shutdown::Write)
    }

    /// Throws away what the other side sends, up to `until`.
    pub(crate) fn drain(&self, until: Instant) {
        let (mut socket, mut waste) = (self.socket(), [0; 4096]);
        let wait = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        if self.set_read_timeout(Some(wait)).is_err() {
            return;
        }
        while Instant::now() < until && matches!(socket.read(&mut waste), Ok(read) if read > 0) {}
    }
}

impl Read for Stream<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => socket.read(buffer),
            Stream::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => socket.write(bytes),
            Stream::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Plain(socket) => socket.flush(),
            Stream::Tls(stream) => stream.flush(),
        }
    }
}
