//! The jobs that may be leased now, in the order in which they are.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::id::JobId;
use crate::job::{Outline, Slot};
use crate::seldom::Seldom;
use crate::store::{ByTime, Entry, Jobs, Order};

/// The order of ready jobs: priority, then place, then id.
pub(crate) type ReadyKey = (Reverse<i8>, u64, JobId);

/// Jobs by priority, then place, then id.
#[derive(Debug, Clone)]
pub(crate) struct Lanes {
    /// None of them is empty.
    lanes: BTreeMap<Reverse<i8>, ByTime>,
    len: usize,
}

impl Lanes {
    pub(crate) const fn new() -> Lanes {
        Lanes { lanes: BTreeMap::new(), len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn insert(&mut self, (priority, place, id): ReadyKey, slot: Slot, jobs: &Jobs) {
        self.lanes.entry(priority).or_insert_with(Order::new).insert((place, id), slot, jobs);
        self.len = self.len.saturating_add(1);
    }

    pub(crate) fn remove(&mut self, (priority, place, id): ReadyKey, slot: Slot) {
        let Some(lane) = self.lanes.get_mut(&priority) else { return };
        let before = lane.len();
        lane.remove((place, id), slot);
        self.len = self.len.saturating_sub(before.saturating_sub(lane.len()));
        if lane.is_empty() {
            self.lanes.remove(&priority);
        }
    }

    pub(crate) fn has(&self, (priority, place, id): ReadyKey, slot: Slot, jobs: &Jobs) -> bool {
        self.lanes.get(&priority).is_some_and(|lane| lane.has((place, id), slot, jobs))
    }

    pub(crate) fn has_priority(&self, priority: Reverse<i8>) -> bool {
        self.lanes.contains_key(&priority)
    }

    pub(crate) fn first(&self, jobs: &Jobs) -> Option<(ReadyKey, Slot)> {
        self.heads(jobs).next()
    }

    /// The first job at each priority, highest first.
    pub(crate) fn heads<'a>(&'a self, jobs: &'a Jobs) -> impl Iterator<Item = (ReadyKey, Slot)> + 'a {
        self.lanes.iter().filter_map(|(priority, lane)| {
            let first = lane.first()?;
            Some(((*priority, first.at(), jobs.id(first.slot())?), first.slot()))
        })
    }

    /// The jobs in order, from the first one after `after`.
    pub(crate) fn after<'a>(&'a self, after: Option<ReadyKey>, jobs: &'a Jobs) -> impl Iterator<Item = (ReadyKey, Slot)> + 'a {
        let lanes = self.lanes.iter().filter(move |(priority, _)| after.is_none_or(|(after, ..)| after <= **priority));
        lanes.flat_map(move |(priority, lane)| {
            let from = after.filter(|(after, ..)| after == priority).map(|(_, place, id)| (place, id));
            lane.after(from, jobs).filter_map(move |entry| {
                Some(((*priority, entry.at(), jobs.id(entry.slot())?), entry.slot()))
            })
        })
    }

    /// The place of the job with the earliest one, at any priority.
    pub(crate) fn earliest(&self) -> Option<u64> {
        self.lanes.values().filter_map(|lane| lane.first()).map(|first| first.at()).min()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.lanes.values().fold(0, |sum, lane| sum.saturating_add(lane.bytes()).saturating_add(80))
    }

    pub(crate) fn check(&self, jobs: &Jobs) -> Result<(), String> {
        let mut len = 0usize;
        for lane in self.lanes.values() {
            lane.check(jobs)?;
            len = len.saturating_add(lane.len());
            if lane.is_empty() {
                return Err("an empty lane".into());
            }
        }
        if len == self.len { Ok(()) } else { Err(format!("{len} in lanes, counted {}", self.len)) }
    }
}

/// The ready jobs without a group. The plain ones are where they are stored. Those that came back
/// to an old place are kept apart, because the place of all others also tells since when they have
/// been ready: so the oldest is found without a search. `since` has those for which it does not
/// tell, and all jobs of groups.
#[derive(Debug, Clone)]
pub(crate) struct Ready {
    moved: Seldom<Lanes>,
    back: Seldom<Lanes>,
    pub(crate) since: Seldom<ByTime>,
}

impl Ready {
    pub(crate) fn new() -> Ready {
        Ready { moved: Seldom::new(), back: Seldom::new(), since: Seldom::new() }
    }

    pub(crate) fn len(&self, jobs: &Jobs) -> usize {
        jobs.plain().saturating_add(self.moved.len()).saturating_add(self.back.len())
    }

    /// Adds a job that is not plain; `since` is given if it came back to an old place.
    pub(crate) fn insert(&mut self, key: ReadyKey, since: Option<u64>, slot: Slot, jobs: &Jobs) {
        match since {
            None => self.moved.insert(key, slot, jobs),
            Some(since) => {
                self.back.insert(key, slot, jobs);
                self.since.insert((since, key.2), slot, jobs);
            }
        }
    }

    pub(crate) fn remove(&mut self, key: ReadyKey, since: Option<u64>, slot: Slot) {
        match since {
            None => self.moved.remove(key, slot),
            Some(since) => {
                self.back.remove(key, slot);
                self.since.remove((since, key.2), slot);
            }
        }
    }

    /// Whether a job is there, for checks.
    pub(crate) fn has(&self, key: ReadyKey, since: Option<u64>, slot: Slot, jobs: &Jobs) -> bool {
        match since {
            None => self.moved.has(key, slot, jobs),
            Some(since) => self.back.has(key, slot, jobs) && self.since.has((since, key.2), slot, jobs),
        }
    }

    /// The job that is leased next.
    pub(crate) fn first(&self, jobs: &Jobs) -> Option<(ReadyKey, Slot)> {
        let plain = first_plain(jobs);
        if self.moved.len() == 0 && self.back.len() == 0 {
            return plain;
        }
        [plain, self.moved.first(jobs), self.back.first(jobs)].into_iter().flatten().min()
    }

    /// The jobs in order, from the first one after `after`.
    pub(crate) fn after<'a>(&'a self, after: Option<ReadyKey>, jobs: &'a Jobs) -> impl Iterator<Item = (ReadyKey, Slot)> + 'a {
        merge(plain_after(after, jobs), merge(self.moved.after(after, jobs), self.back.after(after, jobs)))
    }

    /// The first job at each priority, highest first.
    pub(crate) fn heads<'a>(&'a self, jobs: &'a Jobs) -> impl Iterator<Item = (ReadyKey, Slot)> + 'a {
        let mut all = merge(first_plain(jobs).into_iter(), merge(self.moved.heads(jobs), self.back.heads(jobs))).peekable();
        std::iter::from_fn(move || {
            let head = all.next()?;
            while all.next_if(|other| other.0 .0 == head.0 .0).is_some() {}
            Some(head)
        })
    }

    /// Whether there is no other job at the priority of one that has just come.
    pub(crate) fn is_alone(&self, job: &Outline, jobs: &Jobs) -> bool {
        let priority = Reverse(job.priority);
        let plain = priority == Reverse(0) && jobs.plain() > usize::from(job.plain);
        !plain && !self.moved.has_priority(priority) && !self.back.has_priority(priority)
    }

    /// Since when the job that has been ready for the longest time is ready. One look per
    /// priority in use.
    pub(crate) fn oldest_since(&self, jobs: &Jobs) -> Option<u64> {
        let plain = jobs.first_plain().map(|(id, _)| id.ms);
        let since = self.since.first().map(|first| first.at());
        [plain, since, self.moved.earliest()].into_iter().flatten().min()
    }

    pub(crate) fn bytes(&self) -> usize {
        let own = [self.moved.own_bytes(), self.back.own_bytes(), self.since.own_bytes()].iter().sum();
        self.moved.bytes().saturating_add(self.back.bytes()).saturating_add(self.since.bytes()).saturating_add(own)
    }

    pub(crate) fn check(&self, jobs: &Jobs) -> Result<(), String> {
        self.moved.check(jobs)?;
        self.back.check(jobs)?;
        self.since.check(jobs)
    }
}

type Item = (ReadyKey, Slot);

fn first_plain(jobs: &Jobs) -> Option<Item> {
    jobs.first_plain().map(plain)
}

fn plain((id, slot): (JobId, Slot)) -> Item {
    ((Reverse(0), id.ms, id), slot)
}

/// The plain jobs after a place in the order of all: theirs is the time of their push.
fn plain_after(after: Option<ReadyKey>, jobs: &Jobs) -> impl Iterator<Item = Item> + '_ {
    let from = match after {
        Some((Reverse(priority), ..)) if priority > 0 => None,
        Some((Reverse(0), place, id)) => {
            // All ids of that millisecond up to this one; of a later id, all of them.
            let seq = if id.ms > place { u32::MAX } else { id.seq };
            let last = if id.ms < place { JobId { ms: place.saturating_sub(1), seq: u32::MAX } } else { JobId { ms: place, seq } };
            Some(last)
        }
        Some(_) => Some(JobId::MAX),
        None => None,
    };
    jobs.plain_after(from).map(plain)
}

/// Two orders read as one.
pub(crate) fn merge<'a>(one: impl Iterator<Item = Item> + 'a, other: impl Iterator<Item = Item> + 'a) -> impl Iterator<Item = Item> + 'a {
    let (mut one, mut other) = (one.peekable(), other.peekable());
    std::iter::from_fn(move || match (one.peek(), other.peek()) {
        (Some(a), Some(b)) if b < a => other.next(),
        (Some(_), _) => one.next(),
        (None, _) => other.next(),
    })
}
