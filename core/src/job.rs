//! A job and all that is known about it.

use std::borrow::Cow;
use std::ops::Deref;

use crate::dedup::Key;
use crate::groups::GroupId;
use crate::id::JobId;
use crate::schedule::Name;
use crate::store::Record;

/// Where a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Waiting, and may be leased now.
    Ready,
    /// Waiting for its time: scheduled or retrying.
    Delayed,
    /// A consumer has it until a deadline.
    Leased,
    /// A dead letter.
    Dead,
    /// Finished, and kept by retention.
    Done,
}

impl State {
    /// All states, in the order of their numbers.
    pub const ALL: [State; 5] = [State::Ready, State::Delayed, State::Leased, State::Dead, State::Done];

    /// The states of jobs that are still to be done.
    pub const LIVE: [State; 3] = [State::Ready, State::Delayed, State::Leased];

    /// Its name in replies.
    pub fn name(self) -> &'static str {
        match self {
            State::Ready => "ready",
            State::Delayed => "delayed",
            State::Leased => "leased",
            State::Dead => "dead",
            State::Done => "done",
        }
    }

    /// Reads the name in upper case, as in commands.
    pub(crate) fn parse(word: &[u8]) -> Option<State> {
        State::ALL.into_iter().find(|state| state.name().as_bytes().eq_ignore_ascii_case(word))
    }

    pub(crate) fn from_number(n: u8) -> Option<State> {
        State::ALL.get(usize::from(n)).copied()
    }

    /// Whether it is still to be done.
    pub fn is_live(self) -> bool {
        State::LIVE.contains(&self)
    }

    /// Whether it waits to be leased.
    pub fn waits(self) -> bool {
        matches!(self, State::Ready | State::Delayed)
    }
}

/// Why a job is dead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// NACK spent the last delivery.
    Failed,
    /// Its worker vanished, and that was the last delivery or expiry it had.
    ExpiredLease,
    /// NACK DEAD.
    Rejected,
    /// It waited too long.
    Ttl,
}

impl Reason {
    /// All reasons, in the order of their numbers.
    pub const ALL: [Reason; 4] = [Reason::Failed, Reason::ExpiredLease, Reason::Rejected, Reason::Ttl];

    /// Its name in commands and replies.
    pub fn name(self) -> &'static str {
        match self {
            Reason::Failed => "failed",
            Reason::ExpiredLease => "expired-lease",
            Reason::Rejected => "rejected",
            Reason::Ttl => "ttl",
        }
    }

    /// Reads the name.
    pub(crate) fn parse(word: &[u8]) -> Option<Reason> {
        Reason::ALL.into_iter().find(|reason| reason.name().as_bytes() == word)
    }

    pub(crate) fn from_number(n: u8) -> Option<Reason> {
        Reason::ALL.get(usize::from(n)).copied()
    }
}

/// How the token of the last delivery was spent. The same verb sent again gets the same code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Settled {
    /// Not at all.
    #[default]
    No,
    /// NACK said 1.
    Retried,
    /// NACK said 2.
    Buried,
    /// RELEASE said 1.
    Released,
    /// ACK said 1, and the job is kept.
    Finished,
}

impl Settled {
    pub(crate) fn from_number(n: u8) -> Option<Settled> {
        [Settled::No, Settled::Retried, Settled::Buried, Settled::Released, Settled::Finished].get(usize::from(n)).copied()
    }
}

/// What the orders of a queue and the tokens of workers go by: what is asked of jobs all the time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outline {
    pub(crate) id: JobId,
    pub(crate) state: State,
    /// Ready, as it was pushed, with nothing said about it: where it is stored is its order.
    pub(crate) plain: bool,
    /// When it is or became due, Unix ms: its place among the ready jobs, or its due time.
    pub(crate) place: u64,
    pub(crate) priority: i8,
    /// The bytes that limits and INFO count: of payload and result.
    pub(crate) bytes: u64,
    /// See [`More`] for these.
    pub(crate) settled: Settled,
    pub(crate) reason: Option<Reason>,
    pub(crate) consumer: Option<NameId>,
    pub(crate) group: Option<GroupId>,
    pub(crate) own_lease_ms: u64,
    pub(crate) ttl_at: u64,
    pub(crate) token: u64,
    pub(crate) lease_ms: u64,
    pub(crate) until: u64,
    pub(crate) back_since: u64,
    pub(crate) last_delivered_at: u64,
    pub(crate) deliveries: u64,
}

/// A job, as it is looked at.
#[derive(Debug, Clone)]
pub(crate) struct Job<'a> {
    outline: Outline,
    pub(crate) payload: &'a [u8],
    known: Whence<'a>,
}

/// Where the rest of what is known of a job is.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Whence<'a> {
    Nowhere,
    Record(&'a Record),
    InHand(&'a More),
}

impl Deref for Job<'_> {
    type Target = Outline;

    fn deref(&self) -> &Outline {
        &self.outline
    }
}

/// All of a job that can change, in hand. (Its payload can be replaced, but that is rare.)
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Facts {
    pub(crate) id: JobId,
    pub(crate) state: State,
    pub(crate) place: u64,
    pub(crate) priority: i8,
    pub(crate) more: More,
}

/// The rest of a job: its own options, its lease, its history.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct More {
    /// Its own LEASE in ms; 0: none.
    pub(crate) own_lease_ms: u64,
    /// Its own MAXDELIVERIES.
    pub(crate) own_max_deliveries: Option<u64>,
    /// TTL in ms; 0: none.
    pub(crate) ttl_ms: u64,
    /// When a waiting job goes to dead, Unix ms; 0 without TTL.
    pub(crate) ttl_at: u64,
    /// The fencing token of the last delivery; 0: none, or void.
    pub(crate) token: u64,
    pub(crate) settled: Settled,
    /// The last consumer's name.
    pub(crate) consumer: Option<NameId>,
    /// The lease it was given last, in ms; 0: never leased.
    pub(crate) lease_ms: u64,
    /// Leased: the deadline. Dead, done: since when. Else 0. Unix ms.
    pub(crate) until: u64,
    /// The place it had before it was leased.
    pub(crate) old_place: u64,
    /// Ready at an old place: since when it is ready again; else 0. Unix ms.
    pub(crate) back_since: u64,
    pub(crate) first_delivered_at: u64,
    pub(crate) last_delivered_at: u64,
    /// Of this budget.
    pub(crate) deliveries: u64,
    pub(crate) budget_failures: u64,
    pub(crate) budget_expiries: u64,
    /// Of its whole life.
    pub(crate) total_deliveries: u64,
    pub(crate) failures: u64,
    pub(crate) expiries: u64,
    pub(crate) releases: u64,
    pub(crate) redrives: u64,
    pub(crate) reason: Option<Reason>,
    pub(crate) error: Box<[u8]>,
    pub(crate) group: Option<GroupId>,
    /// The schedule that made it.
    pub(crate) schedule: Option<Name>,
    /// The slot that it was made for, Unix ms; it stays, whatever becomes of the job. 0: none.
    pub(crate) slot_at: u64,
    /// The dedup key it was pushed with; it may be another job's by now.
    pub(crate) dedup: Option<Key>,
    /// WINDOW of that key in ms; 0: it is the job's until it ends.
    pub(crate) dedup_window_ms: u64,
    /// What ACK left with a finished job.
    pub(crate) result: Box<[u8]>,
}

/// The number of a consumer's name within a queue.
pub(crate) type NameId = u32;
/// Where a job is stored.
pub(crate) type Slot = u32;

impl<'a> Job<'a> {
    pub(crate) fn new(outline: Outline, payload: &'a [u8], known: Whence<'a>) -> Job<'a> {
        Job { outline, payload, known }
    }

    /// Everything that is known of it.
    pub(crate) fn more(&self) -> Cow<'a, More> {
        match self.known {
            Whence::Nowhere => Cow::Owned(More::default()),
            Whence::Record(record) => record.more(self.place),
            Whence::InHand(more) => Cow::Borrowed(more),
        }
    }

    /// Payload bytes.
    pub(crate) fn size(&self) -> u64 {
        self.payload.len() as u64
    }
}

impl Outline {
    /// Of a plain job.
    pub(crate) fn plain(id: JobId, bytes: u64) -> Outline {
        Outline {
            id, state: State::Ready, plain: true, place: id.ms, priority: 0, bytes, settled: Settled::No, reason: None, consumer: None,
            group: None, own_lease_ms: 0, ttl_at: 0, token: 0, lease_ms: 0, until: 0, back_since: 0, last_delivered_at: 0, deliveries: 0,
        }
    }

    /// When a waiting job goes to dead by TTL.
    pub(crate) fn ttl_at(&self) -> Option<u64> {
        Some(self.ttl_at).filter(|at| *at > 0)
    }
}

impl Facts {
    /// Ready, as it was pushed, with nothing said about it.
    pub(crate) fn plain(id: JobId) -> Facts {
        Facts { id, state: State::Ready, place: id.ms, priority: 0, more: More::default() }
    }

    pub(crate) fn is_plain(&self) -> bool {
        self.state == State::Ready && self.place == self.id.ms && self.priority == 0 && self.more.known() == Known::NOTHING
    }

    /// The job that it is with a payload.
    pub(crate) fn with<'a>(&'a self, payload: &'a [u8]) -> Job<'a> {
        Job::new(self.outline(payload.len() as u64), payload, Whence::InHand(&self.more))
    }

    /// Its outline, with a payload of that size. It is not plain, or will not be.
    pub(crate) fn outline(&self, size: u64) -> Outline {
        self.more.outline(Outline { state: self.state, place: self.place, priority: self.priority, ..Outline::plain(self.id, size) })
    }
}

/// Which kinds of things are known of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Known {
    /// What it can be pushed with, but for a dedup key.
    pub(crate) options: bool,
    /// A delivery.
    pub(crate) delivery: bool,
    /// Anything else.
    pub(crate) rare: bool,
}

impl Known {
    const NOTHING: Known = Known { options: false, delivery: false, rare: false };
}

impl More {
    /// What it adds to the outline of a job.
    pub(crate) fn outline(&self, job: Outline) -> Outline {
        Outline {
            plain: false,
            bytes: job.bytes.saturating_add(self.result.len() as u64),
            settled: self.settled,
            reason: self.reason,
            consumer: self.consumer,
            group: self.group,
            own_lease_ms: self.own_lease_ms,
            ttl_at: self.ttl_at,
            token: self.token,
            lease_ms: self.lease_ms,
            until: self.until,
            back_since: self.back_since,
            last_delivered_at: self.last_delivered_at,
            deliveries: self.deliveries,
            ..job
        }
    }

    /// Cheaper than to compare with nothing: each job is asked when it changes.
    pub(crate) fn known(&self) -> Known {
        // All fields by name, so that none is forgotten.
        let More {
            own_lease_ms, own_max_deliveries, ttl_ms, ttl_at, token, settled, consumer, lease_ms, until, old_place, back_since,
            first_delivered_at, last_delivered_at, deliveries, budget_failures, budget_expiries, total_deliveries, failures,
            expiries, releases, redrives, reason, error, group, schedule, slot_at, dedup, dedup_window_ms, result,
        } = self;
        let options = own_lease_ms | ttl_ms | ttl_at;
        let delivery = token | lease_ms | until | old_place | first_delivered_at | last_delivered_at | deliveries | total_deliveries;
        let counts = back_since | budget_failures | budget_expiries | failures | expiries | releases | redrives | slot_at | dedup_window_ms;
        let texts = reason.is_some() || schedule.is_some() || dedup.is_some() || !error.is_empty() || !result.is_empty();
        Known {
            options: options != 0 || own_max_deliveries.is_some() || group.is_some(),
            delivery: delivery != 0 || consumer.is_some() || *settled != Settled::No,
            rare: counts != 0 || texts,
        }
    }
}

/// What a token is good for, of a job that is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hold {
    /// Not the token of the last delivery, or void.
    Stale,
    /// The job is leased under it.
    Live,
    /// The lease expired, the job waits, nobody else got it.
    Late,
    /// The lease expired and the job went to dead.
    LateDead,
    /// It was spent.
    Settled(Settled),
}

impl Outline {
    pub(crate) fn hold(&self, token: u64) -> Hold {
        Hold::of(token, self.token, self.settled, self.state)
    }
}

/// The time that a token tells: tokens are made of the clock, in µs.
pub(crate) fn token_ms(token: u64) -> u64 {
    token / 1000
}

impl Hold {
    /// What `token` is good for, if `last` is that of the last delivery.
    pub(crate) fn of(token: u64, last: u64, settled: Settled, state: State) -> Hold {
        if token == 0 || token != last {
            return Hold::Stale;
        }
        match (settled, state) {
            (Settled::No, State::Leased) => Hold::Live,
            (Settled::No, State::Ready | State::Delayed) => Hold::Late,
            (Settled::No, State::Dead) => Hold::LateDead,
            (Settled::No, State::Done) => Hold::Stale,
            (settled, _) => Hold::Settled(settled),
        }
    }
}
