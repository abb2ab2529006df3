//! Whether what a step did is what the contract says.

use std::collections::BTreeMap;

use super::call::{id_of, Call, Id, Pair, Side};
use super::grant::grants;
use super::ledger::{broken, rule, Claim, Job, Ledger, State, Verdict};
use super::node::{Ended, Step};
use super::view::View;
use crate::support::{at, int, items, show, string};
use rq_core::Tree;

/// Whether a judgement of the step needs to see all jobs: the server made or dropped some.
pub fn needs_view(call: Option<&Call>, step: &Step) -> bool {
    step.count("rq.drop") > 0 || step.count("rq.push") > told(call, step).len()
}

/// The jobs that the reply says were pushed.
fn told(call: Option<&Call>, step: &Step) -> Vec<Id> {
    let (Some(Call::Push { many, options, .. }), Ok(reply)) = (call, &step.reply) else { return Vec::new() };
    match (many, options.key) {
        (Some(_), _) => items(reply).iter().map(|id| id_of(&string(id))).collect(),
        (None, None) => vec![id_of(&string(reply))],
        (None, Some(_)) if int(at(reply, 1)) == 1 => vec![id_of(&string(at(reply, 0)))],
        _ => Vec::new(),
    }
}

impl Ledger {
    /// Judges a step: of a request, or of the timer alone. `views` are all jobs after it, if
    /// [`needs_view`].
    pub fn judge(&mut self, call: Option<&Call>, step: &Step, views: &[View]) -> Verdict {
        self.begin();
        let now = step.now;
        let reply = match &step.reply {
            Ok(reply) => reply,
            Err(error) => {
                rule(step.batches.is_empty(), || "refused, but changed something".to_string())?;
                let pushes = match call {
                    Some(Call::Push { many, .. }) => Some(u64::from(many.unwrap_or(1))),
                    _ => None,
                };
                return self.refused(error.code, pushes, now);
            }
        };
        let reaps = matches!(call, Some(Call::Reap { .. }));
        rule(!step.hold || reaps || step.count("rq.expire") == 0, || "a lease has expired in the grace".to_string())?;
        let (mut before, live) = (BTreeMap::new(), self.live().count() as u64);
        for job in self.jobs.values() {
            *before.entry(kept(job.state)).or_insert(0u64) += 1;
        }
        if let Some(Call::Push { .. }) = call {
            let paused = self.pauses.get(&Side::In).is_some_and(|until| *until > now);
            rule(!paused, || "pushing is paused".to_string())?;
        }
        self.due(now, !step.hold && !reaps);
        self.drop_what_is_gone(step, views);
        let told = told(call, step);
        // Some were made before the request's own work, some by it or after it.
        self.adopt_all(views, told.first().copied(), now)?;
        if let Some(call) = call {
            self.accept(call, reply, step, views, live)?;
        }
        self.adopt_all(views, None, now)?;
        // One that is given back too late for its time to live, and found when it is offered.
        for (id, _) in step.ended.iter().filter(|(_, how)| *how == Ended::Dead) {
            if self.job(*id).is_some_and(|job| job.state == State::Waiting && job.ttl_at > 0 && job.ttl_at <= now) {
                self.bury(*id, "ttl", now);
            }
        }
        for (call, reply) in &step.granted {
            self.accept(call, reply, step, views, live).map_err(|what| format!("{call:?} had waited and got {}: {what}", show(reply)))?;
        }
        rule(!step.blocked || self.withheld().is_none(), || format!("somebody waits, and there is {:?}", self.withheld()))?;
        rule(self.released.is_empty(), || format!("what was held is not pushed: {:?}", self.released))?;
        rule(self.pushed == step.count("rq.push"), || format!("{} pushes are known of", self.pushed))?;
        self.ended.sort_unstable();
        let mut ended = step.ended.clone();
        ended.sort_unstable();
        rule(self.ended == ended, || format!("ended {ended:?}, by the ledger {:?}", self.ended))?;
        self.drop_what_is_gone(step, views);
        self.dropped_rightly(step, &before)
    }

    /// What was granted to a client that was gone is given back, unless it is another's by now.
    pub fn judge_given_back(&mut self, pairs: &[Pair], step: &Step) -> Verdict {
        self.begin();
        for (id, token) in pairs {
            let good = self.job(*id).is_some_and(|job| {
                job.token == *token && job.claim == Claim::Open && matches!(job.state, State::Waiting | State::Leased)
            });
            if good {
                self.give_back(*id, 0, step.now);
            }
        }
        rule(step.ended.is_empty() && step.count("rq.push") == 0, || format!("giving back {pairs:?} did {:?}", step.events))
    }

    /// Unknown jobs, up to an id, must be of the server's making.
    fn adopt_all(&mut self, views: &[View], before: Option<Id>, now: u64) -> Verdict {
        let mut unknown: Vec<&View> = views.iter().filter(|view| !self.jobs.contains_key(&view.id)).collect();
        unknown.retain(|view| before.is_none_or(|before| view.id < before));
        unknown.sort_unstable_by_key(|view| view.id);
        unknown.into_iter().try_for_each(|view| self.adopt(view, now).map(drop))
    }

    /// Finished and dead jobs that are not there any more, though nobody removed them.
    fn drop_what_is_gone(&mut self, step: &Step, views: &[View]) {
        if step.count("rq.drop") == 0 {
            return;
        }
        let there: Vec<Id> = views.iter().map(|view| view.id).collect();
        let removed = |id: Id| step.ended.contains(&(id, Ended::Gone)) || there.contains(&id);
        let gone = |(id, job): &(&Id, &mut Job)| matches!(job.state, State::Dead(_) | State::Done) && !removed(**id);
        for (id, job) in self.jobs.iter_mut().filter(gone) {
            let late = matches!(job.state, State::Dead(_)) && step.ended.contains(&(*id, Ended::Done)) && job.claim == Claim::Open;
            // An acknowledgement of this step has taken it out of dead, and is yet to be judged.
            if !late {
                self.dropped.insert(*id, *job);
                job.state = State::Gone;
            }
        }
    }

    /// Retention drops the oldest, and no more than its bounds say.
    fn dropped_rightly(&self, step: &Step, before: &BTreeMap<&str, u64>) -> Verdict {
        let (rules, dropped) = (&self.rules, &self.dropped);
        rule(dropped.len() == step.count("rq.drop"), || format!("dropped, by the ledger: {:?}", dropped.keys()))?;
        for (name, most, ms, how) in
            [("done", rules.keep_done, rules.keep_done_ms, Ended::Done), ("dead", rules.keep_dead, rules.keep_dead_ms, Ended::Dead)]
        {
            let of = |state: State| kept(state) == name;
            let mut young = dropped.iter().filter(|(_, job)| of(job.state) && ms.is_none_or(|ms| job.ended_at + ms > step.now)).count() as u64;
            if name == "done" {
                young = young.saturating_sub(self.trimmed);
            }
            let entered = step.ended.iter().filter(|(_, end)| *end == how).count() as u64;
            let surplus = most.map_or(0, |most| (before.get(name).copied().unwrap_or(0) + entered).saturating_sub(most));
            rule(young <= surplus, || format!("{young} {name} jobs were dropped, {surplus} were too many"))?;
            let last = dropped.iter().filter(|(_, job)| of(job.state)).map(|(id, job)| (job.ended_at, *id)).max();
            let first = self.jobs.iter().filter(|(_, job)| of(job.state)).map(|(id, job)| (job.ended_at, *id)).min();
            rule(last.zip(first).is_none_or(|(last, first)| last < first), || format!("a {name} job was dropped before an older one"))?;
        }
        Ok(())
    }

    fn accept(&mut self, call: &Call, reply: &Tree, step: &Step, views: &[View], live: u64) -> Verdict {
        let now = step.now;
        let code = |n: usize| int(at(reply, n));
        match call {
            Call::Push { payload, many, options } => self.push(*payload, *many, *options, reply, now, live),
            Call::Lease { worker, count, lease, .. } => self.leases(*worker, *count, *lease, &grants(reply), now),
            Call::Ack { pairs } => pairs.iter().enumerate().try_for_each(|(n, pair)| self.ack(*pair, code(n), now)),
            Call::AckLease { pair, worker } => {
                self.ack(*pair, code(0), now)?;
                // What was held behind the one may be the next.
                self.adopt_all(views, None, now)?;
                self.leases(*worker, 1, None, &grants(at(reply, 1)), now)
            }
            Call::Nack { pairs, delay, dead } => {
                pairs.iter().enumerate().try_for_each(|(n, pair)| self.nack(*pair, code(n), *delay, *dead, now))
            }
            Call::Release { pairs, delay } => {
                pairs.iter().enumerate().try_for_each(|(n, pair)| self.release(*pair, code(n), *delay, now))
            }
            Call::Extend { pairs, lease } => {
                pairs.iter().enumerate().try_for_each(|(n, pair)| self.extend(*pair, code(n), *lease, now))
            }
            Call::ReleaseConsumer { worker } => {
                let held: Vec<Id> = self.leased().filter(|(_, job)| job.consumer == *worker).map(|(id, _)| *id).collect();
                rule(int(reply) == held.len() as i64, || format!("w{worker} has {held:?}"))?;
                held.into_iter().for_each(|id| self.give_back(id, 0, now));
                Ok(())
            }
            Call::Reap { worker } => self.reap(*worker, reply, now),
            Call::Redrive { id } => self.redrive(*id, int(at(reply, 0)), now),
            Call::RedriveMany { count, spread } => self.redrive_many(*count, *spread, reply, now),
            Call::Set { id, priority, delay } => self.set(*id, *priority, *delay, int(reply), now),
            Call::Del { id } => {
                let there = self.job(*id).is_some();
                rule(self.just_dropped(*id) || int(reply) == i64::from(there), || format!("it was there: {there}"))?;
                self.end(*id, State::Gone, Ended::Gone, now);
                Ok(())
            }
            Call::DelKey { key } => self.del_key(*key, int(reply), now),
            Call::PurgeDead { count } => self.purge(*count, int(reply), step),
            Call::Trim { .. } => {
                self.trimmed = int(reply) as u64;
                Ok(())
            }
            Call::Pause { side, for_ms } => {
                let until = for_ms.map_or(u64::MAX, |ms| now + ms).max(self.pauses.get(side).copied().unwrap_or(0));
                let shown = if until == u64::MAX { 0 } else { until };
                rule(int(reply) as u64 == shown, || format!("the pause ends at {shown}"))?;
                self.pauses.insert(*side, until);
                Ok(())
            }
            Call::Resume { side } => {
                let was_on = self.pauses.remove(side).is_some();
                rule(int(reply) == i64::from(was_on), || format!("a pause was on: {was_on}"))
            }
            Call::Schedule { name } => self.schedule(*name, reply),
            Call::Unschedule { name } => {
                let schedule = self.schedules.entry(*name).or_default();
                let was_on = std::mem::take(&mut schedule.on);
                rule(int(reply) == i64::from(was_on), || format!("it was on: {was_on}"))
            }
        }
    }

    fn reap(&mut self, worker: Option<u8>, reply: &Tree, now: u64) -> Verdict {
        let held = |job: &Job| worker.is_none_or(|worker| job.consumer == worker);
        let mut expected: Vec<Id> = match worker {
            Some(_) => self.leased().filter(|(_, job)| held(job)).map(|(id, _)| *id).collect(),
            None => self.expired(now),
        };
        let mut reaped: Vec<Id> = items(reply).iter().map(|one| id_of(&string(at(one, 0)))).collect();
        for (one, id) in items(reply).iter().zip(&reaped) {
            rule(expected.contains(id), || format!("{id:?} was reaped, of {expected:?}"))?;
            self.expire(*id, now);
            let job = &self.jobs[id];
            rule(int(at(one, 2)) as u64 == job.deliveries, || format!("{id:?} had {} deliveries", job.deliveries))?;
            let dead = string(at(one, 1)) == "dead";
            rule(dead == matches!(job.state, State::Dead(_)), || format!("{id:?} is {:?}", job.state))?;
        }
        reaped.sort_unstable();
        expected.sort_unstable();
        rule(reaped == expected, || format!("{reaped:?} were reaped, of {expected:?}"))
    }

    fn purge(&mut self, count: u64, removed: i64, step: &Step) -> Verdict {
        let dead = |job: &Job| matches!(job.state, State::Dead(_));
        let mut oldest: Vec<(u64, Id)> = self.jobs.iter().filter(|(_, job)| dead(job)).map(|(id, job)| (job.ended_at, *id)).collect();
        oldest.sort_unstable();
        oldest.truncate(usize::try_from(count).expect("a count"));
        if removed != oldest.len() as i64 {
            return broken(format!("{removed} were removed, of {oldest:?}"));
        }
        oldest.into_iter().for_each(|(_, id)| self.end(id, State::Gone, Ended::Gone, step.now));
        Ok(())
    }
}

/// The name of a state under which jobs are kept.
fn kept(state: State) -> &'static str {
    match state {
        State::Done => "done",
        State::Dead(_) => "dead",
        _ => "",
    }
}
