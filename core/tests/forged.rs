//! Snapshots that no queue ever wrote: every number at the end of its range and beyond, names of
//! every length. They come from RESTORE, from anybody; what is accepted of them must go on like any
//! other queue. Batches like that are in `forged_batches.rs`, damaged ones of real queues in `ops.rs`.

#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "tests may")]

mod support;

use support::forge::{Contents, Forge, Plan};
use support::lively::work_with;
use support::outside::{allowance, measured, Counting};
use support::{load, Driver, START};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const MAX_TIME: u64 = rq_core::MAX_TIME_MS;
const MAX_SPAN: u64 = 315_360_000_000;
const MAX_LEASE: u64 = 31_536_000_000;
const MAX_COUNT: u64 = 1_000_000_000;
const MAX_NAME: usize = 1_024;
const ENDS: [u64; 4] = [(1 << 53) - 1, i64::MAX as u64, i64::MAX as u64 + 1, u64::MAX];

/// 0, 1, what is usual, the highest that is allowed, and what is above it.
fn around(usual: u64, max: u64) -> Vec<u64> {
    [vec![0, 1, usual, max, max + 1], ENDS.to_vec()].concat()
}

fn names() -> [Vec<u8>; 4] {
    [Vec::new(), b"a".to_vec(), vec![0xff; MAX_NAME], vec![b'n'; MAX_NAME + 1]]
}

/// Loads a snapshot; what comes of it is worked with. Whether it was accepted.
fn accepted(snapshot: &Forge) -> bool {
    let input = [snapshot.bytes.clone()];
    let (result, most) = measured(|| load(&input));
    assert!(most <= allowance(input[0].len()), "{most} bytes of memory for {} of a snapshot", input[0].len());
    match result {
        Ok(queue) => {
            rq_core::check(&queue).unwrap_or_else(|error| panic!("loaded, but not valid: {error}"));
            work_with(&queue);
            true
        }
        Err(_) => false,
    }
}

/// A snapshot of a queue with these options, of which three ids are used.
fn three(options: &str) -> Forge {
    Forge::snapshot(options, (START, 3), START * 1_000, START, 1)
}

/// Tries each value in turn in an otherwise plain snapshot: those up to `max` are accepted.
fn up_to(what: &str, max: u64, usual: u64, forge: impl Fn(u64) -> Forge) {
    for value in around(usual, max) {
        assert_eq!(accepted(&forge(value)), value <= max, "{what} {value}");
    }
}

/// Counters at the end of their range, in a snapshot from anybody: refused, or a queue that goes
/// on, whose batches its replicas can read, and that can be saved.
#[test]
fn queues_at_the_end_of_every_range_go_on() {
    const MAX_TOKEN: u64 = (1 << 53) - 1;
    let mut loaded = 0;
    for ms in [0, START, MAX_TIME - 1, MAX_TIME, MAX_TIME + 1] {
        for seq in [0, u32::MAX - 1, u32::MAX] {
            for token in [0, MAX_TOKEN - 2, MAX_TOKEN, MAX_TOKEN + 1] {
                for newest in [START, MAX_TIME] {
                    for total in [0, i64::MAX as u64, u64::MAX] {
                        loaded += usize::from(accepted(&Forge::snapshot("", (ms, seq.into()), token, newest, total)));
                    }
                }
            }
        }
    }
    assert!(loaded > 100, "{loaded} loaded");
    let push = |last_id, n: usize| {
        let mut q = Driver::new();
        let queue = load(&[Forge::snapshot("", last_id, 0, START, 0).bytes]).unwrap();
        (q.queue, q.follower) = (Some(queue.copy(1)), Some(queue.copy(1)));
        q.cmd(&format!("RQ.MPUSH {n}{}", " x".repeat(n)));
    };
    push((MAX_TIME, u64::from(u32::MAX - 3)), 3);
    push((MAX_TIME - 1, u32::MAX.into()), 3);
    let refused = std::panic::catch_unwind(|| push((MAX_TIME, u64::from(u32::MAX - 2)), 3)).unwrap_err();
    assert!(refused.downcast_ref::<String>().unwrap().contains("no job ids left"));
}

/// A dead job all of whose counters have one value, in a queue of its own.
fn forged_job(count: u64) -> Forge {
    let mut forge = Forge::snapshot("", (START, 5), START * 1_000, START, 1);
    forge.bytes.push(2);
    forge.id((START, 5));
    let (dead, priority) = (3, 0);
    forge.bytes.extend([dead, priority]);
    forge.time(START);
    forge.string(b"x");
    let counters = 0b111_1111 << 10;
    let (token, lease, until, first, last, redrives, consumer, reason) = (1 << 3, 1 << 4, 1 << 5, 1 << 8, 1 << 9, 1 << 19, 1 << 22, 1 << 23);
    forge.number(counters | token | lease | until | first | last | redrives | consumer | reason);
    forge.number(START * 1_000);
    forge.number(1_000);
    (0..3).for_each(|_| forge.time(START));
    (0..8).for_each(|_| forge.number(count));
    forge.name(b"w");
    forge.bytes.push(0);
    forge
}

#[test]
fn jobs_whose_counters_are_at_the_end_of_their_range_go_on() {
    for count in [1, MAX_COUNT, (1 << 53) - 1, i64::MAX as u64, u64::MAX - 1, u64::MAX] {
        let queue = load(&[forged_job(count).bytes]).unwrap_or_else(|error| panic!("{count}: {error}"));
        work_with(&queue);
        let mut q = Driver::new();
        q.queue = Some(queue.copy(1));
        q.follower = Some(queue.copy(1));
        q.cmd("RQ.ALTER MAXDELIVERIES 0 MAXEXPIRIES 0 BACKOFF 0 0");
        assert_eq!(q.cmd("RQ.REDRIVE COUNT 1"), support::ints(&[1, 0, 0]));
        q.lease("crashes");
        q.pass(31_536_000_000);
        for end in ["NACK", "RELEASE", "NACK"] {
            let (id, token) = q.lease("v");
            q.cmd(&format!("RQ.{end} {id} {token}"));
            q.reload();
        }
    }
}

/// A ready job that has a key, and the key.
fn keyed(key: &[u8], until: u64, held: Option<(u64, &Contents)>) -> Forge {
    let mut forge = three("");
    forge.put((START, 1), 0, Some(key), None);
    forge.key(key, (START, 1), until, held);
    forge
}

#[test]
fn dedup_keys() {
    up_to("window", MAX_TIME, START, |until| keyed(b"k", until, None));
    for key in names() {
        assert_eq!(accepted(&keyed(&key, 0, None)), key.len() <= MAX_NAME, "{} bytes", key.len());
    }
    // Whose job is there or not, lives or not, and one that is not made yet.
    for (job, with_window, without) in [((START, 1), true, true), ((START, 2), true, false), ((0, 0), true, false), ((START, 4), false, false)] {
        for (until, expected) in [(START + 5, with_window), (0, without)] {
            let mut forge = three("");
            forge.put((START, 1), 0, Some(b"k"), None);
            forge.put((START, 2), 0, None, None);
            forge.key(b"k", job, until, None);
            assert_eq!(accepted(&forge), expected, "{job:?} until {until}");
        }
    }
    // Twice, and out of order.
    for (first, second, expected) in [(b"a", b"b", true), (b"a", b"a", false), (b"b", b"a", false)] {
        let mut forge = three("");
        forge.key(first, (START, 1), START + 5, None);
        forge.key(second, (START, 1), START + 5, None);
        assert_eq!(accepted(&forge), expected);
    }
}

#[test]
fn held_duplicates() {
    let plain = Contents { payload: b"held".to_vec(), ..Contents::default() };
    let held = |window: u64, contents: &Contents| keyed(b"k", 0, Some((window, contents)));
    up_to("its window", MAX_SPAN, 5, |window| held(window, &plain));
    up_to("its due time", MAX_TIME, START, |due| held(0, &Contents { due: Some(due), ..plain.clone() }));
    up_to("its deliveries", MAX_COUNT, 5, |max| held(0, &Contents { max_deliveries: Some(max), ..plain.clone() }));
    up_to("its lease", MAX_LEASE, 5, |lease_ms| held(0, &Contents { lease_ms, ..plain.clone() }));
    up_to("its time to live", MAX_SPAN, 5, |ttl_ms| held(0, &Contents { ttl_ms, ..plain.clone() }));
    // All of it at its end at once, behind a job that has ended: it is pushed at the next chance.
    for (job, due) in [((START, 1), None), ((START, 2), None), ((START, 2), Some(0)), ((START, 2), Some(MAX_TIME))] {
        for group in [None, Some(Vec::new()), Some(vec![b'g'; MAX_NAME])] {
            for window in [0, MAX_SPAN] {
                let last = Contents {
                    due,
                    priority: 0x80,
                    lease_ms: MAX_LEASE,
                    max_deliveries: Some(0),
                    ttl_ms: MAX_SPAN,
                    dedup: None,
                    group: group.clone(),
                    payload: Vec::new(),
                };
                let mut forge = three("GROUPLIMIT 1 GROUPRATE 1 1000");
                forge.put((START, 1), 0, Some(b"k"), None);
                forge.key(b"k", job, 0, Some((window, &last)));
                assert!(accepted(&forge), "{job:?} {due:?}");
            }
        }
    }
    // Two behind one ended job: only one could be found.
    let mut forge = three("");
    for key in [b"a", b"b"] {
        forge.key(key, (START, 2), 0, Some((0, &plain)));
    }
    assert!(!accepted(&forge));
}

#[test]
fn groups() {
    for options in ["", "GROUPLIMIT 1", "GROUPLIMIT 0", "GROUPORDER yes", "GROUPRATE 1 1", "GROUPRATE 10000 315360000000", "AGING 1"] {
        let group = |name: &[u8], pause: Option<(u64, &[u8])>, turns: &[(u8, u64)], grants: &[u64]| {
            let mut forge = three(options);
            forge.put((START, 1), 0, None, Some(name));
            forge.put((START, 2), 0x7f, None, Some(name));
            forge.put((START, 3), 0, None, None);
            forge.group(name, pause, turns, grants);
            forge.queue_turns(7, &[(0, 3)], &[]);
            forge
        };
        for name in names() {
            assert_eq!(accepted(&group(&name, None, &[(0, 1)], &[])), name.len() <= MAX_NAME, "{} bytes", name.len());
        }
        up_to("the end of a pause", MAX_TIME, START + 5, |until| group(b"g", Some((until, b"why")), &[(0, 1)], &[]));
        for (n, expected) in [(0, true), (MAX_NAME, true), (MAX_NAME + 1, false)] {
            assert_eq!(accepted(&group(b"g", Some((0, &vec![b'r'; n])), &[], &[])), expected);
        }
        up_to("a grant", MAX_TIME, START, |at| group(b"g", None, &[(0, 1)], &[at]));
        for turn in around(5, u64::MAX - 1) {
            assert!(accepted(&group(b"g", None, &[(0x7f, turn), (0, turn)], &[])), "turn {turn}");
        }
        for (turns, expected) in [(vec![(0, 1), (0x7f, 1)], false), (vec![(0, 1), (0, 2)], false), (vec![(5, 1)], true)] {
            assert_eq!(accepted(&group(b"g", None, &turns, &[])), expected, "{turns:?}");
        }
        assert!(!accepted(&group(b"g", None, &[], &[START, START - 1])), "grants out of order");
        let (enough, many) = if options.ends_with("315360000000") { (20_000, 20_001) } else { (100, 20_001) };
        for (n, expected) in [(enough, true), (many, false)] {
            assert_eq!(accepted(&group(b"g", None, &[], &vec![START; n])), expected, "{n} grants");
        }
        // Without jobs: kept for its pause, or for nothing.
        let mut forge = three(options);
        forge.group(b"paused", Some((0, b"")), &[], &[]);
        assert!(accepted(&forge));
        forge.group(b"unused", None, &[], &[]);
        assert!(!accepted(&forge));
    }
    // The turns and grants of the queue itself.
    for counter in around(5, u64::MAX - 1) {
        for options in ["", "RATE 1 1", "RATE 10000 315360000000"] {
            let mut forge = three(options);
            forge.put((START, 1), 0, None, Some(b"g"));
            forge.put((START, 2), 0, None, None);
            forge.queue_turns(counter, &[(0, counter)], &[0, START, MAX_TIME]);
            assert!(accepted(&forge), "{counter} {options}");
            forge.queue_turns(counter, &[], &[]);
            assert!(!accepted(&forge), "they come once");
        }
    }
}

fn plan() -> Plan {
    let contents = Contents { payload: b"p".to_vec(), ..Contents::default() };
    Plan { every: Ok((100, START)), start: None, end: None, limit: None, missed: 0, contents, next: Some(START), counts: [0; 3] }
}

#[test]
fn schedules() {
    let with = |name: &[u8], plan: &Plan| {
        let mut forge = three("");
        forge.schedule(name, plan);
        forge
    };
    let one = |change: &dyn Fn(&mut Plan)| {
        let mut plan = plan();
        change(&mut plan);
        with(b"s", &plan)
    };
    for name in names() {
        assert_eq!(accepted(&with(&name, &plan())), name.len() <= MAX_NAME, "{} bytes", name.len());
    }
    for missed in 0..=3 {
        for (what, max) in [("start", MAX_TIME), ("end", MAX_TIME), ("limit", MAX_COUNT), ("next", MAX_TIME), ("anchor", MAX_TIME), ("interval", MAX_SPAN)] {
            for value in around(START.min(max), max) {
                // An interval of 1 ms makes a job each ms from then on: not from 1970 on.
                let next = if missed == 2 { Some(START + 100) } else { Some(START) };
                let forge = one(&|plan| {
                    (plan.missed, plan.next) = (missed, next);
                    match what {
                        "start" => plan.start = Some(value),
                        "end" => plan.end = Some(value),
                        "limit" => plan.limit = Some(value),
                        "next" => plan.next = Some(value),
                        "anchor" => plan.every = Ok((100, value)),
                        _ => plan.every = Ok((value, START)),
                    }
                });
                let expected = missed < 3 && value <= max && (what != "interval" || value > 0);
                assert_eq!(accepted(&forge), expected, "{what} {value}, missed {missed}");
            }
        }
    }
    for count in around(5, u64::MAX - 1) {
        for limit in [None, Some(0), Some(MAX_COUNT)] {
            assert!(accepted(&one(&|plan| (plan.counts, plan.limit, plan.missed) = ([count; 3], limit, 2))), "{count}");
        }
    }
    // A line and a zone that nobody can read: it has no slots after the one it says.
    for line in names() {
        for zone in [Vec::new(), vec![0xff; MAX_NAME]] {
            let forge = one(&|plan| plan.every = Err((line.clone(), zone.clone())));
            assert_eq!(accepted(&forge), line.len() <= MAX_NAME, "{} bytes", line.len());
        }
    }
    let last = Contents {
        priority: 0x80,
        lease_ms: MAX_LEASE,
        max_deliveries: Some(0),
        ttl_ms: MAX_SPAN,
        dedup: Some((vec![b'd'; MAX_NAME], MAX_SPAN)),
        group: Some(Vec::new()),
        ..Contents::default()
    };
    for next in [0, 1, START, MAX_TIME] {
        assert!(accepted(&one(&|plan| (plan.contents, plan.next) = (last.clone(), Some(next)))));
    }
    // Twice, and out of order.
    for (first, second, expected) in [(b"a", b"b", true), (b"a", b"a", false), (b"b", b"a", false)] {
        let mut forge = three("");
        forge.schedule(first, &plan());
        forge.schedule(second, &plan());
        assert_eq!(accepted(&forge), expected);
    }
}
