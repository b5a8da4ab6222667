//! The small files that a server reads and writes itself: certificates, keys, passwords, users.
//!
//! Whatever lies at a path, reading it ends and takes little memory. Writing it leaves the old file or the new one.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The whole of a regular file of at most `most` bytes.
///
/// # Errors
/// What keeps it from that, with the path.
pub(crate) fn read(path: &Path, most: usize) -> Result<Vec<u8>, String> {
    let told = |what: &dyn std::fmt::Display| format!("cannot read {}: {what}", path.display());
    // A pipe that nobody writes to would be waited for.
    let is_file = |metadata: &std::fs::Metadata| metadata.is_file();
    if !std::fs::metadata(path).is_ok_and(|metadata| is_file(&metadata)) {
        return Err(match std::fs::metadata(path) {
            Ok(_) => told(&"it is no regular file"),
            Err(error) => told(&error),
        });
    }
    let file = File::open(path).map_err(|error| told(&error))?;
    let mut bytes = Vec::new();
    file.take(most as u64 + 1).read_to_end(&mut bytes).map_err(|error| told(&error))?;
    if bytes.len() > most { Err(told(&format_args!("it has more than {most} bytes"))) } else { Ok(bytes) }
}

/// Whether other users of the machine may read the file.
pub(crate) fn is_open_to_others(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & 0o007 != 0)
}

/// Makes `bytes` the content of the file, for this user only: all of them, or nothing has changed. A link is followed.
///
/// # Errors
/// What keeps it from that, with the path.
pub(crate) fn replace(path: &Path, bytes: &[u8]) -> Result<(), String> {
    let told = |error: io::Error| format!("cannot write {}: {error}", path.display());
    let path = match std::fs::canonicalize(path) {
        Ok(path) => path,
        Err(error) if error.kind() == io::ErrorKind::NotFound => path.to_path_buf(),
        Err(error) => return Err(told(error)),
    };
    let new = beside(&path);
    let done = write_new(&new, bytes).and_then(|()| put_in_place(&new, &path));
    if done.is_err() {
        remove(&new);
    }
    done.map_err(told)
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    PathBuf::from(name)
}

fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // One that a killed server of this number has left.
    remove(path);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

#[expect(clippy::disallowed_methods, reason = "this is no file of a store")]
fn put_in_place(new: &Path, path: &Path) -> io::Result<()> {
    std::fs::rename(new, path)?;
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
    File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
}

#[expect(clippy::disallowed_methods, reason = "this is no file of a store")]
fn remove(path: &Path) {
    // What is not there needs not be removed; what cannot be removed makes the next step fail.
    let _ = std::fs::remove_file(path);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_small_regular_files_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        replace(&path, b"12345").unwrap();
        assert_eq!(read(&path, 5).unwrap(), b"12345");
        assert!(read(&path, 4).unwrap_err().ends_with("it has more than 4 bytes"));
        assert!(!is_open_to_others(&path));
        // A file with a hole of 1 GB.
        File::options().write(true).open(&path).unwrap().set_len(1 << 30).unwrap();
        assert!(read(&path, 1 << 20).unwrap_err().ends_with("it has more than 1048576 bytes"));
        for odd in [dir.path(), Path::new("/dev/zero"), Path::new("/dev/null")] {
            assert!(read(odd, 1 << 20).unwrap_err().ends_with("it is no regular file"), "{odd:?}");
        }
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&link, &link).unwrap();
        for absent in [&link, &dir.path().join("absent")] {
            assert!(read(absent, 1 << 20).unwrap_err().starts_with("cannot read "));
        }
    }

    #[test]
    fn a_link_is_followed_and_stays() {
        let dir = tempfile::tempdir().unwrap();
        let (path, link) = (dir.path().join("file"), dir.path().join("link"));
        replace(&path, b"old").unwrap();
        std::os::unix::fs::symlink(&path, &link).unwrap();
        replace(&link, b"new").unwrap();
        assert_eq!(read(&path, 10).unwrap(), b"new");
        assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
        assert!(replace(&dir.path().join("absent/file"), b"x").is_err());
        assert!(replace(dir.path(), b"x").is_err());
        assert!(!beside(&path).exists() && !beside(dir.path()).exists());
    }
}
