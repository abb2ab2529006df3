//! The connection: takes samples, brings dead jobs back, pauses and resumes. Connects anew by
//! itself; a call that fails for want of a connection says so.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use redis::{cmd, pipe, Client, Cmd, Connection, ConnectionInfo, RedisError, Value};

use crate::model::{self, Detail, Info, Infos, Row, Sample};
use crate::newest::{Counts, Newest};
use crate::text::shown;

/// How long to wait for a connection, and for a reply.
const PATIENCE: Duration = Duration::from_secs(5);
/// How many queues are listed.
const MOST_QUEUES: u64 = 1000;
/// How many workers of the chosen queue.
const MOST_CONSUMERS: u64 = 1000;
/// How many dead jobs are brought back in one call; the server has others to serve in between.
const BATCH: u64 = 1000;

/// What a sample shall tell of: all queues, more of some, most of one.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Wish {
    /// Which queues are on the screen: so many from this one on, in the order of names.
    pub first: usize,
    pub rows: usize,
    pub chosen: Option<Vec<u8>>,
    /// Whether the chosen one's workers and dead jobs are wanted.
    pub detail: bool,
}

/// Why there is no answer, for people.
#[derive(Debug, Clone, PartialEq)]
pub enum Failure {
    /// No connection, or it broke.
    Lost(String),
    /// The server's own words.
    Refused(String),
}

impl Failure {
    pub fn text(&self) -> &str {
        match self {
            Failure::Lost(text) | Failure::Refused(text) => text,
        }
    }
}

/// How many dead jobs came back.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Redriven {
    pub moved: u64,
    /// Their dedup keys are other jobs' by now.
    pub skipped: u64,
}

/// The server.
pub struct Server {
    client: Client,
    connection: Option<Connection>,
    newest: Newest,
}

impl Server {
    pub fn new(address: ConnectionInfo) -> Result<Server, Failure> {
        let client = Client::open(address).map_err(|error| Failure::Lost(error_text(&error)))?;
        Ok(Server { client, connection: None, newest: Newest::default() })
    }

    /// All that is wished for. Only a refused list of queues fails the whole.
    pub fn sample(&mut self, wish: &Wish) -> Result<Sample, Failure> {
        let reply = self.call(cmd("RQ.QUEUES").arg("COUNT").arg(MOST_QUEUES))?;
        let rows = model::rows(&reply).ok_or_else(|| unknown_shape("RQ.QUEUES"))?;
        let (infos, refused) = self.infos(&rows, wish)?;
        let detail = match &wish.chosen {
            Some(queue) if wish.detail => Some(self.detail(queue, infos.get(queue))?),
            _ => None,
        };
        Ok(Sample { at: Instant::now(), unix_ms: unix_ms(), rows, infos, detail, refused })
    }

    fn infos(&mut self, rows: &[Row], wish: &Wish) -> Result<(Infos, Option<String>), Failure> {
        let on_screen = rows.iter().skip(wish.first).take(wish.rows).map(|row| &row.name);
        let names: Vec<&Vec<u8>> = on_screen.chain(&wish.chosen).collect();
        let mut calls = pipe();
        calls.ignore_errors();
        for name in &names {
            calls.cmd("RQ.INFO").arg(name.as_slice());
        }
        let replies: Vec<Value> = if names.is_empty() { Vec::new() } else { self.with(|connection| calls.query(connection))? };
        let (mut infos, mut refused) = (Infos::new(), None);
        for (name, reply) in names.into_iter().zip(replies) {
            match reply {
                Value::ServerError(error) => {
                    refused = Some(shown(format!("{} {}", error.code(), error.details().unwrap_or("")).as_bytes()));
                }
                // Deleted since the list was made.
                Value::Nil => {}
                reply => {
                    infos.insert(name.clone(), model::info(&reply).ok_or_else(|| unknown_shape("RQ.INFO"))?);
                }
            }
        }
        Ok((infos, refused))
    }

    fn detail(&mut self, queue: &[u8], info: Option<&Info>) -> Result<Detail, Failure> {
        let consumers = self.call(cmd("RQ.CONSUMERS").arg(queue).arg("COUNT").arg(MOST_CONSUMERS));
        let consumers = consumers.and_then(|reply| model::consumers(&reply).ok_or_else(|| unknown_shape("RQ.CONSUMERS")));
        let counts = info.map_or(Counts::default(), |info| Counts { now: info.dead, ever: info.dead_total });
        let mut newest = std::mem::take(&mut self.newest);
        let read = newest.read(queue, counts, |cursor, count| {
            let mut peek = cmd("RQ.PEEK");
            peek.arg(queue).arg("DEAD").arg("CURSOR").arg(cursor).arg("COUNT").arg(count).arg("NOPAYLOAD");
            model::dead_page(&self.call(&peek)?).ok_or_else(|| unknown_shape("RQ.PEEK"))
        });
        self.newest = newest;
        let dead_is_behind = self.newest.is_behind();
        let dead = read.map(|()| self.newest.jobs().cloned().collect());
        Ok(Detail { queue: queue.to_vec(), consumers: refusal(consumers)?, dead: refusal(dead)?, dead_is_behind })
    }

    /// Brings back as many dead jobs as there were when it was asked for, a batch at a time; tells
    /// after each batch but the last how far it is.
    pub fn redrive(&mut self, queue: &[u8], dead: u64, mut tell: impl FnMut(Redriven)) -> Result<Redriven, Failure> {
        let (mut sum, mut left) = (Redriven::default(), dead);
        loop {
            let reply = self.call(cmd("RQ.REDRIVE").arg(queue).arg("COUNT").arg(left.clamp(1, BATCH)))?;
            let (moved, skipped, more): (u64, u64, u64) =
                redis::from_redis_value(reply).map_err(|_| unknown_shape("RQ.REDRIVE"))?;
            sum.moved = sum.moved.saturating_add(moved);
            // Each batch begins with the oldest and meets those again that stay.
            sum.skipped = sum.skipped.max(skipped);
            left = left.saturating_sub(moved);
            if more == 0 || left == 0 || moved == 0 {
                return Ok(sum);
            }
            tell(sum);
        }
    }

    /// Pauses leasing until it is resumed.
    pub fn pause(&mut self, queue: &[u8]) -> Result<(), Failure> {
        self.call(cmd("RQ.PAUSE").arg(queue).arg("OUT").arg("REASON").arg("rq-top")).map(drop)
    }

    /// Ends the pause of leasing.
    pub fn resume(&mut self, queue: &[u8]) -> Result<(), Failure> {
        self.call(cmd("RQ.RESUME").arg(queue).arg("OUT")).map(drop)
    }

    fn call(&mut self, command: &Cmd) -> Result<Value, Failure> {
        self.with(|connection| command.query(connection))
    }

    /// Runs calls over the connection, which is made if there is none.
    fn with<T>(&mut self, calls: impl FnOnce(&mut Connection) -> Result<T, RedisError>) -> Result<T, Failure> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            none => none.insert(connect(&self.client).map_err(|error| Failure::Lost(error_text(&error)))?),
        };
        calls(connection).map_err(|error| {
            if error.code().is_some() {
                return Failure::Refused(error_text(&error));
            }
            // Whatever else went wrong, replies may be left over in the connection.
            self.connection = None;
            Failure::Lost(error_text(&error))
        })
    }
}

fn unix_ms() -> u64 {
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn connect(client: &Client) -> Result<Connection, RedisError> {
    let connection = client.get_connection_with_timeout(PATIENCE)?;
    connection.set_read_timeout(Some(PATIENCE))?;
    connection.set_write_timeout(Some(PATIENCE))?;
    Ok(connection)
}

/// A refusal is told in its place; a lost connection ends the whole sample.
fn refusal<T>(result: Result<T, Failure>) -> Result<Result<T, String>, Failure> {
    match result {
        Ok(value) => Ok(Ok(value)),
        Err(Failure::Refused(text)) => Ok(Err(text)),
        Err(lost) => Err(lost),
    }
}

fn unknown_shape(command: &str) -> Failure {
    Failure::Refused(format!("{command} replies what this rq-top does not understand: is it of the module's version?"))
}

/// What the server said; without a server's words, the library's.
fn error_text(error: &RedisError) -> String {
    let text = match (error.code(), error.detail()) {
        (Some(code), Some(detail)) => format!("{code} {detail}"),
        _ => error.to_string(),
    };
    shown(text.as_bytes())
}
