//! Tables of what was measured, in Markdown.

use super::cell::Cell;
use super::child::THREADS;
use super::plan::{MIXES, SIZES};
use super::stores::CONTENDERS;
use super::targets;
use crate::plot::number;
use std::fmt::Write;

/// More than this on something else's account, and a figure is marked.
const DISTURBED_CORES: f64 = 0.5;

/// Cells of all rounds.
pub(super) struct Cells<'a>(pub(super) &'a [Cell]);

impl Cells<'_> {
    /// The median round of one figure.
    pub(super) fn find(&self, store: &str, row: &str, what: &str) -> Option<&Cell> {
        let of = |cell: &&Cell| cell.store == store && cell.row == row && cell.what == what;
        let mut rounds: Vec<&Cell> = self.0.iter().filter(of).collect();
        rounds.sort_by(|a, b| a.mean_us.total_cmp(&b.mean_us));
        rounds.get(rounds.len() / 2).copied()
    }

    /// All stores of which there is something, in the order of `CONTENDERS`.
    pub(super) fn stores(&self) -> Vec<&'static str> {
        let names = CONTENDERS.iter().map(|contender| contender.name);
        names.filter(|name| self.0.iter().any(|cell| cell.store == *name)).collect()
    }
}

/// How the cells of one table are made out.
struct Table {
    title: &'static str,
    what: &'static str,
    figure: fn(&Cell) -> f64,
    /// The best is the largest.
    large: bool,
}

const TABLES: &[Table] = &[
    Table {
        title: "PUT, 1,000 bytes/ms",
        what: "put",
        figure: |cell| cell.bytes_per_ms() / 1e3,
        large: true,
    },
    Table {
        title: "PUT, 1,000 bytes/ms, the slowest and the fastest not dropped",
        what: "put",
        figure: |cell| cell.all_bytes_per_ms() / 1e3,
        large: true,
    },
    Table {
        title: "PUT, synced, 1,000 bytes/ms",
        what: "synced",
        figure: |cell| cell.bytes_per_ms() / 1e3,
        large: true,
    },
    Table {
        title: "GET from the page cache, first read after opening, 1,000 bytes/ms",
        what: "first",
        figure: |cell| cell.bytes_per_ms() / 1e3,
        large: true,
    },
    Table {
        title: "GET from the page cache, later reads, 1,000 bytes/ms",
        what: "later",
        figure: |cell| cell.bytes_per_ms() / 1e3,
        large: true,
    },
    Table {
        title: "GET cold, 1,000 bytes/ms, nothing dropped",
        what: "cold",
        figure: |cell| cell.all_bytes_per_ms() / 1e3,
        large: true,
    },
    Table {
        title: "UPDATE (DELETE + PUT), 1,000 bytes/ms",
        what: "update",
        figure: |cell| cell.bytes_per_ms() / 1e3,
        large: true,
    },
    Table { title: "DELETE, microseconds a call", what: "delete", figure: |cell| cell.mean_us, large: false },
    Table {
        title: "Until the space is back, ms from the first delete (MB left: not within 5 s)",
        what: "space",
        figure: |cell| cell.mean_us / 1e3,
        large: false,
    },
    Table {
        title: "Anonymous memory while putting, MB above the idle process",
        what: "memory",
        figure: |cell| cell.extra,
        large: false,
    },
];

pub(super) fn tables(cells: &[Cell], failures: &[String]) -> String {
    let cells = Cells(cells);
    let mut out = String::new();
    counts(&cells, &mut out);
    for table in TABLES {
        one(&cells, table, &mut out);
    }
    direct(&cells, &mut out);
    parallel(&cells, &mut out);
    mixes(&cells, &mut out);
    targets::table(&cells, &mut out);
    if !failures.is_empty() {
        out.push_str("\n### Not measured\n\n");
        for failure in failures {
            writeln!(out, "- {failure}").ok();
        }
    }
    out
}

fn row(out: &mut String, head: &str, cells: impl Iterator<Item = String>) {
    write!(out, "| {head} |").ok();
    for cell in cells {
        write!(out, " {cell} |").ok();
    }
    out.push('\n');
}

/// Title, names of columns and the line below them.
fn head(out: &mut String, title: &str, first: &str, columns: &[&str]) {
    write!(out, "\n### {title}\n\n").ok();
    row(out, first, columns.iter().map(|name| (*name).to_owned()));
    row(out, "---", columns.iter().map(|_| "--:".to_owned()));
}

fn counts(cells: &Cells<'_>, out: &mut String) {
    out.push_str("### Values of each size\n\n");
    let count = |name| cells.0.iter().find(|cell| cell.row == name && cell.what == "put");
    let sizes: Vec<_> = SIZES.iter().filter_map(|size| Some((size.name, count(size.name)?.count))).collect();
    row(out, "size", sizes.iter().map(|size| size.0.to_owned()));
    row(out, "---", sizes.iter().map(|_| "--:".to_owned()));
    row(out, "values", sizes.iter().map(|size| size.1.to_string()));
}

fn one(cells: &Cells<'_>, table: &Table, out: &mut String) {
    let stores = cells.stores();
    head(out, table.title, "size", &stores);
    for size in SIZES {
        let of = |store: &&str| cells.find(store, size.name, table.what);
        if !stores.iter().any(|store| of(store).is_some()) {
            continue;
        }
        // What did not come to an end in time is no best.
        let done = |cell: &&Cell| table.what != "space" || cell.extra == 0.0;
        let figures = stores.iter().filter_map(of).filter(done).map(table.figure);
        let best = figures.reduce(|a, b| if (a > b) == table.large { a } else { b });
        row(
            out,
            size.name,
            stores.iter().map(|store| match of(store) {
                None => String::new(),
                Some(cell) if !done(&cell) => format!("({} MB left)", number(cell.extra)),
                Some(cell) => marked(cell, (table.figure)(cell), best),
            }),
        );
    }
}

fn marked(cell: &Cell, figure: f64, best: Option<f64>) -> String {
    let disturbed = if cell.other_cores > DISTURBED_CORES { "~" } else { "" };
    let text = number(figure);
    if best == Some(figure) { format!("{disturbed}**{text}**") } else { format!("{disturbed}{text}") }
}

fn direct(cells: &Cells<'_>, out: &mut String) {
    head(
        out,
        "Eight at once: direct reads of the same files, and values that Esker is told of before, 1,000 bytes/ms",
        "size",
        &["of Esker's", "of plain files", "Esker"],
    );
    for size in SIZES {
        let of = [("esker", "direct"), ("files", "direct"), ("esker", "cold-ahead")]
            .map(|(store, what)| cells.find(store, size.name, what));
        if of.iter().any(Option::is_some) {
            row(
                out,
                size.name,
                of.iter().map(|cell| cell.map_or(String::new(), |c| number(c.all_bytes_per_ms() / 1e3))),
            );
        }
    }
}

/// The paper's figures 8 and 9: a file for each value, values in shared files, and those read by several threads.
fn parallel(cells: &Cells<'_>, out: &mut String) {
    for (title, plain, what) in [
        ("GET by several threads, first read from the page cache, 1,000 bytes/ms", "first", "warm"),
        ("GET by several threads, cold, 1,000 bytes/ms", "cold", "cold"),
    ] {
        let names: Vec<String> = THREADS.iter().map(|threads| format!("{threads} threads")).collect();
        let mut columns = vec!["basic: plain files", "chunked: Esker"];
        columns.extend(names.iter().map(String::as_str));
        head(out, title, "size", &columns);
        for size in SIZES {
            let mut of = vec![cells.find("files", size.name, plain), cells.find("esker", size.name, plain)];
            of.extend(THREADS.iter().map(|by| cells.find("esker", size.name, &format!("{what}-by-{by}"))));
            if of.iter().any(Option::is_some) {
                row(
                    out,
                    size.name,
                    of.iter().map(|cell| cell.map_or(String::new(), |c| number(c.all_bytes_per_ms() / 1e3))),
                );
            }
        }
    }
}

fn mixes(cells: &Cells<'_>, out: &mut String) {
    let stores = cells.stores();
    head(out, "Mixed workloads, seconds for 100 operations", "mix", &stores);
    for (what, name) in [("load", "loading before it"), ("mix", "")] {
        for mix in MIXES {
            let of = |store: &&str| cells.find(store, mix.name, what);
            let best = stores.iter().filter_map(of).map(|cell| cell.mean_us / 1e6).reduce(f64::min);
            if best.is_some() {
                let text =
                    |store| of(store).map_or(String::new(), |cell| marked(cell, cell.mean_us / 1e6, best));
                row(out, format!("{} {name}", mix.name).trim(), stores.iter().map(text));
            }
        }
    }
    for mix in MIXES {
        let of = |store: &&str| cells.find(store, mix.name, "mix");
        if stores.iter().any(|store| of(store).is_some()) {
            let text = |store| of(store).map_or(String::new(), |cell| number(cell.extra));
            row(out, &format!("{}, peak MB", mix.name), stores.iter().map(text));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_round_counts() {
        let line = |us| format!("esker\t1MB\tput\t5\t1048576\t{us}\t1\t1\t1\t0\t0.9");
        let cells: Vec<Cell> = [300, 100, 200].iter().filter_map(|us| Cell::parse(&line(us))).collect();
        assert_eq!(Cells(&cells).find("esker", "1MB", "put").unwrap().mean_us, 200.0);
        let text = tables(&cells, &["bdb, 1MB: no".to_owned()]);
        assert!(text.contains("| 1MB | ~**5,243** |"), "{text}");
        assert!(text.contains("- bdb, 1MB: no"));
    }
}
