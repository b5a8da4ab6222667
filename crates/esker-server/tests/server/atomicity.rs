//! Commands of many clients at once take effect one after the other, on whatever thread they are done.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use crate::client::{Value, encoded, encoded_line};
use crate::host::{Host, SetAtEnd};
use test_kit::Rng;

#[test]
fn increments() {
    const CLIENTS: usize = 8;
    let host = Host::start();
    thread::scope(|scope| {
        for _ in 0..CLIENTS {
            let mut client = host.client();
            scope.spawn(move || {
                for _ in 0..20 {
                    client.send_bytes(&encoded_line("INCR n").repeat(250));
                    let mut last = 0;
                    for _ in 0..250 {
                        let now = client.read().integer();
                        assert!(now > last);
                        last = now;
                    }
                }
            });
        }
    });
    host.client().check(&format!("GET n => {}", CLIENTS * 5000));
}

/// Transactions move amounts between accounts; whoever reads all of them finds the same total.
#[test]
fn transfers() {
    const ACCOUNTS: usize = 10;
    let host = Host::start();
    // A large set makes those transactions that look at it work for the pool.
    let members: Vec<String> = (0..5000).map(|member| member.to_string()).collect();
    let add: Vec<&str> = ["SADD", "set"].into_iter().chain(members.iter().map(String::as_str)).collect();
    host.client().call_with(&add);
    let names: Vec<String> = (0..ACCOUNTS).map(|number| format!("account{number}")).collect();
    let all = format!("MGET {}", names.join(" "));
    let is_over = AtomicBool::new(false);
    let total = |reply: &Value| match reply {
        Value::Array(values) => {
            values.iter().map(|value| value.to_string().parse().unwrap_or(0)).sum::<i64>()
        }
        other => panic!("{other}"),
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..4_u64)
            .map(|seed| {
                let (mut client, names) = (host.client(), &names);
                scope.spawn(move || {
                    let mut random = Rng::new(seed);
                    for round in 0..test_kit::cases(300) {
                        let (from, to) = (&names[random.index(ACCOUNTS)], &names[random.index(ACCOUNTS)]);
                        let amount = random.index(100);
                        let mut bytes = b"MULTI\r\n".to_vec();
                        bytes.extend(encoded_line(&format!("DECRBY {from} {amount}")));
                        if round % 5 == 0 {
                            bytes.extend(encoded_line("SUNIONSTORE other set"));
                        }
                        bytes.extend(encoded_line(&format!("INCRBY {to} {amount}")));
                        bytes.extend(b"EXEC\r\n");
                        client.send_bytes(&bytes);
                        let replies = 4 + usize::from(round % 5 == 0);
                        let last = (0..replies).map(|_| client.read()).last();
                        assert!(matches!(last, Some(Value::Array(_))), "{last:?}");
                    }
                })
            })
            .collect();
        let readers: Vec<_> = (0..2)
            .map(|kind| {
                let (mut client, all, is_over) = (host.client(), &all, &is_over);
                scope.spawn(move || {
                    while !is_over.load(Ordering::Relaxed) {
                        let reply = if kind == 0 {
                            client.call(all)
                        } else {
                            client.send_bytes(
                                &[b"MULTI\r\nSMEMBERS set\r\n", &encoded_line(all)[..], b"EXEC\r\n"].concat(),
                            );
                            (0..3).for_each(|_| drop(client.read()));
                            let Value::Array(mut replies) = client.read() else { panic!("no replies") };
                            replies.remove(1)
                        };
                        assert_eq!(total(&reply), 0, "{reply}");
                    }
                })
            })
            .collect();
        let at_end = SetAtEnd(&is_over);
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        drop(at_end);
        readers.into_iter().for_each(|reader| reader.join().unwrap());
    });
    assert_eq!(total(&host.client().call(&all)), 0);
}

/// Some clients append to a value that only the pool can write, others to it by short commands: no write is lost.
#[test]
fn short_commands_among_those_of_the_pool() {
    const ROUNDS: usize = 60;
    let host = Host::start();
    let huge = vec![b'x'; 1 << 20];
    host.client().call_with(&[b"SET", &b"huge"[..], &huge]);
    thread::scope(|scope| {
        for number in 0..4 {
            let (mut client, huge) = (host.client(), &huge);
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    match number {
                        0 => {
                            client.call("APPEND huge y");
                            client.call("SADD set a");
                        }
                        1 => {
                            assert!(!client.call_with(&[b"SETRANGE", &b"huge"[..], b"0", b"zz"]).is_error());
                            client.call("INCR n");
                        }
                        2 => {
                            let own = format!("own{}", round % 3);
                            assert!(client.call_with(&[own.as_bytes()]).is_error());
                            assert_eq!(client.call_with(&[b"SET", own.as_bytes(), huge]).to_string(), "+OK");
                            assert_eq!(client.call(&format!("APPEND {own} q")).integer(), (1 << 20) + 1);
                            assert_eq!(client.call(&format!("SET {own} short")).to_string(), "+OK");
                            assert_eq!(client.call(&format!("GET {own}")).to_string(), "short");
                            client.call("APPEND huge y");
                        }
                        _ => {
                            let len = client.call("STRLEN huge").integer();
                            assert!(len >= 1 << 20, "{len}");
                            client.call("INCR n");
                        }
                    }
                }
            });
        }
    });
    host.client().check(&format!("STRLEN huge => :{}\n GET n => {}", (1 << 20) + 2 * ROUNDS, 2 * ROUNDS));
}

/// A client reads what it has written, while others write large collections to the same keys.
#[test]
fn a_client_reads_its_own_writes() {
    let host = Host::start();
    let members: Vec<String> = (0..3000).map(|member| member.to_string()).collect();
    let add: Vec<&str> = ["SADD", "source"].into_iter().chain(members.iter().map(String::as_str)).collect();
    host.client().call_with(&add);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let mut copier = host.client();
        let is_over = &is_over;
        scope.spawn(move || {
            while !is_over.load(Ordering::Relaxed) {
                for key in ["k0", "k1", "k2"] {
                    assert_eq!(copier.call(&format!("SUNIONSTORE {key} source")).integer(), 3000);
                }
            }
        });
        let writers: Vec<_> = (0..2)
            .map(|number| {
                let mut client = host.client();
                scope.spawn(move || {
                    for round in 0..150 {
                        let (key, own) = (format!("k{}", round % 3), format!("own{number}-{round}"));
                        // All three at once: nobody comes between them.
                        client.send_bytes(
                            &[
                                b"MULTI\r\n".to_vec(),
                                encoded(&["SADD", &key, &own]),
                                encoded(&["SISMEMBER", &key, &own]),
                                encoded(&["SCARD", &key]),
                                b"EXEC\r\n".to_vec(),
                            ]
                            .concat(),
                        );
                        (0..4).for_each(|_| drop(client.read()));
                        let Value::Array(replies) = client.read() else { panic!("no replies") };
                        assert_eq!(replies[0].integer(), 1);
                        assert_eq!(replies[1].integer(), 1);
                        let count = replies[2].integer();
                        assert!((1..=3000 + 300).contains(&count), "{count}");
                        // A set is the source's members and what was added since, or only that.
                        assert!(!(300..=3000).contains(&count), "{count}");
                    }
                })
            })
            .collect();
        let _at_end = SetAtEnd(is_over);
        writers.into_iter().for_each(|writer| writer.join().unwrap());
    });
    let mut client = host.client();
    for key in ["k0", "k1", "k2"] {
        let count = client.call(&format!("SCARD {key}")).integer();
        let Value::Array(found) = client.call(&format!("SMEMBERS {key}")) else { panic!("no members") };
        assert_eq!(found.len() as i64, count, "the count of {key} and its elements");
    }
}

/// `FLUSHALL` comes between commands, never within one.
#[test]
fn flushes_among_commands_of_the_pool() {
    let host = Host::start();
    let huge = vec![b'x'; 300_000];
    thread::scope(|scope| {
        for _ in 0..2 {
            let (mut client, huge) = (host.client(), &huge);
            scope.spawn(move || {
                for _ in 0..60 {
                    client.send_bytes(
                        &[
                            b"MULTI\r\nDEL a b\r\n".to_vec(),
                            encoded(&[b"SET", &b"a"[..], huge]),
                            encoded(&[b"SET", &b"b"[..], huge]),
                            b"EXEC\r\nEXISTS a b\r\n".to_vec(),
                        ]
                        .concat(),
                    );
                    (0..5).for_each(|_| drop(client.read()));
                    let count = client.read().integer();
                    assert!(count == 0 || count == 2, "{count}");
                }
            });
        }
        let mut client = host.client();
        scope.spawn(move || (0..200).for_each(|_| client.check("FLUSHALL => +OK")));
    });
}
