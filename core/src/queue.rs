//! A queue: its jobs, and the orders in which they are found.

use crate::dedup::Dedup;
use crate::groups::Groups;
use crate::id::JobId;
use crate::job::{Job, Reason, Slot, State};
use crate::names::Names;
use crate::pause::{Pause, Side};
use crate::policy::Policy;
use crate::rate::Grants;
use crate::ready::{merge, Ready, ReadyKey};
use crate::schedule::Schedules;
use crate::seldom::Seldom;
use crate::store::{ByTime, Jobs, Order};

/// Counted events of a queue's whole life. They never go back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as in RQ.INFO")]
pub struct Totals {
    pub pushed: u64,
    pub delivered: u64,
    pub acked: u64,
    pub failed: u64,
    pub expired: u64,
    pub released: u64,
    pub dead: u64,
    pub redriven: u64,
    pub dead_dropped: u64,
    pub trimmed: u64,
    pub slots_skipped: u64,
}

/// What a queue knows beside its jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Header {
    /// A number that no other queue has: it tells this value from a later one under the same key.
    pub(crate) incarnation: u64,
    pub(crate) policy: Policy,
    pub(crate) last_id: JobId,
    pub(crate) last_token: u64,
    /// The newest op time it has seen, Unix ms.
    pub(crate) newest_ms: u64,
    /// The longest lease it ever gave: a deadline further ahead than that has expired, because
    /// the clock must have stepped back.
    pub(crate) longest_lease_ms: u64,
    pub(crate) paused_out: Option<Box<Pause>>,
    pub(crate) paused_in: Option<Box<Pause>>,
    pub(crate) totals: Totals,
}

/// After all times.
pub(crate) const NEVER: u64 = u64::MAX;

/// Why nothing is leased.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Held {
    /// A pause.
    Paused,
    /// CONCURRENCY.
    Concurrency,
    /// RATE, until this time, Unix ms.
    RateUntil(u64),
}

/// A queue with all its jobs: the value of one key.
///
/// It is plain data: it can be sent to another thread and dropped there, and it holds nothing of
/// the server.
#[derive(Debug, Clone)]
pub struct Queue {
    pub(crate) head: Header,
    pub(crate) jobs: Jobs,
    pub(crate) ready: Ready,
    pub(crate) delayed: ByTime,
    pub(crate) leased: ByTime,
    pub(crate) dead: Seldom<[ByTime; 4]>,
    pub(crate) done: Seldom<ByTime>,
    /// Waiting jobs with a TTL, by the time at which they go to dead.
    pub(crate) ttl: Seldom<ByTime>,
    pub(crate) names: Names,
    pub(crate) dedup: Seldom<Dedup>,
    pub(crate) groups: Seldom<Groups>,
    pub(crate) schedules: Seldom<Schedules>,
    /// When leases were granted, for RATE.
    pub(crate) grants: Seldom<Grants>,
    /// Payload bytes by state.
    pub(crate) bytes: [u64; 5],
    /// From the first of these times until before the second, Unix ms, time alone changes nothing:
    /// so that not every command has to ask all orders. Whatever may come earlier says so by
    /// [`Queue::stir`].
    pub(crate) quiet: (u64, u64),
    /// How many delayed jobs were delivered in this budget.
    pub(crate) retrying: u64,
}

impl Queue {
    /// An empty queue with the default policy.
    pub(crate) fn new(incarnation: u64) -> Queue {
        Queue {
            head: Header {
                incarnation,
                policy: Policy::default(),
                last_id: JobId::ZERO,
                last_token: 0,
                newest_ms: 0,
                longest_lease_ms: 0,
                paused_out: None,
                paused_in: None,
                totals: Totals::default(),
            },
            jobs: Jobs::new(),
            ready: Ready::new(),
            delayed: Order::new(),
            leased: Order::new(),
            dead: Seldom::new(),
            done: Seldom::new(),
            ttl: Seldom::new(),
            names: Names::default(),
            dedup: Seldom::new(),
            groups: Seldom::new(),
            schedules: Seldom::new(),
            grants: Seldom::new(),
            bytes: [0; 5],
            quiet: (0, 0),
            retrying: 0,
        }
    }

    /// The number that tells this queue from any other, also from an earlier one of its key.
    pub fn incarnation(&self) -> u64 {
        self.head.incarnation
    }

    /// The newest op time it has seen, Unix ms: a floor for the node's clock.
    pub fn newest_ms(&self) -> u64 {
        self.head.newest_ms
    }

    /// The last token that it has given.
    pub fn last_token(&self) -> u64 {
        self.head.last_token
    }

    /// Its policy.
    pub fn policy(&self) -> &Policy {
        &self.head.policy
    }

    /// Since when the job that has been ready for the longest time is ready, Unix ms.
    pub fn oldest_ready_ms(&self) -> Option<u64> {
        self.ready.oldest_since(&self.jobs)
    }

    /// The number of jobs in all states.
    pub fn jobs(&self) -> usize {
        self.jobs.len()
    }

    /// Whether it is worth trying to lease at `now`.
    pub fn may_lease(&self, now: u64) -> bool {
        self.barred(now).is_none() && (self.ready.len(&self.jobs) > 0 || self.groups.any_in_turn(now))
    }

    /// Why nothing at all is leased at `now`, however much is ready.
    pub(crate) fn barred(&self, now: u64) -> Option<Held> {
        if Pause::on(self.head.paused_out.as_deref(), now).is_some() {
            return Some(Held::Paused);
        }
        if self.is_at_concurrency() {
            return Some(Held::Concurrency);
        }
        self.grants.barred_until(now, self.head.policy.rate()).map(Held::RateUntil)
    }

    /// A pause that was set and not ended yet; its time may be over.
    pub(crate) fn pause(&self, side: Side<'_>) -> Option<&Pause> {
        match side {
            Side::Out => self.head.paused_out.as_deref(),
            Side::In => self.head.paused_in.as_deref(),
            Side::Group(name) => self.groups.get(self.groups.find(name)?)?.pause.as_ref(),
        }
    }

    /// Whether as many leases are out as CONCURRENCY allows.
    pub(crate) fn is_at_concurrency(&self) -> bool {
        self.head.policy.concurrency().is_some_and(|limit| self.leased.len() as u64 >= limit.saturating_add(u64::from(crate::canary::Fault::OneLeaseTooMany.is_on())))
    }

    /// Ready jobs in the order of PEEK: priority, place, id.
    pub(crate) fn ready_after(&self, after: Option<ReadyKey>) -> impl Iterator<Item = (ReadyKey, Slot)> + '_ {
        merge(self.ready.after(after, &self.jobs), self.groups.ready_after(after, &self.jobs))
    }

    /// The number of jobs in a state.
    pub fn count(&self, state: State) -> usize {
        match state {
            State::Ready => self.ready.len(&self.jobs).saturating_add(self.groups.ready()),
            State::Delayed => self.delayed.len(),
            State::Leased => self.leased.len(),
            State::Dead => self.dead.iter().fold(0, |sum, dead| sum.saturating_add(dead.len())),
            State::Done => self.done.len(),
        }
    }

    /// The number of jobs that are ready, delayed or leased.
    pub(crate) fn live(&self) -> u64 {
        State::LIVE.into_iter().fold(0, |sum, state| sum.saturating_add(self.count(state) as u64))
    }

    /// Their bytes, and those of held duplicates.
    pub(crate) fn live_bytes(&self) -> u64 {
        let (_, held) = self.dedup.held();
        State::LIVE.into_iter().filter_map(|state| self.bytes.get(state as usize)).fold(held, |sum, bytes| sum.saturating_add(*bytes))
    }

    /// The number of dead jobs by reason.
    pub(crate) fn dead_count(&self, reason: Reason) -> usize {
        self.dead.get(reason as usize).map_or(0, Order::len)
    }

    /// When time alone changes something next, Unix ms; in the past: now. No lease expires before
    /// `no_expiry_before`.
    pub fn next_event(&self, now: u64, no_expiry_before: u64) -> Option<u64> {
        let next = self.next_due(now, no_expiry_before).min(self.reopens(now));
        Some(next).filter(|at| *at < NEVER)
    }

    /// When to look at the queue again, Unix ms: not after the next event, but maybe before, for
    /// something that has been settled since. Cheap: to be asked after each command.
    pub fn look_again_at(&self, now: u64, no_expiry_before: u64) -> Option<u64> {
        if !self.is_quiet(now) {
            return self.next_event(now, no_expiry_before);
        }
        Some(self.quiet.1.min(self.reopens(now))).filter(|at| *at < NEVER)
    }

    /// When leasing may go on. What only opens a door is an event if somebody may be waiting behind
    /// it, and once.
    fn reopens(&self, now: u64) -> u64 {
        let reopens = match self.barred(now).filter(|_| self.count(State::Ready) > 0) {
            Some(Held::RateUntil(at)) => Some(at),
            Some(_) => None,
            None => self.groups.next_wake(now),
        };
        reopens.unwrap_or(NEVER)
    }

    /// Whether it is known that time alone has nothing to do at `now`.
    pub(crate) fn is_quiet(&self, now: u64) -> bool {
        self.quiet.0 <= now && now < self.quiet.1
    }

    /// Something may be due at this time, Unix ms.
    pub(crate) fn stir(&mut self, at: u64) {
        self.quiet.1 = self.quiet.1.min(at);
    }

    /// When the next of all that is due by time is; [`NEVER`] if there is nothing.
    pub(crate) fn next_due(&self, now: u64, no_expiry_before: u64) -> u64 {
        let mut expiry = self.leased.first().map(|first| first.at());
        if self.leased.last().is_some_and(|last| self.too_far(last.at(), now)) {
            expiry = Some(now);
        }
        let pauses = [&self.head.paused_out, &self.head.paused_in].into_iter().flatten().filter_map(|pause| pause.until).min();
        let events = [
            expiry.map(|at| at.max(no_expiry_before)),
            self.delayed.first().map(|first| first.at()),
            self.ttl.first().map(|first| first.at()),
            self.retention_at(State::Done, now),
            self.retention_at(State::Dead, now),
            pauses,
            self.groups.next_pause_end().map(|(at, _)| at),
            self.groups.next_idle(),
            self.schedules.first().map(|(at, _)| at),
            self.dedup.first_window().map(|(at, _)| *at),
        ];
        events.into_iter().flatten().min().unwrap_or(NEVER)
    }

    /// The oldest job that is finished or dead, and since when it is.
    pub(crate) fn oldest(&self, state: State) -> Option<(u64, JobId)> {
        match state {
            State::Done => self.done.first_key(&self.jobs),
            State::Dead => self.dead.iter().filter_map(|dead| dead.first_key(&self.jobs)).min(),
            _ => None,
        }
    }

    /// When retention removes the oldest finished or dead job, Unix ms; in the past: now.
    pub(crate) fn retention_at(&self, state: State, now: u64) -> Option<u64> {
        let (since, _) = self.oldest(state)?;
        let (count, bytes, ms) = self.head.policy.retention(state)?;
        let held = self.bytes.get(state as usize).copied().unwrap_or(0);
        let over = |bound: Option<u64>, value: u64| bound.is_some_and(|bound| value > bound || bound == 0);
        if over(count, self.count(state) as u64) || over(bytes, held) {
            return Some(now);
        }
        ms.map(|ms| since.saturating_add(ms))
    }

    /// Whether a deadline is further ahead than any lease reaches.
    pub(crate) fn too_far(&self, deadline: u64, now: u64) -> bool {
        deadline > now.saturating_add(self.head.longest_lease_ms)
    }

    /// About how many bytes it takes; O(1).
    pub fn mem_usage(&self) -> usize {
        let orders: [&ByTime; 4] = [&self.delayed, &self.leased, &self.done, &self.ttl];
        let orders = orders.into_iter().chain(self.dead.iter());
        let seldom = [
            self.dead.own_bytes(), self.done.own_bytes(), self.ttl.own_bytes(), self.grants.own_bytes(), self.dedup.own_bytes(),
            self.groups.own_bytes(), self.schedules.own_bytes(),
        ];
        let parts = [
            seldom.iter().sum(),
            std::mem::size_of::<Queue>(),
            self.jobs.bytes(),
            self.ready.bytes(),
            self.names.bytes(self.leased.len()),
            self.dedup.bytes(),
            self.groups.bytes(),
            self.schedules.bytes(),
            self.grants.bytes(),
            orders.fold(0, |sum, order| sum.saturating_add(order.bytes())),
        ];
        parts.into_iter().fold(0, usize::saturating_add)
    }

    /// A copy for another key, with an incarnation of its own.
    pub fn copy(&self, incarnation: u64) -> Queue {
        let mut copy = self.clone();
        copy.head.incarnation = incarnation;
        copy
    }

    pub(crate) fn slot_of(&self, id: JobId) -> Option<Slot> {
        self.jobs.find(id)
    }

    pub(crate) fn job(&self, id: JobId) -> Option<Job<'_>> {
        self.jobs.get(self.slot_of(id)?)
    }

    pub(crate) fn group(&self, job: &Job<'_>) -> Option<&[u8]> {
        Some(&self.groups.get(job.group?)?.name)
    }

    pub(crate) fn consumer(&self, job: &Job<'_>) -> Option<&[u8]> {
        Some(&self.names.get(job.consumer?)?.text)
    }
}

/// With what the shell keeps beside it, the largest that a size class of the usual allocators has room for.
const _: () = assert!(std::mem::size_of::<Queue>() <= 760);

/// The incarnation of a copy: the same on primary and replicas, where the server replays COPY.
pub fn copy_incarnation(old: u64, db: i32, key: &[u8]) -> u64 {
    // FNV-1a over all three, then a final mix: no secret, only spread.
    let parts = old.to_le_bytes().into_iter().chain(db.to_le_bytes()).chain(key.iter().copied());
    crate::random::mix(parts.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)))
}
