//! Whether a store holds what it may: at one moment of it, found after a crash, in a copy, or amid the load.
//!
//! ```text
//! heads, volatile heads    how far each writer came: between what was acknowledged and what was begun
//! keys of each writer      exactly what its operations so far have made, or up to three single calls more
//! heads, what they saw     whatever another writer had been told before is there too: the store is a prefix
//! accounts                 exactly what all transfers so far have made; so their sum is what it was at first
//! bulk, its copy           whole generations
//! ```

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use esker::{Db, Scan, ScanRange, Snapshot, Tree};

use crate::board::{ACTORS, Reading, Word};
use crate::plan::{ACCOUNTS, Actor, Entry, FAMILIES, Head, Knobs, Lives, Model, START, VOLATILE, WRITERS};
use crate::plan::{is_carrier, words_of, writer_of};
use crate::store::{BANK, BULK, BULK_KEYS, COPY, HEADS, Routes, SHARED};
use crate::store::{account_key, bulk_key, bulk_value, head_key, volatile_head_key};

/// How far the store's clock may be from this one when a value expires.
const CLOCK_SLACK_US: u64 = 2_000_000;

pub(crate) type Outcome<T> = Result<T, String>;

/// Between which operations each actor must be found, and which generations of the bulk.
#[derive(Debug, Clone)]
pub(crate) struct Bounds {
    pub(crate) least: [u64; ACTORS],
    pub(crate) most: [u64; ACTORS],
    pub(crate) bulk_least: u64,
    pub(crate) bulk_most: u64,
    /// Not after the moment that is judged, in microseconds since 1970: what had expired by then is absent.
    pub(crate) from_us: u64,
}

/// What may have ended the life that is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The process died: all that was acknowledged is there, but for trees without a log.
    Kill,
    /// So did the power, or what is looked at is a copy that was.
    Power,
    /// Nothing: it was closed, or is looked at while it is open.
    None,
}

impl Bounds {
    /// What `before` says was acknowledged must be there, and nothing that `after` does not say was begun.
    pub(crate) fn new(end: End, before: &Reading, after: &Reading) -> Bounds {
        let (acked, durable) = (before.of(Word::Acked), before.of(Word::Durable));
        let is_safe = |slot| end == End::None || (end == End::Kill && slot < WRITERS);
        Bounds {
            least: std::array::from_fn(|slot| if is_safe(slot) { acked[slot] } else { durable[slot] }),
            most: after.of(Word::Begun),
            bulk_least: before.get(Word::IngestAcked),
            bulk_most: after.get(Word::IngestBegun),
            from_us: now_us(),
        }
    }
}

pub(crate) fn now_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_micros() as u64
}

pub(crate) fn new_models(knobs: Knobs) -> Vec<Model> {
    (0..ACTORS).map(|slot| Model::new(knobs, Actor::of(slot))).collect()
}

/// A value, and when it expires.
type Found = (Vec<u8>, Option<u64>);
type Pairs = BTreeMap<Vec<u8>, Found>;
/// By family and key.
type OfWriter<'a> = BTreeMap<(usize, Vec<u8>), &'a Found>;

fn read(mut scan: Scan, pairs: &mut Pairs) -> esker::Result<usize> {
    let mut count = 0;
    while scan.advance()? {
        let expires_us = scan.expires_us();
        let (key, value) = scan.pair()?;
        pairs.insert(key.to_vec(), (value.to_vec(), expires_us));
        count += 1;
    }
    Ok(count)
}

/// All that `tree` holds at the moment, read forwards; backwards its keys have to be the same.
fn read_tree(snapshot: &Snapshot, tree: &Tree, pairs: &mut Pairs) -> Outcome<()> {
    let fault = |what: &str, error: esker::Error| format!("{what} of \"{}\": {error}", tree.name());
    let mut forwards = Pairs::new();
    let from_us = now_us();
    let scan = snapshot.scan(tree, ScanRange::all()).map_err(|e| fault("a scan", e))?;
    let count = read(scan, &mut forwards).map_err(|e| fault("a scan", e))?;
    if count != forwards.len() {
        return Err(format!("a scan of \"{}\" has a key twice", tree.name()));
    }
    let mut keys = forwards.keys().rev();
    let mut scan = snapshot
        .scan(tree, ScanRange::all().keys_only().reverse())
        .map_err(|e| fault("a scan backwards", e))?;
    while scan.advance().map_err(|e| fault("a scan backwards", e))? {
        if keys.next().is_none_or(|key| key != scan.key()) {
            let key = scan.key().escape_ascii();
            return Err(format!("a scan backwards of \"{}\" differs at \"{key}\" ({from_us})", tree.name()));
        }
    }
    if let Some(key) = keys.next() {
        return Err(format!("a scan backwards of \"{}\" lacks \"{}\"", tree.name(), key.escape_ascii()));
    }
    pairs.extend(forwards);
    Ok(())
}

/// The first difference between what a writer's keys must hold and what they hold.
fn difference(model: &Model, found: &OfWriter<'_>, from_us: u64) -> Option<String> {
    let now = now_us();
    let name = |(family, key): &(usize, Vec<u8>)| format!("{} \"{}\"", FAMILIES[*family], key.escape_ascii());
    for (key, entry) in &model.entries {
        match found.get(key) {
            None => match entry.expires_us {
                Some(at) if at <= now + CLOCK_SLACK_US => {}
                _ => return Some(format!("{} is absent, not {}", name(key), shown(entry))),
            },
            Some((value, expires_us)) => {
                if !entry.content.matches(value) {
                    let len = value.len();
                    return Some(format!("{} has {len} other bytes than {}", name(key), shown(entry)));
                }
                if *expires_us != entry.expires_us {
                    return Some(format!("{} expires at {expires_us:?}, not {}", name(key), shown(entry)));
                }
                if entry.expires_us.is_some_and(|at| at + CLOCK_SLACK_US < from_us) {
                    return Some(format!("{} should have expired", name(key)));
                }
            }
        }
    }
    let extra = found.keys().find(|key| !model.entries.contains_key(key));
    extra.map(|key| format!("{} is there and should be absent", name(key)))
}

fn shown(entry: &Entry) -> String {
    let until = entry.expires_us.map_or(String::new(), |at| format!(" until {at}"));
    match &entry.content {
        crate::plan::Content::Bytes { len, .. } => format!("its {len} bytes{until}"),
        other => format!("{other:?}{until}"),
    }
}

/// Looks at the whole store; `models` are where they were at some earlier moment, or at the beginning, and come out as what
/// was found.
pub(crate) fn judge(
    db: &Db,
    (snapshot, routes): (&Snapshot, &Routes),
    models: &mut [Model],
    lives: &Lives,
    bounds: &Bounds,
) -> Outcome<()> {
    let tree = |name: &str| db.open_tree(name).map_err(|error| format!("the tree \"{name}\": {error}"));
    let (mut families, mut heads, mut bank) =
        ([Pairs::new(), Pairs::new(), Pairs::new()], Pairs::new(), Pairs::new());
    for (family, parts) in routes.parts.iter().enumerate() {
        for (_, part) in parts {
            read_tree(snapshot, part, &mut families[family])?;
        }
    }
    for (name, pairs) in [(HEADS, &mut heads), (BANK, &mut bank)] {
        if let Some(tree) = tree(name)? {
            read_tree(snapshot, &tree, pairs)?;
        }
    }
    let saw = judge_actors(&families, &heads, models, lives, bounds)?;
    for (slot, head) in saw.iter().enumerate() {
        let Some(head) = head else { continue };
        for (other, &least) in head.saw.iter().enumerate() {
            let model = &models[if slot < WRITERS { other } else { WRITERS + other }];
            if model.n < least {
                let at = (&models[slot].actor, head.n, &model.actor, model.n);
                return Err(format!(
                    "no prefix: {:?} is there up to {}, {:?} only to {} of {least}",
                    at.0, at.1, at.2, at.3
                ));
            }
        }
    }
    judge_bank(&bank, models)?;
    if let Some(tree) = tree(BULK)? {
        judge_bulk(snapshot, &tree, models[0].knobs, bounds.bulk_least..=bounds.bulk_most)?;
    } else if bounds.bulk_least > 0 {
        return Err("what was ingested is gone, with its tree".to_owned());
    }
    Ok(())
}

/// Finds how far each actor came; returns the heads.
fn judge_actors(
    families: &[Pairs; 3],
    heads: &Pairs,
    models: &mut [Model],
    lives: &Lives,
    bounds: &Bounds,
) -> Outcome<Vec<Option<Head>>> {
    let shared = heads.get(SHARED.as_bytes()).map(|(value, _)| value.as_slice()).unwrap_or_default();
    let counts = words_of(shared).filter(|words| words.len() == WRITERS).unwrap_or(vec![0; WRITERS]);
    let mut saw = Vec::new();
    for (slot, model) in models.iter_mut().enumerate() {
        let actor = Actor::of(slot);
        let head = match actor.is_volatile {
            true => families[VOLATILE].get(volatile_head_key(actor.writer).as_bytes()),
            false => heads.get(head_key(actor.writer).as_bytes()),
        };
        let head = head.map(|(value, _)| Head::decode(value).ok_or(format!("{actor:?}: its head is none")));
        let head = head.transpose()?;
        let n = head.map_or(0, |head| head.n);
        if let Some(head) = head.filter(|head| head.life != lives.of(actor, head.n)) {
            return Err(format!(
                "{actor:?}: {head:?} is of a life that the crash ended, not {}",
                lives.of(actor, n)
            ));
        }
        if n > bounds.most[slot] {
            return Err(format!("{actor:?}: its operation {n} is there, begun were {}", bounds.most[slot]));
        }
        if n < model.n {
            *model = Model::new(model.knobs, actor);
        }
        let mut found = OfWriter::new();
        for (family, pairs) in
            families.iter().enumerate().filter(|(at, _)| (*at == VOLATILE) == actor.is_volatile)
        {
            for (key, value) in pairs.iter().filter(|(key, _)| writer_of(key) == Some(actor.writer)) {
                found.insert((family, key.clone()), value);
            }
        }
        let count = if actor.is_volatile { 0 } else { counts[actor.writer] };
        *model = furthest(model.clone(), (n, bounds.most[slot]), lives, |at| {
            if at.count != count {
                return Some(format!("it has counted {}, not {count}", at.count));
            }
            difference(at, &found, bounds.from_us)
        })?;
        if model.n < bounds.least[slot] {
            let (found, least) = (model.n, bounds.least[slot]);
            return Err(format!("{actor:?}: lost: it is at {found}, {least} were promised"));
        }
        saw.push(head);
    }
    Ok(saw)
}

/// The model at the last operation from the head's on at which it fits what was found.
fn furthest(
    mut model: Model,
    (head, most): (u64, u64),
    lives: &Lives,
    difference: impl Fn(&Model) -> Option<String>,
) -> Outcome<Model> {
    if model.n > head {
        model = Model::new(model.knobs, model.actor);
    }
    model.advance_to(head, lives);
    let mut last = None;
    let mut why = Vec::new();
    loop {
        match difference(&model) {
            None => last = Some(model.clone()),
            Some(what) => why.push(format!("after {}: {what}", model.n)),
        }
        if model.n >= most || is_carrier(&model.knobs, model.actor, model.n + 1, lives) {
            break;
        }
        let op = model.advance(lives);
        why.push(format!("[{}: {op:?}]", model.n));
    }
    last.ok_or_else(|| format!("{:?}: wrong at head {head}, begun {most}: {}", model.actor, why.join("; ")))
}

fn judge_bank(bank: &Pairs, models: &[Model]) -> Outcome<()> {
    let moved = |account: usize| models.iter().map(|model| model.moved[account]).sum::<i64>();
    for account in 0..ACCOUNTS {
        let found = bank.get(account_key(account).as_bytes());
        let found = match found {
            Some((value, _)) => i64::from_le_bytes(value.as_slice().try_into().map_err(|_| "no balance")?),
            // Before they were opened.
            None if bank.is_empty() => START,
            None => return Err(format!("account {account} is gone")),
        };
        if found != START + moved(account) {
            let positions: Vec<u64> = models.iter().map(|model| model.n).collect();
            let right = START + moved(account);
            return Err(format!("account {account} has {found}, not {right}; writers are at {positions:?}"));
        }
    }
    Ok(())
}

/// One generation, whole.
pub(crate) fn judge_bulk(
    snapshot: &Snapshot,
    tree: &Tree,
    knobs: Knobs,
    allowed: std::ops::RangeInclusive<u64>,
) -> Outcome<u64> {
    let mut pairs = Pairs::new();
    read_tree(snapshot, tree, &mut pairs)?;
    let first =
        pairs.values().next().map_or(0, |(value, _)| words_of(&value[..8]).map_or(0, |words| words[0]));
    if !allowed.contains(&first) {
        return Err(format!("\"{}\" is of generation {first}, allowed are {allowed:?}", tree.name()));
    }
    let expected = if first == 0 { 0 } else { BULK_KEYS };
    if pairs.len() as u64 != expected {
        return Err(format!("\"{}\" has {} pairs of generation {first}", tree.name(), pairs.len()));
    }
    for index in 0..expected {
        let right = bulk_value(&knobs, first, index);
        if pairs.get(bulk_key(index).as_bytes()).is_none_or(|(value, _)| *value != right) {
            return Err(format!(
                "\"{}\": pair {index} is not of generation {first} as the rest",
                tree.name()
            ));
        }
    }
    Ok(first)
}

/// Judges a store that nobody else has open, from the very beginning.
pub(crate) fn judge_alone(db: &Db, knobs: Knobs, lives: &Lives, bounds: &Bounds) -> Outcome<Vec<Model>> {
    let routes = Routes::read(db).map_err(|error| error.to_string())?;
    let mut models = new_models(knobs);
    let snapshot = db.snapshot();
    judge(db, (&snapshot, &routes), &mut models, lives, bounds)?;
    if let Some(copy) = db.open_tree(COPY).map_err(|error| error.to_string())? {
        judge_bulk(&snapshot, &copy, knobs, 0..=bounds.bulk_most)?;
    }
    Ok(models)
}
