//! Tests which parts of files written at offsets, and of their holes, a crash may lose.

use std::collections::BTreeSet;
use std::io::IoSlice;

use super::*;

const BLOCK: usize = 4096;

fn write(file: &dyn RandomFile, offset: u64, bytes: &[u8]) {
    file.write_at(&[IoSlice::new(bytes)], offset).unwrap();
}

/// A file of `len` bytes `fill`, with a durable name.
fn random_synced(disk: &SimFs, name: &str, len: usize, fill: u8) -> Arc<dyn RandomFile> {
    let file = disk.create_random(&at(name)).unwrap();
    write(&*file, 0, &vec![fill; len]);
    file.sync().unwrap();
    disk.sync_dir(Path::new(DIR)).unwrap();
    file
}

#[test]
fn canary_unsynced_writes_are_lost_by_sector() {
    let disk = disk(1);
    let file = random_synced(&disk, "a", 3 * BLOCK, 1);
    let parts = [IoSlice::new(&[2; 3000]), IoSlice::new(&[2; 7000])];
    file.write_at(&parts, 9000).unwrap();
    let lost = disk.crash_keeping(0.0, 1).read_all(at("a")).unwrap();
    assert_eq!(lost, [1; 3 * BLOCK]);
    let kept = disk.crash_keeping(1.0, 1).read_all(at("a")).unwrap();
    assert_eq!((kept.len(), &kept[9000..]), (19_000, &[2; 10_000][..]));
    let (mut torn, mut lengths) = (0, BTreeSet::new());
    for seed in 0..200 {
        let found = disk.crash(seed).read_all(at("a")).unwrap();
        assert_eq!(found[..9000], [1; 9000]);
        let new = found[9000..].iter().filter(|&&byte| byte == 2).count();
        torn += usize::from(new > 0 && new < 10_000);
        lengths.insert(found.len());
    }
    assert!(torn > 50 && lengths.len() > 10, "{torn} torn, lengths {lengths:?}");
    file.sync().unwrap();
    assert_eq!(disk.crash_keeping(0.0, 1).read_all(at("a")).unwrap(), kept);
}

#[test]
fn canary_a_hole_is_old_or_zero_until_synced() {
    let disk = disk(1);
    let file = random_synced(&disk, "a", 4 * BLOCK, 7);
    disk.punch_hole(&at("a"), BLOCK as u64, 2 * BLOCK as u64).unwrap();
    assert_eq!(disk.allocated_bytes(&at("a")).unwrap(), 2 * BLOCK as u64);
    assert_eq!(disk.crash_keeping(0.0, 1).read_all(at("a")).unwrap(), [7; 4 * BLOCK]);
    assert_eq!(disk.crash_keeping(0.0, 1).allocated_bytes(&at("a")).unwrap(), 4 * BLOCK as u64);
    let mut mixed = 0;
    for seed in 0..100 {
        let found = disk.crash(seed).read_all(at("a")).unwrap();
        assert_eq!((&found[..BLOCK], &found[3 * BLOCK..]), (&[7; BLOCK][..], &[7; BLOCK][..]));
        let hole = &found[BLOCK..3 * BLOCK];
        assert!(hole.chunks(512).all(|sector| sector == [0; 512] || sector == [7; 512]));
        mixed += usize::from(hole.contains(&0) && hole.contains(&7));
    }
    assert!(mixed > 20, "{mixed}");
    file.sync().unwrap();
    let after = disk.crash_keeping(0.0, 1);
    assert_eq!(after.read_all(at("a")).unwrap()[BLOCK..3 * BLOCK], [0; 2 * BLOCK]);
    assert_eq!(after.allocated_bytes(&at("a")).unwrap(), 2 * BLOCK as u64);
}

/// The reason why a file with two names is never punched: the other name may be a checkpoint, or come back.
#[test]
fn canary_links_share_holes() {
    let disk = disk(1);
    let file = random_synced(&disk, "a", 2 * BLOCK, 7);
    disk.hard_link(&at("a"), &at("b")).unwrap();
    disk.sync_dir(Path::new(DIR)).unwrap();
    assert_eq!(disk.link_count(&at("a")).unwrap(), 2);
    disk.remove_file(&at("b")).unwrap();
    assert_eq!(disk.link_count(&at("a")).unwrap(), 1);
    disk.punch_hole(&at("a"), 0, BLOCK as u64).unwrap();
    file.sync().unwrap();
    let after = disk.crash_keeping(0.0, 1);
    assert_eq!(after.link_count(&at("a")).unwrap(), 2, "the removal was not synced");
    assert_eq!(after.read_all(at("b")).unwrap()[..BLOCK], [0; BLOCK]);
}

#[test]
fn a_cut_is_not_durable_and_what_it_took_does_not_come_back() {
    let disk = disk(1);
    let file = random_synced(&disk, "a", 2 * BLOCK + 100, 7);
    file.set_len(1000).unwrap();
    file.set_len(9000).unwrap();
    assert_eq!(disk.crash_keeping(0.0, 1).read_all(at("a")).unwrap(), [7; 2 * BLOCK + 100]);
    let mut lengths = BTreeSet::new();
    for seed in 0..300 {
        let found = disk.crash(seed).read_all(at("a")).unwrap();
        assert!(found[..1000] == [7; 1000] && found.len() <= 9000);
        lengths.insert(found.len());
    }
    assert!(lengths.len() > 10 && lengths.contains(&1000), "{lengths:?}");
    file.sync().unwrap();
    let found = disk.crash_keeping(0.0, 1).read_all(at("a")).unwrap();
    assert_eq!((found.len(), &found[..1000], &found[1000..]), (9000, &[7; 1000][..], &[0; 8000][..]));
    assert_eq!(disk.allocated_bytes(&at("a")).unwrap(), BLOCK as u64);
}

#[test]
fn faults_of_writes_cuts_and_holes() {
    let disk = disk(1);
    let file = random_synced(&disk, "a", 1000, 1);
    disk.inject(Fault::new(Op::WriteAt, "a").error(FaultError::NoSpace));
    let error = file.write_at(&[IoSlice::new(&[2; 1000])], 700).unwrap_err();
    assert_eq!((error.kind(), error.offset()), (ErrorKind::OutOfSpace, Some(700)));
    assert_eq!(file.len(), 1000, "a failed write leaves the length");
    let bytes = disk.read_all(at("a")).unwrap();
    assert_eq!((&bytes[..700], &bytes[700..]), (&[1; 700][..], &[2; 300][..]), "and half of its bytes");
    disk.inject(Fault::new(Op::SetLen, ""));
    assert_eq!(file.set_len(5).unwrap_err().kind(), ErrorKind::Io);
    disk.inject(Fault::new(Op::Punch, ""));
    assert_eq!(disk.punch_hole(&at("a"), 0, 4096).unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(disk.read_all(at("a")).unwrap(), bytes);
    disk.inject(Fault::new(Op::Read, ""));
    assert!(disk.open_random(&at("a")).is_err());
    disk.inject(Fault::new(Op::Create, ""));
    assert!(disk.create_random(&at("b")).is_err() && !disk.exists(&at("b")).unwrap());

    write(&*file, 0, b"lost");
    disk.inject(Fault::new(Op::Sync, "a"));
    assert_eq!(file.sync().unwrap_err().kind(), ErrorKind::Io);
    file.sync().unwrap();
    assert_eq!(disk.crash_keeping(1.0, 1).read_all(at("a")).unwrap()[..4], [1; 4]);
    // Data that a failed sync lost does no harm once it is cut off.
    write(&*file, 3 * BLOCK as u64, b"lost too");
    file.set_len(1000).unwrap();
    disk.inject(Fault::new(Op::Sync, "a"));
    assert!(file.sync().is_err());
    file.sync().unwrap();
    for seed in 0..10 {
        assert_eq!(disk.crash(seed).file_len(&at("a")).unwrap(), 1000);
    }
    assert_eq!(disk.faults_hit(), 7);
}

#[test]
fn holes_make_room_on_a_full_disk() {
    let disk = disk(1);
    disk.set_capacity(Some(8 * BLOCK as u64));
    let file = random_synced(&disk, "a", 8 * BLOCK, 1);
    let full = file.write_at(&[IoSlice::new(b"x")], 8 * BLOCK as u64).unwrap_err();
    assert_eq!((full.kind(), file.len()), (ErrorKind::OutOfSpace, 8 * BLOCK as u64));
    write(&*file, 0, &[2; BLOCK]);
    disk.punch_hole(&at("a"), 0, 2 * BLOCK as u64).unwrap();
    assert_eq!(disk.free_space(Path::new(DIR)).unwrap(), 2 * BLOCK as u64);
    write(&*file, 8 * BLOCK as u64, b"x");
    write(&*file, 10, b"into the hole");
    assert_eq!(disk.free_space(Path::new(DIR)).unwrap(), 0);
    assert_eq!(file.write_at(&[IoSlice::new(b"x")], BLOCK as u64).unwrap_err().kind(), ErrorKind::OutOfSpace);
    file.set_len(1 << 30).unwrap();
    assert_eq!(disk.allocated_bytes(&at("a")).unwrap(), 8 * BLOCK as u64, "a gap takes nothing");
}

#[test]
fn power_fails_between_changes() {
    for n in 0..5 {
        let disk = disk(1);
        let run = || -> Result<()> {
            let file = disk.create_random(&at("a"))?;
            file.write_at(&[IoSlice::new(&[1; BLOCK])], 0)?;
            disk.punch_hole(&at("a"), 0, BLOCK as u64)?;
            file.set_len(10)?;
            file.sync()
        };
        let before = disk.operations();
        disk.set_crash_after(Some(before + n));
        assert!(run().unwrap_err().to_string().contains("simulated power loss"), "{n}");
        let found = disk.crash_keeping(1.0, n).read_all(at("a")).ok();
        let expected = [None, Some(vec![]), Some(vec![1; BLOCK]), Some(vec![0; BLOCK]), Some(vec![0; 10])];
        assert_eq!(found, expected[n as usize], "{n}");
    }
}

/// After any changes since the last sync, each sector holds one of its versions since then, and the length is between
/// the shortest and the longest.
#[test]
fn every_sector_found_is_a_version_since_the_last_sync() {
    for seed in 0..60 {
        let disk = disk(seed);
        disk.set_writeback(0.2);
        let mut random = crate::rng::Rng::new(seed);
        let file = random_synced(&disk, "a", 100, 1);
        let mut versions = vec![disk.read_all(at("a")).unwrap()];
        for step in 0..30u8 {
            let offset = random.below(20_000);
            match random.below(6) {
                0..=2 => write(&*file, offset, &vec![step + 2; random.below(6000) as usize]),
                3 => file.set_len(offset).unwrap(),
                4 => disk.punch_hole(&at("a"), offset / 4096 * 4096, 8192).unwrap(),
                _ => {
                    file.sync().unwrap();
                    versions.clear();
                }
            }
            versions.push(disk.read_all(at("a")).unwrap());
            let found = disk.crash(random.next()).read_all(at("a")).unwrap();
            check_versions(&found, &versions, &format!("seed {seed}, step {step}"));
        }
    }
}

fn check_versions(found: &[u8], versions: &[Vec<u8>], what: &str) {
    let lengths = || versions.iter().map(Vec::len);
    assert!(lengths().min() <= Some(found.len()) && Some(found.len()) <= lengths().max(), "{what}");
    for (i, sector) in found.chunks(512).enumerate() {
        let known = versions.iter().any(|version| {
            let had = version.get(i * 512..).unwrap_or_default();
            let had = &had[..had.len().min(sector.len())];
            sector.starts_with(had) && sector[had.len()..].iter().all(|&byte| byte == 0)
        });
        assert!(known, "{what}: sector {i} was never like that");
    }
}
