//! The queue of RQ as a deterministic state machine.
//!
//! It knows no server, no clock, no randomness: time and random bits are arguments, replies go
//! into a [`Sink`], and all that changes is a batch of ops. See `docs/ARCHITECTURE.md`.
//!
//! A request is made by [`parse`], run by [`execute`] or [`execute_absent`], and its
//! [`Effects::batch`] is what replicas and the AOF get, who call [`apply`] or [`apply_absent`].
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod apply;
mod args;
#[cfg(feature = "canary")]
pub mod canary;
#[cfg(not(feature = "canary"))]
mod canary;
mod check;
mod choose;
pub mod clock;
mod codec;
mod dedup;
pub mod doctor;
mod due;
mod effects;
mod error;
mod execute;
pub mod findings;
mod groups;
mod id;
mod job;
mod lease;
mod limits;
mod names;
mod op;
mod orders;
mod parse;
mod pause;
mod pausing;
mod policy;
mod produce;
mod queue;
mod random;
mod rate;
mod ready;
mod recover;
mod request;
mod settle;
mod schedule;
mod seldom;
mod sink;
mod slots;
mod snapshot;
mod stored;
pub mod syntax;
mod store;
pub mod table;
mod timings;
mod view;
mod wire;

pub use check::check;
pub use due::due;
pub use effects::{Effects, End, Local, Turn};
pub use error::{quote, Code, Error};
pub use execute::{end_of, execute, execute_absent, give_back, Outcome, Waiter};
pub use id::{IdText, JobId};
pub use job::{Reason, State};
pub use limits::{BATCH_ROOM, MAX_BATCH, MAX_COUNT, MAX_PAYLOAD, MAX_TIME_MS};
pub use op::Event;
pub use policy::{Opt, Policy, Setting, Value};
pub use queue::{copy_incarnation, Queue, Totals};
pub use parse::{parse, parse_doctor, parse_multi_lease};
pub use request::{MultiLease, Request};
pub use schedule::{Missed, Slots};
pub use sink::{Sink, Tree, TreeSink};
pub use snapshot::{apply, apply_absent, Loader};
pub use timings::{Percentiles, Recent, Timings};
pub use view::Cursor;
pub use wire::Malformed;
