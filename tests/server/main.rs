//! RQ on real servers: what the command reference promises, tried from outside.
//!
//! `RQ_SERVER` chooses the server, by a name of `scripts/servers` or a path; `RQ_MODULE` the
//! module, by default the release build. One binary, one file for each theme. A test that writes
//! uses a [`harness::Scene`] and ends with its `verify`.

// The lints keep panics out of the product; here a panic is how a test fails.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod harness;
mod access;
mod binary;
mod blocking;
mod blocking_keys;
mod cluster;
mod corrupt;
mod counting;
mod crash;
mod crowd;
mod dedup;
mod doctor;
mod events;
mod failover;
mod figures;
mod freeing;
mod grace;
mod groups;
mod leasing;
mod leaving;
mod loading;
mod looking;
mod memory;
mod mlease;
mod monitoring;
mod odd_arguments;
mod options;
mod order;
mod origins;
mod parts;
mod paused_paths;
mod pauses;
mod persistence;
mod policy;
mod producing;
mod protocol;
mod queues;
mod reaping;
mod recipes;
mod recovery;
mod registration;
mod replication;
mod rescue;
mod resharding;
mod retention;
mod schedules;
mod settling;
mod sizes;
mod slots;
mod timer;
mod tokens;
mod upgrade;
mod upkeep;
mod waiting;
mod xtrim;
