//! Queues in a cluster: their slots move, their nodes change sides. Cases B44, B48, B51 to B53.

use crate::harness::{block, jobs, wait_until, Client, Cluster, Job};

const Q: &str = "{w}jobs";
const IDLE: &str = "{w}idle";
const SLOTS: i64 = 16_384;
const LAST: &str = "{w}last";

/// A queue in all states, and the leases that are out.
struct Load {
    leases: Vec<Job>,
    slot: i64,
}

#[track_caller]
fn load(cluster: &Cluster) -> Load {
    cluster.run(&format!("RQ.CREATE {Q} LEASE 36000000 KEEPDONE 100 JITTER none"));
    for chunk in 0..30 {
        let payloads: Vec<String> = (0..100).map(|n| format!("j{chunk}-{n}")).collect();
        cluster.run(&format!("RQ.MPUSH {Q} 100 {}", payloads.join(" ")));
        cluster.run(&format!("RQ.MPUSH {Q} 100 {} DELAY 36000000 PRIORITY 3", payloads.join(" ")));
    }
    let leases = jobs(&cluster.run(&format!("RQ.LEASE {Q} w COUNT 2500")));
    let dead: Vec<String> = leases[..10].iter().map(Job::to_string).collect();
    cluster.run(&format!("RQ.NACK {Q} {} DEAD ERROR no", dead.join(" ")));
    let done: Vec<String> = leases[10..20].iter().map(Job::to_string).collect();
    cluster.run(&format!("RQ.ACK {Q} {} RESULT yes", done.join(" ")));
    Load { leases: leases[20..].to_vec(), slot: cluster.run(&format!("CLUSTER KEYSLOT {Q}")).int() }
}

/// After the move: the workers' tokens are good, all jobs are there, and time goes on by itself.
#[track_caller]
fn check(cluster: &Cluster, load: &Load, digest: &str) {
    let owner = &cluster.nodes[cluster.owner(load.slot).expect("somebody serves it")];
    assert_eq!(owner.digest(Q), digest);
    for job in [&load.leases[0], &load.leases[load.leases.len() - 1]] {
        assert_eq!(owner.codes(format!("RQ.ACK {Q} {job}")), [1]);
        assert_eq!(owner.codes(format!("RQ.ACK {Q} {job}")), [1], "and once more, since it is kept");
    }
    assert_eq!(owner.codes(format!("RQ.ACK {Q} {} {}", load.leases[1].id, load.leases[1].token - 1)), [0]);
    let worker = block(owner, &format!("RQ.LEASE {IDLE} w BLOCK 0"));
    owner.run(format!("RQ.PUSH {IDLE} due DELAY 300"));
    assert_eq!(jobs(&worker.reply())[0].text(), "due", "with nobody calling");
}

/// A worker that waits for a queue whose slot goes away is told where to.
#[track_caller]
fn is_sent_on(worker: &Client) {
    let reply = worker.reply();
    let told = ["MOVED ", "UNBLOCKED "].iter().any(|word| reply.error().starts_with(word));
    assert!(told, "{reply:?}");
    // Redis closes the connection after UNBLOCKED.
    if reply.error().starts_with("MOVED ") {
        assert!(worker.run("PING") == "PONG" && !worker.has_reply(), "told once");
    }
}

#[test]
fn b51_any_name_works_without_braces() {
    let cluster = Cluster::start(2, 0);
    for key in ["plain", "a:b:c", "{}x", "{a}{b}", "}{", "{", "ü", "LEASE", "*"] {
        cluster.run(&format!("RQ.CREATE {key} LEASE 7200000 KEEPDONE 5"));
        cluster.run(&format!("RQ.MPUSH {key} 2 a b GROUP g DEDUPS k1 k2"));
        let leased = jobs(&cluster.run(&format!("RQ.LEASE {key} w COUNT 2")));
        assert_eq!(cluster.run(&format!("RQ.ACK {key} {}", leased[0])).ints(), [1], "{key}");
        assert_eq!(cluster.run(&format!("RQ.NACK {key} {} DEAD", leased[1])).ints(), [2], "{key}");
        assert_eq!(cluster.run(&format!("RQ.REDRIVE {key} {}", leased[1].id)).ints(), [1], "{key}");
        assert_eq!(jobs(&cluster.run(&format!("RQ.MLEASE 1 {key} w")).array()[1]).len(), 1, "{key}");
    }
}

#[test]
fn b52_who_waits_is_told_once_when_the_slot_goes_or_the_cluster_is_down() {
    let cluster = Cluster::start(2, 0);
    let slot = cluster.run(&format!("CLUSTER KEYSLOT {IDLE}")).int();
    let from = cluster.owner(slot).expect("somebody serves it");
    let (source, target) = (&cluster.nodes[from], &cluster.nodes[1 - from]);
    let worker = block(source, &format!("RQ.LEASE {IDLE} w BLOCK 0"));
    for node in [target, source] {
        node.run(format!("CLUSTER SETSLOT {slot} NODE {}", cluster.id(1 - from)));
    }
    cluster.wait_owner(slot, 1 - from);
    is_sent_on(&worker);
    let worker = block(target, &format!("RQ.LEASE {IDLE} w BLOCK 0 LEASE 7200000"));
    target.push(format!("{IDLE} x"));
    assert_eq!(jobs(&worker.reply()).len(), 1);
    let worker = block(target, &format!("RQ.LEASE {IDLE} w BLOCK 0 LEASE 7200000"));
    let other = (0..SLOTS).find(|other| *other != slot && cluster.owner(*other) == Some(1 - from)).expect("another slot");
    target.run(format!("CLUSTER DELSLOTS {other}"));
    assert!(worker.reply().error().starts_with("CLUSTERDOWN "));
    assert!(worker.run("PING") == "PONG" && !worker.has_reply(), "told once");
    target.run(format!("CLUSTER ADDSLOTS {other}"));
    wait_until("the cluster", || !target.try_run(format!("RQ.LEN {IDLE}")).is_error());
    assert_eq!(target.info(IDLE).ints(["leased", "delivered-total"]), [1, 1]);
}

/// Valkey 9 and Redis 8.4: given up half way, the source is whole and the target clean.
#[test]
fn b53_a_move_that_is_given_up() {
    let cluster = Cluster::start(2, 0);
    let node = &cluster.nodes[0];
    if !moves_at_once(node) {
        return;
    }
    let load = load(&cluster);
    let slot = load.slot;
    let from = cluster.owner(slot).expect("somebody serves it");
    let (source, target) = (&cluster.nodes[from], &cluster.nodes[1 - from]);
    let digest = source.digest(Q);
    // In one turn of the node, so that it cannot be over before it is given up.
    let (at, lines) = if node.is_valkey() {
        let id = cluster.id(1 - from);
        (source, format!("CLUSTER MIGRATESLOTS SLOTSRANGE {slot} {slot} NODE {id}\r\nCLUSTER CANCELSLOTMIGRATIONS\r\n"))
    } else {
        (target, format!("CLUSTER MIGRATION IMPORT {slot} {slot}\r\nCLUSTER MIGRATION CANCEL ALL\r\n"))
    };
    at.send_bytes(lines.as_bytes());
    for _ in 0..2 {
        let reply = at.reply();
        assert!(!reply.is_error(), "{reply:?}");
    }
    assert_eq!(cluster.owner(slot), Some(from));
    wait_until("the target's letting go", || target.run("DBSIZE") == 0);
    check(&cluster, &load, &digest);
}

#[test]
fn b48_a_rewrite_in_a_cluster() {
    let cluster = Cluster::start(1, 0);
    let node = &cluster.nodes[0];
    node.run("CONFIG SET appendonly yes");
    wait_until("the first file", || {
        let info = node.server_info("persistence");
        info["aof_rewrite_in_progress"] == "0" && info["aof_rewrite_scheduled"] == "0"
    });
    load(&cluster);
    let digest = node.digest(Q);
    for preamble in ["yes", "no"] {
        node.run(format!("CONFIG SET aof-use-rdb-preamble {preamble}"));
        node.rewrite_aof();
        node.run("DEBUG LOADAOF");
        assert_eq!(node.digest(Q), digest, "{preamble}");
    }
}

#[test]
fn b53_a_slot_is_moved_key_by_key() {
    let cluster = Cluster::start(2, 0);
    let load = load(&cluster);
    let from = cluster.owner(load.slot).expect("somebody serves it");
    let to = 1 - from;
    let (source, target) = (&cluster.nodes[from], &cluster.nodes[to]);
    let digest = source.digest(Q);
    let worker = block(source, &format!("RQ.LEASE {IDLE} w BLOCK 0"));
    target.run(format!("CLUSTER SETSLOT {} IMPORTING {}", load.slot, cluster.id(from)));
    source.run(format!("CLUSTER SETSLOT {} MIGRATING {}", load.slot, cluster.id(to)));
    source.run(format!("MIGRATE 127.0.0.1 {} {Q} 0 60000", target.port));
    // What is there still is served there, what is gone is asked for elsewhere.
    assert!(source.error(format!("RQ.LEN {Q}")).starts_with("ASK "));
    assert_eq!(cluster.run(&format!("RQ.LEN {Q} DEAD")), 10);
    for node in [target, source] {
        node.run(format!("CLUSTER SETSLOT {} NODE {}", load.slot, cluster.id(to)));
    }
    cluster.wait_owner(load.slot, to);
    is_sent_on(&worker);
    check(&cluster, &load, &digest);
    assert_eq!(source.run("DBSIZE"), 0);
}

/// Whether slots can be moved in one go.
fn moves_at_once(node: &crate::harness::Server) -> bool {
    node.version() >= if node.is_valkey() { (9, 0) } else { (8, 4) }
}

/// Valkey 9 and Redis 8.4 move a slot in one go, with writes going on.
#[test]
fn b53_a_slot_is_moved_at_once_under_load() {
    let cluster = Cluster::start(2, 0);
    let node = &cluster.nodes[0];
    if !moves_at_once(node) {
        return;
    }
    let load = load(&cluster);
    let from = cluster.owner(load.slot).expect("somebody serves it");
    let to = 1 - from;
    let (source, target) = (&cluster.nodes[from], &cluster.nodes[to]);
    let worker = block(source, &format!("RQ.LEASE {IDLE} w BLOCK 0"));
    // One that has finished a job, and waits for the next.
    source.run(format!("RQ.PUSH {LAST} x"));
    let last = source.lease_one(format!("{LAST} w"));
    let done = block(source, &format!("RQ.ACKLEASE {LAST} {last} w BLOCK 0"));
    let slot = load.slot;
    if node.is_valkey() {
        source.run(format!("CLUSTER MIGRATESLOTS SLOTSRANGE {slot} {slot} NODE {}", cluster.id(to)));
    } else {
        target.run(format!("CLUSTER MIGRATION IMPORT {slot} {slot}"));
    }
    // Producers and workers go on all the while.
    let before = cluster.run(&format!("RQ.INFO {Q}")).fields().ints(["pushed-total", "acked-total"]);
    let (mut pushed, mut acked) = (0, 0);
    wait_until("the move", || {
        for _ in 0..20 {
            let push = cluster.run(&format!("RQ.PUSH {Q} more"));
            assert!(!push.is_error(), "{push:?}");
            pushed += 1;
            let job = jobs(&cluster.run(&format!("RQ.LEASE {Q} v"))).remove(0);
            assert_eq!(cluster.run(&format!("RQ.ACK {Q} {job}")).ints(), [1]);
            acked += 1;
        }
        cluster.owner(slot) == Some(to)
    });
    cluster.wait_owner(slot, to);
    is_sent_on(&worker);
    is_sent_on(&done);
    assert_eq!(target.run(format!("RQ.LEN {LAST}")), 0);
    assert_eq!(target.codes(format!("RQ.ACK {LAST} {last}")), [-1], "it is finished");
    let after = cluster.run(&format!("RQ.INFO {Q}")).fields().ints(["pushed-total", "acked-total"]);
    assert_eq!(after, [before[0] + pushed, before[1] + acked], "each of them counts, and once");
    check(&cluster, &load, &target.digest(Q));
    wait_until("the source's letting go", || source.run("DBSIZE") == 0);
}

#[test]
fn b44_a_replica_takes_over_by_hand() {
    let cluster = Cluster::start(3, 1);
    let load = load_on(&cluster, 0);
    let replica = &cluster.nodes[3];
    let primary = &cluster.nodes[0];
    let worker = block(primary, &format!("RQ.LEASE {IDLE} w BLOCK 0"));
    let digest = primary.digest(Q);
    wait_until("the replica's offset", || {
        replica.server_info("replication")["slave_repl_offset"] == primary.server_info("replication")["master_repl_offset"].text()
    });
    replica.run("CLUSTER FAILOVER");
    cluster.wait_owner(load.slot, 3);
    is_sent_on(&worker);
    wait_until("the old primary's new side", || primary.server_info("replication")["role"] == "slave");
    check(&cluster, &load, &digest);
    wait_until("the old primary's link", || primary.server_info("replication")["master_link_status"] == "up");
    wait_until("the same on both", || {
        primary.run("READONLY");
        primary.digest(Q) == replica.digest(Q)
    });
}

/// The same, with the slot on a certain node.
fn load_on(cluster: &Cluster, node: usize) -> Load {
    let load = load(cluster);
    assert_eq!(cluster.owner(load.slot), Some(node), "choose another tag");
    load
}
