//! What hostile clients do, and how much memory each may cost.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::Target;
use crate::support::Rng;
use test_kit::redis::{Client, Value, encoded, encoded_line};

/// Something that hostile clients do.
pub(super) struct Attack {
    pub(super) name: &'static str,
    /// The memory that it may take while it lasts, in MiB, on top of [`SLACK_MIB`].
    pub(super) mib: u64,
    /// Whether nobody else can attack meanwhile: the server refuses clients.
    pub(super) is_alone: bool,
    pub(super) run: fn(&Target, &mut Rng),
}

/// What any attack may take: caches of the store that were not full yet, a memtable, read and write buffers of some
/// hundred connections (64 KiB and 16 KiB each), what the allocator keeps for later.
pub(super) const SLACK_MIB: u64 = 96;

/// The length of the value that attackers ask for again and again.
const LONG: usize = 1 << 20;

pub(super) const ATTACKS: &[Attack] = &[
    Attack { name: "garbage", mib: 0, is_alone: false, run: garbage },
    Attack { name: "half commands", mib: 0, is_alone: false, run: half_commands },
    // A length is no memory.
    Attack { name: "claims of lengths", mib: 0, is_alone: false, run: claims },
    // Replies of up to 512 MiB are made before they are refused.
    Attack { name: "extreme numbers", mib: 600, is_alone: false, run: extreme_numbers },
    Attack { name: "deep nesting", mib: 16, is_alone: false, run: nesting },
    Attack { name: "a long pipeline", mib: 0, is_alone: false, run: long_pipeline },
    // 20 values of 1 MiB, each as a value and in its reply.
    Attack { name: "gone in mid-reply", mib: 64, is_alone: false, run: gone_in_mid_reply },
    // 20 clients with a value and a reply of 1 MiB each, and two subscribers with 32 MiB of messages.
    Attack { name: "clients that never read", mib: 128, is_alone: false, run: never_read },
    Attack { name: "a storm of connections", mib: 32, is_alone: true, run: storm },
    // Arguments of 256 MiB, as the limit counts them, with what the allocator adds, and once more while EXEC runs.
    Attack { name: "a long transaction", mib: 1000, is_alone: false, run: long_transaction },
    // Two trees and a table with the name of each channel, and the client's.
    Attack { name: "many channels", mib: 400, is_alone: false, run: many_channels },
    Attack { name: "many waiting clients", mib: 16, is_alone: false, run: waiters },
];

fn connect(target: &Target, count: usize) -> Vec<Client> {
    (0..count).filter_map(|_| target.client()).collect()
}

fn garbage(target: &Target, rng: &mut Rng) {
    let pieces: [&[u8]; 12] = [
        b"*3\r\n",
        b"$3\r\nSET\r\n",
        b"\r\n",
        b"$-5\r\n",
        b"*-2\r\n",
        b"*1\r\n$5\r\nMULTI\r\n",
        b"EXEC\r\n",
        b"\"\\x",
        b"\0\0\0",
        b"HELLO 3\r\n",
        b"CLIENT REPLY OFF\r\n",
        b"SUBSCRIBE a\r\n",
    ];
    for _ in 0..100 {
        let Some(mut client) = target.client() else { continue };
        let mut bytes = Vec::new();
        for _ in 0..rng.below(40) {
            if rng.below(3) == 0 {
                bytes.extend((0..rng.below(300)).map(|_| rng.next() as u8));
            } else {
                bytes.extend_from_slice(pieces[rng.index(pieces.len())]);
            }
        }
        let _ = client.try_send_bytes(&bytes);
    }
}

/// Some of their clients stay, silent, until the attack is over.
fn half_commands(target: &Target, rng: &mut Rng) {
    let whole = encoded(&["SET", "attack:half", "value"]);
    let mut clients = connect(target, 200);
    for client in &mut clients {
        let _ = client.try_send_bytes(&whole[..rng.index(whole.len())]);
    }
    target.regular.wait_for_rounds("half commands");
    assert_eq!(target.call("EXISTS attack:half").integer(), 0);
}

fn claims(target: &Target, _: &mut Rng) {
    let mut clients = connect(target, 200);
    for (number, client) in clients.iter_mut().enumerate() {
        let claim: &[u8] = match number % 4 {
            0 => b"*1048576\r\n$536870912\r\nabc",
            1 => b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$536870912\r\nx",
            2 => b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$2147483647\r\nx",
            _ => b"*2147483647\r\n$1\r\nx",
        };
        let _ = client.try_send_bytes(claim);
    }
    target.regular.wait_for_rounds("claims of lengths");
    for (number, client) in clients.iter_mut().enumerate() {
        if number % 4 >= 2 {
            let replies = client.read_to_end();
            assert!(replies.iter().all(Value::is_error), "{replies:?}");
        }
    }
}

fn extreme_numbers(target: &Target, _: &mut Rng) {
    let Some(mut client) = target.client() else { return };
    client.call("DEL attack:l attack:s attack:h attack:z attack:t");
    client.call("RPUSH attack:l a b c");
    client.call("SADD attack:s a b c");
    client.call("HSET attack:h a 1 b 2");
    client.call("ZADD attack:z 1 a 2 b");
    client.call("SET attack:t text");
    let numbers =
        ["-9223372036854775808", "9223372036854775807", "-1", "-2147483649", "4294967296", "-100000000"];
    for number in numbers {
        for command in [
            "LRANGE attack:l # #",
            "LINDEX attack:l #",
            "LPOP attack:l #",
            "LTRIM attack:t # #",
            "LREM attack:l # z",
            "LPOS attack:l a RANK # COUNT #",
            "SRANDMEMBER attack:s #",
            "SPOP attack:t #",
            "HRANDFIELD attack:h # WITHVALUES",
            "ZRANDMEMBER attack:z # WITHSCORES",
            "ZRANGE attack:z # #",
            "ZRANGEBYSCORE attack:z -inf +inf LIMIT # #",
            "ZPOPMIN attack:t #",
            "SETRANGE attack:t # x",
            "SETBIT attack:t # 1",
            "GETRANGE attack:t # #",
            "BITCOUNT attack:t # #",
            "EXPIRE attack:none #",
            "SET attack:none x PX #",
            "INCRBY attack:none #",
            "DECRBY attack:none #",
            "SCAN # COUNT #",
            "RANGE a z LIMIT #",
            "BLPOP attack:none #",
            "SELECT #",
            "CLIENT KILL ID #",
            "SLOWLOG GET #",
            "SINTERCARD # attack:s LIMIT #",
            "LMPOP # attack:l LEFT COUNT #",
        ] {
            // Those wait for long, as they should.
            if command.starts_with("BLPOP") && !number.starts_with('-') {
                continue;
            }
            client.call(&command.replace('#', number));
        }
        client.call("DEL attack:none");
    }
    client.check("PING => +PONG");
}

fn nesting(target: &Target, _: &mut Rng) {
    for piece in ["*1\r\n", "*2\r\n*2\r\n", "[", "((", "MULTI\r\n", "%1\r\n", ">1\r\n"] {
        let Some(mut client) = target.client() else { continue };
        // The server may have closed before all of it is sent.
        let _ = client.try_send_bytes(piece.repeat(300_000 / piece.len()).as_bytes());
    }
    let Some(mut client) = target.client() else { return };
    let stars = "*a".repeat(100);
    client.call(&format!("SET attack:{} x", "a".repeat(100)));
    client.call(&format!("KEYS {stars}b"));
    client.call(&format!("PSUBSCRIBE {}", "[".repeat(10_000)));
}

fn long_pipeline(target: &Target, rng: &mut Rng) {
    let commands = target.many(1_000_000);
    let Some(mut client) = target.client() else { return };
    let mut writer = client.writer();
    let lines = ["PING", "SET attack:p x", "GET attack:p", "INCR attack:n", "NOSUCH"];
    let line = encoded_line(lines[rng.index(lines.len())]);
    thread::scope(|scope| {
        scope.spawn(move || {
            let bytes = line.repeat(10_000);
            for _ in 0..commands / 10_000 {
                writer.send_bytes(&bytes);
            }
        });
        for _ in 0..commands {
            client.read();
        }
    });
}

fn set_long(target: &Target) {
    let Some(mut client) = target.client() else { return };
    client.call_with(&[b"SET", &b"attack:long"[..], &vec![b'x'; LONG]]);
}

fn gone_in_mid_reply(target: &Target, rng: &mut Rng) {
    set_long(target);
    for _ in 0..20 {
        let Some(mut client) = target.client() else { continue };
        let _ = client.try_send_bytes(&encoded_line("GET attack:long").repeat(20));
        client.read_bytes(1 + rng.index(3 * LONG));
    }
}

fn never_read(target: &Target, _: &mut Rng) {
    set_long(target);
    let mut deaf = connect(target, 20);
    for client in &mut deaf {
        let _ = client.try_send_bytes(&encoded_line("GET attack:long").repeat(1000));
    }
    let mut listening = connect(target, 2);
    for client in &mut listening {
        let _ = client.try_send_bytes(&encoded_line("SUBSCRIBE attack:c"));
    }
    let Some(mut client) = target.client() else { return };
    let text = vec![b'x'; 100_000];
    for _ in 0..600 {
        client.call_with(&[b"PUBLISH", &b"attack:c"[..], &text]);
    }
    target.regular.wait_for_rounds("clients that never read");
}

/// More connections than the server takes.
fn storm(target: &Target, _: &mut Rng) {
    let mut clients = connect(target, target.max_clients + 200);
    let replies = clients.iter_mut().map(|client| {
        let _ = client.try_send_bytes(b"PING\r\n");
        match client.try_read() {
            Ok(Some(reply)) => reply,
            // Its socket was closed with an unread command.
            Ok(None) | Err(_) => Value::Error("ERR max number of clients reached".to_owned()),
        }
    });
    let refused = replies.filter(|reply| reply.to_string() == "-ERR max number of clients reached").count();
    assert!(refused >= 200, "{refused} clients were refused");
}

fn long_transaction(target: &Target, rng: &mut Rng) {
    let commands = target.many(1_000_000);
    let Some(mut client) = target.client() else { return };
    let mut writer = client.writer();
    let line = encoded_line(["PING", "INCR attack:m", "GET attack:m"][rng.index(3)]);
    thread::scope(|scope| {
        scope.spawn(move || {
            writer.send("MULTI");
            let bytes = line.repeat(10_000);
            for _ in 0..commands / 10_000 {
                writer.send_bytes(&bytes);
            }
            writer.send("EXEC");
        });
        assert_eq!(client.read().to_string(), "+OK");
        for _ in 0..commands {
            assert_eq!(client.read().to_string(), "+QUEUED");
        }
        let Value::Array(replies) = client.read() else { panic!("no replies of a transaction") };
        assert_eq!(replies.len(), commands);
    });
}

fn many_channels(target: &Target, rng: &mut Rng) {
    // Another one may do the same meanwhile.
    let (channels, name) = (target.many(1_000_000), format!("attack:{:x}", rng.next()));
    let Some(mut client) = target.client() else { return };
    let (mut writer, name) = (client.writer(), &name);
    thread::scope(|scope| {
        scope.spawn(move || {
            for first in (0..channels).step_by(1000) {
                let names = (first..first + 1000).map(|number| format!("{name}:{number}"));
                let words: Vec<String> = ["SUBSCRIBE".to_owned()].into_iter().chain(names).collect();
                writer.send_bytes(&encoded(&words));
            }
        });
        for _ in 0..channels {
            client.read();
        }
    });
    assert_eq!(target.call(&format!("PUBLISH {name}:7 x")).integer(), 1);
}

/// Clients that wait for the same key, and go or are served.
fn waiters(target: &Target, _: &mut Rng) {
    target.call("DEL attack:q");
    let mut waiting = connect(target, 150);
    for client in &mut waiting {
        // Commands behind a wait, which fill what is read ahead.
        let _ = client.try_send_bytes(&encoded_line("BLPOP attack:q 0"));
        let _ = client.try_send_bytes(&encoded_line("PING"));
    }
    waiting.truncate(100);
    target.regular.wait_for_rounds("many waiting clients");
    let (is_over, mut served) = (AtomicBool::new(false), 0);
    thread::scope(|scope| {
        let is_over = &is_over;
        scope.spawn(move || {
            // What is pushed may go to one that has gone and is not missed yet.
            while !is_over.load(Ordering::Relaxed) {
                target.call("RPUSH attack:q x");
            }
        });
        for client in &mut waiting {
            served += usize::from(matches!(client.try_read(), Ok(Some(Value::Array(_)))));
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert_eq!(served, waiting.len());
    target.call("DEL attack:q");
}

impl Target<'_> {
    /// A connection, if the server takes one.
    fn client(&self) -> Option<Client> {
        Client::try_connect(self.address).ok()
    }

    /// The reply to a command of a client of its own.
    fn call(&self, line: &str) -> Value {
        Client::connect(self.address).call(line)
    }

    /// So many in a long run, and a tenth of it among all tests.
    fn many(&self, count: usize) -> usize {
        if self.is_long { count } else { count / 10 }
    }
}
