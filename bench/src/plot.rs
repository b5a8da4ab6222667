//! Plots as SVG: lines or bars, on an axis that is logarithmic or goes from 0 to 100 percent.

use std::fmt::Write;

const WIDTH: f64 = 860.0;
const HEIGHT: f64 = 430.0;
const LEFT: f64 = 80.0;
const RIGHT: f64 = 170.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 40.0;

/// One line of a plot, or one colour of bars.
pub(crate) struct Series {
    pub name: String,
    /// By position on the horizontal axis.
    pub points: Vec<Option<f64>>,
}

/// What is drawn.
pub(crate) struct Plot<'a> {
    pub title: &'a str,
    pub columns: Vec<String>,
    pub series: Vec<Series>,
    pub bars: bool,
    pub axis: Axis,
}

/// The vertical axis.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Axis {
    /// Logarithmic: the powers of ten around all points.
    Decades,
    /// From 0 to 100.
    Percent,
}

/// Distinct also in print without colours, by the marks beside them.
const COLOURS: [&str; 11] = [
    "#d62728", "#ff9896", "#1f77b4", "#2ca02c", "#98df8a", "#9467bd", "#8c564b", "#17becf", "#e377c2",
    "#bcbd22", "#444444",
];

/// Four digits at most where there is a point.
pub(crate) fn number(x: f64) -> String {
    let digits = if x >= 100.0 {
        0
    } else if x >= 10.0 {
        1
    } else {
        2
    };
    let plain = format!("{x:.digits$}");
    let Some(whole) = plain.split('.').next().filter(|whole| whole.len() > 3) else { return plain };
    let mut grouped = String::new();
    for (i, digit) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
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
        let share = match self.axis {
            Axis::Percent => value / 100.0,
            Axis::Decades => {
                let (low, high) = self.decades();
                (value.max(1e-9).log10() - low) / (high - low)
            }
        };
        HEIGHT - BOTTOM - share.max(0.0) * (HEIGHT - TOP - BOTTOM)
    }

    /// The middle of a column.
    fn x(&self, column: usize) -> f64 {
        LEFT + (column as f64 + 0.5) * (WIDTH - LEFT - RIGHT) / self.columns.len() as f64
    }

    pub(crate) fn svg(&self) -> String {
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
            writeln!(out, "<text x=\"{}\" y=\"{y}\">{}</text>", x + 18.0, escaped(&series.name)).ok();
        }
        out.push_str("</svg>\n");
        out
    }

    fn axes(&self, out: &mut String) {
        let right = WIDTH - RIGHT;
        let marks: Vec<f64> = match self.axis {
            Axis::Percent => (0..=5).map(|fifth| f64::from(fifth * 20)).collect(),
            Axis::Decades => {
                let (low, high) = self.decades();
                (low as i32..=high as i32).map(|decade| 10f64.powi(decade)).collect()
            }
        };
        for mark in marks {
            let y = self.y(mark);
            let label = if self.axis == Axis::Percent { format!("{mark} %") } else { number(mark) };
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

/// Plots one above the other.
pub(crate) fn stacked(plots: &[String]) -> String {
    let height = HEIGHT * plots.len() as f64;
    let mut out = format!("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\">\n");
    for (i, plot) in plots.iter().enumerate() {
        let place = format!("<svg y=\"{}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" ", HEIGHT * i as f64);
        out.push_str(&plot.replacen("<svg ", &place, 1));
    }
    out.push_str("</svg>\n");
    out
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plot_has_its_points_between_its_axes() {
        let series = vec![Series { name: "esker".into(), points: vec![Some(12.0), None, Some(900.0)] }];
        let columns = ["a", "b", "c"].map(str::to_owned).to_vec();
        let mut plot = Plot { title: "t", columns, series, bars: false, axis: Axis::Decades };
        assert_eq!(plot.decades(), (1.0, 3.0));
        assert_eq!((plot.y(10.0), plot.y(1000.0)), (HEIGHT - BOTTOM, TOP));
        assert_eq!(plot.svg().matches("<circle").count(), 2);
        plot.bars = true;
        assert_eq!(plot.svg().matches("fill=\"#d62728\"").count(), 3);
        plot.axis = Axis::Percent;
        assert_eq!((plot.y(0.0), plot.y(100.0)), (HEIGHT - BOTTOM, TOP));
    }

    #[test]
    fn numbers_are_short_and_grouped() {
        let of = [0.1234, 12.34, 123.4, 1234.0, 1_234_567.8].map(number);
        assert_eq!(of, ["0.12", "12.3", "123", "1,234", "1,234,568"]);
    }
}
