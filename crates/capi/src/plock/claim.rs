//! `lockspan_plock_claim_t`: Read, Join, Claim, Atomic and Alone.

use lockspan_thread::progressive::claim::{Holders, Phase, RawClaimLock};

use super::calls::{Hold, calls};

/// In other phases the threads that are counted here still wait to read.
const READ: Hold<Holders> = Hold {
    is_there: |inside| inside.readers > 0 && matches!(inside.phase, Phase::Open | Phase::Joining),
    missing: "nobody reads",
    instead: "it ends a hold in state Read",
};

/// Who has joined and not yet asked to claim cannot be told from who claims.
const JOIN: Hold<Holders> = Hold {
    is_there: |inside| inside.joiners > 0,
    missing: "nobody has joined",
    instead: "it ends a hold in state Join",
};

const CLAIM: Hold<Holders> = Hold {
    is_there: |inside| inside.joiners > 0 && inside.phase == Phase::Claiming,
    missing: "nobody claims",
    instead: "it ends a hold in state Claim",
};

/// In other phases the threads that are counted here still wait to change.
const ATOMIC: Hold<Holders> = Hold {
    is_there: |inside| inside.atomics > 0 && inside.phase == Phase::Changing,
    missing: "nobody is in Atomic",
    instead: "it ends a hold in state Atomic",
};

const ALONE: Hold<Holders> = Hold {
    is_there: |inside| inside.phase == Phase::Alone,
    missing: "nobody is alone",
    instead: "it ends a hold in state Alone",
};

calls! { RawClaimLock:
    new   lockspan_plock_claim_new;
    free  lockspan_plock_claim_free;

    enter lockspan_plock_claim_read                  = read_unless_full;
    busy  lockspan_plock_claim_try_read              = try_read;
    timed lockspan_plock_claim_timed_read            = read_until;
    void  lockspan_plock_claim_read_done             = read_done             from READ;
    void  lockspan_plock_claim_read_to_join          = read_to_join          from READ;
    void  lockspan_plock_claim_read_to_claim         = read_to_claim         from READ;
    busy  lockspan_plock_claim_try_read_to_claim     = try_read_to_claim     from READ;
    timed lockspan_plock_claim_timed_read_to_claim   = read_to_claim_until   from READ;

    void  lockspan_plock_claim_join_done             = join_done             from JOIN;
    void  lockspan_plock_claim_join_to_claim         = join_to_claim         from JOIN;
    busy  lockspan_plock_claim_try_join_to_claim     = try_join_to_claim     from JOIN;
    timed lockspan_plock_claim_timed_join_to_claim   = join_to_claim_until   from JOIN;
    void  lockspan_plock_claim_join_to_read          = join_to_read          from JOIN;
    busy  lockspan_plock_claim_try_join_to_read      = try_join_to_read      from JOIN;
    steps lockspan_plock_claim_timed_join_to_read    = join_to_read_until    from JOIN;
    void  lockspan_plock_claim_join_to_atomic        = join_to_atomic        from JOIN;
    busy  lockspan_plock_claim_try_join_to_atomic    = try_join_to_atomic    from JOIN;
    timed lockspan_plock_claim_timed_join_to_atomic  = join_to_atomic_until  from JOIN;

    enter lockspan_plock_claim_claim                 = claim_unless_full;
    busy  lockspan_plock_claim_try_claim             = try_claim;
    timed lockspan_plock_claim_timed_claim           = claim_until;
    void  lockspan_plock_claim_claim_done            = claim_done            from CLAIM;
    void  lockspan_plock_claim_claim_to_atomic       = claim_to_atomic       from CLAIM;
    busy  lockspan_plock_claim_try_claim_to_atomic   = try_claim_to_atomic   from CLAIM;
    timed lockspan_plock_claim_timed_claim_to_atomic = claim_to_atomic_until from CLAIM;
    void  lockspan_plock_claim_claim_to_read         = claim_to_read         from CLAIM;
    busy  lockspan_plock_claim_try_claim_to_read     = try_claim_to_read     from CLAIM;
    steps lockspan_plock_claim_timed_claim_to_read   = claim_to_read_until   from CLAIM;

    enter lockspan_plock_claim_atomic                = atomic_unless_full;
    busy  lockspan_plock_claim_try_atomic            = try_atomic;
    timed lockspan_plock_claim_timed_atomic          = atomic_until;
    void  lockspan_plock_claim_atomic_done           = atomic_done           from ATOMIC;
    void  lockspan_plock_claim_atomic_to_read        = atomic_to_read        from ATOMIC;
    busy  lockspan_plock_claim_try_atomic_to_read    = try_atomic_to_read    from ATOMIC;
    timed lockspan_plock_claim_timed_atomic_to_read  = atomic_to_read_until  from ATOMIC;
    void  lockspan_plock_claim_atomic_to_join        = atomic_to_join        from ATOMIC;
    void  lockspan_plock_claim_atomic_to_claim       = atomic_to_claim       from ATOMIC;
    busy  lockspan_plock_claim_try_atomic_to_claim   = try_atomic_to_claim   from ATOMIC;
    steps lockspan_plock_claim_timed_atomic_to_claim = atomic_to_claim_until from ATOMIC;

    void  lockspan_plock_claim_alone                 = join_alone;
    busy  lockspan_plock_claim_try_alone             = try_join_alone;
    timed lockspan_plock_claim_timed_alone           = join_alone_until;
    void  lockspan_plock_claim_alone_done            = alone_done            from ALONE;
    void  lockspan_plock_claim_alone_to_read         = alone_to_read         from ALONE;
    void  lockspan_plock_claim_alone_to_claim        = alone_to_claim        from ALONE;
    void  lockspan_plock_claim_alone_to_atomic       = alone_to_atomic       from ALONE;
}
