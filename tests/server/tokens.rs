//! What a token is good for, line by line of the command reference: after expiry, after every
//! verb that spends it, after the next lease, after REDRIVE and DEL. Cases B06 and B07.

use crate::harness::{jobs, wait_until, Client, Job, Scene, Server};

const VERBS: [&str; 4] = ["ACK", "NACK", "RELEASE", "EXTEND"];

/// One job, leased; leases and retries are long.
fn leased() -> (Scene, Job) {
    let s = Scene::new();
    s.run("RQ.CREATE q LEASE 7200000 BACKOFF 7200000 7200000 JITTER none");
    s.push("q x");
    let job = s.lease_one("q late");
    (s, job)
}

/// One job whose lease has expired by the server's own timer.
fn expired() -> (Scene, Job) {
    let (mut s, job) = leased();
    s.advance(7_300_000);
    wait_until("the expiry", || s.state("q", &job.id) == "ready");
    let seen = s.job("q", &job.id);
    assert_eq!(seen.ints(["deliveries", "expiries", "token"]), [1, 1, job.token]);
    (s, job)
}

/// One job that died of an expiry.
fn dead_by_expiry() -> (Scene, Job) {
    let (mut s, job) = leased();
    s.run("RQ.ALTER q MAXEXPIRIES 1");
    s.advance(7_300_000);
    wait_until("the expiry", || s.state("q", &job.id) == "dead");
    assert_eq!(s.job("q", &job.id)["reason"], "expired-lease");
    (s, job)
}

/// All verbs that take a token are refused as not the caller's, and change nothing.
#[track_caller]
fn none_is_good(s: &Scene, job: &Job, code: i64, verbs: &[&str]) {
    for verb in verbs {
        assert_eq!(s.unchanged(|| s.codes(format!("RQ.{verb} q {job}"))), [code], "{verb}");
    }
}

/// The one code of a verb with the job's token.
#[track_caller]
fn code(c: &Client, verb: &str, job: &Job, options: &str) -> i64 {
    let codes = c.codes(format!("RQ.{verb} q {job} {options}"));
    assert_eq!(codes.len(), 1);
    codes[0]
}

#[test]
fn late_ack_finishes() {
    let (s, job) = expired();
    assert_eq!(code(&s, "ACK", &job, ""), 1);
    assert_eq!(s.state("q", &job.id), "gone");
    assert_eq!(s.info("q").ints(["acked-total", "expired-total", "length"]), [1, 1, 0]);
    none_is_good(&s, &job, -1, &VERBS);
    s.verify();
}

#[test]
fn late_ack_finishes_also_from_dead() {
    let (s, job) = dead_by_expiry();
    assert_eq!(code(&s, "ACK", &job, ""), 1);
    assert_eq!(s.info("q").ints(["acked-total", "dead", "dead-total"]), [1, 0, 1]);
    none_is_good(&s, &job, -1, &VERBS);
    s.verify();
}

#[test]
fn late_nack_counts_a_failure_but_no_second_delivery() {
    let (s, job) = expired();
    assert_eq!(code(&s, "NACK", &job, "ERROR late"), 1);
    let seen = s.job("q", &job.id);
    assert_eq!(seen["state"], "delayed");
    assert_eq!(seen["error"], "late");
    assert_eq!(seen.ints(["deliveries", "total-deliveries", "failures", "expiries"]), [1, 1, 1, 1]);
    // Spent like any other.
    assert_eq!(s.unchanged(|| code(&s, "NACK", &job, "ERROR again")), 1);
    none_is_good(&s, &job, 0, &["ACK", "RELEASE", "EXTEND"]);
    s.verify();
}

#[test]
fn late_nack_from_dead_keeps_the_error_and_the_reason() {
    let (s, job) = dead_by_expiry();
    assert_eq!(code(&s, "NACK", &job, "ERROR late"), 2);
    let seen = s.job("q", &job.id);
    assert_eq!(seen["state"], "dead");
    assert_eq!(seen["reason"], "expired-lease");
    assert_eq!(seen["error"], "late");
    assert_eq!(seen.ints(["deliveries", "expiries"]), [1, 1]);
    s.verify();
}

#[test]
fn late_release_gives_delivery_and_expiry_back() {
    let (s, job) = expired();
    assert_eq!(code(&s, "RELEASE", &job, ""), 1);
    let seen = s.job("q", &job.id);
    assert_eq!(seen["state"], "ready");
    assert_eq!(seen.ints(["deliveries", "total-deliveries", "expiries", "releases"]), [0, 0, 0, 1]);
    assert_eq!(s.unchanged(|| code(&s, "RELEASE", &job, "")), 1);
    none_is_good(&s, &job, 0, &["ACK", "NACK", "EXTEND"]);
    s.verify();
}

#[test]
fn late_extend_leases_it_again() {
    let (s, job) = expired();
    let before = s.now();
    assert_eq!(code(&s, "EXTEND", &job, ""), 1);
    let seen = s.job("q", &job.id);
    assert_eq!(seen["state"], "leased");
    assert_eq!(seen["consumer"], "late");
    assert_eq!(seen.ints(["deliveries", "expiries", "token"]), [1, 0, job.token]);
    assert!(seen.int("deadline") >= before + 7_200_000 - 1);
    assert!(s.lease("q other").is_empty());
    assert_eq!(code(&s, "ACK", &job, ""), 1);
    s.verify();
}

#[test]
fn from_dead_release_and_extend_give_0() {
    let (s, job) = dead_by_expiry();
    none_is_good(&s, &job, 0, &["RELEASE", "EXTEND"]);
    assert_eq!(code(&s, "ACK", &job, ""), 1, "they did not spend it");
    s.verify();
}

#[test]
fn the_expiry_that_was_not_processed_yet_counts_first() {
    // Past its deadline, with all in one MULTI: the tick cannot come between.
    let (mut s, job) = leased();
    s.advance(7_300_000);
    let replies = s.multi(&[format!("RQ.EXTEND q {job}"), format!("RQ.GET q {}", job.id), format!("RQ.ACK q {job}")]);
    assert_eq!(replies[0].ints(), [1]);
    assert_eq!(replies[1].fields()["state"], "leased");
    assert_eq!(replies[2].ints(), [1]);
    s.verify();
}

#[test]
fn the_next_lease_ends_it() {
    let (s, job) = expired();
    let next = s.lease_one("q other");
    assert_eq!((next.id.as_str(), next.deliveries), (job.id.as_str(), 2));
    assert!(next.token > job.token);
    let deadline = s.job("q", &job.id).int("deadline");
    none_is_good(&s, &job, 0, &VERBS);
    assert_eq!(s.unchanged(|| code(&s, "NACK", &job, "DEAD ERROR mine")), 0);
    assert_eq!(s.job("q", &job.id).int("deadline"), deadline);
    assert_eq!(code(&s, "ACK", &next, ""), 1);
    none_is_good(&s, &job, -1, &VERBS);
    s.verify();
}

#[test]
fn the_next_lease_ends_it_for_good() {
    // Also when that next lease is over and nobody has the job.
    let (s, job) = expired();
    let next = s.lease_one("q other");
    assert_eq!(code(&s, "RELEASE", &next, ""), 1);
    none_is_good(&s, &job, 0, &VERBS);
    s.verify();
}

#[test]
fn nack_spends_it() {
    let (mut s, job) = leased();
    assert_eq!(code(&s, "NACK", &job, "ERROR first"), 1);
    assert_eq!(s.unchanged(|| code(&s, "NACK", &job, "ERROR second DELAY 5")), 1, "a resent one");
    assert_eq!(s.job("q", &job.id)["error"], "first");
    none_is_good(&s, &job, 0, &["ACK", "RELEASE", "EXTEND"]);
    // Also once the job is ready again, until its next lease.
    s.advance(7_300_000);
    wait_until("the retry", || s.state("q", &job.id) == "ready");
    assert_eq!(s.unchanged(|| code(&s, "NACK", &job, "")), 1);
    none_is_good(&s, &job, 0, &["ACK", "RELEASE", "EXTEND"]);
    let next = s.lease_one("q other");
    none_is_good(&s, &job, 0, &VERBS);
    assert_eq!(code(&s, "ACK", &next, ""), 1);
    s.verify();
}

#[test]
fn nack_to_dead_spends_it() {
    let (s, job) = leased();
    assert_eq!(code(&s, "NACK", &job, "DEAD ERROR first"), 2);
    assert_eq!(s.unchanged(|| code(&s, "NACK", &job, "DEAD ERROR second")), 2);
    assert_eq!(s.unchanged(|| code(&s, "NACK", &job, "")), 2);
    assert_eq!(s.job("q", &job.id)["error"], "first");
    none_is_good(&s, &job, 0, &["ACK", "RELEASE", "EXTEND"]);
    s.verify();
}

#[test]
fn nack_that_spent_the_last_delivery_spends_it() {
    let (s, job) = leased();
    s.run("RQ.ALTER q MAXDELIVERIES 1");
    assert_eq!(code(&s, "NACK", &job, "ERROR first"), 2);
    assert_eq!(s.unchanged(|| code(&s, "NACK", &job, "ERROR second")), 2);
    none_is_good(&s, &job, 0, &["ACK", "RELEASE", "EXTEND"]);
    s.verify();
}

#[test]
fn release_spends_it() {
    for options in ["", "DELAY 3600000"] {
        let (s, job) = leased();
        assert_eq!(code(&s, "RELEASE", &job, options), 1);
        assert_eq!(s.unchanged(|| code(&s, "RELEASE", &job, options)), 1, "a resent one");
        none_is_good(&s, &job, 0, &["ACK", "NACK", "EXTEND"]);
        s.verify();
    }
}

#[test]
fn release_of_a_consumer_spends_it() {
    let (s, job) = leased();
    assert_eq!(s.run("RQ.RELEASE q CONSUMER late"), 1);
    assert_eq!(s.unchanged(|| code(&s, "RELEASE", &job, "")), 1);
    none_is_good(&s, &job, 0, &["ACK", "NACK", "EXTEND"]);
    s.verify();
}

#[test]
fn reap_leaves_it_good_like_any_expiry() {
    for reap in ["CONSUMER late", "ID"] {
        let (s, job) = leased();
        let reap = if reap == "ID" { format!("ID {}", job.id) } else { reap.to_owned() };
        assert_eq!(s.run(format!("RQ.REAP q {reap}")).array().len(), 1);
        assert_eq!(code(&s, "EXTEND", &job, ""), 1);
        assert_eq!(s.job("q", &job.id).ints(["deliveries", "expiries"]), [1, 0]);
        s.verify();
    }
}

#[test]
fn redrive_voids_it() {
    let (s, job) = dead_by_expiry();
    assert_eq!(s.codes(format!("RQ.REDRIVE q {}", job.id)), [1]);
    none_is_good(&s, &job, 0, &VERBS);
    s.verify();
}

#[test]
fn redrive_voids_a_spent_one() {
    let (s, job) = leased();
    assert_eq!(code(&s, "NACK", &job, "DEAD"), 2);
    s.run("RQ.REDRIVE q COUNT 1");
    none_is_good(&s, &job, 0, &VERBS);
    s.verify();
}

#[test]
fn del_cancels_and_extend_tells_it() {
    let (s, job) = leased();
    assert_eq!(s.run(format!("RQ.DEL q {}", job.id)), 1);
    none_is_good(&s, &job, -1, &["EXTEND", "ACK", "NACK", "RELEASE"]);
    s.verify();
}

#[test]
fn tokens_that_were_never_granted_are_nobodys() {
    let (s, job) = leased();
    for wrong in [0, 1, job.token - 1, job.token + 1, (1 << 53) - 1] {
        none_is_good(&s, &Job { token: wrong, ..job.clone() }, 0, &VERBS);
    }
    assert_eq!(code(&s, "ACK", &job, ""), 1);
    s.verify();
}

#[test]
fn refused_tokens_are_counted_as_stale() {
    let (s, job) = expired();
    s.lease_one("q other");
    let before = s.info("q").int("local-stale");
    s.codes(format!("RQ.ACK q {job}"));
    s.codes(format!("RQ.EXTEND q {job}"));
    assert_eq!(s.info("q").int("local-stale"), before + 2);
    s.verify();
}

#[test]
fn a_late_extend_can_expire_again_and_counts_once() {
    let (mut s, job) = expired();
    assert_eq!(code(&s, "EXTEND", &job, "LEASE 3600000"), 1);
    s.advance(3_700_000);
    wait_until("the second expiry", || s.state("q", &job.id) == "ready");
    assert_eq!(s.job("q", &job.id).ints(["deliveries", "expiries"]), [1, 1]);
    assert_eq!(code(&s, "ACK", &job, ""), 1, "it is good as before");
    s.verify();
}

#[test]
fn b06_a_stale_worker_changes_nothing_and_the_owner_finishes() {
    let (s, first) = expired();
    let second = s.lease_one("q w2");
    none_is_good(&s, &first, 0, &VERBS);
    assert_eq!(s.job("q", &second.id)["consumer"], "w2");
    assert_eq!(code(&s, "ACK", &second, ""), 1);
    none_is_good(&s, &first, -1, &VERBS);
    assert_eq!(s.info("q").ints(["acked-total", "failed-total", "released-total"]), [1, 0, 0]);
    s.verify();
}

#[test]
fn b07_side_writes_of_a_stale_worker_leave_no_trace() {
    let (s, job) = leased();
    let memory = |s: &Scene| s.run("MEMORY USAGE q").int();
    let other = s.push("q other");
    assert_eq!(s.run(format!("RQ.DEL q {}", job.id)), 1);
    let before = memory(&s);
    let unknown = Job { id: "1700000000000-7".to_owned(), ..job.clone() };
    for stale in [&job, &unknown] {
        for verb in VERBS {
            assert_eq!(s.unchanged(|| code(&s, verb, stale, "")), -1, "{verb}");
        }
        assert_eq!(s.unchanged(|| code(&s, "NACK", stale, "ERROR a-long-text-about-it DEAD")), -1);
        assert_eq!(s.unchanged(|| s.run(format!("RQ.SET q {} PRIORITY 5", stale.id))), -1);
        assert_eq!(s.unchanged(|| s.codes(format!("RQ.REDRIVE q {}", stale.id))), [-1]);
        assert_eq!(s.unchanged(|| s.run(format!("RQ.DEL q {}", stale.id))), 0);
        assert!(s.unchanged(|| s.run(format!("RQ.REAP q ID {}", stale.id))).array().is_empty());
    }
    assert_eq!(memory(&s), before);
    assert_eq!(s.run("DEL q"), 1);
    for verb in VERBS {
        assert_eq!(s.unchanged(|| code(&s, verb, &job, "")), -1, "{verb}");
    }
    assert_eq!(s.run("EXISTS q"), 0, "no verb that names a job makes a queue");
    assert_ne!(s.push("q again"), other);
    s.verify();
}

/// Whatever happens to the key: a database that refuses lower tokens must never meet one twice.
#[test]
fn tokens_grow_over_all_that_makes_the_queue_anew() {
    let s = Scene::new();
    let mut last = 0;
    let mut grows = |token: i64, how: &str| {
        assert!(token > last, "{how}: {token} after {last}");
        last = token;
    };
    for _ in 0..20 {
        // All in one turn, in less than a millisecond.
        let push_lease = ["RQ.PUSH q x", "RQ.LEASE q w"];
        let rounds: Vec<&str> = std::iter::repeat_n(["DEL q", push_lease[0], push_lease[1]], 20).flatten().collect();
        for reply in s.multi(&rounds).iter().skip(2).step_by(3) {
            grows(jobs(reply)[0].token, "DEL");
        }
    }
    s.run("DEL q");
    s.run(format!("RQ.MPUSH q 10000 {}", vec!["x"; 10_000].join(" ")));
    grows(s.lease("q w COUNT 10000").last().expect("leases").token, "a crowd");
    s.run("DEL q");
    s.push("q x");
    grows(s.lease_one("q w").token, "DEL after tokens ahead of the clock");
    s.run("RQ.MPUSH q 3 a b c");
    let dump = s.run("DUMP q");
    grows(s.lease_one("q w").token, "LEASE");
    assert_eq!(s.cmd(&[b"RESTORE".as_slice(), b"q", b"0", dump.bytes(), b"REPLACE"]), "OK");
    grows(s.lease_one("q w").token, "RESTORE");
    s.run("COPY q other");
    grows(s.lease_one("q w").token, "LEASE");
    s.run("RENAME other q");
    grows(s.lease_one("q w").token, "RENAME");
    s.run("FLUSHALL");
    s.push("q x");
    grows(s.lease_one("q w").token, "FLUSHALL");
    s.verify();
}

#[test]
fn tokens_grow_over_a_promotion_after_del() {
    let primary = Server::start();
    let mut replica = primary.replica(&[]);
    primary.run("RQ.MPUSH q 10 a b c d e f g h i j");
    let last = primary.lease("q w COUNT 10").last().expect("leases").token;
    primary.run("DEL q");
    replica.wait_in_step(&primary);
    // Behind the primary's clock, its time stands still: only what it has heard of is a floor.
    replica.advance(-600_000);
    replica.run("REPLICAOF NO ONE");
    replica.push("q x");
    let next = replica.lease_one("q w").token;
    assert!(next > last, "{next} after {last}");
}

/// A queue from a server with a wild clock, or a forged one, is no matter of others.
#[test]
fn an_absurd_token_stays_with_its_queue() {
    let mut s = Server::start();
    s.advance(20 * 3_600_000);
    s.push("wild x");
    let wild = s.lease_one("wild w").token;
    let dump = s.run("DUMP wild");
    let other = Server::start();
    assert_eq!(other.cmd(&[b"RESTORE".as_slice(), b"wild", b"0", dump.bytes()]), "OK");
    other.push("wild y");
    assert!(other.lease_one("wild w").token > wild, "there it goes on from there");
    other.push("q x");
    assert!(other.lease_one("q w").token < wild - 19 * 3_600_000_000);
}
