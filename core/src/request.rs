//! Requests: what a command asks for, checked.

use crate::id::JobId;
use crate::job::{Reason, State};
use crate::pause::Side;
use crate::policy::Setting;
use crate::schedule::Missed;
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

/// MLEASE: a LEASE of the first of several queues that has something.
#[derive(Debug, Clone, Copy)]
pub struct MultiLease<'a> {
    /// The keys, in the order given; at least one, none twice.
    pub keys: &'a [&'a [u8]],
    /// Who takes.
    pub consumer: &'a [u8],
    /// The options of LEASE.
    pub options: LeaseOptions,
}

/// Pairs of id and token, at least one. The first is apart, so that a single one needs no memory.
#[derive(Debug, Clone)]
pub struct Pairs {
    pub(crate) first: (JobId, u64),
    pub(crate) others: Vec<(JobId, u64)>,
}

impl Pairs {
    /// How many pairs.
    #[allow(clippy::len_without_is_empty, reason = "it never is")]
    pub fn len(&self) -> usize {
        self.others.len().saturating_add(1)
    }

    /// The pairs, in the order given.
    pub fn iter(&self) -> impl Iterator<Item = (JobId, u64)> + '_ {
        std::iter::once(self.first).chain(self.others.iter().copied())
    }
}

/// Job ids, checked when the request was made.
#[derive(Debug, Clone, Copy)]
pub struct Ids<'a>(pub(crate) &'a [&'a [u8]]);

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
    Ack { pairs: Pairs, result: Option<&'a [u8]> },
    AckLease { id: JobId, token: u64, consumer: &'a [u8], options: LeaseOptions },
    Nack { pairs: Pairs, delay_ms: Option<u64>, error: Option<&'a [u8]>, dead: bool },
    Release { pairs: Pairs, delay_ms: Option<u64> },
    ReleaseConsumer { consumer: &'a [u8] },
    Extend { pairs: Pairs, lease_ms: Option<u64> },
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
