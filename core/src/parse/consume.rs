//! LEASE, ACK, NACK, RELEASE.

use super::{once, pairs};
use crate::args::{self, Args, Keyword};
use crate::error::Error;
use crate::limits::{LEASE_BYTES, MAX_COUNT, MAX_ERROR, MAX_LEASE_MS, MAX_PAYLOAD, MAX_SPAN_MS};
use crate::request::{LeaseOptions, Request};

pub(super) fn lease_options(args: &mut Args<'_>) -> Result<LeaseOptions, Error> {
    let (mut count, mut lease_ms, mut block_ms, mut max_bytes, mut meta) = (None, None, None, None, None);
    while let Some((name, word)) = args.option() {
        match name.as_bytes() {
            b"COUNT" => once("COUNT", &mut count, args.number("COUNT", 1, MAX_COUNT)?)?,
            b"LEASE" => once("LEASE", &mut lease_ms, args.number("LEASE", 1, MAX_LEASE_MS)?)?,
            b"BLOCK" => once("BLOCK", &mut block_ms, args.number("BLOCK", 0, MAX_SPAN_MS)?)?,
            b"MAXBYTES" => once("MAXBYTES", &mut max_bytes, args.number("MAXBYTES", 1, i64::MAX as u64)?)?,
            b"META" => once("META", &mut meta, ())?,
            _ => return Err(Error::unknown_option(word)),
        }
    }
    Ok(LeaseOptions {
        count: count.unwrap_or(1),
        lease_ms,
        block_ms,
        max_bytes: max_bytes.unwrap_or(LEASE_BYTES),
        meta: meta.is_some(),
    })
}

pub(super) fn ack<'a>(args: &mut Args<'a>) -> Result<Request<'a>, Error> {
    let pairs = pairs(args)?;
    let mut result = None;
    while let Some((name, word)) = args.option() {
        match name.as_bytes() {
            b"RESULT" => once("RESULT", &mut result, args.value("RESULT")?)?,
            _ => return Err(Error::unknown_option(word)),
        }
    }
    // Each of the jobs keeps a copy.
    let copies = result.map_or(0, |blob| blob.len().saturating_mul(pairs.len()));
    if copies > MAX_PAYLOAD {
        let what = if pairs.len() == 1 { "the result" } else { "the result for all these jobs" };
        return Err(Error::too_big(what, copies, MAX_PAYLOAD));
    }
    Ok(Request::Ack { pairs, result })
}

pub(super) fn nack<'a>(args: &mut Args<'a>) -> Result<Request<'a>, Error> {
    let pairs = pairs(args)?;
    let (mut delay_ms, mut error, mut dead) = (None, None, None);
    while let Some((name, word)) = args.option() {
        match name.as_bytes() {
            b"DELAY" => once("DELAY", &mut delay_ms, args.delay()?)?,
            b"ERROR" => once("ERROR", &mut error, args.value("ERROR")?)?,
            b"DEAD" => once("DEAD", &mut dead, ())?,
            _ => return Err(Error::unknown_option(word)),
        }
    }
    if dead.is_some() && delay_ms.is_some() {
        return Err(Error::twice("DEAD"));
    }
    let error = error.map(|text| text.get(..MAX_ERROR).unwrap_or(text));
    Ok(Request::Nack { pairs, delay_ms, error, dead: dead.is_some() })
}

pub(super) fn release<'a>(args: &mut Args<'a>) -> Result<Request<'a>, Error> {
    if let Some(word) = args.peek() {
        if Keyword::new(word).as_bytes() == b"CONSUMER" {
            args.next();
            let consumer = args::consumer(args.value("CONSUMER")?)?;
            return Ok(Request::ReleaseConsumer { consumer });
        }
    }
    let pairs = pairs(args)?;
    let mut delay_ms = None;
    while let Some((name, word)) = args.option() {
        match name.as_bytes() {
            b"DELAY" => once("DELAY", &mut delay_ms, args.delay()?)?,
            _ => return Err(Error::unknown_option(word)),
        }
    }
    Ok(Request::Release { pairs, delay_ms })
}
