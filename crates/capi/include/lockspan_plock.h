/*
 * Lockspan's progressive locks for C and C++. Link with -llockspan.
 *
 * A holder of a progressive lock moves from state to state, and each state
 * excludes more. There are three locks, each with its own type.
 *
 *   lockspan_plock_t           Read, Seek, Write, Atomic
 *       for readers that sometimes find that they must write
 *   lockspan_plock_upgrade_t   Read, Atomic
 *       for readers that find that they must change atomic variables, and must
 *       never be refused
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
 *   PREFIX_STATE                acquires the lock in that state; waits
 *   PREFIX_STATE_done           releases the lock in that state; does not wait
 *                               for other holders, but may take a mutex of the
 *                               lock for a moment to wake waiting threads
 *   PREFIX_STATE_to_OTHER       moves on to another state
 *   PREFIX_try_...              the same without waiting
 *   PREFIX_timed_...            the same for a limited time
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
 *              before it is done. A call that need not wait succeeds even if
 *              the time has passed, so a time in the past makes it a try_...,
 *              except for three functions: see EINPROGRESS. EINVAL, without
 *              touching the lock, if until is null or its nanoseconds are not
 *              in 0 .. 999 999 999.
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
 *  - The locks are not re-entrant: a thread that holds one must not wait for it
 *    again. That can be a deadlock. A try_... is always safe.
 *  - PREFIX_free: no call on the lock may still run in any other thread, not
 *    even one that has ended a hold and is about to return. Join the threads
 *    first, or know by other means that their calls have returned. (This is
 *    stricter than lt_rwlock_free of lockspan.h.)
 *  - A lock counts its holders. lockspan_plock_t and lockspan_plock_upgrade_t
 *    let at most 524 286 in to read, and a seeker that becomes a reader makes it
 *    524 287; readers and atomics together are at most 524 287, and so are all
 *    holders of lockspan_plock_claim_t. For one more, try_... returns EBUSY,
 *    timed_... waits for a holder to leave until its time, and a function
 *    without a limit prints one line to standard error and aborts; one that is
 *    queued already goes on waiting.
 *  - A thread that has to sleep allocates a little memory; if there is none,
 *    the program aborts.
 *  - A lock is for the threads of one process. Signal handlers must not use it.
 *  - In the child of a fork, the forking thread still holds what it held. What
 *    other threads held stays held. If another thread waited for a lock at the
 *    fork, the child must not use that lock, not even to release it: a call may
 *    wait for a thread that the child does not have. (This is stricter than for
 *    the lock of lockspan.h.)
 *
 * Misuse that the lock can detect prints one line to standard error and aborts:
 * a null descriptor, a call that releases or converts a state that nobody
 * holds, or the free of a lock that is in use. Any other invalid descriptor is
 * undefined behaviour. The lock does not record which thread holds it: a call
 * on another thread's hold is not detected.
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
 *   Atomic   others in Atomic           change atomic variables in the data
 *
 * While a thread waits to write, or for Atomic, no further reader enters.
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
 * The reader becomes the seeker. EBUSY, and still a reader, if there is a seeker
 * or a thread waits for the readers to leave. Then call read_done and
 * lockspan_plock_seek, and read again: others may have written in between.
 */
int lockspan_plock_try_read_to_seek(lockspan_plock_t *lock);

/*
 * The reader goes to Atomic: waits until every other reader has left or done
 * the same. It is refused at once, EBUSY and still a reader, if a thread seeks
 * or waits to write: the two would deadlock.
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
 * this call on no other thread enters Atomic.
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
 *   Atomic   others in Atomic           change atomic variables in the data
 *
 * There is no way back from Atomic to Read; release the lock instead.
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
 * the same. No reader enters meanwhile.
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
 * Once a thread has joined, or waits for Atomic, no reader enters. When all
 * readers have left or joined, all joiners are in Claim. When all claimants
 * have left or moved on, those that moved on are in Atomic. When the last of
 * them has left or moved on, others may read, or the next round begins.
 *
 * To give up in Join: join_done; join_to_read for a thread that came from Read;
 * join_to_atomic for one that came from Atomic. To give up in Claim, after
 * taking back the marks: claim_done; or claim_to_read, which lets the others
 * make their changes and then reads, with the structure held all the time.
 *
 * Threads that enter Atomic without a claim change the data too. What such a
 * thread did before the call is not ordered before what others do in the same
 * atomic phase, unlike a claimant's marks.
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
 * To Claim: enters as for Read, joins, and waits until every reader has left or
 * joined.
 */
void lockspan_plock_claim_claim(lockspan_plock_claim_t *lock);
int lockspan_plock_claim_try_claim(lockspan_plock_claim_t *lock);
int lockspan_plock_claim_timed_claim(lockspan_plock_claim_t *lock,
                                     const struct timespec *until);
/* Gives up. The caller has taken back its marks before. */
void lockspan_plock_claim_claim_done(lockspan_plock_claim_t *lock);

/*
 * To Atomic, without a claim: for changes that are compatible with those of any
 * claimant. Enters beside others in Atomic, unless one of them already waits to
 * read or for the next round. Otherwise waits until every reader and every
 * claimant has left or moved on.
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

/* The reader joins the threads that will claim; does not wait. */
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
 * Gives up and reads. A thread that came from Read does not wait before the
 * claim phase begins; after that it waits for the others to make their changes.
 * EINPROGRESS: the thread is now in Atomic. The claim phase that it had joined
 * for is over and others change the data, so what it read may be out of date.
 * Call atomic_to_read or atomic_done next.
 */
void lockspan_plock_claim_join_to_read(lockspan_plock_claim_t *lock);
int lockspan_plock_claim_try_join_to_read(lockspan_plock_claim_t *lock);
int lockspan_plock_claim_timed_join_to_read(lockspan_plock_claim_t *lock,
                                            const struct timespec *until);
/*
 * Gives up and goes to Atomic, without a claim. A thread that came from Atomic
 * does not wait while another thread is there; later it waits for the next
 * atomic phase.
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
 * EINPROGRESS: the thread is now in Atomic, because nobody claims any more but
 * others still change the data. Call atomic_to_read or atomic_done next.
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
 * Joins again, and goes to Claim for the next round. EINPROGRESS: the thread is
 * now in Join, because others that were in Atomic already read, and no thread
 * can be in Atomic beside them. Call join_to_claim, or give up.
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
