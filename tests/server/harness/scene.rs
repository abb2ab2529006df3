//! Where most tests play: a primary that writes an AOF, and its replica. [`Scene::verify`] ends
//! the test: what is on the primary must be on the replica, and must come back from RDB and AOF.
//!
//! Scenes are used again by other tests: starting two servers takes longer than most tests do.

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, Once};

use super::client::{wait_until, Client};
use super::reply::{Fields, Reply};
use super::server::Server;

/// A primary with a replica. Dereferences to the primary.
pub struct Scene {
    pair: Option<Pair>,
    pooled: bool,
}

struct Pair {
    primary: Server,
    replica: Server,
}

/// The pairs that no test uses now.
static IDLE: Mutex<Vec<Pair>> = Mutex::new(Vec::new());

/// The grace is off, because every verification reloads the data and would start one.
const CONFIG: &[&str] = &["appendonly yes", "rq.expiry-grace 0"];

impl Scene {
    /// An empty scene. Its servers' configuration must be left as it is.
    pub fn new() -> Scene {
        static STOP_IDLE: Once = Once::new();
        STOP_IDLE.call_once(stop_idle_at_exit);
        let idle = IDLE.lock().expect("the idle pairs").pop();
        Scene { pair: Some(idle.unwrap_or_else(|| Pair::start(&[]))), pooled: true }
    }

    /// A scene of this test's own, with further lines of configuration for both servers.
    pub fn with(config: &[&str]) -> Scene {
        Scene { pair: Some(Pair::start(config)), pooled: false }
    }

    pub fn replica(&self) -> &Server {
        &self.pair().replica
    }

    fn pair(&self) -> &Pair {
        self.pair.as_ref().expect("not verified yet")
    }

    /// Moves the module's clock on both servers.
    #[track_caller]
    pub fn advance(&mut self, ms: i64) {
        let pair = self.pair.as_mut().expect("not verified yet");
        // The replica first: it would not believe a primary that is far ahead.
        pair.replica.advance(ms);
        pair.primary.advance(ms);
    }

    /// A command that is refused: its error begins as given, and nothing at all changes.
    #[track_caller]
    pub fn refused(&self, line: impl AsRef<str>, error: &str) {
        let line = line.as_ref();
        let text = self.unchanged(|| self.error(line));
        assert!(text.starts_with(error), "{line}: {text}");
    }

    /// Commands that must change nothing: neither the data nor the stream to the replicas.
    #[track_caller]
    pub fn unchanged<T>(&self, commands: impl FnOnce() -> T) -> T {
        let state = || (all_digest(self), self.server_number("replication", "master_repl_offset"));
        let before = state();
        let result = commands();
        assert_eq!(state(), before, "it changed something");
        result
    }

    /// Ends the test. All that is on the primary must be the same on the replica, after a load
    /// from RDB, after a load from the AOF as it was written, and after one from a rewritten AOF.
    #[track_caller]
    pub fn verify(mut self) {
        self.check();
        let mut pair = self.pair.take().expect("verified once");
        if self.pooled {
            pair.clear();
            IDLE.lock().expect("the idle pairs").push(pair);
        }
    }

    /// What [`Scene::verify`] checks, in the middle of a test.
    #[track_caller]
    pub fn check(&self) {
        let (primary, replica) = (&self.pair().primary, &self.pair().replica);
        wait_until_quiet(primary);
        check_equal(primary, replica);
        check_files(primary);
        check_equal(primary, replica);
        check_counters(&[primary, replica]);
    }
}

impl Deref for Scene {
    type Target = Server;

    fn deref(&self) -> &Server {
        &self.pair().primary
    }
}

impl DerefMut for Scene {
    fn deref_mut(&mut self) -> &mut Server {
        &mut self.pair.as_mut().expect("not verified yet").primary
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        assert!(self.pair.is_none() || std::thread::panicking(), "a test with a scene ends with verify()");
    }
}

impl Pair {
    fn start(config: &[&str]) -> Pair {
        let config = [CONFIG, config].concat();
        let primary = Server::with(&config);
        let replica = primary.replica(&config);
        Pair { primary, replica }
    }

    /// Leaves nothing of one test to the next.
    fn clear(&mut self) {
        self.primary.run("FLUSHALL");
        for server in [&self.primary, &self.replica] {
            server.run("CLIENT KILL TYPE normal SKIPME yes");
        }
        self.replica.wait_in_step(&self.primary);
        self.primary.wait_blocked(0);
    }
}

/// Statics are not dropped at the end; without this the temporary folders would stay.
fn stop_idle_at_exit() {
    extern "C" fn stop() {
        if let Ok(mut idle) = IDLE.lock() {
            idle.clear();
        }
    }
    // SAFETY: `stop` is a function that lives for ever and does not unwind.
    let done = unsafe { libc::atexit(stop) };
    assert_eq!(done, 0, "atexit");
}

/// DEBUG DIGEST: of all keys of all databases.
fn all_digest(server: &Client) -> String {
    server.run("DEBUG DIGEST").text().to_owned()
}

/// All keys, as (database, name).
fn all_keys(client: &Client) -> Vec<(String, Vec<u8>)> {
    let mut keys = Vec::new();
    for (db, _) in client.server_info("keyspace").0 {
        let number = db.trim_start_matches("db").to_owned();
        client.run(format!("SELECT {number}"));
        let mut names: Vec<Vec<u8>> = client.run("KEYS *").array().iter().map(|key| key.bytes().to_vec()).collect();
        names.sort();
        keys.extend(names.into_iter().map(|name| (number.clone(), name)));
    }
    keys
}

/// Calls `look` with every queue, the client being in its database.
fn for_queues(server: &Server, mut look: impl FnMut(&Client, &str, &[u8])) {
    let client = server.client();
    for (db, key) in all_keys(&client) {
        client.run(format!("SELECT {db}"));
        if client.cmd(&[b"RQ.LEN", key.as_slice()]).is_error() {
            continue; // another type
        }
        look(&client, &db, &key);
    }
}

/// Waits until no queue has anything due: else its timer could act between two looks.
#[track_caller]
fn wait_until_quiet(server: &Server) {
    for_queues(server, |client, _, key| {
        wait_until("nothing due", || {
            let info = client.cmd(&[b"RQ.INFO", key]).fields();
            let leased = client.cmd(&[b"RQ.PEEK".as_slice(), key, b"LEASED", b"COUNT", b"1", b"NOPAYLOAD"]);
            let deadline = leased.array()[1].array().first().map(|job| job.fields().int("deadline"));
            let due = info.get("next-due-at").map(Reply::int);
            let now = server.now();
            due.is_none_or(|due| due > now) && deadline.is_none_or(|deadline| deadline > now)
        });
    });
}

/// Fields of RQ.INFO that are of one process, or move with the clock.
fn is_local(name: &str) -> bool {
    ["local-", "blocked-", "wait-ms", "run-ms", "oldest-"].iter().any(|start| name.starts_with(start))
        || ["held", "consumers"].contains(&name)
}

/// A queue as the checks compare it.
type Seen = (String, Vec<u8>, String, Fields);

/// All that is to be the same elsewhere.
struct Everything {
    digest: String,
    queues: Vec<Seen>,
}

impl Everything {
    #[track_caller]
    fn of(server: &Server) -> Everything {
        let mut queues = Vec::new();
        for_queues(server, |client, db, key| {
            let digest = client.cmd(&[b"DEBUG".as_slice(), b"DIGEST-VALUE", key]).array()[0].text().to_owned();
            let mut info = client.cmd(&[b"RQ.INFO", key]).fields();
            info.0.retain(|(name, _)| !is_local(name));
            queues.push((db.to_owned(), key.to_vec(), digest, info));
        });
        Everything { digest: all_digest(server), queues }
    }

    #[track_caller]
    fn expect_on(&self, server: &Server, after: &str) {
        let there = Everything::of(server);
        for (mine, other) in self.queues.iter().zip(&there.queues) {
            assert_eq!(mine, other, "a queue differs after {after}");
        }
        assert_eq!(self.queues.len(), there.queues.len(), "the number of queues after {after}");
        assert_eq!(self.digest, there.digest, "the digest of everything after {after}");
    }
}

/// Waits until the replica has everything; then both must hold the same.
#[track_caller]
pub fn check_equal(primary: &Server, replica: &Server) {
    wait_until_quiet(primary);
    replica.wait_in_step(primary);
    Everything::of(primary).expect_on(replica, "replication");
}

/// What is on the server must come back from an RDB file, from the AOF as it was written, and from
/// a rewritten AOF of both kinds.
#[track_caller]
pub fn check_files(primary: &Server) {
    wait_until_quiet(primary);
    let before = Everything::of(primary);
    primary.run("DEBUG RELOAD");
    before.expect_on(primary, "DEBUG RELOAD");
    primary.run("DEBUG LOADAOF");
    before.expect_on(primary, "loading the AOF");
    for preamble in ["yes", "no"] {
        primary.run(format!("CONFIG SET aof-use-rdb-preamble {preamble}"));
        primary.rewrite_aof();
        primary.run("DEBUG LOADAOF");
        before.expect_on(primary, &format!("loading the rewritten AOF, with its preamble: {preamble}"));
    }
}

/// No op was out of place, no batch unreadable, nothing panicked.
#[track_caller]
pub fn check_counters(servers: &[&Server]) {
    for server in servers {
        let info = server.server_info("rq");
        for name in ["rq_misfit_ops", "rq_undecodable_batches", "rq_panics"] {
            assert_eq!(info[name], "0", "{name} in INFO rq at port {}", server.port);
        }
    }
}
