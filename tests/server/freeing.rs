//! Large queues that go, in every way in which a key can go: freed aside, all of it. Case B69.

use crate::harness::{wait_until, Server};

/// A queue of 20,000 jobs in several states.
#[track_caller]
fn fill(server: &Server, key: &str) {
    for n in 0..2 {
        server.run(format!("RQ.MPUSH {key} 10000{} GROUP g{n}", " payload".repeat(10_000)));
    }
    server.lease(format!("{key} w COUNT 5000 LEASE 7200000"));
}

/// Nothing of it is left, and the server goes on.
#[track_caller]
fn is_free(server: &Server, before: u64, what: &str) {
    wait_until("the thread that frees", || server.server_number("rq", "rq_lazyfree_pending_queues") == 0);
    let used = || server.server_number("memory", "used_memory");
    wait_until(&format!("the memory's being back after {what}"), || used() < before + 500_000);
    let soon = server.push("soon x DELAY 20");
    wait_until("the timer", || server.state("soon", &soon) == "ready");
    server.run("DEL soon");
    assert_eq!(server.server_info("rq")["rq_panics"], "0");
}

#[test]
fn b69_every_way_in_which_a_large_queue_goes() {
    let server = Server::start();
    for lazy in ["yes", "no"] {
        for option in ["lazyfree-lazy-user-del", "lazyfree-lazy-user-flush", "lazyfree-lazy-expire", "lazyfree-lazy-server-del"] {
            server.run(format!("CONFIG SET {option} {lazy}"));
        }
        // What is made once: buffers, tables, the names of statistics.
        fill(&server, "q");
        server.run("DEL q");
        is_free(&server, u64::MAX / 2, "the first");
        let before = server.server_number("memory", "used_memory");
        for way in ["UNLINK q", "DEL q", "FLUSHALL", "FLUSHALL ASYNC", "FLUSHDB", "FLUSHDB ASYNC", "PEXPIRE q 1", "SET q text", "RENAME other q"] {
            fill(&server, "q");
            server.push("other x");
            let waiter = crate::harness::block(&server, "RQ.LEASE none w BLOCK 0");
            server.run(way);
            wait_until("the end of the queue", || {
                let left = server.try_run("RQ.LEN q");
                left.is_error() || left.int() < 2
            });
            server.run("DEL q other");
            drop(waiter);
            server.wait_blocked(0);
            is_free(&server, before, &format!("{way}, lazy {lazy}"));
        }
    }
}

#[test]
fn b69_a_replica_that_is_loaded_anew() {
    let primary = Server::start();
    primary.push("q x");
    for load in ["disabled", "swapdb"] {
        let replica = Server::with(&[&format!("repl-diskless-load {load}")]);
        let before = replica.server_number("memory", "used_memory");
        fill(&replica, "old");
        replica.follow(&primary);
        crate::harness::check_equal(&primary, &replica);
        wait_until("the thread that frees", || replica.server_number("rq", "rq_lazyfree_pending_queues") == 0);
        wait_until("the memory's being back", || replica.server_number("memory", "used_memory") < before + 3_000_000);
    }
}
