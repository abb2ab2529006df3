//! Ops to bytes and back. Decoding checks every range, so that `apply` can trust its numbers.

use crate::dedup::{Held, Owner};
use crate::job::{Job, More, Reason, Settled, State};
use crate::limits::{MAX_DELIVERIES, MAX_LEASE_MS, MAX_NAME, MAX_PAYLOAD, MAX_SPAN_MS, MAX_STORED_TOKEN, MAX_TIME_MS};
use crate::op::{DedupKey, Due, Op, Stored};
use crate::policy::{Policy, Setting};
use crate::queue::{Header, Totals};
use crate::request::{JobOptions, When};
use crate::wire::{Malformed, Reader, Writer};

// The first byte of each op. A number is never used for anything else again.
const RESET: u8 = 1;
const PUT: u8 = 2;
const CREATE: u8 = 3;
const POLICY: u8 = 4;
const PUSH: u8 = 5;
const LEASE: u8 = 6;
const FINISH: u8 = 7;
const RETRY: u8 = 8;
const BURY: u8 = 9;
const NOTE: u8 = 10;
const RELEASE: u8 = 11;
const EXTEND: u8 = 12;
const EXPIRE: u8 = 13;
const PROMOTE: u8 = 14;
const REDRIVE: u8 = 15;
const SET: u8 = 16;
const DROP: u8 = 17;
const DISCARD: u8 = 18;
const REPLACE: u8 = 19;
const HOLD: u8 = 20;
const UNHOLD: u8 = 21;
const CLOSE_WINDOWS: u8 = 22;
const FORGET: u8 = 23;
const KEY: u8 = 24;

// The flags of PUSH: which options follow.
const WITH_DUE: u64 = 1;
const WITH_PRIORITY: u64 = 2;
const WITH_LEASE: u64 = 4;
const WITH_MAX_DELIVERIES: u64 = 8;
const WITH_TTL: u64 = 16;
const WITH_DEDUP: u64 = 32;
const ALL_WITH: u64 = 63;

/// Appends an op to a batch.
pub(crate) fn encode(op: &Op<'_>, out: &mut Writer) {
    match op {
        Op::Reset(header) => {
            out.byte(RESET);
            encode_header(header, out);
        }
        Op::Put(stored) => {
            out.byte(PUT);
            encode_job(&stored.job, stored.consumer.as_deref(), out);
        }
        Op::Create { incarnation } => {
            out.byte(CREATE);
            out.number(*incarnation);
        }
        Op::Policy(setting) => {
            out.byte(POLICY);
            encode_setting(setting, out);
        }
        Op::Push { id, due, options, dedup, payload } => {
            out.byte(PUSH);
            out.id(*id);
            encode_contents(*due, options, *dedup, payload, out);
        }
        Op::Lease { id, token, lease_ms, consumer } => {
            out.byte(LEASE);
            out.id(*id);
            out.token(*token);
            out.number(*lease_ms);
            out.name(consumer);
        }
        Op::Finish { id, keep } => {
            out.byte(FINISH);
            out.id(*id);
            optional(*keep, out, Writer::blob);
        }
        Op::Retry { id, due, error } => {
            out.byte(RETRY);
            out.id(*id);
            optional(*due, out, Writer::time);
            optional(*error, out, Writer::error);
        }
        Op::Bury { id, reason, error } => {
            out.byte(BURY);
            out.id(*id);
            out.byte(*reason as u8);
            optional(*error, out, Writer::error);
        }
        Op::Note { id, error } => {
            out.byte(NOTE);
            out.id(*id);
            optional(*error, out, Writer::error);
        }
        Op::Release { id, due } => {
            out.byte(RELEASE);
            out.id(*id);
            optional(*due, out, Writer::time);
        }
        Op::Extend { id, deadline } => {
            out.byte(EXTEND);
            out.id(*id);
            out.time(*deadline);
        }
        Op::Expire { id, due } => {
            out.byte(EXPIRE);
            out.id(*id);
            optional(*due, out, Writer::time);
        }
        Op::Promote { due, id } => {
            out.byte(PROMOTE);
            out.time(*due);
            out.id(*id);
        }
        Op::Redrive { id, due, priority } => {
            out.byte(REDRIVE);
            out.id(*id);
            optional(*due, out, Writer::time);
            optional(*priority, out, |out, priority| out.byte(priority as u8));
        }
        Op::Set { id, priority, due } => {
            out.byte(SET);
            out.id(*id);
            optional(*priority, out, |out, priority| out.byte(priority as u8));
            encode_due(*due, out);
        }
        Op::Replace { id, priority, due, window_ms, payload } => {
            out.byte(REPLACE);
            out.id(*id);
            out.byte(*priority as u8);
            encode_due(*due, out);
            out.number(*window_ms);
            out.string(payload);
        }
        Op::Hold { due, options, dedup, payload } => {
            out.byte(HOLD);
            encode_contents(*due, options, Some(*dedup), payload, out);
        }
        Op::Unhold { ended, id } => {
            out.byte(UNHOLD);
            out.id(*ended);
            out.id(*id);
        }
        Op::CloseWindows { until, key } => {
            out.byte(CLOSE_WINDOWS);
            out.time(*until);
            out.string(key);
        }
        Op::Forget { key } => {
            out.byte(FORGET);
            out.string(key);
        }
        Op::Key { key, owner } => {
            out.byte(KEY);
            encode_owner(key, owner, out);
        }
        Op::Drop { id } => {
            out.byte(DROP);
            out.id(*id);
        }
        Op::Discard { id } => {
            out.byte(DISCARD);
            out.id(*id);
        }
    }
}

fn encode_due(due: Option<Due>, out: &mut Writer) {
    match due {
        None => out.byte(0),
        Some(Due::Ready(at)) => {
            out.byte(1);
            out.time(at);
        }
        Some(Due::Delayed(at)) => {
            out.byte(2);
            out.time(at);
        }
    }
}

fn decode_due(from: &mut Reader<'_>) -> Result<Option<Due>, Malformed> {
    Ok(match from.byte()? {
        0 => None,
        1 => Some(Due::Ready(from.time()?)),
        2 => Some(Due::Delayed(from.time()?)),
        _ => return Err(from.wrong("neither ready nor delayed")),
    })
}

/// What PUSH says about a job beside its id.
fn encode_contents(due: Option<u64>, options: &JobOptions, dedup: Option<DedupKey<'_>>, payload: &[u8], out: &mut Writer) {
    let flag = |on: bool, flag: u64| if on { flag } else { 0 };
    out.number(
        flag(due.is_some(), WITH_DUE)
            | flag(options.priority != 0, WITH_PRIORITY)
            | flag(options.lease_ms > 0, WITH_LEASE)
            | flag(options.max_deliveries.is_some(), WITH_MAX_DELIVERIES)
            | flag(options.ttl_ms > 0, WITH_TTL)
            | flag(dedup.is_some(), WITH_DEDUP),
    );
    if let Some(due) = due {
        out.time(due);
    }
    if options.priority != 0 {
        out.byte(options.priority as u8);
    }
    if options.lease_ms > 0 {
        out.number(options.lease_ms);
    }
    if let Some(max) = options.max_deliveries {
        out.number(max);
    }
    if options.ttl_ms > 0 {
        out.number(options.ttl_ms);
    }
    if let Some(dedup) = dedup {
        out.string(dedup.key);
        out.number(dedup.window_ms);
    }
    out.string(payload);
}

fn optional<T>(value: Option<T>, out: &mut Writer, write: impl FnOnce(&mut Writer, T)) {
    match value {
        None => out.byte(0),
        Some(value) => {
            out.byte(1);
            write(out, value);
        }
    }
}

/// Reads one op of a batch whose time is `now`.
pub(crate) fn decode<'a>(from: &mut Reader<'a>, now: u64) -> Result<Op<'a>, Malformed> {
    Ok(match from.byte()? {
        RESET => Op::Reset(Box::new(decode_header(from)?)),
        PUT => Op::Put(Box::new(decode_job(from)?)),
        CREATE => Op::Create { incarnation: from.number()? },
        POLICY => Op::Policy(decode_setting(from)?),
        PUSH => {
            let id = from.id()?;
            let Contents { due, options, dedup, payload } = decode_contents(from)?;
            Op::Push { id, due, options, dedup, payload }
        }
        REPLACE => Op::Replace {
            id: from.id()?,
            priority: priority(from)?,
            due: decode_due(from)?,
            window_ms: from.limited(MAX_SPAN_MS, "a window out of range")?,
            payload: from.string(MAX_PAYLOAD)?,
        },
        HOLD => {
            let Contents { due, options, dedup, payload } = decode_contents(from)?;
            let dedup = dedup.ok_or_else(|| from.wrong("held without a key"))?;
            Op::Hold { due, options, dedup, payload }
        }
        UNHOLD => Op::Unhold { ended: from.id()?, id: from.id()? },
        CLOSE_WINDOWS => Op::CloseWindows { until: from.time()?, key: from.string(MAX_NAME)? },
        FORGET => Op::Forget { key: from.string(MAX_NAME)? },
        KEY => Op::Key { key: from.string(MAX_NAME)?, owner: Box::new(decode_owner(from)?) },
        LEASE => Op::Lease {
            id: from.id()?,
            token: at_least_one(from.token()?, from)?,
            lease_ms: lease_ms(from, now)?,
            consumer: from.name()?,
        },
        FINISH => Op::Finish { id: from.id()?, keep: maybe(from, Reader::blob)? },
        RETRY => Op::Retry {
            id: from.id()?,
            due: maybe(from, Reader::time)?,
            error: maybe(from, Reader::error)?,
        },
        BURY => Op::Bury {
            id: from.id()?,
            reason: reason(from)?,
            error: maybe(from, Reader::error)?,
        },
        NOTE => Op::Note { id: from.id()?, error: maybe(from, Reader::error)? },
        RELEASE => Op::Release { id: from.id()?, due: maybe(from, Reader::time)? },
        EXTEND => {
            let (id, deadline) = (from.id()?, from.time()?);
            if deadline > now.saturating_add(MAX_LEASE_MS) {
                return Err(from.wrong("a deadline out of range"));
            }
            Op::Extend { id, deadline }
        }
        EXPIRE => Op::Expire { id: from.id()?, due: maybe(from, Reader::time)? },
        PROMOTE => Op::Promote { due: from.time()?, id: from.id()? },
        REDRIVE => Op::Redrive {
            id: from.id()?,
            due: maybe(from, Reader::time)?,
            priority: maybe(from, priority)?,
        },
        SET => Op::Set {
            id: from.id()?,
            priority: maybe(from, priority)?,
            due: decode_due(from)?,
        },
        DROP => Op::Drop { id: from.id()? },
        DISCARD => Op::Discard { id: from.id()? },
        _ => return Err(from.wrong("an op that this module does not know: upgrade it")),
    })
}

fn maybe<'a, T>(
    from: &mut Reader<'a>,
    read: impl FnOnce(&mut Reader<'a>) -> Result<T, Malformed>,
) -> Result<Option<T>, Malformed> {
    match from.byte()? {
        0 => Ok(None),
        1 => read(from).map(Some),
        _ => Err(from.wrong("neither there nor not there")),
    }
}

fn priority(from: &mut Reader<'_>) -> Result<i8, Malformed> {
    Ok(from.byte()? as i8)
}

fn reason(from: &mut Reader<'_>) -> Result<Reason, Malformed> {
    Reason::from_number(from.byte()?).ok_or_else(|| from.wrong("an unknown reason"))
}

fn at_least_one(n: u64, from: &Reader<'_>) -> Result<u64, Malformed> {
    if n > 0 { Ok(n) } else { Err(from.wrong("a token of 0")) }
}

fn lease_ms(from: &mut Reader<'_>, now: u64) -> Result<u64, Malformed> {
    let ms = from.limited(MAX_LEASE_MS, "a lease out of range")?;
    if ms == 0 || now.saturating_add(ms) > MAX_TIME_MS { Err(from.wrong("a lease out of range")) } else { Ok(ms) }
}

/// What PUSH says about a job beside its id.
struct Contents<'a> {
    due: Option<u64>,
    options: JobOptions,
    dedup: Option<DedupKey<'a>>,
    payload: &'a [u8],
}

fn decode_contents<'a>(from: &mut Reader<'a>) -> Result<Contents<'a>, Malformed> {
    let flags = from.limited(ALL_WITH, "unknown options of a push")?;
    let has = |flag: u64| flags & flag > 0;
    let due = if has(WITH_DUE) { Some(from.time()?) } else { None };
    let mut options = JobOptions { when: When::Now, ..JobOptions::default() };
    if has(WITH_PRIORITY) {
        options.priority = priority(from)?;
    }
    if has(WITH_LEASE) {
        options.lease_ms = from.limited(MAX_LEASE_MS, "a lease out of range")?;
    }
    if has(WITH_MAX_DELIVERIES) {
        options.max_deliveries = Some(from.limited(MAX_DELIVERIES, "a number of deliveries out of range")?);
    }
    if has(WITH_TTL) {
        options.ttl_ms = from.limited(MAX_SPAN_MS, "a time to live out of range")?;
    }
    let dedup = if has(WITH_DEDUP) { Some(decode_dedup(from)?) } else { None };
    Ok(Contents { due, options, dedup, payload: from.string(MAX_PAYLOAD)? })
}

fn decode_dedup<'a>(from: &mut Reader<'a>) -> Result<DedupKey<'a>, Malformed> {
    Ok(DedupKey { key: from.string(MAX_NAME)?, window_ms: from.limited(MAX_SPAN_MS, "a window out of range")? })
}

fn encode_owner(key: &[u8], owner: &Owner, out: &mut Writer) {
    out.string(key);
    out.id(owner.job);
    out.number(owner.until);
    optional(owner.held.as_deref(), out, |out, held| {
        out.number(held.window_ms);
        encode_contents(held.due, &held.options, None, &held.payload, out);
    });
}

fn decode_owner(from: &mut Reader<'_>) -> Result<Owner, Malformed> {
    let job = from.id()?;
    let until = from.limited(MAX_TIME_MS, "a window out of range")?;
    let held = maybe(from, |from| {
        let window_ms = from.limited(MAX_SPAN_MS, "a window out of range")?;
        let Contents { due, options, payload, .. } = decode_contents(from)?;
        Ok(Box::new(Held { payload: payload.into(), options, due, window_ms }))
    })?;
    Ok(Owner { job, until, held })
}

fn encode_setting(setting: &Setting, out: &mut Writer) {
    out.byte(setting.opt as u8);
    let (first, second) = setting.numbers();
    out.number(first);
    if let Some(second) = second {
        out.number(second);
    }
}

fn decode_setting(from: &mut Reader<'_>) -> Result<Setting, Malformed> {
    let (number, first) = (from.byte()?, from.number()?);
    let setting = Setting::from_numbers(number, first, || from.number())?;
    setting.ok_or_else(|| from.wrong("an unknown option, or a value out of its range"))
}

fn encode_header(header: &Header, out: &mut Writer) {
    out.number(header.incarnation);
    out.id(header.last_id);
    out.number(header.last_token);
    out.number(header.newest_ms);
    out.number(header.longest_lease_ms);
    out.number(Policy::COUNT as u64);
    for setting in header.policy.settings() {
        encode_setting(&setting, out);
    }
    let t = &header.totals;
    let totals = [t.pushed, t.delivered, t.acked, t.failed, t.expired, t.released, t.dead, t.redriven, t.dead_dropped, t.trimmed];
    out.number(totals.len() as u64);
    for total in totals {
        out.number(total);
    }
}

fn decode_header(from: &mut Reader<'_>) -> Result<Header, Malformed> {
    let incarnation = from.number()?;
    let last_id = from.id()?;
    let last_token = from.limited(MAX_STORED_TOKEN, "a token out of range")?;
    let newest_ms = from.limited(MAX_TIME_MS, "a time out of range")?;
    let longest_lease_ms = from.limited(MAX_LEASE_MS, "a lease out of range")?;
    let mut policy = Policy::default();
    if from.number()? != Policy::COUNT as u64 {
        return Err(from.wrong("an unknown number of options"));
    }
    for number in 0..Policy::COUNT {
        let setting = decode_setting(from)?;
        if setting.opt as usize != number {
            return Err(from.wrong("options out of order"));
        }
        policy.set(setting);
    }
    if from.number()? != 10 {
        return Err(from.wrong("an unknown number of totals"));
    }
    let mut total = || from.limited(i64::MAX as u64, "a total out of range");
    let totals = Totals {
        pushed: total()?,
        delivered: total()?,
        acked: total()?,
        failed: total()?,
        expired: total()?,
        released: total()?,
        dead: total()?,
        redriven: total()?,
        dead_dropped: total()?,
        trimmed: total()?,
    };
    Ok(Header { incarnation, policy, last_id, last_token, newest_ms, longest_lease_ms, totals })
}

/// The optional numbers of a stored job, in the order of their bits. A field that is 0 is not
/// written. New ones are added at the end.
fn fields(more: &mut More) -> [&mut u64; 18] {
    [
        &mut more.own_lease_ms,
        &mut more.ttl_ms,
        &mut more.ttl_at,
        &mut more.token,
        &mut more.lease_ms,
        &mut more.until,
        &mut more.old_place,
        &mut more.back_since,
        &mut more.first_delivered_at,
        &mut more.last_delivered_at,
        &mut more.deliveries,
        &mut more.budget_failures,
        &mut more.budget_expiries,
        &mut more.total_deliveries,
        &mut more.failures,
        &mut more.expiries,
        &mut more.releases,
        &mut more.dedup_window_ms,
    ]
}

const BIT_REDRIVES: u64 = 1 << 18;
const BIT_MAX_DELIVERIES: u64 = 1 << 19;
const BIT_SETTLED: u64 = 1 << 20;
const BIT_CONSUMER: u64 = 1 << 21;
const BIT_REASON: u64 = 1 << 22;
const BIT_ERROR: u64 = 1 << 23;
const BIT_RESULT: u64 = 1 << 24;
const BIT_DEDUP: u64 = 1 << 25;
const ALL_BITS: u64 = (1 << 26) - 1;

/// Which of the numbers are times, near the batch's own: written as a difference to it.
fn is_time(field: usize) -> bool {
    matches!(field, 2 | 5..=9)
}

/// Writes a job with all that is known about it.
pub(crate) fn encode_job(job: &Job, consumer: Option<&[u8]>, out: &mut Writer) {
    let mut more = job.more().clone();
    let mut bits = 0;
    for (bit, field) in fields(&mut more).into_iter().enumerate() {
        bits |= u64::from(*field > 0) << bit;
    }
    let flag = |on: bool, bit: u64| if on { bit } else { 0 };
    bits |= flag(more.redrives > 0, BIT_REDRIVES)
        | flag(more.own_max_deliveries.is_some(), BIT_MAX_DELIVERIES)
        | flag(more.settled != Settled::No, BIT_SETTLED)
        | flag(consumer.is_some(), BIT_CONSUMER)
        | flag(more.reason.is_some(), BIT_REASON)
        | flag(!more.error.is_empty(), BIT_ERROR)
        | flag(!more.result.is_empty(), BIT_RESULT)
        | flag(more.dedup.is_some(), BIT_DEDUP);
    out.id(job.id);
    out.byte(job.state as u8);
    out.byte(job.priority as u8);
    out.time(job.place);
    out.string(&job.payload);
    out.number(bits);
    for (bit, field) in fields(&mut more).into_iter().enumerate() {
        match *field {
            0 => {}
            time if is_time(bit) => out.time(time),
            number => out.number(number),
        }
    }
    if more.redrives > 0 {
        out.number(more.redrives);
    }
    if let Some(max) = more.own_max_deliveries {
        out.number(max);
    }
    if more.settled != Settled::No {
        out.byte(more.settled as u8);
    }
    if let Some(consumer) = consumer {
        out.name(consumer);
    }
    if let Some(reason) = more.reason {
        out.byte(reason as u8);
    }
    if !more.error.is_empty() {
        out.error(&more.error);
    }
    if !more.result.is_empty() {
        out.blob(&more.result);
    }
    if let Some(key) = &more.dedup {
        out.string(key);
    }
}

fn decode_job(from: &mut Reader<'_>) -> Result<Stored, Malformed> {
    let id = from.id()?;
    let state = State::from_number(from.byte()?).ok_or_else(|| from.wrong("an unknown state"))?;
    let priority = priority(from)?;
    let place = from.time()?;
    let payload = from.string(MAX_PAYLOAD)?;
    let bits = from.limited(ALL_BITS, "unknown fields of a job")?;
    let mut more = More::default();
    for (bit, field) in fields(&mut more).into_iter().enumerate() {
        if bits & (1 << bit) == 0 {
            continue;
        }
        *field = if is_time(bit) { from.time()? } else { from.limited(crate::limits::MAX_TOKEN, "a number out of range")? };
        if *field == 0 {
            return Err(from.wrong("a field that is there and 0"));
        }
    }
    let has = |bit: u64| bits & bit > 0;
    if has(BIT_REDRIVES) {
        more.redrives = from.limited(MAX_DELIVERIES, "a number out of range")?;
        if more.redrives == 0 {
            return Err(from.wrong("a field that is there and 0"));
        }
    }
    if has(BIT_MAX_DELIVERIES) {
        more.own_max_deliveries = Some(from.limited(MAX_DELIVERIES, "a number of deliveries out of range")?);
    }
    if has(BIT_SETTLED) {
        more.settled = Settled::from_number(from.byte()?)
            .filter(|settled| *settled != Settled::No)
            .ok_or_else(|| from.wrong("an unknown settlement"))?;
    }
    let consumer = if has(BIT_CONSUMER) { Some(Box::from(from.name()?)) } else { None };
    if has(BIT_REASON) {
        more.reason = Some(reason(from)?);
    }
    if has(BIT_ERROR) {
        more.error = Box::from(from.error()?);
        if more.error.is_empty() {
            return Err(from.wrong("a field that is there and empty"));
        }
    }
    if has(BIT_RESULT) {
        more.result = Box::from(from.blob()?);
        if more.result.is_empty() {
            return Err(from.wrong("a field that is there and empty"));
        }
    }
    if has(BIT_DEDUP) {
        more.dedup = Some(from.string(MAX_NAME)?.into());
    }
    let more = if bits == 0 { None } else { Some(Box::new(more)) };
    let job = Job { id, place, payload: payload.into(), more, priority, state };
    match crate::check::check_job(&job, consumer.is_some()) {
        Ok(()) => Ok(Stored { job, consumer }),
        Err(what) => Err(from.wrong(what)),
    }
}

