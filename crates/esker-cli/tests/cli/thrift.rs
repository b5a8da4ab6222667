//! `esker thrift` as a process: addresses, signals, what stays.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use test_kit::thrift::{Client, FORMS, Value, text, texts};

use crate::support::{esker, esker_in};

pub(crate) struct Serving {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn serve(dir: &Path) -> Serving {
    let mut command = esker_in(dir);
    command
        .args(["thrift", "--listen", "127.0.0.1:0", "--query-cache", "1M"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let address = lines.next().unwrap().unwrap();
    let address = address.strip_prefix("thrift ").unwrap().parse().unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    Serving { child, address }
}

#[test]
fn signals_end_it_with_code_0_and_tables_stay() {
    let dir = tempfile::tempdir().unwrap();
    for (times, signal) in ["-TERM", "-INT"].into_iter().enumerate() {
        let mut serving = serve(dir.path());
        let mut client = Client::new(serving.address, FORMS[times]);
        let known = if times == 0 { Value::List(vec![]) } else { texts(["t"]) };
        assert_eq!(client.call("getTableNames", &[]), Ok(Some(known)));
        if times == 0 {
            let families = Value::List(vec![Value::Struct(vec![(1, text("f"))])]);
            assert_eq!(client.call("createTable", &[(1, text("t")), (2, families)]), Ok(None));
        }
        let by_one = [(1, text("t")), (2, text("r")), (3, text("f:n")), (4, Value::I64(1))];
        assert_eq!(client.call("atomicIncrement", &by_one), Ok(Some(Value::I64(times as i64 + 1))));
        let mut kill = Command::new("kill");
        assert!(kill.args([signal, &serving.child.id().to_string()]).status().unwrap().success());
        assert_eq!(serving.child.wait().unwrap().code(), Some(0), "{signal}");
    }
    assert_eq!(esker(dir.path(), "check").code, 0);
}

#[test]
fn arguments_that_cannot_be_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    for (arguments, part) in [
        ("thrift --listen 0.0.0.0:0", "other machines"),
        ("thrift --listen somewhere", "invalid socket address"),
        ("thrift --max-message 10", "64K to 1G"),
        ("--memory 64M thrift --query-cache 33M", "more than half of the memory"),
        ("--url redis://127.0.0.1:1 thrift", "works on the files of a store"),
    ] {
        let run = esker(dir.path(), arguments);
        assert!(run.code == 2 && run.stderr().contains(part), "{arguments}: {} {}", run.code, run.stderr());
    }
    assert!(std::fs::read_dir(dir.path()).unwrap().next().is_none(), "a refused server has made a store");
}
