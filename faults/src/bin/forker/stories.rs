//! What happens to one connection when its process forks.

use std::future::Future;
use std::pin::pin;
use std::process::{Command, Stdio};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use lockspan::{LockError, Locks, OwnedWriteGuard, UpgradeError};

use crate::process::{By, Side, end_at_once, fork, say};
use crate::{LEASE, Outcome, SOON, Way, ensure, record, refused, runtime};

const NAME: &str = "fork:1";

/// Runs the child's part and ends the child, without a destructor of the parent's.
fn child(part: impl FnOnce() -> Outcome) -> ! {
    let told = part();
    if let Err(why) = &told {
        say(&format!("in the child: {why}"));
    }
    end_at_once(i32::from(told.is_err()))
}

/// A record for writing, within [`SOON`].
fn write(way: &Way, locks: &Locks, name: &str) -> Result<OwnedWriteGuard, String> {
    let guard = way.block_on(record(locks, name).write_owned_timeout(SOON));
    guard.map_err(|why| format!("{name}: {why}"))
}

/// A cached write lock, then a fork: the child may not enter by its copy of the cache, whatever it
/// calls; the parent goes on as before.
pub(crate) fn cached(url: &str, way: Way, by: By) -> Outcome {
    let locks = way.connect(url)?;
    let first = write(&way, &locks, NAME)?;
    let token = first.token();
    drop(first);
    let ours = record(&locks, NAME);
    match fork(by) {
        Side::Child => child(|| {
            refused("blocking_write", ours.blocking_write().map(drop))?;
            refused("blocking_read", ours.blocking_read().map(drop))?;
            refused("timed", ours.blocking_write_timeout(SOON).map(drop))?;
            let other = record(&locks, "fork:2");
            refused("another record", other.blocking_write().map(drop))?;
            if by == By::Fork {
                let fresh = runtime();
                refused("write", fresh.block_on(ours.write()).map(drop))?;
                refused("by name", fresh.block_on(locks.read(ours.name())).map(drop))?;
                refused("try", fresh.block_on(ours.try_write()).map(drop))?;
                refused("write_timeout", fresh.block_on(ours.write_timeout(SOON)).map(drop))?;
                let owner = locks.as_owner(lockspan::Owner(7));
                refused("owner", record(&owner, NAME).blocking_write().map(drop))?;
                ensure!(fresh.block_on(locks.clone().close()).is_err(), "the child closed it");
            }
            locks.give_back_idle();
            locks.publish_metrics();
            let _ = locks.stats();
            ensure!(locks.last_will().is_none(), "the child has the parent's session");
            Ok(())
        }),
        Side::Parent(child) => child.wait()?,
    }
    let again = write(&way, &locks, NAME)?;
    ensure!(again.is_valid(), "the parent's own guard is not valid");
    ensure!(again.token() >= token, "the parent's token went down");
    Ok(())
}

/// The parent holds a record while a child drops its copies of everything, the runtime of a
/// [`Way::Current`] among them. Nobody else gets the record, the parent's lease goes on, and it
/// still hears what the server says, all on the connection that it had.
pub(crate) fn dropped(url: &str, way: Way) -> Outcome {
    let locks = way.connect(url)?;
    let held = write(&way, &locks, NAME)?;
    let read = way.block_on(record(&locks, "fork:3").read_owned());
    let read = read.map_err(|why| why.to_string())?;
    let other = way.connect(url)?;
    let theirs = record(&other, NAME);
    match fork(By::Fork) {
        Side::Child => {
            let told = (|| {
                ensure!(!held.is_valid(), "the child's copy of the guard is valid");
                ensure!(held.valid_for().is_zero(), "the child's copy is valid for a while");
                ensure!(!read.is_valid(), "the child's copy of the read guard is valid");
                runtime().block_on(held.lost());
                let Err(UpgradeError { guard: read, source: why }) = read.blocking_upgrade() else {
                    return Err("the child upgraded the parent's guard".to_owned());
                };
                refused::<()>("upgrade", Err(why))?;
                let held = held.downgrade();
                ensure!(!held.is_valid(), "a downgraded copy is valid");
                drop((held, read));
                Ok(())
            })();
            drop((theirs, other, locks));
            match way {
                // A runtime with threads waits for them when it is dropped; they are not here.
                Way::Tasks(runtime) => std::mem::forget(runtime),
                Way::Threads | Way::Current(_) => drop(way),
            }
            child(|| told)
        }
        Side::Parent(child) => child.wait()?,
    }
    // Three renewals lie in a lease; what the child might have ended would show in the first.
    let late = Instant::now() + LEASE * 2;
    while Instant::now() < late {
        let got = way.block_on(theirs.write_timeout(LEASE / 8));
        match got.map(drop) {
            Err(LockError::Timeout(_)) => {}
            Ok(()) => return Err("another node has what the parent holds".to_owned()),
            Err(why) => return Err(format!("another node: {why}")),
        }
        ensure!(held.is_valid(), "the parent's guard is lost");
    }
    drop(held);
    // It is cached here: the other node gets it only if this one hears that it is wanted back.
    let got = way.block_on(theirs.write_timeout(SOON));
    drop(got.map_err(|why| format!("the parent does not hear that it is wanted: {why}"))?);
    ensure!(read.is_valid(), "the parent's read guard is lost");
    let stats = locks.stats();
    ensure!(stats.lost == 0, "the parent has lost {} grants", stats.lost);
    ensure!(stats.connects <= 1, "the parent had to connect {} times", stats.connects);
    Ok(())
}

/// A child connects anew, by both ways, and its locks exclude those of the parent.
pub(crate) fn connects(url: &str, way: Way) -> Outcome {
    let locks = way.connect(url)?;
    let held = write(&way, &locks, NAME)?;
    // What is in this process alone is not shared with the child.
    let is_shared = !url.starts_with("memory:");
    match fork(By::Fork) {
        Side::Child => child(|| {
            for anew in [Way::Threads, Way::Tasks(runtime())] {
                let locks = anew.connect(url)?;
                let mine = write(&anew, &locks, "fork:child")?;
                ensure!(mine.is_valid(), "the child's own guard is not valid");
                let parents = record(&locks, NAME);
                let got = anew.block_on(parents.write_timeout(LEASE / 4));
                match got.map(drop) {
                    Err(LockError::Timeout(_)) if is_shared => {}
                    Ok(()) if !is_shared => {}
                    got => return Err(format!("the record that the parent holds: {got:?}")),
                }
                anew.pass(LEASE + LEASE / 4);
                ensure!(mine.is_valid(), "the child's lease is not renewed");
                drop(mine);
                anew.block_on(locks.close()).map_err(|why| why.to_string())?;
            }
            Ok(())
        }),
        Side::Parent(child) => {
            way.pass(LEASE);
            child.wait()?;
        }
    }
    if matches!(way, Way::Tasks(_) | Way::Threads) {
        ensure!(held.is_valid(), "the parent's guard is lost");
    }
    Ok(())
}

fn poll<F: Future>(future: std::pin::Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Futures that wait in the parent are ready in the child, and dropping them there disturbs nobody.
pub(crate) fn futures(url: &str, way: Way) -> Outcome {
    let locks = way.connect(url)?;
    let other = way.connect(url)?;
    let held = write(&way, &locks, NAME)?;
    let kept = write(&way, &other, "fork:other")?;
    let wanted = record(&locks, "fork:other");
    let shared = [&locks, &other].map(|locks| record(locks, "fork:shared"));
    let reading = shared.each_ref().map(|record| way.block_on(record.read()));
    let [Ok(reading), Ok(beside)] = reading else { return Err("no reads".to_owned()) };

    let mut lost = pin!(held.lost());
    let mut waits = pin!(wanted.write());
    let mut timed = pin!(wanted.write_timeout(SOON));
    let mut tries = pin!(wanted.try_write());
    let mut upgrade = pin!(reading.upgrade());
    // Polled once it is on its way. Its runtime has to be the same the next time; and what is in
    // this process is connected to at once.
    let connects = !url.starts_with("memory:") && !matches!(way, Way::Threads);
    let mut connecting = Box::pin(lockspan::Options::new().lease(LEASE).connect(url));
    let waiting = way.block_on(async {
        [
            ("connect", !connects || poll(connecting.as_mut()).is_pending()),
            ("lost", poll(lost.as_mut()).is_pending()),
            ("write", poll(waits.as_mut()).is_pending()),
            ("write_timeout", poll(timed.as_mut()).is_pending()),
            ("try_write", poll(tries.as_mut()).is_pending()),
            ("upgrade", poll(upgrade.as_mut()).is_pending()),
        ]
    });
    for (what, waits) in waiting {
        ensure!(waits, "{what} does not wait in the parent");
    }
    for drops_only in [false, true] {
        match fork(By::Fork) {
            Side::Child if drops_only => {
                // The child returns as far as to `main`, and so drops everything; but a runtime
                // with threads would wait for them, and they are not here.
                if let Way::Tasks(runtime) = way {
                    std::mem::forget(runtime);
                }
                return Ok(());
            }
            Side::Child => child(|| {
                ensure!(poll(lost.as_mut()).is_ready(), "lost() waits in the child");
                match poll(waits.as_mut()) {
                    Poll::Ready(got) => refused("a wait", got.map(drop))?,
                    Poll::Pending => return Err("a future waits in the child".to_owned()),
                }
                match poll(timed.as_mut()) {
                    Poll::Ready(got) => refused("a timed wait", got.map(drop))?,
                    Poll::Pending => return Err("a timed future waits in the child".to_owned()),
                }
                match poll(tries.as_mut()) {
                    Poll::Ready(got) => refused("try_write", got.map(drop))?,
                    Poll::Pending => return Err("try_write waits in the child".to_owned()),
                }
                match poll(upgrade.as_mut()) {
                    Poll::Ready(Ok(_)) => return Err("the child is upgraded".to_owned()),
                    Poll::Ready(Err(why)) => refused::<()>("an upgrade", Err(why.into()))?,
                    Poll::Pending => return Err("an upgrade waits in the child".to_owned()),
                }
                if connects {
                    match poll(connecting.as_mut()) {
                        Poll::Ready(Err(why)) if why.to_string().contains("call connect") => {}
                        got => return Err(format!("connect in the child: {got:?}")),
                    }
                }
                Ok(())
            }),
            Side::Parent(child) => child.wait()?,
        }
    }
    drop(kept);
    drop(beside);
    let got = way.block_on(async { tokio::time::timeout(SOON, waits).await });
    drop(got.map_err(|_| "the parent's wait does not end")?.map_err(|why| why.to_string())?);
    let got = way.block_on(async { tokio::time::timeout(SOON, upgrade).await });
    let got = got.map_err(|_| "the parent's upgrade does not end")?;
    drop(got.map_err(|why| why.cause().to_string())?);
    if connects {
        let got = way.block_on(async { tokio::time::timeout(SOON, connecting).await });
        got.map_err(|_| "the parent's connect does not end")?.map_err(|why| why.to_string())?;
    }
    ensure!(held.is_valid(), "the parent's guard is lost");
    Ok(())
}

/// The parent forks and ends, as a daemon's does. The child is told that all is lost, and gets the
/// record by a connection of its own. It says `ok`.
pub(crate) fn daemon(url: &str, way: &Way) -> Outcome {
    let locks = way.connect(url)?;
    let held = write(way, &locks, NAME)?;
    let parent = std::process::id();
    match fork(By::Fork) {
        Side::Parent(_) => Ok(()),
        Side::Child => child(|| {
            let late = Instant::now() + SOON;
            while rustix::process::getppid().is_some_and(|now| {
                u32::try_from(now.as_raw_nonzero().get()).is_ok_and(|now| now == parent)
            }) {
                ensure!(!held.is_valid(), "the daemon's copy of the guard is valid");
                ensure!(Instant::now() < late, "the parent does not end");
                std::thread::sleep(Duration::from_millis(5));
            }
            ensure!(!held.is_valid(), "the daemon's copy of the guard is valid");
            runtime().block_on(held.lost());
            refused("write", record(&locks, NAME).blocking_write().map(drop))?;
            let anew = Way::Threads;
            let locks = anew.connect(url)?;
            let mine = write(&anew, &locks, NAME)?;
            ensure!(mine.is_valid(), "the daemon's own guard is not valid");
            println!("ok");
            Ok(())
        }),
    }
}

/// A command that is started by a connected process inherits no descriptor of ours.
pub(crate) fn spawns(url: &str, way: &Way) -> Outcome {
    let before = inherited()?;
    let locks = way.connect(url)?;
    let _held = write(way, &locks, NAME)?;
    let after = inherited()?;
    ensure!(!after.is_empty(), "nothing is listed");
    let more: Vec<&String> = after.iter().filter(|found| !before.contains(found)).collect();
    ensure!(more.is_empty(), "a command inherits descriptors: {more:?}");
    Ok(())
}

/// The numbers of the descriptors that a command inherits, and of the one with which it looks.
fn inherited() -> Result<Vec<String>, String> {
    let listed = Command::new("ls").arg("/proc/self/fd").stdin(Stdio::null()).output();
    let listed = listed.map_err(|why| why.to_string())?;
    Ok(String::from_utf8_lossy(&listed.stdout).lines().map(str::to_owned).collect())
}
