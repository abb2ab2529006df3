//! What is kept of finished and dead jobs, and how much there may be: retention, TRIM, RESULT,
//! WAIT, back-pressure. The cases that went wrong for others (B30 to B33) as named tests.

#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "tests may")]

mod support;

use rq_core::{End, Tree};
use support::{at, bulk, int, ints, items, snapshot, string, Driver};

fn queue(policy: &str) -> Driver {
    let mut q = Driver::new();
    q.cmd(&format!("RQ.CREATE LEASE 1000 JITTER none BACKOFF 50 50 {policy}"));
    q
}

/// Pushes a job and ends it as done or dead; its id and token.
fn ended(q: &mut Driver, state: &str, payload: &str) -> String {
    q.cmd(&format!("RQ.PUSH {payload} PRIORITY 9"));
    let (id, token) = q.lease("w");
    let reply = match state {
        "done" => q.cmd(&format!("RQ.ACK {id} {token}")),
        _ => q.cmd(&format!("RQ.NACK {id} {token} DEAD")),
    };
    assert!(int(at(&reply, 0)) > 0);
    format!("{id} {token}")
}

fn payloads(q: &mut Driver, state: &str) -> Vec<String> {
    let page = q.cmd(&format!("RQ.PEEK {state} COUNT 1000"));
    items(at(&page, 1)).iter().map(|job| string(&support::field(job, "payload"))).collect()
}


/// B30: without being asked to, nothing is kept.
#[test]
fn finished_jobs_are_gone_by_default() {
    let mut q = queue("");
    let empty = snapshot(q.queue.as_ref()).len();
    for _ in 0..100 {
        ended(&mut q, "done", &"x".repeat(1_000));
    }
    assert_eq!((q.info("done"), q.info("acked-total")), (Tree::Int(0), Tree::Int(100)));
    assert!(snapshot(q.queue.as_ref()).len() < empty + 32);
    assert_eq!(q.info("trimmed-total"), Tree::Int(0));
    // The dead are kept.
    ended(&mut q, "dead", "d");
    q.pass(100_000_000_000);
    assert_eq!(q.info("dead"), Tree::Int(1));
}

/// Each bound, for done and for dead: the oldest go, and it is counted and told.
#[test]
fn each_bound_drops_the_oldest() {
    for state in ["done", "dead"] {
        let (upper, total) = if state == "done" { ("DONE", "trimmed-total") } else { ("DEAD", "dead-dropped-total") };
        // By number.
        let mut q = queue(&format!("KEEP{upper} 3"));
        for n in 0..5 {
            ended(&mut q, state, &format!("n{n}"));
            assert_eq!(q.events.iter().filter(|event| *event == "rq.drop").count(), usize::from(n >= 3), "{state} {n}");
        }
        assert_eq!(payloads(&mut q, state), ["n2", "n3", "n4"]);
        assert_eq!(q.info(total), Tree::Int(2));
        q.cmd(&format!("RQ.ALTER KEEP{upper} 1"));
        assert_eq!(payloads(&mut q, state), ["n4"], "the bound holds at once");
        // By bytes (B31): 40 bytes each.
        let mut q = queue(&format!("{} KEEP{upper}BYTES 100", if state == "done" { "KEEPDONE -1" } else { "" }));
        for n in 0..5 {
            ended(&mut q, state, &format!("{n}{}", "x".repeat(39)));
            assert!(int(&q.info(&format!("{state}-bytes"))) <= 100);
        }
        assert_eq!(q.cmd(&format!("RQ.LEN {state}")), Tree::Int(2));
        ended(&mut q, state, &"y".repeat(101));
        assert_eq!(q.cmd(&format!("RQ.LEN {state}")), Tree::Int(0), "one that does not fit alone either");
        assert_eq!(q.info(total), Tree::Int(6));
        // By age, from the end, by the timer alone.
        let mut q = queue(&format!("{} KEEP{upper}MS 500", if state == "done" { "KEEPDONE -1" } else { "" }));
        q.cmd("RQ.PUSH waits-long");
        q.pass(10_000);
        for n in 0..3 {
            ended(&mut q, state, &format!("n{n}"));
            q.pass(100);
        }
        let (start, ends) = (q.now - 300, [500, 600, 700]);
        for (n, end) in ends.into_iter().enumerate() {
            assert_eq!(q.queue.as_ref().unwrap().next_event(q.now, 0), Some(start + end));
            q.at(start + end - 1);
            assert!(!q.tick(9));
            assert_eq!(q.cmd(&format!("RQ.LEN {state}")), Tree::Int(3 - n as i64));
            q.at(start + end);
            q.tick(9);
            assert_eq!(q.events, ["rq.drop"]);
            q.reload();
        }
        assert_eq!((q.cmd(&format!("RQ.LEN {state}")), q.cmd("RQ.LEN"), q.info(total)), (Tree::Int(0), Tree::Int(1), Tree::Int(3)));
    }
}

/// All three bounds of zero keep nothing.
#[test]
fn any_bound_of_zero_keeps_nothing() {
    for bound in ["", "MS", "BYTES"] {
        let mut q = queue(&format!("KEEPDEAD{bound} 0 {}", if bound.is_empty() { "" } else { "KEEPDONE 5" }));
        if !bound.is_empty() {
            q.cmd(&format!("RQ.ALTER KEEPDONE{bound} 0"));
        }
        let done = ended(&mut q, "done", "x");
        assert_eq!(q.cmd(&format!("RQ.ACK {done}")), ints(&[-1]), "{bound}: it is gone");
        ended(&mut q, "dead", "x");
        assert_eq!((q.info("done"), q.info("dead"), q.info("dead-dropped-total")), (Tree::Int(0), Tree::Int(0), Tree::Int(1)), "{bound}");
        assert_eq!((q.info("dead-total"), q.info("acked-total")), (Tree::Int(1), Tree::Int(1)));
    }
}

/// A great many at once: in bounded steps, to the end.
#[test]
fn a_lowered_bound_is_reached_in_steps() {
    let mut q = queue("KEEPDONE -1");
    q.cmd(&format!("RQ.MPUSH 1000{}", " x".repeat(1_000)));
    let leased = q.cmd("RQ.LEASE w COUNT 1000");
    let pairs: String = items(&leased).iter().map(|job| format!(" {} {}", string(at(job, 0)), int(at(job, 1)))).collect();
    q.cmd(&format!("RQ.ACK{pairs}"));
    q.cmd("RQ.ALTER KEEPDONE 10");
    assert!(int(&q.info("done")) >= 1_000 - 2 * 128, "not all in one command");
    q.pass(0);
    assert_eq!((q.info("done"), q.info("trimmed-total")), (Tree::Int(10), Tree::Int(990)));
}

/// TRIM takes what is done, oldest first, and nothing else (B33).
#[test]
fn trim_touches_only_what_is_done() {
    let crowd = || {
        let mut q = queue("KEEPDONE -1");
        for n in 0..6 {
            ended(&mut q, "done", &format!("done{n}"));
            q.pass(100);
        }
        ended(&mut q, "dead", "dead");
        q.cmd("RQ.PUSH leased");
        q.lease("w");
        q.cmd("RQ.PUSH ready");
        q.cmd("RQ.PUSH delayed DELAY 500");
        q
    };
    for (bound, left) in [
        ("MAXLEN 4", 4), ("MAXLEN 0", 0), ("MAXLEN 9", 6), ("MAXLEN 2 COUNT 1", 5), ("MAXAGE 301", 3), ("MAXAGE 300", 2),
        ("MAXAGE 0", 0), ("MAXBYTES 14", 2), ("MAXBYTES 15", 3), ("MAXBYTES 0", 0), ("COUNT 2 MAXBYTES 0", 4),
    ] {
        let mut q = crowd();
        let before: Vec<_> = ["READY", "DELAYED", "LEASED", "DEAD"].map(|state| payloads(&mut q, state)).to_vec();
        assert_eq!(q.cmd(&format!("RQ.TRIM {bound}")), Tree::Int(6 - left), "{bound}");
        assert_eq!(q.batch.is_empty(), left == 6);
        let all: Vec<String> = (6 - left..6).map(|n| format!("done{n}")).collect();
        assert_eq!(payloads(&mut q, "DONE"), all, "{bound}");
        assert_eq!(q.info("trimmed-total"), Tree::Int(6 - left));
        assert_eq!(["READY", "DELAYED", "LEASED", "DEAD"].map(|state| payloads(&mut q, state)).to_vec(), before);
        q.reload();
    }
    let mut q = queue("KEEPDONE -1");
    q.cmd(&format!("RQ.MPUSH 1500{}", " x".repeat(1_500)));
    let leased = q.cmd("RQ.LEASE w COUNT 1500");
    let pairs: String = items(&leased).iter().map(|job| format!(" {} {}", string(at(job, 0)), int(at(job, 1)))).collect();
    q.cmd(&format!("RQ.ACK{pairs}"));
    assert_eq!(q.cmd("RQ.TRIM MAXLEN 0"), Tree::Int(1_000), "a thousand by default");
    assert_eq!(Driver::new().cmd("RQ.TRIM MAXLEN 0"), Tree::Int(0));
}

/// Kept, a finished job still knows who finished it.
#[test]
fn acknowledging_again_gives_the_same() {
    let mut q = queue("KEEPDONE 5");
    q.cmd("RQ.PUSH x");
    let (id, token) = q.lease("w");
    assert_eq!(q.cmd(&format!("RQ.ACK {id} {token} RESULT first")), ints(&[1]));
    let done_at = q.get(&id, "done-at");
    q.pass(5);
    for verb in ["ACK", "NACK", "RELEASE", "EXTEND"] {
        let code = i64::from(verb == "ACK");
        assert_eq!(q.cmd(&format!("RQ.{verb} {id} {token}")), ints(&[code]), "{verb}");
        assert!(q.batch.is_empty(), "{verb} changed it");
    }
    assert_eq!(q.cmd(&format!("RQ.ACK {id} {} RESULT other", token + 1)), ints(&[0]));
    assert_eq!((q.get(&id, "result"), q.get(&id, "done-at"), q.get(&id, "state")), (bulk("first"), done_at, bulk("done")));
    assert_eq!(q.cmd(&format!("RQ.REDRIVE {id}")), ints(&[0]));
    assert_eq!(q.cmd(&format!("RQ.SET {id} PRIORITY 1")), Tree::Int(0));
    assert_eq!(q.cmd("RQ.PURGE DONE"), Tree::Int(1));
    assert_eq!(q.cmd(&format!("RQ.ACK {id} {token}")), ints(&[-1]));
}

/// RESULT and WAIT: what was said at the end, and who waits is told of every kind of end.
#[test]
fn waiting_for_the_end() {
    let mut q = queue("KEEPDONE 5 MAXDELIVERIES 1");
    let wait = |q: &mut Driver, id: &str| q.cmd(&format!("RQ.WAIT {id}"));
    let pair = |state: &str, result: Tree| Tree::Array(vec![bulk(state), result]);
    assert_eq!(wait(&mut q, "1-0"), Tree::NullArray);
    for (result, kept) in [("RESULT blob", bulk("blob")), ("RESULT RESULT", bulk("RESULT"))] {
        let id = string(&q.cmd("RQ.PUSH x"));
        assert_eq!(wait(&mut q, &id), Tree::NullArray);
        let (_, token) = q.lease("w");
        q.cmd(&format!("RQ.ACK {id} {token} {result}"));
        let Tree::Bulk(bytes) = kept.clone() else { panic!("no bulk") };
        assert_eq!(q.ended[0].1, End::Done(Some(bytes.into())));
        q.reload();
        assert_eq!(wait(&mut q, &id), pair("done", kept));
        assert!(q.batch.is_empty());
    }
    // The result counts as bytes that are kept.
    assert_eq!(q.info("done-bytes"), Tree::Int(2 + 4 + 6));
    let id = string(&q.cmd("RQ.PUSH x"));
    let (_, token) = q.lease("w");
    q.cmd(&format!("RQ.NACK {id} {token}"));
    assert_eq!((wait(&mut q, &id), q.ended.len()), (pair("dead", Tree::Null), 0));
    for end in ["DEL", "PURGE READY", "ttl", "expiry", "ACK"] {
        q.cmd("RQ.ALTER KEEPDONE 0");
        let id = string(&q.cmd("RQ.PUSH x TTL 9000"));
        let expected = match end {
            "DEL" => q.cmd(&format!("RQ.DEL {id}")) == Tree::Int(1),
            "PURGE READY" => q.cmd("RQ.PURGE READY") == Tree::Int(1),
            "ttl" => { q.now += 9_000; !q.tick(9) }
            "expiry" => { q.lease("w"); q.now += 1_000; !q.tick(9) }
            _ => { let (_, token) = q.lease("w"); q.cmd(&format!("RQ.ACK {id} {token} RESULT r")) == ints(&[1]) }
        };
        assert!(expected, "{end}");
        let told = match end { "ttl" | "expiry" => End::Dead, "ACK" => End::Done(None), _ => End::Gone };
        assert_eq!(q.ended.iter().map(|(_, end)| end.clone()).collect::<Vec<_>>(), [told], "{end}");
    }
}
