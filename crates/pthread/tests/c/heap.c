/* A program's own malloc may stand on read-write locks: no lock call may come back to it. */
#include "check.h"

enum { THREADS = 4, ROUNDS = 20000 };

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);

static pthread_rwlock_t locks[40];
static pthread_barrier_t start;
static _Thread_local int forbidden;

static void allowed(void) {
    if (forbidden) {
        static const char line[] = "a lock call used the heap\n";
        (void)!write(2, line, sizeof line - 1);
        _exit(1);
    }
}

void *malloc(size_t size) {
    allowed();
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size) {
    allowed();
    return __libc_calloc(count, size);
}

void *realloc(void *at, size_t size) {
    allowed();
    return __libc_realloc(at, size);
}

static void *use(void *unused) {
    (void)unused;
    pthread_barrier_wait(&start);
    forbidden = 1;
    for (int i = 0; i < ROUNDS; i++) {
        struct timespec soon = in_millis(CLOCK_REALTIME, 1);
        int got = i % 3 == 0   ? pthread_rwlock_wrlock(&locks[0])
                  : i % 3 == 1 ? pthread_rwlock_rdlock(&locks[0])
                               : pthread_rwlock_timedwrlock(&locks[0], &soon);
        if (got == 0)
            CHECK(pthread_rwlock_unlock(&locks[0]), 0);
        if (i % 100 == 0) {
            for (int k = 1; k < 40; k++)
                CHECK(pthread_rwlock_rdlock(&locks[k]), 0);
            for (int k = 1; k < 40; k++)
                CHECK(pthread_rwlock_unlock(&locks[k]), 0);
        }
    }
    forbidden = 0;
    return NULL;
}

int main(int argc, char **argv) {
    which(argc, argv);
    for (int i = 0; i < 40; i++)
        make(&locks[i]);
    pthread_t threads[THREADS];
    pthread_barrier_init(&start, NULL, THREADS);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, use, NULL), 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL), 0);
    return 0;
}
