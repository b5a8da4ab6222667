//! Without a sound manifest: merges all tables in the directory, tree by tree, and keeps the newest version of each
//! key.
//!
//! The level of a table is unknown then, and so is whether a merge has left it over. Sequence numbers order the
//! versions of a key. Of two versions with the number 0, the one in the table with the greater file number was written
//! later, from the other.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::values::Settled;
use super::{Repair, log};
use crate::blob::Pointer;
use crate::compact::output::{Output, OutputOptions, filter_bits};
use crate::cursor::{Content, Kind, SeqNo};
use crate::error::{Error, Result};
use crate::log::salvage::Salvaged;
use crate::open::DEFAULT_TREE;
use crate::operators::is_timed;
use crate::options::TreeOptions;
use crate::ranges::RangeTombstone;
use crate::table::{Gap, Owner, Salvage};
use crate::version::edit::{Edit, FileId, ManifestState, TableInfo, TreeId};
use crate::version::levels::LEVELS;
use crate::version::tables::table_path;

/// Whether a key of the file comes before all keys of the part.
fn begins_behind(part: &TableInfo, key: &[u8]) -> bool {
    match part.strip(key) {
        Some(own) => part.clipped && own < part.smallest.as_slice(),
        None => key < part.in_file(&[]).as_slice(),
    }
}

/// Whether the part has a key of the file that does not come before all its keys.
fn has(part: &TableInfo, key: &[u8]) -> bool {
    part.strip(key).is_some_and(|own| !part.clipped || own <= part.largest.as_slice())
}

/// Trees' parts of tables, in ascending key order. One of them is open.
struct Run {
    parts: VecDeque<TableInfo>,
    open: Option<(TableInfo, Salvage)>,
}

impl Run {
    /// The key of the current entry; `None` at the end.
    fn key(&self) -> Option<&[u8]> {
        self.open.as_ref().and_then(|(part, salvage)| part.strip(salvage.key()))
    }

    /// Moves to the next entry. Finished parts are moved to `done`.
    fn advance(&mut self, repair: &Repair<'_>, done: &mut Vec<(TableInfo, Salvage)>) -> Result<()> {
        loop {
            if let Some((part, mut salvage)) = self.open.take() {
                let mut more = salvage.advance()?;
                while more && begins_behind(&part, salvage.key()) {
                    more = salvage.advance()?;
                }
                if more && has(&part, salvage.key()) {
                    self.open = Some((part, salvage));
                    return Ok(());
                }
                done.push((part, salvage));
            }
            let Some(part) = self.parts.pop_front() else { return Ok(()) };
            let source = repair.env.fs.open_read(&table_path(repair.dir, part.file))?;
            let salvage = Salvage::open(source, Some(part.salt))?;
            self.open = Some((part, salvage));
        }
    }
}

/// Arranges parts into runs: as few as the most parts that overlap at one key.
fn runs(mut parts: Vec<TableInfo>) -> Vec<Run> {
    parts.sort_by(|a, b| a.smallest.cmp(&b.smallest));
    let mut runs: Vec<VecDeque<TableInfo>> = Vec::new();
    for part in parts {
        let fits =
            |run: &&mut VecDeque<TableInfo>| run.back().is_some_and(|last| last.largest < part.smallest);
        match runs.iter_mut().find(fits) {
            Some(run) => run.push_back(part),
            None => runs.push(VecDeque::from([part])),
        }
    }
    runs.into_iter().map(|parts| Run { parts, open: None }).collect()
}

#[derive(Default)]
struct Newest {
    key: Vec<u8>,
    found: Option<(SeqNo, FileId, Kind, Vec<u8>)>,
    /// The operands merged into the key, by sequence number, each with its table.
    operands: BTreeMap<SeqNo, (FileId, Vec<u8>)>,
}

/// The parts of a table whose owners only the manifest knows, because a tree was split or imported.
fn inherited(known: &ManifestState, file: FileId) -> Option<Vec<(TreeId, TableInfo)>> {
    let users = known.tables.iter().filter(|((_, _, of), _)| *of == file);
    let is_inherited = users.clone().any(|((tree, ..), info)| {
        let is_others = info.prefix.is_some_and(|prefix| prefix != *tree);
        is_others || info.clipped || info.renumbered.is_some() || known.has_split(*tree)
    });
    is_inherited.then(|| users.map(|((tree, ..), info)| (*tree, info.clone())).collect())
}

/// The number of the tree that an entry of a shared table belongs to.
fn prefix_of(key: &[u8]) -> Option<TreeId> {
    key.first_chunk().map(|prefix| u32::from_be_bytes(*prefix))
}

impl Repair<'_> {
    /// Rebuilds the state from the tables and from the known trees. `records` are the records of the log. Returns the
    /// records of the new log.
    pub(super) fn rebuild(&mut self, records: &[Salvaged]) -> Result<Vec<Vec<u8>>> {
        self.report.rebuilt = true;
        let known = std::mem::take(&mut self.state);
        let mut parts: BTreeMap<TreeId, Vec<TableInfo>> = BTreeMap::new();
        for file in self.listing.tables.clone() {
            for (tree, part) in self.parts_of(file, &known)? {
                parts.entry(tree).or_default().push(part);
            }
            self.unused.insert(table_path(self.dir, file));
        }
        let trees: BTreeSet<TreeId> =
            parts.keys().copied().chain(known.trees.keys().copied()).chain(log::trees(records)).collect();
        self.begin_state(&known, &trees);
        self.name_missing(&known);
        let mut ranges = log::ranges(records);
        for (&tree, record) in &known.trees {
            ranges.extend(record.ranges().map(|range| (tree, range)));
        }
        parts.retain(|tree, _| self.state.trees.contains_key(tree));
        for (&tree, parts) in &parts {
            // An entry in a table may have lost its number (0). `cleared` is never less than the number of the flushed
            // writes.
            let seq = parts.iter().map(|part| part.max_seq.max(part.cleared)).max().unwrap_or(0);
            let time_us = known.trees.get(&tree).map_or(0, |record| record.time_us);
            self.apply(&Edit::Flushed { tree, seq, time_us })?;
        }
        // One huge value must not have two entries: freeing one would free the other's. If the log and a table both
        // name it, the log's entry is kept.
        let payloads = self.unflushed(records);
        let (settled, mended) = self.mend_payloads(&payloads, &BTreeSet::new())?;
        let payloads = mended.unwrap_or(payloads);
        let mut held: BTreeSet<Pointer> = log::pointers(&payloads).map(|(_, _, pointer)| pointer).collect();
        // The newest tree comes first and keeps the value: it may have been split off the other, which is not known any
        // more.
        for (tree, parts) in parts.into_iter().rev() {
            let of_tree = ranges.iter().filter(|(of, _)| *of == tree).map(|(_, range)| range.clone());
            let before = self.pointers.len();
            self.merge(tree, parts, &of_tree.collect::<Vec<_>>(), (&held, &settled))?;
            held.extend(self.pointers[before..].iter().map(|(_, _, pointer)| *pointer));
        }
        self.needs_manifest = true;
        Ok(payloads)
    }

    /// Takes over the known trees, and names the unknown ones.
    fn begin_state(&mut self, known: &ManifestState, trees: &BTreeSet<TreeId>) {
        self.state.floor = known.floor;
        self.state.log_synced = known.log_synced;
        self.state.clock = known.clock.clone();
        self.state.identity = known.identity;
        self.state.blobs.removed = known.blobs.removed.clone();
        (self.state.next_file, self.state.last_seq) = (known.next_file, known.last_seq);
        self.state.next_tree = known.next_tree.max(trees.last().map_or(1, |last| last + 1));
        let has_default = known.trees.values().any(|record| record.name == DEFAULT_TREE);
        for &tree in trees {
            if let Some(record) = known.trees.get(&tree) {
                let mut record = record.clone();
                record.deleted_ranges.clear();
                self.state.trees.insert(tree, record);
                continue;
            }
            if tree < known.next_tree && !known.trees.is_empty() {
                // The tree was dropped.
                continue;
            }
            let is_default = tree == 1 && !has_default;
            let name = if is_default { DEFAULT_TREE.to_owned() } else { format!("recovered-{tree}") };
            let edit = Edit::CreateTree { tree, name, options: TreeOptions::default() };
            // The tree is new. Therefore this cannot fail.
            drop(self.state.apply(&edit));
        }
    }

    /// Reports tables that are missing although the sound part of the manifest names them.
    fn name_missing(&mut self, known: &ManifestState) {
        for (&(tree, _, file), info) in &known.tables {
            if self.listing.tables.binary_search(&file).is_err() {
                let message =
                    "a table is missing: its keys are lost, unless the table was merged into others since";
                let error = Error::corruption(&table_path(self.dir, file), 0, message);
                self.lose(&error, Some(tree), Some((info.smallest.clone(), info.largest.clone())));
            }
        }
    }

    /// Finds out which trees' entries a table has.
    fn parts_of(&mut self, file: FileId, known: &ManifestState) -> Result<Vec<(TreeId, TableInfo)>> {
        let path = table_path(self.dir, file);
        let info = known.tables.iter().find(|((_, _, of), _)| *of == file);
        if info.is_none() && self.listing.is_imported(file) {
            // It names only the tree of the store that it came from.
            let message =
                "the table was imported, and without a manifest its tree is unknown: import the tree again";
            self.lose(&Error::corruption(&path, 0, message), None, None);
            return Ok(Vec::new());
        }
        let salt = info.map(|(_, info)| info.salt);
        let opened = self.env.fs.open_read(&path).and_then(|source| Salvage::open(source, salt));
        let Some(mut salvage) = self.lose_damage(opened)? else { return Ok(Vec::new()) };
        if let Some(inherited) = inherited(known, file) {
            return Ok(inherited);
        }
        let by_manifest = info.map(|(&(tree, _, _), info)| Owner {
            tree: info.prefix.is_none().then_some(tree),
            cleared: info.cleared,
        });
        let number = info.filter(|(_, info)| info.one_number).map(|(_, info)| info.max_seq);
        let Some(owner) = salvage.properties().map(|properties| properties.owner).or(by_manifest) else {
            let message =
                "the properties are damaged, and without a manifest the tree of the table is unknown";
            self.lose(&Error::corruption(&path, 0, message), None, None);
            return Ok(Vec::new());
        };
        if let (Some(tree), Some(properties)) = (owner.tree, salvage.properties()) {
            let mut part = TableInfo::new(file, salvage.salt(), 0, properties.clone());
            part.one_number = number.is_some();
            part.max_seq = number.unwrap_or(part.max_seq);
            return Ok(vec![(tree, part)]);
        }
        Ok(self.parts_by_reading(file, owner, &mut salvage, known)?.into_iter().collect())
    }

    /// Reads a table that is shared, or whose properties are damaged, to find its parts. Gaps in a part are reported
    /// when the tree's parts are merged. Gaps that may have held the whole part of another tree are reported here.
    fn parts_by_reading(
        &mut self,
        file: FileId,
        owner: Owner,
        salvage: &mut Salvage,
        known: &ManifestState,
    ) -> Result<BTreeMap<TreeId, TableInfo>> {
        let mut found: BTreeMap<TreeId, TableInfo> = BTreeMap::new();
        while salvage.advance()? {
            let prefix = prefix_of(salvage.key());
            // No tree has the greatest number: the next tree's number is one more.
            let prefix = prefix.filter(|&tree| tree < TreeId::MAX);
            let Some(tree) = owner.tree.or(prefix) else { continue };
            let prefix = if owner.tree.is_none() { prefix } else { None };
            let key = &salvage.key()[prefix.map_or(0, |_| 4)..];
            let part = found.entry(tree).or_insert_with(|| TableInfo {
                file,
                salt: salvage.salt(),
                prefix,
                smallest: key.to_vec(),
                cleared: owner.cleared,
                ..TableInfo::default()
            });
            part.largest = key.to_vec();
            part.max_seq = part.max_seq.max(salvage.seq());
        }
        let may_hide_a_tree = |gap: &&Gap| {
            let first = prefix_of(&gap.behind).unwrap_or(0);
            let last = gap.up_to.as_deref().and_then(prefix_of).unwrap_or(TreeId::MAX - 1);
            let mut there = known.trees.keys().filter(|&&tree| first <= tree && tree <= last);
            match known.trees.is_empty() {
                true => {
                    found.range(first..=last.max(first)).count() as u64
                        <= u64::from(last.saturating_sub(first))
                }
                false => there.any(|tree| !found.contains_key(tree)),
            }
        };
        let is_shared = owner.tree.is_none();
        let gaps = salvage.gaps().iter();
        gaps.filter(|gap| found.is_empty() || (is_shared && may_hide_a_tree(gap)))
            .for_each(|gap| self.lose(&gap.error, None, None));
        Ok(found)
    }

    /// Merges a tree's parts into tables of the bottom level.
    fn merge(
        &mut self,
        tree: TreeId,
        parts: Vec<TableInfo>,
        ranges: &[RangeTombstone],
        (logged, settled): (&BTreeSet<Pointer>, &Settled),
    ) -> Result<()> {
        let options = OutputOptions {
            compression: self.compression_of(tree),
            filter_bits: filter_bits(self.options.filter_bits, LEVELS - 1, LEVELS - 1),
            limits: self.options.table_limits(),
            offer: None,
            // The entries that they hide are left out here. Later range tombstones have greater numbers than all known
            // ones.
            cleared: ranges.iter().map(|range| range.seq).max().unwrap_or(0),
            tree: Some(tree),
            filter_prefix: self.filter_prefix_of(tree),
        };
        let (mut runs, mut done) = (runs(parts), Vec::new());
        let mut output = Output::new(&self.maker, options);
        for run in &mut runs {
            run.advance(self, &mut done)?;
        }
        let (mut newest, mut has_times) = (Newest::default(), false);
        loop {
            let next = runs.iter().enumerate().filter_map(|(i, run)| run.key().map(|key| (key, i))).min();
            let is_other = next.is_none_or(|(key, _)| key != newest.key);
            for (seq, operand) in newest.take_operands(is_other) {
                has_times |= is_timed(&operand);
                output.add(&newest.key, seq, Kind::Merge, &operand)?;
            }
            if is_other && let Some((seq, _, kind, value)) = newest.found.take() {
                let pointer = Pointer::of_entry(kind, &value);
                let is_mark = Content::open(kind, &value).ended_us().is_some();
                let is_logged = pointer.is_some_and(|pointer| logged.contains(&pointer));
                let lost = pointer.map_or(Ok(None), |pointer| self.unreadable(&pointer))?;
                if let Some(error) = lost {
                    let lives = Content::open(kind, &value).lives(|| self.time_of(tree));
                    if !is_logged && lives && !settled.has(tree, &newest.key) {
                        self.lose(&error, Some(tree), Some((newest.key.clone(), newest.key.clone())));
                    }
                } else if (kind != Kind::Delete || is_mark) && !is_logged {
                    has_times |= is_mark;
                    output.add(&newest.key, seq, kind, &value)?;
                    self.pointers.extend(pointer.map(|pointer| (tree, newest.key.clone(), pointer)));
                }
            }
            let Some((key, i)) = next else { break };
            newest.key = key.to_vec();
            if let Some((part, salvage)) = &runs[i].open {
                newest.meet(part, salvage, ranges);
            }
            runs[i].advance(self, &mut done)?;
        }
        let tables = output.finish()?;
        if has_times {
            self.apply(&Edit::OperandTimes { tree })?;
        }
        let look_again = self.look_again_of(tree);
        for table in tables {
            let table = TableInfo { look_again: look_again.clone(), ..table };
            self.apply(&Edit::AddTable { tree, level: (LEVELS - 1) as u8, table })?;
        }
        self.name_gaps(tree, &done);
        Ok(())
    }

    fn name_gaps(&mut self, tree: TreeId, done: &[(TableInfo, Salvage)]) {
        for (part, salvage) in done {
            for gap in salvage.gaps() {
                let strip = |key: &[u8]| part.strip(key).map(<[u8]>::to_vec);
                let from = strip(&gap.behind).unwrap_or_default();
                // Bounds that were found by reading do not cover unreadable entries. Therefore a gap is not cut at the
                // bounds.
                let to = gap.up_to.as_deref().and_then(strip).unwrap_or_else(|| vec![0xff; 16]);
                self.lose(&gap.error, Some(tree), Some((from, to)));
            }
        }
    }
}

impl Newest {
    /// If the key is done, returns the operands above the version that was found, newest first.
    fn take_operands(&mut self, is_done: bool) -> Vec<(SeqNo, Vec<u8>)> {
        if !is_done {
            return Vec::new();
        }
        let base = self.found.as_ref().map(|(seq, ..)| *seq);
        let operands = std::mem::take(&mut self.operands).into_iter().rev();
        operands
            .filter(|(seq, _)| base.is_none_or(|base| *seq > base))
            .map(|(seq, (_, bytes))| (seq, bytes))
            .collect()
    }

    fn meet(&mut self, part: &TableInfo, salvage: &Salvage, ranges: &[RangeTombstone]) {
        let seq = part.number().unwrap_or(salvage.seq());
        let hides = |range: &RangeTombstone| {
            range.seq > seq && range.seq > part.cleared && range.range.contains(&self.key)
        };
        if ranges.iter().any(hides) {
            return;
        }
        let kind = salvage.kind();
        let value = || part.reread(kind, salvage.value()).into_owned();
        if kind == Kind::Merge {
            // Of two tables with this operand, the newer one may be the output of a merge of the older. Then it holds
            // the combined operands.
            let operand = (part.file, value());
            let held = self.operands.entry(seq).or_insert_with(|| operand.clone());
            if held.0 < part.file {
                *held = operand;
            }
            return;
        }
        let is_newer =
            self.found.as_ref().is_none_or(|(other, file, _, _)| (seq, part.file) > (*other, *file));
        if is_newer {
            self.found = Some((seq, part.file, kind, value()));
        }
    }
}
