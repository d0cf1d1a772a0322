/* A thread that locks what it owns already, and a walk over the parts of all processors while spare
   ones are made. Run with MALLOC_PERTURB_, so that memory that was freed is not what it was. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdint.h>
#include <string.h>

#include "check.h"
#include "lockspan_rlock.h"

enum { BATCHES = 100, PARTS_MAX = 4096, THREADS = 4, ROUNDS = 100000 };

static lockspan_rlock_percpu_t *percpu;

/* Lets this thread run on the first or the last of the processors that the program may use; 0 if
   they are the same. */
static int pin(int last) {
    static cpu_set_t allowed;
    int low = CPU_SETSIZE, high = -1;
    cpu_set_t one;
    if (CPU_COUNT(&allowed) == 0)
        CHECK(sched_getaffinity(0, sizeof allowed, &allowed), 0);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &allowed))
            continue;
        low = cpu < low ? cpu : low;
        high = cpu;
    }
    CPU_ZERO(&one);
    CPU_SET(last ? high : low, &one);
    CHECK(sched_setaffinity(0, sizeof one, &one), 0);
    return low != high;
}

/* Each ticket that was got is released once, also if two are the same. */
static void twice(void) {
    lockspan_rlock_ticket_t *one, *two, *three;
    lockspan_rlock_t *lock = lockspan_rlock_new(1);
    CHECK(lockspan_rlock_lock(lock, LOCKSPAN_RLOCK_NEVER, &one), 0);
    CHECK(lockspan_rlock_lock(lock, LOCKSPAN_RLOCK_NEVER, &two), 0);
    CHECK(two == one, 1);
    CHECK(lockspan_rlock_store_64(one, 0, 1), 0);
    CHECK(lockspan_rlock_release(two), 0);
    CHECK(lockspan_rlock_store_64(one, 0, 2), ECANCELED);
    /* It can own the lock again, and is still the one ticket of this thread. */
    CHECK(lockspan_rlock_relock(one, LOCKSPAN_RLOCK_NEVER), 0);
    CHECK(lockspan_rlock_lock(lock, LOCKSPAN_RLOCK_NEVER, &three), 0);
    CHECK(three == one, 1);
    CHECK(lockspan_rlock_release(three), 0);
    CHECK(lockspan_rlock_release(one), ECANCELED);
    lockspan_rlock_free(lock);
}

static lockspan_rlock_t *wanted;

static void *lock_twice(void *unused) {
    lockspan_rlock_ticket_t *one, *two;
    lockspan_rlock_owner_t owner;
    for (int round = 0; round < ROUNDS; round++) {
        CHECK(lockspan_rlock_lock(wanted, LOCKSPAN_RLOCK_FORCE, &one), 0);
        CHECK(lockspan_rlock_lock(wanted, LOCKSPAN_RLOCK_FORCE, &two), 0);
        CHECK(lockspan_rlock_ticket_owner(two, &owner), 0);
        lockspan_rlock_release(one);
        lockspan_rlock_release(two);
    }
    return unused;
}

/* A thread that locks again while others take the lock from it gets its own ticket, never that of
   the thread that has the lock by then. */
static void twice_among_thieves(void) {
    pthread_t threads[THREADS];
    wanted = lockspan_rlock_new(0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, lock_twice, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL), 0);
    lockspan_rlock_free(wanted);
}

/* A ticket that was relocked beside a newer one stands for the same acquisition. The place that gets
   it instead of the newer one owns the part. */
static void two_places(void) {
    lockspan_rlock_ticket_t *old = NULL, *new = NULL;
    pin(1);
    percpu = lockspan_rlock_percpu_new(1);
    CHECK(lockspan_rlock_percpu_lock(percpu, &old), 0);
    lockspan_rlock_release_all();
    CHECK(lockspan_rlock_percpu_lock(percpu, &new), 0);
    CHECK(new != old, 1);
    CHECK(lockspan_rlock_relock(old, LOCKSPAN_RLOCK_NEVER), 0);
    CHECK(lockspan_rlock_percpu_lock(percpu, &new), 0);
    CHECK(new == old, 1);
    CHECK(lockspan_rlock_add_64(new, 0, 1), 0);
    CHECK(lockspan_rlock_release(old), 0);
    CHECK(lockspan_rlock_release(new), ECANCELED);
    lockspan_rlock_percpu_free(percpu);
}

/* A limit goes on with the ticket that takes another one's place. */
static void limits_stay(void) {
    lockspan_rlock_ticket_t *ticket = NULL;
    pin(1);
    percpu = lockspan_rlock_percpu_new(1);
    CHECK(lockspan_rlock_percpu_lock(percpu, &ticket), 0);
    CHECK(lockspan_rlock_limit(ticket, 2), 0);
    for (int round = 0; round < 3; round++) {
        CHECK(lockspan_rlock_percpu_lock(percpu, &ticket), 0);
        CHECK(lockspan_rlock_add_64(ticket, 0, 1), 0);
        CHECK(lockspan_rlock_add_64(ticket, 0, 1), 0);
        CHECK(lockspan_rlock_add_64(ticket, 0, 1), ECANCELED);
    }
    CHECK(lockspan_rlock_release(ticket), ECANCELED);
    lockspan_rlock_percpu_free(percpu);
}

/* The header's two examples, by one thread and by turns. */
static void batches_and_sums(void) {
    lockspan_rlock_ticket_t *ticket = NULL, *each;
    uint64_t value, sum = 0;
    percpu = lockspan_rlock_percpu_new(1);
    for (uint64_t batch = 1; batch <= BATCHES; batch++) {
        CHECK(lockspan_rlock_percpu_lock(percpu, &ticket), 0);
        CHECK(lockspan_rlock_percpu_lock(percpu, &ticket), 0);
        CHECK(lockspan_rlock_add_64(ticket, 0, 1), 0);
        sum = 0;
        lockspan_rlock_t *part = NULL;
        while ((part = lockspan_rlock_percpu_next(percpu, part)) != NULL) {
            CHECK(lockspan_rlock_lock(part, LOCKSPAN_RLOCK_FORCE, &each), 0);
            CHECK(lockspan_rlock_load_64(each, 0, &value), 0);
            CHECK(lockspan_rlock_release(each), 0);
            sum += value;
        }
        CHECK(sum, batch);
    }
    CHECK(lockspan_rlock_release(ticket), ECANCELED);
    lockspan_rlock_percpu_free(percpu);
}

static void *need_a_spare(void *unused) {
    lockspan_rlock_ticket_t *ticket = NULL;
    pin(0);
    CHECK(lockspan_rlock_percpu_lock(percpu, &ticket), 0);
    lockspan_rlock_release(ticket);
    return unused;
}

static size_t count(void) {
    size_t parts = 0;
    lockspan_rlock_t *part = NULL;
    while ((part = lockspan_rlock_percpu_next(percpu, part)) != NULL)
        parts++;
    return parts;
}

/* Spare parts that are made in the middle of a walk, for processors that lie behind it: no part
   comes twice, and none that was there from the beginning is left out. */
static void walk_while_parts_are_made(void) {
    static lockspan_rlock_t *seen[PARTS_MAX];
    static lockspan_rlock_ticket_t *tickets[PARTS_MAX];
    lockspan_rlock_t *part = NULL;
    int two_processors = pin(1);
    size_t parts = 0, first, n = 0;
    percpu = lockspan_rlock_percpu_new(1);
    first = count();
    CHECK(first <= PARTS_MAX / 8, 1);
    /* All first parts are this thread's, on the last processor. */
    while ((part = lockspan_rlock_percpu_next(percpu, part)) != NULL)
        CHECK(lockspan_rlock_lock(part, LOCKSPAN_RLOCK_FORCE, &tickets[n++]), 0);
    while ((part = lockspan_rlock_percpu_next(percpu, part)) != NULL) {
        CHECK(parts < PARTS_MAX, 1);
        for (size_t before = 0; before < parts; before++)
            CHECK(seen[before] != part, 1);
        seen[parts++] = part;
        if (parts > 1) {
            /* Where processors are not known, each thread begins at another part. */
            for (size_t thread = 0; thread < first; thread++) {
                pthread_t other;
                CHECK(pthread_create(&other, NULL, need_a_spare, NULL), 0);
                CHECK(pthread_join(other, NULL), 0);
            }
        }
    }
    CHECK(parts >= first, 1);
    /* With the backend plain the next thread always takes the first part. */
    if (two_processors && strncmp(lockspan_rlock_backend(), "plain", 5) != 0)
        CHECK(count() > first, 1);
    while (n > 0)
        lockspan_rlock_release(tickets[--n]);
    lockspan_rlock_percpu_free(percpu);
}

int main(void) {
    twice();
    twice_among_thieves();
    batches_and_sums();
    two_places();
    limits_stay();
    walk_while_parts_are_made();
    return 0;
}
