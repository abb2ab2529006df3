//! No command makes a batch of ops, or a job, that cannot be read again.

#![allow(clippy::panic, clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "tests may")]

mod support;

use support::{at, int, items, string, Driver};

/// Payload and result of a finished job are saved together.
#[test]
fn a_result_must_fit_beside_its_payload() {
    let mut q = Driver::new();
    q.cmd("RQ.CREATE KEEPDONE 10");
    let payload = vec![b'p'; 10 << 20];
    for _ in 0..2 {
        q.run("RQ.PUSH", &[&payload]).unwrap();
    }
    let job = q.cmd("RQ.LEASE w");
    let (id, token) = (string(at(at(&job, 0), 0)), int(at(at(&job, 0), 1)).to_string());
    let ack = |q: &mut Driver, result: &[u8]| q.run("RQ.ACK", &[id.as_bytes(), token.as_bytes(), b"RESULT", result]);
    let refused = ack(&mut q, &payload).unwrap_err().to_string();
    assert!(refused.starts_with("TOOBIG the result with its payload is 20971520 bytes long"), "{refused}");
    assert_eq!(int(at(&ack(&mut q, &payload[..5 << 20]).unwrap(), 0)), 1);
    q.reload();
    // Without KEEPDONE nothing is kept, so nothing has to fit.
    q.cmd("RQ.ALTER KEEPDONE 0");
    let job = q.cmd("RQ.LEASE w");
    let (id, token) = (string(at(at(&job, 0), 0)), int(at(at(&job, 0), 1)).to_string());
    let done = q.run("RQ.ACK", &[id.as_bytes(), token.as_bytes(), b"RESULT", &payload]).unwrap();
    assert_eq!(items(&done).len(), 1);
}

/// Many jobs with long keys, and everything else that can be said of them.
#[test]
fn what_one_push_says_fits_into_a_batch() {
    let mut q = Driver::new();
    let push = |q: &mut Driver, size: usize, key: usize| {
        let payloads: Vec<Vec<u8>> = (0..10_000u32).map(|n| [n.to_be_bytes().to_vec(), vec![b'p'; size]].concat()).collect();
        let keys: Vec<Vec<u8>> = (0..10_000).map(|n| format!("{size}-{n:0>key$}").into_bytes()).collect();
        let group = vec![b'g'; 1_024];
        let mut args: Vec<&[u8]> = vec![b"10000"];
        args.extend(payloads.iter().map(|payload| &payload[..]));
        let options: [&[u8]; 13] = [b"GROUP", &group, b"DELAY", b"315360000000", b"PRIORITY", b"-128", b"LEASE", b"31536000000", b"TTL",
            b"315360000000", b"MAXDELIVERIES", b"1000000000", b"DEDUPS"];
        args.extend(options);
        args.extend(keys.iter().map(|key| &key[..]));
        args.extend([&b"WINDOW"[..], b"315360000000"]);
        q.run("RQ.MPUSH", &args)
    };
    let refused = push(&mut q, 1_590, 1_000).unwrap_err().to_string();
    assert!(refused.starts_with("TOOBIG the payloads with their keys is "), "{refused}");
    for (size, key) in [(600, 1_000), (1_500, 20), (10, 1_000)] {
        // The driver feeds each batch to a replica, and compares.
        assert_eq!(items(&push(&mut q, size, key).unwrap()).len(), 10_000);
    }
}
