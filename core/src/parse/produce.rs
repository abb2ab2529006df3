//! PUSH, MPUSH, SCHEDULE.

use super::once;
use crate::args::Args;
use crate::error::{quote, Error};
use crate::limits::{BATCH_ROOM, MAX_BATCH, MAX_DELIVERIES, MAX_LEASE_MS, MAX_NAME, MAX_PAYLOAD, SAID_OF_A_JOB, MAX_SPAN_MS};
use crate::request::{DedupOptions, JobOptions, PlanArgs, Request, RuleArgs, Ties, When};
use crate::schedule::Missed;

pub(super) fn push<'a>(args: &mut Args<'a>, payloads: &'a [&'a [u8]], many: bool) -> Result<Request<'a>, Error> {
    let (mut when, mut priority, mut lease_ms, mut max_deliveries, mut ttl_ms) = (None, None, None, None, None);
    let mut group = None;
    let (mut keys, mut window_ms, mut replace, mut max_wait_ms, mut keep_last) = (None, None, None, None, None);
    while let Some((name, word)) = args.option() {
        match name.as_bytes() {
            b"DELAY" => once("DELAY", &mut when, When::In(args.delay()?))?,
            b"AT" => once("AT", &mut when, When::At(args.unix_ms("AT")?))?,
            b"PRIORITY" => once("PRIORITY", &mut priority, args.priority()?)?,
            b"LEASE" => once("LEASE", &mut lease_ms, args.number("LEASE", 1, MAX_LEASE_MS)?)?,
            b"MAXDELIVERIES" => {
                once("MAXDELIVERIES", &mut max_deliveries, args.number("MAXDELIVERIES", 0, MAX_DELIVERIES)?)?;
            }
            b"TTL" => once("TTL", &mut ttl_ms, args.number("TTL", 1, MAX_SPAN_MS)?)?,
            b"GROUP" => once("GROUP", &mut group, group_name(args.value("GROUP")?)?)?,
            b"DEDUP" if !many => once("DEDUP", &mut keys, dedup_keys(args, "DEDUP", 1)?)?,
            b"DEDUPS" if many => once("DEDUPS", &mut keys, dedup_keys(args, "DEDUPS", payloads.len())?)?,
            b"WINDOW" => once("WINDOW", &mut window_ms, args.number("WINDOW", 1, MAX_SPAN_MS)?)?,
            b"REPLACE" if !many => once("REPLACE", &mut replace, ())?,
            b"MAXWAIT" if !many => once("MAXWAIT", &mut max_wait_ms, args.number("MAXWAIT", 0, MAX_SPAN_MS)?)?,
            b"KEEPLAST" if !many => once("KEEPLAST", &mut keep_last, ())?,
            _ => return Err(Error::unknown_option(word)),
        }
    }
    if keys.is_none() && (window_ms.is_some() || replace.is_some() || keep_last.is_some()) {
        return Err(Error::new("syntax error: WINDOW, REPLACE and KEEPLAST need DEDUP"));
    }
    if max_wait_ms.is_some() && replace.is_none() {
        return Err(Error::new("syntax error: MAXWAIT needs REPLACE"));
    }
    let dedup = keys.map(|keys| DedupOptions {
        keys,
        window_ms: window_ms.unwrap_or(0),
        replace: replace.is_some(),
        max_wait_ms,
        keep_last: keep_last.is_some(),
    });
    let mut total = 0usize;
    for payload in payloads {
        if payload.len() > MAX_PAYLOAD {
            return Err(Error::too_big("the payload", payload.len(), MAX_PAYLOAD));
        }
        total = total.saturating_add(payload.len());
    }
    let room = MAX_BATCH.saturating_sub(BATCH_ROOM);
    if total > room {
        return Err(Error::too_big("the payloads together", total, room));
    }
    // All of it has to fit into one batch of ops: keys, and what else there is to say of each job.
    let keys = dedup.iter().flat_map(|dedup| dedup.keys).fold(0usize, |sum, key| sum.saturating_add(key.len()));
    let total = total.saturating_add(keys).saturating_add(payloads.len().saturating_mul(SAID_OF_A_JOB));
    let room = MAX_BATCH.saturating_sub(BATCH_ROOM / 2);
    if total > room {
        return Err(Error::too_big("the payloads with their keys", total, room));
    }
    let options = JobOptions {
        when: when.unwrap_or_default(),
        priority: priority.unwrap_or(0),
        lease_ms: lease_ms.unwrap_or(0),
        max_deliveries,
        ttl_ms: ttl_ms.unwrap_or(0),
    };
    Ok(Request::Push { payloads, many, options, ties: Ties { group, dedup } })
}

pub(super) fn dedup_keys<'a>(args: &mut Args<'a>, option: &str, n: usize) -> Result<&'a [&'a [u8]], Error> {
    let keys = args.take(n).ok_or_else(|| Error::new(format!("syntax error: {option} needs {n} keys, one per payload")))?;
    keys.iter().try_for_each(|key| dedup_key(key).map(|_| ()))?;
    Ok(keys)
}

pub(super) fn group_name(name: &[u8]) -> Result<&[u8], Error> {
    if name.len() > MAX_NAME {
        return Err(Error::new(format!("a group's name has at most {MAX_NAME} bytes, not {}", name.len())));
    }
    Ok(name)
}

pub(super) fn dedup_key(key: &[u8]) -> Result<&[u8], Error> {
    if key.len() > MAX_NAME {
        return Err(Error::new(format!("a dedup key has at most {MAX_NAME} bytes, not {}: use a hash of it", key.len())));
    }
    Ok(key)
}

pub(super) fn schedule<'a>(args: &mut Args<'a>) -> Result<Request<'a>, Error> {
    let name = args.value("RQ.SCHEDULE key")?;
    if name.len() > MAX_NAME {
        return Err(Error::new(format!("a schedule's name has at most {MAX_NAME} bytes, not {}", name.len())));
    }
    let (mut cron, mut zone, mut every, mut start, mut end, mut limit, mut missed) = (None, None, None, None, None, None, None);
    let (mut payload, mut priority, mut lease_ms, mut max_deliveries, mut ttl_ms) = (None, None, None, None, None);
    let (mut group, mut dedup) = (None, None);
    while let Some((option, word)) = args.option() {
        match option.as_bytes() {
            b"CRON" => once("CRON", &mut cron, short(args.value("CRON")?, "CRON")?)?,
            b"TZ" => once("TZ", &mut zone, short(args.value("TZ")?, "TZ")?)?,
            b"EVERY" => once("EVERY", &mut every, args.number("EVERY", 100, MAX_SPAN_MS)?)?,
            b"START" => once("START", &mut start, args.unix_ms("START")?)?,
            b"END" => once("END", &mut end, args.unix_ms("END")?)?,
            b"LIMIT" => once("LIMIT", &mut limit, args.number("LIMIT", 1, MAX_DELIVERIES)?)?,
            b"MISSED" => once("MISSED", &mut missed, missed_word(args.value("MISSED")?)?)?,
            b"PAYLOAD" => once("PAYLOAD", &mut payload, args.value("PAYLOAD")?)?,
            b"PRIORITY" => once("PRIORITY", &mut priority, args.priority()?)?,
            b"LEASE" => once("LEASE", &mut lease_ms, args.number("LEASE", 1, MAX_LEASE_MS)?)?,
            b"MAXDELIVERIES" => {
                once("MAXDELIVERIES", &mut max_deliveries, args.number("MAXDELIVERIES", 0, MAX_DELIVERIES)?)?;
            }
            b"TTL" => once("TTL", &mut ttl_ms, args.number("TTL", 1, MAX_SPAN_MS)?)?,
            b"GROUP" => once("GROUP", &mut group, group_name(args.value("GROUP")?)?)?,
            b"DEDUP" => once("DEDUP", &mut dedup, dedup_key(args.value("DEDUP")?)?)?,
            _ => return Err(Error::unknown_option(word)),
        }
    }
    let rule = match (cron, every) {
        (Some(line), None) => RuleArgs::Cron { line, zone: zone.unwrap_or(b"") },
        (None, Some(ms)) if zone.is_none() => RuleArgs::Every { ms },
        (None, Some(_)) => return Err(Error::new("syntax error: TZ goes with CRON, not with EVERY")),
        _ => return Err(Error::new("syntax error: RQ.SCHEDULE needs either CRON or EVERY")),
    };
    let Some(payload) = payload else { return Err(Error::new("syntax error: RQ.SCHEDULE needs PAYLOAD")) };
    if let (Some(start), Some(end)) = (start, end) {
        if end < start {
            return Err(Error::new(format!("END must not be before START, {end} is before {start}")));
        }
    }
    let options = JobOptions {
        when: When::Now,
        priority: priority.unwrap_or(0),
        lease_ms: lease_ms.unwrap_or(0),
        max_deliveries,
        ttl_ms: ttl_ms.unwrap_or(0),
    };
    let missed = missed.unwrap_or_default();
    let plan = PlanArgs { rule, start, end, limit, missed, payload, options, group, dedup };
    Ok(Request::Schedule { name, plan: Box::new(plan) })
}

pub(super) fn short<'a>(value: &'a [u8], option: &str) -> Result<&'a [u8], Error> {
    if value.len() > MAX_NAME {
        return Err(Error::new(format!("{option} has at most {MAX_NAME} bytes, not {}", value.len())));
    }
    Ok(value)
}

pub(super) fn missed_word(word: &[u8]) -> Result<Missed, Error> {
    Missed::ALL
        .into_iter()
        .find(|missed| missed.name().as_bytes().eq_ignore_ascii_case(word))
        .ok_or_else(|| Error::new(format!("MISSED must be one, skip or all, not {}", quote(word))))
}
