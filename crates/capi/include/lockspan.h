/*
 * Lockspan's fair read-write lock for C and C++. Link with -llockspan.
 * lockspan_plock.h has locks whose holder moves from state to state,
 * lockspan_rlock.h has locks that any thread can take from their owner.
 *
 * Any number of readers hold the lock together, or one writer alone. Neither
 * readers nor writers can starve: threads that come later may pass a waiting
 * thread for at most 10 ms; then the waiting thread is served in turn. Beyond
 * that it waits only as long as the holders before it keep the lock.
 *
 *     lt_rwlock_t *lock = lt_rwlock_new();
 *     lt_rwlock_read_lock(lock);
 *     ... read the data ...
 *     lt_rwlock_read_unlock(lock);
 *     lt_rwlock_free(lock);
 *
 * Rules
 *
 *  - Each successful *_lock, *_trylock or *_timedlock is paired with one
 *    *_unlock of the same kind, even if the calling thread is cancelled. No
 *    function is a cancellation point; a signal does not end a wait.
 *  - The lock is not re-entrant: a thread that holds it must not wait for it
 *    again, in either mode. That can be a deadlock. A *_trylock is always safe.
 *  - A lock is for the threads of one process. Signal handlers must not use it.
 *  - In the child of a fork, the forking thread still holds what it held, and
 *    may unlock it. What other threads held stays locked; threads that waited
 *    are forgotten. So handlers of pthread_atfork work if they lock for writing
 *    before the fork and unlock in the parent and in the child. With a read
 *    lock they do not: other readers may hold the lock in the child,
 *    where no thread can release it.
 *
 * Misuse that the lock can detect prints one line to standard error and aborts:
 * a null descriptor, an unlock of a lock that is not locked in that mode, or
 * the free of a lock that is in use. Any other invalid descriptor is undefined
 * behaviour.
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
 * returned: this call waits for them.
 */
void lt_rwlock_free(lt_rwlock_t *lock);

/* Waits for read access. */
void lt_rwlock_read_lock(lt_rwlock_t *lock);

/* Releases read access. */
void lt_rwlock_read_unlock(lt_rwlock_t *lock);

/* Waits for write access. */
void lt_rwlock_write_lock(lt_rwlock_t *lock);

/* Releases write access. */
void lt_rwlock_write_unlock(lt_rwlock_t *lock);

/* Takes read access and returns 0, or EBUSY if that would mean waiting. */
int lt_rwlock_read_trylock(lt_rwlock_t *lock);

/* Takes write access and returns 0, or EBUSY if that would mean waiting. */
int lt_rwlock_write_trylock(lt_rwlock_t *lock);

/*
 * Waits for read access until CLOCK_MONOTONIC shows *until, an absolute time.
 * Take the current time with clock_gettime(CLOCK_MONOTONIC, ...) and add to it.
 *
 * Returns 0 with the lock held. Returns ETIMEDOUT if the time came first; a free
 * lock is taken even if the time has passed. Returns EINVAL, without touching
 * the lock, if until is null or its nanoseconds are not in 0 .. 999 999 999.
 */
int lt_rwlock_read_timedlock(lt_rwlock_t *lock, const struct timespec *until);

/* The same for write access. */
int lt_rwlock_write_timedlock(lt_rwlock_t *lock, const struct timespec *until);

#ifdef __cplusplus
}
#endif

#endif /* LOCKSPAN_H */
