//! What is known of a job beside its id, its state and its payload, packed.
//!
//! A job that was pushed with nothing said and waits for its first delivery has no record at all.
//! Most others fit into one of two short forms of 32 bytes: a job that waits, and one that was
//! delivered once and nothing else. What was retried, released or died has a packed form of its own,
//! and what does not fit there either has all its fields in full.

mod numbers;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use numbers::{from_near, near, pack, unpack};

use crate::dedup::Key;
use crate::id::JobId;
use crate::job::{token_ms, Facts, Known, More, NameId, Outline, Reason, Settled, State};

/// See the module.
#[derive(Debug, Clone)]
pub(crate) enum Record {
    Waiting(Waiting),
    Delivered(Delivered),
    Packed(Box<Packed>),
    Full(Box<Full>),
}

/// Never delivered in this budget: its place, and what it was pushed with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Waiting {
    place: [u8; 5],
    group: [u8; 4],
    lease_ms: [u8; 5],
    ttl_ms: [u8; 5],
    ttl_at: [u8; 6],
    max_deliveries: [u8; 4],
    priority: i8,
    with: u8,
}

/// Pushed with nothing said, and delivered once.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Delivered {
    place: [u8; 5],
    token: [u8; 7],
    /// When, as a difference to the time that the token tells.
    delivered: [u8; 2],
    until: [u8; 6],
    lease_ms: [u8; 5],
    consumer: [u8; 4],
    priority: i8,
    finished: bool,
}

/// All but what keys, schedules and results add.
#[derive(Debug, Clone)]
pub(crate) struct Packed {
    place: [u8; 6],
    until: [u8; 6],
    old_place: [u8; 6],
    back_since: [u8; 6],
    first_delivered: [u8; 6],
    last_delivered: [u8; 6],
    ttl_at: [u8; 6],
    token: [u8; 7],
    lease_ms: [u8; 5],
    own_lease_ms: [u8; 5],
    ttl_ms: [u8; 5],
    consumer: [u8; 4],
    group: [u8; 4],
    max_deliveries: [u8; 4],
    deliveries: [u8; 4],
    budget_failures: [u8; 4],
    budget_expiries: [u8; 4],
    total_deliveries: [u8; 4],
    failures: [u8; 4],
    expiries: [u8; 4],
    releases: [u8; 4],
    redrives: [u8; 4],
    priority: i8,
    settled: Settled,
    reason: Option<Reason>,
    with: u8,
    error: Box<[u8]>,
}

/// Everything.
#[derive(Debug, Clone)]
pub(crate) struct Full {
    place: u64,
    priority: i8,
    more: More,
}

const _: () = assert!(std::mem::size_of::<Option<Record>>() == 32);
const _: () = assert!(std::mem::size_of::<Packed>() == 128);

const WITH_GROUP: u8 = 1;
const WITH_MAX_DELIVERIES: u8 = 2;
const WITH_CONSUMER: u8 = 4;

/// Places are stored as a difference to the time of the push, so much above it.
const PLACE_BIAS: u64 = 1 << 39;
/// The same for the time of a delivery and the time that its token tells.
const DELIVERED_BIAS: u64 = 1 << 15;

/// Which of the options are there.
fn with(more: &More) -> u8 {
    let flag = |there: bool, flag: u8| if there { flag } else { 0 };
    flag(more.group.is_some(), WITH_GROUP)
        | flag(more.own_max_deliveries.is_some(), WITH_MAX_DELIVERIES)
        | flag(more.consumer.is_some(), WITH_CONSUMER)
}

impl Waiting {
    /// None: it does not fit.
    fn pack(id: JobId, place: u64, priority: i8, more: &More) -> Option<Waiting> {
        let waiting = Waiting {
            place: near(place, id.ms, PLACE_BIAS)?,
            group: pack(u64::from(more.group.unwrap_or(0)))?,
            lease_ms: pack(more.own_lease_ms)?,
            ttl_ms: pack(more.ttl_ms)?,
            ttl_at: pack(more.ttl_at)?,
            max_deliveries: pack(more.own_max_deliveries.unwrap_or(0))?,
            priority,
            with: with(more),
        };
        debug_assert!(waiting.more() == *more);
        Some(waiting)
    }

    fn more(&self) -> More {
        let when = |flag: u8| self.with & flag > 0;
        More {
            group: when(WITH_GROUP).then_some(u32::from_le_bytes(self.group)),
            own_lease_ms: unpack(self.lease_ms),
            ttl_ms: unpack(self.ttl_ms),
            ttl_at: unpack(self.ttl_at),
            own_max_deliveries: when(WITH_MAX_DELIVERIES).then_some(unpack(self.max_deliveries)),
            ..More::default()
        }
    }
}

impl Delivered {
    /// None: it does not fit.
    fn pack(id: JobId, place: u64, priority: i8, more: &More) -> Option<Delivered> {
        let once = (more.deliveries, more.total_deliveries) == (1, 1) && more.first_delivered_at == more.last_delivered_at;
        if !once || more.old_place != place || !matches!(more.settled, Settled::No | Settled::Finished) {
            return None;
        }
        let delivered = Delivered::once(&more.outline(Outline { place, priority, ..Outline::plain(id, 0) }))?;
        debug_assert!(delivered.more(place) == *more);
        Some(delivered)
    }

    /// Of a job about which nothing else is known than one delivery.
    fn once(job: &Outline) -> Option<Delivered> {
        Some(Delivered {
            place: near(job.place, job.id.ms, PLACE_BIAS)?,
            token: pack(job.token)?,
            delivered: near(job.last_delivered_at, token_ms(job.token), DELIVERED_BIAS)?,
            until: pack(job.until)?,
            lease_ms: pack(job.lease_ms)?,
            consumer: job.consumer?.to_le_bytes(),
            priority: job.priority,
            finished: job.settled == Settled::Finished,
        })
    }

    fn settled(&self) -> Settled {
        if self.finished { Settled::Finished } else { Settled::No }
    }

    fn more(&self, place: u64) -> More {
        let token = unpack(self.token);
        let at = from_near(self.delivered, token_ms(token), DELIVERED_BIAS);
        More {
            token,
            settled: self.settled(),
            consumer: Some(u32::from_le_bytes(self.consumer)),
            lease_ms: unpack(self.lease_ms),
            until: unpack(self.until),
            old_place: place,
            first_delivered_at: at,
            last_delivered_at: at,
            deliveries: 1,
            total_deliveries: 1,
            ..More::default()
        }
    }
}

impl Packed {
    /// None, and nothing was taken out: it does not fit.
    fn pack(place: u64, priority: i8, more: &mut More) -> Option<Packed> {
        // All fields by name, so that none is forgotten.
        let More {
            own_lease_ms, own_max_deliveries, ttl_ms, ttl_at, token, settled, consumer, lease_ms, until, old_place, back_since,
            first_delivered_at, last_delivered_at, deliveries, budget_failures, budget_expiries, total_deliveries, failures,
            expiries, releases, redrives, reason, ref mut error, group, schedule: None, slot_at: 0, dedup: None,
            dedup_window_ms: 0, ref result,
        } = *more
        else {
            return None;
        };
        if !result.is_empty() {
            return None;
        }
        Some(Packed {
            place: pack(place)?,
            until: pack(until)?,
            old_place: pack(old_place)?,
            back_since: pack(back_since)?,
            first_delivered: pack(first_delivered_at)?,
            last_delivered: pack(last_delivered_at)?,
            ttl_at: pack(ttl_at)?,
            token: pack(token)?,
            lease_ms: pack(lease_ms)?,
            own_lease_ms: pack(own_lease_ms)?,
            ttl_ms: pack(ttl_ms)?,
            consumer: consumer.unwrap_or(0).to_le_bytes(),
            group: group.unwrap_or(0).to_le_bytes(),
            max_deliveries: pack(own_max_deliveries.unwrap_or(0))?,
            deliveries: pack(deliveries)?,
            budget_failures: pack(budget_failures)?,
            budget_expiries: pack(budget_expiries)?,
            total_deliveries: pack(total_deliveries)?,
            failures: pack(failures)?,
            expiries: pack(expiries)?,
            releases: pack(releases)?,
            redrives: pack(redrives)?,
            priority,
            settled,
            reason,
            with: 0,
            error: std::mem::take(error),
        })
        .map(|packed| Packed { with: with(more), ..packed })
    }

    fn number(&self, flag: u8, bytes: [u8; 4]) -> Option<u32> {
        (self.with & flag > 0).then_some(u32::from_le_bytes(bytes))
    }

    /// All but the text of the error.
    fn more(&self) -> More {
        More {
            own_lease_ms: unpack(self.own_lease_ms),
            own_max_deliveries: self.number(WITH_MAX_DELIVERIES, self.max_deliveries).map(u64::from),
            ttl_ms: unpack(self.ttl_ms),
            ttl_at: unpack(self.ttl_at),
            token: unpack(self.token),
            settled: self.settled,
            consumer: self.number(WITH_CONSUMER, self.consumer),
            lease_ms: unpack(self.lease_ms),
            until: unpack(self.until),
            old_place: unpack(self.old_place),
            back_since: unpack(self.back_since),
            first_delivered_at: unpack(self.first_delivered),
            last_delivered_at: unpack(self.last_delivered),
            deliveries: unpack(self.deliveries),
            budget_failures: unpack(self.budget_failures),
            budget_expiries: unpack(self.budget_expiries),
            total_deliveries: unpack(self.total_deliveries),
            failures: unpack(self.failures),
            expiries: unpack(self.expiries),
            releases: unpack(self.releases),
            redrives: unpack(self.redrives),
            reason: self.reason,
            group: self.number(WITH_GROUP, self.group),
            ..More::default()
        }
    }
}

impl Record {
    /// The shortest form that has all of it. Takes out what is not short.
    pub(crate) fn pack(facts: &mut Facts) -> Record {
        let Facts { id, place, priority, ref mut more, .. } = *facts;
        let short = match more.known() {
            Known { delivery: false, rare: false, .. } => Waiting::pack(id, place, priority, more).map(Record::Waiting),
            Known { options: false, rare: false, .. } => Delivered::pack(id, place, priority, more).map(Record::Delivered),
            _ => None,
        };
        let packed = |more: &mut More| Packed::pack(place, priority, more).map(|packed| Record::Packed(Box::new(packed)));
        let full = |more: &mut More| Record::Full(Box::new(Full { place, priority, more: std::mem::take(more) }));
        short.or_else(|| packed(more)).unwrap_or_else(|| full(more))
    }

    /// Of a job that was plain until it was delivered; None: it does not fit the short form.
    pub(crate) fn delivered(job: &Outline) -> Option<Record> {
        Delivered::once(job).map(Record::Delivered)
    }

    /// The token of the last delivery, how it was spent, and who got it.
    pub(crate) fn claim(&self) -> (u64, Settled, Option<NameId>) {
        match self {
            Record::Waiting(_) => (0, Settled::No, None),
            Record::Delivered(delivered) => {
                (unpack(delivered.token), delivered.settled(), Some(u32::from_le_bytes(delivered.consumer)))
            }
            Record::Packed(packed) => (unpack(packed.token), packed.settled, packed.number(WITH_CONSUMER, packed.consumer)),
            Record::Full(full) => (full.more.token, full.more.settled, full.more.consumer),
        }
    }

    fn place(&self, id: JobId) -> (u64, i8) {
        match self {
            Record::Waiting(waiting) => (from_near(waiting.place, id.ms, PLACE_BIAS), waiting.priority),
            Record::Delivered(delivered) => (from_near(delivered.place, id.ms, PLACE_BIAS), delivered.priority),
            Record::Packed(packed) => (unpack(packed.place), packed.priority),
            Record::Full(full) => (full.place, full.priority),
        }
    }

    /// The outline of its job.
    pub(crate) fn outline(&self, id: JobId, state: State, bytes: u64) -> Outline {
        let (place, priority) = self.place(id);
        let job = Outline { state, plain: false, place, priority, ..Outline::plain(id, bytes) };
        match self {
            Record::Waiting(waiting) => Outline {
                group: (waiting.with & WITH_GROUP > 0).then_some(u32::from_le_bytes(waiting.group)),
                own_lease_ms: unpack(waiting.lease_ms),
                ttl_at: unpack(waiting.ttl_at),
                ..job
            },
            Record::Delivered(delivered) => Outline {
                token: unpack(delivered.token),
                settled: delivered.settled(),
                consumer: Some(u32::from_le_bytes(delivered.consumer)),
                lease_ms: unpack(delivered.lease_ms),
                until: unpack(delivered.until),
                last_delivered_at: self.last_delivered_at(),
                deliveries: 1,
                ..job
            },
            Record::Packed(packed) => packed.more().outline(job),
            Record::Full(full) => full.more.outline(job),
        }
    }

    /// When it was delivered last, Unix ms; 0: never.
    pub(crate) fn last_delivered_at(&self) -> u64 {
        match self {
            Record::Waiting(_) => 0,
            Record::Delivered(delivered) => from_near(delivered.delivered, token_ms(unpack(delivered.token)), DELIVERED_BIAS),
            Record::Packed(packed) => unpack(packed.last_delivered),
            Record::Full(full) => full.more.last_delivered_at,
        }
    }

    /// The rest.
    pub(crate) fn more(&self, place: u64) -> Cow<'_, More> {
        match self {
            Record::Waiting(waiting) => Cow::Owned(waiting.more()),
            Record::Delivered(delivered) => Cow::Owned(delivered.more(place)),
            Record::Packed(packed) => Cow::Owned(More { error: packed.error.clone(), ..packed.more() }),
            Record::Full(full) => Cow::Borrowed(&full.more),
        }
    }

    /// Takes everything out, to be packed anew.
    pub(crate) fn take(&mut self, id: JobId, state: State) -> Facts {
        let (place, priority) = self.place(id);
        let more = match self {
            Record::Waiting(waiting) => waiting.more(),
            Record::Delivered(delivered) => delivered.more(place),
            Record::Packed(packed) => More { error: std::mem::take(&mut packed.error), ..packed.more() },
            Record::Full(full) => std::mem::take(&mut full.more),
        };
        Facts { id, state, place, priority, more }
    }

    /// Packs what [`Record::take`] took out.
    pub(crate) fn put_back(&mut self, facts: &mut Facts) {
        match self {
            Record::Packed(packed) if facts.more.known().rare => match Packed::pack(facts.place, facts.priority, &mut facts.more) {
                Some(anew) => **packed = anew,
                None => *self = Record::pack(facts),
            },
            // A key, a schedule or a result stays.
            Record::Full(full) if facts.more.known().rare => {
                (full.place, full.priority, full.more) = (facts.place, facts.priority, std::mem::take(&mut facts.more));
            }
            _ => *self = Record::pack(facts),
        }
    }

    /// The dedup key that its job was pushed with.
    pub(crate) fn dedup(&self) -> Option<&Key> {
        match self {
            Record::Full(full) => full.more.dedup.as_ref(),
            _ => None,
        }
    }

    /// What it takes beside its own 32 bytes.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Record::Packed(packed) => std::mem::size_of::<Packed>().saturating_add(16).saturating_add(packed.error.len()),
            Record::Full(full) => {
                std::mem::size_of::<Full>().saturating_add(16).saturating_add(full.more.error.len()).saturating_add(full.more.result.len())
            }
            _ => 0,
        }
    }
}
