//! What was sent and what was replied, job by job. A job is known by its payload, which no two
//! pushes share.

use std::collections::{HashMap, VecDeque};
use std::fmt::{Display, Formatter};
use std::ops::AddAssign;

use crate::harness::{Fields, Job};
use crate::world::now;

/// When something happened: between these two moments.
#[derive(Clone, Copy, Debug)]
pub struct When {
    pub sent: i64,
    pub told: i64,
    /// A replica was told to have it, before anything else.
    pub safe: bool,
}

impl When {
    pub fn since(sent: i64) -> When {
        When { sent, told: now(), safe: false }
    }
}

/// What a PUSH has said of its job.
#[derive(Clone, Copy, Debug)]
pub enum Stored {
    /// No answer, or none yet.
    Unknown,
    Yes(When),
    /// Refused, or a duplicate that was dropped.
    No,
    /// It replaced another, or is held: it may come, or be replaced in its turn.
    Perhaps,
}

/// What a worker was given.
#[derive(Clone, Debug)]
pub struct Lease {
    pub token: i64,
    /// By its token: the server's time.
    pub granted: i64,
    /// The server keeps it at least until then.
    pub until: i64,
    /// The last that made `until`.
    pub touched: When,
    /// When the worker first tried to end it.
    pub ended: Option<i64>,
    /// For whoever reads a finding.
    #[allow(dead_code)]
    pub worker: String,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Code {
    Finished,
    NotYours,
    Gone,
    Unknown,
}

#[derive(Clone, Copy, Debug)]
pub struct Ack {
    pub token: i64,
    pub code: Code,
    pub when: When,
}

#[derive(Clone, Debug)]
pub struct Facts {
    pub queue: &'static str,
    pub group: Option<String>,
    pub stored: Stored,
    /// It may have been removed or replaced by a producer.
    pub optional: bool,
    pub leases: Vec<Lease>,
    pub acks: Vec<Ack>,
}

/// A time in which what was done may have been lost with its server.
#[derive(Clone, Copy, Debug)]
pub struct Doubt {
    pub from: i64,
    pub to: i64,
    /// What a replica has outlives it.
    pub failover: bool,
}

#[derive(Default)]
pub struct Ledger {
    pub jobs: HashMap<String, Facts>,
    pub doubts: Vec<Doubt>,
    pub findings: Vec<String>,
    /// The last faults.
    pub faults: VecDeque<String>,
    /// FLUSHALLs so far. Payloads begin with it: what is late for its ledger is known.
    pub era: u64,
    /// Over all eras.
    pub totals: Totals,
}

/// How much was done. What was lost, or doubled under a live lease, is a finding and ends the run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    pub pushed: u64,
    pub delivered: u64,
    pub redelivered: u64,
    pub acknowledged: u64,
    /// By the queues' own count.
    pub dead: u64,
}

impl Totals {
    /// What a queue says of its dead at the end of an era.
    pub fn died(&mut self, info: &Fields) {
        self.dead += u64::try_from(info.int("dead-total")).expect("a count");
    }
}

impl AddAssign for Totals {
    fn add_assign(&mut self, more: Totals) {
        self.pushed += more.pushed;
        self.delivered += more.delivered;
        self.redelivered += more.redelivered;
        self.acknowledged += more.acknowledged;
        self.dead += more.dead;
    }
}

impl Display for Totals {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        let Totals { pushed, delivered, redelivered, acknowledged, dead } = self;
        write!(f, "{pushed} pushed, {delivered} delivered, {redelivered} of them again, {acknowledged} acknowledged, {dead} dead")
    }
}

impl Ledger {
    pub fn finding(&mut self, text: String) {
        self.findings.push(text);
    }

    pub fn fault(&mut self, text: String) {
        self.faults.push_back(format!("{} {text}", now()));
        if self.faults.len() > 30 {
            self.faults.pop_front();
        }
    }

    /// All begins anew.
    pub fn forget(&mut self) {
        self.jobs.clear();
        self.era += 1;
    }

    /// Before it is sent: a worker may have the job before its producer has the reply.
    pub fn pushing(&mut self, payload: &str, queue: &'static str, group: Option<String>, optional: bool) {
        let facts = Facts { queue, group, stored: Stored::Unknown, optional, leases: Vec::new(), acks: Vec::new() };
        if self.jobs.insert(payload.to_owned(), facts).is_some() {
            panic!("{payload} was pushed twice");
        }
        self.totals.pushed += 1;
    }

    /// None: of another era.
    pub fn job(&mut self, payload: &str) -> Option<&mut Facts> {
        self.jobs.get_mut(payload)
    }

    pub fn stored(&mut self, payload: &str, stored: Stored) {
        if let Some(job) = self.job(payload) {
            job.stored = stored;
        }
    }

    pub fn delivered(&mut self, job: &Job, worker: &str, sent: i64, most: i64) {
        let payload = job.text();
        if job.deliveries > most {
            self.finding(format!("{payload} {job}: delivery {} of {most}", job.deliveries));
        }
        self.totals.delivered += 1;
        self.totals.redelivered += u64::from(job.deliveries > 1);
        let granted = job.token / 1000;
        let lease = Lease {
            token: job.token,
            granted,
            until: granted + job.lease_ms,
            touched: When::since(sent),
            ended: None,
            worker: worker.to_owned(),
        };
        let era = format!("{}.", self.era);
        match self.job(&payload) {
            Some(facts) => facts.leases.push(lease),
            None if payload.starts_with(&era) => self.finding(format!("{payload} {job}: nobody pushed it")),
            None => {}
        }
    }

    /// The worker is about to give it up, in whatever way.
    pub fn ending(&mut self, payload: &str, token: i64) {
        let lease = self.job(payload).and_then(|job| job.leases.iter_mut().find(|lease| lease.token == token));
        if let Some(lease) = lease {
            lease.ended.get_or_insert(now());
        }
    }

    pub fn extended(&mut self, payload: &str, token: i64, sent: i64, ms: i64) {
        let lease = self.job(payload).and_then(|job| job.leases.iter_mut().find(|lease| lease.token == token));
        if let Some(lease) = lease {
            // Late, it leases the job again, and others may have had their turn meanwhile.
            if sent > lease.until {
                lease.granted = sent;
            }
            // It may also have become shorter.
            lease.until = sent + ms;
            lease.touched = When::since(sent);
        }
    }

    /// Before it is sent: others may find the job gone before the worker has the reply.
    pub fn acking(&mut self, payload: &str, token: i64) {
        if let Some(job) = self.job(payload) {
            job.acks.push(Ack { token, code: Code::Unknown, when: When::since(now()) });
        }
    }

    /// The answer to the last one with this token.
    pub fn acked(&mut self, payload: &str, token: i64, code: Code, when: When) {
        if code == Code::Finished {
            self.totals.acknowledged += 1;
        }
        if let Some(ack) = self.last_ack(payload, token) {
            *ack = Ack { token, code, when };
        }
    }

    /// A replica has it too.
    pub fn is_safe(&mut self, payload: &str, token: i64) {
        if let Some(ack) = self.last_ack(payload, token) {
            ack.when.safe = true;
        }
    }

    /// It was refused, or its answer says nothing.
    pub fn not_acked(&mut self, payload: &str, token: i64) {
        if let Some(job) = self.job(payload) {
            let last = job.acks.iter().rposition(|ack| ack.token == token);
            last.map(|at| job.acks.remove(at));
        }
    }

    fn last_ack(&mut self, payload: &str, token: i64) -> Option<&mut Ack> {
        self.job(payload)?.acks.iter_mut().rfind(|ack| ack.token == token)
    }
}
