//! GET, PEEK, PAUSE, RESUME, and the pages of lists.

use super::produce::{dedup_key, group_name};
use super::{once, state};
use crate::args::{Args, Keyword};
use crate::error::Error;
use crate::limits::{MAX_ERROR, MAX_PEEK, MAX_SPAN_MS};
use crate::pause::Side;
use crate::request::Request;
use crate::view::Cursor;

/// Whether the arguments go on with `DEDUP`; takes the word.
pub(super) fn says_dedup(args: &mut Args<'_>) -> bool {
    let says = args.peek().is_some_and(|word| Keyword::new(word).as_bytes() == b"DEDUP");
    if says {
        args.next();
    }
    says
}

pub(super) fn get<'a>(args: &mut Args<'a>) -> Result<Request<'a>, Error> {
    if says_dedup(args) {
        return Ok(Request::GetDedup { key: dedup_key(args.value("DEDUP")?)? });
    }
    Ok(Request::Get { id: args.id()? })
}

pub(super) fn peek<'a>(args: &mut Args<'a>) -> Result<Request<'a>, Error> {
    let state = state(args.value("RQ.PEEK key")?)?;
    let (mut cursor, mut count, mut nopayload) = (None, None, None);
    while let Some((name, word)) = args.option() {
        match name.as_bytes() {
            b"CURSOR" => once("CURSOR", &mut cursor, Cursor::parse(args.value("CURSOR")?)?)?,
            b"COUNT" => once("COUNT", &mut count, args.number("COUNT", 1, MAX_PEEK)?)?,
            b"NOPAYLOAD" => once("NOPAYLOAD", &mut nopayload, ())?,
            _ => return Err(Error::unknown_option(word)),
        }
    }
    Ok(Request::Peek { state, cursor: cursor.flatten(), count: count.unwrap_or(10), payload: nopayload.is_none() })
}

/// OUT, IN or GROUP; FOR; REASON.
pub(super) type PauseArgs<'a> = (Side<'a>, Option<u64>, Option<&'a [u8]>);

pub(super) fn side<'a>(args: &mut Args<'a>) -> Result<PauseArgs<'a>, Error> {
    let (mut out, mut inward, mut group, mut for_ms, mut reason) = (None, None, None, None, None);
    while let Some((name, word)) = args.option() {
        match name.as_bytes() {
            b"OUT" => once("OUT", &mut out, ())?,
            b"IN" => once("IN", &mut inward, ())?,
            b"GROUP" => once("GROUP", &mut group, group_name(args.value("GROUP")?)?)?,
            b"FOR" => once("FOR", &mut for_ms, args.number("FOR", 1, MAX_SPAN_MS)?)?,
            b"REASON" => once("REASON", &mut reason, args.value("REASON")?)?,
            _ => return Err(Error::unknown_option(word)),
        }
        if inward.is_some() && (out.is_some() || group.is_some()) {
            return Err(Error::twice(&String::from_utf8_lossy(name.as_bytes())));
        }
    }
    let side = match (inward, group) {
        (Some(()), _) => Side::In,
        // OUT is what a group's pause is anyway.
        (None, Some(name)) => Side::Group(name),
        (None, None) => Side::Out,
    };
    Ok((side, for_ms, reason))
}

pub(super) fn pause<'a>(args: &mut Args<'a>) -> Result<Request<'a>, Error> {
    let (side, for_ms, reason) = side(args)?;
    let reason = reason.unwrap_or(&[]);
    Ok(Request::Pause { side, for_ms, reason: reason.get(..MAX_ERROR).unwrap_or(reason) })
}

/// AFTER name, COUNT n.
pub(super) fn listing<'a>(args: &mut Args<'a>) -> Result<(Option<&'a [u8]>, u64), Error> {
    let (mut after, mut count) = (None, None);
    while let Some((name, word)) = args.option() {
        match name.as_bytes() {
            b"AFTER" => once("AFTER", &mut after, args.value("AFTER")?)?,
            b"COUNT" => once("COUNT", &mut count, args.number("COUNT", 1, MAX_PEEK)?)?,
            _ => return Err(Error::unknown_option(word)),
        }
    }
    Ok((after, count.unwrap_or(MAX_PEEK)))
}
