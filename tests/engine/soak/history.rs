//! A history from outside: lives of one store, one after the other, and what ended each.

use std::fs::OpenOptions;
use std::io::{BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use esker::{Db, ErrorKind};

use crate::board::{Board, Reached, Reading, Word, read_lives};
use crate::child::{ACKED, CHILD, OPENED, STARTED, command};
use crate::judge::{Bounds, End, Outcome, judge_alone, now_us};
use crate::plan::{Knobs, WRITERS};
use crate::store::Places;

/// A child at work.
pub(crate) struct Life {
    process: Child,
    /// Closed, it ends the child.
    order: Option<ChildStdin>,
    says: BufReader<ChildStdout>,
    pub(crate) has_opened: bool,
    errors: PathBuf,
}

impl Life {
    pub(crate) fn begin(knobs: &Knobs, end: End, places: &Places) -> Life {
        let errors = OpenOptions::new().append(true).create(true).open(places.child_errors());
        let mut process = Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", "the_process_that_dies", "--nocapture", "--quiet"])
            .env(CHILD, command(knobs, end, places))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors.expect("a file for the child's errors"))
            .spawn()
            .expect("a child");
        let order = process.stdin.take();
        let says = BufReader::new(process.stdout.take().expect("a pipe"));
        Life { process, order, says, has_opened: false, errors: places.child_errors() }
    }

    /// The next thing that the child says; `None` when it has ended.
    fn next(&mut self) -> Option<u8> {
        let mut byte = [0];
        // The test harness says something too.
        loop {
            self.says.read_exact(&mut byte).ok()?;
            match byte[0] {
                OPENED => self.has_opened = true,
                ACKED | STARTED => {}
                _ => continue,
            }
            return Some(byte[0]);
        }
    }

    /// Waits until the child is about to open the store.
    pub(crate) fn started(&mut self) -> Outcome<()> {
        while let Some(said) = self.next() {
            if said == STARTED {
                return Ok(());
            }
        }
        Err(self.told())
    }

    /// Waits for `count` acknowledgements.
    pub(crate) fn acknowledged(&mut self, count: u64) -> Outcome<()> {
        let mut left = count;
        while left > 0 {
            match self.next() {
                Some(ACKED) => left -= 1,
                Some(_) => {}
                None => return Err(self.told()),
            }
        }
        Ok(())
    }

    /// Kills the child, and says if it had ended by itself.
    pub(crate) fn kill(mut self) -> Outcome<bool> {
        drop(self.process.kill());
        // What is still in the pipe tells whether it had opened the store.
        while self.next().is_some() {}
        let status = self.process.wait().expect("a child");
        match status.code() {
            None => Ok(self.has_opened),
            Some(_) => Err(self.told()),
        }
    }

    /// Has the child close the store and end.
    pub(crate) fn end_in_peace(mut self) -> Outcome<()> {
        let order = self.order.as_mut().map(|order| order.write_all(b"e"));
        drop(order);
        while self.next().is_some() {}
        let status = self.process.wait().expect("a child");
        if status.success() { Ok(()) } else { Err(self.told()) }
    }

    /// What the child said of its end.
    fn told(&mut self) -> String {
        let status = self.process.wait().expect("a child");
        let text = std::fs::read_to_string(&self.errors).unwrap_or_default();
        let found = text.lines().rev().find(|line| line.starts_with("FOUND: "));
        format!("the child ended with {status}: {}", found.unwrap_or(&text))
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// How many of what.
#[derive(Debug, Default, Clone)]
pub(crate) struct Counts {
    pub(crate) histories: u64,
    pub(crate) kills: u64,
    pub(crate) kills_in_opening: u64,
    pub(crate) cuts: u64,
    pub(crate) closed: u64,
    pub(crate) checks: u64,
    pub(crate) read_only: u64,
    pub(crate) operations: u64,
    /// How many histories reached each, and how often it was.
    pub(crate) reached: [(u64, u64); Reached::ALL.len()],
    pub(crate) short: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, more: &Counts) {
        self.histories += more.histories;
        self.kills += more.kills;
        self.kills_in_opening += more.kills_in_opening;
        self.cuts += more.cuts;
        self.closed += more.closed;
        self.checks += more.checks;
        self.read_only += more.read_only;
        self.operations += more.operations;
        self.short += more.short;
        for (sum, more) in self.reached.iter_mut().zip(more.reached) {
            *sum = (sum.0 + more.0, sum.1 + more.1);
        }
    }

    fn deaths(&self) -> u64 {
        self.kills + self.cuts
    }

    fn print(&self, what: &str) {
        println!(
            "{what}: {} histories, {} kills ({} in opening), {} power cuts, {} closed in peace; {} operations; \
             {} checks, {} openings for reading only; {} histories of fewer than {} operations",
            self.histories,
            self.kills,
            self.kills_in_opening,
            self.cuts,
            self.closed,
            self.operations,
            self.checks,
            self.read_only,
            self.short,
            OPERATIONS_MIN,
        );
        for (what, (histories, times)) in Reached::ALL.iter().zip(self.reached) {
            println!("  {what:?}: in {histories} histories, {times} times");
        }
    }

    /// Prints what was done, and ends the test if something was found.
    pub(crate) fn conclude(&self, what: &str, outcome: Outcome<()>) -> Outcome<()> {
        self.print(what);
        println!("{} deaths", self.deaths());
        outcome?;
        self.check();
        Ok(())
    }

    /// What must be reached in a fifth of the histories. Few histories say little.
    fn check(&self) {
        if self.histories < 20 {
            return;
        }
        for what in [Reached::Flush, Reached::Merge, Reached::Split, Reached::Reclaim] {
            let (histories, _) = self.reached[what as usize];
            assert!(histories * 5 >= self.histories, "{what:?} was reached in {histories} histories only");
        }
    }
}

pub(crate) const OPERATIONS_MIN: u64 = 1_000;

/// One history as the parent sees it.
pub(crate) struct History {
    pub(crate) knobs: Knobs,
    pub(crate) places: Places,
    /// How the last life ended, as far as what must be there goes.
    pub(crate) end: End,
    pub(crate) counts: Counts,
    /// Operations acknowledged, by the pipe.
    pub(crate) operations: u64,
}

impl History {
    pub(crate) fn new(seed: u64, base: PathBuf, notes: PathBuf) -> History {
        let knobs = Knobs::of(seed, now_us());
        let places = Places { base, notes };
        std::fs::create_dir_all(&places.notes).expect("a directory for notes");
        std::fs::create_dir_all(&places.base).expect("a directory for the store");
        let order = format!("seed={seed}\nbegan_us={}\n", knobs.began_us);
        std::fs::write(places.notes.join("history"), order).expect("a note");
        // The board is there even where the child dies before it does anything.
        drop(Board::open(&places.board()));
        History { knobs, places, end: End::None, counts: Counts::default(), operations: 0 }
    }

    /// One that was kept.
    pub(crate) fn kept(notes: &Path, base: PathBuf) -> Option<History> {
        let text = std::fs::read_to_string(notes.join("history")).ok()?;
        let number = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.parse().ok());
        let knobs = Knobs::of(number("seed=")?, number("began_us=")?);
        let places = Places { base, notes: notes.to_path_buf() };
        Some(History { knobs, places, end: End::Power, counts: Counts::default(), operations: 0 })
    }

    pub(crate) fn board(&self) -> Reading {
        Board::read(&self.places.board())
    }

    /// The store after a death, between `before` and `after`; it is opened for reading only, or fully.
    pub(crate) fn judge(&mut self, store: &Path, bounds: &Bounds, read_only: bool) -> Outcome<()> {
        let lives = read_lives(&self.places.lives());
        let options = self.knobs.options();
        let opened = match read_only {
            true => Db::open_read_only(store, options.create(false)),
            false => Db::open(store, options.create(false)),
        };
        let db = match opened {
            // It died before there was a store.
            Err(error) if error.kind() == ErrorKind::NotFound && bounds.least.iter().all(|&n| n == 0) => {
                return Ok(());
            }
            Err(error) => return Err(format!("opening (for reading only: {read_only}): {error}")),
            Ok(db) => db,
        };
        judge_alone(&db, self.knobs, &lives, bounds)?;
        db.close().map_err(|error| format!("closing (for reading only: {read_only}): {error}"))?;
        self.counts.read_only += u64::from(read_only);
        Ok(())
    }

    pub(crate) fn check(&mut self, store: &Path) -> Outcome<()> {
        match esker::check(store, &self.knobs.options()) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(format!("check: {error}")),
            Ok(report) if report.findings.is_empty() => {
                self.counts.checks += 1;
                Ok(())
            }
            Ok(report) => Err(format!("check: {:?}", report.findings)),
        }
    }

    /// After a kill, or after the end in peace.
    pub(crate) fn ended(&mut self, end: End, has_opened: bool) {
        // A child that died before it worked has changed nothing of what must be there.
        if has_opened {
            self.end = end;
        }
    }

    /// Counts what was reached; to be called once, at the end.
    pub(crate) fn count(&mut self) {
        let reading = self.board();
        self.counts.histories = 1;
        self.counts.operations = self.operations;
        self.counts.short = u64::from(self.operations < OPERATIONS_MIN);
        for what in Reached::ALL {
            let times = reading.get(Word::Reached(what));
            self.counts.reached[what as usize] = (u64::from(times > 0), times);
        }
    }

    /// What is told when something was found.
    pub(crate) fn found(&self, what: &str) -> String {
        let lives = read_lives(&self.places.lives());
        let began = lives.0.last().copied().unwrap_or_default();
        format!(
            "{what}\n  ESKER_SEED={}, life {}, which began at operations {:?} (of {WRITERS} writers, then in the tree without \
             a log); kept: {}; judge it again: ESKER_SOAK_KEPT={} cargo test -p engine-tests --test soak kept",
            self.knobs.seed,
            lives.0.len(),
            began,
            self.places.notes.display(),
            self.places.notes.display(),
        )
    }
}

/// Until when a test goes on. A budget, not a measurement.
pub(crate) struct Budget(Instant);

impl Budget {
    /// `ESKER_SOAK_SECONDS`, or `seconds`.
    pub(crate) fn new(seconds: u64) -> Budget {
        Budget(Instant::now() + test_kit::duration(Duration::from_secs(seconds)))
    }

    pub(crate) fn is_over(&self) -> bool {
        Instant::now() >= self.0
    }
}

/// Lives through histories with seeds from `first` on, `at_once` at a time, until the budget is used up.
pub(crate) fn side_by_side(
    at_once: u64,
    first: u64,
    budget: &Budget,
    live_through: impl Fn(u64) -> Outcome<Counts> + Sync,
) -> (Counts, Outcome<()>) {
    let found = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let work = |worker| {
            let (live_through, found) = (&live_through, &found);
            move || {
                let mut sum = Counts::default();
                let mut seed = first + worker;
                while sum.histories == 0 || !budget.is_over() {
                    // One finding ends all.
                    if found.load(Ordering::Relaxed) {
                        break;
                    }
                    match live_through(seed) {
                        Ok(counts) => sum.add(&counts),
                        Err(what) => {
                            found.store(true, Ordering::Relaxed);
                            return (sum, Err(what));
                        }
                    }
                    seed += at_once;
                }
                (sum, Ok(()))
            }
        };
        let workers: Vec<_> = (0..at_once).map(|worker| scope.spawn(work(worker))).collect();
        let (mut sum, mut outcome) = (Counts::default(), Ok(()));
        for worker in workers {
            let (counts, ended) = worker.join().expect("no panic");
            sum.add(&counts);
            outcome = outcome.and(ended);
        }
        (sum, outcome)
    })
}
