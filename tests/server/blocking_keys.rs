//! Keys that come, go and move under blocked workers.

use crate::harness::{jobs, wait_until, Client, Scene, Server};

#[track_caller]
fn block(server: &Server, key: &str, db: u32) -> Client {
    let blocked = server.blocked();
    let worker = server.client();
    worker.run(format!("SELECT {db}"));
    worker.send_line(format!("RQ.LEASE {key} w BLOCK 0 LEASE 7200000"));
    server.wait_blocked(blocked + 1);
    worker
}

#[track_caller]
fn gets(worker: &Client, payload: &str) {
    let jobs = jobs(&worker.reply());
    assert_eq!(jobs.iter().map(|job| job.text()).collect::<Vec<_>>(), [payload]);
    assert_eq!(worker.run("PING"), "PONG");
}

#[test]
fn rename_makes_a_queue_appear() {
    let s = Scene::new();
    let worker = block(&s, "q", 0);
    s.push("other x");
    s.run("RENAME other q");
    gets(&worker, "x");
    s.verify();
}

#[test]
fn copy_makes_a_queue_appear() {
    let s = Scene::new();
    let worker = block(&s, "q", 0);
    s.push("other x");
    s.run("COPY other q");
    gets(&worker, "x");
    assert_eq!(s.run("RQ.LEN other READY"), 1);
    s.verify();
}

#[test]
fn move_and_swapdb_make_a_queue_appear() {
    let s = Scene::new();
    let worker = block(&s, "q", 5);
    s.push("q x");
    s.run("MOVE q 5");
    gets(&worker, "x");
    let worker = block(&s, "r", 6);
    s.push("r y");
    s.run("SWAPDB 0 6");
    gets(&worker, "y");
    s.verify();
}

#[test]
fn restore_makes_a_queue_appear() {
    let s = Scene::new();
    s.push("other x");
    let dump = s.run("DUMP other").bytes().to_vec();
    let worker = block(&s, "q", 0);
    s.cmd(&[b"RESTORE", b"q".as_slice(), b"0", &dump]);
    gets(&worker, "x");
    s.verify();
}

#[test]
fn many_jobs_that_appear_serve_many_waiters() {
    let s = Scene::new();
    let workers: Vec<Client> = (0..5).map(|_| block(&s, "q", 0)).collect();
    s.run("RQ.MPUSH other 3 a b c");
    s.run("RENAME other q");
    for (worker, payload) in workers.iter().zip(["a", "b", "c"]) {
        gets(worker, payload);
    }
    s.run("RQ.MPUSH q 2 d e");
    gets(&workers[3], "d");
    gets(&workers[4], "e");
    s.verify();
}

#[test]
fn waiters_outlive_the_key() {
    let s = Scene::new();
    for end in ["DEL q", "UNLINK q", "FLUSHALL", "FLUSHDB ASYNC", "PEXPIRE q 1", "RENAME q elsewhere"] {
        s.run("RQ.CREATE q");
        let worker = block(&s, "q", 0);
        s.run(end);
        wait_until("the end of the key", || s.run("EXISTS q") == 0);
        assert!(!worker.has_reply(), "{end}");
        s.push("q x");
        gets(&worker, "x");
        s.run("DEL q elsewhere");
    }
    s.verify();
}

#[test]
fn another_type_in_the_keys_place() {
    let s = Scene::new();
    let worker = block(&s, "q", 0);
    s.run("SET q text");
    assert!(s.error("RQ.PUSH q x").starts_with("WRONGTYPE "));
    assert_eq!(s.run("PING"), "PONG");
    s.run("DEL q");
    if worker.has_reply() {
        // What BZPOPMIN does on some servers.
        assert!(worker.reply().error().starts_with("WRONGTYPE "));
        s.push("q x");
        assert_eq!(s.lease("q w LEASE 7200000").len(), 1);
    } else {
        s.push("q x");
        gets(&worker, "x");
    }
    s.verify();
}

#[test]
fn a_queue_with_nothing_ready_wakes_nobody() {
    let s = Scene::new();
    let worker = block(&s, "q", 0);
    s.push("other x DELAY 7200000");
    s.run("COPY other q");
    s.run("RQ.CREATE q LEASE 5000");
    s.push("q y DELAY 7200000");
    assert_eq!(s.run("PING"), "PONG");
    assert!(!worker.has_reply());
    s.push("q z");
    gets(&worker, "z");
    s.verify();
}

#[test]
fn waiters_of_one_name_in_two_databases_are_apart() {
    let s = Scene::new();
    let (zero, nine) = (block(&s, "q", 0), block(&s, "q", 9));
    let client = s.client();
    client.run("SELECT 9");
    client.push("q nine");
    gets(&nine, "nine");
    assert!(!zero.has_reply());
    s.push("q zero");
    gets(&zero, "zero");
    s.verify();
}

#[test]
fn swapdb_takes_jobs_from_one_crowd_to_the_other() {
    let s = Scene::new();
    let (zero, nine) = (block(&s, "q", 0), block(&s, "q", 9));
    let client = s.client();
    client.run("SELECT 9");
    // In one transaction, so that no waiter of database 9 comes between.
    client.multi(&["RQ.PUSH q x", "SWAPDB 0 9"]);
    gets(&zero, "x");
    assert!(!nine.has_reply());
    client.push("q y");
    gets(&nine, "y");
    s.verify();
}
