//! RQ.REAP and RQ.REDRIVE: every form, option and refusal. Case B35.

use crate::harness::{ids, stock, Scene};

/// Rows of RQ.REAP as (id, state, deliveries, consumer).
#[track_caller]
fn reap(s: &Scene, arguments: &str) -> Vec<(String, String, i64, String)> {
    let reply = s.run(format!("RQ.REAP {arguments}"));
    let row = |row: &crate::harness::Reply| {
        let row = row.array();
        (row[0].text().to_owned(), row[1].text().to_owned(), row[2].int(), row[3].text().to_owned())
    };
    reply.array().iter().map(row).collect()
}

/// A scene on which the timer leaves expired leases alone, so that RQ.REAP has them for itself.
fn held() -> Scene {
    let s = Scene::with(&["rq.expiry-grace 3600000"]);
    // A load begins the grace.
    s.run("DEBUG RELOAD");
    s.run("RQ.CREATE q LEASE 1000000 MAXEXPIRIES 2");
    s
}

#[test]
fn reap_takes_expired_leases_oldest_deadline_first() {
    let mut s = held();
    s.run("RQ.MPUSH q 4 a b c d");
    let a = s.lease_one("q one LEASE 1500000");
    let b = s.lease_one("q two LEASE 500000");
    let c = s.lease_one("q three LEASE 1000000");
    let d = s.lease_one("q four LEASE 90000000");
    assert!(s.unchanged(|| reap(&s, "q")).is_empty(), "nothing has expired");
    s.advance(2_000_000);
    assert_eq!(s.info("q").int("leased"), 4, "the grace holds them");
    let first = reap(&s, "q COUNT 2");
    assert_eq!(first, [
        (b.id.clone(), "ready".to_owned(), 1, "two".to_owned()),
        (c.id.clone(), "ready".to_owned(), 1, "three".to_owned()),
    ]);
    assert_eq!(reap(&s, "q"), [(a.id.clone(), "ready".to_owned(), 1, "one".to_owned())]);
    assert!(s.unchanged(|| reap(&s, "q")).is_empty());
    assert_eq!(s.state("q", &d.id), "leased");
    assert_eq!(s.info("q").ints(["expired-total", "ready", "leased"]), [3, 3, 1]);
    assert_eq!(s.lease_order("q").concat(), "abc", "each has its old place");
    s.verify();
}

#[test]
fn reap_of_a_consumer_takes_all_it_holds() {
    let s = Scene::new();
    s.run("RQ.CREATE q LEASE 7200000 MAXEXPIRIES 1");
    s.run("RQ.MPUSH q 5 a b c d e");
    let dead = s.lease("q dead-node COUNT 3");
    s.lease("q other COUNT 2");
    let rows = reap(&s, "q CONSUMER dead-node COUNT 2");
    assert_eq!(rows.len(), 2);
    let rows = [rows, reap(&s, "q COUNT 100 CONSUMER dead-node")].concat();
    let mut reaped: Vec<String> = rows.iter().map(|row| row.0.clone()).collect();
    reaped.sort();
    assert_eq!(reaped, ids(&dead));
    assert!(rows.iter().all(|row| (row.1.as_str(), row.2, row.3.as_str()) == ("dead", 1, "dead-node")), "{rows:?}");
    assert!(s.unchanged(|| reap(&s, "q CONSUMER dead-node")).is_empty());
    assert!(s.unchanged(|| reap(&s, "q CONSUMER nobody")).is_empty());
    assert_eq!(s.info("q").ints(["leased", "dead-expired-lease", "expired-total"]), [2, 3, 3]);
    s.verify();
}

#[test]
fn reap_by_id_takes_only_leased_ones() {
    let s = Scene::new();
    let q = stock(&s, "q");
    let line = format!("q ID {} {} {} {} {} 1700000000000-0", q.ready, q.scheduled, q.retrying, q.dead, q.leased.id);
    assert_eq!(reap(&s, &line), [(q.leased.id.clone(), "ready".to_owned(), 1, "worker".to_owned())]);
    assert!(s.unchanged(|| reap(&s, &line)).is_empty());
    s.verify();
}

#[test]
fn reap_takes_a_hundred_by_default() {
    let mut s = held();
    let pushes = vec!["RQ.PUSH q x"; 150];
    s.multi(&pushes);
    assert_eq!(s.lease("q w COUNT 150").len(), 150);
    s.advance(2_000_000);
    assert_eq!(reap(&s, "q").len(), 100);
    assert_eq!(reap(&s, "q").len(), 50);
    s.verify();
}

#[test]
fn reap_of_nothing() {
    let s = Scene::new();
    assert!(s.unchanged(|| reap(&s, "absent")).is_empty());
    assert!(s.unchanged(|| reap(&s, "absent CONSUMER w")).is_empty());
    assert_eq!(s.run("EXISTS absent"), 0);
    s.verify();
}

/// A queue with dead jobs: `n` of them, died in the order of their ids, a minute apart.
fn dead(options: &str, n: usize) -> (Scene, Vec<String>) {
    let mut s = Scene::new();
    s.run(format!("RQ.CREATE q LEASE 7200000 BACKOFF 0 0 {options}"));
    let mut ids = Vec::new();
    for k in 0..n {
        ids.push(s.push(format!("q job{k}")));
        let job = s.lease_one("q w");
        assert_eq!(s.codes(format!("RQ.NACK q {job} DEAD ERROR e{k}")), [2]);
        s.advance(60_000);
    }
    (s, ids)
}

#[test]
fn redrive_by_id() {
    let (s, ids) = dead("", 3);
    let ready = s.push("q ready");
    let codes = s.codes(format!("RQ.REDRIVE q {} {} 1700000000000-0 {ready}", ids[2], ids[0]));
    assert_eq!(codes, [1, 1, -1, 0]);
    assert_eq!(s.unchanged(|| s.codes(format!("RQ.REDRIVE q {}", ids[0]))), [0]);
    assert_eq!(s.unchanged(|| s.codes(format!("RQ.REDRIVE absent {}", ids[0]))), [-1]);
    assert_eq!(s.info("q").ints(["ready", "dead", "redriven-total"]), [3, 1, 2]);
    assert_eq!(s.run("EXISTS absent"), 0);
    s.verify();
}

#[test]
fn b35_redrive_gives_a_fresh_budget_and_keeps_the_totals() {
    let s = Scene::new();
    s.run("RQ.CREATE q LEASE 7200000 BACKOFF 0 0 MAXDELIVERIES 3");
    let id = s.push("q x");
    let spend = || {
        for n in 1..=3 {
            let job = s.lease_one("q w");
            assert_eq!(job.deliveries, n, "a fresh budget");
            assert_eq!(s.codes(format!("RQ.NACK q {job} ERROR e{n}")), [if n < 3 { 1 } else { 2 }]);
        }
    };
    spend();
    for redrives in 1..=3 {
        assert_eq!(s.codes(format!("RQ.REDRIVE q {id}")), [1]);
        let seen = s.job("q", &id);
        assert_eq!(seen["state"], "ready");
        assert_eq!(seen.ints(["deliveries", "redrives"]), [0, redrives]);
        assert_eq!(seen.ints(["total-deliveries", "failures"]), [3 * redrives, 3 * redrives]);
        assert_eq!(seen["error"], "e3");
        spend();
    }
    s.verify();
}

#[test]
fn redrive_count_moves_the_oldest_dead_first() {
    let (s, ids) = dead("", 5);
    assert_eq!(s.run("RQ.REDRIVE q COUNT 2").ints(), [2, 0, 1]);
    assert_eq!(s.state("q", &ids[0]), "ready");
    assert_eq!(s.state("q", &ids[1]), "ready");
    assert_eq!(s.state("q", &ids[2]), "dead");
    assert_eq!(s.run("RQ.REDRIVE q COUNT 3").ints(), [3, 0, 0]);
    assert_eq!(s.unchanged(|| s.run("RQ.REDRIVE q COUNT 100").ints()), [0, 0, 0]);
    assert_eq!(s.unchanged(|| s.run("RQ.REDRIVE absent COUNT 100").ints()), [0, 0, 0]);
    assert_eq!(s.lease_order("q").len(), 5);
    s.verify();
}

#[test]
fn redrive_by_reason() {
    let s = Scene::new();
    s.run("RQ.CREATE q LEASE 7200000 BACKOFF 0 0 MAXDELIVERIES 1");
    s.run("RQ.MPUSH q 3 rejected failed expired");
    let jobs = s.lease("q w COUNT 3");
    s.codes(format!("RQ.NACK q {} DEAD", jobs[0]));
    s.codes(format!("RQ.NACK q {}", jobs[1]));
    s.run(format!("RQ.REAP q ID {}", jobs[2].id));
    assert_eq!(s.info("q").ints(["dead-rejected", "dead-failed", "dead-expired-lease"]), [1, 1, 1]);
    let moved = |reason: &str| s.run(format!("RQ.REDRIVE q COUNT 10 REASON {reason}")).ints()[0];
    assert_eq!(s.unchanged(|| moved("ttl")), 0);
    assert_eq!(moved("failed"), 1);
    assert_eq!(s.state("q", &jobs[1].id), "ready");
    assert_eq!(moved("EXPIRED-LEASE"), 1);
    assert_eq!(s.state("q", &jobs[2].id), "ready");
    assert_eq!(moved("rejected"), 1);
    assert_eq!(s.info("q").ints(["dead", "dead-rejected", "dead-failed", "dead-expired-lease"]), [0, 0, 0, 0]);
    s.verify();
}

#[test]
fn redrive_by_the_time_of_death() {
    let (s, ids) = dead("", 5);
    let died = |k: usize| s.job("q", &ids[k]).int("dead-at");
    // Both bounds are open: later than AFTER, earlier than BEFORE.
    let line = format!("RQ.REDRIVE q COUNT 10 AFTER {} BEFORE {}", died(1), died(3));
    assert_eq!(s.run(&line).ints()[0], 1);
    assert_eq!(s.state("q", &ids[2]), "ready");
    assert_eq!(s.run(format!("RQ.REDRIVE q COUNT 10 BEFORE {}", died(1))).ints()[0], 1);
    assert_eq!(s.state("q", &ids[0]), "ready");
    assert_eq!(s.run(format!("RQ.REDRIVE q COUNT 10 AFTER {}", died(3))).ints()[0], 1);
    assert_eq!(s.state("q", &ids[4]), "ready");
    s.verify();
}

#[test]
fn redrive_spreads_and_sets_the_priority() {
    let (mut s, ids) = dead("", 4);
    let before = s.now();
    assert_eq!(s.run("RQ.REDRIVE q COUNT 4 SPREAD 4000000 PRIORITY 9").ints(), [4, 0, 0]);
    let due: Vec<i64> = ids.iter().map(|id| s.job("q", id).int("due-at")).collect();
    let steps: Vec<i64> = due.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(steps, [1_000_000; 3], "evenly, oldest first");
    assert!((before - 1..before + 600_000).contains(&due[0]), "{due:?} from {before}");
    for id in &ids {
        assert_eq!(s.job("q", id).ints(["priority", "deliveries"]), [9, 0]);
    }
    assert_eq!(s.info("q").ints(["ready", "scheduled"]), [1, 3]);
    s.advance(2_100_000);
    assert_eq!(s.lease("q w COUNT 10").len(), 3);
    s.verify();
}

#[test]
fn refusals() {
    let s = Scene::new();
    let q = stock(&s, "q");
    s.run("SET text x");
    for (line, error) in [
        ("RQ.REAP", "ERR wrong number of arguments"),
        ("RQ.REAP q COUNT 0", "ERR COUNT must be an integer from 1 to 10000, not \"0\""),
        ("RQ.REAP q CONSUMER", "ERR syntax error: CONSUMER needs a value"),
        ("RQ.REAP q ID", "ERR syntax error: at least one job id is needed"),
        ("RQ.REAP q ID x", "ERR \"x\" is not a job id"),
        ("RQ.REAP q COUNT 5 ID 1-0", "ERR syntax error: COUNT was given twice, or beside an option that excludes it"),
        ("RQ.REAP q CONSUMER w ID 1-0", "ERR syntax error: ID was given twice, or beside an option that excludes it"),
        ("RQ.REAP q ALL", "ERR syntax error: unknown or misplaced option \"ALL\""),
        ("RQ.REAP text", "WRONGTYPE "),
        ("RQ.REDRIVE q", "ERR wrong number of arguments"),
        ("RQ.REDRIVE q COUNT", "ERR syntax error: COUNT needs a value"),
        ("RQ.REDRIVE q REASON failed", "ERR syntax error: RQ.REDRIVE takes job ids, or COUNT and a filter"),
        ("RQ.REDRIVE q COUNT 0", "ERR COUNT must be an integer from 1 to 10000, not \"0\""),
        ("RQ.REDRIVE q COUNT 5 REASON boom", "ERR REASON must be failed, expired-lease, rejected or ttl, not \"boom\""),
        ("RQ.REDRIVE q COUNT 5 AFTER 1700000000", "ERR AFTER takes Unix milliseconds, 1700000000 looks like seconds"),
        ("RQ.REDRIVE q COUNT 5 BEFORE x", "ERR BEFORE must be an integer"),
        ("RQ.REDRIVE q COUNT 5 SPREAD -1", "ERR SPREAD must be an integer from 0 to 315360000000, not \"-1\""),
        ("RQ.REDRIVE q COUNT 5 PRIORITY 200", "ERR PRIORITY must be an integer from -128 to 127, not \"200\""),
        (&format!("RQ.REDRIVE q {} COUNT 5", q.dead), "ERR \"COUNT\" is not a job id"),
        (&format!("RQ.REDRIVE q {} x", q.dead), "ERR \"x\" is not a job id"),
        ("RQ.REDRIVE text COUNT 5", "WRONGTYPE "),
    ] {
        s.refused(line, error);
    }
    s.verify();
}
