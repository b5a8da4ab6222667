//! `SELECT`.
//!
//! ```text
//! 'a' <= ROW < 'b'       a chain: a bound, the key, a bound; either bound may be missing
//! (ROW = 'a' OR ...)     alternatives of one kind, rows or cells
//! ```

use esker_table::TIMESTAMP_MAX;

use super::Parser;
use super::time::{Time, time};
use crate::error::Result;
use crate::lex::Kind;
use crate::statement::{
    Bound, CellPlace, CellRange, ColumnTest, Columns, Counted, Interval, Qualifiers, Rows, Select,
    SelectOptions, Term, TimeUnit, ValueTest,
};

/// What a chain of comparisons is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Key {
    Row,
    Cell,
    Time,
}

/// The bound of a chain, before it is known what the chain is about.
#[derive(Debug, Clone)]
struct Literal {
    at: usize,
    kind: Kind,
    /// `5 SECONDS`
    unit: Option<TimeUnit>,
    /// `'row', 'cf:q'`
    column: Option<Columns>,
}

const TERMS: &str = "a condition on `ROW`, `CELL`, `VALUE`, `TIMESTAMP` or a column";

impl Parser<'_> {
    /// What is behind `SELECT`.
    pub(super) fn select(&mut self) -> Result<Select> {
        let is_of_cells = self.eat("CELLS")?;
        let mut columns = Vec::new();
        if !self.eat_sign("*")? {
            columns.push(self.columns()?);
            while self.eat_sign(",")? {
                columns.push(self.columns()?);
            }
        }
        self.from(is_of_cells, columns)
    }

    /// HQL has no counts; these are as in SQL: `COUNT(*)`, `COUNT(ROWS)`, `COUNT(CELLS)`.
    pub(super) fn counted(&mut self) -> Result<Option<Counted>> {
        if !self.is_call("COUNT")? {
            return Ok(None);
        }
        self.take()?;
        self.need_sign("(")?;
        let counted = if self.eat_sign("*")? || self.eat("ROWS")? {
            Counted::Rows
        } else if self.eat("CELLS")? {
            Counted::Cells
        } else {
            return Err(self.expected("`*`, `ROWS` or `CELLS`"));
        };
        self.need_sign(")")?;
        Ok(Some(counted))
    }

    /// Whether a word and `(` follow.
    pub(super) fn is_call(&mut self, word: &str) -> Result<bool> {
        Ok(self.is_word(word)? && self.is_followed_by(b"(")?)
    }

    /// Whether `sign` follows the next token; the empty one: whether the text ends there.
    pub(super) fn is_followed_by(&mut self, sign: &[u8]) -> Result<bool> {
        let end = self.peek()?.end;
        let follows = self.lexer.text.get(end..).unwrap_or_default().trim_ascii_start();
        Ok(if sign.is_empty() { follows.is_empty() } else { follows.starts_with(sign) })
    }

    /// Conditions on `ROW`: one, or alternatives, or the two ends of an interval.
    pub(super) fn rows(&mut self) -> Result<Vec<Rows>> {
        let at = self.peek()?.start;
        let is_chain = self.is_sign("(")? || matches!(self.peek()?.kind, Kind::String(_));
        if !is_chain && !self.is_word("ROW")? {
            return Err(self.expected("`ROW`"));
        }
        let first = self.term()?;
        match self.alternatives(first)? {
            Term::Rows(rows) if self.is_word("AND")? => self.other_end(rows),
            Term::Rows(rows) => Ok(rows),
            _ => Err(self.lexer.wrong(at, "expected conditions on `ROW` alone")),
        }
    }

    /// `AND ROW <= 'b'` after `rows`, which is `ROW >= 'a'`, or the other way round.
    fn other_end(&mut self, mut rows: Vec<Rows>) -> Result<Vec<Rows>> {
        let at = self.peek()?.start;
        self.need(&["AND"])?;
        let is_one = |one: bool, other: bool| one != other;
        if let Term::Rows(more) = self.term()?
            && let ([Rows::Within(all)], [Rows::Within(end)]) = (rows.as_mut_slice(), more.as_slice())
            && is_one(all.low.is_some(), end.low.is_some())
            && is_one(all.high.is_some(), end.high.is_some())
        {
            all.low = all.low.take().or_else(|| end.low.clone());
            all.high = all.high.take().or_else(|| end.high.clone());
            return Ok(rows);
        }
        Err(self.lexer.wrong(
            at,
            "expected one interval of rows, such as `'a' <= ROW < 'b'`, or alternatives with `OR`",
        ))
    }

    /// What follows the columns of a query.
    pub(super) fn from(&mut self, is_of_cells: bool, columns: Vec<Columns>) -> Result<Select> {
        self.need(&["FROM"])?;
        let table = self.table()?;
        let terms = self.conditions()?;
        let options = self.options()?;
        Ok(Select { is_of_cells, columns, table, terms, options })
    }

    /// `WHERE ...`, if it is there.
    pub(super) fn conditions(&mut self) -> Result<Vec<Term>> {
        let mut terms = Vec::new();
        if self.eat("WHERE")? {
            let first = self.term()?;
            // As in HQL, alternatives that are all of the conditions need no parentheses.
            let is_of_alternatives = self.is_word("OR")?;
            terms.push(self.alternatives(first)?);
            while self.is_word("AND")? {
                if is_of_alternatives {
                    return Err(self.expected(
                        "the end of alternatives; with `AND`, they have to be between parentheses",
                    ));
                }
                self.take()?;
                terms.push(self.term()?);
            }
            if self.is_word("OR")? {
                return Err(self.expected("`AND`; alternatives with `OR` have to be between parentheses"));
            }
        }
        Ok(terms)
    }

    fn options(&mut self) -> Result<SelectOptions> {
        let mut options = SelectOptions::default();
        'options: loop {
            let at = self.peek()?.start;
            let numbers = [
                ("MAX_VERSIONS", &mut options.max_versions),
                ("LIMIT", &mut options.limit),
                ("OFFSET", &mut options.offset),
                ("CELL_LIMIT", &mut options.cell_limit),
                ("CELL_OFFSET", &mut options.cell_offset),
                ("CELL_LIMIT_PER_FAMILY", &mut options.cell_limit_per_family),
                ("CELL_OFFSET_PER_FAMILY", &mut options.cell_offset_per_family),
            ];
            for (word, option) in numbers {
                if self.eat(word)? || (word == "MAX_VERSIONS" && self.eat("REVS")?) {
                    self.eat_sign("=")?;
                    let number = self.number("a number")?;
                    if option.replace(number).is_some() {
                        return Err(self.lexer.wrong(at, "the option is there twice"));
                    }
                    continue 'options;
                }
            }
            let flags = [
                ("KEYS_ONLY", &mut options.keys_only),
                ("DISPLAY_TIMESTAMPS", &mut options.display_timestamps),
                ("RETURN_DELETES", &mut options.return_deletes),
                ("NO_ESCAPE", &mut options.no_escape),
                ("SCAN_AND_FILTER_ROWS", &mut options.scan_and_filter_rows),
                ("REVERSED", &mut options.reversed),
            ];
            for (word, option) in flags {
                if self.eat(word)? || (word == "NO_ESCAPE" && self.eat("NOESCAPE")?) {
                    *option = true;
                    continue 'options;
                }
            }
            // The answer is the same with HQL's cache and without it.
            if self.eat("NO_CACHE")? {
                continue;
            }
            if self.eat("SEPARATOR")? || self.eat("FS")? {
                self.need_sign("=")?;
                if options.separator.replace(self.written_separator()?).is_some() {
                    return Err(self.lexer.wrong(at, "the option is there twice"));
                }
                continue;
            }
            if !self.eat("INTO")? {
                return Ok(options);
            }
            self.need(&["FILE"])?;
            let at = self.peek()?.start;
            if options.into_file.replace(self.bytes("a file")?).is_some() {
                return Err(self.lexer.wrong(at, "`INTO FILE` is there twice"));
            }
        }
    }

    /// A part of `WHERE`.
    fn term(&mut self) -> Result<Term> {
        if !self.eat_sign("(")? {
            return self.simple_term();
        }
        let first = self.simple_term()?;
        let all = self.alternatives(first)?;
        self.need_sign(")")?;
        Ok(all)
    }

    /// `first`, and what follows it with `OR`.
    fn alternatives(&mut self, first: Term) -> Result<Term> {
        let mut all = first;
        while self.eat("OR")? {
            let at = self.peek()?.start;
            match (&mut all, self.simple_term()?) {
                (Term::Rows(rows), Term::Rows(more)) => rows.extend(more),
                (Term::Cells(cells), Term::Cells(more)) => cells.extend(more),
                (Term::Columns(tests), Term::Columns(more)) => tests.extend(more),
                _ => {
                    let message = "alternatives with `OR` are all of `ROW`, all of `CELL` or all of columns";
                    return Err(self.lexer.wrong(at, message));
                }
            }
        }
        Ok(all)
    }

    /// A part of `WHERE` without parentheses.
    fn simple_term(&mut self) -> Result<Term> {
        self.element()?;
        if let Some(key) = self.key()? {
            return self.key_first(key);
        }
        if self.eat("VALUE")? {
            if !self.eat_sign("=~")? {
                self.need(&["REGEXP"])?;
            }
            return self.regexp().map(Term::ValueRegexp);
        }
        if let Some(test) = self.call()? {
            return Ok(Term::Columns(vec![test]));
        }
        let token = self.peek()?.clone();
        match token.kind {
            Kind::Number(_) => {
                let literal = self.literal()?;
                self.chain(literal)
            }
            Kind::String(bytes) => {
                let literal = self.string_literal()?;
                match literal {
                    Some(literal) => self.chain(literal),
                    None => {
                        // A column; a token is read again where one was looked at.
                        self.lexer.at = token.start;
                        self.next = None;
                        if bytes.is_empty() {
                            return Err(self.expected(TERMS));
                        }
                        self.column_term()
                    }
                }
            }
            Kind::Word => self.column_term(),
            _ => Err(self.expected(TERMS)),
        }
    }

    fn key(&mut self) -> Result<Option<Key>> {
        for (word, key) in [("ROW", Key::Row), ("CELL", Key::Cell), ("TIMESTAMP", Key::Time)] {
            if self.eat(word)? {
                return Ok(Some(key));
            }
        }
        Ok(None)
    }

    /// HQL's `Exists(c)` and `Regexp(c, 're')`.
    fn call(&mut self) -> Result<Option<ColumnTest>> {
        for name in ["EXISTS", "REGEXP"] {
            if !self.is_call(name)? {
                continue;
            }
            self.take()?;
            self.need_sign("(")?;
            let columns = self.columns()?;
            let test = match name {
                "EXISTS" => ValueTest::Prefix(Vec::new()),
                _ => {
                    self.need_sign(",")?;
                    ValueTest::Regexp(self.regexp()?)
                }
            };
            self.need_sign(")")?;
            return Ok(Some(ColumnTest { columns, test }));
        }
        Ok(None)
    }

    /// `cf = 'v'`, `cf =^ 'v'`, `cf REGEXP 'v'`, `cf =~ /v/`
    fn column_term(&mut self) -> Result<Term> {
        let columns = self.columns()?;
        let test = if self.eat_sign("=")? {
            ValueTest::Exactly(self.bytes("a value")?)
        } else if self.eat_sign("=^")? {
            ValueTest::Prefix(self.bytes("the beginning of a value")?)
        } else if self.eat("REGEXP")? || self.eat_sign("=~")? {
            ValueTest::Regexp(self.regexp()?)
        } else {
            return Err(self.expected("`=`, `=^`, `=~` or `REGEXP`"));
        };
        Ok(Term::Columns(vec![ColumnTest { columns, test }]))
    }

    /// A string that begins a chain; `None`: it is a column.
    fn string_literal(&mut self) -> Result<Option<Literal>> {
        let literal = self.literal()?;
        let next = &self.peek()?.kind;
        let is_bound = literal.column.is_some() || matches!(next, Kind::Sign("<" | "<=" | ">" | ">="));
        Ok(is_bound.then_some(literal))
    }

    /// `'r'`, `'r','cf:q'`, or a number, after which its unit may follow.
    fn literal(&mut self) -> Result<Literal> {
        let token = self.take()?;
        if !matches!(token.kind, Kind::String(_) | Kind::Number(_)) {
            return Err(self.expected_at(&token, "a row, a cell or a timestamp"));
        }
        let is_string = matches!(token.kind, Kind::String(_));
        let column = if is_string && self.eat_sign(",")? { Some(self.columns()?) } else { None };
        let unit = if is_string { None } else { self.unit()? };
        Ok(Literal { at: token.start, kind: token.kind, unit, column })
    }

    /// A chain whose first bound was read.
    fn chain(&mut self, first: Literal) -> Result<Term> {
        let sign = self.inequality()?;
        let Some(sign) = sign else { return Err(self.expected("`<`, `<=`, `>` or `>=`")) };
        let Some(key) = self.key()? else { return Err(self.expected("`ROW`, `CELL` or `TIMESTAMP`")) };
        // `'a' < ROW` is `ROW > 'a'`.
        let first_is_low = sign.0;
        let (mut low, mut high) = (None, None);
        let bound = (first, sign.1);
        if first_is_low {
            low = Some(bound);
        } else {
            high = Some(bound);
        }
        if let Some((is_high, is_included)) = self.inequality()? {
            let second = self.literal()?;
            if is_high != first_is_low {
                return Err(self.lexer.wrong(second.at, "both bounds are on the same side"));
            }
            let bound = Some((second, is_included));
            if is_high { high = bound } else { low = bound }
        }
        self.interval(key, low, high)
    }

    /// `ROW ...`, `CELL ...`, `TIMESTAMP ...`
    fn key_first(&mut self, key: Key) -> Result<Term> {
        if key == Key::Row {
            if self.eat_sign("=^")? {
                return Ok(Term::Rows(vec![Rows::Prefix(self.bytes("the beginning of a row")?)]));
            }
            if self.eat("REGEXP")? || self.eat_sign("=~")? {
                return Ok(Term::Rows(vec![Rows::Regexp(self.regexp()?)]));
            }
            if self.eat_sign("=")? {
                return Ok(Term::Rows(vec![Rows::Exactly(self.bytes("a row")?)]));
            }
        }
        if key == Key::Cell && self.eat_sign("=^")? {
            let literal = self.literal()?;
            return Ok(Term::Cells(vec![CellRange::Prefix(self.cell_of(literal)?)]));
        }
        if self.is_sign("=")? {
            self.take()?;
            let literal = self.literal()?;
            let again = literal.clone();
            if key == Key::Time {
                // A cell that is written with such a time has its milliseconds too.
                let at = Time { ns: 0, ..self.time_of(&literal)? };
                let bound = |is_high| Some(whole(&Bound { at, is_included: true }, is_high));
                return Ok(Term::Time(Interval { low: bound(false), high: bound(true) }));
            }
            return self.interval(key, Some((again, true)), Some((literal, true)));
        }
        match self.inequality()? {
            Some((is_high, is_included)) => {
                let bound = Some((self.literal()?, is_included));
                if is_high { self.interval(key, None, bound) } else { self.interval(key, bound, None) }
            }
            None if key == Key::Row => Err(self.expected("`=`, `=^`, `REGEXP`, `<`, `<=`, `>` or `>=`")),
            None if key == Key::Cell => Err(self.expected("`=`, `=^`, `<`, `<=`, `>` or `>=`")),
            None => Err(self.expected("`=`, `<`, `<=`, `>` or `>=`")),
        }
    }

    /// `<`, `<=`: true; `>`, `>=`: false; and whether the bound is included.
    fn inequality(&mut self) -> Result<Option<(bool, bool)>> {
        let found = match self.peek()?.kind {
            Kind::Sign("<") => (true, false),
            Kind::Sign("<=") => (true, true),
            Kind::Sign(">") => (false, false),
            Kind::Sign(">=") => (false, true),
            _ => return Ok(None),
        };
        self.take()?;
        Ok(Some(found))
    }

    fn interval(
        &mut self,
        key: Key,
        low: Option<(Literal, bool)>,
        high: Option<(Literal, bool)>,
    ) -> Result<Term> {
        Ok(match key {
            Key::Row => Term::Rows(vec![Rows::Within(Interval {
                low: self.bound(low, Self::row_of)?,
                high: self.bound(high, Self::row_of)?,
            })]),
            Key::Cell => Term::Cells(vec![CellRange::Within(Interval {
                low: self.bound(low, Self::cell_of)?,
                high: self.bound(high, Self::cell_of)?,
            })]),
            Key::Time => {
                let read = |parser: &Self, literal: Literal| parser.time_of(&literal);
                let (low, high) = (self.bound(low, read)?, self.bound(high, read)?);
                Term::Time(Interval {
                    low: low.map(|low| whole(&low, false)),
                    high: high.map(|high| whole(&high, true)),
                })
            }
        })
    }

    fn bound<T>(
        &self,
        bound: Option<(Literal, bool)>,
        read: impl Fn(&Self, Literal) -> Result<T>,
    ) -> Result<Option<Bound<T>>> {
        bound.map(|(literal, is_included)| Ok(Bound { at: read(self, literal)?, is_included })).transpose()
    }

    fn row_of(&self, literal: Literal) -> Result<Vec<u8>> {
        match (literal.kind, literal.column) {
            (Kind::String(row), None) => Ok(row),
            _ => Err(self.lexer.wrong(literal.at, "expected a row in quotes")),
        }
    }

    fn cell_of(&self, literal: Literal) -> Result<CellPlace> {
        let wrong = || self.lexer.wrong(literal.at, "expected a row in quotes, a comma and a column");
        let (Kind::String(row), Some(columns)) = (literal.kind, literal.column) else { return Err(wrong()) };
        let qualifier = match columns.qualifiers {
            Qualifiers::All => Vec::new(),
            Qualifiers::Exactly(qualifier) => qualifier,
            _ => return Err(wrong()),
        };
        Ok(CellPlace { row, column: crate::statement::Column { family: columns.family, qualifier } })
    }

    fn time_of(&self, literal: &Literal) -> Result<Time> {
        let value = match (&literal.kind, &literal.column) {
            // Programs write the latest timestamp for no bound.
            (Kind::Number(number), None)
                if literal.unit.is_none() && i64::try_from(*number) == Ok(TIMESTAMP_MAX) =>
            {
                Some(Time { ms: TIMESTAMP_MAX, ns: 0 })
            }
            (Kind::Number(number), None) => return self.moment(*number, literal.unit, literal.at),
            (Kind::String(bytes), None) => time(bytes),
            _ => None,
        };
        let value = value.filter(|value| value.ms <= TIMESTAMP_MAX);
        value.ok_or_else(|| self.lexer.wrong(literal.at, format!("expected {}", super::time::EXPECTED)))
    }
}

/// The bound in whole milliseconds, as cells have them: a low bound is rounded up, a high one down.
fn whole(bound: &Bound<Time>, is_high: bool) -> Bound<i64> {
    let Bound { at: Time { ms, ns }, is_included } = *bound;
    match ms {
        // There are no cells before 1970.
        ..0 => Bound { at: 0, is_included: !is_high },
        _ => Bound { at: ms, is_included: if ns > 0 { is_high } else { is_included } },
    }
}
