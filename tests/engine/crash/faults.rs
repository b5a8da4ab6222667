//! Calls that fail: every n-th call of every kind, with EIO, ENOSPC and EMFILE, and a full disk. A call may fail or succeed then; what
//! the store holds after it is opened again keeps its promises all the same.

use esker::ErrorKind;
use esker::fs::sim::{Fault, FaultError, Op};

use crate::common;
use crate::life::{Life, Outcome};

const KINDS: [Op; 14] = [
    Op::Append,
    Op::Store,
    Op::Sync,
    Op::SyncDir,
    Op::Create,
    Op::CreateMapped,
    Op::Allocate,
    Op::Rename,
    Op::Remove,
    Op::Link,
    Op::Read,
    Op::WriteAt,
    Op::SetLen,
    Op::Punch,
];

/// ESKER_FAULT narrows a run to one kind, by name.
fn chosen(kind: Op) -> bool {
    std::env::var("ESKER_FAULT").map_or(true, |name| name == format!("{kind:?}"))
}

/// What a call of this kind may fail with, by turns.
fn error_of(kind: Op, turn: u64) -> FaultError {
    let opens = matches!(kind, Op::Read | Op::Create | Op::CreateMapped);
    match turn % 3 {
        0 => FaultError::Io,
        1 if opens => FaultError::OutOfResources,
        _ => FaultError::NoSpace,
    }
}

/// One life in which the `n`-th call of a kind fails; `false` when there were not so many.
fn live_with(seed: u64, kind: Op, fault: Fault) -> Outcome<bool> {
    let mut life = Life::new(seed);
    if kind == Op::Sync {
        // A huge value that a failed sync has cost is named when it is read: `rules` looks at that.
        life.knobs.separate_at = usize::MAX;
    }
    life.recover(&mut true)?;
    life.faulty = true;
    life.disk.inject(fault);
    life.work(None)?;
    life.disk.clear_faults();
    let hit = life.disk.faults_hit() > 0;
    life.perish_and_recover()?;
    // The store takes writes again.
    life.faulty = false;
    life.disk.set_crash_after(None);
    life.write(1)?;
    life.sync()?;
    life.perish_and_recover()?;
    Ok(hit)
}

#[test]
fn a_call_that_fails_costs_nothing_that_was_promised() {
    let mut lives = 0;
    let nth = common::variable("ESKER_NTH");
    // 31: a log segment that could not be prepared came back with the bytes of another file.
    for seed in common::seeds(8).chain([31]) {
        for kind in KINDS.into_iter().filter(|kind| chosen(*kind)) {
            // Stores are many and alike: of these one in seven will do.
            let step = if matches!(kind, Op::Store | Op::Read) { 7 } else { 1 };
            // A quick run takes every fifth, one of a seed that is named every third, and another seed other ones.
            let stride = match (nth, common::is_quick()) {
                (None, true) => 5,
                (None, false) if !common::is_full_run() => 3,
                _ => 1,
            };
            let ns = (1..400).step_by(step).skip((seed % stride) as usize).step_by(stride as usize);
            for n in ns.filter(|n| nth.is_none_or(|nth| nth == *n)) {
                let fault = Fault::new(kind, "").nth(n).error(error_of(kind, seed + n));
                lives += 1;
                match live_with(seed, kind, fault) {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(what) => panic!("{kind:?} number {n} fails, ESKER_SEED={seed}: {what}"),
                }
            }
        }
    }
    println!("{lives} lives");
}

/// An ingest finds no room and has no effect. The put behind it cannot be synced, and takes effect.
#[test]
fn a_failed_ingest_says_nothing_of_what_follows() {
    let fault = Fault::new(Op::SyncDir, "").nth(6).error(FaultError::NoSpace);
    assert_eq!(live_with(17, Op::SyncDir, fault), Ok(true));
}

#[test]
fn a_disk_that_keeps_failing_is_no_different() {
    for seed in common::seeds(60) {
        for kind in KINDS.into_iter().filter(|kind| chosen(*kind)) {
            let fault = Fault::new(kind, "").chance(0.05, seed).forever();
            if let Err(what) = live_with(seed, kind, fault.error(error_of(kind, seed))) {
                panic!("{kind:?} fails now and then, ESKER_SEED={seed}: {what}");
            }
        }
    }
}

/// The disk is full from some moment on: writes fail and say why, reads go on; once there is space again
/// and the store was opened again, everything acknowledged is there.
#[test]
fn a_full_disk_loses_nothing() {
    let mut full = 0;
    for seed in common::seeds(150) {
        let outcome = (|| -> Outcome<()> {
            let mut life = Life::new(seed);
            life.recover(&mut true)?;
            life.faulty = true;
            let used: u64 =
                life.disk.paths().iter().map(|path| life.disk.read_all(path).unwrap().len() as u64).sum();
            life.disk.set_capacity(Some(used + life.rng.below(1 << 20)));
            life.work(None)?;
            if let Some(kind) = life.failed.iter().find(|&&kind| kind != ErrorKind::OutOfSpace) {
                return Err(format!("a full disk was reported as {kind:?}"));
            }
            if life.is_open() {
                life.check_everything_acknowledged()?;
            }
            full += u64::from(!life.failed.is_empty());
            life.disk.set_capacity(None);
            life.perish_and_recover()
        })();
        if let Err(what) = outcome {
            panic!("a full disk, ESKER_SEED={seed}: {what}");
        }
    }
    assert!(full > 10 || !common::is_full_run(), "the disk was full {full} times only");
}

/// Space that comes back is seen with the next write: the store need not be opened again.
#[test]
fn a_disk_that_is_full_for_a_while_takes_writes_again() {
    let mut full = 0;
    for seed in common::seeds(100) {
        let outcome = (|| -> Outcome<()> {
            let mut life = Life::new(seed);
            life.recover(&mut true)?;
            for _ in 0..3 {
                life.faulty = true;
                let used: u64 =
                    life.disk.paths().iter().map(|path| life.disk.read_all(path).unwrap().len() as u64).sum();
                life.disk.set_capacity(Some(used + life.rng.below(1 << 20)));
                life.work(None)?;
                life.disk.set_capacity(None);
                full += u64::from(!life.failed.is_empty());
                life.failed.clear();
                if !life.is_open() {
                    break;
                }
                life.faulty = false;
                life.write(3)?;
                life.sync()?;
                life.work(None)?;
                life.check_everything_acknowledged()?;
            }
            life.perish_and_recover()
        })();
        if let Err(what) = outcome {
            panic!("a disk full for a while, ESKER_SEED={seed}: {what}");
        }
    }
    assert!(full > 10 || !common::is_full_run(), "the disk was full {full} times only");
}

/// Others have filled the disk to the last byte. Deletes, flushes and merges go on out of the reserve, the
/// store can be opened, again and again, and takes puts when there is room.
#[test]
fn a_disk_full_to_the_last_byte_is_no_trap() {
    let mut refused = 0;
    for seed in common::seeds(150) {
        let outcome = (|| -> Outcome<()> {
            let mut life = Life::new(seed);
            life.recover(&mut true)?;
            life.work(None)?;
            life.fill_disk();
            life.faulty = true;
            for _ in 0..3 {
                let after = life.rng.below(200);
                let steps = std::mem::replace(&mut life.knobs.steps, 20);
                life.work(Some(after))?;
                life.knobs.steps = steps;
                if let Some(kind) = life.failed.iter().find(|&&kind| kind != ErrorKind::OutOfSpace) {
                    return Err(format!("a full disk was reported as {kind:?}"));
                }
                refused += life.failed.drain(..).count();
                life.perish_and_recover()?;
            }
            life.faulty = false;
            life.delete_some(20)?;
            life.empty_disk();
            life.write(3)?;
            life.work(None)?;
            life.perish_and_recover()
        })();
        if let Err(what) = outcome {
            panic!("a disk full to the last byte, ESKER_SEED={seed}: {what}");
        }
    }
    assert!(refused > 10 || !common::is_full_run(), "{refused} calls were refused only");
}
