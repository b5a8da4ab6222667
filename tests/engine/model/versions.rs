//! Keys with many versions: scans skip them by seeking, and must see what a walk over all of them sees.

use std::collections::BTreeMap;
use std::sync::Arc;

use esker::fs::sim::SimFs;
use esker::{Db, Options, ScanRange, Snapshot};

use crate::common::{Rng, seed, world};

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

fn check(db: &Db, moments: &[(Snapshot, Pairs)]) {
    for (snapshot, pairs) in moments {
        let tree = db.default_tree();
        let forward = snapshot.scan(tree, ScanRange::all()).unwrap().map(Result::unwrap);
        assert!(forward.eq(pairs.clone()), "forward");
        let backward = snapshot.scan(tree, ScanRange::all().reverse()).unwrap().map(Result::unwrap);
        assert!(backward.eq(pairs.clone().into_iter().rev()), "backward");
    }
}

#[test]
fn many_versions_of_a_key_are_skipped_rightly() {
    let seed = seed(0x5c1b);
    eprintln!("ESKER_SEED={seed}");
    let env = world(Arc::new(SimFs::new(seed)), seed, None);
    let db = Db::open("/store", Options::default().env(env)).unwrap();
    let mut rng = Rng::new(seed);
    let (mut pairs, mut moments) = (Pairs::new(), Vec::new());
    for round in 0..6_000u32 {
        // Long runs on one key, and a few others in between.
        let key = match rng.index(10) {
            0 => vec![b'a' + rng.index(20) as u8],
            _ => vec![b'a' + (round / 700) as u8 * 2, b'x'],
        };
        if rng.percent(20) {
            db.delete(&key).unwrap();
            pairs.remove(&key);
        } else {
            let value = round.to_le_bytes().to_vec();
            db.put(&key, &value).unwrap();
            pairs.insert(key, value);
        }
        if rng.index(8) == 0 {
            moments.push((db.snapshot(), pairs.clone()));
        }
        if round == 4_000 {
            // Of these versions those that a snapshot sees go into tables.
            db.flush().unwrap();
        }
    }
    moments.push((db.snapshot(), pairs));
    check(&db, &moments);
    db.flush().unwrap();
    check(&db, &moments);
}
