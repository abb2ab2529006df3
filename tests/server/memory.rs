//! A server that is out of memory, and one that would drop keys: what works, what is refused.
//! Case B38.

use crate::harness::{crowd_out, check_equal, jobs, stock, wait_until, Server, Stop};

/// A server with a stocked queue and no memory left.
fn full(config: &[&str]) -> (Server, crate::harness::Stock) {
    let server = Server::with(config);
    let q = stock(&server, "q");
    server.run("RQ.MPUSH q 5 a b c d e");
    server.run("CONFIG SET maxmemory 1");
    assert!(server.error("SET x y").starts_with("OOM "), "it is full");
    (server, q)
}

#[test]
fn b38_what_grows_is_refused() {
    let (server, _) = full(&[]);
    let digest = server.digest("q");
    for line in [
        "RQ.PUSH q x",
        "RQ.PUSH new x",
        "RQ.MPUSH q 2 x y",
        "RQ.CREATE new",
        "RQ.CREATE q LEASE 5",
        "RQ.SCHEDULE q s EVERY 60000 PAYLOAD x",
        "RQ.PAUSE new",
    ] {
        assert!(server.error(line).starts_with("OOM "), "{line}");
    }
    assert_eq!(server.digest("q"), digest);
    assert_eq!(server.run("EXISTS new"), 0);
}

#[test]
fn b38_what_finishes_or_looks_works() {
    let (server, q) = full(&[]);
    assert_eq!(server.codes(format!("RQ.EXTEND q {}", q.leased)), [1]);
    assert_eq!(server.run(format!("RQ.REAP q ID {}", q.leased.id)).array().len(), 1);
    assert_eq!(server.codes(format!("RQ.REDRIVE q {}", q.dead)), [1]);
    assert_eq!(server.run(format!("RQ.SET q {} DELAY 0", q.scheduled)), 1);
    assert_eq!(server.run("RQ.ALTER q MAXDELIVERIES 5"), "OK");
    server.run("RQ.PAUSE q");
    assert!(server.lease("q w").is_empty(), "workers can be stopped");
    server.run("RQ.RESUME q");
    let taken = server.lease("q w COUNT 4");
    assert_eq!(server.codes(format!("RQ.NACK q {}", taken[0])), [1]);
    assert_eq!(server.codes(format!("RQ.NACK q {} DEAD ERROR full", taken[1])), [2]);
    assert_eq!(server.codes(format!("RQ.RELEASE q {}", taken[2])), [1]);
    let mut reply = server.run(format!("RQ.ACKLEASE q {} w", taken[3]));
    // Drained to the last one, still above the limit.
    while let Some(job) = jobs(&reply.array()[1]).pop() {
        assert_eq!(reply.array()[0], 1);
        reply = server.run(format!("RQ.ACKLEASE q {job} w"));
    }
    assert_eq!(server.info("q").ints(["ready", "leased", "dead"]), [0, 0, 1]);
    assert_eq!(server.all_jobs("q").len(), 3);
    assert_eq!(server.run("RQ.PURGE q DEAD"), 1);
    assert_eq!(server.run(format!("RQ.DEL q {}", q.retrying)), 1);
    assert_eq!(server.run("RQ.PURGE q DELAYED"), 1);
    assert_eq!(server.run("RQ.LEN q"), 0);
    assert!(server.error("RQ.PUSH q x").starts_with("OOM "));
    server.run("CONFIG SET maxmemory 0");
    server.push("q x");
}

#[test]
fn b38_the_timer_and_waiters_go_on() {
    let (mut server, q) = full(&["rq.expiry-grace 0"]);
    server.lease("q w COUNT 6");
    let worker = server.client();
    worker.send_line("RQ.LEASE q w BLOCK 0 COUNT 2 LEASE 720000000");
    server.wait_blocked(1);
    server.advance(8_000_000);
    assert!(!jobs(&worker.reply()).is_empty());
    wait_until("the due jobs and the expired leases", || server.info("q").ints(["scheduled", "retrying"]) == [0, 0]);
    assert_eq!(server.codes(format!("RQ.ACK q {}", q.leased)).len(), 1);
}

#[test]
fn b38_in_scripts_and_transactions() {
    let (server, q) = full(&[]);
    let is_redis_7_0 = server.is_redis_7_0();
    let eval = |script: &str| server.cmd(&["EVAL", script, "1", "q"]);
    let ack = format!("return redis.call('RQ.ACK', KEYS[1], '{}', '{}')", q.leased.id, q.leased.token);
    assert!(eval("return redis.call('RQ.PUSH', KEYS[1], 'x')").error().contains("OOM"));
    assert_eq!(jobs(&eval("return redis.call('RQ.LEASE', KEYS[1], 'w')")).len(), 1);
    // With a shebang a script is refused as a whole, unless it says otherwise.
    assert!(eval(&format!("#!lua\n{ack}")).error().contains("OOM"));
    assert_eq!(eval(&format!("#!lua flags=allow-oom\n{ack}")).ints(), [1]);
    server.run("MULTI");
    let queued = server.try_run("RQ.LEASE q w");
    if is_redis_7_0 {
        assert!(queued.error().starts_with("OOM "), "it refuses whatever is queued then: {queued:?}");
        assert!(server.error("EXEC").starts_with("EXECABORT "));
    } else {
        assert_eq!(queued, "QUEUED");
        assert_eq!(jobs(&server.run("EXEC").array()[0]).len(), 1);
    }
}

/// How a command is given.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Manner {
    Direct,
    Script,
    Transaction,
}

impl Manner {
    #[track_caller]
    fn run(self, server: &Server, line: &str) -> crate::harness::Reply {
        let words: Vec<&str> = line.split(' ').collect();
        let reply = match self {
            Manner::Direct => server.try_run(line),
            Manner::Script => {
                let script = "return redis.call(ARGV[1], KEYS[1], unpack(ARGV, 2))";
                server.cmd(&[&["EVAL", script, "1", words[1], words[0]], &words[2..]].concat())
            }
            Manner::Transaction => server.multi(&[line]).remove(0),
        };
        assert!(!reply.is_error(), "{self:?}: {line}: {reply:?}");
        reply
    }
}

/// Filled until a push is refused, then worked down to nothing by each verb in turn; then there is
/// room again.
#[test]
fn b38_from_full_to_empty_and_on_again() {
    for manner in [Manner::Direct, Manner::Script, Manner::Transaction] {
        let server = Server::with(&["rq.expiry-grace 0"]);
        if manner == Manner::Transaction && server.is_redis_7_0() {
            continue; // it refuses whatever is queued then
        }
        server.run("RQ.CREATE q LEASE 7200000 BACKOFF 7200000 7200000 JITTER none KEEPDONE 100");
        let payload = "p".repeat(2_000);
        let batch = format!("RQ.MPUSH q 20{}", format!(" {payload}").repeat(20));
        server.run(&batch);
        let limit = server.server_number("memory", "used_memory") + 3_000_000;
        server.run(format!("CONFIG SET maxmemory {limit}"));
        while !server.try_run(&batch).is_error() {}
        while !server.try_run(format!("RQ.PUSH q {payload} DELAY 7200000")).is_error() {}
        let run = |line: &str| manner.run(&server, line);
        let held = server.run("RQ.LEN q").int();
        assert!(held > 500, "{held}");
        for round in 0.. {
            let jobs = jobs(&run("RQ.LEASE q w COUNT 8"));
            for (job, verb) in jobs.iter().zip(0..) {
                let line = match (verb + round) % 8 {
                    0 => format!("RQ.NACK q {job} ERROR flaky"),
                    1 => format!("RQ.NACK q {job} DEAD ERROR boom"),
                    2 => format!("RQ.REAP q ID {}", job.id),
                    3 => format!("RQ.DEL q {}", job.id),
                    4 => format!("RQ.RELEASE q {job} DELAY 7200000"),
                    5 => format!("RQ.ACKLEASE q {job} w"),
                    6 => format!("RQ.EXTEND q {job} LEASE 7300000"),
                    _ => format!("RQ.ACK q {job} RESULT done"),
                };
                run(&line);
            }
            run("RQ.RELEASE q CONSUMER nobody");
            run("RQ.REDRIVE q COUNT 1");
            run("RQ.TRIM q MAXLEN 50");
            if jobs.is_empty() {
                run("RQ.REAP q CONSUMER w");
                run("RQ.PURGE q READY COUNT 50");
                run("RQ.PURGE q DELAYED COUNT 50");
                run("RQ.PURGE q DEAD COUNT 50");
            }
            if server.info("q").ints(["length", "dead"]) == [0, 0] {
                break;
            }
        }
        run("RQ.TRIM q MAXLEN 0");
        assert_eq!(server.run("RQ.LEN q DONE"), 0);
        let used = || server.server_number("memory", "used_memory");
        wait_until("the memory's being back", || used() + 1_000_000 < limit);
        server.run(&batch);
        assert_eq!(server.run("RQ.LEN q"), 20);
    }
}

#[test]
fn b38_loading_and_replication_know_no_limit() {
    let mut primary = Server::with(&["appendonly yes", "appendfsync always", "rq.eviction-guard refuse"]);
    let replica = Server::with(&["maxmemory 1", "maxmemory-policy allkeys-lru", "rq.eviction-guard refuse"]);
    stock(&primary, "q");
    replica.follow(&primary);
    primary.run("RQ.MPUSH q 3 a b c");
    check_equal(&primary, &replica);
    let digest = primary.digest("q");
    primary.stop(Stop::Kill);
    primary.start_again(&["maxmemory 1", "maxmemory-policy noeviction"]);
    assert_eq!(primary.digest("q"), digest);
    primary.run("CONFIG SET maxmemory-policy allkeys-lru maxmemory 100mb");
    primary.restart(Stop::Kill);
    assert_eq!(primary.digest("q"), digest);
}

#[test]
fn the_eviction_guard_refuses_pushes_where_queues_could_be_evicted() {
    let server = Server::with(&["rq.eviction-guard refuse", "maxmemory 100mb"]);
    let q = stock(&server, "q");
    let digest = server.digest("q");
    for policy in ["allkeys-lru", "allkeys-lfu", "allkeys-random"] {
        server.run(format!("CONFIG SET maxmemory-policy {policy}"));
        for line in ["RQ.PUSH q x", "RQ.PUSH new x", "RQ.MPUSH q 2 x y"] {
            let text = server.error(line);
            assert!(text.starts_with("UNSAFE "), "{policy}: {text}");
            for way_out in ["maxmemory-policy", "noeviction", "rq.eviction-guard"] {
                assert!(text.contains(way_out), "{way_out} in {text}");
            }
        }
        assert!(server.multi(&["RQ.PUSH q x"])[0].error().starts_with("UNSAFE "));
        let script = server.cmd(&["EVAL", "return redis.pcall('RQ.PUSH', KEYS[1], 'x').err", "1", "q"]);
        assert!(script.text().starts_with("UNSAFE "), "{script:?}");
        assert_eq!(server.digest("q"), digest);
        assert_eq!(server.run("EXISTS new"), 0);
    }
    // All else works.
    assert_eq!(server.codes(format!("RQ.EXTEND q {}", q.leased)), [1]);
    assert_eq!(server.codes(format!("RQ.ACK q {}", q.leased)), [1]);
    assert_eq!(server.codes(format!("RQ.REDRIVE q {}", q.dead)), [1]);
    assert_eq!(server.lease("q w COUNT 5").len(), 2);
    assert_eq!(server.run("RQ.PURGE q DELAYED"), 2);
}

#[test]
fn each_way_out_of_the_eviction_guard() {
    let server = Server::with(&["rq.eviction-guard refuse", "maxmemory 100mb", "maxmemory-policy allkeys-lru"]);
    assert!(server.error("RQ.PUSH q x").starts_with("UNSAFE "));
    for (way, back) in [
        ("maxmemory-policy noeviction", "maxmemory-policy allkeys-lru"),
        ("maxmemory-policy volatile-lru", "maxmemory-policy allkeys-random"),
        ("maxmemory 0", "maxmemory 100mb"),
        ("rq.eviction-guard warn", "rq.eviction-guard refuse"),
        ("rq.eviction-guard off", "rq.eviction-guard refuse"),
    ] {
        server.run(format!("CONFIG SET {way}"));
        server.push("q x");
        server.run(format!("CONFIG SET {back}"));
        assert!(server.error("RQ.PUSH q x").starts_with("UNSAFE "), "{back}");
    }
    assert_eq!(server.run("RQ.LEN q"), 5);
}

#[test]
fn warn_says_it_in_the_log() {
    let server = Server::with(&["rq.eviction-guard warn", "maxmemory 100mb", "maxmemory-policy allkeys-lru"]);
    server.push("q x");
    wait_until("the warning", || server.log().lines().any(|line| line.contains("maxmemory-policy") && line.contains("rq")));
}

#[test]
fn queues_that_were_evicted_are_counted_and_told() {
    let server = Server::with(&["rq.eviction-guard warn", "maxmemory-policy allkeys-random"]);
    server.run("RQ.MPUSH q 3 a b c");
    let worker = server.client();
    worker.send_line("RQ.LEASE other w BLOCK 0");
    crowd_out(&server, || server.run("EXISTS q") == 0);
    assert_eq!(server.server_number("rq", "rq_evicted_queues"), 1);
    if !server.is_redis_7_0() {
        assert_eq!(server.server_number("rq", "rq_evicted_jobs"), 3);
    }
    assert!(server.log().lines().any(|line| line.contains("was evicted") && line.contains("\"q\"")));
    server.run("CONFIG SET maxmemory 0");
    server.push("other x");
    assert_eq!(jobs(&worker.reply()).len(), 1);
}

#[test]
fn the_guard_is_there_by_default() {
    let server = Server::with(&["maxmemory 100mb", "maxmemory-policy allkeys-lru"]);
    let guard = server.config("rq.eviction-guard");
    assert!(["refuse", "rescue"].contains(&guard.as_str()), "{guard}");
    assert_eq!(server.try_run("RQ.PUSH q x").is_error(), guard == "refuse");
}
