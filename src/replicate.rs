//! Telling others: replicas and the AOF, caches, and whoever listens to keyspace events.

use rq_core::Effects;

use crate::api::{log, Ctx, Level, Notify, Str};
use crate::node::{add, Node};

/// Tells of what was decided here. The key must be closed.
pub fn publish(node: &Node, ctx: &Ctx, key: Str<'_>, effects: &Effects) {
    if !effects.batch().is_empty() && !ctx.replicate_apply(key, effects.batch()) {
        log(Level::Warning, "RQ.APPLY was renamed or removed: replicas and the AOF do not get the changes of queues");
    }
    for (event, n) in effects.kinds() {
        node.count.events.get(event as usize).iter().for_each(|count| add(count, n));
    }
    add(&node.count.stale, effects.stale());
    node.saw_token(effects.last_token());
    tell(node, ctx, key, effects);
}

/// Sends the keyspace events, as the server's own types do: each kind once for one command.
pub fn tell(node: &Node, ctx: &Ctx, key: Str<'_>, effects: &Effects) {
    if effects.misfits() > 0 {
        add(&node.count.misfits, effects.misfits());
    }
    for (event, _) in effects.kinds() {
        ctx.notify(Notify::MODULE, event.name(), key);
    }
}
