//! Completion: commands, options, and the values of options and arguments (types, formats, trees, keys, files).

use clap::{Arg, Command};
use esker::{Db, ScanRange};
use rustyline::completion::{Completer, FilenameCompleter, Pair};
use rustyline::{Context, Helper, Result};

use super::line::definition;
use super::words;
use crate::datatype::{DataType, Types};
use crate::escapes;

/// The most keys that are offered.
const KEYS_MAX: usize = 200;

/// Completes a line, given the open store and the current tree.
pub(super) struct Completion {
    store: Option<(Db, String)>,
    shell: Command,
    files: FilenameCompleter,
}

impl Completion {
    pub(super) fn new(store: Option<(Db, String)>) -> Self {
        let mut shell = definition();
        shell.build();
        Completion { store, shell, files: FilenameCompleter::new() }
    }

    /// The candidates for a word that begins with `typed`, after the words `before`; `None`: files.
    fn candidates(&self, before: &[String], typed: &str) -> Option<Vec<String>> {
        let Some((first, before)) = before.split_first() else { return Some(self.commands()) };
        if first == "help" {
            return Some(self.commands());
        }
        let Some(command) = self.shell.find_subcommand(first) else { return Some(Vec::new()) };
        if let Some(arg) = before.last().and_then(|word| option(command, word)) {
            return self.values(arg, typed);
        }
        if typed.starts_with('-') {
            let longs = command.get_arguments().filter(|arg| !arg.is_hide_set()).filter_map(Arg::get_long);
            return Some(longs.map(|long| format!("--{long}")).collect());
        }
        let place = positionals_in(command, before);
        match command.get_positionals().nth(place) {
            Some(arg) => self.values(arg, typed),
            None => Some(Vec::new()),
        }
    }

    fn commands(&self) -> Vec<String> {
        let shown = self.shell.get_subcommands().filter(|command| !command.is_hide_set());
        shown.map(|command| command.get_name().to_owned()).collect()
    }

    /// The candidates for the argument `arg`.
    fn values(&self, arg: &Arg, typed: &str) -> Option<Vec<String>> {
        let possible = arg.get_possible_values();
        if !possible.is_empty() {
            return Some(possible.iter().map(|value| value.get_name().to_owned()).collect());
        }
        match arg.get_id().as_str() {
            "tree" | "tree_name" => {
                let names = self.store.as_ref().map(|(db, _)| db.tree_names()).unwrap_or_default();
                let shown = names.into_iter().filter(|name| name.chars().all(escapes::is_printable));
                Some(shown.map(|name| words::quote(&name).into_owned()).collect())
            }
            "key" | "from" | "to" | "lo" | "hi" | "prefix" => Some(self.keys(typed).unwrap_or_default()),
            "command" => Some(self.commands()),
            "db" | "file" | "output" | "source" | "target" | "dir" | "name" => None,
            _ => Some(Vec::new()),
        }
    }

    /// Keys that begin with `typed`. Numbers are not offered, because their order differs from that of their digits.
    fn keys(&self, typed: &str) -> Option<Vec<String>> {
        let (db, tree) = self.store.as_ref()?;
        let tree = db.open_tree(tree).ok()??;
        let types = tree.tag().map_or(Some(Types::TEXT), |tag| Types::of_tag(&tag))?;
        if types.keys != DataType::Text {
            return None;
        }
        let prefix = words::split(typed.as_bytes()).ok()?.pop().unwrap_or_default();
        let mut rows = tree.scan(ScanRange::prefix(prefix.as_encoded_bytes()).keys_only()).ok()?;
        let mut keys = Vec::new();
        while keys.len() < KEYS_MAX && rows.advance().ok()? {
            if let Ok(key) = std::str::from_utf8(rows.key())
                && key.chars().all(escapes::is_printable)
            {
                keys.push(words::quote(key).into_owned());
            }
        }
        Some(keys)
    }
}

/// The option `word`, if it takes a value.
fn option<'a>(command: &'a Command, word: &str) -> Option<&'a Arg> {
    let name = word.strip_prefix("--")?;
    command.get_arguments().find(|arg| arg.get_long() == Some(name) && arg.get_action().takes_values())
}

/// How many of the words are neither options nor their values.
fn positionals_in(command: &Command, words: &[String]) -> usize {
    let is_value = |at: usize| at > 0 && option(command, &words[at - 1]).is_some();
    (0..words.len()).filter(|at| !words[*at].starts_with("--") && !is_value(*at)).count()
}

impl Completer for Completion {
    type Candidate = Pair;

    fn complete(&self, line: &str, pos: usize, _: &Context<'_>) -> Result<(usize, Vec<Pair>)> {
        let start = words::last(&line[..pos]);
        let typed = &line[start..pos];
        let Ok(before) = words::split(&line.as_bytes()[..start]) else { return Ok((pos, Vec::new())) };
        let before: Vec<String> = before.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let Some(candidates) = self.candidates(&before, typed) else {
            return self.files.complete_path(line, pos);
        };
        let pairs = candidates
            .into_iter()
            .filter(|candidate| candidate.starts_with(typed))
            .map(|candidate| Pair { replacement: format!("{candidate} "), display: candidate });
        Ok((start, pairs.collect()))
    }
}

impl rustyline::hint::Hinter for Completion {
    type Hint = String;
}
impl rustyline::highlight::Highlighter for Completion {}
impl rustyline::validate::Validator for Completion {}
impl Helper for Completion {}

#[cfg(test)]
mod tests {
    use super::*;
    use esker::Options;
    use rustyline::history::MemHistory;

    fn completed(line: &str) -> Vec<String> {
        let db = Db::open_in_memory(Options::default()).unwrap();
        for key in ["apple", "apricot", "two words", "bad\u{1}"] {
            db.put(key, "").unwrap();
        }
        db.tree("trees").unwrap();
        let completion = Completion::new(Some((db, "default".to_owned())));
        let history = MemHistory::new();
        let (_, pairs) = completion.complete(line, line.len(), &Context::new(&history)).unwrap();
        pairs.into_iter().map(|pair| pair.display).collect()
    }

    #[test]
    fn commands_and_options() {
        assert_eq!(completed("sc"), ["scan"]);
        assert_eq!(completed("op"), ["open"]);
        assert_eq!(completed("help cl"), ["close"]);
        assert!(completed("sh").is_empty(), "no shell in the shell");
        assert_eq!(completed("scan --rev"), ["--reverse"]);
        assert_eq!(completed("scan a --val"), ["--values"]);
        assert_eq!(completed("nothing --x"), [""; 0]);
        assert_eq!(completed("scan --keys i"), ["i64", "i32", "i16", "i8", "i128"]);
        assert_eq!(completed("import x --format t"), ["tsv"]);
    }

    #[test]
    fn trees_and_keys() {
        assert_eq!(completed("tree t"), ["trees"]);
        assert_eq!(completed("scan --tree de"), ["default"]);
        assert_eq!(completed("get ap"), ["apple", "apricot"]);
        assert_eq!(completed("scan --limit 3 a ap"), ["apple", "apricot"]);
        assert_eq!(completed("get 'tw"), [""; 0], "the quote is open");
        assert_eq!(completed("put apple ap"), [""; 0], "a value is anything");
        assert_eq!(completed("get bad"), [""; 0]);
    }
}
