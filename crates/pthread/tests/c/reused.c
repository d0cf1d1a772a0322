/* The memory of a lock that is held is used for a new lock: whatever else the thread holds, nothing
 * of the old hold is left, and no other hold is touched. */
#include "check.h"

static pthread_rwlock_t locks[64];

static void make_all(void) {
    for (int i = 0; i < 64; i++)
        CHECK(pthread_rwlock_init(&locks[i], NULL), 0);
}

/* Takes `many`, makes one of them anew by hand, uses that one, and leaves the others. */
static void reuse(int many, int which) {
    static const pthread_rwlock_t fresh = PTHREAD_RWLOCK_INITIALIZER;
    make_all();
    for (int i = 0; i < many; i++)
        CHECK(pthread_rwlock_wrlock(&locks[i]), 0);
    locks[which] = fresh;
    CHECK(pthread_rwlock_wrlock(&locks[which]), 0);
    CHECK(pthread_rwlock_trywrlock(&locks[which]), EBUSY);
    CHECK(pthread_rwlock_unlock(&locks[which]), 0);
    CHECK(pthread_rwlock_unlock(&locks[which]), EPERM);
    CHECK(pthread_rwlock_rdlock(&locks[which]), 0);
    CHECK(pthread_rwlock_unlock(&locks[which]), 0);
    for (int i = 0; i < many; i++)
        if (i != which)
            CHECK(pthread_rwlock_unlock(&locks[i]), 0);
}

/* The same with the last of many: the table of holds shrinks. */
static void reuse_last(int many) {
    static const pthread_rwlock_t fresh = PTHREAD_RWLOCK_INITIALIZER;
    make_all();
    for (int i = 0; i < many; i++)
        CHECK(pthread_rwlock_rdlock(&locks[i]), 0);
    for (int i = 0; i < many - 1; i++)
        CHECK(pthread_rwlock_unlock(&locks[i]), 0);
    locks[many - 1] = fresh;
    CHECK(pthread_rwlock_wrlock(&locks[many - 1]), 0);
    CHECK(pthread_rwlock_unlock(&locks[many - 1]), 0);
}

int main(void) {
    for (int many = 1; many <= 64; many++) {
        for (int which = 0; which < many; which++)
            reuse(many, which);
        reuse_last(many);
    }
    return 0;
}
