//! TLS handshakes, on a thread of their own: they compute much, and clients may take their time.
//!
//! ```text
//! listener --Raw--> the thread: some hundred at once, each at most 10 s --Handshaken--> connection::begin
//! ```
//! When there are too many, the one that began first ends: a client that says nothing keeps nobody out.

use std::collections::VecDeque;
use std::io;
use std::net::TcpStream;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustls::ServerConnection;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::{AbortHandle, JoinSet, LocalSet};
use tokio_rustls::TlsAcceptor;

use crate::connection;
use crate::descriptors;
use crate::listen::Stream;
use crate::server::Server;
use crate::tls::{Certificates, TlsStream, name_of_client};

/// How long one may take.
const WITHIN: Duration = Duration::from_secs(10);

/// So many connections wait between the threads, in each direction.
const WAITING: usize = 16;

/// A connection without a handshake.
pub(crate) struct Raw {
    pub(crate) socket: TcpStream,
    pub(crate) address: String,
    pub(crate) local: String,
}

/// One with it.
struct Handshaken {
    raw: Raw,
    session: ServerConnection,
    /// The name in the client's certificate.
    certified: Option<Vec<u8>>,
}

/// Begins the thread. It ends when the sender that is returned and its clones have gone.
///
/// # Errors
/// When the system gives no thread.
pub(crate) fn start(server: &Rc<Server>, certificates: Arc<Certificates>) -> io::Result<Sender<Raw>> {
    let (send_raw, raw) = channel(WAITING);
    let (send_done, done) = channel(WAITING);
    let failed = Arc::clone(&server.figures.failed_handshakes);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::Builder::new().name("esker-tls".to_owned()).spawn(move || {
        let at_once = descriptors::handshakes_max();
        let handshakes = Rc::new(Handshakes { certificates, done: send_done, failed, at_once });
        LocalSet::new().block_on(&runtime, handshakes.run(raw));
    })?;
    tokio::task::spawn_local(receive(Rc::clone(server), done));
    Ok(send_raw)
}

/// Begins to serve the clients whose handshakes are done.
async fn receive(server: Rc<Server>, mut done: Receiver<Handshaken>) {
    while let Some(Handshaken { raw, session, certified }) = done.recv().await {
        // A socket that cannot be used has gone.
        let Ok(socket) = tokio::net::TcpStream::from_std(raw.socket) else { continue };
        let stream = Stream::Tls(Box::new(TlsStream::new(socket, session)));
        connection::begin(&server, stream, raw.address, raw.local, certified);
    }
}

struct Handshakes {
    certificates: Arc<Certificates>,
    done: Sender<Handshaken>,
    failed: Arc<AtomicU64>,
    /// The most handshakes at once.
    at_once: usize,
}

impl Handshakes {
    async fn run(self: Rc<Self>, mut raw: Receiver<Raw>) {
        let mut tasks = JoinSet::new();
        // The one that began first is in front.
        let mut running: VecDeque<AbortHandle> = VecDeque::new();
        loop {
            tokio::select! {
                new = raw.recv() => {
                    let Some(new) = new else { return };
                    if running.len() >= self.at_once {
                        running.retain(|task| !task.is_finished());
                    }
                    if running.len() >= self.at_once
                        && let Some(first) = running.pop_front()
                    {
                        first.abort();
                        self.failed.fetch_add(1, Ordering::Relaxed);
                    }
                    running.push_back(tasks.spawn_local(Rc::clone(&self).handshake(new)));
                }
                Some(_) = tasks.join_next() => {
                    if tasks.is_empty() {
                        running.clear();
                    }
                }
            }
        }
    }

    async fn handshake(self: Rc<Self>, raw: Raw) {
        let Raw { socket, address, local } = raw;
        let accepted = tokio::time::timeout(WITHIN, self.accept(socket)).await;
        let why = match accepted {
            Ok(Ok((socket, session))) => {
                let certified = name_of_client(&session);
                let done = Handshaken { raw: Raw { socket, address, local }, session, certified };
                // The server ends.
                let _ = self.done.send(done).await;
                return;
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => "it took too long".to_owned(),
        };
        self.failed.fetch_add(1, Ordering::Relaxed);
        tracing::debug!(%address, %why, "a TLS handshake failed");
    }

    async fn accept(&self, socket: TcpStream) -> io::Result<(TcpStream, ServerConnection)> {
        let socket = tokio::net::TcpStream::from_std(socket)?;
        let stream = TlsAcceptor::from(self.certificates.current()).accept(socket).await?;
        let (socket, session) = stream.into_inner();
        Ok((socket.into_std()?, session))
    }
}
