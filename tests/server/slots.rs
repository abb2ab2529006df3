//! One job per slot, whoever says so and whatever happens to the servers; and jobs of every
//! origin meet the same limits. Cases B62, B64, B65.

use crate::harness::{check_equal, jobs, wait_until, Client, Scene, Server, Stop};

const HOUR: i64 = 3_600_000;

fn slots(c: &Client) -> Vec<i64> {
    let mut slots: Vec<i64> =
        c.all_jobs("q").iter().filter(|job| !job["schedule"].is_null()).map(|job| job.int("due-at")).collect();
    slots.sort_unstable();
    slots
}

/// Every slot from the first on, once each.
#[track_caller]
fn complete(slots: &[i64], start: i64, every: i64) {
    let expected: Vec<i64> = (0..).map(|n| start + n * every).take(slots.len()).collect();
    assert_eq!(slots, expected);
}

#[test]
fn a_thousand_upserts_by_twenty_clients_over_ten_restarts() {
    let mut server = Server::with(&["appendonly yes", "appendfsync always"]);
    let start = server.now() + 300;
    let line = format!("RQ.SCHEDULE q x EVERY 200 START {start} MISSED all PAYLOAD p");
    let mut made = 0;
    for round in 0..10 {
        let clients: Vec<Client> = (0..20).map(|_| server.client()).collect();
        for _ in 0..5 {
            clients.iter().for_each(|client| client.send_line(&line));
            for client in &clients {
                let code = client.reply().array()[0].int();
                made += i64::from(code == 1);
                assert!(code == 0 || code == 1, "{code} in round {round}");
            }
        }
        let now = server.now();
        server.wait_past(now + 150);
        if round == 4 {
            server.rewrite_aof();
        }
        server.restart(Stop::Kill);
    }
    assert_eq!(made, 1);
    let now = server.now();
    wait_until("the last slots", || slots(&server).last().is_some_and(|last| *last > now));
    server.run("RQ.UNSCHEDULE q x");
    complete(&slots(&server), start, 200);
}

#[test]
fn a_slot_is_not_made_twice_over_failovers() {
    let mut a = Server::with(&["rq.expiry-grace 0"]);
    let mut b = a.replica(&["rq.expiry-grace 0"]);
    let start = a.now() + 100;
    a.run(format!("RQ.SCHEDULE q x EVERY 100 START {start} MISSED all PAYLOAD p"));
    for _ in 0..6 {
        let before = slots(&a).len();
        wait_until("some slots", || slots(&a).len() > before + 2);
        // No writes while one server hands over to the other, as FAILOVER does it.
        a.run("CLIENT PAUSE 60000 WRITE");
        b.wait_in_step(&a);
        b.run("REPLICAOF NO ONE");
        a.follow(&b);
        a.run("CLIENT UNPAUSE");
        (a, b) = (b, a);
    }
    let now = a.now();
    wait_until("the last slots", || slots(&a).last().is_some_and(|last| *last > now));
    a.run("RQ.UNSCHEDULE q x");
    complete(&slots(&a), start, 100);
    check_equal(&a, &b);
}

#[test]
fn a_promoted_replica_makes_the_slots_and_wakes_its_workers() {
    let primary = Server::start();
    let mut replica = primary.replica(&[]);
    let start = primary.now() + HOUR;
    primary.run(format!("RQ.SCHEDULE q x EVERY {HOUR} START {start} MISSED all PAYLOAD p"));
    replica.wait_in_step(&primary);
    replica.advance(2 * HOUR + 60_000);
    let now = replica.now();
    replica.wait_past(now + 300);
    assert_eq!(replica.run("RQ.LEN q"), 0, "a replica makes none");
    replica.run("REPLICAOF NO ONE");
    let worker = replica.client();
    worker.send_line("RQ.LEASE q w BLOCK 0");
    jobs(&worker.reply());
    wait_until("the slots", || replica.run("RQ.LEN q") == 2);
    complete(&slots(&replica).iter().map(|slot| slot - slot % 1_000).collect::<Vec<_>>(), start - start % 1_000, HOUR);
}

#[test]
fn slots_missed_while_the_server_was_down() {
    let mut server = Server::with(&["appendonly yes", "appendfsync always"]);
    let start = server.now() + HOUR;
    for missed in ["one", "skip", "all"] {
        server.run(format!("RQ.SCHEDULE {missed} x EVERY {HOUR} START {start} MISSED {missed} PAYLOAD p"));
    }
    server.restart_later(4 * HOUR + HOUR / 2);
    wait_until("the slots", || server.run("RQ.LEN all READY") == 4 && server.run("RQ.LEN one READY") == 1);
    assert_eq!(server.all_jobs("one")[0].int("due-at"), start + 3 * HOUR, "the last of them");
    assert_eq!(server.run("RQ.LEN skip"), 0);
    server.restart(Stop::Kill);
    assert_eq!((server.run("RQ.LEN all READY").int(), server.run("RQ.LEN one READY").int()), (4, 1), "not again");
}

#[test]
fn schedules_go_with_the_key() {
    let mut s = Scene::new();
    s.run("RQ.SCHEDULE old x EVERY 3600000 PAYLOAD p");
    s.run("RENAME old q");
    let dump = s.run("DUMP q").bytes().to_vec();
    s.run("DEL q");
    s.cmd(&[b"RESTORE".as_slice(), b"q", b"0", &dump]);
    s.run("MOVE q 9");
    s.run("SWAPDB 0 9");
    let worker = s.client();
    worker.send_line("RQ.LEASE q w BLOCK 0 LEASE 36000000");
    s.wait_blocked(1);
    s.advance(HOUR);
    assert_eq!(jobs(&worker.reply())[0].text(), "p");
    s.run("DEL q");
    s.advance(2 * HOUR);
    assert_eq!(s.run("EXISTS q"), 0, "it ends with the key");
    s.verify();
}

#[test]
fn poison_of_every_origin_meets_the_same_limits() {
    let mut s = Scene::new();
    s.run("RQ.CREATE q MAXDELIVERIES 2 BACKOFF 0 0 LEASE 36000000");
    let fail = |s: &Scene, id: &str, origin: &str| {
        for delivery in 1..=2 {
            let job = s.lease_one("q w");
            assert_eq!((job.id.as_str(), job.deliveries), (id, delivery), "{origin}");
            let code = s.codes(format!("RQ.NACK q {job} ERROR poison"));
            assert_eq!(code, [delivery], "{origin}: 1 will be retried, 2 went to dead");
        }
        let dead = s.job("q", id);
        assert_eq!((dead["state"].text(), dead["reason"].text(), dead["error"].text()), ("dead", "failed", "poison"), "{origin}");
        assert_eq!(dead.int("deliveries"), 2, "{origin}");
    };
    let first = s.push("q x");
    fail(&s, &first, "push");
    let batch = s.run("RQ.MPUSH q 1 x").texts();
    fail(&s, &batch[0], "batch");
    s.codes(format!("RQ.REDRIVE q {first}"));
    fail(&s, &first, "redrive");
    // The oldest: which of the two that is depends on the millisecond.
    s.run("RQ.REDRIVE q COUNT 1");
    let redriven = s.run("RQ.PEEK q READY").array()[1].array()[0].fields()["id"].text().to_owned();
    fail(&s, &redriven, "redrive of many");
    s.run("RQ.SCHEDULE q every EVERY 3600000 LIMIT 1 PAYLOAD x");
    s.advance(HOUR);
    wait_until("the slot", || s.run("RQ.LEN q READY") == 1);
    let slot = s.run("RQ.PEEK q READY").array()[1].array()[0].fields()["id"].text().to_owned();
    fail(&s, &slot, "schedule");
    s.run("RQ.PUSH q x DEDUP k");
    let owner = s.lease_one("q w");
    s.run("RQ.PUSH q x DEDUP k KEEPLAST");
    s.codes(format!("RQ.ACK q {owner}"));
    let held = s.run("RQ.GET q DEDUP k").fields()["id"].text().to_owned();
    fail(&s, &held, "held duplicate");
    assert_eq!(s.info("q").ints(["dead", "length"]), [4, 0]);
    s.verify();
}
