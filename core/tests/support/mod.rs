//! A queue as the shell drives it, without a server: commands by name, a clock that is set by
//! hand, and a follower that is fed nothing but the batches, as a replica is.
//!
//! Every step checks what must hold after any step: the queue is valid, the follower is equal
//! byte for byte, and what changed nothing sent nothing.

#![allow(dead_code, reason = "each test binary uses its part")]
#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "tests may")]

pub mod forge;
pub mod lively;
pub mod outside;

use rq_core::table::{Verb, COMMANDS};
use rq_core::{Effects, End, Error, JobId, Loader, Outcome, Policy, Queue, Slots, Tree, TreeSink, Turn, Waiter};

/// A point in time like today's, in Unix ms.
pub const START: u64 = 1_700_000_000_000;

/// What came of a command.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    Now(Tree),
    /// It blocks; for ACKLEASE the code of the acknowledgement.
    Wait(Option<i64>),
}

pub struct Driver {
    pub queue: Option<Queue>,
    pub follower: Option<Queue>,
    pub now: u64,
    pub seed: u64,
    pub hold_expiry: bool,
    pub may_block: bool,
    pub defaults: Policy,
    /// As when the server is out of memory: slots make no jobs.
    pub bar_slots: bool,
    /// How jobs ended in the last step.
    pub ended: Vec<(JobId, End)>,
    /// Every batch so far.
    pub batches: Vec<Vec<u8>>,
    /// The last step's batch; empty if it changed nothing.
    pub batch: Vec<u8>,
    /// The events of the last step, by name.
    pub events: Vec<String>,
    /// What was typed, for a person to repeat it.
    pub typed: Vec<String>,
    pub waiter: Option<Waiter>,
    /// What the last grant was about.
    pub granted: Vec<(JobId, u64)>,
    effects: Effects,
    incarnation: u64,
}

impl Driver {
    pub fn new() -> Driver {
        Driver {
            queue: None,
            follower: None,
            now: START,
            seed: 1,
            hold_expiry: false,
            may_block: false,
            defaults: Policy::default(),
            bar_slots: false,
            ended: Vec::new(),
            batches: Vec::new(),
            batch: Vec::new(),
            events: Vec::new(),
            typed: Vec::new(),
            waiter: None,
            granted: Vec::new(),
            effects: Effects::new(),
            incarnation: 0,
        }
    }

    fn turn(&mut self) -> Turn<'static> {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.incarnation += 1;
        Turn {
            seed: self.seed,
            hold_expiry: self.hold_expiry,
            may_block: self.may_block,
            incarnation: self.incarnation,
            defaults: Some(Box::new(self.defaults.clone())),
            bar_slots: self.bar_slots,
            slots: &Calendar,
            ..Turn::at(self.now)
        }
    }

    /// Runs one command; `args` follow the key.
    pub fn execute(&mut self, name: &str, args: &[&[u8]]) -> Result<Reply, Error> {
        self.execute_and_grant(name, args, false).0
    }

    /// Runs one command, and offers what is ready then to the client that blocks: in one batch, as
    /// the shell does. Also what that client got.
    pub fn execute_and_grant(&mut self, name: &str, args: &[&[u8]], grant: bool) -> (Result<Reply, Error>, Option<Tree>) {
        self.typed.push(format!("{name} q{}", args.iter().map(|arg| quoted(arg)).collect::<String>()));
        let before = snapshot(self.queue.as_ref());
        self.effects.clear();
        self.effects.watch_ends(true);
        let mut sink = TreeSink::new();
        let outcome = self.dispatch(name, args, &mut sink);
        let granted = if grant && outcome.is_ok() { self.offer() } else { None };
        self.after(&before);
        let reply = match outcome {
            Ok(Outcome::Replied) => Ok(Reply::Now(sink.finish().expect("a whole reply"))),
            Ok(Outcome::Wait(code)) => {
                assert_eq!(sink.finish(), None, "a command that blocks has replied");
                Ok(Reply::Wait(code))
            }
            Err(error) => {
                assert!(self.batch.is_empty(), "refused, but sent something: {error}");
                assert_eq!(before, snapshot(self.queue.as_ref()), "refused, but changed something: {error}");
                Err(error)
            }
        };
        (reply, granted)
    }

    fn dispatch(&mut self, name: &str, args: &[&[u8]], sink: &mut TreeSink) -> Result<Outcome, Error> {
        let request = rq_core::parse(verb(name), args)?;
        let turn = self.turn();
        let outcome = match &mut self.queue {
            Some(queue) => rq_core::execute(queue, &request, &turn, &mut self.effects, sink)?,
            None => {
                let (outcome, made) = rq_core::execute_absent(&request, &turn, &mut self.effects, sink)?;
                self.queue = made;
                outcome
            }
        };
        if let Outcome::Wait(code) = outcome {
            // WAIT blocks as well, but takes nothing.
            self.waiter = Waiter::new(&request, code).or_else(|| self.waiter.take());
        }
        Ok(outcome)
    }

    /// Feeds the follower, and checks what must hold after any step.
    fn after(&mut self, before: &[u8]) {
        self.batch = self.effects.batch().to_vec();
        self.ended = self.effects.ended().to_vec();
        self.events = self.effects.events().iter().map(|event| event.name().to_str().unwrap().to_string()).collect();
        let now = snapshot(self.queue.as_ref());
        assert_eq!(self.batch.is_empty(), before == now.as_slice(), "a batch if and only if something changed");
        if !self.batch.is_empty() {
            self.batches.push(self.batch.clone());
            let mut effects = Effects::new();
            match &mut self.follower {
                Some(follower) => {
                    rq_core::apply(follower, &self.batch, &mut effects).expect("own batch decodes");
                }
                None => {
                    let (_, made) = rq_core::apply_absent(&self.batch, &mut effects).expect("own batch decodes");
                    self.follower = made;
                }
            }
            assert_eq!(effects.misfits(), 0, "an op does not fit the follower");
        }
        if let Some(queue) = &self.queue {
            rq_core::check(queue).unwrap_or_else(|error| panic!("the queue is not valid: {error}"));
        }
        assert!(now == snapshot(self.follower.as_ref()), "the follower differs");
    }

    /// The same, and it is not noted as typed.
    pub fn ask(&mut self, name: &str, args: &[&[u8]]) -> Tree {
        let reply = self.run(name, args).unwrap_or_else(|error| panic!("{name}: {error}"));
        self.typed.pop();
        reply
    }

    /// As [`Driver::execute`], for commands that do not block.
    pub fn run(&mut self, name: &str, args: &[&[u8]]) -> Result<Tree, Error> {
        match self.execute(name, args)? {
            Reply::Now(tree) => Ok(tree),
            Reply::Wait(_) => panic!("{name} blocks"),
        }
    }

    /// A command as one types it, without the key; it must be accepted.
    pub fn cmd(&mut self, line: &str) -> Tree {
        self.try_cmd(line).unwrap_or_else(|error| panic!("{line}: {error}"))
    }

    /// A command as one types it, without the key.
    pub fn try_cmd(&mut self, line: &str) -> Result<Tree, Error> {
        let words: Vec<&[u8]> = line.split_whitespace().map(str::as_bytes).collect();
        self.run(std::str::from_utf8(words[0]).unwrap(), &words[1..])
    }

    /// What the timer does. Returns whether there is more to do now.
    pub fn tick(&mut self, max_steps: u32) -> bool {
        self.typed.push(format!("# tick, at most {max_steps} steps"));
        let turn = self.turn();
        let before = snapshot(self.queue.as_ref());
        self.effects.clear();
        self.effects.watch_ends(true);
        let more = match &mut self.queue {
            Some(queue) => rq_core::due(queue, &turn, max_steps, &mut self.effects),
            None => false,
        };
        self.after(&before);
        more
    }

    /// Lets time pass, then ticks until nothing is left to do.
    pub fn pass(&mut self, ms: u64) {
        self.now += ms;
        while self.tick(64) {}
    }

    /// Offers what is ready to the client that blocks. Returns its reply if it got something.
    pub fn grant(&mut self) -> Option<Tree> {
        let before = snapshot(self.queue.as_ref());
        self.effects.clear();
        self.effects.watch_ends(true);
        let reply = self.offer();
        self.after(&before);
        reply
    }

    fn offer(&mut self) -> Option<Tree> {
        let turn = self.turn();
        let waiter = self.waiter.as_ref().expect("a client that blocks");
        let mut sink = TreeSink::new();
        let granted = match &mut self.queue {
            Some(queue) => waiter.grant(b"q", queue, &turn, &mut self.effects, &mut sink),
            None => false,
        };
        self.typed.push(format!("# the blocked client was offered what is there: {granted}"));
        let reply = sink.finish();
        assert_eq!(granted, reply.is_some(), "a reply if and only if something was granted");
        if granted {
            self.waiter = None;
            self.granted = self.effects.granted().to_vec();
        }
        reply
    }

    /// The client that got the last grant was gone before it could read it.
    pub fn give_back(&mut self) {
        self.typed.push("# what was granted last is given back".to_string());
        let turn = self.turn();
        let before = snapshot(self.queue.as_ref());
        self.effects.clear();
        if let Some(queue) = &mut self.queue {
            rq_core::give_back(queue, &self.granted, &turn, &mut self.effects);
        }
        self.after(&before);
    }

    /// The reply of the client that blocks when its time is over.
    pub fn timed_out(&mut self) -> Tree {
        let mut sink = TreeSink::new();
        self.waiter.take().expect("a client that blocks").timed_out(&mut sink);
        sink.finish().expect("a whole reply")
    }

    /// As after a restart: the queue out of its own snapshot.
    pub fn reload(&mut self) {
        self.typed.push("# reload".to_string());
        if let Some(queue) = &self.queue {
            let loaded = load(&chunks(queue)).expect("own snapshot loads");
            rq_core::check(&loaded).unwrap_or_else(|error| panic!("loaded, but not valid: {error}"));
            assert!(snapshot(self.queue.as_ref()) == snapshot(Some(&loaded)), "loaded, but not the same");
            self.queue = Some(loaded);
        }
    }

    /// The key is deleted.
    pub fn delete_key(&mut self) {
        self.typed.push("DEL q".to_string());
        self.queue = None;
        self.follower = None;
    }

    pub fn at(&mut self, now: u64) {
        self.now = now;
        self.typed.push(format!("# now {now}"));
    }

    /// One value of RQ.INFO.
    pub fn info(&mut self, name: &str) -> Tree {
        field(&self.cmd("RQ.INFO"), name)
    }

    /// One value of RQ.GET.
    pub fn get(&mut self, id: &str, name: &str) -> Tree {
        field(&self.cmd(&format!("RQ.GET {id}")), name)
    }

    /// Leases one job; its id and token.
    pub fn lease(&mut self, consumer: &str) -> (String, u64) {
        let reply = self.cmd(&format!("RQ.LEASE {consumer}"));
        let job = at(&reply, 0);
        (string(at(job, 0)), int(at(job, 1)) as u64)
    }
}

/// A calendar whose cron lines are numbers: so many ms between its slots, which are at multiples
/// of that.
struct Calendar;

impl Calendar {
    fn ms(cron: &[u8]) -> Option<u64> {
        std::str::from_utf8(cron).ok()?.parse().ok().filter(|ms| *ms > 0)
    }
}

impl Slots for Calendar {
    fn check(&self, cron: &[u8], zone: &[u8]) -> Result<(), String> {
        match Calendar::ms(cron) {
            Some(_) if zone.is_empty() || zone == b"UTC" => Ok(()),
            Some(_) => Err("there is no such zone".to_string()),
            None => Err("a number is needed".to_string()),
        }
    }

    fn next(&self, cron: &[u8], _: &[u8], after: u64) -> Option<u64> {
        let ms = Calendar::ms(cron)?;
        (after / ms + 1).checked_mul(ms)
    }

    fn last(&self, cron: &[u8], _: &[u8], at: u64) -> Option<u64> {
        let ms = Calendar::ms(cron)?;
        Some(at / ms * ms)
    }
}

/// The verb of a command's name in any case.
pub fn verb(name: &str) -> Verb {
    let command = COMMANDS.iter().find(|command| command.name.eq_ignore_ascii_case(name));
    command.unwrap_or_else(|| panic!("no command {name}")).verb
}

/// The batches of a snapshot.
pub fn chunks(queue: &Queue) -> Vec<Vec<u8>> {
    let mut chunks = Vec::new();
    queue.snapshot(&mut |chunk: &[u8]| chunks.push(chunk.to_vec()));
    chunks
}

/// All bytes of a snapshot; none for no queue.
pub fn snapshot(queue: Option<&Queue>) -> Vec<u8> {
    queue.map_or_else(Vec::new, |queue| chunks(queue).concat())
}

/// A queue out of the batches of a snapshot.
pub fn load(chunks: &[Vec<u8>]) -> Result<Queue, String> {
    let mut loader = Loader::new();
    for chunk in chunks {
        loader.feed(chunk).map_err(|error| format!("{error:?}"))?;
    }
    loader.finish().map_err(|error| format!("{error:?}"))
}

/// An argument as redis-cli takes it, with a space before it.
fn quoted(arg: &[u8]) -> String {
    if arg.len() > 8_192 {
        return format!(" <{} bytes>", arg.len());
    }
    if arg.len() > 48 && arg.iter().all(|b| *b == arg[0]) {
        return format!(" \"$(printf '{}%.0s' $(seq {}))\"", arg[0] as char, arg.len());
    }
    let plain = |b: &u8| b.is_ascii_alphanumeric() || b"-_.:".contains(b);
    if !arg.is_empty() && arg.iter().all(plain) {
        return format!(" {}", String::from_utf8_lossy(arg));
    }
    let escaped: String = arg.iter().map(|&b| match b {
        b'"' | b'\\' => format!("\\{}", b as char),
        b' '..=b'~' => (b as char).to_string(),
        _ => format!("\\x{b:02x}"),
    }).collect();
    format!(" \"{escaped}\"")
}

pub fn int(tree: &Tree) -> i64 {
    match tree {
        Tree::Int(n) => *n,
        other => panic!("no integer: {other:?}"),
    }
}

pub fn string(tree: &Tree) -> String {
    match tree {
        Tree::Bulk(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        other => panic!("no string: {other:?}"),
    }
}

pub fn items(tree: &Tree) -> &[Tree] {
    match tree {
        Tree::Array(items) => items,
        other => panic!("no array: {other:?}"),
    }
}

pub fn at(tree: &Tree, n: usize) -> &Tree {
    items(tree).get(n).unwrap_or_else(|| panic!("no element {n}: {tree:?}"))
}

/// The value of a name in a map.
pub fn field(tree: &Tree, name: &str) -> Tree {
    let Tree::Map(pairs) = tree else { panic!("no map: {tree:?}") };
    let found = pairs.iter().find(|(key, _)| *key == Tree::Bulk(name.into()));
    found.unwrap_or_else(|| panic!("no {name}: {tree:?}")).1.clone()
}

/// An array of integers.
pub fn ints(codes: &[i64]) -> Tree {
    Tree::Array(codes.iter().map(|&code| Tree::Int(code)).collect())
}

pub fn bulk(text: &str) -> Tree {
    Tree::Bulk(text.into())
}

/// A reply on one line, for a person.
pub fn show(tree: &Tree) -> String {
    let all = |items: &[Tree]| items.iter().map(show).collect::<Vec<_>>().join(", ");
    match tree {
        Tree::Int(n) => n.to_string(),
        Tree::Bulk(bytes) => format!("\"{}\"", bytes.escape_ascii()),
        Tree::Array(items) => format!("[{}]", all(items)),
        Tree::Map(pairs) => {
            let pairs: Vec<String> = pairs.iter().map(|(key, value)| format!("{} {}", string(key), show(value))).collect();
            format!("{{{}}}", pairs.join(", "))
        }
        Tree::Ok => "OK".to_string(),
        Tree::Null => "null".to_string(),
        Tree::NullArray => "null array".to_string(),
    }
}
