//! Hashes of passwords: argon2id, which takes some 30 ms and 19 MiB on purpose.

use std::collections::HashMap;
use std::sync::Mutex;

use argon2::password_hash::phc::PasswordHash;
use argon2::{Algorithm, Argon2, Block, Params, PasswordHasher as _, Version};
use lockspan_wire::Secret;
use subtle::ConstantTimeEq as _;
use zeroize::Zeroize as _;

use super::quick::Cost;

/// The longest password.
pub(super) const PASSWORD: usize = 1024;

/// Bytes of a salt, as RFC 9106 recommends.
pub(super) const SALT: usize = 16;

/// How much of the stack a hash may use, in words of 8 bytes.
const STACK: usize = 4096;

/// A hash of each price that the file of users has. A wrong password is compared with one of each,
/// and so is that of a name that nobody has: all take the same time.
#[derive(Debug)]
pub(super) struct Decoys {
    all: HashMap<Cost, PasswordHash>,
    memory: Memory,
}

/// The memory of hashes, used again and again: as many buffers as were in use at a time. Threads of
/// a pool that each allocate 19 MiB would keep a multiple of that.
#[derive(Default)]
struct Memory(Mutex<Vec<Vec<Block>>>);

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Memory")
    }
}

impl Memory {
    /// Does something with so many blocks; nothing if there is no memory for them.
    fn with<T>(&self, blocks: usize, work: impl FnOnce(&mut [Block]) -> T) -> Option<T> {
        let mut buffer = crate::lock(&self.0).pop().unwrap_or_default();
        if buffer.len() < blocks {
            if buffer.try_reserve_exact(blocks - buffer.len()).is_err() {
                tracing::error!("there is not enough memory to check a password");
                return None;
            }
            buffer.resize(blocks, Block::default());
        }
        let result = work(&mut buffer[..blocks]);
        crate::lock(&self.0).push(buffer);
        Some(result)
    }
}

impl Decoys {
    pub(super) fn of<'a>(all: impl Iterator<Item = &'a PasswordHash>) -> Self {
        let all = all.map(|hash| (Cost::of(hash), hash.clone())).collect();
        Self { all, memory: Memory::default() }
    }

    /// Whether this is the password of `hash`, which is `None` for a name that nobody has.
    pub(super) fn is_right(&self, password: &Secret, hash: Option<&PasswordHash>) -> bool {
        then_wipe_stack(|| {
            if hash.is_some_and(|hash| self.verify(password, hash)) {
                return true;
            }
            let own = hash.map(Cost::of);
            for (_, decoy) in self.all.iter().filter(|(cost, _)| Some(**cost) != own) {
                std::hint::black_box(self.verify(password, decoy));
            }
            false
        })
    }

    #[cfg(test)]
    pub(super) fn costs(&self) -> impl Iterator<Item = &Cost> {
        self.all.keys()
    }

    fn verify(&self, password: &Secret, hash: &PasswordHash) -> bool {
        let given = password.reveal();
        // One that is too long costs as much as others.
        let short = if given.len() <= PASSWORD { given } else { &[] };
        self.is_same(short, hash).unwrap_or(false) && given.len() <= PASSWORD
    }

    /// Whether the hash is of this password; nothing if it can't be computed.
    fn is_same(&self, password: &[u8], hash: &PasswordHash) -> Option<bool> {
        let algorithm = Algorithm::try_from(hash.algorithm.as_str()).ok()?;
        let version =
            hash.version.map_or_else(|| Ok(Version::default()), Version::try_from).ok()?;
        let argon = Argon2::new(algorithm, version, Params::try_from(hash).ok()?);
        let salt = hash.salt.as_ref()?;
        let expected = hash.hash.as_ref()?;
        let mut output = [0; 64];
        let output = output.get_mut(..expected.len())?;
        let computed = self.memory.with(argon.params().block_count(), |memory| {
            argon.hash_password_into_with_memory(password, salt, output, memory)
        })?;
        // It takes the same time wherever the first difference is.
        Some(computed.is_ok() && bool::from(output.ct_eq(expected.as_bytes())))
    }
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
        return Err(format!("a password must have 1 to {PASSWORD} bytes, and this one has {said}"));
    }
    let salt: [u8; SALT] = super::drawn();
    let hash = then_wipe_stack(|| Argon2::default().hash_password_with_salt(password, &salt));
    hash.map(|hash| hash.to_string()).map_err(|why| why.to_string())
}
