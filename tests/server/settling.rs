//! RQ.ACK, RQ.NACK, RQ.RELEASE and RQ.EXTEND: their codes, options and refusals. What an old
//! token is good for is in `tokens.rs`.

use crate::harness::{stock, Scene};

/// A queue with long leases and retries.
fn scene() -> Scene {
    let s = Scene::new();
    s.run("RQ.CREATE q LEASE 7200000 BACKOFF 7200000 7200000 JITTER none");
    s
}

#[test]
fn ack_finishes_each_pair_for_itself() {
    let s = scene();
    s.run("RQ.MPUSH q 3 a b c");
    let jobs = s.lease("q w COUNT 3");
    let codes = s.codes(format!("RQ.ACK q {} {} 1 1700000000000-0 1 {}", jobs[0], jobs[1].id, jobs[2]));
    assert_eq!(codes, [1, 0, -1, 1]);
    assert_eq!(s.codes(format!("RQ.ACK q {0} {1} {1}", jobs[0], jobs[1])), [-1, 1, -1], "one pair twice");
    assert_eq!(s.info("q").ints(["length", "acked-total"]), [0, 3]);
    s.verify();
}

#[test]
fn settling_on_nothing_is_minus_one_for_each_pair() {
    let s = scene();
    for key in ["absent", "q"] {
        for verb in ["ACK", "NACK", "RELEASE", "EXTEND"] {
            let codes = s.unchanged(|| s.codes(format!("RQ.{verb} {key} 1700000000000-0 1 1700000000000-1 2")));
            assert_eq!(codes, [-1, -1], "{verb} {key}");
        }
    }
    assert_eq!(s.run("EXISTS absent"), 0);
    s.verify();
}

#[test]
fn waiting_jobs_that_were_never_leased_are_nobodys() {
    let s = Scene::new();
    let q = stock(&s, "q");
    for verb in ["ACK", "NACK", "RELEASE", "EXTEND"] {
        let line = format!("RQ.{verb} q {} 0 {} 0 {} 5", q.ready, q.scheduled, q.leased.id);
        assert_eq!(s.unchanged(|| s.codes(&line)), [0, 0, 0], "{line}");
    }
    s.verify();
}

#[test]
fn nack_waits_by_the_backoff_and_keeps_the_error() {
    let s = scene();
    s.push("q x");
    let job = s.lease_one("q w");
    assert_eq!(s.codes(format!("RQ.NACK q {job} ERROR timeout")), [1]);
    let seen = s.job("q", &job.id);
    assert_eq!(seen["state"], "delayed");
    assert_eq!(seen["error"], "timeout");
    assert_eq!(seen.ints(["failures", "deliveries", "expiries"]), [1, 1, 0]);
    assert!(seen.int("due-at") >= seen.int("last-delivered-at") + 7_200_000);
    assert_eq!(s.info("q").ints(["scheduled", "retrying", "failed-total"]), [0, 1, 1]);
    s.verify();
}

#[test]
fn nack_with_delay_overrides_the_backoff() {
    let mut s = scene();
    s.run("RQ.MPUSH q 2 now later");
    let jobs = s.lease("q w COUNT 2");
    assert_eq!(s.codes(format!("RQ.NACK q {} DELAY 0", jobs[0])), [1]);
    assert_eq!(s.state("q", &jobs[0].id), "ready");
    assert_eq!(s.codes(format!("RQ.NACK q {} DELAY 3600000", jobs[1])), [1]);
    assert_eq!(s.state("q", &jobs[1].id), "delayed");
    assert_eq!(s.lease_one("q w").deliveries, 2);
    assert!(s.lease("q w").is_empty());
    s.advance(3_700_000);
    assert_eq!(s.lease_one("q w").text(), "later");
    s.verify();
}

#[test]
fn nack_dead_goes_to_dead_at_once() {
    let s = scene();
    s.run("RQ.MPUSH q 2 a b");
    let jobs = s.lease("q w COUNT 2");
    assert_eq!(s.codes(format!("RQ.NACK q {} {} ERROR no-such-user DEAD", jobs[0], jobs[1])), [2, 2]);
    let seen = s.job("q", &jobs[0].id);
    assert_eq!(seen["state"], "dead");
    assert_eq!(seen["reason"], "rejected");
    assert_eq!(seen["error"], "no-such-user");
    assert_eq!(seen["consumer"], "w");
    assert_eq!(s.info("q").ints(["dead", "dead-rejected", "dead-total", "length"]), [2, 2, 2, 0]);
    s.verify();
}

#[test]
fn an_error_is_cut_at_1024_bytes() {
    let s = scene();
    s.run("RQ.MPUSH q 2 a b");
    let jobs = s.lease("q w COUNT 2");
    let text = "e".repeat(1024);
    assert_eq!(s.codes(format!("RQ.NACK q {} ERROR {text}", jobs[0])), [1]);
    assert_eq!(s.codes(format!("RQ.NACK q {} ERROR {text}{text}", jobs[1])), [1]);
    for job in &jobs {
        assert_eq!(s.job("q", &job.id)["error"], text);
    }
    s.verify();
}

#[test]
fn release_gives_the_delivery_back() {
    let s = scene();
    s.push("q x MAXDELIVERIES 1");
    for round in 1..=5 {
        let job = s.lease_one("q w");
        assert_eq!(job.deliveries, 1, "round {round}");
        assert_eq!(s.codes(format!("RQ.RELEASE q {job}")), [1]);
        let seen = s.job("q", &job.id);
        assert_eq!(seen["state"], "ready");
        assert_eq!(seen.ints(["deliveries", "total-deliveries", "failures", "releases"]), [0, 0, 0, round]);
    }
    assert_eq!(s.info("q").ints(["released-total", "delivered-total", "dead"]), [5, 5, 0]);
    s.verify();
}

#[test]
fn release_with_delay_waits() {
    let mut s = scene();
    let id = s.push("q x");
    let job = s.lease_one("q w");
    assert_eq!(s.codes(format!("RQ.RELEASE q {job} DELAY 3600000")), [1]);
    assert_eq!(s.state("q", &id), "delayed");
    assert!(s.lease("q w").is_empty());
    s.advance(3_700_000);
    assert_eq!(s.lease_one("q w").deliveries, 1);
    s.verify();
}

#[test]
fn release_of_a_consumer_gives_back_all_it_holds() {
    let s = scene();
    s.run("RQ.MPUSH q 5 a b c d e");
    s.lease("q one COUNT 3");
    s.lease("q two COUNT 2");
    assert_eq!(s.run("RQ.RELEASE q CONSUMER one"), 3);
    assert_eq!(s.info("q").ints(["ready", "leased", "released-total"]), [3, 2, 3]);
    assert_eq!(s.unchanged(|| s.run("RQ.RELEASE q CONSUMER one")), 0);
    assert_eq!(s.unchanged(|| s.run("RQ.RELEASE q CONSUMER nobody")), 0);
    assert_eq!(s.unchanged(|| s.run("RQ.RELEASE absent CONSUMER one")), 0);
    assert_eq!(s.lease_order("q").concat(), "abc", "they have their old places");
    s.verify();
}

#[test]
fn extend_moves_the_deadline() {
    let mut s = scene();
    s.push("q x");
    let job = s.lease_one("q w LEASE 3600000");
    s.advance(1_800_000);
    let before = s.now();
    assert_eq!(s.codes(format!("RQ.EXTEND q {job}")), [1]);
    let deadline = s.job("q", &job.id).int("deadline");
    assert!((before + 3_600_000 - 1..before + 4_200_000).contains(&deadline), "as long as it was given");
    assert_eq!(s.codes(format!("RQ.EXTEND q {job} LEASE 10800000")), [1]);
    let longer = s.job("q", &job.id).int("deadline");
    assert!(longer >= before + 10_800_000 - 1, "{longer}");
    assert_eq!(s.codes(format!("RQ.EXTEND q {job} LEASE 1800000")), [1]);
    assert!(s.job("q", &job.id).int("deadline") < longer, "it may be shorter too");
    let seen = s.job("q", &job.id);
    assert_eq!(seen.ints(["deliveries", "token", "expiries"]), [1, job.token, 0], "no delivery, no new token");
    s.advance(1_000_000);
    assert_eq!(s.state("q", &job.id), "leased");
    assert_eq!(s.codes(format!("RQ.ACK q {job}")), [1]);
    s.verify();
}

#[test]
fn maxrun_bounds_what_extend_can_do() {
    let mut s = Scene::new();
    s.run("RQ.CREATE q LEASE 3600000 MAXRUN 7200000");
    s.push("q x");
    let job = s.lease_one("q w");
    let delivered = s.job("q", &job.id).int("last-delivered-at");
    s.advance(1_800_000);
    assert_eq!(s.codes(format!("RQ.EXTEND q {job}")), [1]);
    s.advance(3_000_000);
    assert_eq!(s.codes(format!("RQ.EXTEND q {job}")), [1]);
    assert_eq!(s.job("q", &job.id).int("deadline"), delivered + 7_200_000, "cut to it");
    assert_eq!(s.codes(format!("RQ.EXTEND q {job} LEASE 36000000")), [1]);
    assert_eq!(s.job("q", &job.id).int("deadline"), delivered + 7_200_000);
    s.advance(3_000_000);
    assert_eq!(s.codes(format!("RQ.EXTEND q {job}")), [0], "past it");
    assert_eq!(s.state("q", &job.id), "ready");
    s.verify();
}

#[test]
fn refusals() {
    let s = Scene::new();
    let q = stock(&s, "q");
    s.run("SET text x");
    for verb in ["ACK", "NACK", "RELEASE", "EXTEND"] {
        for (arguments, error) in [
            ("q", "ERR wrong number of arguments".to_owned()),
            ("text 1700000000000-0 1", "WRONGTYPE ".to_owned()),
            (&format!("q {}", q.leased.id), "ERR wrong number of arguments".to_owned()),
            (&format!("q {} {}", q.leased, q.ready), "ERR syntax error: the job id needs a value".to_owned()),
            ("q 1700000000000 1", "ERR \"1700000000000\" is not a job id".to_owned()),
            ("q 01-0 1", "ERR \"01-0\" is not a job id".to_owned()),
            (&format!("q {} x", q.leased.id), "ERR the token must be an integer from 0 to".to_owned()),
            (&format!("q {} 9007199254740992", q.leased.id), "ERR the token must be an integer from 0 to".to_owned()),
            (&format!("q {} FROB 1", q.leased), "ERR syntax error: unknown or misplaced option \"FROB\"".to_owned()),
            // The first pair is right, and yet nothing happens.
            (&format!("q {} 1-x 5", q.leased), "ERR syntax error: unknown or misplaced option \"1-x\"".to_owned()),
        ] {
            s.refused(format!("RQ.{verb} {arguments}"), &error);
        }
    }
    let leased = &q.leased;
    for (line, error) in [
        (format!("RQ.NACK q {leased} DELAY -1"), "ERR DELAY must be an integer from 0 to 315360000000, not \"-1\""),
        (format!("RQ.NACK q {leased} DELAY 1 DEAD"), "ERR syntax error: DEAD was given twice, or beside"),
        (format!("RQ.NACK q {leased} ERROR"), "ERR syntax error: ERROR needs a value"),
        (format!("RQ.NACK q {leased} ERROR a ERROR b"), "ERR syntax error: ERROR was given twice"),
        (format!("RQ.RELEASE q {leased} DELAY x"), "ERR DELAY must be an integer"),
        (format!("RQ.RELEASE q {leased} CONSUMER w"), "ERR syntax error: unknown or misplaced option"),
        ("RQ.RELEASE q CONSUMER w x".to_owned(), "ERR syntax error: unknown or misplaced option"),
        ("RQ.RELEASE text CONSUMER w".to_owned(), "WRONGTYPE "),
        (format!("RQ.EXTEND q {leased} LEASE 0"), "ERR LEASE must be an integer from 1 to 31536000000, not \"0\""),
        (format!("RQ.EXTEND q {leased} LEASE 31536000001"), "ERR LEASE must be an integer"),
    ] {
        s.refused(line, error);
    }
    s.verify();
}
