//! Schedules: one job per slot, whoever says so how often, across restarts and absences. The case
//! that went wrong for others (B14) as a named test. Cron lines here are those of the driver's
//! calendar: so many ms.

#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "tests may")]

mod support;

use rq_core::Tree;
use support::{at, bulk, field, int, ints, items, string, Driver, START};

const MINUTE: u64 = 60_000;

fn queue(policy: &str) -> Driver {
    let mut q = Driver::new();
    q.cmd(&format!("RQ.CREATE JITTER none {policy}"));
    q
}

/// Its code, and the next slot after the start.
fn schedule(q: &mut Driver, line: &str) -> (i64, Option<u64>) {
    let reply = q.cmd(&format!("RQ.SCHEDULE {line}"));
    let next = match at(&reply, 1) {
        Tree::Null => None,
        next => Some(int(next) as u64 - START),
    };
    (int(at(&reply, 0)), next)
}

/// The slots of the jobs that are ready, since the start; removes them.
fn slots(q: &mut Driver) -> Vec<u64> {
    let page = q.cmd("RQ.PEEK READY COUNT 1000");
    let jobs = items(at(&page, 1)).to_vec();
    for job in &jobs {
        q.cmd(&format!("RQ.DEL {}", string(&field(job, "id"))));
    }
    jobs.iter().map(|job| int(&field(job, "due-at")) as u64 - START).collect()
}

fn seen(q: &mut Driver, name: &str) -> Tree {
    field(at(&q.cmd("RQ.SCHEDULES"), 0), name)
}

/// What a slot's job is: stamped, and with the schedule's options.
#[test]
fn a_slot_makes_a_job() {
    let mut q = queue("");
    let line = "nightly EVERY 1000 PAYLOAD p PRIORITY 7 LEASE 321 MAXDELIVERIES 3 TTL 5000 GROUP g DEDUP k";
    assert_eq!(schedule(&mut q, line), (1, Some(1_000)));
    assert_eq!(q.queue.as_ref().unwrap().next_event(q.now, 0), Some(START + 1_000));
    q.pass(999);
    assert_eq!(q.cmd("RQ.LEN"), Tree::Int(0));
    q.now += 31;
    q.tick(9);
    assert_eq!(q.events, ["rq.push"]);
    let job = q.cmd("RQ.GET DEDUP k");
    let expected = [
        ("schedule", bulk("nightly")), ("due-at", Tree::Int((START + 1_000) as i64)), ("state", bulk("ready")), ("payload", bulk("p")),
        ("priority", Tree::Int(7)), ("max-deliveries", Tree::Int(3)), ("group", bulk("g")), ("deliveries", Tree::Int(0)),
    ];
    for (name, value) in expected {
        assert_eq!(field(&job, name), value, "{name}");
    }
    assert_eq!(q.info("pushed-total"), Tree::Int(1));
    assert_eq!(at(at(&q.cmd("RQ.LEASE w"), 0), 4), &Tree::Int(321));
    let shown = [
        ("name", bulk("nightly")), ("every", Tree::Int(1_000)), ("cron", Tree::Null), ("missed", bulk("one")), ("made", Tree::Int(1)),
        ("refused", Tree::Int(0)), ("next-at", Tree::Int((START + 2_000) as i64)), ("limit", Tree::Null), ("payload", bulk("p")),
    ];
    for (name, value) in shown {
        assert_eq!(seen(&mut q, name), value, "{name}");
        assert!(q.batch.is_empty());
    }
}

/// The same call any number of times, by anybody, with restarts in between: one job per slot.
#[test]
fn a_thousand_upserts_make_one_job_per_slot() {
    for rule in ["EVERY 1000", "CRON 1000"] {
        let mut q = queue("");
        let line = format!("s {rule} PAYLOAD p");
        assert_eq!(schedule(&mut q, &line).0, 1);
        let mut made = Vec::new();
        for n in 1..=1_000u64 {
            let (code, next) = schedule(&mut q, &line);
            assert_eq!((code, next), (0, Some((q.now - START) / 1_000 * 1_000 + 1_000)));
            q.now += 37;
            if n % 50 == 0 {
                q.reload();
            }
            if n % 100 == 0 {
                made.extend(slots(&mut q));
            }
        }
        q.pass(0);
        made.extend(slots(&mut q));
        let expected: Vec<u64> = (1..=37).map(|n| n * 1_000).collect();
        assert_eq!(made, expected, "{rule}");
        assert_eq!(q.cmd("RQ.SCHEDULES").clone(), q.cmd("RQ.SCHEDULES"));
        assert_eq!((seen(&mut q, "made"), q.info("schedules")), (Tree::Int(37), Tree::Int(1)));
    }
}

/// EVERY keeps its phase over changes of anything else; START sets it; another interval begins anew.
#[test]
fn every_keeps_its_phase() {
    let mut q = queue("");
    schedule(&mut q, "s EVERY 1000 PAYLOAD p");
    q.pass(1_300);
    assert_eq!(slots(&mut q), [1_000]);
    assert_eq!(schedule(&mut q, "s EVERY 1000 PAYLOAD other PRIORITY 3"), (2, Some(2_000)));
    assert_eq!(schedule(&mut q, "s EVERY 1000 PAYLOAD other MISSED skip LIMIT 100"), (2, Some(2_000)));
    assert_eq!(schedule(&mut q, "s EVERY 700 PAYLOAD other"), (2, Some(2_000)), "700 from now");
    assert_eq!(schedule(&mut q, &format!("s EVERY 1000 START {} PAYLOAD p", START + 150)), (2, Some(2_150)));
    q.pass(10_000);
    assert_eq!(slots(&mut q), [11_150]);
    assert_eq!(schedule(&mut q, &format!("s EVERY 1000 START {} PAYLOAD p", START + 50_000)), (2, Some(50_000)), "START is a slot");
    q.pass(100_000);
    assert_eq!(slots(&mut q), [111_000]);
}

/// START, END, LIMIT bound the slots; an exhausted schedule stays until it is told to go.
#[test]
fn bounds_and_exhaustion() {
    let mut q = queue("");
    let line = format!("s EVERY 1000 START {} END {} PAYLOAD p", START + 2_500, START + 5_500);
    assert_eq!(schedule(&mut q, &line), (1, Some(2_500)));
    let mut made = Vec::new();
    for _ in 0..90 {
        q.pass(100);
        made.extend(slots(&mut q));
    }
    assert_eq!(made, [2_500, 3_500, 4_500, 5_500], "both ends are slots");
    assert_eq!((schedule(&mut q, &line), seen(&mut q, "next-at")), ((0, None), Tree::Null));
    q.reload();
    assert_eq!(q.cmd("RQ.UNSCHEDULE s s nobody"), Tree::Int(1));
    assert_eq!(q.cmd("RQ.SCHEDULES"), Tree::Array(Vec::new()));
    // LIMIT counts jobs, over changes and restarts.
    let start = q.now - START;
    schedule(&mut q, "s EVERY 1000 LIMIT 3 PAYLOAD p");
    q.pass(1_000);
    q.pass(1_000);
    assert_eq!(schedule(&mut q, "s EVERY 1000 LIMIT 3 PAYLOAD other"), (2, Some(start + 3_000)));
    q.reload();
    q.pass(1_000);
    assert_eq!(slots(&mut q).len(), 3);
    q.pass(90_000);
    assert_eq!((q.cmd("RQ.LEN"), schedule(&mut q, "s EVERY 1000 LIMIT 3 PAYLOAD other")), (Tree::Int(0), (0, None)));
    assert_eq!(schedule(&mut q, "s EVERY 1000 LIMIT 3 PAYLOAD p"), (2, None), "a change does not give it more");
    assert_eq!(schedule(&mut q, "s EVERY 1000 LIMIT 4 PAYLOAD p").1.map(|next| next % 1_000), Some(start % 1_000));
    q.pass(90_000);
    assert_eq!(slots(&mut q).len(), 1);
    assert_eq!(q.queue.as_ref().unwrap().next_event(q.now, 0), None);
}

/// MISSED: what becomes of slots that nobody could make in their time.
#[test]
fn missed_slots() {
    for rule in ["EVERY 600000", "CRON 600000"] {
        let mut q = queue("");
        let ten = 10 * MINUTE;
        let (_, first) = schedule(&mut q, &format!("one {rule} PAYLOAD p"));
        let first = first.unwrap();
        schedule(&mut q, &format!("skip {rule} MISSED skip PAYLOAD p PRIORITY -1"));
        schedule(&mut q, &format!("all {rule} MISSED all PAYLOAD p PRIORITY -2"));
        // Five slots were missed, the last of them five minutes ago.
        q.at(START + first + 4 * ten + 5 * MINUTE);
        while q.tick(3) {}
        let all: Vec<u64> = (0..5).map(|n| first + n * ten).collect();
        assert_eq!(slots(&mut q), [&all[4..], &all].concat(), "{rule}: the last one, none, all");
        assert_eq!(q.info("slots-skipped-total"), Tree::Int(0));
        // A slot that comes in time is made by all of them, also a little late.
        q.at(START + first + 5 * ten + 20_000);
        q.pass(0);
        assert_eq!(slots(&mut q), [first + 5 * ten; 3], "{rule}");
        q.reload();
        q.pass(ten);
        assert_eq!(slots(&mut q), [first + 6 * ten; 3]);
    }
}

/// MISSED all has an end: a thousand in a row; then it goes on as usual.
#[test]
fn at_most_a_thousand_missed_slots() {
    let mut q = queue("");
    schedule(&mut q, "s EVERY 1000 MISSED all PAYLOAD p");
    q.now += 5_000_500;
    let mut rounds = 0;
    while q.tick(64) {
        rounds += 1;
        if rounds % 5 == 0 {
            q.reload();
        }
    }
    assert_eq!(q.cmd("RQ.LEN"), Tree::Int(1_000));
    assert_eq!(slots(&mut q)[0], 1_000, "the oldest of them");
    q.pass(500);
    assert_eq!(slots(&mut q), [5_001_000]);
}

/// Missed slots that END has cut off: they are still one absence, not many.
#[test]
fn missed_slots_before_the_end() {
    for (missed, expected) in [("one", &[3_000_000][..]), ("skip", &[]), ("all", &[1_000_000, 2_000_000, 3_000_000])] {
        let mut q = queue("");
        schedule(&mut q, &format!("s EVERY 1000000 END {} MISSED {missed} PAYLOAD p", START + 3_500_000));
        q.at(START + 9_000_000);
        q.pass(0);
        assert_eq!(slots(&mut q), expected, "{missed}");
        assert_eq!(seen(&mut q, "next-at"), Tree::Null);
    }
    // However many there are, it is one step.
    let mut q = queue("");
    schedule(&mut q, &format!("s EVERY 100 END {} MISSED skip PAYLOAD p", START + 1_000_000_000));
    q.at(START + 2_000_000_000);
    assert!(!q.tick(3));
}

/// DEDUP: no overlap. The next slot is made when the job before has ended.
#[test]
fn dedup_means_no_overlap() {
    let mut q = queue("KEEPDONE 9");
    schedule(&mut q, "s EVERY 1000 PAYLOAD p DEDUP k");
    q.pass(1_000);
    let (id, token) = q.lease("w");
    q.pass(1_000);
    q.pass(1_000);
    assert_eq!((q.cmd("RQ.LEN"), q.info("slots-skipped-total"), q.info("pushed-total")), (Tree::Int(1), Tree::Int(0), Tree::Int(1)));
    q.cmd(&format!("RQ.ACK {id} {token}"));
    q.pass(1_000);
    assert_eq!(slots(&mut q), [4_000]);
    // Anybody's job of that key.
    q.cmd("RQ.PUSH mine DEDUP k");
    q.pass(1_000);
    assert_eq!((q.cmd("RQ.LEN"), seen(&mut q, "made"), seen(&mut q, "refused")), (Tree::Int(1), Tree::Int(2), Tree::Int(0)));
}

/// A slot that is refused is counted, and the schedule goes on.
#[test]
fn refused_slots_are_counted() {
    for bar in ["FULL", "BYTES", "PAUSED", "memory"] {
        let mut q = queue("");
        schedule(&mut q, "s EVERY 1000 LIMIT 2 PAYLOAD pppp");
        match bar {
            "FULL" => drop(q.cmd("RQ.ALTER MAXLIVE 0")),
            "BYTES" => drop(q.cmd("RQ.ALTER MAXLIVEBYTES 3")),
            "PAUSED" => drop(q.cmd("RQ.PAUSE IN")),
            _ => q.bar_slots = true,
        }
        for refused in 1..=3 {
            q.pass(1_000);
            let counted = (q.info("slots-skipped-total"), seen(&mut q, "refused"), seen(&mut q, "made"), q.cmd("RQ.LEN"));
            assert_eq!(counted, (Tree::Int(refused), Tree::Int(refused), Tree::Int(0), Tree::Int(0)), "{bar}");
        }
        q.bar_slots = false;
        q.cmd("RQ.ALTER MAXLIVE -1 MAXLIVEBYTES -1");
        q.cmd("RQ.RESUME IN");
        for slot in [4_000, 5_000] {
            q.pass(1_000);
            assert_eq!(slots(&mut q), [slot], "{bar}: LIMIT counts those that were made");
        }
        assert_eq!(seen(&mut q, "next-at"), Tree::Null);
    }
}

/// What is a duplicate is not refused: a slot that would overlap is not counted, also when the
/// queue is full.
#[test]
fn an_overlap_is_no_refusal() {
    for bar in ["RQ.ALTER MAXLIVE 0", "RQ.PAUSE IN"] {
        let mut q = queue("");
        schedule(&mut q, "s EVERY 1000 PAYLOAD p DEDUP k");
        q.pass(1_000);
        q.cmd(bar);
        q.pass(1_000);
        assert_eq!((q.info("slots-skipped-total"), seen(&mut q, "refused")), (Tree::Int(0), Tree::Int(0)), "{bar}");
        q.cmd("RQ.DEL DEDUP k");
        q.pass(1_000);
        assert_eq!((q.info("slots-skipped-total"), seen(&mut q, "refused")), (Tree::Int(1), Tree::Int(1)), "{bar}");
    }
}

/// No bytes fit into any MAXLIVEBYTES, by a slot as by PUSH.
#[test]
fn an_empty_slot_fits_where_an_empty_push_does() {
    let mut q = queue("");
    q.cmd("RQ.PUSH large");
    q.cmd("RQ.ALTER MAXLIVEBYTES 0");
    q.run("RQ.SCHEDULE", &[b"s", b"EVERY", b"1000", b"PAYLOAD", b""]).unwrap();
    q.run("RQ.PUSH", &[b""]).unwrap();
    q.pass(1_000);
    assert_eq!((q.cmd("RQ.LEN"), seen(&mut q, "made")), (Tree::Int(3), Tree::Int(1)));
}

/// Its jobs stay without it, and remember it.
#[test]
fn unschedule_leaves_the_jobs() {
    let mut q = queue("");
    schedule(&mut q, "s EVERY 1000 PAYLOAD p");
    q.pass(1_000);
    assert_eq!(q.cmd("RQ.UNSCHEDULE s"), Tree::Int(1));
    q.reload();
    assert_eq!(q.queue.as_ref().unwrap().next_event(q.now, 0), None);
    q.pass(10_000);
    let (id, token) = q.lease("w");
    assert_eq!(q.get(&id, "schedule"), bulk("s"));
    assert_eq!(q.cmd(&format!("RQ.ACK {id} {token}")), ints(&[1]));
    assert_eq!(schedule(&mut q, "s EVERY 1000 PAYLOAD p"), (1, Some(12_000)));
    // On an absent key it makes the queue.
    let mut q = Driver::new();
    assert_eq!(schedule(&mut q, "s CRON 1000 TZ UTC PAYLOAD p"), (1, Some(1_000)));
    assert_eq!(q.cmd("RQ.LEN"), Tree::Int(0));
    for (line, word) in [("s CRON often PAYLOAD p", "often"), ("s CRON 1000 TZ Nowhere PAYLOAD p", "Nowhere")] {
        let error = q.try_cmd(&format!("RQ.SCHEDULE {line}")).unwrap_err().to_string();
        assert!(error.starts_with("ERR ") && error.contains(word), "{error}");
    }
}
