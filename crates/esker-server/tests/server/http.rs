//! `/metrics`, `/health` and `/ready`: what they say, and that those who ask badly harm nobody.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};

use esker::fs::sim::SimFs;
use esker_server::{Address, Config};

use crate::client::{Value, encoded, encoded_line};
use crate::host::{Host, PATIENCE, Store, wait_until};

fn with_http(config: &mut Config) {
    config.http.push(Address::Tcp("127.0.0.1".to_owned(), 0));
}

impl Host {
    /// Connects to the port of HTTP and sends these bytes.
    fn http(&self, bytes: &[u8]) -> TcpStream {
        let Address::Tcp(host, port) = &self.http[0] else { panic!("{:?}", self.http) };
        let mut stream = TcpStream::connect((host.as_str(), *port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        // One that is refused may have gone already.
        let _ = stream.write_all(bytes);
        stream
    }

    /// The status and the body of the answer to `GET path`.
    fn get(&self, path: &str) -> (u16, String) {
        let (head, body) = answer(self.http(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()));
        (head.split(' ').nth(1).unwrap_or_default().parse().unwrap_or(0), body)
    }
}

/// The head and the body of an answer; both are empty if there is none.
fn answer(mut stream: TcpStream) -> (String, String) {
    let mut bytes = Vec::new();
    let ended = stream.read_to_end(&mut bytes);
    assert!(ended.is_ok() || !crate::client::is_timeout(&ended.unwrap_err()), "the connection goes on");
    let text = String::from_utf8(bytes).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_default();
    (head.to_owned(), body.to_owned())
}

/// The samples of a text of Prometheus, by name with labels, after a check of the form.
fn samples(text: &str) -> BTreeMap<String, f64> {
    let (mut families, mut found) = (BTreeMap::new(), BTreeMap::new());
    let mut helped = BTreeSet::new();
    let mut family = "";
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, help) = help.split_once(' ').unwrap();
            assert!(helped.insert(name) && !help.is_empty(), "{line}");
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let (name, kind) = kind.split_once(' ').unwrap();
            assert!(helped.contains(name) && families.insert(name, kind).is_none(), "{line}");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            for unit in ["_us", "_usec", "_ms", "_kib", "_percent"] {
                assert!(!name.contains(unit), "{name} is in no base unit");
            }
            family = name;
        } else {
            let (sample, value) = line.rsplit_once(' ').unwrap();
            let name = sample.split('{').next().unwrap();
            let ends: &[&str] =
                if families[family] == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
            assert!(
                ends.iter().any(|end| name.strip_suffix(end) == Some(family)),
                "{line} is not of {family}"
            );
            assert!(
                name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
            );
            assert!(
                found.insert(sample.to_owned(), value.parse().unwrap()).is_none(),
                "{sample} comes twice"
            );
        }
    }
    found
}

/// Buckets grow, and the last one counts all.
fn check_buckets(samples: &BTreeMap<String, f64>, name: &str, command: &str) {
    let begin = format!("{name}_bucket{{command=\"{command}\",le=\"");
    let mut buckets: Vec<(f64, f64)> = samples
        .iter()
        .filter_map(|(sample, count)| {
            let end = sample.strip_prefix(&begin)?.strip_suffix("\"}")?;
            Some((end.parse().unwrap_or(f64::INFINITY), *count))
        })
        .collect();
    buckets.sort_by(|one, other| one.0.total_cmp(&other.0));
    assert!(buckets.len() > 10 && buckets.is_sorted_by(|one, other| one.1 <= other.1), "{buckets:?}");
    let count = samples[&format!("{name}_count{{command=\"{command}\"}}")];
    assert_eq!(buckets.last().copied(), Some((f64::INFINITY, count)));
}

#[test]
fn metrics_have_the_figures() {
    let host = Host::of(&Store::in_memory(), with_http);
    let mut client = host.client();
    client.check("CONFIG RESETSTAT => +OK\n SET secretkey secretvalue => +OK\n GET secretkey => secretvalue");
    assert!(client.call("LPUSH secretkey x").is_error() && client.call("GET").is_error());
    assert!(client.call("NOSUCHCOMMAND").is_error());
    assert!(client.call("AUTH nobody geheim").is_error());
    client.check("AUTH default geheim => +OK\n SUBSCRIBE secretchannel => [subscribe secretchannel :1]");
    let (status, text) = host.get("/metrics");
    assert_eq!(status, 200);
    let found = samples(&text);
    for (name, value) in [
        ("esker_server_ready", 1.0),
        ("esker_server_store_stats", 1.0),
        ("esker_server_connections", 1.0),
        ("esker_server_connections_limit", 10_000.0),
        ("esker_server_subscribed_connections", 1.0),
        ("esker_server_channels", 1.0),
        ("esker_server_commits_total", 1.0),
        ("esker_server_commands_total{command=\"get\"}", 1.0),
        ("esker_server_rejected_commands_total{command=\"get\"}", 1.0),
        ("esker_server_rejected_commands_total{command=\"unknown\"}", 1.0),
        ("esker_server_failed_commands_total{command=\"lpush\"}", 1.0),
        ("esker_server_pool_threads", 10.0),
        ("esker_server_pool_reasons_total{reason=\"password\"}", 1.0),
        ("esker_server_denials_total{reason=\"password\"}", 1.0),
        ("esker_server_denials_total{reason=\"key\"}", 0.0),
        ("esker_server_failed_tls_handshakes_total", 0.0),
    ] {
        assert_eq!(found.get(name), Some(&value), "{name}");
    }
    check_buckets(&found, "esker_server_command_duration_seconds", "get");
    for name in
        ["process_resident_memory_bytes", "process_open_fds", "esker_operations_total{operation=\"write\"}"]
    {
        assert!(found[name] > 0.0, "{name}");
    }
    for secret in ["secret", "geheim", "NOSUCH"] {
        assert!(!text.contains(secret), "{secret}");
    }
}

#[test]
fn what_is_answered() {
    let host = Host::of(&Store::in_memory(), with_http);
    assert_eq!(host.get("/health"), (200, "ok\n".to_owned()));
    assert_eq!(host.get("/ready"), (200, "ready\n".to_owned()));
    assert_eq!(host.get("/ready?x=1").0, 200);
    for path in ["/", "/metrics/", "/../metrics", "//metrics", "/health%00"] {
        assert_eq!(host.get(path).0, 404, "{path}");
    }
    let (head, body) = answer(host.http(b"HEAD /metrics HTTP/1.1\r\nHost: x\r\n\r\n"));
    assert!(head.starts_with("HTTP/1.1 200 ") && body.is_empty(), "{head} {body}");
    let (head, _) = answer(host.http(b"POST /health HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"));
    assert!(head.starts_with("HTTP/1.1 405 "), "{head}");
    // A connection has one request.
    let (head, body) = answer(host.http(&b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n".repeat(3)));
    assert!(head.contains("connection: close") && body == "ok\n", "{head} {body}");
}

#[test]
fn requests_that_are_none_are_sent_away() {
    let host = Host::of(&Store::in_memory(), with_http);
    let mut client = host.client();
    let huge = format!("GET /health HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(100_000));
    let many = format!("GET /health HTTP/1.1\r\n{}\r\n", "X: y\r\n".repeat(10_000));
    let bad: [&[u8]; 6] = [
        b"*1\r\n$4\r\nPING\r\n",
        b"\0\xff\r\n\r\n",
        huge.as_bytes(),
        many.as_bytes(),
        b"GET /health HTTP/9.9\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ];
    for bytes in bad {
        let stream = host.http(bytes);
        let _ = stream.shutdown(Shutdown::Write);
        let (head, body) = answer(stream);
        assert!(head.is_empty() || head.starts_with("HTTP/1.1 4"), "{head}");
        assert!(!body.contains("ok"), "{body}");
        client.check("PING => +PONG");
    }
    assert_eq!(host.get("/health").0, 200);
}

/// Connections that send nothing, or little by little, or read nothing, take the places of others over HTTP for some
/// seconds, and no Redis client notices.
#[test]
fn silent_connections_are_few_and_short() {
    let host = Host::of(&Store::in_memory(), with_http);
    let mut client = host.client();
    let silent: Vec<TcpStream> = (0..100)
        .map(|number| host.http(if number % 2 == 0 { b"" } else { b"GET /metrics HTTP/1.1\r\nX: " }))
        .collect();
    // Some are refused at once.
    wait_until("the places are taken", || host.get("/health").0 == 0);
    client.check("SET a 1 => +OK\n GET a => 1");
    wait_until("their time is over", || host.get("/health").0 == 200);
    for stream in silent {
        let (head, body) = answer(stream);
        assert!(!head.contains(" 200 ") && body.is_empty(), "{head} {body}");
    }
    let (_, text) = host.get("/metrics");
    assert!(samples(&text)["esker_server_refused_http_connections_total"] >= 36.0);
}

#[test]
fn a_full_disk_is_not_ready() {
    let disk = SimFs::new(1);
    let store = Store::on(&disk);
    let host = Host::of(&store, with_http);
    let mut client = host.client();
    client.check("SET a 1 => +OK");
    assert_eq!(host.get("/ready").0, 200);
    disk.set_capacity(Some(16 << 20));
    let value = vec![b'x'; 10_000];
    let mut written = 0;
    // What the background gives back is filled too.
    let (mut why, mut is_ready) = (String::new(), 1.0);
    wait_until("the disk is full", || {
        while !client.call_with(&[b"SET", format!("k{written}").as_bytes(), &value]).is_error() {
            written += 1;
        }
        let (status, text) = host.get("/ready");
        why = text;
        is_ready = samples(&host.get("/metrics").1)["esker_server_ready"];
        status == 503 && is_ready == 0.0
    });
    assert!(why.contains("the disk is full"), "{why}");
    assert_eq!(host.get("/health").0, 200);
    // Without any write in between.
    disk.set_capacity(None);
    assert_eq!(host.get("/ready").0, 200);
    client.check("SET a 2 => +OK");
}

/// While running commands end, HTTP says that the server is ending.
#[test]
fn a_server_that_ends_is_not_ready() {
    let mut host = Host::of(&Store::in_memory(), with_http);
    let (mut client, mut deaf) = (host.client(), host.unix_client());
    client.call_with(&[b"SET", &b"huge"[..], &vec![b'x'; 1 << 20]]);
    // Its replies hold the end up.
    deaf.send_bytes(&encoded_line("GET huge").repeat(20));
    assert_eq!(deaf.read().bytes().len(), 1 << 20);
    host.begin_to_end();
    assert!(client.is_closed());
    let (status, text) = host.get("/ready");
    assert_eq!((status, text.as_str()), (503, "not ready: the server is ending\n"));
    drop(deaf);
    host.end();
}

/// Requests for metrics beside each other, and a client that asks for them and reads nothing.
#[test]
fn many_ask_for_metrics() {
    let host = Host::of(&Store::in_memory(), with_http);
    let mut client = host.client();
    // Every command has figures.
    for name in client.call("COMMAND LIST").to_string().trim_matches(['[', ']']).split(' ') {
        if !["subscribe", "psubscribe", "quit", "wait"].contains(&name) {
            client.send_bytes(&encoded(&[name]));
            client.read();
        }
    }
    let deaf: Vec<TcpStream> =
        (0..20).map(|_| host.http(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")).collect();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..3 {
                    let (status, text) = host.get("/metrics");
                    assert_eq!(status, 200);
                    assert!(samples(&text).len() > 200);
                }
            });
        }
    });
    let mut other = host.client();
    assert!(matches!(other.call("PING"), Value::Simple(_)));
    drop(deaf);
}
