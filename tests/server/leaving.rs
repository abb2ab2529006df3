//! A server that once had RQ, started without it: it starts when it holds nothing of RQ's, else it
//! says what it misses, and loses nothing by it. The whole way out is `scripts/leave`, then
//! `BGREWRITEAOF`, then the server without the module. Case B49.

use crate::harness::{stock, Server, Stop};

/// Each kind of file, without options of ours: those would be refused without the module.
const FILES: &[&[&str]] = &[
    &["save 3600 1", "appendonly no"],
    &["appendonly yes", "appendfsync always", "aof-use-rdb-preamble yes"],
    &["appendonly yes", "appendfsync always", "aof-use-rdb-preamble no"],
];

/// What the server misses, in its own words.
fn says_what_it_misses(log: &str) {
    let rdb = log.contains("no matching module type 'rq-queue1'");
    let aof = log.to_lowercase().contains("unknown command 'rq.apply'");
    assert!(rdb || aof, "{log}");
}

#[test]
fn with_queues_it_says_what_it_misses_and_nothing_is_lost() {
    for files in FILES {
        let mut server = Server::with(files);
        stock(&server, "q");
        server.run("SET text x");
        let digest = server.run("DEBUG DIGEST");
        for rewritten in [false, true] {
            if rewritten && files[0] == "appendonly yes" {
                server.rewrite_aof();
            }
            server.stop(Stop::Shutdown);
            server.use_module(None);
            says_what_it_misses(&server.refuses_to_start(&[]));
            server.use_module(Some(crate::harness::module()));
            server.start_again(&[]);
            assert_eq!(server.run("DEBUG DIGEST"), digest, "{files:?}");
        }
    }
}

#[test]
fn with_no_queue_left_it_starts() {
    for files in FILES {
        let mut server = Server::with(files);
        server.run("SET text x");
        stock(&server, "q");
        server.run("SELECT 9");
        stock(&server, "q");
        server.run("DEL q");
        server.run("SELECT 0");
        server.run("UNLINK q");
        if files[0] == "appendonly yes" {
            // What was written remains written until the file is rewritten.
            server.stop(Stop::Shutdown);
            server.use_module(None);
            says_what_it_misses(&server.refuses_to_start(&[]));
            server.use_module(Some(crate::harness::module()));
            server.start_again(&[]);
            server.rewrite_aof();
        }
        leaves(&mut server);
        assert_eq!(server.run("DBSIZE"), 1, "{files:?}");
    }
}

/// It goes on without the module, and its replica too.
#[track_caller]
fn leaves(server: &mut Server) {
    server.stop(Stop::Shutdown);
    server.use_module(None);
    server.start_again(&[]);
    assert_eq!(server.run("GET text"), "x");
    assert!(server.error("RQ.LEN q").contains("unknown command"));
    let replica = Server::with_module(None, &[]);
    replica.follow(server);
    assert_eq!(replica.run("GET text"), "x");
    assert_eq!(server.run("MODULE LIST").array().iter().filter(|one| one.fields()["name"] == "rq").count(), 0);
}

#[test]
fn scripts_leave_is_the_whole_way_out() {
    for files in FILES {
        let mut server = Server::with(files);
        server.run("SET text x");
        server.run("RQ.CREATE q LEASE 100");
        server.run("RQ.MPUSH q 5 a b c d e");
        server.push("q later DELAY 7200000");
        server.lease_one("q w");
        let output = crate::recipes::run(&server, "leave", &["--all"]);
        assert!(output.status.success(), "{output:?}");
        let told = String::from_utf8_lossy(&output.stderr);
        assert_eq!(told.contains("BGREWRITEAOF"), files[0] == "appendonly yes", "the next step: {told}");
        if files[0] == "appendonly yes" {
            server.rewrite_aof();
        }
        leaves(&mut server);
        let mut list = server.run("LRANGE q 0 -1").texts();
        list.sort();
        assert_eq!(list, ["a", "b", "c", "d", "e", "later"], "{files:?}");
    }
}

/// Module data beside the keys would be asked for by every server that loads the file.
#[test]
fn b49_files_hold_nothing_of_rq_beside_its_keys() {
    let mut server = Server::with(&["save 3600 1"]);
    let waiter = crate::harness::block(&server, "RQ.LEASE none w BLOCK 0");
    server.run("SET text x");
    server.push("q x DELAY 600000");
    server.run("DEL q");
    leaves(&mut server);
    assert!(waiter.next_reply().is_err());
}
