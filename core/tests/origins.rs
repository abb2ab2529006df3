//! B14: wherever a job comes from, it meets the same limits and the same dead letter.

#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "tests may")]

mod support;

use rq_core::Tree;
use support::{at, bulk, field, items, string, Driver};

const ORIGINS: [&str; 8] = ["push", "delayed", "batch", "schedule", "unscheduled", "redrive", "held", "replaced"];

/// A queue with one job of that origin, ready.
fn poison(origin: &str) -> (Driver, String) {
    let mut q = Driver::new();
    q.cmd("RQ.CREATE LEASE 1000 JITTER none BACKOFF 50 5000 MAXDELIVERIES 4 MAXEXPIRIES 3");
    match origin {
        "push" => drop(q.cmd("RQ.PUSH p")),
        "delayed" => drop(q.cmd("RQ.PUSH p DELAY 100")),
        "batch" => drop(q.cmd("RQ.MPUSH 1 p")),
        "schedule" | "unscheduled" => drop(q.cmd("RQ.SCHEDULE s EVERY 100 LIMIT 1 PAYLOAD p")),
        "redrive" => {
            q.cmd("RQ.PUSH p");
            let (id, token) = q.lease("w");
            q.cmd(&format!("RQ.NACK {id} {token} DEAD ERROR old"));
            q.cmd("RQ.REDRIVE COUNT 1");
        }
        "held" => {
            q.cmd("RQ.PUSH first DEDUP k");
            let (id, token) = q.lease("w");
            q.cmd("RQ.PUSH p DEDUP k KEEPLAST");
            q.cmd(&format!("RQ.NACK {id} {token} ERROR old"));
            q.cmd(&format!("RQ.DEL {id}"));
        }
        _ => {
            q.cmd("RQ.PUSH first DEDUP k DELAY 9000");
            q.cmd("RQ.PUSH p DEDUP k REPLACE");
        }
    }
    q.pass(100);
    if origin == "unscheduled" {
        q.cmd("RQ.UNSCHEDULE s");
    }
    let page = q.cmd("RQ.PEEK READY");
    let id = string(&field(at(at(&page, 1), 0), "id"));
    (q, id)
}

/// Delivers it until nothing is left to deliver; the waits in between, and what GET shows.
fn run(origin: &str, end: &str, reload: bool) -> (Vec<u64>, Vec<(String, Tree)>) {
    let (mut q, id) = poison(origin);
    let mut waits = Vec::new();
    loop {
        if reload {
            q.reload();
        }
        let reply = q.cmd("RQ.LEASE w");
        if reply == Tree::NullArray {
            break;
        }
        let job = at(&reply, 0);
        assert_eq!(string(at(job, 0)), id, "{origin}");
        match end {
            "crash" => q.pass(1_000),
            end => drop(q.cmd(&format!("RQ.{end} {id} {} ERROR e", support::int(at(job, 1))))),
        }
        if let Tree::Int(due) = q.get(&id, "due-at") {
            waits.push((due as u64).saturating_sub(q.now));
            q.now = q.now.max(due as u64);
            q.pass(0);
        }
        assert!(waits.len() < 20, "{origin}: for ever");
    }
    let names = ["state", "reason", "deliveries", "max-deliveries", "failures", "expiries", "error", "consumer", "payload"];
    let shown = names.iter().map(|name| (name.to_string(), q.get(&id, name))).collect();
    assert_eq!((q.cmd("RQ.LEN"), q.cmd("RQ.LEN DEAD")), (Tree::Int(0), Tree::Int(1)), "{origin}");
    (waits, shown)
}

#[test]
fn the_same_limits_and_the_same_dead_letter() {
    for (end, reason, deliveries) in [("NACK", "failed", 4), ("crash", "expired-lease", 3)] {
        let first = run("push", end, false);
        assert_eq!(field_of(&first.1, "reason"), bulk(reason));
        assert_eq!(field_of(&first.1, "deliveries"), Tree::Int(deliveries));
        for origin in ORIGINS {
            for reload in [false, true] {
                let (waits, mut shown) = run(origin, end, reload);
                if origin == "redrive" {
                    // Its history is longer: one failure, before.
                    for (name, value) in &mut shown {
                        match (name.as_str(), &value) {
                            ("failures", Tree::Int(n)) => *value = Tree::Int(n - 1),
                            ("error", Tree::Bulk(text)) if text == b"old" => *value = Tree::Null,
                            _ => {}
                        }
                    }
                }
                assert_eq!(shown, first.1, "{origin}, {end}");
                assert_eq!(waits, first.0, "{origin}, {end}");
            }
        }
    }
}

fn field_of(shown: &[(String, Tree)], name: &str) -> Tree {
    shown.iter().find(|(other, _)| other == name).unwrap().1.clone()
}

/// Its own limit stands for all of them, and a whole batch of poison is buried one by one.
#[test]
fn own_limits_of_every_origin() {
    for push in ["RQ.PUSH p MAXDELIVERIES 2", "RQ.MPUSH 3 p p p MAXDELIVERIES 2", "RQ.SCHEDULE s EVERY 100 LIMIT 3 MISSED all PAYLOAD p MAXDELIVERIES 2"] {
        let mut q = Driver::new();
        q.cmd("RQ.CREATE BACKOFF 0 0");
        q.cmd(push);
        q.pass(300);
        let mut leases = 0;
        while let Tree::Array(jobs) = q.cmd("RQ.LEASE w") {
            leases += 1;
            q.cmd(&format!("RQ.NACK {} {}", string(at(&jobs[0], 0)), support::int(at(&jobs[0], 1))));
        }
        let dead = items(at(&q.cmd("RQ.PEEK DEAD"), 1)).len();
        assert_eq!(leases, 2 * dead, "{push}");
        assert!(dead == 1 || dead == 3);
    }
}
