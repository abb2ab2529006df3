//! BullMQ, driven by node: `bullmq/driver.js` does what it is told on its stdin, a line of JSON
//! each, and replies with one. The packages are in the cache (RQ_CACHE), as the lock file says.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::{json, Value};

/// A node process with its connections. It is killed when it is dropped.
pub struct BullMq {
    child: Child,
    replies: BufReader<ChildStdout>,
}

/// The version, with all installed; or why it cannot be had.
pub fn install() -> Result<String, String> {
    let package = read_json(&sources().join("package.json"));
    let version = package["dependencies"]["bullmq"].as_str().unwrap_or_default().to_owned();
    let folder = folder(&version);
    let there = || run(Command::new("node").arg("-e").arg("require('bullmq')").env("NODE_PATH", folder.join("node_modules")));
    if there().is_err() {
        std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        for name in ["package.json", "package-lock.json"] {
            std::fs::copy(sources().join(name), folder.join(name)).map_err(|error| format!("{name}: {error}"))?;
        }
        // Nothing is built and no script is run: what is optional makes no difference here.
        let mut npm = Command::new("npm");
        npm.args(["ci", "--ignore-scripts", "--omit=optional", "--no-audit", "--no-fund", "--fetch-retries=1"]).current_dir(&folder);
        run(&mut npm)?;
    }
    there().map(|()| version)
}

fn run(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{name}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(format!("{name}: {}", text.lines().find(|line| line.contains("rror")).unwrap_or("failed")))
}

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/bullmq")
}

fn read_json(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).expect("JSON")
}

fn folder(version: &str) -> PathBuf {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let cache = set("RQ_CACHE").or_else(|| Some(set("XDG_CACHE_HOME")?.join("rq")));
    let cache = cache.unwrap_or_else(|| set("HOME").unwrap_or_default().join(".cache/rq"));
    cache.join(format!("bullmq-{version}"))
}

impl BullMq {
    pub fn start(port: u16) -> BullMq {
        let version = read_json(&sources().join("package.json"))["dependencies"]["bullmq"].as_str().unwrap_or_default().to_owned();
        let mut command = Command::new("node");
        command.arg(sources().join("driver.js")).arg(port.to_string());
        command.env("NODE_PATH", folder(&version).join("node_modules"));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("start node");
        let replies = BufReader::new(child.stdout.take().expect("its stdout"));
        let mut bullmq = BullMq { child, replies };
        bullmq.call(&json!({ "do": "hello" }));
        bullmq
    }

    fn call(&mut self, request: &Value) -> Value {
        let stdin = self.child.stdin.as_mut().expect("its stdin");
        writeln!(stdin, "{request}").expect("tell node what to do");
        let mut line = String::new();
        self.replies.read_line(&mut line).expect("a line from node");
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("node cannot do {request}: {line}"))
    }

    /// Pushes, takes and finishes jobs, so many at a time.
    pub fn cost(&mut self, jobs: usize, batch: usize, size: usize) {
        self.call(&json!({ "do": "cost", "jobs": jobs, "batch": batch, "size": size }));
    }

    pub fn push(&mut self, jobs: usize, size: usize, delay_ms: u64) {
        self.call(&json!({ "do": "push", "jobs": jobs, "size": size, "delay": delay_ms }));
    }

    pub fn take(&mut self, jobs: usize) {
        self.call(&json!({ "do": "take", "jobs": jobs }));
    }

    /// From the push to the worker, in ns, for each job.
    pub fn latency(&mut self, workers: usize, jobs: usize, per_second: u64) -> Vec<u64> {
        let request = json!({ "do": "latency", "workers": workers, "jobs": jobs, "rate": per_second });
        self.call(&request).as_array().expect("times").iter().filter_map(Value::as_u64).collect()
    }

    /// Seconds from the first push to the end of the last job.
    pub fn throughput(&mut self, jobs: usize, producers: usize, workers: usize, batch: usize) -> f64 {
        let request = json!({ "do": "throughput", "jobs": jobs, "producers": producers, "workers": workers, "batch": batch });
        self.call(&request).as_f64().expect("seconds")
    }
}

impl Drop for BullMq {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
