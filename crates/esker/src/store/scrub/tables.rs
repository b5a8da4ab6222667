//! The part of a pass that reads tables.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::{Arc, Weak};

use super::{Scrub, is_damage};
use crate::cache::BufferPool;
use crate::error::{Error, ErrorKind, Result};
use crate::finding::CheckReport;
use crate::table::{TableReader, Verification};
use crate::version::edit::{FileId, TableInfo};
use crate::version::table_info::check_described;
use crate::version::tables::{TableFile, table_path};

/// A table, and its description in the manifest.
#[derive(Debug)]
pub(super) struct Described {
    /// It may be merged away before its turn comes.
    file: Weak<TableFile>,
    id: FileId,
    infos: Vec<TableInfo>,
}

/// A table with some blocks read.
pub(super) struct TableUnderWay {
    file: Weak<TableFile>,
    verification: Verification,
}

impl fmt::Debug for TableUnderWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableUnderWay").finish_non_exhaustive()
    }
}

impl Described {
    /// The tables of all trees.
    pub(super) fn all(scrub: &Scrub) -> VecDeque<Described> {
        let trees = scrub.versions.trees();
        let mut tables: BTreeMap<FileId, Described> = BTreeMap::new();
        for tree in trees {
            for (_, table) in tree.state.load().levels.tables() {
                let id = table.info.file;
                let file = Arc::downgrade(&table.file);
                let described = tables.entry(id).or_insert(Described { file, id, infos: Vec::new() });
                described.infos.push(table.info.clone());
            }
        }
        tables.into_values().collect()
    }

    /// Reads everything except the blocks. `None` if the blocks cannot be found then, or if the table is not needed any
    /// more.
    pub(super) fn open(self, scrub: &Scrub, report: &mut CheckReport) -> Option<TableUnderWay> {
        // While it is held, the file is not removed.
        let _held = self.file.upgrade()?;
        report.files += 1;
        match self.read(scrub, report) {
            Ok(reader) => {
                let verification = Verification::begin(Arc::new(reader));
                Some(TableUnderWay { file: self.file, verification })
            }
            Err(error) => {
                if is_damage(&error) {
                    report.found(&error, &scrub.core.dir);
                }
                None
            }
        }
    }

    fn read(&self, scrub: &Scrub, report: &mut CheckReport) -> Result<TableReader> {
        let path = table_path(&scrub.core.dir, self.id);
        let pool = Arc::new(BufferPool::new(0));
        let source = scrub.core.registry.open_file(self.id).map_err(|error| match error.kind() {
            ErrorKind::NotFound => Error::corruption(&path, 0, "a table is missing"),
            _ => error,
        })?;
        let reader = TableReader::open(source, self.id, pool)?;
        report.bytes += reader.size() - reader.data_bytes();
        check_described(&reader, &self.infos).map(|()| reader)
    }
}

impl TableUnderWay {
    /// Reads about `bytes` more bytes. `false` at the end.
    pub(super) fn advance(&mut self, scrub: &Scrub, bytes: u64, report: &mut CheckReport) -> bool {
        // A table that was merged away meanwhile need not be sound.
        let Some(_held) = self.file.upgrade() else { return false };
        let mut damage = Vec::new();
        let (before, read) =
            (self.verification.entries(), self.verification.advance(bytes, &mut |error| damage.push(error)));
        damage.iter().for_each(|error| report.found(error, &scrub.core.dir));
        report.entries += self.verification.entries() - before;
        report.bytes += read.unwrap_or(0);
        read.is_some()
    }
}
