//! Users and rights against a real Redis 7.0: the same commands go to both, and the replies must be the same.

use std::process::{Child, Command, Stdio};

use esker_server::Address;
use tempfile::TempDir;

use crate::client::{Client, Value};
use crate::host::{Host, wait_until};

struct Redis {
    child: Child,
    dir: TempDir,
}

impl Redis {
    fn start() -> Result<Redis, String> {
        let told = Command::new("redis-server").arg("--version").output();
        let told = told.map_err(|_| "redis-server is not installed".to_owned())?;
        if !String::from_utf8_lossy(&told.stdout).contains("v=7.0.") {
            return Err("redis-server 7.0 is not installed".to_owned());
        }
        let dir = tempfile::tempdir().unwrap();
        let child = Command::new("redis-server")
            .args(["--port", "0", "--unixsocket", "socket", "--save", "", "--appendonly", "no"])
            .current_dir(dir.path())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let redis = Redis { child, dir };
        let socket = redis.dir.path().join("socket");
        wait_until("Redis listens", || std::os::unix::net::UnixStream::connect(&socket).is_ok());
        Ok(redis)
    }

    fn client(&self) -> Client {
        Client::connect(&Address::Unix(self.dir.path().join("socket")))
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn skip(test: &str, why: &str) {
    use std::io::Write;
    println!("skipped {test}: {why}");
    if let Some(path) = std::env::var_os("ESKER_SKIPPED") {
        let mut file = std::fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
        writeln!(file, "{test}: {why}").unwrap();
    }
}

/// Rules that are set one after the other for a user; after each, the user is shown.
const RULES: &[&str] = &[
    "on",
    "off",
    "nopass",
    ">pw",
    "resetpass",
    "nope",
    "#abc",
    "~",
    "~a",
    "%R~x",
    "%X~x",
    "%~x",
    "%RW~x",
    "%WR~z",
    "%RR~x",
    "%r~low",
    "%W~x",
    "allkeys ~x",
    "~x allkeys",
    "~*",
    "resetkeys ~x",
    "&",
    "&c &c",
    "&*",
    "allchannels &x",
    "resetchannels",
    "+nope",
    "+@nope",
    "+config|nope",
    "-config|nope",
    "+config|get|x",
    "+client|list|x",
    "+",
    "-",
    "+@",
    "+GET",
    "+config",
    "-config|set",
    "+CLIENT|ID",
    "-@all +@read",
    "+@READ",
    "allcommands",
    "-@dangerous +config|get",
    "nocommands",
    "+@all -@write",
    "+set",
    "ALLKEYS ALLCHANNELS NOCOMMANDS ON",
    "reset",
];

/// What two users may do.
const USERS: [&str; 3] = [
    "on nopass ~own:* %R~in:* %W~out:* &news:* +@all -@dangerous -get -client|setname",
    "on nopass ~* &* +@read +@connection -@slow +config|get -select",
    "on nopass allkeys -@all +@write +multi +exec +discard +acl|whoami -@list",
];

/// Commands that each of them tries, so that wrong commands are told before missing rights, and so on.
const COMMANDS: &[&str] = &[
    "ACL WHOAMI",
    "ACL LIST",
    "ACL USERS",
    "GET own:1",
    "GET",
    "MGET own:1 in:1",
    "MGET own:1 out:1",
    "SET out:1 x",
    "SET out:1 x GET",
    "SET in:1 x",
    "SET other x",
    "INCR out:2",
    "APPEND out:3 x",
    "GETDEL out:3",
    "GETEX own:3 PERSIST",
    "EXISTS in:1 out:1 own:1",
    "EXISTS other",
    "STRLEN out:1",
    "TYPE out:1",
    "TYPE other",
    "DEL out:9 own:9",
    "DEL in:9",
    "EXPIRE out:1 100",
    "TTL out:1",
    "COPY in:1 out:4",
    "COPY out:1 in:4",
    "RENAME own:none own:x",
    "RENAME in:1 out:1",
    "RENAME own:none in:1",
    "LPUSH out:l x",
    "LPOP out:l",
    "LMOVE own:l out:l LEFT LEFT",
    "LMOVE in:l out:l LEFT LEFT",
    "RPOPLPUSH own:l in:l",
    "BLPOP own:none other 0.01",
    "BLMPOP 0.01 2 own:none out:none LEFT",
    "SADD out:s x",
    "SPOP out:s",
    "SMOVE own:s out:s x",
    "SINTERSTORE own:s in:s",
    "SUNIONSTORE out:s in:s",
    "SUNIONSTORE out:s out:s",
    "HSET out:h f v",
    "HGET out:h f",
    "HDEL out:h f",
    "HINCRBY out:h f 1",
    "ZADD out:z 1 a",
    "ZADD in:z 1 a",
    "ZRANGESTORE out:z2 in:z 0 1",
    "ZRANGESTORE out:z2 out:z 0 1",
    "ZUNIONSTORE out:z 2 in:z own:z",
    "ZUNIONSTORE out:z 2 in:z out:z",
    "ZUNIONSTORE in:z 1 own:z",
    "ZINTER 2 in:z out:z",
    "ZPOPMIN out:z",
    "BITOP AND out:b in:b own:b",
    "BITOP AND in:b own:b",
    "SETBIT out:b 1 1",
    "GETBIT out:b 1",
    "OBJECT ENCODING other",
    "MSET own:m x out:m y",
    "MSET own:m x in:m y",
    "MSETNX out:m2 x",
    "SETNX in:x 1",
    "SETRANGE out:1 1 x",
    "WATCH other",
    "WATCH in:1",
    "UNWATCH",
    "TOUCH other",
    "PERSIST in:1",
    "SCAN 0 COUNT 1000 MATCH none*",
    "KEYS none*",
    "DBSIZE x",
    "FLUSHALL NOPE",
    "CONFIG GET nope",
    "CONFIG SET timeout 0",
    "CLIENT SETNAME a",
    "CLIENT GETNAME",
    "SELECT 99",
    "PUBLISH news:a x",
    "PUBLISH other x",
    "PSUBSCRIBE news:a*",
    "SUBSCRIBE news:a other",
    "PUBSUB CHANNELS none*",
    "PING",
    "ECHO x",
    "NOPE",
    "MULTI",
    "GET in:1",
    "SET other x",
    "EXEC",
    "MULTI",
    "SET own:1 1",
    "EXEC",
    "AUTH u",
    "AUTH nobody x",
    "ACL DRYRUN u GET own:1",
];

/// What Redis says with words that we leave out, or keep otherwise.
fn comparable(reply: &Value) -> String {
    let text = reply
        .to_string()
        .replace("sanitize-payload ", "")
        .replace(" sanitize-payload]", "]")
        .replace(']', " ]");
    // Errors do not repeat passwords.
    let text = match text.split_once("modifier '") {
        Some((before, rest)) if rest.starts_with(['>', '<', '#', '!']) => {
            let (_, after) = rest.split_once("': ").unwrap_or_default();
            format!("{before}modifier '{}(redacted)': {after}", &rest[..1])
        }
        _ => text,
    };
    let kept = |word: &str| {
        word.trim_start_matches('[').starts_with("$argon2id$")
            || word.trim_matches(['#', '[', ']']).len() == 64
    };
    let mut words: Vec<&str> = text.split(' ').map(|word| if kept(word) { "kept" } else { word }).collect();
    // Redis 7.0 makes up the rules about commands anew, in an order of its own.
    let is_rule =
        |word: &&str| word.starts_with(['+', '-']) && !word.starts_with("-ERR") && !word.starts_with("+OK");
    words
        .chunk_by_mut(|one, other| is_rule(one) == is_rule(other))
        .filter(|run| is_rule(&run[0]))
        .for_each(<[&str]>::sort_unstable);
    words.join(" ")
}

#[test]
fn rights_are_those_of_redis() {
    let redis = match Redis::start() {
        Ok(redis) => redis,
        Err(why) => return skip("rights_are_those_of_redis", &why),
    };
    let host = Host::start();
    let (mut ours, mut theirs) = (host.client(), redis.client());
    let mut both = |command: &str| {
        let (our, their) = (comparable(&ours.call(command)), comparable(&theirs.call(command)));
        assert_eq!(our, their, "{command}");
        our
    };
    for category in both("ACL CAT").trim_matches(['[', ']']).split(' ') {
        // Theirs has more commands; all of ours that Redis has are in the same categories.
        let of = |reply: String| -> Vec<String> {
            reply.trim_matches(['[', ']']).split(' ').map(str::to_owned).collect()
        };
        let our = of(host.client().call(&format!("ACL CAT {category}")).to_string());
        let their = of(redis.client().call(&format!("ACL CAT {category}")).to_string());
        let all: Vec<String> = ["fast", "slow"]
            .iter()
            .flat_map(|speed| of(redis.client().call(&format!("ACL CAT {speed}")).to_string()))
            .collect();
        for name in &our {
            assert!(their.contains(name) || !all.contains(name), "{name} is not @{category}");
        }
        let known: Vec<String> = ["fast", "slow"]
            .iter()
            .flat_map(|speed| of(host.client().call(&format!("ACL CAT {speed}")).to_string()))
            .collect();
        for name in &their {
            assert!(our.contains(name) || !known.contains(name), "{name} is @{category}");
        }
    }
    for rules in RULES {
        both(&format!("ACL SETUSER t {rules}"));
        both("ACL GETUSER t");
        both("ACL LIST");
    }
    for command in [
        "ACL GETUSER none",
        "ACL DELUSER t none",
        "ACL CAT nope",
        "ACL NOPE",
        "ACL GETUSER",
        "ACL",
        "ACL GENPASS 0",
        "ACL GENPASS x",
        "ACL DRYRUN none GET a",
        "ACL WHOAMI x",
    ] {
        both(command);
    }
    for rules in USERS {
        both("FLUSHALL");
        for command in
            ["SET in:1 x", "SADD in:s a b", "ZADD in:z 1 a 2 b", "SET in:b xyz", "RPUSH own:l a b c"]
        {
            both(command);
        }
        both("ACL SETUSER u reset");
        both(&format!("ACL SETUSER u {rules}"));
        let (mut ours, mut theirs) = (host.client(), redis.client());
        for command in ["AUTH u x"].iter().chain(COMMANDS) {
            let (our, their) = (ours.call(command), theirs.call(command));
            assert_eq!(comparable(&our), comparable(&their), "{command} with {rules}");
            // A user that listens may do little else.
            if command.contains("SUBSCRIBE") && !our.is_error() {
                assert_eq!(ours.call("RESET"), theirs.call("RESET"));
                assert_eq!(ours.call("AUTH u x"), theirs.call("AUTH u x"));
            }
        }
    }
}

#[test]
fn passwords_are_those_of_redis() {
    let redis = match Redis::start() {
        Ok(redis) => redis,
        Err(why) => return skip("passwords_are_those_of_redis", &why),
    };
    let host = Host::start();
    let (mut ours, mut theirs) = (host.client(), redis.client());
    for command in [
        "AUTH x",
        "AUTH default x",
        "AUTH",
        "ACL SETUSER default >pw",
        "ACL SETUSER u on >one >two +ping",
        "ACL GETUSER u",
        "ACL SETUSER u <three",
        "AUTH u one",
        "ACL WHOAMI",
        "GET a",
        "RESET",
        "GET a",
        "GET",
        "NOPE",
        "PING",
        "HELLO",
        "HELLO 3",
        "HELLO 3 AUTH default bad",
        "HELLO 9 AUTH default pw",
        "AUTH bad",
        "AUTH u bad",
        "AUTH default pw",
        "AUTH bad",
        "ACL WHOAMI",
        "HELLO 2 AUTH u two SETNAME a",
        "PING",
        "GET a",
        "AUTH pw",
        "ACL SETUSER u nopass",
        "ACL GETUSER u",
        "AUTH u anything",
        "AUTH a b c",
        "QUIT",
    ] {
        let (our, their) = (comparable(&ours.call(command)), comparable(&theirs.call(command)));
        // It tells the number of the connection.
        if !command.starts_with("HELLO") || our.starts_with('-') {
            assert_eq!(our, their, "{command}");
        }
    }
}
