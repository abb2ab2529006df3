//! RQ.XTRIM on native streams: held to a naive expectation over random histories, and to the
//! built-in `XTRIM ... ACKED` where the server has it (Redis 8.2 and later; no Valkey has it).

use std::collections::BTreeSet;

use crate::harness::{Client, Reply, Scene, Server};

/// xorshift, so that a failure can be had again by its seed.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

type Id = (u64, u64);

fn id(text: &str) -> Id {
    let (ms, seq) = text.split_once('-').expect("an id");
    (ms.parse().expect("ms"), seq.parse().expect("seq"))
}

fn first_ids(rows: &Reply) -> Vec<Id> {
    rows.array().iter().map(|row| id(row.array()[0].text())).collect()
}

fn entries(c: &Client, key: &str) -> Vec<Id> {
    first_ids(&c.run(format!("XRANGE {key} - +")))
}

/// `MAXLEN n` or `MINID id`.
#[derive(Clone, Copy)]
enum Threshold {
    MaxLen(usize),
    MinId(Id),
}

impl Threshold {
    fn text(self) -> String {
        match self {
            Threshold::MaxLen(n) => format!("MAXLEN = {n}"),
            Threshold::MinId((ms, seq)) => format!("MINID = {ms}-{seq}"),
        }
    }
}

/// What is left, by the definition: entry by entry, oldest first.
fn expected(c: &Client, key: &str, threshold: Threshold) -> Vec<Id> {
    let all = entries(c, key);
    let groups: Vec<(Id, BTreeSet<Id>)> = c.run(format!("XINFO GROUPS {key}")).array().iter().map(|group| {
        let group = group.fields();
        let pending = c.run(format!("XPENDING {key} {} - + 100000", group["name"].text()));
        (id(group["last-delivered-id"].text()), first_ids(&pending).into_iter().collect())
    }).collect();
    let mut left = all.len();
    let stays = |entry: &Id| {
        let done = groups.iter().all(|(last, pending)| entry <= last && !pending.contains(entry));
        let over = match threshold {
            Threshold::MaxLen(n) => left > n,
            Threshold::MinId(min) => *entry < min,
        };
        if done && over {
            left -= 1;
        }
        !(done && over)
    };
    all.into_iter().filter(stays).collect()
}

/// One random step on a stream, as a line with KEY in it.
fn step(random: &mut Random, at: &mut u64) -> String {
    let group = random.below(3);
    let consumer = random.below(2);
    let some_id = |random: &mut Random, at: u64| format!("{}-{}", random.below(at + 2), random.below(3));
    match random.below(21) {
        0..=6 => {
            *at += random.below(2);
            format!("XADD KEY {at}-* f v")
        }
        7..=10 => format!("XREADGROUP GROUP g{group} c{consumer} COUNT {} STREAMS KEY >", 1 + random.below(5)),
        11..=14 => {
            let ids: Vec<String> = (0..4).map(|_| some_id(random, *at)).collect();
            format!("XACK KEY g{group} {}", ids.join(" "))
        }
        15 => format!("XDEL KEY {}", some_id(random, *at)),
        16 => format!("XGROUP DELCONSUMER KEY g{group} c{consumer}"),
        17 if random.below(4) == 0 => format!("XGROUP DESTROY KEY g{group}"),
        17 => format!("XCLAIM KEY g{group} c{consumer} 0 {}", some_id(random, *at)),
        19 => format!("XGROUP SETID KEY g{group} {}", some_id(random, *at)),
        18 => format!("XGROUP CREATE KEY g{group} {} MKSTREAM", ["0", "$", &some_id(random, *at)][random.below(3) as usize]),
        _ => format!("XREADGROUP GROUP g{group} c{consumer} NOACK COUNT 3 STREAMS KEY >"),
    }
}

fn has_acked(c: &Server) -> bool {
    !c.is_valkey() && c.version() >= (8, 2)
}

#[test]
fn random_histories() {
    let s = Scene::new();
    let acked = has_acked(&s);
    // The built-in of Redis 8.2 notes how far the last group has come, and goes on regarding it
    // when that group was destroyed. That of 8.6 does not, nor do we.
    let forgets_no_group = acked && s.version() < (8, 6);
    let (mut removed_in_all, mut kept_in_all) = (0, 0);
    for seed in 1..=120u64 {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let mut at = 1;
        for _ in 0..3 {
            for _ in 0..30 {
                let line = step(&mut random, &mut at);
                if forgets_no_group && line.contains("DESTROY") {
                    continue;
                }
                // Some are refused, on both alike: no such group, an entry that is not there.
                let replies = ["ours", "theirs"].map(|key| s.try_run(line.replace("KEY", key)).is_error());
                assert_eq!(replies[0], replies[1], "{line}");
            }
            if s.run("EXISTS ours") == 0 {
                continue;
            }
            let all = entries(&s, "ours");
            assert_eq!(entries(&s, "theirs"), all, "seed {seed}");
            let threshold = match random.below(2) {
                0 => Threshold::MaxLen(random.below(all.len() as u64 + 2) as usize),
                _ => Threshold::MinId((random.below(at + 2), random.below(3))),
            };
            let text = threshold.text();
            let expected = expected(&s, "ours", threshold);
            let removed = (all.len() - expected.len()) as i64;
            assert_eq!(s.run(format!("RQ.XTRIM ours {text}")), removed, "seed {seed}: {text} of {all:?}");
            assert_eq!(entries(&s, "ours"), expected, "seed {seed}: {text}");
            if acked {
                assert_eq!(s.run(format!("XTRIM theirs {text} ACKED")), removed, "seed {seed}: {text} of {all:?}, built in");
                assert_eq!(entries(&s, "theirs"), expected, "seed {seed}: {text}, built in");
            } else {
                s.run(format!("RQ.XTRIM theirs {text}"));
            }
            removed_in_all += removed;
            kept_in_all += expected.len();
        }
        s.run("DEL ours theirs");
    }
    assert!(removed_in_all > 300 && kept_in_all > 300, "{removed_in_all} removed, {kept_in_all} kept");
    s.verify();
}

/// A stream of entries 1-0 to n-0.
fn stream(c: &Client, n: u64) {
    c.multi(&(1..=n).map(|ms| format!("XADD st {ms}-0 f v")).collect::<Vec<_>>());
}

#[test]
fn without_groups_any_entry_goes() {
    let s = Scene::new();
    stream(&s, 1_000);
    assert_eq!(s.run("RQ.XTRIM st MAXLEN 990"), 10);
    assert_eq!(s.run("rq.xtrim st minid 21"), 10);
    assert_eq!(s.unchanged(|| s.run("RQ.XTRIM st MINID 21-0")), 0);
    assert_eq!(s.unchanged(|| s.run("RQ.XTRIM st MAXLEN 5000")), 0);
    assert_eq!(s.run("RQ.XTRIM st MAXLEN = 0"), 980);
    assert_eq!((s.run("XLEN st").int(), s.run("EXISTS st").int()), (0, 1));
    assert_eq!(s.unchanged(|| s.run("RQ.XTRIM st MAXLEN 0")), 0);
    assert_eq!(s.unchanged(|| s.run("RQ.XTRIM none MAXLEN 0")), 0);
    s.verify();
}

#[test]
fn every_group_must_have_read_and_acknowledged() {
    let s = Scene::new();
    stream(&s, 1_000);
    s.run("XGROUP CREATE st fast 0");
    s.run("XGROUP CREATE st slow 0");
    s.run("XREADGROUP GROUP fast c COUNT 1000 NOACK STREAMS st >");
    s.run("XREADGROUP GROUP slow c COUNT 600 STREAMS st >");
    assert_eq!(s.unchanged(|| s.run("RQ.XTRIM st MAXLEN 0")), 0, "nothing is acknowledged");
    let acked: Vec<String> = (1..=500).filter(|n| n % 10 != 0).map(|n| format!("{n}-0")).collect();
    assert_eq!(s.run(format!("XACK st slow {}", acked.join(" "))), 450);
    assert_eq!(s.run("RQ.XTRIM st MAXLEN 0"), 450, "around those that are pending");
    let left = entries(&s, "st");
    assert_eq!((left.len(), left[0], left[1]), (550, (10, 0), (20, 0)));
    // What was deleted and is still pending is in nobody's way.
    s.run("XDEL st 10-0");
    s.run("XACK st slow 20-0");
    assert_eq!(s.run("RQ.XTRIM st MAXLEN 0"), 1);
    s.run("XGROUP DESTROY st slow");
    assert_eq!(s.run("RQ.XTRIM st MAXLEN 100"), 448);
    s.verify();
}

#[test]
fn about_is_bounded_by_limit() {
    let s = Scene::new();
    stream(&s, 1_000);
    assert_eq!(s.run("RQ.XTRIM st MAXLEN ~ 0 LIMIT 7"), 7);
    assert_eq!(s.run("RQ.XTRIM st MINID ~ 100 LIMIT 3"), 3);
    let removed = s.run("RQ.XTRIM st MAXLEN ~ 500 LIMIT 0").int();
    assert_eq!(s.run("XLEN st"), 990 - removed);
    assert!(removed <= 490);
    assert!(s.run("RQ.XTRIM st MAXLEN ~ 100").int() <= 400);
    s.verify();
}

#[test]
fn it_is_replicated_as_the_deletions() {
    let s = Scene::new();
    stream(&s, 100);
    s.run("XGROUP CREATE st g 0");
    s.run("XREADGROUP GROUP g c COUNT 50 NOACK STREAMS st >");
    let replica = s.replica();
    replica.wait_in_step(&s);
    replica.run("CONFIG RESETSTAT");
    assert_eq!(s.run("RQ.XTRIM st MAXLEN 80"), 20);
    assert_eq!(s.multi(&["RQ.XTRIM st MAXLEN 75", "RQ.XTRIM st MAXLEN 70"]), [Reply::Int(5), Reply::Int(5)]);
    assert_eq!(s.cmd(&["EVAL", "return redis.call('RQ.XTRIM', KEYS[1], 'MAXLEN', 65)", "1", "st"]), 5);
    replica.wait_in_step(&s);
    let stats = replica.server_info("commandstats");
    assert!(stats.get("cmdstat_xdel").is_some(), "{stats:?}");
    assert!(stats.get("cmdstat_rq.xtrim").is_none(), "{stats:?}");
    assert_eq!(entries(replica, "st"), entries(&s, "st"));
    assert!(replica.error("RQ.XTRIM st MAXLEN 0").starts_with("READONLY "));
    s.verify();
}

#[test]
fn it_works_when_memory_is_full() {
    let server = Server::start();
    stream(&server, 100);
    server.run("CONFIG SET maxmemory 1");
    assert_eq!(server.run("RQ.XTRIM st MAXLEN 10"), 90);
}

#[test]
fn refusals_change_nothing() {
    let s = Scene::new();
    stream(&s, 10);
    s.push("q x");
    s.run("SET text x");
    for (arguments, error) in [
        ("st", "ERR wrong number of arguments"),
        ("st MAXLEN", "ERR "),
        ("st MAXLEN =", "ERR "),
        ("st MAXLEN -1", "ERR MAXLEN must be an integer from 0, not \"-1\""),
        ("st MAXLEN = x", "ERR MAXLEN must be an integer from 0, not \"x\""),
        ("st MAXLEN +5", "ERR MAXLEN must be an integer from 0, not \"+5\""),
        ("st MAXLEN 007", "ERR MAXLEN must be an integer from 0, not \"007\""),
        ("st MINID x", "ERR MINID must be a stream id, not \"x\""),
        ("st MINID 5-5-5", "ERR MINID must be a stream id, not \"5-5-5\""),
        ("st MINID 5-", "ERR MINID must be a stream id, not \"5-\""),
        ("st MAXAGE 5", "ERR syntax error"),
        ("st MAXLEN 5 ACKED", "ERR syntax error"),
        ("st MAXLEN 5 LIMIT 5", "ERR syntax error, LIMIT cannot be used without the special ~ option"),
        ("st MAXLEN = 5 LIMIT 5", "ERR syntax error, LIMIT cannot be used without the special ~ option"),
        ("st MAXLEN ~ 5 LIMIT -1", "ERR LIMIT must be an integer from 0, not \"-1\""),
        ("st MAXLEN ~ 5 LIMIT", "ERR syntax error"),
        ("st MAXLEN ~ 5 LIMIT 5 6", "ERR syntax error"),
        ("q MAXLEN 5", "WRONGTYPE "),
        ("text MAXLEN 5", "WRONGTYPE "),
    ] {
        s.refused(format!("RQ.XTRIM {arguments}"), error);
    }
    s.verify();
}
