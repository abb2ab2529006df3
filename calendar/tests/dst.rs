//! Fire lists over changes of daylight saving time, against a brute force over real minutes with
//! another library's time zones. Case B64.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

use chrono::{DateTime, NaiveDate, NaiveTime, TimeZone, Timelike, Utc};
use chrono_tz::Tz;
use rq_calendar::Calendar;
use rq_core::Slots;

const MINUTE: i64 = 60_000;

fn utc(text: &str) -> i64 {
    DateTime::parse_from_rfc3339(text).expect("a time").timestamp_millis()
}

/// What the clock on the wall shows at each real minute.
fn minutes(zone: Tz, from: i64, to: i64) -> impl Iterator<Item = (i64, NaiveDate, NaiveTime)> {
    (from..to).step_by(MINUTE as usize).map(move |ms| {
        let local = Utc.timestamp_millis_opt(ms).unwrap().with_timezone(&zone).naive_local();
        (ms, local.date(), local.time())
    })
}

/// Every real minute that matches.
fn every(zone: Tz, from: i64, to: i64, matches: impl Fn(NaiveTime) -> bool) -> Vec<i64> {
    minutes(zone, from, to).filter(|(_, _, time)| matches(*time)).map(|(ms, ..)| ms).collect()
}

/// Once a day: the first real minute that shows this time, or, if none does, the first one after.
fn daily(zone: Tz, from: i64, to: i64, hour: u32, minute: u32) -> Vec<i64> {
    let at = NaiveTime::from_hms_opt(hour, minute, 0).unwrap();
    // A day more on either side, so that each day is whole.
    let all: Vec<_> = minutes(zone, from - 26 * 60 * MINUTE, to + 26 * 60 * MINUTE).collect();
    let mut days: Vec<NaiveDate> = all.iter().map(|(_, date, _)| *date).collect();
    days.dedup();
    let fires = days.iter().filter_map(|day| {
        let of_day = || all.iter().filter(|(_, date, _)| date == day);
        let exact = of_day().find(|(_, _, time)| *time == at);
        exact.or_else(|| of_day().find(|(_, _, time)| *time > at)).map(|(ms, ..)| *ms)
    });
    let mut fires: Vec<i64> = fires.filter(|ms| (from..to).contains(ms)).collect();
    fires.sort_unstable();
    fires.dedup();
    fires
}

/// What the calendar says, and that its way back agrees with its way forth.
fn fires(line: &str, zone: &str, from: i64, to: i64) -> Vec<i64> {
    let calendar = Calendar::new();
    let (line, zone) = (line.as_bytes(), zone.as_bytes());
    assert_eq!(calendar.check(line, zone), Ok(()));
    let mut fires = Vec::new();
    let mut at = from as u64 - 1;
    while let Some(next) = calendar.next(line, zone, at).filter(|next| (*next as i64) < to) {
        assert!(next > at);
        assert_eq!(calendar.last(line, zone, next), Some(next), "the last slot at a slot");
        assert_eq!(calendar.last(line, zone, next + 59_999), Some(next), "the last slot in its minute");
        if let Some(before) = fires.last() {
            assert_eq!(calendar.last(line, zone, next - 1), Some(*before as u64), "the slot before");
        }
        fires.push(next as i64);
        at = next;
    }
    fires
}

fn show(fires: &[i64]) -> Vec<String> {
    fires.iter().map(|ms| Utc.timestamp_millis_opt(*ms).unwrap().to_rfc3339()).collect()
}

/// Zones and the days of their changes: forth and back, by an hour and by half an hour, at night
/// and at midnight, and a year in which there was none any more.
const CHANGES: [(&str, &str, &str); 7] = [
    ("America/New_York", "2026-03-07T00:00:00Z", "2026-03-10T00:00:00Z"),
    ("America/New_York", "2026-10-31T00:00:00Z", "2026-11-03T00:00:00Z"),
    ("Australia/Lord_Howe", "2026-04-03T00:00:00Z", "2026-04-06T00:00:00Z"),
    ("Australia/Lord_Howe", "2026-10-02T00:00:00Z", "2026-10-05T00:00:00Z"),
    ("America/Sao_Paulo", "2018-11-02T12:00:00Z", "2018-11-05T12:00:00Z"),
    ("America/Sao_Paulo", "2019-02-15T12:00:00Z", "2019-02-18T12:00:00Z"),
    ("America/Sao_Paulo", "2019-11-01T12:00:00Z", "2019-11-05T12:00:00Z"),
];

#[test]
fn a_daily_job_fires_exactly_once_a_day() {
    for (zone, from, to) in CHANGES {
        let (from, to) = (utc(from), utc(to));
        for (hour, minute) in [(1, 30), (2, 0), (2, 15), (2, 30), (0, 0), (0, 30), (12, 0), (23, 30)] {
            let line = format!("{minute} {hour} * * *");
            let ours = fires(&line, zone, from, to);
            let truth = daily(zone.parse().unwrap(), from, to, hour, minute);
            assert_eq!(show(&ours), show(&truth), "{line} in {zone}");
        }
    }
}

#[test]
fn a_minute_job_is_never_silent_and_never_doubled() {
    for (zone, from, to) in CHANGES {
        let (from, to) = (utc(from), utc(to));
        let tz: Tz = zone.parse().unwrap();
        assert_eq!(show(&fires("* * * * *", zone, from, to)), show(&every(tz, from, to, |_| true)), "{zone}");
        let quarters = every(tz, from, to, |time| time.minute() % 15 == 0);
        assert_eq!(show(&fires("*/15 * * * *", zone, from, to)), show(&quarters), "{zone}");
    }
}

#[test]
fn lines_and_zones_that_make_no_sense_are_refused_with_a_reason() {
    let calendar = Calendar::new();
    for (line, zone) in [
        ("* * * *", ""), ("* * * * * *", ""), ("61 * * * *", ""), ("* 24 * * *", ""), ("x", ""), ("", ""),
        ("* * * * *", "Nowhere/Land"), ("* * * * *", "\u{0}"),
    ] {
        let why = calendar.check(line.as_bytes(), zone.as_bytes()).expect_err(line);
        assert!(!why.is_empty(), "{line} {zone}");
        assert_eq!(calendar.next(line.as_bytes(), zone.as_bytes(), 0), None);
    }
    assert!(calendar.check(b"\xff * * * *", b"").is_err() && calendar.check(b"* * * * *", b"\xff").is_err());
    assert_eq!(calendar.check(b"30 2 29 2 *", b"Europe/Berlin"), Ok(()));
    assert_eq!(calendar.next(b"0 0 30 2 *", b"", 1_700_000_000_000), None, "a day that never comes");
}
