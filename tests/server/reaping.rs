//! Workers and reapers that meet: what is finished stays finished. Case B16.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;
use std::time::Instant;

use crate::harness::{jobs, patience, Client, Scene, Server};

const JOBS: usize = 2_000;
/// Threads of workers, each with several connections.
const THREADS: usize = 5;
const WORKERS: usize = 10;

#[test]
fn b16_what_is_finished_stays_finished_under_a_storm_of_reaping() {
    let server = Server::with(&["rq.expiry-grace 0"]);
    server.run("RQ.CREATE q MAXEXPIRIES 0 MAXDELIVERIES 0");
    for _ in 0..JOBS / 100 {
        server.run(format!("RQ.MPUSH q 100{}", " x".repeat(100)));
    }
    let (finished, leases) = (Mutex::new(BTreeSet::new()), AtomicUsize::new(0));
    let deadline = Instant::now() + patience();
    let goes_on = || finished.lock().is_ok_and(|finished| finished.len() < JOBS) && Instant::now() < deadline;
    std::thread::scope(|scope| {
        for _ in 0..5 {
            let reaper = server.client();
            scope.spawn(move || {
                while goes_on() {
                    reaper.run("RQ.REAP q COUNT 100");
                }
            });
        }
        for thread in 0..THREADS {
            let workers: Vec<Client> = (0..WORKERS).map(|_| server.client()).collect();
            let (finished, leases) = (&finished, &leases);
            scope.spawn(move || {
                for round in 0.. {
                    if !goes_on() {
                        break;
                    }
                    // First hardly time enough, then enough on any machine.
                    let lease = if round < 50 { 20 } else { 7_200_000 };
                    for (n, worker) in workers.iter().enumerate() {
                        worker.send_line(format!("RQ.LEASE q w{thread}.{n} LEASE {lease}"));
                    }
                    let leased: Vec<_> = workers.iter().map(|worker| jobs(&worker.reply())).collect();
                    for (worker, jobs) in workers.iter().zip(leased) {
                        for job in jobs {
                            leases.fetch_add(1, Ordering::Relaxed);
                            if worker.codes(format!("RQ.ACK q {job}")) == [1] {
                                let first = finished.lock().expect("the books").insert(job.id.clone());
                                assert!(first, "{} was finished twice", job.id);
                            }
                        }
                    }
                }
            });
        }
    });
    assert_eq!(finished.lock().expect("the books").len(), JOBS);
    let info = server.info("q");
    assert_eq!(info.ints(["acked-total", "length", "dead", "done"]), [JOBS as i64, 0, 0, 0]);
    assert_eq!(info.int("delivered-total"), leases.load(Ordering::Relaxed) as i64);
    assert!(info.int("delivered-total") <= info.int("acked-total") + info.int("expired-total"));
}

#[test]
fn b16_ack_and_expiry_in_one_turn_of_the_server() {
    let mut s = Scene::new();
    for reap_first in [true, false] {
        let id = s.push("q x");
        let job = s.lease_one("q w");
        let mut lines = [format!("RQ.REAP q ID {id}\r\n"), format!("RQ.ACK q {job}\r\n")];
        if !reap_first {
            lines.reverse();
        }
        s.send_bytes(lines.concat().as_bytes());
        let (first, second) = (s.reply(), s.reply());
        let (reaped, acked) = if reap_first { (first, second) } else { (second, first) };
        assert_eq!(acked.ints(), [1], "late, but nobody else had it");
        assert_eq!(reaped.array().len(), usize::from(reap_first));
        assert_eq!(s.state("q", &id), "gone");
        assert!(s.lease("q w").is_empty());
    }
    // And by time: the acknowledgement is what notices that it is late.
    let id = s.push("q x");
    let job = s.lease_one("q w LEASE 3600000");
    s.advance(3_700_000);
    assert_eq!(s.codes(format!("RQ.ACK q {job}")), [1]);
    assert_eq!(s.state("q", &id), "gone");
    assert_eq!(s.info("q").ints(["acked-total", "length", "dead"]), [3, 0, 0]);
    s.verify();
}
