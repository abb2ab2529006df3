//! What the reference shows: GET, PEEK, INFO, LEN.

use rq_core::Tree;

use super::bounds::Barred;
use super::job::{Job, Policy, Token};
use super::op::{id_text, State};
use super::queue::Reference;

fn int(n: u64) -> Tree {
    Tree::Int(i64::try_from(n).unwrap())
}

fn text(text: &str) -> Tree {
    Tree::Bulk(text.into())
}

fn optional(n: Option<u64>) -> Tree {
    n.map_or(Tree::Null, int)
}

pub fn map(pairs: Vec<(&str, Tree)>) -> Tree {
    Tree::Map(pairs.into_iter().map(|(name, value)| (text(name), value)).collect())
}

impl Job {
    /// The map of RQ.GET. What does not apply to a job is null.
    pub fn shown(&self, policy: &Policy, payload: bool) -> Tree {
        let leased = self.state == State::Leased;
        let dead = self.state == State::Dead;
        let delivered = self.last_delivered.is_some();
        let mut pairs = vec![
            ("id", Tree::Bulk(id_text(self.id))),
            ("state", text(self.state.name())),
            ("priority", Tree::Int(i64::from(self.priority))),
            ("group", self.group.clone().map_or(Tree::Null, Tree::Bulk)),
            ("dedup", self.dedup.clone().map_or(Tree::Null, |(key, _)| Tree::Bulk(key))),
            ("schedule", self.slot.clone().map_or(Tree::Null, |(name, _)| Tree::Bulk(name))),
            ("slot-at", optional(self.slot.as_ref().map(|(_, at)| *at))),
            ("pushed-at", int(self.id.0)),
            ("due-at", int(self.place)),
            ("deliveries", int(self.deliveries)),
            ("max-deliveries", int(self.max_deliveries(policy))),
            ("total-deliveries", int(self.total_deliveries)),
            ("failures", int(self.failures)),
            ("expiries", int(self.expiries)),
            ("releases", int(self.releases)),
            ("redrives", int(self.redrives)),
            ("token", optional(Some(self.token).filter(|_| self.token_is != Token::Void))),
            ("consumer", self.consumer.clone().map_or(Tree::Null, Tree::Bulk)),
            ("lease-ms", optional(Some(self.lease_ms).filter(|_| delivered))),
            ("deadline", optional(Some(self.deadline).filter(|_| leased))),
            ("first-delivered-at", optional(self.first_delivered)),
            ("last-delivered-at", optional(self.last_delivered)),
            ("dead-at", optional(Some(self.dead_at).filter(|_| dead))),
            ("done-at", optional(Some(self.done_at).filter(|_| self.state == State::Done))),
            ("reason", self.reason.filter(|_| dead).map_or(Tree::Null, text)),
            ("error", if self.error.is_empty() { Tree::Null } else { Tree::Bulk(self.error.clone()) }),
            ("result", if self.state == State::Done { Tree::Bulk(self.result.clone()) } else { Tree::Null }),
            ("size", int(self.payload.len() as u64)),
        ];
        if payload {
            pairs.push(("payload", Tree::Bulk(self.payload.clone())));
        }
        map(pairs)
    }
}

impl Reference {
    fn bytes(&self, state: State) -> Tree {
        int(self.jobs.iter().filter(|job| job.state == state).map(Job::bytes).sum())
    }

    /// Why nothing would be leased now.
    pub fn held(&self, now: u64) -> &'static str {
        match self.barred(now) {
            Some(Barred::Paused) => "paused",
            Some(Barred::Concurrency) => "concurrency",
            Some(Barred::RateUntil(_)) => "rate",
            None if self.count(State::Ready) == 0 => "empty",
            None if self.next_job(now).is_none() => "groups",
            None => "no",
        }
    }

    pub fn info(&self, now: u64) -> Tree {
        let age = |since: Option<u64>| optional(since.map(|since| now.saturating_sub(since)));
        let of = |state: State| self.jobs.iter().filter(move |job| job.state == state);
        let reason = |reason: &str| int(of(State::Dead).filter(|job| job.reason == Some(reason)).count() as u64);
        let count = |state: State| int(self.count(state) as u64);
        let policy = &self.policy;
        let totals = &self.totals;
        let bound = |bound: Option<u64>| bound.map_or(Tree::Int(-1), int);
        let rate = |rate: Option<(u64, u64)>| rate.map_or(Tree::Int(-1), |(n, ms)| Tree::Array(vec![int(n), int(ms)]));
        let pause = |side: usize| match self.pauses[side].clone().filter(|_| self.paused(side, now)) {
            None => (Tree::Null, Tree::Null),
            Some((until, reason)) => (int(until.unwrap_or(0)), if reason.is_empty() { Tree::Null } else { Tree::Bulk(reason) }),
        };
        map(vec![
            ("lease", int(policy.lease)),
            ("maxrun", int(policy.max_run)),
            ("maxdeliveries", int(policy.max_deliveries)),
            ("maxexpiries", int(policy.max_expiries)),
            ("backoff", Tree::Array(vec![int(policy.backoff.0), int(policy.backoff.1)])),
            ("jitter", text(policy.jitter.name())),
            ("expirybackoff", text(if policy.expiry_backoff { "yes" } else { "no" })),
            ("keepdone", bound(policy.keep_done[0])),
            ("keepdonems", bound(policy.keep_done[2])),
            ("keepdonebytes", bound(policy.keep_done[1])),
            ("keepdead", bound(policy.keep_dead[0])),
            ("keepdeadms", bound(policy.keep_dead[2])),
            ("keepdeadbytes", bound(policy.keep_dead[1])),
            ("maxlive", bound(policy.max_live)),
            ("maxlivebytes", bound(policy.max_live_bytes)),
            ("concurrency", bound(policy.concurrency)),
            ("rate", rate(policy.rate)),
            ("grouporder", text(if policy.group_order { "yes" } else { "no" })),
            ("grouplimit", bound(policy.group_limit)),
            ("grouprate", rate(policy.group_rate)),
            ("aging", int(policy.aging)),
            ("length", int(self.live() as u64)),
            ("ready", count(State::Ready)),
            ("scheduled", int(of(State::Delayed).filter(|job| job.deliveries == 0).count() as u64)),
            ("retrying", int(of(State::Delayed).filter(|job| job.deliveries > 0).count() as u64)),
            ("leased", count(State::Leased)),
            ("dead", count(State::Dead)),
            ("dead-failed", reason("failed")),
            ("dead-expired-lease", reason("expired-lease")),
            ("dead-rejected", reason("rejected")),
            ("dead-ttl", reason("ttl")),
            ("done", count(State::Done)),
            ("delayed", count(State::Delayed)),
            ("ready-bytes", self.bytes(State::Ready)),
            ("delayed-bytes", self.bytes(State::Delayed)),
            ("leased-bytes", self.bytes(State::Leased)),
            ("dead-bytes", self.bytes(State::Dead)),
            ("done-bytes", self.bytes(State::Done)),
            ("held", text(self.held(now))),
            ("paused-in", pause(1).0),
            ("paused-in-reason", pause(1).1),
            ("paused-out", pause(0).0),
            ("paused-out-reason", pause(0).1),
            ("oldest-ready-ms", age(of(State::Ready).map(|job| job.ready_since).min())),
            ("oldest-lease-ms", age(of(State::Leased).filter_map(|job| job.last_delivered).min())),
            ("oldest-dead-ms", age(of(State::Dead).map(|job| job.dead_at).min())),
            ("next-due-at", optional(of(State::Delayed).map(|job| job.place).min())),
            ("pushed-total", int(totals.pushed)),
            ("delivered-total", int(totals.delivered)),
            ("acked-total", int(totals.acked)),
            ("failed-total", int(totals.failed)),
            ("expired-total", int(totals.expired)),
            ("released-total", int(totals.released)),
            ("dead-total", int(totals.dead)),
            ("redriven-total", int(totals.redriven)),
            ("dead-dropped-total", int(totals.dead_dropped)),
            ("trimmed-total", int(totals.trimmed)),
            ("slots-skipped-total", int(totals.slots_skipped)),
            ("held-duplicates", int(self.keys.iter().filter(|key| key.held.is_some()).count() as u64)),
            ("held-bytes", int(self.held_bytes())),
            ("groups", int(self.groups.len() as u64)),
            ("schedules", int(self.schedules.len() as u64)),
            ("dedup-keys", int(self.keys.len() as u64)),
            ("local-duplicates", int(0)),
            ("local-full", int(0)),
            ("local-stale", int(0)),
            ("blocked-clients", int(0)),
            ("wait-ms-p50", Tree::Null),
            ("wait-ms-p99", Tree::Null),
            ("run-ms-p50", Tree::Null),
            ("run-ms-p99", Tree::Null),
        ])
    }
}
