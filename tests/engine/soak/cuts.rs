//! Histories whose lives end by a power cut: a clone of the file system, made amid the load, is what is left. Several are made
//! in one life, each is judged, and one of them, or the file system after a kill, is where the history goes on.

use crate::board::{ACTORS, Board, Reading, Word};
use crate::disk::{Disk, Mounted, write_some_back};
use crate::history::{Budget, Counts, History, Life, OPERATIONS_MIN};
use crate::judge::{Bounds, End, Outcome};
use test_kit::{Rng, seed};

/// Power cuts of one history.
const CUTS: u64 = 24;
/// Power cuts of one life at most.
const CUTS_OF_LIFE: u64 = 6;
/// Histories at a time.
const AT_ONCE: u64 = 2;
/// How the ext4 is mounted, by history.
const MOUNTS: [&str; 4] = ["", ",commit=1", ",nodelalloc", ",data=writeback"];

/// A power cut, and what was known just before and just after.
struct Cut {
    image: String,
    before: Reading,
    after: Reading,
}

struct Course<'a> {
    disk: &'a Disk,
    history: History,
    rng: Rng,
    /// The image that the store is in, and its mount.
    image: String,
    mounted: Option<Mounted>,
    mount_options: &'static str,
    images: u64,
}

impl Course<'_> {
    fn new_image(&mut self) -> String {
        self.images += 1;
        format!("{}-{}", self.history.knobs.seed, self.images)
    }

    fn cut(&mut self) -> Outcome<Cut> {
        let image = self.new_image();
        let before = self.history.board();
        self.disk.clone_image(&self.image, &image)?;
        let after = self.history.board();
        self.history.counts.cuts += 1;
        Ok(Cut { image, before, after })
    }

    /// One life with its power cuts.
    fn live(&mut self) -> Outcome<Vec<Cut>> {
        let mut cuts = Vec::new();
        let mut life = Life::begin(&self.history.knobs, self.history.end, &self.history.places);
        life.started()?;
        if self.rng.one_in(4) {
            for _ in 0..self.rng.below(300_000) {
                std::hint::spin_loop();
            }
            cuts.push(self.cut()?);
        }
        let store = self.history.places.store();
        for _ in 0..1 + self.rng.below(CUTS_OF_LIFE) {
            let most = if self.rng.one_in(3) { 20 } else { 6 };
            for _ in 0..1 + self.rng.below(most) {
                let count = 1 + self.rng.below(30);
                life.acknowledged(count)?;
                self.history.operations += count;
                if self.rng.one_in(2) {
                    write_some_back(&store, &mut self.rng);
                }
            }
            cuts.push(self.cut()?);
        }
        let has_opened = life.kill()?;
        self.history.ended(End::Kill, has_opened);
        Ok(cuts)
    }

    /// Opens, judges and checks what a power cut has left.
    fn look(&mut self, cut: &Cut) -> Outcome<()> {
        let mounted = self.disk.mount_image(&cut.image, self.mount_options)?;
        let store = mounted.dir.join("store");
        let bounds = Bounds::new(End::Power, &cut.before, &cut.after);
        let read_only = self.rng.one_in(2);
        self.history.judge(&store, &bounds, read_only)?;
        if self.rng.one_in(2) {
            self.history.check(&store)?;
        }
        Ok(())
    }

    /// The history goes on where the power cut has left it.
    fn go_on_from(&mut self, cut: Cut) -> Outcome<()> {
        let at = self.mounted.take().map(|mounted| mounted.dir.clone());
        self.disk.remove_image(&self.image);
        // What was acknowledged after the cut is not promised.
        let board = Board::open(&self.history.places.board());
        for slot in 0..ACTORS {
            board.set(Word::Durable(slot), cut.before.get(Word::Durable(slot)));
        }
        board.set(Word::IngestAcked, cut.before.get(Word::IngestAcked));
        let mounted = self.disk.mount_image(&cut.image, self.mount_options)?;
        self.history.places.base = mounted.dir.clone();
        self.history.end = End::Power;
        self.image = cut.image;
        self.mounted = Some(mounted);
        drop(at);
        Ok(())
    }

    fn live_and_look(&mut self) -> Outcome<()> {
        let mut cuts = self.live()?;
        let chosen = self.rng.one_in(2).then(|| cuts.swap_remove(self.rng.index(cuts.len())));
        for cut in cuts {
            self.look(&cut).inspect_err(|_| {
                self.disk.keep_image(&cut.image, &self.history.places.notes.join("image"));
            })?;
            self.disk.remove_image(&cut.image);
        }
        match chosen {
            Some(cut) => self.go_on_from(cut),
            None => {
                self.history.counts.kills += 1;
                Ok(())
            }
        }
    }
}

fn live_through(disk: &Disk, seed: u64) -> Outcome<Counts> {
    let image = format!("{seed}-0");
    disk.clone_image("empty", &image)?;
    let mount_options = MOUNTS[(seed % MOUNTS.len() as u64) as usize];
    let mounted = disk.mount_image(&image, mount_options)?;
    let notes = crate::kills::ground().join(format!("cuts-{}-{seed}", std::process::id()));
    let history = History::new(seed, mounted.dir.clone(), notes);
    let rng = Rng::new(seed ^ 0xc0c0);
    let mut course = Course { disk, history, rng, image, mounted: Some(mounted), mount_options, images: 0 };
    while course.history.counts.cuts < CUTS || course.history.operations < OPERATIONS_MIN {
        if let Err(what) = course.live_and_look() {
            let kept = course.history.places.notes.join("image");
            if !kept.exists() {
                disk.keep_image(&course.image, &kept);
            }
            let mounting =
                format!("mount -o loop{mount_options} {} DIR, ESKER_SOAK_BASE=DIR", kept.display());
            return Err(format!("{}\n  {mounting}", course.history.found(&what)));
        }
    }
    course.history.count();
    drop(course.mounted.take());
    disk.remove_image(&course.image);
    std::fs::remove_dir_all(&course.history.places.notes).expect("notes can be removed");
    Ok(course.history.counts)
}

pub(crate) fn run(disk: &Disk, seconds: u64) -> Outcome<()> {
    let budget = Budget::new(seconds);
    let first = seed(1);
    println!("ESKER_SEED={first}");
    let (sum, outcome) =
        crate::history::side_by_side(AT_ONCE, first, &budget, |seed| live_through(disk, seed));
    sum.conclude("power cuts", outcome)
}
