//! The words of `ACL SETUSER` and of ACL files, one at a time.

use super::classes::{CLASSES, category, place, subcommands};
use super::databases::Databases;

/// The longest password, in bytes: to hash one must not take long.
const PASSWORD_MAX: usize = 4096;

/// The longest pattern, in bytes: each key of each command is matched with it.
const PATTERN_MAX: usize = 1024;

const SYNTAX: &str = "Syntax error";
const UNKNOWN: &str = "Unknown command or category name in ACL";

/// A password, or what is known of one.
#[derive(Clone, PartialEq, Eq)]
pub enum Secret {
    /// The password.
    Clear(Vec<u8>),
    /// Its SHA-256.
    Sha256([u8; 32]),
}

/// One that tells nothing.
impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// What a rule is about that allows or forbids commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Subject {
    /// The place of a command, with its subcommands, or of a subcommand.
    Command(usize),
    /// The number of the bit of a category.
    Category(usize),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    On,
    Off,
    NoPassword,
    ResetPasswords,
    AddPassword(Secret),
    RemovePassword(Secret),
    /// What is kept of a password, as this server has written it.
    Kept(String),
    AllKeys,
    ResetKeys,
    Keys {
        pattern: Vec<u8>,
        reads: bool,
        writes: bool,
    },
    AllChannels,
    ResetChannels,
    Channels(Vec<u8>),
    Databases(Databases),
    AllCommands,
    NoCommands,
    Commands {
        is_allowed: bool,
        subject: Subject,
    },
    Reset,
    /// A word of Redis that means nothing here.
    Ignored,
}

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule(pub(super) Kind);

impl Rule {
    /// Reads a word.
    ///
    /// # Errors
    /// What is wrong with it, as Redis tells it.
    pub fn parse(word: &[u8]) -> Result<Rule, &'static str> {
        let lower = word.to_ascii_lowercase();
        let kind = match lower.as_slice() {
            b"on" => Kind::On,
            b"off" => Kind::Off,
            b"nopass" => Kind::NoPassword,
            b"resetpass" => Kind::ResetPasswords,
            b"allkeys" | b"~*" => Kind::AllKeys,
            b"resetkeys" => Kind::ResetKeys,
            b"allchannels" | b"&*" => Kind::AllChannels,
            b"resetchannels" => Kind::ResetChannels,
            b"allcommands" | b"+@all" => Kind::AllCommands,
            b"nocommands" | b"-@all" => Kind::NoCommands,
            b"reset" => Kind::Reset,
            b"sanitize-payload" | b"skip-sanitize-payload" | b"clearselectors" => Kind::Ignored,
            _ => Kind::parse(word)?,
        };
        Ok(Rule(kind))
    }

    /// Whether it has a password in it, so that a [`super::Keeper`] is asked.
    pub fn has_secret(&self) -> bool {
        matches!(self.0, Kind::AddPassword(_) | Kind::RemovePassword(_))
    }

    /// What may be shown of a word: nothing of a password.
    pub fn shown(word: &[u8]) -> String {
        match word.first() {
            Some(first @ (b'>' | b'<' | b'#' | b'!' | b'$')) => format!("{}(redacted)", char::from(*first)),
            _ => String::from_utf8_lossy(&word[..word.len().min(128)]).into_owned(),
        }
    }
}

impl Kind {
    /// Reads a word that begins with what it is about.
    fn parse(word: &[u8]) -> Result<Kind, &'static str> {
        if let Some(list) = word.strip_prefix(b"db=") {
            return Databases::parse(list)
                .map(Kind::Databases)
                .ok_or("db= needs *, or numbers and ranges of databases such as 0,2-4");
        }
        match word {
            [b'>', password @ ..] => secret(password).map(Kind::AddPassword),
            [b'<', password @ ..] => secret(password).map(Kind::RemovePassword),
            [b'#', digits @ ..] => sha256(digits).map(Kind::AddPassword),
            [b'!', digits @ ..] => sha256(digits).map(Kind::RemovePassword),
            [b'$', ..] => match std::str::from_utf8(word) {
                Ok(kept) => Ok(Kind::Kept(kept.to_owned())),
                Err(_) => Err(SYNTAX),
            },
            [b'~', pattern @ ..] => {
                Ok(Kind::Keys { pattern: pattern_of(pattern)?, reads: true, writes: true })
            }
            [b'%', rest @ ..] => keys(rest),
            [b'&', pattern @ ..] => pattern_of(pattern).map(Kind::Channels),
            [b'(', ..] => Err("Selectors are not supported"),
            [sign @ (b'+' | b'-'), subject @ ..] => commands(*sign == b'+', subject),
            _ => Err(SYNTAX),
        }
    }
}

fn secret(password: &[u8]) -> Result<Secret, &'static str> {
    if password.len() > PASSWORD_MAX {
        return Err("A password has at most 4096 bytes");
    }
    Ok(Secret::Clear(password.to_vec()))
}

fn sha256(digits: &[u8]) -> Result<Secret, &'static str> {
    const WRONG: &str =
        "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters";
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Ok(digit - b'0'),
        b'a'..=b'f' => Ok(digit - b'a' + 10),
        _ => Err(WRONG),
    };
    let (pairs, []) = digits.as_chunks::<2>() else { return Err(WRONG) };
    let bytes: Result<Vec<u8>, _> =
        pairs.iter().map(|[high, low]| Ok(value(*high)? << 4 | value(*low)?)).collect();
    bytes?.try_into().map(Secret::Sha256).map_err(|_| WRONG)
}

/// `R~pattern`, `W~pattern` or `RW~pattern`.
fn keys(rest: &[u8]) -> Result<Kind, &'static str> {
    let tilde = rest.iter().position(|byte| *byte == b'~').ok_or(SYNTAX)?;
    let (reads, writes) = match rest[..tilde].to_ascii_uppercase().as_slice() {
        b"R" => (true, false),
        b"W" => (false, true),
        b"RW" | b"WR" => (true, true),
        _ => return Err(SYNTAX),
    };
    Ok(Kind::Keys { pattern: pattern_of(&rest[tilde + 1..])?, reads, writes })
}

/// A pattern that a file can hold: without blanks.
fn pattern_of(pattern: &[u8]) -> Result<Vec<u8>, &'static str> {
    if pattern.iter().any(|byte| byte.is_ascii_whitespace() || matches!(byte, 0 | 0x0b)) {
        return Err(SYNTAX);
    }
    if pattern.len() > PATTERN_MAX {
        return Err("A pattern has at most 1024 bytes");
    }
    Ok(pattern.to_vec())
}

/// What stands behind a plus or a minus.
fn commands(is_allowed: bool, subject: &[u8]) -> Result<Kind, &'static str> {
    let subject = if let [b'@', name @ ..] = subject {
        Subject::Category(category(name).ok_or(UNKNOWN)?)
    } else {
        Subject::Command(place(subject).ok_or_else(|| why_unknown(subject))?)
    };
    Ok(Kind::Commands { is_allowed, subject })
}

/// Why there is no such command or subcommand.
fn why_unknown(subject: &[u8]) -> &'static str {
    let mut parts = subject.split(|byte| *byte == b'|');
    let command = parts.next().and_then(place);
    match command {
        Some(_) if parts.clone().count() > 1 => "Allowing first-arg of a subcommand is not supported",
        Some(command) if parts.next().is_some() && subcommands(command).is_empty() => {
            "Allowing first-arg of a command is not supported"
        }
        _ => UNKNOWN,
    }
}

/// The name of a command or category, as a rule has it behind its sign.
pub(super) fn name_of(subject: Subject) -> String {
    match subject {
        Subject::Command(place) => CLASSES[place].name.to_owned(),
        Subject::Category(bit) => format!("@{}", super::CATEGORIES[bit]),
    }
}
