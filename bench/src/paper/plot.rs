//! The paper's figures 5 to 9 as SVG: both axes logarithmic, or bars.

use super::cell::Cell;
use super::child::THREADS;
use super::plan::{MIXES, SIZES};
use super::report::{Cells, number};
use crate::stores::Result;
use std::fmt::Write;
use std::path::Path;

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 430.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 170.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 40.0;

/// One line of a plot, or one colour of bars.
struct Series {
    name: String,
    /// By position on the horizontal axis.
    points: Vec<Option<f64>>,
}

struct Plot<'a> {
    title: &'a str,
    columns: Vec<String>,
    series: Vec<Series>,
    bars: bool,
}

/// Distinct also in print without colours, by the marks beside them.
const COLOURS: [&str; 11] = [
    "#d62728", "#ff9896", "#1f77b4", "#2ca02c", "#98df8a", "#9467bd", "#8c564b", "#17becf", "#e377c2",
    "#bcbd22", "#444444",
];

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
    write(dir, "figure7", &Plot { title, columns, series: series.collect(), bars: true })
}

fn lines(dir: &Path, file: &str, title: &str, series: Vec<Series>) -> Result<()> {
    let columns = SIZES.iter().map(|size| size.name.to_owned()).collect();
    write(dir, file, &Plot { title, columns, series, bars: false })
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

impl Plot<'_> {
    /// The powers of ten around all points.
    fn decades(&self) -> (f64, f64) {
        let points = self.series.iter().flat_map(|series| series.points.iter().flatten());
        let logs: Vec<f64> = points.filter(|point| **point > 0.0).map(|point| point.log10()).collect();
        let low = logs.iter().copied().reduce(f64::min).unwrap_or(0.0).floor();
        (low, logs.iter().copied().reduce(f64::max).unwrap_or(1.0).ceil().max(low + 1.0))
    }

    fn y(&self, value: f64) -> f64 {
        let (low, high) = self.decades();
        let share = (value.max(1e-9).log10() - low) / (high - low);
        HEIGHT - BOTTOM - share.max(0.0) * (HEIGHT - TOP - BOTTOM)
    }

    /// The middle of a column.
    fn x(&self, column: usize) -> f64 {
        LEFT + (column as f64 + 0.5) * (WIDTH - LEFT - RIGHT) / self.columns.len() as f64
    }

    fn svg(&self) -> String {
        let mut out = String::new();
        writeln!(
            out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
             font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n\
             <text x=\"{LEFT}\" y=\"22\" font-size=\"15\">{}</text>",
            self.title
        )
        .ok();
        self.axes(&mut out);
        for (i, series) in self.series.iter().enumerate() {
            let colour = COLOURS[i % COLOURS.len()];
            if self.bars {
                self.bars(&mut out, i, series, colour);
            } else {
                self.line(&mut out, series, colour);
            }
            let (x, y) = (WIDTH - RIGHT + 20.0, TOP + 10.0 + i as f64 * 18.0);
            writeln!(
                out,
                "<rect x=\"{x}\" y=\"{}\" width=\"12\" height=\"12\" fill=\"{colour}\"/>",
                y - 10.0
            )
            .ok();
            writeln!(out, "<text x=\"{}\" y=\"{y}\">{}</text>", x + 18.0, series.name).ok();
        }
        out.push_str("</svg>\n");
        out
    }

    fn axes(&self, out: &mut String) {
        let (low, high) = self.decades();
        let right = WIDTH - RIGHT;
        for decade in low as i32..=high as i32 {
            let y = self.y(10f64.powi(decade));
            let label = number(10f64.powi(decade));
            writeln!(out, "<line x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#ccc\"/>")
                .ok();
            let y = y + 4.0;
            writeln!(out, "<text x=\"{}\" y=\"{y:.1}\" text-anchor=\"end\">{label}</text>", LEFT - 8.0).ok();
        }
        for (i, column) in self.columns.iter().enumerate() {
            let (x, y) = (self.x(i), HEIGHT - 15.0);
            writeln!(out, "<text x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\">{column}</text>").ok();
        }
    }

    fn line(&self, out: &mut String, series: &Series, colour: &str) {
        let mut path = String::new();
        let mut pen = 'M';
        for (i, point) in series.points.iter().enumerate() {
            let Some(value) = point else {
                pen = 'M';
                continue;
            };
            let (x, y) = (self.x(i), self.y(*value));
            write!(path, "{pen}{x:.1} {y:.1}").ok();
            pen = 'L';
            writeln!(out, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>").ok();
        }
        writeln!(out, "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>").ok();
    }

    fn bars(&self, out: &mut String, index: usize, series: &Series, colour: &str) {
        let slot = (WIDTH - LEFT - RIGHT) / self.columns.len() as f64;
        let width = slot * 0.8 / self.series.len() as f64;
        for (i, value) in series.points.iter().enumerate() {
            let Some(value) = value else { continue };
            let x = self.x(i) - slot * 0.4 + index as f64 * width;
            let y = self.y(*value);
            let height = HEIGHT - BOTTOM - y;
            writeln!(
                out,
                "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{colour}\"/>"
            )
            .ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plot_has_its_points_between_its_axes() {
        let series = vec![Series { name: "esker".into(), points: vec![Some(12.0), None, Some(900.0)] }];
        let columns = ["a", "b", "c"].map(str::to_owned).to_vec();
        let mut plot = Plot { title: "t", columns, series, bars: false };
        assert_eq!(plot.decades(), (1.0, 3.0));
        assert_eq!((plot.y(10.0), plot.y(1000.0)), (HEIGHT - BOTTOM, TOP));
        assert_eq!(plot.svg().matches("<circle").count(), 2);
        plot.bars = true;
        assert_eq!(plot.svg().matches("fill=\"#d62728\"").count(), 3);
    }
}
