//! The users of docs/ACCESS.md: their lines are read from the page, made on the server, and asked
//! for every command.

use std::collections::BTreeSet;

use crate::harness::Server;
use crate::registration::{calls, COMMANDS};

const PRODUCE: &[&str] = &["rq.push", "rq.mpush"];
const WORK: &[&str] = &["rq.lease", "rq.mlease", "rq.ack", "rq.acklease", "rq.nack", "rq.release", "rq.extend"];
const COUNT: &[&str] = &["rq.info", "rq.len", "rq.queues", "rq.groups", "rq.consumers", "rq.doctor", "rq.help"];
const READ: &[&str] = &["rq.get", "rq.peek", "rq.wait", "rq.schedules"];

/// What each user may do; nothing is for everybody.
fn may(user: &str) -> BTreeSet<&'static str> {
    let parts: &[&[&'static str]] = match user {
        "producer" => &[PRODUCE],
        "worker" => &[WORK],
        "monitor" => &[COUNT],
        "reader" => &[COUNT, READ],
        // XTRIM is for streams: who has no category names it if it is needed.
        "operator" => return COMMANDS.iter().map(|(name, ..)| *name).filter(|name| !["rq.apply", "rq.xtrim"].contains(name)).collect(),
        _ => panic!("the page has a user {user} of whom this test knows nothing"),
    };
    parts.concat().into_iter().collect()
}

/// The ACL lines of the page, each with the name of its user.
fn lines() -> Vec<(String, String)> {
    let page = include_str!("../../docs/ACCESS.md");
    let lines = page.lines().filter_map(|line| line.split_once("ACL SETUSER ").map(|(_, rest)| rest));
    lines.map(|rest| (rest.split(' ').next().unwrap_or_default().to_owned(), format!("ACL SETUSER {rest}"))).collect()
}

#[test]
fn the_users_of_the_page_may_do_what_it_says_and_nothing_else() {
    let server = Server::start();
    let lines = lines();
    assert_eq!(lines.len(), 6, "{lines:?}");
    for (user, line) in &lines {
        let category = line.contains("+@rq");
        if category && server.is_redis_7_0() {
            assert!(server.error(line).starts_with("ERR "), "7.0 has no categories for modules");
            continue;
        }
        server.run(format!("ACL DELUSER {user}"));
        assert_eq!(server.run(line), "OK", "{line}");
        let mut may = may(user);
        if category {
            may.insert("rq.xtrim");
        }
        for key in ["jobs:mail", "other"] {
            let theirs = key != "other" || user == "monitor";
            let keyless = ("rq.queues", "", "rq.queues".to_owned());
            for (name, _, line) in calls().chain([keyless]) {
                let line = line.replacen(" q", &format!(" {key}"), 1);
                let reply = server.run(format!("ACL DRYRUN {user} {line}"));
                let expected = may.contains(name) && (theirs || name == "rq.queues");
                assert_eq!(reply == "OK", expected, "{line} by the {user} of docs/ACCESS.md: {reply:?}");
            }
        }
        // What else a server has.
        for line in ["GET jobs:mail", "DEL jobs:mail", "KEYS *", "FLUSHALL", "CONFIG SET maxmemory 1", "ACL LIST", "DEBUG SLEEP 0", "SHUTDOWN"] {
            let reply = server.run(format!("ACL DRYRUN {user} {line}"));
            assert!(reply != "OK", "{line} by the {user}");
        }
        for line in ["PING", "CLIENT SETNAME x"] {
            assert_eq!(server.run(format!("ACL DRYRUN {user} {line}")), "OK", "{line} by the {user}");
        }
    }
}

#[test]
fn who_sees_all_queues_sees_only_those_that_it_may_read() {
    let server = Server::start();
    for (_, line) in lines().into_iter().filter(|(user, _)| user == "reader") {
        server.run(line);
    }
    server.push("jobs:mail x");
    server.push("secret:payroll x");
    let reader = server.client();
    reader.run("AUTH reader secret");
    let queues = reader.run("RQ.QUEUES");
    let names: Vec<&str> = queues.array().iter().map(|queue| queue.array()[0].text()).collect();
    assert_eq!(names, ["jobs:mail"]);
    assert!(reader.error("RQ.PEEK secret:payroll READY").starts_with("NOPERM "));
    assert_eq!(reader.run("RQ.PEEK jobs:mail READY").array()[1].array().len(), 1);
}
