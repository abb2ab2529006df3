//! A simulated world: producers, workers that die, hang and come back, servers that crash and fail
//! over, clocks that step; all by one seed, and judged by a ledger written from the contract.
//!
//! `RQ_SEEDS=100000` runs so many seeds instead of the usual ones, `RQ_SEED=n` only the n-th. A
//! failure names its seed and prints the shortest run found that still fails.

#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "tests may")]

mod support;

mod simulator {
    pub mod audit;
    pub mod call;
    pub mod clients;
    pub mod cluster;
    pub mod faults;
    pub mod grant;
    pub mod judge;
    pub mod ledger;
    pub mod node;
    pub mod operate;
    pub mod produce;
    pub mod rules;
    pub mod run;
    pub mod settle;
    pub mod trace;
    pub mod view;
    pub mod world;
}

use simulator::run::{run, shortest, Marks};

/// How many seeds are run unless it is said otherwise.
const SEEDS: u64 = 1_000;

#[allow(clippy::disallowed_methods, reason = "the core must not read it, who runs tests may say how long")]
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Each seed twice: equal in every line of the trace, and right in every step.
#[test]
fn whatever_happens_every_promise_is_kept() {
    let seeds = match number("RQ_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("RQ_SEEDS").unwrap_or(SEEDS),
    };
    let many = seeds.end - seeds.start >= SEEDS;
    let mut marks = Marks::new();
    for seed in seeds {
        let (first, again) = (run(seed, &[], false), run(seed, &[], false));
        if let Err(failure) = &first.outcome {
            panic!("seed {seed}: {failure}\n\n{}", shortest(seed));
        }
        assert_eq!(first.digest, again.digest, "seed {seed}: the same seed, and another trace");
        for (what, times) in first.marks {
            *marks.entry(what).or_default() += times;
        }
    }
    eprintln!("{marks:?}");
    // A world in which nothing happens keeps every promise.
    let expected = [
        "restart", "failover", "reload", "cut off", "full sync", "rewrite", "clock set", "replies lost", "pushed again",
        "jobs lost with a tail", "rq.push", "rq.lease", "rq.ack", "rq.nack", "rq.release", "rq.expire", "rq.dead", "rq.redrive",
        "rq.del", "rq.drop", "rq.duplicate", "waited and got a job", "given back",
    ];
    let missed: Vec<&str> = expected.into_iter().filter(|what| !marks.contains_key(what)).collect();
    assert!(!many || missed.is_empty(), "never happened: {missed:?}");
}

/// Queues with a fault put in on purpose: each must be noticed, by few of the seeds that every run
/// takes.
#[cfg(feature = "canary")]
#[test]
fn every_fault_put_in_on_purpose_is_caught() {
    use rq_core::canary::{choose, Fault};
    let mut missed = Vec::new();
    for fault in Fault::ALL {
        choose(Some(fault));
        let caught = (0..SEEDS).find_map(|seed| Some((seed, run(seed, &[], false).outcome.err()?)));
        choose(None);
        match caught {
            Some((seed, how)) => eprintln!("{fault:?}: seed {seed}: {}", how.lines().next().unwrap_or_default()),
            None => missed.push(fault),
        }
    }
    assert!(missed.is_empty(), "not caught by {SEEDS} seeds: {missed:?}");
}
