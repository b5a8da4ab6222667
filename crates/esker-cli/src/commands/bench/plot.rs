//! Rows per second as bars in an SVG: a group for each command, a colour for each run, on a logarithmic axis.

use std::fmt::Write;

use super::report::{Run, commands};

const GROUP: f64 = 96.0;
const PANEL: f64 = 320.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 20.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = 30.0;

const COLOURS: [&str; 6] = ["#d62728", "#1f77b4", "#2ca02c", "#9467bd", "#ff7f0e", "#444444"];

/// The whole plot. A write to memory cannot fail.
pub(super) fn svg(runs: &[Run]) -> String {
    let commands = commands(runs);
    let (low, high) = decades(runs);
    let y_of = |rate: f64| {
        let share = (rate.max(1e-9).log10() - f64::from(low)) / f64::from(high - low);
        PANEL - BOTTOM - share.max(0.0) * (PANEL - TOP - BOTTOM)
    };
    let right = LEFT + GROUP * commands.len() as f64;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {PANEL}\" font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n<text x=\"{LEFT}\" y=\"18\" font-size=\"14\">rows/s</text>\n",
        right + RIGHT
    );
    for decade in low..=high {
        let (rate, y) = (10f64.powi(decade), y_of(10f64.powi(decade)));
        let _ =
            writeln!(out, "<line x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#ccc\"/>");
        let (x, y) = (LEFT - 8.0, y + 4.0);
        let _ = writeln!(out, "<text x=\"{x}\" y=\"{y:.1}\" text-anchor=\"end\">{rate}</text>");
    }
    for (group, command) in commands.iter().enumerate() {
        let (x, y) = (LEFT + GROUP * (group as f64 + 0.5), PANEL - 10.0);
        let _ = writeln!(out, "<text x=\"{x:.1}\" y=\"{y}\" text-anchor=\"middle\">{command}</text>");
    }
    let width = GROUP * 0.84 / runs.len().max(1) as f64;
    for (i, run) in runs.iter().enumerate() {
        let colour = COLOURS[i % COLOURS.len()];
        let name = escaped(&run.label);
        let (x, y) = (LEFT + 150.0 * i as f64, TOP - 14.0);
        let _ = writeln!(out, "<text x=\"{x}\" y=\"{y}\" fill=\"{colour}\">{name}</text>");
        for result in &run.results {
            let Some(group) = commands.iter().position(|command| command == result.command()) else {
                continue;
            };
            let rate = result.rows_per_second();
            let x = LEFT + GROUP * (group as f64 + 0.08) + width * i as f64;
            let (y, height) = (y_of(rate), PANEL - BOTTOM - y_of(rate));
            let _ = writeln!(
                out,
                "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height:.1}\" fill=\"{colour}\">\
                 <title>{name}: {rate:.0}</title></rect>"
            );
        }
    }
    out.push_str("</svg>\n");
    out
}

/// The powers of ten around all rates.
fn decades(runs: &[Run]) -> (i32, i32) {
    let rates =
        runs.iter().flat_map(|run| &run.results).map(|result| result.rows_per_second().max(1.0).log10());
    let (low, high) = rates.fold((f64::MAX, 0.0_f64), |(low, high), rate| (low.min(rate), high.max(rate)));
    let low = low.min(high).floor() as i32;
    (low, (high.ceil() as i32).max(low + 1))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
