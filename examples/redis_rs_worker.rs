//! A worker for RQ with redis-rs, to copy from. Put your own work into `handler`; the rest stays.
//!
//!     cargo run --example redis_rs_worker -- redis://127.0.0.1:6379 QUEUE NAME
//!
//! Its dependencies are `redis` and `signal-hook`. It blocks for a job, keeps its lease by a
//! heartbeat, and tells the reason if it fails. SIGTERM: it gives back what it holds and ends. A
//! server that restarts or fails over is waited for.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::{env, process, thread, time::Duration};

use redis::{cmd, from_redis_value, from_redis_value_ref, Client, Cmd, Connection, FromRedisValue, ParsingError};
use redis::{RedisError, RedisResult, Value};
use signal_hook::{consts::SIGTERM, iterator::Signals};

/// How long RQ.LEASE waits for a job; well below the socket's timeout.
const BLOCK_MS: u64 = 2_000;
const SOCKET_TIMEOUT: Duration = Duration::from_secs(10);
/// These errors pass by themselves (a restart, a failover): connect anew and try again.
const PASSING: [&str; 7] = ["LOADING", "READONLY", "MASTERDOWN", "CLUSTERDOWN", "TRYAGAIN", "BUSY", "UNBLOCKED"];

fn passes(error: &RedisError) -> bool {
    error.is_io_error() || error.is_connection_dropped() || error.code().is_some_and(|code| PASSING.contains(&code))
}

/// A connection that is made anew when it was lost.
struct Server {
    client: Client,
    connection: Option<Connection>,
}

impl Server {
    fn new(client: &Client) -> Server {
        Server { client: client.clone(), connection: None }
    }

    fn try_call<T: FromRedisValue>(&mut self, command: &Cmd) -> RedisResult<T> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => self.client.get_connection_with_timeout(SOCKET_TIMEOUT)?,
        };
        connection.set_read_timeout(Some(SOCKET_TIMEOUT))?;
        let reply = command.query(&mut connection);
        if !reply.as_ref().is_err_and(passes) {
            self.connection = Some(connection);
        }
        reply
    }

    /// Sends a command until its reply comes. It is safe to send these again. A lease whose reply
    /// got lost ends by itself. ACK, NACK and RELEASE with the same token do nothing the second
    /// time, and 0 and -1 are answers, too: the job is no longer this worker's.
    fn call<T: FromRedisValue>(&mut self, command: &Cmd) -> RedisResult<T> {
        loop {
            match self.try_call(command) {
                Err(error) if passes(&error) => eprintln!("trying again: {error}"),
                reply => return reply,
            }
            thread::sleep(Duration::from_secs(1));
        }
    }
}

/// A leased job.
#[derive(Clone)]
pub struct Job {
    /// Its id: the key under which to store what is done, as a job may run twice.
    pub id: String,
    /// Grows with every lease of the queue: refuse a write that comes with a lower one.
    pub token: i64,
    /// Counts this one.
    pub deliveries: i64,
    /// The work.
    pub payload: Vec<u8>,
    /// How long it is leased.
    pub lease_ms: u64,
    /// Somebody else has it by now, or it was cancelled: stop.
    pub lost: Arc<AtomicBool>,
}

impl FromRedisValue for Job {
    fn from_redis_value(value: Value) -> Result<Job, ParsingError> {
        let parts: Vec<Value> = from_redis_value(value)?;
        // More may be added at the end.
        let [id, token, deliveries, payload, lease_ms, ..] = parts.as_slice() else {
            return Err("not a leased job".to_owned().into());
        };
        Ok(Job {
            id: from_redis_value_ref(id)?,
            token: from_redis_value_ref(token)?,
            deliveries: from_redis_value_ref(deliveries)?,
            payload: from_redis_value_ref(payload)?,
            lease_ms: from_redis_value_ref(lease_ms)?,
            lost: Arc::default(),
        })
    }
}

/// Works until SIGTERM. An error that the handler returns is told by RQ.NACK.
pub fn run(url: &str, queue: &str, name: &str, handler: impl Fn(&Job) -> Result<(), String>) -> RedisResult<()> {
    let client = Client::open(url)?;
    let (stopping, held) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(None)));
    release_on_sigterm(Server::new(&client), queue, stopping.clone(), held.clone())?;
    let mut server = Server::new(&client);
    let settle = |verb: &str, job: &Job| cmd(verb).arg(queue).arg(&job.id).arg(job.token).to_owned();
    while !stopping.load(SeqCst) {
        let mut lease = cmd("RQ.LEASE");
        lease.arg(queue).arg(name).arg("BLOCK").arg(BLOCK_MS);
        let leased: Option<Vec<Job>> = server.call(&lease)?;
        for job in leased.unwrap_or_default() {
            *held.lock().unwrap_or_else(PoisonError::into_inner) = Some(job.clone());
            if stopping.load(SeqCst) {
                return server.call(&settle("RQ.RELEASE", &job));
            }
            let (over, wait) = channel();
            let (extend, beats, lost) = (settle("RQ.EXTEND", &job), Server::new(&client), job.lost.clone());
            thread::spawn(move || beat(beats, &extend, Duration::from_millis(job.lease_ms) / 3, &lost, &wait));
            let result = handler(&job);
            drop(over);
            held.lock().unwrap_or_else(PoisonError::into_inner).take();
            match result {
                Ok(()) => server.call::<()>(&settle("RQ.ACK", &job))?,
                Err(error) => server.call::<()>(settle("RQ.NACK", &job).arg("ERROR").arg(error))?,
            }
        }
    }
    Ok(())
}

/// The heartbeat, from a thread and a connection of its own.
fn beat(mut server: Server, extend: &Cmd, pause: Duration, lost: &AtomicBool, over: &Receiver<()>) {
    while over.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
        // After an error: the lease has not ended yet, and the next beat may get through.
        if server.try_call(extend).is_ok_and(|codes: Vec<i64>| codes != [1]) {
            return lost.store(true, SeqCst);
        }
    }
}

/// Gives the job back, so that this delivery does not count. A lease that is under way comes back
/// first, and `run` sees to it.
fn release_on_sigterm(mut server: Server, queue: &str, stopping: Arc<AtomicBool>, held: Arc<Mutex<Option<Job>>>) -> RedisResult<()> {
    let (mut signals, queue) = (Signals::new([SIGTERM])?, queue.to_owned());
    thread::spawn(move || {
        for _ in &mut signals {
            stopping.store(true, SeqCst);
            let job = held.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if let Some(job) = job {
                let released: RedisResult<()> = server.call(cmd("RQ.RELEASE").arg(&queue).arg(job.id).arg(job.token));
                process::exit(released.is_err().into());
            }
        }
    });
    Ok(())
}

/// Your work. In long work, look at `job.lost`.
fn handler(job: &Job) -> Result<(), String> {
    println!("{}, delivery {}: {}", job.id, job.deliveries, String::from_utf8_lossy(&job.payload));
    Ok(())
}

fn main() -> RedisResult<()> {
    let args: Vec<String> = env::args().skip(1).collect();
    let [url, queue, name] = args.as_slice() else {
        eprintln!("redis_rs_worker URL QUEUE NAME");
        process::exit(1);
    };
    run(url, queue, name, handler)
}
