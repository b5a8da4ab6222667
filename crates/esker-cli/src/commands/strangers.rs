//! Files in the directory of a continued export that belong to no row. They are reported and left as they are. Either
//! their row was deleted since the export began, or another program put them there.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::escape::{self, LONG, MARKER, UNFINISHED};
use crate::exit::{Failure, Outcome, note};
use crate::store::Store;

/// Reports the files below `dir` that belong to no row. `long`: how many keys were too long for a path.
pub(super) fn name(store: &Store, dir: &Path, long: u64) -> Outcome {
    let (mut count, mut first) = (0_u64, None);
    let mut pending = vec![dir.to_path_buf()];
    while let Some(path) = pending.pop() {
        let failed = |error: io::Error| Failure::io("read", &path, &error);
        if fs::symlink_metadata(&path).map_err(failed)?.is_dir() {
            let inside = fs::read_dir(&path).map_err(failed)?;
            pending.extend(
                inside
                    .map(|entry| entry.map(|e| e.path()))
                    .collect::<io::Result<Vec<_>>>()
                    .map_err(failed)?,
            );
            continue;
        }
        let below = path.strip_prefix(dir).unwrap_or(&path);
        if !is_of_row(store, below, long)? {
            count += 1;
            first = first.filter(|first: &PathBuf| *first < path).or(Some(path));
        }
    }
    if let Some(first) = first {
        note(&format!(
            "files that belong to no row were left as they are: {count}; the first is {}",
            first.display()
        ));
    }
    Ok(())
}

fn is_of_row(store: &Store, below: &Path, long: u64) -> Outcome<bool> {
    if below == Path::new(MARKER) || below == Path::new(UNFINISHED) {
        return Ok(true);
    }
    if let Ok(name) = below.strip_prefix(LONG) {
        let number = name.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.parse().ok());
        let kind = name.extension().is_some_and(|extension| extension == "key" || extension == "value");
        return Ok(kind && number.is_some_and(|number: u64| (1..=long).contains(&number)));
    }
    let Some(typed) = escape::key_of(below.as_os_str().as_encoded_bytes()) else { return Ok(false) };
    if typed.is_empty() && store.types.keys.takes_all() && store.tree.is_database() {
        return Ok(store.tree.contains(&typed)?);
    }
    match store.types.keys.to_bytes(&typed) {
        Ok(key) => Ok(store.tree.contains(&key)?),
        Err(_) => Ok(false),
    }
}
