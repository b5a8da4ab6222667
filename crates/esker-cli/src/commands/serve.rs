//! `serve`: serves the store to Redis clients, and its tables to HBase's, until it is told to end.

mod tables;

use std::cell::RefCell;
use std::io::Write;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use esker::Db;
use esker_journal::{Journal, Local};
use esker_server::{Addresses, Config, Password, Security, ServeError, StoreEvents, Tls, serve};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::args::{self, Global, PASSWORD, Serve};
use crate::exit::{Failure, INTERRUPTED, Outcome};
use crate::log::Log;
use crate::store;
use crate::supervisor;

/// How long clients have at the end; a moment more, and the process ends anyway.
const ENDS_WITHIN: Duration = Duration::from_secs(15);

pub(crate) fn run(global: &Global, args: &Serve) -> Outcome {
    let _log = Log::start_server("serve", global, args.log_format, args.log_level)?;
    let mut config = config(global, args)?;
    config.check().map_err(failure)?;
    let plan = tables::Plan::of(args)?;
    let events = StoreEvents::default();
    let options = store::options(global).listener(events.clone());
    let (journal, bound) = match plan {
        None => {
            let opened = store::patiently(global, || Ok(Db::open(&global.db, options.clone())))?;
            (journal_of(&opened.map_err(|error| store::opening(global, error))?), None)
        }
        Some(plan) => {
            let tables = store::tables_with(global, options, args.query_cache.unwrap_or(0))?;
            let bound = plan.bind(&tables, config.durability)?;
            config.beside = Some(bound.beside(&tables));
            (Arc::clone(tables.journal()), Some(bound))
        }
    };
    let thrift = bound.as_ref().map(tables::Bound::address);
    let mut printed = Ok(());
    let mut started = None;
    let signals = Rc::new(RefCell::new(None));
    let ready = |addresses: &Addresses| {
        // Whoever hears that the server is ready may end it.
        *signals.borrow_mut() = signal(SignalKind::terminate())
            .and_then(|term| Ok((term, signal(SignalKind::interrupt())?)))
            .ok();
        started = bound.map(tables::Bound::start);
        printed = print(addresses, thrift.filter(|_| matches!(started, Some(Ok(_)))));
        supervisor::tell("READY=1");
    };
    let served = serve(&journal, &events, config, ready, end(Rc::clone(&signals)));
    if let Some(serving) = started.transpose()? {
        serving.end();
    }
    printed.map_err(|error| Failure::output(&"standard output", &error))?;
    served.map_err(failure)?;
    journal.db().close()?;
    tracing::info!("ended");
    Ok(())
}

/// Through what the server changes the store's data. With `--cfg esker_canary` and `ESKER_LATE_US`, each entry is decided after
/// so many microseconds, as by a replicated log.
fn journal_of(db: &Db) -> Arc<dyn Journal> {
    #[cfg(esker_canary)]
    if let Some(us) = std::env::var("ESKER_LATE_US").ok().and_then(|us| us.parse().ok()) {
        use esker_journal::late::{Fate, Late};
        return Arc::new(Late::new(db, std::time::Duration::from_micros(us), || Fate::Done));
    }
    Arc::new(Local::new(db))
}

fn failure(error: ServeError) -> Failure {
    match error {
        ServeError::Address(message) | ServeError::Security(message) => Failure::usage(message),
        ServeError::Store(error) => error.into(),
        error => Failure::store(error.to_string()),
    }
}

/// Fails if some settings contradict each other, or a password cannot be read.
pub(crate) fn check(args: &Serve) -> Outcome<()> {
    security(&args.security)?;
    tables::Plan::of(args).map(drop)
}

fn config(global: &Global, args: &Serve) -> Outcome<Config> {
    let mut config = Config::new(&global.db);
    config.resp.clone_from(&args.resp);
    config.http.clone_from(&args.http);
    config.durability = args.durability;
    config.databases = args.databases;
    config.clients_max = args.max_clients;
    config.clients_bytes_max = args.max_clients_memory;
    config.outbox_bytes_max = args.max_outbox;
    config.bulk_bytes_max = args.max_argument as u64;
    config.idle_s = args.timeout;
    config.send_s = args.send_timeout;
    config.keepalive_s = args.tcp_keepalive;
    config.slow_us = args.slowlog_log_slower_than;
    config.backup_dir.clone_from(&args.backup_dir);
    config.backups_kept = usize::from(args.backup_keep);
    config.latency_ms = args.latency_monitor_threshold;
    config.security = security(&args.security)?;
    Ok(config)
}

/// Says where the server listens.
fn print(addresses: &Addresses, thrift: Option<SocketAddr>) -> std::io::Result<()> {
    let resp = addresses.resp.iter().map(|address| format!("resp {address}\n"));
    let http = addresses.http.iter().map(|address| format!("http {address}\n"));
    let thrift = thrift.map(|address| format!("thrift {address}\n"));
    let lines: String = resp.chain(http).chain(thrift).collect();
    let mut out = std::io::stdout().lock();
    out.write_all(format!("{lines}ready\n").as_bytes()).and_then(|()| out.flush())
}

fn security(args: &args::Security) -> Outcome<Security> {
    // A password never stands on the command line, where every user of the machine can see it.
    let password = match (&args.password_file, std::env::var_os(PASSWORD)) {
        (Some(_), Some(_)) => {
            return Err(Failure::usage(format!(
                "--password-file and the variable {PASSWORD} are both given"
            )));
        }
        (Some(path), None) => Some(Password::of_file(path).map_err(Failure::usage)?),
        (None, Some(password)) => {
            let password = Password::new(password.as_encoded_bytes());
            Some(password.map_err(|why| Failure::usage(format!("{PASSWORD}: {why}")))?)
        }
        (None, None) => None,
    };
    // Not by clap: some of these may stand in a file.
    if args.acl_file.is_some() && password.is_some() {
        return Err(Failure::usage(format!(
            "--acl-file is given, and so is --password-file or {PASSWORD}: passwords stand in the ACL file",
        )));
    }
    let is_optional = args.tls_auth_clients == args::AuthClients::Optional;
    if is_optional && args.tls_client_ca.is_none() {
        return Err(Failure::usage("--tls-auth-clients needs --tls-client-ca"));
    }
    let tls = match (&args.tls_cert, &args.tls_key) {
        (Some(cert), Some(key)) => Some(Tls {
            cert: cert.clone(),
            key: key.clone(),
            client_ca: args.tls_client_ca.clone(),
            is_client_optional: is_optional,
        }),
        (None, None) if args.tls_client_ca.is_none() => None,
        _ => return Err(Failure::usage("TLS needs both --tls-cert and --tls-key")),
    };
    Ok(Security {
        acl_file: args.acl_file.clone(),
        password,
        allows_no_password: args.insecure_no_password,
        tls,
    })
}

/// Waits for SIGTERM or SIGINT. From then on, a second one ends the process at once.
async fn end(signals: Rc<RefCell<Option<(Signal, Signal)>>>) {
    let Some((mut term, mut int)) = signals.take() else {
        // Without signals the process can only be killed, which loses nothing that was promised.
        return std::future::pending().await;
    };
    either(&mut term, &mut int).await;
    supervisor::tell("STOPPING=1");
    tokio::task::spawn_local(async move {
        let _ = tokio::time::timeout(ENDS_WITHIN, either(&mut term, &mut int)).await;
        std::process::exit(i32::from(INTERRUPTED));
    });
}

async fn either(term: &mut Signal, int: &mut Signal) {
    tokio::select! {
        _ = term.recv() => {}
        _ = int.recv() => {}
    }
}
