use std::sync::mpsc::{Sender, channel};
use std::thread::{Scope, ScopedJoinHandle, scope};

use super::*;
use crate::env::Env;

const TREE: TreeId = 1;
const LONG: Duration = Duration::from_secs(600);

fn key(name: &str) -> KeyRange {
    KeyRange::one_key(name.as_bytes())
}

fn range(lower: &str, upper: &str) -> KeyRange {
    KeyRange { lower: lower.into(), upper: Some(upper.into()) }
}

fn take(locks: &Locks, keys: KeyRange, mode: LockMode, timeout: Duration) -> Outcome {
    locks.take(TREE, keys, mode, timeout, &*Env::system().clock)
}

/// Whether the lock is available without waiting.
fn free(locks: &Locks, keys: KeyRange, mode: LockMode) -> bool {
    take(locks, keys, mode, Duration::ZERO) != Outcome::TimedOut
}

/// A transaction on its own thread, which takes locks one after the other and ends on request.
struct Actor<'s> {
    orders: Sender<(KeyRange, LockMode)>,
    outcomes: std::sync::mpsc::Receiver<Outcome>,
    owner: Owner,
    thread: ScopedJoinHandle<'s, ()>,
}

impl<'s> Actor<'s> {
    fn new(scope: &'s Scope<'s, '_>, table: &Arc<LockTable>) -> Actor<'s> {
        let (orders, taken) = channel::<(KeyRange, LockMode)>();
        let (done, outcomes) = channel();
        let locks = Locks::new(table);
        let owner = locks.owner();
        let thread = scope.spawn(move || {
            for (keys, mode) in taken {
                done.send(take(&locks, keys, mode, LONG)).unwrap();
            }
        });
        Actor { orders, outcomes, owner, thread }
    }

    /// Takes a lock that is available.
    fn take(&self, keys: KeyRange, mode: LockMode) {
        self.orders.send((keys, mode)).unwrap();
        assert_eq!(self.outcomes.recv().unwrap(), Outcome::Held);
    }

    /// Requests a lock, and returns once the request waits.
    fn wait_for(&self, table: &LockTable, keys: KeyRange, mode: LockMode) {
        self.orders.send((keys, mode)).unwrap();
        while !table.state.lock().is_waiting(self.owner) {
            assert!(self.outcomes.try_recv().is_err(), "there was nothing to wait for");
            std::thread::yield_now();
        }
    }

    fn outcome(&self) -> Outcome {
        self.outcomes.recv().unwrap()
    }

    fn end(self) {
        drop(self.orders);
        self.thread.join().unwrap();
    }
}

use LockMode::{Exclusive, Shared};

#[test]
fn shared_locks_share_and_exclusive_ones_exclude_on_keys_and_ranges() {
    let table = Arc::new(LockTable::default());
    let (one, two) = (Locks::new(&table), Locks::new(&table));
    assert!(free(&one, key("b"), Shared) && free(&two, key("b"), Shared));
    assert!(!free(&two, key("b"), Exclusive));
    assert!(free(&one, range("f", "k"), Shared) && free(&two, range("i", "n"), Shared));
    assert!(!free(&two, key("g"), Exclusive), "a phantom");
    assert!(free(&two, key("g"), Shared));
    assert!(free(&two, key("m"), Exclusive), "in its own range alone");
    assert!(!free(&one, range("a", "c"), Exclusive) && !free(&one, range("k", "z"), Shared));
    assert!(free(&one, range("n", "z"), Exclusive));
    assert!(!free(&two, key("x"), Shared));
    assert!(two.take(TREE + 1, key("x"), Exclusive, LONG, &*Env::system().clock) == Outcome::Held);
    drop(one);
    assert!(free(&two, key("b"), Exclusive) && free(&two, range("a", "z"), Exclusive));
    drop(two);
    assert!(table.state.lock().trees.is_empty());
}

#[test]
fn what_is_held_is_not_waited_for() {
    let table = Arc::new(LockTable::default());
    let one = Locks::new(&table);
    assert_eq!(take(&one, range("a", "k"), Exclusive, LONG), Outcome::Held);
    assert_eq!(take(&one, key("b"), Exclusive, LONG), Outcome::HeldBefore);
    assert_eq!(take(&one, range("b", "c"), Shared, LONG), Outcome::HeldBefore);
    assert_eq!(take(&one, range("b", "l"), Shared, LONG), Outcome::Held);
    assert_eq!(take(&one, key("k"), Exclusive, LONG), Outcome::Held);
    assert_eq!(take(&one, key("k"), Shared, LONG), Outcome::HeldBefore);
}

#[test]
fn who_waits_gets_the_lock_when_it_is_let_go_and_in_turn() {
    let table = Arc::new(LockTable::default());
    scope(|scope| {
        let [reader, writer, late] = std::array::from_fn(|_| Actor::new(scope, &table));
        reader.take(key("k"), Shared);
        writer.wait_for(&table, key("k"), Exclusive);
        // It could share with the first reader, but among many readers the writer would never get its turn.
        late.wait_for(&table, range("a", "z"), Shared);
        reader.end();
        assert_eq!(writer.outcome(), Outcome::Held);
        assert!(table.state.lock().is_waiting(late.owner));
        writer.end();
        assert_eq!(late.outcome(), Outcome::Held);
        late.end();
    });
}

#[test]
fn who_closes_a_circle_is_told_and_the_others_go_on() {
    for len in 2..=5 {
        let table = Arc::new(LockTable::default());
        scope(|scope| {
            let names = ["a", "b", "c", "d", "e"];
            let mut actors: Vec<Actor<'_>> = (0..len).map(|_| Actor::new(scope, &table)).collect();
            for (actor, name) in actors.iter().zip(names) {
                actor.take(key(name), if name == "a" { Shared } else { Exclusive });
            }
            for index in 0..len - 1 {
                actors[index].wait_for(&table, key(names[index + 1]), Exclusive);
            }
            let last = actors.pop().unwrap();
            last.orders.send((range("a", "b"), Exclusive)).unwrap();
            assert_eq!(last.outcome(), Outcome::Deadlock);
            assert_eq!(table.state.lock().queue.len(), len - 1);
            last.end();
            while let Some(actor) = actors.pop() {
                assert_eq!(actor.outcome(), Outcome::Held);
                actor.end();
            }
        });
    }
}

/// Two transactions that share a key and both want it exclusively cannot both have it. But if one of them waits only
/// for its turn after the other, it may pass.
#[test]
fn who_waits_for_its_turn_alone_is_let_pass_where_that_breaks_a_circle() {
    let table = Arc::new(LockTable::default());
    scope(|scope| {
        let [holder, writer] = std::array::from_fn(|_| Actor::new(scope, &table));
        holder.take(key("k"), Shared);
        writer.wait_for(&table, key("k"), Exclusive);
        // The writer waits for the holder, which would have to wait for its turn after the writer.
        holder.take(key("k"), Exclusive);
        holder.end();
        assert_eq!(writer.outcome(), Outcome::Held);
        writer.end();

        // The same with one more transaction in between: `second` waits for its turn after `writer`, which waits for
        // `holder`, which begins to wait for `second`.
        let [holder, writer, second] = std::array::from_fn(|_| Actor::new(scope, &table));
        second.take(key("m"), Exclusive);
        holder.take(range("a", "k"), Shared);
        writer.wait_for(&table, key("b"), Exclusive);
        second.wait_for(&table, key("b"), Shared);
        holder.orders.send((key("m"), Shared)).unwrap();
        assert_eq!(second.outcome(), Outcome::Held);
        second.end();
        assert_eq!(holder.outcome(), Outcome::Held);
        holder.end();
        assert_eq!(writer.outcome(), Outcome::Held);
        writer.end();

        let [one, two] = std::array::from_fn(|_| Actor::new(scope, &table));
        one.take(key("k"), Shared);
        two.take(key("k"), Shared);
        one.wait_for(&table, key("k"), Exclusive);
        two.orders.send((key("k"), Exclusive)).unwrap();
        assert_eq!(two.outcome(), Outcome::Deadlock);
        two.end();
        assert_eq!(one.outcome(), Outcome::Held);
        one.end();
    });
    assert!(table.state.lock().trees.is_empty() && table.state.lock().queue.is_empty());
}

#[test]
fn who_gives_up_is_in_nobodys_way() {
    let table = Arc::new(LockTable::default());
    scope(|scope| {
        let [reader, late] = std::array::from_fn(|_| Actor::new(scope, &table));
        reader.take(key("k"), Shared);
        let writer = Locks::new(&table);
        assert_eq!(take(&writer, key("k"), Exclusive, Duration::ZERO), Outcome::TimedOut);
        late.take(key("k"), Shared);
        late.end();
        reader.end();
    });
}
