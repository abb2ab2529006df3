//! Whose turn it is, against a plain list: at each priority those with something ready stand in a
//! row; who is served, or comes anew, goes to its end; who may not be served now keeps its place.

#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "tests may")]

mod support;

use rq_core::Tree;
use support::lively::Dice;
use support::{at, int, items, string, Driver};

const GROUPS: [&str; 4] = ["", "a", "b", "c"];

#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    Ready,
    Delayed,
    Leased,
}

#[derive(Debug, Clone)]
struct Job {
    id: String,
    token: i64,
    group: usize,
    priority: i64,
    state: State,
    /// Its place, or when it is due.
    place: u64,
    old_place: u64,
    delivered: bool,
}

#[derive(Default)]
struct Row {
    jobs: Vec<Job>,
    /// By priority and group: who has something ready, longest not served first.
    row: Vec<(i64, usize)>,
    paused: [bool; 4],
    limit: Option<usize>,
    ordered: bool,
    aging: u64,
}

impl Row {
    /// Who has nothing ready left leaves the row; who has comes to its end.
    fn settle(&mut self) {
        let jobs = &self.jobs;
        let ready = |member: &(i64, usize)| jobs.iter().any(|job| job.state == State::Ready && (job.priority, job.group) == *member);
        self.row.retain(ready);
        for job in &self.jobs {
            let member = (job.priority, job.group);
            if job.state == State::Ready && !self.row.contains(&member) {
                self.row.push(member);
            }
        }
    }

    fn may_be_served(&self, group: usize) -> bool {
        let of = |state: State| self.jobs.iter().filter(move |job| job.group == group && job.state == state);
        let retrying = of(State::Delayed).any(|job| job.delivered);
        let leased = of(State::Leased).count();
        group == 0 || !(self.paused[group] || self.limit.is_some_and(|limit| leased >= limit) || (self.ordered && (leased > 0 || retrying)))
    }

    /// The next job, by its place in the list.
    fn next(&self, now: u64) -> Option<usize> {
        let mut heads: Vec<usize> = Vec::new();
        for &(priority, group) in &self.row {
            let of = |n: &usize| self.jobs[*n].state == State::Ready && (self.jobs[*n].priority, self.jobs[*n].group) == (priority, group);
            let head = (0..self.jobs.len()).filter(of).min_by_key(|n| (self.jobs[*n].place, *n)).unwrap();
            if self.may_be_served(group) && !heads.iter().any(|other| self.jobs[*other].priority == priority) {
                heads.push(head);
            }
        }
        heads.sort_by_key(|n| -self.jobs[*n].priority);
        let risen = |job: &Job| job.priority + now.saturating_sub(job.place).checked_div(self.aging).unwrap_or(0) as i64;
        let best = heads.iter().map(|n| risen(&self.jobs[*n])).max()?;
        heads.into_iter().find(|n| risen(&self.jobs[*n]) == best)
    }

    fn promote(&mut self, now: u64) {
        let mut due: Vec<(u64, usize)> = (0..self.jobs.len()).map(|n| (self.jobs[n].place, n)).collect();
        due.retain(|(at, n)| self.jobs[*n].state == State::Delayed && *at <= now);
        due.sort_unstable();
        for (at, n) in due {
            let ordered = self.ordered && self.jobs[n].group > 0 && self.jobs[n].delivered;
            let job = &mut self.jobs[n];
            job.state = State::Ready;
            job.place = if ordered { job.old_place.min(at) } else { at };
            self.settle();
        }
    }
}

fn step(q: &mut Driver, row: &mut Row, dice: &mut Dice) -> usize {
    let group = dice.below(4);
    let leased: Vec<usize> = (0..row.jobs.len()).filter(|n| row.jobs[*n].state == State::Leased).collect();
    match dice.below(24) {
        0..=4 if row.jobs.len() < 40 => {
            let (n, priority, delay) = (1 + dice.below(3), dice.below(3) as i64, [0, 0, 0, dice.below(40) as u64][dice.below(4)]);
            let named = if group == 0 { String::new() } else { format!("GROUP {}", GROUPS[group]) };
            let reply = q.cmd(&format!("RQ.MPUSH {n}{} PRIORITY {priority} DELAY {delay} {named}", " x".repeat(n)));
            for id in items(&reply) {
                let (place, state) = (q.now + delay, if delay > 0 { State::Delayed } else { State::Ready });
                row.jobs.push(Job { id: string(id), token: 0, group, priority, state, place, old_place: place, delivered: false });
                row.settle();
            }
        }
        5..=11 => {
            let count = 1 + dice.below(4);
            let reply = q.cmd(&format!("RQ.LEASE w COUNT {count} LEASE 1000000"));
            let mut got = if reply == Tree::NullArray { Vec::new() } else { items(&reply).to_vec() };
            got.reverse();
            for _ in 0..count {
                let next = row.next(q.now);
                let job = got.pop();
                let id = job.as_ref().map(|job| string(at(job, 0)));
                assert_eq!(id.as_ref(), next.map(|n| &row.jobs[n].id), "{:?}", row.row);
                let (Some(n), Some(got)) = (next, job) else { break };
                let member = (row.jobs[n].priority, row.jobs[n].group);
                let job = &mut row.jobs[n];
                (job.state, job.old_place, job.token, job.delivered) = (State::Leased, job.place, int(at(&got, 1)), true);
                // Served: to the end.
                row.row.retain(|other| *other != member);
                row.row.push(member);
                row.settle();
            }
            assert!(got.is_empty());
            return count;
        }
        12..=16 if !leased.is_empty() => {
            let n = *dice.pick(&leased);
            let (pair, delay) = (format!("{} {}", row.jobs[n].id, row.jobs[n].token), [0, dice.below(50) as u64][dice.below(2)]);
            let (verb, now, ordered) = (dice.below(3), q.now, row.ordered && row.jobs[n].group > 0);
            match verb {
                0 => {
                    q.cmd(&format!("RQ.ACK {pair}"));
                    row.jobs.remove(n);
                }
                verb => {
                    q.cmd(&format!("RQ.{} {pair} DELAY {delay}", if verb == 1 { "NACK" } else { "RELEASE" }));
                    let job = &mut row.jobs[n];
                    job.state = if delay > 0 { State::Delayed } else { State::Ready };
                    job.place = match (delay, verb) {
                        (0, 1) if !ordered => now,
                        (0, _) => job.old_place,
                        (delay, _) => now + delay,
                    };
                }
            }
            row.settle();
        }
        17 => {
            let waiting: Vec<usize> = (0..row.jobs.len()).filter(|n| row.jobs[*n].state != State::Leased).collect();
            if !waiting.is_empty() {
                let job = row.jobs.remove(*dice.pick(&waiting));
                q.cmd(&format!("RQ.DEL {}", job.id));
                row.settle();
            }
        }
        18 if group > 0 => {
            row.paused[group] = !row.paused[group];
            q.cmd(&format!("RQ.{} GROUP {}", if row.paused[group] { "PAUSE" } else { "RESUME" }, GROUPS[group]));
        }
        19 => {
            row.limit = [None, Some(1), Some(2)][dice.below(3)];
            q.cmd(&format!("RQ.ALTER GROUPLIMIT {}", row.limit.map_or(-1, |limit| limit as i64)));
        }
        20 => {
            row.ordered = dice.below(2) == 0;
            q.cmd(&format!("RQ.ALTER GROUPORDER {}", if row.ordered { "yes" } else { "no" }));
        }
        21 => {
            row.aging = [0, 5, 30][dice.below(3)];
            q.cmd(&format!("RQ.ALTER AGING {}", row.aging));
        }
        22 => q.reload(),
        _ => {
            q.pass(dice.below(40) as u64);
            row.promote(q.now);
        }
    }
    0
}

#[test]
fn the_row_and_the_queue_agree() {
    let mut leases = 0;
    for seed in 1..250 {
        let mut dice = Dice(seed * 7_919);
        let (mut q, mut row) = (Driver::new(), Row::default());
        q.cmd("RQ.CREATE MAXDELIVERIES 0");
        // So that there is always a group: without any, nobody notes the turns.
        q.cmd("RQ.PAUSE GROUP anchor");
        for n in 0..150 {
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| step(&mut q, &mut row, &mut dice)));
            leases += done.unwrap_or_else(|_| panic!("seed {seed}, step {n}:\n{}", q.typed.join("\n")));
            let nothing = row.next(q.now).is_none();
            assert_eq!(!nothing, q.info("held") == support::bulk("no"), "seed {seed}, step {n}");
            q.typed.retain(|line| line != "RQ.INFO q");
        }
    }
    assert!(leases > 10_000, "{leases}");
}
