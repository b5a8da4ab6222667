//! Completion of words, tables, columns and files, and where a statement ends.

use esker_ql::{Error, KEYWORDS, Session, statements};
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
    names: Vec<String>,
    files: FilenameCompleter,
}

/// Whether `text` is this word, which is no statement.
pub(super) fn is_command(text: &str, word: &str) -> bool {
    text.trim().trim_end_matches(';').trim_end().eq_ignore_ascii_case(word)
}

/// The names of tables, namespaces and families. A server that does not answer is asked once.
fn names(session: &Session) -> esker_ql::Result<Vec<String>> {
    let (mut names, tables) = (session.names()?, session.tables());
    names.extend(tables.namespaces()?);
    for table in tables.names()?.iter().take(NAMES_MAX) {
        match tables.schema(table) {
            Ok(schema) => {
                let families = schema.groups().iter().flat_map(esker_table::AccessGroup::families);
                names.extend(families.map(|family| family.name().to_owned()));
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
        let mut names = names(session).unwrap_or_default();
        names.sort_unstable();
        names.dedup();
        Completion { names, files: FilenameCompleter::new() }
    }

    /// What a word that begins with `typed` may be.
    fn candidates(&self, typed: &str) -> Vec<String> {
        let is_lower = typed.chars().any(char::is_lowercase);
        let words = FIRST.iter().chain(KEYWORDS.iter().filter(|word| **word != "X"));
        let fitting = words
            .filter(|word| word.get(..typed.len()).is_some_and(|start| start.eq_ignore_ascii_case(typed)));
        let words = fitting.map(|word| if is_lower { word.to_lowercase() } else { (*word).to_owned() });
        let names = self.names.iter().filter(|name| name.starts_with(typed)).cloned();
        let mut all: Vec<String> = if typed.is_empty() { Vec::new() } else { words.collect() };
        all.extend(names);
        all.sort_unstable();
        all.dedup();
        all
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
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
        let start = before.trim_end_matches(is_part).len();
        let candidates = self.candidates(before.get(start..).unwrap_or_default()).into_iter();
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
        for statement in statements(b"CREATE TABLE photos (title, ACCESS GROUP g (original))") {
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
        assert_eq!(completed("SELECT ti"), ["time_order", "timestamp", "timestamp_column", "title"]);
        assert_eq!(completed("SELECT * FROM pho"), ["photos"]);
        assert_eq!(completed("SELECT * FROM "), ["default", "original", "photos", "title"]);
        assert_eq!(completed("SELECT * FROM t WHERE ROW = 'pho"), [""; 0]);
    }
}
