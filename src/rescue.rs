//! Rescue: a queue that the server evicts comes back under its key at once.
//!
//! The server tells before an eviction, but lets nobody prevent it. So the value is caught where
//! it is to be freed ([`crate::graveyard`]) and set under its key again in the same unit of execution,
//! before anything else can run; by its incarnation, which no other queue has. Replicas and the
//! AOF are told to do the same ([`crate::revival`]), so nowhere does it matter how long the queue is.
//!
//! When the server takes queues over and over, others go in their place ([`room`]). When only queues
//! are left, we give way: the policy is noeviction until memory has fallen.

use std::cell::{Cell, RefCell};

use crate::api::{call, log, memory_ratio, Ctx, Level, OwnedStr};
use crate::node::{add, Node};
use crate::revival::{put_back, Message, Revival, Spared};
use crate::{guard, room, timer};

/// A queue that is about to be evicted.
pub struct Doomed {
    /// Its database.
    pub db: i32,
    /// Its key.
    pub key: Box<[u8]>,
    /// How many jobs are in it.
    pub jobs: u64,
    /// Which queue it is.
    pub revival: Revival,
}

/// What is known about rescues.
#[derive(Default)]
pub struct Rescue {
    /// Queues that were put back.
    pub revived: Cell<u64>,
    /// Other keys that were evicted in their place.
    pub others_evicted: Cell<u64>,
    /// Queues evicted in a row, with no other key between.
    streak: Cell<u64>,
    /// How often in a row no other key was found.
    in_vain: Cell<u64>,
    /// Told by our primary, or by the file.
    pub spared: RefCell<Option<Spared>>,
    /// The user's policy, while it is noeviction by our doing.
    given_way: RefCell<Option<String>>,
    /// It is us who change the policy now.
    changing: Cell<bool>,
    /// When the last line of each kind was logged.
    told_us: Cell<Option<u64>>,
    failed_us: Cell<Option<u64>>,
    gave_us: Cell<Option<u64>>,
    /// The last time that we gave way was logged; so its end is, too.
    told_giving: Cell<bool>,
}

/// So many evictions of queues in a row are let pass.
const STREAK: u64 = 8;
/// So many searches for other keys in vain may be chance, and so many for each queue: five keys are
/// looked at each time.
const CHANCE: u64 = 8;
const CHANCE_PER_QUEUE: u64 = 2;
/// With very many queues: enough to be sure, and still a moment of work.
const CHANCE_AT_MOST: u64 = 2_000;
/// One line of a kind in the log for so many µs: under pressure there are many revivals.
const LOG_EVERY_US: u64 = 60_000_000;
/// The policy is given back when there are more other keys than queues, and than this.
const OTHERS: u64 = 100;
/// The same when less than so much of maxmemory is in use.
const LOW: f32 = 0.9;

impl Rescue {
    /// The user's policy, while it is noeviction by our doing.
    pub fn given_way(&self) -> Option<String> {
        self.given_way.borrow().clone()
    }
}

/// A key of another type is being evicted: there is something else to make room with.
pub fn another_evicted(node: &Node) {
    node.rescue.streak.set(0);
    node.rescue.in_vain.set(0);
}

/// Puts an evicted queue back, right after its eviction, and tells replicas and the AOF.
pub fn revive(node: &Node, ctx: &Ctx, doomed: &Doomed) {
    let name = OwnedStr::new(&doomed.key);
    if !ctx.select(doomed.db) || !put_back(node, ctx, name.get(), doomed.revival) {
        return guard::lost(node, doomed.db, &doomed.key, Some(doomed.jobs));
    }
    if !ctx.replicate_apply(name.get(), &Message::Revive(doomed.revival).encode()) {
        log(Level::Warning, "RQ.APPLY was renamed or removed: replicas and the AOF lose the queues that are evicted here");
    }
    timer::arm(node, ctx);
    add(&node.rescue.revived, 1);
    if is_news(node, &node.rescue.told_us) {
        log(Level::Notice, &format!(
            "the server evicted the queue {} in database {}: it was put back with its {} jobs (queues put back so far: {})",
            rq_core::quote(&doomed.key), doomed.db, doomed.jobs, node.rescue.revived.get(),
        ));
    }
    add(&node.rescue.streak, 1);
    if node.rescue.streak.get() > STREAK && memory_ratio() >= 1.0 {
        make_room(node, ctx);
    }
}

/// Whether no line of this kind was logged for long.
fn is_news(node: &Node, logged_us: &Cell<Option<u64>>) -> bool {
    let now_us = node.time.monotonic_us();
    let news = logged_us.get().is_none_or(|logged_us| now_us.saturating_sub(logged_us) > LOG_EVERY_US);
    if news {
        logged_us.set(Some(now_us));
    }
    news
}

/// The server takes nothing but queues: others go instead, if there are any.
fn make_room(node: &Node, ctx: &Ctx) {
    let in_vain = &node.rescue.in_vain;
    if room::make(node, ctx) {
        in_vain.set(0);
        return;
    }
    add(in_vain, 1);
    let queues = node.index.borrow().len() as u64;
    let chance = queues.saturating_mul(CHANCE_PER_QUEUE).saturating_add(CHANCE).min(CHANCE_AT_MOST);
    if in_vain.get() > chance || ctx.all_keys() <= queues {
        in_vain.set(0);
        give_way(node, ctx);
    }
}

/// Only queues are left to make room with: nothing is evicted any more, and what grows gets the
/// server's own error.
fn give_way(node: &Node, ctx: &Ctx) {
    let Some(policy) = node.guard.policy() else { return };
    match set_policy(node, ctx, "noeviction") {
        Ok(()) => {
            if is_news(node, &node.rescue.gave_us) {
                node.rescue.told_giving.set(true);
                log(Level::Warning, &format!(
                    "only queues are left to evict: maxmemory-policy is noeviction until less than {} % of maxmemory is used \
                     or there are other keys again, then {policy} again. Writes that need memory are refused (OOM) meanwhile",
                    LOW * 100.0,
                ));
            }
            node.rescue.given_way.replace(Some(policy));
        }
        Err(why) if is_news(node, &node.rescue.failed_us) => log(Level::Warning, &format!(
            "only queues are left to evict, and maxmemory-policy cannot be set to noeviction ({why}): \
             the server goes on evicting them in vain. Raise maxmemory"
        )),
        Err(_) => {}
    }
}

/// Gives the user's policy back if memory has fallen, or if rescues are not wanted any more.
/// Called every second.
pub fn look(node: &Node, ctx: &Ctx) {
    let Some(policy) = node.rescue.given_way() else { return };
    // As queues drain, a cache may take what they leave, and go instead of them again.
    let queues = node.index.borrow().len() as u64;
    let others = ctx.all_keys().saturating_sub(queues);
    if guard::rescues(node) && memory_ratio() >= LOW && others <= queues.max(OTHERS) {
        return;
    }
    node.rescue.given_way.replace(None);
    match set_policy(node, ctx, &policy) {
        Ok(()) if node.rescue.told_giving.take() => log(Level::Notice, &format!(
            "there is memory again, or something else to evict: maxmemory-policy is {policy} again"
        )),
        Ok(()) => {}
        Err(why) => log(Level::Warning, &format!("maxmemory-policy cannot be set back to {policy}: {why}")),
    }
}

/// The policy was set by somebody: if not by us, it is theirs, and not given back later.
pub fn policy_was_set(node: &Node) {
    if !node.rescue.changing.get() {
        node.rescue.given_way.replace(None);
    }
}

fn set_policy(node: &Node, ctx: &Ctx, policy: &str) -> Result<(), String> {
    node.rescue.changing.set(true);
    let result = call(ctx, c"CONFIG", &[b"SET", b"maxmemory-policy", policy.as_bytes()], false);
    node.rescue.changing.set(false);
    result.map(|_| ())
}
