//! A queue: its jobs, and the orders in which they are found.

use std::cmp::Reverse;

use crate::dedup::Dedup;
use crate::groups::Groups;
use crate::id::JobId;
use crate::job::{Job, Links, NameId, Reason, Slot, State};
use crate::names::{Name, Names};
use crate::pause::{Pause, Side};
use crate::policy::Policy;
use crate::rate::Grants;
use crate::ready::{merge, Ready, ReadyKey};
use crate::schedule::Schedules;
use crate::slab::Slab;
use crate::sorted::Sorted;

/// Jobs ordered by a time, then by id.
pub(crate) type ByTime = Sorted<(u64, JobId), Slot>;

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
    pub(crate) paused_out: Option<Pause>,
    pub(crate) paused_in: Option<Pause>,
    pub(crate) totals: Totals,
}

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
    pub(crate) jobs: Slab,
    pub(crate) by_id: Sorted<JobId, Slot>,
    pub(crate) ready: Ready,
    pub(crate) delayed: ByTime,
    pub(crate) leased: ByTime,
    /// Leased jobs by the time of their delivery: the first is the oldest lease, which may have
    /// been extended past all others.
    pub(crate) held_since: Sorted<(u64, JobId), ()>,
    pub(crate) dead: [ByTime; 4],
    pub(crate) done: ByTime,
    /// Waiting jobs with a TTL, by the time at which they go to dead.
    pub(crate) ttl: ByTime,
    pub(crate) names: Names,
    pub(crate) dedup: Dedup,
    pub(crate) groups: Groups,
    pub(crate) schedules: Schedules,
    /// When leases were granted, for RATE.
    pub(crate) grants: Grants,
    /// Payload bytes by state.
    pub(crate) bytes: [u64; 5],
    /// How many delayed jobs were delivered in this budget.
    pub(crate) retrying: u64,
    /// How many jobs have a [`crate::job::More`].
    pub(crate) with_more: usize,
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
            jobs: Slab::new(),
            by_id: Sorted::new(),
            ready: Ready::new(),
            delayed: Sorted::new(),
            leased: Sorted::new(),
            held_since: Sorted::new(),
            dead: [Sorted::new(), Sorted::new(), Sorted::new(), Sorted::new()],
            done: Sorted::new(),
            ttl: Sorted::new(),
            names: Names::default(),
            dedup: Dedup::default(),
            groups: Groups::new(),
            schedules: Schedules::default(),
            grants: Grants::default(),
            bytes: [0; 5],
            retrying: 0,
            with_more: 0,
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

    /// Its policy.
    pub fn policy(&self) -> &Policy {
        &self.head.policy
    }

    /// Since when the job that has been ready for the longest time is ready, Unix ms.
    pub fn oldest_ready_ms(&self) -> Option<u64> {
        self.ready.oldest_since()
    }

    /// The number of jobs in all states.
    pub fn jobs(&self) -> usize {
        self.by_id.len()
    }

    /// Whether it is worth trying to lease at `now`.
    pub fn may_lease(&self, now: u64) -> bool {
        self.barred(now).is_none() && (self.ready.len() > 0 || self.groups.any_in_turn(now))
    }

    /// Why nothing at all is leased at `now`, however much is ready.
    pub(crate) fn barred(&self, now: u64) -> Option<Held> {
        if Pause::on(self.head.paused_out.as_ref(), now).is_some() {
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
            Side::Out => self.head.paused_out.as_ref(),
            Side::In => self.head.paused_in.as_ref(),
            Side::Group(name) => self.groups.get(self.groups.find(name)?)?.pause.as_ref(),
        }
    }

    /// Whether as many leases are out as CONCURRENCY allows.
    pub(crate) fn is_at_concurrency(&self) -> bool {
        self.head.policy.concurrency().is_some_and(|limit| self.leased.len() as u64 >= limit.saturating_add(u64::from(crate::canary::Fault::OneLeaseTooMany.is_on())))
    }

    /// Ready jobs in the order of PEEK: priority, place, id.
    pub(crate) fn ready_after(&self, after: Option<ReadyKey>) -> impl Iterator<Item = (ReadyKey, Slot)> + '_ {
        merge(self.ready.after(after), self.groups.ready_after(after))
    }

    /// The number of jobs in a state.
    pub fn count(&self, state: State) -> usize {
        match state {
            State::Ready => self.ready.len().saturating_add(self.groups.ready()),
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
        self.dead.get(reason as usize).map_or(0, Sorted::len)
    }

    /// When time alone changes something next, Unix ms; in the past: now. No lease expires before
    /// `no_expiry_before`.
    pub fn next_event(&self, now: u64, no_expiry_before: u64) -> Option<u64> {
        let mut expiry = self.leased.first().map(|((at, _), _)| at);
        if self.leased.last().is_some_and(|((at, _), _)| self.too_far(at, now)) {
            expiry = Some(now);
        }
        let expiry = expiry.map(|at| at.max(no_expiry_before));
        let due = self.delayed.first().map(|((at, _), _)| at);
        let ttl = self.ttl.first().map(|((at, _), _)| at);
        let ready = self.count(State::Ready) > 0;
        // What only opens a door is an event if somebody may be waiting behind it, and once.
        let reopens = match self.barred(now).filter(|_| ready) {
            Some(Held::RateUntil(at)) => Some(at),
            Some(_) => None,
            None => self.groups.next_wake(now),
        };
        let pauses = [&self.head.paused_out, &self.head.paused_in].into_iter().flatten().filter_map(|pause| pause.until).min();
        let group_pause = self.groups.next_pause_end().map(|(at, _)| at);
        let slot = self.schedules.first().map(|(at, _)| at);
        let window = self.dedup.first_window().map(|(at, _)| *at);
        let retention = [State::Done, State::Dead].into_iter().filter_map(|state| self.retention_at(state, now)).min();
        [expiry, due, ttl, slot, window, retention, reopens, pauses, group_pause, self.groups.next_idle()].into_iter().flatten().min()
    }

    /// The oldest job that is finished or dead, and since when it is.
    pub(crate) fn oldest(&self, state: State) -> Option<(u64, JobId)> {
        match state {
            State::Done => self.done.first().map(|(key, _)| key),
            State::Dead => self.dead.iter().filter_map(|dead| dead.first()).map(|(key, _)| key).min(),
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
        let payloads = self.bytes.iter().fold(0u64, |sum, bytes| sum.saturating_add(*bytes));
        let jobs = self.jobs();
        let more = std::mem::size_of::<crate::job::More>().saturating_add(8);
        let orders = [&self.delayed, &self.leased, &self.done, &self.ttl].into_iter().chain(&self.dead);
        let parts = [
            std::mem::size_of::<Queue>(),
            usize::try_from(payloads).unwrap_or(usize::MAX),
            // What the allocator adds to each payload.
            jobs.saturating_mul(12),
            self.jobs.bytes(),
            self.with_more.saturating_mul(more),
            self.by_id.bytes(),
            self.ready.bytes(),
            self.names.bytes(),
            self.held_since.bytes(),
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
        self.by_id.get(&id)
    }

    pub(crate) fn job(&self, id: JobId) -> Option<&Job> {
        self.jobs.get(self.slot_of(id)?)
    }

    pub(crate) fn group(&self, job: &Job) -> Option<&[u8]> {
        Some(&self.groups.get(job.more().group?)?.name)
    }

    pub(crate) fn consumer(&self, job: &Job) -> Option<&[u8]> {
        Some(&self.names.get(job.more().consumer?)?.text)
    }

    /// Puts a job into the order of its state. Its fields say which and where.
    pub(crate) fn link(&mut self, slot: Slot) {
        let Some(job) = self.jobs.get(slot) else { return };
        let (id, state, size, more) = (job.id, job.state, job.bytes(), job.more());
        let (until, deliveries, reason, consumer) = (more.until, more.deliveries, more.reason, more.consumer);
        let (delivered_at, group, token, place) = (more.last_delivered_at, more.group, more.token, job.place);
        let ttl_at = job.ttl_at();
        if let Some(bytes) = self.bytes.get_mut(state as usize) {
            *bytes = bytes.saturating_add(size);
        }
        match state {
            State::Ready => {
                let (key, since) = (ready_key(job), back_since(job));
                match group {
                    Some(group) => {
                        self.ready.since.insert((since.unwrap_or(key.1), id), ());
                        self.groups.insert_ready(group, key, slot);
                    }
                    None => {
                        if !self.groups.is_empty() && !self.ready.has_priority(key.0) {
                            self.groups.bare_arrives(key.0);
                        }
                        self.ready.insert(key, since, slot);
                    }
                }
            }
            State::Delayed => {
                if let (Some(group), true) = (group, token > 0) {
                    self.groups.count_retrying(group, true);
                }
                self.delayed.insert((place, id), slot);
                self.retrying = self.retrying.saturating_add(u64::from(deliveries > 0));
            }
            State::Leased => {
                self.leased.insert((until, id), slot);
                self.held_since.insert((delivered_at, id), ());
                if let Some(group) = group {
                    self.groups.count_leased(group, true);
                }
                self.link_lease(slot, consumer);
            }
            State::Dead => {
                if let Some(dead) = reason.and_then(|reason| self.dead.get_mut(reason as usize)) {
                    dead.insert((until, id), slot);
                }
            }
            State::Done => {
                self.done.insert((until, id), slot);
            }
        }
        if let (true, Some(at)) = (state.waits(), ttl_at) {
            self.ttl.insert((at, id), slot);
        }
    }

    /// Takes a job out of the order of its state, before its fields change.
    pub(crate) fn unlink(&mut self, slot: Slot) {
        let Some(job) = self.jobs.get(slot) else { return };
        let (id, state, size, more) = (job.id, job.state, job.bytes(), job.more());
        let (until, deliveries, reason) = (more.until, more.deliveries, more.reason);
        let (delivered_at, group, token, place) = (more.last_delivered_at, more.group, more.token, job.place);
        let ttl_at = job.ttl_at();
        if let Some(bytes) = self.bytes.get_mut(state as usize) {
            *bytes = bytes.saturating_sub(size);
        }
        match state {
            State::Ready => {
                let (key, since) = (ready_key(job), back_since(job));
                match group {
                    Some(group) => {
                        self.ready.since.remove(&(since.unwrap_or(key.1), id));
                        self.groups.remove_ready(group, key);
                    }
                    None => self.ready.remove(key, since),
                }
            }
            State::Delayed => {
                if let (Some(group), true) = (group, token > 0) {
                    self.groups.count_retrying(group, false);
                }
                self.delayed.remove(&(place, id));
                self.retrying = self.retrying.saturating_sub(u64::from(deliveries > 0));
            }
            State::Leased => {
                self.leased.remove(&(until, id));
                self.held_since.remove(&(delivered_at, id));
                if let Some(group) = group {
                    self.groups.count_leased(group, false);
                }
                self.unlink_lease(slot);
            }
            State::Dead => {
                if let Some(dead) = reason.and_then(|reason| self.dead.get_mut(reason as usize)) {
                    dead.remove(&(until, id));
                }
            }
            State::Done => {
                self.done.remove(&(until, id));
            }
        }
        if let (true, Some(at)) = (state.waits(), ttl_at) {
            self.ttl.remove(&(at, id));
        }
    }

    /// Puts a leased job at the head of its consumer's list.
    fn link_lease(&mut self, slot: Slot, consumer: Option<NameId>) {
        let Some(name) = consumer.and_then(|id| self.names.get_mut(id)) else { return };
        name.leases = name.leases.saturating_add(1);
        let after = name.leased.replace(slot);
        if let Some(job) = self.jobs.get_mut(slot) {
            job.more_mut().links = Links { before: None, after };
        }
        if let Some(next) = after.and_then(|next| self.jobs.get_mut(next)) {
            next.more_mut().links.before = Some(slot);
        }
    }

    fn unlink_lease(&mut self, slot: Slot) {
        let Some(job) = self.jobs.get_mut(slot) else { return };
        let more = job.more_mut();
        let (links, consumer) = (std::mem::take(&mut more.links), more.consumer);
        if let Some(name) = consumer.and_then(|id| self.names.get_mut(id)) {
            name.leases = name.leases.saturating_sub(1);
        }
        match links.before {
            Some(before) => {
                if let Some(job) = self.jobs.get_mut(before) {
                    job.more_mut().links.after = links.after;
                }
            }
            None => {
                if let Some(name) = consumer.and_then(|id| self.names.get_mut(id)) {
                    name.leased = links.after;
                }
            }
        }
        if let Some(job) = links.after.and_then(|after| self.jobs.get_mut(after)) {
            job.more_mut().links.before = links.before;
        }
    }

    /// The jobs that a consumer has leased, in no order.
    pub(crate) fn leased_by(&self, name: &Name) -> impl Iterator<Item = &Job> {
        let job = |slot: Option<Slot>| self.jobs.get(slot?);
        std::iter::successors(job(name.leased), move |before| job(before.more().links.after))
    }

    /// The jobs that a consumer has leased, oldest deadline first.
    pub(crate) fn leases_of(&self, consumer: &[u8]) -> Vec<JobId> {
        let name = self.names.find(consumer);
        let mut leases: Vec<_> = name.into_iter().flat_map(|name| self.leased_by(name)).map(|job| (job.more().until, job.id)).collect();
        leases.sort_unstable();
        leases.into_iter().map(|(_, id)| id).collect()
    }
}

pub(crate) fn ready_key(job: &Job) -> ReadyKey {
    (Reverse(job.priority), job.place, job.id)
}

fn back_since(job: &Job) -> Option<u64> {
    Some(job.more().back_since).filter(|since| *since > 0)
}

/// The incarnation of a copy: the same on primary and replicas, where the server replays COPY.
pub fn copy_incarnation(old: u64, db: i32, key: &[u8]) -> u64 {
    // FNV-1a over all three, then a final mix: no secret, only spread.
    let parts = old.to_le_bytes().into_iter().chain(db.to_le_bytes()).chain(key.iter().copied());
    crate::random::mix(parts.fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)))
}
