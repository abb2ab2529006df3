//! Producers and workers at one queue of a cluster, and a ledger of what was sent and replied.
//!
//! Each stored job is finished, once, and nobody has it while somebody else's lease lasts. What
//! was on its way when a connection was lost is in doubt: it may have been done.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::client::{jobs, patience, Job};
use super::cluster::Cluster;
use super::reply::Reply;
use super::roamer::Roamer;

const PRODUCERS: u64 = 2;
const WORKERS: u64 = 4;
/// Jobs with so short a lease are left alone when they are first delivered, and must come again.
const SHORT_MS: i64 = 300;
/// How long all others last: where a lease may get lost with its server, that must come to an end.
pub const LONG_MS: i64 = 10_000;

/// See the module.
pub struct Traffic {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    key: String,
    /// Whether connections may be lost. Then all that counts is safe on a replica first.
    lossy: bool,
    /// No more jobs are pushed.
    closing: AtomicBool,
    ledger: Mutex<Ledger>,
}

#[derive(Default)]
struct Ledger {
    jobs: HashMap<String, Facts>,
    finished: u64,
    unfinished: u64,
    deliveries: u64,
    findings: Vec<String>,
}

#[derive(Default, Debug)]
struct Facts {
    stored: bool,
    /// Something about it may have been done or lost.
    doubtful: bool,
    finished: bool,
    /// The token of the last lease, and until when it lasts, Unix ms; 0: it was ended.
    lease: Option<(i64, i64)>,
}

impl Ledger {
    fn job(&mut self, payload: &str) -> &mut Facts {
        self.jobs.entry(payload.to_owned()).or_default()
    }

    fn doubt(&mut self, payload: &str) {
        self.job(payload).doubtful = true;
    }

    fn stored(&mut self, payload: &str) {
        let facts = self.job(payload);
        facts.stored = true;
        if !facts.finished {
            self.unfinished += 1;
        }
    }

    /// Two workers may tell of their leases in another order than they got them.
    fn delivered(&mut self, job: &Job) {
        self.deliveries += 1;
        let payload = job.text();
        let granted = job.token / 1000;
        let until = granted + job.lease_ms;
        let facts = self.job(&payload);
        let wrong = match facts.lease {
            _ if facts.doubtful => false,
            Some((token, _)) if token > job.token => token / 1000 + 2 < until,
            Some((token, _)) if token == job.token => true,
            Some((_, other)) => facts.finished || granted + 2 < other,
            None => facts.finished,
        };
        let before = format!("{facts:?}");
        if facts.lease.is_none_or(|(token, _)| token < job.token) {
            facts.lease = Some((job.token, until));
        }
        if wrong {
            self.findings.push(format!("{payload} {job} at {granted}: given out, and it was {before}"));
        }
    }

    /// Its worker is about to end this lease; whether that was over anyway.
    fn ending(&mut self, payload: &str, job: &Job) -> bool {
        match &mut self.job(payload).lease {
            Some((token, until)) if *token == job.token => {
                let over = now() > *until;
                *until = 0;
                over
            }
            _ => true,
        }
    }

    fn finish(&mut self, payload: &str) {
        let facts = self.job(payload);
        let (again, doubtful, stored) = (facts.finished, facts.doubtful, facts.stored);
        facts.finished = true;
        if again && !doubtful {
            self.findings.push(format!("{payload}: finished twice"));
        }
        if !again {
            self.finished += 1;
            self.unfinished -= u64::from(stored);
        }
    }
}

impl Traffic {
    /// Begins. In a `lossy` cluster servers may die.
    pub fn start(cluster: &Cluster, key: &str, lossy: bool) -> Traffic {
        let shared = Arc::new(Shared {
            key: key.to_owned(),
            lossy,
            closing: AtomicBool::new(false),
            ledger: Mutex::default(),
        });
        let spawn = |n: u64, run: fn(&Shared, u64, Roamer)| {
            let (shared, client) = (Arc::clone(&shared), cluster.client());
            std::thread::spawn(move || run(&shared, n, client))
        };
        let producers = (0..PRODUCERS).map(|n| spawn(n, produce));
        let workers = (0..WORKERS).map(|n| spawn(n, work));
        let threads = producers.chain(workers).collect();
        Traffic { shared, threads }
    }

    /// How many jobs were finished so far.
    pub fn finished(&self) -> u64 {
        self.shared.ledger().finished
    }

    /// Waits until so many more jobs are finished.
    #[track_caller]
    pub fn goes_on(&self) {
        let enough = self.finished() + 100;
        super::client::wait_until("the traffic's going on", || self.finished() >= enough);
    }

    /// Lets the workers finish all that was pushed, and looks at the ledger. (pushed, deliveries)
    #[track_caller]
    pub fn end(mut self) -> (u64, u64) {
        self.shared.closing.store(true, SeqCst);
        for thread in self.threads.drain(..) {
            thread.join().expect("a client of the traffic");
        }
        let ledger = self.shared.ledger();
        let left: Vec<_> = ledger.jobs.iter().filter(|(_, job)| job.stored && !job.finished).take(10).collect();
        assert!(left.is_empty(), "{} jobs were stored and not finished: {left:?}", ledger.unfinished);
        assert!(ledger.findings.is_empty(), "{} findings: {:#?}", ledger.findings.len(), &ledger.findings[..ledger.findings.len().min(10)]);
        let stored = ledger.jobs.values().filter(|job| job.stored).count();
        (stored as u64, ledger.deliveries)
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.shared.closing.store(true, SeqCst);
    }
}

impl Shared {
    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().expect("the ledger")
    }

    /// Asks for something about these jobs. None: they are in doubt.
    fn ask(&self, client: &mut Roamer, line: &str, payloads: &[String]) -> Option<Reply> {
        let mut answer = client.ask(line);
        if let (Ok(reply), true) = (&answer, self.lossy) {
            // What only the primary has is lost with it.
            if !reply.is_error() && !reply.is_null() && !client.is_safe() {
                answer = Err(std::io::ErrorKind::ConnectionAborted.into());
            }
        }
        let mut ledger = self.ledger();
        match answer {
            Ok(Reply::Error(text)) => ledger.findings.push(format!("{line}: {text}")),
            Ok(reply) => return Some(reply),
            Err(error) => {
                payloads.iter().for_each(|payload| ledger.doubt(payload));
                if !self.lossy {
                    ledger.findings.push(format!("{line}: the connection was lost: {error}"));
                }
            }
        }
        None
    }
}

fn produce(shared: &Shared, me: u64, mut client: Roamer) {
    for n in 0.. {
        if shared.closing.load(SeqCst) {
            return;
        }
        let many = if n % 10 == 0 { 10 } else { 1 };
        let payloads: Vec<String> = (0..many).map(|i| format!("p{me}.{n}.{i}")).collect();
        let options = match n % 8 {
            1 | 4 => format!("DELAY {}", n % 300),
            3 => format!("LEASE {SHORT_MS}"),
            6 => format!("PRIORITY {}", n % 5),
            _ => String::new(),
        };
        let line = format!("RQ.MPUSH {} {many} {} {options}", shared.key, payloads.join(" "));
        if shared.ask(&mut client, &line, &payloads).is_some() {
            let mut ledger = shared.ledger();
            payloads.iter().for_each(|payload| ledger.stored(payload));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn work(shared: &Shared, me: u64, mut client: Roamer) {
    let mut deadline = Instant::now() + patience();
    let lease = format!("RQ.LEASE {} w{me} COUNT 2 BLOCK 100 LEASE {LONG_MS}", shared.key);
    loop {
        if !shared.closing.load(SeqCst) {
            deadline = Instant::now() + patience();
        } else if shared.ledger().unfinished == 0 || Instant::now() > deadline {
            return;
        }
        // A lease whose reply was lost is nobody's: its jobs are all those that were not finished.
        let reply = match client.ask(&lease) {
            Ok(reply) if reply.is_null() => continue,
            Ok(reply) if !reply.is_error() && (!shared.lossy || client.is_safe()) => reply,
            Ok(Reply::Error(text)) => {
                shared.ledger().findings.push(format!("{lease}: {text}"));
                continue;
            }
            Err(_) | Ok(_) => {
                let mut ledger = shared.ledger();
                if !shared.lossy {
                    ledger.findings.push(format!("{lease}: the connection was lost"));
                }
                ledger.jobs.values_mut().filter(|job| !job.finished).for_each(|job| job.doubtful = true);
                continue;
            }
        };
        for job in jobs(&reply) {
            shared.ledger().delivered(&job);
            do_job(shared, &mut client, &job);
        }
    }
}

fn now() -> i64 {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock past 1970").as_millis();
    i64::try_from(wall).expect("a clock before the year 292 million")
}

fn do_job(shared: &Shared, client: &mut Roamer, job: &Job) {
    let (key, payload) = (&shared.key, job.text());
    if job.lease_ms == SHORT_MS {
        // The first time it hangs. Then it has time enough, unless it was too late for that.
        let line = format!("RQ.EXTEND {key} {job} LEASE {LONG_MS}");
        if job.deliveries == 1 || shared.ask(client, &line, std::slice::from_ref(&payload)).is_none_or(|codes| codes.ints() != [1]) {
            return;
        }
        // Before anything else of this job can be told, since it is this worker's.
        shared.ledger().job(&payload).lease = Some((job.token, now() + LONG_MS));
    }
    let kind = payload.bytes().fold(0_u64, |sum, byte| sum + u64::from(byte)) % 8;
    let (verb, options) = match (kind, job.deliveries) {
        (0, 1) => ("NACK", " DELAY 30"),
        (1, 1) => ("NACK", " DELAY 0"),
        (2, _) if job.token % 2 == 0 => ("RELEASE", ""),
        _ => ("ACK", ""),
    };
    let over = shared.ledger().ending(&payload, job);
    let line = format!("RQ.{verb} {key} {job}{options}");
    let answer = shared.ask(client, &line, std::slice::from_ref(&payload));
    let mut ledger = shared.ledger();
    let doubtful = ledger.job(&payload).doubtful || over;
    let Some(codes) = answer else {
        // Perhaps it is finished, and then it will not come again.
        if verb == "ACK" && doubtful {
            ledger.finish(&payload);
        }
        return;
    };
    match codes.ints()[..] {
        [1] if verb == "ACK" => ledger.finish(&payload),
        [1] => {}
        // It was done before, or somebody else has it by now.
        [0 | -1] if doubtful => {}
        ref other => ledger.findings.push(format!("{line}: {other:?}")),
    }
}
