//! Replays the log into the memtables.

use std::sync::Arc;

use super::{Opening, Replayed, blob_files};
use crate::blob::{Pointer, key_hash};
use crate::canary::broken;
use crate::cursor::{Content, Kind};
use crate::error::Result;
use crate::log::replay::{Segments, Visit, Visited};
use crate::memtable::{Memtable, NewEntry};
use crate::operators::is_timed;
use crate::ranges::{KeyRange, RangeTombstone};
use crate::version::edit::ManifestState;
use crate::write::batch::{Ops, numbers_taken};
use crate::write::lookups::{Lookup, What};

impl Opening {
    pub(super) fn replay(&self, segments: &Segments, state: &ManifestState) -> Result<Replayed> {
        let mut next_seq = state.last_seq + 1;
        let mut position = state.floor.start;
        let mut visit = |record: Visit<'_>| -> Result<Visited> {
            position += (crate::log::record::HEADER_LEN + record.payload.len()) as u64;
            let visited = self.replay_record(state, record, position)?;
            if let Visited::Taken(count) = visited {
                next_seq = next_seq.max(record.first_seq + count);
            }
            Ok(visited)
        };
        let report = segments.replay(&*self.core.env().fs, state.floor, state.log_synced, &mut visit)?;
        // The log may hold writes of trees that were dropped.
        next_seq = next_seq.max(report.next_seq);
        let log_seq = if report.next_seq > 0 { report.next_seq } else { next_seq };
        Ok(Replayed { report, next_seq, log_seq })
    }

    /// Applies one record, which ends at log position `end`. If this fails, the opening must fail too: a part of the
    /// record is applied.
    fn replay_record(&self, state: &ManifestState, record: Visit<'_>, end: u64) -> Result<Visited> {
        let Visit { first_seq, payload, acknowledged } = record;
        let Some(count) = numbers_taken(payload, first_seq) else { return Ok(Visited::Nonsense) };
        let kept = acknowledged || end <= state.log_synced;
        for op in Ops::of(payload) {
            let content = Content::open(op.kind, op.value);
            if content.kind != Kind::Blob {
                continue;
            }
            self.core.blobs().note_used();
            let Some(pointer) = Pointer::decode(content.value) else { return Ok(Visited::Nonsense) };
            if !broken("rule-4-replay") && !blob_files::is_there(self.core.blobs(), state, &pointer, kept) {
                return Ok(Visited::EndsHere);
            }
        }
        for (seq, op) in (first_seq..).zip(Ops::of(payload)) {
            // A tree that the manifest does not know was dropped later. Writes that are in tables are skipped.
            let Some(tree) = self.versions.tree(op.tree) else { continue };
            if state.trees.get(&op.tree).is_some_and(|record| seq <= record.flushed) {
                continue;
            }
            if let Some(pointer) = Pointer::of_entry(op.kind, op.value) {
                let hash = key_hash(tree.lineage, op.key);
                blob_files::claim(self.core.blobs(), &self.unneeded, &pointer, hash);
            }
            if op.expires() {
                tree.operand_times.want();
            }
            if op.kind == Kind::Merge && is_timed(op.value) {
                tree.operand_times.note();
            }
            let mem = tree.mem();
            if let Some(time_us) = op.time_us() {
                mem.note_time(time_us);
                tree.own_time.iter().for_each(|own| own.carry(time_us));
                mem.note_write(seq, Some((state.floor, end)));
                continue;
            }
            if op.kind == Kind::DeleteRange {
                let Some(range) = KeyRange::decode(op.key, op.value) else { return Ok(Visited::Nonsense) };
                let what = What::Range(range.clone());
                self.lookups.borrow_mut().push(Lookup { tree: Arc::clone(tree), what, seq });
                tree.state.load().ranges.add(RangeTombstone { range, seq });
                mem.note_write(seq, Some((state.floor, end)));
                continue;
            }
            if op.kind != Kind::Merge && self.core.blobs().filter.may_contain(key_hash(tree.lineage, op.key))
            {
                let what = What::Key(op.key.to_vec());
                self.lookups.borrow_mut().push(Lookup { tree: Arc::clone(tree), what, seq });
            }
            let entry = NewEntry::new(Memtable::random_height(), op.key, seq, op.kind, op.value);
            let mut region = mem.table.reserve(entry.size())?;
            mem.table.note_newest(seq);
            mem.table.insert(&mut region, &entry);
            mem.note_write(seq, Some((state.floor, end)));
            let limit = self.core.options().memtable_limit();
            if mem.table.may_improve(limit) {
                tree.learn(limit);
            }
        }
        Ok(Visited::Taken(count))
    }
}
