//! Random filters, as texts in HBase's filter language.

use std::fmt::Display;

use test_kit::Rng;

use super::{FAMILIES, FUTURE_MS, QUALIFIERS, ROWS, some_time, some_value};

/// Which filters mean the same on both sides in the read that they are for: `docs/tables.md` says why.
#[derive(Clone, Copy)]
pub(crate) struct Allowed {
    /// A scan backward has no `OR` of filters that seek, and no filter of the end of rows in `SKIP` and `WHILE`.
    pub(crate) is_reversed: bool,
    /// Filters that go to the next column: in reads of whole families.
    pub(crate) next_column: bool,
    /// Filters of rows in `WHILE`: not if a row of the scan has deleted cells only.
    pub(crate) row_in_while: bool,
    /// `ColumnCountGetFilter`: in reads of one family.
    pub(crate) column_count: bool,
}

/// Where a filter stands.
#[derive(Clone, Copy)]
struct Place {
    depth: u32,
    in_or: bool,
    in_skip: bool,
    in_while: bool,
    /// Whether the text may have `WHILE`. Then it has filters of rows in `WHILE` only: HBase shows the others also the cells of
    /// a row that is left out by its key.
    has_while: bool,
    /// Whether it may begin with `SKIP` or `WHILE`: HBase refuses that behind an operator and in front of a parenthesis.
    may_have_prefix: bool,
}

/// A text that both sides read.
pub(crate) fn some_filter(random: &mut Rng, allowed: Allowed) -> Vec<u8> {
    let has_while = random.index(2) == 0;
    let place =
        Place { depth: 0, in_or: false, in_skip: false, in_while: false, has_while, may_have_prefix: true };
    list(random, allowed, place)
}

/// One filter, or several with the same operator between them.
fn list(random: &mut Rng, allowed: Allowed, place: Place) -> Vec<u8> {
    let count = random.of(&[1, 1, 2, 2, 3]);
    let operator = random.of(&[" AND ", " OR "]);
    let in_or = place.in_or || (count > 1 && operator == " OR ");
    let mut text = Vec::new();
    for number in 1..=count {
        let may_have_prefix = count == 1 || place.depth == 0 || number < count;
        text.extend(one(random, allowed, Place { in_or, may_have_prefix, ..place }));
        if number < count {
            text.extend_from_slice(operator.as_bytes());
        }
    }
    text
}

fn one(random: &mut Rng, allowed: Allowed, place: Place) -> Vec<u8> {
    let inside = |random: &mut Rng, prefix: &str, in_skip: bool, in_while: bool| {
        let inner = list(random, allowed, Place { depth: place.depth + 1, in_skip, in_while, ..place });
        [prefix.as_bytes(), b"(", &inner, b")"].concat()
    };
    match random.index(8) {
        0 if place.depth < 2 => inside(random, "", place.in_skip, place.in_while),
        1 if place.depth < 2 && place.may_have_prefix => inside(random, "SKIP ", true, place.in_while),
        2 if place.depth < 2 && place.may_have_prefix && place.has_while => {
            inside(random, "WHILE ", true, true)
        }
        _ => leaf(random, allowed, place),
    }
}

/// Bytes in quotes.
fn quoted(bytes: &[u8]) -> Vec<u8> {
    let mut text = vec![b'\''];
    for byte in bytes {
        text.push(*byte);
        if *byte == b'\'' {
            text.push(*byte);
        }
    }
    text.push(b'\'');
    text
}

fn call(name: &str, arguments: &[Vec<u8>]) -> Vec<u8> {
    [name.as_bytes(), b"(", &arguments.join(&b", "[..]), b")"].concat()
}

fn word(word: impl Display) -> Vec<u8> {
    word.to_string().into_bytes()
}

/// An operator, and what the bytes that are like `example` are compared with.
fn test(random: &mut Rng, example: &[u8]) -> [Vec<u8>; 2] {
    let patterns =
        ["^a", "b", "[a-c]+", "d$", "a|q", "(aa|b)c?", "h[or]", r"\Qa\E", r"^.{2}\Z", "[a-z&&[^b]]$"];
    let (kind, bytes) = match random.index(6) {
        0 => ("regexstring:", random.of(&patterns).as_bytes()),
        1 => ("regexstringnocase:", random.of(&["^A", "Q", "[A-C]d"]).as_bytes()),
        2 => ("substring:", &random.of(&[b"a", b"B", b"q", b"o"])[..]),
        3 => ("binaryprefix:", &example[..example.len().min(1)]),
        _ => ("binary:", example),
    };
    let operators: &[&str] =
        if kind.starts_with('b') { &["<", "<=", "=", "!=", ">=", ">"] } else { &["=", "!="] };
    [word(random.of(operators)), quoted(&[kind.as_bytes(), bytes].concat())]
}

fn leaf(random: &mut Rng, allowed: Allowed, place: Place) -> Vec<u8> {
    let (row, qualifier, other) = (random.of(ROWS), random.of(QUALIFIERS), random.of(QUALIFIERS));
    let (family, value) = (random.of(FAMILIES).0, some_value(random));
    let prefix = |bytes: &[u8]| quoted(&bytes[..1]);
    let column = || [quoted(family.as_bytes()), quoted(qualifier)];
    let seeks = !(allowed.is_reversed && place.in_or);
    let judges_rows = !place.has_while || (place.in_while && allowed.row_in_while);
    let ends_rows = judges_rows && !(allowed.is_reversed && place.in_skip);
    match random.index(21) {
        0 => call("KeyOnlyFilter", random.of(&[&[][..], &[word(true)], &[word(false)]])),
        1 => call("FirstKeyOnlyFilter", &[]),
        2 if ends_rows => call("PrefixFilter", &[prefix(row)]),
        3 if ends_rows => call("InclusiveStopFilter", &[quoted(row)]),
        4 if judges_rows => call("RowFilter", &test(random, row)),
        5 => call("PageFilter", &[word(random.index(4))]),
        6 if seeks => call("ColumnPrefixFilter", &[prefix(qualifier)]),
        7 if seeks && qualifier != other => {
            call("MultipleColumnPrefixFilter", &[quoted(qualifier), quoted(other)])
        }
        8 if seeks && allowed.next_column => {
            let (from, to) = (qualifier.min(other), qualifier.max(other));
            let ends = [word(random.index(2) == 0), word(random.index(2) == 0)];
            call("ColumnRangeFilter", &[quoted(from), ends[0].clone(), quoted(to), ends[1].clone()])
        }
        9 if allowed.column_count && allowed.next_column => {
            call("ColumnCountGetFilter", &[word(1 + random.index(3))])
        }
        10 if allowed.next_column => {
            call("ColumnPaginationFilter", &[word(1 + random.index(3)), word(random.index(3))])
        }
        11 => {
            let times: Vec<_> = (0..=random.index(3)).map(|_| word(some_time(random))).collect();
            call("TimestampsFilter", &times)
        }
        12 => call("FamilyFilter", &test(random, family.as_bytes())),
        13 => call("QualifierFilter", &test(random, qualifier)),
        14 if allowed.next_column => {
            call("ColumnValueFilter", &[&column()[..], &test(random, &value)].concat())
        }
        15 | 16 => {
            let name = random.of(&["SingleColumnValueFilter", "SingleColumnValueExcludeFilter"]);
            let rest = [word(random.index(2) == 0), word(random.index(2) == 0)];
            let rest = if random.index(3) == 0 { &[][..] } else { &rest };
            call(name, &[&column()[..], &test(random, &value), rest].concat())
        }
        17 => {
            let drop = [word(random.index(2) == 0)];
            let both = [&drop[..], &test(random, &value)].concat();
            let rest = random.of(&[&[][..], &drop, &both]);
            call("DependentColumnFilter", &[&column()[..], rest].concat())
        }
        18 => call("TimestampsFilter", &[word(FUTURE_MS + random.index(6) as i64)]),
        _ => call("ValueFilter", &test(random, &value)),
    }
}
