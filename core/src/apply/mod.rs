//! What each op does to a queue. Total: it knows no clock, no limit, and cannot refuse; an op
//! that does not fit the job it names changes nothing and says so.

mod deliver;
mod produce;

use std::cmp::Reverse;

use crate::id::JobId;
use crate::job::{Facts, Outline, Slot, State};
use crate::limits::{DUE_STEPS, MAX_TIME_MS};
use crate::op::{Due, Event, Op};
use crate::queue::Queue;
use crate::schedule::Name;

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
        let applied = self.apply_one(op, now);
        match op {
            Op::Create { .. } | Op::Push { .. } | Op::Unhold { .. } | Op::Replace { .. } | Op::Hold { .. } | Op::Lease { .. } => {}
            Op::Finish { .. } | Op::Retry { .. } | Op::Bury { .. } | Op::Note { .. } | Op::Release { .. } | Op::Extend { .. } => {}
            Op::Expire { .. } | Op::Promote { .. } | Op::Redrive { .. } | Op::Set { .. } | Op::Drop { .. } | Op::Discard { .. } => {}
            // What is not about jobs alone may be about any time.
            _ => self.stir(0),
        }
        // Jobs say themselves when they are due; what they leave behind does not.
        if let Some((at, _)) = self.dedup.first_window() {
            self.quiet.1 = self.quiet.1.min(*at);
        }
        if let Some(at) = self.groups.next_idle() {
            self.stir(at);
        }
        applied
    }

    fn apply_one(&mut self, op: &Op<'_>, now: u64) -> Applied {
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
                *self.grants = turns.grants.clone();
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
            Op::Promote { id, .. } if crate::canary::Fault::PromotionLosesAJob.is_on() => changed(self.remove(*id, false).map(|_| ())),
            Op::Promote { due, id } => changed(self.promote(*due, *id)),
            Op::Redrive { id, due, priority } => told(self.redrive(*id, *due, *priority, now), Event::Redrive),
            Op::Set { id, priority, due } => changed(self.set(*id, *priority, *due)),
            Op::Drop { id } => told(self.remove(*id, true).map(|_| ()), Event::Del),
            Op::Discard { id } => told(self.discard(*id), Event::Drop),
        }
    }

    /// Changes a job, and moves it to the orders that it then belongs in.
    fn change(&mut self, job: &Found, change: impl FnOnce(&mut Facts)) -> Option<()> {
        let Outline { state, group, priority, .. } = job.outline;
        let waits_in_turn = state == State::Ready && !self.groups.is_empty();
        let turn = if waits_in_turn { self.groups.turn(group, Reverse(priority)) } else { 0 };
        let mut facts = self.jobs.take(job.slot)?;
        change(&mut facts);
        let outline = facts.outline(job.size);
        self.jobs.put_back(job.slot, &mut facts)?;
        self.relink(job.slot, &job.outline, &outline);
        if waits_in_turn && (outline.state, outline.priority) == (state, priority) {
            // It does not come anew, so its turn is what it was.
            self.groups.set_turn(group, Reverse(priority), turn);
        }
        Some(())
    }

    /// The one routine that makes a job wait again: ready, placed at `place`, or delayed until
    /// `due`. A place in the past is one that it had before: then `now` tells since when it is back.
    fn make_wait(job: &mut Facts, due: Option<u64>, place: u64, now: u64) {
        let more = &mut job.more;
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

    fn find(&self, id: JobId, fits: impl FnOnce(&Outline) -> bool) -> Option<Found> {
        self.found(self.slot_of(id)?).filter(|found| fits(&found.outline))
    }

    fn found(&self, slot: Slot) -> Option<Found> {
        let job = self.jobs.get(slot)?;
        Some(Found { slot, outline: *job, size: job.size() })
    }
}

/// A job that an op is about.
struct Found {
    slot: Slot,
    outline: Outline,
    /// Of its payload.
    size: u64,
}

/// Ready at `at`, which is its place. In a group that goes in order (`ordered`), one that a worker
/// has had must not fall behind those that it came before: its place is the one it had then.
fn make_ready(job: &mut Facts, at: u64, ordered: bool) {
    job.state = State::Ready;
    job.place = at;
    let more = &mut job.more;
    let returns = ordered && more.group.is_some() && more.token > 0;
    if returns {
        job.place = more.old_place;
    }
    more.back_since = if returns && more.old_place < at { at } else { 0 };
}

/// Gives a waiting job a new time.
fn move_to(job: &mut Facts, due: Option<Due>, ordered: bool) {
    let at = match due {
        None => return,
        Some(Due::Ready(at)) => {
            make_ready(job, at, ordered);
            at
        }
        Some(Due::Delayed(at)) => {
            (job.state, job.place) = (State::Delayed, at);
            at
        }
    };
    let more = &mut job.more;
    if job.state == State::Delayed {
        more.back_since = 0;
    }
    // The time to live counts from the first due time.
    if more.ttl_ms > 0 && more.total_deliveries == 0 {
        more.ttl_at = ttl_at(at, more.ttl_ms);
    }
}

fn ttl_at(due: u64, ttl_ms: u64) -> u64 {
    if ttl_ms == 0 { 0 } else { due.saturating_add(ttl_ms).min(MAX_TIME_MS) }
}
