/* As many holders as the header says, and not one more. */
#include "check.h"
#include "lockspan_plock.h"

/* Long over: the call looks once, and does not wait. */
static const struct timespec over = {0, 0};

/* How often a call succeeds. */
#define COUNT(call) \
    ({ \
        long count_ = 0; \
        while ((call) == 0) \
            count_++; \
        count_; \
    })

#define TIMES(n, call) \
    for (long i_ = 0; i_ < (n); i_++) \
    call

int main(void) {
    lockspan_plock_t *base = lockspan_plock_new();
    CHECK(COUNT(lockspan_plock_try_read(base)), 524286);
    CHECK(lockspan_plock_timed_read(base, &over), ETIMEDOUT);
    lockspan_plock_seek(base);
    lockspan_plock_seek_to_read(base);
    CHECK(lockspan_plock_try_seek(base), EBUSY);
    TIMES(524287, lockspan_plock_read_done(base));

    CHECK(COUNT(lockspan_plock_try_atomic(base)), 524287);
    CHECK(lockspan_plock_timed_atomic(base, &over), ETIMEDOUT);
    TIMES(524287, lockspan_plock_atomic_done(base));
    lockspan_plock_free(base);

    lockspan_plock_upgrade_t *up = lockspan_plock_upgrade_new();
    CHECK(COUNT(lockspan_plock_upgrade_try_read(up)), 524286);
    CHECK(lockspan_plock_upgrade_timed_read(up, &over), ETIMEDOUT);
    TIMES(524286, lockspan_plock_upgrade_read_done(up));
    lockspan_plock_upgrade_free(up);

    lockspan_plock_claim_t *many = lockspan_plock_claim_new();
    CHECK(COUNT(lockspan_plock_claim_try_read(many)), 524287);
    CHECK(lockspan_plock_claim_timed_read(many, &over), ETIMEDOUT);
    CHECK(lockspan_plock_claim_try_claim(many), EBUSY);
    CHECK(lockspan_plock_claim_timed_atomic(many, &over), ETIMEDOUT);
    TIMES(524287, lockspan_plock_claim_read_done(many));

    CHECK(COUNT(lockspan_plock_claim_try_atomic(many)), 524287);
    CHECK(lockspan_plock_claim_timed_atomic(many, &over), ETIMEDOUT);
    TIMES(524287, lockspan_plock_claim_atomic_done(many));
    lockspan_plock_claim_free(many);
    return 0;
}
