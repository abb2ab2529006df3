//! What holds leasing back: GROUP with its options, CONCURRENCY, RATE, AGING; RQ.GROUPS. All is
//! decided when leasing, never by leasing and giving back. Case B24; B23 is `aging_lets_the_old_pass`.

use crate::harness::{block, jobs, Client, Reply, Scene};

#[track_caller]
fn woken(worker: &Client) -> String {
    let jobs = jobs(&worker.reply());
    assert_eq!(jobs.len(), 1);
    jobs[0].text()
}

/// Why nothing would be leased.
fn held(c: &Client) -> String {
    c.info("q")["held"].text().to_owned()
}

const WAIT: &str = "RQ.LEASE q w BLOCK 0 LEASE 36000000";
const HOUR: i64 = 3_600_000;

#[test]
fn b24_groups_take_turns() {
    let s = Scene::new();
    s.multi(&(0..6).map(|n| format!("RQ.PUSH q a{n} GROUP a")).collect::<Vec<_>>());
    s.run("RQ.MPUSH q 2 b0 b1 GROUP b");
    s.run("RQ.MPUSH q 2 n0 n1");
    s.push("q c0 GROUP c");
    s.push("q urgent GROUP a PRIORITY 1");
    let order = s.lease_order("q");
    assert_eq!(order[0], "urgent", "priority goes before turns");
    assert_eq!(order[1..], ["a0", "b0", "n0", "c0", "a1", "b1", "n1", "a2", "a3", "a4", "a5"]);
    s.verify();
}

/// A hundred thousand jobs of one group, one of another: without a limit, and when all but one of
/// the many have to wait. That the cost of LEASE stays the same is shown in `core/src/choose.rs`.
#[test]
fn b24_a_burst_of_one_group_does_not_hold_up_the_other() {
    let s = Scene::new();
    let payloads = vec!["x"; 10_000].join(" ");
    for policy in ["", "GROUPLIMIT 1"] {
        s.run(format!("RQ.CREATE q LEASE 36000000 {policy}"));
        for _ in 0..10 {
            s.run(format!("RQ.MPUSH q 10000 {payloads} GROUP big"));
        }
        s.push("q one GROUP small");
        let first = [s.lease_one("q w").text(), s.lease_one("q w").text()];
        assert!(first.contains(&"one".to_owned()), "{first:?}");
        if policy == "GROUPLIMIT 1" {
            assert!(s.unchanged(|| s.lease("q w COUNT 10000")).is_empty());
            assert_eq!(held(&s), "groups");
            s.push("q two GROUP another");
            assert_eq!(s.lease_order("q"), ["two"]);
        }
        s.run("DEL q");
    }
    s.verify();
}

#[test]
fn grouporder_one_at_a_time_and_in_order() {
    let mut s = Scene::new();
    s.run("RQ.CREATE q GROUPORDER yes LEASE 36000000 BACKOFF 3600000 3600000 JITTER none");
    s.run("RQ.MPUSH q 3 a0 a1 a2 GROUP a");
    s.run("RQ.MPUSH q 2 n0 n1");
    let first = s.lease_one("q w");
    assert_eq!(first.text(), "a0");
    assert_eq!((s.lease_one("q w").text(), s.lease_one("q w").text()), ("n0".into(), "n1".into()), "no group, no order");
    assert!(s.unchanged(|| s.lease("q w COUNT 10").is_empty()));
    assert_eq!(held(&s), "groups");
    let worker = block(&s, WAIT);
    // One that waits for its retry holds its group.
    assert_eq!(s.codes(format!("RQ.NACK q {first}")), [1]);
    assert_eq!(s.run("PING"), "PONG");
    assert!(!worker.has_reply());
    s.advance(HOUR);
    assert_eq!(woken(&worker), "a0", "before those that came after it");
    let worker = block(&s, WAIT);
    let token = s.job("q", &first.id).int("token");
    s.codes(format!("RQ.NACK q {} {token} DEAD", first.id));
    assert_eq!(woken(&worker), "a1", "dead lets the next one go");
    let worker = block(&s, WAIT);
    let a1 = s.run("RQ.PEEK q LEASED COUNT 100").array()[1].array().iter().map(Reply::fields).find(|job| job["payload"] == "a1");
    s.run(format!("RQ.DEL q {}", a1.expect("leased")["id"].text()));
    assert_eq!(woken(&worker), "a2", "and so does DEL");
    s.verify();
}

#[test]
fn grouporder_in_one_lease_of_many() {
    let s = Scene::new();
    s.run("RQ.CREATE q GROUPORDER yes");
    for group in ["a", "b", "c"] {
        s.run(format!("RQ.MPUSH q 5 {group} {group} {group} {group} {group} GROUP {group}"));
    }
    assert_eq!(s.lease_order("q"), ["a", "b", "c"]);
    s.verify();
}

#[test]
fn b24_grouplimit() {
    let s = Scene::new();
    s.run("RQ.CREATE q GROUPLIMIT 2 LEASE 36000000");
    s.run("RQ.MPUSH q 5 a0 a1 a2 a3 a4 GROUP a");
    s.run("RQ.MPUSH q 3 b0 b1 b2 GROUP b");
    let leased = s.lease("q w COUNT 100");
    assert_eq!(leased.iter().map(|job| job.text()).collect::<Vec<_>>(), ["a0", "b0", "a1", "b1"]);
    assert_eq!(held(&s), "groups");
    let worker = block(&s, WAIT);
    s.codes(format!("RQ.ACK q {}", leased[0]));
    assert_eq!(woken(&worker), "a2");
    // A released job's place is its own again.
    let worker = block(&s, WAIT);
    s.codes(format!("RQ.RELEASE q {}", leased[1]));
    assert_eq!(woken(&worker), "b0");
    let worker = block(&s, WAIT);
    s.run("RQ.ALTER q GROUPLIMIT 3");
    assert!(["a3", "b2"].contains(&&*woken(&worker)), "the policy is read when it is used");
    s.run("RQ.ALTER q GROUPLIMIT 0");
    assert!(s.lease("q w COUNT 10").is_empty());
    s.run("RQ.ALTER q GROUPLIMIT -1");
    assert_eq!(s.lease("q w COUNT 10").len(), 2);
    s.verify();
}

#[test]
fn grouprate_opens_by_the_timer() {
    let mut s = Scene::new();
    s.run("RQ.CREATE q GROUPRATE 2 3600000 LEASE 36000000");
    s.run("RQ.MPUSH q 5 a0 a1 a2 a3 a4 GROUP a");
    s.push("q b0 GROUP b");
    assert_eq!(s.lease("q w COUNT 100").len(), 3);
    assert_eq!(held(&s), "groups");
    let worker = block(&s, WAIT);
    s.check();
    assert!(!worker.has_reply());
    s.advance(HOUR);
    assert_eq!(woken(&worker), "a2");
    assert_eq!(s.lease("q w COUNT 100").len(), 1);
    s.verify();
}

#[test]
fn grouprate_counts_for_a_group_that_has_no_jobs_meanwhile() {
    let s = Scene::new();
    s.run("RQ.CREATE q GROUPRATE 1 3600000 LEASE 36000000");
    for _ in 0..2 {
        s.push("q x GROUP a");
        for job in s.lease("q w COUNT 10") {
            s.codes(format!("RQ.ACK q {job}"));
        }
    }
    assert_eq!(s.run("RQ.LEN q READY"), 1);
    s.verify();
}

#[test]
fn concurrency() {
    let s = Scene::new();
    s.run("RQ.CREATE q CONCURRENCY 2 LEASE 36000000");
    s.run("RQ.MPUSH q 5 a b c d e");
    let leased = s.lease("q w COUNT 100");
    assert_eq!(leased.len(), 2);
    assert!(s.unchanged(|| s.lease("q w").is_empty()));
    assert_eq!(held(&s), "concurrency");
    for end in ["ACK", "RELEASE"] {
        let worker = block(&s, WAIT);
        let job = &leased[usize::from(end == "RELEASE")];
        s.codes(format!("RQ.{end} q {job}"));
        assert_eq!(woken(&worker), if end == "ACK" { "c" } else { "b" });
    }
    // A late EXTEND finds no place.
    s.run("RQ.ALTER q CONCURRENCY 3");
    let late = s.lease_one("q w");
    s.run(format!("RQ.REAP q ID {}", late.id));
    s.run("RQ.ALTER q CONCURRENCY 2");
    assert_eq!(s.codes(format!("RQ.EXTEND q {late}")), [0]);
    s.run("RQ.ALTER q CONCURRENCY -1");
    assert_eq!(s.codes(format!("RQ.EXTEND q {late}")), [1]);
    assert_eq!(s.lease("q w COUNT 10").len(), 1);
    s.verify();
}

#[test]
fn rate_opens_by_the_timer_and_release_gives_one_back() {
    let mut s = Scene::new();
    s.run("RQ.CREATE q RATE 3 3600000 LEASE 36000000");
    s.run("RQ.MPUSH q 9 a b c d e f g h i");
    let leased = s.lease("q w COUNT 100");
    assert_eq!(leased.len(), 3);
    assert_eq!(held(&s), "rate");
    s.codes(format!("RQ.RELEASE q {}", leased[2]));
    assert_eq!(s.lease("q w COUNT 100").len(), 1, "released: it does not count");
    s.codes(format!("RQ.ACK q {}", leased[0]));
    let worker = block(&s, WAIT);
    s.check();
    assert!(!worker.has_reply(), "ACK gives nothing back, nor does a reload");
    s.advance(HOUR);
    assert_eq!(woken(&worker), "d");
    assert_eq!(s.lease("q w COUNT 100").len(), 2);
    let worker = block(&s, WAIT);
    s.run("RQ.ALTER q RATE -1");
    assert_eq!(woken(&worker), "g");
    s.verify();
}

#[test]
fn no_interval_has_more_grants_than_the_rate() {
    let s = Scene::new();
    s.run("RQ.CREATE q RATE 5 300 LEASE 36000000");
    s.run(format!("RQ.MPUSH q 30 {}", vec!["x"; 30].join(" ")));
    let workers: Vec<Client> = (0..6).map(|_| s.client()).collect();
    let mut at = Vec::new();
    for _ in 0..5 {
        workers.iter().for_each(|worker| worker.send_line(WAIT));
        for worker in &workers {
            let job = &jobs(&worker.reply())[0];
            at.push(s.job("q", &job.id).int("last-delivered-at"));
        }
    }
    at.sort_unstable();
    assert!(at.windows(6).all(|six| six[5] - six[0] >= 300), "{at:?}");
    // All of them by the timer: nobody else did anything.
    assert!(at[29] - at[0] < 20_000, "{at:?}");
    s.verify();
}

/// B23.
#[test]
fn aging_lets_the_old_pass() {
    let mut s = Scene::new();
    s.run("RQ.CREATE q AGING 60000 LEASE 36000000");
    s.push("q old");
    s.advance(250_000);
    s.push("q new3 PRIORITY 3");
    s.push("q new9 PRIORITY 9");
    assert_eq!(s.lease_order("q"), ["new9", "old", "new3"]);
    s.run("RQ.ALTER q AGING 0");
    s.push("q old");
    s.advance(250_000);
    s.push("q new PRIORITY 1");
    assert_eq!(s.lease_order("q"), ["new", "old"]);
    s.verify();
}

#[test]
fn rq_groups_shows_them_page_by_page() {
    let s = Scene::new();
    s.run("RQ.CREATE q LEASE 36000000 BACKOFF 36000000 36000000 JITTER none KEEPDONE 10");
    for n in 0..25 {
        s.push(format!("q x GROUP g{n:02}"));
    }
    s.run("RQ.MPUSH q 3 x x x GROUP g00");
    s.push("q bare");
    s.run("RQ.PAUSE q GROUP g05");
    let until = s.run("RQ.PAUSE q GROUP g06 FOR 7200000").int();
    let first = s.lease_one("q w");
    assert_eq!(s.job("q", &first.id)["group"], "g00");
    let second = s.lease_one("q w");
    s.codes(format!("RQ.NACK q {second}"));
    let mut names: Vec<String> = Vec::new();
    let mut after = String::new();
    loop {
        let page = s.run(format!("RQ.GROUPS q COUNT 10{after}"));
        let Some(last) = page.array().last() else { break };
        assert!(page.array().len() <= 10);
        after = format!(" AFTER {}", last.array()[0].text());
        names.extend(page.array().iter().map(|row| row.array()[0].text().to_owned()));
    }
    assert_eq!(names, (0..25).map(|n| format!("g{n:02}")).collect::<Vec<_>>());
    let rows = s.run("RQ.GROUPS q");
    let row = |n: usize| rows.array()[n].array()[1..5].iter().map(Reply::int).collect::<Vec<_>>();
    assert_eq!(row(0), [3, 1, 0, 4], "ready, leased, retrying, jobs");
    assert_eq!(row(1), [0, 0, 1, 1]);
    assert_eq!(row(2), [1, 0, 0, 1]);
    let age = |n: usize| &rows.array()[n].array()[6];
    assert!((0..600_000).contains(&age(0).int()) && age(1).is_null(), "of the oldest that is ready");
    let paused = |n: usize| &rows.array()[n].array()[5];
    assert!(paused(4).is_null());
    assert_eq!(*paused(5), 0);
    assert_eq!(*paused(6), until);
    assert_eq!(s.run("RQ.GROUPS none").array().len(), 0);
    for (options, error) in [
        ("COUNT 0", "ERR COUNT must be an integer from 1 to 1000, not \"0\""),
        ("AFTER", "ERR syntax error: AFTER needs a value"),
        ("x", "ERR syntax error: unknown or misplaced option \"x\""),
    ] {
        s.refused(format!("RQ.GROUPS q {options}"), error);
        s.refused(format!("RQ.CONSUMERS q {options}"), error);
    }
    s.verify();
}

#[test]
fn the_options_and_their_refusals() {
    let s = Scene::new();
    let line = "RQ.CREATE q CONCURRENCY 7 RATE 10000 60000 GROUPORDER yes GROUPLIMIT 3 GROUPRATE 5 1000 AGING 60000";
    assert_eq!(s.run(line), 1);
    assert_eq!(s.unchanged(|| s.run(line)), 0);
    let info = s.info("q");
    assert_eq!(info.ints(["concurrency", "grouplimit", "aging"]), [7, 3, 60_000]);
    assert_eq!((info["rate"].ints(), info["grouprate"].ints()), (vec![10_000, 60_000], vec![5, 1_000]));
    assert_eq!(info["grouporder"], "yes");
    s.run("RQ.CREATE default");
    let info = s.info("default");
    assert_eq!(info.ints(["concurrency", "rate", "grouplimit", "grouprate", "aging"]), [-1, -1, -1, -1, 0]);
    assert_eq!(info["grouporder"], "no");
    for verb in ["CREATE", "ALTER"] {
        for (options, error) in [
            ("CONCURRENCY -2", "ERR CONCURRENCY must be an integer from -1 to 1000000000, not \"-2\""),
            ("GROUPLIMIT x", "ERR GROUPLIMIT must be an integer from -1 to 1000000000, not \"x\""),
            ("RATE 0 5", "ERR RATE n must be an integer from 1 to 10000, not \"0\""),
            ("RATE 10001 5", "ERR RATE n must be an integer from 1 to 10000, not \"10001\""),
            ("RATE 5 0", "ERR RATE ms must be an integer from 1 to 315360000000, not \"0\""),
            ("RATE 5", "ERR syntax error: RATE ms needs a value after it"),
            ("GROUPRATE 0 5", "ERR GROUPRATE n must be an integer from 1 to 10000, not \"0\""),
            ("GROUPORDER 1", "ERR GROUPORDER must be no or yes, not \"1\""),
            ("AGING -1", "ERR AGING must be an integer from 0 to 315360000000, not \"-1\""),
        ] {
            s.refused(format!("RQ.{verb} q {options}"), error);
        }
    }
    s.refused(format!("RQ.PUSH q x GROUP {}", "g".repeat(1_025)), "ERR a group's name has at most 1024 bytes, not 1025");
    s.refused("RQ.PUSH q x GROUP", "ERR syntax error: GROUP needs a value after it");
    s.verify();
}
