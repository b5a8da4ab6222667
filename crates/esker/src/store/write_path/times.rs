//! Gives operands the time at which they are written, where values of their tree expire ([`crate::state::operand_times`]).

use super::{Waits, WritePath};
use crate::error::{Error, ErrorKind, Result};
use crate::write::batch::{Batch, TreePart};

/// A batch as it is written: with times in its operands, where these need some.
pub(super) struct Timed<'a> {
    given: &'a Batch,
    /// `None` if the batch is written as it was given.
    timed: Option<Box<WithTimes>>,
}

struct WithTimes {
    /// One for each part of the batch.
    times: Vec<Option<u64>>,
    batch: Batch,
}

impl Timed<'_> {
    pub(super) fn batch(&self) -> &Batch {
        self.timed.as_ref().map_or(self.given, |timed| &timed.batch)
    }

    /// Whether the times, or their absence, are still right. Called under the commit lock.
    #[inline]
    pub(super) fn is_right(&self) -> bool {
        if !self.given.may_need_times() {
            return true;
        }
        let times = self.timed.as_ref().map_or(&[][..], |timed| &timed.times);
        let time_of = |place: usize| times.get(place).copied().flatten();
        let mut parts = self.given.parts().iter().enumerate().filter(|(_, part)| part.merges);
        parts.all(|(place, part)| part.tree.operand_times.admit(time_of(place)))
    }
}

impl WritePath {
    /// Gives the operands of `batch` times, where they need some.
    #[inline]
    pub(super) fn timed<'a>(&self, batch: &'a Batch, waits: Waits) -> Result<Timed<'a>> {
        if !batch.may_need_times() {
            return Ok(Timed { given: batch, timed: None });
        }
        self.timed_if_wanted(batch, waits)
    }

    #[inline(never)]
    fn timed_if_wanted<'a>(&self, batch: &'a Batch, waits: Waits) -> Result<Timed<'a>> {
        batch.parts().iter().filter(|part| part.expires).for_each(|part| part.tree.operand_times.want());
        let needs_one = |part: &TreePart| part.merges && part.tree.operand_times.are_wanted();
        if !batch.parts().iter().any(needs_one) {
            return Ok(Timed { given: batch, timed: None });
        }
        let mut times = Vec::with_capacity(batch.parts().len());
        for part in batch.parts() {
            if !needs_one(part) {
                times.push(None);
                continue;
            }
            if !part.tree.operand_times.are_noted() {
                if waits == Waits::No {
                    let message = "the manifest has to note first that operands of the tree have times: write the batch \
                                   by a call that may wait";
                    return Err(Error::new(ErrorKind::NeedsIo, message));
                }
                self.installer.note_operand_times(&part.tree)?;
            }
            let now_us = part.operand_time_us(|| self.core.clock.now_us());
            times.push(Some(now_us.max(part.tree.operand_times.dropped_by())));
        }
        let timed = WithTimes { batch: batch.timed(&times)?, times };
        Ok(Timed { given: batch, timed: Some(Box::new(timed)) })
    }
}
