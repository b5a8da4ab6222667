//! What is wanted of Esker beside the others, and whether it was there in this run.

use super::cell::Cell;
use super::plan::{MIXES, SIZES};
use super::report::Cells;
use super::stores::CONTENDERS;
use crate::plot::number;
use std::fmt::Write;

/// Sizes up to a megabyte; to 16 MB; all.
const SMALL: usize = 3;
const MIDDLE: usize = 4;

struct Target {
    text: &'static str,
    row: &'static str,
    /// Times as good as the other.
    ratio: f64,
    wanted: f64,
}

/// How a peer must be for a comparison.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Peers {
    Equal,
    All,
}

/// The least time of an operation among the peers; plain files and Esker's own other form are none.
fn best(cells: &Cells<'_>, peers: Peers, row: &str, what: &str) -> Option<f64> {
    let others = CONTENDERS.iter().filter(|other| !other.name.starts_with("esker") && other.name != "files");
    let others = others.filter(|other| peers == Peers::All || other.equal);
    let found = others.filter_map(|other| cells.find(other.name, row, what));
    found.filter(|cell| what != "space" || cell.extra == 0.0).map(time).reduce(f64::min)
}

/// What counts of a figure: without the outliers, but for cold reads, which readahead makes few and slow.
fn time(cell: &Cell) -> f64 {
    if cell.what.starts_with("cold") { cell.all_us } else { cell.mean_us }
}

struct Gather<'a> {
    cells: &'a Cells<'a>,
    targets: Vec<Target>,
}

impl Gather<'_> {
    fn us(&self, store: &str, row: &str, what: &str) -> Option<f64> {
        self.cells.find(store, row, what).map(time)
    }

    /// `theirs`: the other's time for the same thing.
    fn add(&mut self, text: &'static str, row: &'static str, what: &str, theirs: Option<f64>, wanted: f64) {
        if let (Some(ours), Some(theirs)) = (self.us("esker", row, what), theirs) {
            self.targets.push(Target { text, row, ratio: theirs / ours, wanted });
        }
    }

    fn sizes(&mut self) {
        for (i, size) in SIZES.iter().enumerate() {
            let row = size.name;
            let files = |what| self.us("files", row, what);
            let peer = |what| best(self.cells, Peers::Equal, row, what);
            let (put, synced, first, later) = (files("put"), files("synced"), files("first"), files("later"));
            let (peer_put, peer_later, peer_cold) = (peer("put"), peer("later"), peer("cold"));
            let direct = self.us("esker", row, "direct");
            let wanted = [0.0, 1.4, 1.4, 2.0, 3.0, 3.0, 3.0, 3.0][i];
            if wanted > 0.0 {
                self.add("PUT : best equal peer", row, "put", peer_put, wanted);
            }
            self.add("PUT : plain files", row, "put", put, if i < SMALL { 1.0 } else { 0.8 });
            self.add("synced PUT : plain files", row, "synced", synced, 0.8);
            self.add("GET first : plain files", row, "first", first, if i < MIDDLE { 0.45 } else { 0.7 });
            self.add("GET later : plain files", row, "later", later, 0.9);
            self.add("GET later : best equal peer", row, "later", peer_later, 1.0);
            self.add("GET cold : direct read", row, "cold", direct, 0.9);
            self.add("GET cold, eight asked for ahead : direct read", row, "cold-ahead", direct, 0.9);
            self.add("GET cold : best equal peer", row, "cold", peer_cold, 1.0);
            self.add("DELETE : 50 microseconds", row, "delete", Some(50.0), 1.0);
            let space = best(self.cells, Peers::All, row, "space");
            self.add("space back : fastest peer that gives it back", row, "space", space, 1.0);
            let files = self.us("files", row, "space").map(|us| us * 1.3 + 2e6);
            self.add("space back : 1.3 x unlinking + 2 s", row, "space", files, 1.0);
        }
    }

    fn mixes(&mut self) {
        for mix in MIXES {
            let of = |peers| best(self.cells, peers, mix.name, "mix");
            let (equal, all, files) = (of(Peers::Equal), of(Peers::All), self.us("files", mix.name, "mix"));
            self.add("mix : best equal peer", mix.name, "mix", equal, 1.5);
            self.add("mix : fastest peer", mix.name, "mix", all, 1.0);
            self.add("mix : 1.3 x plain files", mix.name, "mix", files.map(|us| us * 1.3), 1.0);
        }
    }
}

/// A line for each target, its ratios by row; what falls short is bold.
pub(super) fn table(cells: &Cells<'_>, out: &mut String) {
    let mut gather = Gather { cells, targets: Vec::new() };
    gather.sizes();
    gather.mixes();
    let mut texts: Vec<&str> = Vec::new();
    for target in &gather.targets {
        if !texts.contains(&target.text) {
            texts.push(target.text);
        }
    }
    out.push_str(
        "\n### Esker beside the others: how many times as fast, and in parentheses what is wanted\n\n",
    );
    out.push_str("| | by size or mix |\n| --- | --- |\n");
    for text in texts {
        let of = gather.targets.iter().filter(|target| target.text == text);
        let cells: Vec<String> = of
            .map(|target| {
                let short = if target.ratio < target.wanted { "**" } else { "" };
                let (ratio, wanted) = (number(target.ratio), target.wanted);
                format!("{} {short}{ratio}{short} ({wanted})", target.row)
            })
            .collect();
        writeln!(out, "| {text} | {} |", cells.join(", ")).ok();
    }
}

#[cfg(all(test, feature = "leveldb"))]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_of_times() {
        let line = |store, us| format!("{store}\t1MB\tput\t5\t1048576\t{us}\t1\t1\t1\t0\t0");
        let lines = [line("esker", 100), line("leveldb", 130), line("files", 200), line("esker-inline", 10)];
        let cells: Vec<Cell> = lines.iter().filter_map(|line| Cell::parse(line)).collect();
        let mut out = String::new();
        table(&Cells(&cells), &mut out);
        assert!(out.contains("PUT : best equal peer | 1MB **1.30** (1.4)"), "{out}");
        assert!(out.contains("PUT : plain files | 1MB 2.00 (1)"), "{out}");
    }
}
