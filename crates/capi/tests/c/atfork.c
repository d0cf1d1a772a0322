/* lt_rwlock in handlers of pthread_atfork; "on": the child goes on using the lock. */
#include "check.h"
#include "lockspan.h"

static lt_rwlock_t *lock;

#define READ() lt_rwlock_read_lock(lock)
#define READ_DONE() lt_rwlock_read_unlock(lock)
#define WRITE() lt_rwlock_write_lock(lock)
#define WRITE_DONE() lt_rwlock_write_unlock(lock)
#include "atfork.h"

int main(int argc, char **argv) {
    lock = lt_rwlock_new();
    fork_often(argc > 1 && strcmp(argv[1], "on") == 0);
    lt_rwlock_free(lock);
    return 0;
}
