//! The state of the shell (the open store, the current tree), and the effect of a line on it.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use esker::{Db, Options};

use super::line::{Open, Typed, Verb, parse};
use super::words;
use crate::args::{Cli, Command, Global};
use crate::client::{Database, Url};
use crate::commands;
use crate::exit::{self, Failure, Outcome, note};
use crate::interrupt;
use crate::output::Out;
use crate::store::{connect, options, say_memory, writable};

/// Whether the shell continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    GoOn,
    End,
}

/// The state of the shell between two lines.
pub(super) struct Session {
    /// The options that the shell was started with; `tree` is the current tree.
    global: Global,
    open: Option<Opened>,
    has_opened: bool,
}

enum Opened {
    Store { db: Db, path: PathBuf, options: Options },
    Server(Url, Database),
}

/// Asks for a line at the terminal; `None` if nobody answers.
pub(super) type Ask<'a> = &'a mut dyn FnMut(&str) -> Option<String>;

impl Session {
    pub(super) fn new(global: Global) -> Self {
        Session { global, open: None, has_opened: false }
    }

    /// Opens the store that the shell was started with, if there is one. Reports failures itself.
    pub(super) fn open_at_start(&mut self) -> Outcome {
        if let Some(url) = self.global.url.clone() {
            return self.connect(url).map_err(|failure| said(&failure));
        }
        if !self.global.db.exists() {
            return Ok(());
        }
        let path = self.global.db.clone();
        let options = options(&self.global).create(false);
        self.open_store(path, options).map_err(|failure| said(&failure))
    }

    /// The memory that the user allows, in bytes.
    pub(super) fn memory(&self) -> Option<usize> {
        self.global.memory
    }

    /// Whether a store was opened. It may be closed again by now.
    pub(super) fn has_opened(&self) -> bool {
        self.has_opened
    }

    /// The text of the prompt: the store and the tree.
    pub(super) fn place(&self) -> String {
        let store = match &self.open {
            None => return "esker".to_owned(),
            Some(Opened::Store { path, .. }) => {
                path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
            }
            Some(Opened::Server(url, _)) => url.to_string(),
        };
        match self.global.tree.as_str() {
            "default" => store,
            tree => format!("{store}:{tree}"),
        }
    }

    /// The open store and the current tree, for completion. The keys of a server are not completed.
    pub(super) fn store(&self) -> Option<(Db, String)> {
        match &self.open {
            Some(Opened::Store { db, .. }) => Some((db.clone(), self.global.tree.clone())),
            _ => None,
        }
    }

    /// Runs a line. Reports what is wrong with it before it fails.
    pub(super) fn line(&mut self, line: &[u8], ask: Option<Ask<'_>>) -> Outcome<Next> {
        interrupt::clear();
        let words = words::split(line).map_err(|wrong| said(&Failure::usage(wrong)))?;
        if words.is_empty() {
            return Ok(Next::GoOn);
        }
        let typed = match parse(words) {
            Ok(typed) => typed,
            Err(message) => {
                let printed = exit::print(&message);
                return match printed {
                    _ if message.use_stderr() => Err(Failure::reported(2)),
                    Err(error) => Err(said(&Failure::output(&"standard output", &error))),
                    Ok(()) => Ok(Next::GoOn),
                };
            }
        };
        self.execute(typed, ask).map_err(|failure| said(&failure))
    }

    fn execute(&mut self, typed: Typed, ask: Option<Ask<'_>>) -> Outcome<Next> {
        match typed.verb {
            Verb::Exit => return Ok(Next::End),
            Verb::Open(args) => self.open(args)?,
            Verb::Close => match self.open {
                Some(_) => self.close()?,
                None => return Err(nothing_open()),
            },
            Verb::Tree(args) => match args.tree_name {
                Some(name) => self.global.tree = name,
                None => Out::stdout()?.with(|out| {
                    out.part(self.global.tree.as_bytes());
                    out.line("")
                })?,
            },
            Verb::Shared(Command::Shell(_) | Command::Ql(_)) => {
                return Err(Failure::usage("a shell cannot run inside the shell"));
            }
            Verb::Shared(command) => {
                if typed.has_db && typed.global.url.is_some() {
                    return Err(Failure::usage(
                        "--db names a directory and --url a server: give one of them",
                    ));
                }
                let elsewhere =
                    typed.global.url.is_some() || (typed.has_db && !self.is_open(&typed.global.db));
                let global = self.settle(typed.global, elsewhere, typed.has_tree);
                self.shared(global, command, elsewhere, ask)?;
            }
        }
        Ok(Next::GoOn)
    }

    /// Whether `path` is the store that the shell has open.
    fn is_open(&self, path: &Path) -> bool {
        let real = |path: &Path| std::fs::canonicalize(path).ok();
        match &self.open {
            Some(Opened::Store { path: own, .. }) => real(own).is_some_and(|own| real(path) == Some(own)),
            _ => false,
        }
    }

    /// The global options of a line. The session provides those that the line does not set. `elsewhere`: the line names
    /// another store.
    fn settle(&self, line: Global, elsewhere: bool, has_tree: bool) -> Global {
        let (mut path, mut open, mut url, mut connected) = (self.global.db.clone(), None, None, None);
        match &self.open {
            _ if elsewhere => (path, url) = (line.db, line.url),
            Some(Opened::Store { db, path: own, .. }) => (path, open) = (own.clone(), Some(db.clone())),
            Some(Opened::Server(own, database)) => {
                (url, connected) = (Some(own.clone()), Some(database.clone()));
            }
            None => {}
        }
        Global {
            db: path,
            url,
            connected,
            tree: if has_tree { line.tree } else { self.global.tree.clone() },
            keys: line.keys.or(self.global.keys),
            values: line.values.or(self.global.values),
            escapes: line.escapes || self.global.escapes,
            json: line.json || self.global.json,
            memory: line.memory.or(self.global.memory),
            wait: line.wait.or(self.global.wait),
            open,
            in_shell: true,
        }
    }

    /// Runs a command that the command line has too.
    fn shared(
        &mut self,
        mut global: Global,
        mut command: Command,
        elsewhere: bool,
        ask: Option<Ask<'_>>,
    ) -> Outcome {
        refuse_standard_input(&command)?;
        let needs_store = !matches!(command, Command::Dump(_) | Command::Completions(_) | Command::Man(_));
        if needs_store && !elsewhere && self.open.is_none() {
            return Err(nothing_open());
        }
        if let (Command::Destroy(args), Some(ask)) = (&mut command, ask)
            && args.yes.is_none()
        {
            let path = global.db.display();
            args.yes = Some(OsString::from(
                ask(&format!("This deletes {path} for good. Type its name: ")).unwrap_or_default(),
            ));
        }
        let reopens = match command {
            _ if global.url.is_some() => return commands::run(Cli { global, command }),
            Command::Check | Command::Repair => true,
            Command::Destroy(_) => false,
            _ => return commands::run(Cli { global, command }),
        };
        // These need the store for themselves.
        global.open = None;
        let closed = if elsewhere { None } else { self.open.take() };
        let Some(Opened::Store { db, path, options }) = closed else {
            return commands::run(Cli { global, command });
        };
        db.close()?;
        drop(db);
        let done = commands::run(Cli { global, command });
        if (reopens || done.is_err())
            && let Err(failure) = self.open_store(path, options.create(false))
        {
            let Err(first) = done else { return Err(failure) };
            let first = said(&first);
            said(&failure);
            return Err(first);
        }
        done
    }

    fn open(&mut self, args: Open) -> Outcome {
        let named = args.name.as_ref().and_then(|name| name.to_str()).filter(|name| Url::is_meant(name));
        let url = match named {
            Some(name) => Some(Url::parse(name).map_err(Failure::usage)?),
            None if args.name.is_none() => self.global.url.clone(),
            None => None,
        };
        if let Some(url) = url {
            self.close()?;
            return self.connect(url);
        }
        let path = args.name.unwrap_or_else(|| self.global.db.clone());
        let mut options = options(&self.global);
        say_memory(args.buffer);
        if let Some(bytes) = args.buffer {
            options = options.memory_budget(bytes);
        }
        options.memtable_bytes = args.memtable.or(options.memtable_bytes);
        self.close()?;
        self.open_store(path, options)
    }

    fn open_store(&mut self, path: PathBuf, options: Options) -> Outcome {
        let global = Global { db: path.clone(), ..self.global.clone() };
        let (db, _) = writable(&global, &options)?;
        self.open = Some(Opened::Store { db, path, options });
        self.has_opened = true;
        Ok(())
    }

    /// Connects to a server, which is then the store that is open.
    fn connect(&mut self, url: Url) -> Outcome {
        let global = Global { url: Some(url.clone()), ..self.global.clone() };
        let database = connect(&global)?;
        self.open = Some(Opened::Server(url, database));
        self.has_opened = true;
        Ok(())
    }

    /// Closes the store, if one is open.
    pub(super) fn close(&mut self) -> Outcome {
        match self.open.take() {
            Some(Opened::Store { db, .. }) => Ok(db.close()?),
            Some(Opened::Server(..)) | None => Ok(()),
        }
    }
}

/// Reports a failure. Only the exit code of it is left.
fn said(failure: &Failure) -> Failure {
    failure.message().inspect(|message| note(message));
    Failure::reported(failure.code())
}

fn nothing_open() -> Failure {
    Failure::usage("no store is open: `open NAME` opens a store, and creates it if there is none")
}

/// Standard input is the source of the lines.
fn refuse_standard_input(command: &Command) -> Outcome {
    let file: Option<&Path> = match command {
        Command::Put(args) => args.file.as_deref(),
        Command::Import(args) => Some(&args.source),
        Command::Run(args) => Some(&args.file),
        _ => None,
    };
    match file {
        Some(file) if file == Path::new("-") => {
            Err(Failure::usage("the shell reads its lines from standard input; name a file instead"))
        }
        _ => Ok(()),
    }
}
