//! Every command with arguments that make no sense: an error or a legal reply, a server that
//! lives, and no change by what was refused. Case B73.

use crate::harness::{stock, Client, Reply, Scene, Stock};

/// A small generator: the same calls in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 11).expect("64 bits") % n
    }
}

/// What an argument may be: nonsense, and now and then something sensible.
fn words(q: &Stock) -> Vec<Vec<u8>> {
    let texts = [
        "", " ", "0", "1", "-1", "+1", "01", "1.5", "1e3", "0x10", "NaN", "nan", "inf", "-inf", "9223372036854775807",
        "9223372036854775808", "-9223372036854775808", "-9223372036854775809", "18446744073709551615",
        "18446744073709551616", "9007199254740991", "9007199254740992", "253402300799999", "253402300800000",
        "100000000000", "99999999999", "128", "-129", "10000", "10001", "1000000001", "315360000001", "0-0", "0-1",
        "1700000000000-0", "253402300799999-4294967295", "253402300800000-0", "1-4294967296", "18446744073709551615-0",
        "-1-0", "1--1", "-", "DELAY", "AT", "PRIORITY", "LEASE", "MAXDELIVERIES", "TTL", "COUNT", "BLOCK", "MAXBYTES",
        "META", "ERROR", "DEAD", "CONSUMER", "ID", "REASON", "AFTER", "BEFORE", "SPREAD", "READY", "DELAYED", "LEASED",
        "DONE", "CURSOR", "NOPAYLOAD", "JSON", "MAXRUN", "MAXEXPIRIES", "BACKOFF", "JITTER", "none", "full",
        "EXPIRYBACKOFF", "yes", "failed", "ttl", "expired-lease", "worker", "*", "?", "\r\n", "%s%n",
    ];
    let mut words: Vec<Vec<u8>> = texts.iter().map(|text| text.as_bytes().to_vec()).collect();
    words.extend([(0..=255).collect(), vec![0xff; 3], vec![b'9'; 400], vec![b'x'; 5_000]]);
    for id in [&q.ready, &q.scheduled, &q.retrying, &q.leased.id, &q.dead] {
        words.push(id.clone().into_bytes());
    }
    words.push(q.leased.token.to_string().into_bytes());
    words
}

/// All commands of the module, as the server knows them.
fn commands(c: &Client) -> Vec<String> {
    let mut names = c.run("COMMAND LIST FILTERBY MODULE rq").texts();
    names.sort();
    assert!(names.len() >= 20, "{names:?}");
    names
}

/// Calls `command` with the words; a refusal must change nothing. What was not refused is undone:
/// else a job could become due in the middle of a later comparison.
#[track_caller]
fn call(s: &Scene, undo: &dyn Fn(), command: &str, words: &[&[u8]]) -> bool {
    let all: Vec<&[u8]> = [&[command.as_bytes()], words].concat();
    let shown: Vec<String> = all.iter().map(|word| word[..word.len().min(40)].escape_ascii().to_string()).collect();
    let state = || (s.run("DEBUG DIGEST"), s.server_number("replication", "master_repl_offset"));
    let before = state();
    let reply = s.cmd(&all);
    if let Reply::Error(text) = &reply {
        let code = text.split(' ').next().expect("a code");
        let known = ["ERR", "WRONGTYPE", "NOQUEUE", "TOOBIG", "FULL", "PAUSED", "UNSAFE"];
        assert!(known.contains(&code), "{shown:?}: {text}");
        assert!(!text.contains("panic") && !text.contains("internal error"), "{shown:?}: {text}");
        assert_eq!(state(), before, "{shown:?} was refused and yet changed something");
    } else {
        undo();
    }
    reply.is_error()
}

/// Brings the server back to what it holds now.
fn back_to(s: &Scene) -> impl Fn() + '_ {
    let dump = s.run("DUMP q").bytes().to_vec();
    move || {
        s.run("FLUSHALL");
        s.run("SET text x");
        s.cmd(&[b"RESTORE".as_slice(), b"q", b"0", &dump]);
    }
}

#[test]
fn b73_arguments_at_random() {
    let s = Scene::new();
    for (n, command) in commands(&s).iter().enumerate() {
        let q = stock(&s, "q");
        s.run("SET text x");
        let (words, undo) = (words(&q), back_to(&s));
        let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ (n as u64 + 1));
        let mut refused = 0;
        for _ in 0..250 {
            let mut arguments: Vec<&[u8]> = (0..random.below(9)).map(|_| words[random.below(words.len())].as_slice()).collect();
            let key: &[u8] = [b"q".as_slice(), b"q", b"q", b"text", b"absent"][random.below(5)];
            if let Some(first) = arguments.first_mut() {
                *first = key;
            }
            // BLOCK 0 would wait for ever, as it should.
            if arguments.contains(&b"BLOCK".as_slice()) && !arguments.contains(&b"1".as_slice()) {
                continue;
            }
            refused += usize::from(call(&s, &undo, command, &arguments));
        }
        // Any word can be the name of a schedule.
        let few = if command == "rq.unschedule" { 50 } else { 100 };
        assert!(refused > few, "{command}: only {refused} were refused");
        s.run("FLUSHALL");
    }
    s.verify();
}

#[test]
fn b73_every_word_in_every_place_of_a_right_call() {
    let s = Scene::new();
    for template in [
        "RQ.PUSH q payload DELAY 7200000 PRIORITY 5 LEASE 7200000 MAXDELIVERIES 5 TTL 7200000",
        "RQ.MPUSH q 2 a b AT 4000000000000",
        "RQ.LEASE q worker COUNT 2 LEASE 7200000 MAXBYTES 100 META",
        "RQ.ACK q ID TOKEN",
        "RQ.ACKLEASE q ID TOKEN worker COUNT 1",
        "RQ.NACK q ID TOKEN DELAY 7200000 ERROR text",
        "RQ.RELEASE q ID TOKEN DELAY 7200000",
        "RQ.EXTEND q ID TOKEN LEASE 7200000",
        "RQ.REAP q COUNT 5 CONSUMER worker",
        "RQ.REDRIVE q COUNT 5 REASON rejected AFTER 1600000000000 BEFORE 4000000000000 SPREAD 5 PRIORITY 5",
        "RQ.SET q ID PRIORITY 5 DELAY 7200000",
        "RQ.DEL q ID ID",
        "RQ.PURGE q DEAD COUNT 5 REASON failed BEFORE 1700000000000",
        "RQ.GET q ID",
        "RQ.PEEK q READY CURSOR 0 COUNT 5 NOPAYLOAD",
        "RQ.LEN q READY",
        "RQ.INFO q JSON",
        "RQ.CREATE q LEASE 7200000 BACKOFF 7200000 7200000 JITTER none",
        "RQ.ALTER q LEASE 7200000 MAXRUN 0 EXPIRYBACKOFF no",
    ] {
        let q = stock(&s, "q");
        s.run("SET text x");
        let token = q.leased.token.to_string();
        let right: Vec<&str> = template
            .split(' ')
            .map(|word| match word {
                "ID" => q.leased.id.as_str(),
                "TOKEN" => token.as_str(),
                word => word,
            })
            .collect();
        let (words, undo) = (words(&q), back_to(&s));
        for place in 2..right.len() {
            for word in &words {
                let mut arguments: Vec<&[u8]> = right[1..].iter().map(|word| word.as_bytes()).collect();
                arguments[place - 1] = word;
                call(&s, &undo, right[0], &arguments);
            }
            // Cut short there.
            let cut: Vec<&[u8]> = right[1..place].iter().map(|word| word.as_bytes()).collect();
            call(&s, &undo, right[0], &cut);
        }
        s.run("FLUSHALL");
    }
    s.verify();
}

#[test]
fn b73_very_many_arguments() {
    let s = Scene::new();
    let q = stock(&s, "q");
    let id = q.leased.id.as_str();
    for verb in ["RQ.ACK", "RQ.NACK", "RQ.RELEASE", "RQ.EXTEND"] {
        let mut words = vec![verb, "q"];
        (0..20_000).for_each(|_| words.extend([id, "1"]));
        let codes = s.unchanged(|| s.cmd(&words).ints());
        assert_eq!(codes, vec![0; 20_000], "{verb}");
    }
    for verb in ["RQ.DEL", "RQ.REDRIVE"] {
        let mut words = vec![verb, "q"];
        words.extend(vec!["1700000000000-5"; 20_000]);
        assert!(!s.unchanged(|| s.cmd(&words)).is_error(), "{verb}");
    }
    let names = vec!["x"; 10_000];
    let reply = s.cmd(&[&["RQ.MPUSH", "q", "10000"], &names[..], &["DELAY", "7200000"]].concat());
    assert_eq!(reply.array().len(), 10_000);
    s.verify();
}
