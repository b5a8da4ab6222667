//! Power cuts on a simulated disk, in the midst of writes, of changes of tables, and of openings: what was acknowledged is
//! there, what was under way is there whole or not at all, and nothing else is.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use esker::env::{Env, JobKind, Random as Randomness, StepExecutor};
use esker::fs::sim::SimFs;
use esker::{Durability, Options, ScanRange};
use esker_table::{AccessGroup, Family, Read, RowMutation, Schema, Table, Tables};

use test_kit::Rng;

/// Power cuts of a life.
const CRASHES: u64 = 8;

const TABLES: &[&str] = &["t", "u", "space:v"];
const FAMILIES: &[&str] = &["f", "g", "h"];
const ROWS: &[&str] = &["a", "b"];
const SPLITS: &[&str] = &["a", "aa", "b"];

/// What a table is, as a user sees it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Known {
    families: BTreeSet<String>,
    is_disabled: bool,
    /// The access groups that are split, and at which rows.
    splits: BTreeSet<(String, String)>,
    cells: BTreeMap<(String, String, i64), String>,
}

/// What the store holds, as a user sees it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct World {
    namespaces: BTreeSet<String>,
    tables: BTreeMap<String, Known>,
}

#[derive(Debug)]
struct Seeded(AtomicU64);

impl Randomness for Seeded {
    fn next_u64(&self) -> u64 {
        test_kit::mix(self.0.fetch_add(test_kit::STEP, Ordering::Relaxed))
    }
}

fn open(disk: &SimFs, random: &mut Rng) -> esker_table::Result<Tables> {
    let env = Env {
        fs: Arc::new(disk.clone()),
        random: Arc::new(Seeded(AtomicU64::new(random.index(1 << 30) as u64))),
        executor: Some(Arc::new(StepExecutor)),
        ..Env::system()
    };
    let options = Options::default().env(env).memory_budget(8 << 20).durability(Durability::Power);
    Tables::open("store", options.memtable_bytes(random.of(&[4 << 10, 64 << 10])))
}

/// The access groups of a table that are split, and at which rows. Each part that the catalog has is a tree.
fn splits(tables: &Tables, table: &Table) -> BTreeSet<(String, String)> {
    let text = table.schema().to_xml().unwrap();
    let number = attribute(&text, "table");
    let prefix = format!("part {number}.");
    let mut splits = BTreeSet::new();
    let mut trees = BTreeSet::new();
    for pair in tables.db().tree("tables").unwrap().scan(ScanRange::prefix(&prefix)).unwrap() {
        let (key, row) = pair.map(|(key, row)| (String::from_utf8(key).unwrap(), row)).unwrap();
        let group = key[prefix.len()..].split_once('.').unwrap().0;
        let of_group = text.split("<AccessGroup ").skip(1).find(|text| attribute(text, "id") == group);
        splits.insert((attribute(of_group.unwrap(), "name").to_owned(), String::from_utf8(row).unwrap()));
        trees.insert(key.replacen("part", "table", 1));
    }
    let is_part =
        |name: &String| name.starts_with(&format!("table {number}.")) && name.matches('.').count() == 2;
    assert_eq!(tables.db().tree_names().into_iter().filter(is_part).collect::<BTreeSet<_>>(), trees);
    let rows: BTreeSet<String> = splits.iter().map(|(_, row)| row.clone()).collect();
    assert!(table.split_rows().iter().eq(rows.iter().map(String::as_bytes)));
    splits
}

/// The trees that the groups of a table begin with.
fn trees_of(table: &Table) -> Vec<String> {
    let text = table.schema().to_xml().unwrap();
    let groups = text.split("<AccessGroup ").skip(1);
    groups.map(|group| format!("table {}.{}", attribute(&text, "table"), attribute(group, "id"))).collect()
}

/// The trees of the store with which groups of tables begin, whether there are such groups or not.
fn first_trees(tables: &Tables) -> BTreeSet<String> {
    let names = tables.db().tree_names().into_iter();
    names.filter(|name| name.starts_with("table ") && name.matches('.').count() == 1).collect()
}

/// The value of the first attribute with this name.
fn attribute<'a>(text: &'a str, name: &str) -> &'a str {
    text.split_once(&format!("{name}=\"")).unwrap().1.split_once('"').unwrap().0
}

/// What is there, seen through the interface. A disabled table is enabled for it, and is not any more then.
fn seen(tables: &Tables) -> World {
    let mut world =
        World { namespaces: tables.namespaces().unwrap().into_iter().collect(), ..World::default() };
    let mut trees = BTreeSet::new();
    for name in tables.names() {
        let table = tables.table(&name).unwrap();
        let is_disabled = !table.is_enabled();
        if is_disabled {
            tables.enable(&name).unwrap();
        }
        let schema = table.schema();
        let families = schema.groups().iter().flat_map(AccessGroup::families);
        let families = families.map(|family| family.name().to_owned()).collect();
        let mut cells = BTreeMap::new();
        let mut scan = table.scan("", "", &Read::all().versions(u32::MAX)).unwrap();
        while scan.advance().unwrap() {
            let row = String::from_utf8(scan.row().to_vec()).unwrap();
            let cell = scan.cell().unwrap().unwrap();
            let value = String::from_utf8(cell.value).unwrap();
            cells.insert((row, cell.family, cell.timestamp), value);
        }
        let splits = splits(tables, &table);
        trees.extend(trees_of(&table));
        world.tables.insert(name, Known { families, is_disabled, splits, cells });
    }
    assert_eq!(first_trees(tables), trees);
    world
}

/// Does one thing to the store and, as it should become, to `world`. `None`: the disk is dead.
fn step(random: &mut Rng, tables: &Tables, world: &mut World, written: &mut u64) -> esker_table::Result<()> {
    let (name, other, family) = (random.of(TABLES), random.of(TABLES), random.of(FAMILIES));
    let (is_there, has_other) = (world.tables.contains_key(name), world.tables.contains_key(other));
    let has_space = world.namespaces.contains("space");
    match random.index(16) {
        0 => {
            if !world.namespaces.insert("space".to_owned()) {
                return Ok(());
            }
            tables.create_namespace("space")
        }
        1 if !is_there && (!name.contains(':') || has_space) => {
            let families = BTreeSet::from([family.to_owned()]);
            world.tables.insert(name.to_owned(), Known { families, ..Known::default() });
            tables.create(name, Schema::new().group("a", [Family::new(family).max_versions(None)])).map(drop)
        }
        2 if is_there && random.index(4) == 0 => {
            world.tables.remove(name);
            tables.drop_table(name)
        }
        3 if is_there && !has_other && (!other.contains(':') || has_space) => {
            let known = world.tables.remove(name).unwrap();
            world.tables.insert(other.to_owned(), known);
            tables.rename(name, other)
        }
        what => {
            let Some(known) = world.tables.get_mut(name) else { return Ok(()) };
            let table = tables.table(name)?;
            let schema = || (*table.schema()).clone();
            let has = known.families.contains(family);
            match what {
                // Several new trees at once.
                4 if random.index(3) == 0 => {
                    let news = FAMILIES.iter().filter(|family| !known.families.contains(**family));
                    let news: Vec<&str> = news.copied().collect();
                    let add = |schema: Schema, name: &&str| {
                        schema.with_family(name, Family::new(*name).max_versions(None))
                    };
                    known.families.extend(news.iter().map(|name| (*name).to_owned()));
                    tables.alter(name, news.iter().fold(schema(), add))
                }
                4 if !has => {
                    known.families.insert(family.to_owned());
                    let group = random.of(&["a", "b"]);
                    let family = Family::new(family).max_versions(None);
                    tables.alter(name, schema().with_family(group, family))
                }
                5 if has && known.families.len() > 1 => {
                    known.families.remove(family);
                    known.cells.retain(|(_, of, _), _| of != family);
                    let left = schema().without_family(family);
                    known.splits.retain(|(of, _)| left.groups().iter().any(|group| group.name() == of));
                    tables.alter(name, schema().without_family(family))
                }
                6 if has => {
                    let Some(to) = FAMILIES.iter().find(|to| !known.families.contains(**to)) else {
                        return Ok(());
                    };
                    known.families.remove(family);
                    known.families.insert((*to).to_owned());
                    let renamed = |(row, of, at): (String, String, i64)| {
                        (row, if of == family { (*to).to_owned() } else { of }, at)
                    };
                    let cells = std::mem::take(&mut known.cells);
                    known.cells = cells.into_iter().map(|(place, value)| (renamed(place), value)).collect();
                    tables.alter(name, schema().with_family_renamed(family, to))
                }
                7 => {
                    known.is_disabled = !known.is_disabled;
                    if known.is_disabled { tables.disable(name) } else { tables.enable(name) }
                }
                8 if random.index(3) == 0 => {
                    let row = random.of(SPLITS);
                    let schema = schema();
                    let groups =
                        schema.groups().iter().map(|group| (group.name().to_owned(), row.to_owned()));
                    known.splits.extend(groups);
                    table.split(row)
                }
                _ if known.is_disabled => Ok(()),
                8 => tables.db().flush().map_err(Into::into),
                9 if random.index(3) == 0 => table.compact(),
                9 if random.index(4) == 0 => {
                    known.cells.clear();
                    tables.truncate(name)
                }
                9 | 10 => {
                    let row = random.of(ROWS);
                    known.cells.retain(|(of, _, at), _| of != row || *at > 2);
                    table.mutate(&RowMutation::new(row).delete_row_up_to(2))
                }
                _ => {
                    let mut mutations = Vec::new();
                    for row in ROWS.iter().take(1 + random.index(2)) {
                        let mut mutation = RowMutation::new(*row);
                        for family in &known.families {
                            *written += 1;
                            let (at, value) = (random.index(4) as i64, written.to_string());
                            mutation = mutation.put_at(family, "", at, value.clone());
                            known.cells.insert(((*row).to_owned(), family.clone(), at), value);
                        }
                        mutations.push(mutation);
                    }
                    table.mutate_rows(&mutations)
                }
            }
        }
    }
}

#[test]
fn power_cuts_leave_tables_whole() {
    let lives = test_kit::seeds(60);
    let (mut cut_openings, mut done_changes, mut undone_changes) = (0, 0, 0);
    for seed in lives.clone() {
        println!("ESKER_SEED={seed} ESKER_CASES=1");
        let mut random = Rng::new(seed.wrapping_mul(0x9e37_79b9));
        let mut disk = SimFs::new(seed);
        // What is certain, and what the step that was cut would have made of it.
        let (mut before, mut after) = (World::default(), World::default());
        before.namespaces.insert("default".to_owned());
        after.clone_from(&before);
        let mut written = 0;
        for crash in 0..CRASHES {
            let tables = loop {
                // An opening may be cut too.
                let is_cut = random.index(3) == 0;
                disk.set_crash_after(is_cut.then(|| disk.operations() + random.index(60) as u64));
                match open(&disk, &mut random) {
                    Ok(tables) if !disk.is_dead() => break tables,
                    // The disk has died within a step that an opening can do without.
                    Ok(_) => {}
                    Err(error) => assert!(disk.is_dead(), "{error}"),
                }
                cut_openings += 1;
                disk = disk.crash(seed * 100 + crash);
            };
            disk.set_crash_after(None);
            let mut now = seen(&tables);
            assert!(now == before || now == after, "{now:#?} is neither {before:#?} nor {after:#?}");
            if before != after {
                *(if now == before { &mut undone_changes } else { &mut done_changes }) += 1;
            }
            // Looking has enabled all tables.
            now.tables.values_mut().for_each(|known| known.is_disabled = false);
            before = now;
            disk.set_crash_after(Some(disk.operations() + random.index(600) as u64));
            loop {
                after.clone_from(&before);
                match step(&mut random, &tables, &mut after, &mut written) {
                    Ok(()) if !disk.is_dead() => before.clone_from(&after),
                    Ok(()) => break,
                    Err(error) => {
                        assert!(disk.is_dead(), "{error}");
                        break;
                    }
                }
                if random.index(4) == 0 {
                    tables.db().step(random.of(&JobKind::ALL));
                }
            }
            drop(tables);
            disk = disk.crash(seed * 1000 + crash);
        }
    }
    println!("{cut_openings} openings cut, {done_changes} cut steps were done, {undone_changes} were not");
    assert!(
        lives.count() < 60 || cut_openings.min(done_changes).min(undone_changes) >= 10,
        "the test has lost its teeth"
    );
}

/// A change is cut at each of its operations: while it makes trees, before and after it counts, and while it drops trees. The
/// table has its old schema or its new one, with its cells, and there are no other trees.
#[test]
fn a_change_that_is_cut_leaves_no_trees() {
    let seed = test_kit::seed(1);
    let mut random = Rng::new(seed);
    let disk = SimFs::new(seed);
    let group = |schema: Schema, name: &&str| schema.group(*name, [Family::new(*name)]);
    let old = ["a", "b", "c"].iter().fold(Schema::new(), group);
    let new = ["d", "b", "e", "f"].iter().fold(Schema::new(), group);
    let tables = open(&disk, &mut random).unwrap();
    tables
        .create("t", old)
        .unwrap()
        .mutate(&RowMutation::new("r").put("a", "", "1").put("b", "", "2"))
        .unwrap();
    drop(tables);
    let names = |table: &Table| -> Vec<String> {
        table.schema().groups().iter().map(|group| group.name().to_owned()).collect()
    };
    let (mut cuts, mut undone, mut left) = (0, 0, 0);
    loop {
        let disk = disk.fork();
        let tables = open(&disk, &mut random).unwrap();
        disk.set_crash_after(Some(disk.operations() + cuts));
        let done = tables.alter("t", new.clone());
        if !disk.is_dead() {
            done.unwrap();
            assert_eq!(first_trees(&tables), trees_of(&tables.table("t").unwrap()).into_iter().collect());
            break;
        }
        drop(tables);
        let disk = disk.crash(seed * 1000 + cuts);
        let env = Env { fs: Arc::new(disk.fork()), executor: Some(Arc::new(StepExecutor)), ..Env::system() };
        let found = esker::Db::open("store", Options::default().env(env).memory_budget(8 << 20)).unwrap();
        let found = found.tree_names().into_iter().filter(|name| name.starts_with("table ")).count();
        let tables = open(&disk, &mut random).unwrap();
        let table = tables.table("t").unwrap();
        assert_eq!(first_trees(&tables), trees_of(&table).into_iter().collect(), "{cuts}");
        left += usize::from(found > first_trees(&tables).len());
        let cells = table.get("r", &Read::all()).unwrap();
        let values: Vec<&[u8]> = cells.iter().map(|cell| &cell.value[..]).collect();
        if names(&table) == ["a", "b", "c"] {
            undone += 1;
            assert!(done.is_err() && values == [b"1", b"2"], "{cuts}");
            // It can be done again.
            tables.alter("t", new.clone()).unwrap();
        }
        assert_eq!(names(&table), ["d", "b", "e", "f"], "{cuts}");
        assert_eq!(table.get("r", &Read::all()).unwrap().len(), 1, "{cuts}");
        assert_eq!(first_trees(&tables), trees_of(&table).into_iter().collect(), "{cuts}");
        cuts += 1;
    }
    println!("{cuts} cuts, of which {undone} undid the change, and {left} left trees to the opening");
    assert!(undone >= 3 && cuts - undone >= 2 && left >= 4, "the test has lost its teeth");
}
