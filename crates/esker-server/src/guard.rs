//! What other servers of the same process ask: what the users may do, and which certificate is in force.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use esker_redis::acl::User;
use rustls::{ServerConfig, ServerConnection};

use crate::tls::{self, Certificates};

/// The users and certificates of a server, for others in the same process, which ask from any thread. [`serve`](crate::serve)
/// fills in that of [`Config::beside`](crate::Config). Until then, there are none.
#[derive(Clone, Default)]
pub struct Guard {
    /// Copies of those that the event loop has, which changes both.
    users: Arc<RwLock<BTreeMap<Vec<u8>, User>>>,
    certificates: Arc<OnceLock<Arc<Certificates>>>,
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").finish_non_exhaustive()
    }
}

impl Guard {
    pub(crate) fn put(&self, name: &[u8], user: &User) {
        let mut users = self.users.write().unwrap_or_else(PoisonError::into_inner);
        users.insert(name.to_vec(), user.clone());
    }

    pub(crate) fn remove(&self, name: &[u8]) {
        self.users.write().unwrap_or_else(PoisonError::into_inner).remove(name);
    }

    pub(crate) fn certify(&self, certificates: &Arc<Certificates>) {
        // One guard is for one server; a second one's certificates are as good.
        let _ = self.certificates.set(Arc::clone(certificates));
    }

    fn of<T>(&self, name: &[u8], ask: impl FnOnce(&User) -> T) -> Option<T> {
        self.users.read().unwrap_or_else(PoisonError::into_inner).get(name).map(ask)
    }

    /// Whether there is a user with this name.
    pub fn has(&self, name: &[u8]) -> bool {
        self.of(name, |_| ()).is_some()
    }

    /// Whether there is a user with this name that is on.
    pub fn is_on(&self, name: &[u8]) -> bool {
        self.of(name, User::is_on) == Some(true)
    }

    /// Whether clients are this user without a password.
    pub fn is_open(&self, name: &[u8]) -> bool {
        self.of(name, |user| user.is_on() && user.needs_no_password()) == Some(true)
    }

    /// Whether a user may do `command` with `key` in database 0. The command's name is in lower case, and its first key is its
    /// first argument, if it has any.
    pub fn may(&self, name: &[u8], command: &str, key: &[u8]) -> bool {
        let Some(spec) = esker_redis::spec(command.as_bytes()) else { return false };
        // Commands of these kinds look at no other argument.
        let arguments: &[&[u8]] = &[command.as_bytes(), key, b"", b""];
        self.of(name, |user| user.is_on() && user.check(spec, arguments, 0).is_none()) == Some(true)
    }

    /// The certificate that connections get which begin now. `None`: there is none.
    pub fn tls(&self) -> Option<Arc<ServerConfig>> {
        self.certificates.get().map(|certificates| certificates.current())
    }

    /// The common name in the certificate that the client of a connection has shown.
    pub fn name_of_client(session: &ServerConnection) -> Option<Vec<u8>> {
        tls::name_of_client(session)
    }
}
