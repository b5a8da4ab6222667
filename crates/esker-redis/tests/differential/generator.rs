//! Random commands, from the language of `forms`.

use crate::forms::{FILLING, FORMS, SELDOM};
use test_kit::Rng;

/// Expiries lie on a grid of so many seconds, and the clock moves by multiples of it, so that no expiry comes near the time
/// of a command.
pub(crate) const GRID_S: i64 = 10_000_000;

/// A time that the test does not reach: the year 2100.
const FAR_S: i64 = 4_102_444_800;

/// An argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Arg {
    Plain(Vec<u8>),
    /// A time from now on, in seconds, to be given in so many parts of a second. The clock of Redis is not that of the
    /// test, so it gets another number.
    Relative {
        seconds: i64,
        parts: i64,
    },
}

/// One form as a tree.
#[derive(Debug, Clone)]
enum Node {
    Word(&'static str),
    Hole(&'static str),
    Perhaps(Vec<Vec<Node>>),
    Either(Vec<Vec<Node>>),
    Many(Box<Node>),
}

/// One form of a command.
struct Form {
    /// The command's name, in lower case.
    name: String,
    nodes: Vec<Node>,
}

impl Form {
    fn new(text: &'static str) -> Form {
        let mut rest = text;
        let nodes = sequence(&mut rest);
        assert!(rest.is_empty(), "{text}");
        let name = text.split(' ').next().unwrap_or_default().to_ascii_lowercase();
        Form { name, nodes }
    }
}

/// The nodes up to a bar or the end of a group.
fn sequence(rest: &mut &'static str) -> Vec<Node> {
    let mut nodes = Vec::new();
    loop {
        *rest = rest.trim_start();
        if let Some(behind) = rest.strip_prefix("...") {
            *rest = behind;
            let node = nodes.pop().unwrap();
            nodes.push(Node::Many(Box::new(node)));
        } else if let Some(behind) = rest.strip_prefix(['(', '[']) {
            let is_needed = rest.starts_with('(');
            *rest = behind;
            let choices = choices(rest);
            nodes.push(if is_needed { Node::Either(choices) } else { Node::Perhaps(choices) });
        } else if rest.is_empty() || rest.starts_with(['|', ')', ']']) {
            return nodes;
        } else {
            let end = rest.find([' ', '|', ')', ']', '.']).unwrap_or(rest.len());
            let word = &rest[..end];
            *rest = &rest[end..];
            let is_hole = word.starts_with(|c: char| c.is_ascii_lowercase());
            nodes.push(if is_hole { Node::Hole(word) } else { Node::Word(word) });
        }
    }
}

/// What stands between bars, up to the end of the group.
fn choices(rest: &mut &'static str) -> Vec<Vec<Node>> {
    let mut choices = vec![sequence(rest)];
    while let Some(behind) = rest.strip_prefix('|') {
        *rest = behind;
        choices.push(sequence(rest));
    }
    *rest = &rest[1..];
    choices
}

/// Makes commands.
pub(crate) struct Generator {
    pub(crate) rng: Rng,
    forms: Vec<Form>,
    filling: Vec<Form>,
    /// How far the test's clock is ahead of the real one.
    pub(crate) ahead_s: i64,
    made: i64,
    /// How many elements the command is to have at most, if that is more than one: it makes a collection large.
    elements: i64,
    /// How many keys the last counted ones were.
    counted: i64,
}

impl Generator {
    pub(crate) fn new(seed: u64) -> Generator {
        let parse = |texts: &[&'static str]| texts.iter().map(|text| Form::new(text)).collect::<Vec<_>>();
        let rng = Rng::new(seed);
        let (forms, filling) = (parse(FORMS), parse(FILLING));
        Generator { rng, forms, filling, ahead_s: 0, made: 0, elements: 1, counted: 0 }
    }

    /// The names of all commands that have a form.
    pub(crate) fn names() -> impl Iterator<Item = String> {
        FORMS.iter().map(|text| Form::new(text).name)
    }

    /// The next command.
    pub(crate) fn command(&mut self) -> Vec<Arg> {
        self.made += 1;
        // Beyond 64 elements a collection is large. Beyond 1024 it is deleted as a range, and beyond 4096 its random
        // elements are chosen in another way.
        self.elements = match self.rng.index(1500) {
            0 if self.rng.percent(20) => 12_000,
            0 => 2800,
            1..30 => 150,
            _ => 1,
        };
        let nodes = loop {
            let forms = if self.elements > 1 { &self.filling } else { &self.forms };
            let form = &forms[self.rng.index(forms.len())];
            if !SELDOM.contains(&form.name.as_str()) || self.rng.percent(8) {
                break form.nodes.clone();
            }
        };
        let mut args = Vec::new();
        self.write(&nodes, &mut args);
        self.elements = 1;
        if self.rng.percent(5) {
            self.spoil(&mut args);
        }
        tame(&mut args);
        shorten_keys(&mut args);
        args
    }

    fn write(&mut self, nodes: &[Node], args: &mut Vec<Arg>) {
        let mut at = 0;
        while let Some(node) = nodes.get(at) {
            let options = nodes[at..].iter().take_while(|node| matches!(node, Node::Perhaps(_))).count();
            if options > 1 {
                let mut order: Vec<usize> = (at..at + options).collect();
                self.rng.shuffle(&mut order);
                order.into_iter().for_each(|option| self.write_one(&nodes[option], args));
                at += options;
            } else {
                self.write_one(node, args);
                at += 1;
            }
        }
    }

    fn write_one(&mut self, node: &Node, args: &mut Vec<Arg>) {
        match node {
            Node::Word(word) => {
                let word = match self.rng.index(8) {
                    0 => word.to_ascii_lowercase(),
                    1 => word[..1].to_owned() + &word[1..].to_ascii_lowercase(),
                    _ => (*word).to_owned(),
                };
                args.push(Arg::Plain(word.into_bytes()));
            }
            Node::Hole(hole) => self.fill(hole, args),
            Node::Perhaps(choices) => {
                if self.rng.percent(45) {
                    let chosen = self.rng.index(choices.len());
                    self.write(&choices[chosen], args);
                }
            }
            Node::Either(choices) => {
                let chosen = self.rng.index(choices.len());
                self.write(&choices[chosen], args);
            }
            Node::Many(node) => {
                let count = if self.elements == 1 {
                    self.rng.between_i64(1, 4)
                } else {
                    self.rng.between_i64(self.elements / 2, self.elements)
                };
                (0..count).for_each(|_| self.write_one(node, args));
            }
        }
    }

    /// Writes random arguments of a sort.
    fn fill(&mut self, hole: &str, args: &mut Vec<Arg>) {
        let bytes = match hole {
            "sec" | "ms" if self.rng.percent(80) => {
                let seconds = self.rng.between_i64(1, 6) * GRID_S + self.made + 1000;
                args.push(Arg::Relative { seconds, parts: if hole == "sec" { 1 } else { 1000 } });
                return;
            }
            "sets" | "zsets" | "lists" => {
                let count = self.rng.between_i64(1, 3);
                let told = if self.rng.percent(94) { count } else { self.rng.between_i64(-1, 4) };
                self.counted = told;
                args.push(Arg::Plain(told.to_string().into_bytes()));
                let one =
                    if hole == "zsets" && self.rng.percent(20) { "set" } else { hole.trim_end_matches('s') };
                (0..count).for_each(|_| self.fill(one, args));
                return;
            }
            "weights" => {
                let count = self.counted.max(0) + i64::from(self.rng.percent(4));
                (0..count).for_each(|_| self.fill("score", args));
                return;
            }
            _ => self.bytes(hole),
        };
        args.push(Arg::Plain(bytes));
    }

    fn bytes(&mut self, hole: &str) -> Vec<u8> {
        let is_spoilt = self.rng.percent(4) && (self.elements == 1 || self.rng.percent(4));
        match hole {
            "string" | "hash" | "set" | "zset" | "list" if is_spoilt => self.bytes("key"),
            "set" => self.key("S"),
            "string" | "hash" | "zset" | "list" => self.key(&hole[..1]),
            "lex" => self.key("x"),
            "target" => {
                if self.rng.percent(50) {
                    self.bytes("key")
                } else {
                    self.key("t")
                }
            }
            "key" => {
                let kind = self.rng.of(&["s", "h", "S", "z", "l", "t"]);
                if is_spoilt {
                    self.rng.of(&[&b"no such key"[..], b"none", b"\xfe\0\xff"]).to_vec()
                } else {
                    self.key(kind)
                }
            }
            "field" => self.field(),
            "value" => self.value(),
            "score" | "float" if is_spoilt => self.rng.of(NO_FLOATS).as_bytes().to_vec(),
            "score" => self.rng.of(SCORES).as_bytes().to_vec(),
            "float" => self.rng.of(FLOATS).as_bytes().to_vec(),
            "bound" => {
                let score = self.bytes("score");
                match self.rng.index(8) {
                    0 => b"-inf".to_vec(),
                    1 => b"+inf".to_vec(),
                    2..=4 => [b"(", score.as_slice()].concat(),
                    _ => score,
                }
            }
            "lexbound" => {
                let field = self.field();
                match self.rng.index(8) {
                    0 => b"-".to_vec(),
                    1 => b"+".to_vec(),
                    2..=4 => [b"(", field.as_slice()].concat(),
                    _ if is_spoilt => field,
                    _ => [b"[", field.as_slice()].concat(),
                }
            }
            "pattern" => self.rng.of(PATTERNS).to_vec(),
            "type" => {
                self.rng.of(&["string", "hash", "SET", "zset", "list", "stream", "none"]).as_bytes().to_vec()
            }
            "atsec" | "atms" if self.rng.percent(85) => {
                let at_s = FAR_S + self.ahead_s + self.rng.between_i64(1, 6) * GRID_S;
                (if hole == "atsec" { at_s } else { at_s * 1000 }).to_string().into_bytes()
            }
            "atsec" | "atms" if self.rng.percent(40) => {
                self.rng.of(&["1", "9223372036854775"]).as_bytes().to_vec()
            }
            "sec" | "ms" | "atsec" | "atms" => self.rng.of(TIMES).as_bytes().to_vec(),
            _ if is_spoilt => self.rng.of(NO_INTEGERS).as_bytes().to_vec(),
            _ => self.number(hole).to_string().into_bytes(),
        }
    }

    fn number(&mut self, hole: &str) -> i64 {
        let is_large = self.rng.percent(20);
        let is_extreme = self.rng.percent(3);
        match hole {
            "delta" if is_extreme => [i64::MAX, i64::MIN, i64::MAX - 1, i64::MIN + 1][self.rng.index(4)],
            "index" | "count" if is_extreme => [i64::MAX, i64::MIN, 1 << 32, -(1 << 32)][self.rng.index(4)],
            "offset" if is_extreme => [-1, 1 << 29, i64::MAX][self.rng.index(3)],
            "bitoffset" if is_extreme => [-1, 1 << 32, i64::MAX, i64::MIN][self.rng.index(4)],
            "delta" => self.rng.between_i64(-300, 300),
            "index" if is_large => self.rng.between_i64(-150, 150),
            "index" => self.rng.between_i64(-6, 6),
            "count" if is_large => self.rng.between_i64(-150, 150),
            "count" => self.rng.between_i64(-1, 6),
            "offset" => self.rng.between_i64(0, if is_large { 5000 } else { 20 }),
            "bitoffset" => self.rng.between_i64(0, if is_large { 40_000 } else { 70 }),
            "bit" => i64::from(self.rng.percent(50)),
            "db" if is_extreme => [16, -1, i64::MAX][self.rng.index(3)],
            "db" => self.rng.between_i64(0, 2),
            "cursor" => i64::from(self.rng.percent(5)),
            "timeout" => self.rng.between_i64(-1, 9).max(0),
            _ => panic!("what is {hole}?"),
        }
    }

    /// A key of a kind; few, so that commands meet.
    fn key(&mut self, kind: &str) -> Vec<u8> {
        // The empty key may be of any kind. That of `lex` has members of one score.
        if kind != "x" && self.rng.percent(2) {
            return Vec::new();
        }
        let number = self.rng.index(5);
        let end: &[u8] = if number == 4 { b"\0\xff\r\n" } else { b"" };
        [kind.as_bytes(), number.to_string().as_bytes(), end].concat()
    }

    /// A field of a hash, a member of a set.
    fn field(&mut self) -> Vec<u8> {
        match self.rng.index(if self.elements > 1 { 400 } else { 40 }) {
            0 => Vec::new(),
            1 => b"\0\xff\r\n".to_vec(),
            2 => self.long_field(),
            3 => b"e".to_vec(),
            4 => format!("{}", self.rng.between_i64(-3, 3)).into_bytes(),
            5..=8 => self.rng.between_i64(0, 30).to_string().into_bytes(),
            9..=28 => format!("e{}", self.rng.index(10)).into_bytes(),
            _ => format!("w{:03}", self.rng.index(200.max(self.elements as usize))).into_bytes(),
        }
    }

    /// A field that is about as long as a key of the store may be, or longer. Many begin alike, up to their end.
    fn long_field(&mut self) -> Vec<u8> {
        const KEY_MAX: usize = 128 << 10;
        if !self.rng.percent(40) {
            return vec![b'L'; 1500];
        }
        // Before an element stand the client's key, 10 bytes, and of a sorted set up to 9 more.
        let len = match self.rng.index(8) {
            0 => 1 << 20,
            1..=2 => KEY_MAX + 20_000,
            _ => KEY_MAX - 24 + self.rng.index(20),
        };
        let mut field = vec![b'L'; len];
        if self.rng.percent(80) {
            let differs_at = [0, 16_383, 16_384, len - 1][self.rng.index(4)];
            field[differs_at] = b"Kl"[self.rng.index(2)];
        }
        field
    }

    fn value(&mut self) -> Vec<u8> {
        match self.rng.index(if self.elements > 1 { 60 } else { 20 }) {
            0 => Vec::new(),
            1 => self.rng.of(NO_INTEGERS).as_bytes().to_vec(),
            2 => self.rng.of(FLOATS).as_bytes().to_vec(),
            3 => (0..self.rng.index(30)).map(|_| self.rng.next() as u8).collect(),
            4 => vec![b'v'; self.rng.index(2500)],
            5 => [i64::MAX, i64::MIN, 10, -10][self.rng.index(4)].to_string().into_bytes(),
            6..=9 => self.rng.between_i64(-100, 100).to_string().into_bytes(),
            _ => self.field(),
        }
    }

    /// Makes a command wrong, perhaps.
    fn spoil(&mut self, args: &mut Vec<Arg>) {
        let junk = match self.rng.index(3) {
            0 => self.bytes("key"),
            1 => self.rng.of(NO_INTEGERS).as_bytes().to_vec(),
            _ => self.rng.of(WORDS).as_bytes().to_vec(),
        };
        let junk = Arg::Plain(junk);
        if args.len() < 2 {
            return args.push(junk);
        }
        let at = 1 + self.rng.index(args.len() - 1);
        let other = 1 + self.rng.index(args.len() - 1);
        // Ranges of members have no meaning where scores differ.
        if matches!(&args[..2], [_, Arg::Plain(key)] if key.starts_with(b"x")) {
            return;
        }
        // Nothing else may become a time: it could be so near that it passes between one side and the other.
        let is_timed = |arg: &Arg| match arg {
            Arg::Plain(bytes) => TIMED.iter().any(|word| bytes.eq_ignore_ascii_case(word.as_bytes())),
            Arg::Relative { .. } => true,
        };
        if args.iter().any(is_timed) {
            return args.push(junk);
        }
        match self.rng.index(6) {
            0 | 1 => drop(args.remove(at)),
            2 => args.insert(at, args[at].clone()),
            3 => args[at] = junk,
            4 => args.push(junk),
            _ => args.swap(at, other),
        }
    }
}

/// Takes out what would make Redis answer without end: it gives as many random members as it is asked for.
fn tame(args: &mut [Arg]) {
    let Some((Arg::Plain(name), rest)) = args.split_first_mut() else { return };
    if !name.to_ascii_lowercase().windows(4).any(|part| part == b"rand") {
        return;
    }
    for arg in rest {
        let Arg::Plain(bytes) = arg else { continue };
        let number = std::str::from_utf8(bytes).ok().and_then(|text| text.parse::<i64>().ok());
        if number.is_some_and(|number| number < -1000 && number > i64::MIN) {
            *bytes = b"-7".to_vec();
        }
    }
}

const SCORES: &[&str] = &[
    "0",
    "1",
    "2",
    "3",
    "-1",
    "1.5",
    "2.25",
    "0.1",
    "-0.5",
    "1e3",
    "3.0",
    "10",
    "100",
    "+5",
    ".5",
    "-0",
    "1e300",
    "-1e300",
    "1e-10",
    "inf",
    "-inf",
    "12345678901234567",
];
const FLOATS: &[&str] = &[
    "0", "1", "-1", "1.5", "2.25", "0.5", "-0.5", "100", "3.0e2", "-2.5e-1", "10.125", "0.1", "1e10", "-3.75",
];
const NO_FLOATS: &[&str] =
    &["", "nan", "x", " 1", "1 ", "1e999", "-1e999", "1e-999", "--1", "1.2.3", "e5", ".", "infinit"];
const NO_INTEGERS: &[&str] = &[
    "",
    "x",
    "1.5",
    " 1",
    "1 ",
    "-0",
    "+1",
    "01",
    "9223372036854775808",
    "-9223372036854775809",
    "99999999999999999999999",
    "1e2",
];
const TIMES: &[&str] = &[
    "0",
    "-1",
    "-1000000",
    "9223372036854775807",
    "-9223372036854775808",
    "x",
    "",
    "1.5",
    "9223372036854775808",
];
const TIMED: &[&str] = &["EX", "PX", "SETEX", "PSETEX", "EXPIRE", "PEXPIRE"];
const WORDS: &[&str] = &[
    "LIMIT",
    "COUNT",
    "MATCH",
    "WITHSCORES",
    "STORE",
    "NX",
    "XX",
    "GT",
    "KEEPTTL",
    "REPLACE",
    "REV",
    "BYLEX",
    "BYSCORE",
    "WEIGHTS",
    "0",
    "1",
    "-1",
    "2",
];
const PATTERNS: &[&[u8]] = &[
    b"*", b"", b"e*", b"w0*", b"*1*", b"s?", b"[hs]*", b"[^s]?", b"l[0-2]", b"\\*", b"e\\1", b"*\xff*",
    b"h[1", b"z1",
];

/// Keys that are longer than Esker's may be are cut.
fn shorten_keys(args: &mut [Arg]) {
    const KEY_MAX: usize = 128 << 10;
    let bytes = |arg: &Arg| if let Arg::Plain(bytes) = arg { bytes.clone() } else { b"1".to_vec() };
    let given: Vec<Vec<u8>> = args.iter().map(bytes).collect();
    let given: Vec<&[u8]> = given.iter().map(Vec::as_slice).collect();
    let Some(spec) = given.first().and_then(|name| esker_redis::spec(name)) else { return };
    let keys = spec.keys_of(&given);
    for arg in args.iter_mut().skip(1) {
        if let Arg::Plain(bytes) = arg
            && bytes.len() > KEY_MAX
            && keys.contains(&bytes.as_slice())
        {
            bytes.truncate(1500);
        }
    }
}
