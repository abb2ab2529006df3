//! Very many waiters, and waiters that are treated badly at random. Case B56.

use std::collections::BTreeSet;

use crate::harness::{ids, jobs, Client, Reply, Server};

/// How many connections this process may hold, up to `wanted`: the limit is raised if it can be.
fn connections(wanted: u64) -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls get a valid pointer to a `rlimit`.
    let raised = unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit);
        limit.rlim_cur = limit.rlim_max.min(65_536);
        libc::setrlimit(libc::RLIMIT_NOFILE, &limit)
    };
    assert_eq!(raised, 0, "setrlimit");
    wanted.min(limit.rlim_cur.saturating_sub(500))
}

#[test]
fn four_thousand_waiters_get_one_job_each() {
    let crowd = connections(4_000);
    let server = Server::with(&["maxclients 10000"]);
    let workers: Vec<Client> = (0..crowd)
        .map(|n| {
            let worker = server.client();
            worker.send_line(format!("RQ.LEASE q w{n} BLOCK 0 LEASE 7200000"));
            worker
        })
        .collect();
    server.wait_blocked(crowd);
    let payloads = vec!["x"; 100].join(" ");
    let mut pushed = Vec::new();
    // One by one, in batches, in a transaction.
    while (pushed.len() as u64) < crowd / 2 {
        pushed.push(server.push("q x"));
    }
    while (pushed.len() as u64) + 200 <= crowd {
        pushed.extend(server.run(format!("RQ.MPUSH q 100 {payloads}")).texts());
        pushed.extend(server.multi(&vec!["RQ.PUSH q x"; 100]).iter().map(|id| id.text().to_owned()));
    }
    while (pushed.len() as u64) < crowd {
        pushed.push(server.push("q x"));
    }
    let mut got = BTreeSet::new();
    for worker in &workers {
        let jobs = jobs(&worker.reply());
        assert_eq!(jobs.len(), 1);
        assert_eq!(jobs[0].deliveries, 1);
        assert!(got.insert(jobs[0].id.clone()), "{} was given twice", jobs[0].id);
    }
    assert_eq!(got, pushed.into_iter().collect());
    server.wait_blocked(0);
    assert_eq!(server.info("q").ints(["leased", "ready", "delivered-total"]), [crowd as i64, 0, crowd as i64]);
}

#[test]
fn waiters_that_vanish_leave_nothing() {
    let server = Server::start();
    let crowd = connections(1_000);
    for _ in 0..3 {
        let workers: Vec<Client> = (0..crowd).map(|_| server.client()).collect();
        workers.iter().for_each(|worker| worker.send_line("RQ.LEASE q w BLOCK 0"));
        server.wait_blocked(crowd);
        drop(workers);
        server.wait_blocked(0);
    }
    server.push("q x");
    assert_eq!(server.lease_one("q w").deliveries, 1);
}

/// A worker in the turmoil.
struct Worker {
    client: Client,
    id: i64,
    name: String,
    waits: bool,
}

impl Worker {
    fn new(server: &Server, n: usize) -> Worker {
        let client = server.client();
        let id = client.run("CLIENT ID").int();
        Worker { client, id, name: format!("worker{n}"), waits: false }
    }
}

#[test]
fn b56_turmoil() {
    let server = Server::with(&["enable-module-command local"]);
    let in_db5 = server.client();
    in_db5.run("SELECT 5");
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = move |n: usize| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        usize::try_from(seed >> 11).expect("64 bits") % n
    };
    let mut workers: Vec<Worker> = (0..100).map(|n| Worker::new(&server, n)).collect();
    let (mut started, mut received, mut killed) = (workers.len(), BTreeSet::new(), BTreeSet::new());
    for step in 0..4_000 {
        let n = random(workers.len());
        let key = format!("q{}", random(3));
        let admin = if random(3) == 0 { &in_db5 } else { &*server as &Client };
        let worker = &mut workers[n];
        match random(20) {
            0..8 if !worker.waits => {
                if random(4) == 0 {
                    worker.client.run(format!("SELECT {}", [0, 5][random(2)]));
                }
                let block = [0, 1, 10_000_000][random(3)];
                worker.client.send_line(format!("RQ.LEASE {key} {} BLOCK {block} LEASE 7200000", worker.name));
                worker.waits = true;
            }
            0..8 => {
                if worker.client.has_reply() {
                    received.extend(ids(&take(&worker.client)));
                    worker.waits = false;
                }
            }
            8..11 => _ = admin.push(format!("{key} x{step}")),
            11 => _ = admin.multi(&[format!("RQ.PUSH {key} x"), format!("RENAME {key} q0"), format!("RQ.PUSH {key} x")]),
            12 => _ = admin.cmd(&["EVAL", "return redis.call('RQ.PUSH', KEYS[1], 'x')", "1", &key]),
            13 => _ = admin.run(format!("CLIENT UNBLOCK {} {}", worker.id, ["TIMEOUT", "ERROR"][random(2)])),
            14 => {
                // In one turn: what wakes it and what ends its wait.
                let end = [format!("CLIENT UNBLOCK {} ERROR", worker.id), format!("CLIENT UNBLOCK {}", worker.id)];
                admin.send_bytes(format!("RQ.PUSH {key} x\r\n{}\r\n", end[random(2)]).as_bytes());
                assert!(!admin.reply().is_error() && !admin.reply().is_error());
            }
            15 => {
                admin.send_bytes(format!("RQ.PUSH {key} x\r\nCLIENT KILL ID {}\r\n", worker.id).as_bytes());
                assert!(!admin.reply().is_error() && !admin.reply().is_error());
                killed.insert(worker.name.clone());
                workers[n] = Worker::new(&server, started);
                started += 1;
            }
            16 => _ = admin.run(format!("DEL {key}")),
            17 if step % 10 == 0 => _ = admin.run("FLUSHALL"),
            18 => _ = admin.run("SWAPDB 0 5"),
            19 if step % 10 == 0 => _ = admin.error("MODULE UNLOAD rq"),
            _ => _ = admin.try_run(format!("RENAME {key} q{}", random(3))),
        }
    }
    // Every wait has one end.
    for worker in &workers {
        server.run(format!("CLIENT UNBLOCK {}", worker.id));
    }
    for worker in workers.iter().filter(|worker| worker.waits) {
        received.extend(ids(&take(&worker.client)));
    }
    server.wait_blocked(0);
    for worker in &workers {
        assert_eq!(worker.client.run("PING"), "PONG", "no reply was left over");
    }
    // Who holds a job has heard of it, or is dead.
    for client in [&*server as &Client, &in_db5] {
        for key in ["q0", "q1", "q2"] {
            if client.run(format!("EXISTS {key}")) == 0 {
                continue;
            }
            let leased: Vec<_> = client.all_jobs(key).into_iter().filter(|job| job["state"] == "leased").collect();
            for job in leased {
                let (id, holder) = (job["id"].text(), job["consumer"].text());
                assert!(received.contains(id) || killed.contains(holder), "{id} was given to {holder}, who got nothing");
                assert!(job.int("deadline") > 0);
            }
        }
    }
}

/// The jobs of a reply that may also be null or UNBLOCKED.
fn take(client: &Client) -> Vec<crate::harness::Job> {
    match &client.reply() {
        Reply::Error(text) if text.starts_with("UNBLOCKED ") => Vec::new(),
        reply => jobs(reply),
    }
}
