//! How long jobs wait and run, and what went wrong: of one queue, in one process, over the last one
//! to two minutes.
//!
//! Two minutes are kept, the one that runs and the one before it; a minute's figures are gone when
//! the second minute after it begins. Times are counted in a log-linear histogram: those below
//! 32 ms exactly, longer ones in 16 buckets for each doubling, so that a percentile is at most 1/32
//! (3.2 %) off. Counters are of 16 bits; when one is full, all of its histogram are halved, which
//! leaves percentiles as they are. One histogram takes 64 bytes to 1 KB, by the longest time in it.

use crate::effects::Effects;
use crate::op::Event;

/// Buckets for each doubling, and as many for the times below the first one.
const STEPS: u64 = 16;
/// Times from this one on are counted as the one before it: more than a year.
const MAX_MS: u64 = 1 << 35;
const MINUTE_MS: u64 = 60_000;

/// How often each time was seen.
#[derive(Debug, Clone, Default)]
struct Histogram(Vec<u16>);

/// The bucket of a time.
fn bucket(ms: u64) -> usize {
    let ms = ms.min(MAX_MS.saturating_sub(1));
    // How many low bits do not matter.
    let coarse = 59u32.saturating_sub(ms.leading_zeros());
    usize::try_from((ms >> coarse).saturating_add(STEPS.saturating_mul(coarse.into()))).unwrap_or(0)
}

/// The time in the middle of a bucket.
fn middle(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    let coarse = (bucket / STEPS).saturating_sub(1);
    let first = bucket.saturating_sub(STEPS.saturating_mul(coarse)) << coarse;
    first.saturating_add((1u64 << coarse).saturating_sub(1) / 2)
}

impl Histogram {
    fn add(&mut self, ms: u64) {
        let at = bucket(ms);
        if at >= self.0.len() {
            self.0.resize(at.saturating_add(1).next_multiple_of(STEPS as usize), 0);
        }
        let Some(count) = self.0.get_mut(at) else { return };
        *count = count.saturating_add(1);
        if *count == u16::MAX {
            self.0.iter_mut().for_each(|count| *count /= 2);
        }
    }

    fn bytes(&self) -> usize {
        self.0.capacity().saturating_mul(2)
    }
}

/// The `percent`th percentile of what several histograms have counted: the smallest time that so
/// many of the hundred do not exceed. None if there is nothing.
fn percentile(histograms: &[&Histogram], percent: u64) -> Option<u64> {
    let total = histograms.iter().flat_map(|one| &one.0).fold(0u64, |sum, count| sum.saturating_add(u64::from(*count)));
    let rank = total.saturating_mul(percent).div_ceil(100).max(1);
    let longest = histograms.iter().map(|one| one.0.len()).max()?;
    let mut seen = 0u64;
    for at in 0..longest {
        for count in histograms.iter().filter_map(|one| one.0.get(at)) {
            seen = seen.saturating_add(u64::from(*count));
        }
        if seen >= rank {
            return Some(middle(at));
        }
    }
    None
}

/// What was seen in one minute.
#[derive(Debug, Clone, Default)]
struct Minute {
    wait: Histogram,
    run: Histogram,
    stale: u64,
    expired: u64,
    died: u64,
}

/// A median and a 99th percentile, in ms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Percentiles {
    /// Half of them are not longer.
    pub p50: u64,
    /// All but one in a hundred are not longer.
    pub p99: u64,
}

/// What was seen in the last one to two minutes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Recent {
    /// From when a job became ready until it was leased.
    pub wait: Option<Percentiles>,
    /// From when a job was delivered until ACK or NACK.
    pub run: Option<Percentiles>,
    /// Refused tokens.
    pub stale: u64,
    /// Leases that ended because their time was over, but for those whose jobs died of it.
    pub expired: u64,
    /// Jobs that went to dead.
    pub died: u64,
}

/// See the module. Made on first use; to be dropped when [`Timings::over_at`] has come.
#[derive(Debug, Clone, Default)]
pub struct Timings {
    /// The number of the minute that runs.
    minute: u64,
    /// That minute, and the one before it.
    minutes: [Minute; 2],
}

impl Timings {
    /// Whether these effects say anything that is counted here.
    pub fn are_in(effects: &Effects) -> bool {
        let counts = effects.stale() | effects.count(Event::Expire) | effects.count(Event::Dead);
        !effects.waits().is_empty() || !effects.runs().is_empty() || counts > 0
    }

    /// Counts what one command, or one tick, did at `now`, Unix ms.
    pub fn record(&mut self, effects: &Effects, now: u64) {
        self.turn_to(now / MINUTE_MS);
        let [minute, _] = &mut self.minutes;
        effects.waits().iter().for_each(|ms| minute.wait.add(*ms));
        effects.runs().iter().for_each(|ms| minute.run.add(*ms));
        minute.stale = minute.stale.saturating_add(effects.stale());
        minute.expired = minute.expired.saturating_add(effects.count(Event::Expire));
        minute.died = minute.died.saturating_add(effects.count(Event::Dead));
    }

    /// The policy was changed: what went wrong with the old one says nothing of the new one.
    pub fn begin_anew(&mut self) {
        for minute in &mut self.minutes {
            (minute.stale, minute.expired, minute.died) = (0, 0, 0);
        }
    }

    /// Goes on to a minute. A clock that steps back stays in the one that runs.
    fn turn_to(&mut self, minute: u64) {
        if minute <= self.minute {
            return;
        }
        let [now, before] = &mut self.minutes;
        *before = if minute == self.minute.saturating_add(1) { std::mem::take(now) } else { Minute::default() };
        *now = Minute::default();
        self.minute = minute;
    }

    /// What there is to say at `now`, Unix ms.
    pub fn recent(&self, now: u64) -> Recent {
        let kept = match (now / MINUTE_MS).saturating_sub(self.minute) {
            0 => &self.minutes[..],
            1 => self.minutes.get(..1).unwrap_or(&[]),
            _ => &[],
        };
        let both = |of: fn(&Minute) -> &Histogram| {
            let histograms: Vec<&Histogram> = kept.iter().map(of).collect();
            Some(Percentiles { p50: percentile(&histograms, 50)?, p99: percentile(&histograms, 99)? })
        };
        let sum = |of: fn(&Minute) -> u64| kept.iter().map(of).fold(0, u64::saturating_add);
        Recent {
            wait: both(|minute| &minute.wait),
            run: both(|minute| &minute.run),
            stale: sum(|minute| minute.stale),
            expired: sum(|minute| minute.expired),
            died: sum(|minute| minute.died),
        }
    }

    /// From this time on there is nothing to say, if nothing more is recorded; Unix ms.
    pub fn over_at(&self) -> u64 {
        self.minute.saturating_add(2).saturating_mul(MINUTE_MS)
    }

    /// How many bytes it takes.
    pub fn bytes(&self) -> usize {
        let held = self.minutes.iter().flat_map(|minute| [&minute.wait, &minute.run]).map(Histogram::bytes);
        held.fold(std::mem::size_of::<Timings>(), usize::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(values: &[u64]) -> Histogram {
        let mut histogram = Histogram::default();
        values.iter().for_each(|ms| histogram.add(*ms));
        histogram
    }

    #[test]
    fn buckets_follow_each_other_and_are_at_most_a_32nd_off() {
        let mut last = 0;
        let near = (0..60u32).flat_map(|bits| (0..64).map(move |more| (1u64 << bits).saturating_sub(32).saturating_add(more)));
        let mut values: Vec<u64> = near.chain(0..5_000).filter(|ms| *ms < MAX_MS).collect();
        values.sort_unstable();
        for ms in values {
            let at = bucket(ms);
            assert!(at == last || at == last + 1 || ms > 5_000, "{ms}");
            assert!(at >= last, "{ms}");
            last = at;
            let off = middle(at).abs_diff(ms);
            assert!(off * 32 <= ms, "{ms} is shown as {}", middle(at));
            assert!(ms >= 32 || off == 0, "{ms} is shown as {}", middle(at));
        }
        assert_eq!((bucket(MAX_MS - 1), bucket(u64::MAX)), (511, 511));
    }

    #[test]
    fn percentiles_are_near_the_exact_ones() {
        let mut state = 1u64;
        let mut random = move || {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            state >> 33
        };
        for n in [1usize, 2, 3, 10, 99, 100, 101, 1_000, 20_000] {
            for spread in [1u32, 8, 16, 30] {
                let mut values: Vec<u64> = (0..n).map(|_| (random() % (1 << spread)) >> (random() % u64::from(spread))).collect();
                // Dealt out over both minutes, as they come.
                let (a, b) = values.split_at(n / 3);
                let (a, b) = (histogram(a), histogram(b));
                values.sort_unstable();
                for percent in [50u64, 99] {
                    let exact = values[(n as u64 * percent).div_ceil(100).max(1) as usize - 1];
                    let shown = percentile(&[&a, &b], percent).unwrap();
                    assert!(shown.abs_diff(exact) * 32 <= exact, "p{percent} of {n} below 2^{spread}: {shown}, exactly {exact}");
                }
            }
        }
        assert_eq!(percentile(&[&Histogram::default(), &Histogram::default()], 50), None);
    }

    #[test]
    fn a_full_counter_changes_no_percentile() {
        let mut histogram = Histogram::default();
        for n in 0..500_000u64 {
            histogram.add(if n % 20 == 0 { 1_000 } else { 3 });
        }
        let shown = [50, 94, 96, 99].map(|percent| percentile(&[&histogram], percent).unwrap());
        assert_eq!(shown, [3, 3, middle(bucket(1_000)), middle(bucket(1_000))]);
    }

    fn took(wait: u64) -> Effects {
        let mut effects = Effects::new();
        effects.waited(wait);
        effects.refused_token();
        effects
    }

    #[test]
    fn two_minutes_are_kept() {
        let mut timings = Timings::default();
        let p50 = |timings: &Timings, now| timings.recent(now).wait.map(|wait| wait.p50);
        timings.record(&took(7), 600_000);
        assert_eq!((p50(&timings, 600_000), p50(&timings, 719_999), p50(&timings, 720_000)), (Some(7), Some(7), None));
        assert_eq!((timings.over_at(), timings.recent(719_999).stale, timings.recent(720_000).stale), (720_000, 1, 0));
        timings.record(&took(20), 660_000);
        assert_eq!((p50(&timings, 660_000), p50(&timings, 720_000), timings.recent(660_000).stale), (Some(7), Some(20), 2));
        // The clock steps back: it goes on where it is.
        timings.record(&took(21), 500_000);
        assert_eq!(timings.recent(500_000).stale, 3);
        // After a longer rest nothing of before is left.
        timings.record(&took(9), 6_000_000);
        assert_eq!((p50(&timings, 6_000_000), timings.recent(6_000_000).stale, timings.recent(6_000_000).run), (Some(9), 1, None));
        timings.begin_anew();
        assert_eq!((p50(&timings, 6_000_000), timings.recent(6_000_000).stale), (Some(9), 0));
    }

    #[test]
    fn it_is_small_and_bounded() {
        let mut timings = Timings::default();
        assert!(timings.bytes() < 256, "{}", timings.bytes());
        for minute in [10, 11] {
            for n in 0..100_000u64 {
                let mut effects = Effects::new();
                effects.waited(n.pow(3));
                effects.ran(n.pow(3));
                timings.record(&effects, minute * MINUTE_MS);
            }
        }
        assert!(timings.bytes() < 5_000, "{}", timings.bytes());
    }
}
