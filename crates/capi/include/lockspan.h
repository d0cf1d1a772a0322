/*
 * Lockspan's fair read-write lock for C and C++. Link with -llockspan. For locks
 * whose holder moves on from state to state see lockspan_plock.h.
 *
 * Any number of readers can pass the lock concurrently, but only one writer can
 * have access at any time, and that access cannot be combined with any other.
 * Neither readers nor writers can starve: threads that come later may pass one
 * that waits for at most 10 ms, and from then on it is served in turn. What it
 * waits for beyond that is the time that the holders before it take.
 *
 *     lt_rwlock_t *lock = lt_rwlock_new();
 *     lt_rwlock_read_lock(lock);
 *     ... look ...
 *     lt_rwlock_read_unlock(lock);
 *     lt_rwlock_free(lock);
 *
 * Rules
 *
 *  - Each successful *_lock, *_trylock or *_timedlock is paired with one
 *    *_unlock of the same kind, even if the calling thread is cancelled. No
 *    function is a cancellation point; a signal does not end a wait.
 *  - A thread that has the lock must not wait for it again, in either mode: it
 *    may wait for itself. A *_trylock is always safe.
 *  - A lock serves the threads of one process, and is not for a signal handler.
 *  - In the child of a fork, the thread that forked still holds what it held,
 *    and may unlock it. What other threads held stays locked; threads that only
 *    waited are forgotten. So handlers of pthread_atfork that lock for writing
 *    before the fork, and unlock in parent and child, leave the child a lock
 *    that it can use. With a read lock in such handlers the child's lock may
 *    stay locked for writers, as other readers may have had it too.
 *
 * Misuse that the lock can see is never passed over in silence: a null
 * descriptor, an unlock of a lock that is not locked that way, or the free of
 * a lock that is in use prints one line to standard error and aborts. Any
 * other invalid descriptor is undefined behaviour.
 */
#ifndef LOCKSPAN_H
#define LOCKSPAN_H

#include <time.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A read-write lock; a pointer to it is called its descriptor. */
typedef struct lt_rwlock lt_rwlock_t;

/* Creates an unlocked lock. NULL if there is no memory for it. */
lt_rwlock_t *lt_rwlock_new(void);

/*
 * Destroys a lock that nobody holds or waits for. The last owner may call this
 * right after its unlock, even if unlock calls of earlier owners have not yet
 * returned: it waits until they have done with the lock.
 */
void lt_rwlock_free(lt_rwlock_t *lock);

/* Waits for read access. */
void lt_rwlock_read_lock(lt_rwlock_t *lock);

/* Gives up read access. */
void lt_rwlock_read_unlock(lt_rwlock_t *lock);

/* Waits for write access. */
void lt_rwlock_write_lock(lt_rwlock_t *lock);

/* Gives up write access. */
void lt_rwlock_write_unlock(lt_rwlock_t *lock);

/* Takes read access and returns 0, or EBUSY if that would mean waiting. */
int lt_rwlock_read_trylock(lt_rwlock_t *lock);

/* Takes write access and returns 0, or EBUSY if that would mean waiting. */
int lt_rwlock_write_trylock(lt_rwlock_t *lock);

/*
 * Waits for read access until CLOCK_MONOTONIC shows *until, an absolute time.
 * That clock is never set, so the wait has the intended length; take the
 * present time with clock_gettime(CLOCK_MONOTONIC, ...) and add to it.
 *
 * Returns 0 with the lock held; ETIMEDOUT if the time came first (a lock that
 * is free is taken however late it is); EINVAL, without a look at the lock, if
 * until is null or its nanoseconds are not in 0 .. 999 999 999.
 */
int lt_rwlock_read_timedlock(lt_rwlock_t *lock, const struct timespec *until);

/* The same for write access. */
int lt_rwlock_write_timedlock(lt_rwlock_t *lock, const struct timespec *until);

#ifdef __cplusplus
}
#endif

#endif /* LOCKSPAN_H */
