//! Queues in a cluster whose slot goes from node to node, while nodes change sides and die.

use std::sync::atomic::Ordering::SeqCst;

use crate::clients::{drain, QUEUES};
use crate::harness::{check_counters, wait_until, Cluster, How, Moving, Server, Stop};
use crate::ledger::{Doubt, Totals};
use crate::nemesis::{at_work, create};
use crate::world::{now, sleep, Chance, World};

/// How long a seed plays, in steps of the nemesis.
const STEPS: u64 = 12;
/// What lies in the queue meanwhile.
const DEEP: usize = 20_000;

struct Nemesis<'a> {
    chance: Chance,
    world: &'a World,
    cluster: Cluster,
    slot: i64,
    /// Moves, moves given up, deaths of targets, failovers, deaths of primaries.
    done: [u64; 5],
}

pub fn run(seed: u64) -> Totals {
    let cluster = Cluster::with(3, 3, &["rq.expiry-grace 50", "appendonly yes", "appendfsync always"]);
    let (slot, home) = cluster.home(QUEUES[0]);
    let world = World::new(cluster.nodes[home].port);
    println!("shards, CHAOS_SEED={seed}");
    create(&cluster.nodes[home]);
    for _ in 0..DEEP / 1_000 {
        cluster.nodes[home].run(format!("RQ.MPUSH {{q}}deep 1000 {} DELAY 36000000", vec!["x"; 1_000].join(" ")));
        cluster.nodes[home].run(format!("RQ.MPUSH {{q}}deep 1000 {}", vec!["x"; 1_000].join(" ")));
        cluster.nodes[home].run("RQ.LEASE {q}deep w COUNT 1000 LEASE 36000000");
    }
    let mut nemesis = Nemesis { chance: Chance::new(seed, 0), world: &world, cluster, slot, done: [0; 5] };
    at_work(&world, seed, false, || {
        for _ in 0..STEPS {
            sleep(nemesis.chance.of(&[1, 50, 200]));
            nemesis.step();
            if !world.ledger().findings.is_empty() {
                break;
            }
        }
    });
    nemesis.end(seed);
    let totals = world.ledger().totals;
    totals
}

impl Nemesis<'_> {
    fn fault(&self, text: &str) {
        self.world.ledger().fault(text.to_owned());
    }

    fn home(&self) -> usize {
        let mut home = None;
        wait_until("somebody's serving the slot", || {
            home = self.cluster.owner(self.slot);
            home.is_some()
        });
        home.expect("it was waited for")
    }

    fn role(&self, n: usize) -> String {
        self.cluster.nodes[n].server_info("replication")["role"].text().to_owned()
    }

    /// Another primary.
    fn target(&mut self) -> usize {
        let home = self.home();
        let others: Vec<usize> = (0..6).filter(|n| *n != home && self.role(*n) == "master").collect();
        self.chance.of(&others)
    }

    fn step(&mut self) {
        match self.chance.below(10) {
            0..3 => self.go(How::AtOnce),
            3..5 => self.go(How::KeyByKey),
            5..7 => self.give_up(),
            7 => self.lose_target(),
            8 => self.fail_over(),
            _ => self.lose_primary(),
        }
    }

    fn go(&mut self, how: How) {
        let how = if self.cluster.moves_at_once() { how } else { How::KeyByKey };
        let to = self.target();
        self.fault(&format!("{how:?} to {}", self.cluster.nodes[to].port));
        self.cluster.move_slot(self.slot, to, how);
        self.done[0] += 1;
    }

    /// A move that ends in the middle, somewhere.
    fn give_up(&mut self) {
        if !self.cluster.moves_at_once() {
            return;
        }
        let (from, to) = (self.home(), self.target());
        self.fault(&format!("a move to {} that is cancelled", self.cluster.nodes[to].port));
        self.cluster.begin_move(self.slot, from, to);
        sleep(self.chance.below(120));
        self.cluster.cancel_moves(from, to);
        wait_until("the move's end", || self.cluster.move_state(from, to) != Moving::UnderWay);
        self.done[1] += u64::from(self.cluster.move_state(from, to) == Moving::Failed);
    }

    fn lose_target(&mut self) {
        if !self.cluster.moves_at_once() {
            return;
        }
        let (from, to) = (self.home(), self.target());
        self.fault(&format!("a move to {} that dies", self.cluster.nodes[to].port));
        self.cluster.begin_move(self.slot, from, to);
        sleep(self.chance.below(120));
        self.cluster.nodes[to].stop(Stop::Kill);
        sleep(self.chance.below(50));
        self.cluster.nodes[to].start_again(&[]);
        self.cluster.wait_ok();
        self.done[2] += 1;
    }

    fn linked(&self, replica: usize) {
        wait_until("the replica's link", || {
            self.cluster.nodes[replica].server_info("replication").get("master_link_status").is_some_and(|link| *link == "up")
        });
    }

    fn fail_over(&mut self) {
        let old = self.home();
        let new = self.cluster.replica_of(old);
        self.linked(new);
        self.fault(&format!("failover to {}", self.cluster.nodes[new].port));
        let from = now();
        let node = &self.cluster.nodes[new];
        node.run("CLUSTER FAILOVER");
        wait_until("the failover", || self.role(new) == "master" || now() > from + 10_000);
        sleep(200);
        // Redis may elect it too early, and take it back; what it replied is lost then.
        if !node.is_valkey() {
            self.world.ledger().doubts.push(Doubt { from, to: now(), failover: true });
        }
        wait_until("one side for each", || self.role(new) != self.role(old));
        self.linked(if self.role(new) == "master" { old } else { new });
        self.done[3] += 1;
    }

    fn lose_primary(&mut self) {
        let old = self.home();
        let new = self.cluster.replica_of(old);
        self.linked(new);
        self.fault(&format!("kill {}, promote {}", self.cluster.nodes[old].port, self.cluster.nodes[new].port));
        let from = now();
        // What was answered before this is on the replica.
        self.cluster.nodes[new].wait_in_step(&self.cluster.nodes[old]);
        self.cluster.nodes[old].stop(Stop::Kill);
        self.world.port.store(self.cluster.nodes[new].port, SeqCst);
        // No vote: the nodes need not agree in time that the old one is dead.
        self.cluster.nodes[new].run("CLUSTER FAILOVER TAKEOVER");
        wait_until("the new primary", || self.role(new) == "master");
        self.cluster.nodes[old].start_again(&[]);
        wait_until("the old one's new side", || self.role(old) == "slave");
        self.linked(old);
        self.cluster.wait_ok();
        self.world.ledger().doubts.push(Doubt { from, to: now(), failover: true });
        self.done[4] += 1;
    }

    /// Everything drains, the ledger agrees, and there is one truth on all nodes.
    fn end(&mut self, seed: u64) {
        let name = format!("shards, CHAOS_SEED={seed}");
        self.fault("the end");
        let home = self.home();
        let node: &Server = &self.cluster.nodes[home];
        self.world.port.store(node.port, SeqCst);
        drain(self.world, seed);
        let infos = QUEUES.map(|queue| (queue, node.info(queue)));
        let deep = node.info("{q}deep").ints(["leased", "scheduled"]);
        let mut ledger = self.world.ledger();
        let half = DEEP as i64;
        if deep != [half, half] {
            ledger.finding(format!("of {half} leased and {half} delayed jobs there are {deep:?}"));
        }
        ledger.judge_end(&infos);
        ledger.verdict(&name);
        let [moves, given_up, targets, failovers, deaths] = self.done;
        println!(
            "{name}: {}; {moves} moves, {given_up} cancelled, {targets} targets killed, {failovers} failovers, \
             {deaths} primaries killed",
            ledger.totals
        );
        drop(ledger);
        let replica = &self.cluster.nodes[self.cluster.replica_of(home)];
        replica.run("READONLY");
        for queue in [QUEUES[0], QUEUES[1], QUEUES[2], "{q}deep"] {
            wait_until("the same on the replica", || node.digest(queue) == replica.digest(queue));
        }
        for n in 0..6 {
            let other = &self.cluster.nodes[n];
            if other.port != node.port && other.port != replica.port {
                wait_until("nothing elsewhere", || other.try_run("DBSIZE") == 0 && other.server_number("rq", "rq_queues") == 0);
            }
        }
        check_counters(&self.cluster.nodes.iter().collect::<Vec<_>>());
    }
}
