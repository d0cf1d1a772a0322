//! Bugs that can be put back on purpose, to see the simulator find them.
//!
//! The switch exists only with the feature `mutants`, which nothing that ships turns on; without it
//! [`Bugs::has`] is the constant `false` and the code of the bugs is gone.

/// A mistake that this protocol could have made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Bug {
    /// Server: after a retry the record is not reserved; who comes first gets it.
    ForgetReservation,
    /// Server: a reservation has no deadline.
    ReserveForEver,
    /// Server: grants while nodes still re-assert.
    GrantInGrace,
    /// Server: a term begins before its epoch is durable, so a crash uses it twice.
    EpochNotStored,
    /// Server: a session is answered before it is durable.
    SessionNotStored,
    /// Server: the records of an expired session go on before its entry is deleted.
    ForgetNotStored,
    /// Server: after a restart a listed session gets no time to come back.
    RestartForgetsLeases,
    /// Server: a cancel that crosses its grant is ignored.
    CancelLeaks,
    /// Server: an acquire that is doubled after its release is granted again.
    NoWindow,
    /// Server: a late release ends whatever the session holds now.
    ReleaseIgnoresSeq,
    /// Server: readers join readers although a writer waits.
    ReadersPassWriters,
    /// Server: a second upgrader waits for the first, and the first for it.
    SecondUpgraderWaits,
    /// Server: a write grant carries the present token instead of the next.
    TokenNotTaken,
    /// Server: re-asserted waiters are put in line as they arrive.
    TicketsIgnored,
    /// Server: a revoke is sent once only.
    RevokeOnce,
    /// Server: that sessions are not extended after groups are left is not durable.
    LeaveNotStored,
    /// Server: an unknown session may re-assert.
    AnybodyReasserts,
    /// Server: deadlocks are not looked for when a report arrives.
    ReportsIgnored,
    /// Server: the server's own lease does not stop it.
    ZombieServes,
    /// Server: the first page of re-assertions that is whole is taken for all of them.
    PageTakenForAll,
    /// Server: an extension names all groups, also those that it does not extend.
    AliveForAll,
    /// Server: a listed session that is over in one hand-over is forgotten in all.
    ForgetWithoutScope,
    /// Server: a listed session is forgotten in all groups when one term has heard of it.
    FormerForgottenEarly,
    /// Server: what was re-asserted for another session ends with the speaker's lease.
    SpeakerEndsFirst,
    /// Server: a grace does not count that the former owner may still act.
    GraceWithoutOwn,
    /// Server: a stranger is believed while the former owner may still act.
    StrangerRecoveredEarly,
    /// Server: of the groups that a node tells about, only the lowest is looked up.
    LowestGroupOnly,
    /// Node: a revoke of an earlier grant takes the present one.
    RevokeIgnoresSeq,
    /// Node: the lease counts from when the answer arrived.
    LeaseFromArrival,
    /// Node: the lease is not shortened by the margin.
    NoMargin,
    /// Node: a revoke that overtakes its grant is forgotten.
    EarlyRevokeForgotten,
    /// Node: a grant that nobody waits for any more is not given back.
    StrayGrantKept,
    /// Node: an acquire is sent once only.
    AcquireOnce,
    /// Node: it says that it has downgraded while a thread still writes.
    DowngradeEarly,
    /// Node: past its lease it goes on.
    LeaseForgotten,
    /// Node: it does not re-assert what it waits for.
    WaitsNotReasserted,
    /// Node: what it says of its re-assertions at the end is what it has sent, not what it has.
    EndBeforePages,
    /// Node: a conversion keeps its old seq.
    SeqNotRaised,
    /// Node: what an extension does not name is extended by it.
    CapForgotten,
    /// Node: the answer that all was heard counts as an extension, however late it comes.
    RecoveredExtends,
    /// Node: it heeds what a server says about a group that has a later owner.
    HeedsReplaced,
    /// Node: it tells a server what became of a record whose group has a later owner.
    AnswersReplaced,
    /// Node: it speaks for one of its former sessions in a term, not for all.
    FormerAnsweredOnce,
}

/// Which bug is on, if any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Bugs {
    #[cfg(feature = "mutants")]
    on: Option<Bug>,
}

impl Bugs {
    /// No bug.
    pub const NONE: Self = Self {
        #[cfg(feature = "mutants")]
        on: None,
    };

    /// With this bug.
    #[cfg(feature = "mutants")]
    #[must_use]
    pub fn only(bug: Bug) -> Self {
        Self { on: Some(bug) }
    }

    #[cfg(feature = "mutants")]
    pub(crate) fn has(self, bug: Bug) -> bool {
        self.on == Some(bug)
    }

    #[cfg(not(feature = "mutants"))]
    #[inline]
    pub(crate) fn has(self, _: Bug) -> bool {
        false
    }
}

impl Bug {
    /// All of them.
    #[cfg(feature = "mutants")]
    pub const ALL: &[Self] = &[
        Self::ForgetReservation,
        Self::ReserveForEver,
        Self::GrantInGrace,
        Self::EpochNotStored,
        Self::SessionNotStored,
        Self::ForgetNotStored,
        Self::RestartForgetsLeases,
        Self::CancelLeaks,
        Self::NoWindow,
        Self::ReleaseIgnoresSeq,
        Self::ReadersPassWriters,
        Self::SecondUpgraderWaits,
        Self::TokenNotTaken,
        Self::TicketsIgnored,
        Self::RevokeOnce,
        Self::LeaveNotStored,
        Self::AnybodyReasserts,
        Self::ReportsIgnored,
        Self::ZombieServes,
        Self::PageTakenForAll,
        Self::AliveForAll,
        Self::ForgetWithoutScope,
        Self::FormerForgottenEarly,
        Self::SpeakerEndsFirst,
        Self::GraceWithoutOwn,
        Self::StrangerRecoveredEarly,
        Self::LowestGroupOnly,
        Self::RevokeIgnoresSeq,
        Self::LeaseFromArrival,
        Self::NoMargin,
        Self::EarlyRevokeForgotten,
        Self::StrayGrantKept,
        Self::AcquireOnce,
        Self::DowngradeEarly,
        Self::LeaseForgotten,
        Self::WaitsNotReasserted,
        Self::EndBeforePages,
        Self::SeqNotRaised,
        Self::CapForgotten,
        Self::RecoveredExtends,
        Self::HeedsReplaced,
        Self::AnswersReplaced,
        Self::FormerAnsweredOnce,
    ];
}
