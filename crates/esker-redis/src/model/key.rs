//! Keys of the tree Elements.

use crate::entry::EMPTY_KEY;

/// A key as it begins the keys of its elements: zeros are escaped, so that no key's elements lie among those of another.
pub(super) fn escaped(key: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(key.len() + 10);
    for byte in key {
        out.push(*byte);
        if *byte == 0 {
            out.push(0xff);
        }
    }
    out.extend_from_slice(&[0, 1]);
    out
}

/// The key, the generation and the rest of a key of the tree Elements: that of an element.
pub(super) fn unescaped(mut bytes: &[u8]) -> Option<(Vec<u8>, u64, &[u8])> {
    let mut key = Vec::new();
    loop {
        match bytes {
            [0, 0xff, rest @ ..] => {
                key.push(0);
                bytes = rest;
            }
            [0, 1 | 2, rest @ ..] => {
                let (generation, element) = rest.split_first_chunk::<8>()?;
                return Some((key, u64::from_be_bytes(*generation), element));
            }
            [byte, rest @ ..] => {
                key.push(*byte);
                bytes = rest;
            }
            [] => return None,
        }
    }
}

/// The client's key to which this key of the tree Elements belongs.
pub(crate) fn key_of_element(element: &[u8]) -> Option<Vec<u8>> {
    if element == EMPTY_KEY {
        return Some(Vec::new());
    }
    unescaped(element).map(|(key, _, _)| key)
}

/// What all elements of a large collection begin with.
pub(super) fn prefix(key: &[u8], generation: u64) -> Vec<u8> {
    let mut prefix = escaped(key);
    prefix.extend_from_slice(&generation.to_be_bytes());
    prefix
}
