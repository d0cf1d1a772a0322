/* The last owner frees the lock as soon as it has unlocked it; earlier unlocks may still return. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "lockspan.h"

enum { THREADS = 4, ROUNDS = 20000 };

struct object {
    lt_rwlock_t *lock;
    int users; /* guarded by the lock */
};

static struct object *_Atomic now;
static pthread_barrier_t start;

static void *use(void *arg) {
    long me = (long)arg;
    for (int round = 0; round < ROUNDS; round++) {
        if (me == 0) {
            struct object *fresh = malloc(sizeof *fresh);
            fresh->lock = lt_rwlock_new();
            fresh->users = THREADS;
            now = fresh;
        }
        pthread_barrier_wait(&start);
        struct object *object = now;
        if ((me + round) % 2) {
            lt_rwlock_read_lock(object->lock);
            lt_rwlock_read_unlock(object->lock);
        }
        lt_rwlock_write_lock(object->lock);
        int last = --object->users == 0;
        lt_rwlock_write_unlock(object->lock);
        if (last) {
            lt_rwlock_free(object->lock);
            free(object);
        }
        pthread_barrier_wait(&start);
    }
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    pthread_barrier_init(&start, NULL, THREADS);
    for (long i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, use, (void *)i) != 0)
            return 1;
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    return 0;
}
