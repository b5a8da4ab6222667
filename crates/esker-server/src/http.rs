//! `/metrics`, `/health` and `/ready`, over HTTP, for those who watch the server.
//!
//! A connection has one request and little time, and there are few connections, so they harm no Redis client. What has
//! to read files is done in the pool, for one request at a time.

use std::cell::Cell;
use std::convert::Infallible;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::rt::{Read, Write};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::time::timeout;

use crate::figures::add;
use crate::listen::{Listener, Stream};
use crate::metrics;
use crate::server::Server;

/// The most connections at once.
const CONNECTIONS_MAX: usize = 64;

/// The most bytes of a request's head.
const HEAD_BYTES_MAX: usize = 16 << 10;

/// How long a client has for the head of its request, and for everything.
const HEAD_WITHIN: Duration = Duration::from_secs(5);
const ALL_WITHIN: Duration = Duration::from_secs(20);

/// How long an answer may wait for a thread of the pool and for the disk.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// What connections over HTTP share.
#[derive(Default)]
pub(crate) struct Http {
    connections: Cell<usize>,
    /// Held by the job that looks at the store, whatever becomes of the request that has begun it.
    looks: Arc<tokio::sync::Mutex<()>>,
}

/// Accepts connections for ever.
pub(crate) async fn accept(listener: Listener, server: Rc<Server>) {
    let http = &server.http;
    loop {
        let (stream, _) = listener.next(&server.reports).await;
        if http.connections.get() >= CONNECTIONS_MAX {
            add(&server.figures.refused_http, 1);
            continue;
        }
        let counted = Counted::new(&server);
        tokio::task::spawn_local(async move {
            // What becomes of the connection is its client's business.
            let _ = timeout(ALL_WITHIN, async {
                match stream {
                    Stream::Tcp(stream) => answer(TokioIo::new(stream), &counted.0).await,
                    Stream::Unix(stream) => answer(TokioIo::new(stream), &counted.0).await,
                    // No listener for HTTP has it.
                    Stream::Tls(_) => {}
                }
            })
            .await;
        });
    }
}

/// Counts a connection until it ends.
struct Counted(Rc<Server>);

impl Counted {
    fn new(server: &Rc<Server>) -> Counted {
        let connections = &server.http.connections;
        connections.set(connections.get() + 1);
        Counted(Rc::clone(server))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let connections = &self.0.http.connections;
        connections.set(connections.get() - 1);
    }
}

/// Answers the request of a connection.
async fn answer(io: impl Read + Write + Unpin, server: &Rc<Server>) {
    let service = service_fn(|request: Request<Incoming>| async move {
        Ok::<_, Infallible>(respond(server, &request).await)
    });
    let connection = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WITHIN)
        .max_buf_size(HEAD_BYTES_MAX)
        .keep_alive(false)
        .serve_connection(io, service);
    let _ = connection.await;
}

async fn respond(server: &Rc<Server>, request: &Request<Incoming>) -> Response<String> {
    add(&server.figures.http_requests, 1);
    if request.method() != Method::GET && request.method() != Method::HEAD {
        return plain(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are answered\n".to_owned());
    }
    match request.uri().path() {
        // This line runs on the event loop.
        "/health" => plain(StatusCode::OK, "ok\n".to_owned()),
        "/ready" => match readiness(server).await {
            Ok(()) => plain(StatusCode::OK, "ready\n".to_owned()),
            Err(why) => plain(StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {why}\n")),
        },
        "/metrics" => match timeout(ANSWER_WITHIN, measured(server)).await {
            Ok(Ok(text)) => {
                let mut response = plain(StatusCode::OK, text);
                let text = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
                response.headers_mut().insert(CONTENT_TYPE, text);
                response
            }
            Ok(Err(error)) => plain(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
            Err(_) => plain(
                StatusCode::SERVICE_UNAVAILABLE,
                "the pool is busy, or the disk does not answer\n".to_owned(),
            ),
        },
        _ => plain(StatusCode::NOT_FOUND, "there are /metrics, /health and /ready\n".to_owned()),
    }
}

fn plain(status: StatusCode, text: String) -> Response<String> {
    let mut response = Response::new(text);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Why the server does not take writes, if it does not.
async fn readiness(server: &Rc<Server>) -> Result<(), String> {
    if server.is_ending.get() {
        return Err("the server is ending".to_owned());
    }
    let look = async {
        let (alone, db) = (Arc::clone(&server.http.looks).lock_owned().await, server.db.clone());
        let look = move || {
            let _alone = alone;
            db.check_writable()
        };
        server.pool.run(look).await
    };
    match timeout(ANSWER_WITHIN, look).await {
        Ok(Ok(Ok(()))) => Ok(()),
        Ok(Ok(Err(error)) | Err(error)) => Err(error.to_string()),
        Err(_) => Err("the pool is busy, or the disk does not answer".to_owned()),
    }
}

/// The text of `/metrics`.
async fn measured(server: &Rc<Server>) -> esker::Result<String> {
    let alone = Arc::clone(&server.http.looks).lock_owned().await;
    let (figures, db) = (metrics::Snapshot::of(server), server.db.clone());
    let look = move || {
        let _alone = alone;
        figures.text(&db)
    };
    server.pool.run(look).await
}
