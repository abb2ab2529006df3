//! A deep queue in a cluster of three primaries and three replicas, with producers and workers at
//! it all the while: its slot is moved, moves are given up and fail, nodes take over and die.
//! Cases B52, B53.

use std::time::{Duration, Instant};

use crate::harness::{jobs, patience, wait_until, Cluster, How, Job, Moving, Server, Stop, Traffic};

const Q: &str = "{w}jobs";
/// Other keys of the slot. A child that sends them one after another takes its time.
const OTHERS: usize = 40;

/// How many jobs lie in the queue while it is moved: half of them leased, half delayed.
fn depth() -> usize {
    std::env::var("RQ_CLUSTER_JOBS").map_or(100_000, |text| text.parse().expect("RQ_CLUSTER_JOBS"))
}

/// The jobs that lie in the queue, beside those of the traffic.
struct Deep {
    cluster: Cluster,
    slot: i64,
    leases: Vec<Job>,
    delayed: usize,
}

impl Deep {
    #[track_caller]
    fn start(config: &[&str]) -> Deep {
        let cluster = Cluster::with(3, 3, config);
        let (slot, home) = cluster.home(Q);
        let node = &cluster.nodes[home];
        node.run(format!("RQ.CREATE {Q} LEASE 36000000 MAXDELIVERIES 0 MAXEXPIRIES 0 JITTER none"));
        let half = depth() / 2;
        let mut leases = Vec::new();
        for from in (0..half).step_by(5_000) {
            let payloads: Vec<String> = (from..half.min(from + 5_000)).map(|n| format!("deep{n}")).collect();
            let n = payloads.len();
            node.run(format!("RQ.MPUSH {Q} {n} {} DELAY 36000000", payloads.join(" ")));
            node.run(format!("RQ.MPUSH {Q} {n} {}", payloads.join(" ")));
            leases.extend(jobs(&node.run(format!("RQ.LEASE {Q} deep COUNT 10000"))));
        }
        assert_eq!(leases.len(), half);
        for n in 0..OTHERS {
            node.run(format!("RQ.PUSH {{w}}other{n} x DELAY 36000000"));
        }
        Deep { cluster, slot, leases, delayed: half }
    }

    fn home(&self) -> usize {
        self.cluster.owner(self.slot).expect("somebody serves it")
    }

    fn node(&self, n: usize) -> &Server {
        &self.cluster.nodes[n]
    }

    /// The primaries, without the one that has the queue.
    fn others(&self) -> Vec<usize> {
        let home = self.home();
        let is_one = |n: &usize| *n != home && self.node(*n).server_info("replication")["role"] == "master";
        (0..self.cluster.nodes.len()).filter(is_one).collect()
    }

    /// Waits until a node is in step with its primary.
    #[track_caller]
    fn wait_linked(&self, replica: usize) {
        wait_until("the old primary's link", || {
            self.node(replica).server_info("replication").get("master_link_status").is_some_and(|link| *link == "up")
        });
    }

    /// Begins a move that takes its time, and waits until so many keys have come.
    #[track_caller]
    fn begin_slowly(&self, to: usize, keys: u64) {
        let from = self.home();
        self.node(from).run("CONFIG SET rdb-key-save-delay 100000");
        self.cluster.begin_move(self.slot, from, to);
        wait_until("some of the keys", || self.node(to).server_number("rq", "rq_queues") >= keys);
        self.node(from).run("CONFIG SET rdb-key-save-delay 0");
    }

    /// Lets a node take over; again if the other ones were too slow to answer it in time.
    #[track_caller]
    fn fail_over(&self, new: usize) {
        let is_primary = || self.node(new).server_info("replication")["role"] == "master";
        // Who has voted for one that was not elected then does not vote again for half a minute.
        let deadline = Instant::now() + 3 * patience();
        while !is_primary() {
            assert!(Instant::now() < deadline, "it is never elected");
            self.node(new).try_run("CLUSTER FAILOVER");
            let asked = Instant::now();
            // The server gives up after 5 seconds.
            while !is_primary() && asked.elapsed() < Duration::from_secs(6) {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
    }

    /// Jobs of which no producer knows that they were stored.
    #[track_caller]
    fn finish_unknown(&self) {
        let node = self.node(self.home());
        wait_until("the end of what nobody knows of", || {
            for job in node.lease(format!("{Q} last COUNT 1000")) {
                node.run(format!("RQ.ACK {Q} {job}"));
            }
            let all = (self.leases.len() + self.delayed) as i64;
            node.run(format!("RQ.LEN {Q}")) == all
        });
    }

    /// Nothing of the slot is at this node, nor at its replica.
    #[track_caller]
    fn expect_nothing(&self, n: usize) {
        for node in [self.node(n), self.node(self.cluster.replica_of(n))] {
            wait_until("no key, no entry of the timer, nothing to be freed", || {
                let rq = node.server_info("rq");
                node.try_run("DBSIZE") == 0 && rq["rq_queues"] == "0" && rq["rq_lazyfree_pending_queues"] == "0"
            });
            // Not the server's own figure for data: it takes off what clients had a while ago.
            let memory = || {
                let [used, startup, backlog] = ["used_memory", "used_memory_startup", "mem_replication_backlog"]
                    .map(|name| node.server_number("memory", name));
                used.saturating_sub(startup + backlog)
            };
            let deadline = Instant::now() + patience();
            while memory() > 3_000_000 {
                assert!(Instant::now() < deadline, "the memory is not given back: {}", node.run("INFO memory").text());
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }

    /// When the traffic has ended: every job is there, every token good, and time goes on.
    #[track_caller]
    fn check(self) {
        let home = self.home();
        let (node, replica) = (self.node(home), self.node(self.cluster.replica_of(home)));
        let counts = node.info(Q).ints(["length", "leased", "scheduled", "dead"]);
        let (leased, delayed) = (self.leases.len() as i64, self.delayed as i64);
        assert_eq!(counts, [leased + delayed, leased, delayed, 0]);
        assert_eq!(node.run("DBSIZE"), 1 + OTHERS as i64);
        replica.run("READONLY");
        wait_until("the same on the replica", || node.digest(Q) == replica.digest(Q));
        for n in self.others() {
            self.expect_nothing(n);
        }
        for some in self.leases.chunks(1_000) {
            let pairs: Vec<String> = some.iter().map(Job::to_string).collect();
            assert_eq!(node.codes(format!("RQ.ACK {Q} {}", pairs.join(" "))), vec![1; some.len()]);
        }
        assert_eq!(node.run(format!("RQ.LEN {Q}")), delayed);
        crate::harness::check_counters(&self.cluster.nodes.iter().collect::<Vec<_>>());
    }
}

/// Two moves on, and one home again.
#[track_caller]
fn moved_round(how: How) {
    let deep = Deep::start(&[]);
    if how == How::AtOnce && !deep.cluster.moves_at_once() {
        return;
    }
    let traffic = Traffic::start(&deep.cluster, Q, false);
    let home = deep.home();
    let others = deep.others();
    for to in [others[0], others[1], home] {
        traffic.goes_on();
        let from = deep.home();
        deep.cluster.move_slot(deep.slot, to, how);
        deep.expect_nothing(from);
    }
    traffic.goes_on();
    traffic.end();
    deep.check();
}

#[test]
fn a_deep_queue_is_moved_key_by_key_under_load() {
    moved_round(How::KeyByKey);
}

#[test]
fn b53_a_deep_queue_is_moved_at_once_under_load() {
    moved_round(How::AtOnce);
}

#[test]
fn b53_a_cancelled_move_leaves_nothing_behind() {
    let deep = Deep::start(&[]);
    if !deep.cluster.moves_at_once() {
        return;
    }
    let traffic = Traffic::start(&deep.cluster, Q, false);
    let (home, others) = (deep.home(), deep.others());
    let mut cancelled = 0;
    for keys in [1, 2, 5, 10, 20, 1, 1, 1] {
        let to = others[cancelled % 2];
        deep.begin_slowly(to, keys);
        deep.cluster.cancel_moves(home, to);
        wait_until("the move's end", || deep.cluster.move_state(home, to) != Moving::UnderWay);
        if deep.cluster.move_state(home, to) == Moving::Done {
            // The machine was too busy to be in time.
            deep.cluster.wait_owner(deep.slot, to);
            deep.cluster.move_slot(deep.slot, home, How::AtOnce);
            continue;
        }
        cancelled += 1;
        assert_eq!(deep.home(), home);
        deep.expect_nothing(to);
        traffic.goes_on();
        if cancelled == 4 {
            break;
        }
    }
    assert!(cancelled > 0, "none was cancelled in time");
    deep.cluster.move_slot(deep.slot, others[1], How::AtOnce);
    traffic.goes_on();
    traffic.end();
    deep.check();
}

#[test]
fn a_target_that_dies_leaves_the_queue_where_it_was() {
    let mut deep = Deep::start(&["appendonly yes", "appendfsync no"]);
    if !deep.cluster.moves_at_once() {
        return;
    }
    let traffic = Traffic::start(&deep.cluster, Q, false);
    let (home, others) = (deep.home(), deep.others());
    for keys in [1, 10] {
        deep.begin_slowly(others[0], keys);
        deep.cluster.nodes[others[0]].stop(Stop::Kill);
        traffic.goes_on();
        deep.cluster.nodes[others[0]].start_again(&[]);
        deep.cluster.wait_ok();
        assert_eq!(deep.home(), home);
        deep.expect_nothing(others[0]);
        wait_until("the move's end", || deep.cluster.move_state(home, others[0]) != Moving::UnderWay);
        traffic.goes_on();
    }
    deep.cluster.move_slot(deep.slot, others[0], How::AtOnce);
    traffic.goes_on();
    traffic.end();
    deep.check();
}

#[test]
fn a_deep_queue_changes_sides_under_load() {
    let deep = Deep::start(&[]);
    let traffic = Traffic::start(&deep.cluster, Q, false);
    // There and back. Not more often: Redis 8.6 takes a node that is to be elected for the second
    // time within seconds for elected already, and what that one replies is lost.
    for _ in 0..2 {
        traffic.goes_on();
        let old = deep.home();
        let new = deep.cluster.replica_of(old);
        deep.fail_over(new);
        deep.cluster.wait_owner(deep.slot, new);
        deep.wait_linked(old);
        deep.cluster.wait_ok();
    }
    traffic.goes_on();
    traffic.end();
    deep.check();
}

#[test]
fn a_deep_queue_outlives_its_primary_under_load() {
    let mut deep = Deep::start(&["rq.expiry-grace 100"]);
    let traffic = Traffic::start(&deep.cluster, Q, true);
    for _ in 0..2 {
        traffic.goes_on();
        let old = deep.home();
        let new = deep.cluster.replica_of(old);
        deep.cluster.nodes[old].stop(Stop::Kill);
        // No vote: the nodes need not agree in time that the old one is dead.
        deep.node(new).run("CLUSTER FAILOVER TAKEOVER");
        wait_until("the new primary", || deep.node(new).server_info("replication")["role"] == "master");
        deep.cluster.nodes[old].start_again(&[]);
        deep.cluster.wait_owner(deep.slot, new);
        deep.wait_linked(old);
        deep.cluster.wait_ok();
    }
    traffic.goes_on();
    traffic.end();
    deep.finish_unknown();
    deep.check();
}
