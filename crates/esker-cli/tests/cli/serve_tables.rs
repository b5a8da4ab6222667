//! `esker serve --thrift`: tables beside Redis, by the same users.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::serve::{Serving, serve};
use crate::support::{esker, esker_in};
use test_kit::thrift::{Client, FORMS, OWN, Reply, Value, message, text, texts};

const USERS: &str = "user default on nopass ~* &* +@all
user reader on nopass %R~stations %R~open +@read
user writer on nopass %W~stations +@write -flushdb
user keeper on nopass ~stations ~open +@all
user shopper on nopass ~shop:* +@all
user off nopass ~* +@all
";

fn serve_tables(dir: &Path, options: &str) -> Serving {
    fs::write(dir.join("users"), USERS).unwrap();
    serve(dir, &format!("--acl-file users --http 127.0.0.1:0 --thrift 127.0.0.1:0 {options}"))
}

fn client(serving: &Serving) -> Client {
    Client::new(serving.thrift.unwrap(), FORMS[1])
}

fn create(client: &mut Client, table: &str) -> Reply {
    let families = Value::List(vec![Value::Struct(vec![(1, text("f"))])]);
    client.call("createTable", &[(1, text(table)), (2, families)])
}

fn put(client: &mut Client, table: &str) -> Reply {
    let put = Value::List(vec![Value::Struct(vec![(2, text("f:q")), (3, text("7"))])]);
    client.call("mutateRow", &[(1, text(table)), (2, text("r")), (3, put)])
}

fn get(client: &mut Client, table: &str) -> Reply {
    client.call("get", &[(1, text(table)), (2, text("r")), (3, text("f:q"))])
}

fn refused(reply: &Reply, user: &str) {
    let refused =
        matches!(reply, Err((1, message)) if message.contains(&format!("the user \"{user}\" may not")));
    assert!(refused, "{user}: {reply:?}");
}

#[test]
fn redis_and_tables_are_served_from_one_store() {
    let dir = tempfile::tempdir().unwrap();
    let mut serving = serve_tables(dir.path(), "--query-cache 1M");
    let mut tables = client(&serving);
    // Without a user of their own, clients of this machine are the user `default`.
    assert_eq!(create(&mut tables, "stations"), Ok(None));
    assert_eq!(put(&mut tables, "stations"), Ok(None));
    for _ in 0..3 {
        assert!(matches!(get(&mut tables, "stations"), Ok(Some(Value::List(cells))) if cells.len() == 1));
    }
    let mut redis = serving.client();
    redis.check("SET stations 1 => +OK\n FLUSHALL => +OK");
    assert!(matches!(get(&mut tables, "stations"), Ok(Some(Value::List(cells))) if cells.len() == 1));
    let metrics = crate::operations::get(&serving, "/metrics");
    for line in [
        "esker_thrift_connections 1",
        "esker_thrift_calls_total 6",
        "esker_tables 1",
        "esker_query_cache_hits_total 2",
    ] {
        assert!(metrics.lines().any(|found| found == line), "{line} in {metrics}");
    }
    // A change of a user counts from the next call on, and nobody is `default` who needs a password.
    redis.check("ACL SETUSER default >word => +OK");
    let Err((1, message)) = get(&mut tables, "stations") else { panic!() };
    assert!(message.contains("nothing says which one you are"), "{message}");
    assert_eq!(tables.call("getTableNames", &[]), Ok(Some(Value::List(vec![]))));
    serving.signal("-TERM");
    assert_eq!(serving.code(), Some(0));
    assert_eq!(esker(dir.path(), "check").code, 0);
    let selected = esker_in(dir.path()).args(["ql", "-e", "SELECT f FROM stations"]).output().unwrap();
    assert!(String::from_utf8_lossy(&selected.stdout).contains('7'), "{selected:?}");
}

#[test]
fn the_user_of_the_flag_may_do_what_acl_says() {
    let dir = tempfile::tempdir().unwrap();
    {
        let serving = serve_tables(dir.path(), "--thrift-user keeper");
        let mut keeper = client(&serving);
        assert_eq!(create(&mut keeper, "stations"), Ok(None));
        refused(&create(&mut keeper, "other"), "keeper");
        let mut redis = serving.client();
        redis.check("ACL DELUSER keeper => :1");
        refused(&put(&mut keeper, "stations"), "keeper");
    }
    let increment = [(1, text("stations")), (2, text("r")), (3, text("f:n")), (4, Value::I64(1))];
    {
        let serving = serve_tables(dir.path(), "--thrift-user writer");
        let mut writer = client(&serving);
        assert_eq!(put(&mut writer, "stations"), Ok(None));
        refused(&get(&mut writer, "stations"), "writer");
        refused(&writer.call("atomicIncrement", &increment), "writer");
        refused(&writer.call("disableTable", &[(1, text("stations"))]), "writer");
    }
    {
        let serving = serve_tables(dir.path(), "--thrift-user reader");
        let mut reader = client(&serving);
        assert!(matches!(get(&mut reader, "stations"), Ok(Some(Value::List(cells))) if cells.len() == 1));
        refused(&put(&mut reader, "stations"), "reader");
        refused(&reader.call("atomicIncrement", &increment), "reader");
        assert_eq!(reader.call("getTableNames", &[]), Ok(Some(texts(["stations"]))));
    }
    for user in ["off", "nobody"] {
        let serving = serve_tables(dir.path(), &format!("--thrift-user {user}"));
        refused(&get(&mut client(&serving), "stations"), user);
    }
}

/// A namespace counts as the key `NAMESPACE:`.
#[test]
fn namespaces_need_the_right_to_all_that_is_in_them() {
    let dir = tempfile::tempdir().unwrap();
    let serving = serve_tables(dir.path(), "--thrift-user shopper");
    let mut shopper = client(&serving);
    assert_eq!(shopper.call("eskerCreateNamespace", &[(1, text("shop"))]), Ok(None));
    assert_eq!(create(&mut shopper, "shop:goods"), Ok(None));
    assert_eq!(shopper.call("eskerNamespaces", &[]), Ok(Some(texts(["default", "shop"]))));
    for namespace in ["shops", "default"] {
        let Err((kind, message)) = shopper.call("eskerCreateNamespace", &[(1, text(namespace))]) else {
            panic!()
        };
        let expected = format!("the user \"shopper\" may not change the namespace \"{namespace}\"");
        assert_eq!((kind, message), (OWN + 3, expected));
    }
    let renamed = shopper.call("eskerRenameTable", &[(1, text("shop:goods")), (2, text("goods"))]);
    assert_eq!(renamed, Err((OWN + 3, "the user \"shopper\" may not change the table \"goods\"".to_owned())));
}

#[test]
fn a_kill_loses_nothing_that_was_answered() {
    let dir = tempfile::tempdir().unwrap();
    for (times, durability) in ["process", "power", "every=10ms"].into_iter().enumerate() {
        let mut serving = serve_tables(dir.path(), &format!("--durability {durability}"));
        let mut tables = client(&serving);
        if times == 0 {
            assert_eq!(create(&mut tables, "stations"), Ok(None));
        }
        let by_one = [(1, text("stations")), (2, text("r")), (3, text("f:n")), (4, Value::I64(1))];
        for count in 1..=50 {
            let sum = Value::I64(times as i64 * 50 + count);
            assert_eq!(tables.call("atomicIncrement", &by_one), Ok(Some(sum)), "{durability}");
        }
        serving.kill();
    }
}

#[test]
fn flags_that_cannot_be_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    for (arguments, part) in [
        ("serve --thrift 0.0.0.0:0", "other machines"),
        ("serve --thrift unix:socket", "HOST:PORT"),
        ("serve --thrift tls://127.0.0.1:0", "--tls-cert and --tls-key"),
        ("serve --thrift-user ann", "--thrift ADDR"),
        ("serve --query-cache 1M", "--thrift ADDR"),
        ("--memory 64M serve --thrift 127.0.0.1:0 --query-cache 33M", "more than half of the memory"),
    ] {
        let run = esker(dir.path(), arguments);
        assert!(run.code == 2 && run.stderr().contains(part), "{arguments}: {} {}", run.code, run.stderr());
    }
    assert!(fs::read_dir(dir.path()).unwrap().next().is_none(), "a refused server has made a store");
}

/// Certificates of an authority, whose files are in a directory.
struct Authority(CertifiedIssuer<'static, KeyPair>);

fn named(name: &str) -> CertificateParams {
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

impl Authority {
    fn new(dir: &Path) -> Authority {
        let mut params = named("authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let key = KeyPair::generate().unwrap();
        fs::write(dir.join("ca"), issuer.pem()).unwrap();
        fs::write(dir.join("cert"), named("server").signed_by(&key, &issuer).unwrap().pem()).unwrap();
        fs::write(dir.join("key"), key.serialize_pem()).unwrap();
        Authority(issuer)
    }

    /// The answer to a call of a client with a certificate for `name`, as it is sent; empty: the connection was closed.
    fn ask(&self, address: SocketAddr, name: Option<&str>, call: &[u8]) -> Vec<u8> {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()));
        let builder = builder.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots);
        let config = match name {
            None => builder.with_no_client_auth(),
            Some(name) => {
                let key = KeyPair::generate().unwrap();
                let certificate = named(name).signed_by(&key, &self.0).unwrap();
                let key = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).unwrap();
                builder.with_client_auth_cert(vec![certificate.der().clone()], key).unwrap()
            }
        };
        let session = ClientConnection::new(Arc::new(config), ServerName::try_from("localhost").unwrap());
        let port = address.port();
        let socket = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut stream = StreamOwned::new(session.unwrap(), socket);
        let mut len = [0; 4];
        if stream.write_all(call).and_then(|()| stream.read_exact(&mut len)).is_err() {
            return Vec::new();
        }
        let mut answer = vec![0; u32::from_be_bytes(len) as usize];
        stream.read_exact(&mut answer).unwrap();
        answer
    }
}

/// From other machines, a client is the user in its certificate, and nobody else.
#[test]
fn certificates_tell_who_a_client_of_another_machine_is() {
    let dir = tempfile::tempdir().unwrap();
    let authority = Authority::new(dir.path());
    fs::write(dir.path().join("users"), USERS).unwrap();
    let tls = "--acl-file users --tls-cert cert --tls-key key --tls-client-ca ca --thrift tls://0.0.0.0:0";
    let call = message(FORMS[1], "isTableEnabled", 1, &[(1, text("stations"))]);
    let answer_of = |serving: &Serving, name| {
        let answer = authority.ask(serving.thrift.unwrap(), name, &call);
        String::from_utf8_lossy(&answer).into_owned()
    };
    let serving = serve(dir.path(), tls);
    assert!(answer_of(&serving, Some("reader")).contains("there is no table"));
    assert!(answer_of(&serving, Some("writer")).contains("the user \"writer\" may not read"));
    // `default` needs no password, but only on this machine's own addresses.
    assert!(answer_of(&serving, Some("stranger")).contains("nothing says which one you are"));
    assert!(answer_of(&serving, Some("off")).contains("the user \"off\" may not read"));
    assert_eq!(answer_of(&serving, None), "");
    drop(serving);
    let serving = serve(dir.path(), &format!("{tls} --tls-auth-clients optional --thrift-user writer"));
    assert!(answer_of(&serving, Some("reader")).contains("there is no table"));
    assert!(answer_of(&serving, Some("stranger")).contains("the user \"writer\" may not read"));
    assert!(answer_of(&serving, None).contains("the user \"writer\" may not read"));
    // Turning a user off does not give it the rights of another.
    assert!(answer_of(&serving, Some("off")).contains("the user \"off\" may not read"));
    drop(serving);
    // Without certificates of clients, or if they may come without, nothing tells who they are.
    for flags in [tls.replace("--tls-client-ca ca ", ""), format!("{tls} --tls-auth-clients optional")] {
        let run = esker(dir.path(), &format!("serve --resp 127.0.0.1:0 {flags}"));
        assert!(run.code == 2 && run.stderr().contains("other machines"), "{flags}: {}", run.stderr());
    }
}
