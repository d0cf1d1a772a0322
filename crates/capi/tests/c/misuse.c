/* Does the misuse that its argument names; must not come back from it. */
#include <stdio.h>
#include <string.h>

#include "lockspan.h"

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    struct timespec until = {0, 0};
    lt_rwlock_t *lock = lt_rwlock_new();
#define CASE(name, ...) \
    if (strcmp(what, name) == 0) { \
        __VA_ARGS__; \
        return 0; \
    }
    CASE("null_free", lt_rwlock_free(NULL))
    CASE("null_read", lt_rwlock_read_lock(NULL))
    CASE("null_read_unlock", lt_rwlock_read_unlock(NULL))
    CASE("null_write", lt_rwlock_write_lock(NULL))
    CASE("null_write_unlock", lt_rwlock_write_unlock(NULL))
    CASE("null_read_try", lt_rwlock_read_trylock(NULL))
    CASE("null_write_try", lt_rwlock_write_trylock(NULL))
    CASE("null_read_timed", lt_rwlock_read_timedlock(NULL, &until))
    CASE("null_write_timed", lt_rwlock_write_timedlock(NULL, &until))
    CASE("read_unlock_of_free", lt_rwlock_read_unlock(lock))
    CASE("read_unlock_of_written", lt_rwlock_write_lock(lock); lt_rwlock_read_unlock(lock))
    CASE("write_unlock_of_free", lt_rwlock_write_unlock(lock))
    CASE("write_unlock_of_read", lt_rwlock_read_lock(lock); lt_rwlock_write_unlock(lock))
    CASE("free_of_read", lt_rwlock_read_lock(lock); lt_rwlock_free(lock))
    CASE("free_of_written", lt_rwlock_write_lock(lock); lt_rwlock_free(lock))
    fprintf(stderr, "no such case: %s\n", what);
    return 2;
}
