//! The names that `esker export DIR/` has given, and those that it finds: which of them belong to which row.
//!
//! Some file systems take two names for one: they ignore case, normalize characters, or leave out a dot at the end. There
//! the file of one row must not replace another row's. A name is free if nothing is found by it. If something is found,
//! it counts as the row's own, from an earlier export, only if the directory lists exactly that name.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::path::{Path, PathBuf};

use super::escape::{MARKER, Part};
use crate::exit::{Failure, Outcome};

pub(super) struct Names {
    /// Directories that are known to exist. Each row needs some, but each is created once.
    made: HashSet<PathBuf>,
    /// Digests of the names in directories in which it mattered, of those on the way to the last row.
    listed: Vec<(PathBuf, HashSet<u64>)>,
    hasher: RandomState,
    /// The marker of the export, which exists.
    marker: PathBuf,
    /// Whether the file system leaves out a dot at the end of a name, as FAT does. `None` until it matters.
    drops_dots: Option<bool>,
}

impl Names {
    /// For an export into `dir`, which exists.
    pub(super) fn below(dir: &Path) -> Names {
        let (made, marker) = (HashSet::from([dir.to_path_buf()]), dir.join(MARKER));
        Names { made, listed: Vec::new(), hasher: RandomState::new(), marker, drops_dots: None }
    }

    /// Whether a row may have `path` as its file, or as a directory on the way to it. Creates the directory.
    pub(super) fn claim(&mut self, path: &Path, part: Part) -> Outcome<bool> {
        match part {
            Part::Directory => self.directory(path),
            Part::File => self.file(path),
        }
    }

    fn file(&mut self, path: &Path) -> Outcome<bool> {
        let is_own = match fs::symlink_metadata(path) {
            Ok(found) if found.is_dir() => false,
            Ok(_) => self.is_listed(path)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => self.keeps_its_end(path),
            Err(error) => return Err(Failure::io("read", path, &error)),
        };
        if is_own {
            self.note(path);
        }
        Ok(is_own)
    }

    /// Creates the directory `path`, unless it exists. Returns whether it is one of that name. Called for a directory
    /// after the one that it is in, so that none of them is a link that leads elsewhere.
    pub(super) fn directory(&mut self, path: &Path) -> Outcome<bool> {
        if self.made.contains(path) {
            return Ok(true);
        }
        if !self.keeps_its_end(path) {
            return Ok(false);
        }
        match fs::create_dir(path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                let found = fs::symlink_metadata(path).map_err(|error| Failure::io("read", path, &error))?;
                if found.is_file() || !self.is_listed(path)? {
                    return Ok(false);
                }
                if !found.is_dir() {
                    return Err(Failure::usage(format!(
                        "{} is in the way: it is not a directory; export into a new directory",
                        path.display()
                    )));
                }
            }
            Err(error) => return Err(Failure::io("create", path, &error)),
        }
        self.note(path);
        self.made.insert(path.to_path_buf());
        Ok(true)
    }

    /// Whether what was found by `path` has that name, letter by letter.
    fn is_listed(&mut self, path: &Path) -> Outcome<bool> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Ok(false) };
        if is_exact(parent, name) {
            return Ok(true);
        }
        // Rows come in order: the other directories are done.
        self.listed.retain(|(dir, _)| parent.starts_with(dir));
        let digest = self.hasher.hash_one(name);
        if let Some((_, names)) = self.listed.iter().find(|(dir, _)| dir == parent) {
            return Ok(names.contains(&digest));
        }
        let entries = fs::read_dir(parent);
        let names = entries.and_then(|entries| {
            entries.map(|entry| Ok(self.hasher.hash_one(entry?.file_name()))).collect::<io::Result<_>>()
        });
        let names: HashSet<u64> = names.map_err(|error| Failure::io("read", parent, &error))?;
        let is_listed = names.contains(&digest);
        self.listed.push((parent.to_path_buf(), names));
        Ok(is_listed)
    }

    /// Whether a file gets exactly the name `path`.
    fn keeps_its_end(&mut self, path: &Path) -> bool {
        if !path.as_os_str().as_encoded_bytes().ends_with(b".") {
            return true;
        }
        let marker = &self.marker;
        !*self.drops_dots.get_or_insert_with(|| {
            let mut dotted = marker.as_os_str().to_owned();
            dotted.push(".");
            fs::symlink_metadata(dotted).is_ok()
        })
    }

    /// Notes that the name `path` is given.
    fn note(&mut self, path: &Path) {
        if let (Some(parent), Some(name)) = (path.parent(), path.file_name())
            && let Some((_, names)) = self.listed.iter_mut().find(|(dir, _)| dir == parent)
        {
            names.insert(self.hasher.hash_one(name));
        }
    }
}

/// Whether one look at the file system shows that what is found by `name` has this name, and not one that is taken for
/// it: nothing is found by the name in the other case. A name beyond ASCII could be found in more ways.
fn is_exact(parent: &Path, name: &OsStr) -> bool {
    let Some(name) = name.to_str().filter(|name| name.is_ascii()) else { return false };
    let other: String = name
        .chars()
        .map(|c| if c.is_ascii_lowercase() { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() })
        .collect();
    // Short names of FAT have a tilde. The numbers of files would say nothing: some file systems number them by the names asked for.
    other != name && !name.contains('~') && fs::symlink_metadata(parent.join(other)).is_err()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_earlier_export_wrote_is_its_own_and_another_name_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for name in ["a", "Ä", "7", "b."] {
            fs::write(at(name), "x").unwrap();
        }
        fs::create_dir(at("d")).unwrap();
        // As a file system that ignores case finds it.
        fs::hard_link(at("a"), at("A")).unwrap();
        let mut names = Names::below(dir.path());
        for name in ["a", "Ä", "7", "b.", "new", "new."] {
            assert!(names.claim(&at(name), Part::File).unwrap(), "{name}");
        }
        fs::remove_file(at("A")).unwrap();
        assert!(!names.claim(&at("d"), Part::File).unwrap());
        assert!(!names.claim(&at("a"), Part::Directory).unwrap());
        assert!(names.claim(&at("d"), Part::Directory).unwrap());
        assert!(names.claim(&at("e"), Part::Directory).unwrap());
        std::os::unix::fs::symlink("elsewhere", at("link")).unwrap();
        assert!(names.claim(&at("link"), Part::Directory).is_err());
    }

    #[test]
    fn a_dot_at_the_end_is_escaped_where_it_would_be_left_out() {
        for drops_dots in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let marker = if drops_dots { format!("{MARKER}.") } else { MARKER.to_owned() };
            fs::write(dir.path().join(marker), "x").unwrap();
            let mut names = Names::below(dir.path());
            for part in [Part::File, Part::Directory] {
                assert!(names.claim(&dir.path().join("a"), part).unwrap());
                assert_eq!(names.claim(&dir.path().join("b."), part).unwrap(), !drops_dots);
            }
        }
    }

    #[test]
    fn a_name_that_is_found_and_not_listed_is_another_row_s() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("README"), "x").unwrap();
        let mut names = Names::below(dir.path());
        assert!(names.is_listed(&dir.path().join("README")).unwrap());
        assert!(!names.is_listed(&dir.path().join("öther")).unwrap());
        assert!(!names.is_listed(&dir.path().join("LONGNA~1")).unwrap());
        names.note(&dir.path().join("öther"));
        assert!(names.is_listed(&dir.path().join("öther")).unwrap());
    }
}
