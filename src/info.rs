//! The sections of INFO: `rq`, figures of the server and of all queues together, and `rq_queues`,
//! a line for each queue. They cost at most what looking at so many queues costs.

use std::ffi::{CStr, CString};

use rq_core::{Queue, State};

use crate::api::{Ctx, Flags, InfoCtx, Key, Mode, OwnedStr};
use crate::{graveyard, guard};
use crate::node::Node;

/// How many queues are summed up, and how many have a line of their own.
const MAX_SUMMED: usize = 1_000;
const MAX_LINES: usize = 100;

/// What happened to jobs by decisions of this process, since its start: by the number of the event.
static TOTALS: &[&CStr] = &[
    c"pushed_total", c"duplicates_total", c"leased_total", c"acked_total", c"nacked_total", c"released_total",
    c"expired_total", c"dead_total", c"redriven_total", c"deleted_total", c"dropped_total",
];
const _: () = assert!(TOTALS.len() == crate::node::EVENTS);

/// Writes them. `crash`: the server is about to end, and may be in the middle of anything.
pub fn write(node: &Node, out: &InfoCtx, crash: bool) {
    let looks = !crash && Ctx::of_nobody(|ctx| !ctx.flags().contains(Flags::LOADING)).unwrap_or(false);
    if out.section(None) {
        process(node, out);
        if looks {
            let mut sums = Sums::default();
            look(node, MAX_SUMMED, |_, _, shown| sums.add(shown));
            sums.write(out);
        }
    }
    if out.section(Some(c"queues")) && looks {
        let mut lines = Vec::new();
        look(node, MAX_LINES, |db, key, shown| lines.push((db, Box::<[u8]>::from(key), shown)));
        lines.sort_unstable_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
        for (n, (db, key, shown)) in lines.iter().enumerate() {
            let name = CString::new(format!("queue{n}")).unwrap_or_default();
            out.line(&name, |out| {
                out.number(c"db", u64::try_from(*db).unwrap_or(0));
                out.text(c"key", &shown_key(key));
                shown.write(out);
            });
        }
    }
}

/// A key as it may stand within a line: what separates or quotes does not, nor what is no ASCII.
fn shown_key(key: &[u8]) -> String {
    let mut shown = String::with_capacity(key.len());
    for byte in key {
        match byte {
            b',' | b'=' | b'"' | b'\\' => shown.push_str(&format!("\\x{byte:02x}")),
            0x21..=0x7e => shown.push(char::from(*byte)),
            _ => shown.push_str(&format!("\\x{byte:02x}")),
        }
    }
    shown
}

fn process(node: &Node, out: &InfoCtx) {
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
    out.text(c"eviction_given_way", if node.rescue.given_way().is_some() { "yes" } else { "no" });
    out.number(c"evicted_queues", node.guard.queues_lost.get());
    out.number(c"evicted_jobs", node.guard.jobs_lost.get());
    out.number(c"undecodable_batches", node.count.undecodable.get());
    out.number(c"misfit_ops", node.count.misfits.get());
    out.number(c"lazyfree_pending_queues", graveyard::size());
    out.number(c"timers", node.timer.alive());
    out.number(c"panics", node.count.panics.get());
    for (name, count) in TOTALS.iter().zip(&node.count.events) {
        out.number(name, count.get());
    }
    out.number(c"refused_tokens_total", node.count.stale.get());
    out.number(c"refused_full_total", node.count.full.get());
}

/// Figures of one queue.
#[derive(Clone, Copy)]
struct Shown {
    counts: [u64; 5],
    bytes: u64,
    oldest_ready_ms: u64,
}

impl Shown {
    fn of(queue: &Queue, bytes: usize, now_ms: u64) -> Shown {
        Shown {
            counts: State::ALL.map(|state| queue.count(state) as u64),
            bytes: bytes as u64,
            oldest_ready_ms: queue.oldest_ready_ms().map_or(0, |since| now_ms.saturating_sub(since)),
        }
    }

    fn write(&self, out: &InfoCtx) {
        for (name, count) in [c"ready", c"delayed", c"leased", c"dead", c"done"].into_iter().zip(self.counts) {
            out.number(name, count);
        }
        out.number(c"bytes", self.bytes);
        out.number(c"oldest_ready_ms", self.oldest_ready_ms);
    }
}

/// Those of several together.
#[derive(Default)]
struct Sums {
    queues: u64,
    counts: [u64; 5],
    bytes: u64,
    oldest_ready_ms: u64,
}

impl Sums {
    fn add(&mut self, one: Shown) {
        self.queues = self.queues.saturating_add(1);
        self.counts.iter_mut().zip(one.counts).for_each(|(sum, count)| *sum = sum.saturating_add(count));
        self.bytes = self.bytes.saturating_add(one.bytes);
        self.oldest_ready_ms = self.oldest_ready_ms.max(one.oldest_ready_ms);
    }

    fn write(&self, out: &InfoCtx) {
        out.number(c"summed_queues", self.queues);
        for (name, count) in [c"ready_jobs", c"delayed_jobs", c"leased_jobs", c"dead_jobs", c"done_jobs"].into_iter().zip(self.counts) {
            out.number(name, count);
        }
        out.number(c"queue_bytes", self.bytes);
        out.number(c"oldest_ready_ms", self.oldest_ready_ms);
    }
}

/// Shows up to `max` queues of all databases.
fn look(node: &Node, max: usize, mut show: impl FnMut(i32, &[u8], Shown)) {
    let keys = node.index.borrow().some(max);
    let now_ms = node.time.now().ms;
    Ctx::of_nobody(|ctx| {
        for (db, key) in keys {
            if !ctx.select(db) {
                continue;
            }
            let name = OwnedStr::new(&key);
            let Ok(mut opened) = Key::open(ctx, name.get(), Mode::Glance) else { continue };
            if let Some(value) = opened.value() {
                show(db, &key, Shown::of(&value.queue, value.bytes(), now_ms));
            }
        }
    });
}
