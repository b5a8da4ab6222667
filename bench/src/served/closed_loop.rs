//! Commands over some connections, each of which sends its next command when it has the reply to the last one.

use super::open_loop::key;
use super::target::{Server, command, reply_len};
use crate::data::mix;
use crate::latency::Windows;
use crate::stores::Result;
use rustix::event::epoll;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// What is asked of the server.
pub(super) struct Plan<'a> {
    pub(super) connections: usize,
    pub(super) time: Duration,
    pub(super) window: Duration,
    /// The command with this number.
    pub(super) draw: &'a dyn Fn(u64) -> Vec<u8>,
}

struct Client {
    stream: TcpStream,
    sent: Duration,
    reply: Vec<u8>,
}

/// Half reads and half writes, of strings, counters, hashes, queues and sorted sets.
pub(super) fn mixed(number: u64, keys: u64, value: &[u8]) -> Vec<u8> {
    let random = mix(number);
    let which = (random >> 32) % keys;
    let (small, field) = (format!("{}", which % 1000), format!("f{}", random % 30));
    let of = |kind: &str| format!("{kind}:{small}").into_bytes();
    match random % 100 {
        0..45 => command(&[b"GET", &key(which)]),
        45..65 => command(&[b"SET", &key(which), value]),
        65..73 => command(&[b"INCR", &of("count")]),
        73..79 => command(&[b"HSET", &of("hash"), field.as_bytes(), &value[..value.len().min(50)]]),
        79..83 => command(&[b"HGET", &of("hash"), field.as_bytes()]),
        83..88 => command(&[b"LPUSH", &of("list"), &value[..value.len().min(50)]]),
        88..93 => command(&[b"RPOP", &of("list")]),
        93..97 => command(&[b"ZADD", &of("zset"), small.as_bytes(), field.as_bytes()]),
        97..99 => command(&[b"ZRANGE", &of("zset"), b"0", b"9"]),
        _ => command(&[b"DEL", &key(which)]),
    }
}

/// A read of one of `keys`, close to zipf with theta 0.99 (the default of YCSB): the inverse of the integral of its
/// density. Keys that are often read lie anywhere.
pub(super) fn skewed_get(number: u64, keys: u64) -> Vec<u8> {
    let highest = (keys as f64).powf(0.01) - 1.0;
    let random = (mix(number) >> 11) as f64 / (1_u64 << 53) as f64;
    let rank = (1.0 + random * highest).powf(100.0) as u64;
    command(&[b"GET", &key(mix(rank) % keys)])
}

pub(super) fn run(server: &Server, plan: &Plan<'_>) -> Result<Windows> {
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let begin = Instant::now();
    let (mut clients, mut number) = (Vec::new(), 0);
    for place in 0..plan.connections {
        let mut stream = server.connect()?;
        epoll::add(&poll, &stream, epoll::EventData::new_u64(place as u64), epoll::EventFlags::IN)?;
        stream.write_all(&(plan.draw)(number))?;
        stream.set_nonblocking(true)?;
        clients.push(Client { stream, sent: begin.elapsed(), reply: Vec::new() });
        number += 1;
    }
    let mut windows = Windows::of(plan.window);
    let (mut events, mut buffer) = (Vec::with_capacity(256), vec![0; 64 << 10]);
    while begin.elapsed() < plan.time {
        events.clear();
        let wait = rustix::event::Timespec { tv_sec: 60, tv_nsec: 0 };
        if epoll::wait(&poll, rustix::buffer::spare_capacity(&mut events), Some(&wait))? == 0 {
            return Err("no reply for a minute".into());
        }
        for event in &events {
            let client = &mut clients[event.data.u64() as usize];
            let read = match client.stream.read(&mut buffer) {
                Ok(0) => return Err("the server closed a connection".into()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
                read => read?,
            };
            client.reply.extend_from_slice(&buffer[..read]);
            if reply_len(&client.reply)?.is_none() {
                continue;
            }
            client.reply.clear();
            let now = begin.elapsed();
            // Each operation belongs to the window in which it ends, or a stall would empty its window.
            if now < plan.time {
                windows.add(now, now - client.sent);
            }
            client.sent = now;
            client.stream.write_all(&(plan.draw)(number))?;
            number += 1;
        }
    }
    Ok(windows)
}
