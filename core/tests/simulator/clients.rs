//! Producers, workers and operators: what they ask for, and what they make of the replies.

use super::call::{Call, Dedup, Id, JobOptions, Pair, Side, KEYS};
use super::grant::grants;
use super::ledger::{State, Verdict};
use super::world::World;
use crate::support::lively::Dice;
use crate::support::{at, int};
use rq_core::Tree;

/// Jobs beyond this many are not pushed.
const LIVE_MAX: usize = 25;

pub struct Worker {
    pub number: u8,
    /// What it believes to have leased, with the payload's number.
    leases: Vec<(Pair, u32)>,
    /// What it had before, and may come back to as a zombie.
    old: Vec<Pair>,
    hung_until_us: u64,
    /// What it asked for and got no reply to.
    unsure: Option<Call>,
}

impl Worker {
    pub fn new(number: u8) -> Worker {
        Worker { number, leases: Vec::new(), old: Vec::new(), hung_until_us: 0, unsure: None }
    }

    fn forget(&mut self, pairs: &[Pair]) {
        self.leases.retain(|(pair, _)| !pairs.contains(pair));
        self.old.extend(pairs);
        let surplus = self.old.len().saturating_sub(6);
        self.old.drain(..surplus);
    }

    pub fn learn(&mut self, call: &Call, reply: &Tree) {
        let leased = match call {
            Call::Lease { .. } => grants(reply),
            Call::AckLease { pair, .. } => {
                self.forget(&[*pair]);
                grants(at(reply, 1))
            }
            Call::Extend { pairs, .. } => {
                let lost: Vec<Pair> = pairs.iter().enumerate().filter(|(n, _)| int(at(reply, *n)) != 1).map(|(_, pair)| *pair).collect();
                self.forget(&lost);
                return;
            }
            Call::Ack { pairs } | Call::Nack { pairs, .. } | Call::Release { pairs, .. } => {
                self.forget(pairs);
                return;
            }
            _ => return,
        };
        let number = |payload: &str| payload[1..payload.find(':').expect("a colon")].parse().expect("a number");
        self.leases.extend(leased.iter().map(|grant| ((grant.id, grant.token), number(&grant.payload))));
    }
}

/// A job that no worker can do.
fn poison(payload: u32) -> bool {
    payload % 11 == 0
}

impl World {
    pub fn produce(&mut self, dice: &mut Dice) -> Verdict {
        if self.ledger.live().count() >= LIVE_MAX {
            return Ok(());
        }
        if let Some(call) = self.unsure.pop() {
            self.mark("pushed again");
            return self.push(&call, dice);
        }
        let many = (dice.below(8) == 0).then(|| 1 + dice.below(4) as u32);
        let key = (self.setup.keys && many.is_none() && dice.below(2) == 0).then(|| dice.below(KEYS.len()) as u8);
        let edits = key.is_some_and(|key| matches!(KEYS[usize::from(key)], Dedup::Replace | Dedup::Both));
        let options = JobOptions {
            delay: if dice.below(4) == 0 { *dice.pick(&[1, 30, 500, 20_000]) } else { 0 },
            priority: if self.setup.priorities { *dice.pick(&[0, 0, 3, -128, 127]) } else { 0 },
            lease: (dice.below(6) == 0).then(|| *dice.pick(&[20, 3_000])),
            max_deliveries: (dice.below(10) == 0).then(|| *dice.pick(&[0, 1, 2])),
            ttl: if !edits && dice.below(8) == 0 { *dice.pick(&[10, 800, 60_000]) } else { 0 },
            group: (self.setup.groups && dice.below(3) > 0).then(|| dice.below(3) as u8),
            key,
        };
        let payload = self.next_payload;
        self.next_payload += many.unwrap_or(1);
        self.push(&Call::Push { payload, many, options }, dice)
    }

    fn push(&mut self, call: &Call, dice: &mut Dice) -> Verdict {
        let reply = self.call(call, dice)?;
        if reply.is_none() && dice.below(2) == 0 {
            self.unsure.push(call.clone());
        }
        Ok(())
    }

    pub fn work(&mut self, dice: &mut Dice) -> Verdict {
        let n = dice.below(self.workers.len());
        let Some(call) = self.next_call(n, dice) else { return Ok(()) };
        let reply = self.call(&call, dice)?;
        let worker = &mut self.workers[n];
        match reply {
            Some(reply) => worker.learn(&call, &reply),
            // Some ask again for what they got no reply to; but not for more work.
            None => worker.unsure = Some(call).filter(|call| !matches!(call, Call::Lease { .. } | Call::AckLease { .. })),
        }
        Ok(())
    }

    fn next_call(&mut self, n: usize, dice: &mut Dice) -> Option<Call> {
        let true_us = self.cluster.true_us;
        let lease = self.ledger.rules.lease;
        let worker = &mut self.workers[n];
        let number = worker.number;
        if worker.hung_until_us > true_us || self.cluster.primary.waits(number) {
            return None;
        }
        if let Some(call) = worker.unsure.take().filter(|_| dice.below(4) > 0) {
            return Some(call);
        }
        if !worker.old.is_empty() && dice.below(8) == 0 {
            let pair = *dice.pick(&worker.old);
            return Some(settle(dice, pair));
        }
        if worker.leases.is_empty() || dice.below(4) == 0 {
            let own = (dice.below(4) == 0).then(|| *dice.pick(&[5, 400, 60_000]));
            return Some(Call::Lease { worker: number, count: 1 + dice.below(3) as u64, lease: own, block: dice.below(3) == 0 });
        }
        let (pair, payload) = *dice.pick(&worker.leases);
        let pairs = vec![pair];
        Some(match dice.below(100) {
            _ if poison(payload) && dice.below(3) > 0 => Call::Nack { pairs, delay: None, dead: false },
            0..=33 => Call::Ack { pairs },
            34..=45 => Call::AckLease { pair, worker: number },
            46..=52 => Call::Nack { pairs, delay: None, dead: false },
            53..=55 => Call::Nack { pairs, delay: Some(*dice.pick(&[0, 40, 3_000])), dead: false },
            56..=57 => Call::Nack { pairs, delay: None, dead: true },
            58..=64 => Call::Release { pairs, delay: *dice.pick(&[0, 0, 250]) },
            65..=79 => Call::Extend { pairs, lease: (dice.below(3) == 0).then(|| *dice.pick(&[10, 2_000])) },
            80..=84 => Call::Ack { pairs: worker.leases.iter().map(|(pair, _)| *pair).collect() },
            85..=86 => Call::ReleaseConsumer { worker: number },
            87..=88 => {
                // Another token than it was given.
                Call::Ack { pairs: vec![(pair.0, pair.1 - 1)] }
            }
            89..=91 => {
                // It dies, and another of its name knows nothing.
                worker.leases.clear();
                return None;
            }
            _ => {
                // It hangs for longer than its leases, and then goes on as if nothing had been.
                worker.hung_until_us = true_us + lease * 1_000 * (1 + dice.below(3) as u64) / 2;
                return None;
            }
        })
    }

    /// In the end all workers do what they should.
    pub fn work_honestly(&mut self, dice: &mut Dice) -> Verdict {
        for n in 0..self.workers.len() {
            let number = self.workers[n].number;
            let call = Call::Lease { worker: number, count: 10, lease: None, block: false };
            let Some(reply) = self.call(&call, dice)? else { continue };
            self.workers[n].learn(&call, &reply);
            while let Some((pair, payload)) = self.workers[n].leases.pop() {
                let hopeless = poison(payload) && self.ledger.jobs.get(&pair.0).is_some_and(|job| self.ledger.max_deliveries(job) > 0);
                let call = match hopeless {
                    true => Call::Nack { pairs: vec![pair], delay: None, dead: false },
                    false => Call::Ack { pairs: vec![pair] },
                };
                self.call(&call, dice)?;
            }
        }
        Ok(())
    }

    /// Whatever held things up is taken away.
    pub fn quiet(&mut self, dice: &mut Dice) -> Verdict {
        self.unsure.clear();
        let mut calls: Vec<Call> = (0..3).map(|name| Call::Unschedule { name }).collect();
        calls.extend([Side::Out, Side::In, Side::Group(0), Side::Group(1), Side::Group(2)].map(|side| Call::Resume { side }));
        calls.iter().try_for_each(|call| self.call(call, dice).map(drop))
    }

    pub fn operate(&mut self, dice: &mut Dice) -> Verdict {
        let Some(call) = self.operation(dice) else { return Ok(()) };
        self.call(&call, dice).map(drop)
    }

    fn operation(&mut self, dice: &mut Dice) -> Option<Call> {
        let ids: Vec<Id> = self.ledger.jobs.keys().copied().collect();
        let dead: Vec<Id> = self.ledger.jobs.iter().filter(|(_, job)| matches!(job.state, State::Dead(_))).map(|(id, _)| *id).collect();
        let some = |dice: &mut Dice, ids: &[Id]| (!ids.is_empty()).then(|| *dice.pick(ids));
        let side = |dice: &mut Dice| *dice.pick(&[Side::Out, Side::In, Side::Group(0), Side::Group(1)]);
        Some(match dice.below(20) {
            0 | 1 if self.setup.pauses => {
                let for_ms = (dice.below(4) > 0).then(|| *dice.pick(&[50, 400, 2_000]));
                Call::Pause { side: side(dice), for_ms }
            }
            2 | 3 if self.setup.pauses => Call::Resume { side: side(dice) },
            4..=6 if self.setup.schedules => Call::Schedule { name: dice.below(3) as u8 },
            7 if self.setup.schedules => Call::Unschedule { name: dice.below(3) as u8 },
            8 => Call::Reap { worker: None },
            9 => Call::Reap { worker: Some(dice.below(4) as u8) },
            10 | 11 => Call::Redrive { id: some(dice, &dead)? },
            12 => Call::Redrive { id: some(dice, &ids)? },
            13 => Call::RedriveMany { count: 1 + dice.below(4) as u64, spread: *dice.pick(&[0, 0, 900]) },
            14 | 15 => {
                let id = some(dice, &ids)?;
                let late = self.ledger.jobs[&id].options.ttl > 0;
                let delay = (!late && dice.below(2) == 0).then(|| *dice.pick(&[0, 60, 4_000]));
                Call::Set { id, priority: *dice.pick(&[0, 5]), delay }
            }
            16 => Call::Del { id: some(dice, &ids)? },
            17 => Call::DelKey { key: dice.below(KEYS.len()) as u8 },
            18 => Call::PurgeDead { count: 1 + dice.below(2) as u64 },
            19 => Call::Trim { len: dice.below(4) as u64 },
            _ => return None,
        })
    }
}

/// Any verb on a lease that may be anybody's by now.
fn settle(dice: &mut Dice, pair: Pair) -> Call {
    let pairs = vec![pair];
    match dice.below(4) {
        0 => Call::Ack { pairs },
        1 if dice.below(3) == 0 => Call::Nack { pairs, delay: None, dead: true },
        1 => Call::Nack { pairs, delay: Some(5), dead: false },
        2 => Call::Release { pairs, delay: 0 },
        _ => Call::Extend { pairs, lease: None },
    }
}
