//! EskerQL: the query language of Esker's tables, in the manner of Hypertable's HQL.
//!
//! ```text
//! text --statements--> Statement --Display--> text again
//! ```
//! [`statements`] reads a text statement by statement. Errors tell their place in it. `docs/eskerql.md` describes the language.

mod error;
mod lex;
mod parse;
mod print;
mod statement;

pub use error::{Error, Place, Result};
pub use lex::STATEMENT_LEN_MAX;
pub use parse::{ELEMENTS_MAX, Statements, statements};
pub use print::KEYWORDS;
pub use statement::*;
