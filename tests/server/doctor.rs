//! RQ.DOCTOR: each finding is provoked, and the line that it advises, taken from the reply and sent
//! as it is, makes it go away.

use crate::harness::{crowd_out, outgrow, wait_until, Client, Cluster, Reply, Scene, Server, Stop};

/// One finding of a reply.
#[derive(Debug, Clone, PartialEq)]
struct Found {
    severity: String,
    code: String,
    text: String,
    remedy: String,
}

#[track_caller]
fn ask(client: &Client, options: &str) -> Vec<Found> {
    let rows = client.run(format!("RQ.DOCTOR {options}"));
    let found = rows.array().iter().map(|row| {
        let [severity, code, text, remedy] = row.array() else { panic!("{row:?}") };
        let texts = [severity, code, text, remedy].map(|one| one.text().to_owned());
        let [severity, code, text, remedy] = texts;
        Found { severity, code, text, remedy }
    });
    found.collect()
}

#[track_caller]
fn has(client: &Client, code: &str) -> bool {
    ask(client, "").iter().any(|one| one.code == code)
}

#[track_caller]
fn found(client: &Client, code: &str) -> Found {
    let all = ask(client, "");
    let one = all.iter().find(|one| one.code == code).unwrap_or_else(|| panic!("no {code} in {all:#?}"));
    assert!(one.text.len() > 20 && !one.remedy.is_empty(), "{one:?}");
    one.clone()
}

/// Types a line, as people do.
#[track_caller]
fn type_line(client: &Client, line: &str) -> Reply {
    client.send_bytes(format!("{line}\r\n").as_bytes());
    client.reply()
}

/// The finding is there, and gone when its line was typed.
#[track_caller]
fn mends(client: &Client, code: &str) -> Found {
    let one = found(client, code);
    let reply = type_line(client, &one.remedy);
    assert!(!reply.is_error(), "{}: {reply:?}", one.remedy);
    assert!(!has(client, code), "{code} is still there after {}: {:#?}", one.remedy, ask(client, ""));
    one
}

#[test]
fn every_finding_has_a_test() {
    let listed = include_str!("../../docs/DOCTOR.md").lines().filter_map(|line| line.strip_prefix("## "));
    let mut n = 0;
    for code in listed {
        assert!(include_str!("doctor.rs").contains(&format!("\"{code}\")")), "{code}");
        n += 1;
    }
    assert!(n > 20, "{n}");
}

#[test]
fn eviction() {
    let server = Server::with(&["maxmemory 100mb", "maxmemory-policy allkeys-lru", "rq.eviction-guard warn"]);
    server.push("q x");
    assert_eq!(mends(&server, "eviction-allkeys").severity, "critical");
    server.run("CONFIG SET maxmemory-policy volatile-lru");
    server.run("SET cached x EX 1000");
    assert!(!has(&server, "eviction-volatile"), "what is no queue can be evicted");
    server.run("SET kept x");
    mends(&server, "eviction-volatile");
}

#[test]
fn evicted_queues() {
    let server = Server::with(&["rq.eviction-guard warn", "maxmemory-policy allkeys-random"]);
    server.run("RQ.MPUSH q 3 a b c");
    assert!(!has(&server, "evicted"));
    crowd_out(&server, || server.run("EXISTS q") == 0);
    assert!(mends(&server, "evicted").text.starts_with("1 queues"));
}

#[test]
fn very_many_findings_do_not_hide_those_of_the_server() {
    let server = Server::start();
    for n in 0..1_001 {
        server.push(format!("q{n} x"));
        server.run(format!("EXPIRE q{n} 100000"));
    }
    let all = ask(&server, "");
    assert_eq!(all.iter().filter(|one| one.code == "queue-ttl").count(), 1_000);
    for code in ["no-maxmemory", "no-replica", "not-all"] {
        assert!(all.iter().any(|one| one.code == code), "{code}");
    }
}

#[test]
fn queues_that_were_put_back() {
    let server = Server::with(&["maxmemory-policy allkeys-random"]);
    if server.is_redis_7_0() {
        return; // there RQ cannot put them back
    }
    server.run("RQ.MPUSH q 3 a b c");
    crowd_out(&server, || {
        assert!(!has(&server, "eviction-allkeys"));
        server.server_number("rq", "rq_rescued_queues") > 0
    });
    mends(&server, "evicted-and-put-back");
    assert_eq!(server.run("RQ.LEN q"), 3);
}

#[test]
fn queues_that_outgrow_the_memory() {
    let server = Server::with(&["maxmemory-policy allkeys-lru"]);
    if server.is_redis_7_0() {
        return; // there RQ cannot put them back, and takes none
    }
    server.push("q x");
    assert!(!has(&server, "eviction-given-way"));
    outgrow(&server, "q");
    let one = found(&server, "eviction-given-way");
    assert!(one.text.contains("from allkeys-lru to noeviction"), "{}", one.text);
    type_line(&server, &one.remedy);
    wait_until("the policy to be given back", || !has(&server, "eviction-given-way"));
    assert_eq!(server.config("maxmemory-policy"), "allkeys-lru");
}

#[test]
fn memory() {
    let server = Server::start();
    let one = found(&server, "no-maxmemory");
    assert_eq!(one.severity, "notice");
    mends(&server, "no-maxmemory");
    // It does not turn on what removes queues.
    server.run("CONFIG SET maxmemory 0 maxmemory-policy allkeys-lfu");
    mends(&server, "no-maxmemory");
    assert!(!has(&server, "eviction-allkeys"));
    assert!(!has(&server, "memory-full"));
    let used = server.server_number("memory", "used_memory");
    server.run(format!("CONFIG SET maxmemory {}", used + used / 50));
    mends(&server, "memory-full");
}

#[test]
fn the_append_only_file() {
    let server = Server::start();
    mends(&server, "aof-off");
    assert!(!has(&server, "aof-fsync"));
    server.run("CONFIG SET appendfsync no");
    mends(&server, "aof-fsync");
}

#[test]
fn replicas() {
    let server = Server::start();
    let one = found(&server, "no-replica");
    assert_eq!(one.remedy, format!("REPLICAOF 127.0.0.1 {}", server.port));
    assert!(!has(&server, "replica-not-needed"));
    let replica = Server::start();
    type_line(&replica, &one.remedy);
    wait_until("the replica", || !has(&server, "no-replica"));
    assert!(!has(&replica, "no-replica"), "a replica needs none");
    mends(&server, "replica-not-needed");
}

#[test]
fn a_replica_that_has_diverged() {
    let primary = Server::start();
    let mut replica = primary.replica(&["replica-read-only no", "rq.accept-apply yes"]);
    assert!(!has(&replica, "replica-diverged"));
    for server in [&primary, &replica] {
        assert!(server.try_run("RQ.APPLY q nonsense").is_error());
    }
    assert!(!has(&primary, "replica-diverged"), "it came from nowhere");
    let one = found(&replica, "replica-diverged");
    assert_eq!(one.severity, "critical");
    let typist = replica.client();
    typist.send_bytes(format!("{}\r\n", one.remedy).as_bytes());
    assert!(typist.next_reply().is_err(), "the server ends");
    replica.restart(Stop::Kill);
    replica.follow(&primary);
    assert!(!has(&replica, "replica-diverged"));
}

#[test]
fn clients_that_may_apply_ops() {
    let server = Server::start();
    assert!(!has(&server, "accept-apply"));
    server.run("CONFIG SET rq.accept-apply yes");
    mends(&server, "accept-apply");
}

#[test]
fn in_a_cluster() {
    let cluster = Cluster::start(1, 1);
    let [first, second] = &cluster.nodes[..] else { panic!("two nodes") };
    let id = cluster.id(0);
    assert!(!has(first, "no-replica-in-cluster"));
    second.run("CLUSTER RESET");
    wait_until("the replica's end", || has(first, "no-replica-in-cluster"));
    cluster.meet(1, 0);
    wait_until("the nodes know each other", || [first, second].iter().all(|node| {
        let nodes = node.run("CLUSTER NODES").text().to_owned();
        nodes.contains(&id) && !nodes.contains("handshake") && nodes.lines().count() == 2
    }));
    let one = found(first, "no-replica-in-cluster");
    assert_eq!(one.remedy, format!("CLUSTER REPLICATE {id}"));
    wait_until("that it is taken", || !type_line(second, &one.remedy).is_error());
    wait_until("the replica", || !has(first, "no-replica-in-cluster"));

    first.push(format!("q {}", "x".repeat(600_000)));
    assert!(!has(first, "queue-large"));
    first.run("CONFIG SET proto-max-bulk-len 1mb");
    mends(first, "queue-large");
    // It names its key, so that clients find the node.
    assert_eq!(first.run("COMMAND GETKEYS RQ.DOCTOR JSON KEY q").texts(), ["q"]);
}

#[test]
fn keys_that_expire() {
    let s = Scene::new();
    for key in ["plain", "with space", "\"it's\"\\", "\u{0}\u{7}\n\u{e9}"] {
        s.cmd(&["RQ.PUSH", key, "x"]);
        assert!(!has(&s, "queue-ttl"));
        s.cmd(&["EXPIRE", key, "10000"]);
        assert_eq!(mends(&s, "queue-ttl").severity, "critical");
        assert_eq!(s.cmd(&["TTL", key]), -1);
    }
    s.verify();
}

#[test]
fn dead_jobs() {
    let mut s = Scene::new();
    let die = |s: &Scene| {
        let jobs = s.lease("q w COUNT 1000");
        let pairs: Vec<String> = jobs.iter().map(ToString::to_string).collect();
        s.codes(format!("RQ.NACK q {} DEAD", pairs.join(" ")));
    };
    s.run("RQ.CREATE q LEASE 7200000");
    s.push("q x");
    assert!(!has(&s, "dead-growing"));
    die(&s);
    assert!(!has(&s, "dead-many"));
    mends(&s, "dead-growing");
    assert_eq!(s.run("RQ.LEN q READY"), 1);
    s.run(format!("RQ.MPUSH q 999{}", " x".repeat(999)));
    die(&s);
    // What has been there for a while does not grow.
    s.advance(121_000);
    assert!(!has(&s, "dead-growing"));
    mends(&s, "dead-many");
    s.verify();
}

#[test]
fn leases_that_are_too_short() {
    let mut s = Scene::new();
    s.run("RQ.CREATE q LEASE 5000");
    s.push("q x");
    let late = s.lease_one("q w");
    s.advance(20_000);
    wait_until("the expiry", || s.run("RQ.LEN q READY") == 1);
    assert!(!has(&s, "lease-short"), "it may have died");
    s.codes(format!("RQ.ACK q {late}"));
    mends(&s, "lease-short");
    assert!(s.info("q").int("lease") >= 38_000);
    // With heartbeats a run may be longer than a lease.
    s.push("q x");
    let beating = s.lease_one("q w LEASE 7200000");
    s.advance(100_000);
    s.codes(format!("RQ.ACK q {beating}"));
    assert!(!has(&s, "lease-short"));
    s.verify();
}

#[test]
fn tokens_that_are_refused() {
    let mut s = Scene::new();
    s.run("RQ.CREATE q LEASE 5000");
    s.push("q x");
    let zombie = s.lease_one("q w");
    s.advance(20_000);
    wait_until("the expiry", || s.run("RQ.LEN q READY") == 1);
    s.lease_one("q other LEASE 7200000");
    assert!(!has(&s, "stale-tokens"));
    assert_eq!(s.codes(format!("RQ.ACK q {zombie}")), [0]);
    mends(&s, "stale-tokens");
    assert_eq!(s.info("q").int("lease"), 10_000);
    s.codes(format!("RQ.ACK q {zombie}"));
    s.advance(121_000);
    assert!(!has(&s, "stale-tokens"), "that was long ago");
    s.verify();
}

#[test]
fn slots_that_were_skipped() {
    let mut s = Scene::new();
    let skipped = |s: &Scene, n: i64| wait_until("a skipped slot", || s.info("q").int("slots-skipped-total") >= n);
    s.run("RQ.SCHEDULE q daily EVERY 86400000 PAYLOAD x");
    s.run("RQ.PAUSE q IN");
    assert!(!has(&s, "slots-paused"));
    s.advance(87_000_000);
    skipped(&s, 1);
    mends(&s, "slots-paused");
    s.push("q x");
    for bound in ["MAXLIVE 1", "MAXLIVEBYTES 1"] {
        s.run("RQ.ALTER q MAXLIVE -1 MAXLIVEBYTES -1");
        s.run(format!("RQ.ALTER q {bound}"));
        let before = s.info("q").int("slots-skipped-total");
        s.advance(86_400_000);
        skipped(&s, before + 1);
        mends(&s, "slots-full");
    }
    s.verify();
}

#[test]
fn ready_jobs_and_nobody_leasing() {
    let mut s = Scene::new();
    s.run("RQ.CREATE q LEASE 7200000");
    s.push("q x");
    assert!(!has(&s, "nobody-leasing"), "it has just come");
    s.advance(90_000);
    assert!(!has(s.replica(), "nobody-leasing"), "that is its primary's affair");
    mends(&s, "nobody-leasing");
    s.run("RQ.MPUSH q 2 x y");
    s.advance(200_000);
    found(&s, "nobody-leasing");
    s.lease_one("q w");
    assert!(!has(&s, "nobody-leasing"), "somebody does, slowly");
    s.verify();
}

#[test]
fn pauses_that_hold_up_jobs() {
    let mut s = Scene::new();
    s.push("q x");
    s.run("RQ.PAUSE q");
    s.advance(60_000);
    assert!(!has(&s, "paused"));
    s.advance(600_000);
    mends(&s, "paused");
    s.lease_one("q w LEASE 7200000");
    for group in ["g", "of two words", ""] {
        s.cmd(&["RQ.PUSH", "q", "x", "GROUP", group]);
        s.cmd(&["RQ.PAUSE", "q", "GROUP", group]);
        assert!(!has(&s, "group-paused"));
        s.advance(600_000);
        mends(&s, "group-paused");
        s.lease_one("q w LEASE 72000000");
    }
    s.verify();
}

#[test]
fn a_retry_that_holds_up_its_group() {
    let mut s = Scene::new();
    s.run("RQ.CREATE q GROUPORDER yes LEASE 7200000 BACKOFF 7200000 7200000 JITTER none");
    s.push("q first GROUP g");
    s.push("q second GROUP g");
    let first = s.lease_one("q w");
    s.advance(600_000);
    assert!(!has(&s, "group-retry"), "it is being worked on");
    s.codes(format!("RQ.NACK q {first}"));
    mends(&s, "group-retry");
    assert_eq!(s.lease_one("q w").text(), "first");
    s.verify();
}

#[test]
fn more_queues_than_are_looked_at() {
    let s = Scene::new();
    let lines: Vec<String> = (0..1_001).map(|n| format!("RQ.CREATE q{n:04}")).collect();
    s.multi(&lines);
    let one = found(&s, "not-all");
    assert_eq!(type_line(&s, &one.remedy).array().len(), 1_001, "the keys to ask for");
    s.run("PEXPIRE q1000 10000000");
    assert!(!has(&s, "queue-ttl"));
    assert!(ask(&s, "KEY q1000").iter().any(|one| one.code == "queue-ttl"));
    s.run("DEL q1000");
    assert!(!has(&s, "not-all"));
    s.run("FLUSHALL");
    s.verify();
}

#[test]
fn one_queue_and_the_shapes_of_the_reply() {
    let s = Scene::new();
    s.push("a x");
    s.push("b x");
    for key in ["a", "b"] {
        s.run(format!("EXPIRE {key} 10000"));
    }
    let expiring = |options: &str| {
        let all = ask(&s, options);
        let mut order: Vec<usize> = all.iter().map(|one| ["critical", "warning", "notice"].iter().position(|s| *s == one.severity).expect("a severity")).collect();
        assert!(order.is_sorted(), "the worst first: {all:?}");
        order.retain(|place| *place == 0);
        let ttl = all.into_iter().filter(|one| one.code == "queue-ttl");
        ttl.map(|one| one.remedy).collect::<Vec<_>>()
    };
    assert_eq!(s.unchanged(|| expiring("")), ["PERSIST a", "PERSIST b"]);
    assert_eq!(expiring("KEY b"), ["PERSIST b"]);
    assert!(expiring("key none").is_empty());
    let text = s.unchanged(|| s.run("RQ.DOCTOR json KEY a")).text().to_owned();
    assert!(text.starts_with("[{\"severity\":\"critical\",\"code\":\"queue-ttl\",\"finding\":\"the key a expires") && text.ends_with("}]"), "{text}");
    assert!(text.contains("\"remedy\":\"PERSIST a\"}") && !text.contains("PERSIST b"), "{text}");
    // Anywhere, as it reads only.
    let three = s.client3();
    assert_eq!(three.run("RQ.DOCTOR KEY a").array()[0].array()[1], "queue-ttl");
    assert_eq!(s.multi(&["RQ.DOCTOR KEY a"])[0].array()[0].array()[1], "queue-ttl");
    assert_eq!(s.cmd(&["EVAL", "return redis.call('RQ.DOCTOR', 'KEY', KEYS[1])[1][2]", "1", "a"]), "queue-ttl");
    assert_eq!(s.replica().run("RQ.DOCTOR KEY a").array()[0].array()[1], "queue-ttl");
    s.run("SET text x");
    for (line, error) in [
        ("RQ.DOCTOR KEY", "ERR syntax error: KEY needs a value"),
        ("RQ.DOCTOR a", "ERR syntax error: unknown or misplaced option \"a\""),
        ("RQ.DOCTOR KEY a KEY b", "ERR syntax error: KEY was given twice"),
        ("RQ.DOCTOR JSON JSON", "ERR syntax error: JSON was given twice"),
        ("RQ.DOCTOR KEY text", "WRONGTYPE "),
    ] {
        s.refused(line, error);
    }
    s.run("PERSIST a");
    s.run("PERSIST b");
    s.verify();
}

#[test]
fn a_user_is_told_of_what_it_may_read() {
    let s = Scene::new();
    for key in ["mine", "theirs"] {
        s.push(format!("{key} x"));
        s.run(format!("EXPIRE {key} 10000"));
    }
    s.run("ACL SETUSER reader reset on nopass +@all %R~mine");
    let client = s.client();
    client.run("AUTH reader x");
    let keys: Vec<String> = ask(&client, "").into_iter().filter(|one| one.code == "queue-ttl").map(|one| one.remedy).collect();
    assert_eq!(keys, ["PERSIST mine"]);
    assert!(!ask(&client, "KEY mine").is_empty());
    assert!(client.error("RQ.DOCTOR KEY theirs").starts_with("NOPERM "));
    assert!(client.error("RQ.DOCTOR JSON KEY theirs").starts_with("NOPERM "));
    s.run("ACL DELUSER reader");
    s.run("PERSIST mine");
    s.run("PERSIST theirs");
    s.verify();
}
