//! What moves jobs: lease and settle, expire and bury, promote and redrive.

use std::cmp::Reverse;

use super::{make_ready, move_to, ttl_at, Found};
use crate::dedup::Owner;
use crate::groups::GroupId;
use crate::id::JobId;
use crate::job::{Hold, More, Outline, Reason, Settled, Slot, State};
use crate::limits::MAX_PAYLOAD;
use crate::op::Due;
use crate::queue::Queue;
use crate::seldom::Seldom;
use crate::store::{Entry, Record};

impl Queue {
    pub(super) fn lease(&mut self, id: JobId, token: u64, lease_ms: u64, consumer: &[u8], now: u64) -> Option<()> {
        if token <= self.head.last_token {
            return None;
        }
        let found = self.find(id, |job| job.state == State::Ready)?;
        let job = &found.outline;
        let (last, group, priority) = (job.consumer, job.group, Reverse(job.priority));
        let same = last.and_then(|last| self.names.get(last)).is_some_and(|name| *name.text == *consumer);
        let holder = if same { last } else { Some(self.names.hold(consumer)) };
        if let (false, Some(last)) = (same, last) {
            self.names.drop_hold(last);
        }
        self.head.last_token = token;
        self.head.longest_lease_ms = self.head.longest_lease_ms.max(lease_ms);
        self.head.totals.delivered = self.head.totals.delivered.saturating_add(1);
        match self.head.policy.rate() {
            None => self.grants = Seldom::new(),
            rate => self.grants.add(now.max(1), rate),
        }
        if let Some(group) = group {
            self.groups.granted(group, now.max(1), &self.head.policy);
        }
        let leased = Outline {
            state: State::Leased,
            plain: false,
            token,
            consumer: holder,
            lease_ms,
            until: now.saturating_add(lease_ms),
            last_delivered_at: now.max(1),
            deliveries: 1,
            ..found.outline
        };
        if found.outline.plain && self.jobs.deliver_plain(found.slot, &leased).is_some() {
            self.relink(found.slot, &found.outline, &leased);
            self.served(group, priority);
            return Some(());
        }
        self.change(&found, |job| {
            let place = job.place;
            let more = &mut job.more;
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
        self.served(group, priority);
        Some(())
    }

    /// It was a group's turn, or that of the jobs without one.
    fn served(&mut self, group: Option<GroupId>, priority: Reverse<i8>) {
        if let Some(groups) = self.groups.there() {
            groups.served(group, priority);
        }
    }

    pub(super) fn finish(&mut self, id: JobId, keep: Option<&[u8]>, now: u64) -> Option<()> {
        let found = self.find(id, |job| Self::claimed(job) || job.hold(job.token) == Hold::LateDead)?;
        self.head.totals.acked = self.head.totals.acked.saturating_add(1);
        let Some(result) = keep else { return self.remove_found(&found, false) };
        // Only a forged op comes with more than can be saved.
        let result = Some(result).filter(|result| found.size.saturating_add(result.len() as u64) <= MAX_PAYLOAD as u64).unwrap_or(&[]);
        self.change(&found, |job| {
            let more = &mut job.more;
            more.settled = Settled::Finished;
            more.until = now.max(1);
            more.back_since = 0;
            more.reason = None;
            more.result = result.into();
            job.state = State::Done;
        })?;
        self.ended(found.slot)
    }

    pub(super) fn discard(&mut self, id: JobId) -> Option<()> {
        let found = self.find(id, |job| matches!(job.state, State::Dead | State::Done))?;
        self.remove_found(&found, false)?;
        let totals = &mut self.head.totals;
        match found.outline.state {
            State::Done => totals.trimmed = totals.trimmed.saturating_add(1),
            _ => totals.dead_dropped = totals.dead_dropped.saturating_add(1),
        }
        Some(())
    }

    pub(super) fn remove(&mut self, id: JobId, deleted: bool) -> Option<()> {
        let found = self.find(id, |_| true)?;
        self.remove_found(&found, deleted)
    }

    fn remove_found(&mut self, job: &Found, deleted: bool) -> Option<()> {
        let Outline { id, consumer, group, .. } = job.outline;
        self.unlink(job.slot, &job.outline);
        let record = self.jobs.remove(job.slot)?;
        if let Some(name) = consumer {
            self.names.drop_hold(name);
        }
        if let Some(key) = record.as_ref().and_then(Record::dedup) {
            self.dedup.ended(key, id, deleted);
        }
        if let Some(group) = group {
            self.groups.drop_hold(group, &self.head.policy);
        }
        Some(())
    }

    /// Whether a worker still has a claim to the job: leased, or expired and nobody else got it.
    pub(super) fn claimed(job: &Outline) -> bool {
        matches!(job.hold(job.token), Hold::Live | Hold::Late)
    }

    pub(super) fn retry(&mut self, id: JobId, due: Option<u64>, error: Option<&[u8]>, now: u64) -> Option<()> {
        let found = self.find(id, Self::claimed)?;
        self.head.totals.failed = self.head.totals.failed.saturating_add(1);
        let ordered = self.head.policy.group_order();
        self.change(&found, |job| {
            failed(&mut job.more, error, Settled::Retried);
            let place = if ordered && job.more.group.is_some() { job.more.old_place } else { now };
            Queue::make_wait(job, due, place, now);
        })
    }

    pub(super) fn bury(&mut self, id: JobId, reason: Reason, error: Option<&[u8]>, now: u64) -> Option<()> {
        let found = self.find(id, |job| match reason {
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
        self.change(&found, |job| {
            let more = &mut job.more;
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
        self.ended(found.slot)
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
        let found = self.find(id, |job| job.hold(job.token) == Hold::LateDead)?;
        self.head.totals.failed = self.head.totals.failed.saturating_add(1);
        self.change(&found, |job| failed(&mut job.more, error, Settled::Buried))
    }

    pub(super) fn release(&mut self, id: JobId, due: Option<u64>, now: u64) -> Option<()> {
        let found = self.find(id, Self::claimed)?;
        self.head.totals.released = self.head.totals.released.saturating_add(1);
        let (group, granted_at) = (found.outline.group, found.outline.last_delivered_at);
        if let Some(grants) = self.grants.there() {
            grants.give_back(granted_at);
        }
        if let Some(group) = group {
            self.groups.give_back(group, granted_at);
        }
        self.change(&found, |job| {
            let late = job.state != State::Leased;
            let more = &mut job.more;
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
                job.more.back_since = since;
            }
        })
    }

    pub(super) fn extend(&mut self, id: JobId, deadline: u64, now: u64) -> Option<()> {
        let found = self.find(id, Self::claimed)?;
        if deadline == 0 {
            return None;
        }
        self.head.longest_lease_ms = self.head.longest_lease_ms.max(deadline.saturating_sub(now));
        self.change(&found, |job| {
            let late = job.state != State::Leased;
            let more = &mut job.more;
            if late {
                unexpired(more);
            }
            more.until = deadline;
            more.back_since = 0;
            job.state = State::Leased;
        })
    }

    pub(super) fn expire(&mut self, id: JobId, due: Option<u64>, now: u64) -> Option<()> {
        let found = self.find(id, |job| job.state == State::Leased)?;
        self.head.totals.expired = self.head.totals.expired.saturating_add(1);
        self.change(&found, |job| {
            expired(&mut job.more);
            let place = job.more.old_place;
            Queue::make_wait(job, due, place, now);
        })
    }

    pub(super) fn promote(&mut self, due: u64, id: JobId) -> Option<()> {
        let mut any = None;
        while self.delayed.first_key(&self.jobs).is_some_and(|key| key <= (due, id)) {
            let Some(found) = self.delayed.first().and_then(|first| self.found(first.slot())) else { break };
            let ordered = self.head.policy.group_order();
            // Placed by the time it was due, however late this comes.
            any = self.change(&found, |job| make_ready(job, job.place, ordered));
        }
        any
    }

    pub(super) fn redrive(&mut self, id: JobId, due: Option<u64>, priority: Option<i8>, now: u64) -> Option<()> {
        let found = self.find(id, |job| job.state == State::Dead)?;
        self.head.totals.redriven = self.head.totals.redriven.saturating_add(1);
        self.change(&found, |job| {
            job.priority = priority.unwrap_or(job.priority);
            let more = &mut job.more;
            more.token = 0;
            more.settled = Settled::No;
            more.deliveries = 0;
            more.budget_failures = 0;
            more.budget_expiries = 0;
            more.redrives = more.redrives.saturating_add(1);
            more.ttl_at = ttl_at(due.unwrap_or(now), more.ttl_ms);
            Queue::make_wait(job, due, now, now);
        })?;
        let job = self.jobs.get(found.slot)?;
        match job.more().dedup.clone() {
            Some(key) if job.more().dedup_window_ms == 0 && self.dedup.owner(&key, now).is_none() => {
                self.dedup.set(key, Owner { job: id, until: 0, held: None }, true);
            }
            _ => {}
        }
        Some(())
    }

    pub(super) fn set(&mut self, id: JobId, priority: Option<i8>, due: Option<Due>) -> Option<()> {
        let found = self.find(id, |job| job.state.waits())?;
        let ordered = self.head.policy.group_order();
        self.change(&found, |job| {
            job.priority = priority.unwrap_or(job.priority);
            move_to(job, due, ordered);
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
