//! RESTORE of what nobody should trust: damaged and crafted values, with a checksum that fits.
//! Either `Bad data format` and no key, or a queue that is sound. Case B50.

use crate::harness::{stock, Reply, Server};

/// Uncompressed, so that what is damaged is the module's own format.
const PLAIN: &[&str] = &["rdbcompression no"];

/// The checksum at the end of a DUMP: CRC-64 of Jones, reflected.
fn crc64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |crc, byte| {
        (0..8).fold(crc ^ u64::from(*byte), |crc, _| (crc >> 1) ^ if crc & 1 == 1 { 0x95ac_9329_ac4b_c9b5 } else { 0 })
    })
}

/// A value as DUMP gives it: the payload, the format's version, the checksum.
struct Dump {
    payload: Vec<u8>,
    version: Vec<u8>,
}

impl Dump {
    #[track_caller]
    fn of(server: &Server, key: &str) -> Dump {
        let all = server.run(format!("DUMP {key}")).bytes().to_vec();
        let (rest, checksum) = all.split_at(all.len() - 8);
        assert_eq!(checksum, crc64(rest).to_le_bytes(), "the checksum as this test computes it");
        let (payload, version) = rest.split_at(rest.len() - 2);
        Dump { payload: payload.to_vec(), version: version.to_vec() }
    }

    /// RESTORE of a changed payload.
    #[track_caller]
    fn restore(&self, server: &Server, payload: &[u8]) -> Reply {
        let mut all = [payload, self.version.as_slice()].concat();
        all.extend(crc64(&all).to_le_bytes());
        server.cmd(&[b"RESTORE".as_slice(), b"victim", b"0", &all])
    }
}

/// The reply to a RESTORE, and what it left behind. True: it was taken.
#[track_caller]
fn judge(server: &Server, reply: &Reply, what: &str) -> bool {
    if let Reply::Error(text) = reply {
        assert!(text.contains("Bad data format"), "{what}: {text}");
        assert_eq!(server.run("EXISTS victim"), 0, "{what}: something was left");
        return false;
    }
    // It may be another queue by now (a flipped bit of a payload), or another type; if it is a
    // queue, it is a sound one: it can be stored again and worked with to its end.
    if server.try_run("RQ.LEN victim").is_error() {
        server.run("DEL victim");
        return true;
    }
    // In one transaction: the timer may have something to do for it in between.
    server.run("MULTI");
    server.run("DEBUG DIGEST-VALUE victim");
    server.run("DUMP victim");
    let both = server.run("EXEC");
    let digest = both.array()[0].array()[0].text().to_owned();
    let again = both.array()[1].bytes().to_vec();
    let live = server.run("RQ.LEN victim").int();
    assert!((0..=10).contains(&live), "{what}: {live} live jobs");
    server.all_jobs("victim");
    server.run("RQ.INFO victim");
    server.run("RQ.REAP victim CONSUMER worker");
    server.run("RQ.REDRIVE victim COUNT 10");
    server.run("RQ.LEASE victim w COUNT 10");
    // A flipped bit can be a MAXLIVE or a pause.
    server.try_run("RQ.PUSH victim x");
    server.run("RQ.RELEASE victim CONSUMER w");
    for state in ["READY", "DELAYED", "DEAD"] {
        server.run(format!("RQ.PURGE victim {state}"));
    }
    server.run("MULTI");
    server.cmd(&[b"RESTORE".as_slice(), b"victim", b"0", &again, b"REPLACE"]);
    server.run("DEBUG DIGEST-VALUE victim");
    let both = server.run("EXEC");
    assert_eq!(both.array()[0], "OK", "{what}");
    assert_eq!(both.array()[1].array()[0].text(), digest, "{what}: not the same again");
    server.run("DEL victim");
    true
}

#[test]
fn b50_every_flipped_bit() {
    let server = Server::with(PLAIN);
    stock(&server, "q");
    let dump = Dump::of(&server, "q");
    assert!(judge(&server, &dump.restore(&server, &dump.payload), "unchanged"));
    let mut refused = 0;
    for at in 0..dump.payload.len() {
        for bit in 0..8 {
            let mut payload = dump.payload.clone();
            payload[at] ^= 1 << bit;
            let reply = dump.restore(&server, &payload);
            refused += usize::from(!judge(&server, &reply, &format!("byte {at}, bit {bit}")));
        }
    }
    assert!(refused > dump.payload.len(), "only {refused} were refused");
    assert_eq!(server.run("PING"), "PONG");
}

#[test]
fn b50_every_truncation_and_what_follows_the_end() {
    let server = Server::with(PLAIN);
    stock(&server, "q");
    let dump = Dump::of(&server, "q");
    for len in 1..dump.payload.len() {
        let reply = dump.restore(&server, &dump.payload[..len]);
        assert!(!judge(&server, &reply, &format!("{len} bytes")), "{len} bytes were taken");
    }
    // Doubled, and with the middle left out.
    let half = dump.payload.len() / 2;
    for cut in 1..half {
        let payload = [&dump.payload[..half], &dump.payload[half + cut..]].concat();
        judge(&server, &dump.restore(&server, &payload), &format!("{cut} bytes left out"));
    }
}

#[test]
fn b50_extreme_numbers_in_the_place_of_any_byte() {
    let server = Server::with(PLAIN);
    stock(&server, "q");
    let dump = Dump::of(&server, "q");
    let memory = || server.server_number("memory", "used_memory");
    let before = memory();
    let mut refused = 0;
    for at in 1..dump.payload.len() {
        for value in [0x00, 0x01, 0x7f, 0x80, 0x81, 0xfe, 0xff] {
            let mut payload = dump.payload.clone();
            payload[at..].iter_mut().take(if value == 0xff { 8 } else { 1 }).for_each(|byte| *byte = value);
            let reply = dump.restore(&server, &payload);
            refused += usize::from(!judge(&server, &reply, &format!("byte {at} = {value}")));
        }
    }
    assert!(refused > dump.payload.len(), "only {refused} were refused");
    assert!(memory() < before + 20_000_000, "{before} bytes before, {} now", memory());
}

#[test]
fn b50_a_value_of_a_future_version_is_refused() {
    // The version of the module's own format stands in the type's id, which the payload begins
    // with: a 1-byte opcode, then 64 bits, of which the last 10 are the version.
    let server = Server::with(PLAIN);
    stock(&server, "q");
    let dump = Dump::of(&server, "q");
    assert_eq!(dump.payload[1], 0x81, "a 64-bit number follows");
    let id = u64::from_be_bytes(dump.payload[2..10].try_into().expect("8 bytes"));
    for version in [id & 1023 | 1023, (id & 1023) + 1] {
        let mut payload = dump.payload.clone();
        payload[2..10].copy_from_slice(&(id & !1023 | version).to_be_bytes());
        let reply = dump.restore(&server, &payload);
        assert!(!judge(&server, &reply, "a later version"));
    }
}
