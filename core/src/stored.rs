//! The bytes of what snapshots have beside ops: the header, options, jobs, dedup keys, groups.

use crate::codec::{decode_contents, encode_contents, maybe, optional, priority, reason};
use crate::dedup::{Held, Owner};
use crate::groups::Turns;
use crate::job::{Facts, Job, More, Settled, State};
use crate::limits::{MAX_DELIVERIES, MAX_ERROR, MAX_LEASE_MS, MAX_NAME, MAX_PAYLOAD, MAX_SPAN_MS, MAX_TIME_MS, MAX_TOKEN};
use crate::op::{Contents, DedupKey, Stored};
use crate::pause::Pause;
use crate::policy::{Policy, Setting};
use crate::queue::{Header, Totals};
use crate::rate::{Grants, MAX_GRANTS};
use crate::schedule::{Missed, Plan, Rule, Schedule};
use crate::wire::{Malformed, Reader, Writer};

pub(crate) fn encode_owner(key: &[u8], owner: &Owner, out: &mut Writer) {
    out.string(key);
    out.id(owner.job);
    out.number(owner.until);
    optional(owner.held.as_deref(), out, |out, held| {
        out.number(held.window_ms);
        let contents = Contents {
            due: held.due,
            options: held.options,
            group: held.group.as_deref(),
            dedup: None,
            payload: &held.payload,
        };
        encode_contents(&contents, out);
    });
}

pub(crate) fn decode_owner(from: &mut Reader<'_>) -> Result<Owner, Malformed> {
    let job = from.id()?;
    let until = from.limited(MAX_TIME_MS, "a window out of range")?;
    let held = maybe(from, |from| {
        let window_ms = from.limited(MAX_SPAN_MS, "a window out of range")?;
        let Contents { due, options, group, payload, .. } = decode_contents(from)?;
        Ok(Box::new(Held { payload: payload.into(), options, group: group.map(Box::from), due, window_ms }))
    })?;
    Ok(Owner { job, until, held })
}

pub(crate) fn encode_setting(setting: &Setting, out: &mut Writer) {
    out.byte(setting.opt as u8);
    let (first, second) = setting.numbers();
    out.number(first);
    if let Some(second) = second {
        out.number(second);
    }
}

pub(crate) fn decode_setting(from: &mut Reader<'_>) -> Result<Setting, Malformed> {
    let (number, first) = (from.byte()?, from.number()?);
    let setting = Setting::from_numbers(number, first, || from.number())?;
    setting.ok_or_else(|| from.wrong("an unknown option, or a value out of its range"))
}

pub(crate) fn encode_header(header: &Header, out: &mut Writer) {
    out.number(header.incarnation);
    out.id(header.last_id);
    out.number(header.last_token);
    out.number(header.newest_ms);
    out.number(header.longest_lease_ms);
    optional(header.paused_out.as_deref(), out, encode_pause);
    optional(header.paused_in.as_deref(), out, encode_pause);
    out.number(Policy::COUNT as u64);
    for setting in header.policy.settings() {
        encode_setting(&setting, out);
    }
    let t = &header.totals;
    let totals = [
        t.pushed, t.delivered, t.acked, t.failed, t.expired, t.released, t.dead, t.redriven, t.dead_dropped, t.trimmed,
        t.slots_skipped,
    ];
    out.number(totals.len() as u64);
    for total in totals {
        out.number(total);
    }
}

pub(crate) fn decode_header(from: &mut Reader<'_>) -> Result<Header, Malformed> {
    let incarnation = from.number()?;
    let last_id = from.id()?;
    let last_token = from.limited(MAX_TOKEN, "a token out of range")?;
    let newest_ms = from.limited(MAX_TIME_MS, "a time out of range")?;
    let longest_lease_ms = from.limited(MAX_LEASE_MS, "a lease out of range")?;
    let paused_out = maybe(from, decode_pause)?.map(Box::new);
    let paused_in = maybe(from, decode_pause)?.map(Box::new);
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
    if from.number()? != 11 {
        return Err(from.wrong("an unknown number of totals"));
    }
    // Counters may have any value: one that could not be stored at its next step would make a
    // snapshot that cannot be loaded.
    let mut total = || from.number();
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
        slots_skipped: total()?,
    };
    Ok(Header { incarnation, policy, last_id, last_token, newest_ms, longest_lease_ms, paused_out, paused_in, totals })
}

/// The optional numbers of a stored job, in the order of their bits. A field that is 0 is not
/// written. New ones are added at the end.
fn fields(more: &mut More) -> [&mut u64; 19] {
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
        &mut more.slot_at,
    ]
}

/// The same by value.
fn numbers(more: &More) -> [u64; 19] {
    [
        more.own_lease_ms,
        more.ttl_ms,
        more.ttl_at,
        more.token,
        more.lease_ms,
        more.until,
        more.old_place,
        more.back_since,
        more.first_delivered_at,
        more.last_delivered_at,
        more.deliveries,
        more.budget_failures,
        more.budget_expiries,
        more.total_deliveries,
        more.failures,
        more.expiries,
        more.releases,
        more.dedup_window_ms,
        more.slot_at,
    ]
}

/// The place of the token among them.
const TOKEN: usize = 3;
const BIT_REDRIVES: u64 = 1 << 19;
const BIT_MAX_DELIVERIES: u64 = 1 << 20;
const BIT_SETTLED: u64 = 1 << 21;
const BIT_CONSUMER: u64 = 1 << 22;
const BIT_REASON: u64 = 1 << 23;
const BIT_ERROR: u64 = 1 << 24;
const BIT_RESULT: u64 = 1 << 25;
const BIT_DEDUP: u64 = 1 << 26;
const BIT_GROUP: u64 = 1 << 27;
const BIT_SCHEDULE: u64 = 1 << 28;
const ALL_BITS: u64 = (1 << 29) - 1;

/// Which of the numbers are times, near the batch's own: written as a difference to it.
fn is_time(field: usize) -> bool {
    matches!(field, 2 | 5..=9 | 18)
}

/// Writes a job with all that is known about it.
pub(crate) fn encode_job(job: &Job<'_>, consumer: Option<&[u8]>, group: Option<&[u8]>, out: &mut Writer) {
    let more = job.more();
    let numbers = numbers(&more);
    let mut bits = 0;
    for (bit, number) in numbers.into_iter().enumerate() {
        bits |= u64::from(number > 0) << bit;
    }
    let flag = |on: bool, bit: u64| if on { bit } else { 0 };
    bits |= flag(more.redrives > 0, BIT_REDRIVES)
        | flag(more.own_max_deliveries.is_some(), BIT_MAX_DELIVERIES)
        | flag(more.settled != Settled::No, BIT_SETTLED)
        | flag(consumer.is_some(), BIT_CONSUMER)
        | flag(more.reason.is_some(), BIT_REASON)
        | flag(!more.error.is_empty(), BIT_ERROR)
        | flag(!more.result.is_empty(), BIT_RESULT)
        | flag(more.dedup.is_some(), BIT_DEDUP)
        | flag(group.is_some(), BIT_GROUP)
        | flag(more.schedule.is_some(), BIT_SCHEDULE);
    out.id(job.id);
    out.byte(job.state as u8);
    out.byte(job.priority as u8);
    out.time(job.place);
    out.string(job.payload);
    out.number(bits);
    for (bit, number) in numbers.into_iter().enumerate() {
        match number {
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
    if let Some(group) = group {
        out.group(group);
    }
    if let Some(name) = &more.schedule {
        out.string(name);
    }
}

pub(crate) fn decode_job<'a>(from: &mut Reader<'a>) -> Result<Stored<'a>, Malformed> {
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
        *field = match bit {
            _ if is_time(bit) => from.time()?,
            TOKEN => from.limited(MAX_TOKEN, "a token out of range")?,
            _ => from.number()?,
        };
        if *field == 0 {
            return Err(from.wrong("a field that is there and 0"));
        }
    }
    let has = |bit: u64| bits & bit > 0;
    if has(BIT_REDRIVES) {
        more.redrives = from.number()?;
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
    let consumer = if has(BIT_CONSUMER) { Some(from.name()?) } else { None };
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
    let group = if has(BIT_GROUP) { Some(from.group()?) } else { None };
    if has(BIT_SCHEDULE) {
        more.schedule = Some(from.string(MAX_NAME)?.into());
    }
    let facts = Facts { id, state, place, priority, more };
    match crate::check::check_job(&facts.with(payload), consumer.is_some()) {
        Ok(()) => Ok(Stored { facts, payload, consumer, group }),
        Err(what) => Err(from.wrong(what)),
    }
}

pub(crate) fn encode_pause(out: &mut Writer, pause: &Pause) {
    out.number(pause.until.unwrap_or(0));
    out.string(&pause.reason);
}

pub(crate) fn decode_pause(from: &mut Reader<'_>) -> Result<Pause, Malformed> {
    let until = from.limited(MAX_TIME_MS, "a pause out of range")?;
    Ok(Pause { until: Some(until).filter(|until| *until > 0), reason: from.string(MAX_ERROR)?.into() })
}

pub(crate) fn encode_turns(turns: &Turns, out: &mut Writer) {
    out.number(turns.len() as u64);
    for (priority, turn) in turns {
        out.byte(*priority as u8);
        out.number(*turn);
    }
}

pub(crate) fn decode_turns(from: &mut Reader<'_>) -> Result<Turns, Malformed> {
    let mut turns = Turns::new();
    for _ in 0..from.limited(256, "more turns than priorities")? {
        turns.push((priority(from)?, from.number()?));
    }
    // Highest priority first, as they are written.
    if turns.is_sorted_by(|(a, _), (b, _)| a > b) { Ok(turns) } else { Err(from.wrong("turns out of order")) }
}

pub(crate) fn encode_grants(grants: &Grants, out: &mut Writer) {
    out.number(grants.iter().len() as u64);
    for at in grants.iter() {
        out.time(at);
    }
}

pub(crate) fn decode_grants(from: &mut Reader<'_>) -> Result<Grants, Malformed> {
    let n = from.limited(MAX_GRANTS, "more grants than any rate counts")?;
    let mut times = Vec::new();
    for _ in 0..n {
        times.push(from.time()?);
    }
    Grants::from_ascending(times).ok_or_else(|| from.wrong("grants out of order"))
}

pub(crate) fn encode_schedule(schedule: &Schedule, out: &mut Writer) {
    let Schedule { plan, next, made, refused, burst } = schedule;
    match &plan.rule {
        Rule::Cron { line, zone } => {
            out.byte(0);
            out.string(line);
            out.string(zone);
        }
        Rule::Every { ms, anchor } => {
            out.byte(1);
            out.number(*ms);
            out.number(*anchor);
        }
    }
    optional(plan.start, out, Writer::number);
    optional(plan.end, out, Writer::number);
    optional(plan.limit, out, Writer::number);
    out.byte(plan.missed as u8);
    let contents = Contents {
        due: None,
        options: plan.options,
        group: plan.group.as_deref(),
        dedup: plan.dedup.as_deref().map(|key| DedupKey { key, window_ms: 0 }),
        payload: &plan.payload,
    };
    encode_contents(&contents, out);
    optional(*next, out, Writer::number);
    out.number(*made);
    out.number(*refused);
    out.number(*burst);
}

pub(crate) fn decode_schedule(from: &mut Reader<'_>) -> Result<Schedule, Malformed> {
    let time = |from: &mut Reader<'_>| from.limited(MAX_TIME_MS, "a time out of range");
    let rule = match from.byte()? {
        0 => Rule::Cron { line: from.string(MAX_NAME)?.into(), zone: from.string(MAX_NAME)?.into() },
        1 => Rule::Every { ms: from.limited(MAX_SPAN_MS, "an interval out of range")?, anchor: time(from)? },
        _ => return Err(from.wrong("an unknown rule")),
    };
    if matches!(rule, Rule::Every { ms: 0, .. }) {
        return Err(from.wrong("an interval of 0"));
    }
    let start = maybe(from, time)?;
    let end = maybe(from, time)?;
    let limit = maybe(from, |from| from.limited(MAX_DELIVERIES, "a limit out of range"))?;
    let missed = Missed::ALL.get(usize::from(from.byte()?)).copied().ok_or_else(|| from.wrong("an unknown word"))?;
    let Contents { options, group, dedup, payload, .. } = decode_contents(from)?;
    let plan = Plan {
        rule,
        start,
        end,
        limit,
        missed,
        payload: payload.into(),
        options,
        group: group.map(Box::from),
        dedup: dedup.map(|dedup| Box::from(dedup.key)),
    };
    let next = maybe(from, time)?;
    let mut count = || from.number();
    Ok(Schedule { plan, next, made: count()?, refused: count()?, burst: count()? })
}
