//! What is refused: odd arguments of every verb. The error names the option, the value and the
//! range; nothing is changed and nothing is sent, which the driver checks at every step.

#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "tests may")]

#[path = "refuse/lines.rs"]
mod lines;
mod support;

use lines::LINES;
use support::Driver;

const ID: &str = "1700000000000-0";
const MAX_SPAN: u64 = 315_360_000_000;
const MAX_LEASE: u64 = 31_536_000_000;
const MAX_TIME: u64 = 253_402_300_799_999;
const MIN_AT: u64 = 100_000_000_000;
const MAX_TOKEN: u64 = 9_007_199_254_740_991;

/// No number, whatever the range.
const NO_NUMBERS: [&[u8]; 20] = [
    b"", b" ", b"-", b"+1", b" 1", b"1 ", b"01", b"00", b"1.0", b"1e3", b"0x10", b"NaN", b"nan", b"inf", b"abc", b"1\x00",
    b"\xff\xfe", b"99999999999999999999999", b"--1", "\u{661}".as_bytes(),
];

/// A queue with a job in every state, so that a refusal has something to spoil.
fn full() -> Driver {
    let mut q = Driver::new();
    q.cmd("RQ.CREATE MAXDELIVERIES 1 LEASE 100000");
    q.cmd("RQ.PUSH dead");
    let (id, token) = q.lease("w");
    q.cmd(&format!("RQ.NACK {id} {token}"));
    q.cmd("RQ.PUSH leased");
    q.lease("w");
    q.cmd("RQ.PUSH ready GROUP g");
    q.cmd("RQ.PUSH delayed DELAY 1000 DEDUP k");
    q.cmd("RQ.SCHEDULE t EVERY 5000 PAYLOAD p");
    q
}

fn words(line: &str) -> Vec<&[u8]> {
    line.split_whitespace().map(str::as_bytes).collect()
}

/// The error, on a queue and on an absent key alike.
fn refused(name: &str, args: &[&[u8]]) -> String {
    let error = full().run(name, args).map_or_else(|error| error.to_string(), |reply| {
        panic!("{name} {:?} was not refused: {reply:?}", args.iter().map(|arg| arg.escape_ascii().to_string()).collect::<Vec<_>>())
    });
    let absent = Driver::new().run(name, args).map_or_else(|error| error.to_string(), |reply| panic!("absent: {reply:?}"));
    assert_eq!(error, absent, "another error without a queue");
    assert!(error.is_ascii() && !error.contains(['\r', '\n']), "one line of text: {error:?}");
    error
}

struct Number {
    /// The command with what must stand before the option.
    before: &'static str,
    option: &'static str,
    low: i64,
    high: u64,
    /// What must follow it to be complete.
    after: &'static str,
}

const fn number(before: &'static str, option: &'static str, low: i64, high: u64) -> Number {
    Number { before, option, low, high, after: "" }
}

/// Every numeric option of every verb with its range.
const NUMBERS: &[Number] = &[
    number("RQ.PUSH p", "DELAY", 0, MAX_SPAN),
    number("RQ.PUSH p", "AT", MIN_AT as i64, MAX_TIME),
    number("RQ.PUSH p", "PRIORITY", -128, 127),
    number("RQ.PUSH p", "LEASE", 1, MAX_LEASE),
    number("RQ.PUSH p", "MAXDELIVERIES", 0, 1_000_000_000),
    number("RQ.PUSH p", "TTL", 1, MAX_SPAN),
    number("RQ.MPUSH 1 p", "DELAY", 0, MAX_SPAN),
    number("RQ.MPUSH 1 p", "AT", MIN_AT as i64, MAX_TIME),
    number("RQ.MPUSH 1 p", "PRIORITY", -128, 127),
    number("RQ.MPUSH 1 p", "LEASE", 1, MAX_LEASE),
    number("RQ.MPUSH 1 p", "MAXDELIVERIES", 0, 1_000_000_000),
    number("RQ.MPUSH 1 p", "TTL", 1, MAX_SPAN),
    number("RQ.LEASE w", "COUNT", 1, 10_000),
    number("RQ.LEASE w", "LEASE", 1, MAX_LEASE),
    number("RQ.LEASE w", "BLOCK", 0, MAX_SPAN),
    number("RQ.LEASE w", "MAXBYTES", 1, i64::MAX as u64),
    number("RQ.ACKLEASE 1700000000000-0 1 w", "COUNT", 1, 10_000),
    number("RQ.ACKLEASE 1700000000000-0 1 w", "LEASE", 1, MAX_LEASE),
    number("RQ.ACKLEASE 1700000000000-0 1 w", "BLOCK", 0, MAX_SPAN),
    number("RQ.ACKLEASE 1700000000000-0 1 w", "MAXBYTES", 1, i64::MAX as u64),
    number("RQ.NACK 1700000000000-0 1", "DELAY", 0, MAX_SPAN),
    number("RQ.RELEASE 1700000000000-0 1", "DELAY", 0, MAX_SPAN),
    number("RQ.EXTEND 1700000000000-0 1", "LEASE", 1, MAX_LEASE),
    number("RQ.REAP", "COUNT", 1, 10_000),
    number("RQ.REDRIVE", "COUNT", 1, 10_000),
    number("RQ.REDRIVE COUNT 1", "AFTER", MIN_AT as i64, MAX_TIME),
    number("RQ.REDRIVE COUNT 1", "BEFORE", MIN_AT as i64, MAX_TIME),
    number("RQ.REDRIVE COUNT 1", "SPREAD", 0, MAX_SPAN),
    number("RQ.REDRIVE COUNT 1", "PRIORITY", -128, 127),
    number("RQ.SET 1700000000000-0", "PRIORITY", -128, 127),
    number("RQ.SET 1700000000000-0", "DELAY", 0, MAX_SPAN),
    number("RQ.SET 1700000000000-0", "AT", MIN_AT as i64, MAX_TIME),
    number("RQ.PURGE READY", "COUNT", 1, 10_000),
    number("RQ.PURGE DEAD", "BEFORE", MIN_AT as i64, MAX_TIME),
    number("RQ.PEEK READY", "COUNT", 1, 1_000),
    number("RQ.CREATE", "LEASE", 1, MAX_LEASE),
    number("RQ.CREATE", "MAXRUN", 0, MAX_SPAN),
    number("RQ.CREATE", "MAXDELIVERIES", 0, 1_000_000_000),
    number("RQ.CREATE", "MAXEXPIRIES", 0, 1_000_000_000),
    Number { before: "RQ.CREATE", option: "BACKOFF", low: 0, high: MAX_SPAN, after: "315360000000" },
    number("RQ.CREATE BACKOFF 0", "", 0, MAX_SPAN),
    number("RQ.ALTER", "LEASE", 1, MAX_LEASE),
    number("RQ.ALTER", "MAXRUN", 0, MAX_SPAN),
    number("RQ.ALTER", "MAXDELIVERIES", 0, 1_000_000_000),
    number("RQ.ALTER", "MAXEXPIRIES", 0, 1_000_000_000),
    Number { before: "RQ.ALTER", option: "BACKOFF", low: 0, high: MAX_SPAN, after: "315360000000" },
    number("RQ.PUSH p DEDUP k", "WINDOW", 1, MAX_SPAN),
    number("RQ.PUSH p DEDUP k REPLACE", "MAXWAIT", 0, MAX_SPAN),
    number("RQ.MPUSH 1 p DEDUPS k", "WINDOW", 1, MAX_SPAN),
    number("RQ.TRIM", "MAXLEN", 0, 1_000_000_000),
    number("RQ.TRIM", "MAXAGE", 0, MAX_SPAN),
    number("RQ.TRIM", "MAXBYTES", 0, i64::MAX as u64),
    number("RQ.TRIM MAXLEN 1", "COUNT", 1, 10_000),
    number("RQ.PURGE DONE", "COUNT", 1, 10_000),
    number("RQ.WAIT 1700000000000-0", "BLOCK", 0, MAX_SPAN),
    number("RQ.GROUPS", "COUNT", 1, 1_000),
    number("RQ.CONSUMERS AFTER a", "COUNT", 1, 1_000),
    number("RQ.PAUSE", "FOR", 1, MAX_SPAN),
    number("RQ.PAUSE IN", "FOR", 1, MAX_SPAN),
    number("RQ.PAUSE GROUP g", "FOR", 1, MAX_SPAN),
    number("RQ.SCHEDULE s PAYLOAD p", "EVERY", 100, MAX_SPAN),
    number("RQ.SCHEDULE s EVERY 100 PAYLOAD p", "START", MIN_AT as i64, MAX_TIME),
    number("RQ.SCHEDULE s EVERY 100 PAYLOAD p", "END", MIN_AT as i64, MAX_TIME),
    number("RQ.SCHEDULE s EVERY 100 PAYLOAD p", "LIMIT", 1, 1_000_000_000),
    number("RQ.SCHEDULE s EVERY 100 PAYLOAD p", "PRIORITY", -128, 127),
    number("RQ.SCHEDULE s EVERY 100 PAYLOAD p", "LEASE", 1, MAX_LEASE),
    number("RQ.SCHEDULE s EVERY 100 PAYLOAD p", "MAXDELIVERIES", 0, 1_000_000_000),
    number("RQ.SCHEDULE s EVERY 100 PAYLOAD p", "TTL", 1, MAX_SPAN),
    number("RQ.CREATE", "AGING", 0, MAX_SPAN),
    number("RQ.ALTER", "AGING", 0, MAX_SPAN),
    Number { before: "RQ.CREATE", option: "RATE", low: 1, high: 10_000, after: "1000" },
    Number { before: "RQ.ALTER", option: "GROUPRATE", low: 1, high: 10_000, after: "1000" },
    number("RQ.CREATE GROUPRATE 5", "", 1, MAX_SPAN),
    number("RQ.ALTER RATE 5", "", 1, MAX_SPAN),
];

/// Bounds of a queue, where -1 is none, and the highest.
const BOUNDS: &[(&str, u64)] = &[
    ("KEEPDONE", 1_000_000_000),
    ("KEEPDONEMS", MAX_SPAN),
    ("KEEPDONEBYTES", 1 << 53),
    ("KEEPDEAD", 1_000_000_000),
    ("KEEPDEADMS", MAX_SPAN),
    ("KEEPDEADBYTES", 1 << 53),
    ("MAXLIVE", 1_000_000_000),
    ("MAXLIVEBYTES", 1 << 53),
    ("CONCURRENCY", 1_000_000_000),
    ("GROUPLIMIT", 1_000_000_000),
];

#[test]
fn every_bound_has_a_range_and_its_error_names_it() {
    for verb in ["RQ.CREATE", "RQ.ALTER"] {
        for (option, high) in BOUNDS {
            let above = (high + 1).to_string();
            for value in NO_NUMBERS.iter().copied().chain([&b"-2"[..], above.as_bytes(), b"18446744073709551616"]) {
                let error = refused(verb, &[option.as_bytes(), value]);
                let shown = value.escape_ascii().to_string();
                for part in [*option, &shown, "-1", &high.to_string()] {
                    assert!(error.contains(part), "{verb} {option}: no {part} in {error}");
                }
            }
            assert!(refused(verb, &[option.as_bytes()]).contains(option));
            for value in ["-1", "0", "1", &high.to_string()] {
                let mut q = full();
                q.cmd(&format!("{verb} {option} {value}"));
                assert_eq!(q.info(&option.to_lowercase()), rq_core::Tree::Int(value.parse().unwrap()));
                q.pass(1);
                q.reload();
                assert_eq!(q.info(&option.to_lowercase()), rq_core::Tree::Int(value.parse().unwrap()));
            }
        }
    }
    // A rate of -1 is none, and stands alone.
    let mut q = full();
    q.cmd("RQ.CREATE RATE -1 GROUPRATE -1 GROUPORDER no");
    assert!(refused("RQ.CREATE", &[b"RATE", b"-1", b"5"]).contains('5'));
}

impl Number {
    fn with<'a>(&'a self, value: &'a [u8]) -> (&'a str, Vec<&'a [u8]>) {
        let before = words(self.before);
        let mut args = before[1..].to_vec();
        args.extend(words(self.option));
        args.push(value);
        args.extend(words(self.after));
        (std::str::from_utf8(before[0]).unwrap(), args)
    }
}

#[test]
fn every_number_has_a_range_and_its_error_names_it() {
    for number in NUMBERS {
        let below = (i128::from(number.low) - 1).to_string();
        let above = (u128::from(number.high) + 1).to_string();
        // The second value of an option of two.
        let option = if number.option.is_empty() { words(number.before)[1].escape_ascii().to_string() } else { number.option.to_string() };
        let option = option.as_str();
        let outside = [below.as_bytes(), above.as_bytes(), b"-9223372036854775809", b"18446744073709551616"];
        for value in NO_NUMBERS.iter().copied().chain(outside) {
            let (name, args) = number.with(value);
            let error = refused(name, &args);
            let shown = value.escape_ascii().to_string();
            for part in [option, &shown, &number.low.to_string(), &number.high.to_string()] {
                assert!(error.contains(part), "{} {option}: no {part} in {error}", number.before);
            }
            assert!(error.starts_with("ERR "), "{error}");
        }
        // Without a value at all.
        let (name, mut args) = number.with(b"");
        args.truncate(args.len() - 1 - words(number.after).len());
        let error = refused(name, &args);
        assert!(error.contains(option), "{} {option}: {error}", number.before);
    }
}

#[test]
fn both_ends_of_every_range_are_taken() {
    for number in NUMBERS {
        for value in [number.low.to_string(), number.high.to_string()] {
            let (name, args) = number.with(value.as_bytes());
            let mut q = full();
            if let Err(error) = q.run(name, &args) {
                panic!("{} {} {value} was refused: {error}", number.before, number.option);
            }
            // Whatever was stored can be worked with, and saved.
            q.cmd("RQ.LEASE w COUNT 10 META");
            q.cmd("RQ.INFO");
            q.pass(1);
            q.reload();
        }
    }
}

/// Seconds where milliseconds belong are the usual mistake: they are told apart.
#[test]
fn seconds_are_refused_as_such() {
    for line in ["RQ.PUSH p AT 1700000000", "RQ.SET 1-0 AT 99999999999", "RQ.REDRIVE COUNT 1 AFTER 0", "RQ.PURGE DEAD BEFORE 1"] {
        let words = words(line);
        let error = refused(std::str::from_utf8(words[0]).unwrap(), &words[1..]);
        assert!(error.contains("looks like seconds"), "{error}");
    }
}

#[test]
fn every_odd_line_is_refused_with_a_word_about_it() {
    for (line, word) in LINES {
        let words = words(line);
        let error = refused(std::str::from_utf8(words[0]).unwrap(), &words[1..]);
        assert!(error.contains(word), "{line}: no {word} in {error}");
        assert!(error.starts_with("ERR "), "{line}: {error}");
    }
}

/// One wrong pair refuses all of them: nothing was done for the right ones before it.
#[test]
fn a_wrong_token_spelling_refuses_the_whole_call() {
    for verb in ["RQ.ACK", "RQ.NACK", "RQ.RELEASE", "RQ.EXTEND"] {
        for token in NO_NUMBERS.iter().copied().chain([&b"-1"[..], (MAX_TOKEN + 1).to_string().as_bytes()]) {
            let mut q = Driver::new();
            q.cmd("RQ.PUSH a");
            let (id, good) = q.lease("w");
            let good = good.to_string();
            let args = [id.as_bytes(), good.as_bytes(), id.as_bytes(), token];
            let error = q.run(verb, &args).unwrap_err().to_string();
            let shown = token.escape_ascii().to_string();
            assert!(error.contains("token") && error.contains(&shown) && error.contains(&MAX_TOKEN.to_string()), "{error}");
            assert_eq!(q.get(&id, "state"), support::bulk("leased"));
        }
    }
    let highest = MAX_TOKEN.to_string();
    assert_eq!(full().run("RQ.ACK", &[ID.as_bytes(), highest.as_bytes()]).unwrap(), support::ints(&[0]));
}

#[test]
fn a_name_that_is_too_long_is_refused() {
    let (fits, long) = (vec![b'\xff'; 1_024], vec![b'x'; 1_025]);
    let with = |name: &[u8]| -> Vec<(&'static str, Vec<Vec<u8>>)> {
        let own = |args: &[&[u8]]| args.iter().map(|arg| arg.to_vec()).collect();
        vec![
            ("RQ.LEASE", own(&[name])),
            ("RQ.ACKLEASE", own(&[ID.as_bytes(), b"1", name])),
            ("RQ.RELEASE", own(&[b"CONSUMER", name])),
            ("RQ.REAP", own(&[b"CONSUMER", name])),
            ("RQ.PUSH", own(&[b"p", b"GROUP", name])),
            ("RQ.PUSH", own(&[b"p", b"DEDUP", name])),
            ("RQ.MPUSH", own(&[b"1", b"p", b"DEDUPS", name])),
            ("RQ.GET", own(&[b"DEDUP", name])),
            ("RQ.DEL", own(&[b"DEDUP", name])),
            ("RQ.PAUSE", own(&[b"GROUP", name])),
            ("RQ.RESUME", own(&[b"GROUP", name])),
            ("RQ.SCHEDULE", own(&[name, b"EVERY", b"100", b"PAYLOAD", b"p"])),
            ("RQ.SCHEDULE", own(&[b"s", b"EVERY", b"100", b"PAYLOAD", b"p", b"GROUP", name])),
            ("RQ.SCHEDULE", own(&[b"s", b"EVERY", b"100", b"PAYLOAD", b"p", b"DEDUP", name])),
        ]
    };
    for (verb, args) in with(&long) {
        let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        let error = refused(verb, &args);
        assert!(error.contains("1024") && error.contains("1025"), "{error}");
    }
    for (verb, args) in with(&fits) {
        let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
        full().run(verb, &args).unwrap();
    }
}

/// What can be stored has a limit, and the error names it and the way out.
#[test]
fn a_payload_that_is_too_big_is_refused() {
    const MAX: usize = 16_711_680;
    let (fits, big) = (vec![0; MAX], vec![0; MAX + 1]);
    let error = refused("RQ.PUSH", &[&big]);
    assert!(error.starts_with("TOOBIG ") && error.contains("16711681") && error.contains("16711680"), "{error}");
    let half = &fits[..MAX / 2 + 1];
    let error = refused("RQ.MPUSH", &[b"2", half, half]);
    assert!(error.starts_with("TOOBIG ") && error.contains("16711682") && error.contains("16711680"), "{error}");
    let mut q = Driver::new();
    q.run("RQ.PUSH", &[&fits]).unwrap();
    assert!(q.batch.len() <= 16 << 20, "a batch of {} bytes", q.batch.len());
    q.run("RQ.MPUSH", &[b"2", &fits[..MAX / 2], &fits[..MAX / 2]]).unwrap();
    assert!(q.batch.len() <= 16 << 20, "a batch of {} bytes", q.batch.len());
    q.reload();
}

#[test]
fn alter_needs_a_queue() {
    let mut q = Driver::new();
    let error = q.try_cmd("RQ.ALTER LEASE 5").unwrap_err().to_string();
    assert!(error.starts_with("NOQUEUE "), "{error}");
    assert!(q.queue.is_none());
}

/// What is spelled like a keyword is still a payload, a name, a text.
#[test]
fn values_may_be_spelled_like_keywords() {
    let mut q = Driver::new();
    q.cmd("RQ.PUSH DELAY");
    q.cmd("RQ.PUSH PRIORITY PRIORITY 5");
    q.cmd("RQ.MPUSH 2 TTL AT TTL 5000");
    let leased = q.cmd("RQ.LEASE COUNT COUNT 4");
    let payloads: Vec<String> = support::items(&leased).iter().map(|job| support::string(support::at(job, 3))).collect();
    assert_eq!(payloads, ["PRIORITY", "DELAY", "TTL", "AT"]);
    let job = support::at(&leased, 1);
    let pair = format!("{} {}", support::string(support::at(job, 0)), support::int(support::at(job, 1)));
    assert_eq!(q.cmd(&format!("RQ.NACK {pair} ERROR DEAD")), support::ints(&[1]));
    assert_eq!(q.cmd("RQ.RELEASE CONSUMER COUNT"), rq_core::Tree::Int(3));
}
