//! Servers and workers that are killed: what was acknowledged never comes back, what was not is
//! never lost. Cases B01, B02, B03, B39.

use std::collections::BTreeSet;

use crate::harness::{jobs, wait_until, Client, Server, Stop};

const ALWAYS: [&str; 3] = ["appendonly yes", "appendfsync always", "rq.expiry-grace 3600000"];

/// One worker's cycles of a blocked LEASE, a PUSH and an ACK, in several manners.
#[track_caller]
fn cycles(server: &Server, n: usize) {
    server.run("RQ.CREATE q LEASE 7200000");
    let (worker, producer) = (server.client(), server.client());
    for cycle in 0..n {
        let waits = cycle % 6 < 4;
        if waits {
            worker.send_line("RQ.LEASE q w BLOCK 0");
        }
        match cycle % 6 {
            0 => _ = producer.push(format!("q job{cycle}")),
            1 => _ = producer.run(format!("RQ.MPUSH q 1 job{cycle}")),
            2 => _ = producer.multi(&[format!("RQ.PUSH q job{cycle}")]),
            4 => _ = (producer.push(format!("q job{cycle}")), producer.run("WAIT 0 0")),
            _ => _ = producer.cmd(&["EVAL", "return redis.call('RQ.PUSH', KEYS[1], ARGV[1])", "1", "q", &format!("job{cycle}")]),
        }
        if !waits {
            worker.send_line("RQ.LEASE q w");
        }
        let job = jobs(&worker.reply()).remove(0);
        assert_eq!((job.text(), job.deliveries), (format!("job{cycle}"), 1));
        let ack = format!("RQ.ACK q {job}");
        let token = job.token.to_string();
        let code = match cycle % 7 {
            0 => worker.multi(&[ack]).remove(0),
            1 => worker.cmd(&["EVAL", "return redis.call('RQ.ACK', KEYS[1], ARGV[1], ARGV[2])", "1", "q", &job.id, &token]),
            _ => worker.run(ack),
        };
        assert_eq!(code.ints(), [1]);
    }
}

/// Leaves one job waiting and one leased, and tells what is to be found later.
#[track_caller]
fn leave_some(server: &Server) -> (crate::harness::Job, String, i64) {
    server.push("q leased");
    let leased = server.lease_one("q in-flight");
    let ready = server.push("q ready");
    let deadline = server.job("q", &leased.id).int("deadline");
    (leased, ready, deadline)
}

#[track_caller]
fn find_them(server: &Server, cycles: i64, (leased, ready, deadline): (crate::harness::Job, String, i64)) {
    let info = server.info("q");
    assert_eq!(info.ints(["acked-total", "delivered-total", "pushed-total"]), [cycles, cycles + 1, cycles + 2]);
    assert_eq!(info.ints(["length", "ready", "leased", "dead"]), [2, 1, 1, 0], "no acknowledged job is back");
    assert_eq!(server.job("q", &leased.id).ints(["token", "deadline", "deliveries"]), [leased.token, deadline, 1]);
    assert_eq!(server.lease_one("q w").id, ready);
    assert_eq!(server.codes(format!("RQ.ACK q {leased}")), [1]);
}

#[test]
fn b39_acknowledged_jobs_stay_away_after_kill_and_replay() {
    for preamble in ["yes", "no"] {
        let mut server = Server::with(&[&ALWAYS[..], &[&format!("aof-use-rdb-preamble {preamble}")]].concat());
        cycles(&server, 500);
        server.rewrite_aof();
        cycles(&server, 500);
        let left = leave_some(&server);
        server.restart(Stop::Kill);
        find_them(&server, 1000, left);
    }
}

#[test]
fn b39_acknowledged_jobs_stay_away_at_a_promoted_replica() {
    let mut primary = Server::start();
    let replica = primary.replica(&["rq.expiry-grace 3600000"]);
    cycles(&primary, 1000);
    let left = leave_some(&primary);
    replica.wait_in_step(&primary);
    primary.stop(Stop::Kill);
    replica.run("REPLICAOF NO ONE");
    find_them(&replica, 1000, left);
}

#[test]
fn b01_a_worker_that_dies_before_it_reads() {
    let mut server = Server::with(&["rq.expiry-grace 0"]);
    let accounted = |server: &Server| {
        let info = server.info("q");
        let states = info.ints(["ready", "scheduled", "retrying", "leased", "dead"]).iter().sum::<i64>();
        assert_eq!(states, info.int("pushed-total") - info.int("acked-total"));
        info.int("leased")
    };
    let other = server.client();
    other.run("PING");
    let clients = server.server_number("clients", "connected_clients");
    for round in 0..20 {
        let id = server.push(format!("q x{round}"));
        accounted(&server);
        let victim = server.client();
        let lease = if round % 4 < 2 { "RQ.LEASE q" } else { "RQ.MLEASE 2 none q" };
        victim.send_line(format!("{lease} victim{round} LEASE 3600000"));
        let mut token = 0;
        if round % 2 == 0 {
            wait_until("the lease", || accounted(&server) == 1);
            let seen = server.job("q", &id);
            assert_eq!(seen["consumer"], format!("victim{round}"));
            assert_eq!(seen.int("deliveries"), 1);
            assert!(seen.int("deadline") > 0);
            token = seen.int("token");
        }
        victim.reset();
        // Odd rounds: the command may have been lost with its connection.
        wait_until("the end of the connection", || server.server_number("clients", "connected_clients") == clients);
        server.advance(3_700_000);
        other.send_line("RQ.LEASE q other BLOCK 0 LEASE 3600000");
        let job = jobs(&other.reply()).remove(0);
        assert_eq!(job.id, id);
        assert!(job.token > token);
        assert!(job.deliveries <= 2 && (round % 2 == 1 || job.deliveries == 2), "{job:?}");
        assert_eq!(accounted(&server), 1);
        assert_eq!(other.codes(format!("RQ.ACK q {job}")), [1]);
        assert_eq!(accounted(&server), 0);
    }
}

#[test]
fn b02_killed_while_very_many_become_due() {
    for fsync in ["appendfsync always", "appendfsync everysec"] {
        killed_while_very_many_become_due(fsync);
    }
}

fn killed_while_very_many_become_due(fsync: &str) {
    let mut server = Server::with(&["appendonly yes", fsync, "rq.expiry-grace 3600000"]);
    let at = server.now() + 3_600_000;
    let payloads = vec!["x"; 1000].join(" ");
    for _ in 0..30 {
        server.run(format!("RQ.MPUSH q 1000 {payloads} AT {at}"));
    }
    server.run("RQ.CREATE leased MAXEXPIRIES 0");
    for _ in 0..10 {
        server.run(format!("RQ.MPUSH leased 1000 {payloads}"));
    }
    server.lease("leased w COUNT 10000 LEASE 3600000");
    server.advance(3_700_000);
    let reaper = server.client();
    reaper.send_line("RQ.REAP leased COUNT 5000");
    wait_until("some of them", || server.run("RQ.LEN q READY").int() > 0);
    server.restart(Stop::Kill);
    // The timer goes on at once, so only what one command shows can be added up.
    assert_eq!(server.info("q").ints(["length", "pushed-total"]), [30_000, 30_000]);
    assert_eq!(server.info("leased").ints(["length", "pushed-total"]), [10_000, 10_000]);
    wait_until("all of them", || server.run("RQ.LEN q READY") == 30_000);
    while !server.run("RQ.REAP leased COUNT 10000").array().is_empty() {}
    for (key, n) in [("q", 30_000), ("leased", 10_000)] {
        let mut ids: Vec<String> = server.all_jobs(key).iter().map(|job| job["id"].text().to_owned()).collect();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), n, "{key}: each once");
    }
    let info = server.info("leased");
    assert_eq!(info.ints(["expired-total", "ready"]), [10_000, 10_000], "one expiry each");
    assert!(server.all_jobs("leased").iter().all(|job| job.ints(["deliveries", "expiries"]) == [1, 1]));
}

/// All of them are leased, each until a time.
#[track_caller]
fn all_are_leased(server: &Server, key: &str, n: usize) {
    let jobs = server.all_jobs(key);
    assert_eq!(jobs.len(), n, "{key}");
    assert!(jobs.iter().all(|job| job["state"] == "leased" && job.int("deadline") > 0), "{key}");
}

/// Their time is over: each comes back once, and none is left behind.
#[track_caller]
fn all_come_back(server: &Server, key: &str, n: usize) {
    server.run(format!("RQ.REAP {key} COUNT 300"));
    wait_until("the last of them", || server.run(format!("RQ.LEN {key} LEASED")) == 0);
    assert_eq!(server.info(key).ints(["ready", "expired-total"]), [n as i64, n as i64], "{key}");
    assert!(server.all_jobs(key).iter().all(|job| job.ints(["deliveries", "expiries"]) == [1, 1]), "{key}");
}

#[test]
fn b03_every_lease_ends_whatever_became_of_its_queue() {
    const JOBS: usize = 1000;
    let mut server = Server::with(&["appendonly yes", "appendfsync always", "rq.expiry-grace 0"]);
    server.run("RQ.CREATE q MAXEXPIRIES 0 MAXDELIVERIES 0");
    server.run(format!("RQ.MPUSH q {JOBS}{}", " x".repeat(JOBS)));
    server.lease("q w COUNT 10000 LEASE 3600000");
    let dump = server.run("DUMP q").bytes().to_vec();
    server.cmd(&[b"RESTORE".as_slice(), b"restored", b"0", &dump]);
    server.run("COPY q copied");
    server.run("COPY q renamed");
    server.run("RENAME renamed again");
    let keys = ["q", "restored", "copied", "again"];
    server.restart(Stop::Kill);
    keys.iter().for_each(|key| all_are_leased(&server, key, JOBS));
    for preamble in ["yes", "no"] {
        server.run(format!("CONFIG SET aof-use-rdb-preamble {preamble}"));
        server.rewrite_aof();
        server.restart(Stop::Kill);
        keys.iter().for_each(|key| all_are_leased(&server, key, JOBS));
    }
    server.run("DEBUG RELOAD");
    keys.iter().for_each(|key| all_are_leased(&server, key, JOBS));
    let mut promoted = server.replica(&["rq.expiry-grace 0"]);
    keys.iter().for_each(|key| all_are_leased(&promoted, key, JOBS));
    promoted.run("REPLICAOF NO ONE");
    for server in [&mut server, &mut promoted] {
        server.advance(3_700_000);
        keys.iter().for_each(|key| all_come_back(server, key, JOBS));
    }
}

#[test]
fn killed_again_and_again_under_load() {
    let mut server = Server::with(&["appendonly yes", "appendfsync always", "rq.expiry-grace 0"]);
    server.run("RQ.CREATE q LEASE 100 MAXEXPIRIES 0 MAXDELIVERIES 0 BACKOFF 0 0");
    let mut acked = BTreeSet::new();
    let mut pushed = BTreeSet::new();
    for round in 0..6 {
        let (producer, worker) = (server.client(), server.client());
        for n in 0..100 {
            pushed.insert(producer.push(format!("q job{round}.{n}")));
            for job in jobs(&worker.run("RQ.LEASE q w COUNT 2 BLOCK 5")) {
                assert!(!acked.contains(&job.id), "{} was acknowledged", job.id);
                if n % 3 != 0 && worker.codes(format!("RQ.ACK q {job}")) == [1] {
                    acked.insert(job.id);
                }
            }
        }
        server.restart(Stop::Kill);
    }
    let worker: Client = server.client();
    while server.run("RQ.LEN q").int() > 0 {
        for job in jobs(&worker.run("RQ.LEASE q w COUNT 100 BLOCK 200 LEASE 7200000")) {
            assert!(acked.insert(job.id.clone()), "{} was acknowledged", job.id);
            assert_eq!(worker.codes(format!("RQ.ACK q {job}")), [1]);
        }
    }
    assert_eq!(acked, pushed, "every job once");
}
