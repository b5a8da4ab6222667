//! Keepalive: the system asks whether a silent client is still there, so one that goes without a word does not stay.

use std::fs;

use esker_server::Address;

use crate::client::Client;
use crate::host::{Host, wait_until};
use crate::tls;

/// In how many seconds the system asks next whether the clients of this port are there: of each, `None` if it never will. Other
/// tests may have clients that try this port for a moment.
fn asks_within_s(port: u16) -> Vec<Option<u64>> {
    const ESTABLISHED: &str = "01";
    let table = fs::read_to_string("/proc/net/tcp").unwrap();
    let timers = table.lines().skip(1).filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let is_of_port = fields[1].ends_with(&format!(":{port:04X}"));
        let (kind, ticks) = fields[5].split_once(':').unwrap();
        // 2: keepalive. A tick of the system's table is a hundredth of a second.
        let asks = (kind == "02").then(|| u64::from_str_radix(ticks, 16).unwrap().div_ceil(100));
        (is_of_port && fields[3] == ESTABLISHED).then_some(asks)
    });
    timers.collect()
}

fn port_of(address: &Address) -> u16 {
    let (Address::Tcp(_, port) | Address::Tls(_, port)) = address else { panic!("{address} has no port") };
    *port
}

/// Waits until the next question comes within `s` seconds, and not within three quarters of that.
fn check(port: u16, s: u64) {
    // Right after a reply, the timer of the connection is another one.
    wait_until("the system asks for the client", || {
        let is_soon = |found: &u64| *found <= s && found * 4 > s * 3;
        asks_within_s(port).iter().flatten().any(is_soon)
    });
}

#[test]
fn silent_clients_are_asked_for() {
    let host = Host::start();
    let port = port_of(&host.addresses[0]);
    let mut client = host.client();
    client.check("CONFIG GET tcp-keepalive => [tcp-keepalive 300]");
    check(port, 300);
    // A change is about later connections.
    let wrong = "-ERR CONFIG SET failed (possibly related to argument 'tcp-keepalive') - argument must be between 0 and 32767 inclusive";
    client.check(&format!(
        "CONFIG SET tcp-keepalive 32768 => {wrong}
        CONFIG SET tcp-keepalive -1 => {wrong}
        CONFIG SET tcp-keepalive x => {wrong}
        CONFIG SET tcp-keepalive 40 => +OK"
    ));
    check(port, 300);
    drop(client);
    let mut admin = host.unix_client();
    let wait_until_alone =
        |admin: &mut Client| wait_until("the client has gone", || admin.figure("connected_clients") == 1);
    wait_until_alone(&mut admin);
    let mut client = host.client();
    client.check("PING => +PONG");
    check(port, 40);
    drop(client);
    wait_until_alone(&mut admin);
    admin.check("CONFIG SET tcp-keepalive 0 => +OK");
    let mut client = host.client();
    client.check("PING => +PONG");
    wait_until("no client is asked for", || {
        let asks = asks_within_s(port);
        !asks.is_empty() && asks.iter().all(Option::is_none)
    });
}

#[test]
fn the_configuration_says_when_and_tls_is_asked_too() {
    let authority = tls::Authority::new();
    let host = tls::serving(authority.certify("server"), |config| config.keepalive_s = 70);
    let mut client = authority.client(&host, None);
    client.check("CONFIG GET tcp-keepalive => [tcp-keepalive 70]");
    check(port_of(&host.addresses[0]), 70);
}
