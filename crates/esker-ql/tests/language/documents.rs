//! The examples of the language reference.

use esker_ql::Session;

#[test]
fn every_example_of_the_reference_runs() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/eskerql.md");
    let text = std::fs::read_to_string(path).unwrap();
    let tables = esker_table::Tables::open_in_memory(esker::Options::default()).unwrap();
    let (mut session, mut examples) = (Session::new(tables), 0);
    for block in text.split("```sql\n").skip(1) {
        let block = block.split("```").next().unwrap();
        for statement in esker_ql::statements(block.as_bytes()) {
            examples += 1;
            let answer = statement.and_then(|located| session.execute(located.statement));
            answer.unwrap_or_else(|error| panic!("{error}\nin\n{block}"));
        }
    }
    assert!(examples > 45, "only {examples}");
}
