//! Random tables read in every way, against a `BTreeMap`.

use std::cmp::Reverse;

use super::*;

fn key(rng: &mut Rng) -> Vec<u8> {
    match rng.index(12) {
        0 => some_bytes(rng, 1, 256),
        1 => {
            let len = rng.index(6);
            some_bytes(rng, len + 1, 2)
        }
        2 => [&b"shared/prefix/of/some/length/"[..], &some_bytes(rng, 2, 4)].concat(),
        3 => {
            let zeros = rng.index(9);
            [&b"shared/prefix"[..], &vec![0; zeros]].concat()
        }
        4 if rng.index(20) == 0 => {
            let len = [255, 256, 4000, 65_535, 65_536, 131_071, 131_072][rng.index(7)];
            vec![b'x'; len - 1].into_iter().chain([rng.index(3) as u8]).collect()
        }
        5 => (rng.next() % 1000).to_be_bytes().to_vec(),
        6 => vec![0xff; rng.index(12) + 1],
        _ => format!("{:016}", rng.index(5000)).into_bytes(),
    }
}

fn model(rng: &mut Rng, entries: usize) -> Model {
    let mut model = Model::new();
    let one_kind = rng.index(4) == 0;
    let max_seq = [1, 50, 1 << 20, MAX_SEQ][rng.index(4)];
    for _ in 0..entries {
        let key = key(rng);
        let versions = if rng.index(40) == 0 { 60 } else { 1 };
        for _ in 0..versions {
            let seq = rng.next() % max_seq + u64::from(max_seq == MAX_SEQ);
            let put = one_kind || rng.index(5) > 0;
            let len = if rng.index(200) == 0 { rng.index(70_000) } else { rng.index(150) };
            let value = if put { some_bytes(rng, len, 3) } else { Vec::new() };
            let kind = if put { Kind::Put } else { Kind::Delete };
            model.insert((key.clone(), Reverse(seq)), (kind, value));
        }
    }
    model
}

fn options(rng: &mut Rng) -> TableOptions {
    TableOptions {
        block_size: [64, 300, 4096, 16_384, 1 << 20][rng.index(5)],
        compression: COMPRESSIONS[rng.index(COMPRESSIONS.len())],
        filter_bits_tenths: [0, 45, 100, 140][rng.index(4)],
        salt: rng.next(),
        owner: Owner { tree: [None, Some(0), Some(7)][rng.index(3)], cleared: rng.next() % 60 },
        filter_prefix: [None, Some(FilterPrefix::length(2)), Some(FilterPrefix::through([0], 1))]
            [rng.index(3)],
    }
}

fn probe(rng: &mut Rng, model: &Model) -> (Vec<u8>, SeqNo) {
    let (mut probe, mut seq) =
        (key(rng), [0, rng.next() % 60, rng.next() % (1 << 20), MAX_SEQ][rng.index(4)]);
    if rng.index(2) == 0
        && let Some(((key, at), _)) = model.iter().nth(rng.index(model.len().max(1)))
    {
        (probe, seq) = (key.clone(), at.0.saturating_add(rng.below(3)).saturating_sub(1).min(MAX_SEQ));
        match rng.index(5) {
            0 => probe.push(0),
            1 if probe.len() > 1 => drop(probe.pop()),
            _ => {}
        }
    }
    (probe, seq)
}

type Item<'a> = (&'a (Vec<u8>, Reverse<SeqNo>), &'a (Kind, Vec<u8>));

fn owned(item: Option<Item<'_>>) -> Option<(Vec<u8>, SeqNo, Kind, Vec<u8>)> {
    item.map(|((key, seq), (kind, value))| (key.clone(), seq.0, *kind, value.clone()))
}

fn walk(rng: &mut Rng, model: &Model, table: &Arc<TableReader>, hint: ScanHint) {
    let mut cursor = table.cursor(hint);
    assert!(!cursor.valid());
    cursor.seek_to_first().expect("an undamaged table");
    for item in model {
        assert_eq!(current(&cursor), owned(Some(item)));
        cursor.next().expect("an undamaged table");
    }
    assert!(!cursor.valid());
    cursor.seek_to_last().expect("an undamaged table");
    for item in model.iter().rev() {
        assert_eq!(current(&cursor), owned(Some(item)));
        cursor.prev().expect("an undamaged table");
    }
    assert!(!cursor.valid());
    for _ in 0..300 {
        let (key, seq) = probe(rng, model);
        let bound = (key.clone(), Reverse(seq));
        let (mut after, mut before) = (model.range(bound.clone()..), model.range(..bound));
        if rng.index(2) == 0 {
            cursor.seek(&key, seq).expect("an undamaged table");
            for _ in 0..rng.index(40) {
                let expected = owned(after.next());
                assert_eq!(current(&cursor), expected, "seek {key:?} {seq}");
                if expected.is_none() {
                    break;
                }
                cursor.next().expect("an undamaged table");
            }
        } else {
            cursor.seek_before(&key, seq).expect("an undamaged table");
            for _ in 0..rng.index(40) {
                let expected = owned(before.next_back());
                assert_eq!(current(&cursor), expected, "seek_before {key:?} {seq}");
                if expected.is_none() {
                    break;
                }
                cursor.prev().expect("an undamaged table");
            }
        }
    }
}

fn gets(rng: &mut Rng, model: &Model, table: &Arc<TableReader>) {
    for _ in 0..1000 {
        let (key, seq) = probe(rng, model);
        let expected = model.range((key.clone(), Reverse(seq))..).next().filter(|((k, _), _)| *k == key);
        let found = table.get(&key, hash_key(&key), seq).expect("an undamaged table");
        let found = found.map(|found| (key.clone(), found.seq, found.kind, found.value.to_vec()));
        assert_eq!(found, owned(expected), "get {key:?} {seq}");
        assert!(expected.is_none() || table.may_contain(hash_key(&key)));
    }
}

fn check_properties(model: &Model, meta: &TableMeta, table: &TableReader) {
    let properties = table.properties();
    assert_eq!(*properties, meta.properties);
    assert_eq!(properties.entries, model.len() as u64);
    let tombstones = model.values().filter(|(kind, _)| *kind == Kind::Delete).count();
    assert_eq!(properties.tombstones, tombstones as u64);
    let raw: usize = model.iter().map(|((key, _), (_, value))| key.len() + value.len()).sum();
    assert_eq!(properties.raw_bytes, raw as u64);
    let seqs = || model.keys().map(|(_, seq)| seq.0);
    assert_eq!(properties.min_seq, seqs().min().unwrap_or(0));
    assert_eq!(properties.max_seq, seqs().max().unwrap_or(0));
    let ends = [model.first_key_value(), model.last_key_value()];
    let ends = ends.map(|end| end.map(|((key, _), _)| key.clone()).unwrap_or_default());
    assert_eq!([properties.smallest.clone(), properties.largest.clone()], ends);
}

#[test]
fn a_table_answers_as_its_model_does() {
    for seed in test_kit::seeds(60) {
        println!("seed {seed}");
        let mut rng = Rng::new(seed);
        let entries = [0, 1, 20, 1000, 3000][rng.index(5)];
        let model = model(&mut rng, entries);
        let options = options(&mut rng);
        println!("{options:?}, {} entries", model.len());
        let (bytes, meta) = build(&model, options);
        let pool_bytes = [0, 100_000, 10 << 20][rng.index(3)];
        let table = open(bytes, pool_bytes).expect("an undamaged table");
        check_properties(&model, &meta, &table);
        gets(&mut rng, &model, &table);
        walk(&mut rng, &model, &table, ScanHint::Scan);
        walk(&mut rng, &model, &table, ScanHint::Compaction);
    }
}

#[test]
fn entries_that_do_not_ascend_are_refused() {
    let mut writer =
        TableWriter::new(Box::new(MemFile::default()), TableOptions::new(1)).expect("plain options");
    writer.add(b"b", 5, Kind::Put, b"").expect("the first entry");
    for (key, seq) in [(&b"b"[..], 5), (b"b", 6), (b"a", 1), (&[b'c'; 131_077], 1), (b"c", MAX_SEQ + 1)] {
        let error = writer.add(key, seq, Kind::Put, b"").expect_err("out of order or over a limit");
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    }
    writer.add(b"b", 4, Kind::Put, b"").expect("an older version");
    assert_eq!(writer.finish().expect("a table").0.properties.entries, 2);
}

#[test]
fn values_of_megabytes_lie_between_small_ones() {
    for &compression in COMPRESSIONS {
        let mut rng = Rng::new(4);
        let len = |i| if i % 4 == 1 { 3_000_000 + i } else { i };
        let entry =
            |i: usize, rng: &mut Rng| ((vec![i as u8], Reverse(1)), (Kind::Put, some_bytes(rng, len(i), 5)));
        let model: Model = (0..12).map(|i| entry(i, &mut rng)).collect();
        let (bytes, meta) = build(&model, TableOptions { compression, ..TableOptions::new(5) });
        assert!(meta.properties.blocks >= 6);
        let table = open(bytes, 64 << 20).expect("an undamaged table");
        gets(&mut rng, &model, &table);
        let mut cursor = table.cursor(ScanHint::Scan);
        cursor.seek_to_last().expect("an undamaged table");
        for item in model.iter().rev() {
            assert_eq!(current(&cursor), owned(Some(item)));
            cursor.prev().expect("an undamaged table");
        }
        assert_eq!(table.verify(&mut |error| panic!("{error}")), 12);
    }
}

#[test]
fn the_estimate_is_close_to_the_size() {
    let file = MemFile::default();
    let mut writer = TableWriter::new(Box::new(file), TableOptions::new(1)).expect("plain options");
    for i in 0..20_000_u64 {
        writer.add(&i.to_be_bytes(), i, Kind::Put, &[1; 100]).expect("ascending entries");
    }
    let estimate = writer.estimated_size() as f64;
    let size = writer.finish().expect("a table").0.size as f64;
    assert!((estimate / size - 1.0).abs() < 0.02, "{estimate} {size}");
}

#[test]
fn approximate_offsets_ascend_with_the_keys() {
    let model: Model = (0..10_000_u64)
        .map(|i| ((i.to_be_bytes().to_vec(), Reverse(0)), (Kind::Put, vec![7; 100])))
        .collect();
    let (bytes, _) = build(&model, TableOptions::new(3));
    let table = open(bytes, 0).expect("an undamaged table");
    let offsets: Vec<u64> = (0..10_000_u64).map(|i| table.approximate_offset_of(&i.to_be_bytes())).collect();
    assert!(offsets.is_sorted());
    let half = table.data_bytes() as f64 / 2.0;
    assert!((offsets[5000] as f64 - half).abs() < half / 20.0);
    assert_eq!(table.approximate_offset_of(&[0xff]), table.data_bytes());
}
