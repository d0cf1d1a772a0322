/* Every function of the revocable locks keeps its word, and threads that rob each other lose no
   update. */
#include <stdint.h>
#include <string.h>

#include "check.h"
#include "lockspan_rlock.h"

static lockspan_rlock_t *lock;
static lockspan_rlock_ticket_t *foreign;

static uint64_t peek(size_t word) {
    uint64_t value = 0;
    CHECK(lockspan_rlock_peek_64(lock, word, &value), 0);
    return value;
}

static void *use_anothers_ticket(void *unused) {
    uint64_t value = 5;
    CHECK(lockspan_rlock_store_at_64(foreign, &value, 1), EPERM);
    CHECK(lockspan_rlock_relock(foreign, LOCKSPAN_RLOCK_FORCE), EPERM);
    CHECK(lockspan_rlock_limit(foreign, 1), EPERM);
    CHECK(lockspan_rlock_ticket_owner(foreign, &value), EPERM);
    CHECK(lockspan_rlock_store_64(foreign, 0, 1), EPERM);
    CHECK(lockspan_rlock_load_64(foreign, 0, &value), EPERM);
    CHECK(lockspan_rlock_release(foreign), EPERM);
    return unused;
}

static void elsewhere(void *(*work)(void *)) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, work, NULL), 0);
    CHECK(pthread_join(thread, NULL), 0);
}

static void *hold_back(void *unused) {
    lockspan_rlock_ticket_t *ticket;
    CHECK(lockspan_rlock_lock(lock, LOCKSPAN_RLOCK_NEVER, &ticket), EBUSY);
    return unused;
}

static lockspan_rlock_owner_t wanted;

static void *cancel_wanted(void *unused) {
    CHECK(lockspan_rlock_owner_cancel(wanted, lock, LOCKSPAN_RLOCK_FORCE), 0);
    return unused;
}

/* A cancel that names an owner ends that one alone. */
static void owners(void) {
    lockspan_rlock_ticket_t *ticket;
    lockspan_rlock_owner_t first, second, now = 7;
    lock = lockspan_rlock_new(1);
    CHECK(lockspan_rlock_owner(lock, &now), 0);
    CHECK(now, 0);
    CHECK(lockspan_rlock_owner(lock, NULL), EINVAL);
    CHECK(lockspan_rlock_lock(lock, LOCKSPAN_RLOCK_NEVER, &ticket), 0);
    CHECK(lockspan_rlock_ticket_owner(ticket, &first), 0);
    CHECK(lockspan_rlock_ticket_owner(ticket, NULL), EINVAL);
    CHECK(lockspan_rlock_owner(lock, &now), 0);
    CHECK(now == first && first != 0, 1);
    CHECK(lockspan_rlock_owner_cancel(first, lock, LOCKSPAN_RLOCK_NEVER), EBUSY);
    CHECK(lockspan_rlock_owner_cancel(first, lock, 3), EINVAL);
    CHECK(lockspan_rlock_release(ticket), 0);
    CHECK(lockspan_rlock_lock(lock, LOCKSPAN_RLOCK_NEVER, &ticket), 0);
    CHECK(lockspan_rlock_ticket_owner(ticket, &second), 0);
    CHECK(first != second, 1);
    wanted = first;
    elsewhere(cancel_wanted);
    CHECK(lockspan_rlock_owner_cancel(0, lock, LOCKSPAN_RLOCK_FORCE), 0);
    CHECK(lockspan_rlock_owner_cancel(~0ull, lock, LOCKSPAN_RLOCK_FORCE), 0);
    CHECK(lockspan_rlock_store_64(ticket, 0, 1), 0);
    wanted = second;
    elsewhere(cancel_wanted);
    CHECK(lockspan_rlock_store_64(ticket, 0, 2), ECANCELED);
    CHECK(peek(0), 1);
    CHECK(lockspan_rlock_relock(ticket, LOCKSPAN_RLOCK_NEVER), 0);
    CHECK(lockspan_rlock_store_64(ticket, 0, 3), 0);
    CHECK(lockspan_rlock_release(ticket), 0);
    lockspan_rlock_free(lock);
}

static void anywhere_and_limits(void) {
    lockspan_rlock_ticket_t *ticket;
    static uint64_t there[2];
    lock = lockspan_rlock_new(0);
    CHECK(lockspan_rlock_lock(lock, LOCKSPAN_RLOCK_NEVER, &ticket), 0);
    CHECK(lockspan_rlock_store_at_64(ticket, &there[1], 5), 0);
    CHECK(there[1], 5);
    CHECK(lockspan_rlock_store_at_64(ticket, NULL, 5), EINVAL);
    CHECK(lockspan_rlock_store_at_64(ticket, (uint64_t *)((char *)there + 4), 5), EINVAL);
    CHECK(there[0], 0);
    CHECK(lockspan_rlock_limit(ticket, 2), 0);
    for (uint64_t round = 0; round < 5; round++) {
        CHECK(lockspan_rlock_relock(ticket, LOCKSPAN_RLOCK_NEVER), 0);
        CHECK(lockspan_rlock_store_at_64(ticket, &there[0], round), 0);
        CHECK(lockspan_rlock_store_at_64(ticket, &there[1], round), 0);
        CHECK(lockspan_rlock_store_at_64(ticket, &there[0], 99), ECANCELED);
        CHECK(there[0] == round && there[1] == round, 1);
    }
    CHECK(lockspan_rlock_limit(ticket, 0), 0);
    CHECK(lockspan_rlock_relock(ticket, LOCKSPAN_RLOCK_NEVER), 0);
    for (uint64_t round = 0; round < 100; round++)
        CHECK(lockspan_rlock_store_at_64(ticket, &there[0], round), 0);
    CHECK(lockspan_rlock_release(ticket), 0);
    lockspan_rlock_free(lock);
}

static void codes(void) {
    lockspan_rlock_ticket_t *one, *two = NULL;
    uint64_t value = 9;
    pthread_t thread;

    lock = lockspan_rlock_new(2);
    CHECK(lock != NULL, 1);
    CHECK(lockspan_rlock_lock(lock, LOCKSPAN_RLOCK_NEVER, &one), 0);
    CHECK(lockspan_rlock_store_64(one, 1, 41), 0);
    CHECK(lockspan_rlock_add_64(one, 1, 1), 0);
    CHECK(lockspan_rlock_load_64(one, 1, &value), 0);
    CHECK(value, 42);
    CHECK(peek(1), 42);
    CHECK(lockspan_rlock_compare_and_store_64(one, 1, &value, 43), 0);
    CHECK(peek(1), 43);
    CHECK(lockspan_rlock_compare_and_store_64(one, 1, &value, 44), 0);
    CHECK(value, 43);
    CHECK(peek(1), 43);

    /* What there is not. */
    CHECK(lockspan_rlock_store_64(one, 2, 1), EINVAL);
    CHECK(lockspan_rlock_add_64(one, (size_t)-1, 1), EINVAL);
    CHECK(lockspan_rlock_load_64(one, 0, NULL), EINVAL);
    CHECK(lockspan_rlock_compare_and_store_64(one, 0, NULL, 1), EINVAL);
    CHECK(lockspan_rlock_peek_64(lock, 2, &value), EINVAL);
    CHECK(lockspan_rlock_lock(lock, 3, &two), EINVAL);
    CHECK(lockspan_rlock_lock(lock, LOCKSPAN_RLOCK_FORCE, NULL), EINVAL);
    CHECK(lockspan_rlock_cancel(lock, -1), EINVAL);

    /* Another thread's. */
    foreign = one;
    CHECK(pthread_create(&thread, NULL, use_anothers_ticket, NULL), 0);
    CHECK(pthread_join(thread, NULL), 0);
    CHECK(lockspan_rlock_store_64(one, 0, 7), 0);

    /* The same ticket again, until it is taken away. */
    CHECK(lockspan_rlock_lock(lock, LOCKSPAN_RLOCK_NEVER, &two), 0);
    CHECK(two == one, 1);
    CHECK(lockspan_rlock_relock(one, LOCKSPAN_RLOCK_NEVER), 0);
    CHECK(lockspan_rlock_relock(one, 3), EINVAL);
    CHECK(lockspan_rlock_cancel(lock, LOCKSPAN_RLOCK_NEVER), EBUSY);
    elsewhere(hold_back);
    CHECK(lockspan_rlock_cancel(lock, LOCKSPAN_RLOCK_FORCE), 0);
    CHECK(lockspan_rlock_release(two), ECANCELED);
    CHECK(lockspan_rlock_lock(lock, LOCKSPAN_RLOCK_FORCE, &two), 0);
    CHECK(two != one, 1);
    CHECK(lockspan_rlock_store_64(one, 0, 8), ECANCELED);
    CHECK(lockspan_rlock_add_64(one, 0, 8), ECANCELED);
    CHECK(lockspan_rlock_load_64(one, 0, &value), ECANCELED);
    CHECK(lockspan_rlock_compare_and_store_64(one, 0, &value, 8), ECANCELED);
    CHECK(lockspan_rlock_release(one), ECANCELED);
    CHECK(peek(0), 7);
    CHECK(lockspan_rlock_cancel(lock, LOCKSPAN_RLOCK_LOCAL), 0);
    CHECK(lockspan_rlock_store_64(two, 0, 8), ECANCELED);
    CHECK(lockspan_rlock_release(two), ECANCELED);
    CHECK(lockspan_rlock_cancel(lock, LOCKSPAN_RLOCK_NEVER), 0);

    /* All at once. */
    CHECK(lockspan_rlock_lock(lock, LOCKSPAN_RLOCK_NEVER, &one), 0);
    lockspan_rlock_release_all();
    CHECK(lockspan_rlock_store_64(one, 0, 9), ECANCELED);
    CHECK(lockspan_rlock_lock(lock, LOCKSPAN_RLOCK_NEVER, &two), 0);
    CHECK(lockspan_rlock_release(one), ECANCELED);
    CHECK(lockspan_rlock_store_64(two, 0, 10), 0);
    CHECK(lockspan_rlock_release(two), 0);
    lockspan_rlock_free(lock);
    CHECK(strchr(lockspan_rlock_backend(), ':') != NULL, 1);
    CHECK(lockspan_rlock_new((size_t)-1 / 8) == NULL, 1);
}

enum { THREADS = 4, ROUNDS = 20000 };

static void *add(void *unused) {
    long done = 0;
    lockspan_rlock_ticket_t *ticket = NULL;
    while (done < ROUNDS) {
        uint64_t value;
        if (ticket == NULL)
            CHECK(lockspan_rlock_lock(lock, LOCKSPAN_RLOCK_FORCE, &ticket), 0);
        else if (done % 16 == 0)
            CHECK(lockspan_rlock_relock(ticket, LOCKSPAN_RLOCK_FORCE), 0);
        if (lockspan_rlock_load_64(ticket, 0, &value) == 0 &&
            lockspan_rlock_store_64(ticket, 0, value + 1) == 0) {
            done++;
        } else {
            CHECK(lockspan_rlock_release(ticket), ECANCELED);
            ticket = NULL;
        }
    }
    if (ticket != NULL)
        lockspan_rlock_release(ticket);
    return unused;
}

int main(void) {
    pthread_t threads[THREADS];
    codes();
    owners();
    anywhere_and_limits();
    lock = lockspan_rlock_new(1);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, add, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL), 0);
    CHECK(peek(0), (long)THREADS * ROUNDS);
    lockspan_rlock_free(lock);
    return 0;
}
