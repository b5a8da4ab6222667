//! Iterations by `SCAN` and the like: beside thousands of others, across restarts and power cuts.

use std::collections::BTreeSet;

use esker::fs::sim::SimFs;

use crate::client::{Client, Value};
use crate::host::{Host, Store};

/// How many elements each collection has, and how many keys there are of them.
const COUNT: usize = 3000;

/// A part of an iteration.
struct Iteration {
    /// The command, with a place for the cursor.
    command: &'static str,
    /// How many words of a reply are an element.
    width: usize,
    cursor: u64,
    found: Vec<Vec<u8>>,
    is_over: bool,
}

impl Iteration {
    fn new(command: &'static str, width: usize) -> Iteration {
        Iteration { command, width, cursor: 0, found: Vec::new(), is_over: false }
    }

    /// Of keys, and of each type of collection.
    fn all() -> Vec<Iteration> {
        [
            ("SCAN {} MATCH key:* COUNT 17", 1),
            ("HSCAN hash {} COUNT 17", 2),
            ("SSCAN set {} COUNT 17", 1),
            ("ZSCAN zset {} COUNT 17", 2),
        ]
        .map(|(command, width)| Iteration::new(command, width))
        .into()
    }

    fn go_on(&mut self, client: &mut Client) {
        if self.is_over {
            return;
        }
        let reply = client.call(&self.command.replace("{}", &self.cursor.to_string()));
        let Value::Array(parts) = reply else { panic!("{}: {reply}", self.command) };
        let Value::Array(elements) = &parts[1] else { panic!("{}", self.command) };
        self.cursor = String::from_utf8_lossy(parts[0].bytes()).parse().unwrap();
        assert!(self.cursor < 1 << 53, "{}", self.cursor);
        assert!(elements.len() <= self.width * 120, "a page of {}", elements.len());
        self.found.extend(elements.iter().step_by(self.width).map(|element| element.bytes().to_vec()));
        self.is_over = self.cursor == 0;
    }

    fn end(mut self, client: &mut Client) {
        while !self.is_over {
            self.go_on(client);
        }
        let unique: BTreeSet<&Vec<u8>> = self.found.iter().collect();
        assert_eq!((self.found.len(), unique.len()), (COUNT, COUNT), "{}", self.command);
    }
}

fn fill(client: &mut Client) {
    let names: Vec<String> = (0..COUNT).map(|number| format!("key:{number:06}")).collect();
    for names in names.chunks(500) {
        let each = |command: &str, words: &dyn Fn(&String) -> String| {
            names.iter().fold(command.to_owned(), |all, name| format!("{all} {}", words(name)))
        };
        for command in [
            each("MSET", &|name| format!("{name} v")),
            each("HSET hash", &|name| format!("{name} v")),
            each("SADD set", &|name| name.clone()),
            each("ZADD zset", &|name| format!("1 {name}")),
        ] {
            assert!(!client.call(&command).is_error());
        }
    }
}

#[test]
fn an_iteration_goes_on_beside_thousands_of_others() {
    let host = Host::start();
    let (mut client, mut other) = (host.client(), host.client());
    fill(&mut client);
    let mut iterations = Iteration::all();
    iterations.iter_mut().for_each(|iteration| iteration.go_on(&mut client));
    for _ in 0..20 {
        (0..1000).for_each(|_| other.send("SCAN 0 COUNT 1"));
        (0..1000).for_each(|_| assert!(!other.read().is_error()));
    }
    iterations.into_iter().for_each(|iteration| iteration.end(&mut client));
    // What was not given out is no place.
    for command in ["SCAN 4294967296000", "HSCAN hash 9007199254740992", "SSCAN set 18446744073709551615"] {
        client.check(&format!(
            "{command} => -ERR invalid cursor: this server has not given it out; begin with 0"
        ));
    }
}

#[test]
fn an_iteration_goes_on_after_a_restart_and_a_power_cut() {
    let disk = SimFs::new(1);
    let store = Store::on(&disk);
    let mut host = Host::of(&store, |_| {});
    let mut client = host.client();
    fill(&mut client);
    let mut iterations = Iteration::all();
    for _ in 0..3 {
        iterations.iter_mut().for_each(|iteration| iteration.go_on(&mut client));
        host.end();
        host = Host::of(&store, |_| {});
        client = host.client();
    }
    // Nothing that was written since is synced, but for what the cursors need.
    store.db.sync().unwrap();
    iterations.iter_mut().for_each(|iteration| iteration.go_on(&mut client));
    let after = Host::of(&Store::on(&disk.crash_keeping(0.0, 1)), |_| {});
    let mut client = after.client();
    iterations.into_iter().for_each(|iteration| iteration.end(&mut client));
}

/// Elements that stay are found, whatever comes and goes in between.
#[test]
fn elements_that_stay_are_found_while_others_come_and_go() {
    let host = Host::start();
    let mut client = host.client();
    fill(&mut client);
    for (round, mut iteration) in Iteration::all().into_iter().enumerate() {
        let mut step = 0;
        while !iteration.is_over {
            iteration.go_on(&mut client);
            // All that come are gone before the next page, and one of each type stays for it.
            for name in
                [format!("key:{step:06}x"), format!("key:{:06}", step * 37), "a".to_owned(), "zz".to_owned()]
            {
                let is_new = client.call(&format!("SADD set {name}")).integer() == 1;
                client.call(&format!("HSETNX hash {name} v"));
                client.call(&format!("ZADD zset NX 2 {name}"));
                client.call(&format!("SET {name} v NX"));
                if is_new {
                    client.call(&format!("SREM set {name}"));
                    client.call(&format!("HDEL hash {name}"));
                    client.call(&format!("ZREM zset {name}"));
                    client.call(&format!("DEL {name}"));
                }
            }
            step += 1;
        }
        assert!(step > 10, "{round}: {step} pages");
        iteration.end(&mut client);
    }
}
