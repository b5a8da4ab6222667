//! `esker get KEY`: prints the value with a newline, or exactly its bytes with `--file`, `--range`.

use std::io::IsTerminal;
use std::ops::Range;
use std::path::Path;

use esker::Value;

use crate::args::{Get, Global};
use crate::datatype::{DataType, Types};
use crate::exit::{Failure, Outcome};
use crate::json;
use crate::kind;
use crate::output::{NewFile, Out};
use crate::store::{Store, check_outside};
use crate::stream::pieces;

pub(crate) fn run(global: &Global, args: &Get) -> Outcome {
    let store = Store::read(global)?;
    let key = store.key(args.key.as_encoded_bytes())?;
    let Some(value) = store.tree.get(&key)? else { return Err(absent(global, args)) };
    let range = match args.range {
        Some(range) => range.of(value.len())?,
        None => 0..value.len(),
    };
    match &args.file {
        Some(path) if path != Path::new("-") => {
            check_outside(global, path)?;
            let mut file = NewFile::create(path)?;
            pieces(&value, range, |piece| file.out().write(piece))?;
            return file.finish();
        }
        _ => {}
    }
    let exact = args.file.is_some() || args.range.is_some();
    let out = Out::stdout()?;
    let mut out = if args.raw { out.raw() } else { out };
    out.with(|out| {
        if global.json {
            // A part of a number is no number: it is shown as bytes.
            let values = if args.range.is_some() { DataType::Text } else { store.types.values };
            // The value is one string, so it is read whole.
            json::row(
                out.buffer(),
                Types { values, ..store.types },
                &key,
                Some((&value.read_at(range)?, value.expires_us())),
            )
        } else if exact {
            pieces(&value, range, |piece| out.write(piece))
        } else if store.types.values != DataType::Text {
            store.types.values.print_value(&value.read_at(range)?, out.buffer())?;
            out.write(b"\n")
        } else if let Some(what) = describe(args, &value, range.clone())? {
            out.line(&what)
        } else {
            pieces(&value, range, |piece| out.write(piece))?;
            out.write(b"\n")
        }
    })
}

/// People get a message. Programs get only the exit code, as from `grep`.
fn absent(global: &Global, args: &Get) -> Failure {
    let is_told = global.in_shell || std::io::stderr().is_terminal();
    if is_told { Failure::absent(&args.key) } else { Failure::not_there() }
}

/// The text to show on a terminal instead of a value that would garble it.
fn describe(args: &Get, value: &Value, range: Range<u64>) -> Outcome<Option<String>> {
    if args.raw || !std::io::stdout().is_terminal() {
        return Ok(None);
    }
    let len = range.end - range.start;
    let first = value.read_at(range.start..range.start + len.min(kind::POUR_AT_MOST))?;
    let what = kind::unprintable(&first, len);
    Ok(what.map(|what| format!("({what}; --raw prints it, --file F saves it)")))
}
