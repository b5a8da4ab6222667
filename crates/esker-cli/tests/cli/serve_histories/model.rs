//! What the commands of histories do to strings and lists: a reference that has nothing in common with the server.

use std::collections::{BTreeMap, VecDeque};

/// So many dots stand behind the mark [`PAD_MARK`] at the beginning of a value: such values are written by the pool.
pub(super) const PAD_BYTES: usize = 100_000;
pub(super) const PAD_MARK: char = 'P';

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Value {
    String(String),
    List(VecDeque<String>),
}

/// The keys of a group of clients, and what they hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(super) struct State(BTreeMap<String, Value>);

/// Whether a command changes nothing.
pub(super) fn is_read(command: &[String]) -> bool {
    matches!(command[0].as_str(), "GET" | "MGET" | "STRLEN" | "LLEN" | "LRANGE")
}

/// Whether the reply tells that the command has changed nothing, whatever the state was. To compare two states is not
/// enough: `SET` and `DEL` as one transaction leave a state without the key as it was, and delete a key that is there, with
/// the same replies.
pub(super) fn has_changed_nothing(command: &[String], reply: &str) -> bool {
    is_read(command)
        || matches!(
            (command[0].as_str(), reply),
            ("DEL" | "CAS" | "CAD", ":0")
                | ("LPOP" | "RPOP" | "LMOVE", NO_BYTES)
                | ("BLPOP" | "BRPOP" | "BLMOVE", NO_ARRAY)
        )
}

/// The keys of a command.
pub(super) fn keys_of(command: &[String]) -> Vec<&str> {
    let words: Vec<&str> = command.iter().map(String::as_str).collect();
    match words[..] {
        ["MGET", ref keys @ ..] | ["BLPOP" | "BRPOP", ref keys @ .., _] => keys.to_vec(),
        ["MSET", ref pairs @ ..] => pairs.iter().step_by(2).copied().collect(),
        ["LMOVE" | "BLMOVE", from, to, ..] => vec![from, to],
        [_, key, ..] => vec![key],
        _ => panic!("histories have no {words:?}"),
    }
}

/// The commands by one of which a client that has waited was served; one of them if its reply is known. Of several keys
/// that is the one that was written, whatever the others hold by then. That is Redis' rule: if one command gives elements
/// to several keys, or an element that it brings moves on to another key, the order of the keys in `BLPOP` says nothing.
pub(super) fn as_served(command: &[String], reply: Option<&str>) -> Vec<Vec<String>> {
    let words: Vec<&str> = command.iter().map(String::as_str).collect();
    let [name @ ("BLPOP" | "BRPOP"), ref keys @ .., wait] = words[..] else { return vec![command.to_vec()] };
    let is_served = |key: &&&str| reply.is_none_or(|reply| reply.starts_with(&format!("[{key} ")));
    let served: Vec<Vec<String>> =
        keys.iter().filter(is_served).map(|key| [name, key, wait].map(str::to_owned).to_vec()).collect();
    // It has waited in vain.
    if served.is_empty() { vec![command.to_vec()] } else { served }
}

const NO_BYTES: &str = "$-1";
const NO_ARRAY: &str = "*-1";
/// How the left side of a list is called.
const LEFT: &str = "LEFT";

impl State {
    /// Does a command. Returns its reply as `Value` of the client prints it.
    pub(super) fn apply(&mut self, command: &[String]) -> String {
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        match words[..] {
            ["GET", key] => self.string(key).map_or(NO_BYTES.to_owned(), str::to_owned),
            ["MGET", ref keys @ ..] => {
                let values = keys.iter().map(|key| self.string(key).unwrap_or(NO_BYTES));
                format!("[{}]", values.collect::<Vec<_>>().join(" "))
            }
            ["SET", key, value] => {
                self.set(key, value.to_owned());
                "+OK".to_owned()
            }
            ["SET", key, value, "GET"] => {
                let before = self.string(key).unwrap_or(NO_BYTES).to_owned();
                self.set(key, value.to_owned());
                before
            }
            ["MSET", ref pairs @ ..] => {
                pairs.chunks(2).for_each(|pair| self.set(pair[0], pair[1].to_owned()));
                "+OK".to_owned()
            }
            ["CAS", key, old, new] => {
                let is_equal = self.string(key) == Some(old);
                if is_equal {
                    self.set(key, new.to_owned());
                }
                format!(":{}", u8::from(is_equal))
            }
            ["CAD", key, old] => {
                let is_equal = self.string(key) == Some(old);
                if is_equal {
                    self.0.remove(key);
                }
                format!(":{}", u8::from(is_equal))
            }
            ["DEL", key] => format!(":{}", u8::from(self.0.remove(key).is_some())),
            ["INCRBY", key, by] => {
                let number = |text: &str| text.parse::<i64>().expect("counters hold numbers");
                let sum = self.string(key).map_or(0, number) + number(by);
                self.set(key, sum.to_string());
                format!(":{sum}")
            }
            ["APPEND", key, more] => {
                let whole = self.string(key).unwrap_or_default().to_owned() + more;
                let len = length(&whole);
                self.set(key, whole);
                format!(":{len}")
            }
            ["STRLEN", key] => format!(":{}", self.string(key).map_or(0, length)),
            ["LPUSH", key, ref values @ ..] => self.push(key, values, true),
            ["RPUSH", key, ref values @ ..] => self.push(key, values, false),
            ["LPOP", key] => self.pop(key, true).unwrap_or(NO_BYTES.to_owned()),
            ["RPOP", key] => self.pop(key, false).unwrap_or(NO_BYTES.to_owned()),
            ["LLEN", key] => format!(":{}", self.list(key).map_or(0, VecDeque::len)),
            ["LRANGE", key, "0", "-1"] => {
                let values = self.list(key).into_iter().flatten().map(String::as_str);
                format!("[{}]", values.collect::<Vec<_>>().join(" "))
            }
            ["LMOVE", from, to, from_side, to_side] => {
                self.step(from, to, from_side, to_side).unwrap_or(NO_BYTES.to_owned())
            }
            ["BLMOVE", from, to, from_side, to_side, _] => {
                self.step(from, to, from_side, to_side).unwrap_or(NO_ARRAY.to_owned())
            }
            [name @ ("BLPOP" | "BRPOP"), ref keys @ .., _] => {
                let found = keys.iter().find(|key| self.list(key).is_some());
                let popped = found.and_then(|key| Some((key, self.pop(key, name == "BLPOP")?)));
                popped.map_or(NO_ARRAY.to_owned(), |(key, value)| format!("[{key} {value}]"))
            }
            _ => panic!("histories have no {words:?}"),
        }
    }

    fn string(&self, key: &str) -> Option<&str> {
        match self.0.get(key)? {
            Value::String(value) => Some(value),
            Value::List(_) => panic!("{key} is a list"),
        }
    }

    fn set(&mut self, key: &str, value: String) {
        self.0.insert(key.to_owned(), Value::String(value));
    }

    /// The list of a key, which is not empty.
    fn list(&self, key: &str) -> Option<&VecDeque<String>> {
        match self.0.get(key)? {
            Value::List(values) => Some(values),
            Value::String(_) => panic!("{key} is a string"),
        }
    }

    fn push(&mut self, key: &str, values: &[&str], left: bool) -> String {
        let mut list = self.list(key).cloned().unwrap_or_default();
        for value in values {
            if left { list.push_front((*value).to_owned()) } else { list.push_back((*value).to_owned()) }
        }
        let len = list.len();
        self.0.insert(key.to_owned(), Value::List(list));
        format!(":{len}")
    }

    fn pop(&mut self, key: &str, left: bool) -> Option<String> {
        let mut list = self.list(key)?.clone();
        let popped = if left { list.pop_front() } else { list.pop_back() };
        if list.is_empty() {
            self.0.remove(key);
        } else {
            self.0.insert(key.to_owned(), Value::List(list));
        }
        popped
    }

    fn step(&mut self, from: &str, to: &str, from_side: &str, to_side: &str) -> Option<String> {
        let moved = self.pop(from, from_side == LEFT)?;
        self.push(to, &[&moved], to_side == LEFT);
        Some(moved)
    }
}

/// How many bytes a value has at the server.
fn length(value: &str) -> usize {
    value.len() + if value.starts_with(PAD_MARK) { PAD_BYTES - 1 } else { 0 }
}
