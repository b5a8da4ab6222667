//! The memory that control groups leave to this process: the lowest limit of its own group and of the groups around it.
//!
//! ```text
//! /proc/self/cgroup       0::/a/b                    or     4:memory:/a/b
//! /proc/self/mountinfo    ... / /sys/fs/cgroup - cgroup2    ... / /sys/fs/cgroup/memory - cgroup ... memory
//! limits                  <mount>/a/b/memory.max            <mount>/a/b/memory.limit_in_bytes
//!                         <mount>/a/memory.max ...
//! ```
//!
//! Nothing outside the mount is read, regardless of the contents of these files. Invalid content counts as no limit.

use std::fs::File;
use std::io::Read;
use std::path::{Component, Path, PathBuf};

/// At most this many bytes of a file are read.
const FILE_LEN_MAX: u64 = 1 << 20;

/// Groups are nested at most this deep.
const DEPTH_MAX: usize = 64;

/// The limit in bytes; `None` if there is no limit.
pub(in crate::fs) fn memory_limit() -> Option<u64> {
    let read = |path: &Path| {
        let mut text = String::new();
        File::open(path).ok()?.take(FILE_LEN_MAX).read_to_string(&mut text).ok()?;
        Some(text)
    };
    let groups = read(Path::new("/proc/self/cgroup"))?;
    let mounts = read(Path::new("/proc/self/mountinfo"))?;
    limit_in(&groups, &mounts, &read)
}

/// A hierarchy of groups; it decides the name of the file that holds a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    V1,
    V2,
}

impl Version {
    fn file(self) -> &'static str {
        match self {
            Version::V1 => "memory.limit_in_bytes",
            Version::V2 => "memory.max",
        }
    }
}

/// The lowest limit that `read` finds for a process of these groups, with these mounts.
fn limit_in(groups: &str, mounts: &str, read: &dyn Fn(&Path) -> Option<String>) -> Option<u64> {
    let limits = groups.lines().filter_map(|line| {
        let (version, group) = group_of(line)?;
        let mounted = mounts.lines().filter_map(|line| mount_of(line, version));
        mounted.filter_map(|(root, mount)| least_limit(version, &mount, &inside(group, &root), read)).min()
    });
    limits.min()
}

/// The group that a line of `/proc/self/cgroup` names, if the line is about memory.
fn group_of(line: &str) -> Option<(Version, &Path)> {
    let mut parts = line.splitn(3, ':');
    let (_, controllers, group) = (parts.next()?, parts.next()?, parts.next()?);
    let version = match controllers {
        "" => Version::V2,
        names if names.split(',').any(|name| name == "memory") => Version::V1,
        _ => return None,
    };
    Some((version, Path::new(group)))
}

/// The group that a line of `/proc/self/mountinfo` shows, and the mount point, if the mount shows memory groups of
/// `version`.
fn mount_of(line: &str, version: Version) -> Option<(PathBuf, PathBuf)> {
    let (before, behind) = line.split_once(" - ")?;
    let mut before = before.split(' ').skip(3);
    let (root, mount) = (unescaped(before.next()?)?, unescaped(before.next()?)?);
    let mut behind = behind.split(' ');
    let (kind, options) = (behind.next()?, behind.nth(1)?);
    let is_it = match version {
        Version::V2 => kind == "cgroup2",
        Version::V1 => kind == "cgroup" && options.split(',').any(|option| option == "memory"),
    };
    is_it.then_some((root, mount))
}

/// Decodes a path in which the kernel wrote blanks and backslashes as three octal digits.
fn unescaped(path: &str) -> Option<PathBuf> {
    let mut out = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        if byte == b'\\' {
            let digits = std::str::from_utf8(rest.get(..3)?).ok()?;
            out.push(u8::from_str_radix(digits, 8).ok()?);
            rest = &rest[3..];
        } else {
            out.push(byte);
        }
    }
    String::from_utf8(out).ok().map(PathBuf::from)
}

/// The place of the group inside a mount that shows `root`. A group outside counts as the mount's top, as in a
/// container that does not know its own namespace.
fn inside(group: &Path, root: &Path) -> PathBuf {
    let relative = group.strip_prefix(root).unwrap_or(Path::new(""));
    let is_plain = relative.components().all(|component| matches!(component, Component::Normal(_)));
    if is_plain && relative.components().count() <= DEPTH_MAX {
        relative.to_path_buf()
    } else {
        PathBuf::new()
    }
}

/// The lowest limit of `group` and of the groups around it, up to the mount.
fn least_limit(
    version: Version,
    mount: &Path,
    group: &Path,
    read: &dyn Fn(&Path) -> Option<String>,
) -> Option<u64> {
    let limits = group.ancestors().filter_map(|group| {
        // "max" is not a number; everything that is not a number means no limit.
        read(&mount.join(group).join(version.file()))?.trim().parse::<u64>().ok()
    });
    limits.min()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "31 23 0:28 / /sys/fs/cgroup rw,relatime shared:9 - tmpfs tmpfs rw,mode=755\n\
        35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n\
        34 31 0:31 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n\
        41 31 0:38 / /sys/fs/cgroup/uni\\040fied rw,relatime shared:4 master:2 - cgroup2 cgroup2 rw\n\
        50 31 0:38 /docker/abc /mnt/own rw - cgroup2 cgroup2 rw\n";

    /// The limit that is found when these are the files.
    fn found(groups: &str, mounts: &str, files: &[(&str, &str)]) -> Option<u64> {
        let read = |path: &Path| {
            let plain = path.components().all(|part| !matches!(part, Component::ParentDir));
            assert!(plain && path.starts_with("/sys/fs/cgroup") || path.starts_with("/mnt"), "{path:?}");
            let file = files.iter().find(|(name, _)| Path::new(name) == path);
            file.map(|(_, text)| (*text).to_owned())
        };
        limit_in(groups, mounts, &read)
    }

    #[test]
    fn the_least_limit_of_a_group_and_those_around_it_counts() {
        let v1 = [
            ("/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes", "9223372036854771712\n"),
            ("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "67108864\n"),
            ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
        ];
        assert_eq!(found("4:memory:/a/b\n0::/\n", MOUNTS, &v1), Some(64 << 20));
        assert_eq!(found("4:cpu:/a/b\n", MOUNTS, &v1), None);
        assert_eq!(found("4:cpu,memory:/a\n", MOUNTS, &v1), Some(64 << 20));
        let v2 = [
            ("/sys/fs/cgroup/uni fied/docker/abc/memory.max", "max\n"),
            ("/sys/fs/cgroup/uni fied/docker/memory.max", "1048576\n"),
            ("/mnt/own/memory.max", "2097152\n"),
        ];
        assert_eq!(found("0::/docker/abc\n", MOUNTS, &v2), Some(1 << 20));
        assert_eq!(found("0::/docker/abc\n", MOUNTS, &v2[2..]), Some(2 << 20));
        assert_eq!(found("0::/docker/abc\n", MOUNTS, &v2[..1]), None);
        // A group outside the mount gets the limit at the mount's top.
        assert_eq!(found("0::/elsewhere\n", MOUNTS, &v2[2..]), Some(2 << 20));
    }

    #[test]
    fn hostile_files_are_no_limit_and_lead_nowhere() {
        let top = [("/mnt/own/memory.max", "5"), ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "7")];
        assert_eq!(found("0::/docker/abc/../../../../etc\n", MOUNTS, &top), Some(5));
        assert_eq!(found("4:memory:../../etc\n", MOUNTS, &top), Some(7));
        assert_eq!(found(&format!("4:memory:{}\n", "/a".repeat(100_000)), MOUNTS, &top), Some(7));
        for groups in ["", "\n", ":", "0:", "0::", "4:memory", "::::", "\u{0}\n0::", "4:memory:\u{0}"] {
            for mounts in
                ["", " - ", "a b c d e f - cgroup2", "1 2 3 / \\9 - cgroup2 x y", "1 2 3 / \\ - cgroup2 x y"]
            {
                assert_eq!(found(groups, mounts, &[]), None);
            }
        }
        for text in ["", "max", "-1", "1e9", "99999999999999999999999", "12 34", "\u{0}"] {
            assert_eq!(found("0::/docker/abc", MOUNTS, &[("/mnt/own/memory.max", text)]), None, "{text:?}");
        }
    }
}
