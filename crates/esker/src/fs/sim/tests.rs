//! Tests what a crash may lose and what must survive it, and that faults, full disks and damage behave as described.

use super::*;

mod random;

const DIR: &str = "/db";

fn at(name: &str) -> PathBuf {
    Path::new(DIR).join(name)
}

fn disk(seed: u64) -> SimFs {
    let disk = SimFs::new(seed);
    disk.create_dir_all(Path::new(DIR)).unwrap();
    disk.set_writeback(0.0);
    disk
}

fn put(disk: &SimFs, name: &str, bytes: &[u8]) -> Box<dyn WriteFile> {
    let mut file = disk.create(&at(name)).unwrap();
    file.append(bytes).unwrap();
    file
}

/// A file with a durable name and durable bytes.
fn put_synced(disk: &SimFs, name: &str, bytes: &[u8]) -> Box<dyn WriteFile> {
    let mut file = put(disk, name, bytes);
    file.sync().unwrap();
    disk.sync_dir(Path::new(DIR)).unwrap();
    file
}

fn names(disk: &SimFs) -> Vec<String> {
    disk.list(Path::new(DIR)).unwrap()
}

#[test]
fn what_was_synced_is_never_lost() {
    for seed in 0..200 {
        let disk = disk(seed);
        disk.set_writeback(0.3);
        let bytes = vec![seed as u8 | 1; 5000];
        let mut file = put_synced(&disk, "a", &bytes);
        file.append(&[9; 3000]).unwrap();
        let segment = disk.create_mapped(&at("wal"), 8192).unwrap();
        disk.sync_dir(Path::new(DIR)).unwrap();
        segment.store(100, &[5; 4000]).unwrap();
        segment.sync().unwrap();
        segment.store(5000, &[6; 3000]).unwrap();

        let after = disk.crash(seed);
        assert_eq!(after.read_all(at("a")).unwrap()[..5000], bytes);
        let wal = after.read_all(at("wal")).unwrap();
        assert_eq!(wal.len(), 8192);
        assert_eq!(wal[100..4100], [5; 4000]);
        assert_eq!(after.crash_keeping(0.0, seed).paths(), after.paths(), "a found disk is all synced");
        assert_ne!(after.boot_id(), disk.boot_id());
    }
}

#[test]
fn canary_an_unsynced_name_is_lost() {
    let disk = disk(1);
    put(&disk, "a", b"bytes are synced, the directory is not").sync().unwrap();
    assert!(names(&disk.crash_keeping(0.0, 1)).is_empty());
    assert_eq!(names(&disk.crash_keeping(1.0, 1)), ["a"]);
    let kept = (0..100).filter(|&seed| !names(&disk.crash(seed)).is_empty()).count();
    assert!((20..80).contains(&kept), "{kept} of 100 crashes kept the name");
}

#[test]
fn canary_unsynced_bytes_are_lost() {
    let disk = disk(1);
    put(&disk, "a", &[7; 2000]);
    disk.sync_dir(Path::new(DIR)).unwrap();
    assert_eq!(disk.crash_keeping(0.0, 1).read_all(at("a")).unwrap(), b"");
    assert_eq!(disk.crash_keeping(1.0, 1).read_all(at("a")).unwrap(), [7; 2000]);
    assert_eq!(disk.kill().read_all(at("a")).unwrap(), [7; 2000]);
    assert_eq!(disk.kill().crash_keeping(0.0, 1).read_all(at("a")).unwrap(), b"");
}

#[test]
fn a_crash_tears_at_sectors() {
    let disk = disk(1);
    let segment = disk.create_mapped(&at("wal"), 64 << 10).unwrap();
    segment.store(0, &[1; 64 << 10]).unwrap();
    segment.sync().unwrap();
    disk.sync_dir(Path::new(DIR)).unwrap();
    segment.store(1000, &[2; 30_000]).unwrap();
    let (mut torn, mut whole) = (0, 0);
    for seed in 0..100 {
        let bytes = disk.crash(seed).read_all(at("wal")).unwrap();
        for (i, sector) in bytes.chunks(512).enumerate() {
            let written = |at: usize| (1000..31_000).contains(&at);
            let new: Vec<u8> = (i * 512..(i + 1) * 512).map(|at| 1 + u8::from(written(at))).collect();
            assert!(sector == [1; 512] || sector == new, "sector {i} is neither old nor new");
        }
        let new = bytes.iter().filter(|&&b| b == 2).count();
        whole += usize::from(new == 0 || new == 30_000);
        torn += usize::from(new != 0 && new != 30_000);
    }
    assert!(torn > 20 && whole > 20, "{torn} torn, {whole} whole");
}

#[test]
fn a_length_is_torn_at_sectors_and_gaps_read_as_zeros() {
    let disk = disk(1);
    let mut file = put_synced(&disk, "a", &[1; 700]);
    file.append(&[2; 5000]).unwrap();
    let mut lengths = std::collections::BTreeSet::new();
    let mut gaps = 0;
    for seed in 0..300 {
        let bytes = disk.crash(seed).read_all(at("a")).unwrap();
        assert!(matches!(bytes.len(), 700 | 5700) || bytes.len().is_multiple_of(512) && bytes.len() < 5700);
        assert_eq!(bytes[..700], [1; 700]);
        assert!(bytes[700..].iter().all(|&b| b == 0 || b == 2));
        gaps += usize::from(bytes[700..].contains(&0));
        lengths.insert(bytes.len());
    }
    assert!(lengths.contains(&700) && lengths.contains(&5700) && lengths.len() > 6, "{lengths:?}");
    assert!(gaps > 50);
}

#[test]
fn writeback_can_persist_a_version_in_between() {
    let disk = disk(1);
    let segment = disk.create_mapped(&at("wal"), 4096).unwrap();
    disk.sync_dir(Path::new(DIR)).unwrap();
    disk.set_writeback(0.5);
    for version in 1..50 {
        segment.store(0, &[version]).unwrap();
    }
    let found: std::collections::BTreeSet<u8> = (0..200)
        .map(|seed| {
            segment.store(0, &[seed]).unwrap();
            disk.crash_keeping(0.0, 1).read_all(at("wal")).unwrap()[0]
        })
        .collect();
    assert!(found.len() > 10, "{found:?}");
}

#[test]
fn a_rename_is_atomic() {
    let disk = disk(1);
    put_synced(&disk, "CURRENT", b"old");
    put_synced(&disk, "tmp", b"new");
    let _stays_its_own = disk.open_read(&at("CURRENT")).unwrap();
    disk.rename(&at("tmp"), &at("CURRENT")).unwrap();
    let mut seen = [0; 2];
    for seed in 0..100 {
        let after = disk.crash(seed);
        match (&after.read_all(at("CURRENT")).unwrap()[..], names(&after).len()) {
            (b"old", 2) => seen[0] += 1,
            (b"new", 1) => seen[1] += 1,
            other => panic!("neither before nor after: {other:?}"),
        }
    }
    assert!(seen[0] > 20 && seen[1] > 20, "{seen:?}");
    disk.sync_dir(Path::new(DIR)).unwrap();
    assert_eq!(disk.crash_keeping(0.0, 1).read_all(at("CURRENT")).unwrap(), b"new");
}

/// As on a file system that reuses blocks before the removal of their file is durable.
#[test]
fn canary_a_file_that_is_gone_comes_back_with_bytes_of_another() {
    let disk = disk(1);
    put_synced(&disk, "old", b"old");
    let second = at("second");
    let has_changed = |disk: &SimFs| {
        (0..50).any(|seed| disk.crash_keeping(0.0, seed).read_all(at("old")).unwrap() != b"old")
    };
    // A second name keeps the file; a handle does so while the process lives.
    let named = disk.fork();
    named.hard_link(&at("old"), &second).unwrap();
    named.remove_file(&at("old")).unwrap();
    assert!(!has_changed(&named) && !has_changed(&named.kill()));
    let held = disk.fork();
    let file = held.open_read(&at("old")).unwrap();
    held.remove_file(&at("old")).unwrap();
    assert!(!has_changed(&held) && has_changed(&held.kill()));
    drop(file);
    assert!(has_changed(&held));
    put_synced(&disk, "new", b"new");
    disk.rename(&at("new"), &at("old")).unwrap();
    assert!((0..50).any(|seed| !matches!(
        &disk.crash_keeping(0.5, seed).read_all(at("old")).unwrap()[..],
        b"old" | b"new"
    )));
}

#[test]
fn changes_of_one_name_stay_in_order() {
    let disk = disk(1);
    put_synced(&disk, "a", b"1");
    put_synced(&disk, "other", b"x");
    let _stays_its_own = disk.open_read(&at("a")).unwrap();
    disk.remove_file(&at("a")).unwrap();
    put(&disk, "a", b"2").sync().unwrap();
    disk.rename(&at("a"), &at("b")).unwrap();
    disk.remove_file(&at("other")).unwrap();
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..300 {
        let after = disk.crash(seed);
        let a = after.read_all(at("a")).ok();
        let b = after.read_all(at("b")).ok();
        let state = match (a.as_deref(), b.as_deref()) {
            (Some(b"1"), None) => 0,
            (None, None) => 1,
            (Some(b"2"), None) => 2,
            (None, Some(b"2")) => 3,
            other => panic!("not a prefix of the changes: {other:?}"),
        };
        seen.insert((state, after.exists(&at("other")).unwrap()));
    }
    assert!(seen.len() >= 7, "{seen:?}");
}

#[test]
fn a_synced_directory_brings_in_the_other_side_of_a_rename() {
    let disk = disk(1);
    disk.create_dir_all(Path::new("/db/sub")).unwrap();
    put(&disk, "a", b"moved").sync().unwrap();
    disk.rename(&at("a"), &at("sub/a")).unwrap();
    put(&disk, "unrelated", b"").sync().unwrap();
    disk.sync_dir(&at("sub")).unwrap();
    assert_eq!(disk.crash_keeping(0.0, 1).paths(), [at("sub/a")]);
}

#[test]
fn hard_links_share_bytes() {
    let disk = disk(1);
    let mut file = put_synced(&disk, "a", b"1");
    disk.hard_link(&at("a"), &at("b")).unwrap();
    disk.sync_dir(Path::new(DIR)).unwrap();
    file.append(b"2").unwrap();
    file.sync().unwrap();
    disk.remove_file(&at("a")).unwrap();
    disk.sync_dir(Path::new(DIR)).unwrap();
    let after = disk.crash_keeping(0.0, 1);
    assert_eq!((after.paths(), after.read_all(at("b")).unwrap()), (vec![at("b")], b"12".to_vec()));
    after.flip_byte(at("b"), 0, 1).unwrap();
    assert_eq!(after.crash_keeping(0.0, 1).read_all(at("b")).unwrap(), b"02");
    assert_eq!(disk.read_all(at("b")).unwrap(), b"12", "the found disk is another disk");
}

#[test]
fn power_fails_at_the_chosen_call() {
    let run = |disk: &SimFs| -> Result<()> {
        let segment = disk.create_mapped(&at("wal"), 4096)?;
        disk.sync_dir(Path::new(DIR))?;
        for i in 0..4 {
            segment.store(i * 8, &[1; 8])?;
        }
        segment.sync()
    };
    let total = {
        let disk = disk(1);
        let before = disk.operations();
        run(&disk).unwrap();
        assert_eq!(disk.operations() - before, 8);
        disk.operations()
    };
    for n in 0..=total {
        let disk = disk(1);
        disk.set_crash_after(Some(n));
        let ran = run(&disk);
        assert_eq!((ran.is_err(), disk.is_dead()), (n < total, n < total), "{n}");
        assert!(ran.is_ok() || ran.unwrap_err().to_string().contains("simulated power loss"));
        let after = disk.crash_keeping(1.0, n);
        assert!(!after.is_dead() && after.operations() == 0);
        let stored = after.read_all(at("wal")).unwrap_or_default().iter().filter(|&&b| b == 1).count() as u64;
        assert_eq!(stored, n.saturating_sub(4).min(4) * 8, "{n}: what came after the end must not be there");
    }
}

#[test]
fn canary_a_repeated_sync_does_not_bring_lost_bytes_back() {
    let disk = disk(1);
    let segment = disk.create_mapped(&at("wal"), 4096).unwrap();
    disk.sync_dir(Path::new(DIR)).unwrap();
    segment.store(0, b"lost").unwrap();
    disk.inject(Fault::new(Op::Sync, "wal"));
    assert_eq!(segment.sync().unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(disk.faults_hit(), 1);
    segment.store(1024, b"kept").unwrap();
    segment.sync().unwrap();
    assert_eq!(disk.read_all(at("wal")).unwrap()[..4], *b"lost", "the page cache still has it");
    let after = disk.crash_keeping(1.0, 1).read_all(at("wal")).unwrap();
    assert_eq!((&after[..4], &after[1024..1028]), (&[0; 4][..], &b"kept"[..]));
    segment.store(0, b"anew").unwrap();
    segment.sync().unwrap();
    assert_eq!(disk.crash_keeping(0.0, 1).read_all(at("wal")).unwrap()[..4], *b"anew");
}

#[test]
fn faults_hit_the_calls_they_name() {
    let disk = disk(1);
    let mut file = put(&disk, "x.table", b"");
    let mut other = put(&disk, "y.log", b"");
    disk.inject(Fault::new(Op::Append, ".table").nth(2).error(FaultError::NoSpace));
    file.append(b"1").unwrap();
    other.append(b"1").unwrap();
    assert_eq!(file.append(b"2").unwrap_err().kind(), ErrorKind::OutOfSpace);
    file.append(b"3").unwrap();
    assert_eq!(disk.read_all(at("x.table")).unwrap(), b"13", "a failed append leaves nothing");

    disk.inject(Fault::new(Op::Read, "").nth(2).forever());
    assert!(disk.read(&at("x.table")).is_err() && disk.open_read(&at("x.table")).is_err());
    disk.clear_faults();
    assert!(disk.open_read(&at("x.table")).is_ok());

    disk.inject(Fault::new(Op::Sync, "wal"));
    assert_eq!(disk.create_mapped(&at("wal"), 4096).unwrap_err().kind(), ErrorKind::Io);
    assert!(!disk.exists(&at("wal")).unwrap(), "a failed creation leaves nothing");

    disk.inject(Fault::new(Op::Append, "").chance(0.5, 3).forever());
    let failed = (0..100).filter(|_| other.append(b"z").is_err()).count();
    assert!((25..75).contains(&failed), "{failed}");
}

#[test]
fn a_full_disk_says_so_and_recovers() {
    let disk = disk(1);
    disk.set_capacity(Some(10_000));
    let mut file = put_synced(&disk, "a", &[1; 4000]);
    assert_eq!(disk.free_space(Path::new(DIR)).unwrap(), 10_000 - 4096);
    assert_eq!(disk.create_mapped(&at("wal"), 8192).unwrap_err().kind(), ErrorKind::OutOfSpace);
    assert_eq!(names(&disk), ["a"]);
    drop(disk.create_mapped(&at("wal"), 4096).unwrap());
    assert_eq!(file.append(&[2; 2000]).unwrap_err().kind(), ErrorKind::OutOfSpace);
    assert_eq!(file.len(), 4000);
    disk.remove_file(&at("wal")).unwrap();
    file.append(&[2; 2000]).unwrap();
    disk.remove_file(&at("a")).unwrap();
    assert_eq!(disk.free_space(Path::new(DIR)).unwrap(), 10_000 - 8192, "an open file still takes space");
    drop(file);
    assert_eq!(disk.free_space(Path::new(DIR)).unwrap(), 10_000);
}

#[test]
fn at_rest_a_test_can_do_anything() {
    let disk = disk(1);
    disk.write_all("/elsewhere/deep/foreign.txt", b"hello").unwrap();
    disk.flip_byte("/elsewhere/deep/foreign.txt", 1, 0xFF).unwrap();
    assert!(disk.flip_byte("/elsewhere/deep/foreign.txt", 5, 1).is_err());
    disk.truncate("/elsewhere/deep/foreign.txt", 3).unwrap();
    let after = disk.crash_keeping(0.0, 1);
    assert_eq!(after.read_all("/elsewhere/deep/foreign.txt").unwrap(), [b'h', b'e' ^ 0xFF, b'l']);
    after.truncate("/elsewhere/deep/foreign.txt", 5).unwrap();
    assert_eq!(after.read_all("/elsewhere/deep/foreign.txt").unwrap()[3..], [0, 0]);
    after.write_all("/elsewhere/deep/foreign.txt", b"again").unwrap();
    assert_eq!(after.crash_keeping(0.0, 1).read_all("/elsewhere/deep/foreign.txt").unwrap(), b"again");
}

#[test]
fn processes_and_locks() {
    let disk = disk(1);
    let lock = disk.lock(&at("LOCK"), LockMode::Exclusive).unwrap();
    assert_eq!(disk.clone().lock(&at("LOCK"), LockMode::Shared).unwrap_err().kind(), ErrorKind::Locked);
    let killed = disk.kill();
    assert_eq!(killed.boot_id(), disk.boot_id());
    drop(killed.lock(&at("LOCK"), LockMode::Exclusive).unwrap());
    drop(disk.crash(1).lock(&at("LOCK"), LockMode::Exclusive).unwrap());
    drop(lock);
    drop(disk.lock(&at("LOCK"), LockMode::Exclusive).unwrap());
}

#[test]
fn a_seed_reproduces_a_crash() {
    let run = |seed| {
        let disk = SimFs::new(5);
        disk.create_dir_all(Path::new(DIR)).unwrap();
        for i in 0..20 {
            let mut file = put(&disk, &format!("f{i}"), &[i; 3000]);
            file.start_writeback();
        }
        let after = disk.crash(seed);
        after.paths().into_iter().map(|path| (after.read_all(&path).unwrap(), path)).collect::<Vec<_>>()
    };
    for seed in 0..20 {
        assert_eq!(run(seed), run(seed));
    }
    assert_ne!(run(2), run(3));
}

#[test]
fn many_crashes_are_cheap() {
    let disk = disk(1);
    let segment = disk.create_mapped(&at("wal"), 1 << 20).unwrap();
    for i in 0..20 {
        put_synced(&disk, &format!("table{i}"), &[i; 40_000]);
    }
    segment.store(5000, &[1; 20_000]).unwrap();
    for seed in 0..2000 {
        let after = disk.crash(seed);
        assert_eq!(after.file_len(&at("table3")).unwrap(), 40_000);
        let segment = after.open_mapped(&at("wal"));
        segment
            .map_or_else(|_| assert!(!after.exists(&at("wal")).unwrap()), |wal| wal.store(9, b"x").unwrap());
    }
}
