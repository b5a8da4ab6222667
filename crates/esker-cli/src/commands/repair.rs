//! `esker repair`: one line per damaged place, or `ok`.

use esker::{Db, ErrorKind, Loss};
use serde_json::json;

use crate::args::Global;
use crate::datatype::{DataType, Types};
use crate::exit::{Failure, Outcome, note};
use crate::interrupt;
use crate::output::Out;
use crate::progress::Progress;
use crate::store::{opening, options, patiently};

pub(crate) fn run(global: &Global) -> Outcome {
    let watch = interrupt::watch()?;
    let progress = Progress::spinner("repairing");
    let repaired =
        patiently(global, || Ok(esker::repair_until(&global.db, &options(global), watch.clone())))?;
    drop(progress);
    let report = repaired.map_err(|error| match error.kind() {
        ErrorKind::Cancelled => Failure::interrupted(
            "interrupted: the store was not repaired, and it has lost nothing; `esker repair` starts again",
        ),
        _ => opening(global, error),
    })?;
    if report.is_cancelled {
        // The store has changed by now, so its losses are reported all the same.
        interrupt::clear();
    }
    let types = KeyTypes::of(global, &report.losses);
    Out::stdout()?.with(|out| {
        report.losses.iter().try_for_each(|loss| out.line(&line(global, loss, &types)))?;
        match (report.losses.is_empty(), global.json) {
            (true, true) => out.line(&json!({ "ok": true }).to_string()),
            (true, false) => out.line("ok"),
            (false, _) => Ok(()),
        }
    })?;
    if report.rebuilt {
        note(
            "the manifest was rebuilt: trees may have new names, and data deleted shortly before may be back",
        );
    }
    if let Some(quarantine) = &report.quarantine {
        note(&format!("files that the store no longer uses are in {}", quarantine.display()));
    }
    if report.is_cancelled {
        return Err(Failure::interrupted(
            "interrupted: the store is repaired, but the final check did not end; `esker check` repeats it",
        ));
    }
    if report.losses.is_empty() { Ok(()) } else { Err(Failure::not_there()) }
}

/// How keys are shown: in the type of their tree, which the repaired store knows, or in the type of `--keys`.
struct KeyTypes {
    asked: Option<DataType>,
    store: Option<Db>,
}

impl KeyTypes {
    fn of(global: &Global, losses: &[Loss]) -> KeyTypes {
        let is_needed = global.keys.is_none() && losses.iter().any(|loss| loss.keys.is_some());
        // Another process may have opened the store by now. Then keys are shown as text.
        let opened = is_needed.then(|| Db::open_read_only(&global.db, options(global)).ok());
        KeyTypes { asked: global.keys, store: opened.flatten() }
    }

    fn of_tree(&self, tree: Option<&str>) -> Option<DataType> {
        let told = || Types::told_by(&self.store.as_ref()?.open_tree(tree?).ok()??.tag()?);
        self.asked.or_else(told)
    }
}

fn line(global: &Global, loss: &Loss, types: &KeyTypes) -> String {
    let (file, offset) = (loss.file.display().to_string(), loss.offset);
    let reason = loss.reason.replace('\n', " ");
    let keys_type = types.of_tree(loss.tree.as_deref());
    let plain = |key: &[u8]| key.escape_ascii().to_string();
    if global.json {
        let shown = |key: &[u8]| keys_type.and_then(|keys| keys.shown(key)).unwrap_or_else(|| plain(key));
        let keys = loss.keys.as_ref().map(|(from, to)| [shown(from), shown(to)]);
        let tree = &loss.tree;
        return json!({ "file": file, "offset": offset, "reason": reason, "tree": tree, "keys": keys })
            .to_string();
    }
    let quoted = |key: &[u8]| format!("\"{}\"", plain(key));
    let shown = |key: &[u8]| keys_type.and_then(|keys| keys.shown(key)).unwrap_or_else(|| quoted(key));
    let tree = loss.tree.as_ref().map_or(String::new(), |tree| format!("; tree {tree:?}"));
    let keys = loss.keys.as_ref().map_or(String::new(), |(from, to)| match from == to {
        true => format!(", key {}", shown(from)),
        false => format!(", keys from {} to {}", shown(from), shown(to)),
    });
    format!("{file} {offset} {reason}{tree}{keys}")
}
