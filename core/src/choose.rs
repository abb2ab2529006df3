//! Which job is leased next.
//!
//! The highest priority that has something; among its groups in turn; within a group by place,
//! then id. With AGING the heads of the priorities are compared by how far they have risen.

use std::cmp::Reverse;

use crate::groups::{Barred, GroupId};
use crate::job::Slot;
use crate::queue::Queue;
use crate::ready::ReadyKey;

/// The next job, or a group that has to be parked before there is an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Choice {
    Job(ReadyKey, Slot),
    Barred(GroupId, Barred),
}

/// The head of one priority.
#[derive(Clone, Copy)]
struct Head {
    key: ReadyKey,
    slot: Slot,
    group: Option<GroupId>,
}

impl Queue {
    /// What would be leased at `now`, if the queue itself is not barred.
    pub(crate) fn choose(&self, now: u64) -> Option<Choice> {
        let barred = |head: &Head| head.group.and_then(|group| Some((group, self.groups.barred(group, &self.head.policy, now)?)));
        let head = match self.head.policy.aging_ms() {
            None if self.groups.ready() == 0 => {
                let (key, slot) = self.ready.first(&self.jobs)?;
                return Some(Choice::Job(key, slot));
            }
            None => self.heads().next()?,
            Some(step_ms) => {
                let risen = |head: &Head| {
                    let (Reverse(priority), place, _) = head.key;
                    let steps = now.saturating_sub(place).checked_div(step_ms).unwrap_or(0);
                    i64::from(priority).saturating_add(i64::try_from(steps).unwrap_or(i64::MAX))
                };
                // A group that may not be served does not stand for its priority.
                if let Some((group, why)) = self.heads().find_map(|head| barred(&head)) {
                    return Some(Choice::Barred(group, why));
                }
                // The first of the highest: equal ones go by their own priority.
                self.heads().reduce(|best, head| if risen(&head) > risen(&best) { head } else { best })?
            }
        };
        Some(match barred(&head) {
            Some((group, why)) => Choice::Barred(group, why),
            None => Choice::Job(head.key, head.slot),
        })
    }

    /// Whose turn it is at each priority, highest first.
    fn heads(&self) -> impl Iterator<Item = Head> + '_ {
        let mut bare = self.ready.heads(&self.jobs).peekable();
        let mut grouped = self.groups.priorities().filter_map(|priority| self.groups.head(priority, &self.jobs)).peekable();
        std::iter::from_fn(move || {
            let bare_key = bare.peek().map(|(key, _)| *key);
            let group_key = grouped.peek().map(|(_, _, key, _)| *key);
            let same = bare_key.zip(group_key).is_some_and(|(a, b)| a.0 == b.0);
            let bare_comes_first = match (bare_key, group_key) {
                (Some((priority, ..)), Some(_)) if same => {
                    grouped.peek().is_some_and(|(turn, ..)| self.groups.bare_turn(priority) <= *turn)
                }
                (Some(a), Some(b)) => a.0 < b.0,
                (bare, _) => bare.is_some(),
            };
            let head = if bare_comes_first {
                bare.peek().map(|(key, slot)| Head { key: *key, slot: *slot, group: None })
            } else {
                grouped.peek().map(|(_, id, key, slot)| Head { key: *key, slot: *slot, group: Some(*id) })
            };
            if same || bare_comes_first {
                bare.next();
            }
            if same || !bare_comes_first {
                grouped.next();
            }
            head
        })
    }

    /// Whether a job that was leased before may be taken up again: there must be room for it. A
    /// pause does not matter, it is about new leases.
    pub(crate) fn has_place_for(&self, group: Option<GroupId>, holds_group: bool) -> bool {
        let group = group.and_then(|group| self.groups.get(group));
        !self.is_at_concurrency() && !group.is_some_and(|group| group.is_full(&self.head.policy, holds_group))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::effects::{Effects, Turn};
    use crate::sink::TreeSink;
    use crate::table::Verb;

    const NOW: u64 = 1_700_000_000_000;

    fn run(queue: &mut Queue, verb: Verb, args: &[&[u8]]) {
        let request = crate::parse(verb, args).expect("a right command");
        crate::execute(queue, &request, &Turn::at(NOW), &mut Effects::new(), &mut TreeSink::new()).expect("not refused");
    }

    /// How often a LEASE looks at who is next, until it has one or there is none: all its steps.
    fn looks(queue: &mut Queue) -> (usize, bool) {
        let mut looks = 0;
        loop {
            looks += 1;
            match queue.choose(NOW) {
                Some(Choice::Barred(group, why)) => queue.groups.park(group, why),
                choice => return (looks, choice.is_some()),
            }
        }
    }

    /// B24: however many jobs of one group wait, also if all of them have to, a LEASE meets the
    /// group once, and those after it not at all.
    #[test]
    fn a_lease_takes_as_many_steps_behind_a_few_jobs_as_behind_very_many() {
        for aging in [&b"0"[..], b"1000"] {
            for size in [100, 10_000, 100_000] {
                let mut queue = Queue::new(1);
                run(&mut queue, Verb::Create, &[b"GROUPLIMIT", b"1", b"AGING", aging]);
                let mut burst: Vec<&[u8]> = vec![b"100"];
                burst.resize(101, b"x");
                burst.extend([&b"GROUP"[..], b"big"]);
                for _ in 0..size / 100 {
                    run(&mut queue, Verb::MPush, &burst);
                }
                run(&mut queue, Verb::Push, &[b"one", b"GROUP", b"small"]);
                assert_eq!(looks(&mut queue), (1, true), "its first is taken at once");
                run(&mut queue, Verb::Lease, &[b"w"]);
                let small = queue.choose(NOW);
                assert!(matches!(small, Some(Choice::Job(_, slot)) if queue.jobs.get(slot).is_some_and(|job| job.payload == b"one")));
                run(&mut queue, Verb::Lease, &[b"w"]);
                assert_eq!(looks(&mut queue), (2, false), "one look that parks the group, one that finds nobody else");
                for _ in 0..10 {
                    assert_eq!(looks(&mut queue), (1, false), "from then on it is not met");
                    run(&mut queue, Verb::Push, &[b"bare"]);
                    assert_eq!(looks(&mut queue), (1, true));
                    run(&mut queue, Verb::Lease, &[b"w"]);
                }
            }
        }
    }
}
