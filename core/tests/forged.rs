//! Snapshots that no queue ever wrote: every counter at the end of its range. They come from
//! RESTORE, from anybody; what is accepted of them must go on like any other queue.

#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "tests may")]

mod support;

use support::lively::work_with;
use support::{chunks, load, Driver};

fn varint(mut n: u64, out: &mut Vec<u8>) {
    while n > 0x7f {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

/// The length of the varint at the beginning.
fn varint_len(bytes: &[u8]) -> usize {
    bytes.iter().position(|byte| byte & 0x80 == 0).unwrap() + 1
}

/// An empty queue as a snapshot, with the given numbers in its header.
fn forged(last_id: (u64, u32), last_token: u64, newest_ms: u64, total: u64) -> Vec<u8> {
    let mut q = Driver::new();
    q.cmd("RQ.CREATE MAXDELIVERIES 1");
    let real = chunks(q.queue.as_ref().unwrap()).concat();
    // version, time, RESET, incarnation, id, token, newest time, longest lease, policy, 8 totals.
    let mut rest = &real[1..];
    for skip in ["time", "RESET", "incarnation", "id: ms", "id: seq", "token", "newest time", "longest lease"] {
        assert!(!rest.is_empty(), "no {skip}");
        rest = &rest[varint_len(rest)..];
    }
    let policy = &rest[..rest.len() - 1 - 8];
    let mut bytes = vec![1];
    varint(newest_ms, &mut bytes);
    bytes.push(1);
    varint(77, &mut bytes);
    let zigzag = |n: i64| ((n << 1) ^ (n >> 63)) as u64;
    varint(zigzag(last_id.0 as i64 - newest_ms as i64), &mut bytes);
    // The number within the millisecond: as a difference from 0, if the millisecond is the same.
    let seq = u64::from(last_id.1);
    varint(if last_id.0 == newest_ms { seq << 1 } else { seq }, &mut bytes);
    varint(last_token, &mut bytes);
    varint(newest_ms, &mut bytes);
    varint(31_536_000_000, &mut bytes);
    bytes.extend(policy);
    varint(8, &mut bytes);
    (0..8).for_each(|_| varint(total, &mut bytes));
    bytes
}

/// Counters at the end of their range, in a snapshot from anybody: refused, or a queue that goes
/// on, whose batches its replicas can read, and that can be saved.
#[test]
fn queues_at_the_end_of_every_range_go_on() {
    const MAX_TIME: u64 = rq_core::MAX_TIME_MS;
    const MAX_TOKEN: u64 = (1 << 53) - 1;
    let mut loaded = 0;
    for ms in [0, support::START, MAX_TIME - 1, MAX_TIME, MAX_TIME + 1] {
        for seq in [0, u32::MAX - 1, u32::MAX] {
            for token in [0, MAX_TOKEN - 2, MAX_TOKEN, MAX_TOKEN + 1] {
                for newest in [support::START, MAX_TIME] {
                    for total in [0, i64::MAX as u64, u64::MAX] {
                        if let Ok(queue) = load(&[forged((ms, seq), token, newest, total)]) {
                            work_with(&queue);
                            loaded += 1;
                        }
                    }
                }
            }
        }
    }
    assert!(loaded > 100, "{loaded} loaded");
    let push = |last_id, n: usize| {
        let mut q = Driver::new();
        q.queue = Some(load(&[forged(last_id, 0, support::START, 0)]).unwrap().copy(1));
        q.follower = Some(q.queue.as_ref().unwrap().copy(1));
        q.cmd(&format!("RQ.MPUSH {n}{}", " x".repeat(n)));
    };
    push((MAX_TIME, u32::MAX - 3), 3);
    push((MAX_TIME - 1, u32::MAX), 3);
    let refused = std::panic::catch_unwind(|| push((MAX_TIME, u32::MAX - 2), 3)).unwrap_err();
    assert!(refused.downcast_ref::<String>().unwrap().contains("no job ids left"));
}

/// A dead job all of whose counters have one value, in a queue of its own.
fn forged_job(count: u64) -> Vec<u8> {
    let now = support::START;
    let mut bytes = forged((now, 5), now * 1_000, now, 1);
    bytes.push(2);
    // Its id, as a difference to the queue's last one.
    bytes.extend([0, 0]);
    let (dead, priority, place, payload) = (3, 0, 0, [1, b'x']);
    bytes.extend([dead, priority, place]);
    bytes.extend(payload);
    let counters = 0b111_1111 << 10;
    let (token, lease, until, first, last, redrives, consumer, reason) = (1 << 3, 1 << 4, 1 << 5, 1 << 8, 1 << 9, 1 << 19, 1 << 22, 1 << 23);
    varint(counters | token | lease | until | first | last | redrives | consumer | reason, &mut bytes);
    varint(now * 1_000, &mut bytes);
    varint(1_000, &mut bytes);
    bytes.extend([0, 0, 0]);
    (0..8).for_each(|_| varint(count, &mut bytes));
    bytes.extend([2, b'w', 0]);
    bytes
}

#[test]
fn jobs_whose_counters_are_at_the_end_of_their_range_go_on() {
    for count in [1, 1_000_000_000, (1 << 53) - 1, i64::MAX as u64, u64::MAX - 1, u64::MAX] {
        let queue = load(&[forged_job(count)]).unwrap_or_else(|error| panic!("{count}: {error}"));
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
