//! What must be true of what an operator does: REDRIVE, SET, DEL by key.

use std::collections::BTreeSet;

use super::call::{Dedup, Id, KEYS};
use super::ledger::{rule, Claim, Job, Ledger, State, Verdict};
use super::node::Ended;
use crate::support::{at, int};
use rq_core::Tree;

/// The key of a job, if it has it for as long as it lives.
fn own_key(job: &Job) -> Option<u8> {
    job.options.key.filter(|key| !matches!(KEYS[usize::from(*key)], Dedup::Window(_)))
}

impl Ledger {
    pub fn redrive(&mut self, id: Id, code: i64, now: u64) -> Verdict {
        if self.just_dropped(id) {
            return Ok(());
        }
        let Some(job) = self.job(id).copied() else { return rule(code == -1, || format!("it is gone: {code}")) };
        let taken = own_key(&job).is_some_and(|key| self.owner(key).is_some());
        let expected = match job.state {
            State::Dead(_) if taken => -2,
            State::Dead(_) => 1,
            _ => 0,
        };
        rule(code == expected, || format!("{id:?} is {:?}, its key is taken: {taken}, the code is {code}", job.state))?;
        if code == 1 {
            self.anew(id, now, now);
        }
        Ok(())
    }

    /// A dead job begins anew.
    fn anew(&mut self, id: Id, due: u64, now: u64) {
        let job = self.jobs.get_mut(&id).expect("it is there");
        job.waits(now, (due, due));
        (job.claim, job.token) = (Claim::None, 0);
        (job.deliveries, job.failures, job.expiries) = (0, 0, 0);
        job.ttl_at = if job.options.ttl > 0 { due + job.options.ttl } else { 0 };
    }

    pub fn redrive_many(&mut self, count: u64, spread: u64, reply: &Tree, now: u64) -> Verdict {
        let mut dead: Vec<(u64, Id)> =
            self.jobs.iter().filter(|(_, job)| matches!(job.state, State::Dead(_))).map(|(id, job)| (job.ended_at, *id)).collect();
        dead.sort_unstable();
        let (mut chosen, mut keys, mut skipped, mut more) = (Vec::new(), BTreeSet::new(), 0, 0);
        for (_, id) in dead {
            if chosen.len() as u64 >= count {
                more = 1;
                break;
            }
            let key = own_key(&self.jobs[&id]);
            // Two of one key cannot both come back.
            let second = key.is_some_and(|key| !keys.insert(key));
            if second || key.is_some_and(|key| self.owner(key).is_some()) {
                skipped += 1;
            } else {
                chosen.push(id);
            }
        }
        let expected = (chosen.len() as i64, skipped, more);
        let said = (int(at(reply, 0)), int(at(reply, 1)), int(at(reply, 2)));
        rule(said == expected, || format!("{said:?}, by the ledger {expected:?}"))?;
        let moved = chosen.len() as u64;
        for (k, id) in (0u64..).zip(chosen) {
            self.anew(id, now + spread * k / moved, now);
        }
        Ok(())
    }

    pub fn set(&mut self, id: Id, priority: i8, delay: Option<u64>, code: i64, now: u64) -> Verdict {
        if self.just_dropped(id) {
            return Ok(());
        }
        let Some(job) = self.job(id) else { return rule(code == -1, || format!("it is gone: {code}")) };
        let waits = job.state == State::Waiting;
        rule(code == i64::from(waits), || format!("{id:?} is {:?}: {code}", job.state))?;
        if !waits {
            return Ok(());
        }
        job.options.priority = priority;
        match delay {
            Some(delay) if delay > 0 || !job.ready => {
                let at = now + delay;
                job.waits(now, (at, at));
                if job.options.ttl > 0 && !job.delivered {
                    job.ttl_at = at + job.options.ttl;
                }
            }
            _ => {}
        }
        Ok(())
    }

    pub fn del_key(&mut self, key: u8, code: i64, now: u64) -> Verdict {
        let owner = match KEYS[usize::from(key)] {
            Dedup::Window(_) => self.windows.get(&key).map(|(_, id)| *id),
            _ => self.owner(key),
        };
        if owner.is_some_and(|id| self.just_dropped(id)) {
            self.windows.remove(&key);
            return Ok(());
        }
        let there = owner.filter(|id| self.job(*id).is_some());
        rule(code == i64::from(there.is_some()), || format!("the key is {owner:?}'s, there is {there:?}: {code}"))?;
        match there {
            Some(id) => self.end(id, State::Gone, Ended::Gone, now),
            None => drop(self.windows.remove(&key)),
        }
        Ok(())
    }
}
