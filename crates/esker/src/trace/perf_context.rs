//! The waits and reads of the operation under way on this thread. Written in places that are rarely executed.

use std::cell::{Cell, RefCell};

use super::recording::{Step, Trace};
use super::{CAUSES, Cause};
use crate::env::Clock;
use crate::events::event;

/// The cost of one cause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Amount {
    pub(crate) count: u64,
    /// Where the time was measured.
    pub(crate) ns: u64,
    pub(crate) bytes: u64,
}

/// The notes of an operation.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Notes {
    /// When the operation began, if it is timed, or else when the first noted wait or read began; by the monotonic
    /// clock.
    pub(crate) began_ns: u64,
    pub(crate) timed: bool,
    pub(crate) spent: [Amount; CAUSES],
}

impl Notes {
    const NONE: Notes =
        Notes { began_ns: 0, timed: false, spent: [Amount { count: 0, ns: 0, bytes: 0 }; CAUSES] };

    pub(crate) fn add(&mut self, other: &Notes) {
        for (sum, amount) in self.spent.iter_mut().zip(&other.spent) {
            sum.count += amount.count;
            sum.ns += amount.ns;
            sum.bytes += amount.bytes;
        }
    }
}

thread_local! {
    /// Whether `NOTES` are of the operation under way.
    static KNOWN: Cell<bool> = const { Cell::new(false) };
    static NOTES: RefCell<Notes> = const { RefCell::new(Notes::NONE) };
    /// Whether a recorder records every step.
    static RECORDED: Cell<bool> = const { Cell::new(false) };
    static RECORDING: RefCell<Option<Box<Trace>>> = const { RefCell::new(None) };
}

/// An operation begins: earlier notes are not its own.
#[inline]
pub(crate) fn begin() {
    KNOWN.set(false);
}

/// Whether the operation has notes at its end.
#[inline]
pub(crate) fn are_there() -> bool {
    KNOWN.get()
}

/// Something begins that will be noted.
#[cold]
pub(crate) fn expect(clock: &dyn Clock) {
    if !KNOWN.get() {
        begin_notes(clock, false);
    }
}

/// Begins notes, because something will be noted or the operation is timed.
#[cold]
pub(super) fn begin_notes(clock: &dyn Clock, timed: bool) {
    KNOWN.set(true);
    let began_ns = clock.monotonic_ns();
    NOTES.with_borrow_mut(|notes| *notes = Notes { began_ns, timed, ..Notes::NONE });
}

/// Notes one thing that was expected.
#[cold]
pub(crate) fn note(cause: Cause, ns: u64, bytes: u64) {
    NOTES.with_borrow_mut(|notes| {
        let amount = &mut notes.spent[cause as usize];
        amount.count += 1;
        amount.ns += ns;
        amount.bytes += bytes;
    });
}

/// Does `work`, which waits for `cause`, and notes how long.
#[cold]
pub(crate) fn waiting<T>(clock: &dyn Clock, cause: Cause, work: impl FnOnce() -> T) -> T {
    expect(clock);
    let began = clock.monotonic_ns();
    let done = work();
    let ns = clock.monotonic_ns().saturating_sub(began);
    note(cause, ns, 0);
    if matches!(cause, Cause::Throttled | Cause::Memtables | Cause::Space | Cause::Segment) {
        event!(DEBUG, "stalled", { cause: cause.name(), took_us: ns / 1000 });
    }
    step(|| Step::Wait { cause, us: ns / 1000 });
    done
}

/// The notes of the operation that ends. It must have notes.
#[cold]
pub(crate) fn take() -> Notes {
    KNOWN.set(false);
    NOTES.with_borrow(|notes| *notes)
}

/// A step was taken.
#[inline]
pub(crate) fn step(step: impl FnOnce() -> Step) {
    if RECORDED.get() {
        record(step());
    }
}

#[cold]
fn record(step: Step) {
    RECORDING.with_borrow_mut(|recording| {
        if let Some(trace) = recording {
            trace.add(step);
        }
    });
}

/// Records until it is dropped. One within another takes over meanwhile.
pub(crate) struct Recorder {
    outer: Option<Box<Trace>>,
}

impl Recorder {
    pub(crate) fn begin() -> Recorder {
        RECORDED.set(true);
        Recorder { outer: RECORDING.replace(Some(Box::default())) }
    }

    pub(crate) fn end(self) -> Trace {
        RECORDING.take().map_or_else(Trace::default, |trace| *trace)
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        RECORDED.set(self.outer.is_some());
        RECORDING.set(self.outer.take());
    }
}
