//! `esker get KEY`: to standard output with a newline, or exactly the bytes with `--file`, `--range`.

use std::borrow::Cow;
use std::io::IsTerminal;
use std::path::Path;

use crate::args::{Get, Global};
use crate::exit::{Failure, Outcome};
use crate::json;
use crate::kind;
use crate::output::{NewFile, Out};
use crate::store::Store;

pub(crate) fn run(global: &Global, args: &Get) -> Outcome {
    let store = Store::read(global)?;
    let key = store.key(args.key.as_encoded_bytes())?;
    let Some(value) = store.tree.get(&key)? else { return Err(Failure::not_there()) };
    let part = match args.range {
        Some(range) => Cow::Owned(value.read_at(range.of(value.len())?)?),
        None => value.bytes()?,
    };
    let part = &*part;
    match &args.file {
        Some(path) if path != Path::new("-") => {
            let mut file = NewFile::create(path)?;
            file.out().write(part)?;
            return file.finish();
        }
        _ => {}
    }
    let exact = args.file.is_some() || args.range.is_some();
    Out::stdout()?.with(|out| {
        if global.json {
            json::row(out.buffer(), store.keys, &key, Some(part))
        } else if exact {
            out.write(part)
        } else if let Some(what) = describe(args, part) {
            out.line(&what)
        } else {
            out.write(part)?;
            out.write(b"\n")
        }
    })
}

/// What to show on a terminal instead of a value that would spoil it.
fn describe(args: &Get, value: &[u8]) -> Option<String> {
    if args.raw || !std::io::stdout().is_terminal() {
        return None;
    }
    let what = kind::unprintable(value)?;
    Some(format!("({what}; --raw prints it, --file F saves it)"))
}
