//! Passwords: who has none gets nowhere, wrong ones are limited, and others do not notice.

use std::thread;

use esker_server::{Password, ServeError};

use crate::client::{Client, Value, encoded};
use crate::host::{Host, Store};

const NO_AUTH: &str = "-NOAUTH Authentication required.";
const WRONG: &str = "-WRONGPASS invalid username-password pair or user is disabled.";

fn with_password(password: &str) -> Host {
    let password = Password::new(password.as_bytes()).unwrap();
    Host::of(&Store::in_memory(), |config| config.security.password = Some(password))
}

#[test]
fn the_password_of_the_default_user() {
    let host = with_password("pw");
    let mut client = host.client();
    client.check(&format!(
        "GET a => {NO_AUTH}
        PING => {NO_AUTH}
        MULTI => {NO_AUTH}
        SUBSCRIBE c => {NO_AUTH}
        ACL WHOAMI => {NO_AUTH}
        AUTH wrong => {WRONG}
        AUTH default wrong => {WRONG}
        AUTH nobody pw => {WRONG}
        AUTH a b c => -ERR syntax error
        HELLO 3 AUTH default wrong => {WRONG}
        HELLO 4 AUTH default pw => -NOPROTO unsupported protocol version
        GET a => {NO_AUTH}
        AUTH pw => +OK
        GET a => $-1
        AUTH wrong => {WRONG}
        GET a => $-1
        RESET => +RESET
        GET a => {NO_AUTH}"
    ));
    assert!(client.call("HELLO").to_string().starts_with("-NOAUTH HELLO must be called"));
    let Value::Map(told) = client.call("HELLO 3 AUTH default pw SETNAME me") else { panic!("no map") };
    assert_eq!(told.len(), 7);
    client.check("CLIENT GETNAME => me\n GET a => null\n QUIT => +OK");
    // Without a password none is asked for, and any fits by name.
    let host = Host::start();
    let mut open = host.client();
    assert!(open.call("AUTH x").to_string().starts_with("-ERR AUTH <password> called without any password"));
    open.check("AUTH default x => +OK\n HELLO 2 AUTH nobody x => -WRONGPASS invalid username-password pair or user is disabled.");
}

#[test]
fn several_passwords_and_hashes() {
    let host = Host::start();
    let mut client = host.client();
    // SHA-256 of "abc".
    let sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    client.check(&format!("ACL SETUSER u on >one >two #{sha256} >one +@all ~* &* => +OK"));
    let kept = client.call("ACL GETUSER u").to_string();
    assert_eq!(kept.matches("$argon2id$v=19$").count(), 3, "{kept}");
    for password in ["one", "two", "abc"] {
        client.check(&format!("AUTH u {password} => +OK"));
    }
    client.check(&format!("AUTH u three => {WRONG}\n ACL SETUSER u <one !{sha256} => +OK"));
    client.check(&format!("AUTH u two => +OK\n AUTH u one => {WRONG}\n AUTH u abc => {WRONG}"));
    client.check("ACL SETUSER u resetpass => +OK");
    client.check(&format!("AUTH u two => {WRONG}\n ACL SETUSER u nopass => +OK\n AUTH u x => +OK"));
}

/// What comes behind `AUTH` in one piece is done by the user that it makes the client.
#[test]
fn a_pipeline_with_its_password() {
    let host = with_password("pw");
    let mut client = host.client();
    let mut bytes = encoded(&["SET", "a", "1"]);
    bytes.extend(encoded(&["AUTH", "pw"]));
    bytes.extend(encoded(&[b"SET".to_vec(), b"a".to_vec(), vec![b'x'; 100_000]]));
    bytes.extend(encoded(&["STRLEN", "a"]));
    client.send_bytes(&bytes);
    let replies: Vec<String> = (0..4).map(|_| client.read().to_string()).collect();
    assert_eq!(replies, [NO_AUTH, "+OK", "+OK", ":100000"]);
    client.check("RESET => +RESET");
    client.send_bytes(&bytes);
    let replies: Vec<String> = (0..4).map(|_| client.read().to_string()).collect();
    assert_eq!(replies, [NO_AUTH, "+OK", "+OK", ":100000"]);
}

#[test]
fn strangers_take_little() {
    let host = with_password("pw");
    for bytes in ["*11\r\n", "*2\r\n$4\r\nAUTH\r\n$16385\r\n"] {
        let mut client = host.client();
        client.send_bytes(bytes.as_bytes());
        assert!(client.read_to_end().iter().all(Value::is_error));
    }
    // Long names and passwords are wrong at once.
    let long = "x".repeat(16_000);
    let mut client = host.client();
    assert_eq!(client.call_with(&["AUTH", &long]).to_string(), WRONG);
    assert_eq!(client.call_with(&["AUTH", &long, "pw"]).to_string(), WRONG);
    client.check("AUTH pw => +OK");
}

/// Many clients guess. The others go on, those whose password was right before come in at once, and the guessing is
/// stopped early.
#[test]
fn wrong_passwords_by_the_thousand() {
    let host = with_password("pw");
    let mut client = host.client();
    client.check("AUTH pw => +OK\n SET a 1 => +OK");
    let guess = |mut client: Client| {
        let mut compared = 0;
        for number in 0..100 {
            let reply = client.call(&format!("AUTH guess{number}")).to_string();
            assert!(reply == WRONG || reply.starts_with("-ERR too many wrong passwords"), "{reply}");
            compared += usize::from(reply == WRONG);
        }
        compared
    };
    let guessing: Vec<_> = (0..20)
        .map(|_| {
            let guesser = host.client();
            thread::spawn(move || guess(guesser))
        })
        .collect();
    let mut served = 0;
    while guessing.iter().any(|thread| !thread.is_finished()) || served < 100 {
        client.check("GET a => 1");
        host.client().check("AUTH pw => +OK\n GET a => 1");
        served += 1;
    }
    let compared: usize = guessing.into_iter().map(|thread| thread.join().unwrap()).sum();
    assert!((1..2000).contains(&compared), "{compared} of 2000 guesses were compared");
    assert_eq!(client.figure("acl_access_denied_auth"), 2000);
    client.check("PING => +PONG");
}

/// A program with an old password that tries again and again costs its address one attempt, whoever it says that it is.
#[test]
fn a_wrong_password_again_and_again_keeps_nobody_out() {
    let host = with_password("pw");
    let mut stubborn = host.client();
    for command in ["AUTH old", "AUTH default old", "AUTH nobody old", "HELLO 3 AUTH default old"] {
        for _ in 0..100 {
            assert_eq!(stubborn.call(command).to_string(), WRONG, "{command}");
        }
    }
    // Nobody has sent the right one before, so it has to be compared.
    let mut client = host.client();
    client.check("AUTH pw => +OK");
    assert_eq!(client.figure("acl_access_denied_auth"), 400);
    // It counts again when it becomes right, for a user that is made, changed or switched on.
    client.check("ACL SETUSER nobody on >old +@all ~* => +OK\n ACL SETUSER off off >older => +OK");
    stubborn
        .check(&format!("AUTH nobody old => +OK\n AUTH off older => {WRONG}\n AUTH off older => {WRONG}"));
    client.check("ACL SETUSER default >old => +OK\n ACL SETUSER off on => +OK");
    stubborn.check("AUTH old => +OK\n AUTH off older => +OK");
    client.check("ACL SETUSER default <old => +OK");
    stubborn.check(&format!("AUTH old => {WRONG}"));
    // Guesses stay limited, also in between.
    let mut guesser = host.client();
    let mut guess = |number: u32| guesser.call(&format!("AUTH guess{number}")).to_string();
    assert!((0..100).map(&mut guess).any(|reply| reply.starts_with("-ERR too many wrong passwords")));
    stubborn.check(&format!("AUTH old => {WRONG}"));
}

#[test]
fn many_clients_with_one_password_at_once() {
    let host = with_password("pw");
    let mut clients: Vec<Client> = (0..200).map(|_| host.client()).collect();
    clients.iter_mut().for_each(|client| client.send("AUTH pw"));
    assert!(clients.iter_mut().all(|client| client.read().to_string() == "+OK"));
    clients.iter_mut().for_each(|client| client.check("PING => +PONG"));
}

#[test]
fn a_password_stands_in_one_place() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("users");
    std::fs::write(&path, "").unwrap();
    let refused = Store::in_memory().refusal_of("127.0.0.1:0", |config| {
        config.security.acl_file = Some(path);
        config.security.password = Some(Password::new(b"pw").unwrap());
    });
    assert!(
        matches!(&refused, ServeError::Security(why) if why.contains("give only one of both")),
        "{refused}"
    );
    let file = dir.path().join("password");
    for (content, expected) in [
        ("secret\n", Ok("secret")),
        ("secret\r\nmore", Ok("secret")),
        (" a b ", Ok(" a b ")),
        ("", Err("the password is empty")),
        ("\nsecret", Err("the password is empty")),
        (&"x".repeat(4097), Err("the password has more than 4096 bytes")),
        (&"x".repeat(10_000), Err("it has more than 8192 bytes")),
    ] {
        std::fs::write(&file, content).unwrap();
        match (Password::of_file(&file), expected) {
            (Ok(password), Ok(expected)) => assert_eq!(password, Password::new(expected.as_bytes()).unwrap()),
            (Err(why), Err(expected)) => assert!(why.ends_with(expected), "{why}"),
            (read, expected) => panic!("{content:?}: {read:?}, not {expected:?}"),
        }
    }
    assert!(Password::of_file(dir.path()).is_err());
    assert!(!format!("{:?}", Password::new(b"secret")).contains("secret"));
}
