/* Does the misuse that its argument names; must not come back from it.

   rlock_misuse null FUNCTION   calls it with a null descriptor or ticket
   rlock_misuse CASE            see below */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>

#include "check.h"
#include "lockspan_rlock.h"

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    if (argc > 2) {
        void *found = dlsym(RTLD_DEFAULT, argv[2]);
        CHECK(found != NULL, 1);
        ((int (*)(void *, size_t, void *, size_t))found)(NULL, 0, NULL, 0);
        return 0;
    }
    if (strcmp(what, "free_with_ticket") == 0) {
        lockspan_rlock_ticket_t *ticket;
        lockspan_rlock_t *lock = lockspan_rlock_new(1);
        CHECK(lockspan_rlock_lock(lock, LOCKSPAN_RLOCK_FORCE, &ticket), 0);
        CHECK(lockspan_rlock_cancel(lock, LOCKSPAN_RLOCK_FORCE), 0);
        lockspan_rlock_free(lock);
    }
    if (strcmp(what, "free_with_one_of_two") == 0) {
        lockspan_rlock_ticket_t *one, *two;
        lockspan_rlock_t *lock = lockspan_rlock_new(1);
        CHECK(lockspan_rlock_lock(lock, LOCKSPAN_RLOCK_FORCE, &one), 0);
        CHECK(lockspan_rlock_lock(lock, LOCKSPAN_RLOCK_FORCE, &two), 0);
        CHECK(lockspan_rlock_release(two), 0);
        lockspan_rlock_free(lock);
    }
    if (strcmp(what, "free_part") == 0)
        lockspan_rlock_free(lockspan_rlock_percpu_next(lockspan_rlock_percpu_new(1), NULL));
    if (strcmp(what, "next_of_another") == 0)
        lockspan_rlock_percpu_next(lockspan_rlock_percpu_new(1), lockspan_rlock_new(1));
    if (strcmp(what, "free_percpu_with_ticket") == 0) {
        lockspan_rlock_ticket_t *ticket = NULL;
        lockspan_rlock_percpu_t *percpu = lockspan_rlock_percpu_new(1);
        CHECK(lockspan_rlock_percpu_lock(percpu, &ticket), 0);
        lockspan_rlock_percpu_free(percpu);
    }
    fprintf(stderr, "no such case: %s\n", what);
    return 2;
}
