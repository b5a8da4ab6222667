//! File systems in image files, mounted over loop devices: full ones, and ones whose power fails.
//!
//! ```text
//! host.img (XFS, which clones files in milliseconds) -- host/disk.img (ext4) -- disk/
//! ```

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "it makes real files")]

use std::fmt::Display;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// The smallest that XFS takes, and some.
const HOST_BYTES: u64 = 600 << 20;

/// A directory with a file system mounted on it, unmounted when dropped.
struct Mount(PathBuf);

impl Mount {
    fn new(image: &Path, at: &Path) -> Result<Mount, String> {
        run(Command::new("mount").arg("-o").arg("loop").arg(image).arg(at))?;
        Ok(Mount(at.to_path_buf()))
    }

    fn unmount(&mut self) -> Result<(), String> {
        run(Command::new("umount").arg(&self.0))
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if self.unmount().is_err() {
            // Something in it is still open: it goes with that.
            let _ = run(Command::new("umount").arg("-l").arg(&self.0));
        }
    }
}

/// A mounted ext4 file system.
pub struct Disk {
    // In the order in which they go.
    mount: Option<Mount>,
    _host: Mount,
    dir: TempDir,
}

impl Disk {
    /// A file system on a device of `bytes`; `None` where this process may not mount one: then the test named `test` is
    /// noted as skipped.
    pub fn new(test: &str, bytes: u64) -> Option<Disk> {
        match Disk::make(bytes) {
            Ok(disk) => Some(disk),
            Err(why) => {
                skip(test, why);
                None
            }
        }
    }

    fn make(bytes: u64) -> Result<Disk, String> {
        let dir = TempDir::new().map_err(|error| error.to_string())?;
        let at = |name: &str| dir.path().join(name);
        for name in ["host", "disk"] {
            fs::create_dir(at(name)).map_err(|error| error.to_string())?;
        }
        image(&at("host.img"), HOST_BYTES)?;
        run(Command::new("mkfs.xfs").args(["-q", "-m", "reflink=1"]).arg(at("host.img")))?;
        let host = Mount::new(&at("host.img"), &at("host"))?;
        image(&at("host/disk.img"), bytes)?;
        // No blocks are kept for root, which tests may run as.
        run(Command::new("mkfs.ext4").args(["-q", "-F", "-m", "0"]).arg(at("host/disk.img")))?;
        let mount = Mount::new(&at("host/disk.img"), &at("disk"))?;
        Ok(Disk { mount: Some(mount), _host: host, dir })
    }

    /// Where it is mounted.
    pub fn path(&self) -> PathBuf {
        self.dir.path().join("disk")
    }

    /// What has reached the device now, for [`Disk::come_back`].
    pub fn go_away(&self) -> PathBuf {
        let (from, to) = (self.dir.path().join("host/disk.img"), self.dir.path().join("host/left.img"));
        run(Command::new("cp").arg("--reflink=always").arg(from).arg(&to)).unwrap();
        to
    }

    /// Mounts what had reached the device when it went away, in the old place. Nothing in that is open any more.
    pub fn come_back(&mut self, left: &Path) {
        if let Some(mut old) = self.mount.take() {
            old.unmount().unwrap();
            std::mem::forget(old);
        }
        fs::rename(left, self.dir.path().join("host/disk.img")).unwrap();
        self.mount = Some(Mount::new(&self.dir.path().join("host/disk.img"), &self.path()).unwrap());
    }
}

fn image(path: &Path, bytes: u64) -> Result<(), String> {
    fs::File::create(path).and_then(|file| file.set_len(bytes)).map_err(|error| error.to_string())
}

fn run(command: &mut Command) -> Result<(), String> {
    let said = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    match said.status.success() {
        true => Ok(()),
        false => Err(format!("{command:?}: {}", String::from_utf8_lossy(&said.stderr).trim())),
    }
}

/// Tells `./test`, which counts what was skipped.
fn skip(test: &str, why: impl Display) {
    println!("skipped {test}: {why}");
    if let Some(path) = std::env::var_os("ESKER_NOTES") {
        let mut list = fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
        writeln!(list, "{test}: it needs root, loop devices, mkfs.ext4 and mkfs.xfs ({why})").unwrap();
    }
}
