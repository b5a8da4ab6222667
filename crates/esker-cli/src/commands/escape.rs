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
//! | `readme`, where `README` is the same name | `%72%65%61%64%6D%65` | the file system ignores case |
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

/// What a name on the way to a row's file is the name of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Directory,
    File,
}

/// The path of the row `key` below `dir`; `None` if the key has none. `claim` returns whether the row may have a path as
/// its file, or as a directory on the way to it; otherwise another name is tried. Rows must come in ascending order, so
/// that the file `a` is there before the directory of `a/b` is requested.
pub(crate) fn path_of<E>(
    dir: &Path,
    key: &[u8],
    mut claim: impl FnMut(&Path, Part) -> Result<bool, E>,
) -> Result<Option<PathBuf>, E> {
    let mut path = dir.to_path_buf();
    let mut parts = key.split(|&byte| byte == b'/').peekable();
    let mut len = 0;
    while let Some(part) = parts.next() {
        let kind = if parts.peek().is_some() { Part::Directory } else { Part::File };
        let mut names = names(part, kind).into_iter();
        loop {
            let Some(name) = names.next() else { return Ok(None) };
            if name.len() > PART_AT_MOST || len + name.len() + 1 > PATH_AT_MOST {
                return Ok(None);
            }
            let below = path.join(&name);
            if claim(&below, kind)? {
                len += name.len() + 1;
                path = below;
                break;
            }
        }
    }
    Ok(Some(path))
}

/// The names that a part of a key may have, the preferred one first.
fn names(part: &[u8], kind: Part) -> Vec<String> {
    let mut whole = String::with_capacity(part.len() * 3);
    part.iter().for_each(|byte| percent(*byte, &mut whole));
    let names = [escape(part), whole];
    match kind {
        Part::File => names.into(),
        Part::Directory => names.into_iter().flat_map(|name| [name.clone(), name + "%"]).collect(),
    }
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
    use std::convert::Infallible;
    use std::path::Component;

    /// The path of a key if no other key has one.
    fn free(key: &[u8]) -> Option<PathBuf> {
        path_of(Path::new(""), key, |_, _| Ok::<_, Infallible>(true)).unwrap()
    }

    #[track_caller]
    fn is(key: &[u8], path: &str) {
        assert_eq!(free(key).unwrap(), Path::new(path));
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
        assert!(free(&[b'x'; PART_AT_MOST + 1]).is_none());
        assert!(free("abc/".repeat(500).as_bytes()).is_none());
    }

    /// A file system: it has names, and finds them by `found_by`.
    struct Names {
        found_by: fn(&str) -> String,
        /// By what it is found: the name, and what it is.
        there: HashMap<String, (PathBuf, Part)>,
    }

    impl Names {
        /// As an export into a new directory claims paths.
        fn claim(&mut self, path: &Path, part: Part) -> bool {
            let found_by = (self.found_by)(path.to_str().unwrap());
            let (name, kind) = self.there.entry(found_by).or_insert((path.to_path_buf(), part));
            *kind == part && name == path
        }

        /// Exports `keys`, all of which must come back.
        fn export(&mut self, keys: &BTreeSet<Vec<u8>>) -> Vec<PathBuf> {
            let mut paths = Vec::new();
            for key in keys {
                let claim = |path: &Path, part| Ok::<_, Infallible>(self.claim(path, part));
                let path = path_of(Path::new("d"), key, claim).unwrap().unwrap();
                assert!(path.components().all(|part| matches!(part, Component::Normal(_))), "{path:?}");
                let below = path.strip_prefix("d").unwrap();
                assert_eq!(key_of(below.as_os_str().as_encoded_bytes()).unwrap(), *key, "{path:?}");
                assert!(!paths.contains(&path), "{path:?} has two keys");
                let found = &self.there[&(self.found_by)(path.to_str().unwrap())];
                assert_eq!(*found, (path.clone(), Part::File));
                paths.push(path);
            }
            paths
        }
    }

    fn shortest(alphabet: &[u8], len: usize) -> BTreeSet<Vec<u8>> {
        let mut keys: BTreeSet<Vec<u8>> = BTreeSet::from([vec![]]);
        for _ in 0..len {
            let longer =
                keys.iter().flat_map(|key| alphabet.iter().map(|byte| [key.as_slice(), &[*byte]].concat()));
            keys = keys.iter().cloned().chain(longer).collect();
        }
        keys.remove(&vec![]);
        keys
    }

    /// All short keys of dangerous bytes: each has its own path below the directory, no path is both a file and a
    /// directory, and each key is read back. The same where names that differ in case are one name.
    #[test]
    fn every_key_has_a_path_of_its_own_inside_and_comes_back() {
        for (found_by, alphabet, len) in [
            (str::to_owned as fn(&str) -> String, &[b'/', b'.', b'%', b'a', b'2', 0, 0xff][..], 4),
            (|path: &str| path.to_lowercase(), b"/aA%5", 4),
            (|path: &str| path.to_lowercase().replace('e', ""), b"/eE", 6),
        ] {
            let mut names = Names { found_by, there: HashMap::new() };
            names.export(&shortest(alphabet, len));
        }
    }

    #[test]
    fn one_of_two_names_that_are_the_same_is_escaped() {
        let keys = ["README", "Readme", "SRC/a", "src", "src/a", "src/b"].map(|key| key.as_bytes().to_vec());
        let mut names = Names { found_by: str::to_lowercase, there: HashMap::new() };
        let paths = names.export(&BTreeSet::from(keys));
        let expected = ["README", "%52%65%61%64%6D%65", "SRC/a", "%73%72%63", "src%/a", "src%/b"];
        assert_eq!(paths, expected.map(|path| Path::new("d").join(path)));
    }
}
