//! Indexes that are built while their table is written.

use std::sync::atomic::AtomicBool;

use super::*;

/// The entries of the index, each with its row and the value of the cell that is its reason, if there is one.
fn entries(table: &Table) -> Vec<(Vec<u8>, bool)> {
    let shape = table.state.shape();
    let mut cursor = crate::read::Counted::new(
        shape.index.as_ref().unwrap().cursor(&table.tables.db.snapshot(), &[]).unwrap(),
    );
    let (mut entries, mut all) = (index::Entries::all(&mut cursor).unwrap(), Vec::new());
    while let Some(found) = entries.next().unwrap() {
        let row = found.row();
        let has_reason = table.has_text(&row, "f", &found, 0..i64::MAX).unwrap();
        all.push((row, has_reason));
    }
    all
}

fn indexed(table: &Table, is_indexed: bool) -> Schema {
    let family = Family::new("f").max_versions(1).index_values(is_indexed);
    (*table.schema()).clone().with_rules_of(&family)
}

fn is_locked(inner: &Inner, row: &[u8]) -> bool {
    let place = (inner.hasher.hash_one(row) % inner.rows.len() as u64) as usize;
    inner.rows[place].try_lock().is_err()
}

/// Rows of one column, a row of many, and a column of many versions are entered in several pieces, all of them once.
#[test]
fn an_index_is_built_in_pieces_under_the_locks_of_their_rows() {
    let (tables, journal) = watched(Db::open_in_memory);
    let families = [Family::new("f").max_versions(1), Family::new("g").max_versions(None)];
    let table = tables.create("t", Schema::new().group("a", families)).unwrap();
    let rows =
        (0..250_u32).map(|row| RowMutation::new(format!("r{row:03}")).put("f", "q", row.to_be_bytes()));
    let wide = (0..2500_u32).fold(RowMutation::new("r100"), |wide, number| {
        wide.put("f", number.to_be_bytes(), number.to_be_bytes())
    });
    let deep = (0..2500_i64).fold(RowMutation::new("r200"), |deep, at| deep.put_at("g", "q", at, "v"));
    table.mutate_rows(&rows.chain([wide, deep]).collect::<Vec<_>>()).unwrap();

    let pieces = Arc::new(Mutex::new(Vec::new()));
    let (inner, seen) = (Arc::clone(&tables.inner), Arc::clone(&pieces));
    journal.hook(move |batch, propose| {
        // Changes of the schema have no such keys.
        if !batch.is_empty() && batch.size_bytes() > 2000 {
            let locked = inner.rows.iter().filter(|row| row.try_lock().is_err()).count();
            let rows = [100, 200].map(|row| is_locked(&inner, format!("r{row}").as_bytes()));
            seen.lock().unwrap().push((batch.len(), locked, rows));
        }
        propose()
    });
    let family = |name: &str, max: Option<u32>| Family::new(name).max_versions(max).index_values(true);
    let schema = (*table.schema()).clone().with_rules_of(&family("f", Some(1)));
    tables.alter("t", schema.with_rules_of(&family("g", None))).unwrap();
    journal.unhook();
    let pieces = std::mem::take(&mut *pieces.lock().unwrap());
    assert!(pieces.len() >= 6, "{pieces:?}");
    for (len, locked, _) in &pieces {
        assert!(*len <= 1100 && *locked > 0 && *locked <= ROWS_AT_ONCE, "{pieces:?}");
    }
    assert_eq!(pieces.iter().map(|(len, ..)| len).sum::<usize>(), 250 + 2500 + 2500);
    assert!(pieces.iter().filter(|(.., [wide, _])| *wide).count() >= 3);
    assert!(pieces.iter().filter(|(.., [_, deep])| *deep).count() >= 3);
    let text = |number: u32| crate::Comparator::binary(number.to_be_bytes());
    for number in [7, 100, 249, 2400] {
        let filter = crate::Filter::column_value("f", "q", crate::Comparison::Equal, text(number));
        let read = Read::family("f").filter(filter);
        let (mut scan, mut found) = (table.scan("", "", &read).unwrap(), Vec::new());
        while scan.advance().unwrap() {
            found.push(scan.row().to_vec());
        }
        let row = (number < 250).then(|| format!("r{number:03}").into_bytes());
        assert_eq!(found, row.into_iter().collect::<Vec<_>>());
    }
}

/// Ends the writers, also if the test fails.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Writers change the rows that an index is built of, but not between the reading of their cells and the writing of their entries.
#[test]
fn no_mutation_comes_between_a_row_and_its_entries() {
    const ROWS: u8 = 5;
    let (tables, journal) = watched(Db::open_in_memory);
    let family = Family::new("f").max_versions(1);
    let table = tables.create("t", Schema::new().group("a", [family])).unwrap();
    // Each row has something to enter.
    let kept = (0..ROWS).map(|row| RowMutation::new([row]).put("f", "kept", [row]));
    table.mutate_rows(&kept.collect::<Vec<_>>()).unwrap();
    let builder = std::thread::current().id();
    let (db, watcher) = (tables.db().clone(), table.clone());
    let pieces = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&pieces);
    journal.hook(move |_, propose| {
        let values = || (0..ROWS).map(|row| watcher.get([row], &Read::all()).unwrap()).collect::<Vec<_>>();
        if std::thread::current().id() == builder {
            let before = values();
            // Time for a mutation and a merge.
            (0..10).for_each(|_| test_kit::pause());
            db.compact().unwrap();
            assert_eq!(values(), before);
            seen.fetch_add(1, Ordering::Relaxed);
        }
        propose()
    });
    for seed in test_kit::seeds(20) {
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for writer in 0..2 {
                let (table, is_over) = (&table, &is_over);
                scope.spawn(move || {
                    let mut number = seed as u32 * 2 + writer;
                    while !is_over.load(Ordering::Relaxed) {
                        number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                        let row = RowMutation::new([(number >> 24) as u8 % ROWS]);
                        let mutation = match number >> 10 & 3 {
                            0 => row.delete_column("f", "q"),
                            _ => row.put("f", "q", (number >> 12).to_be_bytes()),
                        };
                        table.mutate(&mutation).unwrap();
                        test_kit::pause();
                    }
                });
            }
            let _over = Over(&is_over);
            tables.alter("t", indexed(&table, true)).unwrap();
            if seed % 2 == 0 {
                tables.rebuild_indexes("t").unwrap();
            }
        });
        let entries = entries(&table);
        let cells = (0..ROWS).map(|row| table.get([row], &Read::all()).unwrap().len()).sum::<usize>();
        assert!(entries.iter().all(|(_, has_reason)| *has_reason), "{entries:?}");
        assert_eq!(entries.len(), cells);
        tables.alter("t", indexed(&table, false)).unwrap();
    }
    journal.unhook();
    assert!(pieces.load(Ordering::Relaxed) > 3);
}
