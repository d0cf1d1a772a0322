//! Hashes of passwords: argon2id, which takes some 30 ms and 19 MiB on purpose.

use std::collections::HashMap;

use argon2::password_hash::rand_core::{self, CryptoRng, RngCore};
use argon2::password_hash::{PasswordHashString, SaltString};
use argon2::{Argon2, PasswordHasher as _, PasswordVerifier as _};
use lockspan_wire::Secret;
use zeroize::Zeroize as _;

use super::quick::Cost;

/// The longest password.
pub(super) const PASSWORD: usize = 1024;

/// How much of the stack a hash may use, in words of 8 bytes.
const STACK: usize = 4096;

/// A hash of each price that the file of users has. A wrong password is compared with one of each,
/// and so is that of a name that nobody has: all take the same time.
#[derive(Debug)]
pub(super) struct Decoys(HashMap<Cost, PasswordHashString>);

impl Decoys {
    pub(super) fn of<'a>(all: impl Iterator<Item = &'a PasswordHashString>) -> Self {
        Self(all.map(|hash| (Cost::of(hash), hash.clone())).collect())
    }

    /// Whether this is the password of `hash`, which is `None` for a name that nobody has.
    pub(super) fn is_right(&self, password: &Secret, hash: Option<&PasswordHashString>) -> bool {
        then_wipe_stack(|| {
            if hash.is_some_and(|hash| verify(password, hash)) {
                return true;
            }
            let own = hash.map(Cost::of);
            for (_, decoy) in self.0.iter().filter(|(cost, _)| Some(**cost) != own) {
                std::hint::black_box(verify(password, decoy));
            }
            false
        })
    }

    #[cfg(test)]
    pub(super) fn costs(&self) -> impl Iterator<Item = &Cost> {
        self.0.keys()
    }
}

fn verify(password: &Secret, hash: &PasswordHashString) -> bool {
    let given = password.reveal();
    // One that is too long costs as much as others.
    let short = if given.len() <= PASSWORD { given } else { &[] };
    // Its comparison takes the same time wherever the first difference is.
    let is_same = Argon2::default().verify_password(short, &hash.password_hash()).is_ok();
    is_same && given.len() <= PASSWORD
}

/// Does something with a password, and overwrites the stack that this has used: hash functions keep
/// what they were given in buffers there.
pub(super) fn then_wipe_stack<T>(work: impl FnOnce() -> T) -> T {
    #[inline(never)]
    fn apart<T>(work: impl FnOnce() -> T) -> T {
        work()
    }
    #[inline(never)]
    fn wipe() {
        let mut stack = [0_u64; STACK];
        stack.zeroize();
        std::hint::black_box(&stack);
    }
    let result = apart(work);
    wipe();
    result
}

/// The hash of a password, as a file of users has it: argon2id with a salt of its own.
pub fn hash_password(password: &[u8]) -> Result<String, String> {
    if password.is_empty() || password.len() > PASSWORD {
        let said = password.len();
        return Err(format!("a password has from 1 to {PASSWORD} bytes, and this has {said}"));
    }
    let salt = SaltString::generate(&mut System);
    let hash = then_wipe_stack(|| Argon2::default().hash_password(password, &salt));
    hash.map(|hash| hash.to_string()).map_err(|why| why.to_string())
}

/// The random numbers of the system.
pub(super) struct System;

impl RngCore for System {
    fn next_u32(&mut self) -> u32 {
        rand_core::impls::next_u32_via_fill(self)
    }

    fn next_u64(&mut self) -> u64 {
        rand_core::impls::next_u64_via_fill(self)
    }

    fn fill_bytes(&mut self, dest: &mut [u8]) {
        getrandom::fill(dest).expect("the system has random numbers");
    }

    fn try_fill_bytes(&mut self, dest: &mut [u8]) -> Result<(), rand_core::Error> {
        self.fill_bytes(dest);
        Ok(())
    }
}

impl CryptoRng for System {}
