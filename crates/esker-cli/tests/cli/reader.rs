//! `tools/read_esker.py` reads what Esker wrote: every live value of a store in every state, and of a damaged
//! one what is left. What it extracts is imported into a new store, which is compared with a model.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{Done, Rng, esker, files, run};
use esker::{Compression, Db, FilterPrefix, Options, PutOptions, ScanRange, Tree, TreeOptions, keys};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Runs the reader.
pub(crate) fn reader(arguments: &[&Path]) -> Done {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/read_esker.py");
    let mut command = Command::new("python3");
    command.arg(script).args(arguments);
    run(command, b"")
}

/// Keys that file names cannot hold, that begin alike, or that are long.
fn key(rng: &mut Rng) -> Vec<u8> {
    let number = rng.below(60);
    match rng.below(6) {
        0 => format!("a/{number}/b").into_bytes(),
        1 => format!("a/{number}").into_bytes(),
        2 => format!("../{number}%\n//é").into_bytes(),
        3 => [b"\xff\0".as_slice(), &number.to_le_bytes()].concat(),
        4 => [vec![b'x'; 300], number.to_string().into_bytes()].concat(),
        _ => number.to_string().into_bytes(),
    }
}

/// Small values, values in shared blob files, and streams with a file each; last chunks of every length.
fn value(rng: &mut Rng) -> Vec<u8> {
    let len = match rng.below(12) {
        0 => 0,
        1 => 32_768 + rng.below(9),
        2 => 65_536 + rng.below(300),
        3 if rng.below(6) == 0 => (1 << 20) + 65_536 + rng.below(20),
        _ => rng.below(400),
    };
    let byte = rng.next();
    (0..len).map(|i| (byte ^ (i * i / 7)) as u8).collect()
}

/// Puts, overwrites, merges, deletes, renames and copies.
fn change(rng: &mut Rng, tree: &Tree, model: &mut Model, count: usize) {
    for _ in 0..count {
        let key = key(rng);
        let choice = rng.below(8);
        if choice < 2 {
            tree.delete(&key).unwrap();
            model.remove(&key);
        } else if choice == 2 {
            let (from, keep) = (self::key(rng), rng.below(2) == 0);
            let done = if keep { tree.copy(&from, &key) } else { tree.rename(&from, &key) };
            let value = if keep { model.get(&from).cloned() } else { model.remove(&from) };
            assert_eq!(done.unwrap(), value.is_some());
            model.extend(value.map(|value| (key, value)));
        } else if choice == 3 {
            let (byte, before) = (rng.next() as u8, model.entry(key.clone()).or_default());
            if before.len() == 8 && rng.below(2) == 0 {
                let number = keys::decode_i64(before).unwrap();
                tree.add(&key, i64::MAX - i64::from(byte)).unwrap();
                *before = keys::i64(number.wrapping_add(i64::MAX - i64::from(byte))).to_vec();
            } else {
                tree.append(&key, [byte; 8]).unwrap();
                before.extend([byte; 8]);
            }
        } else {
            let value = value(rng);
            if rng.below(8) == 0 {
                // What is merged into it later begins anew.
                tree.put_opts(&key, &value, &PutOptions::default().expires_us(Some(1))).unwrap();
                model.remove(&key);
                continue;
            }
            match value.len() > 1 << 20 {
                true => drop(tree.put_from(&key, value.as_slice()).unwrap()),
                false if rng.below(3) == 0 => {
                    let options = PutOptions::default().attributes("text/plain");
                    let expires = (rng.below(2) == 0).then_some(u64::MAX);
                    tree.put_opts(&key, &value, &options.expires_us(expires)).unwrap();
                }
                false => tree.put(&key, &value).unwrap(),
            }
            model.insert(key, value);
        }
    }
}

/// What the reader extracts from `store` is what the models say.
#[track_caller]
fn same(looks: &mut Rng, store: &Path, models: &[(&str, &Model)], state: &str) {
    // A quick run looks at the last state and some others.
    if test_kit::is_quick() && state != "opened again" && !looks.one_in(4) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let done = reader(&[Path::new("extract"), store, &out]);
    assert_eq!(done.code, 0, "{state}: {}", done.stderr());
    let listed = reader(&[Path::new("list"), store]);
    assert_eq!(
        listed.stdout().lines().count(),
        models.iter().map(|(_, model)| model.len()).sum::<usize>(),
        "{state}"
    );
    for (tree, model) in models {
        let imported = esker(dir.path(), &format!("--tree {tree} import out/{tree}"));
        assert_eq!(imported.code, 0, "{state}: {}", imported.stderr());
        let db = Db::open_read_only(dir.path().join("esker.db"), Options::default()).unwrap();
        let mut back = Model::new();
        for pair in db.open_tree(tree).unwrap().unwrap().scan(ScanRange::all()).unwrap() {
            let (key, value) = pair.unwrap();
            back.insert(key.to_vec(), value.to_vec());
        }
        assert!(back.keys().eq(model.keys()), "{state}: other keys in {tree}");
        assert!(back == **model, "{state}: other values in {tree}");
    }
}

#[test]
fn every_live_value_is_read_without_esker() {
    let seed = test_kit::seed(7);
    let (rng, looks) = (&mut Rng::new(seed), &mut Rng::new(seed ^ 1));
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    let db = Db::open(&store, Options::default()).unwrap();
    let plain = db.tree("plain").unwrap();
    let packed = TreeOptions::default().compression(Compression::Lz4);
    let packed = packed.filter_prefix(FilterPrefix::through("/", 1));
    let packed = db.create_tree("packed", packed).unwrap();
    let (mut in_plain, mut in_packed) = (Model::new(), Model::new());
    change(rng, &plain, &mut in_plain, 100);
    change(rng, &packed, &mut in_packed, 50);
    same(looks, &store, &[("plain", &in_plain), ("packed", &in_packed)], "in the log");
    db.flush().unwrap();
    plain.set_options(plain.options().size_ratio(4)).unwrap();
    same(looks, &store, &[("plain", &in_plain), ("packed", &in_packed)], "flushed");
    let unlogged = db.create_tree("unlogged", TreeOptions::default().log(false)).unwrap();
    let mut in_unlogged = Model::new();
    for round in 0..3 {
        change(rng, &plain, &mut in_plain, 30);
        change(rng, &unlogged, &mut in_unlogged, 20);
        change(rng, &plain, &mut in_plain, 30);
        change(rng, &packed, &mut in_packed, 40);
        if round < 2 {
            db.flush().unwrap();
        }
    }
    unlogged.flush().unwrap();
    change(rng, &plain, &mut in_plain, 30);
    let models = [("plain", &in_plain), ("packed", &in_packed), ("unlogged", &in_unlogged)];
    same(looks, &store, &models, "flushed in part");
    let (exported, other) = (dir.path().join("exported"), dir.path().join("other"));
    db.export_tree("plain", &exported).unwrap();
    let into = Db::open(&other, Options::default()).unwrap();
    let (imported, _) = into.import_tree(&exported, "imported").unwrap();
    same(looks, &exported, &[("plain", &in_plain)], "exported");
    let mut in_imported = in_plain.clone();
    same(looks, &other, &[("imported", &in_imported)], "imported");
    change(rng, &imported, &mut in_imported, 60);
    into.flush().unwrap();
    same(looks, &other, &[("imported", &in_imported)], "imported and changed");
    drop((imported, into));
    let mut ingest = plain.ingest().unwrap();
    for number in 20..50 {
        let (key, value) = (number.to_string().into_bytes(), value(rng));
        ingest.put(&key, &value).unwrap();
        in_plain.insert(key, value);
    }
    ingest.commit().unwrap();
    change(rng, &plain, &mut in_plain, 20);
    let models = [("plain", &in_plain), ("packed", &in_packed), ("unlogged", &in_unlogged)];
    same(looks, &store, &models, "ingested");
    let from_a = db.split(&plain, "a", "from-a").unwrap();
    let mut in_from_a = in_plain.split_off(b"a".as_slice());
    let models =
        [("plain", &in_plain), ("packed", &in_packed), ("unlogged", &in_unlogged), ("from-a", &in_from_a)];
    same(looks, &store, &models, "split");
    from_a.put("b", "behind").unwrap();
    in_from_a.insert(b"b".to_vec(), b"behind".to_vec());
    plain.delete("1").unwrap();
    in_plain.remove(b"1".as_slice());
    db.flush().unwrap();
    let models =
        [("plain", &in_plain), ("packed", &in_packed), ("unlogged", &in_unlogged), ("from-a", &in_from_a)];
    same(looks, &store, &models, "split and flushed");
    let plain = db.tree("whole").unwrap();
    let mut in_plain = Model::new();
    for name in ["plain", "from-a"] {
        db.drop_tree(name).unwrap();
    }
    db.drop_tree("unlogged").unwrap();
    db.compact().unwrap();
    change(rng, &plain, &mut in_plain, 40);
    same(looks, &store, &[("whole", &in_plain), ("packed", &in_packed)], "merged");
    db.drop_tree("packed").unwrap();
    db.close().unwrap();
    same(looks, &store, &[("whole", &in_plain)], "closed");
    drop((plain, packed, db));
    let db = Db::open(&store, Options::default()).unwrap();
    change(rng, &db.tree("whole").unwrap(), &mut in_plain, 40);
    same(looks, &store, &[("whole", &in_plain)], "opened again");
}

#[test]
fn damage_costs_the_values_that_it_hits_and_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("store");
    let db = Db::open(&store, Options::default()).unwrap();
    for (key, byte) in [("one", 1), ("two", 2)] {
        db.default_tree().put_from(key, vec![byte; 3 << 20].as_slice()).unwrap();
    }
    db.put("small", "value").unwrap();
    db.close().unwrap();
    let mut paths: Vec<PathBuf> = Vec::new();
    files(&store, &mut paths);
    let blob_of = |byte: u8| {
        let holds = |path: &&PathBuf| {
            path.extension().is_some_and(|e| e == "blob") && fs::read(path).unwrap().get(4096) == Some(&byte)
        };
        paths.iter().find(holds).unwrap()
    };
    let mut bytes = fs::read(blob_of(1)).unwrap();
    bytes[2 << 20] ^= 1;
    fs::write(blob_of(1), bytes).unwrap();
    // Without its last bytes a file is read by the descriptor behind its value.
    let bytes = fs::read(blob_of(2)).unwrap();
    fs::write(blob_of(2), &bytes[..bytes.len() - 1]).unwrap();

    let out = dir.path().join("out");
    let done = reader(&[Path::new("extract"), &store, &out]);
    assert_eq!(done.code, 1);
    assert!(done.stderr().contains("default: one: chunk 31 in"), "{}", done.stderr());
    assert!(!out.join("default/one").exists());
    assert!(fs::read(out.join("default/two")).unwrap() == vec![2; 3 << 20]);
    assert_eq!(fs::read(out.join("default/small")).unwrap(), b"value");
    let unverified = dir.path().join("unverified");
    let done = reader(&[Path::new("--no-verify"), Path::new("extract"), &store, &unverified]);
    assert_eq!(done.code, 0, "{}", done.stderr());
    assert_eq!(fs::metadata(unverified.join("default/one")).unwrap().len(), 3 << 20);
}
