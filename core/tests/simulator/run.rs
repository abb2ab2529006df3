//! One run of one seed, and the shortest one that still fails.

use std::any::Any;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Once;

use super::rules::MOST_STEPS;
use super::world::World;

/// How often what has happened.
pub type Marks = BTreeMap<&'static str, u64>;

pub struct Ran {
    pub outcome: Result<(), String>,
    pub digest: u64,
    pub marks: Marks,
    pub lines: Vec<String>,
    /// How many steps there were, up to the one that failed.
    steps: usize,
}

/// Runs a seed, without some of its steps.
pub fn run(seed: u64, without: &[usize], keep_trace: bool) -> Ran {
    let mut world = match World::new(seed, keep_trace) {
        Ok(world) => world,
        Err(what) => return Ran { outcome: Err(what), digest: 0, marks: Marks::new(), lines: Vec::new(), steps: 0 },
    };
    let all = world.setup.steps;
    let mut steps = 0;
    let outcome = (0..all).filter(|n| without.binary_search(n).is_err()).try_for_each(|n| {
        steps = n + 1;
        quietly(|| world.step(seed, n))
    });
    let outcome = outcome.and_then(|()| quietly(|| world.drain(seed)));
    Ran { outcome, digest: world.trace.digest(), marks: world.marks, lines: world.trace.lines, steps }
}

/// Leaves out steps, many at a time and then few, as long as it still fails: the trace of that.
pub fn shortest(seed: u64) -> String {
    let whole = run(seed, &[], false);
    let mut without: Vec<usize> = (whole.steps..MOST_STEPS).collect();
    let mut size = whole.steps.div_ceil(2).max(1);
    loop {
        let before = without.len();
        for from in (0..whole.steps).step_by(size) {
            let mut fewer = without.clone();
            fewer.extend(from..(from + size).min(whole.steps));
            fewer.sort_unstable();
            fewer.dedup();
            if fewer.len() > without.len() && run(seed, &fewer, false).outcome.is_err() {
                without = fewer;
            }
        }
        match size {
            1 if without.len() == before => break,
            size_now => size = size_now.div_ceil(2),
        }
    }
    let last = run(seed, &without, true);
    format!("{}\nand then: {}", last.lines.join("\n"), last.outcome.err().unwrap_or_default())
}

thread_local! {
    /// Whether a panic of this thread is caught, and shown later.
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// A panic is a failure like any other: of that seed, at that step.
fn quietly(step: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let loud = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                loud(info);
            }
        }));
    });
    QUIET.set(true);
    let outcome = catch_unwind(AssertUnwindSafe(step));
    QUIET.set(false);
    outcome.unwrap_or_else(|payload| Err(format!("a panic: {}", message(&*payload))))
}

fn message(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or(payload.downcast_ref::<&str>().copied()).unwrap_or("?")
}
