//! What Esker does otherwise than Redis on purpose.

use crate::redis::Reply;

/// One difference.
struct Deliberate {
    commands: &'static [&'static str],
    /// Whether two replies to one of the commands, with these arguments, differ in this way.
    is: fn(&[Vec<u8>], &Reply, &Reply) -> bool,
}

const TABLE: &[Deliberate] = &[
    // Redis adds with 80 bits and shows 17 decimals, so it says 100000.10000000000000142 for 100000 + 0.1. Esker adds
    // decimal digits, exactly.
    Deliberate { commands: &["incrbyfloat", "hincrbyfloat"], is: are_sums },
    // Redis keeps an encoding that it once had to choose, and shares small integers. Esker has no encodings: it tells
    // that which Redis would choose first.
    Deliberate { commands: &["object"], is: |_, redis, memory| redis.shape() == memory.shape() },
    // Memory is not what it is in Redis.
    Deliberate { commands: &["memory"], is: |_, redis, memory| redis.shape() == memory.shape() },
    // Redis cannot turn the smallest number into a positive one, and then takes the first match. Esker finds none.
    Deliberate {
        commands: &["lpos"],
        is: |args, _, _| args.iter().any(|arg| arg == b"-9223372036854775808"),
    },
    // Redis reads a bound up to a zero byte.
    Deliberate {
        commands: WITH_BOUNDS,
        is: |args, _, memory| {
            memory.bytes() == b"ERR min or max is not a float" && args.iter().any(|arg| arg.contains(&0))
        },
    },
];

const WITH_BOUNDS: &[&str] =
    &["zrange", "zrangestore", "zcount", "zrangebyscore", "zrevrangebyscore", "zremrangebyscore"];

/// Whether a difference between replies is one of these. Redis' value is then copied, if the command writes.
pub(crate) fn is_deliberate(name: &str, args: &[Vec<u8>], redis: &Reply, memory: &Reply) -> bool {
    TABLE.iter().any(|one| one.commands.contains(&name) && (one.is)(args, redis, memory))
}

/// Redis shows a score of minus zero as `-0` or `0`, by the encoding of the sorted set. Esker shows `0`.
pub(crate) fn show_zeros(reply: &mut Reply) {
    match reply {
        Reply::Line(b',', text) | Reply::Bulk(Some(text)) if text == b"-0" => *text = b"0".to_vec(),
        Reply::List(_, Some(parts)) => parts.iter_mut().for_each(show_zeros),
        _ => {}
    }
}

/// `ZSCAN` of Redis prints whole scores of more than 17 digits in one way or another, by the encoding too.
pub(crate) fn print_score(score: &mut Reply) {
    if let Some(number) = number(score.bytes()) {
        *score = Reply::Bulk(Some((number + 0.0).to_string().into_bytes()));
    }
}

/// Whether errors differ only from where they quote a byte that is no printable character: Redis ends at a zero, and Esker's
/// errors are text.
pub(crate) fn are_errors_alike(redis: &Reply, memory: &Reply) -> bool {
    let (Reply::Line(b'-', redis), Reply::Line(b'-', memory)) = (redis, memory) else { return false };
    let odd = memory.iter().position(|byte| !(b' '..=b'~').contains(byte));
    odd.is_some_and(|odd| redis.starts_with(&memory[..odd]))
}

/// Whether Esker has refused a cursor that it has not given out, which Redis takes.
pub(crate) fn is_unknown_cursor(memory: &Reply) -> bool {
    matches!(memory, Reply::Line(b'-', message) if message.starts_with(b"ERR invalid cursor: "))
}

/// Whether Esker does not send this event of a command that fails: an error takes all back.
pub(crate) fn is_dropped_by_errors(event: &str) -> bool {
    event.contains(":keymiss ")
}

/// The last time, in milliseconds, at which a key of Esker may expire, in the year 586,524. Later ones become this one.
const LAST_MS: i64 = (u64::MAX / 1000) as i64;

/// Whether times, in so many parts of a second, differ because Esker's is the last one, or near it.
pub(crate) fn is_cut(redis: i64, memory: i64, parts: i64) -> bool {
    redis > memory && memory > LAST_MS / 2000 * parts
}

fn number(bytes: &[u8]) -> Option<f64> {
    std::str::from_utf8(bytes).ok()?.parse().ok()
}

fn are_sums(args: &[Vec<u8>], redis: &Reply, memory: &Reply) -> bool {
    let by = args.last().and_then(|by| number(by));
    let (Some(by), Some(redis), Some(memory)) = (by, number(redis.bytes()), number(memory.bytes())) else {
        return false;
    };
    let size = by.abs() + redis.abs();
    redis == memory || (redis - memory).abs() <= size * 1e-15
}
