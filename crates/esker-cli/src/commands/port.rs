//! `esker export-tree` and `esker import-tree`.

use esker::TreeFiles;
use indicatif::HumanBytes;

use crate::args::{ExportTree, Global, ImportTree};
use crate::exit::{Outcome, note};
use crate::interrupt;
use crate::progress::Progress;
use crate::store::{close, existing, readable};

pub(crate) fn export(global: &Global, args: &ExportTree) -> Outcome {
    let db = readable(global)?;
    let progress = Progress::spinner("exporting");
    let (exported, name, dir) = (db.clone(), global.tree.clone(), args.dir.clone());
    let files = interrupt::wait(global.on_interrupt(), move || Ok(exported.export_tree(&name, dir)?))?;
    drop(progress);
    close(global, &db)?;
    tell(global, "exported", &files);
    Ok(())
}

pub(crate) fn import(global: &Global, args: &ImportTree) -> Outcome {
    let db = existing(global)?;
    let progress = Progress::spinner("importing");
    let (importing, name, dir) = (db.clone(), global.tree.clone(), args.dir.clone());
    let files = interrupt::wait(global.on_interrupt(), move || Ok(importing.import_tree(dir, &name)?.1))?;
    drop(progress);
    close(global, &db)?;
    tell(global, "imported", &files);
    Ok(())
}

fn tell(global: &Global, what: &str, files: &TreeFiles) {
    let (count, bytes) = (files.files, HumanBytes(files.bytes));
    let copied = match files.copied_files {
        0 => "linked".to_owned(),
        // A store that is open for reading only is copied first, with its log: more than the tree may have.
        _ => format!("{} were copied", HumanBytes(files.copied_bytes)),
    };
    note(&format!("{:?} {what}: {count} files, {bytes}, {copied}", global.tree));
}
