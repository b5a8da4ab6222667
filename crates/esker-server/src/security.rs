//! Who may connect, and how: what the configuration says of it.

use std::fmt;
use std::path::{Path, PathBuf};

use crate::files;

/// The longest password that a file or a variable may hold, in bytes.
const PASSWORD_BYTES_MAX: usize = 4096;

/// A password, which is not printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(Vec<u8>);

impl fmt::Debug for Password {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Password(..)")
    }
}

impl Password {
    /// The password `bytes`: 1 to 4,096 of them.
    ///
    /// # Errors
    /// A message when it is too short or too long.
    pub fn new(bytes: &[u8]) -> Result<Password, String> {
        match bytes.len() {
            0 => Err("the password is empty".to_owned()),
            len if len > PASSWORD_BYTES_MAX => {
                Err(format!("the password has more than {PASSWORD_BYTES_MAX} bytes"))
            }
            _ => Ok(Password(bytes.to_vec())),
        }
    }

    /// The password in a file: its first line.
    ///
    /// # Errors
    /// A message when the file cannot be read, or holds no such line.
    pub fn of_file(path: &Path) -> Result<Password, String> {
        let bytes = files::read(path, 2 * PASSWORD_BYTES_MAX)?;
        let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        Password::new(line).map_err(|why| format!("{}: {why}", path.display()))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Certificates, for addresses `tls://HOST:PORT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// The server's certificate, and those between it and a root, as PEM.
    pub cert: PathBuf,
    /// The key of the certificate, as PEM.
    pub key: PathBuf,
    /// The roots of clients' certificates, as PEM; none are asked for without.
    pub client_ca: Option<PathBuf>,
    /// Whether a client may come without a certificate although there are roots of them.
    pub is_client_optional: bool,
}

/// Who may connect, and how.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Security {
    /// The file with the users. It is read now and by `ACL LOAD`, and written by `ACL SAVE`.
    pub acl_file: Option<PathBuf>,
    /// The password of the user `default`.
    pub password: Option<Password>,
    /// Whether others than this machine may connect although a user needs no password.
    pub allows_no_password: bool,
    /// The certificates, if there is an address with TLS.
    pub tls: Option<Tls>,
}

impl Security {
    /// Whether a client of an address with TLS, or without, has shown a certificate before it sends a command.
    pub(crate) fn asks_for_certificates(&self, is_tls: bool) -> bool {
        is_tls && self.tls.as_ref().is_some_and(|tls| tls.client_ca.is_some() && !tls.is_client_optional)
    }
}
