//! The promise of this crate, in every interleaving: change then ring never loses a sleeper.

use crate::Spot;
use crate::sync::{Ordering, thread};

#[test]
fn loom_change_then_ring_wakes_the_sleeper() {
    loom::model(|| {
        let spot = Spot::new(0);
        let address = std::ptr::from_ref(&spot).expose_provenance();
        let waker = thread::spawn(move || {
            // SAFETY: the sleeper joins this thread before its spot goes.
            let spot = unsafe { &*std::ptr::with_exposed_provenance::<Spot>(address) };
            let alarm = spot.alarm();
            spot.word().store(1, Ordering::Release);
            alarm.ring();
        });
        spot.sleep(0, None);
        assert_eq!(spot.word().load(Ordering::Acquire), 1);
        waker.join().unwrap();
    });
}
