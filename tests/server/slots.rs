//! One job per slot, whoever says so and whatever happens to the servers. Case B65; B64 is in
//! `calendar/tests`.

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
fn b65_a_thousand_upserts_by_twenty_clients_over_ten_restarts() {
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
fn b65_a_slot_is_not_made_twice_over_failovers() {
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
        // What the new primary sends has to wait for the end of the pause, too.
        a.run(format!("REPLICAOF 127.0.0.1 {}", b.port));
        a.run("CLIENT UNPAUSE");
        a.follow(&b);
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
fn b65_what_becomes_of_a_slots_job_makes_no_other() {
    let mut s = Scene::new();
    s.run("RQ.CREATE q LEASE 36000000 BACKOFF 0 0");
    s.run(format!("RQ.SCHEDULE q x EVERY {HOUR} PAYLOAD p"));
    s.advance(HOUR);
    wait_until("the slot", || s.run("RQ.LEN q READY") == 1);
    let slot = slots(&s)[0];
    let job = s.lease_one("q w");
    s.codes(format!("RQ.NACK q {job}"));
    let job = s.lease_one("q w");
    s.run(format!("RQ.REAP q ID {}", job.id));
    let job = s.lease_one("q w");
    s.codes(format!("RQ.NACK q {job} DEAD"));
    s.codes(format!("RQ.REDRIVE q {}", job.id));
    let again = s.lease_one("q w");
    assert_eq!((&again.id, s.job("q", &again.id).int("slot-at")), (&job.id, slot));
    // Finished in the same ms as it was taken: the slot is over all the same.
    s.codes(format!("RQ.ACK q {again}"));
    let now = s.now();
    s.wait_past(now + 150);
    assert_eq!(s.info("q").ints(["length", "dead", "pushed-total"]), [0, 0, 1]);
    s.verify();
}
