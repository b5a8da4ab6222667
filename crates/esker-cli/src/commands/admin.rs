//! The commands that are one call of the library: `compact`, `checkpoint`, `dump`.

use crate::args::{Checkpoint, Dump, Global};
use crate::exit::Outcome;
use crate::interrupt::{self, Then};
use crate::output::Out;
use crate::progress::Progress;
use crate::store::{close, existing, options};

pub(crate) fn compact(global: &Global) -> Outcome {
    let db = existing(global)?;
    let _progress = Progress::spinner("compacting");
    let compacted = db.clone();
    interrupt::wait(Then::of(global), move || Ok(compacted.compact()?))?;
    close(global, &db)
}

pub(crate) fn checkpoint(global: &Global, args: &Checkpoint) -> Outcome {
    let db = existing(global)?;
    let _progress = Progress::spinner("copying");
    let (copied, dir) = (db.clone(), args.dir.clone());
    interrupt::wait(Then::of(global), move || Ok(copied.checkpoint(dir)?))?;
    close(global, &db)
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
