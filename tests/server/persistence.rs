//! How a queue outlives its server, its key and its name. What every `verify` tries anyway (RDB,
//! AOF, rewritten AOF) is tried here with real restarts. Cases B41, B48 and B73.

use crate::harness::{ids, stock, Fields, Scene, Server, Stop};

const ALWAYS: [&str; 3] = ["appendonly yes", "appendfsync always", "rq.expiry-grace 0"];

/// A server whose AOF is rewritten with or without the RDB preamble.
fn with_aof(preamble: &str) -> Server {
    Server::with(&[&ALWAYS[..], &[&format!("aof-use-rdb-preamble {preamble}")]].concat())
}

/// A queue in every state, and an empty one, in databases 0 and 9.
fn fill(server: &Server) {
    for db in [0, 9] {
        server.run(format!("SELECT {db}"));
        stock(server, "stocked");
        server.run("RQ.CREATE empty MAXDELIVERIES 3 JITTER none BACKOFF 5 5 MAXRUN 60000");
        server.cmd(&[b"RQ.PUSH".as_slice(), b"binary\0\xff\r\nname", b"x"]);
        // What is neither a job nor a plain option.
        server.run("RQ.CREATE more KEEPDONE 5 RATE 100 7200000 GROUPRATE 9 7200000 GROUPLIMIT 3");
        server.run("RQ.PUSH more a GROUP g DEDUP k WINDOW 7200000");
        let done = server.lease_one("more w LEASE 7200000");
        assert_eq!(server.codes(format!("RQ.ACK more {done} RESULT result")), [1]);
        server.run("RQ.PUSH more b DEDUP held KEEPLAST");
        server.lease_one("more w LEASE 7200000");
        server.run("RQ.PUSH more c DEDUP held KEEPLAST");
        server.run("RQ.SCHEDULE more s EVERY 7200000 PAYLOAD x");
        server.run("RQ.PAUSE more FOR 7200000 REASON because");
        server.run("RQ.PAUSE more GROUP g");
    }
    server.run("SELECT 0");
}

#[track_caller]
fn digest(server: &Server) -> String {
    server.run("DEBUG DIGEST").text().to_owned()
}

#[test]
fn b48_kill_and_replay_of_the_aof() {
    for preamble in ["yes", "no"] {
        let mut server = with_aof(preamble);
        fill(&server);
        let before = digest(&server);
        server.restart(Stop::Kill);
        assert_eq!(digest(&server), before, "as it was written");
        server.rewrite_aof();
        server.restart(Stop::Kill);
        assert_eq!(digest(&server), before, "rewritten, preamble {preamble}");
        server.run("SELECT 9");
        assert_eq!(server.lease("stocked w COUNT 10").len(), 1);
    }
}

#[test]
fn shutdown_and_load_of_the_rdb() {
    let mut server = Server::with(&["save 3600 1"]);
    fill(&server);
    let before = digest(&server);
    server.restart(Stop::Shutdown);
    assert_eq!(digest(&server), before);
    for _ in 0..5 {
        server.run("DEBUG RELOAD");
        assert_eq!(digest(&server), before);
    }
}

#[test]
fn b48_a_rewrite_while_everything_changes() {
    for preamble in ["yes", "no"] {
        let mut server = with_aof(preamble);
        server.run("RQ.CREATE q LEASE 7200000 BACKOFF 0 0");
        server.multi(&vec!["RQ.PUSH q x"; 2000]);
        server.run("BGREWRITEAOF");
        let mut rounds = 0;
        while server.server_info("persistence")["aof_rewrite_in_progress"] == "1" || rounds < 200 {
            let jobs = server.lease("q w COUNT 4");
            server.push(format!("q more DELAY {}", 7_200_000 + rounds));
            server.codes(format!("RQ.ACK q {}", jobs[0]));
            server.codes(format!("RQ.NACK q {} ERROR e{rounds}", jobs[1]));
            server.codes(format!("RQ.NACK q {} DEAD", jobs[2]));
            server.codes(format!("RQ.RELEASE q {}", jobs[3]));
            rounds += 1;
            if server.run("RQ.LEN q READY").int() < 10 {
                server.multi(&vec!["RQ.PUSH q x"; 1000]);
            }
        }
        let (before, info) = (digest(&server), server.info("q").ints(["acked-total", "dead", "failed-total"]));
        server.restart(Stop::Kill);
        assert_eq!(digest(&server), before, "preamble {preamble}, {rounds} rounds");
        assert_eq!(server.info("q").ints(["acked-total", "dead", "failed-total"]), info);
    }
}

#[test]
fn b48_a_large_queue_goes_through_the_rewrite_in_parts() {
    for preamble in ["yes", "no"] {
        let mut server = with_aof(preamble);
        let payload = "p".repeat(100);
        let payloads = vec![payload.as_str(); 1000].join(" ");
        for _ in 0..30 {
            server.run(format!("RQ.MPUSH q 1000 {payloads}"));
        }
        // One as large as a job can be: larger than any part.
        server.cmd(&[b"RQ.PUSH", b"q".as_slice(), &vec![b'x'; 16_711_680]]);
        server.lease("q w COUNT 5000 LEASE 7200000");
        server.rewrite_aof();
        let before = digest(&server);
        server.restart(Stop::Kill);
        assert_eq!(digest(&server), before, "preamble {preamble}");
        assert_eq!(server.info("q").ints(["ready", "leased"]), [25_001, 5_000]);
    }
}

#[test]
fn b41_an_aof_that_is_replayed_an_hour_later_has_the_old_times() {
    for preamble in ["yes", "no"] {
        let mut server = with_aof(preamble);
        let q = stock(&server, "q");
        server.rewrite_aof();
        server.push("q soon DELAY 1800000");
        let times = |server: &Server| {
            let leased = server.job("q", &q.leased.id);
            (leased.ints(["deadline", "token", "first-delivered-at"]), server.job("q", &q.retrying).int("due-at"))
        };
        let before = times(&server);
        server.restart_later(3_600_000);
        assert_eq!(times(&server), before);
        assert_eq!(server.lease("q w COUNT 10").len(), 2, "the ready one, and the one due meanwhile");
        assert_eq!(server.state("q", &q.leased.id), "leased");
    }
}

#[test]
fn tokens_grow_over_a_lost_tail_of_the_aof() {
    // Nothing is written at all: all that was granted is forgotten.
    let mut server = Server::start();
    server.push("q x");
    let before = server.lease_one("q w");
    server.restart_later(1_000);
    server.push("q x");
    assert!(server.lease_one("q w").token > before.token);
}

/// What a queue shows, the fields of one process and of the moment left out.
fn shown(server: &Server, key: &str) -> (Vec<Fields>, Fields) {
    let mut info = server.info(key);
    let local = ["oldest-", "local-", "blocked-", "wait-ms", "run-ms"];
    info.0.retain(|(name, _)| !local.iter().any(|start| name.starts_with(start)));
    (server.all_jobs(key), info)
}

#[test]
fn dump_and_restore() {
    let s = Scene::new();
    let q = stock(&s, "q");
    let before = shown(&s, "q");
    let dump = s.run("DUMP q").bytes().to_vec();
    let restore = |key: &str, more: &[&str]| {
        let mut words = vec![b"RESTORE".as_slice(), key.as_bytes(), b"0", &dump];
        words.extend(more.iter().map(|word| word.as_bytes()));
        s.cmd(&words)
    };
    assert_eq!(restore("copy", &[]), "OK");
    assert_eq!(shown(&s, "copy"), before);
    assert!(restore("q", &[]).error().starts_with("BUSYKEY "));
    s.push("q more");
    assert_eq!(restore("q", &["REPLACE"]), "OK");
    assert_eq!(shown(&s, "q"), before);
    s.run("DEL q");
    assert_eq!(restore("q", &[]), "OK");
    // Both go on, each for itself; the tokens are good in both.
    for key in ["q", "copy"] {
        assert_eq!(s.codes(format!("RQ.ACK {key} {}", q.leased)), [1], "{key}");
        assert!(s.push(format!("{key} next")) > q.ready);
        assert_eq!(s.lease_order(key), ["ready", "next"]);
    }
    s.verify();
}

#[test]
fn copies_are_apart() {
    let s = Scene::new();
    let q = stock(&s, "q");
    let before = shown(&s, "q");
    s.run("COPY q copy");
    s.run("COPY q q DB 9");
    assert_eq!(shown(&s, "copy"), before);
    s.codes(format!("RQ.ACK copy {}", q.leased));
    s.push("copy more");
    s.run("RQ.ALTER copy LEASE 5000");
    assert_eq!(shown(&s, "q"), before);
    s.push("q third");
    s.run("COPY q copy REPLACE");
    assert_eq!(shown(&s, "copy"), shown(&s, "q"));
    s.run("SELECT 9");
    assert_eq!(shown(&s, "q"), before);
    s.run("SELECT 0");
    s.verify();
}

#[test]
fn rename_and_move_take_everything_along() {
    let s = Scene::new();
    let q = stock(&s, "q");
    let before = shown(&s, "q");
    s.run("RENAME q other");
    assert_eq!(shown(&s, "other"), before);
    s.run("MOVE other 9");
    s.run("SELECT 9");
    assert_eq!(shown(&s, "other"), before);
    assert_eq!(s.codes(format!("RQ.EXTEND other {}", q.leased)), [1]);
    s.run("SWAPDB 9 3");
    assert_eq!(s.run("EXISTS other"), 0);
    s.run("SELECT 3");
    assert_eq!(s.codes(format!("RQ.ACK other {}", q.leased)), [1]);
    s.run("SELECT 0");
    s.verify();
}

#[test]
fn a_queue_can_expire_like_any_key() {
    let s = Scene::new();
    stock(&s, "q");
    s.run("PEXPIRE q 50");
    crate::harness::wait_until("the end of the key", || s.run("EXISTS q") == 0);
    s.push("q again");
    assert_eq!(s.run("TTL q"), -1);
    stock(&s, "kept");
    s.run("EXPIRE kept 100000");
    s.push("kept x");
    assert!(s.run("TTL kept").int() > 0, "pushing does not touch it");
    s.verify();
}

#[test]
fn b73_the_servers_own_commands_work_on_queues() {
    let s = Scene::new();
    stock(&s, "q");
    let kind = s.run("TYPE q").text().to_owned();
    assert_eq!(kind.len(), 9, "a module's type: {kind}");
    assert_eq!(s.run(format!("SCAN 0 COUNT 1000 TYPE {kind}")).array()[1].texts(), ["q"]);
    assert!(s.run("OBJECT ENCODING q").text().len() > 1);
    assert!(s.run("MEMORY USAGE q").int() > 100);
    let small = s.run("MEMORY USAGE q SAMPLES 0").int();
    s.run(format!("RQ.PUSH q {}", "x".repeat(100_000)));
    assert!(s.run("MEMORY USAGE q SAMPLES 0").int() >= small + 100_000);
    assert_eq!(s.run("TOUCH q"), 1);
    assert!(s.error("GET q").starts_with("WRONGTYPE "));
    assert_eq!(ids(&s.lease("q w")).len(), 1);
    assert_eq!(s.run("UNLINK q"), 1);
    s.run("RQ.CREATE q");
    s.run("SORT nothing STORE q");
    s.run("FLUSHALL");
    s.verify();
}
