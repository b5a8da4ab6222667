//! Rewrites tables of a sound manifest: damaged ones without the lost blocks, and tables that name lost values with
//! deletions.

use std::collections::{BTreeMap, BTreeSet};

use super::Repair;
use crate::canary::broken;
use crate::compact::output::{Output, OutputOptions, filter_bits};
use crate::cursor::Kind;
use crate::error::{Error, ErrorKind, Result};
use crate::options::{Compression, FilterPrefix, TableLimits};
use crate::table::Salvage;
use crate::version::edit::{Edit, FileId, TableInfo, TreeId};
use crate::version::levels::LEVELS;
use crate::version::table_info::LookAgain;
use crate::version::tables::table_path;

type User = (TreeId, u8, TableInfo);

impl Repair<'_> {
    /// Rewrites the damaged tables.
    pub(super) fn mend_damaged_tables(&mut self) -> Result<()> {
        let files = self.state.tables.keys().map(|&(_, _, file)| file);
        let damaged = files.filter(|&file| self.damaged.contains(&table_path(self.dir, file))).collect();
        self.mend_tables(&damaged)
    }

    /// Rewrites `tables` without their unreadable parts, and with deletions for entries whose values are lost.
    pub(super) fn mend_tables(&mut self, tables: &BTreeSet<FileId>) -> Result<()> {
        let mut users: BTreeMap<FileId, Vec<User>> = BTreeMap::new();
        for (&(tree, level, file), info) in &self.state.tables {
            users.entry(file).or_default().push((tree, level, info.clone()));
        }
        for (file, mut users) in users {
            // In the order of their parts in the file.
            users.sort_by_key(|(_, _, info)| info.in_file(&info.smallest));
            if tables.contains(&file) {
                self.mend_table(file, &users)?;
            }
        }
        Ok(())
    }

    /// Opens a damaged table; `None` if nothing of it is left, which is reported.
    fn salvage(&mut self, file: FileId, users: &[User]) -> Result<Option<Salvage>> {
        let path = table_path(self.dir, file);
        let salt = users.first().map(|(_, _, info)| info.salt);
        match self.env.fs.open_read(&path).and_then(|source| Salvage::open(source, salt)) {
            Err(error) if matches!(error.kind(), ErrorKind::Corruption | ErrorKind::NotFound) => {
                let error = Error::corruption(&path, error.offset().unwrap_or(0), error.message());
                for (tree, _, info) in users {
                    self.lose(&error, Some(*tree), Some((info.smallest.clone(), info.largest.clone())));
                }
                Ok(None)
            }
            opened => opened.map(Some),
        }
    }

    fn mend_table(&mut self, file: FileId, users: &[User]) -> Result<()> {
        let mut salvage = self.salvage(file, users)?;
        let mut edits = Vec::new();
        for (tree, level, info) in users {
            edits.push(Edit::RemoveTable { tree: *tree, level: *level, file });
            let Some(salvage) = &mut salvage else { continue };
            let tables = self.copy_part(salvage, *tree, *level, info)?;
            edits.extend(tables.into_iter().map(|table| Edit::AddTable {
                tree: *tree,
                level: *level,
                table,
            }));
        }
        for gap in salvage.iter().flat_map(Salvage::gaps) {
            for (tree, _, info) in users {
                if let Some(keys) = lost_keys(gap.behind.as_slice(), gap.up_to.as_deref(), info) {
                    self.lose(&gap.error, Some(*tree), Some(keys));
                }
            }
        }
        let contradiction = |what| Error::corruption(&table_path(self.dir, file), 0, what);
        edits.iter().try_for_each(|edit| self.state.apply(edit)).map_err(contradiction)?;
        self.unused.insert(table_path(self.dir, file));
        self.needs_manifest = true;
        Ok(())
    }

    pub(super) fn compression_of(&self, tree: TreeId) -> Compression {
        self.state.trees.get(&tree).map(|record| record.options.compression).unwrap_or_default()
    }

    /// Which prefixes of keys new tables of `tree` have in their filters.
    pub(super) fn filter_prefix_of(&self, tree: TreeId) -> Option<FilterPrefix> {
        self.state.trees.get(&tree).and_then(|record| record.options.filter_prefix)
    }

    /// When the compaction rule of `tree`, if it names one, is to see a table that was made without it: as soon as the
    /// rule is registered.
    pub(super) fn look_again_of(&self, tree: TreeId) -> LookAgain {
        let rule = self.state.trees.get(&tree).and_then(|record| record.options.rule.as_ref());
        LookAgain::new(rule.map(|_| 0), None)
    }

    /// Writes the sound entries of one tree's part to a new table. `salvage` is before the part's first entry, or at
    /// it.
    fn copy_part(
        &self,
        salvage: &mut Salvage,
        tree: TreeId,
        level: u8,
        info: &TableInfo,
    ) -> Result<Vec<TableInfo>> {
        let (first, last) = (info.in_file(&info.smallest), info.in_file(&info.largest));
        let options = OutputOptions {
            compression: self.compression_of(tree),
            filter_bits: filter_bits(self.options.filter_bits, usize::from(level), LEVELS - 1),
            limits: TableLimits::NONE,
            offer: None,
            cleared: info.cleared,
            tree: Some(tree),
            filter_prefix: self.filter_prefix_of(tree),
        };
        let mut output = Output::new(&self.maker, options);
        let mut more = salvage.is_at_entry() || salvage.advance()?;
        while more && salvage.key() < first.as_slice() {
            more = salvage.advance()?;
        }
        while more && salvage.key() <= last.as_slice() {
            let (kind, seq) = (salvage.kind(), info.number().unwrap_or(salvage.seq()));
            let key = info.strip(salvage.key()).unwrap_or_default();
            if self.lost.contains(&(tree, key.to_vec(), seq)) {
                if !broken("repair-deletion") {
                    output.add(key, seq, Kind::Delete, &[])?;
                }
            } else {
                output.add(key, seq, kind, &info.reread(kind, salvage.value()))?;
            }
            more = salvage.advance()?;
        }
        output.look_again_at(self.look_again_of(tree));
        output.finish()
    }
}

/// The keys of the part `info` that may lie in a gap of its table.
fn lost_keys(behind: &[u8], up_to: Option<&[u8]>, info: &TableInfo) -> Option<(Vec<u8>, Vec<u8>)> {
    let (first, last) = (info.in_file(&info.smallest), info.in_file(&info.largest));
    let from = first.as_slice().max(behind);
    let to = up_to.map_or(last.as_slice(), |up_to| up_to.min(last.as_slice()));
    let own = |key| info.strip(key).unwrap_or_default().to_vec();
    (from <= to).then(|| (own(from), own(to)))
}
