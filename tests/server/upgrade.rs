//! Two versions of RQ: what one has written the other reads, or it stops and says so. Case B49.
//!
//! `RQ_OLD_MODULE` is the module of an earlier release; without it the module under test stands in
//! for it, so that the tests themselves are tried. A future version is forged.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::thread::JoinHandle;

use crate::harness::{module, stock, wait_until, Fields, Server, Stop};

fn old_module() -> PathBuf {
    std::env::var_os("RQ_OLD_MODULE").map_or_else(|| module().to_owned(), PathBuf::from)
}

/// A queue with something of everything; what has its version's own words is left to that version.
#[track_caller]
fn fill(server: &Server) -> crate::harness::Stock {
    let q = stock(server, "q");
    server.push("q all PRIORITY -5 TTL 7200000 LEASE 7200000 MAXDELIVERIES 7 DELAY 7200000");
    for line in [
        "RQ.PUSH q once DEDUP key WINDOW 7200000 DELAY 7200000",
        "RQ.PUSH q grouped GROUP g",
        "RQ.SCHEDULE q daily EVERY 7200000 PAYLOAD slot",
        "RQ.ALTER q KEEPDONE 10 RATE 9000 7200000",
        "RQ.PAUSE q IN FOR 7200000 REASON upgrade",
    ] {
        server.run(line);
    }
    q
}

/// What is there, as this server shows it. An older one may lack some fields.
fn shown(server: &Server) -> (Vec<Fields>, Fields) {
    let mut info = server.info("q");
    let moving = ["oldest-", "local-", "blocked-", "wait-ms", "run-ms", "held", "consumers"];
    info.0.retain(|(name, _)| !moving.iter().any(|start| name.starts_with(start)));
    (server.all_jobs("q"), info)
}

#[track_caller]
fn is_the_same(old: &(Vec<Fields>, Fields), new: &(Vec<Fields>, Fields)) {
    let within = |old: &Fields, new: &Fields| {
        for (name, value) in &old.0 {
            let there = new.0.iter().find(|(other, _)| other == name);
            assert_eq!(Some(value), there.map(|(_, value)| value), "{name}");
        }
    };
    assert_eq!(old.0.len(), new.0.len());
    old.0.iter().zip(&new.0).for_each(|(old, new)| within(old, new));
    within(&old.1, &new.1);
}

#[test]
fn b49_what_the_last_release_has_saved_is_loaded() {
    for files in [
        &["save 3600 1"][..],
        &["appendonly yes", "appendfsync always", "aof-use-rdb-preamble yes"],
        &["appendonly yes", "appendfsync always", "aof-use-rdb-preamble no"],
    ] {
        for rewritten in [false, true] {
            let mut server = Server::with_module(Some(&old_module()), files);
            let q = fill(&server);
            if rewritten && files.len() > 1 {
                server.rewrite_aof();
                server.run("RQ.RESUME q IN");
            }
            let before = shown(&server);
            server.stop(Stop::Shutdown);
            server.use_module(Some(module()));
            server.start_again(&[]);
            is_the_same(&before, &shown(&server));
            // Nothing of it is only for show.
            assert_eq!(server.codes(format!("RQ.ACK q {}", q.leased)), [1]);
            assert_eq!(server.codes(format!("RQ.REDRIVE q {}", q.dead)), [1]);
            server.run("RQ.RESUME q IN");
            assert!(server.push("q next") > q.ready);
            assert_eq!(server.run("RQ.PUSH q twice DEDUP key WINDOW 7200000").array()[1], 0);
            let digest = server.digest("q");
            server.restart(Stop::Shutdown);
            assert_eq!(server.digest("q"), digest);
        }
    }
}

/// The order in which an upgrade goes: the replica first, then a failover, then the old primary.
#[test]
fn b49_a_new_replica_of_an_old_primary() {
    let mut old = Server::with_module(Some(&old_module()), &["save 3600 1"]);
    fill(&old);
    let new = Server::start();
    new.follow(&old);
    old.run("RQ.RESUME q IN");
    for n in 0..20 {
        old.push(format!("q job{n} GROUP g{}", n % 3));
    }
    let jobs = old.lease("q w COUNT 12 LEASE 7200000");
    old.codes(format!("RQ.ACK q {} RESULT done", jobs[0]));
    old.codes(format!("RQ.NACK q {} ERROR flaky", jobs[1]));
    old.codes(format!("RQ.NACK q {} DEAD", jobs[2]));
    old.codes(format!("RQ.RELEASE q {}", jobs[3]));
    new.wait_in_step(&old);
    is_the_same(&shown(&old), &shown(&new));
    crate::harness::check_counters(&[&new]);
    new.run("REPLICAOF NO ONE");
    assert_eq!(new.codes(format!("RQ.ACK q {}", jobs[4])), [1], "tokens are good there");
    old.stop(Stop::Shutdown);
    old.use_module(Some(module()));
    old.start_again(&[]);
    old.follow(&new);
    assert_eq!(old.digest("q"), new.digest("q"));
}

/// The commands of an AOF whose batch has a version of the future.
fn forged(batch: &[u8]) -> Vec<u8> {
    let mut future = batch.to_vec();
    future[0] = 99;
    future
}

/// A command as it stands in files and streams.
fn command(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend(format!("${}\r\n", word.len()).bytes());
        bytes.extend(*word);
        bytes.extend(b"\r\n");
    }
    bytes
}

/// A batch that a queue was made of.
fn a_batch() -> Vec<u8> {
    let server = Server::with(&["appendonly yes", "appendfsync always"]);
    server.push("q x");
    crate::registration::applied(&server).remove(0).remove(2)
}

#[test]
fn b49_an_aof_of_a_future_version_stops_the_start() {
    for (batch, told) in [(forged(&a_batch()), "version"), (a_batch()[..3].to_vec(), "does not decode"), (Vec::new(), "does not decode")] {
        let mut server = Server::with(&["appendonly yes", "appendfsync always"]);
        stock(&server, "q");
        let digest = server.digest("q");
        server.stop(Stop::Shutdown);
        let path = crate::registration::newest_aof(&server);
        let sound = std::fs::read(&path).expect("the AOF");
        let more = [command(&[b"SELECT", b"0"]), command(&[b"RQ.APPLY", b"q", &batch]), command(&[b"SET", b"after", b"x"])].concat();
        std::fs::write(&path, [sound.as_slice(), &more].concat()).expect("the AOF");
        let log = server.refuses_to_start(&[]);
        let line = log.lines().find(|line| line.contains("RQ.APPLY")).unwrap_or_else(|| panic!("{log}"));
        for part in ["the queue \"q\"", told, "newer RQ", env!("CARGO_PKG_VERSION")] {
            assert!(line.contains(part), "{part} in: {line}");
        }
        // Nothing was lost by trying.
        std::fs::write(&path, sound).expect("the AOF");
        server.start_again(&[]);
        assert_eq!(server.digest("q"), digest);
    }
}

/// The first batch of the snapshot of a queue, within a file: its version is the first byte.
fn with_a_future_queue(mut rdb: Vec<u8>) -> Vec<u8> {
    // A module's string: opcode 5, a length below 64 in one byte or below 16,384 in two, the bytes;
    // a snapshot begins with version 1 and a time of now.
    let marks = (0..rdb.len().saturating_sub(4)).filter(|&at| rdb[at] == 5 && rdb[at + 1] & 0xc0 == 0x40 && rdb[at + 3] == 1);
    let marks: Vec<usize> = marks.collect();
    assert_eq!(marks.len(), 1, "one queue of one chunk");
    rdb[marks[0] + 3] = 99;
    rdb
}

/// An RDB file with a queue in it.
fn a_file() -> Vec<u8> {
    let server = Server::with(&["rdbchecksum no", "rdbcompression no"]);
    stock(&server, "q");
    server.run("SAVE");
    std::fs::read(server.dir().join("dump.rdb")).expect("the file")
}

#[test]
fn b49_an_rdb_file_of_a_future_version_stops_the_start() {
    let file = a_file();
    let mut server = Server::with(&["rdbchecksum no"]);
    server.stop(Stop::Kill);
    let path = server.dir().join("dump.rdb");
    std::fs::write(&path, with_a_future_queue(file.clone())).expect("the file");
    let log = server.refuses_to_start(&[]);
    for part in ["the saved queue \"q\"", "version"] {
        assert!(log.lines().any(|line| line.contains("rq: ") && line.contains(part)), "{part} in: {log}");
    }
    std::fs::write(&path, file).expect("the file");
    server.start_again(&[]);
    assert_eq!(server.run("RQ.LEN q"), 4);
}

/// A primary that sends what it is given: first a file, then a stream.
struct FakePrimary {
    port: u16,
    thread: JoinHandle<TcpStream>,
}

impl FakePrimary {
    fn start(rdb: Vec<u8>, stream: Vec<u8>) -> FakePrimary {
        let all = rdb.len();
        FakePrimary::sends(rdb, all, stream)
    }

    /// So much of the file, and then the stream.
    fn sends(rdb: Vec<u8>, part: usize, stream: Vec<u8>) -> FakePrimary {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let port = listener.local_addr().expect("its address").port();
        let thread = std::thread::spawn(move || {
            let (mut socket, _) = listener.accept().expect("the replica");
            handshake(&socket);
            write!(socket, "+FULLRESYNC {} 0\r\n${}\r\n", "a".repeat(40), rdb.len()).expect("send");
            socket.write_all(&rdb[..part]).and_then(|()| socket.write_all(&stream)).expect("send");
            socket
        });
        FakePrimary { port, thread }
    }
}

/// Answers the replica up to its PSYNC.
fn handshake(mut socket: &TcpStream) {
    let mut reader = BufReader::new(socket.try_clone().expect("the socket"));
    loop {
        let mut words = Vec::new();
        let mut line = String::new();
        reader.read_line(&mut line).expect("a command");
        let count: usize = line.trim_end().trim_start_matches('*').parse().expect("a command");
        for _ in 0..count {
            let mut size = String::new();
            reader.read_line(&mut size).expect("a length");
            let mut word = vec![0; size.trim_end().trim_start_matches('$').parse::<usize>().expect("a length") + 2];
            reader.read_exact(&mut word).expect("a word");
            words.push(String::from_utf8_lossy(&word).trim_end().to_uppercase());
        }
        match words[0].as_str() {
            "PING" => socket.write_all(b"+PONG\r\n"),
            "PSYNC" | "SYNC" => return,
            _ => socket.write_all(b"+OK\r\n"),
        }
        .expect("reply");
    }
}

#[test]
fn b49_a_primary_of_a_future_version_is_told_of_loudly() {
    let batch = a_batch();
    let words = |batch: &[u8]| command(&[b"RQ.APPLY", b"q", batch]);
    let stream = [command(&[b"SELECT", b"0"]), words(&batch), words(&forged(&batch)), words(&[]), command(&[b"SET", b"after", b"x"])].concat();
    let fake = FakePrimary::start(a_file(), stream);
    let replica = Server::start();
    replica.run(format!("REPLICAOF 127.0.0.1 {}", fake.port));
    wait_until("the end of the stream", || replica.run("EXISTS after") == 1);
    let _socket = fake.thread.join().expect("the primary");
    assert_eq!(replica.server_number("rq", "rq_undecodable_batches"), 2);
    let log = replica.log();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("rq: RQ.APPLY for the queue \"q\"")).collect();
    assert_eq!(lines.len(), 2, "{log}");
    assert!(lines[0].contains("version") && lines[0].contains(env!("CARGO_PKG_VERSION")), "{lines:?}");
    assert!(log.contains("CRITICAL"), "the server itself tells it too: {log}");
}

/// The server has a setting for those who want it to stop there.
#[test]
fn b49_a_replica_can_be_told_to_stop_at_a_batch_it_cannot_read() {
    let batch = a_batch();
    let stream = [command(&[b"SELECT", b"0"]), command(&[b"RQ.APPLY", b"q", &forged(&batch)])].concat();
    let fake = FakePrimary::start(a_file(), stream);
    let mut replica = Server::with(&["propagation-error-behavior panic-on-replicas"]);
    replica.run(format!("REPLICAOF 127.0.0.1 {}", fake.port));
    wait_until("the replica's end", || replica.has_ended());
    let _socket = fake.thread.join().expect("the primary");
    assert!(replica.log().contains("rq: RQ.APPLY for the queue \"q\""));
}

#[test]
fn b49_a_full_sync_of_a_future_version_is_refused() {
    let fake = FakePrimary::start(with_a_future_queue(a_file()), Vec::new());
    let replica = Server::start();
    replica.push("own x");
    replica.run(format!("REPLICAOF 127.0.0.1 {}", fake.port));
    wait_until("the refusal", || replica.log().contains("the saved queue \"q\" (encoding 1) is refused"));
    let _socket = fake.thread.join().expect("the primary");
    // Some servers end there, others ask again; none goes on with half of it.
    assert!(!replica.log().contains("Finished with success"));
}

/// A file that ends half way: the replica is none the worse for it, and the next one is whole.
#[test]
fn b49_a_full_sync_that_breaks_off() {
    let primary = Server::start();
    for _ in 0..20 {
        primary.run(format!("RQ.MPUSH q 1000{}", " payload".repeat(1000)));
    }
    primary.lease("q w COUNT 5000 LEASE 7200000");
    primary.run("SAVE");
    let rdb = std::fs::read(primary.dir().join("dump.rdb")).expect("the file");
    for load in ["disabled", "swapdb"] {
        let replica = Server::with(&[&format!("repl-diskless-load {load}")]);
        replica.push("own x");
        for round in 1..=3 {
            let fake = FakePrimary::sends(rdb.clone(), rdb.len() * round / 4, Vec::new());
            replica.run(format!("REPLICAOF 127.0.0.1 {}", fake.port));
            drop(fake.thread.join().expect("the primary"));
            wait_until("the end of the link", || {
                replica.server_info("replication")["master_link_status"] == "down"
                    && replica.server_info("replication")["master_sync_in_progress"] == "0"
                    && replica.server_info("persistence")["loading"] == "0"
            });
            replica.run("REPLICAOF NO ONE");
        }
        replica.follow(&primary);
        crate::harness::check_equal(&primary, &replica);
        wait_until("the freeing of what was half loaded", || replica.server_number("rq", "rq_lazyfree_pending_queues") == 0);
        primary.run("RQ.LEN q");
    }
}
