//! Files that statements name.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use esker_ql::{Cells, FileCell, Tables};
use esker_table::{CellBatch, PutCell};

use super::failure::failure;
use super::output::{Shown, file_cells, raw_value};
use crate::args::Global;
use crate::exit::{Failure, Outcome};
use crate::interrupt;
use crate::lines::line_max;
use crate::output::{NewFile, Out};
use crate::store::check_outside;

/// Size of one read from a file that becomes a cell.
const PIECE: usize = 1 << 20;

/// The longest file with a schema.
const SCHEMA_MAX: u64 = 16 << 20;

/// The path that these bytes are. HQL may write `file://` before a path.
pub(super) fn path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes.strip_prefix(b"file://").unwrap_or(bytes)))
}

/// Names of standard output. To make a new file of that name would replace what standard output goes to, or fail.
const STDOUT: [&[u8]; 3] = [b"/dev/stdout", b"/dev/fd/1", b"/proc/self/fd/1"];

/// Writes cells to a file, as `LOAD DATA` reads them. The file has its name once it is whole. It cannot be in the store.
pub(super) fn write(global: &Global, file: &[u8], cells: Box<dyn Cells>, shown: &Shown) -> Outcome {
    if STDOUT.contains(&path(file).as_os_str().as_bytes()) {
        return Out::stdout()?.with(|out| file_cells(out, cells, shown));
    }
    check_outside(global, path(file))?;
    let mut file = NewFile::create_packed(path(file))?;
    file_cells(file.out(), cells, shown)?;
    file.finish()
}

/// Writes the value of the first of `cells` to a file as it is. The file has its name once it is whole. It cannot be in the store.
pub(super) fn write_value(global: &Global, file: &[u8], mut cells: Box<dyn Cells>) -> Outcome {
    if !cells.advance().map_err(failure)? {
        return Err(Failure::usage("the table has no such cell"));
    }
    if STDOUT.contains(&path(file).as_os_str().as_bytes()) {
        return Out::stdout()?.with(|out| raw_value(out, &*cells));
    }
    check_outside(global, path(file))?;
    let mut file = NewFile::create(path(file))?;
    raw_value(file.out(), &*cells)?;
    file.finish()
}

/// Writes a file into a cell, piece by piece if the tables take it so.
pub(super) fn read_cell(
    tables: &dyn Tables,
    table: &str,
    cell: &FileCell,
    timestamp: Option<i64>,
) -> Outcome {
    let name = path(&cell.file);
    let failed = |error| Failure::io("read", name, &error);
    let mut from = File::open(name).map_err(failed)?;
    let (family, qualifier) = (cell.column.family.as_str(), &cell.column.qualifier[..]);
    let put = |value| PutCell { row: &cell.row, family, qualifier, timestamp, value };
    if let Some(mut to) = tables.begin_long(table, put(&[])).map_err(failure)? {
        let mut piece = vec![0; PIECE];
        loop {
            interrupt::check()?;
            match from.read(&mut piece) {
                Ok(0) => return to.finish().map_err(failure),
                Ok(len) => to.add(&piece[..len]).map_err(failure)?,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(failed(error)),
            }
        }
    }
    let (mut value, max) = (Vec::new(), line_max(None));
    from.take(max as u64 + 1).read_to_end(&mut value).map_err(failed)?;
    if value.len() > max {
        let message = format!("{}: more than {max} bytes, too many for the available memory", name.display());
        return Err(Failure::usage(message));
    }
    let mut batch = CellBatch::new();
    batch.push(put(&value));
    tables.insert(table, &batch).map_err(failure)
}

/// Reads a schema.
pub(super) fn read_schema(file: &[u8]) -> Outcome<String> {
    let file = path(file);
    let mut text = Vec::new();
    let read = File::open(file).and_then(|from| from.take(SCHEMA_MAX + 1).read_to_end(&mut text));
    read.map_err(|error| Failure::io("read", file, &error))?;
    if text.len() as u64 > SCHEMA_MAX {
        return Err(Failure::usage(format!("{}: a schema has {SCHEMA_MAX} bytes at most", file.display())));
    }
    String::from_utf8(text)
        .map_err(|_| Failure::usage(format!("{}: a schema is XML in UTF-8", file.display())))
}

/// Writes a schema to a file, as [`read_schema`] reads it. The file has its name once it is whole. It cannot be in the store.
pub(super) fn write_schema(global: &Global, file: &[u8], text: &str) -> Outcome {
    if STDOUT.contains(&path(file).as_os_str().as_bytes()) {
        return Out::stdout()?.with(|out| text.lines().try_for_each(|line| out.line(line)));
    }
    check_outside(global, path(file))?;
    let mut file = NewFile::create(path(file))?;
    text.lines().try_for_each(|line| file.out().line(line))?;
    file.finish()
}
