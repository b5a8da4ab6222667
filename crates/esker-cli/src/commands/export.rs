//! `esker export FILE`: writes rows to a file in one of the formats. `export_dir` exports to a directory.

use std::path::Path;

use super::export_notes::{say_left_out, say_untold, shown, unread, unread_after};
use crate::args::{Export, Global};
use crate::collections::Collections;
use crate::exit::{Failure, Outcome};
use crate::formats::Format;
use crate::formats::writer::{Row, Writer};
use crate::keyspace::Want;
use crate::lines::line_max;
use crate::output::{NewFile, Out};
use crate::progress::Progress;
use crate::ranges::KeyRange;
use crate::store::{Store, check_outside};
use crate::unpack::other_packer;

/// Longer values can only be exported to a directory: a row is in memory as a whole, several times if it is quoted.
/// `--memory` lowers it to what `import` takes with the same memory.
const VALUE_AT_MOST: u64 = 1 << 30;

pub(crate) fn run(global: &Global, args: &Export) -> Outcome {
    let target = &args.target;
    let is_dir = target.is_dir() || target.as_os_str().as_encoded_bytes().ends_with(b"/");
    if is_dir && args.format.is_some() {
        return Err(Failure::usage(format!("{} is a directory: --format is for files", target.display())));
    }
    if is_dir && !args.columns.is_empty() {
        return Err(Failure::usage(format!("{} is a directory: --columns is for files", target.display())));
    }
    let format = Format::of(args.format, global.json, target)?;
    if let Some(packer) = other_packer(target).filter(|_| !is_dir) {
        return Err(Failure::usage(format!(
            "export compresses only to .gz and .zst; `esker export - --format FORMAT | {packer}` does so for {}",
            target.display()
        )));
    }
    let store = Store::read(global)?;
    if target != Path::new("-") {
        check_outside(global, target)?;
    }
    if is_dir {
        return super::export_dir::run(&store, target);
    }
    let mut writer = Writer::new(format, store.types, &args.columns)?;
    let value_max =
        global.memory.map_or(VALUE_AT_MOST, |_| VALUE_AT_MOST.min(line_max(global.memory) as u64));
    let (attributed, collections) = if target == Path::new("-") {
        Out::stdout()?.with(|out| rows(&store, value_max, &mut writer, out))?
    } else {
        let mut file = NewFile::create_packed(target)?;
        let attributed = rows(&store, value_max, &mut writer, file.out())?;
        file.finish()?;
        attributed
    };
    say_untold(writer.untold());
    say_left_out(attributed, collections);
    Ok(())
}

/// Returns how many values have attributes, and how many are left out because they are not bytes.
fn rows(store: &Store, value_max: u64, writer: &mut Writer, out: &mut Out) -> Outcome<(u64, u64)> {
    let progress = Progress::count("rows");
    let (mut attributed, mut left_out) = (0, 0);
    let mut collections = Collections::of(&store.tree)?.filter(Collections::may_be);
    writer.begin(out.buffer());
    let mut rows = store.tree.scan(KeyRange::ALL, false, Want::All)?;
    let mut last = Vec::new();
    while rows.advance().map_err(|error| unread_after(store, &last, error))? {
        last.clear();
        last.extend_from_slice(rows.key());
        if rows.is_collection()
            && let Some(collections) = &mut collections
        {
            if !writer.takes_collections() {
                left_out += 1;
                continue;
            }
            let (key, expires_us) = (rows.key().to_vec(), rows.expires_us());
            let mut continues = false;
            // Another client may have deleted it or stored a string: then the next export has it.
            let without_elements = |error| {
                let what = || format!("the elements of {} cannot be read", shown(store, &key));
                Failure::from(error).because_of_store(what)
            };
            if let Some(kind) = collections.kind(&key).map_err(without_elements)? {
                collections.read(kind, &key, without_elements, |elements| -> Outcome {
                    writer.collection(out.buffer(), (&key, expires_us), kind, elements, continues)?;
                    continues = true;
                    out.spill()
                })?;
            }
            progress.add(1);
            continue;
        }
        if rows.value_len() > value_max {
            return Err(Failure::usage(format!(
                "the value of {} has {} bytes, too many for a row (of at most 1 GiB, or an eighth of --memory); \
                 `esker export DIR/` takes any length",
                shown(store, rows.key()),
                rows.value_len()
            )));
        }
        attributed += u64::from(rows.has_attributes());
        let expires_us = rows.expires_us();
        let (key, value) = rows.pair().map_err(|error| unread(store, &last, error))?;
        writer.row(out.buffer(), &Row { key, value, expires_us })?;
        out.spill()?;
        progress.add(1);
    }
    writer.end(out.buffer());
    Ok((attributed, left_out))
}
