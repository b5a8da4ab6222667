//! The clients that are connected: what each has chosen, and what is on its way to it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use esker_redis::Reply;

use crate::memory::{Budget, Share};
use crate::users::{Account, DEFAULT};
use crate::wake::LocalNotify;

/// The number of a client. No other one of this process has it.
pub(crate) type ClientId = u64;

/// Why the server ends a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum End {
    /// It has sent no command for long.
    Idle,
    /// It has taken nothing of its replies for long.
    SlowReader,
    /// Too many messages wait for it.
    Outbox,
    /// It took the most memory when all connections took too much.
    Memory,
    /// What it sent is no command.
    Protocol,
}

impl End {
    pub(crate) const ALL: [End; 5] = [End::Idle, End::SlowReader, End::Outbox, End::Memory, End::Protocol];

    pub(crate) fn name(self) -> &'static str {
        match self {
            End::Idle => "idle",
            End::SlowReader => "slow_reader",
            End::Outbox => "outbox",
            End::Memory => "memory",
            End::Protocol => "protocol",
        }
    }

    /// What the client is told, if anything.
    pub(crate) fn farewell(self) -> &'static str {
        match self {
            // Redis says nothing to idle clients, and some would take a word for the reply to their next command.
            End::Idle | End::Protocol => "",
            End::SlowReader => {
                "-ERR closed: this connection has not read its replies for long (send-timeout)\r\n"
            }
            End::Outbox => "-ERR closed: too many messages wait for this connection (max-outbox)\r\n",
            End::Memory => {
                "-ERR closed: the connections take too much memory, and this one takes the most (max-clients-memory)\r\n"
            }
        }
    }
}

/// What others know of a client.
pub(crate) struct Client {
    pub(crate) id: ClientId,
    pub(crate) address: String,
    /// Where it is connected to.
    pub(crate) local: String,
    /// When it came, in seconds of the server's life.
    pub(crate) since_s: u64,
    pub(crate) last_used_s: Cell<u64>,
    pub(crate) name: RefCell<Vec<u8>>,
    pub(crate) library: RefCell<(String, String)>,
    /// The user that it is; `None`: it has not said yet.
    pub(crate) user: RefCell<Option<Rc<Account>>>,
    /// The name in its certificate.
    pub(crate) certified: Option<Vec<u8>>,
    pub(crate) database: Cell<u16>,
    pub(crate) resp3: Cell<bool>,
    /// The name of its last command.
    pub(crate) command: Cell<&'static str>,
    pub(crate) subscriptions: Cell<(usize, usize)>,
    /// How many commands wait for `EXEC`; `None`: it has not sent `MULTI`.
    pub(crate) queued: Cell<Option<usize>>,
    pub(crate) is_blocked: Cell<bool>,
    /// Whether it watches keys.
    pub(crate) watches: Cell<bool>,
    /// Whether messages are written to it while it waits for an element: that may take long, and it holds no keys meanwhile.
    pub(crate) is_writing: Cell<bool>,
    /// Messages that are no replies, and wait to be sent.
    outbox: RefCell<Vec<u8>>,
    /// Is told of messages, and of the end.
    pub(crate) told: LocalNotify,
    /// Whether the connection is to end. A job in the pool looks at it too.
    is_ended: Arc<AtomicBool>,
    /// Why, if the server ends it because of a limit.
    pub(crate) why_ended: Cell<Option<End>>,
    /// The memory that the connection takes.
    pub(crate) share: Share,
}

impl Client {
    /// Puts a message into the outbox.
    pub(crate) fn send(&self, write: impl FnOnce(&mut Reply)) {
        // One that has had too many may have subscribed to the same message a thousand times.
        if self.is_ended() {
            return;
        }
        let mut reply = Reply::new(self.resp3.get());
        write(&mut reply);
        let mut outbox = self.outbox.borrow_mut();
        if !self.share.set_outbox(outbox.len() + reply.bytes.len()) {
            self.share.set_outbox(outbox.len());
            self.end_for(End::Outbox);
            return;
        }
        outbox.extend_from_slice(&reply.bytes);
        self.told.notify();
    }

    pub(crate) fn take_outbox(&self) -> Vec<u8> {
        let outbox = self.outbox.take();
        if !outbox.is_empty() {
            self.share.set_outbox(0);
        }
        outbox
    }

    pub(crate) fn has_messages(&self) -> bool {
        !self.outbox.borrow().is_empty()
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.is_ended.load(Ordering::Relaxed)
    }

    /// What [`Client::is_ended`] tells, for another thread.
    pub(crate) fn ended_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_ended)
    }

    /// The connection ends as soon as its task comes to it.
    pub(crate) fn end(&self) {
        self.is_ended.store(true, Ordering::Relaxed);
        self.told.notify();
    }

    /// Ends the connection because of a limit.
    pub(crate) fn end_for(&self, why: End) {
        self.why_ended.set(self.why_ended.get().or(Some(why)));
        self.end();
    }

    /// Whether it has subscribed to anything.
    pub(crate) fn listens(&self) -> bool {
        self.subscriptions.get() != (0, 0)
    }

    /// A line of `CLIENT LIST`.
    pub(crate) fn describe(&self, now_s: u64) -> String {
        let (channels, patterns) = self.subscriptions.get();
        let library = self.library.borrow();
        let mut flags = String::new();
        if self.listens() {
            flags.push('P');
        }
        if self.queued.get().is_some() {
            flags.push('x');
        }
        if self.is_blocked.get() {
            flags.push('b');
        }
        if flags.is_empty() {
            flags.push('N');
        }
        format!(
            "id={} addr={} laddr={} fd=-1 name={} age={} idle={} flags={flags} db={} sub={channels} psub={patterns} ssub=0 \
             multi={} qbuf={} qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl=0 oll=0 omem={} tot-mem={} events=r cmd={} \
             user={} redir=-1 resp={} lib-name={} lib-ver={}",
            self.id,
            self.address,
            self.local,
            String::from_utf8_lossy(&self.name.borrow()),
            now_s - self.since_s.min(now_s),
            now_s - self.last_used_s.get().min(now_s),
            self.database.get(),
            self.queued.get().map_or(-1, |count| count as i64),
            self.share.buffers(),
            self.share.outbox(),
            self.share.bytes(),
            self.command.get(),
            String::from_utf8_lossy(self.user.borrow().as_ref().map_or(DEFAULT, |account| &account.name)),
            if self.resp3.get() { 3 } else { 2 },
            library.0,
            library.1,
        )
    }
}

/// All clients.
#[derive(Default)]
pub(crate) struct Clients {
    by_id: BTreeMap<ClientId, Rc<Client>>,
    last: ClientId,
}

impl Clients {
    pub(crate) fn add(
        &mut self,
        address: String,
        local: String,
        certified: Option<Vec<u8>>,
        now_s: u64,
        budget: &Rc<Budget>,
    ) -> Rc<Client> {
        self.last += 1;
        let client = Rc::new(Client {
            id: self.last,
            address,
            local,
            since_s: now_s,
            last_used_s: Cell::new(now_s),
            name: RefCell::default(),
            library: RefCell::default(),
            user: RefCell::default(),
            certified,
            database: Cell::new(0),
            resp3: Cell::new(false),
            command: Cell::new("NULL"),
            subscriptions: Cell::new((0, 0)),
            queued: Cell::new(None),
            is_blocked: Cell::new(false),
            watches: Cell::new(false),
            is_writing: Cell::new(false),
            outbox: RefCell::default(),
            told: LocalNotify::default(),
            is_ended: Arc::default(),
            why_ended: Cell::new(None),
            share: Share::of(budget),
        });
        self.by_id.insert(client.id, Rc::clone(&client));
        client
    }

    pub(crate) fn remove(&mut self, id: ClientId) {
        self.by_id.remove(&id);
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Rc<Client>> {
        self.by_id.values()
    }

    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Ends those connections that take the most memory, until the others take as much as they may.
    #[cold]
    pub(crate) fn shed(&self, budget: &Budget) {
        while budget.excess() > 0 {
            let going_on = self.all().filter(|client| !client.is_ended());
            let largest = going_on.max_by_key(|client| client.share.bytes());
            let Some(client) = largest.filter(|client| client.share.bytes() > 0) else { return };
            client.share.doom();
            client.end_for(End::Memory);
            // They are not sent any more, and the next one may need the room before the connection's task runs.
            drop(client.take_outbox());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channels::{By, Channels};

    #[test]
    fn a_message_to_many_takes_no_more_than_all_may() {
        let (budget, mut clients, mut channels) =
            (Rc::<Budget>::default(), Clients::default(), Channels::default());
        budget.bytes_max.set(10 << 20);
        budget.outbox_bytes_max.set(usize::MAX);
        for _ in 0..50 {
            let client = clients.add(String::new(), String::new(), None, 0, &budget);
            channels.add(By::Name, b"channel", &client);
        }
        let mut peak = 0;
        let count = channels.publish(b"channel", &vec![b'm'; 1 << 20], || {
            peak = peak.max(budget.used());
            clients.shed(&budget);
            assert!(budget.used() <= 10 << 20);
        });
        assert_eq!((count, peak >> 20), (50, 10), "one message more than there may be");
        assert_eq!(clients.all().filter(|client| client.has_messages()).count(), 9);
        assert_eq!(clients.all().filter(|client| client.is_ended()).count(), 41);
    }
}
