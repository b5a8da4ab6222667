//! What a scan tells the statistics of its store.

use std::sync::Arc;

use crate::state::TreeInner;
use crate::trace::{Metrics, Notes, Operation, Subject, notes};

/// One scan's. Its notes become those of an operation when it goes.
#[derive(Debug)]
pub(crate) struct ScanMeter {
    metrics: Arc<Metrics>,
    tree: Arc<TreeInner>,
    /// When the scan began, if it is one to be timed, until its first entry was looked for.
    began_ns: Option<u64>,
    /// What its steps waited for and read, and how many nanoseconds these took.
    noted: Option<Box<(Notes, u64)>>,
}

impl ScanMeter {
    pub(crate) fn begin(metrics: &Arc<Metrics>, tree: &Arc<TreeInner>) -> ScanMeter {
        let began_ns = metrics.count(Operation::Scan).then(|| metrics.clock.monotonic_ns());
        ScanMeter { metrics: Arc::clone(metrics), tree: Arc::clone(tree), began_ns, noted: None }
    }

    /// Does `work`, a part of the scan.
    pub(crate) fn measured<T>(&mut self, work: impl FnOnce() -> T) -> T {
        notes::begin();
        let done = work();
        if notes::are_there() {
            self.note();
        }
        done
    }

    /// A step of the scan ends that has left notes.
    #[cold]
    pub(crate) fn note(&mut self) {
        let new = notes::take();
        let took = self.metrics.clock.monotonic_ns().saturating_sub(new.began_ns);
        let (sum, sum_took) = &mut **self.noted.get_or_insert_default();
        sum.add(&new);
        *sum_took += took;
    }

    /// The first entry was looked for.
    pub(crate) fn has_begun(&mut self) {
        if let Some(began) = self.began_ns.take() {
            let took = self.metrics.clock.monotonic_ns().saturating_sub(began);
            self.metrics.add_latency(Operation::Scan, took);
        }
    }
}

impl Drop for ScanMeter {
    fn drop(&mut self) {
        if let Some(noted) = &self.noted {
            let subject = || Subject::of(&self.tree.name, &[]);
            self.metrics.add(Operation::Scan, noted.1, &noted.0, subject);
        }
    }
}
