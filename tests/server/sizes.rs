//! Payloads of every size, what one reply may hold, what a job costs, and that nothing is left of
//! it. Cases B32 and B62.

use crate::harness::{jobs, Client, Reply, Scene, Server};

const MB: usize = 1 << 20;
/// The longest payload that there can be.
const LONGEST: usize = 16_711_680;

fn push(c: &Client, key: &str, payload: &[u8]) -> Reply {
    c.cmd(&[b"RQ.PUSH", key.as_bytes(), payload])
}

/// What the server holds now, in bytes.
fn used(server: &Server) -> u64 {
    server.server_number("memory", "used_memory")
}

/// Payloads of a reply of RQ.LEASE, in bytes.
#[track_caller]
fn sizes(reply: &Reply) -> Vec<usize> {
    jobs(reply).iter().map(|job| job.payload.len()).collect()
}

#[test]
fn b62_payloads_of_every_size() {
    let s = Scene::new();
    let payload = vec![b'x'; LONGEST + 1];
    for size in [0, 1, LONGEST] {
        let id = push(&s, "q", &payload[..size]).text().to_owned();
        assert_eq!(s.job("q", &id).int("size"), size as i64);
        assert_eq!(s.lease_one("q w LEASE 7200000").payload.len(), size);
    }
    let text = s.unchanged(|| push(&s, "q", &payload).error().to_owned());
    assert_eq!(text, format!("TOOBIG the payload is {} bytes long, at most {LONGEST} fit: store it elsewhere and push its address, or push fewer at a time", LONGEST + 1));
    assert!(push(&s, "absent", &payload).error().starts_with("TOOBIG "));
    let half = &payload[..LONGEST / 2 + 1];
    let text = s.unchanged(|| s.cmd(&[b"RQ.MPUSH", b"q".as_slice(), b"2", half, half]).error().to_owned());
    assert!(text.starts_with("TOOBIG the payloads together "), "{text}");
    let schedule: [&[u8]; 7] = [b"RQ.SCHEDULE", b"q", b"s", b"EVERY", b"1000", b"PAYLOAD", &payload];
    assert!(s.unchanged(|| s.cmd(&schedule).error().starts_with("TOOBIG ")));
    let job = s.run("RQ.PEEK q LEASED NOPAYLOAD").array()[1].array()[0].fields();
    let (id, token) = (job["id"].text().to_owned(), job.int("token").to_string());
    let ack: [&[u8]; 6] = [b"RQ.ACK", b"q", id.as_bytes(), token.as_bytes(), b"RESULT", &payload];
    assert!(s.unchanged(|| s.cmd(&ack).error().starts_with("TOOBIG the result is ")));
    // Each job keeps a copy, so a result for many counts as often.
    let ack: [&[u8]; 8] = [b"RQ.ACK", b"q", id.as_bytes(), token.as_bytes(), id.as_bytes(), token.as_bytes(), b"RESULT", half];
    assert!(s.unchanged(|| s.cmd(&ack).error().starts_with("TOOBIG the result for all these jobs is ")));
    assert_eq!(s.run("EXISTS absent"), 0);
    s.verify();
}

#[test]
fn b62_the_longest_payload_can_be_set() {
    let s = Scene::with(&["rq.max-payload 100"]);
    s.push(format!("q {}", "x".repeat(100)));
    let long = "x".repeat(101);
    s.refused(format!("RQ.PUSH q {long}"), "TOOBIG the payload is 101 bytes long, at most 100 fit: store it elsewhere");
    s.refused(format!("RQ.MPUSH q 2 x {long}"), "TOOBIG ");
    s.refused(format!("RQ.PUSH q {long} DEDUP k REPLACE KEEPLAST"), "TOOBIG ");
    s.refused(format!("RQ.SCHEDULE q s EVERY 1000 PAYLOAD {long}"), "TOOBIG ");
    s.refused(format!("RQ.PUSH new {long}"), "TOOBIG ");
    assert_eq!(s.run("EXISTS new"), 0);
    s.run("CONFIG SET rq.max-payload 101");
    s.push(format!("q {long}"));
    // It is about what is new: what is there is worked on.
    s.run("CONFIG SET rq.max-payload 1");
    let taken = s.lease("q w COUNT 10 LEASE 7200000");
    assert_eq!(taken.iter().map(|job| job.payload.len()).collect::<Vec<_>>(), [100, 101]);
    assert_eq!(s.codes(format!("RQ.RELEASE q {}", taken[1])), [1]);
    s.verify();
}

/// Above the server's own bound the request is no request: an error, and the connection is cut.
#[test]
fn b62_above_proto_max_bulk_len() {
    let s = Scene::with(&["proto-max-bulk-len 1mb"]);
    let client = s.client();
    s.unchanged(|| {
        client.send_bytes(format!("*3\r\n$7\r\nRQ.PUSH\r\n$1\r\nq\r\n${}\r\n", MB + 1).as_bytes());
        assert!(client.reply().error().contains("invalid bulk length"));
        assert!(client.next_reply().is_err(), "it is cut off");
    });
    // What is sent to replicas, written and saved may be longer than any request.
    let payload = vec![b'x'; MB];
    let mut words: Vec<&[u8]> = vec![b"RQ.MPUSH", b"q", b"12"];
    words.extend(vec![payload.as_slice(); 12]);
    assert_eq!(s.cmd(&words).array().len(), 12);
    assert_eq!(s.lease("q w COUNT 12 LEASE 7200000").len(), 12);
    s.verify();
}

/// A queue with jobs of 1 MB.
fn large(server: &Server, n: usize) {
    server.run("RQ.CREATE q LEASE 7200000");
    let payload = vec![b'x'; MB];
    for _ in 0..n {
        push(server, "q", &payload);
    }
}

#[test]
fn b62_maxbytes_bounds_every_form_of_lease() {
    let s = Scene::new();
    large(&s, 24);
    let options = format!("COUNT 100 MAXBYTES {}", 4 * MB + 1);
    let reply = s.run(format!("RQ.LEASE q w {options}"));
    assert_eq!(sizes(&reply), [MB; 4]);
    let reply = s.run(format!("RQ.ACKLEASE q {} w {options}", jobs(&reply)[0]));
    assert_eq!(sizes(&reply.array()[1]), [MB; 4]);
    assert_eq!(sizes(&s.run(format!("RQ.MLEASE 2 none q w {options}")).array()[1]), [MB; 4]);
    assert_eq!(sizes(&s.multi(&[format!("RQ.LEASE q w {options}")])[0]), [MB; 4]);
    // What comes while somebody waits: also when all of it comes at once.
    s.run("RQ.RELEASE q CONSUMER w");
    s.run("RQ.PAUSE q");
    let worker = s.client();
    worker.send_line(format!("RQ.LEASE q w BLOCK 0 {options}"));
    s.wait_blocked(1);
    s.run("RQ.RESUME q");
    assert_eq!(sizes(&worker.reply()), [MB; 4]);
    assert_eq!(s.run("RQ.LEN q READY"), 19);
    // PEEK has a bound of its own, and a cursor to go on with.
    let page = s.run("RQ.PEEK q READY COUNT 1000");
    assert_eq!((page.array()[1].array().len(), page.array()[0] == "0"), (16, false));
    s.verify();
}

/// Without MAXBYTES a reply has at most 64 MB of payloads, and the server holds one reply for a
/// client that does not read, not all that was asked for.
#[test]
fn b62_a_slow_reader_of_very_much() {
    let server = Server::start();
    server.run("RQ.CREATE q LEASE 7200000");
    let payload = vec![b'x'; LONGEST];
    for _ in 0..6 {
        push(&server, "q", &payload);
    }
    let before = used(&server);
    let slow = server.client();
    slow.send_line("RQ.LEASE q w COUNT 100");
    let wanted = 64 * MB / LONGEST;
    crate::harness::wait_until("the leases", || server.run("RQ.LEN q LEASED") == wanted as i64);
    let held = used(&server) - before;
    assert!(held < 64 * MB as u64 + 4 * MB as u64, "{held} bytes for one reply");
    assert_eq!(sizes(&slow.reply()), vec![LONGEST; wanted]);
    assert_eq!(sizes(&server.run("RQ.LEASE q w COUNT 100")).len(), 6 - wanted);
}

/// INFO has the payload bytes of each state, MEMORY USAGE all that the queue takes: from both one
/// sees what a job costs.
#[test]
fn b62_bytes_per_job() {
    let s = Scene::new();
    s.run("RQ.CREATE q LEASE 7200000");
    let payload = "x".repeat(100);
    let many = vec![payload.as_str(); 10_000].join(" ");
    let empty = s.run("MEMORY USAGE q").int();
    for (options, count, bytes) in [("", "ready", "ready-bytes"), ("DELAY 72000000", "delayed", "delayed-bytes")] {
        let before = s.run("MEMORY USAGE q").int();
        s.run(format!("RQ.MPUSH q 10000 {many} {options}"));
        let info = s.info("q");
        assert_eq!(info.ints([count, bytes]), [10_000, 1_000_000]);
        let per_job = (s.run("MEMORY USAGE q").int() - before) / 10_000;
        assert!((100..400).contains(&per_job), "{count}: {per_job} bytes per job of 100");
    }
    assert_eq!(s.lease("q w COUNT 10000").len(), 10_000);
    assert_eq!(s.info("q").ints(["ready-bytes", "leased-bytes", "dead-bytes", "done-bytes"]), [0, 1_000_000, 0, 0]);
    s.run("RQ.RELEASE q CONSUMER w");
    assert_eq!(s.run("RQ.PURGE q READY COUNT 10000").int() + s.run("RQ.PURGE q DELAYED COUNT 10000").int(), 20_000);
    let left = s.run("MEMORY USAGE q").int() - empty;
    assert!(left < 1_000, "{left} bytes are left of jobs that are gone");
    s.verify();
}

/// ACK frees the job, its lease and its worker's name, however many workers come once.
#[test]
fn b32_finished_jobs_leave_nothing_of_themselves_or_their_workers() {
    let mut server = Server::start();
    server.run("RQ.CREATE q LEASE 7200000");
    let payloads = vec!["x".repeat(100); 1_000].join(" ");
    let empty = server.run("MEMORY USAGE q").int();
    let mut after_two = 0;
    for round in 0..20 {
        server.run(format!("RQ.MPUSH q 1000 {payloads}"));
        (0..1_000).for_each(|n| server.send_line(format!("RQ.LEASE q host-{round}-{n}")));
        let leased: Vec<String> = (0..1_000).map(|_| jobs(&server.reply())[0].to_string()).collect();
        assert_eq!(server.run("RQ.CONSUMERS q").array().len(), 1_000);
        assert_eq!(server.codes(format!("RQ.ACK q {}", leased.join(" "))), [1; 1_000]);
        assert!(server.run("RQ.CONSUMERS q").array().is_empty());
        let left = server.run("MEMORY USAGE q").int() - empty;
        assert!(left < 6_000, "{left} bytes are left after round {round}");
        if round == 1 {
            after_two = used(&server);
        }
    }
    let now = used(&server);
    assert!(now < after_two + after_two / 10, "{after_two} bytes after two rounds, {now} after twenty");
    // How long they waited and ran is known for two minutes.
    server.advance(121_000);
    crate::harness::wait_until("that this is forgotten", || server.run("MEMORY USAGE q").int() - empty < 1_000);
}
