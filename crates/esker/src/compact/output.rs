//! Writes the tables of a flush or a merge. They are cut at a size or a number of keys, never between versions of one
//! key.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::cache::{BufferPool, Offer};
use crate::cursor::{Kind, SeqNo};
use crate::env::{Env, Gate, GatedFile};
use crate::error::Result;
use crate::fs::{WriteFile, descriptors};
use crate::options::{Compression, FilterPrefix, TableLimits};
use crate::table::{Owner, Properties, TableOptions, TableWriter};
use crate::version::edit::{FileId, TableInfo, TreeId};
use crate::version::levels::LEVELS;
use crate::version::table_info::LookAgain;
use crate::version::tables::table_path;

/// The environment of new tables: their directory, their numbers.
#[derive(Debug)]
pub(crate) struct TableMaker {
    pub(crate) env: Env,
    pub(crate) dir: PathBuf,
    /// No table has this number or a greater one.
    pub(crate) next_file: Arc<AtomicU64>,
    pub(crate) block_bytes: usize,
    pub(crate) direct: bool,
    pub(crate) pool: Arc<BufferPool>,
    /// Shut when the store is closed. From then on nothing is written or removed.
    pub(crate) gate: Arc<Gate>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct OutputOptions {
    pub(crate) compression: Compression,
    pub(crate) filter_bits: u32,
    pub(crate) limits: TableLimits,
    /// Whether, and how, the blocks are offered to the buffer pool.
    pub(crate) offer: Option<Offer>,
    /// The output leaves out the entries that range tombstones up to this sequence number hide.
    pub(crate) cleared: SeqNo,
    /// `None` if several trees share the tables.
    pub(crate) tree: Option<TreeId>,
    /// Which prefixes of keys the filters also hold. `None` if several trees share the tables.
    pub(crate) filter_prefix: Option<FilterPrefix>,
}

/// A sorted run of new tables that no version names yet. If it is dropped unfinished, it removes its files.
#[derive(Debug)]
pub(crate) struct Output {
    maker: Arc<TableMaker>,
    options: OutputOptions,
    current: Option<(FileId, TableWriter)>,
    /// The file of the last finished table. The kernel writes it back while the next table is built.
    unsynced: Option<Box<dyn WriteFile>>,
    done: Vec<TableInfo>,
    kept: bool,
    /// When the current table should be looked at again.
    look_again: LookAgain,
}

impl Output {
    pub(crate) fn new(maker: &Arc<TableMaker>, options: OutputOptions) -> Self {
        let maker = Arc::clone(maker);
        Output {
            maker,
            options,
            current: None,
            unsynced: None,
            done: Vec::new(),
            kept: false,
            look_again: LookAgain::default(),
        }
    }

    pub(crate) fn add(&mut self, key: &[u8], seq: SeqNo, kind: Kind, value: &[u8]) -> Result<()> {
        if self.is_full(key) {
            self.cut()?;
        }
        if self.current.is_none() {
            self.current = Some(self.start_table()?);
        }
        match &mut self.current {
            Some((_, writer)) => writer.add(key, seq, kind, value),
            None => Ok(()),
        }
    }

    /// Whether `key` would begin another table.
    pub(crate) fn is_full(&self, key: &[u8]) -> bool {
        let limits = self.options.limits;
        self.current.as_ref().is_some_and(|(_, writer)| {
            (writer.estimated_size() >= limits.bytes || writer.hashed_keys() >= limits.keys)
                && !writer.ends_with(key)
        })
    }

    /// Whether a table was begun and not ended.
    pub(crate) fn has_begun(&self) -> bool {
        self.current.is_some()
    }

    /// Notes when the current table is to be looked at again.
    pub(crate) fn look_again_at(&mut self, look_again: LookAgain) {
        self.look_again = look_again;
    }

    fn start_table(&self) -> Result<(FileId, TableWriter)> {
        let _inside = self.maker.gate.enter()?;
        let id = self.maker.next_file.fetch_add(1, Ordering::Relaxed);
        let (fs, path) = (&self.maker.env.fs, table_path(&self.maker.dir, id));
        let direct = self.maker.direct;
        let file =
            descriptors::opened(&**fs, || if direct { fs.create_direct(&path) } else { fs.create(&path) })?;
        let options = TableOptions {
            block_size: self.maker.block_bytes,
            compression: self.options.compression,
            filter_bits_tenths: self.options.filter_bits * 10,
            salt: self.maker.env.random.next_u64(),
            owner: Owner { tree: self.options.tree, cleared: self.options.cleared },
            filter_prefix: self.options.filter_prefix,
        };
        let mut writer = TableWriter::new(GatedFile::new(&self.maker.gate, file), options)?;
        if let Some(offer) = self.options.offer {
            writer.offer_to(&self.maker.pool, id, offer);
        }
        Ok((id, writer))
    }

    /// Ends the current table. The next entry begins another.
    pub(crate) fn cut(&mut self) -> Result<()> {
        let look_again = std::mem::take(&mut self.look_again);
        let Some((id, writer)) = self.current.take() else { return Ok(()) };
        let (meta, file) = writer.finish().inspect_err(|_| self.remove(id))?;
        let info = TableInfo::new(id, meta.salt, meta.size, meta.properties);
        self.done.push(TableInfo { look_again, ..info });
        self.unsynced.replace(file).map_or(Ok(()), |mut before| before.sync())
    }

    /// Finishes the last table and makes all tables and their names durable. From now on they belong to the caller.
    pub(crate) fn finish(mut self) -> Result<Vec<TableInfo>> {
        self.cut()?;
        if let Some(mut last) = self.unsynced.take() {
            last.sync()?;
        }
        if !self.done.is_empty() {
            let _inside = self.maker.gate.enter()?;
            self.maker.env.fs.sync_dir(&self.maker.dir)?;
        }
        self.kept = true;
        Ok(std::mem::take(&mut self.done))
    }

    fn remove(&self, id: FileId) {
        // Once the gate is shut, the name may belong to another opening of the store.
        let Ok(_inside) = self.maker.gate.enter() else { return };
        // The next opening removes a file that cannot be removed now. No version names it.
        drop(self.maker.env.fs.remove_file(&table_path(&self.maker.dir, id)));
        self.maker.pool.remove_table(id);
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        let current = self.current.take().map(|(id, _)| id);
        for id in self.done.iter().map(|info| info.file).chain(current) {
            self.remove(id);
        }
    }
}

/// Filter bits per key for tables of `level`, if the deepest level is `deepest`.
///
/// Monkey (Dayan, Athanassoulis, Idreos, SIGMOD 2017): for a given amount of memory, false positives are rarest if each
/// level's false positive rate is in proportion to its size. With a size ratio of 10, a level would take log2(10) / ln
/// 2 = 4.8 bits per key more than the one below. We give 3, because tables are also moved down without a rewrite, and
/// filters and indexes together should stay below one percent of the data with small records.
pub(crate) fn filter_bits(base: u32, level: usize, deepest: usize) -> u32 {
    if base == 0 {
        return 0;
    }
    // Levels between level 0 and the base level are empty. Level 0 counts as two steps above the deepest level.
    let above = if level == 0 { 2 } else { deepest.saturating_sub(level) as u32 };
    base + above.min(4) * 3
}

/// [`filter_bits`] for a run of `bytes` in level 0 of a tree with `all` bytes: the smaller the run, the more.
pub(crate) fn run_filter_bits(base: u32, bytes: u64, all: u64) -> u32 {
    let tenths = (all / bytes.max(1)).checked_ilog10().unwrap_or(0);
    filter_bits(base, LEVELS - 1 - tenths.min(2) as usize, LEVELS - 1)
}

/// One tree's part of the shared table `whole`.
pub(crate) fn shared_part(whole: &TableInfo, part: TablePart) -> TableInfo {
    let share = u128::from(whole.size) * u128::from(part.properties.raw_bytes);
    let size = (share / u128::from(whole.raw_bytes.max(1))) as u64;
    let info = TableInfo::new(whole.file, whole.salt, size, part.properties);
    TableInfo { prefix: Some(part.tree), cleared: whole.cleared, look_again: part.look_again, ..info }
}

/// The part of a shared table that one tree has written.
#[derive(Debug, Clone)]
pub(crate) struct TablePart {
    pub(crate) tree: TreeId,
    properties: Properties,
    look_again: LookAgain,
}

impl TablePart {
    pub(crate) fn new(tree: TreeId) -> Self {
        TablePart { tree, properties: Properties::default(), look_again: LookAgain::default() }
    }

    pub(crate) fn note(&mut self, key: &[u8], seq: SeqNo, kind: Kind, value: &[u8]) {
        self.properties.note(key, seq, kind, value);
        self.properties.largest.clear();
        self.properties.largest.extend_from_slice(key);
    }

    /// Notes when the part is to be looked at again.
    pub(crate) fn look_again_at(&mut self, look_again: LookAgain) {
        self.look_again = look_again;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.properties.entries == 0
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::fs::sim::SimFs;
    use crate::options::Options;

    /// Writes 1000 keys with up to 3 versions each, and returns the tables.
    fn write(limits: TableLimits, filter_bits: u32) -> Vec<TableInfo> {
        let disk = Arc::new(SimFs::new(1));
        let maker = Arc::new(TableMaker {
            env: Env { fs: disk, ..Env::system() },
            dir: PathBuf::from("/"),
            next_file: Arc::new(AtomicU64::new(1)),
            block_bytes: 256,
            direct: false,
            pool: Arc::new(BufferPool::new(0)),
            gate: Gate::new(Path::new("/")),
        });
        let (compression, tree) = (Compression::None, Some(1));
        let options = OutputOptions {
            compression,
            filter_bits,
            limits,
            offer: None,
            cleared: 0,
            tree,
            filter_prefix: None,
        };
        let mut output = Output::new(&maker, options);
        for i in 0..1000u32 {
            for seq in (1..=u64::from(i % 3 + 1)).rev() {
                output.add(&i.to_be_bytes(), seq, Kind::Put, b"v").unwrap();
            }
        }
        output.finish().unwrap()
    }

    #[test]
    fn tables_are_cut_by_keys_and_never_between_versions() {
        let tables = write(TableLimits { bytes: u64::MAX, keys: 100 }, 8);
        assert_eq!(tables.len(), 10);
        for (i, table) in (0..).zip(&tables) {
            assert_eq!(table.smallest, (i * 100u32).to_be_bytes());
            assert_eq!(table.largest, (i * 100 + 99u32).to_be_bytes());
        }
        assert_eq!(tables.iter().map(|table| table.entries).sum::<u64>(), 1999);
    }

    #[test]
    fn without_filter_nothing_waits_and_nothing_is_cut() {
        assert_eq!(write(TableLimits { bytes: u64::MAX, keys: 100 }, 0).len(), 1);
        assert_eq!(write(TableLimits::NONE, 8).len(), 1);
    }

    #[test]
    fn ordinary_records_fill_their_tables() {
        for (budget, record) in [(8, 256), (16, 128), (64, 32), (1024, 2)] {
            let limits = Options::default().memory_budget(budget << 20).table_limits();
            assert_eq!(limits.bytes, 32 << 20);
            assert!(limits.keys as u64 * record >= limits.bytes, "{budget} MiB");
            assert!(limits.keys * size_of::<u64>() <= (budget << 20) / 8);
        }
    }
}
