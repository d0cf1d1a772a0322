/* One lock in memory that several processes share; and what a child of fork holds. */
#include "check.h"

#include <signal.h>
#include <sys/prctl.h>

enum { PROCESSES = 4, ROUNDS = 40000 };

struct shared {
    pthread_rwlock_t lock;
    volatile long first, second;
    atomic_int stage;
};

static struct shared *shared;

/* A child that ends with this process, should the test have to be killed. */
static pid_t child_of_this(void) {
    pid_t child = fork();
    CHECK(child >= 0, 1);
    if (child == 0)
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    return child;
}

static void join(pid_t child) {
    int status;
    CHECK(waitpid(child, &status, 0), child);
    CHECK(status, 0);
}

static void stress(long me) {
    for (long i = 0; i < ROUNDS; i++) {
        if ((i + me) % 4 == 0) {
            CHECK(pthread_rwlock_wrlock(&shared->lock), 0);
            shared->first = shared->first + 1;
            shared->second = shared->second + 1;
        } else {
            CHECK(pthread_rwlock_rdlock(&shared->lock), 0);
            CHECK(shared->first, shared->second);
        }
        CHECK(pthread_rwlock_unlock(&shared->lock), 0);
    }
}

static void exclusion(void) {
    pid_t children[PROCESSES];
    for (long me = 0; me < PROCESSES; me++) {
        if ((children[me] = child_of_this()) == 0) {
            stress(me);
            exit(0);
        }
    }
    for (int i = 0; i < PROCESSES; i++)
        join(children[i]);
    CHECK(shared->first, PROCESSES * (ROUNDS / 4));
    CHECK(shared->second, PROCESSES * (ROUNDS / 4));
}

/* In the child nothing is held; a waiter gives up, and one that does not give up is woken. */
static void waits_of_a_child(void) {
    CHECK(pthread_rwlock_wrlock(&shared->lock), 0);
    shared->stage = 0;
    pid_t child = child_of_this();
    if (child == 0) {
        struct timespec real = in_millis(CLOCK_REALTIME, 30);
        struct timespec mono = in_millis(CLOCK_MONOTONIC, 30);
        CHECK(pthread_rwlock_unlock(&shared->lock), EPERM);
        CHECK(pthread_rwlock_tryrdlock(&shared->lock), EBUSY);
        CHECK(pthread_rwlock_timedrdlock(&shared->lock, &real), ETIMEDOUT);
        CHECK(pthread_rwlock_clockwrlock(&shared->lock, CLOCK_MONOTONIC, &mono), ETIMEDOUT);
        CHECK(reached(CLOCK_MONOTONIC, mono), 1);
        shared->stage = 1;
        CHECK(pthread_rwlock_rdlock(&shared->lock), 0);
        CHECK(pthread_rwlock_unlock(&shared->lock), 0);
        exit(0);
    }
    while (shared->stage == 0)
        nap(1);
    nap(30); /* asleep by now */
    CHECK(pthread_rwlock_unlock(&shared->lock), 0);
    join(child);
}

/* A writer of another process waits: its door is closed to others, not to who reads already. */
static void second_read_past_another_process(void) {
    CHECK(pthread_rwlock_rdlock(&shared->lock), 0);
    pid_t writer = child_of_this();
    if (writer == 0) {
        CHECK(pthread_rwlock_wrlock(&shared->lock), 0);
        CHECK(pthread_rwlock_unlock(&shared->lock), 0);
        exit(0);
    }
    for (;;) {
        pid_t reader = child_of_this();
        if (reader == 0) {
            int got = pthread_rwlock_tryrdlock(&shared->lock);
            if (got == 0)
                CHECK(pthread_rwlock_unlock(&shared->lock), 0);
            exit(got == EBUSY);
        }
        int status;
        CHECK(waitpid(reader, &status, 0), reader);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 1)
            break;
        nap(1);
    }
    CHECK(pthread_rwlock_rdlock(&shared->lock), 0);
    CHECK(pthread_rwlock_unlock(&shared->lock), 0);
    CHECK(pthread_rwlock_unlock(&shared->lock), 0);
    join(writer);
}

/* The child's copies of private locks are held as the forking thread held them. */
static void private_locks_over_fork(void) {
    pthread_rwlock_t read = PTHREAD_RWLOCK_INITIALIZER, written = PTHREAD_RWLOCK_INITIALIZER;
    CHECK(pthread_rwlock_rdlock(&read), 0);
    CHECK(pthread_rwlock_wrlock(&written), 0);
    pid_t child = child_of_this();
    if (child != 0)
        join(child);
    CHECK(pthread_rwlock_wrlock(&written), EDEADLK);
    CHECK(pthread_rwlock_unlock(&written), 0);
    CHECK(pthread_rwlock_unlock(&written), EPERM);
    CHECK(pthread_rwlock_wrlock(&read), EDEADLK);
    CHECK(pthread_rwlock_unlock(&read), 0);
    CHECK(pthread_rwlock_wrlock(&read), 0);
    CHECK(pthread_rwlock_unlock(&read), 0);
    if (child == 0)
        exit(0);
}

/* A read hold that the parent took is left by the child, once; as with the C library's own lock. */
static void a_child_leaves_what_its_parent_reads(void) {
    CHECK(pthread_rwlock_rdlock(&shared->lock), 0);
    pid_t child = child_of_this();
    if (child == 0) {
        CHECK(pthread_rwlock_trywrlock(&shared->lock), EBUSY);
        CHECK(pthread_rwlock_unlock(&shared->lock), 0);
        CHECK(pthread_rwlock_unlock(&shared->lock), EPERM);
        CHECK(pthread_rwlock_wrlock(&shared->lock), 0);
        CHECK(pthread_rwlock_unlock(&shared->lock), 0);
        exit(0);
    }
    join(child);
    CHECK(pthread_rwlock_wrlock(&shared->lock), 0);
    CHECK(pthread_rwlock_unlock(&shared->lock), 0);
}

/* The memory is mapped elsewhere in the other process: nothing in the lock depends on where. */
static void at_another_address(void) {
    char name[] = "/tmp/lockspan-XXXXXX";
    int file = mkstemp(name);
    CHECK(file >= 0, 1);
    unlink(name);
    CHECK(ftruncate(file, 4096), 0);
    struct shared *one = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    make(&one->lock);
    CHECK(pthread_rwlock_wrlock(&one->lock), 0);
    pid_t child = child_of_this();
    if (child == 0) {
        struct shared *two = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        CHECK(two != one, 1);
        munmap(one, 4096);
        two->stage = 1;
        CHECK(pthread_rwlock_wrlock(&two->lock), 0);
        CHECK(two->stage, 2);
        CHECK(pthread_rwlock_unlock(&two->lock), 0);
        exit(0);
    }
    while (one->stage != 1)
        nap(1);
    nap(20);
    one->stage = 2;
    CHECK(pthread_rwlock_unlock(&one->lock), 0);
    join(child);
    CHECK(pthread_rwlock_destroy(&one->lock), 0);
    munmap(one, 4096);
    close(file);
}

int main(void) {
    pshared = PTHREAD_PROCESS_SHARED;
    shared = shared_memory(sizeof *shared);
    make(&shared->lock);
    waits_of_a_child();
    second_read_past_another_process();
    private_locks_over_fork();
    a_child_leaves_what_its_parent_reads();
    at_another_address();
    exclusion();
    CHECK(pthread_rwlock_destroy(&shared->lock), 0);
    return 0;
}
