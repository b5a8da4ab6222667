//! Where a server listens: loopback addresses and Unix sockets only, and nothing in the way is lost.

use std::fs;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixListener;

use esker_server::{Address, ServeError};

use crate::client::Client;
use crate::host::{Host, Store};

/// Why a server cannot listen there.
fn refusal(address: &str) -> String {
    match Store::in_memory().refusal(address) {
        ServeError::Address(message) => message,
        other => panic!("{address}: {other:?}"),
    }
}

#[test]
fn addresses_that_others_reach_are_refused() {
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0", "[2001:db8::1]:6379"] {
        let message = refusal(address);
        assert!(message.starts_with("will not listen to "), "{message}");
    }
    let message = refusal("no-such-host.invalid:1");
    assert!(message.starts_with("cannot listen to no-such-host.invalid:1: "), "{message}");
}

#[test]
fn a_port_in_use_is_refused() {
    let host = Host::start();
    let message = refusal(&host.addresses[0].to_string());
    assert!(message.contains("in use"), "{message}");
}

#[test]
fn a_socket_that_was_left_behind_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    drop(UnixListener::bind(&path).unwrap());
    assert!(fs::symlink_metadata(&path).unwrap().file_type().is_socket());
    let host = Host::of(&Store::in_memory(), |config| config.resp = vec![Address::Unix(path.clone())]);
    Client::connect(&host.addresses[0]).check("PING => +PONG");
    // Others may not connect, and one that is in use is kept.
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o077, 0);
    let message = refusal(&format!("unix:{}", path.display()));
    assert!(message.contains("in use"), "{message}");
    Client::connect(&host.addresses[0]).check("PING => +PONG");
    host.end();
    assert!(!path.exists());
}

#[test]
fn files_are_not_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    fs::write(&path, "text").unwrap();
    let message = refusal(&format!("unix:{}", path.display()));
    assert!(message.starts_with("cannot listen to "), "{message}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "text");
    let target = dir.path().join("target");
    drop(UnixListener::bind(&target).unwrap());
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(&target, &link).unwrap();
    refusal(&format!("unix:{}", link.display()));
    assert!(target.exists() && fs::symlink_metadata(&link).unwrap().is_symlink());
    refusal(&format!("unix:{}/none/socket", dir.path().display()));
}

#[test]
fn several_addresses() {
    let dir = tempfile::tempdir().unwrap();
    let host = Host::of(&Store::in_memory(), |config| {
        config.resp.push(Address::Tcp("localhost".to_owned(), 0));
        config.resp.push(Address::Unix(dir.path().join("second")));
    });
    assert_eq!(host.addresses.len(), 4);
    for (number, address) in host.addresses.iter().enumerate() {
        Client::connect(address).check(&format!("INCR n => :{}", number + 1));
    }
}
