//! Who is inside the lock, for those who look from outside.

/// Who was inside at one moment; since then others may have come and gone.
///
/// A thread that has a hold sees at least its own, so a hold that is not here is nobody's. What
/// the counted threads do follows from the phase; the [module](super) has the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holders {
    /// What the threads inside may do.
    pub phase: Phase,
    /// How many read; while [`Phase::Claiming`] or [`Phase::Changing`], how many wait to read.
    pub readers: u32,
    /// How many have joined; they claim while [`Phase::Claiming`], and else wait for that.
    pub joiners: u32,
    /// How many change; while [`Phase::Joining`] or [`Phase::Claiming`], how many wait to change.
    pub atomics: u32,
}

#[cfg(all(test, not(lockspan_shuttle)))]
impl Holders {
    /// I2 and I3 of `word.rs`: whether the phase is one that can be with these counts.
    pub(super) fn phase_follows_from_counts(&self) -> bool {
        let Self { phase, readers, joiners, atomics } = *self;
        match phase {
            Phase::Open => joiners + atomics == 0,
            Phase::Joining => readers > 0 && joiners + atomics > 0,
            Phase::Claiming => joiners > 0,
            Phase::Changing => atomics > 0,
            Phase::Alone => readers + joiners + atomics == 0,
        }
    }
}

/// What the threads inside may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Readers read, or nobody is there.
    Open,
    /// Readers read, and no more come in: somebody has joined or waits to change.
    Joining,
    /// Those who have joined mark what they will change.
    Claiming,
    /// Those who have claimed change it, beside others that came for that from outside.
    Changing,
    /// The exclusive joiner is alone.
    Alone,
}
