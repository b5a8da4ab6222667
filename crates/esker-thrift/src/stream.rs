//! A connection's bytes, as they are or through TLS.
//!
//! A read or a write waits for the socket once, as long as its timeout says, also through TLS: the caller counts the time of
//! a message. rustls' own streams go on waiting until a record is complete, and wait to read when nothing can be written.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use rustls::ServerConnection;

use crate::access::Certificates;

/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);

pub(crate) enum Stream<'s> {
    Plain(&'s TcpStream),
    Tls(Box<ServerConnection>, &'s TcpStream),
}

/// Sends what a session has for the other side.
fn send(session: &mut ServerConnection, mut socket: &TcpStream) -> io::Result<()> {
    while session.wants_write() {
        match session.write_tls(&mut socket) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Reads what the socket has, and answers what the protocol asks. `false`: the other side has ended.
fn receive(session: &mut ServerConnection, mut socket: &TcpStream) -> io::Result<bool> {
    let read = session.read_tls(&mut socket)?;
    let processed = session.process_new_packets();
    // Also what is wrong, for the client to know.
    send(session, socket)?;
    processed.map_err(io::Error::other)?;
    Ok(read > 0)
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
        let until = Instant::now() + HANDSHAKE;
        while session.is_handshaking() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ErrorKind::TimedOut.into());
            }
            socket.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
            match receive(&mut session, socket) {
                Ok(false) => return Err(ErrorKind::UnexpectedEof.into()),
                // A signal, for instance that of new certificates.
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
        }
        socket.set_read_timeout(None)?;
        let name = certificates.name_of_client(&session);
        Ok((Stream::Tls(Box::new(session), socket), name))
    }

    fn socket(&self) -> &'s TcpStream {
        match self {
            Stream::Plain(socket) | Stream::Tls(_, socket) => socket,
        }
    }

    /// How long a read waits. `None`: for ever.
    pub(crate) fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.socket().set_read_timeout(timeout)
    }

    /// Tells the other side that nothing follows.
    pub(crate) fn end_sending(&mut self) -> io::Result<()> {
        if let Stream::Tls(session, socket) = self {
            session.send_close_notify();
            send(session, socket)?;
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
    /// `Interrupted`: something has come, but no whole record.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => socket.read(buffer),
            Stream::Tls(session, socket) => {
                match session.reader().read(buffer) {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                    read => return read,
                }
                receive(session, socket)?;
                match session.reader().read(buffer) {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => Err(ErrorKind::Interrupted.into()),
                    read => read,
                }
            }
        }
    }
}

impl Write for Stream<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(socket) => socket.write(bytes),
            Stream::Tls(session, socket) => {
                // The session takes some 64 KiB, and all of that is sent.
                let taken = session.writer().write(bytes)?;
                send(session, socket)?;
                Ok(taken)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Plain(socket) => socket.flush(),
            Stream::Tls(session, socket) => send(session, socket),
        }
    }
}
