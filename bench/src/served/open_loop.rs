//! Gets at a fixed rate over many connections. A latency counts from the time at which the get was due, whatever held up
//! its sending, so a server that stalls is charged for all gets that were due meanwhile.
//!
//! ```text
//! get i   due at i / rate   on connection i mod n   its reply is the (i div n)-th of that connection
//! ```

use super::target::{Server, call, command};
use crate::data::mix;
use crate::latency::{Latencies, Windows};
use crate::stores::Result;
use rustix::event::epoll;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The gets that are due within so long are sent together: to sleep for each of them would take half of a core.
const TICK: Duration = Duration::from_micros(250);

/// What is asked of the server.
pub(super) struct Plan {
    pub(super) connections: usize,
    /// Gets a second.
    pub(super) rate: u64,
    pub(super) time: Duration,
    pub(super) window: Duration,
    /// How many keys there are, and the length of each value.
    pub(super) keys: u64,
    pub(super) value_bytes: usize,
}

pub(super) fn key(number: u64) -> Vec<u8> {
    format!("key:{number:012}").into_bytes()
}

/// How late the replies came, and how late the gets were sent, by windows.
pub(super) struct Measured {
    pub(super) replies: Windows,
    pub(super) sending: Latencies,
}

pub(super) fn run(server: &Server, plan: &Plan) -> Result<Measured> {
    let mut streams = (0..plan.connections).map(|_| server.connect()).collect::<Result<Vec<_>>>()?;
    for stream in &mut streams {
        // A connection that waits to be accepted would be measured as a slow get.
        call(stream, &[b"PING"])?;
        stream.set_nonblocking(true)?;
    }
    let is_over = AtomicBool::new(false);
    let begin = Instant::now();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let read = read_all(&streams, plan, begin, &is_over);
            is_over.store(true, Ordering::Relaxed);
            read
        });
        let sent = send_all(&streams, plan, begin, &is_over);
        if sent.is_err() {
            is_over.store(true, Ordering::Relaxed);
        }
        let replies = reader.join().map_err(|_| "the reader panicked")??;
        Ok(Measured { replies, sending: sent? })
    })
}

fn due(number: u64, plan: &Plan) -> Duration {
    Duration::from_nanos(number.saturating_mul(1_000_000_000) / plan.rate)
}

fn total(plan: &Plan) -> u64 {
    (plan.rate as f64 * plan.time.as_secs_f64()) as u64
}

fn send_all(streams: &[TcpStream], plan: &Plan, begin: Instant, is_over: &AtomicBool) -> Result<Latencies> {
    let mut late = Latencies::default();
    let mut number = 0;
    while number < total(plan) && !is_over.load(Ordering::Relaxed) {
        let now = begin.elapsed();
        while number < total(plan) && due(number, plan) <= now {
            let bytes = command(&[b"GET", &key(mix(number) % plan.keys)]);
            let mut stream = &streams[number as usize % streams.len()];
            // Some 40 bytes: they fit, unless the server has not read for very long.
            stream.write_all(&bytes).map_err(|error| format!("a get cannot be sent: {error}"))?;
            late.add(begin.elapsed().saturating_sub(due(number, plan)));
            number += 1;
        }
        std::thread::sleep(due(number, plan).saturating_sub(begin.elapsed()).max(TICK));
    }
    Ok(late)
}

fn read_all(streams: &[TcpStream], plan: &Plan, begin: Instant, is_over: &AtomicBool) -> Result<Windows> {
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    for (place, stream) in streams.iter().enumerate() {
        epoll::add(&poll, stream, epoll::EventData::new_u64(place as u64), epoll::EventFlags::IN)?;
    }
    let reply_bytes = format!("${}\r\n\r\n", plan.value_bytes).len() + plan.value_bytes;
    // Of each connection: bytes of a reply that has begun, and replies that have come.
    let mut state = vec![(0_usize, 0_u64); streams.len()];
    let (mut windows, mut left) = (Windows::of(plan.window), total(plan));
    let (mut events, mut buffer) = (Vec::with_capacity(256), vec![0; 256 << 10]);
    // Replies that come later than this do not come.
    let ends = plan.time + Duration::from_secs(60);
    while left > 0 && !is_over.load(Ordering::Relaxed) {
        events.clear();
        let wait = rustix::event::Timespec { tv_sec: 1, tv_nsec: 0 };
        epoll::wait(&poll, rustix::buffer::spare_capacity(&mut events), Some(&wait))?;
        if begin.elapsed() > ends {
            return Err(format!("{left} replies have not come").into());
        }
        for event in &events {
            let place = event.data.u64() as usize;
            let mut stream = &streams[place];
            let read = match stream.read(&mut buffer) {
                Ok(0) => return Err("the server closed a connection".into()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
                read => read?,
            };
            let now = begin.elapsed();
            let (held, replies) = &mut state[place];
            if *held == 0 && buffer[0] != b'$' {
                return Err(String::from_utf8_lossy(&buffer[..read.min(100)]).into_owned().into());
            }
            for _ in 0..(*held + read) / reply_bytes {
                let due = due(*replies * streams.len() as u64 + place as u64, plan);
                windows.add(due, now.saturating_sub(due));
                *replies += 1;
                left -= 1;
            }
            *held = (*held + read) % reply_bytes;
        }
    }
    Ok(windows)
}
