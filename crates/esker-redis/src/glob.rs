//! Patterns of keys and channels: `*`, `?`, `[a-c]`, `[^x]`, and a backslash before what stands for itself.

/// Whether `text` matches `pattern`. Each part between stars is looked for once, so no pattern takes longer than the
/// product of both lengths.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut from) = (0, 0);
    // Where to go on if what follows the last star does not match: behind the star, and one byte further in the text.
    let mut retry: Option<(usize, usize)> = None;
    while at < pattern.len() || from < text.len() {
        let step = match pattern.get(at) {
            Some(b'*') => {
                retry = Some((at + 1, from));
                Some((at + 1, from))
            }
            Some(_) => {
                text.get(from).and_then(|byte| one(&pattern[at..], *byte)).map(|len| (at + len, from + 1))
            }
            None => None,
        };
        (at, from) = match (step, retry) {
            (Some(next), _) => next,
            (None, Some((behind, begin))) if begin < text.len() => {
                retry = Some((behind, begin + 1));
                (behind, begin + 1)
            }
            (None, _) => return false,
        };
    }
    true
}

/// The length of the part of `pattern` that stands for one byte, if `byte` is one of these.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [b'?', ..] => Some(1),
        [b'\\', escaped, ..] => (*escaped == byte).then_some(2),
        [b'[', rest @ ..] => {
            let (len, is_in) = class(rest, byte);
            is_in.then_some(1 + len)
        }
        [plain, ..] => (*plain == byte).then_some(1),
        [] => None,
    }
}

/// The length of a class, behind its bracket, and whether `byte` is in it. A class that does not end goes to the end.
fn class(pattern: &[u8], byte: u8) -> (usize, bool) {
    let negated = pattern.first() == Some(&b'^');
    let (mut at, mut is_in) = (usize::from(negated), false);
    loop {
        match pattern.get(at..).unwrap_or(&[]) {
            [] => return (pattern.len(), is_in != negated),
            [b']', ..] => return (at + 1, is_in != negated),
            [b'\\', escaped, ..] => {
                is_in |= *escaped == byte;
                at += 2;
            }
            [first, b'-', last, ..] => {
                is_in |= (*first.min(last)..=*first.max(last)).contains(&byte);
                at += 3;
            }
            [plain, ..] => {
                is_in |= *plain == byte;
                at += 1;
            }
        }
    }
}

/// The bytes with which everything begins that matches `pattern`.
pub fn literal_prefix(pattern: &[u8]) -> &[u8] {
    let end = pattern.iter().position(|byte| matches!(byte, b'*' | b'?' | b'[' | b'\\'));
    &pattern[..end.unwrap_or(pattern.len())]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_what_they_say() {
        for (pattern, text, expected) in [
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("**", "abc", true),
            ("h?llo", "hello", true),
            ("h?llo", "hllo", false),
            ("h[ae]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[a-b]llo", "hbllo", true),
            ("h[b-a]llo", "hallo", true),
            ("h\\*llo", "h*llo", true),
            ("h\\*llo", "hallo", false),
            ("a*b*c", "axxbyybzzc", true),
            ("a*b*c", "axxbyybzz", false),
            ("[\\]]", "]", true),
            ("a[bc", "ab", true),
            ("foo*", "fo", false),
            ("*a", "aaab", false),
            ("*aab", "aaab", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
        let (stars, text) = ("a*".repeat(50) + "b", "a".repeat(10_000));
        assert!(!matches(stars.as_bytes(), text.as_bytes()));
        assert_eq!(literal_prefix(b"user:*"), b"user:");
    }
}
