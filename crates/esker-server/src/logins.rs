//! Clients that say who they are: passwords that were right lately are known, and wrong ones are limited.
//!
//! ```text
//! AUTH --> known lately? --yes--> done
//!             | no
//!             v
//!          a turn: 2 at a time
//!             |
//!             v
//!          has this address sent too many wrong ones? --yes--> an error
//!             | no
//!             v
//!          Argon2 on the pool --right--> known from now on
//! ```
//! What is known is a digest under a key of this process, bound to the version of the user: it tells nothing, and a user
//! whose password changes is unknown again.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet, VecDeque};
use std::net::Ipv6Addr;
use std::time::Instant;

use sha2::{Digest, Sha256};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::passwords::{fill_with_chance, that_nothing_fits};

/// So many passwords are compared at once.
const AT_ONCE: usize = 2;

/// So many passwords that were right are remembered.
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
struct Wrong {
    by_address: HashMap<String, Allowance>,
    of_all: Allowance,
}

impl Wrong {
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

/// Digests of passwords that were right, the oldest one first.
#[derive(Default)]
struct Known {
    digests: HashSet<[u8; 32]>,
    order: VecDeque<[u8; 32]>,
}

/// See the module's comment.
pub(crate) struct Logins {
    key: [u8; 32],
    known: RefCell<Known>,
    wrong: RefCell<Wrong>,
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
            known: RefCell::default(),
            wrong: RefCell::new(Wrong { by_address: HashMap::new(), of_all }),
            turns: Semaphore::new(AT_ONCE),
            nobody: that_nothing_fits()?,
        })
    }

    fn keyed(&self, version: u64, digest: &[u8; 32]) -> [u8; 32] {
        Sha256::new()
            .chain_update(self.key)
            .chain_update(version.to_be_bytes())
            .chain_update(digest)
            .finalize()
            .into()
    }

    /// Whether the password with this digest was right for this version of a user.
    pub(crate) fn knows(&self, version: u64, digest: &[u8; 32]) -> bool {
        self.known.borrow().digests.contains(&self.keyed(version, digest))
    }

    pub(crate) fn remember(&self, version: u64, digest: &[u8; 32]) {
        let mut known = self.known.borrow_mut();
        let keyed = self.keyed(version, digest);
        if known.digests.insert(keyed) {
            known.order.push_back(keyed);
        }
        if known.order.len() > KNOWN_MAX
            && let Some(oldest) = known.order.pop_front()
        {
            known.digests.remove(&oldest);
        }
    }

    /// Whether a client at `address` may have a password compared. If it was right, [`Logins::note_right`] follows.
    pub(crate) fn may_try(&self, address: &str) -> bool {
        self.wrong.borrow_mut().take(&place_of(address), Instant::now())
    }

    pub(crate) fn note_right(&self, address: &str) {
        self.wrong.borrow_mut().give_back(&place_of(address));
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
        let mut wrong = Wrong { by_address: HashMap::new(), of_all: Allowance::full(WRONG_OF_ALL_MAX, now) };
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
        assert_eq!(logins.known.borrow().digests.len(), KNOWN_MAX);
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
