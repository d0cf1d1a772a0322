//! `lockspan_plock_t`: Read, Seek, Write and Atomic.

use lockspan_thread::progressive::base::{Holders, RawLock};

use super::calls::{Hold, calls};

pub(super) const READ: Hold<Holders> = Hold {
    is_there: |inside| inside.readers > 0,
    missing: "nobody reads",
    instead: "it ends a hold in state Read",
};

const SEEK: Hold<Holders> = Hold {
    is_there: |inside| inside.seeker,
    missing: "nobody seeks",
    instead: "it ends a hold in state Seek",
};

/// While a reader is there, the writer still waits for it in a call of its own.
const WRITE: Hold<Holders> = Hold {
    is_there: |inside| inside.writer && inside.readers == 0,
    missing: "nobody writes",
    instead: "it ends a hold in state Write",
};

/// As for `WRITE`.
pub(super) const ATOMIC: Hold<Holders> = Hold {
    is_there: |inside| inside.atomics > 0 && inside.readers == 0,
    missing: "nobody is in Atomic",
    instead: "it ends a hold in state Atomic",
};

calls! { RawLock:
    new   lockspan_plock_new;
    free  lockspan_plock_free;

    enter lockspan_plock_read                 = read_unless_full;
    busy  lockspan_plock_try_read             = try_read;
    timed lockspan_plock_timed_read           = read_until;
    void  lockspan_plock_read_done            = read_done             from READ;
    busy  lockspan_plock_try_read_to_seek     = try_read_to_seek      from READ;
    busy  lockspan_plock_read_to_atomic       = read_to_atomic        from READ;
    busy  lockspan_plock_try_read_to_atomic   = try_read_to_atomic    from READ;
    timed lockspan_plock_timed_read_to_atomic = read_to_atomic_until  from READ;

    enter lockspan_plock_seek                 = seek_unless_full;
    busy  lockspan_plock_try_seek             = try_seek;
    timed lockspan_plock_timed_seek           = seek_until;
    void  lockspan_plock_seek_done            = seek_done             from SEEK;
    void  lockspan_plock_seek_to_read         = seek_to_read          from SEEK;
    void  lockspan_plock_seek_to_write        = seek_to_write         from SEEK;
    busy  lockspan_plock_try_seek_to_write    = try_seek_to_write     from SEEK;
    timed lockspan_plock_timed_seek_to_write  = seek_to_write_until   from SEEK;

    void  lockspan_plock_write                = write;
    busy  lockspan_plock_try_write            = try_write;
    timed lockspan_plock_timed_write          = write_until;
    void  lockspan_plock_write_done           = write_done            from WRITE;
    void  lockspan_plock_write_to_seek        = write_to_seek         from WRITE;
    void  lockspan_plock_write_to_read        = write_to_read         from WRITE;

    enter lockspan_plock_atomic               = atomic_unless_full;
    busy  lockspan_plock_try_atomic           = try_atomic;
    timed lockspan_plock_timed_atomic         = atomic_until;
    void  lockspan_plock_atomic_done          = atomic_done           from ATOMIC;
    void  lockspan_plock_atomic_to_read       = atomic_to_read        from ATOMIC;
    busy  lockspan_plock_try_atomic_to_read   = try_atomic_to_read    from ATOMIC;
    timed lockspan_plock_timed_atomic_to_read = atomic_to_read_until  from ATOMIC;
}
