/*
 * The last owner destroys the lock as soon as it has unlocked it, spoils its memory and gives it
 * back, while earlier unlocks may not have returned. A late touch finds 0xff, or no memory at all.
 */
#include "check.h"

enum { THREADS = 4, ROUNDS = 15000 };

struct object {
    pthread_rwlock_t lock;
    int users; /* guarded by the lock */
};

static struct object *_Atomic now;
static pthread_barrier_t start;

static struct object *fresh(int round) {
    struct object *object = round % 2 ? malloc(sizeof *object) : shared_memory(sizeof *object);
    make(&object->lock);
    object->users = THREADS;
    return object;
}

static void gone(struct object *object, int round) {
    CHECK(pthread_rwlock_destroy(&object->lock), 0);
    if (round % 2) {
        memset(object, 0xff, sizeof *object);
        free(object);
    } else {
        munmap(object, sizeof *object);
    }
}

static void *use(void *arg) {
    long me = (long)arg;
    for (int round = 0; round < ROUNDS; round++) {
        struct timespec past = {0, 0};
        if (me == 0)
            now = fresh(round);
        pthread_barrier_wait(&start);
        struct object *object = now;
        if ((me + round) % 3 == 0) {
            CHECK(pthread_rwlock_rdlock(&object->lock), 0);
            CHECK(pthread_rwlock_unlock(&object->lock), 0);
        }
        if ((me + round) % 7 == 0 && pthread_rwlock_timedwrlock(&object->lock, &past) == 0)
            CHECK(pthread_rwlock_unlock(&object->lock), 0);
        CHECK(pthread_rwlock_wrlock(&object->lock), 0);
        int last = --object->users == 0;
        CHECK(pthread_rwlock_unlock(&object->lock), 0);
        if (last)
            gone(object, round);
        pthread_barrier_wait(&start);
    }
    return NULL;
}

int main(int argc, char **argv) {
    which(argc, argv);
    pthread_t threads[THREADS];
    pthread_barrier_init(&start, NULL, THREADS);
    for (long i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, use, (void *)i), 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL), 0);
    return 0;
}
