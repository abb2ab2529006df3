//! One run: servers, clients, and what befalls them.

use std::sync::atomic::Ordering::SeqCst;
use std::sync::RwLockWriteGuard;

use crate::clients::{drain, Producer, Worker, MAXDELIVERIES, NARROW, ORDERED, QUEUES};
use crate::harness::{check_counters, check_equal, check_files, stock, wait_until, Client, Server, Stop};
use crate::ledger::{Doubt, Totals};
use crate::world::{now, sleep, Chance, Conn, World};

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Servers crash, nothing that was answered is lost.
    Always,
    /// A crash may lose the last seconds.
    Everysec,
    /// The replica takes over.
    Failover,
    /// A cache presses the queues out, and the server crashes meanwhile.
    Eviction,
}

/// What the servers of [`Kind::Eviction`] have beside.
const CACHE: [&str; 3] = ["maxmemory 6mb", "maxmemory-policy allkeys-random", "repl-backlog-size 64kb"];

/// How long a seed plays, in steps of the nemesis.
const STEPS: u64 = 40;

/// More than the server ever keeps to itself: it writes each second, or after two if the disk is slow.
const UNSYNCED_MS: i64 = 5_000;

struct Nemesis<'a> {
    kind: Kind,
    chance: Chance,
    world: &'a World,
    primary: Server,
    replica: Server,
}

pub fn run(kind: Kind, seed: u64) -> Totals {
    let fsync = if kind == Kind::Everysec { "everysec" } else { "always" };
    let fsync = format!("appendfsync {fsync}");
    let mut config = vec!["appendonly yes", &fsync, "rq.expiry-grace 50"];
    if kind == Kind::Eviction {
        config.extend(CACHE);
    }
    let primary = Server::with(&config);
    let replica = primary.replica(&config);
    let world = World::new(primary.port);
    // A test that fails shows it, also one that does not get to its verdict.
    println!("{kind:?}, CHAOS_SEED={seed}, servers at {} and {}", primary.port, replica.port);
    let mut nemesis = Nemesis { kind, chance: Chance::new(seed, 0), world: &world, primary, replica };
    create(&nemesis.primary);
    at_work(&world, seed, kind == Kind::Eviction, || {
        for _ in 0..STEPS {
            sleep(nemesis.chance.of(&[1, 20, 60, 150]));
            nemesis.step();
            if !world.ledger().findings.is_empty() {
                break;
            }
        }
    });
    let name = format!("{kind:?}, CHAOS_SEED={seed}");
    nemesis.end(&name, seed);
    let totals = world.ledger().totals;
    totals
}

/// Makes the queues.
pub fn create(primary: &Client) {
    for queue in QUEUES {
        let more = match queue {
            ORDERED => "GROUPORDER yes",
            NARROW => "GROUPLIMIT 2 CONCURRENCY 5",
            _ => "",
        };
        let line = format!("RQ.CREATE {queue} LEASE 800 MAXDELIVERIES {MAXDELIVERIES} MAXEXPIRIES 0 BACKOFF 5 50 {more}");
        // What was just removed may not have been freed yet.
        wait_until("memory", || !primary.try_run(&line).is_error());
    }
}

/// Producers and workers, and perhaps a cache, at work until `faults` are done.
pub fn at_work(world: &World, seed: u64, cache: bool, faults: impl FnOnce()) {
    std::thread::scope(|scope| {
        // Also if the nemesis fails.
        let _stop = StopAtEnd(world);
        for n in 0..3 {
            scope.spawn(move || Producer::new(world, seed, n).run());
        }
        for n in 0..6 {
            scope.spawn(move || Worker::new(world, seed, n).run());
        }
        if cache {
            scope.spawn(move || fill_cache(world, seed));
        }
        faults();
    });
    world.stop.store(false, SeqCst);
}

/// More cache than there is memory, by commands that are short to hear and to write.
fn fill_cache(world: &World, seed: u64) {
    let (mut conn, mut chance) = (Conn::new(0), Chance::new(seed, 200));
    while !world.stopped() {
        let line = format!("SETRANGE cache{} 49999 x", chance.below(100_000));
        conn.ask(world, &mut chance, &line);
        sleep(1);
    }
}

/// Nothing is on its way but leases.
fn alone(world: &World) -> RwLockWriteGuard<'_, ()> {
    world.gate.write().expect("the gate")
}

struct StopAtEnd<'a>(&'a World);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, SeqCst);
    }
}

impl Nemesis<'_> {
    fn fault(&self, text: impl Into<String>) {
        self.world.ledger().fault(text.into());
    }

    fn step(&mut self) {
        match self.chance.below(16) {
            0..4 if self.kind == Kind::Failover => self.failover(),
            0..3 => self.crash(),
            3 => self.stop_and_go(),
            4 => self.crash_replica(),
            5 => self.resync(),
            6 => self.anew(),
            7 => self.rename_and_swap(),
            8 => self.pause_queue(),
            _ => self.small_fault(),
        }
    }

    /// What one command does.
    fn small_fault(&mut self) {
        let ms = self.chance.of(&[1, 30, 100]);
        let line = match self.chance.below(9) {
            0 => format!("CLIENT PAUSE {ms} WRITE"),
            1 => format!("CLIENT PAUSE {ms} ALL"),
            2 => "CLIENT KILL TYPE normal SKIPME yes".to_owned(),
            3 => "BGREWRITEAOF".to_owned(),
            4 => "BGSAVE".to_owned(),
            5 => format!("CONFIG SET rq.expiry-grace {}", self.chance.of(&[0, 50, 200])),
            6 => format!("CONFIG SET rq.max-payload {}", self.chance.of(&[100, 100_000])),
            7 => format!("CONFIG SET aof-use-rdb-preamble {}", self.chance.of(&["yes", "no"])),
            _ if self.kind == Kind::Eviction => {
                format!("CONFIG SET maxmemory-policy allkeys-{}", self.chance.of(&["lru", "lfu", "random"]))
            }
            _ => format!("CONFIG SET rq.eviction-guard {}", self.chance.of(&["refuse", "warn", "off"])),
        };
        self.fault(&line);
        // A background child may be at work already.
        self.primary.try_run(line);
    }

    fn crash(&mut self) {
        let from = now();
        self.fault("kill the primary");
        self.primary.stop(Stop::Kill);
        sleep(self.chance.of(&[0, 50]));
        self.primary.start_again(&[]);
        // The port may have been taken.
        self.world.port.store(self.primary.port, SeqCst);
        self.replica.run(format!("REPLICAOF 127.0.0.1 {}", self.primary.port));
        if self.kind == Kind::Everysec {
            self.world.ledger().doubts.push(Doubt { from: from - UNSYNCED_MS, to: now(), failover: false });
        }
        self.fault("the primary is back");
    }

    fn stop_and_go(&mut self) {
        let server = if self.chance.one_in(2) { &self.primary } else { &self.replica };
        self.world.ledger().fault(format!("stop the server at {}", server.port));
        server.signal(libc::SIGSTOP);
        sleep(self.chance.of(&[5, 100, 400]));
        server.signal(libc::SIGCONT);
    }

    fn crash_replica(&mut self) {
        self.fault("kill the replica");
        self.replica.stop(Stop::Kill);
        self.replica.start_again(&[]);
        self.replica.run(format!("REPLICAOF 127.0.0.1 {}", self.primary.port));
    }

    /// All of it anew, over a file or without.
    fn resync(&mut self) {
        let (sync, load) = (self.chance.of(&["yes", "no"]), self.chance.of(&["disabled", "swapdb", "on-empty-db"]));
        self.fault(format!("full resync, diskless {sync}, {load}"));
        self.primary.run(format!("CONFIG SET repl-diskless-sync {sync}"));
        self.replica.run(format!("CONFIG SET repl-diskless-load {load}"));
        self.replica.run("REPLICAOF NO ONE");
        // Of another history, so that it must be a full one.
        self.replica.run("SET another history");
        self.replica.run(format!("REPLICAOF 127.0.0.1 {}", self.primary.port));
    }

    fn linked(&self) {
        wait_until("the replica's link", || self.replica.server_info("replication")["master_link_status"] == "up");
    }

    /// The replica becomes the primary, in one of four ways.
    fn failover(&mut self) {
        self.linked();
        let from = now();
        self.replica.wait_in_step(&self.primary);
        let doubt = match self.chance.below(4) {
            0 => {
                self.fault("failover by the server");
                let line = format!("FAILOVER TO 127.0.0.1 {} TIMEOUT 20000", self.replica.port);
                if self.primary.try_run(line).is_error() {
                    return;
                }
                wait_until("the new primary", || self.replica.server_info("replication")["role"] == "master");
                false
            }
            1 => {
                let _alone = alone(self.world);
                self.fault("failover with nothing on its way");
                // Leases are outside of the gate.
                self.primary.run("CLIENT PAUSE 100000 WRITE");
                self.replica.wait_in_step(&self.primary);
                self.replica.run("REPLICAOF NO ONE");
                self.world.port.store(self.replica.port, SeqCst);
                self.primary.run(format!("REPLICAOF 127.0.0.1 {}", self.replica.port));
                self.primary.run("CLIENT UNPAUSE");
                false
            }
            2 => {
                self.fault("kill the primary, promote");
                self.primary.stop(Stop::Kill);
                self.replica.run("REPLICAOF NO ONE");
                self.world.port.store(self.replica.port, SeqCst);
                self.primary.start_again(&[]);
                self.primary.run(format!("REPLICAOF 127.0.0.1 {}", self.replica.port));
                true
            }
            _ => {
                self.fault("promote, the old one goes on for a while");
                self.replica.run("REPLICAOF NO ONE");
                sleep(self.chance.of(&[0, 20]));
                self.primary.run(format!("REPLICAOF 127.0.0.1 {}", self.replica.port));
                self.world.port.store(self.replica.port, SeqCst);
                true
            }
        };
        std::mem::swap(&mut self.primary, &mut self.replica);
        self.world.port.store(self.primary.port, SeqCst);
        if doubt {
            self.world.ledger().doubts.push(Doubt { from, to: now(), failover: true });
        }
        self.fault(format!("the primary is at {}", self.primary.port));
    }

    /// The ledger begins anew with the data.
    fn anew(&mut self) {
        let _alone = alone(self.world);
        self.fault("FLUSHALL");
        // A queue may have been lost with its server since it was made.
        for queue in QUEUES.iter().filter(|queue| self.primary.run(format!("EXISTS {queue}")) == 1) {
            self.world.ledger().totals.died(&self.primary.info(queue));
        }
        self.world.ledger().judge();
        self.primary.run(format!("FLUSHALL {}", self.chance.of(&["SYNC", "ASYNC"])));
        self.world.ledger().forget();
        create(&self.primary);
    }

    /// With waiters blocked; whoever settles or pushes does not get between.
    fn rename_and_swap(&mut self) {
        let _alone = alone(self.world);
        let queue = self.chance.of(&QUEUES);
        let lines = match self.chance.below(3) {
            0 => vec![format!("RENAME {queue} elsewhere"), format!("RENAME elsewhere {queue}")],
            1 => vec!["SWAPDB 0 5".to_owned(), "SWAPDB 5 0".to_owned()],
            _ => vec![format!("MOVE {queue} 5"), "SELECT 5".to_owned(), format!("MOVE {queue} 0"), "SELECT 0".to_owned()],
        };
        self.fault(lines.join(", "));
        if self.chance.one_in(2) {
            self.primary.multi(&lines);
        } else {
            lines.iter().for_each(|line| _ = self.primary.run(line));
        }
    }

    fn pause_queue(&mut self) {
        let line = format!("RQ.PAUSE {} {} FOR 80", self.chance.of(&QUEUES), self.chance.of(&["OUT", "IN", "OUT GROUP g1"]));
        self.fault(&line);
        self.primary.run(line);
    }

    /// Everything drains, the ledger agrees, and there is one truth on primary, replica and disk.
    fn end(&mut self, name: &str, seed: u64) {
        self.fault("the end");
        for server in [&self.primary, &self.replica] {
            server.run("CLIENT UNPAUSE");
            server.run("CONFIG SET maxmemory 0");
            server.run("CONFIG SET rq.expiry-grace 0");
        }
        self.linked();
        drain(self.world, seed);
        let infos = QUEUES.map(|queue| (queue, self.primary.info(queue)));
        {
            let mut ledger = self.world.ledger();
            ledger.judge_end(&infos);
            ledger.verdict(name);
            if self.kind == Kind::Eviction {
                println!("{name}: queues put back since the last crash: {}", self.primary.server_info("rq")["rq_rescued_queues"].text());
            }
            println!("{name}: {}, {} eras", ledger.totals, ledger.era + 1);
        }
        self.primary.wait_blocked(0);
        stock(&self.primary, "stock");
        check_equal(&self.primary, &self.replica);
        check_files(&self.primary);
        check_equal(&self.primary, &self.replica);
        check_counters(&[&self.primary, &self.replica]);
    }
}
