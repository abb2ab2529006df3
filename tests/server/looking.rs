//! RQ.GET, RQ.PEEK, RQ.LEN and RQ.INFO: what they show, and that they change nothing.

use crate::harness::{stock, Reply, Scene};

const JOB_FIELDS: [&str; 23] = [
    "id", "state", "priority", "pushed-at", "due-at", "deliveries", "max-deliveries", "total-deliveries", "failures",
    "expiries", "releases", "redrives", "token", "consumer", "lease-ms", "deadline", "first-delivered-at",
    "last-delivered-at", "dead-at", "reason", "error", "size", "payload",
];

#[test]
fn get_shows_every_field_in_order() {
    let s = Scene::new();
    let q = stock(&s, "q");
    for id in [&q.ready, &q.scheduled, &q.retrying, &q.leased.id, &q.dead] {
        let job = s.unchanged(|| s.job("q", id));
        let mut names = job.names();
        // What other parts of the contract add may stand between.
        names.retain(|name| JOB_FIELDS.contains(name));
        assert_eq!(names, JOB_FIELDS, "{job:?}");
        assert_eq!(job["id"], *id);
        assert_eq!(job.int("size"), job["payload"].bytes().len() as i64);
    }
    s.verify();
}

#[test]
fn get_of_nothing_is_null() {
    let s = Scene::new();
    stock(&s, "q");
    for key in ["q", "absent"] {
        assert!(s.unchanged(|| s.run(format!("RQ.GET {key} 1700000000000-0"))).is_null());
    }
    assert_eq!(s.run("EXISTS absent"), 0);
    s.verify();
}

#[test]
fn get_tells_the_states_apart() {
    let s = Scene::new();
    let q = stock(&s, "q");
    let dead = s.job("q", &q.dead);
    assert_eq!((dead["reason"].text(), dead["error"].text(), dead["consumer"].text()), ("rejected", "boom", "worker"));
    assert!(dead.get("deadline").is_none(), "{dead:?}");
    let leased = s.job("q", &q.leased.id);
    assert_eq!(leased.int("deadline"), leased.int("last-delivered-at") + leased.int("lease-ms"));
    assert!(leased.get("dead-at").is_none() && leased.get("reason").is_none());
    let ready = s.job("q", &q.ready);
    assert!(["first-delivered-at", "deadline", "error", "reason"].iter().all(|name| ready.get(name).is_none()), "{ready:?}");
    assert_eq!(ready.ints(["total-deliveries", "failures", "expiries", "releases", "redrives"]), [0; 5]);
    s.verify();
}

#[test]
fn len_counts_each_state() {
    let s = Scene::new();
    stock(&s, "q");
    let len = |state: &str| s.run(format!("RQ.LEN q {state}")).int();
    assert_eq!([len(""), len("READY"), len("delayed"), len("Leased"), len("DEAD"), len("DONE")], [4, 1, 2, 1, 1, 0]);
    for state in ["", "READY", "DONE"] {
        assert_eq!(s.run(format!("RQ.LEN absent {state}")), 0);
    }
    s.verify();
}

#[test]
fn b71_info_shows_policy_counts_and_totals() {
    let s = Scene::new();
    stock(&s, "q");
    let info = s.unchanged(|| s.info("q"));
    assert_eq!(info.ints(["lease", "maxrun", "maxdeliveries", "maxexpiries"]), [7_200_000, 0, 20, 5]);
    assert_eq!(info["backoff"].ints(), [7_200_000, 7_200_000]);
    assert_eq!((info["jitter"].text(), info["expirybackoff"].text()), ("none", "no"));
    assert_eq!(info.ints(["length", "ready", "scheduled", "retrying", "leased", "dead", "done"]), [4, 1, 1, 1, 1, 1, 0]);
    assert_eq!(info.ints(["dead-failed", "dead-expired-lease", "dead-rejected", "dead-ttl"]), [0, 0, 1, 0]);
    // "ready", "scheduled" + "retrying", "leased", "dead"
    let bytes = ["ready-bytes", "delayed-bytes", "leased-bytes", "dead-bytes", "done-bytes"];
    assert_eq!(info.ints(bytes), [5, 17, 6, 4, 0]);
    assert_eq!(info.ints(["pushed-total", "delivered-total", "failed-total", "dead-total"]), [5, 3, 2, 1]);
    assert_eq!(info.ints(["acked-total", "expired-total", "released-total", "redriven-total"]), [0; 4]);
    assert_eq!(info["held"], "no");
    assert!(info.int("next-due-at") > s.now());
    for name in ["oldest-ready-ms", "oldest-lease-ms", "oldest-dead-ms"] {
        assert!((0..600_000).contains(&info.int(name)), "{name}: {info:?}");
    }
    s.verify();
}

#[test]
fn failed_totals_count_events() {
    // Both NACKs of the stock are failures by count; what is dead is told apart.
    let s = Scene::new();
    s.run("RQ.CREATE q LEASE 7200000 BACKOFF 0 0");
    s.push("q x");
    for n in 1..=3 {
        let job = s.lease_one("q w");
        s.codes(format!("RQ.NACK q {job}"));
        assert_eq!(s.info("q").ints(["failed-total", "delivered-total"]), [n, n]);
    }
    let job = s.lease_one("q w");
    s.codes(format!("RQ.ACK q {job}"));
    assert_eq!(s.info("q").ints(["failed-total", "delivered-total", "acked-total", "length"]), [3, 4, 1, 0]);
    s.verify();
}

#[test]
fn info_tells_why_nothing_would_be_leased() {
    let mut s = Scene::new();
    assert!(s.run("RQ.INFO absent").is_null());
    s.run("RQ.CREATE q");
    let info = s.info("q");
    assert_eq!(info["held"], "empty");
    assert!(["oldest-ready-ms", "oldest-lease-ms", "oldest-dead-ms", "next-due-at"].iter().all(|name| info.get(name).is_none()));
    s.push("q x DELAY 36000000");
    assert_eq!(s.info("q")["held"], "empty");
    assert!(s.info("q").get("oldest-ready-ms").is_none(), "a delayed job is not a late one");
    s.push("q y");
    s.advance(3_600_000);
    let info = s.info("q");
    assert_eq!(info["held"], "no");
    assert!((3_600_000 - 1..4_200_000).contains(&info.int("oldest-ready-ms")), "{info:?}");
    s.verify();
}

#[test]
fn info_as_json_has_the_same_names_and_numbers() {
    let s = Scene::new();
    stock(&s, "q");
    let reply = s.run("RQ.INFO q JSON");
    let text = reply.text();
    assert!(text.starts_with('{') && text.ends_with('}'), "{text}");
    for (name, value) in s.info("q").0 {
        let found = match value {
            Reply::Int(n) if !name.starts_with("oldest-") => format!("\"{name}\":{n}"),
            Reply::Bulk(value) => format!("\"{name}\":\"{}\"", value.escape_ascii()),
            _ => format!("\"{name}\":"),
        };
        assert!(text.replace(": ", ":").contains(&found), "{found} in {text}");
    }
    assert!(s.run("RQ.INFO absent JSON").is_null());
    s.verify();
}

#[test]
fn peek_has_each_states_own_order() {
    let mut s = Scene::new();
    s.run("RQ.CREATE q LEASE 7200000");
    s.run("RQ.MPUSH q 3 l1 l2 l3");
    for lease in [10_800_000, 7_200_000, 9_000_000] {
        s.lease_one(format!("q w LEASE {lease}"));
    }
    s.push("q d1 DELAY 9000000");
    s.push("q d2 DELAY 7200000 PRIORITY -5");
    s.push("q r1");
    s.push("q r2 PRIORITY 5");
    s.push("q r3");
    assert_eq!(s.peek("q", "READY"), ["r2", "r1", "r3"], "as LEASE would take them");
    assert_eq!(s.peek("q", "DELAYED"), ["d2", "d1"], "by due time");
    assert_eq!(s.peek("q", "LEASED"), ["l2", "l3", "l1"], "by deadline");
    let jobs = s.lease("q w COUNT 3");
    for n in [1, 2, 0] {
        s.codes(format!("RQ.NACK q {} DEAD", jobs[n]));
        s.advance(1_000);
    }
    assert_eq!(s.peek("q", "DEAD"), ["r1", "r3", "r2"], "by time of death");
    assert!(s.peek("q", "DONE").is_empty());
    s.verify();
}

#[test]
fn peek_goes_page_by_page_and_survives_removals() {
    let s = Scene::new();
    let pushes: Vec<String> = (0..100).map(|n| format!("RQ.PUSH q job{n} PRIORITY {}", n % 3)).collect();
    s.multi(&pushes);
    for state in ["READY", "LEASED"] {
        let mut cursor = "0".to_owned();
        let mut seen = Vec::new();
        let mut pages = 0;
        loop {
            let reply = s.unchanged(|| s.run(format!("RQ.PEEK q {state} CURSOR {cursor} COUNT 7 NOPAYLOAD")));
            let jobs: Vec<_> = reply.array()[1].array().iter().map(Reply::fields).collect();
            assert!(jobs.len() <= 7 && jobs.iter().all(|job| !job.names().contains(&"payload")));
            seen.extend(jobs.iter().map(|job| job["id"].text().to_owned()));
            // What was seen goes away in between: the cursor may have pointed at it.
            s.run(format!("RQ.DEL q {}", jobs.last().expect("a page with jobs")["id"].text()));
            pages += 1;
            cursor = reply.array()[0].text().to_owned();
            if cursor == "0" {
                break;
            }
        }
        assert!(pages > 5, "{pages} pages");
        let mut unique = seen.clone();
        unique.sort();
        unique.dedup();
        assert_eq!(unique.len(), seen.len(), "none twice");
        assert_eq!(seen.len(), if state == "READY" { 100 } else { 100 - 15 }, "none left out");
        s.lease("q w COUNT 1000 LEASE 7200000");
    }
    s.verify();
}

#[test]
fn peek_shows_ten_by_default_and_nothing_of_nothing() {
    let s = Scene::new();
    s.multi(&vec!["RQ.PUSH q x"; 30]);
    assert_eq!(s.run("RQ.PEEK q READY").array()[1].array().len(), 10);
    for line in ["RQ.PEEK q DEAD", "RQ.PEEK absent READY"] {
        let reply = s.unchanged(|| s.run(line));
        assert_eq!(reply.array()[0], "0");
        assert!(reply.array()[1].array().is_empty());
    }
    assert_eq!(s.run("EXISTS absent"), 0);
    s.verify();
}

#[test]
fn looking_does_no_due_work() {
    // Else a primary and a replica that is read from would part.
    let mut s = Scene::new();
    s.run("RQ.CREATE q");
    s.push("q x DELAY 3600000");
    s.advance(3_700_000);
    s.multi(&["RQ.INFO q", "RQ.PEEK q DELAYED", "RQ.LEN q READY"]);
    assert!(!s.replica().run("RQ.INFO q").is_null());
    assert_eq!(s.replica().try_run("RQ.PUSH q y").error().split(' ').next(), Some("READONLY"));
    s.verify();
}

#[test]
fn refusals() {
    let s = Scene::new();
    stock(&s, "q");
    s.run("SET text x");
    for (line, error) in [
        ("RQ.GET q", "ERR wrong number of arguments"),
        ("RQ.GET q x", "ERR \"x\" is not a job id"),
        ("RQ.GET text 1700000000000-0", "WRONGTYPE "),
        ("RQ.LEN q WAITING", "ERR a state is READY, DELAYED, LEASED, DEAD or DONE, not \"WAITING\""),
        ("RQ.LEN q READY DEAD", "ERR syntax error: unknown or misplaced option \"DEAD\""),
        ("RQ.LEN text", "WRONGTYPE "),
        ("RQ.INFO q XML", "ERR syntax error: unknown or misplaced option \"XML\""),
        ("RQ.INFO text", "WRONGTYPE "),
        ("RQ.PEEK q", "ERR wrong number of arguments"),
        ("RQ.PEEK q ALL", "ERR a state is READY, DELAYED, LEASED, DEAD or DONE, not \"ALL\""),
        ("RQ.PEEK q READY COUNT 0", "ERR COUNT must be an integer from 1 to 1000, not \"0\""),
        ("RQ.PEEK q READY COUNT 1001", "ERR COUNT must be an integer from 1 to 1000, not \"1001\""),
        ("RQ.PEEK q READY CURSOR", "ERR syntax error: CURSOR needs a value"),
        ("RQ.PEEK q READY CURSOR nowhere", "ERR "),
        ("RQ.PEEK q READY PAYLOAD", "ERR syntax error: unknown or misplaced option \"PAYLOAD\""),
        ("RQ.PEEK text READY", "WRONGTYPE "),
    ] {
        s.refused(line, error);
    }
    s.verify();
}
