//! Breaks the running lock service: real sockets, real processes, real signals.
//!
//! The simulator (`sim/`) tries the protocol in worlds that follow from a seed. Here it is the
//! programs that ship: the server, the client, their sockets and files, on this machine's clock.
//!
//! | what | where |
//! |---|---|
//! | scenarios of the classic lock-server tester, with 0, 5 and 20 % loss | `tests/tester.rs` |
//! | the failures of `docs/failures.md` by number | `tests/service/` |
//! | processes that fork (`src/bin/forker`) | `tests/fork.rs` |
//! | processes killed, stopped and cut off at random, and a judge | `faults run`, [`run`] |
//! | clients that misbehave, and what others notice | [`abuse`], `tests/abuse.rs` |
//!
//! ```text
//! cargo run --release -p lockspan-faults -- run --seconds 60 --nodes 4 --seed 7
//! cargo xtask faults --minutes 3
//! ```
//!
//! | module | job |
//! |---|---|
//! | [`proxy`] | a network that loses, doubles, delays, cuts and swallows |
//! | [`process`], [`puppet`] | processes under control, and one that does what it is told |
//! | [`store`], [`journal`], [`check`] | what is written behind a fence, who held what, a verdict |
//! | [`worker`], [`run`] | nodes under load, and the faults that they are put through |
//! | [`hoard`], [`supervised`] | a node with a large cache, and commands of `lockspan run` |
//! | [`foreign`], [`damage`] | sessions used by a stranger, and damaged data files |
//! | [`stage`] | a server and its networks for tests |

#![forbid(unsafe_code)]

pub mod abuse;
pub mod check;
pub mod clock;
pub mod damage;
pub mod foreign;
pub mod hoard;
pub mod journal;
mod post;
pub mod process;
pub mod proxy;
pub mod puppet;
pub mod run;
pub mod stage;
pub mod store;
pub mod supervised;
pub mod worker;
