//! Attributes of operations: names and values in addition to a call's arguments, which HBase hands to the operation. Those that would
//! change what the call does here are refused. The others change nothing: HBase without coprocessors does not know them either, or
//! they loosen what a read sees (`_isolationlevel_`), or restrict it to cells with labels, of which there are none.

use crate::fail::Fail;
use crate::wire::{Fault, Kind, Source};

/// The time to live of the cells that are written.
const TTL: &[u8] = b"_ttl";

/// Rights to the cells that are written.
const ACL: &[u8] = b"acl";

/// Which labels a reader needs to see the cells that are written.
const VISIBILITY: &[u8] = b"VISIBILITY";

/// Whether a read shows deletes, and what they hide.
const RAW: &[u8] = b"_raw_";

/// Reads the attributes of a call that writes: why the call must be refused, if it must.
pub(super) fn writes(source: &mut Source<'_>) -> Result<Option<Fail>, Fault> {
    refusal(source, |name, _| match name {
        TTL => {
            Some("the attribute _ttl is refused: a time to live is kept for a column family, not for a cell")
        }
        ACL => Some("the attribute acl is refused: rights are to tables, not to cells"),
        VISIBILITY => Some("the attribute VISIBILITY is refused: cells have no labels"),
        _ => None,
    })
}

/// As [`writes`], of a call that reads.
pub(super) fn reads(source: &mut Source<'_>) -> Result<Option<Fail>, Fault> {
    refusal(source, |name, value| match name {
        // A byte 0 is false.
        RAW if value != [0] => {
            Some("the attribute _raw_ is refused: eskerScannerOpen shows deletes and versions")
        }
        _ => None,
    })
}

fn refusal(
    source: &mut Source<'_>,
    why: impl Fn(&[u8], &[u8]) -> Option<&'static str>,
) -> Result<Option<Fail>, Fault> {
    let (key, value, count) = source.map()?;
    let mut refused = None;
    for _ in 0..count {
        if (key, value) == (Kind::Bytes, Kind::Bytes) {
            refused = why(source.bytes()?, source.bytes()?).or(refused);
        } else {
            source.skip(key)?;
            source.skip(value)?;
        }
    }
    Ok(refused.map(Fail::argument))
}
