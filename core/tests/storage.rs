//! What jobs cost in memory, counted by the allocator: each kind, an empty queue, and what is left
//! when most have gone.

#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "tests may")]

mod support;

use rq_core::table::Verb;
use rq_core::{execute, execute_absent, parse, Effects, Queue, Tree, TreeSink, Turn};
use support::outside::{held, Counting};
use support::{at, int, items, string};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const NOW: u64 = 1_700_000_000_000;
const JOBS: usize = 50_000;
const PAYLOAD: [u8; 100] = [b'x'; 100];

/// A queue, and what it holds of memory.
struct Weighed {
    queue: Box<Queue>,
    before: usize,
    now: u64,
}

impl Weighed {
    fn new() -> Weighed {
        let request = parse(Verb::Create, &[]).unwrap();
        let mut effects = Effects::new();
        let before = held();
        let (_, queue) = execute_absent(&request, &Turn::at(NOW), &mut effects, &mut TreeSink::new()).unwrap();
        let queue = Box::new(queue.unwrap());
        // Its buffers are not the queue's.
        drop(effects);
        Weighed { queue, before, now: NOW }
    }

    fn run(&mut self, verb: Verb, args: &[&[u8]]) -> Tree {
        let request = parse(verb, args).unwrap();
        let mut out = TreeSink::new();
        let mut effects = Effects::new();
        execute(&mut self.queue, &request, &Turn::at(self.now), &mut effects, &mut out).unwrap();
        out.finish().unwrap()
    }

    fn push(&mut self, jobs: usize, options: &[&[u8]]) -> Vec<String> {
        let args: Vec<&[u8]> = [&PAYLOAD[..]].into_iter().chain(options.iter().copied()).collect();
        (0..jobs)
            .map(|n| {
                self.now += u64::from(n % 50 == 0);
                string(&self.run(Verb::Push, &args))
            })
            .collect()
    }

    /// Bytes as the allocator counts them, checked against what the queue says.
    fn bytes(&self) -> usize {
        rq_core::check(&self.queue).unwrap();
        let (true_bytes, told) = (held() - self.before, self.queue.mem_usage());
        let near = told.abs_diff(true_bytes) <= true_bytes / 6 + 3_000;
        assert!(near, "MEMORY USAGE says {told}, the allocator {true_bytes}");
        true_bytes
    }
}

/// Without what an allocator rounds up and adds, so a little below the goals of the design.
#[test]
fn jobs_are_as_small_as_they_should_be() {
    let mut q = Weighed::new();
    q.push(JOBS, &[]);
    let waiting = q.bytes() / JOBS;
    for _ in 0..JOBS / 1000 {
        q.run(Verb::Lease, &[b"w", b"COUNT", b"1000"]);
    }
    let leased = q.bytes() / JOBS;
    let mut q = Weighed::new();
    q.push(JOBS, &[b"DELAY", b"3600000"]);
    let delayed = q.bytes() / JOBS;
    let mut q = Weighed::new();
    q.push(JOBS, &[b"GROUP", b"g", b"TTL", b"3600000"]);
    let tied = q.bytes() / JOBS;
    assert!(waiting <= 116 && leased <= 162 && delayed <= 160, "{waiting} waiting, {leased} leased, {delayed} delayed");
    assert!(tied <= 205, "{tied} with a group and a time to live");
}

#[test]
fn an_empty_queue_is_small_also_after_many_jobs() {
    let mut q = Weighed::new();
    let empty = q.bytes();
    let ids = q.push(10_000, &[]);
    for chunk in ids.chunks(100) {
        let ids: Vec<&[u8]> = chunk.iter().map(|id| id.as_bytes()).collect();
        q.run(Verb::Del, &ids);
    }
    drop(ids);
    let drained = q.bytes();
    q.push(1_000, &[]);
    let leases = q.run(Verb::Lease, &[b"w", b"COUNT", b"1000"]);
    for job in items(&leases) {
        let token = int(at(job, 1)).to_string();
        assert_eq!(int(at(&q.run(Verb::Ack, &[string(at(job, 0)).as_bytes(), token.as_bytes()]), 0)), 1);
    }
    drop(leases);
    let acked = q.bytes();
    assert!(empty <= 760 && drained <= empty + 1_200 && acked <= empty + 1_500, "{empty} empty, {drained} drained, {acked} acknowledged");
}

/// A few old jobs, each alone where many were, hold little but themselves.
#[test]
fn what_stays_behind_holds_no_large_blocks() {
    let mut q = Weighed::new();
    let ids = q.push(JOBS, &[]);
    let mut kept = 0;
    for chunk in ids.chunks(100) {
        let ids: Vec<&[u8]> = chunk[1..].iter().map(|id| id.as_bytes()).collect();
        q.run(Verb::Del, &ids);
        kept += 1;
    }
    drop(ids);
    let each = q.bytes() / kept;
    assert!(each <= 600, "{each} bytes for each of {kept}");
    // What comes after them is as small as ever.
    let before = q.bytes();
    q.push(JOBS, &[]);
    let waiting = (q.bytes() - before) / JOBS;
    assert!(waiting <= 117, "{waiting} waiting");
}

/// Payloads that are replaced, from short to long and back, leave nothing behind.
#[test]
fn replaced_payloads_leave_nothing_behind() {
    let mut q = Weighed::new();
    let key = |n: usize| format!("k{n}").into_bytes();
    let sizes = [100, 5_000, 0, 3_000, 1];
    let mut after = Vec::new();
    for size in sizes.iter().chain(&sizes) {
        for n in 0..200 {
            let payload = vec![b'p'; *size];
            q.run(Verb::Push, &[&payload, b"DELAY", b"3600000", b"DEDUP", &key(n), b"REPLACE"]);
        }
        after.push(q.bytes());
    }
    let (first, second) = after.split_at(sizes.len());
    for (size, (first, second)) in sizes.iter().zip(first.iter().zip(second)) {
        assert!(second.abs_diff(*first) < 40_000, "{first} bytes, then {second}, with payloads of {size}");
    }
}

/// A copy has rows that are exactly full: what comes next makes them longer, whatever their length.
#[test]
fn a_copy_grows_from_every_length() {
    for jobs in 1..=260usize {
        let mut q = Weighed::new();
        q.push(jobs, &[b"DELAY", b"100000"]);
        q.push(jobs, &[b"PRIORITY", b"1"]);
        let mut copy = Box::new(q.queue.copy(7));
        std::mem::swap(&mut q.queue, &mut copy);
        q.push(3, &[b"DELAY", b"100000"]);
        q.push(3, &[b"PRIORITY", b"1"]);
        q.push(3, &[]);
        q.run(Verb::Lease, &[b"w", b"COUNT", b"300"]);
        rq_core::check(&q.queue).unwrap_or_else(|error| panic!("{jobs} jobs: {error}"));
        assert_eq!(q.queue.jobs(), 2 * jobs + 9);
    }
}

/// What is kept beside payloads is told as well (`bytes` compares).
#[test]
fn results_are_counted() {
    let mut q = Weighed::new();
    q.run(Verb::Alter, &[b"KEEPDONE", b"1000"]);
    q.push(100, &[]);
    let (leases, result) = (q.run(Verb::Lease, &[b"w", b"COUNT", b"100"]), vec![b'r'; 100_000]);
    for job in items(&leases) {
        q.run(Verb::Ack, &[string(at(job, 0)).as_bytes(), int(at(job, 1)).to_string().as_bytes(), b"RESULT", &result]);
    }
    drop((leases, result));
    assert!(q.bytes() > 10_000_000);
}

/// Many one-shot workers leave nothing when their jobs have gone.
#[test]
fn consumers_leave_nothing_behind() {
    let mut q = Weighed::new();
    let empty = q.bytes();
    for round in 0..2 {
        q.push(5_000, &[]);
        let mut leases = Vec::new();
        for n in 0..5_000 {
            let lease = q.run(Verb::Lease, &[format!("worker-{round}-{n}").as_bytes()]);
            leases.push((string(at(at(&lease, 0), 0)), int(at(at(&lease, 0), 1)).to_string()));
        }
        for (id, token) in &leases {
            q.run(Verb::Ack, &[id.as_bytes(), token.as_bytes()]);
        }
        drop(leases);
        assert!(q.bytes() <= empty + 1_500, "{} bytes", q.bytes());
    }
}

/// Every way in and every way out, and a value that is saved, loaded and copied now and then:
/// `RQ_CYCLES` jobs, by default few.
#[test]
#[allow(clippy::disallowed_methods, reason = "the core must not read it, who runs tests may say how long")]
fn b32_very_many_jobs_leave_nothing_behind() {
    let jobs = std::env::var("RQ_CYCLES").map_or(10_000, |text| text.parse().expect("RQ_CYCLES: a number of jobs"));
    let mut q = Weighed::new();
    q.run(Verb::Alter, &[b"LEASE", b"50000", b"MAXEXPIRIES", b"0", b"MAXDELIVERIES", b"0", b"BACKOFF", b"0", b"0", b"KEEPDONE", b"5"]);
    let (mut pushed, mut first, mut most) = (0, 0, 0);
    for n in 0.. {
        pushed += q.cycle(n);
        let bytes = q.bytes();
        if n == 20 {
            first = bytes;
        }
        most = most.max(bytes);
        if n > 20 && pushed >= jobs {
            println!("{pushed} jobs: {first} bytes after the first 20 rounds, {most} at the most, {bytes} at the end");
            assert!(most <= first + 4_000, "{first} bytes after the first 20 rounds, {most} at the most, {bytes} at the end");
            break;
        }
    }
}

impl Weighed {
    /// One round: about a hundred jobs, until none is left. How many.
    fn cycle(&mut self, n: usize) -> usize {
        let (group, once, window) = (format!("g{}", n % 50), format!("once{n}"), format!("window{n}"));
        let batches: [&[&[u8]]; 4] = [&[], &[b"GROUP", group.as_bytes()], &[b"PRIORITY", b"5", b"TTL", b"36000000"], &[b"DELAY", b"1"]];
        for options in batches {
            let args: Vec<&[u8]> = [&b"25"[..]].into_iter().chain([&PAYLOAD[..]; 25]).chain(options.iter().copied()).collect();
            self.run(Verb::MPush, &args);
        }
        for _ in 0..2 {
            self.run(Verb::Push, &[&PAYLOAD, b"DEDUP", once.as_bytes(), b"REPLACE", b"KEEPLAST"]);
            self.run(Verb::Push, &[&PAYLOAD, b"DEDUP", window.as_bytes(), b"WINDOW", b"1000"]);
        }
        if n % 100 == 0 {
            let copy = Box::new(self.queue.copy(7));
            let loaded = Box::new(support::load(&support::chunks(&self.queue)).unwrap());
            assert!(copy.jobs() == self.queue.jobs() && loaded.jobs() == self.queue.jobs());
        }
        let mut turn = n;
        let left = |q: &mut Weighed| int(&q.run(Verb::Len, &[])) + int(&q.run(Verb::Len, &[b"DEAD"]));
        while left(self) > 0 {
            // Leases that were left alone are over by now.
            self.now += 60_000;
            let leases = self.run(Verb::Lease, &[b"worker", b"COUNT", b"200"]);
            if matches!(leases, Tree::Null | Tree::NullArray) {
                self.run(Verb::Redrive, &[b"COUNT", b"200"]);
                continue;
            }
            for job in items(&leases) {
                turn += 1;
                let (id, token) = (string(at(job, 0)), int(at(job, 1)).to_string());
                let (id, token) = (id.as_bytes(), token.as_bytes());
                match turn % 8 {
                    0 => self.run(Verb::Nack, &[id, token, b"ERROR", b"flaky", b"DELAY", b"0"]),
                    1 => self.run(Verb::Nack, &[id, token, b"DEAD", b"ERROR", b"boom"]),
                    2 => self.run(Verb::Release, &[id, token]),
                    3 => continue,
                    4 => self.run(Verb::Del, &[id]),
                    5 => self.run(Verb::Ack, &[id, token, b"RESULT", b"result"]),
                    _ => self.run(Verb::Ack, &[id, token]),
                };
            }
        }
        self.run(Verb::Trim, &[b"MAXLEN", b"0"]);
        102
    }
}
