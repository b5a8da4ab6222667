//! `EXPLAIN ANALYZE`: what a query has read, and from where.

use esker_table::{ScanCounts, TreeCounts};

use super::limits::Limited;
use crate::error::Result;
use crate::tables::Cells;

/// Runs a query, and says what it has read and what it shows, line by line.
pub(super) fn of(mut cells: Limited) -> Result<Vec<String>> {
    cells.count();
    let (mut row, mut rows, mut shown, mut deletes) = (Vec::new(), 0_u64, 0_u64, 0_u64);
    while cells.advance()? {
        if rows == 0 || row != cells.row() {
            cells.row().clone_into(&mut row);
            rows += 1;
        }
        match cells.delete() {
            Some(_) => deletes += 1,
            None => shown += 1,
        }
    }
    let mut lines = match cells.counts() {
        Some(counts) => described(&counts),
        None => vec!["the server does not tell what it has read".to_owned()],
    };
    let deletes = if deletes > 0 { format!(", deletes: {deletes}") } else { String::new() };
    lines.push(format!("shows rows: {rows}, cells: {shown}{deletes}"));
    Ok(lines)
}

fn described(counts: &ScanCounts) -> Vec<String> {
    if counts.is_cached {
        return vec!["the query cache has the answer: nothing was read".to_owned()];
    }
    let of_tree = |TreeCounts { seeks, entries, bytes, .. }: TreeCounts| {
        format!("seeks: {seeks}, entries: {entries}, bytes: {bytes}")
    };
    let mut lines = Vec::new();
    if let Some(index) = counts.index {
        let found = match index.rows {
            Some(rows) => format!("rows found: {rows}"),
            None => "too many rows: it was not used".to_owned(),
        };
        lines.push(format!("read of the index: {}, {found}", of_tree(index.tree)));
    }
    let of_groups = counts.groups.iter();
    lines.extend(of_groups.map(|(name, tree)| format!("read of access group {name}: {}", of_tree(*tree))));
    let ScanCounts { rows, rows_left_out, cells, cells_left_out, .. } = counts;
    lines.push(format!(
        "looked at rows: {rows}, cells: {cells}; filters left out rows: {rows_left_out}, cells: {cells_left_out}"
    ));
    lines
}
