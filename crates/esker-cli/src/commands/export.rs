//! `esker export FILE`: a row a line, as text or as JSON. A directory goes to `export_dir`.

use std::path::Path;

use esker::ScanRange;

use crate::args::{Export, Global};
use crate::exit::{Failure, Outcome};
use crate::json;
use crate::keytype::KeyType;
use crate::output::{NewFile, Out};
use crate::progress::Progress;
use crate::store::Store;

pub(crate) fn run(global: &Global, args: &Export) -> Outcome {
    let target = &args.target;
    let store = Store::read(global)?;
    if target == Path::new("-") {
        return Out::stdout()?.with(|out| rows(global, &store, out));
    }
    if target.is_dir() || target.as_os_str().as_encoded_bytes().ends_with(b"/") {
        return super::export_dir::run(&store, target);
    }
    let mut file = NewFile::create(target)?;
    rows(global, &store, file.out())?;
    file.finish()
}

fn rows(global: &Global, store: &Store, out: &mut Out) -> Outcome {
    let progress = Progress::count("rows");
    let mut rows = store.tree.scan(ScanRange::all())?;
    while rows.advance()? {
        let (key, value) = rows.pair()?;
        match global.json {
            true => json::row(out.buffer(), store.keys, key, Some(value))?,
            false => line(out.buffer(), store.keys, key, value)?,
        }
        out.spill()?;
        progress.add(1);
    }
    Ok(())
}

/// Appends `key<TAB>value`, unless `import` would read something else from it.
fn line(out: &mut Vec<u8>, keys: KeyType, key: &[u8], value: &[u8]) -> Outcome {
    let in_key = keys == KeyType::Text && key.iter().any(|byte| b" \t\n".contains(byte));
    let in_value = value.contains(&b'\n') || value.ends_with(b"\r");
    if in_key || in_value {
        let (what, part) = if in_key { ("a blank or line break", "key") } else { ("a line break", "value") };
        return Err(Failure::usage(format!(
            "the key {:?} has {what} in its {part}, so it does not fit on a line; export --json takes any bytes",
            String::from_utf8_lossy(key)
        )));
    }
    keys.print(key, out)?;
    out.push(b'\t');
    out.extend_from_slice(value);
    out.push(b'\n');
    Ok(())
}
