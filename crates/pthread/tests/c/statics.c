/* Static initialisers, in fresh and used memory; attributes; many locks at once. */
#include "check.h"

static pthread_rwlock_t plain = PTHREAD_RWLOCK_INITIALIZER;
static pthread_rwlock_t writers = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;

static void works(pthread_rwlock_t *lock) {
    CHECK(pthread_rwlock_rdlock(lock), 0);
    CHECK(pthread_rwlock_rdlock(lock), 0);
    CHECK(pthread_rwlock_trywrlock(lock), EBUSY);
    CHECK(pthread_rwlock_unlock(lock), 0);
    CHECK(pthread_rwlock_unlock(lock), 0);
    CHECK(pthread_rwlock_wrlock(lock), 0);
    CHECK(pthread_rwlock_tryrdlock(lock), EBUSY);
    CHECK(pthread_rwlock_unlock(lock), 0);
}

/* Only the members are initialised: the bytes after them stay as they were. */
static void in_used_memory(void) {
    pthread_rwlock_t *lock = malloc(sizeof *lock);
    memset(lock, 0xa5, sizeof *lock);
    lock->__data = (struct __pthread_rwlock_arch_t){
        __PTHREAD_RWLOCK_INITIALIZER(PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP)};
    memset((char *)lock + sizeof *lock - 4, 0xa5, 4);
    works(lock);
    memset(lock, 0, sizeof *lock);
    works(lock);
    free(lock);
}

static void attributes(void) {
    pthread_rwlockattr_t attr;
    int value = -1;
    memset(&attr, 0x5a, sizeof attr);
    CHECK(pthread_rwlockattr_init(&attr), 0);
    CHECK(pthread_rwlockattr_getpshared(&attr, &value), 0);
    CHECK(value, PTHREAD_PROCESS_PRIVATE);
    CHECK(pthread_rwlockattr_getkind_np(&attr, &value), 0);
    CHECK(value, PTHREAD_RWLOCK_DEFAULT_NP);
    int kinds[] = {PTHREAD_RWLOCK_PREFER_WRITER_NP, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP,
                   PTHREAD_RWLOCK_PREFER_READER_NP};
    for (int sort = 0; sort < 2; sort++) {
        int want = sort ? PTHREAD_PROCESS_SHARED : PTHREAD_PROCESS_PRIVATE;
        CHECK(pthread_rwlockattr_setpshared(&attr, want), 0);
        CHECK(pthread_rwlockattr_getpshared(&attr, &value), 0);
        CHECK(value, want);
        for (int i = 0; i < 3; i++) {
            pthread_rwlock_t lock;
            CHECK(pthread_rwlockattr_setkind_np(&attr, kinds[i]), 0);
            CHECK(pthread_rwlockattr_getkind_np(&attr, &value), 0);
            CHECK(value, kinds[i]);
            memset(&lock, 0xa5, sizeof lock);
            CHECK(pthread_rwlock_init(&lock, &attr), 0);
            works(&lock);
            CHECK(pthread_rwlock_destroy(&lock), 0);
        }
    }
    CHECK(pthread_rwlockattr_setpshared(&attr, 2), EINVAL);
    CHECK(pthread_rwlockattr_setpshared(&attr, -1), EINVAL);
    CHECK(pthread_rwlockattr_setkind_np(&attr, 3), EINVAL);
    CHECK(pthread_rwlockattr_setkind_np(&attr, -1), EINVAL);
    CHECK(pthread_rwlockattr_getkind_np(&attr, &value), 0);
    CHECK(value, PTHREAD_RWLOCK_PREFER_READER_NP); /* a refused call changes nothing */
    void *volatile null = NULL;
    CHECK(pthread_rwlockattr_init(null), EINVAL);
    CHECK(pthread_rwlockattr_destroy(null), EINVAL);
    CHECK(pthread_rwlockattr_getpshared(null, &value), EINVAL);
    CHECK(pthread_rwlockattr_getpshared(&attr, null), EINVAL);
    CHECK(pthread_rwlockattr_setpshared(null, 0), EINVAL);
    CHECK(pthread_rwlockattr_getkind_np(null, &value), EINVAL);
    CHECK(pthread_rwlockattr_setkind_np(null, 0), EINVAL);
    CHECK(pthread_rwlockattr_destroy(&attr), 0);
    memset(&attr, 0x5a, sizeof attr);
    CHECK(pthread_rwlock_init(&plain, &attr), EINVAL);
    works(&plain); /* a refused init changes nothing */
}

/* More locks at once than a thread's table holds without asking the kernel. */
static void many(void) {
    enum { MANY = 3000 };
    pthread_rwlock_t *locks = calloc(MANY, sizeof *locks);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < MANY; i++)
            CHECK(i % 3 ? pthread_rwlock_rdlock(&locks[i]) : pthread_rwlock_wrlock(&locks[i]), 0);
        for (int i = 0; i < MANY; i++)
            CHECK(pthread_rwlock_wrlock(&locks[i]), EDEADLK);
        for (int i = 0; i < MANY; i++) {
            int at = round ? i : MANY - 1 - i;
            CHECK(pthread_rwlock_unlock(&locks[at]), 0);
            CHECK(pthread_rwlock_unlock(&locks[at]), EPERM);
        }
    }
    for (int i = 0; i < MANY; i++)
        CHECK(pthread_rwlock_destroy(&locks[i]), 0);
    free(locks);
}

/* A lock whose memory goes while it is held leaves no hold of the next lock in its place. */
static void left_behind(void) {
    pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
    CHECK(pthread_rwlock_rdlock(&lock), 0);
    lock = (pthread_rwlock_t)PTHREAD_RWLOCK_INITIALIZER;
    CHECK(pthread_rwlock_unlock(&lock), EPERM);
    CHECK(pthread_rwlock_wrlock(&lock), 0);
    CHECK(pthread_rwlock_init(&lock, NULL), 0);
    CHECK(pthread_rwlock_unlock(&lock), EPERM);
    works(&lock);
}

int main(void) {
    pthread_rwlock_t local = PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP;
    works(&plain);
    works(&writers);
    works(&local);
    in_used_memory();
    attributes();
    many();
    left_behind();
    CHECK(pthread_rwlock_destroy(&writers), 0);
    return 0;
}
