//! Rights, and connections through TLS.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use esker_table::Tables;
use esker_thrift::{Access, Action, Certificates, Config, Server};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned};

use crate::client::{Client, FORMS, OWN, Value, message, text, texts};
use crate::{Serving, serve_with};

/// What is allowed, of all tables but `secret`; and what was asked.
#[derive(Debug, Default)]
struct Rights {
    allowed: Mutex<Vec<Action>>,
    asked: Mutex<Vec<(Option<Vec<u8>>, Action)>>,
}

impl Rights {
    fn allow(&self, actions: &[Action]) {
        *self.allowed.lock().unwrap() = actions.to_vec();
    }
}

impl Access for Rights {
    fn check(&self, certificate: Option<&[u8]>, action: Action, table: &str) -> Result<(), String> {
        self.asked.lock().unwrap().push((certificate.map(<[u8]>::to_vec), action));
        let is_allowed = table != "secret" && self.allowed.lock().unwrap().contains(&action);
        if is_allowed { Ok(()) } else { Err(format!("not allowed: {action:?} {table}")) }
    }
}

const ALL: [Action; 4] = [Action::Read, Action::Write, Action::Update, Action::Admin];

fn guarded() -> (Arc<Rights>, Serving) {
    let rights = Arc::new(Rights::default());
    let access: Arc<dyn Access> = rights.clone();
    (rights, serve_with(&Config { access: Some(access), ..Config::default() }))
}

fn record(fields: &[(i16, Value)]) -> Value {
    Value::Struct(fields.to_vec())
}

/// A method, what it does, and arguments.
type Method = (&'static str, Action, Vec<(i16, Value)>);

/// Each method that is about a table, with arguments for the table `t`.
fn methods() -> Vec<Method> {
    let (table, row, column) = (text("t"), text("r"), text("f:q"));
    let list = |value: &Value| Value::List(vec![value.clone()]);
    let put = record(&[(2, column.clone()), (3, text("1"))]);
    let increment = record(&[(1, table.clone()), (2, row.clone()), (3, text("f:n")), (4, Value::I64(1))]);
    let batch = record(&[(1, row.clone()), (2, list(&put))]);
    let append = record(&[(1, table.clone()), (2, row.clone()), (3, list(&column)), (4, list(&text("x")))]);
    let with = |more: &[(i16, Value)]| [&[(1, table.clone())], more].concat();
    let of_row = |more: &[(i16, Value)]| with(&[&[(2, row.clone())], more].concat());
    let rows = |more: &[(i16, Value)]| with(&[&[(2, list(&row))], more].concat());
    let (columns, now) = (list(&column), Value::I64(i64::MAX));
    use Action::{Admin, Read, Update, Write};
    vec![
        ("createTable", Admin, with(&[(2, list(&record(&[(1, text("f:"))])))])),
        ("isTableEnabled", Read, with(&[])),
        ("getColumnDescriptors", Read, with(&[])),
        ("getRegionInfo", Read, vec![(1, text("t,,1"))]),
        ("mutateRow", Write, of_row(&[(3, list(&put))])),
        ("mutateRowTs", Write, of_row(&[(3, list(&put)), (4, now.clone())])),
        ("mutateRows", Write, with(&[(2, list(&batch))])),
        ("mutateRowsTs", Write, with(&[(2, list(&batch)), (3, now.clone())])),
        ("get", Read, of_row(&[(3, column.clone())])),
        ("getVer", Read, of_row(&[(3, column.clone()), (4, Value::I32(1))])),
        ("getVerTs", Read, of_row(&[(3, column.clone()), (4, now.clone()), (5, Value::I32(1))])),
        ("getRow", Read, of_row(&[])),
        ("getRowWithColumns", Read, of_row(&[(3, columns.clone())])),
        ("getRowTs", Read, of_row(&[(3, now.clone())])),
        ("getRowWithColumnsTs", Read, of_row(&[(3, columns.clone()), (4, now.clone())])),
        ("getRows", Read, rows(&[])),
        ("getRowsWithColumns", Read, rows(&[(3, columns.clone())])),
        ("getRowsTs", Read, rows(&[(3, now.clone())])),
        ("getRowsWithColumnsTs", Read, rows(&[(3, columns.clone()), (4, now.clone())])),
        ("atomicIncrement", Update, of_row(&[(3, text("f:n")), (4, Value::I64(1))])),
        ("increment", Update, vec![(1, increment.clone())]),
        ("incrementRows", Update, vec![(1, list(&increment))]),
        ("append", Update, vec![(1, append)]),
        ("checkAndPut", Update, of_row(&[(3, column.clone()), (5, text("1")), (6, put)])),
        ("scannerOpenWithScan", Read, with(&[(2, record(&[]))])),
        ("scannerOpen", Read, with(&[(2, text(""))])),
        ("scannerOpenWithStop", Read, with(&[(2, text("")), (3, text("z"))])),
        ("scannerOpenWithPrefix", Read, with(&[(2, text("r"))])),
        ("scannerOpenTs", Read, with(&[(2, text("")), (4, now.clone())])),
        ("scannerOpenWithStopTs", Read, with(&[(2, text("")), (3, text("z")), (5, now.clone())])),
        ("deleteAll", Write, of_row(&[(3, column.clone())])),
        ("deleteAllTs", Write, of_row(&[(3, column), (4, now.clone())])),
        ("deleteAllRow", Write, of_row(&[])),
        ("deleteAllRowTs", Write, of_row(&[(3, now)])),
        ("compact", Admin, with(&[])),
        ("majorCompact", Admin, with(&[])),
        ("disableTable", Admin, with(&[])),
        ("enableTable", Admin, with(&[])),
        ("disableTable", Admin, with(&[])),
        ("deleteTable", Admin, with(&[])),
    ]
}

#[test]
fn each_method_needs_the_right_to_do_what_it_does_and_no_other() {
    let (rights, serving) = guarded();
    let mut client = Client::new(serving.address, FORMS[0]);
    let mut names = BTreeSet::new();
    for (name, action, arguments) in methods() {
        names.insert(name);
        rights.allow(&ALL.into_iter().filter(|other| *other != action).collect::<Vec<_>>());
        let refused = client.call(name, &arguments);
        assert_eq!(refused, Err((1, format!("not allowed: {action:?} t"))), "{name}");
        rights.allow(&[action]);
        let allowed = client.call(name, &arguments);
        assert!(allowed.is_ok(), "{name}: {allowed:?}");
    }
    // The others: four about scanners and their numbers, three that list tables, four that are about none.
    assert_eq!(names.len() + 3 + 3 + 4, 49);
}

/// The kind `DENIED` of an `EskerError`.
const DENIED: i16 = OWN + 3;

/// Each of Esker's own methods but the one that tells its version, with arguments for the table `t`.
fn own_methods() -> Vec<Method> {
    let schema = text("<Schema><AccessGroup name=\"g\"><ColumnFamily name=\"f\"/></AccessGroup></Schema>");
    let put = record(&[(2, text("f")), (3, text("q"))]);
    let mutations = Value::List(vec![put]);
    let rows = Value::List(vec![record(&[(1, text("r")), (2, mutations.clone())])]);
    let append = record(&[(1, Value::I32(6)), (2, text("f")), (4, text("v"))]);
    let row = |row: &str, change| record(&[(1, text(row)), (2, Value::List(vec![change]))]);
    let put = record(&[(2, text("f")), (3, text("q"))]);
    let reading = Value::List(vec![row("r", put), row("s", append)]);
    let with = |more: &[(i16, Value)]| [&[(1, text("t"))], more].concat();
    use Action::{Admin, Read, Update, Write};
    vec![
        ("eskerCreateTable", Admin, with(&[(2, schema.clone())])),
        ("eskerSchema", Read, with(&[])),
        ("eskerAlterTable", Admin, with(&[(2, schema)])),
        ("eskerRebuildIndexes", Admin, with(&[])),
        ("eskerTruncateTable", Admin, with(&[])),
        ("eskerMutateRows", Write, with(&[(2, rows)])),
        ("eskerMutateRows", Update, with(&[(2, reading)])),
        ("eskerCheckAndMutate", Update, with(&[(2, text("r")), (4, mutations)])),
        ("eskerScannerOpen", Read, with(&[(2, record(&[]))])),
    ]
}

#[test]
fn own_methods_need_the_rights_of_hbases_methods_that_do_the_like() {
    let (rights, serving) = guarded();
    for form in FORMS {
        let mut client = Client::new(serving.address, form);
        for (name, action, arguments) in own_methods() {
            rights.allow(&ALL.into_iter().filter(|other| *other != action).collect::<Vec<_>>());
            let refused = client.call(name, &arguments);
            assert_eq!(refused, Err((DENIED, format!("not allowed: {action:?} t"))), "{name}");
            rights.allow(&[action]);
            let allowed = client.call(name, &arguments);
            assert!(allowed.is_ok(), "{name}: {allowed:?}");
        }
        // Who renames a table might read all that has the new name.
        let rename = [(1, text("t")), (2, text("u"))];
        for (allowed, missing) in [(Action::Admin, "Read t"), (Action::Read, "Admin t")] {
            rights.allow(&[allowed]);
            let refused = client.call("eskerRenameTable", &rename);
            assert_eq!(refused, Err((DENIED, format!("not allowed: {missing}"))));
        }
        rights.allow(&[Action::Admin, Action::Read]);
        assert!(client.call("eskerRenameTable", &rename).is_ok());
        // A table goes to a name only of which the client may do anything, and says nothing of others.
        rights.allow(&ALL);
        let id = client.call("eskerScannerOpen", &[(1, text("u")), (2, record(&[]))]).unwrap().unwrap();
        rights.allow(&[Action::Admin]);
        let refused = client.call("eskerScannerGet", &[(1, id.clone()), (2, Value::I32(1))]);
        assert_eq!(refused, Err((DENIED, "not allowed: Read u".to_owned())));
        rights.allow(&ALL);
        assert!(client.call("eskerScannerGet", &[(1, id), (2, Value::I32(1))]).is_ok());
        for (from, to) in [("u", "secret"), ("secret", "v"), ("u", "default:secret")] {
            let refused = client.call("eskerRenameTable", &[(1, text(from)), (2, text(to))]);
            assert_eq!(refused, Err((DENIED, "not allowed: Admin secret".to_owned())), "{from} {to}");
        }
        for (name, action, arguments) in own_methods() {
            let of_secret = [&[(1, text("secret"))], &arguments[1..]].concat();
            let refused = client.call(name, &of_secret);
            assert_eq!(refused, Err((DENIED, format!("not allowed: {action:?} secret"))), "{name}");
        }
        let dropped = [(1, text("u"))];
        rights.allow(&[Action::Read, Action::Write, Action::Update]);
        let refused = client.call("eskerDropTable", &dropped);
        assert_eq!(refused, Err((DENIED, "not allowed: Admin u".to_owned())));
        rights.allow(&[Action::Admin]);
        assert_eq!(client.call("eskerDropTable", &dropped), Ok(None));
    }
    let declared = include_str!("../../Esker.thrift").lines().filter(|line| {
        let is_comment = line.trim_start().starts_with(['*', '/']);
        !is_comment && line.contains(" esker") && line.contains('(')
    });
    let names: BTreeSet<_> = own_methods().into_iter().map(|(name, ..)| name).collect();
    // Two methods of scanners, three of namespaces, the version, and the rename and the drop that the test above has itself.
    assert_eq!(names.len() + 2 + 3 + 1 + 2, declared.count());
}

/// Rights to tables, by their names.
#[derive(Debug, Default)]
struct Names(Mutex<Vec<(Action, &'static str)>>);

impl Access for Names {
    fn check(&self, _: Option<&[u8]>, action: Action, table: &str) -> Result<(), String> {
        let is_allowed =
            self.0.lock().unwrap().iter().any(|(allowed, name)| (*allowed, *name) == (action, table));
        if is_allowed { Ok(()) } else { Err(format!("not allowed: {action:?} {table}")) }
    }
}

#[test]
fn a_namespace_counts_as_a_table_without_a_name_in_it() {
    use Action::{Admin, Read};
    let names = Arc::new(Names::default());
    let access: Arc<dyn Access> = names.clone();
    let serving = serve_with(&Config { access: Some(access), ..Config::default() });
    let mut client = Client::new(serving.address, FORMS[2]);
    let allow = |allowed: &[(Action, &'static str)]| *names.0.lock().unwrap() = allowed.to_vec();
    let namespaces = |client: &mut Client| client.call("eskerNamespaces", &[]).unwrap().unwrap();
    for name in ["eskerCreateNamespace", "eskerDropNamespace"] {
        allow(&[(Read, "shop:"), (Admin, "shop"), (Admin, "shop:goods"), (Admin, ":")]);
        let refused = client.call(name, &[(1, text("shop"))]);
        assert_eq!(refused, Err((DENIED, "not allowed: Admin shop:".to_owned())));
        allow(&[(Admin, "shop:")]);
        assert_eq!(client.call(name, &[(1, text("shop"))]), Ok(None));
    }
    assert_eq!(client.call("eskerCreateNamespace", &[(1, text("shop"))]), Ok(None));
    // It is seen by those who may read it, or one of its tables.
    assert_eq!(namespaces(&mut client), texts(["default"]));
    allow(&[(Read, "shop:")]);
    assert_eq!(namespaces(&mut client), texts(["default", "shop"]));
    allow(&[(Admin, "shop:goods"), (Read, "shop:goods")]);
    assert_eq!(namespaces(&mut client), texts(["default"]));
    let families = Value::List(vec![record(&[(1, text("f:"))])]);
    assert_eq!(client.call("createTable", &[(1, text("shop:goods")), (2, families)]), Ok(None));
    assert_eq!(namespaces(&mut client), texts(["default", "shop"]));
    allow(&[]);
    assert_eq!(namespaces(&mut client), texts(["default"]));
}

#[test]
fn what_may_not_be_read_is_not_listed_and_scanners_stop_when_a_right_is_taken() {
    let (rights, serving) = guarded();
    rights.allow(&ALL);
    let mut client = Client::new(serving.address, FORMS[0]);
    for (name, _, arguments) in methods().into_iter().take(5) {
        assert!(client.call(name, &arguments).is_ok(), "{name}");
    }
    assert_eq!(client.call("getTableNames", &[]), Ok(Some(texts(["t"]))));
    let Ok(Some(Value::List(regions))) = client.call("getTableRegions", &[(1, text("t"))]) else { panic!() };
    assert_eq!(regions.len(), 1);
    let id = client.call("scannerOpen", &[(1, text("t"))]).unwrap().unwrap();
    rights.allow(&[Action::Write, Action::Update, Action::Admin]);
    assert_eq!(client.call("getTableNames", &[]), Ok(Some(Value::List(vec![]))));
    assert_eq!(client.call("getTableNamesWithIsTableEnabled", &[]), Ok(Some(Value::Map(vec![]))));
    assert_eq!(client.call("getTableRegions", &[(1, text("t"))]), Ok(Some(Value::List(vec![]))));
    for name in ["scannerGet", "scannerGetList"] {
        let refused = client.call(name, &[(1, id.clone()), (2, Value::I32(1))]);
        assert_eq!(refused, Err((1, "not allowed: Read t".to_owned())));
    }
    rights.allow(&ALL);
    let Ok(Some(Value::List(rows))) = client.call("scannerGet", &[(1, id)]) else { panic!() };
    assert_eq!(rows.len(), 1);
    // Nothing tells whether there is a table that may not be touched.
    for name in ["createTable", "deleteTable", "getColumnDescriptors", "deleteAllRow"] {
        let Err((1, message)) = client.call(name, &[(1, text("secret")), (2, Value::List(vec![]))]) else {
            panic!()
        };
        assert!(message.contains("not allowed"), "{name}: {message}");
    }
    // Of several increments, none is done if one is not allowed.
    let increment =
        |table: &str| record(&[(1, text(table)), (2, text("r")), (3, text("f:n")), (4, Value::I64(1))]);
    let both = Value::List(vec![increment("t"), increment("secret")]);
    assert!(client.call("incrementRows", &[(1, both)]).unwrap_err().1.contains("not allowed"));
    let sum = client
        .call("atomicIncrement", &[(1, text("t")), (2, text("r")), (3, text("f:n")), (4, Value::I64(1))]);
    assert_eq!(sum, Ok(Some(Value::I64(1))));
    let figures = serving.stopper.figures();
    assert_eq!((figures.denied_calls, figures.open_connections), (7, 1));
}

/// Certificates of an authority.
#[derive(Debug)]
struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    server: Arc<ServerConfig>,
    provider: Arc<CryptoProvider>,
}

fn named(name: &str) -> CertificateParams {
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

impl Authority {
    fn new() -> Arc<Authority> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut params = named("authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(issuer.der().clone()).unwrap();
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
        let verifier = verifier.allow_unauthenticated().build().unwrap();
        let key = KeyPair::generate().unwrap();
        let certificate = named("server").signed_by(&key, &issuer).unwrap();
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider));
        let builder = builder.with_safe_default_protocol_versions().unwrap();
        let server = builder
            .with_client_cert_verifier(verifier)
            .with_single_cert(vec![certificate.der().clone()], key_of(&key))
            .unwrap();
        Arc::new(Authority { issuer, server: Arc::new(server), provider })
    }

    /// A connection, with a certificate for `name` if there is one.
    fn connect(&self, serving: &Serving, name: Option<&str>) -> StreamOwned<ClientConnection, TcpStream> {
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone()).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::clone(&self.provider));
        let builder = builder.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots);
        let config = match name {
            None => builder.with_no_client_auth(),
            Some(name) => {
                let key = KeyPair::generate().unwrap();
                let certificate = named(name).signed_by(&key, &self.issuer).unwrap();
                builder.with_client_auth_cert(vec![certificate.der().clone()], key_of(&key)).unwrap()
            }
        };
        let name = ServerName::try_from("localhost").unwrap();
        let session = ClientConnection::new(Arc::new(config), name).unwrap();
        let stream = TcpStream::connect(serving.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        StreamOwned::new(session, stream)
    }
}

fn key_of(key: &KeyPair) -> PrivateKeyDer<'static> {
    PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).unwrap()
}

impl Certificates for Authority {
    fn config(&self) -> Option<Arc<ServerConfig>> {
        Some(Arc::clone(&self.server))
    }

    /// Enough for a test: the certificate holds the name as it is.
    fn name_of_client(&self, session: &ServerConnection) -> Option<Vec<u8>> {
        let certificate = session.peer_certificates()?.first()?;
        let has = |name: &str| certificate.windows(name.len()).any(|part| part == name.as_bytes());
        ["ann", "bob"].into_iter().find(|name| has(name)).map(|name| name.as_bytes().to_vec())
    }
}

fn encrypted() -> (Arc<Authority>, Arc<Rights>, Serving) {
    let (authority, rights) = (Authority::new(), Arc::new(Rights::default()));
    let (access, certificates): (Arc<dyn Access>, Arc<dyn Certificates>) =
        (rights.clone(), authority.clone());
    let config = Config { access: Some(access), certificates: Some(certificates), ..Config::default() };
    (authority, rights, serve_with(&config))
}

/// Asks for a row of a table that there is not, and returns whether the answer has come.
fn asks(stream: &mut (impl Read + Write)) -> bool {
    let call = message(FORMS[1], "getRow", 1, &[(1, text("none")), (2, Value::Bytes(vec![b'r'; 60_000]))]);
    let mut len = [0; 4];
    if stream.write_all(&call).is_err() || stream.read_exact(&mut len).is_err() {
        return false;
    }
    let mut answer = vec![0; u32::from_be_bytes(len) as usize];
    stream.read_exact(&mut answer).unwrap();
    answer.windows(16).any(|part| part == b"there is no tabl")
}

#[test]
fn the_name_in_a_certificate_is_who_a_client_is() {
    let (authority, rights, serving) = encrypted();
    rights.allow(&ALL);
    let known = [Some("ann"), Some("bob"), None];
    for name in known {
        let mut stream = authority.connect(&serving, name);
        assert!((0..3).all(|_| asks(&mut stream)), "{name:?}");
        // The server says that it ends, too.
        stream.conn.send_close_notify();
        stream.flush().unwrap();
        stream.sock.shutdown(std::net::Shutdown::Write).unwrap();
    }
    let asked: BTreeSet<Option<Vec<u8>>> =
        rights.asked.lock().unwrap().iter().map(|(name, _)| name.clone()).collect();
    assert_eq!(asked, known.map(|name| name.map(|name| name.as_bytes().to_vec())).into());
}

#[test]
fn what_is_no_handshake_hurts_nobody_else() {
    let (authority, rights, serving) = encrypted();
    rights.allow(&ALL);
    let mut silent = TcpStream::connect(serving.address).unwrap();
    silent.write_all(&[0x16, 3, 1]).unwrap();
    for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], &message(FORMS[0], "getTableNames", 1, &[]), &[0x16; 5000]]
    {
        let mut stream = TcpStream::connect(serving.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let _ = stream.write_all(bytes);
        // It ends, whatever it says before.
        let _ = stream.read_to_end(&mut Vec::new());
        assert!(asks(&mut authority.connect(&serving, None)));
    }
    let until = Instant::now() + Duration::from_secs(20);
    while serving.stopper.figures().failed_handshakes < 3 {
        assert!(Instant::now() < until, "{:?}", serving.stopper.figures());
        test_kit::pause();
    }
    // One within a handshake does not keep the server from ending.
    let mut serving = serving;
    let begun = Instant::now();
    serving.end();
    assert!(begun.elapsed() < Duration::from_secs(5));
    drop(silent);
}

/// `default:t` is `t`: whoever may use tables with names that begin with `default:` may not use all of the default namespace.
#[test]
fn rights_are_to_the_one_name_of_a_table() {
    let (rights, serving) = guarded();
    rights.allow(&ALL);
    let mut client = Client::new(serving.address, FORMS[0]);
    let families = Value::List(vec![record(&[(1, text("f:"))])]);
    assert_eq!(client.call("createTable", &[(1, text("default:t")), (2, families.clone())]), Ok(None));
    for (name, table) in [
        ("createTable", "default:secret"),
        ("getColumnDescriptors", "default:secret"),
        ("deleteAllRow", "default:secret"),
        ("getRegionInfo", "default:secret,,1"),
        ("compact", "default:secret,,1"),
        ("deleteTable", "default:secret"),
    ] {
        let reply = client.call(name, &[(1, text(table)), (2, families.clone())]);
        let is_refused = matches!(&reply, Err((1, message)) if message.contains("not allowed") && message.ends_with(" secret"));
        assert!(is_refused, "{name}: {reply:?}");
    }
    let id = client.call("scannerOpen", &[(1, text("default:t"))]).unwrap().unwrap();
    assert_eq!(client.call("scannerGet", &[(1, id)]), Ok(Some(Value::List(vec![]))));
}

/// Waits until the server has closed all connections.
fn all_end(serving: &Serving) {
    let until = Instant::now() + Duration::from_secs(20);
    while serving.stopper.figures().open_connections > 0 {
        assert!(Instant::now() < until, "{:?}", serving.stopper.figures());
        test_kit::pause();
    }
}

/// What limits the time of a message and of an answer does so through TLS too.
#[test]
fn who_sends_or_takes_nothing_through_tls_is_waited_for_as_without_it() {
    let (authority, rights) = (Authority::new(), Arc::new(Rights::default()));
    rights.allow(&ALL);
    let (access, certificates): (Arc<dyn Access>, Arc<dyn Certificates>) = (rights, authority.clone());
    let serving = serve_with(&Config {
        access: Some(access),
        certificates: Some(certificates),
        message_time: Duration::from_secs(1),
        ..Config::default()
    });

    // A message of 60 KB has begun, and then a record comes byte by byte.
    let mut slow = authority.connect(&serving, None);
    let call = message(FORMS[1], "getRow", 1, &[(1, text("none")), (2, Value::Bytes(vec![b'r'; 60_000]))]);
    slow.write_all(&call[..100]).unwrap();
    let mut bytes = Vec::new();
    slow.conn.writer().write_all(&call[100..10_000]).unwrap();
    while slow.conn.wants_write() {
        slow.conn.write_tls(&mut bytes).unwrap();
    }
    slow.sock.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let until = Instant::now() + Duration::from_secs(20);
    for byte in bytes {
        assert!(Instant::now() < until, "the server waits for ever");
        // Until it answers that this takes too long, or has closed the connection. First come the tickets of the handshake.
        let is_written = slow.sock.write_all(&[byte]).is_ok();
        if !is_written || serving.stopper.figures().open_connections == 0 {
            break;
        }
        let _ = slow.sock.read(&mut [0; 4096]);
    }
    drop(slow);
    all_end(&serving);

    // An answer of 20 MB is not taken.
    let mut deaf = authority.connect(&serving, None);
    let mut ask = |name, arguments: &[(i16, Value)], answers: bool| {
        deaf.write_all(&message(FORMS[1], name, 1, arguments)).unwrap();
        deaf.flush().unwrap();
        let mut len = [0; 4];
        if answers {
            deaf.read_exact(&mut len).unwrap();
            deaf.read_exact(&mut vec![0; u32::from_be_bytes(len) as usize]).unwrap();
        }
    };
    let families = Value::List(vec![record(&[(1, text("f:"))])]);
    ask("createTable", &[(1, text("t")), (2, families)], true);
    let put = record(&[(2, text("f:q")), (3, Value::Bytes(vec![b'v'; 20 << 20]))]);
    ask("mutateRow", &[(1, text("t")), (2, text("r")), (3, Value::List(vec![put]))], true);
    ask("getRow", &[(1, text("t")), (2, text("r"))], false);
    all_end(&serving);
}

#[test]
fn handshakes_that_do_not_end_keep_nobody_out() {
    let (authority, rights) = (Authority::new(), Arc::new(Rights::default()));
    let (access, certificates): (Arc<dyn Access>, Arc<dyn Certificates>) =
        (rights.clone(), authority.clone());
    rights.allow(&ALL);
    let serving = serve_with(&Config {
        access: Some(access),
        certificates: Some(certificates),
        connections_max: 4,
        ..Config::default()
    });
    let begun = Instant::now();
    let mut known: Vec<_> = (0..3).map(|_| authority.connect(&serving, Some("ann"))).collect();
    assert!(known.iter_mut().all(asks));
    let silent: Vec<TcpStream> = (0..20).map(|_| TcpStream::connect(serving.address).unwrap()).collect();
    let mut another = authority.connect(&serving, Some("bob"));
    assert!(asks(&mut another) && known.iter_mut().all(asks));
    assert!(begun.elapsed() < Duration::from_secs(9));
    // Those who have said who they are stay, and the next one is refused.
    assert!(!asks(&mut authority.connect(&serving, Some("bob"))));
    assert_eq!(serving.stopper.figures().refused_connections, 1);
    drop(silent);
}

#[test]
fn other_machines_reach_only_a_server_that_knows_its_clients() {
    let access: Arc<dyn Access> = Arc::new(Rights::default());
    let listen = "0.0.0.0:0".parse().unwrap();
    for (is_public, access, is_allowed) in
        [(true, Some(access.clone()), true), (false, Some(access), false), (true, None, false)]
    {
        let tables = Tables::open_in_memory(esker::Options::default()).unwrap();
        let bound = Server::bind(tables, Config { listen, access, is_public, ..Config::default() });
        assert_eq!(bound.is_ok(), is_allowed, "{bound:?}");
    }
}
