//! Wherever a job comes from, poison meets the same limits and leaves the same dead letter. Case B14.

use crate::harness::{wait_until, Fields, Reply, Scene};

const HOUR: i64 = 3_600_000;

/// The only job that is ready.
#[track_caller]
fn ready(s: &Scene) -> String {
    let page = s.run("RQ.PEEK q READY");
    let [job] = page.array()[1].array() else { panic!("one job: {page:?}") };
    job.fields()["id"].text().to_owned()
}

/// Makes a job of this origin, ready, with the payload `poison`.
#[track_caller]
fn make(s: &mut Scene, origin: &str) -> String {
    match origin {
        "push" => drop(s.push("q poison")),
        "batch" => drop(s.run("RQ.MPUSH q 1 poison")),
        "delayed" => {
            s.push(format!("q poison DELAY {HOUR}"));
            s.advance(HOUR);
        }
        "schedule" => {
            s.run(format!("RQ.SCHEDULE q every EVERY {HOUR} LIMIT 1 PAYLOAD poison"));
            s.advance(HOUR);
        }
        "redrive" | "redrive by count" => {
            let id = s.push("q poison");
            let job = s.lease_one("q other");
            assert_eq!(s.codes(format!("RQ.NACK q {job} DEAD")), [2]);
            s.run(if origin == "redrive" { format!("RQ.REDRIVE q {id}") } else { "RQ.REDRIVE q COUNT 1".to_owned() });
        }
        "replaced" => {
            s.run("RQ.PUSH q first DEDUP k DELAY 36000000");
            s.run("RQ.PUSH q poison DEDUP k REPLACE");
        }
        _ => {
            s.run("RQ.PUSH q first DEDUP k");
            let owner = s.lease_one("q other");
            s.run("RQ.PUSH q poison DEDUP k KEEPLAST");
            s.codes(format!("RQ.ACK q {owner}"));
        }
    }
    wait_until(origin, || s.run("RQ.LEN q READY") == 1);
    ready(s)
}

/// What a dead letter says of its end, whatever was before.
fn letter(job: &Fields) -> Vec<(String, Reply)> {
    let names = ["state", "reason", "error", "deliveries", "max-deliveries", "consumer", "payload", "priority", "lease-ms", "size"];
    job.0.iter().filter(|(name, _)| names.contains(&name.as_str())).cloned().collect()
}

#[test]
fn b14_poison_of_every_origin_meets_the_same_limits() {
    for (end, deliveries, reason) in [("fails", 3, "failed"), ("vanishes", 2, "expired-lease")] {
        let mut first = None;
        for origin in ["push", "batch", "delayed", "schedule", "redrive", "redrive by count", "replaced", "held duplicate"] {
            let mut s = Scene::new();
            s.run("RQ.CREATE q MAXDELIVERIES 3 MAXEXPIRIES 2 BACKOFF 0 0 LEASE 36000000");
            let id = make(&mut s, origin);
            for delivery in 1..=deliveries {
                let job = s.lease_one("q w");
                assert_eq!((&job.id, job.deliveries), (&id, delivery), "{origin}");
                let last = delivery == deliveries;
                if end == "fails" {
                    assert_eq!(s.codes(format!("RQ.NACK q {job} ERROR poison")), [if last { 2 } else { 1 }], "{origin}");
                } else {
                    let rows = s.run(format!("RQ.REAP q ID {id}"));
                    assert_eq!(rows.array()[0].array()[1], if last { "dead" } else { "ready" }, "{origin}");
                }
            }
            assert!(s.lease("q w").is_empty(), "{origin}");
            let dead = s.job("q", &id);
            assert_eq!(dead["reason"], reason, "{origin}");
            let letter = letter(&dead);
            assert_eq!(first.get_or_insert_with(|| letter.clone()), &letter, "{origin}");
            assert_eq!(s.info("q").ints(["dead", "length"]), [1, 0], "{origin}");
            s.verify();
        }
    }
}

/// A job's own limit stands before the queue's, whoever said it.
#[test]
fn b14_own_limits_of_every_origin() {
    for push in ["RQ.PUSH q poison", "RQ.MPUSH q 1 poison", "RQ.SCHEDULE q s EVERY 3600000 LIMIT 1 PAYLOAD poison"] {
        let mut s = Scene::new();
        s.run("RQ.CREATE q BACKOFF 0 0 LEASE 36000000");
        s.run(format!("{push} MAXDELIVERIES 1"));
        s.advance(HOUR);
        wait_until(push, || s.run("RQ.LEN q READY") == 1);
        let job = s.lease_one("q w");
        assert_eq!(s.codes(format!("RQ.NACK q {job}")), [2], "{push}");
        s.verify();
    }
}
