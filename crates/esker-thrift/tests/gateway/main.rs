//! The gateway as clients meet it: over sockets, in both protocols, in frames and without.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]

mod access;
mod calls;
mod errors;
mod hostile;
mod own;
mod own_client;

use std::net::SocketAddr;
use std::thread::JoinHandle;

use esker_table::Tables;
use esker_thrift::{Config, Server, Stopper};
use test_kit::thrift as client;

/// Numbers below the given ones, from a seed that is shown.
fn randomness(seed: u64) -> impl FnMut(usize) -> usize {
    let mut rng = test_kit::Rng::new(test_kit::seed(seed));
    move |below: usize| rng.index(below)
}

/// A server of tables in memory, which ends with this.
struct Serving {
    address: SocketAddr,
    stopper: Stopper,
    thread: Option<JoinHandle<std::io::Result<()>>>,
}

fn serve() -> Serving {
    serve_with(&Config::default())
}

fn serve_with(config: &Config) -> Serving {
    serve_tables(Tables::open_in_memory(esker::Options::default()).unwrap(), config)
}

fn serve_tables(tables: Tables, config: &Config) -> Serving {
    let server =
        Server::bind(tables, Config { listen: "127.0.0.1:0".parse().unwrap(), ..config.clone() }).unwrap();
    let (address, stopper) = (server.address(), server.stopper());
    let thread = std::thread::Builder::new().spawn(move || server.run()).unwrap();
    Serving { address, stopper, thread: Some(thread) }
}

impl Serving {
    fn end(&mut self) {
        self.stopper.stop();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap().unwrap();
        }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        self.end();
    }
}
