/* The return code of every function of the progressive locks, and the state that it leaves. A hold
   belongs to no thread, so one thread can have them all. */
#include <limits.h>

#include "check.h"
#include "lockspan_plock.h"

enum { OK = 0, BUSY = EBUSY };

static const struct timespec past = {-1, 0}, long_past = {0, 0}, never = {LONG_MAX, 999999999};
static const struct timespec over = {1, 1000000000}, under = {1, -1};

/* A time that is none. */
#define NO_TIME(call) \
    do { \
        CHECK(call(lock, NULL), EINVAL); \
        CHECK(call(lock, &over), EINVAL); \
        CHECK(call(lock, &under), EINVAL); \
    } while (0)

/* A timed call with others in the way. */
#define LATE(call) \
    do { \
        struct timespec soon_ = in_millis(5); \
        NO_TIME(call); \
        CHECK(call(lock, &past), ETIMEDOUT); \
        CHECK(call(lock, &long_past), ETIMEDOUT); \
        CHECK(call(lock, &soon_), ETIMEDOUT); \
        CHECK(has_come(&soon_), 1); \
    } while (0)

/* A timed call with nobody in the way, however late it is. */
#define IN_TIME(call, back) \
    do { \
        NO_TIME(call); \
        CHECK(call(lock, &past), 0); \
        back(lock); \
        CHECK(call(lock, &never), 0); \
    } while (0)

/* Who gets in without waiting tells the state. */
#define ADMITS(state, code) \
    do { \
        int admitted_ = lockspan_plock_try_##state(lock); \
        CHECK(admitted_, code); \
        if (admitted_ == 0) \
            lockspan_plock_##state##_done(lock); \
    } while (0)
#define BASE_ADMITS(to_read, to_seek, to_write, to_atomic) \
    do { \
        ADMITS(read, to_read); \
        ADMITS(seek, to_seek); \
        ADMITS(write, to_write); \
        ADMITS(atomic, to_atomic); \
    } while (0)
#define IDLE BASE_ADMITS(OK, OK, OK, OK)
#define IN_READ BASE_ADMITS(OK, OK, BUSY, BUSY)
#define IN_SEEK BASE_ADMITS(OK, BUSY, BUSY, BUSY)
#define IN_WRITE BASE_ADMITS(BUSY, BUSY, BUSY, BUSY)
#define IN_ATOMIC BASE_ADMITS(BUSY, BUSY, BUSY, OK)

static void come_in(lockspan_plock_t *lock) {
    IDLE;
    lockspan_plock_read(lock);
    IN_READ;
    LATE(lockspan_plock_timed_write);
    LATE(lockspan_plock_timed_atomic);
    IN_READ;
    lockspan_plock_read_done(lock);
    lockspan_plock_seek(lock);
    IN_SEEK;
    LATE(lockspan_plock_timed_seek);
    lockspan_plock_seek_done(lock);
    lockspan_plock_write(lock);
    IN_WRITE;
    LATE(lockspan_plock_timed_read);
    lockspan_plock_write_done(lock);
    lockspan_plock_atomic(lock);
    IN_ATOMIC;
    LATE(lockspan_plock_timed_read);
    lockspan_plock_atomic_done(lock);

    IN_TIME(lockspan_plock_timed_read, lockspan_plock_read_done);
    IN_READ;
    lockspan_plock_read_done(lock);
    IN_TIME(lockspan_plock_timed_seek, lockspan_plock_seek_done);
    IN_SEEK;
    lockspan_plock_seek_done(lock);
    IN_TIME(lockspan_plock_timed_write, lockspan_plock_write_done);
    IN_WRITE;
    lockspan_plock_write_done(lock);
    IN_TIME(lockspan_plock_timed_atomic, lockspan_plock_atomic_done);
    IN_ATOMIC;
    lockspan_plock_atomic_done(lock);
    IDLE;
}

static void go_on(lockspan_plock_t *lock) {
    lockspan_plock_read(lock);
    CHECK(lockspan_plock_try_read_to_seek(lock), 0);
    IN_SEEK;

    /* A reader beside the seeker is in its way, and refused what would wait for it. */
    lockspan_plock_read(lock);
    CHECK(lockspan_plock_try_read_to_seek(lock), EBUSY);
    CHECK(lockspan_plock_read_to_atomic(lock), EBUSY);
    CHECK(lockspan_plock_try_read_to_atomic(lock), EBUSY);
    CHECK(lockspan_plock_timed_read_to_atomic(lock, &never), EBUSY);
    NO_TIME(lockspan_plock_timed_read_to_atomic);
    CHECK(lockspan_plock_try_seek_to_write(lock), EBUSY);
    LATE(lockspan_plock_timed_seek_to_write);
    IN_SEEK;
    lockspan_plock_read_done(lock);

    CHECK(lockspan_plock_try_seek_to_write(lock), 0);
    IN_WRITE;
    lockspan_plock_write_to_seek(lock);
    IN_SEEK;
    IN_TIME(lockspan_plock_timed_seek_to_write, lockspan_plock_write_to_seek);
    IN_WRITE;
    lockspan_plock_write_to_seek(lock);
    lockspan_plock_seek_to_write(lock);
    IN_WRITE;
    lockspan_plock_write_to_read(lock);
    IN_READ;
    CHECK(lockspan_plock_try_read_to_seek(lock), 0);
    lockspan_plock_seek_to_read(lock);
    IN_READ;

    /* A second reader is in the way of the first. */
    lockspan_plock_read(lock);
    CHECK(lockspan_plock_try_read_to_atomic(lock), EBUSY);
    LATE(lockspan_plock_timed_read_to_atomic);
    IN_READ;
    lockspan_plock_read_done(lock);
    CHECK(lockspan_plock_try_read_to_atomic(lock), 0);
    IN_ATOMIC;
    CHECK(lockspan_plock_try_atomic_to_read(lock), 0);
    IN_READ;
    IN_TIME(lockspan_plock_timed_read_to_atomic, lockspan_plock_atomic_to_read);
    IN_ATOMIC;
    lockspan_plock_atomic_to_read(lock);
    CHECK(lockspan_plock_read_to_atomic(lock), 0);
    IN_ATOMIC;

    /* A second atomic is in the way of the first. */
    lockspan_plock_atomic(lock);
    CHECK(lockspan_plock_try_atomic_to_read(lock), EBUSY);
    LATE(lockspan_plock_timed_atomic_to_read);
    IN_ATOMIC;
    lockspan_plock_atomic_done(lock);
    NO_TIME(lockspan_plock_timed_atomic_to_read);
    CHECK(lockspan_plock_timed_atomic_to_read(lock, &never), 0);
    IN_READ;
    lockspan_plock_read_done(lock);
    IDLE;
}

static void upgrade(lockspan_plock_upgrade_t *lock) {
    CHECK(lockspan_plock_upgrade_try_read(lock), 0);
    lockspan_plock_upgrade_read(lock);
    CHECK(lockspan_plock_upgrade_try_read_to_atomic(lock), EBUSY);
    LATE(lockspan_plock_upgrade_timed_read_to_atomic);
    lockspan_plock_upgrade_read_done(lock);
    CHECK(lockspan_plock_upgrade_try_read_to_atomic(lock), 0);
    lockspan_plock_upgrade_atomic_done(lock);
    lockspan_plock_upgrade_read(lock);
    lockspan_plock_upgrade_read_to_atomic(lock);
    CHECK(lockspan_plock_upgrade_try_read(lock), EBUSY);
    LATE(lockspan_plock_upgrade_timed_read);
    lockspan_plock_upgrade_atomic_done(lock);
    IN_TIME(lockspan_plock_upgrade_timed_read, lockspan_plock_upgrade_read_done);
    NO_TIME(lockspan_plock_upgrade_timed_read_to_atomic);
    CHECK(lockspan_plock_upgrade_timed_read_to_atomic(lock, &past), 0);
    CHECK(lockspan_plock_upgrade_try_read(lock), EBUSY);
    lockspan_plock_upgrade_atomic_done(lock);
}

/* Who gets in; Claim is told from Atomic by what is possible there. */
#define CLAIM_ADMITS(to_read, to_alone) \
    do { \
        ADMITS(claim_read, to_read); \
        ADMITS(claim_alone, to_alone); \
    } while (0)
#define lockspan_plock_try_claim_read lockspan_plock_claim_try_read
#define lockspan_plock_try_claim_alone lockspan_plock_claim_try_alone

static void claim(lockspan_plock_claim_t *lock) {
    CLAIM_ADMITS(OK, OK);
    lockspan_plock_claim_read(lock);
    CLAIM_ADMITS(OK, BUSY);
    LATE(lockspan_plock_claim_timed_alone);
    lockspan_plock_claim_read_done(lock);
    IN_TIME(lockspan_plock_claim_timed_read, lockspan_plock_claim_read_done);

    /* A reader is in the way of the joiner, and nobody else comes in to read. */
    lockspan_plock_claim_read(lock);
    lockspan_plock_claim_read_to_join(lock);
    CLAIM_ADMITS(BUSY, BUSY);
    LATE(lockspan_plock_claim_timed_read);
    CHECK(lockspan_plock_claim_try_join_to_claim(lock), EBUSY);
    LATE(lockspan_plock_claim_timed_join_to_claim);
    lockspan_plock_claim_join_done(lock);
    CLAIM_ADMITS(OK, BUSY);

    /* Two claim; the second is in the way of the first until it gives up. */
    lockspan_plock_claim_read(lock);
    lockspan_plock_claim_read_to_join(lock);
    lockspan_plock_claim_read_to_join(lock);
    CHECK(lockspan_plock_claim_try_join_to_claim(lock), 0);
    NO_TIME(lockspan_plock_claim_timed_join_to_claim);
    CHECK(lockspan_plock_claim_timed_join_to_claim(lock, &past), 0);
    LATE(lockspan_plock_claim_timed_claim_to_atomic);
    lockspan_plock_claim_claim_done(lock);
    NO_TIME(lockspan_plock_claim_timed_claim_to_atomic);
    CHECK(lockspan_plock_claim_timed_claim_to_atomic(lock, &past), 0);
    CLAIM_ADMITS(BUSY, BUSY);

    /* Another round; then back to read, in two ways. */
    lockspan_plock_claim_atomic_to_join(lock);
    lockspan_plock_claim_join_to_claim(lock);
    lockspan_plock_claim_claim_to_atomic(lock);
    NO_TIME(lockspan_plock_claim_timed_atomic_to_read);
    CHECK(lockspan_plock_claim_timed_atomic_to_read(lock, &past), 0);
    CLAIM_ADMITS(OK, BUSY);
    lockspan_plock_claim_read_to_join(lock);
    lockspan_plock_claim_join_to_claim(lock);
    lockspan_plock_claim_claim_to_read(lock);
    CLAIM_ADMITS(OK, BUSY);
    lockspan_plock_claim_read_done(lock);
    CLAIM_ADMITS(OK, OK);

    IN_TIME(lockspan_plock_claim_timed_alone, lockspan_plock_claim_alone_done);
    CLAIM_ADMITS(BUSY, BUSY);
    lockspan_plock_claim_alone_to_read(lock);
    CLAIM_ADMITS(OK, BUSY);
    lockspan_plock_claim_read_done(lock);
    lockspan_plock_claim_alone(lock);
    lockspan_plock_claim_alone_to_claim(lock);
    CLAIM_ADMITS(BUSY, BUSY);
    lockspan_plock_claim_claim_done(lock);
    lockspan_plock_claim_alone(lock);
    lockspan_plock_claim_alone_to_atomic(lock);
    CLAIM_ADMITS(BUSY, BUSY);
    lockspan_plock_claim_atomic_to_read(lock);
    CLAIM_ADMITS(OK, BUSY);
    lockspan_plock_claim_read_done(lock);
    CLAIM_ADMITS(OK, OK);
}

/* Who gets in beside the holders: to read, to claim, to change, alone. */
#define COMES_IN(to_read, to_claim, to_atomic, to_alone) \
    do { \
        CLAIM_ADMITS(to_read, to_alone); \
        ADMITS(claim_claim, to_claim); \
        ADMITS(claim_atomic, to_atomic); \
    } while (0)
#define lockspan_plock_try_claim_claim lockspan_plock_claim_try_claim
#define lockspan_plock_try_claim_atomic lockspan_plock_claim_try_atomic

/* From outside to Claim and to Atomic, and what does not wait. */
static void claim_from_outside(lockspan_plock_claim_t *lock) {
    COMES_IN(OK, OK, OK, OK);
    lockspan_plock_claim_claim(lock);
    COMES_IN(BUSY, BUSY, BUSY, BUSY);
    LATE(lockspan_plock_claim_timed_claim);
    LATE(lockspan_plock_claim_timed_atomic);
    CHECK(lockspan_plock_claim_try_claim_to_read(lock), 0);
    COMES_IN(OK, BUSY, BUSY, BUSY);
    LATE(lockspan_plock_claim_timed_claim);
    LATE(lockspan_plock_claim_timed_atomic);
    COMES_IN(OK, BUSY, BUSY, BUSY);
    CHECK(lockspan_plock_claim_try_read_to_claim(lock), 0);
    CHECK(lockspan_plock_claim_try_claim_to_atomic(lock), 0);
    COMES_IN(BUSY, BUSY, OK, BUSY);
    CHECK(lockspan_plock_claim_try_atomic_to_claim(lock), 0);
    lockspan_plock_claim_claim_to_read(lock);
    lockspan_plock_claim_read_to_claim(lock);
    lockspan_plock_claim_claim_to_atomic(lock);
    CHECK(lockspan_plock_claim_try_atomic_to_read(lock), 0);
    lockspan_plock_claim_read_done(lock);
    IN_TIME(lockspan_plock_claim_timed_claim, lockspan_plock_claim_claim_done);
    lockspan_plock_claim_claim_done(lock);
    IN_TIME(lockspan_plock_claim_timed_atomic, lockspan_plock_claim_atomic_done);
    lockspan_plock_claim_atomic_to_claim(lock);
    NO_TIME(lockspan_plock_claim_timed_claim_to_read);
    CHECK(lockspan_plock_claim_timed_claim_to_read(lock, &past), 0);
    NO_TIME(lockspan_plock_claim_timed_read_to_claim);
    CHECK(lockspan_plock_claim_timed_read_to_claim(lock, &past), 0);
    lockspan_plock_claim_claim_done(lock);
    COMES_IN(OK, OK, OK, OK);
}

/* A joiner gives up, to where it came from. */
static void give_up(lockspan_plock_claim_t *lock) {
    /* Beside a reader. */
    lockspan_plock_claim_read(lock);
    lockspan_plock_claim_read(lock);
    CHECK(lockspan_plock_claim_try_read_to_claim(lock), EBUSY);
    LATE(lockspan_plock_claim_timed_read_to_claim);
    COMES_IN(OK, BUSY, BUSY, BUSY);
    lockspan_plock_claim_read_to_join(lock);
    COMES_IN(BUSY, BUSY, BUSY, BUSY);
    CHECK(lockspan_plock_claim_try_join_to_atomic(lock), EBUSY);
    LATE(lockspan_plock_claim_timed_join_to_atomic);
    CHECK(lockspan_plock_claim_try_join_to_read(lock), 0);
    COMES_IN(OK, BUSY, BUSY, BUSY);
    lockspan_plock_claim_read_to_join(lock);
    lockspan_plock_claim_join_to_read(lock);
    lockspan_plock_claim_read_to_join(lock);
    NO_TIME(lockspan_plock_claim_timed_join_to_read);
    CHECK(lockspan_plock_claim_timed_join_to_read(lock, &past), 0);
    lockspan_plock_claim_read_done(lock);
    lockspan_plock_claim_read_done(lock);

    /* Beside an atomic. */
    lockspan_plock_claim_atomic(lock);
    lockspan_plock_claim_atomic(lock);
    CHECK(lockspan_plock_claim_try_atomic_to_read(lock), EBUSY);
    CHECK(lockspan_plock_claim_try_atomic_to_claim(lock), EBUSY);
    LATE(lockspan_plock_claim_timed_atomic_to_claim);
    COMES_IN(BUSY, BUSY, OK, BUSY);
    lockspan_plock_claim_atomic_to_join(lock);
    COMES_IN(BUSY, BUSY, BUSY, BUSY);
    CHECK(lockspan_plock_claim_try_join_to_read(lock), EBUSY);
    LATE(lockspan_plock_claim_timed_join_to_read);
    CHECK(lockspan_plock_claim_try_join_to_atomic(lock), 0);
    COMES_IN(BUSY, BUSY, OK, BUSY);
    lockspan_plock_claim_atomic_to_join(lock);
    lockspan_plock_claim_join_to_atomic(lock);
    lockspan_plock_claim_atomic_to_join(lock);
    NO_TIME(lockspan_plock_claim_timed_join_to_atomic);
    CHECK(lockspan_plock_claim_timed_join_to_atomic(lock, &past), 0);
    lockspan_plock_claim_atomic_done(lock);
    NO_TIME(lockspan_plock_claim_timed_atomic_to_claim);
    CHECK(lockspan_plock_claim_timed_atomic_to_claim(lock, &past), 0);
    lockspan_plock_claim_claim_done(lock);
    COMES_IN(OK, OK, OK, OK);
}

static void *claim_on_its_own(void *at) {
    lockspan_plock_claim_t *lock = at;
    lockspan_plock_claim_join_to_claim(lock);
    lockspan_plock_claim_claim_to_atomic(lock);
    return NULL;
}

static void *change_on_its_own(void *at) {
    lockspan_plock_claim_atomic(at);
    return NULL;
}

static void *read_on_its_own(void *at) {
    lockspan_plock_claim_atomic_to_read(at);
    return NULL;
}

/* An atomic that has another in its way, which takes a second thread to bring about. */
static void claim_beside_another(lockspan_plock_claim_t *lock) {
    pthread_t thread;
    struct timespec soon;
    lockspan_plock_claim_read(lock);
    lockspan_plock_claim_read(lock);
    lockspan_plock_claim_read_to_join(lock);
    lockspan_plock_claim_read_to_join(lock);
    CHECK(lockspan_plock_claim_try_claim_to_atomic(lock), EBUSY);
    CHECK(lockspan_plock_claim_try_claim_to_read(lock), EBUSY);
    LATE(lockspan_plock_claim_timed_claim_to_read);
    CHECK(pthread_create(&thread, NULL, claim_on_its_own, lock), 0);
    lockspan_plock_claim_join_to_claim(lock);
    /* Whether the other still claims or changes already, it is in the way. */
    soon = in_millis(5);
    switch (lockspan_plock_claim_timed_claim_to_read(lock, &soon)) {
    case ETIMEDOUT: lockspan_plock_claim_claim_to_atomic(lock); break;
    case EINPROGRESS: break;
    default: CHECK("read beside an atomic" == NULL, 1);
    }
    CHECK(pthread_join(thread, NULL), 0);
    COMES_IN(BUSY, BUSY, OK, BUSY);
    LATE(lockspan_plock_claim_timed_atomic_to_read);
    lockspan_plock_claim_atomic_to_join(lock);
    CHECK(lockspan_plock_claim_try_join_to_claim(lock), EBUSY);
    lockspan_plock_claim_atomic_done(lock);
    CHECK(lockspan_plock_claim_try_join_to_claim(lock), 0);
    lockspan_plock_claim_claim_done(lock);

    /* The next round, while another reads again: the time is over half-way. */
    lockspan_plock_claim_atomic(lock);
    lockspan_plock_claim_atomic(lock);
    CHECK(pthread_create(&thread, NULL, read_on_its_own, lock), 0);
    while (lockspan_plock_claim_try_atomic(lock) == 0)
        lockspan_plock_claim_atomic_done(lock);
    CHECK(lockspan_plock_claim_timed_atomic_to_claim(lock, &past), EINPROGRESS);
    CHECK(pthread_join(thread, NULL), 0);
    CHECK(lockspan_plock_claim_try_join_to_atomic(lock), EBUSY);
    lockspan_plock_claim_read_done(lock);
    CHECK(lockspan_plock_claim_try_join_to_claim(lock), 0);
    lockspan_plock_claim_claim_done(lock);
    COMES_IN(OK, OK, OK, OK);
}

/* A joiner gives up with a limit when the claim phase has begun. */
static void give_up_in_the_claim_phase(lockspan_plock_claim_t *lock) {
    pthread_t thread;
    /* Another claims: nothing has changed, so it is a joiner as before. */
    lockspan_plock_claim_read(lock);
    lockspan_plock_claim_read(lock);
    lockspan_plock_claim_read_to_join(lock);
    lockspan_plock_claim_read_to_join(lock);
    LATE(lockspan_plock_claim_timed_join_to_read);
    lockspan_plock_claim_join_done(lock);

    /* Another waits to change, and does so as soon as the last joiner gives up: the time is over
       half-way, in Atomic. As a joiner it would claim by what it read before the change. */
    CHECK(pthread_create(&thread, NULL, change_on_its_own, lock), 0);
    while (lockspan_plock_claim_try_join_to_read(lock) == 0)
        lockspan_plock_claim_read_to_join(lock);
    CHECK(lockspan_plock_claim_timed_join_to_read(lock, &past), EINPROGRESS);
    CHECK(pthread_join(thread, NULL), 0);
    COMES_IN(BUSY, BUSY, OK, BUSY);
    LATE(lockspan_plock_claim_timed_atomic_to_read);
    lockspan_plock_claim_atomic_done(lock);
    lockspan_plock_claim_atomic_to_read(lock);
    COMES_IN(OK, BUSY, BUSY, BUSY);
    lockspan_plock_claim_read_done(lock);
    COMES_IN(OK, OK, OK, OK);
}

static void *read_whenever(void *at) {
    CHECK(lockspan_plock_timed_read(at, &never), 0);
    lockspan_plock_read_done(at);
    return NULL;
}

/* A time that is very far away is waited for, not passed. */
static void a_far_time(lockspan_plock_t *lock) {
    pthread_t thread;
    struct timespec soon = in_millis(20);
    lockspan_plock_write(lock);
    CHECK(pthread_create(&thread, NULL, read_whenever, lock), 0);
    CHECK(lockspan_plock_timed_read(lock, &soon), ETIMEDOUT);
    lockspan_plock_write_done(lock);
    CHECK(pthread_join(thread, NULL), 0);
}

int main(void) {
    lockspan_plock_t *base = lockspan_plock_new();
    lockspan_plock_upgrade_t *up = lockspan_plock_upgrade_new();
    lockspan_plock_claim_t *many = lockspan_plock_claim_new();
    CHECK(base != NULL && up != NULL && many != NULL, 1);
    come_in(base);
    go_on(base);
    a_far_time(base);
    upgrade(up);
    claim(many);
    claim_from_outside(many);
    give_up(many);
    claim_beside_another(many);
    give_up_in_the_claim_phase(many);
    lockspan_plock_free(base);
    lockspan_plock_upgrade_free(up);
    lockspan_plock_claim_free(many);
    return 0;
}
