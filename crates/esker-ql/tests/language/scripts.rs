//! The scripts in `testdata`: a text, `----`, and what it gives; an empty line ends a case. `ESKER_REWRITE=1` writes what the
//! texts give now.
//!
//! Those in `parsed` give what the parser makes of them. Those in `executed` are executed, the cases of a file one after the
//! other in one session.

use std::path::PathBuf;

use esker_ql::{Answer, Cells, Error, Session, Statement, statements};

use crate::outcome;
use crate::server::with_esker;

/// The scripts in `folder`: the path of each, and the texts of its cases.
fn scripts(folder: &str) -> Vec<(PathBuf, Vec<String>)> {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/language/testdata").join(folder);
    let paths = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let cases = |path: &PathBuf| {
        let script = std::fs::read_to_string(path).unwrap();
        let cases = script.trim_end().split("\n\n");
        cases.map(|case| case.split("\n----").next().unwrap().to_owned()).collect()
    };
    paths.map(|path| (path.clone(), cases(&path))).collect()
}

/// Runs the scripts in `folder`. `begin` is called for each file; what it returns, for each case.
fn run<F: FnMut(&str) -> String>(folder: &str, cases_min: usize, begin: impl Fn() -> F) {
    let mut count = 0;
    for (path, cases) in scripts(folder) {
        let (mut written, mut give) = (String::new(), begin());
        count += cases.len();
        for text in cases {
            written += &format!("{text}\n----\n{}\n", give(&text));
        }
        let written = format!("{}\n", written.trim_end());
        if std::env::var_os("ESKER_REWRITE").is_some() {
            std::fs::write(&path, written).unwrap();
        } else {
            assert_eq!(std::fs::read_to_string(&path).unwrap(), written, "{}", path.display());
        }
    }
    assert!(count >= cases_min, "only {count}");
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
                let failed = |error: Error| format!("error: {}\n", error.in_text(text.as_bytes()));
                answer.and_then(show).unwrap_or_else(failed)
            });
            given.collect()
        }
    });
}

/// By an Esker server, all statements of the scripts give what they give in this process, but for plans.
#[test]
fn a_server_gives_what_this_process_gives() {
    let mut count = 0;
    for (path, cases) in scripts("executed") {
        with_esker(|remote| {
            let tables = esker_table::Tables::open_in_memory(esker::Options::default()).unwrap();
            let (mut here, mut there) = (Session::new(tables), Session::new(remote));
            let give = |session: &mut Session, statement: &Statement, text: &str| {
                let answer = session.execute(statement.clone()).and_then(show);
                answer.unwrap_or_else(|error| format!("error: {}", error.in_text(text.as_bytes())))
            };
            for case in &cases {
                for statement in statements(case.as_bytes()).map_while(Result::ok) {
                    let statement = statement.statement;
                    let expected = give(&mut here, &statement, case);
                    let given = give(&mut there, &statement, case);
                    if !matches!(statement, Statement::Explain { .. }) {
                        assert_eq!(given, expected, "{}: {statement}", path.display());
                        count += 1;
                    }
                }
            }
        });
    }
    assert!(count > 150, "only {count} statements");
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
        Answer::LoadCell { table, cell, .. } => format!("load {table} {}\n", cell.column),
        Answer::DumpCell { cells, .. } => show_cells(cells, true)?,
        Answer::Load { table, load, .. } => format!("load {table}: {load}\n"),
        Answer::Pause(time) => format!("pause {time:?}\n"),
        Answer::Quit => "quit\n".to_owned(),
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
