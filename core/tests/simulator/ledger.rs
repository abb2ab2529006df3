//! What must be true of a queue, kept beside it by what the contract says of each reply. It knows
//! nothing of the core; and it is kept for every position of the timeline, so that what a crash or
//! a failover has lost can be told from what must still be there.

use std::collections::{BTreeMap, BTreeSet};

use super::call::{Dedup, Id, JobOptions, Side, KEYS};
use super::node::Ended;
use super::rules::Rules;

pub type Verdict<T = ()> = Result<T, String>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Waiting,
    Leased,
    Dead(&'static str),
    Done,
    Gone,
}

/// The verbs that spend a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    Ack,
    Nack,
    Release,
}

/// What the last token of a job is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// There is none, or a redrive has voided it.
    None,
    /// Not settled; late if the job is not leased any more.
    Open,
    /// Settled, with this code.
    Spent(Verb, i64),
}

#[derive(Debug, Clone, Copy)]
pub struct Job {
    pub payload: u32,
    pub options: JobOptions,
    pub slot: Option<(u8, u64)>,
    pub state: State,
    /// When it became ready, or will, if nothing has moved it.
    pub place: u64,
    /// Never leased and never moved: so its place is known.
    pub fresh: bool,
    /// Known to be ready.
    pub ready: bool,
    /// The bounds of its due time, if it waits for a retry or delayed.
    pub due: (u64, u64),
    pub ttl_at: u64,
    pub claim: Claim,
    pub token: u64,
    pub consumer: u8,
    pub lease: u64,
    pub deadline: u64,
    pub delivered_at: u64,
    /// Ever handed to a worker.
    pub delivered: bool,
    pub deliveries: u64,
    pub failures: u64,
    pub expiries: u64,
    /// Over all budgets.
    pub all_failures: u64,
    pub all_expiries: u64,
    pub ended_at: u64,
}

/// A schedule as it is on this timeline.
#[derive(Debug, Clone, Default)]
pub struct Schedule {
    pub phase: u64,
    pub made: u64,
    pub on: bool,
    pub slots: BTreeSet<u64>,
}

#[derive(Debug, Clone)]
pub struct Ledger {
    pub rules: Rules,
    pub jobs: BTreeMap<Id, Job>,
    pub last_token: u64,
    /// The latest time of a step: what was due then is ready, also if the clock was set back since.
    pub newest: u64,
    pub longest_lease: u64,
    /// The keys with a window: its end and whose it is.
    pub windows: BTreeMap<u8, (u64, Id)>,
    /// What is held behind the job of a key.
    pub held: BTreeMap<u8, Held>,
    /// What was held and must be a job by now.
    pub released: BTreeMap<u8, Held>,
    pub schedules: BTreeMap<u8, Schedule>,
    pub pauses: BTreeMap<Side, u64>,
    /// The grants that count for RATE, of the queue and of each group.
    pub grants: BTreeMap<Option<u8>, Vec<u64>>,
    /// What ended in this step.
    pub ended: Vec<(Id, Ended)>,
    /// Pushes of this step that a reply told of.
    pub pushed: usize,
    /// What retention dropped in this step, as it was before.
    pub dropped: BTreeMap<Id, Job>,
    /// Done jobs that TRIM removed in this step.
    pub trimmed: u64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Held {
    pub payload: u32,
    pub options: JobOptions,
    /// When it is due, if it was pushed with a delay.
    pub due: Option<u64>,
}

pub fn broken<T>(what: impl Into<String>) -> Verdict<T> {
    Err(what.into())
}

/// `Err` unless it is true.
pub fn rule(holds: bool, what: impl FnOnce() -> String) -> Verdict {
    if holds { Ok(()) } else { Err(what()) }
}

impl Ledger {
    pub fn new(rules: Rules) -> Ledger {
        Ledger {
            rules,
            jobs: BTreeMap::new(),
            last_token: 0,
            newest: 0,
            longest_lease: 0,
            windows: BTreeMap::new(),
            held: BTreeMap::new(),
            released: BTreeMap::new(),
            schedules: BTreeMap::new(),
            pauses: BTreeMap::new(),
            grants: BTreeMap::new(),
            ended: Vec::new(),
            pushed: 0,
            dropped: BTreeMap::new(),
            trimmed: 0,
        }
    }

    pub fn live(&self) -> impl Iterator<Item = (&Id, &Job)> {
        self.jobs.iter().filter(|(_, job)| matches!(job.state, State::Waiting | State::Leased))
    }

    pub fn leased(&self) -> impl Iterator<Item = (&Id, &Job)> {
        self.jobs.iter().filter(|(_, job)| job.state == State::Leased)
    }

    /// The job, unless it is gone.
    pub fn job(&mut self, id: Id) -> Option<&mut Job> {
        self.jobs.get_mut(&id).filter(|job| job.state != State::Gone)
    }

    /// Retention dropped it in this step, which may have been before the request or after it.
    pub fn just_dropped(&self, id: Id) -> bool {
        self.dropped.contains_key(&id)
    }

    pub fn max_deliveries(&self, job: &Job) -> u64 {
        job.options.max_deliveries.unwrap_or(self.rules.max_deliveries)
    }

    /// The live job that has a key without a window.
    pub fn owner(&self, key: u8) -> Option<Id> {
        self.live().find(|(_, job)| job.options.key == Some(key)).map(|(id, _)| *id)
    }

    pub fn paused(&self, side: Side) -> bool {
        self.pauses.contains_key(&side)
    }

    /// Begins a step.
    pub fn begin(&mut self) {
        self.ended.clear();
        self.pushed = 0;
        self.dropped.clear();
        self.trimmed = 0;
    }

    fn gone_by(&self, job: &Job, now: u64) -> bool {
        job.deadline <= now || job.deadline > now + self.longest_lease
    }

    /// The leases that are over at a time.
    pub fn expired(&self, now: u64) -> Vec<Id> {
        self.leased().filter(|(_, job)| self.gone_by(job, now)).map(|(id, _)| *id).collect()
    }

    /// How much time alone has to do.
    pub fn backlog(&self, now: u64) -> usize {
        let waits = |job: &Job| job.state == State::Waiting && (job.ttl_at > 0 && job.ttl_at <= now || !job.ready && job.due.0 <= now);
        self.expired(now).len() * 3 + self.jobs.values().filter(|job| waits(job)).count() * 2
    }

    /// What time alone does; `leases` if also expired leases end.
    pub fn due(&mut self, now: u64, leases: bool) {
        self.newest = self.newest.max(now);
        if leases {
            for id in self.expired(now) {
                self.expire(id, now);
            }
        }
        for job in self.jobs.values_mut().filter(|job| job.state == State::Waiting && job.due.1 <= now) {
            job.ready = true;
        }
        let over: Vec<Id> = self.jobs.iter().filter(|(_, job)| {
            job.state == State::Waiting && job.ttl_at > 0 && job.ttl_at <= now
        }).map(|(id, _)| *id).collect();
        for id in over {
            self.bury(id, "ttl", now);
        }
        self.windows.retain(|_, (until, _)| *until > now);
        self.pauses.retain(|_, until| *until > now);
    }

    /// A lease ends by itself, and counts as an expiry.
    pub fn expire(&mut self, id: Id, now: u64) {
        let rules = self.rules.clone();
        let Some(job) = self.jobs.get(&id).copied() else { return };
        let most = self.max_deliveries(&job);
        let Some(job) = self.job(id) else { return };
        job.expiries += 1;
        job.all_expiries += 1;
        if (most > 0 && job.deliveries >= most) || (rules.max_expiries > 0 && job.expiries >= rules.max_expiries) {
            return self.bury(id, "expired-lease", now);
        }
        let (least, longest) = if rules.expiry_backoff { rules.backoff(job.expiries) } else { (0, 0) };
        job.waits(now, (now + least, now + longest));
    }

    /// A job goes to dead.
    pub fn bury(&mut self, id: Id, reason: &'static str, now: u64) {
        self.end(id, State::Dead(reason), Ended::Dead, now);
    }

    /// A job ends: its key is free, and what is held behind it is a job from now on.
    pub fn end(&mut self, id: Id, state: State, how: Ended, now: u64) {
        let Some(job) = self.job(id) else { return };
        let was_live = matches!(job.state, State::Waiting | State::Leased);
        job.state = state;
        job.ended_at = now;
        job.ready = false;
        let key = job.options.key;
        self.ended.push((id, how));
        let Some(key) = key else { return };
        if how == Ended::Gone && self.windows.get(&key).is_some_and(|(_, owner)| *owner == id) {
            self.windows.remove(&key);
        }
        if was_live && !matches!(KEYS[usize::from(key)], Dedup::Window(_)) {
            if let Some(held) = self.held.remove(&key) {
                self.released.insert(key, held);
            }
        }
    }

    pub fn add(&mut self, id: Id, job: Job) -> Verdict {
        self.pushed += 1;
        if let Some(key) = job.options.key.filter(|key| !matches!(KEYS[usize::from(*key)], Dedup::Window(_))) {
            rule(self.owner(key).is_none(), || format!("{id:?} is pushed with k{key}, which {:?} has", self.owner(key)))?;
        }
        let newest = self.jobs.keys().next_back().copied().unwrap_or_default();
        rule(id > newest, || format!("{id:?} is no higher than {newest:?}"))?;
        self.jobs.insert(id, job);
        Ok(())
    }

    /// Leases that count against a limit.
    pub fn leased_of(&self, group: Option<u8>) -> u64 {
        self.leased().filter(|(_, job)| group.is_none() || job.options.group == group).count() as u64
    }
}

impl Job {
    pub fn new(payload: u32, options: JobOptions, place: u64, delayed: bool) -> Job {
        Job {
            payload,
            options,
            slot: None,
            state: State::Waiting,
            place,
            fresh: true,
            ready: !delayed,
            due: (place, place),
            ttl_at: if options.ttl > 0 { place + options.ttl } else { 0 },
            claim: Claim::None,
            token: 0,
            consumer: 0,
            lease: 0,
            deadline: 0,
            delivered_at: 0,
            delivered: false,
            deliveries: 0,
            failures: 0,
            expiries: 0,
            all_failures: 0,
            all_expiries: 0,
            ended_at: 0,
        }
    }

    /// It waits again, until some time within bounds.
    pub fn waits(&mut self, now: u64, due: (u64, u64)) {
        self.state = State::Waiting;
        self.due = due;
        self.ready = due.1 <= now;
        self.fresh = false;
    }
}
