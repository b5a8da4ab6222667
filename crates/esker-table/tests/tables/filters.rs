//! What each filter shows, on lists of cells: written down filter by filter as HBase describes them, apart from the crate.
//!
//! [`some`] makes a random filter twice: as a text of the language and as a [`Model`].

use std::cmp::Ordering;

use esker_table::Cell;

use super::{FAMILIES, Found, QUALIFIERS, ROWS};
use test_kit::Rng;

/// What a filter answers about a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    Include,
    IncludeNextColumn,
    Skip,
    NextColumn,
    /// Of the next family: the name is HBase's.
    NextRow,
    Seek,
}

/// A filter. The defaults are those of a filter that shows everything.
pub(crate) trait Model {
    fn reset(&mut self) {}
    fn is_done(&self) -> bool {
        false
    }
    /// Whether the row is left out.
    fn row_key(&mut self, _row: &[u8]) -> bool {
        self.is_done()
    }
    fn cell(&mut self, _cell: &Cell) -> Answer {
        Answer::Include
    }
    /// The qualifier to go to after `Seek`.
    fn hint(&self) -> Option<Vec<u8>> {
        None
    }
    fn transform(&self, value: Vec<u8>) -> Vec<u8> {
        value
    }
    fn row_cells(&self, _cells: &mut Vec<Cell>) {}
    /// Whether the row is left out after all.
    fn row(&mut self) -> bool {
        false
    }
}

type Boxed = Box<dyn Model>;

/// What a read with a filter shows of the cells that count.
pub(crate) struct Shown {
    pub(crate) filter: Option<Boxed>,
    pub(crate) versions: u32,
    pub(crate) is_reversed: bool,
    /// Offset and limit for each family of a row.
    pub(crate) of_family: (u64, u64),
}

impl Shown {
    /// `cells`: in the order of the read, rows apart.
    pub(crate) fn rows(&mut self, cells: Vec<Found>) -> Vec<(Vec<u8>, Vec<Cell>)> {
        let mut rows: Vec<(Vec<u8>, Vec<Cell>)> = Vec::new();
        for (row, cell) in cells {
            match rows.last_mut().filter(|last| last.0 == row) {
                Some(last) => last.1.push(cell),
                None => rows.push((row, vec![cell])),
            }
        }
        if self.is_reversed {
            rows.reverse();
        }
        let mut everything: Boxed = Box::new(Everything);
        let mut filter = self.filter.take();
        let filter = filter.as_mut().unwrap_or(&mut everything);
        let mut shown = Vec::new();
        for (row, cells) in rows {
            if filter.is_done() {
                break;
            }
            if filter.row_key(&row) {
                filter.reset();
                continue;
            }
            let mut left = self.of_row(&mut **filter, &cells);
            filter.row_cells(&mut left);
            if !left.is_empty() && !filter.row() {
                shown.push((row, left));
            }
            let is_done = filter.is_done();
            filter.reset();
            if is_done {
                break;
            }
        }
        shown
    }

    fn of_row(&self, filter: &mut dyn Model, cells: &[Cell]) -> Vec<Cell> {
        let (mut shown, mut place) = (Vec::new(), 0);
        let mut of_columns = std::collections::HashMap::<_, u32>::new();
        let mut of_families = std::collections::HashMap::<_, u64>::new();
        while place < cells.len() && !filter.is_done() {
            let cell = &cells[place];
            let next_column = || {
                let is_same =
                    |other: &Cell| (&other.family, &other.qualifier) == (&cell.family, &cell.qualifier);
                place + cells[place..].iter().take_while(|other| is_same(other)).count()
            };
            let next_family =
                || place + cells[place..].iter().take_while(|other| other.family == cell.family).count();
            let answer = filter.cell(cell);
            place = match answer {
                Answer::Skip => place + 1,
                Answer::NextColumn => next_column(),
                Answer::NextRow => next_family(),
                Answer::Seek => match filter.hint() {
                    Some(hint) if !self.is_reversed && hint > cell.qualifier => {
                        let is_below = |other: &Cell| other.family == cell.family && other.qualifier < hint;
                        place + cells[place..].iter().take_while(|other| is_below(other)).count()
                    }
                    _ => place + 1,
                },
                Answer::Include | Answer::IncludeNextColumn => {
                    let of_column = of_columns.entry((&cell.family, &cell.qualifier)).or_default();
                    *of_column += 1;
                    if *of_column > self.versions {
                        next_column()
                    } else {
                        let of_family = of_families.entry(&cell.family).or_default();
                        *of_family += 1;
                        let (offset, limit) = self.of_family;
                        if *of_family > offset {
                            let value = filter.transform(cell.value.clone());
                            shown.push(Cell { value, ..cell.clone() });
                        }
                        if *of_family >= offset.saturating_add(limit) {
                            next_family()
                        } else if answer == Answer::IncludeNextColumn {
                            next_column()
                        } else {
                            place + 1
                        }
                    }
                }
            };
        }
        shown
    }
}

struct Everything;

impl Model for Everything {}

struct KeyOnly(bool);

impl Model for KeyOnly {
    fn transform(&self, value: Vec<u8>) -> Vec<u8> {
        if self.0 { (value.len() as u32).to_be_bytes().to_vec() } else { Vec::new() }
    }
}

#[derive(Default)]
struct FirstKeyOnly(bool);

impl Model for FirstKeyOnly {
    fn reset(&mut self) {
        self.0 = false;
    }
    fn cell(&mut self, _cell: &Cell) -> Answer {
        if self.0 {
            return Answer::NextRow;
        }
        self.0 = true;
        Answer::Include
    }
}

struct Prefix {
    prefix: Vec<u8>,
    is_reversed: bool,
    has_passed: bool,
    is_out: bool,
}

impl Model for Prefix {
    fn reset(&mut self) {
        self.is_out = true;
    }
    fn is_done(&self) -> bool {
        self.has_passed
    }
    fn row_key(&mut self, row: &[u8]) -> bool {
        if self.has_passed || row.len() < self.prefix.len() {
            return true;
        }
        let head = &row[..self.prefix.len()];
        if (head > &self.prefix[..] && !self.is_reversed) || (head < &self.prefix[..] && self.is_reversed) {
            self.has_passed = true;
        }
        self.is_out = head != self.prefix;
        self.is_out
    }
    fn cell(&mut self, _cell: &Cell) -> Answer {
        if self.is_out { Answer::NextRow } else { Answer::Include }
    }
    fn row(&mut self) -> bool {
        self.is_out
    }
}

struct ColumnPrefix(Vec<u8>);

impl Model for ColumnPrefix {
    fn cell(&mut self, cell: &Cell) -> Answer {
        let len = self.0.len().min(cell.qualifier.len());
        match cell.qualifier[..len].cmp(&self.0[..len]) {
            Ordering::Greater => Answer::NextRow,
            Ordering::Equal if len == self.0.len() => Answer::Include,
            _ => Answer::Seek,
        }
    }
    fn hint(&self) -> Option<Vec<u8>> {
        Some(self.0.clone())
    }
}

struct ColumnPrefixes {
    prefixes: std::collections::BTreeSet<Vec<u8>>,
    hint: Option<Vec<u8>>,
}

impl Model for ColumnPrefixes {
    fn cell(&mut self, cell: &Cell) -> Answer {
        let Some(last) = self.prefixes.last() else { return Answer::Include };
        match self.prefixes.range(..=cell.qualifier.clone()).next_back() {
            Some(nearest) if cell.qualifier.starts_with(nearest) => Answer::Include,
            Some(nearest) if nearest == last => Answer::NextRow,
            _ => {
                self.hint = self.prefixes.iter().find(|prefix| **prefix > cell.qualifier).cloned();
                Answer::Seek
            }
        }
    }
    fn hint(&self) -> Option<Vec<u8>> {
        self.hint.clone()
    }
}

struct ColumnCountGet {
    limit: u32,
    count: u32,
}

impl Model for ColumnCountGet {
    fn reset(&mut self) {
        self.count = 0;
    }
    fn is_done(&self) -> bool {
        self.count > self.limit
    }
    fn cell(&mut self, _cell: &Cell) -> Answer {
        self.count += 1;
        if self.is_done() { Answer::NextColumn } else { Answer::IncludeNextColumn }
    }
}

struct Page {
    size: u64,
    rows: u64,
}

impl Model for Page {
    fn is_done(&self) -> bool {
        self.rows >= self.size
    }
    fn row(&mut self) -> bool {
        self.rows += 1;
        self.rows > self.size
    }
}

struct ColumnPagination {
    limit: u32,
    offset: u32,
    count: u32,
}

impl Model for ColumnPagination {
    fn reset(&mut self) {
        self.count = 0;
    }
    fn cell(&mut self, _cell: &Cell) -> Answer {
        let before = self.count;
        if before >= self.offset + self.limit {
            return Answer::NextRow;
        }
        self.count += 1;
        if before < self.offset { Answer::NextColumn } else { Answer::IncludeNextColumn }
    }
}

struct InclusiveStop {
    stop: Vec<u8>,
    is_reversed: bool,
    is_done: bool,
}

impl Model for InclusiveStop {
    fn is_done(&self) -> bool {
        self.is_done
    }
    fn row_key(&mut self, row: &[u8]) -> bool {
        if !self.is_done {
            self.is_done = if self.is_reversed { row < &self.stop[..] } else { row > &self.stop[..] };
        }
        self.is_done
    }
    fn cell(&mut self, _cell: &Cell) -> Answer {
        if self.is_done { Answer::NextRow } else { Answer::Include }
    }
}

struct Timestamps(Vec<i64>);

impl Model for Timestamps {
    fn cell(&mut self, cell: &Cell) -> Answer {
        if self.0.contains(&cell.timestamp) {
            Answer::Include
        } else if self.0.iter().all(|timestamp| cell.timestamp < *timestamp) {
            Answer::NextColumn
        } else {
            Answer::Skip
        }
    }
}

/// How bytes lie to a comparator.
type Compare = Box<dyn Fn(&[u8]) -> Ordering>;

/// A comparison with a comparator, as functions.
struct Compared {
    passes: fn(Ordering) -> bool,
    compare: Compare,
}

impl Compared {
    fn passes(&self, bytes: &[u8]) -> bool {
        (self.passes)((self.compare)(bytes))
    }
}

struct Row {
    compared: Compared,
    is_out: bool,
}

impl Model for Row {
    fn reset(&mut self) {
        self.is_out = false;
    }
    fn row_key(&mut self, row: &[u8]) -> bool {
        self.is_out = !self.compared.passes(row);
        self.is_out
    }
    fn cell(&mut self, _cell: &Cell) -> Answer {
        if self.is_out { Answer::NextRow } else { Answer::Include }
    }
    fn row(&mut self) -> bool {
        self.is_out
    }
}

struct Family(Compared);

impl Model for Family {
    fn cell(&mut self, cell: &Cell) -> Answer {
        if self.0.passes(cell.family.as_bytes()) { Answer::Include } else { Answer::NextRow }
    }
}

struct Qualifier(Compared);

impl Model for Qualifier {
    fn cell(&mut self, cell: &Cell) -> Answer {
        if self.0.passes(&cell.qualifier) { Answer::Include } else { Answer::Skip }
    }
}

struct Value(Compared);

impl Model for Value {
    fn cell(&mut self, cell: &Cell) -> Answer {
        if self.0.passes(&cell.value) { Answer::Include } else { Answer::Skip }
    }
}

struct SingleColumn {
    family: &'static str,
    qualifier: Vec<u8>,
    compared: Compared,
    if_missing: bool,
    latest_only: bool,
    exclude: bool,
    is_found: bool,
    is_matched: bool,
}

impl SingleColumn {
    fn is_meant(&self, cell: &Cell) -> bool {
        cell.family == self.family && cell.qualifier == self.qualifier
    }
}

impl Model for SingleColumn {
    fn reset(&mut self) {
        (self.is_found, self.is_matched) = (false, false);
    }
    fn cell(&mut self, cell: &Cell) -> Answer {
        let has_decided = self.is_matched || (self.latest_only && self.is_found);
        if !has_decided && self.is_meant(cell) {
            self.is_found = true;
            self.is_matched = self.compared.passes(&cell.value);
        }
        if self.is_found && !self.is_matched && self.latest_only { Answer::NextRow } else { Answer::Include }
    }
    fn row_cells(&self, cells: &mut Vec<Cell>) {
        if self.exclude {
            cells.retain(|cell| !self.is_meant(cell));
        }
    }
    fn row(&mut self) -> bool {
        if self.is_found { !self.is_matched } else { self.if_missing }
    }
}

struct Dependent {
    family: &'static str,
    qualifier: Vec<u8>,
    drop: bool,
    compared: Option<Compared>,
    stamps: std::collections::HashSet<i64>,
}

impl Model for Dependent {
    fn reset(&mut self) {
        self.stamps.clear();
    }
    fn cell(&mut self, cell: &Cell) -> Answer {
        if cell.family != self.family || cell.qualifier != self.qualifier {
            return Answer::Include;
        }
        if self.compared.as_ref().is_some_and(|compared| !compared.passes(&cell.value)) {
            return Answer::Skip;
        }
        self.stamps.insert(cell.timestamp);
        if self.drop { Answer::Skip } else { Answer::Include }
    }
    fn row_cells(&self, cells: &mut Vec<Cell>) {
        cells.retain(|cell| self.stamps.contains(&cell.timestamp));
    }
}

struct ColumnRange {
    from: Vec<u8>,
    has_from: bool,
    to: Vec<u8>,
    has_to: bool,
}

impl Model for ColumnRange {
    fn cell(&mut self, cell: &Cell) -> Answer {
        let qualifier = &cell.qualifier;
        if !self.from.is_empty() && *qualifier < self.from {
            return Answer::Seek;
        }
        if !self.from.is_empty() && *qualifier == self.from && !self.has_from {
            return Answer::NextColumn;
        }
        let is_below = *qualifier < self.to || (self.has_to && *qualifier == self.to);
        if self.to.is_empty() || is_below { Answer::Include } else { Answer::NextRow }
    }
    fn hint(&self) -> Option<Vec<u8>> {
        Some(self.from.clone())
    }
}

struct ColumnValue {
    family: &'static str,
    qualifier: Vec<u8>,
    compared: Compared,
    is_found: bool,
}

impl Model for ColumnValue {
    fn reset(&mut self) {
        self.is_found = false;
    }
    fn cell(&mut self, cell: &Cell) -> Answer {
        if cell.family != self.family || cell.qualifier != self.qualifier {
            return if self.is_found { Answer::NextRow } else { Answer::NextColumn };
        }
        self.is_found = true;
        if self.compared.passes(&cell.value) { Answer::Include } else { Answer::Skip }
    }
}

struct Skip(Boxed, bool);

impl Model for Skip {
    fn reset(&mut self) {
        self.0.reset();
        self.1 = false;
    }
    fn cell(&mut self, cell: &Cell) -> Answer {
        let answer = self.0.cell(cell);
        self.1 |= answer != Answer::Include;
        answer
    }
    fn transform(&self, value: Vec<u8>) -> Vec<u8> {
        self.0.transform(value)
    }
    fn row(&mut self) -> bool {
        self.1
    }
}

struct While(Boxed, bool);

impl Model for While {
    fn reset(&mut self) {
        self.0.reset();
    }
    fn is_done(&self) -> bool {
        self.1 || self.0.is_done()
    }
    fn row_key(&mut self, row: &[u8]) -> bool {
        let is_out = self.is_done() || self.0.row_key(row);
        self.1 |= is_out;
        is_out
    }
    fn cell(&mut self, cell: &Cell) -> Answer {
        let answer = self.0.cell(cell);
        self.1 |= answer != Answer::Include;
        answer
    }
    fn transform(&self, value: Vec<u8>) -> Vec<u8> {
        self.0.transform(value)
    }
    fn row(&mut self) -> bool {
        let is_out = self.0.row();
        self.1 |= is_out;
        is_out
    }
}

/// The filters of an `AND`, and the one that sought last.
struct And(Vec<Boxed>, usize);

impl Model for And {
    fn reset(&mut self) {
        self.0.iter_mut().for_each(|filter| filter.reset());
    }
    fn is_done(&self) -> bool {
        self.0.iter().any(|filter| filter.is_done())
    }
    fn row_key(&mut self, row: &[u8]) -> bool {
        let outs: Vec<bool> =
            self.0.iter_mut().map(|filter| filter.is_done() || filter.row_key(row)).collect();
        outs.contains(&true)
    }
    fn cell(&mut self, cell: &Cell) -> Answer {
        let mut together = Answer::Include;
        for (place, filter) in self.0.iter_mut().enumerate() {
            if filter.is_done() {
                return Answer::NextRow;
            }
            let answer = filter.cell(cell);
            match answer {
                Answer::Include => {}
                Answer::IncludeNextColumn => together = answer,
                Answer::Seek => {
                    self.1 = place;
                    return answer;
                }
                Answer::Skip if together == Answer::IncludeNextColumn => return Answer::NextColumn,
                Answer::Skip | Answer::NextColumn | Answer::NextRow => return answer,
            }
        }
        together
    }
    fn hint(&self) -> Option<Vec<u8>> {
        self.0[self.1].hint()
    }
    fn transform(&self, value: Vec<u8>) -> Vec<u8> {
        self.0.iter().fold(value, |value, filter| filter.transform(value))
    }
    fn row_cells(&self, cells: &mut Vec<Cell>) {
        self.0.iter().for_each(|filter| filter.row_cells(cells));
    }
    fn row(&mut self) -> bool {
        self.0.iter_mut().any(|filter| filter.row())
    }
}

/// The filters of an `OR`; for each what it answered last and about which cell, and whether it includes the cell.
struct Or(Vec<Choice>);

type Choice = (Boxed, Option<(Answer, Cell)>, bool);

impl Model for Or {
    fn reset(&mut self) {
        for (filter, last, _) in &mut self.0 {
            filter.reset();
            *last = None;
        }
    }
    fn is_done(&self) -> bool {
        self.0.iter().all(|(filter, ..)| filter.is_done())
    }
    fn row_key(&mut self, row: &[u8]) -> bool {
        let outs: Vec<bool> =
            self.0.iter_mut().map(|(filter, ..)| filter.is_done() || filter.row_key(row)).collect();
        !outs.contains(&false)
    }
    fn cell(&mut self, cell: &Cell) -> Answer {
        let mut answers = Vec::new();
        for (filter, last, includes) in &mut self.0 {
            *includes = false;
            if filter.is_done() {
                continue;
            }
            let still = last.as_ref().and_then(|(answer, before)| {
                let is_same_family = before.family == cell.family;
                match answer {
                    Answer::Seek => {
                        let is_below = filter.hint().is_some_and(|hint| cell.qualifier < hint);
                        (is_same_family && is_below).then_some(Answer::Seek)
                    }
                    Answer::NextColumn | Answer::IncludeNextColumn => {
                        let is_same = is_same_family && before.qualifier == cell.qualifier;
                        is_same.then_some(Answer::NextColumn)
                    }
                    Answer::NextRow => is_same_family.then_some(Answer::NextRow),
                    Answer::Include | Answer::Skip => None,
                }
            });
            let answer = still.unwrap_or_else(|| filter.cell(cell));
            *last = Some((answer, cell.clone()));
            *includes = matches!(answer, Answer::Include | Answer::IncludeNextColumn);
            answers.push(answer);
        }
        let all = |some: &[Answer]| answers.iter().all(|answer| some.contains(answer));
        let has = |answer: Answer| answers.contains(&answer);
        if answers.is_empty() {
            Answer::Skip
        } else if has(Answer::Include) || has(Answer::IncludeNextColumn) {
            let leaves = all(&[Answer::IncludeNextColumn, Answer::NextColumn, Answer::NextRow]);
            if leaves { Answer::IncludeNextColumn } else { Answer::Include }
        } else if all(&[Answer::Seek]) {
            Answer::Seek
        } else if all(&[Answer::NextRow]) {
            Answer::NextRow
        } else if all(&[Answer::NextRow, Answer::NextColumn]) {
            Answer::NextColumn
        } else {
            Answer::Skip
        }
    }
    fn hint(&self) -> Option<Vec<u8>> {
        let open = self.0.iter().filter(|(filter, ..)| !filter.is_done());
        let hints: Option<Vec<Vec<u8>>> = open.map(|(filter, ..)| filter.hint()).collect();
        hints?.into_iter().min()
    }
    fn transform(&self, value: Vec<u8>) -> Vec<u8> {
        let including = self.0.iter().filter(|(_, _, includes)| *includes);
        including.fold(value, |value, (filter, ..)| filter.transform(value))
    }
    fn row_cells(&self, cells: &mut Vec<Cell>) {
        self.0.iter().for_each(|(filter, ..)| filter.row_cells(cells));
    }
    fn row(&mut self) -> bool {
        self.0.iter_mut().all(|(filter, ..)| filter.row())
    }
}

/// The text of a random filter, and the filter itself.
pub(crate) fn some(random: &mut Rng, old_ms: i64, is_reversed: bool) -> (Vec<u8>, Boxed) {
    // Some of the kinds that narrow what is read, in few lists.
    if random.index(3) == 0 {
        return filter(random, old_ms, is_reversed, 1, true);
    }
    filter(random, old_ms, is_reversed, 3, false)
}

fn quoted(text: &mut Vec<u8>, bytes: &[u8]) {
    text.push(b'\'');
    text.extend_from_slice(bytes);
    text.push(b'\'');
}

/// A comparison with one of `samples`, or with something of them.
fn compared(random: &mut Rng, text: &mut Vec<u8>, samples: &[&[u8]]) -> Compared {
    type Passes = fn(Ordering) -> bool;
    let comparisons: [(&str, Passes); 6] = [
        ("=", Ordering::is_eq),
        ("!=", Ordering::is_ne),
        ("<", Ordering::is_lt),
        ("<=", Ordering::is_le),
        (">", Ordering::is_gt),
        (">=", Ordering::is_ge),
    ];
    let kind = random.index(5);
    let (comparison, passes) = comparisons[random.index(if kind < 2 { 2 } else { 6 })];
    text.extend_from_slice(comparison.as_bytes());
    text.extend_from_slice(b", ");
    let sample = random.of(samples).to_vec();
    let found = |is_found: bool| {
        if is_found { Ordering::Equal } else { Ordering::Less }
    };
    let (name, bytes, compare): (_, _, Compare) = match kind {
        0 => (
            "substring:",
            b"A".to_vec(),
            Box::new(move |bytes| found(bytes.iter().any(|byte| b"aA".contains(byte)))),
        ),
        1 => {
            let (name, pattern, has) = expression(random, samples);
            (name, pattern.into_bytes(), Box::new(move |bytes| found(has(bytes))))
        }
        2 => {
            let prefix = sample[..sample.len().min(1)].to_vec();
            let other = prefix.clone();
            let compare = move |bytes: &[u8]| bytes[..bytes.len().min(prefix.len())].cmp(&prefix);
            ("binaryprefix:", other, Box::new(compare))
        }
        _ => {
            let other = sample.clone();
            ("binary:", other, Box::new(move |bytes: &[u8]| bytes.cmp(&sample)))
        }
    };
    quoted(text, &[name.as_bytes(), &bytes].concat());
    Compared { passes, compare }
}

/// What an expression says of bytes.
type Says = Box<dyn Fn(&[u8]) -> bool>;

/// Whether `$` of Java's matches between two parts of a text.
fn is_last_line(before: &str, after: &str) -> bool {
    match after {
        "" | "\r" | "\r\n" | "\u{85}" | "\u{2028}" | "\u{2029}" => true,
        "\n" => !before.ends_with('\r'),
        _ => false,
    }
}

/// A regular expression with the name of its comparator, and what it says of bytes.
fn expression(random: &mut Rng, samples: &[&[u8]]) -> (&'static str, String, Says) {
    // Java sees bytes as text.
    fn text(bytes: &[u8]) -> String {
        String::from_utf8_lossy(bytes).into_owned()
    }
    let escaped =
        |text: &str| text.chars().map(|one| format!("\\x{{{:x}}}", u32::from(one))).collect::<String>();
    let sample = random.of(samples);
    let begin = text(&sample[..random.index(sample.len() + 1)]);
    let (sample, other) = (text(sample), text(random.of(samples)));
    let (of_begin, of_sample, of_other) = (escaped(&begin), escaped(&sample), escaped(&other));
    let is_whole =
        |text: &str, whole: &str| text.strip_prefix(whole).is_some_and(|after| is_last_line(whole, after));
    match random.index(8) {
        0 => {
            let has =
                |bytes: &[u8]| bytes.first().is_some_and(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'm'));
            ("regexstring:", "^[0-9a-m]".to_owned(), Box::new(has))
        }
        1 => {
            let has = move |bytes: &[u8]| is_whole(&text(bytes), &sample);
            ("regexstring:", format!("^{of_sample}$"), Box::new(has))
        }
        2 => {
            let has = move |bytes: &[u8]| is_whole(&text(bytes), &sample) || text(bytes).starts_with(&other);
            ("regexstring:", format!("^({of_sample}$|{of_other})"), Box::new(has))
        }
        3 => {
            let has = move |bytes: &[u8]| {
                let text = text(bytes);
                let mut ends = text.char_indices().map(|(at, _)| at).chain([text.len()]);
                text.starts_with(&begin)
                    || ends.any(|at| text[..at].ends_with(&sample) && is_last_line(&text[..at], &text[at..]))
            };
            ("regexstring:", format!("^{of_begin}|{of_sample}$"), Box::new(has))
        }
        4 => {
            let has = move |bytes: &[u8]| {
                text(bytes).strip_prefix(begin.as_str()).is_some_and(|after| after.chars().count() < 2)
            };
            ("regexstring:", format!(r"\A{of_begin}.?\z"), Box::new(has))
        }
        5 => (
            "regexstringnocase:",
            "^[AQ]\\x00?".to_owned(),
            Box::new(|bytes| bytes.first().is_some_and(|byte| b"aAqQ".contains(byte))),
        ),
        6 => {
            let is_line_end = |one: char| "\n\r\u{85}\u{2028}\u{2029}".contains(one);
            let has = move |bytes: &[u8]| text(bytes).split(is_line_end).any(|line| line.starts_with('a'));
            ("regexstring:", "(?m)^a".to_owned(), Box::new(has))
        }
        _ => {
            let has = move |bytes: &[u8]| text(bytes).starts_with(&begin);
            ("regexstring:", format!("^{of_begin}"), Box::new(has))
        }
    }
}

fn boolean(random: &mut Rng, text: &mut Vec<u8>) -> bool {
    let is_true = random.index(2) == 0;
    text.extend_from_slice(if is_true { b"true" } else { b"false" });
    is_true
}

const VALUES: &[&[u8]] = &[b"", b"2", b"55", b"8", b"a1", b"c", b"f"];

fn filter(random: &mut Rng, old_ms: i64, is_reversed: bool, depth: usize, narrows: bool) -> (Vec<u8>, Boxed) {
    let families: Vec<&[u8]> = FAMILIES.iter().map(|(name, ..)| name.as_bytes()).collect();
    let mut text = Vec::new();
    let kind = match (depth, narrows) {
        (0, false) => random.index(19),
        (_, false) => random.index(27),
        (0, true) => random.of(&[1, 3, 4, 7, 10, 11, 12, 12, 13, 14, 14, 14, 15, 17, 18]),
        (_, true) => random.of(&[12, 21, 21, 24]),
    };
    if kind >= 19 {
        let count = random.of(&[2, 2, 3]);
        let mut inner = |text: &mut Vec<u8>| {
            let (inner, model) = filter(random, old_ms, is_reversed, depth - 1, narrows);
            text.push(b'(');
            text.extend_from_slice(&inner);
            text.push(b')');
            model
        };
        let model: Boxed = match kind {
            19 => {
                text.extend_from_slice(b"SKIP ");
                Box::new(Skip(inner(&mut text), false))
            }
            20 => {
                text.extend_from_slice(b"WHILE ");
                Box::new(While(inner(&mut text), false))
            }
            _ => {
                let (word, mut filters) = (if kind < 24 { " AND " } else { " OR " }, Vec::new());
                for place in 0..count {
                    if place > 0 {
                        text.extend_from_slice(word.as_bytes());
                    }
                    filters.push(inner(&mut text));
                }
                if kind < 24 {
                    Box::new(And(filters, 0))
                } else {
                    Box::new(Or(filters.into_iter().map(|filter| (filter, None, false)).collect()))
                }
            }
        };
        return (text, model);
    }
    let names = [
        "KeyOnlyFilter",
        "FirstKeyOnlyFilter",
        "PrefixFilter",
        "ColumnPrefixFilter",
        "MultipleColumnPrefixFilter",
        "ColumnCountGetFilter",
        "PageFilter",
        "ColumnPaginationFilter",
        "InclusiveStopFilter",
        "TimestampsFilter",
        "RowFilter",
        "FamilyFilter",
        "QualifierFilter",
        "ValueFilter",
        "SingleColumnValueFilter",
        "SingleColumnValueExcludeFilter",
        "DependentColumnFilter",
        "ColumnRangeFilter",
        "ColumnValueFilter",
    ];
    text.extend_from_slice(names[kind].as_bytes());
    text.push(b'(');
    let number = |text: &mut Vec<u8>, number: u64| text.extend_from_slice(number.to_string().as_bytes());
    let (family, qualifier) = (random.of(FAMILIES).0, random.of(QUALIFIERS).to_vec());
    let column = |text: &mut Vec<u8>| {
        quoted(text, family.as_bytes());
        text.extend_from_slice(b", ");
        quoted(text, &qualifier);
        text.extend_from_slice(b", ");
    };
    let model: Boxed = match kind {
        0 => Box::new(KeyOnly(boolean(random, &mut text))),
        1 => Box::new(FirstKeyOnly::default()),
        2 => {
            let row = random.of(ROWS);
            let prefix = row[..random.index(row.len() + 1)].to_vec();
            quoted(&mut text, &prefix);
            Box::new(Prefix { prefix, is_reversed, has_passed: false, is_out: true })
        }
        3 => {
            let prefix = qualifier[..random.index(qualifier.len() + 1)].to_vec();
            quoted(&mut text, &prefix);
            Box::new(ColumnPrefix(prefix))
        }
        4 => {
            let mut prefixes = std::collections::BTreeSet::new();
            for _ in 0..random.index(3) {
                prefixes.insert(random.of(QUALIFIERS).to_vec());
            }
            for prefix in &prefixes {
                quoted(&mut text, prefix);
                text.push(b',');
            }
            Box::new(ColumnPrefixes { prefixes, hint: None })
        }
        5 => {
            let limit = random.index(6) as u32;
            number(&mut text, limit.into());
            Box::new(ColumnCountGet { limit, count: 0 })
        }
        6 => {
            let size = random.index(4) as u64;
            number(&mut text, size);
            Box::new(Page { size, rows: 0 })
        }
        7 => {
            let (limit, offset) = (random.index(4) as u32, random.index(4) as u32);
            number(&mut text, limit.into());
            text.push(b',');
            number(&mut text, offset.into());
            Box::new(ColumnPagination { limit, offset, count: 0 })
        }
        8 => {
            let stop = random.of(ROWS).to_vec();
            quoted(&mut text, &stop);
            Box::new(InclusiveStop { stop, is_reversed, is_done: false })
        }
        9 => {
            let timestamps: Vec<i64> =
                (0..random.index(4)).map(|_| old_ms + random.index(7) as i64).collect();
            for timestamp in &timestamps {
                number(&mut text, *timestamp as u64);
                text.push(b',');
            }
            Box::new(Timestamps(timestamps))
        }
        10 => Box::new(Row { compared: compared(random, &mut text, ROWS), is_out: false }),
        11 => Box::new(Family(compared(random, &mut text, &families))),
        12 => Box::new(Qualifier(compared(random, &mut text, QUALIFIERS))),
        13 => Box::new(Value(compared(random, &mut text, VALUES))),
        14 | 15 => {
            column(&mut text);
            let compared = compared(random, &mut text, VALUES);
            let (mut if_missing, mut latest_only) = (false, true);
            if random.index(3) > 0 {
                text.push(b',');
                if_missing = boolean(random, &mut text);
                text.push(b',');
                latest_only = boolean(random, &mut text);
            }
            let exclude = kind == 15;
            let (is_found, is_matched) = (false, false);
            Box::new(SingleColumn {
                family,
                qualifier,
                compared,
                if_missing,
                latest_only,
                exclude,
                is_found,
                is_matched,
            })
        }
        16 => {
            column(&mut text);
            let drop = boolean(random, &mut text);
            text.push(b',');
            let compared = (random.index(2) == 0).then(|| compared(random, &mut text, VALUES));
            Box::new(Dependent { family, qualifier, drop, compared, stamps: Default::default() })
        }
        17 => {
            let (from, to) = (random.of(QUALIFIERS).to_vec(), random.of(QUALIFIERS).to_vec());
            quoted(&mut text, &from);
            text.push(b',');
            let has_from = boolean(random, &mut text);
            text.push(b',');
            quoted(&mut text, &to);
            text.push(b',');
            let has_to = boolean(random, &mut text);
            Box::new(ColumnRange { from, has_from, to, has_to })
        }
        _ => {
            column(&mut text);
            let compared = compared(random, &mut text, VALUES);
            Box::new(ColumnValue { family, qualifier, compared, is_found: false })
        }
    };
    text.push(b')');
    (text, model)
}
