//! GET, PEEK, LEN, INFO: looking without touching.

use std::cmp::Reverse;

use crate::due::max_deliveries;
use crate::effects::Turn;
use crate::error::{quote, Error};
use crate::id::{decimal, IdText, JobId};
use crate::job::{Job, Reason, Slot, State};
use crate::limits::PEEK_BYTES;
use crate::pause::Pause;
use crate::policy::Policy;
use crate::orders::ready_key;
use crate::queue::{Held, Queue};
use crate::schedule::Rule;
use crate::sink::Sink;
use crate::store::{ByTime, Entry};
use crate::timings::Recent;

/// Where a PEEK goes on: after this job in the order of its state. The job itself may be gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    priority: i8,
    time: u64,
    id: JobId,
}

impl Cursor {
    /// Reads a cursor; None is the beginning.
    pub(crate) fn parse(text: &[u8]) -> Result<Option<Cursor>, Error> {
        if text == b"0" {
            return Ok(None);
        }
        let mut parts = text.splitn(3, |byte| *byte == b'.');
        let cursor = (|| {
            let priority = u8::try_from(decimal(parts.next()?)?).ok()?;
            let time = decimal(parts.next()?)?;
            Some(Cursor { priority: priority as i8, time, id: JobId::parse(parts.next()?)? })
        })();
        match cursor {
            Some(cursor) => Ok(Some(cursor)),
            None => Err(Error::new(format!("CURSOR must be 0 or what RQ.PEEK replied before, not {}", quote(text)))),
        }
    }

    fn text(self) -> String {
        format!("{}.{}.{}", self.priority as u8, self.time, self.id)
    }
}

pub(crate) fn len(queue: &Queue, state: Option<State>, out: &mut dyn Sink) {
    out.uint(state.map_or_else(|| queue.live(), |state| queue.count(state) as u64));
}

pub(crate) fn get(queue: &Queue, id: JobId, out: &mut dyn Sink) {
    match queue.job(id) {
        Some(job) => write_job(queue, &job, true, out),
        None => out.null_array(),
    }
}

/// The job that has a dedup key; it may be gone while its window is open.
pub(crate) fn get_dedup(queue: &Queue, key: &[u8], now: u64, out: &mut dyn Sink) {
    match queue.dedup.owner(key, now) {
        Some(owner) => get(queue, owner.job, out),
        None => out.null_array(),
    }
}

/// The map of a job.
pub(crate) fn write_job(queue: &Queue, job: &Job<'_>, payload: bool, out: &mut dyn Sink) {
    let more = job.more();
    let fields = 29usize;
    out.map(if payload { fields } else { fields.saturating_sub(1) });
    let mut text = IdText::new();
    out.text("id");
    out.bulk(job.id.write(&mut text));
    out.text("state");
    out.text(job.state.name());
    out.text("priority");
    out.int(i64::from(job.priority));
    out.text("group");
    match queue.group(job) {
        Some(group) => out.bulk(group),
        None => out.null(),
    }
    out.text("dedup");
    match &more.dedup {
        Some(key) => out.bulk(key),
        None => out.null(),
    }
    out.text("schedule");
    match &more.schedule {
        Some(name) => out.bulk(name),
        None => out.null(),
    }
    // For which time its work is, however often it is retried.
    maybe(out, "slot-at", more.slot_at);
    number(out, "pushed-at", job.id.ms);
    number(out, "due-at", job.place);
    number(out, "deliveries", more.deliveries);
    number(out, "max-deliveries", max_deliveries(job, queue));
    number(out, "total-deliveries", more.total_deliveries);
    number(out, "failures", more.failures);
    number(out, "expiries", more.expiries);
    number(out, "releases", more.releases);
    number(out, "redrives", more.redrives);
    maybe(out, "token", more.token);
    out.text("consumer");
    match queue.consumer(job) {
        Some(consumer) => out.bulk(consumer),
        None => out.null(),
    }
    maybe(out, "lease-ms", more.lease_ms);
    let until = |state: State| if job.state == state { more.until } else { 0 };
    maybe(out, "deadline", until(State::Leased));
    maybe(out, "first-delivered-at", more.first_delivered_at);
    maybe(out, "last-delivered-at", more.last_delivered_at);
    maybe(out, "dead-at", until(State::Dead));
    maybe(out, "done-at", until(State::Done));
    out.text("reason");
    match more.reason {
        Some(reason) => out.text(reason.name()),
        None => out.null(),
    }
    out.text("error");
    if more.error.is_empty() {
        out.null();
    } else {
        out.bulk(&more.error);
    }
    out.text("result");
    if job.state == State::Done {
        out.bulk(&more.result);
    } else {
        out.null();
    }
    number(out, "size", job.size());
    if payload {
        out.text("payload");
        out.bulk(job.payload);
    }
}

fn number(out: &mut dyn Sink, name: &str, value: u64) {
    out.text(name);
    out.uint(value);
}

/// A number, 0 being none.
fn maybe(out: &mut dyn Sink, name: &str, value: u64) {
    out.text(name);
    if value == 0 { out.null() } else { out.uint(value) }
}

/// Dead jobs by the time at which they died, of one reason or of all, after a place in that order.
pub(crate) fn dead_after(
    queue: &Queue,
    reason: Option<Reason>,
    after: Option<(u64, JobId)>,
) -> impl Iterator<Item = ((u64, JobId), Slot)> + '_ {
    let orders = Reason::ALL.into_iter().filter(move |one| reason.is_none_or(|reason| reason == *one));
    let keys = |dead| ByTime::after(dead, after, &queue.jobs).filter_map(|entry| Some(((entry.at(), queue.jobs.id(entry.slot())?), entry.slot())));
    let mut heads: Vec<_> = orders.filter_map(|one| Some(keys(queue.dead.get(one as usize)?).peekable())).collect();
    std::iter::from_fn(move || {
        let oldest = heads.iter_mut().filter_map(|head| head.peek().copied()).min()?;
        heads.iter_mut().find_map(|head| head.next_if_eq(&oldest))
    })
}

pub(crate) fn peek(queue: &Queue, state: State, cursor: Option<Cursor>, count: u64, payload: bool, out: &mut dyn Sink) {
    let by_time = cursor.map(|cursor| (cursor.time, cursor.id));
    let in_order = |order| ByTime::after(order, by_time, &queue.jobs).map(Entry::slot);
    let slots: Box<dyn Iterator<Item = Slot>> = match state {
        State::Ready => {
            let after = cursor.map(|cursor| (Reverse(cursor.priority), cursor.time, cursor.id));
            Box::new(queue.ready_after(after).map(|(_, slot)| slot))
        }
        State::Delayed => Box::new(in_order(&queue.delayed)),
        State::Leased => Box::new(in_order(&queue.leased)),
        State::Dead => Box::new(dead_after(queue, None, by_time).map(|(_, slot)| slot)),
        State::Done => Box::new(in_order(&queue.done)),
    };
    let mut jobs = slots.filter_map(|slot| queue.jobs.get(slot)).peekable();
    let (mut page, mut bytes): (Vec<Job<'_>>, u64) = (Vec::new(), 0);
    while (page.len() as u64) < count && (bytes < PEEK_BYTES || !payload) {
        let Some(job) = jobs.next() else { break };
        bytes = bytes.saturating_add(job.size());
        page.push(job);
    }
    let last = page.last().filter(|_| jobs.peek().is_some());
    let next = last.map_or_else(|| "0".to_string(), |job| place_of(job).text());
    out.array(2);
    out.text(&next);
    out.array(page.len());
    for job in page {
        write_job(queue, &job, payload, out);
    }
}

/// The place of a job in the order of its state.
fn place_of(job: &Job<'_>) -> Cursor {
    let time = match job.state {
        State::Ready => ready_key(job).1,
        State::Delayed => job.place,
        State::Leased | State::Dead | State::Done => job.until,
    };
    let priority = if job.state == State::Ready { job.priority } else { 0 };
    Cursor { priority, time, id: job.id }
}

pub(crate) fn info(queue: &Queue, turn: &Turn<'_>, out: &mut dyn Sink) {
    let counts: [(&str, u64); 12] = {
        let of = |state: State| queue.count(state) as u64;
        let dead = |reason: Reason| queue.dead_count(reason) as u64;
        [
            ("length", queue.live()),
            ("ready", of(State::Ready)),
            ("scheduled", of(State::Delayed).saturating_sub(queue.retrying)),
            ("retrying", queue.retrying),
            ("leased", of(State::Leased)),
            ("dead", of(State::Dead)),
            ("dead-failed", dead(Reason::Failed)),
            ("dead-expired-lease", dead(Reason::ExpiredLease)),
            ("dead-rejected", dead(Reason::Rejected)),
            ("dead-ttl", dead(Reason::Ttl)),
            ("done", of(State::Done)),
            ("delayed", of(State::Delayed)),
        ]
    };
    let bytes = |state: State| queue.bytes.get(state as usize).copied().unwrap_or(0);
    let sizes = State::ALL.map(|state| (bytes_name(state), bytes(state)));
    let (held, held_bytes) = queue.dedup.held();
    let totals = &queue.head.totals;
    let totals = [
        ("pushed-total", totals.pushed),
        ("delivered-total", totals.delivered),
        ("acked-total", totals.acked),
        ("failed-total", totals.failed),
        ("expired-total", totals.expired),
        ("released-total", totals.released),
        ("dead-total", totals.dead),
        ("redriven-total", totals.redriven),
        ("dead-dropped-total", totals.dead_dropped),
        ("trimmed-total", totals.trimmed),
        ("slots-skipped-total", totals.slots_skipped),
        ("held-duplicates", held),
        ("held-bytes", held_bytes),
        ("groups", queue.groups.len() as u64),
        ("schedules", queue.schedules.len() as u64),
        ("dedup-keys", queue.dedup.len() as u64),
        ("local-duplicates", turn.local.duplicates),
        ("local-full", turn.local.full),
        ("local-stale", turn.local.stale),
        ("blocked-clients", turn.local.blocked),
    ];
    let age = |since: Option<u64>| since.map(|since| turn.now.saturating_sub(since));
    let ages = [
        ("oldest-ready-ms", age(queue.oldest_ready_ms())),
        ("oldest-lease-ms", age(queue.names.oldest())),
        ("oldest-dead-ms", age(queue.oldest(State::Dead).map(|(since, _)| since))),
        ("next-due-at", queue.delayed.first().map(|first| first.at())),
    ];
    let Recent { wait, run, .. } = turn.local.recent;
    let recent = [
        ("wait-ms-p50", wait.map(|wait| wait.p50)),
        ("wait-ms-p99", wait.map(|wait| wait.p99)),
        ("run-ms-p50", run.map(|run| run.p50)),
        ("run-ms-p99", run.map(|run| run.p99)),
    ];
    let pauses = [("paused-in", &queue.head.paused_in), ("paused-out", &queue.head.paused_out)];
    let pairs = [Policy::COUNT, counts.len(), sizes.len(), 1, pauses.len(), pauses.len(), ages.len(), totals.len(), recent.len()];
    out.map(pairs.into_iter().sum());
    queue.head.policy.write(out);
    for (name, value) in counts.into_iter().chain(sizes) {
        number(out, name, value);
    }
    out.text("held");
    out.text(held_name(queue, turn.now));
    for (name, pause) in pauses {
        let pause = Pause::on(pause.as_deref(), turn.now);
        // When it ends; 0: only by RESUME; null: not paused.
        out.text(name);
        match pause {
            Some(pause) => out.uint(pause.until.unwrap_or(0)),
            None => out.null(),
        }
        out.text(&format!("{name}-reason"));
        match pause.filter(|pause| !pause.reason.is_empty()) {
            Some(pause) => out.bulk(&pause.reason),
            None => out.null(),
        }
    }
    for (name, value) in ages {
        out.text(name);
        match value {
            Some(value) => out.uint(value),
            None => out.null(),
        }
    }
    for (name, value) in totals {
        number(out, name, value);
    }
    for (name, value) in recent {
        out.text(name);
        match value {
            Some(value) => out.uint(value),
            None => out.null(),
        }
    }
}

/// Why nothing would be leased now.
pub(crate) fn held_name(queue: &Queue, now: u64) -> &'static str {
    match queue.barred(now) {
        Some(Held::Paused) => "paused",
        Some(Held::Concurrency) => "concurrency",
        Some(Held::RateUntil(_)) => "rate",
        None if queue.count(State::Ready) == 0 => "empty",
        None if queue.ready.len(&queue.jobs) > 0 || queue.groups.any_free(&queue.head.policy, now) => "no",
        None => "groups",
    }
}

/// Groups by name: `[name, ready, leased, retrying, jobs, paused-until, oldest-ready-ms]`; a pause
/// is null if there is none and 0 if it has no end, the age null if nothing is ready.
pub(crate) fn groups(queue: &Queue, after: Option<&[u8]>, count: u64, turn: &Turn<'_>, out: &mut dyn Sink) {
    let page: Vec<_> = queue.groups.after(after).map(|(_, group)| group).take(usize::try_from(count).unwrap_or(usize::MAX)).collect();
    out.array(page.len());
    for group in page {
        out.array(7);
        out.bulk(&group.name);
        out.uint(group.ready());
        out.uint(group.leased);
        out.uint(group.retrying);
        out.uint(group.jobs);
        match Pause::on(group.pause.as_ref(), turn.now) {
            Some(pause) => out.uint(pause.until.unwrap_or(0)),
            None => out.null(),
        }
        age(out, group.oldest_ready(), turn);
    }
}

/// How long ago that was, in ms; null: never.
fn age(out: &mut dyn Sink, since: Option<u64>, turn: &Turn<'_>) {
    match since {
        Some(since) => out.uint(turn.now.saturating_sub(since)),
        None => out.null(),
    }
}

/// Schedules by name, as maps.
pub(crate) fn schedules(queue: &Queue, out: &mut dyn Sink) {
    out.array(queue.schedules.len());
    for (name, schedule) in queue.schedules.iter() {
        let plan = &schedule.plan;
        let bytes = |out: &mut dyn Sink, name: &str, value: Option<&[u8]>| {
            out.text(name);
            match value {
                Some(value) => out.bulk(value),
                None => out.null(),
            }
        };
        let (cron, zone, every) = match &plan.rule {
            Rule::Cron { line, zone } => (Some(&line[..]), Some(&zone[..]).filter(|zone| !zone.is_empty()), 0),
            Rule::Every { ms, .. } => (None, None, *ms),
        };
        out.map(18);
        bytes(out, "name", Some(name));
        bytes(out, "cron", cron);
        bytes(out, "tz", zone);
        maybe(out, "every", every);
        maybe(out, "start", plan.start.unwrap_or(0));
        maybe(out, "end", plan.end.unwrap_or(0));
        maybe(out, "limit", plan.limit.unwrap_or(0));
        bytes(out, "missed", Some(plan.missed.name().as_bytes()));
        out.text("priority");
        out.int(i64::from(plan.options.priority));
        maybe(out, "lease", plan.options.lease_ms);
        out.text("maxdeliveries");
        match plan.options.max_deliveries {
            Some(max) => out.uint(max),
            None => out.null(),
        }
        maybe(out, "ttl", plan.options.ttl_ms);
        bytes(out, "group", plan.group.as_deref());
        bytes(out, "dedup", plan.dedup.as_deref());
        maybe(out, "next-at", schedule.next.unwrap_or(0));
        number(out, "made", schedule.made);
        number(out, "refused", schedule.refused);
        bytes(out, "payload", Some(&plan.payload));
    }
}

/// Consumers that a job remembers, by name: `[name, leased, jobs, oldest-lease-ms, last-seen-ms]`,
/// the first age null if it has leased nothing, the other one if it has not called here.
pub(crate) fn consumers(queue: &Queue, after: Option<&[u8]>, count: u64, turn: &Turn<'_>, out: &mut dyn Sink) {
    let page: Vec<_> = queue.names.after(after).take(usize::try_from(count).unwrap_or(usize::MAX)).collect();
    out.array(page.len());
    for name in page {
        out.array(5);
        out.bulk(&name.text);
        out.uint(name.leases.len() as u64);
        out.uint(name.jobs);
        age(out, name.leases.first().map(|first| first.time(&queue.jobs)), turn);
        age(out, Some(name.seen).filter(|seen| *seen > 0), turn);
    }
}

fn bytes_name(state: State) -> &'static str {
    match state {
        State::Ready => "ready-bytes",
        State::Delayed => "delayed-bytes",
        State::Leased => "leased-bytes",
        State::Dead => "dead-bytes",
        State::Done => "done-bytes",
    }
}
