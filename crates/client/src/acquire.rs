//! Waiting for a record: the futures behind `read` and `write`.
//!
//! A future that is dropped leaves the line; if it was just granted the record, it hands it on.
//! In a child of a fork it is refused with [`LockError::Forked`] and leaves nothing: see `node`.

use std::borrow::Borrow;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use lockspan_protocol::{Annotation, BadAnnotation, Mode, Tick, Token};
use lockspan_thread::gate::{Pass, Reader, Use};
use tokio::task::coop;

use crate::clock;
use crate::entry::lock;
use crate::error::LockError;
use crate::guard::{Guard, Kind};
use crate::line::{Answer, Place, Waiter};
use crate::meter::Wait;
use crate::record::Record;

/// Where somebody stands in line.
#[derive(Debug)]
pub(crate) struct InLine {
    pub(crate) place: Place,
    /// None if nobody counts.
    pub(crate) wait: Option<Wait>,
}

impl InLine {
    /// It is in.
    pub(crate) fn over(self, now: Tick) {
        if let Some(wait) = self.wait {
            wait.over(now);
        }
    }
}

impl Record {
    /// Goes in without asking, if the record is open for it and the lease stands.
    #[inline(always)]
    pub(crate) fn enter(&self, mode: Mode) -> Option<(Pass, Token)> {
        if self.owner.is_some() {
            // Who has a name is in the books of the line.
            return None;
        }
        let token = self.entry.token();
        let pass = self.entry.enter(mode)?;
        if self.entry.token() != token {
            // Between two openings, or a reader beside one that is being upgraded: whose token it
            // is, is known in the line.
            self.leave(pass);
            return None;
        }
        let (pass, _) = self.confirm(pass)?;
        self.count_cached(mode, 1);
        Some((pass, token))
    }

    /// Looks at the clock: only now that it is in does a thread know that it is in time. If not, it
    /// goes out again, and there is none.
    #[inline(always)]
    fn confirm(&self, pass: Pass) -> Option<(Pass, Tick)> {
        let Some(now) = self.node().stands(&self.entry, &pass) else {
            self.leave(pass);
            return None;
        };
        self.entry.touch(now);
        Some((pass, now))
    }

    /// Goes out.
    #[inline(always)]
    pub(crate) fn leave(&self, pass: Pass) {
        use lockspan_thread::gate::Left;
        let how = pass.how();
        let left = self.entry.gate.leave(pass);
        if left == Left::Watched || (left == Left::Unseen && self.owner.is_some()) {
            self.look_after(how);
        }
    }

    /// After somebody has left a watched gate, or has come to need less.
    #[cold]
    pub(crate) fn look_after(&self, how: Use) {
        if self.node().is_forked() {
            return;
        }
        self.node().after_leaving(&self.entry, |line, look, wakes| {
            if let Some(owner) = self.owner {
                line.named_left(owner);
            }
            if how == Use::Write {
                line.writer_left();
            }
            line.left(look, wakes);
        });
    }

    /// Gets in line.
    pub(crate) fn get_in_line(
        &self,
        mode: Mode,
        upgrade: Option<Reader>,
        note: Option<Annotation>,
        waker: &Waker,
    ) -> Result<Place, LockError> {
        if self.node().is_closed() {
            return Err(LockError::Closed);
        }
        let owner = self.owner;
        let waker = Some(waker.clone());
        let Some(owner) = owner else {
            return self.node().with_line(&self.entry, |line, look, wakes| {
                self.entry.touch(look.now);
                line.may_wait(look.gate, upgrade)?;
                let since = look.now;
                let place = line.wait(Waiter { mode, owner, since, waker, upgrade, note });
                if look.caching {
                    line.serve(look, wakes);
                }
                Ok(place)
            });
        };
        if upgrade.is_none() && lock(&self.entry.line).is_held_by(owner, mode, &self.entry.gate) {
            return Err(LockError::Deadlock { cycle: vec![owner] });
        }
        let since = clock::now();
        self.entry.touch(since);
        let waiter = Waiter { mode, owner: Some(owner), since, waker, upgrade, note };
        let mut gone = None;
        self.node().with_core(|node, core, wakes| {
            let look = node.look(&self.entry, core.now);
            let (place, waits_for_itself) = {
                let mut line = lock(&self.entry.line);
                line.may_wait(&self.entry.gate, upgrade)?;
                let place = line.wait(waiter);
                // Whoever may go in beside the holders goes in now.
                line.serve(&look, wakes);
                (place, upgrade.is_none() && line.waits_for_its_own_hold(place, owner))
            };
            node.waits(core, owner, &self.entry);
            let cycle = node.cycle(core, owner);
            let cycle = cycle.or_else(|| waits_for_itself.then(|| vec![owner]));
            if cycle.is_some() {
                // Nothing, if somebody has let it in or refused it: then it has an answer.
                gone = lock(&self.entry.line).give_up(place);
            }
            let refused = cycle.filter(|_| gone.is_some());
            if refused.is_some() {
                node.waited(core, owner, &self.entry);
            }
            node.settle_entry(core, &self.entry, false, wakes);
            refused.map_or(Ok(place), |cycle| Err(LockError::Deadlock { cycle }))
        })
    }

    /// Whether there is an answer for a place in line. If not, this waker is called.
    pub(crate) fn ask(&self, place: Place, waker: &Waker) -> Option<Answer> {
        let answer = self.answer(place);
        if answer.is_some() {
            return answer;
        }
        // What is replaced is dropped with nothing held: that may run anybody's code.
        let mut waker = Some(waker.clone());
        let answer = self.node().with_line(&self.entry, |line, look, wakes| {
            if let Some(waiter) = line.waiter(place) {
                std::mem::swap(&mut waiter.waker, &mut waker);
                line.serve(look, wakes);
            }
            line.answer(place)
        });
        if answer.is_some() {
            self.not_in_line();
        }
        answer
    }

    /// The answer for a place in line, if it has come.
    fn answer(&self, place: Place) -> Option<Answer> {
        let answer = lock(&self.entry.line).answer(place);
        if answer.is_some() {
            self.not_in_line();
        }
        answer
    }

    /// Gets in line, and waits there until it is in.
    #[cold]
    fn wait(
        &self,
        (mode, note): (Mode, Option<&Annotation>),
        place: &mut Option<InLine>,
        has_swept: &mut bool,
        context: &mut Context<'_>,
    ) -> Poll<Answer> {
        if self.node().is_forked() {
            *place = None;
            return Poll::Ready(Err(LockError::Forked));
        }
        ready!(let_others_run(context));
        // Of somebody who has to get in line again.
        let mut wait = None;
        loop {
            let answer = match place {
                Some(there) => self.ask(there.place, context.waker()),
                None => {
                    let wait = wait.take().or_else(|| self.begin_wait());
                    let note = note.or(self.note.as_ref()).cloned();
                    let there = match self.get_in_line(mode, None, note, context.waker()) {
                        Ok(there) => place.insert(InLine { place: there, wait }).place,
                        Err(why) => return Poll::Ready(Err(why)),
                    };
                    // If it is answered at once all the same, whoever waits was woken.
                    if self.node().is_asked_each_time() { None } else { self.answer(there) }
                }
            };
            match answer {
                None => return Poll::Pending,
                // The background task may not have had a turn to give back what is idle.
                Some(Err(LockError::TooManyRecords(_))) if !*has_swept => {
                    *has_swept = true;
                    self.node().sweep();
                }
                Some(Err(why)) => {
                    *place = None;
                    return Poll::Ready(Err(why));
                }
                Some(Ok((pass, token))) => {
                    if let Some((pass, now)) = self.confirm(pass) {
                        if let Some(there) = place.take() {
                            there.over(now);
                        }
                        return Poll::Ready(Ok((pass, token)));
                    }
                }
            }
            wait = place.take().and_then(|there| there.wait);
            if let Some(entered) = self.enter(mode) {
                if let Some(wait) = wait {
                    wait.over(clock::now());
                }
                return Poll::Ready(Ok(entered));
            }
        }
    }

    /// Leaves the line; returns what it had just been given.
    pub(crate) fn give_up(&self, place: Place) -> Option<(Pass, Token)> {
        if self.node().is_forked() {
            return None;
        }
        let (answer, gone) = self.node().with_line(&self.entry, |line, look, wakes| {
            let gone = line.give_up(place);
            if gone.is_some() {
                line.left(look, wakes);
            }
            (line.answer(place), gone)
        });
        drop(gone);
        self.not_in_line();
        answer.and_then(Result::ok)
    }

    /// Takes a name out of the books of those who wait.
    fn not_in_line(&self) {
        if let Some(owner) = self.owner {
            self.node().with_core(|node, core, _| node.waited(core, owner, &self.entry));
        }
    }
}

/// The future of [`Record::read`], [`Record::write`] and their `_owned` forms. It does nothing
/// before it is polled. Dropping it leaves the queue.
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct Acquire<K: Kind, R: Borrow<Record> + Unpin> {
    record: Option<R>,
    place: Option<InLine>,
    /// It has made room for itself.
    has_swept: bool,
    /// What it wants the record for.
    note: Option<Annotation>,
    kind: PhantomData<K>,
}

impl<K: Kind, R: Borrow<Record> + Unpin> Acquire<K, R> {
    #[inline]
    pub(crate) fn new(record: R) -> Self {
        Self { record: Some(record), place: None, has_swept: false, note: None, kind: PhantomData }
    }

    /// The same, with a note that was checked.
    pub(crate) fn with_note(record: R, note: Option<Annotation>) -> Self {
        let mut acquire = Self::new(record);
        acquire.note = note;
        acquire
    }

    /// Says for people what the record is wanted for: other clients see it where they see who holds
    /// the record or waits for it. At most 256 bytes without control characters; otherwise the
    /// acquire fails with [`LockError::BadNote`].
    ///
    /// The note travels with the message to the server. An acquire that needs no message, because
    /// this node has the record cached, is not told to anybody: then the note of the acquire that
    /// brought the record here is shown. Such an acquire only reads the note once to check it, and
    /// neither copies it nor allocates. [`Record::with_note`] has the same for all forms of
    /// acquiring; its note is checked once.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// let locks = lockspan_client::connect("memory:").await?;
    /// let invoice = locks.record("invoice", 42)?;
    /// let held = invoice.write().note("nightly import").await?;
    /// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
    /// ```
    ///
    /// The future keeps what it is given, so a note that is borrowed has to live as long. Give it
    /// an owned `String` where the future outlives the statement, or is spawned:
    ///
    /// ```
    /// # tokio::runtime::Runtime::new().unwrap().block_on(async {
    /// let locks = lockspan_client::connect("memory:").await?;
    /// let invoice = locks.record("invoice", 42)?;
    /// let day = 17;
    /// let acquire = invoice.write_owned().note(format!("import of day {day}"));
    /// let held = tokio::spawn(acquire).await??;
    /// # drop(held);
    /// # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
    /// ```
    #[inline]
    pub fn note<N: AsRef<str> + Unpin>(self, note: N) -> Noted<K, R, N> {
        let refused = Annotation::check(note.as_ref().as_bytes()).err();
        Noted { acquire: self, note, refused }
    }

    /// How many acquires would be granted before this one: those of this process, and those of
    /// others as the server last said. `None` before the first poll, when it does not wait, and
    /// until the server has said: that is some 10 ms after the wait began.
    #[must_use]
    pub fn place(&self) -> Option<u32> {
        self.record.as_ref()?.borrow().ahead(self.place.as_ref()?.place)
    }

    /// The same acquire, with its place in line, that waits for at most `time` from now. For
    /// bindings to other languages, which begin to wait only when the first poll was not enough.
    ///
    /// # Panics
    ///
    /// If the future has been ready.
    #[doc(hidden)]
    pub async fn within(self, time: Duration) -> Result<Guard<K, R>, LockError> {
        let record = self.record.as_ref().expect("it has not been ready").borrow().clone();
        record.in_time(self, time).await
    }

    /// Where it stands in this node's line, if it does.
    pub(crate) fn in_line(&self) -> Option<Place> {
        self.place.as_ref().map(|there| there.place)
    }
}

impl<K: Kind, R: Borrow<Record> + Unpin> Future for Acquire<K, R> {
    type Output = Result<Guard<K, R>, LockError>;

    #[inline(always)]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.get_mut().poll_with(context, || None)
    }
}

impl<K: Kind, R: Borrow<Record> + Unpin> Acquire<K, R> {
    /// Polls it. If it has to wait and has no note yet, it has this one.
    // It becomes a part of its caller, and puts the guard together from what is in registers.
    #[inline(always)]
    fn poll_with(
        &mut self,
        context: &mut Context<'_>,
        make_note: impl FnOnce() -> Option<Annotation>,
    ) -> Poll<Result<Guard<K, R>, LockError>> {
        let this = self;
        let held = this.record.as_ref().expect("a future is not polled after it is ready");
        let record = held.borrow();
        let used = record.entry.used();
        let entered = if this.place.is_none() { record.enter(K::MODE) } else { None };
        let (pass, token) = match entered {
            // The clock stands where it stood: there was hardly time for anybody to have waited.
            Some(entered) if record.entry.used() == used => entered,
            Some((pass, token)) => {
                if let_others_run(context).is_pending() {
                    record.count_cached(K::MODE, -1);
                    record.leave(pass);
                    return Poll::Pending;
                }
                (pass, token)
            }
            None => {
                let Self { place, has_swept, note, .. } = this;
                if note.is_none() {
                    *note = make_note();
                }
                match ready!(record.wait((K::MODE, note.as_ref()), place, has_swept, context)) {
                    Ok(entered) => entered,
                    Err(why) => {
                        this.record = None;
                        return Poll::Ready(Err(why));
                    }
                }
            }
        };
        let held = this.record.take().expect("it was there a moment ago");
        Poll::Ready(Ok(Guard::new(held, pass, token)))
    }
}

/// An [`Acquire`] with a note that says what the record is wanted for.
#[derive(Debug)]
#[must_use = "a future does nothing unless it is awaited"]
pub struct Noted<K: Kind, R: Borrow<Record> + Unpin, N: AsRef<str> + Unpin> {
    acquire: Acquire<K, R>,
    /// Copied only if it has to be told.
    note: N,
    /// What is wrong with the note.
    refused: Option<BadAnnotation>,
}

impl<K: Kind, R: Borrow<Record> + Unpin, N: AsRef<str> + Unpin> Noted<K, R, N> {
    /// As [`Acquire::place`].
    #[must_use]
    pub fn place(&self) -> Option<u32> {
        self.acquire.place()
    }
}

impl<K: Kind, R: Borrow<Record> + Unpin, N: AsRef<str> + Unpin> Future for Noted<K, R, N> {
    type Output = Result<Guard<K, R>, LockError>;

    #[inline]
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { acquire, note, refused } = self.get_mut();
        match *refused {
            Some(why) => Poll::Ready(Err(LockError::BadNote(why))),
            None => acquire.poll_with(context, || Annotation::new(note.as_ref()).ok()),
        }
    }
}

/// A task that takes records in a loop without ever waiting lets the others of its thread run now
/// and then: among them is the one that hears that somebody else wants the record.
pub(crate) fn let_others_run(context: &mut Context<'_>) -> Poll<()> {
    coop::poll_proceed(context).map(|turn| turn.made_progress())
}

impl<K: Kind, R: Borrow<Record> + Unpin> Drop for Acquire<K, R> {
    fn drop(&mut self) {
        let Some(held) = &self.record else { return };
        let record = held.borrow();
        if let Some(there) = &self.place
            && let Some((pass, _)) = record.give_up(there.place)
        {
            record.leave(pass);
        }
    }
}
