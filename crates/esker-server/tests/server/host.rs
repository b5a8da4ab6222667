//! A server on a thread of the test's process.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use esker::env::Env;
use esker::fs::sim::SimFs;
use esker::{Db, Options};
use esker_journal::late::{Fate, Late};
use esker_journal::{Journal, Local};
use esker_server::{Address, Addresses, Config, ServeError, StoreEvents, serve};
use tempfile::TempDir;
use tokio::sync::oneshot;

use crate::client::Client;

/// How long anything may take that a test waits for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// Waits until `condition` holds.
pub(crate) fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !condition() {
        assert!(begin.elapsed() < PATIENCE, "waited in vain: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Sets a flag when it is dropped, also by a test that fails: threads that go on until then end.
pub(crate) struct SetAtEnd<'a>(pub(crate) &'a AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A store that is open, so that servers may come and go.
#[derive(Clone)]
pub(crate) struct Store {
    pub(crate) db: Db,
    journal: Arc<dyn Journal>,
    events: StoreEvents,
}

impl Store {
    /// In memory, with a journal that decides each entry after `delay`, as `fate` says.
    pub(crate) fn late(delay: Duration, fate: impl FnMut() -> Fate + Send + 'static) -> Store {
        let mut store = Store::in_memory();
        store.journal = Arc::new(Late::new(&store.db, delay, fate));
        store
    }

    fn of(db: Db, events: StoreEvents) -> Store {
        let journal: Arc<dyn Journal> = match std::env::var("ESKER_LATE_US").map(|us| us.parse().unwrap()) {
            Ok(us) => Arc::new(Late::new(&db, Duration::from_micros(us), || Fate::Done)),
            Err(_) => Arc::new(Local::new(&db)),
        };
        Store { journal, db, events }
    }

    pub(crate) fn in_memory() -> Store {
        let events = StoreEvents::default();
        let options = Options::default().memory_budget(64 << 20).listener(events.clone());
        Store::of(Db::open_in_memory(options).unwrap(), events)
    }

    pub(crate) fn on(disk: &SimFs) -> Store {
        let events = StoreEvents::default();
        let env = Env { fs: Arc::new(disk.clone()), ..Env::system() };
        let options = Options::default().memory_budget(8 << 20).env(env).listener(events.clone());
        Store::of(Db::open("store", options).unwrap(), events)
    }

    pub(crate) fn at(dir: &TempDir) -> Store {
        let events = StoreEvents::default();
        let options = Options::default().memory_budget(8 << 20).listener(events.clone());
        Store::of(Db::open(dir.path().join("store"), options).unwrap(), events)
    }
}

impl Store {
    /// Why no server of it can listen to `address`.
    pub(crate) fn refusal(&self, address: &str) -> ServeError {
        self.refusal_of(address, |_| {})
    }

    /// Why no server of it can listen to `address`, with a configuration that `change` has changed.
    pub(crate) fn refusal_of(&self, address: &str, change: impl FnOnce(&mut Config)) -> ServeError {
        let mut config = Config::new("/store");
        config.resp = vec![address.parse().unwrap()];
        change(&mut config);
        serve(&self.journal, &self.events, config, |_| panic!("it listens"), async {}).unwrap_err()
    }
}

/// A server that runs until this is dropped.
pub(crate) struct Host {
    pub(crate) addresses: Vec<Address>,
    /// Where it serves HTTP, if it was told to.
    pub(crate) http: Vec<Address>,
    pub(crate) store: Store,
    end: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<Result<(), ServeError>>>,
    /// Where its Unix socket is.
    _dir: TempDir,
}

impl Host {
    /// Serves an empty store in memory.
    pub(crate) fn start() -> Host {
        Host::of(&Store::in_memory(), |_| {})
    }

    /// Serves `store` at a TCP port and at a Unix socket, with a configuration that `change` has changed.
    pub(crate) fn of(store: &Store, change: impl FnOnce(&mut Config)) -> Host {
        let dir = tempfile::tempdir().unwrap();
        let mut config = Config::new("/store");
        config.resp.push(Address::Tcp("127.0.0.1".to_owned(), 0));
        config.resp.push(Address::Unix(dir.path().join("socket")));
        change(&mut config);
        let (end, ended) = oneshot::channel::<()>();
        let (tell, told) = mpsc::channel();
        let served = store.clone();
        let thread = thread::spawn(move || {
            let ready = |addresses: &Addresses| tell.send(addresses.clone()).unwrap();
            serve(&served.journal, &served.events, config, ready, async {
                let _ = ended.await;
            })
        });
        let addresses = match told.recv_timeout(PATIENCE) {
            Ok(addresses) => addresses,
            Err(_) => panic!("no server: {:?}", thread.join().unwrap()),
        };
        let Addresses { resp, http } = addresses;
        Host { addresses: resp, http, store: store.clone(), end: Some(end), thread: Some(thread), _dir: dir }
    }

    /// A client by TCP.
    pub(crate) fn client(&self) -> Client {
        Client::connect(&self.addresses[0])
    }

    /// A client by the Unix socket, which holds few bytes that nobody has read.
    pub(crate) fn unix_client(&self) -> Client {
        Client::connect(&self.addresses[1])
    }

    /// A client that speaks version 3.
    pub(crate) fn client3(&self) -> Client {
        let mut client = self.client();
        client.call("HELLO 3");
        client
    }

    /// Waits until so many clients wait for elements.
    pub(crate) fn wait_for_blocked(&self, count: u64) {
        let mut client = self.client();
        wait_until("clients wait for elements", || client.figure("blocked_clients") == count);
    }

    /// Waits until a command runs in the pool, or more have run there than `before`.
    pub(crate) fn wait_for_pool(&self, before: u64) {
        let mut client = self.client();
        wait_until("a command runs in the pool, or has run", || {
            client.figure("pool_running") > 0 || client.figure("commands_in_pool") > before
        });
    }

    /// Begins to end the server.
    pub(crate) fn begin_to_end(&mut self) {
        drop(self.end.take());
    }

    /// Ends the server. Returns how long that took.
    pub(crate) fn end(mut self) -> Duration {
        let begin = Instant::now();
        self.begin_to_end();
        self.thread.take().unwrap().join().unwrap().unwrap();
        begin.elapsed()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            if !thread::panicking() {
                ended.unwrap().unwrap();
            }
        }
    }
}

impl Host {
    /// Ends the server, which fails.
    pub(crate) fn expect_failure(&mut self) {
        self.begin_to_end();
        let ended = self.thread.take().unwrap().join().unwrap();
        assert!(matches!(ended, Err(ServeError::Store(_))), "{ended:?}");
    }
}
