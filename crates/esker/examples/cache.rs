//! A cache on disk whose entries expire: what is slow to make is made once, kept for some time, and is there after a
//! restart.
//!
//! `cargo run --example cache`

use std::cell::Cell;
use std::time::Duration;

use esker::{Db, Options, Result, ScanRange, Tree};

/// Pages by user and name, each kept for some time.
struct Pages {
    tree: Tree,
    kept_for: Duration,
}

impl Pages {
    /// The page from the cache, or else by `make`, which may take its time.
    fn get(&self, user: &str, name: &str, make: impl FnOnce() -> String) -> Result<String> {
        let key = format!("{user}/{name}");
        if let Some(page) = self.tree.get_vec(&key)? {
            return Ok(String::from_utf8_lossy(&page).into_owned());
        }
        // Two that miss at once both make it, and the later one stays: in a cache that does no harm.
        let page = make();
        self.tree.put_for(&key, &page, self.kept_for)?;
        Ok(page)
    }

    /// All pages of a user go: one write, however many there are.
    fn forget(&self, user: &str) -> Result<()> {
        self.tree.delete_range(ScanRange::prefix(format!("{user}/")))
    }
}

/// What the example shows.
pub(crate) fn main() -> std::io::Result<()> {
    let dir = tempfile::tempdir()?;
    // A cache can be lost: the default durability, which costs no sync, is right. The memory is for all of the store.
    let db = Db::open(dir.path().join("cache.db"), Options::default().memory_budget(64 << 20))?;
    let pages = Pages { tree: db.tree("pages")?, kept_for: Duration::from_secs(3600) };

    let made = Cell::new(0);
    let make = || {
        made.set(made.get() + 1);
        format!("page number {}", made.get())
    };
    assert_eq!(pages.get("ann", "news", make)?, "page number 1");
    assert_eq!(pages.get("ann", "news", make)?, "page number 1", "from the cache");

    // When it expires is told by what was found, in microseconds since 1970.
    let found = pages.tree.get("ann/news")?.and_then(|page| Some((page.stored_us()?, page.expires_us()?)));
    println!("stored and gone at: {found:?}");

    // What is kept for no time at all is gone at once.
    let brief = Pages { tree: db.tree("brief")?, kept_for: Duration::ZERO };
    assert_eq!(brief.get("ann", "clock", make)?, "page number 2");
    assert_eq!(brief.get("ann", "clock", make)?, "page number 3");

    pages.get("bob", "news", make)?;
    pages.forget("ann")?;
    assert_eq!(pages.get("ann", "news", make)?, "page number 5", "made again");
    assert_eq!(pages.get("bob", "news", make)?, "page number 4", "his was left");
    println!("{} pages made", made.get());
    Ok(db.close()?)
}
