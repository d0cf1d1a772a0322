//! Taking a lock from its owner by a signal: the backend `signal`.
//!
//! # The word
//!
//! | word | who may store |
//! |------|---------------|
//! | 0 | nobody |
//! | n | n's thread, in a section |
//! | n, marked | n's thread, if it compared the word before and was not interrupted since |
//!
//! # Transitions, beside T1, T2 and T6 of `lock.rs`
//!
//! | id | word | who | then |
//! |----|------|-----|------|
//! | S1 | n → n, marked | any thief | S2 |
//! | S2 | n, marked → m | any thief that has done what stands below since it saw the mark | – |
//!
//! Before S2: a barrier in all threads; a look at the flag of n's thread; if it is up for this
//! lock, a signal to that thread and a second barrier; and where the thread may be holding the
//! signal back, a wait until the flag is down. `backend/native/signal/mod.rs` has the reasons.
//!
//! - **I6** A marked word never loses its mark but by S2, T1 or T2. So a section that compares it
//!   fails, and the owner's release as well.
//! - **I7** Who has done S2 has seen to n's end itself, whatever others did. A thief of that thief
//!   finds a name that stands alone: a chain of thieves leaves nobody behind.

use super::lock::{Lock, Steal, is_gone, is_released, ptr_eq};
use super::record::{MARK, Name, Record};
use super::{Owner, Refused};
use crate::backend::barrier;
use crate::backend::signal::{Sent, interrupt, is_running};
use crate::spin::Patience;
use crate::sync::machine::Ordering;

#[cfg(all(test, not(any(miri, lockspan_loom, lockspan_shuttle))))]
mod tests;

impl<T> Lock<T> {
    /// T1, T2, S1 and S2. `Steal::Local` leaves the lock to an owner that seems to run on another
    /// processor.
    ///
    /// An owner that is gone from the word is over: S2 comes after its end, and so does T6.
    pub(super) fn take_by_signals(
        &self,
        mine: &'static Record,
        steal: Steal,
        only: Option<Owner>,
    ) -> Result<Option<Name>, Refused> {
        let name = mine.name(0);
        loop {
            let (seen, owner) = self.look();
            if is_gone(only, seen, owner) {
                return Ok(None);
            }
            let owner = Name::of(seen).filter(|owner| !is_released(*owner));
            if owner.is_some() && steal == Steal::Never {
                return Err(Refused::Held);
            }
            let Some(victim) = owner.filter(|owner| !ptr_eq(owner.record(), mine)) else {
                // Nobody can be in a section under it: they said so, or are this thread.
                if self.exchange(seen, name.word()) {
                    return Ok(Some(name));
                }
                continue;
            };
            if steal == Steal::Local && is_running(victim.record().thread.load(Ordering::Acquire)) {
                return Err(Refused::Held);
            }
            let marked = victim.word() | MARK;
            if seen != marked && !self.exchange(seen, marked) {
                continue;
            }
            self.see_to_the_end_of(victim);
            if self.exchange(marked, name.word()) {
                return Ok(Some(name));
            }
        }
    }

    /// After this no store happens under a name that is marked in the word.
    fn see_to_the_end_of(&self, victim: Name) {
        let record = victim.record();
        let is_at_work = || record.section.load(Ordering::Acquire) == self.address();
        barrier();
        if !is_at_work() {
            return;
        }
        match interrupt(record.thread.load(Ordering::Acquire)) {
            Sent::Arrives => {}
            Sent::MayBeHeld => {
                let mut patience = Patience::new();
                let is_sure = || record.comes_again.load(Ordering::Acquire) != 0;
                while is_at_work() && !is_released(victim) && !is_sure() {
                    patience.wait();
                }
            }
        }
    }
}
