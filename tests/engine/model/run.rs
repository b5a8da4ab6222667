//! Cases: a seed, a history, a session; and on failure a shorter history that fails too.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::common::{cases, seed};
use crate::generate::Generator;
use crate::ops::Op;
use crate::session::{Check, Difference, Session, Setting};

/// Operations of one case.
const CASE_LEN: usize = 5_000;

/// Operations that a shrinker may spend.
const SHRINK_OPS_MAX: usize = 400_000;

/// Runs `f` and makes a panic a difference.
fn caught<T>(f: impl FnOnce() -> Check<T>) -> Check<T> {
    catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(Difference(format!("panic: {}", text.unwrap_or_default())))
    })
}

/// Runs a history; an error says at which operation.
fn run(setting: Setting, seed: u64, history: &[Op]) -> Result<(), (usize, Difference)> {
    let mut session = caught(|| Session::new(setting, seed)).map_err(|difference| (0, difference))?;
    for (index, op) in history.iter().enumerate() {
        if let Err(difference) = caught(|| session.apply(op)) {
            // A store that panicked is not asked to close in good order.
            std::mem::forget(session);
            return Err((index, difference));
        }
    }
    caught(|| session.finish()).map_err(|difference| (history.len(), difference))
}

/// What two failures of the same cause have in common: the message without its numbers.
fn cause(difference: &Difference) -> String {
    difference.0.lines().next().unwrap_or_default().chars().filter(|c| !c.is_ascii_digit()).take(80).collect()
}

/// Leaves out whatever can be left out while the rest still fails for the same cause.
fn shrink(setting: Setting, seed: u64, mut history: Vec<Op>, same: &str) -> Vec<Op> {
    let mut spent = 0;
    let mut chunk = history.len() / 2;
    while chunk > 0 && spent < SHRINK_OPS_MAX {
        let mut begin = 0;
        while begin < history.len() && spent < SHRINK_OPS_MAX {
            let end = (begin + chunk).min(history.len());
            let shorter: Vec<Op> = history[..begin].iter().chain(&history[end..]).cloned().collect();
            spent += shorter.len();
            match run(setting, seed, &shorter) {
                Err((at, difference)) if cause(&difference) == same => {
                    history = shorter[..shorter.len().min(at + 1)].to_vec();
                }
                _ => begin = end,
            }
        }
        chunk /= 2;
    }
    history
}

/// Runs cases until `ops` operations are done (scaled by `ESKER_CASES`, which is for all settings
/// together in units of `whole`).
pub(crate) fn run_cases(name: &str, setting: Setting, ops: u64, whole: u64) {
    let ops = cases(whole).saturating_mul(ops).div_ceil(whole);
    let first = seed(0x0e5c_0000);
    for case in 0..ops.div_ceil(CASE_LEN as u64) {
        let seed = first + case;
        let len = CASE_LEN.min((ops - case * CASE_LEN as u64) as usize);
        let mut history = Generator::new(seed).history(len);
        let Err((at, difference)) = run(setting, seed, &history) else { continue };
        let what = &difference.0;
        eprintln!("{name}, seed {seed}, operation {at}: {what}");
        eprintln!("repeat with: ESKER_SEED={seed} cargo test -p engine-tests --test model {name}");
        history.truncate(at + 1);
        let shorter = shrink(setting, seed, history, &cause(&difference));
        let what = run(setting, seed, &shorter).err().map(|(_, Difference(what))| what);
        for op in &shorter {
            eprintln!("  {op:?}");
        }
        panic!("{name}, seed {seed}: {}", what.unwrap_or_else(|| "fails now and then".to_owned()));
    }
}
