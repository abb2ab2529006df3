//! The other server takes over: tokens, deadlines and counts are good there. Cases B13, B18 (see
//! `timer.rs`), B39 (see `crash.rs`), B43 to B45.

use crate::harness::{check_equal, jobs, stock, wait_until, Client, Server};

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
fn b44_leases_go_on_at_the_new_primary() {
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
        wait_until("the expiry", || new.run("RQ.LEN q LEASED") == 0);
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
fn b44_a_worker_that_was_blocked_finds_its_way() {
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
fn b43_many_switches() {
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
fn b43_twenty_role_changes_leave_one_timer() {
    let (a, b) = pair();
    a.run("RQ.CREATE q LEASE 7200000");
    a.push("q later DELAY 7200000");
    b.wait_in_step(&a);
    for _ in 0..20 {
        b.run("REPLICAOF NO ONE");
        b.run(format!("REPLICAOF 127.0.0.1 {}", a.port));
    }
    b.run("REPLICAOF NO ONE");
    let soon = b.push("q soon DELAY 50");
    wait_until("the timer", || b.state("q", &soon) == "ready");
    assert_eq!(b.server_number("rq", "rq_timers"), 1);
    a.follow(&b);
    check_equal(&b, &a);
    assert!(a.server_number("rq", "rq_timers") <= 1);
}

/// The server's own FAILOVER, from one to the other.
#[track_caller]
fn fail_over(old: &Server, new: &Server) {
    let online = format!("port={},state=online", new.port);
    wait_until("the replica's being online", || {
        old.server_info("replication").0.iter().any(|(_, value)| value.text().contains(&online))
    });
    old.run(format!("FAILOVER TO 127.0.0.1 {} TIMEOUT 30000", new.port));
    wait_until("the new primary", || new.server_info("replication")["role"] == "master");
    wait_until("the old one as its replica", || {
        old.server_info("replication")["role"] == "slave" && old.server_info("replication")["master_link_status"] == "up"
    });
}

#[test]
fn b44_the_servers_own_failover() {
    let (old, new) = pair();
    let q = stock(&old, "q");
    let workers: Vec<Client> = (0..20).map(|n| crate::harness::block(&old, &format!("RQ.LEASE idle w{n} BLOCK 0"))).collect();
    old.push("q soon DELAY 100");
    fail_over(&old, &new);
    for worker in workers {
        // One end for each: an error, or a cut connection; never a job.
        if let Ok(reply) = worker.next_reply() {
            assert!(reply.error().starts_with("UNBLOCKED ") || reply.error().starts_with("READONLY "), "{reply:?}");
        }
    }
    assert!(old.error(format!("RQ.ACK q {}", q.leased)).starts_with("READONLY "));
    assert_eq!(new.state("q", &q.leased.id), "leased", "which changes nothing");
    assert_eq!(new.codes(format!("RQ.ACK q {}", q.leased)), [1]);
    wait_until("the due job", || new.run("RQ.LEN q READY") == 2);
    check_equal(&new, &old);
}

#[test]
fn b45_failovers_while_work_is_due() {
    let (mut a, mut b) = pair();
    a.run("RQ.CREATE q LEASE 7200000");
    a.run("RQ.SCHEDULE timetable s EVERY 100 PAYLOAD slot");
    for round in 0..6 {
        let pushes: Vec<String> = (0..60).map(|n| format!("RQ.PUSH q job{round}.{n} DELAY {}", 3 * n)).collect();
        a.multi(&pushes);
        fail_over(&a, &b);
        (a, b) = (b, a);
    }
    wait_until("the last due job", || a.run("RQ.LEN q READY") == 360);
    a.run("RQ.UNSCHEDULE timetable s");
    assert_eq!(a.info("q").ints(["pushed-total", "length"]), [360, 360]);
    check_equal(&a, &b);
    crate::harness::check_counters(&[&a, &b]);
}
