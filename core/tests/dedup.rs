//! Dedup keys: who has one, until when, and what becomes of the pushes that come too early.
//! The cases that went wrong for others (B25, B26, B28, B29) as named tests.

#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "tests may")]

mod support;

use rq_core::Tree;
use support::{at, bulk, field, int, ints, items, snapshot, string, Driver};

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

/// What becomes of the job that has the key.
const WAITING: [&str; 2] = ["ready", "delayed"];
const DELIVERED: [&str; 5] = ["leased", "retrying", "expired", "released", "redriven"];
const ENDED: [&str; 9] =
    ["done", "done-kept", "failed", "expired-lease", "rejected", "ttl", "trimmed", "purged-dead", "dropped"];

/// A queue with a job, pushed with the key, that is in this state.
fn in_state(state: &str, form: &str) -> (Driver, String) {
    let keeps = if state == "done" { 0 } else { 10 };
    let mut q = queue(&format!("KEEPDONE {keeps}"));
    let options = match state {
        "delayed" => "DELAY 9000",
        "ttl" => "TTL 10",
        _ => "",
    };
    let (id, code) = push(&mut q, "first", &format!("{options} {form}"));
    assert_eq!(code, 1);
    match state {
        "ready" | "delayed" => {}
        "leased" => drop(q.lease("w")),
        "retrying" => lease_and(&mut q, "NACK", ""),
        "released" => lease_and(&mut q, "RELEASE", ""),
        "expired" => {
            q.lease("w");
            q.pass(1_000);
        }
        "redriven" => {
            lease_and(&mut q, "NACK", "DEAD");
            assert_eq!(q.cmd(&format!("RQ.REDRIVE {id}")), ints(&[1]));
        }
        "done" | "done-kept" => lease_and(&mut q, "ACK", ""),
        "failed" => {
            lease_and(&mut q, "NACK", "DELAY 0");
            lease_and(&mut q, "NACK", "");
        }
        "expired-lease" => {
            for _ in 0..2 {
                q.lease("w");
                q.pass(1_000);
            }
        }
        "rejected" => lease_and(&mut q, "NACK", "DEAD"),
        "ttl" => q.pass(10),
        "trimmed" => {
            lease_and(&mut q, "ACK", "");
            assert_eq!(q.cmd("RQ.TRIM MAXLEN 0"), Tree::Int(1));
        }
        "purged-dead" => {
            lease_and(&mut q, "NACK", "DEAD");
            q.cmd("RQ.ALTER KEEPDEAD 0");
        }
        "dropped" => {
            lease_and(&mut q, "ACK", "");
            q.cmd("RQ.ALTER KEEPDONE 0");
        }
        "removed" => assert_eq!(q.cmd(&format!("RQ.DEL {id}")), Tree::Int(1)),
        other => panic!("{other}"),
    }
    (q, id)
}

/// B25, B28: state of the job x form of the next push. What has ended, kept or not, blocks nobody.
#[test]
fn every_state_and_every_form_of_the_next_push() {
    let forms = ["", "WINDOW 100000", "REPLACE", "REPLACE MAXWAIT 500", "KEEPLAST", "REPLACE KEEPLAST", "WINDOW 9 KEEPLAST"];
    for state in WAITING.into_iter().chain(DELIVERED).chain(ENDED).chain(["removed"]) {
        for form in forms {
            for reloaded in [false, true] {
                let (mut q, id) = in_state(state, "");
                if reloaded {
                    q.reload();
                }
                let (winner, code) = push(&mut q, "second", form);
                let (replaces, keeps) = (form.contains("REPLACE"), form.contains("KEEPLAST"));
                let expected = match state {
                    state if WAITING.contains(&state) => if replaces { 2 } else { 0 },
                    state if DELIVERED.contains(&state) => if replaces || keeps { 3 } else { 0 },
                    _ => 1,
                };
                assert_eq!(code, expected, "{state}, then {form}");
                assert_eq!(winner == id, code != 1, "{state}, then {form}");
                // B29: the id is one that can be looked at, and it is the key's.
                assert_eq!(q.get(&winner, "dedup"), bulk("k"));
                assert_eq!(field(&q.cmd("RQ.GET DEDUP k"), "id"), bulk(&winner));
                let payload = if matches!(code, 1 | 2) { "second" } else { "first" };
                assert_eq!(q.get(&winner, "payload"), bulk(payload));
                assert_eq!(q.info("held-duplicates"), Tree::Int(i64::from(code == 3)));
                assert_eq!(q.info("held-bytes"), Tree::Int(if code == 3 { 6 } else { 0 }));
                assert_eq!(q.info("dedup-keys"), Tree::Int(1));
                assert_eq!(q.info("pushed-total"), Tree::Int(if code == 1 { 2 } else { 1 }));
                q.reload();
            }
        }
    }
}

/// A window blocks for its time, whatever becomes of the job; only DEL ends it.
#[test]
fn a_window_lasts_its_time_in_every_state() {
    for state in WAITING.into_iter().chain(DELIVERED).chain(ENDED).chain(["removed"]) {
        let (mut q, id) = in_state(state, "WINDOW 100000");
        if state == "removed" {
            assert_eq!(push(&mut q, "second", "").1, 1);
            continue;
        }
        assert_eq!(push(&mut q, "second", ""), (id.clone(), 0), "{state}");
        q.reload();
        q.at(support::START + 99_999);
        assert_eq!(push(&mut q, "second", "").1, 0, "{state}: at the last moment");
        q.at(support::START + 100_000);
        let (other, code) = push(&mut q, "second", "");
        assert_eq!(code, 1, "{state}: and no longer");
        assert_ne!(other, id);
        // The first one, if it still lives, has no say any more.
        q.cmd(&format!("RQ.DEL {id}"));
        assert_eq!(push(&mut q, "third", ""), (other, 0), "{state}");
    }
}

/// The timer closes windows by itself, and nothing is left of them.
#[test]
fn windows_close_by_time_alone() {
    let mut q = queue("");
    push(&mut q, "x", "WINDOW 500");
    lease_and(&mut q, "ACK", "");
    assert_eq!(q.info("dedup-keys"), Tree::Int(1));
    assert_eq!(q.queue.as_ref().unwrap().next_event(q.now, 0), Some(q.now + 500));
    q.pass(499);
    assert_eq!(q.info("dedup-keys"), Tree::Int(1));
    q.pass(1);
    assert_eq!(q.info("dedup-keys"), Tree::Int(0));
    assert_eq!(q.queue.as_ref().unwrap().next_event(q.now, 0), None);
}

/// The key is its owner's: what had it before can end in any way without letting it go.
#[test]
fn only_its_owner_frees_a_key() {
    for end in ["ACK", "NACK", "DEL"] {
        let mut q = queue("");
        let (old, _) = push(&mut q, "old", "WINDOW 10");
        let (_, token) = q.lease("w");
        q.pass(10);
        let (new, code) = push(&mut q, "new", "");
        assert_eq!(code, 1);
        match end {
            "ACK" => drop(q.cmd(&format!("RQ.ACK {old} {token}"))),
            "NACK" => drop(q.cmd(&format!("RQ.NACK {old} {token} DEAD"))),
            _ => drop(q.cmd(&format!("RQ.DEL {old}"))),
        }
        assert_eq!(push(&mut q, "x", ""), (new.clone(), 0), "{end}");
        q.reload();
        assert_eq!(q.cmd("RQ.DEL DEDUP k"), Tree::Int(1));
        assert_eq!(q.cmd(&format!("RQ.GET {new}")), Tree::NullArray);
        assert_eq!(push(&mut q, "x", "").1, 1);
    }
    // A dead letter of the same name is not the owner either.
    let mut q = queue("");
    let (old, _) = push(&mut q, "old", "");
    lease_and(&mut q, "NACK", "DEAD");
    let (new, _) = push(&mut q, "new", "");
    q.cmd(&format!("RQ.DEL {old}"));
    assert_eq!(push(&mut q, "x", ""), (new, 0));
}

/// B29: batches say for each payload whose id it is, and twice the same key is one job.
#[test]
fn batches_hold_within_themselves() {
    let mut q = queue("");
    let (old, _) = push(&mut q, "old", "");
    let reply = q.cmd("RQ.MPUSH 5 a b c d e DEDUPS x k y x y WINDOW 50 PRIORITY 3");
    let codes: Vec<i64> = items(&reply).iter().map(|one| int(at(one, 1))).collect();
    assert_eq!(codes, [1, 0, 1, 0, 0]);
    let ids: Vec<String> = items(&reply).iter().map(|one| string(at(one, 0))).collect();
    assert_eq!(ids[1], old);
    assert_eq!((&ids[3], &ids[4]), (&ids[0], &ids[2]));
    for (id, payload) in [(&ids[0], "a"), (&ids[2], "c")] {
        assert_eq!((q.get(id, "payload"), q.get(id, "priority")), (bulk(payload), Tree::Int(3)));
    }
    assert_eq!((q.cmd("RQ.LEN"), q.info("pushed-total")), (Tree::Int(3), Tree::Int(3)));
    // The window is each one's.
    q.pass(50);
    assert_eq!(int(at(at(&q.cmd("RQ.MPUSH 1 z DEDUPS x"), 0), 1)), 1);
    assert_eq!(push(&mut q, "x", "").1, 0);
}

/// A dead letter whose key is another's by now stays where it is.
#[test]
fn redrive_does_not_take_a_key_from_its_owner() {
    let mut q = queue("");
    let mut dead = Vec::new();
    for _ in 0..2 {
        dead.push(push(&mut q, "x", "").0);
        lease_and(&mut q, "NACK", "DEAD");
        q.now += 1;
    }
    let (owner, _) = push(&mut q, "x", "");
    assert_eq!(q.cmd(&format!("RQ.REDRIVE {} {}", dead[0], dead[1])), ints(&[-2, -2]));
    assert!(q.batch.is_empty());
    assert_eq!(q.cmd("RQ.REDRIVE COUNT 10"), ints(&[0, 2, 0]));
    q.cmd(&format!("RQ.DEL {owner}"));
    // Two of one key: only one of them can have it.
    assert_eq!(q.cmd("RQ.REDRIVE COUNT 10"), ints(&[1, 1, 0]));
    assert_eq!(push(&mut q, "x", ""), (dead[0].clone(), 0));
    assert_eq!(q.cmd(&format!("RQ.REDRIVE {} {} 1-0", dead[0], dead[1])), ints(&[0, -2, -1]));
    lease_and(&mut q, "ACK", "");
    assert_eq!(q.cmd(&format!("RQ.REDRIVE {}", dead[1])), ints(&[1]));
    assert_eq!(push(&mut q, "x", ""), (dead[1].clone(), 0));
}

/// Whoever repeats it until it says that there is no more comes to an end, and can go on behind.
#[test]
fn redrive_among_very_many_whose_key_is_taken() {
    let mut q = queue("");
    for _ in 0..1_005 {
        push(&mut q, "x", "");
        lease_and(&mut q, "NACK", "DEAD");
    }
    let taken_until = q.now;
    q.now += 1;
    q.cmd("RQ.PUSH last");
    lease_and(&mut q, "NACK", "DEAD");
    push(&mut q, "owner", "");
    assert_eq!(q.cmd("RQ.REDRIVE COUNT 2"), ints(&[0, 1_002, 0]));
    assert_eq!(q.cmd(&format!("RQ.REDRIVE COUNT 2 AFTER {taken_until}")), ints(&[1, 0, 0]));
}

/// A window that is over does not keep a redriven job from its key, however much is due.
#[test]
fn a_redriven_job_takes_a_key_whose_window_is_over() {
    let mut q = queue("");
    let (dead, _) = push(&mut q, "x", "");
    lease_and(&mut q, "NACK", "DEAD");
    push(&mut q, "y", "WINDOW 10");
    lease_and(&mut q, "ACK", "");
    q.cmd(&format!("RQ.MPUSH 300{} TTL 5", " z".repeat(300)));
    q.now += 10;
    assert_eq!(q.cmd(&format!("RQ.REDRIVE {dead}")), ints(&[1]));
    assert_eq!(push(&mut q, "x", ""), (dead, 0));
}

/// By the producer's own name.
#[test]
fn get_and_del_by_key() {
    let mut q = queue("KEEPDONE 5");
    assert_eq!(q.cmd("RQ.GET DEDUP k"), Tree::NullArray);
    assert_eq!(q.cmd("RQ.DEL DEDUP k"), Tree::Int(0));
    push(&mut q, "x", "WINDOW 1000");
    assert_eq!(field(&q.cmd("rq.get dedup k"), "payload"), bulk("x"));
    q.cmd("RQ.PUSH y DEDUP l");
    assert_eq!(q.cmd("RQ.DEL DEDUP k nobody l l"), Tree::Int(2));
    assert_eq!((q.cmd("RQ.LEN"), q.info("dedup-keys")), (Tree::Int(0), Tree::Int(0)));
    // Binary, long, or spelled like an option.
    for key in [&b"\x00\xff\r\n"[..], b"WINDOW", &[b'k'; 1_024], b""] {
        let reply = q.run("RQ.PUSH", &[b"p", b"DEDUP", key]).unwrap();
        assert_eq!(at(&reply, 1), &Tree::Int(1));
        assert_eq!(field(&q.run("RQ.GET", &[b"DEDUP", key]).unwrap(), "dedup"), Tree::Bulk(key.to_vec()));
        assert_eq!(q.run("RQ.DEL", &[b"DEDUP", key]).unwrap(), Tree::Int(1));
    }
    assert!(q.run("RQ.PUSH", &[b"p", b"DEDUP", &[b'k'; 1_025]]).unwrap_err().to_string().contains("1024"));
}

/// B26: whatever happened, when all jobs are gone nothing is left that could block anyone.
#[test]
fn a_drained_queue_has_no_debris() {
    for seed in 50..60 {
        let mut q = support::lively::lively(seed, 500);
        q.cmd("RQ.ALTER KEEPDONE 0 KEEPDEAD 0 CONCURRENCY -1 RATE -1 GROUPRATE -1 GROUPORDER no GROUPLIMIT -1");
        for line in ["RQ.RESUME OUT", "RQ.RESUME IN", "RQ.UNSCHEDULE a bb ccc"] {
            q.cmd(line);
        }
        for group in items(&q.cmd("RQ.GROUPS")).to_vec() {
            q.cmd(&format!("RQ.RESUME GROUP {}", string(at(&group, 0))));
        }
        q.pass(400_000_000);
        while let Tree::Array(jobs) = q.cmd("RQ.LEASE w COUNT 100") {
            for job in jobs {
                q.cmd(&format!("RQ.ACK {} {}", string(at(&job, 0)), int(at(&job, 1))));
            }
            q.pass(400_000_000);
        }
        for name in ["length", "dead", "done", "dedup-keys", "held-duplicates", "held-bytes", "groups", "schedules"] {
            assert_eq!(q.info(name), Tree::Int(0), "{name}, seed {seed}");
        }
        assert_eq!(q.cmd("RQ.CONSUMERS"), Tree::Array(Vec::new()));
        assert_eq!(q.queue.as_ref().unwrap().next_event(q.now, 0), None, "seed {seed}");
        // No more than a queue that never had a job, but for its counters.
        let (empty, drained) = (snapshot(queue("").queue.as_ref()), snapshot(q.queue.as_ref()));
        assert!(drained.len() < empty.len() + 64, "{} bytes, seed {seed}", drained.len());
        for key in ["a", "bb", "ccc"] {
            assert_eq!(at(&q.cmd(&format!("RQ.PUSH x DEDUP {key}")), 1), &Tree::Int(1));
        }
    }
}
