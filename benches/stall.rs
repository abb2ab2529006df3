//! How long the server keeps others waiting: a pinger beside the work.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::harness::{wait_until, Client, Server};
use crate::latency::{histogram, percentile};

/// What a pinger saw while something went on.
#[derive(Clone, Serialize)]
pub struct StallRow {
    pub what: String,
    pub jobs: usize,
    /// How long it took until it was over.
    pub ms: f64,
    pub pings: u64,
    pub p50_us: f64,
    pub p99_us: f64,
    pub p999_us: f64,
    pub longest_ms: f64,
}

/// Pings, one after the other, while `work` runs. A ping that must wait counts once; the time
/// between two pings is short, so that a stall is missed by at most that.
pub fn pinged<T>(server: &Server, what: &str, jobs: usize, work: impl FnOnce() -> T) -> (StallRow, T) {
    let pinger = server.client();
    let over = AtomicBool::new(false);
    let (pings, ms, result) = thread::scope(|scope| {
        let over = &over;
        let pings = scope.spawn(move || ping_until(&pinger, over));
        let began = Instant::now();
        let result = work();
        let ms = began.elapsed().as_secs_f64() * 1e3;
        over.store(true, Relaxed);
        (pings.join().expect("the pinger"), ms, result)
    });
    let row = StallRow {
        what: what.to_owned(),
        jobs,
        ms,
        pings: pings.len(),
        p50_us: percentile(&pings, 50.0),
        p99_us: percentile(&pings, 99.0),
        p999_us: percentile(&pings, 99.9),
        longest_ms: pings.max() as f64 / 1e6,
    };
    (row, result)
}

fn ping_until(pinger: &Client, over: &AtomicBool) -> Histogram<u64> {
    let mut pings = histogram();
    while !over.load(Relaxed) {
        let began = Instant::now();
        pinger.run("PING");
        pings.saturating_record(u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX));
        thread::sleep(Duration::from_micros(100));
    }
    pings
}

/// Nothing at all, for comparison.
pub fn quiet(server: &Server) -> StallRow {
    pinged(server, "nothing", 0, || thread::sleep(Duration::from_secs(1))).0
}

/// The clock is moved past the end of leases or delays, until so many jobs of `q` are ready.
pub fn end_of(server: &Server, what: &str, jobs: usize, clock_offset_ms: u64, ready_then: usize) -> StallRow {
    let work = || {
        server.run(format!("CONFIG SET rq.test-clock-offset {clock_offset_ms}"));
        wait_until(what, || server.run("RQ.LEN q READY").int() == i64::try_from(ready_then).expect("a count"));
    };
    pinged(server, what, jobs, work).0
}

/// Removes all there is by a command, and waits until the memory is free.
pub fn remove(server: &Server, command: &str, jobs: usize) -> StallRow {
    let empty = 16 << 20;
    let work = || {
        server.run(command);
        // The pinger's wait is over in no time; the graveyard may take longer.
        let deadline = Instant::now() + Duration::from_secs(120);
        while server.server_number("memory", "used_memory") > empty && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(20));
        }
    };
    pinged(server, command, jobs, work).0
}
