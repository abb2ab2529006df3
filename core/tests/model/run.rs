//! One random run: every step on the real queue and on the reference.

use rq_core::{Opt, Policy as CorePolicy, Setting, Tree, Value};

use super::binder::{Choice, History};
use super::compare::{same, same_tree, Difference};
use super::job::Policy;
use super::marks::Marks;
use super::op::{id_text, Binder, Id, IdPick, Jitter, LeaseOptions, Op, State};
use super::queue::{End, Reference};
use super::steps::{Jump, Step};
use super::verbs::{Expect, World};
use crate::support::{field, int, show, Driver, Reply, START};

/// A command does at most 128 due steps, up to three for a job, and the reference does them all.
/// So with more jobs than this none are pushed, and the timer comes before any command.
const LIVE_MAX: usize = 30;
const JOBS_MAX: usize = 60;
/// Nor are more than 128 jobs dropped in one step.
const DROPPED_MAX: usize = 100;

pub struct Run {
    /// Thousands of jobs: then the timer does all due work before any command.
    many: bool,
    pub driver: Driver,
    pub world: World,
    history: History,
    /// The client that blocks, if one does.
    waiting: Option<Waiting>,
    pub marks: Marks,
}

struct Waiting {
    consumer: Vec<u8>,
    options: LeaseOptions,
    code: Option<i64>,
}

/// The defaults of a queue that PUSH makes: not the built-in ones, to see that they are used.
fn defaults() -> (Policy, CorePolicy) {
    let mut core = CorePolicy::default();
    let values = [(Opt::Lease, Value::Number(70)), (Opt::MaxDeliveries, Value::Number(4)), (Opt::Jitter, Value::Word(2))];
    for (opt, value) in values {
        core.set(Setting::new(opt, value).expect("in range"));
    }
    let own = Policy {
        lease: 70,
        max_run: 0,
        max_deliveries: 4,
        max_expiries: 5,
        backoff: (1_000, 3_600_000),
        jitter: Jitter::None,
        expiry_backoff: false,
        keep_done: [Some(0), None, None],
        keep_dead: [None; 3],
        max_live: None,
        max_live_bytes: None,
        concurrency: None,
        rate: None,
        group_limit: None,
        group_rate: None,
        group_order: false,
        aging: 0,
    };
    (own, core)
}

impl Run {
    pub fn new(many: bool) -> Run {
        let (own, core) = defaults();
        let world = World { now: START, hold_expiry: false, may_block: false, bar_slots: false, defaults: own, queue: None };
        let mut driver = Driver::new();
        driver.defaults = core;
        Run { many, driver, world, history: History::default(), waiting: None, marks: Marks::new() }
    }

    /// Every line typed so far.
    pub fn transcript(&self) -> String {
        self.driver.typed.join("\n")
    }

    pub fn step(&mut self, step: Step) -> Result<(), Difference> {
        match step {
            Step::Run(mut op, style) => self.command(&mut op, style)?,
            Step::Flawed(mut op, style, flaw) => {
                op.bind(&Choice { world: &self.world, history: &self.history });
                if let Some(args) = flaw.spoil(&op, op.spell(style)) {
                    match self.execute(&op, &args) {
                        Ok(reply) => return Err(format!("{flaw:?} was not refused: {reply:?}")),
                        Err(_) => self.mark("refused".to_string()),
                    }
                }
            }
            Step::Time(jump) => {
                let now = self.world.now;
                self.world.now = match jump {
                    Jump::By(ms) => now.saturating_add_signed(ms),
                    Jump::ToEvent(ms) => {
                        let event = self.world.queue.as_ref().and_then(|queue| queue.next_event(now));
                        // Some events are years ahead: whoever goes there sees no others.
                        event.filter(|at| *at < now + 100_000).unwrap_or(now).saturating_add_signed(ms)
                    }
                    Jump::ToLate(ms) => {
                        let slots = self.world.queue.iter().flat_map(|queue| queue.schedules.values()).filter_map(|schedule| schedule.next);
                        slots.min().filter(|at| *at < now + 1_000_000).map_or(now, |at| (at + 60_000).max(now).saturating_add_signed(ms))
                    }
                };
                self.driver.at(self.world.now);
            }
            Step::Tick(max_steps) => self.tick(max_steps)?,
            Step::Hold(hold) => {
                self.driver.typed.push(format!("# no lease expires by itself: {hold}"));
                (self.driver.hold_expiry, self.world.hold_expiry) = (hold, hold);
            }
            Step::MayBlock(may) => {
                self.driver.typed.push(format!("# clients may block: {may}"));
                (self.driver.may_block, self.world.may_block) = (may, may);
            }
            Step::BarSlots(bar) => {
                self.driver.typed.push(format!("# slots make no jobs: {bar}"));
                (self.driver.bar_slots, self.world.bar_slots) = (bar, bar);
            }
            Step::Reload => {
                self.driver.reload();
                self.offer()?;
            }
            Step::GiveBack => self.give_back()?,
            Step::DeleteKey => {
                self.driver.delete_key();
                self.world.queue = None;
                self.history = History::default();
                self.driver.granted.clear();
            }
            Step::PeekLoop { state, count, removals } => self.peek_loop(state, count, removals)?,
        }
        self.compare_whole()
    }

    fn execute(&mut self, op: &Op, args: &[Vec<u8>]) -> Result<Reply, rq_core::Error> {
        let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        self.driver.execute(op.name(), &args)
    }

    fn command(&mut self, op: &mut Op, style: u32) -> Result<(), Difference> {
        let queue = self.world.queue.as_ref();
        let crowded = queue.is_some_and(|queue| queue.live() > LIVE_MAX || queue.jobs.len() > JOBS_MAX);
        if crowded && !self.many && matches!(op, Op::Push { .. } | Op::MPush { .. }) {
            return Ok(());
        }
        if queue.is_some_and(|queue| queue.jobs.len() > DROPPED_MAX) && !self.many && matches!(op, Op::Create { .. } | Op::Alter { .. }) {
            return Ok(());
        }
        let behind = queue.is_some_and(|queue| queue.is_far_behind(self.world.now));
        if self.many || crowded || behind || queue.is_some_and(|queue| queue.policy.jitter != Jitter::None) {
            // What is drawn at random is asked for before anything depends on it.
            self.tick(128)?;
        }
        op.bind(&Choice { world: &self.world, history: &self.history });
        self.history.say_again(op);
        let before = self.world.queue.clone();
        let standing = self.standing(op);
        let expected = self.world.run(op);
        // As the shell does it: what a command makes ready goes to the client that blocks, in the
        // same batch. Now and then apart from it, as the timer does.
        let together = style % 4 > 0 && self.waiting.is_some() && !matches!(expected, Expect::Wait(_) | Expect::Error(_));
        let expected_grant = if together { self.expected_grant() } else { None };
        let args = op.spell(style).all();
        let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        let (reply, granted) = self.driver.execute_and_grant(op.name(), &args, together);
        self.same_reply(&expected, reply.map(|reply| without_last_seen(op, reply)))?;
        self.same_grant(expected_grant, granted)?;
        self.same_effects(before.as_ref())?;
        self.mark_reply(op, standing, &expected);
        if let (Expect::Wait(code), Op::Lease { .. } | Op::AckLease { .. }) = (expected, &*op) {
            self.waits(op, code)?;
        }
        self.remember();
        self.offer()
    }

    /// What a step left behind beside its reply: if the reference did not change, nothing may have
    /// been sent, and the other way round; and who waits for the end of a job is told the same.
    fn same_effects(&mut self, before: Option<&Reference>) -> Result<(), Difference> {
        let same = before == self.world.queue.as_ref();
        if same != self.driver.batch.is_empty() {
            return Err(format!("the reference {} but the batch has {} bytes",
                if same { "did not change," } else { "changed," }, self.driver.batch.len()));
        }
        let ended = ends(&self.driver);
        self.same_ends(ended)
    }

    fn same_ends(&mut self, mut ended: Vec<(Id, End)>) -> Result<(), Difference> {
        let notes = self.world.queue.as_mut().map(|queue| std::mem::take(&mut queue.notes)).unwrap_or_default();
        for what in notes.seen {
            self.mark(what.to_string());
        }
        let mut expected = notes.ended;
        expected.sort_unstable();
        ended.sort_unstable();
        same("the jobs that ended", &expected, &ended)
    }

    /// A client that blocks stays; there is one at most, another gives up at once.
    fn waits(&mut self, op: &Op, code: Option<i64>) -> Result<(), Difference> {
        let (Op::Lease { consumer, options } | Op::AckLease { consumer, options, .. }) = op else {
            return Err("only LEASE and ACKLEASE wait".to_string());
        };
        let waiting = Waiting { consumer: consumer.clone(), options: options.clone(), code };
        if self.waiting.is_some() {
            let expected = match code {
                Some(code) => Tree::Array(vec![Tree::Int(code), Tree::NullArray]),
                None => Tree::NullArray,
            };
            self.waiting = None;
            return same_tree("the reply of a wait that ends", &expected, &self.driver.timed_out());
        }
        self.waiting = Some(waiting);
        Ok(())
    }

    /// Offers what is ready to the client that blocks.
    fn offer(&mut self) -> Result<(), Difference> {
        if self.waiting.is_none() || self.world.queue.is_none() {
            return Ok(());
        }
        let before = self.world.queue.clone();
        let expected = self.expected_grant();
        let granted = self.driver.grant();
        self.same_grant(expected, granted)?;
        self.same_effects(before.as_ref())?;
        self.remember();
        self.knows_when_to_try_again()
    }

    /// A client that blocks was just offered what there is, in vain: it need not be asked again
    /// before something changes, but it must be then.
    fn knows_when_to_try_again(&self) -> Result<(), Difference> {
        let (Some(_), Some(reference), Some(queue)) = (&self.waiting, &self.world.queue, &self.driver.queue) else { return Ok(()) };
        let now = self.world.now;
        same("whether it is worth trying again", &false, &queue.may_lease(now))?;
        if reference.held(now) != "groups" {
            return Ok(());
        }
        let opens = reference.doors(now).into_iter().filter(|(_, awaited)| *awaited).map(|(at, _)| at).min();
        let next = queue.next_event(now, 0);
        if opens.is_some_and(|at| next.is_none_or(|next| next > at)) {
            return Err(format!("a group may be served again at {opens:?}, but the next look is at {next:?}"));
        }
        Ok(())
    }

    fn expected_grant(&mut self) -> Option<Tree> {
        let (waiting, queue) = (self.waiting.as_ref()?, self.world.queue.as_mut()?);
        let jobs = queue.lease_many(self.world.now, &waiting.consumer, &waiting.options)?;
        Some(match waiting.code {
            Some(code) => Tree::Array(vec![Tree::Int(code), jobs]),
            None => jobs,
        })
    }

    fn same_grant(&mut self, expected: Option<Tree>, granted: Option<Tree>) -> Result<(), Difference> {
        match (&expected, &granted) {
            (Some(expected), Some(granted)) => same_tree("the reply of a client that blocked", expected, granted)?,
            _ => same("the reply of a client that blocked", &expected, &granted)?,
        }
        if granted.is_some() {
            self.waiting = None;
            self.mark("granted to a client that blocked".to_string());
        }
        Ok(())
    }

    /// The client was gone when its reply was written.
    fn give_back(&mut self) -> Result<(), Difference> {
        let before = self.world.queue.clone();
        if let Some(queue) = &mut self.world.queue {
            for (id, token) in &self.driver.granted {
                if queue.release(self.world.now, (id.ms, id.seq), *token, None) == 1 {
                    *self.marks.entry("given back".to_string()).or_default() += 1;
                }
            }
        }
        self.driver.give_back();
        self.same_effects(before.as_ref())?;
        self.offer()
    }

    fn tick(&mut self, max_steps: u32) -> Result<(), Difference> {
        let before = self.world.queue.clone();
        // A thousand slots, one at a time, would take too long.
        let behind = before.as_ref().is_some_and(|queue| queue.is_far_behind(self.world.now));
        let max_steps = if behind { 128 } else { max_steps };
        if let Some(queue) = &mut self.world.queue {
            queue.make_slots(self.world.now, self.world.bar_slots);
            queue.due(self.world.now, !self.world.hold_expiry);
        }
        let (mut sent, mut ended) = (false, Vec::new());
        for n in 0.. {
            let more = self.driver.tick(max_steps);
            sent |= !self.driver.batch.is_empty();
            ended.extend(ends(&self.driver));
            if !more {
                break;
            }
            if n > 1_000 {
                return Err("the due work never ends".to_string());
            }
        }
        if sent == (before == self.world.queue) {
            return Err(format!("the tick sent something: {sent}; the reference saw it otherwise"));
        }
        self.same_ends(ended)?;
        self.remember();
        self.offer()
    }

    /// Takes over what was drawn at random, and notes ids and tokens for later choices.
    fn remember(&mut self) {
        let Some(queue) = &mut self.world.queue else { return };
        for job in &mut queue.jobs {
            if !self.history.ids.contains(&job.id) {
                self.history.ids.push(job.id);
            }
            if job.token > 0 && !self.history.leases.contains(&(job.id, job.token)) {
                self.history.leases.push((job.id, job.token));
            }
            if let Some((low, high)) = job.drawn.take() {
                let id = id_text(job.id);
                let shown = self.driver.ask("RQ.GET", &[&id]);
                let due = int(&field(&shown, "due-at")) as u64;
                assert!((low..=high).contains(&due), "{due} is not within {low} and {high}");
                *self.marks.entry("drawn at random".to_string()).or_default() += 1;
                (job.place, job.ready_since) = (due, due);
            }
        }
    }

    fn same_reply(&self, expected: &Expect, reply: Result<Reply, rq_core::Error>) -> Result<(), Difference> {
        match (expected, reply) {
            (Expect::Reply(expected), Ok(Reply::Now(reply))) => same_tree("the reply", expected, &reply),
            (Expect::Wait(expected), Ok(Reply::Wait(code))) => same("the code before the wait", expected, &code),
            (Expect::Error(code), Err(error)) if error.to_string().starts_with(code) => Ok(()),
            (Expect::Page(maps, more), Ok(Reply::Now(Tree::Array(reply)))) => {
                let [cursor, page] = reply.as_slice() else { return Err(format!("no page: {reply:?}")) };
                same_tree("the page", &Tree::Array(maps.clone()), page)?;
                if *more && *cursor == Tree::Bulk(b"0".to_vec()) {
                    return Err("the page says that it is the last, and is not".to_string());
                }
                Ok(())
            }
            (Expect::Reply(expected), reply) => Err(format!("expected {}\n     got {reply:?}", show(expected))),
            (expected, reply) => Err(format!("expected {expected:?}\n     got {reply:?}")),
        }
    }

    /// Pages through a state, with jobs removed in between: the others are all seen, once.
    fn peek_loop(&mut self, state: State, count: u64, mut removals: Vec<IdPick>) -> Result<(), Difference> {
        self.tick(128)?;
        let order: Vec<Id> = self.world.queue.iter().flat_map(|queue| queue.listed(state)).map(|job| job.id).collect();
        let mut left = order.as_slice();
        let mut cursor = b"0".to_vec();
        loop {
            let there = |id: &Id| self.world.queue.as_ref().is_some_and(|queue| queue.jobs.iter().any(|job| job.id == *id));
            let expected: Vec<Id> = left.iter().filter(|id| there(id)).take(count as usize).copied().collect();
            let count_text = count.to_string();
            let args: [&[u8]; 6] = [state.name().as_bytes(), b"NOPAYLOAD", b"CURSOR", &cursor, b"COUNT", count_text.as_bytes()];
            let reply = self.driver.run("RQ.PEEK", &args).map_err(|error| error.to_string())?;
            let Tree::Array(reply) = reply else { return Err(format!("no page: {reply:?}")) };
            let [Tree::Bulk(next), Tree::Array(maps)] = reply.as_slice() else { return Err(format!("no page: {reply:?}")) };
            let ids: Vec<Tree> = maps.iter().map(|map| field(map, "id")).collect();
            let expected_ids: Vec<Tree> = expected.iter().map(|id| Tree::Bulk(id_text(*id))).collect();
            same("the ids of a page", &expected_ids, &ids)?;
            if let Some(last) = expected.last() {
                let seen = left.iter().position(|id| id == last).map_or(left.len(), |n| n + 1);
                left = &left[seen..];
            }
            if next == b"0" {
                let missed: Vec<&Id> = left.iter().filter(|id| there(id)).collect();
                return if missed.is_empty() { Ok(()) } else { Err(format!("never shown: {missed:?}")) };
            }
            if ids.is_empty() && !left.is_empty() {
                return Err("an empty page in the middle".to_string());
            }
            cursor.clone_from(next);
            // What a removal lets in may be shown or not: only those that let nothing in. A client
            // that blocks may get the place of a leased one.
            let choice = Choice { world: &self.world, history: &self.history };
            let lets_in = |pick: &IdPick| {
                let id = choice.id(pick.among, pick.pick);
                self.world.queue.as_ref().is_some_and(|queue| queue.keys.iter().any(|key| key.owner == id && key.held.is_some()))
            };
            if let Some(id) = removals.pop().filter(|pick| self.waiting.is_none() && !lets_in(pick)) {
                self.command(&mut Op::Del { ids: vec![id] }, 0)?;
            }
        }
    }

    /// What INFO and the queue's own figures say of the whole, and the law of conservation.
    fn compare_whole(&mut self) -> Result<(), Difference> {
        let Some(reference) = &self.world.queue else {
            return if self.driver.queue.is_none() { Ok(()) } else { Err("there should be no queue".to_string()) };
        };
        let Some(queue) = &self.driver.queue else { return Err("there should be a queue".to_string()) };
        let now = self.world.now;
        let next = queue.next_event(now, 0).map(|at| at.max(now));
        // A group that LEASE has met in vain is looked at again when its rate lets it, needed or
        // not; that is no part of the queue, and not kept over a restart.
        if !reference.doors(now).iter().any(|(at, _)| next == Some(*at) && reference.next_event(now).is_none_or(|other| other > *at)) {
            same("when time alone changes something", &reference.next_event(now), &next)?;
        }
        match reference.held(now) {
            "no" => same("whether it is worth trying", &true, &queue.may_lease(now))?,
            // Nobody may have tried yet.
            "groups" | "empty" if !reference.groups.is_empty() => {}
            _ => same("whether it is worth trying", &false, &queue.may_lease(now))?,
        }
        let info = self.driver.ask("RQ.INFO", &[]);
        same_tree("RQ.INFO", &reference.info(self.world.now), &info)?;
        let total = |name: &str| int(&field(&info, name));
        let there: i64 = ["ready", "scheduled", "retrying", "leased", "dead", "done"].iter().map(|name| total(name)).sum();
        let removed = reference.totals.removed as i64;
        let dropped = total("trimmed-total") + total("dead-dropped-total");
        let finished = total("acked-total") - reference.totals.kept as i64;
        same("jobs: pushed, less those that left", &(total("pushed-total") - finished - removed - dropped), &there)
    }
}

/// How jobs ended in the last step of the real queue.
fn ends(driver: &Driver) -> Vec<(Id, End)> {
    let end = |end: &rq_core::End| match end {
        rq_core::End::Done(result) => End::Done(result.as_deref().map(<[u8]>::to_vec)),
        rq_core::End::Dead => End::Dead,
        rq_core::End::Gone => End::Gone,
    };
    driver.ended.iter().map(|(id, how)| ((id.ms, id.seq), end(how))).collect()
}

/// When a consumer was last seen is known to one process only, so it is not of the reference.
fn without_last_seen(op: &Op, reply: Reply) -> Reply {
    let Reply::Now(Tree::Array(mut rows)) = reply else { return reply };
    if let Op::Consumers { .. } = op {
        for row in &mut rows {
            let Tree::Array(row) = row else { continue };
            row.truncate(4);
        }
    }
    Reply::Now(Tree::Array(rows))
}
