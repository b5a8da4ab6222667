//! What those need who keep a server running: its log, its supervisor, and the files of `ops/`.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use esker_server::Address;

use super::serve::{Serving, serve, serving};
use crate::support::{esker_in, run};

fn ops(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ops").join(name)
}

/// The body of the answer to `GET path`.
pub(crate) fn get(serving: &Serving, path: &str) -> String {
    let Address::Tcp(host, port) = &serving.http[0] else { panic!("{:?}", serving.http) };
    let mut stream = TcpStream::connect((host.as_str(), *port)).unwrap();
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text.split_once("\r\n\r\n").unwrap().1.to_owned()
}

/// The words of `text` that are names of metrics.
fn metrics_in(text: &str) -> BTreeSet<&str> {
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    words.filter(|word| word.starts_with("esker_") || word.starts_with("process_")).collect()
}

/// Dashboard and alerts ask for metrics that there are.
#[test]
fn the_dashboard_and_the_alerts_fit_the_metrics() {
    let dir = tempfile::tempdir().unwrap();
    let serving = serve(dir.path(), "--http 127.0.0.1:0");
    serving.client().check("SET a 1 => +OK");
    let text = get(&serving, "/metrics");
    let mut known = BTreeSet::new();
    for line in text.lines() {
        let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|line| line.split_once(' ')) else {
            continue;
        };
        let ends: &[&str] = if kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
        known.extend(ends.iter().map(|end| format!("{name}{end}")));
    }
    for file in ["grafana-dashboard.json", "alerts.yml"] {
        let text = fs::read_to_string(ops(file)).unwrap();
        let asked = metrics_in(&text);
        assert!(asked.len() > 10, "{file}: {asked:?}");
        for name in asked {
            assert!(known.contains(name), "{file}: there is no metric {name}");
        }
    }
    let dashboard = fs::read_to_string(ops("grafana-dashboard.json")).unwrap();
    let dashboard: serde_json::Value = serde_json::from_str(&dashboard).unwrap();
    assert!(dashboard["panels"].as_array().unwrap().len() > 10);
}

/// The example is sound as it is, and with each of its defaults set.
#[test]
fn the_example_of_a_configuration_is_sound() {
    let dir = tempfile::tempdir().unwrap();
    let text = fs::read_to_string(ops("esker.toml")).unwrap();
    let is_setting =
        |line: &str| line.starts_with(|letter: char| letter.is_ascii_lowercase()) && line.contains(" = ");
    let uncommented: Vec<&str> = text
        .lines()
        .map(|line| line.strip_prefix('#').filter(|line| is_setting(line)).unwrap_or(line))
        .collect();
    assert!(uncommented.iter().filter(|line| is_setting(line)).count() > 15);
    let variants = [("example.toml", text.clone()), ("all.toml", uncommented.join("\n"))];
    for (name, text) in variants {
        fs::write(dir.path().join(name), text).unwrap();
        let mut command = esker_in(dir.path());
        command.args(["serve", "--config", name, "--print-config"]);
        let done = run(command, b"");
        assert_eq!(done.code, 0, "{name}: {}", done.stderr());
        assert!(done.stdout().contains("db = \"/var/lib/esker/store\""), "{}", done.stdout());
    }
    let unit = fs::read_to_string(ops("esker.service")).unwrap();
    assert!(unit.contains("Type=notify") && unit.contains("serve --config /etc/esker/esker.toml"));
}

#[test]
fn the_log_has_a_line_for_each_event() {
    let dir = tempfile::tempdir().unwrap();
    for format in ["json", "text"] {
        let log = fs::File::create(dir.path().join("log")).unwrap();
        let mut command = esker_in(dir.path());
        command.args([
            "serve",
            "--resp",
            "127.0.0.1:0",
            "--resp",
            "unix:socket",
            "--slowlog-log-slower-than",
            "0",
        ]);
        command.args(["--log-format", format, "--max-clients", "1"]).stderr(log);
        let mut serving = serving(dir.path(), command);
        let mut client = serving.client();
        client.check("AUTH default geheim => +OK\n SET a\"b c => +OK");
        for _ in 0..20 {
            assert_eq!(serving.client().read_to_end().len(), 1);
        }
        serving.signal("-TERM");
        assert_eq!(serving.code(), Some(0));
        let text = fs::read_to_string(dir.path().join("log")).unwrap();
        for part in ["starting", "opened", "ready", "connection refused", "slow command", "ending", "ended"] {
            assert!(text.contains(part), "{part} of {text}");
        }
        // Neither passwords nor values, and few lines of each kind.
        assert!(!text.contains("geheim") && text.lines().count() < 40, "{text}");
        if format == "json" {
            let lines: Vec<serde_json::Value> =
                text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            let slow = lines.iter().find(|line| line["command"] == "set").unwrap();
            assert_eq!((&slow["key"], &slow["level"]), (&"a\\\"b".into(), &"WARN".into()));
            // The numbers that `SLOWLOG GET` shows.
            let numbers = lines.iter().filter_map(|line| line["command"].as_str().and(line["id"].as_u64()));
            assert!(numbers.clone().count() > 1 && numbers.is_sorted_by(|one, other| one < other), "{text}");
        }
    }
}

/// Standard error is a pipe that is full, and that nobody reads.
#[test]
fn a_log_that_nobody_reads_stops_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (reader, mut writer) = std::io::pipe().unwrap();
    // Linux gives a pipe 64 KiB.
    writer.write_all(&[b'x'; 64 << 10]).unwrap();
    let mut command = esker_in(dir.path());
    command.args([
        "serve",
        "--resp",
        "127.0.0.1:0",
        "--resp",
        "unix:socket",
        "--slowlog-log-slower-than",
        "0",
    ]);
    command.stderr(Stdio::from(writer));
    let mut serving = serving(dir.path(), command);
    let mut client = serving.client();
    for _ in 0..2000 {
        client.check("PING => +PONG");
    }
    serving.signal("-TERM");
    assert_eq!(serving.code(), Some(0));
    drop(reader);
}

#[test]
fn the_supervisor_hears_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let supervisor = UnixDatagram::bind(dir.path().join("notify")).unwrap();
    supervisor.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let heard = || {
        let mut bytes = [0; 100];
        let len = supervisor.recv(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..len]).into_owned()
    };
    for socket in [dir.path().join("notify"), dir.path().join("absent")] {
        let mut command = esker_in(dir.path());
        command
            .args(["serve", "--resp", "127.0.0.1:0", "--resp", "unix:socket"])
            .env("NOTIFY_SOCKET", &socket);
        let mut serving = serving(dir.path(), command);
        let is_there = socket.exists();
        if is_there {
            assert_eq!(heard(), "READY=1");
        }
        serving.signal("-TERM");
        if is_there {
            assert_eq!(heard(), "STOPPING=1");
        }
        assert_eq!(serving.code(), Some(0));
    }
}

/// An address that is in use is named, and how to do without it.
#[test]
fn ports_in_use_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let serving = serve(dir.path(), "--http 127.0.0.1:0");
    let other = tempfile::tempdir().unwrap();
    let mut command = esker_in(other.path());
    command.args(["serve", "--resp", "unix:s", "--http", &serving.http[0].to_string()]);
    let done = run(command, b"");
    assert_eq!(done.code, 2);
    assert!(done.stderr().contains(&format!("cannot listen to {}", serving.http[0])), "{}", done.stderr());
    let mut command = esker_in(other.path());
    command.args(["serve", "--http", "0.0.0.0:0"]);
    let done = run(command, b"");
    assert!(done.code == 2 && done.stderr().contains("will not listen to 0.0.0.0:0"), "{}", done.stderr());
}
