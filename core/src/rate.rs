//! Rates: at most so many grants in any interval of so many ms, exactly.

use std::collections::VecDeque;

use crate::clock::MAX_AHEAD_MS;

/// The most grants that are noted: more than any rate counts, and what a snapshot may have.
pub(crate) const MAX_GRANTS: u64 = 20_000;

/// RATE n ms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rate {
    pub(crate) n: u64,
    pub(crate) ms: u64,
}

/// When leases were granted, in order; those of the last interval count.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Grants(VecDeque<u64>);

impl Grants {
    pub(crate) const fn new() -> Grants {
        Grants(VecDeque::new())
    }

    /// Notes a grant at `now`; without a rate nothing is kept.
    pub(crate) fn add(&mut self, now: u64, rate: Option<Rate>) {
        let Some(rate) = rate else {
            self.0 = VecDeque::new();
            return;
        };
        while self.0.front().is_some_and(|at| at.saturating_add(rate.ms) <= now) {
            self.0.pop_front();
        }
        if self.0.len() as u64 >= MAX_GRANTS {
            self.0.pop_front();
        }
        let place = self.0.partition_point(|at| *at <= now);
        self.0.insert(place, now);
    }

    /// A grant at `at` does not count after all.
    pub(crate) fn give_back(&mut self, at: u64) {
        let place = self.0.partition_point(|other| *other < at);
        if self.0.get(place) == Some(&at) {
            self.0.remove(place);
        }
    }

    /// When the next grant is possible, if not now.
    pub(crate) fn barred_until(&self, now: u64, rate: Option<Rate>) -> Option<u64> {
        let rate = rate?;
        // What lies far in the future was granted by an absurd clock, set right since: it says nothing.
        let far = now.saturating_add(MAX_AHEAD_MS);
        let known = match self.0.back() {
            Some(last) if *last > far => self.0.partition_point(|at| *at <= far),
            _ => self.0.len(),
        };
        // The n-th grant from the end is the one that must be out of the interval.
        let nth = known.checked_sub(usize::try_from(rate.n).ok()?)?;
        let free = self.0.get(nth)?.saturating_add(rate.ms);
        (free > now).then_some(free)
    }

    pub(crate) fn last(&self) -> Option<u64> {
        self.0.back().copied()
    }

    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = u64> + '_ {
        self.0.iter().copied()
    }

    /// Grants from a snapshot, which must ascend.
    pub(crate) fn from_ascending(times: Vec<u64>) -> Option<Grants> {
        times.is_sorted().then(|| Grants(times.into()))
    }

    pub(crate) fn bytes(&self) -> usize {
        self.0.capacity().saturating_mul(8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_interval_has_more_than_n() {
        let rate = Some(Rate { n: 3, ms: 100 });
        let (mut grants, mut granted, mut now) = (Grants::default(), Vec::new(), 1_000u64);
        for step in [0u64, 1, 50, 7, 13, 90, 2, 99, 1, 1, 1, 300, 0, 0, 0, 0].into_iter().cycle().take(500) {
            now += step;
            match grants.barred_until(now, rate) {
                None => {
                    grants.add(now, rate);
                    granted.push(now);
                }
                Some(free) => assert!(free > now),
            }
        }
        assert!(granted.windows(4).all(|four| four[3] >= four[0] + 100));
        assert!(granted.len() > 100);
        let (last, before) = (grants.last().unwrap(), grants.iter().len());
        grants.give_back(last);
        grants.give_back(5);
        assert_eq!(grants.iter().len(), before - 1);
        grants.add(now, None);
        assert_eq!(grants, Grants::default());
    }

    #[test]
    fn grants_of_an_absurd_clock_bar_nobody() {
        let rate = Some(Rate { n: 2, ms: 100 });
        let mut grants = Grants::default();
        [9_000_000, 9_000_001, 9_000_050].into_iter().for_each(|at| grants.add(at, rate));
        assert_eq!(grants.barred_until(1_000, rate), None);
        grants.add(1_000, rate);
        grants.add(1_010, rate);
        assert_eq!(grants.barred_until(1_020, rate), Some(1_100), "the rate holds among those that are");
    }
}
