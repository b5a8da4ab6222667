//! `serve --thrift`: the store's tables for HBase's clients, by a server in threads of its own beside that of Redis' clients.
//!
//! Its clients are users of `ACL`: the one that their certificate names, or that of `--thrift-user`. A table counts as a key.

use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::thread::JoinHandle;

use esker_server::{Address, Beside, Durability, Figure, Guard};
use esker_table::Tables;
use esker_thrift::{Access, Action, Certificates, Config, Error, Server, Stopper};
use rustls::{ServerConfig, ServerConnection};

use crate::args::Serve;
use crate::exit::{Failure, Outcome};

/// The user of a client that has not said who it is.
const DEFAULT: &str = "default";

/// What users may do with tables, by the rights that they have for keys.
#[derive(Debug)]
struct ByAcl {
    guard: Guard,
    user: Option<String>,
    /// Whether clients that nothing names are the user `default`, if it needs no password.
    admits_default: bool,
}

impl ByAcl {
    fn user<'a>(&'a self, certificate: Option<&'a [u8]>) -> Option<&'a [u8]> {
        // One that is off may do nothing: turning a user off gives nobody the rights of another.
        let named = certificate.filter(|name| self.guard.has(name));
        let or_default =
            || (self.admits_default && self.guard.is_open(DEFAULT.as_bytes())).then_some(DEFAULT.as_bytes());
        named.or(self.user.as_deref().map(str::as_bytes)).or_else(or_default)
    }
}

impl Access for ByAcl {
    fn check(&self, certificate: Option<&[u8]>, action: Action, table: &str) -> Result<(), String> {
        let Some(user) = self.user(certificate) else {
            return Err("this server has users, and nothing says which one you are".to_owned());
        };
        let (what, commands): (_, &[&str]) = match action {
            Action::Read => ("read", &["hgetall"]),
            Action::Write => ("write to", &["hset"]),
            Action::Update => ("read and write to", &["hincrby"]),
            Action::Admin => ("change", &["hset", "flushdb"]),
        };
        if commands.iter().all(|command| self.guard.may(user, command, table.as_bytes())) {
            return Ok(());
        }
        let named = match table.strip_suffix(':') {
            Some(namespace) => format!("the namespace {namespace:?}"),
            None => format!("the table {table:?}"),
        };
        Err(format!("the user {:?} may not {what} {named}", user.escape_ascii().to_string()))
    }
}

/// The certificates of the server for Redis' clients.
#[derive(Debug)]
struct Shared(Guard);

impl Certificates for Shared {
    fn config(&self) -> Option<Arc<ServerConfig>> {
        self.0.tls()
    }

    fn name_of_client(&self, session: &ServerConnection) -> Option<Vec<u8>> {
        Guard::name_of_client(session)
    }
}

/// How tables are to be served.
pub(super) struct Plan {
    config: Config,
    guard: Guard,
    user: Option<String>,
}

/// A server that listens, and serves once it is told to.
pub(super) struct Bound {
    server: Server,
    plan: Plan,
}

/// A server that serves.
pub(super) struct Serving {
    stopper: Stopper,
    thread: JoinHandle<std::io::Result<()>>,
}

impl Plan {
    /// What the flags ask for. `None`: no tables are to be served.
    pub(super) fn of(args: &Serve) -> Outcome<Option<Plan>> {
        let Some(address) = &args.thrift else {
            let flags = [
                ("--thrift-user", args.thrift_user.is_some()),
                ("--query-cache", args.query_cache.is_some()),
            ];
            if let Some((flag, _)) = flags.iter().find(|(_, is_given)| *is_given) {
                return Err(Failure::usage(format!("{flag} is about tables, which --thrift ADDR serves")));
            }
            return Ok(None);
        };
        let (Address::Tcp(host, port) | Address::Tls(host, port)) = address else {
            return Err(Failure::usage(format!(
                "--thrift {address}: tables are served at HOST:PORT or tls://HOST:PORT"
            )));
        };
        let uses_tls = matches!(address, Address::Tls(..));
        let security = &args.security;
        if uses_tls && (security.tls_cert.is_none() || security.tls_key.is_none()) {
            return Err(Failure::usage(format!("--thrift {address}: TLS needs --tls-cert and --tls-key")));
        }
        let listen = resolve(host, *port)?;
        let certificates_tell = uses_tls
            && security.tls_client_ca.is_some()
            && security.tls_auth_clients == crate::args::AuthClients::Yes;
        let guard = Guard::default();
        let access = ByAcl {
            guard: guard.clone(),
            user: args.thrift_user.clone(),
            admits_default: listen.ip().is_loopback(),
        };
        let config = Config {
            listen,
            access: Some(Arc::new(access)),
            certificates: uses_tls.then(|| -> Arc<dyn Certificates> { Arc::new(Shared(guard.clone())) }),
            is_public: args.thrift_user.is_some() || certificates_tell,
            connections_max: Beside::connections_max(Config::default().connections_max),
            ..Config::default()
        };
        config.check().map_err(|error| {
            Failure::usage(format!("--thrift: {error}, or give --thrift-user, or ask all clients for certificates (tls:// and --tls-client-ca)"))
        })?;
        Ok(Some(Plan { config, guard, user: args.thrift_user.clone() }))
    }

    /// Listens. A reply of the tables to a write promises what `durability` says.
    pub(super) fn bind(self, tables: &Tables, durability: Durability) -> Outcome<Bound> {
        tables.set_power_safe(durability == Durability::Power);
        let server = Server::bind(tables.clone(), self.config.clone()).map_err(|error| match error {
            Error::Address(message) => Failure::usage(message),
            error => Failure::store(error.to_string()),
        })?;
        Ok(Bound { server, plan: self })
    }
}

fn resolve(host: &str, port: u16) -> Outcome<SocketAddr> {
    let failed = |why: String| Failure::usage(format!("--thrift {host}:{port}: {why}"));
    let mut found = (host, port).to_socket_addrs().map_err(|error| failed(error.to_string()))?;
    found.next().ok_or_else(|| failed("the host has no address".to_owned()))
}

impl Bound {
    pub(super) fn address(&self) -> SocketAddr {
        self.server.address()
    }

    /// What the server for Redis' clients has to know.
    pub(super) fn beside(&self, tables: &Tables) -> Beside {
        let (stopper, tables) = (self.server.stopper(), tables.clone());
        Beside {
            guard: self.plan.guard.clone(),
            uses_tls: self.plan.config.certificates.is_some(),
            connections_max: self.plan.config.connections_max,
            figures: Arc::new(move || figures(&stopper, &tables)),
        }
    }

    /// Serves, in threads of its own. The users must be known by now.
    pub(super) fn start(self) -> Outcome<Serving> {
        let Bound { server, plan } = self;
        if let Some(user) = plan.user.filter(|user| !plan.guard.is_on(user.as_bytes())) {
            tracing::warn!(
                user,
                "there is no such user that is on: clients of tables that are this one may do nothing"
            );
        }
        let address = server.address();
        if !address.ip().is_loopback() && plan.config.certificates.is_none() {
            tracing::warn!(%address, "other machines can reach the tables, and data crosses the network unencrypted");
        }
        tracing::info!(%address, "serving tables");
        let stopper = server.stopper();
        let serve = move || {
            server.run().inspect_err(|error| {
                tracing::error!(error = error.to_string(), "tables are not served any more");
            })
        };
        let thread = std::thread::Builder::new().name("esker-tables".to_owned()).spawn(serve);
        let thread =
            thread.map_err(|error| Failure::store(format!("there is no thread for tables: {error}")))?;
        Ok(Serving { stopper, thread })
    }
}

impl Serving {
    /// Ends the calls that run, and returns when they have ended.
    pub(super) fn end(self) {
        self.stopper.stop();
        // What went wrong in it is in the log.
        let _ = self.thread.join();
    }
}

fn figures(stopper: &Stopper, tables: &Tables) -> Vec<Figure> {
    let (server, cache) = (stopper.figures(), tables.query_cache_stats());
    let figure = |name, help, value| Figure { name, help, value };
    vec![
        figure("thrift_connections", "Connections of HBase's clients.", server.open_connections),
        figure("thrift_accepted_connections_total", "Such connections that came.", server.connections),
        figure(
            "thrift_refused_connections_total",
            "Such connections closed because there were too many.",
            server.refused_connections,
        ),
        figure(
            "thrift_failed_tls_handshakes_total",
            "TLS handshakes of HBase's clients that have failed.",
            server.failed_handshakes,
        ),
        figure("thrift_calls_total", "Calls of HBase's clients.", server.calls),
        figure(
            "thrift_failed_calls_total",
            "Such calls that were answered by an error.",
            server.failed_calls,
        ),
        figure(
            "thrift_denied_calls_total",
            "Such calls that the user's rights did not allow.",
            server.denied_calls,
        ),
        figure("thrift_call_memory_bytes", "Memory of such calls and their answers.", server.calls_len),
        figure("thrift_waiting_calls", "Such calls that wait for memory.", server.waiting_calls),
        figure(
            "thrift_waited_calls_total",
            "Times that there was no memory for such a call at once.",
            server.waited_calls,
        ),
        figure(
            "thrift_slow_connections_total",
            "Connections of HBase's clients closed because they took too little of an answer.",
            server.slow_connections,
        ),
        figure("tables", "Tables.", tables.names().len() as u64),
        figure("query_cache_queries_total", "Reads that asked the query cache.", cache.queries),
        figure("query_cache_hits_total", "Reads that it answered.", cache.hits),
        figure(
            "query_cache_refused_total",
            "Answers not kept, because what they had read was written.",
            cache.refused,
        ),
        figure("query_cache_evicted_total", "Answers that went for others.", cache.evicted),
        figure("query_cache_answers", "Answers that it holds.", cache.answers),
        figure("query_cache_bytes", "Bytes that it holds.", cache.bytes),
    ]
}
