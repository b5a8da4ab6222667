//! What `fuzz/` can call, only with `--cfg fuzzing`. Not part of the interface.

use crate::idl::Request;
use crate::wire::{Fault, Measure, Protocol, Source};

/// Reads a message. The first byte says in what parts it comes.
pub fn message(data: &[u8]) {
    let Some((part, bytes)) = data.split_first() else { return };
    let part = usize::from(*part).max(1);
    for protocol in [Protocol::Binary, Protocol::Compact] {
        let whole = Measure::default().len(protocol, bytes);
        let (mut measure, mut there) = (Measure::default(), 0);
        let in_parts = loop {
            match measure.len(protocol, &bytes[..there]) {
                Err(Fault::Missing(_)) if there < bytes.len() => there = (there + part).min(bytes.len()),
                done => break done,
            }
        };
        assert_eq!(whole, in_parts);
        let mut source = Source::new(protocol, bytes);
        if let Ok(head) = source.head()
            && let Ok(name) = std::str::from_utf8(head.name)
        {
            let _ = Request::decode(name, &mut source);
        }
    }
}
