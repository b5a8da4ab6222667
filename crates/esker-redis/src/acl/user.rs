//! A user: its passwords, and what it may do.

use std::fmt;

use super::classes::{Access, CLASSES, access_of, place_of, subcommands};
use super::databases::Databases;
use super::rules::{Kind, Rule, Secret, Subject, name_of};
use crate::commands::{Keys, Spec};
use crate::glob;
use crate::numbers::integer;

/// The most passwords of a user: each is compared with what a client sends.
const PASSWORDS_MAX: usize = 16;

/// The most patterns of a user, and the most rules about commands.
const PATTERNS_MAX: usize = 4096;
const COMMAND_RULES_MAX: usize = 1024;

/// Turns passwords into what is kept of them, which takes time and chance.
pub trait Keeper {
    /// What is kept of a password. `others` are kept of other passwords of the same user.
    ///
    /// # Errors
    /// What kept it from that.
    fn keep(&mut self, secret: &Secret, others: &[String]) -> Result<String, &'static str>;

    /// Which of `kept` was kept of this password.
    fn find(&mut self, secret: &Secret, kept: &[String]) -> Option<usize>;

    /// Whether `kept` is what [`Keeper::keep`] may have returned.
    fn accepts(&mut self, kept: &str) -> bool;
}

/// Why a user may not do a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Denied {
    /// The command is not allowed: its name, with that of its subcommand.
    Command(&'static str),
    /// This key is not.
    Key(Vec<u8>),
    /// This channel is not.
    Channel(Vec<u8>),
    /// The database is not.
    Database,
    /// The command is about all databases, and some of them are not.
    AllDatabases,
}

/// What a client is told.
impl fmt::Display for Denied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Denied::Command(name) => {
                write!(f, "NOPERM this user has no permissions to run the '{name}' command")
            }
            Denied::Key(_) => {
                f.write_str("NOPERM this user has no permissions to access one of the keys used as arguments")
            }
            Denied::Channel(_) => f.write_str(
                "NOPERM this user has no permissions to access one of the channels used as arguments",
            ),
            Denied::Database => f.write_str("NOPERM this user has no permissions to access this database"),
            Denied::AllDatabases => {
                f.write_str("NOPERM this user has no permissions to access all databases")
            }
        }
    }
}

impl Denied {
    /// Why, in the words of `EXEC` about a command that was allowed when it was queued.
    pub fn reason(&self) -> &'static str {
        match self {
            Denied::Command(_) => "no permission to execute the command or subcommand",
            Denied::Key(_) => "no permission to touch the specified keys",
            Denied::Channel(_) => {
                "no permission to access one of the channels used as arguments to the command"
            }
            Denied::Database | Denied::AllDatabases => "no permission to access the database",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct KeyPattern {
    pattern: Vec<u8>,
    reads: bool,
    writes: bool,
}

/// Patterns of keys or channels.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Patterns<P> {
    All,
    Some(Vec<P>),
}

impl<P> Patterns<P> {
    fn all(&self) -> bool {
        matches!(self, Patterns::All)
    }
}

const WORDS: usize = CLASSES.len().div_ceil(64);

/// The commands that a user may run.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Commands {
    /// Whether it began with all or with none, and the rules since then, in order; the last one of each subject.
    began_with_all: bool,
    rules: Vec<(bool, Subject)>,
    /// What they come to: a bit for each class.
    bits: [u64; WORDS],
}

impl Commands {
    fn new(all: bool) -> Commands {
        Commands { began_with_all: all, rules: Vec::new(), bits: [if all { u64::MAX } else { 0 }; WORDS] }
    }

    fn has(&self, place: usize) -> bool {
        self.bits[place / 64] & (1 << (place % 64)) != 0
    }

    fn set(&mut self, place: usize, is_allowed: bool) {
        for place in std::iter::once(place).chain(subcommands(place)) {
            let bit = 1 << (place % 64);
            let word = &mut self.bits[place / 64];
            *word = if is_allowed { *word | bit } else { *word & !bit };
        }
    }

    fn apply(&mut self, is_allowed: bool, subject: Subject) -> Result<(), &'static str> {
        // An earlier rule about the same, or about a part of it, has no effect any more.
        let is_overruled = |earlier: Subject| match (subject, earlier) {
            (Subject::Command(place), Subject::Command(earlier)) => {
                earlier == place || subcommands(place).contains(&earlier)
            }
            _ => earlier == subject,
        };
        self.rules.retain(|(_, earlier)| !is_overruled(*earlier));
        if self.rules.len() >= COMMAND_RULES_MAX {
            return Err("Too many rules about commands");
        }
        self.rules.push((is_allowed, subject));
        match subject {
            Subject::Command(place) => self.set(place, is_allowed),
            Subject::Category(bit) => {
                for (place, class) in CLASSES.iter().enumerate() {
                    if class.categories & (1 << bit) != 0 {
                        self.set(place, is_allowed);
                    }
                }
            }
        }
        Ok(())
    }
}

impl fmt::Display for Commands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.began_with_all { "+@all" } else { "-@all" })?;
        for (is_allowed, subject) in &self.rules {
            write!(f, " {}{}", if *is_allowed { '+' } else { '-' }, name_of(*subject))?;
        }
        Ok(())
    }
}

/// See the module's comment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    is_on: bool,
    needs_no_password: bool,
    /// What is kept of its passwords.
    passwords: Vec<String>,
    keys: Patterns<KeyPattern>,
    channels: Patterns<Vec<u8>>,
    databases: Databases,
    commands: Commands,
}

impl User {
    /// A new user: switched off, without passwords, and allowed nothing.
    pub fn new() -> User {
        User {
            is_on: false,
            needs_no_password: false,
            passwords: Vec::new(),
            keys: Patterns::Some(Vec::new()),
            channels: Patterns::Some(Vec::new()),
            databases: Databases::All,
            commands: Commands::new(false),
        }
    }

    /// The user that clients are who have not said who they are: it needs no password, and may do everything.
    pub fn default_user() -> User {
        User {
            is_on: true,
            needs_no_password: true,
            keys: Patterns::All,
            channels: Patterns::All,
            commands: Commands::new(true),
            ..User::new()
        }
    }

    /// Whether clients may say that they are this user.
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// Whether any password fits.
    pub fn needs_no_password(&self) -> bool {
        self.needs_no_password
    }

    /// What is kept of its passwords.
    pub fn passwords(&self) -> &[String] {
        &self.passwords
    }

    /// Whether it may do everything, so that nothing has to be checked.
    pub fn is_unrestricted(&self) -> bool {
        self.keys.all()
            && self.channels.all()
            && self.databases.are_all()
            && self.commands.began_with_all
            && self.commands.rules.is_empty()
    }

    /// Changes it by one rule.
    ///
    /// # Errors
    /// Why the rule cannot be applied, as Redis tells it.
    pub fn apply(&mut self, rule: &Rule, keeper: &mut dyn Keeper) -> Result<(), &'static str> {
        match &rule.0 {
            Kind::On => self.is_on = true,
            Kind::Off => self.is_on = false,
            Kind::NoPassword => {
                self.needs_no_password = true;
                self.passwords.clear();
            }
            Kind::ResetPasswords => {
                self.needs_no_password = false;
                self.passwords.clear();
            }
            Kind::AddPassword(secret) => {
                if keeper.find(secret, &self.passwords).is_none() {
                    let kept = keeper.keep(secret, &self.passwords)?;
                    self.add_password(kept)?;
                }
                self.needs_no_password = false;
            }
            Kind::RemovePassword(secret) => {
                let found = keeper.find(secret, &self.passwords);
                let missing = "The password you are trying to remove from the user does not exist";
                self.passwords.remove(found.ok_or(missing)?);
            }
            Kind::Kept(kept) => {
                if !keeper.accepts(kept) {
                    return Err("This is nothing that is kept of a password");
                }
                if !self.passwords.contains(kept) {
                    self.add_password(kept.clone())?;
                }
                self.needs_no_password = false;
            }
            Kind::AllKeys => self.keys = Patterns::All,
            Kind::ResetKeys => self.keys = Patterns::Some(Vec::new()),
            Kind::Keys { pattern, reads, writes } => self.add_keys(pattern, *reads, *writes)?,
            Kind::AllChannels => self.channels = Patterns::All,
            Kind::ResetChannels => self.channels = Patterns::Some(Vec::new()),
            Kind::Channels(pattern) => self.add_channels(pattern)?,
            Kind::Databases(databases) => self.databases = databases.clone(),
            Kind::AllCommands => self.commands = Commands::new(true),
            Kind::NoCommands => self.commands = Commands::new(false),
            Kind::Commands { is_allowed, subject } => self.commands.apply(*is_allowed, *subject)?,
            Kind::Reset => *self = User::new(),
            Kind::Ignored => {}
        }
        Ok(())
    }

    fn add_password(&mut self, kept: String) -> Result<(), &'static str> {
        if self.passwords.len() >= PASSWORDS_MAX {
            return Err("A user has at most 16 passwords");
        }
        self.passwords.push(kept);
        Ok(())
    }

    fn add_keys(&mut self, pattern: &[u8], reads: bool, writes: bool) -> Result<(), &'static str> {
        let Patterns::Some(patterns) = &mut self.keys else {
            return Err(
                "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any effect. Try \
                 'resetkeys' to start with an empty list of patterns",
            );
        };
        if let Some(known) = patterns.iter_mut().find(|known| known.pattern == pattern) {
            known.reads |= reads;
            known.writes |= writes;
            return Ok(());
        }
        if patterns.len() >= PATTERNS_MAX {
            return Err("A user has at most 4096 patterns");
        }
        patterns.push(KeyPattern { pattern: pattern.to_vec(), reads, writes });
        Ok(())
    }

    fn add_channels(&mut self, pattern: &[u8]) -> Result<(), &'static str> {
        let Patterns::Some(patterns) = &mut self.channels else {
            return Err(
                "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any effect. \
                 Try 'resetchannels' to start with an empty list of channels",
            );
        };
        if patterns.iter().any(|known| known == pattern) {
            return Ok(());
        }
        if patterns.len() >= PATTERNS_MAX {
            return Err("A user has at most 4096 patterns");
        }
        patterns.push(pattern.to_vec());
        Ok(())
    }

    // ---- checks --------------------------------------------------------------------------------------

    /// Why it may not do a command in `database`; `None`: it may.
    pub fn check(&self, spec: &Spec, arguments: &[&[u8]], database: u16) -> Option<Denied> {
        // A command without a class does not exist: it would be one that nobody may run.
        let Some(place) = place_of(spec, arguments) else { return Some(Denied::Command(spec.name)) };
        if !self.commands.has(place) && !is_for_anybody(spec) {
            return Some(Denied::Command(CLASSES[place].name));
        }
        self.check_database(spec, arguments, database)
            .or_else(|| self.check_keys(spec, place, arguments))
            .or_else(|| self.check_channels(spec, arguments))
    }

    fn check_database(&self, spec: &Spec, arguments: &[&[u8]], database: u16) -> Option<Denied> {
        if self.databases.are_all() {
            return None;
        }
        if spec.name == "flushall" {
            return Some(Denied::AllDatabases);
        }
        if spec.name == "select" {
            // What is no number is an error of the command.
            let selected = integer(arguments.get(1)?).and_then(|number| u16::try_from(number).ok())?;
            return (!self.databases.has(selected)).then_some(Denied::Database);
        }
        let is_about_data = !spec.is_of_server() || spec.keys != Keys::None;
        let is_denied = (is_about_data && !self.databases.has(database))
            || spec.databases_of(arguments).iter().any(|other| !self.databases.has(*other));
        is_denied.then_some(Denied::Database)
    }

    fn check_keys(&self, spec: &Spec, place: usize, arguments: &[&[u8]]) -> Option<Denied> {
        if self.keys.all() {
            return None;
        }
        if let ("range" | "rangedel", [_, lo, hi, ..]) = (spec.name, arguments) {
            let access = Access { reads: spec.name == "range", writes: spec.name == "rangedel" };
            return (!self.may_access_range(lo, hi, access)).then(|| Denied::Key(lo.to_vec()));
        }
        let [first, rest] = access_of(place, arguments);
        let access = std::iter::once(first).chain(std::iter::repeat(rest));
        let mut keys = spec.keys_of(arguments).into_iter().zip(access);
        keys.find(|(key, access)| !self.may_access(key, *access)).map(|(key, _)| Denied::Key(key.to_vec()))
    }

    fn patterns_with(&self, access: Access) -> impl Iterator<Item = &[u8]> {
        let patterns = if let Patterns::Some(patterns) = &self.keys { patterns.as_slice() } else { &[] };
        patterns
            .iter()
            .filter(move |known| (known.reads || !access.reads) && (known.writes || !access.writes))
            .map(|known| known.pattern.as_slice())
    }

    fn may_access(&self, key: &[u8], access: Access) -> bool {
        self.patterns_with(access).any(|pattern| glob::matches(pattern, key))
    }

    /// Whether it may access all keys that can lie between two, both included: one of its patterns is a beginning and a
    /// star, and both keys begin so. Then every key between them does.
    fn may_access_range(&self, lo: &[u8], hi: &[u8], access: Access) -> bool {
        self.patterns_with(access).any(|pattern| {
            let prefix = glob::literal_prefix(pattern);
            let is_all = pattern == b"*";
            is_all
                || (pattern.len() == prefix.len() + 1
                    && pattern.ends_with(b"*")
                    && lo.starts_with(prefix)
                    && hi.starts_with(prefix))
        })
    }

    fn check_channels(&self, spec: &Spec, arguments: &[&[u8]]) -> Option<Denied> {
        let (channels, are_patterns) = match spec.name {
            "subscribe" => (arguments.get(1..)?, false),
            "psubscribe" => (arguments.get(1..)?, true),
            "publish" => (arguments.get(1..2)?, false),
            _ => return None,
        };
        let denied = channels.iter().find(|channel| !self.may_listen(channel, are_patterns));
        denied.map(|channel| Denied::Channel(channel.to_vec()))
    }

    /// Whether it may use a channel, or all channels that match a pattern: that must be one of its own, letter for letter.
    pub fn may_listen(&self, channel: &[u8], is_pattern: bool) -> bool {
        match &self.channels {
            Patterns::All => true,
            Patterns::Some(patterns) if is_pattern => patterns.iter().any(|pattern| pattern == channel),
            Patterns::Some(patterns) => patterns.iter().any(|pattern| glob::matches(pattern, channel)),
        }
    }

    // ---- what it is shown as -------------------------------------------------------------------------

    /// The words that say whether it is on and needs a password.
    pub fn flags(&self) -> impl Iterator<Item = &'static str> {
        let state = if self.is_on { "on" } else { "off" };
        std::iter::once(state).chain(self.needs_no_password.then_some("nopass"))
    }

    /// Its rules about commands.
    pub fn command_rules(&self) -> String {
        self.commands.to_string()
    }

    /// Its rules about keys.
    pub fn key_rules(&self) -> Vec<u8> {
        let Patterns::Some(patterns) = &self.keys else { return b"~*".to_vec() };
        let shown = |known: &KeyPattern| {
            let sign: &[u8] = match (known.reads, known.writes) {
                (true, true) => b"~",
                (true, false) => b"%R~",
                (false, _) => b"%W~",
            };
            [sign, &known.pattern].concat()
        };
        patterns.iter().map(shown).collect::<Vec<_>>().join(&b' ')
    }

    /// Its rules about channels.
    pub fn channel_rules(&self) -> Vec<u8> {
        let Patterns::Some(patterns) = &self.channels else { return b"&*".to_vec() };
        patterns.iter().map(|pattern| [b"&", pattern.as_slice()].concat()).collect::<Vec<_>>().join(&b' ')
    }

    /// Its rule about databases, if it may not use all.
    pub fn database_rule(&self) -> Option<String> {
        (!self.databases.are_all()).then(|| format!("db={}", self.databases))
    }

    /// Rules that make a new user such a one.
    pub fn rules(&self) -> Vec<u8> {
        let mut words: Vec<Vec<u8>> = self.flags().map(|flag| flag.as_bytes().to_vec()).collect();
        words.extend(self.passwords.iter().map(|kept| kept.as_bytes().to_vec()));
        words.push(self.key_rules());
        if !self.channels.all() {
            words.push(b"resetchannels".to_vec());
        }
        words.push(self.channel_rules());
        words.extend(self.database_rule().map(String::into_bytes));
        words.push(self.command_rules().into_bytes());
        words.retain(|word| !word.is_empty());
        words.join(&b' ')
    }
}

impl Default for User {
    fn default() -> User {
        User::new()
    }
}

/// Whether a command needs no right, so that clients can say who they are, or go.
pub fn is_for_anybody(spec: &Spec) -> bool {
    matches!(spec.name, "auth" | "hello" | "quit" | "reset")
}
