//! Damage to the data file of a server that is not running.

use std::io;
use std::path::{Path, PathBuf};

use fastrand::Rng;

/// The exit code of `faults serve` if it refuses a data file, as that of `lockspan serve`.
pub const REFUSED: u8 = 78;

/// The file before the damage.
#[derive(Debug)]
pub struct Undamaged {
    path: PathBuf,
    bytes: Vec<u8>,
}

/// Damages the data file in this folder.
pub fn damage(data: &Path, how: impl FnOnce(&mut Vec<u8>)) -> io::Result<Undamaged> {
    let path = data.join("lockspan.data");
    let bytes = std::fs::read(&path)?;
    let mut damaged = bytes.clone();
    how(&mut damaged);
    std::fs::write(&path, damaged)?;
    Ok(Undamaged { path, bytes })
}

/// Changes one bit.
pub fn flip(bytes: &mut [u8], rng: &mut Rng) {
    let at = rng.usize(..bytes.len());
    bytes[at] ^= 1 << rng.u32(..8);
}

/// Cuts off the end. A file that is cut in its first half is refused, or has an unknown past: then
/// the server grants nothing until the longest lease is over.
pub fn cut(bytes: &mut Vec<u8>, rng: &mut Rng) {
    bytes.truncate(rng.usize(..bytes.len()));
}

impl Undamaged {
    /// Puts back what was there.
    pub fn restore(&self) -> io::Result<()> {
        std::fs::write(&self.path, &self.bytes)
    }
}
