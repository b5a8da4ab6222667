//! Pages about the code name files and members that there are, every crate has one, and the introduction leads to all.
//!
//! The introduction is `docs/architecture.md`. The pages are `crates/*/ARCHITECTURE.md` and `crates/*/docs/*.md`. A page says
//! where its file names begin: "File names on this page are relative to `crates/esker/src`."

#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::{checkout, walk};

const INTRODUCTION: &str = "docs/architecture.md";

/// Longer introductions are not read.
const INTRODUCTION_LINES_MAX: usize = 400;

/// Where the file names of a page begin.
fn base(text: &str) -> Option<String> {
    let text: Vec<&str> = text.split_whitespace().collect();
    let text = text.join(" ");
    let (_, rest) = text.split_once("File names on this page are relative to `")?;
    Some(rest.split_once('`')?.0.to_owned())
}

/// The pieces of code within lines of text, and the paths of names in diagrams, with the numbers of the lines.
fn spans(text: &str) -> Vec<(usize, &str)> {
    let (mut spans, mut in_block) = (Vec::new(), false);
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        } else if in_block {
            let words = line.split(|c| !is_word(c) && c != ':').map(|word| word.trim_matches(':'));
            spans.extend(words.filter(|word| word.contains("::")).map(|word| (number + 1, word)));
        } else {
            spans.extend(line.split('`').skip(1).step_by(2).map(|span| (number + 1, span)));
        }
    }
    spans
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Whether a piece of code is the name of a file or directory.
fn is_path(span: &str) -> bool {
    let of_a_path = |c: char| is_word(c) || matches!(c, '/' | '.' | '-');
    let ends_as_one = span.ends_with(".rs") || span.ends_with('/');
    ends_as_one && !span.starts_with('/') && span.chars().all(of_a_path)
}

/// The words of a path of names: `Tree::put` has two.
fn path_of_names(span: &str) -> Option<Vec<&str>> {
    let names: Vec<&str> = span.trim_end_matches("()").split("::").collect();
    let are_names = names.iter().all(|name| !name.is_empty() && name.chars().all(is_word));
    (names.len() > 1 && are_names).then_some(names)
}

/// What a page names and the checkout does not have. `exists` takes a path of the checkout. `words` are those of each source.
fn faults_of_names(
    page: &str,
    text: &str,
    exists: impl Fn(&str) -> bool,
    words: &[HashSet<String>],
) -> Vec<String> {
    let base = base(text);
    let mut faults = Vec::new();
    if base.as_ref().is_some_and(|base| !exists(base)) {
        faults
            .push(format!("{page}: its file names begin at {}, which is not there", base.as_ref().unwrap()));
    }
    for (line, span) in spans(text) {
        if is_path(span) && !exists(span) {
            match &base {
                None => faults.push(format!("{page}:{line}: no line says where {span} is")),
                Some(base) if !exists(&format!("{base}/{span}")) => {
                    faults.push(format!("{page}:{line}: there is no file {span}"));
                }
                Some(_) => {}
            }
        }
        if let Some(names) = path_of_names(span)
            && !words.iter().any(|words| names.iter().all(|name| words.contains(*name)))
        {
            faults.push(format!("{page}:{line}: no source has {span}"));
        }
    }
    faults
}

/// The pages that links lead to from `from` on, and `from`. `text` returns the text of a page.
fn reached<'a>(from: &str, text: impl Fn(&str) -> Option<&'a str>) -> BTreeSet<String> {
    let (mut reached, mut next) = (BTreeSet::new(), vec![from.to_owned()]);
    while let Some(page) = next.pop() {
        let Some(content) = text(&page) else { continue };
        if !reached.insert(page.clone()) {
            continue;
        }
        let folder = page.rsplit_once('/').map_or("", |(folder, _)| folder);
        for link in content.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0)) {
            let file = link.split('#').next().unwrap_or_default();
            let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
            for part in file.split('/') {
                if part == ".." {
                    parts.pop();
                } else {
                    parts.push(part);
                }
            }
            next.push(parts.join("/"));
        }
    }
    reached
}

/// The introduction and all pages, by their names in the checkout.
fn pages() -> BTreeMap<String, String> {
    let mut paths = Vec::new();
    walk(&checkout().join("crates"), &mut paths).unwrap();
    let mut pages: BTreeMap<String, String> = paths
        .iter()
        .filter(|path| path.extension().is_some_and(|end| end == "md"))
        .map(|path| {
            let name = path.strip_prefix(checkout()).unwrap().to_string_lossy().replace('\\', "/");
            (name, std::fs::read_to_string(path).unwrap())
        })
        .collect();
    pages.insert(INTRODUCTION.to_owned(), std::fs::read_to_string(checkout().join(INTRODUCTION)).unwrap());
    pages
}

#[test]
fn faults_of_names_are_found() {
    let exists = |path: &str| ["src/a", "src/a/b.rs", "tests/c/", "tests/d.rs"].contains(&path);
    let source: HashSet<String> = ["Tree", "put"].map(str::to_owned).into();
    let other: HashSet<String> = ["Batch", "add"].map(str::to_owned).into();
    let faults = |text: &str| faults_of_names("p.md", text, exists, &[source.clone(), other.clone()]);
    let stated = "File names on this page are\nrelative to `src/a`.\n";
    let sound = [
        "`b.rs` `tests/c/` `tests/d.rs` `/x/` `a b.rs` `..` `*.rs`",
        "`Tree::put` `Batch::add()` `a::` `Tree::put(x)`",
        "```text\n`x.rs` add: Tree::put: put --Batch::add-->\n```",
    ];
    for text in sound {
        assert_eq!(faults(&format!("{stated}{text}\n")), [""; 0], "{text}");
    }
    let expected = [
        ("`x.rs`", "p.md:3: there is no file x.rs"),
        ("a\n`tests/e/`", "p.md:4: there is no file tests/e/"),
        ("`Tree::get`", "p.md:3: no source has Tree::get"),
        ("`Tree::add`", "p.md:3: no source has Tree::add"),
        ("```text\nput --Tree::add--> x\n```", "p.md:4: no source has Tree::add"),
    ];
    for (text, fault) in expected {
        assert_eq!(faults(&format!("{stated}{text}\n")), [fault], "{text}");
    }
    assert_eq!(faults("`b.rs`\n"), ["p.md:1: no line says where b.rs is"]);
    assert_eq!(faults("`tests/d.rs`\n"), [""; 0]);
    let elsewhere = faults("File names on this page are relative to `src/z`.\n");
    assert_eq!(elsewhere, ["p.md: its file names begin at src/z, which is not there"]);
}

#[test]
fn pages_that_no_link_leads_to_are_found() {
    let pages = [
        ("docs/a.md", "[1](b.md#x) [2](../c/d.md) [3](https://e/f.md)"),
        ("docs/b.md", "[1](a.md)"),
        ("c/d.md", "[1](e/g.md)"),
        ("c/e/g.md", ""),
        ("c/h.md", "[1](../docs/a.md)"),
    ];
    let text = |page: &str| pages.iter().find(|(name, _)| *name == page).map(|(_, text)| *text);
    let found: Vec<String> = reached("docs/a.md", text).into_iter().collect();
    assert_eq!(found, ["c/d.md", "c/e/g.md", "docs/a.md", "docs/b.md"]);
}

#[test]
fn pages_about_the_code_name_what_is_there() {
    let root = checkout();
    let mut paths = Vec::new();
    walk(&root.join("crates"), &mut paths).unwrap();
    let sources = paths.iter().filter(|path| path.extension().is_some_and(|end| end == "rs"));
    let words: Vec<HashSet<String>> = sources
        .map(|path| {
            let text = std::fs::read_to_string(path).unwrap();
            text.split(|c| !is_word(c)).map(str::to_owned).collect()
        })
        .collect();
    let pages = pages();
    let exists = |path: &str| root.join(path).exists();
    let faults: Vec<String> =
        pages.iter().flat_map(|(page, text)| faults_of_names(page, text, exists, &words)).collect();
    assert!(faults.is_empty(), "{faults:#?}");
    let (files, names) =
        pages.values().flat_map(|text| spans(text)).fold((0, 0), |(files, names), (_, span)| {
            (files + usize::from(is_path(span)), names + usize::from(path_of_names(span).is_some()))
        });
    assert!(files > 300 && names > 200, "{files} files and {names} names were looked at");
}

#[test]
fn every_crate_has_a_page_and_the_introduction_leads_to_all_pages() {
    let pages = pages();
    for folder in std::fs::read_dir(checkout().join("crates")).unwrap() {
        let name = format!("crates/{}/ARCHITECTURE.md", folder.unwrap().file_name().to_string_lossy());
        assert!(pages.contains_key(&name), "there is no {name}");
    }
    let reached = reached(INTRODUCTION, |page| pages.get(page).map(String::as_str));
    let missed: Vec<&String> = pages.keys().filter(|page| !reached.contains(*page)).collect();
    assert!(missed.is_empty(), "no link leads to {missed:?}");
}

#[test]
fn the_introduction_is_short() {
    let lines = pages()[INTRODUCTION].lines().count();
    assert!(lines <= INTRODUCTION_LINES_MAX, "{INTRODUCTION} has {lines} lines");
}
