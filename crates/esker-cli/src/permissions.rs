//! Who may open a file that a command writes.
//!
//! While it is written, only the user who runs the command may: the data may be that of a file which others may not read.
//! When it is whole, it gets the permissions of the file that it replaces, or those of any new file.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::Path;
use std::sync::OnceLock;

/// The mode of a file that is being written.
pub(crate) const PRIVATE: u32 = 0o600;

/// Gives `file`, which will be `target`, the mode, the owner and the group of the file that is there now. Without one it
/// gets the mode of any new file.
pub(crate) fn take_over(file: &File, target: &Path) -> io::Result<()> {
    let old = match fs::symlink_metadata(target) {
        Ok(found) => found.is_file().then_some(found),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let mode = match old {
        None => 0o666 & !creation_mask(),
        Some(old) => {
            // Only root may give a file to another user. Others may give it to a group of theirs.
            let given = fchown(file, Some(old.uid()), Some(old.gid()));
            let _ = given.or_else(|_| fchown(file, None, Some(old.gid())));
            let mode = old.mode() & 0o777;
            match file.metadata()?.gid() == old.gid() {
                true => mode,
                // Another group must not have more than everybody has.
                false => mode & !0o070 | mode & (mode & 0o007) << 3,
            }
        }
    };
    match file.set_permissions(Permissions::from_mode(mode)) {
        // A file system without permissions has nothing to keep.
        Err(error)
            if matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::Unsupported) =>
        {
            Ok(())
        }
        set => set,
    }
}

/// The permissions that this process denies for new files. If the system does not tell, all but those of the user.
fn creation_mask() -> u32 {
    static MASK: OnceLock<u32> = OnceLock::new();
    *MASK.get_or_init(|| {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix("Umask:"));
        mask.and_then(|digits| u32::from_str_radix(digits.trim(), 8).ok()).unwrap_or(0o077)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_gets_the_mode_of_the_one_that_it_replaces() {
        let dir = tempfile::tempdir().unwrap();
        let (new, target) = (dir.path().join("new"), dir.path().join("target"));
        let mode_over = |old: Option<u32>| {
            let _ = fs::remove_file(&target);
            if let Some(mode) = old {
                fs::write(&target, "old").unwrap();
                fs::set_permissions(&target, Permissions::from_mode(mode)).unwrap();
            }
            let file = File::create(&new).unwrap();
            file.set_permissions(Permissions::from_mode(PRIVATE)).unwrap();
            take_over(&file, &target).unwrap();
            file.metadata().unwrap().mode() & 0o7777
        };
        for mode in [0o600, 0o640, 0o664, 0o444, 0o755, 0o000] {
            assert_eq!(mode_over(Some(mode)), mode, "{mode:o}");
        }
        let fresh = dir.path().join("fresh");
        fs::write(&fresh, "").unwrap();
        assert_eq!(mode_over(None), fs::metadata(fresh).unwrap().mode() & 0o7777);
    }
}
