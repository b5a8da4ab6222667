//! Tells of keys that expire, as `notify-keyspace-events` asks for with `x`.
//!
//! A key expires in the store by itself: whoever reads it later does not find it. So as long as somebody asks, the server
//! remembers which keys expire when, and tells at that time. It looks through the databases when it is first asked, and
//! notes what is committed from then on. It remembers the next [`KEPT`] keys, or fewer long ones. When those are over, it
//! looks again.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use esker::ScanRange;
use esker_redis::{Class, Entry, Event, Op, Space, Writes};
use tokio::sync::Notify;

use crate::server::Server;
use crate::trees::Trees;

/// So long after a look through the databases that failed the next one begins: each walks over all keys.
const LOOK_AGAIN: Duration = Duration::from_secs(10);

/// At most so many keys are remembered.
const KEPT: usize = 1 << 20;

/// At most so many bytes of keys are remembered.
const BYTES_KEPT: usize = 64 << 20;

/// So many keys are told of until others have their turn.
const TOLD_AT_ONCE: usize = 256;

/// A key with the number of its database.
type Place = (u16, Vec<u8>);

/// The keys that expire next.
#[derive(Default)]
pub(crate) struct Expiries {
    known: RefCell<Option<Known>>,
    /// Notified when the next expiry changes, and after each `CONFIG SET`.
    pub(crate) changed: Notify,
}

struct Known {
    by_time: BTreeSet<(u64, Rc<Place>)>,
    by_place: HashMap<Rc<Place>, u64>,
    /// The bytes of all keys.
    bytes: usize,
    /// Keys that expire from this time on, in microseconds since 1970, may be missing.
    until_us: u64,
    /// Which keys, or all of a database, were written since the look through the databases began, if it is under way.
    written: Option<(HashSet<Place>, HashSet<u16>)>,
}

impl Known {
    fn new() -> Known {
        Known {
            by_time: BTreeSet::new(),
            by_place: HashMap::new(),
            bytes: 0,
            until_us: u64::MAX,
            written: Some(Default::default()),
        }
    }

    fn set(&mut self, place: Place, expires_us: Option<u64>) {
        if let Some((place, before)) = self.by_place.remove_entry(&place) {
            self.bytes -= place.1.len();
            self.by_time.remove(&(before, place));
        }
        let Some(expires_us) = expires_us.filter(|us| *us < self.until_us) else { return };
        let place = Rc::new(place);
        self.by_place.insert(Rc::clone(&place), expires_us);
        self.bytes += place.1.len();
        self.by_time.insert((expires_us, place));
        while (self.by_place.len() > KEPT || self.bytes > BYTES_KEPT)
            && let Some((last_us, place)) = self.by_time.pop_last()
        {
            self.by_place.remove(&place);
            self.bytes -= place.1.len();
            self.until_us = last_us;
        }
    }

    /// Takes out the key that expires first, if it has expired.
    fn take_due(&mut self, now_us: u64) -> Option<Rc<Place>> {
        if self.by_time.first().is_none_or(|(us, _)| *us > now_us) {
            return None;
        }
        let (_, place) = self.by_time.pop_first()?;
        self.by_place.remove(&place);
        self.bytes -= place.1.len();
        Some(place)
    }

    fn forget_all(&mut self, database: u16) {
        self.by_time.retain(|(_, place)| place.0 != database);
        self.by_place.retain(|place, _| place.0 != database);
        self.bytes = self.by_place.keys().map(|place| place.1.len()).sum();
    }

    /// When there is something to do.
    fn next_us(&self) -> Option<u64> {
        let first_us = self.by_time.first().map_or(u64::MAX, |(us, _)| *us);
        Some(first_us.min(self.until_us)).filter(|us| *us < u64::MAX)
    }
}

impl Expiries {
    /// Notes what was committed.
    pub(crate) fn note(&self, writes: &Writes) {
        let mut known = self.known.borrow_mut();
        let Some(known) = known.as_mut() else { return };
        let next_us = known.next_us();
        for slot in writes.cleared().iter().filter(|slot| slot.space == Space::Keys) {
            known.forget_all(slot.database);
            if let Some((_, cleared)) = &mut known.written {
                cleared.insert(slot.database);
            }
        }
        for (database, key, op) in writes.key_ops() {
            let place = (database, key.to_vec());
            if let Some((written, _)) = &mut known.written {
                written.insert(place.clone());
            }
            let expires_us = if let Op::Put(Entry { expires_us, .. }) = op { *expires_us } else { None };
            known.set(place, expires_us);
        }
        if known.next_us() != next_us {
            self.changed.notify_one();
        }
    }

    fn next_us(&self) -> Option<u64> {
        self.known.borrow().as_ref().and_then(Known::next_us)
    }

    /// Whether the databases have to be looked through.
    fn has_to_look(&self, now_us: u64) -> bool {
        self.known.borrow().as_ref().is_none_or(|known| known.until_us <= now_us)
    }

    /// Takes out keys that have expired.
    fn take_due(&self, now_us: u64) -> Vec<Rc<Place>> {
        let mut known = self.known.borrow_mut();
        let Some(known) = known.as_mut() else { return Vec::new() };
        std::iter::from_fn(|| known.take_due(now_us)).take(TOLD_AT_ONCE).collect()
    }

    /// Adds what a look through the databases has found.
    fn add(&self, found: Found) {
        let mut known = self.known.borrow_mut();
        let Some(known) = known.as_mut() else { return };
        let (written, cleared) = known.written.take().unwrap_or_default();
        known.until_us = known.until_us.min(found.until_us);
        for (expires_us, place) in found.places {
            if !written.contains(&place) && !cleared.contains(&place.0) {
                known.set(place, Some(expires_us));
            }
        }
    }
}

/// What a look through the databases has found: keys, and the time from which on some may be missing.
struct Found {
    places: BTreeSet<(u64, Place)>,
    until_us: u64,
}

/// Looks for the keys that expire next.
fn look(trees: &Trees, snapshot: &esker::Snapshot) -> esker::Result<Found> {
    let mut found = Found { places: BTreeSet::new(), until_us: u64::MAX };
    let mut bytes = 0;
    for database in 0..trees.count() {
        let Some(tree) = trees.keys(database) else { continue };
        if let Some(Some(expires_us)) = trees.empty_key(database, Some(snapshot))?
            && expires_us < found.until_us
        {
            found.places.insert((expires_us, (database, Vec::new())));
        }
        let mut scan = snapshot.scan(tree, ScanRange::all())?;
        while scan.advance()? {
            let Some(expires_us) = scan.expires_us().filter(|us| *us < found.until_us) else { continue };
            bytes += scan.key().len();
            found.places.insert((expires_us, (database, scan.key().to_vec())));
            while (found.places.len() > KEPT || bytes > BYTES_KEPT)
                && let Some((last_us, (_, key))) = found.places.pop_last()
            {
                bytes -= key.len();
                found.until_us = last_us;
            }
        }
    }
    Ok(found)
}

/// Tells of keys when they expire, for ever.
pub(crate) async fn tell(server: Rc<Server>) {
    let expiries = &server.expiries;
    loop {
        let is_asked = server.settings.borrow().wants(Class::Expired) != (false, false);
        if !is_asked {
            expiries.known.take();
            expiries.changed.notified().await;
            continue;
        }
        if expiries.has_to_look(server.now_us()) {
            *expiries.known.borrow_mut() = Some(Known::new());
            let (snapshot, trees) = (server.db.snapshot(), Arc::clone(&server.trees));
            match server.pool.run(move || look(&trees, &snapshot)).await.and_then(|found| found) {
                Ok(found) => expiries.add(found),
                // What cannot be read now is asked for again.
                Err(error) => {
                    server.reports.failure("look for keys that expire", &error);
                    expiries.known.take();
                    tokio::time::sleep(LOOK_AGAIN).await;
                    continue;
                }
            }
        }
        loop {
            let due = expiries.take_due(server.now_us());
            if due.is_empty() {
                break;
            }
            for place in due {
                let (database, key) = (place.0, place.1.clone());
                server.publish_event(&Event { database, class: Class::Expired, name: "expired", key });
            }
            tokio::task::yield_now().await;
        }
        let wait = async {
            match expiries.next_us() {
                // The timer has whole milliseconds.
                Some(us) => {
                    let left_us = us.saturating_sub(server.now_us());
                    tokio::time::sleep(Duration::from_micros(left_us + 1)).await;
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = wait => {}
            () = expiries.changed.notified() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_long_keys_few_are_remembered() {
        let key = |i: u64| (0, [&i.to_be_bytes()[..], &[0; 100_000]].concat());
        let (mut known, count) = (Known::new(), (BYTES_KEPT / 100_008) as u64);
        // The later ones come first, and some twice.
        for i in (0..count + 50).rev().chain(0..10) {
            known.set(key(i), Some(1000 + i));
        }
        assert_eq!((known.by_place.len() as u64, known.until_us), (count, 1000 + count));
        known.set(key(0), None);
        assert!(known.take_due(1000).is_none());
        assert_eq!(known.take_due(1001).map(|place| place.1.clone()), Some(key(1).1));
        assert_eq!(known.bytes as u64, (count - 2) * 100_008);
        known.forget_all(0);
        assert_eq!((known.bytes, known.by_place.len(), known.by_time.len()), (0, 0, 0));
    }
}
