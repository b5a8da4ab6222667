//! `ql`: runs statements on the store's tables.

use crate::args::{Global, Ql};
use crate::exit::Outcome;
use crate::{ql, store};

pub(crate) fn run(global: &Global, args: &Ql) -> Outcome {
    let tables = store::tables(global)?;
    let done = ql::run(tables.clone(), args);
    let closed = tables.db().clone().close();
    done?;
    Ok(closed?)
}
