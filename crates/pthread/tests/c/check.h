/* What the test programs share: checks, times, and a lock of the asked sort. */
#ifndef CHECK_H
#define CHECK_H

#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(what, want) \
    do { \
        long got_ = (long)(what), want_ = (long)(want); \
        if (got_ != want_) { \
            /* The message is not to be lost to a pending cancellation. */ \
            pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL); \
            fprintf(stderr, "%s:%d: %s is %ld, not %ld\n", __FILE__, __LINE__, #what, got_, \
                    want_); \
            exit(1); \
        } \
    } while (0)

/* "shared" as first argument: the locks are process-shared. */
static int pshared = PTHREAD_PROCESS_PRIVATE;

static inline void which(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "shared") == 0)
        pshared = PTHREAD_PROCESS_SHARED;
    else
        CHECK(argc > 1 && strcmp(argv[1], "private") == 0, 1);
}

static inline void make(pthread_rwlock_t *lock) {
    pthread_rwlockattr_t attr;
    CHECK(pthread_rwlockattr_init(&attr), 0);
    CHECK(pthread_rwlockattr_setpshared(&attr, pshared), 0);
    CHECK(pthread_rwlock_init(lock, &attr), 0);
    CHECK(pthread_rwlockattr_destroy(&attr), 0);
}

static inline struct timespec in_millis(clockid_t clock, long millis) {
    struct timespec t;
    clock_gettime(clock, &t);
    t.tv_sec += millis / 1000;
    t.tv_nsec += millis % 1000 * 1000000;
    if (t.tv_nsec >= 1000000000) {
        t.tv_sec++;
        t.tv_nsec -= 1000000000;
    }
    return t;
}

static inline int reached(clockid_t clock, struct timespec t) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec > t.tv_sec || (now.tv_sec == t.tv_sec && now.tv_nsec >= t.tv_nsec);
}

static inline void nap(long millis) {
    struct timespec t = {millis / 1000, millis % 1000 * 1000000};
    while (nanosleep(&t, &t) == -1)
        ;
}

/* Runs `body(arg)` in another thread to its end. */
static inline void *beside(void *(*body)(void *), void *arg) {
    pthread_t thread;
    void *result;
    CHECK(pthread_create(&thread, NULL, body, arg), 0);
    CHECK(pthread_join(thread, &result), 0);
    return result;
}

static inline void *shared_memory(size_t size) {
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(at != MAP_FAILED, 1);
    return at;
}

#endif
