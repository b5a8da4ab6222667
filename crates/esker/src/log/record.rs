//! The framing of one record.
//!
//! ```text
//! offset  0               8        12      16             20
//!         +---------------+--------+-------+--------------+---------------------------+
//!         | payload check | length | lag   | header check | payload, `length` bytes   |
//!         +---------------+--------+-------+--------------+---------------------------+
//! ```
//!
//! The salt is derived from the epoch of this use of the file and from the record's offset. The payload check
//! is XXH3-64 of the payload, xored with the salt. The header check is XXH3 of the 16 bytes before it, seeded
//! with the salt. Neither a record of an earlier use of the file nor a record in the wrong place passes.
//! Because the header has its own check, a reader can look for whole records after a damaged one without
//! hashing everything.
//!
//! `lag` states how far before this record the log was known to be synced when the record was written: everything
//! before `position - lag` is on the disk. `u32::MAX` claims nothing.

use crate::checksum::checksum;
use crate::codec::{u32_at, u64_at};

/// Bytes before the payload.
pub(crate) const HEADER_LEN: usize = 20;

/// A lag that claims nothing.
const NO_CLAIM: u32 = u32::MAX;

fn salt(epoch: u64, offset: u64) -> u64 {
    epoch ^ offset.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

fn header_check(header: &[u8], epoch: u64, offset: u64) -> u32 {
    checksum(salt(epoch, offset), &header[..16]) as u32
}

/// The part of a record's header that depends on `payload` alone. Call it outside any lock.
pub(crate) fn header_for(payload: &[u8]) -> [u8; HEADER_LEN] {
    let mut header = [0; HEADER_LEN];
    header[..8].copy_from_slice(&checksum(0, payload).to_le_bytes());
    header[8..12].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    header
}

/// Completes the header of a record that will be written at `offset` of a file used under `epoch`, when the
/// log was synced up to `lag_bytes` before that record.
pub(crate) fn seal(header: &mut [u8; HEADER_LEN], epoch: u64, offset: u64, lag_bytes: u64) {
    let payload_check = u64_at(header, 0) ^ salt(epoch, offset);
    header[..8].copy_from_slice(&payload_check.to_le_bytes());
    let lag = u32::try_from(lag_bytes).unwrap_or(NO_CLAIM);
    header[12..16].copy_from_slice(&lag.to_le_bytes());
    let check = header_check(header, epoch, offset);
    header[16..20].copy_from_slice(&check.to_le_bytes());
}

/// A whole record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Record<'a> {
    pub(crate) payload: &'a [u8],
    /// How many bytes before this record the log was known to be synced; `None` claims nothing.
    pub(crate) lag: Option<u64>,
}

impl Record<'_> {
    /// Bytes that the record takes in the file.
    pub(crate) fn len(&self) -> usize {
        HEADER_LEN + self.payload.len()
    }
}

/// The record that begins `bytes`, which were read at `offset` of a file used under `epoch`.
pub(crate) fn read_at(bytes: &[u8], offset: u64, epoch: u64) -> Option<Record<'_>> {
    let len = len_at(bytes, offset, epoch)?;
    let (header, payload) = bytes.get(..len)?.split_at(HEADER_LEN);
    if !payload_matches(header, checksum(0, payload), offset, epoch) {
        return None;
    }
    let lag = u32_at(header, 12);
    Some(Record { payload, lag: (lag != NO_CLAIM).then_some(u64::from(lag)) })
}

/// The length of that record according to its header.
pub(crate) fn len_at(bytes: &[u8], offset: u64, epoch: u64) -> Option<usize> {
    let header = bytes.get(..HEADER_LEN)?;
    let sound = u32_at(header, 16) == header_check(header, epoch, offset);
    sound.then(|| HEADER_LEN + u32_at(header, 8) as usize)
}

/// Whether `header`, found at `offset`, names `sum`, the unseeded checksum of a payload.
pub(super) fn payload_matches(header: &[u8], sum: u64, offset: u64, epoch: u64) -> bool {
    u64_at(header, 0) == sum ^ salt(epoch, offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(payload: &[u8], epoch: u64, offset: u64) -> Vec<u8> {
        let mut header = header_for(payload);
        seal(&mut header, epoch, offset, 5);
        let mut buf = header.to_vec();
        buf.extend_from_slice(payload);
        buf
    }

    #[test]
    fn a_record_reads_back_only_in_its_epoch_and_place() {
        let bytes = record(b"payload", 7, 0);
        let read_back = read_at(&bytes, 0, 7).expect("whole");
        assert_eq!(
            (read_back.payload, read_back.lag, read_back.len()),
            (&b"payload"[..], Some(5), bytes.len())
        );
        assert!(read_at(&bytes, 0, 8).is_none());
        let mut shifted = vec![0; 8];
        shifted.extend_from_slice(&bytes);
        assert!(read_at(&shifted[8..], 8, 7).is_none());
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_seen() {
        let bytes = record(b"some payload", 1, 0);
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(read_at(&damaged, 0, 1).is_none(), "bit {bit}");
        }
        for len in 0..bytes.len() {
            assert!(read_at(&bytes[..len], 0, 1).is_none(), "cut at {len}");
        }
    }
}
