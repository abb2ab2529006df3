//! RQ.MLEASE: the first of several queues that has something.

use std::time::{Duration, Instant};

use crate::harness::{block, jobs, wait_until, Client, Job, Reply, Scene, Server};

/// Key and jobs of a reply.
#[track_caller]
fn got(reply: &Reply) -> (String, Vec<Job>) {
    let [key, leased] = reply.array() else { panic!("not [key, jobs]: {reply:?}") };
    (key.text().to_owned(), jobs(leased))
}

/// Key and payload of a reply with one job.
#[track_caller]
fn one(reply: &Reply) -> (String, String) {
    let (key, jobs) = got(reply);
    assert_eq!(jobs.len(), 1, "{reply:?}");
    (key, jobs[0].text())
}

fn pair(key: &str, payload: &str) -> (String, String) {
    (key.to_owned(), payload.to_owned())
}

const WAIT: &str = "RQ.MLEASE 3 a b c w BLOCK 0 LEASE 7200000";

#[test]
fn the_order_given_decides() {
    let s = Scene::new();
    for key in ["a", "b", "c"] {
        s.run(format!("RQ.MPUSH {key} 2 {key}0 {key}1 PRIORITY {}", if key == "c" { 9 } else { 0 }));
    }
    let lease = |keys: &str| one(&s.run(format!("RQ.MLEASE 3 {keys} w LEASE 7200000")));
    assert_eq!(lease("b a c"), pair("b", "b0"));
    assert_eq!(lease("b a c"), pair("b", "b1"));
    assert_eq!(lease("b a c"), pair("a", "a0"));
    assert_eq!(lease("none b c"), pair("c", "c0"));
    // A queue that is held has nothing.
    s.run("RQ.PAUSE a");
    s.run("RQ.CREATE c CONCURRENCY 1");
    assert!(s.unchanged(|| s.run("RQ.MLEASE 3 a b c w")).is_null());
    s.run("RQ.RESUME a");
    assert_eq!(lease("c b a"), pair("a", "a1"));
    s.verify();
}

#[test]
fn it_takes_the_options_of_lease() {
    let s = Scene::new();
    s.run("RQ.MPUSH a 1 a0");
    s.run("RQ.MPUSH b 4 b0 b1 b2 b3");
    let (key, jobs) = got(&s.run("RQ.MLEASE 2 a b w COUNT 10 LEASE 7200000 META"));
    assert_eq!((key.as_str(), jobs.len(), jobs[0].lease_ms), ("a", 1, 7_200_000), "from one queue only");
    assert_eq!(jobs[0].meta.as_ref().expect("META")["consumer"], "w");
    let (key, jobs) = got(&s.run("rq.mlease 2 a b w maxbytes 4 count 10 lease 7200000"));
    assert_eq!((key.as_str(), jobs.len()), ("b", 2));
    let three = s.client3();
    let (_, jobs) = got(&three.run("RQ.MLEASE 1 b w LEASE 7200000"));
    assert_eq!(jobs[0].text(), "b2");
    three.send_line("RQ.MLEASE 1 none w");
    assert_eq!(three.raw_reply(), b"_\r\n");
    let two = s.client();
    two.send_line("RQ.MLEASE 1 none w");
    assert_eq!(two.raw_reply(), b"*-1\r\n");
    s.verify();
}

#[test]
fn it_blocks_on_all_its_keys() {
    let s = Scene::new();
    s.run("RQ.CREATE a");
    for key in ["a", "b", "c"] {
        let worker = block(&s, WAIT);
        s.push(format!("{key} x-{key}"));
        assert_eq!(one(&worker.reply()), pair(key, &format!("x-{key}")));
        assert_eq!(worker.run("PING"), "PONG", "one reply");
        assert_eq!(s.blocked(), 0);
        // It stands at none of the others any more.
        s.run("RQ.MPUSH a 1 y");
        assert_eq!(s.lease_one("a other LEASE 7200000").text(), "y");
    }
    s.verify();
}

#[test]
fn the_timer_wakes_it() {
    let mut s = Scene::new();
    s.push("c later DELAY 3600000");
    let worker = block(&s, WAIT);
    s.advance(3_600_000);
    assert_eq!(one(&worker.reply()), pair("c", "later"));
    s.verify();
}

#[test]
fn null_at_the_timeout() {
    let s = Scene::new();
    let worker = s.client();
    let begin = Instant::now();
    assert!(worker.run("RQ.MLEASE 2 a b w BLOCK 200").is_null());
    assert!(begin.elapsed() >= Duration::from_millis(200));
    s.push("a x");
    assert_eq!(s.lease("a other LEASE 7200000").len(), 1);
    s.verify();
}

#[test]
fn at_once_where_blocking_is_denied() {
    let s = Scene::new();
    let line = "RQ.MLEASE 2 a b w BLOCK 0 LEASE 7200000";
    assert!(s.multi(&[line])[0].is_null());
    let script = "local got = redis.call('RQ.MLEASE', 2, KEYS[1], KEYS[2], 'w', 'BLOCK', 0, 'LEASE', 7200000) return got or 'nothing'";
    assert_eq!(s.cmd(&["EVAL", script, "2", "a", "b"]), "nothing");
    s.push("b x");
    s.push("b y");
    assert_eq!(one(&s.multi(&[line])[0]), pair("b", "x"));
    assert_eq!(one(&s.cmd(&["EVAL", script, "2", "a", "b"])), pair("b", "y"));
    assert_eq!(s.blocked(), 0);
    s.verify();
}

#[test]
fn the_wrong_type_is_refused_before_anything_is_done() {
    let s = Scene::new();
    s.run("SET text x");
    s.push("a x TTL 3600000");
    for keys in ["text a", "a text", "none text"] {
        s.refused(format!("RQ.MLEASE 2 {keys} w"), "WRONGTYPE ");
        s.refused(format!("RQ.MLEASE 2 {keys} w BLOCK 0"), "WRONGTYPE ");
    }
    assert_eq!(s.run("RQ.LEN a READY"), 1);
    s.verify();
}

#[test]
fn refusals_change_nothing() {
    let s = Scene::new();
    s.push("a x");
    for (arguments, error) in [
        ("0 a w", "ERR numkeys must be an integer from 1 to 1000, not \"0\""),
        ("-1 a w", "ERR "),
        ("x a w", "ERR numkeys must be an integer from 1 to 1000, not \"x\""),
        ("3 a b", "ERR RQ.MLEASE announces 3 keys, but fewer follow"),
        ("2 a b", "ERR RQ.MLEASE needs a consumer after its 2 keys"),
        ("2 a a w", "ERR RQ.MLEASE names the key \"a\" twice"),
        ("1 a w COUNT 0", "ERR COUNT must be an integer from 1 to 10000, not \"0\""),
        ("1 a w LEASE 0", "ERR LEASE must be an integer"),
        ("1 a w BLOCK -1", "ERR BLOCK must be an integer from 0 to 315360000000, not \"-1\""),
        ("1 a w MAXBYTES 0", "ERR MAXBYTES must be an integer"),
        ("1 a w META META", "ERR syntax error: META was given twice"),
        ("1 a w b", "ERR syntax error: unknown or misplaced option \"b\""),
    ] {
        // Of a wrong number of keys some servers say so themselves.
        let text = s.unchanged(|| s.error(format!("RQ.MLEASE {arguments}")));
        assert!(text.starts_with(error) || text.starts_with("ERR Invalid number of args"), "{arguments}: {text}");
    }
    s.refused("RQ.MLEASE 1 a", "ERR wrong number of arguments");
    s.verify();
}

#[test]
fn its_keys_are_known_to_the_server() {
    let s = Scene::new();
    let keys = s.run("COMMAND GETKEYS RQ.MLEASE 3 a b c w COUNT 5 BLOCK 0");
    assert_eq!(keys.texts(), ["a", "b", "c"]);
    assert_eq!(s.run("COMMAND GETKEYS RQ.MLEASE 1 only w").texts(), ["only"]);
    // So ACLs hold for all of them.
    s.run("ACL SETUSER worker on nopass ~a +@all");
    let worker = s.client();
    worker.run("AUTH worker x");
    s.push("a x");
    assert!(worker.error("RQ.MLEASE 2 a b w").starts_with("NOPERM "));
    assert_eq!(s.run("RQ.LEN a READY"), 1);
    assert_eq!(one(&worker.run("RQ.MLEASE 1 a w LEASE 7200000")), pair("a", "x"));
    s.run("ACL DELUSER worker");
    s.verify();
}

#[test]
fn first_come_first_served_across_lease_and_mlease() {
    let s = Scene::new();
    let lease = |key: &str| block(&s, &format!("RQ.LEASE {key} w BLOCK 0 LEASE 7200000"));
    let (one_b, two_many, three_b, four_a) = (lease("b"), block(&s, WAIT), lease("b"), lease("a"));
    s.push("b 1");
    assert_eq!(jobs(&one_b.reply())[0].text(), "1");
    s.push("b 2");
    assert_eq!(one(&two_many.reply()), pair("b", "2"), "before those who came later");
    s.push("a 3");
    assert_eq!(jobs(&four_a.reply())[0].text(), "3");
    // A newcomer goes behind those who wait, whichever way they do.
    let many = block(&s, WAIT);
    s.multi(&["RQ.MPUSH b 3 4 5 6", "PING"]);
    assert_eq!(jobs(&three_b.reply())[0].text(), "4");
    assert_eq!(one(&many.reply()), pair("b", "5"));
    assert_eq!(one(&s.run(WAIT)), pair("b", "6"));
    s.verify();
}

#[test]
fn one_push_to_each_serves_it_once() {
    let s = Scene::new();
    let workers: Vec<Client> = (0..3).map(|_| block(&s, WAIT)).collect();
    s.multi(&["RQ.PUSH c x", "RQ.PUSH b x", "RQ.PUSH a x"]);
    let mut keys: Vec<String> = workers.iter().map(|worker| one(&worker.reply()).0).collect();
    keys.sort();
    assert_eq!(keys, ["a", "b", "c"]);
    s.verify();
}

#[test]
fn what_a_client_that_is_gone_was_given_comes_back() {
    let s = Scene::new();
    for round in 0..20 {
        let gone = block(&s, WAIT);
        // The push comes when the server has noticed it already, or not yet.
        gone.reset();
        s.push("b x");
        wait_until("the end of the wait", || s.blocked() == 0);
        // If the reply was on its way, the job is with one who is gone, as long as the lease lasts.
        wait_until("the job", || {
            s.run("RQ.REAP b CONSUMER w");
            s.run("RQ.LEN b READY") == 1
        });
        let job = s.lease_one("b w LEASE 7200000");
        assert!(job.deliveries <= 2, "round {round}: {job:?}");
        s.codes(format!("RQ.ACK b {job}"));
    }
    s.verify();
}

#[test]
fn killed_in_the_same_transaction_as_the_push() {
    let s = Scene::new();
    let blocked = s.blocked();
    let worker = s.client();
    let id = worker.run("CLIENT ID").int();
    worker.send_line(WAIT);
    s.wait_blocked(blocked + 1);
    s.multi(&["RQ.PUSH b x".to_owned(), format!("CLIENT KILL ID {id}")]);
    wait_until("the job", || s.run("RQ.LEN b READY") == 1);
    assert_eq!(s.lease_one("b w LEASE 7200000").deliveries, 1);
    s.verify();
}

#[test]
fn client_unblock() {
    let s = Scene::new();
    for how in ["TIMEOUT", "ERROR"] {
        let worker = s.client();
        let id = worker.run("CLIENT ID").int();
        worker.send_line(WAIT);
        s.wait_blocked(1);
        assert_eq!(s.run(format!("CLIENT UNBLOCK {id} {how}")), 1);
        let reply = worker.reply();
        if how == "TIMEOUT" { assert!(reply.is_null()) } else { assert!(reply.error().starts_with("UNBLOCKED ")) }
        s.push("a x");
        assert_eq!(s.lease("a other LEASE 7200000").len(), 1);
    }
    s.verify();
}

#[test]
fn keys_that_appear_under_it() {
    let s = Scene::new();
    let worker = block(&s, WAIT);
    s.push("other x");
    s.run("RENAME other c");
    assert_eq!(one(&worker.reply()), pair("c", "x"));
    let nine = s.client();
    nine.run("SELECT 9");
    nine.push("b nine");
    let worker = block(&s, WAIT);
    s.run("SWAPDB 0 9");
    assert_eq!(one(&worker.reply()), pair("b", "nine"));
    let worker = block(&s, WAIT);
    s.push("a deleted DELAY 3600000");
    for end in ["DEL a", "UNLINK b", "FLUSHALL"] {
        s.run(end);
    }
    assert!(!worker.has_reply());
    s.push("a x");
    assert_eq!(one(&worker.reply()), pair("a", "x"));
    s.verify();
}

#[test]
fn a_replica_refuses_and_a_role_change_lets_go() {
    let primary = Server::start();
    let replica = primary.replica(&[]);
    assert!(replica.error(WAIT).starts_with("READONLY "));
    let worker = block(&primary, WAIT);
    primary.run(format!("REPLICAOF 127.0.0.1 {}", replica.port));
    assert!(worker.reply().error().starts_with("UNBLOCKED "));
}

#[test]
fn b51_in_a_cluster_keys_of_different_slots_are_refused() {
    // By default its bus takes the port 10,000 above its own, which may not be there.
    let bus = std::net::TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a free port").port();
    let server = Server::with(&["cluster-enabled yes", &format!("cluster-port {bus}")]);
    server.run("CLUSTER ADDSLOTSRANGE 0 16383");
    wait_until("the cluster", || server.run("CLUSTER INFO").text().contains("cluster_state:ok"));
    server.push("{t}a x");
    server.push("other y");
    assert!(server.error("RQ.MLEASE 2 {t}a other w").starts_with("CROSSSLOT "));
    assert!(server.error("RQ.MLEASE 2 {t}a other w BLOCK 0").starts_with("CROSSSLOT "));
    assert_eq!((server.run("RQ.LEN {t}a READY").int(), server.run("RQ.LEN other READY").int()), (1, 1));
    assert_eq!(one(&server.run("RQ.MLEASE 2 {t}none {t}a w")), pair("{t}a", "x"));
    let worker = block(&server, "RQ.MLEASE 2 {t}a {t}b w BLOCK 0");
    server.push("{t}b z");
    assert_eq!(one(&worker.reply()), pair("{t}b", "z"));
    let worker = block(&server, "RQ.MLEASE 2 {t}a {t}b w BLOCK 0");
    server.push("{t}a z");
    assert_eq!(one(&worker.reply()), pair("{t}a", "z"));
}
