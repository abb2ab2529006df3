//! Random histories of the store beside a plain map.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{Entry, Jobs, Order, Timed};
use crate::id::JobId;
use crate::job::{Facts, Slot, State};

/// One step; `which` chooses a job.
#[derive(Debug, Clone)]
enum Step {
    Add { ms: u64, gap: u32, size: usize, plain: bool },
    Change { which: usize, place: u64, token: u64, failures: u64 },
    Replace { which: usize, size: usize },
    Remove { which: usize, run: usize },
    Drain,
    Copy,
}

fn sizes() -> impl Strategy<Value = usize> {
    prop_oneof![4 => 0..8usize, 4 => 90..110usize, 2 => 500..700usize, 1 => 2_040..2_060usize, 1 => 6_000..9_000usize]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        40 => (prop_oneof![8 => Just(0u64), 6 => 1..3u64, 1 => 60_000..20_000_000u64], prop_oneof![9 => Just(0u32), 1 => 0..70_000u32], sizes(), any::<bool>())
            .prop_map(|(ms, gap, size, plain)| Step::Add { ms, gap, size, plain }),
        10 => (any::<usize>(), 0..3_000_000_000_000u64, prop_oneof![Just(0), 1..u64::from(u32::MAX)], 0..2u64)
            .prop_map(|(which, place, token, failures)| Step::Change { which, place, token, failures }),
        4 => (any::<usize>(), sizes()).prop_map(|(which, size)| Step::Replace { which, size }),
        20 => (any::<usize>(), prop_oneof![9 => Just(1usize), 1 => 1..300usize]).prop_map(|(which, run)| Step::Remove { which, run }),
        1 => Just(Step::Drain),
        1 => Just(Step::Copy),
    ]
}

/// The store and the map, which must agree.
struct Both {
    jobs: Jobs,
    truth: BTreeMap<JobId, (Slot, Facts, Vec<u8>)>,
    order: Order<Timed>,
    last: JobId,
    n: u8,
}

impl Both {
    fn payload(&mut self, size: usize) -> Vec<u8> {
        self.n = self.n.wrapping_add(1);
        vec![self.n; size]
    }

    fn nth(&self, which: usize) -> Option<JobId> {
        let n = which.checked_rem(self.truth.len())?;
        self.truth.keys().nth(n).copied()
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Add { ms, gap, size, plain } => {
                let id = JobId { ms: self.last.ms + ms, seq: if ms > 0 { gap } else { self.last.seq + 1 + gap } };
                let mut facts = Facts::plain(id);
                if !plain {
                    (facts.state, facts.place) = (State::Delayed, id.ms + 1_000);
                }
                let payload = self.payload(size);
                let slot = self.jobs.add(facts.clone(), &payload).expect("there is a number for it");
                self.order.insert((facts.place, id), slot, &self.jobs);
                self.truth.insert(id, (slot, facts, payload));
                self.last = id;
            }
            Step::Change { which, place, token, failures } => {
                let Some(id) = self.nth(which) else { return };
                let (slot, facts, _) = self.truth.get_mut(&id).expect("it is there");
                self.order.remove((facts.place, id), *slot);
                let mut taken = self.jobs.take(*slot).expect("it is there");
                assert_eq!(taken, *facts);
                taken.place = place;
                taken.state = if token > 0 { State::Leased } else { State::Delayed };
                (taken.more.token, taken.more.failures) = (token, failures);
                *facts = taken.clone();
                self.jobs.put_back(*slot, &mut taken).expect("it is there");
                self.order.insert((place, id), *slot, &self.jobs);
            }
            Step::Replace { which, size } => {
                let Some(id) = self.nth(which) else { return };
                let payload = self.payload(size);
                let (slot, _, old) = self.truth.get_mut(&id).expect("it is there");
                self.jobs.replace(*slot, &payload);
                *old = payload;
            }
            Step::Remove { which, run } => (0..run).for_each(|_| {
                if let Some(id) = self.nth(which) {
                    let (slot, facts, _) = self.truth.remove(&id).expect("it is there");
                    self.order.remove((facts.place, id), slot);
                    assert!(self.jobs.remove(slot).is_some());
                    assert_eq!((self.jobs.find(id), self.jobs.find(JobId::ZERO)), (None, None));
                }
            }),
            Step::Drain => (0..self.truth.len()).for_each(|_| self.step(Step::Remove { which: 0, run: 1 })),
            Step::Copy => self.jobs = self.jobs.clone(),
        }
    }

    fn agree(&self) {
        assert_eq!(self.jobs.check(), Ok(()));
        assert_eq!(self.order.check(&self.jobs), Ok(()));
        assert_eq!((self.jobs.len(), self.order.len()), (self.truth.len(), self.truth.len()));
        for (id, (slot, facts, payload)) in &self.truth {
            assert_eq!(self.jobs.find(*id), Some(*slot));
            let job = self.jobs.get(*slot).expect("it is there");
            assert_eq!((job.id, job.payload), (*id, &payload[..]));
            assert_eq!(*job.more(), facts.more);
            assert_eq!((job.state, job.place, job.priority), (facts.state, facts.place, facts.priority));
        }
        assert!(self.jobs.iter().eq(self.truth.iter().map(|(id, (slot, ..))| (*id, *slot))));
        let plain: Vec<_> = self.truth.iter().filter(|(_, (_, facts, _))| facts.is_plain()).map(|(id, (slot, ..))| (*id, *slot)).collect();
        assert_eq!(self.jobs.first_plain(), plain.first().copied());
        assert_eq!(self.jobs.plain(), plain.len());
        for after in [None, self.nth(self.truth.len() / 2), Some(JobId { ms: self.last.ms / 2, seq: 9 })] {
            let rest = plain.iter().copied().filter(|(id, _)| after.is_none_or(|after| *id > after));
            assert!(self.jobs.plain_after(after).eq(rest), "after {after:?}");
        }
        let mut by_time: Vec<_> = self.truth.iter().map(|(id, (_, facts, _))| (facts.place, *id)).collect();
        by_time.sort_unstable();
        assert!(self.order.keys(None, &self.jobs).eq(by_time.iter().copied()));
        assert_eq!(self.order.last().map(Entry::slot), by_time.last().and_then(|(_, id)| self.jobs.find(*id)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, max_shrink_iters: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn the_store_is_a_map(steps in proptest::collection::vec(step(), 1..1_500)) {
        let start = JobId { ms: 1_700_000_000_000, seq: 5 };
        let mut both = Both { jobs: Jobs::new(), truth: BTreeMap::new(), order: Order::new(), last: start, n: 0 };
        for (n, step) in steps.into_iter().enumerate() {
            both.step(step);
            if n % 97 == 0 {
                both.agree();
            }
        }
        both.agree();
        both.step(Step::Drain);
        both.agree();
    }
}
