//! Very many waiters, and all that may happen to them: one reply for each request, nobody left
//! blocked, nothing leased for ever.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::harness::{jobs, wait_until, Client, Reply, Server};
use crate::world::Chance;

const KEYS: [&str; 4] = ["q0", "q1", "q2", "q3"];
const HOUR_MS: i64 = 3_600_000;

/// A connection with requests that have no reply yet.
struct Waiter {
    client: Client,
    id: i64,
    name: String,
    /// How many replies are to come.
    pending: usize,
}

impl Waiter {
    fn new(server: &Server, n: usize) -> Waiter {
        let client = if n % 3 == 0 { server.client3() } else { server.client() };
        let id = client.run("CLIENT ID").int();
        Waiter { client, id, name: format!("waiter{n}"), pending: 0 }
    }

    fn send(&mut self, lines: &[String]) {
        for line in lines {
            self.client.send_line(line);
        }
        self.pending += lines.len();
    }

    /// The next reply; the jobs in it are told to `heard`.
    fn receive(&mut self, heard: &mut BTreeSet<String>) {
        self.pending -= 1;
        let reply = self.client.reply();
        note(&reply, heard);
        if let Reply::Error(text) = &reply {
            assert!(text.starts_with("UNBLOCKED ") || text.starts_with("EXECABORT "), "{}: {text}", self.name);
        }
    }
}

/// Ids and tokens of the jobs in a reply of whatever shape: LEASE, MLEASE, EXEC.
fn note(reply: &Reply, heard: &mut BTreeSet<String>) {
    let Reply::Array(items) = reply else { return };
    match items.as_slice() {
        [Reply::Array(job), ..] if matches!(job.as_slice(), [Reply::Bulk(_), Reply::Int(_), Reply::Int(_), ..]) => {
            heard.extend(jobs(reply).iter().map(|job| job.to_string()));
        }
        items => items.iter().for_each(|item| note(item, heard)),
    }
}

struct Storm {
    chance: Chance,
    server: Server,
    in_db5: Client,
    waiters: Vec<Waiter>,
    started: usize,
    heard: BTreeSet<String>,
    killed: BTreeSet<String>,
}

pub fn run(seed: u64) {
    let (crowd, time) = match crate::seconds() {
        None => (150, Duration::from_secs(3)),
        Some(time) => (1000, time.min(Duration::from_secs(60))),
    };
    let server = Server::with(&["maxclients 10000", "rq.expiry-grace 0"]);
    let in_db5 = server.client();
    in_db5.run("SELECT 5");
    let waiters: Vec<Waiter> = (0..crowd).map(|n| Waiter::new(&server, n)).collect();
    let chance = Chance::new(seed, 0);
    let mut storm = Storm { chance, server, in_db5, started: waiters.len(), waiters, heard: BTreeSet::new(), killed: BTreeSet::new() };
    println!("storm, CHAOS_SEED={seed}, {crowd} clients");
    let start = Instant::now();
    let mut steps = 0;
    while start.elapsed() < time {
        // The others read what has come, or the server would have to keep it.
        (0..100).for_each(|_| storm.step());
        steps += 100;
        for waiter in &mut storm.waiters {
            while waiter.pending > 0 && waiter.client.has_reply() {
                waiter.receive(&mut storm.heard);
            }
        }
    }
    storm.end();
    println!("storm, CHAOS_SEED={seed}: {steps} steps, {} leases heard of, {} clients killed", storm.heard.len(), storm.killed.len());
}

impl Storm {
    fn lease(&mut self, name: &str) -> String {
        let block = self.chance.of(&[0, 1, 5, 50, 10_000_000]);
        let (one, other) = (self.chance.of(&KEYS), self.chance.of(&KEYS));
        let count = self.chance.of(&[1, 1, 2]);
        match self.chance.below(3) {
            0 if one != other => format!("RQ.MLEASE 2 {one} {other} {name} BLOCK {block} COUNT {count} LEASE {HOUR_MS}"),
            _ => format!("RQ.LEASE {one} {name} BLOCK {block} COUNT {count} LEASE {HOUR_MS}"),
        }
    }

    /// What a waiter asks for next.
    fn ask(&mut self, n: usize) {
        if self.waiters[n].pending > 0 {
            return;
        }
        let name = self.waiters[n].name.clone();
        let lease = self.lease(&name);
        let lines = match self.chance.below(8) {
            0 => vec![format!("SELECT {}", self.chance.of(&[0, 5])), lease],
            1 => vec!["MULTI".to_owned(), lease, "EXEC".to_owned()],
            // What comes behind a wait waits as well.
            2 => vec![lease, "PING".to_owned(), format!("SELECT {}", self.chance.of(&[0, 5])), self.lease(&name)],
            3 => vec!["MULTI".to_owned(), lease, "DISCARD".to_owned(), self.lease(&name)],
            _ => vec![lease],
        };
        self.waiters[n].send(&lines);
    }

    fn step(&mut self) {
        let n = usize::try_from(self.chance.below(self.waiters.len() as u64)).expect("a small number");
        let (key, other) = (self.chance.of(&KEYS), self.chance.of(&KEYS));
        let how = self.chance.of(&["", " ERROR", " TIMEOUT"]);
        let kind = self.chance.below(24);
        if kind < 9 {
            return self.ask(n);
        }
        let flush = self.chance.one_in(20);
        let async_flush = self.chance.of(&["SYNC", "ASYNC"]);
        let admin: &Client = if self.chance.one_in(3) { &self.in_db5 } else { &self.server };
        let id = self.waiters[n].id;
        match kind {
            9..13 => _ = admin.run(format!("RQ.PUSH {key} x")),
            13 => _ = admin.run(format!("RQ.PUSH {key} x DELAY 20")),
            14 => _ = admin.run(format!("RQ.MPUSH {key} 3 x y z")),
            15 => _ = admin.multi(&[format!("RQ.PUSH {key} x"), format!("RENAME {key} {other}"), format!("RQ.PUSH {key} x")]),
            16 => _ = admin.cmd(&["EVAL", "redis.call('RQ.PUSH', KEYS[1], 'x') return redis.call('RQ.LEASE', KEYS[1], 'lua')", "1", key]),
            17 => _ = admin.run(format!("CLIENT UNBLOCK {id}{how}")),
            18 => {
                // In one turn: what wakes it and what ends its wait.
                admin.send_bytes(format!("RQ.PUSH {key} x\r\nCLIENT UNBLOCK {id}{how}\r\n").as_bytes());
                assert!(!admin.reply().is_error() && !admin.reply().is_error());
            }
            19 => {
                admin.send_bytes(format!("RQ.PUSH {key} x\r\nCLIENT KILL ID {id}\r\n").as_bytes());
                assert!(!admin.reply().is_error() && !admin.reply().is_error());
                self.replace(n);
            }
            20 => _ = admin.run(format!("DEL {key}")),
            21 if flush => _ = admin.run(format!("FLUSHALL {async_flush}")),
            21 => _ = admin.run("SWAPDB 0 5"),
            22 => {
                let client = std::mem::replace(&mut self.waiters[n], Waiter::new(&self.server, self.started));
                self.started += 1;
                self.killed.insert(client.name);
                client.client.reset();
            }
            _ => _ = admin.try_run(format!("RENAME {key} {other}")),
        }
    }

    fn replace(&mut self, n: usize) {
        let old = std::mem::replace(&mut self.waiters[n], Waiter::new(&self.server, self.started));
        self.started += 1;
        self.killed.insert(old.name);
    }

    fn end(&mut self) {
        // Every wait has one end, and every request one reply.
        let deadline = Instant::now() + crate::harness::patience();
        while self.waiters.iter().any(|waiter| waiter.pending > 0) {
            assert!(Instant::now() < deadline, "replies that never come");
            for waiter in &mut self.waiters {
                if waiter.pending == 0 {
                    continue;
                }
                self.server.run(format!("CLIENT UNBLOCK {}", waiter.id));
                while waiter.pending > 0 && waiter.client.has_reply() {
                    waiter.receive(&mut self.heard);
                }
            }
        }
        for waiter in &self.waiters {
            assert_eq!(waiter.client.run(format!("ECHO {}", waiter.name)), waiter.name, "no reply was left over");
        }
        self.server.wait_blocked(0);
        // Who holds a job has heard of it, or is dead; and every lease ends.
        for db in [0, 5] {
            let admin = self.server.client();
            admin.run(format!("SELECT {db}"));
            for key in KEYS {
                for job in admin.all_jobs(key).iter().filter(|job| job["state"] == "leased") {
                    let (id, token, holder) = (job["id"].text(), job.int("token"), job["consumer"].text());
                    let known = self.heard.contains(&format!("{id} {token}")) || self.killed.contains(holder) || holder == "lua";
                    assert!(known, "{key} {id} was given to {holder}, who got nothing: {job:?}");
                    assert!(job.int("deadline") > 0, "leased for ever: {job:?}");
                }
            }
        }
        self.server.advance(2 * HOUR_MS);
        for db in [0, 5] {
            let admin = self.server.client();
            admin.run(format!("SELECT {db}"));
            for key in KEYS {
                wait_until("the end of every lease", || admin.run(format!("RQ.LEN {key} LEASED")) == 0);
            }
        }
    }
}
