//! Every block of a table file, of any kind, has a trailer:
//!
//! ```text
//! [ payload as stored ] [ compression u8 ] [ checksum u64 ]
//! ```
//! The checksum covers payload and compression byte. Its seed is the table's salt plus the block's file offset.
//! Therefore good bytes of another table or another place count as damage. A compressed payload begins with the plain
//! length as LEB128. A payload that does not shrink by an eighth is stored plain.

#[cfg(feature = "zstd")]
use std::cell::RefCell;
use std::sync::Arc;

#[cfg(feature = "zstd")]
use zstd::bulk::{Compressor, Decompressor};

use super::Flaw;
use super::block::SLACK;
use crate::checksum::checksum;
use crate::codec::{Decoder, put_varint, u64_at};
use crate::error::Error;
#[cfg(not(feature = "zstd"))]
use crate::error::ErrorKind;
use crate::options::Compression;

/// Bytes after every stored payload. They double as the slack that a plain block needs in memory.
pub(super) const TRAILER: usize = SLACK;

/// Larger payloads are stored plain: lz4 addresses at most 2 GiB.
const MAX_COMPRESSED: usize = 1 << 30;
/// lz4 expands one byte to at most 255, zstd four bytes to at most 128 KiB. A greater length is damage, and
/// is rejected before memory is allocated for it.
const MAX_RATIO: u64 = 1 << 16;

const PLAIN: u8 = 0;
const LZ4: u8 = 1;
const ZSTD: u8 = 2;

/// Completes the block whose payload is `out[start..]` and which begins at file offset `offset`.
pub(super) fn seal(out: &mut Vec<u8>, start: usize, compression: Compression, salt: u64, offset: u64) {
    let plain_len = out.len() - start;
    let packed = if plain_len <= MAX_COMPRESSED { compress(&out[start..], compression) } else { None };
    match packed {
        Some((byte, packed)) if packed.len() < plain_len - plain_len / 8 => {
            out.truncate(start);
            out.extend_from_slice(&packed);
            out.push(byte);
        }
        _ => out.push(PLAIN),
    }
    let sum = checksum(salt.wrapping_add(offset), &out[start..]);
    out.extend_from_slice(&sum.to_le_bytes());
}

/// Verifies a block with its trailer and returns the plain payload, followed by slack.
pub(super) fn open(
    stored: impl AsRef<[u8]> + Into<Arc<[u8]>>,
    salt: u64,
    offset: u64,
) -> Result<Arc<[u8]>, Flaw> {
    match verify(stored.as_ref(), salt, offset)? {
        (PLAIN, _) => Ok(stored.into()),
        (byte, payload) => decompress(byte, payload).map(Arc::from),
    }
}

/// The payload of a section other than data, which is never compressed.
pub(super) fn open_section(stored: &[u8], salt: u64, offset: u64) -> Result<&[u8], Flaw> {
    match verify(stored, salt, offset)? {
        (PLAIN, payload) => Ok(payload),
        (_, payload) => Err(Flaw::new(payload.len(), "a section that is not compressed")),
    }
}

fn verify(stored: &[u8], salt: u64, offset: u64) -> Result<(u8, &[u8]), Flaw> {
    let Some(sum_at) = stored.len().checked_sub(8).filter(|&at| at > 0) else {
        return Err(Flaw::new(0, "a block with a trailer"));
    };
    if checksum(salt.wrapping_add(offset), &stored[..sum_at]) != u64_at(stored, sum_at) {
        return Err(Flaw::new(0, "a block that matches its checksum"));
    }
    Ok((stored[sum_at - 1], &stored[..sum_at - 1]))
}

fn compress(plain: &[u8], compression: Compression) -> Option<(u8, Vec<u8>)> {
    let mut packed = Vec::new();
    put_varint(&mut packed, plain.len() as u64);
    let at = packed.len();
    match compression {
        Compression::None => None,
        Compression::Lz4 => {
            packed.resize(at + lz4_flex::block::get_maximum_output_size(plain.len()), 0);
            let len = lz4_flex::block::compress_into(plain, &mut packed[at..]).ok()?;
            packed.truncate(at + len);
            Some((LZ4, packed))
        }
        Compression::Zstd => compress_zstd(plain, packed),
    }
}

#[cfg(feature = "zstd")]
thread_local! {
    // Creating a compressor takes longer than compressing a block.
    static COMPRESSOR: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
    static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

/// Appends to `packed`, which already holds the length.
#[cfg(feature = "zstd")]
fn compress_zstd(plain: &[u8], mut packed: Vec<u8>) -> Option<(u8, Vec<u8>)> {
    let at = packed.len();
    packed.resize(at + zstd::zstd_safe::compress_bound(plain.len()), 0);
    let len = COMPRESSOR.with_borrow_mut(|kept| {
        if kept.is_none() {
            *kept = Compressor::new(zstd::DEFAULT_COMPRESSION_LEVEL).ok();
        }
        kept.as_mut()?.compress_to_buffer(plain, &mut packed[at..]).ok()
    })?;
    packed.truncate(at + len);
    Some((ZSTD, packed))
}

#[cfg(not(feature = "zstd"))]
fn compress_zstd(_plain: &[u8], _packed: Vec<u8>) -> Option<(u8, Vec<u8>)> {
    None
}

/// Fails with `Unsupported` if this build cannot write `compression`.
pub(crate) fn supported(compression: Compression) -> Result<(), Error> {
    match compression {
        #[cfg(not(feature = "zstd"))]
        Compression::Zstd => Err(Error::new(ErrorKind::Unsupported, Flaw::NO_ZSTD)),
        _ => Ok(()),
    }
}

fn decompress(byte: u8, payload: &[u8]) -> Result<Vec<u8>, Flaw> {
    let mut decoder = Decoder::new(payload);
    let flaw = || Flaw::new(0, "the length of a compressed block");
    let plain_len = decoder.varint().ok_or_else(flaw)?;
    let packed = decoder.rest();
    if plain_len > MAX_COMPRESSED as u64 || plain_len > MAX_RATIO * (packed.len() as u64 + 64) {
        return Err(flaw());
    }
    let plain_len = plain_len as usize;
    let mut plain = Vec::new();
    if plain.try_reserve_exact(plain_len + SLACK).is_err() {
        return Err(flaw());
    }
    plain.resize(plain_len + SLACK, 0);
    let len = match byte {
        LZ4 => lz4_flex::block::decompress_into(packed, &mut plain[..plain_len]).ok(),
        ZSTD => decompress_zstd(packed, &mut plain[..plain_len])?,
        _ => return Err(Flaw::new(payload.len(), "a known compression")),
    };
    if len != Some(plain_len) {
        return Err(Flaw::new(0, "a compressed block of the stated length"));
    }
    Ok(plain)
}

#[cfg(feature = "zstd")]
fn decompress_zstd(packed: &[u8], plain: &mut [u8]) -> Result<Option<usize>, Flaw> {
    Ok(DECOMPRESSOR.with_borrow_mut(|kept| {
        if kept.is_none() {
            *kept = Decompressor::new().ok();
        }
        kept.as_mut()?.decompress_to_buffer(packed, plain).ok()
    }))
}

#[cfg(not(feature = "zstd"))]
fn decompress_zstd(_packed: &[u8], _plain: &mut [u8]) -> Result<Option<usize>, Flaw> {
    Err(Flaw::Zstd)
}
