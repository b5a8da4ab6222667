//! Numbers, text and tuples as keys: what is decoded has one form, and forms sort as what they stand for.
#![no_main]

use std::fmt::Debug;

use esker::keys;
use libfuzzer_sys::fuzz_target;

fn same<T: Debug + PartialEq, K: AsRef<[u8]>>(
    bytes: &[u8],
    decoded: esker::Result<T>,
    encode: impl Fn(&T) -> K,
) {
    if let Ok(value) = decoded {
        assert_eq!(encode(&value).as_ref(), bytes, "{value:?} has two forms");
    }
}

/// Reads elements of the kinds that `kinds` says.
fn elements(kinds: &[u8], bytes: &[u8]) {
    let mut reader = keys::TupleReader::new(bytes);
    let mut writer = keys::TupleWriter::new();
    for kind in kinds {
        let read = match kind % 7 {
            0 => reader.u64().map(|value| { let _ = writer.u64(value); }),
            1 => reader.i64().map(|value| { let _ = writer.i64(value); }),
            2 => reader.u32().map(|value| { let _ = writer.u32(value); }),
            3 => reader.i32().map(|value| { let _ = writer.i32(value); }),
            4 => reader.f64().map(|value| { let _ = writer.f64(value); }),
            5 => reader.text().map(|value| { let _ = writer.text(&value); }),
            _ => reader.bytes().map(|value| { let _ = writer.bytes(&value); }),
        };
        if read.is_err() {
            return;
        }
    }
    if reader.finish().is_ok() {
        assert_eq!(writer.as_bytes(), bytes, "a tuple has two forms");
    }
}

fuzz_target!(|data: &[u8]| {
    same(data, keys::decode_u64(data), |&value| keys::u64(value));
    same(data, keys::decode_i64(data), |&value| keys::i64(value));
    same(data, keys::decode_u32(data), |&value| keys::u32(value));
    same(data, keys::decode_i32(data), |&value| keys::i32(value));
    same(data, keys::decode_f64(data), |&value| keys::f64(value));
    let _ = keys::decode_text(data);
    let _ = keys::decode_tuple::<(u64, String)>(data);
    let _ = keys::decode_tuple::<(String, f64, i32)>(data);
    if let Some((&split, rest)) = data.split_first() {
        let (kinds, bytes) = rest.split_at((usize::from(split) % 8).min(rest.len()));
        elements(kinds, bytes);
        let (one, other) = bytes.split_at(bytes.len() / 2);
        let tuple = |bytes: &[u8]| keys::TupleWriter::new().bytes(bytes).u64(7).as_bytes().to_vec();
        assert_eq!(tuple(one).cmp(&tuple(other)), one.cmp(other));
    }
});
