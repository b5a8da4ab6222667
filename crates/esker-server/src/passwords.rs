//! What is kept of passwords, and how they are compared.
//!
//! ```text
//! password --SHA-256--> 32 bytes --Argon2id, salt--> $argon2id$v=19$m=...,t=...,p=...$salt$hash
//! ```
//! SHA-256 comes first because ACL files of Redis have it in place of the password. Argon2 takes memory and time on
//! purpose, so it is never computed on the event loop.

use argon2::password_hash::phc::{Output, ParamsString, PasswordHash, Salt};
use argon2::{ARGON2ID_IDENT, Algorithm, Argon2, Params, Version};
use esker_redis::acl::{Keeper, Secret};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// What one computation takes: 19 MiB and two passes, which OWASP's Password Storage Cheat Sheet asks for at least.
const MEMORY_KIB: u32 = 19 << 10;
const PASSES: u32 = 2;

/// The most that what is read from a file may ask for.
const MEMORY_KIB_MAX: u32 = 64 << 10;
const PASSES_MAX: u32 = 8;
const LANES_MAX: u32 = 4;

const HASH_BYTES: usize = 32;
const SALT_BYTES: usize = 16;

const FAILED: &str = "The password could not be hashed";

/// What Argon2 is given of a password.
pub(crate) fn sha256(password: &[u8]) -> [u8; 32] {
    Sha256::digest(password).into()
}

/// Fills `bytes` with what nobody can guess.
pub(crate) fn fill_with_chance(bytes: &mut [u8]) -> Result<(), &'static str> {
    let filled = rustls::crypto::ring::default_provider().secure_random.fill(bytes);
    filled.map_err(|_| "The system gives no random numbers")
}

/// What is kept of a password, taken apart.
struct Kept {
    params: Params,
    salt: Vec<u8>,
    hash: Vec<u8>,
}

impl Kept {
    fn parse(text: &str) -> Option<Kept> {
        let parsed = PasswordHash::new(text).ok()?;
        let params = Params::try_from(&parsed).ok()?;
        let is_bounded = params.m_cost() <= MEMORY_KIB_MAX
            && params.t_cost() <= PASSES_MAX
            && params.p_cost() <= LANES_MAX
            && params.keyid().is_empty()
            && params.data().is_empty();
        let is_known = parsed.algorithm == ARGON2ID_IDENT && parsed.version == Some(Version::V0x13.into());
        let (salt, hash) = (parsed.salt?.to_vec(), parsed.hash?.as_bytes().to_vec());
        (is_bounded && is_known && hash.len() == HASH_BYTES).then_some(Kept { params, salt, hash })
    }

    fn print(params: &Params, salt: &[u8], hash: &[u8]) -> Option<String> {
        let kept = PasswordHash {
            algorithm: ARGON2ID_IDENT,
            version: Some(Version::V0x13.into()),
            params: ParamsString::try_from(params).ok()?,
            salt: Some(Salt::new(salt).ok()?),
            hash: Some(Output::new(hash).ok()?),
        };
        Some(kept.to_string())
    }
}

fn derive(params: &Params, salt: &[u8], digest: &[u8; 32]) -> Option<[u8; HASH_BYTES]> {
    let mut hash = [0; HASH_BYTES];
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, params.clone());
    argon2.hash_password_into(digest, salt, &mut hash).ok()?;
    Some(hash)
}

/// Something that no password fits, and that takes as long to find out: for names of users that do not exist.
pub(crate) fn that_nothing_fits() -> Result<String, &'static str> {
    let (mut salt, mut hash) = ([0; SALT_BYTES], [0; HASH_BYTES]);
    fill_with_chance(&mut salt)?;
    fill_with_chance(&mut hash)?;
    let params = Params::new(MEMORY_KIB, PASSES, 1, None).map_err(|_| FAILED)?;
    Kept::print(&params, &salt, &hash).ok_or(FAILED)
}

/// Computes Argon2. All passwords of a user have one salt if they are given here, so that one computation compares them
/// all.
#[derive(Default)]
pub(crate) struct Argon;

fn digest_of(secret: &Secret) -> [u8; 32] {
    match secret {
        Secret::Clear(password) => sha256(password),
        Secret::Sha256(digest) => *digest,
    }
}

impl Argon {
    /// Which of `kept` was kept of the password with this digest.
    pub(crate) fn find_digest(&self, digest: &[u8; 32], kept: &[String]) -> Option<usize> {
        let mut computed: Option<(Params, Vec<u8>, [u8; HASH_BYTES])> = None;
        let mut found = None;
        for (place, text) in kept.iter().enumerate() {
            let Some(Kept { params, salt, hash }) = Kept::parse(text) else { continue };
            let known = computed.take().filter(|(of, with, _)| *of == params && *with == salt);
            let derived = match known {
                Some((_, _, derived)) => derived,
                None => derive(&params, &salt, digest)?,
            };
            if bool::from(derived.as_slice().ct_eq(&hash)) {
                found = Some(place);
            }
            computed = Some((params, salt, derived));
        }
        found
    }
}

impl Keeper for Argon {
    fn keep(&mut self, secret: &Secret, others: &[String]) -> Result<String, &'static str> {
        let digest = digest_of(secret);
        let (params, salt) = match others.last().and_then(|other| Kept::parse(other)) {
            Some(other) => (other.params, other.salt),
            None => {
                let mut salt = [0; SALT_BYTES];
                fill_with_chance(&mut salt)?;
                let params = Params::new(MEMORY_KIB, PASSES, 1, Some(HASH_BYTES)).map_err(|_| FAILED)?;
                (params, salt.to_vec())
            }
        };
        let hash = derive(&params, &salt, &digest).ok_or(FAILED)?;
        Kept::print(&params, &salt, &hash).ok_or(FAILED)
    }

    fn find(&mut self, secret: &Secret, kept: &[String]) -> Option<usize> {
        if kept.is_empty() { None } else { self.find_digest(&digest_of(secret), kept) }
    }

    fn accepts(&mut self, kept: &str) -> bool {
        Kept::parse(kept).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clear(password: &str) -> Secret {
        Secret::Clear(password.as_bytes().to_vec())
    }

    #[test]
    fn a_password_is_found_again() {
        let one = Argon.keep(&clear("one"), &[]).unwrap();
        let two = Argon.keep(&clear("two"), std::slice::from_ref(&one)).unwrap();
        assert!(one.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{one}");
        // The same salt.
        assert_eq!(one.split('$').nth(4), two.split('$').nth(4));
        let kept = [one.clone(), two, that_nothing_fits().unwrap()];
        assert_eq!(Argon.find(&clear("one"), &kept), Some(0));
        assert_eq!(Argon.find(&Secret::Sha256(sha256(b"two")), &kept), Some(1));
        assert_eq!(Argon.find(&clear("three"), &kept), None);
        assert_eq!(Argon.find(&clear("one"), &[]), None);
        // A salt of its own for each user.
        assert_ne!(Argon.keep(&clear("one"), &[]).unwrap(), one);
    }

    #[test]
    fn what_asks_for_too_much_is_refused() {
        let hash = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY";
        let salt = "MDEyMzQ1Njc4OWFiY2RlZg";
        assert!(Argon.accepts(&format!("$argon2id$v=19$m=65536,t=8,p=4${salt}${hash}")));
        for kept in [
            String::new(),
            "$argon2id$".to_owned(),
            format!("$argon2id$v=19$m=65537,t=1,p=1${salt}${hash}"),
            format!("$argon2id$v=19$m=4294967295,t=1,p=1${salt}${hash}"),
            format!("$argon2id$v=19$m=64,t=9,p=1${salt}${hash}"),
            format!("$argon2id$v=19$m=64,t=4294967295,p=1${salt}${hash}"),
            format!("$argon2id$v=19$m=64000,t=1,p=5${salt}${hash}"),
            format!("$argon2i$v=19$m=64,t=1,p=1${salt}${hash}"),
            format!("$argon2id$v=16$m=64,t=1,p=1${salt}${hash}"),
            format!("$argon2id$v=19$m=64,t=1,p=1${salt}"),
            format!("$argon2id$v=19$m=64,t=1,p=1${salt}$MDEyMzQ1Njc4OWFi"),
            format!("$argon2id$v=19$m=64,t=1,p=1$MDEy${hash}"),
        ] {
            assert!(!Argon.accepts(&kept), "{kept}");
        }
    }
}
