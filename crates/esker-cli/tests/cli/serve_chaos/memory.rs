//! What a process takes of the machine's memory.

use std::fs;

/// The memory of a process.
pub(super) struct Memory(u32);

impl Memory {
    pub(super) fn of(process: u32) -> Memory {
        Memory(process)
    }

    fn mib(&self, name: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0)).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim_start_matches(':').trim().trim_end_matches(" kB").parse::<u64>().unwrap() >> 10
    }

    /// What it has now, in MiB.
    pub(super) fn now_mib(&self) -> u64 {
        self.mib("VmRSS")
    }

    /// The most that it has had since [`Memory::forget_peak`], in MiB.
    pub(super) fn peak_mib(&self) -> u64 {
        self.mib("VmHWM")
    }

    /// Has the kernel count the peak from now on.
    pub(super) fn forget_peak(&self) {
        fs::write(format!("/proc/{}/clear_refs", self.0), "5").unwrap();
    }
}
