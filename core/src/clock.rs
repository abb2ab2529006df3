//! Queue time: one time for all queues of a node, made of what its clocks show.
//!
//! Pure: the shell reads the clocks. Queue time never goes back. It is the wall clock, except
//! where that is behind what was decided before (it was stepped back, or ops came from a node
//! whose clock is ahead): then queue time goes on at half the pace of the monotonic clock until
//! the wall has caught up, so that deadlines are never frozen and the surplus is shed gently. That
//! is so for up to an hour ([`MAX_AHEAD_MS`]). What a clock further ahead has left behind is ignored
//! where it cannot be true (leases, grants), and else waited for (delays, pauses, slots).

use crate::job::token_ms;
use crate::limits::MAX_TIME_MS;

/// A time from elsewhere further ahead of the wall clock than this is not adopted: one node with
/// a broken clock must not carry all others away.
pub const MAX_AHEAD_MS: u64 = 3_600_000;

/// Whether a token may have come from a clock such as ours at `now`. One from an absurd clock, or of a
/// forged snapshot, stays a matter of its own queue.
pub fn is_of_our_time(token: u64, now: u64) -> bool {
    token_ms(token) <= now.saturating_add(MAX_AHEAD_MS)
}

/// The queue time of a node.
#[derive(Debug, Clone, Default)]
pub struct Clock {
    /// The last queue time, in half µs, so that half the pace loses nothing by rounding however
    /// often it is read.
    now_half_us: u64,
    wall_us: u64,
    mono_us: u64,
}

impl Clock {
    /// A clock that was never read.
    pub const fn new() -> Clock {
        Clock { now_half_us: 0, wall_us: 0, mono_us: 0 }
    }

    /// The queue time in Unix ms, given what the wall clock and the monotonic clock show, in µs.
    pub fn read(&mut self, wall_us: u64, mono_us: u64) -> u64 {
        let elapsed_us = mono_us.saturating_sub(self.mono_us);
        let at_half_pace = self.now_half_us.saturating_add(elapsed_us);
        self.now_half_us = half_us(wall_us).max(at_half_pace).min(MAX_TIME_MS.saturating_mul(2_000));
        self.wall_us = wall_us;
        self.mono_us = mono_us;
        self.now_half_us / 2_000
    }

    /// Learns of an op that was decided at `op_ms`, here or elsewhere: later times follow it.
    /// False: it is too far ahead of the wall clock, as last read, and was not adopted.
    pub fn observe(&mut self, op_ms: u64) -> bool {
        let op_half_us = op_ms.saturating_mul(2_000);
        if op_half_us > self.now_half_us {
            if op_half_us.saturating_sub(half_us(self.wall_us)) > MAX_AHEAD_MS.saturating_mul(2_000) {
                return false;
            }
            self.now_half_us = op_half_us;
        }
        true
    }

    /// How far queue time is ahead of the wall clock, in ms, as last read.
    pub fn ahead_ms(&self) -> u64 {
        self.now_half_us.saturating_sub(half_us(self.wall_us)) / 2_000
    }
}

fn half_us(us: u64) -> u64 {
    us.saturating_mul(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000;
    const START: u64 = 1_700_000_000_000;

    #[test]
    fn it_follows_the_wall_clock() {
        let mut clock = Clock::new();
        assert_eq!(clock.read(START * MS, 5 * MS), START);
        assert_eq!(clock.read((START + 7) * MS, 12 * MS), START + 7);
        // The wall was set an hour ahead: so be it, that is the time now.
        assert_eq!(clock.read((START + 3_600_000) * MS, 13 * MS), START + 3_600_000);
    }

    #[test]
    fn a_step_back_is_shed_at_half_the_pace() {
        let mut clock = Clock::new();
        clock.read(START * MS, 0);
        let (mut wall, mut mono) = (START - 10_000, 0);
        let mut last = START;
        // Read every µs in between: rounding must not stop it.
        while wall < START + 10_000 {
            wall += 1;
            mono += 600;
            for _ in 0..400 {
                mono += 1;
                let now = clock.read(wall * MS, mono);
                assert!(now >= last && now <= last + 1);
                last = now;
            }
            assert!(last.abs_diff((START + mono / 2 / MS).max(wall)) <= 1, "{last} at wall {wall}");
        }
        // 10 s were to be shed, which takes 20 s.
        assert_eq!((last, clock.ahead_ms()), (START + 10_000, 0));
    }

    #[test]
    fn ops_from_elsewhere_are_floors_unless_absurd() {
        let mut clock = Clock::new();
        clock.read(START * MS, 0);
        assert!(clock.observe(START + 5_000));
        assert_eq!(clock.read(START * MS, 0), START + 5_000);
        assert!(clock.observe(START + MAX_AHEAD_MS));
        assert!(!clock.observe(START + MAX_AHEAD_MS + 1));
        assert!(!clock.observe(u64::MAX));
        assert_eq!(clock.read(START * MS, 0), START + MAX_AHEAD_MS);
        assert_eq!(clock.ahead_ms(), MAX_AHEAD_MS);
    }

    #[test]
    fn clocks_that_lie_break_nothing() {
        let mut clock = Clock::new();
        let mut last = 0;
        for (wall, mono) in [(0, 0), (u64::MAX, 0), (0, u64::MAX), (5, 3), (u64::MAX, u64::MAX)] {
            let now = clock.read(wall, mono);
            assert!(now >= last && now <= MAX_TIME_MS);
            last = now;
        }
    }
}
