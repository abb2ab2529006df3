//! Telling others: replicas and the AOF, caches, and whoever listens to keyspace events.

use rq_core::Effects;

use crate::api::{log, Ctx, Level, Notify, Str};
use crate::node::{add, Node, EVENTS};

/// Tells of what was decided here. The key must be closed.
pub fn publish(node: &Node, ctx: &Ctx, key: Str<'_>, effects: &Effects) {
    if !effects.batch().is_empty() && !ctx.replicate_apply(key, effects.batch()) {
        log(Level::Warning, "RQ.APPLY was renamed or removed: replicas and the AOF do not get the changes of queues");
    }
    for event in effects.events() {
        node.count.events.get(*event as usize).iter().for_each(|count| add(count, 1));
    }
    add(&node.count.stale, effects.stale());
    tell(node, ctx, key, effects);
}

/// Sends the keyspace events, as the server's own types do: each kind once for one command.
pub fn tell(node: &Node, ctx: &Ctx, key: Str<'_>, effects: &Effects) {
    if effects.misfits() > 0 {
        add(&node.count.misfits, effects.misfits());
    }
    let mut told = [false; EVENTS];
    for event in effects.events() {
        let Some(told) = told.get_mut(*event as usize) else { continue };
        if !std::mem::replace(told, true) {
            ctx.notify(Notify::MODULE, event.name(), key);
        }
    }
}
