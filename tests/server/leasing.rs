//! RQ.LEASE and RQ.ACKLEASE: every option, every refusal.

use crate::harness::{ids, jobs, stock, Scene};

#[test]
fn lease_replies_all_about_the_job() {
    let s = Scene::new();
    let id = s.push("q hello");
    let before = s.now();
    let reply = s.run("RQ.LEASE q worker-1 LEASE 7200000");
    let job = jobs(&reply).remove(0);
    assert_eq!(reply.array()[0].array().len(), 5);
    assert_eq!((job.id.as_str(), job.deliveries, job.text().as_str(), job.lease_ms), (id.as_str(), 1, "hello", 7_200_000));
    let seen = s.job("q", &id);
    assert_eq!(seen["state"], "leased");
    assert_eq!(seen["consumer"], "worker-1");
    assert_eq!(seen.ints(["token", "deliveries", "total-deliveries", "lease-ms"]), [job.token, 1, 1, 7_200_000]);
    let delivered = seen.int("last-delivered-at");
    assert!((before - 1..before + 600_000).contains(&delivered), "{delivered}");
    assert_eq!(seen.ints(["first-delivered-at", "deadline"]), [delivered, delivered + 7_200_000]);
    assert_eq!(s.info("q").ints(["ready", "leased", "length", "delivered-total"]), [0, 1, 1, 1]);
    s.verify();
}

#[test]
fn nothing_to_lease_is_null_and_changes_nothing() {
    let s = Scene::new();
    assert!(s.unchanged(|| s.run("RQ.LEASE absent w").is_null()));
    assert_eq!(s.run("EXISTS absent"), 0, "LEASE makes no queue");
    s.run("RQ.CREATE q");
    assert!(s.unchanged(|| s.run("RQ.LEASE q w COUNT 5 META").is_null()));
    s.push("q x DELAY 7200000");
    assert!(s.unchanged(|| s.run("RQ.LEASE q w").is_null()));
    s.verify();
}

#[test]
fn count_takes_what_is_there() {
    let s = Scene::new();
    let pushed = s.run("RQ.MPUSH q 5 a b c d e").texts();
    assert_eq!(ids(&s.lease("q w LEASE 7200000")), pushed[..1], "one by default");
    assert_eq!(ids(&s.lease("q w COUNT 3 LEASE 7200000")), pushed[1..4]);
    assert_eq!(ids(&s.lease("q w COUNT 10000 LEASE 7200000")), pushed[4..]);
    assert!(s.lease("q w COUNT 10").is_empty());
    s.verify();
}

#[test]
fn whose_lease_counts() {
    let s = Scene::new();
    s.run("RQ.CREATE q LEASE 3600000");
    s.push("q own LEASE 10800000");
    s.push("q plain");
    s.push("q plain");
    assert_eq!(s.lease_one("q w LEASE 7200000").lease_ms, 10_800_000, "the job's");
    assert_eq!(s.lease_one("q w LEASE 7200000").lease_ms, 7_200_000, "else the call's");
    assert_eq!(s.lease_one("q w").lease_ms, 3_600_000, "else the policy's");
    s.verify();
}

#[test]
fn the_default_lease_is_30_seconds() {
    let s = Scene::new();
    s.push("q x");
    let job = s.lease_one("q w");
    assert_eq!(job.lease_ms, 30_000);
    let seen = s.job("q", &job.id);
    assert_eq!(seen.int("deadline") - seen.int("last-delivered-at"), 30_000);
    s.verify();
}

#[test]
fn maxbytes_bounds_a_reply_but_the_first_job_always_comes() {
    let s = Scene::new();
    s.run("RQ.CREATE q LEASE 7200000");
    s.run("RQ.MPUSH q 5 aaaaaaaaaa bbbbb ccccc ddddd e");
    let texts = |jobs: &[crate::harness::Job]| jobs.iter().map(|job| job.text()).collect::<Vec<_>>().join(" ");
    assert_eq!(texts(&s.lease("q w COUNT 5 MAXBYTES 3")), "aaaaaaaaaa");
    assert_eq!(texts(&s.lease("q w COUNT 5 MAXBYTES 10")), "bbbbb ccccc");
    assert_eq!(texts(&s.lease("q w COUNT 5 MAXBYTES 5")), "ddddd");
    assert_eq!(texts(&s.lease("q w COUNT 5 MAXBYTES 1")), "e");
    s.verify();
}

#[test]
fn meta_appends_the_map_of_get_without_the_payload() {
    let s = Scene::new();
    s.push("q hello PRIORITY 7 MAXDELIVERIES 9");
    let job = s.lease_one("q w LEASE 7200000 META");
    let meta = job.meta.clone().expect("META");
    let mut seen = s.job("q", &job.id);
    seen.0.retain(|(name, _)| name != "payload");
    assert_eq!(meta, seen);
    assert_eq!(meta.ints(["priority", "max-deliveries", "deliveries", "size", "token"]), [7, 9, 1, 5, job.token]);
    s.verify();
}

#[test]
fn tokens_come_from_the_clock_and_grow() {
    let mut s = Scene::new();
    s.run("RQ.MPUSH q 20 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20");
    let before = s.now();
    let tokens: Vec<i64> = s.lease("q w COUNT 20 LEASE 7200000").iter().map(|job| job.token).collect();
    assert!(tokens.windows(2).all(|pair| pair[0] < pair[1]), "{tokens:?}");
    assert!(tokens[0] >= (before - 1) * 1000 && tokens[19] < 1 << 53, "{tokens:?}");
    // Also over the deletion of the whole queue: another one cannot start anew.
    s.run("DEL q");
    s.advance(5);
    s.push("q again");
    assert!(s.lease_one("q w LEASE 7200000").token > tokens[19]);
    s.verify();
}

#[test]
fn block_does_not_wait_when_there_is_a_job() {
    let s = Scene::new();
    s.push("q x");
    assert_eq!(s.lease_one("q w BLOCK 0 LEASE 7200000").text(), "x");
    s.verify();
}

#[test]
fn acklease_finishes_and_takes_the_next() {
    let s = Scene::new();
    s.run("RQ.CREATE q LEASE 7200000");
    s.run("RQ.MPUSH q 4 a b c d");
    let a = s.lease_one("q w");
    let reply = s.run(format!("RQ.ACKLEASE q {a} w COUNT 2 META"));
    assert_eq!(reply.array()[0], 1);
    let next = jobs(&reply.array()[1]);
    assert_eq!(next.iter().map(|job| job.text()).collect::<String>(), "bc");
    assert!(next.iter().all(|job| job.meta.is_some()));
    assert_eq!(s.state("q", &a.id), "gone");
    // A code that is not 1 does not keep it from leasing.
    let reply = s.run(format!("RQ.ACKLEASE q {} 1 w", next[0].id));
    assert_eq!(reply.array()[0], 0);
    let d = jobs(&reply.array()[1]).remove(0);
    assert_eq!(d.text(), "d");
    let reply = s.run(format!("RQ.ACKLEASE q {a} w"));
    assert_eq!(reply.array()[0], -1);
    assert!(reply.array()[1].is_null());
    // The acknowledgement counts even if there is nothing to lease.
    let reply = s.run(format!("RQ.ACKLEASE q {d} w"));
    assert_eq!(reply.array()[0], 1);
    assert!(reply.array()[1].is_null());
    assert_eq!(s.state("q", &d.id), "gone");
    assert_eq!(s.info("q").ints(["acked-total", "leased", "ready"]), [2, 2, 0]);
    s.verify();
}

#[test]
fn acklease_on_nothing() {
    let s = Scene::new();
    let reply = s.unchanged(|| s.run("RQ.ACKLEASE absent 1700000000000-0 1 w"));
    assert_eq!(reply.array()[0], -1);
    assert!(reply.array()[1].is_null());
    assert_eq!(s.run("EXISTS absent"), 0);
    s.verify();
}

#[test]
fn refusals() {
    let s = Scene::new();
    let q = stock(&s, "q");
    s.run("SET text x");
    let ack = format!("RQ.ACKLEASE q {}", q.leased);
    for (line, error) in [
        ("RQ.LEASE q", "ERR wrong number of arguments"),
        ("RQ.LEASE q w COUNT 0", "ERR COUNT must be an integer from 1 to 10000, not \"0\""),
        ("RQ.LEASE q w COUNT 10001", "ERR COUNT must be an integer from 1 to 10000, not \"10001\""),
        ("RQ.LEASE q w COUNT -1", "ERR COUNT must be an integer"),
        ("RQ.LEASE q w LEASE 0", "ERR LEASE must be an integer from 1 to 31536000000, not \"0\""),
        ("RQ.LEASE q w BLOCK -1", "ERR BLOCK must be an integer from 0 to 315360000000, not \"-1\""),
        ("RQ.LEASE q w BLOCK 1e3", "ERR BLOCK must be an integer"),
        ("RQ.LEASE q w MAXBYTES 0", "ERR MAXBYTES must be an integer from 1 to"),
        ("RQ.LEASE q w META META", "ERR syntax error: META was given twice"),
        ("RQ.LEASE q w COUNT", "ERR syntax error: COUNT needs a value"),
        ("RQ.LEASE q w NOWAIT", "ERR syntax error: unknown or misplaced option \"NOWAIT\""),
        ("RQ.LEASE text w", "WRONGTYPE "),
        ("RQ.LEASE text w BLOCK 0", "WRONGTYPE "),
        (ack.as_str(), "ERR wrong number of arguments"),
        (&format!("{ack} w COUNT x"), "ERR COUNT must be an integer"),
        (&format!("{ack} w {}", q.leased), "ERR syntax error: unknown or misplaced option"),
        ("RQ.ACKLEASE q 1-2-3 5 w", "ERR \"1-2-3\" is not a job id"),
        (&format!("RQ.ACKLEASE q {} -5 w", q.leased.id), "ERR the token must be an integer from 0 to 9007199254740991, not \"-5\""),
        ("RQ.ACKLEASE text 1700000000000-0 1 w", "WRONGTYPE "),
    ] {
        s.refused(line, error);
    }
    let long = "c".repeat(1025);
    s.refused(format!("RQ.LEASE q {long}"), "ERR a consumer's name has at most 1024 bytes, not 1025");
    assert_eq!(s.lease_one(format!("q {}", &long[..1024])).id, q.ready);
    s.verify();
}
