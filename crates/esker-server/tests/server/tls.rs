//! TLS: commands through it, certificates of clients, new certificates, and whatever is no handshake.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use esker_server::{Address, Config, Password, ServeError, Tls};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use tempfile::TempDir;

use crate::client::{Client, encoded};
use crate::host::{Host, PATIENCE, Store, wait_until};

/// An authority, and a directory with its certificate.
pub(crate) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    dir: TempDir,
}

/// A certificate and its key, as PEM.
pub(crate) struct Pair {
    cert: String,
    key: String,
}

fn named(name: &str) -> CertificateParams {
    let mut params = CertificateParams::new(vec!["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params
}

impl Authority {
    pub(crate) fn new() -> Authority {
        let mut params = named("authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("ca"), issuer.pem()).unwrap();
        Authority { issuer, dir }
    }

    /// A certificate with this name.
    fn sign(&self, name: &str) -> Pair {
        let key = KeyPair::generate().unwrap();
        let cert = named(name).signed_by(&key, &self.issuer).unwrap();
        Pair { cert: cert.pem(), key: key.serialize_pem() }
    }

    /// Gives a server a certificate. Returns the configuration that has it.
    pub(crate) fn certify(&self, name: &str) -> Tls {
        let pair = self.sign(name);
        let tls = Tls {
            cert: self.dir.path().join("cert"),
            key: self.dir.path().join("key"),
            client_ca: None,
            is_client_optional: false,
        };
        write(&tls, &pair);
        tls
    }

    fn ca(&self) -> std::path::PathBuf {
        self.dir.path().join("ca")
    }

    /// A connection to `address`, with a certificate if there is one. Its handshake may fail at the first use.
    fn connect(&self, address: &Address, own: Option<&Pair>) -> StreamOwned<ClientConnection, TcpStream> {
        let mut roots = RootCertStore::empty();
        roots.add(self.issuer.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder =
            ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let builder = builder.with_root_certificates(roots);
        let config = match own {
            None => builder.with_no_client_auth(),
            Some(Pair { cert, key }) => {
                let chain = vec![CertificateDer::from_pem_slice(cert.as_bytes()).unwrap()];
                builder
                    .with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap())
                    .unwrap()
            }
        };
        let session =
            ClientConnection::new(Arc::new(config), ServerName::try_from("localhost").unwrap()).unwrap();
        StreamOwned::new(session, plain(address))
    }

    pub(crate) fn client(&self, host: &Host, own: Option<&Pair>) -> Client {
        Client::over(self.connect(&host.addresses[0], own))
    }
}

fn write(tls: &Tls, pair: &Pair) {
    fs::write(&tls.cert, &pair.cert).unwrap();
    fs::write(&tls.key, &pair.key).unwrap();
}

fn plain(address: &Address) -> TcpStream {
    let (Address::Tls(host, port) | Address::Tcp(host, port)) = address else {
        panic!("{address} has no port")
    };
    let stream = TcpStream::connect((host.as_str(), *port)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// A server with an address with TLS, and one without behind it.
pub(crate) fn serving(tls: Tls, change: impl FnOnce(&mut Config)) -> Host {
    Host::of(&Store::in_memory(), |config| {
        config.resp = vec![Address::Tls("127.0.0.1".to_owned(), 0), Address::Tcp("127.0.0.1".to_owned(), 0)];
        config.security.tls = Some(tls);
        change(config);
    })
}

fn other(host: &Host) -> Client {
    Client::connect(&host.addresses[1])
}

#[test]
fn commands_through_tls() {
    let authority = Authority::new();
    let host = serving(authority.certify("server"), |_| {});
    assert!(host.addresses[0].to_string().starts_with("tls://127.0.0.1:"));
    let mut client = authority.client(&host, None);
    client.check("PING => +PONG\n SET a 1 => +OK\n INCR a => :2");
    // A pipeline, and values that are longer than whatever is encrypted at once, both ways.
    let bytes: Vec<u8> = (0..2000).flat_map(|_| encoded(&["INCR", "a"])).collect();
    client.send_bytes(&bytes);
    (0..2000).for_each(|number| assert_eq!(client.read().integer(), number + 3));
    let value: Vec<u8> = (0..8 << 20).map(|byte: u32| (byte / 3) as u8).collect();
    assert_eq!(client.call_with(&[b"SET", &b"v"[..], &value]).to_string(), "+OK");
    assert!(client.call("GET v").bytes() == value);
    assert!(other(&host).call("GET v").bytes() == value);
    let mut listening = authority.client(&host, None);
    listening.check("SUBSCRIBE c => [subscribe c :1]");
    client.check("PUBLISH c x => :1");
    assert_eq!(listening.read().to_string(), "[message c x]");
    let list = client.call("CLIENT LIST").to_string();
    let Address::Tls(_, port) = &host.addresses[0] else { panic!("no TLS") };
    assert_eq!(list.matches(&format!(" laddr=127.0.0.1:{port} ")).count(), 2, "{list}");
    assert_eq!(client.call("QUIT").to_string(), "+OK");
    assert!(client.is_closed());
}

/// A client that does not read what it asked for holds nobody up, and gets all of it when it does.
#[test]
fn a_client_that_does_not_read() {
    let authority = Authority::new();
    let host = serving(authority.certify("server"), |_| {});
    let mut client = authority.client(&host, None);
    let value = vec![b'x'; 1 << 20];
    client.call_with(&[b"SET", &b"v"[..], &value]);
    client.send_bytes(&(0..32).flat_map(|_| encoded(&["GET", "v"])).collect::<Vec<u8>>());
    (0..100).for_each(|_| other(&host).check("PING => +PONG"));
    (0..32).for_each(|_| assert!(client.read().bytes() == value));
}

#[test]
fn what_is_no_handshake_ends_and_harms_nobody() {
    let authority = Authority::new();
    let host = serving(authority.certify("server"), |_| {});
    let mut client = authority.client(&host, None);
    client.check("PING => +PONG");
    // A client without TLS, garbage, TLS 1.0, a record that claims much, and nothing.
    let old =
        [0x16, 3, 1, 0, 45, 1, 0, 0, 41, 3, 1].iter().copied().chain([7; 32]).chain([0, 0, 2, 0, 0x2f, 1, 0]);
    for bytes in
        [encoded(&["PING"]), vec![0xff; 10_000], old.collect(), vec![0x16, 3, 3, 0xff, 0xff], Vec::new()]
    {
        let mut stream = plain(&host.addresses[0]);
        let _ = stream.write_all(&bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest);
        assert!(rest.len() < 100, "an alert at most: {rest:?}");
    }
    // TLS to the address without it: the connection ends at once.
    let mut stream = authority.connect(&host.addresses[1], None);
    assert!(stream.write_all(&encoded(&["PING"])).and_then(|()| stream.flush()).is_err());
    wait_until("they are counted", || client.figure("tls_handshakes_failed") >= 5);
    client.check("PING => +PONG");
    assert_eq!(client.figure("connected_clients"), 1);
    // A connection that breaks its encryption later.
    let mut broken = authority.connect(&host.addresses[0], None);
    broken.write_all(&encoded(&["PING"])).unwrap();
    let mut pong = [0; 7];
    broken.read_exact(&mut pong).unwrap();
    broken.sock.write_all(&[0x17, 3, 3, 0, 32].into_iter().chain([1; 32]).collect::<Vec<u8>>()).unwrap();
    let _ = broken.sock.read_to_end(&mut Vec::new());
    wait_until("it has gone", || client.figure("connected_clients") == 1);
}

/// More silent connections than may shake hands at once.
#[test]
fn silent_connections_keep_nobody_out() {
    let authority = Authority::new();
    let host = serving(authority.certify("server"), |_| {});
    let mut silent = Vec::new();
    for number in 0..600 {
        silent.push(plain(&host.addresses[0]));
        if number % 100 == 0 {
            authority.client(&host, None).check("PING => +PONG");
        }
    }
    authority.client(&host, None).check("PING => +PONG");
    wait_until("the first ones were ended", || other(&host).figure("tls_handshakes_failed") >= 80);
    let mut first = silent.remove(0);
    assert!(matches!(first.read(&mut [0; 10]), Ok(0) | Err(_)));
    // When the server ends, none of them is waited for.
    assert!(host.end() < Duration::from_secs(10));
}

#[test]
fn certificates_of_clients() {
    let authority = Authority::new();
    let mut tls = authority.certify("server");
    tls.client_ca = Some(authority.ca());
    let host = serving(tls.clone(), |_| {});
    let mut admin = other(&host);
    admin.check("ACL SETUSER ann on >pw ~ann:* +@all => +OK\n ACL SETUSER off >pw +@all => +OK");
    let (ann, off, nobody) = (authority.sign("ann"), authority.sign("off"), authority.sign("nobody"));
    let mut client = authority.client(&host, Some(&ann));
    client.check("ACL WHOAMI => ann\n SET ann:1 x => +OK\n AUTH default x => +OK\n ACL WHOAMI => default");
    client.check("RESET => +RESET\n ACL WHOAMI => ann");
    for pair in [&off, &nobody] {
        authority.client(&host, Some(pair)).check("ACL WHOAMI => default");
    }
    // Who has none, or one of another authority, does not come in.
    let stranger = Authority::new().sign("ann");
    for own in [None, Some(&stranger)] {
        let mut stream = authority.connect(&host.addresses[0], own);
        let said = stream.write_all(&encoded(&["PING"])).and_then(|()| stream.flush());
        assert!(said.and_then(|()| stream.read_exact(&mut [0; 7])).is_err());
    }
    // With a default user that nobody is, the certificate alone lets in.
    admin.check("ACL SETUSER default off => +OK");
    authority.client(&host, Some(&nobody)).check("GET a => -NOAUTH Authentication required.");
    let mut client = authority.client(&host, Some(&ann));
    client.check("GET ann:1 => x");
    // A user that is deleted has no connections, and its certificate is one of nobody.
    let mut root = other(&host);
    root.check("AUTH ann pw => +OK\n ACL DELUSER ann => :1");
    assert!(client.is_closed());
    authority.client(&host, Some(&ann)).check("GET ann:1 => -NOAUTH Authentication required.");
    drop(host);
    tls.is_client_optional = true;
    let host = serving(tls, |_| {});
    authority.client(&host, None).check("ACL WHOAMI => default");
    other(&host).check("ACL SETUSER ann on +acl => +OK");
    authority.client(&host, Some(&ann)).check("ACL WHOAMI => ann");
    let mut stream = authority.connect(&host.addresses[0], Some(&stranger));
    let said = stream.write_all(&encoded(&["PING"])).and_then(|()| stream.flush());
    assert!(said.and_then(|()| stream.read_exact(&mut [0; 7])).is_err());
}

/// The name of the server that a new connection gets.
fn name_of_server(authority: &Authority, host: &Host) -> Vec<u8> {
    let mut stream = authority.connect(&host.addresses[0], None);
    stream.write_all(&encoded(&["PING"])).unwrap();
    stream.read_exact(&mut [0; 7]).unwrap();
    stream.conn.peer_certificates().unwrap()[0].to_vec()
}

#[test]
fn new_certificates_without_a_restart() {
    let authority = Authority::new();
    let tls = authority.certify("first");
    let host = serving(tls.clone(), |_| {});
    let hangup = || {
        let done = Command::new("kill").args(["-HUP", &std::process::id().to_string()]).status().unwrap();
        assert!(done.success());
    };
    let first = name_of_server(&authority, &host);
    let mut old = authority.client(&host, None);
    old.check("PING => +PONG");
    write(&tls, &authority.sign("second"));
    hangup();
    wait_until("the new one is there", || name_of_server(&authority, &host) != first);
    old.check("PING => +PONG");
    let second = name_of_server(&authority, &host);
    // What cannot be used changes nothing: the next good one is the sign that it was read.
    let (third, alien) = (authority.sign("third"), authority.sign("alien"));
    for bad in ["", "garbage", &alien.key] {
        fs::write(&tls.key, bad).unwrap();
        hangup();
        (0..20).for_each(|_| assert_eq!(name_of_server(&authority, &host), second));
    }
    fs::remove_file(&tls.cert).unwrap();
    hangup();
    write(&tls, &third);
    hangup();
    wait_until("the next one is there", || name_of_server(&authority, &host) != second);
    old.check("PING => +PONG");
}

#[test]
fn files_that_cannot_be_used() {
    let authority = Authority::new();
    let good = authority.certify("server");
    let other = authority.sign("other");
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let (empty, garbage) = (
        file("empty", ""),
        file("garbage", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
    );
    let other_key = file("key", &other.key);
    let sealed =
        file("sealed", "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n");
    let absent = dir.path().join("absent");
    let zero = Path::new("/dev/zero").to_path_buf();
    let with = |change: &dyn Fn(&mut Tls)| {
        let mut tls = good.clone();
        change(&mut tls);
        let refused =
            Store::in_memory().refusal_of("tls://127.0.0.1:0", |config| config.security.tls = Some(tls));
        match refused {
            ServeError::Security(message) => message,
            other => panic!("{other:?}"),
        }
    };
    for (message, part) in [
        (with(&|tls| tls.cert = absent.clone()), "absent"),
        (with(&|tls| tls.cert = dir.path().to_path_buf()), "no regular file"),
        (with(&|tls| tls.key = zero.clone()), "no regular file"),
        (with(&|tls| tls.cert = empty.clone()), "there is no certificate in it"),
        (with(&|tls| tls.cert = garbage.clone()), "garbage"),
        (with(&|tls| tls.key = empty.clone()), "there is no private key in it"),
        (with(&|tls| tls.key = sealed.clone()), "there is no private key in it"),
        (with(&|tls| tls.key = other_key.clone()), "with the key"),
        (with(&|tls| tls.client_ca = Some(empty.clone())), "there is no certificate in it"),
        (with(&|tls| tls.client_ca = Some(garbage.clone())), "garbage"),
    ] {
        assert!(message.contains(part), "{message}");
        assert!(!message.contains("PRIVATE"), "{message}");
    }
    let refused = Store::in_memory().refusal("tls://127.0.0.1:0");
    assert!(matches!(&refused, ServeError::Address(why) if why.contains("--tls-cert")), "{refused}");
}

/// An address that others reach needs passwords or certificates, whatever is changed later.
#[test]
fn addresses_that_others_reach() {
    let authority = Authority::new();
    let tls = authority.certify("server");
    let with_ca = Tls { client_ca: Some(authority.ca()), ..tls.clone() };
    let optional = Tls { is_client_optional: true, ..with_ca.clone() };
    let open = |address: &str, change: &dyn Fn(&mut Config)| {
        let address: Address = address.parse().unwrap();
        Host::of(&Store::in_memory(), |config| {
            config.resp.push(address);
            change(config);
        })
    };
    let password = || Some(Password::new(b"pw").unwrap());
    for tls in [None, Some(tls.clone()), Some(optional)] {
        let address = if tls.is_some() { "tls://0.0.0.0:0" } else { "0.0.0.0:0" };
        let refused = Store::in_memory().refusal_of(address, |config| config.security.tls = tls);
        assert!(
            matches!(&refused, ServeError::Address(why) if why.starts_with("will not listen to 0.0.0.0:0")),
            "{refused}"
        );
    }
    let host = open("0.0.0.0:0", &|config| config.security.password = password());
    let mut client = host.client();
    client.check("AUTH pw => +OK");
    for rules in ["default nopass", "new on nopass"] {
        let reply = client.call(&format!("ACL SETUSER {rules}")).to_string();
        assert!(reply.contains("would need no password"), "{reply}");
    }
    client.check("ACL SETUSER new nopass => +OK\n ACL USERS => [default new]");
    assert!(client.call("ACL SETUSER new on").is_error());
    // Other ways to be sure, or not to care.
    open("0.0.0.0:0", &|config| config.security.allows_no_password = true)
        .client()
        .check("ACL SETUSER default nopass => +OK");
    let host = open("tls://0.0.0.0:0", &|config| config.security.tls = Some(with_ca.clone()));
    host.client().check("ACL SETUSER new on nopass => +OK");
    let both = |config: &mut Config| config.resp.push("0.0.0.0:0".parse().unwrap());
    let refused = Store::in_memory().refusal_of("tls://0.0.0.0:0", |config| {
        config.security.tls = Some(with_ca.clone());
        both(config);
    });
    assert!(matches!(refused, ServeError::Address(_)));
}
