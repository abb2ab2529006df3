//! Fuzzing on the stable toolchain: inputs that are nearly right, made by what is known of their
//! structure. Arguments come from the syntax of the command table, batches and snapshots are taken
//! apart into their ops and put together anew. Damaged bytes are in `ops.rs`, every field at the
//! ends of its range in `forged.rs`.
//!
//! Bounded as it is; `make fuzz` goes on for `RQ_FUZZ_SECONDS`. A failure names its seed, which
//! `RQ_FUZZ_SEED=n` repeats.

#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "tests may")]

mod support;

mod fuzz {
    pub mod arguments;
    pub mod pieces;
    pub mod rounds;
}

use std::cell::Cell;

use fuzz::arguments::{arguments, Known};
use fuzz::pieces::{pieces, put_together, shuffle, Pieces};
use fuzz::rounds::rounds;
use rq_core::table::{Command, Verb, COMMANDS};
use rq_core::Queue;
use support::lively::{lively, work_with, Dice};
use support::outside::{allowance, apply, measured, valid, Counting};
use support::{chunks, load, Driver};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Any verb, any arguments: an error of one line that changes nothing, or a request that runs,
/// which the driver checks.
#[test]
fn arguments_that_are_nearly_right() {
    let fresh: Vec<Driver> = Vec::from([1, 2, 3]).into_iter().map(|seed| lively(seed, 150)).collect();
    let (accepted, refused) = (Cell::new(0u64), Cell::new(0u64));
    let long = rounds(600, |dice| {
        let queue = dice.pick(&fresh).queue.as_ref().map(|queue| queue.copy(3));
        let mut q = Driver::new();
        (q.follower, q.queue) = (queue.as_ref().map(|queue| queue.copy(3)), queue);
        q.now += 3_000;
        let known = Known::of(&mut q);
        if dice.below(8) == 0 {
            // The same on an absent key.
            (q.queue, q.follower) = (None, None);
        }
        for _ in 0..40 {
            let command = dice.pick(COMMANDS);
            let args = arguments(dice, command, &known);
            match parses(command, &args) {
                true => {
                    run(&mut q, dice, command, &args);
                    accepted.set(accepted.get() + 1);
                }
                false => refused.set(refused.get() + 1),
            }
            q.now += dice.below(30) as u64;
        }
    });
    let (accepted, refused) = (accepted.get(), refused.get());
    assert!(!long || (accepted > 1_000 && refused > 1_000), "{accepted} accepted, {refused} refused: badly weighed");
}

/// Whether they are a request; it takes little memory to find out.
fn parses(command: &Command, args: &[Vec<u8>]) -> bool {
    let words: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
    let (parsed, most) = measured(|| match command.verb {
        Verb::MLease => rq_core::parse_multi_lease(&words).map(drop),
        verb => rq_core::parse(verb, &words).map(drop),
    });
    let room = 4_096 + words.iter().map(|word| 64 + word.len()).sum::<usize>();
    assert!(most <= room, "{} took {most} bytes for {} arguments", command.name, words.len());
    if let Err(error) = &parsed {
        let error = error.to_string();
        assert!(error.is_ascii() && !error.contains(['\r', '\n']) && error.len() < 600, "{error:?}");
    }
    parsed.is_ok()
}

fn run(q: &mut Driver, dice: &mut Dice, command: &Command, args: &[Vec<u8>]) {
    if matches!(command.verb, Verb::MLease | Verb::Queues | Verb::XTrim | Verb::Apply) {
        // The shell runs these.
        return;
    }
    let words: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
    q.may_block = dice.below(2) == 0;
    q.batches.clear();
    q.typed.clear();
    // A refusal is as good as a reply: the driver sees that it changes nothing.
    let _ = q.execute_and_grant(command.name, &words, false);
}

/// Queues in the middle of their lives, and everything that made them, op by op.
fn stock() -> (Vec<Queue>, Vec<Pieces>, Vec<Pieces>) {
    let drivers: Vec<Driver> = (51..55).map(|seed| lively(seed, 150)).collect();
    let small = |batch: &&Vec<u8>| batch.len() < 3_000;
    let batches = drivers.iter().flat_map(|driver| driver.batches.iter().filter(small)).map(|batch| pieces(batch)).collect();
    let queues: Vec<Queue> = drivers.into_iter().filter_map(|driver| driver.queue).collect();
    let snapshots = queues.iter().flat_map(chunks).map(|chunk| pieces(&chunk)).collect();
    (queues, batches, snapshots)
}

/// Ops of all kinds, from any batch and any snapshot, in any order, with fields that were changed:
/// each batch leaves a valid queue or changes nothing.
#[test]
fn ops_in_any_order() {
    let (queues, batches, snapshots) = stock();
    let counted = Cell::new((0u64, 0u64));
    let long = rounds(300, |dice| {
        let mut queue = dice.pick(&queues).copy(5);
        for _ in 0..10 {
            let from = if dice.below(6) == 0 { &snapshots } else { &batches };
            let mut ops = Vec::new();
            for _ in 0..=dice.below(6) {
                let lender = dice.pick(from);
                ops.push(dice.pick(&lender.ops).clone());
            }
            let ops = if dice.below(3) == 0 { ops } else { dice.pick(from).ops.clone() };
            let (first, other) = (dice.pick(&batches), dice.pick(&batches));
            let batch = put_together(&first.header, &shuffle(dice, ops, &other.ops));
            let (applied, refused) = counted.get();
            match apply(&queue, &batch) {
                Some(next) => {
                    queue = next;
                    counted.set((applied + 1, refused));
                }
                None => counted.set((applied, refused + 1)),
            }
        }
        work_with(&queue);
    });
    let (applied, refused) = counted.get();
    assert!(!long || (applied > 200 && refused > 100), "{applied} applied, {refused} refused: badly weighed");
}

/// Snapshots whose ops were left out, repeated, moved, changed, taken from another queue: refused,
/// or a valid queue that saves as it was loaded and can be worked with.
#[test]
fn snapshots_of_any_ops() {
    let (_, _, snapshots) = stock();
    let counted = Cell::new((0u64, 0u64));
    let long = rounds(2_000, |dice| {
        let (one, other) = (dice.pick(&snapshots), dice.pick(&snapshots));
        let ops = shuffle(dice, one.ops.clone(), &other.ops);
        // In one part or in several.
        let cut = dice.below(ops.len().max(1));
        let parts = match dice.below(2) {
            0 => vec![put_together(&one.header, &ops)],
            _ => vec![put_together(&one.header, &ops[..cut]), put_together(&one.header, &ops[cut..])],
        };
        let len = parts.iter().map(Vec::len).sum();
        let (loaded, most) = measured(|| load(&parts));
        assert!(most <= allowance(len), "{most} bytes of memory for a snapshot of {len}");
        let (accepted, refused) = counted.get();
        let Ok(queue) = loaded else { return counted.set((accepted, refused + 1)) };
        counted.set((accepted + 1, refused));
        valid(&queue);
        let saved = chunks(&queue);
        let again = load(&saved).unwrap_or_else(|error| panic!("loaded, but cannot be saved: {error}"));
        assert!(saved == chunks(&again), "loaded, but saved as another");
        work_with(&queue);
    });
    let (accepted, refused) = counted.get();
    assert!(!long || (accepted > 40 && refused > 40), "{accepted} accepted, {refused} refused: badly weighed");
}
