//! Where a server is, and who asks it: `redis://[USER:PASSWORD@]HOST[:PORT][/DB]`, or `unix:PATH` in the same forms that
//! Redis' clients read (`unix:///run/esker.sock?db=1`, `redis+unix://...`). A server of tables is `thrift://HOST[:PORT]`.
//!
//! A URL may hold a password, so neither an error nor the debug form of a URL shows more than its address.

use std::fmt;
use std::path::PathBuf;

/// The port of a URL that names none.
const PORT: u16 = 6379;
const THRIFT_PORT: u16 = 9090;

/// What comes before the address.
const TCP: &str = "redis://";
const TLS: &str = "rediss://";
const THRIFT: &str = "thrift://";
const UNIX: [&str; 3] = ["redis+unix://", "unix://", "unix:"];

/// Where a server listens.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Address {
    Tcp(String, u16),
    Unix(PathBuf),
    /// By HBase's Thrift interface.
    Thrift(String, u16),
}

/// A server, a database of it, and what its user says to be let in.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Url {
    pub(super) address: Address,
    pub(super) user: Option<String>,
    pub(super) password: Option<String>,
    /// The number of the database, if the URL names one.
    pub(crate) database: Option<u16>,
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.address {
            Address::Tcp(host, port) | Address::Thrift(host, port) if host.contains(':') => {
                write!(f, "[{host}]:{port}")
            }
            Address::Tcp(host, port) | Address::Thrift(host, port) => write!(f, "{host}:{port}"),
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Url({self})")
    }
}

impl Url {
    /// Reads a URL; or says what is wrong with it.
    pub(crate) fn parse(text: &str) -> Result<Url, String> {
        if let Some(rest) = strip(text, TCP) {
            return tcp(rest);
        }
        if let Some(rest) = strip(text, THRIFT) {
            return thrift(rest);
        }
        if strip(text, TLS).is_some() {
            return Err(
                "this version of esker cannot encrypt a connection (rediss://): use redis:// through an SSH \
                        tunnel, or a Unix socket"
                    .to_owned(),
            );
        }
        match UNIX.iter().find_map(|start| strip(text, start)) {
            Some(rest) => unix(rest),
            None => Err(
                "a URL is redis://[USER:PASSWORD@]HOST[:PORT][/DB], unix:PATH[?db=DB] or, for `esker ql`, thrift://HOST[:PORT]"
                    .to_owned(),
            ),
        }
    }

    /// The form of a URL of this kind that has a password.
    pub(super) fn with_password(&self) -> &'static str {
        match self.address {
            Address::Tcp(..) => "redis://USER:PASSWORD@HOST:PORT",
            Address::Unix(_) => "unix://USER:PASSWORD@/ABSOLUTE/PATH",
            Address::Thrift(..) => "thrift://HOST:PORT",
        }
    }

    /// Host and port of a server of tables, if it is one.
    pub(crate) fn thrift(&self) -> Option<(&str, u16)> {
        match &self.address {
            Address::Thrift(host, port) => Some((host, *port)),
            _ => None,
        }
    }

    /// Whether `text` is meant as a URL and not as a path.
    pub(crate) fn is_meant(text: &str) -> bool {
        [TCP, TLS, THRIFT].iter().chain(&UNIX).any(|start| strip(text, start).is_some())
    }
}

/// `text` without `start`, whose letters may be large.
fn strip<'a>(text: &'a str, start: &str) -> Option<&'a str> {
    let (first, rest) = text.split_at_checked(start.len())?;
    first.eq_ignore_ascii_case(start).then_some(rest)
}

fn tcp(rest: &str) -> Result<Url, String> {
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    if authority.contains(['?', '#']) || path.contains(['?', '#']) {
        return Err("a redis:// URL has nothing behind its database".to_owned());
    }
    let (authority, place) = authority.rsplit_once('@').unwrap_or(("", authority));
    let (user, password) = credentials(authority)?;
    let (host, port) = host_and_port(place, PORT)?;
    let database = if path.is_empty() { None } else { Some(number(path)?) };
    Ok(Url { address: Address::Tcp(host, port), user, password, database })
}

fn thrift(rest: &str) -> Result<Url, String> {
    let place = rest.strip_suffix('/').unwrap_or(rest);
    if place.contains(['/', '?', '#', '@']) {
        return Err(
            "a thrift:// URL has a host and a port, and nothing else: its servers know no users".to_owned()
        );
    }
    let (host, port) = host_and_port(place, THRIFT_PORT)?;
    Ok(Url { address: Address::Thrift(host, port), user: None, password: None, database: None })
}

/// `HOST`, `HOST:PORT`, and the same with `[IPv6]`.
fn host_and_port(place: &str, default: u16) -> Result<(String, u16), String> {
    let (host, port) = match place.strip_prefix('[').map(|rest| rest.split_once(']')) {
        Some(Some((host, ""))) => (host, None),
        Some(Some((host, behind))) => (host, Some(behind.strip_prefix(':').unwrap_or_default())),
        Some(None) => return Err("the host's ] is missing".to_owned()),
        None => place.rsplit_once(':').map_or((place, None), |(host, port)| (host, Some(port))),
    };
    if host.is_empty() {
        return Err("the URL names no host".to_owned());
    }
    let port = match port {
        None => default,
        Some(port) => port.parse().map_err(|_| "the URL's port is no number from 1 to 65535".to_owned())?,
    };
    Ok((decoded(host)?, port))
}

fn unix(rest: &str) -> Result<Url, String> {
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    // Before the path, if it is absolute. Any other @ belongs to the path.
    let slash = place.find('/').unwrap_or(0);
    let (authority, path) = match place[..slash].strip_suffix('@') {
        Some(authority) => (authority, &place[slash..]),
        None => ("", place),
    };
    // What may be a password is neither taken for a path nor shown.
    let is_relative = authority.is_empty() && !path.starts_with('/');
    if is_relative && path.split_once(':').is_some_and(|(_, behind)| behind.contains('@')) {
        return Err("the socket's path has to begin with / behind USER:PASSWORD@; in a path that has : and @, the @ is %40"
            .to_owned());
    }
    let (user, password) = credentials(authority)?;
    let mut database = None;
    for part in query.split('&').filter(|part| !part.is_empty()) {
        match part.split_once('=') {
            Some(("db", text)) => database = Some(number(text)?),
            _ => {
                return Err("behind the path of a socket, a URL may have ?db=DB, and nothing else".to_owned());
            }
        }
    }
    let path = decoded(path)?;
    if path.is_empty() {
        return Err("the URL names no socket".to_owned());
    }
    Ok(Url { address: Address::Unix(PathBuf::from(path)), user, password, database })
}

/// The user and the password of `user:password`. Either may be missing; a password without a user is that of `default`.
fn credentials(text: &str) -> Result<(Option<String>, Option<String>), String> {
    let (user, password) = match text.split_once(':') {
        Some((user, password)) => (user, Some(decoded(password)?)),
        None if text.is_empty() => return Ok((None, None)),
        None => {
            return Err("the URL names a user without a password (USER:PASSWORD@, or :PASSWORD@)".to_owned());
        }
    };
    let user = decoded(user)?;
    Ok(((!user.is_empty()).then_some(user), password))
}

fn number(text: &str) -> Result<u16, String> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse().ok().filter(|_| is_number);
    number.ok_or_else(|| "the URL's database is not a number from 0 to 65535".to_owned())
}

/// `text` with each `%XX` replaced by its byte.
fn decoded(text: &str) -> Result<String, String> {
    let wrong = || "in a URL, % begins two hex digits of a byte of UTF-8".to_owned();
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let (digits, rest) = part.split_at_checked(2).ok_or_else(wrong)?;
        let digits = digits.bytes().all(|byte| byte.is_ascii_hexdigit()).then_some(digits);
        let byte = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()).filter(|byte| *byte != 0);
        bytes.push(byte.ok_or_else(wrong)?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn parts(text: &str) -> (String, Option<String>, Option<String>, Option<u16>) {
        let Url { user, password, database, .. } = Url::parse(text).unwrap();
        (Url::parse(text).unwrap().to_string(), user, password, database)
    }

    #[test]
    fn urls_are_read() {
        let some = |text: &str| Some(text.to_owned());
        let of = |address: &str| (address.to_owned(), None, None, None);
        assert_eq!(parts("redis://localhost"), of("localhost:6379"));
        assert_eq!(parts("REDIS://[::1]:7000/"), of("[::1]:7000"));
        assert_eq!(parts("redis://[::1]"), of("[::1]:6379"));
        assert_eq!(parts("redis://h:1/15"), ("h:1".to_owned(), None, None, Some(15)));
        assert_eq!(parts("redis://:p%40%3a@h/0"), ("h:6379".to_owned(), None, some("p@:"), Some(0)));
        assert_eq!(parts("redis://ann:a:b@c@h"), ("h:6379".to_owned(), some("ann"), some("a:b@c"), None));
        assert_eq!(parts("redis://ann:@h"), ("h:6379".to_owned(), some("ann"), some(""), None));
        assert_eq!(parts("thrift://localhost"), of("localhost:9090"));
        assert_eq!(parts("thrift://[::1]:1/"), of("[::1]:1"));
        assert_eq!(parts("unix:demo.sock"), of("unix:demo.sock"));
        assert_eq!(parts("unix:a@b/c.sock"), of("unix:a@b/c.sock"));
        assert_eq!(parts("unix:u:p%40x.sock"), of("unix:u:p@x.sock"));
        assert_eq!(parts("unix:///run/a%20b?db=3"), ("unix:/run/a b".to_owned(), None, None, Some(3)));
        let full = ("unix:/x@y".to_owned(), some("u"), some("p"), Some(1));
        assert_eq!(parts("redis+unix://u:p@/x@y?db=1"), full);
    }

    #[test]
    fn what_is_no_url_is_refused_without_its_password() {
        for text in [
            "",
            "redis",
            "redis:/h",
            "http://secret@h",
            "redis://",
            "redis://:6379",
            "redis://h:",
            "redis://h:x",
            "redis://h:70000",
            "redis://h:-1",
            "redis://secret@h",
            "redis://h/a",
            "redis://h/-1",
            "redis://h/+1",
            "redis://h/65536",
            "redis://h/1/2",
            "redis://h?db=1",
            "redis://h/1#x",
            "redis://[::1",
            "redis://[::1]x",
            "redis://u:secret%@h",
            "redis://u:secret%4@h",
            "redis://u:secret%zz@h",
            "redis://u:secret%ff@h",
            "redis://u:secret%00@h",
            "redis://u:secret%+1@h",
            "unix:",
            "unix://",
            "unix:///x?password=secret",
            "unix:///x?db=",
            "unix://u:secret@x.sock",
            "unix:u:secret@x.sock",
            "redis+unix://:secret@run/x.sock",
            "unix://u:sec/ret/secret@/run/x.sock",
            "rediss://u:secret@h",
            "redis://u:secret@h:x",
            "thrift://",
            "thrift://u:secret@h",
            "thrift://h/t",
            "thrift://h:x",
        ] {
            let message = Url::parse(text).expect_err(text);
            assert!(!message.contains("secret"), "{message}");
        }
        assert_eq!(format!("{:?}", Url::parse("redis://u:secret@h").unwrap()), "Url(h:6379)");
    }

    #[test]
    fn paths_are_not_urls() {
        for (text, is_meant) in
            [("redis://", true), ("unix:x", true), ("Rediss://h", true), ("x.db", false), ("redis", false)]
        {
            assert_eq!(Url::is_meant(text), is_meant, "{text}");
        }
    }
}
