//! What a job costs in memory: `used_memory` of a server that holds many, waiting, delayed, leased.
//! That a list's and a stream's delayed jobs are in a sorted set, where workers do not see them,
//! is how they are done by hand.

use serde::{Deserialize, Serialize};

use crate::bullmq::BullMq;
use crate::contenders::{payload, Kind, Side};
use crate::harness::Server;
use crate::{scaled, PAYLOADS, PLAIN};

const JOBS: usize = 200_000;
const JOBS_OF_BULLMQ: usize = 10_000;
/// Jobs of one call.
const BATCH: usize = 1_000;
/// An hour.
const DELAY_MS: u64 = 3_600_000;

/// Bytes per job, the payload included.
#[derive(Clone, Serialize, Deserialize)]
pub struct MemoryRow {
    pub contender: String,
    pub payload: usize,
    pub jobs: usize,
    pub waiting: f64,
    pub delayed: f64,
    pub leased: f64,
}

pub fn measure(bullmq: bool) -> Vec<MemoryRow> {
    let mut rows = Vec::new();
    for size in PAYLOADS {
        rows.extend([Kind::Rq, Kind::List, Kind::Stream].map(|kind| one(kind, size)));
        if bullmq {
            rows.push(one(Kind::BullMq, size));
        }
    }
    rows
}

fn one(kind: Kind, size: usize) -> MemoryRow {
    let jobs = scaled(if kind == Kind::BullMq { JOBS_OF_BULLMQ } else { JOBS });
    // What an empty queue and a client that is gone leave behind belongs to nobody.
    let with = |fill: &dyn Fn(&Server), more: &dyn Fn(&Server)| {
        let server = Server::with(&PLAIN);
        let empty = used(&server);
        fill(&server);
        let full = used(&server);
        more(&server);
        [full, used(&server)].map(|used| (used - empty) / jobs as f64)
    };
    let [waiting, leased] = with(&|server| push(server, kind, jobs, size, false), &|server| take(server, kind, jobs));
    let [delayed, _] = with(&|server| push(server, kind, jobs, size, true), &|_| {});
    MemoryRow { contender: kind.name().to_owned(), payload: size, jobs, waiting, delayed, leased }
}

fn push(server: &Server, kind: Kind, jobs: usize, size: usize, delayed: bool) {
    if kind == Kind::BullMq {
        return BullMq::start(server.port).push(jobs, size, if delayed { DELAY_MS } else { 0 });
    }
    let mut side = Side::new(kind, server.port, 0);
    fill(&mut side, jobs, size, delayed);
}

/// Pushes many.
pub fn fill(side: &mut Side, jobs: usize, size: usize, delayed: bool) {
    for from in (0..jobs).step_by(BATCH) {
        let payloads: Vec<Vec<u8>> = (from..jobs.min(from + BATCH)).map(|n| payload(n as u64, size)).collect();
        if delayed { side.push_delayed(&payloads) } else { side.push(&payloads) }
    }
}

fn take(server: &Server, kind: Kind, jobs: usize) {
    if kind == Kind::BullMq {
        return BullMq::start(server.port).take(jobs);
    }
    server.run("RQ.CREATE q LEASE 3600000");
    let mut side = Side::new(kind, server.port, 0);
    let mut taken = 0;
    while taken < jobs {
        taken += side.take(BATCH.min(jobs - taken), false).len();
    }
}

/// `used_memory` when it has come to rest.
fn used(server: &Server) -> f64 {
    let read = || server.server_number("memory", "used_memory");
    let mut last = read();
    for _ in 0..50 {
        std::thread::sleep(std::time::Duration::from_millis(50));
        let now = read();
        if now.abs_diff(last) < 1_000 {
            break;
        }
        last = now;
    }
    read() as f64
}
