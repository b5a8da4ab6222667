//! Files in and out of the page cache, and what the device itself can do.

use super::values::Buffer;
use crate::data::Draws;
use crate::process;
use crate::stores::Result;
use rustix::fs::{Advice, OFlags, fadvise};
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Requests that a direct read keeps waiting at the device.
const DEPTH: usize = 8;
/// The longest of them.
const REQUEST_MAX: usize = 1 << 20;
/// What direct reads must begin and end at.
const ALIGN: usize = 4096;

/// All files below `dir`.
pub(super) fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.append(&mut files(&path));
        } else {
            found.push(path);
        }
    }
    found
}

/// Takes the files of a closed store out of the page cache. Other pages stay, which keep the machine's memory
/// backed. Names and inodes go as well where the process may ask for that, as root.
pub(super) fn make_cold(dir: &Path) -> Result<()> {
    // The first round has the kernel begin to write, the second finds little to wait for.
    for round in 0..2 {
        for path in files(dir) {
            let file = File::open(path)?;
            if round == 1 {
                file.sync_data()?;
            }
            fadvise(&file, 0, None, Advice::DontNeed)?;
        }
    }
    std::fs::write("/proc/sys/vm/drop_caches", "2").ok();
    Ok(())
}

/// Reads the files of a closed store once, so that reads of it come from the page cache.
pub(super) fn make_warm(dir: &Path) -> Result<()> {
    let mut buffer = vec![0; 1 << 20];
    for path in files(dir) {
        let mut file = File::open(path)?;
        while file.read(&mut buffer)? > 0 {}
    }
    Ok(())
}

/// Waits until the store in `dir` has nothing to do in the background: its files stand still for 0.3 s and this
/// process uses no CPU but for looking at them. Returns how long that took, the quiet end not counted.
pub(super) fn settle(dir: &Path) -> Duration {
    const QUIET: Duration = Duration::from_millis(300);
    const LIMIT: Duration = Duration::from_secs(120);
    let begun = Instant::now();
    let mut quiet_since = begun;
    let mut looking = Duration::ZERO;
    let mut look = || {
        let begun = Instant::now();
        let usage = process::disk_usage(dir);
        looking += begun.elapsed();
        (usage, process::cpu_seconds() - looking.as_secs_f64())
    };
    let mut seen = look();
    while quiet_since.elapsed() < QUIET && begun.elapsed() < LIMIT {
        std::thread::sleep(Duration::from_millis(20));
        let now = look();
        if now.0 != seen.0 || now.1 - seen.1 > 0.02 {
            quiet_since = Instant::now();
            seen = now;
        }
    }
    quiet_since - begun
}

/// Reads whole `paths` past the page cache, in random order, in pieces of `length` or 1 MiB if that is less, eight
/// at once. Returns bytes and time; none where the file system has no direct reads.
pub(super) fn direct_read(paths: &[PathBuf], length: usize, draws: Draws) -> Result<Option<(u64, Duration)>> {
    let request = length.clamp(ALIGN, REQUEST_MAX);
    let mut open = Vec::new();
    let mut pieces = Vec::new();
    for path in paths {
        let flags = i32::try_from(OFlags::DIRECT.bits())?;
        let Ok(file) = OpenOptions::new().read(true).custom_flags(flags).open(path) else { return Ok(None) };
        let whole = file.metadata()?.len() as usize / request;
        pieces.extend((0..whole).map(|i| (open.len(), (i * request) as u64)));
        open.push(file);
    }
    super::plan::shuffle(&mut pieces, draws);
    let next = AtomicUsize::new(0);
    let work = || -> std::io::Result<()> {
        let mut buffer = Buffer::new(request);
        while let Some(&(file, at)) = pieces.get(next.fetch_add(1, Ordering::Relaxed)) {
            open[file].read_exact_at(&mut buffer, at)?;
        }
        Ok(())
    };
    let begun = Instant::now();
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..DEPTH).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(std::thread::ScopedJoinHandle::join).collect()
    });
    for outcome in outcomes {
        if let Err(error) = outcome.map_err(|_| "a reading thread panicked")? {
            // Opening went well and reading does not: some file systems say no here.
            return if error.kind() == std::io::ErrorKind::InvalidInput {
                Ok(None)
            } else {
                Err(error.into())
            };
        }
    }
    Ok(Some(((pieces.len() * request) as u64, begun.elapsed())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_files_are_found_and_read() {
        let dir = std::env::temp_dir().join(format!("esker-bench-cold-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("below")).unwrap();
        for name in ["a", "below/b"] {
            std::fs::write(dir.join(name), vec![7; 3 << 20]).unwrap();
        }
        assert_eq!(files(&dir).len(), 2);
        make_warm(&dir).unwrap();
        make_cold(&dir).unwrap();
        if let Some((bytes, time)) = direct_read(&files(&dir), 64 << 10, Draws::new(1, 1)).unwrap() {
            assert_eq!(bytes, 6 << 20);
            assert!(time > Duration::ZERO);
        }
        std::fs::remove_dir_all(dir).unwrap();
    }
}
