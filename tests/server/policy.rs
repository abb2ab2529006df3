//! RQ.CREATE and RQ.ALTER, and what the options do to waits: backoff and jitter. Case B20.

use crate::harness::Scene;

#[test]
fn create_makes_a_queue_with_the_defaults() {
    let s = Scene::new();
    assert_eq!(s.run("RQ.CREATE q"), 1);
    let info = s.info("q");
    assert_eq!(info.ints(["lease", "maxrun", "maxdeliveries", "maxexpiries"]), [30_000, 0, 20, 5]);
    assert_eq!(info["backoff"].ints(), [1_000, 3_600_000]);
    assert_eq!((info["jitter"].text(), info["expirybackoff"].text()), ("full", "no"));
    assert_eq!(info.int("length"), 0);
    // A queue that a push made has the same ones.
    s.push("pushed x");
    let pushed = s.info("pushed");
    for name in ["lease", "maxrun", "maxdeliveries", "maxexpiries", "backoff", "jitter", "expirybackoff"] {
        assert_eq!(pushed[name], info[name], "{name}");
    }
    s.verify();
}

#[test]
fn create_is_safe_at_every_boot() {
    let s = Scene::new();
    let line = "RQ.CREATE q LEASE 60000 MAXRUN 600000 MAXDELIVERIES 7 MAXEXPIRIES 3 BACKOFF 10 20 JITTER equal EXPIRYBACKOFF yes";
    assert_eq!(s.run(line), 1);
    let info = s.info("q");
    assert_eq!(info.ints(["lease", "maxrun", "maxdeliveries", "maxexpiries"]), [60_000, 600_000, 7, 3]);
    assert_eq!(info["backoff"].ints(), [10, 20]);
    assert_eq!((info["jitter"].text(), info["expirybackoff"].text()), ("equal", "yes"));
    assert_eq!(s.unchanged(|| s.run(line)), 0);
    assert_eq!(s.unchanged(|| s.run("RQ.CREATE q")), 0);
    assert_eq!(s.unchanged(|| s.run("RQ.CREATE q lease 60000")), 0);
    s.verify();
}

#[test]
fn create_sets_only_the_named_options_of_an_existing_queue() {
    let s = Scene::new();
    s.run("RQ.CREATE q LEASE 60000 MAXDELIVERIES 7");
    s.push("q x");
    assert_eq!(s.run("RQ.CREATE q MAXDELIVERIES 9 JITTER NONE"), 0);
    let info = s.info("q");
    assert_eq!(info.ints(["lease", "maxdeliveries", "length"]), [60_000, 9, 1]);
    assert_eq!(info["jitter"], "none");
    s.verify();
}

#[test]
fn alter_sets_options_of_an_existing_queue_only() {
    let s = Scene::new();
    s.refused("RQ.ALTER q LEASE 60000", "NOQUEUE ");
    assert_eq!(s.run("EXISTS q"), 0);
    s.push("q x");
    assert_eq!(s.run("RQ.ALTER q LEASE 60000 EXPIRYBACKOFF YES"), "OK");
    let info = s.info("q");
    assert_eq!(info.int("lease"), 60_000);
    assert_eq!(info["expirybackoff"], "yes");
    assert_eq!(s.unchanged(|| s.run("RQ.ALTER q LEASE 60000")), "OK");
    s.verify();
}

#[test]
fn all_bounds_fit() {
    let s = Scene::new();
    for line in [
        "LEASE 1 MAXRUN 0 MAXDELIVERIES 0 MAXEXPIRIES 0 BACKOFF 0 0",
        "LEASE 31536000000 MAXRUN 315360000000 MAXDELIVERIES 1000000000 MAXEXPIRIES 1000000000 BACKOFF 315360000000 315360000000",
    ] {
        s.run(format!("RQ.CREATE q {line}"));
        s.check();
    }
    s.verify();
}

/// The waits of `n` failures in a row, in ms. The job is made ready again between them.
fn waits(s: &Scene, n: usize) -> Vec<i64> {
    let id = s.push("q x");
    (0..n)
        .map(|_| {
            let job = s.lease_one("q w");
            // In one MULTI, so that a short wait is not over before it is looked at.
            let before = s.now();
            let replies = s.multi(&[format!("RQ.NACK q {job}"), format!("RQ.GET q {id}"), format!("RQ.SET q {id} DELAY 0")]);
            let after = s.now();
            let due = replies[1].fields().int("due-at");
            // The clock of the module is at most so far from ours.
            due - (before + after) / 2
        })
        .collect()
}

/// A wait that was to be `ms`, as far as two clocks agree.
#[track_caller]
fn is_about(wait: i64, ms: i64) {
    assert!((wait - ms).abs() < 5_000, "a wait of {wait}, not {ms}");
}

#[test]
fn backoff_doubles_to_its_bound() {
    let s = Scene::new();
    s.run("RQ.CREATE q LEASE 7200000 BACKOFF 60000 1000000 JITTER none MAXDELIVERIES 0");
    let expected = [60_000, 120_000, 240_000, 480_000, 960_000, 1_000_000, 1_000_000, 1_000_000];
    for (wait, expected) in waits(&s, 8).into_iter().zip(expected) {
        is_about(wait, expected);
    }
    s.verify();
}

#[test]
fn b20_backoff_never_overflows() {
    let s = Scene::new();
    s.run("RQ.CREATE q LEASE 7200000 BACKOFF 1000 3600000 JITTER none MAXDELIVERIES 0");
    let waits = waits(&s, 300);
    for wait in &waits[12..] {
        is_about(*wait, 3_600_000);
    }
    s.verify();
}

#[test]
fn b20_jitter_stays_in_its_range_and_spreads() {
    for (jitter, low, high) in [("full", 0, 3_600_000), ("equal", 1_800_000, 3_600_000)] {
        let s = Scene::new();
        s.run(format!("RQ.CREATE q LEASE 7200000 BACKOFF 3600000 3600000 JITTER {jitter} MAXDELIVERIES 0"));
        let ids = s.multi(&vec!["RQ.PUSH q x"; 100]);
        let nacks: Vec<String> = s.lease("q w COUNT 100").iter().map(|job| format!("RQ.NACK q {job}")).collect();
        let before = s.now();
        s.multi(&nacks);
        let waits: Vec<i64> = ids.iter().map(|id| s.job("q", id.text()).int("due-at") - before).collect();
        assert!(waits.iter().all(|wait| (low - 5_000..=high + 5_000).contains(wait)), "{jitter}: {waits:?}");
        // A hundred uniform draws within one half of their range: that does not happen.
        let (least, most) = (waits.iter().min().expect("some"), waits.iter().max().expect("some"));
        assert!(most - least > (high - low) / 2, "{jitter}: {least} to {most}");
        s.verify();
    }
}

#[test]
fn b20_jitter_is_drawn_once_also_for_many_in_one_command() {
    let s = Scene::new();
    s.run("RQ.CREATE q LEASE 7200000 BACKOFF 3600000 3600000 JITTER full");
    s.multi(&vec!["RQ.PUSH q x"; 50]);
    let jobs = s.lease("q w COUNT 50");
    let pairs: Vec<String> = jobs.iter().map(ToString::to_string).collect();
    assert_eq!(s.codes(format!("RQ.NACK q {}", pairs.join(" "))), [1; 50]);
    let mut due: Vec<i64> = jobs.iter().map(|job| s.job("q", &job.id).int("due-at")).collect();
    due.sort_unstable();
    due.dedup();
    assert!(due.len() > 25, "each has a wait of its own: {due:?}");
    s.verify();
}

#[test]
fn refusals() {
    let s = Scene::new();
    s.run("RQ.CREATE q");
    s.run("SET text x");
    for verb in ["CREATE", "ALTER"] {
        for (options, error) in [
            ("LEASE 0", "ERR LEASE must be an integer from 1 to 31536000000, not \"0\""),
            ("LEASE 31536000001", "ERR LEASE must be an integer"),
            ("LEASE 1.5", "ERR LEASE must be an integer"),
            ("LEASE", "ERR "),
            ("MAXRUN -1", "ERR MAXRUN must be an integer from 0 to 315360000000, not \"-1\""),
            ("MAXDELIVERIES 1000000001", "ERR MAXDELIVERIES must be an integer from 0 to 1000000000, not \"1000000001\""),
            ("MAXEXPIRIES x", "ERR MAXEXPIRIES must be an integer from 0 to 1000000000, not \"x\""),
            ("BACKOFF 5", "ERR syntax error: BACKOFF max needs a value"),
            ("BACKOFF -1 5", "ERR BACKOFF base must be an integer from 0 to 315360000000, not \"-1\""),
            ("BACKOFF 5 315360000001", "ERR BACKOFF max must be an integer from 0 to 315360000000"),
            ("BACKOFF 6 5", "ERR BACKOFF max must not be below its base"),
            ("JITTER some", "ERR JITTER must be full, equal or none, not \"some\""),
            ("EXPIRYBACKOFF maybe", "ERR EXPIRYBACKOFF must be no or yes, not \"maybe\""),
            ("LEASE 5 LEASE 6", "ERR syntax error: LEASE was given twice"),
            ("LEASE 5 COLOUR red", "ERR syntax error: unknown or misplaced option \"COLOUR\""),
            ("MAXDELIVERIES 5 LEASE 0", "ERR LEASE must be"),
        ] {
            s.refused(format!("RQ.{verb} q {options}"), error);
        }
        s.refused(format!("RQ.{verb} text LEASE 5"), "WRONGTYPE ");
    }
    s.refused("RQ.CREATE new LEASE 0", "ERR LEASE must be");
    assert_eq!(s.run("EXISTS new"), 0);
    s.refused("RQ.ALTER q", "ERR wrong number of arguments");
    s.verify();
}
