//! Files and forks with many jobs, beside a stream of the same jobs: saving and loading the RDB,
//! rewriting the AOF in both its forms, and what a fork costs while work goes on.

use std::time::{Duration, Instant};

use serde::Serialize;

use crate::contenders::{Kind, Side};
use crate::harness::{Server, Stop};
use crate::memory::fill;
use crate::report::Table;
use crate::PLAIN;

/// Jobs of one call, and calls a second, while there is a fork.
const BATCH: usize = 10;
const CALLS_PER_SECOND: u32 = 500;

#[derive(Clone, Serialize)]
pub struct FileRow {
    pub contender: String,
    pub jobs: usize,
    pub rdb_save_ms: f64,
    pub rdb_mb: f64,
    pub rdb_load_ms: f64,
    /// The AOF as an RDB, which is the default.
    pub aof_rewrite_ms: f64,
    pub aof_mb: f64,
    /// The AOF as commands.
    pub commands_rewrite_ms: f64,
    pub commands_mb: f64,
    /// Copied pages of a BGSAVE, and the jobs that were leased and finished meanwhile.
    pub fork_ms: f64,
    pub fork_jobs: usize,
    pub copied_mb: f64,
}

pub fn measure(kind: Kind, jobs: usize) -> FileRow {
    let mut server = Server::with(&PLAIN);
    fill(&mut Side::new(kind, server.port, 0), jobs, 100, false);
    let rdb_save_ms = ms(|| drop(server.run("SAVE")));
    let rdb_mb = mb(std::fs::metadata(server.dir().join("dump.rdb")).map_or(0, |file| file.len()));
    server.restart(Stop::Kill);
    let rdb_load_ms = load_ms(&server.log());
    let (fork_ms, fork_jobs, copied_mb) = fork(&server, kind, jobs / 2);
    server.run("CONFIG SET aof-use-rdb-preamble no");
    // This rewrites it.
    let commands_rewrite_ms = ms(|| {
        server.run("CONFIG SET appendonly yes");
        wait_idle(&server, "aof_rewrite_in_progress");
    });
    let aof_mb = |server: &Server| mb(server.server_number("persistence", "aof_current_size"));
    let commands_mb = aof_mb(&server);
    server.run("CONFIG SET aof-use-rdb-preamble yes");
    let aof_rewrite_ms = ms(|| {
        server.run("BGREWRITEAOF");
        wait_idle(&server, "aof_rewrite_in_progress");
    });
    FileRow {
        contender: kind.name().to_owned(),
        jobs,
        rdb_save_ms,
        rdb_mb,
        rdb_load_ms,
        aof_rewrite_ms,
        aof_mb: aof_mb(&server),
        commands_rewrite_ms,
        commands_mb,
        fork_ms,
        fork_jobs,
        copied_mb,
    }
}

/// A BGSAVE while a worker takes and finishes jobs, at most so many.
fn fork(server: &Server, kind: Kind, most: usize) -> (f64, usize, f64) {
    let mut side = Side::new(kind, server.port, 0);
    server.run("BGSAVE");
    let began = Instant::now();
    let mut calls = 0;
    while in_progress(server, "rdb_bgsave_in_progress") {
        if calls as usize * BATCH < most {
            let taken = side.take(BATCH, false);
            side.finish(&taken);
            calls += 1;
        }
        std::thread::sleep((Duration::from_secs(1) / CALLS_PER_SECOND * calls).saturating_sub(began.elapsed()));
    }
    let fork_ms = began.elapsed().as_secs_f64() * 1e3;
    (fork_ms, calls as usize * BATCH, mb(server.server_number("persistence", "rdb_last_cow_size")))
}

fn in_progress(server: &Server, what: &str) -> bool {
    server.server_number("persistence", what) == 1
}

/// However long it takes.
fn wait_idle(server: &Server, what: &str) {
    let scheduled = || in_progress(server, "aof_rewrite_scheduled");
    while in_progress(server, what) || scheduled() {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// As the log has it: `DB loaded from disk: 0.123 seconds`.
fn load_ms(log: &str) -> f64 {
    let seconds = log.rsplit("DB loaded from disk: ").next().and_then(|rest| rest.split(' ').next());
    seconds.and_then(|seconds| seconds.parse::<f64>().ok()).map_or(f64::NAN, |seconds| seconds * 1e3)
}

fn ms(work: impl FnOnce()) -> f64 {
    let began = Instant::now();
    work();
    began.elapsed().as_secs_f64() * 1e3
}

fn mb(bytes: u64) -> f64 {
    bytes as f64 / (1 << 20) as f64
}

pub fn print(rows: &[FileRow]) {
    println!("\nfiles and forks, beside a stream of the same waiting jobs");
    let mut table = Table::new(&["", "jobs", "RDB save ms", "MB", "load ms", "AOF (RDB) ms", "MB", "AOF (commands) ms", "MB", "BGSAVE ms", "jobs meanwhile", "MB copied", "bytes/job"]);
    for row in rows {
        let whole = |value: f64| format!("{value:.0}");
        let fine = |value: f64| format!("{value:.1}");
        table.row([
            row.contender.clone(),
            row.jobs.to_string(),
            whole(row.rdb_save_ms),
            fine(row.rdb_mb),
            whole(row.rdb_load_ms),
            whole(row.aof_rewrite_ms),
            fine(row.aof_mb),
            whole(row.commands_rewrite_ms),
            fine(row.commands_mb),
            whole(row.fork_ms),
            row.fork_jobs.to_string(),
            fine(row.copied_mb),
            whole(row.copied_mb * (1 << 20) as f64 / row.fork_jobs.max(1) as f64),
        ]);
    }
    table.print();
}
