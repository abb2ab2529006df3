//! Queues that the server evicts, and that come back: beside a cache, and when nothing else is left.

use std::fs;
use std::ops::Range;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::harness::{jobs, outgrow, wait_until, Client, Reply, Scene, Server, Stop};

/// Whether this server lets a module put back what it evicts.
fn rescues(server: &Server) -> bool {
    !server.is_redis_7_0()
}

/// A scene under this policy. What is kept for replicas must not take the room of the cache.
fn scene(policy: &str) -> Scene {
    Scene::with(&[&format!("maxmemory-policy {policy}"), "repl-backlog-size 64kb"])
}

/// Lets the server have so many more bytes than it uses now.
fn leave_room(server: &Client, bytes: u64) {
    let used = server.server_number("memory", "used_memory");
    server.run(format!("CONFIG SET maxmemory {}", used + bytes));
}

/// So many cache keys of 1 KB from `from` on; how many of them the server has taken, and how long
/// the slowest batch of ten took.
fn cache(client: &Client, from: usize, n: usize) -> (usize, Duration) {
    let value = "x".repeat(1_000);
    let (mut taken, mut slowest) = (0, Duration::ZERO);
    for batch in (from..from + n).collect::<Vec<_>>().chunks(10) {
        let begin = Instant::now();
        batch.iter().for_each(|n| client.send(&["SET", &format!("cache:{n}"), &value, "EX", "3600"]));
        taken += batch.iter().filter(|_| client.reply() == "OK").count();
        slowest = slowest.max(begin.elapsed());
    }
    (taken, slowest)
}

/// A queue of so many jobs, some of them leased, delayed and dead.
fn fill(client: &Client, key: &str, n: usize) {
    for batch in (0..n).collect::<Vec<_>>().chunks(100) {
        let payloads: Vec<String> = batch.iter().map(|n| format!("job{n}")).collect();
        client.run(format!("RQ.MPUSH {key} {} {}", batch.len(), payloads.join(" ")));
    }
    for (n, job) in client.lease(format!("{key} w COUNT 30 LEASE 3600000")).iter().enumerate() {
        match n % 3 {
            0 => drop(client.run(format!("RQ.NACK {key} {job} DEAD ERROR bad"))),
            1 => drop(client.run(format!("RQ.NACK {key} {job} DELAY 3600000"))),
            _ => {}
        }
    }
}

fn figure(server: &Server, name: &str) -> u64 {
    server.server_number("rq", &format!("rq_{name}"))
}

/// Presses keys out until a queue has been evicted and put back.
fn press(server: &Server) {
    let before = figure(server, "rescued_queues");
    let client = server.client();
    for round in 0.. {
        cache(&client, round * 10, 10);
        if figure(server, "rescued_queues") > before {
            return;
        }
        assert!(round < 20_000, "no queue is ever evicted");
    }
}

/// Nothing may be evicted while states are compared.
#[track_caller]
fn end(s: Scene) {
    s.run("CONFIG SET maxmemory 0");
    for name in ["evicted_queues", "evicted_jobs", "missed_revivals"] {
        assert_eq!(figure(&s, name), 0, "{name}");
        assert_eq!(figure(s.replica(), name), 0, "{name} on the replica");
    }
    s.verify();
}

#[test]
fn a_cache_pushes_out_no_job() {
    for policy in ["allkeys-lru", "allkeys-lfu", "allkeys-random"] {
        let s = scene(policy);
        if !rescues(&s) {
            return s.verify();
        }
        fill(&s, "q", 2_000);
        let digest = s.digest("q");
        // The server's clock of last use counts seconds: the queue is the oldest key there is.
        std::thread::sleep(Duration::from_millis(1_100));
        leave_room(&s, 3_000_000);
        let (taken, slowest) = cache(&s.client(), 0, 15_000);
        let revived = figure(&s, "rescued_queues");
        println!("{policy}: {taken} of 15000 cache keys taken, {revived} revivals, slowest ten {slowest:?}");
        assert_eq!(taken, 15_000, "{policy}");
        assert!(s.server_number("stats", "evicted_keys") > 5_000, "{policy}");
        assert_eq!(s.digest("q"), digest, "{policy}");
        // By chance it may be spared, and a queue is used often. Here it is the oldest key.
        if policy == "allkeys-lru" {
            assert!(revived > 0, "{policy}: the test is to see a revival");
            assert!(s.log().contains("it was put back with its 2000 jobs"));
        }
        assert_eq!(s.config("maxmemory-policy"), policy);
        end(s);
    }
}

#[test]
fn a_queue_outgrows_memory() {
    for policy in ["allkeys-lru", "allkeys-lfu", "allkeys-random"] {
        let s = scene(policy);
        if !rescues(&s) {
            return s.verify();
        }
        let payload = "p".repeat(1_000);
        s.push("q first");
        leave_room(&s, 4_000_000);
        // It pushes out the cache first, then it is refused.
        cache(&s.client(), 0, 5_000);
        let mut pushed = 1;
        let error = loop {
            match s.try_run(format!("RQ.PUSH q {payload}")) {
                // Redis 8.6 may refuse one before it has tried often enough.
                reply if reply.is_error() && s.config("maxmemory-policy") == "noeviction" => break reply.error().to_owned(),
                reply if reply.is_error() => continue,
                _ => pushed += 1,
            }
            assert!(pushed < 50_000, "{policy}: it is never refused");
        };
        assert!(error.starts_with("OOM "), "{error}");
        assert!(pushed > 1_000, "{policy}: {pushed}");
        assert_eq!(s.run("RQ.LEN q"), pushed);
        assert_eq!(s.config("maxmemory-policy"), "noeviction");
        assert_eq!(s.server_info("rq")["rq_eviction_given_way"], "yes");
        println!("{policy}: refused after {pushed} jobs, {} revivals", figure(&s, "rescued_queues"));
        // Nothing goes on in vain.
        let idle = |s: &Scene| (s.server_number("stats", "evicted_keys"), figure(s, "rescued_queues"));
        let before = idle(&s);
        std::thread::sleep(Duration::from_millis(1_500));
        assert_eq!(idle(&s), before, "{policy}");
        // Workers go on, and when they have made room, all is as before.
        for _ in 0..pushed {
            let job = s.lease_one("q w");
            assert_eq!(s.codes(format!("RQ.ACK q {job}")), [1]);
        }
        wait_until("the policy to be given back", || s.config("maxmemory-policy") == policy);
        assert_eq!(s.server_info("rq")["rq_eviction_given_way"], "no");
        s.push("q x");
        assert_eq!(cache(&s.client(), 0, 2_000).0, 2_000);
        assert_eq!(s.run("RQ.LEN q"), 1);
        end(s);
    }
}

/// A server that has given way.
fn given_way() -> Option<Server> {
    let server = Server::with(&["maxmemory-policy allkeys-lru"]);
    if !rescues(&server) {
        return None;
    }
    server.push("q x");
    outgrow(&server, "q");
    Some(server)
}

#[test]
fn a_policy_that_the_user_sets_meanwhile_stays() {
    for policy in ["noeviction", "volatile-lru", "allkeys-random"] {
        let Some(server) = given_way() else { return };
        server.run("CONFIG SET maxmemory 100mb rq.eviction-guard rescue");
        server.run(format!("CONFIG SET maxmemory-policy {policy}"));
        std::thread::sleep(Duration::from_millis(1_300));
        assert_eq!(server.config("maxmemory-policy"), policy);
        server.push("q x");
    }
}

#[test]
fn without_rescues_the_policy_is_given_back_at_once() {
    let Some(server) = given_way() else { return };
    server.run("CONFIG SET rq.eviction-guard refuse");
    wait_until("the policy", || server.config("maxmemory-policy") == "allkeys-lru");
    server.run("CONFIG SET maxmemory 100mb");
    let error = server.error("RQ.PUSH q x");
    assert!(error.starts_with("UNSAFE ") && error.contains("rq.eviction-guard rescue"), "{error}");
}

#[test]
fn the_policy_is_given_back_when_there_is_a_cache_again() {
    let Some(server) = given_way() else { return };
    // All in one turn, so that memory is never seen to have fallen.
    let full = server.server_number("memory", "used_memory");
    let client = server.client();
    client.send(&["CONFIG", "SET", "maxmemory", "100mb"]);
    (0..300).for_each(|n| client.send(&["SET", &format!("cache:{n}"), "x"]));
    client.send(&["CONFIG", "SET", "maxmemory", &full.to_string()]);
    (0..302).for_each(|_| assert_eq!(client.reply(), "OK"));
    wait_until("the cache goes instead", || server.run("DBSIZE").int() < 301);
    assert_eq!(server.run("EXISTS q"), 1);
}

#[test]
fn what_has_a_ttl_goes_by_a_volatile_policy_and_nothing_else_does() {
    for policy in ["volatile-lru", "volatile-ttl"] {
        let server = Server::with(&[&format!("maxmemory-policy {policy}")]);
        (0..300).for_each(|n| _ = server.run(format!("SET precious{n} x")));
        server.push("q x");
        server.push("kept x");
        server.run("PEXPIRE q 3600000");
        leave_room(&server, 100_000);
        let value = "x".repeat(1_000);
        let refused = (0..5_000).find_map(|n| match server.try_run(format!("SET n{n} {value}")) {
            Reply::Error(text) => Some(text),
            _ => None,
        });
        assert!(refused.is_some_and(|text| text.starts_with("OOM ")), "{policy}");
        let precious: Vec<String> = (0..300).map(|n| format!("precious{n}")).collect();
        assert_eq!(server.run(format!("EXISTS {}", precious.join(" "))), 300, "{policy}");
        assert_eq!(server.run("EXISTS q"), 0, "{policy}");
        assert_eq!(server.run("EXISTS kept"), 1, "{policy}");
        assert_eq!(["evicted_queues", "rescued_queues", "evicted_instead"].map(|name| figure(&server, name)), [1, 0, 0], "{policy}");
    }
}

#[test]
fn without_config_no_jobs_are_taken_that_could_be_evicted() {
    let server = Server::with(&["rename-command CONFIG \"\"", "maxmemory 100mb", "maxmemory-policy allkeys-lru"]);
    assert!(server.error("RQ.PUSH q x").starts_with("UNSAFE "));
    assert_eq!(server.server_info("rq")["rq_eviction_unsafe"], "yes");
    let found = server.run("RQ.DOCTOR");
    let codes: Vec<&str> = found.array().iter().map(|row| row.array()[1].text()).collect();
    assert!(codes.contains(&"eviction-allkeys") && !codes.contains(&"no-maxmemory"), "{codes:?}");
}

#[test]
fn several_queues_in_two_databases_while_the_server_forks() {
    for policy in ["allkeys-lru", "allkeys-random"] {
        let s = scene(policy);
        if !rescues(&s) {
            return s.verify();
        }
        let (zero, nine) = (s.client(), s.client());
        nine.run("SELECT 9");
        for n in 0..20 {
            // The same names in both.
            fill(&zero, &format!("q{n}"), 40 + n);
            fill(&nine, &format!("q{n}"), 80 + n);
        }
        std::thread::sleep(Duration::from_millis(1_100));
        leave_room(&s, 1_500_000);
        for round in 0..30 {
            let cached = if round % 2 == 0 { &zero } else { &nine };
            assert_eq!(cache(cached, round * 200, 200).0, 200, "{policy}");
            match round {
                5 | 15 => drop(s.try_run("BGSAVE")),
                10 | 20 => drop(s.try_run("BGREWRITEAOF")),
                _ => {}
            }
            zero.run(format!("RQ.PUSH q{} more", round % 20));
            nine.run(format!("RQ.PUSH q{} more DELAY 3600000", round % 20));
        }
        println!("{policy}: {} revivals of 40 queues", figure(&s, "rescued_queues"));
        assert!(figure(&s, "rescued_queues") > 0, "{policy}");
        for n in 0..20 {
            let more = if n < 10 { 2 } else { 1 };
            // Ten jobs of each are dead.
            assert_eq!(zero.all_jobs(format!("q{n}")).len(), 40 + n + more, "{policy}");
            assert_eq!(nine.all_jobs(format!("q{n}")).len(), 80 + n + more, "{policy}");
        }
        wait_until("the children", || {
            let info = s.server_info("persistence");
            info["rdb_bgsave_in_progress"] == "0" && info["aof_rewrite_in_progress"] == "0"
        });
        end(s);
    }
}

#[test]
fn in_transactions_and_scripts() {
    let s = scene("allkeys-random");
    if !rescues(&s) {
        return s.verify();
    }
    for n in 0..10 {
        fill(&s, &format!("q{n}"), 40);
    }
    // One script writes 200 kB at once.
    leave_room(&s, 2_000_000);
    let value = "x".repeat(20_000);
    let script = "for n = 1, 10 do redis.call('SET', 'script' .. n .. ARGV[1], ARGV[2]) end \
                  return {redis.call('RQ.PUSH', KEYS[1], 'x'), redis.call('RQ.LEN', KEYS[1])}";
    for round in 0..200 {
        let key = format!("q{}", round % 10);
        let (cached, pushed) = (format!("SET multi{round} {value}"), format!("RQ.PUSH {key} x"));
        let replies = s.multi(&[&cached, &pushed, &cached, &format!("RQ.LEN {key}")]);
        // Ten of the forty are dead, ten delayed, ten leased: LEN counts all but the dead.
        assert!(!replies.iter().any(crate::harness::Reply::is_error), "{replies:?}");
        let reply = s.cmd(&["EVAL", script, "1", &key, &round.to_string(), &value]);
        assert_eq!(reply.array()[1].int(), replies[3].int() + 1, "{reply:?}");
    }
    println!("{} revivals", figure(&s, "rescued_queues"));
    assert!(figure(&s, "rescued_queues") > 0);
    for n in 0..10 {
        assert_eq!(s.all_jobs(format!("q{n}")).len(), 40 + 40);
    }
    end(s);
}

#[test]
fn a_revived_queue_is_as_before() {
    let mut s = scene("allkeys-random");
    if !rescues(&s) {
        return s.verify();
    }
    s.push("q now");
    let (taken, delayed) = (s.lease_one("q w LEASE 3600000"), s.push("q later DELAY 600000"));
    s.run("PEXPIRE q 86400000");
    let expires = s.run("PEXPIRETIME q");
    let worker = s.client();
    worker.send_line("RQ.LEASE q w BLOCK 0 LEASE 3600000");
    let watcher = s.client();
    watcher.send_line(format!("RQ.WAIT q {} BLOCK 0", taken.id));
    s.wait_blocked(2);
    let other = s.client();
    other.run("WATCH q");
    leave_room(&s, 500_000);
    press(&s);
    assert_eq!(s.run("PEXPIRETIME q"), expires);
    // All of this may have taken less time than the replica needs to hear of it.
    s.replica().wait_in_step(&s);
    assert_eq!(s.replica().run("PEXPIRETIME q"), expires);
    s.wait_blocked(2);
    // The server has told the watcher of the eviction. That costs it a retry, and no more.
    other.run("MULTI");
    other.run("RQ.LEN q");
    assert!(other.run("EXEC").is_null());
    assert_eq!(other.multi(&["RQ.LEN q"])[0], 2);
    s.advance(601_000);
    let got = jobs(&worker.reply());
    assert_eq!((got[0].id.as_str(), got[0].text().as_str()), (delayed.as_str(), "later"));
    assert_eq!(s.codes(format!("RQ.ACK q {taken} RESULT fine")), [1]);
    assert_eq!(watcher.reply().array()[0], "done");
    worker.send_line("RQ.LEASE q w BLOCK 0 LEASE 3600000");
    s.wait_blocked(1);
    press(&s);
    s.push("q pushed");
    assert_eq!(jobs(&worker.reply())[0].text(), "pushed");
    s.run("PERSIST q");
    end(s);
}

#[test]
fn the_guard_is_set_while_the_server_runs() {
    let server = Server::with(&["maxmemory-policy allkeys-random"]);
    if !rescues(&server) {
        let error = server.error("CONFIG SET rq.eviction-guard rescue");
        assert!(error.contains("refuse"), "{error}");
        assert_eq!(server.config("rq.eviction-guard"), "refuse");
        return;
    }
    assert_eq!(server.config("rq.eviction-guard"), "rescue");
    server.run("RQ.MPUSH q 3 a b c");
    leave_room(&server, 500_000);
    press(&server);
    assert_eq!(server.server_info("rq")["rq_eviction_unsafe"], "no");
    // Whatever is evicted while it refuses is lost: so nothing may be.
    leave_room(&server, 100_000);
    server.run("CONFIG SET rq.eviction-guard refuse");
    assert!(server.error("RQ.PUSH q x").starts_with("UNSAFE "));
    server.run("CONFIG SET rq.eviction-guard rescue");
    server.push("q d");
    for (n, guard) in [(1, "warn"), (2, "off"), (3, "refuse")] {
        server.run(format!("CONFIG SET rq.eviction-guard {guard}"));
        let client = server.client();
        for round in 0.. {
            if server.run("EXISTS q") == 0 {
                break;
            }
            assert!(round < 20_000, "{guard}: it is never evicted");
            cache(&client, round * 10, 10);
        }
        assert_eq!((figure(&server, "evicted_queues"), figure(&server, "evicted_jobs")), (n, 4 * n), "{guard}");
        server.run("CONFIG SET rq.eviction-guard rescue");
        server.run("RQ.MPUSH q 4 a b c d");
    }
    press(&server);
    assert_eq!(figure(&server, "evicted_queues"), 3);
    assert_eq!(server.run("RQ.LEN q"), 4);
}

#[test]
fn a_replica_that_takes_over_goes_on() {
    let primary = Server::with(&["maxmemory-policy allkeys-random", "repl-backlog-size 64kb"]);
    if !rescues(&primary) {
        return;
    }
    let replica = primary.replica(&["maxmemory-policy allkeys-random"]);
    fill(&primary, "q", 100);
    leave_room(&primary, 500_000);
    press(&primary);
    replica.wait_in_step(&primary);
    assert_eq!(primary.digest("q"), replica.digest("q"));
    replica.run("REPLICAOF NO ONE");
    leave_room(&replica, 100_000);
    press(&replica);
    assert_eq!(primary.digest("q"), replica.digest("q"));
    assert_eq!(figure(&replica, "evicted_queues"), 0);
}

/// The queues must not fill what the server keeps of the keys it has sampled, which is by database.
#[test]
fn a_cache_in_another_database_that_is_new_each_second() {
    let s = scene("allkeys-lru");
    if !rescues(&s) {
        return s.verify();
    }
    for n in 0..5 {
        fill(&s, &format!("q{n}"), 100);
    }
    let nine = s.client();
    nine.run("SELECT 9");
    leave_room(&s, 400_000);
    let (taken, slowest) = cache(&nine, 0, 10_000);
    let (revived, instead) = (figure(&s, "rescued_queues"), figure(&s, "evicted_instead"));
    println!("{taken} of 10000 cache keys taken, {revived} revivals, {instead} keys instead, slowest ten {slowest:?}");
    assert_eq!(taken, 10_000);
    assert!(instead > 0);
    for n in 0..5 {
        assert_eq!(s.all_jobs(format!("q{n}")).len(), 100);
    }
    assert_eq!(s.config("maxmemory-policy"), "allkeys-lru");
    end(s);
}

/// Lets SCAN be the command that makes the server evict: the one before is short, and takes more
/// memory than was needed to hear it.
fn evict_by_scan(server: &Server, n: usize) {
    server.run(format!("SETRANGE big{n} 19999 x"));
    server.run("SCAN 0");
}

#[test]
fn what_scan_evicts_is_sent_without_a_transaction() {
    let s = scene("allkeys-random");
    if !rescues(&s) {
        return s.verify();
    }
    for n in 0..10 {
        fill(&s, &format!("q{n}"), 40);
    }
    leave_room(&s, 400_000);
    for n in 0.. {
        evict_by_scan(&s, n);
        if figure(&s, "rescued_queues") >= 10 {
            break;
        }
        assert!(n < 20_000, "no queue is ever evicted");
    }
    for n in 0..10 {
        assert_eq!(s.all_jobs(format!("q{n}")).len(), 40);
    }
    end(s);
}

/// The AOF that is being written.
fn aof(server: &Server) -> PathBuf {
    let files = fs::read_dir(server.dir().join("appendonlydir")).expect("the AOF's folder");
    let mut files: Vec<PathBuf> = files.map(|file| file.expect("a file").path()).collect();
    files.retain(|path| path.to_string_lossy().ends_with(".incr.aof"));
    files.pop().expect("a file of the AOF")
}

/// The last place of these bytes.
fn last(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).rposition(|window| window == part)
}

/// Where a revival stands in an AOF, outside of a transaction.
fn bare_revival(aof: &[u8]) -> Option<Range<usize>> {
    // Their keys have two letters.
    let length = "*3\r\n$8\r\nRQ.APPLY\r\n$2\r\nq0\r\n$22\r\n".len() + 22 + 2;
    let mut end = aof.len();
    loop {
        let magic = last(&aof[..end], b"REVIVE")?;
        let begin = last(&aof[..magic], b"*3\r\n")?;
        let before = &aof[..begin];
        if last(before, b"\r\nMULTI\r\n") <= last(before, b"\r\nEXEC\r\n") {
            return Some(begin..begin + length);
        }
        end = begin;
    }
}

#[test]
fn messages_that_come_one_by_one() {
    let mut server = Server::with(&["maxmemory-policy allkeys-random", "appendonly yes", "auto-aof-rewrite-percentage 0"]);
    if !rescues(&server) {
        return;
    }
    for n in 0..10 {
        fill(&server, &format!("q{n}"), 40);
    }
    leave_room(&server, 400_000);
    let mut n = 0;
    let (file, at, revive) = loop {
        let before = figure(&server, "rescued_queues");
        evict_by_scan(&server, n);
        n += 1;
        assert!(n < 2_000, "no queue is ever evicted by SCAN");
        if figure(&server, "rescued_queues") == before {
            continue;
        }
        let file = aof(&server);
        let bytes = fs::read(&file).expect("the AOF");
        if let Some(at) = bare_revival(&bytes) {
            break (file, at.start, bytes[at].to_vec());
        }
    };
    // The file ends between the eviction and the revival.
    server.stop(Stop::Kill);
    fs::OpenOptions::new().write(true).open(file).expect("the AOF").set_len(at as u64).expect("cut the AOF");
    server.start_again(&[]);
    for more in 0..2 {
        for n in 0..10 {
            assert_eq!(server.all_jobs(format!("q{n}")).len(), 40 + more);
            server.push(format!("q{n} x"));
        }
        // What was put back was written as well.
        server.restart(Stop::Kill);
    }

    // A replica hears one after the other.
    let key = String::from_utf8(revive[22..24].to_vec()).expect("a key");
    let revive = revive[31..53].to_vec();
    let spare = [b"SPARE ", &revive[6..]].concat();
    let apply = |message: &[u8]| server.cmd(&[b"RQ.APPLY", key.as_bytes(), message]);
    server.run("CONFIG SET rq.accept-apply yes");
    let digest = server.digest(&key);
    let evict = |held: u64| {
        server.run(format!("DEL {key}"));
        server.push("other x");
        server.run("DEL other");
        wait_until("the server's cron", || figure(&server, "lazyfree_pending_queues") == held);
    };
    assert_eq!(apply(&spare), "OK");
    evict(1);
    assert_eq!(apply(&revive), "OK");
    assert_eq!(server.digest(&key), digest);
    // It hears no more, and takes over.
    assert_eq!(apply(&spare), "OK");
    evict(1);
    server.run("REPLICAOF 127.0.0.1 1");
    assert_eq!(server.run(format!("EXISTS {key}")), 0);
    server.run("REPLICAOF NO ONE");
    assert_eq!(server.digest(&key), digest);
    // It is not there any more: then that is said.
    evict(0);
    let reply = apply(&revive);
    assert!(reply.error().contains("was not deleted here just before"), "{reply:?}");
    assert_eq!(figure(&server, "missed_revivals"), 1);
}
