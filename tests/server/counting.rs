//! What is counted at a delivery, what spends which budget, when a job is dead and why. Cases
//! B09, B12, B13, B15.

use crate::harness::{wait_until, Scene};

/// A scene with a queue of long leases, and retries at once.
fn scene(options: &str) -> Scene {
    let s = Scene::new();
    s.run(format!("RQ.CREATE q LEASE 7200000 BACKOFF 0 0 {options}"));
    s
}

/// Leases the one job of the queue and lets its worker vanish.
#[track_caller]
fn crash(s: &Scene, delivery: i64) -> String {
    let job = s.lease_one("q crasher");
    assert_eq!(job.deliveries, delivery);
    let reaped = s.run(format!("RQ.REAP q ID {}", job.id));
    reaped.array()[0].array()[1].text().to_owned()
}

#[test]
fn b13_the_count_rises_at_delivery_without_any_nack() {
    let s = scene("");
    let id = s.push("q x");
    for n in 1..=4 {
        assert_eq!(crash(&s, n), "ready");
        let seen = s.job("q", &id);
        assert_eq!(seen.ints(["deliveries", "total-deliveries", "expiries", "failures"]), [n, n, n, 0]);
    }
    assert_eq!(s.info("q").ints(["delivered-total", "expired-total"]), [4, 4]);
    s.verify();
}

#[test]
fn b13_the_count_survives_everything() {
    let mut s = scene("MAXEXPIRIES 0");
    let id = s.push("q x");
    crash(&s, 1);
    crash(&s, 2);
    let job = s.lease_one("q w");
    s.codes(format!("RQ.EXTEND q {job}"));
    s.check();
    assert_eq!(s.job("q", &id).int("deliveries"), 3);
    let dump = s.run("DUMP q").bytes().to_vec();
    s.run("DEL q");
    s.cmd(&[b"RESTORE", b"q".as_slice(), b"0", &dump]);
    assert_eq!(s.job("q", &id).ints(["deliveries", "token"]), [3, job.token]);
    s.advance(7_300_000);
    assert_eq!(s.lease_one("q other").deliveries, 4);
    s.verify();
}

#[test]
fn b13_any_error_text_is_accepted() {
    let s = scene("");
    for text in [b"nul\0byte".to_vec(), vec![0xff; 8], vec![b'x'; 1 << 20], b"\r\n$-1\r\n".to_vec(), Vec::new()] {
        s.push("q x");
        let job = s.lease_one("q w");
        let token = job.token.to_string();
        let reply = s.cmd(&[b"RQ.NACK", b"q".as_slice(), job.id.as_bytes(), token.as_bytes(), b"DEAD", b"ERROR", &text]);
        assert_eq!(reply.ints(), [2]);
        let kept = &text[..text.len().min(1024)];
        let seen = s.job("q", &job.id);
        match seen.get("error") {
            Some(error) => assert_eq!(error.bytes(), kept),
            None => assert!(kept.is_empty()),
        }
    }
    s.verify();
}

#[test]
fn failed_when_nack_spends_the_last_delivery() {
    let s = scene("MAXDELIVERIES 3");
    let id = s.push("q x");
    for n in 1..=3 {
        let job = s.lease_one(format!("q w{n}"));
        assert_eq!(job.deliveries, n);
        let code = s.codes(format!("RQ.NACK q {job} ERROR e{n}"));
        assert_eq!(code, [if n < 3 { 1 } else { 2 }]);
    }
    let seen = s.job("q", &id);
    assert_eq!(seen["state"], "dead");
    assert_eq!(seen["reason"], "failed");
    assert_eq!(seen["error"], "e3");
    assert_eq!(seen["consumer"], "w3");
    assert_eq!(seen.ints(["deliveries", "total-deliveries", "failures", "expiries", "max-deliveries"]), [3, 3, 3, 0, 3]);
    assert!(seen.int("first-delivered-at") <= seen.int("last-delivered-at"));
    assert!(seen.int("dead-at") >= seen.int("last-delivered-at"));
    let info = s.info("q");
    assert_eq!(info.ints(["dead", "dead-failed", "dead-expired-lease", "dead-rejected", "dead-ttl"]), [1, 1, 0, 0, 0]);
    assert_eq!(info.ints(["failed-total", "dead-total", "length", "dead-bytes"]), [3, 1, 0, 1]);
    s.verify();
}

#[test]
fn expired_lease_when_the_worker_vanished_with_the_last_delivery() {
    for (options, limit) in [("MAXDELIVERIES 2 MAXEXPIRIES 0", 2), ("MAXDELIVERIES 0 MAXEXPIRIES 3", 3), ("", 5)] {
        let s = scene(options);
        let id = s.push("q x");
        for n in 1..=limit {
            assert_eq!(crash(&s, n), if n < limit { "ready" } else { "dead" }, "{options}");
        }
        let seen = s.job("q", &id);
        assert_eq!(seen["reason"], "expired-lease");
        assert_eq!(seen.ints(["deliveries", "expiries", "failures"]), [limit, limit, 0]);
        assert_eq!(s.info("q").int("dead-expired-lease"), 1);
        assert!(s.lease("q w").is_empty());
        s.verify();
    }
}

#[test]
fn by_default_twenty_failures_are_the_end() {
    let s = scene("");
    s.push("q x");
    for n in 1..=20 {
        let job = s.lease_one("q w");
        assert_eq!(s.codes(format!("RQ.NACK q {job}")), [if n < 20 { 1 } else { 2 }], "delivery {n}");
    }
    s.verify();
}

#[test]
fn b15_which_end_spends_which_budget() {
    // (the options, how each delivery ends, the state after each)
    for (options, ends) in [
        ("MAXDELIVERIES 3 MAXEXPIRIES 2", vec![("crash", "ready"), ("nack", "ready"), ("crash", "dead")]),
        ("MAXDELIVERIES 3 MAXEXPIRIES 2", vec![("crash", "ready"), ("crash", "dead")]),
        ("MAXDELIVERIES 3 MAXEXPIRIES 2", vec![("nack", "ready"), ("nack", "ready"), ("crash", "dead")]),
        ("MAXDELIVERIES 2 MAXEXPIRIES 1", vec![("release", "ready"), ("release", "ready"), ("nack", "ready"), ("nack", "dead")]),
        ("MAXDELIVERIES 0 MAXEXPIRIES 1", vec![("nack", "ready"), ("nack", "ready"), ("nack", "ready"), ("crash", "dead")]),
        ("MAXDELIVERIES 0 MAXEXPIRIES 0", vec![("crash", "ready"), ("nack", "ready"), ("crash", "ready"), ("nack", "ready")]),
    ] {
        let s = scene(options);
        let id = s.push("q x");
        for (n, (end, state)) in ends.iter().enumerate() {
            let job = s.lease_one("q w");
            match *end {
                "crash" => s.run(format!("RQ.REAP q ID {id}")),
                "nack" => s.run(format!("RQ.NACK q {job}")),
                _ => s.run(format!("RQ.RELEASE q {job}")),
            };
            assert_eq!(s.state("q", &id), *state, "{options}, {ends:?}, step {n}");
        }
        s.verify();
    }
}

#[test]
fn a_jobs_own_maxdeliveries_stands_before_the_queues() {
    let s = scene("MAXDELIVERIES 2");
    for (own, deliveries) in [("MAXDELIVERIES 1", 1), ("MAXDELIVERIES 4", 4), ("", 2)] {
        let id = s.push(format!("q x {own}"));
        for n in 1..=deliveries {
            let job = s.lease_one("q w");
            assert_eq!(s.codes(format!("RQ.NACK q {job}")), [if n < deliveries { 1 } else { 2 }], "{own}");
        }
        assert_eq!(s.state("q", &id), "dead");
    }
    s.push("q x MAXDELIVERIES 0");
    for _ in 0..30 {
        let job = s.lease_one("q w");
        assert_eq!(s.codes(format!("RQ.NACK q {job}")), [1]);
    }
    s.verify();
}

#[test]
fn the_policy_is_read_when_it_is_used() {
    let s = scene("");
    s.push("q x");
    let job = s.lease_one("q w");
    s.run("RQ.ALTER q MAXDELIVERIES 1");
    assert_eq!(s.codes(format!("RQ.NACK q {job}")), [2]);
    s.verify();
}

#[test]
fn b09_a_late_ack_of_the_last_delivery_is_accepted() {
    let mut s = scene("MAXDELIVERIES 1");
    let id = s.push("q x");
    let job = s.lease_one("q first");
    s.advance(3_000_000);
    s.codes(format!("RQ.EXTEND q {job}"));
    s.advance(7_000_000);
    assert_eq!(s.job("q", &id).int("deliveries"), 1, "extending is no delivery");
    s.codes(format!("RQ.EXTEND q {job}"));
    s.advance(7_300_000);
    assert!(s.lease("q second").is_empty(), "it is not delivered again");
    let seen = s.job("q", &id);
    assert_eq!(seen["state"], "dead");
    assert_eq!(seen["reason"], "expired-lease");
    assert_eq!(s.codes(format!("RQ.ACK q {job}")), [1]);
    assert_eq!(s.state("q", &id), "gone");
    s.verify();
}

#[test]
fn b12_a_poison_job_dies_alone() {
    let s = scene("MAXDELIVERIES 3");
    let poison = s.push("q poison");
    for n in 0..100 {
        s.push(format!("q good{n}"));
    }
    let mut finished = 0;
    let mut crashes = 0;
    let mut leases = 0;
    loop {
        let worker = s.client();
        let Some(job) = worker.lease("q w").pop() else { break };
        leases += 1;
        if job.text() == "poison" {
            crashes += 1;
            assert_eq!(job.deliveries, crashes);
            worker.reset();
            s.run(format!("RQ.REAP q ID {}", job.id));
        } else {
            assert_eq!(worker.codes(format!("RQ.ACK q {job}")), [1]);
            finished += 1;
        }
    }
    assert_eq!((finished, crashes, leases), (100, 3, 103), "one slot for each of its deliveries");
    let seen = s.job("q", &poison);
    assert_eq!(seen["reason"], "expired-lease");
    assert_eq!(seen.int("deliveries"), 3);
    s.verify();
}

#[test]
fn ttl_ends_what_waits_too_long() {
    let mut s = scene("");
    let waiting = s.push("q waiting TTL 3600000");
    let delayed = s.push("q delayed TTL 3600000 DELAY 3600000");
    let plain = s.push("q plain");
    s.advance(3_700_000);
    wait_until("the end of its time", || s.state("q", &waiting) == "dead");
    let seen = s.job("q", &waiting);
    assert_eq!(seen["reason"], "ttl");
    assert_eq!(seen.ints(["deliveries", "expiries", "failures"]), [0, 0, 0]);
    wait_until("the first due time", || s.state("q", &delayed) == "ready");
    s.advance(3_700_000);
    wait_until("the end of its time", || s.state("q", &delayed) == "dead");
    assert_eq!(s.state("q", &plain), "ready");
    assert_eq!(s.info("q").ints(["dead-ttl", "dead", "ready"]), [2, 2, 1]);
    s.verify();
}

#[test]
fn ttl_does_not_yank_a_leased_job_but_ends_its_retry() {
    let mut s = scene("");
    s.push("q done TTL 3600000");
    s.push("q retried TTL 3600000");
    let jobs = s.lease("q w COUNT 2");
    s.advance(3_700_000);
    assert_eq!(s.codes(format!("RQ.EXTEND q {}", jobs[1])), [1]);
    assert_eq!(s.state("q", &jobs[0].id), "leased");
    assert_eq!(s.codes(format!("RQ.ACK q {}", jobs[0])), [1]);
    s.codes(format!("RQ.NACK q {}", jobs[1]));
    assert!(s.lease("q w").is_empty(), "a retry that comes too late is not delivered");
    wait_until("the end of its time", || s.state("q", &jobs[1].id) == "dead");
    assert_eq!(s.job("q", &jobs[1].id)["reason"], "ttl");
    s.verify();
}

#[test]
fn expirybackoff_lets_an_expired_job_wait() {
    let mut s = Scene::new();
    s.run("RQ.CREATE q LEASE 7200000 BACKOFF 3600000 7200000 JITTER none EXPIRYBACKOFF yes");
    let id = s.push("q x");
    let mut wait_before = 0;
    for n in 1..=3 {
        let job = s.lease_one("q w");
        let reaped = s.run(format!("RQ.REAP q ID {}", job.id));
        assert_eq!(reaped.array()[0].array()[1], "delayed");
        let wait = s.job("q", &id).int("due-at") - s.now();
        let expected = [3_600_000, 7_200_000, 7_200_000][n - 1];
        assert!((expected - 600_000..=expected + 1).contains(&wait) && wait >= wait_before, "expiry {n}: {wait}");
        wait_before = wait - 600_000;
        s.advance(7_300_000);
    }
    s.run("RQ.ALTER q EXPIRYBACKOFF no");
    let job = s.lease_one("q w");
    let reaped = s.run(format!("RQ.REAP q ID {}", job.id));
    assert_eq!(reaped.array()[0].array()[1], "ready");
    s.verify();
}
