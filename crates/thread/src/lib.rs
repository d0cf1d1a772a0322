//! Locks between the threads of one program. They need no async runtime and no server.
//!
//! ```
//! use lockspan_thread::fair::RwLock;
//!
//! let lock = RwLock::new(5);
//! assert_eq!(*lock.read(), 5);
//! *lock.write() += 1;
//! ```
//!
//! # Which one?
//!
//! | you have | take |
//! |---|---|
//! | data that many threads read and write | [`fair::RwLock`] |
//! | the same, and async tasks wait too | [`fair::RwLock`] with [`fair::RwLockExt`] |
//! | data that nearly always one thread uses | [`biased::Mutex`] |
//! | readers that sometimes find that they must write | [`progressive::Lock`] |
//! | many writers of different parts of one structure | [`progressive::ClaimLock`] |
//! | a counter or free list that all processors use | [`percpu`] |
//! | words that one thread stores very often, and others seldom | [`revocable::Lock`] |
//!
//! Common to all: no poisoning, no priority inheritance, and every page says what holds in the
//! child of a `fork`. The locks are tested on Linux, x86-64 first; other systems use portable code.
//!
//! # Features
//!
//! Both are off by default.
//!
//! | feature | what it adds |
//! |---|---|
//! | `serde` | [`fair`] and [`biased`] locks are serialized as their data |
//! | `signals` | one more [backend](revocable::backend) for revocable locks, only used if named |

#![cfg_attr(docsrs, feature(doc_cfg))]
// Models are no platform that a user could choose.
#![cfg_attr(docsrs, doc(auto_cfg(hide(lockspan_loom, lockspan_shuttle))))]

mod backend;
pub mod biased;
pub mod fair;
// The fast path of the caching client.
#[doc(hidden)]
pub mod gate;
pub mod percpu;
pub mod progressive;
pub mod revocable;
#[cfg(all(test, lockspan_shuttle))]
mod shuttle;
mod spin;
mod sync;

/// The examples of this crate's README, which run with the documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
