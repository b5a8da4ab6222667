//! Staged values, and batches as bytes.

use std::collections::BTreeMap;

use esker::{Batch, Db, ErrorKind, Options, ScanRange, Staging, Tree, TreeOptions, keys};

use crate::common::Rng;

fn options() -> Options {
    Options::default().memory_budget(8 << 20).separate_at(1000)
}

/// A tree, and a staging area of its group.
fn two(db: &Db, group: &str) -> (Tree, Staging) {
    let create = |name: &str| {
        let name = format!("{group} {name}");
        match db.open_tree(&name).unwrap() {
            Some(tree) => tree,
            None => db.create_tree(&name, TreeOptions::default().group(group)).unwrap(),
        }
    };
    (create("films"), Staging::new(&create("staging")))
}

fn pairs(tree: &Tree) -> BTreeMap<Vec<u8>, Vec<u8>> {
    tree.scan(ScanRange::all()).unwrap().collect::<esker::Result<_>>().unwrap()
}

#[test]
fn a_staged_value_stays_until_a_key_has_it_or_it_is_discarded() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let values = |len: usize| vec![len as u8; len];
    let lens = [0, 10, 999, 1000, 300_000, 3 << 20];
    {
        let db = Db::open(&path, options()).unwrap();
        let (_, staging) = two(&db, "g");
        for len in lens {
            let staged = staging.put(len.to_string(), values(len)).unwrap();
            assert_eq!((staged.len(), staged.id()), (len as u64, len.to_string().as_bytes()));
            assert_eq!(staged.value().into_vec().unwrap(), values(len));
        }
        staging.put("gone", values(5000)).unwrap();
        assert!(staging.discard("gone").unwrap() && !staging.discard("gone").unwrap());
        staging.put("10", [7; 10]).unwrap();
        staging.put("10", values(10)).unwrap();
    }
    let db = Db::open(&path, options()).unwrap();
    let (films, staging) = two(&db, "g");
    let mut ids: Vec<Vec<u8>> = lens.iter().map(|len| len.to_string().into_bytes()).collect();
    ids.sort();
    assert_eq!(staging.ids().unwrap(), ids);
    assert!(staging.get("gone").unwrap().is_none());
    let mut batch = Batch::new();
    for len in lens {
        let staged = staging.get(len.to_string()).unwrap().unwrap();
        assert_eq!((staged.len(), staged.is_empty()), (len as u64, len == 0));
        assert_eq!(staged.value().into_vec().unwrap(), values(len));
        batch.put_staged(&films, format!("film {len}"), &staged, None).unwrap();
        batch.put_staged(&films, format!("copy {len}"), &staged, Some(u64::MAX)).unwrap();
    }
    // A handle keeps its value whatever becomes of the staging area.
    assert!(staging.discard("300000").unwrap());
    db.compact().unwrap();
    db.write(&batch).unwrap();
    for len in lens {
        assert_eq!(films.get_vec(format!("film {len}")).unwrap().unwrap(), values(len));
        let copy = films.get(format!("copy {len}")).unwrap().unwrap();
        assert_eq!((copy.expires_us(), copy.into_vec().unwrap()), (Some(u64::MAX), values(len)));
    }
    assert!(staging.ids().unwrap().is_empty() && pairs(staging.tree()).is_empty());
    drop(batch);
    db.flush().unwrap();
    assert_eq!(db.stats().unwrap().blob_values, 3, "each huge value is there once");
}

/// A handle of what was staged before takes nothing else away.
#[test]
fn an_old_handle_leaves_what_was_staged_since() {
    let db = Db::open_in_memory(options()).unwrap();
    let (films, staging) = two(&db, "g");
    for len in [10, 5000] {
        let old = staging.put("film", vec![1; len]).unwrap();
        let new = staging.put("film", vec![2; len]).unwrap();
        assert_eq!(staging.ids().unwrap(), [b"film"]);
        let mut batch = Batch::new();
        batch.put_staged(&films, "film", &old, None).unwrap();
        for _ in 0..2 {
            db.write(&batch).unwrap();
            assert_eq!(films.get_vec("film").unwrap().unwrap(), vec![1; len]);
            let staged = staging.get("film").unwrap().unwrap();
            assert_eq!(
                (staged.checksum(), staged.value().into_vec().unwrap()),
                (new.checksum(), vec![2; len])
            );
        }
        // Both in one batch, as bytes.
        batch.put_staged(&films, "other", &new, None).unwrap();
        let bytes = batch.encode(|_| Some(0)).unwrap();
        let mut decoded = Batch::decode(&bytes, |_| Some(films.clone())).unwrap();
        assert_eq!(decoded.awaited().len(), 2);
        assert!(decoded.attach(&new).unwrap() && decoded.attach(&old).unwrap());
        db.write(&decoded).unwrap();
        assert_eq!(films.get_vec("other").unwrap().unwrap(), vec![2; len]);
        assert!(staging.ids().unwrap().is_empty());
    }
}

#[test]
fn parts_are_joined() {
    let db = Db::open_in_memory(options()).unwrap();
    let (films, staging) = two(&db, "g");
    let parts: Vec<Vec<u8>> = [0, 5, 2 << 20, 999, 1 << 20, 70_000].map(|len| vec![len as u8; len]).into();
    let ids: Vec<String> = (0..parts.len()).map(|part| format!("part {part}")).collect();
    for (id, part) in ids.iter().zip(&parts) {
        staging.put(id, part).unwrap();
    }
    let missing = staging.concat("all", &["part 0", "part 9"]).unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound, "{missing}");
    assert_eq!(staging.ids().unwrap().len(), parts.len());
    let whole = staging.concat("all", &ids).unwrap();
    assert_eq!(staging.ids().unwrap(), [b"all"]);
    assert_eq!(whole.checksum(), staging.put("same", parts.concat()).unwrap().checksum());
    let mut batch = Batch::new();
    batch.put_staged(&films, "film", &whole, None).unwrap();
    db.write(&batch).unwrap();
    assert_eq!(films.get_vec("film").unwrap().unwrap(), parts.concat());
    // A part may have the name of the whole.
    let again = staging.concat("same", &["same", "same"]).unwrap();
    assert_eq!((again.len(), staging.ids().unwrap()), (2 * whole.len(), vec![b"same".to_vec()]));
    assert!(staging.concat("nothing", &[] as &[&str]).unwrap().is_empty());
}

#[test]
fn what_does_not_fit_is_refused() {
    let db = Db::open_in_memory(options()).unwrap();
    let (films, staging) = two(&db, "g");
    let (other, _) = two(&db, "h");
    for id in [vec![], vec![7; 1025]] {
        assert_eq!(staging.put(&id, "value").unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(staging.get(&id).unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(staging.discard(&id).unwrap_err().kind(), ErrorKind::InvalidInput);
    }
    let staged = staging.put(vec![7; 1024], vec![1; 5000]).unwrap();
    let mut batch = Batch::new();
    assert_eq!(batch.put_staged(&other, "film", &staged, None).unwrap_err().kind(), ErrorKind::InvalidInput);
    batch.put_staged(&films, "film", &staged, None).unwrap();
    let slot = |name: &str| (name == "g films").then_some(7);
    let bytes = batch.encode(slot).unwrap();
    assert_eq!(batch.encode(|_| None).unwrap_err().kind(), ErrorKind::InvalidInput);

    // The value is named, not contained: the batch waits for it.
    assert!(bytes.len() < 1200);
    let mut decoded = Batch::decode(&bytes, |slot| (slot == 7).then(|| films.clone())).unwrap();
    let awaited = decoded.awaited();
    assert_eq!((awaited.len(), awaited[0].len, awaited[0].checksum), (1, 5000, staged.checksum()));
    let error = db.write(&decoded).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    assert!(!films.contains("film").unwrap());
    assert!(!decoded.attach(&staging.put("another", "value").unwrap()).unwrap());
    let wrong = staging.put(vec![7; 1024], vec![2; 5000]).unwrap();
    assert_eq!(decoded.attach(&wrong).unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(decoded.awaited().len(), 1);
    assert!(decoded.attach(&staging.put(vec![7; 1024], vec![1; 5000]).unwrap()).unwrap());
    assert_eq!(decoded.encode(slot).unwrap(), bytes);
    db.write(&decoded).unwrap();
    assert_eq!(films.get_vec("film").unwrap().unwrap(), vec![1; 5000]);
    assert_eq!(staging.ids().unwrap(), [b"another"]);

    // A huge value that was not staged has no name.
    let mut batch = Batch::new();
    batch.put(&films, "film", vec![1; 1000]).unwrap();
    let error = batch.encode(slot).unwrap_err();
    assert!(error.message().contains("stage it"), "{error}");
    assert_eq!(Batch::decode(&bytes, |_| None).unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(Batch::decode(&[9], |_| None).unwrap_err().kind(), ErrorKind::Unsupported);
    assert_eq!(Batch::decode(&[], |_| None).unwrap_err().kind(), ErrorKind::Corruption);
    // An operator that this program does not know.
    let mut batch = Batch::new();
    batch.merge(&films, "sum", esker::operators::ADD, keys::i64(1)).unwrap();
    let mut bytes = batch.encode(slot).unwrap();
    let at = bytes.windows(3).position(|window| window == b"add").unwrap();
    bytes[at] = b'o';
    let error = Batch::decode(&bytes, |_| Some(films.clone())).unwrap_err();
    assert!(error.message().contains("odd"), "{error}");
}

/// A random batch over two trees.
fn random(rng: &mut Rng, trees: &[Tree; 2], staging: &Staging) -> Batch {
    let mut batch = Batch::new();
    for _ in 0..rng.below(6) {
        let (tree, key) = (rng.pick(trees), vec![rng.below(4) as u8 + 1; rng.below(3) as usize + 1]);
        let expires = if rng.one_in(3) { Some(u64::MAX - rng.below(9)) } else { None };
        match rng.below(6) {
            0 => batch.delete(tree, &key).unwrap(),
            1 => batch.delete_range(tree, key.clone()..vec![rng.below(6) as u8]).unwrap(),
            2 => batch.merge(tree, &key, esker::operators::APPEND, "more").unwrap(),
            3 => {
                let value = vec![rng.below(256) as u8; rng.below(3000) as usize];
                let id = format!("id {}", rng.below(1000));
                batch.put_staged(tree, &key, &staging.put(id, value).unwrap(), expires).unwrap();
            }
            _ => {
                let value = vec![rng.below(256) as u8; rng.below(900) as usize];
                batch.put_until_us(tree, &key, value, expires).unwrap();
            }
        }
    }
    batch
}

#[test]
fn a_decoded_batch_does_what_the_batch_does() {
    let seed = 0x00e5_ce0d;
    println!("seed {seed}");
    let mut rng = Rng::new(seed);
    let [here, there] = [(); 2].map(|()| Db::open_in_memory(options()).unwrap());
    let trees = |db: &Db| {
        let (one, staging) = two(db, "g");
        ([one, db.create_tree("g more", TreeOptions::default().group("g")).unwrap()], staging)
    };
    let ((here_trees, here_staging), (there_trees, there_staging)) = (trees(&here), trees(&there));
    for _ in 0..300 {
        let batch = random(&mut rng, &here_trees, &here_staging);
        let bytes =
            batch.encode(|name| here_trees.iter().position(|tree| tree.name() == name).map(|at| at as u32));
        let bytes = bytes.unwrap();
        let resolve = |slot: u32| there_trees.get(slot as usize).cloned();
        let mut decoded = Batch::decode(&bytes, resolve).unwrap();
        assert_eq!(decoded.len(), batch.len());
        for awaited in decoded.awaited() {
            let staged = here_staging.get(&awaited.id).unwrap();
            let Some(staged) = staged.filter(|staged| staged.checksum() == awaited.checksum) else {
                continue;
            };
            let copy = there_staging.put(&awaited.id, staged.value().into_vec().unwrap()).unwrap();
            assert_eq!(copy.checksum(), awaited.checksum);
            assert!(decoded.attach(&copy).unwrap());
        }
        // Two values of one id in one batch: the first was replaced before it was shipped.
        if decoded.awaited().is_empty() {
            here.write(&batch).unwrap();
            there.write(&decoded).unwrap();
        }
        for (one, other) in here_trees.iter().zip(&there_trees) {
            assert_eq!(pairs(one), pairs(other));
        }
        // Bytes that were damaged on the way are refused, or are another batch.
        for _ in 0..20 {
            let mut damaged = bytes.clone();
            let at = rng.index(damaged.len());
            match rng.below(3) {
                0 => damaged.truncate(at),
                1 => damaged[at] ^= 1 << rng.below(8),
                _ => damaged.insert(at, rng.below(256) as u8),
            }
            if let Err(error) = Batch::decode(&damaged, resolve) {
                let kinds = [ErrorKind::Corruption, ErrorKind::InvalidInput, ErrorKind::Unsupported];
                assert!(kinds.contains(&error.kind()), "{error}");
            }
        }
    }
}
