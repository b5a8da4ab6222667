//! The users, by name. Clients refer to them, so a change counts from their next command on.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;

use esker_redis::Spec;
use esker_redis::acl::{self, Denied, Keeper, Rule, User};

use crate::files;
use crate::guard::Guard;
use crate::passwords::Argon;
use crate::security::Security;

/// The user of a client that has not said who it is.
pub(crate) const DEFAULT: &[u8] = b"default";

/// The most bytes of an ACL file, and the most users.
const FILE_BYTES_MAX: usize = 16 << 20;
const USERS_MAX: usize = 10_000;

/// Users by name, as plain data.
pub(crate) type Table = BTreeMap<Vec<u8>, User>;

/// A user that clients may be.
pub(crate) struct Account {
    pub(crate) name: Vec<u8>,
    user: RefCell<User>,
    is_unrestricted: Cell<bool>,
    /// Another number for each change of its passwords, and for each user.
    version: Cell<u64>,
}

impl Account {
    /// Whether it may do everything, so that nothing has to be checked.
    pub(crate) fn is_unrestricted(&self) -> bool {
        self.is_unrestricted.get()
    }

    /// Why it may not do a command; `None`: it may.
    pub(crate) fn check(&self, spec: &Spec, arguments: &[&[u8]], database: u16) -> Option<Denied> {
        if self.is_unrestricted() { None } else { self.user.borrow().check(spec, arguments, database) }
    }

    pub(crate) fn user(&self) -> std::cell::Ref<'_, User> {
        self.user.borrow()
    }

    pub(crate) fn version(&self) -> u64 {
        self.version.get()
    }

    /// Whether clients are this user without a password.
    pub(crate) fn is_open(&self) -> bool {
        is_open(&self.user.borrow())
    }
}

fn is_open(user: &User) -> bool {
    user.is_on() && user.needs_no_password()
}

/// See the module's comment.
pub(crate) struct Users {
    by_name: BTreeMap<Vec<u8>, Rc<Account>>,
    versions: u64,
    /// Whether others than this machine may connect, so that each user that is on has to need a password.
    needs_passwords: bool,
    /// Hears of each change.
    guard: Guard,
}

impl Users {
    pub(crate) fn new(table: Table, guard: Guard) -> Users {
        let mut users = Users { by_name: BTreeMap::new(), versions: 0, needs_passwords: false, guard };
        table.into_iter().for_each(|(name, user)| users.put(&name, user));
        users
    }

    pub(crate) fn get(&self, name: &[u8]) -> Option<&Rc<Account>> {
        self.by_name.get(name)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Rc<Account>> {
        self.by_name.values()
    }

    /// The user that a new client is, if it needs no password.
    pub(crate) fn default_if_open(&self) -> Option<Rc<Account>> {
        self.get(DEFAULT).filter(|account| account.is_open()).cloned()
    }

    /// The name of a user that is on and needs no password, if there is one.
    pub(crate) fn one_without_password(&self) -> Option<&[u8]> {
        self.all().find(|account| account.is_open()).map(|account| account.name.as_slice())
    }

    /// From now on, each user that is on has to need a password.
    pub(crate) fn need_passwords(&mut self) {
        self.needs_passwords = true;
    }

    /// Refuses a user that would let anybody in.
    pub(crate) fn may_be(&self, name: &[u8], user: &User) -> Result<(), String> {
        if self.needs_passwords && is_open(user) {
            let name = String::from_utf8_lossy(name);
            return Err(format!(
                "the user '{name}' would need no password, and other machines can connect to this server \
                 (--insecure-no-password allows it)"
            ));
        }
        if self.by_name.len() >= USERS_MAX && !self.by_name.contains_key(name) {
            return Err(format!("there are {USERS_MAX} users already"));
        }
        Ok(())
    }

    /// Makes `user` the one with this name.
    pub(crate) fn put(&mut self, name: &[u8], user: User) {
        self.guard.put(name, &user);
        let Some(account) = self.by_name.get(name) else {
            self.versions += 1;
            let account = Account {
                name: name.to_vec(),
                is_unrestricted: Cell::new(user.is_unrestricted()),
                user: RefCell::new(user),
                version: Cell::new(self.versions),
            };
            self.by_name.insert(name.to_vec(), Rc::new(account));
            return;
        };
        let has_changed = {
            let old = account.user.borrow();
            old.passwords() != user.passwords() || old.is_on() != user.is_on()
        };
        if has_changed {
            self.versions += 1;
            account.version.set(self.versions);
        }
        account.is_unrestricted.set(user.is_unrestricted());
        account.user.replace(user);
    }

    /// Removes a user.
    pub(crate) fn remove(&mut self, name: &[u8]) -> Option<Rc<Account>> {
        self.guard.remove(name);
        self.by_name.remove(name)
    }

    /// The text of an ACL file with all of them.
    pub(crate) fn text(&self) -> Vec<u8> {
        let line = |account: &Rc<Account>| {
            [b"user ", account.name.as_slice(), b" ", &account.user.borrow().rules(), b"\n"].concat()
        };
        self.all().flat_map(line).collect()
    }
}

/// The users that a configuration asks for. It reads files, and computes Argon2 for passwords.
///
/// # Errors
/// What keeps it from that.
pub(crate) fn configured(security: &Security) -> Result<Table, String> {
    if let Some(path) = &security.acl_file {
        if security.password.is_some() {
            return Err("the password of the user 'default' stands in the ACL file if there is one: give only one of both".to_owned());
        }
        return read(path);
    }
    let mut user = User::default_user();
    if let Some(password) = &security.password {
        let kept = Argon.keep(&acl::Secret::Clear(password.bytes().to_vec()), &[])?;
        for word in ["resetpass", &kept] {
            user.apply(&Rule::parse(word.as_bytes())?, &mut Argon)?;
        }
    }
    Ok(Table::from([(DEFAULT.to_vec(), user)]))
}

/// The users of an ACL file, and the user `default`, who may do everything without a password unless the file says
/// otherwise.
///
/// # Errors
/// What is wrong with the file.
pub(crate) fn read(path: &Path) -> Result<Table, String> {
    let text = files::read(path, FILE_BYTES_MAX)?;
    if files::is_open_to_others(path) {
        tracing::warn!(file = %path.display(), "other users of this machine can read or write the ACL file");
    }
    let wrong = |line: usize, message: &str| format!("{} line {line}: {message}", path.display());
    let lines = acl::lines(&text).map_err(|error| wrong(error.line, &error.message))?;
    let mut table = Table::from([(DEFAULT.to_vec(), User::default_user())]);
    for line in lines {
        let mut user = User::new();
        for (rule, shown) in &line.rules {
            let applied = user.apply(rule, &mut Argon);
            applied.map_err(|why| wrong(line.number, &format!("'{shown}': {why}")))?;
        }
        table.insert(line.name, user);
        if table.len() > USERS_MAX {
            return Err(wrong(line.number, &format!("there are more than {USERS_MAX} users")));
        }
    }
    Ok(table)
}

/// Writes an ACL file.
///
/// # Errors
/// What keeps it from that.
pub(crate) fn save(path: &Path, text: &[u8]) -> Result<(), String> {
    files::replace(path, text)
}
