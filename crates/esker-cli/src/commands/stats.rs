//! `esker stats`: prints figures about the store, aligned, as one JSON object or for Prometheus, and why operations
//! were slow.

mod figures;
mod watch;

use crate::args::{Global, Stats as Args};
use crate::exit::Outcome;
use crate::store::read_only;
use figures::print;

pub(crate) fn run(global: &Global, args: &Args) -> Outcome {
    match args.watch {
        None => print(global, args, &read_only(global)?),
        Some(interval) => watch::watch(global, args, interval),
    }
}
