//! HBase's filter language.
//!
//! ```text
//! any     all  { OR all }
//! all     one  { AND one }
//! one     (SKIP | WHILE) one  |  ( any )  |  Name ( argument ... )
//! ```
//! Arguments are separated by commas or blanks: bytes in single quotes, or words (numbers, `true`, `<=`). The reader takes
//! time and memory linear in the text, and limits its length, its nesting and the number of its regular expressions.

use crate::error::{Error, Result};
use crate::filter::{Column, Comparator, Comparison, Filter, Kind, Test};

/// The longest text, in bytes.
const TEXT_LEN_MAX: usize = 1 << 20;

/// How deep parentheses, `SKIP` and `WHILE` may be nested.
const NESTING_MAX: usize = 100;

/// The most comparators of a filter that are patterns; each may take a few MiB.
const PATTERNS_MAX: usize = 32;

/// How much of the text an error shows, in bytes.
const SHOWN_LEN_MAX: usize = 40;

impl Filter {
    /// Reads a filter in HBase's filter language, as clients send it.
    ///
    /// Filters are `Name(argument, ...)`. `SKIP` and `WHILE` in front of one bind strongest, then `AND`, then `OR`;
    /// parentheses group. Bytes stand in single quotes, in which `''` is one quote. Comparisons are `<`, `<=`, `=`, `!=`, `>`
    /// and `>=`; what they compare with begins with `binary:`, `binaryprefix:`, `regexstring:`, `regexstringnocase:` or
    /// `substring:`.
    ///
    /// # Example
    /// ```
    /// use esker_table::{Error, Filter};
    ///
    /// Filter::parse(b"SingleColumnValueFilter('weather', 'sky', =, 'substring:rain') AND (SKIP ValueFilter(!=, 'binary:'))")?;
    /// let error = Filter::parse(b"PrefixFilter(oslo)").unwrap_err();
    /// assert_eq!(error.to_string(), "filter, at byte 13: expected bytes in single quotes, found \"oslo\"");
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// `Filter` when `text` is no filter: what was expected, and where. Also when it is longer than 1 MiB, nested deeper than
    /// 100 levels, or has a regular expression that is too large.
    pub fn parse(text: &[u8]) -> Result<Filter> {
        parse(text)
    }
}

fn parse(text: &[u8]) -> Result<Filter> {
    if text.len() > TEXT_LEN_MAX {
        let message = format!("a filter has up to {TEXT_LEN_MAX} bytes; this one has {}", text.len());
        return Err(Error::Filter { message, at: TEXT_LEN_MAX });
    }
    let mut reader = Reader { text, at: 0, nesting: 0, patterns: 0 };
    let filter = reader.any()?;
    reader.blanks();
    if reader.at < text.len() {
        return Err(reader.expected(reader.at, "AND, OR or the end"));
    }
    Ok(filter)
}

struct Reader<'t> {
    text: &'t [u8],
    at: usize,
    nesting: usize,
    patterns: usize,
}

/// An argument, and where it begins.
struct Argument<'t> {
    at: usize,
    what: What<'t>,
}

enum What<'t> {
    Quoted(Vec<u8>),
    Word(&'t [u8]),
}

/// The arguments of one filter, from first to last.
struct Arguments<'t> {
    /// Where the filter's name begins.
    at: usize,
    name: &'t str,
    arguments: std::vec::IntoIter<Argument<'t>>,
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

/// The beginning of `bytes`, as an error shows it.
fn shown(bytes: &[u8]) -> String {
    let dots = if bytes.len() > SHOWN_LEN_MAX { "..." } else { "" };
    let escaped = bytes[..bytes.len().min(SHOWN_LEN_MAX)].escape_ascii().to_string();
    format!("\"{}{dots}\"", escaped.replace("\\'", "'"))
}

fn wrong(at: usize, message: impl Into<String>) -> Error {
    Error::Filter { message: message.into(), at }
}

impl<'t> Reader<'t> {
    fn rest(&self) -> &'t [u8] {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn blanks(&mut self) {
        self.at += self.rest().iter().take_while(|byte| is_blank(**byte)).count();
    }

    /// The word that begins here: up to a blank, a parenthesis, a comma or a quote.
    fn word(&self) -> &'t [u8] {
        let rest = self.rest();
        let ends = |byte: &u8| is_blank(*byte) || matches!(byte, b'(' | b')' | b',' | b'\'');
        &rest[..rest.iter().position(ends).unwrap_or(rest.len())]
    }

    /// Goes behind `word` if it is the next one.
    fn takes(&mut self, word: &str) -> bool {
        self.blanks();
        let is_next = self.word() == word.as_bytes();
        if is_next {
            self.at += word.len();
        }
        is_next
    }

    fn expected(&self, at: usize, what: &str) -> Error {
        let rest = self.text.get(at..).unwrap_or_default();
        if rest.is_empty() {
            return wrong(at, format!("expected {what}, found the end"));
        }
        let len = rest.iter().position(|byte| is_blank(*byte)).unwrap_or(rest.len());
        wrong(at, format!("expected {what}, found {}", shown(&rest[..len])))
    }

    fn any(&mut self) -> Result<Filter> {
        let first = self.all()?;
        self.list(first, "OR", Reader::all, Filter::any)
    }

    fn all(&mut self) -> Result<Filter> {
        let first = self.one()?;
        self.list(first, "AND", Reader::one, Filter::all)
    }

    /// `first` and what the operators `word` join to it.
    fn list(
        &mut self,
        first: Filter,
        word: &str,
        next: fn(&mut Self) -> Result<Filter>,
        joined: fn(Vec<Filter>) -> Filter,
    ) -> Result<Filter> {
        if !self.takes(word) {
            return Ok(first);
        }
        let mut filters = vec![first, next(self)?];
        while self.takes(word) {
            filters.push(next(self)?);
        }
        Ok(joined(filters))
    }

    fn one(&mut self) -> Result<Filter> {
        self.blanks();
        let at = self.at;
        if self.takes("SKIP") {
            return Ok(self.nested(at, Reader::one)?.skip());
        }
        if self.takes("WHILE") {
            return Ok(self.nested(at, Reader::one)?.while_match());
        }
        if self.rest().first() == Some(&b'(') {
            self.at += 1;
            let filter = self.nested(at, Reader::any)?;
            self.blanks();
            if self.rest().first() != Some(&b')') {
                return Err(self.expected(self.at, "AND, OR or \")\""));
            }
            self.at += 1;
            return Ok(filter);
        }
        self.simple()
    }

    /// What `inner` reads one level deeper, behind the operator or parenthesis at `at`.
    fn nested(&mut self, at: usize, inner: fn(&mut Self) -> Result<Filter>) -> Result<Filter> {
        if self.nesting == NESTING_MAX {
            return Err(wrong(at, format!("a filter is nested up to {NESTING_MAX} levels deep")));
        }
        self.nesting += 1;
        let filter = inner(self);
        self.nesting -= 1;
        filter
    }

    fn simple(&mut self) -> Result<Filter> {
        let (at, name) = (self.at, self.word());
        let Some(name) = std::str::from_utf8(name).ok().filter(|name| NAMES.contains(name)) else {
            return Err(self.expected(at, "a filter, \"(\", SKIP or WHILE"));
        };
        self.at += name.len();
        self.blanks();
        if self.rest().first() != Some(&b'(') {
            return Err(self.expected(self.at, &format!("\"(\" behind {name}")));
        }
        self.at += 1;
        let mut arguments = Vec::new();
        loop {
            self.at += self.rest().iter().take_while(|byte| is_blank(**byte) || **byte == b',').count();
            match self.rest().first() {
                None => return Err(self.expected(self.at, &format!("an argument of {name} or \")\""))),
                Some(b')') => break,
                Some(b'\'') => arguments.push(self.quoted()?),
                Some(b'(') => return Err(self.expected(self.at, &format!("an argument of {name} or \")\""))),
                Some(_) => {
                    arguments.push(Argument { at: self.at, what: What::Word(self.word()) });
                    self.at += self.word().len();
                }
            }
        }
        self.at += 1;
        self.filter(Arguments { at, name, arguments: arguments.into_iter() })
    }

    fn quoted(&mut self) -> Result<Argument<'t>> {
        let (at, mut bytes) = (self.at, Vec::new());
        loop {
            self.at += 1;
            let rest = self.rest();
            let Some(len) = rest.iter().position(|byte| *byte == b'\'') else {
                return Err(wrong(at, "expected a single quote that ends the bytes, found the end"));
            };
            bytes.extend_from_slice(&rest[..len]);
            self.at += len + 1;
            // Two quotes are one.
            if self.rest().first() != Some(&b'\'') {
                return Ok(Argument { at, what: What::Quoted(bytes) });
            }
            bytes.push(b'\'');
        }
    }

    /// What the arguments of a comparison say.
    fn test(&mut self, arguments: &mut Arguments<'t>, any_order: bool) -> Result<Test> {
        let (at, comparison) = arguments.comparison()?;
        let (place, text) = arguments.quoted("bytes in single quotes")?;
        let known = "a comparator: binary:, binaryprefix:, regexstring:, regexstringnocase: or substring:";
        let found = || format!("expected {known}, found {}", shown(&text));
        let Some(colon) = text.iter().position(|byte| *byte == b':') else {
            return Err(wrong(place, found()));
        };
        let (kind, bytes) = (&text[..colon], &text[colon + 1..]);
        let build: fn(&str) -> Result<Comparator> = match kind {
            b"binary" => return Ok(Test { comparison, comparator: Comparator::binary(bytes) }),
            b"binaryprefix" => return Ok(Test { comparison, comparator: Comparator::prefix(bytes) }),
            b"regexstring" => Comparator::java_regex,
            b"regexstringnocase" => Comparator::java_regex_no_case,
            b"substring" => Comparator::substring,
            _ => return Err(wrong(place, found())),
        };
        if !any_order && !matches!(comparison, Comparison::Equal | Comparison::NotEqual) {
            return Err(wrong(at, format!("expected = or != with {}:", kind.escape_ascii())));
        }
        self.patterns += 1;
        if self.patterns > PATTERNS_MAX {
            return Err(wrong(place, format!("a filter has up to {PATTERNS_MAX} patterns")));
        }
        let pattern = std::str::from_utf8(bytes).map_err(|_| {
            wrong(place, format!("expected UTF-8 behind {}:, found {}", kind.escape_ascii(), shown(bytes)))
        })?;
        let comparator = build(pattern).map_err(|error| wrong(place, error.to_string()))?;
        Ok(Test { comparison, comparator })
    }

    /// The filter with these name and arguments.
    fn filter(&mut self, mut arguments: Arguments<'t>) -> Result<Filter> {
        let (given, name) = (arguments.arguments.len(), arguments.name);
        let counts: &[usize] = match name {
            "FirstKeyOnlyFilter" => &[0],
            "KeyOnlyFilter" => &[0, 1],
            "MultipleColumnPrefixFilter" | "TimestampsFilter" => &[],
            "ColumnPaginationFilter" | "RowFilter" | "FamilyFilter" | "QualifierFilter" | "ValueFilter" => {
                &[2]
            }
            "ColumnRangeFilter" | "ColumnValueFilter" => &[4],
            "SingleColumnValueFilter" | "SingleColumnValueExcludeFilter" => &[4, 6],
            "DependentColumnFilter" => &[2, 3, 5],
            _ => &[1],
        };
        if !counts.is_empty() && !counts.contains(&given) {
            let counts: Vec<String> = counts.iter().map(usize::to_string).collect();
            let message = format!("expected {} arguments of {name}, found {given}", counts.join(" or "));
            return Err(wrong(arguments.at, message));
        }
        let kind = match name {
            "KeyOnlyFilter" => Kind::KeyOnly { lengths: given == 1 && arguments.boolean()? },
            "FirstKeyOnlyFilter" => Kind::FirstKeyOnly,
            "PrefixFilter" => Kind::Prefix(arguments.bytes()?),
            "ColumnPrefixFilter" => Kind::ColumnPrefix(arguments.bytes()?),
            "MultipleColumnPrefixFilter" => {
                let mut prefixes = Vec::with_capacity(given);
                for _ in 0..given {
                    prefixes.push(arguments.bytes()?);
                }
                let filter = Filter::column_prefixes(prefixes);
                if matches!(&filter.kind, Kind::ColumnPrefixes(distinct) if distinct.len() < given) {
                    return Err(wrong(arguments.at, format!("expected different prefixes of {name}")));
                }
                return Ok(filter);
            }
            "ColumnCountGetFilter" => Kind::ColumnCountGet(arguments.count()?),
            "PageFilter" => Kind::Page(arguments.number(i64::MAX as u64)?),
            "ColumnPaginationFilter" => {
                Kind::ColumnPagination { limit: arguments.count()?, offset: arguments.count()? }
            }
            "InclusiveStopFilter" => Kind::InclusiveStop(arguments.bytes()?),
            "TimestampsFilter" => {
                let mut timestamps = Vec::with_capacity(given);
                for _ in 0..given {
                    timestamps.push(arguments.number(i64::MAX as u64)? as i64);
                }
                return Ok(Filter::timestamps(timestamps));
            }
            "RowFilter" => Kind::Row(self.test(&mut arguments, false)?),
            "FamilyFilter" => Kind::Family(self.test(&mut arguments, false)?),
            "QualifierFilter" => Kind::Qualifier(self.test(&mut arguments, false)?),
            "ValueFilter" => Kind::Value(self.test(&mut arguments, false)?),
            "ColumnValueFilter" => {
                Kind::ColumnValue { column: arguments.column()?, test: self.test(&mut arguments, false)? }
            }
            "ColumnRangeFilter" => Kind::ColumnRange {
                from: (arguments.bytes()?, arguments.boolean()?),
                to: (arguments.bytes()?, arguments.boolean()?),
            },
            "DependentColumnFilter" => Kind::DependentColumn {
                column: arguments.column()?,
                drop: given > 2 && arguments.boolean()?,
                test: (given > 3).then(|| self.test(&mut arguments, true)).transpose()?,
            },
            _ => {
                let (column, test) = (arguments.column()?, self.test(&mut arguments, false)?);
                let (if_missing, latest_only) =
                    if given == 6 { (arguments.boolean()?, arguments.boolean()?) } else { (false, true) };
                let exclude = name == "SingleColumnValueExcludeFilter";
                Kind::SingleColumn { column, test, if_missing, latest_only, exclude }
            }
        };
        Ok(Filter { kind })
    }
}

impl<'t> Arguments<'t> {
    fn next(&mut self) -> Result<Argument<'t>> {
        let missing = || wrong(self.at, format!("expected another argument of {}", self.name));
        self.arguments.next().ok_or_else(missing)
    }

    fn quoted(&mut self, what: &str) -> Result<(usize, Vec<u8>)> {
        let argument = self.next()?;
        match argument.what {
            What::Quoted(bytes) => Ok((argument.at, bytes)),
            What::Word(word) => Err(wrong(argument.at, format!("expected {what}, found {}", shown(word)))),
        }
    }

    fn bytes(&mut self) -> Result<Vec<u8>> {
        Ok(self.quoted("bytes in single quotes")?.1)
    }

    fn column(&mut self) -> Result<Column> {
        let family = self.quoted("a column family in single quotes")?.1;
        Ok(Column { family, qualifier: self.quoted("a qualifier in single quotes")?.1 })
    }

    /// The next argument, which is no bytes, as `read` understands it.
    fn word<T>(&mut self, what: &str, read: impl Fn(&[u8]) -> Option<T>) -> Result<(usize, T)> {
        let argument = self.next()?;
        let found = match &argument.what {
            What::Word(word) => match read(word) {
                Some(value) => return Ok((argument.at, value)),
                None => shown(word),
            },
            What::Quoted(bytes) => format!("{} in quotes", shown(bytes)),
        };
        Err(wrong(argument.at, format!("expected {what}, found {found}")))
    }

    fn number(&mut self, max: u64) -> Result<u64> {
        let read = |word: &[u8]| {
            let is_number = !word.is_empty() && word.iter().all(u8::is_ascii_digit);
            let number = std::str::from_utf8(word).ok().filter(|_| is_number)?.parse().ok()?;
            (number <= max).then_some(number)
        };
        Ok(self.word(&format!("a number from 0 to {max}"), read)?.1)
    }

    fn count(&mut self) -> Result<u32> {
        Ok(self.number(i32::MAX as u64)? as u32)
    }

    fn boolean(&mut self) -> Result<bool> {
        let read = |word: &[u8]| {
            let is_true = word.eq_ignore_ascii_case(b"true");
            (is_true || word.eq_ignore_ascii_case(b"false")).then_some(is_true)
        };
        Ok(self.word("true or false", read)?.1)
    }

    fn comparison(&mut self) -> Result<(usize, Comparison)> {
        self.word("<, <=, =, !=, > or >=", |word| match word {
            b"<" => Some(Comparison::Less),
            b"<=" => Some(Comparison::LessOrEqual),
            b"=" => Some(Comparison::Equal),
            b"!=" => Some(Comparison::NotEqual),
            b">=" => Some(Comparison::GreaterOrEqual),
            b">" => Some(Comparison::Greater),
            _ => None,
        })
    }
}

const NAMES: &[&str] = &[
    "ColumnCountGetFilter",
    "ColumnPaginationFilter",
    "ColumnPrefixFilter",
    "ColumnRangeFilter",
    "ColumnValueFilter",
    "DependentColumnFilter",
    "FamilyFilter",
    "FirstKeyOnlyFilter",
    "InclusiveStopFilter",
    "KeyOnlyFilter",
    "MultipleColumnPrefixFilter",
    "PageFilter",
    "PrefixFilter",
    "QualifierFilter",
    "RowFilter",
    "SingleColumnValueExcludeFilter",
    "SingleColumnValueFilter",
    "TimestampsFilter",
    "ValueFilter",
];

#[cfg(test)]
mod tests;
