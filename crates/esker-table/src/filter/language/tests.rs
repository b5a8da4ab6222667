use core::ops::Bound;

use super::*;

fn binary(comparison: Comparison, bytes: &str) -> (Comparison, Comparator) {
    (comparison, Comparator::binary(bytes))
}

#[test]
fn what_the_language_means() {
    use Comparison::{Equal, Greater, GreaterOrEqual, Less, LessOrEqual, NotEqual};
    let (a, b, c, d) =
        (|| Filter::prefix("a"), || Filter::prefix("b"), || Filter::prefix("c"), || Filter::prefix("d"));
    let value = |comparison, bytes: &str| Filter::value(comparison, Comparator::binary(bytes));
    let single = |if_missing, latest_only| {
        Filter::single_column_value("f", "q", Less, Comparator::binary("v"), if_missing, latest_only)
    };
    let cases: Vec<(&str, Filter)> = vec![
        ("KeyOnlyFilter()", Filter::key_only()),
        ("KeyOnlyFilter (FALSE)", Filter::key_only()),
        ("KeyOnlyFilter(true)", Filter::key_and_length_only()),
        (" \tFirstKeyOnlyFilter\n()\r\n", Filter::first_key_only()),
        ("PrefixFilter('a')", a()),
        ("PrefixFilter ( 'a' , )", a()),
        ("PrefixFilter('')", Filter::prefix("")),
        ("PrefixFilter('it''s')", Filter::prefix("it's")),
        ("PrefixFilter('''')", Filter::prefix("'")),
        ("PrefixFilter(') AND (')", Filter::prefix(") AND (")),
        ("ColumnPrefixFilter('a')", Filter::column_prefix("a")),
        ("MultipleColumnPrefixFilter('b', 'a')", Filter::column_prefixes(["a", "b"])),
        ("MultipleColumnPrefixFilter()", Filter::column_prefixes::<Vec<u8>>([])),
        ("ColumnCountGetFilter(4)", Filter::column_count_get(4)),
        ("PageFilter (0)", Filter::page(0)),
        ("PageFilter(9223372036854775807)", Filter::page(i64::MAX as u64)),
        ("ColumnPaginationFilter(2, 3)", Filter::column_pagination(2, 3)),
        ("ColumnPaginationFilter(2 3)", Filter::column_pagination(2, 3)),
        ("InclusiveStopFilter('a')", Filter::inclusive_stop("a")),
        ("TimestampsFilter(5, 2,5)", Filter::timestamps([2, 5])),
        ("TimestampsFilter()", Filter::timestamps([])),
        ("RowFilter(<, 'binary:a')", Filter::row(Less, Comparator::binary("a"))),
        ("RowFilter(<=, 'binaryprefix:a')", Filter::row(LessOrEqual, Comparator::prefix("a"))),
        (
            "FamilyFilter(=, 'regexstring:^a:b')",
            Filter::family(Equal, Comparator::java_regex("^a:b").unwrap()),
        ),
        (
            "QualifierFilter(!=, 'regexstringnocase:A')",
            Filter::qualifier(NotEqual, Comparator::java_regex_no_case("A").unwrap()),
        ),
        ("ValueFilter(=, 'substring:A')", Filter::value(Equal, Comparator::substring("a").unwrap())),
        ("ValueFilter(>=, 'binary:')", value(GreaterOrEqual, "")),
        ("ValueFilter(>,'binary::')", value(Greater, ":")),
        ("SingleColumnValueFilter('f','q',<,'binary:v')", single(false, true)),
        ("SingleColumnValueFilter('f','q',<,'binary:v',true,false)", single(true, false)),
        (
            "SingleColumnValueExcludeFilter('f','',=,'binary:v',false,true)",
            Filter::single_column_value_exclude("f", "", Equal, Comparator::binary("v"), false, true),
        ),
        ("DependentColumnFilter('f','q')", Filter::dependent_column("f", "q", false, None)),
        ("DependentColumnFilter('f','q',true)", Filter::dependent_column("f", "q", true, None)),
        (
            "DependentColumnFilter('f','q',false,>,'binary:v')",
            Filter::dependent_column("f", "q", false, Some(binary(Greater, "v"))),
        ),
        (
            "DependentColumnFilter('f','q',false,<,'substring:v')",
            Filter::dependent_column("f", "q", false, Some((Less, Comparator::substring("v").unwrap()))),
        ),
        (
            "ColumnRangeFilter('a',true,'b',false)",
            Filter::column_range(Bound::Included(b"a"), Bound::Excluded(b"b")),
        ),
        (
            "ColumnRangeFilter('a',false,'',true)",
            Filter::column_range(Bound::Excluded(b"a"), Bound::Unbounded),
        ),
        (
            "ColumnValueFilter('f','q',=,'binary:v')",
            Filter::column_value("f", "q", Equal, Comparator::binary("v")),
        ),
        ("(PrefixFilter('a'))", a()),
        ("SKIP PrefixFilter('a')", a().skip()),
        ("SKIP(PrefixFilter('a'))", a().skip()),
        ("WHILE SKIP PrefixFilter('a')", a().skip().while_match()),
        ("PrefixFilter('a') AND PrefixFilter('b')", a().and(b())),
        ("PrefixFilter('a')AND PrefixFilter('b')OR(PrefixFilter('c'))", a().and(b()).or(c())),
        (
            "PrefixFilter('a') OR PrefixFilter('b') AND PrefixFilter('c') OR PrefixFilter('d')",
            a().or(b().and(c())).or(d()),
        ),
        (
            "(PrefixFilter('a') OR PrefixFilter('b') AND PrefixFilter('c')) AND PrefixFilter('d')",
            a().or(b().and(c())).and(d()),
        ),
        ("SKIP PrefixFilter('a') AND WHILE PrefixFilter('b')", a().skip().and(b().while_match())),
        ("SKIP (PrefixFilter('a') AND PrefixFilter('b')) OR PrefixFilter('c')", a().and(b()).skip().or(c())),
        (
            "(PrefixFilter('a') AND PrefixFilter('b')) AND (PrefixFilter('c') AND PrefixFilter('d'))",
            Filter::all([a().and(b()), c().and(d())]),
        ),
    ];
    for (text, filter) in cases {
        match parse(text.as_bytes()) {
            Ok(read) => assert_eq!(read, filter, "{text}"),
            Err(error) => panic!("{text}: {error}"),
        }
    }
}

#[test]
fn what_is_wrong_and_where() {
    let cases: &[(&[u8], usize, &str)] = &[
        (b"", 0, "expected a filter, \"(\", SKIP or WHILE, found the end"),
        (b"  ", 2, "found the end"),
        (b"prefixfilter('a')", 0, "found \"prefixfilter('a')\""),
        (b"\xff\xfe()", 0, "found \"\\xff\\xfe()\""),
        (b"PrefixFilter", 12, "expected \"(\" behind PrefixFilter, found the end"),
        (b"PrefixFilter 'a'", 13, "expected \"(\" behind PrefixFilter, found \"'a'\""),
        (b"PrefixFilter('a'", 16, "expected an argument of PrefixFilter or \")\", found the end"),
        (b"PrefixFilter('a", 13, "expected a single quote that ends the bytes"),
        (b"PrefixFilter('a''", 13, "expected a single quote that ends the bytes"),
        (b"PrefixFilter(a)", 13, "expected bytes in single quotes, found \"a\""),
        (b"PrefixFilter((", 13, "expected an argument"),
        (b"PrefixFilter()", 0, "expected 1 arguments of PrefixFilter, found 0"),
        (b"PrefixFilter('a', 'b')", 0, "expected 1 arguments of PrefixFilter, found 2"),
        (b"SingleColumnValueFilter('f')", 0, "expected 4 or 6 arguments"),
        (b"KeyOnlyFilter(1)", 14, "expected true or false, found \"1\""),
        (b"PageFilter(-1)", 11, "expected a number from 0 to 9223372036854775807, found \"-1\""),
        (b"PageFilter('1')", 11, "found \"1\" in quotes"),
        (b"PageFilter(9223372036854775808)", 11, "expected a number"),
        (b"ColumnCountGetFilter(2147483648)", 21, "expected a number from 0 to 2147483647"),
        (b"MultipleColumnPrefixFilter('a','a')", 0, "expected different prefixes"),
        (b"RowFilter(==, 'binary:a')", 10, "expected <, <=, =, !=, > or >=, found \"==\""),
        (b"RowFilter(=, 'a')", 13, "expected a comparator"),
        (b"RowFilter(=, 'long:a')", 13, "expected a comparator"),
        (b"RowFilter(<, 'substring:a')", 10, "expected = or != with substring:"),
        (
            b"RowFilter(=, 'regexstring:(')",
            13,
            "the regular expression cannot be used: a group lacks its `)`",
        ),
        (b"RowFilter(=, 'regexstring:\xff')", 13, "expected UTF-8 behind regexstring:"),
        (b"PrefixFilter('a') PrefixFilter('b')", 18, "expected AND, OR or the end"),
        (b"PrefixFilter('a') AND", 21, "expected a filter"),
        (b"PrefixFilter('a') ANDPrefixFilter('b')", 18, "expected AND, OR or the end"),
        (b"OR PrefixFilter('a')", 0, "expected a filter"),
        (b"(PrefixFilter('a')", 18, "expected AND, OR or \")\", found the end"),
        (b"PrefixFilter('a'))", 17, "expected AND, OR or the end, found \")\""),
    ];
    for (text, place, what) in cases {
        match parse(text) {
            Err(Error::Filter { message, at }) => {
                assert_eq!(at, *place, "{}: {message}", text.escape_ascii());
                assert!(message.contains(what), "{}: {message}", text.escape_ascii());
            }
            other => panic!("{}: {other:?}", text.escape_ascii()),
        }
    }
}

#[test]
fn hostile_texts_are_refused() {
    let deep = |begin: &str, end: &str, levels: usize| {
        parse(format!("{}PageFilter(1){}", begin.repeat(levels), end.repeat(levels)).as_bytes())
    };
    for (begin, end) in [("(", ")"), ("SKIP ", ""), ("WHILE ", ""), ("SKIP(", ")")] {
        assert!(deep(begin, end, NESTING_MAX / 2).is_ok());
        assert!(deep(begin, end, NESTING_MAX + 1).is_err());
        assert!(deep(begin, end, 100_000).is_err());
    }
    let many = |part: &str, count: usize| {
        let text = vec![part; count].join(" OR ");
        parse(text.as_bytes())
    };
    assert!(many("PageFilter(1)", 50_000).is_ok());
    assert!(many("PageFilter(1)", 100_000).is_err());
    assert!(many("ValueFilter(=,'substring:a')", PATTERNS_MAX).is_ok());
    assert!(many("ValueFilter(=,'substring:a')", PATTERNS_MAX + 1).is_err());
    assert!(parse(&vec![b'('; 100 << 20]).is_err());
    assert!(parse(&vec![b' '; TEXT_LEN_MAX]).is_err());
    assert!(parse(&[b"PrefixFilter('".as_slice(), &vec![b'\''; 1 << 19]].concat()).is_err());
}
