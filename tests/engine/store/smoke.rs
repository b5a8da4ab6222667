//! One store through a short life: written, read, closed, opened again.

use esker::{Batch, Db, Options, ScanRange};

#[test]
fn what_is_put_is_there_after_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let options = || Options::default().memory_budget(8 << 20);
    let n = 100_000u32;
    {
        let db = Db::open(&path, options()).unwrap();
        let other = db.tree("other").unwrap();
        for i in 0..n {
            db.put(i.to_be_bytes(), format!("value {i}")).unwrap();
        }
        let mut batch = Batch::new();
        batch.put(&other, "a", "1").unwrap();
        batch.delete(db.default_tree(), 5u32.to_be_bytes()).unwrap();
        db.write(&batch).unwrap();
        assert_eq!(db.get_vec(7u32.to_be_bytes()).unwrap().as_deref(), Some(&b"value 7"[..]));
        db.close().unwrap();
    }
    for _ in 0..3 {
        let db = Db::open(&path, options()).unwrap();
        assert_eq!(db.get_vec(5u32.to_be_bytes()).unwrap(), None);
        assert_eq!(db.default_tree().count(ScanRange::all()).unwrap(), u64::from(n) - 1);
        assert_eq!(db.tree("other").unwrap().get_vec("a").unwrap().as_deref(), Some(&b"1"[..]));
        for i in (0..n).step_by(997).filter(|&i| i != 5) {
            assert_eq!(db.get_vec(i.to_be_bytes()).unwrap().unwrap(), format!("value {i}").into_bytes());
        }
        db.compact().unwrap();
        let reversed = db.scan(ScanRange::all().reverse()).unwrap().map(|pair| pair.unwrap().0);
        assert!(reversed.eq((0..n).rev().filter(|&i| i != 5).map(|i| i.to_be_bytes().to_vec())));
        db.close().unwrap();
    }
}
