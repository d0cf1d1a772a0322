/*
 * The price of an uncontended pthread_rwlock_t: nanoseconds for a lock and its unlock, while the
 * thread holds other locks. Prints a line for each case; run it with and without the preload
 * library. `cargo xtask bench preload` does so, and compares. An argument is the number of pairs
 * that are measured, which defaults to a million.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

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

int main(int argc, char **argv) {
    const int pairs = argc > 1 ? atoi(argv[1]) : 1000000;
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
        for (int i = 0; i < pairs; i++) {
            must(pthread_rwlock_rdlock(a));
            must(pthread_rwlock_unlock(a));
        }
        double read = now();
        for (int i = 0; i < pairs; i++) {
            must(pthread_rwlock_wrlock(a));
            must(pthread_rwlock_unlock(a));
        }
        double write = now();
        must(pthread_rwlock_rdlock(a));
        for (int i = 0; i < pairs / 2; i++) {
            must(pthread_rwlock_rdlock(b));
            must(pthread_rwlock_unlock(a));
            must(pthread_rwlock_rdlock(a));
            must(pthread_rwlock_unlock(b));
        }
        double chain = now();
        must(pthread_rwlock_unlock(a));
        printf("read %d %f\n", n, (read - begin) / pairs);
        printf("write %d %f\n", n, (write - read) / pairs);
        printf("hand-over-hand %d %f\n", n, (chain - write) / pairs);
        for (int i = 0; i < n; i++) {
            must(pthread_rwlock_unlock(&locks[i]));
        }
        free(locks);
    }
    return 0;
}
