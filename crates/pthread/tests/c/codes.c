/* Every return code, of locks of both sorts. */
#include "check.h"

static pthread_rwlock_t lock;

/* Each timed call in `any` of the four forms. */
static int timed(int any, pthread_rwlock_t *l, const struct timespec *real,
                 const struct timespec *mono) {
    switch (any) {
    case 0: return pthread_rwlock_timedrdlock(l, real);
    case 1: return pthread_rwlock_clockrdlock(l, CLOCK_REALTIME, real);
    case 2: return pthread_rwlock_clockrdlock(l, CLOCK_MONOTONIC, mono);
    case 3: return pthread_rwlock_timedwrlock(l, real);
    case 4: return pthread_rwlock_clockwrlock(l, CLOCK_REALTIME, real);
    default: return pthread_rwlock_clockwrlock(l, CLOCK_MONOTONIC, mono);
    }
}

static void *of_a_written_lock(void *unused) {
    (void)unused;
    CHECK(pthread_rwlock_tryrdlock(&lock), EBUSY);
    CHECK(pthread_rwlock_trywrlock(&lock), EBUSY);
    CHECK(pthread_rwlock_unlock(&lock), EPERM);
    CHECK(pthread_rwlock_destroy(&lock), EBUSY);
    struct timespec past = {0, 0}, before = {-7, 5};
    for (int any = 0; any < 6; any++) {
        struct timespec real = in_millis(CLOCK_REALTIME, 20);
        struct timespec mono = in_millis(CLOCK_MONOTONIC, 20);
        CHECK(timed(any, &lock, &real, &mono), ETIMEDOUT);
        CHECK(reached(CLOCK_MONOTONIC, mono), 1);
        CHECK(timed(any, &lock, &past, &past), ETIMEDOUT);
        CHECK(timed(any, &lock, &before, &before), ETIMEDOUT);
    }
    return NULL;
}

static void *of_a_read_lock(void *unused) {
    (void)unused;
    CHECK(pthread_rwlock_unlock(&lock), EPERM);
    CHECK(pthread_rwlock_destroy(&lock), EBUSY);
    CHECK(pthread_rwlock_tryrdlock(&lock), 0);
    CHECK(pthread_rwlock_unlock(&lock), 0);
    CHECK(pthread_rwlock_unlock(&lock), EPERM);
    CHECK(pthread_rwlock_trywrlock(&lock), EBUSY);
    struct timespec past = {0, 0};
    for (int any = 0; any < 3; any++) {
        CHECK(timed(any, &lock, &past, &past), 0);
        CHECK(pthread_rwlock_unlock(&lock), 0);
    }
    for (int any = 3; any < 6; any++) {
        struct timespec real = in_millis(CLOCK_REALTIME, 20);
        struct timespec mono = in_millis(CLOCK_MONOTONIC, 20);
        CHECK(timed(any, &lock, &real, &mono), ETIMEDOUT);
        CHECK(reached(CLOCK_MONOTONIC, mono), 1);
    }
    return NULL;
}

static void by_one_thread(void) {
    struct timespec soon = in_millis(CLOCK_REALTIME, 50);
    struct timespec mono = in_millis(CLOCK_MONOTONIC, 50);

    CHECK(pthread_rwlock_wrlock(&lock), 0);
    CHECK(pthread_rwlock_rdlock(&lock), EDEADLK);
    CHECK(pthread_rwlock_wrlock(&lock), EDEADLK);
    CHECK(pthread_rwlock_tryrdlock(&lock), EBUSY);
    CHECK(pthread_rwlock_trywrlock(&lock), EBUSY);
    for (int any = 0; any < 6; any++)
        CHECK(timed(any, &lock, &soon, &mono), EDEADLK);
    CHECK(pthread_rwlock_destroy(&lock), EBUSY);
    beside(of_a_written_lock, NULL);
    CHECK(pthread_rwlock_unlock(&lock), 0);
    CHECK(pthread_rwlock_unlock(&lock), EPERM);

    CHECK(pthread_rwlock_rdlock(&lock), 0);
    CHECK(pthread_rwlock_tryrdlock(&lock), 0);
    for (int any = 0; any < 3; any++)
        CHECK(timed(any, &lock, &soon, &mono), 0);
    CHECK(pthread_rwlock_wrlock(&lock), EDEADLK);
    CHECK(pthread_rwlock_trywrlock(&lock), EBUSY);
    for (int any = 3; any < 6; any++)
        CHECK(timed(any, &lock, &soon, &mono), EDEADLK);
    CHECK(pthread_rwlock_destroy(&lock), EBUSY);
    beside(of_a_read_lock, NULL);
    for (int i = 0; i < 5; i++)
        CHECK(pthread_rwlock_unlock(&lock), 0);
    CHECK(pthread_rwlock_unlock(&lock), EPERM);
    CHECK(pthread_rwlock_trywrlock(&lock), 0);
    CHECK(pthread_rwlock_unlock(&lock), 0);
}

static void invalid(void) {
    struct timespec good = in_millis(CLOCK_REALTIME, 50);
    struct timespec over = {good.tv_sec, 1000000000}, under = {good.tv_sec, -1};
    void *volatile null = NULL; /* the header says that null is not to be passed */
    for (int any = 0; any < 6; any++) {
        CHECK(timed(any, &lock, &over, &over), EINVAL);
        CHECK(timed(any, &lock, &under, &under), EINVAL);
        CHECK(timed(any, &lock, null, null), EINVAL);
        CHECK(timed(any, null, &good, &good), EINVAL);
    }
    CHECK(pthread_rwlock_clockrdlock(&lock, CLOCK_PROCESS_CPUTIME_ID, &good), EINVAL);
    CHECK(pthread_rwlock_clockwrlock(&lock, CLOCK_BOOTTIME, &good), EINVAL);
    CHECK(pthread_rwlock_clockwrlock(&lock, -1, &good), EINVAL);
    CHECK(pthread_rwlock_init(null, NULL), EINVAL);
    CHECK(pthread_rwlock_destroy(null), EINVAL);
    CHECK(pthread_rwlock_rdlock(null), EINVAL);
    CHECK(pthread_rwlock_wrlock(null), EINVAL);
    CHECK(pthread_rwlock_tryrdlock(null), EINVAL);
    CHECK(pthread_rwlock_trywrlock(null), EINVAL);
    CHECK(pthread_rwlock_unlock(null), EINVAL);
    CHECK(pthread_rwlock_trywrlock(&lock), 0); /* no failed call has left a hold */
    CHECK(pthread_rwlock_unlock(&lock), 0);
}

static void after_destroy(void) {
    struct timespec past = {0, 0};
    CHECK(pthread_rwlock_destroy(&lock), 0);
    CHECK(pthread_rwlock_destroy(&lock), EINVAL);
    CHECK(pthread_rwlock_rdlock(&lock), EINVAL);
    CHECK(pthread_rwlock_wrlock(&lock), EINVAL);
    CHECK(pthread_rwlock_timedrdlock(&lock, &past), EINVAL);
    CHECK(pthread_rwlock_unlock(&lock), EINVAL);
    make(&lock);
    CHECK(pthread_rwlock_wrlock(&lock), 0);
    CHECK(pthread_rwlock_unlock(&lock), 0);
}

/* A shared lock counts 262 143 readers; a private one more than this test has time for. */
static void too_many_readers(void) {
    long got = 0;
    int code = 0;
    while (got < 300000 && (code = pthread_rwlock_rdlock(&lock)) == 0)
        got++;
    if (pshared == PTHREAD_PROCESS_SHARED) {
        CHECK(got, 262143);
        CHECK(code, EAGAIN);
        CHECK(pthread_rwlock_tryrdlock(&lock), EAGAIN);
    } else {
        CHECK(code, 0);
    }
    while (got-- > 0)
        CHECK(pthread_rwlock_unlock(&lock), 0);
    CHECK(pthread_rwlock_trywrlock(&lock), 0);
    CHECK(pthread_rwlock_unlock(&lock), 0);
}

int main(int argc, char **argv) {
    which(argc, argv);
    make(&lock);
    errno = 4711;
    by_one_thread();
    invalid();
    after_destroy();
    too_many_readers();
    CHECK(pthread_rwlock_destroy(&lock), 0);
    CHECK(errno, 4711);
    return 0;
}
