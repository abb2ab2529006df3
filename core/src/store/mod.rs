//! The jobs of a queue, packed: payloads and heads in segments, what else is known in records.

mod order;
mod record;
mod segment;
mod slab;
mod sorted;
#[cfg(test)]
mod tests;

pub(crate) use order::{ByTime, Entry, Key, Lease, Order};
#[cfg(test)]
use order::Timed;
pub(crate) use sorted::Sorted;

use std::cell::Cell;

use crate::id::JobId;
use crate::job::{Facts, Hold, Job, NameId, Outline, Settled, Slot, State, Whence};
pub(crate) use record::Record;
use segment::{Segment, LABELS, PLAIN};
use slab::Slab;

/// So many segments have numbers.
const MAX_SEGMENTS: u32 = u32::MAX / LABELS;

/// The jobs of a queue by slot and by id.
#[derive(Debug, Clone)]
pub(crate) struct Jobs {
    segments: Slab<Segment>,
    /// Segments by an id that is above all of the segment before, and not above their own.
    by_id: Sorted<JobId, u32>,
    /// The segment that new jobs go to.
    tail: Option<u32>,
    /// The newest id that was ever put in.
    last: JobId,
    records: Slab<Record>,
    len: usize,
    /// How many jobs are plain, and the first segment that has some.
    plain: usize,
    first_plain: Option<u32>,
    /// What segments and records point at, in bytes.
    pointed_at: usize,
    /// The job that was looked at last.
    seen: Cell<Seen>,
}

/// A job, and the place in the row of its segment that it had: a hint. Without an id it is gone.
#[derive(Debug, Clone, Copy)]
struct Seen {
    id: Option<JobId>,
    slot: Slot,
    place: u8,
}

const NOBODY: Seen = Seen { id: None, slot: 0, place: 0 };

fn slot_of(segment: u32, label: u8) -> Slot {
    segment.wrapping_mul(LABELS) | u32::from(label)
}

fn split(slot: Slot) -> (u32, u8) {
    (slot / LABELS, (slot % LABELS) as u8)
}

impl Jobs {
    pub(crate) fn new() -> Jobs {
        Jobs {
            segments: Slab::new(),
            by_id: Sorted::new(),
            tail: None,
            last: JobId::ZERO,
            records: Slab::new(),
            len: 0,
            plain: 0,
            first_plain: None,
            pointed_at: 0,
            seen: Cell::new(NOBODY),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The newest id that was ever put in.
    pub(crate) fn last(&self) -> JobId {
        self.last
    }

    #[inline]
    fn segment(&self, slot: Slot) -> Option<(&Segment, u8)> {
        let (number, label) = split(slot);
        Some((self.segments.get(number)?, label))
    }

    /// Where a job is.
    pub(crate) fn find(&self, id: JobId) -> Option<Slot> {
        // Jobs are asked for several times in a row, and in the order of their ids.
        let seen = self.seen.get();
        if seen.id == Some(id) {
            return Some(seen.slot);
        }
        let (near, _) = split(seen.slot);
        let close = self.segments.get(near).and_then(|segment| segment.find_near(id, usize::from(seen.place))).map(|place| (near, place));
        let (number, place) = match close {
            Some(found) => found,
            None => {
                let (_, number) = self.by_id.floor(&id)?;
                (number, self.segments.get(number)?.find(id)?)
            }
        };
        let slot = slot_of(number, self.segments.get(number)?.label(place)?);
        self.seen.set(Seen { id: Some(id), slot, place: place as u8 });
        Some(slot)
    }

    #[inline]
    pub(crate) fn id(&self, slot: Slot) -> Option<JobId> {
        let (segment, label) = self.segment(slot)?;
        segment.id(label)
    }

    /// When a job was delivered last.
    pub(crate) fn delivered_at(&self, slot: Slot) -> u64 {
        let record = self.segment(slot).and_then(|(segment, label)| segment.look(label));
        record.and_then(|(_, _, record)| self.records.get(record)).map_or(0, Record::last_delivered_at)
    }

    pub(crate) fn get(&self, slot: Slot) -> Option<Job<'_>> {
        let (number, label) = split(slot);
        let (place, id, state, record, payload) = self.segments.get(number)?.view(label)?;
        self.seen.set(Seen { id: Some(id), slot, place: place as u8 });
        let size = payload.len() as u64;
        if record == PLAIN {
            return Some(Job::new(Outline::plain(id, size), payload, Whence::Nowhere));
        }
        let record = self.records.get(record)?;
        Some(Job::new(record.outline(id, state, size), payload, Whence::Record(record)))
    }

    /// What a token is good for, and who got the job last.
    pub(crate) fn hold(&self, slot: Slot, token: u64) -> Option<(Hold, Option<NameId>)> {
        let (segment, label) = self.segment(slot)?;
        let (_, state, record) = segment.look(label)?;
        let (last, settled, consumer) = self.records.get(record).map_or((0, Settled::No, None), Record::claim);
        Some((Hold::of(token, last, settled, state), consumer))
    }

    /// Puts a job in whose id is above all before; None if that is not so, or there is no number
    /// left for it.
    pub(crate) fn add(&mut self, mut facts: Facts, payload: &[u8]) -> Option<Slot> {
        if facts.is_plain() {
            return self.add_plain(facts.id, payload);
        }
        if facts.id <= self.last {
            return None;
        }
        let (id, state) = (facts.id, facts.state);
        let record = self.new_record(&mut facts)?;
        let Some(slot) = self.push(id, payload, state, record) else {
            self.drop_record(record);
            return None;
        };
        self.last = id;
        self.len = self.len.saturating_add(1);
        Some(slot)
    }

    /// The same for a plain job.
    pub(crate) fn add_plain(&mut self, id: JobId, payload: &[u8]) -> Option<Slot> {
        if id <= self.last {
            return None;
        }
        let slot = self.push(id, payload, State::Ready, PLAIN)?;
        self.last = id;
        self.len = self.len.saturating_add(1);
        self.plain = self.plain.saturating_add(1);
        self.first_plain.get_or_insert(split(slot).0);
        Some(slot)
    }

    /// A plain job was delivered, and is now as given. None, and nothing has changed, if it has to
    /// be taken out and put back for that.
    pub(crate) fn deliver_plain(&mut self, slot: Slot, job: &Outline) -> Option<()> {
        let (number, label) = split(slot);
        let record = Record::delivered(job)?;
        let segment = self.segments.get_mut(number)?;
        let record = self.records.insert(record, PLAIN)?;
        segment.set(label, job.state, record);
        self.plain_left(number, job.id);
        Some(())
    }

    fn push(&mut self, id: JobId, payload: &[u8], state: State, record: u32) -> Option<Slot> {
        let large = self.segments.len() > 1;
        if let Some((number, tail)) = self.tail.and_then(|number| Some((number, self.segments.get_mut(number)?))) {
            let before = tail.bytes();
            let label = tail.push(id, payload, state, record, large);
            if label.is_none() {
                tail.seal();
            }
            self.pointed_at = self.pointed_at.saturating_sub(before).saturating_add(tail.bytes());
            if let Some(label) = label {
                return Some(slot_of(number, label));
            }
        }
        let mut segment = Segment::default();
        let label = segment.push(id, payload, state, record, large || self.segments.len() > 0)?;
        self.pointed_at = self.pointed_at.saturating_add(segment.bytes());
        let number = self.segments.insert(segment, MAX_SEGMENTS)?;
        self.by_id.insert(id, number);
        self.tail = Some(number);
        Some(slot_of(number, label))
    }

    fn new_record(&mut self, facts: &mut Facts) -> Option<u32> {
        let record = Record::pack(facts);
        self.pointed_at = self.pointed_at.saturating_add(record.bytes());
        self.records.insert(record, PLAIN)
    }

    fn drop_record(&mut self, number: u32) -> Option<Record> {
        let record = self.records.remove(number)?;
        self.pointed_at = self.pointed_at.saturating_sub(record.bytes());
        Some(record)
    }

    /// Takes out all that can change about a job, to be put back by [`Jobs::put_back`] before
    /// anybody looks at it again.
    pub(crate) fn take(&mut self, slot: Slot) -> Option<Facts> {
        let (segment, label) = self.segment(slot)?;
        let (id, state, number) = segment.look(label)?;
        if number == PLAIN {
            return Some(Facts::plain(id));
        }
        let record = self.records.get_mut(number)?;
        self.pointed_at = self.pointed_at.saturating_sub(record.bytes());
        Some(record.take(id, state))
    }

    /// See [`Jobs::take`].
    pub(crate) fn put_back(&mut self, slot: Slot, facts: &mut Facts) -> Option<()> {
        let (number, label) = split(slot);
        let (id, _, old) = self.segments.get(number)?.look(label)?;
        let state = facts.state;
        let record = match self.records.get_mut(old) {
            Some(record) => {
                record.put_back(facts);
                self.pointed_at = self.pointed_at.saturating_add(record.bytes());
                old
            }
            None => self.new_record(facts)?,
        };
        self.segments.get_mut(number)?.set(label, state, record);
        if old == PLAIN {
            self.plain_left(number, id);
        }
        Some(())
    }

    /// A plain job is not there any more, or not plain.
    fn plain_left(&mut self, number: u32, id: JobId) {
        self.plain = self.plain.saturating_sub(1);
        if self.first_plain == Some(number) && self.segments.get(number).is_none_or(|segment| segment.plain() == 0) {
            let mut rest = self.by_id.after(Some(id)).map(|(_, number)| number);
            self.first_plain = rest.find(|number| self.segments.get(*number).is_some_and(|segment| segment.plain() > 0));
        }
    }

    /// Gives a job another payload.
    pub(crate) fn replace(&mut self, slot: Slot, payload: &[u8]) -> Option<()> {
        let (number, label) = split(slot);
        let segment = self.segments.get_mut(number)?;
        let before = segment.bytes();
        segment.replace(label, payload);
        self.pointed_at = self.pointed_at.saturating_sub(before).saturating_add(segment.bytes());
        Some(())
    }

    /// Takes a job out for good; its record, if it has one.
    pub(crate) fn remove(&mut self, slot: Slot) -> Option<Option<Record>> {
        let (number, label) = split(slot);
        let segment = self.segments.get_mut(number)?;
        let before = segment.bytes();
        let (id, record) = segment.remove(label)?;
        let (after, empty) = (segment.bytes(), segment.live() == 0);
        let seen = self.seen.get_mut();
        if seen.id == Some(id) {
            seen.id = None;
        }
        self.pointed_at = self.pointed_at.saturating_sub(before).saturating_add(after);
        self.len = self.len.saturating_sub(1);
        if empty && self.tail != Some(number) {
            if let Some((low, _)) = self.by_id.floor(&id) {
                self.by_id.remove(&low);
            }
            self.segments.remove(number);
            self.pointed_at = self.pointed_at.saturating_sub(after);
        }
        if record == PLAIN {
            self.plain_left(number, id);
        }
        if self.len == 0 {
            self.let_go();
        }
        Some(self.drop_record(record))
    }

    /// The last job is gone: what is kept is small.
    fn let_go(&mut self) {
        if !self.segments.is_small() {
            let last = self.last;
            let records = std::mem::replace(&mut self.records, Slab::new());
            *self = Jobs { last, records, ..Jobs::new() };
        }
    }

    /// How many jobs are plain: ready, as they were pushed, with nothing said about them. Their
    /// order is that of their ids, at priority 0.
    pub(crate) fn plain(&self) -> usize {
        self.plain
    }

    pub(crate) fn first_plain(&self) -> Option<(JobId, Slot)> {
        let number = self.first_plain?;
        let (id, label) = self.segments.get(number)?.first_plain()?;
        Some((id, slot_of(number, label)))
    }

    /// Plain jobs in order, from the first one after an id.
    pub(crate) fn plain_after(&self, after: Option<JobId>) -> impl Iterator<Item = (JobId, Slot)> + '_ {
        // Before the first one there is nothing to look through.
        let first = self.first_plain().map(|(id, _)| id);
        let from = after.filter(|after| first.is_some_and(|first| first <= *after));
        let segments = first.into_iter().flat_map(move |first| self.segments_from(from.unwrap_or(first)));
        let some = segments.filter(|(_, segment)| segment.plain() > 0);
        some.flat_map(move |(number, segment)| {
            segment.after(from).filter(|(_, _, plain)| *plain).map(move |(label, id, _)| (id, slot_of(number, label)))
        })
    }

    /// The segment in which an id is or would be, and those after it.
    fn segments_from(&self, id: JobId) -> impl Iterator<Item = (u32, &Segment)> + '_ {
        let first = self.by_id.floor(&id).map(|(_, number)| number);
        let rest = self.by_id.after(Some(id)).map(|(_, number)| number);
        first.into_iter().chain(rest).filter_map(|number| Some((number, self.segments.get(number)?)))
    }

    /// All jobs in the order of their ids.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (JobId, Slot)> + '_ {
        let segments = self.by_id.iter().filter_map(|(_, number)| Some((number, self.segments.get(number)?)));
        segments.flat_map(|(number, segment)| segment.after(None).map(move |(label, id, _)| (id, slot_of(number, label))))
    }

    /// About how many bytes they take, with their payloads.
    pub(crate) fn bytes(&self) -> usize {
        let slabs = self.segments.bytes().saturating_add(self.records.bytes());
        self.pointed_at.saturating_add(slabs).saturating_add(self.by_id.bytes())
    }

    /// Whether they are what they claim to be.
    pub(crate) fn check(&self) -> Result<(), String> {
        self.segments.check()?;
        self.records.check()?;
        self.by_id.check()?;
        let (mut len, mut plain, mut records, mut pointed_at) = (0usize, 0usize, 0usize, 0usize);
        let mut first_plain = None;
        for (low, number) in self.by_id.iter() {
            let segment = self.segments.get(number).ok_or_else(|| format!("no segment {number}"))?;
            segment.check().map_err(|what| format!("segment {number}: {what}"))?;
            if segment.live() == 0 && self.tail != Some(number) {
                return Err(format!("segment {number} is empty"));
            }
            pointed_at = pointed_at.saturating_add(segment.bytes());
            if segment.plain() > 0 && first_plain.is_none() {
                first_plain = Some(number);
            }
            for (label, id, is_plain) in segment.after(None) {
                let found = self.find(id);
                if id < low || id > self.last || found != Some(slot_of(number, label)) {
                    return Err(format!("{id} is in segment {number} from {low}, and found at {found:?}"));
                }
                len = len.saturating_add(1);
                plain = plain.saturating_add(usize::from(is_plain));
                let record = segment.look(label).and_then(|(_, _, record)| self.records.get(record));
                if record.is_some() == is_plain {
                    return Err(format!("{id} has a record: {}", record.is_some()));
                }
                records = records.saturating_add(usize::from(record.is_some()));
                pointed_at = pointed_at.saturating_add(record.map_or(0, Record::bytes));
            }
        }
        if self.by_id.len() != self.segments.len() || records != self.records.len() {
            return Err(format!("{records} records, {} counted; {} segments", self.records.len(), self.segments.len()));
        }
        if (len, plain, first_plain) != (self.len, self.plain, self.first_plain) {
            return Err(format!("{len} jobs, {plain} plain from {first_plain:?}; {}, {}, {:?} kept", self.len, self.plain, self.first_plain));
        }
        if pointed_at != self.pointed_at { Err(format!("{pointed_at} bytes, counted {}", self.pointed_at)) } else { Ok(()) }
    }
}
