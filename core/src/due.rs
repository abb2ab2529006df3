//! What time alone decides: due jobs, expired leases, times to live.

use crate::canary::Fault;
use crate::dedup::Key;
use crate::effects::{Effects, Run, Turn};
use crate::id::JobId;
use crate::job::{Job, Reason, State};
use crate::limits::DUE_STEPS;
use crate::op::Op;
use crate::pause::{Pause, Side};
use crate::queue::Queue;
use crate::store::Entry;

/// Which due work is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// All of it.
    All,
    /// All but expired leases.
    NotLeases,
    /// All but slots of schedules.
    NotSlots,
}

/// A due decision: an op, or one that needs a key of its own to live on.
enum Step {
    Op(Op<'static>),
    Windows(u64, Key),
    GroupPause(Box<[u8]>),
}

/// Does the due work of a queue, at most `max_steps` jobs of it. True: there is more to do now.
pub fn due(queue: &mut Queue, turn: &Turn<'_>, max_steps: u32, effects: &mut Effects) -> bool {
    Run::new(queue, turn, effects).due(Scope::All, max_steps)
}

impl Run<'_, '_> {
    /// Before its own work, a request that writes does some of the due work.
    pub(crate) fn due_first(&mut self, scope: Scope) {
        self.due(scope, DUE_STEPS);
    }

    fn due(&mut self, scope: Scope, max_steps: u32) -> bool {
        let now = self.now();
        if self.queue.is_quiet(now) {
            return false;
        }
        let more = self.due_steps(scope, max_steps);
        self.queue.quiet = (now, self.queue.next_due(now, 0));
        more
    }

    fn due_steps(&mut self, scope: Scope, max_steps: u32) -> bool {
        let mut left = max_steps;
        loop {
            if left > 0 && scope != Scope::NotSlots && self.slot_step() {
                left = left.saturating_sub(1);
                continue;
            }
            let Some((step, steps)) = self.due_step(scope, left) else { break };
            if left == 0 {
                return true;
            }
            match &step {
                Step::Op(op) => self.commit(op),
                Step::GroupPause(name) => self.commit(&Op::Pause { side: Side::Group(name), pause: None }),
                Step::Windows(until, key) => self.commit(&Op::CloseWindows { until: *until, key }),
            }
            left = left.saturating_sub(steps);
        }
        self.queue.schedules.first().is_some_and(|(at, _)| at <= self.now())
    }

    /// The next due op, and how many jobs it is about (at most `room`, at least one).
    fn due_step(&mut self, scope: Scope, room: u32) -> Option<(Step, u32)> {
        let now = self.now();
        if scope != Scope::NotLeases && (!self.turn.hold_expiry || Fault::GraceIsIgnored.is_on()) {
            if let Some(id) = self.expired() {
                return Some((Step::Op(self.expiry_of(id)?), 1));
            }
        }
        if self.queue.delayed.first().is_some_and(|first| first.at() <= now) {
            let (mut last, mut jobs) = (None, 0u32);
            for entry in self.queue.delayed.iter().take_while(|entry| entry.at() <= now).take(room.max(1) as usize) {
                last = Some(entry);
                jobs = jobs.saturating_add(1);
            }
            let (due, id) = last.and_then(|last| Some((last.at(), self.queue.jobs.id(last.slot())?)))?;
            return Some((Step::Op(Op::Promote { due, id }), jobs));
        }
        if let Some((_, id)) = self.queue.ttl.first_key(&self.queue.jobs).filter(|(at, _)| *at <= now) {
            return Some((Step::Op(Op::Bury { id, reason: Reason::Ttl, error: None }), 1));
        }
        if let Some((until, key, jobs)) = self.queue.dedup.ended_windows(now, room) {
            return Some((Step::Windows(until, key), jobs));
        }
        if let Some(step) = self.pause_over() {
            return Some((step, 1));
        }
        let idle = self.queue.groups.idle(now, DUE_STEPS);
        if idle > 0 {
            return Some((Step::Op(Op::Tidy), idle));
        }
        self.retention_step().map(|op| (Step::Op(op), 1))
    }

    /// A pause whose time is over.
    fn pause_over(&self) -> Option<Step> {
        let now = self.now();
        let over = |pause: &Option<Box<Pause>>| pause.as_ref().and_then(|pause| pause.until).is_some_and(|until| until <= now);
        let end = |side| Some(Step::Op(Op::Pause { side, pause: None }));
        match &self.queue.head {
            head if over(&head.paused_out) => end(Side::Out),
            head if over(&head.paused_in) => end(Side::In),
            _ => {
                let (_, group) = self.queue.groups.next_pause_end().filter(|(until, _)| *until <= now)?;
                Some(Step::GroupPause(group.name.clone()))
            }
        }
    }

    /// What retention removes next.
    fn retention_step(&self) -> Option<Op<'static>> {
        let now = self.now();
        let over = [State::Done, State::Dead].into_iter().find(|state| self.queue.retention_at(*state, now).is_some_and(|at| at <= now));
        self.queue.oldest(over?).map(|(_, id)| Op::Discard { id })
    }

    /// After its own work, a request holds the bounds of retention.
    pub(crate) fn retain(&mut self) {
        for _ in 0..DUE_STEPS {
            if self.queue.is_quiet(self.now()) {
                return;
            }
            let Some(op) = self.retention_step() else { return };
            self.commit(&op);
        }
    }

    /// A lease that has expired: past its deadline, or further ahead than any lease reaches.
    fn expired(&self) -> Option<JobId> {
        let now = self.now();
        let leased = &self.queue.leased;
        let first = leased.first().filter(|first| first.at() <= now);
        let last = || leased.last().filter(|last| self.queue.too_far(last.at(), now));
        first.or_else(last).and_then(|entry| self.queue.jobs.id(entry.slot()))
    }

    /// What becomes of a leased job whose lease ends by itself.
    pub(crate) fn expiry_of(&mut self, id: JobId) -> Option<Op<'static>> {
        let job = self.queue.job(id)?;
        let policy = &self.queue.head.policy;
        let more = job.more();
        let expiries = more.budget_expiries.saturating_add(1);
        if spent(more.deliveries, max_deliveries(&job, self.queue)) || spent(expiries, policy.max_expiries()) {
            return Some(Op::Bury { id, reason: Reason::ExpiredLease, error: None });
        }
        let wait = if policy.expiry_backoff() { policy.backoff_with_jitter_ms(expiries, self.random.next()) } else { 0 };
        Some(Op::Expire { id, due: in_future(wait, self.turn.now) })
    }
}

/// Whether a count has reached its limit; 0 is no limit.
pub(crate) fn spent(count: u64, limit: u64) -> bool {
    limit > 0 && count >= limit.saturating_add(u64::from(Fault::OneDeliveryTooMany.is_on()))
}

/// The limit of deliveries that holds for a job.
pub(crate) fn max_deliveries(job: &Job<'_>, queue: &Queue) -> u64 {
    job.more().own_max_deliveries.unwrap_or(queue.head.policy.max_deliveries())
}

/// A due time, unless the wait is 0.
pub(crate) fn in_future(wait_ms: u64, now: u64) -> Option<u64> {
    (wait_ms > 0).then(|| now.saturating_add(wait_ms))
}
