//! Writes that may have ended the life of a huge value, in the order of their sequence numbers (rule 12).
//!
//! A job is queued in the critical section that gives its write a sequence number. So when all writes up to a number
//! are visible, all their jobs are in the queue.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use crate::cursor::SeqNo;
use crate::ranges::KeyRange;
use crate::state::TreeInner;

/// A write to a key that may have held a blob, or the deletion of a range that may hold one.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) tree: Arc<TreeInner>,
    pub(crate) what: What,
    pub(crate) seq: SeqNo,
}

/// What was written.
#[derive(Debug)]
pub(crate) enum What {
    Key(Vec<u8>),
    Range(KeyRange),
}

/// See the module's comment.
#[derive(Debug, Default)]
pub(crate) struct JobQueue {
    jobs: Mutex<VecDeque<Job>>,
}

/// The right to add jobs, with memory for them: adding cannot fail.
#[derive(Debug)]
pub(crate) struct Room<'a> {
    queue: MutexGuard<'a, VecDeque<Job>>,
    jobs: Vec<Job>,
}

impl JobQueue {
    /// Reserves memory for `jobs`. Their sequence numbers are still their places in a batch.
    pub(crate) fn room(&self, jobs: &mut Vec<Job>) -> Option<Room<'_>> {
        if jobs.is_empty() {
            return None;
        }
        let mut queue = self.jobs.lock();
        queue.reserve(jobs.len());
        Some(Room { queue, jobs: std::mem::take(jobs) })
    }

    /// Adds a job that replay found.
    pub(crate) fn add(&self, job: Job) {
        self.jobs.lock().push_back(job);
    }

    /// Puts back the job that was taken last.
    pub(crate) fn give_back(&self, job: Job) {
        self.jobs.lock().push_front(job);
    }

    /// Forgets all jobs, because the store is closed.
    pub(crate) fn clear(&self) {
        self.jobs.lock().clear();
    }

    /// Whether no job is queued.
    pub(crate) fn is_empty(&self) -> bool {
        self.jobs.lock().is_empty()
    }

    /// Takes the oldest job if its write is at or before `limit`.
    pub(crate) fn take_up_to(&self, limit: SeqNo) -> Option<Job> {
        let mut queue = self.jobs.lock();
        queue.pop_front_if(|job| job.seq <= limit)
    }
}

impl Room<'_> {
    /// Adds the jobs. The batch has the sequence numbers from `first` on.
    pub(crate) fn fill(mut self, first: SeqNo) {
        for job in self.jobs.drain(..) {
            self.queue.push_back(Job { seq: first + job.seq, ..job });
        }
    }
}
