//! `esker export FILE`: rows into a file in one of the formats. A directory goes to `export_dir`.

use std::path::Path;

use esker::ScanRange;

use crate::args::{Export, Global};
use crate::exit::{Failure, Outcome};
use crate::formats::Format;
use crate::formats::writer::Writer;
use crate::output::{NewFile, Out};
use crate::progress::Progress;
use crate::store::Store;

/// A longer value goes into a directory alone: a row is in memory as a whole, several times where it is quoted.
const VALUE_AT_MOST: u64 = 1 << 30;

pub(crate) fn run(global: &Global, args: &Export) -> Outcome {
    let target = &args.target;
    let is_dir = target.is_dir() || target.as_os_str().as_encoded_bytes().ends_with(b"/");
    if is_dir && args.format.is_some() {
        return Err(Failure::usage(format!("{} is a directory: it has no format", target.display())));
    }
    let format = Format::of(args.format, global.json, target)?;
    let store = Store::read(global)?;
    if is_dir {
        return super::export_dir::run(&store, target);
    }
    if target == Path::new("-") {
        return Out::stdout()?.with(|out| rows(&store, format, out));
    }
    let mut file = NewFile::create(target)?;
    rows(&store, format, file.out())?;
    file.finish()
}

fn rows(store: &Store, format: Format, out: &mut Out) -> Outcome {
    let progress = Progress::count("rows");
    let mut writer = Writer::new(format, store.types);
    writer.begin(out.buffer());
    let mut rows = store.tree.scan(ScanRange::all())?;
    while rows.advance()? {
        if rows.value_len() > VALUE_AT_MOST {
            return Err(Failure::usage(format!(
                "the value of {:?} has {} bytes, too many for a row; export DIR/ takes values of any length",
                String::from_utf8_lossy(rows.key()),
                rows.value_len()
            )));
        }
        let (key, value) = rows.pair()?;
        writer.row(out.buffer(), key, value)?;
        out.spill()?;
        progress.add(1);
    }
    Ok(())
}
