//! The reference's bounds: retention, back-pressure, concurrency, rate, pauses.

use super::dedup::Fate;
use super::op::{Dedup, Setting, Side, State};
use super::queue::{Pause, Reference};

/// Why nothing is leased, however much is ready.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Barred {
    Paused,
    Concurrency,
    RateUntil(u64),
}

/// When the next grant is possible, if not at `now`.
pub fn reopens(grants: &[u64], rate: Option<(u64, u64)>, now: u64) -> Option<u64> {
    let (n, ms) = rate?;
    // Of an absurd clock, more than an hour ahead, nothing is believed.
    let mut latest: Vec<u64> = grants.iter().copied().filter(|at| *at <= now + 3_600_000).collect();
    latest.sort_unstable_by(|a, b| b.cmp(a));
    // The n-th before the next one must be out of the interval.
    latest.get(n as usize - 1).map(|at| at + ms).filter(|free| *free > now)
}

impl Reference {
    pub fn set_policy(&mut self, settings: &[Setting]) {
        settings.iter().for_each(|setting| self.policy.set(*setting));
        // A rate begins with no grants known.
        if self.policy.rate.is_none() {
            self.grants.clear();
        }
        if self.policy.group_rate.is_none() {
            self.groups.values_mut().for_each(|group| group.grants.clear());
        }
        self.forget_groups();
    }

    /// Whether it is paused: 0 out, 1 in.
    pub fn paused(&self, side: usize, now: u64) -> bool {
        self.pauses[side].as_ref().is_some_and(|(until, _)| until.is_none_or(|until| until > now))
    }

    pub fn barred(&self, now: u64) -> Option<Barred> {
        if self.paused(0, now) {
            return Some(Barred::Paused);
        }
        if self.policy.concurrency.is_some_and(|limit| self.count(State::Leased) as u64 >= limit) {
            return Some(Barred::Concurrency);
        }
        reopens(&self.grants, self.policy.rate, now).map(Barred::RateUntil)
    }

    /// Why a push of so much is refused.
    pub fn refuses(&self, now: u64, payloads: &[&[u8]], dedup: Option<&Dedup>) -> Option<&'static str> {
        if self.paused(1, now) {
            return Some("PAUSED");
        }
        let (mut jobs, mut bytes, mut freed, mut seen) = (0, 0, 0, Vec::new());
        for (n, payload) in payloads.iter().enumerate() {
            let name = dedup.map(|dedup| dedup.keys[n].as_slice());
            let (fate, id) = match (dedup, name) {
                (Some(_), Some(name)) if seen.contains(&name) => (Fate::Dropped, (0, 0)),
                (Some(dedup), Some(name)) => self.fate(name, dedup, now),
                _ => (Fate::Stored, (0, 0)),
            };
            seen.extend(name);
            if fate != Fate::Dropped {
                bytes += payload.len() as u64;
            }
            match fate {
                Fate::Stored => jobs += 1,
                Fate::Replaced => freed += self.jobs.iter().filter(|job| job.id == id).map(super::job::Job::bytes).sum::<u64>(),
                Fate::Held => {
                    let held = self.keys.iter().filter(|key| key.owner == id).filter_map(|key| key.held.as_ref());
                    freed += held.map(|held| held.payload.len() as u64).sum::<u64>();
                }
                Fate::Dropped => {}
            }
        }
        let live = |state: State| !matches!(state, State::Dead | State::Done);
        let held: u64 = self.held_bytes() + self.jobs.iter().filter(|job| live(job.state)).map(super::job::Job::bytes).sum::<u64>();
        let full = self.policy.max_live.is_some_and(|max| jobs > 0 && self.live() as u64 + jobs > max)
            || self.policy.max_live_bytes.is_some_and(|max| bytes > freed && held - freed + bytes > max);
        full.then_some("FULL")
    }

    /// When the oldest job of a state is dropped; now, if a bound does not hold.
    pub fn retention_at(&self, state: State, now: u64) -> Option<u64> {
        let [count, bytes, ms] = if state == State::Done { self.policy.keep_done } else { self.policy.keep_dead };
        let kept = self.listed(state);
        let oldest = kept.first()?.ended_at();
        let held: u64 = kept.iter().map(|job| job.bytes()).sum();
        let over = |bound: Option<u64>, value: u64| bound.is_some_and(|bound| value > bound || bound == 0);
        if over(count, kept.len() as u64) || over(bytes, held) { Some(now) } else { ms.map(|ms| oldest + ms) }
    }

    /// Drops what retention does not keep.
    pub fn retain(&mut self, now: u64) {
        for state in [State::Done, State::Dead] {
            while self.retention_at(state, now).is_some_and(|at| at <= now) {
                self.drop_oldest(state);
            }
        }
    }

    fn drop_oldest(&mut self, state: State) {
        let Some(id) = self.listed(state).first().map(|job| job.id) else { return };
        self.remove(id);
        match state {
            State::Done => self.totals.trimmed += 1,
            _ => self.totals.dead_dropped += 1,
        }
    }

    pub fn trim(&mut self, now: u64, by: &str, bound: u64, most: u64) -> i64 {
        let mut removed = 0;
        while removed < most {
            let done = self.listed(State::Done);
            let Some(oldest) = done.first() else { break };
            let over = match by {
                "MAXLEN" => done.len() as u64 > bound,
                "MAXAGE" => oldest.done_at + bound <= now,
                _ => done.iter().map(|job| job.bytes()).sum::<u64>() > bound,
            };
            if !over {
                break;
            }
            self.drop_oldest(State::Done);
            removed += 1;
        }
        removed as i64
    }

    fn pause_of(&mut self, side: &Side) -> &mut Option<Pause> {
        match side {
            Side::Out => &mut self.pauses[0],
            Side::In => &mut self.pauses[1],
            Side::Group(name) => &mut self.groups.entry(name.clone()).or_default().pause,
        }
    }

    /// Pauses one side; the end, 0 for none.
    pub fn pause(&mut self, now: u64, side: &Side, for_ms: Option<u64>, reason: Option<&[u8]>) -> i64 {
        let pause = self.pause_of(side);
        let old = pause.take().filter(|(until, _)| until.is_none_or(|until| until > now));
        let wanted = for_ms.map(|ms| now + ms);
        let (until, kept) = match old {
            None => (wanted, Vec::new()),
            // None is for ever, which is longer than any.
            Some((until, reason)) => (until.zip(wanted).map(|(old, new)| old.max(new)), reason),
        };
        let reason = reason.filter(|reason| !reason.is_empty()).map_or(kept, <[u8]>::to_vec);
        *pause = Some((until, reason));
        self.settle_turns();
        until.unwrap_or(0) as i64
    }

    pub fn resume(&mut self, side: &Side) -> i64 {
        let was_on = self.pause_of(side).take().is_some();
        self.forget_groups();
        i64::from(was_on)
    }
}
