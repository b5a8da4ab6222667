//! `esker destroy`: deletes a store after the user has typed its name.

use std::ffi::OsString;
use std::fs;
use std::io::{self, BufRead, IsTerminal, Write};

use crate::args::{Destroy, Global};
use crate::escapes;
use crate::exit::{Failure, Outcome};
use crate::store::{missing, opening, options, patiently};

pub(crate) fn run(global: &Global, args: &Destroy) -> Outcome {
    if !global.db.is_dir() {
        return Err(missing(&global.db));
    }
    let name = name(global)?;
    let typed = match &args.yes {
        Some(typed) => typed.clone(),
        None => ask(global, &name)?,
    };
    if typed != name {
        let (name, typed) = (name.display(), typed.display());
        return Err(Failure::usage(format!("nothing was deleted: the store's name is {name}, not {typed}")));
    }
    let destroyed = patiently(global, || Ok(esker::destroy(&global.db, &options(global))))?;
    destroyed.map_err(|error| opening(global, error))
}

/// The name of the store's directory, even if it was given as `.` or through a link.
fn name(global: &Global) -> Outcome<OsString> {
    let failed = |error: io::Error| Failure::io("find", &global.db, &error);
    let path = match global.db.file_name() {
        Some(name) => return Ok(name.to_owned()),
        None => fs::canonicalize(&global.db).map_err(failed)?,
    };
    path.file_name()
        .map(ToOwned::to_owned)
        .ok_or_else(|| Failure::usage("the root directory cannot be a store"))
}

/// The name in the form in which a user types it at a terminal.
fn ask(global: &Global, name: &OsString) -> Outcome<OsString> {
    if !io::stdin().is_terminal() {
        let message = format!("destroy needs a confirmation: --yes {}", name.display());
        return Err(Failure::usage(message));
    }
    let question =
        format!("This deletes {} for good. Type its name ({}): ", global.db.display(), name.display());
    let mut shown = Vec::new();
    escapes::append_shown(&mut shown, question.as_bytes());
    let _ = io::stderr().write_all(&shown);
    let mut typed = String::new();
    let read = io::stdin().lock().read_line(&mut typed);
    read.map_err(|error| Failure::store(format!("cannot read the answer: {error}")))?;
    Ok(typed.trim_end_matches(['\r', '\n']).into())
}
