/* pthread_rwlock_t in handlers of pthread_atfork; "on": the child goes on using the lock. */
#include "check.h"

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;

#define READ() CHECK(pthread_rwlock_rdlock(&lock), 0)
#define READ_DONE() CHECK(pthread_rwlock_unlock(&lock), 0)
#define WRITE() CHECK(pthread_rwlock_wrlock(&lock), 0)
#define WRITE_DONE() CHECK(pthread_rwlock_unlock(&lock), 0)
#include "../../../capi/tests/c/atfork.h"

int main(int argc, char **argv) {
    fork_often(argc > 1 && strcmp(argv[1], "on") == 0);
    CHECK(pthread_rwlock_destroy(&lock), 0);
    return 0;
}
