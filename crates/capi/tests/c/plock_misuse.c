/* Does the misuse that its arguments name; must not come back from it.

   plock_misuse null FUNCTION   calls it with a null descriptor
   plock_misuse idle FUNCTION   calls it on a lock that nobody holds
   plock_misuse CASE            see below */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sched.h>
#include <string.h>

#include "check.h"
#include "lockspan_plock.h"

static lockspan_plock_t *base;
static lockspan_plock_upgrade_t *up;
static lockspan_plock_claim_t *many;

/* The lock that a function with this name takes. */
static void *lock_for(const char *name) {
    if (strstr(name, "lockspan_plock_claim_") == name)
        return many;
    return strstr(name, "lockspan_plock_upgrade_") == name ? (void *)up : base;
}

static void call(const char *name, void *lock) {
    static const struct timespec until = {0, 0};
    void *found = dlsym(RTLD_DEFAULT, name);
    CHECK(found != NULL, 1);
    if (strstr(name, "_timed_"))
        ((int (*)(void *, const struct timespec *))found)(lock, &until);
    else
        ((void (*)(void *))found)(lock);
}

static void *write_in_a_thread(void *unused) {
    lockspan_plock_write(base);
    return unused;
}

static void write_while_a_reader_is_there(void) {
    pthread_t thread;
    lockspan_plock_read(base);
    CHECK(pthread_create(&thread, NULL, write_in_a_thread, NULL), 0);
    while (lockspan_plock_try_read(base) == 0) {
        lockspan_plock_read_done(base);
        sched_yield();
    }
}

static void two_join(void) {
    lockspan_plock_claim_read(many);
    lockspan_plock_claim_read(many);
    lockspan_plock_claim_read_to_join(many);
    lockspan_plock_claim_read_to_join(many);
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    base = lockspan_plock_new();
    up = lockspan_plock_upgrade_new();
    many = lockspan_plock_claim_new();
    if (argc > 2) {
        call(argv[2], strcmp(what, "null") == 0 ? NULL : lock_for(argv[2]));
        return 0;
    }
#define CASE(name, ...) \
    if (strcmp(what, name) == 0) { \
        __VA_ARGS__; \
        return 0; \
    }
    CASE("read_done_of_seek", lockspan_plock_seek(base); lockspan_plock_read_done(base))
    CASE("read_done_of_write", lockspan_plock_write(base); lockspan_plock_read_done(base))
    CASE("read_done_of_atomic", lockspan_plock_atomic(base); lockspan_plock_read_done(base))
    CASE("seek_done_of_write", lockspan_plock_write(base); lockspan_plock_seek_done(base))
    CASE("write_done_of_read", lockspan_plock_read(base); lockspan_plock_write_done(base))
    CASE("write_done_too_early", write_while_a_reader_is_there(); lockspan_plock_write_done(base))
    CASE("atomic_done_of_write", lockspan_plock_write(base); lockspan_plock_atomic_done(base))
    CASE("free_of_read", lockspan_plock_read(base); lockspan_plock_free(base))
    CASE("free_of_seek", lockspan_plock_seek(base); lockspan_plock_free(base))
    CASE("free_of_write", lockspan_plock_write(base); lockspan_plock_free(base))
    CASE("free_of_atomic", lockspan_plock_atomic(base); lockspan_plock_free(base))

    CASE("read_of_too_many", for (;;) lockspan_plock_read(base))
    CASE("seek_of_too_many", while (lockspan_plock_try_read(base) == 0) {}
         lockspan_plock_seek(base);
         lockspan_plock_seek_to_read(base);
         lockspan_plock_seek(base))
    CASE("atomic_of_too_many", for (;;) lockspan_plock_atomic(base))
    CASE("upgrade_read_of_too_many", for (;;) lockspan_plock_upgrade_read(up))
    CASE("claim_read_of_too_many", for (;;) lockspan_plock_claim_read(many))
    CASE("claim_claim_of_too_many", while (lockspan_plock_claim_try_read(many) == 0) {}
         lockspan_plock_claim_claim(many))
    CASE("claim_atomic_of_too_many", for (;;) lockspan_plock_claim_atomic(many))

    CASE("upgrade_atomic_done_of_read", lockspan_plock_upgrade_read(up);
         lockspan_plock_upgrade_atomic_done(up))
    CASE("upgrade_free_of_read", lockspan_plock_upgrade_read(up); lockspan_plock_upgrade_free(up))

    CASE("claim_join_done_of_read", lockspan_plock_claim_read(many);
         lockspan_plock_claim_join_done(many))
    CASE("claim_done_of_joined", lockspan_plock_claim_read(many);
         lockspan_plock_claim_read(many);
         lockspan_plock_claim_read_to_join(many);
         lockspan_plock_claim_claim_done(many))
    CASE("claim_read_done_of_claim", two_join(); lockspan_plock_claim_read_done(many))
    CASE("claim_atomic_done_of_claim", two_join(); lockspan_plock_claim_atomic_done(many))
    CASE("claim_done_of_atomic", lockspan_plock_claim_alone(many);
         lockspan_plock_claim_alone_to_atomic(many);
         lockspan_plock_claim_claim_done(many))
    CASE("claim_read_done_of_alone", lockspan_plock_claim_alone(many);
         lockspan_plock_claim_read_done(many))
    CASE("claim_free_of_joined", two_join(); lockspan_plock_claim_free(many))
    CASE("claim_free_of_alone", lockspan_plock_claim_alone(many);
         lockspan_plock_claim_free(many))
    fprintf(stderr, "no such case: %s\n", what);
    return 2;
}
