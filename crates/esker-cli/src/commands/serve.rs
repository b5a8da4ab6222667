//! `serve`: serves the store to Redis clients until it is told to end.

use std::io::Write;
use std::time::Duration;

use esker::Db;
use esker_server::{Address, Config, ServeError, StoreEvents, serve};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::args::{Global, Serve};
use crate::exit::{Failure, INTERRUPTED, Outcome};
use crate::store;

/// Where a server listens that is not told where.
const RESP: (&str, u16) = ("127.0.0.1", 6379);

/// How long clients have at the end; a moment more, and the process ends anyway.
const ENDS_WITHIN: Duration = Duration::from_secs(15);

pub(crate) fn run(global: &Global, args: &Serve) -> Outcome {
    if global.in_shell {
        return Err(Failure::usage("the shell has the store open: leave it, then run `esker serve`"));
    }
    let events = StoreEvents::default();
    let opened = store::patiently(global, || {
        Ok(Db::open(&global.db, store::options(global).listener(events.clone())))
    })?;
    let db = opened.map_err(|error| store::opening(global, error))?;
    let mut config = Config::new(&global.db);
    config.resp = args.resp.clone();
    if config.resp.is_empty() {
        config.resp.push(Address::Tcp(RESP.0.to_owned(), RESP.1));
    }
    config.durability = args.durability;
    config.databases = args.databases;
    config.clients_max = args.max_clients;
    config.idle_s = args.timeout;
    let mut printed = Ok(());
    let ready = |addresses: &[Address]| {
        let lines: String = addresses.iter().map(|address| format!("resp {address}\n")).collect();
        let mut out = std::io::stdout().lock();
        printed = out.write_all(format!("{lines}ready\n").as_bytes()).and_then(|()| out.flush());
    };
    let served = serve(&db, &events, config, ready, end());
    printed.map_err(|error| Failure::output(&"standard output", &error))?;
    served.map_err(|error| match error {
        ServeError::Address(message) => Failure::usage(message),
        ServeError::Store(error) => error.into(),
        error => Failure::store(error.to_string()),
    })?;
    Ok(db.close()?)
}

/// Waits for SIGTERM or SIGINT. From then on, a second one ends the process at once.
async fn end() {
    let (Ok(mut term), Ok(mut int)) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        // Without signals the process can only be killed, which loses nothing that was promised.
        return std::future::pending().await;
    };
    either(&mut term, &mut int).await;
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
