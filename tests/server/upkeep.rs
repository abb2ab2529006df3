//! RQ.SET, RQ.DEL and RQ.PURGE: every form, option and refusal.

use crate::harness::{stock, Scene};

#[test]
fn set_changes_the_priority_of_waiting_jobs() {
    let s = Scene::new();
    let q = stock(&s, "q");
    for id in [&q.ready, &q.scheduled, &q.retrying] {
        let state = s.state("q", id);
        assert_eq!(s.run(format!("RQ.SET q {id} PRIORITY 9")), 1);
        assert_eq!(s.job("q", id).int("priority"), 9);
        assert_eq!(s.state("q", id), state, "nothing else");
        assert_eq!(s.unchanged(|| s.run(format!("RQ.SET q {id} PRIORITY 9"))), 1, "it is so already");
    }
    s.verify();
}

#[test]
fn set_moves_the_due_time() {
    let mut s = Scene::new();
    let q = stock(&s, "q");
    assert_eq!(s.run(format!("RQ.SET q {} DELAY 0", q.scheduled)), 1);
    assert_eq!(s.state("q", &q.scheduled), "ready");
    let at = s.now() + 3_600_000;
    assert_eq!(s.run(format!("RQ.SET q {} AT {at}", q.retrying)), 1);
    assert_eq!(s.job("q", &q.retrying).int("due-at"), at);
    assert_eq!(s.run(format!("RQ.SET q {} DELAY 3600000", q.ready)), 1, "a ready one is delayed");
    assert_eq!(s.state("q", &q.ready), "delayed");
    assert_eq!(s.info("q").ints(["ready", "scheduled", "retrying"]), [1, 1, 1]);
    s.advance(3_700_000);
    assert_eq!(s.lease("q w COUNT 10").len(), 3);
    s.verify();
}

#[test]
fn set_into_the_past_makes_ready_now_and_leaves_ready_ones_alone() {
    let mut s = Scene::new();
    let q = stock(&s, "q");
    s.advance(1_000);
    assert_eq!(s.unchanged(|| s.run(format!("RQ.SET q {} DELAY 0", q.ready))), 1);
    assert_eq!(s.unchanged(|| s.run(format!("RQ.SET q {} AT 1600000000000", q.ready))), 1);
    assert_eq!(s.run(format!("RQ.SET q {} AT 1600000000000", q.retrying)), 1);
    assert_eq!(s.state("q", &q.retrying), "ready");
    assert_eq!(s.peek("q", "READY"), ["ready", "retrying"], "placed at now, not long ago");
    s.verify();
}

#[test]
fn set_only_touches_waiting_jobs() {
    let s = Scene::new();
    let q = stock(&s, "q");
    for (id, code) in [(&q.leased.id, 0), (&q.dead, 0), (&"1700000000000-0".to_owned(), -1)] {
        for options in ["PRIORITY 5", "DELAY 0", "AT 1600000000000 PRIORITY 1"] {
            assert_eq!(s.unchanged(|| s.run(format!("RQ.SET q {id} {options}"))), code);
        }
    }
    assert_eq!(s.unchanged(|| s.run("RQ.SET absent 1700000000000-0 PRIORITY 5")), -1);
    assert_eq!(s.run("EXISTS absent"), 0);
    s.verify();
}

#[test]
fn b33_del_cancels_in_any_state() {
    let s = Scene::new();
    let q = stock(&s, "q");
    let all = format!("{} {} {} {} {}", q.ready, q.scheduled, q.retrying, q.leased.id, q.dead);
    assert_eq!(s.run(format!("RQ.DEL q {} 1700000000000-0 {}", q.ready, q.ready)), 1);
    assert_eq!(s.run(format!("RQ.DEL q {all}")), 4);
    assert_eq!(s.unchanged(|| s.run(format!("RQ.DEL q {all}"))), 0);
    let info = s.info("q");
    assert_eq!(info.ints(["ready", "scheduled", "retrying", "leased", "dead"]), [0; 5]);
    assert_eq!(info.ints(["ready-bytes", "delayed-bytes", "leased-bytes", "dead-bytes", "length"]), [0; 5]);
    assert_eq!(s.run("EXISTS q"), 1);
    assert_eq!(s.unchanged(|| s.run("RQ.DEL absent 1700000000000-0")), 0);
    s.verify();
}

#[test]
fn purge_removes_one_state() {
    for (state, left) in [("READY", [0, 2, 1, 1]), ("delayed", [1, 0, 1, 1]), ("Dead", [1, 2, 1, 0]), ("DONE", [1, 2, 1, 1])] {
        let s = Scene::new();
        stock(&s, "q");
        let removed = s.run(format!("RQ.PURGE q {state}")).int();
        let lens = ["READY", "DELAYED", "LEASED", "DEAD"].map(|state| s.run(format!("RQ.LEN q {state}")).int());
        assert_eq!(lens, left, "{state}");
        assert_eq!(removed, 5 - left.iter().sum::<i64>(), "{state}");
        assert_eq!(s.unchanged(|| s.run(format!("RQ.PURGE q {state}"))), 0);
        assert_eq!(s.unchanged(|| s.run(format!("RQ.PURGE absent {state}"))), 0);
        s.verify();
    }
}

#[test]
fn purge_takes_at_most_count_in_the_states_order() {
    let s = Scene::new();
    s.run("RQ.MPUSH q 4 a b c d");
    s.push("q first PRIORITY 1");
    assert_eq!(s.run("RQ.PURGE q READY COUNT 2"), 2);
    assert_eq!(s.peek("q", "READY"), ["b", "c", "d"]);
    let pushes = vec!["RQ.PUSH q x"; 1100];
    s.multi(&pushes);
    assert_eq!(s.run("RQ.PURGE q READY"), 1000, "the default");
    assert_eq!(s.run("RQ.PURGE q READY COUNT 10000"), 103);
    s.verify();
}

#[test]
fn purge_by_reason_and_time() {
    let mut s = Scene::new();
    s.run("RQ.CREATE q LEASE 7200000 BACKOFF 0 0 MAXDELIVERIES 1");
    s.run("RQ.MPUSH q 4 a b c d");
    let jobs = s.lease("q w COUNT 4");
    s.codes(format!("RQ.NACK q {} DEAD", jobs[0]));
    s.advance(60_000);
    s.codes(format!("RQ.NACK q {}", jobs[1]));
    s.advance(60_000);
    s.codes(format!("RQ.NACK q {} DEAD", jobs[2]));
    s.codes(format!("RQ.NACK q {} DEAD", jobs[3]));
    let died = s.job("q", &jobs[1].id).int("dead-at");
    assert_eq!(s.unchanged(|| s.run("RQ.PURGE q DEAD REASON ttl")), 0);
    assert_eq!(s.run(format!("RQ.PURGE q DEAD REASON rejected BEFORE {died}")), 1);
    assert_eq!(s.state("q", &jobs[0].id), "gone");
    assert_eq!(s.unchanged(|| s.run(format!("RQ.PURGE q DEAD BEFORE {died}"))), 0, "the bound itself is kept");
    assert_eq!(s.run("RQ.PURGE q DEAD COUNT 1 REASON rejected"), 1);
    assert_eq!(s.state("q", &jobs[2].id), "gone");
    assert_eq!(s.info("q").ints(["dead-failed", "dead-rejected", "dead"]), [1, 1, 2]);
    s.verify();
}

#[test]
fn purge_before_a_due_time_or_a_place() {
    let mut s = Scene::new();
    let early = s.push("q early DELAY 3600000");
    let late = s.push("q late DELAY 7200000");
    let due = s.job("q", &late).int("due-at");
    assert_eq!(s.run(format!("RQ.PURGE q DELAYED BEFORE {due}")), 1);
    assert_eq!((s.state("q", &early), s.state("q", &late)), ("gone".to_owned(), "delayed".to_owned()));
    let old = s.push("q old");
    s.advance(60_000);
    let new = s.push("q new");
    let place = s.job("q", &new).int("due-at");
    assert_eq!(s.run(format!("RQ.PURGE q READY BEFORE {place}")), 1);
    assert_eq!((s.state("q", &old), s.state("q", &new)), ("gone".to_owned(), "ready".to_owned()));
    s.verify();
}

#[test]
fn refusals() {
    let s = Scene::new();
    let q = stock(&s, "q");
    let id = &q.ready;
    s.run("SET text x");
    for (line, error) in [
        (&format!("RQ.SET q {id}"), "ERR wrong number of arguments"),
        (&format!("RQ.SET q {id} PRIORITY"), "ERR wrong number of arguments"),
        (&format!("RQ.SET q {id} PRIORITY 128"), "ERR PRIORITY must be an integer from -128 to 127, not \"128\""),
        (&format!("RQ.SET q {id} PRIORITY +1"), "ERR PRIORITY must be an integer"),
        (&format!("RQ.SET q {id} DELAY 0 AT 1700000000000"), "ERR syntax error: AT was given twice, or beside"),
        (&format!("RQ.SET q {id} AT 1700000000"), "ERR AT takes Unix milliseconds, 1700000000 looks like seconds"),
        (&format!("RQ.SET q {id} LEASE 5"), "ERR syntax error: unknown or misplaced option \"LEASE\""),
        (&"RQ.SET q x PRIORITY 5".to_owned(), "ERR \"x\" is not a job id"),
        (&"RQ.SET text 1700000000000-0 PRIORITY 5".to_owned(), "WRONGTYPE "),
        (&"RQ.DEL q".to_owned(), "ERR wrong number of arguments"),
        (&format!("RQ.DEL q {id} x"), "ERR \"x\" is not a job id"),
        (&format!("RQ.DEL text {id}"), "WRONGTYPE "),
        (&"RQ.PURGE q".to_owned(), "ERR wrong number of arguments"),
        (&"RQ.PURGE q LEASED".to_owned(), "ERR RQ.PURGE takes READY, DELAYED, DEAD or DONE"),
        (&"RQ.PURGE q ALL".to_owned(), "ERR a state is READY, DELAYED, LEASED, DEAD or DONE, not \"ALL\""),
        (&"RQ.PURGE q DEAD COUNT 0".to_owned(), "ERR COUNT must be an integer from 1 to 10000, not \"0\""),
        (&"RQ.PURGE q READY REASON failed".to_owned(), "ERR syntax error: unknown or misplaced option \"REASON\""),
        (&"RQ.PURGE q DEAD REASON x".to_owned(), "ERR REASON must be failed, expired-lease, rejected or ttl, not \"x\""),
        (&"RQ.PURGE q DEAD BEFORE 5".to_owned(), "ERR BEFORE takes Unix milliseconds, 5 looks like seconds"),
        (&"RQ.PURGE text DEAD".to_owned(), "WRONGTYPE "),
    ] {
        s.refused(line, error);
    }
    s.verify();
}
