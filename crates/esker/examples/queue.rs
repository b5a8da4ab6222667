//! A durable queue with several consumers. A job that was pushed survives a power cut, is given to one consumer at a
//! time, and is given again if that one dies before it says that it is done.
//!
//! `cargo run --example queue`

use esker::{Db, Durability, Options, Result, ScanRange, Tree, Txn, TxnMode, TxnOptions, keys};

struct Queue {
    db: Db,
    /// Jobs by number. `keys::u64` is big-endian, so they lie in the order of their numbers.
    jobs: Tree,
    /// The numbers that somebody works on.
    taken: Tree,
    /// The next number to push, and the next to take.
    marks: Tree,
}

impl Queue {
    fn open(db: &Db) -> Result<Queue> {
        let (jobs, taken, marks) = (db.tree("jobs")?, db.tree("taken")?, db.tree("marks")?);
        Ok(Queue { db: db.clone(), jobs, taken, marks })
    }

    /// With locks, since all want the same marks: who comes second waits, and nobody has to try again.
    fn transact<T>(&self, work: impl FnMut(&Txn) -> Result<T>) -> Result<T> {
        self.db.transact(TxnOptions::default().mode(TxnMode::Pessimistic), work)
    }

    /// The mark `name`, which nobody else can change before the transaction ends.
    fn mark(&self, txn: &Txn, name: &str) -> Result<u64> {
        txn.get_for_update(&self.marks, name)?.map_or(Ok(0), |mark| keys::decode_u64(&mark.bytes()?))
    }

    fn push(&self, job: &str) -> Result<()> {
        self.transact(|txn| {
            let number = self.mark(txn, "push")?;
            txn.put(&self.jobs, keys::u64(number), job)?;
            txn.put(&self.marks, "push", keys::u64(number + 1))
        })
    }

    /// The oldest job that nobody has taken.
    fn take(&self) -> Result<Option<(u64, Vec<u8>)>> {
        self.transact(|txn| {
            let number = self.mark(txn, "take")?;
            let Some(job) = txn.get_vec(&self.jobs, keys::u64(number))? else { return Ok(None) };
            txn.put(&self.taken, keys::u64(number), "")?;
            txn.put(&self.marks, "take", keys::u64(number + 1))?;
            Ok(Some((number, job)))
        })
    }

    fn done(&self, number: u64) -> Result<()> {
        self.taken.delete(keys::u64(number))
    }

    /// What was taken and never done: asked for after a restart.
    fn unfinished(&self) -> Result<Vec<u64>> {
        self.taken.scan(ScanRange::all())?.map(|entry| keys::decode_u64(&entry?.0)).collect()
    }

    /// Deletes the jobs that are done: all below the first that is not. One write, however many they are.
    fn sweep(&self) -> Result<()> {
        let now = self.db.snapshot();
        let first = match now.scan(&self.taken, ScanRange::all())?.next() {
            Some(taken) => taken?.0,
            None => now.get_vec(&self.marks, "take")?.unwrap_or_default(),
        };
        self.jobs.delete_range(..first)
    }
}

/// What the example shows.
pub(crate) fn main() -> std::io::Result<()> {
    let dir = tempfile::tempdir()?;
    // Whoever pushes is told when the job is safe: so every write waits for the disk, together with its neighbours.
    let options = Options::default().durability(Durability::Power);
    let db = Db::open(dir.path().join("db"), options.clone())?;
    let queue = Queue::open(&db)?;
    (0..40).try_for_each(|number| queue.push(&format!("job {number}")))?;

    let consume = || -> Result<()> {
        while let Some((number, job)) = queue.take()? {
            println!("{}", String::from_utf8_lossy(&job));
            // This one is never done, as if its consumer had died.
            if number != 25 {
                queue.done(number)?;
            }
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let consumers: Vec<_> = (0..4).map(|_| scope.spawn(consume)).collect();
        consumers.into_iter().filter_map(|consumer| consumer.join().ok()).collect::<Result<()>>()
    })?;
    queue.sweep()?;
    assert_eq!(queue.jobs.count(ScanRange::all())?, 15, "25 is not done, so it and what is behind it stays");
    db.close()?;

    let db = Db::open(dir.path().join("db"), options)?;
    let queue = Queue::open(&db)?;
    assert_eq!(queue.unfinished()?, [25]);
    queue.done(25)?;
    queue.sweep()?;
    assert_eq!(queue.jobs.count(ScanRange::all())?, 0);
    Ok(db.close()?)
}
