//! The examples of the language reference.

#[test]
fn every_example_of_the_reference_is_a_statement() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/eskerql.md");
    let text = std::fs::read_to_string(path).unwrap();
    let mut examples = 0;
    for block in text.split("```sql\n").skip(1) {
        let block = block.split("```").next().unwrap();
        for statement in esker_ql::statements(block.as_bytes()) {
            examples += 1;
            statement.unwrap_or_else(|error| panic!("{error}\nin\n{block}"));
        }
    }
    assert!(examples > 30, "only {examples}");
}
