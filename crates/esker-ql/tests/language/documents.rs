//! The examples of the language reference. Where a text follows one, it is what the last statement answers; `ESKER_REWRITE=1`
//! writes what it answers now.

use esker_ql::{Answer, Session};

#[test]
fn every_example_of_the_reference_runs() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/eskerql.md");
    let text = std::fs::read_to_string(path).unwrap();
    let tables = esker_table::Tables::open_in_memory(esker::Options::default()).unwrap();
    let (mut session, mut examples) = (Session::new(tables), 0);
    let (mut answers, mut written) = (0, text.clone());
    for block in text.split("```sql\n").skip(1) {
        let (block, rest) = block.split_once("```").unwrap();
        let mut last = Answer::Done;
        for statement in esker_ql::statements(block.as_bytes()) {
            examples += 1;
            let answer = statement.and_then(|located| session.execute(located.statement));
            last = answer.unwrap_or_else(|error| panic!("{error}\nin\n{block}"));
        }
        if let Some(rest) = rest.strip_prefix("\n\n```text\n") {
            let Answer::Names(lines) = last else { panic!("{block}") };
            let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
            let shown = rest.split("```").next().unwrap();
            written = written.replace(
                &format!("{block}```\n\n```text\n{shown}```"),
                &format!("{block}```\n\n```text\n{lines}```"),
            );
            answers += 1;
        }
    }
    if std::env::var_os("ESKER_REWRITE").is_some() {
        std::fs::write(path, &written).unwrap();
    } else {
        assert_eq!(text, written);
    }
    assert!(examples > 50 && answers > 0, "only {examples} examples, {answers} answers");
}
