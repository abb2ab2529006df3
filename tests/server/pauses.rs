//! RQ.PAUSE and RQ.RESUME: of a queue, in and out, and of a group. Case B67; what a paused queue does with all that comes
//! back to it is in `paused_paths.rs`.

use crate::harness::{block, jobs, wait_until, Client, Scene, Server, Stop};

#[track_caller]
fn woken(worker: &Client) -> String {
    let jobs = jobs(&worker.reply());
    assert_eq!(jobs.len(), 1);
    jobs[0].text()
}

const WAIT: &str = "RQ.LEASE q w BLOCK 0 LEASE 36000000";
const HOUR: i64 = 3_600_000;

#[test]
fn b67_out_nothing_is_leased_and_all_else_goes_on() {
    let mut s = Scene::new();
    s.run("RQ.CREATE q LEASE 3600000 BACKOFF 36000000 36000000 JITTER none KEEPDONE 10");
    s.run("RQ.MPUSH q 6 a b c d e f");
    let held = s.lease("q w COUNT 5");
    assert_eq!(s.run("RQ.PAUSE q REASON maintenance"), 0, "no end");
    assert!(s.unchanged(|| s.lease("q w").is_empty()));
    let info = s.info("q");
    assert_eq!((info["held"].text(), info["paused-out-reason"].text()), ("paused", "maintenance"));
    assert_eq!(info["paused-out"], 0);
    assert!(info.get("paused-in").is_none());
    // Workers may always settle and extend; pushes are taken.
    assert_eq!(s.codes(format!("RQ.ACK q {}", held[0])), [1]);
    assert_eq!(s.codes(format!("RQ.NACK q {}", held[1])), [1]);
    assert_eq!(s.codes(format!("RQ.RELEASE q {}", held[2])), [1]);
    assert_eq!(s.codes(format!("RQ.EXTEND q {} LEASE 36000000", held[3])), [1]);
    s.push("q g");
    let reply = s.run(format!("RQ.ACKLEASE q {} w", held[3]));
    assert_eq!(reply.array()[0], 1);
    assert!(reply.array()[1].is_null());
    // Leases go on expiring.
    s.advance(HOUR + 1);
    wait_until("the expiry", || s.run("RQ.LEN q LEASED") == 0);
    let worker = block(&s, WAIT);
    s.check();
    assert!(!worker.has_reply());
    assert_eq!(s.run("RQ.RESUME q"), 1);
    assert_eq!(woken(&worker), "c");
    assert_eq!(s.run("RQ.RESUME q"), 0);
    assert_eq!(s.lease_order("q"), ["e", "f", "g"]);
    s.verify();
}

#[test]
fn in_pushes_are_refused() {
    let s = Scene::new();
    s.run("RQ.CREATE q LEASE 36000000 MAXEXPIRIES 1");
    s.run("RQ.PUSH q a DEDUP k");
    let job = s.lease_one("q w");
    assert_eq!(s.run("RQ.PUSH q held DEDUP k KEEPLAST").array()[1], 3);
    s.run("RQ.PAUSE q IN REASON drain");
    let text = "PAUSED the queue takes no jobs until RQ.RESUME IN, the reason given being \"drain\": push again later";
    s.refused("RQ.PUSH q b", text);
    s.refused("RQ.MPUSH q 2 b c", text);
    s.refused("RQ.PUSH q b DEDUP k KEEPLAST", "PAUSED ");
    assert_eq!((s.info("q")["paused-in"].int(), s.info("q")["paused-in-reason"].text()), (0, "drain"));
    // What returns always fits.
    s.run(format!("RQ.REAP q ID {}", job.id));
    assert_eq!(s.state("q", &job.id), "dead");
    assert_eq!(s.peek("q", "READY"), ["held"]);
    let held = s.lease_one("q w");
    s.codes(format!("RQ.ACK q {held}"));
    assert_eq!(s.codes(format!("RQ.REDRIVE q {}", job.id)), [1]);
    assert_eq!(s.lease_one("q w").text(), "a", "leasing goes on");
    let until = s.run("RQ.PAUSE q IN FOR 36000000");
    assert_eq!(until, 0, "a pause without end does not get one");
    s.check();
    assert_eq!(s.run("RQ.RESUME q OUT"), 0);
    assert_eq!(s.run("RQ.RESUME q IN"), 1);
    s.push("q b");
    let until = s.run("RQ.PAUSE q IN FOR 36000000").int();
    s.refused("RQ.PUSH q c", &format!("PAUSED the queue takes no jobs until {until} (Unix ms): push again later"));
    s.verify();
}

#[test]
fn the_end_of_a_pause_wakes_blocked_workers() {
    let mut s = Scene::new();
    s.run("RQ.MPUSH q 3 a b c GROUP g");
    let before = s.now();
    let until = s.run("RQ.PAUSE q FOR 3600000").int();
    assert!(until >= before - 1 + HOUR);
    let workers = [block(&s, WAIT), block(&s, WAIT), block(&s, WAIT)];
    s.check();
    s.advance(HOUR);
    for (worker, payload) in workers.iter().zip(["a", "b", "c"]) {
        assert_eq!(woken(worker), payload);
    }
    assert!(s.info("q").get("paused-out").is_none());
    s.run("RQ.PAUSE q IN FOR 3600000");
    s.advance(HOUR);
    s.push("q d");
    s.verify();
}

#[test]
fn the_end_of_a_pause_in_real_time() {
    let s = Scene::new();
    s.run("RQ.MPUSH q 2 a b GROUP g");
    let until = s.run("RQ.PAUSE q FOR 300").int();
    let worker = block(&s, WAIT);
    let job = jobs(&worker.reply()).remove(0);
    let late = s.job("q", &job.id).int("last-delivered-at") - until;
    assert!((0..10_000).contains(&late), "{late} ms late");
    let until = s.run("RQ.PAUSE q GROUP g FOR 300").int();
    let worker = block(&s, WAIT);
    let job = jobs(&worker.reply()).remove(0);
    let late = s.job("q", &job.id).int("last-delivered-at") - until;
    assert!((0..10_000).contains(&late), "{late} ms late");
    s.verify();
}

#[test]
fn a_pause_never_gets_shorter() {
    let s = Scene::new();
    s.run("RQ.CREATE q");
    for side in ["OUT", "IN", "GROUP g"] {
        let long = s.run(format!("RQ.PAUSE q {side} FOR 7200000 REASON first")).int();
        assert_eq!(s.unchanged(|| s.run(format!("RQ.PAUSE q {side} FOR 3600000"))), long, "{side}");
        let longer = s.run(format!("RQ.PAUSE q {side} FOR 10000000")).int();
        assert!(longer > long, "{side}");
        assert_eq!(s.run(format!("RQ.PAUSE q {side}")), 0, "{side}");
        assert_eq!(s.unchanged(|| s.run(format!("RQ.PAUSE q {side} FOR 36000000"))), 0, "{side}");
        assert_eq!(s.run(format!("RQ.RESUME q {side}")), 1, "{side}");
    }
    s.verify();
}

#[test]
fn b67_a_group_is_paused_and_the_others_go_on() {
    let mut s = Scene::new();
    s.run("RQ.MPUSH q 2 a0 a1 GROUP a");
    s.run("RQ.MPUSH q 2 b0 b1 GROUP b");
    s.push("q n");
    assert_eq!(s.run("RQ.PAUSE q GROUP a FOR 3600000").int() / HOUR, (s.now() + HOUR) / HOUR);
    s.run("RQ.PAUSE q OUT GROUP b");
    assert_eq!(s.lease_one("q w LEASE 36000000").text(), "n");
    assert_eq!(s.info("q")["held"], "groups");
    let workers = [block(&s, WAIT), block(&s, WAIT)];
    // Also a group that has no jobs yet.
    s.run("RQ.PAUSE q GROUP c");
    s.push("q c0 GROUP c");
    s.check();
    assert!(workers.iter().all(|worker| !worker.has_reply()));
    assert_eq!(s.run("RQ.RESUME q GROUP b"), 1);
    assert_eq!((woken(&workers[0]), woken(&workers[1])), ("b0".into(), "b1".into()));
    let workers = [block(&s, WAIT), block(&s, WAIT)];
    s.advance(HOUR);
    assert_eq!((woken(&workers[0]), woken(&workers[1])), ("a0".into(), "a1".into()));
    assert_eq!(s.run("RQ.RESUME q GROUP a"), 0);
    assert_eq!(s.run("RQ.RESUME q GROUP c"), 1);
    assert_eq!(s.lease_order("q"), ["c0"]);
    s.verify();
}

#[test]
fn b67_a_pause_makes_the_queue_and_resume_does_not() {
    let s = Scene::new();
    assert_eq!(s.run("RQ.RESUME q"), 0);
    assert_eq!(s.run("EXISTS q"), 0);
    s.run("RQ.PAUSE q IN");
    s.refused("RQ.PUSH q x", "PAUSED ");
    assert_eq!(s.run("RQ.RESUME q IN"), 1);
    assert_eq!(s.run("EXISTS q"), 1, "resumed, it stays");
    // An empty queue, and an absent one for which somebody waits already.
    for key in ["q", "absent"] {
        let worker = block(&s, &format!("RQ.LEASE {key} w BLOCK 0 LEASE 36000000"));
        s.run(format!("RQ.PAUSE {key}"));
        s.push(format!("{key} x"));
        s.check();
        assert!(!worker.has_reply(), "{key}");
        assert_eq!(s.run(format!("RQ.RESUME {key}")), 1);
        assert_eq!(woken(&worker), "x");
    }
    s.verify();
}

#[test]
fn in_transactions_and_by_scripts() {
    let s = Scene::new();
    s.push("q x");
    let replies = s.multi(&["RQ.PAUSE q", "RQ.LEASE q w", "RQ.RESUME q", "RQ.LEASE q w"]);
    assert!(replies[1].is_null());
    assert_eq!(jobs(&replies[3]).len(), 1);
    s.cmd(&["EVAL", "return redis.call('RQ.PAUSE', KEYS[1], 'IN')", "1", "q"]);
    s.refused("RQ.PUSH q x", "PAUSED ");
    s.verify();
}

#[test]
fn refusals_change_nothing() {
    let s = Scene::new();
    s.push("q x");
    s.run("SET text x");
    for (options, error) in [
        ("FOR", "ERR syntax error: FOR needs a value after it"),
        ("FOR 0", "ERR FOR must be an integer from 1 to 315360000000, not \"0\""),
        ("FOR x", "ERR FOR must be an integer from 1 to 315360000000, not \"x\""),
        // One of the two is named.
        ("IN OUT", "ERR syntax error: "),
        ("IN GROUP g", "ERR syntax error: "),
        ("GROUP g GROUP g", "ERR syntax error: GROUP was given twice"),
        ("GROUP", "ERR syntax error: GROUP needs a value after it"),
        ("REASON", "ERR syntax error: REASON needs a value after it"),
        ("FOREVER", "ERR syntax error: unknown or misplaced option \"FOREVER\""),
    ] {
        s.refused(format!("RQ.PAUSE q {options}"), error);
        s.refused(format!("RQ.PAUSE new {options}"), error);
    }
    s.refused("RQ.RESUME q FOR 5", "ERR syntax error: RQ.RESUME takes OUT, IN or GROUP only");
    s.refused("RQ.RESUME q REASON x", "ERR syntax error: RQ.RESUME takes OUT, IN or GROUP only");
    s.refused("RQ.PAUSE text", "WRONGTYPE ");
    s.refused("RQ.RESUME text", "WRONGTYPE ");
    assert_eq!(s.run("EXISTS new"), 0);
    s.verify();
}

#[test]
fn b67_pauses_survive_a_crash_and_a_failover_and_end_there() {
    let mut server = Server::with(&["appendonly yes", "appendfsync always"]);
    server.run("RQ.MPUSH q 3 a b c GROUP g");
    let until = server.run("RQ.PAUSE q FOR 3600000 REASON why").int();
    server.run("RQ.PAUSE q IN FOR 10800000");
    server.run("RQ.PAUSE q GROUP g FOR 7200000");
    for _ in 0..2 {
        server.restart(Stop::Kill);
        assert_eq!(server.info("q").int("paused-out"), until);
        assert_eq!(server.info("q")["paused-out-reason"], "why");
        assert!(server.error("RQ.PUSH q x").starts_with("PAUSED "));
        server.rewrite_aof();
    }
    let mut replica = server.replica(&[]);
    replica.advance(2 * HOUR + 1);
    let worker = replica.client();
    replica.run("REPLICAOF NO ONE");
    worker.send_line(WAIT);
    assert_eq!(woken(&worker), "a", "by the new primary's timer");
    assert!(replica.error("RQ.PUSH q x").starts_with("PAUSED "));
    server.restart_later(2 * HOUR + 1);
    let worker = server.client();
    worker.send_line(WAIT);
    assert_eq!(woken(&worker), "a");
}
