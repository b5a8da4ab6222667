//! The expiry of a value, and the caller's attributes.

use std::time::SystemTime;

use crate::cursor::{ATTRIBUTES_LEN_MAX, Beside, Content};
use crate::env::us_at;
use crate::error::{Error, Result};

/// Options of a put that are stored with the value: its expiry and its attributes. Both can be read without the value
/// ([`Tree::metadata`](crate::Tree::metadata)) and changed without writing it anew
/// ([`Tree::set_expiry`](crate::Tree::set_expiry), [`Tree::set_attributes`](crate::Tree::set_attributes)).
///
/// Attributes are up to [`ATTRIBUTES_LEN_MAX`] bytes of the caller's: a content type, an ETag. The store does not look
/// at them. A value without attributes takes no extra space.
///
/// # Example
/// ```
/// # fn main() -> esker::Result<()> {
/// # let db = esker::Db::open_in_memory(esker::Options::default())?;
/// use esker::PutOptions;
/// let files = db.tree("files")?;
/// files.put_opts("logo", "<svg/>", &PutOptions::default().attributes("image/svg+xml"))?;
/// let logo = files.metadata("logo")?.expect("it was put");
/// assert_eq!((logo.len, &logo.attributes[..]), (6, &b"image/svg+xml"[..]));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PutOptions {
    expires_us: Option<u64>,
    attributes: Vec<u8>,
}

/// Refuses attributes that are too long.
pub(crate) fn check_attributes(attributes: &[u8]) -> Result<()> {
    if attributes.len() > ATTRIBUTES_LEN_MAX {
        let len = attributes.len();
        return Err(Error::invalid(format!(
            "the attributes have {len} bytes; the limit is {ATTRIBUTES_LEN_MAX}"
        )));
    }
    Ok(())
}

impl PutOptions {
    /// The value expires when the tree's clock ([`Tree::time_us`](crate::Tree::time_us)) shows `expires_us`, in
    /// microseconds since 1970; `None`, the default: it does not expire.
    #[must_use]
    pub fn expires_us(mut self, expires_us: impl Into<Option<u64>>) -> PutOptions {
        self.expires_us = expires_us.into();
        self
    }

    /// [`PutOptions::expires_us`] for a moment.
    #[must_use]
    pub fn expires_at(self, moment: SystemTime) -> PutOptions {
        self.expires_us(us_at(moment))
    }

    /// The value has these attributes. Default: empty. The put fails with `InvalidInput` if they are longer than
    /// [`ATTRIBUTES_LEN_MAX`] bytes.
    #[must_use]
    pub fn attributes(mut self, attributes: impl AsRef<[u8]>) -> PutOptions {
        self.attributes = attributes.as_ref().to_vec();
        self
    }

    pub(crate) fn until(expires_us: Option<u64>) -> PutOptions {
        PutOptions::default().expires_us(expires_us)
    }

    /// The expiry and attributes that are stored with a value.
    pub(crate) fn checked(&self) -> Result<Beside<'_>> {
        check_attributes(&self.attributes)?;
        Ok(self.beside())
    }

    /// As [`PutOptions::checked`], for options that have been checked.
    pub(crate) fn beside(&self) -> Beside<'_> {
        Beside::of(self.expires_us, &self.attributes)
    }

    pub(crate) fn set_expiry(&mut self, expires_us: Option<u64>) {
        self.expires_us = expires_us;
    }

    /// Fails, and changes nothing, if they are too long.
    pub(crate) fn set_attributes(&mut self, attributes: &[u8]) -> Result<()> {
        check_attributes(attributes)?;
        self.attributes = attributes.to_vec();
        Ok(())
    }
}

/// A value that [`Tree::get_lent`] lends, with its expiry and its attributes.
///
/// [`Tree::get_lent`]: crate::Tree::get_lent
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lent<'a> {
    /// `None` for a huge value: [`Tree::get`](crate::Tree::get) returns a handle of it.
    pub bytes: Option<&'a [u8]>,
    /// When the value expires, in microseconds since 1970; `None` if it does not expire.
    pub expires_us: Option<u64>,
    /// Empty if the value has no attributes.
    pub attributes: &'a [u8],
}

impl<'a> Lent<'a> {
    /// A small value.
    #[inline]
    pub(crate) fn of_entry(entry: &Content<'a>) -> Lent<'a> {
        Lent { bytes: Some(entry.value), expires_us: entry.expiry, attributes: entry.attributes }
    }
}

/// The metadata of a value, without its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metadata {
    /// The length of the value in bytes.
    pub len: u64,
    /// When the value expires, in microseconds since 1970; `None` if it does not expire.
    pub expires_us: Option<u64>,
    /// When a huge value was stored, in microseconds since 1970. `None` for a small one, whose time is not kept.
    pub stored_us: Option<u64>,
    /// Empty if the value has no attributes.
    pub attributes: Vec<u8>,
}

impl Metadata {
    /// Of a small value.
    pub(crate) fn of_entry(entry: &Content<'_>) -> Metadata {
        Metadata {
            len: entry.value.len() as u64,
            expires_us: entry.expiry,
            stored_us: None,
            attributes: entry.attributes.to_vec(),
        }
    }
}
