//! `esker ls [PREFIX]`: one line per value or, with `--du`, per directory, in key order.
//!
//! Only the first bytes of a value are read, unless its hash is requested. A damaged value is listed as such, and its
//! damage is reported on standard error. The others are listed all the same.

use std::ffi::OsStr;
use std::fmt::Write;

use esker::ErrorKind;
use serde_json::json;
use sha2::{Digest, Sha256};

use super::scan::say_collections;
use crate::args::{Global, Ls};
use crate::datatype::DataType;
use crate::exit::{Failure, Outcome, note};
use crate::json;
use crate::keyspace::{PIECE, Rows, Want};
use crate::kind::{FIRST_BYTES, Kind};
use crate::output::Out;
use crate::ranges::KeyBounds;
use crate::store::Store;
use crate::utc::utc;

pub(crate) fn run(global: &Global, args: &Ls) -> Outcome {
    let store = Store::read(global)?;
    let prefix = args.prefix.as_deref().map(OsStr::as_encoded_bytes);
    let keys = store.types.keys;
    if args.du && !matches!(keys, DataType::Text | DataType::Escaped) {
        return Err(Failure::usage(format!("--du is for text keys; this tree has {keys} keys")));
    }
    let bounds = KeyBounds::parse(store.types.keys, None, None, prefix)?;
    let Some(range) = bounds.range() else { return Ok(()) };
    let want = Want::First(if args.du { 0 } else { FIRST_BYTES });
    let mut rows = store.tree.scan(range, false, want)?;
    Out::stdout()?.with(|out| match args.du {
        true => sums(global, prefix.unwrap_or_default(), &mut rows, out),
        false => values(global, args, store.types.keys, &mut rows, out),
    })?;
    say_collections(rows.collections());
    Ok(())
}

/// One line for each value.
fn values(global: &Global, args: &Ls, keys: DataType, rows: &mut Rows, out: &mut Out) -> Outcome {
    let mut damaged = 0_u64;
    while rows.advance()? {
        let about = match About::of(rows, args.sha256) {
            Ok(about) => about,
            Err(error) if error.kind() == ErrorKind::Corruption => {
                damaged += 1;
                note(&error.to_string());
                About { stored: None, kind: "damaged", sha256: None }
            }
            Err(error) => return Err(error.into()),
        };
        about.print(global, keys, rows, args.sha256, out)?;
        out.spill()?;
    }
    match damaged {
        0 => Ok(()),
        count => Err(Failure::store(format!("damaged values: {count} (see `esker check`)"))),
    }
}

/// What is shown of a value beside its key and size.
struct About {
    stored: Option<u64>,
    kind: &'static str,
    sha256: Option<String>,
}

impl About {
    fn of(rows: &Rows, hash: bool) -> esker::Result<Self> {
        let kind = Kind::of(&rows.first(FIRST_BYTES)?, rows.value_len()).short;
        let mut about = About { stored: rows.stored_us()?, kind, sha256: None };
        if hash && let Some(mut value) = rows.open()? {
            let mut hasher = Sha256::new();
            let mut buffer = Vec::new();
            loop {
                value.next(PIECE, &mut buffer)?;
                if buffer.is_empty() {
                    break;
                }
                hasher.update(&buffer);
            }
            about.sha256 = Some(hex(&hasher.finalize()));
        }
        Ok(about)
    }

    fn print(&self, global: &Global, keys: DataType, rows: &Rows, hash: bool, out: &mut Out) -> Outcome {
        let (key, size) = (rows.key(), rows.value_len());
        let stored = self.stored.map(utc);
        if global.json {
            let mut fields = json!({ "size": size, "stored": stored, "type": self.kind });
            if hash && let Some(fields) = fields.as_object_mut() {
                fields.insert("sha256".to_owned(), json!(self.sha256));
            }
            return json::described(out.buffer(), keys, key, &fields);
        }
        let mut line = format!("{size:>14}  {:20}  {:7}  ", stored.as_deref().unwrap_or("-"), self.kind);
        if hash {
            // Writing to memory cannot fail.
            let _ = write!(line, "{:64}  ", self.sha256.as_deref().unwrap_or("-"));
        }
        let start = out.buffer().len();
        out.buffer().extend_from_slice(line.as_bytes());
        keys.print(key, out.buffer())?;
        out.part_since(start);
        out.buffer().push(b'\n');
        Ok(())
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to memory cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// One line for each group of keys that are equal up to the first slash after the last slash of `prefix`. No value is
/// read.
fn sums(global: &Global, prefix: &[u8], rows: &mut Rows, out: &mut Out) -> Outcome {
    let base = prefix.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    let mut group: Vec<u8> = Vec::new();
    let (mut size, mut count) = (0_u64, 0_u64);
    while rows.advance()? {
        let key = rows.key();
        let tail = key.get(base..).unwrap_or_default();
        let part = match memchr::memchr(b'/', tail) {
            Some(slash) => &key[..base + slash + 1],
            None => key,
        };
        // Keys of one group are neighbours, because they have the same beginning.
        if count > 0 && part != group {
            sum(global, &group, size, count, out)?;
            (size, count) = (0, 0);
        }
        if count == 0 {
            group.clear();
            group.extend_from_slice(part);
        }
        size = size.saturating_add(rows.value_len());
        count += 1;
    }
    if count > 0 {
        sum(global, &group, size, count, out)?;
    }
    Ok(())
}

fn sum(global: &Global, group: &[u8], size: u64, count: u64, out: &mut Out) -> Outcome {
    if global.json {
        let fields = json!({ "size": size, "values": count });
        json::described(out.buffer(), DataType::Text, group, &fields)?;
    } else {
        out.buffer().extend_from_slice(format!("{size:>14}  {count:>9}  ").as_bytes());
        out.part(group);
        out.buffer().push(b'\n');
    }
    out.spill()
}
