//! The jobs that may be leased now, in the order in which they are.

use std::cmp::Reverse;

use crate::id::JobId;
use crate::job::Slot;
use crate::sorted::{Iter, Sorted};

/// The order of ready jobs: priority, then place, then id.
pub(crate) type ReadyKey = (Reverse<i8>, u64, JobId);

/// The ready jobs. Those that came back to an old place are kept apart, because the place of all
/// others also tells since when they have been ready: so the oldest is found without a search.
#[derive(Debug, Clone)]
pub(crate) struct Ready {
    plain: Sorted<ReadyKey, Slot>,
    back: Sorted<ReadyKey, Slot>,
    back_since: Sorted<(u64, JobId), ()>,
}

impl Ready {
    pub(crate) fn new() -> Ready {
        Ready { plain: Sorted::new(), back: Sorted::new(), back_since: Sorted::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.plain.len().saturating_add(self.back.len())
    }

    /// Adds a job; `since` is given if it came back to an old place.
    pub(crate) fn insert(&mut self, key: ReadyKey, since: Option<u64>, slot: Slot) {
        match since {
            None => {
                self.plain.insert(key, slot);
            }
            Some(since) => {
                self.back.insert(key, slot);
                self.back_since.insert((since, key.2), ());
            }
        }
    }

    pub(crate) fn remove(&mut self, key: ReadyKey, since: Option<u64>) {
        match since {
            None => {
                self.plain.remove(&key);
            }
            Some(since) => {
                self.back.remove(&key);
                self.back_since.remove(&(since, key.2));
            }
        }
    }

    /// The slot of a job, for checks.
    pub(crate) fn find(&self, key: ReadyKey, since: Option<u64>) -> Option<Slot> {
        match since {
            None => self.plain.get(&key),
            Some(since) => self.back.get(&key).filter(|_| self.back_since.get(&(since, key.2)).is_some()),
        }
    }

    /// The job that is leased next.
    pub(crate) fn first(&self) -> Option<(ReadyKey, Slot)> {
        match (self.plain.first(), self.back.first()) {
            (Some(plain), Some(back)) => Some(plain.min(back)),
            (plain, back) => plain.or(back),
        }
    }

    /// The jobs in order, from the first one after `after`.
    pub(crate) fn after(&self, after: Option<ReadyKey>) -> impl Iterator<Item = (ReadyKey, Slot)> + '_ {
        Merge { plain: self.plain.after(after), back: self.back.after(after), heads: (None, None) }
    }

    /// Since when the job that has been ready for the longest time is ready. One search per
    /// priority in use.
    pub(crate) fn oldest_since(&self) -> Option<u64> {
        let mut oldest = self.back_since.first().map(|((since, _), ())| since);
        let mut head = self.plain.first();
        while let Some(((priority, place, _), _)) = head {
            oldest = Some(oldest.map_or(place, |oldest| oldest.min(place)));
            head = self.plain.after(Some((priority, u64::MAX, JobId::MAX))).next();
        }
        oldest
    }

    pub(crate) fn bytes(&self) -> usize {
        self.plain.bytes().saturating_add(self.back.bytes()).saturating_add(self.back_since.bytes())
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        self.plain.check()?;
        self.back.check()?;
        self.back_since.check()?;
        if self.back.len() == self.back_since.len() { Ok(()) } else { Err("returned jobs without their time".into()) }
    }
}

type Entry = (ReadyKey, Slot);

/// Two orders read as one.
struct Merge<'a> {
    plain: Iter<'a, ReadyKey, Slot>,
    back: Iter<'a, ReadyKey, Slot>,
    heads: (Option<Entry>, Option<Entry>),
}

impl Iterator for Merge<'_> {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        self.heads.0 = self.heads.0.take().or_else(|| self.plain.next());
        self.heads.1 = self.heads.1.take().or_else(|| self.back.next());
        match self.heads {
            (Some(plain), Some(back)) if back < plain => self.heads.1.take(),
            (Some(_), _) => self.heads.0.take(),
            (None, _) => self.heads.1.take(),
        }
    }
}
