//! What is there after a server has ended and another one has begun.

use std::time::Duration;

use esker::env::Env;
use esker_server::{Config, ServeError};

use crate::client::Value;
use crate::host::{Host, Store, wait_until};

fn serve(dir: &tempfile::TempDir) -> Host {
    Host::of(&Store::at(dir), |_| {})
}

#[test]
fn everything_is_there_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let huge: Vec<u8> = (0..2_u32 << 20).map(|byte| (byte / 7) as u8).collect();
    let far = 4_000_000_000_000_i64;
    let filled = {
        let host = serve(&dir);
        let mut client = host.client();
        client.call_with(&[b"SET", &b"huge"[..], &huge]);
        for number in 0..3000 {
            client.call(&format!("SADD set m{number}"));
            client.call(&format!("HSET hash f{number} v{number}"));
            client.call(&format!("RPUSH list e{number}"));
            client.call(&format!("ZADD zset {number}.5 m{number}"));
        }
        client.check(&format!(
            "SET s 1 => +OK
            SET expires 1 => +OK
            PEXPIREAT expires {far} => :1
            PEXPIREAT set {far} => :1
            HSET small a 1 => :1
            PEXPIREAT small {far} => :1
            LPUSH list first => :3001
            LPOP list => first
            SELECT 9 => +OK
            SET elsewhere 9 => +OK"
        ));
        client.call("DBSIZE").integer()
    };
    assert_eq!(filled, 1);
    for _ in 0..2 {
        let host = serve(&dir);
        let mut client = host.client();
        assert_eq!(client.call("GET huge").bytes(), huge);
        client.check(&format!(
            "DBSIZE => :8
            GET s => 1
            PEXPIRETIME expires => :{far}
            PEXPIRETIME set => :{far}
            PEXPIRETIME small => :{far}
            PTTL hash => :-1
            HGETALL small => [a 1]
            SCARD set => :3000
            SISMEMBER set m2999 => :1
            HLEN hash => :3000
            HGET hash f1234 => v1234
            LLEN list => :3000
            LINDEX list 1500 => e1500
            LRANGE list -2 -1 => [e2998 e2999]
            ZCARD zset => :3000
            ZSCORE zset m77 => 77.5
            ZRANGE zset 10 11 => [m10 m11]
            SELECT 9 => +OK
            GET elsewhere => 9"
        ));
    }
}

#[test]
fn fewer_databases_hide_the_others() {
    let store = Store::in_memory();
    let with = |databases: u16| move |config: &mut Config| config.databases = databases;
    Host::of(&store, with(4)).client().check("SELECT 3 => +OK\n SET a 1 => +OK");
    Host::of(&store, with(2)).client().check("SELECT 3 => -ERR DB index is out of range\n FLUSHALL => +OK");
    Host::of(&store, with(4)).client().check("SELECT 3 => +OK\n GET a => 1");
}

/// Of collections that have expired, the elements are deleted, which takes no client.
#[test]
fn a_sweep_deletes_elements_of_expired_collections() {
    let store = Store::in_memory();
    {
        let host = Host::of(&store, |_| {});
        let mut client = host.client();
        let members: Vec<String> = (0..2000).map(|member| format!("m{member}")).collect();
        for key in 0..20 {
            let key = format!("set{key}");
            let add: Vec<&str> =
                ["SADD", key.as_str()].into_iter().chain(members.iter().map(String::as_str)).collect();
            assert_eq!(client.call_with(&add).integer(), 2000);
            if key != "set7" {
                client.check(&format!("PEXPIRE {key} 1 => :1"));
            }
        }
        // Another collection at the place of an expired one.
        wait_until("they expire", || client.call("EXISTS set3").integer() == 0);
        for number in 0..100 {
            client.call(&format!("SADD set3 n{number}"));
        }
    }
    let elements = store.db.open_tree("default.elements").unwrap().unwrap();
    // A server sweeps as soon as it begins.
    let host = Host::of(&store, |_| {});
    wait_until("the elements are deleted", || elements.count(..).unwrap() == 2100);
    let mut client = host.client();
    client.check("SCARD set7 => :2000\n SCARD set3 => :100\n DBSIZE => :2");
    assert!(matches!(client.call("SMEMBERS set7"), Value::Array(members) if members.len() == 2000));
}

/// What another program has put into the store are strings.
#[test]
fn a_store_that_was_filled_without_a_server() {
    let store = Store::in_memory();
    store.db.put("a", "1").unwrap();
    store.db.tree("db2").unwrap().put("b", "2").unwrap();
    let host = Host::of(&store, |_| {});
    host.client().check(
        "INCR a => :2
        TYPE a => +string
        SELECT 2 => +OK
        APPEND b 3 => :2
        RPUSH l 1 => :1",
    );
    assert_eq!(store.db.get_vec("a").unwrap().as_deref(), Some(&b"2"[..]));
    drop(host);
    // Elements that no server has made are not touched.
    let other = Store::in_memory();
    other.db.tree("default.elements").unwrap().put("a", "1").unwrap();
    other.db.put("a", "1").unwrap();
    assert!(matches!(other.refusal("127.0.0.1:0"), ServeError::Store(_)));
    assert_eq!(other.db.tree("default.elements").unwrap().get_vec("a").unwrap().as_deref(), Some(&b"1"[..]));
}

/// The store was written to once while the machine's clock was 30 years ahead. Clients see nothing of it.
#[test]
fn clients_are_told_the_time_of_the_machine_where_the_store_s_clock_is_ahead() {
    let dir = tempfile::tempdir().unwrap();
    test_kit::write_with_the_clock_ahead!(dir.path().join("store"), "before", "", Duration::from_secs(1));
    let now_s = || (Env::system().clock.wall_us() / 1_000_000) as i64;
    let is_now = |told_s: i64| assert!(now_s().abs_diff(told_s) < 3600, "{told_s}");
    let at_s = now_s() + 10_000;
    let serve = || {
        let backups = dir.path().join("backups");
        let change = |config: &mut Config| (config.slow_us, config.backup_dir) = (0, Some(backups));
        Host::of(&Store::at(&dir), change)
    };
    let integer = |value: &Value| value.to_string().trim_start_matches(':').parse::<i64>().unwrap();
    let told = {
        let host = serve();
        let mut client = host.client();
        assert!(host.store.db.stats().unwrap().clock_ahead_us > test_kit::AHEAD_MIN_US);
        client.check(&format!(
            "SET a 1 EXAT {at_s} => +OK
            EXPIRETIME a => :{at_s}
            SET b 1 => +OK
            PEXPIREAT b {at_s}123 => :1
            PEXPIRETIME b => :{at_s}123
            SET gone 1 => +OK
            EXPIREAT gone {} => :1
            EXISTS gone => :0
            RPUSH list 1 => :1
            EXPIRE list 20000 => :1
            SET brief 1 PX 1 => +OK",
            now_s() - 10
        ));
        let left = client.call("TTL a").integer();
        assert!((6400..=10_000).contains(&left), "{left}");
        is_now(client.call("EXPIRETIME list").integer() - 20_000);
        wait_until("it expires", || client.call("EXISTS brief").to_string() == ":0");
        let Value::Array(time) = client.call("TIME") else { panic!("no array") };
        is_now(time[0].to_string().parse().unwrap());
        let Value::Array(slow) = client.call("SLOWLOG GET 1") else { panic!("no array") };
        let Value::Array(slow) = &slow[0] else { panic!("{}", slow[0]) };
        is_now(integer(&slow[1]));
        client.check("BGSAVE => +Background saving started");
        wait_until("a backup is made", || client.call("LASTSAVE").integer() > 0);
        is_now(client.call("LASTSAVE").integer());
        let info = client.call("INFO server").to_string();
        let (_, rest) = info.split_once("server_time_usec:").unwrap();
        is_now(rest.lines().next().unwrap().trim().parse::<i64>().unwrap() / 1_000_000);
        client.call("PEXPIRETIME list").integer()
    };
    let host = serve();
    let mut client = host.client();
    client.check(&format!(
        "EXPIRETIME a => :{at_s}
        PEXPIRETIME b => :{at_s}123
        PEXPIRETIME list => :{told}
        EXISTS brief gone => :0"
    ));
    wait_until("what was written before expires", || client.call("EXISTS before").to_string() == ":0");
    is_now(client.call("LASTSAVE").integer());
}
