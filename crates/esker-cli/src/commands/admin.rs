//! The commands that are a single call of the library: `compact`, `checkpoint`, `dump`.

use esker::{Error, ErrorKind};
use esker_table::Tables;

use crate::args::{Checkpoint, Dump, Global};
use crate::datatype::Types;
use crate::exit::{Failure, Outcome};
use crate::interrupt;
use crate::output::Out;
use crate::progress::Progress;
use crate::store::{close, existing, missing_for, options, readable, tables_if_there};

pub(crate) fn compact(global: &Global) -> Outcome {
    let mut db = existing(global)?;
    // Merges remove what tables need no longer only by the tables' rule. The shell has the store open without it.
    let mut tables = None;
    if global.open.is_none() && Tables::are_in(&db)? {
        db.close()?;
        db = tables.insert(tables_if_there(global)?.ok_or_else(|| missing_for(global))?).db().clone();
    }
    let _progress = Progress::spinner("compacting");
    let compacted = db.clone();
    interrupt::wait(global.on_interrupt(), move || Ok(compacted.compact()?))?;
    close(global, &db)
}

pub(crate) fn checkpoint(global: &Global, args: &Checkpoint) -> Outcome {
    let db = readable(global)?;
    let _progress = Progress::spinner("copying");
    let (copied, dir) = (db.clone(), args.dir.clone());
    interrupt::wait(global.on_interrupt(), move || copied.checkpoint(dir).map_err(uncopied))?;
    close(global, &db)
}

/// The message for a failed checkpoint.
fn uncopied(error: Error) -> Failure {
    match error.kind() {
        ErrorKind::Unsupported => Failure::store(format!(
            "{error}; a checkpoint needs hard links, so it must be on the store's file system; `esker backup \
             DIR` copies to any file system"
        )),
        _ => error.into(),
    }
}

pub(crate) fn dump(global: &Global, args: &Dump) -> Outcome {
    let file = args.file.display();
    let hint = "`esker dump FILE` shows one file of a store; `esker export FILE` or `DIR/` writes its rows, and `esker backup DIR` \
                copies it";
    if args.file.is_dir() {
        return Err(Failure::usage(format!("{file} is a directory: {hint}")));
    }
    if !args.file.exists() {
        return Err(Failure::store(format!("there is no file {file}: {hint}")));
    }
    Out::stdout()?.with(|out| {
        let mut printed = Ok(());
        let mut print = |line: &str| {
            printed = out.line(line);
            printed.is_ok()
        };
        let show = |tag: Option<&str>, key: &[u8]| global.keys.or_else(|| Types::told_by(tag?))?.shown(key);
        esker::dump_with(&args.file, show, &mut print, &options(global))?;
        printed
    })
}
