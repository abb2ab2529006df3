//! Schedules: jobs that are made by time.
//!
//! A schedule knows its next slot, an absolute time, and nothing of calendars: what comes after a
//! slot of a cron line is asked of [`Slots`], by the primary, and travels as a decided fact. So a
//! slot is made once, marked by the step of `next`, whatever restarts or fails over in between;
//! and a slot is never made by the run of the one before.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::limits::MAX_TIME_MS;
use crate::queue::Queue;
use crate::request::JobOptions;

/// A schedule's name, shared by its jobs.
pub(crate) type Name = Arc<[u8]>;

/// What knows calendars and time zones: the shell.
pub trait Slots {
    /// Whether such a cron line and time zone can be read; if not, why, for a person.
    ///
    /// # Errors
    /// What is wrong with the line or the zone.
    fn check(&self, cron: &[u8], zone: &[u8]) -> Result<(), String>;
    /// The first slot after a time, Unix ms.
    fn next(&self, cron: &[u8], zone: &[u8], after_ms: u64) -> Option<u64>;
    /// The last slot at a time or before it, Unix ms.
    fn last(&self, cron: &[u8], zone: &[u8], at_ms: u64) -> Option<u64>;
}

/// A calendar that knows no cron lines.
pub(crate) struct NoCalendar;

impl Slots for NoCalendar {
    fn check(&self, _: &[u8], _: &[u8]) -> Result<(), String> {
        Err("cron lines are not known here".into())
    }
    fn next(&self, _: &[u8], _: &[u8], _: u64) -> Option<u64> {
        None
    }
    fn last(&self, _: &[u8], _: &[u8], _: u64) -> Option<u64> {
        None
    }
}

/// When slots are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Rule {
    /// A cron line in a time zone; an empty zone is UTC.
    Cron { line: Box<[u8]>, zone: Box<[u8]> },
    /// Every so many ms from an anchor, Unix ms.
    Every { ms: u64, anchor: u64 },
}

impl Rule {
    /// The first slot after a time.
    pub(crate) fn next(&self, after: u64, slots: &dyn Slots) -> Option<u64> {
        match self {
            Rule::Cron { line, zone } => slots.next(line, zone, after).filter(|next| *next > after),
            Rule::Every { anchor, .. } if after < *anchor => Some(*anchor),
            Rule::Every { ms, anchor } => {
                let passed = after.saturating_sub(*anchor).checked_div(*ms)?;
                anchor.checked_add(passed.checked_add(1)?.checked_mul(*ms)?)
            }
        }
    }

    /// The last slot at a time or before it.
    pub(crate) fn last(&self, at: u64, slots: &dyn Slots) -> Option<u64> {
        match self {
            Rule::Cron { line, zone } => slots.last(line, zone, at).filter(|last| *last <= at),
            Rule::Every { ms, anchor } => {
                let passed = at.checked_sub(*anchor)?.checked_div(*ms)?;
                anchor.checked_add(passed.checked_mul(*ms)?)
            }
        }
    }
}

/// What becomes of slots whose time passed while nobody could make them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Missed {
    /// One job for all of them.
    #[default]
    One,
    /// None.
    Skip,
    /// One each, up to 1,000 in a row.
    All,
}

impl Missed {
    /// All of them, in the order of their numbers.
    pub(crate) const ALL: [Missed; 3] = [Missed::One, Missed::Skip, Missed::All];

    /// Its name in commands and replies.
    pub fn name(self) -> &'static str {
        match self {
            Missed::One => "one",
            Missed::Skip => "skip",
            Missed::All => "all",
        }
    }
}

/// What a schedule is, as SCHEDULE says it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Plan {
    pub(crate) rule: Rule,
    pub(crate) start: Option<u64>,
    pub(crate) end: Option<u64>,
    pub(crate) limit: Option<u64>,
    pub(crate) missed: Missed,
    pub(crate) payload: Box<[u8]>,
    pub(crate) options: JobOptions,
    pub(crate) group: Option<Box<[u8]>>,
    pub(crate) dedup: Option<Box<[u8]>>,
}

/// A schedule and how far it has come.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Schedule {
    pub(crate) plan: Plan,
    /// Its next slot, Unix ms; None: there is none any more.
    pub(crate) next: Option<u64>,
    /// How many jobs it has made.
    pub(crate) made: u64,
    /// How many slots were refused by FULL, PAUSED, UNSAFE or for lack of memory.
    pub(crate) refused: u64,
    /// With MISSED all: how many missed slots in a row were made.
    pub(crate) burst: u64,
}

impl Plan {
    /// The first slot after a time, within START, END and LIMIT. What no op could tell of, in the
    /// year 10000, is none.
    pub(crate) fn next(&self, after: u64, made: u64, slots: &dyn Slots) -> Option<u64> {
        if self.limit.is_some_and(|limit| made >= limit) {
            return None;
        }
        // START itself may be a slot.
        let after = self.start.map_or(after, |start| after.max(start.saturating_sub(1)));
        self.rule.next(after, slots).filter(|next| *next <= self.end.unwrap_or(MAX_TIME_MS))
    }
}

/// The schedules of a queue.
#[derive(Debug, Clone)]
pub(crate) struct Schedules {
    by_name: BTreeMap<Name, Schedule>,
    by_time: BTreeSet<(u64, Name)>,
    bytes: usize,
}

impl Schedules {
    pub(crate) const fn new() -> Schedules {
        Schedules { by_name: BTreeMap::new(), by_time: BTreeSet::new(), bytes: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.by_name.len()
    }

    pub(crate) fn get(&self, name: &[u8]) -> Option<(&Name, &Schedule)> {
        self.by_name.get_key_value(name)
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (&Name, &Schedule)> {
        self.by_name.iter()
    }

    /// The earliest slot and whose it is.
    pub(crate) fn first(&self) -> Option<(u64, &Name)> {
        self.by_time.first().map(|(at, name)| (*at, name))
    }

    pub(crate) fn set(&mut self, name: Name, schedule: Schedule) {
        self.remove(&name);
        if let Some(next) = schedule.next {
            self.by_time.insert((next, name.clone()));
        }
        self.bytes = self.bytes.saturating_add(size(&name, &schedule));
        self.by_name.insert(name, schedule);
    }

    pub(crate) fn remove(&mut self, name: &[u8]) -> Option<Schedule> {
        let (name, schedule) = self.by_name.remove_entry(name)?;
        self.bytes = self.bytes.saturating_sub(size(&name, &schedule));
        if let Some(next) = schedule.next {
            self.by_time.remove(&(next, name));
        }
        Some(schedule)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        let timed = self.by_name.iter().filter_map(|(name, schedule)| Some((schedule.next?, name.clone())));
        let timed: BTreeSet<_> = timed.collect();
        if timed == self.by_time { Ok(()) } else { Err("schedules are not found by their next slots".into()) }
    }
}

fn size(name: &[u8], schedule: &Schedule) -> usize {
    name.len().saturating_add(schedule.plan.payload.len()).saturating_add(400)
}

/// Why a slot makes no job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoJob {
    /// Refused: counted.
    Refused,
    /// Its dedup key is another job's: no overlap.
    Overlap,
    /// It was missed and is passed over.
    Passed,
}

/// Whether there is room for a slot's job; as with PUSH, no bytes always fit.
pub(crate) fn has_room(queue: &Queue, bytes: u64, now: u64) -> bool {
    let (max_jobs, max_bytes) = queue.head.policy.max_live();
    let fits = max_jobs.is_none_or(|max| queue.live() < max)
        && max_bytes.is_none_or(|max| bytes == 0 || queue.live_bytes().saturating_add(bytes) <= max);
    fits && crate::pause::Pause::on(queue.head.paused_in.as_deref(), now).is_none()
}

