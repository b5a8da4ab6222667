//! `esker get KEY`: prints the value with a newline, or exactly its bytes with `--file`, `--range`.

use std::io::IsTerminal;
use std::path::Path;

use crate::args::{Get, Global};
use crate::datatype::{DataType, Types};
use crate::exit::{Failure, Outcome};
use crate::json;
use crate::keyspace::Held;
use crate::kind;
use crate::output::{NewFile, Out};
use crate::store::{Store, check_outside};

pub(crate) fn run(global: &Global, args: &Get) -> Outcome {
    let store = Store::read(global)?;
    let key = store.key(args.key.as_encoded_bytes())?;
    let found = match args.range {
        Some(range) => store.tree.get_range(&key, range)?,
        None => store.tree.get(&key)?,
    };
    let Some(mut value) = found else { return Err(absent(global, args)) };
    match &args.file {
        Some(path) if path != Path::new("-") => {
            check_outside(global, path)?;
            let mut file = NewFile::create(path)?;
            value.pieces(|piece| file.out().write(piece))?;
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
            let expires_us = value.expires_us();
            json::row(out.buffer(), Types { values, ..store.types }, &key, Some((&value.all()?, expires_us)))
        } else if exact {
            value.pieces(|piece| out.write(piece))
        } else if store.types.values != DataType::Text {
            store.types.values.print_value(&value.all()?, out.buffer())?;
            out.write(b"\n")
        } else {
            // A value that a terminal can show is no longer than the first bytes that tell so.
            match first(args, &mut value)? {
                Err(what) => return out.line(&what),
                Ok(first) => out.write(&first)?,
            }
            value.pieces(|piece| out.write(piece))?;
            out.write(b"\n")
        }
    })
}

/// People get a message. Programs get only the exit code, as from `grep`.
fn absent(global: &Global, args: &Get) -> Failure {
    let is_told = global.in_shell || std::io::stderr().is_terminal();
    if is_told { Failure::absent(&args.key) } else { Failure::not_there() }
}

/// The first bytes of the value, or the text to show on a terminal instead of a value that would garble it.
fn first(args: &Get, value: &mut Held) -> Outcome<Result<Vec<u8>, String>> {
    let mut first = Vec::new();
    if args.raw || !std::io::stdout().is_terminal() {
        return Ok(Ok(first));
    }
    value.next(kind::POUR_AT_MOST as usize, &mut first)?;
    match kind::unprintable(&first, value.len()) {
        Some(what) => Ok(Err(format!("({what}; --raw prints it, --file F saves it)"))),
        None => Ok(Ok(first)),
    }
}
