//! The recipes and `scripts/leave`, as people run them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use crate::harness::{Client, Reply, Scene, Server};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts").join(name)
}

/// The client that the scripts are run with.
fn cli() -> &'static str {
    static CLI: OnceLock<String> = OnceLock::new();
    CLI.get_or_init(|| {
        let output = Command::new(file("servers")).arg("cli").output().expect("scripts/servers");
        assert!(output.status.success(), "no redis-cli");
        String::from_utf8(output.stdout).expect("a path").trim().to_owned()
    })
}

/// A script with its environment, not yet started.
fn script(server: &Server, name: &str, args: &[&str]) -> Command {
    let mut command = Command::new(file(name));
    command.args(args).env("REDIS_CLI", format!("{} -p {}", cli(), server.port));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs a script to its end.
pub fn run(server: &Server, name: &str, args: &[&str]) -> Output {
    script(server, name, args).output().expect("the script")
}

/// A Lua recipe by EVAL.
fn eval(c: &Client, name: &str, keys: &[&str], args: &[&str]) -> Reply {
    let text = fs::read_to_string(file(&format!("recipes/{name}"))).expect("the recipe");
    let number = keys.len().to_string();
    c.cmd(&[&["EVAL", &text, &number], keys, args].concat())
}

#[test]
fn the_next_step_is_pushed_only_if_the_acknowledgement_counts() {
    let s = Scene::new();
    s.run("RQ.CREATE first LEASE 7200000");
    s.push("first x");
    let stale = s.lease_one("first w1");
    s.run(format!("RQ.REAP first ID {}", stale.id));
    let job = s.lease_one("first w2");
    let token = |n: i64| n.to_string();
    // One that lost its job starts nothing.
    assert_eq!(eval(&s, "next-step.lua", &["first", "next"], &[&stale.id, &token(stale.token), "y"]), 0);
    assert_eq!(s.run("RQ.LEN next"), 0);
    let arguments = [job.id.as_str(), &token(job.token), "y", "PRIORITY", "5"];
    // A refused push leaves the job with its worker.
    s.run("RQ.PAUSE next IN");
    assert!(eval(&s, "next-step.lua", &["first", "next"], &arguments).error().contains("PAUSED"));
    assert_eq!(s.state("first", &job.id), "leased");
    s.run("RQ.RESUME next IN");
    let reply = eval(&s, "next-step.lua", &["first", "next"], &arguments);
    assert_eq!(reply.array()[1], 1);
    let next = reply.array()[0].text().to_owned();
    assert_eq!((s.job("next", &next)["payload"].text(), s.job("next", &next).int("priority")), ("y", 5));
    // The reply got lost, and the worker sends it again: -1, or the same id if the job is kept.
    assert_eq!(eval(&s, "next-step.lua", &["first", "next"], &arguments), -1);
    s.run("RQ.ALTER first KEEPDONE 10");
    s.push("first x");
    let job = s.lease_one("first w");
    let arguments = [job.id.as_str(), &token(job.token), "z"];
    let once = eval(&s, "next-step.lua", &["first", "next"], &arguments);
    let again = eval(&s, "next-step.lua", &["first", "next"], &arguments);
    assert_eq!((once.array()[1].int(), again.array()[1].int()), (1, 0));
    assert_eq!(once.array()[0], again.array()[0]);
    assert_eq!(s.peek("next", "READY"), ["y", "z"]);
    // A stale one does not take back what the owner has pushed.
    assert_eq!(eval(&s, "next-step.lua", &["first", "next"], &[&stale.id, &token(stale.token), "y"]), -1);
    assert_eq!(s.peek("next", "READY"), ["y", "z"]);
    s.verify();
}

#[test]
fn data_and_job_in_one_transaction() {
    let s = Scene::new();
    let output = run(&s, "recipes/save-and-push", &["order:1", "two \"words\" \\ ", "q", "order 1"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(s.run("GET order:1"), "two \"words\" \\ ");
    assert_eq!(s.peek("q", "READY"), ["order 1"]);
    s.run("RQ.PAUSE q IN");
    let output = run(&s, "recipes/save-and-push", &["order:2", "x", "q", "order 2"]);
    assert!(!output.status.success(), "a refused push is told: {output:?}");
    s.run("RQ.RESUME q IN");
    // As a client library does it: nothing of it if what was read has changed.
    let other = s.client();
    s.run("WATCH order:1");
    other.run("SET order:1 changed");
    s.run("MULTI");
    s.run("SET order:1 x");
    s.run("RQ.PUSH q lost");
    assert!(s.run("EXEC").is_null());
    assert_eq!((s.run("GET order:1"), s.run("RQ.LEN q").int()), (Reply::Bulk(b"changed".to_vec()), 1));
    s.verify();
}

#[test]
fn a_list_is_imported_in_the_order_of_its_workers() {
    let s = Scene::new();
    for n in 0..2_500 {
        s.send_line(format!("LPUSH jobs {n}"));
    }
    (0..2_500).for_each(|_| drop(s.reply()));
    assert_eq!(s.run("RPOP jobs"), "0");
    assert_eq!(eval(&s, "import-list.lua", &["jobs", "q"], &["1000"]), 1_000);
    assert_eq!((s.run("LLEN jobs").int(), s.run("RQ.LEN q").int()), (1_499, 1_000));
    // Refused: nothing has happened.
    s.run("RQ.PAUSE q IN");
    assert!(eval(&s, "import-list.lua", &["jobs", "q"], &["1000"]).error().contains("PAUSED"));
    assert_eq!((s.run("LLEN jobs").int(), s.run("RQ.LEN q").int()), (1_499, 1_000));
    s.run("RQ.RESUME q IN");
    assert_eq!(eval(&s, "import-list.lua", &["jobs", "q"], &["1000"]), 1_000);
    assert_eq!(eval(&s, "import-list.lua", &["jobs", "q"], &["1000"]), 499);
    assert_eq!(eval(&s, "import-list.lua", &["jobs", "q"], &["1000"]), 0);
    let jobs = s.lease("q w COUNT 10000 LEASE 7200000");
    assert_eq!(jobs.iter().map(|job| job.text().parse().expect("a number")).collect::<Vec<u64>>(), (1..2_500).collect::<Vec<_>>());
    s.run("RPUSH other a b c d e");
    assert_eq!(eval(&s, "import-list.lua", &["other", "r"], &["2", "RIGHT"]), 2);
    assert_eq!(eval(&s, "import-list.lua", &["other", "r"], &["5", "RIGHT"]), 3);
    assert_eq!(s.lease_order("r"), ["a", "b", "c", "d", "e"]);
    s.verify();
}

#[test]
fn a_stream_is_imported() {
    let s = Scene::new();
    for n in 1..=25 {
        s.run(format!("XADD st {n}-0 job {n} more x"));
    }
    s.run("XADD st 26-0 other y");
    s.run("XGROUP CREATE st g 0");
    s.run("XREADGROUP GROUP g c COUNT 7 STREAMS st >");
    s.run("XACK st g 1-0 2-0 3-0");
    assert_eq!(s.run("RQ.XTRIM st MAXLEN 0"), 3);
    s.run("RQ.CREATE q MAXLIVE 15");
    assert_eq!(eval(&s, "import-stream.lua", &["st", "q"], &["10", "job"]), 10);
    assert!(eval(&s, "import-stream.lua", &["st", "q"], &["10", "job"]).error().contains("FULL"));
    assert_eq!(s.run("XLEN st"), 13);
    s.run("RQ.ALTER q MAXLIVE -1");
    while eval(&s, "import-stream.lua", &["st", "q"], &["10", "job"]) != 0 {}
    assert_eq!(s.run("XLEN st"), 0);
    let mut expected: Vec<String> = (4..=25).map(|n| n.to_string()).collect();
    expected.push("{\"other\":\"y\"}".into());
    assert_eq!(s.lease_order("q"), expected);
    s.verify();
}

/// A queue with waiting jobs in several states, and dead ones.
fn queue_to_leave(c: &Client) {
    c.run("RQ.CREATE q LEASE 300");
    c.run(format!("RQ.MPUSH q 3 {}", ["d0", "d1", "d2"].join(" ")));
    for job in c.lease("q w COUNT 3 LEASE 7200000") {
        c.codes(format!("RQ.NACK q {job} DEAD"));
    }
    c.run(format!("RQ.MPUSH q 40 {}", (0..40).map(|n| format!("j{n:02}")).collect::<Vec<_>>().join(" ")));
    c.push("q urgent PRIORITY 5");
    c.push("q later DELAY 7200000");
}

#[test]
fn leave_turns_queues_into_lists() {
    let s = Scene::new();
    queue_to_leave(&s);
    s.lease_one("q w");
    s.push("{tag}other x");
    s.run("RQ.CREATE empty");
    let output = script(&s, "leave", &["--all"]).env("CHUNK", "7").output().expect("leave");
    assert!(output.status.success(), "{output:?}");
    // As the workers of a list would pop them; what was leased came back at the end of its lease,
    // sooner or later.
    let mut list = s.run("LRANGE q 0 -1").texts();
    list.reverse();
    assert_eq!(list.iter().filter(|job| *job == "urgent").count(), 1);
    list.retain(|job| job != "urgent");
    let expected: Vec<String> = (0..40).map(|n| format!("j{n:02}")).chain(["later".to_owned()]).collect();
    assert_eq!(list, expected);
    assert_eq!(s.run("LRANGE {q}:dead 0 -1").texts(), ["d2", "d1", "d0"]);
    assert_eq!(s.run("LRANGE {tag}other 0 -1").texts(), ["x"]);
    assert_eq!(s.run("EXISTS empty {q}:list"), 0);
    assert!(s.run("RQ.QUEUES").array().is_empty());
    // And back again.
    assert_eq!(eval(&s, "import-list.lua", &["q", "again"], &["1000"]), 42);
    s.run("DEL {q}:dead {tag}other");
    s.verify();
}

#[test]
fn leave_can_be_interrupted_at_any_time() {
    let server = Server::with(&["appendonly yes", "appendfsync always"]);
    queue_to_leave(&server);
    for round in 0.. {
        let mut child = script(&server, "leave", &["q"]).env("CHUNK", "1").spawn().expect("leave");
        std::thread::sleep(std::time::Duration::from_millis(40 * (round + 1)));
        let _ = child.kill();
        let _ = child.wait();
        // In one transaction: the last command of a killed script may still be under way.
        let seen = server.multi(&["TYPE q", "RQ.LEN q", "LLEN {q}:list", "RQ.LEN q DEAD", "LLEN {q}:dead", "RQ.INFO q"]);
        if seen[0] != "rq-queue1" {
            break;
        }
        assert_eq!(seen[1].int() + seen[2].int(), 42, "round {round}");
        assert_eq!(seen[3].int() + seen[4].int(), 3, "round {round}");
        assert!(seen[2] == 0 || seen[5].fields().get("paused-in").is_some(), "round {round}");
    }
    let mut jobs = server.run("LRANGE q 0 -1").texts();
    jobs.sort();
    jobs.dedup();
    assert_eq!((jobs.len(), server.run("LLEN {q}:dead").int()), (42, 3));
}

#[test]
fn leave_refuses_what_it_cannot_turn() {
    let s = Scene::new();
    s.run("RQ.SCHEDULE q x EVERY 3600000 PAYLOAD p");
    s.run("SET text x");
    let digest = s.digest("q");
    for key in ["q", "text", "none"] {
        let output = run(&s, "leave", &[key]);
        assert!(!output.status.success(), "{key}: {output:?}");
    }
    assert_eq!(s.digest("q"), digest);
    s.run("RPUSH list x");
    assert!(run(&s, "leave", &["list"]).status.success(), "done before");
    s.verify();
}

#[test]
fn jobs_with_a_time_are_imported_from_a_sorted_set() {
    let s = Scene::new();
    let now = s.now();
    let due = |seconds: i64| (now / 1000 + seconds).to_string();
    s.run(format!("ZADD schedule {} later {}.5 next 1000000000 past", due(7200), due(3600)));
    assert_eq!(eval(&s, "import-due.lua", &["schedule", "q"], &["2"]), 2);
    assert_eq!((s.run("ZCARD schedule").int(), s.peek("q", "READY"), s.peek("q", "DELAYED")), (1, vec!["past".into()], vec!["next".into()]));
    // A queue that takes nothing: what is left stays in the set.
    s.run("RQ.PAUSE q IN");
    assert!(eval(&s, "import-due.lua", &["schedule", "q"], &["2"]).error().contains("PAUSED"));
    assert_eq!(s.run("ZCARD schedule"), 1);
    s.run("RQ.RESUME q IN");
    assert_eq!(eval(&s, "import-due.lua", &["schedule", "q"], &["2"]), 1);
    assert_eq!(eval(&s, "import-due.lua", &["schedule", "q"], &["2"]), 0);
    assert_eq!(s.peek("q", "DELAYED"), ["next", "later"]);
    let jobs = s.all_jobs("q");
    let dues: Vec<i64> = jobs.iter().filter(|job| job["state"] == "delayed").map(|job| job.int("due-at")).collect();
    assert_eq!(dues, [(now / 1000 + 3600) * 1000 + 500, (now / 1000 + 7200) * 1000]);
    s.run(format!("ZADD ms {} x", now + 5_000_000));
    assert_eq!(eval(&s, "import-due.lua", &["ms", "r"], &["10", "MS"]), 1);
    assert_eq!(s.all_jobs("r")[0].int("due-at"), now + 5_000_000);
    s.verify();
}
