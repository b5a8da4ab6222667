//! Groups of trees without the log (rule 21): after a crash all trees of a group are as they were at one moment, and a
//! split, a drop, an export or a replacement of a group has happened whole or not at all, with its tag.

use std::path::PathBuf;

use esker::env::JobKind;
use esker::fs::sim::SimFs;
use esker::{Batch, Db, Durability, Options, ScanRange, Tree, TreeOptions, TreeSplit};

use crate::common::{Rng, seeds};
use crate::life::STORE;
use crate::volatile::{
    History, Mortal, Pairs, alive, contents, end_eight_times, is_sound, no_huge_value_is_left,
};
use crate::world::env;

/// A tree of a group, with the bounds of its keys.
#[derive(Clone)]
struct Member {
    name: String,
    lower: Vec<u8>,
    upper: Option<Vec<u8>>,
    tree: Option<Tree>,
}

impl Member {
    fn new(name: String) -> Member {
        Member { name, lower: Vec::new(), upper: None, tree: None }
    }

    fn tree(&self) -> Tree {
        self.tree.clone().unwrap()
    }
}

/// A group. Its history is that of all its trees together: each key follows the place of its tree.
struct Known {
    name: String,
    members: Vec<Member>,
    history: History,
}

/// A copy of a group, and what it held.
#[derive(Clone)]
struct Export {
    dir: PathBuf,
    name: String,
    members: Vec<Member>,
    pairs: Pairs,
}

/// What was under way when the power failed.
enum Change {
    /// The tree with this name was to be the next of the group.
    Create(Known, String),
    Split {
        which: usize,
        new: String,
        at: Vec<Vec<u8>>,
    },
    Drop {
        which: usize,
        tag: String,
    },
    Replace {
        export: Export,
        tag: String,
    },
}

struct Life {
    rng: Rng,
    disk: SimFs,
    options: Options,
    db: Option<Db>,
    groups: Vec<Known>,
    exports: Vec<Export>,
    unclear: Option<Change>,
    /// Counts what needs a name or a value of its own.
    count: u64,
}

fn place(member: usize, key: &[u8]) -> Vec<u8> {
    [&[member as u8], key].concat()
}

impl Life {
    fn new(seed: u64) -> Life {
        let mut rng = Rng::new(seed);
        let disk = SimFs::new(rng.next());
        let mut options = Options::default().memory_budget(8 << 20);
        options.memtable_bytes = Some(*rng.pick(&[2 << 10, 16 << 10, 64 << 10]));
        options.table_bytes = 4 << 10;
        options.separate_at = *rng.pick(&[100, 1000, usize::MAX]);
        options.blob_file_bytes = *rng.pick(&[1, 10_000, 256 << 20]);
        let (groups, exports) = (Vec::new(), Vec::new());
        Life { rng, disk, options, db: None, groups, exports, unclear: None, count: 0 }
    }

    fn number(&mut self) -> u64 {
        self.count += 1;
        self.count
    }

    /// Opens the store, and finds out whether the change that was under way has happened.
    fn open(&mut self) {
        let options = self.options.clone().env(env(&self.disk, self.rng.next()));
        let db = Db::open(STORE, options).unwrap();
        match self.unclear.take() {
            Some(Change::Split { which, new, at }) if !db.group(&new).is_empty() => {
                self.note_split(which, &new, &at);
            }
            Some(Change::Create(mut known, name)) => {
                if db.open_tree(&name).unwrap().is_some() {
                    known.members.push(Member::new(name));
                }
                self.groups.extend(Some(known).filter(|known| !known.members.is_empty()));
            }
            Some(Change::Drop { which, tag }) => {
                let is_gone = db.group(&self.groups[which].name).is_empty();
                assert_eq!(
                    is_gone,
                    db.default_tree().tag().as_deref() == Some(&tag),
                    "the tag comes with the drop"
                );
                if is_gone {
                    self.groups.remove(which);
                }
            }
            Some(Change::Replace { export, tag }) => {
                let first = db.open_tree(&export.members[0].name).unwrap();
                if first.is_some_and(|first| first.tag().as_deref() == Some(&tag)) {
                    self.note_replaced(&export);
                }
            }
            _ => {}
        }
        self.db = Some(db);
        self.take_handles();
    }

    fn take_handles(&mut self) {
        let db = self.db.clone().unwrap();
        for known in &mut self.groups {
            for member in &mut known.members {
                member.tree = db.open_tree(&member.name).unwrap();
                assert!(member.tree.is_some(), "{} is gone", member.name);
            }
            assert_eq!(db.group(&known.name).len(), known.members.len());
        }
        assert_eq!(db.group_names().len(), self.groups.len());
    }

    fn look(&mut self, all: bool, what: &str) {
        for known in &mut self.groups {
            let mut found = Pairs::new();
            for (number, member) in known.members.iter().enumerate() {
                found.extend(
                    contents(&member.tree()).into_iter().map(|(key, value)| (place(number, &key), value)),
                );
            }
            known.history.settle(&found, all, &format!("{what}, {}", known.name));
        }
    }

    // ---- what a life does ------------------------------------------------------------------------------

    /// Creates a group of one to three trees, one tree after the other: a crash in between leaves a smaller group.
    fn create(&mut self) -> bool {
        let (db, number) = (self.db.clone().unwrap(), self.number());
        let name = format!("group {number}");
        let mut known = Known { name: name.clone(), members: Vec::new(), history: History::of(Pairs::new()) };
        let options = TreeOptions::default().log(false).group(&name);
        for member in 0..=self.rng.below(3) {
            let name = format!("{name}.{member}");
            match db.create_tree(&name, options.clone()) {
                Ok(tree) => known.members.push(Member { tree: Some(tree), ..Member::new(name) }),
                Err(error) => {
                    assert!(self.disk.is_dead(), "{error:?}");
                    self.unclear = Some(Change::Create(known, name));
                    return false;
                }
            }
        }
        self.groups.push(known);
        !self.disk.is_dead()
    }

    fn key(&mut self, which: usize, member: usize) -> Option<Vec<u8>> {
        let Member { lower, upper, .. } = self.groups[which].members[member].clone();
        let keys = (0..20).map(|_| format!("key{:02}", self.rng.below(30)).into_bytes());
        keys.into_iter().find(|key| *key >= lower && upper.as_ref().is_none_or(|upper| key < upper))
    }

    fn value(&mut self) -> Vec<u8> {
        let mut value = self.number().to_le_bytes().to_vec();
        value.resize(8 + self.rng.below(2000) as usize, 7);
        value
    }

    /// A batch over several trees of a group.
    fn write(&mut self, which: usize) -> bool {
        let db = self.db.clone().unwrap();
        let mut batch = Batch::new();
        let mut next = self.groups[which].history.now().clone();
        for _ in 0..=self.rng.below(5) {
            let member = self.rng.index(self.groups[which].members.len());
            let Some(key) = self.key(which, member) else { continue };
            let tree = self.groups[which].members[member].tree();
            match self.rng.below(12) {
                0..3 => {
                    batch.delete(&tree, &key).unwrap();
                    next.remove(&place(member, &key));
                }
                3 => {
                    let end = self.key(which, member).unwrap_or_else(|| key.clone()).max(key.clone());
                    batch.delete_range(&tree, &key..&end).unwrap();
                    let (from, to) = (place(member, &key), place(member, &end));
                    next.retain(|other, _| *other < from || *other >= to);
                }
                4 => {
                    // One value for keys of two trees.
                    let other = self.rng.index(self.groups[which].members.len());
                    let (Some(further), value) = (self.key(which, other), self.value()) else { continue };
                    let mut writer = tree.writer("never").unwrap();
                    if writer.add(&value).is_err() {
                        return alive_dead(&self.disk);
                    }
                    let Ok(stored) = writer.finish() else { return alive_dead(&self.disk) };
                    let second = self.groups[which].members[other].tree();
                    batch.put_stored(&tree, &key, &stored).unwrap();
                    batch.put_stored(&second, &further, &stored).unwrap();
                    next.insert(place(member, &key), value.clone());
                    next.insert(place(other, &further), value);
                }
                _ => {
                    let value = self.value();
                    batch.put(&tree, &key, &value).unwrap();
                    next.insert(place(member, &key), value);
                }
            }
        }
        let durability = if self.rng.one_in(8) { Durability::Power } else { Durability::Process };
        let written = db.write_with(&batch, durability);
        self.groups[which].history.states.push(next);
        let alive = alive(&self.disk, written.map(drop));
        if alive && durability == Durability::Power && !batch.is_empty() {
            self.groups[which].history.make_durable();
        }
        alive
    }

    fn flush(&mut self, which: usize) -> bool {
        let member = self.rng.index(self.groups[which].members.len());
        let flushed = self.groups[which].members[member].tree().flush();
        let alive = alive(&self.disk, flushed);
        if alive {
            // A flush of one tree flushes those of its group.
            self.groups[which].history.make_durable();
        }
        alive
    }

    fn split(&mut self, which: usize) -> bool {
        let members = self.groups[which].members.clone();
        let mut at = Vec::new();
        for (number, member) in members.iter().enumerate() {
            match self.key(which, number).filter(|key| *key > member.lower && key != b"key00") {
                Some(key) => at.push(key),
                None => return true,
            }
        }
        let new = format!("group {}", self.number());
        let names: Vec<String> = (0..members.len()).map(|number| format!("{new}.{number}")).collect();
        let trees: Vec<Tree> = members.iter().map(Member::tree).collect();
        let splits: Vec<TreeSplit<'_>> = trees
            .iter()
            .zip(at.iter().zip(&names))
            .map(|(tree, (at, name))| TreeSplit { tree, at, name })
            .collect();
        let db = self.db.clone().unwrap();
        let done = db.split_group(&self.groups[which].name, &new, &splits, &[(&names[0], &new)]);
        if !alive(&self.disk, done) {
            self.unclear = Some(Change::Split { which, new, at });
            return false;
        }
        self.note_split(which, &new, &at);
        self.take_handles();
        let first = self.groups.last().unwrap().members[0].tree();
        assert_eq!(first.tag().as_deref(), Some(&new[..]));
        true
    }

    fn note_split(&mut self, which: usize, new: &str, at: &[Vec<u8>]) {
        let known = &mut self.groups[which];
        let (mut low, mut high) = (known.history.now().clone(), Pairs::new());
        let mut members = Vec::new();
        for (number, (member, at)) in known.members.iter_mut().zip(at).enumerate() {
            let (from, to) = (place(number, at), [number as u8 + 1]);
            let mut moved = low.split_off(&from);
            low.append(&mut moved.split_off(&to[..]));
            high.append(&mut moved);
            members.push(Member {
                name: format!("{new}.{number}"),
                lower: at.clone(),
                upper: member.upper.replace(at.clone()),
                tree: None,
            });
        }
        known.history = History::of(low);
        self.groups.push(Known { name: new.to_owned(), members, history: History::of(high) });
    }

    fn drop_one(&mut self, which: usize) -> bool {
        let (db, tag) = (self.db.clone().unwrap(), format!("drop {}", self.number()));
        if !alive(&self.disk, db.drop_group(&self.groups[which].name, &[("default", &tag)])) {
            self.unclear = Some(Change::Drop { which, tag });
            return false;
        }
        self.groups.remove(which);
        true
    }

    fn export(&mut self, which: usize) -> bool {
        let db = self.db.clone().unwrap();
        let dir = PathBuf::from(format!("/exports/{}", self.number()));
        let known = &mut self.groups[which];
        if !alive(&self.disk, db.export_group(&known.name, &dir, &[]).map(drop)) {
            return false;
        }
        known.history.make_durable();
        let pairs = known.history.now().clone();
        let mut members = known.members.clone();
        members.iter_mut().for_each(|member| member.tree = None);
        self.exports.push(Export { dir, name: known.name.clone(), members, pairs });
        true
    }

    /// Brings an earlier state of a group back.
    fn replace(&mut self) -> bool {
        if self.exports.is_empty() {
            return true;
        }
        let export = self.exports[self.rng.index(self.exports.len())].clone();
        let (db, tag) = (self.db.clone().unwrap(), format!("replaced {}", self.number()));
        let done = db.replace_group(&export.dir, &[(&export.members[0].name, &tag)]);
        if !alive(&self.disk, done.map(drop)) {
            self.unclear = Some(Change::Replace { export, tag });
            return false;
        }
        self.note_replaced(&export);
        self.take_handles();
        true
    }

    fn note_replaced(&mut self, export: &Export) {
        self.groups.retain(|known| known.name != export.name);
        let Export { name, members, pairs, .. } = export.clone();
        self.groups.push(Known { name, members, history: History::of(pairs) });
    }

    fn step(&mut self) -> bool {
        let db = self.db.clone().unwrap();
        if self.groups.is_empty() {
            return self.create();
        }
        let which = self.rng.index(self.groups.len());
        match self.rng.below(50) {
            0..28 => self.write(which),
            28 if self.groups.len() < 4 => self.create(),
            29 => self.flush(which),
            30 => self.all_durable(|| db.sync()),
            31 => self.all_durable(|| db.compact()),
            32..34 => self.split(which),
            34 if self.rng.one_in(2) => self.drop_one(which),
            35 | 36 => self.export(which),
            37 => self.replace(),
            38 => {
                self.count += 1;
                let dir = PathBuf::from(format!("/copies/{}", self.count));
                self.all_durable(|| db.checkpoint(&dir))
            }
            39 | 40 => self.look_at_tables(which),
            _ => {
                db.step(*self.rng.pick(&JobKind::ALL));
                !self.disk.is_dead()
            }
        }
    }

    /// What the tables of a group have is what it held at a moment that a crash may leave.
    fn look_at_tables(&self, which: usize) -> bool {
        let known = &self.groups[which];
        let mut found = Pairs::new();
        for (number, member) in known.members.iter().enumerate() {
            for key in (0..30).map(|key| format!("key{key:02}").into_bytes()) {
                let value = member.tree().get_durable(&key);
                let value = value.and_then(|value| value.map(esker::Value::into_vec).transpose());
                match value {
                    Ok(value) => found.extend(value.map(|value| (place(number, &key), value))),
                    Err(error) => {
                        assert!(self.disk.is_dead(), "{error:?}");
                        return false;
                    }
                }
            }
        }
        assert!(known.history.may_leave(&found), "{}: its tables are torn", known.name);
        true
    }

    fn all_durable(&mut self, call: impl FnOnce() -> esker::Result<()>) -> bool {
        let alive = alive(&self.disk, call());
        if alive {
            self.groups.iter_mut().for_each(|known| known.history.make_durable());
        }
        alive
    }

    /// Ends the store in some way; whether it must hold everything then.
    fn end(&mut self, alive: bool) -> bool {
        let (seed, choice) = (self.rng.next(), self.rng.below(4));
        let closes = alive && choice == 0;
        if closes {
            self.db.take().unwrap().close().unwrap();
        }
        let next = match choice {
            _ if closes => None,
            1 if alive => Some(self.disk.kill()),
            2 => Some(self.disk.crash_keeping(0.0, seed)),
            _ => Some(self.disk.crash(seed)),
        };
        self.groups.iter_mut().flat_map(|known| &mut known.members).for_each(|member| member.tree = None);
        self.db = None;
        self.disk = next.unwrap_or_else(|| self.disk.clone());
        closes
    }
}

/// A call may fail only because the disk is dead.
fn alive_dead(disk: &SimFs) -> bool {
    assert!(disk.is_dead(), "a value could not be written");
    false
}

impl Mortal for Life {
    fn rng(&mut self) -> &mut Rng {
        &mut self.rng
    }

    fn disk(&self) -> &SimFs {
        &self.disk
    }

    fn begin(&mut self) {
        self.open();
    }

    fn act(&mut self) -> bool {
        self.step()
    }

    fn end_and_look(&mut self, alive: bool, what: &str) {
        let all = self.end(alive);
        is_sound(&self.disk, &self.options, what);
        self.open();
        self.look(all, what);
    }
}

#[test]
fn the_trees_of_a_group_are_as_they_were_at_one_moment() {
    for seed in seeds(120) {
        println!("ESKER_SEED={seed}");
        let mut life = Life::new(seed);
        end_eight_times(&mut life, seed);
        nothing_is_left(&mut life);
    }
}

/// The space of what was dropped, replaced or deleted comes back.
fn nothing_is_left(life: &mut Life) {
    let db = life.db.clone().unwrap();
    let (gone, left): (Vec<_>, Vec<_>) = life.groups.iter().partition(|known| known.members.len() > 1);
    for known in gone {
        db.drop_group(&known.name, &[]).unwrap();
    }
    for member in left.iter().flat_map(|known| &known.members) {
        member.tree().delete_range(ScanRange::all()).unwrap();
    }
    no_huge_value_is_left(&db);
}
