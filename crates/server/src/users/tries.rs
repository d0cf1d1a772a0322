//! Which failed logins are answered at once.
//!
//! From a place there may be [`FREE_OF_PLACE`] logins that have failed within [`MEMORY`] of each
//! other or are not decided yet, from a network [`FREE_OF_NETWORK`]: a login within that is *free*.
//! Its password is compared at once, and it hears at once that it is wrong. All others wait in
//! `queue`.
//!
//! What is counted depends on the place alone, never on the name: whether a login is free tells
//! nothing about the user. To be free is a comfort for people who mistype; nobody needs it to log
//! in. So when the table is full of places, further ones are not free, and to fill it wins nothing.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::place::Place;

/// Failed logins of one place that are answered at once.
pub(super) const FREE_OF_PLACE: u32 = 4;

/// Failed logins of one network that are answered at once.
pub(super) const FREE_OF_NETWORK: u32 = 16;

/// So long after the last failure all failures of a place are forgotten.
pub(super) const MEMORY: Duration = Duration::from_secs(600);

/// So many places, and so many networks, are remembered.
const MAX: usize = 10_000;

/// A full table is searched for what can be forgotten only so often.
const SWEEP: Duration = Duration::from_secs(1);

/// The logins that have failed or are not decided yet, by places and by networks.
#[derive(Debug, Default)]
pub(super) struct Tries {
    places: Table,
    networks: Table,
}

/// A login that is not decided yet.
#[derive(Debug)]
pub(super) struct Pending {
    place: Place,
    /// In which of the tables it is counted.
    in_places: bool,
    in_networks: bool,
}

impl Tries {
    /// One more login from there, and whether it is free.
    pub(super) fn begin(&mut self, now: Instant, place: Place) -> (Pending, bool) {
        let of_place = self.places.begin(now, place);
        let of_network = self.networks.begin(now, place.wider());
        let is_free = of_place.is_some_and(|before| before < FREE_OF_PLACE)
            && of_network.is_some_and(|before| before < FREE_OF_NETWORK);
        let (in_places, in_networks) = (of_place.is_some(), of_network.is_some());
        (Pending { place, in_places, in_networks }, is_free)
    }

    /// It is decided. One that was given up counts as failed.
    pub(super) fn end(&mut self, now: Instant, pending: &Pending, has_failed: bool) {
        if pending.in_places {
            self.places.end(now, pending.place, has_failed);
        }
        if pending.in_networks {
            self.networks.end(now, pending.place.wider(), has_failed);
        }
    }
}

#[derive(Debug, Default)]
struct Table {
    all: HashMap<Place, Past>,
    swept: Option<Instant>,
}

#[derive(Debug)]
struct Past {
    pending: u32,
    failed: u32,
    /// When the last one failed.
    last: Instant,
}

impl Past {
    fn forget_old(&mut self, now: Instant) {
        if now.saturating_duration_since(self.last) >= MEMORY {
            self.failed = 0;
        }
    }
}

impl Table {
    /// Counts one, and says how many there were before; nothing if there is no room.
    fn begin(&mut self, now: Instant, place: Place) -> Option<u32> {
        if self.all.len() >= MAX && !self.all.contains_key(&place) {
            self.sweep(now);
            if self.all.len() >= MAX {
                return None;
            }
        }
        let new = || Past { pending: 0, failed: 0, last: now };
        let past = self.all.entry(place).or_insert_with(new);
        past.forget_old(now);
        past.pending += 1;
        Some((past.pending - 1).saturating_add(past.failed))
    }

    fn end(&mut self, now: Instant, place: Place, has_failed: bool) {
        let Some(past) = self.all.get_mut(&place) else { return };
        past.pending -= 1;
        if has_failed {
            past.failed = past.failed.saturating_add(1);
            past.last = now;
        } else if past.pending == 0 && past.failed == 0 {
            self.all.remove(&place);
        }
    }

    fn sweep(&mut self, now: Instant) {
        if self.swept.is_some_and(|at| now.saturating_duration_since(at) < SWEEP) {
            return;
        }
        self.swept = Some(now);
        self.all.retain(|_, past| {
            past.forget_old(now);
            past.pending > 0 || past.failed > 0
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(last: u8) -> Place {
        Place::Ip([10, 0, 0, last].into())
    }

    fn fail(tries: &mut Tries, now: Instant, place: Place) -> bool {
        let (pending, is_free) = tries.begin(now, place);
        tries.end(now, &pending, true);
        is_free
    }

    #[test]
    fn a_place_and_a_network_have_free_tries_for_a_time() {
        let (mut tries, start) = (Tries::default(), Instant::now());
        for number in 0..6 {
            assert_eq!(fail(&mut tries, start, at(1)), number < 4);
        }
        // Another place has its own, until those of the network are used up.
        let free = (2..40).filter(|&last| fail(&mut tries, start, at(last))).count();
        assert_eq!(free, 16 - 6);
        assert!(fail(&mut tries, start, Place::Ip([10, 0, 1, 1].into())), "another network");
        let later = start + MEMORY;
        assert!(!tries.begin(later - Duration::from_nanos(1), at(1)).1);
        assert!(fail(&mut tries, later + Duration::from_secs(1), at(1)), "it is forgotten");
    }

    /// Those that are on their way count too: many at once are not all free.
    #[test]
    fn what_is_not_decided_yet_counts_and_what_succeeds_does_not() {
        let (mut tries, now) = (Tries::default(), Instant::now());
        let all: Vec<_> = (0..10).map(|_| tries.begin(now, at(1))).collect();
        assert_eq!(all.iter().filter(|(_, is_free)| *is_free).count(), 4);
        for (pending, _) in &all {
            tries.end(now, pending, false);
        }
        assert!(tries.places.all.is_empty() && tries.networks.all.is_empty());
        for _ in 0..100 {
            let (pending, is_free) = tries.begin(now, at(1));
            assert!(is_free);
            tries.end(now, &pending, false);
        }
    }

    #[test]
    fn service_f97_a_full_table_gives_nobody_more_free_tries() {
        let (mut tries, now) = (Tries::default(), Instant::now());
        for _ in 0..4 {
            fail(&mut tries, now, at(1));
        }
        for number in 0..20_000_u32 {
            fail(&mut tries, now, Place::Unix(Some(number)));
        }
        assert_eq!(tries.places.all.len(), MAX);
        assert!(!fail(&mut tries, now, at(1)), "what was there before is not forgotten for it");
        assert!(!fail(&mut tries, now, Place::Unix(Some(30_000))));
        let later = now + MEMORY + SWEEP;
        assert!(fail(&mut tries, later, Place::Unix(Some(30_000))), "there is room again");
        assert_eq!(tries.places.all.len(), 1);
    }
}
