//! Keyspace events: one for each kind of change, on the primary and on the replica, off by default.

use crate::harness::{wait_until, Client, Scene, Server};

/// Room for what listeners do not read.
const LIMIT: &str = "client-output-buffer-limit pubsub 256kb 0 0";

fn listen(server: &Server) -> Client {
    let listener = server.client();
    listener.run("PSUBSCRIBE __keyevent@*");
    listener
}

/// The events that each listener got since the last call. Those of other types are left out.
#[track_caller]
fn heard<const N: usize>(primary: &Server, listeners: [&Client; N]) -> [Vec<String>; N] {
    primary.run("SET marker x");
    listeners.map(up_to_the_marker)
}

#[track_caller]
fn up_to_the_marker(listener: &Client) -> Vec<String> {
    let mut all = Vec::new();
    loop {
        let message = listener.reply();
        let (channel, key) = (message.array()[2].text().to_owned(), message.array()[3].text().to_owned());
        if key == "marker" {
            return all;
        }
        let event = channel.rsplit(':').next().expect("an event").to_owned();
        if event.starts_with("rq.") {
            assert_eq!(key, "q");
            all.push(event);
        }
    }
}

#[test]
fn every_change_has_its_event() {
    let s = Scene::with(&["notify-keyspace-events KEA"]);
    s.run("RQ.CREATE q LEASE 7200000 BACKOFF 0 0");
    let (here, there) = (listen(&s), listen(s.replica()));
    let expect = |line: &str, events: &[&str]| {
        s.run(line);
        let [on_primary, on_replica] = heard(&s, [&here, &there]);
        assert_eq!(on_primary, events, "{line}");
        assert_eq!(on_replica, events, "{line}, on the replica");
    };
    expect("RQ.PUSH q a", &["rq.push"]);
    expect("RQ.MPUSH q 2 b c", &["rq.push"]);
    expect("RQ.LEASE q w COUNT 2", &["rq.lease"]);
    let leased = || {
        let job = s.all_jobs("q").into_iter().find(|job| job["state"] == "leased").expect("a leased job");
        format!("{} {}", job["id"].text(), job.int("token"))
    };
    expect(&format!("RQ.NACK q {}", leased()), &["rq.nack"]);
    expect(&format!("RQ.RELEASE q {}", leased()), &["rq.release"]);
    s.lease_one("q w");
    heard(&s, [&here, &there]);
    expect(&format!("RQ.ACK q {}", leased()), &["rq.ack"]);
    s.lease_one("q w");
    heard(&s, [&here, &there]);
    expect("RQ.REAP q CONSUMER w", &["rq.expire"]);
    s.lease_one("q w");
    heard(&s, [&here, &there]);
    expect(&format!("RQ.NACK q {} DEAD", leased()), &["rq.dead"]);
    expect("RQ.REDRIVE q COUNT 5", &["rq.redrive"]);
    expect("RQ.PURGE q READY COUNT 1", &["rq.del"]);
    let id = s.all_jobs("q")[0]["id"].text().to_owned();
    expect(&format!("RQ.DEL q {id}"), &["rq.del"]);
    for nothing in ["RQ.LEASE q w", "RQ.ACK q 1700000000000-0 1", "RQ.REAP q", "RQ.INFO q"] {
        expect(nothing, &[]);
    }
    s.verify();
}

#[test]
fn b72_what_the_timer_does_is_told_too() {
    let mut s = Scene::with(&["notify-keyspace-events KEA"]);
    s.run("RQ.CREATE q MAXDELIVERIES 1 MAXEXPIRIES 1");
    s.push("q x");
    s.lease_one("q w LEASE 3600000");
    let listener = listen(&s);
    s.advance(3_700_000);
    wait_until("the end", || s.run("RQ.LEN q DEAD") == 1);
    // One event for one change: it did not become ready in between.
    assert_eq!(heard(&s, [&listener]), [["rq.dead"]]);
    s.verify();
}

#[test]
fn b72_they_are_off_by_default() {
    let s = Scene::new();
    let listener = listen(&s);
    s.push("q x");
    s.lease_one("q w LEASE 7200000");
    assert_eq!(s.run("PUBLISH __keyevent@test x"), 1);
    assert_eq!(listener.reply().array()[2], "__keyevent@test", "nothing before it");
    s.verify();
}

#[test]
fn only_the_class_of_module_events_turns_them_on() {
    let server = Server::with(&["notify-keyspace-events Ed$"]);
    let listener = listen(&server);
    server.push("q x");
    assert_eq!(heard(&server, [&listener]), [["rq.push"]]);
    server.run("CONFIG SET notify-keyspace-events E$");
    server.push("q x");
    assert!(heard(&server, [&listener])[0].is_empty());
}

#[test]
fn b72_listeners_that_never_read_are_cut_and_hold_up_nobody() {
    let server = Server::with(&["notify-keyspace-events Ed", LIMIT]);
    let idle: Vec<Client> = (0..100).map(|_| listen(&server)).collect();
    let reads = listen(&server);
    let listeners = || server.run("CLIENT LIST TYPE pubsub").text().lines().count();
    assert_eq!(listeners(), idle.len() + 1);
    // Events carry the key's name, so a long one fills what is between soon.
    let key = "q".repeat(30_000);
    let mut pushed = 0;
    while listeners() > 1 {
        for _ in 0..20 {
            assert!(!server.cmd(&["RQ.PUSH", &key, "x"]).is_error());
            assert_eq!(reads.reply().array()[3].text().len(), key.len());
            pushed += 1;
        }
        assert!(pushed < 10_000, "they are never cut");
    }
    assert_eq!(server.cmd(&["RQ.LEN", &key]), pushed);
}
