//! One real server, from its start to its end.

use std::ops::Deref;
use std::path::Path;
use std::process::Child;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use super::client::{patience, wait_until, Client};
use super::launch::{log_of, module, Setup};

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
    setup: Setup,
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
        Server::with_module(Some(module()), config)
    }

    /// A server that loads this module, or none.
    #[track_caller]
    pub fn with_module(module: Option<&Path>, config: &[&str]) -> Server {
        let dir = tempfile::Builder::new().prefix("rq-test-").tempdir().expect("a temporary folder");
        let config = config.iter().map(|&line| line.to_owned()).collect();
        let setup = Setup { dir, config, clock_offset_ms: 0, module: module.map(Path::to_owned) };
        let (child, port, admin) = setup.launch(None);
        Server { child, port, setup, admin, up: true }
    }

    /// A replica of this server, in step with it. Its clock goes with the primary's.
    #[track_caller]
    pub fn replica(&self, config: &[&str]) -> Server {
        let mut replica = Server::with(config);
        replica.advance(self.setup.clock_offset_ms);
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
        self.setup.clock_offset_ms += ms;
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

    /// Whether it has ended by itself.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("wait for the server").is_some()
    }

    /// Starts a stopped server on its files, with further lines of configuration.
    #[track_caller]
    pub fn start_again(&mut self, config: &[&str]) {
        self.setup.config.extend(config.iter().map(|&line| line.to_owned()));
        (self.child, self.port, self.admin) = self.setup.launch(Some(self.port));
        self.up = true;
    }

    /// Whether it was not stopped.
    pub fn is_up(&self) -> bool {
        self.up
    }

    /// What a stopped server loads when it is started again; None: no module.
    pub fn use_module(&mut self, module: Option<&Path>) {
        self.setup.module = module.map(Path::to_owned);
    }

    /// Starts a stopped server on its files, with further lines of configuration, which it has to
    /// refuse. What its log says then.
    #[track_caller]
    pub fn refuses_to_start(&mut self, config: &[&str]) -> String {
        self.setup.config.extend(config.iter().map(|&line| line.to_owned()));
        let before = self.log().len();
        match self.setup.try_launch(Some(self.port)) {
            Some((mut child, ..)) => {
                let _ = child.kill();
                let _ = child.wait();
                panic!("it starts");
            }
            None => self.log().split_off(before),
        }
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
        self.setup.clock_offset_ms += ms;
        self.run(format!("CONFIG SET rq.test-clock-offset {}", self.setup.clock_offset_ms));
    }

    /// The module's clock, as far as this process can tell.
    pub fn now(&self) -> i64 {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock past 1970").as_millis();
        i64::try_from(wall).expect("a clock before the year 292 million") + self.setup.clock_offset_ms
    }

    /// The folder with its files.
    pub fn dir(&self) -> &Path {
        self.setup.dir.path()
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
        log_of(self.dir())
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
        // A tool may have something to say at the end.
        if std::env::var_os("RQ_SERVER_PREFIX").is_some() && self.admin.try_send_bytes(b"SHUTDOWN NOSAVE\r\n").is_ok() {
            let deadline = Instant::now() + patience();
            while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sets keys on a server with little memory until something has been evicted for them: whatever goes
/// first, its turn comes.
#[track_caller]
pub fn crowd_out(server: &Server, is_done: impl Fn() -> bool) {
    let used = server.server_number("memory", "used_memory");
    server.run(format!("CONFIG SET maxmemory {}", used + 2_000_000));
    let filler = "x".repeat(10_000);
    let mut keys = 0;
    while !is_done() {
        server.run(format!("SET filler{keys} {filler}"));
        keys += 1;
        assert!(keys < 100_000, "it is never evicted");
    }
}

/// Pushes to a server with little memory and a policy that evicts queues until RQ has given way.
#[track_caller]
pub fn outgrow(server: &Server, key: &str) {
    let used = server.server_number("memory", "used_memory");
    server.run(format!("CONFIG SET maxmemory {}", used + 100_000));
    let payload = "p".repeat(1_000);
    wait_until("noeviction", || {
        server.try_run(format!("RQ.PUSH {key} {payload}")).is_error() && server.config("maxmemory-policy") == "noeviction"
    });
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
