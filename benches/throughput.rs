//! How many jobs a second go from producers through workers to their end, as fast as they can.
//! All run on one machine, clients and server, so it is the whole way that is measured.

use std::thread;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::bullmq::BullMq;
use crate::contenders::{payload, Kind, Side, STOP};
use crate::harness::Server;
use crate::meter::median;
use crate::rounds::BATCHES;
use crate::{scaled, PLAIN};

const PRODUCERS: usize = 2;
const WORKERS: usize = 10;
const ROUNDS: usize = 3;

#[derive(Clone, Serialize, Deserialize)]
pub struct ThroughputRow {
    pub contender: String,
    /// Jobs per call.
    pub batch: usize,
    pub jobs_per_second: f64,
    /// The median of the rounds' ratios.
    pub to_stream: f64,
}

pub fn measure(kinds: &[Kind], bullmq: bool) -> Vec<ThroughputRow> {
    let server = Server::with(&PLAIN);
    let mut bullmq = bullmq.then(|| BullMq::start(server.port));
    let mut rows = Vec::new();
    for batch in BATCHES {
        let kinds: Vec<Kind> = kinds
            .iter()
            .copied()
            .filter(|kind| *kind != Kind::RqAckLease || batch == 1)
            .chain(bullmq.is_some().then_some(Kind::BullMq))
            .collect();
        let mut rates: Vec<Vec<f64>> = vec![Vec::new(); kinds.len()];
        for _ in 0..ROUNDS {
            for (kind, rates) in kinds.iter().zip(&mut rates) {
                let jobs = scaled(jobs_of_a_round(*kind, batch));
                let seconds = match (kind, &mut bullmq) {
                    (Kind::BullMq, Some(bullmq)) => bullmq.throughput(jobs, PRODUCERS, WORKERS, batch),
                    _ => run(&server, *kind, jobs, batch),
                };
                rates.push(jobs as f64 / seconds);
            }
        }
        let stream = kinds.iter().position(|kind| *kind == Kind::Stream).and_then(|at| rates.get(at)).cloned().unwrap_or_default();
        rows.extend(kinds.iter().zip(&rates).map(|(kind, rates)| ThroughputRow {
            contender: kind.name().to_owned(),
            batch,
            jobs_per_second: median(rates.iter().copied()),
            to_stream: median(rates.iter().zip(&stream).map(|(own, stream)| own / stream)),
        }));
    }
    rows
}

fn jobs_of_a_round(kind: Kind, batch: usize) -> usize {
    match (kind, batch) {
        (Kind::BullMq, 1) => 1_000,
        (Kind::BullMq, _) => 2_000,
        (_, 1) => 10_000,
        (_, 10) => 40_000,
        _ => 100_000,
    }
}

/// Seconds from the first push to the end of the last job.
fn run(server: &Server, kind: Kind, jobs: usize, batch: usize) -> f64 {
    let port = server.port;
    thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS).map(|number| scope.spawn(move || work(port, kind, number, batch))).collect();
        server.wait_blocked(WORKERS as u64);
        let began = Instant::now();
        let producers: Vec<_> = (0..PRODUCERS).map(|number| scope.spawn(move || produce(port, kind, jobs, batch, number))).collect();
        producers.into_iter().for_each(|producer| producer.join().expect("a producer"));
        let mut last = Side::new(kind, port, 0);
        (0..WORKERS).for_each(|_| last.push(&[payload(STOP, 100)]));
        let finished: usize = workers.into_iter().map(|worker| worker.join().expect("a worker")).sum();
        assert_eq!(finished, jobs, "all jobs");
        began.elapsed().as_secs_f64()
    })
}

fn produce(port: u16, kind: Kind, jobs: usize, batch: usize, number: usize) {
    let mut side = Side::new(kind, port, number);
    for from in (number * batch..jobs).step_by(PRODUCERS * batch) {
        let payloads: Vec<Vec<u8>> = (from..jobs.min(from + batch)).map(|n| payload(n as u64, 100)).collect();
        side.push(&payloads);
    }
}

/// Works until it gets a STOP; how many jobs it has finished. Of several STOPs it gives back all
/// but its own.
fn work(port: u16, kind: Kind, number: usize, batch: usize) -> usize {
    let mut side = Side::new(kind, port, number);
    let mut finished = 0;
    let mut taken = side.take(batch, true);
    loop {
        let stops = taken.iter().filter(|job| job.number() == STOP).count();
        finished += taken.len() - stops;
        if stops > 0 {
            side.finish(&taken);
            (1..stops).for_each(|_| side.push(&[payload(STOP, 100)]));
            return finished;
        }
        taken = side.next(&taken, batch, true);
    }
}
