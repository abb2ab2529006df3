//! What time alone does: in bounded steps, the same however it is cut up, never too early.

#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "tests may")]

mod support;

use rq_core::Tree;
use support::{at, bulk, int, ints, items, snapshot, string, Driver};

fn crowd(policy: &str, n: usize, options: &str) -> Driver {
    let mut q = Driver::new();
    q.cmd(&format!("RQ.CREATE JITTER none {policy}"));
    q.cmd(&format!("RQ.MPUSH {n}{} {options}", " x".repeat(n)));
    q
}

/// A verb that writes does some of the due work before its own, and not all of it.
#[test]
fn a_command_does_at_most_128_steps_of_due_work() {
    let mut q = crowd("", 1_000, "DELAY 10");
    q.now += 10;
    for done in [128, 256, 384] {
        assert_eq!(q.cmd("RQ.DEL 1-0"), Tree::Int(0));
        assert_eq!(q.cmd("RQ.LEN READY"), Tree::Int(done));
    }
    let mut q = crowd("LEASE 10", 1_000, "");
    q.cmd("RQ.LEASE w COUNT 1000");
    q.now += 10;
    for left in [872, 744] {
        assert_eq!(q.cmd("RQ.SET 1-0 PRIORITY 1"), Tree::Int(-1));
        assert_eq!(q.cmd("RQ.LEN LEASED"), Tree::Int(left));
    }
    let mut q = crowd("", 1_000, "TTL 10");
    q.now += 10;
    for dead in [128, 256] {
        assert_eq!(q.cmd("RQ.ALTER LEASE 5"), Tree::Ok);
        assert_eq!(q.cmd("RQ.LEN DEAD"), Tree::Int(dead));
    }
    // What is over its time is not delivered, though nobody has come around to bury it.
    assert_eq!(q.cmd("RQ.LEASE w"), Tree::NullArray);
}

/// What reads changes nothing, not even what is due.
#[test]
fn looking_does_no_due_work() {
    let mut q = crowd("LEASE 10", 3, "");
    q.cmd("RQ.LEASE w");
    q.cmd("RQ.PUSH x DELAY 5");
    q.now += 20;
    for line in ["RQ.INFO", "RQ.LEN", "RQ.PEEK LEASED", "RQ.GET 1700000000000-0"] {
        q.cmd(line);
        assert!(q.batch.is_empty(), "{line}");
    }
    assert_eq!((q.cmd("RQ.LEN LEASED"), q.cmd("RQ.LEN DELAYED")), (Tree::Int(1), Tree::Int(1)));
}

/// The timer's steps may be cut up in any way: the same queue comes of it.
#[test]
fn due_work_is_the_same_in_steps_of_any_size() {
    let run = |max_steps: u32| {
        let mut q = crowd("LEASE 50 MAXEXPIRIES 2", 300, "TTL 200");
        q.cmd(&format!("RQ.MPUSH 300{} DELAY 60", " y".repeat(300)));
        q.cmd("RQ.LEASE w COUNT 200");
        for ms in [50, 10, 40, 100, 300] {
            q.now += ms;
            while q.tick(max_steps) {}
            q.cmd("RQ.LEASE w COUNT 40");
        }
        (snapshot(q.queue.as_ref()), q.info("expired-total"), q.info("dead-ttl"))
    };
    let whole = run(100_000);
    assert!(int(&whole.1) > 300 && int(&whole.2) > 100, "{:?}", (&whole.1, &whole.2));
    for max_steps in [1, 3, 64, 127] {
        assert!(run(max_steps) == whole, "in steps of {max_steps}");
    }
}

/// A step does something as long as it says that there is more, and `next_event` agrees.
#[test]
fn the_timer_comes_to_rest() {
    let mut q = crowd("LEASE 10 MAXEXPIRIES 1", 50, "DELAY 5 TTL 20");
    q.now += 5;
    while q.tick(7) {
        assert!(!q.batch.is_empty());
    }
    q.cmd("RQ.LEASE w COUNT 30");
    let mut events = Vec::new();
    while let Some(next) = q.queue.as_ref().unwrap().next_event(q.now, 0) {
        assert!(next > q.now, "due work is left");
        // Before its time nothing happens at all.
        q.now = next - 1;
        assert!(!q.tick(100));
        assert!(q.batch.is_empty());
        q.now = next;
        while q.tick(7) {}
        events.push(next - support::START);
    }
    assert_eq!(events, [15, 25], "the leases' end, then the others' time to live");
    assert_eq!((q.info("dead-expired-lease"), q.info("dead-ttl")), (Tree::Int(30), Tree::Int(20)));
}

/// The grace: nothing expires by itself, everything else goes on, deadlines stay.
#[test]
fn no_lease_expires_during_the_grace() {
    let mut q = crowd("LEASE 10", 3, "");
    let (id, token) = q.lease("w");
    let (other, _) = q.lease("v");
    q.cmd("RQ.PUSH late DELAY 15");
    let deadline = q.get(&id, "deadline");
    q.hold_expiry = true;
    q.pass(20);
    assert_eq!((q.get(&id, "state"), q.get(&id, "deadline")), (bulk("leased"), deadline));
    assert_eq!(q.cmd("RQ.LEN READY"), Tree::Int(2), "the delayed one became ready");
    assert_eq!(q.queue.as_ref().unwrap().next_event(q.now, q.now + 77), Some(q.now + 77));
    // REAP does not regard it.
    let reaped = q.cmd("RQ.REAP COUNT 1");
    assert_eq!(string(at(at(&reaped, 0), 0)), id);
    // Nor did it make anything of the other one.
    assert_eq!(q.get(&other, "state"), bulk("leased"));
    assert_eq!(q.cmd(&format!("RQ.ACK {id} {token}")), ints(&[1]), "its worker came after all");
    q.hold_expiry = false;
    q.pass(0);
    assert_eq!((q.get(&other, "state"), q.get(&other, "expiries")), (bulk("ready"), Tree::Int(1)));
}

/// REAP leaves the expired leases for itself, oldest deadline first, and reports them.
#[test]
fn reap_reports_what_it_ends() {
    let mut q = crowd("MAXEXPIRIES 2", 4, "");
    for lease in [40, 20, 30, 900] {
        q.cmd(&format!("RQ.LEASE w{lease} LEASE {lease}"));
    }
    q.now += 50;
    let reaped = q.cmd("RQ.REAP COUNT 2");
    let consumers: Vec<String> = items(&reaped).iter().map(|job| string(at(job, 3))).collect();
    assert_eq!(consumers, ["w20", "w30"]);
    assert_eq!(items(&q.cmd("RQ.REAP CONSUMER w900")).len(), 1, "though it has not expired");
    assert_eq!(items(&q.cmd("RQ.REAP ID 1700000000000-0 1700000000000-0 1700000000000-1")).len(), 1);
    assert_eq!(q.cmd("RQ.REAP"), Tree::Array(Vec::new()));
    // The second expiry of each is its last.
    assert_eq!(items(&q.cmd("RQ.LEASE x COUNT 4 LEASE 10")).len(), 4);
    q.now += 10;
    let states: Vec<String> = items(&q.cmd("RQ.REAP")).iter().map(|job| string(at(job, 1))).collect();
    assert_eq!(states, ["dead"; 4]);
}

/// MAXRUN: EXTEND carries a delivery to its end and no further, however often.
#[test]
fn extend_ends_with_maxrun() {
    let mut q = crowd("LEASE 100 MAXRUN 250", 1, "");
    let (id, token) = q.lease("w");
    for (ms, deadline) in [(90, 190), (90, 250), (69, 250)] {
        q.now += ms;
        assert_eq!(q.cmd(&format!("RQ.EXTEND {id} {token}")), ints(&[1]), "at {}", q.now - support::START);
        assert_eq!(q.get(&id, "deadline"), Tree::Int((support::START + deadline) as i64));
    }
    q.now += 1;
    assert_eq!(q.cmd(&format!("RQ.EXTEND {id} {token}")), ints(&[0]));
    // It has expired now; the time of the next delivery begins with that.
    let (_, token) = q.lease("w");
    q.now += 90;
    assert_eq!(q.cmd(&format!("RQ.EXTEND {id} {token} LEASE 100")), ints(&[1]));
    // Without a bound again: as far as asked for.
    q.cmd("RQ.ALTER MAXRUN 0");
    q.cmd(&format!("RQ.EXTEND {id} {token} LEASE 5000"));
    assert_eq!(q.get(&id, "deadline"), Tree::Int((q.now + 5_000) as i64));
}

/// TTL: not counted while scheduled, not held against a worker, but against a retry.
#[test]
fn ttl_is_about_waiting() {
    let mut q = crowd("LEASE 100 BACKOFF 30 30 MAXEXPIRIES 0", 1, "DELAY 50 TTL 40");
    let id = "1700000000000-0";
    q.pass(89);
    assert_eq!(q.get(id, "state"), bulk("ready"));
    let (_, token) = q.lease("w");
    q.pass(60);
    assert_eq!(q.get(id, "state"), bulk("leased"), "not yanked from its worker");
    assert_eq!(q.cmd(&format!("RQ.EXTEND {id} {token}")), ints(&[1]));
    assert_eq!(q.cmd(&format!("RQ.NACK {id} {token}")), ints(&[1]));
    q.pass(0);
    assert_eq!((q.get(id, "state"), q.get(id, "reason")), (bulk("dead"), bulk("ttl")), "the retry comes too late");
    // A redrive starts it anew.
    q.cmd(&format!("RQ.REDRIVE {id}"));
    q.pass(39);
    assert_eq!(q.get(id, "state"), bulk("ready"));
    q.pass(1);
    assert_eq!(q.get(id, "reason"), bulk("ttl"));
}

/// A due job is placed by the time it was due, however late the tick comes; an expired one
/// takes its old place.
#[test]
fn late_ticks_do_not_change_the_order() {
    let mut q = Driver::new();
    q.cmd("RQ.CREATE LEASE 10 JITTER none BACKOFF 25 25");
    let first = string(&q.cmd("RQ.PUSH first"));
    let (_, _) = q.lease("w");
    let second = string(&q.cmd("RQ.PUSH second"));
    let retried = {
        let (id, token) = q.lease("w");
        q.cmd(&format!("RQ.NACK {id} {token}"));
        id
    };
    assert_eq!(retried, second);
    let delayed = string(&q.cmd("RQ.PUSH delayed DELAY 20"));
    q.now += 22;
    let third = string(&q.cmd("RQ.PUSH third"));
    q.now += 1_000;
    let order: Vec<String> = items(&q.cmd("RQ.LEASE w COUNT 9")).iter().map(|job| string(at(job, 0))).collect();
    assert_eq!(order, [first, delayed, third, second], "its place, due at 20, pushed at 22, due at 25");
}

/// A redrive with SPREAD deals the jobs out evenly.
#[test]
fn redrive_spreads_evenly() {
    let mut q = crowd("MAXDELIVERIES 1", 5, "");
    for _ in 0..5 {
        let (id, token) = q.lease("w");
        q.cmd(&format!("RQ.NACK {id} {token}"));
        q.now += 1;
    }
    assert_eq!(q.cmd("RQ.REDRIVE COUNT 4 SPREAD 1000"), ints(&[4, 0, 1]));
    let mut waits = Vec::new();
    for n in 0..4 {
        waits.push(int(&q.get(&format!("1700000000000-{n}"), "due-at")) - q.now as i64);
    }
    assert_eq!(waits, [0, 250, 500, 750]);
    assert_eq!(q.cmd("RQ.LEN READY"), Tree::Int(1));
    assert_eq!(q.cmd("RQ.REDRIVE COUNT 4 SPREAD 1000"), ints(&[1, 0, 0]));
    assert_eq!(q.cmd("RQ.REDRIVE COUNT 4"), ints(&[0, 0, 0]));
}
