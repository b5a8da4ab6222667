//! Hashes, lists, sets and sorted sets of a server's databases, as rows of JSON.
//!
//! ```text
//! {"key":"h","type":"hash","value":{"field":"value"}}
//! {"key":"l","type":"list","value":["first","second"]}
//! {"key":"l","type":"list","value":["third"],"continues":true}       more of the row before it
//! {"key":"s","type":"set","value":["/w=="],"encoding":"base64"}      an element is not UTF-8
//! {"key":"z","type":"zset","value":{"member":1.5},"expires_us":1800000000000000}
//! ```
//! A row replaces the key's value. One that continues adds to it, and must follow the row that it continues: so a row of
//! memory is enough for a collection of any size. Reads and writes are the commands of Redis, on a server or on the files
//! of a store (`esker_server::Offline`), so what a collection is stored as is known to the server alone.

use std::borrow::Cow;
use std::io::Write as _;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use esker::{Error, ErrorKind, Result};
use esker_server::Offline;
use serde_json::value::RawValue;

use crate::client::{Database, Reply, reply_of};
use crate::datatype::DataType;
use crate::json;
use crate::keyspace::Keyspace;
use crate::offline;

/// How many elements a row has at least, if there are so many. `HSCAN` and the like may return some more.
const ELEMENTS: usize = 500;

/// A command with its arguments.
type Command = Vec<Vec<u8>>;

/// What a key has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Hash,
    List,
    Set,
    SortedSet,
}

impl Kind {
    const ALL: [Kind; 4] = [Kind::Hash, Kind::List, Kind::Set, Kind::SortedSet];

    /// The kind with the name that `TYPE` gives it.
    pub(crate) fn named(name: &[u8]) -> Option<Self> {
        Kind::ALL.into_iter().find(|kind| kind.name().as_bytes() == name)
    }

    fn name(self) -> &'static str {
        match self {
            Kind::Hash => "hash",
            Kind::List => "list",
            Kind::Set => "set",
            Kind::SortedSet => "zset",
        }
    }

    /// Whether each element is a pair: of a field and its value, or of a member and its score.
    fn has_pairs(self) -> bool {
        matches!(self, Kind::Hash | Kind::SortedSet)
    }

    /// The command that adds elements.
    fn adder(self) -> &'static [u8] {
        match self {
            Kind::Hash => b"HSET",
            Kind::List => b"RPUSH",
            Kind::Set => b"SADD",
            Kind::SortedSet => b"ZADD",
        }
    }
}

/// A row of a collection as a file has it.
#[derive(Debug)]
pub(crate) struct Given {
    kind: Kind,
    value: Box<RawValue>,
    is_base64: bool,
    continues: bool,
}

/// A score as the commands take it. What they refuse is refused here, before what the key had is deleted.
fn score(typed: Vec<u8>) -> std::result::Result<Vec<u8>, Cow<'static, str>> {
    let text = String::from_utf8_lossy(&typed);
    let number: Option<f64> = text.parse().ok();
    let is_named = || !text.contains(|one: char| one.is_ascii_digit());
    match number.filter(|number| number.is_finite() || (number.is_infinite() && is_named())) {
        Some(_) => Ok(typed),
        None => Err(format!("the score {text:?} is not a number, or is larger than a score can be").into()),
    }
}

impl Given {
    pub(crate) fn new(kind: Kind, value: Box<RawValue>, is_base64: bool, continues: bool) -> Self {
        Given { kind, value, is_base64, continues }
    }

    /// Why the row cannot be among values of this type.
    pub(crate) fn not_among(&self, values: DataType) -> Cow<'static, str> {
        let kind = self.kind.name();
        format!(
            "\"type\" says that the value is a {kind}, which cannot be among {values} values; --value-column value takes the value \
             without its type"
        )
        .into()
    }

    pub(crate) fn continues(&self) -> bool {
        self.continues
    }

    /// The elements, each as the arguments of the command that adds it.
    fn elements(&self) -> std::result::Result<Vec<Vec<Vec<u8>>>, Cow<'static, str>> {
        let bytes = |text: Vec<u8>| -> std::result::Result<Vec<u8>, Cow<'static, str>> {
            match self.is_base64 {
                true => {
                    Ok(STANDARD.decode(text).map_err(|error| format!("an element is not base64: {error}"))?)
                }
                false => Ok(text),
            }
        };
        let is = |what: &str| {
            let kind = self.kind.name();
            format!(
                "\"type\" is \"{kind}\", and the value of a {kind} is {what}; without \"type\" it is a plain value"
            )
        };
        let elements = if self.kind.has_pairs() {
            if !self.value.get().starts_with('{') {
                return Err(is("an object").into());
            }
            let pairs = json::members(&self.value)?.into_iter().map(|(name, raw)| {
                let (name, other) = (bytes(name.into_bytes())?, json::scalar("an element", &raw)?);
                Ok(match self.kind {
                    Kind::SortedSet => vec![score(other)?, name],
                    _ => vec![name, bytes(other)?],
                })
            });
            pairs.collect::<std::result::Result<Vec<_>, Cow<'static, str>>>()?
        } else {
            let items: Vec<Box<RawValue>> =
                serde_json::from_str(self.value.get()).map_err(|_| is("an array"))?;
            let items = items.iter().map(|raw| Ok(vec![bytes(json::scalar("an element", raw)?)?]));
            items.collect::<std::result::Result<Vec<_>, Cow<'static, str>>>()?
        };
        if elements.is_empty() {
            return Err(format!("a {} has at least one element", self.kind.name()).into());
        }
        Ok(elements)
    }

    /// The commands that store the row.
    pub(crate) fn commands(
        &self,
        key: &[u8],
        expires_us: Option<u64>,
    ) -> std::result::Result<Vec<Command>, Cow<'static, str>> {
        let mut commands = Vec::new();
        if !self.continues {
            commands.push(vec![b"DEL".to_vec(), key.to_vec()]);
        }
        for elements in self.elements()?.chunks(ELEMENTS) {
            let mut command = vec![self.kind.adder().to_vec(), key.to_vec()];
            command.extend(elements.iter().flatten().cloned());
            commands.push(command);
        }
        if let Some(us) = expires_us {
            let ms = (us / 1000).max(1).to_string();
            commands.push(vec![b"PEXPIREAT".to_vec(), key.to_vec(), ms.into_bytes()]);
        }
        Ok(commands)
    }
}

/// A database whose collections can be read and written.
pub(crate) enum Collections {
    Local(Box<Offline>),
    Server(Database),
}

impl Collections {
    /// Those of a tree or a database; `None` if the tree cannot have any.
    pub(crate) fn of(keyspace: &Keyspace) -> Result<Option<Self>> {
        match keyspace {
            Keyspace::Local(db, tree, _) => {
                Ok(offline::of(db, tree.name())?.map(|offline| Collections::Local(Box::new(offline))))
            }
            Keyspace::Server(database) => Ok(Some(Collections::Server(database.clone()))),
        }
    }

    /// Whether there may be some: a server has written to the database.
    pub(crate) fn may_be(&self) -> bool {
        match self {
            Collections::Local(offline) => offline.has_collections(),
            Collections::Server(_) => true,
        }
    }

    /// Does commands whose writes take effect together.
    pub(crate) fn call(&mut self, commands: &[Command]) -> Result<Vec<Reply>> {
        match self {
            Collections::Local(offline) => {
                let replies = offline.call(commands)?;
                let replies: Vec<Reply> =
                    replies.iter().map(|reply| reply_of(reply)).collect::<Result<_>>()?;
                match replies
                    .iter()
                    .find_map(|reply| if let Reply::Error(text) = reply { Some(text) } else { None })
                {
                    Some(text) => Err(Error::new(ErrorKind::InvalidInput, String::from_utf8_lossy(text))),
                    None => Ok(replies),
                }
            }
            Collections::Server(database) => database.call(commands),
        }
    }

    fn one(&mut self, command: Command) -> Result<Reply> {
        self.call(&[command])?.pop().ok_or_else(unexpected)
    }

    /// What kind of collection `key` has; `None` if it has a string or nothing.
    pub(crate) fn kind(&mut self, key: &[u8]) -> Result<Option<Kind>> {
        match self.one(vec![b"TYPE".to_vec(), key.to_vec()])? {
            Reply::Status(name) => Ok(Kind::named(&name)),
            _ => Err(unexpected()),
        }
    }

    /// Passes the elements of `key` to `take`, as many at a time as a row has: each element, or each pair one after the
    /// other. The failure of a read is what `unread` makes of it.
    pub(crate) fn read<E>(
        &mut self,
        kind: Kind,
        key: &[u8],
        unread: impl Fn(Error) -> E,
        mut take: impl FnMut(&[Vec<u8>]) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let mut next = Some(Place { first: 0, cursor: b"0".to_vec() });
        while let Some(place) = next {
            let (elements, after) = self.page(kind, key, &place).map_err(&unread)?;
            if !elements.is_empty() {
                take(&elements)?;
            }
            next = after;
        }
        Ok(())
    }

    /// The elements at `place`, and the place after them; `None` if they are the last ones.
    fn page(&mut self, kind: Kind, key: &[u8], place: &Place) -> Result<(Vec<Vec<u8>>, Option<Place>)> {
        let count = ELEMENTS.to_string().into_bytes();
        let command: Command = match kind {
            Kind::List => {
                let last = place.first + ELEMENTS - 1;
                let [first, last] = [place.first, last].map(|number| number.to_string().into_bytes());
                vec![b"LRANGE".to_vec(), key.to_vec(), first, last]
            }
            Kind::Hash => scan(b"HSCAN", key, &place.cursor, &count),
            Kind::Set => scan(b"SSCAN", key, &place.cursor, &count),
            Kind::SortedSet => scan(b"ZSCAN", key, &place.cursor, &count),
        };
        let Reply::Array(mut page) = self.one(command)? else { return Err(unexpected()) };
        let mut cursor = Vec::new();
        if kind != Kind::List {
            let (Some(Reply::Array(elements)), Some(Reply::Bytes(next))) = (page.pop(), page.pop()) else {
                return Err(unexpected());
            };
            (page, cursor) = (elements, next);
        }
        let elements = page.into_iter().map(|reply| match reply {
            Reply::Bytes(bytes) => Ok(bytes),
            _ => Err(unexpected()),
        });
        let elements = elements.collect::<Result<Vec<_>>>()?;
        if kind.has_pairs() && elements.len() % 2 != 0 {
            return Err(unexpected());
        }
        let is_last = if kind == Kind::List { elements.len() < ELEMENTS } else { cursor == b"0" };
        let first = place.first + elements.len();
        Ok((elements, (!is_last).then_some(Place { first, cursor })))
    }
}

/// How far the elements of a collection were read.
struct Place {
    /// The number of the next element of a list.
    first: usize,
    /// The cursor of another collection.
    cursor: Vec<u8>,
}

fn scan(name: &[u8], key: &[u8], cursor: &[u8], count: &[u8]) -> Command {
    [name, key, cursor, b"COUNT", count].map(<[u8]>::to_vec).to_vec()
}

fn unexpected() -> Error {
    Error::new(ErrorKind::Io, "an unexpected reply to a command that reads a collection")
}

/// Appends a row's fields from the comma after the key on, and the end of the line. `elements` are as
/// [`Collections::read`] gives them.
pub(crate) fn append(
    out: &mut Vec<u8>,
    kind: Kind,
    elements: &[Vec<u8>],
    continues: bool,
    expires_us: Option<u64>,
) {
    let is_base64 = elements.iter().any(|element| std::str::from_utf8(element).is_err());
    let text = |out: &mut Vec<u8>, element: &[u8]| {
        if is_base64 {
            json::text(out, STANDARD.encode(element).as_bytes());
        } else {
            json::text(out, element);
        }
    };
    // Writing to memory cannot fail.
    let _ = write!(out, ",\"type\":\"{}\",\"value\":", kind.name());
    out.push(if kind.has_pairs() { b'{' } else { b'[' });
    for (at, element) in elements.chunks(if kind.has_pairs() { 2 } else { 1 }).enumerate() {
        if at > 0 {
            out.push(b',');
        }
        match (kind, element) {
            (Kind::SortedSet, [member, score]) => {
                text(out, member);
                out.push(b':');
                // An infinite score is a string.
                match score.last() {
                    Some(b'0'..=b'9') => out.extend_from_slice(score),
                    _ => drop(json::text(out, score)),
                }
            }
            (_, [field, value]) => {
                text(out, field);
                out.push(b':');
                text(out, value);
            }
            (_, element) => element.iter().for_each(|element| text(out, element)),
        }
    }
    out.push(if kind.has_pairs() { b'}' } else { b']' });
    if is_base64 {
        out.extend_from_slice(b",\"encoding\":\"base64\"");
    }
    if continues {
        out.extend_from_slice(b",\"continues\":true");
    }
    if let Some(us) = expires_us {
        let _ = write!(out, ",\"expires_us\":{us}");
    }
    out.extend_from_slice(b"}\n");
}
