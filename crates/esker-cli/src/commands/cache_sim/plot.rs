//! Plots hit rates over the pool size as SVG: one panel per trace, one line per policy.

use std::fmt::Write;

use esker::CachePolicy;

use super::Row;

const WIDTH: f64 = 640.0;
const PANEL: f64 = 280.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 110.0;
const TOP: f64 = 36.0;
const BOTTOM: f64 = 30.0;

const COLOURS: [&str; 7] = ["#444444", "#bcbd22", "#1f77b4", "#2ca02c", "#9467bd", "#ff7f0e", "#d62728"];

/// The whole plot. A write to memory cannot fail.
pub(super) fn svg(policies: &[CachePolicy], rows: &[Row<'_>]) -> String {
    let panels: Vec<&[Row<'_>]> = rows.chunk_by(|a, b| a.trace.name == b.trace.name).collect();
    let height = PANEL * panels.len() as f64;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    for (i, rows) in panels.iter().enumerate() {
        let _ = writeln!(out, "<g transform=\"translate(0 {})\">", PANEL * i as f64);
        panel(&mut out, policies, rows);
        out.push_str("</g>\n");
    }
    out.push_str("</svg>\n");
    out
}

fn panel(out: &mut String, policies: &[CachePolicy], rows: &[Row<'_>]) {
    let title = rows.first().map_or("", |row| row.trace.name.as_str());
    let _ =
        writeln!(out, "<text x=\"{LEFT}\" y=\"20\" font-size=\"14\">{title}: hits by room in pages</text>");
    for tenths in [0, 2, 4, 6, 8, 10] {
        let (y, right) = (y_of(f64::from(tenths) / 10.0), WIDTH - RIGHT);
        let _ = writeln!(out, "<line x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y}\" y2=\"{y}\" stroke=\"#ccc\"/>");
        let (x, y) = (LEFT - 8.0, y + 4.0);
        let _ = writeln!(out, "<text x=\"{x}\" y=\"{y}\" text-anchor=\"end\">{}%</text>", tenths * 10);
    }
    for (column, row) in rows.iter().enumerate() {
        let (x, y) = (x_of(column, rows.len()), PANEL - 10.0);
        let _ = writeln!(out, "<text x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\">{}</text>", row.room);
    }
    for (i, policy) in policies.iter().enumerate() {
        let colour = COLOURS[i % COLOURS.len()];
        let points: Vec<(f64, f64)> = rows
            .iter()
            .enumerate()
            .map(|(column, row)| (x_of(column, rows.len()), y_of(row.hits[i].rate())))
            .collect();
        let line: String = points.iter().map(|(x, y)| format!("{x:.1},{y:.1} ")).collect();
        let _ = writeln!(
            out,
            "<polyline points=\"{line}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>"
        );
        for (x, y) in points {
            let _ = writeln!(out, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>");
        }
        let (x, y) = (WIDTH - RIGHT + 16.0, TOP + 10.0 + i as f64 * 18.0);
        let _ = writeln!(out, "<text x=\"{x}\" y=\"{y}\" fill=\"{colour}\">{}</text>", policy.name());
    }
}

/// The middle of a column. Sizes are side by side, whatever is between them.
fn x_of(column: usize, columns: usize) -> f64 {
    LEFT + (column as f64 + 0.5) * (WIDTH - LEFT - RIGHT) / columns as f64
}

fn y_of(rate: f64) -> f64 {
    PANEL - BOTTOM - rate * (PANEL - TOP - BOTTOM)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::cache_sim::trace::Trace;
    use esker::cache_sim::Hits;

    #[test]
    fn every_trace_has_a_panel_and_every_policy_a_line_in_it() {
        let trace = |name: &str| Trace { name: name.to_owned(), keys: vec![], distinct: 9 };
        let traces = [trace("a"), trace("b")];
        let hits = vec![Hits { hits: 1, accesses: 2 }; 2];
        let row = |trace, room| Row { trace, room, hits: hits.clone() };
        let rows = [row(&traces[0], 1), row(&traces[0], 2), row(&traces[1], 1)];
        let svg = svg(&[CachePolicy::Lru, CachePolicy::Arc], &rows);
        assert_eq!(svg.matches("<g ").count(), 2);
        assert_eq!(svg.matches("<polyline").count(), 4);
        assert_eq!(svg.matches("<circle").count(), 6);
        assert_eq!([y_of(1.0), y_of(0.0)], [TOP, PANEL - BOTTOM]);
    }
}
