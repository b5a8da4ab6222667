//! `esker trees`.

use serde_json::json;

use crate::args::{Global, Trees};
use crate::datatype::parts;
use crate::exit::Outcome;
use crate::keyspace::Keyspace;
use crate::output::Out;
use crate::ranges::KeyRange;
use crate::store::read_only;

pub(crate) fn run(global: &Global, args: &Trees) -> Outcome {
    let db = read_only(global)?;
    let names = db.tree_names();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    // Types of several elements are long.
    let tags = names.iter().filter_map(|name| db.open_tree(name).ok()??.tag());
    let of_keys = tags.map(|tag| parts(&tag).0.len()).max().unwrap_or(0).max(4);
    Out::stdout()?.with(|out| {
        for name in names {
            if !args.long && !global.json {
                out.part(name.as_bytes());
                out.line("")?;
                continue;
            }
            let Some(tree) = db.open_tree(&name)? else { continue };
            // Prints the tag as it is: a tag that names no types is worth seeing.
            let tag = tree.tag();
            let (keys, values) = tag.as_deref().map(parts).unzip();
            let rows = super::count::rows(&Keyspace::local(db.clone(), tree), KeyRange::ALL)?;
            match global.json {
                true => out.line(
                    &json!({ "tree": name, "keys": keys, "values": values, "rows": rows }).to_string(),
                )?,
                false => {
                    let (keys, values) = (keys.unwrap_or("-"), values.unwrap_or("-"));
                    out.part(format!("{name:width$}  {keys:of_keys$}  {values:4}  {rows}").as_bytes());
                    out.line("")?;
                }
            }
        }
        Ok(())
    })
}
