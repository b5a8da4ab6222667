//! What the documents list is what the code has: no option, kind of error or figure is left out.

#![allow(clippy::unwrap_used, reason = "a test")]

use super::checkout;

/// The names behind `pub ` and before `:` in the body of `pub struct NAME`, or those of the variants of `pub enum NAME`.
fn members(file: &str, name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(checkout().join("crates/esker/src").join(file)).unwrap();
    let body = text.split_once(&format!("pub {name} {{\n")).unwrap().1.split_once("\n}").unwrap().0;
    let lines = body.lines().map(str::trim).filter(|line| !line.starts_with("//") && !line.starts_with('#'));
    lines.map(|line| line.trim_start_matches("pub ").split([':', ',']).next().unwrap().to_owned()).collect()
}

fn missing(document: &str, names: &[String]) -> Vec<String> {
    let text = std::fs::read_to_string(checkout().join("docs").join(document)).unwrap();
    names.iter().filter(|name| !text.contains(&format!("`{name}`"))).cloned().collect()
}

#[test]
fn every_option_is_in_the_document_about_tuning() {
    let options = members("options.rs", "struct Options");
    assert!(options.len() > 8 && options.contains(&"filter_bits".to_owned()), "{options:?}");
    assert_eq!(missing("tuning.md", &options), [""; 0]);
    assert!(options.len() < 20, "there are few: does every one serve?");
}

#[test]
fn every_kind_of_error_is_in_the_document_about_operations() {
    let kinds = members("error.rs", "enum ErrorKind");
    assert!(kinds.len() > 10 && kinds.contains(&"Poisoned".to_owned()), "{kinds:?}");
    assert_eq!(missing("operations.md", &kinds), [""; 0]);
}

/// The rows of the tables of guarantees: the number of each, and the tests that it names.
fn guarantees() -> Vec<(String, Vec<String>)> {
    let text = std::fs::read_to_string(checkout().join("docs/guarantees.md")).unwrap();
    let is_number = |cell: &str| {
        cell.starts_with(|c: char| c.is_ascii_uppercase()) && cell[1..].chars().all(|c| c.is_ascii_digit())
    };
    let rows = text.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" | "));
    let rows = rows.filter(|(number, _)| number.len() > 1 && is_number(number));
    let tests = |row: &str| {
        row.split('`').filter(|quoted| quoted.contains(".rs::")).map(str::to_owned).collect::<Vec<_>>()
    };
    rows.map(|(number, row)| (number.to_owned(), tests(row))).collect()
}

#[test]
fn every_guarantee_has_a_number_and_tests_that_there_are() {
    let guarantees = guarantees();
    assert!(guarantees.len() > 80, "{}", guarantees.len());
    let mut numbers = std::collections::BTreeSet::new();
    for (number, tests) in guarantees {
        assert!(numbers.insert(number.clone()), "two guarantees are called {number}");
        assert!(!tests.is_empty(), "{number} names no test");
        for test in tests {
            let (file, name) = test.split_once("::").unwrap();
            let code = std::fs::read_to_string(checkout().join(file));
            assert!(code.is_ok_and(|code| code.contains(name)), "{number} names {test}, which is not there");
        }
    }
}
