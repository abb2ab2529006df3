//! The ways to get a job from a producer to a worker and finish it. Each is what its users do by
//! hand, with as few calls as it can be done; batches are pipelined where there is no call for many.

use redis::{cmd, pipe, Connection, FromRedisValue};

/// A number that no job has: the worker that gets it stops.
pub const STOP: u64 = 9_999_999_999_999_999;
/// A lease that outlives any run, in ms.
const LEASE_MS: u64 = 3_600_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Rq,
    /// With RQ.ACKLEASE, which finishes one and takes the next.
    RqAckLease,
    List,
    Stream,
    /// With XACKDEL in place of XACK and XDEL: Redis 8.2 and later.
    StreamAckDel,
    /// Driven by [`crate::bullmq`].
    BullMq,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Rq => "RQ",
            Kind::RqAckLease => "RQ, ACKLEASE",
            Kind::List => "list",
            Kind::Stream => "stream",
            Kind::StreamAckDel => "stream, XACKDEL",
            Kind::BullMq => "BullMQ",
        }
    }
}

/// A job in the hands of a worker.
pub struct Job {
    id: String,
    token: u64,
    payload: Vec<u8>,
}

impl Job {
    pub fn number(&self) -> u64 {
        number(&self.payload)
    }
}

/// A payload such as jobs have: JSON with a number that makes it unique, and as long as asked for.
pub fn payload(number: u64, len: usize) -> Vec<u8> {
    let mut text = format!(r#"{{"job":"{number:016}","to":"user-{}@example.com","data":""#, number % 1000);
    let mut seed = number;
    while text.len() < len - 2 {
        // SplitMix64.
        seed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (seed ^ (seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        text.push_str(&format!("{:016x}", mixed ^ (mixed >> 27)));
    }
    text.truncate(len - 2);
    text.push_str("\"}");
    text.into_bytes()
}

fn number_text(payload: &[u8]) -> &str {
    std::str::from_utf8(&payload[8..24]).expect("digits")
}

fn number(payload: &[u8]) -> u64 {
    number_text(payload).parse().expect("the number of a job")
}

type Leased = (String, u64, u64, Vec<u8>, u64);
type Entries = Vec<(String, Vec<(String, Vec<Vec<u8>>)>)>;

/// One connection of a producer or worker.
pub struct Side {
    kind: Kind,
    con: Connection,
    name: String,
}

impl Side {
    pub fn new(kind: Kind, port: u16, number: usize) -> Side {
        let client = redis::Client::open(("127.0.0.1", port)).expect("an address");
        let mut con = client.get_connection().expect("connect to the server");
        if matches!(kind, Kind::Stream | Kind::StreamAckDel) {
            // An error if it is there.
            let _ = cmd("XGROUP").arg(&["CREATE", "s", "g", "$", "MKSTREAM"]).exec(&mut con);
        }
        Side { kind, con, name: format!("w{number}") }
    }

    /// Pushes in one call, or one round trip.
    pub fn push(&mut self, payloads: &[Vec<u8>]) {
        match (self.kind, payloads) {
            (Kind::Rq | Kind::RqAckLease, [payload]) => self.run(cmd("RQ.PUSH").arg("q").arg(payload)),
            (Kind::Rq | Kind::RqAckLease, _) => self.run(cmd("RQ.MPUSH").arg("q").arg(payloads.len()).arg(payloads)),
            (Kind::List, _) => self.run(cmd("LPUSH").arg("l").arg(payloads)),
            (Kind::Stream | Kind::StreamAckDel, _) => {
                let mut all = pipe();
                for payload in payloads {
                    all.cmd("XADD").arg(&["s", "*", "p"]).arg(payload).ignore();
                }
                all.exec(&mut self.con).expect("XADD");
            }
            (Kind::BullMq, _) => unreachable!("driven by node"),
        }
    }

    /// Pushes what is due in an hour. Lists and streams have no such thing: a sorted set beside them.
    pub fn push_delayed(&mut self, payloads: &[Vec<u8>]) {
        match self.kind {
            Kind::Rq | Kind::RqAckLease => {
                self.run(cmd("RQ.MPUSH").arg("q").arg(payloads.len()).arg(payloads).arg("DELAY").arg(LEASE_MS));
            }
            _ => {
                let mut add = cmd("ZADD");
                add.arg("delayed");
                for payload in payloads {
                    add.arg(1_900_000_000_000 + number(payload)).arg(payload);
                }
                self.run(&add);
            }
        }
    }

    /// Takes up to `n` jobs; waits for the first one if it may block.
    pub fn take(&mut self, n: usize, block: bool) -> Vec<Job> {
        match self.kind {
            Kind::Rq | Kind::RqAckLease => {
                let mut lease = cmd("RQ.LEASE");
                lease.arg("q").arg(&self.name);
                if n > 1 {
                    lease.arg("COUNT").arg(n);
                }
                if block {
                    lease.arg("BLOCK").arg(0);
                }
                leased(self.query(&lease))
            }
            Kind::List => self.take_from_list(n, block),
            Kind::Stream | Kind::StreamAckDel => {
                let mut read = cmd("XREADGROUP");
                read.arg("GROUP").arg("g").arg(&self.name).arg("COUNT").arg(n);
                if block {
                    read.arg("BLOCK").arg(0);
                }
                let reply: Option<Entries> = self.query(read.arg("STREAMS").arg("s").arg(">"));
                let entries = reply.into_iter().flatten().flat_map(|(_, entries)| entries);
                entries.map(|(id, mut fields)| Job { id, token: 0, payload: fields.swap_remove(1) }).collect()
            }
            Kind::BullMq => unreachable!("driven by node"),
        }
    }

    fn take_from_list(&mut self, n: usize, block: bool) -> Vec<Job> {
        let mut payloads: Vec<Vec<u8>> = Vec::new();
        if block {
            payloads.push(self.query(cmd("BLMOVE").arg(&["l", "l:busy", "RIGHT", "LEFT", "0"])));
        }
        if n > payloads.len() {
            let mut moves = pipe();
            for _ in payloads.len()..n {
                moves.cmd("LMOVE").arg(&["l", "l:busy", "RIGHT", "LEFT"]);
            }
            let more: Vec<Option<Vec<u8>>> = moves.query(&mut self.con).expect("LMOVE");
            payloads.extend(more.into_iter().flatten());
        }
        if !payloads.is_empty() {
            let mut leases = cmd("HSET");
            leases.arg("l:leases");
            for payload in &payloads {
                leases.arg(number_text(payload)).arg(1_900_000_000_000_u64);
            }
            self.run(&leases);
        }
        payloads.into_iter().map(|payload| Job { id: String::new(), token: 0, payload }).collect()
    }

    /// Finishes jobs.
    pub fn finish(&mut self, jobs: &[Job]) {
        match self.kind {
            Kind::Rq | Kind::RqAckLease => {
                let mut ack = cmd("RQ.ACK");
                ack.arg("q");
                for job in jobs {
                    ack.arg(&job.id).arg(job.token);
                }
                self.run(&ack);
            }
            Kind::List => {
                let mut all = pipe();
                for job in jobs {
                    // The oldest one is at the tail.
                    all.cmd("LREM").arg("l:busy").arg(-1).arg(&job.payload).ignore();
                }
                let fields: Vec<&str> = jobs.iter().map(|job| number_text(&job.payload)).collect();
                all.cmd("HDEL").arg("l:leases").arg(fields).ignore();
                all.exec(&mut self.con).expect("LREM, HDEL");
            }
            Kind::Stream => {
                let ids: Vec<&str> = jobs.iter().map(|job| job.id.as_str()).collect();
                let mut all = pipe();
                all.cmd("XACK").arg("s").arg("g").arg(&ids).ignore().cmd("XDEL").arg("s").arg(&ids).ignore();
                all.exec(&mut self.con).expect("XACK, XDEL");
            }
            Kind::StreamAckDel => {
                let ids: Vec<&str> = jobs.iter().map(|job| job.id.as_str()).collect();
                self.run(cmd("XACKDEL").arg(&["s", "g", "IDS"]).arg(ids.len()).arg(ids));
            }
            Kind::BullMq => unreachable!("driven by node"),
        }
    }

    /// Finishes jobs and takes the next ones.
    pub fn next(&mut self, jobs: &[Job], n: usize, block: bool) -> Vec<Job> {
        let (Kind::RqAckLease, [job]) = (self.kind, jobs) else {
            self.finish(jobs);
            return self.take(n, block);
        };
        let mut next = cmd("RQ.ACKLEASE");
        next.arg("q").arg(&job.id).arg(job.token).arg(&self.name);
        if block {
            next.arg("BLOCK").arg(0);
        }
        let (code, jobs): (i64, Option<Vec<Leased>>) = self.query(&next);
        assert_eq!(code, 1, "acknowledged");
        leased(jobs)
    }

    fn run(&mut self, command: &redis::Cmd) {
        command.exec(&mut self.con).expect("a command that works");
    }

    fn query<T: FromRedisValue>(&mut self, command: &redis::Cmd) -> T {
        command.query(&mut self.con).expect("a command that works")
    }
}

fn leased(jobs: Option<Vec<Leased>>) -> Vec<Job> {
    jobs.into_iter().flatten().map(|(id, token, _, payload, _)| Job { id, token, payload }).collect()
}
