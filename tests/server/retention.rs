//! What is kept of finished and dead jobs, and what does not fit: KEEPDONE and KEEPDEAD with
//! their measures, RQ.TRIM, RESULT, MAXLIVE and MAXLIVEBYTES. Cases B30, B31, B33.

use crate::harness::{check_equal, wait_until, Client, Scene, Server, Stop};

const HOUR: i64 = 3_600_000;

/// Pushes and finishes jobs one after the other.
fn finish(c: &Client, payloads: &[&str]) -> Vec<String> {
    let finish = |payload: &&str| {
        let id = c.push(format!("q {payload}"));
        let job = c.lease_one("q w");
        assert_eq!(c.codes(format!("RQ.ACK q {job}")), [1]);
        id
    };
    payloads.iter().map(finish).collect()
}

/// Pushes jobs and sends them to dead one after the other.
fn bury(c: &Client, payloads: &[&str]) -> Vec<String> {
    let bury = |payload: &&str| {
        let id = c.push(format!("q {payload}"));
        let job = c.lease_one("q w");
        assert_eq!(c.codes(format!("RQ.NACK q {job} DEAD")), [2]);
        id
    };
    payloads.iter().map(bury).collect()
}

#[test]
fn b30_without_keepdone_a_finished_job_is_gone() {
    let s = Scene::new();
    let ids = finish(&s, &["a"]);
    assert_eq!(s.state("q", &ids[0]), "gone");
    assert_eq!(s.info("q").ints(["done", "done-bytes", "acked-total", "trimmed-total"]), [0, 0, 1, 0]);
    s.verify();
}

#[test]
fn keepdone_by_number() {
    let s = Scene::new();
    s.run("RQ.CREATE q KEEPDONE 3");
    let ids = finish(&s, &["a", "b", "c", "d", "e"]);
    assert_eq!(s.peek("q", "DONE"), ["c", "d", "e"]);
    assert_eq!(s.state("q", &ids[0]), "gone");
    assert_eq!(s.info("q").ints(["done", "done-bytes", "length", "acked-total"]), [3, 3, 0, 5]);
    let job = s.job("q", &ids[4]);
    assert!(job.int("done-at") >= job.int("last-delivered-at"));
    assert_eq!((job["consumer"].text(), job["result"].text()), ("w", ""));
    // The policy is read when it is used.
    s.run("RQ.ALTER q KEEPDONE 1");
    wait_until("the new bound", || s.peek("q", "DONE") == ["e"]);
    s.run("RQ.ALTER q KEEPDONE -1");
    finish(&s, &["f", "g"]);
    assert_eq!(s.peek("q", "DONE"), ["e", "f", "g"]);
    s.verify();
}

#[test]
fn b31_keepdone_by_bytes() {
    let s = Scene::new();
    s.run("RQ.CREATE q KEEPDONE -1 KEEPDONEBYTES 10");
    finish(&s, &["aaaa", "bbbb", "cc"]);
    assert_eq!(s.info("q").ints(["done", "done-bytes"]), [3, 10]);
    finish(&s, &["d"]);
    assert_eq!(s.peek("q", "DONE"), ["bbbb", "cc", "d"]);
    finish(&s, &["eeeeeeeeeeeeeeeeeeee"]);
    assert_eq!(s.info("q").ints(["done", "done-bytes"]), [0, 0], "it does not fit at all");
    // A result counts too.
    s.push("q ff");
    let job = s.lease_one("q w");
    s.codes(format!("RQ.ACK q {job} RESULT 12345678"));
    assert_eq!(s.info("q").int("done"), 1);
    finish(&s, &["g"]);
    assert_eq!(s.peek("q", "DONE"), ["g"], "11 bytes with the result");
    s.verify();
}

#[test]
fn b31_keepdone_by_age_on_an_idle_server() {
    let mut s = Scene::new();
    s.run("RQ.CREATE q KEEPDONE -1 KEEPDONEMS 3600000 LEASE 36000000");
    s.push("q slow PRIORITY 1");
    let slow = s.lease_one("q w");
    finish(&s, &["a", "b"]);
    s.advance(HOUR / 2);
    s.codes(format!("RQ.ACK q {slow}"));
    s.check();
    s.advance(HOUR / 2);
    wait_until("the timer", || s.peek("q", "DONE") == ["slow"]);
    s.advance(HOUR / 2 + 1);
    wait_until("the clock starts at completion", || s.run("RQ.LEN q DONE") == 0);
    s.verify();
}

#[test]
fn keepdead_by_number_bytes_and_age_is_told() {
    let mut s = Scene::new();
    s.run("RQ.CREATE q KEEPDEAD 2 LEASE 36000000");
    bury(&s, &["a", "b", "c"]);
    assert_eq!(s.peek("q", "DEAD"), ["b", "c"]);
    assert_eq!(s.info("q").ints(["dead", "dead-total", "dead-dropped-total"]), [2, 3, 1]);
    s.run("RQ.ALTER q KEEPDEAD -1 KEEPDEADBYTES 4");
    bury(&s, &["dd", "ee"]);
    assert_eq!(s.peek("q", "DEAD"), ["dd", "ee"]);
    assert_eq!(s.info("q").int("dead-dropped-total"), 3);
    s.run("RQ.ALTER q KEEPDEADBYTES -1 KEEPDEADMS 3600000");
    s.check();
    s.advance(HOUR + 1);
    wait_until("the timer", || s.run("RQ.LEN q DEAD") == 0);
    assert_eq!(s.info("q").ints(["dead-dropped-total", "dead-total"]), [5, 5]);
    s.run("RQ.ALTER q KEEPDEADMS -1 KEEPDEAD 0");
    let ids = bury(&s, &["f"]);
    assert_eq!(s.state("q", &ids[0]), "gone");
    assert_eq!(s.info("q").int("dead-dropped-total"), 6);
    s.verify();
}

#[test]
fn b33_retention_touches_nothing_that_is_still_to_be_done() {
    let mut s = Scene::new();
    s.run("RQ.CREATE q KEEPDONE 0 KEEPDEAD 0 KEEPDONEMS 0 KEEPDEADMS 0 KEEPDONEBYTES 0 KEEPDEADBYTES 0 LEASE 360000000");
    s.push("q leased");
    s.lease_one("q w");
    s.push("q ready");
    s.push("q delayed DELAY 36000000");
    s.advance(HOUR);
    finish(&s, &[]);
    for bound in ["MAXLEN 0", "MAXAGE 0", "MAXBYTES 0"] {
        assert_eq!(s.unchanged(|| s.run(format!("RQ.TRIM q {bound}"))), 0);
    }
    assert_eq!(s.info("q").ints(["ready", "delayed", "leased"]), [1, 1, 1]);
    s.verify();
}

#[test]
fn b33_trim() {
    let mut s = Scene::new();
    s.run("RQ.CREATE q KEEPDONE -1 LEASE 36000000");
    finish(&s, &["a", "b", "c"]);
    bury(&s, &["dead"]);
    s.push("q live");
    s.advance(HOUR);
    finish(&s, &["d", "e", "f"]);
    s.run("RQ.PURGE q READY");
    finish(&s, &["g"]);
    assert_eq!(s.run("RQ.TRIM q MAXLEN 6"), 1);
    assert_eq!(s.run("RQ.TRIM q MAXAGE 1800000 COUNT 1"), 1);
    assert_eq!(s.peek("q", "DONE")[0], "c");
    assert_eq!(s.run("RQ.TRIM q MAXAGE 1800000"), 1);
    assert_eq!(s.run("RQ.TRIM q MAXAGE 1800000"), 0);
    let done = s.info("q").int("done-bytes");
    assert_eq!(s.run(format!("RQ.TRIM q MAXBYTES {}", done - 1)), 1);
    assert_eq!(s.info("q").ints(["dead", "trimmed-total"]), [1, 4]);
    assert_eq!(s.run("RQ.TRIM q MAXLEN 0 COUNT 2"), 2);
    assert_eq!(s.run("RQ.TRIM q MAXLEN 0"), s.info("q").int("trimmed-total") - 6);
    assert_eq!((s.run("RQ.LEN q DONE").int(), s.run("RQ.LEN q DEAD").int()), (0, 1));
    assert_eq!(s.run("RQ.TRIM none MAXLEN 0"), 0);
    for (options, error) in [
        ("", "ERR wrong number of arguments"),
        ("MAXLEN", "ERR "),
        ("COUNT 5", "ERR syntax error: RQ.TRIM needs MAXLEN, MAXAGE or MAXBYTES"),
        ("MAXLEN -1", "ERR MAXLEN must be an integer from 0 to 1000000000, not \"-1\""),
        ("MAXAGE x", "ERR MAXAGE must be an integer from 0 to 315360000000, not \"x\""),
        ("MAXBYTES 1.5", "ERR MAXBYTES must be an integer from 0 to "),
        ("MAXLEN 5 MAXAGE 5", "ERR syntax error: MAXAGE was given twice, or beside an option that excludes it"),
        ("MAXLEN 5 COUNT 0", "ERR COUNT must be an integer from 1 to 10000, not \"0\""),
        ("MAXLEN 5 EVER", "ERR syntax error: unknown or misplaced option \"EVER\""),
    ] {
        s.refused(format!("RQ.TRIM q {options}"), error);
    }
    s.verify();
}

#[test]
fn results_are_kept_with_the_jobs() {
    let s = Scene::new();
    s.run("RQ.CREATE q KEEPDONE 10 LEASE 36000000");
    s.run("RQ.MPUSH q 2 a b");
    let jobs = s.lease("q w COUNT 2");
    let words: Vec<Vec<u8>> = format!("RQ.ACK q {} {} RESULT", jobs[0], jobs[1]).split(' ').map(|word| word.as_bytes().to_vec()).collect();
    let result = b"\0 RESULT \r\n\xff".to_vec();
    let reply = s.cmd(&[words, vec![result.clone()]].concat());
    assert_eq!(reply.ints(), [1, 1]);
    for job in &jobs {
        assert_eq!(s.job("q", &job.id)["result"].bytes(), result);
        // The same acknowledgement again: the same code, and nothing changes.
        assert_eq!(s.unchanged(|| s.codes(format!("RQ.ACK q {job} RESULT other"))), [1]);
    }
    assert_eq!(s.run("RQ.PURGE q DONE COUNT 1"), 1);
    for (options, error) in [
        ("RESULT", "ERR syntax error: RESULT needs a value after it"),
        ("RESULT a RESULT b", "ERR syntax error: RESULT was given twice"),
    ] {
        s.refused(format!("RQ.ACK q {} {options}", jobs[1]), error);
    }
    s.verify();
}

#[test]
fn maxlive() {
    let s = Scene::new();
    s.run("RQ.CREATE q MAXLIVE 3 LEASE 36000000 BACKOFF 36000000 36000000 JITTER none");
    s.run("RQ.MPUSH q 2 a b");
    s.refused("RQ.MPUSH q 2 c d", "FULL the queue holds 2 live jobs and MAXLIVE is 3: push again later, ");
    s.push("q c DELAY 36000000");
    s.refused("RQ.PUSH q d", "FULL the queue holds 3 live jobs and MAXLIVE is 3");
    let jobs = s.lease("q w COUNT 2");
    s.refused("RQ.PUSH q d", "FULL ");
    assert_eq!(s.info("q").int("local-full"), 3);
    // What returns always fits.
    s.codes(format!("RQ.NACK q {} DEAD", jobs[0]));
    s.push("q d");
    assert_eq!(s.codes(format!("RQ.REDRIVE q {}", jobs[0].id)), [1]);
    assert_eq!(s.codes(format!("RQ.NACK q {}", jobs[1])), [1]);
    assert_eq!(s.run("RQ.LEN q"), 4);
    s.refused("RQ.PUSH q e", "FULL the queue holds 4 live jobs and MAXLIVE is 3");
    s.run("RQ.ALTER q MAXLIVE 5");
    s.push("q e");
    s.run("RQ.ALTER q MAXLIVE 0");
    s.refused("RQ.PUSH q f", "FULL ");
    s.run("RQ.ALTER q MAXLIVE -1");
    s.push("q f");
    assert_eq!(s.run("RQ.LEN q"), 6, "nothing was dropped to make room");
    s.verify();
}

#[test]
fn maxlivebytes() {
    let s = Scene::new();
    s.run("RQ.CREATE q MAXLIVEBYTES 10 LEASE 36000000 KEEPDONE 10");
    s.push("q 1234567");
    s.refused("RQ.PUSH q 1234", "FULL the queue holds 7 live bytes and MAXLIVEBYTES is 10");
    s.push("q 123");
    s.refused("RQ.PUSH q x", "FULL ");
    let job = s.lease_one("q w");
    s.refused("RQ.PUSH q x", "FULL ");
    s.codes(format!("RQ.ACK q {job}"));
    s.push("q 1234567");
    assert_eq!(s.info("q").ints(["ready-bytes", "done-bytes"]), [10, 7], "finished ones do not count");
    s.verify();
}

#[test]
fn limits_and_dedup() {
    let s = Scene::new();
    s.run("RQ.CREATE q MAXLIVE 1 MAXLIVEBYTES 10 LEASE 36000000");
    s.run("RQ.PUSH q 12345 DEDUP k");
    // A duplicate adds nothing, so it is not refused.
    assert_eq!(s.unchanged(|| s.run("RQ.PUSH q 1234567890 DEDUP k").array()[1].int()), 0);
    s.refused("RQ.PUSH q x DEDUP other", "FULL ");
    let job = s.lease_one("q w");
    // One that is held adds its bytes.
    assert_eq!(s.run("RQ.PUSH q 12345 DEDUP k KEEPLAST").array()[1], 3);
    s.refused("RQ.PUSH q 123456 DEDUP k KEEPLAST", "FULL ");
    // It fits when its time comes.
    s.run("RQ.ALTER q MAXLIVE 0");
    s.codes(format!("RQ.ACK q {job}"));
    assert_eq!(s.peek("q", "READY"), ["12345"]);
    s.verify();
}

#[test]
fn the_options_and_their_refusals() {
    let s = Scene::new();
    s.run("RQ.CREATE q");
    let names = ["keepdone", "keepdonems", "keepdonebytes", "keepdead", "keepdeadms", "keepdeadbytes", "maxlive", "maxlivebytes"];
    assert_eq!(s.info("q").ints(names), [0, -1, -1, -1, -1, -1, -1, -1]);
    for (n, name) in names.iter().enumerate() {
        assert_eq!(s.run(format!("RQ.ALTER q {name} {}", n + 5)), "OK");
        assert_eq!(s.info("q").int(name), n as i64 + 5);
        let upper = name.to_uppercase();
        for value in ["-2", "x", "1.5", "99999999999999999999"] {
            let range = if upper.ends_with("MS") { "315360000000" } else if upper.ends_with("BYTES") { "9007199254740992" } else { "1000000000" };
            s.refused(format!("RQ.ALTER q {name} {value}"), &format!("ERR {upper} must be an integer from -1 to {range}, not \"{value}\""));
        }
        s.refused(format!("RQ.CREATE q {name}"), &format!("ERR syntax error: {upper} needs a value after it"));
    }
    s.verify();
}

#[test]
fn retention_goes_on_after_a_crash_and_on_a_promoted_replica() {
    let mut server = Server::with(&["appendonly yes", "appendfsync always"]);
    server.run("RQ.CREATE q KEEPDONE -1 KEEPDONEMS 3600000 KEEPDEADMS 7200000");
    finish(&server, &["a", "b"]);
    bury(&server, &["c"]);
    server.restart(Stop::Kill);
    assert_eq!(server.peek("q", "DONE"), ["a", "b"]);
    let mut replica = server.replica(&[]);
    replica.advance(HOUR + 1);
    let now = replica.now();
    replica.wait_past(now + 300);
    assert_eq!(replica.run("RQ.LEN q DONE"), 2, "a replica does nothing by itself");
    replica.run("REPLICAOF NO ONE");
    wait_until("the new primary's timer", || replica.run("RQ.LEN q DONE") == 0);
    server.restart_later(2 * HOUR + 1);
    wait_until("the timer", || server.run("RQ.LEN q DONE") == 0 && server.run("RQ.LEN q DEAD") == 0);
    replica.advance(HOUR);
    wait_until("the timer", || replica.run("RQ.LEN q DEAD") == 0);
    server.follow(&replica);
    check_equal(&replica, &server);
}
