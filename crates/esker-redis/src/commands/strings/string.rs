//! A string as commands read, write and change it.

use crate::context::{Class, Context, Overwritten};
use crate::entry::{Entry, Value};
use crate::fault::Fault;
use crate::model;

/// The longest string that a command makes, in bytes.
pub(in crate::commands) const BYTES_MAX: u64 = 512 << 20;

/// Refuses a string of more than [`BYTES_MAX`] bytes: `begin` bytes and `len` behind them.
pub(in crate::commands) fn check_len(begin: u64, len: u64) -> Result<(), Fault> {
    if begin.saturating_add(len) > BYTES_MAX {
        return Err(Fault::told("ERR string exceeds maximum allowed size (proto-max-bulk-len)"));
    }
    Ok(())
}

/// The string at `key`, for a command that reads it. Says so if there is none.
pub(in crate::commands) fn read(ctx: &mut Context<'_>, key: &[u8]) -> Result<Option<Entry>, Fault> {
    let entry = ctx.get_string(key)?;
    if entry.is_none() {
        missed(ctx, key);
    }
    Ok(entry)
}

/// Tells that a read has found no `key`.
pub(super) fn missed(ctx: &mut Context<'_>, key: &[u8]) {
    ctx.notify(Class::Missed, "keymiss", key);
}

/// `key`, which had `old`, gets a string.
pub(in crate::commands) fn write(
    ctx: &mut Context<'_>,
    key: &[u8],
    old: Overwritten,
    value: Value,
    expires_us: Option<u64>,
) -> Result<(), Fault> {
    match old {
        Overwritten::Known(Some(old)) => model::delete_elements(ctx, key, old)?,
        Overwritten::Known(None) => ctx.notify(Class::New, "new", key),
        Overwritten::Unread => {}
    }
    ctx.put_entry(key, Entry { value, attributes: Vec::new(), expires_us });
    Ok(())
}

/// A string that a command changes, and keeps the expiry of.
pub(in crate::commands) struct Changed {
    /// Its bytes; none if there was no such key.
    pub(in crate::commands) bytes: Vec<u8>,
    is_new: bool,
    expires_us: Option<u64>,
}

impl Changed {
    /// Of `entry`, if there is one. It must not be longer than what a command may make of it.
    pub(in crate::commands) fn of(entry: Option<Entry>) -> Result<Changed, Fault> {
        check_len(entry.as_ref().map_or(0, |entry| entry.value.len()), 0)?;
        let (is_new, expires_us) = (entry.is_none(), entry.as_ref().and_then(|entry| entry.expires_us));
        let bytes = entry.map_or(Ok(Vec::new()), |entry| entry.value.into_bytes())?;
        Ok(Changed { bytes, is_new, expires_us })
    }

    /// Whether there was no such key.
    pub(in crate::commands) fn is_new(&self) -> bool {
        self.is_new
    }

    /// Makes the change count.
    pub(in crate::commands) fn save(self, ctx: &mut Context<'_>, key: &[u8]) {
        let Changed { bytes, is_new, expires_us } = self;
        if is_new {
            ctx.notify(Class::New, "new", key);
        }
        ctx.put_entry(key, Entry { value: Value::Bytes(bytes), attributes: Vec::new(), expires_us });
    }
}
