//! Statements that change cells, and those that move them from and to files.

use std::hash::{BuildHasher, RandomState};

use super::Parser;
use super::time::milliseconds;
use crate::error::Result;
use crate::lex::Kind;
use crate::statement::{
    Action, Column, Columns, Comparison, Condition, Delete, DeleteTime, DumpTable, FileCell, LoadData,
    NewCell, Placed, Qualifiers, Rows, Statement, TimeUnit,
};

/// The most characters that `ROW_UNIQUIFY_CHARS` appends.
const UNIQUIFY_MAX: u64 = 64;

/// A part of a tuple of `VALUES`, and where it is.
struct Part {
    at: usize,
    kind: PartKind,
}

enum PartKind {
    Number(u64, Option<TimeUnit>),
    String(Vec<u8>),
    /// A column that is not all in quotes.
    Column(Column),
}

/// A new identifier of 122 random bits, as text of 36 characters (UUID version 4).
fn guid() -> String {
    // Each `RandomState` has a key of its own.
    let [mut high, mut low] = [0_u8, 1].map(|half| RandomState::new().hash_one(half));
    high = high & !0xf000 | 0x4000;
    low = low & !(0b11 << 62) | 0b10 << 62;
    format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        high >> 32,
        high >> 16 & 0xffff,
        high & 0xffff,
        low >> 48,
        low & 0xffff_ffff_ffff
    )
}

impl Parser<'_> {
    /// `INSERT INTO t VALUES ([ts,] row, column, value), ...`
    pub(super) fn insert(&mut self) -> Result<Statement> {
        self.need(&["INTO"])?;
        let table = self.table()?;
        Ok(Statement::Insert { table, cells: self.tuples(true)? })
    }

    /// `VALUES (...), ...`; without rows, the row of each is empty.
    fn tuples(&mut self, has_row: bool) -> Result<Vec<NewCell>> {
        self.need(&["VALUES"])?;
        let mut tuples = Vec::new();
        loop {
            self.element()?;
            let elements = self.elements;
            let at = self.peek()?.start;
            self.need_sign("(")?;
            let mut parts = vec![self.part()?];
            while parts.len() < 4 && self.eat_sign(",")? {
                parts.push(self.part()?);
            }
            self.need_sign(")")?;
            // A tuple is one element, and its column none of its own.
            self.elements = elements;
            let expected = if has_row { 3 } else { 2 };
            let timestamp =
                if parts.len() == expected + 1 { Some(self.part_time(parts.remove(0))?) } else { None };
            if parts.len() != expected {
                let what = if has_row {
                    "([timestamp,] row, column, value)"
                } else {
                    "([timestamp,] column, value)"
                };
                return Err(self.lexer.wrong(at, format!("expected {what}")));
            }
            let row = match has_row {
                true => self.part_bytes(parts.remove(0), "a row")?,
                false => Vec::new().into(),
            };
            let column = self.part_column(parts.remove(0))?;
            let value = self.part_bytes(parts.remove(0), "a value")?;
            tuples.push(NewCell { timestamp, row, column, value });
            if !self.eat_sign(",")? {
                return Ok(tuples);
            }
        }
    }

    fn part(&mut self) -> Result<Part> {
        let token = self.peek()?.clone();
        let at = token.start;
        let kind = match token.kind {
            Kind::Number(number) => {
                self.take()?;
                PartKind::Number(number, self.unit()?)
            }
            // `'cf':q`
            Kind::String(bytes) if self.lexer.text.get(token.end) != Some(&b':') => {
                self.take()?;
                PartKind::String(bytes)
            }
            Kind::Word if self.is_call("GUID")? => {
                self.take()?;
                self.need_sign("(")?;
                self.need_sign(")")?;
                PartKind::String(guid().into_bytes())
            }
            Kind::String(_) | Kind::Word => PartKind::Column(self.column()?),
            _ => return Err(self.expected("a timestamp, a row, a column or a value")),
        };
        Ok(Part { at, kind })
    }

    fn part_time(&self, part: Part) -> Result<i64> {
        let value = match part.kind {
            PartKind::Number(number, unit) => return Ok(self.moment(number, unit, part.at)?.ms),
            PartKind::String(bytes) => milliseconds(&bytes),
            PartKind::Column(_) => None,
        };
        self.stored_time(value, part.at)
    }

    fn part_bytes(&self, part: Part, what: &str) -> Result<Placed<Vec<u8>>> {
        match part.kind {
            PartKind::String(bytes) => Ok(Placed::new(bytes, part.at)),
            _ => Err(self.lexer.wrong(part.at, format!("expected {what} in quotes"))),
        }
    }

    fn part_column(&self, part: Part) -> Result<Column> {
        match part.kind {
            PartKind::Column(column) => Ok(column),
            PartKind::String(bytes) => {
                let colon = bytes.iter().position(|byte| *byte == b':').unwrap_or(bytes.len());
                let Columns { family, qualifiers } = self.split_column(&bytes, colon, part.at)?;
                let qualifier =
                    if let Qualifiers::Exactly(qualifier) = qualifiers { qualifier } else { Vec::new() };
                Ok(Column { family, qualifier })
            }
            PartKind::Number(..) => Err(self.lexer.wrong(part.at, "expected a column, such as `cf:q`")),
        }
    }

    /// `DELETE * | c, ... FROM t WHERE ROW = r [TIMESTAMP ts | VERSION ts]`, or other conditions on `ROW`
    pub(super) fn delete(&mut self) -> Result<Statement> {
        let first = self.peek()?.clone();
        let columns = self.columns_to_delete()?;
        // A family may have this name.
        if !self.eat("FROM")? {
            return Err(match self.lexer.text[first.start..first.end].eq_ignore_ascii_case(b"FROM") {
                true => self.lexer.wrong(
                    first.start,
                    "expected `*` or columns, found `FROM`: `DELETE * FROM t WHERE ROW = 'r'` deletes a row",
                ),
                false => self.expected("`FROM`"),
            });
        }
        let table = self.table()?;
        self.need(&["WHERE"])?;
        let at = self.peek()?.start;
        let rows = self.rows()?;
        let time = self.delete_time(&columns)?;
        Ok(match <[Rows; 1]>::try_from(rows) {
            Ok([Rows::Exactly(row)]) => {
                Statement::Delete(Delete { columns, table, row: Placed::new(row, at), time })
            }
            Ok([rows]) => Statement::DeleteRows { columns, table, rows: vec![rows], time },
            Err(rows) => Statement::DeleteRows { columns, table, rows, time },
        })
    }

    /// `INFILE f INTO TABLE t ROW r COLUMN c [TIMESTAMP ts]`
    pub(super) fn load_cell(&mut self) -> Result<Statement> {
        self.need(&["INFILE"])?;
        let file = self.bytes("a file")?;
        self.need(&["INTO", "TABLE"])?;
        let (table, row) = self.table_and_row()?;
        self.need(&["COLUMN"])?;
        let cell = FileCell { file, table, row, column: self.column()? };
        let timestamp = if self.eat("TIMESTAMP")? { Some(self.timestamp()?) } else { None };
        Ok(Statement::LoadCell { cell, timestamp })
    }

    /// `t ROW r COLUMN c INTO FILE f`
    pub(super) fn dump_cell(&mut self) -> Result<Statement> {
        let (table, row) = self.table_and_row()?;
        self.need(&["COLUMN"])?;
        let column = self.column()?;
        self.need(&["INTO"])?;
        Ok(Statement::DumpCell(FileCell { file: self.file()?, table, row, column }))
    }

    /// `*` or columns without patterns.
    fn columns_to_delete(&mut self) -> Result<Vec<Columns>> {
        let mut all = Vec::new();
        if self.eat_sign("*")? {
            return Ok(all);
        }
        loop {
            let at = self.peek()?.start;
            let columns = self.columns()?;
            if matches!(columns.qualifiers, Qualifiers::Prefix(_) | Qualifiers::Regexp(_)) {
                return Err(self
                    .lexer
                    .wrong(at, "expected a family or a column, found a pattern of columns"));
            }
            all.push(columns);
            if !self.eat_sign(",")? {
                return Ok(all);
            }
        }
    }

    fn delete_time(&mut self, columns: &[Columns]) -> Result<DeleteTime> {
        let at = self.peek()?.start;
        if self.eat("TIMESTAMP")? {
            return self.timestamp().map(DeleteTime::UpTo);
        }
        if !self.eat("VERSION")? {
            return Ok(DeleteTime::Now);
        }
        let timestamp = self.timestamp()?;
        if columns.is_empty() || columns.iter().any(|columns| columns.qualifiers == Qualifiers::All) {
            return Err(self
                .lexer
                .wrong(at, "`VERSION` deletes a version of columns, not of a row or family"));
        }
        Ok(DeleteTime::Version(timestamp))
    }

    /// `t ROW r`
    fn table_and_row(&mut self) -> Result<(crate::statement::TableName, Placed<Vec<u8>>)> {
        let table = self.table()?;
        self.need(&["ROW"])?;
        let at = self.peek()?.start;
        Ok((table, Placed::new(self.bytes("a row")?, at)))
    }

    /// `INCREMENT t ROW r COLUMN c [BY n]`
    pub(super) fn increment(&mut self) -> Result<Statement> {
        let (table, row) = self.table_and_row()?;
        self.need(&["COLUMN"])?;
        let column = self.column()?;
        Ok(Statement::Increment { table, row, column, by: self.by()? })
    }

    /// `BY n`, where `n` may be negative, and in quotes; 1 if it is not there.
    fn by(&mut self) -> Result<i64> {
        if !self.eat("BY")? {
            return Ok(1);
        }
        let is_negative = self.eat_sign("-")?;
        let number = match &self.peek()?.kind {
            Kind::Number(number) if is_negative => 0_i64.checked_sub_unsigned(*number),
            Kind::Number(number) => i64::try_from(*number).ok(),
            Kind::String(bytes) if !is_negative => {
                std::str::from_utf8(bytes).ok().and_then(|text| text.parse().ok())
            }
            _ => None,
        };
        let number = number.ok_or_else(|| self.expected("a number from -2^63 to 2^63 - 1"))?;
        self.take()?;
        Ok(number)
    }

    /// `APPEND t ROW r COLUMN c VALUE v`
    pub(super) fn append(&mut self) -> Result<Statement> {
        let (table, row) = self.table_and_row()?;
        self.need(&["COLUMN"])?;
        let column = self.column()?;
        self.need(&["VALUE"])?;
        Ok(Statement::Append { table, row, column, value: self.bytes("a value")? })
    }

    /// `CHECK t ROW r (c = v AND ...) THEN action ...`
    pub(super) fn check(&mut self) -> Result<Statement> {
        let (table, row) = self.table_and_row()?;
        self.need_sign("(")?;
        let mut conditions = Vec::new();
        loop {
            conditions.push(self.condition()?);
            if !self.eat("AND")? {
                self.need_sign(")")?;
                break;
            }
        }
        self.need(&["THEN"])?;
        let mut then = Vec::new();
        loop {
            if self.eat("INSERT")? {
                for NewCell { timestamp, column, value, .. } in self.tuples(false)? {
                    then.push(Action::Insert { timestamp, column, value });
                }
            } else if self.eat("DELETE")? {
                self.element()?;
                let columns = self.columns_to_delete()?;
                let time = self.delete_time(&columns)?;
                then.push(Action::Delete { columns, time });
            } else if self.eat("INCREMENT")? {
                self.element()?;
                let (column, by) = (self.column()?, self.by()?);
                then.push(Action::Increment { column, by });
            } else if self.eat("APPEND")? {
                self.element()?;
                let column = self.column()?;
                self.need(&["VALUE"])?;
                then.push(Action::Append { column, value: self.bytes("a value")? });
            } else if then.is_empty() {
                return Err(
                    self.expected("`INSERT VALUES (...)`, `DELETE ...`, `INCREMENT ...` or `APPEND ...`")
                );
            } else {
                return Ok(Statement::Check { table, row, conditions, then });
            }
        }
    }

    fn condition(&mut self) -> Result<Condition> {
        let at = self.peek()?.start;
        let Columns { family, qualifiers } = self.columns()?;
        // `SELECT` and `DELETE` take a family for all its columns. Who means that here must not get an answer about another one.
        let Qualifiers::Exactly(qualifier) = qualifiers else {
            let message = format!(
                "expected a single column, such as `{0}:q`, or `{0}:` for that with the empty qualifier",
                crate::print::name(&family)
            );
            return Err(self.lexer.wrong(at, message));
        };
        let column = Column { family, qualifier };
        if self.eat("IS")? {
            return self.need(&["ABSENT"]).map(|()| Condition::Absent(column));
        }
        for (sign, comparison) in [
            ("<", Comparison::Less),
            ("<=", Comparison::LessOrEqual),
            ("=", Comparison::Equal),
            ("!=", Comparison::NotEqual),
            ("<>", Comparison::NotEqual),
            (">=", Comparison::GreaterOrEqual),
            (">", Comparison::Greater),
        ] {
            if self.eat_sign(sign)? {
                return Ok(Condition::Value { column, comparison, value: self.bytes("a value")? });
            }
        }
        Err(self.expected("`IS ABSENT` or a comparison"))
    }

    /// `LOAD DATA INFILE [options] f INTO TABLE t`
    pub(super) fn load(&mut self) -> Result<Statement> {
        self.need(&["DATA", "INFILE"])?;
        let (mut row_key_columns, mut timestamp_column, mut header_file) = (Vec::new(), None, None);
        let (mut timestamp, mut timestamp_unit, mut from_line) = (None, None, None);
        let (mut row_uniquify_chars, mut separator) = (None, None);
        let mut flags = [false; 5];
        // A word, and an older one of HQL.
        const FLAGS: [(&str, &str); 5] = [
            ("DUPLICATE_KEY_COLUMNS", "DUP_KEY_COLS"),
            ("IGNORE_UNKNOWN_COLUMNS", "IGNORE_UNKNOWN_CFS"),
            ("SINGLE_CELL_FORMAT", "SINGLE_CELL_FORMAT"),
            ("NO_ESCAPE", "NOESCAPE"),
            ("SKIP_BAD_LINES", "SKIP_BAD_LINES"),
        ];
        'options: loop {
            for (flag, (word, older)) in flags.iter_mut().zip(FLAGS) {
                if self.eat(word)? || self.eat(older)? {
                    // HQL's `DUP_KEY_COLS = TRUE`
                    let has_value = self.eat_sign("=")?;
                    *flag = !(has_value && self.eat("FALSE")?);
                    if has_value && *flag {
                        self.need(&["TRUE"])?;
                    }
                    continue 'options;
                }
            }
            // HQL's word for a load that a crash may undo. Here it may not.
            if self.eat("NO_LOG")? {
            } else if self.eat("ROW_KEY_COLUMN")? {
                self.need_sign("=")?;
                row_key_columns.clear();
                loop {
                    self.element()?;
                    row_key_columns.push(self.name("the name of a column of the file")?.into_bytes());
                    if !self.eat_sign("+")? {
                        break;
                    }
                }
            } else if self.eat("TIMESTAMP_COLUMN")? {
                self.need_sign("=")?;
                timestamp_column = Some(self.name("the name of a column of the file")?.into_bytes());
            } else if self.eat("TIMESTAMP")? {
                self.need_sign("=")?;
                timestamp = Some(self.written_time()?);
            } else if self.eat("TIMESTAMP_UNIT")? {
                self.need_sign("=")?;
                timestamp_unit = Some(self.time_unit()?);
            } else if self.eat("FROM_LINE")? {
                self.need_sign("=")?;
                from_line = Some(self.number("the number of a line")?);
            } else if self.eat("HEADER_FILE")? {
                self.need_sign("=")?;
                header_file = Some(self.bytes("a file")?);
            } else if self.eat("ROW_UNIQUIFY_CHARS")? {
                self.need_sign("=")?;
                let at = self.peek()?.start;
                let chars = self.number("a number of characters")?;
                if chars > UNIQUIFY_MAX {
                    return Err(self.lexer.wrong(at, format!("ROW_UNIQUIFY_CHARS: {UNIQUIFY_MAX} at most")));
                }
                row_uniquify_chars = Some(chars);
            } else if self.eat("SEPARATOR")? || self.eat("FS")? {
                self.need_sign("=")?;
                separator = Some(self.separator()?);
            } else {
                break;
            }
        }
        let file = self.bytes("a file")?;
        self.need(&["INTO"])?;
        if self.is_word("FILE")? {
            let message =
                "expected `TABLE`: `LOAD DATA` loads into a table, and `DUMP TABLE` makes a file of it";
            let at = self.peek()?.start;
            return Err(self.lexer.wrong(at, message));
        }
        self.need(&["TABLE"])?;
        let table = self.table()?;
        let [duplicate_key_columns, ignore_unknown_columns, single_cell_format, no_escape, skip_bad_lines] =
            flags;
        // The option with the unit may follow.
        let timestamp = timestamp.map(|written| self.time_in_unit(written, timestamp_unit)).transpose()?;
        Ok(Statement::LoadData(LoadData {
            row_key_columns,
            timestamp_column,
            timestamp,
            timestamp_unit,
            from_line,
            header_file,
            row_uniquify_chars,
            separator,
            duplicate_key_columns,
            ignore_unknown_columns,
            skip_bad_lines,
            single_cell_format,
            no_escape,
            file,
            table,
        }))
    }

    /// One byte between fields.
    fn separator(&mut self) -> Result<u8> {
        let at = self.peek()?.start;
        match self.bytes("a byte")?[..] {
            // They end lines and begin escapes.
            [byte] if !b"\n\r\\".contains(&byte) => Ok(byte),
            _ => Err(self.lexer.wrong(at, "expected one byte, which is not a line end or a backslash")),
        }
    }

    /// One byte between the fields of lines that are written. It is not a part of a number, a column, an escape or the header.
    pub(super) fn written_separator(&mut self) -> Result<u8> {
        let at = self.peek()?.start;
        let byte = self.separator()?;
        if byte.is_ascii_alphanumeric() || !byte.is_ascii() || b"#:_-\0".contains(&byte) {
            let expected = "expected one byte, such as `,`, `;` or `|`: letters, digits and `# : _ -` are parts of fields";
            return Err(self.lexer.wrong(at, expected));
        }
        Ok(byte)
    }

    fn time_unit(&mut self) -> Result<TimeUnit> {
        match self.unit()? {
            Some(unit) => Ok(unit),
            None => Err(self.expected("`NANOSECONDS`, `MICROSECONDS`, `MILLISECONDS` or `SECONDS`")),
        }
    }

    /// `DUMP TABLE t [COLUMNS c, ...] [BUCKETS n] [MAX_VERSIONS n] [SEPARATOR = s] [INTO FILE f]`, the last ones in any order; without a
    /// file, to standard output.
    pub(super) fn dump(&mut self) -> Result<Statement> {
        self.need(&["TABLE"])?;
        let table = self.table()?;
        let mut columns = Vec::new();
        if self.eat("COLUMNS")? && !self.eat_sign("*")? {
            columns.push(self.columns()?);
            while self.eat_sign(",")? {
                columns.push(self.columns()?);
            }
        }
        let terms = self.conditions()?;
        let (mut buckets, mut max_versions, mut separator, mut file) = (None, None, None, None);
        loop {
            let at = self.peek()?.start;
            let again = if self.eat("BUCKETS")? {
                buckets.replace(self.number("a number of buckets")?).is_some()
            } else if self.eat("MAX_VERSIONS")? || self.eat("REVS")? {
                self.eat_sign("=")?;
                max_versions.replace(self.number("a number")?).is_some()
            } else if self.eat("SEPARATOR")? || self.eat("FS")? {
                self.need_sign("=")?;
                separator.replace(self.written_separator()?).is_some()
            } else if self.eat("INTO")? {
                file.replace(self.file()?).is_some()
            } else {
                let file = file.unwrap_or_else(|| b"/dev/stdout".to_vec());
                return Ok(Statement::DumpTable(DumpTable {
                    table,
                    columns,
                    terms,
                    buckets,
                    max_versions,
                    separator,
                    file,
                }));
            };
            if again {
                return Err(self.lexer.wrong(at, "the option is there twice"));
            }
        }
    }
}
