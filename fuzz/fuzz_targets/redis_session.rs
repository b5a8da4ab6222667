//! Sessions of a Redis client: bytes, requests, commands on a store in memory. Each command has one well-formed reply, and
//! the same one whether what it reads is in memory or not. When all keys are deleted, nothing of them is left.
//!
//! `TICK n` lets n milliseconds pass.
#![no_main]

use esker_redis::memory::Memory;
use esker_redis::numbers::integer;
use esker_redis::resp::parser::{Limits, Parser};
use esker_redis::spec;
use libfuzzer_sys::fuzz_target;
use test_kit::redis::reply_len;

const LIMITS: Limits = Limits { arguments: 4096, bulk_bytes: 64 << 10, long_bytes: u64::MAX };

/// Larger numbers make long values or replies, which are right, and too much for a fuzzer.
const NUMBER_MAX: i64 = 20_000;

/// Whether a command may make too much of a number.
fn is_too_much(arguments: &[&[u8]]) -> bool {
    let name = arguments[0].to_ascii_lowercase();
    let makes_much =
        [&b"setrange"[..], b"setbit", b"srandmember", b"hrandfield", b"zrandmember"].contains(&name.as_slice());
    makes_much && arguments.iter().filter_map(|word| integer(word)).any(|number| number.unsigned_abs() > NUMBER_MAX as u64)
}

struct Session {
    warm: Memory,
    cold: Memory,
    resp3: bool,
    time_has_passed: bool,
}

impl Session {
    fn each(&mut self, change: impl Fn(&mut Memory)) {
        change(&mut self.warm);
        change(&mut self.cold);
    }

    fn reply(&mut self, arguments: &[&[u8]]) -> Vec<u8> {
        let warm = self.warm.reply(arguments, self.resp3);
        let cold = self.cold.reply(arguments, self.resp3);
        let shown: Vec<_> = arguments.iter().map(|word| word.escape_ascii().to_string()).collect();
        assert!(warm == cold, "{shown:?}: {} {}", warm.escape_ascii(), cold.escape_ascii());
        warm
    }

    fn run(&mut self, arguments: &[&[u8]]) {
        let Some(name) = arguments.first() else { return };
        let amount = arguments.get(1).and_then(|word| integer(word));
        match &name.to_ascii_lowercase()[..] {
            b"tick" => {
                let us = amount.unwrap_or(1).clamp(0, 1 << 40) as u64 * 1000;
                self.time_has_passed |= us > 0;
                self.each(|memory| memory.now_us += us);
            }
            b"select" => {
                let database = amount.unwrap_or(0).clamp(0, 15) as u16;
                self.each(|memory| memory.database = database);
            }
            b"multi" => self.each(|memory| memory.in_transaction = true),
            b"exec" => self.each(|memory| memory.in_transaction = false),
            b"hello" => self.resp3 = amount == Some(3),
            _ if is_too_much(arguments) => {}
            _ => {
                let Some(spec) = spec(name).filter(|spec| !spec.is_of_server()) else { return };
                let keys = spec.keys_of(arguments);
                assert!(keys.len() < arguments.len());
                let reply = self.reply(arguments);
                if reply.is_empty() {
                    assert!(spec.flags.blocks, "{} has no reply", spec.name);
                } else {
                    assert_eq!(reply_len(&reply), Some(reply.len()), "{}: {}", spec.name, reply.escape_ascii());
                }
            }
        }
    }

    /// Deletes all keys, one by one.
    fn end(&mut self) {
        self.resp3 = false;
        self.each(|memory| memory.in_transaction = false);
        for database in 0..16 {
            self.each(|memory| memory.database = database);
            let reply = self.reply(&[b"KEYS", b"*"]);
            let mut rest = &reply[reply.windows(2).position(|two| two == b"\r\n").expect("a count") + 2..];
            while !rest.is_empty() {
                let head = rest.windows(2).position(|two| two == b"\r\n").expect("a length") + 2;
                let len = reply_len(rest).expect("the reply is whole");
                let key = rest[head..len - 2].to_vec();
                assert_eq!(self.reply(&[b"DEL", &key]), b":1\r\n", "{}", key.escape_ascii());
                rest = &rest[len..];
            }
        }
        // Elements of collections that have expired are a sweep's business.
        if !self.time_has_passed {
            assert_eq!((self.warm.elements(), self.cold.elements()), (0, 0), "elements without a key");
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((choice, mut bytes)) = data.split_first() else { return };
    let mut session = Session {
        warm: Memory::at(1_700_000_000_000_000),
        cold: Memory::at(1_700_000_000_000_000),
        resp3: choice & 1 == 1,
        time_has_passed: false,
    };
    session.cold.reads_in_memory = Some(u64::from(choice >> 1));
    let mut parser = Parser::default();
    while let Ok(Some(request)) = parser.next(bytes, &LIMITS) {
        session.run(&request.arguments(bytes));
        bytes = &bytes[request.len..];
    }
    session.end();
});
