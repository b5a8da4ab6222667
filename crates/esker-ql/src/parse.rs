//! The parser: a descent over the tokens of one statement after the other.
//!
//! ```text
//! text --lex--> tokens --schema, data, query--> Statement
//! ```
//! It looks one token ahead, holds one statement at a time, and calls itself nowhere, so its stack is bounded. A statement has
//! [`STATEMENT_LEN_MAX`](crate::STATEMENT_LEN_MAX) bytes and [`ELEMENTS_MAX`] elements at most.

mod data;
mod defaults;
mod query;
mod schema;
mod time;

pub use time::{Time, YEAR_9999_END, milliseconds, time, time_in};

use crate::error::{Error, Result};
use crate::lex::{Kind, Lexer, Token, show};
use crate::statement::{Column, Columns, Located, Placed, Qualifiers, Statement, TableName};

/// The most columns, cells, conditions and families that a statement has, together.
pub const ELEMENTS_MAX: usize = 100_000;

/// Words that begin statements which come later, and with what.
const LATER: [(&str, &str); 8] = [
    ("SPLIT", "regions"),
    ("MOVE", "regions"),
    ("BALANCE", "regions"),
    ("GRANT", "users"),
    ("REVOKE", "users"),
    ("BACKUP", "backups of tables"),
    ("RESTORE", "backups of tables"),
    ("STATUS", "clusters"),
];

/// Statements of HQL about the servers of a Hypertable cluster.
const OF_SERVERS: [&str; 9] =
    ["CLOSE", "DESTROY", "FETCH", "HEAPCHECK", "REPLAY", "SET", "SHUTDOWN", "STOP", "WAIT"];

/// Statements of SQL that change rows.
const OF_SQL: [&str; 4] = ["MERGE", "REPLACE", "UPDATE", "UPSERT"];

/// The statements of a text, one after the other. Behind an error there are none.
///
/// # Example
/// ```
/// let texts: Vec<_> = esker_ql::statements(b"use a; SHOW TABLES;").collect::<Result<_, _>>()?;
/// assert_eq!(texts[1].statement.to_string(), "SHOW TABLES");
/// # Ok::<(), esker_ql::Error>(())
/// ```
pub fn statements(text: &[u8]) -> Statements<'_> {
    Statements { parser: Parser { lexer: Lexer::new(text), next: None, elements: 0 }, is_done: false }
}

/// Reads the statements of a text; see [`statements`].
#[derive(Debug)]
pub struct Statements<'a> {
    parser: Parser<'a>,
    is_done: bool,
}

impl Iterator for Statements<'_> {
    type Item = Result<Located>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_done {
            return None;
        }
        let next = self.parser.statement().transpose();
        self.is_done = !matches!(next, Some(Ok(_)));
        next
    }
}

/// What reads a statement.
#[derive(Debug)]
struct Parser<'a> {
    lexer: Lexer<'a>,
    /// The token that was looked at.
    next: Option<Token>,
    /// How many elements the statement has so far.
    elements: usize,
}

impl<'a> Parser<'a> {
    fn peek(&mut self) -> Result<&Token> {
        let token = match self.next.take() {
            Some(token) => token,
            None => self.lexer.token()?,
        };
        Ok(self.next.insert(token))
    }

    fn take(&mut self) -> Result<Token> {
        self.next.take().map_or_else(|| self.lexer.token(), Ok)
    }

    fn text(&self, token: &Token) -> &'a [u8] {
        self.lexer.slice(token.start, token.end)
    }

    /// The error that something else is expected than the next token.
    fn expected(&mut self, what: &str) -> Error {
        match self.peek().cloned() {
            Err(error) => error,
            Ok(token) => self.expected_at(&token, what),
        }
    }

    fn expected_at(&self, token: &Token, what: &str) -> Error {
        match token.kind {
            Kind::End => {
                self.lexer.unfinished(token.start, format!("expected {what}, found the end of the text"))
            }
            _ => {
                let found = show(self.text(token));
                self.lexer.wrong(token.start, format!("expected {what}, found {found}"))
            }
        }
    }

    /// Counts an element of the statement.
    fn element(&mut self) -> Result<()> {
        self.elements += 1;
        if self.elements > ELEMENTS_MAX {
            let message = format!("a statement has {ELEMENTS_MAX} elements at most; this one has more");
            return Err(self.lexer.wrong(self.lexer.statement, message));
        }
        Ok(())
    }

    fn is_word(&mut self, word: &str) -> Result<bool> {
        let token = self.peek()?;
        let (is_word, start, end) = (token.kind == Kind::Word, token.start, token.end);
        Ok(is_word && self.lexer.slice(start, end).eq_ignore_ascii_case(word.as_bytes()))
    }

    fn is_sign(&mut self, sign: &str) -> Result<bool> {
        Ok(matches!(self.peek()?.kind, Kind::Sign(found) if found == sign))
    }

    fn eat(&mut self, word: &str) -> Result<bool> {
        let is_there = self.is_word(word)?;
        if is_there {
            self.take()?;
        }
        Ok(is_there)
    }

    fn eat_sign(&mut self, sign: &str) -> Result<bool> {
        let is_there = self.is_sign(sign)?;
        if is_there {
            self.take()?;
        }
        Ok(is_there)
    }

    fn need(&mut self, words: &[&str]) -> Result<()> {
        for word in words {
            if !self.eat(word)? {
                return Err(self.expected(&format!("`{word}`")));
            }
        }
        Ok(())
    }

    fn need_sign(&mut self, sign: &str) -> Result<()> {
        if self.eat_sign(sign)? { Ok(()) } else { Err(self.expected(&format!("`{sign}`"))) }
    }

    fn number(&mut self, what: &str) -> Result<u64> {
        if let Kind::Number(number) = self.peek()?.kind {
            self.take()?;
            return Ok(number);
        }
        Err(self.expected(what))
    }

    fn bytes(&mut self, what: &str) -> Result<Vec<u8>> {
        if matches!(self.peek()?.kind, Kind::String(_))
            && let Kind::String(bytes) = self.take()?.kind
        {
            return Ok(bytes);
        }
        Err(self.expected(&format!("{what} in quotes")))
    }

    /// A name: a word, or a string that is UTF-8.
    fn name(&mut self, what: &str) -> Result<String> {
        if !matches!(self.peek()?.kind, Kind::Word | Kind::String(_)) {
            return Err(self.expected(what));
        }
        let token = self.take()?;
        let bytes = match token.kind {
            Kind::String(bytes) => bytes,
            _ => self.text(&token).to_vec(),
        };
        String::from_utf8(bytes)
            .map_err(|_| self.lexer.wrong(token.start, format!("expected {what}, which has to be UTF-8")))
    }

    /// A regular expression in quotes, whose backslashes need not be doubled, or between slashes.
    fn regexp(&mut self) -> Result<Placed<Vec<u8>>> {
        self.lexer.is_regexp = true;
        let token = self.peek();
        let (at, is_slash) = match token {
            Ok(token) => (token.start, token.kind == Kind::Sign("/")),
            Err(error) => {
                self.lexer.is_regexp = false;
                return Err(error);
            }
        };
        self.lexer.is_regexp = false;
        if is_slash {
            self.take()?;
            return Ok(Placed::new(self.lexer.regexp()?, at));
        }
        Ok(Placed::new(self.bytes("a regular expression")?, at))
    }

    /// [`Parser::name`] and its place.
    fn placed_name(&mut self, what: &str) -> Result<Placed<String>> {
        let at = self.peek()?.start;
        Ok(Placed::new(self.name(what)?, at))
    }

    /// `a, b, ...` between parentheses.
    fn names(&mut self, what: &str) -> Result<Vec<Placed<String>>> {
        self.need_sign("(")?;
        let mut names = Vec::new();
        loop {
            self.element()?;
            names.push(self.placed_name(what)?);
            if !self.eat_sign(",")? {
                self.need_sign(")")?;
                return Ok(names);
            }
        }
    }

    /// `ns:table` or `table`, also between quotes; between these, also HQL's path `/a/b/table`.
    fn table(&mut self) -> Result<TableName> {
        let at = self.peek()?.start;
        let first = self.name("a table's name")?;
        if self.eat_sign(":")? {
            let name = Placed::new(self.name("a table's name")?, at);
            return Ok(TableName { namespace: Some(first), name });
        }
        if let Some(slash) = first.rfind('/') {
            let (path, name) = first.split_at(slash + 1);
            let name = Placed::new(name.to_owned(), at);
            return Ok(TableName { namespace: Some(path.to_owned()), name });
        }
        Ok(match first.split_once(':') {
            Some((namespace, name)) => {
                TableName { namespace: Some(namespace.to_owned()), name: Placed::new(name.to_owned(), at) }
            }
            None => TableName { namespace: None, name: Placed::new(first, at) },
        })
    }

    /// `cf`, `cf:*`, `cf:q`, `cf:^q`, `cf:/re/`, `'cf:q'`. Between `:` and what follows, there is no blank.
    fn columns(&mut self) -> Result<Columns> {
        self.element()?;
        let token = self.peek()?.clone();
        if let Kind::String(bytes) = &token.kind
            && let Some(colon) = bytes.iter().position(|byte| *byte == b':')
        {
            self.take()?;
            return self.split_column(bytes, colon, token.start);
        }
        let family = Placed::new(self.name("a column family's name")?, token.start);
        let next = self.peek()?;
        if next.kind != Kind::Sign(":") || next.start != token.end {
            return Ok(Columns { family, qualifiers: Qualifiers::All });
        }
        self.take()?;
        let qualifiers = match self.lexer.text.get(self.lexer.at) {
            Some(b'/') => {
                let at = self.lexer.at;
                self.lexer.at += 1;
                Qualifiers::Regexp(Placed::new(self.lexer.regexp()?, at))
            }
            Some(b'*') => {
                self.lexer.at += 1;
                Qualifiers::All
            }
            Some(b'^') => {
                self.lexer.at += 1;
                Qualifiers::Prefix(self.qualifier()?)
            }
            _ => Qualifiers::Exactly(self.qualifier()?),
        };
        Ok(Columns { family, qualifiers })
    }

    fn split_column(&self, bytes: &[u8], colon: usize, at: usize) -> Result<Columns> {
        let (family, qualifier) = bytes.split_at(colon);
        let family = std::str::from_utf8(family)
            .map_err(|_| self.lexer.wrong(at, "the name of a column family has to be UTF-8"))?;
        let qualifier = qualifier.get(1..).unwrap_or_default().to_vec();
        let family = Placed::new(family.to_owned(), at);
        Ok(Columns { family, qualifiers: Qualifiers::Exactly(qualifier) })
    }

    /// What follows `cf:` or `cf:^` without a blank: a string, or letters, digits, `_`, `-` and `.`.
    fn qualifier(&mut self) -> Result<Vec<u8>> {
        let rest = self.lexer.text.get(self.lexer.at..).unwrap_or_default();
        match rest {
            [b'\'' | b'"', ..] | [b'x' | b'X', b'\'', ..] => match self.take()?.kind {
                Kind::String(bytes) => Ok(bytes),
                _ => Ok(Vec::new()),
            },
            _ => {
                let is_part = |(at, byte): &(usize, &u8)| {
                    byte.is_ascii_alphanumeric()
                        || !byte.is_ascii()
                        || matches!(byte, b'_' | b'.')
                        || (**byte == b'-' && rest.get(at + 1) != Some(&b'-'))
                };
                let len = rest.iter().enumerate().take_while(is_part).count();
                self.lexer.at += len;
                Ok(rest.get(..len).unwrap_or_default().to_vec())
            }
        }
    }

    /// A single column; `cf` is that with the empty qualifier.
    fn column(&mut self) -> Result<Column> {
        let at = self.peek()?.start;
        let Columns { family, qualifiers } = self.columns()?;
        match qualifiers {
            Qualifiers::All => Ok(Column { family, qualifier: Vec::new() }),
            Qualifiers::Exactly(qualifier) => Ok(Column { family, qualifier }),
            _ => Err(self.lexer.wrong(at, "expected a single column, found a pattern of columns")),
        }
    }

    /// The next statement; `None`: there is none.
    fn statement(&mut self) -> Result<Option<Located>> {
        loop {
            self.lexer.skip_blanks()?;
            self.elements = 0;
            self.lexer.statement = self.next.as_ref().map_or(self.lexer.at, |token| token.start);
            if !self.eat_sign(";")? {
                break;
            }
        }
        let first = self.peek()?.clone();
        if first.kind == Kind::End {
            return Ok(None);
        }
        let statement = self.verb()?;
        let end = self.peek()?.clone();
        if !matches!(end.kind, Kind::End | Kind::Sign(";")) {
            return Err(self.expected("`;` or the end of the text"));
        }
        let text = self.lexer.slice(first.start, end.start);
        let place = first.start..first.start + text.trim_ascii_end().len();
        Ok(Some(Located { place, is_ended: end.kind != Kind::End, statement }))
    }

    fn verb(&mut self) -> Result<Statement> {
        let token = self.take()?;
        let word = match token.kind {
            Kind::Word => self.text(&token).to_ascii_uppercase(),
            _ => Vec::new(),
        };
        match word.as_slice() {
            b"CREATE" => self.create(),
            b"ALTER" => self.alter(),
            b"RENAME" => self.rename(),
            b"DROP" => self.drop(),
            b"SHOW" => self.show(),
            b"GET" => self.need(&["LISTING"]).map(|()| Statement::GetListing),
            b"DESCRIBE" => {
                self.need(&["TABLE"])?;
                let with_ids = self.eat("WITH")?;
                if with_ids {
                    self.need(&["IDS"])?;
                }
                let table = self.table()?;
                let into_file = if self.eat("INTO")? { Some(self.file()?) } else { None };
                Ok(Statement::DescribeTable { table, with_ids, into_file })
            }
            b"EXISTS" => {
                self.need(&["TABLE"])?;
                self.table().map(Statement::ExistsTable)
            }
            b"USE" => self.use_namespace(),
            b"COMPACT" => self.compact(),
            b"PAUSE" => self.number("a number of seconds").map(|seconds| Statement::Pause { seconds }),
            b"QUIT" | b"EXIT" => Ok(Statement::Quit),
            b"WAIT" if self.eat("FOR")? => {
                self.need(&["MAINTENANCE"]).map(|()| Statement::WaitForMaintenance)
            }
            b"REBUILD" => {
                // All kinds are rebuilt together.
                let _ = self.eat("VALUE")? || self.eat("QUALIFIER")?;
                self.need(&["INDICES"])?;
                self.table().map(Statement::RebuildIndices)
            }
            b"INSERT" => self.insert(),
            b"DELETE" => self.delete(),
            b"TRUNCATE" => {
                self.eat("TABLE")?;
                self.table().map(Statement::Truncate)
            }
            b"INCREMENT" => self.increment(),
            b"APPEND" => self.append(),
            b"CHECK" => self.check(),
            b"SELECT" => match self.counted()? {
                Some(counted) => {
                    let select = Box::new(self.from(false, Vec::new())?);
                    Ok(Statement::Count { select, counted })
                }
                None => self.select().map(|select| Statement::Select(Box::new(select))),
            },
            b"EXPLAIN" => {
                let is_analyzed = self.eat("ANALYZE")?;
                self.need(&["SELECT"])?;
                let select = Box::new(self.select()?);
                Ok(Statement::Explain { select, is_analyzed })
            }
            b"LOAD" if self.eat("CELL")? => self.load_cell(),
            b"LOAD" => self.load(),
            b"DUMP" if self.eat("CELL")? => self.dump_cell(),
            b"DUMP" => self.dump(),
            b"SOURCE" => self.bytes("a file's name").map(Statement::Source),
            other => {
                let later = LATER.iter().find(|(word, _)| word.as_bytes() == other);
                let of_sql = OF_SQL.iter().find(|word| word.as_bytes() == other);
                let of_servers = OF_SERVERS.iter().find(|word| word.as_bytes() == other);
                Err(match (later, of_servers.or(of_sql)) {
                    (Some((word, with)), _) => {
                        self.lexer.wrong(token.start, format!("not yet: `{word}` comes with {with}"))
                    }
                    (None, Some(word)) if of_sql.is_some() => {
                        let message = format!(
                            "there is no `{word}`: `INSERT INTO t VALUES ('row', family:qualifier, 'value')` gives a cell a new value"
                        );
                        self.lexer.wrong(token.start, message)
                    }
                    (None, Some(word)) => {
                        let message = format!(
                            "`{word}` is about the servers of a Hypertable cluster, which Esker does not have"
                        );
                        self.lexer.wrong(token.start, message)
                    }
                    (None, None) => {
                        self.expected_at(&token, "a statement, such as `SELECT` or `CREATE TABLE`")
                    }
                })
            }
        }
    }
}
