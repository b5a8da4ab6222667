//! `ACL`, `AUTH`, and what a client may do.
//!
//! Whatever changes users waits: for its turn, for Argon2, or for a file. So users change one after the other, and never in
//! the middle of a pipeline's step.

use std::path::PathBuf;
use std::rc::Rc;

use esker_redis::acl::{self, Denied, Rule, User, is_for_anybody};
use esker_redis::numbers::integer;
use esker_redis::{Spec, spec};

use crate::channels::By;
use crate::clients::Client;
use crate::connection::{Connection, Next, Wait, told};
use crate::figures::{Figures, add};
use crate::logins::Whose;
use crate::own::no_subcommand;
use crate::passwords::{self, Argon, fill_with_chance};
use crate::server::{Owned, Server};
use crate::users::{self, Account, DEFAULT, Table};

pub(crate) const WRONG_PASSWORD: &str = "WRONGPASS invalid username-password pair or user is disabled.";
const NO_AUTH: &str = "NOAUTH Authentication required.";
const TOO_MANY: &str = "ERR too many wrong passwords have come from here: try again in some seconds";
const NO_FILE: &str = "ERR this server has no ACL file: start it with --acl-file FILE";

/// The longest password that is compared, in bytes.
const PASSWORD_MAX: usize = 4096;

/// The most rules of one `ACL SETUSER`, and the most passwords among them.
const WORDS_MAX: usize = 10_000;
const SECRETS_MAX: usize = 64;

/// The most bits of `ACL GENPASS`.
const BITS_MAX: i64 = 4096;

/// What became of an attempt to be a user.
pub(crate) enum Attempt {
    Succeeded,
    Failed,
    /// The password has to be compared first.
    Unknown,
}

/// What became of a comparison of a password.
pub(crate) enum Verdict {
    Right,
    Wrong,
    TooMany,
}

/// The user and the password that a command carries.
pub(crate) fn credentials<'a>(arguments: &[&'a [u8]]) -> Option<(&'a [u8], &'a [u8])> {
    match *arguments {
        [name, password] if name.eq_ignore_ascii_case(b"auth") => Some((DEFAULT, password)),
        [name, user, password] if name.eq_ignore_ascii_case(b"auth") => Some((user, password)),
        [name, _, ref options @ ..] if name.eq_ignore_ascii_case(b"hello") => {
            let mut options = options;
            loop {
                options = match options {
                    [word, user, password, ..] if word.eq_ignore_ascii_case(b"auth") => {
                        return Some((user, password));
                    }
                    [word, _, more @ ..] if word.eq_ignore_ascii_case(b"setname") => more,
                    _ => return None,
                }
            }
        }
        _ => None,
    }
}

/// The arguments of a command without what must not be kept: passwords, as Redis leaves them out.
pub(crate) fn redacted(spec: &Spec, arguments: &[&[u8]]) -> Vec<Vec<u8>> {
    let is = |place: usize, word: &str| {
        arguments.get(place).is_some_and(|argument| argument.eq_ignore_ascii_case(word.as_bytes()))
    };
    let hidden = match spec.name {
        "auth" => 1..arguments.len(),
        "acl" if is(1, "setuser") => 2..arguments.len(),
        "config" if is(1, "set") => 3..arguments.len(),
        // Behind the first such word: it may be a name, and it may come again.
        "hello" => match (1..arguments.len()).find(|place| is(*place, "auth")) {
            Some(place) => place + 1..arguments.len(),
            None => 0..0,
        },
        _ => 0..0,
    };
    let is_secret = |place: usize| {
        hidden.contains(&place) && (spec.name != "config" || is_secret_setting(arguments[place - 1]))
    };
    let shown = |(place, argument): (usize, &&[u8])| {
        if is_secret(place) { b"(redacted)".to_vec() } else { argument.to_vec() }
    };
    arguments.iter().enumerate().map(shown).collect()
}

/// Of settings, passwords are secret: `requirepass`, `masterauth`.
fn is_secret_setting(name: &[u8]) -> bool {
    let end = &name[name.len().saturating_sub(4)..];
    end.eq_ignore_ascii_case(b"pass") || end.eq_ignore_ascii_case(b"auth")
}

fn note_denied(figures: &Figures, denied: &Denied) {
    match denied {
        Denied::Command(_) => add(&figures.denied_commands, 1),
        Denied::Channel(_) => add(&figures.denied_channels, 1),
        Denied::Key(_) | Denied::Database | Denied::AllDatabases => add(&figures.denied_keys, 1),
    }
}

impl Connection {
    // ---- what it may do ------------------------------------------------------------------------------

    /// Whether the client may do everything.
    #[inline]
    pub(crate) fn is_unrestricted(&self) -> bool {
        self.client.user.borrow().as_ref().is_some_and(|account| account.is_unrestricted())
    }

    /// Whether the client is a user.
    pub(crate) fn is_somebody(&self) -> bool {
        self.client.user.borrow().is_some()
    }

    /// Why the client may not do a command; `None`: it may.
    pub(crate) fn refusal(&self, spec: &Spec, arguments: &[&[u8]]) -> Option<String> {
        let user = self.client.user.borrow();
        let Some(account) = &*user else {
            return (!is_for_anybody(spec)).then(|| NO_AUTH.to_owned());
        };
        let denied = account.check(spec, arguments, self.client.database.get())?;
        note_denied(&self.server.figures, &denied);
        Some(denied.to_string())
    }

    /// Why the client may not do a command of a transaction any more, in `database`.
    pub(crate) fn refusal_in_exec(&self, spec: &Spec, arguments: &[&[u8]], database: u16) -> Option<String> {
        let user = self.client.user.borrow();
        let denied = user.as_ref()?.check(spec, arguments, database)?;
        note_denied(&self.server.figures, &denied);
        Some(format!(
            "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This command \
             is no longer allowed for the following reason: {}",
            denied.reason()
        ))
    }

    // ---- who it is -----------------------------------------------------------------------------------

    /// Makes the client the user that it is without saying so: that of its certificate, or the default user if it needs no
    /// password.
    pub(crate) fn be_as_new(&self) {
        *self.client.user.borrow_mut() = self.server.user_of_new(self.client.certified.as_deref());
    }

    /// Makes the client a user, if the password is right, and that needs no wait.
    pub(crate) fn try_to_be(&self, name: &[u8], password: &[u8]) -> Attempt {
        if password.len() > PASSWORD_MAX {
            return Attempt::Failed;
        }
        let server = &self.server;
        let found = server.users.borrow().get(name).filter(|account| account.user().is_on()).cloned();
        let digest = passwords::sha256(password);
        let whose = match found {
            Some(account) if account.is_open() || server.logins.knows(account.version(), &digest) => {
                *self.client.user.borrow_mut() = Some(account);
                return Attempt::Succeeded;
            }
            Some(account) => Whose::User(account.version()),
            None => Whose::Nobody(name),
        };
        if server.logins.knows_as_wrong(whose, &digest) {
            server.note_wrong_password(&self.client);
            return Attempt::Failed;
        }
        Attempt::Unknown
    }

    pub(crate) fn auth(&mut self, spec: &'static Spec, args: &[&[u8]]) -> Option<Next> {
        let Some((user, password)) = credentials(args) else {
            self.reply.error("ERR syntax error");
            return None;
        };
        let is_open = self.server.users.borrow().default_if_open().is_some();
        if args.len() == 2 && is_open {
            self.reply.error(
                "ERR AUTH <password> called without any password configured for the default user. Are you sure your \
                 configuration is correct?",
            );
            return None;
        }
        match self.try_to_be(user, password) {
            Attempt::Succeeded => self.reply.ok(),
            Attempt::Failed => self.reply.error(WRONG_PASSWORD),
            Attempt::Unknown => return Some(Next::Do(Wait::Login(self.owned(spec, args)))),
        }
        None
    }

    /// Compares the password that a command carries. `true`: it was right, and the command has to be done again.
    pub(crate) async fn compare_password(&mut self, command: &Owned) -> bool {
        let server = Rc::clone(&self.server);
        let arguments = command.arguments();
        let Some((user, password)) = credentials(&arguments) else { return true };
        match server.compare_password(&self.client, user, password).await {
            Ok(Verdict::Right) => return true,
            Ok(Verdict::Wrong) => self.reply.error(WRONG_PASSWORD),
            Ok(Verdict::TooMany) => self.reply.error(TOO_MANY),
            Err(error) => self.reply.error(&told(&error)),
        }
        false
    }

    // ---- ACL -----------------------------------------------------------------------------------------

    pub(crate) fn acl(&mut self, spec: &'static Spec, args: &[&[u8]]) -> Option<Next> {
        let sub = args[1].to_ascii_lowercase();
        match (sub.as_slice(), &args[2..]) {
            (b"whoami", []) => {
                let user = self.client.user.borrow();
                self.reply.bulk(user.as_ref().map_or(DEFAULT, |account| &account.name));
            }
            (b"users", []) => {
                let users = self.server.users.borrow();
                self.reply.array(users.all().count());
                users.all().for_each(|account| self.reply.bulk(&account.name));
            }
            (b"list", []) => {
                let text = self.server.users.borrow().text();
                let lines: Vec<&[u8]> =
                    text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).collect();
                self.reply.array(lines.len());
                lines.iter().for_each(|line| self.reply.bulk(line));
            }
            (b"getuser", [name]) => self.acl_getuser(name),
            (b"cat", []) => {
                self.reply.array(acl::CATEGORIES.len());
                acl::CATEGORIES.iter().for_each(|name| self.reply.bulk(name.as_bytes()));
            }
            (b"cat", [category]) => match acl::commands_of(category) {
                Some(commands) => {
                    let names: Vec<&str> = commands.collect();
                    self.reply.array(names.len());
                    names.iter().for_each(|name| self.reply.bulk(name.as_bytes()));
                }
                None => {
                    let category = String::from_utf8_lossy(category);
                    self.reply.error(&format!("ERR Unknown category '{category}'"));
                }
            },
            (b"genpass", [] | [_]) => self.acl_genpass(args.get(2).copied()),
            (b"dryrun", [user, command @ ..]) if !command.is_empty() => self.acl_dryrun(user, command),
            (b"setuser", [name, ..]) if !acl::is_name(name) => {
                self.reply
                    .error("ERR Usernames can't contain spaces or null characters, and have 1 to 256 bytes");
            }
            (b"deluser", names) if names.contains(&DEFAULT) => {
                self.reply.error("ERR The 'default' user cannot be removed");
            }
            (b"setuser" | b"deluser", [_, ..]) | (b"load" | b"save", []) => {
                return Some(Next::Do(Wait::Users(self.owned(spec, args))));
            }
            _ => self.reply.error(&no_subcommand("acl", args[1])),
        }
        None
    }

    fn acl_getuser(&mut self, name: &[u8]) {
        let Some(account) = self.server.users.borrow().get(name).cloned() else { return self.reply.null() };
        let user = account.user();
        let databases = user.database_rule();
        self.reply.map(6 + usize::from(databases.is_some()));
        self.reply.bulk(b"flags");
        self.reply.set(user.flags().count());
        user.flags().for_each(|flag| self.reply.bulk(flag.as_bytes()));
        self.reply.bulk(b"passwords");
        self.reply.array(user.passwords().len());
        user.passwords().iter().for_each(|kept| self.reply.bulk(kept.as_bytes()));
        self.reply.bulk(b"commands");
        self.reply.bulk(user.command_rules().as_bytes());
        self.reply.bulk(b"keys");
        self.reply.bulk(&user.key_rules());
        self.reply.bulk(b"channels");
        self.reply.bulk(&user.channel_rules());
        self.reply.bulk(b"selectors");
        self.reply.array(0);
        if let Some(databases) = databases {
            self.reply.bulk(b"databases");
            self.reply.bulk(databases.as_bytes());
        }
    }

    fn acl_genpass(&mut self, bits: Option<&[u8]>) {
        let Some(bits) = bits.map_or(Some(256), integer) else {
            return self.reply.error("ERR value is not an integer or out of range");
        };
        if !(1..=BITS_MAX).contains(&bits) {
            return self.reply.error(
                "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to 4096",
            );
        }
        let digits = (bits as usize).div_ceil(4);
        let mut bytes = vec![0; digits.div_ceil(2)];
        if let Err(why) = fill_with_chance(&mut bytes) {
            return self.reply.error(&format!("ERR {why}"));
        }
        let password: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        self.reply.bulk(&password.as_bytes()[..digits]);
    }

    fn acl_dryrun(&mut self, name: &[u8], command: &[&[u8]]) {
        let Some(account) = self.server.users.borrow().get(name).cloned() else {
            let name = String::from_utf8_lossy(name);
            return self.reply.error(&format!("ERR User '{name}' not found"));
        };
        let Some(spec) = spec(command[0]) else {
            let command = String::from_utf8_lossy(command[0]);
            return self.reply.error(&format!("ERR Command '{command}' not found"));
        };
        if !spec.takes(command.len()) {
            return self.reply.error(&format!("ERR wrong number of arguments for '{}' command", spec.name));
        }
        let shown = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
        match account.check(spec, command, self.client.database.get()) {
            None => self.reply.ok(),
            Some(denied) => {
                let what = match &denied {
                    Denied::Command(name) => format!("run the '{name}' command"),
                    Denied::Key(key) => format!("access the '{}' key", shown(key)),
                    Denied::Channel(channel) => format!("access the '{}' channel", shown(channel)),
                    Denied::Database => "access the database".to_owned(),
                    Denied::AllDatabases => "access all databases".to_owned(),
                };
                self.reply.bulk(format!("This user has no permissions to {what}").as_bytes());
            }
        }
    }

    /// Does a command that changes users. `true`: the client's own user has gone, so that it has to go too.
    pub(crate) async fn change_users(&mut self, command: &Owned) -> bool {
        let server = Rc::clone(&self.server);
        let _turn = server.users_change.lock().await;
        let arguments = command.arguments();
        let done = match arguments[1].to_ascii_lowercase().as_slice() {
            b"setuser" => server.set_user(arguments[2], &arguments[3..]).await,
            b"deluser" => {
                let count = arguments[2..].iter().filter(|name| server.delete_user(name)).count();
                self.reply.count(count as u64);
                return self.is_deleted();
            }
            b"load" => server.load_users().await,
            _ => server.save_users().await,
        };
        match done {
            Ok(()) => self.reply.ok(),
            Err(message) => self.reply.error(&message),
        }
        self.is_deleted()
    }

    /// Whether the user that the client is has been deleted.
    fn is_deleted(&self) -> bool {
        let user = self.client.user.borrow();
        user.as_ref().is_some_and(|account| !self.server.is_current(account))
    }
}

impl Server {
    /// The user that a new client is: that of its certificate, or the default user if it needs no password.
    pub(crate) fn user_of_new(&self, certified: Option<&[u8]>) -> Option<Rc<Account>> {
        let users = self.users.borrow();
        let of_certificate =
            certified.and_then(|name| users.get(name)).filter(|account| account.user().is_on());
        of_certificate.cloned().or_else(|| users.default_if_open())
    }

    /// Whether a user is still there.
    fn is_current(&self, account: &Rc<Account>) -> bool {
        self.users.borrow().get(&account.name).is_some_and(|current| Rc::ptr_eq(current, account))
    }

    /// Compares a password on the pool.
    async fn compare_password(
        &self,
        client: &Client,
        name: &[u8],
        password: &[u8],
    ) -> esker::Result<Verdict> {
        let digest = passwords::sha256(password);
        let turn = self.logins.turn().await;
        let found = self.users.borrow().get(name).filter(|account| account.user().is_on()).cloned();
        let version = found.as_ref().map(|account| account.version());
        // Another client may have sent the same password meanwhile.
        let whose = version.map_or(Whose::Nobody(name), Whose::User);
        if self.logins.knows_as_wrong(whose, &digest) {
            self.note_wrong_password(client);
            return Ok(Verdict::Wrong);
        }
        let is_known = version.is_some_and(|version| self.logins.knows(version, &digest));
        if !is_known && !self.logins.may_try(&client.address) {
            add(&self.figures.denied_logins, 1);
            return Ok(Verdict::TooMany);
        }
        let mut is_right = is_known;
        if !is_known {
            let kept =
                found.map(|account| account.user().passwords().to_vec()).filter(|kept| !kept.is_empty());
            let is_somebody = kept.is_some();
            let kept = kept.unwrap_or_else(|| vec![self.logins.nobody()]);
            is_right =
                self.pool.run(move || Argon.find_digest(&digest, &kept)).await?.is_some() && is_somebody;
        }
        drop(turn);
        match version.filter(|_| is_right) {
            Some(version) => {
                if !is_known {
                    self.logins.note_right(&client.address);
                    self.logins.remember(version, &digest);
                }
                Ok(Verdict::Right)
            }
            None => {
                self.logins.remember_as_wrong(whose, &digest);
                self.note_wrong_password(client);
                Ok(Verdict::Wrong)
            }
        }
    }

    fn note_wrong_password(&self, client: &Client) {
        add(&self.figures.denied_logins, 1);
        self.reports.wrong_password(client);
    }

    /// Changes or makes a user by rules.
    async fn set_user(&self, name: &[u8], words: &[&[u8]]) -> Result<(), String> {
        let wrong = |shown: &str, why: &str| format!("ERR Error in ACL SETUSER modifier '{shown}': {why}");
        if words.len() > WORDS_MAX {
            return Err(format!("ERR ACL SETUSER has at most {WORDS_MAX} rules"));
        }
        let mut rules = Vec::new();
        for word in words {
            let rule = Rule::parse(word).map_err(|why| wrong(&Rule::shown(word), why))?;
            rules.push((rule, Rule::shown(word)));
        }
        let old = self.users.borrow().get(name).map(|account| account.user().clone()).unwrap_or_default();
        let secrets = rules.iter().filter(|(rule, _)| rule.has_secret()).count();
        if secrets > SECRETS_MAX {
            return Err(format!("ERR ACL SETUSER has at most {SECRETS_MAX} passwords"));
        }
        let change = move || {
            let mut user = old;
            for (rule, shown) in &rules {
                user.apply(rule, &mut Argon).map_err(|why| wrong(shown, why))?;
            }
            Ok::<User, String>(user)
        };
        let user = if secrets > 0 {
            let _turn = self.logins.turn().await;
            self.pool.run(change).await.map_err(|error| told(&error))??
        } else {
            change()?
        };
        self.users.borrow().may_be(name, &user).map_err(|why| format!("ERR {why}"))?;
        self.users.borrow_mut().put(name, user);
        self.end_what_is_not_allowed();
        Ok(())
    }

    /// Deletes a user, and ends its connections.
    fn delete_user(&self, name: &[u8]) -> bool {
        let deleted = self.users.borrow_mut().remove(name).is_some();
        if deleted {
            self.end_what_is_not_allowed();
        }
        deleted
    }

    fn acl_file(&self) -> Result<PathBuf, String> {
        self.config.security.acl_file.clone().ok_or_else(|| NO_FILE.to_owned())
    }

    async fn load_users(&self) -> Result<(), String> {
        let path = self.acl_file()?;
        let table = self.pool.run(move || users::read(&path)).await.map_err(|error| told(&error))?;
        let refused = |why: String| format!("ERR {why}. No user was changed");
        let table: Table = table.map_err(refused)?;
        {
            let users = self.users.borrow();
            table.iter().try_for_each(|(name, user)| users.may_be(name, user)).map_err(refused)?;
        }
        let mut users = self.users.borrow_mut();
        let gone: Vec<Vec<u8>> = users
            .all()
            .map(|account| account.name.clone())
            .filter(|name| !table.contains_key(name))
            .collect();
        gone.iter().for_each(|name| drop(users.remove(name)));
        table.into_iter().for_each(|(name, user)| users.put(&name, user));
        drop(users);
        self.end_what_is_not_allowed();
        Ok(())
    }

    async fn save_users(&self) -> Result<(), String> {
        let path = self.acl_file()?;
        let text = self.users.borrow().text();
        let saved = self.pool.run(move || users::save(&path, &text)).await.map_err(|error| told(&error))?;
        saved.map_err(|why| format!("ERR {why}"))
    }

    /// Ends the connections of users that have gone, those that listen to channels that they may not listen to any more, and
    /// those that wait for elements of keys that they may not use any more.
    fn end_what_is_not_allowed(&self) {
        for client in self.clients.borrow().all() {
            let user = client.user.borrow();
            if user.as_ref().is_some_and(|account| !self.is_current(account)) {
                client.end();
            }
        }
        self.channels.borrow().each(|by, name, client| {
            let user = client.user.borrow();
            if user.as_ref().is_some_and(|account| !account.user().may_listen(name, by == By::Pattern)) {
                client.end();
            }
        });
        for waiter in self.waiters.borrow().all() {
            let user = waiter.client.user.borrow();
            let arguments: Vec<&[u8]> = waiter.arguments.iter().map(Vec::as_slice).collect();
            if user
                .as_ref()
                .is_some_and(|account| account.check(waiter.spec, &arguments, waiter.database).is_some())
            {
                waiter.client.end();
            }
        }
    }
}
