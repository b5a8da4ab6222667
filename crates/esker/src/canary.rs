//! Deliberate breaks of the durability rules and of the isolation of transactions, to prove that the tests see them.
//!
//! Without `--cfg esker_canary` every question here is answered `false` when the library is compiled. With
//! it, the environment variable `ESKER_CANARY` names the one rule that is broken in this run;
//! `scripts/canaries` goes through all of them and wants each run to fail.

/// Whether `rule` is to be broken.
#[cfg(not(esker_canary))]
#[inline(always)]
pub(crate) const fn broken(_rule: &str) -> bool {
    false
}

/// Whether `rule` is to be broken.
#[cfg(esker_canary)]
pub(crate) fn broken(rule: &str) -> bool {
    static CHOSEN: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    CHOSEN.get_or_init(|| std::env::var("ESKER_CANARY").ok()).as_deref() == Some(rule)
}
