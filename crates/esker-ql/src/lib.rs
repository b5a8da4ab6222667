//! EskerQL: the query language of Esker's tables, in the manner of Hypertable's HQL.
//!
//! ```text
//! text --statements--> Statement --Session--> Answer
//!                          └-------Display--> text again
//! ```
//! [`statements`] reads a text statement by statement. Errors tell their place in it ([`Error::in_text`]). A [`Session`] runs them on [`Tables`].
//! `docs/eskerql.md` describes the language.

mod counters;
mod deletes;
mod embedded;
mod error;
mod lex;
mod names;
mod parse;
mod plan;
mod print;
mod remote;
mod session;
mod statement;
mod tables;

pub use counters::{counter, is_ambiguous};
pub use error::{Error, Named, Place, Result};
pub use lex::STATEMENT_LEN_MAX;
pub use parse::{ELEMENTS_MAX, Statements, Time, YEAR_9999_END, milliseconds, statements, time, time_in};
pub use print::KEYWORDS;
pub use remote::Remote;
pub use session::{Answer, SchemaChange, Session};
pub use statement::*;
pub use tables::{Cells, LongCell, Tables};
