/*
 * Lockspan's revocable locks for C and C++. Link with -llockspan.
 *
 * A thread acquires a lock once and gets a ticket. With the ticket it stores to
 * the words of the lock as often as it likes; each store costs little more than
 * a plain store. Any thread may take the lock away at any time. When that call
 * returns, the old ticket stores nothing any more; its owner learns of it from
 * the result of its next call. So the lock protects single words: data that
 * takes several stores must be valid after each of them.
 *
 *     lockspan_rlock_t *lock = lockspan_rlock_new(2);        two words, both 0
 *     lockspan_rlock_ticket_t *ticket;
 *     if (lockspan_rlock_lock(lock, LOCKSPAN_RLOCK_FORCE, &ticket) == 0) {
 *         if (lockspan_rlock_store_64(ticket, 0, 7) == ECANCELED)
 *             ... another thread has taken the lock; nothing was stored ...
 *         lockspan_rlock_release(ticket);
 *     }
 *     lockspan_rlock_free(lock);
 *
 * A thread that stores in batches need not release the lock between them: it
 * calls lockspan_rlock_relock before each batch, which costs a load and a
 * comparison while nobody has taken the lock.
 *
 * What functions return
 *
 *   0          done
 *   ECANCELED  the ticket does not own the lock any more; nothing was stored
 *   EBUSY      another thread owns the lock, and the policy does not take it
 *   EINVAL     there is no such word or policy, an address is null or not
 *              aligned, or the pointer for a result is null
 *   EPERM      the ticket was acquired by another thread; nothing was done
 *   EAGAIN     this thread cannot own a lock: it is ending, or has no
 *              restartable sequences
 *   ENOMEM     there is no memory for the ticket; the thread that owned the
 *              lock may have lost it
 *
 *   Any value but 0 means that no word was changed.
 *
 * Rules, which the C compiler cannot check
 *
 *  - A ticket belongs to the thread that acquired it. That thread passes it to
 *    lockspan_rlock_release once, whether it still owns the lock or not, and
 *    does not use it afterwards: the call frees it. A thread that ends without
 *    doing so leaks its tickets, and their locks cannot be freed.
 *  - A thread that locks what it owns already gets the same ticket, and
 *    releases it once for each lockspan_rlock_lock that returned it. The first
 *    of these releases frees the lock, so that the ticket does not own it any
 *    more (ECANCELED); the last one frees the ticket. To lock before each batch
 *    of stores, use lockspan_rlock_relock instead.
 *  - lockspan_rlock_free: all tickets of the lock were released, and no call on
 *    it still runs.
 *  - No function is a cancellation point (pthread_cancel).
 *  - Signal handlers must not call any of these functions. A handler may
 *    interrupt any of them.
 *  - In the child of a fork, tickets of the forking thread stay good; locks that
 *    other threads owned are free. A child of vfork must not use any of this.
 *  - dlclose does not unload the library once it has chosen the backend rseq:
 *    the kernel may still look at its code.
 *
 * Misuse that can be detected and has no error number above prints one line to
 * standard error and aborts: a null descriptor or ticket, the free of a lock
 * that has tickets or is a part of a lockspan_rlock_percpu_t, or
 * lockspan_rlock_percpu_next with a lock that is not a part. Any other invalid
 * pointer is undefined behaviour.
 */
#ifndef LOCKSPAN_RLOCK_H
#define LOCKSPAN_RLOCK_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What to do if another thread owns the lock. */
#define LOCKSPAN_RLOCK_NEVER 0 /* do not take it: EBUSY */
#define LOCKSPAN_RLOCK_LOCAL 1 /* take it if no other processor has to be
                                  interrupted; may be EBUSY at any time */
#define LOCKSPAN_RLOCK_FORCE 2 /* take it; never EBUSY */

/* The lock with its words; a pointer to it is called its descriptor. */
typedef struct lockspan_rlock lockspan_rlock_t;

/* A ticket: what a thread stores with. */
typedef struct lockspan_rlock_ticket lockspan_rlock_ticket_t;

/* One acquisition of a lock: a number that is never used twice, and that stays
   the same until the lock is released or taken away. 0 means that the lock is
   free. */
typedef uint64_t lockspan_rlock_owner_t;

/* Makes a lock that nobody owns, with this many words of 64 bits, all 0. NULL if
   there is no memory for it. */
lockspan_rlock_t *lockspan_rlock_new(size_t words);
/* Destroys a lock that has no tickets. */
void lockspan_rlock_free(lockspan_rlock_t *lock);

/* Becomes the owner and puts the ticket into *ticket. When this returns 0, no
   other acquisition of this lock stores any more. If this thread owns the lock
   already, it gets the same ticket again, whatever the policy, and has to release
   it once more. A new ticket has no limit (lockspan_rlock_limit). */
int lockspan_rlock_lock(lockspan_rlock_t *lock, int policy,
                        lockspan_rlock_ticket_t **ticket);
/* Takes the lock from its owner and leaves it free. */
int lockspan_rlock_cancel(lockspan_rlock_t *lock, int policy);
/* Puts the acquisition that owns the lock at this moment into *owner, or 0. */
int lockspan_rlock_owner(const lockspan_rlock_t *lock,
                         lockspan_rlock_owner_t *owner);
/* Takes the lock from this one owner, if it still owns it, and leaves it free.
   0 if it was taken, and also if that acquisition had ended before: then the
   current owner keeps the lock, even if it is the same thread. In both cases
   the given owner stores nothing under this lock any more. */
int lockspan_rlock_owner_cancel(lockspan_rlock_owner_t owner,
                                lockspan_rlock_t *lock, int policy);
/* A word's value, for any thread: puts it into *value. */
int lockspan_rlock_peek_64(const lockspan_rlock_t *lock, size_t word,
                           uint64_t *value);

/* Stores to a word. */
int lockspan_rlock_store_64(lockspan_rlock_ticket_t *ticket, size_t word,
                            uint64_t value);
/* Stores to any address that is aligned to 8 bytes, if the ticket owns its
   lock. Meanwhile other threads touch the 8 bytes there by atomic loads and
   stores, or through tickets of the same lock; a thread that owns the lock may
   use ordinary loads and stores as long as no other thread acquires it. The
   address stays one that can be written even if the lock is taken away before
   or during the call: it must not be unmapped for that reason. An address that
   cannot be written is a fault (SIGSEGV, SIGBUS) as with any store. A handler
   makes it writable and returns, and then the store is made if the lock is still
   owned, or it ends the process; it must not jump out of the call (siglongjmp).
   A thread that takes the lock while the handler runs waits for it with the
   backends membarrier and plain, and prevents the store with rseq. */
int lockspan_rlock_store_at_64(lockspan_rlock_ticket_t *ticket, uint64_t *at,
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
/* Makes the ticket own its lock again, if that was taken away or released: as
   lockspan_rlock_lock, but with the ticket that there is. If the ticket owns the
   lock, that is a load and a comparison. After an error the ticket is as it
   was. */
int lockspan_rlock_relock(lockspan_rlock_ticket_t *ticket, int policy);
/* From now on the ticket releases its lock after this many successful stores
   (store, store_at, add, compare_and_store), and has to be locked again. The
   count begins anew with each such lock. 0, the default, is no limit. The limit
   is the ticket's: lockspan_rlock_relock and lockspan_rlock_percpu_lock keep it;
   lockspan_rlock_lock, once the lock is released, gives another ticket, which has
   none. */
int lockspan_rlock_limit(lockspan_rlock_ticket_t *ticket, uint64_t stores);
/* Puts the acquisition that the ticket stands for into *owner. */
int lockspan_rlock_ticket_owner(lockspan_rlock_ticket_t *ticket,
                                lockspan_rlock_owner_t *owner);
/* Releases the lock and frees the ticket, or counts one release of a ticket
   that this thread has got several times. ECANCELED if the ticket did not own
   the lock any more: the ticket is freed all the same. */
int lockspan_rlock_release(lockspan_rlock_ticket_t *ticket);
/* Releases all locks that this thread owns, at once. Its tickets can then only
   be passed to lockspan_rlock_relock and lockspan_rlock_release. */
void lockspan_rlock_release_all(void);

/*
 * Per-CPU words
 *
 * Each processor has a lock with words, a part, and spare parts. A thread owns
 * its processor's part until another thread takes it: the next one on the same
 * processor does so at once, even if the owner was preempted, and so does a
 * thread that goes through all parts, from any processor. With the backend
 * membarrier the next one takes a spare part instead, even if the owner was
 * preempted.
 *
 *     lockspan_rlock_ticket_t *ticket = NULL;
 *     for (;;) {                                        each batch of a thread
 *         lockspan_rlock_percpu_lock(percpu, &ticket);
 *         lockspan_rlock_add_64(ticket, 0, 1);          or ECANCELED: lock again
 *     }
 *     lockspan_rlock_release(ticket);
 *
 *     lockspan_rlock_t *part = NULL;                    any thread, for the sum
 *     while ((part = lockspan_rlock_percpu_next(percpu, part))) {
 *         lockspan_rlock_lock(part, LOCKSPAN_RLOCK_FORCE, &each);
 *         lockspan_rlock_load_64(each, 0, &value);      or ECANCELED: lock again
 *         lockspan_rlock_release(each);
 *     }
 *
 * A thread that sums up its own part as well gives it up with that release: its
 * next store is ECANCELED, and it locks again. So a sum stands between two
 * batches, not inside one that is tried until it succeeds.
 *
 * Words that were loaded from one part are consistent with each other if the
 * last of these calls has returned 0. There is no snapshot of all parts.
 */
typedef struct lockspan_rlock_percpu lockspan_rlock_percpu_t;

/* Makes a part with this many words, all 0, for each processor that the machine
   can have. NULL if there is no memory for them. */
lockspan_rlock_percpu_t *lockspan_rlock_percpu_new(size_t words);
/* Destroys all parts. None has tickets. */
void lockspan_rlock_percpu_free(lockspan_rlock_percpu_t *percpu);
/* Becomes the owner of a part of this processor, and puts the ticket into
   *ticket, which is NULL before, or a ticket from this call. If that one owns the
   part, it stays; else it is released, and the new one has its limit. Either way
   *ticket is released once in the end. Takes a spare part if the first one cannot
   be taken without an interrupt: its owner has acquired or stored on another
   processor since, or is acquiring it at this moment; with the backend
   membarrier, if another thread owns it. At most 8 parts of a processor are made;
   then, or if there is no memory for a spare one, the first one is taken by
   force. Never EBUSY. */
int lockspan_rlock_percpu_lock(lockspan_rlock_percpu_t *percpu,
                               lockspan_rlock_ticket_t **ticket);
/* The part after this one, spare ones as well; the first one for NULL, and NULL
   after the last one. A walk to the end meets each part once that was there when
   it began, and perhaps some that were made meanwhile. A part is freed with the
   whole. */
lockspan_rlock_t *lockspan_rlock_percpu_next(lockspan_rlock_percpu_t *percpu,
                                             const lockspan_rlock_t *part);

/* The backend that this process uses, and why: "rseq: glibc has registered ...". */
const char *lockspan_rlock_backend(void);

#ifdef __cplusplus
}
#endif

#endif
