//! RQ.WAIT: the end of a job, with its result.

use std::time::{Duration, Instant};

use crate::harness::{wait_until, Client, Reply, Scene, Server};

/// State and result of a reply.
#[track_caller]
fn end(reply: &Reply) -> (String, Option<String>) {
    let [state, result] = reply.array() else { panic!("not [state, result]: {reply:?}") };
    (state.text().to_owned(), (!result.is_null()).then(|| result.text().to_owned()))
}

fn done(result: &str) -> (String, Option<String>) {
    ("done".to_owned(), Some(result.to_owned()))
}

fn dead() -> (String, Option<String>) {
    ("dead".to_owned(), None)
}

/// A client that waits for the end of a job for ever.
#[track_caller]
fn block(server: &Server, key: &str, id: &str) -> Client {
    let blocked = server.blocked();
    let client = server.client();
    client.send_line(format!("RQ.WAIT {key} {id} BLOCK 0"));
    server.wait_blocked(blocked + 1);
    client
}

#[test]
fn at_once_if_it_has_ended() {
    let s = Scene::new();
    s.run("RQ.CREATE q KEEPDONE 10 LEASE 7200000");
    s.run("RQ.MPUSH q 3 a b c");
    let jobs = s.lease("q w COUNT 2");
    s.codes(format!("RQ.ACK q {} RESULT 42", jobs[0]));
    s.codes(format!("RQ.NACK q {} DEAD", jobs[1]));
    for block in ["", " BLOCK 0", " BLOCK 5000"] {
        assert_eq!(end(&s.unchanged(|| s.run(format!("RQ.WAIT q {}{block}", jobs[0].id)))), done("42"));
        assert_eq!(end(&s.run(format!("RQ.WAIT q {}{block}", jobs[1].id))), dead());
    }
    let ready = s.lease_one("q w").id;
    assert!(s.run(format!("RQ.WAIT q {ready}")).is_null());
    s.verify();
}

#[test]
fn unknown_jobs_and_absent_keys_are_null_at_once() {
    let s = Scene::new();
    let id = s.push("q x");
    s.run(format!("RQ.DEL q {id}"));
    for block in ["", " BLOCK 0"] {
        assert!(s.run(format!("RQ.WAIT q {id}{block}")).is_null());
        assert!(s.run(format!("RQ.WAIT q 5-5{block}")).is_null());
        assert!(s.run(format!("RQ.WAIT none {id}{block}")).is_null());
    }
    let three = s.client3();
    three.send_line(format!("RQ.WAIT q {id}"));
    assert_eq!(three.raw_reply(), b"_\r\n");
    s.send_line(format!("RQ.WAIT q {id}"));
    assert_eq!(s.raw_reply(), b"*-1\r\n");
    s.verify();
}

#[test]
fn woken_by_ack_with_the_result() {
    let s = Scene::new();
    s.run("RQ.CREATE q KEEPDONE 10 LEASE 7200000");
    for (result, expected) in [(" RESULT all-well", "all-well"), ("", "")] {
        let id = s.push("q x");
        let client = block(&s, "q", &id);
        let job = s.lease_one("q w");
        assert_eq!(s.run("PING"), "PONG");
        assert!(!client.has_reply());
        s.codes(format!("RQ.ACK q {job}{result}"));
        assert_eq!(end(&client.reply()), done(expected));
        assert_eq!(client.run("PING"), "PONG", "one reply");
    }
    // By ACKLEASE, and inside a transaction.
    let (first, second) = (s.push("q x"), s.push("q y"));
    let clients = [block(&s, "q", &first), block(&s, "q", &second)];
    let job = s.lease_one("q w");
    s.run(format!("RQ.ACKLEASE q {job} w"));
    assert_eq!(end(&clients[0].reply()), done(""));
    let token = s.job("q", &second).int("token");
    s.multi(&[format!("RQ.ACK q {second} {token} RESULT r")]);
    assert_eq!(end(&clients[1].reply()), done("r"));
    s.verify();
}

#[test]
fn without_keepdone_the_state_is_told_all_the_same() {
    let s = Scene::new();
    let id = s.push("q x");
    let client = block(&s, "q", &id);
    let job = s.lease_one("q w LEASE 7200000");
    s.codes(format!("RQ.ACK q {job} RESULT r"));
    let (state, result) = end(&client.reply());
    assert_eq!(state, "done");
    assert!(result.is_none(), "it is kept with KEEPDONE only: {result:?}");
    assert!(s.run(format!("RQ.WAIT q {id} BLOCK 0")).is_null(), "afterwards it is unknown");
    s.verify();
}

#[test]
fn woken_by_death_of_every_kind() {
    let mut s = Scene::new();
    s.run("RQ.CREATE q LEASE 3600000 MAXEXPIRIES 1 MAXDELIVERIES 1");
    let nack = s.push("q x");
    let client = block(&s, "q", &nack);
    let job = s.lease_one("q w");
    s.codes(format!("RQ.NACK q {job}"));
    assert_eq!(end(&client.reply()), dead());
    let expired = s.push("q x");
    let client = block(&s, "q", &expired);
    s.lease_one("q w");
    s.advance(3_600_001);
    assert_eq!(end(&client.reply()), dead(), "by the timer");
    let old = s.push("q x TTL 3600000");
    let client = block(&s, "q", &old);
    s.advance(3_600_001);
    assert_eq!(end(&client.reply()), dead(), "by the timer");
    // What retention drops at once has been dead.
    s.run("RQ.ALTER q KEEPDEAD 0");
    let id = s.push("q x");
    let client = block(&s, "q", &id);
    let job = s.lease_one("q w");
    s.codes(format!("RQ.NACK q {job} DEAD"));
    assert_eq!(end(&client.reply()).0, "dead");
    s.verify();
}

#[test]
fn a_retry_or_a_release_is_no_end() {
    let s = Scene::new();
    s.run("RQ.CREATE q KEEPDONE 1 LEASE 7200000 BACKOFF 0 0");
    let id = s.push("q x");
    let client = block(&s, "q", &id);
    for verb in ["NACK", "RELEASE"] {
        let job = s.lease_one("q w");
        assert_eq!(s.codes(format!("RQ.{verb} q {job}")), [1]);
    }
    s.run(format!("RQ.SET q {id} DELAY 7200000"));
    assert_eq!(s.run("PING"), "PONG");
    assert!(!client.has_reply());
    s.run(format!("RQ.SET q {id} DELAY 0"));
    let job = s.lease_one("q w");
    s.codes(format!("RQ.ACK q {job} RESULT r"));
    assert_eq!(end(&client.reply()), done("r"));
    s.verify();
}

#[test]
fn removal_is_told_as_null() {
    let s = Scene::new();
    for removal in ["RQ.DEL q ID", "RQ.PURGE q READY", "RQ.DEL q DEDUP k", "DEL q", "UNLINK q", "FLUSHALL", "FLUSHDB ASYNC", "RENAME q other", "SET q text", "PEXPIRE q 1", "MOVE q 9", "SWAPDB 0 9"] {
        s.run("FLUSHALL");
        let id = s.run("RQ.PUSH q x DEDUP k").array()[0].text().to_owned();
        let client = block(&s, "q", &id);
        s.run(removal.replace("ID", &id));
        assert!(client.reply().is_null(), "{removal}");
        assert_eq!(client.run("PING"), "PONG", "{removal}");
    }
    s.run("FLUSHALL");
    s.verify();
}

#[test]
fn another_queue_in_the_keys_place() {
    let s = Scene::new();
    // The last of several: in another queue, one of the same millisecond must not have its id.
    let id = s.run("RQ.MPUSH q 3 x x x").texts().remove(2);
    let client = block(&s, "q", &id);
    s.push("other y");
    s.run("RENAME other q");
    assert!(client.reply().is_null(), "the job is not in it");
    // The same job under the same key goes on.
    let id = s.push("q z");
    let dump = s.run("DUMP q").bytes().to_vec();
    let client = block(&s, "q", &id);
    s.cmd(&[b"RESTORE".as_slice(), b"q", b"0", &dump, b"REPLACE"]);
    assert_eq!(s.run("PING"), "PONG");
    let jobs = s.lease("q w COUNT 10 LEASE 7200000");
    let job = jobs.iter().find(|job| job.id == id).expect("the job");
    assert!(!client.has_reply());
    s.codes(format!("RQ.ACK q {job}"));
    assert_eq!(end(&client.reply()).0, "done");
    s.verify();
}

#[test]
fn null_at_the_timeout_and_where_blocking_is_denied() {
    let s = Scene::new();
    let id = s.push("q x");
    let begin = Instant::now();
    assert!(s.client().run(format!("RQ.WAIT q {id} BLOCK 200")).is_null());
    assert!(begin.elapsed() >= Duration::from_millis(200));
    assert!(s.multi(&[format!("RQ.WAIT q {id} BLOCK 0")])[0].is_null());
    let script = "return redis.call('RQ.WAIT', KEYS[1], ARGV[1], 'BLOCK', 0) or 'not yet'";
    assert_eq!(s.cmd(&["EVAL", script, "1", "q", &id]), "not yet");
    assert_eq!(s.blocked(), 0);
    s.verify();
}

#[test]
fn on_a_replica_while_the_primary_settles() {
    let s = Scene::new();
    s.run("RQ.CREATE q KEEPDONE 10 LEASE 7200000");
    let ids = [s.push("q a"), s.push("q b"), s.push("q c")];
    s.replica().wait_in_step(&s);
    let clients: Vec<Client> = ids.iter().map(|id| block(s.replica(), "q", id)).collect();
    let jobs = s.lease("q w COUNT 3");
    s.codes(format!("RQ.ACK q {} RESULT r", jobs[0]));
    assert_eq!(end(&clients[0].reply()), done("r"));
    s.codes(format!("RQ.NACK q {} DEAD", jobs[1]));
    assert_eq!(end(&clients[1].reply()), dead());
    s.run(format!("RQ.DEL q {}", ids[2]));
    assert!(clients[2].reply().is_null());
    let id = s.push("q d");
    s.replica().wait_in_step(&s);
    let client = block(s.replica(), "q", &id);
    s.run("DEL q");
    assert!(client.reply().is_null());
    s.verify();
}

#[test]
fn client_kill_and_unblock() {
    let s = Scene::new();
    let id = s.push("q x");
    for how in ["KILL ID", "UNBLOCK", "UNBLOCK ERROR"] {
        let client = s.client();
        let number = client.run("CLIENT ID").int();
        client.send_line(format!("RQ.WAIT q {id} BLOCK 0"));
        s.wait_blocked(1);
        match how {
            "KILL ID" => {
                s.run(format!("CLIENT KILL ID {number}"));
                assert!(client.next_reply().is_err());
            }
            "UNBLOCK" => {
                s.run(format!("CLIENT UNBLOCK {number}"));
                assert!(client.reply().is_null());
            }
            _ => {
                s.run(format!("CLIENT UNBLOCK {number} ERROR"));
                assert!(client.reply().error().starts_with("UNBLOCKED "));
            }
        }
        s.wait_blocked(0);
    }
    let job = s.lease_one("q w LEASE 7200000");
    assert_eq!(s.codes(format!("RQ.ACK q {job}")), [1]);
    s.verify();
}

#[test]
fn a_thousand_wait_for_one_job() {
    let s = Scene::new();
    s.run("RQ.CREATE q KEEPDONE 10 LEASE 7200000");
    let (id, other) = (s.push("q x"), s.push("q y"));
    let clients: Vec<Client> = (0..1000).map(|_| s.client()).collect();
    for (n, client) in clients.iter().enumerate() {
        client.send_line(format!("RQ.WAIT q {} BLOCK 0", if n == 500 { &other } else { &id }));
    }
    s.wait_blocked(1000);
    let job = s.lease_one("q w");
    s.codes(format!("RQ.ACK q {job} RESULT r"));
    for (n, client) in clients.iter().enumerate().filter(|(n, _)| *n != 500) {
        assert_eq!(end(&client.reply()), done("r"), "client {n}");
    }
    assert!(!clients[500].has_reply());
    s.wait_blocked(1);
    assert_eq!(s.run(format!("RQ.DEL q {other}")), 1);
    assert!(clients[500].reply().is_null());
    s.verify();
}

#[test]
fn those_who_wait_for_jobs_and_for_ends_do_not_mix() {
    let s = Scene::new();
    s.run("RQ.CREATE q KEEPDONE 10");
    let id = s.push("q x");
    let job = s.lease_one("q w LEASE 7200000");
    let waits = block(&s, "q", &id);
    let worker = s.client();
    worker.send_line("RQ.LEASE q w2 BLOCK 0 LEASE 7200000");
    s.wait_blocked(2);
    assert_eq!(s.info("q").int("blocked-clients"), 1, "for something to lease");
    s.push("q y");
    assert_eq!(crate::harness::jobs(&worker.reply())[0].text(), "y");
    assert!(!waits.has_reply());
    s.codes(format!("RQ.ACK q {job}"));
    assert_eq!(end(&waits.reply()), done(""));
    wait_until("nobody", || s.blocked() == 0);
    s.verify();
}

#[test]
fn refusals() {
    let s = Scene::new();
    let id = s.push("q x");
    s.run("SET text x");
    for (arguments, error) in [
        ("q", "ERR wrong number of arguments"),
        ("q x", "ERR \"x\" is not a job id: it must look like 1700000000000-0"),
        (&format!("q {id} BLOCK"), "ERR syntax error: BLOCK needs a value after it"),
        (&format!("q {id} BLOCK -1"), "ERR BLOCK must be an integer from 0 to 315360000000, not \"-1\""),
        (&format!("q {id} BLOCK 1 BLOCK 1"), "ERR syntax error: BLOCK was given twice"),
        (&format!("q {id} now"), "ERR syntax error: unknown or misplaced option \"now\""),
        (&format!("text {id}"), "WRONGTYPE "),
    ] {
        s.refused(format!("RQ.WAIT {arguments}"), error);
    }
    s.verify();
}
