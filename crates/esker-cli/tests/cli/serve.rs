//! `esker serve` as a process: addresses, signals, kills, memory.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use esker_server::Address;
use test_kit::redis::{Client, Value, encoded, encoded_line};

use crate::support::{esker, esker_in};

/// A server that is killed when this is dropped.
pub(crate) struct Serving {
    pub(crate) child: Child,
    pub(crate) addresses: Vec<Address>,
    pub(crate) http: Vec<Address>,
    /// Where tables are served.
    pub(crate) thrift: Option<SocketAddr>,
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Serves the store of `dir` at a port and a Unix socket.
pub(crate) fn serve(dir: &Path, options: &str) -> Serving {
    serve_by(esker_in(dir), dir, options)
}

/// The same by `command`, which runs the program in `dir`.
pub(crate) fn serve_by(mut command: Command, dir: &Path, options: &str) -> Serving {
    command.args(["serve", "--resp", "127.0.0.1:0", "--resp", "unix:socket"]);
    command.args(options.split_whitespace());
    serving(dir, command)
}

/// Runs `command`, which serves at a port and a Unix socket.
pub(crate) fn serving(dir: &Path, mut command: Command) -> Serving {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut addresses, mut http, mut thrift) = (Vec::new(), Vec::new(), None);
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        if line == "ready" {
            break;
        }
        if let Some(address) = line.strip_prefix("http ") {
            http.push(address.parse().unwrap());
            continue;
        }
        if let Some(address) = line.strip_prefix("thrift ") {
            thrift = Some(address.parse().unwrap());
            continue;
        }
        addresses.push(match line.strip_prefix("resp ").unwrap().parse().unwrap() {
            Address::Unix(path) => Address::Unix(dir.join(path)),
            address => address,
        });
    }
    assert!(addresses.len() >= 2, "the server has ended");
    Serving { child, addresses, http, thrift }
}

impl Serving {
    /// The address of its port.
    pub(crate) fn tcp(&self) -> String {
        self.addresses[0].to_string()
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect(&self.addresses[0])
    }

    /// Kills it, and returns when it is dead.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn unix_client(&self) -> Client {
        Client::connect(&self.addresses[1])
    }

    /// Its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: &str) {
        let mut kill = Command::new("kill");
        assert!(kill.args([signal, &self.child.id().to_string()]).status().unwrap().success());
    }

    /// Waits for the end, and returns the exit code.
    pub(crate) fn code(&mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

#[test]
fn signals_end_it_with_code_0() {
    let dir = tempfile::tempdir().unwrap();
    for (signal, before) in [("-TERM", "$-1"), ("-INT", "-TERM"), ("-TERM", "-INT")] {
        let mut serving = serve(dir.path(), "");
        let mut client = serving.client();
        client.check(&format!("GET last => {before}\n SET last {signal} => +OK"));
        // Neither a client that waits nor one that listens holds it up.
        let (mut waiting, mut listening) = (serving.client(), serving.client());
        waiting.send("BLPOP list 0");
        listening.check("SUBSCRIBE c => [subscribe c :1]");
        serving.signal(signal);
        assert_eq!(serving.code(), Some(0), "{signal}");
        assert!(client.is_closed() && waiting.is_closed() && listening.is_closed());
        assert!(!dir.path().join("socket").exists());
    }
    assert_eq!(esker(dir.path(), "get last").stdout(), "-TERM\n");
    assert_eq!(esker(dir.path(), "check").code, 0);
}

/// The password stands in a file or a variable, and nowhere where others see it.
#[test]
fn a_password_comes_from_a_file_or_a_variable() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("password"), "secret word\n").unwrap();
    let mut with_variable = esker_in(dir.path());
    with_variable.env("ESKER_PASSWORD", "secret word");
    let mut by_variable = serve_by(with_variable, dir.path(), "");
    let auth = |serving: &Serving| {
        let mut client = serving.unix_client();
        client.check("GET a => -NOAUTH Authentication required.");
        assert_eq!(client.call_with(&["AUTH", "secret word"]).to_string(), "+OK");
        client.check("GET a => $-1");
    };
    auth(&by_variable);
    by_variable.signal("-TERM");
    assert_eq!(by_variable.code(), Some(0));
    let by_file = serve(dir.path(), "--password-file password --resp 0.0.0.0:0");
    auth(&by_file);
    let line = fs::read(format!("/proc/{}/cmdline", by_file.child.id())).unwrap_or_default();
    assert!(!String::from_utf8_lossy(&line).contains("secret"));
    drop(by_file);
    fs::write(dir.path().join("users"), "user default off\n").unwrap();
    fs::write(dir.path().join("bad"), "user x >secret nope\n").unwrap();
    for options in [
        "--resp 0.0.0.0:0",
        "--password-file absent",
        "--password-file /dev/zero",
        "--password-file password --acl-file users",
        "--acl-file absent",
        "--acl-file bad",
        "--tls-cert password",
        "--tls-key password",
        "--tls-cert password --tls-key password",
        "--tls-client-ca password",
        "--resp tls://127.0.0.1:0",
        "--max-clients 0",
    ] {
        let done = esker(dir.path(), &format!("serve --resp 127.0.0.1:0 {options}"));
        assert_eq!(done.code, 2, "{options}: {}", done.stderr());
        assert!(!done.stderr().contains("secret"), "{}", done.stderr());
    }
    // No store is made for a server that cannot begin.
    let empty = tempfile::tempdir().unwrap();
    for options in ["--acl-file absent", "--tls-cert absent --tls-key absent"] {
        let done = esker(empty.path(), &format!("serve --resp 127.0.0.1:0 {options}"));
        assert_eq!(done.code, 2, "{options}: {}", done.stderr());
    }
    assert_eq!(fs::read_dir(empty.path()).unwrap().count(), 0);
    let printed = esker(dir.path(), "serve --print-config --tls-cert password");
    assert_eq!((printed.code, printed.stdout().as_str()), (2, ""));
    let mut both = esker_in(dir.path());
    both.env("ESKER_PASSWORD", "secret").args(["serve", "--password-file", "password"]);
    assert_eq!(both.stdin(Stdio::null()).output().unwrap().status.code(), Some(2));
}

/// As when its terminal is closed, or something asks all processes to read their files again.
#[test]
fn a_hangup_is_no_end() {
    let dir = tempfile::tempdir().unwrap();
    let mut serving = serve(dir.path(), "");
    serving.signal("-HUP");
    serving.client().check("PING => +PONG");
    serving.signal("-TERM");
    assert_eq!(serving.code(), Some(0));
}

/// One that does not read holds it up for some seconds, and no longer.
#[test]
fn a_client_that_does_not_read_does_not_keep_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut serving = serve(dir.path(), "");
    let (mut client, mut deaf) = (serving.client(), serving.unix_client());
    client.call_with(&[b"SET", &b"huge"[..], &vec![b'x'; 1 << 20]]);
    deaf.send_bytes(&encoded_line("GET huge").repeat(50));
    assert_eq!(deaf.read().bytes().len(), 1 << 20);
    serving.signal("-TERM");
    assert_eq!(serving.code(), Some(0));
}

/// What a client has the reply to is there after a kill, and each transaction as a whole.
#[test]
fn a_kill_loses_no_acknowledged_write() {
    const CLIENTS: usize = 3;
    let dir = tempfile::tempdir().unwrap();
    let mut acknowledged = [0_i64; CLIENTS];
    let huge = vec![b'x'; 300_000];
    for round in 0..4 {
        let mut serving = serve(dir.path(), if round == 3 { "--durability every=10ms" } else { "" });
        let mut client = serving.client();
        for (number, least) in acknowledged.iter().enumerate() {
            let count = |reply: Value| reply.to_string().parse::<i64>().unwrap_or(0);
            let found = count(client.call(&format!("GET n{number}")));
            assert!(found >= *least, "round {round}: {found} of {least}");
            assert_eq!(count(client.call(&format!("GET m{number}"))), found, "half of a transaction");
            // Of each round, the last one may have been cut off in any place.
            let list = client.call(&format!("LLEN list{number}")).integer();
            assert!((found..=found + round).contains(&list), "{found} {list}");
            let members = client.call(&format!("SMEMBERS set{number}"));
            let Value::Array(members) = members else { panic!("{members}") };
            assert!((found..=found + round).contains(&(members.len() as i64)), "{found} {}", members.len());
            let len = client.call(&format!("STRLEN huge{number}")).integer();
            assert!(len == huge.len() as i64 || found == 0, "{len}");
        }
        let (enough, begun) = (150 + 100 * round, AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for (number, last) in acknowledged.iter_mut().enumerate() {
                let (mut client, huge, begun) = (serving.client(), &huge, &begun);
                *last = client.call(&format!("GET n{number}")).to_string().parse().unwrap_or(0);
                scope.spawn(move || {
                    for done in 0_i64.. {
                        let mut bytes = encoded_line(&format!("RPUSH list{number} x"));
                        bytes.extend(encoded(&[
                            "SADD".to_owned(),
                            format!("set{number}"),
                            format!("{round}.{done}"),
                        ]));
                        if done % 20 == 0 {
                            bytes.extend(encoded(&[b"SET", format!("huge{number}").as_bytes(), huge]));
                        }
                        bytes.extend(encoded_line("MULTI"));
                        bytes.extend(encoded_line(&format!("INCR n{number}")));
                        bytes.extend(encoded_line(&format!("INCR m{number}")));
                        bytes.extend(encoded_line("EXEC"));
                        if client.try_send_bytes(&bytes).is_err() {
                            break;
                        }
                        let replies = if done % 20 == 0 { 7 } else { 6 };
                        let mut reply = None;
                        for _ in 0..replies {
                            reply = client.try_read().ok().flatten();
                            if reply.is_none() {
                                return;
                            }
                        }
                        let Some(Value::Array(counts)) = reply else { panic!("{reply:?}") };
                        *last = counts[0].integer();
                        if done == 0 {
                            begun.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
            // While all of them write.
            loop {
                let count = client.call("GET n0").to_string().parse::<i64>().unwrap_or(0);
                if count >= enough && begun.load(Ordering::Relaxed) == CLIENTS {
                    break;
                }
            }
            serving.kill();
        });
        assert!(acknowledged.iter().all(|count| *count > 0), "{acknowledged:?}");
        assert_eq!(esker(dir.path(), "check").code, 0);
    }
}

/// Replies that nobody reads, and arguments that are only claimed, take no memory.
#[test]
fn clients_that_do_not_read_cost_little_memory() {
    let dir = tempfile::tempdir().unwrap();
    let serving = serve(dir.path(), "");
    let mut client = serving.client();
    client.call_with(&[b"SET", &b"huge"[..], &vec![b'x'; 1 << 20]]);
    let memory_mib = || {
        let status = fs::read_to_string(format!("/proc/{}/status", serving.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").trim().parse::<u64>().unwrap() >> 10
    };
    let before = memory_mib();
    let mut deaf: Vec<Client> = (0..10).map(|_| serving.unix_client()).collect();
    for client in &mut deaf {
        client.send_bytes(&encoded_line("GET huge").repeat(200));
        client.send_bytes(b"*1000000\r\n$500000000\r\nabc");
    }
    let begin = Instant::now();
    for client in &mut deaf {
        assert_eq!(client.read().bytes().len(), 1 << 20);
    }
    for _ in 0..3000 {
        client.check("PING => +PONG");
    }
    let more = memory_mib() - before;
    assert!(more < 200, "{more} MiB for {} clients, {:?}", deaf.len(), begin.elapsed());
    drop(deaf);
    client.check("EXISTS huge => :1");
}

#[test]
fn options_hold() {
    let dir = tempfile::tempdir().unwrap();
    let serving = serve(dir.path(), "--databases 2 --max-clients 2 --timeout 100 --durability power");
    let mut client = serving.client();
    client.check(
        "SELECT 1 => +OK
        SELECT 2 => -ERR DB index is out of range
        CONFIG GET databases => [databases 2]
        CONFIG GET timeout => [timeout 100]
        CONFIG GET maxclients => [maxclients 2]
        CONFIG GET appendfsync => [appendfsync always]",
    );
    let mut second = serving.unix_client();
    second.check("PING => +PONG");
    assert_eq!(serving.client().read_to_end().len(), 1);
    // The store is in use.
    for command in ["get a", "put a 1", "serve --resp unix:other"] {
        let done = esker(dir.path(), command);
        assert_eq!(done.code, 3, "{command}: {}", done.stderr());
        assert!(done.stderr().contains("in use"), "{}", done.stderr());
        assert!(done.stderr().contains("--url"), "{}", done.stderr());
    }
    assert!(!dir.path().join("other").exists());
}

#[test]
fn what_it_refuses() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(esker(dir.path(), "put a 1").code, 0);
    fs::write(dir.path().join("file"), "text").unwrap();
    for (arguments, part) in [
        ("serve --resp 0.0.0.0:0", "will not listen to 0.0.0.0:0"),
        ("serve --resp unix:file", "cannot listen to file"),
        ("serve --resp unix:none/socket", "cannot listen to none/socket"),
        ("serve --resp 6379", "is no address"),
        ("serve --resp tls://127.0.0.1:0", "TLS needs a certificate"),
        ("serve --http tls://127.0.0.1:0", "HTTP has no TLS here"),
        ("serve --resp tls://127.0.0.1:0 --db none", "TLS needs a certificate"),
        ("serve --durability fast --resp unix:s", "is no durability"),
        ("serve --durability every=0ms --resp unix:s", "is no durability"),
        ("serve --databases 0 --resp unix:s", "is not in 1..=1024"),
    ] {
        let done = esker(dir.path(), arguments);
        assert_eq!(done.code, 2, "{arguments}: {}", done.stderr());
        assert!(done.stderr().contains(part), "{arguments}: {}", done.stderr());
        assert_eq!(done.stdout(), "", "{arguments}");
    }
    assert_eq!(fs::read_to_string(dir.path().join("file")).unwrap(), "text");
    assert_eq!(esker(dir.path(), "get a").stdout(), "1\n");
    assert!(!dir.path().join("none").exists(), "no store was made for an address that cannot be");
}

/// A socket that a killed server has left behind is in nobody's way.
#[test]
fn the_socket_of_a_killed_server_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    for round in 1..=3 {
        let serving = serve(dir.path(), "");
        serving.unix_client().check(&format!("INCR n => :{round}"));
        drop(serving);
        assert!(dir.path().join("socket").exists());
    }
}
