//! Duplicates that replace what waits, or are held behind what is being done: the last edit is
//! never lost.

#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "tests may")]

mod support;

use rq_core::Tree;
use support::lively::Dice;
use support::{at, bulk, field, int, ints, string, Driver};

/// Pushes with `DEDUP k`: the winner's id and the code.
fn push(q: &mut Driver, payload: &str, options: &str) -> (String, i64) {
    let reply = q.cmd(&format!("RQ.PUSH {payload} DEDUP k {options}"));
    (string(at(&reply, 0)), int(at(&reply, 1)))
}

fn queue(policy: &str) -> Driver {
    let mut q = Driver::new();
    q.cmd(&format!("RQ.CREATE LEASE 1000 JITTER none BACKOFF 50 50 MAXDELIVERIES 2 MAXEXPIRIES 2 {policy}"));
    q
}

/// Leases the one job that is ready and does something with it.
fn lease_and(q: &mut Driver, verb: &str, rest: &str) {
    let (id, token) = q.lease("w");
    let reply = q.cmd(&format!("RQ.{verb} {id} {token} {rest}"));
    assert!(int(at(&reply, 0)) > 0, "{verb} {rest}");
}

/// However the owner ends, the held duplicate follows: a new job with its own options.
#[test]
fn a_held_duplicate_follows_every_end_of_its_owner() {
    let ends = [
        "ACK", "ACKLEASE", "DEL", "DEL DEDUP", "NACK DEAD", "NACK", "expiry", "REAP", "ttl", "PURGE DELAYED", "PURGE READY",
        "late ACK",
    ];
    for end in ends {
        for form in ["KEEPLAST", "REPLACE", "REPLACE KEEPLAST"] {
            let mut q = queue("");
            q.cmd("RQ.ALTER MAXDELIVERIES 1");
            let (first, _) = push(&mut q, "first", "TTL 5000 MAXDELIVERIES 2");
            if matches!(end, "NACK" | "expiry" | "REAP") {
                lease_and(&mut q, "NACK", "DELAY 0");
            }
            let (_, token) = q.lease("w");
            assert_eq!(push(&mut q, "older", form), (first.clone(), 3));
            let own = "PRIORITY 5 GROUP g LEASE 777 MAXDELIVERIES 9 DELAY 30000";
            assert_eq!(push(&mut q, "newer", &format!("{form} {own}")), (first.clone(), 3), "the newest is held");
            let pushed_at = q.now;
            assert_eq!((q.info("held-duplicates"), q.info("held-bytes")), (Tree::Int(1), Tree::Int(5)));
            assert_eq!(q.cmd("RQ.LEN"), Tree::Int(1));
            q.reload();
            let pair = format!("{first} {token}");
            match end {
                "ACK" => drop(q.cmd(&format!("RQ.ACK {pair}"))),
                "ACKLEASE" => drop(q.cmd(&format!("RQ.ACKLEASE {pair} w"))),
                "DEL" => drop(q.cmd(&format!("RQ.DEL {first}"))),
                "DEL DEDUP" => assert_eq!(q.cmd("RQ.DEL DEDUP k"), Tree::Int(1)),
                "NACK DEAD" => assert_eq!(q.cmd(&format!("RQ.NACK {pair} DEAD")), ints(&[2])),
                "NACK" => assert_eq!(q.cmd(&format!("RQ.NACK {pair}")), ints(&[2])),
                "expiry" => q.pass(1_000),
                "REAP" => drop(q.cmd("RQ.REAP CONSUMER w")),
                "ttl" => {
                    q.cmd(&format!("RQ.NACK {pair} DELAY 6000"));
                    q.pass(5_000);
                }
                "PURGE DELAYED" => {
                    q.cmd(&format!("RQ.NACK {pair}"));
                    assert_eq!(q.cmd("RQ.PURGE DELAYED"), Tree::Int(1), "and not what comes of it");
                }
                "PURGE READY" => {
                    q.cmd(&format!("RQ.RELEASE {pair}"));
                    assert_eq!(q.cmd("RQ.PURGE READY"), Tree::Int(1));
                }
                _ => {
                    q.pass(1_000);
                    assert_eq!(q.info("held-duplicates"), Tree::Int(1), "it is ready again, so it has not ended");
                    assert_eq!(q.cmd(&format!("RQ.ACK {pair}")), ints(&[1]));
                }
            }
            let held = q.cmd("RQ.GET DEDUP k");
            let id = string(&field(&held, "id"));
            assert_ne!(id, first, "{end}");
            let expected = [
                ("payload", bulk("newer")),
                ("priority", Tree::Int(5)),
                ("group", bulk("g")),
                ("state", bulk("delayed")),
                ("due-at", Tree::Int((pushed_at + 30_000) as i64)),
                ("deliveries", Tree::Int(0)),
                ("max-deliveries", Tree::Int(9)),
                ("token", Tree::Null),
            ];
            for (name, value) in expected {
                assert_eq!(field(&held, name), value, "{end}: {name}");
            }
            assert_eq!((q.info("held-duplicates"), q.info("held-bytes")), (Tree::Int(0), Tree::Int(0)));
            assert_eq!((q.info("pushed-total"), q.cmd("RQ.LEN")), (Tree::Int(2), Tree::Int(1)));
            q.pass(30_000);
            let reply = q.cmd("RQ.LEASE w");
            assert_eq!(at(at(&reply, 0), 4), &Tree::Int(777));
            assert_eq!(push(&mut q, "x", ""), (id, 0), "it has the key now");
        }
    }
}

/// A worker is held behind as long as the job lives; a delay that is over by then is no delay.
#[test]
fn a_held_duplicate_whose_delay_is_over_is_ready() {
    let mut q = queue("");
    push(&mut q, "first", "");
    let (id, token) = q.lease("w");
    push(&mut q, "second", "KEEPLAST DELAY 500");
    q.now += 900;
    q.cmd(&format!("RQ.ACK {id} {token}"));
    let second = q.cmd("RQ.GET DEDUP k");
    assert_eq!((field(&second, "state"), field(&second, "due-at")), (bulk("ready"), Tree::Int(q.now as i64)));
}

/// REPLACE puts off, at most MAXWAIT after the first push; priority and payload come along.
#[test]
fn replacing_puts_off_until_maxwait() {
    let mut q = queue("");
    let start = q.now;
    let (id, _) = push(&mut q, "0", "DELAY 100 REPLACE");
    for (n, due) in [(1, 180), (2, 250), (3, 250)] {
        q.pass(80);
        let (winner, code) = push(&mut q, &n.to_string(), &format!("DELAY 100 PRIORITY {n} REPLACE MAXWAIT 250"));
        assert_eq!((winner, code), (id.clone(), 2));
        assert_eq!(q.get(&id, "due-at"), Tree::Int((start + due) as i64));
        assert_eq!((q.get(&id, "payload"), q.get(&id, "priority")), (bulk(&n.to_string()), Tree::Int(n)));
    }
    q.pass(10);
    assert_eq!(q.get(&id, "state"), bulk("ready"));
    // Past MAXWAIT it is not put off any more, but edited still.
    assert_eq!(push(&mut q, "late", "DELAY 100 REPLACE MAXWAIT 250").1, 2);
    assert_eq!((q.get(&id, "state"), q.get(&id, "payload")), (bulk("ready"), bulk("late")));
    assert_eq!(push(&mut q, "much-later", "DELAY 100 REPLACE").1, 2);
    assert_eq!(q.get(&id, "due-at"), Tree::Int((q.now + 100) as i64), "without MAXWAIT it is");
    assert_eq!(push(&mut q, "now", "REPLACE").1, 2);
    assert_eq!(q.get(&id, "state"), bulk("ready"));
    assert_eq!((q.info("pushed-total"), q.info("ready-bytes")), (Tree::Int(1), Tree::Int(3)));
}

/// The last edit is never lost: whenever it comes, a worker gets it in the end.
#[test]
fn the_last_edit_is_worked_on() {
    for seed in 1..40 {
        let mut dice = Dice(seed * 977);
        let mut q = queue("");
        q.cmd("RQ.ALTER MAXDELIVERIES 0 MAXEXPIRIES 0");
        let (mut edits, mut seen, mut lease) = (0, String::new(), None);
        for _ in 0..60 {
            match dice.below(8) {
                0..=2 => {
                    edits += 1;
                    let form = *dice.pick(&["REPLACE", "REPLACE KEEPLAST", "REPLACE DELAY 70", "REPLACE MAXWAIT 40 DELAY 60"]);
                    assert!(push(&mut q, &format!("edit-{edits}"), form).1 > 0);
                }
                3 | 4 => {
                    let reply = q.cmd("RQ.LEASE w");
                    if reply != Tree::NullArray {
                        let job = at(&reply, 0);
                        seen = string(at(job, 3));
                        lease = Some(format!("{} {}", string(at(job, 0)), int(at(job, 1))));
                    }
                }
                5 => q.pass(dice.below(1_200) as u64),
                6 => q.reload(),
                _ => {
                    if let Some(pair) = lease.take() {
                        let verb = *dice.pick(&["ACK", "NACK", "RELEASE", "EXTEND"]);
                        q.cmd(&format!("RQ.{verb} {pair}"));
                    }
                }
            }
        }
        q.pass(2_000);
        while let Tree::Array(jobs) = q.cmd("RQ.LEASE w") {
            seen = string(at(&jobs[0], 3));
            q.cmd(&format!("RQ.ACK {} {}", string(at(&jobs[0], 0)), int(at(&jobs[0], 1))));
        }
        assert_eq!(seen, format!("edit-{edits}"), "seed {seed}");
        assert_eq!((q.info("dedup-keys"), q.info("held-duplicates")), (Tree::Int(0), Tree::Int(0)));
    }
}

/// The same again says so and changes nothing: there is nothing to tell a replica.
#[test]
fn the_same_edit_again_changes_nothing() {
    for form in ["REPLACE", "REPLACE WINDOW 5000", "REPLACE KEEPLAST DELAY 700", "REPLACE DELAY 700 MAXWAIT 600 PRIORITY 3"] {
        let mut q = queue("");
        push(&mut q, "x", form);
        assert_eq!(push(&mut q, "x", form).1, 2);
        let changed = !q.batch.is_empty();
        assert_eq!(changed, form.contains("MAXWAIT"), "{form}");
        assert_eq!(push(&mut q, "x", form).1, 2);
        assert!(q.batch.is_empty(), "{form}");
        assert_eq!(q.events, ["rq.duplicate"]);
        q.pass(700);
        push(&mut q, "x", "DELAY 1 REPLACE");
        q.pass(1);
        q.lease("w");
        assert_eq!(push(&mut q, "y", form).1, 3);
        q.reload();
        assert_eq!(push(&mut q, "y", form).1, 3);
        assert!(q.batch.is_empty(), "{form}");
        assert_eq!(q.events, ["rq.duplicate"]);
        assert_eq!(push(&mut q, "z", form).1, 3);
        assert!(!q.batch.is_empty(), "{form}");
    }
}
