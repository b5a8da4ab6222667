//! A disk that is full, and then is not: puts are refused early and taken again, without opening the store
//! again; reads and deletes go on.

use std::sync::Arc;

use esker::env::Env;
use esker::fs::sim::SimFs;
use esker::{Db, ErrorKind, Options, ScanRange};

#[test]
fn puts_are_refused_and_taken_again() {
    let disk = SimFs::new(1);
    let env = Env { fs: Arc::new(disk.clone()), ..Env::system() };
    let db = Db::open("store", Options::default().memory_budget(8 << 20).env(env)).unwrap();
    let value = |i: u32| vec![i as u8; 4000];

    disk.set_capacity(Some(24 << 20));
    let mut written = 0u32;
    let refused = loop {
        match db.put(written.to_be_bytes(), value(written)) {
            Ok(()) => written += 1,
            Err(error) => break error,
        }
        assert!(written < 20_000, "the disk never became full");
    };
    assert_eq!(refused.kind(), ErrorKind::OutOfSpace, "{refused:?}");

    for i in 0..written {
        assert_eq!(db.get_vec(i.to_be_bytes()).unwrap().as_deref(), Some(&value(i)[..]), "{i} of {written}");
    }
    for i in 0..10u32 {
        db.delete(i.to_be_bytes()).unwrap();
    }
    assert_eq!(db.put("more", "still no room").unwrap_err().kind(), ErrorKind::OutOfSpace);

    disk.set_capacity(None);
    db.put("more", "room again").unwrap();
    assert_eq!(db.default_tree().count(ScanRange::all()).unwrap(), u64::from(written) - 10 + 1);
    db.flush().unwrap();
    db.compact().unwrap();
    db.close().unwrap();

    let env = Env { fs: Arc::new(disk), ..Env::system() };
    let db = Db::open("store", Options::default().env(env)).unwrap();
    assert_eq!(db.get_vec("more").unwrap().as_deref(), Some(&b"room again"[..]));
    assert_eq!(db.default_tree().count(ScanRange::all()).unwrap(), u64::from(written) - 10 + 1);
}
