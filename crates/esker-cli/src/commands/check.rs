//! `esker check`: one line per damaged place, or `ok`.

use esker::ErrorKind;
use indicatif::HumanCount;
use serde_json::json;

use crate::args::Global;
use crate::exit::{Failure, Outcome, note};
use crate::interrupt;
use crate::output::Out;
use crate::progress::Progress;
use crate::store::{opening, options, patiently};

const CUT_OFF: &str = "interrupted: the rest of the store was not checked";

pub(crate) fn run(global: &Global) -> Outcome {
    let watch = interrupt::watch()?;
    let progress = Progress::spinner("checking");
    let checked = patiently(global, || Ok(esker::check_until(&global.db, &options(global), watch.clone())))?;
    drop(progress);
    let report = match checked {
        Ok(report) => report,
        // Damage that stops the check is a finding too.
        Err(error) if error.kind() == ErrorKind::Corruption => {
            let file = error.path().unwrap_or(&global.db).display().to_string();
            Out::stdout()?
                .with(|out| print(out, global, &file, error.offset().unwrap_or(0), error.message()))?;
            say_next(global);
            return Err(Failure::not_there());
        }
        // Before anything was checked.
        Err(error) if error.kind() == ErrorKind::Cancelled => return Err(Failure::interrupted(CUT_OFF)),
        Err(error) => return Err(opening(global, error)),
    };
    if report.is_cancelled {
        // The findings until then are printed all the same.
        interrupt::clear();
    }
    Out::stdout()?.with(|out| {
        for finding in &report.findings {
            print(out, global, &finding.file.display().to_string(), finding.offset, &finding.reason)?;
        }
        match (report.findings.is_empty() && !report.is_cancelled, global.json) {
            (true, true) => {
                let figures = json!({
                    "ok": true, "files": report.files, "bytes": report.bytes, "entries": report.entries,
                    "log_entries": report.log_entries
                });
                out.line(&figures.to_string())
            }
            (true, false) => out.line("ok"),
            (false, _) => Ok(()),
        }
    })?;
    let [files, bytes, entries, logged] =
        [report.files, report.bytes, report.entries, report.log_entries].map(HumanCount);
    let places = HumanCount(report.findings.len() as u64);
    note(&format!(
        "checked {files} files, {bytes} bytes, {entries} entries in tables and {logged} only in the log: \
         {places} damaged places"
    ));
    if !report.findings.is_empty() {
        say_next(global);
    }
    if report.is_cancelled {
        return Err(Failure::interrupted(CUT_OFF));
    }
    if report.findings.is_empty() {
        return Ok(());
    }
    Err(Failure::not_there())
}

/// Advice for a damaged store.
fn say_next(global: &Global) {
    let db = global.db.display();
    note(&format!(
        "next: copy the store's directory to another place; then `esker restore DIR NEW` makes a store of a \
         backup, or `esker --db {db} repair` keeps what is sound and names what is lost"
    ));
}

fn print(out: &mut Out, global: &Global, file: &str, offset: u64, reason: &str) -> Outcome {
    let reason = reason.replace('\n', " ");
    match global.json {
        true => out.line(&json!({ "file": file, "offset": offset, "reason": reason }).to_string()),
        false => out.line(&format!("{file} {offset} {reason}")),
    }
}
