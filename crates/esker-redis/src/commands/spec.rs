//! What is known of a command before it runs: its line in the table of its family.

use super::arguments::is;
use crate::context::Context;
use crate::fault::Fault;
use crate::resp::reply::Reply;

/// What a command does. An error takes back what it has written, and its reply.
pub(crate) type Run = fn(&mut Context<'_>, &[&[u8]], &mut Reply) -> Result<(), Fault>;

/// What a command is about; also what `ACL` calls a category.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Family {
    /// Strings.
    String,
    /// Bits of strings.
    Bitmap,
    /// Keys of any type.
    Keyspace,
    /// Hashes.
    Hash,
    /// Sets.
    Set,
    /// Sorted sets.
    SortedSet,
    /// Lists.
    List,
    /// Connections.
    Connection,
    /// The server.
    Server,
    /// Channels.
    PubSub,
    /// Several commands as one.
    Transaction,
}

/// What a server should know of a command before it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flags {
    /// It writes.
    pub writes: bool,
    /// It takes time for each element of what it reads, which may be much.
    pub is_slow: bool,
    /// It may wait for an element to come.
    pub blocks: bool,
    /// It changes the server, or tells what is not everybody's business.
    pub is_admin: bool,
    /// It writes nothing but removals and expiries: a full disk takes it.
    pub frees_space: bool,
}

/// Which arguments are keys, as `COMMAND` tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keys {
    /// None.
    None,
    /// From the first one on to the last one, one in each `step`; `last` counts from the end if it is negative.
    Range {
        /// The first key.
        first: usize,
        /// The last key.
        last: i32,
        /// From one key to the next.
        step: usize,
    },
    /// As many as the argument at this place says, behind it. If `with_target`, the first argument is a key too.
    Counted {
        /// The place of the count.
        at: usize,
        /// Whether the first argument is a key too.
        with_target: bool,
    },
}

/// One command.
pub struct Spec {
    /// Its name, in lower case.
    pub name: &'static str,
    /// How many arguments it has, with its name; at least so many if negative.
    pub arity: i32,
    /// What it is about.
    pub family: Family,
    /// What a server should know.
    pub flags: Flags,
    /// Which arguments are keys.
    pub keys: Keys,
    /// What it does in short, for `COMMAND DOCS`.
    pub summary: &'static str,
    /// Whether it has [`subcommands`](super::subcommands).
    pub has_subcommands: bool,
    /// `None`: the server does it itself.
    pub(crate) run: Option<Run>,
}

impl Spec {
    /// This command, with subcommands.
    pub(super) const fn with_subcommands(self) -> Spec {
        Spec { has_subcommands: true, ..self }
    }

    /// Whether a server has to do it itself: it is about a connection or the server.
    pub fn is_of_server(&self) -> bool {
        self.run.is_none()
    }

    /// Whether it may have so many arguments, its name included.
    pub fn takes(&self, arguments: usize) -> bool {
        fits(self.arity, arguments)
    }

    /// The keys among `arguments`. Those that are not there are left out.
    pub fn keys_of<'a>(&self, arguments: &[&'a [u8]]) -> Vec<&'a [u8]> {
        match self.keys {
            Keys::None => Vec::new(),
            Keys::Range { first, last, step } => {
                let count = arguments.len();
                let end = if last < 0 {
                    count.saturating_sub(last.unsigned_abs() as usize - 1)
                } else {
                    last as usize + 1
                };
                (first..end.min(count)).step_by(step.max(1)).map(|at| arguments[at]).collect()
            }
            Keys::Counted { at, with_target } => {
                let count = arguments.get(at).and_then(|count| crate::numbers::integer(count)).unwrap_or(0);
                let counted = arguments.iter().skip(at + 1).take(count.max(0) as usize);
                let target = arguments.iter().skip(1).take(usize::from(with_target));
                target.chain(counted).copied().collect()
            }
        }
    }

    /// How many keys there are among `arguments`.
    fn count_keys(&self, arguments: &[&[u8]]) -> u64 {
        match self.keys {
            Keys::Range { first: 1, last: 1, .. } => u64::from(arguments.len() > 1),
            _ => self.keys_of(arguments).len() as u64,
        }
    }

    /// For how many keys it looks to read them, as Redis counts it: writes do not count, nor the keys that they write to.
    pub(super) fn lookups(&self, arguments: &[&[u8]]) -> u64 {
        match self.name {
            "memory" => 0,
            _ if !self.flags.writes => self.count_keys(arguments),
            "set" => u64::from(arguments.iter().skip(3).any(|argument| is(argument, "GET"))),
            "getdel" | "getex" | "getset" => 1,
            "bitop" | "copy" => self.count_keys(arguments).saturating_sub(1),
            name if name.ends_with("store") => self.count_keys(arguments).saturating_sub(1),
            _ => 0,
        }
    }

    /// The databases that `arguments` name beside the one that the client has selected.
    pub fn databases_of(&self, arguments: &[&[u8]]) -> Vec<u16> {
        let number =
            |argument: &[u8]| crate::numbers::integer(argument).and_then(|number| u16::try_from(number).ok());
        match self.name {
            "move" => arguments.get(2).and_then(|argument| number(argument)).into_iter().collect(),
            "copy" => {
                let options = arguments.get(3..).unwrap_or_default();
                let named = options.windows(2).filter(|pair| is(pair[0], "DB"));
                named.filter_map(|pair| number(pair[1])).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// Whether so many arguments are what an arity asks for.
pub(super) fn fits(arity: i32, arguments: usize) -> bool {
    let wanted = arity.unsigned_abs() as usize;
    if arity < 0 { arguments >= wanted } else { arguments == wanted }
}

/// One key, the first argument.
pub(crate) const ONE: Keys = Keys::Range { first: 1, last: 1, step: 1 };
/// All arguments are keys.
pub(crate) const ALL: Keys = Keys::Range { first: 1, last: -1, step: 1 };
/// Two keys.
pub(crate) const TWO: Keys = Keys::Range { first: 1, last: 2, step: 1 };
/// Every other argument is a key.
pub(crate) const PAIRS: Keys = Keys::Range { first: 1, last: -1, step: 2 };
/// All arguments but the last are keys.
pub(crate) const ALL_BUT_LAST: Keys = Keys::Range { first: 1, last: -2, step: 1 };

pub(crate) const READS: Flags =
    Flags { writes: false, is_slow: false, blocks: false, is_admin: false, frees_space: false };
pub(crate) const WRITES: Flags = Flags { writes: true, ..READS };
/// Removes something, moves it, or changes an expiry. Redis takes these commands when it lacks memory.
pub(crate) const FREES: Flags = Flags { frees_space: true, ..WRITES };
/// Reads everything of a key, or of all keys.
pub(crate) const READS_ALL: Flags = Flags { is_slow: true, ..READS };
pub(crate) const WRITES_ALL: Flags = Flags { writes: true, ..READS_ALL };
pub(crate) const FREES_ALL: Flags = Flags { frees_space: true, ..WRITES_ALL };

/// A command that is evaluated.
pub(crate) const fn command(
    name: &'static str,
    arity: i32,
    family: Family,
    flags: Flags,
    keys: Keys,
    run: Run,
    summary: &'static str,
) -> Spec {
    Spec { name, arity, family, flags, keys, summary, has_subcommands: false, run: Some(run) }
}

/// A command that the server does.
pub(crate) const fn of_server(
    name: &'static str,
    arity: i32,
    family: Family,
    flags: Flags,
    keys: Keys,
    summary: &'static str,
) -> Spec {
    Spec { name, arity, family, flags, keys, summary, has_subcommands: false, run: None }
}
