//! The orders in which jobs are found: each job is in those of its state, and nowhere else.

use std::cmp::Reverse;

use crate::id::JobId;
use crate::job::{Outline, Slot, State};
use crate::policy::Policy;
use crate::queue::{Queue, NEVER};
use crate::ready::ReadyKey;
use crate::store::{ByTime, Jobs, Key};

/// Into the orders, or out of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    In,
    Out,
}

impl Way {
    fn count(self, counter: &mut u64, by: u64) {
        *counter = match self {
            Way::In => counter.saturating_add(by),
            Way::Out => counter.saturating_sub(by),
        };
    }

    fn order(self, order: &mut ByTime, key: Key, slot: Slot, jobs: &Jobs) {
        match self {
            Way::In => order.insert(key, slot, jobs),
            Way::Out => order.remove(key, slot),
        }
    }
}

impl Policy {
    /// When time may change something about a job, Unix ms; 0: that depends on others.
    fn stirs(&self, job: &Outline) -> u64 {
        let ttl_at = job.ttl_at().unwrap_or(NEVER);
        match job.state {
            State::Ready => ttl_at,
            State::Delayed => ttl_at.min(job.place),
            State::Leased => job.until,
            State::Dead | State::Done => match self.retention(job.state) {
                Some((None, None, None)) | None => NEVER,
                Some(_) => 0,
            },
        }
    }
}

impl Queue {
    /// Puts a new job into the orders of its state.
    pub(crate) fn link(&mut self, slot: Slot, job: &Outline) {
        self.move_job(slot, job, Way::In);
        self.move_lease(slot, job, Way::In);
    }

    /// Takes a job out of the orders of its state.
    pub(crate) fn unlink(&mut self, slot: Slot, job: &Outline) {
        self.move_job(slot, job, Way::Out);
        self.move_lease(slot, job, Way::Out);
    }

    /// Moves a job that has changed from the orders it was in to those it belongs in.
    pub(crate) fn relink(&mut self, slot: Slot, before: &Outline, job: &Outline) {
        let lease = |job: &Outline| (job.state, job.consumer, job.last_delivered_at);
        let same_lease = lease(before) == lease(job);
        self.move_job(slot, before, Way::Out);
        if !same_lease {
            self.move_lease(slot, before, Way::Out);
        }
        self.move_job(slot, job, Way::In);
        if !same_lease {
            self.move_lease(slot, job, Way::In);
        }
    }

    /// A lease among those of its consumer.
    fn move_lease(&mut self, slot: Slot, job: &Outline, way: Way) {
        let Some(consumer) = job.consumer.filter(|_| job.state == State::Leased) else { return };
        let key = (job.last_delivered_at, job.id);
        match way {
            Way::In => self.names.lease(consumer, key, slot, &self.jobs),
            Way::Out => self.names.unlease(consumer, key, slot, &self.jobs),
        }
    }

    fn move_job(&mut self, slot: Slot, job: &Outline, way: Way) {
        let jobs = &self.jobs;
        let (id, into) = (job.id, way == Way::In);
        if let Some(bytes) = self.bytes.get_mut(job.state as usize) {
            way.count(bytes, job.bytes);
        }
        if into {
            self.quiet.1 = self.quiet.1.min(self.head.policy.stirs(job));
        }
        match job.state {
            State::Ready => {
                let (key, since) = (ready_key(job), back_since(job));
                match job.group {
                    Some(group) => {
                        way.order(&mut self.ready.since, (since.unwrap_or(key.1), id), slot, jobs);
                        match way {
                            Way::In => self.groups.insert_ready(group, key, slot, jobs),
                            Way::Out => self.groups.remove_ready(group, key, slot),
                        }
                    }
                    None => {
                        if into && !self.groups.is_empty() && self.ready.is_alone(job, jobs) {
                            self.groups.bare_arrives(key.0);
                        }
                        match way {
                            _ if job.plain => {}
                            Way::In => self.ready.insert(key, since, slot, jobs),
                            Way::Out => self.ready.remove(key, since, slot),
                        }
                    }
                }
            }
            State::Delayed => {
                if let (Some(group), true) = (job.group, job.token > 0) {
                    self.groups.count_retrying(group, into);
                }
                way.order(&mut self.delayed, (job.place, id), slot, jobs);
                way.count(&mut self.retrying, u64::from(job.deliveries > 0));
            }
            State::Leased => {
                if into {
                    // If the clock stepped back before this, the deadline would be too far ahead.
                    self.quiet.0 = self.quiet.0.max(job.until.saturating_sub(self.head.longest_lease_ms));
                }
                way.order(&mut self.leased, (job.until, id), slot, jobs);
                if let Some(group) = job.group {
                    self.groups.count_leased(group, into);
                }
            }
            State::Dead => {
                if let Some(dead) = job.reason.and_then(|reason| self.dead.get_mut(reason as usize)) {
                    way.order(dead, (job.until, id), slot, jobs);
                }
            }
            State::Done => way.order(&mut self.done, (job.until, id), slot, jobs),
        }
        if let (true, Some(at)) = (job.state.waits(), job.ttl_at()) {
            way.order(&mut self.ttl, (at, id), slot, jobs);
        }
    }

    /// The jobs that a consumer has leased, oldest deadline first.
    pub(crate) fn leases_of(&self, consumer: &[u8]) -> Vec<JobId> {
        let leased = self.names.leases(consumer).filter_map(|slot| self.jobs.get(slot));
        let mut leases: Vec<(u64, JobId)> = leased.map(|job| (job.until, job.id)).collect();
        leases.sort_unstable();
        leases.into_iter().map(|(_, id)| id).collect()
    }
}

pub(crate) fn ready_key(job: &Outline) -> ReadyKey {
    (Reverse(job.priority), job.place, job.id)
}

/// Since when a job is ready again that came back to an old place.
pub(crate) fn back_since(job: &Outline) -> Option<u64> {
    Some(job.back_since).filter(|since| *since > 0)
}
