//! REAP, REDRIVE, SET, DEL, PURGE, TRIM.

use super::look::says_dedup;
use super::produce::dedup_key;
use super::{ids, once, reason, state};
use crate::args::{self, Args};
use crate::error::Error;
use crate::id::JobId;
use crate::job::State;
use crate::limits::{LOOK_BEYOND, MAX_COUNT, MAX_DELIVERIES, MAX_SPAN_MS};
use crate::request::{Reap, RedriveMany, Request, Trim, When};

pub(super) fn reap<'a>(args: &mut Args<'a>) -> Result<Request<'a>, Error> {
    let (mut count, mut which) = (None, None);
    while let Some((name, word)) = args.option() {
        match name.as_bytes() {
            b"COUNT" => once("COUNT", &mut count, args.number("COUNT", 1, MAX_COUNT)?)?,
            b"CONSUMER" => {
                let consumer = args::consumer(args.value("CONSUMER")?)?;
                once("CONSUMER", &mut which, Reap::Consumer(consumer))?;
            }
            b"ID" => once("ID", &mut which, Reap::Ids(ids(args)?))?,
            _ => return Err(Error::unknown_option(word)),
        }
    }
    let which = which.unwrap_or(Reap::Expired);
    let count = match (count, which) {
        (Some(_), Reap::Ids(_)) => return Err(Error::twice("COUNT")),
        (count, _) => count.unwrap_or(100),
    };
    Ok(Request::Reap { count, which })
}

pub(super) fn redrive<'a>(args: &mut Args<'a>) -> Result<Request<'a>, Error> {
    if args.peek().is_some_and(|word| JobId::parse(word).is_some()) {
        return Ok(Request::Redrive { ids: ids(args)? });
    }
    let (mut count, mut reason_, mut after, mut before, mut spread, mut priority) = (None, None, None, None, None, None);
    while let Some((name, word)) = args.option() {
        match name.as_bytes() {
            b"COUNT" => once("COUNT", &mut count, args.number("COUNT", 1, MAX_COUNT)?)?,
            b"REASON" => once("REASON", &mut reason_, reason(args.value("REASON")?)?)?,
            b"AFTER" => once("AFTER", &mut after, args.unix_ms("AFTER")?)?,
            b"BEFORE" => once("BEFORE", &mut before, args.unix_ms("BEFORE")?)?,
            b"SPREAD" => once("SPREAD", &mut spread, args.number("SPREAD", 0, MAX_SPAN_MS)?)?,
            b"PRIORITY" => once("PRIORITY", &mut priority, args.priority()?)?,
            _ => return Err(Error::unknown_option(word)),
        }
    }
    let Some(count) = count else {
        return Err(Error::new("syntax error: RQ.REDRIVE takes job ids, or COUNT and a filter"));
    };
    Ok(Request::RedriveMany(RedriveMany {
        count,
        reason: reason_,
        after,
        before,
        spread_ms: spread.unwrap_or(0),
        priority,
    }))
}

pub(super) fn set<'a>(args: &mut Args<'a>) -> Result<Request<'a>, Error> {
    let id = args.id()?;
    let (mut priority, mut when) = (None, None);
    while let Some((name, word)) = args.option() {
        match name.as_bytes() {
            b"PRIORITY" => once("PRIORITY", &mut priority, args.priority()?)?,
            b"DELAY" => once("DELAY", &mut when, When::In(args.delay()?))?,
            b"AT" => once("AT", &mut when, When::At(args.unix_ms("AT")?))?,
            _ => return Err(Error::unknown_option(word)),
        }
    }
    if priority.is_none() && when.is_none() {
        return Err(Error::new("syntax error: RQ.SET needs PRIORITY, DELAY or AT"));
    }
    Ok(Request::Set { id, priority, when })
}

pub(super) fn del<'a>(args: &mut Args<'a>) -> Result<Request<'a>, Error> {
    if !says_dedup(args) {
        return Ok(Request::Del { ids: ids(args)? });
    }
    let keys = args.rest();
    if keys.is_empty() {
        return Err(Error::missing_value("DEDUP"));
    }
    keys.iter().try_for_each(|key| dedup_key(key).map(|_| ()))?;
    Ok(Request::DelDedup { keys })
}

pub(super) fn purge<'a>(args: &mut Args<'a>) -> Result<Request<'a>, Error> {
    let word = args.value("RQ.PURGE key")?;
    let state = state(word)?;
    if state == State::Leased {
        return Err(Error::new("RQ.PURGE takes READY, DELAYED, DEAD or DONE: a leased job is cancelled by RQ.DEL"));
    }
    let (mut count, mut reason_, mut before) = (None, None, None);
    while let Some((name, word)) = args.option() {
        match name.as_bytes() {
            b"COUNT" => once("COUNT", &mut count, args.number("COUNT", 1, MAX_COUNT)?)?,
            b"REASON" if state == State::Dead => once("REASON", &mut reason_, reason(args.value("REASON")?)?)?,
            b"BEFORE" => once("BEFORE", &mut before, args.unix_ms("BEFORE")?)?,
            _ => return Err(Error::unknown_option(word)),
        }
    }
    Ok(Request::Purge { state, count: count.unwrap_or(LOOK_BEYOND), reason: reason_, before })
}

pub(super) fn trim<'a>(args: &mut Args<'a>) -> Result<Request<'a>, Error> {
    let (mut bound, mut count) = (None, None);
    while let Some((name, word)) = args.option() {
        match name.as_bytes() {
            b"MAXLEN" => once("MAXLEN", &mut bound, Trim::Len(args.number("MAXLEN", 0, MAX_DELIVERIES)?))?,
            b"MAXAGE" => once("MAXAGE", &mut bound, Trim::Age(args.number("MAXAGE", 0, MAX_SPAN_MS)?))?,
            b"MAXBYTES" => once("MAXBYTES", &mut bound, Trim::Bytes(args.number("MAXBYTES", 0, i64::MAX as u64)?))?,
            b"COUNT" => once("COUNT", &mut count, args.number("COUNT", 1, MAX_COUNT)?)?,
            _ => return Err(Error::unknown_option(word)),
        }
    }
    let Some(bound) = bound else {
        return Err(Error::new("syntax error: RQ.TRIM needs MAXLEN, MAXAGE or MAXBYTES"));
    };
    Ok(Request::Trim { bound, count: count.unwrap_or(LOOK_BEYOND) })
}
