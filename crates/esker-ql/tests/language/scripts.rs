//! The scripts in `testdata`: a text, `----`, and what it gives; an empty line ends a case. `ESKER_REWRITE=1` writes what the
//! texts give now.
//!
//! Those in `parsed` give what the parser makes of them. Those in `executed` are executed, the cases of a file one after the
//! other in one session.

use std::path::PathBuf;

use esker_ql::{Answer, Cells, Session, statements};

use crate::outcome;

/// Runs the scripts in `folder`. `begin` is called for each file; what it returns, for each case.
fn run<F: FnMut(&str) -> String>(folder: &str, cases_min: usize, begin: impl Fn() -> F) {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/language/testdata").join(folder);
    let mut cases = 0;
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let script = std::fs::read_to_string(&path).unwrap();
        let (mut written, mut give) = (String::new(), begin());
        for case in script.trim_end().split("\n\n") {
            let text = case.split("\n----").next().unwrap();
            cases += 1;
            written += &format!("{text}\n----\n{}\n", give(text));
        }
        let written = format!("{}\n", written.trim_end());
        if std::env::var_os("ESKER_REWRITE").is_some() {
            std::fs::write(&path, written).unwrap();
        } else {
            assert_eq!(script, written, "{}", path.display());
        }
    }
    assert!(cases >= cases_min, "only {cases}");
}

#[test]
fn texts_are_parsed_as_the_scripts_say() {
    run("parsed", 80, || {
        |text| {
            let given = outcome(text.as_bytes());
            if let Some(line) = given.lines().next().filter(|_| !given.contains("line ")) {
                let again = outcome(given.replace('\n', ";\n").as_bytes());
                assert_eq!(again, given, "{line} is printed as another");
            }
            given
        }
    });
}

#[test]
fn texts_are_executed_as_the_scripts_say() {
    run("executed", 40, || {
        let mut session =
            Session::new(esker_table::Tables::open_in_memory(esker::Options::default()).unwrap());
        move |text| {
            let given = statements(text.as_bytes()).map(|statement| {
                let answer = statement.and_then(|located| session.execute(located.statement));
                answer.and_then(show).unwrap_or_else(|error| format!("error: {error}\n"))
            });
            given.collect()
        }
    });
}

/// An answer as text.
fn show(answer: Answer) -> esker_ql::Result<String> {
    Ok(match answer {
        Answer::Done => "done\n".to_owned(),
        Answer::Names(names) => names.iter().map(|name| format!("{name}\n")).collect(),
        Answer::Text(text) => {
            text.lines().filter(|line| !line.is_empty()).map(|line| format!("{line}\n")).collect()
        }
        Answer::Number(number) => format!("{number}\n"),
        Answer::Truth(is_so) => format!("{is_so}\n"),
        Answer::Bytes(bytes) => format!("{}\n", bytes.escape_ascii()),
        Answer::Cells { cells, select } => show_cells(cells, select.options.display_timestamps)?,
        Answer::Dump { cells, .. } => show_cells(cells, true)?,
        Answer::Load { table, load } => format!("load {table}: {load}\n"),
        Answer::Source(file) => format!("source {}\n", file.escape_ascii()),
        _ => "unknown\n".to_owned(),
    })
}

fn show_cells(mut cells: Box<dyn Cells>, has_timestamps: bool) -> esker_ql::Result<String> {
    let mut shown = String::new();
    while cells.advance()? {
        if has_timestamps {
            shown += &format!("{} ", cells.timestamp());
        }
        let (row, qualifier) = (cells.row().escape_ascii(), cells.qualifier().escape_ascii());
        shown += &match cells.delete() {
            Some(kind) => format!("{row} {}:{qualifier} DELETE {kind:?}\n", cells.family()),
            None => format!("{row} {}:{qualifier} {}\n", cells.family(), cells.value()?.escape_ascii()),
        };
    }
    Ok(if shown.is_empty() { "nothing\n".to_owned() } else { shown })
}
