//! One random run: every step on the real queue and on the reference.

use std::collections::BTreeMap;

use rq_core::{Opt, Policy as CorePolicy, Setting, Tree, Value};

use super::job::{Policy, Token};
use super::op::{id_text, Among, Binder, Id, IdPick, Jitter, LeaseOptions, Op, State, Twist};
use super::queue::Reference;
use super::steps::{Jump, Step};
use super::verbs::{Expect, World};
use crate::support::{field, int, show, Driver, Reply, START};

/// More jobs than this are not pushed: a command does at most 128 due steps, up to three for a
/// job, and the reference does them all.
const LIVE_MAX: usize = 30;
const JOBS_MAX: usize = 60;

pub struct Run {
    /// Thousands of jobs: then the timer does all due work before any command.
    many: bool,
    driver: Driver,
    world: World,
    history: History,
    /// The client that blocks, if one does.
    waiting: Option<Waiting>,
    pub marks: Marks,
}

/// How often what was seen, so that a run that saw too little can be told from one that passed.
pub type Marks = BTreeMap<String, u64>;

struct Waiting {
    consumer: Vec<u8>,
    options: LeaseOptions,
    code: Option<i64>,
}

/// What there was so far, to choose from.
#[derive(Default)]
struct History {
    ids: Vec<Id>,
    leases: Vec<(Id, u64)>,
}

struct Choice<'a> {
    world: &'a World,
    history: &'a History,
}

fn pick<T: Copy>(from: &[T], pick: u16) -> Option<T> {
    from.get(usize::from(pick) % from.len().max(1)).copied()
}

impl Choice<'_> {
    fn among(&self, among: Among) -> Vec<Id> {
        let jobs = self.world.queue.as_ref().map_or(&[][..], |queue| &queue.jobs);
        let fits = |state: State| jobs.iter().filter(move |job| job.state == state).map(|job| job.id).collect();
        match among {
            Among::Ready => fits(State::Ready),
            Among::Delayed => fits(State::Delayed),
            Among::Leased => fits(State::Leased),
            Among::Dead => fits(State::Dead),
            Among::Done => fits(State::Done),
            Among::Late => jobs.iter().filter(|job| job.token_is == Token::Late).map(|job| job.id).collect(),
            Among::Spent => {
                jobs.iter().filter(|job| matches!(job.token_is, Token::Spent(..))).map(|job| job.id).collect()
            }
            Among::Ever => self.history.ids.clone(),
            Among::Unknown => Vec::new(),
        }
    }
}

impl Binder for Choice<'_> {
    fn id(&self, among: Among, which: u16) -> Id {
        let unknown = (START + u64::from(which), u32::from(which) + 1_000);
        if among == Among::Unknown {
            return unknown;
        }
        pick(&self.among(among), which).or_else(|| pick(&self.history.ids, which)).unwrap_or(unknown)
    }

    fn pair(&self, among: Among, which: u16, twist: Twist) -> (Id, u64) {
        let id = self.id(among, which);
        let tokens: Vec<u64> = self.history.leases.iter().filter(|lease| lease.0 == id).map(|lease| lease.1).collect();
        let last = tokens.last().copied().unwrap_or(START * 1_000);
        let token = match twist {
            Twist::Exact => last,
            Twist::OneMore => last + 1,
            Twist::OneLess => last - 1,
            Twist::Zero => 0,
            Twist::Older => pick(&tokens, which).unwrap_or(1),
        };
        (id, token)
    }

    fn time(&self, of_job: Option<u16>) -> u64 {
        let jobs = self.world.queue.as_ref().map_or(&[][..], |queue| &queue.jobs);
        let job = of_job.and_then(|which| jobs.get(usize::from(which) % jobs.len().max(1)));
        match job.map(|job| (job.state, job)) {
            None => self.world.now,
            Some((State::Dead, job)) => job.dead_at,
            Some((State::Leased, job)) => job.deadline,
            Some((_, job)) => job.place,
        }
    }
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
    };
    (own, core)
}

type Difference = String;

impl Run {
    pub fn new(many: bool) -> Run {
        let (own, core) = defaults();
        let world = World { now: START, hold_expiry: false, may_block: false, defaults: own, queue: None };
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
            Step::Reload => self.driver.reload(),
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
        let full = queue.is_some_and(|queue| queue.live() > LIVE_MAX || queue.jobs.len() > JOBS_MAX);
        if full && !self.many && matches!(op, Op::Push { .. } | Op::MPush { .. }) {
            return Ok(());
        }
        if self.many || queue.is_some_and(|queue| queue.policy.jitter != Jitter::None) {
            // What is drawn at random is asked for before anything depends on it.
            self.tick(128)?;
        }
        op.bind(&Choice { world: &self.world, history: &self.history });
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
        self.same_reply(&expected, reply)?;
        self.same_grant(expected_grant, granted)?;
        self.unchanged_is_silent(before.as_ref())?;
        self.mark_reply(op, standing, &expected);
        if let Expect::Wait(code) = expected {
            self.waits(op, code)?;
        }
        self.remember();
        self.offer()
    }

    fn mark(&mut self, what: String) {
        *self.marks.entry(what).or_default() += 1;
    }

    /// What the first token of a command is good for at that moment, after the due work.
    fn standing(&self, op: &Op) -> Option<String> {
        let (Op::Ack { pairs, .. } | Op::Nack { pairs, .. } | Op::Release { pairs, .. } | Op::Extend { pairs, .. }) = op else {
            return None;
        };
        let mut queue = self.world.queue.clone()?;
        queue.due(self.world.now, !self.world.hold_expiry);
        let pair = pairs.first()?;
        let Some(job) = queue.job(pair.id) else { return Some("gone".to_string()) };
        Some(match (job.standing(pair.token), job.state) {
            (Token::Void, _) => "stale".to_string(),
            (Token::Live, _) => "live".to_string(),
            (Token::Late, State::Dead) => "late and dead".to_string(),
            (Token::Late, _) => "late".to_string(),
            (Token::Spent(verb, code), _) => format!("spent by {verb} {code}"),
        })
    }

    fn mark_reply(&mut self, op: &Op, standing: Option<String>, expected: &Expect) {
        let name = op.name();
        match (op, expected, standing) {
            (_, Expect::Reply(Tree::Array(codes)), Some(standing)) => {
                self.mark(format!("{name} {standing}: {}", show(&codes[0])));
            }
            (Op::ReapIds { .. } | Op::Reap { .. } | Op::ReapConsumer { .. }, Expect::Reply(Tree::Array(all)), _) => {
                for one in all {
                    let Tree::Array(one) = one else { continue };
                    self.mark(format!("{name}: {}", show(&one[1])));
                }
            }
            (Op::Redrive { .. }, Expect::Reply(Tree::Array(codes)), _) => self.mark(format!("{name}: {}", show(&codes[0]))),
            (Op::Push { dedup: Some(_), .. }, Expect::Reply(Tree::Array(reply)), _) => {
                self.mark(format!("PUSH: {}", ["dropped", "stored", "replaced", "held"][int(&reply[1]) as usize]));
            }
            (Op::RedriveMany(_), Expect::Reply(Tree::Array(all)), _) if int(&all[1]) > 0 => self.mark("skipped by a redrive".to_string()),
            (Op::RedriveMany(_), Expect::Reply(Tree::Array(all)), _) => self.mark(format!("{name}: more {}", show(&all[2]))),
            (Op::Wait { .. }, Expect::Reply(Tree::Array(end)), _) => self.mark(format!("{name}: {}", show(&end[0]).replace('"', ""))),
            (Op::Set { .. } | Op::Create { .. } | Op::Resume { .. } | Op::Trim { .. } | Op::Wait { .. }, Expect::Reply(code), _) => self.mark(format!("{name}: {}", show(code))),
            (_, Expect::Page(_, more), _) => self.mark(format!("{name}: more {more}")),
            (_, Expect::Wait(_), _) => self.mark(format!("{name}: waits")),
            (_, Expect::Error(code), _) => self.mark(format!("{name}: {code}")),
            _ => self.mark(name.to_string()),
        }
        for event in &self.driver.events {
            *self.marks.entry(event.clone()).or_default() += 1;
        }
        if let Some(queue) = &self.world.queue {
            *self.marks.entry(format!("held: {}", queue.held(self.world.now))).or_default() += 1;
            for state in State::ALL {
                if queue.count(state) > 600 {
                    *self.marks.entry(format!("over 600 jobs {}", state.name())).or_default() += 1;
                }
            }
            for reason in ["failed", "expired-lease", "rejected", "ttl"] {
                if queue.jobs.iter().any(|job| job.reason == Some(reason) && job.state == State::Dead) {
                    *self.marks.entry(format!("dead: {reason}")).or_default() += 1;
                }
            }
        }
    }

    /// If the reference did not change, nothing may have been sent, and the other way round.
    fn unchanged_is_silent(&self, before: Option<&Reference>) -> Result<(), Difference> {
        let same = before == self.world.queue.as_ref();
        if same == self.driver.batch.is_empty() {
            return Ok(());
        }
        Err(format!("the reference {} but the batch has {} bytes",
            if same { "did not change," } else { "changed," }, self.driver.batch.len()))
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
        self.unchanged_is_silent(before.as_ref())?;
        self.remember();
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
        self.unchanged_is_silent(before.as_ref())?;
        self.offer()
    }

    fn tick(&mut self, max_steps: u32) -> Result<(), Difference> {
        let before = self.world.queue.clone();
        if let Some(queue) = &mut self.world.queue {
            queue.due(self.world.now, !self.world.hold_expiry);
        }
        let mut sent = false;
        for n in 0.. {
            let more = self.driver.tick(max_steps);
            sent |= !self.driver.batch.is_empty();
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
            // What a removal lets in may be shown or not: only those that let nothing in.
            let choice = Choice { world: &self.world, history: &self.history };
            let lets_in = |pick: &IdPick| {
                let id = choice.id(pick.among, pick.pick);
                self.world.queue.as_ref().is_some_and(|queue| queue.keys.iter().any(|key| key.owner == id && key.held.is_some()))
            };
            if let Some(id) = removals.pop().filter(|pick| !lets_in(pick)) {
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
        let next = queue.next_event(self.world.now, 0).map(|at| at.max(self.world.now));
        same("when time alone changes something", &reference.next_event(self.world.now), &next)?;
        same("whether a job is ready", &(reference.held(self.world.now) == "no"), &queue.may_lease(self.driver.now))?;
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

/// The difference, if there is one.
fn same<T: PartialEq + std::fmt::Debug>(what: &str, expected: &T, got: &T) -> Result<(), Difference> {
    if expected == got { Ok(()) } else { Err(format!("{what}:\nexpected {expected:?}\n     got {got:?}")) }
}

/// The difference of two replies. What is null in a map may be left out.
fn same_tree(what: &str, expected: &Tree, got: &Tree) -> Result<(), Difference> {
    let (expected, got) = (plain(expected), plain(got));
    if expected == got {
        return Ok(());
    }
    if let (Tree::Map(expected), Tree::Map(got)) = (&expected, &got) {
        let lacks = |pairs: &[(Tree, Tree)], others: &[(Tree, Tree)]| -> Vec<String> {
            let lacking = pairs.iter().filter(|pair| !others.contains(pair));
            lacking.map(|(key, value)| format!("{} {}", show(key), show(value))).collect()
        };
        return Err(format!("{what}, in another order, or:\nexpected {:?}\n     got {:?}", lacks(expected, got), lacks(got, expected)));
    }
    Err(format!("{what}:\nexpected {}\n     got {}", show(&expected), show(&got)))
}

fn plain(tree: &Tree) -> Tree {
    match tree {
        Tree::Array(items) => Tree::Array(items.iter().map(plain).collect()),
        Tree::Map(pairs) => {
            let pairs = pairs.iter().filter(|(_, value)| *value != Tree::Null);
            Tree::Map(pairs.map(|(key, value)| (key.clone(), plain(value))).collect())
        }
        other => other.clone(),
    }
}
