//! Reads an expression as `java.util.regex.Pattern` does.

use std::collections::BTreeSet;

use regex_syntax::hir::ClassUnicode;

use super::class::{all, complement, named_by, of, property, range, union, within_line};
use super::node::Node;

/// How deep groups and classes may be nested: as expressions of the engine.
const NESTING_MAX: u32 = 50;

/// The most repetitions that are counted: the engine's program grows with them.
const COUNT_MAX: u32 = 100_000;

type Read<T> = Result<T, String>;

/// A character of an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Token {
    character: char,
    /// Whether it stands between `\Q` and `\E`, and means itself.
    is_quoted: bool,
}

/// What embedded flags say, such as `(?i)`.
#[derive(Debug, Clone, Copy)]
struct Flags {
    ignores_case: bool,
    is_unicode: bool,
    has_lines: bool,
    dot_has_line_ends: bool,
    is_unix: bool,
}

pub(super) struct Parser {
    tokens: Vec<Token>,
    at: usize,
    flags: Flags,
    nesting: u32,
    /// The names of the groups until here.
    names: BTreeSet<String>,
}

/// What an escape means.
enum Escape {
    Character(Option<char>),
    Set(ClassUnicode),
    Node(Node),
}

/// The characters of `pattern`, without the marks of quotes.
fn tokens(pattern: &str) -> Vec<Token> {
    let characters: Vec<char> = pattern.chars().collect();
    let (mut tokens, mut at, mut is_quoted) = (Vec::with_capacity(characters.len()), 0, false);
    while let Some(character) = characters.get(at).copied() {
        let next = characters.get(at + 1).copied();
        let token = |character| Token { character, is_quoted };
        match (character, next, is_quoted) {
            ('\\', Some('E'), true) | ('\\', Some('Q'), false) => {
                is_quoted = !is_quoted;
                at += 2;
            }
            // The character after a backslash begins no quote.
            ('\\', Some(next), false) => {
                tokens.extend([token('\\'), token(next)]);
                at += 2;
            }
            _ => {
                tokens.push(token(character));
                at += 1;
            }
        }
    }
    tokens
}

fn hexadecimal(character: char) -> Option<u32> {
    character.to_digit(16)
}

impl Parser {
    pub(super) fn new(pattern: &str, ignores_case: bool) -> Parser {
        let flags = Flags {
            ignores_case,
            is_unicode: false,
            has_lines: false,
            dot_has_line_ends: true,
            is_unix: false,
        };
        Parser { tokens: tokens(pattern), at: 0, flags, nesting: 0, names: BTreeSet::new() }
    }

    /// The next character, if it is not quoted.
    fn peek(&self) -> Option<char> {
        self.peek_at(0)
    }

    fn peek_at(&self, ahead: usize) -> Option<char> {
        let token = self.tokens.get(self.at + ahead)?;
        (!token.is_quoted).then_some(token.character)
    }

    fn next(&mut self) -> Option<Token> {
        let token = self.tokens.get(self.at).copied();
        self.at += 1;
        token
    }

    /// Goes past `text` if it is next.
    fn takes(&mut self, text: &str) -> bool {
        let is_next =
            text.chars().enumerate().all(|(ahead, character)| self.peek_at(ahead) == Some(character));
        if is_next {
            self.at += text.chars().count();
        }
        is_next
    }

    /// Reads the whole expression.
    pub(super) fn expression(mut self) -> Read<Node> {
        let node = self.alternatives()?;
        match self.peek() {
            None => Ok(node),
            Some(_) => Err("there is a `)` without a `(`".to_owned()),
        }
    }

    fn alternatives(&mut self) -> Read<Node> {
        let mut alternatives = vec![self.sequence()?];
        while self.takes("|") {
            alternatives.push(self.sequence()?);
        }
        Ok(match alternatives.len() {
            1 => alternatives.swap_remove(0),
            _ => Node::Any(alternatives),
        })
    }

    fn sequence(&mut self) -> Read<Node> {
        let mut nodes = Vec::new();
        while self.at < self.tokens.len() && !matches!(self.peek(), Some('|' | ')')) {
            if let Some(node) = self.atom()? {
                let node = self.quantified(node)?;
                // An assertion holds a second time where it holds, and may be refused if something follows it.
                if !nodes.last().is_some_and(|last: &Node| last.is_same_assertion(&node)) {
                    nodes.push(node);
                }
            }
        }
        Ok(Node::All(nodes))
    }

    /// What a quantifier may follow. `None`: embedded flags.
    fn atom(&mut self) -> Read<Option<Node>> {
        let Flags { has_lines, dot_has_line_ends, is_unix, .. } = self.flags;
        Ok(Some(match self.peek() {
            Some('(') => return self.group(),
            Some('[') => {
                self.at += 1;
                Node::One(self.class()?)
            }
            Some('\\') => match self.escape(false)? {
                Escape::Character(character) => Node::One(self.one(character)),
                Escape::Set(set) => Node::One(set),
                Escape::Node(node) => node,
            },
            Some(character @ ('?' | '*' | '+')) => {
                return Err(format!("there is nothing before `{character}` that it repeats"));
            }
            // What is repeated is nothing.
            Some('{') => Node::Empty,
            Some('^') => {
                self.at += 1;
                if has_lines { Node::LineStart { is_unix } } else { Node::Start }
            }
            Some('$') => {
                self.at += 1;
                if has_lines { Node::LineEnd { is_unix } } else { Node::LastLine { is_unix } }
            }
            Some('.') => {
                self.at += 1;
                Node::One(if dot_has_line_ends { all() } else { within_line(is_unix) })
            }
            _ => {
                let character = self.next().map(|token| token.character);
                Node::One(self.one(character))
            }
        }))
    }

    /// The set of a character, and of its other case if case does not count. `None`: a half of a surrogate pair, which no text has.
    fn one(&self, character: Option<char>) -> ClassUnicode {
        match character {
            Some(character) => self.cased(range(character, character)),
            None => ClassUnicode::empty(),
        }
    }

    /// With the other cases of its characters, if case does not count.
    fn cased(&self, mut set: ClassUnicode) -> ClassUnicode {
        let Flags { ignores_case, is_unicode, .. } = self.flags;
        if ignores_case && is_unicode {
            // It cannot fail: the crate has Unicode's tables.
            let _ = set.try_case_fold_simple();
        } else if ignores_case {
            let mut ascii = set.clone();
            ascii.intersect(&of(&[('A', 'Z'), ('a', 'z')]));
            let _ = ascii.try_case_fold_simple();
            ascii.intersect(&range('\0', '\x7f'));
            set.union(&ascii);
        }
        set
    }

    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Read<T>) -> Read<T> {
        if self.nesting == NESTING_MAX {
            return Err(format!("it is nested more than {NESTING_MAX} levels deep"));
        }
        self.nesting += 1;
        let done = read(self);
        self.nesting -= 1;
        done
    }

    fn group(&mut self) -> Read<Option<Node>> {
        let flags = self.flags;
        let mut is_atomic = false;
        if self.takes("(?") {
            match (self.peek(), self.peek_at(1)) {
                (Some(':'), _) => self.at += 1,
                (Some('>'), _) => {
                    self.at += 1;
                    is_atomic = true;
                }
                (Some('=' | '!'), _) | (Some('<'), Some('=' | '!')) => {
                    return Err("look-ahead and look-behind have no equal in linear time".to_owned());
                }
                (Some('<'), _) => {
                    self.at += 1;
                    self.group_name()?;
                }
                _ => {
                    self.embedded_flags()?;
                    if self.takes(")") {
                        return Ok(None);
                    }
                    if !self.takes(":") {
                        return Err("there is an unknown group after `(?`".to_owned());
                    }
                }
            }
        } else {
            self.at += 1;
        }
        let node = self.deeper(Self::alternatives)?;
        if !self.takes(")") {
            return Err("a group lacks its `)`".to_owned());
        }
        self.flags = flags;
        Ok(Some(if is_atomic { Node::Atomic(Box::new(node)) } else { node }))
    }

    /// The name of a group, and the `>` after it.
    fn group_name(&mut self) -> Read<()> {
        let mut name = String::new();
        while let Some(character) = self.peek() {
            let fits = if name.is_empty() {
                character.is_ascii_alphabetic()
            } else {
                character.is_ascii_alphanumeric()
            };
            if !fits {
                break;
            }
            self.at += 1;
            name.push(character);
        }
        if name.is_empty() || !self.takes(">") {
            return Err("the name of a group is wrong".to_owned());
        }
        if self.names.contains(&name) {
            return Err(format!("there are two groups with the name {name:?}"));
        }
        self.names.insert(name);
        Ok(())
    }

    /// Flags up to what ends them.
    fn embedded_flags(&mut self) -> Read<()> {
        let mut value = true;
        while let Some(character) = self.peek() {
            match character {
                '-' if value => value = false,
                'i' => self.flags.ignores_case = value,
                'm' => self.flags.has_lines = value,
                's' => self.flags.dot_has_line_ends = value,
                'd' => self.flags.is_unix = value,
                'u' => self.flags.is_unicode = value,
                'x' | 'U' if !value => {}
                'x' => return Err("comments (?x) are not known".to_owned()),
                'U' => return Err("(?U) is not known: name the properties of Unicode".to_owned()),
                'c' => return Err("(?c) has no effect in Java, and is not known".to_owned()),
                _ => return Ok(()),
            }
            self.at += 1;
        }
        Ok(())
    }

    /// `node`, with the quantifier that follows if there is one.
    fn quantified(&mut self, node: Node) -> Read<Node> {
        let (min, max) = match self.peek() {
            Some('{') => self.counts()?,
            Some(character @ ('?' | '*' | '+')) => {
                self.at += 1;
                (u32::from(character == '+'), (character == '?').then_some(1))
            }
            _ => return Ok(node),
        };
        let repeated = Node::Repeat { node: Box::new(node), min, max };
        // Whether it takes as few as possible does not matter.
        if self.takes("?") {
            return Ok(repeated);
        }
        Ok(if self.takes("+") { Node::Atomic(Box::new(repeated)) } else { repeated })
    }

    fn number(&mut self) -> Read<Option<u32>> {
        let mut number = None;
        while let Some(digit) = self.peek().and_then(|character| character.to_digit(10)) {
            let more = number.unwrap_or(0_u32) * 10 + digit;
            if more > COUNT_MAX {
                return Err(format!("more than {COUNT_MAX} repetitions are counted"));
            }
            number = Some(more);
            self.at += 1;
        }
        Ok(number)
    }

    /// `{n}`, `{n,}` or `{n,m}`.
    fn counts(&mut self) -> Read<(u32, Option<u32>)> {
        self.at += 1;
        let min = self.number()?.ok_or("there is no number after `{`")?;
        let max = if !self.takes(",") {
            Some(min)
        } else if self.peek() == Some('}') {
            None
        } else {
            Some(self.number()?.unwrap_or(0))
        };
        if !self.takes("}") {
            return Err("a `{` lacks its `}`".to_owned());
        }
        if max.is_some_and(|max| max < min) {
            return Err("in `{n,m}`, m is less than n".to_owned());
        }
        Ok((min, max))
    }

    /// Reads what begins with a backslash.
    fn escape(&mut self, is_in_class: bool) -> Read<Escape> {
        self.at += 1;
        let Flags { is_unix, .. } = self.flags;
        let Some(Token { character, is_quoted: false }) = self.next() else {
            return Err("there is nothing after a backslash".to_owned());
        };
        let plain = |character| Ok(Escape::Character(Some(character)));
        if let Some(set) = named_by(character) {
            return Ok(Escape::Set(set));
        }
        if let Some(set) =
            character.is_ascii_uppercase().then(|| named_by(character.to_ascii_lowercase())).flatten()
        {
            return Ok(Escape::Set(complement(set)));
        }
        match character {
            'p' | 'P' => {
                let set = self.property()?;
                Ok(Escape::Set(if character == 'P' { complement(set) } else { set }))
            }
            't' => plain('\t'),
            'n' => plain('\n'),
            'r' => plain('\r'),
            'f' => plain('\x0c'),
            'a' => plain('\x07'),
            'e' => plain('\x1b'),
            '0' => self.octal(),
            'x' => self.hexadecimal_escape(),
            'u' => self.utf16_escape(),
            'c' => match self.next() {
                Some(token) => Ok(Escape::Character(char::from_u32(u32::from(token.character) ^ 64))),
                None => Err("there is nothing after \\c".to_owned()),
            },
            'N' => Err("characters by their names (\\N) are not known: write \\x{...}".to_owned()),
            _ if is_in_class && character.is_ascii_alphanumeric() => {
                Err(format!("\\{character} means nothing between brackets"))
            }
            'A' | 'G' => Ok(Escape::Node(Node::Start)),
            'z' => Ok(Escape::Node(Node::End)),
            'Z' => Ok(Escape::Node(Node::LastLine { is_unix })),
            'b' if self.peek() == Some('{') => {
                Err("boundaries of grapheme clusters (\\b{g}) are not known".to_owned())
            }
            'b' | 'B' => Ok(Escape::Node(Node::Word { is_boundary: character == 'b' })),
            'R' => Ok(Escape::Node(Node::Any(vec![
                Node::All(vec![Node::One(range('\r', '\r')), Node::One(range('\n', '\n'))]),
                Node::One(of(&[('\n', '\r'), ('\u{85}', '\u{85}'), ('\u{2028}', '\u{2029}')])),
            ]))),
            'X' => Err("grapheme clusters (\\X) are not known".to_owned()),
            'k' | '1'..='9' => Err("back references have no equal in linear time".to_owned()),
            _ if character.is_ascii_alphabetic() => Err(format!("\\{character} means nothing")),
            _ => plain(character),
        }
    }

    /// The name of a property, after `\p`.
    fn property(&mut self) -> Read<ClassUnicode> {
        let ignores_case = self.flags.ignores_case;
        if !self.takes("{") {
            let name = self.next().ok_or("there is nothing after \\p")?.character;
            return property(&name.to_string(), ignores_case);
        }
        let mut name = String::new();
        loop {
            match self.next() {
                Some(Token { character: '}', .. }) => return property(&name, ignores_case),
                Some(token) => name.push(token.character),
                None => return Err("the name of a property lacks its `}`".to_owned()),
            }
        }
    }

    /// Up to three octal digits, below 400.
    fn octal(&mut self) -> Read<Escape> {
        let (mut number, mut digits) = (0, 0);
        while let Some(digit) = self.peek().and_then(|character| character.to_digit(8)) {
            if digits == 3 || number > 0o37 {
                break;
            }
            (number, digits, self.at) = (number * 8 + digit, digits + 1, self.at + 1);
        }
        if digits == 0 {
            return Err("there is no octal digit after \\0".to_owned());
        }
        Ok(Escape::Character(char::from_u32(number)))
    }

    /// So many hexadecimal digits.
    fn digits(&mut self, count: usize) -> Option<u32> {
        let digits = (0..count).map(|ahead| self.peek_at(ahead).and_then(hexadecimal));
        let number = digits.into_iter().try_fold(0, |number, digit| Some(number * 16 + digit?))?;
        self.at += count;
        Some(number)
    }

    fn hexadecimal_escape(&mut self) -> Read<Escape> {
        let wrong =
            || Err("after \\x, two hexadecimal digits or a code point in braces are expected".to_owned());
        if !self.takes("{") {
            return self.digits(2).map_or_else(wrong, |number| Ok(Escape::Character(char::from_u32(number))));
        }
        let (mut number, mut digits) = (0_u32, 0);
        while let Some(digit) = self.peek().and_then(hexadecimal) {
            number = number.saturating_mul(16).saturating_add(digit);
            (digits, self.at) = (digits + 1, self.at + 1);
        }
        if digits == 0 || number > u32::from(char::MAX) || !self.takes("}") {
            return wrong();
        }
        Ok(Escape::Character(char::from_u32(number)))
    }

    /// Four hexadecimal digits; of a surrogate pair, another escape follows.
    fn utf16_escape(&mut self) -> Read<Escape> {
        let wrong = || "after \\u, four hexadecimal digits are expected".to_owned();
        let first = self.digits(4).ok_or_else(wrong)?;
        if !(0xd800..0xdc00).contains(&first) {
            return Ok(Escape::Character(char::from_u32(first)));
        }
        let at = self.at;
        if self.takes("\\u") {
            let second = self.digits(4).ok_or_else(wrong)?;
            if (0xdc00..0xe000).contains(&second) {
                let point = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
                return Ok(Escape::Character(char::from_u32(point)));
            }
        }
        self.at = at;
        Ok(Escape::Character(None))
    }

    /// The rest of a class, after its `[`.
    fn class(&mut self) -> Read<ClassUnicode> {
        let is_negated = self.takes("^");
        let set = self.deeper(Self::class_items)?;
        self.at += 1;
        Ok(if is_negated { complement(set) } else { set })
    }

    /// The set that stands before the next `]` of this class.
    fn class_items(&mut self) -> Read<ClassUnicode> {
        let mut set: Option<ClassUnicode> = None;
        loop {
            if self.at >= self.tokens.len() {
                return Err("a class lacks its `]`".to_owned());
            }
            let item = match (self.peek(), &set) {
                (Some(']'), Some(_)) => return Ok(set.unwrap_or_else(ClassUnicode::empty)),
                (Some('['), _) => {
                    self.at += 1;
                    self.class()?
                }
                (Some('&'), _) if self.peek_at(1) == Some('&') => {
                    self.at += 2;
                    let others = self.intersected()?;
                    set = match (set, others) {
                        (Some(mut set), Some(others)) => {
                            set.intersect(&others);
                            Some(set)
                        }
                        (None, None) => return Err("in a class, `&&` has nothing on either side".to_owned()),
                        (set, others) => set.or(others),
                    };
                    continue;
                }
                _ => self.class_range()?,
            };
            set = Some(match set {
                Some(set) => union(set, &item),
                None => item,
            });
        }
    }

    /// What stands after `&&`, up to a `]` or `&`.
    fn intersected(&mut self) -> Read<Option<ClassUnicode>> {
        let mut set: Option<ClassUnicode> = None;
        while !matches!(self.peek(), Some(']' | '&')) {
            let item = if self.takes("[") { self.class()? } else { self.deeper(Self::class_items)? };
            set = Some(match set {
                Some(set) => union(set, &item),
                None => item,
            });
        }
        Ok(set)
    }

    /// A character of a class, a range, or a set by its name.
    fn class_range(&mut self) -> Read<ClassUnicode> {
        let from = match self.class_character()? {
            Escape::Character(character) => character,
            Escape::Set(set) => return Ok(set),
            Escape::Node(_) => return Err("a class has an assertion".to_owned()),
        };
        if self.peek() != Some('-') || matches!(self.peek_at(1), Some('[' | ']')) {
            return Ok(self.one(from));
        }
        self.at += 1;
        let (Some(from), Escape::Character(Some(to))) = (from, self.class_character()?) else {
            return Err("a range ends at something that is not a character".to_owned());
        };
        if to < from {
            return Err(format!("the range from {from:?} to {to:?} is empty"));
        }
        Ok(self.cased(range(from, to)))
    }

    fn class_character(&mut self) -> Read<Escape> {
        if self.peek() == Some('\\') {
            return self.escape(true);
        }
        match self.next() {
            Some(token) => Ok(Escape::Character(Some(token.character))),
            None => Err("a class lacks its `]`".to_owned()),
        }
    }
}
