//! Keys as paths below a directory, and back, whatever bytes a key has.
//!
//! A key is split at each `/`; each part becomes a file or directory name:
//!
//! | in the key | in the path | why |
//! |---|---|---|
//! | `%`, control characters, bytes that are not UTF-8 | `%25`, `%00`, `%FF` | not in names, or not everywhere |
//! | a part that is `.` or `..` | `%2E`, `%2E%2E` | would lead elsewhere |
//! | an empty part (`/abs`, `a//b`, `a/`) | `%` | a name is not empty |
//! | `a` and `a/b` both | file `a`, directory `a%` | one name, one thing |
//! | the name of the marker | `%2Eesker-export` | the marker has it |
//! | a part over 240 bytes, a path over 1,024 | `%long/N.key` and `%long/N.value` | names have limits |
//!
//! So a `%` is followed by two hex digits, or only by further `%` up to the end of the name; in the second case it
//! stands for nothing. The key depends on the path alone, and no two keys share a path.

use std::path::{Path, PathBuf};

/// The file that marks a directory as an export.
pub(super) const MARKER: &str = ".esker-export";
/// The name of a file while it is written. No key becomes this name: `tm` is not hex.
pub(super) const UNFINISHED: &str = "%tmp";
/// The directory of rows whose keys are too long for a path. No key becomes this name: `lo` is not hex.
pub(super) const LONG: &str = "%long";

const PART_AT_MOST: usize = 240;
const PATH_AT_MOST: usize = 1024;

/// The path of the row `key` below `dir`; `None` if the key is too long for one. `is_file` returns whether an earlier
/// row's file has that path. Rows must come in ascending order, so that the file `a` is there before the directory of
/// `a/b` is requested.
pub(crate) fn path_of(dir: &Path, key: &[u8], is_file: impl Fn(&Path) -> bool) -> Option<PathBuf> {
    let mut path = dir.to_path_buf();
    let mut parts = key.split(|&byte| byte == b'/').peekable();
    let mut len = 0;
    while let Some(part) = parts.next() {
        let mut name = escape(part);
        let is_directory = parts.peek().is_some();
        if is_directory && is_file(&path.join(&name)) {
            name.push('%');
        }
        len += name.len() + 1;
        if name.len() > PART_AT_MOST || len > PATH_AT_MOST {
            return None;
        }
        path.push(name);
    }
    Some(path)
}

/// The key whose path below the export's directory is `path`; `None` if there is no such key.
pub(crate) fn key_of(path: &[u8]) -> Option<Vec<u8>> {
    let mut key = Vec::with_capacity(path.len());
    for (i, name) in path.split(|&byte| byte == b'/').enumerate() {
        if i > 0 {
            key.push(b'/');
        }
        unescape(name, &mut key)?;
    }
    Some(key)
}

fn escape(part: &[u8]) -> String {
    if part.is_empty() {
        return "%".to_owned();
    }
    // `scripts/canaries` breaks this, to prove that the tests notice.
    let is_canary =
        cfg!(esker_canary) && std::env::var_os("ESKER_CANARY").is_some_and(|name| name == "rule-25");
    let dots = (part == b"." || part == b"..") && !is_canary;
    let marker = part == MARKER.as_bytes();
    let mut name = String::with_capacity(part.len());
    for chunk in part.utf8_chunks() {
        for c in chunk.valid().chars() {
            let first_dot = c == '.' && (dots || (marker && name.is_empty()));
            match c {
                '%' | '\0'..' ' | '\x7f' => percent(c as u8, &mut name),
                _ if first_dot => percent(b'.', &mut name),
                _ => name.push(c),
            }
        }
        chunk.invalid().iter().for_each(|byte| percent(*byte, &mut name));
    }
    name
}

fn percent(byte: u8, name: &mut String) {
    name.push_str(&format!("%{byte:02X}"));
}

fn unescape(name: &[u8], key: &mut Vec<u8>) -> Option<()> {
    let mut rest = name;
    while let [byte, after @ ..] = rest {
        if *byte != b'%' {
            key.push(*byte);
            rest = after;
            continue;
        }
        if after.iter().all(|byte| *byte == b'%') {
            return Some(());
        }
        let (digits, after) = after.split_first_chunk::<2>()?;
        let hex = |digit: u8| (digit as char).to_digit(16).map(|value| value as u8);
        key.push(hex(digits[0])? << 4 | hex(digits[1])?);
        rest = after;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::{BTreeSet, HashMap};
    use std::path::Component;

    #[track_caller]
    fn is(key: &[u8], path: &str) {
        let made = path_of(Path::new(""), key, |_| false).unwrap();
        assert_eq!(made, Path::new(path));
        assert_eq!(key_of(path.as_bytes()).unwrap(), key);
    }

    #[test]
    fn keys_that_no_file_name_can_hold() {
        is(b"a/b.txt", "a/b.txt");
        is("höhe".as_bytes(), "höhe");
        is(b"../x", "%2E%2E/x");
        is(b"./x", "%2E/x");
        is(b"/abs", "%/abs");
        is(b"a//b", "a/%/b");
        is(b"a/", "a/%");
        is(b"/", "%/%");
        is(b"100%", "100%25");
        is(b"%", "%25");
        is(b"a\0b\n", "a%00b%0A");
        is(b"\xff\xc3", "%FF%C3");
        is(b".esker-export", "%2Eesker-export");
        is(b"a/.esker-export", "a/%2Eesker-export");
        is(b"...", "...");
    }

    #[test]
    fn names_that_export_never_writes() {
        for path in ["%4", "%zz", "%long/1.key", "%tmp", "a%2", "a%%b"] {
            assert_eq!(key_of(path.as_bytes()), None, "{path}");
        }
        assert_eq!(key_of(b"a%/b").unwrap(), b"a/b");
    }

    #[test]
    fn long_keys_have_no_path() {
        assert!(path_of(Path::new(""), &[b'x'; PART_AT_MOST + 1], |_| false).is_none());
        assert!(path_of(Path::new(""), "abc/".repeat(500).as_bytes(), |_| false).is_none());
    }

    /// All short keys of dangerous bytes: each has its own path below the directory, no path is both a file and a
    /// directory, and each key is read back.
    #[test]
    fn every_key_has_a_path_of_its_own_inside_and_comes_back() {
        let alphabet = [b'/', b'.', b'%', b'a', b'2', 0, 0xff];
        let mut keys: BTreeSet<Vec<u8>> = BTreeSet::from([vec![]]);
        for _ in 0..5 {
            let longer = keys.iter().flat_map(|key| alphabet.map(|byte| [key.as_slice(), &[byte]].concat()));
            keys = keys.iter().cloned().chain(longer).collect();
        }
        keys.remove(&vec![]);
        let mut files: HashMap<PathBuf, Vec<u8>> = HashMap::new();
        let mut directories = BTreeSet::new();
        for key in keys {
            let path = path_of(Path::new("d"), &key, |path| files.contains_key(path)).unwrap();
            assert!(path.components().all(|part| matches!(part, Component::Normal(_))), "{path:?}");
            let below = path.strip_prefix("d").unwrap();
            assert_eq!(key_of(below.as_os_str().as_encoded_bytes()).unwrap(), key, "{path:?}");
            directories.extend(path.ancestors().skip(1).map(Path::to_path_buf));
            assert!(!directories.contains(&path), "{path:?} is a directory");
            let other = files.insert(path.clone(), key);
            assert_eq!(other, None, "{path:?}");
        }
        assert!(files.keys().all(|file| !directories.contains(file)));
    }
}
