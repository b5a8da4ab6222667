//! How often Esker's filters are wrong: asked for keys that lie between those of a store of u64 keys.

use crate::args::Args;
use crate::stores::Result;
use esker::{Db, Options};

pub(crate) fn run(args: &Args) -> Result<()> {
    let path = args.file.as_ref().ok_or("probe needs the directory of a store")?;
    let db = Db::open_read_only(path, Options::default())?;
    let tree = db.default_tree();
    let (mut asked, mut passed) = (0, 0);
    let mut rng = test_kit::Rng::new(args.seed);
    for _ in 0..args.n {
        // The ninth byte makes a key that no store of 8-byte keys holds.
        let number = rng.below(25_000_000).to_be_bytes();
        let key = [&number[..], &[7]].concat();
        let (tables, let_through) = tree.filter_probe(&key)?;
        asked += tables;
        passed += let_through;
    }
    println!(
        "{passed} of {asked} filters asked for absent keys were wrong: {:.2} %",
        passed as f64 * 100.0 / asked.max(1) as f64
    );
    Ok(())
}
