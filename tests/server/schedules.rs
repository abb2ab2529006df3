//! RQ.SCHEDULE, RQ.UNSCHEDULE, RQ.SCHEDULES: what is said, and what comes of it on one server.
//! Over restarts and failovers: `slots.rs`. Fire lists over changes of daylight saving time are
//! in `calendar/tests`.

use crate::harness::{jobs, wait_until, Client, Fields, Reply, Scene};

const HOUR: i64 = 3_600_000;
const DAY: i64 = 24 * HOUR;

/// A schedule with a cron line, which has spaces in it.
fn cron(c: &Client, name: &str, line: &str, more: &str) -> Reply {
    let words = ["RQ.SCHEDULE", "q", name, "CRON", line];
    c.cmd(&words.into_iter().chain(more.split_whitespace()).collect::<Vec<_>>())
}

/// Code and next slot.
#[track_caller]
fn said(reply: &Reply) -> (i64, Option<i64>) {
    let [code, next] = reply.array() else { panic!("not [code, next-at]: {reply:?}") };
    (code.int(), (!next.is_null()).then(|| next.int()))
}

#[track_caller]
fn schedule(c: &Client, line: &str) -> (i64, Option<i64>) {
    said(&c.run(format!("RQ.SCHEDULE q {line}")))
}

#[track_caller]
fn shown(c: &Client, name: &str) -> Fields {
    let all = c.run("RQ.SCHEDULES q");
    all.array().iter().map(Reply::fields).find(|one| one["name"] == name).expect("the schedule")
}

/// The slots of the jobs of a schedule that are ready, in order.
fn slots(c: &Client, name: &str) -> Vec<i64> {
    let mut slots: Vec<i64> =
        c.all_jobs("q").iter().filter(|job| job["schedule"] == name).map(|job| job.int("due-at")).collect();
    slots.sort_unstable();
    slots
}

#[test]
fn a_slot_becomes_a_job_on_an_idle_server_and_wakes_a_worker() {
    let mut s = Scene::new();
    let before = s.now();
    let (code, next) = schedule(&s, "tick EVERY 3600000 PAYLOAD p PRIORITY 3 LEASE 7200000 MAXDELIVERIES 7 TTL 36000000 GROUP g DEDUP d");
    let next = next.expect("a slot");
    assert_eq!(code, 1);
    assert!((before - 1 + HOUR..before + 2 * HOUR).contains(&next));
    let worker = s.client();
    worker.send_line("RQ.LEASE q w BLOCK 0 META");
    s.wait_blocked(1);
    s.check();
    s.advance(HOUR);
    let job = jobs(&worker.reply()).remove(0);
    assert_eq!((job.text(), job.lease_ms), ("p".into(), 7_200_000));
    let meta = job.meta.expect("META");
    assert_eq!((meta["schedule"].text(), meta["group"].text(), meta["dedup"].text()), ("tick", "g", "d"));
    assert_eq!(meta.ints(["due-at", "priority", "max-deliveries", "deliveries"]), [next, 3, 7, 1]);
    let late = meta.int("last-delivered-at") - next;
    assert!((0..600_000).contains(&late), "{late} ms late");
    assert_eq!(shown(&s, "tick").ints(["next-at", "made", "refused"]), [next + HOUR, 1, 0]);
    assert_eq!(s.info("q").ints(["schedules", "pushed-total", "slots-skipped-total"]), [1, 1, 0]);
    s.verify();
}

#[test]
fn in_real_time() {
    let s = Scene::new();
    schedule(&s, "tick EVERY 100 PAYLOAD p");
    let mut last = 0;
    for _ in 0..10 {
        let job = jobs(&s.run("RQ.LEASE q w BLOCK 0 LEASE 7200000 META")).remove(0);
        let meta = job.meta.expect("META");
        let (slot, at) = (meta.int("due-at"), meta.int("last-delivered-at"));
        assert!(at >= slot && slot > last && at - slot < 10_000, "{slot} after {last}, at {at}");
        assert!(last == 0 || (slot - last) % 100 == 0);
        last = slot;
    }
    assert_eq!(s.run("RQ.UNSCHEDULE q tick"), 1);
    let made = s.run("RQ.LEN q").int();
    let now = s.now();
    s.wait_past(now + 300);
    assert_eq!(s.run("RQ.LEN q"), made, "its jobs stay, and there come no more");
    s.verify();
}

#[test]
fn an_upsert_changes_what_it_names_and_keeps_the_phase() {
    let s = Scene::new();
    let line = "x EVERY 3600000 PAYLOAD p";
    let (_, next) = schedule(&s, line);
    assert_eq!(s.unchanged(|| schedule(&s, line)), (0, next));
    assert_eq!(schedule(&s, "x EVERY 3600000 PAYLOAD other PRIORITY 5"), (2, next), "the phase stays");
    assert_eq!((shown(&s, "x")["payload"].text(), shown(&s, "x").int("priority")), ("other", 5));
    let (code, faster) = schedule(&s, "x EVERY 1800000 PAYLOAD p");
    assert!(code == 2 && faster < next);
    let start = s.now() + DAY;
    assert_eq!(schedule(&s, &format!("x EVERY 1800000 START {start} PAYLOAD p")), (2, Some(start)));
    assert_eq!(schedule(&s, &format!("x EVERY 1800000 START {start} PAYLOAD p")), (0, Some(start)));
    let reply = cron(&s, "x", "0 0 * * *", "PAYLOAD p");
    assert_eq!(said(&reply).0, 2);
    assert_eq!(said(&s.unchanged(|| cron(&s, "x", "0 0 * * *", "payload p"))).0, 0);
    assert_eq!(s.run("RQ.SCHEDULES q").array().len(), 1);
    s.verify();
}

#[test]
fn cron_lines_in_time_zones() {
    let mut s = Scene::new();
    let next = |reply: &Reply| said(reply).1.expect("a slot");
    // Neither of these zones has changes.
    assert_eq!(next(&cron(&s, "utc", "0 0 * * *", "PAYLOAD p")) % DAY, 0);
    assert_eq!(next(&cron(&s, "kolkata", "30 5 * * *", "TZ Asia/Kolkata PAYLOAD p")) % DAY, 0);
    assert_eq!(next(&cron(&s, "kathmandu", "0 0 * * *", "TZ Asia/Kathmandu PAYLOAD p")) % DAY, 18 * HOUR + 15 * 60_000);
    let tokyo = next(&cron(&s, "tokyo", "0 9 * * 1-5", "TZ Asia/Tokyo PAYLOAD p"));
    assert_eq!(tokyo % DAY, 0);
    assert!((1..6).contains(&((tokyo / DAY + 4) % 7)), "from Monday to Friday");
    assert_eq!(next(&cron(&s, "quarter", "*/15 * * * *", "PAYLOAD p")) % (HOUR / 4), 0);
    let shown = shown(&s, "kolkata");
    assert_eq!((shown["cron"].text(), shown["tz"].text()), ("30 5 * * *", "Asia/Kolkata"));
    assert!(shown.get("every").is_none());
    s.run("RQ.UNSCHEDULE q quarter tokyo");
    s.check();
    s.advance(DAY);
    wait_until("a day's slots", || s.run("RQ.LEN q READY") == 3);
    for name in ["utc", "kolkata", "kathmandu"] {
        assert_eq!(slots(&s, name).len(), 1, "{name}");
    }
    s.verify();
}

#[test]
fn start_end_and_limit() {
    let mut s = Scene::new();
    let start = s.now() + HOUR;
    let line = format!("x EVERY 60000 START {start} END {} MISSED all PAYLOAD p", start + 120_000);
    assert_eq!(schedule(&s, &line), (1, Some(start)), "START itself is a slot");
    let limited = format!("limited EVERY 60000 START {start} LIMIT 2 MISSED all PAYLOAD p");
    schedule(&s, &limited);
    s.advance(2 * HOUR);
    wait_until("the slots", || s.run("RQ.LEN q READY") == 5);
    assert_eq!(slots(&s, "x"), [start, start + 60_000, start + 120_000], "END itself too");
    assert_eq!(slots(&s, "limited"), [start, start + 60_000]);
    // They stay, exhausted, and the same call does not begin anew.
    assert!(shown(&s, "x").get("next-at").is_none());
    assert_eq!(s.unchanged(|| schedule(&s, &line)), (0, None));
    assert_eq!(s.unchanged(|| schedule(&s, &limited)), (0, None));
    assert_eq!(schedule(&s, "limited EVERY 3600000 LIMIT 2 PAYLOAD p"), (2, None), "LIMIT keeps its count");
    let (code, next) = schedule(&s, "limited EVERY 3600000 LIMIT 3 PAYLOAD p");
    assert!(code == 2 && next.is_some(), "a higher one goes on");
    assert_eq!(shown(&s, "limited").ints(["made", "limit"]), [2, 3]);
    assert_eq!(s.run("RQ.UNSCHEDULE q x none limited"), 2);
    assert_eq!(schedule(&s, "limited EVERY 3600000 LIMIT 2 PAYLOAD p").0, 1, "after UNSCHEDULE it is a new one");
    s.verify();
}

#[test]
fn missed_one_skip_and_all() {
    let mut s = Scene::new();
    let start = s.now() + HOUR;
    for missed in ["one", "skip", "all"] {
        schedule(&s, &format!("{missed} EVERY {HOUR} START {start} MISSED {missed} PAYLOAD p"));
    }
    schedule(&s, &format!("default EVERY {HOUR} START {start} PAYLOAD p"));
    s.advance(6 * HOUR + HOUR / 2);
    wait_until("the slots", || s.run("RQ.LEN q READY") == 8);
    let last = start + 5 * HOUR;
    assert_eq!(slots(&s, "one"), [last]);
    assert_eq!(slots(&s, "default"), [last]);
    assert!(slots(&s, "skip").is_empty());
    assert_eq!(slots(&s, "all"), (0..6).map(|n| start + n * HOUR).collect::<Vec<_>>());
    for name in ["one", "skip", "all", "default"] {
        assert_eq!(shown(&s, name).int("next-at"), last + HOUR, "{name}");
    }
    s.verify();
}

#[test]
fn all_is_a_thousand_at_most() {
    let mut s = Scene::new();
    schedule(&s, "x EVERY 60000 MISSED all PAYLOAD p");
    s.advance(5_000 * 60_000 + 30_000);
    wait_until("the slots", || shown(&s, "x").int("next-at") > s.now());
    let made = shown(&s, "x").int("made");
    assert!((1_000..=1_001).contains(&made), "{made}");
    assert_eq!(s.run("RQ.LEN q READY"), made);
    s.verify();
}

#[test]
fn dedup_means_no_overlap() {
    let mut s = Scene::new();
    s.run("RQ.CREATE q LEASE 360000000");
    schedule(&s, "x EVERY 3600000 PAYLOAD p DEDUP busy");
    s.advance(HOUR);
    wait_until("the first", || s.run("RQ.LEN q READY") == 1);
    let job = s.lease_one("q w");
    s.advance(3 * HOUR);
    wait_until("the others passed", || shown(&s, "x").int("next-at") > s.now());
    assert_eq!(s.info("q").ints(["length", "pushed-total"]), [1, 1]);
    s.codes(format!("RQ.ACK q {job}"));
    s.advance(HOUR);
    wait_until("the next one", || s.run("RQ.LEN q READY") == 1);
    // It is the dedup key of all.
    assert_eq!(s.run("RQ.PUSH q x DEDUP busy").array()[1], 0);
    s.verify();
}

#[test]
fn refused_slots_are_counted() {
    let mut s = Scene::with(&["rq.expiry-grace 0", "rq.eviction-guard refuse"]);
    s.run("RQ.CREATE q MAXLIVE 1");
    s.push("q x");
    schedule(&s, "x EVERY 3600000 PAYLOAD p");
    let mut skipped = 0;
    let mut slot_refused = |s: &mut Scene, why: &str| {
        s.advance(HOUR);
        skipped += 1;
        wait_until(why, || s.info("q").int("slots-skipped-total") == skipped);
        assert_eq!(shown(s, "x").ints(["refused", "made"]), [skipped, 0], "{why}");
        assert_eq!(s.run("RQ.LEN q"), 1, "{why}");
    };
    slot_refused(&mut s, "FULL");
    s.run("RQ.ALTER q MAXLIVE -1 MAXLIVEBYTES 1");
    slot_refused(&mut s, "FULL of bytes");
    s.run("RQ.ALTER q MAXLIVEBYTES -1");
    s.run("RQ.PAUSE q IN");
    slot_refused(&mut s, "PAUSED");
    s.run("RQ.RESUME q IN");
    s.run("CONFIG SET maxmemory 1");
    slot_refused(&mut s, "OOM");
    s.run("CONFIG SET maxmemory 1gb");
    s.run("CONFIG SET maxmemory-policy allkeys-lru");
    assert!(s.error("RQ.PUSH q x").starts_with("UNSAFE "));
    slot_refused(&mut s, "UNSAFE");
    s.run("CONFIG SET maxmemory-policy noeviction");
    s.run("CONFIG SET maxmemory 0");
    // PAUSE OUT does not hold up slots.
    s.run("RQ.PAUSE q");
    s.advance(HOUR);
    wait_until("a job", || s.run("RQ.LEN q") == 2);
    s.verify();
}

#[test]
fn schedules_are_shown_by_name() {
    let s = Scene::new();
    assert!(s.run("RQ.SCHEDULES q").array().is_empty());
    assert_eq!(s.run("RQ.UNSCHEDULE q x"), 0);
    assert_eq!(s.run("EXISTS q"), 0);
    for name in ["b", "c", "a"] {
        schedule(&s, &format!("{name} EVERY 3600000 PAYLOAD p"));
    }
    let shown = s.client3().run("RQ.SCHEDULES q");
    let names: Vec<String> = shown.array().iter().map(|one| one.fields()["name"].text().to_owned()).collect();
    assert_eq!(names, ["a", "b", "c"]);
    assert!(matches!(shown.array()[0], Reply::Map(_)));
    let one = shown.array()[0].fields();
    assert_eq!(one.ints(["every", "priority", "made", "refused"]), [3_600_000, 0, 0, 0]);
    for name in ["cron", "tz", "start", "end", "limit", "lease", "maxdeliveries", "ttl", "group", "dedup"] {
        assert!(one[name].is_null(), "{name}");
    }
    assert_eq!(one["missed"], "one");
    s.verify();
}

#[test]
fn refusals_change_nothing() {
    let s = Scene::new();
    schedule(&s, "x EVERY 3600000 PAYLOAD p");
    s.run("SET text x");
    for (options, error) in [
        ("PAYLOAD p PRIORITY 5", "ERR syntax error: RQ.SCHEDULE needs either CRON or EVERY"),
        ("EVERY 1000 PRIORITY 5", "ERR syntax error: RQ.SCHEDULE needs PAYLOAD"),
        ("EVERY 99 PAYLOAD p", "ERR EVERY must be an integer from 100 to 315360000000, not \"99\""),
        ("EVERY x PAYLOAD p", "ERR EVERY must be an integer"),
        ("EVERY 1000 TZ UTC PAYLOAD p", "ERR syntax error: TZ goes with CRON, not with EVERY"),
        ("EVERY 1000 START 5 PAYLOAD p", "ERR START takes Unix milliseconds, 5 looks like seconds"),
        ("EVERY 1000 END 1700000000 PAYLOAD p", "ERR END takes Unix milliseconds, 1700000000 looks like seconds"),
        ("EVERY 1000 START 1800000000001 END 1800000000000 PAYLOAD p", "ERR END must not be before START"),
        ("EVERY 1000 LIMIT 0 PAYLOAD p", "ERR LIMIT must be an integer from 1 to 1000000000, not \"0\""),
        ("EVERY 1000 MISSED some PAYLOAD p", "ERR MISSED must be one, skip or all, not \"some\""),
        ("EVERY 1000 PAYLOAD", "ERR syntax error: PAYLOAD needs a value after it"),
        ("EVERY 1000 PAYLOAD p PRIORITY 128", "ERR PRIORITY must be an integer from -128 to 127, not \"128\""),
        ("EVERY 1000 PAYLOAD p DELAY 5", "ERR syntax error: unknown or misplaced option \"DELAY\""),
        ("EVERY 1000 PAYLOAD p DEDUP d WINDOW 5", "ERR syntax error: unknown or misplaced option \"WINDOW\""),
        ("EVERY 1000 EVERY 1000 PAYLOAD p", "ERR syntax error: EVERY was given twice"),
    ] {
        s.refused(format!("RQ.SCHEDULE q x {options}"), error);
        s.refused(format!("RQ.SCHEDULE new x {options}"), error);
    }
    for (line, more, error) in [
        ("* * * *", "PAYLOAD p", "ERR CRON \"* * * *\" TZ \"UTC\": the line has 4 fields, it needs five"),
        ("0 * * * * *", "PAYLOAD p", "ERR CRON \"0 * * * * *\" TZ \"UTC\": the line has 6 fields"),
        ("60 * * * *", "PAYLOAD p", "ERR CRON \"60 * * * *\" TZ \"UTC\": "),
        ("x * * * *", "PAYLOAD p", "ERR CRON "),
        ("0 0 * * *", "TZ Mars/Olympus PAYLOAD p", "ERR CRON \"0 0 * * *\" TZ \"Mars/Olympus\": the zone is not known"),
        ("0 0 * * *", "EVERY 1000 PAYLOAD p", "ERR syntax error: RQ.SCHEDULE needs either CRON or EVERY"),
    ] {
        let reply = s.unchanged(|| cron(&s, "x", line, more));
        assert!(reply.error().starts_with(error), "{line} {more}: {reply:?}");
    }
    s.refused(format!("RQ.SCHEDULE q {} EVERY 1000 PAYLOAD p", "n".repeat(1_025)), "ERR a schedule's name has at most 1024 bytes, not 1025");
    s.refused("RQ.SCHEDULE text x EVERY 1000 PAYLOAD p", "WRONGTYPE ");
    s.refused("RQ.UNSCHEDULE text x", "WRONGTYPE ");
    s.refused("RQ.SCHEDULES text", "WRONGTYPE ");
    s.refused("RQ.UNSCHEDULE q", "ERR wrong number of arguments");
    assert_eq!(s.run("EXISTS new"), 0);
    s.verify();
}
