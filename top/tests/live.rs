//! rq-top on a real server: its picture as text, and its keys on a pseudo terminal.

// The lints keep panics out of the product; here a panic is how a test fails.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

#[allow(dead_code, unused_imports)]
#[path = "../../tests/server/harness/mod.rs"]
mod harness;
mod terminal;

use std::process::{Command, Output};

use harness::{stock, wait_until, Server, Stop};
use terminal::Terminal;

/// rq-top, not yet started, without this machine's settings.
fn rq_top(url: &str, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rq-top"));
    command.arg(url).args(args).env_remove("REDIS_URL").env_remove("REDISCLI_AUTH").env("TERM", "xterm-256color");
    command
}

fn url(server: &Server) -> String {
    format!("redis://127.0.0.1:{}", server.port)
}

/// A URL of a user that may look but not touch.
fn monitor(server: &Server) -> String {
    let look = "+rq.queues +rq.info +rq.consumers +rq.peek";
    server.run(format!("ACL SETUSER monitor reset on >secret -@all %R~* {look}"));
    format!("redis://monitor:secret@127.0.0.1:{}/0", server.port)
}

fn once(url: &str, args: &[&str]) -> Output {
    rq_top(url, &[args, &["--once"]].concat()).output().expect("rq-top")
}

#[track_caller]
fn picture(url: &str, args: &[&str]) -> String {
    let output = once(url, args);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// The words of the line that has this one, without the mark of the chosen queue.
#[track_caller]
fn words<'a>(picture: &'a str, word: &str) -> Vec<&'a str> {
    let line = picture.lines().find(|line| line.split_whitespace().any(|each| each == word));
    line.unwrap_or_else(|| panic!("no {word} in\n{picture}")).trim_start_matches('>').split_whitespace().collect()
}

/// So many dead jobs with the error `boom`.
fn dead_jobs(server: &Server, queue: &str, count: usize) {
    server.run(format!("RQ.CREATE {queue} LEASE 7200000"));
    server.run(format!("RQ.MPUSH {queue} {count}{}", " x".repeat(count)));
    let jobs = server.lease(format!("{queue} worker COUNT {count}"));
    let pairs: Vec<String> = jobs.iter().map(ToString::to_string).collect();
    server.run(format!("RQ.NACK {queue} {} DEAD ERROR boom", pairs.join(" ")));
    assert_eq!(server.run(format!("RQ.LEN {queue} DEAD")), i64::try_from(count).unwrap());
}

#[test]
fn one_picture_as_text() {
    let server = Server::start();
    stock(&server, "orders");
    server.run("RQ.PAUSE orders OUT REASON night");
    server.cmd(&[&b"RQ.PUSH"[..], b"evil\x1b[2J\xff\n", b"x"]);
    for url in [url(&server), monitor(&server)] {
        let list = picture(&url, &[]);
        assert_eq!(words(&list, "orders")[..6], ["orders", "1", "2", "1", "1", words(&list, "orders")[5]], "{list}");
        assert_eq!(words(&list, "orders")[6..], ["0.0", "0.0", "0.0", "0.0", "paused"], "{list}");
        assert!(list.contains("evil\\u{1b}[2J\\xff\\n"), "{list}");
        assert!(list.lines().next().unwrap().ends_with("2 queues: 2 ready, 1 leased, 1 dead"), "{list}");
        assert!(!list.contains("secret"), "{list}");

        let detail = picture(&url, &["--queue", "orders"]);
        assert!(detail.contains(" scheduled 1   retrying 1   leased 1 (oldest "), "{detail}");
        assert!(detail.contains(" held: paused until it is resumed: night "), "{detail}");
        assert!(detail.contains(" dead: rejected 1\n"), "{detail}");
        assert_eq!(words(&detail, "worker")[..2], ["worker", "1"], "{detail}");
        let dead = words(&detail, "boom");
        assert_eq!(dead[2..], ["rejected", "1", "worker", "boom"], "{detail}");
        assert!(detail.chars().all(|each| each == '\n' || !each.is_control()), "{detail:?}");
    }
    assert!(picture(&url(&server), &["--queue", "none"]).contains("there is no such queue now"));
}

#[test]
fn rates_come_from_two_samples() {
    let server = Server::start();
    server.run("RQ.CREATE q");
    let url = url(&server);
    // Pushes until the picture, which takes a second, is there.
    let pushed = std::thread::scope(|scope| {
        let picture = scope.spawn(|| picture(&url, &[]));
        while !picture.is_finished() {
            server.push("q x");
        }
        let picture = picture.join().expect("the picture");
        words(&picture, "q")[6].parse::<f64>().expect("a rate")
    });
    assert!(pushed > 0.0, "{pushed}");
}

#[test]
fn the_newest_of_many_dead_jobs() {
    let server = Server::start();
    dead_jobs(&server, "q", 2500);
    server.push("q last");
    let last = server.lease_one("q worker");
    server.run(format!("RQ.NACK q {last} DEAD ERROR newest"));
    let detail = picture(&url(&server), &["--queue", "q"]);
    let first = detail.lines().skip_while(|line| !line.contains("newest first")).nth(1).expect("a dead job");
    assert!(first.ends_with(" newest"), "{detail}");
}

#[test]
fn why_there_is_no_picture() {
    let server = Server::start();
    server.run("ACL SETUSER nobody reset on >secret -@all");
    let plain = format!("redis://nobody:secret@127.0.0.1:{}", server.port);
    let wrong = format!("redis://nobody:wrong@127.0.0.1:{}", server.port);
    for (url, why) in [(plain.as_str(), "NOPERM"), (&wrong, "authentication failed"), ("redis://127.0.0.1:1", "refused"), ("nowhere", "redis://")] {
        let output = once(url, &[]);
        let said = String::from_utf8(output.stderr).expect("UTF-8");
        assert!(!output.status.success() && said.contains(why) && output.stdout.is_empty(), "{url}: {said}");
        assert!(!said.contains("secret"), "{said}");
    }
}

#[test]
fn two_presses_bring_the_dead_jobs_back() {
    let server = Server::start();
    dead_jobs(&server, "orders", 2345);
    let mut terminal = Terminal::start(rq_top(&url(&server), &[]));
    terminal.wait_for("orders");
    terminal.press("r");
    terminal.wait_for("2345");
    // Any other key says no.
    terminal.press("x");
    terminal.press("\r");
    terminal.wait_for("boom");
    assert_eq!(server.run("RQ.LEN orders DEAD"), 2345);
    terminal.press("rr");
    wait_until("all dead jobs are back", || server.run("RQ.LEN orders DEAD") == 0);
    terminal.wait_for("brought");
    assert_eq!(server.info("orders").ints(["ready", "redriven-total"]), [2345, 2345]);
    terminal.press("pp");
    wait_until("the pause", || server.info("orders")["held"] == "paused");
    terminal.wait_for("paused");
    terminal.press("q");
    terminal.ends();
}

#[test]
fn down_chooses_the_next_queue() {
    let server = Server::start();
    dead_jobs(&server, "a", 1);
    dead_jobs(&server, "b", 1);
    let mut terminal = Terminal::start(rq_top(&url(&server), &[]));
    terminal.wait_for("2 queues");
    // As the terminal sends the key Down.
    terminal.press("\x1b[B");
    terminal.press("rr");
    wait_until("the dead job of b", || server.run("RQ.LEN b DEAD") == 0);
    assert_eq!(server.run("RQ.LEN a DEAD"), 1);
    // Ctrl-C.
    terminal.press("\x03");
    terminal.ends();
}

#[test]
fn what_the_user_may_not_do_the_server_refuses() {
    let server = Server::start();
    dead_jobs(&server, "orders", 1);
    let mut terminal = Terminal::start(rq_top(&monitor(&server), &[]));
    terminal.wait_for("orders");
    terminal.press("rr");
    terminal.wait_for("NOPERM");
    assert_eq!(server.run("RQ.LEN orders DEAD"), 1);
    terminal.press("q");
    terminal.ends();
}

#[test]
fn a_lost_connection_is_told_and_made_again() {
    let mut server = Server::with(&["appendonly yes", "appendfsync always"]);
    dead_jobs(&server, "orders", 1);
    let port = server.port;
    let mut terminal = Terminal::start(rq_top(&url(&server), &[]));
    terminal.wait_for("orders");
    server.stop(Stop::Kill);
    terminal.wait_for("CONNECTED,");
    server.start_again(&[]);
    assert_eq!(server.port, port, "another process has taken the port");
    terminal.wait_for("queue:");
    terminal.press("rr");
    wait_until("the dead job's return", || server.run("RQ.LEN orders DEAD") == 0);
    terminal.press("q");
    terminal.ends();
}
