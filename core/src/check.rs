//! Every invariant of a queue, checked from scratch: for tests, and for what comes from outside.

use crate::groups::Seen;
use crate::id::JobId;
use crate::job::{Job, Settled, State};
use crate::limits::{MAX_DELIVERIES, MAX_ERROR, MAX_LEASE_MS, MAX_SPAN_MS, MAX_TIME_MS};
use crate::orders::{back_since, ready_key};
use crate::queue::Queue;
use crate::store::ByTime;

/// Whether the fields of one job go together.
pub(crate) fn check_job(job: &Job<'_>, has_consumer: bool) -> Result<(), &'static str> {
    let more = job.more();
    let rule = |holds: bool, what: &'static str| if holds { Ok(()) } else { Err(what) };
    rule(job.id > JobId::ZERO && job.id.ms <= MAX_TIME_MS, "a job without an id")?;
    rule(job.place <= MAX_TIME_MS, "a place out of range")?;
    rule(more.own_lease_ms <= MAX_LEASE_MS && more.lease_ms <= MAX_LEASE_MS, "a lease out of range")?;
    rule(more.ttl_ms <= MAX_SPAN_MS && (more.ttl_ms > 0) == (more.ttl_at > 0), "a time to live out of range")?;
    rule(more.ttl_at <= MAX_TIME_MS.saturating_add(MAX_SPAN_MS), "a time to live out of range")?;
    rule(more.own_max_deliveries.is_none_or(|max| max <= MAX_DELIVERIES), "deliveries out of range")?;
    rule(more.error.len() <= MAX_ERROR, "an error text that is too long")?;
    rule(more.settled == Settled::No || more.token > 0, "a settlement without a token")?;
    rule(more.token == 0 || more.lease_ms > 0, "a token without a lease")?;
    rule((more.lease_ms > 0) == has_consumer, "a lease without a consumer")?;
    rule((more.lease_ms > 0) == (more.last_delivered_at > 0), "a lease without a delivery")?;
    rule((more.lease_ms > 0) == (more.first_delivered_at > 0), "a lease without a delivery")?;
    rule(more.first_delivered_at <= MAX_TIME_MS && more.last_delivered_at <= MAX_TIME_MS, "a delivery out of range")?;
    rule(more.deliveries <= more.total_deliveries, "more deliveries of this budget than in all")?;
    rule(more.budget_failures <= more.failures, "more failures of this budget than in all")?;
    rule(more.budget_expiries <= more.expiries, "more expiries of this budget than in all")?;
    rule((more.reason.is_some()) == (job.state == State::Dead), "a reason and not dead, or dead without one")?;
    rule((more.until > 0) == matches!(job.state, State::Leased | State::Dead | State::Done), "a deadline without a lease")?;
    rule(more.until <= MAX_TIME_MS, "a deadline out of range")?;
    rule(more.back_since <= MAX_TIME_MS && more.old_place <= MAX_TIME_MS, "a place out of range")?;
    rule(more.back_since == 0 || job.state == State::Ready, "came back and not ready")?;
    let live = job.state == State::Leased;
    rule(!live || (more.token > 0 && more.settled == Settled::No), "leased without a token")?;
    rule((job.state == State::Done) == (more.settled == Settled::Finished), "done and not finished, or finished and not done")?;
    rule(more.dedup_window_ms <= MAX_SPAN_MS && (more.dedup_window_ms == 0 || more.dedup.is_some()), "a window without a key")?;
    rule(more.slot_at <= MAX_TIME_MS && (more.slot_at == 0 || more.schedule.is_some()), "a slot without a schedule")?;
    rule(more.result.is_empty() || job.state == State::Done, "a result before the end")
}

/// Whether a queue is valid: every order has exactly the jobs it should, every count is right.
///
/// # Errors
/// What is wrong, for a person.
pub fn check(queue: &Queue) -> Result<(), String> {
    let jobs = &queue.jobs;
    jobs.check()?;
    queue.ready.check(jobs)?;
    let orders: [&ByTime; 4] = [&queue.delayed, &queue.leased, &queue.done, &queue.ttl];
    for order in orders.into_iter().chain(queue.dead.iter()) {
        order.check(jobs)?;
    }
    let (from, until) = queue.quiet;
    let now = from.max(queue.head.newest_ms);
    if queue.is_quiet(now) && queue.next_due(now, 0) < until {
        return Err(format!("quiet from {from} until {until}, but something is due at {}", queue.next_due(now, 0)));
    }
    let (mut bytes, mut counts, mut retrying, mut ttls) = ([0u64; 5], [0usize; 5], 0u64, 0usize);
    let mut holds = std::collections::BTreeMap::new();
    let (mut groups, mut sinces) = (std::collections::BTreeMap::new(), 0u64);
    for (id, slot) in jobs.iter() {
        let job = jobs.get(slot).ok_or_else(|| format!("{id} points nowhere"))?;
        if job.id != id {
            return Err(format!("{id} points at {}", job.id));
        }
        let more = job.more();
        check_job(&job, more.consumer.is_some()).map_err(|what| format!("{id}: {what}"))?;
        if id > queue.head.last_id {
            return Err(format!("{id} is above the last id {}", queue.head.last_id));
        }
        if more.token > queue.head.last_token {
            return Err(format!("{id}: token {} is above the last one {}", more.token, queue.head.last_token));
        }
        let found = match job.state {
            State::Ready if more.group.is_some() => queue.groups.has_ready(ready_key(&job), slot, jobs),
            State::Ready => job.plain || queue.ready.has(ready_key(&job), back_since(&job), slot, jobs),
            State::Delayed => queue.delayed.has((job.place, id), slot, jobs),
            State::Leased => {
                let by_consumer = more.consumer.is_some_and(|consumer| queue.names.has(consumer, (more.last_delivered_at, id), slot, jobs));
                by_consumer && queue.leased.has((more.until, id), slot, jobs)
            }
            State::Dead => more.reason.and_then(|reason| queue.dead.get(reason as usize)).is_some_and(|dead| dead.has((more.until, id), slot, jobs)),
            State::Done => queue.done.has((more.until, id), slot, jobs),
        };
        if !found {
            return Err(format!("{id} is {} but not found there", job.state.name()));
        }
        if let (true, Some(at)) = (job.state.waits(), job.ttl_at()) {
            ttls = ttls.saturating_add(1);
            if !queue.ttl.has((at, id), slot, jobs) {
                return Err(format!("{id} is not found by its time to live"));
            }
        }
        if let Some(name) = more.consumer {
            let entry: &mut (u64, usize) = holds.entry(name).or_default();
            entry.0 = entry.0.saturating_add(1);
            entry.1 = entry.1.saturating_add(usize::from(job.state == State::Leased));
        }
        if let Some(group) = more.group {
            let seen: &mut Seen = groups.entry(group).or_default();
            seen.jobs = seen.jobs.saturating_add(1);
            seen.leased = seen.leased.saturating_add(u64::from(job.state == State::Leased));
            seen.retrying = seen.retrying.saturating_add(u64::from(job.state == State::Delayed && more.token > 0));
        }
        if job.state == State::Ready && (more.group.is_some() || more.back_since > 0) {
            sinces = sinces.saturating_add(1);
        }
        retrying = retrying.saturating_add(u64::from(job.state == State::Delayed && more.deliveries > 0));
        if let (Some(sum), Some(count)) = (bytes.get_mut(job.state as usize), counts.get_mut(job.state as usize)) {
            *sum = sum.saturating_add(job.bytes);
            *count = count.saturating_add(1);
        }
    }
    let same = |what: &str, counted: u64, kept: u64| {
        if counted == kept { Ok(()) } else { Err(format!("{what}: {counted} counted, {kept} kept")) }
    };
    for (state, (count, sum)) in State::ALL.into_iter().zip(counts.into_iter().zip(bytes)) {
        same(state.name(), count as u64, queue.count(state) as u64)?;
        same("bytes", sum, queue.bytes.get(state as usize).copied().unwrap_or(0))?;
    }
    same("retrying", retrying, queue.retrying)?;
    same("times to live", ttls as u64, queue.ttl.len() as u64)?;
    queue.names.check(&holds, jobs)?;
    queue.dedup.check(|id| {
        let job = queue.job(id)?;
        Some((job.state.is_live(), job.more().dedup.clone()))
    })?;
    queue.schedules.check()?;
    queue.groups.check(&groups, jobs)?;
    same("ready jobs by age", sinces, queue.ready.since.len() as u64)
}
