//! Reads the whole records of a damaged log and writes a sound log from them, for `repair`.

use std::ops::Range;
use std::path::Path;

use super::pieces::Pieces;
use super::record;
use super::replay::{LogFloor, Segments};
use super::segment::{RECORDS_AT, SegmentHeader};
use super::survey::walk;
use crate::cursor::SeqNo;
use crate::error::Result;
use crate::fs::FileSystem;

/// Repair numbers its segments with multiples of this. No store creates so many segments otherwise.
const REPAIRED: u64 = 1 << 32;

/// How many bytes of a damaged place are examined to count the operations that it held.
const GAP_MAX: usize = 64 << 20;

/// A whole record of a damaged log.
#[derive(Debug)]
pub(crate) struct Salvaged {
    /// The number of its first operation. It is exact before the first gap of a segment. After the segment's last gap
    /// it is exact if the next segment is present. Elsewhere it may be too small, because the number of lost operations
    /// is unknown. The numbers ascend.
    pub(crate) first_seq: SeqNo,
    pub(crate) payload: Vec<u8>,
}

impl Segments {
    /// Every whole record from segment `from` on, in order, also after damage. `taken` returns how many sequence
    /// numbers a payload takes when its first one is given; the answer may depend on that first number if some
    /// operations skipped the log.
    pub(crate) fn salvage(
        &self,
        fs: &dyn FileSystem,
        from: u64,
        taken: &dyn Fn(&[u8], SeqNo) -> u64,
    ) -> Result<Vec<Salvaged>> {
        let mut salvaged: Vec<Salvaged> = Vec::new();
        let floor = LogFloor { segment: from, start: 0 };
        let live: Vec<_> = self.live(floor).collect();
        for (index, found) in live.iter().enumerate() {
            let header = &found.header;
            let records = salvage_file(&mut Pieces::open(fs, &found.path, header.epoch)?)?;
            let next = live.get(index + 1).map(|next| &next.header).filter(|next| next.id == header.id + 1);
            let last_gap = records.iter().rposition(|(gap, _)| !gap.is_empty());
            let mut seq = header.first_seq;
            for (i, (gap, payload)) in records.iter().enumerate() {
                if !gap.is_empty() {
                    // A record with a damaged header or value still shows how many operations it held.
                    let lost = gap.get(record::HEADER_LEN..).map_or(0, |payload| taken(payload, seq)).max(1);
                    let rest = || records[i..].iter().map(|(_, payload)| payload.as_slice());
                    let skips = rest().any(|payload| taken(payload, 0) != taken(payload, 1));
                    let left: u64 = rest().map(|payload| taken(payload, 0)).sum();
                    let exact = next.filter(|_| last_gap == Some(i) && !skips);
                    let exact = exact.map(|next| next.first_seq.saturating_sub(left));
                    seq = exact.unwrap_or(0).max(seq + lost);
                }
                salvaged.push(Salvaged { first_seq: seq, payload: payload.to_vec() });
                seq += taken(payload, seq);
            }
        }
        Ok(salvaged)
    }

    /// Leaves out the segments that an interrupted repair wrote: all the segments that it read are still
    /// there. `floor` is the first segment of the log, if a sound manifest names it.
    pub(crate) fn leave_out_repaired(&mut self, floor: Option<u64>) {
        let Some(first) = self.live(LogFloor::default()).map(|found| found.header.id).next() else { return };
        self.used.retain(|found| {
            let id = found.header.id;
            id == first || !id.is_multiple_of(REPAIRED) || floor.is_some_and(|floor| floor >= id)
        });
    }

    /// The first segment of the last unbroken run of segments.
    pub(crate) fn last_stretch(&self) -> u64 {
        let mut ids = self.live(LogFloor::default()).map(|found| found.header.id).collect::<Vec<_>>();
        let mut first = ids.pop().unwrap_or(0);
        while ids.last().is_some_and(|&id| id + 1 == first) {
            first -= 1;
            ids.pop();
        }
        first
    }

    /// A segment number that only a repair assigns, and a position after all records.
    pub(crate) fn behind(&self, fs: &dyn FileSystem) -> Result<LogFloor> {
        let mut behind = LogFloor::default();
        for found in self.live(LogFloor::default()) {
            behind.segment = behind.segment.max(found.header.id);
            behind.start = behind.start.max(found.header.start.saturating_add(fs.file_len(&found.path)?));
        }
        behind.segment = (behind.segment + 1).next_multiple_of(REPAIRED);
        Ok(behind)
    }
}

/// Every whole record of a file. Each comes with the bytes between it and the record before, as far as these
/// may be a record.
fn salvage_file(pieces: &mut Pieces) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let (mut found, mut end) = (Vec::new(), RECORDS_AT);
    walk(pieces, RECORDS_AT, &mut |at, record| {
        found.push((end..at, record.payload.to_vec()));
        end = at + record.len() as u64;
    })?;
    let with_gap = |(gap, payload): (Range<u64>, Vec<u8>)| {
        let len = usize::try_from(gap.end - gap.start).unwrap_or(GAP_MAX).min(GAP_MAX);
        Ok((if len == 0 { Vec::new() } else { pieces.bytes(gap.start, len)? }, payload))
    };
    found.into_iter().map(with_gap).collect()
}

/// Writes a segment that holds the records `payloads`; returns the position after the last one.
pub(crate) fn write_segment(
    fs: &dyn FileSystem,
    path: &Path,
    header: SegmentHeader,
    payloads: &[Vec<u8>],
) -> Result<u64> {
    let mut file = fs.create(path)?;
    let mut page = header.encode();
    page.resize(RECORDS_AT as usize, 0);
    file.append(&page)?;
    for payload in payloads {
        let mut head = record::header_for(payload);
        record::seal(&mut head, header.epoch, file.len(), u64::MAX);
        file.append(&head)?;
        file.append(payload)?;
    }
    file.sync()?;
    Ok(header.start + file.len() - RECORDS_AT)
}
