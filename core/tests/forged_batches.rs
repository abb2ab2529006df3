//! Batches of ops that no queue ever wrote, as from a primary that is not to be trusted: numbers at
//! the ends of their ranges and beyond, names of every length. Snapshots like that are in
//! `forged.rs`.

#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "tests may")]

mod support;

use rq_core::Queue;
use support::forge::{Contents, Forge, Plan};
use support::lively::{lively, work_with, Dice};
use support::outside::{apply, Counting};
use support::{Driver, START};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const MAX_TIME: u64 = rq_core::MAX_TIME_MS;
const MAX_SPAN: u64 = 315_360_000_000;
const MAX_LEASE: u64 = 31_536_000_000;
const MAX_COUNT: u64 = 1_000_000_000;
const MAX_NAME: usize = 1_024;
const ENDS: [u64; 3] = [i64::MAX as u64, i64::MAX as u64 + 1, u64::MAX];

/// On queues in the middle of their lives: each leaves a valid queue or changes nothing.
#[test]
fn forged_batches_on_lively_queues() {
    let queues: Vec<Queue> = (1..5).filter_map(|seed| lively(seed, 150).queue).collect();
    let (mut applied, mut refused) = (0, 0);
    for seed in 1..200 {
        let mut dice = Dice(seed);
        let mut queue = dice.pick(&queues).copy(9);
        for _ in 0..20 {
            let batch = forged_batch(&mut dice);
            match apply(&queue, &batch) {
                Some(next) => (queue, applied) = (next, applied + 1),
                None => refused += 1,
            }
        }
        work_with(&queue);
    }
    assert!(applied > 2_000 && refused > 100, "{applied} applied, {refused} refused");
}

/// A few ops whose fields are at the ends of their ranges; now and then beyond one.
fn forged_batch(dice: &mut Dice) -> Vec<u8> {
    // What is taken on `lively` queues: they are some seconds old.
    let now = START + dice.below(3_000) as u64;
    let mut forge = Forge::batch(now);
    for _ in 0..=dice.below(3) {
        let beyond = dice.below(40) == 0;
        let number = |dice: &mut Dice, max: u64| match beyond {
            true => *dice.pick(&[max.saturating_add(1), ENDS[0], ENDS[1], ENDS[2]]),
            false => *dice.pick(&[0, 1, 7, max - 1, max]),
        };
        let time = |dice: &mut Dice| match beyond {
            true => *dice.pick(&[MAX_TIME + 1, ENDS[0], ENDS[1], ENDS[2]]),
            false => *dice.pick(&[0, 1, now - 1, now, now + 1, now + 500, MAX_TIME - 1, MAX_TIME]),
        };
        let name = |dice: &mut Dice| match dice.below(8) {
            0 => Vec::new(),
            1 => vec![b'n'; MAX_NAME + usize::from(beyond)],
            _ => dice.pick(&[&b"a"[..], b"bb", b"ccc"]).to_vec(),
        };
        let id = |dice: &mut Dice| *dice.pick(&[(0, 0), (START, 0), (START, 1), (START + 40, 0), (now, 0), (now, 7), (now + 9, 1)]);
        let contents = |dice: &mut Dice, key: bool| Contents {
            due: (dice.below(2) == 0).then(|| time(dice)),
            priority: *dice.pick(&[0, 1, 0x7f, 0x80, 0xff]),
            lease_ms: number(dice, MAX_LEASE),
            max_deliveries: (dice.below(2) == 0).then(|| number(dice, MAX_COUNT)),
            ttl_ms: number(dice, MAX_SPAN),
            dedup: (key || dice.below(2) == 0).then(|| (name(dice), number(dice, MAX_SPAN))),
            group: (dice.below(2) == 0).then(|| name(dice)),
            payload: name(dice),
        };
        match dice.below(12) {
            0 | 1 => {
                let contents = contents(dice, false);
                forge.push(id(dice), &contents);
            }
            2 => {
                // Held behind who has the key.
                forge.bytes.push(20);
                let contents = contents(dice, true);
                forge.contents(&contents);
            }
            3 => {
                let (held, window) = (contents(dice, false), number(dice, MAX_SPAN));
                let held = (dice.below(2) == 0).then_some((window, &held));
                forge.key(&name(dice), id(dice), time(dice), held);
            }
            4 => {
                let pause = (dice.below(2) == 0).then(|| (time(dice), name(dice)));
                let grants = [now.saturating_sub(dice.below(90) as u64), now, time(dice).max(now)];
                let turns = [(0x7f, number(dice, u64::MAX - 1)), (0, number(dice, u64::MAX - 1))];
                forge.group(&name(dice), pause.as_ref().map(|(until, reason)| (*until, &reason[..])), &turns, &grants);
            }
            5 => {
                // A pause of the queue, out or in, or of a group.
                forge.bytes.push(25);
                let side = dice.below(3) as u8;
                forge.bytes.push(side);
                if side == 2 {
                    forge.string(&name(dice));
                }
                let pause = (dice.below(2) == 0).then(|| (time(dice), name(dice)));
                forge.pause(pause.as_ref().map(|(until, reason)| (*until, &reason[..])));
            }
            6 => {
                let every = match dice.below(3) {
                    0 => Err((name(dice), name(dice))),
                    // One of some ms would make very many jobs while it is worked with.
                    _ => Ok((number(dice, MAX_SPAN).max(50), time(dice))),
                };
                let maybe_time = |dice: &mut Dice| (dice.below(2) == 0).then(|| time(dice));
                let plan = Plan {
                    every,
                    start: maybe_time(dice),
                    end: maybe_time(dice),
                    limit: (dice.below(2) == 0).then(|| number(dice, MAX_COUNT)),
                    missed: dice.below(3) as u8,
                    contents: contents(dice, false),
                    next: maybe_time(dice),
                    counts: [number(dice, u64::MAX - 1), number(dice, u64::MAX - 1), number(dice, u64::MAX - 1)],
                };
                forge.schedule(&name(dice), &plan);
            }
            7 => {
                // A slot that was made.
                forge.bytes.push(31);
                forge.string(&name(dice));
                forge.bytes.push(0);
                forge.id(id(dice));
                let slot = time(dice);
                forge.time(slot);
                let next = (dice.below(2) == 0).then(|| time(dice));
                forge.maybe(next, Forge::time);
                forge.number(number(dice, u64::MAX - 1));
            }
            8 => {
                // What is held is pushed.
                forge.bytes.push(21);
                forge.id(id(dice));
                forge.id(id(dice));
            }
            9 => {
                // Windows close up to a time and key.
                forge.bytes.push(22);
                let until = time(dice);
                forge.time(until);
                forge.string(&name(dice));
            }
            10 => forge.queue_turns(number(dice, u64::MAX - 1), &[(0, number(dice, u64::MAX - 1))], &[now]),
            _ => {
                // An option: RATE, GROUPORDER, GROUPLIMIT, GROUPRATE, AGING.
                forge.bytes.push(4);
                let option = 16 + dice.below(5) as u8;
                forge.bytes.push(option);
                forge.number(number(dice, if option == 17 { 1 } else { 10_000 }));
                if option == 16 || option == 19 {
                    forge.number(number(dice, MAX_SPAN));
                }
            }
        }
    }
    forge.bytes
}

/// However many grants are noted: what was applied can be saved and loaded.
#[test]
fn more_grants_than_a_rate_counts() {
    let mut q = Driver::new();
    q.cmd("RQ.CREATE RATE 10000 1000000 GROUPRATE 10000 1000000");
    for _ in 0..3 {
        q.cmd(&format!("RQ.MPUSH 7000{} GROUP g", " x".repeat(7_000)));
    }
    let queue = q.queue.take().unwrap();
    let mut forge = Forge::batch(START);
    for n in 0..21_000 {
        forge.bytes.push(6);
        forge.id((START, n));
        // The token, as a difference to the one before; the lease; the consumer.
        forge.number(2);
        forge.number(1_000);
        forge.name(b"w");
    }
    assert!(apply(&queue, &forge.bytes).is_some(), "it decodes");
}
