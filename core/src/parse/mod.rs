//! Arguments made sense of and checked, before anything is looked at or changed.

mod consume;
mod look;
mod produce;
mod recover;

use std::collections::BTreeSet;

use crate::args::{self, Args, Keyword};
use crate::error::{quote, Error};
use crate::id::JobId;
use crate::job::{Reason, State};
use crate::limits::{MAX_COUNT, MAX_KEYS, MAX_LEASE_MS, MAX_SPAN_MS};
use crate::policy::Setting;
use crate::request::{Ids, MultiLease, Pairs, Request};
use crate::table::Verb;
use consume::{ack, lease_options, nack, release};
use look::{get, listing, pause, peek, side};
use produce::{push, schedule};
use recover::{del, purge, reap, redrive, set, trim};

/// Reads the arguments of `verb` that follow the key.
///
/// # Errors
/// Syntax and range errors, with the option, the value and the range.
pub fn parse<'a>(verb: Verb, arguments: &'a [&'a [u8]]) -> Result<Request<'a>, Error> {
    let mut args = Args::new(arguments);
    let request = match verb {
        Verb::Push => {
            let payloads = args.take(1).ok_or_else(|| Error::missing_value("RQ.PUSH key"))?;
            push(&mut args, payloads, false)?
        }
        Verb::MPush => {
            let n = args.number("n", 1, MAX_COUNT)?;
            let payloads = usize::try_from(n).ok().and_then(|n| args.take(n)).ok_or_else(|| {
                Error::new(format!("RQ.MPUSH announces {n} payloads, but fewer follow"))
            })?;
            push(&mut args, payloads, true)?
        }
        Verb::Lease => {
            let consumer = args::consumer(args.value("RQ.LEASE key")?)?;
            Request::Lease { consumer, options: lease_options(&mut args)? }
        }
        Verb::Ack => ack(&mut args)?,
        Verb::AckLease => {
            let id = args.id()?;
            let token = args::token(args.value("the token")?)?;
            let consumer = args::consumer(args.value("the consumer")?)?;
            Request::AckLease { id, token, consumer, options: lease_options(&mut args)? }
        }
        Verb::Nack => nack(&mut args)?,
        Verb::Release => release(&mut args)?,
        Verb::Extend => {
            let pairs = pairs(&mut args)?;
            let mut lease_ms = None;
            while let Some((name, word)) = args.option() {
                match name.as_bytes() {
                    b"LEASE" => once("LEASE", &mut lease_ms, args.number("LEASE", 1, MAX_LEASE_MS)?)?,
                    _ => return Err(Error::unknown_option(word)),
                }
            }
            Request::Extend { pairs, lease_ms }
        }
        Verb::Reap => reap(&mut args)?,
        Verb::Redrive => redrive(&mut args)?,
        Verb::Set => set(&mut args)?,
        Verb::Del => del(&mut args)?,
        Verb::Purge => purge(&mut args)?,
        Verb::Trim => trim(&mut args)?,
        Verb::Get => get(&mut args)?,
        Verb::Wait => {
            let id = args.id()?;
            let mut block_ms = None;
            while let Some((name, word)) = args.option() {
                match name.as_bytes() {
                    b"BLOCK" => once("BLOCK", &mut block_ms, args.number("BLOCK", 0, MAX_SPAN_MS)?)?,
                    _ => return Err(Error::unknown_option(word)),
                }
            }
            Request::Wait { id, block_ms }
        }
        Verb::Peek => peek(&mut args)?,
        Verb::Len => Request::Len { state: args.next().map(state).transpose()? },
        Verb::Info => match args.option() {
            None => Request::Info { json: false },
            Some((name, word)) => match name.as_bytes() {
                b"JSON" => Request::Info { json: true },
                _ => return Err(Error::unknown_option(word)),
            },
        },
        Verb::Schedule => schedule(&mut args)?,
        Verb::Unschedule => match args.rest() {
            [] => return Err(Error::missing_value("RQ.UNSCHEDULE key")),
            names => Request::Unschedule { names },
        },
        Verb::Schedules => Request::Schedules,
        Verb::Pause => pause(&mut args)?,
        Verb::Resume => match side(&mut args)? {
            (side, None, None) => Request::Resume { side },
            _ => return Err(Error::new("syntax error: RQ.RESUME takes OUT, IN or GROUP only")),
        },
        Verb::Groups => {
            let (after, count) = listing(&mut args)?;
            Request::Groups { after, count }
        }
        Verb::Consumers => {
            let (after, count) = listing(&mut args)?;
            Request::Consumers { after, count }
        }
        Verb::Create => Request::Create { settings: settings(&mut args)? },
        Verb::Alter => {
            let settings = settings(&mut args)?;
            if settings.is_empty() {
                return Err(Error::new("syntax error: RQ.ALTER needs an option and its value"));
            }
            Request::Alter { settings }
        }
        Verb::Apply | Verb::MLease | Verb::Queues | Verb::Doctor | Verb::Help | Verb::XTrim => return Err(Error::new("this command takes no request")),
    };
    args.finish()?;
    Ok(request)
}

/// Reads the arguments of MLEASE.
///
/// # Errors
/// Syntax and range errors, as [`parse`].
pub fn parse_multi_lease<'a>(arguments: &'a [&'a [u8]]) -> Result<MultiLease<'a>, Error> {
    let mut args = Args::new(arguments);
    let n = args.number("numkeys", 1, MAX_KEYS)?;
    let keys = usize::try_from(n).ok().and_then(|n| args.take(n));
    let keys = keys.ok_or_else(|| Error::new(format!("RQ.MLEASE announces {n} keys, but fewer follow")))?;
    let mut seen = BTreeSet::new();
    if let Some(twice) = keys.iter().find(|key| !seen.insert(**key)) {
        return Err(Error::new(format!("RQ.MLEASE names the key {} twice", quote(twice))));
    }
    let consumer = args.next().ok_or_else(|| Error::new(format!("RQ.MLEASE needs a consumer after its {n} keys")))?;
    let consumer = args::consumer(consumer)?;
    let options = lease_options(&mut args)?;
    args.finish()?;
    Ok(MultiLease { keys, consumer, options })
}

/// Reads the arguments of DOCTOR: KEY, and whether JSON is asked for.
///
/// # Errors
/// Syntax errors, as [`parse`].
pub fn parse_doctor<'a>(arguments: &'a [&'a [u8]]) -> Result<(Option<&'a [u8]>, bool), Error> {
    let mut args = Args::new(arguments);
    let (mut key, mut json) = (None, None);
    while let Some((name, word)) = args.option() {
        match name.as_bytes() {
            b"KEY" => once("KEY", &mut key, args.value("KEY")?)?,
            b"JSON" => once("JSON", &mut json, ())?,
            _ => return Err(Error::unknown_option(word)),
        }
    }
    Ok((key, json.is_some()))
}

/// Sets an option that may be given once.
fn once<T>(option: &str, slot: &mut Option<T>, value: T) -> Result<(), Error> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(Error::twice(option)),
    }
}

/// The longest run of `id token` pairs: it ends at the first argument that is no id.
fn pairs(args: &mut Args<'_>) -> Result<Pairs, Error> {
    let Some(first) = pair(args)? else {
        return Err(match args.peek() {
            Some(word) => Error::not_an_id(word),
            None => Error::missing_value("the key"),
        });
    };
    let mut others = Vec::with_capacity(args.remaining().len() / 2);
    while let Some(pair) = pair(args)? {
        others.push(pair);
    }
    Ok(Pairs { first, others })
}

/// A pair, if an id is next.
fn pair(args: &mut Args<'_>) -> Result<Option<(JobId, u64)>, Error> {
    let Some(id) = args.peek().and_then(JobId::parse) else { return Ok(None) };
    args.next();
    Ok(Some((id, args::token(args.value("the job id")?)?)))
}

/// All that is left, as ids.
fn ids<'a>(args: &mut Args<'a>) -> Result<Ids<'a>, Error> {
    let all = args.rest();
    if all.is_empty() {
        return Err(Error::new("syntax error: at least one job id is needed"));
    }
    match all.iter().find(|id| JobId::parse(id).is_none()) {
        Some(bad) => Err(Error::not_an_id(bad)),
        None => Ok(Ids(all)),
    }
}

fn settings(args: &mut Args<'_>) -> Result<Vec<Setting>, Error> {
    let mut all: Vec<Setting> = Vec::new();
    while let Some((name, word)) = args.option() {
        let setting = Setting::parse(name.as_bytes(), args)?.ok_or_else(|| Error::unknown_option(word))?;
        if all.iter().any(|other| other.opt == setting.opt) {
            return Err(Error::twice(&String::from_utf8_lossy(name.as_bytes())));
        }
        all.push(setting);
    }
    Ok(all)
}

fn state(word: &[u8]) -> Result<State, Error> {
    State::parse(Keyword::new(word).as_bytes())
        .ok_or_else(|| Error::new(format!("a state is READY, DELAYED, LEASED, DEAD or DONE, not {}", quote(word))))
}

fn reason(word: &[u8]) -> Result<Reason, Error> {
    Reason::parse(&word.to_ascii_lowercase())
        .ok_or_else(|| Error::new(format!("REASON must be failed, expired-lease, rejected or ttl, not {}", quote(word))))
}
