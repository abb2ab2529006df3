//! RQ.LEASE BLOCK and RQ.ACKLEASE BLOCK: who is served, how a wait ends. Cases B44, B54 and B58. How
//! keys come and go under waiters is in `blocking_keys.rs`, very many of them in `crowd.rs`.

use std::time::{Duration, Instant};

use crate::harness::{block, jobs, wait_until, Client, Job, Reply, Scene, Server, Stop};

const WAIT: &str = "RQ.LEASE q w BLOCK 0 LEASE 7200000";

#[track_caller]
fn one(reply: &Reply) -> Job {
    let mut jobs = jobs(reply);
    assert_eq!(jobs.len(), 1, "{reply:?}");
    jobs.remove(0)
}

#[track_caller]
fn is_usable(worker: &Client) {
    assert_eq!(worker.run("PING"), "PONG", "no stray reply before it");
}

/// CLIENT ID, asked before the worker blocks.
fn with_id(server: &Server, line: &str) -> (Client, i64) {
    let blocked = server.blocked();
    let worker = server.client();
    let id = worker.run("CLIENT ID").int();
    worker.send_line(line);
    server.wait_blocked(blocked + 1);
    (worker, id)
}

#[test]
fn the_longest_waiting_worker_is_served_first() {
    let s = Scene::new();
    let workers: Vec<Client> = (0..8).map(|n| block(&s, &format!("RQ.LEASE q w{n} BLOCK 0 LEASE 7200000"))).collect();
    for (n, worker) in workers[..4].iter().enumerate() {
        let id = s.push(format!("q {n}"));
        let job = one(&worker.reply());
        assert_eq!((job.id.as_str(), job.deliveries, job.text()), (id.as_str(), 1, n.to_string()));
        assert_eq!(s.job("q", &id)["consumer"], format!("w{n}"));
    }
    s.run("RQ.MPUSH q 4 4 5 6 7");
    for (n, worker) in workers.iter().enumerate().skip(4) {
        assert_eq!(one(&worker.reply()).text(), n.to_string());
    }
    workers.iter().for_each(is_usable);
    s.wait_blocked(0);
    s.verify();
}

#[test]
fn a_waiter_gets_what_it_asked_for() {
    let s = Scene::new();
    s.run("RQ.CREATE q LEASE 3600000");
    let first = block(&s, "RQ.LEASE q w1 BLOCK 0 COUNT 3 LEASE 7200000 META");
    let second = block(&s, "RQ.LEASE q w2 BLOCK 0 COUNT 10 MAXBYTES 4");
    s.run("RQ.MPUSH q 6 a b c ddd eee f");
    let got = jobs(&first.reply());
    assert_eq!(got.iter().map(Job::text).collect::<String>(), "abc");
    assert!(got.iter().all(|job| job.lease_ms == 7_200_000 && job.meta.is_some()));
    let got = jobs(&second.reply());
    assert_eq!(got.iter().map(Job::text).collect::<String>(), "ddd");
    assert_eq!(got[0].lease_ms, 3_600_000);
    assert_eq!(s.lease_order("q").concat(), "eeef");
    s.verify();
}

#[test]
fn a_wait_ends_with_null_and_changes_nothing() {
    let s = Scene::new();
    s.run("RQ.CREATE q");
    for key in ["q", "absent"] {
        let start = Instant::now();
        assert!(s.unchanged(|| s.run(format!("RQ.LEASE {key} w BLOCK 80"))).is_null());
        assert!(start.elapsed() >= Duration::from_millis(75), "{:?}", start.elapsed());
    }
    assert_eq!(s.run("EXISTS absent"), 0);
    s.push("q x");
    assert_eq!(s.lease_one("q w LEASE 7200000").deliveries, 1);
    s.verify();
}

#[test]
fn acklease_acknowledges_before_it_waits() {
    let s = Scene::new();
    s.run("RQ.CREATE q LEASE 7200000");
    s.push("q a");
    let a = s.lease_one("q w");
    let worker = block(&s, &format!("RQ.ACKLEASE q {a} w BLOCK 0"));
    assert_eq!(s.state("q", &a.id), "gone", "already");
    assert_eq!(s.replica().state("q", &a.id), "gone");
    s.push("q b");
    let reply = worker.reply();
    assert_eq!(reply.array()[0], 1);
    let b = one(&reply.array()[1]);
    let reply = s.run(format!("RQ.ACKLEASE q {b} w BLOCK 30"));
    assert_eq!(reply.array()[0], 1);
    assert!(reply.array()[1].is_null());
    // Codes that are not 1 come with the jobs too.
    let worker = block(&s, &format!("RQ.ACKLEASE q {a} w BLOCK 0"));
    s.push("q c");
    let reply = worker.reply();
    assert_eq!(reply.array()[0], -1);
    assert_eq!(one(&reply.array()[1]).text(), "c");
    s.verify();
}

#[test]
fn client_unblock_ends_a_wait() {
    let s = Scene::new();
    for (how, pushes_before) in [("TIMEOUT", 0), ("ERROR", 0), ("TIMEOUT", 1), ("ERROR", 1)] {
        let (worker, id) = with_id(&s, "RQ.LEASE q w BLOCK 0 LEASE 7200000");
        // Both in one turn of the server: there is one reply, and it has the job or nobody has.
        let mut lines = vec![format!("CLIENT UNBLOCK {id} {how}")];
        if pushes_before == 1 {
            lines.insert(0, "RQ.PUSH q x".to_owned());
        }
        s.send_bytes(lines.iter().map(|line| format!("{line}\r\n")).collect::<String>().as_bytes());
        lines.iter().for_each(|_| assert!(!s.reply().is_error()));
        let reply = worker.reply();
        match &reply {
            Reply::Error(text) => assert!(how == "ERROR" && text.starts_with("UNBLOCKED "), "{text}"),
            reply if reply.is_null() => assert_eq!(how, "TIMEOUT"),
            reply => assert_eq!((pushes_before, one(reply).text().as_str()), (1, "x")),
        }
        is_usable(&worker);
        let leased = i64::from(!reply.is_null() && !reply.is_error());
        wait_until("the books", || {
            pushes_before == 0 || s.info("q").ints(["leased", "ready"]) == [leased, pushes_before - leased]
        });
        s.run("DEL q");
    }
    s.verify();
}

#[test]
fn client_unblock_of_acklease_keeps_the_acknowledgement() {
    let s = Scene::new();
    s.push("q x");
    let job = s.lease_one("q w LEASE 7200000");
    let (worker, id) = with_id(&s, &format!("RQ.ACKLEASE q {job} w BLOCK 0"));
    assert_eq!(s.run(format!("CLIENT UNBLOCK {id}")), 1);
    let reply = worker.reply();
    assert_eq!(reply.array()[0], 1);
    assert!(reply.array()[1].is_null());
    s.verify();
}

#[test]
fn b54_a_waiter_that_is_gone_gets_nothing() {
    let s = Scene::new();
    let (_killed, id) = with_id(&s, WAIT);
    let vanished = block(&s, WAIT);
    let waiting = block(&s, "RQ.LEASE q alive BLOCK 0 LEASE 7200000");
    assert_eq!(s.run(format!("CLIENT KILL ID {id}")), 1);
    vanished.reset();
    s.wait_blocked(1);
    let pushed = s.push("q x");
    let job = one(&waiting.reply());
    assert_eq!((job.id.as_str(), job.deliveries), (pushed.as_str(), 1));
    s.verify();
}

#[test]
fn b54_killed_in_the_turn_in_which_it_was_served() {
    let s = Scene::new();
    for wrap in [false, true] {
        let (worker, id) = with_id(&s, WAIT);
        let mut lines = vec!["RQ.PUSH q x".to_owned(), format!("CLIENT KILL ID {id}")];
        if wrap {
            lines.insert(0, "MULTI".to_owned());
            lines.push("EXEC".to_owned());
        }
        s.send_bytes(lines.iter().map(|line| format!("{line}\r\n")).collect::<String>().as_bytes());
        lines.iter().for_each(|_| assert!(!s.reply().is_error()));
        assert!(worker.next_reply().is_err());
        // The reply was never on its way: the job is there for others, and not counted.
        wait_until("the return of the job", || s.run("RQ.LEN q READY") == 1);
        let job = s.lease_one("q other LEASE 7200000");
        assert_eq!(job.deliveries, 1);
        s.codes(format!("RQ.ACK q {job}"));
    }
    s.verify();
}

#[test]
fn b54_a_reply_that_was_never_read_is_recovered_by_expiry() {
    let mut s = Scene::new();
    let ghost = block(&s, "RQ.LEASE q ghost BLOCK 0 LEASE 3600000");
    s.push("q x");
    assert_eq!(s.run("RQ.LEN q LEASED"), 1);
    ghost.reset();
    let other = block(&s, WAIT);
    s.advance(3_700_000);
    assert_eq!(one(&other.reply()).deliveries, 2);
    s.verify();
}

#[test]
fn b54_what_a_waiting_client_sends_comes_after_its_job() {
    let s = Scene::new();
    let worker = block(&s, WAIT);
    worker.send_bytes(b"PING\r\nRESET\r\nQUIT\r\n");
    assert_eq!(s.run("PING"), "PONG");
    assert!(!worker.has_reply(), "it waits");
    s.push("q x");
    assert_eq!(one(&worker.reply()).text(), "x");
    assert_eq!(worker.reply(), "PONG");
    assert_eq!(worker.reply(), "RESET");
    assert_eq!(worker.reply(), "OK");
    assert!(worker.next_reply().is_err());
    s.verify();
}

#[test]
fn b54_a_reply_that_is_too_large_for_its_client_loses_no_job() {
    let s = Scene::with(&["client-output-buffer-limit normal 1mb 0 0"]);
    let payload = vec![b'x'; 8_000_000];
    for waits in [true, false] {
        let worker = if waits { block(&s, WAIT) } else { s.client() };
        let id = s.cmd(&[b"RQ.PUSH".as_slice(), b"q", &payload]).text().to_owned();
        if !waits {
            worker.send_line("RQ.LEASE q w LEASE 7200000");
        }
        // The server cuts it off, unless the socket took all of it at once.
        if let Ok(reply) = worker.next_reply() {
            assert_eq!(one(&reply).payload, payload);
        }
        wait_until("the lease, or its being given back", || s.run("RQ.LEN q") == 1);
        s.run(format!("RQ.REAP q ID {id}"));
        assert_eq!(s.run("RQ.LEN q READY"), 1);
        assert_eq!(s.run(format!("RQ.DEL q {id}")), 1);
    }
    s.verify();
}

#[test]
fn b54_no_connection_is_left() {
    let server = Server::with(&["maxclients 40"]);
    let mut workers: Vec<Client> = Vec::new();
    loop {
        let worker = server.client();
        if worker.try_send_bytes(format!("{WAIT}\r\n").as_bytes()).is_err() {
            break;
        }
        let blocked = workers.len() as u64 + 1;
        wait_until("a place, or a refusal", || worker.has_reply() || server.blocked() == blocked);
        if server.blocked() != blocked {
            assert!(worker.reply().error().contains("max number of clients"));
            break;
        }
        workers.push(worker);
    }
    assert!(workers.len() > 20);
    workers.remove(1).reset();
    server.wait_blocked(workers.len() as u64);
    let late = block(&server, WAIT);
    for (n, worker) in workers.iter().chain([&late]).enumerate() {
        server.push(format!("q {n}"));
        assert_eq!(one(&worker.reply()).text(), n.to_string());
    }
}

#[test]
fn b58_block_is_ignored_where_nothing_may_wait() {
    let s = Scene::new();
    s.run("RQ.CREATE q LEASE 7200000");
    let script = "return redis.call('RQ.LEASE', KEYS[1], 'w', 'BLOCK', '0')";
    let function = "#!lua name=rq\nredis.register_function('lease', function(keys) \
                    return redis.call('RQ.LEASE', keys[1], 'w', 'BLOCK', '0') end)";
    s.cmd(&["FUNCTION", "LOAD", function]);
    let multi = || s.multi(&["RQ.LEASE q w BLOCK 0"]).remove(0);
    let eval = || s.cmd(&["EVAL", script, "1", "q"]);
    let fcall = || s.cmd(&["FCALL", "lease", "1", "q"]);
    for (name, lease) in [("MULTI", &multi as &dyn Fn() -> Reply), ("EVAL", &eval), ("FCALL", &fcall)] {
        assert!(s.unchanged(lease).is_null(), "{name}");
        let id = s.push("q x");
        assert_eq!(one(&lease()).id, id, "{name}");
    }
    let replies = s.multi(&["RQ.ACKLEASE q 1700000000000-0 1 w BLOCK 0"]);
    assert_eq!(replies[0].array()[0], -1);
    assert!(replies[0].array()[1].is_null());
    s.run("FUNCTION FLUSH");
    s.verify();
}

#[test]
fn pushes_in_multi_and_lua_wake_waiters_after_it() {
    let s = Scene::new();
    let workers = [block(&s, WAIT), block(&s, WAIT), block(&s, WAIT), block(&s, WAIT)];
    let replies = s.multi(&["RQ.PUSH q a", "RQ.LEN q READY", "RQ.PUSH q b"]);
    assert_eq!(replies[1], 1, "nothing is granted in the middle of it");
    s.cmd(&["EVAL", "for n = 1, 2 do redis.call('RQ.PUSH', KEYS[1], ARGV[n]) end", "1", "q", "c", "d"]);
    for (worker, payload) in workers.iter().zip(["a", "b", "c", "d"]) {
        assert_eq!(one(&worker.reply()).text(), payload);
    }
    s.verify();
}

#[test]
fn waiters_come_before_newcomers() {
    let s = Scene::new();
    let waiter = block(&s, WAIT);
    // The push and the newcomer's LEASE reach the server together.
    s.send_bytes(b"RQ.PUSH q x\r\nRQ.LEASE q new\r\n");
    assert!(!s.reply().is_error());
    assert!(s.reply().is_null());
    assert_eq!(one(&waiter.reply()).text(), "x");
    s.verify();
}

#[test]
fn b58_the_keyed_watch_sees_every_change_and_nothing_else() {
    let mut s = Scene::new();
    s.run("RQ.CREATE q LEASE 7200000");
    s.push("q first");
    let job = s.lease_one("q w");
    let watcher = s.client();
    let exec_after = |line: String| {
        watcher.run("WATCH q");
        watcher.run("MULTI");
        watcher.run("RQ.LEN q");
        s.run(line);
        !watcher.run("EXEC").is_null()
    };
    for no_change in ["RQ.LEASE q w", "RQ.ACK q 1700000000000-0 1", "RQ.REAP q", "RQ.CREATE q", "RQ.PEEK q LEASED", "RQ.INFO q"] {
        assert!(exec_after(no_change.to_owned()), "{no_change}");
    }
    for change in ["RQ.PUSH q x", "RQ.LEASE q w", &format!("RQ.EXTEND q {job} LEASE 9000000"), &format!("RQ.ACK q {job}"), "RQ.ALTER q LEASE 7000000"] {
        assert!(!exec_after(change.to_owned()), "{change}");
    }
    // Also what the timer does.
    let id = s.push("q due DELAY 3600000");
    watcher.run("WATCH q");
    s.advance(3_700_000);
    wait_until("the due job", || s.state("q", &id) == "ready");
    watcher.run("MULTI");
    watcher.run("RQ.LEN q");
    assert!(watcher.run("EXEC").is_null());
    s.verify();
}

#[test]
fn b44_a_role_change_ends_every_wait() {
    let mut primary = Server::start();
    let other = Server::start();
    let workers: Vec<Client> = (0..20).map(|_| block(&primary, WAIT)).collect();
    primary.run(format!("REPLICAOF 127.0.0.1 {}", other.port));
    for worker in &workers {
        // An error or a cut connection, never a job and never silence.
        if let Ok(reply) = worker.next_reply() {
            assert!(reply.error().starts_with("UNBLOCKED "), "{reply:?}");
        }
    }
    primary.run("REPLICAOF NO ONE");
    primary.push("q x");
    assert_eq!(primary.lease_one("q w").deliveries, 1, "nobody had it");
    primary.restart(Stop::Shutdown);
    assert_eq!(primary.run("PING"), "PONG");
}
