//! Which clients listen to which channels.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use esker_redis::{Reply, glob};

use crate::clients::{Client, ClientId};
use crate::memory;

/// See the module's comment.
#[derive(Default)]
pub(crate) struct Channels {
    by_name: HashMap<Vec<u8>, BTreeMap<ClientId, Rc<Client>>>,
    by_pattern: BTreeMap<Vec<u8>, BTreeMap<ClientId, Rc<Client>>>,
}

/// Two kinds of subscriptions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    Name,
    Pattern,
}

impl Channels {
    fn listeners(&mut self, by: By, name: &[u8]) -> &mut BTreeMap<ClientId, Rc<Client>> {
        match by {
            By::Name => self.by_name.entry(name.to_vec()).or_default(),
            By::Pattern => self.by_pattern.entry(name.to_vec()).or_default(),
        }
    }

    pub(crate) fn add(&mut self, by: By, name: &[u8], client: &Rc<Client>) {
        self.listeners(by, name).insert(client.id, Rc::clone(client));
    }

    pub(crate) fn remove(&mut self, by: By, name: &[u8], client: ClientId) {
        let listeners = self.listeners(by, name);
        listeners.remove(&client);
        if listeners.is_empty() {
            match by {
                By::Name => drop(memory::remove(&mut self.by_name, name)),
                By::Pattern => drop(self.by_pattern.remove(name)),
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_name.is_empty() && self.by_pattern.is_empty()
    }

    /// Sends `message` to all that listen to `channel`, and calls `sent` after each of them: the message takes memory for
    /// each. Returns how many these are.
    pub(crate) fn publish(&self, channel: &[u8], message: &[u8], mut sent: impl FnMut()) -> usize {
        let mut count = 0;
        for client in self.by_name.get(channel).into_iter().flat_map(BTreeMap::values) {
            client.send(|reply: &mut Reply| {
                reply.push(3);
                reply.bulk(b"message");
                reply.bulk(channel);
                reply.bulk(message);
            });
            sent();
            count += 1;
        }
        for (pattern, clients) in &self.by_pattern {
            if !glob::matches(pattern, channel) {
                continue;
            }
            for client in clients.values() {
                client.send(|reply: &mut Reply| {
                    reply.push(4);
                    reply.bulk(b"pmessage");
                    reply.bulk(pattern);
                    reply.bulk(channel);
                    reply.bulk(message);
                });
                sent();
                count += 1;
            }
        }
        count
    }

    /// The channels that somebody listens to by name, and whose names match `pattern`, if there is one.
    pub(crate) fn names(&self, pattern: Option<&[u8]>) -> Vec<&[u8]> {
        let names = self.by_name.keys().map(Vec::as_slice);
        names.filter(|name| pattern.is_none_or(|pattern| glob::matches(pattern, name))).collect()
    }

    /// How many listen to the channel by name.
    pub(crate) fn count(&self, name: &[u8]) -> usize {
        self.by_name.get(name).map_or(0, BTreeMap::len)
    }

    /// Calls `visit` with each subscription.
    pub(crate) fn each(&self, mut visit: impl FnMut(By, &[u8], &Client)) {
        for (by, names) in [
            (By::Name, self.by_name.iter().collect::<Vec<_>>()),
            (By::Pattern, self.by_pattern.iter().collect()),
        ] {
            for (name, clients) in names {
                clients.values().for_each(|client| visit(by, name, client));
            }
        }
    }

    /// How many patterns there are.
    pub(crate) fn patterns(&self) -> usize {
        self.by_pattern.len()
    }
}
