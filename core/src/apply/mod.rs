//! What each op does to a queue. Total: it knows no clock, no limit, and cannot refuse; an op
//! that does not fit the job it names changes nothing and says so.

mod deliver;
mod produce;

use crate::id::JobId;
use crate::job::{Job, Slot, State};
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
            Op::Promote { id, .. } if crate::canary::Fault::PromotionLosesAJob.is_on() => changed(self.remove(*id, false).map(|_| ())),
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

fn ttl_at(due: u64, ttl_ms: u64) -> u64 {
    if ttl_ms == 0 { 0 } else { due.saturating_add(ttl_ms).min(MAX_TIME_MS) }
}
