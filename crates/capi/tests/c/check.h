/* What the test programs share: a check that ends the program, and times. */
#ifndef CHECK_H
#define CHECK_H

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define CHECK(what, want) \
    do { \
        long got_ = (long)(what), want_ = (long)(want); \
        if (got_ != want_) { \
            /* The message is not to be lost to a pending cancellation. */ \
            pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL); \
            fprintf(stderr, "line %d: %s is %ld, not %ld\n", __LINE__, #what, got_, want_); \
            exit(1); \
        } \
    } while (0)

static inline struct timespec in_millis(long millis) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += millis / 1000;
    t.tv_nsec += millis % 1000 * 1000000;
    if (t.tv_nsec >= 1000000000) {
        t.tv_sec++;
        t.tv_nsec -= 1000000000;
    }
    return t;
}

/* Whether the clock shows that time. */
static inline int has_come(const struct timespec *t) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec > t->tv_sec || (now.tv_sec == t->tv_sec && now.tv_nsec >= t->tv_nsec);
}

#endif
