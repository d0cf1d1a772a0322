/*
 * A read-write lock in handlers of pthread_atfork: prepare() locks for writing, parent and child
 * unlock. Others use the lock all the time, so that most forks find somebody in line or a
 * scheduler at work. In every child the handler's unlock must return and leave a lock that works.
 *
 * The including file defines READ, WRITE, READ_DONE and WRITE_DONE.
 */
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { USERS = 4, FORKS = 2000, CHILD_USERS = 3, CHILD_ROUNDS = 50 };

static atomic_int over;
static long counted; /* guarded by the lock */

static void *use(void *arg) {
    unsigned turn = (unsigned)(long)arg;
    while (!over) {
        if (turn++ % 3) {
            WRITE();
            counted++;
            WRITE_DONE();
        } else {
            READ();
            READ_DONE();
        }
    }
    return NULL;
}

static void prepare(void) {
    WRITE();
}

static void in_parent(void) {
    WRITE_DONE();
}

static void in_child(void) {
    /* A hang ends the child with a signal, which the parent sees. */
    alarm(60);
    WRITE_DONE();
}

static void *use_in_child(void *arg) {
    (void)arg;
    for (int round = 0; round < CHILD_ROUNDS; round++) {
        WRITE();
        counted++;
        WRITE_DONE();
        READ();
        READ_DONE();
    }
    return NULL;
}

/* New threads get the stacks of threads that are gone, with whatever is on them. */
static void go_on(void) {
    pthread_t threads[CHILD_USERS];
    long before = counted;
    for (int i = 0; i < CHILD_USERS; i++)
        CHECK(pthread_create(&threads[i], NULL, use_in_child, NULL), 0);
    for (int i = 0; i < CHILD_USERS; i++)
        CHECK(pthread_join(threads[i], NULL), 0);
    CHECK(counted - before, CHILD_USERS * CHILD_ROUNDS);
}

static void fork_often(int goes_on) {
    pthread_t threads[USERS];
    CHECK(pthread_atfork(prepare, in_parent, in_child), 0);
    for (long i = 0; i < USERS; i++)
        CHECK(pthread_create(&threads[i], NULL, use, (void *)i), 0);
    for (int round = 0; round < FORKS; round++) {
        pid_t child = fork();
        if (child == 0) {
            if (goes_on)
                go_on();
            _exit(0);
        }
        int status = -1;
        CHECK(waitpid(child, &status, 0), child);
        if (status != 0) {
            fprintf(stderr, "child %d of %d: status %#x\n", round, FORKS, status);
            exit(1);
        }
    }
    over = 1;
    for (int i = 0; i < USERS; i++)
        CHECK(pthread_join(threads[i], NULL), 0);
}
