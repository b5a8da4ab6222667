//! Redis' protocol and commands, apart from sockets, disks, clocks and chance.
//!
//! ```text
//! bytes of a client --resp::Parser--> arguments --evaluate--> Writes (one batch) and a Reply --> bytes
//!                                         reads |
//!                                     Base: a state of the store
//! ```
//! [`evaluate`] depends on nothing but its arguments: the state that it reads, the command, and a [`Stamp`] with the time
//! and a seed. So replicas can apply what it has written, tests can repeat it, and a server may evaluate a
//! command twice: once with what is in memory, and again on another thread if a file has to be read.
//!
//! Commands that are about a connection or the server (`HELLO`, `SUBSCRIBE`, `MULTI`, ...) are in the [`spec`] table too,
//! but a server does them itself.
//!
//! The data model is described at [`model`].

pub mod acl;
pub mod commands;
pub mod glob;
#[cfg(any(test, feature = "testing"))]
pub mod memory;
pub mod model;
pub mod numbers;
pub mod resp;
pub mod session;
pub mod writes;

mod context;
mod cursors;
mod entry;
mod fault;

pub use commands::{Family, Flags, Keys, Spec, evaluate, spec, specs};
pub use context::{Class, Context, Event, Lookups, Stamp, Wants, mixed};
pub use cursors::{Cursors, Keeper};
pub use fault::{Fault, ReadError};
pub use resp::reply::{Part, Reply};
pub use session::{
    Base, Bounds, EMPTY_KEY, Entry, Huge, Lending, Long, Session, Slot, Space, UseValue, Value, Visit,
    in_order, placed, walk_over,
};
pub use writes::{Op, Writes};
