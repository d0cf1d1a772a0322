/*
 * A preload library of its own: counts the calls, passes them on to the next library, and says at
 * the end how many there were and whose function it was that served them.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

typedef int one(void *);
typedef int two(void *, const void *);

enum { INIT, RDLOCK, WRLOCK, UNLOCK, DESTROY, ALL };

static const char *const names[ALL] = {
    "pthread_rwlock_init", "pthread_rwlock_rdlock", "pthread_rwlock_wrlock",
    "pthread_rwlock_unlock", "pthread_rwlock_destroy",
};
static atomic_ulong calls[ALL];

static void *next(int which) {
    calls[which]++;
    return dlsym(RTLD_NEXT, names[which]);
}

int pthread_rwlock_init(pthread_rwlock_t *lock, const pthread_rwlockattr_t *attr) {
    return ((two *)next(INIT))(lock, attr);
}

int pthread_rwlock_rdlock(pthread_rwlock_t *lock) {
    return ((one *)next(RDLOCK))(lock);
}

int pthread_rwlock_wrlock(pthread_rwlock_t *lock) {
    return ((one *)next(WRLOCK))(lock);
}

int pthread_rwlock_unlock(pthread_rwlock_t *lock) {
    return ((one *)next(UNLOCK))(lock);
}

int pthread_rwlock_destroy(pthread_rwlock_t *lock) {
    return ((one *)next(DESTROY))(lock);
}

__attribute__((destructor)) static void say(void) {
    for (int i = 0; i < ALL; i++) {
        Dl_info info = {0};
        dladdr(dlsym(RTLD_NEXT, names[i]), &info);
        fprintf(stderr, "%s %lu %s\n", names[i], calls[i], info.dli_fname);
    }
}
