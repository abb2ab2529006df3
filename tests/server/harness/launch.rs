//! How a server is started: its program, its module, its configuration, and the wait for it.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{channel, Sender};
use std::sync::{Mutex, OnceLock};
use std::time::Instant;

use tempfile::TempDir;

use super::client::{patience, Client};
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

/// What a server is started with.
pub struct Setup {
    pub dir: TempDir,
    pub config: Vec<String>,
    pub clock_offset_ms: i64,
    /// None: it is to do without.
    pub module: Option<PathBuf>,
}

/// The log of a server with this folder.
pub fn log_of(dir: &Path) -> String {
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
pub fn module() -> &'static Path {
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

impl Setup {
    /// Starts a server, at `port` if that is free, and waits until it answers.
    #[track_caller]
    pub fn launch(&self, port: Option<u16>) -> (Child, u16, Client) {
        let started = self.try_launch(port);
        started.unwrap_or_else(|| panic!("the server did not start:\n{}", log_of(self.dir.path())))
    }

    /// The same. None: it has ended.
    #[track_caller]
    pub fn try_launch(&self, mut port: Option<u16>) -> Option<(Child, u16, Client)> {
        let dir = self.dir.path();
        for _ in 0..5 {
            let at = port.take().unwrap_or_else(free_port);
            fs::write(dir.join("server.conf"), self.config_at(at)).expect("write the configuration");
            let before = log_of(dir).len();
            let log = OpenOptions::new().create(true).append(true).open(dir.join("log")).expect("the log");
            let mut command = server_command();
            command.arg(dir.join("server.conf")).current_dir(dir).process_group(0);
            command.stdin(Stdio::null()).stderr(log.try_clone().expect("the log")).stdout(log);
            let mut child = spawn(command).expect("start the server");
            if let Some(admin) = answer(&mut child, at) {
                return Some((child, at, admin));
            }
            if !log_of(dir).split_off(before).contains("Address already in use") {
                return None;
            }
        }
        None
    }

    /// The configuration file.
    fn config_at(&self, port: u16) -> String {
        let mut lines: Vec<String> = BASE_CONFIG.iter().map(|&line| line.to_owned()).collect();
        lines.push(format!("port {port}"));
        lines.push(format!("dir \"{}\"", self.dir.path().display()));
        if let Some(module) = &self.module {
            lines.push(format!("loadmodule \"{}\" test-hooks yes", module.display()));
        }
        if self.clock_offset_ms != 0 {
            lines.push(format!("rq.test-clock-offset {}", self.clock_offset_ms));
        }
        lines.extend_from_slice(&self.config);
        lines.push(String::new());
        lines.join("\n")
    }
}

/// The server's program, after the words of `RQ_SERVER_PREFIX` if there are any: a tool that runs
/// it, in the same process.
fn server_command() -> Command {
    let prefix = std::env::var("RQ_SERVER_PREFIX").unwrap_or_default();
    let mut words = prefix.split_whitespace();
    match words.next() {
        None => Command::new(program()),
        Some(tool) => {
            let mut command = Command::new(tool);
            command.args(words).arg(program());
            command
        }
    }
}

/// A port that was free a moment ago: configuration files cannot say 0.
fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    listener.local_addr().expect("its address").port()
}

/// Waits until the child answers at the port and has loaded its data. None: it has ended.
/// Another process may have taken the port meanwhile, so the pid must be the child's.
fn answer(child: &mut Child, port: u16) -> Option<Client> {
    let deadline = Instant::now() + patience();
    while Instant::now() < deadline {
        if child.try_wait().expect("wait for the server").is_some() {
            return None;
        }
        if let Ok(client) = Client::connect(port) {
            // Whoever had the port may be just going, and the child may end any time.
            let ask = |line: &str| client.try_send_bytes(line.as_bytes()).and_then(|()| client.next_reply());
            let pid = format!("process_id:{}\r", child.id());
            let info = ask("INFO server\r\n");
            let ready = || match ask("GET ready\r\n") {
                // Of a cluster, it may have no slots yet, or not this one.
                Ok(Reply::Error(text)) => text.starts_with("CLUSTERDOWN") || text.starts_with("MOVED"),
                reply => reply.is_ok(),
            };
            if info.is_ok_and(|info| !info.is_error() && info.text().contains(&pid)) && ready() {
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
