//! Producers and workers, good and bad ones.

use std::collections::VecDeque;

use crate::harness::{jobs, Job, Reply};
use crate::ledger::{Code, Stored, When};
use crate::world::{now, sleep, Answer, Chance, Conn, World};

/// Jobs of a group in this one at a time.
pub const ORDERED: &str = "{q}ordered";
/// Few at once.
pub const NARROW: &str = "{q}narrow";
/// All in one slot of a cluster.
pub const QUEUES: [&str; 3] = ["{q}plain", ORDERED, NARROW];
pub const MAXDELIVERIES: i64 = 6;

pub struct Producer<'a> {
    world: &'a World,
    conn: Conn,
    chance: Chance,
    name: u64,
    pushed: u64,
    /// (queue, id, payload) of what may be cancelled.
    known: VecDeque<(&'static str, String, String)>,
}

impl<'a> Producer<'a> {
    pub fn new(world: &'a World, seed: u64, name: u64) -> Producer<'a> {
        let conn = Conn::new(40);
        Producer { world, conn, chance: Chance::new(seed, 100 + name), name, pushed: 0, known: VecDeque::new() }
    }

    pub fn run(&mut self) {
        while !self.world.stopped() {
            let world = self.world;
            {
                let _inside = world.gate.read().expect("the gate");
                match self.chance.below(12) {
                    0 => self.push_many(),
                    1 => self.push_again(),
                    2 => self.push_edit(),
                    3 => self.cancel(),
                    _ => self.push(),
                }
            }
            sleep(self.chance.below(6));
        }
    }

    /// A payload that was never used, and it is in the ledger.
    fn payload(&mut self, queue: &'static str, group: Option<&str>, optional: bool) -> String {
        self.pushed += 1;
        let mut ledger = self.world.ledger();
        let payload = format!("{}.{}.{}", ledger.era, self.name, self.pushed);
        ledger.pushing(&payload, queue, group.map(str::to_owned), optional);
        payload
    }

    fn options(&mut self) -> (String, Option<String>) {
        let mut text = String::new();
        if self.chance.one_in(4) {
            text += &format!(" DELAY {}", self.chance.below(200));
        }
        if self.chance.one_in(4) {
            text += &format!(" PRIORITY {}", self.chance.below(3));
        }
        if self.chance.one_in(10) {
            text += " TTL 300";
        }
        let group = (!self.chance.one_in(3)).then(|| format!("g{}", self.chance.below(4)));
        if let Some(group) = &group {
            text += &format!(" GROUP {group}");
        }
        (text, group)
    }

    /// Whether a replica has what this connection wrote last.
    fn wait(&mut self) -> bool {
        self.chance.one_in(3)
            && matches!(self.conn.ask(self.world, &mut self.chance, "WAIT 1 500"), Answer::Reply(Reply::Int(1..)))
    }

    fn push(&mut self) {
        let queue = self.chance.of(&QUEUES);
        let (options, group) = self.options();
        let payload = self.payload(queue, group.as_deref(), false);
        let sent = now();
        match self.conn.ask(self.world, &mut self.chance, &format!("RQ.PUSH {queue} {payload}{options}")) {
            Answer::Reply(id) => {
                let mut when = When::since(sent);
                when.safe = self.wait();
                self.world.ledger().stored(&payload, Stored::Yes(when));
                self.known.push_back((queue, id.text().to_owned(), payload));
                if self.known.len() > 5 {
                    self.known.pop_front();
                }
            }
            Answer::Refused => self.world.ledger().stored(&payload, Stored::No),
            Answer::Unknown => {}
        }
    }

    /// All or nothing; some are duplicates of each other.
    fn push_many(&mut self) {
        let queue = self.chance.of(&QUEUES);
        let (options, group) = self.options();
        let n = self.chance.of(&[1, 2, 5, 20]);
        let payloads: Vec<String> = (0..n).map(|_| self.payload(queue, group.as_deref(), false)).collect();
        let mut line = format!("RQ.MPUSH {queue} {n} {}{options}", payloads.join(" "));
        let dedups = self.chance.one_in(3);
        if dedups {
            let keys: Vec<String> = (0..n).map(|i| format!("m{}.{}.{}", self.name, self.pushed, i / 2)).collect();
            line += &format!(" DEDUPS {}", keys.join(" "));
        }
        let sent = now();
        let answer = self.conn.ask(self.world, &mut self.chance, &line);
        let when = When::since(sent);
        let mut ledger = self.world.ledger();
        match answer {
            Answer::Reply(reply) => {
                for (payload, one) in payloads.iter().zip(reply.array()) {
                    let stored = !dedups || one.array()[1] == 1;
                    ledger.stored(payload, if stored { Stored::Yes(when) } else { Stored::No });
                }
            }
            Answer::Refused => payloads.iter().for_each(|payload| ledger.stored(payload, Stored::No)),
            Answer::Unknown => {}
        }
    }

    /// As the README has it: the same push again until there is a reply.
    fn push_again(&mut self) {
        let queue = self.chance.of(&QUEUES);
        let payload = self.payload(queue, None, false);
        let line = format!("RQ.PUSH {queue} {payload} DEDUP u{payload} WINDOW 600000");
        let mut unknown = false;
        for _ in 0..5 {
            let sent = now();
            match self.conn.ask(self.world, &mut self.chance, &line) {
                Answer::Reply(reply) => {
                    let code = reply.array()[1].int();
                    let mut ledger = self.world.ledger();
                    if code == 1 || (code == 0 && unknown) {
                        return ledger.stored(&payload, Stored::Yes(When::since(sent)));
                    }
                    return ledger.finding(format!("{line}: the first of its kind: {reply:?}"));
                }
                Answer::Refused => {}
                Answer::Unknown => unknown = true,
            }
        }
        if !unknown {
            self.world.ledger().stored(&payload, Stored::No);
        }
    }

    /// What replaces the one that waits, or is held behind the one at work.
    fn push_edit(&mut self) {
        let queue = self.chance.of(&QUEUES);
        let payload = self.payload(queue, None, true);
        let how = self.chance.of(&["REPLACE", "KEEPLAST", "REPLACE KEEPLAST", "REPLACE MAXWAIT 100"]);
        let line = format!("RQ.PUSH {queue} {payload} DEDUP e{} {how} DELAY {}", self.chance.below(3), self.chance.below(100));
        let sent = now();
        let answer = self.conn.ask(self.world, &mut self.chance, &line);
        let mut ledger = self.world.ledger();
        match answer {
            Answer::Reply(reply) => {
                let stored = match reply.array()[1].int() {
                    0 => Stored::No,
                    1 => Stored::Yes(When::since(sent)),
                    _ => Stored::Perhaps,
                };
                ledger.stored(&payload, stored);
            }
            Answer::Refused => ledger.stored(&payload, Stored::No),
            Answer::Unknown => {}
        }
    }

    fn cancel(&mut self) {
        let Some((queue, id, payload)) = self.known.pop_front() else { return };
        match self.world.ledger().job(&payload) {
            Some(job) => job.optional = true,
            // Another era: the id may be another job's.
            None => return,
        }
        self.conn.ask(self.world, &mut self.chance, &format!("RQ.DEL {queue} {id}"));
    }
}

pub struct Worker<'a> {
    world: &'a World,
    conn: Conn,
    chance: Chance,
    name: String,
}

impl<'a> Worker<'a> {
    pub fn new(world: &'a World, seed: u64, name: u64) -> Worker<'a> {
        let conn = Conn::new(30);
        Worker { world, conn, chance: Chance::new(seed, 200 + name), name: format!("w{name}") }
    }

    pub fn run(&mut self) {
        while !self.world.stopped() {
            let (options, sent) = (self.options(), now());
            if self.chance.one_in(4) {
                let line = format!("RQ.MLEASE 3 {} {} {options}", QUEUES.join(" "), self.name);
                if let Answer::Reply(reply) = self.conn.ask(self.world, &mut self.chance, &line) {
                    if !reply.is_null() {
                        let queue = reply.array()[0].text().to_owned();
                        self.work(&queue, self.take(&reply.array()[1], sent));
                    }
                }
            } else {
                let queue = self.chance.of(&QUEUES);
                let line = format!("RQ.LEASE {queue} {} {options}", self.name);
                if let Answer::Reply(reply) = self.conn.ask(self.world, &mut self.chance, &line) {
                    self.work(queue, self.take(&reply, sent));
                }
            }
        }
    }

    fn options(&mut self) -> String {
        let lease = self.chance.of(&[100, 300, 1000, 2000]);
        format!("COUNT {} LEASE {lease} BLOCK {}", self.chance.of(&[1, 1, 3, 10]), self.chance.of(&[1, 20, 100, 300]))
    }

    fn take(&self, reply: &Reply, sent: i64) -> Vec<Job> {
        let jobs = jobs(reply);
        let mut ledger = self.world.ledger();
        jobs.iter().for_each(|job| ledger.delivered(job, &self.name, sent, MAXDELIVERIES));
        jobs
    }

    fn work(&mut self, queue: &str, jobs: Vec<Job>) {
        let mut jobs = VecDeque::from(jobs);
        while let Some(job) = jobs.pop_front() {
            match self.chance.below(100) {
                0..50 => self.ack(queue, &job),
                50..62 => {
                    let (options, sent) = (self.options(), now());
                    if let Some(reply) = self.settle("ACKLEASE", queue, &job, &format!(" {} {options}", self.name), false) {
                        match &reply.array()[0] {
                            // Not inside the gate: its queue may be under another name just now.
                            code if *code == -1 => self.world.ledger().not_acked(&job.text(), job.token),
                            code => self.done(&job, code, sent),
                        }
                        jobs.extend(self.take(&reply.array()[1], sent));
                    }
                }
                62..74 => {
                    let how = self.chance.of(&["", " DELAY 0", " DELAY 50", " ERROR flaky", " DEAD ERROR boom"]);
                    self.settle("NACK", queue, &job, how, true);
                }
                74..82 => {
                    let how = self.chance.of(&["", " DELAY 20"]);
                    self.settle("RELEASE", queue, &job, how, true);
                }
                82..92 => {
                    self.extend(queue, &job);
                    sleep(self.chance.below(30));
                    self.ack(queue, &job);
                }
                // Hangs, and comes late.
                92..96 => {
                    sleep(job.lease_ms as u64 + self.chance.below(100));
                    self.ack(queue, &job);
                }
                // Dies.
                _ => self.conn = Conn::new(self.conn.resets),
            }
        }
    }

    /// Sends it; None: no answer, or refused.
    fn settle(&mut self, verb: &str, queue: &str, job: &Job, options: &str, gate: bool) -> Option<Reply> {
        let world = self.world;
        self.world.ledger().ending(&job.text(), job.token);
        if verb.starts_with("ACK") {
            self.world.ledger().acking(&job.text(), job.token);
        }
        let line = format!("RQ.{verb} {queue} {job}{options}");
        let inside = gate.then(|| world.gate.read().expect("the gate"));
        let answer = self.conn.ask(world, &mut self.chance, &line);
        drop(inside);
        match answer {
            Answer::Reply(reply) => Some(reply),
            answer => {
                // Who was UNBLOCKED while it waited for the next job has acknowledged the last.
                if verb == "ACK" && !matches!(answer, Answer::Unknown) {
                    world.ledger().not_acked(&job.text(), job.token);
                }
                None
            }
        }
    }

    /// Again if the reply was lost.
    fn ack(&mut self, queue: &str, job: &Job) {
        for _ in 0..3 {
            let sent = now();
            if let Some(reply) = self.settle("ACK", queue, job, "", true) {
                return self.done(job, &reply.array()[0], sent);
            }
        }
    }

    fn done(&mut self, job: &Job, code: &Reply, sent: i64) {
        let code = match code.int() {
            1 => Code::Finished,
            0 => Code::NotYours,
            _ => Code::Gone,
        };
        self.world.ledger().acked(&job.text(), job.token, code, When::since(sent));
        if self.chance.one_in(4) && matches!(self.conn.ask(self.world, &mut self.chance, "WAIT 1 500"), Answer::Reply(Reply::Int(1..))) {
            self.world.ledger().is_safe(&job.text(), job.token);
        }
    }

    fn extend(&mut self, queue: &str, job: &Job) {
        let (ms, sent) = (self.chance.of(&[50, 500, 2000]), now());
        let line = format!("RQ.EXTEND {queue} {job} LEASE {ms}");
        if let Answer::Reply(reply) = self.conn.ask(self.world, &mut self.chance, &line) {
            if reply.array()[0] == 1 {
                self.world.ledger().extended(&job.text(), job.token, sent, ms);
            }
        }
    }
}

/// A patient worker that takes all there is and finishes it, dead jobs as well.
pub fn drain(world: &World, seed: u64) {
    let mut worker = Worker::new(world, seed, 99);
    worker.conn.resets = 0;
    let deadline = std::time::Instant::now() + crate::harness::patience();
    loop {
        let mut left = 0;
        for queue in QUEUES {
            let mut ask = |line: &str| match worker.conn.ask(world, &mut worker.chance, line) {
                Answer::Reply(reply) => reply,
                _ => Reply::NullArray,
            };
            ask(&format!("RQ.REDRIVE {queue} COUNT 1000"));
            let sent = now();
            let reply = ask(&format!("RQ.LEASE {queue} drain COUNT 200 LEASE 60000 BLOCK 20"));
            for job in worker.take(&reply, sent) {
                worker.ack(queue, &job);
            }
            for state in ["", " DEAD"] {
                match worker.conn.ask(world, &mut worker.chance, &format!("RQ.LEN {queue}{state}")) {
                    Answer::Reply(Reply::Int(n)) => left += n,
                    _ => left += 1,
                }
            }
        }
        if left == 0 {
            return;
        }
        if std::time::Instant::now() > deadline {
            return world.ledger().finding(format!("{left} jobs could not be drained"));
        }
    }
}
