//! Files that statements name.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use esker_ql::Cells;

use super::output::{Shown, file_cells};
use crate::args::Global;
use crate::exit::{Failure, Outcome};
use crate::output::{NewFile, Out};
use crate::store::check_outside;

/// The longest file with a schema.
const SCHEMA_MAX: u64 = 16 << 20;

/// The path that these bytes are.
pub(super) fn path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

/// Names of standard output. To make a new file of that name would replace what standard output goes to, or fail.
const STDOUT: [&[u8]; 3] = [b"/dev/stdout", b"/dev/fd/1", b"/proc/self/fd/1"];

/// Writes cells to a file, as `LOAD DATA` reads them. The file has its name once it is whole. It cannot be in the store.
pub(super) fn write(global: &Global, file: &[u8], cells: Box<dyn Cells>, shown: &Shown) -> Outcome {
    if STDOUT.contains(&file) {
        return Out::stdout()?.with(|out| file_cells(out, cells, shown));
    }
    check_outside(global, path(file))?;
    let mut file = NewFile::create_packed(path(file))?;
    file_cells(file.out(), cells, shown)?;
    file.finish()
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
    if STDOUT.contains(&file) {
        return Out::stdout()?.with(|out| text.lines().try_for_each(|line| out.line(line)));
    }
    check_outside(global, path(file))?;
    let mut file = NewFile::create(path(file))?;
    text.lines().try_for_each(|line| file.out().line(line))?;
    file.finish()
}
