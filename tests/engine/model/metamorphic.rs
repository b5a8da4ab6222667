//! One history under many option sets: how the store is kept must not show in any answer.
//!
//! ```text
//! history     put get scan .. quiesce put .. snapshot ..       the same for all, results noted
//! option set  sizes, filters, pools, compression, styles of merging, threads or steps; care (flush, compact, steps,
//!             checkpoints) strewn between; reopening, with other options, at some quiesce points
//! ```

use esker::Compression;

use crate::common::{Rng, cases, is_quick, seed};
use crate::generate::Generator;
use crate::ops::{Op, Reopen};
use crate::session::{Check, Difference, Session, Setting};

/// Operations of the history, at full effort.
const HISTORY_LEN: usize = 20_000;

/// Option sets, of twice as many that there are. The first is the default one.
const SETS: u64 = 50;

/// A history that says nothing of how the store is kept, and can be interrupted now and then.
fn history(seed: u64) -> Vec<Op> {
    let mut generator = Generator::new(seed);
    let len = if is_quick() { HISTORY_LEN / 4 } else { HISTORY_LEN };
    (0..len).map(|i| if i % 400 == 399 { Op::Quiesce } else { generator.data_op() }).collect()
}

/// An option set: what differs between two runs of the history.
#[derive(Debug)]
struct Variant {
    setting: Setting,
    compression: Option<Compression>,
    /// Of a thousand operations, how many are followed by one of care.
    care: usize,
    /// Of a hundred points where it is possible, at how many the store is reopened.
    reopen: u64,
}

impl Variant {
    fn draw(rng: &mut Rng, set: u64) -> Variant {
        let setting = Setting { tiny: set > 0 && rng.percent(90), threads: rng.percent(25), real: false };
        let kinds = [None, Some(Compression::None), Some(Compression::Lz4), Some(Compression::Zstd)];
        Variant {
            setting,
            compression: *rng.pick(&kinds),
            // A store that is hardly ever stepped never merges, and every scan reads hundreds of tables.
            care: if setting.threads { *rng.pick(&[0, 1, 10]) } else { *rng.pick(&[20, 40, 80]) },
            reopen: *rng.pick(&[0, 10, 50]),
        }
    }
}

fn run(history: &[Op], variant: &Variant, seed: u64) -> Check<Vec<u64>> {
    let mut rng = Rng::new(seed);
    let mut care = Generator::new(seed);
    let mut session = Session::new(variant.setting, seed)?;
    let mut results = Vec::with_capacity(history.len());
    let place = |index: usize, op: &Op, Difference(what): Difference| {
        Difference(format!("operation {index}, {op:?}: {what}"))
    };
    for (index, op) in history.iter().enumerate() {
        let mut op = op.clone();
        if let (Op::Create { compression, .. }, Some(other)) = (&mut op, variant.compression) {
            *compression = other;
        }
        results.push(session.apply(&op).map_err(|difference| place(index, &op, difference))?);
        if rng.index(1000) < variant.care {
            let op = care.care_op();
            if !matches!(op, Op::Reopen { .. }) {
                session.apply(&op).map_err(|difference| place(index, &op, difference))?;
            }
        }
        if matches!(op, Op::Quiesce) && rng.percent(variant.reopen) {
            let how = *rng.pick(&[Reopen::Close, Reopen::Drop, Reopen::Kill, Reopen::ReadOnly]);
            let op = Op::Reopen { how, seed: rng.next() };
            session.apply(&op).map_err(|difference| place(index, &op, difference))?;
        }
    }
    session.finish()?;
    Ok(results)
}

#[test]
fn one_history_under_many_option_sets() {
    let first = seed(0x3e7a);
    let history = history(first);
    let mut expected: Option<Vec<u64>> = None;
    // At least two, and in the share of the default that is asked of the whole binary.
    let sets = (cases(crate::OPS) * SETS / crate::OPS).clamp(2, 2 * SETS);
    for set in 0..sets {
        let seed = first.wrapping_mul(1_000_003).wrapping_add(set);
        let variant = Variant::draw(&mut Rng::new(seed), set);
        let results = run(&history, &variant, seed);
        let results = results.unwrap_or_else(|Difference(what)| {
            panic!("history of ESKER_SEED={first}, option set {set}, {variant:?}: {what}")
        });
        let expected = expected.get_or_insert_with(|| results.clone());
        let differs = results.iter().zip(expected.iter()).position(|(got, expected)| got != expected);
        if let Some(at) = differs {
            panic!(
                "ESKER_SEED={first}, option set {set}, {variant:?}: operation {at} {:?} differs",
                history[at]
            );
        }
    }
}
