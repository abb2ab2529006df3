//! Jobs of neighbouring ids, packed: a row of heads of 12 bytes, and their payloads one after
//! the other in an arena.
//!
//! Heads change when jobs do, payloads do not: so a lease or an acknowledgement dirties no page
//! of payloads while a child process shares them. What is removed leaves its bytes until half of
//! a segment is dead; then the rest moves together. A job keeps its label meanwhile, so nothing
//! that points at it has to be told.

use crate::id::JobId;
use crate::job::State;

/// The labels of a segment, hence the most jobs in it.
pub(super) const LABELS: u32 = 128;
/// The most bytes of an arena: a size of its own in jemalloc, and movable by active defrag.
const ARENA: usize = 7 << 10;
/// A payload above this is on its own.
const OWN: usize = 2 << 10;
/// Arenas and rows up to this are kept for reuse when the last job is gone.
const KEPT: usize = 256;
/// No record: the job waits, as it was pushed, with nothing said about it.
pub(super) const PLAIN: u32 = u32::MAX;

/// The mark of a removed job, where others have the number of their state.
const GONE: u16 = 7;
/// The mark of a payload on its own, in a head's label.
const ON_ITS_OWN: u8 = 0x80;

#[derive(Debug, Clone, Copy)]
struct Head {
    /// The number of its record, or [`PLAIN`].
    record: u32,
    /// Milliseconds after the first id, the low bits and the high ones.
    ms: u16,
    ms_high: u8,
    label: u8,
    /// In the millisecond of the first id a difference to that, else as it is.
    seq: u16,
    /// Where its payload starts, times 8, and its state.
    start: u16,
}

impl Head {
    fn start(self) -> usize {
        usize::from(self.start >> 3)
    }

    fn is_gone(self) -> bool {
        self.start & 7 == GONE
    }

    fn offset(self) -> (u16, u8, u16) {
        (self.ms, self.ms_high, self.seq)
    }

    fn label(self) -> u8 {
        self.label & !ON_ITS_OWN
    }
}

/// See the module. Heads are in the order of ids, and of labels.
#[derive(Debug, Clone, Default)]
pub(super) struct Segment {
    /// The id of the first job that was put in.
    base: JobId,
    heads: Vec<Head>,
    arena: Vec<u8>,
    /// Payloads on their own, by label.
    own: Vec<(u8, Box<[u8]>)>,
    own_bytes: usize,
    /// Bytes of the arena that belong to nobody any more.
    garbage: u16,
    /// Jobs that are there, and how many of them are plain.
    live: u8,
    plain: u8,
    next_label: u8,
    /// No plain job has a place in the row before this.
    first_plain: u8,
}

impl Segment {
    pub(super) fn live(&self) -> usize {
        usize::from(self.live)
    }

    pub(super) fn plain(&self) -> usize {
        usize::from(self.plain)
    }

    fn offset(&self, id: JobId) -> Option<(u16, u8, u16)> {
        let ms = id.ms.checked_sub(self.base.ms)?;
        let seq = if ms == 0 { id.seq.checked_sub(self.base.seq)? } else { id.seq };
        let [low, middle, high, rest @ ..] = ms.to_le_bytes();
        (rest == [0; 5]).then_some((u16::from_le_bytes([low, middle]), high, u16::try_from(seq).ok()?))
    }

    fn id_of(&self, head: Head) -> JobId {
        let [low, middle] = head.ms.to_le_bytes();
        let ms = u64::from_le_bytes([low, middle, head.ms_high, 0, 0, 0, 0, 0]);
        let seq = u32::from(head.seq);
        JobId {
            ms: self.base.ms.wrapping_add(ms),
            seq: if ms == 0 { self.base.seq.wrapping_add(seq) } else { seq },
        }
    }

    /// Appends a job, whose id is above all others here; its label, or None if there is no room.
    /// `large`: there will be many, so room for them is got at once.
    pub(super) fn push(&mut self, id: JobId, payload: &[u8], state: State, record: u32, large: bool) -> Option<u8> {
        if self.live == 0 {
            self.start_anew(id);
        }
        let (ms, ms_high, seq) = self.offset(id)?;
        let start = self.arena.len();
        let inline = payload.len() <= OWN;
        if u32::from(self.next_label) >= LABELS || (inline && start.saturating_add(payload.len()) > ARENA) {
            return None;
        }
        let label = self.next_label;
        let mut head = Head { record, ms, ms_high, label, seq, start: ((start as u16) << 3) | state as u16 };
        if inline {
            let room = if large { ARENA } else { self.arena.capacity().saturating_mul(4).min(ARENA) };
            if self.arena.capacity() < start.saturating_add(payload.len()) {
                self.arena.reserve_exact(room.max(start.saturating_add(payload.len())).saturating_sub(start));
            }
            self.arena.extend_from_slice(payload);
        } else {
            head.label |= ON_ITS_OWN;
            self.put_own(label, payload);
        }
        if self.heads.len() == self.heads.capacity() {
            self.heads.reserve_exact(self.heads.len().saturating_mul(3).clamp(4, LABELS as usize / 4));
        }
        if record == PLAIN && self.plain == 0 {
            self.first_plain = self.heads.len() as u8;
        }
        self.heads.push(head);
        self.next_label = self.next_label.saturating_add(1);
        self.live = self.live.saturating_add(1);
        self.plain = self.plain.saturating_add(u8::from(record == PLAIN));
        Some(label)
    }

    /// Empty, with room for a few jobs at most.
    fn start_anew(&mut self, base: JobId) {
        let (mut heads, mut arena) = (std::mem::take(&mut self.heads), std::mem::take(&mut self.arena));
        heads.clear();
        arena.clear();
        *self = Segment { base, heads, arena, ..Segment::default() };
    }

    /// No job more will be put in: room for others is given back.
    pub(super) fn seal(&mut self) {
        self.heads.shrink_to_fit();
        if self.arena.capacity().saturating_sub(self.arena.len()) > ARENA / 16 {
            self.arena.shrink_to_fit();
        }
    }

    /// The place in the row of a label.
    #[inline]
    fn place(&self, label: u8) -> Option<usize> {
        // Those that are missing are most often all at the front.
        let direct = usize::from(label.checked_sub(self.heads.first()?.label())?);
        match self.heads.get(direct) {
            Some(head) if head.label() == label => Some(direct),
            _ => self.heads.binary_search_by_key(&label, |head| head.label()).ok(),
        }
    }

    #[inline]
    fn head(&self, label: u8) -> Option<Head> {
        self.heads.get(self.place(label)?).copied().filter(|head| !head.is_gone())
    }

    /// The place in the row of a job that may be at `near` or just after it.
    pub(super) fn find_near(&self, id: JobId, near: usize) -> Option<usize> {
        let wanted = self.offset(id)?;
        let place = self.heads.get(near..)?.iter().take(2).position(|head| head.offset() == wanted)?;
        near.checked_add(place)
    }

    /// The place in the row of a job.
    pub(super) fn find(&self, id: JobId) -> Option<usize> {
        let (ms, high, seq) = self.offset(id)?;
        // In the first millisecond, where none is missing, its place can be told.
        let guess = usize::from(seq);
        if self.heads.get(guess).is_some_and(|head| head.offset() == (ms, high, seq)) {
            return Some(guess);
        }
        self.heads.binary_search_by_key(&(high, ms, seq), |head| (head.ms_high, head.ms, head.seq)).ok()
    }

    /// The label of what is at a place in the row.
    pub(super) fn label(&self, place: usize) -> Option<u8> {
        self.heads.get(place).filter(|head| !head.is_gone()).map(|head| head.label())
    }

    pub(super) fn id(&self, label: u8) -> Option<JobId> {
        self.head(label).map(|head| self.id_of(head))
    }

    /// Id, state and record of a job.
    pub(super) fn look(&self, label: u8) -> Option<(JobId, State, u32)> {
        let head = self.head(label)?;
        Some((self.id_of(head), State::from_number((head.start & 7) as u8)?, head.record))
    }

    /// All there is to see of a job: its place, id, state, record, payload.
    #[inline]
    pub(super) fn view(&self, label: u8) -> Option<(usize, JobId, State, u32, &[u8])> {
        let place = self.place(label)?;
        let head = *self.heads.get(place)?;
        let state = State::from_number((head.start & 7) as u8)?;
        Some((place, self.id_of(head), state, head.record, self.payload(place, head)?))
    }

    #[inline]
    fn payload(&self, place: usize, head: Head) -> Option<&[u8]> {
        if head.label & ON_ITS_OWN > 0 {
            return self.own.iter().find(|(other, _)| *other == head.label()).map(|(_, payload)| &**payload);
        }
        self.arena.get(head.start()..self.end(place))
    }

    /// Where the payload of the head at a place ends, if it is in the arena.
    fn end(&self, place: usize) -> usize {
        place.checked_add(1).and_then(|next| self.heads.get(next)).map_or(self.arena.len(), |next| next.start())
    }

    /// Sets state and record.
    pub(super) fn set(&mut self, label: u8, state: State, record: u32) {
        let Some(head) = self.place(label).and_then(|place| self.heads.get_mut(place)) else { return };
        let was_plain = head.record == PLAIN;
        head.start = (head.start & !7) | state as u16;
        head.record = record;
        if was_plain && record != PLAIN {
            self.plain = self.plain.saturating_sub(1);
            self.skip_plain();
        }
    }

    /// Gives a job another payload.
    pub(super) fn replace(&mut self, label: u8, payload: &[u8]) {
        let Some(place) = self.place(label) else { return };
        let Some(head) = self.heads.get(place).copied() else { return };
        let end = self.end(place);
        if head.label & ON_ITS_OWN > 0 {
            self.drop_own(label);
            self.put_own(label, payload);
            return;
        }
        match self.arena.get_mut(head.start()..end) {
            Some(room) if room.len() == payload.len() => room.copy_from_slice(payload),
            room => {
                let lost = room.map_or(0, |room| room.len());
                self.garbage = self.garbage.saturating_add(lost as u16);
                self.put_own(label, payload);
                if let Some(head) = self.heads.get_mut(place) {
                    head.label |= ON_ITS_OWN;
                }
                self.compact_if_half_dead();
            }
        }
    }

    fn put_own(&mut self, label: u8, payload: &[u8]) {
        self.own.push((label, payload.into()));
        self.own_bytes = self.own_bytes.saturating_add(payload.len());
    }

    fn drop_own(&mut self, label: u8) {
        if let Some(at) = self.own.iter().position(|(other, _)| *other == label) {
            let (_, payload) = self.own.swap_remove(at);
            self.own_bytes = self.own_bytes.saturating_sub(payload.len());
        }
    }

    /// Removes a job; its id and record.
    pub(super) fn remove(&mut self, label: u8) -> Option<(JobId, u32)> {
        let place = self.place(label)?;
        let next = self.end(place);
        let head = self.heads.get_mut(place).filter(|head| !head.is_gone())?;
        head.start |= GONE;
        let gone = *head;
        let id = self.id_of(gone);
        if gone.label & ON_ITS_OWN > 0 {
            self.drop_own(label);
        } else {
            self.garbage = self.garbage.saturating_add(next.saturating_sub(gone.start()) as u16);
        }
        self.live = self.live.saturating_sub(1);
        if gone.record == PLAIN {
            self.plain = self.plain.saturating_sub(1);
            self.skip_plain();
        }
        if self.live == 0 {
            // The next job begins a new one in its place.
            let base = self.base;
            self.start_anew(base);
            if self.arena.capacity() > KEPT {
                self.arena = Vec::new();
            }
            if self.heads.capacity() > KEPT / 16 {
                self.heads = Vec::new();
            }
        } else {
            self.compact_if_half_dead();
        }
        Some((id, gone.record))
    }

    fn compact_if_half_dead(&mut self) {
        let dead_bytes = usize::from(self.garbage) > KEPT && usize::from(self.garbage) > self.arena.len() / 2;
        let dead_heads = self.heads.len() > 16 && usize::from(self.live) < self.heads.len() / 2;
        if dead_bytes || dead_heads {
            self.compact();
        }
    }

    fn compact(&mut self) {
        let kept = self.arena.len().saturating_sub(usize::from(self.garbage));
        let mut arena = Vec::with_capacity(kept);
        let mut heads = Vec::with_capacity(usize::from(self.live));
        for (place, head) in self.heads.iter().enumerate().filter(|(_, head)| !head.is_gone()) {
            let start = arena.len() as u16;
            if head.label & ON_ITS_OWN == 0 {
                arena.extend_from_slice(self.arena.get(head.start()..self.end(place)).unwrap_or(&[]));
            }
            heads.push(Head { start: (start << 3) | (head.start & 7), ..*head });
        }
        (self.heads, self.arena, self.garbage, self.first_plain) = (heads, arena, 0, 0);
        self.skip_plain();
    }

    /// Moves the hint to the first plain job.
    fn skip_plain(&mut self) {
        let from = usize::from(self.first_plain);
        let ahead = self.heads.get(from..).unwrap_or(&[]).iter().position(|head| head.record == PLAIN && !head.is_gone());
        self.first_plain = from.saturating_add(ahead.unwrap_or(self.heads.len())).min(self.heads.len()) as u8;
    }

    /// The first plain job.
    pub(super) fn first_plain(&self) -> Option<(JobId, u8)> {
        let head = self.heads.get(usize::from(self.first_plain)).filter(|head| head.record == PLAIN && !head.is_gone())?;
        Some((self.id_of(*head), head.label()))
    }

    /// The jobs after an id, in order: label, id, and whether they are plain.
    pub(super) fn after(&self, after: Option<JobId>) -> impl Iterator<Item = (u8, JobId, bool)> + '_ {
        let from = after.map_or(0, |after| self.heads.partition_point(|head| self.id_of(*head) <= after));
        let rest = self.heads.get(from..).unwrap_or(&[]).iter().filter(|head| !head.is_gone());
        rest.map(|head| (head.label(), self.id_of(*head), head.record == PLAIN))
    }

    /// What it takes beside itself.
    pub(super) fn bytes(&self) -> usize {
        let own = self.own.len().saturating_mul(std::mem::size_of::<(u8, Box<[u8]>)>());
        let heads = self.heads.len().saturating_mul(std::mem::size_of::<Head>());
        self.arena.len().saturating_add(heads).saturating_add(own).saturating_add(self.own_bytes)
    }

    /// Whether it is what it claims to be.
    pub(super) fn check(&self) -> Result<(), String> {
        let there = || self.heads.iter().filter(|head| !head.is_gone());
        let (live, plain) = (there().count(), there().filter(|head| head.record == PLAIN).count());
        if (live, plain) != (usize::from(self.live), usize::from(self.plain)) {
            return Err(format!("{live} jobs, {plain} plain; {} and {} counted", self.live, self.plain));
        }
        let ids: Vec<JobId> = self.heads.iter().map(|head| self.id_of(*head)).collect();
        if !ids.is_sorted_by(|a, b| a < b) || !self.heads.is_sorted_by(|a, b| a.label() < b.label() && a.start() <= b.start()) {
            return Err("heads out of order".into());
        }
        let first = self.heads.iter().position(|head| head.record == PLAIN && !head.is_gone());
        if first != Some(usize::from(self.first_plain)).filter(|_| plain > 0) {
            return Err(format!("the first plain job is at {first:?}, not {}", self.first_plain));
        }
        let own = there().filter(|head| head.label & ON_ITS_OWN > 0).count();
        let own_bytes = self.own.iter().fold(0usize, |sum, (_, payload)| sum.saturating_add(payload.len()));
        if own != self.own.len() || own_bytes != self.own_bytes || self.heads.last().is_some_and(|head| head.start() > self.arena.len()) {
            return Err("payloads that are nobody's".into());
        }
        Ok(())
    }
}

const _: () = assert!(std::mem::size_of::<Head>() == 12);
