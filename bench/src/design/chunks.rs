//! `chunks`: how large the parts of a huge value should be that have a checksum each. Small ones make a read of a few
//! bytes cheap, large ones the list of checksums short.

use crate::args::Args;
use crate::data::Draws;
use crate::stores::Result;
use esker::measure::Chunked;

const VALUE_BYTES: usize = 16 << 20;
/// How much a read of a part wants.
const PART_BYTES: usize = 4 << 10;
const PARTS: u64 = 50;
/// Repetitions of each measurement; the best one is shown.
const ROUNDS: u64 = 30;

pub(crate) fn run(args: &Args) -> Result<()> {
    std::fs::create_dir_all(&args.dir)?;
    let draws = Draws::new(args.seed, 0);
    let mut value = vec![0; VALUE_BYTES];
    for (at, word) in (0..).zip(value.chunks_exact_mut(8)) {
        word.copy_from_slice(&draws.bits(at).to_le_bytes());
    }
    println!("a value of {} MiB in the page cache, one thread", VALUE_BYTES >> 20);
    println!("KiB a chunk   whole, MB/s   parts of 4 KiB, us each: first   in a verified chunk");
    for chunk_log2 in [12, 14, 15, 16, 17, 18] {
        let path = args.dir.join(format!("chunks-{chunk_log2}"));
        std::fs::remove_file(&path).ok();
        let mut chunked = Chunked::write(&path, &value, chunk_log2)?;
        let mut whole = f64::INFINITY;
        let mut first = f64::INFINITY;
        let mut again = f64::INFINITY;
        for _ in 0..ROUNDS {
            chunked.reopen()?;
            whole = whole.min(once(1, || Ok(chunked.read_at(0, &mut value)?))?);
            chunked.reopen()?;
            // The list of checksums is loaded by the first part.
            chunked.read_at(0, &mut value[..1])?;
            first = first.min(once(PARTS, || parts(&chunked, draws, &mut value))?);
            again = again.min(once(PARTS, || parts(&chunked, draws, &mut value))?);
        }
        let speed = VALUE_BYTES as f64 / whole * 1e3;
        println!("{:>11} {speed:>13.0} {:>32.1} {:>21.1}", 1 << chunk_log2 >> 10, first / 1e3, again / 1e3);
        std::fs::remove_file(&path)?;
    }
    Ok(())
}

/// Nanoseconds of each of `count` operations of `work`, which is done once.
fn once(count: u64, mut work: impl FnMut() -> Result<()>) -> Result<f64> {
    let begun = std::time::Instant::now();
    work()?;
    Ok(begun.elapsed().as_nanos() as f64 / count as f64)
}

/// Reads parts that lie in different chunks of any size.
fn parts(chunked: &Chunked, draws: Draws, buf: &mut [u8]) -> Result<()> {
    let stride = VALUE_BYTES as u64 / PARTS;
    for part in 0..PARTS {
        let offset = part * stride + draws.below(part, stride - PART_BYTES as u64);
        chunked.read_at(offset, &mut buf[..PART_BYTES])?;
    }
    Ok(())
}
