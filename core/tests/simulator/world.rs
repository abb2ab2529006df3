//! The simulated world: what happens next, and that each step of it is judged.

use std::collections::BTreeMap;

use super::call::{Call, Pair};
use super::clients::Worker;
use super::cluster::Cluster;
use super::grant::grants;
use super::judge::needs_view;
use super::ledger::{broken, rule, Ledger, State, Verdict};
use super::node::{Node, Step};
use super::rules::Setup;
use super::trace::Trace;
use super::view::views;
use crate::support::lively::Dice;
use crate::support::{show, START};
use rq_core::Tree;

pub struct World {
    pub setup: Setup,
    pub cluster: Cluster,
    pub ledger: Ledger,
    pub trace: Trace,
    pub workers: Vec<Worker>,
    pub next_payload: u32,
    /// Pushes whose reply was lost, to be sent again.
    pub unsure: Vec<Call>,
    /// The highest token that anybody has ever got, on any timeline.
    top_token: u64,
    fsync_due_us: u64,
    /// By what time the last step was decided.
    last_now: u64,
    /// Nothing goes wrong any more.
    calm: bool,
    /// How often what has happened.
    pub marks: BTreeMap<&'static str, u64>,
}

/// Independent numbers for each step, so that a run without some of its steps does the others as
/// before, as far as it can.
fn dice_of(seed: u64, step: u64) -> Dice {
    let mut mixed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ step.wrapping_mul(0xbf58_476d_1ce4_e5b9) ^ 0x94d0_49bb_1331_11eb;
    mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    Dice((mixed ^ (mixed >> 32)) | 1)
}

impl World {
    pub fn new(seed: u64, keep_trace: bool) -> Verdict<World> {
        let mut dice = dice_of(seed, u64::MAX);
        let setup = Setup::of(&mut dice);
        let (mut primary, mut replica) = (Node::new(seed), Node::new(!seed));
        let true_us = START * 1_000;
        if setup.clocks_step {
            primary.offset_ms = dice.below(2_000) as i64 - 1_000;
            replica.offset_ms = dice.below(20_000) as i64 - 10_000;
            replica.drift_ppm = dice.below(20_000) as i64 - 10_000;
        }
        let options = setup.rules.options();
        let words: Vec<&[u8]> = options.split_whitespace().map(str::as_bytes).collect();
        let step = primary.run_words("RQ.CREATE", &words, true_us);
        rule(step.reply == Ok(Tree::Int(1)), || format!("CREATE {options}: {:?}", step.reply))?;
        let ledger = Ledger::new(setup.rules.clone());
        let mut trace = Trace::new(keep_trace);
        trace.say(format_args!("RQ.CREATE q {options}"));
        trace.say(format_args!("# grace {}, fsync always {}, clocks step {}", setup.grace, setup.fsync_always, setup.clocks_step));
        Ok(World {
            cluster: Cluster::new(primary, replica, ledger.clone(), true_us)?,
            setup,
            ledger,
            trace,
            workers: (0..4).map(Worker::new).collect(),
            next_payload: 1,
            unsure: Vec::new(),
            top_token: 0,
            fsync_due_us: 0,
            last_now: START,
            calm: false,
            marks: BTreeMap::new(),
        })
    }

    pub fn mark(&mut self, what: &'static str) {
        *self.marks.entry(what).or_default() += 1;
    }

    /// The n-th step of a run.
    pub fn step(&mut self, seed: u64, n: usize) -> Verdict {
        let mut dice = dice_of(seed, n as u64);
        self.cluster.true_us += dice.below(30_000) as u64;
        if dice.below(3) == 0 {
            self.cluster.replicate(dice.below(4) as u64)?;
        }
        if self.cluster.true_us >= self.fsync_due_us {
            self.cluster.fsync();
            self.fsync_due_us = self.cluster.true_us + 1_000_000;
        }
        match dice.below(100) {
            0..=19 => self.produce(&mut dice),
            20..=63 => self.work(&mut dice),
            64..=71 => self.tick(),
            72..=76 => {
                self.cluster.true_us += *dice.pick(&[200_000, 1_000_000, 5_000_000, 40_000_000]) * (1 + dice.below(2) as u64);
                Ok(())
            }
            77..=85 => self.operate(&mut dice),
            86..=89 => self.audit(),
            _ => self.fault(&mut dice),
        }
    }

    /// A request to the primary. The reply, if the client gets to see it.
    pub fn call(&mut self, call: &Call, dice: &mut Dice) -> Verdict<Option<Tree>> {
        let now = self.cluster.primary.now(self.cluster.true_us);
        // A request does a bounded part of the due work: here it must be able to do all of it. And
        // an edit of what the due work pushed would hide that.
        let edits = matches!(call, Call::DelKey { .. }) || matches!(call, Call::Push { options, .. } if options.key.is_some());
        let slots = self.setup.schedules && now.abs_diff(self.last_now) > 50_000;
        if edits || slots || self.ledger.backlog(now) > 30 {
            self.tick()?;
        }
        let step = self.cluster.primary.run(call, self.cluster.true_us);
        let (name, words) = call.words();
        let reply = step.reply.as_ref().map_or_else(ToString::to_string, show);
        self.trace.say(format_args!("{} {name} q {} -> {reply}", step.now, words.join(" ")));
        self.judge(Some(call), &step).map_err(|what| format!("{call:?} -> {reply}: {what}"))?;
        self.tell(&step, dice)?;
        if !self.calm && dice.below(60) == 0 {
            self.restart(dice)?;
            return Ok(None);
        }
        if self.setup.fsync_always {
            self.cluster.fsync();
        }
        if !self.calm && dice.below(15) == 0 {
            self.mark("replies lost");
            self.trace.say(format_args!("# the reply is lost"));
            return Ok(None);
        }
        Ok(step.reply.ok())
    }

    /// Those who waited learn what they got, if they are still there.
    fn tell(&mut self, step: &Step, dice: &mut Dice) -> Verdict {
        for (call, reply) in &step.granted {
            let Call::Lease { worker, .. } = call else { continue };
            self.trace.say(format_args!("# w{worker} had waited and got {}", show(reply)));
            if dice.below(6) > 0 {
                self.mark("waited and got a job");
                self.workers[usize::from(*worker)].learn(call, reply);
                continue;
            }
            self.mark("given back");
            let pairs: Vec<Pair> = grants(reply).iter().map(|grant| (grant.id, grant.token)).collect();
            let step = self.cluster.primary.give_back(&pairs, self.cluster.true_us);
            self.trace.say(format_args!("{} # it was gone, {pairs:?} are given back", step.now));
            self.ledger.judge_given_back(&pairs, &step)?;
            self.cluster.record(&step, &self.ledger);
        }
        Ok(())
    }

    fn judge(&mut self, call: Option<&Call>, step: &Step) -> Verdict {
        let views = if needs_view(call, step) { views(&mut self.cluster.primary, self.cluster.true_us) } else { Vec::new() };
        self.last_now = step.now;
        self.ledger.judge(call, step, &views)?;
        self.cluster.primary.check()?;
        self.fenced(step)?;
        for event in &step.events {
            self.mark(event);
        }
        self.cluster.record(step, &self.ledger);
        Ok(())
    }

    /// Tokens rise over lost tails and failovers too, as far as clocks agree: so somebody who
    /// writes down the highest one he saw can refuse all older workers.
    fn fenced(&mut self, step: &Step) -> Verdict {
        let last = self.ledger.last_token;
        let granted = step.count("rq.lease") > 0;
        rule(!granted || last > self.top_token || self.setup.clocks_step, || format!("the token {last} was granted after {}", self.top_token))?;
        self.top_token = self.top_token.max(last);
        Ok(())
    }

    /// The timer of the primary.
    pub fn tick(&mut self) -> Verdict {
        let step = self.cluster.primary.tick(128, self.cluster.true_us);
        self.trace.say(format_args!("{} # tick: {:?}", step.now, step.events));
        self.judge(None, &step).map_err(|what| format!("tick: {what}"))?;
        self.tell(&step, &mut Dice(step.now | 1))?;
        if self.setup.fsync_always {
            self.cluster.fsync();
        }
        Ok(())
    }

    /// The whole queue beside the whole ledger.
    pub fn audit(&mut self) -> Verdict {
        self.tick()?;
        let views = views(&mut self.cluster.primary, self.cluster.true_us);
        self.trace.say(format_args!("# audit of {} jobs, digest {:016x}", views.len(), self.cluster.primary.digest()));
        self.ledger.audit(&views).map_err(|what| format!("audit: {what}"))
    }

    /// After all that went wrong: everything is in order again, workers work until nothing is
    /// left, and then every job must have ended.
    pub fn drain(&mut self, seed: u64) -> Verdict {
        let mut dice = dice_of(seed, u64::MAX - 1);
        self.trace.say(format_args!("# all is quiet, and workers work until nothing is left"));
        self.calm = true;
        self.cluster.primary.hang_up();
        self.quiet(&mut dice)?;
        for _ in 0..600 {
            self.tick()?;
            if self.ledger.live().next().is_none() {
                self.audit()?;
                self.cluster.must_be_equal()?;
                return self.all_ended();
            }
            self.work_honestly(&mut dice)?;
            let now = self.cluster.primary.now(self.cluster.true_us);
            let next = self.cluster.primary.queue.as_ref().and_then(|queue| queue.next_event(now, 0));
            let wait = next.map_or(5_000, |next| next.saturating_sub(now)).clamp(50, 4_000_000);
            // Behind a clock that was set back, queue time goes at half the pace.
            self.cluster.true_us += wait * 2_000;
        }
        broken(format!("these do not end: {:?}", self.ledger.live().collect::<Vec<_>>()))
    }

    fn all_ended(&self) -> Verdict {
        let live = self.ledger.jobs.values().filter(|job| matches!(job.state, State::Waiting | State::Leased)).count();
        rule(live == 0 && self.ledger.held.is_empty(), || format!("{live} jobs are left, held is {:?}", self.ledger.held))
    }
}
