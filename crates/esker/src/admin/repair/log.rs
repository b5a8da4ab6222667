//! Repairs the log: puts every whole record into one new segment.

use super::Repair;
use crate::blob::Pointer;
use crate::codec::{put_slice, put_varint};
use crate::cursor::{Kind, SeqNo};
use crate::error::Result;
use crate::log::replay::segment_path;
use crate::log::salvage::{Salvaged, write_segment};
use crate::log::segment::SegmentHeader;
use crate::ranges::{KeyRange, RangeTombstone};
use crate::version::edit::TreeId;
use crate::write::batch::{Op, Ops, numbers_taken};

/// How many sequence numbers a payload takes if its first one is `first`; 0 if the payload cannot be decoded.
fn taken(payload: &[u8], first: SeqNo) -> u64 {
    numbers_taken(payload, first).unwrap_or(0)
}

pub(super) fn encode(ops: &[Op<'_>]) -> Vec<u8> {
    let mut out = (ops.len() as u32).to_le_bytes().to_vec();
    for op in ops {
        out.push(op.kind as u8);
        put_varint(&mut out, u64::from(op.tree));
        put_slice(&mut out, op.key);
        if op.kind != Kind::Delete {
            put_slice(&mut out, op.value);
        }
    }
    out
}

fn numbered(records: &[Salvaged]) -> impl Iterator<Item = (SeqNo, Op<'_>)> {
    let sound = records.iter().filter(|record| taken(&record.payload, record.first_seq) > 0);
    sound.flat_map(|record| (record.first_seq..).zip(Ops::of(&record.payload)))
}

pub(super) fn trees(records: &[Salvaged]) -> impl Iterator<Item = TreeId> {
    numbered(records).map(|(_, op)| op.tree)
}

pub(super) fn ranges(records: &[Salvaged]) -> Vec<(TreeId, RangeTombstone)> {
    let deletions = numbered(records).filter(|(_, op)| op.kind == Kind::DeleteRange);
    let decoded = deletions.filter_map(|(seq, op)| {
        KeyRange::decode(op.key, op.value).map(|range| (op.tree, RangeTombstone { range, seq }))
    });
    decoded.collect()
}

/// The pointers to huge values in log records, with the trees and keys that they belong to.
pub(super) fn pointers(payloads: &[Vec<u8>]) -> impl Iterator<Item = (TreeId, &[u8], Pointer)> {
    let ops = payloads.iter().flat_map(|payload| Ops::of(payload));
    ops.filter_map(|op| Pointer::of_entry(op.kind, op.value).map(|pointer| (op.tree, op.key, pointer)))
}

impl Repair<'_> {
    /// Returns every whole record, and reports the damaged places between them.
    pub(super) fn salvage_log(&mut self, is_whole: bool) -> Result<Vec<Salvaged>> {
        let fs = &*self.env.fs;
        self.segments.leave_out_repaired(is_whole.then_some(self.state.floor.segment));
        let floor = is_whole.then_some(self.state.floor);
        let places = self.segments.survey(fs, floor, self.state.log_synced, &mut |_, _, _| {})?;
        places.iter().for_each(|place| self.lose(place, None, None));
        let all_sound = self.segments.paths.len() == self.listing.segments.len();
        // Without the manifest we may read older segments than it needed. Their contents are safe to use only if no
        // segment after them is missing, because only then all later writes that replaced them are known to follow.
        let stretch = if is_whole || !all_sound { 0 } else { self.segments.last_stretch() };
        self.segments.salvage(fs, self.state.floor.segment.max(stretch), &taken)
    }

    /// The payloads of `records` without operations that are in tables or belong to dropped trees.
    pub(super) fn unflushed(&self, records: &[Salvaged]) -> Vec<Vec<u8>> {
        let needed = |seq: SeqNo, op: &Op<'_>| {
            self.state.trees.get(&op.tree).is_some_and(|record| seq > record.flushed)
        };
        let payloads = records.iter().map(|record| {
            let ops = numbered(std::slice::from_ref(record)).filter(|(seq, op)| needed(*seq, op));
            ops.map(|(_, op)| op).collect::<Vec<_>>()
        });
        payloads.filter(|ops| !ops.is_empty()).map(|ops| encode(&ops)).collect()
    }

    /// Writes a log of `payloads`. Their operations get sequence numbers above all others.
    pub(super) fn write_log(&mut self, payloads: &[Vec<u8>]) -> Result<()> {
        let fs = &*self.env.fs;
        let flushed = self.state.trees.values().map(|record| record.flushed);
        let tables = self.state.tables.values().map(|info| info.max_seq);
        let last_seq = flushed.chain(tables).fold(self.state.last_seq, SeqNo::max);
        let mut floor = self.segments.behind(fs)?;
        floor.segment = floor.segment.max((self.state.floor.segment + 1).next_multiple_of(floor.segment));
        floor.start = floor.start.max(self.state.floor.start).max(self.state.log_synced);
        let number = self.listing.segments.last().map_or(1, |(number, _)| number + 1);
        let header = SegmentHeader {
            id: floor.segment,
            epoch: self.env.random.next_u64(),
            first_seq: last_seq + 1,
            start: floor.start,
            mount: [0; 16],
        };
        let end = write_segment(fs, &segment_path(self.dir, number), header, payloads)?;
        fs.sync_dir(self.dir)?;
        // The new records may name removed blob files. Therefore these stay known as removed up to the end of the new
        // log.
        self.state.blobs.removed.values_mut().for_each(|position| *position = (*position).max(end));
        (self.state.floor, self.state.log_synced, self.state.last_seq) = (floor, end, last_seq);
        self.unused.extend(self.listing.segments.iter().map(|(_, path)| path.clone()));
        self.needs_manifest = true;
        Ok(())
    }
}
