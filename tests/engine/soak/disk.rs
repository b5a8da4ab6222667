//! A file system that loses its power: ext4 in an image file, which lies on an XFS that shares blocks between files, which is an
//! image itself. A clone of the ext4 image, made in a millisecond while the store writes, is what a disk would hold after
//! the power went at that moment: what the kernel has not written back yet is missing.
//!
//! ```text
//! memory (tmpfs), or a directory    xfs.img --loop-- XFS    1.img --loop-- ext4    the store at work
//!                                                           cut-1.img --loop-- ext4    what the power cut left
//! ```
//!
//! All of it is mounted in a mount namespace of one process: it goes with the process, however that ends.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::judge::Outcome;
use test_kit::Rng;

/// Set in the process that has a mount namespace of its own.
const INSIDE: &str = "ESKER_SOAK_MOUNTS";

/// How that process says that it cannot mount.
const CANNOT: i32 = 77;

const TOOLS: [&str; 6] = ["unshare", "mount", "umount", "mkfs.xfs", "mkfs.ext4", "cp"];
/// What directories of disks are called, before the number of the process.
const DISK: &str = "disk-";
const XFS_BYTES: u64 = 3 << 30;
const EXT4_BYTES: u64 = 192 << 20;

/// Runs `test`, named `name`, in a process with mounts of its own; where that cannot be it is skipped, and says so.
pub(crate) fn with_own_mounts(name: &str, test: impl FnOnce(&Disk) -> Outcome<()>) {
    if std::env::var_os(INSIDE).is_some() {
        return inside(test);
    }
    if let Some(why) = what_is_missing() {
        return skip(name, &why);
    }
    remove_what_is_left();
    let exe = std::env::current_exe().expect("this test");
    let child = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "--"])
        .arg(exe)
        .args(["--exact", name, "--nocapture"])
        .env(INSIDE, "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = child.expect("unshare");
    // Held until the end: when this process is gone, that one goes.
    let order = child.stdin.take();
    let output = child.wait_with_output().expect("unshare");
    drop(order);
    remove_what_is_left();
    let (out, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    match output.status.code() {
        Some(0) => print!("{out}"),
        Some(CANNOT) => skip(name, errors.trim()),
        _ => panic!("{out}{errors}"),
    }
}

/// Directories of processes that have ended. Their mounts went with them.
fn remove_what_is_left() {
    for entry in std::fs::read_dir(crate::kills::ground()).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix(DISK)?.parse::<u32>().ok());
        if owner.is_some_and(|owner| !Path::new(&format!("/proc/{owner}")).exists()) {
            drop(std::fs::remove_dir_all(entry.path()));
        }
    }
}

fn inside(test: impl FnOnce(&Disk) -> Outcome<()>) {
    std::thread::Builder::new()
        .spawn(|| {
            drop(std::io::Read::read(&mut std::io::stdin(), &mut [0]));
            std::process::exit(3);
        })
        .expect("a thread");
    let disk = match Disk::mount() {
        Ok(disk) => disk,
        Err(why) => {
            eprintln!("{why}");
            std::process::exit(CANNOT);
        }
    };
    if let Err(what) = test(&disk) {
        panic!("{what}");
    }
}

fn what_is_missing() -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("only root can mount file systems".to_owned());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let has = |tool: &&str| std::env::split_paths(&path).any(|dir| dir.join(tool).is_file());
    let missing = TOOLS.iter().find(|tool| !has(tool));
    missing.map(|tool| {
        format!("{tool} is missing: install the packages mount, util-linux, xfsprogs and e2fsprogs")
    })
}

/// As `./test` wants to know it.
fn skip(name: &str, why: &str) {
    println!("skipped: {name}: {why}");
    if let Some(path) = std::env::var_os("ESKER_NOTES") {
        let mut file = std::fs::OpenOptions::new().append(true).create(true).open(path).expect("ESKER_NOTES");
        std::io::Write::write_all(&mut file, format!("{name}: {why}\n").as_bytes()).expect("ESKER_NOTES");
    }
}

/// Runs a tool; what it says is the error.
fn run(tool: &str, arguments: &[&str]) -> Outcome<()> {
    let output = Command::new(tool).args(arguments).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{tool}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    Err(format!("{tool} {}: {}", arguments.join(" "), errors.trim()))
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

/// The XFS with its images.
pub(crate) struct Disk {
    dir: PathBuf,
}

/// Whether images may be held in memory.
fn is_roomy() -> bool {
    let info = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = info.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.is_some_and(|kib| kib >= 6 << 20)
}

impl Disk {
    fn mount() -> Outcome<Disk> {
        let dir = crate::kills::ground().join(format!("{DISK}{}", std::process::id()));
        std::fs::create_dir_all(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
        if is_roomy() && std::env::var_os("ESKER_SOAK_DIR").is_none() {
            run("mount", &["-t", "tmpfs", "-o", "size=4g", "none", text(&dir)])?;
        }
        let (image, xfs) = (dir.join("xfs.img"), dir.join("xfs"));
        std::fs::create_dir(&xfs).map_err(|error| error.to_string())?;
        create(&image, XFS_BYTES)?;
        run("mkfs.xfs", &["-q", "-m", "reflink=1", text(&image)])?;
        run("mount", &["-o", "loop,noatime", text(&image), text(&xfs)])?;
        // It stays as long as it is mounted.
        std::fs::remove_file(&image).map_err(|error| error.to_string())?;
        let base = xfs.join("empty.img");
        create(&base, EXT4_BYTES)?;
        let options = ["-q", "-F", "-J", "size=4", "-E", "lazy_itable_init=0,lazy_journal_init=0"];
        run("mkfs.ext4", &[&options[..], &[text(&base)]].concat())?;
        let disk = Disk { dir: xfs };
        // A first clone: the file system might not know them.
        disk.clone_image("empty", "trial")?;
        disk.remove_image("trial");
        Ok(disk)
    }

    fn image(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}.img"))
    }

    /// `to` is `from` as it is at one moment during the call.
    pub(crate) fn clone_image(&self, from: &str, to: &str) -> Outcome<()> {
        let fault = |error: &dyn std::fmt::Display| format!("cloning {from}.img: {error}");
        let from = File::open(self.image(from)).map_err(|error| fault(&error))?;
        let to = File::create(self.image(to)).map_err(|error| fault(&error))?;
        rustix::fs::ioctl_ficlone(&to, &from).map_err(|error| fault(&error))
    }

    pub(crate) fn remove_image(&self, name: &str) {
        drop(std::fs::remove_file(self.image(name)));
    }

    /// Keeps an image for who looks further.
    pub(crate) fn keep_image(&self, name: &str, to: &Path) {
        drop(run("cp", &["--sparse=always", text(&self.image(name)), text(to)]));
    }

    /// Mounts an image; it is unmounted when what this returns is dropped.
    pub(crate) fn mount_image(&self, name: &str, options: &str) -> Outcome<Mounted> {
        let dir = self.dir.join(name);
        drop(std::fs::create_dir(&dir));
        run("mount", &["-o", &format!("loop,noatime{options}"), text(&self.image(name)), text(&dir)])?;
        Ok(Mounted { dir })
    }
}

fn create(path: &Path, len: u64) -> Outcome<()> {
    let made = File::create(path).and_then(|file| file.set_len(len));
    made.map_err(|error| format!("{}: {error}", path.display()))
}

pub(crate) struct Mounted {
    pub(crate) dir: PathBuf,
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // What a child that was killed still had open is closed by the time it is waited for.
        if run("umount", &[text(&self.dir)]).is_err() {
            drop(run("umount", &["--lazy", text(&self.dir)]));
        }
    }
}

/// Has the kernel write some pages of some files back, as it might at any time: what reaches the disk early, and in what
/// order, must not matter.
pub(crate) fn write_some_back(store: &Path, rng: &mut Rng) {
    let entries = std::fs::read_dir(store).into_iter().flatten().flatten();
    let files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    if files.is_empty() {
        return;
    }
    for _ in 0..1 + rng.below(3) {
        // Whatever has gone meanwhile is no matter.
        let Ok(file) = File::open(rng.pick(&files)) else { continue };
        let pages = file.metadata().map_or(0, |metadata| metadata.len().div_ceil(4096));
        if rng.one_in(8) {
            drop(file.sync_data());
            continue;
        }
        let longest = 1 << rng.below(10);
        let (from, count) = (rng.below(pages.max(1)), 1 + rng.below(longest));
        let flags = libc::SYNC_FILE_RANGE_WRITE | libc::SYNC_FILE_RANGE_WAIT_AFTER;
        // SAFETY: the descriptor is open, and the call takes nothing but numbers.
        unsafe {
            libc::sync_file_range(
                file.as_raw_fd(),
                (from * 4096).cast_signed(),
                (count * 4096).cast_signed(),
                flags,
            );
        }
    }
}
