/* Threads on all ways through the three locks at once: nobody is beside whom its state excludes. */
#include <sched.h>
#include <stdatomic.h>

#include "check.h"
#include "lockspan_plock.h"

enum { THREADS = 8, ROUNDS = 20000 };

/* How many are in each state, as the program knows it: counted after a call that came there, and
   counted off before the call that leaves. */
struct inside {
    atomic_int readers, seekers, writers, atomics, claimants;
};

/* What the states protect. */
struct data {
    struct inside in;
    volatile long first, second; /* the same, but for the one who writes */
    atomic_long changes;         /* stands still while somebody reads */
    struct {
        atomic_bool taken;   /* marked in Claim */
        volatile long count; /* changed by who marked it, in Atomic */
    } seats[THREADS];
};

/* What one thread did; the sum of all must be in the data. */
struct sum {
    long written, changed, seated;
};

/* Lets others run while this thread is in a state, now and then. */
static void lingers(void) {
    static _Thread_local unsigned calls;
    if (calls++ % 7 == 0)
        sched_yield();
}

static void looks(struct data *data) {
    long changes;
    data->in.readers++;
    changes = data->changes;
    CHECK(data->in.writers + data->in.atomics + data->in.claimants, 0);
    CHECK(data->first == data->second, 1);
    lingers();
    CHECK(data->in.writers + data->in.atomics + data->in.claimants, 0);
    CHECK(data->first == data->second, 1);
    CHECK(data->changes == changes, 1);
    data->in.readers--;
}

static void writes(struct data *data, struct sum *sum) {
    CHECK(data->in.writers++, 0);
    CHECK(data->in.readers + data->in.seekers + data->in.atomics + data->in.claimants, 0);
    data->first++;
    lingers();
    data->second++;
    sum->written++;
    data->in.writers--;
}

static void changes(struct data *data, struct sum *sum) {
    data->in.atomics++;
    CHECK(data->in.readers + data->in.seekers + data->in.writers + data->in.claimants, 0);
    data->changes++;
    lingers();
    CHECK(data->in.readers + data->in.seekers + data->in.writers + data->in.claimants, 0);
    sum->changed++;
    data->in.atomics--;
}

/* Looks as the seeker; what it saw. */
static long seeks(struct data *data) {
    long seen;
    CHECK(data->in.seekers++, 0);
    CHECK(data->in.writers + data->in.atomics, 0);
    seen = data->first;
    lingers();
    CHECK(data->in.writers + data->in.atomics, 0);
    data->in.seekers--;
    return seen;
}

/* ---- lockspan_plock_t ---- */

static lockspan_plock_t *base;
static struct data base_data;

/* The seeker, which saw this, writes: nobody did before. */
static void writes_next(long seen, struct sum *sum) {
    CHECK(base_data.first, seen);
    writes(&base_data, sum);
}

static void seek_ways(long way, const struct timespec *soon, struct sum *sum) {
    long seen;
    switch (way) {
    case 0:
        lockspan_plock_seek(base);
        seen = seeks(&base_data);
        lockspan_plock_seek_to_write(base);
        writes_next(seen, sum);
        lockspan_plock_write_to_read(base);
        looks(&base_data);
        lockspan_plock_read_done(base);
        return;
    case 1:
        if (lockspan_plock_timed_seek(base, soon) != 0)
            return;
        break;
    case 2:
        if (lockspan_plock_try_seek(base) != 0)
            return;
        break;
    default:
        lockspan_plock_read(base);
        looks(&base_data);
        if (lockspan_plock_try_read_to_seek(base) != 0) {
            looks(&base_data);
            lockspan_plock_read_done(base);
            return;
        }
    }
    seen = seeks(&base_data);
    if ((way == 1 ? lockspan_plock_timed_seek_to_write(base, soon)
                  : lockspan_plock_try_seek_to_write(base)) == 0) {
        writes_next(seen, sum);
        lockspan_plock_write_to_seek(base);
    }
    seeks(&base_data);
    if (way == 2) {
        lockspan_plock_seek_done(base);
        return;
    }
    lockspan_plock_seek_to_read(base);
    looks(&base_data);
    lockspan_plock_read_done(base);
}

static void atomic_ways(long way, const struct timespec *soon, struct sum *sum) {
    int got = 0;
    switch (way) {
    case 0: lockspan_plock_atomic(base); break;
    case 1: got = lockspan_plock_try_atomic(base); break;
    case 2: got = lockspan_plock_timed_atomic(base, soon); break;
    default:
        if (lockspan_plock_timed_read(base, soon) != 0)
            return;
        looks(&base_data);
        got = way == 3 ? lockspan_plock_read_to_atomic(base)
                       : lockspan_plock_timed_read_to_atomic(base, soon);
        if (got != 0) {
            looks(&base_data);
            lockspan_plock_read_done(base);
        }
    }
    if (got != 0) {
        CHECK(got == EBUSY || got == ETIMEDOUT, 1);
        return;
    }
    changes(&base_data, sum);
    if (way == 0) {
        lockspan_plock_atomic_to_read(base);
    } else if (way == 1 || lockspan_plock_timed_atomic_to_read(base, soon) != 0) {
        changes(&base_data, sum);
        lockspan_plock_atomic_done(base);
        return;
    }
    looks(&base_data);
    lockspan_plock_read_done(base);
}

static void write_ways(long way, const struct timespec *soon, struct sum *sum) {
    int got = 0;
    switch (way) {
    case 0: lockspan_plock_write(base); break;
    case 1: got = lockspan_plock_try_write(base); break;
    default: got = lockspan_plock_timed_write(base, soon);
    }
    if (got == 0) {
        writes(&base_data, sum);
        lockspan_plock_write_done(base);
    } else {
        CHECK(got == EBUSY || got == ETIMEDOUT, 1);
    }
}

static void use_base(long way, const struct timespec *soon, struct sum *sum) {
    if (way < 4) {
        seek_ways(way, soon, sum);
    } else if (way < 9) {
        atomic_ways(way - 4, soon, sum);
    } else if (way < 12) {
        write_ways(way - 9, soon, sum);
    } else {
        lockspan_plock_read(base);
        looks(&base_data);
        lockspan_plock_read_done(base);
    }
}

/* ---- lockspan_plock_upgrade_t ---- */

static lockspan_plock_upgrade_t *up;
static struct data up_data;

static void use_upgrade(long way, const struct timespec *soon, struct sum *sum) {
    int got = 0;
    switch (way % 3) {
    case 0: lockspan_plock_upgrade_read(up); break;
    case 1: got = lockspan_plock_upgrade_try_read(up); break;
    default: got = lockspan_plock_upgrade_timed_read(up, soon);
    }
    if (got != 0)
        return;
    looks(&up_data);
    if (way % 2 == 0)
        lockspan_plock_upgrade_read_to_atomic(up);
    else if (way > 8 || lockspan_plock_upgrade_timed_read_to_atomic(up, soon) != 0) {
        looks(&up_data);
        lockspan_plock_upgrade_read_done(up);
        return;
    }
    changes(&up_data, sum);
    lockspan_plock_upgrade_atomic_done(up);
}

/* ---- lockspan_plock_claim_t ---- */

static lockspan_plock_claim_t *many;
static struct data many_data;

/* In Claim: marks a seat that nobody else has. */
static int marks(void) {
    int mine = 0;
    many_data.in.claimants++;
    CHECK(many_data.in.readers + many_data.in.writers + many_data.in.atomics, 0);
    while (atomic_exchange(&many_data.seats[mine].taken, 1))
        CHECK(++mine < THREADS, 1);
    lingers();
    CHECK(many_data.in.readers + many_data.in.writers + many_data.in.atomics, 0);
    many_data.in.claimants--;
    return mine;
}

/* In Claim: takes the mark back. */
static void unmarks(int mine) {
    many_data.in.claimants++;
    CHECK(many_data.in.readers + many_data.in.writers + many_data.in.atomics, 0);
    many_data.seats[mine].taken = 0;
    many_data.in.claimants--;
}

/* In Atomic: changes its seat, and frees it. */
static void sits(int mine, struct sum *sum) {
    long count;
    changes(&many_data, sum);
    count = many_data.seats[mine].count;
    lingers();
    many_data.seats[mine].count = count + 1;
    sum->seated++;
    many_data.seats[mine].taken = 0;
}

static void reads_and_leaves(void) {
    looks(&many_data);
    lockspan_plock_claim_read_done(many);
}

/* From Claim on. */
static void claim_ways(long way, const struct timespec *soon, struct sum *sum) {
    int mine = marks();
    switch (way) {
    case 0: /* gives up */
        unmarks(mine);
        lockspan_plock_claim_claim_done(many);
        return;
    case 1: /* gives up, and stays inside */
        unmarks(mine);
        lockspan_plock_claim_claim_to_read(many);
        reads_and_leaves();
        return;
    case 2:
    case 3: /* gives up if it takes too long */
        if (lockspan_plock_claim_timed_claim_to_atomic(many, soon) != 0) {
            unmarks(mine);
            lockspan_plock_claim_claim_done(many);
            return;
        }
        break;
    default:
        lockspan_plock_claim_claim_to_atomic(many);
    }
    sits(mine, sum);
    switch (way) {
    case 2:
        if (lockspan_plock_claim_timed_atomic_to_read(many, soon) == 0)
            reads_and_leaves();
        else
            lockspan_plock_claim_atomic_done(many);
        return;
    case 4: lockspan_plock_claim_atomic_to_read(many); reads_and_leaves(); return;
    case 5: /* the next round, and gives up there */
        lockspan_plock_claim_atomic_to_join(many);
        lockspan_plock_claim_join_to_claim(many);
        unmarks(marks());
        lockspan_plock_claim_claim_done(many);
        return;
    case 6: /* gives up on the way to it */
        lockspan_plock_claim_atomic_to_join(many);
        lockspan_plock_claim_join_done(many);
        return;
    default: lockspan_plock_claim_atomic_done(many);
    }
}

static void alone_ways(long way, const struct timespec *soon, struct sum *sum) {
    int got = 0;
    switch (way) {
    case 0: lockspan_plock_claim_alone(many); break;
    case 1: got = lockspan_plock_claim_try_alone(many); break;
    default: got = lockspan_plock_claim_timed_alone(many, soon);
    }
    if (got != 0)
        return;
    writes(&many_data, sum);
    switch ((sum->written + way) % 4) {
    case 0: lockspan_plock_claim_alone_to_read(many); reads_and_leaves(); break;
    case 1: lockspan_plock_claim_alone_to_claim(many); claim_ways(4, soon, sum); break;
    case 2:
        lockspan_plock_claim_alone_to_atomic(many);
        changes(&many_data, sum);
        lockspan_plock_claim_atomic_done(many);
        break;
    default: lockspan_plock_claim_alone_done(many);
    }
}

static void use_claim(long way, const struct timespec *soon, struct sum *sum) {
    if (way < 3) {
        alone_ways(way, soon, sum);
        return;
    }
    if (way % 2)
        lockspan_plock_claim_read(many);
    else if ((way == 4 ? lockspan_plock_claim_try_read(many)
                       : lockspan_plock_claim_timed_read(many, soon)) != 0)
        return;
    looks(&many_data);
    if (way == 3) {
        lockspan_plock_claim_read_done(many);
        return;
    }
    lockspan_plock_claim_read_to_join(many);
    if (way == 4 || (way == 5 && lockspan_plock_claim_try_join_to_claim(many) != 0)
        || (way == 6 && lockspan_plock_claim_timed_join_to_claim(many, soon) != 0)) {
        lockspan_plock_claim_join_done(many); /* gives up */
        return;
    }
    if (way > 6)
        lockspan_plock_claim_join_to_claim(many);
    claim_ways((way + sum->changed + sum->seated) % 8, soon, sum);
}

/* ---- all ---- */

static struct sum sums[THREADS][3];

static void *work(void *arg) {
    long me = (long)arg;
    for (long i = 0; i < ROUNDS; i++) {
        long way = (i + me * 5) % 15;
        struct timespec soon = in_millis(i % 3);
        use_base(way, &soon, &sums[me][0]);
        use_upgrade(way, &soon, &sums[me][1]);
        use_claim(way, &soon, &sums[me][2]);
    }
    return NULL;
}

static void compare(const struct data *data, int which) {
    struct sum sum = {0, 0, 0};
    long seated = 0;
    for (int i = 0; i < THREADS; i++) {
        sum.written += sums[i][which].written;
        sum.changed += sums[i][which].changed;
        sum.seated += sums[i][which].seated;
        seated += data->seats[i].count;
    }
    CHECK(data->first, sum.written);
    CHECK(data->second, sum.written);
    CHECK(data->changes, sum.changed);
    CHECK(seated, sum.seated);
    CHECK(sum.changed > 0, 1);
}

int main(void) {
    pthread_t threads[THREADS];
    base = lockspan_plock_new();
    up = lockspan_plock_upgrade_new();
    many = lockspan_plock_claim_new();
    for (long i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, work, (void *)i), 0);
    for (long i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL), 0);
    compare(&base_data, 0);
    compare(&up_data, 1);
    compare(&many_data, 2);
    lockspan_plock_free(base);
    lockspan_plock_upgrade_free(up);
    lockspan_plock_claim_free(many);
    return 0;
}
