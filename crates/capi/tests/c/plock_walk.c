/* Random walks over all transitions of the three progressive locks, by several threads at once.

   A walk is a number of steps; each is a call that its present state allows, drawn at random from
   the tables below, which have every function of the header but new and free. The program counts
   who is in which state and checks in each whether somebody is there who must not be, and whether
   plain data that only a lone holder changes is whole. Every walk ends, every call succeeds at
   least once, and every lock is at rest in the end.

   It prints the names of the functions that it called, for the test to compare with the header. */
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>

#include "check.h"
#include "lockspan_plock.h"

enum { THREADS = 4, STEPS = 60000 };

enum state { OUT, READ, SEEK, WRITE, JOIN, CLAIM, ATOMIC, ALONE, STATES };

/* Who may be beside a holder, by the header. */
#define BIT(state) (1u << (state))
static const unsigned beside[STATES] = {
    [READ] = BIT(READ) | BIT(SEEK) | BIT(JOIN),
    [SEEK] = BIT(READ),
    [WRITE] = 0,
    [JOIN] = BIT(READ) | BIT(JOIN) | BIT(CLAIM) | BIT(ATOMIC),
    [CLAIM] = BIT(CLAIM) | BIT(JOIN),
    [ATOMIC] = BIT(ATOMIC) | BIT(JOIN),
    [ALONE] = 0,
};

/* X(from, to, kind, prefix, name): a function that leads from one state to another. */
#define FORMS(X, from, to, prefix, name) \
    X(from, to, VOID, prefix, name) \
    X(from, to, INT, prefix, try_##name) \
    X(from, to, TIMED, prefix, timed_##name)

#define BASE(X, P) \
    FORMS(X, OUT, READ, P, read) \
    FORMS(X, OUT, SEEK, P, seek) \
    FORMS(X, OUT, WRITE, P, write) \
    FORMS(X, OUT, ATOMIC, P, atomic) \
    X(READ, OUT, VOID, P, read_done) \
    X(READ, SEEK, INT, P, try_read_to_seek) \
    X(READ, ATOMIC, INT, P, read_to_atomic) \
    X(READ, ATOMIC, INT, P, try_read_to_atomic) \
    X(READ, ATOMIC, TIMED, P, timed_read_to_atomic) \
    X(SEEK, OUT, VOID, P, seek_done) \
    X(SEEK, READ, VOID, P, seek_to_read) \
    FORMS(X, SEEK, WRITE, P, seek_to_write) \
    X(WRITE, OUT, VOID, P, write_done) \
    X(WRITE, SEEK, VOID, P, write_to_seek) \
    X(WRITE, READ, VOID, P, write_to_read) \
    X(ATOMIC, OUT, VOID, P, atomic_done) \
    FORMS(X, ATOMIC, READ, P, atomic_to_read)

#define UPGRADE(X, P) \
    FORMS(X, OUT, READ, P, read) \
    X(READ, OUT, VOID, P, read_done) \
    FORMS(X, READ, ATOMIC, P, read_to_atomic) \
    X(ATOMIC, OUT, VOID, P, atomic_done)

#define CLAIMS(X, P) \
    FORMS(X, OUT, READ, P, read) \
    FORMS(X, OUT, CLAIM, P, claim) \
    FORMS(X, OUT, ATOMIC, P, atomic) \
    FORMS(X, OUT, ALONE, P, alone) \
    X(READ, OUT, VOID, P, read_done) \
    X(READ, JOIN, VOID, P, read_to_join) \
    FORMS(X, READ, CLAIM, P, read_to_claim) \
    X(JOIN, OUT, VOID, P, join_done) \
    FORMS(X, JOIN, READ, P, join_to_read) \
    FORMS(X, JOIN, CLAIM, P, join_to_claim) \
    FORMS(X, JOIN, ATOMIC, P, join_to_atomic) \
    X(CLAIM, OUT, VOID, P, claim_done) \
    FORMS(X, CLAIM, READ, P, claim_to_read) \
    FORMS(X, CLAIM, ATOMIC, P, claim_to_atomic) \
    X(ATOMIC, OUT, VOID, P, atomic_done) \
    X(ATOMIC, JOIN, VOID, P, atomic_to_join) \
    FORMS(X, ATOMIC, READ, P, atomic_to_read) \
    FORMS(X, ATOMIC, CLAIM, P, atomic_to_claim) \
    X(ALONE, OUT, VOID, P, alone_done) \
    X(ALONE, READ, VOID, P, alone_to_read) \
    X(ALONE, CLAIM, VOID, P, alone_to_claim) \
    X(ALONE, ATOMIC, VOID, P, alone_to_atomic)

#define CALL_VOID(name, lock, until) ((void)(until), name(lock), 0)
#define CALL_INT(name, lock, until) ((void)(until), name(lock))
#define CALL_TIMED(name, lock, until) name(lock, until)
#define WRAPPER(from, to, kind, prefix, name) \
    static int call_##prefix##name(void *lock, const struct timespec *until) { \
        return CALL_##kind(prefix##name, lock, until); \
    }
BASE(WRAPPER, lockspan_plock_)
UPGRADE(WRAPPER, lockspan_plock_upgrade_)
CLAIMS(WRAPPER, lockspan_plock_claim_)

struct move {
    enum state from, to;
    int (*call)(void *, const struct timespec *);
    const char *name;
    atomic_long done; /* how often it succeeded */
};
#define MOVE(from, to, kind, prefix, name) {from, to, call_##prefix##name, #prefix #name, 0},
static struct move base_moves[] = {BASE(MOVE, lockspan_plock_)};
static struct move upgrade_moves[] = {UPGRADE(MOVE, lockspan_plock_upgrade_)};
static struct move claim_moves[] = {CLAIMS(MOVE, lockspan_plock_claim_)};

/* One lock, and what the program knows of it. */
struct world {
    void *lock;
    struct move *moves;
    int count;
    atomic_int inside[STATES]; /* counted after a call that came there, off before one that leaves */
    volatile long first, second; /* the same, but for a lone holder */
    atomic_long changes;         /* stands still while somebody reads */
} worlds[3];
#define MOVES(moves) moves, sizeof moves / sizeof *moves

static unsigned draw(uint64_t *seed, unsigned below) {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return (unsigned)(*seed >> 32) % below;
}

/* Ends the program if somebody is there who must not be. */
static void check_beside(struct world *world, enum state mine) {
    for (int other = READ; other < STATES; other++) {
        int allowed = other == (int)mine ? 1 : 0;
        if (!(beside[mine] & BIT(other)))
            CHECK(world->inside[other] <= allowed, 1);
    }
}

/* Is in a state for a moment. */
static void stay(struct world *world, enum state mine, int yields) {
    long changes = world->changes;
    check_beside(world, mine);
    if (mine == WRITE || mine == ALONE)
        world->first++;
    else if (mine == ATOMIC)
        world->changes++;
    else if (mine == READ || mine == SEEK)
        CHECK(world->first == world->second, 1);
    if (yields)
        sched_yield();
    check_beside(world, mine);
    if (mine == WRITE || mine == ALONE)
        world->second++;
    else if (mine == READ || mine == SEEK)
        CHECK(world->changes == changes && world->first == world->second, 1);
}

/* One call that the state allows; the state that it leaves. */
static enum state step(struct world *world, enum state mine, uint64_t *seed) {
    struct move *move;
    enum state next = mine;
    struct timespec until = in_millis(draw(seed, 2));
    int code;
    do
        move = &world->moves[draw(seed, (unsigned)world->count)];
    while (move->from != mine);
    if (mine != OUT)
        world->inside[mine]--;
    code = move->call(world->lock, &until);
    switch (code) {
    case 0:
        next = move->to;
        move->done++;
        break;
    case EINPROGRESS: /* the three calls that can need two steps */
        CHECK(mine == ATOMIC || mine == CLAIM || mine == JOIN, 1);
        next = mine == ATOMIC ? JOIN : ATOMIC;
        break;
    default: CHECK(code == EBUSY || code == ETIMEDOUT, 1);
    }
    if (next != OUT) {
        world->inside[next]++;
        stay(world, next, draw(seed, 8) == 0);
    }
    return next;
}

/* Leaves the lock: by the _done of the state that it is in. */
static void leave(struct world *world, enum state mine) {
    for (int i = 0; mine != OUT; i++) {
        struct move *move = &world->moves[i];
        CHECK(i < world->count, 1);
        if (move->from == mine && move->to == OUT) {
            world->inside[mine]--;
            CHECK(move->call(world->lock, NULL), 0);
            mine = OUT;
        }
    }
}

static void *walk(void *arg) {
    uint64_t seed = 0x9e3779b97f4a7c15u * (uint64_t)((long)arg + 1);
    for (int i = 0; i < 3; i++) {
        struct world *world = &worlds[(i + (long)arg / 2) % 3]; /* two threads begin at each */
        enum state mine = OUT;
        for (int n = 0; n < STEPS; n++)
            mine = step(world, mine, &seed);
        leave(world, mine);
    }
    return NULL;
}

/* Nobody is left inside, and every call has succeeded at least once. */
static void report(const struct world *world) {
    for (int state = 0; state < STATES; state++)
        CHECK(world->inside[state], 0);
    CHECK(world->first == world->second, 1);
    for (int i = 0; i < world->count; i++) {
        if (world->moves[i].done == 0)
            fprintf(stderr, "%s never succeeded\n", world->moves[i].name);
        CHECK(world->moves[i].done > 0, 1);
        puts(world->moves[i].name);
    }
}

int main(void) {
    pthread_t threads[THREADS];
    worlds[0] = (struct world){lockspan_plock_new(), MOVES(base_moves), {0}, 0, 0, 0};
    worlds[1] = (struct world){lockspan_plock_upgrade_new(), MOVES(upgrade_moves), {0}, 0, 0, 0};
    worlds[2] = (struct world){lockspan_plock_claim_new(), MOVES(claim_moves), {0}, 0, 0, 0};
    for (long i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, walk, (void *)i), 0);
    for (long i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < 3; i++)
        report(&worlds[i]);
    lockspan_plock_free(worlds[0].lock);
    lockspan_plock_upgrade_free(worlds[1].lock);
    lockspan_plock_claim_free(worlds[2].lock);
    return 0;
}
