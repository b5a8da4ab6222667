//! Renames and copies keys, and changes the expiry or the attributes of a value: the value stays in its place, and only
//! an entry is written.

use super::{Snapshot, Tree};
use crate::blob::Pointer;
use crate::cursor::{Beside, Content, Expiry, Kind};
use crate::error::{Error, ErrorKind, Result};
use crate::read::get::version_at;
use crate::value::check_attributes;
use crate::write::batch::{Batch, check_key};

/// The expiry and attributes of the new entry.
#[derive(Debug, Clone, Copy)]
enum NewBeside<'a> {
    Same,
    Expiry(Option<Expiry>),
    Attributes(&'a [u8]),
}

impl<'a> NewBeside<'a> {
    /// The expiry and attributes of the entry that replaces `entry`.
    fn of<'e>(self, entry: &Content<'e>) -> Beside<'e>
    where
        'a: 'e,
    {
        match self {
            NewBeside::Same => entry.beside(),
            NewBeside::Expiry(expiry) => Beside::of(expiry, entry.attributes),
            NewBeside::Attributes(attributes) => Beside::of(entry.expiry, attributes),
        }
    }
}

impl Tree {
    /// Moves the value of `from` to `to`, atomically, replacing an earlier value of `to`. Returns `false`, and changes
    /// nothing, if `from` is absent. If both are the same key, nothing changes either.
    ///
    /// The value is not copied, however long it is: it keeps its place, its storage time, its expiry and its attributes.
    /// A merged value ([`Tree::merge`]) is computed now and written whole.
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
        self.transfer(from.as_ref(), to.as_ref(), true, NewBeside::Same)
    }

    /// Gives `to` the value of `from`, replacing an earlier value of `to`; `from` keeps it. Returns `false`, and
    /// changes nothing, if `from` is absent.
    ///
    /// A huge value is stored once for both keys. Its space is freed when neither has it any more.
    ///
    /// # Errors
    /// As [`Tree::put`] and [`Tree::get`].
    pub fn copy(&self, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> Result<bool> {
        self.transfer(from.as_ref(), to.as_ref(), false, NewBeside::Same)
    }

    /// The value of `key` expires when the tree's clock ([`Tree::time_us`]) shows `expires_us`, in microseconds since
    /// 1970, or never (`None`), regardless of its earlier expiry. If that time has passed, the key becomes absent
    /// immediately. Returns `false`, and changes nothing, if the key is absent.
    ///
    /// A huge value is neither read nor rewritten; a small one is both. The value keeps its attributes. A merged value
    /// ([`Tree::merge`]) is computed now and written whole.
    ///
    /// # Errors
    /// As [`Tree::put`] and [`Tree::get`].
    ///
    /// # Example
    /// ```
    /// # fn main() -> esker::Result<()> {
    /// # let db = esker::Db::open_in_memory(esker::Options::default())?;
    /// use std::time::Duration;
    /// let films = db.tree("films")?;
    /// films.put_for("film", vec![7; 1 << 20], Duration::from_secs(3600))?;
    /// // It stays after all.
    /// assert!(films.set_expiry("film", None)?);
    /// assert_eq!(films.metadata("film")?.expect("it was put").expires_us, None);
    /// # Ok(())
    /// # }
    /// ```
    pub fn set_expiry(&self, key: impl AsRef<[u8]>, expires_us: impl Into<Option<u64>>) -> Result<bool> {
        let (key, expires_us) = (key.as_ref(), expires_us.into());
        self.transfer(key, key, false, NewBeside::Expiry(expires_us))
    }

    /// Sets the attributes of the value of `key` to `attributes` ([`PutOptions`](crate::PutOptions)); if these are
    /// empty, the value has no attributes. Returns `false`, and changes nothing, if the key is absent.
    ///
    /// A huge value is neither read nor rewritten; a small one is both. The value keeps its expiry. A merged value
    /// ([`Tree::merge`]) is computed now and written whole.
    ///
    /// # Errors
    /// As [`Tree::put`] and [`Tree::get`], and `InvalidInput` when the attributes are longer than 4 KiB.
    pub fn set_attributes(&self, key: impl AsRef<[u8]>, attributes: impl AsRef<[u8]>) -> Result<bool> {
        let (key, attributes) = (key.as_ref(), attributes.as_ref());
        check_attributes(attributes)?;
        self.transfer(key, key, false, NewBeside::Attributes(attributes))
    }

    /// Gives `to` the value of `from`, with the expiry and attributes that `beside` selects. With `moves`, `from` loses
    /// it.
    fn transfer(&self, from: &[u8], to: &[u8], moves: bool, beside: NewBeside<'_>) -> Result<bool> {
        check_key(from)?;
        check_key(to)?;
        let mut freed_at = None;
        loop {
            // As in a swap, the snapshot keeps merges from dropping the numbers of later versions.
            let tree = self.at_fixed_time();
            let snapshot = Snapshot::for_one_call(&self.owner);
            let seen = snapshot.seq();
            let found = version_at(&*self.readable_state()?, from, seen)?;
            let living = found.as_ref().map(|(seq, kind, stored)| (seq, Content::open(*kind, stored)));
            let Some((seq, entry)) = living.filter(|(_, entry)| entry.lives(|| snapshot.time_of(&tree)))
            else {
                self.check_has(from)?;
                return Ok(false);
            };
            if from == to && matches!(beside, NewBeside::Same) {
                // An operand does not have its own expiry, but may have ended with the value below it.
                let is_there = entry.kind != Kind::Merge || snapshot.contains(&tree, from)?;
                if !is_there {
                    self.check_has(from)?;
                }
                return Ok(is_there);
            }
            let (mut batch, mut blobs, mut lapses_us) = (Batch::new(), Vec::new(), entry.expiry);
            batch.carry(self)?;
            if entry.kind == Kind::Merge {
                // The target gets the computed value; later operands of `from` do not change it.
                let Some(value) = snapshot.get(&tree, from)? else {
                    self.check_has(from)?;
                    return Ok(false);
                };
                lapses_us = value.lapses_us();
                let made = Content { expiry: value.expires_us(), ..Content::open(Kind::Put, &[]) };
                batch.put_owned_beside(self, to, value.into_vec()?, beside.of(&made))?;
            } else if entry.kind == Kind::Blob {
                let copied = match Pointer::decode(entry.value) {
                    Some(pointer) => self.store.writes().copy_blob(self.inner.lineage, to, &pointer),
                    None => None,
                };
                match copied {
                    Some(blob) => {
                        batch.add_pointer(&self.inner, to, &blob.pointer, beside.of(&entry))?;
                        blobs.push(blob);
                    }
                    // It was overwritten meanwhile: now a newer version exists, unless this is damage.
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
                batch.add_beside(&self.inner, entry.kind, beside.of(&entry), to, entry.value)?;
            }
            if moves {
                batch.delete(self, from)?;
            }
            let lasting = self.lasting(lapses_us);
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
