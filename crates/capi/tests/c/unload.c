/* A program that loads the library at run time and lets go of it: where the kernel still has the
   address of a section of it, it stays in memory. */
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

#include "check.h"
#include "lockspan_rlock.h"

static void *library;
static int has_sections;

/* A function of the library, called by a name's pointer. */
#define CALL(name) ((__typeof__(&name))dlsym(library, #name))

static void *store_once(void *unused) {
    lockspan_rlock_ticket_t *ticket;
    lockspan_rlock_t *lock = CALL(lockspan_rlock_new)(1);

    CHECK(lock != NULL, 1);
    CHECK(CALL(lockspan_rlock_lock)(lock, LOCKSPAN_RLOCK_FORCE, &ticket), 0);
    CHECK(CALL(lockspan_rlock_store_64)(ticket, 0, 7), 0);
    CHECK(CALL(lockspan_rlock_release)(ticket), 0);
    CALL(lockspan_rlock_free)(lock);
    has_sections = strncmp(CALL(lockspan_rlock_backend)(), "rseq", 4) == 0;
    return unused;
}

int main(int count, char **arguments) {
    pthread_t thread;

    CHECK(count, 2);
    library = dlopen(arguments[1], RTLD_NOW);
    CHECK(library != NULL, 1);
    CHECK(pthread_create(&thread, NULL, store_once, NULL), 0);
    CHECK(pthread_join(thread, NULL), 0);
    CHECK(dlclose(library), 0);
    if (has_sections)
        CHECK(dlopen(arguments[1], RTLD_NOW | RTLD_NOLOAD) != NULL, 1);
    return 0;
}
