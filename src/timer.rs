//! The tick: what time alone changes, with no client about.
//!
//! One timer, armed for the earliest of all queues' next events, of waiting clients' deadlines,
//! and of what commands have left for it. A tick works for about a millisecond and goes on in the
//! next one, so that a million due jobs hold up nobody.
//!
//! Not everywhere may it write. On a replica its writes would succeed, and diverge. In a pause of
//! writes the server would end itself. Then it looks again later, and as soon as a pause has ended.

use std::cell::Cell;
use std::rc::Rc;

use rq_core::{due, give_back, JobId};

use crate::api::{
    hang_up, may_use_slot, slot_of, start_timer, stop_timer, writes_are_paused, Ctx, Flags, Key, Mode, OwnedStr, Str, TimerId,
};
use crate::clock::Now;
use crate::node::{add, Node};
use crate::{blocking, replicate};

/// Due jobs between two looks at the budget.
const STEPS: u32 = 128;
/// When to look again: on a replica, after a role change at the latest; in a pause of writes.
const AGAIN_ELSEWHERE_US: u64 = 1_000_000;
const AGAIN_PAUSED_US: u64 = 50_000;
/// The same, if there was no time to look at all that is in doubt there.
const AGAIN_LOOKING_US: u64 = 10_000;
/// When to look again at a queue whose slot is on its way here.
const AGAIN_NOT_OWNED_MS: u64 = 100;
/// What commands leave behind for the tick is done so much later.
const SOON_US: u64 = 1_000;
/// An armed timer that is so much late has been stopped by a step back of the wall clock.
const LATE_US: u64 = 20_000;

/// The one timer of the server that we have.
#[derive(Default)]
pub struct Timer {
    armed: Cell<Option<(TimerId, u64)>>,
    /// Timers that were started and have neither fired nor been stopped: one at the most.
    alive: Cell<u64>,
    /// The queues are not to be looked at before, in monotonic µs.
    not_before_us: Cell<u64>,
}

impl Timer {
    /// How many timers the server has of us, for INFO.
    pub fn alive(&self) -> u64 {
        self.alive.get()
    }

    /// One has fired, or was stopped.
    fn ended(&self) {
        self.alive.set(self.alive.get().saturating_sub(1));
    }
}

/// Makes sure that the timer fires when there is something to do, and not later.
pub fn arm(node: &Node, ctx: &Ctx) {
    let now = node.time.now();
    if let Some(wanted_us) = wanted(node, now) {
        arm_at(node, ctx, now, wanted_us);
    }
}

/// The same, if all that is new is one queue's next event.
pub fn arm_for(node: &Node, ctx: &Ctx, now: Now, at_ms: u64) {
    let wanted_us = when(now, at_ms).max(node.timer.not_before_us.get());
    arm_at(node, ctx, now, wanted_us);
}

/// The same, after something has changed that the timer was set by: a clock, the role, a pause.
pub fn rearm(node: &Node, ctx: &Ctx) {
    node.timer.not_before_us.set(0);
    arm(node, ctx);
}

fn arm_at(node: &Node, ctx: &Ctx, now: Now, wanted_us: u64) {
    if let Some((id, armed_us)) = node.timer.armed.get() {
        if armed_us <= wanted_us && now.mono_us <= armed_us.saturating_add(LATE_US) {
            return;
        }
        stop_timer(ctx, id);
        node.timer.ended();
    }
    // Rounded up: a tick that comes a moment too early finds nothing, and has to come again.
    let in_ms = wanted_us.saturating_sub(now.mono_us).div_ceil(1_000);
    node.timer.armed.set(Some((start_timer(ctx, in_ms), wanted_us)));
    add(&node.timer.alive, 1);
}

/// When to tick, in monotonic µs; in the past: now.
fn wanted(node: &Node, now: Now) -> Option<u64> {
    let waiters = node.waiters.borrow();
    let work_us = match waiters.need_tick() {
        true => Some(now.mono_us.saturating_add(SOON_US)),
        false => node.index.borrow().first().map(|at_ms| when(now, at_ms)),
    };
    let work_us = work_us.map(|at| at.max(node.timer.not_before_us.get()));
    work_us.into_iter().chain(waiters.first_deadline_us()).min()
}

/// A queue time as a time of the monotonic clock.
fn when(now: Now, at_ms: u64) -> u64 {
    now.mono_us.saturating_add(at_ms.saturating_sub(now.ms).saturating_mul(1_000))
}

/// The timer has fired. The caller arms it again afterwards.
pub fn tick(node: &Node, ctx: &Ctx) {
    // It is spent, and stopping it would be an error.
    node.timer.armed.set(None);
    node.timer.ended();
    blocking::expire(node);
    blocking::tell_what_is_left(node);
    do_due(node, ctx);
}

/// The server's heartbeat, by which it ends pauses of writes. What is due is done at once then, not
/// with the next tick: if pauses follow each other, each may begin before that, and none of it would
/// be done. The caller arms the timer again afterwards.
pub fn look_for_pause(node: &Node, ctx: &Ctx) {
    let was_paused = node.time.is_paused();
    if may_not_write(node, ctx).is_none() && was_paused {
        do_due(node, ctx);
    }
}

/// Does what is due for about a millisecond, if this server may now.
fn do_due(node: &Node, ctx: &Ctx) {
    let now_us = node.time.monotonic_us();
    let in_time = || node.time.monotonic_us().saturating_sub(now_us) <= node.options.tick_us.get();
    if let Some(again_us) = may_not_write(node, ctx) {
        let all_seen = look_only(node, ctx, in_time);
        let again_us = if all_seen { again_us } else { AGAIN_LOOKING_US };
        node.timer.not_before_us.set(now_us.saturating_add(again_us));
        return;
    }
    node.timer.not_before_us.set(0);
    while in_time() {
        if !work_for_waiters(node, ctx) {
            let now = node.time.now();
            let due = node.index.borrow_mut().take_due(now.ms);
            let Some((db, key)) = due else { return };
            work(node, ctx, db, &key, &Cause::Due);
        }
    }
}

/// Does what commands have left for those who wait, before the server delivers replies: where
/// nothing may come between a reply and its delivery, this is how clients are served.
pub fn serve_waiters(node: &Node, ctx: &Ctx) {
    blocking::tell_what_is_left(node);
    if !node.waiters.borrow().need_tick() || may_not_write(node, ctx).is_some() {
        return;
    }
    let from_us = node.time.monotonic_us();
    while work_for_waiters(node, ctx) && node.time.monotonic_us().saturating_sub(from_us) <= node.options.tick_us.get() {}
}

/// Takes back what clients could not get, or serves those who wait for one key. False: there is
/// nothing of the kind to do.
fn work_for_waiters(node: &Node, ctx: &Ctx) -> bool {
    let lost = node.waiters.borrow_mut().take_lost();
    if let Some(lost) = lost {
        add(&node.count.given_back, lost.leases.len() as u64);
        work(node, ctx, lost.db, &lost.key, &Cause::Lost(&lost.leases));
        hang_up(ctx, lost.client);
        return true;
    }
    let marked = node.waiters.borrow_mut().take_marked();
    let Some((db, key)) = marked else { return false };
    work(node, ctx, db, &key, &Cause::Marked);
    true
}

/// Where nothing may be written, those who wait for the end of a job learn all the same that its
/// key has gone (what the primary tells of jobs comes by RQ.APPLY), and what is known of queues is
/// put right: a replica must not remember each that its primary has ever deleted. False: there is
/// more to look at.
fn look_only(node: &Node, ctx: &Ctx, in_time: impl Fn() -> bool) -> bool {
    if ctx.flags().intersects(Flags::LOADING | Flags::ASYNC_LOADING) {
        return true;
    }
    let keys = node.waiters.borrow().watched_keys();
    for (db, key) in keys {
        if ctx.select(db) {
            let name = OwnedStr::new(&key);
            let mut opened = Key::open(ctx, name.get(), Mode::Glance).ok();
            blocking::look_for_ends(node, (db, &key), opened.as_mut().and_then(Key::queue).as_deref());
        }
    }
    while in_time() {
        let doubtful = node.index.borrow().doubtful();
        let Some((db, key)) = doubtful else { return true };
        let name = OwnedStr::new(&key);
        let mut opened = ctx.select(db).then(|| Key::open(ctx, name.get(), Mode::Glance).ok()).flatten();
        match opened.as_mut().and_then(Key::value) {
            Some(value) => {
                let at = value.next_event(node.time.now());
                node.index.borrow_mut().correct(db, &key, &value.told, at);
            }
            None => node.index.borrow_mut().forget(db, &key),
        }
    }
    false
}

/// Whether, and after how many µs to ask again.
fn may_not_write(node: &Node, ctx: &Ctx) -> Option<u64> {
    let flags = ctx.flags();
    if !flags.contains(Flags::MASTER) || flags.intersects(Flags::LOADING | Flags::ASYNC_LOADING) || node.guard.importing() {
        return Some(AGAIN_ELSEWHERE_US);
    }
    if writes_are_paused() {
        node.time.paused();
        return Some(AGAIN_PAUSED_US);
    }
    node.time.not_paused();
    None
}

/// Whether a key is this server's: not on its way here with its slot.
fn owned(node: &Node, ctx: &Ctx, key: Str<'_>) -> bool {
    let Some(slot) = slot_of(ctx, key) else { return true };
    may_use_slot(slot) && !node.slots_coming.borrow().iter().any(|(first, last)| (*first..=*last).contains(&slot))
}

/// Looks again later at a queue that is not ours yet, or not any more, if it is still there.
fn leave_alone(node: &Node, ctx: &Ctx, db: i32, key: &Rc<[u8]>, name: Str<'_>) {
    let there = Key::open(ctx, name, Mode::Glance).is_ok_and(|mut opened| opened.queue().is_some());
    let again = node.time.now().ms.saturating_add(AGAIN_NOT_OWNED_MS);
    let mut index = node.index.borrow_mut();
    match there {
        true => index.set(db, key, Some(again)),
        false => index.forget(db, key),
    }
}

/// Why a queue is worked on.
enum Cause<'a> {
    /// Something is due.
    Due,
    /// There is something for those who wait, or something has happened to the key.
    Marked,
    /// These leases did not reach who they were for.
    Lost(&'a [(JobId, u64)]),
}

/// Does what is due in one queue, and serves those who wait for it.
fn work(node: &Node, ctx: &Ctx, db: i32, key: &Rc<[u8]>, cause: &Cause<'_>) {
    if !ctx.select(db) {
        return node.index.borrow_mut().forget(db, key);
    }
    let name = OwnedStr::new(key);
    if !owned(node, ctx, name.get()) {
        return leave_alone(node, ctx, db, key, name.get());
    }
    let mut effects = node.take_effects();
    {
        let opened = Key::open(ctx, name.get(), Mode::Write);
        let Ok(Some((mut opened, newest_ms))) = opened.map(|mut key| {
            let newest_ms = key.queue().map(|queue| queue.newest_ms())?;
            Some((key, newest_ms))
        }) else {
            node.keep_effects(effects);
            blocking::look_for_ends(node, (db, key), None);
            return node.index.borrow_mut().forget(db, key);
        };
        let Some(value) = opened.value() else { return };
        let queue = &mut value.queue;
        effects.watch_ends(node.waiters.borrow().watch(db, key));
        let now = node.time.now_for(newest_ms);
        let turn = node.turn(now, ctx.flags() | Flags::DENY_BLOCKING);
        if let Cause::Lost(leases) = cause {
            give_back(queue, leases, &turn, &mut effects);
        }
        let more = due(queue, &turn, STEPS, &mut effects);
        blocking::hand_out(node, (db, key), queue, &turn, &mut effects);
        value.record(&effects, now.ms);
        value.forget_old(now.ms);
        let next = if more { Some(now.ms) } else { value.next_event(now) };
        node.index.borrow_mut().correct(db, key, &value.told, next);
        // What was not done here may have ended jobs too: a restore over the queue, say.
        if matches!(cause, Cause::Marked) {
            blocking::look_for_ends(node, (db, key), Some(&value.queue));
        }
        opened.close(!effects.batch().is_empty());
    }
    blocking::tell(node, (db, key), effects.ended());
    replicate::publish(node, ctx, name.get(), &effects);
    node.keep_effects(effects);
}
