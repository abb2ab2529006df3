//! What work has cost a server: reads its own figures before and after.

use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::harness::{Client, Server};

/// What some jobs have cost, per job.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Cost {
    /// Server CPU in commands: `usec` of INFO commandstats.
    pub commands_us: f64,
    /// CPU of the server's main thread, with the network, the AOF and the replicas.
    pub main_thread_us: f64,
    pub aof_bytes: f64,
    /// Bytes sent to each replica.
    pub replicated_bytes: f64,
    pub wall_us: f64,
}

/// A running measurement.
pub struct Meter<'a> {
    server: &'a Server,
    main_ns: f64,
    aof: f64,
    replicated: f64,
    began: Instant,
}

impl Meter<'_> {
    pub fn start(server: &Server) -> Meter<'_> {
        settle(server);
        server.run("CONFIG RESETSTAT");
        let [aof, replicated] = written(server);
        Meter { server, main_ns: main_thread_ns(pid(server)), aof, replicated, began: Instant::now() }
    }

    /// `scripts`: all work is in scripts; then commands that these call would be counted twice.
    pub fn stop(self, jobs: usize, scripts: bool) -> Cost {
        let wall = self.began.elapsed().as_secs_f64();
        settle(self.server);
        let main_ns = main_thread_ns(pid(self.server)) - self.main_ns;
        let [aof, replicated] = written(self.server);
        let jobs = jobs as f64;
        Cost {
            commands_us: commands_us(self.server, scripts) / jobs,
            main_thread_us: main_ns / 1e3 / jobs,
            aof_bytes: (aof - self.aof) / jobs,
            replicated_bytes: (replicated - self.replicated) / jobs,
            wall_us: wall * 1e6 / jobs,
        }
    }
}

/// Replicas shall not work off what an earlier contender has left.
fn settle(server: &Server) {
    if server.server_number("replication", "connected_slaves") > 0 {
        server.run("WAIT 1 10000");
    }
}

fn written(server: &Server) -> [f64; 2] {
    let aof = server.server_info("persistence").get("aof_current_size").map_or(0.0, |size| number(size.text()));
    [aof, number(server.server_info("replication")["master_repl_offset"].text())]
}

fn number(text: &str) -> f64 {
    text.parse().expect("a number")
}

pub fn pid(client: &Client) -> u64 {
    client.server_number("server", "process_id")
}

/// CPU of the main thread in ns: in ticks of 10 ms if the kernel does not tell better.
fn main_thread_ns(pid: u64) -> f64 {
    let task = format!("/proc/{pid}/task/{pid}");
    let first = |text: String| text.split(' ').next().map(number);
    if let Some(ns) = std::fs::read_to_string(format!("{task}/schedstat")).ok().and_then(first) {
        return ns;
    }
    let stat = std::fs::read_to_string(format!("{task}/stat")).expect("the server's main thread");
    let after_name = stat.rsplit(") ").next().expect("fields after the name");
    // User and system time are fields 14 and 15, the state being field 3.
    after_name.split(' ').skip(11).take(2).map(number).sum::<f64>() * 1e7
}

/// Sums `usec` over the commands since the last CONFIG RESETSTAT, but for those of measuring.
fn commands_us(client: &Client, scripts: bool) -> f64 {
    let own = ["info", "config", "wait", "ping"];
    let stats = client.server_info("commandstats");
    let counted = stats.0.iter().filter(|(name, _)| {
        let name = name.trim_start_matches("cmdstat_");
        if scripts { name.starts_with("eval") } else { !own.contains(&name.split('|').next().unwrap_or_default()) }
    });
    counted.map(|(_, value)| field(value.text(), "usec")).sum()
}

/// One field of a line such as `calls=1,usec=2`.
pub fn field(line: &str, name: &str) -> f64 {
    let value = line.split(',').find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
    number(value.unwrap_or_else(|| panic!("{name} in {line}")))
}

pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
