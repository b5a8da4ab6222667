//! One operation on a session: what the store answers must be what the model says. The digest of the
//! answer is returned, for comparing histories.

use std::ops::Bound;
use std::sync::Arc;

use esker::env::Clock;
use esker::operators::APPEND;
use esker::{Batch, Durability, PutOptions, Swap, Tree, TxnOptions, Value};

use crate::common::{HourClock, Longest, ttl};
use crate::model::{Beside, Bytes, Content};
use crate::ops::{Exchange, Key, NewBeside, Op, Range, Recipe, TREES, Write};
use crate::session::{Check, OpenScan, Session, compare, digest, same};
use crate::values::{read, read_found};

/// Whether `range` has `key`.
pub(crate) fn is_in(range: &Range, key: &[u8]) -> bool {
    let above = match &range.lower {
        Bound::Included(lower) => key >= &**lower,
        Bound::Excluded(lower) => key > &**lower,
        Bound::Unbounded => true,
    };
    let below = match &range.upper {
        Bound::Included(upper) => key <= &**upper,
        Bound::Excluded(upper) => key < &**upper,
        Bound::Unbounded => true,
    };
    above && below
}

fn durability(power: bool) -> Durability {
    if power { Durability::Power } else { Durability::Process }
}

impl Session {
    fn expected(&self, tree: usize, key: &[u8]) -> Option<Bytes> {
        let model = &self.model;
        model.trees.get(TREES[tree]).and_then(|tree| tree.get(key, model.now))
    }

    pub(crate) fn note(&mut self, tree: usize, key: &Key, content: Option<Content>) {
        let oldest = self.oldest();
        self.model.write(&[(TREES[tree].to_owned(), Arc::clone(&key.0), content)], oldest);
    }

    /// The hour from which on something is gone that lives for some hours.
    pub(crate) fn until(&self, hours: Option<u64>) -> Option<u64> {
        hours.map(|hours| self.model.now.hour + hours)
    }

    /// The same as a time of the store's clock.
    fn us_of(&self, hours: Option<u64>) -> Option<u64> {
        let passed = HourClock::new(self.model.now.hour).wall_us();
        hours.map(|hours| passed + ttl(hours).as_micros() as u64)
    }

    /// Does `op` to the store and to the model.
    pub(crate) fn apply(&mut self, op: &Op) -> Check<u64> {
        match op {
            Op::Put { .. }
            | Op::Delete { .. }
            | Op::Batch { .. }
            | Op::Swap { .. }
            | Op::Exchange { .. }
            | Op::Update { .. }
            | Op::DeleteRange { .. }
            | Op::Merge { .. }
            | Op::Transfer { .. }
            | Op::PutOpts { .. }
            | Op::SetBeside { .. } => self.apply_write(op),
            Op::Get { .. }
            | Op::GetInto { .. }
            | Op::GetMany { .. }
            | Op::Contains { .. }
            | Op::Scan { .. }
            | Op::Count { .. } => self.apply_read(op),
            Op::OpenScan { .. }
            | Op::AdvanceScan { .. }
            | Op::CloseScan { .. }
            | Op::TakeSnapshot { .. }
            | Op::SnapshotGet { .. }
            | Op::SnapshotScan { .. }
            | Op::DropSnapshot { .. } => self.apply_moment(op),
            Op::OpenCursor { .. }
            | Op::MoveCursor { .. }
            | Op::RefreshCursor { .. }
            | Op::CloseCursor { .. }
            | Op::BothEnds { .. } => self.apply_cursor(op),
            Op::PutFrom { .. }
            | Op::BeginStream { .. }
            | Op::FeedStream { .. }
            | Op::EndStream { .. }
            | Op::Hold { .. }
            | Op::ReadHeld { .. }
            | Op::StreamHeld { .. }
            | Op::LetGo { .. } => self.apply_huge(op),
            Op::Txn { .. } | Op::Ingest { .. } | Op::Move { .. } => self.apply_whole(op),
            _ => self.apply_care(op).map(|()| 0),
        }
    }

    fn apply_write(&mut self, op: &Op) -> Check<u64> {
        match op {
            Op::Put { tree, key, value, power, hours } => {
                let Some(handle) = self.tree(*tree)? else { return Ok(0) };
                let value = value.bytes();
                match (hours, power) {
                    (Some(hours), _) => handle.put_for(&**key, &value, ttl(*hours))?,
                    (None, true) => handle.put_with(&**key, &value, Durability::Power)?,
                    (None, false) => handle.put(&**key, &value)?,
                }
                self.note(*tree, key, Some((value, self.until(*hours).into())));
            }
            Op::Delete { tree, key } => {
                let Some(handle) = self.tree(*tree)? else { return Ok(0) };
                handle.delete(&**key)?;
                self.note(*tree, key, None);
            }
            Op::Batch { writes, power, twice } => self.write_batch(writes, *power, *twice)?,
            Op::Swap { tree, key, right, new } => return self.swap(*tree, key, *right, *new),
            Op::Exchange { tree, key, how } => return self.exchange(*tree, key, *how),
            Op::Transfer { tree, from, to, keep } => return self.transfer(*tree, from, to, *keep),
            Op::PutOpts { tree, key, value, attributes, hours, how } => {
                self.put_opts((*tree, key), *value, *attributes, *hours, *how)?;
            }
            Op::SetBeside { tree, key, change } => return self.set_beside(*tree, key, *change),
            Op::DeleteRange { tree, range, around } => self.delete_range(*tree, range, around.as_ref())?,
            Op::Merge { tree, key, longest, operands } => self.merge(*tree, key, *longest, operands)?,
            Op::Update { tree, key, longest } => return self.update(*tree, key, *longest as usize),
            _ => {}
        }
        Ok(0)
    }

    fn write_batch(&mut self, writes: &[Write], power: bool, twice: bool) -> Check<()> {
        let mut batch = Batch::new();
        let mut noted = Vec::new();
        for (tree, key, value, hours) in writes {
            let Some(handle) = self.tree(*tree)? else { continue };
            let value = value.map(Recipe::bytes);
            match (&value, hours) {
                (Some(value), None) => batch.put(&handle, &**key, value)?,
                (Some(value), Some(hours)) => batch.put_for(&handle, &**key, value, ttl(*hours))?,
                (None, _) => batch.delete(&handle, &**key)?,
            }
            let content = value.map(|value| (value, self.until(*hours).into()));
            noted.push((TREES[*tree].to_owned(), Arc::clone(&key.0), content));
        }
        same!(batch.len(), noted.len(), "the length of the batch");
        self.db().write_with(&batch, durability(power))?;
        if twice {
            self.db().write(&batch)?;
        }
        let oldest = self.oldest();
        self.model.write(&noted, oldest);
        Ok(())
    }

    fn delete_range(&mut self, tree: usize, range: &Range, around: Option<&(Key, Recipe)>) -> Check<()> {
        let Some(handle) = self.tree(tree)? else { return Ok(()) };
        let scan_range = range.to_scan_range();
        let name = || TREES[tree].to_owned();
        let mut writes = Vec::new();
        let within = |key: &[u8]| is_in(range, key);
        let here = &self.model.trees[TREES[tree]];
        let gone = here.keys().filter(|key| within(key)).map(|key| (name(), Arc::clone(key), None));
        if let Some((key, value)) = around {
            // What was put before the deletion goes with it, what is put behind it stays.
            let value = value.bytes();
            let mut batch = Batch::new();
            batch.put(&handle, &**key, b"put before the deletion")?;
            batch.delete_range(&handle, &scan_range)?;
            batch.put(&handle, [&**key, b"x"].concat(), &value)?;
            writes.push((
                name(),
                Arc::clone(&key.0),
                Some((Arc::from(&b"put before the deletion"[..]), Beside::default())),
            ));
            writes.extend(gone);
            writes.extend(within(key).then(|| (name(), Arc::clone(&key.0), None)));
            writes.push((name(), Arc::from([&**key, b"x"].concat()), Some((value, Beside::default()))));
            self.db().write(&batch)?;
        } else {
            writes.extend(gone);
            handle.delete_range(&scan_range)?;
        }
        let oldest = self.oldest();
        self.model.write(&writes, oldest);
        Ok(())
    }

    fn merge(&mut self, tree: usize, key: &Key, longest: bool, operands: &[Recipe]) -> Check<()> {
        let Some(handle) = self.tree(tree)? else { return Ok(()) };
        let name = if longest { Longest::NAME } else { APPEND };
        let operands: Vec<Bytes> = operands.iter().map(|recipe| recipe.bytes()).collect();
        if let [operand] = operands.as_slice() {
            handle.merge(&**key, name, operand)?;
        } else {
            let mut batch = Batch::new();
            for operand in &operands {
                batch.merge(&handle, &**key, name, operand)?;
            }
            self.db().write(&batch)?;
        }
        let change = |value: Option<Bytes>| {
            let all = value.iter().chain(&operands);
            if longest {
                return all.max_by_key(|one| one.len()).cloned().unwrap_or_else(|| Arc::from(&[][..]));
            }
            Arc::from(all.flat_map(|one| one.iter().copied()).collect::<Vec<u8>>())
        };
        let oldest = self.oldest();
        self.model.merge((TREES[tree], &key.0), operands.len() as u64, change, oldest);
        Ok(())
    }

    fn swap(&mut self, tree: usize, key: &Key, right: bool, new: Option<Recipe>) -> Check<u64> {
        let Some(handle) = self.tree(tree)? else { return Ok(0) };
        let current = self.expected(tree, key);
        let other = match &current {
            Some(value) if value.is_empty() => None,
            Some(value) => Some(Arc::from(&value[1..])),
            None => Some(Arc::from(&[][..])),
        };
        let guess: Option<Bytes> = if right { current.clone() } else { other };
        let new = new.map(Recipe::bytes);
        match handle.compare_and_swap(&**key, guess.as_deref(), new.as_deref())? {
            Swap::Done => same!(true, right, "whether {key:?} was swapped"),
            Swap::Found(found) => {
                same!(false, right, "whether {key:?} was swapped");
                Session::same_value(found.as_ref(), current.as_ref(), key)?;
            }
        }
        if right {
            self.note(tree, key, new.map(|new| (new, Beside::default())));
        }
        Ok(digest(right))
    }

    /// Writes that return the value that the key had.
    fn exchange(&mut self, tree: usize, key: &Key, how: Exchange) -> Check<u64> {
        let Some(handle) = self.tree(tree)? else { return Ok(0) };
        let current = self.expected(tree, key);
        let result = digest(current.as_deref());
        match how {
            Exchange::Insert(new) => {
                let new = new.bytes();
                Session::same_value(handle.insert(&**key, &new)?.as_ref(), current.as_ref(), key)?;
                self.note(tree, key, Some((new, Beside::default())));
            }
            Exchange::Remove => {
                let was_there = current.is_some();
                Session::same_value(handle.remove(&**key)?.as_ref(), current.as_ref(), key)?;
                if was_there {
                    self.note(tree, key, None);
                }
            }
            Exchange::End { last, pop } => return self.look_at_end(&handle, tree, last, pop),
            Exchange::PutIfAbsent(new) => {
                let (new, is_absent) = (new.bytes(), current.is_none());
                Session::same_value(handle.put_if_absent(&**key, &new)?.as_ref(), current.as_ref(), key)?;
                if is_absent {
                    self.note(tree, key, Some((new, Beside::default())));
                }
            }
        }
        Ok(result)
    }

    fn look_at_end(&mut self, handle: &Tree, tree: usize, last: bool, pop: bool) -> Check<u64> {
        let model = self.model.trees.get(TREES[tree]);
        let pairs = model.map(|model| model.scan(&Range::all(), self.model.now)).unwrap_or_default();
        let expected = if last { pairs.last() } else { pairs.first() }.cloned();
        same!(handle.is_empty()?, pairs.is_empty(), "whether {:?} is empty", TREES[tree]);
        let found = match (last, pop) {
            (false, false) => handle.first()?,
            (true, false) => handle.last()?,
            (false, true) => handle.pop_first()?,
            (true, true) => handle.pop_last()?,
        };
        let read = match &found {
            Some((key, value)) => Some((key.clone(), read_found(Some(value))?.unwrap_or_default())),
            None => None,
        };
        let plain = expected.as_ref().map(|(key, value)| (key.to_vec(), value.to_vec()));
        same!(read, plain, "the pair at an end of {:?} (last {last}, taken out {pop})", TREES[tree]);
        if let Some((key, _)) = expected.filter(|_| pop) {
            self.note(tree, &Key(key), None);
        }
        Ok(digest(plain))
    }

    fn same_value(found: Option<&Value>, expected: Option<&Bytes>, key: &Key) -> Check<()> {
        let found = read_found(found)?;
        same!(found.as_deref(), expected.map(|bytes| &**bytes), "the value of {key:?} before a write");
        Ok(())
    }

    /// Puts a value with attributes: alone, in a batch, in a batch that was encoded, in a transaction, as a stream or in bulk.
    fn put_opts(
        &mut self,
        (tree, key): (usize, &Key),
        value: Recipe,
        attributes: Recipe,
        hours: Option<u64>,
        how: usize,
    ) -> Check<()> {
        let Some(handle) = self.tree(tree)? else { return Ok(()) };
        let (value, attributes) = (value.bytes(), attributes.bytes());
        let expires_us = self.us_of(hours);
        let options = PutOptions::default().expires_us(expires_us).attributes(&attributes);
        let mut batch = Batch::new();
        match how {
            0 => handle.put_opts(&**key, &value, &options)?,
            1 => {
                batch.put_opts(&handle, &**key, &value, &options)?;
                self.db().write(&batch)?;
            }
            2 if (value.len() as u64) < 2000 => {
                batch.put_opts(&handle, &**key, &value, &options)?;
                // A huge value would have to be staged.
                if let Ok(bytes) = batch.encode(|_| Some(7)) {
                    batch = Batch::decode(&bytes, |_| Some(handle.clone()))?;
                }
                self.db().write(&batch)?;
            }
            3 => {
                let txn = self.db().begin(TxnOptions::default())?;
                txn.put_opts(&handle, &**key, &value, &options)?;
                let seen = txn.get(&handle, &**key)?;
                same!(
                    seen.as_ref().map(Value::attributes),
                    Some(&attributes[..]),
                    "{key:?} in a transaction"
                );
                txn.commit()?;
            }
            4 if hours.is_none() => {
                let mut writer = handle.unnamed_writer()?;
                writer.add(&value)?;
                writer.set_key(&**key)?;
                writer.set_attributes(&attributes)?;
                writer.commit()?;
            }
            5 => {
                let mut ingest = handle.ingest()?;
                ingest.put_opts(&**key, &value, &options)?;
                ingest.commit()?;
            }
            _ => {
                let mut ingest = handle.ingest_unsorted()?;
                ingest.put_opts(&**key, &value, &options)?;
                ingest.commit()?;
            }
        }
        let beside = Beside { until: self.until(hours), attributes: attributes.to_vec() };
        self.note(tree, key, Some((value, beside)));
        Ok(())
    }

    fn set_beside(&mut self, tree: usize, key: &Key, change: NewBeside) -> Check<u64> {
        let Some(handle) = self.tree(tree)? else { return Ok(0) };
        let model = &self.model;
        let content = model.trees.get(TREES[tree]).and_then(|tree| tree.content(key, model.now));
        let done = match change {
            NewBeside::Hours(hours) => handle.set_expiry(&**key, self.us_of(hours))?,
            NewBeside::Attributes(attributes) => handle.set_attributes(&**key, attributes.bytes())?,
        };
        same!(done, content.is_some(), "whether {key:?} was there to be changed");
        if let Some((value, mut beside)) = content {
            match change {
                NewBeside::Hours(hours) => beside.until = self.until(hours),
                NewBeside::Attributes(attributes) => beside.attributes = attributes.bytes().to_vec(),
            }
            self.note(tree, key, Some((value, beside)));
        }
        Ok(digest(done))
    }

    fn transfer(&mut self, tree: usize, from: &Key, to: &Key, keep: bool) -> Check<u64> {
        let Some(handle) = self.tree(tree)? else { return Ok(0) };
        let model = &self.model;
        let content = model.trees.get(TREES[tree]).and_then(|tree| tree.content(from, model.now));
        let done = if keep { handle.copy(&**from, &**to)? } else { handle.rename(&**from, &**to)? };
        same!(done, content.is_some(), "whether {from:?} was transferred to {to:?}");
        if content.is_some() && from != to {
            self.note(tree, to, content);
            if !keep {
                self.note(tree, from, None);
            }
        }
        Ok(digest(done))
    }

    fn update(&mut self, tree: usize, key: &Key, longest: usize) -> Check<u64> {
        let Some(handle) = self.tree(tree)? else { return Ok(0) };
        let change = |old: Option<&[u8]>| match old {
            None => Some(vec![7]),
            Some(old) if old.len() >= longest => None,
            Some(old) => Some([old, &[old.len() as u8]].concat()),
        };
        let expected = change(self.expected(tree, key).as_deref());
        let got = handle.update(&**key, change)?;
        same!(got, expected, "what an update of {key:?} returns");
        self.note(tree, key, expected.map(|value| (Arc::from(value), Beside::default())));
        Ok(digest(got))
    }

    fn apply_read(&mut self, op: &Op) -> Check<u64> {
        match op {
            Op::Get { tree, key } => {
                let Some(handle) = self.tree(*tree)? else { return Ok(0) };
                let value = handle.get(&**key)?;
                let got = read_found(value.as_ref())?;
                let model = &self.model;
                let content = model.trees[TREES[*tree]].content(key, model.now);
                same!(got.as_deref(), content.as_ref().map(|(value, _)| &**value), "the value of {key:?}");
                let expires = value.as_ref().is_some_and(|value| value.expires_us().is_some());
                let beside = content.as_ref().map(|(_, beside)| beside);
                same!(
                    expires,
                    beside.is_some_and(|beside| beside.until.is_some()),
                    "whether {key:?} expires"
                );
                same!(
                    value.as_ref().map(Value::attributes),
                    beside.map(|beside| &beside.attributes[..]),
                    "the attributes of {key:?}"
                );
                same!(
                    handle.metadata(&**key)?,
                    value.as_ref().map(Value::metadata),
                    "what is known of {key:?}"
                );
                same!(handle.get_with(&**key, <[u8]>::to_vec)?, got, "{key:?} lent");
                let lent = handle.get_lent(&**key, |lent| {
                    let bytes = lent.bytes.map(<[u8]>::to_vec);
                    (bytes, lent.expires_us, lent.attributes.to_vec())
                })?;
                let expected = value.as_ref().zip(got.as_ref()).map(|(value, got)| {
                    // A huge value is not lent.
                    let bytes = value.stored_us().is_none().then(|| got.clone());
                    (bytes, value.expires_us(), value.attributes().to_vec())
                });
                same!(lent, expected, "{key:?} lent with what is beside it");
                same!(handle.get_pinned(&**key)?.as_deref(), got.as_deref(), "{key:?} pinned");
                return Ok(digest(got));
            }
            Op::GetInto { tree, key } => {
                let Some(handle) = self.tree(*tree)? else { return Ok(0) };
                let mut buf = b"left over".to_vec();
                let found = handle.get_into(&**key, &mut buf)?;
                same!(found.then_some(&*buf), self.expected(*tree, key).as_deref(), "the value of {key:?}");
                same!(found || buf.is_empty(), true, "a buffer without a value is empty");
                return Ok(digest(buf));
            }
            Op::GetMany { tree, keys } => {
                let Some(handle) = self.tree(*tree)? else { return Ok(0) };
                let got = handle.get_many(keys.iter().map(|key| &**key))?;
                let expected: Vec<Option<Bytes>> = keys.iter().map(|key| self.expected(*tree, key)).collect();
                let got: Vec<_> = got.iter().map(|value| read_found(value.as_ref())).collect::<Check<_>>()?;
                let got: Vec<_> = got.iter().map(Option::as_deref).collect();
                same!(
                    got,
                    expected.iter().map(Option::as_deref).collect::<Vec<_>>(),
                    "the values of {keys:?}"
                );
                return Ok(digest(got));
            }
            Op::Contains { tree, key } => {
                let Some(handle) = self.tree(*tree)? else { return Ok(0) };
                let got = handle.contains(&**key)?;
                same!(got, self.expected(*tree, key).is_some(), "whether {key:?} is there");
                return Ok(digest(got));
            }
            Op::Scan { tree, range, copies } => {
                let Some(handle) = self.tree(*tree)? else { return Ok(0) };
                return self.scan(&handle, TREES[*tree], range, *copies);
            }
            Op::Count { tree, range } => {
                let Some(handle) = self.tree(*tree)? else { return Ok(0) };
                let got = handle.count(range.to_scan_range())?;
                let expected = self.model.trees[TREES[*tree]].scan(range, self.model.now).len() as u64;
                same!(got, expected, "how many keys are in {range:?}");
                handle.approximate_count(range.to_scan_range())?;
                let about = handle.approximate_count(Range::all().to_scan_range())?;
                let all = self.model.trees[TREES[*tree]].len(self.model.now) as u64;
                same!(about >= all, true, "{all} keys are there, about {about} are estimated");
                return Ok(digest(got));
            }
            _ => {}
        }
        Ok(0)
    }

    fn scan(&self, handle: &Tree, name: &str, range: &Range, copies: bool) -> Check<u64> {
        let expected = self.model.trees[name].scan(range, self.model.now);
        let mut scan = handle.scan(range.to_scan_range())?;
        if copies {
            let got: Vec<(Vec<u8>, Vec<u8>)> = scan.collect::<esker::Result<_>>()?;
            let equal = got.len() == expected.len()
                && got
                    .iter()
                    .zip(&expected)
                    .all(|(got, expected)| *got.0 == *expected.0 && *got.1 == *expected.1);
            same!(equal, true, "{} pairs in {range:?}, {} expected", got.len(), expected.len());
        } else {
            compare(&mut scan, &mut expected.iter().cloned(), usize::MAX)?;
        }
        Ok(digest(&expected))
    }

    /// Operations on snapshots and on scans that stay open.
    fn apply_moment(&mut self, op: &Op) -> Check<u64> {
        match op {
            Op::OpenScan { slot, tree, range, snapshot } => {
                let Some(handle) = self.tree(*tree)? else { return Ok(0) };
                let snapshot = snapshot.and_then(|slot| self.snapshots[slot].clone());
                let at = snapshot.as_ref().map_or(self.model.now, |(_, at)| *at);
                let scan = match &snapshot {
                    Some((snapshot, _)) => snapshot.scan(&handle, range.to_scan_range())?,
                    None => handle.scan(range.to_scan_range())?,
                };
                let expected = self.model.trees[TREES[*tree]].scan(range, at).into_iter();
                self.scans[*slot] = Some(OpenScan { scan, expected, keeps_snapshot: snapshot.is_some() });
            }
            Op::AdvanceScan { slot, steps } => {
                if let Some(OpenScan { scan, expected, .. }) = &mut self.scans[*slot] {
                    let ended = compare(scan, expected, *steps as usize)?;
                    return Ok(digest((ended, scan.pair()?)));
                }
            }
            Op::CloseScan { slot } => self.scans[*slot] = None,
            Op::TakeSnapshot { slot } => {
                self.snapshots[*slot] = Some((self.db().snapshot(), self.model.now));
            }
            Op::SnapshotGet { slot, tree, key } => {
                let Some(handle) = self.tree(*tree)? else { return Ok(0) };
                let Some((snapshot, at)) = &self.snapshots[*slot] else { return Ok(0) };
                let got = read_found(snapshot.get(&handle, &**key)?.as_ref())?;
                let expected = self.model.trees[TREES[*tree]].get(key, *at);
                same!(got.as_deref(), expected.as_deref(), "{key:?} in snapshot {slot}");
                same!(
                    snapshot.contains(&handle, &**key)?,
                    got.is_some(),
                    "contains {key:?} in snapshot {slot}"
                );
                let mut buf = b"left over".to_vec();
                let found = snapshot.get_into(&handle, &**key, &mut buf)?;
                same!(found.then_some(&*buf), got.as_deref(), "{key:?} of snapshot {slot} in a buffer");
                let lent = snapshot.get_with(&handle, &**key, <[u8]>::to_vec)?;
                same!(lent, got, "{key:?} lent by snapshot {slot}");
                let pinned = snapshot.get_pinned(&handle, &**key)?;
                same!(pinned.as_deref(), got.as_deref(), "{key:?} pinned in snapshot {slot}");
                let many = snapshot.get_many(&handle, [&**key])?;
                same!(read_found(many[0].as_ref())?, got, "{key:?} of several in snapshot {slot}");
                return Ok(digest(got));
            }
            Op::SnapshotScan { slot, tree, range } => {
                let Some(handle) = self.tree(*tree)? else { return Ok(0) };
                let Some((snapshot, at)) = &self.snapshots[*slot] else { return Ok(0) };
                let expected = self.model.trees[TREES[*tree]].scan(range, *at);
                let mut scan = snapshot.scan(&handle, range.to_scan_range())?;
                compare(&mut scan, &mut expected.iter().cloned(), usize::MAX)?;
                let count = snapshot.count(&handle, range.to_scan_range())?;
                same!(count, expected.len() as u64, "the count of {range:?} in snapshot {slot}");
                let all = self.model.trees[TREES[*tree]].scan(&Range::all(), *at);
                let pair = |end: Option<(Vec<u8>, Value)>| -> Check<_> {
                    end.map(|(key, value)| Ok((key.into(), read(&value)?.into()))).transpose()
                };
                same!(
                    pair(snapshot.first(&handle)?)?.as_ref(),
                    all.first(),
                    "the first pair of snapshot {slot}"
                );
                same!(
                    pair(snapshot.last(&handle)?)?.as_ref(),
                    all.last(),
                    "the last pair of snapshot {slot}"
                );
                same!(snapshot.is_empty(&handle)?, all.is_empty(), "whether snapshot {slot} is empty");
                return Ok(digest(&expected));
            }
            Op::DropSnapshot { slot } => self.snapshots[*slot] = None,
            _ => {}
        }
        Ok(0)
    }
}
