//! RQ beside a reliable list, a stream and BullMQ, in one run: `make bench`; and how it fares with
//! millions of jobs: `make depth`. Everything starts real servers of its own. The machine is shared
//! and noisy, so contenders take turns and ratios say more than figures. Nothing is asserted of time.
//!
//! RQ_SERVER chooses one server (a name of `scripts/servers list`, or a path), RQ_BENCH_SCALE the
//! size of it all (1; 0.05 for a quick look), RQ_BENCH_ONLY one part (costs, memory, latency or
//! throughput), RQ_BENCH_OUT the folder for bench.json, bench.svg and depth.json.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod bullmq;
mod contenders;
mod depth;
mod files;
#[path = "../tests/server/harness/mod.rs"]
#[allow(dead_code, unused_imports, reason = "the tests use more of it")]
mod harness;
mod latency;
mod memory;
mod meter;
mod plot;
mod report;
mod rounds;
mod stall;
mod throughput;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use contenders::Kind;
use harness::Server;
use report::Report;

const SERVERS: [&str; 3] = ["redis-7.0", "redis-8.6", "valkey-9.1"];
/// Bytes of a payload.
pub const PAYLOADS: [usize; 2] = [100, 1024];
/// What servers are configured with, besides what the tests want.
pub const PLAIN: [&str; 2] = ["hz 10", "maxclients 10000"];
pub const WITH_AOF: [&str; 5] = ["hz 10", "maxclients 10000", "appendonly yes", "appendfsync everysec", "auto-aof-rewrite-percentage 0"];

/// A number of jobs at the scale of this run.
pub fn scaled(n: usize) -> usize {
    let scale = std::env::var("RQ_BENCH_SCALE").map_or(1.0, |text| text.parse::<f64>().expect("RQ_BENCH_SCALE: a number"));
    ((n as f64 * scale) as usize).max(1)
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    // `cargo test --all-targets` starts it too, without.
    if args.iter().all(|arg| arg != "--bench") {
        return;
    }
    if args.get(1).is_some_and(|arg| arg == "plot") {
        return plot_again();
    }
    if args.get(1).is_some_and(|arg| arg == "depth") {
        let (name, version) = server_name();
        println!("== {name} {version}");
        let mut whole = depth::measure();
        whole["server"] = serde_json::json!({ "name": name, "version": version });
        whole["machine"] = report::machine();
        return write("depth.json", &serde_json::to_string_pretty(&whole).expect("JSON"));
    }
    match std::env::var("RQ_SERVER").ok().filter(|name| !name.is_empty()) {
        Some(name) => {
            let report = bench(&name);
            match std::env::var_os("RQ_BENCH_PART") {
                Some(path) => std::fs::write(path, serde_json::to_string(&report).expect("JSON")).expect("write the part"),
                None => finish(&[report]),
            }
        }
        None => finish(&SERVERS.iter().filter_map(|name| bench_apart(name)).collect::<Vec<_>>()),
    }
}

/// One server in a process of its own: what finds a server finds one a process.
fn bench_apart(name: &str) -> Option<Report> {
    let part = tempfile::NamedTempFile::new().expect("a temporary file");
    let mut command = Command::new(std::env::current_exe().expect("the path of this program"));
    command.arg("--bench").env("RQ_SERVER", name).env("RQ_BENCH_PART", part.path());
    let done = command.status().expect("start this program again").success();
    let text = std::fs::read_to_string(part.path()).unwrap_or_default();
    let report = serde_json::from_str(&text).ok().filter(|_| done);
    if report.is_none() {
        println!("\n== {name}: left out, it cannot be had or has failed");
    }
    report
}

fn bench(name: &str) -> Report {
    let (_, version) = server_name();
    let server = Server::with(&PLAIN);
    let mut kinds = vec![Kind::List, Kind::Stream];
    if server.run("COMMAND INFO XACKDEL").array().iter().any(|command| !command.is_null()) {
        kinds.push(Kind::StreamAckDel);
    }
    kinds.extend([Kind::Rq, Kind::RqAckLease]);
    drop(server);
    let bullmq = bullmq::install();
    let mut report = Report::new(name, version, bullmq.clone());
    println!("\n== {name} ({}), BullMQ: {}", report.version, report.bullmq.as_ref().unwrap_or_else(|why| why));
    let bullmq = bullmq.is_ok();
    let part = |name: &str, measure: &mut dyn FnMut()| {
        let began = Instant::now();
        if std::env::var("RQ_BENCH_ONLY").map_or(true, |only| only.is_empty() || only == name) {
            measure();
            println!("({name}: {:.0} s)", began.elapsed().as_secs_f64());
        }
    };
    part("costs", &mut || {
        report.costs = rounds::measure(&kinds, bullmq);
        report.print_costs();
    });
    part("memory", &mut || {
        report.memory = memory::measure(bullmq);
        report.print_memory();
    });
    part("latency", &mut || {
        report.latency = latency::measure(bullmq);
        report.crowds = latency::crowds();
        report.print_latency();
    });
    part("throughput", &mut || {
        report.throughput = throughput::measure(&kinds, bullmq);
        report.print_throughput();
    });
    report
}

/// "redis" or "valkey", and the version.
fn server_name() -> (&'static str, String) {
    let info = Server::with(&PLAIN).server_info("server");
    match info.get("valkey_version") {
        Some(version) => ("valkey", version.text().to_owned()),
        None => ("redis", info["redis_version"].text().to_owned()),
    }
}

fn out() -> PathBuf {
    std::env::var_os("RQ_BENCH_OUT").map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("target/bench"), PathBuf::from)
}

fn write(name: &str, text: &str) {
    std::fs::create_dir_all(out()).expect("the folder for the results");
    let path = out().join(name);
    std::fs::write(&path, text).expect("write the results");
    println!("\n{}", path.display());
}

fn finish(reports: &[Report]) {
    let whole = serde_json::json!({ "scale": scaled(1_000_000) as f64 / 1e6, "machine": report::machine(), "servers": reports });
    write("bench.json", &serde_json::to_string_pretty(&whole).expect("JSON"));
    plot_again();
}

/// bench.svg from bench.json: `cargo bench --bench main -- plot`.
fn plot_again() {
    let text = std::fs::read_to_string(out().join("bench.json")).expect("bench.json of an earlier run");
    let whole: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let reports: Vec<Report> = serde_json::from_value(whole["servers"].clone()).expect("reports");
    let mut note = format!("{}, {} cores", whole["machine"]["cpu"].as_str().unwrap_or("unknown processor"), whole["machine"]["cores"]);
    if whole["scale"] != 1.0 {
        note = format!("a short trial (scale {}); {note}", whole["scale"]);
    }
    write("bench.svg", &plot::svg(&reports, &note));
}
