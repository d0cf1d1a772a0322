//! The lock service as pure state machines: no I/O, no clock, no randomness, no threads.
//!
//! [`LockServer`] is the server: sessions with leases, tables of records, a graph of who waits for
//! whom. [`LockCache`] is a node: the records that its threads may use without asking anybody. Each
//! has one way in, `handle(now, input, &mut out)`, and `next_deadline()`; the driver does what is
//! in `out`, in order, and comes back by the deadline. Storage is I/O too: what must be durable
//! goes out as [`Output::Store`] and comes back as [`Input::Stored`].
//!
//! `docs/protocol.md` in the repository has the messages, the state tables and what is promised.

#![forbid(unsafe_code)]

mod bugs;
pub mod cache;
mod ids;
mod limits;
mod messages;
mod mode;
mod record;
mod record_id;
mod refusal;
pub mod server;
mod slot;
mod stay;
mod time;
mod token;

pub use bugs::{Bug, Bugs};
pub use cache::LockCache;
pub use ids::{Owner, Seq, ServerId, SessionId, StoreId};
pub use limits::{LAPSES_MAX, Limits, PAGE_MAX, RECOVERY_LEASES, margin};
pub use messages::{Claim, Handoff, LocalWait, Term, ToNode, ToServer};
pub use mode::Mode;
pub use record::{BadName, Record};
pub use record_id::{AsBytes, AsText, RecordId};
pub use refusal::{
    AcquireRefusal, NotServed, ReassertRefusal, Refusal, ReportRefusal, SessionRefusal, TermRefusal,
};
pub use server::{Input, LockServer, LockTable, Output, WaitGraph};
pub use slot::{GROUPS, Group, GroupSet, SLOTS, Slot};
pub use stay::{Stay, StayLimits};
pub use time::Tick;
pub use token::{BadToken, Epoch, Ticket, Token};
