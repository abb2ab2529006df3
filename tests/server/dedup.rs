//! DEDUP in all its forms: who owns a key, when it is free again, what is replaced and what held.
//! Cases B25, B28, B29; B26 is in `core/tests/dedup.rs`.

use crate::harness::{check_equal, wait_until, Client, Reply, Scene, Server, Stop};

/// The reply of RQ.PUSH with DEDUP.
#[track_caller]
fn pair(reply: &Reply) -> (String, i64) {
    let [id, code] = reply.array() else { panic!("not [id, code]: {reply:?}") };
    (id.text().to_owned(), code.int())
}

#[track_caller]
fn push(c: &Client, line: &str) -> (String, i64) {
    pair(&c.run(format!("RQ.PUSH {line}")))
}

const HOUR: i64 = 3_600_000;

#[test]
fn b29_the_first_one_wins_and_its_id_is_told() {
    let s = Scene::new();
    let (first, code) = push(&s, "q a DEDUP k");
    assert_eq!(code, 1);
    assert_eq!(s.unchanged(|| push(&s, "q b DEDUP k PRIORITY 9")), (first.clone(), 0));
    let (other, code) = push(&s, "q b DEDUP other");
    assert_eq!(code, 1);
    assert_ne!(other, first);
    assert_eq!(s.job("q", &first)["dedup"], "k");
    assert_eq!(s.peek("q", "READY"), ["a", "b"]);
    assert_eq!(s.info("q").ints(["local-duplicates", "dedup-keys", "pushed-total"]), [1, 2, 2]);
    // A job without a key has nothing to do with it.
    s.push("q c");
    s.verify();
}

#[test]
fn b25_the_owner_keeps_its_key_in_every_state_in_which_it_is_to_be_done() {
    let s = Scene::new();
    s.run("RQ.CREATE q LEASE 7200000 BACKOFF 7200000 7200000 JITTER none");
    let (id, _) = push(&s, "q a DEDUP k DELAY 7200000");
    let is_owner = |what: &str| assert_eq!(push(&s, "q b DEDUP k"), (id.clone(), 0), "{what}");
    is_owner("scheduled");
    s.run(format!("RQ.SET q {id} DELAY 0"));
    is_owner("ready");
    let job = s.lease_one("q w");
    is_owner("leased");
    s.codes(format!("RQ.NACK q {job}"));
    is_owner("retrying");
    s.run(format!("RQ.SET q {id} DELAY 0"));
    let job = s.lease_one("q w");
    s.codes(format!("RQ.RELEASE q {job}"));
    is_owner("released");
    s.lease_one("q w");
    s.run(format!("RQ.REAP q ID {id}"));
    is_owner("expired");
    s.verify();
}

#[test]
fn b28_every_end_frees_the_key_in_that_moment() {
    let s = Scene::new();
    s.run("RQ.CREATE q LEASE 7200000 KEEPDONE 100");
    let mut last = push(&s, "q a DEDUP k").0;
    for end in ["ACK", "NACK DEAD", "DEL", "DEL DEDUP", "PURGE", "LATE ACK", "EXPIRIES"] {
        let job = (end != "PURGE").then(|| s.lease_one("q w"));
        match (end, job) {
            ("ACK", Some(job)) => assert_eq!(s.codes(format!("RQ.ACK q {job}")), [1]),
            ("NACK DEAD", Some(job)) => assert_eq!(s.codes(format!("RQ.NACK q {job} DEAD")), [2]),
            ("DEL", Some(job)) => assert_eq!(s.run(format!("RQ.DEL q {}", job.id)), 1),
            ("DEL DEDUP", Some(_)) => assert_eq!(s.run("RQ.DEL q DEDUP k none"), 1),
            ("LATE ACK", Some(job)) => {
                s.run(format!("RQ.REAP q ID {}", job.id));
                assert_eq!(s.codes(format!("RQ.ACK q {job}")), [1]);
            }
            ("EXPIRIES", Some(job)) => {
                s.run("RQ.ALTER q MAXEXPIRIES 1");
                s.run(format!("RQ.REAP q ID {}", job.id));
                assert_eq!(s.state("q", &job.id), "dead");
            }
            _ => assert_eq!(s.run("RQ.PURGE q READY"), 1),
        }
        assert_eq!(s.info("q").int("dedup-keys"), 0, "{end}");
        let (id, code) = push(&s, "q a DEDUP k");
        assert_eq!(code, 1, "{end}");
        assert!(id > last, "{end}");
        last = id;
    }
    s.verify();
}

#[test]
fn a_key_is_freed_by_its_owner_only() {
    let s = Scene::new();
    s.run("RQ.CREATE q LEASE 7200000 KEEPDONE 100");
    let (dead, _) = push(&s, "q a DEDUP k");
    let job = s.lease_one("q w");
    s.codes(format!("RQ.NACK q {job} DEAD"));
    let (owner, code) = push(&s, "q b DEDUP k");
    assert_eq!(code, 1);
    // The dead one still carries the key's name. Neither its late end nor its removal frees it.
    assert_eq!(s.codes(format!("RQ.REDRIVE q {dead}")), [-2]);
    assert_eq!(s.run("RQ.REDRIVE q COUNT 10").ints(), [0, 1, 0], "skipped");
    assert_eq!(s.run("RQ.GET q DEDUP k").fields()["id"], owner);
    assert_eq!(s.run(format!("RQ.DEL q {dead}")), 1);
    assert_eq!(push(&s, "q c DEDUP k"), (owner.clone(), 0));
    let job = s.lease_one("q w");
    s.codes(format!("RQ.ACK q {job}"));
    assert_eq!(push(&s, "q c DEDUP k").1, 1);
    s.verify();
}

#[test]
fn a_redriven_job_takes_its_key_again() {
    let s = Scene::new();
    s.run("RQ.CREATE q LEASE 7200000");
    let (id, _) = push(&s, "q a DEDUP k");
    let job = s.lease_one("q w");
    s.codes(format!("RQ.NACK q {job} DEAD"));
    assert_eq!(s.codes(format!("RQ.REDRIVE q {id}")), [1]);
    assert_eq!(push(&s, "q b DEDUP k"), (id, 0));
    s.verify();
}

#[test]
fn b25_a_window_stays_whatever_becomes_of_the_job() {
    let mut s = Scene::new();
    s.run("RQ.CREATE q LEASE 7200000");
    let (id, code) = push(&s, "q a DEDUP k WINDOW 3600000");
    assert_eq!(code, 1);
    let job = s.lease_one("q w");
    assert_eq!(s.codes(format!("RQ.ACK q {job}")), [1]);
    assert_eq!(s.state("q", &id), "gone");
    assert_eq!(push(&s, "q a DEDUP k WINDOW 3600000"), (id.clone(), 0), "a client that resends");
    assert_eq!(push(&s, "q a DEDUP k"), (id.clone(), 0), "the window is the owner's");
    assert!(s.run("RQ.GET q DEDUP k").is_null());
    s.check();
    s.advance(HOUR + 1);
    let (again, code) = push(&s, "q a DEDUP k WINDOW 3600000");
    assert_eq!(code, 1, "not put off by duplicates");
    // DEL ends the window; so the message can be sent again.
    assert_eq!(s.run(format!("RQ.DEL q {again}")), 1);
    assert_eq!(push(&s, "q a DEDUP k WINDOW 3600000").1, 1);
    s.verify();
}

#[test]
fn a_window_that_ends_frees_the_key_of_a_job_that_is_still_there() {
    let mut s = Scene::new();
    let (id, _) = push(&s, "q a DEDUP k WINDOW 3600000");
    s.advance(HOUR + 1);
    let (second, code) = push(&s, "q b DEDUP k WINDOW 7200000");
    assert_eq!((code, s.run("RQ.LEN q").int()), (1, 2));
    // The first one's end is not that of the second one's window.
    assert_eq!(s.run(format!("RQ.DEL q {id}")), 1);
    assert_eq!(push(&s, "q c DEDUP k"), (second, 0));
    s.verify();
}

#[test]
fn windows_close_by_the_timer_on_an_idle_server() {
    let mut s = Scene::new();
    for n in 0..50 {
        push(&s, &format!("q {n} DEDUP k{n} WINDOW {}", HOUR + n));
    }
    push(&s, "q x DEDUP later WINDOW 36000000");
    s.run("RQ.PURGE q READY");
    push(&s, "q x DEDUP plain");
    for n in 0..50 {
        assert_eq!(push(&s, &format!("q {n} DEDUP k{n} WINDOW {HOUR}")).1, 1, "PURGE removes as DEL does");
    }
    let jobs = s.lease("q w COUNT 100 LEASE 36000000");
    for job in &jobs {
        s.codes(format!("RQ.ACK q {job}"));
    }
    assert_eq!(s.info("q").int("dedup-keys"), 50);
    s.advance(HOUR + 1);
    wait_until("the windows' end", || s.info("q").int("dedup-keys") == 0);
    s.verify();
}

#[test]
fn replace_debounces() {
    let mut s = Scene::new();
    let (id, code) = push(&s, "q one DEDUP k REPLACE DELAY 600000 PRIORITY 1");
    assert_eq!(code, 1);
    let first_due = s.job("q", &id).int("due-at");
    s.advance(300_000);
    assert_eq!(push(&s, "q two! DEDUP k REPLACE DELAY 600000 PRIORITY 5"), (id.clone(), 2));
    let job = s.job("q", &id);
    assert_eq!((job["payload"].text(), job["state"].text(), job.int("priority")), ("two!", "delayed", 5));
    assert!(job.int("due-at") >= first_due + 300_000, "put off");
    assert_eq!(s.info("q").ints(["length", "delayed-bytes", "pushed-total"]), [1, 4, 1]);
    // A duplicate without REPLACE leaves it alone.
    assert_eq!(push(&s, "q three DEDUP k"), (id.clone(), 0));
    assert_eq!(s.peek("q", "DELAYED"), ["two!"]);
    // Without DELAY it is ready at once, and one that is ready can be put off again.
    assert_eq!(push(&s, "q now DEDUP k REPLACE"), (id.clone(), 2));
    assert_eq!((s.peek("q", "READY"), s.job("q", &id).int("priority")), (vec!["now".into()], 0));
    assert_eq!(push(&s, "q later DEDUP k REPLACE DELAY 600000"), (id.clone(), 2));
    assert_eq!(s.state("q", &id), "delayed");
    s.verify();
}

#[test]
fn maxwait_bounds_how_long_replacing_may_put_off() {
    let mut s = Scene::new();
    let line = "q x DEDUP k REPLACE MAXWAIT 1000000 DELAY 600000";
    let (id, _) = push(&s, line);
    let pushed = s.job("q", &id).int("pushed-at");
    for _ in 0..5 {
        s.advance(150_000);
        assert_eq!(push(&s, line), (id.clone(), 2));
        let due = s.job("q", &id).int("due-at");
        assert!(due <= pushed + 1_000_000, "{} ms after the first push", due - pushed);
    }
    assert_eq!(s.job("q", &id).int("due-at"), pushed + 1_000_000);
    s.advance(300_000);
    wait_until("the bound", || s.state("q", &id) == "ready");
    assert_eq!(push(&s, line), (id.clone(), 2));
    assert_eq!(s.state("q", &id), "ready", "it is not put off any more");
    s.verify();
}

#[test]
fn keeplast_holds_the_newest_until_the_owner_ends() {
    let s = Scene::new();
    s.run("RQ.CREATE q LEASE 7200000 BACKOFF 7200000 7200000 JITTER none");
    for end in ["ACK", "NACK DEAD", "DEL", "DEL DEDUP"] {
        let (id, code) = push(&s, "q one DEDUP k KEEPLAST");
        assert_eq!(code, 1);
        assert_eq!(s.unchanged(|| push(&s, "q lost DEDUP k KEEPLAST")), (id.clone(), 0), "it waits: nothing to hold");
        let job = s.lease_one("q w");
        assert_eq!(push(&s, "q two DEDUP k KEEPLAST"), (id.clone(), 3));
        assert_eq!(push(&s, "q three PRIORITY 3 GROUP g TTL 7200000 DEDUP k KEEPLAST"), (id.clone(), 3));
        assert_eq!(push(&s, "q plain DEDUP k"), (id.clone(), 0));
        let info = s.info("q");
        assert_eq!(info.ints(["length", "held-duplicates", "held-bytes"]), [1, 1, 5], "counted in bytes, not as a job");
        s.check();
        match end {
            "ACK" => assert_eq!(s.codes(format!("RQ.ACK q {job}")), [1]),
            "NACK DEAD" => assert_eq!(s.codes(format!("RQ.NACK q {job} DEAD")), [2]),
            "DEL" => assert_eq!(s.run(format!("RQ.DEL q {id}")), 1),
            _ => assert_eq!(s.run("RQ.DEL q DEDUP k"), 1),
        }
        let next = s.run("RQ.GET q DEDUP k").fields();
        assert!(next["id"].text() > id.as_str(), "{end}: a new id");
        assert_eq!((next["payload"].text(), next["group"].text(), next.int("priority")), ("three", "g", 3), "{end}");
        assert_eq!(s.info("q").ints(["held-duplicates", "held-bytes"]), [0, 0]);
        assert_eq!(s.run("RQ.PURGE q READY"), 1);
    }
    s.verify();
}

#[test]
fn the_last_edit_is_never_lost() {
    let s = Scene::new();
    s.run("RQ.CREATE q LEASE 7200000 BACKOFF 7200000 7200000 JITTER none");
    // REPLACE alone on a delivered job holds, also while that waits for its retry.
    let (id, _) = push(&s, "q one DEDUP k REPLACE");
    let job = s.lease_one("q w");
    assert_eq!(push(&s, "q two DEDUP k REPLACE"), (id.clone(), 3));
    s.codes(format!("RQ.NACK q {job}"));
    assert_eq!(push(&s, "q three DEDUP k REPLACE"), (id.clone(), 3));
    assert_eq!(s.job("q", &id)["payload"], "one", "the retry runs what failed");
    s.run(format!("RQ.SET q {id} DELAY 0"));
    let job = s.lease_one("q w");
    s.codes(format!("RQ.ACK q {job}"));
    assert_eq!(s.peek("q", "READY"), ["three"]);
    // Both: REPLACE acts before the first delivery, KEEPLAST after.
    assert_eq!(push(&s, "q four DEDUP k REPLACE KEEPLAST").1, 2);
    let job = s.lease_one("q w");
    assert_eq!(job.text(), "four");
    assert_eq!(push(&s, "q five DEDUP k REPLACE KEEPLAST").1, 3);
    s.codes(format!("RQ.ACK q {job}"));
    assert_eq!(s.lease_one("q w").text(), "five");
    s.verify();
}

#[test]
fn a_held_duplicate_is_pushed_when_the_owners_worker_vanished_for_good() {
    let mut s = Scene::new();
    s.run("RQ.CREATE q LEASE 3600000 MAXEXPIRIES 1");
    let (id, _) = push(&s, "q one DEDUP k KEEPLAST");
    s.lease_one("q gone");
    assert_eq!(push(&s, "q two DEDUP k KEEPLAST DELAY 36000000").1, 3);
    s.advance(HOUR + 1);
    wait_until("the timer", || s.run("RQ.LEN q DEAD") == 1);
    let held = s.run("RQ.GET q DEDUP k").fields();
    assert_eq!((held["state"].text(), held["payload"].text()), ("delayed", "two"), "its own delay goes on");
    assert_eq!(s.state("q", &id), "dead");
    s.verify();
}

#[test]
fn b29_in_a_batch() {
    let s = Scene::new();
    let reply = s.run("RQ.MPUSH q 4 a b c d DEDUPS k1 k2 k1 k3 PRIORITY 2");
    let pairs: Vec<_> = reply.array().iter().map(pair).collect();
    assert_eq!(pairs.iter().map(|(_, code)| *code).collect::<Vec<_>>(), [1, 1, 0, 1]);
    assert_eq!(pairs[2].0, pairs[0].0, "within the batch too");
    assert_eq!(s.peek("q", "READY"), ["a", "b", "d"]);
    let again = s.unchanged(|| s.run("RQ.MPUSH q 2 x y DEDUPS k3 k2 WINDOW 1000"));
    assert_eq!(again.array().iter().map(pair).collect::<Vec<_>>(), [(pairs[3].0.clone(), 0), (pairs[1].0.clone(), 0)]);
    // Keys and payloads may be spelled like keywords.
    let reply = s.run("RQ.MPUSH q 2 DEDUPS WINDOW DEDUPS WINDOW PRIORITY WINDOW 3600000");
    assert_eq!(reply.array().iter().map(|one| pair(one).1).collect::<Vec<_>>(), [1, 1]);
    s.verify();
}

#[test]
fn in_a_transaction_and_from_a_script() {
    let s = Scene::new();
    let replies = s.multi(&["RQ.PUSH q a DEDUP k", "RQ.PUSH q b DEDUP k", "RQ.DEL q DEDUP k", "RQ.PUSH q c DEDUP k"]);
    assert_eq!((pair(&replies[0]).1, pair(&replies[1]).1, pair(&replies[3]).1), (1, 0, 1));
    let script = "return redis.call('RQ.PUSH', KEYS[1], 'x', 'DEDUP', 'k')";
    assert_eq!(pair(&s.cmd(&["EVAL", script, "1", "q"])).1, 0);
    s.verify();
}

#[test]
fn refusals_change_nothing() {
    let s = Scene::new();
    push(&s, "q a DEDUP k");
    let long = "k".repeat(1_025);
    for (options, error) in [
        ("WINDOW 5", "ERR syntax error: WINDOW, REPLACE and KEEPLAST need DEDUP"),
        ("REPLACE", "ERR syntax error: WINDOW, REPLACE and KEEPLAST need DEDUP"),
        ("KEEPLAST", "ERR syntax error: WINDOW, REPLACE and KEEPLAST need DEDUP"),
        ("MAXWAIT 5", "ERR syntax error: "),
        ("DEDUP k MAXWAIT 5", "ERR syntax error: MAXWAIT needs REPLACE"),
        ("DEDUP", "ERR syntax error: DEDUP needs "),
        ("DEDUP k DEDUP k", "ERR syntax error: DEDUP was given twice"),
        ("DEDUP k WINDOW 0", "ERR WINDOW must be an integer from 1 to 315360000000, not \"0\""),
        ("DEDUP k WINDOW x", "ERR WINDOW must be an integer"),
        ("DEDUP k REPLACE MAXWAIT -1", "ERR MAXWAIT must be an integer from 0 to 315360000000, not \"-1\""),
        ("DEDUPS k", "ERR syntax error: unknown or misplaced option \"DEDUPS\""),
        (&format!("DEDUP {long}"), "ERR a dedup key has at most 1024 bytes, not 1025"),
    ] {
        s.refused(format!("RQ.PUSH q x {options}"), error);
    }
    for (options, error) in [
        ("DEDUP k", "ERR syntax error: unknown or misplaced option \"DEDUP\""),
        ("DEDUPS k", "ERR syntax error: DEDUPS needs 2 keys, one per payload"),
        ("DEDUPS a b REPLACE", "ERR syntax error: unknown or misplaced option \"REPLACE\""),
        ("DEDUPS a b KEEPLAST", "ERR syntax error: unknown or misplaced option \"KEEPLAST\""),
        ("WINDOW 5", "ERR syntax error: WINDOW, REPLACE and KEEPLAST need DEDUP"),
    ] {
        s.refused(format!("RQ.MPUSH q 2 x y {options}"), error);
    }
    s.refused("RQ.DEL q DEDUP", "ERR syntax error: DEDUP needs a value after it");
    assert_eq!(s.run("RQ.DEL none DEDUP k"), 0);
    assert!(s.run("RQ.GET none DEDUP k").is_null());
    s.verify();
}

#[test]
fn exact_over_crashes_and_a_failover() {
    let mut server = Server::with(&["appendonly yes", "appendfsync always", "rq.expiry-grace 0"]);
    server.run("RQ.CREATE q LEASE 72000000");
    let plain = push(&server, "q a DEDUP plain").0;
    let window = push(&server, "q b DEDUP window WINDOW 36000000").0;
    for job in server.lease("q w COUNT 2 LEASE 72000000") {
        if job.id == window {
            server.codes(format!("RQ.ACK q {job}"));
        }
    }
    assert_eq!(push(&server, "q held DEDUP plain KEEPLAST").1, 3);
    let everywhere = |server: &Server| {
        assert_eq!(push(server, "q x DEDUP plain"), (plain.clone(), 0));
        assert_eq!(push(server, "q x DEDUP window WINDOW 5"), (window.clone(), 0));
        assert_eq!(server.info("q").int("held-bytes"), 4);
    };
    server.restart(Stop::Kill);
    everywhere(&server);
    server.rewrite_aof();
    server.restart(Stop::Kill);
    everywhere(&server);
    let replica = server.replica(&["rq.expiry-grace 0"]);
    replica.run("REPLICAOF NO ONE");
    everywhere(&replica);
    server.follow(&replica);
    replica.run("RQ.REAP q CONSUMER w");
    assert_eq!(replica.run(format!("RQ.DEL q {plain}")), 1);
    assert_eq!(replica.peek("q", "READY"), ["held"]);
    check_equal(&replica, &server);
}
