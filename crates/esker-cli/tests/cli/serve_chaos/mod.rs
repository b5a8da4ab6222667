//! Hostile clients of a real server: it stays up, takes a bounded amount of memory, and serves others with right answers
//! all the while.
//!
//! Without `ESKER_SOAK_SECONDS`, each attack is made once. With it, attacks go on for so long, two at once.
//! `ESKER_SEED` chooses them.

mod attacks;
mod memory;
mod regular;

use std::path::Path;
use std::process::Command;
use std::sync::RwLock;
use std::time::{Duration, Instant};

use attacks::{ATTACKS, Attack, SLACK_MIB};
use esker_server::Address;
use memory::Memory;
use regular::Regular;

use crate::serve::{Serving, serve_by};
use crate::support::{Rng, esker, esker_in, skip};
use test_kit::redis::{Client, Value, encoded_line};

/// The most connections of the server that is attacked.
const MAX_CLIENTS: usize = 500;

/// The memory of its store.
const STORE_MEMORY: &str = "64MiB";

/// How much more memory than before the first attack it may keep when all are over, in MiB: that of its store, and what
/// it gives back only when it is more.
const KEPT_MIB: u64 = 160;

/// What is attacked.
struct Target<'a> {
    address: &'a Address,
    regular: &'a Regular,
    max_clients: usize,
    is_long: bool,
}

/// Whether a new client is served.
fn is_served(client: &mut Client) -> bool {
    client.try_send_bytes(&encoded_line("PING")).is_ok()
        && matches!(client.try_read(), Ok(Some(Value::Simple(_))))
}

/// Waits until the attackers are forgotten.
fn wait_until_alone(serving: &Serving) {
    let begin = Instant::now();
    loop {
        let mut client = serving.client();
        // Itself, and the client that behaves well. It is refused while all connections are taken.
        if is_served(&mut client) && client.figure("connected_clients") == 2 {
            return;
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "clients that have gone are not forgotten");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn attacks_cost_little_and_harm_nobody_else() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = esker_in(dir.path());
    command.args(["--memory", STORE_MEMORY]);
    let mut serving = serve_by(command, dir.path(), &format!("--max-clients {MAX_CLIENTS}"));
    let regular = Regular::start(serving.client());
    let memory = Memory::of(serving.id());
    let seconds = test_kit::variable("ESKER_SOAK_SECONDS");
    let seed = test_kit::seed(1);
    println!(
        "                             what it took: MiB; how long others waited at most, and how long it took: ms"
    );
    let target = Target {
        address: &serving.addresses[0],
        regular: &regular,
        max_clients: MAX_CLIENTS,
        is_long: seconds.is_some(),
    };
    let before = memory.now_mib();
    match seconds {
        None => each_once(&target, &memory, &mut Rng::new(seed), || wait_until_alone(&serving)),
        Some(seconds) => several(&target, &memory, seed, Duration::from_secs(seconds)),
    }
    wait_until_alone(&serving);
    let begin = Instant::now();
    while memory.now_mib() > before + KEPT_MIB {
        let now = memory.now_mib();
        assert!(begin.elapsed() < Duration::from_secs(60), "{now} MiB are kept, {before} were taken before");
        std::thread::sleep(Duration::from_millis(100));
    }
    println!("{before} MiB before, {} MiB after all attacks", memory.now_mib());
    drop(regular);
    serving.signal("-TERM");
    assert_eq!(serving.code(), Some(0));
    assert_eq!(esker(dir.path(), "check").code, 0);
}

fn each_once(target: &Target, memory: &Memory, rng: &mut Rng, after: impl Fn()) {
    for attack in ATTACKS {
        memory.forget_peak();
        let before = memory.now_mib();
        let begin = Instant::now();
        (attack.run)(target, rng);
        target.regular.wait_for_rounds(attack.name);
        report(attack, before, memory, target.regular, begin.elapsed());
        after();
    }
}

fn report(attack: &Attack, before: u64, memory: &Memory, regular: &Regular, took: Duration) {
    let taken = memory.peak_mib().saturating_sub(before);
    println!(
        "{:28} {taken:5} of {:5}  {:6} {:6}",
        attack.name,
        attack.mib + SLACK_MIB,
        regular.take_longest_ms(),
        took.as_millis()
    );
    assert!(taken <= attack.mib + SLACK_MIB, "{}: {taken} MiB", attack.name);
}

/// Attacks for so long, two at once.
fn several(target: &Target, memory: &Memory, seed: u64, time: Duration) {
    let (begin, before) = (Instant::now(), memory.now_mib());
    memory.forget_peak();
    let most = ATTACKS.iter().map(|attack| attack.mib).max().unwrap_or(0);
    let alone = RwLock::new(());
    std::thread::scope(|scope| {
        for number in 0..2 {
            let (alone, mut rng) = (&alone, Rng::new(seed + number));
            scope.spawn(move || {
                let mut made = 0;
                while begin.elapsed() < time {
                    let attack = rng.pick(ATTACKS);
                    let (exclusive, shared) = if attack.is_alone {
                        (Some(alone.write().unwrap()), None)
                    } else {
                        (None, Some(alone.read().unwrap()))
                    };
                    (attack.run)(target, &mut rng);
                    target.regular.wait_for_rounds(attack.name);
                    drop((exclusive, shared));
                    made += 1;
                }
                println!("{made} attacks");
            });
        }
    });
    let (taken, bound) = (memory.peak_mib().saturating_sub(before), 2 * (most + SLACK_MIB));
    println!("{taken} MiB of {bound}, others waited {} ms at most", target.regular.take_longest_ms());
    assert!(taken <= bound, "{taken} MiB");
}

/// More connections than the process may have descriptors: those that are there go on, and so does the store.
#[test]
fn connections_beyond_the_limit_of_descriptors() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 128; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_esker")]);
    command.current_dir(dir.path()).env_remove("ESKER_DB");
    let mut serving = serve_by(command, dir.path(), "");
    let regular = Regular::start(serving.client());
    let mut client = serving.client();
    let value = vec![b'x'; 100_000];
    for round in 0..3 {
        let clients: Vec<Client> =
            (0..300).filter_map(|_| Client::try_connect(&serving.addresses[round % 2]).ok()).collect();
        regular.wait_for_rounds("too many connections");
        // Writes need files of their own: the store must not be left without descriptors.
        for number in 0..100 {
            let reply = client.call_with(&[b"SET", format!("k{round}.{number}").as_bytes(), &value]);
            assert_eq!(reply.to_string(), "+OK", "round {round}");
        }
        drop(clients);
        wait_until_served(&serving);
    }
    drop(regular);
    serving.signal("-TERM");
    assert_eq!(serving.code(), Some(0));
    assert_eq!(esker(dir.path(), "check").code, 0);
}

/// Waits until a new client is served.
fn wait_until_served(serving: &Serving) {
    let begin = Instant::now();
    while !is_served(&mut serving.client()) {
        assert!(begin.elapsed() < Duration::from_secs(60), "no new client is served");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A file system in memory that can grow, taken away when this goes.
struct Disk(std::path::PathBuf);

impl Disk {
    fn mount(below: &Path, size: &str) -> Result<Disk, String> {
        let path = below.join("disk");
        std::fs::create_dir(&path).unwrap();
        let disk = Disk(path);
        disk.call(&["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"]).map(|()| disk)
    }

    fn grow(&self, size: &str) {
        self.call(&["-o", &format!("remount,size={size}")]).unwrap();
    }

    fn call(&self, arguments: &[&str]) -> Result<(), String> {
        match Command::new("mount").args(arguments).arg(&self.0).output() {
            Ok(output) if output.status.success() => Ok(()),
            Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
            Err(error) => Err(format!("mount: {error}")),
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).output();
    }
}

/// Writes get an error, reads and deletions go on, and when there is room the server takes writes again by itself.
#[test]
fn a_full_disk() {
    let dir = tempfile::tempdir().unwrap();
    let disk = match Disk::mount(dir.path(), "100m") {
        Ok(disk) => disk,
        Err(why) => return skip("a_full_disk", &why),
    };
    let mut command = esker_in(dir.path());
    command.args(["--db", "disk/store"]);
    let mut serving = serve_by(command, dir.path(), "");
    let mut client = serving.client();
    let memory = Memory::of(serving.id());
    client.check("SET counter 1 => +OK\n RPUSH list a b => :2");
    for (round, len) in test_kit::some_of([4000, 100_000, 1 << 20]).enumerate() {
        let value: Vec<u8> = (0..len).map(|byte| (byte * 31 + byte / 251) as u8).collect();
        let mut written = 0;
        let refused = loop {
            match client.call_with(&[b"SET", format!("{round}:{written}").as_bytes(), &value]) {
                Value::Error(message) => break message,
                _ => written += 1,
            }
            assert!(written < 1_000_000, "the disk never became full");
        };
        assert!(refused.starts_with("MISCONF the disk is full"), "{refused}");
        let before = memory.now_mib();
        // The store may give some room back in between, so some are taken.
        for _ in 0..200 {
            let reply = client.call_with(&[b"SET", &b"more"[..], &value]);
            assert!(reply.to_string() == "+OK" || reply.to_string().starts_with("-MISCONF"), "{reply}");
        }
        assert!(memory.now_mib() < before + SLACK_MIB, "refused writes are kept in memory");
        for number in 0..written {
            let reply = client.call(&format!("GET {round}:{number}"));
            assert!(reply.bytes() == value, "{number} of {written}");
        }
        client.check("GET counter => 1\n LRANGE list 0 -1 => [a b]");
        if round == 0 {
            // Room that comes from elsewhere.
            disk.grow("200m");
        } else {
            // Room that deletions make: they are taken on a full disk.
            for number in 0..written {
                client.check(&format!("DEL {round}:{number} => :1"));
            }
        }
        let begin = Instant::now();
        while client.call_with(&[b"SET", &b"more"[..], &value]).is_error() {
            assert!(
                begin.elapsed() < Duration::from_secs(60),
                "round {round}: there is room, and writes are refused"
            );
            std::thread::sleep(Duration::from_millis(5));
        }
        client.check("DEL more => :1\n INCR counter => :2\n SET counter 1 => +OK");
    }
    serving.signal("-TERM");
    assert_eq!(serving.code(), Some(0));
    assert_eq!(esker(dir.path(), "--db disk/store check").code, 0);
    drop(serving);
    drop(disk);
}
