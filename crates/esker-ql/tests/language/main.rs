//! Texts, what the parser makes of them, and what the tables answer: scripts, random statements and queries, damage.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test that cannot go on should stop; tests read scripts, and take a seed from the clock"
)]

mod documents;
mod queries;
mod random;
mod reads;
mod scripts;
mod server;

/// What a text gives: each statement printed, or the error.
fn outcome(text: &[u8]) -> String {
    let lines = esker_ql::statements(text).map(|statement| match statement {
        Ok(located) => format!("{}\n", located.statement),
        Err(error) => format!("{error}\n"),
    });
    lines.collect()
}
