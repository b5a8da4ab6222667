//! A filter at work: what it says about rows and cells, one after the other.
//!
//! ```text
//! row        may the row have something to show?
//! cell ...   is it shown, and what comes next: the next version, column or family, or a qualifier to seek
//! end_row    is the row left out after all?
//! reset      for the next row
//! ```
//! Between these, `is_over` tells that nothing more is shown at all. A filter that decides after the row ([`Judge::is_late`])
//! is asked about the cells of the row twice: the first pass ends with `settle` and `end_row`, then `rewind` begins the second
//! one. What survives a row is a few numbers ([`Judge::save`]), so that the second pass meets what the first one met.
//!
//! What the filters of a list say is put together as HBase does it, since that is visible: one that counts cells sees what
//! those before it let through.

use std::sync::{Mutex, PoisonError};

use esker::ValueRef;

use crate::error::Result;
use crate::filter::{Column, Filter, Kind, Test};

/// A value is read as a whole up to this length; of a longer one, only what decides.
const WHOLE_LEN_MAX: u64 = 64 << 10;

/// Values up to this length are read as a whole by any number of scans at once; a longer one by one scan at a time, which holds
/// [`ONE_AT_A_TIME`].
const SHARED_LEN_MAX: u64 = 1 << 20;
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A cell, as a filter sees it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen<'a> {
    /// The place of its family among those that are read.
    pub(crate) place: usize,
    pub(crate) family: &'a str,
    pub(crate) qualifier: &'a [u8],
    pub(crate) timestamp: i64,
    pub(crate) value: ValueRef<'a>,
}

/// What a filter says about a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Code {
    Include,
    IncludeNextColumn,
    Skip,
    NextColumn,
    NextFamily,
    /// Nothing is shown below the qualifier [`Judge::hint`], in this family.
    Hint,
}

/// What is shown of a cell's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Show {
    Value,
    Nothing,
    /// The value's length.
    Length,
    /// The length of what another filter shows in place of the value.
    LengthOf(u32),
}

/// A filter at work for one scan.
pub(crate) struct Judge {
    root: Node,
    is_late: bool,
    may_end_in_row: bool,
    has_row_with: bool,
}

enum Node {
    Leaf(Leaf),
    RowWith(Box<RowWith>),
    Skip { inner: Box<Node>, has_failed: bool },
    While { inner: Box<Node>, is_over: bool },
    All(Vec<Member>),
    Any(Vec<Member>),
}

/// A filter that has no filters in it.
struct Leaf {
    kind: Kind,
    is_reversed: bool,
    /// How many cells or columns of the row it counted.
    count: u64,
    /// Whether its column was met in the row, and whether that passes.
    is_found: bool,
    is_matched: bool,
    /// Whether the row itself does not pass.
    is_out: bool,
    /// Which prefix of qualifiers is to come.
    prefix: usize,
    /// The timestamps of the dependent column, the latest first: of this pass, and all of the row.
    stamps: Vec<i64>,
    all_stamps: Vec<i64>,
    /// How many rows were shown.
    rows: u64,
    /// Whether the scan is behind all rows that pass.
    is_behind: bool,
}

/// A filter of the latest versions that a row has to have.
struct RowWith {
    inner: Node,
    is_found: bool,
    /// The column that was met last in the row, once one was.
    is_in_column: bool,
    place: usize,
    qualifier: Vec<u8>,
}

impl RowWith {
    fn cell(&mut self, cell: &Seen<'_>) -> Result<Code> {
        let is_latest = !self.is_in_column || self.place != cell.place || self.qualifier != cell.qualifier;
        if is_latest && !self.is_found {
            (self.is_in_column, self.place) = (true, cell.place);
            self.qualifier.clear();
            self.qualifier.extend_from_slice(cell.qualifier);
            self.is_found = matches!(self.inner.cell(cell)?, Code::Include | Code::IncludeNextColumn);
        }
        Ok(Code::Include)
    }
}

/// A filter of a list.
struct Member {
    node: Node,
    /// Whether it includes the cell, or is the one that gave the hint.
    is_included: bool,
    is_hinting: bool,
    /// What it said of an earlier cell, if that may tell something of this one too.
    said: Option<Code>,
    place: usize,
    qualifier: Vec<u8>,
}

impl Judge {
    pub(crate) fn new(filter: &Filter, is_reversed: bool) -> Judge {
        let mut judge = Judge {
            root: Node::new(filter, is_reversed),
            is_late: filter.is_late(),
            may_end_in_row: filter.may_end_in_row(),
            has_row_with: filter.has_row_with(),
        };
        judge.reset();
        judge
    }

    /// Whether a row has to be walked before it is known whether something of it is shown.
    pub(crate) fn is_late(&self) -> bool {
        self.is_late
    }

    /// Whether nothing more is shown.
    pub(crate) fn is_over(&self) -> bool {
        self.root.is_over()
    }

    /// Begins a row. `false`: nothing of it is shown.
    pub(crate) fn row(&mut self, row: &[u8]) -> bool {
        !self.root.is_over() && !self.root.leaves_row_out(row)
    }

    pub(crate) fn cell(&mut self, cell: &Seen<'_>) -> Result<Code> {
        let code = self.root.cell(cell)?;
        if !self.has_row_with || !self.root.looks_for_more() {
            return Ok(code);
        }
        // What others seek past may be what the row has to have.
        Ok(match code {
            Code::Include | Code::IncludeNextColumn => Code::Include,
            Code::Skip | Code::NextColumn | Code::NextFamily | Code::Hint => Code::Skip,
        })
    }

    /// Whether no further cell changes what it says of the row. It is asked if columns alone decide.
    pub(crate) fn has_decided(&self) -> bool {
        self.root.has_decided()
    }

    /// The qualifier at which to go on after [`Code::Hint`].
    pub(crate) fn hint(&self) -> Option<&[u8]> {
        self.root.hint()
    }

    /// What is shown of the value of a cell that is included.
    pub(crate) fn show(&self) -> Show {
        self.root.show(Show::Value)
    }

    /// Whether a cell may end the scan.
    pub(crate) fn may_end_in_row(&self) -> bool {
        self.may_end_in_row
    }

    /// Ends the first pass over a row.
    pub(crate) fn settle(&mut self) {
        self.root.each_leaf(&mut |leaf| std::mem::swap(&mut leaf.stamps, &mut leaf.all_stamps));
    }

    /// Whether a cell that is included is left out because of what the whole row has.
    pub(crate) fn removes(&self, cell: &Seen<'_>) -> bool {
        self.is_late && self.root.removes(cell)
    }

    /// Ends a row of which something is shown. `false`: it is left out after all.
    pub(crate) fn end_row(&mut self) -> bool {
        !self.root.leaves_row_out_after_all()
    }

    /// Forgets the row.
    pub(crate) fn reset(&mut self) {
        self.rewind();
        self.root.each_leaf(&mut |leaf| {
            leaf.is_out = matches!(leaf.kind, Kind::Prefix(_));
            leaf.all_stamps.clear();
        });
    }

    /// Goes back to before the first cell of the row.
    pub(crate) fn rewind(&mut self) {
        self.root.forget_cells();
    }

    /// The first pass over the row, of the columns that decide, has found all that the row has to have.
    pub(crate) fn take_as_found(&mut self) {
        self.root.take_as_found();
    }

    /// Appends what survives a row to `numbers`.
    pub(crate) fn save(&self, numbers: &mut Vec<u64>) {
        self.root.save(numbers);
    }

    /// Takes back what [`Judge::save`] has appended.
    pub(crate) fn load(&mut self, numbers: &[u64]) {
        self.root.load(&mut numbers.iter().copied());
    }
}

impl Node {
    fn new(filter: &Filter, is_reversed: bool) -> Node {
        let inner = |filter: &Filter| Box::new(Node::new(filter, is_reversed));
        let members = |filters: &[Filter]| {
            filters.iter().map(|filter| Member::new(Node::new(filter, is_reversed))).collect()
        };
        match &filter.kind {
            Kind::RowWith(filter) => Node::RowWith(Box::new(RowWith {
                inner: Node::new(filter, is_reversed),
                is_found: false,
                is_in_column: false,
                place: 0,
                qualifier: Vec::new(),
            })),
            Kind::Skip(filter) => Node::Skip { inner: inner(filter), has_failed: false },
            Kind::While(filter) => Node::While { inner: inner(filter), is_over: false },
            Kind::All(filters) => Node::All(members(filters)),
            Kind::Any(filters) => Node::Any(members(filters)),
            kind => Node::Leaf(Leaf::new(kind.clone(), is_reversed)),
        }
    }

    fn is_over(&self) -> bool {
        match self {
            Node::Leaf(leaf) => leaf.is_over(),
            Node::RowWith(with) => with.inner.is_over(),
            Node::Skip { .. } => false,
            Node::While { inner, is_over } => *is_over || inner.is_over(),
            Node::All(members) => members.iter().any(|member| member.node.is_over()),
            Node::Any(members) => !members.is_empty() && members.iter().all(|member| member.node.is_over()),
        }
    }

    fn leaves_row_out(&mut self, row: &[u8]) -> bool {
        match self {
            Node::Leaf(leaf) => leaf.leaves_row_out(row),
            Node::RowWith(with) => with.inner.is_over() || with.inner.leaves_row_out(row),
            Node::Skip { .. } => false,
            Node::While { inner, is_over } => {
                let is_out = *is_over || inner.is_over() || inner.leaves_row_out(row);
                *is_over |= is_out;
                is_out
            }
            // All are asked, whatever the others say: each begins its row.
            Node::All(members) => members.iter_mut().fold(false, |is_out, member| {
                let leaves_out = member.node.is_over() || member.node.leaves_row_out(row);
                is_out || leaves_out
            }),
            Node::Any(members) => {
                let is_empty = members.is_empty();
                let passes = members.iter_mut().fold(false, |passes, member| {
                    let lets_in = !member.node.is_over() && !member.node.leaves_row_out(row);
                    passes || lets_in
                });
                !is_empty && !passes
            }
        }
    }

    fn cell(&mut self, cell: &Seen<'_>) -> Result<Code> {
        match self {
            Node::Leaf(leaf) => leaf.cell(cell),
            Node::RowWith(with) => with.cell(cell),
            Node::Skip { inner, has_failed } => {
                let code = inner.cell(cell)?;
                *has_failed |= code != Code::Include;
                Ok(code)
            }
            Node::While { inner, is_over } => {
                let code = inner.cell(cell)?;
                *is_over |= code != Code::Include;
                Ok(code)
            }
            Node::All(members) => all(members, cell),
            Node::Any(members) => any(members, cell),
        }
    }

    /// Whether a [`RowWith`] has not found yet what the row has to have.
    fn looks_for_more(&self) -> bool {
        match self {
            Node::Leaf(_) => false,
            Node::RowWith(with) => !with.is_found,
            Node::Skip { inner, .. } | Node::While { inner, .. } => inner.looks_for_more(),
            Node::All(members) | Node::Any(members) => {
                members.iter().any(|member| member.node.looks_for_more())
            }
        }
    }

    fn has_decided(&self) -> bool {
        match self {
            Node::Leaf(leaf) => leaf.has_decided(),
            Node::RowWith(with) => with.is_found,
            Node::Skip { .. } | Node::While { .. } => false,
            Node::All(members) | Node::Any(members) => members.iter().all(|member| member.node.has_decided()),
        }
    }

    fn hint(&self) -> Option<&[u8]> {
        match self {
            Node::Leaf(leaf) => leaf.hint(),
            Node::RowWith(_) | Node::Skip { .. } | Node::While { .. } => None,
            Node::All(members) => members.iter().find(|member| member.is_hinting)?.node.hint(),
            Node::Any(members) => {
                let mut least: Option<&[u8]> = None;
                for member in members.iter().filter(|member| !member.node.is_over()) {
                    let hint = member.node.hint()?;
                    least = Some(least.map_or(hint, |least| least.min(hint)));
                }
                least
            }
        }
    }

    fn show(&self, show: Show) -> Show {
        match self {
            Node::Leaf(Leaf { kind: Kind::KeyOnly { lengths }, .. }) => match (lengths, show) {
                (false, _) => Show::Nothing,
                (true, Show::Value) => Show::Length,
                (true, Show::Nothing) => Show::LengthOf(0),
                (true, Show::Length | Show::LengthOf(_)) => Show::LengthOf(4),
            },
            Node::Leaf(_) | Node::RowWith(_) => show,
            Node::Skip { inner, .. } | Node::While { inner, .. } => inner.show(show),
            Node::All(members) => members.iter().fold(show, |show, member| member.node.show(show)),
            Node::Any(members) => members
                .iter()
                .filter(|member| member.is_included)
                .fold(show, |show, member| member.node.show(show)),
        }
    }

    fn removes(&self, cell: &Seen<'_>) -> bool {
        match self {
            Node::Leaf(leaf) => leaf.removes(cell),
            Node::RowWith(_) | Node::Skip { .. } | Node::While { .. } => false,
            Node::All(members) | Node::Any(members) => members.iter().any(|member| member.node.removes(cell)),
        }
    }

    fn leaves_row_out_after_all(&mut self) -> bool {
        match self {
            Node::Leaf(leaf) => leaf.leaves_row_out_after_all(),
            Node::RowWith(with) => !with.is_found,
            Node::Skip { has_failed, .. } => *has_failed,
            Node::While { inner, is_over } => {
                let is_out = inner.leaves_row_out_after_all();
                *is_over |= is_out;
                is_out
            }
            // The first one that decides is the last one that is asked.
            Node::All(members) => members.iter_mut().any(|member| member.node.leaves_row_out_after_all()),
            Node::Any(members) => {
                !members.is_empty() && members.iter_mut().all(|member| member.node.leaves_row_out_after_all())
            }
        }
    }

    fn forget_cells(&mut self) {
        match self {
            Node::Leaf(leaf) => {
                (leaf.count, leaf.is_found, leaf.is_matched) = (0, false, false);
                leaf.stamps.clear();
            }
            Node::RowWith(with) => {
                (with.is_found, with.is_in_column) = (false, false);
                with.inner.forget_cells();
            }
            Node::Skip { inner, has_failed } => {
                *has_failed = false;
                inner.forget_cells();
            }
            Node::While { inner, .. } => inner.forget_cells(),
            Node::All(members) | Node::Any(members) => {
                for member in members {
                    (member.said, member.is_included, member.is_hinting) = (None, false, false);
                    member.node.forget_cells();
                }
            }
        }
    }

    fn take_as_found(&mut self) {
        match self {
            Node::RowWith(with) => with.is_found = true,
            Node::All(members) => members.iter_mut().for_each(|member| member.node.take_as_found()),
            Node::Leaf(_) | Node::Skip { .. } | Node::While { .. } | Node::Any(_) => {}
        }
    }

    fn each_leaf(&mut self, act: &mut dyn FnMut(&mut Leaf)) {
        match self {
            Node::Leaf(leaf) => act(leaf),
            Node::RowWith(with) => with.inner.each_leaf(act),
            Node::Skip { inner, .. } | Node::While { inner, .. } => inner.each_leaf(act),
            Node::All(members) | Node::Any(members) => {
                members.iter_mut().for_each(|member| member.node.each_leaf(act));
            }
        }
    }

    fn save(&self, numbers: &mut Vec<u64>) {
        match self {
            Node::Leaf(leaf) => numbers.push(leaf.rows),
            Node::RowWith(with) => with.inner.save(numbers),
            Node::Skip { inner, .. } => inner.save(numbers),
            Node::While { inner, is_over } => {
                numbers.push(u64::from(*is_over));
                inner.save(numbers);
            }
            Node::All(members) | Node::Any(members) => {
                members.iter().for_each(|member| member.node.save(numbers));
            }
        }
    }

    fn load(&mut self, numbers: &mut impl Iterator<Item = u64>) {
        match self {
            Node::Leaf(leaf) => leaf.rows = numbers.next().unwrap_or_default(),
            Node::RowWith(with) => with.inner.load(numbers),
            Node::Skip { inner, .. } => inner.load(numbers),
            Node::While { inner, is_over } => {
                *is_over = numbers.next().unwrap_or_default() != 0;
                inner.load(numbers);
            }
            Node::All(members) | Node::Any(members) => {
                members.iter_mut().for_each(|member| member.node.load(numbers));
            }
        }
    }
}

impl Leaf {
    fn new(kind: Kind, is_reversed: bool) -> Leaf {
        Leaf {
            kind,
            is_reversed,
            count: 0,
            is_found: false,
            is_matched: false,
            is_out: false,
            prefix: 0,
            stamps: Vec::new(),
            all_stamps: Vec::new(),
            rows: 0,
            is_behind: false,
        }
    }

    fn is_over(&self) -> bool {
        match &self.kind {
            Kind::ColumnCountGet(limit) => self.count > u64::from(*limit),
            Kind::Page(rows) => self.rows >= *rows,
            Kind::Prefix(_) | Kind::InclusiveStop(_) => self.is_behind,
            _ => false,
        }
    }

    fn leaves_row_out(&mut self, row: &[u8]) -> bool {
        // Behind in the direction of the scan.
        let is_behind =
            |order: std::cmp::Ordering| if self.is_reversed { order.is_lt() } else { order.is_gt() };
        match &self.kind {
            Kind::ColumnCountGet(_) | Kind::Page(_) => self.is_over(),
            Kind::InclusiveStop(stop) => {
                self.is_behind |= is_behind(row.cmp(stop));
                self.is_behind
            }
            Kind::Prefix(prefix) => {
                if self.is_behind || row.len() < prefix.len() {
                    return true;
                }
                let order = row[..prefix.len()].cmp(prefix);
                self.is_behind = is_behind(order);
                self.is_out = order.is_ne();
                self.is_out
            }
            Kind::Row(test) => {
                self.is_out = !test.passes(row);
                self.is_out
            }
            _ => false,
        }
    }

    fn cell(&mut self, cell: &Seen<'_>) -> Result<Code> {
        Ok(match &self.kind {
            Kind::KeyOnly { .. } | Kind::Page(_) => Code::Include,
            Kind::FirstKeyOnly => {
                if std::mem::replace(&mut self.is_found, true) {
                    Code::NextFamily
                } else {
                    Code::Include
                }
            }
            Kind::Prefix(_) | Kind::Row(_) => {
                if self.is_out {
                    Code::NextFamily
                } else {
                    Code::Include
                }
            }
            Kind::InclusiveStop(_) => {
                if self.is_behind {
                    Code::NextFamily
                } else {
                    Code::Include
                }
            }
            Kind::ColumnPrefix(prefix) => {
                if cell.qualifier.starts_with(prefix) {
                    Code::Include
                } else if cell.qualifier < prefix.as_slice() {
                    Code::Hint
                } else {
                    Code::NextFamily
                }
            }
            Kind::ColumnPrefixes(prefixes) => {
                // Only the last prefix that is not behind the qualifier counts.
                let next = prefixes.partition_point(|prefix| prefix.as_slice() <= cell.qualifier);
                let nearest = next.checked_sub(1).map(|last| &prefixes[last]);
                if prefixes.is_empty() || nearest.is_some_and(|prefix| cell.qualifier.starts_with(prefix)) {
                    Code::Include
                } else if next == prefixes.len() {
                    Code::NextFamily
                } else {
                    self.prefix = next;
                    Code::Hint
                }
            }
            Kind::ColumnCountGet(limit) => {
                self.count += 1;
                if self.count > u64::from(*limit) { Code::NextColumn } else { Code::IncludeNextColumn }
            }
            Kind::ColumnPagination { limit, offset } => {
                let (limit, offset) = (u64::from(*limit), u64::from(*offset));
                if self.count >= offset + limit {
                    return Ok(Code::NextFamily);
                }
                self.count += 1;
                if self.count <= offset { Code::NextColumn } else { Code::IncludeNextColumn }
            }
            Kind::Timestamps(timestamps) => {
                if timestamps.binary_search(&cell.timestamp).is_ok() {
                    Code::Include
                } else if timestamps.first().is_none_or(|first| cell.timestamp < *first) {
                    Code::NextColumn
                } else {
                    Code::Skip
                }
            }
            Kind::Family(test) => {
                if test.passes(cell.family.as_bytes()) {
                    Code::Include
                } else {
                    Code::NextFamily
                }
            }
            Kind::Qualifier(test) => {
                if test.passes(cell.qualifier) {
                    Code::Include
                } else {
                    Code::Skip
                }
            }
            Kind::Value(test) => {
                if test.passes_value(cell.value)? {
                    Code::Include
                } else {
                    Code::Skip
                }
            }
            Kind::SingleColumn { column, test, latest_only, .. } => {
                if self.is_matched {
                    return Ok(Code::Include);
                }
                if *latest_only && self.is_found {
                    return Ok(Code::NextFamily);
                }
                if !column.is_of(cell) {
                    return Ok(Code::Include);
                }
                self.is_found = true;
                self.is_matched = test.passes_value(cell.value)?;
                if !self.is_matched && *latest_only { Code::NextFamily } else { Code::Include }
            }
            Kind::DependentColumn { column, drop, test } => {
                if !column.is_of(cell) {
                    return Ok(Code::Include);
                }
                if let Some(test) = test
                    && !test.passes_value(cell.value)?
                {
                    return Ok(Code::Skip);
                }
                self.stamps.push(cell.timestamp);
                if *drop { Code::Skip } else { Code::Include }
            }
            Kind::ColumnRange { from: (from, has_from), to: (to, has_to) } => {
                if cell.qualifier < from.as_slice() {
                    Code::Hint
                } else if !from.is_empty() && !has_from && cell.qualifier == from.as_slice() {
                    Code::NextColumn
                } else if to.is_empty()
                    || cell.qualifier < to.as_slice()
                    || (*has_to && cell.qualifier == to.as_slice())
                {
                    Code::Include
                } else {
                    Code::NextFamily
                }
            }
            Kind::ColumnValue { column, test } => {
                if !column.is_of(cell) {
                    return Ok(if self.is_found { Code::NextFamily } else { Code::NextColumn });
                }
                self.is_found = true;
                if test.passes_value(cell.value)? { Code::Include } else { Code::Skip }
            }
            // These are nodes of their own.
            Kind::RowWith(_) | Kind::Skip(_) | Kind::While(_) | Kind::All(_) | Kind::Any(_) => Code::Include,
        })
    }

    fn has_decided(&self) -> bool {
        match &self.kind {
            Kind::SingleColumn { latest_only, .. } => self.is_matched || (*latest_only && self.is_found),
            _ => true,
        }
    }

    fn hint(&self) -> Option<&[u8]> {
        match &self.kind {
            Kind::ColumnPrefix(prefix) => Some(prefix),
            Kind::ColumnPrefixes(prefixes) => prefixes.get(self.prefix).map(Vec::as_slice),
            Kind::ColumnRange { from: (from, _), .. } => Some(from),
            _ => None,
        }
    }

    fn removes(&self, cell: &Seen<'_>) -> bool {
        match &self.kind {
            Kind::SingleColumn { column, exclude, .. } => *exclude && column.is_of(cell),
            Kind::DependentColumn { .. } => {
                self.all_stamps.binary_search_by(|stamp| cell.timestamp.cmp(stamp)).is_err()
            }
            _ => false,
        }
    }

    fn leaves_row_out_after_all(&mut self) -> bool {
        match &self.kind {
            Kind::Prefix(_) | Kind::Row(_) => self.is_out,
            Kind::Page(rows) => {
                self.rows += 1;
                self.rows > *rows
            }
            Kind::SingleColumn { if_missing, .. } => {
                if self.is_found {
                    !self.is_matched
                } else {
                    *if_missing
                }
            }
            _ => false,
        }
    }
}

impl Member {
    fn new(node: Node) -> Member {
        let (place, qualifier) = (0, Vec::new());
        Member { node, is_included: false, is_hinting: false, said: None, place, qualifier }
    }

    /// What the filter's word about an earlier cell says about this one.
    fn still_says(&self, cell: &Seen<'_>) -> Option<Code> {
        if self.place != cell.place {
            return None;
        }
        match self.said? {
            Code::Hint => self.node.hint().filter(|hint| cell.qualifier < *hint).map(|_| Code::Hint),
            Code::NextColumn | Code::IncludeNextColumn => {
                (self.qualifier == cell.qualifier).then_some(Code::NextColumn)
            }
            Code::NextFamily => Some(Code::NextFamily),
            Code::Include | Code::Skip => None,
        }
    }

    fn remember(&mut self, cell: &Seen<'_>, code: Code) {
        self.said = (!matches!(code, Code::Include | Code::Skip)).then_some(code);
        if self.said.is_some() {
            self.place = cell.place;
            self.qualifier.clear();
            self.qualifier.extend_from_slice(cell.qualifier);
        }
    }
}

/// What all `members` say together. The first one that does not include the cell is the last one that is asked.
fn all(members: &mut [Member], cell: &Seen<'_>) -> Result<Code> {
    let mut code = Code::Include;
    for member in members {
        if member.node.is_over() {
            return Ok(Code::NextFamily);
        }
        let says = member.node.cell(cell)?;
        member.is_hinting = says == Code::Hint;
        code = match (code, says) {
            (code, Code::Include) => code,
            (Code::IncludeNextColumn, Code::Skip) => return Ok(Code::NextColumn),
            (_, Code::IncludeNextColumn) => Code::IncludeNextColumn,
            (_, says) => return Ok(says),
        };
    }
    Ok(code)
}

/// What one of `members` says at least. Each is asked, unless it has said enough before.
fn any(members: &mut [Member], cell: &Seen<'_>) -> Result<Code> {
    let mut code = if members.is_empty() { Some(Code::Include) } else { None };
    for member in members {
        member.is_included = false;
        if member.node.is_over() {
            continue;
        }
        let says = match member.still_says(cell) {
            Some(says) => says,
            None => member.node.cell(cell)?,
        };
        member.remember(cell, says);
        member.is_included = matches!(says, Code::Include | Code::IncludeNextColumn);
        code = Some(code.map_or(says, |code| either(code, says)));
    }
    Ok(code.unwrap_or(Code::Skip))
}

/// What comes next when one filter says `one` and another `other`.
fn either(one: Code, other: Code) -> Code {
    use Code::{Hint, Include, IncludeNextColumn, NextColumn, NextFamily, Skip};
    let includes = |code: Code| matches!(code, Include | IncludeNextColumn);
    let leaves_column = |code: Code| matches!(code, IncludeNextColumn | NextColumn | NextFamily);
    match (includes(one) || includes(other), leaves_column(one) && leaves_column(other)) {
        (true, true) => IncludeNextColumn,
        (true, false) => Include,
        (false, _) if one == other && matches!(one, Hint | NextFamily) => one,
        (false, true) => NextColumn,
        (false, false) => Skip,
    }
}

impl Column {
    fn is_of(&self, cell: &Seen<'_>) -> bool {
        self.qualifier == cell.qualifier && self.family == cell.family.as_bytes()
    }
}

impl Test {
    pub(super) fn passes(&self, bytes: &[u8]) -> bool {
        self.comparison.passes(self.comparator.compare(bytes))
    }

    /// Of a huge value, what decides is read and no more.
    fn passes_value(&self, value: ValueRef<'_>) -> Result<bool> {
        match self.comparator.reach() {
            Some(reach) if value.len() > WHOLE_LEN_MAX.max(reach as u64) => {
                Ok(self.passes(&value.to_value()?.read_at(..reach as u64)?))
            }
            _ => {
                // Else each of many scans at once could hold a huge value.
                let _one = (value.len() > SHARED_LEN_MAX)
                    .then(|| ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner));
                Ok(self.passes(&value.bytes()?))
            }
        }
    }
}
