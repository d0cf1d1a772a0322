//! The protocol as bytes.

#![forbid(unsafe_code)]
