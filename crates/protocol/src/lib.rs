//! The Lockspan lock service as pure state machines: no I/O, no clock, no randomness, no threads.
//!
//! Programs that lock depend on the crate `lockspan`. This crate is for those who write a server, a
//! client or a simulator of the protocol.
//!
//! [`LockServer`] is the server: sessions with leases, tables of records, and a wait-for graph that
//! detects deadlocks. [`LockCache`] is the client's side: the records that a process may use
//! without asking the server.
//!
//! Both are driven in the same way. The driver calls `handle(now, input, &mut out)`, performs the
//! outputs in `out` in their order, and calls again by `next_deadline()`. Storage is I/O too:
//! [`Output::Store`] asks the driver to write, and [`Input::Stored`] tells that it is durable.
//!
//! ```
//! use lockspan_protocol::{Record, Token};
//!
//! let invoice = Record::new("invoice", 42)?;
//! assert_eq!(invoice.to_string(), "invoice:42");
//! assert!(Token::try_from(7_u64)? < Token::try_from(8_u64)?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `docs/protocol.md` in the repository is the specification: messages, state tables, promises.

#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod annotation;
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

pub use annotation::{Annotation, BadAnnotation, is_hidden};
pub use bugs::{Bug, Bugs};
pub use cache::LockCache;
pub use ids::{Owner, Seq, ServerId, SessionId, StoreId};
pub use limits::{AHEAD_MAX, AHEAD_UNKNOWN, LAPSES_MAX, Limits, PAGE_MAX, RECOVERY_LEASES, margin};
pub use messages::{Claim, Client, Handoff, Holder, LocalWait, Term, ToNode, ToServer};
pub use mode::Mode;
pub use record::{BadName, Record};
pub use record_id::RecordId;
pub use refusal::{
    AcquireRefusal, NotServed, ReassertRefusal, Refusal, ReportRefusal, SessionRefusal, TermRefusal,
};
pub use server::{Input, LockServer, LockTable, Output, WaitGraph};
pub use slot::{GROUPS, Group, GroupSet, SLOTS, Slot};
pub use stay::{Stay, StayLimits};
pub use time::Tick;
pub use token::{BadToken, Epoch, Ticket, Token};

/// The examples of this crate's README, which run with the documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
