//! The store's own threads do several merges at once.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use esker::env::Env;
use esker::fs::sim::SimFs;
use esker::{CompactionStyle, Db, MergeOperator, Options, Tree, TreeOptions};

use crate::common::contents;

/// How long a merge waits for another one before the test fails. It ends at once if they meet.
const PATIENCE: Duration = Duration::from_secs(120);

/// Lets merges go on only when as many are under way as are wanted.
#[derive(Default)]
struct Meeting {
    /// How many are wanted, how many have come, and whether one has waited in vain.
    state: Mutex<(usize, usize, bool)>,
    changed: Condvar,
}

impl Meeting {
    fn come(&self) {
        let mut state = self.state.lock().unwrap();
        state.1 += 1;
        self.changed.notify_all();
        let (mut state, _) =
            self.changed.wait_timeout_while(state, PATIENCE, |(wanted, come, _)| come < wanted).unwrap();
        state.2 |= state.1 < state.0;
    }
}

/// Appends operands. A merge that applies some comes to the meeting.
struct Meet(Arc<Meeting>);

impl MergeOperator for Meet {
    fn name(&self) -> &str {
        "meet"
    }

    fn apply(&self, value: Option<&[u8]>, operands: &[&[u8]]) -> Result<Vec<u8>, String> {
        // A flush has no value below its operands, and only the test's own thread reads.
        if value.is_some() && std::thread::current().name() == Some("esker") {
            self.0.come();
        }
        Ok([value.unwrap_or_default(), &operands.concat()].concat())
    }
}

#[test]
fn two_trees_are_merged_at_once() {
    let meeting = Arc::<Meeting>::default();
    let env = Env { fs: Arc::new(SimFs::new(1)), ..Env::system() };
    let options = Options::default().memory_budget(64 << 20).env(env).threads(5);
    let db = Db::open("/store", options.merge_operator(Meet(Arc::clone(&meeting)))).unwrap();
    meeting.state.lock().unwrap().0 = 2;
    let style = TreeOptions::default().compaction(CompactionStyle::Tiered).size_ratio(2);
    let trees: Vec<Tree> = ["a", "b"].map(|name| db.create_tree(name, style.clone()).unwrap()).into();
    let mut model = BTreeMap::new();
    for run in 0..2_u8 {
        for tree in &trees {
            for i in 0..100_u8 {
                tree.put([i], [run; 100]).unwrap();
                model.insert(vec![i], vec![run; 100]);
            }
            tree.merge([200], "meet", [run]).unwrap();
            // The second run of the first tree begins a merge, which waits for that of the second tree.
            tree.flush().unwrap();
        }
    }
    model.insert(vec![200], vec![0, 1]);
    let state = meeting.state.lock().unwrap();
    let (state, _) =
        meeting.changed.wait_timeout_while(state, PATIENCE, |(wanted, come, _)| come < wanted).unwrap();
    assert!(state.1 >= 2 && !state.2, "a merge has waited for another one in vain");
    drop(state);
    for tree in &trees {
        assert_eq!(contents(tree), model);
    }
    db.close().unwrap();
}
