//! `served`: a server as many clients load it, a process of its own, Esker's beside Redis'.
//!
//! ```text
//! idle     connections that do nothing: memory for each
//! open     gets at a fixed rate over many connections, beside one client that scans and one that moves large values
//! mixed    a mix of commands for long: throughput and latencies by windows
//! commands what redis-benchmark sends: each command by itself, a core for the server and one for the client
//! larger   skewed gets, of data that is a tenth of the store's memory budget, and of ten times as much as the budget
//! ```

use crate::latency::Windows;
use crate::stores::Result;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use target::{Manner, Server, call, command, drain, read_reply};

mod closed_loop;
mod commands;
mod open_loop;
mod target;

const USAGE: &str = "\
esker-bench served [OPTIONS]

  --esker PROGRAM      to be measured (default ../target/release/esker)
  --redis PROGRAM      to be measured beside it; none unless it is named
  --parts A,B,...      of idle, open, mixed, larger, commands (default: the first three)
  --seconds N          how long `open`, `mixed` and each half of `larger` take (default 60)
  --window N           seconds of each line of the tables (default 10)
  --idle N             connections of `idle` (default 10,000)
  --busy N             connections of `open` (default 1,000) beside those of --idle
  --rate N             gets a second of `open` (default 20,000)
  --clients N          connections of `mixed` and `larger` (default 100), and of `commands` (default 50)
  --keys N             keys that are there before (default 1,000,000), but in `larger`
  --value BYTES        length of their values (default 100), and of those of `commands` (default 1024)
  --large BYTES        length of the value that one client writes and reads in `open` (default 256 MiB)
  --alone              `open` without those two clients
  --pipelines A,B,...  how many commands a connection of `commands` sends at once (default 1,16)
  --requests N         of each run of `commands` (default 300,000)
  --rounds N           runs of each of `commands` (default 3)
  --spread N           `commands` draws from so many keys, fields and members (default: one is all there is)
  --synced             `commands` with every write synced before its reply
  --memory SIZE        of Esker's caches and buffers (default 256MiB; in `commands` its own default)
  --dir DIR            where the data goes (default: esker-bench-served in the temporary directory)

Use release builds. The limit of descriptors must be above --idle and --busy together.
";

struct Options {
    esker: PathBuf,
    redis: Option<PathBuf>,
    parts: Vec<String>,
    seconds: u64,
    window: u64,
    idle: usize,
    busy: usize,
    rate: u64,
    clients: Option<usize>,
    keys: u64,
    value: Option<usize>,
    large: usize,
    alone: bool,
    pipelines: Vec<u64>,
    requests: u64,
    rounds: usize,
    spread: Option<u64>,
    is_synced: bool,
    memory: Option<String>,
    dir: PathBuf,
}

impl Options {
    fn parse(words: &[String]) -> Result<Options> {
        let mut options = Options {
            esker: PathBuf::from("../target/release/esker"),
            redis: None,
            parts: ["idle", "open", "mixed"].map(str::to_owned).to_vec(),
            seconds: 60,
            window: 10,
            idle: 10_000,
            busy: 1000,
            rate: 20_000,
            clients: None,
            keys: 1_000_000,
            value: None,
            large: 256 << 20,
            alone: false,
            pipelines: vec![1, 16],
            requests: 300_000,
            rounds: 3,
            spread: None,
            is_synced: false,
            memory: None,
            dir: std::env::temp_dir().join("esker-bench-served"),
        };
        let mut words = words.iter();
        while let Some(name) = words.next() {
            match name.as_str() {
                "--alone" => options.alone = true,
                "--synced" => options.is_synced = true,
                _ => options.set(name, words.next())?,
            }
        }
        Ok(options)
    }

    /// Sets the option that takes a value.
    fn set(&mut self, name: &str, value: Option<&String>) -> Result<()> {
        let value = value.ok_or_else(|| format!("{name} has no value\n\n{USAGE}"))?;
        let number = |text: &str| {
            let number = text.replace([',', '_'], "").parse::<u64>().ok().filter(|number| *number > 0);
            number.ok_or_else(|| format!("{name}: {text:?} is no number above 0"))
        };
        match name {
            "--esker" => self.esker = PathBuf::from(value),
            "--redis" => self.redis = Some(PathBuf::from(value)),
            "--parts" => self.parts = value.split(',').map(str::to_owned).collect(),
            "--seconds" => self.seconds = number(value)?,
            "--window" => self.window = number(value)?,
            "--idle" => self.idle = number(value)? as usize,
            "--busy" => self.busy = number(value)? as usize,
            "--rate" => self.rate = number(value)?,
            "--clients" => self.clients = Some(number(value)? as usize),
            "--keys" => self.keys = number(value)?,
            "--value" => self.value = Some(number(value)? as usize),
            "--large" => self.large = number(value)? as usize,
            "--pipelines" => {
                self.pipelines = value.split(',').map(number).collect::<std::result::Result<_, _>>()?;
            }
            "--requests" => self.requests = number(value)?,
            "--rounds" => self.rounds = number(value)? as usize,
            "--spread" => self.spread = Some(number(value)?),
            "--memory" => self.memory = Some(value.clone()),
            "--dir" => self.dir = PathBuf::from(value),
            _ => return Err(format!("no option {name:?}\n\n{USAGE}").into()),
        }
        Ok(())
    }

    fn memory(&self) -> &str {
        self.memory.as_deref().unwrap_or("256MiB")
    }

    fn value(&self) -> usize {
        self.value.unwrap_or(100)
    }

    fn clients(&self) -> usize {
        self.clients.unwrap_or(100)
    }
}

pub(crate) fn run(words: &[String]) -> Result<()> {
    if words.iter().any(|word| word == "--help") {
        print!("{USAGE}");
        return Ok(());
    }
    let options = Options::parse(words)?;
    std::fs::create_dir_all(&options.dir)?;
    for part in &options.parts {
        if part == "commands" {
            commands(&options)?;
            continue;
        }
        let manner = Manner { memory: Some(options.memory()), ..Manner::default() };
        let measure = match part.as_str() {
            "idle" => idle,
            "open" => open,
            "mixed" => mixed,
            "larger" => larger,
            _ => return Err(format!("no part {part:?}\n\n{USAGE}").into()),
        };
        measure(&Server::esker(&options.esker, &options.dir, manner)?, &options)?;
        if let Some(program) = &options.redis {
            measure(&Server::redis(program, &options.dir, manner)?, &options)?;
        }
    }
    std::fs::remove_dir_all(&options.dir)?;
    Ok(())
}

/// Both servers are there all the time, and each has its turn.
fn commands(options: &Options) -> Result<()> {
    let manner = Manner { memory: options.memory.as_deref(), has_core: true, is_synced: options.is_synced };
    let mut servers = vec![Server::esker(&options.esker, &options.dir, manner)?];
    if let Some(program) = &options.redis {
        servers.push(Server::redis(program, &options.dir, manner)?);
    }
    let plan = commands::Plan {
        pipelines: &options.pipelines,
        rounds: options.rounds,
        requests: options.requests,
        connections: options.clients.unwrap_or(50),
        value_bytes: options.value.unwrap_or(1024),
        spread: options.spread,
    };
    commands::run(&servers, &plan)
}

/// Puts the keys there, many in each command.
fn load(server: &Server, keys: std::ops::Range<u64>, value_bytes: usize) -> Result<()> {
    let mut stream = server.connect()?;
    let value = vec![b'v'; value_bytes];
    let keys: Vec<Vec<u8>> = keys.map(open_loop::key).collect();
    for keys in keys.chunks(500) {
        let mut arguments: Vec<&[u8]> = vec![b"MSET"];
        keys.iter().for_each(|key| arguments.extend([key.as_slice(), &value]));
        call(&mut stream, &arguments)?;
    }
    Ok(())
}

/// Reads all keys once: then the store's caches have them, as far as their budget goes.
fn warm(server: &Server, keys: u64) -> Result<()> {
    let mut stream = server.connect()?;
    let keys: Vec<Vec<u8>> = (0..keys).map(open_loop::key).collect();
    for keys in keys.chunks(500) {
        let arguments: Vec<&[u8]> =
            std::iter::once(&b"MGET"[..]).chain(keys.iter().map(Vec::as_slice)).collect();
        call(&mut stream, &arguments)?;
    }
    Ok(())
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Memory of connections that have sent one command and then nothing.
fn idle(server: &Server, options: &Options) -> Result<()> {
    let mut kept = vec![server.connect()?];
    call(&mut kept[0], &[b"PING"])?;
    let before = server.memory_bytes();
    while kept.len() <= options.idle {
        let mut stream = server.connect()?;
        call(&mut stream, &[b"PING"])?;
        kept.push(stream);
    }
    let each = server.memory_bytes().saturating_sub(before) / options.idle as u64;
    println!("{}: {} idle connections take {:.2} KiB each", server.name, options.idle, each as f64 / 1024.0);
    Ok(())
}

/// Looks at the server's memory ten times a second.
fn watch(server: &Server, is_over: &AtomicBool, peak: &AtomicU64) {
    while !is_over.load(Ordering::Relaxed) {
        peak.fetch_max(server.memory_bytes(), Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// One that scans all keys, again and again. Returns how many it has seen.
fn scan(server: &Server, is_over: &AtomicBool) -> Result<u64> {
    let (mut stream, mut cursor, mut seen) = (server.connect()?, b"0".to_vec(), 0);
    while !is_over.load(Ordering::Relaxed) {
        let reply = call(&mut stream, &[b"SCAN", &cursor, b"COUNT", b"1000"])?;
        let mut lines =
            reply.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
        cursor = lines.nth(2).ok_or("SCAN has no cursor")?.to_vec();
        let count =
            lines.next().and_then(|line| std::str::from_utf8(line.get(1..)?).ok()?.parse::<u64>().ok());
        seen += count.ok_or("SCAN has no keys")?;
    }
    Ok(seen)
}

/// One that writes a large value and reads it, again and again. Returns how many bytes it has moved.
fn stream(server: &Server, len: usize, is_over: &AtomicBool) -> Result<u64> {
    let (mut stream, mut moved) = (server.connect()?, 0);
    let piece = vec![b'l'; 1 << 20];
    let mut buffer = vec![0; 1 << 20];
    while !is_over.load(Ordering::Relaxed) {
        let mut head = command(&[b"SET", b"large", b""]);
        head.truncate(head.len() - b"$0\r\n\r\n".len());
        stream.write_all(&head)?;
        stream.write_all(format!("${len}\r\n").as_bytes())?;
        let mut left = len;
        while left > 0 {
            let part = left.min(piece.len());
            stream.write_all(&piece[..part])?;
            left -= part;
        }
        stream.write_all(b"\r\n")?;
        let reply = read_reply(&mut stream)?;
        if reply != b"+OK\r\n" {
            return Err(String::from_utf8_lossy(&reply).into_owned().into());
        }
        moved += len as u64 + drain(&mut stream, b"large", &mut buffer)?;
    }
    Ok(moved)
}

fn open(server: &Server, options: &Options) -> Result<()> {
    load(server, 0..options.keys, options.value())?;
    // What clients make the server take is asked for, not how its caches fill up to their budget.
    warm(server, options.keys)?;
    let mut idle = Vec::new();
    for _ in 0..options.idle {
        idle.push(server.connect()?);
    }
    // Those that wait to be accepted take no memory yet.
    for stream in &mut idle {
        call(stream, &[b"PING"])?;
    }
    let (is_over, peak, before) = (AtomicBool::new(false), AtomicU64::new(0), server.memory_bytes());
    let failed = Mutex::new(Vec::new());
    let note = |failure: String| failed.lock().unwrap_or_else(PoisonError::into_inner).push(failure);
    let plan = open_loop::Plan {
        connections: options.busy,
        rate: options.rate,
        time: Duration::from_secs(options.seconds),
        window: Duration::from_secs(options.window),
        keys: options.keys,
        value_bytes: options.value(),
    };
    let cpu = server.cpu_seconds();
    let measured = std::thread::scope(|scope| {
        scope.spawn(|| watch(server, &is_over, &peak));
        if !options.alone {
            scope.spawn(|| match scan(server, &is_over) {
                Ok(seen) => println!("{}: {seen} keys were scanned meanwhile", server.name),
                Err(error) => note(format!("the scan: {error}")),
            });
            scope.spawn(|| match stream(server, options.large, &is_over) {
                Ok(moved) => println!("{}: {:.0} MiB of large values meanwhile", server.name, mib(moved)),
                Err(error) => note(format!("large values: {error}")),
            });
        }
        let measured = open_loop::run(server, &plan);
        is_over.store(true, Ordering::Relaxed);
        measured
    })?;
    println!(
        "{}: {} gets a second over {} connections, {} idle ones; processor {:.0} %; {:.0} MiB before, {:.0} MiB more at most",
        server.name,
        options.rate,
        options.busy,
        options.idle,
        100.0 * (server.cpu_seconds() - cpu) / options.seconds as f64,
        mib(before),
        mib(peak.load(Ordering::Relaxed).saturating_sub(before))
    );
    println!(
        "sent late: p99 {:.2} ms, at most {:.2} ms",
        measured.sending.quantile_us(0.99) / 1e3,
        measured.sending.max_ms()
    );
    table(&measured.replies, options);
    let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    if failed.is_empty() { Ok(()) } else { Err(failed.join("; ").into()) }
}

fn mixed(server: &Server, options: &Options) -> Result<()> {
    load(server, 0..options.keys, options.value())?;
    let value = vec![b'v'; options.value()];
    let plan = closed_loop::Plan {
        connections: options.clients(),
        time: Duration::from_secs(options.seconds),
        window: Duration::from_secs(options.window),
        draw: &|number| closed_loop::mixed(number, options.keys, &value),
    };
    let cpu = server.cpu_seconds();
    let windows = closed_loop::run(server, &plan)?;
    println!(
        "{}: a mix over {} connections; processor {:.0} %; {:.0} MiB at the end",
        server.name,
        options.clients(),
        100.0 * (server.cpu_seconds() - cpu) / options.seconds as f64,
        mib(server.memory_bytes())
    );
    table(&windows, options);
    // A fifth of the time each: the second one, when all is warm, and the last one.
    let fifth = Duration::from_secs(options.seconds / 5);
    let (second, last) = (windows.rate(fifth, fifth * 2), windows.rate(fifth * 4, fifth * 5));
    println!(
        "second fifth {second:.0} a second, last fifth {last:.0}: {:+.1} %",
        100.0 * (last / second - 1.0)
    );
    let worst = windows.all().iter().map(|window| window.quantile_us(0.999) / 1e3).fold(0.0, f64::max);
    println!("the worst p99.9 of a window: {worst:.2} ms");
    Ok(())
}

/// Rates of gets while the data fits into the memory and while it does not, each in the last four fifths of its time.
fn larger(server: &Server, options: &Options) -> Result<()> {
    let memory = parse_mib(options.memory())?;
    let keys_of = |bytes: u64| (bytes / (options.value() as u64 + 16)).max(1);
    let (few, many) = (keys_of(memory / 10), keys_of(memory * 10));
    let mut rates = Vec::new();
    for keys in [0..few, few..many] {
        let end = keys.end;
        load(server, keys, options.value())?;
        let fifth = Duration::from_secs(options.seconds) / 5;
        let plan = closed_loop::Plan {
            connections: options.clients(),
            time: 5 * fifth,
            window: fifth,
            draw: &|number| closed_loop::skewed_get(number, end),
        };
        let cpu = server.cpu_seconds();
        let windows = closed_loop::run(server, &plan)?;
        println!(
            "{}: gets of {end} keys; processor {:.0} %",
            server.name,
            100.0 * (server.cpu_seconds() - cpu) / options.seconds as f64
        );
        rates.push(windows.rate(fifth, 5 * fifth));
    }
    println!(
        "{:.0} a second of a tenth of the memory, {:.0} of ten times as much: {:.2}",
        rates[0],
        rates[1],
        rates[1] / rates[0]
    );
    Ok(())
}

/// The bytes of a size such as `256MiB`.
fn parse_mib(size: &str) -> Result<u64> {
    let number = size.strip_suffix("MiB").and_then(|number| number.parse::<u64>().ok());
    Ok(number.ok_or_else(|| format!("`larger` takes the memory in MiB, and not {size:?}"))? << 20)
}

fn table(windows: &Windows, options: &Options) {
    println!("| from s | a second | p50 ms | p99 ms | p99.9 ms | max ms |");
    println!("|---:|---:|---:|---:|---:|---:|");
    for (place, window) in windows.all().iter().enumerate() {
        println!(
            "| {} | {:.0} | {:.2} | {:.2} | {:.2} | {:.2} |",
            place as u64 * options.window,
            window.count() as f64 / options.window as f64,
            window.quantile_us(0.5) / 1e3,
            window.quantile_us(0.99) / 1e3,
            window.quantile_us(0.999) / 1e3,
            window.max_ms()
        );
    }
}
