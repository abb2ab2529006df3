//! The reference: a list of jobs, searched from end to end, as plainly as the contract can be
//! written down. It knows nothing of how the real queue stores or orders anything.

use std::collections::BTreeMap;

use super::bounds::Barred;
use super::dedup::Key;
use super::groups::{Group, Row};
use super::job::{Job, Policy, Token};
use super::op::{Id, JobOptions, State};
use super::schedule::Schedule;

#[derive(Debug, Clone, Default, PartialEq)]
pub struct Totals {
    pub pushed: u64,
    pub delivered: u64,
    pub acked: u64,
    pub failed: u64,
    pub expired: u64,
    pub released: u64,
    pub dead: u64,
    pub redriven: u64,
    pub trimmed: u64,
    pub dead_dropped: u64,
    pub slots_skipped: u64,
    /// By DEL and PURGE; not shown anywhere.
    pub removed: u64,
    /// Of those acknowledged, the ones that stayed as done; not shown anywhere.
    pub kept: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Reference {
    pub policy: Policy,
    /// In the order of their ids.
    pub jobs: Vec<Job>,
    pub last_id: Id,
    pub last_token: u64,
    /// No lease was ever longer than this: what ends further ahead was granted by a clock that
    /// was wrong, and has expired.
    pub longest_lease: u64,
    pub totals: Totals,
    /// Out and in: the end, if there is one, and the reason.
    pub pauses: [Option<Pause>; 2],
    /// When leases were granted, as far as RATE needs it.
    pub grants: Vec<u64>,
    pub keys: Vec<Key>,
    /// The groups that are remembered, by name.
    pub groups: BTreeMap<Vec<u8>, Group>,
    /// Who takes turns, by priority.
    pub rows: BTreeMap<i8, Row>,
    pub schedules: BTreeMap<Vec<u8>, Schedule>,
    pub notes: Notes,
}

/// How a job ended.
#[derive(Debug, Clone, PartialEq, PartialOrd, Eq, Ord)]
pub enum End {
    /// With its result, if it is kept.
    Done(Option<Vec<u8>>),
    Dead,
    Gone,
}

/// What happened in one step: not part of the queue.
#[derive(Debug, Clone, Default)]
pub struct Notes {
    pub ended: Vec<(Id, End)>,
    /// Situations, to be counted.
    pub seen: Vec<&'static str>,
}

impl PartialEq for Notes {
    fn eq(&self, _: &Notes) -> bool {
        true
    }
}

/// A pause: its end, if it has one, and its reason.
pub type Pause = (Option<u64>, Vec<u8>);

impl Reference {
    pub fn new(policy: Policy) -> Reference {
        Reference {
            policy,
            jobs: Vec::new(),
            last_id: (0, 0),
            last_token: 0,
            longest_lease: 0,
            totals: Totals::default(),
            pauses: [None, None],
            grants: Vec::new(),
            keys: Vec::new(),
            groups: BTreeMap::new(),
            rows: BTreeMap::new(),
            schedules: BTreeMap::new(),
            notes: Notes::default(),
        }
    }

    pub fn job(&mut self, id: Id) -> Option<&mut Job> {
        self.jobs.iter_mut().find(|job| job.id == id)
    }

    pub fn remove(&mut self, id: Id) {
        self.jobs.retain(|job| job.id != id);
        self.forget_groups();
    }

    /// Jobs of one state in that state's own order.
    pub fn listed(&self, state: State) -> Vec<&Job> {
        let mut jobs: Vec<&Job> = self.jobs.iter().filter(|job| job.state == state).collect();
        match state {
            State::Ready => jobs.sort_by_key(|job| (-i64::from(job.priority), job.place, job.id)),
            State::Delayed => jobs.sort_by_key(|job| (job.place, job.id)),
            State::Leased => jobs.sort_by_key(|job| (job.deadline, job.id)),
            State::Dead => jobs.sort_by_key(|job| (job.dead_at, job.id)),
            State::Done => jobs.sort_by_key(|job| (job.done_at, job.id)),
        }
        jobs
    }

    pub fn count(&self, state: State) -> usize {
        self.jobs.iter().filter(|job| job.state == state).count()
    }

    pub fn live(&self) -> usize {
        self.jobs.iter().filter(|job| !matches!(job.state, State::Dead | State::Done)).count()
    }

    /// Whether a lease is over.
    pub fn expired(&self, job: &Job, now: u64) -> bool {
        job.state == State::Leased && (job.deadline <= now || job.deadline > now + self.longest_lease)
    }

    /// When time alone changes something, from now on.
    pub fn next_event(&self, now: u64) -> Option<u64> {
        let event = |job: &Job| match job.state {
            State::Leased if self.expired(job, now) => Some(now),
            State::Leased => Some(job.deadline),
            State::Delayed => Some(job.place.min(job.ttl_end().unwrap_or(u64::MAX))),
            State::Ready => job.ttl_end(),
            State::Dead | State::Done => None,
        };
        let jobs = self.jobs.iter().filter_map(event);
        let groups = self.groups.values().filter_map(|group| group.pause.as_ref());
        let pauses = self.pauses.iter().flatten().chain(groups).filter_map(|(until, _)| *until);
        let retention = [State::Done, State::Dead].into_iter().filter_map(|state| self.retention_at(state, now));
        let reopens = match self.barred(now) {
            Some(Barred::RateUntil(at)) if self.count(State::Ready) > 0 => Some(at),
            _ => None,
        };
        let windows = self.keys.iter().filter(|key| key.held.is_none() && key.until > 0).map(|key| key.until);
        let slots = self.schedules.values().filter_map(|schedule| schedule.next);
        let forgotten = self.groups.keys().filter_map(|name| self.forgotten_at(name));
        jobs.chain(windows).chain(pauses).chain(retention).chain(reopens).chain(slots).chain(forgotten).min().map(|at| at.max(now))
    }

    /// What time alone changes; `expiry` false: leases do not end.
    pub fn due(&mut self, now: u64, expiry: bool) {
        // In the order of the times that are over: what is held behind those that end gets its id
        // by that.
        if expiry {
            let mut over: Vec<(u64, Id)> = self.jobs.iter().filter(|job| self.expired(job, now)).map(|job| (job.deadline, job.id)).collect();
            // Those of a clock that was wrong come last, the furthest first.
            over.sort_by_key(|(deadline, id)| (*deadline > now, *deadline, *id));
            let far = over.iter().position(|(deadline, _)| *deadline > now).unwrap_or(over.len());
            over[far..].reverse();
            for (_, id) in over {
                let n = self.find(id).unwrap();
                self.expire(n, now);
            }
        }
        let due: Vec<Id> = self.listed(State::Delayed).iter().filter(|job| job.place <= now).map(|job| job.id).collect();
        for id in due {
            let n = self.find(id).unwrap();
            self.make_ready(n, self.jobs[n].place);
        }
        let late = |job: &Job| job.ttl_end().filter(|end| job.waits() && *end <= now).map(|end| (end, job.id));
        let mut late: Vec<(u64, Id)> = self.jobs.iter().filter_map(late).collect();
        late.sort_unstable();
        for (_, id) in late {
            let n = self.find(id).unwrap();
            self.bury(n, now, "ttl");
        }
        self.keys.retain(|key| key.held.is_some() || key.until == 0 || key.until > now);
        for pause in self.pauses.iter_mut().chain(self.groups.values_mut().map(|group| &mut group.pause)) {
            pause.take_if(|(until, _)| until.is_some_and(|until| until <= now));
        }
        self.retain(now);
        self.forget_idle_groups(now);
    }

    pub fn bury(&mut self, n: usize, now: u64, reason: &'static str) {
        self.totals.dead += 1;
        let job = &mut self.jobs[n];
        job.state = State::Dead;
        job.dead_at = now;
        job.reason = Some(reason);
        let id = job.id;
        self.notes.ended.push((id, End::Dead));
        self.settle_turns();
        self.ended(now, id, false);
    }

    /// Lets a job wait until `due`, or makes it ready if that is not ahead.
    pub fn wait(&mut self, n: usize, now: u64, due: u64) {
        let job = &mut self.jobs[n];
        job.drawn = None;
        if due <= now {
            return self.make_ready(n, due);
        }
        job.place = due;
        job.ready_since = due;
        job.state = State::Delayed;
        self.settle_turns();
    }

    /// Ready since `at`, which is its place; where jobs of a group go in order, one that a worker
    /// has had goes to the place it had then.
    fn make_ready(&mut self, n: usize, at: u64) {
        let ordered = self.policy.group_order;
        let job = &mut self.jobs[n];
        job.state = State::Ready;
        job.place = if ordered && job.group.is_some() && job.was_had() { job.old_place } else { at };
        job.ready_since = at.max(job.place);
        self.settle_turns();
    }

    pub fn back_off(&mut self, n: usize, now: u64, attempt: u64) {
        let (low, high) = self.policy.wait(attempt);
        self.wait(n, now, now + high);
        if low != high {
            self.jobs[n].drawn = Some((now + low, now + high));
        }
    }

    /// Ready again at the place it had before it was leased.
    pub fn put_back(&mut self, n: usize, now: u64) {
        let job = &mut self.jobs[n];
        job.state = State::Ready;
        job.place = job.old_place;
        job.ready_since = now.max(job.place);
        job.drawn = None;
        self.settle_turns();
    }

    pub fn expire(&mut self, n: usize, now: u64) {
        self.totals.expired += 1;
        let policy = self.policy.clone();
        let job = &mut self.jobs[n];
        job.token_is = Token::Late;
        job.expiries += 1;
        job.budget_expiries += 1;
        let too_often = policy.max_expiries > 0 && job.budget_expiries >= policy.max_expiries;
        if job.deliveries_are_spent(&policy) || too_often {
            self.bury(n, now, "expired-lease");
        } else if policy.expiry_backoff && policy.backoff.0 > 0 {
            let attempt = job.budget_expiries;
            self.back_off(n, now, attempt);
        } else {
            self.put_back(n, now);
        }
    }

    pub fn find(&self, id: Id) -> Option<usize> {
        self.jobs.iter().position(|job| job.id == id)
    }

    pub fn push(&mut self, now: u64, payload: Vec<u8>, due: u64, options: &JobOptions) -> Id {
        let id = if now > self.last_id.0 { (now, 0) } else { (self.last_id.0, self.last_id.1 + 1) };
        self.last_id = id;
        self.totals.pushed += 1;
        // What is ready at once is placed by its id, so that pushes keep their order even if the
        // clock steps back.
        let delayed = due > now;
        let due = if delayed { due } else { id.0 };
        self.jobs.push(Job {
            id,
            payload,
            priority: options.priority.unwrap_or(0),
            own_lease: options.lease,
            own_max_deliveries: options.max_deliveries,
            ttl: options.ttl,
            group: options.group.clone(),
            slot: None,
            dedup: None,
            state: if delayed { State::Delayed } else { State::Ready },
            place: due,
            old_place: due,
            ready_since: due,
            first_due: due,
            deliveries: 0,
            budget_failures: 0,
            budget_expiries: 0,
            total_deliveries: 0,
            failures: 0,
            expiries: 0,
            releases: 0,
            redrives: 0,
            token: 0,
            token_is: Token::Void,
            consumer: None,
            lease_ms: 0,
            deadline: 0,
            first_delivered: None,
            last_delivered: None,
            dead_at: 0,
            done_at: 0,
            result: Vec::new(),
            reason: None,
            error: Vec::new(),
            drawn: None,
        });
        if let Some(group) = &options.group {
            self.groups.entry(group.clone()).or_default();
        }
        self.settle_turns();
        id
    }

    /// Leases the job whose turn it is, if the size of its payload fits.
    pub fn lease(&mut self, now: u64, consumer: &[u8], lease: Option<u64>, fits: impl Fn(u64) -> bool) -> Option<Job> {
        let n = loop {
            if self.barred(now).is_some() {
                return None;
            }
            let n = self.next_job(now)?;
            // One whose time to live is over is not delivered, also when no tick has come.
            if self.jobs[n].ttl_end().is_none_or(|end| end > now) {
                break n;
            }
            self.bury(n, now, "ttl");
        };
        if !fits(self.jobs[n].payload.len() as u64) {
            return None;
        }
        self.note_choice(n, now);
        grant(&mut self.grants, self.policy.rate, now);
        if let Some(group) = self.jobs[n].group.as_ref().and_then(|name| self.groups.get_mut(name)) {
            grant(&mut group.grants, self.policy.group_rate, now);
        }
        self.last_token = (self.last_token + 1).max(now * 1_000);
        self.totals.delivered += 1;
        let job = &mut self.jobs[n];
        job.state = State::Leased;
        job.old_place = job.place;
        job.token = self.last_token;
        job.token_is = Token::Live;
        job.deliveries += 1;
        job.total_deliveries += 1;
        job.consumer = Some(consumer.to_vec());
        job.lease_ms = job.own_lease.or(lease).unwrap_or(self.policy.lease);
        job.deadline = now + job.lease_ms;
        self.longest_lease = self.longest_lease.max(job.lease_ms);
        job.first_delivered = job.first_delivered.or(Some(now));
        job.last_delivered = Some(now);
        self.was_served(n);
        Some(self.jobs[n].clone())
    }
}

/// Notes a grant; what is out of the interval does not matter any more.
fn grant(grants: &mut Vec<u64>, rate: Option<(u64, u64)>, now: u64) {
    let Some((_, ms)) = rate else { return };
    grants.retain(|at| at + ms > now);
    grants.push(now);
}
