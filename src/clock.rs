//! The only reader of clocks.
//!
//! Everything about time that can be decided without reading one is in `rq_core::clock`.

use std::cell::{Cell, RefCell};
use std::time::{SystemTime, UNIX_EPOCH};

use rq_core::clock::{Clock, MAX_AHEAD_MS};

use crate::api::{self, log, Ctx, Flags, Level};

/// If the server's main thread stood still for longer than this, workers could not reach it, and
/// get the grace. (Its cron would have run ten times meanwhile, or ten times in its own rhythm.)
const STALL_US: u64 = 1_000_000;

/// One reading: what a command goes by from beginning to end.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// The queue time, Unix ms.
    pub ms: u64,
    /// The monotonic clock as it is, in µs.
    pub mono_us: u64,
    /// No lease expires before this queue time; in the past: no grace.
    pub no_expiry_before_ms: u64,
}

/// The node's queue time, and the grace: the time after a load, a promotion, a pause or a stall
/// in which no lease expires, so that live workers can come back and settle what they hold.
#[derive(Default)]
pub struct QueueTime {
    clock: RefCell<Clock>,
    /// What the monotonic clock showed just before it was first asked; 0: not yet.
    start_us: Cell<u64>,
    /// For tests: both clocks are shown later by so much.
    offset_ms: Cell<i64>,
    /// The end of the grace, by the monotonic clock with the offset.
    grace_end_us: Cell<u64>,
    grace_ms: Cell<u64>,
    /// When the main thread was last seen at work; 0: never.
    alive_us: Cell<u64>,
    /// How long it may stand still.
    stall_us: Cell<u64>,
    /// Since when writes have been paused, as far as was looked, by the monotonic clock; 0: they
    /// are not.
    paused_us: Cell<u64>,
    /// When a time from the far future was last warned of.
    warned_us: Cell<u64>,
}

impl QueueTime {
    /// Reads the clocks.
    pub fn now(&self) -> Now {
        let wall_us = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| us(since.as_micros()));
        self.now_at(wall_us)
    }

    /// Reads the monotonic clock; the other one has been read.
    fn now_at(&self, wall_us: u64) -> Now {
        let real_us = self.monotonic_us();
        let alive_us = self.alive_us.get();
        if alive_us != 0 && real_us.saturating_sub(alive_us) > self.stall_us.get().max(STALL_US) {
            self.alive_us.set(real_us);
            self.make_up_for(real_us.saturating_sub(alive_us), "the server stood still");
        }
        let offset_ms = self.offset_ms.get();
        let mono_us = shift(real_us, offset_ms);
        let ms = self.clock.borrow_mut().read(shift(wall_us, offset_ms), mono_us);
        let grace_us = self.grace_end_us.get().saturating_sub(mono_us);
        let no_expiry_before_ms = if grace_us == 0 { 0 } else { ms.saturating_add(grace_us.div_ceil(1_000)) };
        Now { ms, mono_us: real_us, no_expiry_before_ms }
    }

    /// Reads the clocks for work on a queue that has seen `newest_ms`: never before that, unless
    /// that is absurd.
    pub fn now_for(&self, newest_ms: u64) -> Now {
        self.not_before(newest_ms, self.now())
    }

    /// The same in a command, for which the server has read the wall clock.
    pub fn now_in(&self, ctx: &Ctx, flags: Flags, newest_ms: u64) -> Now {
        let now = ctx.began_us(flags).map_or_else(|| self.now(), |wall_us| self.now_at(wall_us));
        self.not_before(newest_ms, now)
    }

    fn not_before(&self, newest_ms: u64, now: Now) -> Now {
        if newest_ms <= now.ms {
            return now;
        }
        self.observe(newest_ms);
        self.now()
    }

    /// Learns of an op of that time.
    pub fn observe(&self, op_ms: u64) {
        if self.clock.borrow_mut().observe(op_ms) {
            return;
        }
        let real_us = self.monotonic_us();
        if self.warned_us.get() == 0 || real_us.saturating_sub(self.warned_us.get()) > 60_000_000 {
            self.warned_us.set(real_us);
            log(Level::Warning, &format!(
                "an op of the time {op_ms} (Unix ms) is more than {MAX_AHEAD_MS} ms ahead of this server's clock, \
                 which goes on by its own: check the clocks of this server and of the one it came from"
            ));
        }
    }

    /// The monotonic clock as it is, in µs since this was first asked; never 0.
    pub fn monotonic_us(&self) -> u64 {
        let us = api::monotonic_us();
        if self.start_us.get() == 0 {
            self.start_us.set(us.saturating_sub(1));
        }
        us.saturating_sub(self.start_us.get()).max(1)
    }

    /// The main thread is at work, and will say so again within a `hz`th of a second. Starts the
    /// grace if it was not for long.
    pub fn alive(&self, hz: u64) {
        self.now();
        self.stall_us.set(10_000_000 / hz.max(1));
        self.alive_us.set(self.monotonic_us());
    }

    /// A command that writes is running, or nobody pauses writes: if they were paused, that has
    /// ended.
    pub fn not_paused(&self) {
        let since_us = self.paused_us.replace(0);
        if since_us != 0 {
            self.make_up_for(self.monotonic_us().saturating_sub(since_us), "a pause of writes has ended");
        }
    }

    /// Writes are paused.
    pub fn paused(&self) {
        if !self.is_paused() {
            self.paused_us.set(self.monotonic_us());
        }
    }

    /// Writes were paused when last looked.
    pub fn is_paused(&self) -> bool {
        self.paused_us.get() != 0
    }

    /// From now on, for as long as configured, no lease expires.
    pub fn begin_grace(&self, why: &str) {
        self.end_grace_at(self.after(self.grace_ms.get().saturating_mul(1_000)), why);
    }

    /// The same, after workers could not be served for `lost_us`. What happens again and again, such
    /// as a slow script every few seconds, must not keep leases for ever: unless more was lost, the
    /// grace is no longer than the time since the last one.
    fn make_up_for(&self, lost_us: u64, why: &str) {
        let last_end_us = self.grace_end_us.get();
        let since_us = if last_end_us == 0 { u64::MAX } else { self.after(0).saturating_sub(last_end_us) };
        let grace_us = self.grace_ms.get().saturating_mul(1_000).min(since_us.max(lost_us));
        self.end_grace_at(self.after(grace_us).max(last_end_us), why);
    }

    fn end_grace_at(&self, end_us: u64, why: &str) {
        self.grace_end_us.set(end_us);
        let left_ms = end_us.saturating_sub(self.after(0)) / 1_000;
        if left_ms > 0 {
            log(Level::Debug, &format!("{why}: no lease expires for {left_ms} ms"));
        }
    }

    /// The monotonic clock with the offset, so much later.
    fn after(&self, us: u64) -> u64 {
        shift(self.monotonic_us(), self.offset_ms.get()).saturating_add(us)
    }

    /// The length of the grace.
    pub fn set_grace_ms(&self, ms: u64) {
        self.grace_ms.set(ms);
    }

    /// The length of the grace.
    pub fn grace_ms(&self) -> u64 {
        self.grace_ms.get()
    }

    /// Shifts the clocks, for tests.
    pub fn set_offset_ms(&self, ms: i64) {
        self.offset_ms.set(ms);
    }

    /// The shift.
    pub fn offset_ms(&self) -> i64 {
        self.offset_ms.get()
    }

    /// How far queue time is ahead of the wall clock.
    pub fn ahead_ms(&self) -> u64 {
        self.clock.borrow().ahead_ms()
    }
}

fn us(micros: u128) -> u64 {
    u64::try_from(micros).unwrap_or(u64::MAX)
}

fn shift(us: u64, by_ms: i64) -> u64 {
    us.saturating_add_signed(by_ms.saturating_mul(1_000))
}
