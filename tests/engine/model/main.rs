//! The whole store against a model: random operations, all of them, under tiny and default budgets, with
//! stepped and with real background work. See `ops.rs` for what is done, `apply.rs` for what must hold.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests stand outside test functions")]

use engine_tests as common;

mod apply;
mod bugs;
mod care;
mod checkpoint;
mod compaction_rules;
mod concurrent;
mod cursors;
mod generate;
mod huge;
mod metamorphic;
mod model;
mod ops;
mod run;
mod session;
mod stress;
mod values;
mod versions;
mod whole;

use run::run_cases;
use session::Setting;

/// Operations of all the tests below together, by default.
const OPS: u64 = 1_000_000;

#[test]
fn tiny_budgets_stepped() {
    run_cases("tiny_budgets_stepped", Setting { tiny: true, threads: false, real: false }, 700_000, OPS);
}

#[test]
fn tiny_budgets_threads() {
    run_cases("tiny_budgets_threads", Setting { tiny: true, threads: true, real: false }, 150_000, OPS);
}

#[test]
fn default_budgets() {
    run_cases("default_budgets", Setting { tiny: false, threads: false, real: false }, 100_000, OPS);
}

#[test]
fn real_files() {
    run_cases("real_files", Setting { tiny: true, threads: true, real: true }, 50_000, OPS);
}
