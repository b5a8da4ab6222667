//! Renames and copies keys: the value stays in its place, and only an entry is written.

use super::{Snapshot, Tree};
use crate::blob::Pointer;
use crate::cursor::{Content, Kind};
use crate::error::{Error, ErrorKind, Result};
use crate::read::get::version_at;
use crate::write::batch::{Batch, check_key};

impl Tree {
    /// Moves the value of `from` to `to`, atomically, replacing an earlier value of `to`. Returns `false`, and changes
    /// nothing, if `from` is absent. If both are the same key, nothing changes either.
    ///
    /// The value is not copied, however long it is: it keeps its place, its storage time and its expiry. A merged value
    /// ([`Tree::merge`]) is computed now and written whole, and then does not expire.
    ///
    /// # Example
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Db::open_in_memory(esker::Options::default())?;
    /// let films = db.tree("films")?;
    /// films.put("draft", vec![7; 1 << 20])?;
    /// assert!(films.rename("draft", "final")?);
    /// assert!(films.copy("final", "backup")?);
    /// assert!(!films.contains("draft")?);
    /// assert_eq!(films.get("backup")?.expect("it was copied").len(), 1 << 20);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Tree::put`] and [`Tree::get`].
    pub fn rename(&self, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> Result<bool> {
        self.transfer(from.as_ref(), to.as_ref(), false)
    }

    /// Gives `to` the value of `from`, replacing an earlier value of `to`; `from` keeps it. Returns `false`, and
    /// changes nothing, if `from` is absent.
    ///
    /// A huge value is stored once for both keys. Its space is freed when neither has it any more.
    ///
    /// # Errors
    /// As [`Tree::put`] and [`Tree::get`].
    pub fn copy(&self, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> Result<bool> {
        self.transfer(from.as_ref(), to.as_ref(), true)
    }

    fn transfer(&self, from: &[u8], to: &[u8], keep: bool) -> Result<bool> {
        check_key(from)?;
        check_key(to)?;
        let mut freed_at = None;
        loop {
            // As in a swap, the snapshot keeps merges from dropping the numbers of later versions.
            let snapshot = Snapshot::for_one_call(&self.owner);
            let seen = snapshot.seq();
            let found = version_at(&*self.readable_state()?, from, seen)?;
            let Some((seq, kind, stored)) = &found else { return Ok(false) };
            let entry = Content::open(*kind, stored);
            if !entry.lives(|| snapshot.time_us()) {
                return Ok(false);
            }
            if from == to {
                return Ok(true);
            }
            let (mut batch, mut blobs, mut lapses_us) = (Batch::new(), Vec::new(), entry.expiry);
            if entry.kind == Kind::Merge {
                // The target gets the computed value; later operands of `from` do not change it.
                let Some(value) = snapshot.get(self, from)? else { return Ok(false) };
                lapses_us = value.lapses_us();
                batch.put_owned(self, to, value.into_vec()?, None)?;
            } else if entry.kind == Kind::Blob {
                let copied = match Pointer::decode(entry.value) {
                    Some(pointer) => self.store.writes().copy_blob(self.inner.lineage, to, &pointer)?,
                    None => None,
                };
                match copied {
                    Some(blob) => {
                        batch.add_pointer(&self.inner, to, &blob.pointer, entry.expiry)?;
                        blobs.push(blob);
                    }
                    // It was overwritten meanwhile: there is a newer version now, unless this is damage.
                    None if freed_at != Some(*seq) => {
                        freed_at = Some(*seq);
                        continue;
                    }
                    None => {
                        let message = format!("the value of \"{}\" is missing", from.escape_ascii());
                        return Err(Error::new(ErrorKind::Corruption, message));
                    }
                }
            } else {
                batch.add_until(&self.inner, entry.kind, entry.expiry, to, entry.value)?;
            }
            if !keep {
                batch.delete(self, from)?;
            }
            let lasting = self.store.log().lasting(lapses_us);
            let unchanged = || Ok(self.is_unchanged(from, seen)? && lasting.holds());
            if self
                .store
                .writes()
                .write_blobs_if(&batch, blobs, self.store.options().durability, Some(&unchanged))?
                .is_some()
            {
                return Ok(true);
            }
        }
    }
}
