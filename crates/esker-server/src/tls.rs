//! TLS: the certificates, and a connection's bytes through it.
//!
//! What a new certificate changes counts for connections that begin afterwards. One that cannot be used changes nothing.

use std::cell::RefCell;
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{self, Poll, ready};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection};
use tokio::net::TcpStream;
use x509_cert::der::Decode;

use crate::files;
use crate::security::Tls;

/// The most bytes of a file with certificates or a key.
const FILE_BYTES_MAX: usize = 4 << 20;

/// So many bytes are encrypted at once: a client that does not read takes no more memory than this.
const WRITE_BYTES: usize = 64 << 10;

/// The certificates in force, and where they come from.
pub(crate) struct Certificates {
    files: Tls,
    current: Mutex<Arc<ServerConfig>>,
}

impl Certificates {
    /// # Errors
    /// What is wrong with the files.
    pub(crate) fn load(files: &Tls) -> Result<Certificates, String> {
        Ok(Certificates { files: files.clone(), current: Mutex::new(configured(files)?) })
    }

    pub(crate) fn current(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.current.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads the files again. It logs what has become of that.
    pub(crate) fn reload(&self) {
        match configured(&self.files) {
            Ok(new) => {
                *self.current.lock().unwrap_or_else(PoisonError::into_inner) = new;
                tracing::info!(file = %self.files.cert.display(), "new connections get the certificate that was read");
            }
            Err(why) => {
                tracing::error!(%why, "the certificates cannot be used; those from before stay in force");
            }
        }
    }
}

fn configured(files: &Tls) -> Result<Arc<ServerConfig>, String> {
    let chain = certificates(&files.cert)?;
    let key_pem = files::read(&files.key, FILE_BYTES_MAX)?;
    if files::is_open_to_others(&files.key) {
        tracing::warn!(file = %files.key.display(), "other users of this machine can read or write the key");
    }
    let key = PrivateKeyDer::from_pem_slice(&key_pem).map_err(|_| {
        format!("{}: there is no private key in it that is not encrypted", files.key.display())
    })?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder =
        ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions();
    let builder = builder.map_err(|error| error.to_string())?;
    let builder = match &files.client_ca {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let wrong = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
            let mut roots = RootCertStore::empty();
            for root in certificates(path)? {
                roots.add(root).map_err(|error| wrong(&error))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            let verifier = if files.is_client_optional { verifier.allow_unauthenticated() } else { verifier };
            builder.with_client_cert_verifier(verifier.build().map_err(|error| wrong(&error))?)
        }
    };
    let config = builder.with_single_cert(chain, key);
    let config = config
        .map_err(|error| format!("{} with the key {}: {error}", files.cert.display(), files.key.display()))?;
    Ok(Arc::new(config))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let pem = files::read(path, FILE_BYTES_MAX)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(format!("{}: there is no certificate in it", path.display())),
        Err(error) => Err(format!("{}: {error}", path.display())),
    }
}

/// The common name (CN) of the certificate that the client has shown, if it has shown one.
pub(crate) fn name_of_client(session: &ServerConnection) -> Option<Vec<u8>> {
    let certificate = session.peer_certificates()?.first()?;
    let certificate = x509_cert::Certificate::from_der(certificate).ok()?;
    let name = certificate.tbs_certificate().subject().common_name().ok()??;
    Some(name.value().as_bytes().to_vec())
}

/// A connection whose handshake is done.
pub(crate) struct TlsStream {
    socket: TcpStream,
    session: RefCell<ServerConnection>,
}

/// The bytes of a socket that needs no wait.
struct Bytes<'a>(&'a TcpStream);

impl Read for Bytes<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.try_read(buffer)
    }
}

impl Write for Bytes<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn would_block(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}

impl TlsStream {
    pub(crate) fn new(socket: TcpStream, session: ServerConnection) -> TlsStream {
        TlsStream { socket, session: RefCell::new(session) }
    }

    pub(crate) fn poll_read(
        &mut self,
        cx: &mut task::Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            match self.session.get_mut().reader().read(buffer) {
                Err(error) if would_block(&error) => {}
                // It has gone without saying so.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Poll::Ready(Ok(0)),
                read => return Poll::Ready(read),
            }
            ready!(self.socket.poll_read_ready(cx))?;
            let session = self.session.get_mut();
            match session.read_tls(&mut Bytes(&self.socket)) {
                Err(error) if would_block(&error) => continue,
                Err(error) => return Poll::Ready(Err(error)),
                Ok(_) => {}
            }
            let processed = session.process_new_packets().map(drop);
            // Answers of the protocol, and what is wrong; what does not fit goes with the next reply.
            match self.try_flush() {
                Err(error) if !would_block(&error) => return Poll::Ready(Err(error)),
                _ => processed.map_err(io::Error::other)?,
            }
        }
    }

    pub(crate) async fn writable(&self) -> io::Result<()> {
        self.socket.writable().await
    }

    /// Takes some of `bytes`, and sends them as far as that needs no wait. [`TlsStream::try_flush`] sends the rest.
    pub(crate) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.try_flush()?;
        let taken = self.session.borrow_mut().writer().write(&bytes[..bytes.len().min(WRITE_BYTES)])?;
        match self.try_flush() {
            Err(error) if !would_block(&error) => Err(error),
            _ => Ok(taken),
        }
    }

    /// Sends what was taken.
    pub(crate) fn try_flush(&self) -> io::Result<()> {
        let mut session = self.session.borrow_mut();
        while session.wants_write() {
            if session.write_tls(&mut Bytes(&self.socket))? == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
        }
        Ok(())
    }
}

impl Drop for TlsStream {
    fn drop(&mut self) {
        // So the client knows that nothing was cut off.
        self.session.get_mut().send_close_notify();
        let _ = self.try_flush();
    }
}
