//! Starts and ends one real server.

use std::fs::{self, OpenOptions};
use std::io;
use std::ops::Deref;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{channel, Sender};
use std::sync::{Mutex, OnceLock};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use tempfile::TempDir;

use super::client::{wait_until, Client, PATIENCE};
use super::reply::Reply;

/// Fast, quiet, without files unless a test asks for them. `hz`: children are reaped soon. The
/// rare ping keeps the replication offset still, so that tests can see that nothing was sent.
const BASE_CONFIG: &[&str] = &[
    "bind 127.0.0.1",
    "save \"\"",
    "hz 100",
    "repl-diskless-sync yes",
    "repl-diskless-sync-delay 0",
    "repl-ping-replica-period 3600",
    "repl-timeout 36000",
    "enable-debug-command local",
];

/// How a server ends before a restart.
#[derive(Clone, Copy, PartialEq)]
pub enum Stop {
    /// SIGKILL: what a crash leaves.
    Kill,
    /// SHUTDOWN, saving if the configuration says so.
    Shutdown,
}

/// A running server with the module. Its commands run over a connection of its own, see
/// [`Client`]. It is killed when it is dropped.
pub struct Server {
    child: Child,
    pub port: u16,
    dir: TempDir,
    config: Vec<String>,
    clock_offset_ms: i64,
    admin: Client,
    up: bool,
}

impl Server {
    /// A server without persistence.
    pub fn start() -> Server {
        Server::with(&[])
    }

    /// A server with further lines of configuration.
    #[track_caller]
    pub fn with(config: &[&str]) -> Server {
        let dir = tempfile::Builder::new().prefix("rq-test-").tempdir().expect("a temporary folder");
        let config: Vec<String> = config.iter().map(|&line| line.to_owned()).collect();
        let (child, port, admin) = launch(dir.path(), &config, 0, None);
        Server { child, port, dir, config, clock_offset_ms: 0, admin, up: true }
    }

    /// A replica of this server, in step with it. Its clock goes with the primary's.
    #[track_caller]
    pub fn replica(&self, config: &[&str]) -> Server {
        let mut replica = Server::with(config);
        replica.advance(self.clock_offset_ms);
        replica.follow(self);
        replica
    }

    /// Makes this server a replica of another and waits for the link.
    #[track_caller]
    pub fn follow(&self, primary: &Server) {
        self.run(format!("REPLICAOF 127.0.0.1 {}", primary.port));
        wait_until("the replica's link", || self.server_info("replication")["master_link_status"] == "up");
        let online = format!("port={},state=online", self.port);
        wait_until("the replica's being online", || {
            primary.server_info("replication").0.iter().any(|(_, value)| value.text().contains(&online))
        });
        self.wait_in_step(primary);
    }

    /// Waits until this replica has all that its primary has written.
    #[track_caller]
    pub fn wait_in_step(&self, primary: &Server) {
        let offset = primary.server_number("replication", "master_repl_offset");
        wait_until("the replica's offset", || {
            let info = self.server_info("replication");
            info["master_link_status"] == "up"
                && info["slave_repl_offset"].text().parse::<u64>().expect("an offset") >= offset
        });
    }

    /// Ends the server and starts it again on its files.
    #[track_caller]
    pub fn restart(&mut self, how: Stop) {
        self.stop(how);
        self.start_again(&[]);
    }

    /// Kills the server and starts it again when its clock has gone on by so much.
    #[track_caller]
    pub fn restart_later(&mut self, ms: i64) {
        self.stop(Stop::Kill);
        self.clock_offset_ms += ms;
        self.start_again(&[]);
    }

    /// Ends the server and waits for that. Only [`Server::start_again`] makes sense afterwards.
    #[track_caller]
    pub fn stop(&mut self, how: Stop) {
        self.up = false;
        match how {
            Stop::Kill => self.child.kill().expect("kill the server"),
            Stop::Shutdown => self.send_line("SHUTDOWN"),
        }
        wait_until("the server's end", || self.child.try_wait().expect("wait for the server").is_some());
    }

    /// Sends a signal to the server's process, for tests/chaos.
    #[allow(dead_code)]
    #[track_caller]
    pub fn signal(&self, signal: i32) {
        let pid = i32::try_from(self.child.id()).expect("a pid");
        // SAFETY: a plain system call; the child was not waited for, so the pid is still its own.
        assert_eq!(unsafe { libc::kill(pid, signal) }, 0, "kill");
    }

    /// Starts a stopped server on its files, with further lines of configuration.
    #[track_caller]
    pub fn start_again(&mut self, config: &[&str]) {
        self.config.extend(config.iter().map(|&line| line.to_owned()));
        (self.child, self.port, self.admin) = launch(self.dir.path(), &self.config, self.clock_offset_ms, Some(self.port));
        self.up = true;
    }

    /// Whether it was not stopped.
    pub fn is_up(&self) -> bool {
        self.up
    }

    /// A new connection.
    #[track_caller]
    pub fn client(&self) -> Client {
        Client::connect(self.port).expect("connect to the server")
    }

    /// A new connection that speaks RESP3.
    #[track_caller]
    pub fn client3(&self) -> Client {
        let client = self.client();
        client.run("HELLO 3");
        client
    }

    /// Moves the clock of the module forward.
    #[track_caller]
    pub fn advance(&mut self, ms: i64) {
        self.clock_offset_ms += ms;
        self.run(format!("CONFIG SET rq.test-clock-offset {}", self.clock_offset_ms));
    }

    /// The module's clock, as far as this process can tell.
    pub fn now(&self) -> i64 {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock past 1970").as_millis();
        i64::try_from(wall).expect("a clock before the year 292 million") + self.clock_offset_ms
    }

    /// The folder with its files.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Waits until the module's clock, hence its timer too, has passed a point in time.
    #[track_caller]
    pub fn wait_past(&self, unix_ms: i64) {
        wait_until("the time", || self.now() > unix_ms);
    }

    /// Waits until so many clients are blocked.
    #[track_caller]
    pub fn wait_blocked(&self, n: u64) {
        wait_until(&format!("{n} blocked clients"), || self.blocked() == n);
    }

    /// How many clients are blocked now.
    #[track_caller]
    pub fn blocked(&self) -> u64 {
        self.server_number("clients", "blocked_clients")
    }

    /// Waits for a rewrite of the AOF from its beginning to its end.
    #[track_caller]
    pub fn rewrite_aof(&self) {
        self.run("BGREWRITEAOF");
        wait_until("the rewrite of the AOF", || {
            let info = self.server_info("persistence");
            info["aof_rewrite_in_progress"] == "0" && info["aof_rewrite_scheduled"] == "0"
        });
        assert_eq!(self.server_info("persistence")["aof_last_bgrewrite_status"], "ok");
    }

    pub fn is_valkey(&self) -> bool {
        self.server_info("server").get("server_name").is_some_and(|name| *name == "valkey")
    }

    /// Major and minor version, of Redis or Valkey.
    pub fn version(&self) -> (u32, u32) {
        let info = self.server_info("server");
        let version = info.get("valkey_version").unwrap_or(&info["redis_version"]).text().to_owned();
        let mut parts = version.split('.').map(|part| part.parse().expect("a version"));
        (parts.next().expect("a major version"), parts.next().expect("a minor version"))
    }

    /// Whether it is older than Redis 7.2 and Valkey, and lacks their API.
    pub fn is_redis_7_0(&self) -> bool {
        !self.is_valkey() && self.version() < (7, 2)
    }

    /// Whether the module may listen to keyspace events here: on Valkey 8.1 and 9.0 they move
    /// clients to other databases. There a queue under a new name is found by going over all keys.
    pub fn tells_of_new_names(&self) -> bool {
        !self.is_valkey() || !((8, 1)..(9, 1)).contains(&self.version())
    }

    pub fn log(&self) -> String {
        log_of(self.dir.path())
    }
}

impl Deref for Server {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.admin
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let status = self.child.try_wait();
        if std::thread::panicking() {
            let log = self.log();
            let tail: Vec<&str> = log.lines().rev().take(40).collect();
            let tail: Vec<&str> = tail.into_iter().rev().collect();
            eprintln!("--- server at port {} ({status:?}), end of its log:\n{}\n---", self.port, tail.join("\n"));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A client that a command keeps waiting.
#[track_caller]
pub fn block(server: &Server, line: &str) -> Client {
    let blocked = server.blocked();
    let worker = server.client();
    worker.send_line(line);
    server.wait_blocked(blocked + 1);
    worker
}

fn log_of(dir: &Path) -> String {
    String::from_utf8_lossy(&fs::read(dir.join("log")).unwrap_or_default()).into_owned()
}

/// The server program: `RQ_SERVER` (a name or a path), else what scripts/servers has.
fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        // A package's own folder, or that of the workspace above it.
        let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|folder| folder.join("scripts/servers"));
        let script = scripts.into_iter().find(|path| path.exists()).expect("scripts/servers");
        let output = Command::new(&script).arg("path").stderr(Stdio::inherit()).output();
        let output = output.unwrap_or_else(|error| panic!("{}: {error}", script.display()));
        assert!(output.status.success(), "scripts/servers finds no server");
        String::from_utf8(output.stdout).expect("a path in UTF-8").trim().into()
    })
}

/// The module: `RQ_MODULE`, else the release build, else the debug build.
fn module() -> &'static Path {
    static MODULE: OnceLock<PathBuf> = OnceLock::new();
    MODULE.get_or_init(|| {
        if let Some(path) = std::env::var_os("RQ_MODULE") {
            return fs::canonicalize(&path).unwrap_or_else(|error| panic!("RQ_MODULE {}: {error}", Path::new(&path).display()));
        }
        // The test itself lies in target/PROFILE/deps.
        let test = std::env::current_exe().expect("the path of this program");
        let target = test.ancestors().nth(3).expect("the target folder");
        let builds = ["release", "debug"].map(|profile| target.join(profile).join("librq.so"));
        let found = builds.into_iter().find(|path| path.exists());
        found.expect("target/release/librq.so: build it with `cargo build --release`, or set RQ_MODULE")
    })
}

/// Starts a server on the folder, at `port` if that is free, and waits until it answers.
#[track_caller]
fn launch(dir: &Path, config: &[String], clock_offset_ms: i64, mut port: Option<u16>) -> (Child, u16, Client) {
    for _ in 0..5 {
        let at = port.take().unwrap_or_else(free_port);
        write_config(dir, config, clock_offset_ms, at);
        let log = OpenOptions::new().create(true).append(true).open(dir.join("log")).expect("the log");
        let mut command = Command::new(program());
        command.arg(dir.join("server.conf")).current_dir(dir).process_group(0);
        command.stdin(Stdio::null()).stderr(log.try_clone().expect("the log")).stdout(log);
        let mut child = spawn(command).expect("start the server");
        match answer(&mut child, at) {
            Some(admin) => return (child, at, admin),
            None if log_of(dir).contains("Address already in use") => {}
            None => break,
        }
    }
    panic!("the server did not start:\n{}", log_of(dir));
}

fn write_config(dir: &Path, config: &[String], clock_offset_ms: i64, port: u16) {
    let mut lines: Vec<String> = BASE_CONFIG.iter().map(|&line| line.to_owned()).collect();
    lines.push(format!("port {port}"));
    lines.push(format!("dir \"{}\"", dir.display()));
    lines.push(format!("loadmodule \"{}\" test-hooks yes", module().display()));
    if clock_offset_ms != 0 {
        lines.push(format!("rq.test-clock-offset {clock_offset_ms}"));
    }
    lines.extend_from_slice(config);
    lines.push(String::new());
    fs::write(dir.join("server.conf"), lines.join("\n")).expect("write the configuration");
}

/// A port that was free a moment ago: configuration files cannot say 0.
fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    listener.local_addr().expect("its address").port()
}

/// Waits until the child answers at the port and has loaded its data. None: it has ended.
/// Another process may have taken the port meanwhile, so the pid must be the child's.
fn answer(child: &mut Child, port: u16) -> Option<Client> {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if child.try_wait().expect("wait for the server").is_some() {
            return None;
        }
        if let Ok(client) = Client::connect(port) {
            // Whoever had the port may be just going.
            let info = client.try_send_bytes(b"INFO server\r\n").and_then(|()| client.next_reply());
            let ready = || match client.try_run("GET ready") {
                // Of a cluster, it may have no slots yet, or not this one.
                Reply::Error(text) => text.starts_with("CLUSTERDOWN") || text.starts_with("MOVED"),
                _ => true,
            };
            let pid = format!("process_id:{}\r", child.id());
            if info.is_ok_and(|info| info.text().contains(&pid)) && ready() {
                return Some(client);
            }
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    None
}

type Answer = Sender<io::Result<Child>>;

/// Spawns a child that the kernel kills when this process ends, however it ends. The kernel
/// counts the end of the thread that made the child; a test's thread ends with its test, so all
/// children come from one thread that never ends.
fn spawn(mut command: Command) -> io::Result<Child> {
    static LAUNCHER: OnceLock<Mutex<Sender<(Command, Answer)>>> = OnceLock::new();
    let launcher = LAUNCHER.get_or_init(|| {
        let (requests, inbox) = channel::<(Command, Answer)>();
        std::thread::spawn(move || {
            for (mut command, answer) in inbox {
                let _ = answer.send(command.spawn());
            }
        });
        Mutex::new(requests)
    });
    // SAFETY: between fork and exec only prctl is called, which is a plain system call.
    unsafe {
        command.pre_exec(|| match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        });
    }
    let (answer, child) = channel();
    launcher.lock().expect("the launcher").send((command, answer)).expect("the launcher");
    child.recv().expect("the launcher's answer")
}
