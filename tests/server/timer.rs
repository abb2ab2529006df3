//! What time alone does, with no client that asks for it: due jobs, expired leases, times to
//! live, on whatever server and under whatever name the queue is by then. Cases B08, B18, B43,
//! B45, B46.

use crate::harness::{jobs, wait_until, Client, Job, Scene, Server, Stop};

/// A worker that waits for ever.
fn block(server: &Server, key: &str) -> Client {
    let blocked = server.blocked();
    let worker = ask(server, key);
    server.wait_blocked(blocked + 1);
    worker
}

/// The same, for a job that may be there already.
pub fn ask(server: &Server, key: &str) -> Client {
    let worker = server.client();
    worker.send_line(format!("RQ.LEASE {key} w BLOCK 0 LEASE 7200000"));
    worker
}

/// The one job that the worker gets.
#[track_caller]
pub fn woken(worker: &Client) -> Job {
    let mut jobs = jobs(&worker.reply());
    assert_eq!(jobs.len(), 1);
    jobs.remove(0)
}

/// The job came when it was due: not before, and not long after, by the server's own clock.
#[track_caller]
fn in_time(server: &Client, key: &str, job: &Job) {
    let seen = server.job(key, &job.id);
    let late = seen.int("last-delivered-at") - seen.int("due-at");
    assert!((0..10_000).contains(&late), "{late} ms late");
}

#[test]
fn b18_a_due_job_is_the_only_event_on_an_idle_server() {
    let s = Scene::new();
    let worker = block(&s, "q");
    s.push("q x DELAY 300");
    let job = woken(&worker);
    in_time(&s, "q", &job);
    s.verify();
}

#[test]
fn b18_a_retry_wakes() {
    let s = Scene::new();
    s.run("RQ.CREATE q BACKOFF 300 300 JITTER none LEASE 7200000");
    s.push("q x");
    let job = s.lease_one("q first");
    let worker = block(&s, "q");
    s.codes(format!("RQ.NACK q {job}"));
    let again = woken(&worker);
    assert_eq!((&again.id, again.deliveries), (&job.id, 2));
    in_time(&s, "q", &again);
    s.verify();
}

#[test]
fn b18_an_expired_lease_wakes() {
    let s = Scene::new();
    s.push("q x");
    let job = s.lease_one("q first LEASE 300");
    let deadline = s.job("q", &job.id).int("last-delivered-at") + 300;
    let worker = ask(&s, "q");
    let again = woken(&worker);
    assert_eq!((&again.id, again.deliveries), (&job.id, 2));
    let late = s.job("q", &job.id).int("last-delivered-at") - deadline;
    assert!((0..10_000).contains(&late), "{late} ms late");
    s.verify();
}

#[test]
fn b18_what_commands_bring_back_wakes() {
    let s = Scene::new();
    s.run("RQ.CREATE q LEASE 7200000");
    s.push("q x DELAY 7200000");
    let worker = block(&s, "q");
    let id = s.run("RQ.PEEK q DELAYED").array()[1].array()[0].fields()["id"].text().to_owned();
    s.run(format!("RQ.SET q {id} DELAY 0"));
    let job = woken(&worker);
    let worker = block(&s, "q");
    s.codes(format!("RQ.RELEASE q {job}"));
    let job = woken(&worker);
    let worker = block(&s, "q");
    s.codes(format!("RQ.NACK q {job} DELAY 0"));
    woken(&worker);
    let worker = block(&s, "q");
    s.run(format!("RQ.REAP q ID {id}"));
    assert_eq!(woken(&worker).id, id);
    let token = s.job("q", &id).int("token");
    assert_eq!(s.codes(format!("RQ.NACK q {id} {token} DEAD")), [2]);
    let worker = block(&s, "q");
    s.codes(format!("RQ.REDRIVE q {id}"));
    assert_eq!(woken(&worker).deliveries, 1);
    s.verify();
}

#[test]
fn b18_the_end_of_what_barred_them_wakes() {
    let s = Scene::new();
    for key in ["for-a-while", "resumed"] {
        s.run(format!("RQ.PAUSE {key} FOR {}", if key == "resumed" { 7_200_000 } else { 300 }));
        s.push(format!("{key} x"));
        let worker = ask(&s, key);
        if key == "resumed" {
            s.wait_blocked(1);
            s.run("RQ.RESUME resumed");
        }
        assert_eq!(woken(&worker).text(), "x", "{key}");
    }
    for (key, bound) in [("rate", "RATE 1 300"), ("grouprate", "GROUPRATE 1 300"), ("one", "CONCURRENCY 1"), ("alone", "GROUPLIMIT 1")] {
        s.run(format!("RQ.CREATE {key} LEASE 7200000 {bound}"));
        s.run(format!("RQ.MPUSH {key} 2 a b GROUP g"));
        let first = s.lease_one(format!("{key} w"));
        let worker = ask(&s, key);
        if !bound.contains("RATE") {
            s.wait_blocked(1);
            s.codes(format!("RQ.ACK {key} {first}"));
        }
        assert_eq!(woken(&worker).text(), "b", "{key}");
    }
    let worker = block(&s, "timetable");
    s.run("RQ.SCHEDULE timetable s EVERY 300 LIMIT 1 PAYLOAD slot");
    assert_eq!(woken(&worker).text(), "slot");
    s.verify();
}

#[test]
fn b08_nobody_gets_a_job_before_it_is_due() {
    let mut s = Scene::new();
    s.run("RQ.CREATE q LEASE 600000");
    let id = s.push("q x DELAY 36000000");
    let workers = [block(&s, "q"), block(&s, "q"), block(&s, "q")];
    for _ in 0..5 {
        s.advance(7_000_000);
        assert!(s.lease("q w").is_empty());
        assert_eq!(s.job("q", &id).int("deliveries"), 0);
    }
    assert!(workers.iter().all(|worker| !worker.has_reply()));
    s.advance(1_100_000);
    wait_until("the delivery", || workers.iter().any(Client::has_reply));
    let seen = s.job("q", &id);
    assert_eq!(seen.int("deadline"), seen.int("last-delivered-at") + 7_200_000, "the lease begins at delivery");
    assert_eq!(seen.int("deliveries"), 1);
    assert_eq!(s.blocked(), 2, "one delivery");
    s.verify();
}

#[test]
fn a_time_to_live_ends_with_no_client_about() {
    let s = Scene::new();
    let id = s.push("q x TTL 200");
    wait_until("the end of its time", || s.run("RQ.LEN q DEAD") == 1);
    assert_eq!(s.job("q", &id)["reason"], "ttl");
    s.verify();
}

#[test]
fn many_queues_in_many_databases() {
    let s = Scene::new();
    let other = s.client();
    other.run("SELECT 9");
    let workers: Vec<Client> = (0..20)
        .map(|n| {
            // The latest first, so that the timer is moved forward again and again.
            (if n % 2 == 0 { &other } else { &*s as &Client }).push(format!("q{n} job{n} DELAY {}", 900 - 40 * n));
            let worker = s.client();
            worker.run(format!("SELECT {}", if n % 2 == 0 { 9 } else { 0 }));
            worker.send_line(format!("RQ.LEASE q{n} w BLOCK 0 LEASE 7200000"));
            worker
        })
        .collect();
    for (n, worker) in workers.iter().enumerate() {
        assert_eq!(woken(worker).text(), format!("job{n}"));
    }
    s.verify();
}

#[test]
fn the_timer_finds_a_queue_under_its_new_name() {
    let server = Server::start();
    for (act, key, db) in [
        ("RENAME old new", "new", 0),
        ("COPY old new", "new", 0),
        ("MOVE old 9", "old", 9),
        ("RESTORE", "new", 0),
        ("SWAPDB 0 9", "old", 9),
    ] {
        for waited_for in [true, false] {
            // So many other keys that it cannot be found in time by going over all of them.
            let by_events = server.tells_of_new_names() || waited_for;
            server.run(format!("DEBUG POPULATE {}", if by_events { 200_000 } else { 100 }));
            server.push("old x DELAY 400");
            let client = server.client();
            client.run(format!("SELECT {db}"));
            if waited_for {
                client.send_line(format!("RQ.LEASE {key} w BLOCK 0 LEASE 7200000"));
                server.wait_blocked(1);
            }
            if act == "RESTORE" {
                let dump = server.run("DUMP old").bytes().to_vec();
                server.run("DEL old");
                server.cmd(&[b"RESTORE".as_slice(), b"new", b"0", &dump]);
            } else {
                server.run(act);
            }
            if waited_for {
                let job = woken(&client);
                in_time(&client, key, &job);
            } else {
                // With nobody about but one who looks, which does nothing.
                wait_until("the due job", || client.run(format!("RQ.LEN {key} READY")) == 1);
                let late = server.now() - client.all_jobs(key)[0].int("due-at");
                assert!(late < 10_000, "{act}: {late} ms late");
            }
            server.run("FLUSHALL");
        }
    }
}

#[test]
fn b18_after_a_crash() {
    for preamble in ["yes", "no"] {
        let config = ["appendonly yes", "appendfsync always", "rq.expiry-grace 0"];
        let mut server = Server::with(&[&config[..], &[&format!("aof-use-rdb-preamble {preamble}")]].concat());
        server.push("due x DELAY 2000");
        server.push("lease x");
        server.lease_one("lease gone LEASE 2000");
        server.rewrite_aof();
        server.restart(Stop::Kill);
        let workers = [ask(&server, "due"), ask(&server, "lease")];
        let first = woken(&workers[0]);
        in_time(&server, "due", &first);
        assert_eq!(woken(&workers[1]).deliveries, 2);
    }
}

#[test]
fn b18_on_a_promoted_replica() {
    let primary = Server::with(&["rq.expiry-grace 0"]);
    let replica = primary.replica(&["rq.expiry-grace 0"]);
    primary.push("due x DELAY 2000");
    primary.push("lease x");
    primary.lease_one("lease gone LEASE 2000");
    replica.wait_in_step(&primary);
    replica.run("REPLICAOF NO ONE");
    let workers = [ask(&replica, "due"), ask(&replica, "lease")];
    let first = woken(&workers[0]);
    in_time(&replica, "due", &first);
    assert_eq!(woken(&workers[1]).deliveries, 2);
}

#[test]
fn b43_a_replica_does_nothing_by_itself() {
    let primary = Server::with(&["rq.expiry-grace 0"]);
    let mut replica = primary.replica(&["rq.expiry-grace 0"]);
    primary.push("q due DELAY 3600000");
    primary.push("q ttl TTL 3600000");
    primary.push("q leased PRIORITY 5");
    primary.lease_one("q w LEASE 3600000");
    replica.wait_in_step(&primary);
    let digest = primary.digest("q");
    replica.advance(7_200_000);
    let now = replica.now();
    replica.wait_past(now + 500);
    assert_eq!(replica.digest("q"), digest);
    // It does once it is the primary.
    replica.run("REPLICAOF NO ONE");
    wait_until("the due job and the expired lease", || replica.run("RQ.LEN q READY") == 2);
    assert_eq!(replica.run("RQ.LEN q DEAD"), 1);
    assert_eq!(primary.digest("q"), digest);
}

#[test]
fn b45_due_work_waits_for_the_end_of_a_write_pause() {
    let mut s = Scene::new();
    s.push("q due DELAY 3600000");
    s.push("lease x");
    let job = s.lease_one("lease gone LEASE 3600000");
    let workers = [block(&s, "q"), block(&s, "lease")];
    s.run("CLIENT PAUSE 600000 WRITE");
    let offset = s.server_number("replication", "master_repl_offset");
    s.advance(3_700_000);
    let now = s.now();
    s.wait_past(now + 300);
    assert_eq!(s.run("RQ.LEN q DELAYED"), 1);
    assert_eq!(s.run("RQ.LEN lease LEASED"), 1);
    assert_eq!(s.server_number("replication", "master_repl_offset"), offset, "frozen");
    assert!(workers.iter().all(|worker| !worker.has_reply()));
    s.run("CLIENT UNPAUSE");
    assert_eq!(woken(&workers[0]).text(), "due");
    assert_eq!(woken(&workers[1]).id, job.id);
    s.verify();
}

#[test]
fn b45_many_short_pauses() {
    let s = Scene::new();
    s.run("RQ.SCHEDULE timetable s EVERY 100 PAYLOAD slot");
    let pushes: Vec<String> = (0..300).map(|n| format!("RQ.PUSH q job{n} DELAY {}", 5 * n)).collect();
    s.multi(&pushes);
    s.multi(&vec!["RQ.PUSH q x PRIORITY 5"; 100]);
    s.lease("q gone COUNT 100 LEASE 700");
    let mut pauses = 0;
    while s.run("RQ.LEN q READY") != 400 {
        // Half of them within MULTI.
        if pauses % 2 == 0 {
            s.run("CLIENT PAUSE 20 WRITE");
        } else {
            s.multi(&["RQ.LEN q", "CLIENT PAUSE 20 WRITE"]);
        }
        pauses += 1;
        assert_eq!(s.run("SET end of-the-pause"), "OK");
        assert!(pauses < 10_000, "it never gets done");
    }
    s.run("CLIENT UNPAUSE");
    wait_until("a slot", || s.run("RQ.LEN timetable").int() > 0);
    s.run("RQ.UNSCHEDULE timetable s");
    assert_eq!(s.info("q").int("expired-total"), 100);
    s.verify();
}

#[test]
fn b46_the_timers_writes_count_for_snapshots() {
    let mut server = Server::with(&["save 1 1", "rq.expiry-grace 0"]);
    server.push("q due DELAY 3600000");
    server.push("q leased PRIORITY 1");
    server.lease_one("q gone LEASE 3600000");
    server.run("SAVE");
    assert_eq!(server.server_number("persistence", "rdb_changes_since_last_save"), 0);
    let saves = server.server_number("persistence", "rdb_saves");
    server.advance(3_700_000);
    wait_until("a snapshot that the timer's writes caused", || {
        let info = server.server_info("persistence");
        server.run("RQ.LEN q READY") == 2
            && server.server_number("persistence", "rdb_saves") > saves
            && info["rdb_bgsave_in_progress"] == "0"
            && info["rdb_changes_since_last_save"] == "0"
    });
    let digest = server.digest("q");
    server.restart(Stop::Kill);
    assert_eq!(server.digest("q"), digest);
    assert_eq!(server.run("RQ.LEN q READY"), 2);
}

#[test]
fn b46_a_grant_to_a_waiter_counts_and_is_kept() {
    let mut server = Server::with(&["save 1 1", "appendonly yes", "appendfsync always", "rq.expiry-grace 3600000"]);
    let replica = server.replica(&["rq.expiry-grace 3600000"]);
    server.push("q due DELAY 3600000");
    let worker = block(&server, "q");
    // Not while a snapshot is being made.
    wait_until("a snapshot of what is there", || server.try_run("SAVE") == "OK");
    let saves = server.server_number("persistence", "rdb_saves");
    assert_eq!(server.server_number("persistence", "rdb_changes_since_last_save"), 0);
    // Nothing but the timer and the reply that it makes.
    server.advance(3_700_000);
    let job = woken(&worker);
    wait_until("a snapshot that it caused", || server.server_number("persistence", "rdb_saves") > saves);
    crate::harness::check_equal(&server, &replica);
    let seen = server.all_jobs("q");
    server.restart(Stop::Kill);
    assert_eq!(server.all_jobs("q"), seen);
    assert_eq!(server.job("q", &job.id).ints(["token", "deliveries"]), [job.token, 1]);
    assert_eq!(server.codes(format!("RQ.ACK q {job}")), [1]);
}

#[test]
fn a_crowd_that_is_due_at_once_becomes_ready_once() {
    let mut s = Scene::new();
    let at = s.now() + 3_600_000;
    let payloads: Vec<String> = (0..1000).map(|n| n.to_string()).collect();
    for _ in 0..20 {
        s.run(format!("RQ.MPUSH q 1000 {} AT {at}", payloads.join(" ")));
    }
    s.advance(3_700_000);
    wait_until("all due", || s.run("RQ.LEN q READY") == 20_000);
    assert_eq!(s.info("q").ints(["length", "scheduled", "pushed-total"]), [20_000, 0, 20_000]);
    let mut ids: Vec<String> = Vec::new();
    while let jobs @ [_, ..] = &s.lease("q w COUNT 10000 LEASE 7200000")[..] {
        ids.extend(jobs.iter().map(|job| job.id.clone()));
    }
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 20_000);
    s.verify();
}
