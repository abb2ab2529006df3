//! Cron lines in IANA time zones: when the next slot is, and when the last one was.
//!
//! Over a change of daylight saving time a line that names its hour and minute fires exactly once
//! a day: at the first real minute after a gap, and at the first of two equal ones. A line with a
//! wildcard or a step in them fires at every real minute that it matches, so a minute job is
//! never silent and never doubled. (`croner` decides that; the tests hold it to it.)
#![forbid(unsafe_code)]

use std::cell::RefCell;
use std::rc::Rc;

use croner::parser::{CronParser, Seconds, Year};
use croner::{Cron, Direction};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use rq_core::Slots;

/// How many lines are kept parsed. They are asked for in turn, so a few do.
const KEPT: usize = 64;

/// Knows cron lines and time zones.
#[derive(Default)]
pub struct Calendar {
    kept: RefCell<Vec<Rc<Line>>>,
}

/// A line with its zone, parsed.
struct Line {
    cron: Box<[u8]>,
    zone: Box<[u8]>,
    parsed: Cron,
    time_zone: TimeZone,
}

impl Calendar {
    /// Nothing parsed yet.
    pub fn new() -> Calendar {
        Calendar::default()
    }

    fn line(&self, cron: &[u8], zone: &[u8]) -> Result<Rc<Line>, String> {
        let found = self.kept.borrow().iter().find(|line| *line.cron == *cron && *line.zone == *zone).cloned();
        if let Some(line) = found {
            return Ok(line);
        }
        let line = Rc::new(Line { cron: cron.into(), zone: zone.into(), parsed: parse_cron(cron)?, time_zone: parse_zone(zone)? });
        let mut kept = self.kept.borrow_mut();
        if kept.len() >= KEPT {
            kept.remove(0);
        }
        kept.push(Rc::clone(&line));
        Ok(line)
    }

    fn find(&self, cron: &[u8], zone: &[u8], from_ms: u64, inclusive: bool, direction: Direction) -> Option<u64> {
        let line = self.line(cron, zone).ok()?;
        let from = Timestamp::from_millisecond(i64::try_from(from_ms).ok()?).ok()?;
        let from: Zoned = from.to_zoned(line.time_zone.clone());
        let found = match direction {
            Direction::Forward => line.parsed.find_next_occurrence(&from, inclusive),
            Direction::Backward => line.parsed.find_previous_occurrence(&from, inclusive),
        };
        u64::try_from(found.ok()?.timestamp().as_millisecond()).ok()
    }
}

impl Slots for Calendar {
    fn check(&self, cron: &[u8], zone: &[u8]) -> Result<(), String> {
        self.line(cron, zone).map(|_| ())
    }

    fn next(&self, cron: &[u8], zone: &[u8], after_ms: u64) -> Option<u64> {
        self.find(cron, zone, after_ms, false, Direction::Forward)
    }

    fn last(&self, cron: &[u8], zone: &[u8], at_ms: u64) -> Option<u64> {
        self.find(cron, zone, at_ms, true, Direction::Backward)
    }
}

/// Five fields: minute, hour, day of month, month, day of week.
fn parse_cron(line: &[u8]) -> Result<Cron, String> {
    let text = std::str::from_utf8(line).map_err(|_| "the line is not text".to_string())?;
    let fields = text.split_ascii_whitespace().count();
    if fields != 5 {
        return Err(format!("the line has {fields} fields, it needs five: minute hour day month weekday"));
    }
    let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed).build();
    parser.parse(text).map_err(|error| error.to_string())
}

/// An IANA name; empty is UTC.
fn parse_zone(zone: &[u8]) -> Result<TimeZone, String> {
    if zone.is_empty() {
        return Ok(TimeZone::UTC);
    }
    let name = std::str::from_utf8(zone).map_err(|_| "the zone is not text".to_string())?;
    TimeZone::get(name).map_err(|_| "the zone is not known: it must be an IANA name such as Europe/Berlin".to_string())
}
