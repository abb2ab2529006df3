//! How long a job is on its way: from the push until one of several blocked workers has it, at a
//! rate that all can keep up with; and what a push to a crowd of blocked workers costs.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::bullmq::BullMq;
use crate::contenders::{payload, Kind, Side, STOP};
use crate::harness::{Client, Server};
use crate::meter::field;
use crate::{scaled, PLAIN};

const WORKERS: [usize; 3] = [1, 10, 50];
const ROUNDS: usize = 3;
const JOBS: usize = 1_000;
/// Pushes a second. BullMQ gets fewer of both: at more it would be a measurement of its backlog.
const PER_SECOND: u64 = 1_000;
const FEWER: usize = 4;

/// The percentiles of all rounds together.
#[derive(Clone, Serialize, Deserialize)]
pub struct LatencyRow {
    pub contender: String,
    pub workers: usize,
    pub jobs: u64,
    pub p50_us: f64,
    pub p99_us: f64,
    pub p999_us: f64,
    pub max_us: f64,
}

pub fn measure(bullmq: bool) -> Vec<LatencyRow> {
    let server = Server::with(&PLAIN);
    let mut bullmq = bullmq.then(|| BullMq::start(server.port));
    let kinds: Vec<Kind> = [Kind::Rq, Kind::List, Kind::Stream].into_iter().chain(bullmq.is_some().then_some(Kind::BullMq)).collect();
    let jobs = scaled(JOBS);
    let mut rows = Vec::new();
    for workers in WORKERS {
        let mut times: Vec<Histogram<u64>> = kinds.iter().map(|_| histogram()).collect();
        for _ in 0..ROUNDS {
            for (kind, times) in kinds.iter().zip(&mut times) {
                match (kind, &mut bullmq) {
                    (Kind::BullMq, Some(bullmq)) => {
                        bullmq.latency(workers, jobs.div_ceil(FEWER), PER_SECOND / FEWER as u64).into_iter().for_each(|ns| times.saturating_record(ns));
                    }
                    _ => times.add(deliver(&server, *kind, workers, jobs)).expect("equal bounds"),
                }
            }
        }
        rows.extend(kinds.iter().zip(&times).map(|(kind, times)| row(*kind, workers, times)));
    }
    rows
}

/// Of nanoseconds, up to a minute.
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("bounds")
}

/// A percentile, in us.
pub fn percentile(times: &Histogram<u64>, percent: f64) -> f64 {
    times.value_at_percentile(percent) as f64 / 1e3
}

fn row(kind: Kind, workers: usize, times: &Histogram<u64>) -> LatencyRow {
    LatencyRow {
        contender: kind.name().to_owned(),
        workers,
        jobs: times.len(),
        p50_us: percentile(times, 50.0),
        p99_us: percentile(times, 99.0),
        p999_us: percentile(times, 99.9),
        max_us: times.max() as f64 / 1e3,
    }
}

/// The times of jobs from just before the push until a worker has its payload.
fn deliver(server: &Server, kind: Kind, workers: usize, jobs: usize) -> Histogram<u64> {
    let began = Instant::now();
    let now = || u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let sent: Vec<AtomicU64> = (0..jobs).map(|_| AtomicU64::new(0)).collect();
    let port = server.port;
    let work = |number: usize| {
        let mut side = Side::new(kind, port, number);
        let mut times = histogram();
        loop {
            let taken = side.take(1, true);
            let got_at = now();
            side.finish(&taken);
            for job in taken {
                match sent.get(job.number() as usize) {
                    Some(sent) => times.saturating_record(got_at - sent.load(Relaxed)),
                    None => return times,
                }
            }
        }
    };
    let work = &work;
    thread::scope(|scope| {
        let threads: Vec<_> = (0..workers).map(|number| scope.spawn(move || work(number))).collect();
        server.wait_blocked(workers as u64);
        let mut producer = Side::new(kind, server.port, 0);
        let start = Instant::now();
        for (n, sent) in sent.iter().enumerate() {
            let due = Duration::from_nanos(n as u64 * 1_000_000_000 / PER_SECOND);
            thread::sleep(due.saturating_sub(start.elapsed()));
            let payload = [payload(n as u64, 100)];
            sent.store(now(), Relaxed);
            producer.push(&payload);
        }
        (0..workers).for_each(|_| producer.push(&[payload(STOP, 100)]));
        threads.into_iter().fold(histogram(), |mut all, thread| {
            all.add(thread.join().expect("a worker")).expect("equal bounds");
            all
        })
    })
}

/// One push to one of many blocked workers.
#[derive(Clone, Serialize, Deserialize)]
pub struct CrowdRow {
    pub blocked: usize,
    /// Server CPU of a push with its hand-off.
    pub push_us: f64,
    pub slowest_ms: f64,
}

pub fn crowds() -> Vec<CrowdRow> {
    [1, 1_000, 4_000].map(crowd).to_vec()
}

fn crowd(blocked: usize) -> CrowdRow {
    let server = Server::with(&PLAIN);
    // Made first, as the README advises.
    server.run("RQ.CREATE q");
    let clients: Vec<Client> = (0..blocked).map(|_| server.client()).collect();
    clients.iter().for_each(|client| client.send_line("RQ.LEASE q w BLOCK 0"));
    server.wait_blocked(blocked as u64);
    let mut producer = Side::new(Kind::Rq, server.port, 0);
    server.run("CONFIG RESETSTAT");
    let mut slowest: f64 = 0.0;
    // Who waits longest is served, and waits again, so the crowd stays as large.
    for (n, client) in clients.iter().cycle().take(200).enumerate() {
        let payload = [payload(n as u64, 100)];
        let began = Instant::now();
        producer.push(&payload);
        slowest = slowest.max(began.elapsed().as_secs_f64() * 1e3);
        client.reply();
        client.send_line("RQ.LEASE q w BLOCK 0");
        server.wait_blocked(blocked as u64);
    }
    let stats = server.server_info("commandstats");
    CrowdRow { blocked, push_us: field(stats["cmdstat_rq.push"].text(), "usec_per_call"), slowest_ms: slowest }
}
