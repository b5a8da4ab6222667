//! `COMMAND`: what the commands are.

use std::collections::BTreeMap;

use esker_redis::acl::categories_of;
use esker_redis::commands::subcommands::{Subcommand, subcommand, subcommands};
use esker_redis::{Family, Keys, Reply, Spec, glob, specs};

use crate::connection::Connection;

/// The most names in one question: what is told of a name is long, and a request may have a million of them.
const NAMES_MAX: usize = 1024;

/// A command, or one of its subcommands.
#[derive(Clone, Copy)]
enum Named {
    Command(&'static Spec),
    Sub(&'static Spec, &'static Subcommand),
}

impl Named {
    /// The command of a name such as `get` or `config|get`, in any case of letters.
    fn find(name: &[u8]) -> Option<Named> {
        let mut words = name.splitn(2, |byte| *byte == b'|');
        let spec = esker_redis::spec(words.next()?)?;
        match words.next() {
            None => Some(Named::Command(spec)),
            Some(word) => subcommand(spec.name, word).map(|sub| Named::Sub(spec, sub)),
        }
    }

    /// All commands, each followed by its subcommands.
    fn all() -> impl Iterator<Item = Named> {
        specs().flat_map(|spec| {
            let subs = subcommands(spec.name).map(move |sub| Named::Sub(spec, sub));
            std::iter::once(Named::Command(spec)).chain(subs)
        })
    }

    fn spec(self) -> &'static Spec {
        match self {
            Named::Command(spec) | Named::Sub(spec, _) => spec,
        }
    }

    fn name(self) -> String {
        match self {
            Named::Command(spec) => spec.name.to_owned(),
            Named::Sub(spec, sub) => format!("{}|{}", spec.name, sub.name),
        }
    }

    fn arity(self) -> i32 {
        match self {
            Named::Command(spec) => spec.arity,
            Named::Sub(_, sub) => sub.arity,
        }
    }

    fn subcommands(self) -> Vec<Named> {
        match self {
            Named::Command(spec) => subcommands(spec.name).map(|sub| Named::Sub(spec, sub)).collect(),
            Named::Sub(..) => Vec::new(),
        }
    }

    /// As `COMMAND INFO` tells it.
    fn describe(self, reply: &mut Reply) {
        let spec = self.spec();
        let (first, last, step) = match spec.keys {
            Keys::None => (0, 0, 0),
            Keys::Range { first, last, step } => (first as i64, i64::from(last), step as i64),
            Keys::Counted { with_target: true, .. } => (1, 1, 1),
            Keys::Counted { .. } => (0, 0, 0),
        };
        let flags = spec.flags;
        let named = [
            (flags.writes, "write"),
            (!flags.writes && !spec.is_of_server(), "readonly"),
            (categories_of(&self.name()).any(|category| category == "fast"), "fast"),
            (flags.blocks, "blocking"),
            (flags.is_admin, "admin"),
            (spec.family == Family::PubSub, "pubsub"),
            (matches!(spec.keys, Keys::Counted { .. }), "movablekeys"),
        ];
        let names: Vec<&str> = named.iter().filter(|(is_set, _)| *is_set).map(|(_, name)| *name).collect();
        let subs = self.subcommands();
        reply.array(10);
        reply.bulk(self.name().as_bytes());
        reply.integer(i64::from(self.arity()));
        reply.set(names.len());
        names.iter().for_each(|name| reply.simple(name));
        reply.integer(first);
        reply.integer(last);
        reply.integer(step);
        let categories: Vec<&str> = categories_of(&self.name()).collect();
        reply.set(categories.len());
        categories.iter().for_each(|category| reply.simple(&format!("@{category}")));
        // Hints, and where keys are: clients do without.
        reply.array(0);
        reply.array(0);
        reply.array(subs.len());
        subs.into_iter().for_each(|sub| sub.describe(reply));
    }

    /// As `COMMAND DOCS` tells it: its name, and what it does.
    fn document(self, reply: &mut Reply) {
        let subs = self.subcommands();
        reply.bulk(self.name().as_bytes());
        reply.map(if subs.is_empty() { 2 } else { 3 });
        reply.bulk(b"summary");
        reply.bulk(match self {
            Named::Command(spec) => spec.summary.as_bytes(),
            Named::Sub(_, sub) => sub.summary.as_bytes(),
        });
        reply.bulk(b"group");
        reply.bulk(group(self.spec().family).as_bytes());
        if !subs.is_empty() {
            reply.bulk(b"subcommands");
            reply.map(subs.len());
            subs.into_iter().for_each(|sub| sub.document(reply));
        }
    }
}

impl Connection {
    pub(crate) fn command_command(&mut self, args: &[&[u8]]) {
        let reply = &mut self.reply;
        let Some(sub) = args.get(1) else {
            reply.array(specs().count());
            return specs().for_each(|spec| Named::Command(spec).describe(reply));
        };
        match sub.to_ascii_lowercase().as_slice() {
            b"count" => reply.count(specs().count() as u64),
            b"list" => list(reply, &args[2..]),
            b"info" | b"docs" if args.len() - 2 > NAMES_MAX => {
                reply.error("ERR at most 1024 commands can be asked for at once");
            }
            b"info" if args.len() == 2 => {
                reply.array(specs().count());
                specs().for_each(|spec| Named::Command(spec).describe(reply));
            }
            b"info" => {
                reply.array(args.len() - 2);
                for name in &args[2..] {
                    match Named::find(name) {
                        Some(named) => named.describe(reply),
                        None => reply.null(),
                    }
                }
            }
            b"docs" => {
                let found: BTreeMap<String, Named> = if args.len() == 2 {
                    specs().map(|spec| (spec.name.to_owned(), Named::Command(spec))).collect()
                } else {
                    let named = args[2..].iter().filter_map(|name| Named::find(name));
                    named.map(|named| (named.name(), named)).collect()
                };
                reply.map(found.len());
                found.into_values().for_each(|named| named.document(reply));
            }
            _ => keys_of(reply, &args[2..]),
        }
    }
}

/// `COMMAND LIST [FILTERBY (ACLCAT category|MODULE name|PATTERN pattern)]`.
fn list(reply: &mut Reply, filter: &[&[u8]]) {
    let is = |word: &[u8], name: &str| word.eq_ignore_ascii_case(name.as_bytes());
    let names: Vec<String> = match filter {
        [] => Named::all().map(Named::name).collect(),
        [by, what, pattern] if is(by, "FILTERBY") && is(what, "PATTERN") => {
            let pattern = pattern.to_ascii_lowercase();
            Named::all().map(Named::name).filter(|name| glob::matches(&pattern, name.as_bytes())).collect()
        }
        [by, what, wanted] if is(by, "FILTERBY") && is(what, "ACLCAT") => Named::all()
            .map(Named::name)
            .filter(|name| categories_of(name).any(|one| is(wanted, one)))
            .collect(),
        // There are none.
        [by, what, _] if is(by, "FILTERBY") && is(what, "MODULE") => Vec::new(),
        _ => return reply.error("ERR syntax error"),
    };
    reply.array(names.len());
    names.iter().for_each(|name| reply.bulk(name.as_bytes()));
}

/// `COMMAND GETKEYS command [argument ...]`.
fn keys_of(reply: &mut Reply, command: &[&[u8]]) {
    match command.first().and_then(|name| esker_redis::spec(name)) {
        None => reply.error("ERR Invalid command specified"),
        Some(spec) if !spec.takes(command.len()) => {
            reply.error("ERR Invalid number of arguments specified for command");
        }
        Some(spec) => {
            let keys = spec.keys_of(command);
            if keys.is_empty() {
                return reply.error("ERR The command has no key arguments");
            }
            reply.array(keys.len());
            keys.iter().for_each(|key| reply.bulk(key));
        }
    }
}

fn group(family: Family) -> &'static str {
    match family {
        Family::String => "string",
        Family::Bitmap => "bitmap",
        Family::Keyspace => "generic",
        Family::Hash => "hash",
        Family::Set => "set",
        Family::SortedSet => "sorted-set",
        Family::List => "list",
        Family::Connection => "connection",
        Family::Server => "server",
        Family::PubSub => "pubsub",
        Family::Transaction => "transactions",
    }
}
