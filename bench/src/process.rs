//! What the kernel tells about this process and its machine, read from `/proc`; 0 where it does not tell.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// The unit of CPU times in `/proc`, fixed by Linux's interface for user space.
const TICKS_PER_SECOND: f64 = 100.0;

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// The number behind `name` in a file of `name: number [kB]` lines.
fn field(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// Seconds of CPU that this process has used, all threads, user and system.
pub(crate) fn cpu_seconds() -> f64 {
    own_ticks(11, 12) / TICKS_PER_SECOND
}

/// Seconds of CPU that children of this process have used that it has waited for.
pub(crate) fn children_cpu_seconds() -> f64 {
    own_ticks(13, 14) / TICKS_PER_SECOND
}

/// Seconds of CPU that a process has used, its waited-for children included.
pub(crate) fn cpu_seconds_of(pid: u32) -> f64 {
    let stat = read(&format!("/proc/{pid}/stat"));
    (ticks(&stat, 11, 12) + ticks(&stat, 13, 14)) / TICKS_PER_SECOND
}

/// Seconds of CPU that a process has used, and its highest resident set in bytes. `None`: there is no such process.
pub(crate) fn used_by(pid: &str) -> Option<(f64, u64)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    Some((ticks(&stat, 11, 12) / TICKS_PER_SECOND, field(&status, "VmHWM") * 1024))
}

fn own_ticks(one: usize, other: usize) -> f64 {
    ticks(&read("/proc/self/stat"), one, other)
}

/// The sum of two of a process' times in `/proc/PID/stat`, by their places after its name.
fn ticks(stat: &str, one: usize, other: usize) -> f64 {
    // The program's name, in parentheses, may hold anything; fields are counted after it.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let ticks = |i: usize| fields.get(i).and_then(|t| t.parse::<f64>().ok()).unwrap_or(0.0);
    ticks(one) + ticks(other)
}

/// Seconds of CPU that anything on the machine has used, or that its host has taken from it.
pub(crate) fn machine_cpu_seconds() -> f64 {
    let stat = read("/proc/stat");
    let line = stat.lines().next().unwrap_or("");
    let ticks: Vec<f64> = line.split_whitespace().skip(1).filter_map(|t| t.parse().ok()).collect();
    // user nice system idle iowait irq softirq steal; guest times are already in user.
    let busy: f64 = ticks.iter().take(8).sum::<f64>() - ticks.iter().skip(3).take(2).sum::<f64>();
    busy / TICKS_PER_SECOND
}

/// Bytes that this process has caused to be written to a device.
pub(crate) fn written_bytes() -> u64 {
    field(&read("/proc/self/io"), "write_bytes")
}

/// The highest resident set so far, mapped files included.
pub(crate) fn peak_rss_bytes() -> u64 {
    field(&read("/proc/self/status"), "VmHWM") * 1024
}

/// Anonymous memory now.
pub(crate) fn anon_bytes() -> u64 {
    field(&read("/proc/self/status"), "RssAnon") * 1024
}

/// File descriptors that this process has open.
pub(crate) fn open_descriptors() -> u64 {
    // One of them lists the others.
    std::fs::read_dir("/proc/self/fd").map_or(0, |entries| entries.count() as u64 - 1)
}

/// Memory that is free and holds no page cache either.
pub(crate) fn free_memory_bytes() -> u64 {
    field(&read("/proc/meminfo"), "MemFree") * 1024
}

/// Bytes that the file system of `dir` has left for this process.
pub(crate) fn free_disk_bytes(dir: &Path) -> std::io::Result<u64> {
    let disk = rustix::fs::statvfs(dir)?;
    Ok(disk.f_bavail * disk.f_frsize)
}

/// Bytes allocated on disk below `dir`, and how many files there are.
pub(crate) fn disk_usage(dir: &Path) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt;
    let (mut bytes, mut files) = (0, 0);
    let Ok(entries) = std::fs::read_dir(dir) else { return (0, 0) };
    for entry in entries.flatten() {
        // A store may remove a file between the listing and this.
        let Ok(metadata) = entry.metadata() else { continue };
        if metadata.is_dir() {
            let (b, f) = disk_usage(&entry.path());
            bytes += b;
            files += f;
        } else {
            bytes += metadata.blocks() * 512;
            files += 1;
        }
    }
    (bytes, files)
}

/// Watches anonymous memory, which the kernel keeps no peak of, ten times a second.
pub(crate) struct AnonWatch {
    peak: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl AnonWatch {
    pub(crate) fn start() -> AnonWatch {
        let (peak, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (peak2, stop2) = (Arc::clone(&peak), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            while !stop2.load(Ordering::Relaxed) {
                peak2.fetch_max(anon_bytes(), Ordering::Relaxed);
                std::thread::park_timeout(Duration::from_millis(100));
            }
        });
        AnonWatch { peak, stop, thread: Some(thread) }
    }

    pub(crate) fn peak_bytes(&self) -> u64 {
        self.peak.load(Ordering::Relaxed)
    }
}

impl Drop for AnonWatch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            thread.join().ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_tells_what_is_asked() {
        assert!(peak_rss_bytes() > 1 << 20);
        assert!(free_memory_bytes() > 0);
        assert!(anon_bytes() > 0);
        assert!(open_descriptors() >= 3);
        assert!(machine_cpu_seconds() >= cpu_seconds());
        let stat = "7 (a ) 1 (b) S 1 7 7 0 -1 4194304 1 2 3 4 30 12 0 0 20 0 1 0 5 6 7";
        assert_eq!(ticks(stat, 11, 12), 42.0);
        assert!(used_by("self").is_some_and(|(_, bytes)| bytes > 1 << 20) && used_by("4294967295").is_none());
        assert_eq!(field("A: 1\nAB:   23 kB\n", "AB"), 23);
        assert_eq!(field("A: 1\n", "B"), 0);
    }
}
