//! What must be true of a push, of a schedule, of the jobs that the server makes by itself.

use super::call::{payload_text, slot_payload, Dedup, Id, JobOptions, Side, KEYS, SCHEDULES};
use super::ledger::{broken, rule, Held, Job, Ledger, Schedule, State, Verdict};
use super::view::View;
use crate::support::{at, int, items, string};
use rq_core::Tree;

impl Ledger {
    /// PUSH and MPUSH; `live` is how many jobs there were before.
    pub fn push(&mut self, payload: u32, many: Option<u32>, options: JobOptions, reply: &Tree, now: u64, live: u64) -> Verdict {
        let id = |tree: &Tree| super::call::id_of(&string(tree));
        let delayed = options.delay > 0;
        let place = |id: Id| if delayed { now + options.delay } else { id.0 };
        let fits = |n: u64| rule(self.rules.max_live.is_none_or(|max| live + n <= max), || format!("{live} are live, {n} more were taken"));
        match (many, options.key) {
            (Some(many), _) => {
                fits(many.into())?;
                rule(items(reply).len() as u64 == u64::from(many), || "not as many ids as payloads".to_string())?;
                for (n, one) in (0u32..).zip(items(reply)) {
                    self.add(id(one), Job::new(payload + n, options, place(id(one)), delayed))?;
                }
                Ok(())
            }
            (None, None) => {
                fits(1)?;
                self.add(id(reply), Job::new(payload, options, place(id(reply)), delayed))
            }
            (None, Some(key)) => {
                let (id, code) = (id(at(reply, 0)), int(at(reply, 1)));
                let job = Job::new(payload, options, place(id), delayed);
                self.push_with_key(id, code, key, job, now)
            }
        }
    }

    fn push_with_key(&mut self, id: Id, code: i64, key: u8, pushed: Job, now: u64) -> Verdict {
        let kind = KEYS[usize::from(key)];
        let owner = match kind {
            Dedup::Window(_) => self.windows.get(&key).filter(|(until, _)| *until > now).map(|(_, id)| *id),
            _ => self.owner(key),
        };
        let (delivered, waits) = owner.map_or((false, false), |owner| {
            let job = &self.jobs[&owner];
            (job.delivered, job.state == State::Waiting)
        });
        let edits = matches!(kind, Dedup::Replace | Dedup::Both);
        let expected = match kind {
            _ if owner.is_none() => 1,
            Dedup::Window(_) | Dedup::Plain => 0,
            _ if edits && waits && !delivered => 2,
            _ if delivered => 3,
            _ => 0,
        };
        rule(code == expected, || format!("k{key} ({kind:?}) is {owner:?}'s, delivered {delivered}: {code}, not {expected}"))?;
        rule(owner.is_none_or(|owner| owner == id), || format!("the reply names {id:?}, the key is {owner:?}'s"))?;
        match code {
            1 => {
                if let Dedup::Window(ms) = kind {
                    self.windows.insert(key, (now + ms, id));
                }
                self.add(id, pushed)
            }
            2 => {
                let job = self.jobs.get_mut(&id).expect("the owner");
                job.payload = pushed.payload;
                job.options.priority = pushed.options.priority;
                let at = now + pushed.options.delay;
                if at > now || !job.ready {
                    job.waits(now, (at, at));
                }
                job.fresh = false;
                Ok(())
            }
            3 => {
                let due = Some(now + pushed.options.delay).filter(|due| *due > now);
                self.held.insert(key, Held { payload: pushed.payload, options: pushed.options, due });
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// A refusal changes nothing; it must have a reason.
    pub fn refused(&self, code: rq_core::Code, pushes: Option<u64>, now: u64) -> Verdict {
        let live = self.live().count() as u64;
        let paused = self.pauses.get(&Side::In).is_some_and(|until| *until > now);
        match (code, pushes) {
            (rq_core::Code::Paused, Some(_)) => rule(paused, || "PAUSED, but nothing is paused".to_string()),
            (rq_core::Code::Full, Some(n)) => {
                let full = self.rules.max_live.is_some_and(|max| live + n > max);
                rule(full, || format!("FULL with {live} live jobs, MAXLIVE being {:?}", self.rules.max_live))
            }
            (code, _) => broken(format!("refused with {code:?}")),
        }
    }

    pub fn schedule(&mut self, name: u8, reply: &Tree) -> Verdict {
        let plan = &SCHEDULES[usize::from(name)];
        let next = match at(reply, 1) {
            Tree::Int(next) => Some(*next as u64),
            _ => None,
        };
        let schedule = self.schedules.entry(name).or_default();
        let expected = i64::from(!schedule.on);
        rule(int(at(reply, 0)) == expected, || format!("s{name} is on: {}, but the code is {}", schedule.on, int(at(reply, 0))))?;
        if !schedule.on {
            let Some(phase) = next else { return broken("a new schedule has a next slot") };
            *schedule = Schedule { phase, on: true, ..Schedule::default() };
            return Ok(());
        }
        let on_phase = next.is_none_or(|next| next.abs_diff(schedule.phase) % plan.every == 0);
        let exhausted = plan.limit.is_some_and(|limit| schedule.made >= limit);
        rule(on_phase && next.is_none() == exhausted, || format!("{} slots were made, the next is at {next:?}", schedule.made))
    }

    /// A job that the server has made by itself: of a slot, or of a duplicate that was held.
    pub fn adopt(&mut self, view: &View, now: u64) -> Verdict<bool> {
        if let Some(name) = &view.schedule {
            let name: u8 = name[1..].parse().expect("a name of ours");
            self.adopt_slot(name, view, now)?;
            return Ok(true);
        }
        let key: Option<u8> = view.key.as_ref().map(|key| key[1..].parse().expect("a key of ours"));
        let Some((key, held)) = key.and_then(|key| Some((key, self.released.remove(&key)?))) else { return Ok(false) };
        rule(view.payload == payload_text(held.payload), || format!("{view:?} is not what was held: {held:?}"))?;
        let due = held.due.filter(|due| *due > now);
        self.add(view.id, Job::new(held.payload, held.options, due.unwrap_or(view.id.0), due.is_some()))?;
        debug_assert_eq!(held.options.key, Some(key));
        Ok(true)
    }

    fn adopt_slot(&mut self, name: u8, view: &View, now: u64) -> Verdict {
        let plan = &SCHEDULES[usize::from(name)];
        let schedule = self.schedules.entry(name).or_default();
        let slot = view.slot_at;
        rule(schedule.on, || format!("s{name} is not on, and made {view:?}"))?;
        rule(slot.abs_diff(schedule.phase) % plan.every == 0, || format!("{slot} is no slot of s{name}, whose phase is {}", schedule.phase))?;
        rule(slot <= now, || format!("the slot {slot} of s{name} has not come at {now}"))?;
        rule(schedule.slots.insert(slot), || format!("the slot {slot} of s{name} has a second job: {view:?}"))?;
        schedule.made += 1;
        rule(plan.limit.is_none_or(|limit| schedule.made <= limit), || format!("s{name} made {} jobs", schedule.made))?;
        let options = JobOptions { key: plan.key, ..JobOptions::default() };
        let mut job = Job::new(slot_payload(name), options, slot, false);
        rule(view.payload == payload_text(job.payload), || format!("{view:?} is not what the schedule says"))?;
        job.slot = Some((name, slot));
        self.add(view.id, job)
    }
}
