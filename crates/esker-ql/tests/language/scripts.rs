//! The scripts in `testdata`: a text, `----`, and what it gives; an empty line ends a case. `ESKER_REWRITE=1` writes what the
//! texts give now.

use std::path::PathBuf;

use crate::outcome;

#[test]
fn scripts_give_what_they_say() {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/language/testdata");
    let mut cases = 0;
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let script = std::fs::read_to_string(&path).unwrap();
        let mut written = String::new();
        for case in script.trim_end().split("\n\n") {
            let text = case.split("\n----").next().unwrap();
            cases += 1;
            let given = outcome(text.as_bytes());
            written += &format!("{text}\n----\n{given}\n");
            if let Some(line) = given.lines().next().filter(|_| !given.contains("line ")) {
                assert_eq!(
                    outcome(given.replace('\n', ";\n").as_bytes()),
                    given,
                    "{line} is printed as another"
                );
            }
        }
        let written = format!("{}\n", written.trim_end());
        if std::env::var_os("ESKER_REWRITE").is_some() {
            std::fs::write(&path, written).unwrap();
        } else {
            assert_eq!(script, written, "{}", path.display());
        }
    }
    assert!(cases > 80, "only {cases}");
}
