//! `thrift`: serves the store's tables to HBase's Thrift clients until it is told to end.

use std::io::Write;

use esker_thrift::{Config, Error, Server};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::args::{Global, Thrift};
use crate::exit::{Failure, INTERRUPTED, Outcome};
use crate::log::Log;
use crate::store;
use crate::supervisor;

pub(crate) fn run(global: &Global, args: &Thrift) -> Outcome {
    let _log = Log::start_server("thrift", global, args.log_format, args.log_level)?;
    let config = config(args);
    config.check().map_err(failure)?;
    let tables = store::tables(global, args.query_cache.unwrap_or(0))?;
    let server = Server::bind(tables.clone(), config).map_err(failure)?;
    end_by_signals(&server)?;
    print(&server).map_err(|error| Failure::output(&"standard output", &error))?;
    supervisor::tell("READY=1");
    server.run().map_err(|error| Failure::store(format!("cannot accept connections: {error}")))?;
    tables.db().clone().close()?;
    tracing::info!("ended");
    Ok(())
}

fn failure(error: Error) -> Failure {
    match error {
        Error::Address(message) => Failure::usage(format!(
            "{message}, or use `esker serve --thrift`, which knows users (--thrift-user) and certificates"
        )),
        error => Failure::store(error.to_string()),
    }
}

fn config(args: &Thrift) -> Config {
    Config {
        listen: args.listen,
        connections_max: args.max_connections,
        message_len_max: args.max_message,
        messages_len_max: args.max_messages_memory,
        calls_len_max: args.max_calls_memory,
        scanners_max: args.max_scanners,
        scanner_lease: args.scanner_lease,
        ..Config::default()
    }
}

/// The first SIGTERM or SIGINT ends the server, the second one the process.
fn end_by_signals(server: &Server) -> Outcome {
    let failed = |error: std::io::Error| Failure::store(format!("cannot wait for signals: {error}"));
    let mut signals = Signals::new([SIGTERM, SIGINT]).map_err(failed)?;
    let stopper = server.stopper();
    let waits = std::thread::Builder::new().name("esker-signals".to_owned()).spawn(move || {
        let mut signals = signals.forever();
        signals.next();
        supervisor::tell("STOPPING=1");
        stopper.stop();
        signals.next();
        std::process::exit(i32::from(INTERRUPTED));
    });
    waits.map(drop).map_err(failed)
}

/// Says where the server listens.
fn print(server: &Server) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("thrift {}\nready\n", server.address()).as_bytes()).and_then(|()| out.flush())
}
