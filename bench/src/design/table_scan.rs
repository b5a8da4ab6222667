//! `table-scan`: a scan of a table beside the store's own cursor over the same tree, and gets of a cell.
//!
//! Both walk over all cells and read every byte of each value. What is printed is the time of one entry of the tree, so
//! versions that the scan does not show count too; lent: the same, without reading the bytes.

use crate::args::Args;
use crate::data::{Draws, Values, key16, mix};
use crate::stores::Result;
use esker::{Cursor, Options, Tree};
use esker_table::{Family, Read, RowMutation, Schema, Table, Tables};
use std::hint::black_box;
use std::time::Instant;

const GETS_MAX: u64 = 100_000;

/// What a table holds and what is read of it.
struct Shape {
    value_bytes: usize,
    /// Cells of a row.
    columns: u64,
    /// Of each cell.
    versions: u32,
    /// As the puts left it, in memory; otherwise in tables.
    in_memory: bool,
}

impl Shape {
    fn name(&self) -> String {
        let place = if self.in_memory { "memory" } else { "tables" };
        format!("{place}: {} bytes, {} cells, {} versions", self.value_bytes, self.columns, self.versions)
    }
}

/// Nanoseconds of one thing by the cursor of the store, and by the table.
struct Best {
    store: f64,
    table: f64,
}

impl Best {
    const NONE: Best = Best { store: f64::INFINITY, table: f64::INFINITY };

    fn note(&mut self, store: f64, table: f64) {
        (self.store, self.table) = (self.store.min(store), self.table.min(table));
    }

    fn print(&self, what: &str) {
        print!(" | {what} {:.1} {:.1} {:.2}", self.store, self.table, self.store / self.table);
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let only = args.file.as_ref().map_or(String::new(), |only| only.to_string_lossy().into_owned());
    println!(
        "{} entries; ns of the store's cursor, ns of the table, ratio: the best of {}",
        args.n, args.rounds
    );
    for in_memory in [false, true] {
        for value_bytes in [10, 100, 1000] {
            for (columns, versions) in [(1, 1), (10, 1), (1, 3), (10, 3)] {
                let shape = Shape { value_bytes, columns, versions, in_memory };
                if shape.name().contains(&only) {
                    one(args, &shape)?;
                }
            }
        }
    }
    Ok(())
}

fn one(args: &Args, shape: &Shape) -> Result<()> {
    let path = args.dir.join("table-scan");
    std::fs::remove_dir_all(&path).ok();
    std::fs::create_dir_all(&args.dir)?;
    let tables = Tables::open(&path, Options::default().memory_budget(16 << 30))?;
    let (table, rows) = filled(args, shape, &tables)?;
    let name = tables.db().tree_names().into_iter().find(|name| name.starts_with("table "));
    let name = name.ok_or("the table has no tree")?;
    let tree = tables.db().open_tree(&name)?.ok_or("the table has no tree")?;
    print!("{}", shape.name());
    let latest = Read::all();
    let all = Read::all().versions(u32::MAX);
    let reads = if shape.versions == 1 {
        vec![("latest", &latest)]
    } else {
        vec![("latest", &latest), ("all", &all)]
    };
    for (what, read) in reads {
        for (is_lent, how) in [(false, what.to_owned()), (true, format!("{what}, lent"))] {
            let mut best = Best::NONE;
            for _ in 0..args.rounds {
                best.note(by_cursor(&tree, is_lent)?, by_scan(&table, read, is_lent, args.n)?);
            }
            best.print(&how);
        }
    }
    for (what, behind) in [("get", ""), ("get missing", "-")] {
        let mut best = Best::NONE;
        for round in 0..args.rounds {
            let draws = Draws::new(args.seed, round);
            let asked: Vec<_> = (0..args.reads.min(GETS_MAX))
                .map(|i| [&key16(mix(draws.below(i, rows)))[..], behind.as_bytes()].concat())
                .collect();
            best.note(seeks(&tree, &asked)?, gets(&table, &asked)?);
        }
        best.print(what);
    }
    println!();
    drop(table);
    std::fs::remove_dir_all(&path)?;
    Ok(())
}

/// The table, and how many rows it has.
fn filled(args: &Args, shape: &Shape, tables: &Tables) -> Result<(Table, u64)> {
    let schema = Schema::new().group("all", [Family::new("f").max_versions(3)]);
    let table = tables.create("t", schema)?;
    let values = Values::new(args.seed, shape.value_bytes);
    let rows = args.n / shape.columns / u64::from(shape.versions);
    for version in 0..u64::from(shape.versions) {
        for row in 0..rows {
            let mut mutation = RowMutation::new(key16(mix(row)));
            for column in 0..shape.columns {
                let (qualifier, value) = (format!("column-{column}"), values.get(row + column + version));
                mutation = mutation.put_at("f", qualifier, version as i64, value);
            }
            table.mutate(&mutation)?;
        }
    }
    if !shape.in_memory {
        table.compact()?;
    }
    Ok((table, rows))
}

/// Reads all bytes, eight at a time.
fn read(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let sum = words.iter().fold(0_u64, |sum, word| sum.wrapping_add(u64::from_le_bytes(*word)));
    rest.iter().fold(sum, |sum, byte| sum.wrapping_add(u64::from(*byte)))
}

/// Nanoseconds of an entry.
fn by_cursor(tree: &Tree, is_lent: bool) -> Result<f64> {
    let begun = Instant::now();
    let mut cursor = tree.cursor()?;
    let (mut count, mut is_on) = (0_u64, cursor.first()?);
    while is_on {
        look(&cursor, is_lent)?;
        count += 1;
        is_on = cursor.next()?;
    }
    Ok(begun.elapsed().as_nanos() as f64 / count as f64)
}

fn look(cursor: &Cursor, is_lent: bool) -> Result<()> {
    let value = cursor.value().bytes()?;
    black_box((cursor.key(), if is_lent { 0 } else { read(&value) }, &value));
    Ok(())
}

/// Nanoseconds of an entry, of which there are `count`.
fn by_scan(table: &Table, what: &Read, is_lent: bool, count: u64) -> Result<f64> {
    let begun = Instant::now();
    let mut scan = table.scan("", "", what)?;
    while scan.advance()? {
        let Some(value) = scan.value() else { continue };
        let value = value.bytes()?;
        let sum = if is_lent { 0 } else { read(&value) };
        black_box((scan.row(), scan.family(), scan.qualifier(), scan.timestamp(), sum, &value));
    }
    Ok(begun.elapsed().as_nanos() as f64 / count as f64)
}

/// Nanoseconds of a new cursor that seeks a row.
fn seeks(tree: &Tree, asked: &[Vec<u8>]) -> Result<f64> {
    let begun = Instant::now();
    for row in asked {
        let mut cursor = tree.cursor()?;
        if cursor.seek(row)? {
            look(&cursor, false)?;
        }
    }
    Ok(begun.elapsed().as_nanos() as f64 / asked.len() as f64)
}

fn gets(table: &Table, asked: &[Vec<u8>]) -> Result<f64> {
    let what = Read::column("f", "column-0");
    let begun = Instant::now();
    for row in asked {
        black_box(table.get(row, &what)?);
    }
    Ok(begun.elapsed().as_nanos() as f64 / asked.len() as f64)
}
