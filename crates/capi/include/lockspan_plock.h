/*
 * Lockspan's progressive locks for C and C++. Link with -llockspan.
 *
 * A holder of a progressive lock moves on from state to state, and each state
 * excludes a little more. There are three locks, because their states do not
 * mix; each has a type of its own.
 *
 *   lockspan_plock_t           Read, Seek, Write, Atomic
 *       for readers that now and then find something to write
 *   lockspan_plock_upgrade_t   Read, Atomic
 *       for readers that find something to change by atomics, and must not be
 *       refused
 *   lockspan_plock_claim_t     Read, Join, Claim, Atomic, Alone
 *       for many threads that change a structure at once, after each has
 *       marked what it will change
 *
 *     lockspan_plock_t *lock = lockspan_plock_new();
 *     lockspan_plock_seek(lock);              beside readers
 *     if (... something has to be written ...) {
 *         lockspan_plock_seek_to_write(lock); alone, and nobody wrote before
 *         ... write ...
 *         lockspan_plock_write_done(lock);
 *     } else {
 *         lockspan_plock_seek_done(lock);
 *     }
 *     lockspan_plock_free(lock);
 *
 * Names
 *
 *   PREFIX_new, PREFIX_free     makes and destroys a lock
 *   PREFIX_STATE                comes in, and waits for that
 *   PREFIX_STATE_done           ends a hold in that state; does not wait for
 *                               other holders, but may take a mutex of the lock
 *                               for a moment to wake threads that wait
 *   PREFIX_STATE_to_OTHER       goes on to another state
 *   PREFIX_try_...              the same without waiting
 *   PREFIX_timed_...            the same with a limit to waiting
 *
 * PREFIX is the name of the type without _t: lockspan_plock_claim_try_read.
 *
 * What functions return
 *
 *   A function that returns int returns 0 when the caller has the new state.
 *   Any other value but EINPROGRESS means that nothing has changed: a thread
 *   that held the lock holds it as before, one that did not does not.
 *
 *   try_...    EBUSY if it would have to wait.
 *   timed_...  ETIMEDOUT if CLOCK_MONOTONIC shows *until, an absolute time,
 *              before it is done. What needs no waiting is done however late it
 *              is, so a time in the past makes a try of it, but for three
 *              functions: see EINPROGRESS. EINVAL, without a look at the lock,
 *              if until is null or its nanoseconds are not in 0 .. 999 999 999.
 *              EBUSY if it is refused, see below.
 *              EINPROGRESS from the three functions that can need two steps
 *              (atomic_to_claim, claim_to_read and join_to_read of
 *              lockspan_plock_claim_t), if the time came between them, even a
 *              time in the past: see there for the state that it leaves. Their
 *              try_... forms never leave it.
 *
 * Rules
 *
 *  - Each hold is ended once, by the _done of the state that it is in by then,
 *    even if the calling thread is cancelled. No function is a cancellation
 *    point; a signal does not end a wait. Another thread may go on with a hold
 *    if it is told so in a way that orders memory.
 *  - A thread that has the lock must not come in again: it may wait for itself.
 *    A try_... is always safe.
 *  - PREFIX_free: no call on the lock may still run in any other thread, not
 *    even one that has ended a hold and is about to return. Join the threads
 *    first, or know by other means that their calls have returned. (This is
 *    stricter than lt_rwlock_free of lockspan.h.)
 *  - A lock counts its holders. lockspan_plock_t and lockspan_plock_upgrade_t
 *    let at most 524 286 in to read, and a seeker that becomes a reader makes it
 *    524 287; readers and atomics together are at most 524 287, and so are all
 *    holders of lockspan_plock_claim_t. For one more, try_... returns EBUSY,
 *    timed_... waits for one to leave until its time, and a function that waits
 *    prints one line to standard error and aborts; one that stands in line
 *    already goes on waiting.
 *  - A thread that has to sleep needs a little memory for it; if there is none,
 *    the program aborts.
 *  - A lock serves the threads of one process, and is not for a signal handler.
 *  - In the child of a fork, the thread that forked still holds what it held.
 *    What other threads held stays held. A lock that another thread waited for
 *    at the fork must not be used in the child, not even to end a hold: a call
 *    may wait for that thread, which the child does not have. (This is stricter
 *    than for the lock of lockspan.h.)
 *
 * Misuse that the lock can see is never passed over in silence: a null
 * descriptor, a call that ends or converts a hold in a state that nobody is in,
 * or the free of a lock that is in use prints one line to standard error and
 * aborts. Any other invalid descriptor is undefined behaviour. The lock does
 * not know who holds it: a call on another thread's hold is not seen.
 */
#ifndef LOCKSPAN_PLOCK_H
#define LOCKSPAN_PLOCK_H

#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------- *
 * lockspan_plock_t: Read, Seek, Write, Atomic
 *
 *            try         waits for readers
 *     Read -------> Seek -----------------> Write
 *     | ^  <-------      <-----------------   |
 *     | |                                     |
 *     | +-------------------------------------+
 *     |
 *     |   may be refused; waits for readers
 *     +-----------------------------------------> Atomic
 *     ^                                             |
 *     +---------- waits for other atomics ----------+
 *
 *   state    beside it are              it may
 *   Read     readers, the seeker        read
 *   Seek     readers                    read, and write next
 *   Write    nobody                     read and write
 *   Atomic   others in Atomic           change the data by its own atomics
 *
 * Who waits to write, or for Atomic, lets no more readers in.
 * ------------------------------------------------------------------------- */

/* The lock; a pointer to it is called its descriptor. */
typedef struct lockspan_plock lockspan_plock_t;

/* Makes a lock that nobody holds. NULL if there is no memory for it. */
lockspan_plock_t *lockspan_plock_new(void);
/* Destroys a lock that nobody holds or waits for, and no call still uses. */
void lockspan_plock_free(lockspan_plock_t *lock);

/* To Read. */
void lockspan_plock_read(lockspan_plock_t *lock);
int lockspan_plock_try_read(lockspan_plock_t *lock);
int lockspan_plock_timed_read(lockspan_plock_t *lock,
                              const struct timespec *until);
void lockspan_plock_read_done(lockspan_plock_t *lock);

/* To Seek. There is one seeker at a time. */
void lockspan_plock_seek(lockspan_plock_t *lock);
int lockspan_plock_try_seek(lockspan_plock_t *lock);
int lockspan_plock_timed_seek(lockspan_plock_t *lock,
                              const struct timespec *until);
void lockspan_plock_seek_done(lockspan_plock_t *lock);

/* To Write. */
void lockspan_plock_write(lockspan_plock_t *lock);
int lockspan_plock_try_write(lockspan_plock_t *lock);
int lockspan_plock_timed_write(lockspan_plock_t *lock,
                               const struct timespec *until);
void lockspan_plock_write_done(lockspan_plock_t *lock);

/* To Atomic. */
void lockspan_plock_atomic(lockspan_plock_t *lock);
int lockspan_plock_try_atomic(lockspan_plock_t *lock);
int lockspan_plock_timed_atomic(lockspan_plock_t *lock,
                                const struct timespec *until);
void lockspan_plock_atomic_done(lockspan_plock_t *lock);

/*
 * The reader becomes the seeker. EBUSY, and still a reader, if there is one or
 * somebody waits for the readers to leave: then end the read hold, ask for
 * lockspan_plock_seek and look again, as others may have written in between.
 */
int lockspan_plock_try_read_to_seek(lockspan_plock_t *lock);

/*
 * The reader goes to Atomic: waits until every other reader has left or done
 * the same. It is refused at once, EBUSY and still a reader, if somebody seeks
 * or waits to write: the two would wait for each other.
 */
int lockspan_plock_read_to_atomic(lockspan_plock_t *lock);
int lockspan_plock_try_read_to_atomic(lockspan_plock_t *lock);
int lockspan_plock_timed_read_to_atomic(lockspan_plock_t *lock,
                                        const struct timespec *until);

/* The seeker becomes the writer: waits until every reader has left. */
void lockspan_plock_seek_to_write(lockspan_plock_t *lock);
int lockspan_plock_try_seek_to_write(lockspan_plock_t *lock);
int lockspan_plock_timed_seek_to_write(lockspan_plock_t *lock,
                                       const struct timespec *until);

/* Back, without waiting. */
void lockspan_plock_seek_to_read(lockspan_plock_t *lock);
void lockspan_plock_write_to_seek(lockspan_plock_t *lock);
void lockspan_plock_write_to_read(lockspan_plock_t *lock);

/*
 * Back to Read: waits until every other atomic has left or done the same. From
 * this call on no other comes in to Atomic.
 */
void lockspan_plock_atomic_to_read(lockspan_plock_t *lock);
int lockspan_plock_try_atomic_to_read(lockspan_plock_t *lock);
int lockspan_plock_timed_atomic_to_read(lockspan_plock_t *lock,
                                        const struct timespec *until);

/* ------------------------------------------------------------------------- *
 * lockspan_plock_upgrade_t: Read, Atomic
 *
 *     Read ---- waits for readers, never refused ----> Atomic
 *
 *   state    beside it are              it may
 *   Read     readers                    read
 *   Atomic   others in Atomic           change the data by its own atomics
 *
 * There is no way back but to end the hold.
 * ------------------------------------------------------------------------- */

/* The lock; a pointer to it is called its descriptor. */
typedef struct lockspan_plock_upgrade lockspan_plock_upgrade_t;

/* Makes a lock that nobody holds. NULL if there is no memory for it. */
lockspan_plock_upgrade_t *lockspan_plock_upgrade_new(void);
/* Destroys a lock that nobody holds or waits for, and no call still uses. */
void lockspan_plock_upgrade_free(lockspan_plock_upgrade_t *lock);

/* To Read. */
void lockspan_plock_upgrade_read(lockspan_plock_upgrade_t *lock);
int lockspan_plock_upgrade_try_read(lockspan_plock_upgrade_t *lock);
int lockspan_plock_upgrade_timed_read(lockspan_plock_upgrade_t *lock,
                                      const struct timespec *until);
void lockspan_plock_upgrade_read_done(lockspan_plock_upgrade_t *lock);

/*
 * The reader goes to Atomic: waits until every other reader has left or done
 * the same. No reader comes in meanwhile.
 */
void lockspan_plock_upgrade_read_to_atomic(lockspan_plock_upgrade_t *lock);
int lockspan_plock_upgrade_try_read_to_atomic(lockspan_plock_upgrade_t *lock);
int lockspan_plock_upgrade_timed_read_to_atomic(lockspan_plock_upgrade_t *lock,
                                                const struct timespec *until);
void lockspan_plock_upgrade_atomic_done(lockspan_plock_upgrade_t *lock);

/* ------------------------------------------------------------------------- *
 * lockspan_plock_claim_t: Read, Join, Claim, Atomic, Alone
 *
 *                      waits for          waits for
 *                       readers           claimants
 *     Read ----> Join ----------> Claim -----------> Atomic
 *     ^ ^        | ^ |              |                 ^ | |
 *     | |        | | |              |                 | | |
 *     | +--------+ | +----------- gives up -----------+ | |
 *     | gives up   |                |                   | |
 *     |            +------ for the next round ----------+ |
 *     |                             |                     |
 *     +---- gives up, stays inside -+                     |
 *     |                                                   |
 *     +------------- waits for other atomics -------------+
 *
 *     Unlocked ----> Read, Claim, Atomic or Alone
 *     Alone    ----> Read, Claim or Atomic, without waiting
 *
 *   state    beside it are              it may
 *   Read     readers, joiners           read
 *   Join     readers, joiners; until    read; after Atomic: nothing yet
 *            it claims itself also
 *            claimants or atomics
 *   Claim    others in Claim            mark by atomics what it will change,
 *                                       and see what others have marked
 *   Atomic   others in Atomic           change what it marked, or what goes
 *                                       together with all that may be marked
 *   Alone    nobody                     read and write
 *
 * From the first on that joins, or waits for Atomic, no reader comes in. When
 * all readers have left or joined, all joiners claim; when all claimants have
 * left or gone on, all of those are in Atomic; when the last has left or gone
 * on, others may read, or the next round begins.
 *
 * To give up in Join: join_done; join_to_read for a thread that came from Read;
 * join_to_atomic for one that came from Atomic. To give up in Claim, after
 * taking back the marks: claim_done; or claim_to_read, which lets the others
 * make their changes and then reads, with the structure held all the time.
 *
 * Threads that come to Atomic without a claim change the data too. What such a
 * thread did before it called is not ordered before what others in the same
 * atomic phase do, as a claimant's marks are.
 *
 * The note that this lock comes from calls three of the functions rtoc
 * (read_to_claim), take_c (claim) and atoc (atomic_to_claim).
 * ------------------------------------------------------------------------- */

/* The lock; a pointer to it is called its descriptor. */
typedef struct lockspan_plock_claim lockspan_plock_claim_t;

/* Makes a lock that nobody holds. NULL if there is no memory for it. */
lockspan_plock_claim_t *lockspan_plock_claim_new(void);
/* Destroys a lock that nobody holds or waits for, and no call still uses. */
void lockspan_plock_claim_free(lockspan_plock_claim_t *lock);

/* To Read. */
void lockspan_plock_claim_read(lockspan_plock_claim_t *lock);
int lockspan_plock_claim_try_read(lockspan_plock_claim_t *lock);
int lockspan_plock_claim_timed_read(lockspan_plock_claim_t *lock,
                                    const struct timespec *until);
void lockspan_plock_claim_read_done(lockspan_plock_claim_t *lock);

/*
 * To Claim: comes in as for Read, joins, and waits until every reader has left
 * or joined.
 */
void lockspan_plock_claim_claim(lockspan_plock_claim_t *lock);
int lockspan_plock_claim_try_claim(lockspan_plock_claim_t *lock);
int lockspan_plock_claim_timed_claim(lockspan_plock_claim_t *lock,
                                     const struct timespec *until);
/* Gives up; the caller has taken back its marks. */
void lockspan_plock_claim_claim_done(lockspan_plock_claim_t *lock);

/*
 * To Atomic, without a claim: for changes that go together with those of any
 * claimant. It comes in beside others in Atomic, unless one of them already
 * waits to read or for the next round. Else it waits until every reader and
 * every claimant has left or gone on.
 */
void lockspan_plock_claim_atomic(lockspan_plock_claim_t *lock);
int lockspan_plock_claim_try_atomic(lockspan_plock_claim_t *lock);
int lockspan_plock_claim_timed_atomic(lockspan_plock_claim_t *lock,
                                      const struct timespec *until);
void lockspan_plock_claim_atomic_done(lockspan_plock_claim_t *lock);

/* To Alone: waits until nobody is inside. */
void lockspan_plock_claim_alone(lockspan_plock_claim_t *lock);
int lockspan_plock_claim_try_alone(lockspan_plock_claim_t *lock);
int lockspan_plock_claim_timed_alone(lockspan_plock_claim_t *lock,
                                     const struct timespec *until);
void lockspan_plock_claim_alone_done(lockspan_plock_claim_t *lock);

/* The reader joins those who will claim; it does not wait. */
void lockspan_plock_claim_read_to_join(lockspan_plock_claim_t *lock);
/* The reader joins, and goes to Claim. */
void lockspan_plock_claim_read_to_claim(lockspan_plock_claim_t *lock);
int lockspan_plock_claim_try_read_to_claim(lockspan_plock_claim_t *lock);
int lockspan_plock_claim_timed_read_to_claim(lockspan_plock_claim_t *lock,
                                             const struct timespec *until);

/*
 * The joiner goes to Claim: waits until every reader has left or joined, and,
 * if it came from Atomic, until the others there have left or gone on.
 */
void lockspan_plock_claim_join_to_claim(lockspan_plock_claim_t *lock);
int lockspan_plock_claim_try_join_to_claim(lockspan_plock_claim_t *lock);
int lockspan_plock_claim_timed_join_to_claim(lockspan_plock_claim_t *lock,
                                             const struct timespec *until);
/* Gives up. */
void lockspan_plock_claim_join_done(lockspan_plock_claim_t *lock);
/*
 * Gives up and reads. A thread that came from Read need not wait for that until
 * the claim phase begins; then it waits for the others to make their changes.
 * EINPROGRESS: it is in Atomic, since the claim phase that it had joined for is
 * over and others change the data, so that what it read may be out of date; it
 * may go on with atomic_to_read, or end the hold.
 */
void lockspan_plock_claim_join_to_read(lockspan_plock_claim_t *lock);
int lockspan_plock_claim_try_join_to_read(lockspan_plock_claim_t *lock);
int lockspan_plock_claim_timed_join_to_read(lockspan_plock_claim_t *lock,
                                            const struct timespec *until);
/*
 * Gives up and goes to Atomic, without a claim. A thread that came from there
 * need not wait while another is there; later it waits for the next time.
 */
void lockspan_plock_claim_join_to_atomic(lockspan_plock_claim_t *lock);
int lockspan_plock_claim_try_join_to_atomic(lockspan_plock_claim_t *lock);
int lockspan_plock_claim_timed_join_to_atomic(lockspan_plock_claim_t *lock,
                                              const struct timespec *until);

/* The claimant goes to Atomic: waits until nobody claims any more. */
void lockspan_plock_claim_claim_to_atomic(lockspan_plock_claim_t *lock);
int lockspan_plock_claim_try_claim_to_atomic(lockspan_plock_claim_t *lock);
int lockspan_plock_claim_timed_claim_to_atomic(lockspan_plock_claim_t *lock,
                                               const struct timespec *until);
/*
 * Gives up and stays inside: waits until the other claimants have made their
 * changes, and reads again. Nothing happens to the structure meanwhile but what
 * others in Claim and Atomic do; some of these may have come to Atomic without
 * a claim. EBUSY from the try_ form if another claims or waits for Atomic.
 * EINPROGRESS: it is in Atomic, since nobody claims any more but others still
 * change; it may go on with atomic_to_read, or end the hold.
 */
void lockspan_plock_claim_claim_to_read(lockspan_plock_claim_t *lock);
int lockspan_plock_claim_try_claim_to_read(lockspan_plock_claim_t *lock);
int lockspan_plock_claim_timed_claim_to_read(lockspan_plock_claim_t *lock,
                                             const struct timespec *until);

/* Back to Read: waits until every other atomic has left or gone on. */
void lockspan_plock_claim_atomic_to_read(lockspan_plock_claim_t *lock);
int lockspan_plock_claim_try_atomic_to_read(lockspan_plock_claim_t *lock);
int lockspan_plock_claim_timed_atomic_to_read(lockspan_plock_claim_t *lock,
                                              const struct timespec *until);
/* Joins again, for the next round; it does not wait. */
void lockspan_plock_claim_atomic_to_join(lockspan_plock_claim_t *lock);
/*
 * Joins again, and goes to Claim for the next round. EINPROGRESS: it is in
 * Join, since others that were in Atomic already read, and nobody can be in
 * Atomic beside them; it may go on with join_to_claim, or give up.
 */
void lockspan_plock_claim_atomic_to_claim(lockspan_plock_claim_t *lock);
int lockspan_plock_claim_try_atomic_to_claim(lockspan_plock_claim_t *lock);
int lockspan_plock_claim_timed_atomic_to_claim(lockspan_plock_claim_t *lock,
                                               const struct timespec *until);

/*
 * From Alone, without waiting. In Claim it is still alone; in Atomic others may
 * come in beside it, by lockspan_plock_claim_atomic.
 */
void lockspan_plock_claim_alone_to_read(lockspan_plock_claim_t *lock);
void lockspan_plock_claim_alone_to_claim(lockspan_plock_claim_t *lock);
void lockspan_plock_claim_alone_to_atomic(lockspan_plock_claim_t *lock);

#ifdef __cplusplus
}
#endif

#endif /* LOCKSPAN_PLOCK_H */
