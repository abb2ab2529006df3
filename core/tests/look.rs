//! The shapes of what is shown: the names and their order, what is null, what bounds a page.

#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "tests may")]

mod support;

use rq_core::Tree;
use support::{at, bulk, field, int, ints, items, string, Driver};

fn names(map: &Tree) -> Vec<String> {
    let Tree::Map(pairs) = map else { panic!("no map: {map:?}") };
    pairs.iter().map(|(name, _)| string(name)).collect()
}

/// Whether `all` has the names of `some`, in their order; more may come between and after them.
fn in_order(all: &[String], some: &[&str]) -> bool {
    let mut rest = all.iter();
    some.iter().all(|name| rest.any(|other| other == name))
}

#[test]
fn a_job_has_the_same_names_in_every_state() {
    let mut q = Driver::new();
    q.cmd("RQ.CREATE LEASE 10 MAXDELIVERIES 1");
    let id = string(&q.cmd("RQ.PUSH payload DELAY 5"));
    let all = names(&q.cmd(&format!("RQ.GET {id}")));
    assert!(in_order(&all, &[
        "id", "state", "priority", "pushed-at", "due-at", "deliveries", "max-deliveries", "total-deliveries", "failures",
        "expiries", "releases", "redrives", "token", "consumer", "lease-ms", "deadline", "first-delivered-at",
        "last-delivered-at", "dead-at", "reason", "error", "size", "payload",
    ]), "{all:?}");
    let unset = ["token", "consumer", "lease-ms", "deadline", "first-delivered-at", "last-delivered-at", "dead-at", "reason", "error"];
    for name in unset {
        assert_eq!(q.get(&id, name), Tree::Null, "{name} of a job that was never delivered");
    }
    q.pass(5);
    let leased = q.cmd("RQ.LEASE w META");
    let meta = at(at(&leased, 0), 5).clone();
    assert_eq!(names(&meta), all[..all.len() - 1], "META is the map without the payload");
    for name in ["token", "consumer", "lease-ms", "deadline", "first-delivered-at", "last-delivered-at"] {
        assert_ne!(field(&meta, name), Tree::Null, "{name} of a leased job");
    }
    q.pass(10);
    let dead = q.cmd(&format!("RQ.GET {id}"));
    assert_eq!(names(&dead), all);
    assert_eq!((field(&dead, "deadline"), field(&dead, "dead-at")), (Tree::Null, Tree::Int(q.now as i64)));
    // The last consumer and both deliveries are kept with a dead letter.
    for name in ["consumer", "first-delivered-at", "last-delivered-at"] {
        assert_ne!(field(&dead, name), Tree::Null, "{name} of a dead job");
    }
    q.cmd(&format!("RQ.REDRIVE {id}"));
    assert_eq!((q.get(&id, "reason"), q.get(&id, "dead-at"), q.get(&id, "token")), (Tree::Null, Tree::Null, Tree::Null));
}

#[test]
fn info_has_its_names_in_the_order_of_the_contract() {
    let mut q = Driver::new();
    q.cmd("RQ.CREATE");
    let all = names(&q.cmd("RQ.INFO"));
    assert!(in_order(&all, &[
        "lease", "maxrun", "maxdeliveries", "maxexpiries", "backoff", "jitter", "expirybackoff", "length", "ready",
        "scheduled", "retrying", "leased", "dead", "dead-failed", "dead-expired-lease", "dead-rejected", "dead-ttl", "done",
        "ready-bytes", "delayed-bytes", "leased-bytes", "dead-bytes", "done-bytes", "held", "oldest-ready-ms",
        "oldest-lease-ms", "oldest-dead-ms", "next-due-at", "pushed-total", "delivered-total", "acked-total", "failed-total",
        "expired-total", "released-total", "dead-total", "redriven-total", "local-stale", "blocked-clients",
    ]), "{all:?}");
    for (name, default) in [("lease", 30_000), ("maxrun", 0), ("maxdeliveries", 20), ("maxexpiries", 5)] {
        assert_eq!(q.info(name), Tree::Int(default), "{name}");
    }
    assert_eq!(q.info("backoff"), ints(&[1_000, 3_600_000]));
    assert_eq!((q.info("jitter"), q.info("expirybackoff"), q.info("held")), (bulk("full"), bulk("no"), bulk("empty")));
    for name in ["oldest-ready-ms", "oldest-lease-ms", "oldest-dead-ms", "next-due-at"] {
        assert_eq!(q.info(name), Tree::Null, "{name} of nothing");
    }
}

/// The age of the oldest ready job counts from when it became ready, not from its push, and a
/// job that is ten hours away is not old.
#[test]
fn b71_ages_count_from_when_the_state_began() {
    let mut q = Driver::new();
    q.cmd("RQ.CREATE LEASE 1000 MAXDELIVERIES 2");
    q.cmd("RQ.PUSH x DELAY 36000000");
    q.pass(5_000);
    assert_eq!(q.info("oldest-ready-ms"), Tree::Null);
    let id = string(&q.cmd("RQ.PUSH y DELAY 100"));
    q.pass(107);
    assert_eq!(q.info("oldest-ready-ms"), Tree::Int(7));
    let (_, token) = q.lease("w");
    q.pass(900);
    q.cmd(&format!("RQ.EXTEND {id} {token}"));
    q.pass(100);
    assert_eq!((q.info("oldest-ready-ms"), q.info("oldest-lease-ms")), (Tree::Null, Tree::Int(1_000)));
    q.pass(900);
    assert_eq!(q.info("oldest-ready-ms"), Tree::Int(0), "its old place, but ready only now");
    assert_eq!(q.get(&id, "due-at"), Tree::Int((support::START + 5_100) as i64));
    q.lease("w");
    q.pass(1_000);
    q.pass(30);
    assert_eq!((q.info("oldest-lease-ms"), q.info("oldest-dead-ms")), (Tree::Null, Tree::Int(30)));
}

/// What every command that looks or settles says of a key that is not there.
#[test]
fn an_absent_key_is_an_empty_queue_and_stays_absent() {
    let mut q = Driver::new();
    let none = Tree::Array(Vec::new());
    let cases = [
        ("RQ.GET 1-0", Tree::NullArray),
        ("RQ.INFO", Tree::NullArray),
        ("RQ.LEASE w", Tree::NullArray),
        ("RQ.ACKLEASE 1-0 1 w", Tree::Array(vec![Tree::Int(-1), Tree::NullArray])),
        ("RQ.LEN", Tree::Int(0)),
        ("RQ.LEN DEAD", Tree::Int(0)),
        ("RQ.PEEK READY", Tree::Array(vec![bulk("0"), none.clone()])),
        ("RQ.ACK 1-0 1 2-0 2", ints(&[-1, -1])),
        ("RQ.NACK 1-0 1", ints(&[-1])),
        ("RQ.RELEASE 1-0 1", ints(&[-1])),
        ("RQ.RELEASE CONSUMER w", Tree::Int(0)),
        ("RQ.EXTEND 1-0 1", ints(&[-1])),
        ("RQ.REAP", none.clone()),
        ("RQ.REAP ID 1-0", none),
        ("RQ.REDRIVE 1-0", ints(&[-1])),
        ("RQ.REDRIVE COUNT 5", ints(&[0, 0, 0])),
        ("RQ.SET 1-0 PRIORITY 1", Tree::Int(-1)),
        ("RQ.DEL 1-0 2-0", Tree::Int(0)),
        ("RQ.PURGE DEAD", Tree::Int(0)),
    ];
    for (line, expected) in cases {
        assert_eq!(q.cmd(line), expected, "{line}");
        assert!(q.queue.is_none(), "{line} made a queue");
    }
}

/// A page ends early at 16 MB of payloads, so that a reply is bounded; it goes on where it ended.
#[test]
fn a_page_is_bounded_in_bytes() {
    let mut q = Driver::new();
    let payload = vec![b'x'; 9 << 20];
    for _ in 0..3 {
        q.run("RQ.PUSH", &[&payload]).unwrap();
    }
    let page = q.cmd("RQ.PEEK READY COUNT 10");
    assert_eq!(items(at(&page, 1)).len(), 2);
    let rest = q.cmd(&format!("RQ.PEEK READY COUNT 10 CURSOR {}", string(at(&page, 0))));
    assert_eq!((items(at(&rest, 1)).len(), at(&rest, 0)), (1, &bulk("0")));
    let heads = q.cmd("RQ.PEEK READY COUNT 10 NOPAYLOAD");
    assert_eq!((items(at(&heads, 1)).len(), at(&heads, 0)), (3, &bulk("0")));
    // LEASE as well, if told so; the first always comes.
    assert_eq!(items(&q.cmd("RQ.LEASE w COUNT 3 MAXBYTES 1")).len(), 1);
    assert_eq!(items(&q.cmd("RQ.LEASE w COUNT 3 MAXBYTES 18874368")).len(), 2);
}

/// A canceled job tells its worker so at the next heartbeat, and nothing of it is left (B33).
#[test]
fn a_deleted_job_is_gone_at_once() {
    let mut q = Driver::new();
    q.cmd("RQ.CREATE LEASE 10");
    q.cmd("RQ.PUSH x");
    let (id, token) = q.lease("w");
    assert_eq!(q.cmd(&format!("RQ.DEL {id} {id}")), Tree::Int(1));
    for verb in ["EXTEND", "ACK", "NACK", "RELEASE"] {
        assert_eq!(q.cmd(&format!("RQ.{verb} {id} {token}")), ints(&[-1]), "{verb}");
    }
    q.pass(10);
    assert_eq!((q.info("expired-total"), q.info("leased"), q.info("length")), (Tree::Int(0), Tree::Int(0), Tree::Int(0)));
    assert_eq!(int(&q.info("pushed-total")), 1);
}

