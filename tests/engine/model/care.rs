//! Operations on trees and on how the store is kept, and what must not be accepted.

use esker::{Batch, Compression, ErrorKind, FilterPrefix, KEY_LEN_MAX, TreeOptions};

use crate::ops::{JOBS, Op, Range, TREES};
use crate::session::{Check, Difference, Session, kind_of, same};

impl Session {
    pub(crate) fn apply_care(&mut self, op: &Op) -> Check<()> {
        match op {
            Op::Create { tree, compression } => self.create(TREES[*tree], *compression)?,
            Op::DropTree { tree } => self.drop_tree(*tree)?,
            Op::SetTag { tree, tag } => {
                let Some(handle) = self.tree(*tree)? else { return Ok(()) };
                let tag = format!("tag {tag}");
                handle.set_tag(&tag)?;
                same!(handle.tag().as_ref(), Some(&tag), "the tag");
                self.model.trees.entry(TREES[*tree].to_owned()).or_default().tag = Some(tag);
            }
            Op::SetOptions { tree, style, ratio } => {
                let Some(handle) = self.tree(*tree)? else { return Ok(()) };
                let rule = match ratio {
                    2 => Some(FilterPrefix::length(1)),
                    3 => Some(FilterPrefix::through("/", 1)),
                    4 => Some(FilterPrefix::length(4)),
                    _ => None,
                };
                let options = handle.options().compaction(*style).size_ratio(*ratio).filter_prefix(rule);
                handle.set_options(options.clone())?;
                same!(handle.options(), options, "the tree's options");
            }
            Op::BadInput { tree } => self.bad_input(*tree)?,
            Op::Pass { hours } => {
                self.clock.pass(*hours);
                self.model.now.hour += hours;
            }
            Op::VerifyAll => self.verify(self.db())?,
            Op::Quiesce => self.quiesce(),
            Op::Flush => {
                self.db().flush()?;
                let entries: u64 = self.db().stats()?.trees.iter().map(|tree| tree.memtable_entries).sum();
                same!(entries, 0, "entries in memtables after a flush");
            }
            Op::Compact => self.compact()?,
            Op::Sync => self.db().sync()?,
            // A store with threads of its own steps itself.
            Op::Step { job, times } if self.is_stepped() => {
                (0..*times).all(|_| JOBS[*job].iter().any(|&job| self.db().step(job)));
            }
            Op::Stats => self.stats()?,
            Op::Checkpoint => self.checkpoint()?,
            Op::Reopen { how, seed } => self.reopen(*how, *seed)?,
            _ => {}
        }
        Ok(())
    }

    fn create(&mut self, name: &str, compression: Compression) -> Check<()> {
        let created = self.db().create_tree(name, TreeOptions::default().compression(compression));
        if self.model.trees.contains_key(name) {
            same!(kind_of(created), Some(ErrorKind::AlreadyExists), "creating {name:?} again");
        } else {
            let tree = created?;
            same!(tree.name(), name, "the name of the new tree");
            self.model.create(name);
            self.handles.insert(name.to_owned(), tree);
        }
        Ok(())
    }

    fn drop_tree(&mut self, tree: usize) -> Check<()> {
        let name = TREES[tree];
        if tree == 0 {
            same!(kind_of(self.db().drop_tree(name)), Some(ErrorKind::InvalidInput), "dropping {name:?}");
            return Ok(());
        }
        let Some(handle) = self.tree(tree)? else {
            same!(kind_of(self.db().drop_tree(name)), Some(ErrorKind::NotFound), "dropping {name:?}");
            return Ok(());
        };
        self.db().drop_tree(name)?;
        self.model.trees.remove(name);
        self.handles.remove(name);
        self.orphan_streams(tree);
        let dropped = Some(ErrorKind::TreeDropped);
        same!(kind_of(handle.get("k")), dropped, "a get from a dropped tree");
        same!(kind_of(handle.put("k", "v")), dropped, "a put into a dropped tree");
        same!(kind_of(handle.scan(Range::all().to_scan_range())), dropped, "a scan of a dropped tree");
        same!(kind_of(handle.update("k", |_| None)), dropped, "an update in a dropped tree");
        let mut batch = Batch::new();
        batch.put(self.db().default_tree(), "never written", "")?;
        batch.put(&handle, "k", "v")?;
        same!(kind_of(self.db().write(&batch)), dropped, "a batch with a dropped tree");
        same!(self.db().contains("never written")?, false, "half a batch");
        Ok(())
    }

    fn bad_input(&mut self, tree: usize) -> Check<()> {
        let Some(handle) = self.tree(tree)? else { return Ok(()) };
        let invalid = Some(ErrorKind::InvalidInput);
        let long = vec![b'x'; KEY_LEN_MAX + 1];
        for key in [&[][..], &long] {
            same!(kind_of(handle.put(key, "v")), invalid, "a put with a key of {} bytes", key.len());
            same!(kind_of(handle.delete(key)), invalid, "a delete of a key of {} bytes", key.len());
            same!(kind_of(handle.update(key, |_| None)), invalid, "an update of such a key");
            same!(handle.get_vec(key)?, None, "the value of a key of {} bytes", key.len());
            let mut batch = Batch::new();
            same!(kind_of(batch.put(&handle, key, "v")), invalid, "such a key in a batch");
            same!(batch.is_empty(), true, "the batch is as it was");
        }
        same!(kind_of(self.db().open_tree("")), invalid, "a tree without a name");
        same!(
            kind_of(self.db().create_tree(&"x".repeat(256), TreeOptions::default())),
            invalid,
            "a long name"
        );
        same!(kind_of(handle.set_tag(&"x".repeat(5000))), invalid, "a long tag");
        Ok(())
    }

    fn compact(&mut self) -> Check<()> {
        self.db().compact()?;
        if !self.is_quiet() {
            return Ok(());
        }
        self.model.forget_expired();
        let stats = self.db().stats()?;
        for tree in &stats.trees {
            let model = self.model.trees.get(&tree.name);
            let expected = model.map_or(0, |tree| tree.len(self.model.now) as u64);
            // Operands stay above what they cannot become one value with.
            let more =
                model.map_or(0, |tree| tree.operands().0).min(tree.table_entries.saturating_sub(expected));
            same!(
                (tree.table_entries, tree.tombstones),
                (expected + more, 0),
                "what {:?} holds compacted",
                tree.name
            );
        }
        if self.is_stepped() {
            same!(self.table_files()?, stats.table_files, "table files after compaction");
            self.check_blobs()?;
        }
        Ok(())
    }

    fn stats(&mut self) -> Check<()> {
        let stats = self.db().stats()?;
        let names: Vec<&str> = stats.trees.iter().map(|tree| tree.name.as_str()).collect();
        same!(
            names,
            self.model.trees.keys().map(String::as_str).collect::<Vec<_>>(),
            "trees in the statistics"
        );
        same!(stats.failure, None, "the failure in the statistics");
        for tree in &stats.trees {
            let model = &self.model.trees[&tree.name];
            same!(tree.tag, model.tag, "the tag in the statistics");
            let entries = tree.memtable_entries + tree.table_entries;
            same!(
                entries >= model.len(self.model.now) as u64,
                true,
                "{entries} entries in the statistics of {:?}",
                tree.name
            );
            same!(tree.bytes_by_level.iter().sum::<u64>(), tree.table_bytes, "bytes by level");
            same!(tree.tombstones <= tree.table_entries, true, "tombstones are entries");
        }
        let held = self.snapshots.iter().flatten().count() as u64;
        let scans = self.scans.iter().flatten().filter(|scan| scan.keeps_snapshot).count() as u64;
        let cursors = self.cursors.iter().flatten().filter(|cursor| cursor.keeps_snapshot).count() as u64;
        let scans = scans + cursors;
        let counted = held <= stats.snapshots && stats.snapshots <= held + scans;
        same!(
            counted,
            true,
            "{} snapshots counted, {held} held, {scans} scans and cursors of some",
            stats.snapshots
        );
        if stats.pool_bytes > stats.pool_capacity {
            let (bytes, capacity) = (stats.pool_bytes, stats.pool_capacity);
            return Err(Difference(format!("the pool holds {bytes} bytes and may hold {capacity}")));
        }
        Ok(())
    }
}
