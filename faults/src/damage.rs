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
    /// Its end was cut off.
    pub is_cut: bool,
}

/// Changes one bit of the data file in this folder, or, seldom, cuts off its end.
pub fn damage(data: &Path, rng: &mut Rng) -> io::Result<Undamaged> {
    let path = data.join("lockspan.data");
    let bytes = std::fs::read(&path)?;
    let mut damaged = bytes.clone();
    // A file that is cut in its first half is refused, or has an unknown past: then the server
    // serves nobody for as long as the longest lease, and all else stands still.
    let is_cut = rng.u32(..8) == 0;
    if is_cut {
        damaged.truncate(rng.usize(..bytes.len()));
    } else {
        damaged[rng.usize(..bytes.len())] ^= 1 << rng.u32(..8);
    }
    std::fs::write(&path, damaged)?;
    Ok(Undamaged { path, bytes, is_cut })
}

impl Undamaged {
    /// Puts back what was there.
    pub fn restore(&self) -> io::Result<()> {
        std::fs::write(&self.path, &self.bytes)
    }
}
