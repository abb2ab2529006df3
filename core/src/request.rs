//! Requests: arguments made sense of and checked, before anything is looked at or changed.

use crate::args::{self, Args, Keyword};
use crate::error::{quote, Error};
use crate::id::JobId;
use crate::job::{Reason, State};
use crate::limits::{LEASE_BYTES, MAX_ERROR, LOOK_BEYOND, MAX_BATCH, MAX_COUNT, MAX_DELIVERIES, MAX_LEASE_MS, MAX_NAME, MAX_PAYLOAD, MAX_PEEK, MAX_SPAN_MS, BATCH_ROOM};
use crate::pause::Side;
use crate::policy::Setting;
use crate::schedule::Missed;
use crate::table::Verb;
use crate::view::Cursor;

/// When a job becomes due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum When {
    /// At once.
    #[default]
    Now,
    /// So many ms from now.
    In(u64),
    /// At a Unix time in ms; the past means now.
    At(u64),
}

impl When {
    /// The point in time.
    pub fn at(self, now_ms: u64) -> u64 {
        match self {
            When::Now => now_ms,
            When::In(ms) => now_ms.saturating_add(ms),
            When::At(ms) => ms.max(now_ms),
        }
    }
}

/// What PUSH says about a job beside its payload.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JobOptions {
    /// DELAY or AT.
    pub when: When,
    /// PRIORITY.
    pub priority: i8,
    /// LEASE in ms; 0: none of its own.
    pub lease_ms: u64,
    /// MAXDELIVERIES, if the job has its own.
    pub max_deliveries: Option<u64>,
    /// TTL in ms; 0: none.
    pub ttl_ms: u64,
}

/// GROUP and DEDUP of a push.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ties<'a> {
    /// GROUP.
    pub group: Option<&'a [u8]>,
    /// DEDUP or DEDUPS.
    pub dedup: Option<DedupOptions<'a>>,
}

/// DEDUP and DEDUPS: what becomes of a job whose key is taken.
#[derive(Debug, Clone, Copy)]
pub struct DedupOptions<'a> {
    /// One key per payload.
    pub keys: &'a [&'a [u8]],
    /// WINDOW in ms; 0: until the job ends.
    pub window_ms: u64,
    /// REPLACE.
    pub replace: bool,
    /// MAXWAIT in ms.
    pub max_wait_ms: Option<u64>,
    /// KEEPLAST.
    pub keep_last: bool,
}

/// When the slots of a schedule are.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs, reason = "named as in the command")]
pub enum RuleArgs<'a> {
    Cron { line: &'a [u8], zone: &'a [u8] },
    Every { ms: u64 },
}

/// What SCHEDULE says.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs, reason = "named as in the command")]
pub struct PlanArgs<'a> {
    pub rule: RuleArgs<'a>,
    pub start: Option<u64>,
    pub end: Option<u64>,
    pub limit: Option<u64>,
    pub missed: Missed,
    pub payload: &'a [u8],
    pub options: JobOptions,
    pub group: Option<&'a [u8]>,
    pub dedup: Option<&'a [u8]>,
}

/// What LEASE says beside the consumer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseOptions {
    /// COUNT.
    pub count: u64,
    /// LEASE in ms, if given.
    pub lease_ms: Option<u64>,
    /// BLOCK in ms, if given; 0: for ever.
    pub block_ms: Option<u64>,
    /// MAXBYTES.
    pub max_bytes: u64,
    /// META.
    pub meta: bool,
}

/// Pairs of id and token, checked when the request was made.
#[derive(Debug, Clone, Copy)]
pub struct Pairs<'a>(&'a [&'a [u8]]);

impl<'a> Pairs<'a> {
    /// How many pairs.
    pub fn len(self) -> usize {
        self.0.len() / 2
    }

    /// Whether there is none; a request always has one.
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// The pairs, in the order given.
    pub fn iter(self) -> impl Iterator<Item = (JobId, u64)> + 'a {
        self.0.chunks_exact(2).filter_map(|pair| match pair {
            [id, token] => Some((JobId::parse(id)?, args::token(token).ok()?)),
            _ => None,
        })
    }
}

/// Job ids, checked when the request was made.
#[derive(Debug, Clone, Copy)]
pub struct Ids<'a>(&'a [&'a [u8]]);

impl<'a> Ids<'a> {
    /// How many.
    pub fn len(self) -> usize {
        self.0.len()
    }

    /// Whether there is none; a request always has one.
    pub fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    /// The ids, in the order given.
    pub fn iter(self) -> impl Iterator<Item = JobId> + 'a {
        self.0.iter().filter_map(|id| JobId::parse(id))
    }
}

/// Which leases REAP ends.
#[derive(Debug, Clone, Copy)]
pub enum Reap<'a> {
    /// Those past their deadline.
    Expired,
    /// Those of one consumer.
    Consumer(&'a [u8]),
    /// Those of these jobs.
    Ids(Ids<'a>),
}

/// The bound that TRIM holds over finished jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trim {
    /// MAXLEN: at most so many.
    Len(u64),
    /// MAXAGE: finished less than so many ms ago.
    Age(u64),
    /// MAXBYTES: at most so many bytes.
    Bytes(u64),
}

/// A filter over dead jobs, and what REDRIVE does with them.
#[derive(Debug, Clone, Copy)]
pub struct RedriveMany {
    /// COUNT.
    pub count: u64,
    /// REASON.
    pub reason: Option<Reason>,
    /// AFTER: died later than this, Unix ms.
    pub after: Option<u64>,
    /// BEFORE: died earlier than this, Unix ms.
    pub before: Option<u64>,
    /// SPREAD in ms.
    pub spread_ms: u64,
    /// PRIORITY, if it is to be changed.
    pub priority: Option<i8>,
}

/// A checked request. The key is not part of it.
#[derive(Debug, Clone)]
#[allow(missing_docs, reason = "the fields carry the names of the commands' arguments")]
pub enum Request<'a> {
    Push { payloads: &'a [&'a [u8]], many: bool, options: JobOptions, ties: Ties<'a> },
    Lease { consumer: &'a [u8], options: LeaseOptions },
    Ack { pairs: Pairs<'a>, result: Option<&'a [u8]> },
    AckLease { id: JobId, token: u64, consumer: &'a [u8], options: LeaseOptions },
    Nack { pairs: Pairs<'a>, delay_ms: Option<u64>, error: Option<&'a [u8]>, dead: bool },
    Release { pairs: Pairs<'a>, delay_ms: Option<u64> },
    ReleaseConsumer { consumer: &'a [u8] },
    Extend { pairs: Pairs<'a>, lease_ms: Option<u64> },
    Reap { count: u64, which: Reap<'a> },
    Redrive { ids: Ids<'a> },
    RedriveMany(RedriveMany),
    Set { id: JobId, priority: Option<i8>, when: Option<When> },
    Del { ids: Ids<'a> },
    DelDedup { keys: &'a [&'a [u8]] },
    Purge { state: State, count: u64, reason: Option<Reason>, before: Option<u64> },
    Trim { bound: Trim, count: u64 },
    Get { id: JobId },
    GetDedup { key: &'a [u8] },
    Wait { id: JobId, block_ms: Option<u64> },
    Peek { state: State, cursor: Option<Cursor>, count: u64, payload: bool },
    Len { state: Option<State> },
    Info { json: bool },
    Schedule { name: &'a [u8], plan: Box<PlanArgs<'a>> },
    Unschedule { names: &'a [&'a [u8]] },
    Schedules,
    Pause { side: Side<'a>, for_ms: Option<u64>, reason: &'a [u8] },
    Resume { side: Side<'a> },
    Groups { after: Option<&'a [u8]>, count: u64 },
    Consumers { after: Option<&'a [u8]>, count: u64 },
    Create { settings: Vec<Setting> },
    Alter { settings: Vec<Setting> },
}

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
        Verb::Apply => return Err(Error::new("this command takes no request")),
    };
    args.finish()?;
    Ok(request)
}

/// Sets an option that may be given once.
fn once<T>(option: &str, slot: &mut Option<T>, value: T) -> Result<(), Error> {
    match slot.replace(value) {
        None => Ok(()),
        Some(_) => Err(Error::twice(option)),
    }
}

fn push<'a>(args: &mut Args<'a>, payloads: &'a [&'a [u8]], many: bool) -> Result<Request<'a>, Error> {
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
    let options = JobOptions {
        when: when.unwrap_or_default(),
        priority: priority.unwrap_or(0),
        lease_ms: lease_ms.unwrap_or(0),
        max_deliveries,
        ttl_ms: ttl_ms.unwrap_or(0),
    };
    Ok(Request::Push { payloads, many, options, ties: Ties { group, dedup } })
}

fn dedup_keys<'a>(args: &mut Args<'a>, option: &str, n: usize) -> Result<&'a [&'a [u8]], Error> {
    let keys = args.take(n).ok_or_else(|| Error::new(format!("syntax error: {option} needs {n} keys, one per payload")))?;
    keys.iter().try_for_each(|key| dedup_key(key).map(|_| ()))?;
    Ok(keys)
}

fn group_name(name: &[u8]) -> Result<&[u8], Error> {
    if name.len() > MAX_NAME {
        return Err(Error::new(format!("a group's name has at most {MAX_NAME} bytes, not {}", name.len())));
    }
    Ok(name)
}

fn dedup_key(key: &[u8]) -> Result<&[u8], Error> {
    if key.len() > MAX_NAME {
        return Err(Error::new(format!("a dedup key has at most {MAX_NAME} bytes, not {}: use a hash of it", key.len())));
    }
    Ok(key)
}

/// Whether the arguments go on with `DEDUP`; takes the word.
fn says_dedup(args: &mut Args<'_>) -> bool {
    let says = args.peek().is_some_and(|word| Keyword::new(word).as_bytes() == b"DEDUP");
    if says {
        args.next();
    }
    says
}

fn get<'a>(args: &mut Args<'a>) -> Result<Request<'a>, Error> {
    if says_dedup(args) {
        return Ok(Request::GetDedup { key: dedup_key(args.value("DEDUP")?)? });
    }
    Ok(Request::Get { id: args.id()? })
}

fn del<'a>(args: &mut Args<'a>) -> Result<Request<'a>, Error> {
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

fn lease_options(args: &mut Args<'_>) -> Result<LeaseOptions, Error> {
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

/// The longest run of `id token` pairs: it ends at the first argument that is no id.
fn pairs<'a>(args: &mut Args<'a>) -> Result<Pairs<'a>, Error> {
    let mut ahead = Args::new(args.remaining());
    let mut n = 0usize;
    while let Some(word) = ahead.peek() {
        if JobId::parse(word).is_none() {
            break;
        }
        ahead.next();
        args::token(ahead.value("the job id")?)?;
        n = n.saturating_add(2);
    }
    match args.take(n) {
        Some(found) if n > 0 => Ok(Pairs(found)),
        _ => Err(match args.peek() {
            Some(word) => Error::not_an_id(word),
            None => Error::missing_value("the key"),
        }),
    }
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

fn ack<'a>(args: &mut Args<'a>) -> Result<Request<'a>, Error> {
    let pairs = pairs(args)?;
    let mut result = None;
    while let Some((name, word)) = args.option() {
        match name.as_bytes() {
            b"RESULT" => once("RESULT", &mut result, args.value("RESULT")?)?,
            _ => return Err(Error::unknown_option(word)),
        }
    }
    match result {
        Some(blob) if blob.len() > MAX_PAYLOAD => Err(Error::too_big("the result", blob.len(), MAX_PAYLOAD)),
        _ => Ok(Request::Ack { pairs, result }),
    }
}

fn trim<'a>(args: &mut Args<'a>) -> Result<Request<'a>, Error> {
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

fn nack<'a>(args: &mut Args<'a>) -> Result<Request<'a>, Error> {
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

fn release<'a>(args: &mut Args<'a>) -> Result<Request<'a>, Error> {
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

fn reap<'a>(args: &mut Args<'a>) -> Result<Request<'a>, Error> {
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

fn redrive<'a>(args: &mut Args<'a>) -> Result<Request<'a>, Error> {
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

fn set<'a>(args: &mut Args<'a>) -> Result<Request<'a>, Error> {
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

fn purge<'a>(args: &mut Args<'a>) -> Result<Request<'a>, Error> {
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

fn peek<'a>(args: &mut Args<'a>) -> Result<Request<'a>, Error> {
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

fn schedule<'a>(args: &mut Args<'a>) -> Result<Request<'a>, Error> {
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

fn short<'a>(value: &'a [u8], option: &str) -> Result<&'a [u8], Error> {
    if value.len() > MAX_NAME {
        return Err(Error::new(format!("{option} has at most {MAX_NAME} bytes, not {}", value.len())));
    }
    Ok(value)
}

fn missed_word(word: &[u8]) -> Result<Missed, Error> {
    Missed::ALL
        .into_iter()
        .find(|missed| missed.name().as_bytes().eq_ignore_ascii_case(word))
        .ok_or_else(|| Error::new(format!("MISSED must be one, skip or all, not {}", quote(word))))
}

/// OUT, IN or GROUP; FOR; REASON.
type PauseArgs<'a> = (Side<'a>, Option<u64>, Option<&'a [u8]>);

fn side<'a>(args: &mut Args<'a>) -> Result<PauseArgs<'a>, Error> {
    let (mut side, mut for_ms, mut reason) = (None, None, None);
    while let Some((name, word)) = args.option() {
        match name.as_bytes() {
            b"OUT" => once("OUT", &mut side, Side::Out)?,
            b"IN" => once("IN", &mut side, Side::In)?,
            b"GROUP" => match side {
                // OUT is what a group's pause is anyway.
                None | Some(Side::Out) => side = Some(Side::Group(group_name(args.value("GROUP")?)?)),
                Some(_) => return Err(Error::twice("GROUP")),
            },
            b"FOR" => once("FOR", &mut for_ms, args.number("FOR", 1, MAX_SPAN_MS)?)?,
            b"REASON" => once("REASON", &mut reason, args.value("REASON")?)?,
            _ => return Err(Error::unknown_option(word)),
        }
    }
    Ok((side.unwrap_or(Side::Out), for_ms, reason))
}

fn pause<'a>(args: &mut Args<'a>) -> Result<Request<'a>, Error> {
    let (side, for_ms, reason) = side(args)?;
    let reason = reason.unwrap_or(&[]);
    Ok(Request::Pause { side, for_ms, reason: reason.get(..MAX_ERROR).unwrap_or(reason) })
}

/// AFTER name, COUNT n.
fn listing<'a>(args: &mut Args<'a>) -> Result<(Option<&'a [u8]>, u64), Error> {
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
