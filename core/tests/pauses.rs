//! Pauses of a queue and of its groups: what they stop, what they do not, and how they end.

#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "tests may")]

mod support;

use rq_core::Tree;
use support::{at, bulk, int, ints, items, string, Driver};

fn queue(policy: &str) -> Driver {
    let mut q = Driver::new();
    q.cmd(&format!("RQ.CREATE LEASE 1000 JITTER none BACKOFF 50 50 {policy}"));
    q
}

fn take(q: &mut Driver) -> Vec<String> {
    match q.cmd("RQ.LEASE w COUNT 99") {
        Tree::NullArray => Vec::new(),
        reply => items(&reply).iter().map(|job| string(at(job, 3))).collect(),
    }
}

fn next_event(q: &Driver) -> Option<u64> {
    q.queue.as_ref().unwrap().next_event(q.now, 0)
}

/// Nothing is leased by anybody; all else goes on.
#[test]
fn a_pause_stops_leasing_and_nothing_else() {
    let mut q = queue("MAXEXPIRIES 1");
    q.cmd("RQ.MPUSH 6 1 2 3 4 5 6");
    let leased = q.cmd("RQ.LEASE w COUNT 5");
    let pair: Vec<String> = items(&leased).iter().map(|job| format!("{} {}", string(at(job, 0)), int(at(job, 1)))).collect();
    assert_eq!(q.cmd("RQ.PAUSE REASON deploy"), Tree::Int(0));
    q.reload();
    assert_eq!((q.info("held"), q.info("paused-out"), q.info("paused-out-reason")), (bulk("paused"), Tree::Int(0), bulk("deploy")));
    assert_eq!(q.info("paused-in"), Tree::Null);
    assert_eq!(take(&mut q), Vec::<String>::new());
    q.cmd("RQ.PUSH 7 DELAY 100");
    assert_eq!(q.cmd(&format!("RQ.EXTEND {} LEASE 700", pair[0])), ints(&[1]));
    assert_eq!(q.cmd(&format!("RQ.NACK {}", pair[1])), ints(&[1]));
    assert_eq!(q.cmd(&format!("RQ.RELEASE {}", pair[2])), ints(&[1]));
    let reply = q.cmd(&format!("RQ.ACKLEASE {} w", pair[3]));
    assert_eq!(reply, Tree::Array(vec![Tree::Int(1), Tree::NullArray]));
    q.pass(1_000);
    assert_eq!(q.info("dead-expired-lease"), Tree::Int(2), "leases go on expiring");
    assert_eq!(q.cmd(&format!("RQ.ACK {}", pair[4])), ints(&[1]), "late, from dead");
    assert_eq!(q.cmd("RQ.LEN READY"), Tree::Int(4), "what is due is ready");
    assert_eq!((q.cmd("RQ.RESUME"), q.cmd("RQ.RESUME")), (Tree::Int(1), Tree::Int(0)));
    assert_eq!(take(&mut q), ["3", "6", "2", "7"]);
}

/// FOR: it ends by time alone, to the millisecond, and the timer knows when.
#[test]
fn a_pause_ends_by_itself() {
    for side in ["OUT", "IN", "GROUP g"] {
        let mut q = queue("");
        q.cmd("RQ.PUSH x GROUP g");
        let end = q.now + 500;
        assert_eq!(q.cmd(&format!("RQ.PAUSE {side} FOR 500 REASON why")), Tree::Int(end as i64));
        assert_eq!(next_event(&q), Some(end), "{side}");
        q.reload();
        assert_eq!(next_event(&q), Some(end), "{side}");
        q.pass(499);
        match side {
            "IN" => assert!(q.try_cmd("RQ.PUSH y").unwrap_err().to_string().contains("why")),
            _ => assert_eq!(take(&mut q), Vec::<String>::new()),
        }
        // The timer alone.
        q.now += 1;
        q.tick(9);
        assert!(!q.batch.is_empty(), "{side}");
        assert_eq!(next_event(&q), None);
        assert_eq!(q.cmd(&format!("RQ.RESUME {side}")), Tree::Int(0), "{side}");
        match side {
            "IN" => drop(q.cmd("RQ.PUSH y")),
            _ => assert_eq!(take(&mut q), ["x"]),
        }
        // And without the timer: what comes first notices.
        let mut q = queue("");
        q.cmd("RQ.PUSH x GROUP g");
        q.cmd(&format!("RQ.PAUSE {side} FOR 500"));
        q.cmd("RQ.LEASE nobody");
        q.now += 500;
        q.cmd("RQ.PUSH y");
        assert_eq!(q.info("held"), bulk("no"), "{side}");
    }
}

/// Never shorter by another PAUSE, in any order; RESUME ends it whatever is left.
#[test]
fn a_pause_never_gets_shorter() {
    for side in ["", "OUT", "IN", "GROUP g", "OUT GROUP g", "GROUP g OUT"] {
        let mut q = queue("");
        let now = q.now as i64;
        let pause = |q: &mut Driver, rest: &str| int(&q.cmd(&format!("RQ.PAUSE {side} {rest}")));
        assert_eq!(pause(&mut q, "FOR 1000 REASON first"), now + 1_000);
        q.now += 100;
        assert_eq!(pause(&mut q, "FOR 500"), now + 1_000, "{side}: not shorter");
        assert!(q.batch.is_empty());
        assert_eq!(pause(&mut q, "FOR 900"), now + 1_000);
        assert_eq!(pause(&mut q, "FOR 901"), now + 1_001, "{side}: longer");
        assert_eq!(pause(&mut q, ""), 0, "{side}: without end");
        assert_eq!(pause(&mut q, "FOR 1000000"), 0, "{side}: that is longer than any");
        q.reload();
        q.pass(2_000_000);
        assert_eq!(q.cmd(&format!("RQ.RESUME {side}")), Tree::Int(1));
        assert_eq!(pause(&mut q, "FOR 5"), q.now as i64 + 5, "{side}: a new one");
        q.pass(5);
        assert_eq!(pause(&mut q, "FOR 3"), q.now as i64 + 3, "{side}: one that is over does not count");
    }
}

/// The three are independent of each other.
#[test]
fn each_pause_is_its_own() {
    let mut q = queue("");
    q.cmd("RQ.MPUSH 2 a b GROUP g");
    q.cmd("RQ.PUSH c GROUP h");
    q.cmd("RQ.PUSH d");
    for line in ["RQ.PAUSE IN", "RQ.PAUSE OUT FOR 700", "RQ.PAUSE GROUP g"] {
        q.cmd(line);
    }
    assert_eq!(q.cmd("RQ.RESUME GROUP h"), Tree::Int(0));
    assert_eq!(q.cmd("RQ.RESUME OUT"), Tree::Int(1));
    assert_eq!(take(&mut q), ["c", "d"], "all but the paused group");
    assert_eq!(q.info("held"), bulk("groups"));
    assert!(q.try_cmd("RQ.PUSH e").is_err());
    assert_eq!(q.cmd("RQ.RESUME IN"), Tree::Int(1));
    q.cmd("RQ.PUSH e GROUP g");
    assert_eq!(take(&mut q), Vec::<String>::new());
    assert_eq!(q.cmd("RQ.RESUME GROUP g"), Tree::Int(1));
    assert_eq!(q.info("held"), bulk("no"));
    assert_eq!(take(&mut q), ["a", "b", "e"]);
    // Before there is any job of it, and after there was.
    q.cmd("RQ.PAUSE GROUP new");
    q.cmd("RQ.PUSH x GROUP new");
    assert_eq!(q.cmd("RQ.PURGE READY"), Tree::Int(1));
    q.reload();
    q.cmd("RQ.PUSH y GROUP new");
    assert_eq!(take(&mut q), Vec::<String>::new());
    q.cmd("RQ.RESUME GROUP new");
    assert_eq!(take(&mut q), ["y"]);
}

/// Reasons: binary, shown, replaced by a newer one, kept by one that gives none.
#[test]
fn reasons() {
    let mut q = queue("");
    for (side, name) in [(&b"OUT"[..], "paused-out-reason"), (b"IN", "paused-in-reason")] {
        assert_eq!(q.info(name), Tree::Null);
        let long = vec![0xff; 5_000];
        for reason in [&b"\x00\r\n"[..], b"FOR", &long] {
            q.run("RQ.PAUSE", &[side, b"REASON", reason]).unwrap();
            assert_eq!(q.info(name), Tree::Bulk(reason[..reason.len().min(1_024)].to_vec()));
        }
        q.run("RQ.PAUSE", &[side]).unwrap();
        assert!(q.batch.is_empty());
        if side == b"IN" {
            // The error is one line, whatever the reason.
            let error = q.try_cmd("RQ.PUSH x").unwrap_err().to_string();
            assert!(error.starts_with("PAUSED ") && error.is_ascii() && !error.contains(['\r', '\n']));
        }
        q.run("RQ.RESUME", &[side]).unwrap();
        assert_eq!(q.info(name), Tree::Null);
    }
}

/// A client that blocks gets its job when the pause is over, and not before.
#[test]
fn who_waits_is_served_at_the_end() {
    for end in ["RESUME", "time", "group"] {
        let mut q = queue("");
        q.may_block = true;
        q.cmd("RQ.PUSH x GROUP g");
        q.cmd(match end { "time" => "RQ.PAUSE FOR 500", "group" => "RQ.PAUSE GROUP g FOR 500", _ => "RQ.PAUSE" });
        assert_eq!(q.execute("RQ.LEASE", &[b"w", b"BLOCK", b"0"]).unwrap(), support::Reply::Wait(None));
        assert!(!q.queue.as_ref().unwrap().may_lease(q.now));
        assert!(q.grant().is_none());
        match end {
            "RESUME" => drop(q.cmd("RQ.RESUME")),
            _ => {
                q.at(next_event(&q).unwrap());
                q.pass(0);
            }
        }
        assert!(q.queue.as_ref().unwrap().may_lease(q.now), "{end}");
        let reply = q.grant().unwrap();
        assert_eq!(at(at(&reply, 0), 3), &bulk("x"));
    }
}
