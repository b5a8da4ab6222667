//! What the documents list is what the code has: no option, kind of error or figure is left out.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::{checkout, walk};

/// The names behind `pub ` and before `:` in the body of `pub struct NAME`, or those of the variants of `pub enum NAME`.
fn members(file: &str, name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(checkout().join("crates/esker/src").join(file)).unwrap();
    let body = text.split_once(&format!("pub {name} {{\n")).unwrap().1.split_once("\n}").unwrap().0;
    let lines = body.lines().map(str::trim).filter(|line| !line.starts_with("//") && !line.starts_with('#'));
    lines
        .map(|line| {
            line.trim_start_matches("pub(crate) ")
                .trim_start_matches("pub ")
                .split([':', ','])
                .next()
                .unwrap()
                .to_owned()
        })
        .collect()
}

fn missing(document: &str, names: &[String]) -> Vec<String> {
    let text = std::fs::read_to_string(checkout().join("docs").join(document)).unwrap();
    names.iter().filter(|name| !text.contains(&format!("`{name}`"))).cloned().collect()
}

#[test]
fn every_option_is_in_the_document_about_tuning() {
    let mut options = members("options.rs", "struct Options");
    // One of them is there twice: as it is with a feature, and without.
    options.dedup();
    assert!(options.len() > 8 && options.contains(&"filter_bits".to_owned()), "{options:?}");
    assert_eq!(missing("tuning.md", &options), [""; 0]);
    assert!(options.len() < 21, "there are few: does every one serve?");
}

#[test]
fn every_kind_of_error_is_in_the_document_about_operations() {
    let kinds = members("error.rs", "enum ErrorKind");
    assert!(kinds.len() > 10 && kinds.contains(&"Poisoned".to_owned()), "{kinds:?}");
    assert_eq!(missing("operations.md", &kinds), [""; 0]);
}

/// The rules of durability: the number of each, and the guarantees that rest on it.
fn rules() -> BTreeMap<u32, Vec<String>> {
    let text = std::fs::read_to_string(checkout().join("docs/durability.md")).unwrap();
    let sections = text.split("\n### Rule ").skip(1).map(|section| {
        let number = section.split_once(':').unwrap().0.parse().unwrap();
        let guarantees = section.split_once("\nGuarantees: ").unwrap().1.split_once(".\n").unwrap().0;
        (number, guarantees.split(", ").map(str::to_owned).collect())
    });
    sections.collect()
}

/// The numbers in `text` that stand behind "rule-" or "rule ", or in a list behind "rules ".
fn cited(text: &str) -> BTreeSet<u32> {
    let lower = text.to_lowercase();
    let mut numbers = BTreeSet::new();
    for (at, _) in lower.match_indices("rule") {
        let behind = &lower[at + "rule".len()..];
        let found = [("s ", usize::MAX), (" ", 1), ("-", 1)]
            .iter()
            .find_map(|(before, most)| Some((behind.strip_prefix(before)?, *most)));
        let Some((list, most)) = found else { continue };
        let words =
            list.split([' ', ',', '\n']).filter(|word| !matches!(*word, "" | "and" | "to" | "//!" | "///"));
        let digits = words.map(|word| word.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default());
        numbers.extend(digits.map_while(|digits| digits.parse::<u32>().ok()).take(most));
    }
    numbers
}

#[test]
fn numbers_of_rules_are_found_where_they_are_cited() {
    let text = "(durability rules 2, 5 and 6): Rule 10 has 7, and rule-23-reserve    40; rule 4). The rules hold, a rule-book of 9.";
    assert_eq!(cited(text), [2, 4, 5, 6, 10, 23].into());
}

#[test]
fn every_rule_that_is_cited_is_in_the_document_about_durability() {
    let rules = rules();
    assert!(rules.len() > 25 && rules[&12] == ["B11", "B12"], "{rules:?}");
    let known: BTreeSet<String> = guarantees().into_iter().map(|(number, _)| number).collect();
    for (number, guarantees) in &rules {
        assert!(guarantees.iter().all(|id| known.contains(id)), "rule {number} names {guarantees:?}");
    }
    let mut paths = Vec::new();
    walk(&checkout(), &mut paths).unwrap();
    let mut cited_in_all = BTreeSet::new();
    for path in paths.into_iter().filter(|path| !path.ends_with("tidy/documents.rs")) {
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        for number in cited(&text) {
            assert!(
                rules.contains_key(&number),
                "{} cites rule {number}, which there is not",
                path.display()
            );
            cited_in_all.insert(number);
        }
    }
    assert!(cited_in_all.len() > 20, "only {cited_in_all:?} are cited");
}

/// The guarantees: the number of each, and the tests that it names.
fn guarantees() -> Vec<(String, Vec<String>)> {
    let text = std::fs::read_to_string(checkout().join("docs/guarantees.md")).unwrap();
    let items = text.split("\n- **").skip(1).filter_map(|item| item.split_once(".** "));
    let is_number = |number: &str| {
        let digits = number.trim_start_matches(|c: char| c.is_ascii_uppercase());
        number.len() == digits.len() + 1 && digits.parse::<u32>().is_ok()
    };
    let tests = |item: &str| {
        let lines = item.lines().skip_while(|line| line.trim() != "Tests:").skip(1);
        let names = lines.map_while(|line| line.trim().strip_prefix('`')?.strip_suffix('`'));
        names.map(str::to_owned).collect()
    };
    items
        .filter(|(number, _)| is_number(number))
        .map(|(number, item)| (number.to_owned(), tests(item)))
        .collect()
}

#[test]
fn every_guarantee_has_a_number_and_tests_that_there_are() {
    let guarantees = guarantees();
    assert!(guarantees.len() > 80, "{}", guarantees.len());
    let mut numbers = BTreeSet::new();
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

/// The breaks that the code has for `--cfg esker_canary`, and those that some harness is run with.
#[test]
fn every_canary_breaks_something_and_every_break_has_a_canary() {
    let mut paths = Vec::new();
    walk(&checkout().join("crates"), &mut paths).unwrap();
    let in_code: BTreeSet<String> = paths
        .iter()
        .filter(|path| path.extension().is_some_and(|end| end == "rs"))
        .flat_map(|path| {
            let text = std::fs::read_to_string(path).unwrap();
            // The program compares the name itself.
            let breaks = ["broken(\"", "is_some_and(|name| name == \""].map(|before| {
                let names = text.split(before).skip(1).map(|rest| rest.split('"').next().unwrap());
                names.map(str::to_owned).collect::<Vec<_>>()
            });
            breaks.concat()
        })
        .collect();
    let script = std::fs::read_to_string(checkout().join("scripts/canaries")).unwrap();
    let rows = script.split_once("canaries='\n").unwrap().1.split_once("\n'").unwrap().0;
    let proof = std::fs::read_to_string(checkout().join("scripts/proof")).unwrap();
    let tools = proof.split("' caught ").skip(1).map(|rest| rest.split(' ').next().unwrap());
    let run: BTreeSet<String> =
        rows.lines().map(|row| row.split(' ').next().unwrap()).chain(tools).map(str::to_owned).collect();
    assert!(in_code.len() > 50, "{in_code:?}");
    assert_eq!(in_code.symmetric_difference(&run).collect::<Vec<_>>(), [""; 0]);
}

/// `tools/plot_readme.py` draws the plot.
#[test]
fn the_plot_of_the_readme_shows_the_figures_of_its_table() {
    let readme = std::fs::read_to_string(checkout().join("README.md")).unwrap();
    let plot = std::fs::read_to_string(checkout().join("docs/plots/readme.svg")).unwrap();
    let table = readme.split_once("| Esker / the better |\n").unwrap().1.split_once("\n\n").unwrap().0;
    let shown: Vec<(String, String)> = table
        .lines()
        .skip(1)
        .map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            let label = cells[0].replace(", 1 / 8 / 16 threads", ", 16 threads");
            (label, cells[cells.len() - 1].rsplit(" / ").next().unwrap().to_owned())
        })
        .collect();
    assert!(shown.len() > 8, "{shown:?}");
    for (label, ratio) in shown {
        let bar = plot.split_once(&format!(">{label}</text>")).map(|(_, rest)| rest);
        let first = bar.and_then(|bar| bar.split_once("</text>")).map(|(bar, _)| bar.to_owned());
        assert!(
            first.is_some_and(|bar| bar.ends_with(&format!(">{ratio}"))),
            "{label} {ratio} is not in the plot"
        );
    }
}

/// What a heading is called in a link, as GitHub makes it.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    let kept = kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// The targets of `[text](target)` outside of code, and the anchors of the headings, in their order.
fn links_and_anchors(text: &str) -> (Vec<String>, Vec<String>) {
    let (mut links, mut anchors, mut in_code) = (Vec::new(), Vec::new(), false);
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        } else if !in_code {
            if line.starts_with('#') {
                anchors.push(anchor(line.trim_start_matches('#')));
            }
            let targets =
                line.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0.to_owned()));
            links.extend(targets);
        }
    }
    (links, anchors)
}

/// What is wrong with the headings and links of the page at `path`. `read` returns the text of another page, and `exists`
/// whether there is a file or directory.
fn faults_of_page(
    path: &Path,
    text: &str,
    read: impl Fn(&Path) -> Option<String>,
    exists: impl Fn(&Path) -> bool,
) -> Vec<String> {
    let (links, own) = links_and_anchors(text);
    let mut faults = Vec::new();
    let mut seen = BTreeSet::new();
    for anchor in &own {
        if !seen.insert(anchor) {
            faults.push(format!("{}: two headings have the anchor #{anchor}", path.display()));
        }
    }
    for link in links.into_iter().filter(|link| !link.contains("://")) {
        let (file, heading) = link.split_once('#').unwrap_or((&link, ""));
        let target = path.parent().unwrap().join(file);
        let headings_of = |anchors: &[String]| anchors.iter().filter(|anchor| *anchor == heading).count();
        let found = match (file, heading) {
            ("", _) => headings_of(&own),
            (_, "") => usize::from(exists(&target)),
            _ => read(&target).map_or(0, |text| headings_of(&links_and_anchors(&text).1)),
        };
        match found {
            1 => {}
            0 => faults.push(format!("{}: {link} leads nowhere", path.display())),
            _ => faults.push(format!("{}: {link} leads to {found} headings", path.display())),
        }
    }
    faults
}

#[test]
fn faults_of_headings_and_links_are_found() {
    let read = |path: &Path| {
        (path == Path::new("docs/b.md")).then(|| "# B\n\n## One\n\n## Two\n\n## two\n".to_owned())
    };
    let exists = |path: &Path| path == Path::new("docs/b.md");
    let faults = |text: &str| faults_of_page(Path::new("docs/a.md"), text, read, exists);
    let sound = "# A\n\n## One, two\n[1](#one-two) [2](b.md) [3](b.md#one) [4](https://c/#d)\n```\n# A\n[5](e.md)\n```\n";
    assert_eq!(faults(sound), [""; 0]);
    let expected = [
        ("## One\n\n### One\n", "docs/a.md: two headings have the anchor #one"),
        ("## One!\n\n# one\n", "docs/a.md: two headings have the anchor #one"),
        ("[1](#one)\n", "docs/a.md: #one leads nowhere"),
        ("[1](c.md)\n", "docs/a.md: c.md leads nowhere"),
        ("[1](b.md#three)\n", "docs/a.md: b.md#three leads nowhere"),
        ("[1](b.md#two)\n", "docs/a.md: b.md#two leads to 2 headings"),
    ];
    for (text, fault) in expected {
        assert_eq!(faults(text), [fault], "{text}");
    }
    let both = faults("## One\n\n## One\n[1](#one)\n");
    assert_eq!(both.len(), 2, "{both:?}");
}

#[test]
fn every_link_in_a_document_leads_to_one_place() {
    let mut paths = Vec::new();
    walk(&checkout(), &mut paths).unwrap();
    let (mut seen, mut faults) = (0, Vec::new());
    for path in paths.iter().filter(|path| path.extension().is_some_and(|extension| extension == "md")) {
        let text = std::fs::read_to_string(path).unwrap();
        seen += links_and_anchors(&text).0.len();
        faults.extend(faults_of_page(path, &text, |path| std::fs::read_to_string(path).ok(), Path::exists));
    }
    assert!(seen > 50, "only {seen} links");
    assert!(faults.is_empty(), "{faults:#?}");
}
