//! Ops to bytes and back. Decoding checks every range, so that `apply` can trust its numbers.

use crate::job::Reason;
use crate::limits::{MAX_DELIVERIES, MAX_LEASE_MS, MAX_NAME, MAX_PAYLOAD, MAX_SPAN_MS, MAX_TIME_MS};
use crate::op::{Contents, DedupKey, Due, GroupState, Op, QueueTurns, SlotJob};
use crate::pause::Side;
use crate::request::{JobOptions, When};
use crate::schedule::NoJob;
use crate::stored::{
    decode_grants, decode_header, decode_job, decode_owner, decode_pause, decode_schedule, decode_setting, decode_turns, encode_grants,
    encode_header, encode_job, encode_owner, encode_pause, encode_schedule, encode_setting, encode_turns,
};
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
const PAUSE: u8 = 25;
const TIDY: u8 = 26;
const TURNS: u8 = 27;
const GROUP: u8 = 28;
const SCHEDULE: u8 = 29;
const UNSCHEDULE: u8 = 30;
const SLOT: u8 = 31;

// The flags of PUSH: which options follow.
const WITH_DUE: u64 = 1;
const WITH_PRIORITY: u64 = 2;
const WITH_LEASE: u64 = 4;
const WITH_MAX_DELIVERIES: u64 = 8;
const WITH_TTL: u64 = 16;
const WITH_DEDUP: u64 = 32;
const WITH_GROUP: u64 = 64;
const ALL_WITH: u64 = 127;

/// Appends an op to a batch.
pub(crate) fn encode(op: &Op<'_>, out: &mut Writer) {
    match op {
        Op::Reset(header) => {
            out.byte(RESET);
            encode_header(header, out);
        }
        Op::Put(stored) => {
            out.byte(PUT);
            encode_job(&stored.facts.with(stored.payload), stored.consumer, stored.group, out);
        }
        Op::Create { incarnation } => {
            out.byte(CREATE);
            out.number(*incarnation);
        }
        Op::Policy(setting) => {
            out.byte(POLICY);
            encode_setting(setting, out);
        }
        Op::Push { id, contents } => {
            out.byte(PUSH);
            out.id(*id);
            encode_contents(contents, out);
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
        Op::Hold { contents } => {
            out.byte(HOLD);
            encode_contents(contents, out);
        }
        Op::Pause { side, pause } => {
            out.byte(PAUSE);
            match side {
                Side::Out => out.byte(0),
                Side::In => out.byte(1),
                Side::Group(name) => {
                    out.byte(2);
                    out.string(name);
                }
            }
            optional(pause.as_ref(), out, encode_pause);
        }
        Op::Schedule { name, schedule } => {
            out.byte(SCHEDULE);
            out.string(name);
            encode_schedule(schedule, out);
        }
        Op::Unschedule { name } => {
            out.byte(UNSCHEDULE);
            out.string(name);
        }
        Op::Slot { name, job, next, burst } => {
            out.byte(SLOT);
            out.string(name);
            match job {
                SlotJob::Made { id, slot } => {
                    out.byte(0);
                    out.id(*id);
                    out.time(*slot);
                }
                SlotJob::None(NoJob::Refused) => out.byte(1),
                SlotJob::None(NoJob::Overlap) => out.byte(2),
                SlotJob::None(NoJob::Passed) => out.byte(3),
            }
            optional(*next, out, Writer::time);
            out.number(*burst);
        }
        Op::Tidy => out.byte(TIDY),
        Op::Turns(turns) => {
            out.byte(TURNS);
            out.number(turns.counter);
            encode_turns(&turns.bare, out);
            encode_grants(&turns.grants, out);
        }
        Op::Group { name, state } => {
            out.byte(GROUP);
            out.string(name);
            optional(state.pause.as_ref(), out, encode_pause);
            encode_turns(&state.turns, out);
            encode_grants(&state.grants, out);
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
pub(crate) fn encode_contents(contents: &Contents<'_>, out: &mut Writer) {
    if contents.are_plain() {
        out.number(0);
        return out.string(contents.payload);
    }
    let Contents { due, options, group, dedup, payload } = *contents;
    let flag = |on: bool, flag: u64| if on { flag } else { 0 };
    out.number(
        flag(due.is_some(), WITH_DUE)
            | flag(options.priority != 0, WITH_PRIORITY)
            | flag(options.lease_ms > 0, WITH_LEASE)
            | flag(options.max_deliveries.is_some(), WITH_MAX_DELIVERIES)
            | flag(options.ttl_ms > 0, WITH_TTL)
            | flag(dedup.is_some(), WITH_DEDUP)
            | flag(group.is_some(), WITH_GROUP),
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
    if let Some(group) = group {
        out.group(group);
    }
    out.string(payload);
}

pub(crate) fn optional<T>(value: Option<T>, out: &mut Writer, write: impl FnOnce(&mut Writer, T)) {
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
            Op::Push { id, contents: decode_contents(from)? }
        }
        REPLACE => Op::Replace {
            id: from.id()?,
            priority: priority(from)?,
            due: decode_due(from)?,
            window_ms: from.limited(MAX_SPAN_MS, "a window out of range")?,
            payload: from.string(MAX_PAYLOAD)?,
        },
        HOLD => {
            let contents = decode_contents(from)?;
            if contents.dedup.is_none() {
                return Err(from.wrong("held without a key"));
            }
            Op::Hold { contents }
        }
        PAUSE => Op::Pause {
            side: match from.byte()? {
                0 => Side::Out,
                1 => Side::In,
                2 => Side::Group(from.string(MAX_NAME)?),
                _ => return Err(from.wrong("an unknown side")),
            },
            pause: maybe(from, decode_pause)?,
        },
        SCHEDULE => Op::Schedule { name: from.string(MAX_NAME)?, schedule: Box::new(decode_schedule(from)?) },
        UNSCHEDULE => Op::Unschedule { name: from.string(MAX_NAME)? },
        SLOT => Op::Slot {
            name: from.string(MAX_NAME)?,
            job: match from.byte()? {
                0 => SlotJob::Made { id: from.id()?, slot: from.time()? },
                1 => SlotJob::None(NoJob::Refused),
                2 => SlotJob::None(NoJob::Overlap),
                3 => SlotJob::None(NoJob::Passed),
                _ => return Err(from.wrong("an unknown end of a slot")),
            },
            next: maybe(from, Reader::time)?,
            burst: from.number()?,
        },
        TIDY => Op::Tidy,
        TURNS => Op::Turns(Box::new(QueueTurns {
            counter: from.number()?,
            bare: decode_turns(from)?,
            grants: decode_grants(from)?,
        })),
        GROUP => Op::Group {
            name: from.string(MAX_NAME)?,
            state: Box::new(GroupState {
                pause: maybe(from, decode_pause)?,
                turns: decode_turns(from)?,
                grants: decode_grants(from)?,
            }),
        },
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

pub(crate) fn maybe<'a, T>(
    from: &mut Reader<'a>,
    read: impl FnOnce(&mut Reader<'a>) -> Result<T, Malformed>,
) -> Result<Option<T>, Malformed> {
    match from.byte()? {
        0 => Ok(None),
        1 => read(from).map(Some),
        _ => Err(from.wrong("neither there nor not there")),
    }
}

pub(crate) fn priority(from: &mut Reader<'_>) -> Result<i8, Malformed> {
    Ok(from.byte()? as i8)
}

pub(crate) fn reason(from: &mut Reader<'_>) -> Result<Reason, Malformed> {
    Reason::from_number(from.byte()?).ok_or_else(|| from.wrong("an unknown reason"))
}

fn at_least_one(n: u64, from: &Reader<'_>) -> Result<u64, Malformed> {
    if n > 0 { Ok(n) } else { Err(from.wrong("a token of 0")) }
}

fn lease_ms(from: &mut Reader<'_>, now: u64) -> Result<u64, Malformed> {
    let ms = from.limited(MAX_LEASE_MS, "a lease out of range")?;
    if ms == 0 || now.saturating_add(ms) > MAX_TIME_MS { Err(from.wrong("a lease out of range")) } else { Ok(ms) }
}

pub(crate) fn decode_contents<'a>(from: &mut Reader<'a>) -> Result<Contents<'a>, Malformed> {
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
    let group = if has(WITH_GROUP) { Some(from.group()?) } else { None };
    Ok(Contents { due, options, group, dedup, payload: from.string(MAX_PAYLOAD)? })
}

fn decode_dedup<'a>(from: &mut Reader<'a>) -> Result<DedupKey<'a>, Malformed> {
    Ok(DedupKey { key: from.string(MAX_NAME)?, window_ms: from.limited(MAX_SPAN_MS, "a window out of range")? })
}
