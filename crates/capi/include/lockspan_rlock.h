/*
 * Lockspan's revocable locks for C and C++. Link with -llockspan.
 *
 * A thread acquires a lock once and gets a ticket; with it, it stores to the
 * words of the lock as often as it likes, and each store costs little more than
 * the store. Any thread may take the lock away at any time. When that call
 * returns, the old ticket stores nothing any more; its owner learns of it from
 * the result of its next call. So the lock protects single words: what takes
 * several stores must be sound after each of them.
 *
 *     lockspan_rlock_t *lock = lockspan_rlock_new(2);        two words, both 0
 *     lockspan_rlock_ticket_t *ticket;
 *     if (lockspan_rlock_lock(lock, LOCKSPAN_RLOCK_FORCE, &ticket) == 0) {
 *         if (lockspan_rlock_store_64(ticket, 0, 7) == ECANCELED)
 *             ... somebody has taken the lock; nothing was stored ...
 *         lockspan_rlock_release(ticket);
 *     }
 *     lockspan_rlock_free(lock);
 *
 * What functions return
 *
 *   0          it was done
 *   ECANCELED  the ticket does not own the lock any more; nothing was stored
 *   EBUSY      somebody owns the lock, and the policy leaves it to them
 *   EINVAL     there is no such word or policy, or a result has nowhere to go
 *   EPERM      the ticket was acquired by another thread; nothing was done
 *   EAGAIN     this thread can own nothing: it is ending, or the kernel knows
 *              nothing of it
 *   ENOMEM     there is no memory for the ticket; whoever owned the lock may
 *              have lost it
 *
 *   Any value but 0 means that no word was changed.
 *
 * Rules, which a compiler for C cannot check
 *
 *  - A ticket belongs to the thread that acquired it. Each is given to
 *    lockspan_rlock_release once, by that thread, whether it still owns the lock
 *    or not, and not used afterwards: the call frees it. A thread that ends
 *    with tickets leaves their memory behind, and their locks cannot be freed.
 *  - lockspan_rlock_free: all tickets of the lock were released, and no call on
 *    it still runs.
 *  - No function is a cancellation point (pthread_cancel).
 *  - No function is for a signal handler. A handler may interrupt any of them.
 *  - In the child of a fork, tickets of the thread that forked go on; locks
 *    that other threads own are free. A child of vfork must not use any.
 *  - dlclose does not unload the library once it has chosen the backend rseq:
 *    the kernel may still look at its code.
 *
 * Misuse that can be seen is never passed over in silence: where there is no
 * code for it above, a null descriptor or ticket, or the free of a lock that has
 * tickets, it prints one line to standard error and aborts. Any other invalid
 * pointer is undefined behaviour.
 */
#ifndef LOCKSPAN_RLOCK_H
#define LOCKSPAN_RLOCK_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What to do if somebody owns the lock. */
#define LOCKSPAN_RLOCK_NEVER 0 /* leave it to them */
#define LOCKSPAN_RLOCK_LOCAL 1 /* take it if no other processor has to be
                                  interrupted; may be EBUSY at any time */
#define LOCKSPAN_RLOCK_FORCE 2 /* take it; never EBUSY */

/* The lock with its words; a pointer to it is called its descriptor. */
typedef struct lockspan_rlock lockspan_rlock_t;

/* One acquisition. */
typedef struct lockspan_rlock_ticket lockspan_rlock_ticket_t;

/* Makes a lock that nobody owns, with this many words of 64 bits, all 0. NULL if
   there is no memory for it. */
lockspan_rlock_t *lockspan_rlock_new(size_t words);
/* Destroys a lock that has no tickets. */
void lockspan_rlock_free(lockspan_rlock_t *lock);

/* Becomes the owner and puts the ticket into *ticket. When this returns 0, no
   other ticket of this lock stores any more. */
int lockspan_rlock_lock(lockspan_rlock_t *lock, int policy,
                        lockspan_rlock_ticket_t **ticket);
/* Takes the lock from its owner and leaves it to nobody. */
int lockspan_rlock_cancel(lockspan_rlock_t *lock, int policy);
/* A word's value, for any thread: puts it into *value. */
int lockspan_rlock_peek_64(const lockspan_rlock_t *lock, size_t word,
                           uint64_t *value);

/* Stores to a word. */
int lockspan_rlock_store_64(lockspan_rlock_ticket_t *ticket, size_t word,
                            uint64_t value);
/* Adds to a word, wrapping around. */
int lockspan_rlock_add_64(lockspan_rlock_ticket_t *ticket, size_t word,
                          uint64_t n);
/* Puts a word's value into *value; it was read while the ticket owned the lock. */
int lockspan_rlock_load_64(lockspan_rlock_ticket_t *ticket, size_t word,
                           uint64_t *value);
/* Stores value if the word is *expected. If it is not, the call returns 0 as
   well, stores nothing and puts what the word is into *expected. */
int lockspan_rlock_compare_and_store_64(lockspan_rlock_ticket_t *ticket,
                                        size_t word, uint64_t *expected,
                                        uint64_t value);
/* Leaves the lock to nobody and frees the ticket. ECANCELED if the lock was
   somebody else's or nobody's already: the ticket is freed all the same. */
int lockspan_rlock_release(lockspan_rlock_ticket_t *ticket);
/* Releases everything that this thread owns, at once: its tickets are good for
   lockspan_rlock_release only. */
void lockspan_rlock_release_all(void);

/* What this process uses, and why: "rseq: glibc has registered ...". */
const char *lockspan_rlock_backend(void);

#ifdef __cplusplus
}
#endif

#endif
