//! Files that statements name.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use esker_ql::Cells;

use super::output::{Shown, file_cells};
use crate::args::Global;
use crate::exit::Outcome;
use crate::output::{NewFile, Out};
use crate::store::check_outside;

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
