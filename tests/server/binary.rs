//! Bytes are bytes: payload, consumer, error and key come back as they were given, from every
//! verb, after RDB and AOF, on the replica. Case B61.

use crate::harness::{jobs, wait_until, Reply, Scene};

/// All 256 byte values, and what has broken others.
fn odd_bytes() -> Vec<Vec<u8>> {
    vec![
        (0..=255).collect(),
        b"\r\n$-1\r\n".to_vec(),
        b"*3\r\n$3\r\nDEL\r\n".to_vec(),
        vec![0],
        vec![0xff, 0xfe, 0xed, 0xa0, 0x80],
        b"100%done%s%s%n".to_vec(),
        b"\"quoted\" \\ 'words' {\"json\":1}".to_vec(),
        b"DELAY".to_vec(),
        b" ".to_vec(),
    ]
}

#[test]
fn b61_everything_comes_back_as_it_was_given() {
    let s = Scene::new();
    for odd in odd_bytes() {
        // One name for the key, the payload, the consumer and the error.
        let key = odd.as_slice();
        let id = s.cmd(&[b"RQ.PUSH", key, key]).bytes().to_vec();
        let job = jobs(&s.cmd(&[b"RQ.LEASE", key, key, b"META"])).remove(0);
        assert_eq!(job.payload, odd);
        assert_eq!(job.meta.as_ref().expect("META")["consumer"].bytes(), odd);
        let token = job.token.to_string();
        let nack = s.cmd(&[b"RQ.NACK", key, id.as_slice(), token.as_bytes(), b"ERROR", key, b"DELAY", b"7200000"]);
        assert_eq!(nack.ints(), [1]);
        let seen = s.cmd(&[b"RQ.GET", key, id.as_slice()]).fields();
        for field in ["payload", "error", "consumer"] {
            assert_eq!(seen[field].bytes(), odd, "{field}");
        }
        s.cmd(&[b"RQ.PUSH", key, key]);
        s.cmd(&[b"RQ.LEASE", key, key, b"LEASE", b"7200000"]);
    }
    // verify() compares digests; here the bytes themselves, everywhere.
    let everywhere = |name: &str| {
        s.replica().wait_in_step(&s);
        for odd in odd_bytes() {
            for server in [&*s, s.replica()] {
                for job in server.all_jobs(&odd) {
                    assert_eq!(job["payload"].bytes(), odd, "payload {name}");
                    assert_eq!(job["consumer"].bytes(), odd, "consumer {name}");
                }
                assert_eq!(server.all_jobs(&odd).len(), 2, "{name}");
            }
        }
    };
    everywhere("as it was written");
    s.run("DEBUG RELOAD");
    everywhere("after RDB");
    s.run("DEBUG LOADAOF");
    everywhere("after AOF");
    s.rewrite_aof();
    s.run("DEBUG LOADAOF");
    everywhere("after a rewritten AOF");
    for odd in odd_bytes() {
        let key = odd.as_slice();
        let rows = s.cmd(&[b"RQ.REAP", key, b"CONSUMER", key]);
        assert_eq!(rows.array()[0].array()[3].bytes(), odd);
        s.cmd(&[b"RQ.LEASE", key, key, b"LEASE", b"7200000"]);
        assert_eq!(s.cmd(&[b"RQ.RELEASE", key, b"CONSUMER", key]), 1);
    }
    s.verify();
}

#[test]
fn b61_an_odd_job_can_be_worked_with_like_any() {
    let s = Scene::new();
    for odd in odd_bytes() {
        for _ in 0..3 {
            s.cmd(&[b"RQ.PUSH", b"q".as_slice(), &odd]);
        }
        let jobs = s.lease("q w COUNT 3");
        assert_eq!(s.codes(format!("RQ.ACK q {}", jobs[0])), [1]);
        assert_eq!(s.codes(format!("RQ.NACK q {} DEAD", jobs[1])), [2]);
        assert_eq!(s.codes(format!("RQ.REDRIVE q {}", jobs[1].id)), [1]);
        assert_eq!(s.run(format!("RQ.DEL q {}", jobs[2].id)), 1);
        assert_eq!(s.run("RQ.PURGE q READY"), 1);
    }
    assert_eq!(s.info("q").ints(["length", "dead", "ready-bytes"]), [0, 0, 0]);
    s.verify();
}

#[test]
fn empty_names_are_names() {
    let s = Scene::new();
    let id = s.cmd(&["RQ.PUSH", "", ""]).text().to_owned();
    let job = jobs(&s.cmd(&["RQ.LEASE", "", "", "LEASE", "7200000"])).remove(0);
    assert_eq!(job.id, id);
    assert_eq!(s.cmd(&["RQ.REAP", "", "CONSUMER", ""]).array().len(), 1);
    let job = jobs(&s.cmd(&["RQ.LEASE", "", "", "LEASE", "7200000"])).remove(0);
    assert_eq!(s.cmd(&["RQ.RELEASE", "", "CONSUMER", ""]), 1);
    assert_eq!(s.cmd(&["RQ.ACK", "", &job.id, &job.token.to_string()]).ints(), [0]);
    s.verify();
}

#[test]
fn b61_waiters_and_events_with_odd_names() {
    let s = Scene::with(&["notify-keyspace-events KEA"]);
    let listener = s.client();
    listener.run("PSUBSCRIBE *");
    for odd in odd_bytes() {
        let worker = s.client();
        worker.send(&[b"RQ.LEASE".as_slice(), &odd, &odd, b"BLOCK", b"0", b"LEASE", b"7200000"]);
        s.wait_blocked(1);
        s.cmd(&[b"RQ.PUSH".as_slice(), &odd, &odd]);
        assert_eq!(jobs(&worker.reply())[0].payload, odd);
        // The event channel `__keyevent@0__:rq.push` carries the key's name.
        loop {
            let message = listener.reply();
            let message = message.array();
            if message[2] == "__keyevent@0__:rq.push" {
                assert_eq!(message[3], Reply::Bulk(odd.clone()));
                break;
            }
        }
    }
    s.verify();
}

/// Whether the bytes are somewhere in a reply.
fn holds(reply: &Reply, bytes: &[u8]) -> bool {
    match reply {
        Reply::Bulk(found) => found == bytes,
        Reply::Array(parts) => parts.iter().any(|part| holds(part, bytes)),
        Reply::Map(pairs) => pairs.iter().any(|(key, value)| holds(key, bytes) || holds(value, bytes)),
        _ => false,
    }
}

#[test]
fn b61_groups_dedup_keys_schedules_reasons_and_results() {
    let s = Scene::new();
    s.run("RQ.CREATE q LEASE 7200000 KEEPDONE 100");
    let q = b"q".as_slice();
    for odd in odd_bytes() {
        let odd = odd.as_slice();
        s.cmd(&[b"RQ.PUSH", q, b"x", b"GROUP", odd, b"DEDUP", odd, b"DELAY", b"7200000"]);
        assert_eq!(s.cmd(&[b"RQ.PUSH", q, b"x", b"DEDUP", odd]).array()[1], 0, "a duplicate");
        s.cmd(&[b"RQ.SCHEDULE", q, odd, b"EVERY", b"7200000", b"PAYLOAD", odd, b"GROUP", odd]);
        s.cmd(&[b"RQ.PAUSE", q, b"GROUP", odd, b"REASON", odd]);
        let id = s.push("q result");
        let job = s.lease_one("q w");
        assert_eq!(job.id, id);
        let token = job.token.to_string();
        assert_eq!(s.cmd(&[b"RQ.ACK", q, id.as_bytes(), token.as_bytes(), b"RESULT", odd]).ints(), [1]);
        assert_eq!(s.job("q", &id)["result"].bytes(), odd);
        assert_eq!(s.run(format!("RQ.WAIT q {id}")).array()[1].bytes(), odd);
    }
    s.check();
    for odd in odd_bytes() {
        let odd = odd.as_slice();
        let seen = s.cmd(&[b"RQ.GET", q, b"DEDUP", odd]).fields();
        assert_eq!((seen["group"].bytes(), seen["dedup"].bytes()), (odd, odd));
        assert!(holds(&s.run("RQ.SCHEDULES q"), odd) && holds(&s.run("RQ.GROUPS q"), odd));
        assert_eq!(s.cmd(&[b"RQ.RESUME", q, b"GROUP", odd]), 1);
        assert_eq!(s.cmd(&[b"RQ.UNSCHEDULE", q, odd]), 1);
        assert_eq!(s.cmd(&[b"RQ.DEL", q, b"DEDUP", odd]), 1);
    }
    s.verify();
}

#[test]
fn b61_refusals_of_odd_bytes_are_one_legal_line() {
    let s = Scene::new();
    s.run("RQ.CREATE q");
    for odd in odd_bytes() {
        if odd == b"DELAY" {
            continue; // an option in the place of one
        }
        for words in [
            vec![b"RQ.PUSH".as_slice(), b"q", b"x", &odd],
            vec![b"RQ.PUSH", b"q", b"x", b"DELAY", &odd],
            vec![b"RQ.GET", b"q", &odd],
            vec![b"RQ.LEN", b"q", &odd],
            vec![b"RQ.ALTER", b"q", b"JITTER", &odd],
            vec![b"RQ.PURGE", b"q", b"DEAD", b"REASON", &odd],
        ] {
            let reply = s.unchanged(|| s.cmd(&words));
            assert!(reply.error().bytes().all(|byte| (b' '..=b'~').contains(&byte)), "{reply:?}");
            assert_eq!(s.run("PING"), "PONG");
        }
    }
    // The log survives them too, whatever it tells.
    wait_until("the log", || !s.log().is_empty());
    s.verify();
}
