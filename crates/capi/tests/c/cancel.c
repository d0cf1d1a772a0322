/*
 * No function acts on a cancellation of its thread. Each one is called by a thread that has asked
 * itself to end (deferred, the default type), once with nobody in the way and, if it waits, once
 * with somebody in the way until the thread sleeps. The thread must get through all its calls and
 * end at its own pthread_testcancel().
 */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "check.h"
#include "lockspan.h"
#include "lockspan_plock.h"
#include "lockspan_rlock.h"

/* A bit of the first word of an lt_rwlock_t, which this test may know: see fair/word.rs. */
enum { SCHEDULER = 1 << 3 };

static lt_rwlock_t *rw;
static lockspan_plock_t *base;
static lockspan_plock_upgrade_t *upgrade;
static lockspan_plock_claim_t *claim;
static const struct timespec past = {0, 0};

static atomic_ulong *word(void) {
    return (atomic_ulong *)(void *)rw;
}

/* One thread with a cancellation pending. */
struct trial {
    void (*body)(void);
    atomic_int thread; /* the kernel's number, once the thread is about to call */
    atomic_int over;   /* it has come through the body */
};

static void *run(void *arg) {
    struct trial *trial = arg;
    CHECK(pthread_cancel(pthread_self()), 0);
    trial->thread = (int)syscall(SYS_gettid);
    trial->body();
    trial->over = 1;
    pthread_testcancel();
    return NULL;
}

/* Whether the thread sleeps now; also true if it is gone. */
static int sleeps(int thread) {
    char path[64], text[256] = "";
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", thread);
    FILE *file = fopen(path, "r");
    if (!file)
        return 1;
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[length] = 0;
    char *state = strrchr(text, ')');
    return !state || state[2] != 'R';
}

/* Runs `body` in a thread. If there is an `open`, it makes way once the thread sleeps. */
static void survives(const char *name, void (*body)(void), void (*open)(void)) {
    struct trial trial = {.body = body};
    pthread_t thread;
    void *result;
    CHECK(pthread_create(&thread, NULL, run, &trial), 0);
    if (open) {
        struct timespec limit = in_millis(60000);
        while ((!trial.thread || !sleeps(trial.thread)) && !has_come(&limit))
            sched_yield();
        open();
    }
    CHECK(pthread_join(thread, &result), 0);
    if (result != PTHREAD_CANCELED || !trial.over) {
        fprintf(stderr, "%s: cancelled inside of a call\n", name);
        exit(1);
    }
}

#define FREELY(body) survives(#body, body, NULL)
#define ONCE_OPEN(body, open) survives(#body, body, open)

/* The fair lock. */

static void rw_alone(void) {
    lt_rwlock_t *fresh = lt_rwlock_new();
    struct timespec never = in_millis(60000);
    lt_rwlock_read_lock(fresh);
    lt_rwlock_read_unlock(fresh);
    lt_rwlock_write_lock(fresh);
    CHECK(lt_rwlock_read_trylock(fresh), EBUSY);
    CHECK(lt_rwlock_write_trylock(fresh), EBUSY);
    lt_rwlock_write_unlock(fresh);
    CHECK(lt_rwlock_read_trylock(fresh), 0);
    lt_rwlock_read_unlock(fresh);
    CHECK(lt_rwlock_write_trylock(fresh), 0);
    lt_rwlock_write_unlock(fresh);
    CHECK(lt_rwlock_read_timedlock(fresh, &never), 0);
    lt_rwlock_read_unlock(fresh);
    CHECK(lt_rwlock_write_timedlock(fresh, &never), 0);
    lt_rwlock_write_unlock(fresh);
    lt_rwlock_free(fresh);
}

static void rw_read(void) {
    lt_rwlock_read_lock(rw);
    lt_rwlock_read_unlock(rw);
}

static void rw_write(void) {
    lt_rwlock_write_lock(rw);
    lt_rwlock_write_unlock(rw);
}

static void rw_timed_read(void) {
    struct timespec never = in_millis(60000);
    CHECK(lt_rwlock_read_timedlock(rw, &never), 0);
    lt_rwlock_read_unlock(rw);
}

static void rw_timed_write(void) {
    struct timespec never = in_millis(60000);
    CHECK(lt_rwlock_write_timedlock(rw, &never), 0);
    lt_rwlock_write_unlock(rw);
}

static void rw_too_late(void) {
    struct timespec soon = in_millis(20);
    CHECK(lt_rwlock_read_timedlock(rw, &soon), ETIMEDOUT);
    soon = in_millis(20);
    CHECK(lt_rwlock_write_timedlock(rw, &soon), ETIMEDOUT);
}

static void rw_open(void) {
    lt_rwlock_write_unlock(rw);
}

/* Another thread is the scheduler, and has lost its processor: an unlock waits for it. */
static void no_scheduler(void) {
    atomic_fetch_and(word(), ~(unsigned long)SCHEDULER);
}

static void rw_read_unlock(void) {
    lt_rwlock_read_lock(rw);
    atomic_fetch_or(word(), SCHEDULER);
    lt_rwlock_read_unlock(rw);
}

static void rw_write_unlock(void) {
    lt_rwlock_write_lock(rw);
    atomic_fetch_or(word(), SCHEDULER);
    lt_rwlock_write_unlock(rw);
}

static void rw_free(void) {
    atomic_fetch_or(word(), SCHEDULER);
    lt_rwlock_free(rw);
}

static void fair(void) {
    FREELY(rw_alone);
    void (*waiting[])(void) = {rw_read, rw_write, rw_timed_read, rw_timed_write};
    for (int i = 0; i < 4; i++) {
        lt_rwlock_write_lock(rw);
        ONCE_OPEN(waiting[i], rw_open);
    }
    lt_rwlock_write_lock(rw);
    FREELY(rw_too_late);
    lt_rwlock_write_unlock(rw);
    ONCE_OPEN(rw_read_unlock, no_scheduler);
    ONCE_OPEN(rw_write_unlock, no_scheduler);
    CHECK(*word(), 0);
    ONCE_OPEN(rw_free, no_scheduler);
}

/* The progressive locks. */

/* A function that waits, its timed form, and the end of the hold. */
#define WAITS(lock, name, done) \
    static void name##_waits(void) { \
        lockspan_plock_##name(lock); \
        lockspan_plock_##done(lock); \
    }
#define TIMED(lock, timed, done) \
    static void timed##_waits(void) { \
        struct timespec never = in_millis(60000); \
        CHECK(lockspan_plock_##timed(lock, &never), 0); \
        lockspan_plock_##done(lock); \
    } \
    static void timed##_is_late(void) { \
        struct timespec soon = in_millis(20); \
        CHECK(lockspan_plock_##timed(lock, &past), ETIMEDOUT); \
        CHECK(lockspan_plock_##timed(lock, &soon), ETIMEDOUT); \
    }

WAITS(base, read, read_done)
WAITS(base, seek, seek_done)
WAITS(base, write, write_done)
WAITS(base, atomic, atomic_done)
TIMED(base, timed_read, read_done)
TIMED(base, timed_seek, seek_done)
TIMED(base, timed_write, write_done)
TIMED(base, timed_atomic, atomic_done)
WAITS(upgrade, upgrade_read, upgrade_read_done)
TIMED(upgrade, upgrade_timed_read, upgrade_read_done)
WAITS(claim, claim_read, claim_read_done)
WAITS(claim, claim_alone, claim_alone_done)
TIMED(claim, claim_timed_read, claim_read_done)
TIMED(claim, claim_timed_alone, claim_alone_done)
WAITS(claim, claim_claim, claim_claim_done)
WAITS(claim, claim_atomic, claim_atomic_done)
TIMED(claim, claim_timed_claim, claim_claim_done)
TIMED(claim, claim_timed_atomic, claim_atomic_done)

/* These wait inside, for others to move on. */
#define MOVES(lock, first, next, done) \
    static void next##_waits(void) { \
        lockspan_plock_##first(lock); \
        lockspan_plock_##next(lock); \
        lockspan_plock_##done(lock); \
    }
#define MOVES_TIMED(lock, first, next, back, done) \
    static void next##_waits(void) { \
        struct timespec never = in_millis(60000); \
        lockspan_plock_##first(lock); \
        CHECK(lockspan_plock_##next(lock, &never), 0); \
        lockspan_plock_##done(lock); \
    } \
    static void next##_is_late(void) { \
        struct timespec soon = in_millis(20); \
        lockspan_plock_##first(lock); \
        CHECK(lockspan_plock_##next(lock, &soon), ETIMEDOUT); \
        lockspan_plock_##back(lock); \
    }

MOVES(base, seek, seek_to_write, write_done)
MOVES(base, read, read_to_atomic, atomic_done)
MOVES_TIMED(base, seek, timed_seek_to_write, seek_done, write_done)
MOVES_TIMED(base, read, timed_read_to_atomic, read_done, atomic_done)
MOVES(base, atomic, atomic_to_read, read_done)
MOVES_TIMED(base, atomic, timed_atomic_to_read, atomic_done, read_done)
MOVES(upgrade, upgrade_read, upgrade_read_to_atomic, upgrade_atomic_done)
MOVES_TIMED(upgrade, upgrade_read, upgrade_timed_read_to_atomic, upgrade_read_done,
            upgrade_atomic_done)

MOVES(claim, claim_read, claim_read_to_claim, claim_claim_done)
MOVES_TIMED(claim, claim_read, claim_timed_read_to_claim, claim_read_done, claim_claim_done)
MOVES(claim, claim_atomic, claim_atomic_to_read, claim_read_done)
MOVES_TIMED(claim, claim_atomic, claim_timed_atomic_to_read, claim_atomic_done, claim_read_done)
MOVES(claim, claim_atomic, claim_atomic_to_claim, claim_claim_done)
MOVES_TIMED(claim, claim_atomic, claim_timed_atomic_to_claim, claim_atomic_done, claim_claim_done)

static void into_join(void) {
    lockspan_plock_claim_read(claim);
    lockspan_plock_claim_read_to_join(claim);
}

static void claim_join_to_claim_waits(void) {
    into_join();
    lockspan_plock_claim_join_to_claim(claim);
    lockspan_plock_claim_claim_done(claim);
}

static void claim_timed_join_to_claim_is_late(void) {
    struct timespec soon = in_millis(20);
    into_join();
    CHECK(lockspan_plock_claim_timed_join_to_claim(claim, &soon), ETIMEDOUT);
    lockspan_plock_claim_join_done(claim);
}

static void claim_timed_join_to_claim_waits(void) {
    struct timespec never = in_millis(60000);
    into_join();
    CHECK(lockspan_plock_claim_timed_join_to_claim(claim, &never), 0);
    lockspan_plock_claim_claim_done(claim);
}

/* These go on with one of two holds in Join, while nobody ends the other. The claim phase has begun, so
   it takes no waiting to claim. */
#define STAY
#define CLAIM_FIRST lockspan_plock_claim_join_to_claim(claim);
#define BESIDE_A_CLAIMANT(first, next, back, done) \
    static void next##_waits(void) { \
        first lockspan_plock_claim_##next(claim); \
        lockspan_plock_claim_##done(claim); \
    } \
    static void timed_##next##_waits(void) { \
        struct timespec never = in_millis(60000); \
        first CHECK(lockspan_plock_claim_timed_##next(claim, &never), 0); \
        lockspan_plock_claim_##done(claim); \
    } \
    static void timed_##next##_is_late(void) { \
        struct timespec soon = in_millis(20); \
        first CHECK(lockspan_plock_claim_timed_##next(claim, &soon), ETIMEDOUT); \
        lockspan_plock_claim_##back(claim); \
    }

BESIDE_A_CLAIMANT(STAY, join_to_read, join_done, read_done)
BESIDE_A_CLAIMANT(STAY, join_to_atomic, join_done, atomic_done)
BESIDE_A_CLAIMANT(CLAIM_FIRST, claim_to_read, claim_done, read_done)
BESIDE_A_CLAIMANT(CLAIM_FIRST, claim_to_atomic, claim_done, atomic_done)

static void into_join_twice(void) {
    lockspan_plock_claim_read(claim);
    into_join();
    lockspan_plock_claim_read_to_join(claim);
}

static void claim_join_done(void) {
    lockspan_plock_claim_join_done(claim);
}

static void base_read_done(void) {
    lockspan_plock_read_done(base);
}

static void base_write_done(void) {
    lockspan_plock_write_done(base);
}

static void base_atomic_done(void) {
    lockspan_plock_atomic_done(base);
}

static void upgrade_atomic_done(void) {
    lockspan_plock_upgrade_atomic_done(upgrade);
}

static void upgrade_read_done(void) {
    lockspan_plock_upgrade_read_done(upgrade);
}

static void claim_alone_done(void) {
    lockspan_plock_claim_alone_done(claim);
}

static void claim_read_done(void) {
    lockspan_plock_claim_read_done(claim);
}

static void claim_atomic_done(void) {
    lockspan_plock_claim_atomic_done(claim);
}

/* All that does not wait. */
static void base_alone(void) {
    lockspan_plock_t *lock = lockspan_plock_new();
    struct timespec never = in_millis(60000);
    CHECK(lockspan_plock_try_read(lock), 0);
    CHECK(lockspan_plock_try_read_to_seek(lock), 0);
    CHECK(lockspan_plock_try_seek(lock), EBUSY);
    CHECK(lockspan_plock_try_seek_to_write(lock), 0);
    CHECK(lockspan_plock_try_read(lock), EBUSY);
    CHECK(lockspan_plock_try_write(lock), EBUSY);
    CHECK(lockspan_plock_try_atomic(lock), EBUSY);
    lockspan_plock_write_to_seek(lock);
    CHECK(lockspan_plock_timed_seek_to_write(lock, &never), 0);
    lockspan_plock_write_to_read(lock);
    CHECK(lockspan_plock_timed_read_to_atomic(lock, &never), 0);
    CHECK(lockspan_plock_timed_atomic_to_read(lock, &never), 0);
    CHECK(lockspan_plock_try_read_to_atomic(lock), 0);
    CHECK(lockspan_plock_try_atomic_to_read(lock), 0);
    lockspan_plock_read_done(lock);
    lockspan_plock_seek(lock);
    lockspan_plock_seek_to_read(lock);
    lockspan_plock_read_done(lock);
    lockspan_plock_free(lock);
}

static void upgrade_alone(void) {
    lockspan_plock_upgrade_t *lock = lockspan_plock_upgrade_new();
    CHECK(lockspan_plock_upgrade_try_read(lock), 0);
    lockspan_plock_upgrade_read_to_atomic(lock);
    lockspan_plock_upgrade_atomic_done(lock);
    lockspan_plock_upgrade_read(lock);
    CHECK(lockspan_plock_upgrade_try_read_to_atomic(lock), 0);
    lockspan_plock_upgrade_atomic_done(lock);
    lockspan_plock_upgrade_free(lock);
}

static void claim_by_itself(void) {
    lockspan_plock_claim_t *lock = lockspan_plock_claim_new();
    struct timespec never = in_millis(60000);
    CHECK(lockspan_plock_claim_try_read(lock), 0);
    lockspan_plock_claim_read_to_join(lock);
    CHECK(lockspan_plock_claim_try_join_to_claim(lock), 0);
    lockspan_plock_claim_claim_to_read(lock);
    lockspan_plock_claim_read_to_join(lock);
    lockspan_plock_claim_join_to_claim(lock);
    lockspan_plock_claim_claim_to_atomic(lock);
    lockspan_plock_claim_atomic_to_join(lock);
    CHECK(lockspan_plock_claim_timed_join_to_claim(lock, &never), 0);
    CHECK(lockspan_plock_claim_timed_claim_to_atomic(lock, &never), 0);
    lockspan_plock_claim_atomic_to_read(lock);
    lockspan_plock_claim_read_to_join(lock);
    lockspan_plock_claim_join_done(lock);
    CHECK(lockspan_plock_claim_try_alone(lock), 0);
    CHECK(lockspan_plock_claim_try_read(lock), EBUSY);
    lockspan_plock_claim_alone_to_read(lock);
    lockspan_plock_claim_read_done(lock);
    lockspan_plock_claim_alone(lock);
    lockspan_plock_claim_alone_to_claim(lock);
    lockspan_plock_claim_claim_done(lock);
    lockspan_plock_claim_alone(lock);
    lockspan_plock_claim_alone_to_atomic(lock);
    CHECK(lockspan_plock_claim_timed_atomic_to_read(lock, &never), 0);
    lockspan_plock_claim_read_done(lock);
    lockspan_plock_claim_alone(lock);
    lockspan_plock_claim_alone_to_atomic(lock);
    lockspan_plock_claim_atomic_done(lock);

    CHECK(lockspan_plock_claim_try_claim(lock), 0);
    CHECK(lockspan_plock_claim_try_claim_to_atomic(lock), 0);
    CHECK(lockspan_plock_claim_try_atomic(lock), 0);
    lockspan_plock_claim_atomic_to_join(lock);
    CHECK(lockspan_plock_claim_try_join_to_atomic(lock), 0);
    lockspan_plock_claim_atomic_to_join(lock);
    lockspan_plock_claim_join_to_atomic(lock);
    lockspan_plock_claim_atomic_to_join(lock);
    CHECK(lockspan_plock_claim_timed_join_to_atomic(lock, &never), 0);
    lockspan_plock_claim_atomic_done(lock);
    CHECK(lockspan_plock_claim_try_atomic_to_claim(lock), 0);
    CHECK(lockspan_plock_claim_try_claim_to_read(lock), 0);
    CHECK(lockspan_plock_claim_try_read_to_claim(lock), 0);
    CHECK(lockspan_plock_claim_timed_claim_to_read(lock, &never), 0);
    CHECK(lockspan_plock_claim_try_read(lock), 0);
    lockspan_plock_claim_read_to_join(lock);
    CHECK(lockspan_plock_claim_try_join_to_read(lock), 0);
    lockspan_plock_claim_read_to_join(lock);
    lockspan_plock_claim_join_to_read(lock);
    lockspan_plock_claim_read_to_join(lock);
    CHECK(lockspan_plock_claim_timed_join_to_read(lock, &never), 0);
    lockspan_plock_claim_read_done(lock);
    lockspan_plock_claim_read_done(lock);
    CHECK(lockspan_plock_claim_try_atomic(lock), 0);
    CHECK(lockspan_plock_claim_try_atomic_to_read(lock), 0);
    lockspan_plock_claim_read_done(lock);
    lockspan_plock_claim_free(lock);
}

static void progressive(void) {
    FREELY(base_alone);
    FREELY(upgrade_alone);
    FREELY(claim_by_itself);

    void (*outside[])(void) = {read_waits,       seek_waits,        write_waits,
                               atomic_waits,     timed_read_waits,  timed_seek_waits,
                               timed_write_waits, timed_atomic_waits};
    for (int i = 0; i < 8; i++) {
        lockspan_plock_write(base);
        ONCE_OPEN(outside[i], base_write_done);
    }
    lockspan_plock_write(base);
    FREELY(timed_read_is_late);
    FREELY(timed_seek_is_late);
    FREELY(timed_write_is_late);
    FREELY(timed_atomic_is_late);
    lockspan_plock_write_done(base);

    void (*beside_a_reader[])(void) = {seek_to_write_waits, read_to_atomic_waits,
                                       timed_seek_to_write_waits, timed_read_to_atomic_waits};
    for (int i = 0; i < 4; i++) {
        lockspan_plock_read(base);
        ONCE_OPEN(beside_a_reader[i], base_read_done);
    }
    lockspan_plock_read(base);
    FREELY(timed_seek_to_write_is_late);
    FREELY(timed_read_to_atomic_is_late);
    lockspan_plock_read_done(base);

    lockspan_plock_atomic(base);
    ONCE_OPEN(atomic_to_read_waits, base_atomic_done);
    lockspan_plock_atomic(base);
    ONCE_OPEN(timed_atomic_to_read_waits, base_atomic_done);
    lockspan_plock_atomic(base);
    FREELY(timed_atomic_to_read_is_late);
    lockspan_plock_atomic_done(base);

    void (*upgrading[])(void) = {upgrade_read_waits, upgrade_timed_read_waits};
    for (int i = 0; i < 2; i++) {
        lockspan_plock_upgrade_read(upgrade);
        lockspan_plock_upgrade_read_to_atomic(upgrade);
        ONCE_OPEN(upgrading[i], upgrade_atomic_done);
    }
    lockspan_plock_upgrade_read(upgrade);
    lockspan_plock_upgrade_read_to_atomic(upgrade);
    FREELY(upgrade_timed_read_is_late);
    lockspan_plock_upgrade_atomic_done(upgrade);
    lockspan_plock_upgrade_read(upgrade);
    ONCE_OPEN(upgrade_read_to_atomic_waits, upgrade_read_done);
    lockspan_plock_upgrade_read(upgrade);
    ONCE_OPEN(upgrade_timed_read_to_atomic_waits, upgrade_read_done);
    lockspan_plock_upgrade_read(upgrade);
    FREELY(upgrade_timed_read_to_atomic_is_late);
    lockspan_plock_upgrade_read_done(upgrade);

    void (*claiming[])(void) = {claim_read_waits,        claim_alone_waits,
                                claim_claim_waits,       claim_atomic_waits,
                                claim_timed_read_waits,  claim_timed_alone_waits,
                                claim_timed_claim_waits, claim_timed_atomic_waits};
    for (int i = 0; i < 8; i++) {
        lockspan_plock_claim_alone(claim);
        ONCE_OPEN(claiming[i], claim_alone_done);
    }
    lockspan_plock_claim_alone(claim);
    FREELY(claim_timed_read_is_late);
    FREELY(claim_timed_alone_is_late);
    FREELY(claim_timed_claim_is_late);
    FREELY(claim_timed_atomic_is_late);
    lockspan_plock_claim_alone_done(claim);

    void (*beside_one_that_reads[])(void) = {
        claim_join_to_claim_waits, claim_timed_join_to_claim_waits, claim_read_to_claim_waits,
        claim_timed_read_to_claim_waits, claim_claim_waits, claim_atomic_waits};
    for (int i = 0; i < 6; i++) {
        lockspan_plock_claim_read(claim);
        ONCE_OPEN(beside_one_that_reads[i], claim_read_done);
    }
    lockspan_plock_claim_read(claim);
    FREELY(claim_timed_join_to_claim_is_late);
    FREELY(claim_timed_read_to_claim_is_late);
    FREELY(claim_timed_claim_is_late);
    FREELY(claim_timed_atomic_is_late);
    lockspan_plock_claim_read_done(claim);

    void (*beside_an_atomic[])(void) = {
        claim_atomic_to_read_waits, claim_timed_atomic_to_read_waits, claim_atomic_to_claim_waits,
        claim_timed_atomic_to_claim_waits};
    for (int i = 0; i < 4; i++) {
        lockspan_plock_claim_atomic(claim);
        ONCE_OPEN(beside_an_atomic[i], claim_atomic_done);
    }
    lockspan_plock_claim_atomic(claim);
    FREELY(claim_timed_atomic_to_read_is_late);
    FREELY(claim_timed_atomic_to_claim_is_late);
    lockspan_plock_claim_atomic_done(claim);

    void (*beside_a_claimant[])(void) = {
        join_to_read_waits,        join_to_atomic_waits,        claim_to_read_waits,
        claim_to_atomic_waits,     timed_join_to_read_waits,    timed_join_to_atomic_waits,
        timed_claim_to_read_waits, timed_claim_to_atomic_waits};
    for (int i = 0; i < 8; i++) {
        into_join_twice();
        ONCE_OPEN(beside_a_claimant[i], claim_join_done);
    }
    void (*late_beside_a_claimant[])(void) = {
        timed_join_to_read_is_late, timed_join_to_atomic_is_late, timed_claim_to_read_is_late,
        timed_claim_to_atomic_is_late};
    for (int i = 0; i < 4; i++) {
        into_join_twice();
        FREELY(late_beside_a_claimant[i]);
        claim_join_done();
    }
}

/* Revocable locks. The first call of the process finds out what the kernel can do. */
static void revocable(void) {
    lockspan_rlock_ticket_t *ticket, *other, *part = NULL;
    lockspan_rlock_owner_t owner;
    lockspan_rlock_percpu_t *percpu = lockspan_rlock_percpu_new(1);
    lockspan_rlock_t *lock = lockspan_rlock_new(2);
    uint64_t value = 7;
    CHECK(lockspan_rlock_lock(lock, LOCKSPAN_RLOCK_FORCE, &ticket), 0);
    CHECK(lockspan_rlock_store_64(ticket, 0, 1), 0);
    CHECK(lockspan_rlock_add_64(ticket, 0, 1), 0);
    CHECK(lockspan_rlock_load_64(ticket, 0, &value), 0);
    CHECK(lockspan_rlock_compare_and_store_64(ticket, 0, &value, 3), 0);
    CHECK(lockspan_rlock_peek_64(lock, 0, &value), 0);
    CHECK(value, 3);
    CHECK(lockspan_rlock_store_at_64(ticket, &value, 3), 0);
    CHECK(lockspan_rlock_ticket_owner(ticket, &owner), 0);
    CHECK(lockspan_rlock_owner_cancel(owner, lock, LOCKSPAN_RLOCK_FORCE), 0);
    CHECK(lockspan_rlock_owner(lock, &owner), 0);
    CHECK(lockspan_rlock_relock(ticket, LOCKSPAN_RLOCK_FORCE), 0);
    CHECK(lockspan_rlock_limit(ticket, 1), 0);
    CHECK(lockspan_rlock_store_64(ticket, 0, 1), 0);
    CHECK(lockspan_rlock_percpu_lock(percpu, &part), 0);
    CHECK(lockspan_rlock_percpu_next(percpu, NULL) != NULL, 1);
    lockspan_rlock_release(part);
    lockspan_rlock_percpu_free(percpu);
    CHECK(lockspan_rlock_lock(lock, LOCKSPAN_RLOCK_FORCE, &other), 0);
    CHECK(lockspan_rlock_release(ticket), ECANCELED);
    CHECK(lockspan_rlock_cancel(lock, LOCKSPAN_RLOCK_FORCE), 0);
    CHECK(lockspan_rlock_release(other), ECANCELED);
    CHECK(lockspan_rlock_lock(lock, LOCKSPAN_RLOCK_NEVER, &ticket), 0);
    lockspan_rlock_release_all();
    CHECK(lockspan_rlock_release(ticket), ECANCELED);
    CHECK(*lockspan_rlock_backend() != 0, 1);
    lockspan_rlock_free(lock);
}

/* Misuse ends the process, whatever is pending. */
static void misuse(void) {
    lt_rwlock_free(NULL);
}

int main(int argc, char **argv) {
    const char *part = argc > 1 ? argv[1] : "";
    rw = lt_rwlock_new();
    base = lockspan_plock_new();
    upgrade = lockspan_plock_upgrade_new();
    claim = lockspan_plock_claim_new();
    if (strcmp(part, "fair") == 0)
        fair();
    else if (strcmp(part, "progressive") == 0)
        progressive();
    else if (strcmp(part, "revocable") == 0)
        FREELY(revocable);
    else if (strcmp(part, "misuse") == 0)
        FREELY(misuse);
    else
        CHECK(argc, 2);
    return 0;
}
