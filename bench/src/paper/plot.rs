//! The paper's figures 5 to 9.

use super::cell::Cell;
use super::child::THREADS;
use super::plan::{MIXES, SIZES};
use super::report::Cells;
use crate::plot::{Axis, Plot, Series};
use crate::stores::Result;
use std::path::Path;

/// One line for each store: file, title, what is drawn, whether of Esker alone, and how.
type Lines = (&'static str, &'static str, &'static str, bool, fn(&Cell) -> f64);

const LINES: [Lines; 9] = [
    ("figure5-put", "Figure 5: PUT, bytes/ms, values inline and separated", "put", true, Cell::bytes_per_ms),
    (
        "figure5-get",
        "Figure 5: GET, bytes/ms, values inline and separated",
        "first",
        true,
        Cell::bytes_per_ms,
    ),
    ("figure6-put", "Figure 6: PUT, bytes/ms", "put", false, Cell::bytes_per_ms),
    ("put-synced", "PUT, synced, bytes/ms", "synced", false, Cell::bytes_per_ms),
    ("figure6-get-first", "Figure 6: GET warm, first read, bytes/ms", "first", false, Cell::bytes_per_ms),
    ("figure6-get-later", "Figure 6: GET warm, later reads, bytes/ms", "later", false, Cell::bytes_per_ms),
    ("figure6-get-cold", "Figure 6: GET cold, bytes/ms", "cold", false, Cell::all_bytes_per_ms),
    ("figure6-delete", "Figure 6: DELETE, microseconds a call", "delete", false, |cell| cell.mean_us),
    ("update", "UPDATE, bytes/ms", "update", false, Cell::bytes_per_ms),
];

/// Writes all figures of which there is something into `dir`.
pub(super) fn all(cells: &[Cell], dir: &Path) -> Result<()> {
    let cells = Cells(cells);
    for (file, title, what, of_esker, figure) in LINES {
        let stores = cells.stores().into_iter();
        let stores = stores
            .filter(|store| if of_esker { store.starts_with("esker") } else { *store != "esker-inline" });
        let series = stores.map(|store| sized(store, |size| cells.find(store, size, what).map(figure)));
        lines(dir, file, title, series.collect())?;
    }
    mixes(&cells, dir)?;
    for (heat, plain) in [("warm", "first"), ("cold", "cold")] {
        let of = |store: &str, what: &str, name: &str| {
            sized(name, |size| cells.find(store, size, what).map(Cell::all_bytes_per_ms))
        };
        let two = of("esker", &format!("{heat}-by-2"), "2 threads");
        let series = vec![of("files", plain, "basic (files)"), of("esker", plain, "chunked"), two];
        lines(dir, &format!("figure8-{heat}"), &format!("Figure 8: GET {heat}, bytes/ms"), series)?;
        let by = |&n: &usize| of("esker", &format!("{heat}-by-{n}"), &format!("{n} threads"));
        let title = format!("Figure 9: GET {heat}, bytes/ms, by threads");
        lines(dir, &format!("figure9-{heat}"), &title, THREADS.iter().map(by).collect())?;
    }
    Ok(())
}

fn mixes(cells: &Cells<'_>, dir: &Path) -> Result<()> {
    let seconds = |store, mix| cells.find(store, mix, "mix").map(|cell| cell.mean_us / 1e6);
    let stores = cells.stores().into_iter().filter(|store| *store != "esker-inline");
    let series = stores.map(|store| Series {
        name: store.to_owned(),
        points: MIXES.iter().map(|mix| seconds(store, mix.name)).collect(),
    });
    let title = "Figure 7: mixed workloads, seconds";
    let columns = MIXES.iter().map(|mix| mix.name.to_owned()).collect();
    write(dir, "figure7", &Plot { title, columns, series: series.collect(), bars: true, axis: Axis::Decades })
}

fn lines(dir: &Path, file: &str, title: &str, series: Vec<Series>) -> Result<()> {
    let columns = SIZES.iter().map(|size| size.name.to_owned()).collect();
    write(dir, file, &Plot { title, columns, series, bars: false, axis: Axis::Decades })
}

fn sized(name: &str, figure: impl Fn(&str) -> Option<f64>) -> Series {
    Series { name: name.to_owned(), points: SIZES.iter().map(|size| figure(size.name)).collect() }
}

fn write(dir: &Path, file: &str, plot: &Plot<'_>) -> Result<()> {
    if plot.series.iter().any(|series| series.points.iter().any(Option::is_some)) {
        std::fs::write(dir.join(format!("{file}.svg")), plot.svg())?;
    }
    Ok(())
}
