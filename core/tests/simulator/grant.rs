//! What must be true of a lease that is granted, and of one that is refused.

use super::call::{payload_text, Id, Side};
use super::ledger::{broken, rule, Claim, Job, Ledger, State, Verdict};
use crate::support::{at, int, items, string};
use rq_core::Tree;

/// What LEASE says of a job.
#[derive(Debug)]
pub struct Grant {
    pub id: Id,
    pub token: u64,
    deliveries: u64,
    pub payload: String,
    lease: u64,
}

pub fn grants(reply: &Tree) -> Vec<Grant> {
    if *reply == Tree::NullArray {
        return Vec::new();
    }
    let one = |job: &Tree| Grant {
        id: super::call::id_of(&string(at(job, 0))),
        token: int(at(job, 1)) as u64,
        deliveries: int(at(job, 2)) as u64,
        payload: string(at(job, 3)),
        lease: int(at(job, 4)) as u64,
    };
    items(reply).iter().map(one).collect()
}

impl Ledger {
    /// LEASE replied this.
    pub fn leases(&mut self, worker: u8, count: u64, lease: Option<u64>, grants: &[Grant], now: u64) -> Verdict {
        rule(grants.len() as u64 <= count, || "more than COUNT".to_string())?;
        for grant in grants {
            self.grant(worker, lease, grant, now).map_err(|what| format!("{grant:?}: {what}"))?;
        }
        let withheld = self.withheld().filter(|_| (grants.len() as u64) < count);
        rule(withheld.is_none(), || format!("this job is ready and nothing bars it, but it is not leased: {withheld:?}"))
    }

    /// A job that is ready and that nothing can hold back; there is none after a LEASE for more.
    pub fn withheld(&self) -> Option<(&Id, &Job)> {
        if self.rules.bars() || self.pauses.keys().any(|side| *side != Side::In) {
            return None;
        }
        self.jobs.iter().find(|(_, job)| job.state == State::Waiting && job.ready)
    }

    fn grant(&mut self, worker: u8, lease: Option<u64>, grant: &Grant, now: u64) -> Verdict {
        let Some(job) = self.jobs.get(&grant.id).copied() else { return broken("nobody pushed it") };
        rule(job.state == State::Waiting, || format!("it is {:?}, its deadline is {}, now is {now}", job.state, job.deadline))?;
        rule(job.ready || job.due.0 <= self.newest, || format!("it is not due before {:?}, now is {now}", job.due))?;
        rule(grant.payload == payload_text(job.payload), || format!("its payload is {}", payload_text(job.payload)))?;
        let token = (self.last_token + 1).max(now * 1_000);
        rule(grant.token == token, || format!("the token is not {token}"))?;
        rule(grant.deliveries == job.deliveries + 1, || format!("there were {} deliveries", job.deliveries))?;
        let (most, expiries) = (self.max_deliveries(&job), self.rules.max_expiries);
        rule(most == 0 || grant.deliveries <= most, || format!("it had its {most} deliveries"))?;
        rule(expiries == 0 || job.expiries < expiries, || format!("it had its {expiries} expiries"))?;
        let length = job.options.lease.or(lease).unwrap_or(self.rules.lease);
        rule(grant.lease == length, || format!("the lease is not for {length}"))?;
        rule(!self.paused(Side::Out), || "leasing is paused".to_string())?;
        rule(job.options.group.is_none_or(|group| !self.paused(Side::Group(group))), || "its group is paused".to_string())?;
        self.in_order(grant.id, &job)?;

        self.last_token = token;
        self.longest_lease = self.longest_lease.max(length);
        let leased = Job {
            state: State::Leased,
            ready: false,
            fresh: false,
            claim: Claim::Open,
            token,
            consumer: worker,
            lease: length,
            deadline: now + length,
            delivered_at: now,
            delivered: true,
            deliveries: job.deliveries + 1,
            ..job
        };
        self.jobs.insert(grant.id, leased);
        self.within_limits(job.options.group)?;
        self.within_rate(None, self.rules.rate, now)?;
        match job.options.group {
            Some(group) => self.within_rate(Some(group), self.rules.group_rate, now),
            None => Ok(()),
        }
    }

    fn within_rate(&mut self, of: Option<u8>, rate: Option<(u64, u64)>, now: u64) -> Verdict {
        let Some((n, ms)) = rate else { return Ok(()) };
        let grants = self.grants.entry(of).or_default();
        grants.retain(|at| at + ms > now);
        grants.push(now);
        // A clock that was set back leaves some in the future: they are in no interval up to now.
        let within = grants.iter().filter(|at| **at <= now).count() as u64;
        rule(within <= n, || format!("{within} grants in {ms} ms, {n} is the rate"))
    }

    /// No job that nothing has moved yet comes after one that became ready later, of the same
    /// priority and group; nor after one of a lower priority.
    fn in_order(&self, id: Id, job: &Job) -> Verdict {
        let first = |other: &Job| {
            let same = (other.options.priority, other.options.group) == (job.options.priority, job.options.group);
            same && job.fresh
        };
        let waiting = self.jobs.iter().filter(|(_, other)| other.state == State::Waiting && other.ready && other.fresh);
        for (other_id, other) in waiting {
            rule(!first(other) || (other.place, *other_id) >= (job.place, id), || {
                format!("{other_id:?} became ready before it, at {}, not {}", other.place, job.place)
            })?;
            let strict = !self.rules.bars() && self.rules.aging == 0 && !self.pauses.keys().any(|side| matches!(side, Side::Group(_)));
            rule(!strict || other.options.priority <= job.options.priority, || format!("{other_id:?} has a higher priority"))?;
        }
        Ok(())
    }
}
