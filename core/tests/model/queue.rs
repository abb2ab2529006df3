//! The reference: a list of jobs, searched from end to end, as plainly as the contract can be
//! written down. It knows nothing of how the real queue stores or orders anything.

use rq_core::Tree;

use super::bounds::Barred;
use super::dedup::Key;
use super::job::{Job, Policy, Token};
use super::op::{id_text, Id, JobOptions, State};

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
}

/// A pause: its end, if it has one, and its reason.
pub type Pause = (Option<u64>, Vec<u8>);

impl Reference {
    pub fn new(policy: Policy) -> Reference {
        Reference { policy, jobs: Vec::new(), last_id: (0, 0), last_token: 0, longest_lease: 0, totals: Totals::default(), pauses: [None, None], grants: Vec::new(), keys: Vec::new() }
    }

    pub fn job(&mut self, id: Id) -> Option<&mut Job> {
        self.jobs.iter_mut().find(|job| job.id == id)
    }

    pub fn remove(&mut self, id: Id) {
        self.jobs.retain(|job| job.id != id);
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
        let pauses = self.pauses.iter().flatten().filter_map(|(until, _)| *until);
        let retention = [State::Done, State::Dead].into_iter().filter_map(|state| self.retention_at(state, now));
        let reopens = match self.barred(now) {
            Some(Barred::RateUntil(at)) if self.count(State::Ready) > 0 => Some(at),
            _ => None,
        };
        let windows = self.keys.iter().filter(|key| key.held.is_none() && key.until > 0).map(|key| key.until);
        jobs.chain(windows).chain(pauses).chain(retention).chain(reopens).min().map(|at| at.max(now))
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
        for job in &mut self.jobs {
            if job.state == State::Delayed && job.place <= now {
                job.state = State::Ready;
                job.ready_since = job.place;
            }
        }
        let late = |job: &Job| job.ttl_end().filter(|end| job.waits() && *end <= now).map(|end| (end, job.id));
        let mut late: Vec<(u64, Id)> = self.jobs.iter().filter_map(late).collect();
        late.sort_unstable();
        for (_, id) in late {
            let n = self.find(id).unwrap();
            self.bury(n, now, "ttl");
        }
        self.keys.retain(|key| key.held.is_some() || key.until == 0 || key.until > now);
        for pause in &mut self.pauses {
            pause.take_if(|(until, _)| until.is_some_and(|until| until <= now));
        }
        self.retain(now);
    }

    pub fn bury(&mut self, n: usize, now: u64, reason: &'static str) {
        self.totals.dead += 1;
        let job = &mut self.jobs[n];
        job.state = State::Dead;
        job.dead_at = now;
        job.reason = Some(reason);
        let id = job.id;
        self.ended(now, id, false);
    }

    /// Lets a job wait until `due`, or makes it ready if that is not ahead.
    pub fn wait(&mut self, n: usize, now: u64, due: u64) {
        let job = &mut self.jobs[n];
        job.place = due;
        job.ready_since = due;
        job.state = if due > now { State::Delayed } else { State::Ready };
        job.drawn = None;
    }

    fn back_off(&mut self, n: usize, now: u64, attempt: u64) {
        let (low, high) = self.policy.wait(attempt);
        self.wait(n, now, now + high);
        if low != high {
            self.jobs[n].drawn = Some((now + low, now + high));
        }
    }

    /// Ready again at the place it had before it was leased.
    fn put_back(&mut self, n: usize, now: u64) {
        let job = &mut self.jobs[n];
        job.state = State::Ready;
        job.place = job.old_place;
        job.ready_since = now.max(job.place);
        job.drawn = None;
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

    fn find(&self, id: Id) -> Option<usize> {
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
        id
    }

    /// Leases the first ready job, if the size of its payload fits.
    pub fn lease(&mut self, now: u64, consumer: &[u8], lease: Option<u64>, fits: impl Fn(u64) -> bool) -> Option<Job> {
        // The head whose time to live is over is not delivered, also when no tick has come.
        if self.barred(now).is_some() {
            return None;
        }
        while let Some(late) = self.listed(State::Ready).first().filter(|job| job.ttl_end().is_some_and(|t| t <= now)) {
            let n = self.find(late.id)?;
            self.bury(n, now, "ttl");
        }
        let id = self.listed(State::Ready).first()?.id;
        let n = self.find(id)?;
        if !fits(self.jobs[n].payload.len() as u64) {
            return None;
        }
        match self.policy.rate {
            None => self.grants.clear(),
            Some((_, ms)) => {
                self.grants.retain(|at| at + ms > now);
                self.grants.push(now);
            }
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
        Some(job.clone())
    }

    pub fn ack(&mut self, now: u64, id: Id, token: u64, result: Option<&[u8]>) -> i64 {
        let Some(n) = self.find(id) else { return -1 };
        match self.jobs[n].standing(token) {
            Token::Live | Token::Late => {
                self.totals.acked += 1;
                if self.policy.keep_done.contains(&Some(0)) {
                    self.jobs.remove(n);
                    self.ended(now, id, false);
                    return 1;
                }
                self.totals.kept += 1;
                let job = &mut self.jobs[n];
                job.state = State::Done;
                job.done_at = now;
                job.result = result.unwrap_or_default().to_vec();
                job.reason = None;
                job.token_is = Token::Spent("ack", 1);
                self.ended(now, id, false);
                1
            }
            Token::Spent("ack", code) => code,
            Token::Void | Token::Spent(..) => 0,
        }
    }

    pub fn nack(&mut self, now: u64, id: Id, token: u64, delay: Option<u64>, error: Option<&[u8]>, dead: bool) -> i64 {
        let Some(n) = self.find(id) else { return -1 };
        match self.jobs[n].standing(token) {
            Token::Spent("nack", code) => return code,
            Token::Void | Token::Spent(..) => return 0,
            Token::Live | Token::Late => {}
        }
        self.totals.failed += 1;
        let policy = self.policy.clone();
        let job = &mut self.jobs[n];
        job.failures += 1;
        job.budget_failures += 1;
        if let Some(error) = error {
            job.error = error[..error.len().min(1_024)].to_vec();
        }
        let attempt = job.budget_failures;
        let code = if job.state == State::Dead {
            2
        } else if dead {
            self.bury(n, now, "rejected");
            2
        } else if job.deliveries_are_spent(&policy) {
            self.bury(n, now, "failed");
            2
        } else {
            match delay {
                Some(delay) => self.wait(n, now, now + delay),
                None => self.back_off(n, now, attempt),
            }
            1
        };
        self.jobs[n].token_is = Token::Spent("nack", code);
        code
    }

    pub fn release(&mut self, now: u64, id: Id, token: u64, delay: Option<u64>) -> i64 {
        let Some(n) = self.find(id) else { return -1 };
        let job = &mut self.jobs[n];
        match job.standing(token) {
            Token::Spent("release", code) => return code,
            Token::Void | Token::Spent(..) => return 0,
            Token::Live | Token::Late if job.state == State::Dead => return 0,
            Token::Live => {}
            Token::Late => {
                job.expiries -= 1;
                job.budget_expiries -= 1;
            }
        }
        if let Some(grant) = self.grants.iter().position(|at| Some(*at) == job.last_delivered) {
            self.grants.remove(grant);
        }
        job.deliveries -= 1;
        job.total_deliveries -= 1;
        job.releases += 1;
        job.token_is = Token::Spent("release", 1);
        // One that expiry had put back already has been ready since then.
        let since = job.ready_since;
        let was_back = job.state == State::Ready && since > job.place;
        match delay.unwrap_or(0) {
            0 => self.put_back(n, now),
            delay => self.wait(n, now, now + delay),
        }
        if was_back && self.jobs[n].state == State::Ready {
            self.jobs[n].ready_since = since;
        }
        self.totals.released += 1;
        1
    }

    pub fn release_consumer(&mut self, now: u64, consumer: &[u8]) -> i64 {
        let held: Vec<(Id, u64)> = self.listed(State::Leased).iter()
            .filter(|job| job.consumer.as_deref() == Some(consumer))
            .map(|job| (job.id, job.token))
            .collect();
        held.into_iter().map(|(id, token)| self.release(now, id, token, None)).sum()
    }

    pub fn extend(&mut self, now: u64, id: Id, token: u64, lease: Option<u64>) -> i64 {
        let max_run = self.policy.max_run;
        let no_place = self.policy.concurrency.is_some_and(|limit| self.count(State::Leased) as u64 >= limit);
        let Some(job) = self.job(id) else { return -1 };
        let standing = job.standing(token);
        if !matches!(standing, Token::Live | Token::Late) || job.state == State::Dead || (standing == Token::Late && no_place) {
            return 0;
        }
        let mut deadline = now + lease.unwrap_or(job.lease_ms);
        if max_run > 0 {
            let end = job.last_delivered.unwrap_or(0) + max_run;
            if now >= end {
                return 0;
            }
            deadline = deadline.min(end);
        }
        if standing == Token::Late {
            job.expiries -= 1;
            job.budget_expiries -= 1;
            job.state = State::Leased;
            job.token_is = Token::Live;
            job.drawn = None;
        }
        job.deadline = deadline;
        self.longest_lease = self.longest_lease.max(deadline - now);
        1
    }

    pub fn reap(&mut self, now: u64, ids: &[Id]) -> Tree {
        let mut reply = Vec::new();
        for &id in ids {
            let Some(n) = self.find(id).filter(|&n| self.jobs[n].state == State::Leased) else { continue };
            self.expire(n, now);
            let job = &self.jobs[n];
            reply.push(Tree::Array(vec![
                Tree::Bulk(id_text(id)),
                Tree::Bulk(job.state.name().into()),
                Tree::Int(job.deliveries as i64),
                Tree::Bulk(job.consumer.clone().unwrap_or_default()),
            ]));
        }
        Tree::Array(reply)
    }

    pub fn redrive(&mut self, now: u64, id: Id, due: u64, priority: Option<i8>) -> i64 {
        let Some(n) = self.find(id) else { return -1 };
        if self.jobs[n].state != State::Dead {
            return 0;
        }
        if self.key_is_taken(id, now) {
            return -2;
        }
        let job = &mut self.jobs[n];
        job.priority = priority.unwrap_or(job.priority);
        (job.deliveries, job.budget_failures, job.budget_expiries) = (0, 0, 0);
        job.redrives += 1;
        job.token_is = Token::Void;
        job.first_due = due;
        self.totals.redriven += 1;
        self.wait(n, now, due);
        self.take_key_back(id, now);
        1
    }

    pub fn set(&mut self, now: u64, id: Id, priority: Option<i8>, due: Option<u64>) -> i64 {
        let Some(n) = self.find(id) else { return -1 };
        if !self.jobs[n].waits() {
            return 0;
        }
        let job = &mut self.jobs[n];
        job.priority = priority.unwrap_or(job.priority);
        let delayed = job.state == State::Delayed;
        if let Some(due) = due.filter(|&due| if delayed { due != job.place } else { due > now }) {
            if job.total_deliveries == 0 {
                job.first_due = due;
            }
            self.wait(n, now, due);
        }
        1
    }
}
