//! A job and the policy of a queue, as the reference knows them.

use super::op::{Id, Jitter, Setting, State};

/// The options of a queue.
#[derive(Debug, Clone, PartialEq)]
pub struct Policy {
    pub lease: u64,
    pub max_run: u64,
    pub max_deliveries: u64,
    pub max_expiries: u64,
    pub backoff: (u64, u64),
    pub jitter: Jitter,
    pub expiry_backoff: bool,
    /// How many, how many bytes, how many ms of done and of dead jobs are kept.
    pub keep_done: [Option<u64>; 3],
    pub keep_dead: [Option<u64>; 3],
    pub max_live: Option<u64>,
    pub max_live_bytes: Option<u64>,
    pub concurrency: Option<u64>,
    pub rate: Option<(u64, u64)>,
    pub group_limit: Option<u64>,
    pub group_rate: Option<(u64, u64)>,
    pub group_order: bool,
    /// 0: none.
    pub aging: u64,
}

impl Policy {
    pub fn set(&mut self, setting: Setting) {
        match setting {
            Setting::Lease(ms) => self.lease = ms,
            Setting::MaxRun(ms) => self.max_run = ms,
            Setting::MaxDeliveries(n) => self.max_deliveries = n,
            Setting::MaxExpiries(n) => self.max_expiries = n,
            Setting::Backoff(base, max) => self.backoff = (base, max),
            Setting::Jitter(jitter) => self.jitter = jitter,
            Setting::ExpiryBackoff(yes) => self.expiry_backoff = yes,
            Setting::Rate(rate) => self.rate = rate,
            Setting::GroupRate(rate) => self.group_rate = rate,
            Setting::GroupOrder(yes) => self.group_order = yes,
            Setting::Aging(ms) => self.aging = ms,
            Setting::Bound(name, bound) => match name {
                "KEEPDONE" => self.keep_done[0] = bound,
                "KEEPDONEBYTES" => self.keep_done[1] = bound,
                "KEEPDONEMS" => self.keep_done[2] = bound,
                "KEEPDEAD" => self.keep_dead[0] = bound,
                "KEEPDEADBYTES" => self.keep_dead[1] = bound,
                "KEEPDEADMS" => self.keep_dead[2] = bound,
                "MAXLIVE" => self.max_live = bound,
                "MAXLIVEBYTES" => self.max_live_bytes = bound,
                "CONCURRENCY" => self.concurrency = bound,
                "GROUPLIMIT" => self.group_limit = bound,
                other => unreachable!("{other}"),
            },
        }
    }

    /// The shortest and the longest wait after failure number n. They are equal without jitter.
    pub fn wait(&self, n: u64) -> (u64, u64) {
        let (base, max) = self.backoff;
        let mut wait = base;
        for _ in 1..n {
            wait = wait.saturating_mul(2);
            if wait >= max {
                break;
            }
        }
        let wait = wait.min(max);
        match self.jitter {
            Jitter::None => (wait, wait),
            Jitter::Full => (wait.min(1), wait),
            Jitter::Equal => ((wait / 2 + 1).min(wait), wait),
        }
    }
}

/// What the token of a job's last delivery is still good for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Token {
    /// Nothing: never delivered, or void since a redrive.
    Void,
    /// The job is leased under it.
    Live,
    /// The lease expired, and nobody else got the job.
    Late,
    /// Spent by this verb, which said that.
    Spent(&'static str, i64),
}

#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    pub id: Id,
    pub payload: Vec<u8>,
    pub priority: i8,
    pub own_lease: Option<u64>,
    pub own_max_deliveries: Option<u64>,
    pub ttl: Option<u64>,
    pub group: Option<Vec<u8>>,
    /// The schedule that made it, and for which slot.
    pub slot: Option<(Vec<u8>, u64)>,
    /// Its dedup key, and the window of that or 0.
    pub dedup: Option<(Vec<u8>, u64)>,
    pub state: State,
    /// When it is or was due, which is its place among the ready ones.
    pub place: u64,
    /// The place it had before it was leased.
    pub old_place: u64,
    /// Since when it is ready.
    pub ready_since: u64,
    /// What TTL counts from.
    pub first_due: u64,
    /// The budget that REDRIVE renews.
    pub deliveries: u64,
    pub budget_failures: u64,
    pub budget_expiries: u64,
    /// Its whole life.
    pub total_deliveries: u64,
    pub failures: u64,
    pub expiries: u64,
    pub releases: u64,
    pub redrives: u64,
    pub token: u64,
    pub token_is: Token,
    pub consumer: Option<Vec<u8>>,
    pub lease_ms: u64,
    pub deadline: u64,
    pub first_delivered: Option<u64>,
    pub last_delivered: Option<u64>,
    pub dead_at: u64,
    pub done_at: u64,
    pub result: Vec<u8>,
    pub reason: Option<&'static str>,
    pub error: Vec<u8>,
    /// The due time was drawn at random from this range; it has to be asked for.
    pub drawn: Option<(u64, u64)>,
}

impl Job {
    /// Since when it is dead or done.
    pub fn ended_at(&self) -> u64 {
        if self.state == State::Done { self.done_at } else { self.dead_at }
    }

    /// The bytes that bounds count.
    pub fn bytes(&self) -> u64 {
        (self.payload.len() + self.result.len()) as u64
    }

    pub fn waits(&self) -> bool {
        matches!(self.state, State::Ready | State::Delayed)
    }

    pub fn ttl_end(&self) -> Option<u64> {
        self.ttl.map(|ttl| self.first_due + ttl)
    }

    pub fn max_deliveries(&self, policy: &Policy) -> u64 {
        self.own_max_deliveries.unwrap_or(policy.max_deliveries)
    }

    pub fn deliveries_are_spent(&self, policy: &Policy) -> bool {
        let max = self.max_deliveries(policy);
        max > 0 && self.deliveries >= max
    }

    /// Whether it holds the turn of its group while it waits, where jobs of a group go in order: a
    /// worker has had it. A redriven job is a new one.
    pub fn was_had(&self) -> bool {
        self.token_is != Token::Void
    }

    /// Whether `token` is that of its last delivery, and what that is good for.
    pub fn standing(&self, token: u64) -> Token {
        if token == self.token { self.token_is } else { Token::Void }
    }
}
