//! What a job costs the server: RQ beside a reliable list and a stream, used by hand, in one run.
//!
//! Server CPU is what `INFO commandstats` counts (`usec`), summed over all commands of a round and
//! divided by its jobs; AOF bytes are what the file grew by. Rounds of all contenders take turns,
//! and medians are shown, because machines are shared and noisy: the ratios say more than the
//! figures. `make bench` runs it on several servers; RQ_SERVER chooses one.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

#[path = "../tests/server/harness/mod.rs"]
#[allow(dead_code, unused_imports, reason = "the tests use more of it")]
mod harness;

use std::fmt::Write as _;
use std::time::Instant;

use harness::{Client, Server};

/// Jobs of a round, and how many rounds.
const JOBS: usize = 4_000;
const ROUNDS: usize = 7;
/// Jobs of one call where calls are batched.
const BATCH: usize = 100;

/// One way to get a job from a producer to a worker and finish it.
struct Contender {
    name: &'static str,
    /// The one that it is compared with.
    against: &'static str,
    run: fn(&Client, &str),
}

const CONTENDERS: [Contender; 6] = [
    Contender { name: "list, one at a time", against: "", run: list },
    Contender { name: "stream, one at a time", against: "", run: stream },
    Contender { name: "RQ PUSH, LEASE, ACK", against: "stream, one at a time", run: rq },
    Contender { name: "RQ PUSH, ACKLEASE", against: "stream, one at a time", run: rq_acklease },
    Contender { name: "stream, 100 per call", against: "", run: stream_batch },
    Contender { name: "RQ, 100 per call", against: "stream, 100 per call", run: rq_batch },
];

fn list(c: &Client, payload: &str) {
    for n in 0..JOBS {
        c.cmd(&["LPUSH", "l:wait", payload]);
        c.cmd(&["LMOVE", "l:wait", "l:busy", "RIGHT", "LEFT"]);
        c.cmd(&["HSET", "l:leases", &n.to_string(), "1700000000000"]);
        c.cmd(&["LREM", "l:busy", "1", payload]);
        c.cmd(&["HDEL", "l:leases", &n.to_string()]);
    }
}

fn stream(c: &Client, payload: &str) {
    c.try_run("XGROUP CREATE s g $ MKSTREAM");
    for _ in 0..JOBS {
        c.cmd(&["XADD", "s", "*", "p", payload]);
        let reply = c.cmd(&["XREADGROUP", "GROUP", "g", "w", "COUNT", "1", "STREAMS", "s", ">"]);
        let id = reply.array()[0].array()[1].array()[0].array()[0].text().to_owned();
        c.cmd(&["XACK", "s", "g", &id]);
        c.cmd(&["XDEL", "s", &id]);
    }
}

fn stream_batch(c: &Client, payload: &str) {
    c.try_run("XGROUP CREATE s g $ MKSTREAM");
    for _ in 0..JOBS / BATCH {
        (0..BATCH).for_each(|_| c.send(&["XADD", "s", "*", "p", payload]));
        (0..BATCH).for_each(|_| drop(c.reply()));
        let reply = c.cmd(&["XREADGROUP", "GROUP", "g", "w", "COUNT", "100", "STREAMS", "s", ">"]);
        let entries = reply.array()[0].array()[1].array();
        let ids: Vec<&str> = entries.iter().map(|entry| entry.array()[0].text()).collect();
        c.cmd(&[&["XACK", "s", "g"], ids.as_slice()].concat());
        c.cmd(&[&["XDEL", "s"], ids.as_slice()].concat());
    }
}

fn rq(c: &Client, payload: &str) {
    for _ in 0..JOBS {
        c.cmd(&["RQ.PUSH", "q", payload]);
        let job = c.lease_one("q w");
        c.cmd(&["RQ.ACK", "q", &job.id, &job.token.to_string()]);
    }
}

fn rq_acklease(c: &Client, payload: &str) {
    c.cmd(&["RQ.PUSH", "q", payload]);
    let mut job = c.lease_one("q w");
    for _ in 0..JOBS {
        c.cmd(&["RQ.PUSH", "q", payload]);
        let reply = c.cmd(&["RQ.ACKLEASE", "q", &job.id, &job.token.to_string(), "w"]);
        job = harness::jobs(&reply.array()[1]).remove(0);
    }
    c.cmd(&["RQ.ACK", "q", &job.id, &job.token.to_string()]);
}

fn rq_batch(c: &Client, payload: &str) {
    for _ in 0..JOBS / BATCH {
        let payloads = [payload; BATCH];
        c.cmd(&[&["RQ.MPUSH", "q", "100"], payloads.as_slice()].concat());
        let jobs = c.lease("q w COUNT 100");
        let pairs: Vec<String> = jobs.iter().flat_map(|job| [job.id.clone(), job.token.to_string()]).collect();
        let pairs: Vec<&str> = pairs.iter().map(String::as_str).collect();
        c.cmd(&[&["RQ.ACK", "q"], pairs.as_slice()].concat());
    }
}

/// What one round cost per job.
#[derive(Clone, Copy)]
struct Cost {
    cpu_us: f64,
    main_thread_us: f64,
    aof_bytes: f64,
    wall_us: f64,
}

fn measure(server: &Server, contender: &Contender, payload: &str) -> Cost {
    server.run("CONFIG RESETSTAT");
    let aof_size = || server.server_info("persistence").get("aof_current_size").map_or(0.0, number);
    // User and system time of the main thread, in seconds.
    let cpu = || {
        let info = server.server_info("cpu");
        number(&info["used_cpu_user_main_thread"]) + number(&info["used_cpu_sys_main_thread"])
    };
    let (aof, main, began) = (aof_size(), cpu(), Instant::now());
    (contender.run)(&server.client(), payload);
    let wall = began.elapsed();
    let (aof, main) = (aof_size() - aof, cpu() - main);
    let mut usec = 0.0;
    for (name, value) in &server.server_info("commandstats").0 {
        let own = ["info", "config|resetstat", "config"].iter().any(|own| name == &format!("cmdstat_{own}"));
        if !own {
            let field = value.text().split(',').find_map(|part| part.strip_prefix("usec=")).expect("usec");
            usec += field.parse::<f64>().expect("a number");
        }
    }
    let per_job = |sum: f64| sum / JOBS as f64;
    Cost {
        cpu_us: per_job(usec),
        main_thread_us: per_job(main * 1e6),
        aof_bytes: per_job(aof),
        wall_us: per_job(wall.as_secs_f64() * 1e6),
    }
}

fn number(reply: &harness::Reply) -> f64 {
    reply.text().parse().expect("a number")
}

fn median(costs: &[Cost], of: impl Fn(&Cost) -> f64) -> f64 {
    let mut values: Vec<f64> = costs.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// All contenders in turn on one server.
fn compare(title: &str, config: &[&str], payload: &str) -> serde_json::Value {
    let server = Server::with(config);
    let mut costs: Vec<Vec<Cost>> = vec![Vec::new(); CONTENDERS.len()];
    for round in 0..=ROUNDS {
        for (contender, costs) in CONTENDERS.iter().zip(&mut costs) {
            let cost = measure(&server, contender, payload);
            // The first round warms up.
            if round > 0 {
                costs.push(cost);
            }
        }
    }
    let cpu_of = |name: &str| {
        let at = CONTENDERS.iter().position(|contender| contender.name == name)?;
        Some((median(&costs[at], |cost| cost.cpu_us), median(&costs[at], |cost| cost.aof_bytes)))
    };
    let ratio = |own: f64, base: Option<f64>| base.filter(|base| *base > 0.0).map_or(String::new(), |base| format!("{:.2}", own / base));
    println!("\n{title}, {} bytes per payload, medians of {ROUNDS} rounds of {JOBS} jobs", payload.len());
    println!("{:<24}{:>10}{:>8}{:>8}{:>12}{:>11}{:>8}{:>10}", "per job", "CPU us", "/stream", "/list", "main thr us", "AOF bytes", "/stream", "wall us");
    let mut rows = Vec::new();
    for (contender, costs) in CONTENDERS.iter().zip(&costs) {
        let cpu = median(costs, |cost| cost.cpu_us);
        let aof = median(costs, |cost| cost.aof_bytes);
        let main = median(costs, |cost| cost.main_thread_us);
        let wall = median(costs, |cost| cost.wall_us);
        let base = cpu_of(contender.against);
        let list = (contender.against == "stream, one at a time").then(|| cpu_of("list, one at a time")).flatten();
        let mut line = format!("{:<24}{cpu:>10.2}{:>8}{:>8}", contender.name, ratio(cpu, base.map(|b| b.0)), ratio(cpu, list.map(|b| b.0)));
        let _ = write!(line, "{main:>12.1}{aof:>11.0}{:>8}{wall:>10.1}", ratio(aof, base.map(|b| b.1)));
        println!("{line}");
        rows.push(serde_json::json!({
            "contender": contender.name, "cpu_us": cpu, "main_thread_us": main, "aof_bytes": aof, "wall_us": wall,
        }));
    }
    serde_json::json!({ "run": title, "payload": payload.len(), "rows": rows })
}

/// One push to one of many blocked workers, and what it costs the server.
fn hand_off(waiters: usize) -> serde_json::Value {
    let server = Server::with(&["maxclients 10000"]);
    let clients: Vec<Client> = (0..waiters).map(|_| server.client()).collect();
    clients.iter().for_each(|client| client.send_line("RQ.LEASE q w BLOCK 0"));
    server.wait_blocked(waiters as u64);
    let producer = server.client();
    let pushes = waiters.min(200);
    server.run("CONFIG RESETSTAT");
    let mut slowest: f64 = 0.0;
    for n in 0..pushes {
        let began = Instant::now();
        producer.cmd(&["RQ.PUSH", "q", &n.to_string()]);
        slowest = slowest.max(began.elapsed().as_secs_f64() * 1e3);
    }
    let stats = server.server_info("commandstats");
    let push = stats["cmdstat_rq.push"].text().split(',').find_map(|part| part.strip_prefix("usec_per_call=")).expect("usec_per_call").to_owned();
    println!("{waiters} blocked workers: a push with its hand-off costs {push} us of the server's CPU; slowest round trip {slowest:.2} ms");
    serde_json::json!({ "waiters": waiters, "push_us": push, "slowest_ms": slowest })
}

fn main() {
    // `cargo bench` and `cargo test --benches` pass their own arguments.
    if std::env::args().any(|arg| arg == "--test" || arg == "--list") {
        return;
    }
    let name = std::env::var("RQ_SERVER").unwrap_or_else(|_| "the default server".into());
    println!("== {name}");
    let payload = "x".repeat(100);
    let json = serde_json::json!({
        "server": name,
        "aof_off": compare("AOF off", &[], &payload),
        "aof_on": compare("AOF on", &["appendonly yes", "appendfsync no"], &payload),
        "hand_off": [hand_off(1), hand_off(1_000), hand_off(4_000)],
    });
    if let Some(path) = std::env::var_os("RQ_BENCH_JSON") {
        std::fs::write(path, json.to_string()).expect("write the JSON");
    }
}
