//! One client's connection: reads commands, has them done in order, and writes the replies.
//!
//! ```text
//! input -> step: command, command, ... -> commit -> flush (after what was promised) -> input
//!            |
//!            +-> Wait: the pool, a latch, an element, a sync -> step
//! ```
//! [`Connection::step`] runs commands without a pause. Before anything is waited for, what they have written is committed.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, HashSet};
use std::future::poll_fn;
use std::io;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{self, Poll};
use std::time::{Duration, Instant};

use esker::ErrorKind;
use esker_redis::commands::blocking::{reply_without_element, timeout_of};
use esker_redis::commands::subcommands::misuse;
use esker_redis::resp::parser::{Limits, Parser, ProtocolError};
use esker_redis::{Fault, Huge, Long, ReadError, Reply, Spec, spec};
use tokio::sync::oneshot;

use crate::acl::redacted;
use crate::canary::broken;
use crate::clients::{Client, End};
use crate::figures::{Slow, add, shortened};
use crate::info;
use crate::latches::{Latch, Latched};
use crate::latency_monitor::Kind;
use crate::listen::Stream;
use crate::server::{ARGUMENTS_INLINE, At, Owned, Server};
use crate::trees::STEPS_INLINE;
use crate::turn::{Extent, Outcome};
use crate::waiters::{Answer, Held, Waiter};
use crate::wake::yield_to_ready;
use crate::watches::Watched;
use crate::why::{ToPool, Why};

mod long;

use long::{LONG_BYTES, LONG_MEMORY, memory_of_parts};

/// So many bytes are read at once.
const READ_BYTES: usize = 64 << 10;

/// So much room for replies a connection keeps that waits for commands. More comes from [`Server::buffers`].
const KEPT_BYTES: usize = 16 << 10;

/// Replies are written as soon as there are so many bytes of them: a client that does not read fills no memory.
const FLUSH_BYTES: usize = 256 << 10;

/// So long a connection may take to be a user's.
const NOBODY_MAX: Duration = Duration::from_secs(60);

/// So long a client's commands run until other clients have their turn.
const TURN: Duration = Duration::from_millis(2);

/// After a step shorter than this, its commit not counted, only those connections go on that are awake already. The runtime
/// looks at the sockets again after 61 such turns at the latest.
const SHORT_STEP: Duration = Duration::from_micros(50);

/// A client whose command has walked over entries for so long gives way to others before its next one.
const LONG_WALK: Duration = Duration::from_micros(500);

/// Writes are committed as soon as they take so many bytes.
pub(crate) const COMMIT_BYTES: usize = 1 << 20;

/// A command with so many bytes, or one that writes so many, shares no batch with others: the store may write its value to a
/// file first.
const APART_BYTES: usize = 16 << 10;

/// The first byte of what a client sends that speaks TLS. No command begins with it.
const TLS_HANDSHAKE: u8 = 0x16;

/// So many bytes of commands are read from a client that waits, to notice that it goes.
const WAITING_BYTES: usize = 1 << 20;

/// What each of many small things takes beside its bytes, about.
pub(crate) const ITEM_BYTES: usize = 48;

/// What a command takes that waits, beside its arguments.
const COMMAND_BYTES: usize = size_of::<Queued>() + size_of::<Owned>() + ITEM_BYTES;

/// The most arguments of a command.
const ARGUMENTS_MAX: usize = 1 << 20;

/// The most arguments of a command that the event loop does whatever it has to do: those about the server, about connections
/// and about channels.
const OWN_ARGUMENTS_MAX: usize = 1 << 14;

/// The most commands, and bytes of their arguments, that wait for `EXEC`.
const QUEUED_MAX: usize = 1 << 20;
const QUEUED_BYTES_MAX: usize = 256 << 20;

thread_local! {
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(vec![0; READ_BYTES]);
}

/// What a connection does next.
pub(crate) enum Next {
    /// Waits for more bytes.
    Input,
    /// Writes what there is, and goes on.
    Flush,
    Close,
    Do(Wait),
}

/// What has come to a connection that waits for commands.
enum Input {
    /// So many bytes; 0: the client has gone.
    Bytes(usize),
    /// A word from others: there is a message to be sent, or the connection has to end.
    Told,
}

/// How a wait of a command that has not begun has ended.
enum Waited<T> {
    Done(T),
    /// The command waits for elements, and has waited long enough.
    TimeIsOver,
    /// The connection was ended.
    Ended,
}

/// What a command waits for.
pub(crate) enum Wait {
    /// That what it relies on is committed. Then it is done.
    Commit(Owned),
    /// That others let go of its keys. Then it is done.
    Latches(Owned),
    /// The pool does it.
    Pool(Owned),
    /// The pool does these commands of a transaction.
    Exec(Vec<Queued>, Vec<Arc<Owned>>),
    /// An element comes, or the time is over.
    Element(Owned),
    /// The password that it carries is compared. If it is right, the command is done.
    Login(Owned),
    /// The keys are counted that it tells of, or that takes long.
    Keys(Owned),
    /// Its turn to change users, and what that takes.
    Users(Owned),
    /// The writes so far survive power loss, or the time is over.
    Sync { at_most: Option<Duration> },
    /// A replica comes, which does not happen, or the time is over.
    Replicas(Option<Duration>),
    /// All of an argument of so many bytes has come, and is stored.
    Long(u64),
}

impl Next {
    /// The bytes of the commands that wait.
    fn waiting_bytes(&self) -> usize {
        let bytes_of = |arguments: &Vec<Vec<u8>>| {
            arguments.iter().map(|argument| argument.len() + ITEM_BYTES).sum::<usize>()
        };
        // Those that wait are found by their keys too.
        let with_keys = |command: &Owned| 4 * bytes_of(&command.arguments);
        match self {
            Next::Do(
                Wait::Commit(command) | Wait::Login(command) | Wait::Users(command) | Wait::Keys(command),
            ) => bytes_of(&command.arguments),
            Next::Do(Wait::Latches(command) | Wait::Pool(command) | Wait::Element(command)) => {
                with_keys(command)
            }
            Next::Do(Wait::Long(_)) => LONG_MEMORY,
            Next::Do(Wait::Exec(queue, _)) => {
                queue.iter().map(|queued| with_keys(&queued.command) + COMMAND_BYTES).sum::<usize>()
            }
            _ => 0,
        }
    }
}

/// A command that waits for `EXEC`.
pub(crate) struct Queued {
    /// With the database that is selected when it is done, as soon as `EXEC` has come.
    pub(crate) command: Arc<Owned>,
    /// Why the client may not do it any more.
    pub(crate) refusal: Option<String>,
}

/// The commands since `MULTI`.
#[derive(Default)]
pub(crate) struct Queue {
    pub(crate) commands: Vec<Queued>,
    bytes: usize,
    /// Whether a command could not be queued: `EXEC` will refuse.
    pub(crate) is_broken: bool,
}

/// Which replies the client wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Replies {
    All,
    None,
    /// None to this command.
    SkipThis,
    /// None to the next command.
    SkipNext,
}

/// See the module's comment.
pub(crate) struct Connection {
    pub(crate) server: Rc<Server>,
    pub(crate) client: Rc<Client>,
    stream: Stream,
    parser: Parser,
    /// Bytes that were read and are no whole command yet.
    buffer: Vec<u8>,
    /// The long arguments of the command that comes, so far; or why one of them could not be stored.
    sent: Result<Vec<Arc<dyn Huge>>, String>,
    /// Those of the command that is done.
    long: Vec<Long>,
    pub(crate) reply: Reply,
    /// What becomes of turns on which replies rely, in the order of the turns.
    doubts: Vec<Doubt>,
    /// Whether something that replies rely on was committed since the last flush.
    has_written: bool,
    pub(crate) queue: Option<Queue>,
    pub(crate) watched: Vec<Watched>,
    pub(crate) watched_keys: HashSet<(u16, Vec<u8>)>,
    /// The memory of the watched keys, about.
    pub(crate) watched_bytes: usize,
    pub(crate) changed: Rc<Cell<bool>>,
    /// Whether a transaction is being answered: nothing waits.
    pub(crate) is_in_exec: bool,
    pub(crate) channels: BTreeSet<Vec<u8>>,
    pub(crate) patterns: BTreeSet<Vec<u8>>,
    /// The memory of both, about.
    pub(crate) subscribed_bytes: usize,
    pub(crate) replies: Replies,
    /// When the last command ended.
    clock: Instant,
    /// The time when the commands that are being done began.
    begun: Begun,
    /// The entry of the last command in the table of commands.
    last: Option<&'static Spec>,
    /// Whether the command that is being done has waited for its turn.
    has_waited: bool,
    /// What the command that is being done has waited for.
    why: Option<Box<Why>>,
    /// The memory of a command that waits, and of replies and messages that are being written.
    held_bytes: usize,
    /// Whether a reply is written whose beginning the client has.
    is_within_reply: bool,
    /// The keys of the command that is being done, if it has got them already.
    latched: Option<Latched>,
    /// Until when the command that is being done waits for elements: `None` in it stands for ever.
    waits_until: Option<Option<tokio::time::Instant>>,
    /// Until when the client has to be a user.
    nobody_until: tokio::time::Instant,
}

/// Replies that rely on a turn.
struct Doubt {
    outcome: Rc<Outcome>,
    /// Where they are, in order.
    replies: Vec<Range<usize>>,
}

/// One look at both clocks. A command's time is this time plus what has passed when the command before it ended. To look at
/// the store's clock for each command would take a tenth of a short one.
#[derive(Clone, Copy)]
struct Begun {
    /// By the clock of [`Server::now_us`].
    us: u64,
    /// By how many milliseconds that clock was ahead of the machine's.
    ahead_ms: i64,
    /// Read after `us`: the time that follows from both is never ahead of the store's.
    at: Instant,
}

impl Begun {
    fn now(server: &Server) -> Begun {
        let (us, ahead_ms) = server.now();
        Begun { us, ahead_ms, at: Instant::now() }
    }
}

/// Begins to serve a client.
pub(crate) fn begin(
    server: &Rc<Server>,
    stream: Stream,
    address: String,
    local: String,
    certified: Option<Vec<u8>>,
) {
    add(&server.figures.connections, 1);
    if server.clients.borrow().len() >= server.settings.borrow().clients_max {
        add(&server.figures.refused_connections, 1);
        server.reports.refused(&address, server.settings.borrow().clients_max);
        let _ = stream.try_write(b"-ERR max number of clients reached\r\n");
        return;
    }
    let now_s = server.uptime_s();
    let client = server.clients.borrow_mut().add(address, local, certified, now_s, &server.budget);
    let connection = Connection {
        server: Rc::clone(server),
        client,
        stream,
        parser: Parser::default(),
        buffer: Vec::new(),
        sent: Ok(Vec::new()),
        long: Vec::new(),
        reply: Reply::default(),
        doubts: Vec::new(),
        has_written: false,
        queue: None,
        watched: Vec::new(),
        watched_keys: HashSet::new(),
        watched_bytes: 0,
        changed: Rc::default(),
        is_in_exec: false,
        channels: BTreeSet::new(),
        patterns: BTreeSet::new(),
        subscribed_bytes: 0,
        replies: Replies::All,
        has_waited: false,
        latched: None,
        clock: Instant::now(),
        begun: Begun::now(server),
        last: None,
        why: None,
        held_bytes: 0,
        is_within_reply: false,
        waits_until: None,
        nobody_until: tokio::time::Instant::now() + NOBODY_MAX,
    };
    connection.be_as_new();
    tokio::task::spawn_local(connection.run());
}

impl Drop for Connection {
    fn drop(&mut self) {
        if !self.doubts.is_empty() {
            // If that takes a wait, it is left to those who come to rely on it.
            self.server.try_commit();
        }
        self.unsubscribe_all();
        self.unwatch();
        self.server.clients.borrow_mut().remove(self.client.id);
        self.server.one_gone.notify_waiters();
    }
}

impl Connection {
    /// Serves the client until it goes, and tells it if a limit was the reason.
    async fn run(mut self) {
        self.serve().await;
        let Some(why) = self.client.why_ended.get() else { return };
        self.server.figures.note_end(why);
        self.server.reports.ended(why, &self.client.address);
        if !self.is_within_reply && !why.farewell().is_empty() {
            // Whether the client gets it is its own business.
            let _ = self.stream.try_write(why.farewell().as_bytes());
        }
    }

    /// Serves the client until it goes. Errors of its socket are its end, and nobody else's business.
    async fn serve(&mut self) {
        let mut next = Next::Input;
        loop {
            self.commit().await;
            if self.client.is_ended() && matches!(next, Next::Do(_)) {
                // What has not begun does not begin any more.
                return self.leave(&next);
            }
            self.held_bytes = next.waiting_bytes();
            self.note_memory();
            if matches!(next, Next::Input) {
                // The command is done. Whoever holds a stored value keeps its space taken.
                self.long.clear();
            }
            let went_on = match next {
                Next::Input => self.flush_and_read().await,
                Next::Flush => self.flush().await.map(|()| Some(self.step())),
                Next::Close => {
                    let _ = self.flush().await;
                    return;
                }
                Next::Do(wait) => self.wait(wait).await,
            };
            match went_on {
                Ok(Some(then)) if self.client.is_ended() => return self.leave(&then),
                Ok(Some(then)) => {
                    next = then;
                    if self.server.commits_apart() {
                        self.commit().await;
                    }
                    // The others have their turn, however fast this client sends.
                    let took = self.clock.saturating_duration_since(self.begun.at);
                    if took < SHORT_STEP {
                        add(&self.server.short_steps, u64::from(!took.is_zero()));
                        yield_to_ready().await;
                    } else {
                        tokio::task::yield_now().await;
                    }
                }
                Ok(None) | Err(_) => return,
            }
        }
    }

    /// Ends instead of doing what comes next.
    fn leave(&self, next: &Next) {
        if let Next::Do(Wait::Pool(command)) = next
            && command.spec.flags.blocks
        {
            // Others may wait for what it would have tried.
            drop(After::new(&self.server, command));
        }
    }

    /// Notes the memory that the connection takes. If all connections take too much, the largest ones end.
    fn note_memory(&mut self) {
        // Whoever waits holds no long buffer for nothing.
        if self.reply.is_empty() && self.reply.bytes.capacity() > KEPT_BYTES {
            self.server.buffers.give(self.reply.take().bytes);
        }
        let queued = self.queue.as_ref().map_or(0, |queue| queue.bytes);
        // The room of a reply counts, and not its length: a short one may have a long buffer.
        let reply = self.reply.bytes.capacity();
        let held = self.watched_bytes + self.subscribed_bytes;
        self.client.share.set_buffers(self.buffer.len() + reply + queued + self.held_bytes + held);
        self.server.shed_memory();
    }

    // ---- bytes ---------------------------------------------------------------------------------------

    async fn flush_and_read(&mut self) -> io::Result<Option<Next>> {
        self.flush().await?;
        loop {
            if self.is_over() {
                return Ok(None);
            }
            let idle_s = self.server.settings.borrow().idle_s;
            let until = if !self.is_somebody() {
                Some(self.nobody_until)
            } else if idle_s > 0 && !self.client.listens() {
                Some(tokio::time::Instant::now() + Duration::from_secs(idle_s))
            } else {
                None
            };
            if until.is_some_and(|until| until <= tokio::time::Instant::now()) {
                // Of a client that sends without end, something is always there to be read.
                self.client.end_for(End::Idle);
                return Ok(None);
            }
            let came = match until {
                None => self.next_input().await,
                Some(until) => match tokio::time::timeout_at(until, self.next_input()).await {
                    Ok(came) => came,
                    Err(_) => {
                        self.client.end_for(End::Idle);
                        return Ok(None);
                    }
                },
            };
            let Input::Bytes(read) = came? else {
                if self.is_over() {
                    return Ok(None);
                }
                self.flush().await?;
                continue;
            };
            add(&self.server.figures.bytes_in, read as u64);
            add(&self.server.figures.socket_reads, u64::from(read > 0));
            if read == 0 {
                return Ok(None);
            }
            if !self.buffer.is_empty() {
                return Ok(Some(self.step()));
            }
            // The bytes are still where they were read to: nothing else has run since.
            return Ok(Some(SCRATCH.with_borrow(|scratch| {
                let (used, next) = self.step_on(&scratch[..read]);
                self.buffer.extend_from_slice(&scratch[used..read]);
                next
            })));
        }
    }

    /// The client has a minute from now on to be a user.
    pub(crate) fn begin_as_nobody(&mut self) {
        self.nobody_until = tokio::time::Instant::now() + NOBODY_MAX;
    }

    /// Waits for bytes, or for a word from others.
    async fn next_input(&mut self) -> io::Result<Input> {
        let (stream, buffer, wanted) = (&mut self.stream, &mut self.buffer, self.parser.wanted());
        let told = &self.client.told;
        poll_fn(|cx| {
            // A word comes first: the client may have to end, however much it sends.
            if told.poll_notified(cx).is_ready() {
                return Poll::Ready(Ok(Input::Told));
            }
            poll_read(stream, buffer, wanted, cx).map_ok(Input::Bytes)
        })
        .await
    }

    /// Whether the connection is to end.
    fn is_over(&self) -> bool {
        self.client.is_ended() || self.server.is_ending.get()
    }

    /// Writes the replies, after what they promise is true, and messages behind them.
    async fn flush(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.has_written)
            && let Err(error) = self.server.wait_as_promised(&self.client).await
        {
            // What was said is not certain, and the client must not believe it.
            self.reply.truncate(0);
            self.reply.error(&told(&error));
            let reply = self.reply.take();
            let _ = self.write_all(&reply.bytes).await;
            return Err(io::Error::other("the writes may not survive power loss"));
        }
        loop {
            let mut reply = self.reply.take();
            reply.bytes.append(&mut self.client.take_outbox());
            if reply.is_empty() {
                return Ok(());
            }
            self.is_within_reply = true;
            // It may take long, and the messages count no longer as those that wait.
            let written = reply.bytes.capacity() + memory_of_parts(&reply);
            if written > KEPT_BYTES {
                self.held_bytes += written;
                self.note_memory();
            }
            for (bytes, part) in reply.pieces() {
                self.write_all(bytes).await?;
                if let Some(part) = part {
                    self.write_part(part).await?;
                }
            }
            self.is_within_reply = false;
            if written > KEPT_BYTES {
                self.held_bytes -= written;
            }
            if reply.bytes.capacity() <= KEPT_BYTES {
                reply.truncate(0);
                self.reply = reply;
            } else {
                self.server.buffers.give(reply.bytes);
            }
            // Messages that came meanwhile.
            if !self.client.has_messages() {
                return Ok(());
            }
        }
    }

    async fn write_all(&self, mut bytes: &[u8]) -> io::Result<()> {
        add(&self.server.figures.bytes_out, bytes.len() as u64);
        add(&self.server.figures.socket_writes, 1);
        let mut deadline = None;
        loop {
            let written = match bytes {
                [] => self.stream.try_flush().map(|()| 0),
                bytes => self.stream.try_write(bytes),
            };
            match written {
                Ok(0) if bytes.is_empty() => return Ok(()),
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    bytes = &bytes[written..];
                    deadline = None;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let send_s = self.server.settings.borrow().send_s;
                    let deadline =
                        *deadline.get_or_insert_with(|| Instant::now() + Duration::from_secs(send_s));
                    tokio::select! {
                        writable = self.stream.writable() => writable?,
                        () = tokio::time::sleep_until(deadline.into()), if send_s > 0 => {
                            self.client.end_for(End::SlowReader);
                            return Err(io::ErrorKind::TimedOut.into());
                        }
                        () = self.client.told.notified() => {
                            // When the server ends, replies are still written.
                            if self.client.is_ended() {
                                return Err(io::ErrorKind::ConnectionAborted.into());
                            }
                        }
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }

    // ---- commands ------------------------------------------------------------------------------------

    /// Does the commands in the buffer, as far as they need no wait.
    fn step(&mut self) -> Next {
        let mut buffer = std::mem::take(&mut self.buffer);
        let (used, next) = self.step_on(&buffer);
        buffer.drain(..used);
        // A connection that waits keeps little.
        if buffer.len() < READ_BYTES {
            buffer.shrink_to(buffer.len());
        }
        self.buffer = buffer;
        next
    }

    /// Reads the clocks, and notes that the client is active.
    fn begin_step(&mut self) {
        self.begun = Begun::now(&self.server);
        self.client.last_used_s.set(self.server.uptime_s_at(self.begun.us));
    }

    /// Does the commands in `bytes`. Returns how many of the bytes these are.
    fn step_on(&mut self, bytes: &[u8]) -> (usize, Next) {
        self.begin_step();
        let begun = self.begun.at;
        self.clock = begun;
        if bytes.first() == Some(&TLS_HANDSHAKE) {
            // A client that speaks TLS to an address without: it would wait for ever for a reply that it understands.
            self.client.why_ended.set(Some(End::Protocol));
            return (bytes.len(), Next::Close);
        }
        if self.reply.bytes.capacity() == 0 {
            self.reply.bytes = self.server.buffers.take();
        }
        let bulk_bytes = self.server.settings.borrow().bulk_bytes_max;
        let somebody = Limits { arguments: ARGUMENTS_MAX, bulk_bytes, long_bytes: LONG_BYTES };
        let mut used = 0;
        loop {
            // Also those that others have made: the pool, say.
            if self.reply.bytes.len() >= FLUSH_BYTES || self.reply.has_parts() {
                return (used, Next::Flush);
            }
            let limits = if self.is_somebody() { &somebody } else { &Limits::UNAUTHENTICATED };
            let request = match self.parser.next(&bytes[used..], limits) {
                Ok(Some(request)) => request,
                Ok(None) => {
                    return (used, self.parser.long().map_or(Next::Input, |len| Next::Do(Wait::Long(len))));
                }
                Err(ProtocolError(message)) => {
                    self.client.why_ended.set(Some(End::Protocol));
                    self.reply.error(&format!("ERR {message}"));
                    return (bytes.len(), Next::Close);
                }
            };
            let arguments = request.arguments(&bytes[used..]);
            used += request.len;
            match std::mem::replace(&mut self.sent, Ok(Vec::new())) {
                Ok(sent) => self.long = request.long.iter().copied().zip(sent).collect(),
                Err(message) => {
                    let begin = self.reply.bytes.len();
                    self.refuse(arguments.first().and_then(|name| spec(name)), &message);
                    self.silence(&arguments, begin);
                    continue;
                }
            }
            if request.len >= APART_BYTES || !self.long.is_empty() {
                // Others do not wait for it.
                self.try_commit();
            }
            let before = self.server.turn.borrow().extent();
            if let Some(next) = self.command(&arguments) {
                return (used, next);
            }
            if self.has_to_flush(before) || self.clock.duration_since(begun) >= TURN {
                return (used, Next::Flush);
            }
        }
    }

    /// The time by which a command is done that begins now, by the clock of [`Server::now_us`].
    pub(crate) fn now_us(&self) -> u64 {
        self.begun.us + self.clock.saturating_duration_since(self.begun.at).as_micros() as u64
    }

    /// Where and when a command is done that begins at `now_us`.
    pub(crate) fn at<'a>(&self, database: u16, now_us: u64, steps: &'a Cell<u32>) -> At<'a> {
        At { database, now_us, ahead_ms: self.begun.ahead_ms, steps }
    }

    /// Whether the next command has to wait until what is pending is committed; `before` is what was pending before the last
    /// one.
    fn has_to_flush(&mut self, before: Extent) -> bool {
        if !self.server.waiters.borrow().is_empty() {
            self.serve_waiters(before);
        }
        let (bytes, added) = self.server.turn.borrow().grown_since(before);
        let is_apart = added > 0 && (!self.long.is_empty() || self.server.is_apart(bytes));
        if bytes >= COMMIT_BYTES || added >= APART_BYTES || is_apart {
            self.server.commit_soon();
            return true;
        }
        false
    }

    /// Gives the elements that the last command has brought to the clients that wait for them, before the next command.
    #[cold]
    fn serve_waiters(&self, before: Extent) {
        let touched = self.server.turn.borrow().touched_since(before);
        self.server.serve_waiters(touched);
    }

    /// Does one command, or says what has to happen first.
    pub(crate) fn command(&mut self, arguments: &[&[u8]]) -> Option<Next> {
        let begin = self.reply.bytes.len();
        let next = self.try_command(arguments);
        if next.is_none() {
            self.silence(arguments, begin);
        }
        next
    }

    /// Takes back the reply from `begin` on, if the client does not want it.
    fn silence(&mut self, arguments: &[&[u8]], begin: usize) {
        if self.replies == Replies::All {
            return;
        }
        // What tells of subscriptions is no reply, but an error is one.
        let failed = self.reply.bytes.get(begin) == Some(&b'-');
        let tells = !failed && arguments.first().and_then(|name| spec(name)).is_some_and(is_subscription);
        if matches!(self.replies, Replies::None | Replies::SkipThis) && !tells {
            self.reply.truncate(begin);
            let doubtful = self.doubts.iter_mut().flat_map(|doubt| &mut doubt.replies);
            doubtful.for_each(|reply| reply.end = reply.end.min(begin));
        }
        self.replies = match self.replies {
            Replies::SkipNext => Replies::SkipThis,
            Replies::SkipThis => Replies::All,
            other => other,
        };
    }

    fn try_command(&mut self, arguments: &[&[u8]]) -> Option<Next> {
        let name = arguments.first()?;
        // Often the next command is the same.
        let last = self.last.filter(|last| name.eq_ignore_ascii_case(last.name.as_bytes()));
        let Some(spec) = last.or_else(|| spec(name)) else {
            if name.eq_ignore_ascii_case(b"POST") || name.eq_ignore_ascii_case(b"Host:") {
                // A browser that was made to send a request here. It must get no further.
                self.client.why_ended.set(Some(End::Protocol));
                self.reply.truncate(0);
                self.doubts.iter_mut().for_each(|doubt| doubt.replies.clear());
                return Some(Next::Close);
            }
            self.refuse(None, &unknown(arguments));
            return None;
        };
        self.last = Some(spec);
        if !spec.takes(arguments.len()) {
            let message = format!("ERR wrong number of arguments for '{}' command", spec.name);
            self.refuse(Some(spec), &message);
            if spec.name == "exec" {
                self.abort();
            }
            return None;
        }
        if spec.is_of_server() && arguments.len() > OWN_ARGUMENTS_MAX {
            let message = format!("ERR '{}' has at most {OWN_ARGUMENTS_MAX} arguments here", spec.name);
            self.refuse(Some(spec), &message);
            return None;
        }
        if let Some(message) = misuse(spec, arguments) {
            self.refuse(Some(spec), &message);
            return None;
        }
        self.client.command.set(spec.name);
        if !self.is_unrestricted()
            && let Some(message) = self.refusal(spec, arguments)
        {
            self.refuse(Some(spec), &message);
            if spec.name == "exec" {
                self.abort();
            }
            return None;
        }
        if self.client.listens() && !self.reply.resp3 && !is_for_listeners(spec) {
            let message = format!(
                "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context",
                spec.name
            );
            self.refuse(Some(spec), &message);
            return None;
        }
        if let Some(queue) = &mut self.queue
            && !ends_queue(spec)
        {
            if matches!(spec.name, "hello" | "auth") || is_reply_mode(arguments) {
                self.refuse(Some(spec), "ERR Command not allowed inside a transaction");
                return None;
            }
            queue.bytes += arguments.iter().map(|argument| argument.len() + ITEM_BYTES).sum::<usize>();
            queue.bytes += COMMAND_BYTES;
            if queue.commands.len() >= QUEUED_MAX || queue.bytes > QUEUED_BYTES_MAX {
                self.refuse(Some(spec), "ERR too many commands wait for EXEC");
                return None;
            }
            let arguments = arguments.iter().map(|argument| argument.to_vec()).collect();
            let (long, database) = (std::mem::take(&mut self.long), self.client.database.get());
            let command = Arc::new(Owned { spec, arguments, long, database });
            queue.commands.push(Queued { command, refusal: None });
            self.client.queued.set(Some(queue.commands.len()));
            self.reply.simple("QUEUED");
            return None;
        }
        let begin = self.reply.bytes.len();
        let next = if spec.is_of_server() {
            self.own_command(spec, arguments)
        } else {
            self.evaluated(spec, arguments)
        };
        if next.is_none() {
            self.note(spec, arguments, begin);
            if !spec.is_of_server() || spec.name == "exec" {
                self.note_doubt(begin);
            }
        }
        next
    }

    /// Notes a command that has run, whose reply begins at `begin`.
    pub(crate) fn note(&mut self, spec: &'static Spec, arguments: &[&[u8]], begin: usize) {
        let now = Instant::now();
        let took = now.duration_since(self.clock);
        self.clock = now;
        let failed = self.reply.bytes.get(begin) == Some(&b'-');
        self.server.figures.note_call(spec.name, Some(took), failed);
        if failed {
            self.server.figures.note_error(&self.reply.bytes[begin + 1..]);
        }
        let is_slow = self.server.settings.borrow().is_slow(took);
        if is_slow {
            self.note_slow(spec, arguments, took);
        }
        self.why = None;
    }

    #[cold]
    fn note_slow(&mut self, spec: &'static Spec, arguments: &[&[u8]], took: Duration) {
        let is_fast = !spec.flags.is_slow && !spec.flags.blocks;
        self.server.note_event(if is_fast { Kind::FastCommand } else { Kind::Command }, took);
        let (slow_us, kept) = {
            let settings = self.server.settings.borrow();
            (settings.slow_us, settings.slow_kept)
        };
        let us = took.as_micros() as u64;
        if slow_us < 0 || us < slow_us as u64 {
            return;
        }
        let shown = redacted(spec, arguments);
        let shown: Vec<&[u8]> = shown.iter().map(Vec::as_slice).collect();
        let slow = Slow {
            id: 0,
            at_s: self.server.wall_us() / 1_000_000,
            us,
            arguments: shortened(&shown),
            address: self.client.address.clone(),
            name: self.client.name.borrow().clone(),
            command: spec.name,
            why: self.why.as_deref().copied().unwrap_or_default(),
        };
        let slow = self.server.figures.numbered(slow);
        self.server.reports.slow(&slow, spec.keys_of(arguments).first().copied());
        self.server.figures.note_slow(slow, kept);
    }

    /// What the command that is being done has waited for.
    pub(crate) fn why(&mut self) -> &mut Why {
        self.why.get_or_insert_default()
    }

    /// Notes that a command has waited for users or their passwords.
    fn note_password(&mut self, took: Duration) {
        self.server.figures.note_to_pool(ToPool::Password);
        let why = self.why();
        why.to_pool = Some(ToPool::Password);
        why.spent.evaluated += took;
    }

    /// Answers a command that is not even tried. A transaction that it would be a part of cannot take place.
    fn refuse(&mut self, spec: Option<&'static Spec>, message: &str) {
        if let Some(queue) = &mut self.queue {
            queue.is_broken = true;
        }
        self.server.figures.note_rejected(spec.map_or("unknown", |spec| spec.name));
        let is_exec = spec.is_some_and(|spec| spec.name == "exec");
        self.server.figures.note_error(if is_exec { b"EXECABORT" } else { message.as_bytes() });
        match spec {
            Some(spec) if spec.name == "exec" => {
                let why = message.strip_prefix("ERR ").unwrap_or(message);
                self.reply.error(&format!("EXECABORT Transaction discarded because of: {why}"));
            }
            _ => self.reply.error(message),
        }
    }

    /// Forgets the transaction.
    pub(crate) fn abort(&mut self) {
        self.queue = None;
        self.client.queued.set(None);
        self.unwatch();
    }

    pub(crate) fn owned(&self, spec: &'static Spec, arguments: &[&[u8]]) -> Owned {
        let arguments = arguments.iter().map(|argument| argument.to_vec()).collect();
        Owned { spec, arguments, long: self.long.clone(), database: self.client.database.get() }
    }

    /// Has the pool do a command, of which the server has noted why.
    fn leave_to_pool(&mut self, spec: &'static Spec, arguments: &[&[u8]]) -> Next {
        self.server.turn.borrow_mut().pending.take_news();
        self.why().to_pool = self.server.to_pool.get();
        Next::Do(Wait::Pool(self.owned(spec, arguments)))
    }

    /// Whether the latches let a command run now.
    pub(crate) fn may_run(&self, spec: &Spec, arguments: &[&[u8]]) -> bool {
        self.server.may_run(spec, arguments, self.client.database.get(), self.has_waited)
    }

    /// Does a command that is evaluated.
    fn evaluated(&mut self, spec: &'static Spec, arguments: &[&[u8]]) -> Option<Next> {
        if spec.flags.blocks
            && let Err(Fault::Told(message)) = timeout_of(spec, arguments)
        {
            self.reply.error(&message);
            return None;
        }
        if spec.flags.writes
            && self.server.is_overfull()
            && let Some(wait) = self.commit_before(spec, arguments)
        {
            return Some(wait);
        }
        let may_need_space = spec.flags.writes && !spec.flags.frees_space;
        if may_need_space
            && self.server.commits_apart()
            && let Some(wait) = self.commit_before(spec, arguments)
        {
            // What frees space is not refused for what this command writes.
            return Some(wait);
        }
        if arguments.len() > ARGUMENTS_INLINE {
            // There it waits for its keys, if it writes.
            self.server.needs_pool(ToPool::Walk);
            return Some(self.leave_to_pool(spec, arguments));
        }
        if !self.may_run(spec, arguments) {
            return Some(Next::Do(Wait::Latches(self.owned(spec, arguments))));
        }
        let begin = self.reply.bytes.len();
        let steps = Cell::new(STEPS_INLINE);
        let at = self.at(self.client.database.get(), self.now_us(), &steps);
        let (server, long) = (&self.server, &self.long);
        match server.evaluate_in_turn(spec, arguments, long, at, &mut self.reply) {
            Ok(()) if spec.flags.blocks && self.reply.bytes.len() == begin => {
                self.server.turn.borrow_mut().pending.take_news();
                Some(Next::Do(Wait::Element(self.owned(spec, arguments))))
            }
            Ok(()) => None,
            Err(ReadError::NeedsIo) => Some(self.leave_to_pool(spec, arguments)),
            Err(ReadError::Failed(message)) => {
                self.reply.error(&format!("ERR {message}"));
                None
            }
        }
    }

    /// Notes whether the reply from `begin` on counts only if what is pending is committed.
    pub(crate) fn note_doubt(&mut self, begin: usize) {
        let server = Rc::clone(&self.server);
        let mut turn = server.turn.borrow_mut();
        if !turn.pending.take_news() {
            return;
        }
        let reply = begin..self.reply.bytes.len();
        match self.doubts.last_mut() {
            Some(doubt) if turn.has(&doubt.outcome) => doubt.replies.push(reply),
            _ => self.doubts.push(Doubt { outcome: turn.join(&self.client), replies: vec![reply] }),
        }
    }

    /// Commits what is pending, if that needs no wait. Returns whether nothing is pending now.
    pub(crate) fn try_commit(&mut self) -> bool {
        self.server.try_commit() && self.settle()
    }

    /// Has what is pending committed before a command. Returns what the command has to wait for.
    pub(crate) fn commit_before(&mut self, spec: &'static Spec, arguments: &[&[u8]]) -> Option<Next> {
        if self.try_commit() {
            return None;
        }
        if !self.is_certain() {
            return Some(Next::Do(Wait::Commit(self.owned(spec, arguments))));
        }
        if self.server.is_full() {
            let outcome = self.server.turn.borrow_mut().join(&self.client);
            self.doubts.push(Doubt { outcome, replies: Vec::new() });
            return Some(Next::Do(Wait::Commit(self.owned(spec, arguments))));
        }
        // What others have written. Nobody looks at these keys until it is committed.
        self.server.commit_in_pool();
        None
    }

    /// Whether no reply relies on what is pending.
    fn is_certain(&self) -> bool {
        self.doubts.is_empty()
    }

    /// Commits what is pending, on which a reply relies that is not written yet, if that needs no wait. Returns whether it is
    /// committed.
    pub(crate) fn try_commit_now(&mut self) -> bool {
        let (has_news, touched) = {
            let mut turn = self.server.turn.borrow_mut();
            (turn.pending.take_news(), turn.pending.touched.clone())
        };
        // One that decides later has nothing committed by then.
        let is_committed = self.server.journal.is_immediate() && self.server.try_commit();
        self.has_written |= has_news && is_committed;
        if is_committed {
            self.server.serve_waiters(touched);
        }
        is_committed
    }

    /// Sees what has become of the writes that replies rely on. If they were not committed, the replies become errors.
    /// Returns whether none is in doubt now.
    fn settle(&mut self) -> bool {
        if self.doubts.iter().any(|doubt| doubt.outcome.get().is_none()) {
            return false;
        }
        // The last ones first: the places of those before them stay.
        while let Some(Doubt { outcome, replies }) = self.doubts.pop() {
            match outcome.get() {
                Some(Err(message)) if !broken("server-refused") => {
                    self.reply.replace_with_error(&replies, &message);
                }
                _ => self.has_written |= !replies.is_empty() && outcome.has_written(),
            }
        }
        true
    }

    /// Commits what replies rely on. If that fails, they become errors.
    async fn commit(&mut self) {
        if broken("server-reply") && !self.doubts.is_empty() {
            let _ = self.flush().await;
        }
        // Another client may have done it.
        while !self.settle() && !self.try_commit() {
            let Some(last) = self.doubts.last() else { return };
            if self.server.turn.borrow().has(&last.outcome) {
                self.server.commit_soon();
            }
            // One that another thread commits may be decided after a later one.
            let undecided = self.doubts.iter().find(|doubt| doubt.outcome.get().is_none());
            if let Some(outcome) = undecided.map(|doubt| Rc::clone(&doubt.outcome)) {
                outcome.wait().await;
            }
        }
    }

    // ---- waits ---------------------------------------------------------------------------------------

    /// Waits, and goes on. Everything before it is committed. `None`: the client has gone.
    async fn wait(&mut self, wait: Wait) -> io::Result<Option<Next>> {
        let server = Rc::clone(&self.server);
        match wait {
            Wait::Commit(command) => return Ok(Some(self.again(&command))),
            Wait::Latches(command) => {
                let since = Instant::now();
                let keys = server.latches_of(command.spec, &command.arguments(), command.database);
                match self.in_its_time(&command, server.latches.wait(keys.as_deref())).await? {
                    Waited::Done(()) => {}
                    Waited::TimeIsOver => return Ok(Some(self.end_without_element(&command))),
                    Waited::Ended => return Ok(None),
                }
                let waited = since.elapsed();
                server.figures.key_waits.add(waited);
                self.why().keys += waited;
                self.has_waited = true;
                return Ok(Some(self.again(&command)));
            }
            Wait::Pool(command) => {
                let command = Arc::new(command);
                let spec = command.spec;
                let writes = spec.flags.writes;
                let begin = self.reply.bytes.len();
                // Whatever becomes of this try, others may wait for what it leaves.
                let mut after = spec.flags.blocks.then(|| After::new(&server, &command));
                let mut why = *self.why();
                let commands = vec![Arc::clone(&command)];
                let latched = self.latched.take();
                let admitted = server.admit(&commands, false, Vec::new(), latched, &mut why);
                let admitted = match self.in_its_time(&command, admitted).await? {
                    Waited::Done(admitted) => admitted,
                    Waited::TimeIsOver => return Ok(Some(self.end_without_element(&command))),
                    Waited::Ended => return Ok(None),
                };
                let done = server.run_in_pool(commands, admitted, &self.client, false, &mut why).await;
                if self.client.is_ended() {
                    // It may not have been done, so nothing behind it may be.
                    return Ok(None);
                }
                *self.why() = why;
                match done {
                    Ok(replies) if replies.iter().all(Reply::is_empty) && spec.flags.blocks => {
                        let command = Owned { long: Vec::new(), ..Arc::unwrap_or_clone(command) };
                        return Ok(Some(Next::Do(Wait::Element(command))));
                    }
                    Ok(replies) => {
                        if let Some(after) = &mut after {
                            after.note_served();
                        }
                        replies.into_iter().for_each(|reply| self.reply.append(reply));
                        self.has_written |= writes;
                    }
                    Err(message) => self.reply.error(&message),
                }
                self.waits_until = None;
                drop(after);
                let has_walked_long = why.to_pool == Some(ToPool::Walk) && why.spent.evaluated >= LONG_WALK;
                self.note(spec, &command.arguments(), begin);
                self.silence(&command.arguments(), begin);
                if has_walked_long {
                    self.flush().await?;
                    server.give_way().await;
                }
            }
            Wait::Exec(queue, commands) => {
                let writes = commands.iter().any(|command| command.spec.flags.writes);
                let begin = self.reply.bytes.len();
                let mut why = *self.why();
                let others =
                    self.watched.iter().map(|watched| server.latches.of(watched.database, &watched.key));
                let admitted = server.admit(&commands, true, others.collect(), None, &mut why);
                let Some(admitted) = self.unless_ended(admitted).await else { return Ok(None) };
                let done = if self.has_changed() {
                    Ok(None)
                } else {
                    server.run_in_pool(commands, admitted, &self.client, true, &mut why).await.map(Some)
                };
                if self.client.is_ended() {
                    return Ok(None);
                }
                *self.why() = why;
                self.unwatch();
                match done {
                    Ok(Some(replies)) => {
                        self.has_written |= writes;
                        self.finish_exec(queue, replies);
                    }
                    Ok(None) => self.reply.null_array(),
                    Err(message) => self.reply.error(&message),
                }
                if let Some(exec) = spec(b"exec") {
                    self.note(exec, &[b"exec"], begin);
                }
                self.silence(&[b"exec"], begin);
            }
            Wait::Element(command) => return self.wait_for_element(command).await,
            Wait::Long(len) => return self.take_long(len).await,
            Wait::Login(command) => {
                let (begin, begun) = (self.reply.bytes.len(), Instant::now());
                let is_right = self.compare_password(&command).await;
                self.note_password(begun.elapsed());
                if is_right {
                    return Ok(Some(self.again(&command)));
                }
                self.note(command.spec, &command.arguments(), begin);
                self.silence(&command.arguments(), begin);
            }
            Wait::Keys(command) => {
                if self.unless_ended(server.count_keys()).await.is_none() {
                    return Ok(None);
                }
                let (begin, arguments) = (self.reply.bytes.len(), command.arguments());
                let text = info::text(&server, &arguments[1..]);
                self.reply.verbatim(&text);
                self.note(command.spec, &arguments, begin);
                self.silence(&arguments, begin);
            }
            Wait::Users(command) => {
                let (begin, begun) = (self.reply.bytes.len(), Instant::now());
                let has_to_go = self.change_users(&command).await;
                self.note_password(begun.elapsed());
                self.note(command.spec, &command.arguments(), begin);
                self.silence(&command.arguments(), begin);
                if has_to_go {
                    self.flush().await?;
                    return Ok(None);
                }
            }
            Wait::Sync { at_most } => {
                self.flush().await?;
                let begin = self.reply.bytes.len();
                let wait = async move { server.wait_durable(at_most).await.unwrap_or(false) };
                let Some(is_durable) = self.beside_client(wait).await? else { return Ok(None) };
                self.reply.array(2);
                self.reply.flag(is_durable);
                self.reply.integer(0);
                self.silence(&[b"waitaof"], begin);
            }
            Wait::Replicas(at_most) => {
                self.flush().await?;
                let begin = self.reply.bytes.len();
                if self.beside_client(sleep(at_most)).await?.is_none() {
                    return Ok(None);
                }
                self.reply.integer(0);
                self.silence(&[b"wait"], begin);
            }
        }
        Ok(Some(self.step()))
    }

    /// Waits for `waited`, while messages are sent. `None`: the client has gone.
    async fn beside_client<T>(&mut self, waited: impl Future<Output = T>) -> io::Result<Option<T>> {
        tokio::pin!(waited);
        loop {
            if self.is_over() {
                return Ok(None);
            }
            tokio::select! {
                biased;
                done = &mut waited => return Ok(Some(done)),
                () = self.client.told.notified() => {
                    // It waits meanwhile: others may wait for what comes of that.
                    let client = Rc::clone(&self.client);
                    client.is_writing.set(true);
                    let (mut done, flush) = (None, self.flush());
                    tokio::pin!(flush);
                    let flushed = loop {
                        tokio::select! {
                            biased;
                            value = &mut waited, if done.is_none() => done = Some(value),
                            flushed = &mut flush => break flushed,
                        }
                    };
                    client.is_writing.set(false);
                    flushed?;
                    if done.is_some() {
                        return Ok(done);
                    }
                }
                // Commands that come meanwhile wait in the buffer, and more of them in the socket.
                read = poll_fn(|cx| poll_append(&mut self.stream, &mut self.buffer, READ_BYTES, cx)),
                    if self.buffer.len() <= WAITING_BYTES =>
                {
                    if read? == 0 {
                        return Ok(None);
                    }
                    self.note_memory();
                }
            }
        }
    }

    /// Waits for `waited`. Reads nothing from the client and writes nothing to it meanwhile, since `waited` may hold keys that
    /// others need. `None`: the connection was ended.
    async fn unless_ended<T>(&self, waited: impl Future<Output = T>) -> Option<T> {
        tokio::pin!(waited);
        let done = loop {
            if self.client.is_ended() {
                return None;
            }
            tokio::select! {
                biased;
                done = &mut waited => break done,
                () = self.client.told.notified() => {}
            }
        };
        if self.client.has_messages() {
            // They are sent later.
            self.client.told.notify();
        }
        Some(done)
    }

    /// Waits for `waited`, for which a command waits that has not begun. One that waits for elements waits only as long as its
    /// client is there; and if it has found that there is none, no longer than for one.
    async fn in_its_time<T>(
        &mut self,
        command: &Owned,
        waited: impl Future<Output = T>,
    ) -> io::Result<Waited<T>> {
        if !command.spec.flags.blocks {
            return Ok(self.unless_ended(waited).await.map_or(Waited::Ended, Waited::Done));
        }
        let until = self.waits_until.flatten();
        tokio::pin!(waited);
        let done = loop {
            if self.client.is_ended() {
                return Ok(Waited::Ended);
            }
            tokio::select! {
                biased;
                done = &mut waited => break Waited::Done(done),
                () = self.client.told.notified() => {}
                () = sleep_until(until) => break Waited::TimeIsOver,
                read = poll_fn(|cx| poll_append(&mut self.stream, &mut self.buffer, READ_BYTES, cx)),
                    if self.buffer.len() <= WAITING_BYTES =>
                {
                    if read? == 0 {
                        return Ok(Waited::Ended);
                    }
                    self.note_memory();
                }
            }
        };
        if self.client.has_messages() {
            self.client.told.notify();
        }
        Ok(done)
    }

    /// Until when a command waits for elements, of which it has found none: from the moment on at which this is asked first.
    fn deadline(&mut self, spec: &Spec, arguments: &[&[u8]]) -> Option<tokio::time::Instant> {
        *self.waits_until.get_or_insert_with(|| {
            let at_most = timeout_of(spec, arguments).ok().flatten().map(Duration::from_micros);
            at_most.and_then(|at_most| tokio::time::Instant::now().checked_add(at_most))
        })
    }

    /// Answers a command that has waited for an element long enough, and goes on.
    fn end_without_element(&mut self, command: &Owned) -> Next {
        let begin = self.reply.bytes.len();
        reply_without_element(command.spec, true, &mut self.reply);
        self.waits_until = None;
        // To wait for an element is no work.
        self.clock = Instant::now();
        self.why = None;
        self.note(command.spec, &command.arguments(), begin);
        self.silence(&command.arguments(), begin);
        self.step()
    }

    /// Does a command again that had to wait, and those behind it.
    fn again(&mut self, command: &Owned) -> Next {
        self.long.clone_from(&command.long);
        self.begin_step();
        let before = self.server.turn.borrow().extent();
        let next = self.command(&command.arguments());
        self.has_waited = false;
        if next.is_none() {
            // It waits no more, if it has waited for an element.
            self.waits_until = None;
        }
        match next {
            Some(next) => next,
            None if self.has_to_flush(before) => Next::Flush,
            None => self.step(),
        }
    }

    async fn wait_for_element(&mut self, command: Owned) -> io::Result<Option<Next>> {
        self.flush().await?;
        let Owned { spec, arguments, long, database } = command;
        let given: Vec<&[u8]> = arguments.iter().map(Vec::as_slice).collect();
        let until = self.deadline(spec, &given);
        let mut keys: Vec<Vec<u8>> = spec.keys_of(&given).into_iter().map(<[u8]>::to_vec).collect();
        if is_move(spec) {
            // Where its element goes to brings none.
            keys.truncate(1);
        }
        let (answer, mut answered) = oneshot::channel();
        let held = Rc::<Held>::default();
        // A move needs both of its keys.
        let latches = is_move(spec).then(|| self.server.latches_of(spec, &given, database)).flatten();
        let begin = self.reply.bytes.len();
        // It may have lost a right while replies were written. Who changes rights looks only at clients that wait already.
        if !self.is_unrestricted()
            && let Some(message) = self.refusal(spec, &given)
        {
            self.refuse(Some(spec), &message);
            self.silence(&given, begin);
            self.waits_until = None;
            return Ok(Some(self.step()));
        }
        let named: Rc<[(u16, Vec<u8>)]> = keys.iter().map(|key| (database, key.clone())).collect();
        let waiter = Waiter {
            client: Rc::clone(&self.client),
            spec,
            arguments: arguments.clone(),
            database,
            keys,
            answer,
            held: Rc::clone(&held),
            has_timeout: self.waits_until.flatten().is_some(),
        };
        let id = self.server.waiters.borrow_mut().add(waiter);
        let (server, client) = (Rc::clone(&self.server), Rc::clone(&self.client));
        let mut waiting = Waiting {
            server,
            client,
            id,
            keys: Rc::clone(&named),
            held: Rc::clone(&held),
            is_settled: false,
        };
        self.client.is_blocked.set(true);
        // An element may have come since the command was evaluated.
        let (server, client) = (Rc::clone(&self.server), Rc::clone(&self.client));
        let waited = async move {
            let look = async {
                server.look_for_element(id, until).await;
                loop {
                    let keys = held.some().await;
                    let of_keys = keys.iter().map(|key| server.latches.of(database, key)).collect();
                    let latches: Vec<Latch> = latches.clone().unwrap_or(of_keys);
                    server.latches.wait(Some(&latches)).await;
                    server.serve_waiters(held.take().into_iter().map(|key| (database, key)).collect());
                }
            };
            let time_is_over = async {
                sleep_until(until).await;
                // An element that it has got by then is its own, if the turn is done.
                held.unserved().await;
            };
            let mut answer = tokio::select! {
                biased;
                answer = &mut answered => answer.ok(),
                () = time_is_over => None,
                () = look => None,
            };
            // From here on it takes no element, however long messages are written to it.
            if answer.is_none() && server.waiters.borrow_mut().remove(id).is_none() {
                answer = answered.try_recv().ok();
            }
            let mut left: Vec<_> = held.take().into_iter().map(|key| (database, key)).collect();
            if let Some(Answer::Try(latched)) = &mut answer
                && client.is_writing.get()
            {
                // It holds no keys meanwhile, and those behind it do not wait for it.
                *latched = None;
                left = named.to_vec();
            }
            server.serve_waiters(left);
            answer
        };
        let Some(waited) = self.beside_client(waited).await? else { return Ok(None) };
        // To wait for an element is no work.
        self.clock = Instant::now();
        self.why = None;
        let is_over = until.is_some_and(|until| until <= tokio::time::Instant::now());
        match waited {
            Some(Answer::Reply(bytes)) => {
                waiting.is_settled = true;
                self.reply.bytes.extend(bytes);
                self.has_written = true;
            }
            // It has to read a file, or the store is busy.
            Some(Answer::Try(latched)) => {
                let command = Owned { spec, arguments, long, database };
                // It may have lost a right while messages were written.
                if !self.is_unrestricted()
                    && let Some(message) = self.refusal(spec, &command.arguments())
                {
                    drop(latched);
                    drop(waiting);
                    self.refuse(Some(spec), &message);
                    self.silence(&command.arguments(), begin);
                    self.waits_until = None;
                    return Ok(Some(self.step()));
                }
                if is_over {
                    drop(latched);
                    drop(waiting);
                    return Ok(Some(self.end_without_element(&command)));
                }
                // However often that happens, the client may go.
                if let Waited::Ended = self.in_its_time(&command, tokio::task::yield_now()).await? {
                    return Ok(None);
                }
                waiting.is_settled = true;
                self.latched = latched;
                return Ok(Some(Next::Do(Wait::Pool(command))));
            }
            None => {
                // Nobody has told it anything.
                waiting.is_settled = true;
                reply_without_element(spec, true, &mut self.reply);
            }
        }
        drop(waiting);
        self.waits_until = None;
        let given: Vec<&[u8]> = arguments.iter().map(Vec::as_slice).collect();
        self.note(spec, &given, begin);
        self.silence(&given, begin);
        Ok(Some(self.step()))
    }
}

/// Reads into [`SCRATCH`] if `buffer` is empty. Otherwise appends to `buffer`, in large pieces if the parser expects `wanted`
/// bytes. Returns how many bytes came; 0: the client has gone.
fn poll_read(
    stream: &mut Stream,
    buffer: &mut Vec<u8>,
    wanted: usize,
    cx: &mut task::Context<'_>,
) -> Poll<io::Result<usize>> {
    if buffer.is_empty() {
        return SCRATCH.with_borrow_mut(|scratch| stream.poll_read(cx, scratch));
    }
    let room = wanted.saturating_sub(buffer.len()).clamp(READ_BYTES, 1 << 20);
    poll_append(stream, buffer, room, cx)
}

/// Reads behind what is in `buffer`, `room` bytes at most. A client that sends nothing more takes no memory for what it
/// may send: there is only as much room as bytes have come, or [`SCRATCH`].
fn poll_append(
    stream: &mut Stream,
    buffer: &mut Vec<u8>,
    room: usize,
    cx: &mut task::Context<'_>,
) -> Poll<io::Result<usize>> {
    let len = buffer.len();
    let room = room.min(len.max(READ_BYTES));
    if room <= READ_BYTES {
        return SCRATCH.with_borrow_mut(|scratch| {
            let read = stream.poll_read(cx, &mut scratch[..room]);
            if let Poll::Ready(Ok(came)) = &read {
                buffer.extend_from_slice(&scratch[..*came]);
            }
            read
        });
    }
    buffer.resize(len + room, 0);
    let read = stream.poll_read(cx, &mut buffer[len..]);
    let came = if let Poll::Ready(Ok(read)) = &read { *read } else { 0 };
    buffer.truncate(len + came);
    read
}

/// A wait for an element, which ends when this is dropped.
struct Waiting {
    server: Rc<Server>,
    client: Rc<Client>,
    id: u64,
    keys: Rc<[(u16, Vec<u8>)]>,
    held: Rc<Held>,
    /// Whether the client has its element, or will try itself.
    is_settled: bool,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.client.is_blocked.set(false);
        let was_told = self.server.waiters.borrow_mut().remove(self.id).is_none();
        let database = self.keys.first().map_or(0, |key| key.0);
        let held: Vec<_> = self.held.take().into_iter().map(|key| (database, key)).collect();
        self.server.serve_waiters(held);
        if was_told && !self.is_settled {
            // It was its turn to try, and others have waited for that.
            self.server.serve_waiters(self.keys.to_vec());
        }
    }
}

/// A try of a client that has waited for elements. When it ends, those who wait for the same keys are served.
struct After {
    server: Rc<Server>,
    keys: Vec<(u16, Vec<u8>)>,
}

impl After {
    fn new(server: &Rc<Server>, command: &Owned) -> After {
        let arguments = command.arguments();
        let keys = command.spec.keys_of(&arguments).into_iter().map(|key| (command.database, key.to_vec()));
        After { server: Rc::clone(server), keys: keys.collect() }
    }

    /// The client has its element: those behind it have been served, unless they wait for another of its keys.
    fn note_served(&mut self) {
        if self.keys.len() == 1 {
            self.keys.clear();
        }
    }
}

impl Drop for After {
    fn drop(&mut self) {
        self.server.serve_waiters(std::mem::take(&mut self.keys));
    }
}

async fn sleep(at_most: Option<Duration>) {
    match at_most {
        Some(at_most) => tokio::time::sleep(at_most).await,
        None => std::future::pending().await,
    }
}

async fn sleep_until(moment: Option<tokio::time::Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// What a client is told of an error of the store.
pub(crate) fn told(error: &esker::Error) -> String {
    match error.kind() {
        ErrorKind::OutOfSpace => format!("MISCONF the disk is full: {error}"),
        _ => format!("ERR {error}"),
    }
}

fn unknown(arguments: &[&[u8]]) -> String {
    let shown = |argument: &[u8]| String::from_utf8_lossy(&argument[..argument.len().min(128)]).into_owned();
    let Some((name, rest)) = arguments.split_first() else { return String::new() };
    let mut message = format!("ERR unknown command '{}', with args beginning with: ", shown(name));
    for argument in rest {
        if message.len() >= 128 {
            break;
        }
        message.push_str(&format!("'{}' ", shown(argument)));
    }
    message
}

fn is_reply_mode(arguments: &[&[u8]]) -> bool {
    matches!(arguments, [client, reply, ..] if client.eq_ignore_ascii_case(b"client") && reply.eq_ignore_ascii_case(b"reply"))
}

/// Whether a command that waits moves its element to another key.
pub(crate) fn is_move(spec: &Spec) -> bool {
    matches!(spec.name, "blmove" | "brpoplpush")
}

fn is_subscription(spec: &Spec) -> bool {
    matches!(spec.name, "subscribe" | "unsubscribe" | "psubscribe" | "punsubscribe")
}

/// Whether a client of version 2 that listens to channels may send the command.
fn is_for_listeners(spec: &Spec) -> bool {
    is_subscription(spec) || matches!(spec.name, "ping" | "quit" | "reset")
}

/// Whether the command is done although `MULTI` came before it.
fn ends_queue(spec: &Spec) -> bool {
    matches!(spec.name, "exec" | "discard" | "multi" | "watch" | "quit" | "reset")
}
