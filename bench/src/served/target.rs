//! A server that is measured: a process of its own, Esker's or Redis'.

use crate::stores::Result;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use test_kit::redis;

/// How long a server may take to begin, and a reply to come.
const PATIENCE: Duration = Duration::from_secs(60);

pub(super) struct Server {
    pub(super) name: &'static str,
    child: Child,
    pub(super) address: SocketAddr,
}

/// How a server is started.
#[derive(Clone, Copy, Default)]
pub(super) struct Manner<'a> {
    /// Of Esker's caches and buffers; `None`: its default.
    pub(super) memory: Option<&'a str>,
    /// Whether it has the machine's first core and no other.
    pub(super) has_core: bool,
    /// Whether writes are synced before their replies.
    pub(super) is_synced: bool,
}

impl Manner<'_> {
    fn command(self, program: &Path) -> Command {
        if !self.has_core {
            return Command::new(program);
        }
        let mut command = Command::new("taskset");
        command.args(["-c", "0"]).arg(program);
        command
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Server {
    /// `esker serve` of the program `program` on an empty store in `dir`.
    pub(super) fn esker(program: &Path, dir: &Path, manner: Manner<'_>) -> Result<Server> {
        std::fs::remove_dir_all(dir.join("esker")).ok();
        // Kept beside the data if the measurement fails.
        let log = std::fs::File::create(dir.join("esker.log"))?;
        let durability = if manner.is_synced { "power" } else { "process" };
        let mut child = manner
            .command(program)
            .args(manner.memory.iter().flat_map(|memory| ["--memory", memory]))
            .arg("--db")
            .arg(dir.join("esker"))
            .args([
                "serve",
                "--durability",
                durability,
                "--resp",
                "127.0.0.1:0",
                "--max-clients",
                "15000",
                "--max-argument",
                "16GiB",
            ])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .map_err(|error| format!("{}: {error}", program.display()))?;
        let mut address = None;
        if let Some(stdout) = child.stdout.take() {
            for line in BufReader::new(stdout).lines() {
                let line = line?;
                if line == "ready" {
                    break;
                }
                address = line.strip_prefix("resp ").and_then(|text| text.parse().ok()).or(address);
            }
        }
        Ok(Server { name: "esker", address: address.ok_or("esker serve has no address")?, child })
    }

    /// `redis-server` that logs every change, and rewrites its log as it does by default.
    pub(super) fn redis(program: &Path, dir: &Path, manner: Manner<'_>) -> Result<Server> {
        let dir = dir.join("redis");
        std::fs::remove_dir_all(&dir).ok();
        std::fs::create_dir_all(&dir)?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let child = manner
            .command(program)
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "yes"])
            .args([
                "--appendfsync",
                if manner.is_synced { "always" } else { "no" },
                "--maxclients",
                "15000",
                "--dir",
            ])
            .arg(&dir)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| format!("{}: {error}", program.display()))?;
        let server = Server { name: "redis", address: SocketAddr::from(([127, 0, 0, 1], port)), child };
        let begin = Instant::now();
        while TcpStream::connect(server.address).is_err() {
            if begin.elapsed() > PATIENCE {
                return Err("redis-server does not listen".into());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(server)
    }

    /// The memory that it has, in bytes, without pages of files that it has mapped: the system takes these back when it
    /// wants to.
    pub(super) fn memory_bytes(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0) << 10
    }

    /// The processor time that it and its children that have ended have taken, in seconds.
    pub(super) fn cpu_seconds(&self) -> f64 {
        crate::process::cpu_seconds_of(self.child.id())
    }

    pub(super) fn connect(&self) -> Result<TcpStream> {
        let stream = TcpStream::connect(self.address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(stream)
    }
}

/// The bytes of a command.
pub(super) fn command(arguments: &[&[u8]]) -> Vec<u8> {
    redis::encoded(arguments)
}

/// The length of the reply at the start of `bytes`, if it is complete. Fails if it is an error.
pub(super) fn reply_len(bytes: &[u8]) -> Result<Option<usize>> {
    let len = redis::reply_len(bytes);
    match (len, bytes.split_first()) {
        (Some(len), Some((b'-', text))) => Err(String::from_utf8_lossy(&text[..len - 3]).into()),
        _ => Ok(len),
    }
}

/// The reply to a command.
pub(super) fn call(stream: &mut TcpStream, arguments: &[&[u8]]) -> Result<Vec<u8>> {
    stream.write_all(&command(arguments))?;
    read_reply(stream)
}

/// The next reply, of a client that has sent one command.
pub(super) fn read_reply(stream: &mut TcpStream) -> Result<Vec<u8>> {
    let (mut reply, mut buffer) = (Vec::new(), vec![0; 64 << 10]);
    loop {
        let read = stream.read(&mut buffer)?;
        if read == 0 {
            return Err("the server closed the connection".into());
        }
        reply.extend_from_slice(&buffer[..read]);
        if reply_len(&reply)?.is_some() {
            return Ok(reply);
        }
    }
}

/// Gets a value and forgets it. Returns its length.
pub(super) fn drain(stream: &mut TcpStream, key: &[u8], buffer: &mut [u8]) -> Result<u64> {
    stream.write_all(&command(&[b"GET", key]))?;
    let mut read = stream.read(buffer)?;
    let end = buffer[..read].windows(2).position(|two| two == b"\r\n").ok_or("a reply has no line")?;
    let text = std::str::from_utf8(&buffer[1..end])?;
    let len: u64 = text.parse().map_err(|_| format!("no value: {text}"))?;
    let mut left = (len + end as u64 + 4).saturating_sub(read as u64);
    while left > 0 {
        read = stream.read(buffer)?;
        if read == 0 {
            return Err("the server closed the connection".into());
        }
        left = left.saturating_sub(read as u64);
    }
    Ok(len)
}
