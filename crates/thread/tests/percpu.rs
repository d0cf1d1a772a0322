//! Counters and stacks of each processor among more threads than processors, signals, threads that
//! are moved about, and forks: nothing is lost, nothing is there twice.
#![cfg(target_os = "linux")]

mod hostile;

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use hostile::{Running, Steps, Worker, disturb, in_a_child, with_every_backend};
use lockspan_thread::percpu::{Counter, Stack, backend};

const THREADS: u64 = 8;

#[test]
fn all_of_this_with_every_backend() {
    with_every_backend("all_of_this_with_every_backend", || backend().to_string());
}

/// Becomes a real-time process of the lowest priority.
fn become_real_time() -> io::Result<()> {
    // SAFETY: zeros are a value of the structure.
    let mut lowest: libc::sched_param = unsafe { std::mem::zeroed() };
    lowest.sched_priority = 1;
    // SAFETY: the structure lives through the call.
    let result = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &lowest) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[test]
fn a_real_time_process_finds_its_backend() {
    const AGAIN: &str = "LOCKSPAN_TEST_REAL_TIME";
    if std::env::var_os(AGAIN).is_some() {
        let counter = Counter::new();
        counter.add(1);
        assert_eq!(counter.sum(), 1);
        return;
    }
    let mut again = Command::new(std::env::current_exe().unwrap());
    again.args(["--exact", "a_real_time_process_finds_its_backend"]).env(AGAIN, "yes");
    // SAFETY: one system call, which is allowed between fork and exec.
    unsafe { again.pre_exec(become_real_time) };
    let mut child = match again.spawn() {
        Err(why) if why.kind() == io::ErrorKind::PermissionDenied => {
            eprintln!("not tried: this user may not have real-time priorities");
            return;
        }
        child => child.unwrap(),
    };
    let late = Instant::now() + Duration::from_secs(60);
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if Instant::now() > late {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("it is stuck");
        }
        thread::sleep(Duration::from_millis(5));
    };
    assert!(status.success(), "{status}");
}

#[test]
fn a_counter_loses_no_addition() {
    const ROUNDS: u64 = 400_000;
    let counter = Arc::new(Counter::new());
    let workers = (0..THREADS).map(|_| {
        let counter = Arc::clone(&counter);
        Worker::spawn(move |steps| {
            for n in 0..ROUNDS {
                counter.add((n % 7) as i64);
                if n % 1_024 == 0 {
                    steps.step();
                }
            }
        })
    });
    disturb(workers.collect());
    let each: u64 = (0..ROUNDS).map(|n| n % 7).sum();
    assert_eq!(counter.sum(), (THREADS * each) as i64);
}

#[test]
fn a_thousand_threads_that_end_at_once_lose_nothing() {
    let counter = Arc::new(Counter::new());
    for _ in 0..10 {
        let threads = (0..100).map(|_| {
            let counter = Arc::clone(&counter);
            thread::spawn(move || counter.add(1))
        });
        threads.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().unwrap());
    }
    assert_eq!(counter.sum(), 1_000);
}

/// Moves tokens in and out, singly and in batches; what it holds at the end it pushes or keeps.
fn juggle(stack: &Stack<u64>, seed: u64, mut held: Vec<u64>, steps: &Steps) -> Vec<u64> {
    let mut random = seed | 1;
    for round in 0..if cfg!(debug_assertions) { 100_000 } else { 1_000_000 } {
        if round % 64 == 0 {
            steps.step();
        }
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        match random >> 61 {
            0..=2 => {
                if let Some(token) = held.pop()
                    && let Err(token) = stack.push(token)
                {
                    held.push(token);
                }
            }
            3..=5 => held.extend(stack.pop()),
            6 => {
                let _ = stack.pop_many((random >> 32) as usize % 100, &mut held);
            }
            _ => {
                let _ = stack.push_many(&mut held);
            }
        }
    }
    held
}

#[test]
fn a_stack_keeps_every_token_while_others_drain_it() {
    const TOKENS: u64 = 512;
    let stack = Arc::new(Stack::with_capacity(300));
    let kept = Arc::new(std::sync::Mutex::new(Vec::new()));
    let running = Arc::new(Running::default());
    let workers = (0..THREADS).map(|number| {
        let (stack, kept) = (Arc::clone(&stack), Arc::clone(&kept));
        Worker::spawn(move |steps| {
            let tokens = (number * TOKENS..(number + 1) * TOKENS).collect();
            let held = juggle(&stack, number, tokens, steps);
            kept.lock().unwrap().extend(held);
        })
    });
    let workers = workers.collect();
    let drainer = {
        let (stack, running) = (Arc::clone(&stack), Arc::clone(&running));
        thread::spawn(move || {
            let (mut held, mut drains) = (Vec::new(), 0_usize);
            while running.goes_on() {
                drains += 1;
                held.extend(stack.drain(drains % stack.cpus()));
                let _ = stack.push_many(&mut held);
                thread::yield_now();
            }
            held
        })
    };
    disturb(workers);
    running.stop();
    let mut all = drainer.join().unwrap();
    all.append(&mut kept.lock().unwrap());
    all.extend(stack.drain_all());
    all.sort_unstable();
    let expected: Vec<u64> = (0..THREADS * TOKENS).collect();
    assert!(all == expected, "{} tokens of {}", all.len(), expected.len());
}

#[test]
fn a_child_of_a_fork_goes_on_although_others_were_at_work() {
    let counter = Arc::new(Counter::new());
    let stack = Arc::new(Stack::with_capacity(64));
    let running = Arc::new(Running::default());
    let others = (0..3_u64).map(|number| {
        let (counter, stack) = (Arc::clone(&counter), Arc::clone(&stack));
        let running = Arc::clone(&running);
        thread::spawn(move || {
            while running.goes_on() {
                counter.add(1);
                let _ = stack.push(number);
                let _ = stack.pop();
                drop(stack.drain_all());
            }
        })
    });
    let others: Vec<_> = others.collect();
    for _ in 0..30 {
        let fine = in_a_child(|| {
            let before = counter.sum();
            counter.add(5);
            let mut cpus = 0..stack.cpus();
            let drained = cpus.all(|cpu| stack.drain(cpu).len() <= 64);
            let _ = stack.push(9);
            counter.sum() == before + 5 && drained && stack.drain_all() == [9]
        });
        assert!(fine, "the child found something wrong");
    }
    running.stop();
    others.into_iter().for_each(|thread| thread.join().unwrap());
}
