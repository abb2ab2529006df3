//! Every option of every command: both ends of its range are taken; beyond them, without its value
//! and given twice it is refused with a word about it, and nothing changes. What each option does
//! is in the file of its theme. That none is left out is asked of COMMAND DOCS.

use std::collections::BTreeSet;

use crate::harness::{stock, Reply, Scene, Stock};

const SPAN: i64 = 315_360_000_000;
const YEAR: i64 = 31_536_000_000;
const MANY: i64 = 1_000_000_000;
const BYTES: i64 = 1 << 53;

/// What its value is.
enum Kind {
    Number(i64, i64),
    /// Unix ms.
    Time,
    /// At most 1,024 bytes.
    Name,
    /// Whatever it is.
    Text,
    Words(&'static [&'static str]),
    /// Two numbers.
    Pair,
    Flag,
    /// Names a state, and stands alone.
    State,
    /// What is refused is tried in the file of its theme.
    Elsewhere(&'static str),
}

use Kind::{Elsewhere, Flag, Name, Number, Pair, State, Text, Time, Words};

/// The commands (without `RQ.`), the rest of the call with `{}` for the option, and the options.
type Row = (&'static [&'static str], &'static str, &'static [(&'static str, Kind)]);

const LEASES: &[(&str, Kind)] = &[
    ("COUNT", Number(1, 10_000)),
    ("LEASE", Number(1, YEAR)),
    ("BLOCK", Number(0, SPAN)),
    ("MAXBYTES", Number(1, i64::MAX)),
    ("META", Flag),
];
const JOBS: &[(&str, Kind)] = &[
    ("PRIORITY", Number(-128, 127)),
    ("LEASE", Number(1, YEAR)),
    ("MAXDELIVERIES", Number(0, MANY)),
    ("TTL", Number(1, SPAN)),
    ("GROUP", Name),
];
const WHEN: &[(&str, Kind)] = &[("DELAY", Number(0, SPAN)), ("AT", Time)];
const REASONS: Kind = Words(&["failed", "expired-lease", "rejected", "ttl"]);

const ROWS: &[Row] = &[
    (&["PUSH"], "q x {}", WHEN),
    (&["PUSH"], "q x {}", JOBS),
    (&["PUSH"], "q x {}", &[("DEDUP", Name)]),
    (&["PUSH"], "q x DEDUP k {}", &[("WINDOW", Number(1, SPAN)), ("REPLACE", Flag), ("KEEPLAST", Flag)]),
    (&["PUSH"], "q x DEDUP k REPLACE {}", &[("MAXWAIT", Number(0, SPAN))]),
    (&["MPUSH"], "q 2 x y {}", WHEN),
    (&["MPUSH"], "q 2 x y {}", JOBS),
    (&["MPUSH"], "q 1 x {}", &[("DEDUPS", Name)]),
    (&["MPUSH"], "q 2 x y DEDUPS k l {}", &[("WINDOW", Number(1, SPAN))]),
    (&["SCHEDULE"], "q s EVERY 3600000 PAYLOAD p {}", JOBS),
    (
        &["SCHEDULE"],
        "q s EVERY 3600000 PAYLOAD p {}",
        &[("START", Time), ("END", Time), ("LIMIT", Number(1, MANY)), ("MISSED", Words(&["one", "skip", "all"])), ("DEDUP", Name)],
    ),
    (&["SCHEDULE"], "q s PAYLOAD p {}", &[("EVERY", Number(100, SPAN)), ("CRON", Elsewhere("schedules")), ("TZ", Elsewhere("schedules"))]),
    (&["SCHEDULE"], "q s EVERY 3600000 {}", &[("PAYLOAD", Text)]),
    (&["LEASE"], "q w {}", LEASES),
    (&["MLEASE"], "1 q w {}", LEASES),
    (&["ACKLEASE"], "q {leased} w {}", LEASES),
    (&["ACK"], "q {leased} {}", &[("RESULT", Text)]),
    (&["NACK"], "q {leased} {}", &[("DELAY", Number(0, SPAN)), ("ERROR", Text), ("DEAD", Flag)]),
    (&["RELEASE"], "q {leased} {}", &[("DELAY", Number(0, SPAN))]),
    (&["RELEASE"], "q {}", &[("CONSUMER", Elsewhere("settling"))]),
    (&["EXTEND"], "q {leased} {}", &[("LEASE", Number(1, YEAR))]),
    (&["REAP"], "q {}", &[("COUNT", Number(1, 10_000)), ("CONSUMER", Name), ("ID", Elsewhere("recovery"))]),
    (&["REDRIVE"], "q {}", &[("COUNT", Number(1, 10_000))]),
    (
        &["REDRIVE"],
        "q COUNT 5 {}",
        &[("REASON", REASONS), ("AFTER", Time), ("BEFORE", Time), ("SPREAD", Number(0, SPAN)), ("PRIORITY", Number(-128, 127))],
    ),
    (&["SET"], "q {ready} {}", WHEN),
    (&["SET"], "q {ready} {}", &[("PRIORITY", Number(-128, 127))]),
    (&["DEL", "GET"], "q {}", &[("DEDUP", Elsewhere("dedup"))]),
    (&["PURGE"], "q {}", &[("READY", State), ("DELAYED", State), ("DEAD", State), ("DONE", State)]),
    (&["PURGE"], "q DEAD {}", &[("COUNT", Number(1, 10_000)), ("REASON", REASONS), ("BEFORE", Time)]),
    (&["TRIM"], "q {}", &[("MAXLEN", Number(0, MANY)), ("MAXAGE", Number(0, SPAN)), ("MAXBYTES", Number(0, i64::MAX))]),
    (&["TRIM"], "q MAXLEN 5 {}", &[("COUNT", Number(1, 10_000))]),
    (&["WAIT"], "q {dead} {}", &[("BLOCK", Number(0, SPAN))]),
    (&["PEEK", "LEN"], "q {}", &[("READY", State), ("DELAYED", State), ("LEASED", State), ("DEAD", State), ("DONE", State)]),
    (&["PEEK"], "q READY {}", &[("COUNT", Number(1, 1_000)), ("NOPAYLOAD", Flag), ("CURSOR", Elsewhere("looking"))]),
    (&["INFO"], "q {}", &[("JSON", State)]),
    (&["PAUSE"], "q {}", &[("OUT", Flag), ("IN", Flag), ("FOR", Number(1, SPAN)), ("GROUP", Name), ("REASON", Text)]),
    (&["RESUME"], "q {}", &[("OUT", Flag), ("IN", Flag), ("GROUP", Name)]),
    (&["GROUPS", "CONSUMERS"], "q {}", &[("AFTER", Text), ("COUNT", Number(1, 1_000))]),
    (&["QUEUES"], "{}", &[("COUNT", Number(1, 10_000))]),
    (&["DOCTOR"], "{}", &[("KEY", Elsewhere("doctor")), ("JSON", Elsewhere("doctor"))]),
    (&["XTRIM"], "stream {}", &[("MAXLEN", Elsewhere("xtrim")), ("MINID", Elsewhere("xtrim")), ("LIMIT", Elsewhere("xtrim"))]),
    (
        &["CREATE", "ALTER"],
        "q {}",
        &[
            ("LEASE", Number(1, YEAR)),
            ("MAXRUN", Number(0, SPAN)),
            ("MAXDELIVERIES", Number(0, MANY)),
            ("MAXEXPIRIES", Number(0, MANY)),
            ("BACKOFF", Pair),
            ("JITTER", Words(&["full", "equal", "none"])),
            ("EXPIRYBACKOFF", Words(&["no", "yes"])),
            ("KEEPDONE", Number(-1, MANY)),
            ("KEEPDONEMS", Number(-1, SPAN)),
            ("KEEPDONEBYTES", Number(-1, BYTES)),
            ("KEEPDEAD", Number(-1, MANY)),
            ("KEEPDEADMS", Number(-1, SPAN)),
            ("KEEPDEADBYTES", Number(-1, BYTES)),
            ("MAXLIVE", Number(-1, MANY)),
            ("MAXLIVEBYTES", Number(-1, BYTES)),
            ("CONCURRENCY", Number(-1, MANY)),
            ("RATE", Pair),
            ("GROUPORDER", Words(&["no", "yes"])),
            ("GROUPLIMIT", Number(-1, MANY)),
            ("GROUPRATE", Pair),
            ("AGING", Number(0, SPAN)),
        ],
    ),
];

/// The words after the option that are taken.
fn good(kind: &Kind) -> Vec<String> {
    match kind {
        Number(low, high) => vec![low.to_string(), high.to_string()],
        Time => vec!["100000000000".into(), "253402300799999".into()],
        Name => vec!["n".into(), "n".repeat(1_024)],
        Text => vec!["text".into(), "COUNT".into(), "x".repeat(5_000)],
        Words(words) => words.iter().flat_map(|word| [(*word).to_owned(), word.to_uppercase()]).collect(),
        Pair => vec!["5 6".into()],
        Flag | State => vec![String::new()],
        Elsewhere(_) => Vec::new(),
    }
}

/// The words after the option that are refused, and how the error begins.
fn bad(name: &str, kind: &Kind) -> Vec<(String, String)> {
    let needs = (String::new(), format!("ERR syntax error: {name} needs "));
    let range = |low: &i64, high: &i64, value: &str| (value.to_owned(), format!("ERR {name} must be an integer from {low} to {high}, not \"{value}\""));
    match kind {
        Number(low, high) => {
            let mut values = vec![(low - 1).to_string(), (i128::from(*high) + 1).to_string()];
            values.extend(["x", "1.5", "+1", "01", "1e3", "NaN", "99999999999999999999999"].map(str::to_owned));
            values.iter().map(|value| range(low, high, value)).chain([needs]).collect()
        }
        Time => vec![
            ("1700000000".into(), format!("ERR {name} takes Unix milliseconds, 1700000000 looks like seconds")),
            ("253402300800000".into(), format!("ERR {name} must be an integer from ")),
            ("-1".into(), format!("ERR {name} must be an integer from ")),
            ("tomorrow".into(), format!("ERR {name} must be an integer from ")),
            needs,
        ],
        Name => vec![("n".repeat(1_025), "ERR a ".into()), needs],
        Text => vec![needs],
        Words(_) => vec![("perhaps".into(), format!("ERR {name} must be ")), needs],
        Pair => vec![("5".into(), "ERR syntax error: ".into()), ("x 5".into(), format!("ERR {name} ")), ("5 x".into(), format!("ERR {name} "))],
        Flag | State => vec![("x".into(), "ERR syntax error: unknown or misplaced option \"x\"".into())],
        Elsewhere(_) => Vec::new(),
    }
}

#[test]
fn every_option_of_every_command() {
    let s = Scene::new();
    for (commands, call, options) in ROWS {
        for command in *commands {
            let line = |q: &Stock, option: &str| {
                let call = call.replace("{leased}", &q.leased.to_string()).replace("{ready}", &q.ready).replace("{dead}", &q.dead);
                format!("RQ.{command} {}", call.replace("{}", option))
            };
            for (name, kind) in *options {
                let q = stock(&s, "q");
                for (value, error) in bad(name, kind) {
                    // Of too few arguments the server itself speaks.
                    let text = s.unchanged(|| s.error(line(&q, &format!("{name} {value}"))));
                    assert!(text.starts_with(&error) || text.starts_with("ERR wrong number"), "{}: {text}", line(&q, name));
                }
                let taken = good(kind);
                if let (Some(value), false) = (taken.first(), matches!(kind, State)) {
                    let twice = format!("{name} {value} {name} {value}");
                    s.refused(line(&q, &twice), &format!("ERR syntax error: {name} was given twice"));
                }
                for value in taken {
                    s.run("DEL q");
                    let q = stock(&s, "q");
                    s.run(line(&q, &format!("{} {value}", name.to_lowercase())));
                }
                s.run("DEL q");
            }
        }
    }
    s.verify();
}

/// All keywords in the arguments of a command, as COMMAND DOCS has them.
fn tokens(arguments: &Reply, found: &mut BTreeSet<String>) {
    for argument in arguments.array() {
        let argument = argument.fields();
        // Words in lower case are values.
        found.extend(argument.get("token").map(|token| token.text().to_owned()).filter(|token| *token == token.to_uppercase()));
        if let Some(inner) = argument.get("arguments") {
            tokens(inner, found);
        }
    }
}

#[test]
fn no_option_is_left_out() {
    let s = Scene::new();
    for command in s.run("COMMAND LIST FILTERBY MODULE rq").texts() {
        let docs = s.run(format!("COMMAND DOCS {command}")).array()[1].fields();
        let mut documented = BTreeSet::new();
        tokens(&docs["arguments"], &mut documented);
        let tried = ROWS.iter().filter(|(commands, ..)| commands.iter().any(|name| format!("rq.{}", name.to_lowercase()) == command));
        let tried: BTreeSet<String> = tried.flat_map(|(.., options)| options.iter().map(|(name, _)| (*name).to_owned())).collect();
        assert_eq!(tried, documented, "{command}");
    }
    // What is said to be elsewhere is there.
    for (commands, _, options) in ROWS {
        for (name, kind) in *options {
            if let Elsewhere(file) = kind {
                let text = std::fs::read_to_string(format!("{}/tests/server/{file}.rs", env!("CARGO_MANIFEST_DIR"))).expect(file);
                assert!(text.contains(name), "{commands:?} {name} in {file}.rs");
            }
        }
    }
    s.verify();
}
