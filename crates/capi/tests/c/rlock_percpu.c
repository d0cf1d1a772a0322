/* Words of each processor: threads add to their processor's, another one empties all parts, and in
   the end nothing is lost. */
#include <stdint.h>

#include "check.h"
#include "lockspan_rlock.h"

enum { THREADS = 4, ROUNDS = 20000 };

static lockspan_rlock_percpu_t *percpu;
static lockspan_rlock_ticket_t *foreign;

static void *add(void *unused) {
    lockspan_rlock_ticket_t *ticket = NULL;
    for (long done = 0; done < ROUNDS;) {
        uint64_t value;
        CHECK(lockspan_rlock_percpu_lock(percpu, &ticket), 0);
        if (lockspan_rlock_load_64(ticket, 0, &value) == 0 &&
            lockspan_rlock_store_64(ticket, 0, value + 1) == 0)
            done++;
    }
    lockspan_rlock_release(ticket);
    return unused;
}

/* Takes what all parts have, from whatever processor. */
static uint64_t empty(void) {
    uint64_t all = 0;
    lockspan_rlock_t *part = NULL;
    while ((part = lockspan_rlock_percpu_next(percpu, part)) != NULL) {
        lockspan_rlock_ticket_t *ticket;
        uint64_t value;
        int done;
        CHECK(lockspan_rlock_lock(part, LOCKSPAN_RLOCK_FORCE, &ticket), 0);
        do {
            CHECK(lockspan_rlock_relock(ticket, LOCKSPAN_RLOCK_FORCE), 0);
            done = lockspan_rlock_load_64(ticket, 0, &value) == 0 &&
                   lockspan_rlock_store_64(ticket, 0, 0) == 0;
        } while (!done);
        all += value;
        lockspan_rlock_release(ticket);
    }
    return all;
}

static void *use_anothers_ticket(void *unused) {
    lockspan_rlock_ticket_t *ticket = foreign;
    CHECK(lockspan_rlock_percpu_lock(percpu, &ticket), EPERM);
    CHECK(ticket == foreign, 1);
    return unused;
}

static void codes(void) {
    pthread_t thread;
    lockspan_rlock_ticket_t *ticket = NULL;
    CHECK(lockspan_rlock_percpu_new((size_t)-1 / 8) == NULL, 1);
    percpu = lockspan_rlock_percpu_new(2);
    CHECK(percpu != NULL, 1);
    CHECK(lockspan_rlock_percpu_lock(percpu, NULL), EINVAL);
    CHECK(lockspan_rlock_percpu_lock(percpu, &ticket), 0);
    foreign = ticket;
    CHECK(pthread_create(&thread, NULL, use_anothers_ticket, NULL), 0);
    CHECK(pthread_join(thread, NULL), 0);
    for (int i = 0; i < 100; i++) {
        /* Another one only if this thread has been moved, and then it is used again. */
        CHECK(lockspan_rlock_percpu_lock(percpu, &ticket), 0);
        CHECK(lockspan_rlock_add_64(ticket, 1, 1), 0);
    }
    CHECK(lockspan_rlock_release(ticket), 0);
    CHECK(empty(), 0);
    lockspan_rlock_percpu_free(percpu);
}

int main(void) {
    pthread_t threads[THREADS];
    uint64_t all = 0;
    codes();
    percpu = lockspan_rlock_percpu_new(1);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, add, NULL), 0);
    for (int i = 0; i < 200; i++)
        all += empty();
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL), 0);
    all += empty();
    CHECK(all, (long)THREADS * ROUNDS);
    lockspan_rlock_percpu_free(percpu);
    return 0;
}
