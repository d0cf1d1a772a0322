//! The caching client.

#![forbid(unsafe_code)]
