//! Style, checked by a machine: every Rust file of the checkout must pass every rule of `rules.rs`.
//!
//! `house.rs` holds what may be argued about (banned calls, the order of rooms, the parts of a store);
//! `debts.rs` lists the circles of files that are left; `canaries.rs` proves that each rule still bites. The walk takes every file of the checkout except
//! build output and hidden folders, so that it needs no git.

#![expect(clippy::disallowed_methods, reason = "this test looks at the real checkout")]

mod canaries;
mod debts;
mod documents;
mod graph;
mod house;
mod lex;
mod pages;
mod rules;

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use rules::{Finding, Source};

fn checkout() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Paths of all files below `folder`, build output and hidden ones left out.
fn walk(folder: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let skipped = matches!(name.as_ref(), "target" | "node_modules" | "corpus" | "Cargo.lock");
        if skipped || name.starts_with('.') || name.ends_with(".db") {
            continue;
        }
        if entry.file_type()?.is_dir() {
            walk(&entry.path(), found)?;
        } else if entry.file_type()?.is_file() {
            found.push(entry.path());
        }
    }
    Ok(())
}

fn judge(files: &mut Vec<Source>) -> Vec<Finding> {
    let mut findings = rules::dead_files(files);
    findings.extend(rules::impls(files));
    findings.extend(rules::circles(files));
    for file in files {
        findings.extend(rules::FILE_RULES.iter().flat_map(|rule| rule(file)));
    }
    findings
}

#[test]
fn the_checkout_is_tidy() -> io::Result<()> {
    let root = checkout();
    let mut paths = vec![];
    walk(&root, &mut paths)?;
    paths.sort();
    let mut findings = vec![];
    let mut sources = vec![];
    for path in paths {
        let Ok(text) = String::from_utf8(std::fs::read(&path)?) else { continue };
        let name = path.strip_prefix(&root).unwrap_or(&path).to_string_lossy().replace('\\', "/");
        findings.extend(rules::machine_paths(&name, &text));
        if name.ends_with(".rs") {
            sources.push(Source::new(&name, &text));
        }
    }
    assert!(sources.len() > 10, "only {} Rust files found below {}", sources.len(), root.display());
    findings.extend(judge(&mut sources));
    findings.extend(graph::circles(&sources, debts::KNOWN));
    let mut report = String::new();
    for finding in &findings {
        let _ = writeln!(report, "{finding}");
    }
    assert!(findings.is_empty(), "{} findings\n{report}", findings.len());
    Ok(())
}

/// The README promises what is checked: `./test` compiles the library with the `rust-version` of the workspace, and all
/// else is compiled with the pinned toolchain.
#[test]
fn the_readme_promises_the_versions_of_rust_that_are_checked() -> io::Result<()> {
    let value_of = |file: &str, name: &str| -> io::Result<String> {
        let text = std::fs::read_to_string(checkout().join(file))?;
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.trim().strip_prefix("= "));
        Ok(line.expect(name).trim_matches('"').to_owned())
    };
    let library = value_of("Cargo.toml", "rust-version")?;
    let program = value_of("crates/esker-cli/Cargo.toml", "rust-version")?;
    assert_eq!(value_of("rust-toolchain.toml", "channel")?, format!("{program}.0"));
    let promise = format!("The library needs Rust {library} or later, the program {program}.");
    assert!(std::fs::read_to_string(checkout().join("README.md"))?.contains(&promise), "{promise}");
    let inherits = std::fs::read_to_string(checkout().join("crates/esker/Cargo.toml"))?;
    assert!(inherits.contains("\nrust-version.workspace = true\n"));
    Ok(())
}
