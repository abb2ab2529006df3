//! What is stored stays readable: batches and snapshots of each encoding, kept as files.
//!
//! `golden/v1.batches` has the batches of one long scenario, `golden/v1.snapshot` the queue that
//! they make, each line being one batch in hexadecimal digits; `golden/v1.digest` is the digest of
//! that queue. They must load for ever. As long as version 1 was not released, it may still change:
//! `RQ_UPDATE=1 cargo test -p rq-core --test golden` writes all three anew. After that a new encoding
//! gets a number and files of its own, and these stay as they are.

#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "tests may")]

mod support;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::OnceLock;

use rq_core::{Effects, Queue, Tree};
use support::{chunks, load, string, Driver, Reply};

/// The numbers of the ops, 1 and up.
const KINDS: u8 = 31;

/// Every op, with and without each of its options. `I` is the id of the job that was
/// pushed or leased last, `T` its token; `take` leases until it gets the one pushed last.
const SCENARIO: &[&str] = &[
    "RQ.CREATE LEASE 40 MAXDELIVERIES 3 MAXEXPIRIES 2 BACKOFF 5 60 JITTER none KEEPDONE 6 KEEPDEAD 4",
    "RQ.ALTER RATE 50 1000 CONCURRENCY 20 GROUPLIMIT 3 GROUPRATE 9 500 MAXLIVE -1 EXPIRYBACKOFF yes",
    "RQ.PUSH plain",
    "RQ.PUSH all DELAY 30 PRIORITY -128 LEASE 70 MAXDELIVERIES 2 TTL 5000 GROUP g DEDUP k WINDOW 9000",
    "RQ.MPUSH 4 a b c d PRIORITY 127 GROUP other",
    "lease", "RQ.ACK I T RESULT result",
    "lease", "RQ.NACK I T ERROR first",
    "lease", "RQ.NACK I T DELAY 0",
    "lease", "RQ.NACK I T DEAD ERROR never",
    "RQ.REDRIVE I",
    "lease", "RQ.RELEASE I T",
    "lease", "RQ.RELEASE I T DELAY 20",
    "pass 25",
    "lease", "RQ.EXTEND I T LEASE 300",
    "RQ.PUSH late PRIORITY 127 MAXDELIVERIES 1", "take", "pass 60", "RQ.NACK I T ERROR late",
    "RQ.REDRIVE COUNT 2 SPREAD 100 PRIORITY 3",
    "RQ.PUSH set", "RQ.SET I PRIORITY 4 DELAY 500", "lease", "pass 45", "pass 20",
    "RQ.PUSH debounced DELAY 90 DEDUP r REPLACE", "RQ.PUSH replaced DELAY 80 PRIORITY 2 DEDUP r REPLACE",
    "RQ.PUSH owner PRIORITY 127 DEDUP h KEEPLAST", "take", "RQ.PUSH held DEDUP h KEEPLAST DELAY 10 GROUP g LEASE 9", "RQ.ACK I T",
    "RQ.PUSH owner PRIORITY 127 DEDUP h2 KEEPLAST", "take", "RQ.PUSH held TTL 100 DEDUP h2 KEEPLAST",
    "RQ.PUSH gone PRIORITY 127 DEDUP f WINDOW 900", "take", "RQ.ACK I T", "RQ.TRIM MAXLEN 0", "RQ.DEL DEDUP f",
    "RQ.PUSH brief DEDUP w WINDOW 10 TTL 5", "pass 15",
    "RQ.PAUSE OUT FOR 20 REASON because", "RQ.PAUSE IN", "RQ.RESUME IN", "RQ.PAUSE GROUP g FOR 400", "pass 30",
    "RQ.SCHEDULE every EVERY 100 LIMIT 3 PAYLOAD tick PRIORITY 1 TTL 900", "RQ.SCHEDULE cron CRON 250 TZ UTC MISSED all PAYLOAD tock DEDUP k",
    "RQ.SCHEDULE end EVERY 5000 END 1800000000000 MISSED skip PAYLOAD last GROUP g", "RQ.SCHEDULE gone EVERY 900 PAYLOAD x", "RQ.UNSCHEDULE gone",
    "pass 120", "pass 260", "bar", "pass 100", "pass 70000", "RQ.PUSH idle PRIORITY 127 GROUP idle", "take", "RQ.ACK I T", "RQ.TRIM MAXLEN 0", "pass 600", "RQ.PUSH gone", "RQ.DEL I",
    "RQ.PURGE DEAD COUNT 1", "lease", "RQ.REAP CONSUMER w", "pass 2000", "RQ.ALTER KEEPDEAD 1", "lease",
    "RQ.PUSH held2 DEDUP h3 KEEPLAST PRIORITY 90", "take", "RQ.PUSH behind DEDUP h3 KEEPLAST", "RQ.PUSH window DEDUP w2 WINDOW 60000 GROUP g",
    "RQ.PAUSE GROUP paused REASON long", "RQ.ALTER AGING 7", "RQ.PAUSE OUT REASON end",
];

fn scenario() -> Driver {
    let mut q = Driver::new();
    let (mut id, mut token) = ("1-0".to_string(), 1);
    for line in SCENARIO {
        match line.split_once(' ') {
            Some(("pass", ms)) => q.pass(ms.parse().unwrap()),
            None if *line == "bar" => q.bar_slots = !q.bar_slots,
            None => {
                q.cmd("RQ.RESUME OUT");
                let pushed = id.clone();
                (id, token) = q.lease("w");
                while *line == "take" && id != pushed {
                    (id, token) = q.lease("w");
                }
            }
            _ => {
                let words = line.split(' ').map(|word| match word {
                    "I" => id.clone().into_bytes(),
                    "T" => token.to_string().into_bytes(),
                    word => word.as_bytes().to_vec(),
                });
                let words: Vec<Vec<u8>> = words.collect();
                let args: Vec<&[u8]> = words[1..].iter().map(Vec::as_slice).collect();
                let reply = q.execute(std::str::from_utf8(&words[0]).unwrap(), &args);
                match reply {
                    Ok(Reply::Now(Tree::Bulk(pushed))) => id = String::from_utf8(pushed).unwrap(),
                    Ok(Reply::Now(Tree::Array(pushed))) if line.starts_with("RQ.PUSH") => id = string(&pushed[0]),
                    Ok(Reply::Now(_)) => {}
                    other => panic!("{line}: {other:?}"),
                }
            }
        }
    }
    q
}

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

fn digits(batches: &[Vec<u8>]) -> String {
    batches.iter().map(|batch| batch.iter().map(|byte| format!("{byte:02x}")).collect::<String>() + "\n").collect()
}

fn read(name: &str) -> String {
    std::fs::read_to_string(path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn bytes(text: &str) -> Vec<Vec<u8>> {
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    text.lines().map(|line| line.as_bytes().chunks(2).map(byte).collect()).collect()
}

/// What is kept.
struct Golden {
    batches: Vec<Vec<u8>>,
    snapshot: Vec<Vec<u8>>,
    digest: String,
}

/// The files, written anew if that is asked for.
fn golden() -> &'static Golden {
    static GOLDEN: OnceLock<Golden> = OnceLock::new();
    GOLDEN.get_or_init(|| {
        if update() {
            let q = scenario();
            let queue = q.queue.expect("a queue");
            std::fs::write(path("v1.batches"), digits(&q.batches)).unwrap();
            std::fs::write(path("v1.snapshot"), digits(&chunks(&queue))).unwrap();
            std::fs::write(path("v1.digest"), digest(&queue)).unwrap();
        }
        Golden { batches: bytes(&read("v1.batches")), snapshot: bytes(&read("v1.snapshot")), digest: read("v1.digest") }
    })
}

/// FNV-1a, the same on every machine.
fn digest(queue: &Queue) -> String {
    let bytes = chunks(queue).concat();
    let step = |digest: u64, byte: &u8| (digest ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    format!("{:016x}\n", bytes.iter().fold(0xcbf2_9ce4_8422_2325, step))
}

/// The numbers of the ops in a batch: it decodes up to the end of each.
fn kinds(batch: &[u8]) -> BTreeSet<u8> {
    let ends = (0..batch.len()).filter(|len| rq_core::apply_absent(&batch[..*len], &mut Effects::new()).is_ok());
    ends.map(|end| batch[end]).collect()
}

#[test]
fn version_1_is_what_it_was() {
    let q = scenario();
    let queue = q.queue.as_ref().expect("a queue");
    let Golden { batches, snapshot, digest: kept } = golden();
    let how = "if that is meant, and version 1 is not released: RQ_UPDATE=1 cargo test -p rq-core --test golden";

    let mut applied: Option<Queue> = None;
    for batch in batches {
        let mut effects = Effects::new();
        match &mut applied {
            Some(queue) => drop(rq_core::apply(queue, batch, &mut effects).expect("it decodes")),
            None => applied = rq_core::apply_absent(batch, &mut effects).expect("it decodes").1,
        }
        assert_eq!(effects.misfits(), 0, "an op does not fit any more");
    }
    let (applied, loaded) = (applied.expect("a queue"), load(snapshot).expect("it loads"));
    for (what, queue) in [("the batches", &applied), ("the snapshot", &loaded)] {
        rq_core::check(queue).unwrap();
        assert!(digest(queue) == *kept, "{what} have become another queue; {how}");
    }
    assert!(chunks(&loaded) == *snapshot, "a queue is saved in another way; {how}");
    assert!(q.batches == *batches, "the scenario is told in other batches; {how}");
    assert!(chunks(queue) == *snapshot, "the scenario ends otherwise; {how}");
}

#[test]
fn every_kind_of_op_is_kept() {
    let kept: BTreeSet<u8> = [&golden().batches[..], &golden().snapshot[..]].concat().iter().flat_map(|batch| kinds(batch)).collect();
    let missing: Vec<u8> = (1..=KINDS).filter(|kind| !kept.contains(kind)).collect();
    assert!(missing.is_empty(), "no golden file has the ops {missing:?}");
    // Whoever adds an op must come here and add it to the scenario.
    let header = golden().batches[0][..7].to_vec();
    for zeros in 0..40 {
        let batch = [&header[..], &[KINDS + 1], &[0; 40][..zeros]].concat();
        assert!(rq_core::apply_absent(&batch, &mut Effects::new()).is_err(), "there is an op {}: add it to the scenario", KINDS + 1);
    }
}

#[allow(clippy::disallowed_methods, reason = "not of the core, but of who runs its tests")]
fn update() -> bool {
    std::env::var_os("RQ_UPDATE").is_some()
}
