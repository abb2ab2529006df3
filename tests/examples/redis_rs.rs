//! `examples/redis_rs_worker.rs` with the tests' work: `PORT QUEUE NAME`; see run.py.

#![allow(clippy::expect_used, clippy::panic)]

use std::io::Write;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::{env, io, thread, time::Duration};

#[allow(dead_code)]
#[path = "../../examples/redis_rs_worker.rs"]
mod worker;

fn work(job: &worker::Job) -> Result<(), String> {
    let payload = String::from_utf8_lossy(&job.payload);
    println!("took {} {} {payload}", job.id, job.deliveries);
    io::stdout().flush().expect("tell");
    match payload.split_once(' ') {
        Some(("fail", text)) => return Err(text.to_owned()),
        Some(("wait", path)) => {
            while !Path::new(path).exists() && !job.lost.load(Ordering::SeqCst) {
                thread::sleep(Duration::from_millis(5));
            }
        }
        _ => {}
    }
    Ok(())
}

fn main() -> redis::RedisResult<()> {
    let args: Vec<String> = env::args().skip(1).collect();
    let [port, queue, name] = args.as_slice() else { panic!("PORT QUEUE NAME") };
    worker::run(&format!("redis://127.0.0.1:{port}"), queue, name, work)
}
