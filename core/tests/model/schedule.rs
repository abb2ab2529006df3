//! The reference's schedules: slots one by one, as they come.

use rq_core::Tree;

use super::op::{Id, JobOptions, Missed, Plan, Rule};
use super::queue::Reference;
use super::view::map;

/// A slot later than this was missed, even if it is the latest.
const LATE_MS: u64 = 60_000;
/// MISSED all makes at most so many in a row.
const MOST_IN_A_ROW: u64 = 1_000;

/// A schedule as it was said, and how far it has come.
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    pub said: Said,
    /// The next slot; None: there is none any more.
    pub next: Option<u64>,
    pub made: u64,
    pub refused: u64,
    /// How many missed slots in a row were made.
    row: u64,
}

/// What SCHEDULE said, with what was left out filled in.
#[derive(Debug, Clone, PartialEq)]
pub struct Said {
    slots: Slots,
    missed: Missed,
    payload: Vec<u8>,
    priority: i8,
    lease: Option<u64>,
    max_deliveries: Option<u64>,
    ttl: Option<u64>,
    group: Option<Vec<u8>>,
    dedup: Option<Vec<u8>>,
}

/// All that decides when slots are.
#[derive(Debug, Clone, PartialEq)]
struct Slots {
    rule: Rule,
    /// EVERY: one of its slots, which tells its phase, and the first.
    anchor: u64,
    start: Option<u64>,
    end: Option<u64>,
    limit: Option<u64>,
}

impl Slots {
    /// The first slot after a time; START and END are slots if they fit.
    fn after(&self, time: u64) -> Option<u64> {
        let time = self.start.map_or(time, |start| time.max(start - 1));
        let next = match self.rule {
            Rule::Cron(ms, _) => time / ms * ms + ms,
            Rule::Every(_) if time < self.anchor => self.anchor,
            Rule::Every(ms) => time - (time - self.anchor) % ms + ms,
        };
        Some(next).filter(|next| self.end.is_none_or(|end| *next <= end))
    }

    /// The last slot up to a time, which is not before the first.
    fn up_to(&self, time: u64) -> u64 {
        let time = self.end.map_or(time, |end| time.min(end));
        match self.rule {
            Rule::Cron(ms, _) => time / ms * ms,
            Rule::Every(ms) => time - (time - self.anchor) % ms,
        }
    }

    /// The first slot after a time, if LIMIT allows one more.
    fn next(&self, time: u64, made: u64) -> Option<u64> {
        if self.limit.is_some_and(|limit| made >= limit) { None } else { self.after(time) }
    }
}

impl Plan {
    /// Why it is refused.
    pub fn is_wrong(&self) -> bool {
        let reversed = self.start.zip(self.end).is_some_and(|(start, end)| end.at < start.at);
        reversed || matches!(self.rule, Rule::Cron(_, Some(zone)) if zone != "UTC" && !zone.is_empty())
    }
}

impl Reference {
    pub fn schedule(&mut self, now: u64, name: &[u8], plan: &Plan) -> Tree {
        let old = self.schedules.get(name).cloned();
        // The phase of EVERY is START's, else that of the same interval before, else begins now.
        let kept = old.as_ref().map(|old| &old.said.slots).filter(|slots| slots.rule == plan.rule).map(|slots| slots.anchor);
        let anchor = match plan.rule {
            Rule::Cron(..) => 0,
            Rule::Every(ms) => plan.start.map(|start| start.at).or(kept).unwrap_or(now + ms),
        };
        // No zone, spelled or not, is UTC.
        let rule = match plan.rule {
            Rule::Cron(ms, zone) => Rule::Cron(ms, zone.filter(|zone| !zone.is_empty())),
            every @ Rule::Every(_) => every,
        };
        let slots = Slots { rule, anchor, start: plan.start.map(|m| m.at), end: plan.end.map(|m| m.at), limit: plan.limit };
        let options = plan.options.clone();
        let said = Said {
            slots: slots.clone(),
            missed: plan.missed.unwrap_or(Missed::One),
            payload: plan.payload.clone(),
            priority: options.priority.unwrap_or(0),
            lease: options.lease,
            max_deliveries: options.max_deliveries,
            ttl: options.ttl,
            group: options.group,
            dedup: plan.dedup.clone(),
        };
        let (code, next) = match old {
            Some(old) if old.said == said => (0, old.next),
            old => {
                let (made, refused) = old.as_ref().map_or((0, 0), |old| (old.made, old.refused));
                // What does not touch the slots does not touch the next one.
                let next = match &old {
                    Some(old) if old.said.slots == slots => old.next,
                    _ => slots.next(now, made),
                };
                self.schedules.insert(name.to_vec(), Schedule { said, next, made, refused, row: 0 });
                (if old.is_some() { 2 } else { 1 }, next)
            }
        };
        if next.is_none() {
            self.notes.seen.push("a schedule is exhausted");
        }
        Tree::Array(vec![Tree::Int(code), next.map_or(Tree::Null, |next| Tree::Int(next as i64))])
    }

    pub fn unschedule(&mut self, name: &[u8]) -> bool {
        self.schedules.remove(name).is_some()
    }

    /// Makes the jobs of all slots that are due, in the order of the slots. `barred`: none may be
    /// made now.
    pub fn make_slots(&mut self, now: u64, barred: bool) {
        let due = |(name, schedule): (&Vec<u8>, &Schedule)| Some((schedule.next.filter(|next| *next <= now)?, name.clone()));
        while let Some((first, name)) = self.schedules.iter().filter_map(due).min() {
            let schedule = self.schedules[&name].clone();
            let slots = &schedule.said.slots;
            let last = slots.up_to(now);
            let several = last > first;
            // Which slot becomes a job, and after which one to go on.
            let (slot, after) = match schedule.said.missed {
                Missed::One => (Some(last), last),
                Missed::Skip => (Some(last).filter(|last| now - last <= LATE_MS), last),
                Missed::All if schedule.row >= MOST_IN_A_ROW => (None, last),
                Missed::All => (Some(first), first),
            };
            if slot.is_some() && several {
                self.notes.seen.push(if schedule.said.missed == Missed::All { "slots: all of the missed" } else { "slots: one of the missed" });
            }
            if slot.is_none() {
                self.notes.seen.push(if schedule.said.missed == Missed::All { "slots: a thousand in a row" } else { "slots: skipped" });
            }
            if slot.is_some_and(|slot| now - slot == LATE_MS) && schedule.said.missed == Missed::Skip {
                self.notes.seen.push("slots: just not skipped");
            }
            let (mut made, mut refused) = (schedule.made, schedule.refused);
            if let Some(slot) = slot {
                match self.make_slot(now, slot, &name, &schedule.said, barred) {
                    Made::Job => made += 1,
                    Made::Refused => refused += 1,
                    Made::Overlaps => {}
                }
            }
            let next = slots.next(after, made);
            let row = if several && slot.is_some() && schedule.said.missed == Missed::All { schedule.row + 1 } else { 0 };
            self.schedules.insert(name, Schedule { next, made, refused, row, ..schedule });
        }
    }

    /// Whether a schedule would have many missed slots to make.
    pub fn is_far_behind(&self, now: u64) -> bool {
        let behind = |schedule: &Schedule| {
            let (Rule::Every(ms) | Rule::Cron(ms, _)) = schedule.said.slots.rule;
            schedule.said.missed == Missed::All && schedule.next.is_some_and(|next| next + 10 * ms < now)
        };
        self.schedules.values().any(behind)
    }

    fn make_slot(&mut self, now: u64, slot: u64, name: &[u8], said: &Said, barred: bool) -> Made {
        if said.dedup.as_ref().is_some_and(|key| self.owner(key, now).is_some()) {
            self.notes.seen.push("slot: would overlap");
            return Made::Overlaps;
        }
        let full = self.refuses(now, &[&said.payload], None);
        if barred || full.is_some() {
            self.totals.slots_skipped += 1;
            self.notes.seen.push(match full {
                Some("PAUSED") => "slot: refused, paused",
                Some(_) => "slot: refused, full",
                None => "slot: refused, barred",
            });
            return Made::Refused;
        }
        let options = JobOptions {
            when: None,
            priority: Some(said.priority),
            lease: said.lease,
            max_deliveries: said.max_deliveries,
            ttl: said.ttl,
            group: said.group.clone(),
        };
        let id = match &said.dedup {
            None => self.push(now, said.payload.clone(), now, &options),
            Some(key) => self.push_owner(now, &said.payload, now, &options, key, 0),
        };
        self.notes.seen.push("slot: made");
        self.place_at_slot(id, slot, name);
        Made::Job
    }

    /// It is placed as if it had been made in time.
    fn place_at_slot(&mut self, id: Id, slot: u64, name: &[u8]) {
        let Some(job) = self.job(id) else { return };
        job.slot = Some((name.to_vec(), slot));
        (job.place, job.old_place, job.ready_since, job.first_due) = (slot, slot, slot, slot);
    }

    /// The reply of SCHEDULES.
    pub fn schedule_rows(&self) -> Tree {
        let number = |n: u64| Tree::Int(n as i64);
        let maybe = |n: Option<u64>| n.map_or(Tree::Null, number);
        let bytes = |bytes: Option<&[u8]>| bytes.map_or(Tree::Null, |bytes| Tree::Bulk(bytes.to_vec()));
        let row = |(name, schedule): (&Vec<u8>, &Schedule)| {
            let Said { slots, missed, payload, priority, lease, max_deliveries, ttl, group, dedup } = &schedule.said;
            let (cron, zone, every) = match slots.rule {
                Rule::Cron(ms, zone) => (Some(ms.to_string()), zone, None),
                Rule::Every(ms) => (None, None, Some(ms)),
            };
            map(vec![
                ("name", bytes(Some(name))),
                ("cron", bytes(cron.as_deref().map(str::as_bytes))),
                ("tz", bytes(zone.map(str::as_bytes))),
                ("every", maybe(every)),
                ("start", maybe(slots.start)),
                ("end", maybe(slots.end)),
                ("limit", maybe(slots.limit)),
                ("missed", bytes(Some(missed.name().as_bytes()))),
                ("priority", Tree::Int(i64::from(*priority))),
                ("lease", maybe(*lease)),
                ("maxdeliveries", maybe(*max_deliveries)),
                ("ttl", maybe(*ttl)),
                ("group", bytes(group.as_deref())),
                ("dedup", bytes(dedup.as_deref())),
                ("next-at", maybe(schedule.next)),
                ("made", number(schedule.made)),
                ("refused", number(schedule.refused)),
                ("payload", bytes(Some(payload))),
            ])
        };
        Tree::Array(self.schedules.iter().map(row).collect())
    }
}

/// What became of a slot.
enum Made {
    Job,
    Refused,
    Overlaps,
}
