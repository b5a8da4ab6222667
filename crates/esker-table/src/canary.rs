//! Deliberate breaks of which cells count, and of the query cache. They prove that the tests notice (`scripts/canaries`).
//!
//! Without `--cfg esker_canary`, every call here is `false` at compile time. With it, the environment variable
//! `ESKER_CANARY` names the one rule that this process breaks.

/// Whether to break `rule`.
#[cfg(not(esker_canary))]
#[inline(always)]
pub(crate) const fn broken(_rule: &str) -> bool {
    false
}

/// Whether to break `rule`.
#[cfg(esker_canary)]
pub(crate) fn broken(rule: &str) -> bool {
    static CHOSEN: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    CHOSEN.get_or_init(|| std::env::var("ESKER_CANARY").ok()).as_deref() == Some(rule)
}
