//! Case B67: a queue that is paused, with workers who wait for it: nothing is leased, whatever
//! comes back; and once it goes on, all of it is leased, once and in order.

use crate::harness::{jobs, wait_until, Client, Job, Scene};

const HOUR: i64 = 3_600_000;

/// Workers who wait, one after the other.
#[track_caller]
fn block(s: &Scene, key: &str, n: usize) -> Vec<Client> {
    let wait = |k: usize| {
        let blocked = s.blocked();
        let worker = s.client();
        worker.send_line(format!("RQ.LEASE {key} w{k} BLOCK 0 LEASE 36000000"));
        s.wait_blocked(blocked + 1);
        worker
    };
    (0..n).map(wait).collect()
}

/// What each of them got; each got one job.
#[track_caller]
fn got(workers: &[Client]) -> Vec<String> {
    let one = |worker: &Client| {
        let jobs = jobs(&worker.reply());
        assert_eq!(jobs.len(), 1);
        jobs[0].text()
    };
    workers.iter().map(one).collect()
}

/// The timer has had its turns, and nobody got anything.
#[track_caller]
fn nobody_got_anything(s: &Scene, workers: &[Client]) {
    let now = s.now();
    s.wait_past(now + 150);
    assert_eq!(s.run("PING"), "PONG");
    assert!(workers.iter().all(|worker| !worker.has_reply()));
}

#[test]
fn b67_five_blocked_workers_and_a_push() {
    let mut s = Scene::new();
    s.run("RQ.CREATE q LEASE 7200000 BACKOFF 0 0");
    s.run("RQ.MPUSH q 3 acked nacked extended");
    let in_flight = s.lease("q busy COUNT 3");
    let workers = block(&s, "q", 5);
    s.run("RQ.PAUSE q");
    s.run("RQ.MPUSH q 5 a b c d e");
    s.multi(&["RQ.PUSH q f"]);
    // A later time than the pushes', else the older job goes first.
    s.advance(10);
    // Those at work finish what they have.
    assert_eq!(s.codes(format!("RQ.ACK q {}", in_flight[0])), [1]);
    assert_eq!(s.codes(format!("RQ.NACK q {} ERROR e", in_flight[1])), [1]);
    assert_eq!(s.codes(format!("RQ.EXTEND q {}", in_flight[2])), [1]);
    nobody_got_anything(&s, &workers);
    s.check();
    // Who comes while it is paused waits as well, and its wait can end.
    assert!(s.run("RQ.LEASE q w BLOCK 1").is_null());
    assert_eq!(s.blocked(), 5, "they wait on: a pause ends no wait");
    assert_eq!(s.run("RQ.RESUME q"), 1);
    assert_eq!(got(&workers), ["a", "b", "c", "d", "e"]);
    assert_eq!(s.lease_order("q"), ["f", "nacked"]);
    assert_eq!(s.codes(format!("RQ.ACK q {}", in_flight[2])), [1]);
    s.verify();
}

/// The lease of the job with this payload.
#[track_caller]
fn take<'a>(leased: &'a [Job], payload: &str) -> &'a Job {
    leased.iter().find(|job| job.text() == payload).expect("a leased job of this payload")
}

#[test]
fn b67_every_way_of_becoming_ready_while_paused() {
    let mut s = Scene::new();
    s.run(format!("RQ.CREATE q LEASE 36000000 BACKOFF {} {} JITTER none", 2 * HOUR, 2 * HOUR));
    s.run("RQ.MPUSH q 4 released given-back reaped expired");
    s.run("RQ.MPUSH q 5 redriven redriven-by-count nacked retried released-later");
    s.run("RQ.PUSH q owner DEDUP k");
    let mut leased = s.lease("q w COUNT 1");
    leased.extend(s.lease("q leaving COUNT 1"));
    leased.extend(s.lease("q w COUNT 1"));
    leased.extend(s.lease(format!("q w COUNT 1 LEASE {HOUR}")));
    leased.extend(s.lease("q w COUNT 100"));
    for dead in ["redriven", "redriven-by-count"] {
        assert_eq!(s.codes(format!("RQ.NACK q {} DEAD", take(&leased, dead))), [2]);
    }
    let set = s.push("q set DELAY 36000000");
    s.run("RQ.PUSH q later DEDUP debounced DELAY 36000000");
    s.run("RQ.PUSH q held DEDUP k KEEPLAST");
    s.push(format!("q due DELAY {HOUR}"));
    s.run(format!("RQ.SCHEDULE q s EVERY 36000000 START {} LIMIT 1 PAYLOAD slot", s.now() + HOUR + HOUR / 2));
    s.push("q too-late TTL 600000");

    s.run("RQ.PAUSE q");
    let expected = [
        // Those that are given back, or whose worker is gone, have their old places.
        "released", "given-back", "reaped", "expired",
        // The others stand where they became ready.
        "redriven", "redriven-by-count", "nacked", "set", "replaced", "held", "pushed", "batch", "in-multi", "in-lua",
        "due", "released-later", "slot", "retried",
    ];
    let workers = block(&s, "q", expected.len());
    let token = |payload: &str| take(&leased, payload).to_string();
    let (redriven, reaped) = (&take(&leased, "redriven").id, &take(&leased, "reaped").id);
    for line in [
        format!("RQ.RELEASE q {}", token("released")),
        "RQ.RELEASE q CONSUMER leaving".to_owned(),
        format!("RQ.REAP q ID {reaped}"),
        format!("RQ.REDRIVE q {redriven}"),
        "RQ.REDRIVE q COUNT 1".to_owned(),
        format!("RQ.NACK q {} DELAY 0", token("nacked")),
        format!("RQ.NACK q {}", token("retried")),
        format!("RQ.RELEASE q {} DELAY {HOUR}", token("released-later")),
        format!("RQ.SET q {set} DELAY 0"),
        "RQ.PUSH q replaced DEDUP debounced REPLACE".to_owned(),
        format!("RQ.ACK q {}", token("owner")),
        "RQ.PUSH q pushed".to_owned(),
        "RQ.MPUSH q 1 batch".to_owned(),
    ] {
        s.run(&line);
        // A time of its own for each: of equal ones the older job would go first.
        s.advance(10);
    }
    s.multi(&["RQ.PUSH q in-multi"]);
    s.advance(10);
    s.cmd(&["EVAL", "return redis.call('RQ.PUSH', KEYS[1], 'in-lua')", "1", "q"]);
    nobody_got_anything(&s, &workers);
    s.advance(3 * HOUR);
    wait_until("what only takes time", || s.run("RQ.LEN q READY") == expected.len() as i64);
    assert_eq!(s.peek("q", "DEAD"), ["too-late"], "a time to live goes on");
    assert!(s.unchanged(|| s.lease("q w").is_empty()));
    s.check();
    nobody_got_anything(&s, &workers);

    assert_eq!(s.run("RQ.RESUME q"), 1);
    assert_eq!(got(&workers), expected, "all of it, in order");
    assert_eq!(s.info("q").ints(["ready", "delayed", "leased"]), [0, 0, expected.len() as i64], "and once");
    s.verify();
}

#[test]
fn b67_pauses_go_with_the_key() {
    let s = Scene::new();
    s.push("q x GROUP g");
    s.run("RQ.PAUSE q REASON why");
    s.run("RQ.PAUSE q IN");
    s.run("RQ.PAUSE q GROUP g");
    let dump = s.run("DUMP q").bytes().to_vec();
    s.cmd(&[b"RESTORE".as_slice(), b"restored", b"0", &dump]);
    s.run("COPY q copied");
    s.run("RENAME q renamed");
    for key in ["restored", "copied", "renamed"] {
        let workers = block(&s, key, 1);
        s.refused(format!("RQ.PUSH {key} y"), "PAUSED ");
        assert_eq!(s.info(key)["paused-out-reason"], "why");
        for side in ["OUT", "IN"] {
            assert_eq!(s.run(format!("RQ.RESUME {key} {side}")), 1, "each has its own");
            nobody_got_anything(&s, &workers);
        }
        assert_eq!(s.run(format!("RQ.RESUME {key} GROUP g")), 1);
        assert_eq!(got(&workers), ["x"]);
    }
    s.verify();
}
