//! SCHEDULE, UNSCHEDULE, and the slots as they come.

use crate::canary::Fault;
use crate::effects::{Run, Turn};
use crate::error::{quote, Error};
use crate::op::{Op, SlotJob};
use crate::request::{PlanArgs, RuleArgs};
use crate::schedule::{has_room, Missed, Name, NoJob, Plan, Rule, Schedule};
use crate::sink::Sink;

/// A slot that is later than this was missed, even if no other has come since.
const LATE_MS: u64 = 60_000;
/// MISSED all makes at most so many in a row.
const MAX_BURST: u64 = 1_000;

/// Whether a schedule can be read at all; asked before anything is changed.
pub(crate) fn check_plan(plan: &PlanArgs<'_>, turn: &Turn<'_>) -> Result<(), Error> {
    if plan.payload.len() > turn.max_payload {
        return Err(Error::too_big("the payload", plan.payload.len(), turn.max_payload));
    }
    match plan.rule {
        RuleArgs::Cron { line, zone } => {
            let wrong = |why: &str| {
                let zone = if zone.is_empty() { b"UTC" } else { zone };
                Error::new(format!("CRON {} TZ {}: {why}", quote(line), quote(zone)))
            };
            turn.slots.check(line, zone).map_err(|why| wrong(&why))?;
            match turn.slots.next(line, zone, turn.now) {
                Some(_) => Ok(()),
                None => Err(wrong("there is no such time: the line names a day that never comes")),
            }
        }
        RuleArgs::Every { .. } => Ok(()),
    }
}

impl Run<'_, '_> {
    /// Makes or changes a schedule; `[1 made, 2 changed, 0 the same, next-at]`.
    pub(crate) fn schedule(&mut self, name: &[u8], args: &PlanArgs<'_>, out: &mut dyn Sink) {
        let now = self.now();
        let old = self.queue.schedules.get(name).map(|(_, schedule)| schedule.clone());
        let rule = match args.rule {
            RuleArgs::Cron { line, zone } => Rule::Cron { line: line.into(), zone: zone.into() },
            RuleArgs::Every { ms } => {
                // The phase is START's, or that of the schedule as it is, or begins now.
                let kept = old.as_ref().and_then(|old| match old.plan.rule {
                    Rule::Every { ms: old_ms, anchor } if old_ms == ms => Some(anchor),
                    _ => None,
                });
                let anchor = args.start.or(kept).unwrap_or_else(|| now.saturating_add(ms));
                Rule::Every { ms, anchor }
            }
        };
        let plan = Plan {
            rule,
            start: args.start,
            end: args.end,
            limit: args.limit,
            missed: args.missed,
            payload: args.payload.into(),
            options: args.options,
            group: args.group.map(Box::from),
            dedup: args.dedup.map(Box::from),
        };
        let (code, next) = match old {
            Some(old) if old.plan == plan => (0, old.next),
            old => {
                let made = old.as_ref().map_or(0, |old| old.made);
                let same_slots = old.as_ref().is_some_and(|old| {
                    let slots = |plan: &Plan| (plan.rule.clone(), plan.start, plan.end, plan.limit);
                    slots(&old.plan) == slots(&plan)
                });
                let next = match &old {
                    Some(old) if same_slots => old.next,
                    _ => plan.next(now, made, self.turn.slots),
                };
                let refused = old.as_ref().map_or(0, |old| old.refused);
                let code = if old.is_some() { 2 } else { 1 };
                let schedule = Schedule { plan, next, made, refused, burst: 0 };
                self.commit(&Op::Schedule { name, schedule: Box::new(schedule) });
                (code, next)
            }
        };
        out.array(2);
        out.int(code);
        match next {
            Some(next) => out.uint(next),
            None => out.null(),
        }
    }

    /// Removes a schedule; 1 if it was there. Its jobs stay.
    pub(crate) fn unschedule(&mut self, name: &[u8]) -> u64 {
        let there = self.queue.schedules.get(name).is_some();
        if there {
            self.commit(&Op::Unschedule { name });
        }
        u64::from(there)
    }

    /// Makes the next slot that is due, if there is one; false if not.
    pub(crate) fn slot_step(&mut self) -> bool {
        let now = self.now();
        let Some((at, name)) = self.queue.schedules.first().filter(|(at, _)| *at <= now) else { return false };
        let name: Name = name.clone();
        let Some((_, schedule)) = self.queue.schedules.get(&name) else { return false };
        let Schedule { plan, made, burst, .. } = schedule;
        let (made, burst) = (*made, *burst);
        let slots = self.turn.slots;
        let until = plan.end.map_or(now, |end| end.min(now));
        let last = plan.rule.last(until, slots).filter(|last| *last >= at).unwrap_or(at);
        let on_time = |slot: u64| now.saturating_sub(slot) <= LATE_MS;
        // Which slot becomes a job now, and after which one to go on.
        let (slot, after, burst) = match plan.missed {
            Missed::One => (Some(last), last, 0),
            Missed::Skip => (Some(last).filter(|last| on_time(*last)), last, 0),
            Missed::All if burst >= MAX_BURST => (None, last, 0),
            Missed::All => (Some(at), at, if last > at { burst.saturating_add(1) } else { 0 }),
        };
        let job = match slot {
            None => SlotJob::None(NoJob::Passed),
            // As with PUSH, what is a duplicate is not refused.
            Some(_) if plan.dedup.as_deref().is_some_and(|key| self.queue.dedup.owner(key, now).is_some()) => {
                SlotJob::None(NoJob::Overlap)
            }
            Some(_) if self.turn.bar_slots || !self.queue.head.last_id.has_next(now, 1) || !has_room(self.queue, plan.payload.len() as u64, now) => {
                SlotJob::None(NoJob::Refused)
            }
            Some(slot) => SlotJob::Made { id: self.queue.head.last_id.next(now), slot },
        };
        let made = made.saturating_add(u64::from(matches!(job, SlotJob::Made { .. })));
        let after = if Fault::SlotComesTwice.is_on() && made % 4 == 1 { after.saturating_sub(1) } else { after };
        let next = plan.next(after, made, slots);
        self.commit(&Op::Slot { name: &name, job, next, burst });
        true
    }
}

