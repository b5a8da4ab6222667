//! What the system tells of this process. A figure is 0 where the system does not tell it.

/// See the module's comment.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Process {
    pub(crate) resident_bytes: u64,
    pub(crate) virtual_bytes: u64,
    pub(crate) user_seconds: f64,
    pub(crate) system_seconds: f64,
    /// In seconds since 1970.
    pub(crate) started_s: f64,
    pub(crate) threads: u64,
    pub(crate) open_files: u64,
    pub(crate) open_files_max: u64,
}

/// The unit of times in `/proc`, on all systems of Linux that Rust knows.
const TICKS_PER_SECOND: f64 = 100.0;

/// What this process has in memory, in bytes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Memory {
    pub(crate) resident_bytes: u64,
    /// The most that it has had.
    pub(crate) peak_bytes: u64,
}

pub(crate) fn memory() -> Memory {
    let status = text("/proc/self/status");
    let (resident_bytes, peak_bytes) = (status_bytes(&status, "VmRSS:"), status_bytes(&status, "VmHWM:"));
    // The system counts in each thread, and sums up now and then.
    Memory { resident_bytes, peak_bytes: peak_bytes.max(resident_bytes) }
}

/// The memory of the machine, in bytes.
pub(crate) fn machine_bytes() -> u64 {
    status_bytes(&text("/proc/meminfo"), "MemTotal:")
}

/// What the processors have done, in seconds.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Processor {
    pub(crate) user: f64,
    pub(crate) system: f64,
    /// The same of processes that this one has begun.
    pub(crate) user_of_children: f64,
    pub(crate) system_of_children: f64,
}

impl Processor {
    /// Of the process.
    pub(crate) fn of_process() -> Processor {
        Processor::read("/proc/self/stat")
    }

    /// Of this thread, without children.
    pub(crate) fn of_thread() -> Processor {
        Processor::read("/proc/thread-self/stat")
    }

    fn read(path: &str) -> Processor {
        let fields = fields_of(&text(path));
        let seconds = |field: usize| fields.get(field).copied().unwrap_or(0.0) / TICKS_PER_SECOND;
        Processor {
            user: seconds(10),
            system: seconds(11),
            user_of_children: seconds(12),
            system_of_children: seconds(13),
        }
    }
}

/// The numbers in a file `stat`, after the state of the process.
fn fields_of(stat: &str) -> Vec<f64> {
    // The name of the program, in parentheses, may contain blanks.
    let fields = stat.rsplit_once(')').map(|(_, fields)| fields);
    fields
        .map(|fields| fields.split_whitespace().skip(1).map(|field| field.parse().unwrap_or(0.0)).collect())
        .unwrap_or_default()
}

impl Process {
    /// Reads files of the system: not for the event loop.
    pub(crate) fn read() -> Process {
        let (status, stat, limits) =
            (text("/proc/self/status"), text("/proc/self/stat"), text("/proc/self/limits"));
        let fields = fields_of(&stat);
        let seconds = |field: usize| fields.get(field).copied().unwrap_or(0.0) / TICKS_PER_SECOND;
        let open_files_max = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
        Process {
            resident_bytes: status_bytes(&status, "VmRSS:"),
            virtual_bytes: status_bytes(&status, "VmSize:"),
            user_seconds: seconds(10),
            system_seconds: seconds(11),
            started_s: booted_s() + seconds(18),
            threads: number_after(&status, "Threads:"),
            open_files: open_files(),
            open_files_max: open_files_max
                .and_then(|limits| limits.split_whitespace().next()?.parse().ok())
                .unwrap_or(0),
        }
    }
}

fn number_after(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

fn status_bytes(status: &str, name: &str) -> u64 {
    number_after(status, name) * 1024
}

/// When the system began, in seconds since 1970.
fn booted_s() -> f64 {
    number_after(&text("/proc/stat"), "btime ") as f64
}

#[expect(clippy::disallowed_methods, reason = "what the system tells is no file of a store")]
fn text(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

#[expect(clippy::disallowed_methods, reason = "what the system tells is no file of a store")]
fn open_files() -> u64 {
    // The descriptor of the directory itself is one of them.
    std::fs::read_dir("/proc/self/fd").map_or(0, |files| (files.count() as u64).saturating_sub(1))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn linux_tells_everything() {
        let begin = Process::read();
        while Process::read().user_seconds < begin.user_seconds + 0.02 {}
        let process = Process::read();
        assert!(
            process.resident_bytes > 1 << 20 && process.virtual_bytes >= process.resident_bytes,
            "{process:?}"
        );
        assert!(process.started_s > 1.6e9 && process.threads > 0, "{process:?}");
        assert!(process.open_files > 0 && process.open_files_max >= process.open_files, "{process:?}");
        let first = process.started_s;
        assert!((Process::read().started_s - first).abs() < 1.0);
    }
}
