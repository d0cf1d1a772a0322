//! `lockspan_plock_upgrade_t`: Read and Atomic.

use lockspan_thread::progressive::upgrade::RawUpgradeLock;

use super::base::{ATOMIC, READ};
use super::calls::calls;

calls! { RawUpgradeLock:
    new   lockspan_plock_upgrade_new;
    free  lockspan_plock_upgrade_free;

    enter lockspan_plock_upgrade_read                 = read_unless_full;
    busy  lockspan_plock_upgrade_try_read             = try_read;
    timed lockspan_plock_upgrade_timed_read           = read_until;
    void  lockspan_plock_upgrade_read_done            = read_done             from READ;
    void  lockspan_plock_upgrade_read_to_atomic       = read_to_atomic        from READ;
    busy  lockspan_plock_upgrade_try_read_to_atomic   = try_read_to_atomic    from READ;
    timed lockspan_plock_upgrade_timed_read_to_atomic = read_to_atomic_until  from READ;

    void  lockspan_plock_upgrade_atomic_done          = atomic_done           from ATOMIC;
}
