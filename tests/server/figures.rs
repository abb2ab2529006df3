//! Figures of one process: how long jobs wait and run, and when consumers were last seen. They are
//! in no file and on no replica.

use crate::harness::{wait_until, Reply, Scene};

const PERCENTILES: [&str; 4] = ["wait-ms-p50", "wait-ms-p99", "run-ms-p50", "run-ms-p99"];

/// Whether a time is shown that is `ms` or somewhat longer, as tests may be slow.
#[track_caller]
fn about(shown: i64, ms: i64) {
    assert!((ms - ms / 32..ms + 60_000).contains(&shown), "{shown} where {ms} was meant");
}

#[test]
fn how_long_jobs_wait_and_run() {
    let mut s = Scene::new();
    s.run("RQ.CREATE q LEASE 7200000 BACKOFF 0 0");
    let shown = |s: &Scene| {
        let info = s.info("q");
        PERCENTILES.map(|name| info.get(name).map(Reply::int))
    };
    assert_eq!(shown(&s), [None; 4]);
    s.run("RQ.MPUSH q 3 a b c");
    s.advance(200_000);
    let jobs = s.lease("q w COUNT 3");
    let [Some(p50), Some(p99), None, None] = shown(&s) else { panic!("{:?}", shown(&s)) };
    about(p50, 200_000);
    about(p99, 200_000);
    s.advance(20_000);
    s.codes(format!("RQ.ACK q {} {}", jobs[0], jobs[1]));
    about(shown(&s)[2].expect("a time"), 20_000);
    let text = s.run("RQ.INFO q JSON").text().to_owned();
    let run = shown(&s)[3].expect("a time");
    assert!(text.contains(&format!("\"run-ms-p99\":{run}")), "{text}");
    // NACK counts as well; then the job is ready anew. Giving it back tells nothing of its work.
    s.codes(format!("RQ.NACK q {}", jobs[2]));
    let again = s.lease_one("q w");
    s.codes(format!("RQ.RELEASE q {again}"));
    assert!(shown(&s)[0].expect("a time") >= 190_000, "the median of three long waits and a short one");
    // Elsewhere nothing is known of it, nor here after a while.
    let there = s.replica().info("q");
    assert!(PERCENTILES.iter().all(|name| there.get(name).is_none()), "{there:?}");
    s.advance(121_000);
    assert_eq!(shown(&s), [None; 4]);
    s.verify();
}

#[test]
fn blocked_clients_and_several_queues_are_counted_too() {
    let mut s = Scene::new();
    let worker = s.client();
    worker.send_line("RQ.LEASE q w BLOCK 0");
    s.wait_blocked(1);
    s.push("q x");
    assert_eq!(worker.reply().array().len(), 1);
    assert!(s.info("q").int("wait-ms-p99") < 60_000);
    s.push("late x");
    s.advance(300_000);
    s.run("RQ.MLEASE 2 none late w");
    about(s.info("late").int("wait-ms-p50"), 300_000);
    s.verify();
}

#[test]
fn an_idle_queue_gives_the_memory_back() {
    let mut s = Scene::new();
    s.run("RQ.CREATE q LEASE 7200000");
    let size = |s: &Scene| s.run("MEMORY USAGE q").int();
    s.push("q x");
    let ready = size(&s);
    let job = s.lease_one("q w");
    s.codes(format!("RQ.RELEASE q {job}"));
    let known = size(&s);
    assert!(known > ready + 150, "{ready} before, {known} with figures");
    s.advance(121_000);
    wait_until("the memory", || size(&s) <= known - 150);
    // Also under another name.
    s.lease_one("q w");
    let known = size(&s);
    s.run("RENAME q other");
    s.advance(121_000);
    wait_until("the memory", || s.run("MEMORY USAGE other").int() <= known - 150);
    s.verify();
}

#[test]
fn when_consumers_were_last_seen() {
    let mut s = Scene::new();
    s.run("RQ.CREATE q LEASE 7200000");
    s.run("RQ.MPUSH q 3 a b c");
    let held = s.lease_one("q alive");
    let job = s.lease_one("q gone");
    s.lease_one("q other");
    let seen = |s: &Scene| {
        let rows = s.unchanged(|| s.run("RQ.CONSUMERS q"));
        rows.array().iter().map(|row| row.array()[4].int()).collect::<Vec<_>>()
    };
    assert!(seen(&s).iter().all(|ms| (0..60_000).contains(ms)), "{:?}", seen(&s));
    let calls = [format!("RQ.EXTEND q {held}"), "RQ.LEASE q alive".into(), "RQ.LEASE q alive BLOCK 1".into()];
    for call in calls {
        s.advance(600_000);
        s.run(call);
        let ages = seen(&s);
        assert!(ages[0] < 60_000 && ages[1] >= 600_000, "{ages:?}");
    }
    // A refused token may be anybody's.
    s.codes(format!("RQ.EXTEND q {} 1", job.id));
    assert!(seen(&s)[1] >= 1_800_000);
    s.codes(format!("RQ.NACK q {job} DELAY 7200000"));
    assert!(seen(&s)[1] < 60_000);
    s.run("RQ.RELEASE q CONSUMER other");
    assert!(seen(&s)[2] < 60_000);
    // The replica knows the names, and not more.
    let there = s.replica().run("RQ.CONSUMERS q");
    assert!(there.array().iter().all(|row| row.array()[4].is_null()), "{there:?}");
    s.verify();
}
