//! A queue in which everything happens, from a seed, for tests that need real batches; and
//! everything that can be done with a queue of which nothing is known.

use super::{at, int, items, string, Driver};
use rq_core::{Queue, Tree};

/// A small generator of random numbers, the same on every machine.
pub struct Dice(pub u64);

impl Dice {
    /// A number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        // xorshift64*
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % n
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

/// Runs so many random commands and returns the driver with all its batches.
pub fn lively(seed: u64, commands: usize) -> Driver {
    let mut dice = Dice(seed * 2 + 1);
    let mut q = Driver::new();
    q.cmd("RQ.CREATE LEASE 40 MAXDELIVERIES 3 MAXEXPIRIES 2 BACKOFF 5 60 MAXRUN 200");
    let mut ids = vec!["1-0".to_string()];
    let mut leases = vec!["1-0 1".to_string()];
    for _ in 0..commands {
        let (id, lease) = (dice.pick(&ids).clone(), dice.pick(&leases).clone());
        let recent = leases[leases.len() - 1 - dice.below(leases.len().min(8))].clone();
        let (small, word) = (dice.below(90), *dice.pick(&["a", "bb", "ccc"]));
        let line = match dice.below(30) {
            0 => format!("RQ.PUSH {word} DELAY {small} PRIORITY {}", small % 3),
            1 => format!("RQ.PUSH {word} TTL {} LEASE {} MAXDELIVERIES {}", small + 1, small + 1, small % 4),
            2..=5 => format!("RQ.PUSH {}", word.repeat(small + 1)),
            6 | 7 => format!("RQ.MPUSH 3 a b {word} PRIORITY {}", small as i64 - 45),
            8..=13 => format!("RQ.LEASE {word} COUNT {}", small % 4 + 1),
            14 => format!("RQ.ACK {lease}"),
            15 => format!("RQ.ACKLEASE {recent} {word} COUNT 2"),
            16 => format!("RQ.NACK {recent} {lease} ERROR {word}"),
            17 => format!("RQ.NACK {recent} DELAY {small} ERROR {}", word.repeat(small + 1)),
            18 => format!("RQ.NACK {lease} DEAD"),
            19 => format!("RQ.RELEASE {recent}"),
            20 => format!("RQ.RELEASE {recent} DELAY {small}"),
            21 => format!("RQ.RELEASE CONSUMER {word}"),
            22 => format!("RQ.EXTEND {recent} LEASE {}", small + 1),
            23 => format!("RQ.REAP CONSUMER {word} COUNT 1"),
            24 => format!("RQ.REDRIVE COUNT 2 SPREAD {small} PRIORITY 1"),
            25 => format!("RQ.REDRIVE {id}"),
            26 => format!("RQ.SET {id} DELAY {small} PRIORITY {}", small % 5),
            27 => format!("RQ.DEL {id}"),
            28 => format!("RQ.ALTER EXPIRYBACKOFF {}", if small % 2 == 0 { "yes" } else { "no" }),
            _ => {
                q.pass(small as u64 / 2);
                continue;
            }
        };
        match q.cmd(&line) {
            Tree::Bulk(id) => ids.push(String::from_utf8(id).unwrap()),
            Tree::Array(reply) if line.starts_with("RQ.MPUSH") => ids.extend(reply.iter().map(string)),
            Tree::Array(reply) if line.starts_with("RQ.ACKLEASE") => note_leases(&reply[1], &mut leases),
            reply if line.starts_with("RQ.LEASE") => note_leases(&reply, &mut leases),
            _ => {}
        }
    }
    q
}

fn note_leases(reply: &Tree, leases: &mut Vec<String>) {
    if *reply == Tree::NullArray {
        return;
    }
    for job in items(reply) {
        leases.push(format!("{} {}", string(at(job, 0)), int(at(job, 1))));
    }
}

/// All verbs on a queue that came from outside: it need not make sense, but must be workable.
pub fn work_with(queue: &Queue) {
    // The node's clock follows what is at most an hour ahead of it.
    let wall = super::START + 3_000;
    work_at(queue, wall);
    work_at(queue, (queue.newest_ms() + 50).clamp(wall, wall + 3_600_000));
}

fn work_at(queue: &Queue, now: u64) {
    let mut q = Driver::new();
    q.now = now;
    q.queue = Some(queue.copy(7));
    q.follower = Some(queue.copy(7));
    q.cmd("RQ.INFO");
    for state in ["READY", "DELAYED", "LEASED", "DEAD", "DONE"] {
        q.cmd(&format!("RQ.PEEK {state} COUNT 1000"));
    }
    q.tick(50);
    // Refused only where the ids are used up.
    if let Err(error) = q.try_cmd("RQ.PUSH x") {
        assert!(error.to_string().contains("no job ids left"), "{error}");
    }
    let reply = q.cmd("RQ.LEASE w COUNT 10 META");
    if reply != Tree::NullArray {
        for (n, job) in items(&reply).iter().enumerate() {
            let pair = format!("{} {}", string(at(job, 0)), int(at(job, 1)));
            let verb = ["ACK", "NACK", "RELEASE", "EXTEND", "NACK"][n % 5];
            q.cmd(&format!("RQ.{verb} {pair}"));
        }
    }
    q.cmd("RQ.REAP COUNT 5");
    q.cmd("RQ.REDRIVE COUNT 5 SPREAD 100");
    q.cmd("RQ.PURGE READY COUNT 3");
    q.pass(100);
    q.reload();
}
