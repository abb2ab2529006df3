//! The jobs that may be leased now, in the order in which they are.

use std::cmp::Reverse;

use crate::id::JobId;
use crate::job::Slot;
use crate::sorted::Sorted;

/// The order of ready jobs: priority, then place, then id.
pub(crate) type ReadyKey = (Reverse<i8>, u64, JobId);

/// The ready jobs without a group. Those that came back to an old place are kept apart, because
/// the place of all others also tells since when they have been ready: so the oldest is found
/// without a search. `since` has those for which it does not tell, and all jobs of groups.
#[derive(Debug, Clone)]
pub(crate) struct Ready {
    plain: Sorted<ReadyKey, Slot>,
    back: Sorted<ReadyKey, Slot>,
    pub(crate) since: Sorted<(u64, JobId), ()>,
}

impl Ready {
    pub(crate) fn new() -> Ready {
        Ready { plain: Sorted::new(), back: Sorted::new(), since: Sorted::new() }
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
                self.since.insert((since, key.2), ());
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
                self.since.remove(&(since, key.2));
            }
        }
    }

    /// The slot of a job, for checks.
    pub(crate) fn find(&self, key: ReadyKey, since: Option<u64>) -> Option<Slot> {
        match since {
            None => self.plain.get(&key),
            Some(since) => self.back.get(&key).filter(|_| self.since.get(&(since, key.2)).is_some()),
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
        merge(self.plain.after(after), self.back.after(after))
    }

    /// The first job at each priority, highest first.
    pub(crate) fn heads(&self) -> impl Iterator<Item = (ReadyKey, Slot)> + '_ {
        let mut next = self.first();
        std::iter::from_fn(move || {
            let head = next?;
            next = self.after(Some((head.0 .0, u64::MAX, JobId::MAX))).next();
            Some(head)
        })
    }

    /// Whether there is a job at a priority.
    pub(crate) fn has_priority(&self, priority: Reverse<i8>) -> bool {
        let first = (priority, 0, JobId::ZERO);
        self.after(Some(first)).next().is_some_and(|((other, _, _), _)| other == priority)
    }

    /// Since when the job that has been ready for the longest time is ready. One search per
    /// priority in use.
    pub(crate) fn oldest_since(&self) -> Option<u64> {
        let mut oldest = self.since.first().map(|((since, _), ())| since);
        let mut head = self.plain.first();
        while let Some(((priority, place, _), _)) = head {
            oldest = Some(oldest.map_or(place, |oldest| oldest.min(place)));
            head = self.plain.after(Some((priority, u64::MAX, JobId::MAX))).next();
        }
        oldest
    }

    pub(crate) fn bytes(&self) -> usize {
        self.plain.bytes().saturating_add(self.back.bytes()).saturating_add(self.since.bytes())
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        self.plain.check()?;
        self.back.check()?;
        self.since.check()
    }
}

type Entry = (ReadyKey, Slot);

/// Two orders read as one.
pub(crate) fn merge<'a>(
    one: impl Iterator<Item = Entry> + 'a,
    other: impl Iterator<Item = Entry> + 'a,
) -> impl Iterator<Item = Entry> + 'a {
    let (mut one, mut other) = (one.peekable(), other.peekable());
    std::iter::from_fn(move || match (one.peek(), other.peek()) {
        (Some(a), Some(b)) if b < a => other.next(),
        (Some(_), _) => one.next(),
        (None, _) => other.next(),
    })
}
