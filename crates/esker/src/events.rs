//! The events that a store sends to the crate `tracing`, if it is built with the feature of that name: its opening and
//! what it recovered, flushes, merges, stalls, a full disk, damage.
//!
//! Without the feature, an event compiles to nothing: its fields are checked by the compiler but not evaluated, and
//! [`Began`] has no bytes. An event is sent on the thread on which it happens, which may hold locks of the store.

use crate::env::Clock;

/// Sends an event: its level (as `tracing` names it), its name, and its fields, which are numbers, truth values or
/// texts.
#[cfg(feature = "tracing")]
macro_rules! event {
    ($level:ident, $name:literal, { $($field:ident: $value:expr),* $(,)? }) => {
        ::tracing::event!(target: "esker", ::tracing::Level::$level, $($field = $value,)* $name)
    };
}

#[cfg(not(feature = "tracing"))]
macro_rules! event {
    ($level:ident, $name:literal, { $($field:ident: $value:expr),* $(,)? }) => {
        if false {
            $(let _ = $value;)*
        }
    };
}

pub(crate) use event;

/// The beginning of work whose event reports how long it took.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Began {
    /// By the monotonic clock, in microseconds.
    #[cfg(feature = "tracing")]
    at_us: u64,
}

impl Began {
    #[inline]
    pub(crate) fn now(_clock: &dyn Clock) -> Began {
        Began {
            #[cfg(feature = "tracing")]
            at_us: _clock.monotonic_us(),
        }
    }

    /// How long ago that was, in microseconds. Only events call it.
    #[inline]
    pub(crate) fn took_us(self, _clock: &dyn Clock) -> u64 {
        #[cfg(feature = "tracing")]
        return _clock.monotonic_us().saturating_sub(self.at_us);
        #[cfg(not(feature = "tracing"))]
        0
    }
}

#[cfg(not(feature = "tracing"))]
const _: () = assert!(size_of::<Began>() == 0);
