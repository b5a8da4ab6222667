//! Hostile log segments and manifests with correct checksums, for `fuzz/`.

use super::record::{self, HEADER_LEN};
use crate::checksum::checksum;
use crate::codec::{u32_at, u64_at};

/// The first page of either file.
const PAGE: usize = 4096;

/// Corrects every checksum of a log segment.
pub(crate) fn mend_segment(bytes: &mut [u8]) {
    if bytes.len() >= PAGE {
        mend_at(bytes, 64);
        let epoch = u64_at(bytes, 24);
        mend_records(bytes, epoch);
    }
}

/// Corrects every checksum of a manifest.
pub(crate) fn mend_stream(bytes: &mut [u8]) {
    if bytes.len() >= PAGE {
        mend_at(bytes, 24);
        let epoch = u64_at(bytes, 16);
        mend_records(bytes, epoch);
    }
}

fn mend_at(bytes: &mut [u8], at: usize) {
    let sum = checksum(0, &bytes[..at]);
    bytes[at..at + 8].copy_from_slice(&sum.to_le_bytes());
}

/// Corrects the records, finding each one by the length of the one before it.
fn mend_records(bytes: &mut [u8], epoch: u64) {
    let mut at = PAGE;
    while let Some(head) = bytes.get(at..at + HEADER_LEN) {
        let (len, lag) = (u32_at(head, 8) as usize, u64::from(u32_at(head, 12)));
        let Some(payload) = bytes.get(at + HEADER_LEN..at + HEADER_LEN + len) else { return };
        if len == 0 {
            return;
        }
        let mut header = record::header_for(payload);
        record::seal(&mut header, epoch, at as u64, lag);
        bytes[at..at + HEADER_LEN].copy_from_slice(&header);
        at += HEADER_LEN + len;
    }
}
