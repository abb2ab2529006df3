//! Whose turn it is, and how many at once: groups, limits, rates. The cases that went wrong for
//! others (B23, B24) as named tests.

#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "tests may")]

mod support;

use rq_core::Tree;
use support::lively::Dice;
use support::{at, bulk, int, ints, items, string, Driver};

fn queue(policy: &str) -> Driver {
    let mut q = Driver::new();
    q.cmd(&format!("RQ.CREATE LEASE 1000 JITTER none BACKOFF 50 50 {policy}"));
    q
}

fn pairs(reply: &Tree) -> Vec<String> {
    match reply {
        Tree::NullArray => Vec::new(),
        reply => items(reply).iter().map(|job| format!("{} {}", string(at(job, 0)), int(at(job, 1)))).collect(),
    }
}

/// The payloads of a lease, one after the other.
fn take(q: &mut Driver, count: usize) -> Vec<String> {
    match q.cmd(&format!("RQ.LEASE w COUNT {count}")) {
        Tree::NullArray => Vec::new(),
        reply => items(&reply).iter().map(|job| string(at(job, 3))).collect(),
    }
}

/// The next one, alone; what is to be said of it later.
fn one(q: &mut Driver) -> (String, String) {
    let reply = q.cmd("RQ.LEASE w");
    let job = at(&reply, 0);
    (string(at(job, 3)), format!("{} {}", string(at(job, 0)), int(at(job, 1))))
}

fn next_event(q: &Driver) -> Option<u64> {
    q.queue.as_ref().unwrap().next_event(q.now, 0)
}

/// Groups and the jobs without one take turns; each in its own order.
#[test]
fn groups_take_turns() {
    for count in [1, 2, 9] {
        let mut q = queue("");
        q.cmd("RQ.MPUSH 4 a1 a2 a3 a4 GROUP a");
        q.cmd("RQ.MPUSH 3 n1 n2 n3");
        q.cmd("RQ.MPUSH 2 b1 b2 GROUP b");
        let mut order = Vec::new();
        while order.len() < 9 {
            order.extend(take(&mut q, count));
            q.reload();
        }
        assert_eq!(order, ["a1", "n1", "b1", "a2", "n2", "b2", "a3", "n3", "a4"], "by {count}");
    }
}

/// Who comes anew stands at the end, and one tenant's turn is one job, not all it has.
#[test]
fn a_burst_holds_up_nobody() {
    let mut q = queue("");
    for _ in 0..10 {
        q.cmd(&format!("RQ.MPUSH 1000{} GROUP burst", " x".repeat(1_000)));
    }
    take(&mut q, 3);
    q.cmd("RQ.PUSH one GROUP small");
    let two = [one(&mut q).0, one(&mut q).0];
    assert!(two.contains(&"one".to_string()), "{two:?}");
    // The same for a job without group, and for one of a higher priority within the burst's ring.
    q.cmd("RQ.PUSH bare");
    let two = [one(&mut q).0, one(&mut q).0];
    assert!(two.contains(&"bare".to_string()), "{two:?}");
    q.cmd("RQ.PUSH urgent GROUP burst PRIORITY 1");
    assert_eq!(one(&mut q).0, "urgent");
}

/// The priority comes first, whoever's turn it is.
#[test]
fn turns_are_within_a_priority() {
    let mut q = queue("");
    q.cmd("RQ.MPUSH 2 a-low a-low GROUP a PRIORITY 1");
    q.cmd("RQ.MPUSH 3 a-high a-high a-high GROUP a PRIORITY 5");
    q.cmd("RQ.PUSH b-high GROUP b PRIORITY 5");
    q.cmd("RQ.PUSH b-low GROUP b PRIORITY 1");
    assert_eq!(take(&mut q, 9), ["a-high", "b-high", "a-high", "a-high", "a-low", "b-low", "a-low"]);
}

/// B24: at most so many of one group at once; those behind it are not held up, and LEASE does not
/// look at its jobs one by one.
#[test]
fn grouplimit() {
    let mut q = queue("GROUPLIMIT 2");
    q.cmd("RQ.MPUSH 5 a1 a2 a3 a4 a5 GROUP a");
    q.cmd("RQ.MPUSH 3 n1 n2 n3");
    q.cmd("RQ.PUSH b1 GROUP b");
    let reply = q.cmd("RQ.LEASE w COUNT 9");
    let got: Vec<String> = items(&reply).iter().map(|job| string(at(job, 3))).collect();
    assert_eq!(got, ["a1", "n1", "b1", "a2", "n2", "n3"]);
    assert_eq!(q.info("held"), bulk("groups"));
    let a = pairs(&reply);
    // Each way in which a lease ends makes room for one.
    for (verb, next) in [("ACK", "a3"), ("NACK", "a4")] {
        let pair = if verb == "ACK" { &a[0] } else { &a[3] };
        q.cmd(&format!("RQ.{verb} {pair}"));
        assert_eq!(q.info("held"), bulk("no"), "{verb}");
        assert_eq!(take(&mut q, 9), [next], "{verb}");
    }
    q.pass(50);
    assert_eq!(take(&mut q, 9), Vec::<String>::new(), "the retry waits for its place too");
    q.cmd("RQ.ALTER GROUPLIMIT 4");
    assert_eq!(take(&mut q, 9), ["a5", "a2"]);
    q.pass(1_000);
    assert_eq!(take(&mut q, 9).len(), 8, "all that expired, and no more than four of a");
}

/// INFO tells at once, also when nobody has asked for a lease since, and after a restart.
#[test]
fn held_is_true_without_a_lease_in_vain() {
    for reload in [false, true] {
        let mut q = queue("GROUPLIMIT 1");
        assert_eq!(q.info("held"), bulk("empty"));
        q.cmd("RQ.MPUSH 2 a b GROUP g");
        assert_eq!(q.info("held"), bulk("no"));
        let (_, pair) = one(&mut q);
        if reload {
            q.reload();
        }
        assert_eq!(q.info("held"), bulk("groups"));
        q.cmd("RQ.PUSH c");
        assert_eq!(q.info("held"), bulk("no"));
        take(&mut q, 1);
        q.cmd("RQ.PAUSE");
        assert_eq!(q.info("held"), bulk("paused"));
        q.cmd("RQ.RESUME");
        q.cmd("RQ.ALTER CONCURRENCY 2");
        assert_eq!(q.info("held"), bulk("concurrency"));
        q.cmd("RQ.ALTER CONCURRENCY -1 RATE 1 500");
        q.cmd(&format!("RQ.ACK {pair}"));
        take(&mut q, 1);
        q.cmd("RQ.PUSH d");
        assert_eq!(q.info("held"), bulk("rate"));
        q.cmd("RQ.ALTER RATE -1 GROUPLIMIT -1");
        take(&mut q, 9);
        assert_eq!(q.info("held"), bulk("empty"));
    }
}

/// GROUPORDER: one at a time, and what fails comes again before what is behind it.
#[test]
fn grouporder_keeps_the_order_through_every_retry() {
    let ends = [
        ("NACK", 50), ("NACK DELAY 0", 0), ("NACK DELAY 700", 700), ("RELEASE", 0), ("RELEASE DELAY 30", 30), ("expiry", 1_000),
        ("backoff", 50),
    ];
    for (verb, waits) in ends {
        let mut q = queue("GROUPORDER yes MAXEXPIRIES 0");
        if verb == "backoff" {
            q.cmd("RQ.ALTER EXPIRYBACKOFF yes");
        }
        q.cmd("RQ.MPUSH 3 1 2 3 GROUP g");
        q.now += 5;
        q.cmd("RQ.MPUSH 2 n1 n2");
        let (got, pair) = one(&mut q);
        assert_eq!(got, "1");
        assert_eq!(take(&mut q, 9), ["n1", "n2"], "{verb}: the others are not held up");
        match verb {
            "expiry" => {}
            "backoff" => q.pass(1_000),
            verb => {
                let (name, rest) = verb.split_once(' ').unwrap_or((verb, ""));
                assert_eq!(q.cmd(&format!("RQ.{name} {pair} {rest}")), ints(&[1]));
            }
        }
        if waits > 0 {
            q.reload();
            q.pass(waits - 1);
            assert_eq!(take(&mut q, 1), Vec::<String>::new(), "{verb}: it holds its group");
            assert_eq!(q.info("held"), if q.cmd("RQ.LEN READY") == Tree::Int(0) { bulk("empty") } else { bulk("groups") });
            q.pass(1);
        }
        for expected in ["1", "2", "3"] {
            q.reload();
            let mut next = take(&mut q, 1);
            if next != [expected] {
                // The others' leases have expired as well by now.
                next = take(&mut q, 1);
            }
            if next != [expected] {
                next = take(&mut q, 1);
            }
            assert_eq!(next, [expected], "{verb}");
            let leased = q.cmd("RQ.PEEK LEASED COUNT 100");
            let mut done = 0;
            for job in items(at(&leased, 1)).to_vec() {
                if support::field(&job, "group") == bulk("g") {
                    let (id, token) = (string(&support::field(&job, "id")), int(&support::field(&job, "token")));
                    q.cmd(&format!("RQ.ACK {id} {token}"));
                    done += 1;
                }
            }
            assert_eq!(done, 1, "{verb}: one at a time");
        }
    }
}

/// A job that leaves in any other way lets its group go on.
#[test]
fn grouporder_goes_on_without_those_that_left() {
    for end in ["NACK DEAD", "DEL", "PURGE", "ttl", "ALTER"] {
        let mut q = queue("GROUPORDER yes");
        q.cmd("RQ.PUSH first GROUP g TTL 2000");
        q.cmd("RQ.PUSH second GROUP g");
        let (_, pair) = one(&mut q);
        let id = pair.split(' ').next().unwrap().to_string();
        assert_eq!(take(&mut q, 1), Vec::<String>::new());
        match end {
            "NACK DEAD" => drop(q.cmd(&format!("RQ.NACK {pair} DEAD"))),
            "ALTER" => drop(q.cmd("RQ.ALTER GROUPORDER no")),
            "DEL" => drop(q.cmd(&format!("RQ.DEL {id}"))),
            "PURGE" => {
                q.cmd(&format!("RQ.NACK {pair}"));
                assert_eq!(take(&mut q, 1), Vec::<String>::new());
                assert_eq!(q.cmd("RQ.PURGE DELAYED"), Tree::Int(1));
            }
            _ => {
                q.cmd(&format!("RQ.NACK {pair} DELAY 9000"));
                assert_eq!(take(&mut q, 1), Vec::<String>::new());
                q.pass(2_000);
            }
        }
        assert_eq!(take(&mut q, 9), ["second"], "{end}");
    }
}

/// A late EXTEND takes its place up again only if there is one; a pause does not take it away.
#[test]
fn late_extend_needs_a_place() {
    for (policy, other) in [("GROUPLIMIT 1", "GROUP g"), ("GROUPORDER yes", "GROUP g"), ("CONCURRENCY 1", "")] {
        for taken in [false, true] {
            let mut q = queue(policy);
            q.cmd("RQ.PUSH first GROUP g");
            let (_, pair) = one(&mut q);
            q.pass(1_000);
            if taken {
                // Above it, so that it is the one that is leased.
                q.cmd(&format!("RQ.PUSH other PRIORITY 1 {other}"));
                assert_eq!(one(&mut q).0, "other");
            }
            q.reload();
            assert_eq!(q.cmd(&format!("RQ.EXTEND {pair}")), ints(&[i64::from(!taken)]), "{policy}");
            assert_eq!(q.cmd(&format!("RQ.ACK {pair}")), ints(&[1]), "{policy}: it is good for the rest");
        }
    }
    for pause in ["RQ.PAUSE", "RQ.PAUSE GROUP g", "RQ.PAUSE IN"] {
        let mut q = queue("");
        q.cmd("RQ.PUSH first GROUP g");
        let (_, pair) = one(&mut q);
        q.pass(1_000);
        q.cmd(pause);
        assert_eq!(q.cmd(&format!("RQ.EXTEND {pair}")), ints(&[1]), "{pause}");
    }
    // Nor does a rate: it is no new grant.
    let mut q = queue("RATE 1 100000 GROUPRATE 1 100000");
    q.cmd("RQ.PUSH first GROUP g");
    let (_, pair) = one(&mut q);
    q.pass(1_000);
    assert_eq!(q.cmd(&format!("RQ.EXTEND {pair}")), ints(&[1]));
}

/// CONCURRENCY: so many leases over the whole queue, however they end.
#[test]
fn concurrency() {
    let mut q = queue("CONCURRENCY 2");
    q.cmd("RQ.MPUSH 6 1 2 3 4 5 6");
    let leased = q.cmd("RQ.LEASE w COUNT 9");
    assert_eq!(items(&leased).len(), 2);
    let pair = pairs(&leased);
    q.reload();
    assert_eq!((take(&mut q, 9).len(), q.info("held")), (0, bulk("concurrency")));
    let reply = q.cmd(&format!("RQ.ACKLEASE {} w COUNT 5", pair[0]));
    assert_eq!(items(at(&reply, 1)).len(), 1, "its own place is free by then");
    q.cmd(&format!("RQ.RELEASE {}", pair[1]));
    assert_eq!(take(&mut q, 9), ["2"]);
    q.pass(1_000);
    assert_eq!(take(&mut q, 9), ["2", "3"]);
    q.cmd("RQ.ALTER CONCURRENCY 0");
    q.pass(1_000);
    assert_eq!((take(&mut q, 9).len(), q.info("held")), (0, bulk("concurrency")));
}

/// RATE and GROUPRATE against a naive reference: no interval has more than n, and none that could
/// have had one is left without.
#[test]
fn rates_are_exact() {
    for grouped in [false, true] {
        for seed in 1..12 {
            let mut dice = Dice(seed * 31);
            let (n, ms) = (1 + dice.below(4), 20 + dice.below(200) as u64);
            let mut q = queue(&format!("{} {n} {ms}", if grouped { "GROUPRATE" } else { "RATE" }));
            let group = if grouped { "GROUP g" } else { "" };
            for _ in 0..5 {
                q.cmd(&format!("RQ.MPUSH 100{} {group}", " x".repeat(100)));
            }
            let (mut grants, mut last): (Vec<u64>, Option<String>) = (Vec::new(), None);
            for _ in 0..120 {
                q.now += dice.below(60) as u64;
                if dice.below(10) == 0 {
                    q.reload();
                }
                if let (0, Some(pair)) = (dice.below(6), &last) {
                    q.cmd(&format!("RQ.RELEASE {pair}"));
                    grants.pop();
                    last = None;
                }
                let room = n - grants.iter().filter(|at| **at + ms > q.now).count();
                let want = 1 + dice.below(3);
                let got = pairs(&q.cmd(&format!("RQ.LEASE w LEASE 100000 COUNT {want}")));
                assert_eq!(got.len(), want.min(room), "{n} in {ms}, seed {seed}");
                grants.extend(got.iter().map(|_| q.now));
                if let Some(pair) = got.last() {
                    last = Some(pair.clone());
                }
                if got.len() < want {
                    let reopens = grants[grants.len() - n] + ms;
                    assert_eq!(next_event(&q), Some(reopens), "somebody may be waiting for it");
                    assert_eq!(q.info("held"), bulk(if grouped { "groups" } else { "rate" }));
                    assert!(!q.queue.as_ref().unwrap().may_lease(q.now));
                    assert!(q.queue.as_ref().unwrap().may_lease(reopens));
                }
            }
            assert!(grants.len() > 8);
        }
    }
}

/// One group's rate is not another's.
#[test]
fn grouprate_is_each_ones_own() {
    let mut q = queue("GROUPRATE 1 100");
    for group in ["a", "b", "c"] {
        q.cmd(&format!("RQ.MPUSH 2 {group}1 {group}2 GROUP {group}"));
    }
    q.cmd("RQ.MPUSH 2 n1 n2");
    assert_eq!(take(&mut q, 9), ["a1", "b1", "c1", "n1", "n2"]);
    q.pass(99);
    assert_eq!(take(&mut q, 9), Vec::<String>::new());
    q.pass(1);
    assert_eq!(take(&mut q, 9), ["a2", "b2", "c2"]);
}
