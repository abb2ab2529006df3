//! Turns, order and rates of groups: what the model test found, as named tests.

#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "tests may")]

mod support;

use rq_core::Tree;
use support::{at, bulk, int, ints, items, string, Driver};

fn queue(policy: &str) -> Driver {
    let mut q = Driver::new();
    q.cmd(&format!("RQ.CREATE LEASE 1000 JITTER none {policy}"));
    q
}

/// The next one: its payload, its id and token.
fn one(q: &mut Driver) -> (String, String) {
    let reply = q.cmd("RQ.LEASE w");
    let job = at(&reply, 0);
    (string(at(job, 3)), format!("{} {}", string(at(job, 0)), int(at(job, 1))))
}

/// The payloads of a lease, one after the other.
fn take(q: &mut Driver, count: usize) -> Vec<String> {
    match q.cmd(&format!("RQ.LEASE w COUNT {count}")) {
        Tree::NullArray => Vec::new(),
        reply => items(&reply).iter().map(|job| string(at(job, 3))).collect(),
    }
}

/// Only who comes anew goes to the end: not a group whose one ready job is replaced, or is given
/// back or failed by a worker that comes late, after expiry has made it ready again.
#[test]
fn what_stays_ready_keeps_its_turn() {
    for grouped in [true, false] {
        for change in ["REPLACE", "RELEASE", "NACK"] {
            let mut q = queue("");
            let first = if grouped { "GROUP a" } else { "" };
            q.cmd(&format!("RQ.PUSH first DEDUP k {first}"));
            q.cmd("RQ.PUSH anchor GROUP c DELAY 100000");
            let pair = if change == "REPLACE" { String::new() } else { one(&mut q).1 };
            q.pass(1_000);
            q.cmd("RQ.PUSH second GROUP b");
            match change {
                "REPLACE" => drop(q.cmd("RQ.PUSH first DEDUP k REPLACE")),
                "NACK" => assert_eq!(q.cmd(&format!("RQ.NACK {pair} DELAY 0")), ints(&[1])),
                _ => assert_eq!(q.cmd(&format!("RQ.RELEASE {pair}")), ints(&[1])),
            }
            q.reload();
            assert_eq!(take(&mut q, 2), ["first", "second"], "{change}, grouped: {grouped}");
        }
    }
}

/// GROUPORDER: also a job that SET makes ready before its time keeps its place before the others.
#[test]
fn set_does_not_break_the_order_of_a_group() {
    for back in ["NACK", "RELEASE"] {
        let mut q = queue("GROUPORDER yes");
        q.cmd("RQ.PUSH 1 GROUP g");
        q.now += 5;
        q.cmd("RQ.PUSH 2 GROUP g");
        let (_, pair) = one(&mut q);
        q.cmd(&format!("RQ.{back} {pair} DELAY 700"));
        q.now += 5;
        q.cmd(&format!("RQ.SET {} DELAY 0", pair.split(' ').next().unwrap()));
        assert_eq!(q.info("oldest-ready-ms"), Tree::Int(5));
        q.reload();
        assert_eq!(take(&mut q, 9), ["1"], "{back}");
    }
}

/// GROUPRATE that was lifted and is set again begins with no grants known, as RATE does.
#[test]
fn a_rate_that_is_set_anew_knows_no_grants() {
    for rate in ["RATE", "GROUPRATE"] {
        let mut q = queue(&format!("{rate} 1 100000"));
        q.cmd("RQ.MPUSH 3 1 2 3 GROUP g");
        assert_eq!(take(&mut q, 9), ["1"]);
        q.cmd(&format!("RQ.ALTER {rate} -1"));
        q.cmd(&format!("RQ.ALTER {rate} 1 100000"));
        q.reload();
        assert_eq!(take(&mut q, 9), ["2"], "{rate}");
        // One that is changed goes on with those that it knows.
        q.cmd(&format!("RQ.ALTER {rate} 1 200000"));
        assert_eq!(take(&mut q, 9), Vec::<String>::new(), "{rate}");
    }
}

/// The pause of a group ends to the millisecond, also for a group that LEASE has met in vain.
#[test]
fn the_end_of_a_groups_pause_needs_no_tick() {
    let mut q = queue("");
    q.cmd("RQ.PUSH x GROUP g");
    q.cmd("RQ.PAUSE GROUP g FOR 500");
    assert_eq!(take(&mut q, 1), Vec::<String>::new());
    assert!(!q.queue.as_ref().unwrap().may_lease(q.now + 499));
    q.now += 500;
    assert!(q.queue.as_ref().unwrap().may_lease(q.now));
    assert_eq!(q.info("held"), bulk("no"));
}

/// A group that is forgotten is one step of the due work, not all that a command does of it.
#[test]
fn forgetting_a_group_puts_nothing_off() {
    let mut q = queue("GROUPRATE 1 50 KEEPDEADMS 200");
    q.cmd("RQ.PUSH x GROUP g");
    let (_, pair) = one(&mut q);
    q.cmd("RQ.PUSH dies TTL 1");
    q.pass(1);
    q.cmd(&format!("RQ.ACK {pair}"));
    assert_eq!((q.info("groups"), q.cmd("RQ.LEN DEAD")), (Tree::Int(1), Tree::Int(1)));
    q.now += 1_000;
    assert!(!q.tick(2), "the group, and the dead job");
    assert_eq!((q.info("groups"), q.cmd("RQ.LEN DEAD")), (Tree::Int(0), Tree::Int(0)));
}
