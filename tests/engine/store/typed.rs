//! Trees whose keys and values have types.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::Bound;

use esker::{Batch, Db, ErrorKind, KeyCodec, Options, TreeOptions, TxnOptions, TypedTree};

use crate::common::{Rng, seed};

fn memory() -> Db {
    Db::open_in_memory(Options::default()).unwrap()
}

/// Puts `keys`, which ascend, in a mixed order, and reads them back in their own.
fn keeps_order<K>(name: &str, keys: &[K::Ref<'_>])
where
    K: KeyCodec<Key: Debug + PartialEq>,
{
    let db = memory();
    let tree = db.open_typed::<K, u64>(name).unwrap();
    let mixed = (0..keys.len()).map(|i| (i * 7 + 3) % keys.len());
    for i in mixed {
        tree.put(keys[i], &(i as u64)).unwrap();
    }
    let pairs: Vec<(K::Key, u64)> = tree.iter().unwrap().map(Result::unwrap).collect();
    assert_eq!(pairs.len(), keys.len(), "{name}");
    for (i, (key, value)) in pairs.iter().enumerate() {
        assert_eq!(*value, i as u64, "{name}: {key:?}");
        assert_eq!(tree.get(keys[i]).unwrap(), Some(i as u64), "{name}: {key:?}");
        let again = K::encoded(keys[i], K::decode).unwrap();
        assert_eq!(again, *key, "{name}");
    }
    assert_eq!(tree.tree().tag().is_some(), K::type_name().is_some());
}

#[test]
fn keys_sort_as_they_do_in_rust() {
    keeps_order::<u64>("u64", &[0, 1, 255, 256, u64::MAX]);
    keeps_order::<i64>("i64", &[i64::MIN, -256, -1, 0, 1, i64::MAX]);
    keeps_order::<u32>("u32", &[0, 1, 255, 256, u32::MAX]);
    keeps_order::<i32>("i32", &[i32::MIN, -256, -1, 0, 1, i32::MAX]);
    keeps_order::<u8>("u8", &[0, 1, 127, 128, u8::MAX]);
    keeps_order::<i8>("i8", &[i8::MIN, -1, 0, 1, i8::MAX]);
    keeps_order::<u16>("u16", &[0, 1, 255, 256, u16::MAX]);
    keeps_order::<i16>("i16", &[i16::MIN, -256, -1, 0, 1, i16::MAX]);
    keeps_order::<u128>("u128", &[0, 1, 1 << 64, u128::MAX]);
    keeps_order::<i128>("i128", &[i128::MIN, -1 << 64, -1, 0, 1 << 64, i128::MAX]);
    keeps_order::<[u8; 2]>("[u8; 2]", &[&[0, 0], &[0, 1], &[1, 0], &[255, 255]]);
    keeps_order::<([u8; 2], u16, i8)>("arrays", &[(&[0, 0], 7, -1), (&[0, 0], 7, 0), (&[0, 1], 0, 0)]);
    keeps_order::<f64>("f64", &[f64::NEG_INFINITY, -1.5, -0.0, 0.0, 0.25, f64::INFINITY]);
    keeps_order::<String>("String", &["\0", "a", "a\0", "aa", "b", "ä"]);
    keeps_order::<Vec<u8>>("Vec<u8>", &[&[0], &[0, 0], &[1], &[255], &[255, 255]]);
    keeps_order::<(String,)>("one", &[("",), ("a",), ("a\0",), ("b",)]);
    keeps_order::<(String, i32)>("two", &[("", 5), ("a", -1), ("a", 0), ("a\0", -9), ("aa", -9)]);
    keeps_order::<(u32, u64, i32, i64, f64, String, Vec<u8>, u64)>(
        "eight",
        &[
            (1, 1, -1, -1, 0.5, "a", b"", 1),
            (1, 1, -1, -1, 0.5, "a", b"", 2),
            (1, 1, -1, -1, 0.5, "a", b"\0", 1),
            (1, 1, -1, -1, 0.5, "b", b"", 0),
            (1, 1, 0, -2, 0.5, "", b"", 0),
            (2, 0, -1, -1, 0.5, "", b"", 0),
        ],
    );
}

/// Ranges, prefixes and cursors against a map, over keys of two elements.
#[test]
fn ranges_and_cursors_are_those_of_a_map() {
    let seed = seed(1);
    let mut rng = Rng::new(seed);
    let db = memory();
    let tree = db.open_typed::<(String, i32), String>("pairs").unwrap();
    let mut map: BTreeMap<(String, i32), String> = BTreeMap::new();
    let texts = ["", "a", "a\0", "a\0b", "ab", "b", "\u{10ffff}"];
    for round in 0..2000 {
        let mut key = || (texts[rng.below(7) as usize], rng.below(5) as i32 - 2);
        let (one, two) = (key(), key());
        let owned = |(text, number): (&str, i32)| (text.to_owned(), number);
        match rng.below(6) {
            0 | 1 => {
                let value = round.to_string();
                let old = tree.insert(one, &value).unwrap();
                assert_eq!(old, map.insert(owned(one), value), "seed {seed}, round {round}");
            }
            2 => assert_eq!(tree.remove(one).unwrap(), map.remove(&owned(one)), "seed {seed}, round {round}"),
            3 => {
                let bound = |kind: u64, key| match kind {
                    0 => Bound::Included(key),
                    1 => Bound::Excluded(key),
                    _ => Bound::Unbounded,
                };
                let (low, high) = (one.min(two), one.max(two));
                let kinds = (rng.below(3), rng.below(3));
                let range = (bound(kinds.0, low), bound(kinds.1, high));
                let expected: Vec<_> = if low == high && kinds == (1, 1) {
                    vec![]
                } else {
                    let range = (range.0.map(owned), range.1.map(owned));
                    map.range(range).map(|(key, value)| (key.clone(), value.clone())).collect()
                };
                let found: Vec<_> = tree.range(range).unwrap().map(Result::unwrap).collect();
                assert_eq!(found, expected, "seed {seed}, round {round}");
                let mut back: Vec<_> = tree.range(range).unwrap().rev().map(Result::unwrap).collect();
                back.reverse();
                assert_eq!(back, expected, "seed {seed}, round {round}");
                assert_eq!(tree.count(range).unwrap(), expected.len() as u64);
            }
            4 => {
                let expected = map.iter().filter(|((text, _), _)| text == one.0).map(|(key, _)| key.clone());
                let found = tree.prefix((one.0,)).unwrap().map(|pair| pair.unwrap().0);
                assert!(found.eq(expected), "seed {seed}, round {round}");
            }
            _ => {
                let mut cursor = tree.cursor().unwrap();
                let at = |pair: Option<(&(String, i32), &String)>| {
                    pair.map(|(key, value)| (key.clone(), value.clone()))
                };
                let here = |found: bool, cursor: &esker::TypedCursor<(String, i32), String>| {
                    let pair = cursor.key().unwrap().zip(cursor.value().unwrap());
                    assert_eq!(pair.is_some(), found, "seed {seed}, round {round}");
                    pair
                };
                let found = cursor.seek(one).unwrap();
                assert_eq!(here(found, &cursor), at(map.range(owned(one)..).next()), "round {round}");
                let found = cursor.seek_for_prev(one).unwrap();
                assert_eq!(here(found, &cursor), at(map.range(..=owned(one)).next_back()), "round {round}");
            }
        }
        assert_eq!(tree.first().unwrap().as_ref().map(|(key, _)| key), map.keys().next());
        assert_eq!(tree.last().unwrap().as_ref().map(|(key, _)| key), map.keys().next_back());
    }
}

#[test]
fn bytes_of_another_type_are_an_error_that_names_tree_and_key() {
    let db = memory();
    let raw = db.create_tree("mixed", TreeOptions::default()).unwrap();
    raw.put([0, 0, 0, 7], "forty-two").unwrap();
    raw.put("long key", 42_u64.to_be_bytes()).unwrap();
    let tree: TypedTree<u32, u64> = TypedTree::of(raw).unwrap();
    let error = tree.get(7).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.message().contains(r#"key "\x00\x00\x00\x07" of tree "mixed" is no u64"#), "{error}");
    let mut pairs = tree.iter().unwrap();
    let error = pairs.next_back().unwrap().unwrap_err();
    assert!(error.message().contains(r#"key "long key" of tree "mixed" is no u32"#), "{error}");
    assert!(pairs.next().is_none() && pairs.next_back().is_none(), "after an error there are no more");
    assert_eq!(tree.update(7, |old| old).unwrap_err().kind(), ErrorKind::InvalidInput);
    let snapshot = db.snapshot();
    assert!(tree.at(&snapshot).get(7).unwrap_err().message().contains("mixed"));
    let txn = db.begin(TxnOptions::default()).unwrap();
    assert!(tree.within(&txn).get(7).unwrap_err().message().contains("mixed"));
    let mut pairs = tree.within(&txn).range(..).unwrap().map(|pair| pair.map(drop).is_err());
    assert_eq!((pairs.next(), pairs.next()), (Some(true), None));
    drop(pairs);
    txn.rollback();
    // They can still be looked at, and removed.
    assert!(tree.contains(7).unwrap());
    tree.delete(7).unwrap();
    assert_eq!(tree.get(7).unwrap(), None);
    let bytes: TypedTree<Vec<u8>, Vec<u8>> = TypedTree::of(tree.tree().clone()).unwrap();
    assert_eq!(bytes.pop_last().unwrap().map(|(key, _)| key), Some(b"long key".to_vec()));
    assert!(bytes.is_empty().unwrap());
}

#[test]
fn a_tree_remembers_the_type_of_its_keys() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let db = Db::open(&path, Options::default()).unwrap();
    let tags = [
        db.open_typed::<u64, String>("names").unwrap().tree().tag(),
        db.open_typed::<String, i64>("counts").unwrap().tree().tag(),
        db.open_typed::<(String,), ()>("one").unwrap().tree().tag(),
        db.open_typed::<(String, Vec<u8>, f64), Vec<u8>>("three").unwrap().tree().tag(),
        db.open_typed::<Vec<u8>, f64>("bytes").unwrap().tree().tag(),
    ];
    let tags = tags.map(Option::unwrap);
    assert_eq!(tags, ["u64", "text i64", "text,", "text,hex,f64 hex", "hex f64"]);
    db.tree("untyped").unwrap().put("a", "b").unwrap();
    let noted = db.tree("noted").unwrap();
    noted.set_tag("text of a page").unwrap();
    db.close().unwrap();
    drop((noted, db));

    let db = Db::open(&path, Options::default()).unwrap();
    let error = db.open_typed::<i64, String>("names").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.message().contains("the keys of tree \"names\" are of type u64, not i64"), "{error}");
    assert!(db.open_typed::<(u64,), String>("names").is_err());
    assert!(db.open_typed::<String, String>("one").is_err());
    assert!(db.open_typed::<(String, String, f64), Vec<u8>>("three").is_err());
    let error = db.open_typed::<u64, u64>("names").unwrap_err();
    let said = "the values of tree \"names\" are of type text, not u64";
    assert!(error.kind() == ErrorKind::InvalidInput && error.message().contains(said), "{error}");
    assert!(db.open_typed::<String, u64>("counts").is_err());
    db.open_typed::<u64, Vec<u8>>("names").unwrap();
    db.open_typed::<Vec<u8>, String>("names").unwrap();
    db.open_typed::<String, f64>("bytes").unwrap();
    // No types are known of these, and none are written.
    db.open_typed::<u64, String>("untyped").unwrap();
    db.open_typed::<u64, String>("noted").unwrap();
    assert_eq!(db.tree("untyped").unwrap().tag(), None);
    assert_eq!(db.tree("noted").unwrap().tag().as_deref(), Some("text of a page"));
    db.close().unwrap();
}

/// What has bytes of its own is a value, and no other bytes are taken for it.
#[test]
fn values_of_all_types_come_back() {
    fn comes_back<V>(values: &[V])
    where
        V: esker::ValueCodec<Value = V, Ref = V> + Debug + PartialEq,
    {
        let db = memory();
        let tree = db.open_typed::<u32, V>("tree").unwrap();
        for (key, value) in (0..).zip(values) {
            assert_eq!(tree.insert(key, value).unwrap(), None);
            assert_eq!(tree.get(key).unwrap().as_ref(), Some(value));
        }
        let found = tree.get_many(0..=values.len() as u32).unwrap();
        assert!(found.iter().flatten().eq(values) && found.last() == Some(&None));
        tree.tree().put(TypedTree::<u32, V>::key_bytes(0), [7; 3]).unwrap();
        assert_eq!(tree.get(0).unwrap_err().kind(), ErrorKind::InvalidInput);
    }
    comes_back(&[false, true]);
    comes_back(&[0, 1, u8::MAX]);
    comes_back(&[i16::MIN, 0, i16::MAX]);
    comes_back(&[u128::MIN, u128::MAX]);
    comes_back(&[[0, 1], [255, 255]]);
    comes_back(&[-0.5, f64::INFINITY]);
}

/// The calls of a typed tree are there within a transaction too, and do nothing outside of it before the commit.
#[test]
fn a_typed_transaction_can_do_what_a_typed_tree_can() {
    let db = memory();
    let numbers = db.open_typed::<(String, u32), i64>("numbers").unwrap();
    let all = || numbers.iter().unwrap().map(|pair| pair.unwrap()).collect::<Vec<_>>();
    let pair = |name: &str, key, value| ((name.to_owned(), key), value);
    for key in 0..4 {
        numbers.put(("a", key), &i64::from(key)).unwrap();
    }
    let before = all();
    let txn = db.begin(TxnOptions::default()).unwrap();
    let within = numbers.within(&txn);
    assert_eq!(within.insert(("b", 0), &7).unwrap(), None);
    assert_eq!(within.remove(("a", 0)).unwrap(), Some(0));
    assert_eq!(within.put_if_absent(("a", 1), &9).unwrap(), Some(1));
    assert_eq!(within.update(("b", 0), |old| old.map(|old| old + 1)).unwrap(), Some(8));
    let refused = within.try_update(("b", 0), |_| Err(esker::Error::new(ErrorKind::Io, "no")));
    assert_eq!(refused.unwrap_err().message(), "no");
    within.add(("b", 0), 2).unwrap();
    assert_eq!(within.get_many([("b", 0), ("b", 1)]).unwrap(), [Some(10), None]);
    let keys: Vec<u32> = within.prefix(("a",)).unwrap().rev().map(|pair| pair.unwrap().0.1).collect();
    assert_eq!(keys, [3, 2, 1]);
    let mut range = within.range_for_update(("a", 2)..).unwrap();
    assert_eq!(range.next_back().unwrap().unwrap(), pair("b", 0, 10));
    assert_eq!(range.next().unwrap().unwrap(), pair("a", 2, 2));
    assert_eq!(range.next().unwrap().unwrap(), pair("a", 3, 3));
    assert!(range.next_back().is_none() && range.next().is_none());
    assert_eq!((within.count(..).unwrap(), within.is_empty().unwrap()), (4, false));
    assert_eq!(within.first().unwrap(), Some(pair("a", 1, 1)));
    assert_eq!(within.pop_first().unwrap(), Some(pair("a", 1, 1)));
    assert_eq!(within.pop_last().unwrap(), Some(pair("b", 0, 10)));
    assert_eq!(within.last().unwrap(), Some(pair("a", 3, 3)));
    assert_eq!(within.iter().unwrap().count(), 2);
    assert_eq!(all(), before);
    drop(range);
    txn.commit().unwrap();
    assert_eq!(all(), [pair("a", 2, 2), pair("a", 3, 3)]);
    // A view of a snapshot outlives the handle that it was made of, and goes to another thread.
    let at = numbers.at(&db.snapshot());
    numbers.delete_range(..).unwrap();
    let count = std::thread::spawn(move || (at.is_empty().unwrap(), at.iter().unwrap().count()));
    assert_eq!(count.join().unwrap(), (false, 2));
}

#[test]
fn a_tree_that_is_there_keeps_its_options() {
    let db = memory();
    let unlogged = || TreeOptions::default().log(false);
    assert!(!db.tree_with("cache", unlogged()).unwrap().options().log);
    assert!(!db.tree_with("cache", TreeOptions::default()).unwrap().options().log);
    assert!(db.tree_with("main", TreeOptions::default()).unwrap().options().log);
    let typed = db.open_typed_with::<u64, String>("typed", unlogged()).unwrap();
    assert!(!typed.tree().options().log && typed.tree().tag().as_deref() == Some("u64"));
    let impossible = TreeOptions::default().group("\0".repeat(300));
    for name in ["cache", "new"] {
        assert_eq!(db.tree_with(name, impossible.clone()).unwrap_err().kind(), ErrorKind::InvalidInput);
    }
}

/// Handles are in the structures of programs that print themselves.
#[test]
fn handles_print_in_one_line() {
    let db = memory();
    let tree = db.tree("names").unwrap();
    let txn = db.begin(TxnOptions::default()).unwrap();
    let printed =
        [format!("{db:?}"), format!("{tree:?}"), format!("{txn:?}"), format!("{:?}", db.snapshot())];
    assert!(printed.iter().all(|text| text.len() < 200), "{printed:?}");
    assert!(printed[1].contains("names"), "{}", printed[1]);
}

#[test]
fn snapshots_transactions_and_batches_have_types_too() {
    let db = memory();
    let names = db.open_typed::<u64, String>("names").unwrap();
    let ids = db.open_typed::<String, u64>("ids").unwrap();
    let mut batch = Batch::new();
    for (id, name) in [(1, "ada"), (2, "bo"), (3, "cy")] {
        names.add_to(&mut batch).put(id, name).unwrap();
        ids.add_to(&mut batch).put(name, &id).unwrap();
    }
    names.add_to(&mut batch).delete(3).unwrap();
    ids.add_to(&mut batch).delete_range("c"..).unwrap();
    db.write(&batch).unwrap();
    let before = db.snapshot();
    db.transact(TxnOptions::default(), |txn| -> esker::Result<()> {
        let (names, ids) = (names.within(txn), ids.within(txn));
        let (ada, bo) = (names.get(1)?.unwrap(), names.get_for_update(2)?.unwrap());
        names.put(1, &bo)?;
        names.put(2, &ada)?;
        ids.put(&ada, &2)?;
        ids.put(&bo, &1)?;
        let pairs: Vec<(u64, String)> = names.range(..)?.collect::<esker::Result<_>>()?;
        assert_eq!(pairs, [(1, "bo".to_owned()), (2, "ada".to_owned())]);
        assert!(!ids.contains("cy")?);
        Ok(())
    })
    .unwrap();
    assert_eq!((names.get(1).unwrap().as_deref(), ids.get("bo").unwrap()), (Some("bo"), Some(1)));
    let before = names.at(&before);
    assert_eq!(before.get(1).unwrap().as_deref(), Some("ada"));
    assert_eq!(before.first().unwrap(), Some((1, "ada".to_owned())));
    assert_eq!(before.last().unwrap(), Some((2, "bo".to_owned())));
    assert_eq!(before.count(..2).unwrap(), 1);
    assert!(before.range(2..).unwrap().map(Result::unwrap).eq([(2, "bo".to_owned())]));
    assert!(before.contains(2).unwrap() && !before.contains(3).unwrap());
    assert_eq!(ids.prefix("a").unwrap().count(), 1);
}

/// A value of the type `i64` is what [`Tree::add`](esker::Tree::add) counts.
#[test]
fn a_number_is_a_counter() {
    let counts = memory().open_typed::<String, i64>("counts").unwrap();
    counts.tree().add("visits", 3).unwrap();
    assert_eq!(counts.get("visits").unwrap(), Some(3));
    counts.put("visits", &-5).unwrap();
    counts.tree().add("visits", 1).unwrap();
    assert_eq!(counts.update("visits", |old| old.map(|old| old * 2)).unwrap(), Some(-8));
    assert_eq!(counts.update("visits", |_| None).unwrap(), None);
    assert_eq!(counts.put_if_absent("visits", &1).unwrap(), None);
    assert_eq!(counts.put_if_absent("visits", &2).unwrap(), Some(1));
}

mod by_serde {
    use std::collections::BTreeMap;

    use esker::{Db, ErrorKind, Serde};
    use serde::{Deserialize, Serialize};

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    enum Address {
        None,
        Mail(String),
        Post { street: String, number: u32 },
    }

    #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
    struct User {
        name: String,
        age: Option<u32>,
        addresses: Vec<Address>,
        notes: BTreeMap<String, f64>,
    }

    /// The next version of [`User`]: a field less, a new one, and another order.
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct NewUser {
        #[serde(default)]
        is_admin: bool,
        notes: BTreeMap<String, f64>,
        addresses: Vec<Address>,
        name: String,
    }

    fn users(db: &Db) -> (esker::TypedTree<u64, Serde<User>>, User) {
        let tree = db.open_typed::<u64, Serde<User>>("users").unwrap();
        let post = Address::Post { street: "High Street".to_owned(), number: 7 };
        let ada = User {
            name: "Ada".to_owned(),
            age: Some(36),
            addresses: vec![Address::None, Address::Mail("ada@example.org".to_owned()), post],
            notes: BTreeMap::from([("height".to_owned(), 1.66)]),
        };
        tree.put(7, &ada).unwrap();
        (tree, ada)
    }

    #[test]
    fn a_structure_comes_back_and_a_later_version_reads_it() {
        let db = super::memory();
        let (tree, ada) = users(&db);
        assert_eq!(tree.get(7).unwrap().as_ref(), Some(&ada));
        let new = db.open_typed::<u64, Serde<NewUser>>("users").unwrap();
        let User { name, addresses, notes, .. } = ada.clone();
        assert_eq!(new.get(7).unwrap(), Some(NewUser { is_admin: false, notes, addresses, name }));
        let aged = tree.update(7, |user| user.map(|user| User { age: None, ..user })).unwrap();
        assert_eq!(aged, Some(User { age: None, ..ada }));
    }

    /// Every single cut and every change of one byte is another value or an error, and no panic.
    #[test]
    fn other_bytes_are_an_error_that_names_tree_and_key() {
        let db = super::memory();
        let (tree, _) = users(&db);
        let key = 7_u64.to_be_bytes();
        let good = tree.tree().get_vec(key).unwrap().unwrap();
        for len in 0..good.len() {
            tree.tree().put(key, &good[..len]).unwrap();
            let error = tree.get(7).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            assert!(error.message().contains("of tree \"users\" is no "), "{error}");
        }
        tree.tree().put(key, [&good[..], &[0xc0]].concat()).unwrap();
        assert!(tree.get(7).unwrap_err().message().contains("1 bytes after the value"));
        for at in 0..good.len() {
            for change in [1, 0x55, 0x80, 0xff] {
                let mut bad = good.clone();
                bad[at] ^= change;
                tree.tree().put(key, &bad).unwrap();
                drop(tree.get(7));
            }
        }
    }

    /// The format of values on the disk: it must not change.
    #[test]
    fn the_bytes_are_message_pack_with_names() {
        let db = super::memory();
        #[derive(Serialize, Deserialize)]
        struct Point {
            x: i32,
            y: Option<bool>,
        }
        let points = db.open_typed::<u32, Serde<Point>>("points").unwrap();
        points.put(1, &Point { x: -1, y: Some(true) }).unwrap();
        let stored = points.tree().get_vec(1_u32.to_be_bytes()).unwrap().unwrap();
        assert_eq!(stored, [0x82, 0xa1, b'x', 0xff, 0xa1, b'y', 0xc3]);
    }

    /// A type that serde cannot store in this format.
    #[test]
    fn a_value_without_an_encoding_is_an_error_and_nothing_is_written() {
        struct Never;
        impl Serialize for Never {
            fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
                Err(serde::ser::Error::custom("it is too heavy"))
            }
        }
        impl<'de> Deserialize<'de> for Never {
            fn deserialize<D: serde::Deserializer<'de>>(_: D) -> Result<Never, D::Error> {
                Ok(Never)
            }
        }
        let tree = super::memory().open_typed::<String, Serde<Never>>("stones").unwrap();
        let error = tree.put("big", &Never).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.message().contains("\"big\" of tree \"stones\""), "{error}");
        assert!(error.message().contains("too heavy"), "{error}");
        assert!(tree.is_empty().unwrap());
    }
}
