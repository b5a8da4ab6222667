//! A tree with a compaction rule: after a crash readers find, of what the rule lets them see, a prefix of what was
//! written, at least up to what was promised. What the rule has dropped does not come back.

use esker::env::JobKind;
use esker::fs::sim::SimFs;
use esker::{Db, Tree, TreeOptions};

use crate::common::cells::{Cells, Pairs, ROWS, cell, marker};
use crate::common::{Rng, any_style, seeds};
use crate::life::STORE;
use crate::volatile::{alive, contents};
use crate::world::Knobs;

/// Power cuts of a life.
const CRASHES: u64 = 8;

/// By the clock of these tests nothing expires.
const NOW_US: u64 = 0;

struct Life {
    rng: Rng,
    disk: SimFs,
    knobs: Knobs,
    cells: Cells,
    db: Option<Db>,
    /// What the tree held after each write since the last one that is durable, as if the rule dropped nothing.
    states: Vec<Pairs>,
    versions: u64,
}

impl Life {
    fn new(seed: u64) -> Life {
        let mut rng = Rng::new(seed);
        let disk = SimFs::new(rng.next());
        let mut knobs = Knobs::random(&mut rng);
        // The rule has to read markers.
        knobs.separate_at = knobs.separate_at.max(100);
        let (cells, states) = (Cells::default(), vec![Pairs::new()]);
        Life { rng, disk, knobs, cells, db: None, states, versions: 0 }
    }

    /// Opens the store, at times without the rule.
    fn open(&mut self) -> Tree {
        let with_rule = !self.rng.one_in(4);
        let options = self.knobs.options(&self.disk, self.rng.next());
        let options = if with_rule { options.compaction_rule(self.cells.clone()) } else { options };
        let db = Db::open(STORE, options).unwrap();
        let tree = db.open_tree("cells").unwrap().unwrap_or_else(|| {
            let options = any_style(&mut self.rng, TreeOptions::default().rule(Cells::NAME));
            db.create_tree("cells", options).unwrap()
        });
        self.db = Some(db);
        tree
    }

    fn now(&mut self) -> &mut Pairs {
        self.states.last_mut().unwrap()
    }

    /// The last state is certain.
    fn forget_past(&mut self) {
        self.states.drain(..self.states.len() - 1);
    }

    /// One call. Returns whether the disk is alive.
    fn step(&mut self, tree: &Tree) -> bool {
        let db = self.db.clone().unwrap();
        let row = self.rng.below(ROWS) as u8;
        let mut state = self.now().clone();
        let done = match self.rng.below(40) {
            0..25 => {
                self.versions += 1;
                let (column, generation) = (self.rng.below(3) as u8, self.cells.generation(row));
                let (key, number) = (cell(row, column, self.versions, generation, 0), self.versions);
                let value = self.knobs.value(&mut self.rng, number).to_vec();
                state.insert(key.clone(), value.clone());
                self.states.push(state);
                tree.put(&key, &value)
            }
            25..29 => {
                self.versions += 1;
                let value = self.versions.to_be_bytes();
                state.insert(marker(row), value.to_vec());
                self.states.push(state);
                tree.put(marker(row), value)
            }
            29 => {
                state.retain(|key, _| key[0] != row);
                self.states.push(state);
                tree.delete_range([row]..[row + 1])
            }
            // A fact outside of the store, which no crash takes back.
            30 => {
                self.cells.next_generation(row);
                Ok(())
            }
            31..34 => return self.all_durable(db.flush()),
            34 => return self.all_durable(db.compact()),
            35 => return self.all_durable(db.sync()),
            _ => {
                db.step(*self.rng.pick(&JobKind::ALL));
                Ok(())
            }
        };
        alive(&self.disk, done)
    }

    fn all_durable(&mut self, done: esker::Result<()>) -> bool {
        let alive = alive(&self.disk, done);
        if alive {
            self.forget_past();
        }
        alive
    }

    /// Finds out which state is there.
    fn look(&mut self, tree: &Tree) {
        // Several states may show the same. They show the same for ever: versions and generations grow.
        let shown = self.cells.filtered(&contents(tree), NOW_US);
        let at = self.states.iter().rposition(|state| self.cells.filtered(state, NOW_US) == shown);
        let Some(at) = at else { panic!("none of the {} states that may be there", self.states.len()) };
        self.states.truncate(at + 1);
        self.forget_past();
    }
}

#[test]
fn what_a_rule_has_dropped_stays_away_and_nothing_else_goes() {
    let mut drops = 0;
    for seed in seeds(150) {
        println!("ESKER_SEED={seed}");
        let mut life = Life::new(seed);
        for _ in 0..CRASHES {
            let tree = life.open();
            life.look(&tree);
            let after = life.disk.operations() + life.rng.below(5 * life.knobs.steps);
            life.disk.set_crash_after(Some(after));
            while life.step(&tree) {}
            drop(tree);
            // A dead disk may not tell.
            drops += life.db.take().unwrap().stats().map_or(0, |stats| stats.rule_drops);
            let seed = life.rng.next();
            life.disk = life.disk.crash(seed);
        }
    }
    assert!(drops > 0 || !crate::common::is_full_run(), "the test has lost its teeth");
}
