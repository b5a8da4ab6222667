//! How commands open hashes and sets, and read all of one.

use crate::context::{Class, Context};
use crate::fault::{Fault, ReadError};
use crate::model::{Collection, Kind};
use crate::session::Bounds;

/// An element with its value.
pub(crate) type Pair = (Vec<u8>, Vec<u8>);

/// The collection at `key`, for a command that reads. Says so if there is none.
pub(crate) fn read(ctx: &mut Context<'_>, key: &[u8], kind: Kind) -> Result<Option<Collection>, Fault> {
    let found = Collection::find(ctx, key, kind)?;
    if found.is_none() {
        ctx.notify(Class::Missed, "keymiss", key);
    }
    Ok(found)
}

/// The collection at `key`, for a command that adds to it. Says so if it is a new one.
pub(crate) fn open(ctx: &mut Context<'_>, key: &[u8], kind: Kind) -> Result<Collection, Fault> {
    let found = Collection::find(ctx, key, kind)?;
    Ok(found.unwrap_or_else(|| {
        ctx.notify(Class::New, "new", key);
        Collection::new(ctx, key, kind)
    }))
}

/// Saves `collection`, of which something was removed. Says so if nothing is left of it.
pub(crate) fn save_rest(ctx: &mut Context<'_>, key: &[u8], collection: Collection) {
    if !collection.save(ctx) {
        ctx.notify(Class::Generic, "del", key);
    }
}

/// Calls `visit` with all elements and their values, in order. They are as many as [`Collection::entries`] says, which a
/// reply has told before them.
pub(crate) fn each(
    ctx: &Context<'_>,
    collection: &Collection,
    mut visit: impl FnMut(&[u8], &[u8]),
) -> Result<(), ReadError> {
    let mut left = collection.entries();
    collection.walk(ctx.session(), Bounds::ALL, false, |element, value| {
        left = left.checked_sub(1).ok_or_else(miscounted)?;
        visit(element, &value);
        Ok(true)
    })?;
    if left == 0 { Ok(()) } else { Err(miscounted()) }
}

/// The number of entries in a collection's head is wrong.
pub(crate) fn miscounted() -> ReadError {
    ReadError::Failed("Corruption: a collection has not as many elements as it says".to_owned())
}
