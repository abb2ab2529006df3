//! RQ.QUEUES and RQ.CONSUMERS. RQ.GROUPS is in `groups.rs`.

use crate::harness::{stock, wait_until, Client, Scene, Server, Stop};

fn names(c: &Client, options: &str) -> Vec<String> {
    c.run(format!("RQ.QUEUES{options}")).array().iter().map(|row| row.array()[0].text().to_owned()).collect()
}

#[test]
fn queues_and_what_is_in_them() {
    let s = Scene::new();
    assert!(s.run("RQ.QUEUES").array().is_empty());
    stock(&s, "full");
    s.run("RQ.CREATE drained");
    s.run("SET text x");
    let rows = s.unchanged(|| s.run("RQ.QUEUES"));
    let [drained, full] = rows.array() else { panic!("{rows:?}") };
    assert_eq!(drained.array()[0], "drained");
    assert_eq!(drained.array()[1..4].iter().map(|n| n.int()).collect::<Vec<_>>(), [0, 0, 0]);
    assert!(drained.array()[4].is_null());
    assert_eq!(full.array()[0], "full");
    assert_eq!(full.array()[1..4].iter().map(|n| n.int()).collect::<Vec<_>>(), [1, 1, 1], "ready, leased, dead");
    assert!((0..600_000).contains(&full.array()[4].int()));
    s.verify();
}

#[test]
fn only_those_of_this_database_that_are_there_now() {
    let s = Scene::new();
    for key in ["a", "b", "c"] {
        s.push(format!("{key} x"));
    }
    let nine = s.client();
    nine.run("SELECT 9");
    nine.push("nine x");
    assert_eq!(names(&s, ""), ["a", "b", "c"]);
    assert_eq!(names(&nine, ""), ["nine"]);
    s.run("DEL a");
    s.run("RENAME b z");
    s.run("COPY c y");
    s.run("MOVE z 9");
    wait_until("the new names", || names(&s, "") == ["c", "y"] && names(&nine, "") == ["nine", "z"]);
    s.run("SWAPDB 0 9");
    assert_eq!(names(&s, ""), ["nine", "z"]);
    s.run("DEL nine");
    s.run("SET nine text");
    assert_eq!(names(&s, ""), ["z"]);
    s.check();
    assert_eq!(names(&s, ""), ["z"]);
    s.run("FLUSHDB");
    assert!(names(&s, "").is_empty());
    assert_eq!(names(&nine, ""), ["c", "y"]);
    s.verify();
}

#[test]
fn count_and_refusals() {
    let s = Scene::new();
    for n in 0..20 {
        s.run(format!("RQ.CREATE q{n:02}"));
    }
    assert_eq!(names(&s, " COUNT 3"), ["q00", "q01", "q02"]);
    assert_eq!(names(&s, " count 1000").len(), 20);
    for (options, error) in [
        ("COUNT", "ERR syntax error: COUNT needs a value after it"),
        ("COUNT 0", "ERR COUNT must be an integer from 1 to 10000, not \"0\""),
        ("COUNT x", "ERR COUNT must be an integer from 1 to 10000, not \"x\""),
        ("COUNT +1", "ERR COUNT must be an integer from 1 to 10000, not \"+1\""),
        ("COUNT 01", "ERR COUNT must be an integer from 1 to 10000, not \"01\""),
        ("q00", "ERR syntax error: unknown or misplaced option \"q00\""),
    ] {
        s.refused(format!("RQ.QUEUES {options}"), error);
    }
    s.verify();
}

#[test]
fn a_user_sees_what_it_may_read() {
    let s = Scene::new();
    for key in ["mine:a", "mine:b", "theirs"] {
        s.push(format!("{key} x"));
    }
    let as_user = |rules: &str| {
        s.run(format!("ACL SETUSER reader reset on nopass +@all {rules}"));
        let client = s.client();
        client.run("AUTH reader x");
        let seen = names(&client, "");
        s.run("ACL DELUSER reader");
        seen
    };
    assert_eq!(as_user("~mine:*"), ["mine:a", "mine:b"]);
    assert_eq!(as_user("~*"), ["mine:a", "mine:b", "theirs"]);
    assert_eq!(as_user("%R~mine:a"), ["mine:a"]);
    assert!(as_user("%W~mine:a").is_empty(), "write only");
    assert!(as_user("").is_empty());
    // COUNT counts what is seen.
    s.run("ACL SETUSER reader reset on nopass +@all ~theirs");
    let client = s.client();
    client.run("AUTH reader x");
    assert_eq!(names(&client, " COUNT 1"), ["theirs"]);
    s.run("ACL SETUSER reader -rq.queues");
    assert!(client.error("RQ.QUEUES").starts_with("NOPERM "));
    s.run("ACL DELUSER reader");
    s.verify();
}

#[test]
fn on_a_replica_and_after_a_load() {
    let mut server = Server::with(&["appendonly yes", "appendfsync always"]);
    for n in 0..5 {
        server.push(format!("q{n} x"));
    }
    let all = names(&server, "");
    assert_eq!(all.len(), 5);
    let replica = server.replica(&[]);
    assert_eq!(names(&replica, ""), all);
    server.push("later x");
    server.run("DEL q0");
    replica.wait_in_step(&server);
    wait_until("the replica's", || names(&replica, "") == names(&server, ""));
    let all = names(&server, "");
    assert_eq!(all, ["later", "q1", "q2", "q3", "q4"]);
    server.restart(Stop::Kill);
    assert_eq!(names(&server, ""), all);
    server.rewrite_aof();
    server.restart(Stop::Shutdown);
    assert_eq!(names(&server, ""), all);
}

#[test]
fn in_transactions_and_scripts() {
    let s = Scene::new();
    s.push("q x");
    assert_eq!(s.multi(&["RQ.QUEUES"])[0].array().len(), 1);
    let seen = s.cmd(&["EVAL", "return #redis.call('RQ.QUEUES')", "0"]);
    assert_eq!(seen, 1);
    s.verify();
}

#[test]
fn consumers_page_by_page() {
    let mut s = Scene::new();
    s.run("RQ.CREATE q LEASE 7200000 BACKOFF 7200000 7200000 JITTER none");
    assert!(s.run("RQ.CONSUMERS q").array().is_empty());
    assert!(s.run("RQ.CONSUMERS none").array().is_empty());
    s.push("q x");
    let held = s.lease_one("q w00");
    for n in 1..12 {
        s.push("q x");
        s.lease_one(format!("q w{n:02}"));
    }
    s.run("RQ.MPUSH q 2 y z");
    let jobs = s.lease("q w00 COUNT 2");
    s.codes(format!("RQ.NACK q {}", jobs[0]));
    s.codes(format!("RQ.ACK q {}", jobs[1]));
    let rows = s.unchanged(|| s.run("RQ.CONSUMERS q COUNT 5"));
    let first = rows.array()[0].array();
    assert_eq!((first[0].text(), first[1].int(), first[2].int()), ("w00", 1, 2), "leased, jobs that remember it");
    s.advance(60_000);
    let age = |row: usize| s.run("RQ.CONSUMERS q").array()[row].array()[3].clone();
    assert!((60_000..660_000).contains(&age(0).int()), "since its oldest lease");
    s.push("q x");
    s.lease_one("q w00");
    assert_eq!(s.codes(format!("RQ.EXTEND q {held}")), [1]);
    assert!(age(0).int() >= 60_000, "another one and a heartbeat do not make it younger");
    let mut seen: Vec<String> = Vec::new();
    let mut after = String::new();
    loop {
        let page = s.run(format!("RQ.CONSUMERS q COUNT 5{after}"));
        let Some(last) = page.array().last() else { break };
        after = format!(" AFTER {}", last.array()[0].text());
        seen.extend(page.array().iter().map(|row| row.array()[0].text().to_owned()));
    }
    assert_eq!(seen, (0..12).map(|n| format!("w{n:02}")).collect::<Vec<_>>());
    assert_eq!(s.run("RQ.REAP q CONSUMER w05").array().len(), 1);
    assert!(age(5).is_null(), "it has none any more, and the job remembers it");
    assert_eq!(s.run("RQ.RELEASE q CONSUMER w06"), 1);
    s.verify();
}
