//! One value that is longer than memory should have to be. `ESKER_HUGE=1` makes it 5 GiB, beyond what 32 bits count,
//! and takes 16 GiB of disk and some minutes; without it a shorter one shows the same of memory.

use std::fs::{self, File};
use std::io::{BufReader, BufWriter, Read, Write};
use std::ops::Range;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use super::{MIB, done};
use crate::support::{Rng, esker, esker_in};

/// What moving a value may take above a store that does nothing.
const EXTRA_MAX: u64 = 64 << 20;

/// The bytes of the value are a function of their place: block `number`.
fn block(number: u64, bytes: &mut [u8]) {
    let mut rng = Rng::new(number);
    for part in bytes.chunks_mut(8) {
        part.copy_from_slice(&rng.next().to_le_bytes()[..part.len()]);
    }
}

/// Calls `visit` with every block of a value of `len` bytes.
fn blocks(len: u64, mut visit: impl FnMut(&[u8])) {
    let mut bytes = vec![0; MIB];
    for number in 0..len.div_ceil(MIB as u64) {
        let count = (len - number * MIB as u64).min(MIB as u64) as usize;
        block(number, &mut bytes[..count]);
        visit(&bytes[..count]);
    }
}

fn make(path: &Path, len: u64) {
    let mut file = BufWriter::new(File::create(path).unwrap());
    blocks(len, |bytes| file.write_all(bytes).unwrap());
    file.flush().unwrap();
}

#[track_caller]
fn is_whole(path: &Path, len: u64) {
    assert_eq!(fs::metadata(path).unwrap().len(), len);
    let mut file = BufReader::new(File::open(path).unwrap());
    let (mut read, mut at) = (vec![0; MIB], 0);
    blocks(len, |bytes| {
        file.read_exact(&mut read[..bytes.len()]).unwrap();
        assert!(read[..bytes.len()] == *bytes, "the {} bytes at {at} differ", bytes.len());
        at += bytes.len();
    });
}

fn part(range: Range<u64>) -> Vec<u8> {
    let mut all = Vec::new();
    let mut bytes = vec![0; MIB];
    for number in range.start / MIB as u64..range.end.div_ceil(MIB as u64) {
        block(number, &mut bytes);
        all.extend_from_slice(&bytes);
    }
    let start = (range.start % MIB as u64) as usize;
    all[start..start + (range.end - range.start) as usize].to_vec()
}

/// The most memory that the process `id` has had so far.
fn peak(id: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
}

/// Runs `command` to its end and gives the most memory that it had, as far as that was seen.
fn watched(mut command: Command, what: &str) -> u64 {
    let start = Instant::now();
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let id = child.id();
    let (ended, end) = channel();
    let most = std::thread::scope(|scope| {
        scope.spawn(move || {
            assert!(child.wait().unwrap().success());
            ended.send(()).unwrap();
        });
        let mut most = 0;
        while end.recv_timeout(Duration::from_millis(1)) == Err(RecvTimeoutError::Timeout) {
            most = most.max(peak(id).unwrap_or(0));
        }
        most
    });
    println!("{what}: {:.1} s, at most {:.1} MiB", start.elapsed().as_secs_f64(), most as f64 / MIB as f64);
    most
}

/// The memory of a command that has opened the store and waits.
fn idle(dir: &Path) -> u64 {
    let mut command = esker_in(dir);
    command.args(["run", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"GET absent\n").unwrap();
    let mut answer = [0; 13];
    child.stdout.take().unwrap().read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"absent EMPTY\n");
    let memory = peak(child.id()).unwrap();
    drop(stdin);
    assert!(child.wait().unwrap().success());
    memory
}

#[test]
fn a_value_longer_than_memory_goes_in_and_out_in_little_of_it() {
    let huge = std::env::var_os("ESKER_HUGE").is_some();
    let len = if huge { (5 << 30) + 4_097 } else { (150 << 20) + 4_097 };
    let dir = tempfile::tempdir().unwrap();
    let (file, out) = (dir.path().join("in/film"), dir.path().join("out"));
    fs::create_dir(dir.path().join("in")).unwrap();
    make(&file, len);
    done(&esker(dir.path(), "put small value"));
    let idle = idle(dir.path());
    println!("a value of {len} bytes; idle: {:.1} MiB", idle as f64 / MIB as f64);
    let within = |arguments: &str| {
        let mut command = esker_in(dir.path());
        command.args(arguments.split(' '));
        let most = watched(command, arguments);
        assert!(most < idle + EXTRA_MAX, "{arguments}: {most} bytes of memory, {idle} when idle");
    };

    within("put film --file in/film");
    within("get film --file out");
    is_whole(&out, len);
    let middle = if huge { 4 << 30 } else { len / 2 };
    for range in [0..1, middle - 70_000..middle + 3_000_000, len - 4_100..len] {
        let (from, to) = (range.start, range.end - 1);
        within(&format!("get film --file out --range {from}-{to}"));
        assert!(fs::read(&out).unwrap() == part(range), "{from} to {to}");
    }
    within("import in");
    within("export exported/");
    is_whole(&dir.path().join("exported/film"), len);
    within("ls --sha256 film");
    fs::remove_file(dir.path().join("exported/film")).unwrap();
    done(&esker(dir.path(), "delete film"));
    within("import in");
    within("check");
}
