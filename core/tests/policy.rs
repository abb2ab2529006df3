//! Which limit what spends, how retries are spaced, in what order jobs come: the cases that
//! went wrong for others (B..) as named tests.

#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "tests may")]

mod support;

use rq_core::Tree;
use support::{at, bulk, field, int, ints, items, string, Driver};

/// How a delivery ends.
#[derive(Debug, Clone, Copy, PartialEq)]
enum End {
    Crash,
    Nack,
    NackDead,
    Release,
    /// It crashed, and the worker gave the job back afterwards.
    LateRelease,
    /// It crashed, and the worker took it up again and failed properly.
    LateExtendThenNack,
}

use End::{Crash, LateExtendThenNack, LateRelease, Nack, NackDead, Release};

/// One queue with one job, its policy set.
fn one_job(policy: &str, push: &str) -> (Driver, String) {
    let mut q = Driver::new();
    q.cmd(&format!("RQ.CREATE LEASE 1000 BACKOFF 0 0 JITTER none {policy}"));
    let id = string(&q.cmd(&format!("RQ.PUSH job {push}")));
    (q, id)
}

/// The same, and the job is leased: its token.
fn leased_job(policy: &str) -> (Driver, String, u64) {
    let (mut q, id) = one_job(policy, "");
    let (leased, token) = q.lease("w");
    assert_eq!(leased, id);
    (q, id, token)
}

/// Delivers the job once and ends the delivery. False: there was nothing to deliver.
fn deliver(q: &mut Driver, end: End) -> bool {
    let reply = q.cmd("RQ.LEASE w");
    if reply == Tree::NullArray {
        return false;
    }
    let job = at(&reply, 0);
    let pair = format!("{} {}", string(at(job, 0)), int(at(job, 1)));
    match end {
        Crash => q.pass(1_000),
        Nack => drop(q.cmd(&format!("RQ.NACK {pair}"))),
        NackDead => drop(q.cmd(&format!("RQ.NACK {pair} DEAD"))),
        Release => assert_eq!(q.cmd(&format!("RQ.RELEASE {pair}")), ints(&[1])),
        LateRelease => {
            q.pass(1_000);
            assert_eq!(q.cmd(&format!("RQ.RELEASE {pair}")), ints(&[1]));
        }
        LateExtendThenNack => {
            q.pass(1_000);
            assert_eq!(q.cmd(&format!("RQ.EXTEND {pair}")), ints(&[1]));
            q.cmd(&format!("RQ.NACK {pair}"));
        }
    }
    true
}

/// Delivers until the job is dead; how many times it was delivered, and why it died.
fn until_dead(policy: &str, push: &str, ends: &[End]) -> Option<(usize, String)> {
    let (mut q, id) = one_job(policy, push);
    for n in 0..100 {
        if !deliver(&mut q, ends[n % ends.len()]) {
            assert_eq!(q.get(&id, "state"), bulk("dead"), "neither delivered nor dead");
            return Some((n, string(&q.get(&id, "reason"))));
        }
    }
    None
}

/// A policy, the options of the push, how its deliveries end in turn; after how many it is dead,
/// and why.
type Case = (&'static str, &'static str, &'static [End], Option<(usize, &'static str)>);

/// B15: two counts, and which of the two limits each way to end a delivery spends.
#[test]
fn each_end_of_a_delivery_spends_its_own_budget() {
    let dead = |n, reason| Some((n, reason));
    let cases: &[Case] = &[
        ("MAXDELIVERIES 3 MAXEXPIRIES 0", "", &[Crash], dead(3, "expired-lease")),
        ("MAXDELIVERIES 3 MAXEXPIRIES 0", "", &[Nack], dead(3, "failed")),
        ("MAXDELIVERIES 3 MAXEXPIRIES 0", "", &[Release], None),
        ("MAXDELIVERIES 0 MAXEXPIRIES 2", "", &[Crash], dead(2, "expired-lease")),
        ("MAXDELIVERIES 0 MAXEXPIRIES 2", "", &[Nack], None),
        ("MAXDELIVERIES 0 MAXEXPIRIES 2", "", &[Release], None),
        ("MAXDELIVERIES 0 MAXEXPIRIES 0", "", &[Crash, Nack, Release], None),
        // Both limits: whichever is reached first.
        ("MAXDELIVERIES 4 MAXEXPIRIES 2", "", &[Crash, Nack], dead(3, "expired-lease")),
        ("MAXDELIVERIES 3 MAXEXPIRIES 2", "", &[Nack, Crash, Nack], dead(3, "failed")),
        ("MAXDELIVERIES 3 MAXEXPIRIES 3", "", &[Nack, Nack, Crash], dead(3, "expired-lease")),
        ("MAXDELIVERIES 1 MAXEXPIRIES 5", "", &[Crash], dead(1, "expired-lease")),
        ("MAXDELIVERIES 1 MAXEXPIRIES 5", "", &[Nack], dead(1, "failed")),
        // A failure that will not mend itself needs no budget.
        ("MAXDELIVERIES 0 MAXEXPIRIES 0", "", &[Nack, NackDead], dead(2, "rejected")),
        // Released ones in between spend nothing.
        ("MAXDELIVERIES 3 MAXEXPIRIES 0", "", &[Release, Nack], dead(6, "failed")),
        // Given back or taken up again after the expiry: that expiry is given back.
        ("MAXDELIVERIES 9 MAXEXPIRIES 2", "", &[LateRelease], None),
        ("MAXDELIVERIES 9 MAXEXPIRIES 2", "", &[LateRelease, Crash, Crash], dead(3, "expired-lease")),
        ("MAXDELIVERIES 0 MAXEXPIRIES 2", "", &[LateExtendThenNack], None),
        // The job's own limit stands before the queue's, in both directions.
        ("MAXDELIVERIES 2 MAXEXPIRIES 0", "MAXDELIVERIES 4", &[Nack], dead(4, "failed")),
        ("MAXDELIVERIES 4 MAXEXPIRIES 0", "MAXDELIVERIES 1", &[Nack], dead(1, "failed")),
        ("MAXDELIVERIES 2 MAXEXPIRIES 0", "MAXDELIVERIES 0", &[Nack, Crash], None),
        ("MAXDELIVERIES 2 MAXEXPIRIES 3", "MAXDELIVERIES 0", &[Crash], dead(3, "expired-lease")),
    ];
    for (policy, push, ends, expected) in cases {
        let outcome = until_dead(policy, push, ends);
        assert_eq!(outcome.as_ref().map(|(n, reason)| (*n, reason.as_str())), *expected, "{policy} / {push} / {ends:?}");
    }
}

/// B15: a dead letter shows both counts, and they are told apart.
#[test]
fn a_dead_letter_keeps_its_counts() {
    let (mut q, id) = one_job("MAXDELIVERIES 4 MAXEXPIRIES 9", "");
    for end in [Crash, Release, Nack, Crash, Nack] {
        assert!(deliver(&mut q, end));
    }
    for (name, count) in [("deliveries", 4), ("total-deliveries", 4), ("failures", 2), ("expiries", 2), ("releases", 1)] {
        assert_eq!(q.get(&id, name), Tree::Int(count), "{name}");
    }
    assert_eq!(q.get(&id, "reason"), bulk("failed"));
    for (name, count) in [("delivered-total", 5), ("failed-total", 2), ("expired-total", 2), ("released-total", 1), ("dead-total", 1)] {
        assert_eq!(q.info(name), Tree::Int(count), "{name}");
    }
}

/// The policy is read when it is used, not copied at PUSH.
#[test]
fn a_changed_policy_holds_for_jobs_that_are_there() {
    let (mut q, id) = one_job("MAXDELIVERIES 5", "");
    assert!(deliver(&mut q, Nack));
    assert_eq!(q.cmd("RQ.ALTER MAXDELIVERIES 2"), Tree::Ok);
    assert_eq!(q.get(&id, "max-deliveries"), Tree::Int(2));
    assert!(deliver(&mut q, Nack));
    assert_eq!(q.get(&id, "state"), bulk("dead"));
}

#[test]
fn every_reason_of_a_dead_letter_is_counted_apart() {
    let mut q = Driver::new();
    q.cmd("RQ.CREATE LEASE 1000 MAXDELIVERIES 1 JITTER none");
    for end in [Nack, Crash, NackDead] {
        q.cmd("RQ.PUSH job");
        assert!(deliver(&mut q, end));
    }
    q.cmd("RQ.PUSH job TTL 50");
    q.pass(50);
    for reason in ["failed", "expired-lease", "rejected", "ttl"] {
        assert_eq!(q.info(&format!("dead-{reason}")), Tree::Int(1), "{reason}");
        assert_eq!(q.cmd(&format!("RQ.PURGE DEAD REASON {reason}")), Tree::Int(1), "{reason}");
    }
    assert_eq!(q.info("dead"), Tree::Int(0));
}

/// The wait after each of `n` failures in a row.
fn waits(backoff: &str, n: usize) -> Vec<u64> {
    let (mut q, id) = one_job("MAXDELIVERIES 0", "");
    q.cmd(&format!("RQ.ALTER BACKOFF {backoff}"));
    let mut waits = Vec::new();
    for _ in 0..n {
        assert!(deliver(&mut q, Nack));
        assert_eq!(q.get(&id, "state"), bulk("delayed"));
        let due = int(&q.get(&id, "due-at")) as u64;
        waits.push(due.checked_sub(q.now).expect("not in the past"));
        q.now = due;
    }
    waits
}

/// B20: exponential, capped before it can overflow, never 0, never beyond the cap.
#[test]
fn backoff_grows_to_its_cap_and_stays_there_over_1100_failures() {
    let all = waits("1000 3600000 JITTER none", 1_100);
    assert_eq!(all[..13], [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 128_000, 256_000, 512_000, 1_024_000, 2_048_000, 3_600_000]);
    assert!(all[12..].iter().all(|&wait| wait == 3_600_000));
    // The longest span that can be asked for does not overflow either.
    let longest = waits("1 315360000000 JITTER none", 70);
    assert!(longest.windows(2).all(|pair| pair[0] <= pair[1]));
    assert_eq!(longest[69], 315_360_000_000);
}

#[test]
fn jitter_stays_in_its_range_at_every_step() {
    for (jitter, low) in [("full", 0.0), ("equal", 0.5)] {
        let jittered = waits(&format!("1000 60000 JITTER {jitter}"), 70);
        for (n, wait) in jittered.iter().enumerate() {
            let full = (1_000u64 << n.min(20)).min(60_000);
            assert!(*wait > (full as f64 * low) as u64 && *wait <= full, "{jitter} {n}: {wait} of {full}");
        }
    }
}

/// B20: a fleet that fails in one call does not come back in one tick, also at the cap.
#[test]
fn jitter_spreads_a_thousand_failures_also_at_the_cap() {
    let mut q = Driver::new();
    q.cmd("RQ.CREATE MAXDELIVERIES 0 BACKOFF 3600000 3600000 JITTER full");
    let payloads = vec![&b"x"[..]; 1_000];
    q.run("RQ.MPUSH", &[&[&b"1000"[..]], payloads.as_slice()].concat()).unwrap();
    let leased = q.cmd("RQ.LEASE w COUNT 1000");
    let mut line = "RQ.NACK".to_string();
    for job in items(&leased) {
        line += &format!(" {} {}", string(at(job, 0)), int(at(job, 1)));
    }
    assert_eq!(q.cmd(&line), ints(&[1; 1_000]));
    let page = q.cmd("RQ.PEEK DELAYED COUNT 1000 NOPAYLOAD");
    let mut waits: Vec<u64> = items(at(&page, 1)).iter().map(|job| int(&field(job, "due-at")) as u64 - q.now).collect();
    waits.sort_unstable();
    assert_eq!(waits.len(), 1_000);
    // Uniform: each tenth of the window has its share, give or take four standard deviations.
    for tenth in 0..10 {
        let within = waits.iter().filter(|&&wait| (wait - 1) / 360_000 == tenth).count();
        assert!((62..=138).contains(&within), "{within} in tenth {tenth}");
    }
    waits.dedup();
    assert!(waits.len() > 990, "{} different times", waits.len());
}

/// EXPIRYBACKOFF: the same growth, counted by expiries; without it no wait at all.
#[test]
fn expiries_back_off_only_if_told_so() {
    for (option, expected) in [("no", [0, 0, 0]), ("yes", [10, 20, 40])] {
        let (mut q, id) = one_job(&format!("MAXDELIVERIES 0 MAXEXPIRIES 0 EXPIRYBACKOFF {option}"), "");
        q.cmd("RQ.ALTER BACKOFF 10 1000");
        for wait in expected {
            assert!(deliver(&mut q, Crash));
            let state = q.get(&id, "state");
            if wait == 0 {
                assert_eq!(state, bulk("ready"), "{option}");
            } else {
                assert_eq!((state, q.get(&id, "due-at")), (bulk("delayed"), Tree::Int((q.now + wait) as i64)), "{option}");
                q.pass(wait);
            }
        }
    }
}

/// B09: the last delivery expires: dead at once, not delivered again; the work still counts.
#[test]
fn a_late_acknowledgement_of_the_last_delivery_counts() {
    let (mut q, id, token) = leased_job("MAXDELIVERIES 1");
    q.now += 1_000;
    assert_eq!(q.cmd("RQ.LEASE other"), Tree::NullArray);
    assert_eq!((q.get(&id, "state"), q.get(&id, "reason")), (bulk("dead"), bulk("expired-lease")));
    assert_eq!(q.cmd(&format!("RQ.ACK {id} {token}")), ints(&[1]));
    assert_eq!(q.cmd(&format!("RQ.GET {id}")), Tree::NullArray);
    assert_eq!((q.info("dead"), q.info("acked-total")), (Tree::Int(0), Tree::Int(1)));
    assert_eq!(q.cmd(&format!("RQ.ACK {id} {token}")), ints(&[-1]));
}

/// B09: had another lease been granted since, the first worker's token is worth nothing.
#[test]
fn a_late_acknowledgement_loses_to_the_next_lease() {
    let (mut q, id, old) = leased_job("MAXDELIVERIES 2");
    q.pass(1_000);
    let (_, new) = q.lease("other");
    assert!(new > old);
    for verb in ["ACK", "NACK", "RELEASE", "EXTEND"] {
        assert_eq!(q.cmd(&format!("RQ.{verb} {id} {old}")), ints(&[0]), "{verb}");
    }
    assert_eq!(q.cmd(&format!("RQ.ACK {id} {new}")), ints(&[1]));
}

/// B09: extending is not a delivery.
#[test]
fn extending_over_many_terms_keeps_the_count_at_one() {
    let (mut q, id, token) = leased_job("MAXDELIVERIES 1 MAXEXPIRIES 1");
    for _ in 0..20 {
        q.now += 999;
        assert_eq!(q.cmd(&format!("RQ.EXTEND {id} {token}")), ints(&[1]));
    }
    assert_eq!((q.get(&id, "deliveries"), q.get(&id, "expiries")), (Tree::Int(1), Tree::Int(0)));
    assert_eq!(q.cmd(&format!("RQ.ACK {id} {token}")), ints(&[1]));
}

/// B13: the count grows at delivery, on the server, with no NACK ever sent.
#[test]
fn deliveries_count_without_a_word_from_the_worker() {
    let (mut q, _) = one_job("MAXDELIVERIES 0 MAXEXPIRIES 0", "");
    for count in 1..=800 {
        let reply = q.cmd("RQ.LEASE w");
        assert_eq!(at(at(&reply, 0), 2), &Tree::Int(count));
        if count % 100 == 0 {
            q.reload();
        }
        q.pass(1_000);
    }
}

/// B13: no error text makes NACK fail; it is cut, not refused.
#[test]
fn any_error_text_is_taken() {
    let long = vec![0xff; 1 << 20];
    for error in [&b"\x00\xff\r\n$-1"[..], b"DEAD", b"1-1", &long] {
        let (mut q, id, token) = leased_job("MAXDELIVERIES 0");
        let token = token.to_string();
        let reply = q.run("RQ.NACK", &[id.as_bytes(), token.as_bytes(), b"ERROR", error]).unwrap();
        assert_eq!(reply, ints(&[1]));
        assert_eq!(q.get(&id, "error"), Tree::Bulk(error[..error.len().min(1_024)].to_vec()));
        assert_eq!(q.get(&id, "failures"), Tree::Int(1));
    }
}

/// B21: the same order as pushed within each priority, up to both ends of the range. The
/// ids of one millisecond, as text, sort otherwise from the tenth on.
#[test]
fn priorities_are_strict_and_each_is_first_in_first_out() {
    let mut q = Driver::new();
    let priorities = [0, 127, -128, 1, -1, 126];
    let mut pushed = Vec::new();
    for round in 0..15 {
        for priority in priorities {
            pushed.push((-priority, round, string(&q.cmd(&format!("RQ.PUSH x PRIORITY {priority}")))));
        }
        if round % 5 == 4 {
            q.now += 1;
        }
    }
    pushed.sort_by_key(|(priority, round, _)| (*priority, *round));
    let leased = q.cmd("RQ.LEASE w COUNT 1000");
    let order: Vec<String> = items(&leased).iter().map(|job| string(at(job, 0))).collect();
    let expected: Vec<String> = pushed.into_iter().map(|(_, _, id)| id).collect();
    assert_eq!(order, expected);
}

/// B21: out of range is an error, never another priority.
#[test]
fn a_priority_out_of_range_is_refused() {
    let mut q = Driver::new();
    for priority in ["-129", "128", "256", "1.5", "9223372036854775808"] {
        let error = q.try_cmd(&format!("RQ.PUSH x PRIORITY {priority}")).unwrap_err().to_string();
        assert!(error.contains("PRIORITY") && error.contains(priority) && error.contains("-128") && error.contains("127"), "{error}");
    }
    assert!(q.queue.is_none());
}

/// B35: a redriven job has its whole budget again, and its history.
#[test]
fn redrive_gives_a_fresh_budget_and_keeps_the_history() {
    for spent in [Nack, Crash] {
        let (mut q, id) = one_job("MAXDELIVERIES 3 MAXEXPIRIES 3", "");
        while deliver(&mut q, spent) {}
        assert_eq!(q.get(&id, "state"), bulk("dead"));
        assert_eq!(q.cmd(&format!("RQ.REDRIVE {id}")), ints(&[1]));
        for (name, count) in [("deliveries", 0), ("total-deliveries", 3), ("redrives", 1), ("max-deliveries", 3)] {
            assert_eq!(q.get(&id, name), Tree::Int(count), "{name}");
        }
        assert!(deliver(&mut q, spent));
        assert_eq!(q.get(&id, "state"), bulk("ready"), "back at once, not dead");
        assert_eq!((q.get(&id, "deliveries"), q.get(&id, "total-deliveries")), (Tree::Int(1), Tree::Int(4)));
        let mut more = 0;
        while deliver(&mut q, spent) {
            more += 1;
        }
        assert_eq!(more, 2, "three in all");
    }
}

/// B35: the first failure after a redrive waits as the first one, not as the fourth.
#[test]
fn redrive_starts_the_backoff_anew() {
    let (mut q, id) = one_job("MAXDELIVERIES 3", "");
    q.cmd("RQ.ALTER BACKOFF 10 10000");
    for wait in [10, 20] {
        assert!(deliver(&mut q, Nack));
        q.pass(wait);
    }
    assert!(deliver(&mut q, Nack));
    q.cmd(&format!("RQ.REDRIVE {id}"));
    assert!(deliver(&mut q, Nack));
    assert_eq!(q.get(&id, "due-at"), Tree::Int((q.now + 10) as i64));
}

/// With the built-in policy a job that always fails is tried for about four hours.
#[test]
fn the_defaults_retry_for_about_four_hours() {
    let mut q = Driver::new();
    let id = string(&q.cmd("RQ.PUSH x"));
    q.cmd("RQ.ALTER JITTER none");
    let start = q.now;
    let mut deliveries = 0;
    while deliver(&mut q, Nack) {
        deliveries += 1;
        if let Tree::Int(due) = q.get(&id, "due-at") {
            q.now = q.now.max(due as u64);
        }
    }
    assert_eq!(deliveries, 20);
    // Without jitter; with it half of this on average: four hours.
    let hours = (q.now - start) as f64 / 3_600_000.0;
    assert!((7.0..9.0).contains(&hours), "{hours}");
}
