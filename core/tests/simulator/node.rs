//! One server of the simulated world: a queue, the clocks that it sees, and the grace.

use rq_core::clock::Clock;
use rq_core::{Effects, End, Error, Event, JobId, Outcome, Queue, Request, Tree, TreeSink, Turn, Waiter};

use super::call::{id_of, id_text, Call, Id, Pair};
use super::trace::Fnv;
use crate::support::{chunks, load, snapshot, verb, START};

pub struct Node {
    pub queue: Option<Queue>,
    clock: Clock,
    /// How far the wall clock is off the true time, ms.
    pub offset_ms: i64,
    /// How much faster than the true time it goes, in parts of a million.
    pub drift_ppm: i64,
    grace_end_us: u64,
    effects: Effects,
    seed: u64,
    /// The workers that wait for a job, in order: what they asked for.
    blocked: Vec<(Call, Waiter)>,
}

/// How a job ended, as somebody who waits for it learns it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ended {
    Done,
    Dead,
    Gone,
}

/// What came of a request or a tick.
pub struct Step {
    pub reply: Result<Tree, Error>,
    /// The time by which it was decided.
    pub now: u64,
    /// No lease could expire by itself.
    pub hold: bool,
    /// What the AOF and the replicas get.
    pub batches: Vec<Vec<u8>>,
    pub ended: Vec<(Id, Ended)>,
    pub events: Vec<&'static str>,
    /// What those got who waited.
    pub granted: Vec<(Call, Tree)>,
    /// Somebody still waits.
    pub blocked: bool,
}

impl Step {
    fn of(reply: Result<Tree, Error>, turn: &Turn<'_>) -> Step {
        Step {
            reply,
            now: turn.now,
            hold: turn.hold_expiry,
            batches: Vec::new(),
            ended: Vec::new(),
            events: Vec::new(),
            granted: Vec::new(),
            blocked: false,
        }
    }

    pub fn count(&self, event: &str) -> usize {
        self.events.iter().filter(|name| **name == event).count()
    }
}

impl Node {
    pub fn new(seed: u64) -> Node {
        Node { queue: None, clock: Clock::new(), offset_ms: 0, drift_ppm: 0, grace_end_us: 0, effects: Effects::new(), seed, blocked: Vec::new() }
    }

    /// The queue time, as the shell reads it.
    pub fn now(&mut self, true_us: u64) -> u64 {
        let drift = i128::from(true_us - START * 1_000) * i128::from(self.drift_ppm) / 1_000_000;
        let wall = i128::from(true_us) + i128::from(self.offset_ms) * 1_000 + drift;
        let wall_us = u64::try_from(wall).expect("a time");
        let now = self.clock.read(wall_us, true_us);
        let newest = self.queue.as_ref().map_or(0, Queue::newest_ms);
        if newest <= now {
            return now;
        }
        self.clock.observe(newest);
        self.clock.read(wall_us, true_us)
    }

    /// After a load or a promotion no lease expires for a while.
    pub fn begin_grace(&mut self, true_us: u64, ms: u64) {
        self.grace_end_us = true_us + ms * 1_000;
    }

    pub fn waits(&self, worker: u8) -> bool {
        self.blocked.iter().any(|(call, _)| matches!(call, Call::Lease { worker: one, .. } if *one == worker))
    }

    /// All connections are gone.
    pub fn hang_up(&mut self) {
        self.blocked.clear();
    }

    /// The process starts anew: it knows no time but what its clocks show and its queue has seen.
    pub fn forget_time(&mut self) {
        self.clock = Clock::new();
    }

    fn turn(&mut self, true_us: u64) -> Turn<'static> {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let hold_expiry = true_us < self.grace_end_us;
        Turn { seed: self.seed, hold_expiry, incarnation: self.seed, ..Turn::at(self.now(true_us)) }
    }

    pub fn run(&mut self, call: &Call, true_us: u64) -> Step {
        let (name, words) = call.words();
        let words: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
        let turn = Turn { may_block: true, ..self.turn(true_us) };
        self.effects.clear();
        self.effects.watch_ends(true);
        let reply = rq_core::parse(verb(name), &words).and_then(|request| self.execute(&request, call, &turn));
        let mut step = Step::of(reply, &turn);
        if step.reply.is_ok() {
            self.offer(&turn, &mut step);
        }
        self.note(&mut step);
        step
    }

    fn execute(&mut self, request: &Request<'_>, call: &Call, turn: &Turn<'_>) -> Result<Tree, Error> {
        let mut sink = TreeSink::new();
        let queue = self.queue.as_mut().expect("it was made at the beginning");
        match rq_core::execute(queue, request, turn, &mut self.effects, &mut sink)? {
            Outcome::Replied => Ok(sink.finish().expect("a whole reply")),
            Outcome::Wait(code) => {
                assert!(code.is_none() && sink.finish().is_none(), "only LEASE waits here");
                self.blocked.push((call.clone(), Waiter::new(request, code).expect("a waiter")));
                Ok(Tree::NullArray)
            }
        }
    }

    /// Offers what there is to those who wait, in order.
    fn offer(&mut self, turn: &Turn<'_>, step: &mut Step) {
        let Some(queue) = &mut self.queue else { return };
        let effects = &mut self.effects;
        self.blocked.retain(|(call, waiter)| {
            let mut sink = TreeSink::new();
            let granted = waiter.grant(b"q", queue, turn, effects, &mut sink);
            if granted {
                step.granted.push((call.clone(), sink.finish().expect("a whole reply")));
            }
            !granted
        });
        step.blocked = !self.blocked.is_empty();
    }

    /// The client that got a lease was gone before it could read of it.
    pub fn give_back(&mut self, pairs: &[Pair], true_us: u64) -> Step {
        let turn = self.turn(true_us);
        self.effects.clear();
        self.effects.watch_ends(true);
        let ids: Vec<String> = pairs.iter().map(|(id, _)| id_text(*id)).collect();
        let leases = ids.iter().zip(pairs).map(|(id, (_, token))| (JobId::parse(id.as_bytes()).expect("an id"), *token));
        let leases: Vec<(JobId, u64)> = leases.collect();
        rq_core::give_back(self.queue.as_mut().expect("a queue"), &leases, &turn, &mut self.effects);
        let mut step = Step::of(Ok(Tree::Ok), &turn);
        self.note(&mut step);
        step
    }

    /// CREATE, and what only looks.
    pub fn run_words(&mut self, name: &str, words: &[&[u8]], true_us: u64) -> Step {
        let turn = self.turn(true_us);
        self.effects.clear();
        let reply = rq_core::parse(verb(name), words).and_then(|request| {
            let mut sink = TreeSink::new();
            match &mut self.queue {
                Some(queue) => drop(rq_core::execute(queue, &request, &turn, &mut self.effects, &mut sink)?),
                None => self.queue = rq_core::execute_absent(&request, &turn, &mut self.effects, &mut sink)?.1,
            }
            Ok(sink.finish().expect("a whole reply"))
        });
        let mut step = Step::of(reply, &turn);
        self.note(&mut step);
        step
    }

    /// What the timer does: all due work, at most `steps` at a time; then it offers what there is.
    pub fn tick(&mut self, steps: u32, true_us: u64) -> Step {
        let turn = self.turn(true_us);
        let mut step = Step::of(Ok(Tree::Ok), &turn);
        let mut more = true;
        while more {
            self.effects.clear();
            self.effects.watch_ends(true);
            more = self.queue.as_mut().is_some_and(|queue| rq_core::due(queue, &turn, steps, &mut self.effects));
            assert!(!more || !self.effects.batch().is_empty(), "there is more to do, but nothing was done");
            if !more {
                self.offer(&turn, &mut step);
            }
            self.note(&mut step);
        }
        step
    }

    fn note(&self, step: &mut Step) {
        if !self.effects.batch().is_empty() {
            step.batches.push(self.effects.batch().to_vec());
        }
        step.events.extend(self.effects.events().iter().map(|event| name(*event)));
        step.ended.extend(self.effects.ended().iter().map(|(id, end)| {
            let end = match end {
                End::Done(_) => Ended::Done,
                End::Dead => Ended::Dead,
                End::Gone => Ended::Gone,
            };
            (id_of(&id.to_string()), end)
        }));
    }

    /// A batch from the primary or the AOF.
    pub fn apply(&mut self, batch: &[u8], true_us: u64) -> Result<(), String> {
        self.now(true_us);
        self.effects.clear();
        let applied = match &mut self.queue {
            Some(queue) => rq_core::apply(queue, batch, &mut self.effects),
            None => rq_core::apply_absent(batch, &mut self.effects).map(|(now, made)| {
                self.queue = made;
                now
            }),
        };
        let op_ms = applied.map_err(|error| format!("a batch of our own does not decode: {error:?}"))?;
        self.clock.observe(op_ms);
        match self.effects.misfits() {
            0 => Ok(()),
            n => Err(format!("{n} ops do not fit")),
        }
    }

    /// Takes over a whole queue: strictly out of an RDB file, or as an AOF without preamble.
    pub fn load(&mut self, parts: &[Vec<u8>], strictly: bool, true_us: u64) -> Result<(), String> {
        self.queue = None;
        if strictly {
            self.queue = Some(load(parts)?);
            return Ok(());
        }
        parts.iter().try_for_each(|part| self.apply(part, true_us))
    }

    pub fn parts(&self) -> Vec<Vec<u8>> {
        self.queue.as_ref().map_or_else(Vec::new, chunks)
    }

    pub fn digest(&self) -> u64 {
        Fnv::of(&snapshot(self.queue.as_ref()))
    }

    pub fn check(&self) -> Result<(), String> {
        self.queue.as_ref().map_or(Ok(()), |queue| rq_core::check(queue).map_err(|error| format!("the queue is not valid: {error}")))
    }
}

/// The name of its keyspace event.
fn name(event: Event) -> &'static str {
    match event {
        Event::Push => "rq.push",
        Event::Duplicate => "rq.duplicate",
        Event::Lease => "rq.lease",
        Event::Ack => "rq.ack",
        Event::Nack => "rq.nack",
        Event::Release => "rq.release",
        Event::Expire => "rq.expire",
        Event::Dead => "rq.dead",
        Event::Redrive => "rq.redrive",
        Event::Del => "rq.del",
        Event::Drop => "rq.drop",
    }
}
