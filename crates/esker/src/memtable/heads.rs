//! Numbers that represent keys in comparisons, and the knowledge of the keys that this needs.
//!
//! A key's head has 8 bytes. It never decreases when keys increase. Therefore unequal heads decide a comparison. Equal
//! ones decide nothing, so the 8 bytes should come from the place where the keys differ. A memtable learns from its
//! predecessor where that is:
//!
//! ```text
//! keys      set:7 m apple    set:7 m plum    set:7 s 0001 apple    user:1 ...    user:2 ...
//! common    ""
//! parts     "set:7 m "                       "set:7 s 0001 "       "user:"
//! head      place of the part (1 byte) | the next 7 bytes of the key
//! ```
//! Keys that begin with none of the parts lie between two of them, and have a place there.

/// The most parts. Each head costs a binary search among them.
const PARTS_MAX: usize = 16;

/// The least number of keys of a part. It also has at least a sixteenth of the sampled keys.
const PART_MIN: usize = 8;

/// How often a part is divided again.
const DEPTH_MAX: usize = 8;

/// Which prefixes keys are expected to have. Other keys are allowed too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Heads {
    /// The prefix of all keys.
    common: Box<[u8]>,
    /// Prefixes that many keys have, ascending. No prefix begins with another one. Empty if the keys differ right after
    /// `common`.
    parts: Box<[Box<[u8]>]>,
}

impl Heads {
    /// All keys are expected to begin with `common`.
    pub(super) fn behind(common: &[u8]) -> Heads {
        Heads { common: common.into(), parts: Box::default() }
    }

    /// The heads that distinguish `keys`: some keys in their order, all of which begin with `common`.
    pub(super) fn of_sample(mut keys: Vec<&[u8]>, common: &[u8]) -> Heads {
        keys.dedup();
        let mut parts = Vec::new();
        divide(&keys, PART_MIN.max(keys.len().div_ceil(PARTS_MAX)), DEPTH_MAX, &mut parts);
        parts.sort_unstable();
        parts.dedup();
        // No part may begin with another one: the shorter one goes.
        let is_shorter =
            |place: usize| parts.get(place + 1).is_some_and(|next| next.starts_with(parts[place]));
        let parts: Vec<&[u8]> =
            (0..parts.len()).filter(|place| !is_shorter(*place)).map(|place| parts[place]).collect();
        if parts == [common] {
            return Heads::behind(common);
        }
        Heads { common: common.into(), parts: parts.into_iter().map(Box::from).collect() }
    }

    /// Whether nothing is known of the keys.
    pub(super) fn is_blank(&self) -> bool {
        self.common.is_empty() && self.parts.is_empty()
    }

    /// Whether these heads distinguish many keys that agree in their first 8 bytes.
    pub(super) fn is_useful(&self) -> bool {
        self.common.len() >= size_of::<u64>() / 2 || !self.parts.is_empty()
    }

    /// The head of `key`.
    #[inline]
    pub(super) fn of(&self, key: &[u8]) -> u64 {
        if self.parts.is_empty() { head_behind(&self.common, key) } else { self.within_parts(key) }
    }

    fn within_parts(&self, key: &[u8]) -> u64 {
        // Of the parts, only the last one that is not greater can be a prefix of the key.
        let before = self.parts.partition_point(|part| **part <= *key);
        let rest = before.checked_sub(1).and_then(|last| key.strip_prefix(&*self.parts[last]));
        let (place, head) = match rest {
            Some(rest) => (2 * before - 1, number_of(rest)),
            None => (2 * before, head_behind(&self.common, key)),
        };
        (place as u64) << (u64::BITS - 8) | head >> 8
    }
}

/// The bytes that the first and the last one of `keys`, which are sorted, begin with.
pub(super) fn prefix_of<'k>(first: &'k [u8], last: &[u8]) -> &'k [u8] {
    let common = first.iter().zip(last).take_while(|(a, b)| a == b).count();
    &first[..common]
}

/// Finds prefixes of at least `least` of `keys`, sorted and different, after which the 8 bytes of a head distinguish
/// the keys.
fn divide<'k>(keys: &[&'k [u8]], least: usize, depth: usize, parts: &mut Vec<&'k [u8]>) {
    let common =
        |keys: &[&'k [u8]]| keys.first().zip(keys.last()).map(|(first, last)| prefix_of(first, last));
    let Some(prefix) = common(keys) else { return };
    let add = |keys: &[&'k [u8]], parts: &mut Vec<&'k [u8]>| {
        if keys.len() >= least {
            parts.extend(common(keys));
        }
    };
    let (mut begin, mut at) = (0, 0);
    for same in keys.chunk_by(|one, other| head_behind(prefix, one) == head_behind(prefix, other)) {
        if same.len() >= least && depth > 0 {
            add(&keys[begin..at], parts);
            divide(same, least, depth - 1, parts);
            begin = at + same.len();
        }
        at += same.len();
    }
    add(&keys[begin..], parts);
}

/// The first 8 bytes, zero-padded, as a number that ascends with the bytes.
#[inline]
fn number_of(bytes: &[u8]) -> u64 {
    if let Some(first) = bytes.first_chunk::<8>() {
        return u64::from_be_bytes(*first);
    }
    let mut padded = [0; 8];
    padded[..bytes.len()].copy_from_slice(bytes);
    u64::from_be_bytes(padded)
}

/// The 8 bytes of `key` after `prefix`. A key without the prefix gets the smallest or the largest number.
#[inline]
fn head_behind(prefix: &[u8], key: &[u8]) -> u64 {
    // The test is more than a shortcut. An empty box points to an unmapped address, where the C library's memcmp of zero
    // bytes took 41 ns, against 2 ns at a mapped one.
    if prefix.is_empty() {
        return number_of(key);
    }
    match key.strip_prefix(prefix) {
        Some(behind) => number_of(behind),
        None if key < prefix => 0,
        None => u64::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Keys with prefixes of several lengths, and some keys without a prefix.
    fn some_keys() -> Vec<Vec<u8>> {
        let mut keys = Vec::new();
        for number in 0..400_u32 {
            let random = number.wrapping_mul(0x9E37_79B9) >> 8;
            keys.push(format!("set:7 m element:{random:012}").into_bytes());
            keys.push([&b"set:7 s"[..], &f64::from(random).to_be_bytes(), b"element"].concat());
            keys.push(format!("user:{random:08}").into_bytes());
        }
        keys.extend(
            [&b""[..], b"\0", b"set", b"set:7 m", b"set:7 n", b"t", b"user", b"userr", b"\xff\xff\xff"]
                .map(<[u8]>::to_vec),
        );
        keys.sort();
        keys
    }

    fn sample(keys: &[Vec<u8>]) -> Vec<&[u8]> {
        keys.iter().step_by(3).map(Vec::as_slice).collect()
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes minutes, and nothing here is unsafe")]
    fn heads_ascend_with_keys_whatever_is_expected_of_them() {
        let keys = some_keys();
        let parts: [&[&[u8]]; 6] = [
            &[],
            &[b"user:"],
            &[b"set:7 m", b"set:7 s", b"user:"],
            &[b"\0", b"set:7 m element:0", b"u"],
            &[b"set:7 m element:00000", b"set:7 m element:00001", b"set:7 m element:00002"],
            &[b"zzz", b"\xff"],
        ];
        for common in [&b""[..], b"set", b"set:7 ", b"user:", b"\0", b"\xff"] {
            for parts in parts {
                let parts = parts.iter().map(|part| Box::from(*part)).collect();
                let heads = Heads { common: common.into(), parts };
                assert!(keys.iter().map(|key| heads.of(key)).is_sorted(), "{heads:?}");
            }
        }
        let heads = Heads::of_sample(sample(&keys), b"");
        assert!(keys.iter().map(|key| heads.of(key)).is_sorted(), "{heads:?}");
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes minutes, and nothing here is unsafe")]
    fn keys_of_several_collections_have_different_heads() {
        let keys = some_keys();
        let heads = Heads::of_sample(sample(&keys), b"");
        assert!(heads.parts.len() >= 3, "{heads:?}");
        let different = keys.windows(2).filter(|pair| heads.of(&pair[0]) != heads.of(&pair[1])).count();
        assert!(different > keys.len() * 19 / 20, "{different} of {}", keys.len());
        let without = Heads::behind(b"");
        let different = keys.windows(2).filter(|pair| without.of(&pair[0]) != without.of(&pair[1])).count();
        assert!(different < keys.len() / 4, "the test is about nothing: {different}");
    }

    #[test]
    #[cfg_attr(miri, ignore = "takes minutes, and nothing here is unsafe")]
    fn there_is_an_end_to_dividing() {
        let same: &[u8] = b"key";
        assert_eq!(Heads::of_sample(vec![same; 100], b"key"), Heads::behind(b"key"));
        assert_eq!(Heads::of_sample(Vec::new(), b""), Heads::behind(b""));
        // Zeros at the end of a key are not seen in a head.
        let zeros: Vec<Vec<u8>> = (0..100).map(|len| vec![0; len]).collect();
        let heads = Heads::of_sample(zeros.iter().map(Vec::as_slice).collect(), b"");
        assert!(zeros.iter().map(|key| heads.of(key)).is_sorted(), "{heads:?}");
        // More and more of the keys agree in a longer prefix.
        let long: Vec<Vec<u8>> = (0..200).map(|len| [vec![b'x'; 9 * len], vec![b'a']].concat()).collect();
        let heads = Heads::of_sample(long.iter().map(Vec::as_slice).collect(), b"");
        assert!(
            heads.parts.len() <= PARTS_MAX && long.iter().map(|key| heads.of(key)).is_sorted(),
            "{heads:?}"
        );
    }
}
