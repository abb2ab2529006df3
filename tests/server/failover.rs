//! The other server takes over: tokens, deadlines and counts are good there. Cases B13, B18 (see
//! `timer.rs`), B39 (see `crash.rs`).

use crate::harness::{check_equal, jobs, stock, Client, Server};

/// A primary and its replica, for a test that turns them round.
fn pair() -> (Server, Server) {
    let primary = Server::with(&["rq.expiry-grace 0"]);
    let replica = primary.replica(&["rq.expiry-grace 0"]);
    (primary, replica)
}

/// The replica becomes the primary, the primary its replica.
#[track_caller]
fn switch(primary: &Server, replica: &Server) {
    replica.wait_in_step(primary);
    replica.run("REPLICAOF NO ONE");
    primary.follow(replica);
}

#[test]
fn leases_go_on_at_the_new_primary() {
    let (old, new) = pair();
    let q = stock(&old, "q");
    let before = old.all_jobs("q");
    switch(&old, &new);
    assert_eq!(new.all_jobs("q"), before);
    assert!(old.error(format!("RQ.ACK q {}", q.leased)).starts_with("READONLY "));
    assert_eq!(new.codes(format!("RQ.EXTEND q {}", q.leased)), [1]);
    assert_eq!(new.codes(format!("RQ.ACK q {}", q.leased)), [1]);
    let next = new.lease_one("q w");
    assert!(next.token > q.leased.token);
    assert!(new.push("q later") > q.ready);
    check_equal(&new, &old);
}

#[test]
fn b13_the_count_goes_on() {
    let (old, new) = pair();
    old.run("RQ.CREATE q LEASE 7200000 MAXEXPIRIES 0");
    let id = old.push("q x");
    for n in 1..=2 {
        assert_eq!(old.lease_one("q w").deliveries, n);
        old.run(format!("RQ.REAP q ID {id}"));
    }
    switch(&old, &new);
    assert_eq!(new.lease_one("q w").deliveries, 3);
    new.run(format!("RQ.REAP q ID {id}"));
    switch(&new, &old);
    assert_eq!(old.lease_one("q w").deliveries, 4);
    check_equal(&old, &new);
}

#[test]
fn a_new_primary_whose_clock_is_behind() {
    for behind in [1_800_000, 7_200_000] {
        let old = Server::with(&["rq.expiry-grace 0"]);
        let mut new = Server::with(&["rq.expiry-grace 0"]);
        new.advance(-behind);
        new.follow(&old);
        let q = stock(&old, "q");
        let last = old.push("q last");
        let due = old.push("q due DELAY 18000000");
        switch(&old, &new);
        // Ids and tokens go on growing, and what is ready is leased at once.
        assert!(new.push("q next") > due, "behind by {behind}");
        let jobs = new.lease("q w COUNT 10 LEASE 3600000");
        let mut expected = vec!["ready", "last", "next"];
        // It does not believe that it is more than an hour behind. Then a deadline is further
        // ahead than any lease can last, and is over rather than never.
        let believes = behind < 3_600_000;
        if !believes {
            expected.insert(0, "leased");
        }
        assert_eq!(jobs.iter().map(|job| job.text()).collect::<Vec<_>>(), expected);
        assert!(jobs.iter().all(|job| job.token > q.leased.token) && jobs.iter().any(|job| job.id == last));
        assert_eq!(new.codes(format!("RQ.EXTEND q {}", q.leased)), [i64::from(believes)]);
        assert_eq!(new.codes(format!("RQ.ACK q {}", jobs[1])), [1]);
        assert_eq!(new.state("q", &due), "delayed");
        // Its leases end, at the latest when its clock has caught up.
        new.advance(behind + 7_300_000);
        crate::harness::wait_until("the expiry", || new.run("RQ.LEN q LEASED") == 0);
        check_equal(&new, &old);
    }
}

#[test]
fn a_late_token_is_good_at_the_new_primary() {
    let (old, new) = pair();
    old.run("RQ.CREATE q LEASE 7200000 MAXEXPIRIES 1");
    old.run("RQ.MPUSH q 2 a b");
    let jobs = old.lease("q w COUNT 2");
    for job in &jobs {
        old.run(format!("RQ.REAP q ID {}", job.id));
    }
    switch(&old, &new);
    assert_eq!(new.codes(format!("RQ.ACK q {}", jobs[0])), [1], "also from dead");
    assert_eq!(new.codes(format!("RQ.EXTEND q {}", jobs[1])), [0]);
    check_equal(&new, &old);
}

#[test]
fn a_worker_that_was_blocked_finds_its_way() {
    let (old, new) = pair();
    old.run("RQ.CREATE q");
    let workers: Vec<Client> = (0..10).map(|_| old.client()).collect();
    for worker in &workers {
        worker.send_line("RQ.LEASE q w BLOCK 0 LEASE 7200000");
    }
    old.wait_blocked(10);
    switch(&old, &new);
    for worker in workers {
        if let Ok(reply) = worker.next_reply() {
            assert!(reply.error().starts_with("UNBLOCKED "), "{reply:?}");
        }
    }
    old.wait_blocked(0);
    let again = new.client();
    again.send_line("RQ.LEASE q w BLOCK 0 LEASE 7200000");
    new.wait_blocked(1);
    new.push("q x");
    assert_eq!(jobs(&again.reply()).len(), 1);
    check_equal(&new, &old);
}

#[test]
fn many_switches() {
    let (mut a, mut b) = pair();
    a.run("RQ.CREATE q LEASE 7200000");
    for round in 0..8 {
        let waiting = a.client();
        waiting.send_line("RQ.LEASE q w BLOCK 0");
        a.wait_blocked(1);
        a.push("q soon DELAY 30");
        let job = jobs(&waiting.reply()).remove(0);
        a.push(format!("q later{round} DELAY 7200000"));
        switch(&a, &b);
        assert_eq!(b.codes(format!("RQ.ACK q {job}")), [1], "round {round}");
        (a, b) = (b, a);
    }
    assert_eq!(a.info("q").ints(["acked-total", "delivered-total", "scheduled", "expired-total"]), [8, 8, 8, 0]);
    check_equal(&a, &b);
}

#[test]
fn the_servers_own_failover() {
    let (old, new) = pair();
    let q = stock(&old, "q");
    old.push("q soon DELAY 100");
    old.run(format!("FAILOVER TO 127.0.0.1 {} TIMEOUT 30000", new.port));
    crate::harness::wait_until("the new primary", || new.server_info("replication")["role"] == "master");
    crate::harness::wait_until("the old one as its replica", || {
        old.server_info("replication")["role"] == "slave" && old.server_info("replication")["master_link_status"] == "up"
    });
    assert_eq!(new.codes(format!("RQ.ACK q {}", q.leased)), [1]);
    crate::harness::wait_until("the due job", || new.run("RQ.LEN q READY") == 2);
    check_equal(&new, &old);
}
