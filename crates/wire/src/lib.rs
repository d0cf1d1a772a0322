//! The lock protocol as bytes: RESP frames, as Redis speaks them. No I/O, no clock.
//!
//! Two languages share a connection. Strangers (`redis-cli`, any Redis client) send commands and
//! get replies: [`take_command`], [`Value`], [`reply`]. Nodes send one-way messages, the command
//! `LS.TELL`, and hear events: [`put_tell`], [`take_from_server`]. `docs/wire.md` in the repository
//! has every command with an example, and every field.
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
//! | module | job |
//! |---|---|
//! | `gate` | whether a whole frame is there, and whether it may be: before anything is kept |
//! | `hot` | the frames that nearly all are, read in one go |
//! | `value` | replies, both ways |
//! | `words` | the fields of a message, as bulk strings or as text; `read` is the way back |
//! | `tell`, `event` | the messages between nodes and servers |
//! | `command` | what strangers send: an array of bulk strings, or a line typed by hand |
//! | `reply`, `seen` | what they are answered |
//! | `public` | what a session is called where others can see it |
//! | `secret` | passwords, and how no copy of one is left in memory |
//! | `attention` | when either end keeps looking for the next message |

#![forbid(unsafe_code)]

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
pub use limits::{Protocol, WireLimits};
pub use public::PublicId;
pub use secret::{Secret, move_and_wipe, wipe};
pub use tell::put_tell;
pub use value::{Value, put_command, put_value};
