//! What the server's replies say, and rates from two of them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use redis::Value;

/// A queue, as RQ.QUEUES lists it.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    pub name: Vec<u8>,
    pub ready: u64,
    pub leased: u64,
    pub dead: u64,
    pub oldest_ready_ms: Option<u64>,
}

/// What of RQ.INFO is shown.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Info {
    pub scheduled: u64,
    pub retrying: u64,
    pub dead: u64,
    /// How many ever died.
    pub dead_total: u64,
    pub done: u64,
    /// How many are dead of each reason, by the reason's name.
    pub dead_of: BTreeMap<String, u64>,
    /// Why nothing would be leased now.
    pub held: String,
    /// When the pause ends, 0 if it does not by itself.
    pub paused_out: Option<u64>,
    pub paused_reason: Option<Vec<u8>>,
    pub oldest_lease_ms: Option<u64>,
    pub oldest_dead_ms: Option<u64>,
    pub blocked_clients: u64,
    /// How long jobs waited and ran, the middle and the 99th of 100, in ms. Not all servers' RQ
    /// has them.
    pub wait_ms: Option<(u64, u64)>,
    pub run_ms: Option<(u64, u64)>,
    pub totals: Totals,
}

/// By the queue's name.
pub type Infos = BTreeMap<Vec<u8>, Info>;

/// Counters that only grow, as long as the queue is the same.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Totals {
    pub pushed: u64,
    pub delivered: u64,
    pub acked: u64,
    pub failed: u64,
}

/// How often each second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rates {
    pub pushed: f64,
    pub delivered: f64,
    pub acked: f64,
    pub failed: f64,
}

/// A worker, as RQ.CONSUMERS lists it.
#[derive(Debug, Clone, PartialEq)]
pub struct Consumer {
    pub name: Vec<u8>,
    pub leased: u64,
    pub oldest_lease_ms: Option<u64>,
}

/// A dead job, as RQ.PEEK shows it.
#[derive(Debug, Clone, PartialEq)]
pub struct Dead {
    pub id: Vec<u8>,
    pub reason: String,
    pub deliveries: u64,
    pub consumer: Option<Vec<u8>>,
    pub error: Option<Vec<u8>>,
    pub dead_at: u64,
}

/// The chosen queue from near: its workers and newest dead jobs, or why the server would not say.
#[derive(Debug, Clone)]
pub struct Detail {
    pub queue: Vec<u8>,
    pub consumers: Result<Vec<Consumer>, String>,
    /// The newest first.
    pub dead: Result<Vec<Dead>, String>,
    /// Whether there are newer ones that were not read yet.
    pub dead_is_behind: bool,
}

/// All that was asked for at one time.
#[derive(Debug, Clone)]
pub struct Sample {
    pub at: Instant,
    /// The same by this machine's clock, to tell how long ago something was.
    pub unix_ms: u64,
    /// By name.
    pub rows: Vec<Row>,
    /// Of the queues that were asked for.
    pub infos: Infos,
    pub detail: Option<Detail>,
    /// Why RQ.INFO of some queue was refused.
    pub refused: Option<String>,
}

impl Rates {
    /// None if the counters went back: the queue was deleted and made again in between.
    pub fn between(before: &Totals, now: &Totals, time: Duration) -> Option<Rates> {
        let seconds = time.as_secs_f64();
        let rate = |before: u64, now: u64| now.checked_sub(before).filter(|_| seconds > 0.0).map(|grown| grown as f64 / seconds);
        Some(Rates {
            pushed: rate(before.pushed, now.pushed)?,
            delivered: rate(before.delivered, now.delivered)?,
            acked: rate(before.acked, now.acked)?,
            failed: rate(before.failed, now.failed)?,
        })
    }
}

/// The reply of RQ.QUEUES, by name.
pub fn rows(reply: &Value) -> Option<Vec<Row>> {
    let mut rows: Vec<Row> = array(reply)?.iter().map(row).collect::<Option<_>>()?;
    rows.sort_by(|a, b| a.name.cmp(&b.name));
    Some(rows)
}

fn row(reply: &Value) -> Option<Row> {
    let [name, ready, leased, dead, oldest, ..] = array(reply)? else { return None };
    Some(Row {
        name: bytes(name)?.to_vec(),
        ready: int(ready)?,
        leased: int(leased)?,
        dead: int(dead)?,
        oldest_ready_ms: int(oldest),
    })
}

/// The reply of RQ.CONSUMERS: those that hold a lease first, of them the longest first.
pub fn consumers(reply: &Value) -> Option<Vec<Consumer>> {
    let mut consumers: Vec<Consumer> = array(reply)?.iter().map(consumer).collect::<Option<_>>()?;
    consumers.sort_by_key(|each| std::cmp::Reverse(each.oldest_lease_ms));
    Some(consumers)
}

fn consumer(reply: &Value) -> Option<Consumer> {
    let [name, leased, _jobs, oldest, ..] = array(reply)? else { return None };
    Some(Consumer { name: bytes(name)?.to_vec(), leased: int(leased)?, oldest_lease_ms: int(oldest) })
}

/// The reply of RQ.PEEK of dead jobs: the next cursor, and the jobs, the oldest first.
pub fn dead_page(reply: &Value) -> Option<(Vec<u8>, Vec<Dead>)> {
    let [next, jobs] = array(reply)? else { return None };
    Some((bytes(next)?.to_vec(), array(jobs)?.iter().map(dead).collect::<Option<_>>()?))
}

fn dead(reply: &Value) -> Option<Dead> {
    let fields = Fields::of(reply)?;
    Some(Dead {
        id: fields.bytes("id")?,
        reason: fields.text("reason")?,
        deliveries: fields.int("deliveries")?,
        consumer: fields.bytes("consumer"),
        error: fields.bytes("error"),
        dead_at: fields.int("dead-at")?,
    })
}

/// The reply of RQ.INFO.
pub fn info(reply: &Value) -> Option<Info> {
    let fields = Fields::of(reply)?;
    let both = |p50, p99| Some((fields.int(p50)?, fields.int(p99)?));
    let reasons = fields.0.iter().filter_map(|(name, value)| {
        let reason = name.strip_prefix("dead-").filter(|rest| !matches!(*rest, "total" | "bytes" | "dropped-total"))?;
        Some((reason.to_owned(), int(value)?))
    });
    Some(Info {
        scheduled: fields.int("scheduled")?,
        retrying: fields.int("retrying")?,
        dead: fields.int("dead")?,
        dead_total: fields.int("dead-total")?,
        done: fields.int("done")?,
        dead_of: reasons.collect(),
        held: fields.text("held")?,
        paused_out: fields.int("paused-out"),
        paused_reason: fields.bytes("paused-out-reason"),
        oldest_lease_ms: fields.int("oldest-lease-ms"),
        oldest_dead_ms: fields.int("oldest-dead-ms"),
        blocked_clients: fields.int("blocked-clients")?,
        wait_ms: both("wait-ms-p50", "wait-ms-p99"),
        run_ms: both("run-ms-p50", "run-ms-p99"),
        totals: Totals {
            pushed: fields.int("pushed-total")?,
            delivered: fields.int("delivered-total")?,
            acked: fields.int("acked-total")?,
            failed: fields.int("failed-total")?,
        },
    })
}

/// A map: of RESP3, or the flat array of pairs that RESP2 has.
struct Fields<'a>(BTreeMap<&'a str, &'a Value>);

impl<'a> Fields<'a> {
    fn of(reply: &'a Value) -> Option<Fields<'a>> {
        let pairs = reply.as_map_iter()?;
        Some(Fields(pairs.filter_map(|(name, value)| Some((std::str::from_utf8(bytes(name)?).ok()?, value))).collect()))
    }

    fn int(&self, name: &str) -> Option<u64> {
        int(self.0.get(name)?)
    }

    fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        bytes(self.0.get(name)?).map(<[u8]>::to_vec)
    }

    fn text(&self, name: &str) -> Option<String> {
        self.bytes(name).map(|bytes| crate::text::shown(&bytes))
    }
}

fn array(reply: &Value) -> Option<&[Value]> {
    match reply {
        Value::Array(items) => Some(items),
        _ => None,
    }
}

fn int(reply: &Value) -> Option<u64> {
    match reply {
        Value::Int(n) => u64::try_from(*n).ok(),
        _ => None,
    }
}

fn bytes(reply: &Value) -> Option<&[u8]> {
    match reply {
        Value::BulkString(bytes) => Some(bytes),
        Value::SimpleString(text) => Some(text.as_bytes()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    fn flat(pairs: &[(&str, Value)]) -> Value {
        Value::Array(pairs.iter().flat_map(|(name, value)| [text(name), value.clone()]).collect())
    }

    fn info_pairs() -> Vec<(&'static str, Value)> {
        let numbers = [
            ("lease", 30_000), ("ready", 1), ("scheduled", 2), ("retrying", 3), ("dead", 4), ("dead-failed", 3),
            ("dead-rejected", 1), ("done", 5), ("dead-bytes", 99), ("blocked-clients", 6), ("oldest-dead-ms", 7),
            ("pushed-total", 10), ("delivered-total", 20), ("acked-total", 30), ("failed-total", 40), ("dead-total", 50),
            ("dead-dropped-total", 60),
        ];
        let mut pairs: Vec<_> = numbers.map(|(name, n)| (name, Value::Int(n))).into();
        pairs.extend([("held", text("paused")), ("paused-out", Value::Int(0)), ("paused-out-reason", text("repair"))]);
        pairs.push(("oldest-lease-ms", Value::Nil));
        pairs
    }

    #[test]
    fn info_in_both_protocols() {
        let pairs = info_pairs();
        let map = Value::Map(pairs.iter().map(|(name, value)| (text(name), value.clone())).collect());
        let read = info(&flat(&pairs)).unwrap();
        assert_eq!(info(&map).unwrap(), read);
        assert_eq!((read.scheduled, read.retrying, read.dead, read.dead_total, read.done, read.blocked_clients), (2, 3, 4, 50, 5, 6));
        assert_eq!(read.dead_of, BTreeMap::from([("failed".to_owned(), 3), ("rejected".to_owned(), 1)]));
        assert_eq!((read.held.as_str(), read.paused_out, read.paused_reason.as_deref()), ("paused", Some(0), Some(&b"repair"[..])));
        assert_eq!((read.oldest_lease_ms, read.oldest_dead_ms), (None, Some(7)));
        assert_eq!(read.totals, Totals { pushed: 10, delivered: 20, acked: 30, failed: 40 });
        assert_eq!((read.wait_ms, read.run_ms), (None, None), "an RQ without them");
    }

    #[test]
    fn percentiles_where_there_are_some() {
        let mut pairs = info_pairs();
        pairs.extend([("wait-ms-p50", Value::Int(1)), ("wait-ms-p99", Value::Int(9))]);
        pairs.extend([("run-ms-p50", Value::Nil), ("run-ms-p99", Value::Nil)]);
        let read = info(&flat(&pairs)).unwrap();
        assert_eq!((read.wait_ms, read.run_ms), (Some((1, 9)), None));
    }

    #[test]
    fn replies_of_another_shape() {
        for reply in [Value::Nil, Value::Int(1), text("x"), Value::Array(vec![text("x")]), Value::Array(vec![Value::Nil])] {
            assert!(rows(&reply).is_none() && consumers(&reply).is_none(), "{reply:?}");
            assert!(dead_page(&reply).is_none() && info(&reply).is_none(), "{reply:?}");
        }
    }

    #[test]
    fn queues_by_name_with_what_later_versions_add() {
        let row = |name: &str, oldest| {
            Value::Array(vec![text(name), Value::Int(1), Value::Int(2), Value::Int(3), oldest, text("new")])
        };
        let read = rows(&Value::Array(vec![row("b", Value::Nil), row("a", Value::Int(5))])).unwrap();
        assert_eq!(read.iter().map(|row| (row.name.as_slice(), row.oldest_ready_ms)).collect::<Vec<_>>(), [(&b"a"[..], Some(5)), (b"b", None)]);
        assert_eq!((read[0].ready, read[0].leased, read[0].dead), (1, 2, 3));
    }

    #[test]
    fn the_worker_that_holds_a_lease_longest_comes_first() {
        let one = |name: &str, oldest| Value::Array(vec![text(name), Value::Int(1), Value::Int(1), oldest]);
        let reply = Value::Array(vec![one("a", Value::Int(3)), one("b", Value::Nil), one("c", Value::Int(9))]);
        let names: Vec<_> = consumers(&reply).unwrap().into_iter().map(|each| each.name).collect();
        assert_eq!(names, [b"c", b"a", b"b"]);
    }

    #[test]
    fn rates() {
        let before = Totals { pushed: 10, delivered: 10, acked: 10, failed: 10 };
        let now = Totals { pushed: 30, delivered: 10, acked: 11, failed: 15 };
        let rates = Rates::between(&before, &now, Duration::from_millis(2000)).unwrap();
        assert_eq!(rates, Rates { pushed: 10.0, delivered: 0.0, acked: 0.5, failed: 2.5 });
        assert_eq!(Rates::between(&now, &before, Duration::from_secs(1)), None, "another queue of that name");
        assert_eq!(Rates::between(&before, &now, Duration::ZERO), None);
    }
}
