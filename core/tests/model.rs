//! Random commands on the real queue and on a reference, which must agree in every reply.
//!
//! `PROPTEST_CASES` raises the number of runs, `PROPTEST_RNG_SEED` gives others. A failure
//! prints the shortest run found, as lines for redis-cli.

#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "tests may")]

mod support;

mod model {
    pub mod binder;
    pub mod bounds;
    pub mod compare;
    pub mod dedup;
    pub mod groups;
    pub mod job;
    pub mod marks;
    pub mod op;
    pub mod queue;
    pub mod run;
    pub mod schedule;
    pub mod settle;
    pub mod spell;
    pub mod steps;
    pub mod values;
    pub mod verbs;
    pub mod view;
}

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Once;

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngSeed, TestCaseError, TestRunner};

use model::marks::Marks;
use model::run::Run;
use model::steps::{steps, steps_many, Step, ALL, GROUPS, SCHEDULES};

/// Runs so many cases of `steps`; the list of all marks.
fn agree(steps: impl Strategy<Value = Vec<Step>>, many: bool, cases: impl Fn(u32) -> u32) -> Marks {
    let mut config = Config { failure_persistence: None, max_shrink_iters: if many { 500 } else { 5_000 }, ..Config::default() };
    config.cases = cases(config.cases);
    if config.rng_seed == RngSeed::Random {
        config.rng_seed = RngSeed::Fixed(20_240_229);
    }
    let marks = RefCell::new(Marks::new());
    let result = TestRunner::new(config).run(&steps, |steps| {
        let mut run = Run::new(many);
        for step in steps {
            // Panics are differences as well: caught, shrunk, and shown once with what led to them.
            QUIET.set(true);
            let outcome = catch_unwind(AssertUnwindSafe(|| run.step(step)));
            QUIET.set(false);
            if let Err(difference) = outcome.unwrap_or_else(|payload| Err(message(&*payload))) {
                return Err(TestCaseError::fail(format!("{difference}\n\n{}\n", run.transcript())));
            }
        }
        for (what, times) in run.marks {
            *marks.borrow_mut().entry(what).or_default() += times;
        }
        Ok(())
    });
    if let Err(error) = result {
        let text = error.to_string();
        // The list of steps as values is of no use beside the list of commands.
        panic!("{}", text.split("\nminimal failing input").next().unwrap_or(&text));
    }
    marks.into_inner()
}

thread_local! {
    /// Whether a panic of this thread is caught, and shown later.
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

fn quiet_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let loud = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                loud(info);
            }
        }));
    });
}

#[test]
fn b70_the_queue_and_the_reference_agree() {
    quiet_panics();
    let marks = agree(steps(ALL), false, |cases| cases);
    saw_all(&marks, OTHERS);
    saw_what_tokens_are_good_for(&marks);
}

#[test]
fn they_agree_on_groups() {
    quiet_panics();
    saw_all(&agree(steps(GROUPS), false, |cases| cases * 2), OF_GROUPS);
}

#[test]
fn they_agree_on_schedules() {
    quiet_panics();
    saw_all(&agree(steps(SCHEDULES), false, |cases| cases * 2), OF_SCHEDULES);
}

#[test]
fn they_agree_on_thousands_of_jobs() {
    quiet_panics();
    let marks = agree(steps_many(), true, |cases| cases.div_ceil(16));
    for state in ["ready", "delayed", "leased", "dead"] {
        assert!(marks.contains_key(&format!("over 600 jobs {state}")), "never many jobs {state}");
    }
}

/// What a token is good for, by verb: exactly these codes must have been seen.
const TOKENS: &[(&str, &[(&str, &str)])] = &[
    ("live", &[("ACK", "1"), ("NACK", "1"), ("NACK", "2"), ("RELEASE", "1"), ("EXTEND", "1"), ("EXTEND", "0")]),
    // Only expiry leaves it good; 2 is NACK DEAD.
    ("late", &[("ACK", "1"), ("NACK", "1"), ("NACK", "2"), ("RELEASE", "1"), ("EXTEND", "1"), ("EXTEND", "0")]),
    ("late and dead", &[("ACK", "1"), ("NACK", "2"), ("RELEASE", "0"), ("EXTEND", "0")]),
    // The same verb again: the same code. Another verb: 0.
    ("spent by nack 1", &[("ACK", "0"), ("NACK", "1"), ("RELEASE", "0"), ("EXTEND", "0")]),
    ("spent by nack 2", &[("ACK", "0"), ("NACK", "2"), ("RELEASE", "0"), ("EXTEND", "0")]),
    ("spent by ack 1", &[("ACK", "1"), ("NACK", "0"), ("RELEASE", "0"), ("EXTEND", "0")]),
    ("spent by release 1", &[("ACK", "0"), ("NACK", "0"), ("RELEASE", "1"), ("EXTEND", "0")]),
    ("stale", &[("ACK", "0"), ("NACK", "0"), ("RELEASE", "0"), ("EXTEND", "0")]),
    ("gone", &[("ACK", "-1"), ("NACK", "-1"), ("RELEASE", "-1"), ("EXTEND", "-1")]),
];

/// What else must have been seen.
const OTHERS: &[&str] = &[
    "RQ.LEASE: waits", "RQ.ACKLEASE: waits", "granted to a client that blocked", "given back", "drawn at random", "refused",
    "RQ.ALTER: NOQUEUE", "RQ.CREATE: 0", "RQ.CREATE: 1", "RQ.PEEK: more true", "RQ.PEEK: more false",
    "RQ.REAP: \"ready\"", "RQ.REAP: \"delayed\"", "RQ.REAP: \"dead\"", "RQ.REDRIVE: 1", "RQ.REDRIVE: 0", "RQ.REDRIVE: -1",
    "RQ.REDRIVE: more 0", "RQ.REDRIVE: more 1", "RQ.SET: 1", "RQ.SET: 0", "RQ.SET: -1",
    "RQ.PUSH: FULL", "RQ.MPUSH: FULL", "RQ.PUSH: PAUSED", "RQ.MPUSH: PAUSED", "RQ.PAUSE", "RQ.RESUME: 1", "RQ.RESUME: 0",
    "RQ.TRIM: 0", "RQ.TRIM: 1", "RQ.WAIT: null array", "RQ.WAIT: done", "RQ.WAIT: dead",
    "PUSH: stored", "PUSH: dropped", "PUSH: replaced", "PUSH: held", "RQ.REDRIVE: -2", "skipped by a redrive",
    "rq.duplicate", "held: no", "held: empty", "held: paused", "held: concurrency", "held: rate",
    "dead: failed", "dead: expired-lease", "dead: rejected", "dead: ttl",
    "rq.push", "rq.lease", "rq.ack", "rq.nack", "rq.release", "rq.expire", "rq.dead", "rq.redrive", "rq.del", "rq.drop",
];

/// What must have been seen of groups.
const OF_GROUPS: &[&str] = &[
    "a turn among groups and none", "a turn before an older job",
    "passed over: a paused group", "passed over: GROUPLIMIT", "passed over: GROUPRATE",
    "passed over: GROUPORDER, one is out", "passed over: GROUPORDER, one waits for its retry",
    "GROUPORDER: again at its old place", "late EXTEND: no place in the group",
    "AGING: before a higher priority", "AGING: the highest priority",
    "a group was forgotten when its rate let it go", "a held duplicate came with its group",
    "held: groups", "RQ.PAUSE GROUP", "RQ.RESUME GROUP: 1", "RQ.RESUME GROUP: 0", "granted to a client that blocked",
    "RQ.GROUPS: some", "RQ.GROUPS: none", "RQ.GROUPS AFTER: some", "RQ.CONSUMERS: some", "RQ.CONSUMERS AFTER: some",
];

/// What must have been seen of schedules.
const OF_SCHEDULES: &[&str] = &[
    "RQ.SCHEDULE: 1", "RQ.SCHEDULE: 2", "RQ.SCHEDULE: 0", "RQ.SCHEDULE: ERR", "RQ.UNSCHEDULE: 1", "RQ.UNSCHEDULE: 0", "RQ.SCHEDULES",
    "a schedule is exhausted", "slot: made", "slot: would overlap",
    "slot: refused, paused", "slot: refused, full", "slot: refused, barred",
    "slots: one of the missed", "slots: all of the missed", "slots: skipped", "slots: just not skipped", "slots: a thousand in a row", "RQ.WAIT: waits",
];

/// A run in which nothing happened would pass as well: so what happened is counted.
fn saw_all(marks: &Marks, expected: &[&str]) {
    let missed: Vec<&&str> = expected.iter().filter(|what| !marks.contains_key(**what)).collect();
    assert!(missed.is_empty(), "never seen, the run was too short or the steps are badly weighed: {missed:?}");
}

fn saw_what_tokens_are_good_for(marks: &Marks) {
    let codes = |(standing, codes): &(&'static str, &'static [(&'static str, &'static str)])| {
        codes.iter().map(|(verb, code)| format!("RQ.{verb} {standing}: {code}")).collect::<Vec<String>>()
    };
    let expected: Vec<String> = TOKENS.iter().flat_map(codes).collect();
    saw_all(marks, &expected.iter().map(String::as_str).collect::<Vec<&str>>());
    let by_token = |what: &&String| TOKENS.iter().any(|(standing, _)| what.contains(&format!(" {standing}: ")));
    let surplus: Vec<&String> = marks.keys().filter(by_token).filter(|what| !expected.contains(what)).collect();
    assert!(surplus.is_empty(), "not what the contract says of a token: {surplus:?}");
}

/// What a panic said.
fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    format!("a panic: {}", text.or(payload.downcast_ref::<&str>().copied()).unwrap_or("?"))
}
