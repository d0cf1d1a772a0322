//! The lock protocol as bytes: RESP frames, the format of Redis. No I/O, no clock.
//!
//! This crate is for those who write a server or a client of the protocol.
//!
//! Two kinds of messages share a connection:
//!
//! - Any Redis client, such as `redis-cli`, sends commands and gets replies: [`take_command`],
//!   [`Value`], [`reply`].
//! - Lockspan's client sends one-way messages, with the command `LS.TELL`, and receives events:
//!   [`put_tell`], [`take_from_server`].
//!
//! `docs/wire.md` in the repository has every command with an example, and every field.
//!
//! ```
//! use bytes::BytesMut;
//! use lockspan_wire::{Command, WireLimits, take_command};
//!
//! let mut received = BytesMut::from("LS.INSPECT invoice:42\r\nLS.INS");
//! let command = take_command(&mut received, &WireLimits::default())?.expect("a whole line");
//! assert!(matches!(command, Ok(Command::Inspect { .. })));
//! assert_eq!(take_command(&mut received, &WireLimits::default())?, None, "half a line");
//! # Ok::<(), lockspan_wire::WireError>(())
//! ```
//!
//! [`WireLimits`] bounds what a peer may send: a frame beyond the limits is refused before it is
//! buffered.

#![forbid(unsafe_code)]

// | module | job |
// |---|---|
// | `gate` | whether a whole frame has arrived and is within the limits, before it is parsed |
// | `hot` | fast codec for the most common frames |
// | `value` | replies, encoded and decoded |
// | `words` | the fields of a message as bulk strings or text; `read` decodes them |
// | `tell`, `event` | the messages between clients and servers |
// | `command` | commands: an array of bulk strings, or a line typed by hand |
// | `reply`, `seen` | the replies to commands |
// | `public` | the public name of a session, which does not give its id away |
// | `secret` | passwords, and wiping them from memory |
// | `attention` | how long either end polls for the next message before it sleeps |

mod attention;
mod command;
mod error;
mod event;
mod gate;
mod handle;
mod hot;
mod limits;
mod public;
mod read;
pub mod reply;
mod secret;
mod seen;
mod tell;
mod value;
mod words;

pub use attention::Attention;
pub use command::{ClientCommand, Command, Events, Wait, take_command};
pub use error::{CommandError, ErrorCode, WireError};
pub use event::{Event, EventStyle, FromServer, put_event, take_from_server};
pub use handle::{LockGrant, LockHandle, LockId};
pub use limits::{NODE_PROTOCOL, Protocol, WireLimits};
pub use public::PublicId;
pub use secret::{Secret, move_and_wipe, wipe};
pub use tell::put_tell;
pub use value::{Value, put_command, put_value};

/// The examples of this crate's README, which run with the documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
