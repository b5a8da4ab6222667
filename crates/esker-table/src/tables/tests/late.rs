//! Tables on a journal that decides later, refuses some entries, and leaves some unknown.

use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use esker_journal::late::{Fate, Late};
use test_kit::Rng;

use super::*;

/// How a mutation has ended.
#[derive(Debug, PartialEq)]
enum End<T> {
    Done(T),
    Refused,
    Unknown,
}

fn end<T>(result: Result<T>) -> End<T> {
    match result {
        Ok(value) => End::Done(value),
        Err(Error::Store(error)) if error.kind() == ErrorKind::Busy => {
            if error.to_string().contains("it is not known") { End::Unknown } else { End::Refused }
        }
        Err(error) => panic!("{error}"),
    }
}

fn tables_with_losses(seed: u64) -> Tables {
    let rule = TableRule::default();
    let db = Db::open_in_memory(Options::default().compaction_rule(rule.clone())).unwrap();
    let mut random = Rng::new(seed);
    let mut count = 0;
    let fate = move || {
        count += 1;
        // The first entries make the table.
        match if count < 5 { 19 } else { random.below(20) } {
            0 => Fate::Refused,
            1 => Fate::Unknown { is_applied: true },
            2 => Fate::Unknown { is_applied: false },
            _ => Fate::Done,
        }
    };
    let late = Late::new(&db, Duration::from_micros(200), fate);
    Tables::over(Arc::new(late), rule, Access::Write).unwrap()
}

/// Threads increment one cell and append to another one: what was done is there once, in the order that the replies say, and
/// what was refused is not.
#[test]
fn no_mutation_says_what_the_log_does_not_bear_out() {
    for seed in test_kit::seeds(4) {
        println!("seed {seed}");
        let tables = tables_with_losses(seed);
        let table = tables.create("t", Schema::new().group("a", [Family::new("f")])).unwrap();
        let ends: Vec<(End<i64>, String, End<Vec<u8>>)> = thread::scope(|scope| {
            let threads: Vec<_> = (0..6)
                .map(|writer| {
                    let table = &table;
                    scope.spawn(move || {
                        let mut ends = Vec::new();
                        for number in 0..test_kit::cases(100) {
                            let sum = end(table.increment("r", "f", "sum", 1));
                            let token = format!("{writer}:{number} ");
                            let append = RowMutation::new("r").append("f", "text", token.as_str());
                            let text = table.update(&append).map(|cells| cells[0].value.to_vec());
                            ends.push((sum, token, end(text)));
                        }
                        ends
                    })
                })
                .collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        let cells = table.get("r", &Read::all().versions(1)).unwrap();
        let value_of = |name: &str| {
            let cell = cells.iter().find(|cell| cell.qualifier == name.as_bytes());
            cell.map(|cell| cell.value.to_vec()).unwrap_or_default()
        };
        let sum = i64::from_be_bytes(value_of("sum").try_into().unwrap());
        let (mut sums, mut unknown) = (BTreeSet::new(), 0);
        let text = value_of("text");
        let places = |token: &str| {
            let token = token.as_bytes();
            text.windows(token.len()).filter(|part| *part == token).count()
        };
        for (of_sum, token, of_text) in ends {
            match of_sum {
                End::Done(sum) => assert!(sums.insert(sum), "{sum} twice"),
                End::Unknown => unknown += 1,
                End::Refused => {}
            }
            match of_text {
                // An append that is done has all that was done before it.
                End::Done(made) => {
                    assert!(text.starts_with(&made) && made.ends_with(token.as_bytes()), "{token}");
                }
                End::Refused => assert_eq!(places(&token), 0, "{token} was refused"),
                End::Unknown => assert!(places(&token) <= 1, "{token} is there twice"),
            }
        }
        println!("{sum}: {} done, {unknown} unknown", sums.len());
        assert!(sums.len() as i64 <= sum && sum <= sums.len() as i64 + unknown);
        assert!(sums.len() > 10, "nothing is taken");
    }
}
