//! What a primary sends, a replica applies and nothing else: every verb with and without effect,
//! whatever the replica's own clock, configuration and load. Cases B40 and B41.

use crate::harness::{check_equal, stock, wait_until, Scene, Server, Stop};

/// Every verb, so that it does something, on the queue `q` of [`stock`].
fn effective(s: &Server, q: &crate::harness::Stock) -> Vec<String> {
    vec![
        "RQ.PUSH q x PRIORITY 3 TTL 7200000 LEASE 7200000 MAXDELIVERIES 9".to_owned(),
        "RQ.MPUSH q 3 a b c DELAY 7200000".to_owned(),
        "RQ.LEASE q worker COUNT 2".to_owned(),
        format!("RQ.EXTEND q {}", q.leased),
        format!("RQ.SET q {} PRIORITY 9 DELAY 0", q.scheduled),
        format!("RQ.REDRIVE q {}", q.dead),
        format!("RQ.ACKLEASE q {} worker META", q.leased),
        "RQ.REAP q CONSUMER worker".to_owned(),
        "RQ.LEASE q worker COUNT 2".to_owned(),
        "RQ.RELEASE q CONSUMER worker".to_owned(),
        format!("RQ.DEL q {}", q.retrying),
        "RQ.PURGE q READY COUNT 1".to_owned(),
        "RQ.ALTER q MAXDELIVERIES 3".to_owned(),
        format!("RQ.CREATE new LEASE {}", s.port),
        "RQ.PUSH q once DEDUP key KEEPLAST".to_owned(),
        "RQ.PUSH q grouped DELAY 7200000 GROUP g".to_owned(),
        "RQ.SCHEDULE q daily EVERY 7200000 PAYLOAD slot".to_owned(),
        "RQ.PAUSE q GROUP g REASON because".to_owned(),
        "RQ.RESUME q GROUP g".to_owned(),
        "RQ.UNSCHEDULE q daily".to_owned(),
        "RQ.DEL q DEDUP key".to_owned(),
    ]
}

/// Every verb in its empty form, with what it replies to it.
fn empty(q: &crate::harness::Stock) -> Vec<String> {
    let mut lines = Vec::new();
    for key in ["q", "absent"] {
        for verb in ["ACK", "NACK", "RELEASE", "EXTEND"] {
            lines.push(format!("RQ.{verb} {key} {} 1 1700000000000-0 5", q.leased.id));
        }
        lines.extend(
            [
                "LEASE @ w",
                "LEASE @ w BLOCK 1",
                "RELEASE @ CONSUMER nobody",
                "REAP @",
                "REAP @ CONSUMER nobody",
                "REAP @ ID 1700000000000-0",
                "REDRIVE @ 1700000000000-0",
                "REDRIVE @ COUNT 10 REASON ttl",
                "SET @ 1700000000000-0 PRIORITY 5",
                "DEL @ 1700000000000-0",
                "PURGE @ DONE",
                "PURGE @ DEAD REASON ttl",
                "PURGE @ DELAYED BEFORE 1700000000000",
                "GET @ 1700000000000-0",
                "PEEK @ DEAD",
                "LEN @",
                "INFO @",
                "MLEASE 1 @ w",
                "RESUME @",
                "RESUME @ IN",
                "RESUME @ GROUP nobody",
                "UNSCHEDULE @ nothing",
                "TRIM @ MAXLEN 5",
                "DEL @ DEDUP nothing",
                "GET @ DEDUP nothing",
                "GROUPS @",
                "CONSUMERS @",
                "SCHEDULES @",
                "WAIT @ 1700000000000-0",
            ]
            .map(|line| format!("RQ.{}", line.replace('@', key))),
        );
    }
    lines.push(format!("RQ.ACKLEASE q {} 1 w", q.leased.id));
    lines.push("RQ.MLEASE 2 absent q w".to_owned());
    lines.push("RQ.QUEUES".to_owned());
    lines.push("RQ.PUSH q duplicate DEDUP key".to_owned());
    lines.push("RQ.SCHEDULE q daily EVERY 7200000 PAYLOAD slot".to_owned());
    lines.push("RQ.CREATE q".to_owned());
    lines.push("RQ.CREATE q LEASE 7200000 JITTER NONE".to_owned());
    lines.push("RQ.ALTER q LEASE 7200000".to_owned());
    lines.push(format!("RQ.REDRIVE q {}", q.leased.id));
    lines.push(format!("RQ.SET q {} PRIORITY 5", q.dead));
    lines.push(format!("RQ.SET q {} PRIORITY 0", q.scheduled));
    lines.push(format!("RQ.REAP q ID {} {}", q.dead, q.scheduled));
    lines
}

#[test]
fn b40_no_verb_in_its_empty_form_changes_or_sends_anything() {
    let s = Scene::new();
    let q = stock(&s, "q");
    s.run(format!("RQ.DEL q {}", q.ready)); // so that there is nothing to lease
    s.run("RQ.PUSH q first DEDUP key DELAY 7200000");
    s.run("RQ.SCHEDULE q daily EVERY 7200000 PAYLOAD slot");
    for line in empty(&q) {
        s.unchanged(|| s.run(&line));
    }
    let replies = s.unchanged(|| s.multi(&empty(&q)));
    assert!(replies.iter().all(|reply| !reply.is_error()), "{replies:?}");
    s.verify();
}

#[test]
fn every_verb_with_an_effect_reaches_the_replica() {
    let s = Scene::new();
    let q = stock(&s, "q");
    for line in effective(&s, &q) {
        let before = s.server_number("replication", "master_repl_offset");
        s.run(&line);
        assert!(s.server_number("replication", "master_repl_offset") > before, "{line}");
        check_equal(&s, s.replica());
    }
    s.verify();
}

#[test]
fn also_in_multi_and_in_lua() {
    let s = Scene::new();
    let q = stock(&s, "q");
    for reply in s.multi(&effective(&s, &q)) {
        assert!(!reply.is_error(), "{reply:?}");
    }
    check_equal(&s, s.replica());
    s.run("DEL q new");
    let q = stock(&s, "q");
    for line in effective(&s, &q) {
        let words: Vec<&str> = line.split(' ').collect();
        let mut eval = vec!["EVAL", "return redis.call(ARGV[1], KEYS[1], unpack(ARGV, 2))", "1", words[1], words[0]];
        eval.extend(&words[2..]);
        let reply = s.cmd(&eval);
        assert!(!reply.is_error(), "{line}: {reply:?}");
    }
    s.verify();
}

#[test]
fn b41_a_replica_with_another_clock_and_configuration() {
    let primary = Server::with(&["appendonly yes"]);
    let mut replica = Server::with(&["rq.expiry-grace 77", "maxmemory 5mb", "maxmemory-policy noeviction"]);
    replica.advance(-1_500_000);
    replica.follow(&primary);
    let q = stock(&primary, "q");
    for line in effective(&primary, &q) {
        primary.run(&line);
    }
    let payload = "x".repeat(10_000);
    for _ in 0..1_000 {
        primary.run(format!("RQ.PUSH q {payload}")); // past the replica's memory
    }
    check_equal(&primary, &replica);
}

#[test]
fn b41_a_replica_that_was_frozen_has_the_same_times() {
    let s = Scene::new();
    let q = stock(&s, "q");
    let frozen = s.replica().client();
    frozen.send_line("DEBUG SLEEP 1");
    for line in effective(&s, &q) {
        s.run(&line);
    }
    s.run("RQ.CREATE j JITTER full LEASE 7200000 BACKOFF 7200000 7200000");
    s.multi(&vec!["RQ.PUSH j x"; 20]);
    for job in s.lease("j w COUNT 20") {
        s.codes(format!("RQ.NACK j {job} ERROR flaky"));
    }
    s.run("RQ.SCHEDULE t s EVERY 100 LIMIT 3 PAYLOAD slot");
    wait_until("the slots", || s.run("RQ.LEN t") == 3);
    assert_eq!(frozen.reply(), "OK");
    s.replica().wait_in_step(&s);
    for key in ["j", "t"] {
        assert_eq!(s.replica().all_jobs(key), s.all_jobs(key));
    }
    s.verify();
}

#[test]
fn b41_keys_named_like_words() {
    let s = Scene::new();
    for key in ["DELAY", "TOKEN", "COUNT", "PRIORITY", "*", "$", "0", "-1", "RQ.PUSH", "APPLY", "KEYS"] {
        let q = stock(&s, key);
        s.codes(format!("RQ.ACK {key} {}", q.leased));
    }
    s.verify();
}

#[test]
fn full_sync_with_everything_there() {
    for diskless in ["yes", "no"] {
        for load in ["disabled", "swapdb"] {
            let primary = Server::with(&[&format!("repl-diskless-sync {diskless}")]);
            stock(&primary, "q");
            primary.run("RQ.CREATE empty");
            primary.run("SELECT 9");
            stock(&primary, "q");
            let replica = Server::with(&[&format!("repl-diskless-load {load}")]);
            stock(&replica, "old");
            replica.follow(&primary);
            check_equal(&primary, &replica);
            primary.push("q more");
            check_equal(&primary, &replica);
        }
    }
}

#[test]
fn partial_sync_after_a_broken_link() {
    let s = Scene::new();
    let q = stock(&s, "q");
    let syncs = s.server_number("stats", "sync_full");
    for line in effective(&s, &q) {
        s.run(&line);
        s.run("CLIENT KILL TYPE replica");
    }
    wait_until("the link", || s.replica().server_info("replication")["master_link_status"] == "up");
    check_equal(&s, s.replica());
    assert_eq!(s.server_number("stats", "sync_full"), syncs, "all of them partial");
    s.verify();
}

#[test]
fn a_replica_of_a_replica() {
    let s = Scene::new();
    let third = s.replica().replica(&[]);
    let q = stock(&s, "q");
    for line in effective(&s, &q) {
        s.run(&line);
    }
    check_equal(&s, &third);
    s.verify();
}

#[test]
fn a_replica_writes_its_own_aof() {
    let primary = Server::start();
    stock(&primary, "before");
    let mut replica = primary.replica(&["appendonly yes", "appendfsync always"]);
    wait_until("the AOF after the synchronization", || {
        let info = replica.server_info("persistence");
        info["aof_rewrite_in_progress"] == "0" && info["aof_rewrite_scheduled"] == "0"
    });
    let q = stock(&primary, "q");
    for line in effective(&primary, &q) {
        primary.run(&line);
    }
    check_equal(&primary, &replica);
    // It knows its primary only by a command that no file keeps.
    replica.restart(Stop::Kill);
    assert_eq!(replica.server_info("replication")["role"], "master");
    assert_eq!(replica.run("DEBUG DIGEST"), primary.run("DEBUG DIGEST"));
}

#[test]
fn a_replica_shows_but_does_not_write() {
    let s = Scene::new();
    let q = stock(&s, "q");
    s.replica().wait_in_step(&s);
    for line in effective(&s, &q) {
        assert!(s.replica().error(&line).starts_with("READONLY "), "{line}");
    }
    assert_eq!(s.replica().all_jobs("q"), s.all_jobs("q"));
    assert_eq!(s.replica().run("RQ.LEN q"), 4);
    s.verify();
}

#[test]
fn a_replica_without_the_grace_of_others_does_not_expire() {
    let mut s = Scene::new();
    s.push("q x");
    let job = s.lease_one("q w LEASE 3600000");
    s.replica().wait_in_step(&s);
    s.advance(3_700_000);
    wait_until("the expiry on the primary", || s.state("q", &job.id) == "ready");
    check_equal(&s, s.replica());
    assert_eq!(s.replica().job("q", &job.id).int("expiries"), 1);
    s.verify();
}

/// What is known of queues is for the timer. A replica's timer changes nothing, and yet it must not
/// remember all queues that ever were.
#[test]
fn a_replica_forgets_queues_that_were_deleted() {
    let primary = Server::start();
    let replica = primary.replica(&[]);
    for n in 0..300 {
        primary.run(format!("RQ.PUSH gone{n} x DELAY 3600000"));
        primary.run(format!("RQ.PUSH idle{n} x"));
        primary.run(format!("DEL gone{n}"));
        primary.run(format!("RENAME idle{n} one"));
    }
    for server in [&primary, &replica] {
        wait_until("one queue", || server.server_number("rq", "rq_queues") == 1);
    }
    // What it still knows is right: it goes on where the primary was.
    primary.push("one due DELAY 200");
    replica.wait_in_step(&primary);
    replica.run("REPLICAOF NO ONE");
    wait_until("what is due", || replica.run("RQ.LEN one READY") == 2);
}
