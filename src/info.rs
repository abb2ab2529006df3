//! The section `rq` of INFO.

use crate::api::InfoCtx;
use crate::{graveyard, guard};
use crate::node::Node;

/// Writes it.
pub fn write(node: &Node, out: &InfoCtx) {
    if !out.section() {
        return;
    }
    let now = node.time.now();
    out.text(c"version", env!("CARGO_PKG_VERSION"));
    out.number(c"queues", node.index.borrow().len() as u64);
    out.number(c"blocked_clients", node.waiters.borrow().len() as u64);
    out.number(c"handed_out", node.count.handed_out.get());
    out.number(c"given_back", node.count.given_back.get());
    out.number(c"expiry_grace_left_ms", now.no_expiry_before_ms.saturating_sub(now.ms));
    out.number(c"clock_ahead_ms", node.time.ahead_ms());
    out.text(c"eviction_unsafe", if node.guard.evicts() && !guard::rescues(node) { "yes" } else { "no" });
    out.number(c"refused_unsafe", node.guard.refused.get());
    out.number(c"rescued_queues", node.rescue.revived.get());
    out.number(c"evicted_instead", node.rescue.others_evicted.get());
    out.number(c"missed_revivals", node.count.missed_revivals.get());
    out.text(c"eviction_given_way", if node.rescue.has_given_way() { "yes" } else { "no" });
    out.number(c"evicted_queues", node.guard.queues_lost.get());
    out.number(c"evicted_jobs", node.guard.jobs_lost.get());
    out.number(c"undecodable_batches", node.count.undecodable.get());
    out.number(c"misfit_ops", node.count.misfits.get());
    out.number(c"lazyfree_pending_queues", graveyard::size());
    out.number(c"panics", node.count.panics.get());
}
