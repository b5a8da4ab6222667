//! Completion of words, tables, columns and files, and where a statement ends.

use std::collections::BTreeMap;

use esker_ql::{DEFAULT_NAMESPACE, Error, KEYWORDS, Session, statements};
use esker_thrift::CallError;
use rustyline::completion::{Completer, FilenameCompleter, Pair};
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Context, Helper, Result};

/// Words that only begin statements, and that the shell has.
const FIRST: [&str; 7] = ["SELECT", "SHOW", "USE", "SOURCE", "exit", "help", "quit"];

/// The most names that are offered.
const NAMES_MAX: usize = 1000;

/// Completes statements about the tables that there are.
pub(super) struct Completion {
    names: Names,
    files: FilenameCompleter,
}

/// The names that there are, in their order.
#[derive(Default)]
struct Names {
    /// Of the namespace in use, and those of all others with their namespaces.
    tables: Vec<String>,
    namespaces: Vec<String>,
    /// The namespace in use; empty: `default`.
    namespace: String,
    /// The families of each of the tables, by the whole name.
    families: BTreeMap<String, Vec<String>>,
}

/// What can stand at a place of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Table,
    Namespace,
    /// A column of the table that the statement names, or of any.
    Column,
    Condition,
    Anything,
}

/// The first words of conditions that are about no column.
const CONDITIONS: [&str; 4] = ["CELL", "ROW", "TIMESTAMP", "VALUE"];

/// Whether `text` is this word, which is no statement.
pub(super) fn is_command(text: &str, word: &str) -> bool {
    text.trim().trim_end_matches(';').trim_end().eq_ignore_ascii_case(word)
}

/// The names of tables, namespaces and families. A server that does not answer is asked once.
fn names(session: &Session) -> esker_ql::Result<Names> {
    let tables = session.tables();
    let mut names = Names { namespaces: tables.namespaces()?, ..Names::default() };
    if session.namespace() != DEFAULT_NAMESPACE {
        names.namespace = session.namespace().to_owned();
    }
    let (own, whole) = (session.names()?, tables.names()?);
    names.tables.extend(own.iter().chain(whole.iter().filter(|name| name.contains(':'))).cloned());
    names.tables.sort_unstable();
    names.namespaces.sort_unstable();
    for table in whole.iter().take(NAMES_MAX) {
        match tables.schema(table) {
            Ok(schema) => {
                let families = schema.groups().iter().flat_map(esker_table::AccessGroup::families);
                let families = families.map(|family| family.name().to_owned()).collect();
                names.families.insert(table.clone(), families);
            }
            Err(
                error @ Error::Remote(CallError::Io(_) | CallError::Silent { .. } | CallError::Broken(_)),
            ) => {
                return Err(error);
            }
            // A table that was dropped meanwhile has none.
            Err(_) => {}
        }
    }
    Ok(names)
}

impl Completion {
    pub(super) fn new(session: &Session) -> Completion {
        Completion { names: names(session).unwrap_or_default(), files: FilenameCompleter::new() }
    }

    /// What a word that begins with `typed` may be behind `before`, the part of the statement in front of it. If no name fits that
    /// can stand there, it may be any word of the language.
    fn candidates(&self, before: &str, typed: &str) -> Vec<String> {
        let wanted = wanted(before);
        let names: Vec<&String> = match wanted {
            Wanted::Table => self.names.tables.iter().chain(&self.names.namespaces).collect(),
            Wanted::Namespace => self.names.namespaces.iter().collect(),
            Wanted::Column | Wanted::Condition => self.columns(before),
            Wanted::Anything if typed.is_empty() => Vec::new(),
            Wanted::Anything => {
                self.names.tables.iter().chain(&self.names.namespaces).chain(self.columns(before)).collect()
            }
        };
        let mut all: Vec<String> =
            names.into_iter().filter(|name| name.starts_with(typed)).cloned().collect();
        if wanted == Wanted::Condition {
            all.extend(fitting(&CONDITIONS, typed));
        }
        if !typed.is_empty() && (wanted == Wanted::Anything || all.is_empty()) {
            all.extend(fitting(&FIRST, typed).chain(fitting(&KEYWORDS, typed).filter(|word| word != "X")));
        }
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The families of the table that `before` names, or of all tables.
    fn columns(&self, before: &str) -> Vec<&String> {
        let table = table_of(before).map(|table| match table.split_once(':') {
            Some((DEFAULT_NAMESPACE, name)) => name.to_owned(),
            None if !self.names.namespace.is_empty() => format!("{}:{table}", self.names.namespace),
            _ => table.to_owned(),
        });
        match table.and_then(|table| self.names.families.get(&table)) {
            Some(families) => families.iter().collect(),
            None => self.names.families.values().flatten().collect(),
        }
    }
}

/// Those of `words` that begin with `typed`, in its case.
fn fitting<'w>(words: &'w [&'w str], typed: &'w str) -> impl Iterator<Item = String> + 'w {
    let is_lower = typed.chars().any(char::is_lowercase);
    let begins =
        move |word: &&&str| word.get(..typed.len()).is_some_and(|start| start.eq_ignore_ascii_case(typed));
    words
        .iter()
        .filter(begins)
        .map(move |word| if is_lower { word.to_lowercase() } else { (*word).to_owned() })
}

fn is_part(letter: char) -> bool {
    letter.is_alphanumeric() || matches!(letter, '_' | '-' | '.')
}

/// The words of a text; a table's name may have its namespace.
fn words(text: &str) -> impl DoubleEndedIterator<Item = &str> {
    text.split(|letter: char| !is_part(letter) && letter != ':').filter(|word| !word.is_empty())
}

/// The text without what is within quotes.
fn without_strings(text: &str) -> String {
    let (mut shown, mut quote, mut is_escaped) = (String::new(), None, false);
    for letter in text.chars() {
        match quote {
            Some(_) if std::mem::take(&mut is_escaped) => {}
            Some(_) if letter == '\\' => is_escaped = true,
            Some(open) if letter == open => {
                quote = None;
                shown.push(letter);
            }
            Some(_) => {}
            None => {
                quote = matches!(letter, '\'' | '"').then_some(letter);
                shown.push(letter);
            }
        }
    }
    shown
}

/// The table that a statement names whose beginning is `before`.
fn table_of(before: &str) -> Option<&str> {
    let first = words(before).next()?.to_ascii_uppercase();
    let in_front = match first.as_str() {
        "INCREMENT" | "APPEND" | "CHECK" => return words(before).nth(1),
        "DUMP" => "TABLE",
        "INSERT" => "INTO",
        _ => "FROM",
    };
    words(before).skip_while(|word| !word.eq_ignore_ascii_case(in_front)).nth(1)
}

/// What can stand behind `before`, the beginning of a statement.
fn wanted(before: &str) -> Wanted {
    let before = before.trim_end();
    let has = |word: &str| words(before).any(|other| other.eq_ignore_ascii_case(word));
    let first = words(before).next().unwrap_or_default().to_ascii_uppercase();
    let last = words(before).next_back().unwrap_or_default().to_ascii_uppercase();
    let (is_check, is_dump) = (first == "CHECK", first == "DUMP");
    if before.ends_with(',') {
        let is_of_columns = match first.as_str() {
            "SELECT" | "EXPLAIN" | "DELETE" => !has("FROM"),
            _ => is_dump && !has("INTO"),
        };
        return if is_of_columns { Wanted::Column } else { Wanted::Anything };
    }
    if is_check && before.ends_with('(') && !has("THEN") {
        return Wanted::Column;
    }
    // What ends with a sign has no word there, but for a parenthesis.
    if !before.ends_with(is_part) && !before.ends_with('(') {
        return Wanted::Anything;
    }
    let is_query = matches!(first.as_str(), "SELECT" | "EXPLAIN" | "DELETE");
    match last.as_str() {
        "DELETE" | "INCREMENT" | "APPEND" if has("THEN") => Wanted::Column,
        "FROM" if is_query => Wanted::Table,
        "INTO" if first == "INSERT" => Wanted::Table,
        "LIKE" | "INCREMENT" | "APPEND" | "CHECK" | "INDICES" | "COMPACT" => Wanted::Table,
        "TABLE" if first != "CREATE" => Wanted::Table,
        "USE" => Wanted::Namespace,
        "NAMESPACE" if first == "DROP" => Wanted::Namespace,
        "SELECT" | "CELLS" | "DELETE" | "COLUMNS" => Wanted::Column,
        "COLUMN" if first != "ALTER" => Wanted::Column,
        "AND" if is_check => Wanted::Column,
        "WHERE" | "AND" | "OR" => Wanted::Condition,
        _ => Wanted::Anything,
    }
}

impl Completer for Completion {
    type Candidate = Pair;

    fn complete(&self, line: &str, at: usize, _: &Context<'_>) -> Result<(usize, Vec<Pair>)> {
        let before = line.get(..at).unwrap_or_default();
        // Within quotes: a file, where one may stand.
        if let Some(open) = before.rfind(['\'', '"'])
            && before.get(open..).is_some_and(|rest| rest.len() == 1 || !rest[1..].contains([' ', ';', ',']))
        {
            let words = before.get(..open).unwrap_or_default().trim_end().to_ascii_uppercase();
            let (start, typed) = (open + 1, before.get(open + 1..).unwrap_or_default());
            if ["FILE", "INFILE", "SOURCE"].iter().any(|word| words.ends_with(word)) {
                let (offset, pairs) = self.files.complete_path(typed, typed.len())?;
                return Ok((start + offset, pairs));
            }
            return Ok((at, Vec::new()));
        }
        let shown = without_strings(before);
        let statement = shown.rsplit(';').next().unwrap_or_default();
        let typed_of = |text: &str| {
            let start = text.trim_end_matches(is_part).len();
            // A table's name may have its namespace.
            let whole = text.trim_end_matches(|letter| is_part(letter) || letter == ':').len();
            if wanted(&text[..whole]) == Wanted::Table { whole } else { start }
        };
        let (of_statement, typed) = statement.split_at(typed_of(statement));
        let start = before.len() - typed.len();
        let candidates = self.candidates(of_statement, typed).into_iter();
        let pairs = candidates.map(|word| Pair { replacement: format!("{word} "), display: word });
        Ok((start, pairs.collect()))
    }
}

impl Validator for Completion {
    fn validate(&self, typed: &mut ValidationContext<'_>) -> Result<ValidationResult> {
        let text = typed.input();
        if text.trim().is_empty() || FIRST[4..].iter().any(|word| is_command(text, word)) {
            return Ok(ValidationResult::Valid(None));
        }
        let is_unfinished = statements(text.as_bytes()).any(|statement| match statement {
            Ok(located) => !located.is_ended,
            Err(error) => error.is_unfinished(),
        });
        Ok(if is_unfinished { ValidationResult::Incomplete } else { ValidationResult::Valid(None) })
    }
}

impl rustyline::hint::Hinter for Completion {
    type Hint = String;
}
impl rustyline::highlight::Highlighter for Completion {}
impl Helper for Completion {}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_table::Tables;
    use rustyline::history::MemHistory;

    fn completed(line: &str) -> Vec<String> {
        let tables = Tables::open_in_memory(esker::Options::default()).unwrap();
        let mut session = Session::new(tables);
        for statement in
            statements(b"CREATE TABLE photos (title, ACCESS GROUP g (original)); CREATE TABLE notes (by); CREATE NAMESPACE shop; \
            CREATE TABLE shop:photos (price)")
        {
            session.execute(statement.unwrap().statement).unwrap();
        }
        let history = MemHistory::new();
        let completion = Completion::new(&session);
        let (_, pairs) = completion.complete(line, line.len(), &Context::new(&history)).unwrap();
        pairs.into_iter().map(|pair| pair.display).collect()
    }

    #[test]
    fn words_tables_and_columns_are_completed() {
        assert_eq!(completed("SEL"), ["SELECT"]);
        assert_eq!(completed("sel"), ["select"]);
        assert_eq!(completed("SELECT ti"), ["title"]);
        assert_eq!(
            completed("SELECT ce"),
            ["cell", "cell_limit", "cell_limit_per_family", "cell_offset", "cell_offset_per_family", "cells"]
        );
        assert_eq!(completed("select "), ["by", "original", "price", "title"]);
        assert_eq!(completed("SELECT title, "), ["by", "original", "price", "title"]);
        assert_eq!(completed("SELECT * FROM pho"), ["photos"]);
        assert_eq!(
            completed("SHOW TABLES; SELECT * FROM "),
            ["default", "notes", "photos", "shop", "shop:photos"]
        );
        assert_eq!(completed("SELECT * FROM notes "), [""; 0]);
        assert_eq!(completed("SELECT * FROM notes w"), ["weeks", "where", "with"]);
        assert_eq!(completed("SELECT * FROM notes WHERE "), ["CELL", "ROW", "TIMESTAMP", "VALUE", "by"]);
        assert_eq!(
            completed("SELECT * FROM notes WHERE by = 'x' AND ("),
            CONDITIONS.iter().chain(&["by"]).copied().collect::<Vec<_>>()
        );
        assert_eq!(completed("SELECT * FROM notes WHERE by = 'x' and r"), ["row"]);
        assert_eq!(
            completed("SELECT * FROM photos WHERE title = 'a;b from notes' OR t"),
            ["timestamp", "title"]
        );
        assert_eq!(completed("SELECT * FROM sho"), ["shop", "shop:photos"]);
        assert_eq!(completed("SELECT * FROM shop:p"), ["shop:photos"]);
        assert_eq!(completed("SELECT * FROM shop:photos WHERE p"), ["price"]);
        assert_eq!(completed("SELECT * FROM notes INTO fil"), ["file"]);
        assert_eq!(completed("DUMP TABLE notes COLUMNS "), ["by"]);
        assert_eq!(completed("CREATE NAMESPACE "), [""; 0]);
        assert_eq!(completed("CHECK notes ROW 'from' ("), ["by"]);
        assert_eq!(completed("CHECK notes ROW 'r' (by:a = 'x' AND "), ["by"]);
        assert_eq!(completed("INCREMENT "), ["default", "notes", "photos", "shop", "shop:photos"]);
        assert_eq!(completed("CHECK notes ROW 'r' (by:a = 'x') THEN INCREMENT b"), ["by"]);
        assert_eq!(completed("CREATE TABLE "), [""; 0]);
        assert_eq!(completed("USE d"), ["default"]);
        assert_eq!(completed("SELECT * FROM t WHERE ROW = 'pho"), [""; 0]);
    }
}
