//! State machines: the bytes choose the inputs.

use crate::harness::Fuzz;
use crate::rng;

/// The most inputs of one run: enough for a deep state, and few enough to be run often.
const STEPS: usize = 400;

pub(crate) fn run<F: Fuzz>(bytes: &[u8]) {
    rng::set(bytes);
    let mut fuzz = F::new(0);
    for _ in 0..STEPS {
        if rng::is_over() {
            break;
        }
        let (now, input) = fuzz.draw();
        fuzz.step(now, input);
    }
    fuzz.finish();
}
