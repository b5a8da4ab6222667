//! `esker repair`: one line a damaged place, or `ok`.

use esker::Loss;
use serde_json::json;

use crate::args::Global;
use crate::exit::{Failure, Outcome, note};
use crate::interrupt::{self, Then};
use crate::output::Out;
use crate::progress::Progress;
use crate::store::{opening, options, patiently};

pub(crate) fn run(global: &Global) -> Outcome {
    let progress = Progress::spinner("repairing");
    let repaired = patiently(global, || {
        let (path, options) = (global.db.clone(), options(global));
        interrupt::wait(Then::WaitStill, move || Ok(esker::repair(&path, &options)))
    })?;
    drop(progress);
    let report = repaired.map_err(|error| opening(global, error))?;
    Out::stdout()?.with(|out| {
        report.losses.iter().try_for_each(|loss| out.line(&line(global, loss)))?;
        match (report.losses.is_empty(), global.json) {
            (true, true) => out.line(&json!({ "ok": true }).to_string()),
            (true, false) => out.line("ok"),
            (false, _) => Ok(()),
        }
    })?;
    if report.rebuilt {
        note(
            "the manifest was rebuilt: trees may have new names, and what was deleted shortly before may be back",
        );
    }
    if let Some(quarantine) = &report.quarantine {
        note(&format!("files that are not used any more are in {}", quarantine.display()));
    }
    if report.losses.is_empty() { Ok(()) } else { Err(Failure::not_there()) }
}

fn line(global: &Global, loss: &Loss) -> String {
    let (file, offset) = (loss.file.display().to_string(), loss.offset);
    let reason = loss.reason.replace('\n', " ");
    let shown = |key: &[u8]| key.escape_ascii().to_string();
    let keys = loss.keys.as_ref().map(|(from, to)| [shown(from), shown(to)]);
    if global.json {
        let (tree, keys) = (&loss.tree, &keys);
        return json!({ "file": file, "offset": offset, "reason": reason, "tree": tree, "keys": keys })
            .to_string();
    }
    let tree = loss.tree.as_ref().map_or(String::new(), |tree| format!("; tree {tree:?}"));
    let keys = keys.map_or(String::new(), |[from, to]| match from == to {
        true => format!(", key \"{from}\""),
        false => format!(", keys from \"{from}\" to \"{to}\""),
    });
    format!("{file} {offset} {reason}{tree}{keys}")
}
