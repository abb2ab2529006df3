//! The verbs on the reference: what each replies, with or without a queue.

use rq_core::Tree;

use super::job::Policy;
use super::op::{id_text, Dedup, Id, JobOptions, LeaseOptions, Op, RedriveMany, State, When};
use super::queue::{End, Reference};

/// What a command must answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Expect {
    Reply(Tree),
    /// It blocks; for ACKLEASE the code of the acknowledgement.
    Wait(Option<i64>),
    Error(&'static str),
    /// A page: the maps, and whether there is more.
    Page(Vec<Tree>, bool),
}

/// The reference with its surroundings: the clock, the grace, and whether there is a queue.
#[derive(Debug, Clone)]
pub struct World {
    pub now: u64,
    /// The grace: no lease ends by itself.
    pub hold_expiry: bool,
    pub may_block: bool,
    /// Slots of schedules make no jobs now.
    pub bar_slots: bool,
    pub defaults: Policy,
    pub queue: Option<Reference>,
}

fn ints(codes: impl IntoIterator<Item = i64>) -> Tree {
    Tree::Array(codes.into_iter().map(Tree::Int).collect())
}

impl When {
    pub fn at(self, now: u64) -> u64 {
        match self {
            When::Delay(ms) => now + ms,
            When::At(moment) => moment.at.max(now),
        }
    }
}

impl World {
    pub fn run(&mut self, op: &Op) -> Expect {
        if matches!(op, Op::Schedule { plan, .. } if plan.is_wrong()) {
            return Expect::Error("ERR");
        }
        let makes = matches!(op, Op::Push { .. } | Op::MPush { .. } | Op::Create { .. } | Op::Pause { .. } | Op::Schedule { .. });
        let absent = self.queue.is_none();
        if absent && !makes {
            return self.run_absent(op);
        }
        let (now, may_block) = (self.now, self.may_block);
        let queue = self.queue.get_or_insert_with(|| Reference::new(self.defaults.clone()));
        let payloads: &[Vec<u8>] = match op {
            Op::Push { payload, .. } => std::slice::from_ref(payload),
            Op::MPush { payloads, .. } => payloads,
            _ => &[],
        };
        let payloads: Vec<&[u8]> = payloads.iter().map(Vec::as_slice).collect();
        if let (false, Some(code)) = (payloads.is_empty(), queue.refuses(now, &payloads, op.dedup())) {
            return Expect::Error(code);
        }
        if !op.reads() {
            // A slot that is due with a push is made after it.
            if !matches!(op, Op::Push { .. } | Op::MPush { .. }) {
                queue.make_slots(now, self.bar_slots);
            }
            let reaps = matches!(op, Op::Reap { .. } | Op::ReapConsumer { .. } | Op::ReapIds { .. });
            queue.due(now, !reaps && !self.hold_expiry);
        }
        let reply = World::on_queue(queue, op, now, may_block, absent);
        if !op.reads() {
            queue.retain(now);
        }
        reply
    }

    fn on_queue(queue: &mut Reference, op: &Op, now: u64, may_block: bool, absent: bool) -> Expect {
        Expect::Reply(match op {
            Op::Push { payload, options, dedup } => queue.push_one(now, payload, options, dedup.as_ref(), 0),
            Op::MPush { payloads, options, dedup } => {
                let one = |(n, payload): (usize, &Vec<u8>)| queue.push_one(now, payload, options, dedup.as_ref(), n);
                Tree::Array(payloads.iter().enumerate().map(one).collect())
            }
            Op::GetDedup { key } => {
                let policy = queue.policy.clone();
                let owner = queue.owner(key, now).map(|key| key.owner);
                owner.and_then(|id| queue.job(id)).map_or(Tree::NullArray, |job| job.shown(&policy, true))
            }
            Op::DelDedup { keys } => Tree::Int(keys.iter().filter(|key| queue.delete_by_key(now, key)).count() as i64),
            Op::Lease { consumer, options } => {
                return queue.lease_many(now, consumer, options)
                    .map_or_else(|| nothing(None, options, may_block), Expect::Reply);
            }
            Op::AckLease { pair, consumer, options } => {
                let code = queue.ack(now, pair.id, pair.token, None);
                return queue.lease_many(now, consumer, options).map_or_else(
                    || nothing(Some(code), options, may_block),
                    |jobs| Expect::Reply(Tree::Array(vec![Tree::Int(code), jobs])),
                );
            }
            Op::Ack { pairs, result } => ints(pairs.iter().map(|pair| queue.ack(now, pair.id, pair.token, result.as_deref()))),
            Op::Nack { pairs, delay, error, dead } => ints(
                pairs.iter().map(|pair| queue.nack(now, pair.id, pair.token, *delay, error.as_deref(), *dead)),
            ),
            Op::Release { pairs, delay } => {
                ints(pairs.iter().map(|pair| queue.release(now, pair.id, pair.token, *delay)))
            }
            Op::ReleaseConsumer { consumer } => Tree::Int(queue.release_consumer(now, consumer)),
            Op::Extend { pairs, lease } => {
                ints(pairs.iter().map(|pair| queue.extend(now, pair.id, pair.token, *lease)))
            }
            Op::Reap { count } => {
                let all = queue.listed(State::Leased);
                let over = all.iter().filter(|job| queue.expired(job, now)).map(|job| job.id);
                let ids: Vec<Id> = over.take(count.unwrap_or(100) as usize).collect();
                queue.reap(now, &ids)
            }
            Op::ReapConsumer { consumer, count } => {
                let all = queue.listed(State::Leased);
                let held = all.iter().filter(|job| job.consumer.as_ref() == Some(consumer)).map(|job| job.id);
                let ids: Vec<Id> = held.take(count.unwrap_or(100) as usize).collect();
                queue.reap(now, &ids)
            }
            Op::ReapIds { ids } => queue.reap(now, &ids.iter().map(|pick| pick.id).collect::<Vec<Id>>()),
            Op::Redrive { ids } => ints(ids.iter().map(|pick| queue.redrive(now, pick.id, now, None))),
            Op::RedriveMany(many) => queue.redrive_many(now, many),
            Op::Set { id, priority, when } => {
                Tree::Int(queue.set(now, id.id, *priority, when.map(|when| when.at(now))))
            }
            Op::Del { ids } => Tree::Int(ids.iter().filter(|pick| queue.delete(now, pick.id)).count() as i64),
            Op::Purge { state, count, reason, before } => {
                let ids: Vec<Id> = queue.listed(*state).iter()
                    .filter(|job| reason.is_none() || job.reason == *reason)
                    .filter(|job| match (before, state) {
                        (None, _) => true,
                        (Some(before), State::Dead | State::Done) => job.ended_at() < before.at,
                        (Some(before), _) => job.place < before.at,
                    })
                    .map(|job| job.id)
                    .take(count.unwrap_or(1_000) as usize)
                    .collect();
                Tree::Int(ids.iter().filter(|&&id| queue.delete(now, id)).count() as i64)
            }
            Op::Trim { by, bound, count } => Tree::Int(queue.trim(now, by, *bound, count.unwrap_or(1_000))),
            Op::Pause { side, for_ms, reason } => Tree::Int(queue.pause(now, side, *for_ms, reason.as_deref())),
            Op::Resume { side } => Tree::Int(queue.resume(side)),
            Op::Schedule { name, plan, .. } => queue.schedule(now, name, plan),
            Op::Unschedule { names } => Tree::Int(names.iter().filter(|name| queue.unschedule(name)).count() as i64),
            Op::Schedules => queue.schedule_rows(),
            Op::Groups { after, count } => queue.group_rows(after.as_deref(), count.unwrap_or(1_000), now),
            Op::Consumers { after, count } => queue.consumer_rows(after.as_deref(), count.unwrap_or(1_000), now),
            Op::Wait { id, block } => match queue.job(id.id).map(|job| (job.state, job.result.clone())) {
                Some((State::Done, result)) => Tree::Array(vec![Tree::Bulk(b"done".to_vec()), Tree::Bulk(result)]),
                Some((State::Dead, _)) => Tree::Array(vec![Tree::Bulk(b"dead".to_vec()), Tree::Null]),
                Some(_) if block.is_some() && may_block => return Expect::Wait(None),
                _ => Tree::NullArray,
            },
            Op::Get { id } => {
                let policy = queue.policy.clone();
                queue.job(id.id).map_or(Tree::NullArray, |job| job.shown(&policy, true))
            }
            Op::Peek { state, count, payload } => return queue.page(*state, None, count.unwrap_or(10), *payload),
            Op::Len { state: Some(state) } => Tree::Int(queue.count(*state) as i64),
            Op::Len { state: None } => Tree::Int(queue.live() as i64),
            Op::Info { .. } => queue.info(now),
            Op::Create { settings } => {
                queue.set_policy(settings);
                Tree::Int(i64::from(absent))
            }
            Op::Alter { settings } => {
                queue.set_policy(settings);
                Tree::Ok
            }
        })
    }

    fn run_absent(&self, op: &Op) -> Expect {
        let gone = |n: usize| ints((0..n).map(|_| -1));
        Expect::Reply(match op {
            Op::Lease { options, .. } => return nothing(None, options, self.may_block),
            Op::AckLease { options, .. } => return nothing(Some(-1), options, self.may_block),
            Op::Ack { pairs, .. } | Op::Nack { pairs, .. } | Op::Release { pairs, .. } | Op::Extend { pairs, .. } => {
                gone(pairs.len())
            }
            Op::Redrive { ids } => gone(ids.len()),
            Op::Set { .. } => Tree::Int(-1),
            Op::DelDedup { .. } | Op::Trim { .. } | Op::ReleaseConsumer { .. } | Op::Del { .. } | Op::Purge { .. } => Tree::Int(0),
            Op::Resume { .. } | Op::Unschedule { .. } | Op::Len { .. } => Tree::Int(0),
            Op::Reap { .. } | Op::ReapConsumer { .. } | Op::ReapIds { .. } => Tree::Array(Vec::new()),
            Op::Schedules | Op::Groups { .. } | Op::Consumers { .. } => Tree::Array(Vec::new()),
            Op::RedriveMany(_) => ints([0, 0, 0]),
            Op::Peek { .. } => return Expect::Page(Vec::new(), false),
            Op::Get { .. } | Op::GetDedup { .. } | Op::Info { .. } | Op::Wait { .. } => Tree::NullArray,
            Op::Alter { .. } => return Expect::Error("NOQUEUE"),
            Op::Push { .. } | Op::MPush { .. } | Op::Create { .. } | Op::Pause { .. } | Op::Schedule { .. } => unreachable!("these make the queue"),
        })
    }
}

/// The reply when there is nothing to lease.
fn nothing(code: Option<i64>, options: &LeaseOptions, may_block: bool) -> Expect {
    if may_block && options.block.is_some() {
        return Expect::Wait(code);
    }
    Expect::Reply(match code {
        None => Tree::NullArray,
        Some(code) => Tree::Array(vec![Tree::Int(code), Tree::NullArray]),
    })
}

impl Reference {
    pub fn delete(&mut self, now: u64, id: Id) -> bool {
        let there = self.job(id).is_some();
        if there {
            self.notes.ended.push((id, End::Gone));
            self.remove(id);
            self.totals.removed += 1;
            self.ended(now, id, true);
        }
        there
    }

    /// The reply for one payload of a push.
    fn push_one(&mut self, now: u64, payload: &[u8], options: &JobOptions, dedup: Option<&Dedup>, n: usize) -> Tree {
        let due = options.when.map_or(now, |when| when.at(now));
        match dedup {
            None => Tree::Bulk(id_text(self.push(now, payload.to_vec(), due, options))),
            Some(dedup) => {
                let (id, code) = self.push_as(now, payload, due, options, dedup, &dedup.keys[n]);
                Tree::Array(vec![Tree::Bulk(id_text(id)), Tree::Int(code)])
            }
        }
    }

    /// The jobs part of LEASE's reply; None: nothing can be leased.
    pub fn lease_many(&mut self, now: u64, consumer: &[u8], options: &LeaseOptions) -> Option<Tree> {
        let mut jobs = Vec::new();
        let mut bytes = 0;
        while (jobs.len() as u64) < options.count.unwrap_or(1) {
            // The first one always comes, however long it is.
            let most = options.max_bytes.filter(|_| !jobs.is_empty());
            let Some(job) = self.lease(now, consumer, options.lease, |size| most.is_none_or(|most| bytes + size <= most))
            else {
                break;
            };
            bytes += job.payload.len() as u64;
            let mut reply = vec![
                Tree::Bulk(id_text(job.id)),
                Tree::Int(job.token as i64),
                Tree::Int(job.deliveries as i64),
                Tree::Bulk(job.payload.clone()),
                Tree::Int(job.lease_ms as i64),
            ];
            if options.meta {
                reply.push(job.shown(&self.policy, false));
            }
            jobs.push(Tree::Array(reply));
        }
        if jobs.is_empty() { None } else { Some(Tree::Array(jobs)) }
    }

    fn redrive_many(&mut self, now: u64, many: &RedriveMany) -> Tree {
        let fits: Vec<Id> = self.listed(State::Dead).iter()
            .filter(|job| many.reason.is_none() || job.reason == many.reason)
            .filter(|job| many.after.is_none_or(|after| job.dead_at > after.at))
            .filter(|job| many.before.is_none_or(|before| job.dead_at < before.at))
            .map(|job| job.id)
            .collect();
        let (mut chosen, mut skipped, mut keys, mut more) = (Vec::new(), 0, Vec::new(), fits.len() as u64 > many.count + 1_000);
        for &id in fits.iter().take(many.count as usize + 1_000) {
            if chosen.len() as u64 == many.count {
                more = true;
                break;
            }
            // Two of one key cannot both come back.
            let key = self.job(id).and_then(|job| job.dedup.clone()).filter(|(_, window)| *window == 0);
            if key.as_ref().is_some_and(|key| keys.contains(key)) || self.key_is_taken(id, now) {
                skipped += 1;
            } else {
                chosen.push(id);
            }
            keys.extend(key);
        }
        for (k, &id) in chosen.iter().enumerate() {
            let due = now + many.spread.unwrap_or(0) * k as u64 / chosen.len() as u64;
            self.redrive(now, id, due, many.priority);
        }
        ints([chosen.len() as i64, skipped, i64::from(more && !chosen.is_empty())])
    }

    /// The page of PEEK that follows the job `after`.
    pub fn page(&self, state: State, after: Option<Id>, count: u64, payload: bool) -> Expect {
        let all = self.listed(state);
        let from = after.and_then(|id| all.iter().position(|job| job.id == id)).map_or(0, |n| n + 1);
        let rest = &all[from..];
        let shown = rest.iter().take(count as usize).map(|job| job.shown(&self.policy, payload)).collect();
        Expect::Page(shown, rest.len() as u64 > count)
    }
}
