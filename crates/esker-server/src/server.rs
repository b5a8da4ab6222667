//! The server's state, which one thread owns, and how it does commands.
//!
//! ```text
//! command --evaluate--> Turn: Pending (writes, touched keys, events) --propose--> Flights --done--> replies, events
//!    |                        |
//!    | would read a file,     | would have to wait
//!    | or walk too far        v
//!    +---------> Job on the pool: keys latched, snapshot taken, evaluated there
//! ```
//! The event loop evaluates against the store, the turns in flight and the writes that it has gathered and not proposed,
//! whichever client sent them. It proposes these before another thread begins to write to keys, and replies when they are done.
//! A journal that decides within the call ([`Journal::is_immediate`]) has no turns in flight.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use esker::{Batch, Db, ErrorKind, Snapshot};
use esker_journal::{Ground, Journal, Moment, Pending as Undecided, Proposed, Undone};
use esker_redis::commands::blocking::reply_without_element;
use esker_redis::model::{self, Kind as Type, Swept};
use esker_redis::{
    Base, Context, Cursors, Event, Long, Lookups, ReadError, Reply, Session, Slot, Space, Spec, Stamp, Wants,
    Writes, evaluate, mixed, placed,
};
use tokio::sync::Notify;

use crate::backups::Backups;
use crate::buffers::Buffers;
use crate::canary::broken;
use crate::channels::Channels;
use crate::clients::{Client, Clients};
use crate::connection::{COMMIT_BYTES, ITEM_BYTES, is_move, told};
use crate::expiries::Expiries;
use crate::figures::{Figures, Times, add};
use crate::http::Http;
use crate::keyspace::Keyspace;
use crate::latches::{Latch, Latched, Latches};
use crate::latency_monitor::{self, Kind};
use crate::logins::Logins;
use crate::memory::Budget;
use crate::pool::{Place, Pool, Ran};
use crate::prefixes;
use crate::process;
use crate::rates::Rates;
use crate::reports::Reports;
use crate::settings::Settings;
use crate::syncs::{SyncWaits, Syncs};
use crate::trees::{STEPS_INLINE, Trees, View, ended, unreadable};
use crate::turn::{Ended, Flights, Loss, Outcome, Serving, Turn};
use crate::users::Users;
use crate::waiters::{Answer, Waiter, WaiterId, Waiters};
use crate::watches::Watches;
use crate::why::{Spent, ToPool, Why};
use crate::{Config, Durability};

/// Commands with more arguments are done on another thread, whatever they do.
pub(crate) const ARGUMENTS_INLINE: usize = 2048;

/// The replies of a transaction's commands take at most so many bytes together.
const EXEC_REPLY_MAX: usize = 512 << 20;

/// A command or transaction with more keys holds all keys: that takes the event loop less.
const KEYS_HELD_MAX: usize = 1 << 14;

/// How often a command waits for a place in the pool without holding its keys. After that it holds them.
const PLACES_TRIED: usize = 8;

/// Keys of a newly blocked client that are checked in one step.
const KEYS_AT_ONCE: usize = 128;

/// Collections that are swept in one step.
const SWEPT_AT_ONCE: usize = 256;

/// A client that moves large values or walks over many entries rests for so long, if others have short commands. With half
/// of it, a stream of values still made these wait for twice as long on two busy processors.
const REST: Duration = Duration::from_millis(2);

/// For at least so long after a batch was refused, commands do not share batches.
const APART: Duration = Duration::from_secs(1);

/// The most turns in flight, and the most bytes of them. What comes meanwhile is gathered in the open turn.
const FLIGHTS_MAX: usize = 16;
const FLIGHT_BYTES_MAX: usize = 16 << 20;

/// Size of a batch that commands share then if they only free space. A full disk takes batches whose puts have at most half a
/// log segment, which is 128 KiB or more.
const FREEING_BYTES: usize = 16 << 10;

/// What commands have changed, from their evaluation to its commit.
#[derive(Default)]
pub(crate) struct Pending {
    pub(crate) writes: Writes,
    pub(crate) touched: Vec<(u16, Vec<u8>)>,
    pub(crate) events: Vec<Event>,
    /// Whether a command whose reply is not noted yet has added to this, or relies on it.
    has_news: bool,
    /// Whether a command has read something that is in flight.
    relies: bool,
    /// The memory of `touched` and `events`, about.
    told_bytes: usize,
}

impl Pending {
    pub(crate) fn is_empty(&self) -> bool {
        self.writes.is_empty() && self.touched.is_empty() && self.events.is_empty()
    }

    /// How much memory it takes, in bytes, about.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.writes.memory_bytes() + self.told_bytes
    }

    /// Adds keys that were touched, and what is told of them.
    fn add_told(&mut self, mut touched: Vec<(u16, Vec<u8>)>, mut events: Vec<Event>) {
        self.has_news |= !touched.is_empty() || !events.is_empty();
        let keys = touched.iter().map(|(_, key)| key).chain(events.iter().map(|event| &event.key));
        self.told_bytes += keys.map(|key| key.len() + ITEM_BYTES).sum::<usize>();
        self.touched.append(&mut touched);
        self.events.append(&mut events);
    }

    /// Whether it relies on turns in flight.
    pub(crate) fn relies(&self) -> bool {
        self.relies
    }

    /// Whether a command since the last call has added to this, or relies on it.
    pub(crate) fn take_news(&mut self) -> bool {
        self.writes.take_relied_on() | std::mem::take(&mut self.has_news)
    }
}

/// A command with its arguments.
#[derive(Clone)]
pub(crate) struct Owned {
    pub(crate) spec: &'static Spec,
    pub(crate) arguments: Vec<Vec<u8>>,
    /// Those of its arguments that are not in memory.
    pub(crate) long: Vec<Long>,
    pub(crate) database: u16,
}

impl Owned {
    pub(crate) fn arguments(&self) -> Vec<&[u8]> {
        self.arguments.iter().map(Vec::as_slice).collect()
    }
}

/// Where and when a command is done, and as a part of what.
pub(crate) struct At<'a> {
    pub(crate) database: u16,
    /// By the clock of [`Server::now_us`].
    pub(crate) now_us: u64,
    /// By how many milliseconds that clock is ahead of the machine's.
    pub(crate) ahead_ms: i64,
    /// Over how many entries all that is done at once may still walk on the event loop.
    pub(crate) steps: &'a Cell<u32>,
}

/// Commands that another thread does, as one step.
struct Job {
    commands: Vec<Arc<Owned>>,
    resp3: bool,
    /// Whether they stand within `EXEC`, where nothing waits.
    in_exec: bool,
    stamp: Stamp,
    wants: Wants,
    /// Set when the client's connection is to end.
    is_ended: Arc<AtomicBool>,
}

/// What commands hold while the pool does them.
pub(crate) struct Admitted<'a> {
    latched: Option<Latched>,
    place: Place<'a>,
}

/// What a job has come to.
struct Done {
    /// The reply of each command.
    replies: Vec<Reply>,
    pending: Pending,
    /// What is to be proposed, if the job could not do that.
    batch: Option<Batch>,
    /// Whether something was read that was in flight.
    relies: bool,
    lookups: Lookups,
}

/// What a job reads: a snapshot and what was in flight, as one consistent pair.
struct Seen {
    ground: Ground,
    snapshot: Snapshot,
    in_flight: Vec<Arc<Writes>>,
}

/// What the event loop's thread owns.
pub(crate) struct Server {
    /// For reads, figures, syncs and backups.
    pub(crate) db: Db,
    /// Through which all data changes.
    pub(crate) journal: Arc<dyn Journal>,
    /// [`Journal::is_immediate`].
    is_immediate: bool,
    pub(crate) trees: Arc<Trees>,
    pub(crate) config: Config,
    pub(crate) settings: RefCell<Settings>,
    cursors: Arc<Cursors>,
    pub(crate) latches: Rc<Latches>,
    /// What commands have written that was not proposed.
    pub(crate) turn: RefCell<Turn>,
    flights: RefCell<Flights>,
    /// The keys of turns that were not done, whose waiters are still to be served.
    lost_keys: RefCell<Vec<(u16, Vec<u8>)>>,
    /// Is told when a turn in flight is decided.
    landed: Notify,
    /// Set when writes are refused. From then on commands that may need space share no batch with others, until one of them
    /// is taken, and at least until this time.
    apart_until: Cell<Option<Instant>>,
    pub(crate) watches: RefCell<Watches>,
    pub(crate) waiters: RefCell<Waiters>,
    pub(crate) channels: RefCell<Channels>,
    pub(crate) clients: RefCell<Clients>,
    pub(crate) users: RefCell<Users>,
    /// Is held while users change.
    pub(crate) users_change: tokio::sync::Mutex<()>,
    pub(crate) logins: Logins,
    pub(crate) syncs: Arc<Syncs>,
    pub(crate) sync_waits: SyncWaits,
    pub(crate) expiries: Expiries,
    pub(crate) keyspace: Keyspace,
    pub(crate) figures: Figures,
    pub(crate) reports: Reports,
    /// The memory of all connections.
    pub(crate) budget: Rc<Budget>,
    /// For replies that are on their way.
    pub(crate) buffers: Buffers,
    pub(crate) pool: Pool,
    pub(crate) rates: Rates,
    /// What the process took when the server began, in bytes.
    pub(crate) startup_bytes: u64,
    /// A number of this run of the server, of 40 hexadecimal digits.
    pub(crate) run_id: String,
    pub(crate) http: Http,
    pub(crate) backups: Backups,
    /// The reason of the last command that was sent to the pool.
    pub(crate) to_pool: Cell<Option<ToPool>>,
    /// How many steps of connections were short.
    pub(crate) short_steps: Cell<u64>,
    /// Whether no connection goes on after its current command.
    pub(crate) is_ending: Cell<bool>,
    /// Is told of each connection that ends.
    pub(crate) one_gone: Notify,
    random: Cell<u64>,
    /// The last batch of this thread, empty: its memory serves the next one.
    spare: RefCell<Batch>,
}

impl Server {
    pub(crate) fn new(
        journal: &Arc<dyn Journal>,
        config: Config,
        syncs: Arc<Syncs>,
        (users, logins): (Users, Logins),
        seed: u64,
    ) -> esker::Result<Rc<Server>> {
        let db = journal.db();
        let trees = Arc::new(Trees::open(journal, config.databases)?);
        let (settings, budget) = (Settings::new(&config), Rc::default());
        let keyspace = Keyspace::of(&trees);
        let backups = Backups::into(config.backup_dir.as_deref());
        settings.apply(&budget);
        Ok(Rc::new(Server {
            db: db.clone(),
            journal: Arc::clone(journal),
            is_immediate: journal.is_immediate(),
            trees,
            settings: RefCell::new(settings),
            config,
            cursors: Arc::new(prefixes::cursors_of(journal, seed)?),
            latches: Rc::default(),
            turn: RefCell::default(),
            flights: RefCell::new(Flights::new(journal.ground())),
            lost_keys: RefCell::default(),
            landed: Notify::new(),
            // The disk may be full already.
            apart_until: Cell::new(db.check_writable().err().map(|_| Instant::now())),
            watches: RefCell::default(),
            waiters: RefCell::default(),
            channels: RefCell::default(),
            clients: RefCell::default(),
            users: RefCell::new(users),
            users_change: tokio::sync::Mutex::new(()),
            logins,
            syncs,
            sync_waits: SyncWaits::default(),
            expiries: Expiries::default(),
            keyspace,
            figures: Figures::new(journal.moment().now_us),
            reports: Reports::default(),
            budget,
            buffers: Buffers::default(),
            pool: Pool::default(),
            rates: Rates::default(),
            startup_bytes: process::memory().resident_bytes,
            run_id: (1..4).map(|word| format!("{:016x}", mixed(seed ^ word))).collect::<String>()[..40]
                .to_owned(),
            http: Http::default(),
            backups,
            to_pool: Cell::default(),
            short_steps: Cell::default(),
            is_ending: Cell::new(false),
            one_gone: Notify::new(),
            random: Cell::new(seed),
            spare: RefCell::default(),
        }))
    }

    /// For how many seconds it has served.
    pub(crate) fn uptime_s(&self) -> u64 {
        self.uptime_s_at(self.now_us())
    }

    /// For how many seconds it has served at `now_us`, by the clock of [`Server::now_us`].
    pub(crate) fn uptime_s_at(&self, now_us: u64) -> u64 {
        now_us.saturating_sub(self.figures.began_us) / 1_000_000
    }

    /// Lets running commands end, at most for so long.
    pub(crate) async fn end(&self, within: Duration) {
        self.is_ending.set(true);
        self.clients.borrow().all().for_each(|client| client.told.notify());
        let all_gone = async {
            loop {
                let one_gone = self.one_gone.notified();
                if self.clients.borrow().len() == 0 {
                    return;
                }
                one_gone.await;
            }
        };
        let _ = tokio::time::timeout(within, all_gone).await;
    }

    /// Lets others go first, after a large piece of work for one client. If some of them had short commands, the client
    /// rests: otherwise a few such clients take all of the processors, and each short command waits for several turns of the
    /// system's scheduler.
    pub(crate) async fn give_way(&self) {
        let before = self.short_steps.get();
        tokio::task::yield_now().await;
        if self.short_steps.get() != before {
            tokio::time::sleep(REST).await;
        }
    }

    /// Sends `message` to all that listen to `channel`. Returns how many these are.
    pub(crate) fn publish(&self, channel: &[u8], message: &[u8]) -> usize {
        self.channels.borrow().publish(channel, message, || self.shed_memory())
    }

    /// Ends those connections that take the most memory, until the others take as much as they may.
    pub(crate) fn shed_memory(&self) {
        if self.budget.excess() > 0 {
            self.clients.borrow().shed(&self.budget);
        }
    }

    /// Notes for `LATENCY` how long something took that has just ended.
    pub(crate) fn note_event(&self, kind: Kind, took: Duration) {
        let (ms, least_ms) = (took.as_millis() as u64, self.settings.borrow().latency_ms);
        if least_ms > 0 && ms >= least_ms {
            let event = latency_monitor::Event { at_s: self.wall_us() / 1_000_000, ms };
            self.figures.monitor.borrow_mut().add(kind, event);
        }
    }

    /// Deletes elements of collections that have expired, in all databases.
    pub(crate) async fn sweep(self: &Rc<Self>) {
        let begun = Instant::now();
        let swept = self.sweep_all().await;
        let took = begun.elapsed();
        self.figures.sweeps.add(took);
        self.note_event(Kind::Sweep, took);
        if let Err(error) = swept {
            // The next sweep tries again.
            add(&self.figures.failed_sweeps, 1);
            self.reports.failure("sweep", &error);
        }
    }

    /// Sweeps each database, also if another one fails. Returns the first error.
    async fn sweep_all(self: &Rc<Self>) -> esker::Result<()> {
        let mut swept = Ok(());
        for database in 0..self.trees.count() {
            swept = swept.and(self.sweep_database(database).await);
        }
        swept
    }

    async fn sweep_database(self: &Rc<Self>, database: u16) -> esker::Result<()> {
        let mut next = Some(Vec::new());
        while let Some(from) = next {
            let nothing = HashSet::new();
            let found = self.sweep_some(database, from.clone(), nothing).await?;
            if !found.gone.is_empty() {
                // Those that a command is about to use come later: nobody waits for this.
                let latch = |key: &Vec<u8>| self.latches.of(database, key);
                let mut gone = found.gone;
                gone.retain(|key| self.latches.are_free(Some(&[latch(key)])));
                // No command on the others is under way now, so what is still gone stays gone.
                let _latched = self.latches.hold(Some(gone.iter().map(latch).collect()));
                self.commit_all().await;
                self.sweep_some(database, from, gone.into_iter().collect()).await?;
            }
            next = found.next;
        }
        Ok(())
    }

    /// Looks at some collections of a database, from a place on, and deletes the elements of those among `held` that are
    /// gone.
    async fn sweep_some(
        self: &Rc<Self>,
        database: u16,
        from: Vec<u8>,
        held: HashSet<Vec<u8>>,
    ) -> esker::Result<Swept> {
        let (trees, seen, now_us) = (Arc::clone(&self.trees), self.seen(), self.now_us());
        let (journal, ground) = (Arc::clone(&self.journal), seen.ground);
        let swept = self.pool.run(move || {
            let view = View::of_pool(&trees, &seen.snapshot, &seen.in_flight);
            let mut pending = Pending::default();
            let mut session = Session::new(&view, &mut pending.writes, now_us);
            let may_delete = |key: &[u8]| held.contains(key);
            let swept = model::sweep(&mut session, database, &from, SWEPT_AT_ONCE, may_delete);
            let swept = swept.map_err(unreadable)?;
            let batch = propose_from_pool(&*journal, &trees, &seen, &mut pending)?;
            Ok::<_, esker::Error>((swept, pending, batch))
        });
        let (swept, pending, batch) = swept.await??;
        if !pending.writes.is_empty() {
            let ended = Ended { pending, ..Ended::default() };
            let outcome = Rc::clone(&ended.outcome);
            self.begin_flight(ended, ground, batch);
            outcome.wait().await;
            if let Some(Err(message)) = outcome.get() {
                return Err(esker::Error::new(ErrorKind::Busy, message));
            }
        }
        Ok(swept)
    }

    /// The time by which keys expire, in microseconds since 1970. It never goes back, and may be ahead of the machine's clock.
    pub(crate) fn now_us(&self) -> u64 {
        self.journal.moment().now_us
    }

    /// The time by the machine's clock, in microseconds since 1970: the one that clients are told.
    pub(crate) fn wall_us(&self) -> u64 {
        let Moment { now_us, ahead_us } = self.journal.moment();
        now_us.saturating_sub(ahead_us)
    }

    /// [`Server::now_us`], and by how many milliseconds that clock is ahead of the machine's.
    pub(crate) fn now(&self) -> (u64, i64) {
        let Moment { now_us, ahead_us } = self.journal.moment();
        (now_us, (ahead_us / 1000) as i64)
    }

    /// What a command needs that is done at `now_us`, by the clock of [`Server::now_us`].
    fn stamp(&self, now_us: u64, ahead_ms: i64) -> Stamp {
        let state = self.random.get().wrapping_add(1);
        self.random.set(state);
        Stamp { now_us, ahead_ms, seed: mixed(state) }
    }

    /// What has to be known of commands. Who begins to watch a key, or to wait for it, has what is pending committed first.
    fn wants(&self) -> Wants {
        let settings = self.settings.borrow();
        let events = settings.notifies() && !self.channels.borrow().is_empty();
        let touched = !self.watches.borrow().is_empty() || !self.waiters.borrow().is_empty();
        Wants { events, new_keys: events && settings.tells_new_keys(), touched }
    }

    // ---- on this thread ------------------------------------------------------------------------------

    /// Evaluates a command on this thread, on top of `pending`.
    ///
    /// # Errors
    /// `NeedsIo` when it is work for the pool; otherwise the store failed.
    pub(crate) fn evaluate(
        &self,
        pending: &mut Pending,
        spec: &Spec,
        arguments: &[&[u8]],
        long: &[Long],
        At { database, now_us, ahead_ms, steps }: At<'_>,
        reply: &mut Reply,
    ) -> Result<(), ReadError> {
        if arguments.len() > ARGUMENTS_INLINE {
            return Err(self.needs_pool(ToPool::Walk));
        }
        let flights = self.flights.borrow();
        let view = View::inline(&self.trees, flights.writes(), steps.get());
        let stamp = self.stamp(now_us, ahead_ms);
        let session = Session::new(&view, &mut pending.writes, stamp.now_us);
        let mut ctx = Context::new(session, &self.cursors, stamp, database, self.trees.count());
        ctx.set_long(long);
        ctx.set_wants(self.wants());
        esker::without_io(|| evaluate(&mut ctx, spec, arguments, reply)).map_err(|error| match error {
            ReadError::NeedsIo => {
                self.needs_pool(if view.has_walked() { ToPool::Walk } else { ToPool::File })
            }
            error => error,
        })?;
        self.figures.note_lookups(ctx.take_lookups());
        steps.set(view.steps_left());
        let (touched, events) = (ctx.take_touched(), ctx.take_events());
        pending.add_told(touched, events);
        pending.relies |= view.relies();
        // Of another journal, also a reply that relies on no write waits for the barrier at the end of the turn.
        pending.has_news |= !self.is_immediate;
        Ok(())
    }

    /// [`Server::evaluate`], on top of what is pending.
    pub(crate) fn evaluate_in_turn(
        &self,
        spec: &Spec,
        arguments: &[&[u8]],
        long: &[Long],
        at: At<'_>,
        reply: &mut Reply,
    ) -> Result<(), ReadError> {
        let _unless_broken = RefusedIfBroken(self);
        self.evaluate(&mut self.turn.borrow_mut().pending, spec, arguments, long, at, reply)
    }

    /// Notes that a command is work for the pool.
    #[cold]
    pub(crate) fn needs_pool(&self, why: ToPool) -> ReadError {
        self.figures.note_to_pool(why);
        self.to_pool.set(Some(why));
        ReadError::NeedsIo
    }

    /// Whether so much is in flight that the open turn waits.
    pub(crate) fn is_full(&self) -> bool {
        let flights = self.flights.borrow();
        flights.len() >= FLIGHTS_MAX || flights.bytes() >= FLIGHT_BYTES_MAX
    }

    /// Whether the open turn waits, and has grown so much that no command adds to it.
    pub(crate) fn is_overfull(&self) -> bool {
        !self.is_immediate && self.turn.borrow().pending.memory_bytes() >= COMMIT_BYTES && self.is_full()
    }

    /// Ends the open turn. Its keys count as changed from now on.
    fn end_turn(&self) -> Ended {
        let ended = self.turn.borrow_mut().end();
        self.tell_watches(&ended.pending);
        ended
    }

    /// Proposes what the turn has written, if that needs no wait. Returns whether nothing is pending now.
    pub(crate) fn try_commit(self: &Rc<Self>) -> bool {
        let _unless_broken = RefusedIfBroken(self);
        let proposed = {
            let turn = self.turn.borrow();
            if turn.is_idle() {
                return true;
            }
            let proposed = if self.is_full() {
                return false;
            } else if !turn.pending.writes.is_empty() {
                self.try_propose(&turn.pending.writes)
            } else if self.is_immediate {
                Ok(None)
            } else {
                decided(self.journal.confirm())
            };
            match proposed {
                Ok(undecided) => undecided,
                Err(_) => return false,
            }
        };
        let ended = self.end_turn();
        add(&self.figures.commits, u64::from(!ended.pending.writes.is_empty()));
        match proposed {
            Some(undecided) => self.fly(ended, self.ground(), undecided),
            None => self.land(&ended.pending.writes, &ended.pending.events, ended.served, &ended.outcome),
        }
        true
    }

    /// Has the open turn committed as soon as that is possible.
    pub(crate) fn commit_soon(self: &Rc<Self>) {
        // When a turn in flight is decided, the open one follows.
        if !self.try_commit() && !self.is_full() {
            self.commit_in_pool();
        }
    }

    /// Has another thread commit what the turn has written, whose keys are latched meanwhile. The next turn begins. Returns
    /// what becomes of it.
    pub(crate) fn commit_in_pool(self: &Rc<Self>) -> Rc<Outcome> {
        let ground = self.ground();
        let mut ended = self.end_turn();
        let writes = &ended.pending.writes;
        // Whoever has latched some of them waits for this commit.
        let keys = changed_by(writes);
        let changed = keys.clone();
        let latches = |keys: Vec<(u16, Vec<u8>)>| {
            keys.iter().map(|(database, key)| self.latches.of(*database, key)).collect()
        };
        let latched = self.latches.hold(keys.map(latches));
        let (server, outcome) = (Rc::clone(self), Rc::clone(&ended.outcome));
        tokio::task::spawn_local(async move {
            let writes = std::mem::take(&mut ended.pending.writes);
            match server.write_in_pool(writes, ground, ended.first.take()).await {
                Ok((writes, batch)) => {
                    ended.pending.writes = writes;
                    server.begin_flight(ended, ground, batch);
                    // Those who wait for these keys are served now.
                    drop(latched);
                }
                Err(undone) => {
                    server.note_refused(&undone);
                    drop(latched);
                    server.refuse(changed, ended.served, &ended.outcome, undone.into());
                    server.serve_lost();
                }
            }
        });
        outcome
    }

    /// Commits what is pending, before a job begins that has latched its keys: from then on nobody writes to these. Whether
    /// it succeeds is the business of those who rely on it.
    async fn commit_all(self: &Rc<Self>) {
        while !self.try_commit() {
            if !self.is_full() {
                return self.commit_in_pool().wait().await;
            }
            self.landed.notified().await;
        }
    }

    // ---- turns in flight -----------------------------------------------------------------------------

    /// On what commands are evaluated now.
    fn ground(&self) -> Ground {
        self.flights.borrow().ground()
    }

    /// What a job reads that begins now.
    fn seen(&self) -> Seen {
        let flights = self.flights.borrow();
        // In this order: what is decided between the two is in both, and reads as one of them.
        let writes = if broken("server-pair") { &[] } else { flights.writes() };
        let (ground, in_flight) = (flights.ground(), writes.to_vec());
        Seen { ground, in_flight, snapshot: self.db.snapshot() }
    }

    /// A turn that was evaluated on `ground` is proposed: by this call, if it is given its batch, and otherwise it is done
    /// already.
    fn begin_flight(self: &Rc<Self>, ended: Ended, ground: Ground, batch: Option<Batch>) {
        let Some(mut batch) = batch else {
            return self.land(&ended.pending.writes, &ended.pending.events, ended.served, &ended.outcome);
        };
        match decided(self.journal.try_propose(ground, &mut batch)) {
            Ok(Some(undecided)) => self.fly(ended, ground, undecided),
            Ok(None) => self.land(&ended.pending.writes, &ended.pending.events, ended.served, &ended.outcome),
            Err(undone) => {
                self.note_refused(&undone);
                let changed = changed_by(&ended.pending.writes);
                self.refuse(changed, ended.served, &ended.outcome, undone.into());
                self.serve_lost();
            }
        }
    }

    /// A turn is in flight now.
    fn fly(self: &Rc<Self>, ended: Ended, ground: Ground, undecided: Undecided) {
        let number = self.flights.borrow_mut().add(ended, ground);
        let server = Rc::clone(self);
        tokio::task::spawn_local(async move {
            let outcome = undecided.await;
            server.note_decided(number, outcome);
        });
    }

    /// A turn in flight is decided.
    fn note_decided(self: &Rc<Self>, number: u64, outcome: esker_journal::Outcome) {
        let outcome = outcome.map_err(|undone| {
            self.note_refused(&undone);
            Loss::from(undone)
        });
        let is_lost = self.flights.borrow_mut().decide(number, outcome, || self.journal.ground());
        // A turn that has written nothing and read nothing in flight does not rely on the lost one.
        let relies = |pending: &Pending| pending.relies || !pending.writes.is_empty();
        if is_lost && relies(&self.turn.borrow().pending) {
            let Ended { pending, served, outcome, .. } = self.end_turn();
            let loss = Loss { message: LOST.to_owned(), is_unknown: false };
            self.refuse(changed_by(&pending.writes), served, &outcome, loss);
        }
        loop {
            let Some((flight, decided)) = self.flights.borrow_mut().pop_decided() else { break };
            match decided {
                Ok(()) => self.land(&flight.writes, &flight.events, flight.served, &flight.outcome),
                Err(loss) => {
                    self.refuse(changed_by(&flight.writes), flight.served, &flight.outcome, loss);
                }
            }
        }
        self.serve_lost();
        self.landed.notify_waiters();
        // It may have waited for a place.
        self.commit_soon();
    }

    /// A turn is done.
    fn land(&self, writes: &Writes, events: &[Event], served: Vec<Serving>, outcome: &Outcome) {
        if !writes.is_empty() {
            self.note_taken(writes);
            self.note_keys(writes);
        }
        outcome.done(!writes.is_empty());
        events.iter().for_each(|event| self.publish_event(event));
        for Serving { id, reply, .. } in served {
            self.answer_waiter(id, reply);
        }
    }

    fn answer_waiter(&self, id: WaiterId, reply: Vec<u8>) {
        if let Some(waiter) = self.waiters.borrow_mut().remove(id) {
            // The client may have gone just now: then its element is gone too, as with a reply that is lost on its way.
            let _ = waiter.answer.send(Answer::Reply(reply));
        }
    }

    /// A turn is not done that has changed these keys; `None`: any. Clients have seen of it what is not there, and some watch or
    /// wait for these keys for that reason: [`Server::serve_lost`] follows.
    fn refuse(
        &self,
        changed: Option<Vec<(u16, Vec<u8>)>>,
        served: Vec<Serving>,
        outcome: &Outcome,
        loss: Loss,
    ) {
        self.watches.borrow_mut().touch_lost(changed.as_deref());
        let waiters = self.waiters.borrow();
        let of_waiter = |waiter: &Waiter| -> Vec<(u16, Vec<u8>)> {
            waiter.keys.iter().map(|key| (waiter.database, key.clone())).collect()
        };
        let mut keys = changed.unwrap_or_else(|| waiters.all().flat_map(of_waiter).collect());
        drop(waiters);
        for Serving { id, .. } in served {
            if loss.is_unknown {
                // Its element may be gone: to try again might take another one.
                let mut reply = Reply::default();
                reply.error(&loss.message);
                self.answer_waiter(id, reply.bytes);
            } else if let Some(waiter) = self.waiters.borrow().get(id) {
                // It waits on at its old place.
                waiter.held.set_served(false);
                keys.extend(of_waiter(waiter));
            }
        }
        outcome.decide(Err(loss.message));
        self.lost_keys.borrow_mut().append(&mut keys);
    }

    /// Serves the clients that wait for keys of turns that were not done: first come, first served, so when no other turn of a
    /// lost ground is in flight.
    fn serve_lost(self: &Rc<Self>) {
        if !self.flights.borrow().has_lost() {
            let keys = self.lost_keys.take();
            self.serve_waiters(keys);
        }
    }

    /// Whether the writes of commands that may need space are to be committed by themselves: some have been refused. A full
    /// disk takes what frees space, and refuses the whole of a batch that does not.
    pub(crate) fn commits_apart(&self) -> bool {
        self.apart_until.get().is_some()
    }

    /// Whether what is pending, which has `bytes`, may share no batch with the next command.
    pub(crate) fn is_apart(&self, bytes: usize) -> bool {
        let only_frees_space = || self.turn.borrow().pending.writes.only_free_space();
        self.commits_apart() && (bytes >= FREEING_BYTES || !only_frees_space())
    }

    /// Notes that the store has taken `writes`.
    fn note_taken(&self, writes: &Writes) {
        self.syncs.note_written();
        if let Some(until) = self.apart_until.get()
            && !writes.only_free_space()
            && Instant::now() >= until
        {
            self.apart_until.set(None);
        }
    }

    /// Notes that a turn was not taken.
    fn note_refused(&self, undone: &Undone) {
        add(&self.figures.failed_commits, 1);
        if self.is_immediate || undone.error().kind() == ErrorKind::OutOfSpace {
            // What one command writes should not be refused for what another one does.
            self.apart_until.set(Some(Instant::now() + APART));
        }
    }

    fn try_propose(&self, writes: &Writes) -> Result<Option<Undecided>, Undone> {
        let mut batch = self.spare.borrow_mut();
        esker::without_io(|| self.trees.try_fill(&mut batch, writes)).map_err(Undone::Refused)?;
        let proposed = self.journal.try_propose(self.ground(), &mut batch);
        if batch.size_bytes() > 2 * COMMIT_BYTES {
            *batch = Batch::new();
        } else {
            batch.clear();
        }
        decided(proposed)
    }

    /// Has another thread commit `writes`, and returns them: with their batch, if it is still to be proposed.
    async fn write_in_pool(
        &self,
        writes: Writes,
        ground: Ground,
        client: Option<Rc<Client>>,
    ) -> Result<(Writes, Option<Batch>), Undone> {
        let (journal, trees, begun) = (Arc::clone(&self.journal), Arc::clone(&self.trees), Instant::now());
        let written = self.pool.run(move || {
            let mut writes = writes;
            let mut batch = trees.batch(&mut writes, None).map_err(Undone::Refused)?;
            if !journal.is_immediate() {
                return Ok((writes, Some(batch)));
            }
            journal.propose(ground, &mut batch).wait()?;
            Ok((writes, None))
        });
        // After a panic it may have been written.
        let written = written.await.unwrap_or_else(|error| Err(Undone::Unknown(error)));
        if let Some(client) = client {
            self.note_wait("commit", Kind::Commit, &self.figures.pool_commits, begun.elapsed(), &client);
        }
        written
    }

    /// Notes that replies to a client have waited.
    fn note_wait(&self, what: &str, kind: Kind, times: &Times, took: Duration, client: &Client) {
        times.add(took);
        self.note_event(kind, took);
        if self.settings.borrow().is_slow(took) {
            self.reports.slow_wait(what, took, client);
        }
    }

    /// Notes which keys there are, and when they expire.
    fn note_keys(&self, writes: &Writes) {
        self.expiries.note(writes);
        self.keyspace.note(writes, self.now_us());
        add(&self.figures.changes, writes.count() as u64);
    }

    fn tell_watches(&self, Pending { writes, touched, .. }: &Pending) {
        let mut watches = self.watches.borrow_mut();
        if !watches.is_empty() {
            touched.iter().for_each(|(database, key)| watches.touch(*database, key));
            writes.cleared().iter().for_each(|slot| watches.touch_all(slot.database));
        }
    }

    /// Sends what `notify-keyspace-events` asks for.
    pub(crate) fn publish_event(&self, event: &Event) {
        let (by_key, by_event) = self.settings.borrow().wants(event.class);
        if by_key {
            let channel = [format!("__keyspace@{}__:", event.database).as_bytes(), &event.key].concat();
            self.publish(&channel, event.name.as_bytes());
        }
        if by_event {
            let channel = format!("__keyevent@{}__:{}", event.database, event.name);
            self.publish(channel.as_bytes(), &event.key);
        }
    }

    // ---- those who wait for elements -----------------------------------------------------------------

    /// Does the commands of clients that have waited for these keys, first come, first served, as a part of the open turn.
    pub(crate) fn serve_waiters(self: &Rc<Self>, touched: Vec<(u16, Vec<u8>)>) {
        if self.waiters.borrow().is_empty() {
            return;
        }
        let mut touched = std::collections::VecDeque::from(touched);
        let mut is_served = false;
        while let Some((database, key)) = touched.pop_front() {
            let waiting = self.waiters.borrow().of_key(database, &key);
            for id in waiting {
                match self.serve_waiter(id, &key, true) {
                    Served::Wrongly => {}
                    Served::With(more) => {
                        is_served = true;
                        if self.turn.borrow().pending.memory_bytes() >= COMMIT_BYTES {
                            self.commit_soon();
                        }
                        touched.extend(more.into_iter().filter(|(_, other)| *other != key));
                    }
                    // There is nothing for those behind it, or it will see to them.
                    Served::Nothing | Served::ByItself => break,
                }
            }
        }
        if is_served {
            self.commit_soon();
        }
    }

    /// Does the command of a client that waits, if there is an element by now: key after key, since all of
    /// them may be too many for one step. An element that comes meanwhile finds the client.
    /// No key is looked at after `until`.
    pub(crate) async fn look_for_element(self: &Rc<Self>, id: WaiterId, until: Option<tokio::time::Instant>) {
        let Some(keys) = self.waiters.borrow().get(id).map(|waiter| waiter.keys.clone()) else { return };
        for (place, key) in keys.iter().enumerate() {
            if place % KEYS_AT_ONCE == KEYS_AT_ONCE - 1 {
                tokio::task::yield_now().await;
            }
            let is_over = until.is_some_and(|until| until <= tokio::time::Instant::now());
            if is_over || self.waiters.borrow().get(id).is_none() {
                return;
            }
            match self.serve_waiter(id, key, false) {
                Served::Nothing | Served::Wrongly => {}
                Served::With(touched) => {
                    self.serve_waiters(touched);
                    return self.commit_soon();
                }
                Served::ByItself => return,
            }
        }
    }

    /// Does the command of a client that waits, with the element of `key`, as a part of the open turn: the client is answered
    /// when that is done. `has_waited` if it comes before those who wait for its keys.
    fn serve_waiter(&self, id: WaiterId, key: &[u8], has_waited: bool) -> Served {
        let _unless_broken = RefusedIfBroken(self);
        let (mut turn, mut apart) = (self.turn.borrow_mut(), Pending::default());
        let is_broken = broken("server-element");
        let pending = if is_broken { &mut apart } else { &mut turn.pending };
        let before = pending.touched.len();
        let mut reply;
        {
            let waiters = self.waiters.borrow();
            // It may have got its element just now. The clients after it wait for theirs.
            let waits = |waiter: &&Waiter| !waiter.held.is_served() || broken("server-twice");
            let Some(waiter) = waiters.get(id).filter(waits) else { return Served::Wrongly };
            let Waiter { client, spec, database, .. } = waiter;
            reply = Reply::new(client.resp3.get());
            let arguments = waiter.arguments_for(key);
            if client.is_ended() || self.is_ending.get() {
                return Served::Wrongly;
            }
            let is_free = self.may_run(spec, &arguments, *database, has_waited);
            let steps = Cell::new(STEPS_INLINE);
            let (now_us, ahead_ms) = self.now();
            let at = At { database: *database, now_us, ahead_ms, steps: &steps };
            if !is_free {
                waiter.note_held(key);
                return Served::Nothing;
            }
            let evaluated = self.evaluate(pending, spec, &arguments, &[], at, &mut reply);
            pending.take_news();
            if evaluated.is_err() {
                drop((waiters, turn));
                return self.let_try(id, has_waited);
            }
            // A key that holds something else by now is none that it waits for.
            if reply.bytes.first() == Some(&b'-')
                && !(is_move(spec) && self.has_element(pending, *database, key, now_us))
            {
                return Served::Wrongly;
            }
            if reply.bytes.is_empty() {
                return Served::Nothing;
            }
            waiter.held.set_served(true);
        }
        let touched = pending.touched[before..].to_vec();
        turn.served.push(Serving { id, reply: reply.bytes });
        Served::With(touched)
    }

    /// Whether the source key of a move is a list: then its destination has the wrong type.
    fn has_element(&self, pending: &mut Pending, database: u16, key: &[u8], now_us: u64) -> bool {
        let flights = self.flights.borrow();
        let view = View::inline(&self.trees, flights.writes(), 1);
        let session = Session::new(&view, &mut pending.writes, now_us);
        let found = esker::without_io(|| session.get(Slot { database, space: Space::Keys }, key));
        matches!(found, Ok(Some(entry)) if Type::of(&entry) == Ok(Type::List))
    }

    /// When a key expires, in microseconds since 1970, if it is there at `now_us`. May wait for the disk.
    pub(crate) fn expiry_of(
        &self,
        database: u16,
        key: &[u8],
        now_us: u64,
    ) -> Result<Option<Option<u64>>, ReadError> {
        let (slot, stored) = placed(Slot { database, space: Space::Keys }, key);
        let found = View::of_now(&self.trees, self.flights.borrow().writes()).expiry(slot, stored)?;
        Ok(found.filter(|expires_us| expires_us.is_none_or(|us| us > now_us)))
    }

    /// Has a client that waits do its command itself, in the pool. It gets its keys if nobody has them, or comes before it.
    fn let_try(&self, id: WaiterId, has_waited: bool) -> Served {
        let waiter = self.waiters.borrow_mut().remove(id);
        let Some(waiter) = waiter else { return Served::Wrongly };
        if waiter.client.is_writing.get() {
            // That may take long: those behind it do not wait for it.
            let _ = waiter.answer.send(Answer::Try(None));
            return Served::Wrongly;
        }
        let arguments: Vec<&[u8]> = waiter.arguments.iter().map(Vec::as_slice).collect();
        let keys = self.latches_of(waiter.spec, &arguments, waiter.database);
        let is_free = keys.is_some()
            && if has_waited {
                self.latches.are_let_go(keys.as_deref())
            } else {
                self.latches.are_free(keys.as_deref())
            };
        let latched = is_free.then(|| self.latches.hold(keys));
        let _ = waiter.answer.send(Answer::Try(latched));
        Served::ByItself
    }

    // ---- on other threads ----------------------------------------------------------------------------

    /// Waits until the pool may do `commands`: for the turn of their keys and those of `others`, if they write or stand within
    /// `EXEC`, and for a place. `latched` if they have their keys already.
    pub(crate) async fn admit(
        self: &Rc<Self>,
        commands: &[Arc<Owned>],
        in_exec: bool,
        others: Vec<Latch>,
        latched: Option<Latched>,
        why: &mut Why,
    ) -> Admitted<'_> {
        let is_walk = why.to_pool == Some(ToPool::Walk);
        if latched.is_some() {
            self.commit_all().await;
            return Admitted { latched, place: self.pool.place_of_holder(is_walk).await };
        }
        let writes = commands.iter().any(|command| command.spec.flags.writes);
        if !writes && !in_exec {
            return Admitted { latched: None, place: self.pool.place(is_walk).await };
        }
        let mut keys = Some(others);
        for command in commands {
            let of_one = self.latches_of(command.spec, &command.arguments(), command.database);
            // What reads all keys and writes one depends on those who write another one.
            let of_one = of_one.filter(|_| !(writes && is_about_database(command.spec)));
            keys = keys.zip(of_one).map(|(mut keys, of_one)| {
                keys.extend(of_one);
                keys
            });
            keys = keys.filter(|keys| keys.len() <= KEYS_HELD_MAX);
        }
        let mut waited = Duration::ZERO;
        let (latched, place) = self.take_keys_and_place(keys, is_walk, &mut waited).await;
        self.commit_all().await;
        self.figures.key_waits.add(waited);
        why.keys += waited;
        Admitted { latched: Some(latched), place }
    }

    /// Holds these keys and a place in the pool, after a wait for both; `None`: all keys.
    ///
    /// Nobody waits for keys while it has a place: so those who have places go on, and nothing waits for ever.
    async fn take_keys_and_place(
        self: &Rc<Self>,
        keys: Option<Vec<Latch>>,
        is_walk: bool,
        waited: &mut Duration,
    ) -> (Latched, Place<'_>) {
        for _ in 0..PLACES_TRIED {
            self.wait_for_keys(keys.as_deref(), waited).await;
            // Others may have these keys while it waits for a place.
            let place = match self.pool.try_place(is_walk) {
                Some(place) => place,
                None => {
                    let begun = Instant::now();
                    let place = self.pool.place(is_walk).await;
                    if !self.latches.are_free(keys.as_deref()) {
                        *waited += begun.elapsed();
                        continue;
                    }
                    place
                }
            };
            return (self.latches.hold(keys), place);
        }
        self.wait_for_keys(keys.as_deref(), waited).await;
        let latched = self.latches.hold(keys);
        (latched, self.pool.place_of_holder(is_walk).await)
    }

    async fn wait_for_keys(&self, keys: Option<&[Latch]>, waited: &mut Duration) {
        let begun = Instant::now();
        self.latches.wait(keys).await;
        *waited += begun.elapsed();
    }

    /// Does commands on another thread, as one step, and commits what they write. Returns the reply of each.
    ///
    /// # Errors
    /// The message for the client, when the store could not be read or written. Nothing was written then, unless it says
    /// otherwise.
    pub(crate) async fn run_in_pool(
        self: &Rc<Self>,
        commands: Vec<Arc<Owned>>,
        admitted: Admitted<'_>,
        client: &Client,
        in_exec: bool,
        why: &mut Why,
    ) -> Result<Vec<Reply>, String> {
        let Admitted { latched, place } = admitted;
        // Others may begin to watch or to wait before it ends.
        let wants = Wants { touched: true, ..self.wants() };
        let (resp3, is_ended) = (client.resp3.get(), client.ended_flag());
        let (now_us, ahead_ms) = self.now();
        let stamp = self.stamp(now_us, ahead_ms);
        let job = Job { commands, resp3, in_exec, stamp, wants, is_ended };
        let (db, trees, cursors) = (self.db.clone(), Arc::clone(&self.trees), Arc::clone(&self.cursors));
        let (seen, newest) = (self.seen(), self.flights.borrow().newest());
        let ground = seen.ground;
        let ran = self.pool.run_command(place, move || job.run_traced(&db, &seen, &trees, &cursors)).await;
        let Ran { value: (done, spent), queued } = ran.map_err(|error| told(&error))?;
        (why.thread, why.spent) = (queued, spent);
        let Done { replies, pending, batch, relies, lookups } = done.map_err(|error| told(&error))?;
        add(&self.figures.in_pool, 1);
        self.figures.note_lookups(lookups);
        if pending.writes.is_empty() {
            drop(latched);
            if !self.is_immediate {
                let confirmed = match self.journal.confirm() {
                    Proposed::Decided(outcome) => outcome,
                    Proposed::Later(undecided) => undecided.await,
                };
                confirmed.map_err(|undone| Loss::from(undone).message)?;
            }
            if let Some(outcome) = newest.filter(|_| relies) {
                outcome.wait().await;
                outcome.get().unwrap_or(Ok(()))?;
            }
            pending.events.iter().for_each(|event| self.publish_event(event));
            return Ok(replies);
        }
        self.tell_watches(&pending);
        let touched = pending.touched.clone();
        let ended = Ended { pending, ..Ended::default() };
        let outcome = Rc::clone(&ended.outcome);
        self.begin_flight(ended, ground, batch);
        drop(latched);
        self.serve_waiters(touched);
        outcome.wait().await;
        outcome.get().unwrap_or(Ok(()))?;
        Ok(replies)
    }

    /// Whether the latches let a command run now; `has_waited` if it has waited for its turn.
    #[inline]
    pub(crate) fn may_run(&self, spec: &Spec, arguments: &[&[u8]], database: u16, has_waited: bool) -> bool {
        self.latches.are_all_free() || self.is_its_turn(spec, arguments, database, has_waited)
    }

    #[cold]
    fn is_its_turn(&self, spec: &Spec, arguments: &[&[u8]], database: u16, has_waited: bool) -> bool {
        let keys = self.latches_of(spec, arguments, database);
        if has_waited {
            return self.latches.are_let_go(keys.as_deref());
        }
        self.latches.are_free(keys.as_deref())
    }

    /// The latches of a command's keys; `None`: of all keys, if it writes to such that it does not name, or names too many.
    pub(crate) fn latches_of(&self, spec: &Spec, arguments: &[&[u8]], database: u16) -> Option<Vec<Latch>> {
        if is_about_all(spec) {
            return None;
        }
        // Which key it writes to in the other database is not looked at.
        let databases = [vec![database], spec.databases_of(arguments)].concat();
        let keys = spec.keys_of(arguments);
        if keys.len() > KEYS_HELD_MAX {
            return None;
        }
        let in_all = |key| databases.iter().map(move |database| (*database, key));
        Some(
            keys.into_iter().flat_map(in_all).map(|(database, key)| self.latches.of(database, key)).collect(),
        )
    }

    // ---- durability ----------------------------------------------------------------------------------

    /// Waits until everything that was written so far is as durable as the server promises.
    pub(crate) async fn wait_as_promised(&self, client: &Client) -> esker::Result<()> {
        if self.config.durability != Durability::Power {
            return Ok(());
        }
        let begun = Instant::now();
        let waited = self.wait_durable(None).await;
        self.note_wait("sync", Kind::Sync, &self.figures.sync_waits, begun.elapsed(), client);
        if let Err(error) = &waited {
            add(&self.figures.failed_syncs, 1);
            self.reports.failure("sync", error);
        }
        waited.map(drop)
    }

    /// Waits until everything that was written so far survives power loss, at most for `at_most`. Returns whether it does.
    pub(crate) async fn wait_durable(&self, at_most: Option<Duration>) -> esker::Result<bool> {
        // The place behind all writes, those of the pool too, which end in another order than they are noted.
        let token = self.journal.barrier()?;
        let wait = self.sync_waits.wait(&self.db, &token);
        match at_most {
            None => wait.await.map(|()| true),
            Some(at_most) => match tokio::time::timeout(at_most, wait).await {
                Ok(waited) => waited.map(|()| true),
                Err(_) => self.db.is_durable(&token),
            },
        }
    }

    /// Ends the wait of `client` for elements, if it waits: it gets an error, or no element.
    pub(crate) fn unblock(&self, client: &Client, with_error: bool) -> bool {
        let mut waiters = self.waiters.borrow_mut();
        let id = waiters.of_client(client.id);
        // One that a turn has served gets its element, or waits on.
        let id = id.filter(|id| waiters.get(*id).is_some_and(|waiter| !waiter.held.is_served()));
        let Some(waiter) = id.and_then(|id| waiters.remove(id)) else {
            return false;
        };
        let mut reply = Reply::new(client.resp3.get());
        if with_error {
            reply.error("UNBLOCKED client unblocked via CLIENT UNBLOCK");
        } else {
            reply_without_element(waiter.spec, true, &mut reply);
        }
        waiter.answer.send(Answer::Reply(reply.bytes)).is_ok()
    }
}

/// Refuses what is pending when a command or a commit ends by a panic: it may be half of what there had to be, and each later
/// commit would end in the same way.
struct RefusedIfBroken<'a>(&'a Server);

impl Drop for RefusedIfBroken<'_> {
    #[inline]
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.refuse();
        }
    }
}

impl RefusedIfBroken<'_> {
    #[cold]
    fn refuse(&self) {
        if let Ok(mut turn) = self.0.turn.try_borrow_mut() {
            let Ended { served, outcome, .. } = turn.end();
            outcome.decide(Err("ERR this has failed by a fault of the server".to_owned()));
            for Serving { id, .. } in served {
                if let Ok(waiters) = self.0.waiters.try_borrow()
                    && let Some(waiter) = waiters.get(id)
                {
                    waiter.held.set_served(false);
                }
            }
        }
    }
}

/// The keys that are written to; `None`: any.
fn changed_by(writes: &Writes) -> Option<Vec<(u16, Vec<u8>)>> {
    writes.cleared().is_empty().then(|| writes.keys())
}

/// What is in flight by `proposed`: nothing, if it is done.
fn decided(proposed: Proposed) -> Result<Option<Undecided>, Undone> {
    match proposed {
        Proposed::Decided(outcome) => outcome.map(|()| None),
        Proposed::Later(undecided) => Ok(Some(undecided)),
    }
}

/// What those are told whose commands were evaluated on a turn that was not taken.
const LOST: &str =
    "ERR a write before this one was not taken, or not certainly, so this one was not tried: try again";

/// Proposes what a job has written, on a thread that may wait. Returns the batch, if the event loop has to propose it: the turns
/// in flight are in the order of their proposal.
fn propose_from_pool(
    journal: &dyn Journal,
    trees: &Trees,
    seen: &Seen,
    pending: &mut Pending,
) -> esker::Result<Option<Batch>> {
    if pending.writes.is_empty() {
        return Ok(None);
    }
    let mut batch = trees.batch(&mut pending.writes, Some(&seen.snapshot))?;
    if !journal.is_immediate() {
        return Ok(Some(batch));
    }
    journal.propose(seen.ground, &mut batch).wait()?;
    Ok(None)
}

/// What became of a client that waits.
enum Served {
    /// There is still no element for it.
    Nothing,
    /// The key has another type than it waits for, or it does not wait any more.
    Wrongly,
    /// It has one; these keys were changed.
    With(Vec<(u16, Vec<u8>)>),
    /// It has to try by itself.
    ByItself,
}

/// Whether a command is about the keys of a database, without naming any.
fn is_about_database(spec: &Spec) -> bool {
    !spec.is_of_server() && spec.keys == esker_redis::Keys::None
}

/// Whether a command writes to keys that it does not name.
pub(crate) fn is_about_all(spec: &Spec) -> bool {
    spec.flags.writes && spec.keys == esker_redis::Keys::None
}

impl Job {
    /// [`Job::run`], with what it has spent.
    fn run_traced(
        self,
        db: &Db,
        seen: &Seen,
        trees: &Trees,
        cursors: &Cursors,
    ) -> (esker::Result<Done>, Spent) {
        let begun = Instant::now();
        let mut spent = Spent::default();
        let (done, trace) = db.trace(|| self.run(seen, trees, cursors, &mut spent.committed));
        spent.evaluated = begun.elapsed().saturating_sub(spent.committed);
        (spent.file_reads, spent.file_bytes) = (trace.file_reads, trace.file_bytes);
        (done, spent)
    }

    fn run(
        self,
        seen: &Seen,
        trees: &Trees,
        cursors: &Cursors,
        committed: &mut Duration,
    ) -> esker::Result<Done> {
        let view = View::of_pool(trees, &seen.snapshot, &seen.in_flight).until(&self.is_ended);
        let mut pending = Pending::default();
        let (mut replies, mut replied, mut lookups) = (Vec::new(), 0, Lookups::default());
        for (place, command) in self.commands.iter().enumerate() {
            let mut reply = Reply::new(self.resp3);
            let stamp = Stamp { seed: mixed(self.stamp.seed.wrapping_add(place as u64)), ..self.stamp };
            let session = Session::new(&view, &mut pending.writes, stamp.now_us);
            let mut ctx = Context::new(session, cursors, stamp, command.database, trees.count());
            ctx.set_long(&command.long);
            ctx.set_wants(self.wants);
            evaluate(&mut ctx, command.spec, &command.arguments(), &mut reply).map_err(unreadable)?;
            if self.in_exec && reply.bytes.is_empty() {
                reply_without_element(command.spec, false, &mut reply);
            }
            pending.touched.append(&mut ctx.take_touched());
            pending.events.append(&mut ctx.take_events());
            let of_command = ctx.take_lookups();
            lookups.hits += of_command.hits;
            lookups.misses += of_command.misses;
            replied += reply.bytes.len();
            replies.push(reply);
            if self.in_exec && replied > EXEC_REPLY_MAX {
                let message = format!(
                    "the replies of a transaction take at most {EXEC_REPLY_MAX} bytes; nothing was written"
                );
                return Err(esker::Error::new(ErrorKind::InvalidInput, message));
            }
        }
        if self.is_ended.load(Ordering::Relaxed) {
            return Err(unreadable(ended()));
        }
        let begun = Instant::now();
        let batch = propose_from_pool(trees.journal(), trees, seen, &mut pending);
        *committed = begun.elapsed();
        Ok(Done { replies, pending, batch: batch?, relies: view.relies(), lookups })
    }
}
