//! RQ.DOCTOR: what on a server can lose or hold up jobs now. Facts in, findings out; each queue is
//! looked at in a time that does not depend on its jobs.

use crate::effects::Local;
use crate::findings::{
    word, Found, ACCEPT_APPLY, AOF_FSYNC, AOF_OFF, DEAD_GROWING, DEAD_MANY, DIVERGED, EVICTED, EVICTION, GIVEN_WAY, RESCUED, GROUP_PAUSED, GROUP_RETRY,
    LEASE_SHORT, MEMORY_FULL, NOBODY_LEASING, NO_MAXMEMORY, NO_REPLICA, NO_REPLICA_IN_CLUSTER, PAUSED_LONG, QUEUE_LARGE, QUEUE_TTL,
    REPLICA_NOT_NEEDED, SLOTS_FULL, SLOTS_PAUSED, STALE, VOLATILE,
};
use crate::groups::Group;
use crate::id::IdText;
use crate::job::State;
use crate::limits::MAX_LEASE_MS;
use crate::pause::Pause;
use crate::queue::Queue;
use crate::store::Entry;
use crate::view;

/// Ready jobs that wait for so long while nobody leases.
const UNSERVED_MS: u64 = 60_000;
/// Ready jobs that wait for so long behind a pause or a retry.
const HELD_MS: u64 = 300_000;
/// So many dead jobs, or bytes of them, are many.
const MANY_DEAD: u64 = 1_000;
const MANY_DEAD_BYTES: u64 = 64 << 20;
/// How many groups, and delayed jobs, of one queue are looked at.
const MAX_GROUPS: usize = 1_000;
const MAX_DELAYED: usize = 1_000;

/// What is known of the server.
#[derive(Debug, Clone, Default)]
pub struct Server {
    /// It is a primary.
    pub primary: bool,
    /// Its node id, if it is part of a cluster.
    pub cluster_node: Option<String>,
    /// Where the caller has reached it.
    pub host: String,
    /// Where the caller has reached it.
    pub port: String,
    /// `maxmemory-policy`.
    pub policy: String,
    /// `maxmemory` in bytes; 0: none.
    pub maxmemory: u64,
    /// Bytes in use.
    pub used: u64,
    /// Bytes that the machine has.
    pub machine: u64,
    /// Keys of all databases that have no TTL and are no queues.
    pub other_keys: u64,
    /// `appendonly`.
    pub appendonly: bool,
    /// `appendfsync`.
    pub appendfsync: String,
    /// Connected replicas.
    pub replicas: u64,
    /// `min-replicas-to-write`.
    pub replicas_needed: u64,
    /// The longest string that it takes, which is what MIGRATE sends a queue as.
    pub max_bulk: u64,
    /// `rq.accept-apply`.
    pub accept_apply: bool,
    /// Evicted queues, and the jobs in them.
    pub evicted: (u64, u64),
    /// Whether evicted queues are put back.
    pub rescues: bool,
    /// How often one was.
    pub rescued: u64,
    /// The policy until RQ has set noeviction, which it will set back.
    pub given_way: Option<String>,
    /// Ops that did not decode, or did not fit.
    pub not_applied: u64,
}

/// What is known of one queue beside itself.
#[derive(Debug, Clone, Copy, Default)]
pub struct Around<'a> {
    /// Its key.
    pub key: &'a [u8],
    /// Queue time, Unix ms.
    pub now: u64,
    /// In how many ms the key expires.
    pub ttl_ms: Option<u64>,
    /// What it takes in memory.
    pub bytes: u64,
    /// Figures of this process.
    pub local: Local,
}

/// What can be said of the server, the worst first.
pub fn examine_server(server: &Server, found: &mut Vec<Found>) {
    let Server { policy, maxmemory, used, .. } = server;
    let evicts = policy.starts_with("allkeys-") && *maxmemory > 0;
    if evicts && !server.rescues {
        found.push(EVICTION.with(&[("policy", policy)]));
    }
    let (queues, jobs) = server.evicted;
    if evicts && queues > 0 {
        found.push(EVICTED.with(&[("queues", &queues), ("jobs", &jobs), ("policy", policy)]));
    }
    if *maxmemory > 0 && used.saturating_mul(10) >= maxmemory.saturating_mul(9) {
        found.push(MEMORY_FULL.with(&[("used", used), ("max", maxmemory), ("more", &used.saturating_mul(2))]));
    }
    if evicts && server.rescued > 0 {
        found.push(RESCUED.with(&[("policy", policy), ("count", &server.rescued)]));
    }
    if let Some(policy) = &server.given_way {
        found.push(GIVEN_WAY.with(&[("policy", policy), ("more", &used.saturating_mul(2))]));
    }
    if !server.primary && server.not_applied > 0 {
        found.push(DIVERGED.with(&[("count", &server.not_applied)]));
    }
    if policy.starts_with("volatile-") && *maxmemory > 0 && server.other_keys > 0 {
        found.push(VOLATILE.with(&[("policy", policy), ("keys", &server.other_keys)]));
    }
    if !server.appendonly {
        found.push(AOF_OFF.with(&[]));
    } else if server.appendfsync == "no" {
        found.push(AOF_FSYNC.with(&[]));
    }
    if server.primary {
        match (server.replicas, &server.cluster_node) {
            (0, Some(node)) => found.push(NO_REPLICA_IN_CLUSTER.with(&[("node", node)])),
            (0, None) => found.push(NO_REPLICA.with(&[("host", &server.host), ("port", &server.port)])),
            _ if server.replicas_needed == 0 => found.push(REPLICA_NOT_NEEDED.with(&[])),
            _ => {}
        }
    }
    if server.accept_apply {
        found.push(ACCEPT_APPLY.with(&[]));
    }
    if *maxmemory == 0 {
        // Some is left to the system and to the copies that a fork makes.
        let bytes = (server.machine / 10).saturating_mul(6).max(used.saturating_mul(2));
        let policy = if policy.starts_with("allkeys-") { " maxmemory-policy noeviction" } else { "" };
        found.push(NO_MAXMEMORY.with(&[("bytes", &bytes), ("policy", &policy)]));
    }
}

/// What can be said of one queue.
pub fn examine_queue(queue: &Queue, around: &Around<'_>, server: &Server, found: &mut Vec<Found>) {
    let key = word(around.key);
    if let Some(ms) = around.ttl_ms {
        found.push(QUEUE_TTL.with(&[("key", &key), ("ms", &ms), ("jobs", &queue.jobs())]));
    }
    dead(queue, &key, around, found);
    leases(queue, &key, around, found);
    slots(queue, &key, around.now, found);
    held(queue, &key, around, server, found);
    if server.cluster_node.is_some() && around.bytes > server.max_bulk / 2 {
        let more = around.bytes.saturating_mul(4);
        found.push(QUEUE_LARGE.with(&[("key", &key), ("bytes", &around.bytes), ("max", &server.max_bulk), ("more", &more)]));
    }
}

fn dead(queue: &Queue, key: &str, around: &Around<'_>, found: &mut Vec<Found>) {
    let dead = queue.count(State::Dead) as u64;
    let bytes = queue.bytes.get(State::Dead as usize).copied().unwrap_or(0);
    let died = around.local.recent.died;
    if died > 0 && dead > 0 {
        found.push(DEAD_GROWING.with(&[("key", &key), ("died", &died), ("dead", &dead)]));
    }
    if dead >= MANY_DEAD || bytes >= MANY_DEAD_BYTES {
        found.push(DEAD_MANY.with(&[("key", &key), ("dead", &dead), ("bytes", &bytes)]));
    }
}

fn leases(queue: &Queue, key: &str, around: &Around<'_>, found: &mut Vec<Found>) {
    let lease = queue.policy().lease_ms();
    let recent = around.local.recent;
    let p99 = recent.run.map_or(0, |run| run.p99);
    let longer = lease.max(p99).saturating_mul(2).min(MAX_LEASE_MS);
    // With heartbeats runs may be longer than leases, and none expires.
    if p99 > lease && recent.expired > 0 {
        found.push(LEASE_SHORT.with(&[("key", &key), ("lease", &lease), ("p99", &p99), ("expired", &recent.expired), ("longer", &longer)]));
    }
    if recent.stale > 0 {
        found.push(STALE.with(&[("key", &key), ("stale", &recent.stale), ("lease", &lease), ("longer", &longer)]));
    }
}

/// Slots that were skipped are history, unless what they met with is still there.
fn slots(queue: &Queue, key: &str, now: u64, found: &mut Vec<Found>) {
    let skipped = queue.head.totals.slots_skipped;
    if skipped == 0 || queue.schedules.len() == 0 {
        return;
    }
    if Pause::on(queue.head.paused_in.as_deref(), now).is_some() {
        found.push(SLOTS_PAUSED.with(&[("key", &key), ("skipped", &skipped)]));
    }
    let (max_live, max_bytes) = queue.policy().max_live();
    let bounds = [("MAXLIVE", max_live, queue.live()), ("MAXLIVEBYTES", max_bytes, queue.live_bytes())];
    for (option, max, live) in bounds {
        if let Some(max) = max.filter(|max| live >= *max) {
            let more = live.max(1).saturating_mul(2);
            found.push(SLOTS_FULL.with(&[("key", &key), ("skipped", &skipped), ("option", &option), ("max", &max), ("more", &more)]));
        }
    }
}

fn held(queue: &Queue, key: &str, around: &Around<'_>, server: &Server, found: &mut Vec<Found>) {
    let now = around.now;
    let ready = queue.count(State::Ready);
    let age = queue.oldest_ready_ms().map_or(0, |since| now.saturating_sub(since));
    let held = view::held_name(queue, now);
    let unserved = around.local.blocked == 0 && around.local.recent.wait.is_none();
    if held == "no" && unserved && server.primary && age >= UNSERVED_MS {
        found.push(NOBODY_LEASING.with(&[("key", &key), ("ready", &ready), ("age", &age)]));
    }
    if held == "paused" && ready > 0 && age >= HELD_MS {
        found.push(PAUSED_LONG.with(&[("key", &key), ("ready", &ready), ("age", &age)]));
    }
    let groups = queue.groups.after(None).take(MAX_GROUPS).map(|(_, group)| group);
    let long = |group: &Group| group.oldest_ready().map(|since| now.saturating_sub(since)).filter(|age| *age >= HELD_MS);
    let waiting = groups.filter_map(|group| Some((group, long(group)?)));
    let (mut paused, mut retried) = (false, false);
    for (group, age) in waiting {
        let (name, ready) = (word(&group.name), group.ready());
        if Pause::on(group.pause.as_ref(), now).is_some() {
            if !std::mem::replace(&mut paused, true) {
                found.push(GROUP_PAUSED.with(&[("key", &key), ("group", &name), ("ready", &ready), ("age", &age)]));
            }
        } else if queue.policy().group_order() && group.leased == 0 && group.retrying > 0 && !retried {
            retried = true;
            found.extend(retry_of(queue, group).map(|id| {
                GROUP_RETRY.with(&[("key", &key), ("group", &name), ("ready", &ready), ("age", &age), ("id", &id)])
            }));
        }
    }
}

/// A delayed job of a group, by whose retry the others are held up.
fn retry_of(queue: &Queue, group: &Group) -> Option<String> {
    let delayed = queue.delayed.iter().take(MAX_DELAYED).filter_map(|entry| queue.jobs.get(entry.slot()));
    let mut held = delayed.filter(|job| job.token > 0 && queue.group(job) == Some(&group.name));
    let mut text = IdText::new();
    held.next().map(|job| String::from_utf8_lossy(job.id.write(&mut text)).into_owned())
}
