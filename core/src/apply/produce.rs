//! What makes jobs: push, replace, hold, slots; and options, pauses, groups.

use super::{move_to, ttl_at, Applied};
use crate::dedup::{window_end, Held, Key, Owner};
use crate::id::JobId;
use crate::job::{Facts, More, Outline, Slot, State};
use crate::op::{Contents, DedupKey, Due, Event, GroupState, SlotJob, Stored};
use crate::pause::{Pause, Side};
use crate::policy::{Opt, Setting};
use crate::queue::Queue;
use crate::seldom::Seldom;
use crate::schedule::{Name, NoJob, Plan};

impl Queue {
    /// Stores a new job.
    fn add(&mut self, facts: Facts, payload: &[u8]) -> Option<Slot> {
        self.head.last_id = self.head.last_id.max(facts.id);
        let outline = Outline { plain: facts.is_plain(), ..facts.outline(payload.len() as u64) };
        let slot = self.jobs.add(facts, payload)?;
        self.link(slot, &outline);
        Some(slot)
    }

    pub(super) fn put(&mut self, stored: &Stored<'_>) -> Option<()> {
        let mut facts = stored.facts.clone();
        // Snapshots have jobs in the order of their ids.
        if facts.id <= self.jobs.last() {
            return None;
        }
        self.head.last_token = self.head.last_token.max(facts.more.token);
        self.head.longest_lease_ms = self.head.longest_lease_ms.max(facts.more.lease_ms);
        facts.more.consumer = stored.consumer.map(|name| self.names.hold(name));
        facts.more.group = stored.group.map(|name| self.groups.hold(name));
        self.add(facts, stored.payload).map(|_| ())
    }

    pub(super) fn push(&mut self, id: JobId, contents: &Contents<'_>, now: u64) -> Option<()> {
        if id <= self.head.last_id {
            return None;
        }
        if contents.are_plain() {
            return self.push_plain(id, contents.payload);
        }
        let Contents { due, options, group, dedup, payload } = *contents;
        let place = due.unwrap_or(id.ms);
        let more = More {
            group: group.map(|name| self.groups.hold(name)),
            dedup: dedup.map(|dedup| Key::from(dedup.key)),
            dedup_window_ms: dedup.map_or(0, |dedup| dedup.window_ms),
            own_lease_ms: options.lease_ms,
            own_max_deliveries: options.max_deliveries,
            ttl_ms: options.ttl_ms,
            ttl_at: ttl_at(place, options.ttl_ms),
            ..More::default()
        };
        let state = if due.is_some() { State::Delayed } else { State::Ready };
        self.add(Facts { id, state, place, priority: options.priority, more }, payload)?;
        if let Some(DedupKey { key, window_ms }) = dedup {
            let owner = Owner { job: id, until: window_end(window_ms, now), held: None };
            self.dedup.set(key.into(), owner, true);
        }
        self.head.totals.pushed = self.head.totals.pushed.saturating_add(1);
        Some(())
    }

    fn push_plain(&mut self, id: JobId, payload: &[u8]) -> Option<()> {
        self.head.last_id = id;
        let slot = self.jobs.add_plain(id, payload)?;
        self.link(slot, &Outline::plain(id, payload.len() as u64));
        self.head.totals.pushed = self.head.totals.pushed.saturating_add(1);
        Some(())
    }

    /// Whether a job is live and carries a key.
    pub(super) fn carries(&self, id: JobId, key: &[u8]) -> bool {
        self.job(id).is_some_and(|job| job.state.is_live() && job.more().dedup.as_deref() == Some(key))
    }

    pub(super) fn replace(&mut self, id: JobId, priority: i8, due: Option<Due>, window_ms: u64, payload: &[u8], now: u64) -> Option<()> {
        let mut found = self.find(id, |job| job.state.waits() && job.last_delivered_at == 0)?;
        let slot = found.slot;
        self.jobs.replace(slot, payload);
        if let Some(bytes) = self.bytes.get_mut(found.outline.state as usize) {
            *bytes = bytes.saturating_sub(found.outline.bytes).saturating_add(payload.len() as u64);
        }
        found.size = payload.len() as u64;
        found.outline.bytes = found.size;
        self.change(&found, |job| {
            job.priority = priority;
            // It was never delivered, so no order holds it to an old place.
            move_to(job, due, false);
        })?;
        let key = self.jobs.get(slot)?.more().dedup.clone();
        let owner = key.as_deref().and_then(|key| self.dedup.find(key)).map(|(_, owner)| owner.clone());
        match (key, owner) {
            (Some(key), Some(owner)) if owner.job == id && owner.renewed(window_ms, now) != owner.until => {
                self.dedup.set(key, Owner { until: owner.renewed(window_ms, now), ..owner }, true);
            }
            _ => {}
        }
        Some(())
    }

    pub(super) fn hold(&mut self, contents: &Contents<'_>) -> Option<()> {
        let Contents { due, options, group, dedup, payload } = *contents;
        let dedup = dedup?;
        let (key, owner) = self.dedup.find(dedup.key)?;
        let (key, job, until) = (key.clone(), owner.job, owner.until);
        if !self.carries(job, &key) {
            return None;
        }
        let held = Held { payload: payload.into(), options, group: group.map(Box::from), due, window_ms: dedup.window_ms };
        self.dedup.set(key, Owner { job, until, held: Some(Box::new(held)) }, true);
        Some(())
    }

    pub(super) fn unhold(&mut self, ended: JobId, id: JobId, now: u64) -> Option<()> {
        if id <= self.head.last_id {
            return None;
        }
        let (key, held) = self.dedup.take_pending(ended)?;
        let contents = Contents {
            due: held.due.filter(|due| *due > now),
            options: held.options,
            group: held.group.as_deref(),
            dedup: Some(DedupKey { key: &key, window_ms: held.window_ms }),
            payload: &held.payload,
        };
        self.push(id, &contents, now)
    }

    pub(super) fn slot(&mut self, name: &[u8], job: SlotJob, next: Option<u64>, burst: u64, now: u64) -> Applied {
        let Some((name, schedule)) = self.schedules.get(name) else { return Applied::Nothing };
        let (name, mut schedule) = (name.clone(), schedule.clone());
        let made = match job {
            SlotJob::Made { id, slot } => self.push_slot(id, slot, &name, &schedule.plan, now),
            SlotJob::None(why) => {
                if why == NoJob::Refused {
                    schedule.refused = schedule.refused.saturating_add(1);
                    self.head.totals.slots_skipped = self.head.totals.slots_skipped.saturating_add(1);
                }
                None
            }
        };
        schedule.made = schedule.made.saturating_add(u64::from(made.is_some()));
        schedule.next = next;
        schedule.burst = burst;
        self.schedules.set(name, schedule);
        made.map_or(Applied::Changed, |()| Applied::Told(Event::Push))
    }

    /// Pushes a slot's job: ready, placed at its slot.
    pub(super) fn push_slot(&mut self, id: JobId, slot: u64, name: &Name, plan: &Plan, now: u64) -> Option<()> {
        let contents = Contents {
            due: None,
            options: plan.options,
            group: plan.group.as_deref(),
            dedup: plan.dedup.as_deref().map(|key| DedupKey { key, window_ms: 0 }),
            payload: &plan.payload,
        };
        self.push(id, &contents, now)?;
        let found = self.find(id, |_| true)?;
        self.change(&found, |job| {
            job.place = slot;
            let more = &mut job.more;
            more.schedule = Some(name.clone());
            more.slot_at = slot;
            if more.ttl_ms > 0 {
                more.ttl_at = ttl_at(slot, more.ttl_ms);
            }
        })
    }

    pub(super) fn set_policy(&mut self, setting: Setting) {
        self.head.policy.set(setting);
        match setting.opt {
            Opt::Rate if self.head.policy.rate().is_none() => self.grants = Seldom::new(),
            // Bounds that were lifted may let groups go.
            Opt::GroupOrder | Opt::GroupLimit | Opt::GroupRate => {
                let Some(groups) = self.groups.there() else { return };
                groups.unpark_all();
                if setting.opt == Opt::GroupRate {
                    groups.settle_all(&self.head.policy);
                }
            }
            _ => {}
        }
    }

    pub(super) fn set_pause(&mut self, side: Side<'_>, pause: Option<&Pause>) -> Option<()> {
        let old = match side {
            Side::Out => &mut self.head.paused_out,
            Side::In => &mut self.head.paused_in,
            Side::Group(name) => {
                let id = match pause {
                    Some(_) => self.groups.make(name),
                    None => self.groups.find(name)?,
                };
                if self.groups.get(id)?.pause.as_ref() == pause {
                    return None;
                }
                self.groups.set_pause(id, pause.cloned(), &self.head.policy);
                return Some(());
            }
        };
        if old.as_deref() == pause {
            return None;
        }
        *old = pause.cloned().map(Box::new);
        Some(())
    }

    pub(super) fn put_group(&mut self, name: &[u8], state: &GroupState) -> Option<()> {
        let id = match state.pause.is_some() || state.grants.last().is_some() {
            true => self.groups.make(name),
            false => self.groups.find(name)?,
        };
        self.groups.set_group(id, &state.turns, state.grants.clone());
        if state.pause.is_some() {
            self.groups.set_pause(id, state.pause.clone(), &self.head.policy);
        } else {
            self.groups.settle(id, Some(&self.head.policy));
        }
        Some(())
    }

    pub(super) fn forget(&mut self, key: &[u8]) -> Option<()> {
        let (_, owner) = self.dedup.find(key)?;
        if owner.until == 0 || owner.held.is_some() {
            return None;
        }
        self.dedup.remove(key).map(|_| ())
    }

    pub(super) fn put_key(&mut self, key: &[u8], owner: &Owner) -> Option<()> {
        let live = self.carries(owner.job, key);
        let pending = owner.held.is_some() && !live;
        // The job of a key has been made, also if it is gone: another one could get its id.
        if owner.job > self.head.last_id {
            return None;
        }
        if self.dedup.find(key).is_some() || (owner.held.is_none() && owner.until == 0 && !live) {
            return None;
        }
        if pending && self.dedup.is_pending(owner.job) {
            return None;
        }
        self.dedup.set(key.into(), owner.clone(), live);
        Some(())
    }
}
