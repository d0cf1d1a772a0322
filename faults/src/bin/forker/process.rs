//! Forking, and waiting for a child that may hang.

use std::time::{Duration, Instant};

/// A child that has not ended by then is killed, and has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// How a child is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// The C library's `fork`, which calls the handlers of `pthread_atfork`.
    Fork,
    /// The system call alone: no handler of `pthread_atfork` runs.
    Clone,
}

/// One of the two processes after a fork.
#[derive(Debug)]
pub(crate) enum Side {
    /// This is the child. It is killed by the kernel when [`PATIENCE`] is over.
    Child,
    /// This is the parent of this child.
    Parent(Child),
}

/// A child of this process. [`Child::wait`] must be called: nothing else collects it.
#[derive(Debug)]
#[must_use]
pub(crate) struct Child(libc::pid_t);

/// Makes a child of this process, with a copy of the calling thread alone.
pub(crate) fn fork(by: By) -> Side {
    let pid = match by {
        // SAFETY: fork has no preconditions. What the child calls afterwards is what is tested.
        By::Fork => unsafe { libc::fork() },
        By::Clone => {
            let none = 0_usize;
            let flags = libc::c_long::from(libc::SIGCHLD);
            // SAFETY: without CLONE_VM and with no new stack the child has a copy of everything,
            // as after fork.
            let pid = unsafe { libc::syscall(libc::SYS_clone, flags, none, none, none, none) };
            libc::pid_t::try_from(pid).expect("a process id, or -1")
        }
    };
    match pid {
        -1 => panic!("fork: {}", std::io::Error::last_os_error()),
        0 => {
            let seconds = u32::try_from(PATIENCE.as_secs()).expect("a minute");
            // SAFETY: alarm has no preconditions.
            unsafe { libc::alarm(seconds) };
            Side::Child
        }
        pid => Side::Parent(Child(pid)),
    }
}

impl Child {
    /// Waits until the child has ended; an error unless it ended with status 0 and in time.
    pub(crate) fn wait(self) -> Result<(), String> {
        let late = Instant::now() + PATIENCE;
        let mut pause = Duration::from_micros(200);
        loop {
            let mut status = 0;
            // SAFETY: the id is that of a child that was not waited for, and `status` is ours.
            let ended = unsafe { libc::waitpid(self.0, &raw mut status, libc::WNOHANG) };
            match ended {
                0 if Instant::now() < late => {}
                0 => {
                    // SAFETY: the child was not waited for, so its id is not given to another.
                    unsafe { libc::kill(self.0, libc::SIGKILL) };
                    // SAFETY: it is still our child, and `status` is ours.
                    unsafe { libc::waitpid(self.0, &raw mut status, 0) };
                    return Err("the child hangs".to_owned());
                }
                -1 => return Err(format!("waitpid: {}", std::io::Error::last_os_error())),
                _ if libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0 => return Ok(()),
                _ if libc::WIFSIGNALED(status) => {
                    return Err(format!("the child ended by signal {}", libc::WTERMSIG(status)));
                }
                _ => return Err(format!("the child ended with {}", libc::WEXITSTATUS(status))),
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(10));
        }
    }
}

/// Ends a child at once, without destructors or handlers.
pub(crate) fn end_at_once(status: i32) -> ! {
    // SAFETY: _exit has no preconditions.
    unsafe { libc::_exit(status) }
}

/// Says something without the locks of the standard streams: a thread of the parent may have held
/// them at the fork.
pub(crate) fn say(text: &str) {
    let text = format!("{text}\n");
    // SAFETY: the bytes live until the call returns.
    unsafe { libc::write(libc::STDERR_FILENO, text.as_ptr().cast(), text.len()) };
}
