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
        let line = match dice.below(56) {
            0 => format!("RQ.PUSH {word} DELAY {small} PRIORITY {}", small % 3),
            1 => format!("RQ.PUSH {word} TTL {} LEASE {} MAXDELIVERIES {}", small + 1, small + 1, small % 4),
            2..=5 => format!("RQ.PUSH {}", word.repeat(small + 1)),
            6 | 7 => format!("RQ.MPUSH 3 a b {word} PRIORITY {}", small as i64 - 45),
            8..=13 => format!("RQ.LEASE {word} COUNT {}", small % 4 + 1),
            14 => format!("RQ.ACK {lease}{}", if small % 2 == 0 { " RESULT done" } else { "" }),
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
            29..=44 => all_that_is_about_others(&mut dice, small, word),
            45 if small < 30 => {
                q.reload();
                continue;
            }
            _ => {
                q.pass(small as u64 / 2);
                continue;
            }
        };
        let reply = match q.try_cmd(&line) {
            Ok(reply) => reply,
            Err(error) if ["FULL ", "PAUSED "].iter().any(|code| error.to_string().starts_with(code)) => continue,
            Err(error) => panic!("{line}: {error}"),
        };
        match reply {
            Tree::Array(reply) if line.contains(" DEDUP ") && line.starts_with("RQ.PUSH") => ids.push(string(&reply[0])),
            Tree::Array(reply) if line.contains(" DEDUPS ") => ids.extend(reply.iter().map(|one| string(at(one, 0)))),
            Tree::Bulk(id) => ids.push(String::from_utf8(id).unwrap()),
            Tree::Array(reply) if line.starts_with("RQ.MPUSH") => ids.extend(reply.iter().map(string)),
            Tree::Array(reply) if line.starts_with("RQ.ACKLEASE") => note_leases(&reply[1], &mut leases),
            reply if line.starts_with("RQ.LEASE") => note_leases(&reply, &mut leases),
            _ => {}
        }
    }
    q
}

/// Commands about what a job shares with others: keys, groups, bounds, pauses, schedules.
fn all_that_is_about_others(dice: &mut Dice, small: usize, word: &str) -> String {
    let other = *dice.pick(&["a", "bb", "ccc"]);
    match dice.below(22) {
        0..=2 => {
            let form = *dice.pick(&["", "WINDOW 40", "REPLACE", "REPLACE MAXWAIT 20", "KEEPLAST", "REPLACE KEEPLAST WINDOW 60"]);
            format!("RQ.PUSH {} DEDUP {other} {form} DELAY {} GROUP {word}", word.repeat(small + 1), small % 30)
        }
        3 => format!("RQ.PUSH {word} DEDUP {other} KEEPLAST LEASE {} TTL 90 MAXDELIVERIES 2 PRIORITY {}", small + 1, small % 3),
        4 => format!("RQ.MPUSH 3 x y z DEDUPS {other} {word} {other} WINDOW {}", small + 1),
        5..=7 => format!("RQ.PUSH {word} GROUP {other} PRIORITY {}", small % 3),
        8 => format!("RQ.MPUSH 3 x y {word} GROUP {other}"),
        9 => format!("RQ.PAUSE {} FOR {} REASON {word}", *dice.pick(&["OUT", "IN", "GROUP a", "GROUP ccc"]), small / 4 + 1),
        10 => format!("RQ.PAUSE GROUP {other}"),
        11 => format!("RQ.RESUME {}", *dice.pick(&["OUT", "IN", "GROUP a", "GROUP bb", "GROUP ccc"])),
        12 => format!(
            "RQ.SCHEDULE {other} {} {} MISSED {} PAYLOAD {word} {}",
            *dice.pick(&["EVERY", "CRON"]),
            100 + small / 40 * 50,
            *dice.pick(&["one", "skip", "all"]),
            *dice.pick(&["", "LIMIT 3", "GROUP a TTL 50", "DEDUP bb", "PRIORITY -3 LEASE 9 MAXDELIVERIES 1"]),
        ),
        13 => format!("RQ.UNSCHEDULE {other}"),
        14 => format!("RQ.TRIM {} {}", *dice.pick(&["MAXLEN", "MAXAGE", "MAXBYTES"]), small / 5),
        15 => format!("RQ.DEL DEDUP {other}"),
        16 => format!("RQ.PURGE {} COUNT 2", *dice.pick(&["READY", "DELAYED", "DEAD", "DONE"])),
        17 | 18 => format!(
            "RQ.ALTER {}",
            *dice.pick(&["KEEPDONE 4", "KEEPDONE 0", "KEEPDONE -1 KEEPDONEMS 70", "KEEPDONEBYTES 90", "KEEPDEAD 3", "KEEPDEADMS 50", "KEEPDEAD -1"])
        ),
        19 => format!("RQ.ALTER {}", *dice.pick(&["CONCURRENCY 3", "CONCURRENCY -1", "RATE 4 60", "RATE -1", "AGING 7", "AGING 0"])),
        20 => format!("RQ.ALTER {}", *dice.pick(&["GROUPLIMIT 1", "GROUPLIMIT -1", "GROUPORDER yes", "GROUPORDER no", "GROUPRATE 2 90", "GROUPRATE -1"])),
        _ => format!("RQ.ALTER {}", *dice.pick(&["MAXLIVE 60", "MAXLIVE -1", "MAXLIVEBYTES 9000", "MAXLIVEBYTES -1"])),
    }
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
    for look in ["RQ.INFO", "RQ.GROUPS", "RQ.SCHEDULES", "RQ.CONSUMERS"] {
        q.cmd(look);
    }
    for state in ["READY", "DELAYED", "LEASED", "DEAD", "DONE"] {
        q.cmd(&format!("RQ.PEEK {state} COUNT 1000"));
    }
    q.tick(50);
    q.cmd("RQ.RESUME OUT");
    q.cmd("RQ.RESUME IN");
    q.cmd("RQ.TRIM MAXLEN 2 COUNT 3");
    for line in ["RQ.PUSH x", "RQ.PUSH x DEDUP a REPLACE KEEPLAST GROUP bb", "RQ.PUSH x DEDUP bb WINDOW 5"] {
        // Refused only where the ids are used up, or by a bound that came with the queue.
        if let Err(error) = q.try_cmd(line) {
            let error = error.to_string();
            assert!(error.contains("no job ids left") || error.starts_with("FULL "), "{error}");
        }
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
