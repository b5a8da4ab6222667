//! What processes have used of the machine, as `/proc` says it.

use std::fs;

use crate::exit::{Failure, Outcome};

/// Processes whose figures are added up. There may be none.
pub(super) struct Processes(Vec<String>);

impl Processes {
    /// This one.
    pub(super) fn this() -> Processes {
        Processes(vec!["self".to_owned()])
    }

    /// Those with these numbers, which must exist.
    pub(super) fn of(pids: &[u32]) -> Outcome<Processes> {
        let processes = Processes(pids.iter().map(u32::to_string).collect());
        processes.cpu_seconds().map_err(|failure| match failure.message() {
            Some(message) => Failure::usage(format!("--server-pid: {message}")),
            None => failure,
        })?;
        Ok(processes)
    }

    /// The CPU time that they have taken until now.
    pub(super) fn cpu_seconds(&self) -> Outcome<Option<f64>> {
        let ticks = rustix::param::clock_ticks_per_second() as f64;
        self.sum("stat", |text| cpu_ticks(text).map(|used| used as f64 / ticks))
    }

    /// The most memory that they have had, each at its own time.
    pub(super) fn memory_peak_bytes(&self) -> Outcome<Option<u64>> {
        Ok(self
            .sum("status", |text| memory_peak_kib(text).map(|kib| kib as f64))?
            .map(|kib| kib as u64 * 1024))
    }

    fn sum(&self, file: &str, read: impl Fn(&str) -> Option<f64>) -> Outcome<Option<f64>> {
        let figure = |pid: &String| {
            let path = format!("/proc/{pid}/{file}");
            let text =
                fs::read_to_string(&path).map_err(|error| Failure::store(format!("{path}: {error}")))?;
            read(&text).ok_or_else(|| Failure::store(format!("{path}: the process has ended")))
        };
        let figures = self.0.iter().map(figure).collect::<Outcome<Vec<f64>>>()?;
        Ok((!figures.is_empty()).then(|| figures.iter().sum()))
    }
}

/// User and system time in `/proc/PID/stat`. The name of the program before them may hold anything.
fn cpu_ticks(text: &str) -> Option<u64> {
    let (_, fields) = text.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some(next()? + next()?)
}

fn memory_peak_kib(text: &str) -> Option<u64> {
    let peak = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    peak.trim().strip_suffix("kB")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_found() {
        let stat = "7 (a ) 1 (b) S 1 7 7 0 -1 4194304 1 2 3 4 30 12 0 0 20 0 1 0 5 6 7";
        assert_eq!(cpu_ticks(stat), Some(42));
        assert_eq!(memory_peak_kib("Name:\tx\nVmHWM:\t  2048 kB\nVmRSS:\t 1 kB\n"), Some(2048));
        assert_eq!((cpu_ticks("7 (a) S 1"), memory_peak_kib("")), (None, None));
        let this = Processes::this();
        assert!(this.cpu_seconds().unwrap().is_some() && this.memory_peak_bytes().unwrap() > Some(1 << 20));
        assert!(Processes::of(&[u32::MAX]).is_err_and(|failure| failure.code() == 2));
        assert_eq!(Processes::of(&[]).unwrap().cpu_seconds().unwrap(), None);
    }
}
