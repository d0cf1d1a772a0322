//! The wire, tried from outside: round trips, streams cut anywhere, garbage, and words for people.

#![forbid(unsafe_code)]

mod any_message;
mod errors;
mod garbage;
mod replies;
mod round_trips;
mod streams;
