/* Threads of one process: exclusion under load, a second read lock past a writer, signals. */
#include "check.h"

#include <signal.h>

enum { THREADS = 8, ROUNDS = 60000 };

static pthread_rwlock_t lock;
static volatile long first, second;
static atomic_int stage;

static void *stress(void *arg) {
    long me = (long)arg, added = 0;
    for (long i = 0; i < ROUNDS; i++) {
        struct timespec soon = in_millis(CLOCK_MONOTONIC, 1), past = {0, 0};
        int got;
        switch ((i + me) % 9) {
        case 0: got = pthread_rwlock_wrlock(&lock); break;
        case 1: got = pthread_rwlock_trywrlock(&lock); break;
        case 2: got = pthread_rwlock_clockwrlock(&lock, CLOCK_MONOTONIC, &soon); break;
        case 3: got = pthread_rwlock_timedwrlock(&lock, &past); break;
        case 4: got = pthread_rwlock_clockrdlock(&lock, CLOCK_MONOTONIC, &soon); break;
        case 5: got = pthread_rwlock_tryrdlock(&lock); break;
        default: got = pthread_rwlock_rdlock(&lock);
        }
        if (got != 0) {
            CHECK(got == EBUSY || got == ETIMEDOUT, 1);
        } else if ((i + me) % 9 < 4) {
            first = first + 1;
            second = second + 1;
            added++;
            CHECK(pthread_rwlock_unlock(&lock), 0);
        } else {
            long seen = first;
            CHECK(second, seen);
            if (i % 5 == 0) {
                CHECK(pthread_rwlock_rdlock(&lock), 0);
                CHECK(first, seen);
                CHECK(pthread_rwlock_unlock(&lock), 0);
            }
            CHECK(first, seen);
            CHECK(pthread_rwlock_unlock(&lock), 0);
        }
    }
    return (void *)added;
}

static void exclusion(void) {
    pthread_t threads[THREADS];
    long added = 0;
    for (long i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, stress, (void *)i), 0);
    for (int i = 0; i < THREADS; i++) {
        void *own;
        CHECK(pthread_join(threads[i], &own), 0);
        added += (long)own;
    }
    CHECK(first, added);
    CHECK(second, added);
    CHECK(added > ROUNDS / 9, 1);
}

static void *write_once(void *unused) {
    (void)unused;
    CHECK(pthread_rwlock_wrlock(&lock), 0);
    stage = 1;
    CHECK(pthread_rwlock_unlock(&lock), 0);
    return NULL;
}

static void *try_read(void *unused) {
    (void)unused;
    int got = pthread_rwlock_tryrdlock(&lock);
    if (got == 0)
        CHECK(pthread_rwlock_unlock(&lock), 0);
    return (void *)(long)got;
}

static void *read_timed(void *unused) {
    (void)unused;
    struct timespec soon = in_millis(CLOCK_REALTIME, 30);
    return (void *)(long)pthread_rwlock_timedrdlock(&lock, &soon);
}

/* A writer waits; another reader has to wait behind it, the one that reads already has not. */
static void second_read_past_a_writer(void) {
    pthread_t writer;
    stage = 0;
    CHECK(pthread_rwlock_rdlock(&lock), 0);
    CHECK(pthread_create(&writer, NULL, write_once, NULL), 0);
    for (int i = 0; beside(try_read, NULL) == NULL; i++) {
        CHECK(i < 2000, 1);
        nap(1);
    }
    CHECK((long)beside(try_read, NULL), EBUSY);
    CHECK((long)beside(read_timed, NULL), ETIMEDOUT);
    struct timespec past = {0, 0};
    CHECK(pthread_rwlock_rdlock(&lock), 0);
    CHECK(pthread_rwlock_tryrdlock(&lock), 0);
    CHECK(pthread_rwlock_timedrdlock(&lock, &past), 0);
    CHECK(pthread_rwlock_clockrdlock(&lock, CLOCK_MONOTONIC, &past), 0);
    for (int i = 0; i < 5; i++) {
        CHECK(stage, 0);
        CHECK(pthread_rwlock_unlock(&lock), 0);
    }
    CHECK(pthread_join(writer, NULL), 0);
    CHECK(stage, 1);
}

static void *write_timed(void *unused) {
    (void)unused;
    struct timespec soon = in_millis(CLOCK_REALTIME, 100);
    CHECK(pthread_rwlock_timedwrlock(&lock, &soon), ETIMEDOUT);
    return NULL;
}

static void *read_behind(void *unused) {
    (void)unused;
    CHECK(pthread_rwlock_rdlock(&lock), 0);
    CHECK(pthread_rwlock_unlock(&lock), 0);
    return NULL;
}

/* A writer gives up: the readers that wait behind it come in, though the first one stays. */
static void a_writer_gives_up(void) {
    pthread_t writer, readers[3];
    CHECK(pthread_rwlock_rdlock(&lock), 0);
    CHECK(pthread_create(&writer, NULL, write_timed, NULL), 0);
    nap(40);
    for (int i = 0; i < 3; i++)
        CHECK(pthread_create(&readers[i], NULL, read_behind, NULL), 0);
    for (int i = 0; i < 3; i++)
        CHECK(pthread_join(readers[i], NULL), 0);
    CHECK(pthread_join(writer, NULL), 0);
    CHECK(pthread_rwlock_unlock(&lock), 0);
}

static atomic_int signals;

static void count_signal(int unused) {
    (void)unused;
    signals++;
}

static void *wait_as(void *writes) {
    stage = 2;
    CHECK(writes ? pthread_rwlock_wrlock(&lock) : pthread_rwlock_rdlock(&lock), 0);
    CHECK(pthread_rwlock_unlock(&lock), 0);
    struct timespec soon = in_millis(CLOCK_REALTIME, 5000);
    CHECK(writes ? pthread_rwlock_timedwrlock(&lock, &soon)
                 : pthread_rwlock_timedrdlock(&lock, &soon), 0);
    CHECK(pthread_rwlock_unlock(&lock), 0);
    return NULL;
}

/* A signal is handled during the wait and does not end it. */
static void signals_do_not_end_a_wait(void) {
    struct sigaction act = {.sa_handler = count_signal};
    sigaction(SIGUSR1, &act, NULL);
    for (long writes = 0; writes < 2; writes++) {
        pthread_t waiter;
        stage = 0;
        signals = 0;
        CHECK(pthread_rwlock_wrlock(&lock), 0);
        CHECK(pthread_create(&waiter, NULL, wait_as, (void *)writes), 0);
        while (stage != 2)
            nap(1);
        for (int i = 0; i < 20; i++) {
            nap(2);
            CHECK(pthread_kill(waiter, SIGUSR1), 0);
        }
        nap(20);
        CHECK(signals > 0, 1);
        CHECK(pthread_rwlock_unlock(&lock), 0);
        CHECK(pthread_join(waiter, NULL), 0);
    }
}

int main(int argc, char **argv) {
    which(argc, argv);
    make(&lock);
    second_read_past_a_writer();
    a_writer_gives_up();
    signals_do_not_end_a_wait();
    exclusion();
    CHECK(pthread_rwlock_destroy(&lock), 0);
    return 0;
}
