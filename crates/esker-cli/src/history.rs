//! What was typed at a terminal, in this session and in earlier ones.

use std::env;
use std::fs;
use std::io;
use std::path::PathBuf;

use rustyline::config::Configurer;
use rustyline::error::ReadlineError;
use rustyline::history::DefaultHistory;
use rustyline::{Editor, Helper};

use crate::exit::note;

/// How many entries a history has.
const REMEMBERED: usize = 10_000;

/// Where the entries of an editor are kept.
pub(crate) struct History(Option<PathBuf>);

impl History {
    /// Gives `lines` the entries of the file `name`, and keeps what comes there too. Without a name or a home, they are kept
    /// as long as the editor lives.
    pub(crate) fn load<H: Helper>(name: Option<&str>, lines: &mut Editor<H, DefaultHistory>) -> History {
        let kept = lines.set_max_history_size(REMEMBERED).ok().and_then(|()| file(name?));
        if let Some(path) = &kept
            && let Err(error) = lines.load_history(path)
            && !is_missing(&error)
        {
            let path = path.display();
            note(&format!("cannot read the history file {path}, so the shell keeps no lines in it: {error}"));
            return History(None);
        }
        History(kept)
    }

    /// Adds an entry, and writes it into the file at once, so that a killed shell loses nothing. If the file cannot be
    /// written, that is reported once, and the session continues without it.
    pub(crate) fn remember<H: Helper>(&mut self, lines: &mut Editor<H, DefaultHistory>, entry: &str) {
        if !matches!(lines.add_history_entry(entry), Ok(true)) {
            return;
        }
        if let Some(path) = &self.0
            && let Err(error) = lines.append_history(path)
        {
            let path = path.display();
            note(&format!(
                "cannot write the history file {path}, so the shell keeps no more lines in it: {error}"
            ));
            self.0 = None;
        }
    }
}

fn is_missing(error: &ReadlineError) -> bool {
    // A first session has none.
    matches!(error, ReadlineError::Io(error) if error.kind() == io::ErrorKind::NotFound)
}

/// The file of a history, by the XDG base directory specification.
fn file(name: &str) -> Option<PathBuf> {
    let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
    let dir = state.join("esker");
    let made: io::Result<()> = fs::create_dir_all(&dir);
    made.ok().map(|()| dir.join(name))
}
