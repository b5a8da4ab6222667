//! Values by serde, as `MessagePack`.
//!
//! Structures are stored with the names of their fields. Therefore a later version of the program can read the values
//! of an earlier one, and programs in other languages can read them too. A format without names would be shorter, but
//! would read a field that was added or moved as another one without noticing.

use std::marker::PhantomData;

use rmp_serde::Deserializer;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::ValueCodec;
use crate::error::{Error, Result};

/// The codec of values of any type `T` that serde can serialize. The bytes are `MessagePack`, and structures have the
/// names of their fields: a field with `#[serde(default)]` may be added later, fields may change their order, and a
/// field that is left out is ignored where it is still stored. Needs the feature `serde`.
///
/// # Example
/// ```
/// use esker::Serde;
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Debug, PartialEq, Serialize, Deserialize)]
/// struct User {
///     name: String,
///     #[serde(default)]
///     age: Option<u32>,
/// }
///
/// # fn main() -> esker::Result<()> {
/// # let db = esker::Db::open_in_memory(esker::Options::default())?;
/// let users = db.open_typed::<u64, Serde<User>>("users")?;
/// let ada = User { name: "Ada".to_owned(), age: Some(36) };
/// users.put(7, &ada)?;
/// assert_eq!(users.get(7)?, Some(ada));
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Serde<T>(PhantomData<fn() -> T>);

impl<T: Serialize + DeserializeOwned> ValueCodec for Serde<T> {
    type Value = T;
    type Ref = T;

    fn encoded<R>(value: &T, use_bytes: impl FnOnce(&[u8]) -> R) -> Result<R> {
        match rmp_serde::to_vec_named(value) {
            Ok(bytes) => Ok(use_bytes(&bytes)),
            Err(error) => Err(Error::invalid(error.to_string())),
        }
    }

    fn decode(bytes: &[u8]) -> Result<T> {
        let mut rest = bytes;
        let value = T::deserialize(&mut Deserializer::new(&mut rest));
        let value = value.map_err(|error| Error::invalid(error.to_string()))?;
        match rest.len() {
            0 => Ok(value),
            left => Err(Error::invalid(format!("there are {left} bytes after the value"))),
        }
    }
}
