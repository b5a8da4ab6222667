//! The process that dies: opens the store, judges what the last death has left, and works until it is killed.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::channel;

use esker::Batch;

use crate::admin::{Admin, BlobFiles, follow, watch};
use crate::board::{ACTORS, Board, Word, add_life, read_lives};
use crate::judge::{Bounds, End, judge_alone};
use crate::plan::{ACCOUNTS, Actor, Knobs, Model, START, WRITERS};
use crate::store::{BANK, Places, Shared, account_key};
use crate::writer::{World, Writer, fail};
use test_kit::Rng;

/// Tells the child what to do: seed, beginning, how the last life ended, and where things are.
pub(crate) const CHILD: &str = "ESKER_SOAK_CHILD";

/// The first byte that a child writes, before it opens the store.
pub(crate) const STARTED: u8 = 1;
/// Written when it has judged the store and begins to work.
pub(crate) const OPENED: u8 = 2;
/// Written for each operation that was acknowledged.
pub(crate) const ACKED: u8 = 3;

pub(crate) fn command(knobs: &Knobs, end: End, places: &Places) -> String {
    let (base, notes) = (places.base.display(), places.notes.display());
    format!("{}\n{}\n{end:?}\n{base}\n{notes}", knobs.seed, knobs.began_us)
}

fn parse(command: &str) -> Option<(Knobs, End, Places)> {
    let mut lines = command.lines();
    let seed = lines.next()?.parse().ok()?;
    let began_us = lines.next()?.parse().ok()?;
    let end = [End::Kill, End::Power, End::None]
        .into_iter()
        .find(|end| Some(&*format!("{end:?}")) == lines.clone().next())?;
    lines.next()?;
    let (base, notes) = (PathBuf::from(lines.next()?), PathBuf::from(lines.next()?));
    Some((Knobs::of(seed, began_us), end, Places { base, notes }))
}

/// Ends the process when the parent is gone; tells when it wants the life to end in peace.
fn listen(ends: &AtomicBool) {
    let mut byte = [0];
    match std::io::stdin().read(&mut byte) {
        Ok(1) => ends.store(true, Ordering::Relaxed),
        _ => std::process::exit(3),
    }
}

fn tell(byte: u8) {
    let mut out = std::io::stdout().lock();
    if out.write_all(&[byte]).and_then(|()| out.flush()).is_err() {
        std::process::exit(2);
    }
}

pub(crate) fn run(order: &str) {
    let Some((knobs, end, places)) = parse(order) else { fail("the child does not understand its order") };
    tell(STARTED);
    std::panic::set_hook(Box::new(|panic| {
        eprintln!("FOUND: {panic}");
        std::process::exit(1);
    }));
    let board = Board::open(&places.board());
    let mut lives = read_lives(&places.lives());
    let shared = Shared::open(&places.store(), &knobs).unwrap_or_else(|e| fail(&format!("opening: {e}")));
    let reading = board.reading();
    let models = judge_alone(&shared.db, knobs, &lives, &Bounds::new(end, &reading, &reading));
    let models = models.unwrap_or_else(|what| fail(&format!("after {end:?}: {what}")));
    let began: [u64; ACTORS] = std::array::from_fn(|slot| models[slot].n);
    open_accounts(&shared, &knobs);
    // What was lost is done otherwise from here on. The numbers first: a child that dies between them and the new life finds
    // the store at these.
    for (slot, &n) in began.iter().enumerate() {
        board.set(Word::Begun(slot), n);
        board.set(Word::Acked(slot), n);
        // Without a log, what survived a death may be in memory again.
        board.set(Word::Durable(slot), board.get(Word::Durable(slot)).min(n));
    }
    add_life(&places.lives(), &began);
    lives.0.push(began);
    drop(std::fs::remove_dir_all(places.side()));
    std::fs::create_dir_all(places.side()).expect("a directory for copies");
    let carriers = std::array::from_fn(|_| AtomicU64::new(0));
    let world = World { shared, board, lives, carriers, ends: AtomicBool::new(false) };
    tell(OPENED);
    live(&world, knobs, &places, models);
    let before = world.board.reading();
    if let Err(error) = world.shared.db.close() {
        fail(&format!("closing: {error}"));
    }
    world.board.durable(&before, 0..ACTORS);
}

fn open_accounts(shared: &Shared, knobs: &Knobs) {
    let opened = || -> esker::Result<()> {
        if shared.bank.name() == BANK && !shared.bank.contains(account_key(0))? {
            let mut batch = Batch::new();
            for account in 0..ACCOUNTS {
                batch.put(&shared.bank, account_key(account), START.to_le_bytes())?;
            }
            shared.db.write(&batch)?;
        }
        Ok(())
    };
    opened().unwrap_or_else(|error| fail(&format!("opening accounts of {}: {error}", knobs.seed)));
}

fn live(world: &World, knobs: Knobs, places: &Places, models: Vec<Model>) {
    let life = world.lives.0.len() as u64;
    std::thread::scope(|scope| {
        let (to_admin, admin_hears) = channel();
        let (to_watcher, watcher_hears) = channel();
        for writer in 0..WRITERS {
            let of = |is_volatile| models[Actor { writer, is_volatile }.slot()].clone();
            let writer = Writer {
                world,
                models: [of(false), of(true)],
                rng: Rng::new(knobs.seed ^ (life << 8) ^ writer as u64),
                listeners: vec![to_admin.clone(), to_watcher.clone()],
            };
            scope.spawn(move || writer.run());
        }
        drop((to_admin, to_watcher));
        let rng = Rng::new(knobs.seed ^ (life << 8) ^ 0xad);
        let admin = Admin { world, knobs, places, rng, files: BlobFiles::default() };
        scope.spawn(move || admin.run(&admin_hears));
        scope.spawn(move || watch(world, models, &watcher_hears));
        scope.spawn(move || follow(world, &knobs));
        scope.spawn(|| listen(&world.ends));
    });
}
