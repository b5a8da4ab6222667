//! The prefixes of the cursors of `SCAN` and the like, as the store keeps them: in the tree `default.cursors`.
//!
//! ```text
//! number, 4 bytes, big-endian -> the prefix
//! ```
//! A number never means another prefix, so a write of one is synced, and the newest one is never deleted.

use std::sync::Arc;

use esker::{Batch, ErrorKind, ScanRange};
use esker_journal::Journal;
use esker_redis::{Cursors, Keeper};

pub(crate) const TREE: &str = "default.cursors";

/// The tag of the tree: what lies in it, and in which version of the layout.
const TAG: &str = "redis cursors 1";

struct Kept(Arc<dyn Journal>);

impl Kept {
    fn try_keep(&self, number: u32, prefix: &[u8]) -> esker::Result<()> {
        let tree = self.0.make_tree(TREE, Some(TAG))?;
        check(tree.tag().as_deref())?;
        let mut batch = Batch::new();
        batch.put(&tree, number.to_be_bytes(), prefix)?;
        self.0.propose_durably(self.0.ground(), &mut batch).wait()?;
        Ok(())
    }

    fn try_forget(&self, number: u32) -> esker::Result<()> {
        let tree = self.0.make_tree(TREE, Some(TAG))?;
        let mut batch = Batch::new();
        batch.delete(&tree, number.to_be_bytes())?;
        self.0.propose(self.0.ground(), &mut batch).wait()?;
        Ok(())
    }
}

impl Keeper for Kept {
    fn keep(&self, number: u32, prefix: &[u8]) -> bool {
        let kept = self.try_keep(number, prefix);
        if let Err(error) = &kept {
            tracing::warn!(%error, "a prefix of cursors could not be kept: such cursors end with the server");
        }
        kept.is_ok()
    }

    fn forget(&self, number: u32) {
        if let Err(error) = self.try_forget(number) {
            // The next server has it, and forgets it again.
            tracing::debug!(%error, "a prefix of cursors could not be deleted");
        }
    }
}

fn check(tag: Option<&str>) -> esker::Result<()> {
    if tag == Some(TAG) {
        return Ok(());
    }
    let message = format!(
        "the tree \"{TREE}\" was not made by a server of this version (its tag is {tag:?}, and not {TAG:?})"
    );
    Err(esker::Error::new(
        ErrorKind::Unsupported,
        format!("{message}: rename or drop it, or serve another store"),
    ))
}

/// The cursors of a store.
///
/// # Errors
/// When their tree cannot be read, or is another one.
pub(crate) fn cursors_of(journal: &Arc<dyn Journal>, seed: u64) -> esker::Result<Cursors> {
    let mut prefixes = Vec::new();
    if let Some(tree) = journal.db().open_tree(TREE)?
        && !tree.is_empty()?
    {
        check(tree.tag().as_deref())?;
        let mut scan = tree.scan(ScanRange::all())?;
        while scan.advance()? {
            let number = scan.key().try_into().map(u32::from_be_bytes).map_err(|_| {
                let message = format!("a key of the tree \"{TREE}\" is not a number of four bytes");
                esker::Error::new(ErrorKind::Corruption, message)
            })?;
            prefixes.push((number, scan.value()?.to_vec()));
        }
    }
    Ok(Cursors::new(&prefixes, Box::new(Kept(Arc::clone(journal))), seed))
}
