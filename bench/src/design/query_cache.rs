//! `query-cache`: reads and writes of a table without the query cache and with it, where it has the answer and where it has not.

use crate::args::Args;
use crate::data::{Draws, Values, key16};
use crate::stores::Result;
use esker::Options;
use esker_table::{Comparator, Comparison, Family, Filter, Read, RowMutation, Schema, Table, Tables};
use std::hint::black_box;
use std::time::Instant;

const CELLS: u64 = 10;
const HOT_ROWS: u64 = 1000;

/// One call, which chooses by a number of 64 random bits.
type Work = Box<dyn Fn(&Table, u64) -> Result<()>>;

fn row(number: u64) -> [u8; 16] {
    key16(number)
}

fn put(table: &Table, number: u64, values: &Values) -> Result<()> {
    let mutation = RowMutation::new(row(number));
    let mutation = (0..CELLS).fold(mutation, |mutation, cell| {
        mutation.put("f", format!("column-{cell}"), values.get(number + cell))
    });
    Ok(table.mutate(&mutation)?)
}

fn scan(table: &Table, first: u64, rows: u64, read: &Read) -> Result<()> {
    let mut scan = table.scan(row(first), row(first + rows), read)?;
    while scan.advance()? {
        black_box((scan.row(), scan.value()));
    }
    Ok(())
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let (rows, seed) = (args.n, args.seed);
    let path = args.dir.join("query-cache");
    std::fs::remove_dir_all(&path).ok();
    std::fs::create_dir_all(&args.dir)?;
    let tables = Tables::open(&path, Options::default().memory_budget(4 << 30))?;
    let table = tables.create("t", Schema::new().group("all", [Family::new("f").max_versions(1)]))?;
    let values = Values::new(seed, 100);
    (0..rows).try_for_each(|number| put(&table, number, &values))?;
    table.compact()?;
    // Of a hundred rows, about one has a cell whose value begins so.
    let few = Filter::value(Comparison::Equal, Comparator::prefix([7]));
    let few = Read::column("f", "column-0").filter(few);
    let works: Vec<(&str, u64, Work)> = vec![
        (
            "get of 10 cells, repeated",
            200_000,
            Box::new(|table, draw| {
                black_box(table.get(row(draw % HOT_ROWS), &Read::all())?);
                Ok(())
            }),
        ),
        (
            "get of 10 cells, not repeated",
            200_000,
            Box::new(move |table, draw| {
                black_box(table.get(row(draw % rows), &Read::all())?);
                Ok(())
            }),
        ),
        (
            "scan of 10 rows, repeated",
            50_000,
            Box::new(|table, draw| scan(table, draw % HOT_ROWS, 10, &Read::all())),
        ),
        (
            "scan of 100 rows by a filter that shows one, repeated",
            20_000,
            Box::new(move |table, draw| scan(table, draw % HOT_ROWS, 100, &few)),
        ),
        ("put of 10 cells", 100_000, Box::new(move |table, draw| put(table, draw % rows, &values))),
    ];
    println!(
        "{rows} rows of {CELLS} cells of 100 bytes; ns of a call without and with the query cache, ratio"
    );
    let only = args.file.as_ref().map_or(String::new(), |only| only.to_string_lossy().into_owned());
    for (name, calls, work) in works.into_iter().filter(|(name, ..)| name.contains(&only)) {
        let mut best = [f64::INFINITY; 2];
        for round in 0..args.rounds {
            // Whoever comes second finds more merges under way.
            let turns = if round % 2 == 0 { [0, 1] } else { [1, 0] };
            for place in turns {
                let bytes = if place == 0 { 0 } else { 256 << 20 };
                tables.set_query_cache(bytes);
                let draws = Draws::new(seed, round);
                (0..calls / 10).try_for_each(|call| work(&table, draws.bits(call)))?;
                let begun = Instant::now();
                (0..calls).try_for_each(|call| work(&table, draws.bits(!call)))?;
                best[place] = best[place].min(begun.elapsed().as_nanos() as f64 / calls as f64);
            }
        }
        println!("{name}: {:.0} {:.0} {:.2}", best[0], best[1], best[0] / best[1]);
    }
    drop((table, tables));
    std::fs::remove_dir_all(&path)?;
    Ok(())
}
