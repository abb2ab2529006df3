//! What the server tells, and who needs to know.

use std::ffi::CStr;

use crate::api::{Ctx, Flags, Key, LoadState, Mode, Scan, SlotRange, Str};
use crate::node::Node;
use crate::{api, graveyard, guard, rescue, revival, timer};

/// This server has become a primary, or a replica. Clients that wait are let go by the server
/// itself when it becomes a replica.
pub fn role_changed(node: &Node, ctx: &Ctx, primary: bool) {
    if primary {
        revival::finish(node, ctx);
        node.time.begin_grace("promoted");
        timer::rearm(node, ctx);
    }
}

/// A database was emptied, or all of them (-1). Those who wait for the end of a job are told.
pub fn flushed(node: &Node, db: i32) {
    node.index.borrow_mut().flushed(db);
    node.waiters.borrow_mut().mark_all();
}

/// Two databases have changed places. Clients wait for keys of the database they are in: the
/// server signals those that have come, and nothing tells of those that have gone.
pub fn swapped(node: &Node, a: i32, b: i32) {
    node.index.borrow_mut().swapped(a, b);
    node.waiters.borrow_mut().mark_all();
}

/// Data are loaded from a file, or from the primary.
pub fn loading(node: &Node, ctx: &Ctx, state: LoadState) {
    if state == LoadState::Started {
        revival::forget(node);
    }
    if state == LoadState::Ended {
        revival::finish(node, ctx);
        node.time.begin_grace("loaded");
        node.waiters.borrow_mut().mark_all();
        timer::rearm(node, ctx);
    }
}

/// Data are loaded from the primary beside those that are served.
pub fn loading_beside(node: &Node, state: LoadState) {
    revival::forget(node);
    let mut index = node.index.borrow_mut();
    match state {
        LoadState::Started => index.begin_beside(),
        LoadState::Ended => index.end_beside(true),
        LoadState::Failed => index.end_beside(false),
    }
}

/// Slots are on their way to this server, Valkey says: what arrives of them is not ours yet.
pub fn slots_coming(node: &Node, ranges: impl Iterator<Item = SlotRange>) {
    node.slots_coming.borrow_mut().extend(ranges);
}

/// They have come, or will not.
pub fn slots_settled(node: &Node, ctx: &Ctx, ranges: impl Iterator<Item = SlotRange>) {
    for settled in ranges {
        node.slots_coming.borrow_mut().retain(|coming| *coming != settled);
    }
    timer::rearm(node, ctx);
}

/// Keys of slots that have left this server are being removed, without a word about each.
pub fn slots_trimmed(node: &Node, ctx: &Ctx) {
    node.index.borrow_mut().doubt_all();
    timer::arm(node, ctx);
}

/// Some option of the server has changed.
pub fn config_changed(node: &Node, ctx: &Ctx, policy_was_set: bool) {
    if policy_was_set {
        rescue::policy_was_set(node);
    }
    guard::learn(node, ctx);
    timer::rearm(node, ctx);
}

/// The server's heartbeat.
pub fn cron(node: &Node, ctx: &Ctx, hz: u64) {
    node.time.alive(hz);
    graveyard::settle();
    let second = node.time.monotonic_us() / 1_000_000;
    if node.sweep.borrow().second != second {
        node.sweep.borrow_mut().second = second;
        let flags = ctx.flags();
        // In case a change of the policy was not told.
        if flags.contains(Flags::EVICT) || node.guard.importing() {
            guard::learn(node, ctx);
        }
        rescue::look(node, ctx);
        // From 8.4 on, Redis asks for the primary's slots in each step of a scan. A primary that has just
        // become a replica may take two nodes for replicas of each other, and asks for ever. A
        // replica can do without: it hears of each queue.
        let may_hang = flags.contains(Flags::CLUSTER) && !flags.contains(Flags::MASTER);
        if !may_hang && !flags.intersects(Flags::LOADING | Flags::ASYNC_LOADING) {
            sweep(node, ctx);
        }
    }
    timer::look_for_pause(node, ctx);
    // Wall clocks are set, ticks are lost: this comes again anyway.
    timer::arm(node, ctx);
}

/// Something has happened to a key, of any type.
pub fn keyspace(node: &Node, ctx: &Ctx, event: &CStr, key: Str<'_>) {
    match event.to_bytes() {
        b"evicted" if !api::tells_before_eviction() => guard::evicted(node, ctx, key),
        b"rename_to" | b"move_to" | b"copy_to" | b"restore" => {
            let Ok(mut opened) = Key::open(ctx, key, Mode::Glance) else { return };
            let Some(value) = opened.value() else { return };
            let at = value.next_event(node.time.now());
            node.index.borrow_mut().correct(ctx.db(), key.bytes(), &value.told, at);
            drop(opened);
            // Those who wait for the end of a job of the queue that was there before.
            node.waiters.borrow_mut().mark(ctx.db(), key.bytes());
            timer::arm(node, ctx);
        }
        _ => {}
    }
}

/// Goes over all keys of all databases, slowly, and tells the index what it has missed.
#[derive(Default)]
pub struct Sweep {
    second: u64,
    db: i32,
    scan: Option<Scan>,
}

/// How many steps a second, each of a few keys.
const SWEEP_STEPS: usize = 64;

fn sweep(node: &Node, ctx: &Ctx) {
    let mut sweep = node.sweep.borrow_mut();
    let now = node.time.now();
    for _ in 0..SWEEP_STEPS {
        if !ctx.select(sweep.db) {
            // There are no more databases: the next time, from the first one.
            sweep.db = 0;
            return;
        }
        let db = sweep.db;
        if sweep.scan.is_none() {
            sweep.scan = Scan::begin();
        }
        let Some(scan) = &mut sweep.scan else { return };
        let more = scan.step(ctx, |key, value| {
            let mut index = node.index.borrow_mut();
            if !index.contains(db, key.bytes()) {
                index.correct(db, key.bytes(), &value.told, value.next_event(now));
            }
        });
        if !more {
            sweep.db = sweep.db.saturating_add(1);
        }
    }
}
