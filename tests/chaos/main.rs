//! Chaos: producers and workers at real servers that are killed, stopped, turned round and loaded
//! anew, judged by a ledger that knows only what was sent and what was replied.
//!
//! Without `CHAOS_SECONDS` a few seconds of fixed seeds; with it (`make chaos`) each test goes on
//! for so long, from `CHAOS_SEED` on or from a seed of the clock. A seed is the schedule of the
//! faults and what each client does; how they meet is up to the scheduler.

// The lints keep panics out of the product; here a panic is how a test fails.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

#[allow(dead_code, unused_imports)]
#[path = "../server/harness/mod.rs"]
mod harness;

mod clients;
mod cycles;
mod judge;
mod ledger;
mod nemesis;
mod shards;
mod storm;
mod world;

use std::time::{Duration, Instant};

use ledger::Totals;
use nemesis::Kind;

/// How long each test is to go on; None: briefly.
fn seconds() -> Option<Duration> {
    std::env::var("CHAOS_SECONDS").ok().map(|text| Duration::from_secs(text.parse().expect("CHAOS_SECONDS")))
}

/// The first seed of a long run.
fn first_seed() -> u64 {
    match std::env::var("CHAOS_SEED") {
        Ok(text) => text.parse().expect("CHAOS_SEED"),
        Err(_) => u64::try_from(world::now()).expect("after 1970") / 1000 % 1_000_000,
    }
}

/// Fixed seeds, or one after another as long as there is time.
fn for_seeds(short: &[u64], mut run: impl FnMut(u64)) {
    let Some(time) = seconds() else { return short.iter().for_each(|&seed| run(seed)) };
    let (start, first) = (Instant::now(), first_seed());
    let mut seed = first;
    while start.elapsed() < time {
        run(seed);
        seed += 1;
    }
    println!("seeds {first}..{seed}");
}

/// The same, with all its ledgers' totals at the end.
fn total_for_seeds(short: &[u64], mut run: impl FnMut(u64) -> Totals) {
    let mut totals = Totals::default();
    for_seeds(short, |seed| totals += run(seed));
    println!("all seeds: {totals}; nothing lost, no two live leases");
}

#[test]
fn crashes() {
    total_for_seeds(&[1], |seed| nemesis::run(Kind::Always, seed));
}

#[test]
fn crashes_with_an_unsynced_tail() {
    total_for_seeds(&[2], |seed| nemesis::run(Kind::Everysec, seed));
}

#[test]
fn failovers() {
    total_for_seeds(&[3], |seed| nemesis::run(Kind::Failover, seed));
}

#[test]
fn evictions() {
    // There no queue can be put back.
    if harness::Server::start().is_redis_7_0() {
        return;
    }
    total_for_seeds(&[6], |seed| nemesis::run(Kind::Eviction, seed));
}

#[test]
fn blocking_storms() {
    for_seeds(&[4], storm::run);
}

#[test]
fn shards() {
    total_for_seeds(&[5], shards::run);
}

#[test]
fn memory_stays_flat() {
    cycles::run(seconds());
}
