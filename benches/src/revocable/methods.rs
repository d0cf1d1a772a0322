//! The ways to count by one, and to keep something and get it again, for one thread.

use std::cell::{Cell, RefCell};
use std::hint::{black_box, spin_loop};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_queue::ArrayQueue;
use lockspan::thread::biased;
use lockspan::thread::percpu::{Counter, Stack};
use lockspan::thread::revocable::{Lock, PerCpu, Steal, Ticket, Word};
use parking_lot_013 as parking_lot;

use crate::padded::Padded;

/// One way; `run` does it so many times.
pub(crate) struct Method<'a> {
    pub(crate) name: &'static str,
    pub(crate) run: Box<dyn FnMut(u64) + 'a>,
}

pub(crate) const VANILLA: &str = "vanilla: load, add, store";
pub(crate) const LOCK_ADD: &str = "`lock add`";
pub(crate) const STD_MUTEX: &str = "std::sync::Mutex";
pub(crate) const OWNED_STORE: &str = "**owned store** (Rlock, 1 thd)";
pub(crate) const OWNED_ADD: &str = "**owned add**";
pub(crate) const OWNED_STORE_TO: &str = "**owned store to any address**";
pub(crate) const AGAIN: &str = "acquire again, store, keep";
pub(crate) const RENEW: &str = "renew, then store";
pub(crate) const LIMITED: &str = "owned store, anew after each 1000";
pub(crate) const PER_CPU: &str = "**revocable::PerCpu**: add";
pub(crate) const BIASED: &str = "**biased::Mutex**";
pub(crate) const COUNTER: &str = "**percpu::Counter**";
pub(crate) const STACK: &str = "**percpu::Stack**: push, pop";
pub(crate) const MUTEX_VEC: &str = "std Mutex<Vec>: push, pop";

/// Room for the items of the stacks and queues.
const ROOM: usize = 64;

/// What the ways work on, each on lines of its own.
pub(crate) struct Stage {
    words: [Padded<AtomicU64>; 6],
    flags: [Padded<AtomicU64>; 2],
    std: Padded<Mutex<u64>>,
    parking_lot: Padded<parking_lot::Mutex<u64>>,
    locks: [Padded<Lock<Word>>; 7],
    per_cpu: PerCpu<Word>,
    counter: Counter,
    biased: Padded<biased::Mutex<u64>>,
    std_vec: Padded<Mutex<Vec<u64>>>,
    parking_lot_vec: Padded<parking_lot::Mutex<Vec<u64>>>,
    queue: ArrayQueue<u64>,
    stack: Stack<u64>,
}

impl Default for Stage {
    fn default() -> Self {
        Self {
            words: Default::default(),
            flags: Default::default(),
            std: Padded::default(),
            parking_lot: Padded::default(),
            locks: Default::default(),
            per_cpu: PerCpu::default(),
            counter: Counter::new(),
            biased: Padded::default(),
            std_vec: Padded::default(),
            parking_lot_vec: Padded::default(),
            queue: ArrayQueue::new(ROOM),
            stack: Stack::with_capacity(ROOM),
        }
    }
}

thread_local! {
    static OWN: Cell<u64> = const { Cell::new(0) };
    static OWN_VEC: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// A load and a store that the compiler leaves two instructions.
#[inline(always)]
pub(crate) fn plain_load(word: &AtomicU64) -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        let value: u64;
        // SAFETY:
        // - memory: reads the word, which is borrowed;
        // - ordering: a plain load;
        // - registers: one output, no flags;
        // - stack: not used;
        // - control: falls through.
        unsafe {
            core::arch::asm!("mov {}, qword ptr [{}]", out(reg) value, in(reg) word.as_ptr(),
                options(nostack, preserves_flags, readonly));
        }
        value
    }
    #[cfg(not(target_arch = "x86_64"))]
    word.load(Ordering::Relaxed)
}

#[inline(always)]
fn plain_store(word: &AtomicU64, value: u64) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY:
    // - memory: writes the word, which is borrowed and an atomic;
    // - ordering: a plain store;
    // - registers: none is changed;
    // - stack: not used;
    // - control: falls through.
    unsafe {
        core::arch::asm!("mov qword ptr [{}], {}", in(reg) word.as_ptr(), in(reg) value,
            options(nostack, preserves_flags));
    }
    #[cfg(not(target_arch = "x86_64"))]
    word.store(value, Ordering::Relaxed);
}

/// Takes a lock that is one word by fetch-and-store.
#[inline(always)]
pub(crate) fn take(flag: &AtomicU64) {
    while flag.swap(1, Ordering::Acquire) != 0 {
        spin_loop();
    }
}

#[inline(always)]
pub(crate) fn count(word: &AtomicU64) {
    plain_store(word, plain_load(word).wrapping_add(1));
}

/// Does something with `it` again and again. A function of its own with one reference, as a user's
/// code has it: inside of the [`Stage`], among atomics, the compiler has to read even what is
/// constant in `it` anew each time. Two methods show what that costs.
#[inline(never)]
fn repeat<T>(count: u64, it: &T, once: impl Fn(&T)) {
    for _ in 0..count {
        once(it);
    }
}

/// A method that does `$once` again and again: with `$on`, or after `$local`, which are then the
/// loop's own.
macro_rules! method {
    ($name:expr, $on:expr => |$it:ident| $once:expr) => {
        Method {
            name: $name,
            run: Box::new(move |count| {
                repeat(count, $on, |$it| {
                    $once;
                });
            }),
        }
    };
    ($name:expr $(, let $local:ident = $value:expr)* => $once:expr) => {
        Method {
            name: $name,
            run: Box::new(move |count| {
                $(let $local = $value;)*
                for _ in 0..count {
                    $once;
                }
            }),
        }
    };
}

/// Those that count by one.
pub(crate) fn counting(stage: &Stage) -> Vec<Method<'_>> {
    let [vanilla, exchanged, added, fas, fas_cas, elsewhere] = &stage.words;
    let [fas_flag, fas_cas_flag] = &stage.flags;
    let [stored, increased, loaded, anywhere, again, renewed, limited] = &stage.locks;
    vec![
        method!(VANILLA, let word = &vanilla.0 => count(word)),
        method!("thread-local Cell" => OWN.set(black_box(OWN.get().wrapping_add(1)))),
        method!("xchg: load, add, exchange", let word = &exchanged.0 => {
            word.swap(plain_load(word).wrapping_add(1), Ordering::SeqCst);
        }),
        method!(LOCK_ADD, let word = &added.0 => word.fetch_add(1, Ordering::Relaxed)),
        method!("FAS spinlock", let flag = &fas_flag.0, let word = &fas.0 => {
            take(flag);
            count(word);
            flag.store(0, Ordering::Release);
        }),
        method!("FAS-CAS lock", let flag = &fas_cas_flag.0, let word = &fas_cas.0 => {
            take(flag);
            count(word);
            let order = (Ordering::Release, Ordering::Relaxed);
            let _always = flag.compare_exchange(1, 0, order.0, order.1);
        }),
        method!(STD_MUTEX, &stage.std.0 => |lock| *lock.lock().expect("nobody panics") += 1),
        method!("parking_lot::Mutex", &stage.parking_lot.0 => |lock| *lock.lock() += 1),
        method!(OWNED_STORE, let lock = &stored.0, let ticket = own(lock) => {
            let value = lock.words().peek().wrapping_add(1);
            ticket.store(|word| word, value).expect("nobody steals it");
        }),
        method!(OWNED_ADD, let ticket = own(&increased.0) => {
            ticket.add(|word| word, 1).expect("nobody steals it");
        }),
        method!("owned load, then store", let ticket = own(&loaded.0) => {
            let value = ticket.load(|word| word).expect("nobody steals it");
            ticket.store(|word| word, value.wrapping_add(1)).expect("nobody steals it");
        }),
        method!(OWNED_STORE_TO, let word = &elsewhere.0, let ticket = own(&anywhere.0) => {
            let value = plain_load(word).wrapping_add(1);
            ticket.store_to(word, value).expect("nobody steals it");
        }),
        method!(AGAIN, &again.0 => |lock| {
            let ticket = own(lock);
            let value = lock.words().peek().wrapping_add(1);
            ticket.store(|word| word, value).expect("nobody steals it");
            ticket.keep();
        }),
        Method {
            name: RENEW,
            run: Box::new(move |count| {
                let mut ticket = own(&renewed.0);
                for _ in 0..count {
                    ticket.renew(Steal::Local).expect("nobody steals it");
                    let value = renewed.0.words().peek().wrapping_add(1);
                    ticket.store(|word| word, value).expect("nobody steals it");
                }
            }),
        },
        Method {
            name: LIMITED,
            run: Box::new(move |count| {
                let mut ticket = own(&limited.0).limit(1_000);
                for _ in 0..count {
                    let value = limited.0.words().peek().wrapping_add(1);
                    if ticket.store(|word| word, value).is_err() {
                        ticket.renew(Steal::Local).expect("nobody steals it");
                    }
                }
            }),
        },
        method!(PER_CPU, &stage.per_cpu => |words| {
            words.with(|ticket| ticket.add(|word| word, 1)).expect("this thread goes on");
        }),
        method!(BIASED, &stage.biased.0 => |lock| *lock.lock() += 1),
        method!(COUNTER, &stage.counter => |counter| counter.add(1)),
        method!("percpu::Counter among atomics", let counter = &stage.counter => counter.add(1)),
    ]
}

/// Once a slice.
fn own(lock: &Lock<Word>) -> Ticket<'_, Word> {
    lock.acquire(Steal::Force).expect("a thread that goes on can own what it forces")
}

/// Those that keep a word and get it again.
pub(crate) fn keeping(stage: &Stage) -> Vec<Method<'_>> {
    vec![
        method!(MUTEX_VEC, &stage.std_vec.0 => |lock| {
            lock.lock().expect("nobody panics").push(black_box(7));
            black_box(lock.lock().expect("nobody panics").pop());
        }),
        method!("parking_lot Mutex<Vec>: push, pop", &stage.parking_lot_vec.0 => |lock| {
            lock.lock().push(black_box(7));
            black_box(lock.lock().pop());
        }),
        method!("crossbeam ArrayQueue: push, pop", &stage.queue => |queue| {
            let _never_full = queue.push(black_box(7));
            black_box(queue.pop());
        }),
        method!("thread-local RefCell<Vec>: push, pop" => {
            OWN_VEC.with_borrow_mut(|vec| vec.push(black_box(7)));
            black_box(OWN_VEC.with_borrow_mut(Vec::pop));
        }),
        method!(STACK, &stage.stack => |stack| {
            let _never_full = stack.push(black_box(7));
            black_box(stack.pop());
        }),
        method!("percpu::Stack among atomics: push, pop", let stack = &stage.stack => {
            let _never_full = stack.push(black_box(7));
            black_box(stack.pop());
        }),
    ]
}
