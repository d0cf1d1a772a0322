// The headers from C++.
#include "lockspan.h"
#include "lockspan_plock.h"
#include "lockspan_rlock.h"

int main() {
    lt_rwlock_t *lock = lt_rwlock_new();
    lt_rwlock_write_lock(lock);
    lt_rwlock_write_unlock(lock);
    lt_rwlock_free(lock);

    lockspan_plock_t *base = lockspan_plock_new();
    lockspan_plock_seek(base);
    lockspan_plock_seek_to_write(base);
    lockspan_plock_write_done(base);
    lockspan_plock_free(base);

    lockspan_plock_upgrade_t *upgrade = lockspan_plock_upgrade_new();
    lockspan_plock_upgrade_read(upgrade);
    lockspan_plock_upgrade_read_to_atomic(upgrade);
    lockspan_plock_upgrade_atomic_done(upgrade);
    lockspan_plock_upgrade_free(upgrade);

    lockspan_plock_claim_t *claim = lockspan_plock_claim_new();
    lockspan_plock_claim_alone(claim);
    lockspan_plock_claim_alone_to_claim(claim);
    lockspan_plock_claim_claim_done(claim);
    lockspan_plock_claim_free(claim);

    lockspan_rlock_t *revocable = lockspan_rlock_new(1);
    lockspan_rlock_ticket_t *ticket;
    if (lockspan_rlock_lock(revocable, LOCKSPAN_RLOCK_FORCE, &ticket) == 0) {
        lockspan_rlock_add_64(ticket, 0, 1);
        lockspan_rlock_release(ticket);
    }
    lockspan_rlock_free(revocable);
}
