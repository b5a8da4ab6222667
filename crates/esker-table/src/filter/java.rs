//! Java's regular expressions (`java.util.regex.Pattern`), as HBase's filters have them, written anew for an engine that takes linear
//! time.
//!
//! ```text
//! pattern ──> characters, of which some are quoted (`\Q..\E`) ──> Node ──> pattern of the crate `regex`
//! ```
//! What is taken has a match exactly where Java finds one. Only whether there is a match counts, not where it is: so a lazy quantifier
//! is a greedy one, and an `$`, which Java lets match before a last line end, may take that line end if nothing else has to follow.
//! Expressions without an equal in linear time are refused with the reason. `docs/tables.md` lists both, and what differs.

mod class;
mod node;
mod parse;

use node::Around;
use parse::Parser;

/// The pattern of the crate `regex` that has a match where Java finds one of `pattern`. `.` matches line ends too.
///
/// # Errors
/// Why there is none.
pub(super) fn translated(pattern: &str, ignores_case: bool) -> Result<String, String> {
    let node = Parser::new(pattern, ignores_case).expression()?;
    let mut written = String::new();
    node.write(Around { is_first: true, is_last: true, has_more: false }, &mut written)?;
    Ok(written)
}
