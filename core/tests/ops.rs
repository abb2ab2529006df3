//! Bytes from outside: batches and snapshots that are damaged, cut, spliced, invented.
//!
//! What decodes leaves a valid queue that can be worked with; what does not changes nothing;
//! equal queues stay equal; nothing panics; and a small input never takes much memory.

#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "tests may")]

mod support;

use proptest::test_runner::{Config, RngSeed};
use rq_core::{Effects, Queue};
use support::lively::{lively, work_with, Dice};
use support::outside::{allowance, apply, measured, valid, Counting};
use support::{chunks, load, snapshot, verb, Driver};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Damages a batch in one of many ways; `other` lends parts.
fn mutate(dice: &mut Dice, batch: &[u8], other: &[u8]) -> Vec<u8> {
    let mut bytes = batch.to_vec();
    for _ in 0..=dice.below(3) {
        let at = dice.below(bytes.len().max(1));
        match dice.below(10) {
            0 => bytes.truncate(at),
            1..=3 if !bytes.is_empty() => bytes[at] ^= 1 << dice.below(8),
            4 if !bytes.is_empty() => bytes[at] = *dice.pick(&[0, 1, 0x7f, 0x80, 0xff]),
            5 => bytes.insert(at.min(bytes.len()), dice.below(256) as u8),
            6 if !bytes.is_empty() => drop(bytes.remove(at)),
            7 => {
                // The ops of another batch after these: they begin after the version and the time.
                bytes.extend(other.iter().skip(7));
            }
            8 => {
                let from = dice.below(other.len().max(1));
                let len = dice.below(40);
                let part = other.iter().skip(from).take(len).copied();
                let at = at.min(bytes.len());
                bytes.splice(at..at, part);
            }
            // A huge number where a small one was.
            _ => {
                let at = at.min(bytes.len());
                bytes.splice(at..at, [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]);
            }
        }
    }
    bytes
}

/// Queues in many states, and all batches that made them.
struct Stock {
    queues: Vec<Queue>,
    batches: Vec<Vec<u8>>,
}

fn stock() -> Stock {
    let drivers: Vec<Driver> = (1..7).map(|seed| lively(seed, 150)).collect();
    let mut batches: Vec<Vec<u8>> = drivers.iter().flat_map(|driver| driver.batches.clone()).collect();
    let queues: Vec<Queue> = drivers.into_iter().filter_map(|driver| driver.queue).collect();
    batches.extend(queues.iter().flat_map(chunks));
    Stock { queues, batches }
}

fn config(cases: u32) -> Config {
    let mut config = Config { failure_persistence: None, ..Config::default() };
    config.cases = config.cases.max(1) * cases / 256;
    if config.rng_seed == RngSeed::Random {
        config.rng_seed = RngSeed::Fixed(20_240_229);
    }
    config
}

/// Each case applies a chain of damaged batches to one queue, then works with what came of it.
#[test]
fn damaged_batches_leave_a_valid_queue() {
    let stock = stock();
    let counted = std::cell::Cell::new((0, 0));
    let mut runner = proptest::test_runner::TestRunner::new(config(1_500));
    let result = runner.run(&(1u64..u64::MAX), |seed| {
        let mut dice = Dice(seed);
        let mut queue = dice.pick(&stock.queues).copy(5);
        for _ in 0..8 {
            let (one, other) = (dice.pick(&stock.batches), dice.pick(&stock.batches));
            let batch = mutate(&mut dice, one, other);
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
        Ok(())
    });
    result.unwrap_or_else(|error| panic!("{error}"));
    let (applied, refused) = counted.get();
    assert!(applied > 500 && refused > 500, "{applied} applied, {refused} refused: the damage is badly weighed");
}

/// A batch that was made for one queue, on others: ops about jobs that are not there, or in
/// another state, are misfits, and no more.
#[test]
fn batches_of_other_queues_do_no_harm() {
    let stock = stock();
    for (n, batch) in stock.batches.iter().enumerate() {
        let queue = &stock.queues[n % stock.queues.len()];
        assert!(apply(queue, batch).is_some(), "a real batch decodes on any queue");
    }
}

/// Cut at every byte and with every bit flipped, on the queue that the batch was made for.
#[test]
fn every_cut_and_every_flipped_bit_of_small_batches() {
    let driver = lively(11, 120);
    let mut queue: Option<Queue> = None;
    let mut flips = 0;
    for batch in &driver.batches {
        if let Some(queue) = queue.as_ref().filter(|_| batch.len() < 60) {
            for len in 0..batch.len() {
                apply(queue, &batch[..len]);
            }
            for bit in 0..batch.len() * 8 {
                let mut flipped = batch.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                flips += usize::from(apply(queue, &flipped).is_some());
            }
        }
        let mut effects = Effects::new();
        match &mut queue {
            Some(queue) => drop(rq_core::apply(queue, batch, &mut effects).unwrap()),
            None => queue = rq_core::apply_absent(batch, &mut effects).unwrap().1,
        }
    }
    assert!(flips > 1_000, "only {flips} flipped batches decoded");
    assert!(snapshot(queue.as_ref()) == snapshot(driver.queue.as_ref()));
}

/// On an absent key: a batch makes a queue or none, and never half of one.
#[test]
fn damaged_batches_on_an_absent_key() {
    let stock = stock();
    let mut dice = Dice(77);
    let mut made = 0;
    for _ in 0..20_000 {
        // Only a few begin with what makes a queue.
        let makers: Vec<&Vec<u8>> = stock.batches.iter().filter(|batch| matches!(batch.get(7), Some(1 | 3))).collect();
        let (one, other) = (*dice.pick(&makers), dice.pick(&stock.batches));
        let batch = mutate(&mut dice, one, other);
        let mut effects = Effects::new();
        let (result, most) = measured(|| rq_core::apply_absent(&batch, &mut effects));
        assert!(most <= allowance(batch.len()), "{most} bytes of memory for a batch of {}", batch.len());
        if let Ok((_, Some(queue))) = result {
            valid(&queue);
            made += 1;
        }
    }
    assert!(made > 500, "{made} queues made");
}

/// Bytes that were never a batch.
#[test]
fn noise_is_refused_or_harmless() {
    let stock = stock();
    let mut dice = Dice(3);
    for n in 0..20_000 {
        let mut bytes: Vec<u8> = (0..dice.below(60)).map(|_| dice.below(256) as u8).collect();
        // Half of them begin as a batch does.
        if n % 2 == 0 {
            bytes.splice(0..0, stock.batches[0][..7].iter().copied());
        }
        if let Some(queue) = apply(&stock.queues[n % stock.queues.len()], &bytes) {
            drop(queue);
        }
    }
}

/// Loads what may be a snapshot; what is accepted is a valid queue that saves as it was loaded.
fn load_any(input: &[Vec<u8>]) -> bool {
    let len: usize = input.iter().map(Vec::len).sum();
    let (result, most) = measured(|| load(input));
    assert!(most <= allowance(len), "{most} bytes of memory for a snapshot of {len}");
    let Ok(queue) = result else { return false };
    valid(&queue);
    let saved = chunks(&queue);
    let again = load(&saved).unwrap_or_else(|error| panic!("loaded, but cannot be saved: {error}"));
    assert!(saved == chunks(&again));
    true
}

/// Every cut of a whole snapshot, and every bit of it flipped.
#[test]
fn every_cut_and_every_flipped_bit_of_a_snapshot() {
    let driver = lively(21, 60);
    let whole = chunks(driver.queue.as_ref().unwrap());
    assert_eq!(whole.len(), 1);
    assert!(load_any(&whole));
    let bytes = &whole[0];
    for len in 0..bytes.len() {
        load_any(&[bytes[..len].to_vec()]);
    }
    let mut accepted = 0;
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        accepted += usize::from(load_any(&[flipped]));
    }
    assert!(accepted > 0 && accepted < bytes.len() * 8, "{accepted} accepted");
}

/// Larger snapshots in several parts: damaged, left out, twice, in another order.
#[test]
fn damaged_snapshots_are_refused_or_valid() {
    let mut big = lively(31, 100);
    big.cmd(&format!("RQ.PUSH {}", "x".repeat(70_000)));
    big.cmd(&format!("RQ.PUSH {}", "y".repeat(70_000)));
    let whole = chunks(big.queue.as_ref().unwrap());
    assert!(whole.len() >= 3, "{} parts", whole.len());
    assert!(!load_any(&[]), "nothing is no queue");
    for n in 1..whole.len() {
        let mut parts = whole.clone();
        parts.swap(n - 1, n);
        assert!(!load_any(&parts), "parts {n} in another order");
        let mut parts = whole.clone();
        parts.insert(n, whole[n].clone());
        assert!(!load_any(&parts), "part {n} twice");
    }
    assert!(!load_any(&whole[1..]), "without its beginning");
    let mut dice = Dice(5);
    let mut accepted = 0;
    for _ in 0..1_500 {
        let mut parts = whole.clone();
        let n = dice.below(parts.len());
        let other = dice.pick(&whole);
        parts[n] = mutate(&mut dice, &whole[n], other);
        accepted += usize::from(load_any(&parts));
    }
    assert!(accepted > 10, "{accepted} accepted: the damage is too heavy to test anything");
}

/// A batch that claims to be longer than any batch can be.
#[test]
fn a_batch_above_the_limit_is_refused() {
    let stock = stock();
    let mut long = stock.batches[0].clone();
    long.resize(rq_core::MAX_BATCH + 1, 0);
    assert!(apply(&stock.queues[0], &long).is_none());
    assert!(!load_any(&[long]));
}

/// Parsing arguments of every verb that were never meant as such: an error or a request, which
/// then runs.
#[test]
fn random_arguments_never_panic() {
    const WORDS: &[&[u8]] = &[
        b"", b"COUNT", b"lease", b"DELAY", b"AT", b"PRIORITY", b"TTL", b"MAXDELIVERIES", b"BLOCK", b"MAXBYTES", b"META",
        b"ERROR", b"DEAD", b"CONSUMER", b"ID", b"REASON", b"failed", b"ttl", b"AFTER", b"BEFORE", b"SPREAD", b"READY",
        b"LEASED", b"DONE", b"DEDUP", b"DEDUPS", b"WINDOW", b"REPLACE", b"MAXWAIT", b"KEEPLAST", b"GROUP", b"RESULT", b"MAXLEN",
        b"EVERY", b"CRON", b"PAYLOAD", b"MISSED", b"all", b"LIMIT", b"START", b"END", b"OUT", b"IN", b"FOR", b"KEEPDONE", b"RATE", b"CURSOR", b"NOPAYLOAD", b"JSON", b"JITTER", b"none", b"BACKOFF", b"EXPIRYBACKOFF", b"yes",
        b"MAXRUN", b"MAXEXPIRIES", b"0", b"1", b"2", b"5", b"100", b"10000", b"-1", b"-128", b"1700000000000",
        b"253402300799999", b"9007199254740991", b"18446744073709551615", b"315360000000", b"1700000000000-0",
        b"1700000000001-3", b"0-0", b"253402300799999-4294967295", b"w", b"\xff\x00\r\n",
    ];
    let mut dice = Dice(123);
    let mut q = lively(41, 200);
    let mut accepted = 0;
    for _ in 0..60_000 {
        let command = dice.pick(rq_core::table::COMMANDS);
        let args: Vec<&[u8]> = (0..dice.below(8)).map(|_| *dice.pick(WORDS)).collect();
        if rq_core::parse(verb(command.name), &args).is_ok() {
            accepted += 1;
            q.typed.clear();
            q.batches.clear();
            q.may_block = dice.below(2) == 0;
            if let Err(error) = q.execute(command.name, &args) {
                let error = error.to_string();
                assert!(error.starts_with("PAUSED ") || error.starts_with("FULL "), "what parses runs on a queue: {error}");
                q.cmd("RQ.RESUME IN");
            }
            q.now += dice.below(20) as u64;
            if q.queue.as_ref().unwrap().jobs() > 300 {
                q = lively(41, 200);
            }
        }
    }
    assert!(accepted > 2_000, "{accepted} accepted");
}

/// What a queue says it takes is what it takes, in every state; so MEMORY USAGE can be trusted.
#[test]
fn memory_usage_is_about_what_is_allocated() {
    for (what, lines) in [
        ("ready", &[][..]),
        ("delayed", &["DELAY 100000"][..]),
        ("leased", &["", "RQ.LEASE worker COUNT 10000"][..]),
        ("dead", &["TTL 1"][..]),
    ] {
        let mut q = Driver::new();
        let payload = "p".repeat(100);
        q.cmd(&format!("RQ.MPUSH 10000{} {}", format!(" {payload}").repeat(10_000), lines.first().unwrap_or(&"")));
        if let Some(line) = lines.get(1) {
            q.cmd(line);
        }
        q.pass(1);
        let queue = q.queue.unwrap();
        let (copy, held) = measured(|| queue.copy(1));
        assert_eq!(copy.jobs(), 10_000);
        let said = copy.mem_usage();
        assert!(said * 4 > held * 3 && said * 3 < held * 4, "{what}: says {said}, holds {held}");
    }
}
