//! What each op does to a queue. Total: it knows no clock, no limit, and cannot refuse; an op
//! that does not fit the job it names changes nothing and says so.

use std::cmp::Reverse;

use crate::dedup::{Held, Key, Owner};
use crate::id::JobId;
use crate::job::{Hold, Job, More, Reason, Settled, Slot, State};
use crate::limits::{DUE_STEPS, MAX_STORED_TOKEN, MAX_TIME_MS};
use crate::op::{Contents, DedupKey, Due, Event, GroupState, Op, SlotJob, Stored};
use crate::pause::{Pause, Side};
use crate::policy::Setting;
use crate::queue::Queue;
use crate::schedule::{Name, NoJob, Plan};

/// What became of an op.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Applied {
    /// It changed something, and this is to be told.
    Told(Event),
    /// It changed something.
    Changed,
    /// It did not fit: nothing was changed.
    Nothing,
}

fn told(done: Option<()>, event: Event) -> Applied {
    done.map_or(Applied::Nothing, |()| Applied::Told(event))
}

fn changed(done: Option<()>) -> Applied {
    done.map_or(Applied::Nothing, |()| Applied::Changed)
}

impl Queue {
    /// Applies one op of a batch whose time is `now`.
    pub(crate) fn apply_op(&mut self, op: &Op<'_>, now: u64) -> Applied {
        self.head.newest_ms = self.head.newest_ms.max(now);
        match op {
            Op::Reset(header) => {
                *self = Queue::new(header.incarnation);
                self.head = (**header).clone();
                Applied::Changed
            }
            Op::Put(stored) => changed(self.put(stored)),
            // A queue is made once; after that the op has nothing to say.
            Op::Create { .. } => Applied::Nothing,
            Op::Policy(setting) => {
                self.set_policy(*setting);
                Applied::Changed
            }
            Op::Push { id, contents } => told(self.push(*id, contents, now), Event::Push),
            Op::Replace { id, priority, due, window_ms, payload } => {
                told(self.replace(*id, *priority, *due, *window_ms, payload, now), Event::Duplicate)
            }
            Op::Hold { contents } => told(self.hold(contents), Event::Duplicate),
            Op::Unhold { ended, id } => told(self.unhold(*ended, *id, now), Event::Push),
            Op::CloseWindows { until, key } => changed(self.dedup.close_windows(*until, key)),
            Op::Pause { side, pause } => changed(self.set_pause(*side, pause.as_ref())),
            Op::Schedule { name, schedule } => {
                self.schedules.set(Name::from(*name), (**schedule).clone());
                Applied::Changed
            }
            Op::Unschedule { name } => changed(self.schedules.remove(name).map(|_| ())),
            Op::Slot { name, job, next, burst } => self.slot(name, *job, *next, *burst, now),
            Op::Tidy => changed(self.groups.tidy(now, DUE_STEPS)),
            Op::Turns(turns) => {
                self.groups.set_turns(turns.counter, &turns.bare);
                self.grants = turns.grants.clone();
                Applied::Changed
            }
            Op::Group { name, state } => changed(self.put_group(name, state)),
            Op::Forget { key } => changed(self.forget(key)),
            Op::Key { key, owner } => changed(self.put_key(key, owner)),
            Op::Lease { id, token, lease_ms, consumer } => {
                told(self.lease(*id, *token, *lease_ms, consumer, now), Event::Lease)
            }
            Op::Finish { id, keep } => told(self.finish(*id, *keep, now), Event::Ack),
            Op::Retry { id, due, error } => told(self.retry(*id, *due, *error, now), Event::Nack),
            Op::Bury { id, reason, error } => told(self.bury(*id, *reason, *error, now), Event::Dead),
            Op::Note { id, error } => changed(self.note(*id, *error)),
            Op::Release { id, due } => told(self.release(*id, *due, now), Event::Release),
            Op::Extend { id, deadline } => changed(self.extend(*id, *deadline, now)),
            Op::Expire { id, due } => told(self.expire(*id, *due, now), Event::Expire),
            Op::Promote { due, id } => changed(self.promote(*due, *id)),
            Op::Redrive { id, due, priority } => told(self.redrive(*id, *due, *priority, now), Event::Redrive),
            Op::Set { id, priority, due } => changed(self.set(*id, *priority, *due)),
            Op::Drop { id } => told(self.remove(*id, true).map(|_| ()), Event::Del),
            Op::Discard { id } => told(self.discard(*id), Event::Drop),
        }
    }

    /// Takes the job out of its order, changes it, and puts it back into the order it then has.
    fn change(&mut self, slot: Slot, change: impl FnOnce(&mut Job)) -> Option<()> {
        self.unlink(slot);
        let job = self.jobs.get_mut(slot)?;
        let had_more = job.more.is_some();
        change(job);
        if !had_more && job.more.is_some() {
            self.with_more = self.with_more.saturating_add(1);
        }
        self.link(slot);
        Some(())
    }

    /// The one routine that makes a job wait again: ready, placed at `place`, or delayed until
    /// `due`. A place in the past is one that it had before: then `now` tells since when it is back.
    fn make_wait(job: &mut Job, due: Option<u64>, place: u64, now: u64) {
        let more = job.more_mut();
        more.until = 0;
        more.reason = None;
        match due {
            Some(due) => {
                more.back_since = 0;
                job.place = due;
                job.state = State::Delayed;
            }
            None => {
                more.back_since = if place < now { now } else { 0 };
                job.place = place;
                job.state = State::Ready;
            }
        }
    }

    fn find(&self, id: JobId, fits: impl FnOnce(&Job) -> bool) -> Option<Slot> {
        let slot = self.slot_of(id)?;
        fits(self.jobs.get(slot)?).then_some(slot)
    }

    /// Stores a new job.
    fn add(&mut self, job: Job) -> Option<Slot> {
        let id = job.id;
        let more = job.more.is_some();
        let slot = self.jobs.insert(job)?;
        self.by_id.insert(id, slot);
        self.head.last_id = self.head.last_id.max(id);
        self.with_more = self.with_more.saturating_add(usize::from(more));
        Some(slot)
    }

    fn put(&mut self, stored: &Stored) -> Option<()> {
        let mut job = stored.job.clone();
        let more = job.more();
        let (token, leased) = (more.token, more.lease_ms);
        if self.slot_of(job.id).is_some() || token > MAX_STORED_TOKEN {
            return None;
        }
        self.head.last_token = self.head.last_token.max(token);
        self.head.longest_lease_ms = self.head.longest_lease_ms.max(leased);
        if let Some(name) = &stored.consumer {
            job.more_mut().consumer = Some(self.names.hold(name));
        }
        if let Some(name) = &stored.group {
            job.more_mut().group = Some(self.groups.hold(name));
        }
        let slot = self.add(job)?;
        self.link(slot);
        Some(())
    }

    fn push(&mut self, id: JobId, contents: &Contents<'_>, now: u64) -> Option<()> {
        if id <= self.head.last_id {
            return None;
        }
        let Contents { due, options, group, dedup, payload } = *contents;
        let place = due.unwrap_or(id.ms);
        let own = options.lease_ms > 0 || options.max_deliveries.is_some() || options.ttl_ms > 0;
        let more = (own || group.is_some() || dedup.is_some()).then(|| {
            Box::new(More {
                group: group.map(|name| self.groups.hold(name)),
                dedup: dedup.map(|dedup| Key::from(dedup.key)),
                dedup_window_ms: dedup.map_or(0, |dedup| dedup.window_ms),
                own_lease_ms: options.lease_ms,
                own_max_deliveries: options.max_deliveries,
                ttl_ms: options.ttl_ms,
                ttl_at: ttl_at(place, options.ttl_ms),
                ..More::default()
            })
        });
        let state = if due.is_some() { State::Delayed } else { State::Ready };
        let slot = self.add(Job { id, place, payload: payload.into(), more, priority: options.priority, state })?;
        self.link(slot);
        if let Some(DedupKey { key, window_ms }) = dedup {
            let owner = Owner { job: id, until: window_end(window_ms, now), held: None };
            self.dedup.set(key.into(), owner, true);
        }
        self.head.totals.pushed = self.head.totals.pushed.saturating_add(1);
        Some(())
    }

    /// Whether a job is live and carries a key.
    fn carries(&self, id: JobId, key: &[u8]) -> bool {
        self.job(id).is_some_and(|job| job.state.is_live() && job.more().dedup.as_deref() == Some(key))
    }

    fn replace(&mut self, id: JobId, priority: i8, due: Option<Due>, window_ms: u64, payload: &[u8], now: u64) -> Option<()> {
        let slot = self.find(id, |job| job.state.waits() && job.more().first_delivered_at == 0)?;
        self.change(slot, |job| {
            job.payload = payload.into();
            job.priority = priority;
            move_to(job, due);
        })?;
        let key = self.jobs.get(slot)?.more().dedup.clone();
        let owner = key.as_deref().and_then(|key| self.dedup.find(key)).map(|(_, owner)| owner.clone());
        match (key, owner) {
            (Some(key), Some(owner)) if owner.job == id && owner.until > 0 && window_ms > 0 => {
                self.dedup.set(key, Owner { until: window_end(window_ms, now), ..owner }, true);
            }
            _ => {}
        }
        Some(())
    }

    fn hold(&mut self, contents: &Contents<'_>) -> Option<()> {
        let Contents { due, options, group, dedup, payload } = *contents;
        let dedup = dedup?;
        let (key, owner) = self.dedup.find(dedup.key)?;
        let (key, job, until) = (key.clone(), owner.job, owner.until);
        if !self.carries(job, &key) {
            return None;
        }
        let held = Held { payload: payload.into(), options, group: group.map(Box::from), due, window_ms: dedup.window_ms };
        self.dedup.set(key, Owner { job, until, held: Some(Box::new(held)) }, true);
        Some(())
    }

    fn unhold(&mut self, ended: JobId, id: JobId, now: u64) -> Option<()> {
        if id <= self.head.last_id {
            return None;
        }
        let (key, held) = self.dedup.take_pending(ended)?;
        let contents = Contents {
            due: held.due.filter(|due| *due > now),
            options: held.options,
            group: held.group.as_deref(),
            dedup: Some(DedupKey { key: &key, window_ms: held.window_ms }),
            payload: &held.payload,
        };
        self.push(id, &contents, now)
    }

    fn slot(&mut self, name: &[u8], job: SlotJob, next: Option<u64>, burst: u64, now: u64) -> Applied {
        let Some((name, schedule)) = self.schedules.get(name) else { return Applied::Nothing };
        let (name, mut schedule) = (name.clone(), schedule.clone());
        let made = match job {
            SlotJob::Made { id, slot } => self.push_slot(id, slot, &name, &schedule.plan, now),
            SlotJob::None(why) => {
                if why == NoJob::Refused {
                    schedule.refused = schedule.refused.saturating_add(1);
                    self.head.totals.slots_skipped = self.head.totals.slots_skipped.saturating_add(1);
                }
                None
            }
        };
        schedule.made = schedule.made.saturating_add(u64::from(made.is_some()));
        schedule.next = next;
        schedule.burst = burst;
        self.schedules.set(name, schedule);
        made.map_or(Applied::Changed, |()| Applied::Told(Event::Push))
    }

    /// Pushes a slot's job: ready, placed at its slot.
    fn push_slot(&mut self, id: JobId, slot: u64, name: &Name, plan: &Plan, now: u64) -> Option<()> {
        let contents = Contents {
            due: None,
            options: plan.options,
            group: plan.group.as_deref(),
            dedup: plan.dedup.as_deref().map(|key| DedupKey { key, window_ms: 0 }),
            payload: &plan.payload,
        };
        self.push(id, &contents, now)?;
        let at = self.slot_of(id)?;
        self.change(at, |job| {
            job.place = slot;
            let more = job.more_mut();
            more.schedule = Some(name.clone());
            if more.ttl_ms > 0 {
                more.ttl_at = ttl_at(slot, more.ttl_ms);
            }
        })
    }

    fn set_policy(&mut self, setting: Setting) {
        self.head.policy.set(setting);
        // Bounds that were lifted may let groups go.
        self.groups.unpark_all();
    }

    fn set_pause(&mut self, side: Side<'_>, pause: Option<&Pause>) -> Option<()> {
        let old = match side {
            Side::Out => &mut self.head.paused_out,
            Side::In => &mut self.head.paused_in,
            Side::Group(name) => {
                let id = match pause {
                    Some(_) => self.groups.make(name),
                    None => self.groups.find(name)?,
                };
                if self.groups.get(id)?.pause.as_ref() == pause {
                    return None;
                }
                self.groups.set_pause(id, pause.cloned(), &self.head.policy);
                return Some(());
            }
        };
        if old.as_ref() == pause {
            return None;
        }
        *old = pause.cloned();
        Some(())
    }

    fn put_group(&mut self, name: &[u8], state: &GroupState) -> Option<()> {
        let id = match state.pause.is_some() || state.grants.last().is_some() {
            true => self.groups.make(name),
            false => self.groups.find(name)?,
        };
        self.groups.set_group(id, &state.turns, state.grants.clone());
        if state.pause.is_some() {
            self.groups.set_pause(id, state.pause.clone(), &self.head.policy);
        } else {
            self.groups.settle(id, Some(&self.head.policy));
        }
        Some(())
    }

    fn forget(&mut self, key: &[u8]) -> Option<()> {
        let (_, owner) = self.dedup.find(key)?;
        if owner.until == 0 || owner.held.is_some() {
            return None;
        }
        self.dedup.remove(key).map(|_| ())
    }

    fn put_key(&mut self, key: &[u8], owner: &Owner) -> Option<()> {
        let live = self.carries(owner.job, key);
        let pending = owner.held.is_some() && !live;
        if self.dedup.find(key).is_some() || (owner.held.is_none() && owner.until == 0 && !live) {
            return None;
        }
        if pending && self.dedup.is_pending(owner.job) {
            return None;
        }
        self.dedup.set(key.into(), owner.clone(), live);
        Some(())
    }

    fn lease(&mut self, id: JobId, token: u64, lease_ms: u64, consumer: &[u8], now: u64) -> Option<()> {
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

    fn finish(&mut self, id: JobId, keep: Option<&[u8]>, now: u64) -> Option<()> {
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

    fn discard(&mut self, id: JobId) -> Option<()> {
        self.find(id, |job| matches!(job.state, State::Dead | State::Done))?;
        let removed = self.remove(id, false)?;
        let totals = &mut self.head.totals;
        match removed.state {
            State::Done => totals.trimmed = totals.trimmed.saturating_add(1),
            _ => totals.dead_dropped = totals.dead_dropped.saturating_add(1),
        }
        Some(())
    }

    fn remove(&mut self, id: JobId, deleted: bool) -> Option<Job> {
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
    fn claimed(job: &Job) -> bool {
        matches!(job.hold(job.more().token), Hold::Live | Hold::Late)
    }

    fn retry(&mut self, id: JobId, due: Option<u64>, error: Option<&[u8]>, now: u64) -> Option<()> {
        let slot = self.find(id, Self::claimed)?;
        self.head.totals.failed = self.head.totals.failed.saturating_add(1);
        let ordered = self.head.policy.group_order();
        self.change(slot, |job| {
            failed(job.more_mut(), error, Settled::Retried);
            let place = if ordered && job.more().group.is_some() { job.more().old_place } else { now };
            Queue::make_wait(job, due, place, now);
        })
    }

    fn bury(&mut self, id: JobId, reason: Reason, error: Option<&[u8]>, now: u64) -> Option<()> {
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
    fn ended(&mut self, slot: Slot) -> Option<()> {
        let job = self.jobs.get(slot)?;
        if let Some(key) = &job.more().dedup {
            self.dedup.ended(key, job.id, false);
        }
        Some(())
    }

    fn note(&mut self, id: JobId, error: Option<&[u8]>) -> Option<()> {
        let slot = self.find(id, |job| job.hold(job.more().token) == Hold::LateDead)?;
        self.head.totals.failed = self.head.totals.failed.saturating_add(1);
        self.change(slot, |job| failed(job.more_mut(), error, Settled::Buried))
    }

    fn release(&mut self, id: JobId, due: Option<u64>, now: u64) -> Option<()> {
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

    fn extend(&mut self, id: JobId, deadline: u64, now: u64) -> Option<()> {
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

    fn expire(&mut self, id: JobId, due: Option<u64>, now: u64) -> Option<()> {
        let slot = self.find(id, |job| job.state == State::Leased)?;
        self.head.totals.expired = self.head.totals.expired.saturating_add(1);
        self.change(slot, |job| {
            expired(job.more_mut());
            let place = job.more().old_place;
            Queue::make_wait(job, due, place, now);
        })
    }

    fn promote(&mut self, due: u64, id: JobId) -> Option<()> {
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

    fn redrive(&mut self, id: JobId, due: Option<u64>, priority: Option<i8>, now: u64) -> Option<()> {
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
            Some(key) if more.dedup_window_ms == 0 && self.dedup.find(&key).is_none() => {
                self.dedup.set(key, Owner { job: id, until: 0, held: None }, true);
            }
            _ => {}
        }
        Some(())
    }

    fn set(&mut self, id: JobId, priority: Option<i8>, due: Option<Due>) -> Option<()> {
        let slot = self.find(id, |job| job.state.waits())?;
        self.change(slot, |job| {
            job.priority = priority.unwrap_or(job.priority);
            move_to(job, due);
        })
    }
}

/// Gives a waiting job a new time.
fn move_to(job: &mut Job, due: Option<Due>) {
    let (state, place) = match due {
        None => return,
        Some(Due::Ready(at)) => (State::Ready, at),
        Some(Due::Delayed(at)) => (State::Delayed, at),
    };
    job.state = state;
    job.place = place;
    if let Some(more) = job.more.as_deref_mut() {
        more.back_since = 0;
        // The time to live counts from the first due time.
        if more.ttl_ms > 0 && more.total_deliveries == 0 {
            more.ttl_at = ttl_at(place, more.ttl_ms);
        }
    }
}

fn window_end(window_ms: u64, now: u64) -> u64 {
    if window_ms == 0 { 0 } else { now.saturating_add(window_ms).min(MAX_TIME_MS) }
}

fn ttl_at(due: u64, ttl_ms: u64) -> u64 {
    if ttl_ms == 0 { 0 } else { due.saturating_add(ttl_ms).min(MAX_TIME_MS) }
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
    more.expiries = more.expiries.saturating_add(1);
    more.budget_expiries = more.budget_expiries.saturating_add(1);
}

fn unexpired(more: &mut More) {
    more.expiries = more.expiries.saturating_sub(1);
    more.budget_expiries = more.budget_expiries.saturating_sub(1);
}
