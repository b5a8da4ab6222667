//! Renaming and copying: the value stays where it is, an entry is written.

use super::{Snapshot, Tree};
use crate::blob::Pointer;
use crate::cursor::{Content, Kind, SeqNo};
use crate::error::{Error, ErrorKind, Result};
use crate::read::get::version_at;
use crate::read::newer::Newer;
use crate::write::batch::{Batch, check_key};

impl Tree {
    /// Gives `to` the value of `from`, and takes it from `from`, both at once. A value that `to` had is replaced;
    /// `false`, and nothing changes, where `from` is absent. Where both are one key nothing changes either.
    ///
    /// However long the value is, it is not copied: it keeps its place, its stored time, and the time at which it expires.
    /// What was merged into ([`Tree::merge`]) is written whole, as it is now, and then does not expire.
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

    /// Gives `to` the value that `from` has, and keeps. A value that `to` had is replaced; `false`, and nothing
    /// changes, where `from` is absent.
    ///
    /// A huge value is there once, with two keys; its space comes back when neither has it any more.
    ///
    /// # Errors
    /// As [`Tree::put`] and [`Tree::get`].
    pub fn copy(&self, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> Result<bool> {
        self.transfer(from.as_ref(), to.as_ref(), true)
    }

    /// Whether `key` has no version newer than `seen`, a registered moment.
    pub(super) fn is_unchanged(&self, key: &[u8], seen: SeqNo) -> Result<bool> {
        Ok(!Newer::than(seen, &*self.readable_state()?).has_key(key, seen)?)
    }

    fn transfer(&self, from: &[u8], to: &[u8], keep: bool) -> Result<bool> {
        check_key(from)?;
        check_key(to)?;
        let mut freed_at = None;
        loop {
            // As for a swap: keeps merges from losing the numbers of versions that came after it.
            let snapshot = Snapshot::passing(&self.owner);
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
            let (mut batch, mut lapses_us) = (Batch::new(), entry.expiry);
            if entry.kind == Kind::Merge {
                // The target gets what the operands have made: it is not theirs to change any more.
                let Some(value) = snapshot.get(self, from)? else { return Ok(false) };
                lapses_us = value.lapses_us();
                batch.put(self, to, value.into_vec()?)?;
            } else if entry.kind == Kind::Blob {
                let shared = match Pointer::decode(entry.value) {
                    Some(pointer) => self.store.share_blob(self.inner.root, to, &pointer)?,
                    None => None,
                };
                match shared {
                    Some(blob) => batch.add_blob(&self.inner, to, blob, entry.expiry)?,
                    // Overwritten meanwhile: there is a newer version now, unless it is damage.
                    None if freed_at != Some(*seq) => {
                        freed_at = Some(*seq);
                        continue;
                    }
                    None => {
                        let message =
                            format!("the value of \"{}\" should be here and is not", from.escape_ascii());
                        return Err(Error::new(ErrorKind::Corruption, message));
                    }
                }
            } else {
                batch.add_until(&self.inner, entry.kind, entry.expiry, to, entry.value)?;
            }
            if !keep {
                batch.delete(self, from)?;
            }
            let lasting = self.store.lasting(lapses_us);
            let unchanged = || Ok(self.is_unchanged(from, seen)? && lasting.holds());
            if self.store.write_if(&batch, self.store.options.durability, Some(&unchanged))?.is_some() {
                return Ok(true);
            }
        }
    }
}
