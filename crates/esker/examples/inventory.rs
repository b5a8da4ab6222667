//! A shop's inventory in Esker: trees, atomic batches, snapshots, scans, a counter.
//!
//! `cargo run --example inventory`

use esker::{Batch, Db, Options, Result, ScanRange, Tree, keys};

/// Moves `count` pieces of an article from the shelf to an order: both trees change, or neither.
fn order(db: &Db, shelf: &Tree, orders: &Tree, number: u64, article: &str, count: u32) -> Result<bool> {
    let left = shelf.get_vec(article)?.map_or(Ok(0), |value| keys::decode_u32(&value))?;
    if left < count {
        return Ok(false);
    }
    let mut batch = Batch::new();
    batch.put(shelf, article, keys::u32(left - count))?;
    batch.put(orders, keys::u64(number), format!("{count} x {article}"))?;
    db.write(&batch)?;
    Ok(true)
}

/// What the example shows.
pub(crate) fn main() -> std::io::Result<()> {
    let dir = tempfile::tempdir()?;
    let db = Db::open(dir.path().join("inventory.db"), Options::default())?;
    let (shelf, orders) = (db.tree("shelf")?, db.tree("orders")?);

    for (article, count) in [("apple", 120), ("apricot", 40), ("banana", 75)] {
        shelf.put(article, keys::u32(count))?;
    }
    // A snapshot sees the store as it is now, whatever happens next.
    let morning = db.snapshot();

    // A counter that any number of threads may draw from: no number is given out twice.
    let next = |old: Option<&[u8]>| {
        let last = old.and_then(|old| keys::decode_u64(old).ok()).unwrap_or(0);
        Some(keys::u64(last + 1).to_vec())
    };
    for (article, count) in [("apple", 20), ("banana", 80), ("apricot", 5)] {
        let number = db.default_tree().update("last order", next)?.unwrap_or_default();
        let done = order(&db, &shelf, &orders, keys::decode_u64(&number)?, article, count)?;
        println!("{count} x {article}: {}", if done { "ordered" } else { "not enough left" });
        assert_eq!(done, article != "banana");
    }

    // Keys are sorted: everything that begins with "ap", in order.
    for pair in shelf.scan(ScanRange::prefix("ap"))? {
        let (article, count) = pair?;
        println!("{} left: {}", String::from_utf8_lossy(&article), keys::decode_u32(&count)?);
    }
    // Numbers encoded by `keys` sort as numbers do: the newest order first.
    for pair in orders.scan(ScanRange::all().reverse())? {
        let (number, text) = pair?;
        println!("order {}: {}", keys::decode_u64(&number)?, String::from_utf8_lossy(&text));
    }
    let apples = morning.get_vec(&shelf, "apple")?.map_or(Ok(0), |value| keys::decode_u32(&value))?;
    println!("apples this morning: {apples}");
    let now = shelf.get_vec("apple")?.map_or(Ok(0), |value| keys::decode_u32(&value))?;
    assert_eq!((apples, now), (120, 100));
    assert_eq!(orders.count(ScanRange::all())?, 2);

    // What was acknowledged survives this process; after `sync` it survives a power cut too.
    db.sync()?;
    db.close()?;
    Ok(())
}
