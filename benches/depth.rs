//! How RQ fares with many jobs: each verb on queues of three sizes, whose rounds take turns on one
//! server; the end of very many leases and delays at once; removing it all; and the files.
//! RQ_DEPTH_JOBS is the size of the largest queue, by default 5,000,000.

use std::collections::{HashSet, VecDeque};

use redis::{cmd, pipe, Cmd, Connection, FromRedisValue};
use serde_json::{json, Value};

use crate::contenders::{payload, Kind, Side};
use crate::harness::{Client, Server};
use crate::memory::fill;
use crate::meter::{field, median};
use crate::report::{ratio, Table};
use crate::{files, stall, PLAIN};

const ROUNDS: usize = 25;
/// Calls of each verb in a round.
const CALLS: usize = 100;
/// Jobs of one call while a queue is filled.
const BATCH: usize = 1_000;
/// Leases and backoffs that outlast everything here: ten hours.
const LONG_MS: u64 = 36_000_000;

/// All of `make depth`, as JSON.
pub fn measure() -> Value {
    let jobs: usize = std::env::var("RQ_DEPTH_JOBS").map_or(5_000_000, |text| text.parse().expect("RQ_DEPTH_JOBS: a number"));
    let verbs = verbs(&[1_000, 100_000.min(jobs / 2), jobs]);
    let mut stalls = mass_expiry(jobs / 5);
    stalls.extend(["UNLINK q", "FLUSHALL ASYNC"].map(|command| removal(command, 2 * jobs)));
    let mut table = Table::new(&["what others wait for meanwhile", "jobs", "ms", "pings", "p50 us", "p99 us", "p99.9 us", "longest ms"]);
    for row in &stalls {
        let times = [row.p50_us, row.p99_us, row.p999_us].map(|us| format!("{us:.0}"));
        let counts = [row.what.clone(), row.jobs.to_string(), format!("{:.0}", row.ms), row.pings.to_string()];
        table.row(counts.into_iter().chain(times).chain([format!("{:.2}", row.longest_ms)]));
    }
    println!();
    table.print();
    let files: Vec<files::FileRow> = [Kind::Rq, Kind::Stream].into_iter().map(|kind| files::measure(kind, jobs)).collect();
    files::print(&files);
    json!({ "jobs": jobs, "verbs": verbs, "stalls": stalls, "files": files })
}

/// A queue with a quarter of its jobs in each state, and where each job is.
struct Deep {
    key: String,
    jobs: usize,
    /// In the order of LEASE; those that were deleted are in `deleted`.
    waiting: VecDeque<String>,
    deleted: HashSet<String>,
    leased: Vec<(String, u64)>,
    delayed: Vec<String>,
    dead: Vec<String>,
    seed: u64,
}

const VERBS: [&str; 9] = ["PUSH", "LEASE", "EXTEND", "GET", "ACK", "NACK", "DEL delayed", "DEL waiting", "INFO"];

fn verbs(sizes: &[usize]) -> Vec<Value> {
    let server = Server::with(&PLAIN);
    let client = redis::Client::open(("127.0.0.1", server.port)).expect("an address");
    let mut con = client.get_connection().expect("connect to the server");
    let mut queues: Vec<Deep> = sizes.iter().map(|jobs| Deep::fill(&mut con, *jobs)).collect();
    // For each queue and verb the us per call of each round.
    let mut us = vec![vec![Vec::new(); VERBS.len()]; queues.len()];
    // Round 0 warms up.
    for round in 0..=ROUNDS {
        for (queue, us) in queues.iter_mut().zip(&mut us) {
            let costs = queue.round(&server, &mut con);
            if round > 0 {
                us.iter_mut().zip(costs).for_each(|(us, cost)| us.push(cost));
            }
        }
    }
    println!("\nus of server CPU per call, and the ratio to {} jobs; a quarter each waiting, delayed, leased and dead", sizes[0]);
    let mut table = Table::new(&[]);
    table.row(std::iter::once(String::new()).chain(sizes.iter().flat_map(|size| [size.to_string(), "ratio".into()])));
    let mut rows = Vec::new();
    for (at, verb) in VERBS.iter().enumerate() {
        let mut cells = vec![(*verb).to_owned()];
        for (size, us_of_size) in sizes.iter().zip(&us) {
            let (own, first) = (&us_of_size[at], &us[0][at]);
            let to_first = median(own.iter().zip(first).filter(|(_, first)| **first > 0.0).map(|(own, first)| own / first));
            let own = median(own.iter().copied());
            cells.extend([format!("{own:.2}"), ratio(Some(to_first))]);
            rows.push(json!({ "verb": verb, "jobs": size, "us": own, "ratio": to_first }));
        }
        table.row(cells);
    }
    table.print();
    rows
}

type Leased = Vec<(String, u64, u64, Vec<u8>, u64)>;

impl Deep {
    fn fill(con: &mut Connection, jobs: usize) -> Deep {
        let key = format!("q{jobs}");
        let policy = ["BACKOFF", "36000000", "36000000", "JITTER", "none", "MAXDELIVERIES", "0"];
        run::<i64>(con, cmd("RQ.CREATE").arg(&key).arg("LEASE").arg(LONG_MS).arg(&policy));
        let mut queue = Deep {
            key,
            jobs: 0,
            waiting: VecDeque::new(),
            deleted: HashSet::new(),
            leased: Vec::new(),
            delayed: Vec::new(),
            dead: Vec::new(),
            seed: jobs as u64,
        };
        let quarter = jobs / 4;
        for state in ["dead", "leased", "delayed", "waiting"] {
            for from in (0..quarter).step_by(BATCH) {
                let n = BATCH.min(quarter - from);
                let delay: &[&str] = if state == "delayed" { &["DELAY", "36000000"] } else { &[] };
                let ids = queue.push(con, n, delay);
                match state {
                    "delayed" => queue.delayed.extend(ids),
                    "waiting" => queue.waiting.extend(ids),
                    _ => queue.lease(con, n),
                }
                if state == "dead" {
                    let mut nack = cmd("RQ.NACK");
                    nack.arg(&queue.key);
                    for (id, token) in queue.leased.drain(..) {
                        nack.arg(&id).arg(token);
                        queue.dead.push(id);
                    }
                    run::<Vec<i64>>(con, nack.arg("DEAD"));
                }
            }
        }
        queue
    }

    fn push(&mut self, con: &mut Connection, n: usize, options: &[&str]) -> Vec<String> {
        let payloads: Vec<Vec<u8>> = (self.jobs..self.jobs + n).map(|number| payload(number as u64, 100)).collect();
        self.jobs += n;
        run(con, cmd("RQ.MPUSH").arg(&self.key).arg(n).arg(payloads).arg(options))
    }

    fn lease(&mut self, con: &mut Connection, n: usize) {
        let leased: Leased = run(con, cmd("RQ.LEASE").arg(&self.key).arg("w").arg("COUNT").arg(n));
        self.leased.extend(leased.into_iter().map(|(id, token, ..)| (id, token)));
    }

    /// A number below `n`.
    fn random(&mut self, n: usize) -> usize {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.seed >> 33) as usize % n
    }

    /// Any job in any state, but those that were just pushed.
    fn any(&mut self) -> String {
        let state = self.random(4);
        let at = self.random([self.waiting.len(), self.leased.len(), self.delayed.len(), self.dead.len()][state]);
        match state {
            0 if !self.deleted.contains(&self.waiting[at]) => self.waiting[at].clone(),
            1 => self.leased[at].0.clone(),
            2 => self.delayed[at].clone(),
            _ => self.dead[at % self.dead.len()].clone(),
        }
    }

    fn take_leased(&mut self) -> (String, u64) {
        let at = self.random(self.leased.len());
        self.leased.swap_remove(at)
    }

    /// Each verb in turn, so that each state has as many jobs afterwards as before. us per call.
    fn round(&mut self, server: &Client, con: &mut Connection) -> [f64; VERBS.len()] {
        VERBS.map(|verb| {
            let mut calls = Vec::new();
            if verb == "NACK" || verb == "DEL waiting" {
                let ids = self.push(con, CALLS, &[]);
                self.waiting.extend(ids);
            }
            if verb == "NACK" {
                self.lease(con, CALLS);
                (0..CALLS).for_each(|_| self.forget_first());
            }
            for _ in 0..CALLS {
                let mut call = cmd(&format!("RQ.{}", verb.split(' ').next().unwrap_or_default()));
                call.arg(&self.key);
                self.complete(verb, &mut call);
                calls.push(call);
            }
            server.run("CONFIG RESETSTAT");
            let mut all = pipe();
            for call in calls {
                all.add_command(call);
            }
            let replies: Vec<redis::Value> = all.query(con).expect("calls that work");
            self.note(verb, &replies);
            let name = verb.split(' ').next().unwrap_or_default().to_lowercase();
            field(server.server_info("commandstats")[format!("cmdstat_rq.{name}").as_str()].text(), "usec") / CALLS as f64
        })
    }

    /// The arguments of one call, of a random job where it takes one.
    fn complete(&mut self, verb: &str, call: &mut Cmd) {
        match verb {
            "PUSH" => {
                self.jobs += 1;
                call.arg(payload(self.jobs as u64, 100));
            }
            "LEASE" => drop(call.arg("w")),
            "EXTEND" => {
                let at = self.random(self.leased.len());
                let (id, token) = &self.leased[at];
                call.arg(id).arg(token);
            }
            "GET" => drop(call.arg(self.any())),
            "ACK" | "NACK" => {
                let (id, token) = self.take_leased();
                call.arg(&id).arg(token);
                if verb == "NACK" {
                    self.delayed.push(id);
                }
            }
            "DEL delayed" => {
                let at = self.random(self.delayed.len());
                call.arg(self.delayed.swap_remove(at));
            }
            "DEL waiting" => loop {
                let at = self.random(self.waiting.len());
                if self.deleted.insert(self.waiting[at].clone()) {
                    call.arg(&self.waiting[at]);
                    break;
                }
            },
            _ => {}
        }
    }

    /// What the replies tell of where jobs are; each must say that it was done.
    fn note(&mut self, verb: &str, replies: &[redis::Value]) {
        for reply in replies {
            let reply = reply.clone();
            match verb {
                "PUSH" => self.waiting.push_back(redis::from_redis_value(reply).expect("an id")),
                "LEASE" => {
                    let leased: Leased = redis::from_redis_value(reply).expect("a job");
                    self.leased.extend(leased.into_iter().map(|(id, token, ..)| (id, token)));
                    self.forget_first();
                }
                "EXTEND" | "ACK" | "NACK" => assert_eq!(redis::from_redis_value::<Vec<i64>>(reply).expect("codes"), [1], "{verb}"),
                "DEL delayed" | "DEL waiting" => assert_eq!(redis::from_redis_value::<i64>(reply).expect("a number"), 1, "{verb}"),
                _ => assert!(reply != redis::Value::Nil, "{verb}"),
            }
        }
    }

    /// The first that waits was leased.
    fn forget_first(&mut self) {
        while self.waiting.pop_front().is_some_and(|id| self.deleted.remove(&id)) {}
    }
}

fn run<T: FromRedisValue>(con: &mut Connection, command: &Cmd) -> T {
    command.query(con).expect("a command that works")
}

/// All leases, then all delays, are over at once, by the module's clock.
fn mass_expiry(jobs: usize) -> Vec<stall::StallRow> {
    let server = Server::with(&[&PLAIN[..], &["rq.expiry-grace 0"]].concat());
    let mut side = Side::new(Kind::Rq, server.port, 0);
    server.run("RQ.CREATE q LEASE 3000000");
    fill(&mut side, jobs, 100, false);
    let mut leased = 0;
    while leased < jobs {
        leased += side.take(BATCH.min(jobs - leased), false).len();
    }
    fill(&mut side, jobs, 100, true);
    let mut rows = vec![stall::quiet(&server)];
    rows.push(stall::end_of(&server, "leases run out", jobs, 3_100_000, jobs));
    rows.push(stall::end_of(&server, "delays are over", jobs, 3_700_000, 2 * jobs));
    rows
}

fn removal(command: &str, jobs: usize) -> stall::StallRow {
    let server = Server::with(&PLAIN);
    fill(&mut Side::new(Kind::Rq, server.port, 0), jobs, 100, false);
    stall::remove(&server, command, jobs)
}
