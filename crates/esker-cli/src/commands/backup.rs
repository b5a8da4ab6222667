//! `esker backup` and `esker restore`.

use esker::{BackupInfo, ErrorKind};
use indicatif::HumanBytes;
use serde_json::json;

use crate::args::{Backup, Global, Restore};
use crate::exit::{Failure, Outcome, note};
use crate::interrupt;
use crate::output::Out;
use crate::progress::Progress;
use crate::store::{close, options, readable};
use crate::utc::utc;

pub(crate) fn run(global: &Global, args: &Backup) -> Outcome {
    if args.list {
        return list(global, args);
    }
    let db = readable(global)?;
    let progress = Progress::spinner("copying");
    let (copied, dir, keep, options) = (db.clone(), args.dir.clone(), args.keep, options(global));
    let (report, removed) = interrupt::wait(global.on_interrupt(), move || {
        let report = copied.backup(&dir)?;
        let removed = keep.map(|keep| esker::forget_backups(&dir, keep as usize, &options));
        Ok((report, removed.transpose()?))
    })?;
    drop(progress);
    close(global, &db)?;
    let (copied, bytes) = (HumanBytes(report.copied_bytes), HumanBytes(report.bytes));
    let removed = removed.map_or(String::new(), |count| format!("; {count} older backups removed"));
    note(&format!("backup {}: {bytes}, of which {copied} had to be copied{removed}", report.id));
    Ok(())
}

fn list(global: &Global, args: &Backup) -> Outcome {
    let backups = esker::backups(&args.dir, &options(global))?;
    Out::stdout()?.with(|out| backups.iter().try_for_each(|backup| out.line(&line(global, backup))))
}

fn line(global: &Global, BackupInfo { id, made_us, files, bytes, .. }: &BackupInfo) -> String {
    match global.json {
        true => json!({ "backup": id, "made": utc(*made_us), "files": files, "bytes": bytes }).to_string(),
        false => format!("{id}  {}  {files} files  {bytes} bytes", utc(*made_us)),
    }
}

pub(crate) fn restore(global: &Global, args: &Restore) -> Outcome {
    let watch = interrupt::watch()?;
    let progress = Progress::spinner("restoring");
    let restored = esker::restore_until(&args.dir, args.backup, &args.target, &options(global), watch);
    let restored = restored.map_err(|error| match error.kind() {
        // No advice to call `check`: it checks stores, not backups.
        ErrorKind::Corruption => Failure::store(error.to_string()),
        ErrorKind::Cancelled => {
            Failure::interrupted("interrupted: nothing was restored, and nothing is left behind")
        }
        _ => error.into(),
    })?;
    drop(progress);
    let target = args.target.display();
    note(&format!("backup {} of {} restored to {target}", restored.id, utc(restored.made_us)));
    Ok(())
}
