//! Files that statements name.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use esker_ql::Cells;

use super::output::{Shown, file_cells};
use crate::args::Global;
use crate::exit::Outcome;
use crate::output::NewFile;
use crate::store::check_outside;

/// The path that these bytes are.
pub(super) fn path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

/// Writes cells to a file, as `LOAD DATA` reads them. The file has its name once it is whole. It cannot be in the store.
pub(super) fn write(global: &Global, file: &[u8], cells: Box<dyn Cells>, shown: &Shown) -> Outcome {
    check_outside(global, path(file))?;
    let mut file = NewFile::create_packed(path(file))?;
    file_cells(file.out(), cells, shown)?;
    file.finish()
}
