//! The eviction guard: under `allkeys-*` the server would delete a whole queue, with every job in
//! it, to make room. Where the server allows it, the queue is put back (see [`rescue`]). Elsewhere
//! nothing tells the producers of those jobs; so they are told before.

use std::cell::{Cell, RefCell};
use std::ffi::CStr;

use rq_core::table::Verb;

use crate::api::{after_eviction, can_rescue, config_get, log, server_info, Ctx, Flags, Level, OwnedStr, Str};
use crate::node::{add, Node};
use crate::rescue::Doomed;
use crate::revival::Message;
use crate::graveyard;

/// What `rq.eviction-guard` can be.
pub const WORDS: &[&CStr] = &[c"refuse", c"warn", c"off", c"rescue"];
/// No jobs are taken while the server may evict them.
pub const REFUSE: i64 = 0;
/// Jobs are taken, and those that were lost are logged (this is `warn`, 1) or only counted.
pub const OFF: i64 = 2;
/// Evicted queues are put back.
pub const RESCUE: i64 = 3;

/// What it is at first.
pub fn default() -> i32 {
    (if can_rescue() { RESCUE } else { REFUSE }) as i32
}

/// What is known about the server's eviction.
#[derive(Default)]
pub struct EvictionGuard {
    /// The policy, if it is one that evicts keys without a time to live.
    allkeys: RefCell<Option<String>>,
    /// CONFIG is not to be had (renamed, perhaps): the policy cannot be changed, so queues that are
    /// evicted over and over could not be put back for ever.
    no_config: Cell<bool>,
    /// Valkey's import mode: nothing that this server holds is to change by itself.
    importing: Cell<bool>,
    /// Refused commands.
    pub refused: Cell<u64>,
    /// Queues that were evicted.
    pub queues_lost: Cell<u64>,
    /// The jobs in them, where the server shows them before (7.2).
    pub jobs_lost: Cell<u64>,
}

impl EvictionGuard {
    /// Whether the server may evict queues when maxmemory is set.
    pub fn evicts(&self) -> bool {
        self.allkeys.borrow().is_some()
    }

    /// The policy by which it does.
    pub fn policy(&self) -> Option<String> {
        self.allkeys.borrow().clone()
    }

    /// Whether the server is in Valkey's import mode.
    pub fn importing(&self) -> bool {
        self.importing.get()
    }
}

/// Learns the server's configuration. This runs commands: at load, when it has changed, and now
/// and then.
pub fn learn(node: &Node, ctx: &Ctx) {
    let policy = config_get(ctx, c"maxmemory-policy");
    node.guard.no_config.set(policy.is_none());
    let policy = policy.or_else(|| server_info(ctx, c"memory", c"maxmemory_policy"));
    let policy = policy.filter(|policy| policy.starts_with("allkeys-"));
    let importing = crate::api::is_valkey() && config_get(ctx, c"import-mode").is_some_and(|value| value == "yes");
    let news = policy.is_some() && *node.guard.allkeys.borrow() != policy;
    node.guard.importing.set(importing);
    node.guard.allkeys.replace(policy);
    if news && ctx.flags().contains(Flags::EVICT) {
        let (level, what) = match node.options.eviction_guard.get() {
            RESCUE if node.guard.no_config.get() => (Level::Warning, "and RQ needs CONFIG to put them back: RQ.PUSH, RQ.MPUSH and RQ.CREATE are refused"),
            REFUSE => (Level::Warning, "so RQ.PUSH, RQ.MPUSH and RQ.CREATE are refused. Use noeviction or a volatile-* policy"),
            RESCUE => (Level::Notice, "and RQ puts them back"),
            _ => (Level::Warning, "so queues can be lost. Use noeviction or a volatile-* policy"),
        };
        let policy = node.guard.policy().unwrap_or_default();
        log(level, &format!("maxmemory-policy is {policy}: the server would evict whole queues, {what}"));
    }
}

/// Whether no jobs are to be taken, because the server may drop them.
pub fn bars(node: &Node, flags: Flags) -> bool {
    let refuses = match node.options.eviction_guard.get() {
        REFUSE => true,
        RESCUE => node.guard.no_config.get(),
        _ => false,
    };
    flags.contains(Flags::EVICT) && refuses && node.guard.evicts()
}

/// The error for a command that would put jobs where the server may drop them.
pub fn refusal(node: &Node, verb: Verb, absent: bool, flags: Flags) -> Option<String> {
    let adds = matches!((verb, absent), (Verb::Push | Verb::MPush, _) | (Verb::Create | Verb::Schedule | Verb::Pause, true));
    if !adds || !bars(node, flags) {
        return None;
    }
    // What others have decided is never refused.
    if flags.intersects(Flags::REPLICATED | Flags::LOADING) || !flags.contains(Flags::MASTER) {
        return None;
    }
    let policy = node.guard.allkeys.borrow();
    let policy = policy.as_deref()?;
    add(&node.guard.refused, 1);
    let rescue = if can_rescue() && !node.guard.no_config.get() { "CONFIG SET rq.eviction-guard rescue to have them put back, " } else { "" };
    Some(format!(
        "UNSAFE maxmemory-policy is {policy}: the server would evict whole queues under memory pressure. \
         Use CONFIG SET maxmemory-policy noeviction (or a volatile-* policy), \
         {rescue}or CONFIG SET rq.eviction-guard warn to accept the risk"
    ))
}

/// Whether evicted queues are put back. (By `volatile-*` only those go that were given a time to live,
/// as was asked for.)
pub fn rescues(node: &Node) -> bool {
    node.options.eviction_guard.get() == RESCUE && !node.guard.no_config.get()
}

/// A queue is about to be evicted.
pub fn evicting(node: &Node, ctx: &Ctx, doomed: Box<Doomed>) {
    let (db, name, revival) = (doomed.db, OwnedStr::new(&doomed.key), doomed.revival);
    let refused = match rescues(node) && node.guard.evicts() {
        true => after_eviction(ctx, doomed).err(),
        false => Some(doomed),
    };
    match refused {
        None => {
            if ctx.select(db) {
                ctx.replicate_apply(name.get(), &Message::Spare(revival).encode());
            }
        }
        Some(doomed) => {
            graveyard::do_not_keep(revival.incarnation);
            lost(node, db, &doomed.key, Some(doomed.jobs));
        }
    }
}

/// A key was evicted, on a server that does not tell before.
pub fn evicted(node: &Node, ctx: &Ctx, key: Str<'_>) {
    if node.index.borrow().contains(ctx.db(), key.bytes()) {
        graveyard::settle();
        lost(node, ctx.db(), key.bytes(), None);
    }
}

/// A queue was lost by eviction, with so many jobs, if that is known.
pub fn lost(node: &Node, db: i32, key: &[u8], jobs: Option<u64>) {
    add(&node.guard.queues_lost, 1);
    add(&node.guard.jobs_lost, jobs.unwrap_or(0));
    if node.options.eviction_guard.get() != OFF {
        let jobs = jobs.map_or_else(|| "all its jobs".into(), |jobs| format!("{jobs} jobs"));
        log(Level::Warning, &format!(
            "the queue {} in database {} was evicted by the server, and {jobs} with it: set maxmemory-policy to noeviction or volatile-*",
            rq_core::quote(key), db,
        ));
    }
}
