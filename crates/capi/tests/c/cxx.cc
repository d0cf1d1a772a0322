// The header from C++.
#include "lockspan.h"

int main() {
    lt_rwlock_t *lock = lt_rwlock_new();
    lt_rwlock_write_lock(lock);
    lt_rwlock_write_unlock(lock);
    lt_rwlock_free(lock);
}
