//! Copies a file, or the beginning of one, to a new path and computes the checksum of the bytes.

use std::io::IoSlice;
use std::path::Path;

use crate::checksum::Summing;
use crate::env::Env;
use crate::error::Result;
use crate::fs::{BLOCK, RandomFile, ReadFile};

/// Size of one read.
const PIECE: u64 = 1 << 20;

/// Copies the file `from` of the first environment to the new file `to` of the second. The new file is synced; its name
/// is not yet. Blocks of zeros become holes. Returns the length and the checksum of the bytes read.
pub(super) fn copy_file((env, from): (&Env, &Path), to: (&Env, &Path)) -> Result<(u64, u64)> {
    let source = env.fs.open_read(from)?;
    let sum = copy_beginning(&*source, source.len(), to, |_| ())?;
    Ok((source.len(), sum))
}

/// Like [`copy_file`], for the first `len` bytes of `source`. `change` may change the first MiB of the copy.
pub(super) fn copy_beginning(
    source: &dyn ReadFile,
    len: u64,
    (env, to): (&Env, &Path),
    change: impl Fn(&mut [u8]),
) -> Result<u64> {
    let target = env.fs.create_random(to)?;
    let mut sum = Summing::default();
    let mut buf = vec![0; PIECE.min(len) as usize];
    for at in (0..len).step_by(PIECE as usize) {
        let piece = &mut buf[..PIECE.min(len - at) as usize];
        source.read_exact_at(piece, at)?;
        sum.add(piece);
        if at == 0 {
            change(piece);
        }
        write_filled(&*target, piece, at)?;
        target.start_writeback(at, piece.len() as u64);
    }
    target.set_len(len)?;
    target.sync()?;
    Ok(sum.finish())
}

/// Writes the blocks of `piece` that are not all zeros. `piece` begins at offset `at`.
fn write_filled(target: &dyn RandomFile, piece: &[u8], at: u64) -> Result<()> {
    let is_filled = |block: &[u8]| block.iter().any(|&byte| byte != 0);
    let blocks: Vec<&[u8]> = piece.chunks(BLOCK as usize).collect();
    let mut offset = at;
    for run in blocks.chunk_by(|a, b| is_filled(a) == is_filled(b)) {
        let len: usize = run.iter().map(|block| block.len()).sum();
        if run.first().is_some_and(|block| is_filled(block)) {
            let from = (offset - at) as usize;
            target.write_at(&[IoSlice::new(&piece[from..from + len])], offset)?;
        }
        offset += len as u64;
    }
    Ok(())
}
