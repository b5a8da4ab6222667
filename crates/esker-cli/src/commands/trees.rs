//! `esker trees`.

use esker::ScanRange;
use serde_json::json;

use crate::args::{Global, Trees};
use crate::exit::Outcome;
use crate::output::Out;
use crate::store::read_only;

pub(crate) fn run(global: &Global, args: &Trees) -> Outcome {
    let db = read_only(global)?;
    let names = db.tree_names();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    Out::stdout()?.with(|out| {
        for name in names {
            if !args.long && !global.json {
                out.line(&name)?;
                continue;
            }
            let Some(tree) = db.open_tree(&name)? else { continue };
            // The tag as it is: a tag that is no key type is worth seeing here.
            let keys = tree.tag();
            let rows = tree.count(ScanRange::all())?;
            match global.json {
                true => out.line(&json!({ "tree": name, "keys": keys, "rows": rows }).to_string())?,
                false => {
                    let keys = keys.as_deref().unwrap_or("-");
                    out.line(&format!("{name:width$}  {keys:4}  {rows}"))?;
                }
            }
        }
        Ok(())
    })
}
