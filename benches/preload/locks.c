/*
 * The price of an uncontended pthread_rwlock_t: nanoseconds for a lock and its unlock, while the
 * thread holds other locks. Prints a line for each case; run it with and without the preload
 * library. `cargo xtask bench preload` does so, and compares.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { PAIRS = 1000000 };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

static void must(int error) {
    if (error != 0) {
        fprintf(stderr, "a lock call returned %d\n", error);
        exit(1);
    }
}

int main(void) {
    static const int others[] = {0, 1, 16, 100, 1000, 10000};
    for (size_t k = 0; k < sizeof others / sizeof *others; k++) {
        int n = others[k];
        pthread_rwlock_t *locks = malloc(sizeof *locks * (size_t)(n + 2));
        pthread_rwlock_t *a = &locks[n], *b = &locks[n + 1];
        for (int i = 0; i < n + 2; i++) {
            must(pthread_rwlock_init(&locks[i], NULL));
        }
        for (int i = 0; i < n; i++) {
            must(i % 2 ? pthread_rwlock_rdlock(&locks[i]) : pthread_rwlock_wrlock(&locks[i]));
        }
        double begin = now();
        for (int i = 0; i < PAIRS; i++) {
            must(pthread_rwlock_rdlock(a));
            must(pthread_rwlock_unlock(a));
        }
        double read = now();
        for (int i = 0; i < PAIRS; i++) {
            must(pthread_rwlock_wrlock(a));
            must(pthread_rwlock_unlock(a));
        }
        double write = now();
        must(pthread_rwlock_rdlock(a));
        for (int i = 0; i < PAIRS / 2; i++) {
            must(pthread_rwlock_rdlock(b));
            must(pthread_rwlock_unlock(a));
            must(pthread_rwlock_rdlock(a));
            must(pthread_rwlock_unlock(b));
        }
        double chain = now();
        must(pthread_rwlock_unlock(a));
        printf("read %d %f\n", n, (read - begin) / PAIRS);
        printf("write %d %f\n", n, (write - read) / PAIRS);
        printf("hand-over-hand %d %f\n", n, (chain - write) / PAIRS);
        for (int i = 0; i < n; i++) {
            must(pthread_rwlock_unlock(&locks[i]));
        }
        free(locks);
    }
    return 0;
}
