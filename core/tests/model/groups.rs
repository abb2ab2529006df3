//! The reference's groups: whose turn it is, who may be served, and which groups are remembered.

use std::collections::BTreeSet;

use rq_core::Tree;

use super::bounds::reopens;
use super::job::Job;
use super::op::State;
use super::queue::{Pause, Reference};

/// What is known of a group beside its jobs.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Group {
    pub pause: Option<Pause>,
    /// When leases were granted, as far as GROUPRATE needs it.
    pub grants: Vec<u64>,
}

/// Those with something ready at one priority, longest not served first. The jobs without a group
/// are one of them: None.
pub type Row = Vec<Option<Vec<u8>>>;

/// Why nothing of a group is leased.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Closed {
    Paused,
    Limit,
    /// GROUPORDER: a job of it is out.
    OneIsOut,
    /// GROUPORDER: a job of it waits for its retry.
    OneRetries,
    RateUntil(u64),
}

impl Closed {
    fn seen(self) -> &'static str {
        match self {
            Closed::Paused => "passed over: a paused group",
            Closed::Limit => "passed over: GROUPLIMIT",
            Closed::OneIsOut => "passed over: GROUPORDER, one is out",
            Closed::OneRetries => "passed over: GROUPORDER, one waits for its retry",
            Closed::RateUntil(_) => "passed over: GROUPRATE",
        }
    }
}

impl Reference {
    fn of_group<'a>(&'a self, name: &'a [u8]) -> impl Iterator<Item = &'a Job> {
        self.jobs.iter().filter(move |job| job.group.as_deref() == Some(name))
    }

    fn retrying(&self, name: &[u8]) -> usize {
        self.of_group(name).filter(|job| job.state == State::Delayed && job.was_had()).count()
    }

    fn leased(&self, name: &[u8]) -> usize {
        self.of_group(name).filter(|job| job.state == State::Leased).count()
    }

    /// Who has nothing ready left leaves its row; who has something and stands in none comes to
    /// the end. To be called after each job that changed: who comes first stands first.
    pub fn settle_turns(&mut self) {
        if self.groups.is_empty() {
            // Nobody to take turns with.
            return self.rows.clear();
        }
        let ready: Vec<&Job> = self.jobs.iter().filter(|job| job.state == State::Ready).collect();
        let there: BTreeSet<(i8, &Option<Vec<u8>>)> = ready.iter().map(|job| (job.priority, &job.group)).collect();
        for (priority, row) in &mut self.rows {
            row.retain(|member| there.contains(&(*priority, member)));
        }
        for job in ready {
            let row = self.rows.entry(job.priority).or_default();
            if !row.contains(&job.group) {
                row.push(job.group.clone());
            }
        }
        self.rows.retain(|_, row| !row.is_empty());
    }

    /// A job was leased: who was served goes to the end of the row.
    pub fn was_served(&mut self, n: usize) {
        let job = &self.jobs[n];
        if let Some(row) = self.rows.get_mut(&job.priority) {
            row.retain(|member| *member != job.group);
            row.push(job.group.clone());
        }
        self.settle_turns();
    }

    /// Why nothing of a group, if it is one, may be leased at `now`.
    pub fn closed(&self, member: Option<&[u8]>, now: u64) -> Option<Closed> {
        let name = member?;
        let group = self.groups.get(name)?;
        if group.pause.as_ref().is_some_and(|(until, _)| until.is_none_or(|until| until > now)) {
            return Some(Closed::Paused);
        }
        self.full(name, 0).or_else(|| reopens(&group.grants, self.policy.group_rate, now).map(Closed::RateUntil))
    }

    /// Whether GROUPLIMIT or GROUPORDER leave no place in a group, if so many of those that wait
    /// for their retry do not count.
    fn full(&self, name: &[u8], but: usize) -> Option<Closed> {
        let leased = self.leased(name);
        if self.policy.group_limit.is_some_and(|limit| leased as u64 >= limit) {
            return Some(Closed::Limit);
        }
        if self.policy.group_order && leased > 0 {
            return Some(Closed::OneIsOut);
        }
        (self.policy.group_order && self.retrying(name) > but).then_some(Closed::OneRetries)
    }

    /// Whether there is a place for a job that was leased before, and comes late. A pause or a rate
    /// does not matter to it.
    pub fn has_place_again(&mut self, n: usize) -> bool {
        let job = &self.jobs[n];
        let itself = usize::from(job.state == State::Delayed);
        if job.group.as_ref().is_some_and(|name| self.full(name, itself).is_some()) {
            self.notes.seen.push("late EXTEND: no place in the group");
            return false;
        }
        self.policy.concurrency.is_none_or(|limit| (self.count(State::Leased) as u64) < limit)
    }

    /// The head of each priority, highest first: the first job of the first that may be served.
    fn heads(&self, now: u64) -> Vec<usize> {
        let ready = || (0..self.jobs.len()).filter(|n| self.jobs[*n].state == State::Ready);
        let priorities: BTreeSet<i8> = ready().map(|n| self.jobs[n].priority).collect();
        let alone: Row = vec![None];
        let head = |priority: &i8| {
            let row = self.rows.get(priority).unwrap_or(&alone);
            let member = row.iter().find(|member| self.closed(member.as_deref(), now).is_none())?;
            let of_member = ready().filter(|n| (self.jobs[*n].priority, &self.jobs[*n].group) == (*priority, member));
            of_member.min_by_key(|n| (self.jobs[*n].place, self.jobs[*n].id))
        };
        priorities.iter().rev().filter_map(head).collect()
    }

    /// The job that is leased next, if the queue itself does not bar it.
    pub fn next_job(&self, now: u64) -> Option<usize> {
        let heads = self.heads(now);
        let risen = |n: &usize| {
            let waited = now.saturating_sub(self.jobs[*n].place);
            i64::from(self.jobs[*n].priority) + waited.checked_div(self.policy.aging).unwrap_or(0) as i64
        };
        let most = heads.iter().map(risen).max()?;
        heads.into_iter().find(|n| risen(n) == most)
    }

    /// What is to be seen of turns when this job is leased.
    pub fn note_choice(&mut self, n: usize, now: u64) {
        let job = &self.jobs[n];
        let mut seen = Vec::new();
        if let Some(row) = self.rows.get(&job.priority) {
            let before = row.iter().take_while(|member| **member != job.group);
            seen.extend(before.filter_map(|member| self.closed(member.as_deref(), now)).map(Closed::seen));
            let named = row.iter().filter(|member| member.is_some()).count();
            if named > 1 && named < row.len() {
                seen.push("a turn among groups and none");
            }
            let older = |other: &&Job| other.state == State::Ready && other.priority == job.priority && other.group != job.group && (other.place, other.id) < (job.place, job.id);
            if self.jobs.iter().find(older).is_some_and(|older| self.closed(older.group.as_deref(), now).is_none()) {
                seen.push("a turn before an older job");
            }
        }
        if self.heads(now).first() != Some(&n) {
            seen.push("AGING: before a higher priority");
        } else if self.heads(now).len() > 1 && self.policy.aging > 0 {
            seen.push("AGING: the highest priority");
        }
        if self.policy.group_order && job.group.is_some() && job.was_had() && job.place == job.old_place && job.ready_since > job.place {
            seen.push("GROUPORDER: again at its old place");
        }
        self.notes.seen.extend(seen);
    }

    /// When the rate of a group opens again, and whether that is all that something ready waits for.
    pub fn doors(&self, now: u64) -> Vec<(u64, bool)> {
        let door = |(name, group): (&Vec<u8>, &Group)| {
            let at = reopens(&group.grants, self.policy.group_rate, now)?;
            let alone = self.closed(Some(name), now) == Some(Closed::RateUntil(at));
            Some((at, alone && self.of_group(name).any(|job| job.state == State::Ready)))
        };
        self.groups.iter().filter_map(door).collect()
    }

    fn is_needed(&self, name: &[u8]) -> bool {
        self.of_group(name).next().is_some() || self.groups.get(name).is_some_and(|group| group.pause.is_some())
    }

    /// When a group without jobs is forgotten: when its rate does not need it any more.
    pub fn forgotten_at(&self, name: &[u8]) -> Option<u64> {
        let (_, ms) = self.policy.group_rate?;
        let last = self.groups.get(name)?.grants.iter().max()?;
        (!self.is_needed(name)).then_some(last + ms)
    }

    /// Forgets the groups that nothing needs.
    pub fn forget_groups(&mut self) {
        let kept = |name: &Vec<u8>| self.is_needed(name) || self.forgotten_at(name).is_some();
        let kept: BTreeSet<Vec<u8>> = self.groups.keys().filter(|name| kept(name)).cloned().collect();
        self.groups.retain(|name, _| kept.contains(name));
        self.settle_turns();
    }

    /// As part of the due work: also those that were kept for their rate.
    pub fn forget_idle_groups(&mut self, now: u64) {
        let over: Vec<Vec<u8>> = self.groups.keys().filter(|name| self.forgotten_at(name).is_some_and(|at| at <= now)).cloned().collect();
        for name in over {
            self.groups.remove(&name);
            self.notes.seen.push("a group was forgotten when its rate let it go");
        }
        self.forget_groups();
    }

    /// The reply of GROUPS.
    pub fn group_rows(&self, after: Option<&[u8]>, count: u64, now: u64) -> Tree {
        let number = |n: usize| Tree::Int(n as i64);
        let row = |(name, group): (&Vec<u8>, &Group)| {
            let ready = || self.of_group(name).filter(|job| job.state == State::Ready);
            let paused = group.pause.as_ref().map(|(until, _)| until.unwrap_or(0)).filter(|until| *until == 0 || *until > now);
            Tree::Array(vec![
                Tree::Bulk(name.clone()),
                number(ready().count()),
                number(self.leased(name)),
                number(self.retrying(name)),
                number(self.of_group(name).count()),
                paused.map_or(Tree::Null, |until| Tree::Int(until as i64)),
                // Since their places, which are those in the order of the group.
                age(ready().map(|job| job.place).min(), now),
            ])
        };
        let listed = self.groups.iter().filter(|(name, _)| after.is_none_or(|after| name.as_slice() > after));
        Tree::Array(listed.take(count as usize).map(row).collect())
    }

    /// The reply of CONSUMERS: all that a job remembers.
    pub fn consumer_rows(&self, after: Option<&[u8]>, count: u64, now: u64) -> Tree {
        let names: BTreeSet<&[u8]> = self.jobs.iter().filter_map(|job| job.consumer.as_deref()).collect();
        let row = |name: &[u8]| {
            let its = || self.jobs.iter().filter(|job| job.consumer.as_deref() == Some(name));
            let leased = || its().filter(|job| job.state == State::Leased);
            let oldest = leased().filter_map(|job| job.last_delivered).min();
            Tree::Array(vec![Tree::Bulk(name.to_vec()), Tree::Int(leased().count() as i64), Tree::Int(its().count() as i64), age(oldest, now)])
        };
        let listed = names.into_iter().filter(|name| after.is_none_or(|after| *name > after));
        Tree::Array(listed.take(count as usize).map(row).collect())
    }
}

/// How long ago that was; null: never.
fn age(since: Option<u64>, now: u64) -> Tree {
    since.map_or(Tree::Null, |since| Tree::Int(now.saturating_sub(since) as i64))
}
