//! The commands that are one call of the library: `compact`, `checkpoint`, `dump`.

use crate::args::{Checkpoint, Dump, Global};
use crate::exit::Outcome;
use crate::output::Out;
use crate::progress::Progress;
use crate::store::{existing, options};

pub(crate) fn compact(global: &Global) -> Outcome {
    let db = existing(global)?;
    let _progress = Progress::spinner("compacting");
    db.compact()?;
    Ok(db.close()?)
}

pub(crate) fn checkpoint(global: &Global, args: &Checkpoint) -> Outcome {
    let db = existing(global)?;
    let _progress = Progress::spinner("copying");
    db.checkpoint(&args.dir)?;
    Ok(db.close()?)
}

pub(crate) fn dump(global: &Global, args: &Dump) -> Outcome {
    Out::stdout()?.with(|out| {
        let mut printed = Ok(());
        let mut print = |line: &str| {
            printed = out.line(line);
            printed.is_ok()
        };
        esker::dump(&args.file, &mut print, &options(global))?;
        printed
    })
}
