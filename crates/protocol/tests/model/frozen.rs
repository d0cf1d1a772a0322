//! The machines as parts of a state: shared, never changed, known by a fingerprint of all they
//! hold.
//!
//! What a machine does with an input is worked out once for each of its states, however many states
//! of the world it is in: that is what makes the search quick.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use lockspan_protocol::{LockCache, LockServer, Tick, cache, server};

/// A state machine of the protocol.
pub(crate) trait Machine: Clone + fmt::Debug {
    type Input: fmt::Debug;
    type Output: Clone + fmt::Debug;
    type Refusal: Clone + fmt::Debug;

    fn step(
        &mut self,
        now: Tick,
        input: Self::Input,
        out: &mut Vec<Self::Output>,
    ) -> Result<(), Self::Refusal>;

    fn check(&self);
}

impl Machine for LockServer {
    type Input = server::Input;
    type Output = server::Output;
    type Refusal = lockspan_protocol::Refusal;

    fn step(
        &mut self,
        now: Tick,
        input: Self::Input,
        out: &mut Vec<Self::Output>,
    ) -> Result<(), Self::Refusal> {
        self.handle(now, input, out)
    }

    fn check(&self) {
        Self::check(self);
    }
}

impl Machine for LockCache {
    type Input = cache::Input;
    type Output = cache::Output;
    type Refusal = cache::WantRefusal;

    fn step(
        &mut self,
        now: Tick,
        input: Self::Input,
        out: &mut Vec<Self::Output>,
    ) -> Result<(), Self::Refusal> {
        self.handle(now, input, out)
    }

    fn check(&self) {
        Self::check(self);
    }
}

/// A machine that is not changed any more. Equal means: with the same text.
#[derive(Clone, Debug)]
pub(crate) struct Frozen<M> {
    machine: Arc<M>,
    print: u128,
}

impl<M: Machine> Frozen<M> {
    pub(crate) fn new(machine: M) -> Self {
        // The long form: the short one leaves out what is in a slab.
        let print = print_of(format_args!("{machine:#?}"));
        Self { machine: Arc::new(machine), print }
    }
}

/// The fingerprint of what has no hash of its own.
pub(crate) fn print(what: &impl fmt::Debug) -> u128 {
    print_of(format_args!("{what:?}"))
}

fn print_of(text: fmt::Arguments<'_>) -> u128 {
    let mut printer = Printer([DefaultHasher::new(), DefaultHasher::new()]);
    printer.0[1].write_u8(1);
    printer.write_fmt(text).expect("hashing does not fail");
    let [high, low] = printer.0.map(|hasher| u128::from(hasher.finish()));
    high << 64 | low
}

impl<M> std::ops::Deref for Frozen<M> {
    type Target = M;

    fn deref(&self) -> &M {
        &self.machine
    }
}

impl<M> PartialEq for Frozen<M> {
    fn eq(&self, other: &Self) -> bool {
        self.print == other.print
    }
}

impl<M> Hash for Frozen<M> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.print.hash(state);
    }
}

/// Hashes what is written, and does not keep it.
struct Printer([DefaultHasher; 2]);

impl fmt::Write for Printer {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.iter_mut().for_each(|hasher| hasher.write(text.as_bytes()));
        Ok(())
    }
}

/// What one step came to.
#[derive(Clone, Debug)]
pub(crate) struct Done<M: Machine> {
    pub(crate) next: Frozen<M>,
    pub(crate) out: Vec<M::Output>,
    pub(crate) result: Result<(), M::Refusal>,
    /// The machine panicked, or an invariant of its own is broken.
    pub(crate) panic: Option<String>,
}

/// A machine, a time, and the words for an input.
type Key = (u128, Tick, String);

/// All steps that were taken so far.
#[derive(Debug)]
pub(crate) struct Memo<M: Machine>(Mutex<BTreeMap<Key, Arc<Done<M>>>>);

impl<M: Machine> Memo<M> {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }

    pub(crate) fn step(&self, from: &Frozen<M>, now: Tick, input: M::Input) -> Arc<Done<M>> {
        let key = (from.print, now, format!("{input:?}"));
        if let Some(done) = self.0.lock().unwrap().get(&key) {
            return Arc::clone(done);
        }
        let mut machine = M::clone(from);
        let mut out = Vec::new();
        let tried = catch_unwind(AssertUnwindSafe(|| {
            let result = machine.step(now, input, &mut out);
            machine.check();
            result
        }));
        let (result, panic) = match tried {
            Ok(result) => (result, None),
            Err(panic) => {
                let text = panic.downcast_ref::<String>().cloned();
                let text =
                    text.or_else(|| panic.downcast_ref().map(|&text: &&str| text.to_owned()));
                (Ok(()), Some(text.unwrap_or_else(|| "no words".to_owned())))
            }
        };
        let done = Arc::new(Done { next: Frozen::new(machine), out, result, panic });
        self.0.lock().unwrap().insert(key, Arc::clone(&done));
        done
    }
}
