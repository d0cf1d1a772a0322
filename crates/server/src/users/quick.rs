//! What a hash costs, and how a password is known again without paying that twice.

use std::fmt;

use argon2::password_hash::phc::PasswordHash;
use blake2::Blake2bMac512;
use blake2::digest::{KeyInit as _, Mac as _};
use subtle::ConstantTimeEq as _;

use super::hash::then_wipe_stack;

/// The price of a hash: KiB of memory, passes, lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Cost {
    memory: u32,
    passes: u32,
    lanes: u32,
}

impl Cost {
    /// A login that costs more would take the server's memory or time from everybody.
    pub(super) const MOST: Self = Self { memory: 256 << 10, passes: 10, lanes: 4 };

    pub(super) fn of(hash: &PasswordHash) -> Self {
        // What is not said there is what the algorithm has without it.
        let params = argon2::Params::try_from(hash).unwrap_or_default();
        Self { memory: params.m_cost(), passes: params.t_cost(), lanes: params.p_cost() }
    }

    pub(super) fn is_bearable(self) -> bool {
        let Self { memory, passes, lanes } = Self::MOST;
        self.memory <= memory && self.passes <= passes && self.lanes <= lanes
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "m={},t={},p={}", self.memory, self.passes, self.lanes)
    }
}

/// A key of this process, never told or stored: without it a tag says nothing.
pub(super) struct Key([u8; 64]);

impl Key {
    pub(super) fn draw() -> Self {
        Self(super::drawn())
    }

    /// The tag of a user's password.
    pub(super) fn tag(&self, name: &str, password: &[u8]) -> Tag {
        then_wipe_stack(|| {
            let mut mac = Blake2bMac512::new(&self.0.into());
            mac.update(&name.len().to_be_bytes());
            mac.update(name.as_bytes());
            mac.update(password);
            Tag(mac.finalize().into_bytes().into())
        })
    }
}

/// What stands for a password. Two are compared in the same time wherever they differ.
#[derive(Clone)]
pub(super) struct Tag([u8; 64]);

impl PartialEq for Tag {
    fn eq(&self, other: &Self) -> bool {
        self.0.ct_eq(&other.0).into()
    }
}

impl fmt::Debug for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tag")
    }
}
