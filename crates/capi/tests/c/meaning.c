/* The meaning of each function: return codes, exclusion under load, deadlines. */
#include "check.h"
#include "lockspan.h"

enum { THREADS = 8, ROUNDS = 100000 };

static lt_rwlock_t *lock;
static volatile long first, second;

static void *stress(void *arg) {
    long me = (long)arg, added = 0;
    for (long i = 0; i < ROUNDS; i++) {
        struct timespec soon = in_millis(1);
        int writes = 0, got;
        switch ((i + me) % 8) {
        case 0: lt_rwlock_write_lock(lock), got = 0, writes = 1; break;
        case 1: got = lt_rwlock_write_trylock(lock), writes = 1; break;
        case 2: got = lt_rwlock_write_timedlock(lock, &soon), writes = 1; break;
        case 3: got = lt_rwlock_read_timedlock(lock, &soon); break;
        case 4: got = lt_rwlock_read_trylock(lock); break;
        default: lt_rwlock_read_lock(lock), got = 0;
        }
        if (got != 0) {
            CHECK(got == EBUSY || got == ETIMEDOUT, 1);
        } else if (writes) {
            first = first + 1;
            second = second + 1;
            added++;
            lt_rwlock_write_unlock(lock);
        } else {
            CHECK(first == second, 1);
            lt_rwlock_read_unlock(lock);
        }
    }
    return (void *)added;
}

static void *codes_of_a_second_thread(void *written) {
    struct timespec soon = in_millis(20), past = {-1, 0}, long_past = {0, 0};
    struct timespec over = {1, 1000000000}, under = {1, -1};
    CHECK(lt_rwlock_write_trylock(lock), EBUSY);
    CHECK(lt_rwlock_write_timedlock(lock, &soon), ETIMEDOUT);
    CHECK(lt_rwlock_write_timedlock(lock, &past), ETIMEDOUT);
    CHECK(lt_rwlock_write_timedlock(lock, &long_past), ETIMEDOUT);
    CHECK(lt_rwlock_write_timedlock(lock, &over), EINVAL);
    CHECK(lt_rwlock_write_timedlock(lock, &under), EINVAL);
    CHECK(lt_rwlock_write_timedlock(lock, NULL), EINVAL);
    CHECK(lt_rwlock_read_timedlock(lock, &over), EINVAL);
    CHECK(lt_rwlock_read_timedlock(lock, &under), EINVAL);
    CHECK(lt_rwlock_read_timedlock(lock, NULL), EINVAL);
    if (written) {
        soon = in_millis(20);
        CHECK(lt_rwlock_read_trylock(lock), EBUSY);
        CHECK(lt_rwlock_read_timedlock(lock, &soon), ETIMEDOUT);
        CHECK(has_come(&soon), 1);
    } else {
        CHECK(lt_rwlock_read_trylock(lock), 0);
        lt_rwlock_read_unlock(lock);
        CHECK(lt_rwlock_read_timedlock(lock, &past), 0);
        lt_rwlock_read_unlock(lock);
    }
    return NULL;
}

static void beside(void *written) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, codes_of_a_second_thread, written), 0);
    CHECK(pthread_join(thread, NULL), 0);
}

int main(void) {
    struct timespec past = {0, 0};
    lock = lt_rwlock_new();
    CHECK(lock != NULL, 1);

    lt_rwlock_read_lock(lock);
    beside(NULL);
    lt_rwlock_read_unlock(lock);
    lt_rwlock_write_lock(lock);
    beside(lock);
    lt_rwlock_write_unlock(lock);
    CHECK(lt_rwlock_write_timedlock(lock, &past), 0);
    lt_rwlock_write_unlock(lock);

    pthread_t threads[THREADS];
    long added = 0;
    for (long i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, stress, (void *)i), 0);
    for (long i = 0; i < THREADS; i++) {
        void *own;
        CHECK(pthread_join(threads[i], &own), 0);
        added += (long)own;
    }
    CHECK(first, added);
    CHECK(second, added);
    lt_rwlock_free(lock);
    return 0;
}
