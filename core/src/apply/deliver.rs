//! What moves jobs: lease and settle, expire and bury, promote and redrive.

use std::cmp::Reverse;

use super::{move_to, ttl_at};
use crate::dedup::Owner;
use crate::id::JobId;
use crate::job::{Hold, Job, More, Reason, Settled, Slot, State};
use crate::op::Due;
use crate::queue::Queue;

impl Queue {
    pub(super) fn lease(&mut self, id: JobId, token: u64, lease_ms: u64, consumer: &[u8], now: u64) -> Option<()> {
        if token <= self.head.last_token {
            return None;
        }
        let slot = self.find(id, |job| job.state == State::Ready)?;
        let last = self.jobs.get(slot)?.more().consumer;
        let same = last.and_then(|last| self.names.get(last)).is_some_and(|name| *name.text == *consumer);
        let holder = if same { last } else { Some(self.names.hold(consumer)) };
        if let (false, Some(last)) = (same, last) {
            self.names.drop_hold(last);
        }
        self.head.last_token = token;
        self.head.longest_lease_ms = self.head.longest_lease_ms.max(lease_ms);
        self.head.totals.delivered = self.head.totals.delivered.saturating_add(1);
        self.grants.add(now.max(1), self.head.policy.rate());
        let job = self.jobs.get(slot)?;
        let (group, priority) = (job.more().group, Reverse(job.priority));
        if let Some(group) = group {
            self.groups.granted(group, now.max(1), &self.head.policy);
        }
        self.change(slot, |job| {
            let place = job.place;
            let more = job.more_mut();
            more.token = token;
            more.settled = Settled::No;
            more.consumer = holder;
            more.lease_ms = lease_ms;
            more.until = now.saturating_add(lease_ms);
            more.old_place = place;
            more.back_since = 0;
            more.last_delivered_at = now.max(1);
            if more.first_delivered_at == 0 {
                more.first_delivered_at = now.max(1);
            }
            more.deliveries = more.deliveries.saturating_add(1);
            more.total_deliveries = more.total_deliveries.saturating_add(1);
            job.state = State::Leased;
        })?;
        self.groups.served(group, priority);
        Some(())
    }

    pub(super) fn finish(&mut self, id: JobId, keep: Option<&[u8]>, now: u64) -> Option<()> {
        let slot = self.find(id, |job| Self::claimed(job) || job.hold(job.more().token) == Hold::LateDead)?;
        self.head.totals.acked = self.head.totals.acked.saturating_add(1);
        let Some(result) = keep else { return self.remove(id, false).map(|_| ()) };
        self.change(slot, |job| {
            let more = job.more_mut();
            more.settled = Settled::Finished;
            more.until = now.max(1);
            more.back_since = 0;
            more.reason = None;
            more.result = result.into();
            job.state = State::Done;
        })?;
        self.ended(slot)
    }

    pub(super) fn discard(&mut self, id: JobId) -> Option<()> {
        self.find(id, |job| matches!(job.state, State::Dead | State::Done))?;
        let removed = self.remove(id, false)?;
        let totals = &mut self.head.totals;
        match removed.state {
            State::Done => totals.trimmed = totals.trimmed.saturating_add(1),
            _ => totals.dead_dropped = totals.dead_dropped.saturating_add(1),
        }
        Some(())
    }

    pub(super) fn remove(&mut self, id: JobId, deleted: bool) -> Option<Job> {
        let slot = self.slot_of(id)?;
        self.unlink(slot);
        self.by_id.remove(&id);
        let job = self.jobs.remove(slot)?;
        if let Some(more) = &job.more {
            self.with_more = self.with_more.saturating_sub(1);
            if let Some(name) = more.consumer {
                self.names.drop_hold(name);
            }
            if let Some(key) = &more.dedup {
                self.dedup.ended(key, id, deleted);
            }
            if let Some(group) = more.group {
                self.groups.drop_hold(group, &self.head.policy);
            }
        }
        Some(job)
    }

    /// Whether a worker still has a claim to the job: leased, or expired and nobody else got it.
    pub(super) fn claimed(job: &Job) -> bool {
        matches!(job.hold(job.more().token), Hold::Live | Hold::Late)
    }

    pub(super) fn retry(&mut self, id: JobId, due: Option<u64>, error: Option<&[u8]>, now: u64) -> Option<()> {
        let slot = self.find(id, Self::claimed)?;
        self.head.totals.failed = self.head.totals.failed.saturating_add(1);
        let ordered = self.head.policy.group_order();
        self.change(slot, |job| {
            failed(job.more_mut(), error, Settled::Retried);
            let place = if ordered && job.more().group.is_some() { job.more().old_place } else { now };
            Queue::make_wait(job, due, place, now);
        })
    }

    pub(super) fn bury(&mut self, id: JobId, reason: Reason, error: Option<&[u8]>, now: u64) -> Option<()> {
        let slot = self.find(id, |job| match reason {
            Reason::Failed | Reason::Rejected => Self::claimed(job),
            Reason::ExpiredLease => job.state == State::Leased,
            Reason::Ttl => job.state.waits(),
        })?;
        let totals = &mut self.head.totals;
        totals.dead = totals.dead.saturating_add(1);
        match reason {
            Reason::Failed | Reason::Rejected => totals.failed = totals.failed.saturating_add(1),
            Reason::ExpiredLease => totals.expired = totals.expired.saturating_add(1),
            Reason::Ttl => {}
        }
        self.change(slot, |job| {
            let more = job.more_mut();
            match reason {
                Reason::Failed | Reason::Rejected => failed(more, error, Settled::Buried),
                Reason::ExpiredLease => expired(more),
                Reason::Ttl => {}
            }
            more.reason = Some(reason);
            more.until = now.max(1);
            more.back_since = 0;
            job.state = State::Dead;
        })?;
        self.ended(slot)
    }

    /// A job has ended where it is: its dedup key is free.
    pub(super) fn ended(&mut self, slot: Slot) -> Option<()> {
        let job = self.jobs.get(slot)?;
        if let Some(key) = &job.more().dedup {
            self.dedup.ended(key, job.id, false);
        }
        Some(())
    }

    pub(super) fn note(&mut self, id: JobId, error: Option<&[u8]>) -> Option<()> {
        let slot = self.find(id, |job| job.hold(job.more().token) == Hold::LateDead)?;
        self.head.totals.failed = self.head.totals.failed.saturating_add(1);
        self.change(slot, |job| failed(job.more_mut(), error, Settled::Buried))
    }

    pub(super) fn release(&mut self, id: JobId, due: Option<u64>, now: u64) -> Option<()> {
        let slot = self.find(id, Self::claimed)?;
        self.head.totals.released = self.head.totals.released.saturating_add(1);
        let more = self.jobs.get(slot)?.more();
        let (group, granted_at) = (more.group, more.last_delivered_at);
        self.grants.give_back(granted_at);
        if let Some(group) = group {
            self.groups.give_back(group, granted_at);
        }
        self.change(slot, |job| {
            let late = job.state != State::Leased;
            let more = job.more_mut();
            if late {
                unexpired(more);
            }
            more.deliveries = more.deliveries.saturating_sub(1);
            more.total_deliveries = more.total_deliveries.saturating_sub(1);
            more.releases = more.releases.saturating_add(1);
            more.settled = Settled::Released;
            let (since, place) = (more.back_since, more.old_place);
            Queue::make_wait(job, due, place, now);
            // One that expiry had made ready already has been back since then.
            if due.is_none() && since > 0 {
                job.more_mut().back_since = since;
            }
        })
    }

    pub(super) fn extend(&mut self, id: JobId, deadline: u64, now: u64) -> Option<()> {
        let slot = self.find(id, Self::claimed)?;
        if deadline == 0 {
            return None;
        }
        self.head.longest_lease_ms = self.head.longest_lease_ms.max(deadline.saturating_sub(now));
        self.change(slot, |job| {
            let late = job.state != State::Leased;
            let more = job.more_mut();
            if late {
                unexpired(more);
            }
            more.until = deadline;
            more.back_since = 0;
            job.state = State::Leased;
        })
    }

    pub(super) fn expire(&mut self, id: JobId, due: Option<u64>, now: u64) -> Option<()> {
        let slot = self.find(id, |job| job.state == State::Leased)?;
        self.head.totals.expired = self.head.totals.expired.saturating_add(1);
        self.change(slot, |job| {
            expired(job.more_mut());
            let place = job.more().old_place;
            Queue::make_wait(job, due, place, now);
        })
    }

    pub(super) fn promote(&mut self, due: u64, id: JobId) -> Option<()> {
        let mut any = None;
        while let Some(((at, first), slot)) = self.delayed.first().filter(|(key, _)| *key <= (due, id)) {
            debug_assert!((at, first) <= (due, id));
            // Placed by the time it was due, however late this comes.
            let ordered = self.head.policy.group_order();
            any = self.change(slot, |job| {
                job.state = State::Ready;
                let due = job.place;
                match &mut job.more {
                    // In its group it must not fall behind those that it came before.
                    Some(more) if ordered && more.group.is_some() && more.token > 0 && more.old_place < due => {
                        more.back_since = due;
                        job.place = more.old_place;
                    }
                    _ => {}
                }
            });
        }
        any
    }

    pub(super) fn redrive(&mut self, id: JobId, due: Option<u64>, priority: Option<i8>, now: u64) -> Option<()> {
        let slot = self.find(id, |job| job.state == State::Dead)?;
        self.head.totals.redriven = self.head.totals.redriven.saturating_add(1);
        self.change(slot, |job| {
            job.priority = priority.unwrap_or(job.priority);
            let more = job.more_mut();
            more.token = 0;
            more.settled = Settled::No;
            more.deliveries = 0;
            more.budget_failures = 0;
            more.budget_expiries = 0;
            more.redrives = more.redrives.saturating_add(1);
            more.ttl_at = ttl_at(due.unwrap_or(now), more.ttl_ms);
            Queue::make_wait(job, due, now, now);
        })?;
        let more = self.jobs.get(slot)?.more();
        match more.dedup.clone() {
            Some(key) if more.dedup_window_ms == 0 && self.dedup.owner(&key, now).is_none() => {
                self.dedup.set(key, Owner { job: id, until: 0, held: None }, true);
            }
            _ => {}
        }
        Some(())
    }

    pub(super) fn set(&mut self, id: JobId, priority: Option<i8>, due: Option<Due>) -> Option<()> {
        let slot = self.find(id, |job| job.state.waits())?;
        self.change(slot, |job| {
            job.priority = priority.unwrap_or(job.priority);
            move_to(job, due);
        })
    }
}

/// One failure more. The last error text stays until there is a newer one.
fn failed(more: &mut More, error: Option<&[u8]>, settled: Settled) {
    more.failures = more.failures.saturating_add(1);
    more.budget_failures = more.budget_failures.saturating_add(1);
    more.settled = settled;
    if let Some(error) = error {
        more.error = error.into();
    }
}

fn expired(more: &mut More) {
    if crate::canary::Fault::ExpiryDoesNotCount.is_on() {
        return;
    }
    more.expiries = more.expiries.saturating_add(1);
    more.budget_expiries = more.budget_expiries.saturating_add(1);
}

fn unexpired(more: &mut More) {
    more.expiries = more.expiries.saturating_sub(1);
    more.budget_expiries = more.budget_expiries.saturating_sub(1);
}
