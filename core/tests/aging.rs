//! Old jobs of low priority, and what is left of groups when they are not needed any more.

#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "tests may")]

mod support;

use rq_core::Tree;
use support::{at, bulk, int, items, snapshot, string, Driver};

fn queue(policy: &str) -> Driver {
    let mut q = Driver::new();
    q.cmd(&format!("RQ.CREATE LEASE 1000 JITTER none {policy}"));
    q
}

/// Leases one and finishes it; its payload.
fn work(q: &mut Driver) -> String {
    let reply = q.cmd("RQ.LEASE w");
    let job = at(&reply, 0);
    q.cmd(&format!("RQ.ACK {} {}", string(at(job, 0)), int(at(job, 1))));
    string(at(job, 3))
}

/// B23: without AGING the order is strict and INFO shows who waits; with it the wait has an end.
#[test]
fn a_low_job_behind_a_class_that_is_never_empty() {
    for grouped in [false, true] {
        let group = if grouped { "GROUP low" } else { "" };
        let mut q = queue("");
        q.cmd(&format!("RQ.PUSH low {group}"));
        for _ in 0..200 {
            q.cmd("RQ.PUSH high PRIORITY 10");
            q.pass(10);
            assert_eq!(work(&mut q), "high");
        }
        assert_eq!(q.info("oldest-ready-ms"), Tree::Int(2_000));
        q.cmd("RQ.PUSH high PRIORITY 10");
        q.cmd("RQ.ALTER AGING 200");
        // Ten steps up, but those it meets have risen as well: by none, they are new.
        assert_eq!(work(&mut q), "high", "equal ones go by their own priority");
        let mut q = queue("AGING 100");
        q.cmd(&format!("RQ.PUSH low {group}"));
        let mut leases = 0;
        loop {
            q.cmd("RQ.PUSH high PRIORITY 10");
            q.pass(10);
            leases += 1;
            if work(&mut q) == "low" {
                break;
            }
        }
        assert_eq!(leases, 110, "when it is eleven steps up: one above them");
        q.reload();
    }
}

/// The heads are compared, not all jobs: what came first at a priority is what is compared.
#[test]
fn aging_compares_heads() {
    let mut q = queue("AGING 100");
    q.cmd("RQ.PUSH old-low PRIORITY 0");
    q.now += 250;
    q.cmd("RQ.PUSH mid PRIORITY 1");
    q.cmd("RQ.PUSH high PRIORITY 2");
    // 2 steps up: equal to high, which goes first by its own priority.
    assert_eq!(work(&mut q), "high");
    assert_eq!(work(&mut q), "old-low", "now above mid");
    assert_eq!(work(&mut q), "mid");
    // A paused group does not stand in the way of others, however old.
    q.cmd("RQ.PUSH stuck GROUP g");
    q.cmd("RQ.PAUSE GROUP g");
    q.pass(100_000);
    q.cmd("RQ.PUSH new");
    assert_eq!(work(&mut q), "new");
}

/// Nor does a group that may not be served stand for its priority, in front of one that may.
#[test]
fn a_barred_group_hides_nobody_from_aging() {
    let mut q = queue("AGING 100");
    q.cmd("RQ.PUSH oldest PRIORITY 1 GROUP b");
    let (id, token) = q.lease("w");
    q.now += 50;
    q.cmd("RQ.PUSH lower GROUP a");
    q.now += 200;
    q.cmd("RQ.PUSH barred PRIORITY 1 GROUP c");
    q.cmd("RQ.PAUSE GROUP c");
    // Behind c in turn, at its old place.
    q.cmd(&format!("RQ.RELEASE {id} {token}"));
    q.now += 110;
    assert_eq!(work(&mut q), "oldest", "four, where lower is at three and barred at two");
    assert_eq!(work(&mut q), "lower");
    assert_eq!(q.info("held"), bulk("groups"));
}

/// GROUPS: names, counts, pages; a read.
#[test]
fn groups_are_listed() {
    let mut q = queue("");
    assert_eq!(q.cmd("RQ.GROUPS"), Tree::Array(Vec::new()));
    q.cmd("RQ.MPUSH 3 1 2 3 GROUP b");
    q.cmd("RQ.PUSH later DELAY 5000 GROUP b");
    q.cmd("RQ.PUSH x GROUP c");
    q.cmd("RQ.PUSH y");
    q.cmd("RQ.PAUSE GROUP a");
    q.cmd("RQ.PAUSE GROUP c FOR 500");
    let until = q.now + 500;
    q.now += 20;
    let leased = q.cmd("RQ.LEASE w COUNT 3");
    let b: Vec<_> = items(&leased).iter().filter(|job| string(at(job, 3)) != "y").collect();
    q.cmd(&format!("RQ.NACK {} {}", string(at(b[0], 0)), int(at(b[0], 1))));
    let row = |name: &str, counts: [i64; 4], paused: Tree, age: Tree| {
        let mut row = vec![bulk(name)];
        row.extend(counts.map(Tree::Int));
        row.extend([paused, age]);
        Tree::Array(row)
    };
    q.now += 7;
    let rows = [
        row("a", [0, 0, 0, 0], Tree::Int(0), Tree::Null),
        row("b", [1, 1, 1, 4], Tree::Null, Tree::Int(27)),
        row("c", [1, 0, 0, 1], Tree::Int(until as i64), Tree::Int(27)),
    ];
    for _ in 0..2 {
        assert_eq!(q.cmd("RQ.GROUPS"), Tree::Array(rows.to_vec()));
        assert_eq!(q.cmd("RQ.GROUPS COUNT 1 AFTER a"), Tree::Array(rows[1..2].to_vec()));
        assert_eq!(q.cmd("RQ.GROUPS AFTER bb"), Tree::Array(rows[2..].to_vec()));
        assert!(q.batch.is_empty());
        q.reload();
    }
    let consumers = q.cmd("RQ.CONSUMERS");
    let row = |seen| Tree::Array(vec![Tree::Array(vec![bulk("w"), Tree::Int(2), Tree::Int(3), Tree::Int(7), seen])]);
    assert_eq!(consumers, row(Tree::Null), "nobody has seen it since the last load");
    q.cmd("RQ.RELEASE CONSUMER w");
    q.cmd("RQ.LEASE w COUNT 2");
    q.now += 7;
    assert_eq!(q.cmd("RQ.CONSUMERS"), row(Tree::Int(7)));
    q.pass(500);
    assert_eq!(at(at(&q.cmd("RQ.GROUPS AFTER b"), 0), 5), &Tree::Null);
}

/// A group without jobs is forgotten: at once, or when its rate does not need it any more.
#[test]
fn nothing_is_left_of_a_group() {
    for policy in ["", "GROUPLIMIT 1", "GROUPORDER yes", "GROUPRATE 2 700", "RATE 2 700", "AGING 5"] {
        let mut q = queue(policy);
        let empty = snapshot(q.queue.as_ref()).len();
        for n in 0..300 {
            q.cmd(&format!("RQ.PUSH x GROUP tenant-{n} PRIORITY {}", n % 3));
            q.now += 350;
            work(&mut q);
            if n % 50 == 0 {
                q.reload();
            }
        }
        assert!(int(&q.info("groups")) <= 3, "{policy}: {:?}", q.info("groups"));
        while let Some(next) = q.queue.as_ref().unwrap().next_event(q.now, 0) {
            q.at(next);
            q.pass(0);
        }
        assert_eq!(q.info("groups"), Tree::Int(0), "{policy}");
        let left = snapshot(q.queue.as_ref()).len();
        assert!(left <= empty + 40, "{policy}: {left} bytes left, {empty} at first");
    }
}

/// The rate is changed or lifted while a group is only remembered for it.
#[test]
fn a_changed_rate_of_groups_without_jobs() {
    for change in ["GROUPRATE -1", "GROUPRATE 5 50", "GROUPRATE 5 90000", "GROUPRATE 1 700"] {
        for reload in [false, true] {
            let mut q = queue("GROUPRATE 1 700");
            q.cmd("RQ.PUSH x GROUP g");
            work(&mut q);
            assert_eq!(q.info("groups"), Tree::Int(1));
            q.cmd(&format!("RQ.ALTER {change}"));
            if reload {
                q.reload();
            }
            let bound = change.ends_with(" 700") || change.ends_with("90000");
            q.cmd("RQ.PUSH again GROUP g");
            let got = q.cmd("RQ.LEASE w");
            assert_eq!(got == Tree::NullArray, change == "GROUPRATE 1 700", "{change} {bound}");
            q.pass(100_000);
            while let Tree::Array(jobs) = q.cmd("RQ.LEASE w") {
                q.cmd(&format!("RQ.ACK {} {}", string(at(&jobs[0], 0)), int(at(&jobs[0], 1))));
                q.pass(100_000);
            }
            assert_eq!(q.info("groups"), Tree::Int(0), "{change}");
        }
    }
    // Forgotten when the new rate says so, on a replica that was made since as well.
    let mut q = queue("GROUPRATE 1 100");
    q.cmd("RQ.PUSH x GROUP g");
    work(&mut q);
    q.cmd("RQ.ALTER GROUPRATE 1 5000");
    q.reload();
    q.pass(200);
    q.reload();
    q.pass(5_000);
    assert_eq!(q.info("groups"), Tree::Int(0));
}

/// Turns are part of the queue: a restart in between does not shuffle them.
#[test]
fn turns_outlive_a_restart() {
    let mut q = queue("");
    q.cmd("RQ.PUSH gone");
    q.cmd("RQ.PUSH later GROUP g DELAY 500");
    q.cmd("RQ.PUSH stays");
    assert_eq!(q.cmd("RQ.DEL 1700000000000-0"), Tree::Int(1));
    q.reload();
    q.pass(500);
    q.reload();
    assert_eq!((work(&mut q), work(&mut q)), ("stays".to_string(), "later".to_string()));
}
