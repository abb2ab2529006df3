//! RQ.PUSH and RQ.MPUSH: every option, every refusal. How long payloads may be: `sizes.rs`.

use crate::harness::{stock, Scene};

/// An id as numbers, to compare.
fn parts(id: &str) -> (i64, i64) {
    let (ms, seq) = id.split_once('-').expect("<ms>-<seq>");
    (ms.parse().expect("ms"), seq.parse().expect("seq"))
}

#[test]
fn push_makes_the_queue_and_replies_the_id() {
    let s = Scene::new();
    assert_eq!(s.run("RQ.LEN q"), 0);
    let before = s.now();
    let id = s.push("q hello");
    let (ms, _) = parts(&id);
    // The module's clock is never behind the newest op, so it may be ahead of the wall a little.
    assert!((before - 1..before + 600_000).contains(&ms), "{id} at {before}");
    let job = s.job("q", &id);
    assert_eq!(job["id"], id);
    assert_eq!(job["state"], "ready");
    assert_eq!(job["payload"], "hello");
    assert_eq!(job.ints(["size", "priority", "deliveries", "pushed-at", "due-at"]), [5, 0, 0, ms, ms]);
    assert_eq!(s.run("RQ.LEN q"), 1);
    s.verify();
}

#[test]
fn ids_grow_strictly_also_within_a_millisecond() {
    let s = Scene::new();
    let pushes = vec!["RQ.PUSH q x"; 200];
    let ids: Vec<_> = s.multi(&pushes).iter().map(|id| parts(id.text())).collect();
    assert!(ids.windows(2).all(|pair| pair[0] < pair[1]), "{ids:?}");
    s.verify();
}

#[test]
fn a_queue_stays_when_it_is_drained() {
    let s = Scene::new();
    s.push("q x");
    let job = s.lease_one("q w");
    assert_eq!(s.codes(format!("RQ.ACK q {job}")), [1]);
    assert_eq!(s.run("EXISTS q"), 1);
    assert_eq!(s.run("RQ.LEN q"), 0);
    assert_eq!(s.info("q").ints(["pushed-total", "acked-total"]), [1, 1]);
    s.verify();
}

#[test]
fn delay_holds_a_job_until_it_is_due() {
    let mut s = Scene::new();
    let id = s.push("q x DELAY 3600000");
    let job = s.job("q", &id);
    assert_eq!(job["state"], "delayed");
    assert_eq!(job.int("due-at"), job.int("pushed-at") + 3_600_000);
    assert_eq!(s.info("q").ints(["ready", "scheduled", "retrying", "length"]), [0, 1, 0, 1]);
    assert_eq!(s.info("q").int("next-due-at"), job.int("due-at"));
    s.advance(3_500_000);
    assert!(s.unchanged(|| s.lease("q w").is_empty()), "it is not due");
    s.advance(200_000);
    assert_eq!(s.lease_one("q w LEASE 3600000").id, id);
    s.verify();
}

#[test]
fn delay_zero_is_ready_now() {
    let s = Scene::new();
    let id = s.push("q x DELAY 0");
    assert_eq!(s.state("q", &id), "ready");
    s.verify();
}

#[test]
fn at_takes_unix_milliseconds() {
    let s = Scene::new();
    let at = s.now() + 7_200_000;
    let future = s.push(format!("q x AT {at}"));
    assert_eq!(s.state("q", &future), "delayed");
    assert_eq!(s.job("q", &future).int("due-at"), at);
    // The past means now, also long past.
    for past in ["100000000000", "1600000000000"] {
        let id = s.push(format!("q x AT {past}"));
        let job = s.job("q", &id);
        assert_eq!(job["state"], "ready");
        assert_eq!(job.int("due-at"), job.int("pushed-at"), "AT {past}");
    }
    s.verify();
}

#[test]
fn options_go_into_the_job() {
    let s = Scene::new();
    let id = s.push("q x ttl 86400000 maxdeliveries 3 Lease 7200000 PRIORITY -128 delay 3600000");
    let job = s.job("q", &id);
    assert_eq!(job.ints(["priority", "max-deliveries"]), [-128, 3]);
    s.run(format!("RQ.SET q {id} DELAY 0 PRIORITY 127"));
    let leased = s.lease_one("q w LEASE 3600000");
    assert_eq!(leased.lease_ms, 7_200_000, "the job's own LEASE stands first");
    s.verify();
}

#[test]
fn payloads_and_names_may_be_spelled_like_keywords() {
    let s = Scene::new();
    for word in ["DELAY", "AT", "PRIORITY", "COUNT", "BLOCK", "META", "CONSUMER", "DEAD", "$", "*", "0", "-1"] {
        let id = s.push(format!("{word} {word} DELAY 0"));
        let job = s.lease_one(format!("{word} {word} COUNT 1"));
        assert_eq!((job.id.as_str(), job.text().as_str()), (id.as_str(), word));
        assert_eq!(s.codes(format!("RQ.NACK {word} {job} ERROR DEAD DELAY 7200000")), [1]);
        assert_eq!(s.job(word, &id)["error"], "DEAD");
    }
    s.verify();
}

#[test]
fn mpush_stores_all_in_order() {
    let s = Scene::new();
    let reply = s.run("RQ.MPUSH q 3 a b c PRIORITY 5 LEASE 7200000 MAXDELIVERIES 2 TTL 86400000");
    let ids = reply.texts();
    assert!(ids.windows(2).all(|pair| parts(&pair[0]) < parts(&pair[1])), "{ids:?}");
    for id in &ids {
        assert_eq!(s.job("q", id).ints(["priority", "max-deliveries"]), [5, 2]);
    }
    let jobs = s.lease("q w COUNT 10");
    assert_eq!(crate::harness::ids(&jobs), ids);
    assert_eq!(jobs.iter().map(|job| job.text()).collect::<String>(), "abc");
    assert!(jobs.iter().all(|job| job.lease_ms == 7_200_000));
    let one = s.run("RQ.MPUSH q 1 PRIORITY DELAY 7200000").texts();
    assert_eq!(s.job("q", &one[0])["payload"], "PRIORITY");
    s.verify();
}

#[test]
fn push_refusals() {
    let s = Scene::new();
    stock(&s, "q");
    s.run("SET text x");
    for (line, error) in [
        ("RQ.PUSH q", "ERR wrong number of arguments"),
        ("RQ.PUSH q x DELAY", "ERR syntax error: DELAY needs a value"),
        ("RQ.PUSH q x DELAY -1", "ERR DELAY must be an integer from 0 to 315360000000, not \"-1\""),
        ("RQ.PUSH q x DELAY 315360000001", "ERR DELAY must be an integer from 0 to 315360000000, not \"315360000001\""),
        ("RQ.PUSH q x DELAY 1.5", "ERR DELAY must be an integer"),
        ("RQ.PUSH q x DELAY NaN", "ERR DELAY must be an integer"),
        ("RQ.PUSH q x DELAY 18446744073709551616", "ERR DELAY must be an integer"),
        ("RQ.PUSH q x DELAY 1 DELAY 2", "ERR syntax error: DELAY was given twice"),
        ("RQ.PUSH q x DELAY 1 AT 1700000000000", "ERR syntax error: AT was given twice, or beside an option that excludes it"),
        ("RQ.PUSH q x AT 1700000000", "ERR AT takes Unix milliseconds, 1700000000 looks like seconds"),
        ("RQ.PUSH q x AT 99999999999", "ERR AT takes Unix milliseconds, 99999999999 looks like seconds"),
        ("RQ.PUSH q x AT 253402300800000", "ERR AT must be an integer from 100000000000 to 253402300799999"),
        ("RQ.PUSH q x AT tomorrow", "ERR AT must be an integer"),
        ("RQ.PUSH q x PRIORITY 128", "ERR PRIORITY must be an integer from -128 to 127, not \"128\""),
        ("RQ.PUSH q x PRIORITY -129", "ERR PRIORITY must be an integer from -128 to 127, not \"-129\""),
        ("RQ.PUSH q x PRIORITY high", "ERR PRIORITY must be an integer"),
        ("RQ.PUSH q x LEASE 0", "ERR LEASE must be an integer from 1 to 31536000000, not \"0\""),
        ("RQ.PUSH q x LEASE 31536000001", "ERR LEASE must be an integer"),
        ("RQ.PUSH q x MAXDELIVERIES -1", "ERR MAXDELIVERIES must be an integer from 0 to 1000000000, not \"-1\""),
        ("RQ.PUSH q x TTL 0", "ERR TTL must be an integer from 1 to 315360000000, not \"0\""),
        ("RQ.PUSH q x y", "ERR syntax error: unknown or misplaced option \"y\""),
        ("RQ.PUSH q x COUNT 1", "ERR syntax error: unknown or misplaced option \"COUNT\""),
        ("RQ.PUSH text x", "WRONGTYPE "),
        ("RQ.PUSH new x DELAY -1", "ERR DELAY must be"),
        ("RQ.MPUSH q 0 x", "ERR n must be an integer from 1 to 10000, not \"0\""),
        ("RQ.MPUSH q 10001 x", "ERR n must be an integer from 1 to 10000"),
        ("RQ.MPUSH q 3 x y", "ERR RQ.MPUSH announces 3 payloads, but fewer follow"),
        ("RQ.MPUSH q 1 x y", "ERR syntax error: unknown or misplaced option \"y\""),
        ("RQ.MPUSH q 2 x y PRIORITY 1000", "ERR PRIORITY must be"),
        ("RQ.MPUSH q 2", "ERR wrong number of arguments"),
        ("RQ.MPUSH text 1 x", "WRONGTYPE "),
    ] {
        s.refused(line, error);
    }
    assert_eq!(s.run("EXISTS new"), 0);
    s.verify();
}
