/*
 * No call acts on a cancellation of its thread: POSIX lets some of them, glibc none. Each is made
 * by a thread that has asked itself to end; it must get through all its calls and end at its own
 * pthread_testcancel(). The first argument says which sort of lock.
 */
#include "check.h"

#include <sched.h>
#include <sys/syscall.h>

/* The scheduler's bit in the first word of a private lock, which this test may know. */
enum { SCHEDULER = 1 << 3 };

static pthread_rwlock_t lock;

static atomic_ulong *word(void) {
    return (atomic_ulong *)(void *)&lock;
}

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
        struct timespec limit = in_millis(CLOCK_MONOTONIC, 60000);
        while ((!trial.thread || !sleeps(trial.thread)) && !reached(CLOCK_MONOTONIC, limit))
            sched_yield();
        open();
    }
    CHECK(pthread_join(thread, &result), 0);
    if (result != PTHREAD_CANCELED || !trial.over) {
        fprintf(stderr, "%s: cancelled inside of a call\n", name);
        exit(1);
    }
}

static void alone(void) {
    pthread_rwlock_t fresh;
    pthread_rwlockattr_t attr;
    struct timespec never = in_millis(CLOCK_REALTIME, 60000);
    int is;
    CHECK(pthread_rwlockattr_init(&attr), 0);
    CHECK(pthread_rwlockattr_setpshared(&attr, pshared), 0);
    CHECK(pthread_rwlockattr_getpshared(&attr, &is), 0);
    CHECK(pthread_rwlockattr_setkind_np(&attr, 0), 0);
    CHECK(pthread_rwlockattr_getkind_np(&attr, &is), 0);
    CHECK(pthread_rwlock_init(&fresh, &attr), 0);
    CHECK(pthread_rwlockattr_destroy(&attr), 0);
    CHECK(pthread_rwlock_rdlock(&fresh), 0);
    CHECK(pthread_rwlock_tryrdlock(&fresh), 0);
    CHECK(pthread_rwlock_unlock(&fresh), 0);
    CHECK(pthread_rwlock_unlock(&fresh), 0);
    CHECK(pthread_rwlock_unlock(&fresh), EPERM);
    CHECK(pthread_rwlock_wrlock(&fresh), 0);
    CHECK(pthread_rwlock_wrlock(&fresh), EDEADLK);
    CHECK(pthread_rwlock_destroy(&fresh), EBUSY);
    CHECK(pthread_rwlock_unlock(&fresh), 0);
    CHECK(pthread_rwlock_trywrlock(&fresh), 0);
    CHECK(pthread_rwlock_unlock(&fresh), 0);
    CHECK(pthread_rwlock_timedrdlock(&fresh, &never), 0);
    CHECK(pthread_rwlock_unlock(&fresh), 0);
    CHECK(pthread_rwlock_timedwrlock(&fresh, &never), 0);
    CHECK(pthread_rwlock_unlock(&fresh), 0);
    CHECK(pthread_rwlock_destroy(&fresh), 0);
    CHECK(pthread_rwlock_rdlock(&fresh), EINVAL);
}

/* More holds than the thread's table has room for, so that pages are asked for. */
static void many(void) {
    enum { MANY = 3000 };
    pthread_rwlock_t *locks = calloc(MANY, sizeof *locks);
    for (int i = 0; i < MANY; i++) {
        make(&locks[i]);
        CHECK(pthread_rwlock_rdlock(&locks[i]), 0);
    }
    for (int i = 0; i < MANY; i++)
        CHECK(pthread_rwlock_unlock(&locks[i]), 0);
    free(locks);
}

static void read_waits(void) {
    CHECK(pthread_rwlock_rdlock(&lock), 0);
    CHECK(pthread_rwlock_unlock(&lock), 0);
}

static void write_waits(void) {
    CHECK(pthread_rwlock_wrlock(&lock), 0);
    CHECK(pthread_rwlock_unlock(&lock), 0);
}

static void timed_read_waits(void) {
    struct timespec never = in_millis(CLOCK_MONOTONIC, 60000);
    CHECK(pthread_rwlock_clockrdlock(&lock, CLOCK_MONOTONIC, &never), 0);
    CHECK(pthread_rwlock_unlock(&lock), 0);
}

static void timed_write_waits(void) {
    struct timespec never = in_millis(CLOCK_MONOTONIC, 60000);
    CHECK(pthread_rwlock_clockwrlock(&lock, CLOCK_MONOTONIC, &never), 0);
    CHECK(pthread_rwlock_unlock(&lock), 0);
}

static void is_late(void) {
    struct timespec soon = in_millis(CLOCK_REALTIME, 20);
    CHECK(pthread_rwlock_timedrdlock(&lock, &soon), ETIMEDOUT);
    soon = in_millis(CLOCK_REALTIME, 20);
    CHECK(pthread_rwlock_timedwrlock(&lock, &soon), ETIMEDOUT);
}

static void unlock(void) {
    CHECK(pthread_rwlock_unlock(&lock), 0);
}

/* Another thread is the scheduler, and has lost its processor: an unlock waits for it. */
static void no_scheduler(void) {
    atomic_fetch_and(word(), ~(unsigned long)SCHEDULER);
}

static void unlock_waits_after_reading(void) {
    CHECK(pthread_rwlock_rdlock(&lock), 0);
    atomic_fetch_or(word(), SCHEDULER);
    CHECK(pthread_rwlock_unlock(&lock), 0);
}

static void unlock_waits_after_writing(void) {
    CHECK(pthread_rwlock_wrlock(&lock), 0);
    atomic_fetch_or(word(), SCHEDULER);
    CHECK(pthread_rwlock_unlock(&lock), 0);
}

static void destroy_waits(void) {
    atomic_fetch_or(word(), SCHEDULER);
    CHECK(pthread_rwlock_destroy(&lock), 0);
}

int main(int argc, char **argv) {
    which(argc, argv);
    make(&lock);
    survives("alone", alone, NULL);
    survives("many", many, NULL);
    void (*waiting[])(void) = {read_waits, write_waits, timed_read_waits, timed_write_waits};
    for (int i = 0; i < 4; i++) {
        CHECK(pthread_rwlock_wrlock(&lock), 0);
        survives("a lock call that waits", waiting[i], unlock);
    }
    CHECK(pthread_rwlock_wrlock(&lock), 0);
    survives("is_late", is_late, NULL);
    CHECK(pthread_rwlock_unlock(&lock), 0);
    /* A process-shared lock has no scheduler, and no call that waits for one. */
    if (pshared == PTHREAD_PROCESS_PRIVATE) {
        survives("an unlock after reading", unlock_waits_after_reading, no_scheduler);
        survives("an unlock after writing", unlock_waits_after_writing, no_scheduler);
        survives("a destroy", destroy_waits, no_scheduler);
    }
    return 0;
}
