//! REAP, REDRIVE, SET, DEL, PURGE.


use std::collections::BTreeSet;

use crate::due::in_future;
use crate::effects::Run;
use crate::id::{IdText, JobId};
use crate::job::{Job, Reason, State};
use crate::limits::LOOK_BEYOND;
use crate::op::{Due, Op};
use crate::request::{Reap, RedriveMany, Trim, When};
use crate::sink::Sink;
use crate::view;

impl Run<'_, '_> {
    pub(crate) fn reap(&mut self, count: u64, which: &Reap<'_>, out: &mut dyn Sink) {
        let now = self.now();
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        let leases: Vec<JobId> = match which {
            Reap::Expired => {
                let queue = &*self.queue;
                let gone = |deadline: u64| deadline <= now || queue.too_far(deadline, now);
                let past = queue.leased.keys(None, &queue.jobs);
                let mut leases: Vec<JobId> =
                    past.take_while(|(deadline, _)| *deadline <= now).take(count).map(|(_, id)| id).collect();
                // Only if the clock stepped back: deadlines that no lease reaches, at the far end.
                let far = now.saturating_add(queue.head.longest_lease_ms);
                let beyond = queue.leased.keys(Some((far, JobId::MAX)), &queue.jobs);
                leases.extend(
                    beyond.filter(|(deadline, _)| gone(*deadline)).map(|(_, id)| id).take(count.saturating_sub(leases.len())),
                );
                leases
            }
            Reap::Consumer(consumer) => self.queue.leases_of(consumer).into_iter().take(count).collect(),
            Reap::Ids(ids) => {
                let mut leases: Vec<JobId> = Vec::new();
                let mut seen = BTreeSet::new();
                for id in ids.iter() {
                    if self.queue.job(id).is_some_and(|job| job.state == State::Leased) && seen.insert(id) {
                        leases.push(id);
                    }
                }
                leases
            }
        };
        out.array(leases.len());
        let mut text = IdText::new();
        for id in leases {
            if let Some(op) = self.expiry_of(id) {
                self.commit(&op);
            }
            out.array(4);
            out.bulk(id.write(&mut text));
            let Some(job) = self.queue.job(id) else { continue };
            out.text(job.state.name());
            out.uint(job.deliveries);
            out.bulk(self.queue.consumer(&job).unwrap_or(b""));
        }
    }

    pub(crate) fn redrive(&mut self, id: JobId) -> i64 {
        match self.queue.job(id).map(|job| job.state) {
            None => -1,
            Some(State::Dead) if self.key_is_taken(id) => -2,
            Some(State::Dead) => {
                self.commit(&Op::Redrive { id, due: None, priority: None });
                1
            }
            Some(_) => 0,
        }
    }

    /// Whether a dead job's dedup key is another's by now. With a window it never was the job's own.
    fn key_is_taken(&self, id: JobId) -> bool {
        let Some(job) = self.queue.job(id).filter(|job| job.more().dedup_window_ms == 0) else { return false };
        let owner = job.more().dedup.as_deref().and_then(|key| self.queue.dedup.owner(key, self.now()));
        owner.is_some_and(|owner| owner.job != id)
    }

    pub(crate) fn redrive_many(&mut self, many: &RedriveMany, out: &mut dyn Sink) {
        let now = self.now();
        let after = many.after.map(|ms| (ms, JobId::MAX));
        let before = |at: u64| many.before.is_none_or(|before| at < before);
        // Those whose dedup key is taken are passed over, so more than COUNT are looked at; two of
        // one key cannot both come back.
        let look = usize::try_from(many.count.saturating_add(LOOK_BEYOND)).unwrap_or(usize::MAX);
        let dead = view::dead_after(self.queue, many.reason, after).map(|(key, _)| key);
        let mut looked = dead.take_while(|(at, _)| before(*at)).take(look.saturating_add(1)).map(|(_, id)| id).collect::<Vec<_>>();
        let mut more = looked.len() > look;
        looked.truncate(look);
        let (mut chosen, mut skipped, mut keys) = (Vec::new(), 0u64, BTreeSet::new());
        for id in looked {
            if chosen.len() as u64 >= many.count {
                more = true;
                break;
            }
            let own = |job: Job<'_>| Some(job.more()).filter(|more| more.dedup_window_ms == 0).and_then(|more| more.dedup.clone());
            let twice = self.queue.job(id).and_then(own).is_some_and(|key| !keys.insert(key));
            if twice || self.key_is_taken(id) {
                skipped = skipped.saturating_add(1);
            } else {
                chosen.push(id);
            }
        }
        let moved = chosen.len() as u64;
        for (k, id) in (0u64..).zip(chosen) {
            let wait = u128::from(many.spread_ms).saturating_mul(u128::from(k)).checked_div(u128::from(moved));
            let wait = wait.and_then(|wait| u64::try_from(wait).ok()).unwrap_or(0);
            self.commit(&Op::Redrive { id, due: in_future(wait, now), priority: many.priority });
        }
        out.array(3);
        out.uint(moved);
        out.uint(skipped);
        // If all that were looked at stay, they would be in the way of the same call again.
        out.int(i64::from(more && moved > 0));
    }

    pub(crate) fn set(&mut self, id: JobId, priority: Option<i8>, when: Option<When>) -> i64 {
        let now = self.now();
        let Some(job) = self.queue.job(id) else { return -1 };
        if !job.state.waits() {
            return 0;
        }
        let at = when.map(|when| when.at(now));
        let due = match at {
            None => None,
            Some(at) if at > now => Some(Due::Delayed(at)),
            Some(_) if job.state == State::Delayed => Some(Due::Ready(now)),
            Some(_) => None,
        };
        let due = due.filter(|due| !(job.state == State::Delayed && *due == Due::Delayed(job.place)));
        let priority = priority.filter(|priority| *priority != job.priority);
        if due.is_some() || priority.is_some() {
            self.commit(&Op::Set { id, priority, due });
        }
        1
    }

    /// 1 if the job was there.
    pub(crate) fn del(&mut self, id: JobId) -> u64 {
        let there = self.queue.slot_of(id).is_some();
        if there {
            self.commit(&Op::Drop { id });
        }
        u64::from(there)
    }

    /// Cancels the job that has a dedup key; a key that outlived its job is free.
    pub(crate) fn del_dedup(&mut self, key: &[u8]) -> u64 {
        let Some(owner) = self.queue.dedup.owner(key, self.now()) else { return 0 };
        let job = owner.job;
        if self.queue.slot_of(job).is_some() {
            return self.del(job);
        }
        self.commit(&Op::Forget { key });
        0
    }

    pub(crate) fn purge(&mut self, state: State, count: u64, reason: Option<Reason>, before: Option<u64>) -> u64 {
        let n = usize::try_from(count).unwrap_or(usize::MAX);
        let fits = |at: u64| before.is_none_or(|before| at < before);
        let chosen: Vec<JobId> = match state {
            State::Ready => self.ready_before(before, n),
            State::Delayed => {
                self.queue.delayed.keys(None, &self.queue.jobs).take_while(|(at, _)| fits(*at)).take(n).map(|(_, id)| id).collect()
            }
            State::Dead => {
                let dead = view::dead_after(self.queue, reason, None);
                dead.take_while(|((at, _), _)| fits(*at)).take(n).map(|((_, id), _)| id).collect()
            }
            State::Done => {
                self.queue.done.keys(None, &self.queue.jobs).take_while(|(at, _)| fits(*at)).take(n).map(|(_, id)| id).collect()
            }
            State::Leased => Vec::new(),
        };
        for id in &chosen {
            self.commit(&Op::Drop { id: *id });
        }
        chosen.len() as u64
    }

    /// Removes finished jobs, oldest first, until the bound holds.
    pub(crate) fn trim(&mut self, bound: Trim, count: u64) -> u64 {
        let mut removed = 0u64;
        while removed < count {
            let Some((since, id)) = self.queue.oldest(State::Done) else { break };
            let over = match bound {
                Trim::Len(len) => self.queue.count(State::Done) as u64 > len,
                Trim::Age(ms) => since.saturating_add(ms) <= self.now(),
                Trim::Bytes(bytes) => self.queue.bytes.get(State::Done as usize).is_some_and(|held| *held > bytes),
            };
            if !over {
                break;
            }
            self.commit(&Op::Discard { id });
            removed = removed.saturating_add(1);
        }
        removed
    }

    /// Up to `n` ready jobs whose place is before a time, in order. Within a priority places
    /// ascend, so the first that is too late ends it.
    fn ready_before(&self, before: Option<u64>, n: usize) -> Vec<JobId> {
        let mut chosen = Vec::new();
        let mut from = None;
        while chosen.len() < n {
            let mut skip_to = None;
            for (key, _) in self.queue.ready_after(from) {
                if before.is_some_and(|before| key.1 >= before) {
                    skip_to = Some((key.0, u64::MAX, JobId::MAX));
                    break;
                }
                chosen.push(key.2);
                if chosen.len() >= n {
                    break;
                }
            }
            match skip_to {
                Some(end) => from = Some(end),
                None => break,
            }
        }
        chosen
    }
}

