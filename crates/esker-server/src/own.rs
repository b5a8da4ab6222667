//! The commands that are about a connection, a transaction, channels or the server.

use std::cell::Cell;
use std::collections::HashSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use esker_redis::commands::subcommands::{asks_for_help, help};
use esker_redis::numbers::integer;
use esker_redis::{ReadError, Reply, Spec};

use crate::acl::{Attempt, WRONG_PASSWORD, credentials};
use crate::canary::broken;
use crate::channels::By;
use crate::clients::Client;
use crate::connection::{COMMIT_BYTES, Connection, ITEM_BYTES, Next, Queue, Queued, Replies, Wait, told};
use crate::info;
use crate::server::{Owned, Pending};
use crate::settings::Refused;
use crate::trees::STEPS_INLINE;
use crate::watches::Watched;
use crate::why::ToPool;

/// The most commands of a transaction that the event loop does; others would wait too long for more.
const EXEC_INLINE_MAX: usize = 1000;

/// The longest name of a client or of its library, in bytes.
const NAME_BYTES_MAX: usize = 1024;

const SYNTAX: &str = "ERR syntax error";

/// An error of a subcommand that is there.
pub(crate) fn no_subcommand(name: &str, sub: &[u8]) -> String {
    let sub = String::from_utf8_lossy(&sub[..sub.len().min(128)]);
    let name = name.to_ascii_uppercase();
    format!("ERR unknown subcommand or wrong number of arguments for '{sub}'. Try {name} HELP.")
}

fn wrong_count(name: &str, sub: &str) -> String {
    format!("ERR wrong number of arguments for '{name}|{}' command", sub.to_ascii_lowercase())
}

fn is(argument: &[u8], word: &str) -> bool {
    argument.eq_ignore_ascii_case(word.as_bytes())
}

/// Whether a command goes by what is committed, or tells others of it.
fn goes_by_commits(spec: &Spec) -> bool {
    matches!(spec.name, "watch" | "exec" | "waitaof" | "wait" | "publish" | "bgsave" | "info")
}

impl Connection {
    /// Does a command that the server does itself, or says what has to happen first.
    pub(crate) fn own_command(&mut self, spec: &'static Spec, args: &[&[u8]]) -> Option<Next> {
        if goes_by_commits(spec)
            && !self.is_in_exec
            && let Some(wait) = self.commit_before(spec, args)
        {
            return Some(wait);
        }
        if asks_for_help(spec, args) {
            let lines = help(spec.name);
            self.reply.array(lines.len());
            lines.iter().for_each(|line| self.reply.simple(line));
            return None;
        }
        match spec.name {
            "ping" => self.ping(args),
            "echo" => self.reply.bulk(args[1]),
            "quit" => {
                self.reply.ok();
                return Some(Next::Close);
            }
            "select" => self.select(args[1]),
            "auth" => return self.auth(spec, args),
            "hello" => return self.hello(spec, args),
            "acl" => return self.acl(spec, args),
            "reset" => self.reset(),
            "client" => return self.client_command(args),
            "multi" => self.multi(),
            "discard" => self.discard(),
            "exec" => return self.exec(),
            "watch" => return self.watch(spec, args),
            "unwatch" => {
                self.unwatch();
                self.reply.ok();
            }
            "subscribe" => self.subscribe(By::Name, &args[1..]),
            "psubscribe" => self.subscribe(By::Pattern, &args[1..]),
            "unsubscribe" => self.unsubscribe(By::Name, &args[1..]),
            "punsubscribe" => self.unsubscribe(By::Pattern, &args[1..]),
            "publish" => {
                let count = self.server.publish(args[1], args[2]);
                self.reply.count(count as u64);
            }
            "pubsub" => self.pubsub(args),
            "wait" => return self.wait_for_replicas(args),
            "waitaof" => return self.wait_for_sync(args),
            "command" => self.command_command(args),
            "config" => self.config(args),
            "info" => {
                let has_to_wait = info::shows(&args[1..], "keyspace") && self.server.keyspace.has_to_wait();
                if has_to_wait && !self.is_in_exec {
                    return Some(Next::Do(Wait::Keys(self.owned(spec, args))));
                }
                let text = info::text(&self.server, &args[1..]);
                self.reply.verbatim(&text);
            }
            "bgsave" => self.bgsave(args),
            "lastsave" => self.reply.count(self.server.backups.last_s.get()),
            "time" => {
                let wall_us = self.server.wall_us();
                self.reply.array(2);
                self.reply.bulk((wall_us / 1_000_000).to_string().as_bytes());
                self.reply.bulk((wall_us % 1_000_000).to_string().as_bytes());
            }
            "role" => {
                self.reply.array(3);
                self.reply.bulk(b"master");
                self.reply.integer(0);
                self.reply.array(0);
            }
            "function" if is(args[1], "FLUSH") => self.reply.ok(),
            "asking" | "cluster" | "readonly" | "readwrite" => {
                self.reply.error("ERR This instance has cluster support disabled");
            }
            "slowlog" => self.slowlog(args),
            "latency" => self.latency(args),
            name => self.reply.error(&no_subcommand(name, args.get(1).copied().unwrap_or(b""))),
        }
        None
    }

    // ---- connection ----------------------------------------------------------------------------------

    fn ping(&mut self, args: &[&[u8]]) {
        if args.len() > 2 {
            self.reply.error("ERR wrong number of arguments for 'ping' command");
        } else if self.client.listens() && !self.reply.resp3 {
            self.reply.array(2);
            self.reply.bulk(b"pong");
            self.reply.bulk(args.get(1).copied().unwrap_or(b""));
        } else if let Some(text) = args.get(1) {
            self.reply.bulk(text);
        } else {
            self.reply.simple("PONG");
        }
    }

    fn select(&mut self, argument: &[u8]) {
        match integer(argument) {
            None => self.reply.error("ERR value is not an integer or out of range"),
            Some(number) if (0..i64::from(self.server.trees.count())).contains(&number) => {
                self.client.database.set(number as u16);
                self.reply.ok();
            }
            Some(_) => self.reply.error("ERR DB index is out of range"),
        }
    }

    fn hello(&mut self, spec: &'static Spec, args: &[&[u8]]) -> Option<Next> {
        match self.try_hello(args) {
            Ok(Attempt::Succeeded) => None,
            Ok(Attempt::Failed) => {
                self.reply.error(WRONG_PASSWORD);
                None
            }
            Ok(Attempt::Unknown) => Some(Next::Do(Wait::Login(self.owned(spec, args)))),
            Err(message) => {
                self.reply.error(&message);
                None
            }
        }
    }

    /// Answers `HELLO`, unless the password that it carries is wrong or not known.
    fn try_hello(&mut self, args: &[&[u8]]) -> Result<Attempt, String> {
        let resp3 = match args.get(1).map(|version| integer(version)) {
            None => self.reply.resp3,
            Some(Some(2)) => false,
            Some(Some(3)) => true,
            Some(None) => return Err("ERR Protocol version is not an integer or out of range".to_owned()),
            Some(Some(_)) => return Err("NOPROTO unsupported protocol version".to_owned()),
        };
        let (mut rest, mut name) = (args.get(2..).unwrap_or(&[]), None);
        loop {
            rest = match rest {
                [] => break,
                [word, _, _, more @ ..] if is(word, "AUTH") => more,
                [word, given, more @ ..] if is(word, "SETNAME") => {
                    name = Some(*given);
                    more
                }
                [word, ..] => {
                    let word = String::from_utf8_lossy(word);
                    return Err(format!("ERR Syntax error in HELLO option '{word}'"));
                }
            };
        }
        if let Some((user, password)) = credentials(args) {
            match self.try_to_be(user, password) {
                Attempt::Succeeded => {}
                other => return Ok(other),
            }
        } else if !self.is_somebody() {
            return Err(
                "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH <user> <pass> \
                 option can be used to authenticate the client and select the RESP protocol version at the same time"
                    .to_owned(),
            );
        }
        if let Some(name) = name
            && !self.set_name(name)
        {
            return Ok(Attempt::Succeeded);
        }
        self.reply.resp3 = resp3;
        self.client.resp3.set(resp3);
        self.reply.map(7);
        self.reply.bulk(b"server");
        self.reply.bulk(b"redis");
        self.reply.bulk(b"version");
        self.reply.bulk(info::REDIS_VERSION.as_bytes());
        self.reply.bulk(b"proto");
        self.reply.integer(if resp3 { 3 } else { 2 });
        self.reply.bulk(b"id");
        self.reply.count(self.client.id);
        self.reply.bulk(b"mode");
        self.reply.bulk(b"standalone");
        self.reply.bulk(b"role");
        self.reply.bulk(b"master");
        self.reply.bulk(b"modules");
        self.reply.array(0);
        Ok(Attempt::Succeeded)
    }

    /// Gives the client a name, or says why it cannot have it.
    fn set_name(&mut self, name: &[u8]) -> bool {
        if name.iter().any(|byte| !(b'!'..=b'~').contains(byte)) {
            self.reply.error("ERR Client names cannot contain spaces, newlines or special characters.");
            return false;
        }
        if name.len() > NAME_BYTES_MAX {
            self.reply.error(&format!("ERR Client names have at most {NAME_BYTES_MAX} bytes"));
            return false;
        }
        *self.client.name.borrow_mut() = name.to_vec();
        true
    }

    fn reset(&mut self) {
        if self.is_somebody() {
            self.begin_as_nobody();
        }
        self.abort();
        self.tell_messages();
        self.unsubscribe_all();
        self.client.database.set(0);
        self.client.name.borrow_mut().clear();
        *self.client.library.borrow_mut() = (String::new(), String::new());
        self.be_as_new();
        self.replies = Replies::All;
        self.reply.resp3 = false;
        self.client.resp3.set(false);
        self.reply.simple("RESET");
    }

    fn client_command(&mut self, args: &[&[u8]]) -> Option<Next> {
        let sub = args[1].to_ascii_lowercase();
        let now_s = self.server.uptime_s();
        match (sub.as_slice(), &args[2..]) {
            (b"id", []) => self.reply.count(self.client.id),
            (b"info", []) => self.reply.verbatim(&(self.client.describe(now_s) + "\n")),
            (b"getname", []) => {
                let name = self.client.name.borrow().clone();
                self.reply.bulk_or_null(Some(name.as_slice()).filter(|name| !name.is_empty()));
            }
            (b"setname", [name]) => {
                if self.set_name(name) {
                    self.reply.ok();
                }
            }
            (b"setinfo", [what, value]) => self.set_info(what, value),
            (b"list", filter) => self.client_list(filter, now_s),
            (b"kill", filter) => return self.client_kill(filter),
            (b"reply", [mode]) => {
                if is(mode, "ON") {
                    self.replies = Replies::All;
                    self.reply.ok();
                } else if is(mode, "OFF") {
                    self.replies = Replies::None;
                } else if is(mode, "SKIP") {
                    if self.replies != Replies::None {
                        self.replies = Replies::SkipNext;
                    }
                } else {
                    self.reply.error(SYNTAX);
                    return None;
                }
            }
            (b"no-evict" | b"no-touch", [mode]) if is(mode, "ON") || is(mode, "OFF") => self.reply.ok(),
            (b"unblock", [id]) => self.client_unblock(id, false),
            (b"unblock", [id, how]) if is(how, "TIMEOUT") || is(how, "ERROR") => {
                self.client_unblock(id, is(how, "ERROR"));
            }
            (b"unblock", [_, _]) => self.reply.error("ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR"),
            (b"no-evict" | b"no-touch", [_]) => self.reply.error(SYNTAX),
            _ => self.reply.error(&no_subcommand("client", args[1])),
        }
        None
    }

    fn set_info(&mut self, what: &[u8], value: &[u8]) {
        if value.iter().any(|byte| !(b'!'..=b'~').contains(byte)) {
            let what = String::from_utf8_lossy(what).to_ascii_lowercase();
            return self
                .reply
                .error(&format!("ERR {what} cannot contain spaces, newlines or special characters."));
        }
        if value.len() > NAME_BYTES_MAX {
            return self.reply.error(&format!("ERR names of libraries have at most {NAME_BYTES_MAX} bytes"));
        }
        let value = String::from_utf8_lossy(value).into_owned();
        let mut library = self.client.library.borrow_mut();
        if is(what, "LIB-NAME") {
            library.0 = value;
        } else if is(what, "LIB-VER") {
            library.1 = value;
        } else {
            let what = String::from_utf8_lossy(what);
            self.reply.error(&format!("ERR Unrecognized option '{what}'"));
            return;
        }
        self.reply.ok();
    }

    fn client_list(&mut self, filter: &[&[u8]], now_s: u64) {
        let wanted: Option<Vec<u64>> = match filter {
            [] => None,
            [word, ids @ ..] if is(word, "ID") && !ids.is_empty() => {
                let ids: Option<Vec<u64>> =
                    ids.iter().map(|id| integer(id).and_then(|id| u64::try_from(id).ok())).collect();
                match ids {
                    Some(ids) => Some(ids),
                    None => return self.reply.error("ERR Invalid client ID"),
                }
            }
            [word, kind] if is(word, "TYPE") => match kind.to_ascii_lowercase().as_slice() {
                b"normal" => None,
                b"pubsub" => {
                    let clients = self.server.clients.borrow();
                    Some(clients.all().filter(|client| client.listens()).map(|client| client.id).collect())
                }
                b"master" | b"replica" | b"slave" => Some(Vec::new()),
                _ => {
                    let kind = String::from_utf8_lossy(kind).into_owned();
                    return self.reply.error(&format!("ERR Unknown client type '{kind}'"));
                }
            },
            _ => return self.reply.error(SYNTAX),
        };
        let clients = self.server.clients.borrow();
        let shown = clients.all().filter(|client| wanted.as_ref().is_none_or(|ids| ids.contains(&client.id)));
        let text: String = shown.map(|client| client.describe(now_s) + "\n").collect();
        self.reply.verbatim(&text);
    }

    fn client_kill(&mut self, filter: &[&[u8]]) -> Option<Next> {
        let clients: Vec<Rc<Client>> = self.server.clients.borrow().all().cloned().collect();
        let own = self.client.id;
        // The old form: an address.
        if let [address] = filter {
            let found = clients.iter().find(|client| client.address.as_bytes() == *address);
            match found {
                None => self.reply.error("ERR No such client"),
                Some(client) if client.id == own => {
                    self.reply.ok();
                    return Some(Next::Close);
                }
                Some(client) => {
                    client.end();
                    self.reply.ok();
                }
            }
            return None;
        }
        let (mut killed, mut skip_me) = (clients, true);
        if filter.is_empty() || !filter.len().is_multiple_of(2) {
            self.reply.error(SYNTAX);
            return None;
        }
        for pair in filter.chunks_exact(2) {
            let (what, value) = (pair[0].to_ascii_lowercase(), pair[1]);
            match what.as_slice() {
                b"id" => match integer(value).and_then(|id| u64::try_from(id).ok()).filter(|id| *id > 0) {
                    Some(id) => killed.retain(|client| client.id == id),
                    None => {
                        self.reply.error("ERR client-id should be greater than 0");
                        return None;
                    }
                },
                b"addr" => killed.retain(|client| client.address.as_bytes() == value),
                b"laddr" => killed.retain(|client| client.local.as_bytes() == value),
                b"user" => {
                    if self.server.users.borrow().get(value).is_none() {
                        let value = String::from_utf8_lossy(value).into_owned();
                        self.reply.error(&format!("ERR No such user '{value}'"));
                        return None;
                    }
                    killed.retain(|client| {
                        let user = client.user.borrow();
                        user.as_ref().is_some_and(|account| account.name == value)
                    });
                }
                b"type" => match value.to_ascii_lowercase().as_slice() {
                    b"normal" => killed.retain(|client| !client.listens()),
                    b"pubsub" => killed.retain(|client| client.listens()),
                    b"master" | b"replica" | b"slave" => killed.clear(),
                    _ => {
                        let value = String::from_utf8_lossy(value).into_owned();
                        self.reply.error(&format!("ERR Unknown client type '{value}'"));
                        return None;
                    }
                },
                b"skipme" if is(value, "yes") || is(value, "no") => skip_me = is(value, "yes"),
                _ => {
                    self.reply.error(SYNTAX);
                    return None;
                }
            }
        }
        killed.retain(|client| client.id != own || !skip_me);
        killed.iter().filter(|client| client.id != own).for_each(|client| client.end());
        self.reply.count(killed.len() as u64);
        killed.iter().any(|client| client.id == own).then_some(Next::Close)
    }

    fn client_unblock(&mut self, id: &[u8], with_error: bool) {
        let Some(id) = integer(id).and_then(|id| u64::try_from(id).ok()) else {
            return self.reply.error("ERR value is not an integer or out of range");
        };
        let found = self.server.clients.borrow().all().find(|client| client.id == id).cloned();
        let unblocked = found.is_some_and(|client| self.server.unblock(&client, with_error));
        self.reply.flag(unblocked);
    }

    // ---- transactions --------------------------------------------------------------------------------

    fn multi(&mut self) {
        if self.queue.is_some() {
            return self.reply.error("ERR MULTI calls can not be nested");
        }
        self.queue = Some(Queue::default());
        self.client.queued.set(Some(0));
        self.reply.ok();
    }

    fn discard(&mut self) {
        if self.queue.is_none() {
            return self.reply.error("ERR DISCARD without MULTI");
        }
        self.abort();
        self.reply.ok();
    }

    fn watch(&mut self, spec: &'static Spec, args: &[&[u8]]) -> Option<Next> {
        if self.queue.is_some() {
            self.reply.error("ERR WATCH inside MULTI is not allowed");
            return None;
        }
        if !self.may_run(spec, args) {
            return Some(Next::Do(Wait::Latches(self.owned(spec, args))));
        }
        let (database, now_us) = (self.client.database.get(), self.now_us());
        for key in &args[1..] {
            if !self.watched_keys.insert((database, key.to_vec())) {
                continue;
            }
            let found = match self.server.expiry_of(database, key, now_us) {
                Ok(found) => found,
                Err(error) => {
                    self.watched_keys.remove(&(database, key.to_vec()));
                    self.reply.error(&told(&crate::trees::unreadable(error)));
                    return None;
                }
            };
            let (existed, expires_us) = (found.is_some(), found.flatten());
            self.watched_bytes += 3 * (key.len() + ITEM_BYTES);
            let watched = Watched { database, key: key.to_vec(), existed, expires_us };
            self.server.watches.borrow_mut().watch(&watched, &self.changed);
            self.watched.push(watched);
            self.client.watches.set(true);
        }
        self.reply.ok();
        None
    }

    /// Forgets the watched keys.
    pub(crate) fn unwatch(&mut self) {
        let mut watches = self.server.watches.borrow_mut();
        let watched = std::mem::take(&mut self.watched);
        self.client.watches.set(false);
        watched.iter().for_each(|watched| watches.unwatch(watched, &self.changed));
        self.watched_keys = HashSet::new();
        self.watched_bytes = 0;
        self.changed.set(false);
    }

    fn exec(&mut self) -> Option<Next> {
        if !self.is_unrestricted() {
            self.note_refusals();
        }
        let Some(mut queue) = self.queue.take() else {
            self.reply.error("ERR EXEC without MULTI");
            return None;
        };
        self.client.queued.set(None);
        if queue.is_broken {
            self.unwatch();
            self.reply.error("EXECABORT Transaction discarded because of previous errors.");
            return None;
        }
        if self.has_changed() {
            self.unwatch();
            self.reply.null_array();
            return None;
        }
        let evaluated = self.evaluated_of(&mut queue);
        let mut replies = if evaluated.len() > EXEC_INLINE_MAX {
            Err(self.server.needs_pool(ToPool::Walk))
        } else if !self.may_run_all(&evaluated) {
            Err(self.server.needs_pool(ToPool::Busy))
        } else {
            self.evaluate_all(&evaluated)
        };
        // What is done with the reply comes after its commit.
        if replies.is_ok()
            && queue.commands.iter().any(|queued| goes_by_commits(queued.command.spec))
            && !self.try_commit_now()
        {
            replies = Err(self.server.needs_pool(ToPool::Busy));
        }
        match replies {
            Ok(replies) => {
                self.unwatch();
                self.finish_exec(queue.commands, replies);
                None
            }
            Err(ReadError::NeedsIo) => {
                self.forget_pending();
                self.why().to_pool = self.server.to_pool.get();
                Some(Next::Do(Wait::Exec(queue.commands, evaluated)))
            }
            Err(ReadError::Failed(message)) => {
                self.unwatch();
                self.forget_pending();
                self.reply.error(&format!("ERR {message}"));
                None
            }
        }
    }

    /// Notes which commands of the transaction the client may not do any more.
    fn note_refusals(&mut self) {
        let Some(mut queue) = self.queue.take() else { return };
        let mut database = self.client.database.get();
        for Queued { command, refusal } in &mut queue.commands {
            *refusal = self.refusal_in_exec(command.spec, &command.arguments(), database);
            if refusal.is_none() {
                database = self.selected(command).unwrap_or(database);
            }
        }
        self.queue = Some(queue);
    }

    /// The database that a command selects, if it is there.
    fn selected(&self, command: &Owned) -> Option<u16> {
        let number = command.arguments.get(1).filter(|_| command.spec.name == "select");
        let number = number.and_then(|number| integer(number))?;
        u16::try_from(number).ok().filter(|number| *number < self.server.trees.count())
    }

    /// Whether a watched key has changed, or has expired.
    pub(crate) fn has_changed(&self) -> bool {
        let now_us = self.server.now_us();
        let has_expired = |watched: &Watched| watched.expires_us.is_some_and(|us| us <= now_us);
        (self.changed.get() && !broken("server-watch")) || self.watched.iter().any(has_expired)
    }

    /// The commands of a transaction that are evaluated, each with the database that it is about.
    fn evaluated_of(&self, queue: &mut Queue) -> Vec<Arc<Owned>> {
        let (mut database, mut evaluated) = (self.client.database.get(), Vec::new());
        for Queued { command, .. } in queue.commands.iter_mut().filter(|queued| queued.refusal.is_none()) {
            if command.spec.is_of_server() {
                database = self.selected(command).unwrap_or(database);
            } else {
                Arc::make_mut(command).database = database;
                evaluated.push(Arc::clone(command));
            }
        }
        evaluated
    }

    /// Whether the latches let these commands of a transaction run now.
    fn may_run_all(&self, commands: &[Arc<Owned>]) -> bool {
        let server = &self.server;
        if server.latches.are_all_free() {
            return true;
        }
        let watched = self.watched.iter().map(|watched| server.latches.of(watched.database, &watched.key));
        server.latches.are_free(Some(&watched.collect::<Vec<_>>()))
            && commands
                .iter()
                .all(|command| server.may_run(command.spec, &command.arguments(), command.database, false))
    }

    /// Takes back what the transaction has written: nothing else is pending.
    fn forget_pending(&self) {
        self.server.turn.borrow_mut().pending = Pending::default();
    }

    fn evaluate_all(&mut self, commands: &[Arc<Owned>]) -> Result<Vec<Reply>, ReadError> {
        let (mut replies, mut replied, now_us) = (Vec::new(), 0, self.now_us());
        // All of them are one step of the event loop.
        let steps = Cell::new(STEPS_INLINE);
        for command in commands {
            let mut reply = Reply::new(self.reply.resp3);
            let arguments = command.arguments();
            self.server.evaluate_in_turn(
                command.spec,
                &arguments,
                &command.long,
                self.at(command.database, now_us, &steps),
                &mut reply,
            )?;
            if reply.bytes.is_empty() {
                esker_redis::commands::blocking::reply_without_element(command.spec, false, &mut reply);
            }
            replied += reply.bytes.len();
            replies.push(reply);
            if self.server.turn.borrow().pending.memory_bytes() > COMMIT_BYTES || replied > COMMIT_BYTES {
                return Err(self.server.needs_pool(ToPool::Walk));
            }
        }
        Ok(replies)
    }

    /// Answers `EXEC`: with the replies of what was evaluated, and of the rest, which is done now.
    pub(crate) fn finish_exec(&mut self, queue: Vec<Queued>, evaluated: Vec<Reply>) {
        self.reply.array(queue.len());
        self.is_in_exec = true;
        let mut evaluated = evaluated.into_iter();
        for Queued { command, refusal } in queue {
            let spec = command.spec;
            let begin = self.reply.bytes.len();
            if let Some(message) = refusal {
                self.reply.error(&message);
            } else if spec.is_of_server() {
                // What has to wait does not, within EXEC.
                if self.own_command(spec, &command.arguments()).is_some() {
                    self.reply.truncate(begin);
                    self.reply.error("ERR this command cannot be a part of a transaction");
                }
            } else {
                self.reply.append(evaluated.next().unwrap_or_default());
            }
            let failed = self.reply.bytes.get(begin) == Some(&b'-');
            self.server.figures.note_call(spec.name, None, failed);
            if failed {
                self.server.figures.note_error(&self.reply.bytes[begin + 1..]);
            }
        }
        self.is_in_exec = false;
    }

    // ---- channels ------------------------------------------------------------------------------------

    fn note_subscriptions(&self) -> usize {
        self.client.subscriptions.set((self.channels.len(), self.patterns.len()));
        self.channels.len() + self.patterns.len()
    }

    fn subscribe(&mut self, by: By, names: &[&[u8]]) {
        self.tell_messages();
        for name in names {
            let (own, word): (_, &[u8]) = match by {
                By::Name => (&mut self.channels, b"subscribe"),
                By::Pattern => (&mut self.patterns, b"psubscribe"),
            };
            if own.insert(name.to_vec()) {
                self.subscribed_bytes += 2 * (name.len() + ITEM_BYTES);
                self.server.channels.borrow_mut().add(by, name, &self.client);
            }
            let count = self.note_subscriptions();
            self.reply.push(3);
            self.reply.bulk(word);
            self.reply.bulk(name);
            self.reply.count(count as u64);
        }
    }

    /// Messages so far come before what the next command answers.
    fn tell_messages(&mut self) {
        if self.is_in_exec {
            // The reply of `EXEC` has begun.
            return;
        }
        self.reply.bytes.append(&mut self.client.take_outbox());
    }

    fn unsubscribe(&mut self, by: By, names: &[&[u8]]) {
        self.tell_messages();
        let (own, word): (_, &[u8]) = match by {
            By::Name => (&mut self.channels, b"unsubscribe"),
            By::Pattern => (&mut self.patterns, b"punsubscribe"),
        };
        let names: Vec<Vec<u8>> = if names.is_empty() {
            own.iter().cloned().collect()
        } else {
            names.iter().map(|name| name.to_vec()).collect()
        };
        if names.is_empty() {
            let count = self.note_subscriptions();
            self.reply.push(3);
            self.reply.bulk(word);
            self.reply.null();
            self.reply.count(count as u64);
        }
        for name in names {
            let own = if by == By::Name { &mut self.channels } else { &mut self.patterns };
            if own.remove(&name) {
                self.subscribed_bytes -= 2 * (name.len() + ITEM_BYTES);
                self.server.channels.borrow_mut().remove(by, &name, self.client.id);
            }
            let count = self.note_subscriptions();
            self.reply.push(3);
            self.reply.bulk(word);
            self.reply.bulk(&name);
            self.reply.count(count as u64);
        }
    }

    /// Listens to nothing any more.
    pub(crate) fn unsubscribe_all(&mut self) {
        let mut channels = self.server.channels.borrow_mut();
        let id = self.client.id;
        self.subscribed_bytes = 0;
        std::mem::take(&mut self.channels).iter().for_each(|name| channels.remove(By::Name, name, id));
        std::mem::take(&mut self.patterns).iter().for_each(|name| channels.remove(By::Pattern, name, id));
        self.client.subscriptions.set((0, 0));
    }

    fn pubsub(&mut self, args: &[&[u8]]) {
        let channels = self.server.channels.borrow();
        match (args[1].to_ascii_lowercase().as_slice(), &args[2..]) {
            (b"channels", [] | [_]) => {
                let names = channels.names(args.get(2).copied());
                self.reply.array(names.len());
                names.iter().for_each(|name| self.reply.bulk(name));
            }
            (b"shardchannels", [] | [_]) => self.reply.array(0),
            (b"numsub", names) => {
                // No map, with RESP3 either.
                self.reply.array(names.len() * 2);
                for name in names {
                    self.reply.bulk(name);
                    self.reply.count(channels.count(name) as u64);
                }
            }
            (b"numpat", []) => self.reply.count(channels.patterns() as u64),
            _ => self.reply.error(&no_subcommand("pubsub", args[1])),
        }
    }

    // ---- the server ----------------------------------------------------------------------------------

    fn wait_for_replicas(&mut self, args: &[&[u8]]) -> Option<Next> {
        match (integer(args[1]), integer(args[2])) {
            (Some(replicas), Some(ms)) if ms >= 0 => {
                // There are none, so a wait for some takes its time.
                if replicas <= 0 || self.is_in_exec {
                    self.reply.integer(0);
                    return None;
                }
                let at_most = (ms > 0).then(|| Duration::from_millis(ms as u64));
                Some(Next::Do(Wait::Replicas(at_most)))
            }
            (Some(_), Some(_)) => {
                self.reply.error("ERR timeout is negative");
                None
            }
            _ => {
                self.reply.error("ERR value is not an integer or out of range");
                None
            }
        }
    }

    fn wait_for_sync(&mut self, args: &[&[u8]]) -> Option<Next> {
        let (Some(local), Some(replicas), Some(ms)) = (integer(args[1]), integer(args[2]), integer(args[3]))
        else {
            self.reply.error("ERR value is not an integer or out of range");
            return None;
        };
        if ms < 0 {
            self.reply.error("ERR timeout is negative");
        } else if !(0..=1).contains(&local) || replicas < 0 {
            self.reply.error("ERR value is out of range, value must between 0 and 1");
        } else if local == 0 {
            self.reply.array(2);
            self.reply.integer(0);
            self.reply.integer(0);
        } else {
            let at_most = (ms > 0).then(|| Duration::from_millis(ms as u64));
            return Some(Next::Do(Wait::Sync { at_most }));
        }
        None
    }

    fn config(&mut self, args: &[&[u8]]) {
        match (args[1].to_ascii_lowercase().as_slice(), &args[2..]) {
            (b"get", patterns) if !patterns.is_empty() => {
                let found = self.server.settings.borrow().get(patterns);
                self.reply.map(found.len());
                for (name, value) in found {
                    self.reply.bulk(name.as_bytes());
                    self.reply.bulk(value.as_bytes());
                }
            }
            (b"set", pairs) if !pairs.is_empty() && pairs.len() % 2 == 0 => self.config_set(pairs),
            (b"resetstat", []) => {
                self.server.figures.reset();
                self.server.keyspace.reset_expired(self.server.now_us());
                self.reply.ok();
            }
            (b"rewrite", []) => self.reply.error("ERR this server does not write its configuration"),
            (sub @ (b"get" | b"set" | b"resetstat" | b"rewrite"), _) => {
                self.reply.error(&wrong_count("config", &String::from_utf8_lossy(sub)));
            }
            _ => self.reply.error(&no_subcommand("config", args[1])),
        }
    }

    fn config_set(&mut self, pairs: &[&[u8]]) {
        let mut settings = self.server.settings.borrow_mut();
        let (before, mut named) = (settings.clone(), HashSet::new());
        for pair in pairs.chunks_exact(2) {
            let (name, value) =
                (String::from_utf8_lossy(pair[0]).to_ascii_lowercase(), String::from_utf8_lossy(pair[1]));
            let is_again = !named.insert(name.clone());
            let refused = if is_again {
                Err(Refused::Wrong("duplicate parameter"))
            } else {
                settings.set(&name, &value)
            };
            let Err(refused) = refused else { continue };
            *settings = before;
            let shown = String::from_utf8_lossy(pair[0]);
            self.reply.error(&match refused {
                Refused::Unknown => {
                    format!("ERR Unknown option or number of arguments for CONFIG SET - '{shown}'")
                }
                Refused::Fixed => {
                    format!("ERR CONFIG SET failed (possibly related to argument '{shown}') - can't set immutable config")
                }
                Refused::Wrong(why) => {
                    format!("ERR CONFIG SET failed (possibly related to argument '{shown}') - {why}")
                }
            });
            return;
        }
        settings.apply(&self.server.budget);
        self.server.expiries.changed.notify_one();
        self.reply.ok();
    }
}
