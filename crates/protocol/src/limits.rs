//! Bounds on what a server keeps for others, and its times.

use std::time::Duration;

use crate::bugs::Bugs;

/// Waiters that are looked at to tell an acquire how many are before it, when it is told again.
pub const AHEAD_MAX: u32 = 256;

/// What a server says instead of the number of waiters before an acquire if it does not know it.
pub const AHEAD_UNKNOWN: u32 = u32::MAX;

/// How much a server keeps, and for how long. Past a limit there is a refusal, and nothing is lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Sessions of a server; those that were there before a restart are let in beyond it.
    pub sessions: usize,
    /// Records of a table, or of all tables that share a [`Budget`](crate::server::Budget).
    pub records: usize,
    /// Grants and waits of all sessions together, in a table or in all tables that share a budget.
    pub claims: usize,
    /// Grants and waits of one session in one table; an upgrade is a grant and a wait.
    pub claims_per_session: usize,
    /// Waiters for one record; those that were in line before a restart are let in beyond it.
    pub waiters_per_record: usize,
    /// Of these, waiters of one user's sessions.
    pub waiters_per_user: usize,
    /// Owners that one acquire or one report names; the waits of a report.
    pub owners: usize,
    /// Steps that are taken at a time to find a deadlock. A search that needs more goes on a little
    /// later, as many steps at a time.
    pub search_steps: usize,
    /// How many claims one step of a table grants, ends or tells something, at most. What is left
    /// is done by the next steps, so that others have their turn in between.
    pub portion: usize,
    /// A record with more claims than this has an index of them; fewer are looked through.
    pub crowd: u32,
    /// The shortest lease of a session.
    pub ttl_min: Duration,
    /// The longest lease of a session.
    pub ttl_max: Duration,
    /// How long a record stays reserved after a retry.
    pub reserve: Duration,
    /// After how long an unanswered revoke is sent again; after that the time doubles each time, up
    /// to 32 of it.
    pub resend: Duration,
    /// For the tests of the simulator.
    pub bugs: Bugs,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            sessions: 100_000,
            records: 16_000_000,
            claims: 64_000_000,
            claims_per_session: 1_000_000,
            waiters_per_record: 100_000,
            waiters_per_user: 25_000,
            owners: 64,
            search_steps: 1_000,
            portion: 512,
            crowd: 64,
            ttl_min: Duration::from_secs(1),
            ttl_max: Duration::from_secs(300),
            reserve: Duration::from_secs(1),
            resend: Duration::from_millis(500),
            bugs: Bugs::NONE,
        }
    }
}

/// A claim whose reservation was not taken up so many times in a row leaves the line. Its node is
/// told, and may acquire again.
pub const LAPSES_MAX: u8 = 3;

/// Re-assertions of a page, at most: a server that is asked about a larger one never has it, so
/// that the answer takes no time.
pub const PAGE_MAX: usize = 1024;

/// A session that re-asserts page by page is renewed meanwhile, so that a large cache survives; but
/// all of it takes at most so many leases, each with its margin: nobody holds up the others for
/// longer.
pub const RECOVERY_LEASES: u32 = 4;

/// What a lease is shortened by on the node, and lengthened by after a restart: a tenth of it.
/// Clocks may then differ in rate by 5 % each way.
#[must_use]
pub fn margin(ttl: Duration) -> Duration {
    ttl / 10
}
