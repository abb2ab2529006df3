//! The grace: the time after a load, a promotion, a pause of writes or a stall in which no lease
//! expires, so that live workers can come back to what they hold. Case B43.

use crate::harness::{wait_until, Server};
use crate::timer::{ask, woken};

/// For how long no lease expires, in ms.
fn grace_left(server: &Server) -> u64 {
    server.server_number("rq", "rq_expiry_grace_left_ms")
}

/// Waits until the server's cron, which sets this clock of whole seconds, has run.
fn wait_heartbeat(server: &Server) {
    let clock = || server.server_info("server")["lru_clock"].text().to_owned();
    for _ in 0..2 {
        let before = clock();
        wait_until("a heartbeat", || clock() != before);
    }
}

#[test]
fn the_grace_after_a_load_holds_expiry_but_not_due_jobs() {
    let mut server = Server::with(&["appendonly yes", "appendfsync always", "rq.expiry-grace 3600000"]);
    server.run("RQ.MPUSH q 2 kept reaped");
    let held = server.lease("q w COUNT 2 LEASE 3600000");
    server.push("q due DELAY 7200000");
    server.restart_later(10_000_000);
    // When the timer brings the due job, it has seen the expired leases.
    assert_eq!(woken(&ask(&server, "q")).text(), "due");
    assert_eq!(server.run("RQ.LEN q LEASED"), 3);
    assert!(server.lease("q other").is_empty());
    assert_eq!(server.codes(format!("RQ.ACK q {}", held[0])), [1], "that is what it is for");
    assert_eq!(server.run("RQ.REAP q").array().len(), 1, "RQ.REAP does not regard it");
    assert_eq!(server.lease_one("q other LEASE 7200000").id, held[1].id);
}

#[test]
fn the_grace_ends() {
    let mut server = Server::with(&["appendonly yes", "appendfsync always", "rq.expiry-grace 1500"]);
    server.push("q x");
    server.lease_one("q gone LEASE 3600000");
    let before = server.now() + 4_000_000;
    server.restart_later(4_000_000);
    let job = woken(&ask(&server, "q"));
    let delivered = server.job("q", &job.id).int("last-delivered-at");
    assert!(delivered >= before + 1_500, "{} ms after the load", delivered - before);
    assert_eq!(job.deliveries, 2);
}

#[test]
fn b43_the_grace_after_a_promotion() {
    let primary = Server::start();
    let mut replica = primary.replica(&["rq.expiry-grace 3600000"]);
    primary.push("q leased");
    let held = primary.lease_one("q w LEASE 3600000");
    primary.push("q due DELAY 7200000");
    replica.wait_in_step(&primary);
    replica.advance(10_000_000);
    replica.run("REPLICAOF NO ONE");
    assert_eq!(woken(&ask(&replica, "q")).text(), "due");
    assert_eq!(replica.state("q", &held.id), "leased");
    assert_eq!(replica.codes(format!("RQ.ACK q {held}")), [1], "tokens are good there too");
}

#[test]
fn a_pause_of_writes_begins_one_with_nothing_due_meanwhile() {
    let server = Server::with(&["rq.expiry-grace 3600000"]);
    server.push("q x");
    server.lease_one("q w LEASE 3600000");
    assert_eq!(grace_left(&server), 0, "nothing has happened yet");
    server.run("CLIENT PAUSE 600000 WRITE");
    wait_heartbeat(&server);
    assert_eq!(grace_left(&server), 0, "not before it ends");
    server.run("CLIENT UNPAUSE");
    wait_until("the grace", || grace_left(&server) > 3_000_000);
}

#[test]
fn a_stall_begins_one() {
    let server = Server::with(&["rq.expiry-grace 3600000"]);
    server.push("q x");
    server.lease_one("q w LEASE 1000");
    server.run("DEBUG SLEEP 1.2");
    assert_eq!(server.run("RQ.LEN q LEASED"), 1);
    assert!(grace_left(&server) > 3_000_000);
}

/// A slow script every few seconds, say.
#[test]
fn stalls_that_come_again_and_again_do_not_keep_leases_for_ever() {
    let server = Server::with(&["rq.expiry-grace 4000"]);
    server.push("q x");
    server.lease_one("q gone LEASE 1000");
    let mut stalls = 0;
    while server.run("RQ.LEN q READY") == 0 {
        server.run("DEBUG SLEEP 1.1");
        stalls += 1;
        assert!(stalls < 20, "the lease never expires");
        let now = server.now();
        wait_until("some time without", || server.now() > now + 2_500 || server.run("RQ.LEN q READY") == 1);
    }
}
