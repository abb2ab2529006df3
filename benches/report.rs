//! What was measured, for the terminal and as JSON.

use serde::{Deserialize, Serialize};

use crate::latency::{CrowdRow, LatencyRow};
use crate::memory::MemoryRow;
use crate::rounds::{CostRow, BATCHES};
use crate::throughput::ThroughputRow;

/// All of one server.
#[derive(Clone, Serialize, Deserialize)]
pub struct Report {
    pub server: String,
    pub version: String,
    /// Its version, or why it was left out.
    pub bullmq: Result<String, String>,
    pub costs: Vec<CostRow>,
    pub memory: Vec<MemoryRow>,
    pub latency: Vec<LatencyRow>,
    pub crowds: Vec<CrowdRow>,
    pub throughput: Vec<ThroughputRow>,
}

/// Processor, cores and kernel.
pub fn machine() -> serde_json::Value {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let cpu = read("/proc/cpuinfo").lines().find_map(|line| Some(line.strip_prefix("model name")?.trim_start_matches([' ', '\t', ':']).to_owned()));
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    serde_json::json!({ "cpu": cpu, "cores": cores, "kernel": read("/proc/sys/kernel/osrelease").trim() })
}

impl Report {
    pub fn new(server: &str, version: String, bullmq: Result<String, String>) -> Report {
        let server = server.to_owned();
        Report { server, version, bullmq, costs: vec![], memory: vec![], latency: vec![], crowds: vec![], throughput: vec![] }
    }

    /// A table for each setting but the batch, whose three stand side by side.
    pub fn print_costs(&self) {
        let singles: Vec<&CostRow> = self.costs.iter().filter(|row| row.batch == 1).collect();
        for rows in singles.chunk_by(|a, b| setting(a) == setting(b)) {
            let (aof, replica, payload) = setting(rows[0]);
            let with = |is: bool, what: &str| format!("{}{what}", if is { "" } else { "no " });
            println!("\n{}, {}, payload of {payload} bytes: CPU in us per job", with(aof, "AOF"), with(replica, "replica"));
            let mut heads = vec!["commands", "/stream", "main thr", "/stream"];
            match (aof, replica) {
                (true, _) => heads.extend(["AOF bytes", "/stream"]),
                (false, true) => heads.extend(["bytes sent", "/stream"]),
                (false, false) => {}
            }
            let mut table = Table::new(&[]);
            let batches = BATCHES.map(|batch| format!("| {batch}/call"));
            table.row(std::iter::once(String::new()).chain(batches.iter().flat_map(|batch| {
                heads.iter().enumerate().map(move |(at, _)| if at == 0 { batch.clone() } else { String::new() })
            })));
            table.row(std::iter::once("").chain(BATCHES.iter().flat_map(|_| heads.clone())).map(str::to_owned));
            for each in rows {
                let cells = BATCHES.iter().flat_map(|batch| {
                    let same = |row: &&CostRow| setting(row) == setting(each) && row.batch == *batch && row.contender == each.contender;
                    let mut cells = self.costs.iter().find(same).map_or_else(Vec::new, cost_cells);
                    cells.resize(heads.len(), String::new());
                    cells
                });
                table.row(std::iter::once(each.contender.clone()).chain(cells));
            }
            table.print();
        }
        self.print_goals();
    }

    /// RQ's ratios to the others, without AOF and replica.
    fn print_goals(&self) {
        println!("\nCPU of commands, no AOF, no replica, payload of 100 bytes: RQ to the others");
        let mut table = Table::new(&["", "per call", "/list", "/stream", "/BullMQ"]);
        for row in self.costs.iter().filter(|row| setting(row) == (false, false, 100) && row.contender.starts_with("RQ")) {
            let ratios = [row.commands_to_list, row.to_stream.commands, row.commands_to_bullmq].map(ratio);
            table.row([row.contender.clone(), row.batch.to_string()].into_iter().chain(ratios));
        }
        table.print();
    }
}

impl Report {
    pub fn print_memory(&self) {
        println!("\nmemory: bytes per job, with its payload");
        let mut table = Table::new(&["", "payload", "jobs", "waiting", "/stream", "delayed", "/stream", "leased", "/stream"]);
        for row in &self.memory {
            let stream = self.memory.iter().find(|base| base.contender == "stream" && base.payload == row.payload);
            let pair = |own: f64, of: fn(&MemoryRow) -> f64| [format!("{own:.0}"), ratio(stream.map(|stream| own / of(stream)))];
            let cells = [row.contender.clone(), row.payload.to_string(), row.jobs.to_string()].into_iter();
            let cells = cells.chain(pair(row.waiting, |row| row.waiting)).chain(pair(row.delayed, |row| row.delayed));
            table.row(cells.chain(pair(row.leased, |row| row.leased)));
        }
        table.print();
    }

    pub fn print_latency(&self) {
        println!("\nfrom push to delivery in us, all workers blocked");
        let mut table = Table::new(&["", "workers", "jobs", "p50", "p99", "p99.9", "max"]);
        for row in &self.latency {
            let times = [row.p50_us, row.p99_us, row.p999_us, row.max_us].map(|us| format!("{us:.0}"));
            table.row([row.contender.clone(), row.workers.to_string(), row.jobs.to_string()].into_iter().chain(times));
        }
        table.print();
        for row in &self.crowds {
            let CrowdRow { blocked, push_us, slowest_ms } = row;
            println!("{blocked} blocked workers: a push with its hand-off costs {push_us:.1} us of CPU, the slowest took {slowest_ms:.2} ms");
        }
    }

    pub fn print_throughput(&self) {
        println!("\njobs per second end to end, 2 producers and 10 workers");
        let mut table = Table::new(&["", "per call", "jobs/s", "/stream"]);
        for row in &self.throughput {
            let figures = [row.batch.to_string(), format!("{:.0}", row.jobs_per_second), ratio(Some(row.to_stream))];
            table.row(std::iter::once(row.contender.clone()).chain(figures));
        }
        table.print();
    }
}

fn setting(row: &CostRow) -> (bool, bool, usize) {
    (row.aof, row.replica, row.payload)
}

fn cost_cells(row: &CostRow) -> Vec<String> {
    let (cost, to_stream) = (&row.cost, &row.to_stream);
    let mut cells = vec![
        format!("{:.2}", cost.commands_us),
        ratio(to_stream.commands),
        format!("{:.1}", cost.main_thread_us),
        ratio(to_stream.main_thread),
    ];
    match (row.aof, row.replica) {
        (true, _) => cells.extend([format!("{:.0}", cost.aof_bytes), ratio(to_stream.aof_bytes)]),
        (false, true) => cells.extend([format!("{:.0}", cost.replicated_bytes), ratio(to_stream.replicated_bytes)]),
        (false, false) => {}
    }
    cells
}

pub fn ratio(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "-".to_owned(), |ratio| if ratio < 0.1 { format!("{ratio:.3}") } else { format!("{ratio:.2}") })
}

/// Columns as wide as they need to be, the first one to the left.
#[derive(Default)]
pub struct Table(Vec<Vec<String>>);

impl Table {
    pub fn new(heads: &[&str]) -> Table {
        let heads: Vec<String> = heads.iter().map(|head| (*head).to_owned()).collect();
        Table(if heads.is_empty() { Vec::new() } else { vec![heads] })
    }

    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.0.push(cells.into_iter().collect());
    }

    pub fn print(&self) {
        let columns = self.0.iter().map(Vec::len).max().unwrap_or_default();
        let width = |at: usize| self.0.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count()).max();
        let widths: Vec<usize> = (0..columns).filter_map(width).collect();
        for row in &self.0 {
            let cells = row.iter().zip(&widths).enumerate();
            let line: Vec<String> = cells.map(|(at, (cell, width))| if at == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }).collect();
            println!("{}", line.join("  ").trim_end());
        }
    }
}
