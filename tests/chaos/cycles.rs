//! Memory after many cycles of everything: what is pushed and finished leaves nothing.

use std::time::{Duration, Instant};

use crate::harness::{jobs, wait_until, Client, Server};
use crate::world::Chance;

/// Jobs in a cycle.
const JOBS: usize = 500;
/// What the server's own buffers may move by. A leak of one byte for each job would be more.
const NOISE: u64 = 40_000;

/// Waiters that are served, that vanish and that end by time; leases that expire; values that are
/// saved, loaded, copied and thrown away.
fn around(server: &Server, client: &Client) {
    let waiters: Vec<Client> = (0..10).map(|_| server.client()).collect();
    for waiter in &waiters {
        waiter.send_line("RQ.LEASE waited w BLOCK 0");
    }
    server.wait_blocked(10);
    client.run(format!("RQ.MPUSH waited 5{}", " x".repeat(5)));
    for waiter in &waiters[..5] {
        let job = jobs(&waiter.reply()).remove(0);
        waiter.codes(format!("RQ.ACK waited {job}"));
    }
    drop(waiters);
    server.wait_blocked(0);
    assert!(client.run("RQ.LEASE waited w BLOCK 1").is_null());
    client.run(format!("RQ.MPUSH waited 20{}", " x".repeat(20)));
    client.lease("waited w COUNT 20 LEASE 1");
    let dump = client.run("DUMP waited").bytes().to_vec();
    for key in ["restored", "damaged"] {
        let mut dump = dump.clone();
        if key == "damaged" {
            dump.truncate(dump.len() / 2);
        }
        client.cmd(&[b"RESTORE".as_slice(), key.as_bytes(), b"0", &dump]);
    }
    client.run("COPY waited copied");
    client.run("UNLINK restored");
    client.run("DEL copied");
    wait_until("the expiry", || client.run("RQ.LEN waited LEASED") == 0);
    client.run("RQ.PURGE waited READY COUNT 100");
    client.run("RQ.PURGE waited DEAD COUNT 100");
}

/// One cycle: every way in, every way out; nothing is left. How many jobs there were.
fn cycle(client: &Client, chance: &mut Chance, n: usize) -> usize {
    let before = client.info("q").int("pushed-total") + client.info("groups").int("pushed-total");
    for queue in ["q", "groups"] {
        let payload = "p".repeat(1 + usize::try_from(chance.below(300)).expect("small"));
        let payloads = vec![payload.as_str(); JOBS].join(" ");
        client.run(format!("RQ.MPUSH {queue} {JOBS} {payloads} GROUP g{n}"));
        for i in 0..40 {
            client.run(format!("RQ.PUSH {queue} {payload} GROUP g{} PRIORITY {}", i % 7, i % 3));
            client.run(format!("RQ.PUSH {queue} {payload} DEDUP once{n}.{i} DELAY 1"));
            client.run(format!("RQ.PUSH {queue} {payload} DEDUP once{n}.{i} REPLACE KEEPLAST"));
            client.run(format!("RQ.PUSH {queue} {payload} DEDUP window{n}.{i} WINDOW 1"));
            client.run(format!("RQ.PUSH {queue} {payload} TTL 3600000 DELAY 3600000"));
        }
        client.run(format!("RQ.PURGE {queue} DELAYED COUNT 10000"));
        let mut turn = 0;
        loop {
            let jobs = client.lease(format!("{queue} w{n} COUNT 50"));
            if jobs.is_empty() {
                client.run(format!("RQ.PURGE {queue} DELAYED COUNT 10000"));
                client.run(format!("RQ.REDRIVE {queue} COUNT 10000"));
                if client.run(format!("RQ.LEN {queue}")) == 0 {
                    break;
                }
                continue;
            }
            for job in jobs {
                turn += 1;
                let line = match turn % 9 {
                    0 => format!("RQ.NACK {queue} {job} ERROR flaky DELAY 0"),
                    1 => format!("RQ.RELEASE {queue} {job}"),
                    2 => format!("RQ.NACK {queue} {job} DEAD ERROR boom"),
                    3 => format!("RQ.REAP {queue} ID {}", job.id),
                    4 => format!("RQ.DEL {queue} {}", job.id),
                    _ => format!("RQ.ACK {queue} {job} RESULT done"),
                };
                client.run(line);
            }
        }
    }
    let after = client.info("q").int("pushed-total") + client.info("groups").int("pushed-total");
    usize::try_from(after - before).expect("more than before")
}

pub fn run(time: Option<Duration>) {
    let server = Server::with(&["rq.expiry-grace 0"]);
    let client = server.client();
    client.run("RQ.CREATE q KEEPDONE 100");
    client.run("RQ.CREATE groups GROUPLIMIT 100 GROUPRATE 10000 1 CONCURRENCY 1000");
    let mut chance = Chance::new(7, 7);
    let start = Instant::now();
    let mut first = 0;
    let (mut cycles, mut pushed) = (0, 0);
    loop {
        pushed += cycle(&client, &mut chance, cycles);
        around(&server, &client);
        cycles += 1;
        client.run("RQ.TRIM q MAXLEN 0");
        // Windows and rates end by the timer.
        let mut used = u64::MAX;
        let calm = |used: &mut u64| {
            let now = server.server_number("memory", "used_memory");
            *used = now.min(*used);
            first == 0 || *used <= first + NOISE
        };
        match cycles {
            // What is made once: tables, buffers, the names of statistics.
            1..10 => {}
            10 => {
                wait_until("nothing due", || client.info("q").get("next-due-at").is_none());
                calm(&mut used);
                first = used;
            }
            _ => wait_until(&format!("used_memory {first} after 10 cycles, more than that after {cycles}"), || calm(&mut used)),
        }
        let enough = time.map_or(cycles >= 40, |time| cycles >= 40 && start.elapsed() >= time);
        if enough {
            break;
        }
    }
    println!("{cycles} cycles of {pushed} jobs, used_memory {first} after 10 of them, {} at the end", server.server_number("memory", "used_memory"));
}
