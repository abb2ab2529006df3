//! Back-pressure: what is full refuses what is new and changes nothing; what returns always fits.

#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "tests may")]

mod support;

use rq_core::Tree;
use support::{at, bulk, field, int, ints, string, Driver};

fn queue(policy: &str) -> Driver {
    let mut q = Driver::new();
    q.cmd(&format!("RQ.CREATE LEASE 1000 JITTER none BACKOFF 50 50 {policy}"));
    q
}

fn full(q: &mut Driver, line: &str, parts: &[&str]) {
    let error = q.try_cmd(line).map_or_else(|error| error.to_string(), |reply| panic!("{line}: {reply:?}"));
    assert!(error.starts_with("FULL ") && parts.iter().all(|part| error.contains(part)), "{line}: {error}");
}

/// Every live state counts, what has ended does not, and a batch is all or nothing.
#[test]
fn maxlive_counts_what_is_to_be_done() {
    let mut q = queue("MAXLIVE 4 KEEPDONE 9");
    q.cmd("RQ.PUSH ready");
    let (id, token) = q.lease("w");
    q.cmd("RQ.PUSH delayed DELAY 5000");
    full(&mut q, "RQ.MPUSH 3 a b c", &["MAXLIVE", "4", "2"]);
    q.cmd("RQ.MPUSH 2 a b");
    for line in ["RQ.PUSH x", "RQ.PUSH x DELAY 9000", "RQ.MPUSH 1 x", "RQ.PUSH x DEDUP k"] {
        full(&mut q, line, &["MAXLIVE", "4"]);
    }
    q.cmd(&format!("RQ.ACK {id} {token}"));
    q.cmd("RQ.PUSH x");
    full(&mut q, "RQ.PUSH x", &["MAXLIVE", "4"]);
    let (id, token) = q.lease("w");
    q.cmd(&format!("RQ.NACK {id} {token} DEAD"));
    q.cmd("RQ.PUSH x");
    full(&mut q, "RQ.PUSH x", &["MAXLIVE", "4"]);
    q.cmd("RQ.ALTER MAXLIVE 5");
    q.cmd("RQ.PUSH x");
    q.cmd("RQ.ALTER MAXLIVE 0");
    full(&mut q, "RQ.PUSH x", &["MAXLIVE", "0"]);
    assert_eq!((q.cmd("RQ.LEN"), q.info("done"), q.info("dead")), (Tree::Int(5), Tree::Int(1), Tree::Int(1)));
    // Also where a queue would have to be made for it.
    let mut q = Driver::new();
    q.cmd("RQ.CREATE MAXLIVE 0");
    q.defaults = q.queue.as_ref().unwrap().policy().clone();
    q.delete_key();
    full(&mut q, "RQ.PUSH x", &["MAXLIVE"]);
    assert!(q.queue.is_none());
}

/// What came before and must come back is never refused, and never drops anything.
#[test]
fn what_returns_always_fits() {
    for bound in ["MAXLIVE 1", "MAXLIVE 0", "MAXLIVEBYTES 0", "MAXLIVEBYTES 3"] {
        for way in ["NACK", "RELEASE", "expiry", "late EXTEND", "REDRIVE", "held", "late NACK", "SET"] {
            let mut q = queue("");
            let reply = q.cmd("RQ.PUSH job DEDUP k");
            let id = string(at(&reply, 0));
            let (_, token) = q.lease("w");
            if way == "held" {
                q.cmd("RQ.PUSH again DEDUP k KEEPLAST");
            }
            q.cmd(&format!("RQ.ALTER {bound}"));
            let pair = format!("{id} {token}");
            let live = match way {
                "NACK" => q.cmd(&format!("RQ.NACK {pair}")) == ints(&[1]),
                "RELEASE" => q.cmd(&format!("RQ.RELEASE {pair}")) == ints(&[1]),
                "expiry" => { q.pass(1_000); true }
                "late EXTEND" => { q.pass(1_000); q.cmd(&format!("RQ.EXTEND {pair}")) == ints(&[1]) }
                "late NACK" => { q.pass(1_000); q.cmd(&format!("RQ.NACK {pair}")) == ints(&[1]) }
                "SET" => { q.pass(1_000); q.cmd(&format!("RQ.SET {id} DELAY 9")) == Tree::Int(1) }
                "REDRIVE" => {
                    q.cmd(&format!("RQ.NACK {pair} DEAD"));
                    q.cmd(&format!("RQ.REDRIVE {id}")) == ints(&[1])
                }
                _ => q.cmd(&format!("RQ.ACK {pair}")) == ints(&[1]),
            };
            assert!(live, "{bound}, {way}");
            assert_eq!(q.cmd("RQ.LEN"), Tree::Int(1), "{bound}, {way}");
            let payload = field(&q.cmd("RQ.GET DEDUP k"), "payload");
            assert_eq!(payload, bulk(if way == "held" { "again" } else { "job" }));
            full(&mut q, "RQ.PUSH much-longer", &["MAXLIVE"]);
        }
    }
}

/// Duplicates add no job: dropped and replaced ones fit where nothing new does.
#[test]
fn duplicates_add_no_job() {
    let mut q = queue("MAXLIVE 1");
    q.cmd("RQ.PUSH x DEDUP k");
    for (form, code) in [("", 0), ("WINDOW 5", 0), ("REPLACE", 2)] {
        assert_eq!(at(&q.cmd(&format!("RQ.PUSH y DEDUP k {form}")), 1), &Tree::Int(code));
    }
    assert_eq!(int(at(at(&q.cmd("RQ.MPUSH 2 a b DEDUPS k k"), 1), 1)), 0);
    full(&mut q, "RQ.MPUSH 2 a b DEDUPS k l", &["MAXLIVE"]);
    q.cmd("RQ.ALTER MAXLIVE 2");
    assert_eq!(at(at(&q.cmd("RQ.MPUSH 3 a b c DEDUPS l k l"), 2), 1), &Tree::Int(0), "twice within the batch is one");
    let (_, _) = q.lease("w");
    assert_eq!(at(&q.cmd("RQ.PUSH z DEDUP k KEEPLAST"), 1), &Tree::Int(3));
}

/// Bytes: what is replaced makes room for what replaces it, held ones count, and so on.
#[test]
fn maxlivebytes() {
    let mut q = queue("MAXLIVEBYTES 100");
    let x = |n: usize| "x".repeat(n);
    q.cmd(&format!("RQ.PUSH {} DEDUP k", x(60)));
    full(&mut q, &format!("RQ.PUSH {}", x(41)), &["MAXLIVEBYTES", "100", "60"]);
    full(&mut q, &format!("RQ.MPUSH 2 {} {}", x(20), x(21)), &["MAXLIVEBYTES"]);
    q.cmd(&format!("RQ.PUSH {} PRIORITY -1", x(40)));
    full(&mut q, "RQ.PUSH x", &["MAXLIVEBYTES"]);
    assert_eq!(at(&q.cmd(&format!("RQ.PUSH {} DEDUP k REPLACE", x(60))), 1), &Tree::Int(2), "as long as what it replaces");
    assert_eq!(at(&q.cmd(&format!("RQ.PUSH {} DEDUP k REPLACE", x(50))), 1), &Tree::Int(2));
    full(&mut q, &format!("RQ.PUSH {} DEDUP k REPLACE", x(61)), &["MAXLIVEBYTES"]);
    assert_eq!(at(&q.cmd(&format!("RQ.PUSH {} DEDUP k REPLACE", x(60))), 1), &Tree::Int(2));
    let (id, token) = q.lease("w");
    full(&mut q, "RQ.PUSH y DEDUP k KEEPLAST", &["MAXLIVEBYTES"]);
    assert_eq!(at(&q.cmd(&format!("RQ.PUSH {} DEDUP k", x(99))), 1), &Tree::Int(0), "dropped: it takes nothing");
    q.cmd("RQ.ALTER MAXLIVEBYTES 150");
    assert_eq!(at(&q.cmd(&format!("RQ.PUSH {} DEDUP k KEEPLAST", x(50))), 1), &Tree::Int(3));
    full(&mut q, "RQ.PUSH y", &["MAXLIVEBYTES", "150"]);
    assert_eq!(at(&q.cmd(&format!("RQ.PUSH {} DEDUP k KEEPLAST", x(49))), 1), &Tree::Int(3), "it replaces what was held");
    full(&mut q, &format!("RQ.PUSH {} DEDUP k KEEPLAST", x(51)), &["MAXLIVEBYTES"]);
    q.cmd(&format!("RQ.ACK {id} {token}"));
    assert_eq!(q.info("ready-bytes"), Tree::Int(89));
    // Bounds that were lowered since: what makes it less is welcome.
    q.cmd("RQ.ALTER MAXLIVEBYTES 10");
    assert_eq!(at(&q.cmd("RQ.PUSH z DEDUP k REPLACE"), 1), &Tree::Int(2));
}

/// A slot that comes due with the push does not make two of one place.
#[test]
fn a_due_slot_and_a_push_do_not_share_a_place() {
    let mut q = queue("MAXLIVE 1");
    q.cmd("RQ.SCHEDULE s EVERY 1000 PAYLOAD slot");
    q.now += 1_000;
    let pushed = q.try_cmd("RQ.PUSH x").is_ok();
    q.pass(0);
    assert_eq!(q.cmd("RQ.LEN"), Tree::Int(1), "pushed: {pushed}");
    assert_eq!(q.info("slots-skipped-total"), Tree::Int(i64::from(pushed)));
}

/// PAUSE IN: the same for all that is new, also slots; nothing else is bound by it.
#[test]
fn pause_in_refuses_what_is_new() {
    let mut q = queue("");
    q.cmd("RQ.PUSH job DEDUP k");
    let (id, token) = q.lease("w");
    q.cmd("RQ.PUSH held DEDUP k KEEPLAST");
    q.cmd("RQ.SCHEDULE s EVERY 1000 PAYLOAD slot");
    q.cmd("RQ.PAUSE IN REASON maintenance");
    for line in ["RQ.PUSH x", "RQ.MPUSH 1 x", "RQ.PUSH x DEDUP k", "RQ.PUSH x DEDUP k KEEPLAST"] {
        let error = q.try_cmd(line).unwrap_err().to_string();
        assert!(error.starts_with("PAUSED ") && error.contains("maintenance"), "{line}: {error}");
    }
    q.now += 999;
    assert_eq!(q.cmd(&format!("RQ.NACK {id} {token} DEAD")), ints(&[2]));
    assert_eq!(q.cmd("RQ.LEN"), Tree::Int(1), "what was held comes through");
    assert_eq!(q.cmd(&format!("RQ.REDRIVE {id}")), ints(&[-2]));
    assert_eq!(string(&field(&q.cmd("RQ.GET DEDUP k"), "payload")), "held");
    q.pass(1);
    assert_eq!((q.cmd("RQ.LEN"), q.info("slots-skipped-total")), (Tree::Int(1), Tree::Int(1)));
    assert_eq!(q.cmd("RQ.RESUME IN"), Tree::Int(1));
    q.cmd("RQ.PUSH x");
    q.pass(1_000);
    assert_eq!(q.cmd("RQ.LEN"), Tree::Int(3));
}
