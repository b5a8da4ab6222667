//! Clients that say who they are: passwords that were right or wrong lately are known, and new wrong ones are limited.
//!
//! ```text
//! AUTH --> right lately? --yes--> done
//!             | no
//!             v
//!          wrong lately? --yes--> an error
//!             | no
//!             v
//!          a turn: 2 at a time
//!             |
//!             v
//!          has this address sent too many wrong ones? --yes--> an error
//!             | no
//!             v
//!          Argon2 on the pool --right or wrong--> known from now on
//! ```
//! What is known is a digest under a key of this process, bound to the version of the user: it tells nothing, and a user
//! whose password changes is unknown again. A program that sends one wrong password again and again costs its address one
//! attempt. Who guesses learns nothing by repetition, and pays for each new guess.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet, VecDeque};
use std::net::Ipv6Addr;
use std::time::Instant;

use sha2::{Digest, Sha256};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::passwords::{fill_with_chance, that_nothing_fits};

/// So many passwords are compared at once.
const AT_ONCE: usize = 2;

/// How many passwords that were right are remembered, and how many that were wrong.
const KNOWN_MAX: usize = 1024;

/// An address may send so many wrong passwords, and one more each second.
const WRONG_MAX: f64 = 10.0;
const WRONG_PER_S: f64 = 1.0;

/// All addresses that have sent wrong ones lately may send so many more together, and ten more each second.
const WRONG_OF_ALL_MAX: f64 = 100.0;
const WRONG_OF_ALL_PER_S: f64 = 10.0;

/// So many addresses are watched.
const ADDRESSES_MAX: usize = 4096;

/// An allowance that is used up and grows again.
#[derive(Debug, Clone, Copy)]
struct Allowance {
    left: f64,
    at: Instant,
}

impl Allowance {
    fn full(most: f64, now: Instant) -> Allowance {
        Allowance { left: most, at: now }
    }

    fn grow(&mut self, most: f64, per_s: f64, now: Instant) {
        self.left = (self.left + now.duration_since(self.at).as_secs_f64() * per_s).min(most);
        self.at = now;
    }
}

/// Which addresses have sent wrong passwords lately. One that is not here has not.
struct Attempts {
    by_address: HashMap<String, Allowance>,
    of_all: Allowance,
}

impl Attempts {
    /// Takes one from the allowance of the address, if there is one left.
    fn take(&mut self, address: &str, now: Instant) -> bool {
        self.of_all.grow(WRONG_OF_ALL_MAX, WRONG_OF_ALL_PER_S, now);
        if self.by_address.len() >= ADDRESSES_MAX {
            self.by_address.retain(|_, allowance| {
                allowance.grow(WRONG_MAX, WRONG_PER_S, now);
                allowance.left < WRONG_MAX
            });
        }
        let has_room = self.by_address.len() < ADDRESSES_MAX;
        match self.by_address.get_mut(address) {
            None if has_room => {
                let allowance = Allowance { left: WRONG_MAX - 1.0, at: now };
                self.by_address.insert(address.to_owned(), allowance);
                true
            }
            None => false,
            Some(allowance) => {
                allowance.grow(WRONG_MAX, WRONG_PER_S, now);
                if allowance.left < 1.0 || self.of_all.left < 1.0 {
                    return false;
                }
                allowance.left -= 1.0;
                self.of_all.left -= 1.0;
                true
            }
        }
    }

    /// Gives it back: the password was right.
    fn give_back(&mut self, address: &str) {
        if let Some(allowance) = self.by_address.get_mut(address) {
            allowance.left = (allowance.left + 1.0).min(WRONG_MAX);
            if allowance.left >= WRONG_MAX {
                self.by_address.remove(address);
            }
        }
        self.of_all.left = (self.of_all.left + 1.0).min(WRONG_OF_ALL_MAX);
    }
}

/// Keyed digests of passwords, at most [`KNOWN_MAX`] of them, the oldest one first.
#[derive(Default)]
struct Known {
    digests: HashSet<[u8; 32]>,
    order: VecDeque<[u8; 32]>,
}

impl Known {
    fn add(&mut self, keyed: [u8; 32]) {
        if self.digests.insert(keyed) {
            self.order.push_back(keyed);
        }
        if self.order.len() > KNOWN_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.digests.remove(&oldest);
        }
    }
}

/// Whose password it was.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Whose<'a> {
    /// That of a user, at this version.
    User(u64),
    /// No enabled user has this name.
    Nobody(&'a [u8]),
}

/// See the module's comment.
pub(crate) struct Logins {
    key: [u8; 32],
    right: RefCell<Known>,
    wrong: RefCell<Known>,
    attempts: RefCell<Attempts>,
    turns: Semaphore,
    /// What the passwords of users that do not exist are compared with.
    nobody: String,
}

impl Logins {
    pub(crate) fn new() -> Result<Logins, &'static str> {
        let mut key = [0; 32];
        fill_with_chance(&mut key)?;
        let of_all = Allowance::full(WRONG_OF_ALL_MAX, Instant::now());
        Ok(Logins {
            key,
            right: RefCell::default(),
            wrong: RefCell::default(),
            attempts: RefCell::new(Attempts { by_address: HashMap::new(), of_all }),
            turns: Semaphore::new(AT_ONCE),
            nobody: that_nothing_fits()?,
        })
    }

    fn keyed(&self, whose: Whose<'_>, digest: &[u8; 32]) -> [u8; 32] {
        let keyed = Sha256::new().chain_update(self.key).chain_update(digest);
        let keyed = match whose {
            Whose::User(version) => keyed.chain_update([1]).chain_update(version.to_be_bytes()),
            Whose::Nobody(name) => keyed.chain_update([0]).chain_update(name),
        };
        keyed.finalize().into()
    }

    /// Whether the password with this digest was right for this version of a user.
    pub(crate) fn knows(&self, version: u64, digest: &[u8; 32]) -> bool {
        self.right.borrow().digests.contains(&self.keyed(Whose::User(version), digest))
    }

    pub(crate) fn remember(&self, version: u64, digest: &[u8; 32]) {
        self.right.borrow_mut().add(self.keyed(Whose::User(version), digest));
    }

    /// Whether the password with this digest was wrong lately.
    pub(crate) fn knows_as_wrong(&self, whose: Whose<'_>, digest: &[u8; 32]) -> bool {
        self.wrong.borrow().digests.contains(&self.keyed(whose, digest))
    }

    pub(crate) fn remember_as_wrong(&self, whose: Whose<'_>, digest: &[u8; 32]) {
        self.wrong.borrow_mut().add(self.keyed(whose, digest));
    }

    /// Whether a client at `address` may have a password compared. If it was right, [`Logins::note_right`] follows.
    pub(crate) fn may_try(&self, address: &str) -> bool {
        self.attempts.borrow_mut().take(&place_of(address), Instant::now())
    }

    pub(crate) fn note_right(&self, address: &str) {
        self.attempts.borrow_mut().give_back(&place_of(address));
    }

    /// Waits for a turn to compare a password.
    pub(crate) async fn turn(&self) -> Option<SemaphorePermit<'_>> {
        self.turns.acquire().await.ok()
    }

    pub(crate) fn nobody(&self) -> String {
        self.nobody.clone()
    }
}

/// What a client's address is counted under: without its port, and of version 6 the part that one site has.
fn place_of(address: &str) -> String {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    match bare.parse::<Ipv6Addr>() {
        Ok(address) if address.to_ipv4_mapped().is_none() => {
            let [a, b, c, d, ..] = address.segments();
            format!("{a:x}:{b:x}:{c:x}:{d:x}")
        }
        _ => bare.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn wrong_passwords_are_limited() {
        let now = Instant::now();
        let mut wrong =
            Attempts { by_address: HashMap::new(), of_all: Allowance::full(WRONG_OF_ALL_MAX, now) };
        assert_eq!((0..100).filter(|_| wrong.take("a", now)).count(), 10);
        assert!(wrong.take("b", now));
        assert!(!wrong.take("a", now + Duration::from_millis(900)));
        assert!(wrong.take("a", now + Duration::from_secs(2)));
        // What was right costs nothing.
        for _ in 0..1000 {
            assert!(wrong.take("c", now));
            wrong.give_back("c");
        }
        // Many addresses: each has one try, and all together few more.
        let later = now + Duration::from_secs(60);
        let tries = (0..50_000).filter(|number| wrong.take(&format!("x{}", number % 3000), later)).count();
        assert_eq!(tries, 3000 + 100);
        assert!(
            (0..10_000).filter(|number| wrong.take(&format!("y{number}"), later)).count() < ADDRESSES_MAX
        );
        assert!(wrong.by_address.len() <= ADDRESSES_MAX);
        let much_later = later + Duration::from_secs(11);
        assert!(wrong.take("z", much_later));
        assert_eq!(wrong.by_address.len(), 1);
    }

    #[test]
    fn what_is_known_is_bounded_and_bound_to_a_version() {
        let logins = Logins::new().unwrap();
        let digest = |number: u16| -> [u8; 32] {
            let mut digest = [0; 32];
            digest[..2].copy_from_slice(&number.to_be_bytes());
            digest
        };
        logins.remember(1, &digest(0));
        assert!(logins.knows(1, &digest(0)));
        assert!(!logins.knows(2, &digest(0)));
        (1..=KNOWN_MAX as u16).for_each(|number| logins.remember(1, &digest(number)));
        assert!(!logins.knows(1, &digest(0)));
        assert!(logins.knows(1, &digest(1)));
        assert_eq!(logins.right.borrow().digests.len(), KNOWN_MAX);
    }

    #[test]
    fn what_was_wrong_is_bound_to_whose_it_was() {
        let logins = Logins::new().unwrap();
        let digest = [7; 32];
        logins.remember_as_wrong(Whose::User(1), &digest);
        logins.remember_as_wrong(Whose::Nobody(b"ann"), &digest);
        assert!(logins.knows_as_wrong(Whose::User(1), &digest));
        assert!(logins.knows_as_wrong(Whose::Nobody(b"ann"), &digest));
        for whose in [Whose::User(2), Whose::Nobody(b"bob"), Whose::Nobody(&1u64.to_be_bytes())] {
            assert!(!logins.knows_as_wrong(whose, &digest), "{whose:?}");
        }
        assert!(!logins.knows_as_wrong(Whose::User(1), &[8; 32]) && !logins.knows(1, &digest));
    }

    #[test]
    fn a_site_is_counted_as_one() {
        for (address, place) in [
            ("192.0.2.1:4711", "192.0.2.1"),
            ("[2001:db8:1:2:3:4:5:6]:4711", "2001:db8:1:2"),
            ("[::ffff:192.0.2.1]:1", "::ffff:192.0.2.1"),
            ("/run/esker.sock:0", "/run/esker.sock"),
        ] {
            assert_eq!(place_of(address), place);
        }
    }
}
