//! Writes ops byte by byte, so that every field can have any value, also one that no queue ever
//! writes.

use super::{chunks, Driver};

/// A batch of ops under way.
pub struct Forge {
    pub bytes: Vec<u8>,
    now: u64,
    id: (u64, u64),
}

/// What a job is pushed with, as ops have it. None and 0: not said.
#[derive(Clone, Default)]
pub struct Contents {
    pub due: Option<u64>,
    pub priority: u8,
    pub lease_ms: u64,
    pub max_deliveries: Option<u64>,
    pub ttl_ms: u64,
    /// Key and window.
    pub dedup: Option<(Vec<u8>, u64)>,
    pub group: Option<Vec<u8>>,
    pub payload: Vec<u8>,
}

/// A schedule, as ops have it.
#[derive(Clone)]
pub struct Plan {
    /// Interval and anchor, or else the line and the zone.
    pub every: Result<(u64, u64), (Vec<u8>, Vec<u8>)>,
    pub start: Option<u64>,
    pub end: Option<u64>,
    pub limit: Option<u64>,
    pub missed: u8,
    pub contents: Contents,
    pub next: Option<u64>,
    /// Made, refused, burst.
    pub counts: [u64; 3],
}

fn zigzag(n: i64) -> u64 {
    ((n << 1) ^ (n >> 63)) as u64
}

/// Skips the varint at the beginning.
fn after_number(bytes: &[u8]) -> &[u8] {
    &bytes[bytes.iter().position(|byte| byte & 0x80 == 0).unwrap() + 1..]
}

/// How many totals a header has.
const TOTALS: usize = 11;

impl Forge {
    /// A batch of ops that were decided at `now`.
    pub fn batch(now: u64) -> Forge {
        let mut forge = Forge { bytes: vec![1], now, id: (now, 0) };
        forge.number(now);
        forge
    }

    /// The beginning of a snapshot of a queue that was made with these options.
    pub fn snapshot(options: &str, last_id: (u64, u64), last_token: u64, newest_ms: u64, total: u64) -> Forge {
        let mut q = Driver::new();
        q.cmd(&format!("RQ.CREATE MAXDELIVERIES 1 {options}"));
        let real = chunks(q.queue.as_ref().unwrap()).concat();
        // version, time, RESET, incarnation, id, token, newest time, longest lease, no pauses.
        let policy = (0..8).fold(&real[1..], |rest, _| after_number(rest));
        let policy = &policy[2..policy.len() - 1 - TOTALS];
        let mut forge = Forge::batch(newest_ms);
        forge.number(1);
        forge.number(77);
        forge.id(last_id);
        forge.number(last_token);
        forge.number(newest_ms);
        forge.number(31_536_000_000);
        forge.bytes.extend([0, 0]);
        forge.bytes.extend(policy);
        forge.number(TOTALS as u64);
        (0..TOTALS).for_each(|_| forge.number(total));
        forge
    }

    pub fn number(&mut self, mut n: u64) {
        while n > 0x7f {
            self.bytes.push(n as u8 | 0x80);
            n >>= 7;
        }
        self.bytes.push(n as u8);
    }

    pub fn time(&mut self, ms: u64) {
        self.number(zigzag((ms as i64).wrapping_sub(self.now as i64)));
    }

    /// As a difference to the one before.
    pub fn id(&mut self, id: (u64, u64)) {
        self.number(zigzag((id.0 as i64).wrapping_sub(self.id.0 as i64)));
        let seq = if id.0 == self.id.0 { zigzag((id.1 as i64).wrapping_sub(self.id.1 as i64)) } else { id.1 };
        self.number(seq);
        self.id = id;
    }

    pub fn string(&mut self, text: &[u8]) {
        self.number(text.len() as u64);
        self.bytes.extend(text);
    }

    /// What may be the same as the one before: here it never is.
    pub fn name(&mut self, text: &[u8]) {
        self.number(text.len() as u64 + 1);
        self.bytes.extend(text);
    }

    pub fn maybe<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Forge, T)) {
        self.bytes.push(u8::from(value.is_some()));
        if let Some(value) = value {
            write(self, value);
        }
    }

    pub fn contents(&mut self, contents: &Contents) {
        let Contents { due, priority, lease_ms, max_deliveries, ttl_ms, dedup, group, payload } = contents;
        let flags = [due.is_some(), *priority > 0, *lease_ms > 0, max_deliveries.is_some(), *ttl_ms > 0, dedup.is_some(), group.is_some()];
        self.number(flags.iter().enumerate().map(|(bit, on)| u64::from(*on) << bit).sum());
        due.iter().for_each(|due| self.time(*due));
        if *priority > 0 {
            self.bytes.push(*priority);
        }
        [*lease_ms].iter().filter(|ms| **ms > 0).for_each(|ms| self.number(*ms));
        max_deliveries.iter().for_each(|max| self.number(*max));
        [*ttl_ms].iter().filter(|ms| **ms > 0).for_each(|ms| self.number(*ms));
        if let Some((key, window)) = dedup {
            self.string(key);
            self.number(*window);
        }
        group.iter().for_each(|group| self.name(group));
        self.string(payload);
    }

    pub fn push(&mut self, id: (u64, u64), contents: &Contents) {
        self.bytes.push(5);
        self.id(id);
        self.contents(contents);
    }

    /// A ready job as it is stored, of this priority, key and group.
    pub fn put(&mut self, id: (u64, u64), priority: u8, dedup: Option<&[u8]>, group: Option<&[u8]>) {
        self.bytes.push(2);
        self.id(id);
        self.bytes.extend([0, priority]);
        self.time(id.0);
        self.string(b"payload");
        self.number(u64::from(dedup.is_some()) << 26 | u64::from(group.is_some()) << 27);
        dedup.iter().for_each(|key| self.string(key));
        group.iter().for_each(|group| self.name(group));
    }

    /// A dedup key, its owner, the end of its window, and what is held with which window.
    pub fn key(&mut self, key: &[u8], job: (u64, u64), until: u64, held: Option<(u64, &Contents)>) {
        self.bytes.push(24);
        self.string(key);
        self.id(job);
        self.number(until);
        self.maybe(held, |forge, (window, contents)| {
            forge.number(window);
            forge.contents(contents);
        });
    }

    pub fn pause(&mut self, pause: Option<(u64, &[u8])>) {
        self.maybe(pause, |forge, (until, reason)| {
            forge.number(until);
            forge.string(reason);
        });
    }

    fn turns(&mut self, turns: &[(u8, u64)]) {
        self.number(turns.len() as u64);
        for (priority, turn) in turns {
            self.bytes.push(*priority);
            self.number(*turn);
        }
    }

    fn grants(&mut self, grants: &[u64]) {
        self.number(grants.len() as u64);
        grants.iter().for_each(|at| self.time(*at));
    }

    /// A group's pause, turns and grants.
    pub fn group(&mut self, name: &[u8], pause: Option<(u64, &[u8])>, turns: &[(u8, u64)], grants: &[u64]) {
        self.bytes.push(28);
        self.string(name);
        self.pause(pause);
        self.turns(turns);
        self.grants(grants);
    }

    /// The turns and grants of the queue.
    pub fn queue_turns(&mut self, counter: u64, turns: &[(u8, u64)], grants: &[u64]) {
        self.bytes.push(27);
        self.number(counter);
        self.turns(turns);
        self.grants(grants);
    }

    pub fn schedule(&mut self, name: &[u8], plan: &Plan) {
        self.bytes.push(29);
        self.string(name);
        match &plan.every {
            Err((line, zone)) => {
                self.bytes.push(0);
                self.string(line);
                self.string(zone);
            }
            Ok((ms, anchor)) => {
                self.bytes.push(1);
                self.number(*ms);
                self.number(*anchor);
            }
        }
        for bound in [plan.start, plan.end, plan.limit] {
            self.maybe(bound, Forge::number);
        }
        self.bytes.push(plan.missed);
        self.contents(&plan.contents);
        self.maybe(plan.next, Forge::number);
        plan.counts.iter().for_each(|count| self.number(*count));
    }
}
