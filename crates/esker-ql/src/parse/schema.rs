//! Statements about namespaces, tables and schemas.

use super::{Parser, defaults};
use crate::error::Result;
use crate::lex::Kind;
use crate::statement::{Change, FamilyItem, Placed, SchemaItem, Statement};

/// Units of a time to live, in milliseconds; each may end with an `S`.
const UNITS: [(&str, u64); 7] = [
    ("MILLISECOND", 1),
    ("SECOND", 1_000),
    ("MINUTE", 60_000),
    ("HOUR", 3_600_000),
    ("DAY", 86_400_000),
    ("WEEK", 604_800_000),
    ("MONTH", 2_592_000_000),
];

/// What follows an option of HQL.
#[derive(Clone, Copy)]
enum Operand {
    Truth,
    Number,
    Text,
}

/// HQL's options of how access groups and tables are stored. They are read and do nothing: the options of the store are for all tables.
const STORAGE_OPTIONS: [(&str, Operand); 6] = [
    ("IN_MEMORY", Operand::Truth),
    ("BLOCKSIZE", Operand::Number),
    ("REPLICATION", Operand::Number),
    ("COMPRESSOR", Operand::Text),
    ("BLOOMFILTER", Operand::Text),
    ("GROUP_COMMIT_INTERVAL", Operand::Number),
];

impl Parser<'_> {
    /// `CREATE ...`
    pub(super) fn create(&mut self) -> Result<Statement> {
        if self.eat("NAMESPACE")? || self.eat("DATABASE")? {
            let is_before = self.if_not_exists()?;
            let name = self.placed_name("a namespace's name")?;
            let if_not_exists = is_before || self.if_not_exists()?;
            return Ok(Statement::CreateNamespace { name, if_not_exists });
        }
        if self.is_word("USER")? {
            let at = self.peek()?.start;
            return Err(self.lexer.wrong(at, "not yet: users come later"));
        }
        if !self.eat("TABLE")? {
            return Err(self.expected("`TABLE` or `NAMESPACE`"));
        }
        let is_before = self.if_not_exists()?;
        let table = self.table()?;
        let if_not_exists = is_before || self.if_not_exists()?;
        if self.eat("LIKE")? {
            return Ok(Statement::CreateTableLike { table, like: self.table()?, if_not_exists });
        }
        if let Some(file) = self.schema_file()? {
            return Ok(Statement::CreateTableFromFile { table, file, if_not_exists });
        }
        let mut items = self.schema_items()?;
        let mut options = FamilyItem::default();
        self.family_options(&mut options)?;
        defaults::of_table(&mut items, &options);
        Ok(Statement::CreateTable { table, items, if_not_exists })
    }

    /// `IF NOT EXISTS`, if it is there.
    fn if_not_exists(&mut self) -> Result<bool> {
        let is_there = self.eat("IF")?;
        if is_there {
            self.need(&["NOT", "EXISTS"])?;
        }
        Ok(is_there)
    }

    /// `IF EXISTS`, if it is there.
    fn if_exists(&mut self) -> Result<bool> {
        let is_there = self.eat("IF")?;
        if is_there {
            self.need(&["EXISTS"])?;
        }
        Ok(is_there)
    }

    /// `FROM FILE f`, or HQL's `WITH f`, if it is there.
    fn schema_file(&mut self) -> Result<Option<Vec<u8>>> {
        if self.eat("FROM")? {
            return self.file().map(Some);
        }
        if self.eat("WITH")? { self.bytes("a file").map(Some) } else { Ok(None) }
    }

    /// `FILE f`
    pub(super) fn file(&mut self) -> Result<Vec<u8>> {
        self.need(&["FILE"])?;
        self.bytes("a file")
    }

    /// `(item, ...)`
    fn schema_items(&mut self) -> Result<Vec<SchemaItem>> {
        if !self.eat_sign("(")? {
            return Err(self.expected("`(` and the column families, `LIKE` or `FROM FILE`"));
        }
        let (mut items, mut of_groups) = (Vec::new(), Vec::new());
        loop {
            self.element()?;
            let mut options = FamilyItem::default();
            items.push(self.schema_item(&mut options)?);
            if options != FamilyItem::default() {
                of_groups.push((items.len() - 1, options));
            }
            if !self.eat_sign(",")? {
                self.need_sign(")")?;
                defaults::of_groups(&mut items, &of_groups);
                return Ok(items);
            }
        }
    }

    /// One of them; `options` become those of an access group.
    fn schema_item(&mut self, options: &mut FamilyItem) -> Result<SchemaItem> {
        if self.eat("ACCESS")? {
            self.need(&["GROUP"])?;
            let name = self.placed_name("an access group's name")?;
            self.family_options(options)?;
            self.need_sign("(")?;
            let mut families = Vec::new();
            if !self.eat_sign(")")? {
                loop {
                    self.element()?;
                    families.push(self.family_item()?);
                    if !self.eat_sign(",")? {
                        self.need_sign(")")?;
                        break;
                    }
                }
            }
            self.family_options(options)?;
            return Ok(SchemaItem::Group { name, families });
        }
        if let Some((of_qualifiers, family)) = self.index()? {
            return Ok(SchemaItem::Index { of_qualifiers, family });
        }
        self.family_item().map(SchemaItem::Family)
    }

    /// `INDEX cf`, `QUALIFIER INDEX cf`: whether it is one of the qualifiers, and of which family.
    fn index(&mut self) -> Result<Option<(bool, Placed<String>)>> {
        let of_qualifiers = self.eat("QUALIFIER")?;
        if of_qualifiers {
            self.need(&["INDEX"])?;
        }
        if of_qualifiers || self.eat("INDEX")? {
            return Ok(Some((of_qualifiers, self.placed_name("a column family's name")?)));
        }
        Ok(None)
    }

    /// `INDEX cf` or `QUALIFIER INDEX cf`, also of several families between parentheses.
    fn dropped_indexes(&mut self) -> Result<Option<(bool, Vec<Placed<String>>)>> {
        let of_qualifiers = self.eat("QUALIFIER")?;
        if of_qualifiers {
            self.need(&["INDEX"])?;
        } else if !self.eat("INDEX")? {
            return Ok(None);
        }
        let families = match self.is_sign("(")? {
            true => self.names("a column family's name")?,
            false => vec![self.placed_name("a column family's name")?],
        };
        Ok(Some((of_qualifiers, families)))
    }

    fn family_item(&mut self) -> Result<FamilyItem> {
        let name = self.placed_name("a column family's name, `ACCESS GROUP` or `INDEX`")?;
        let mut family = FamilyItem { name, ..FamilyItem::default() };
        self.family_options(&mut family)?;
        Ok(family)
    }

    /// What follows the name of a family, or is said for all those of an access group or table.
    fn family_options(&mut self, family: &mut FamilyItem) -> Result<()> {
        loop {
            let at = self.peek()?.start;
            let again = if self.eat("MAX_VERSIONS")? || self.eat("REVS")? {
                self.eat_sign("=")?;
                let versions = if self.eat("ALL")? { 0 } else { self.versions()? };
                family.max_versions.replace(versions).is_some()
            } else if self.eat("TTL")? {
                self.eat_sign("=")?;
                let ttl_ms = self.duration()?;
                family.ttl_ms.replace(ttl_ms).is_some()
            } else if self.eat("TIME_ORDER")? {
                self.eat_sign("=")?;
                // HQL's words: `ASC`, its default, has the latest version first.
                let is_oldest_first = self.one_of(&["ASC", "DESC"])? == 1;
                family.is_oldest_first.replace(is_oldest_first).is_some()
            } else if self.eat("COUNTER")? {
                let is_counter = self.truth()?;
                family.is_counter.replace(is_counter).is_some()
            } else if self.storage_option()? {
                false
            } else {
                return Ok(());
            };
            if again {
                return Err(self.lexer.wrong(at, "the option is there twice"));
            }
        }
    }

    fn versions(&mut self) -> Result<u32> {
        const EXPECTED: &str = "a number of versions (to 4,294,967,295; 0 is all) or `ALL`";
        match self.peek()?.kind {
            Kind::Number(number @ 0..=0xffff_ffff) => self.take().map(|_| number as u32),
            _ => Err(self.expected(EXPECTED)),
        }
    }

    /// `2 WEEKS`; without a unit, seconds.
    fn duration(&mut self) -> Result<u64> {
        let at = self.peek()?.start;
        let number = self.number("a number and a unit, such as `2 WEEKS`")?;
        let mut unit_ms = 1_000;
        for (unit, ms) in UNITS {
            if self.eat(unit)? || self.eat(&format!("{unit}S"))? {
                unit_ms = ms;
                break;
            }
        }
        number.checked_mul(unit_ms).ok_or_else(|| self.lexer.wrong(at, "the time to live is too long"))
    }

    /// `TRUE` or `FALSE`; nothing is true.
    fn truth(&mut self) -> Result<bool> {
        if self.eat("FALSE")? {
            return Ok(false);
        }
        self.eat("TRUE").map(|_| true)
    }

    /// Passes one of HQL's options of storage, if one is there.
    fn storage_option(&mut self) -> Result<bool> {
        for (option, operand) in STORAGE_OPTIONS {
            if self.eat(option)? {
                self.eat_sign("=")?;
                match operand {
                    Operand::Truth => drop(self.truth()?),
                    Operand::Number => drop(self.number("a number")?),
                    Operand::Text => drop(self.name("the option's value")?),
                }
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// `ALTER TABLE t ...`
    pub(super) fn alter(&mut self) -> Result<Statement> {
        self.need(&["TABLE"])?;
        let table = self.table()?;
        if let Some(file) = self.schema_file()? {
            return Ok(Statement::AlterTableFromFile { table, file });
        }
        let mut changes = Vec::new();
        loop {
            self.element()?;
            if self.eat("ADD")? {
                changes.push(Change::Add(self.schema_items()?));
            } else if self.eat("MODIFY")? {
                if !self.is_sign("(")? {
                    return Err(self.expected("`(`"));
                }
                changes.push(Change::Modify(self.schema_items()?));
            } else if self.eat("DROP")? {
                // HQL's `DROP VALUE INDEX (cf, ...)`
                let is_of_values = self.eat("VALUE")?;
                if is_of_values && !self.is_word("INDEX")? {
                    return Err(self.expected("`INDEX`"));
                }
                if let Some((of_qualifiers, families)) = self.dropped_indexes()? {
                    let of_family = |family| Change::DropIndex { of_qualifiers, family };
                    changes.extend(families.into_iter().map(of_family));
                } else {
                    changes.push(Change::Drop(self.names("a column family's name")?));
                }
            } else if self.eat("RENAME")? {
                self.need(&["COLUMN", "FAMILY"])?;
                self.need_sign("(")?;
                let from = self.placed_name("a column family's name")?;
                self.need_sign(",")?;
                let to = self.placed_name("a column family's new name")?;
                self.need_sign(")")?;
                changes.push(Change::RenameFamily { from, to });
            } else if changes.is_empty() {
                return Err(self.expected("`ADD`, `MODIFY`, `DROP`, `RENAME COLUMN FAMILY` or `FROM FILE`"));
            } else {
                return Ok(Statement::AlterTable { table, changes });
            }
        }
    }

    /// `USE n`, also HQL's `USE NAMESPACE n`
    pub(super) fn use_namespace(&mut self) -> Result<Statement> {
        const NAME: &str = "a namespace's name";
        let is_word = self.is_word("NAMESPACE")? || self.is_word("DATABASE")?;
        let first = self.placed_name(NAME)?;
        let has_name = is_word && matches!(self.peek()?.kind, Kind::Word | Kind::String(_));
        Ok(Statement::Use(if has_name { self.placed_name(NAME)? } else { first }))
    }

    /// `COMPACT [TABLE] t`, and what HQL adds: `TYPE = MINOR`, a row, `RANGES ALL`. Tables are always compacted as a whole.
    pub(super) fn compact(&mut self) -> Result<Statement> {
        while self.is_word("TYPE")? && self.is_followed_by(b"=")? {
            self.take()?;
            self.need_sign("=")?;
            self.one_of(&["MINOR", "MAJOR", "MERGING", "GC"])?;
        }
        const RANGES: [&str; 5] = ["ALL", "USER", "ROOT", "METADATA", "SYSTEM"];
        if self.is_word("RANGES")? && !self.is_followed_by(b";")? && !self.is_followed_by(b"")? {
            self.take()?;
            let mut is_of_tables = false;
            loop {
                // The other ones hold the cluster's own tables.
                is_of_tables |= self.one_of(&RANGES)? < 2;
                if !self.eat_sign("|")? {
                    return Ok(Statement::CompactRanges { is_of_tables });
                }
            }
        }
        self.eat("TABLE")?;
        let table = self.table()?;
        if matches!(self.peek()?.kind, Kind::String(_)) {
            self.take()?;
        }
        Ok(Statement::Compact(table))
    }

    /// Takes one of these words, between quotes or not: its place among them.
    fn one_of(&mut self, words: &[&str]) -> Result<usize> {
        let found = match &self.peek()?.kind {
            Kind::String(bytes) => words.iter().position(|word| bytes.eq_ignore_ascii_case(word.as_bytes())),
            _ => None,
        };
        if let Some(place) = found {
            return self.take().map(|_| place);
        }
        for (place, word) in words.iter().enumerate() {
            if self.eat(word)? {
                return Ok(place);
            }
        }
        let words: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
        Err(self.expected(&format!("one of {}", words.join(", "))))
    }

    /// `RENAME TABLE a TO b`
    pub(super) fn rename(&mut self) -> Result<Statement> {
        self.need(&["TABLE"])?;
        let from = self.table()?;
        self.need(&["TO"])?;
        Ok(Statement::RenameTable { from, to: self.table()? })
    }

    /// `DROP TABLE`, `DROP NAMESPACE`
    pub(super) fn drop(&mut self) -> Result<Statement> {
        let is_table = self.eat("TABLE")?;
        if !is_table && !self.eat("NAMESPACE")? && !self.eat("DATABASE")? {
            return Err(self.expected("`TABLE` or `NAMESPACE`"));
        }
        let is_before = self.if_exists()?;
        if is_table {
            let table = self.table()?;
            return Ok(Statement::DropTable { table, if_exists: is_before || self.if_exists()? });
        }
        let name = self.placed_name("a namespace's name")?;
        Ok(Statement::DropNamespace { name, if_exists: is_before || self.if_exists()? })
    }

    /// `SHOW ...`
    pub(super) fn show(&mut self) -> Result<Statement> {
        if self.eat("TABLES")? {
            return Ok(Statement::ShowTables);
        }
        if self.eat("NAMESPACES")? {
            return Ok(Statement::ShowNamespaces);
        }
        if self.eat("CREATE")? {
            self.need(&["TABLE"])?;
            return self.table().map(Statement::ShowCreateTable);
        }
        if self.is_word("REGIONS")? {
            let at = self.peek()?.start;
            return Err(self.lexer.wrong(at, "not yet: regions come later"));
        }
        Err(self.expected("`TABLES`, `NAMESPACES` or `CREATE TABLE`"))
    }
}
