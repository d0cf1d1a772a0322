//! A Tokio runtime with threads of its own, for work that must not take time from the runtime that
//! the lock service runs on: the page, and TLS handshakes.
//!
//! The thread `NAME` builds the runtime, runs it and drops it, so that a server may be started,
//! stopped and dropped within any runtime of its user: a runtime can't be dropped inside another.
//!
//! The threads have the priority of all others. The page takes the locks of tables and registry for
//! a moment each, and these locks know nothing of priorities: if the page's thread had a lower one,
//! then on a busy machine it would wait for the processor with a table locked, and whoever needs
//! that table would wait with it.

use std::{fmt, io, thread};

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::oneshot;

/// A running one. Dropping it ends its tasks and waits for its threads, which takes as long as the
/// longest step of a task without an `await`.
pub(crate) struct OwnRuntime {
    handle: Handle,
    /// Dropped to stop it.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl OwnRuntime {
    /// Starts one with so many threads, at least one, with this name.
    pub(crate) fn start(name: &'static str, threads: usize) -> io::Result<Self> {
        let (stop, stopped) = oneshot::channel();
        let (tell, told) = std::sync::mpsc::sync_channel(1);
        let run = move || match build(name, threads) {
            Ok(runtime) => {
                // Whoever starts it waits for this.
                let _ = tell.send(Ok(runtime.handle().clone()));
                // An error says that the sender is gone, which is how it is stopped.
                let _ = runtime.block_on(stopped);
            }
            Err(why) => {
                let _ = tell.send(Err(why));
            }
        };
        let thread = thread::Builder::new().name(name.to_owned()).spawn(run)?;
        let handle = told.recv().map_err(|_| io::Error::other("its thread has died"))??;
        Ok(Self { handle, stop: Some(stop), thread: Some(thread) })
    }

    /// By which tasks are spawned there.
    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }
}

/// With one thread that is the thread which calls this.
fn build(name: &'static str, threads: usize) -> io::Result<Runtime> {
    let mut builder =
        if threads > 1 { Builder::new_multi_thread() } else { Builder::new_current_thread() };
    builder.worker_threads(threads.max(1)).thread_name(name).enable_io().enable_time().build()
}

impl Drop for OwnRuntime {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic there has been reported already.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for OwnRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.thread.as_ref().and_then(|thread| thread.thread().name());
        f.debug_tuple("OwnRuntime").field(&name).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::time::Duration;

    fn name() -> Option<String> {
        thread::current().name().map(str::to_owned)
    }

    /// Also within another runtime, and with a task that would never end.
    #[tokio::test]
    async fn service_f98_its_tasks_run_on_its_threads_and_end_with_it() {
        for threads in [1, 3] {
            let own = OwnRuntime::start("own-threads", threads).expect("started");
            let task = own.handle().spawn(async {
                tokio::time::sleep(Duration::from_millis(1)).await;
                name()
            });
            assert_eq!(task.await.expect("done").as_deref(), Some("own-threads"));
            assert_ne!(name().as_deref(), Some("own-threads"));
            let alive = Arc::new(());
            let kept = Arc::clone(&alive);
            let endless = own.handle().spawn(async move {
                let _kept = kept;
                std::future::pending::<()>().await;
            });
            drop(own);
            assert_eq!(Arc::strong_count(&alive), 1, "its thread has dropped the task");
            assert!(endless.await.expect_err("it was ended").is_cancelled());
        }
    }
}
