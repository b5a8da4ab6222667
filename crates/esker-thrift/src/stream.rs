//! A connection's bytes, as they are or through TLS.
//!
//! A read waits for the socket once, as long as its timeout says, also through TLS: the caller counts the time of a message.
//! rustls' own streams go on waiting until a record is complete, and wait to read when nothing can be written. A write waits
//! each time that the other side takes nothing. The system's own timeout of writes begins anew for each part that fits.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::SendFlags;
use rustls::ServerConnection;

use crate::access::Certificates;
use crate::memory::Share;

/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// How long a write waits at once: others may begin to wait for the answer's memory meanwhile.
const LOOK: Duration = Duration::from_millis(500);

/// A write must not end the process if the other side has gone.
#[cfg(not(target_vendor = "apple"))]
const SEND: SendFlags = SendFlags::DONTWAIT.union(SendFlags::NOSIGNAL);
#[cfg(target_vendor = "apple")]
const SEND: SendFlags = SendFlags::DONTWAIT;

pub(crate) struct Stream<'s> {
    socket: Socket<'s>,
    /// `None`: without TLS.
    session: Option<Box<ServerConnection>>,
}

#[derive(Clone, Copy)]
struct Socket<'s> {
    stream: &'s TcpStream,
    /// How long the other side may take nothing.
    write_time: Duration,
    share: &'s Share<'s>,
}

impl Read for Socket<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut stream = self.stream;
        stream.read(buffer)
    }
}

impl Write for Socket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let until = Instant::now() + self.write_time;
        loop {
            match rustix::net::send(self.stream, bytes, SEND) {
                Err(Errno::AGAIN) => {}
                Err(Errno::INTR) => continue,
                sent => {
                    let sent = sent?;
                    self.share.sent(sent);
                    return Ok(sent);
                }
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || self.share.is_too_slow() {
                return Err(ErrorKind::TimedOut.into());
            }
            let mut polled = [PollFd::new(self.stream, PollFlags::OUT)];
            match rustix::event::poll(&mut polled, Timespec::try_from(left.min(LOOK)).ok().as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Sends what a session has for the other side.
fn send(session: &mut ServerConnection, mut socket: Socket<'_>) -> io::Result<()> {
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
fn receive(session: &mut ServerConnection, mut socket: Socket<'_>) -> io::Result<bool> {
    let read = session.read_tls(&mut socket)?;
    let processed = session.process_new_packets();
    // Also what is wrong, for the client to know.
    send(session, socket)?;
    processed.map_err(io::Error::other)?;
    Ok(read > 0)
}

impl<'s> Stream<'s> {
    /// A connection without TLS, whose client may take nothing of what is sent for as long as `write_time`, and less than that if
    /// others wait for memory that the connection has in `share`.
    pub(crate) fn plain(stream: &'s TcpStream, write_time: Duration, share: &'s Share<'s>) -> Stream<'s> {
        Stream { socket: Socket { stream, write_time, share }, session: None }
    }

    /// Does the handshake of a connection with TLS. Returns the name in the client's certificate too, if it has shown one.
    ///
    /// # Errors
    /// When it fails or takes too long.
    pub(crate) fn tls(
        stream: &'s TcpStream,
        write_time: Duration,
        share: &'s Share<'s>,
        certificates: &dyn Certificates,
    ) -> io::Result<(Stream<'s>, Option<Vec<u8>>)> {
        let socket = Socket { stream, write_time, share };
        let config = certificates.config().ok_or_else(|| io::Error::other("there is no certificate yet"))?;
        let mut session = ServerConnection::new(config).map_err(io::Error::other)?;
        let until = Instant::now() + HANDSHAKE;
        while session.is_handshaking() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ErrorKind::TimedOut.into());
            }
            stream.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
            match receive(&mut session, socket) {
                Ok(false) => return Err(ErrorKind::UnexpectedEof.into()),
                // A signal, for instance that of new certificates.
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
        }
        stream.set_read_timeout(None)?;
        let name = certificates.name_of_client(&session);
        Ok((Stream { socket, session: Some(Box::new(session)) }, name))
    }

    /// How long a read waits. `None`: for ever.
    pub(crate) fn set_read_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.socket.stream.set_read_timeout(timeout)
    }

    /// Tells the other side that nothing follows.
    pub(crate) fn end_sending(&mut self) -> io::Result<()> {
        if let Some(session) = &mut self.session {
            session.send_close_notify();
            send(session, self.socket)?;
        }
        self.socket.stream.shutdown(Shutdown::Write)
    }

    /// Throws away what the other side sends, up to `until`.
    pub(crate) fn drain(&self, until: Instant) {
        let (mut socket, mut waste) = (self.socket, [0; 4096]);
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
        let Some(session) = &mut self.session else { return self.socket.read(buffer) };
        match session.reader().read(buffer) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            read => return read,
        }
        receive(session, self.socket)?;
        match session.reader().read(buffer) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Err(ErrorKind::Interrupted.into()),
            read => read,
        }
    }
}

impl Write for Stream<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(session) = &mut self.session else { return self.socket.write(bytes) };
        // The session takes some 64 KiB, and all of that is sent.
        let taken = session.writer().write(bytes)?;
        send(session, self.socket)?;
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.session {
            None => Ok(()),
            Some(session) => send(session, self.socket),
        }
    }
}
