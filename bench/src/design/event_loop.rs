//! `event-loop`: one thread that acknowledges the durable writes of many simulated clients, beside a thread for each.

use crate::args::Args;
use crate::data::{Values, key16, mix};
use crate::stores::Result;
use esker::{Batch, Db, Durability, ErrorKind, Listener, Options, WriteToken};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

const CLIENTS: u64 = 64;
const VALUE_BYTES: usize = 100;

/// No call should take longer.
const LONG: Duration = Duration::from_millis(1);

struct Wake(Sender<()>);

impl Listener for Wake {
    fn synced(&self) {
        let _ = self.0.send(());
    }

    fn ready(&self) {
        let _ = self.0.send(());
    }
}

pub(crate) fn run(args: &Args) -> Result<()> {
    println!("{CLIENTS} clients, each with one durable put of 16 + {VALUE_BYTES} bytes at a time");
    std::fs::create_dir_all(&args.dir)?;
    let time = Duration::from_secs_f64(args.sync_seconds);
    let mut ratios = Vec::new();
    for round in 0..args.rounds {
        let values = Values::new(args.seed + round, VALUE_BYTES);
        let threads = in_new_store(args, |db, _| of_threads(db, &values, time))?;
        let one = in_new_store(args, |db, woken| of_one(db, woken, &values, time))?;
        ratios.push(one / threads);
        println!("one thread / {CLIENTS} threads: {:.2}", one / threads);
    }
    ratios.sort_by(f64::total_cmp);
    println!("median ratio: {:.2}", ratios[ratios.len() / 2]);
    Ok(())
}

fn in_new_store(args: &Args, work: impl FnOnce(&Db, &Receiver<()>) -> Result<f64>) -> Result<f64> {
    let path = args.dir.join("event-loop");
    std::fs::remove_dir_all(&path).ok();
    let (wake, woken) = channel();
    let db = Db::open(&path, Options::default().memory_budget(256 << 20).listener(Wake(wake)))?;
    let done = work(&db, &woken)?;
    db.close()?;
    std::fs::remove_dir_all(&path)?;
    Ok(done)
}

/// Writes a second.
fn of_threads(db: &Db, values: &Values, time: Duration) -> Result<f64> {
    let (count, begun) = (AtomicU64::new(0), Instant::now());
    std::thread::scope(|scope| -> Result<()> {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| {
                scope.spawn(|| -> esker::Result<()> {
                    while begun.elapsed() < time {
                        let i = count.fetch_add(1, Ordering::Relaxed);
                        db.default_tree().put_with(key16(mix(i)), values.get(i), Durability::Power)?;
                    }
                    Ok(())
                })
            })
            .collect();
        for client in clients {
            client.join().map_err(|_| "a client panicked")??;
        }
        Ok(())
    })?;
    let rate = count.into_inner() as f64 / begun.elapsed().as_secs_f64();
    println!("{CLIENTS} threads: {rate:.0} puts a second");
    Ok(rate)
}

/// Writes a second. Each client writes again when its last write was acknowledged.
fn of_one(db: &Db, woken: &Receiver<()>, values: &Values, time: Duration) -> Result<f64> {
    let (mut acknowledged, mut i, mut busy) = (0_u64, 0, 0_u64);
    let (mut calls, mut off_processor) = (Vec::new(), 0);
    let mut waiting: Vec<WriteToken> = Vec::new();
    let mut idle = CLIENTS;
    let begun = Instant::now();
    let mut batch = Batch::new();
    while begun.elapsed() < time {
        while idle > 0 {
            batch.clear();
            batch.put(db.default_tree(), key16(mix(i)), values.get(i))?;
            let (called, ran) = (Instant::now(), processor_time());
            let written = db.try_write(&batch);
            calls.push(called.elapsed());
            if called.elapsed() > LONG && processor_time() - ran < LONG {
                off_processor += 1;
            }
            match written {
                Ok(token) => waiting.push(token),
                Err(error) if error.kind() == ErrorKind::Busy => {
                    busy += 1;
                    break;
                }
                Err(error) => return Err(error.into()),
            }
            (i, idle) = (i + 1, idle - 1);
        }
        if !waiting.is_empty() {
            db.request_sync();
        }
        // A lost call of the listener would show here.
        woken.recv_timeout(Duration::from_secs(10))?;
        while woken.try_recv().is_ok() {}
        let before = waiting.len();
        let mut failed = None;
        waiting.retain(|token| match db.is_durable(token) {
            Ok(is_durable) => !is_durable,
            Err(error) => {
                failed = Some(error);
                true
            }
        });
        if let Some(error) = failed {
            return Err(error.into());
        }
        let done = (before - waiting.len()) as u64;
        (acknowledged, idle) = (acknowledged + done, idle + done);
    }
    let rate = acknowledged as f64 / begun.elapsed().as_secs_f64();
    calls.sort();
    let at = |part: f64| {
        calls.get((calls.len() as f64 * part) as usize).or(calls.last()).map_or(0, Duration::as_micros)
    };
    println!(
        "one thread: {rate:.0} puts a second; {} calls, 99.9 % within {} us, the longest {} us, {} over 1 ms \
         ({off_processor} of them had the processor for less than 1 ms); {busy} refused",
        calls.len(),
        at(0.999),
        at(1.0),
        calls.iter().filter(|call| **call > LONG).count(),
    );
    Ok(rate)
}

/// For how long this thread has had a processor.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32)
}
