//! `esker run` against an interpreter of command files that knows nothing of it: a `BTreeMap`.

use std::collections::BTreeMap;
use std::fs;

use crate::support::{Rng, esker, esker_with};

const LINES: u64 = 20_000;

/// What a command file prints, line by line.
struct Oracle {
    rows: BTreeMap<Key, String>,
    numbers: bool,
}

/// Numbers sort before text, but a store has only one of them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Number(i128),
    Text(String),
}

impl Oracle {
    fn key(&self, typed: &str) -> Key {
        match self.numbers {
            true => Key::Number(typed.parse().unwrap()),
            false => Key::Text(typed.to_owned()),
        }
    }

    fn line(&mut self, line: &str, printed: &mut Vec<String>) {
        if line.trim().is_empty() || line.starts_with('#') {
            return;
        }
        let mut words = line.splitn(3, [' ', '\t']);
        let verb = words.next().unwrap().to_lowercase();
        let typed = words.next().unwrap();
        let rest = words.next();
        let key = self.key(typed);
        match &verb[..1] {
            "p" => drop(self.rows.insert(key, rest.unwrap_or("").to_owned())),
            "d" => drop(self.rows.remove(&key)),
            "g" => printed.push(format!("{typed} {}", self.rows.get(&key).map_or("EMPTY", String::as_str))),
            _ => {
                let hi = self.key(rest.unwrap());
                let before = printed.len();
                for (key, value) in self.rows.iter().filter(|(row, _)| (&key..=&hi).contains(row)) {
                    printed.push(match key {
                        Key::Number(number) => format!("{number} {value}"),
                        Key::Text(text) => format!("{text} {value}"),
                    });
                }
                if printed.len() == before {
                    printed.push(format!("{typed} {} EMPTY", rest.unwrap()));
                }
            }
        }
    }
}

fn random_line(rng: &mut Rng, key: &dyn Fn(&mut Rng) -> String) -> String {
    let blank = if rng.below(4) == 0 { '\t' } else { ' ' };
    let mut verb = |names: &[&str]| names[rng.below(names.len() as u64) as usize].to_owned();
    let (put, get) = (verb(&["PUT", "P", "p", "put", "Put"]), verb(&["GET", "g", "G", "gET"]));
    let (delete, scan) = (verb(&["DELETE", "D", "d", "Delete"]), verb(&["SCAN", "S", "s", "scaN"]));
    let (one, two) = (key(rng), key(rng));
    match rng.below(100) {
        0 => String::new(),
        1 => "# PUT not this".to_owned(),
        2..4 => format!("{put}{blank}{one}"),
        4..45 => {
            let value: String =
                (0..rng.below(40)).map(|_| [' ', 'x', '\t', 'é', '"'][rng.below(5) as usize]).collect();
            // A carriage return before the line's end would belong to the line's end.
            format!("{put}{blank}{one}{blank}{value}.")
        }
        45..75 => format!("{get}{blank}{one}"),
        75..92 => format!("{delete}{blank}{one}"),
        _ => format!("{scan}{blank}{one}{blank}{two}"),
    }
}

fn compare(keys: &str, seed: u64, key: &dyn Fn(&mut Rng) -> String) {
    println!("--keys {keys}, seed {seed:#x}");
    let dir = tempfile::tempdir().unwrap();
    let mut rng = Rng::new(seed);
    let mut oracle = Oracle { rows: BTreeMap::new(), numbers: keys != "text" };
    // In parts, so that the store is reopened between them; from a file and from a pipe.
    for part in 0..4 {
        let lines: Vec<String> = (0..LINES / 4).map(|_| random_line(&mut rng, key)).collect();
        let mut expected = Vec::new();
        lines.iter().for_each(|line| oracle.line(line, &mut expected));
        let end = if part % 2 == 0 { "\n" } else { "\r\n" };
        let content = lines.join(end);
        let printed = if part < 2 {
            fs::write(dir.path().join("in"), content).unwrap();
            let done = esker(dir.path(), &format!("run --keys {keys} in --output out"));
            assert_eq!((done.code, done.stdout().as_str()), (0, ""), "{}", done.stderr());
            fs::read_to_string(dir.path().join("out")).unwrap()
        } else {
            let done = esker_with(dir.path(), &format!("--keys {keys} run -"), content.as_bytes());
            assert_eq!(done.code, 0, "{}", done.stderr());
            done.stdout()
        };
        let printed: Vec<&str> = printed.split_terminator('\n').collect();
        for (i, (was, should)) in printed.iter().zip(&expected).enumerate() {
            assert_eq!(was, should, "part {part}, line {} of the output", i + 1);
        }
        assert_eq!(printed.len(), expected.len(), "part {part}");
    }
    let count = esker(dir.path(), "count");
    assert_eq!(count.stdout().trim(), oracle.rows.len().to_string());
}

#[test]
fn run_prints_what_an_independent_interpreter_prints_for_text() {
    compare("text", 0x1001, &|rng| {
        let len = 1 + rng.below(3);
        (0..len).map(|_| ['a', 'b', 'c', 'ü', '~', '0'][rng.below(6) as usize]).collect()
    });
}

#[test]
fn run_prints_what_an_independent_interpreter_prints_for_numbers() {
    compare("u64", 0x1002, &|rng| match rng.below(20) {
        0 => u64::MAX.to_string(),
        1 => format!("{:030}", rng.below(300)),
        _ => format!("{:0width$}", rng.below(300), width = rng.below(9) as usize),
    });
    compare("i32", 0x1003, &|rng| match rng.below(20) {
        0 => i32::MIN.to_string(),
        1 => i32::MAX.to_string(),
        _ => (rng.below(400).cast_signed() - 200).to_string(),
    });
}
