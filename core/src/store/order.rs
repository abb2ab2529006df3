//! Jobs in the order of a time, then of their ids: packed, in chunks, each a short sorted run.
//!
//! Ascending inserts leave full chunks behind them, taking from the front moves nothing, and no
//! step ever moves more than one chunk and the row. An entry has the time and where the job is,
//! in ten bytes; between equal times the jobs themselves are asked for their ids.

use std::cmp::Ordering;
use std::collections::VecDeque;

use super::Jobs;
use crate::id::JobId;
use crate::job::Slot;

/// The most entries of a chunk.
const CHUNK: usize = 256;
/// A single chunk with so much room is kept when it is empty.
const KEPT: usize = 16;
/// Times above this are taken for it: 2^48 - 1 ms are some 8,900 years.
const MAX_TIME: u64 = (1 << 48) - 1;

/// A time and an id: the place of a job in an order.
pub(crate) type Key = (u64, JobId);

/// What stands for a job in an order.
pub(crate) trait Entry: Copy {
    fn new(time: u64, slot: Slot) -> Self;
    fn slot(self) -> Slot;
    fn time(self, jobs: &Jobs) -> u64;
    /// The place of a job in a run of entries.
    fn place(entries: &VecDeque<Self>, time: u64, slot: Slot) -> Option<usize>;
}

/// With the time it is ordered by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timed {
    time: [u8; 6],
    slot: [u8; 4],
}

impl Entry for Timed {
    #[inline]
    fn new(time: u64, slot: Slot) -> Timed {
        let [a, b, c, d, e, f, _, _] = time.to_le_bytes();
        Timed { time: [a, b, c, d, e, f], slot: slot.to_le_bytes() }
    }
    #[inline]
    fn slot(self) -> Slot {
        Slot::from_le_bytes(self.slot)
    }
    #[inline]
    fn time(self, _: &Jobs) -> u64 {
        self.at()
    }
    fn place(entries: &VecDeque<Timed>, time: u64, slot: Slot) -> Option<usize> {
        let first = entries.partition_point(|entry| entry.at() < time);
        let place = entries.range(first..).position(|entry| entry.slot == slot.to_le_bytes())?;
        first.checked_add(place)
    }
}

impl Timed {
    #[inline]
    pub(crate) fn at(self) -> u64 {
        let [a, b, c, d, e, f] = self.time;
        u64::from_le_bytes([a, b, c, d, e, f, 0, 0])
    }
}

/// A leased job, ordered by the time of its delivery, which its record knows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lease(Slot);

impl Entry for Lease {
    fn new(_: u64, slot: Slot) -> Lease {
        Lease(slot)
    }
    fn slot(self) -> Slot {
        self.0
    }
    fn time(self, jobs: &Jobs) -> u64 {
        jobs.delivered_at(self.0)
    }
    fn place(entries: &VecDeque<Lease>, _: u64, slot: Slot) -> Option<usize> {
        entries.iter().position(|entry| entry.0 == slot)
    }
}

/// See the module.
#[derive(Debug, Clone)]
pub(crate) struct Order<E> {
    chunks: VecDeque<Chunk<E>>,
    len: usize,
}

/// Jobs by a time.
pub(crate) type ByTime = Order<Timed>;

#[derive(Debug, Clone)]
struct Chunk<E> {
    /// Not above the first key, above every key of the chunk before: the search needs no look
    /// into the chunks.
    low: Key,
    /// Not below any key: what comes after it needs no search.
    high: Key,
    entries: VecDeque<E>,
}

fn compare<E: Entry>(entry: E, key: Key, jobs: &Jobs) -> Ordering {
    entry.time(jobs).cmp(&key.0).then_with(|| jobs.id(entry.slot()).cmp(&Some(key.1)))
}

fn clamp((time, id): Key) -> Key {
    (time.min(MAX_TIME), id)
}

impl<E: Entry> Order<E> {
    pub(crate) const fn new() -> Order<E> {
        Order { chunks: VecDeque::new(), len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline]
    pub(crate) fn first(&self) -> Option<E> {
        self.chunks.front()?.entries.front().copied()
    }

    pub(crate) fn last(&self) -> Option<E> {
        self.chunks.back()?.entries.back().copied()
    }

    /// The chunk in which `key` is or would be.
    fn chunk_of(&self, key: Key) -> usize {
        match self.chunks.back() {
            Some(last) if last.low <= key => self.chunks.len().saturating_sub(1),
            _ => self.chunks.partition_point(|chunk| chunk.low <= key).saturating_sub(1),
        }
    }

    /// Puts a job in, which is not there yet.
    pub(crate) fn insert(&mut self, key: Key, slot: Slot, jobs: &Jobs) {
        let key = clamp(key);
        let entry = E::new(key.0, slot);
        // Most come after all others, and there is room.
        if let Some(chunk) = self.chunks.back_mut() {
            let len = chunk.entries.len();
            if key > chunk.high && len > 0 && len < chunk.entries.capacity().min(CHUNK) {
                chunk.high = key;
                chunk.entries.push_back(entry);
                self.len = self.len.saturating_add(1);
                return;
            }
        }
        let at = self.chunk_of(key);
        let last = at.saturating_add(1) >= self.chunks.len();
        self.len = self.len.saturating_add(1);
        let Some(chunk) = self.chunks.get_mut(at) else {
            self.chunks.reserve_exact(1);
            self.chunks.push_back(Chunk { low: key, high: key, entries: VecDeque::from([entry]) });
            return;
        };
        let place = match key > chunk.high {
            true => chunk.entries.len(),
            false => chunk.entries.partition_point(|entry| compare(*entry, key, jobs).is_lt()),
        };
        chunk.high = chunk.high.max(key);
        if chunk.entries.len() < CHUNK {
            if chunk.entries.is_empty() {
                (chunk.low, chunk.high) = (key, key);
            }
            chunk.low = chunk.low.min(key);
            if chunk.entries.len() == chunk.entries.capacity() {
                // 4, 16, 64, a chunk.
                chunk.entries.reserve_exact(chunk.entries.len().saturating_mul(3).max(4).min(CHUNK.saturating_sub(chunk.entries.len())));
            }
            match place == chunk.entries.len() {
                true => chunk.entries.push_back(entry),
                false => chunk.entries.insert(place, entry),
            }
            return;
        }
        let after = at.saturating_add(1);
        if place == CHUNK && last {
            self.chunks.push_back(Chunk { low: key, high: key, entries: VecDeque::from([entry]) });
            return;
        }
        let high = chunk.high;
        let mut upper = chunk.entries.split_off(CHUNK / 2);
        chunk.low = chunk.low.min(key);
        let first = upper.front().and_then(|first| Some((first.time(jobs), jobs.id(first.slot())?)));
        match place.checked_sub(CHUNK / 2) {
            Some(place) if place > 0 => upper.insert(place, entry),
            _ => chunk.entries.insert(place, entry),
        }
        self.chunks.insert(after, Chunk { low: first.unwrap_or(key), high, entries: upper });
    }

    /// Takes a job out. It asks no job for anything: most of them are not in the processor's cache.
    pub(crate) fn remove(&mut self, key: Key, slot: Slot) {
        let key = clamp(key);
        let front = self.first().is_some_and(|first| first.slot() == slot);
        let at = if front { 0 } else { self.chunk_of(key) };
        let Some(chunk) = self.chunks.get_mut(at) else { return };
        let place = if front { Some(0) } else { E::place(&chunk.entries, key.0, slot) };
        let Some(place) = place else { return };
        if place == 0 { chunk.entries.pop_front() } else { chunk.entries.remove(place) };
        self.len = self.len.saturating_sub(1);
        let (left, room) = (chunk.entries.len(), chunk.entries.capacity());
        if left == 0 && self.len == 0 {
            if room > KEPT || self.chunks.len() > 1 {
                self.chunks = VecDeque::new();
            }
        } else if left == 0 {
            self.chunks.remove(at);
        } else if left < CHUNK / 4 {
            self.merge(at);
        }
    }

    /// Appends the next chunk to a sparse one if the two fit well into one.
    fn merge(&mut self, at: usize) {
        let next = at.saturating_add(1);
        let room = |chunk: Option<&Chunk<E>>| chunk.map_or(CHUNK, |chunk| chunk.entries.len());
        if room(self.chunks.get(at)).saturating_add(room(self.chunks.get(next))) > CHUNK / 2 {
            return;
        }
        let Some(mut taken) = self.chunks.remove(next) else { return };
        if let Some(chunk) = self.chunks.get_mut(at) {
            chunk.high = taken.high;
            chunk.entries.append(&mut taken.entries);
            chunk.entries.shrink_to(CHUNK / 2);
        }
    }

    /// Whether a job is there.
    pub(crate) fn has(&self, key: Key, slot: Slot, jobs: &Jobs) -> bool {
        let key = clamp(key);
        let entries = self.chunks.get(self.chunk_of(key)).map(|chunk| &chunk.entries);
        let place = entries.and_then(|entries| entries.binary_search_by(|entry| compare(*entry, key, jobs)).ok());
        entries.zip(place).and_then(|(entries, place)| entries.get(place)).is_some_and(|entry| entry.slot() == slot)
    }

    /// The jobs in order, from the first one after `after`.
    pub(crate) fn after<'a>(&'a self, after: Option<Key>, jobs: &Jobs) -> Iter<'a, E> {
        let (chunk, place) = match after.map(clamp) {
            None => (0, 0),
            Some(key) => {
                let at = self.chunk_of(key);
                let entries = self.chunks.get(at).map(|chunk| &chunk.entries);
                (at, entries.map_or(0, |entries| entries.partition_point(|entry| compare(*entry, key, jobs).is_le())))
            }
        };
        Iter { order: self, chunk, place }
    }

    pub(crate) fn iter(&self) -> Iter<'_, E> {
        Iter { order: self, chunk: 0, place: 0 }
    }

    /// About how many bytes it takes.
    pub(crate) fn bytes(&self) -> usize {
        let chunk = std::mem::size_of::<Chunk<E>>().saturating_add(16);
        self.len.saturating_mul(std::mem::size_of::<E>()).saturating_add(self.chunks.len().saturating_mul(chunk))
    }

    /// Whether it is what it claims to be.
    pub(crate) fn check(&self, jobs: &Jobs) -> Result<(), String> {
        let (mut len, mut before, mut low_before) = (0usize, None, None);
        for chunk in &self.chunks {
            if (chunk.entries.is_empty() && self.chunks.len() > 1) || chunk.entries.len() > CHUNK {
                return Err(format!("a chunk of {} entries", chunk.entries.len()));
            }
            if low_before.is_some_and(|before| chunk.low <= before) {
                return Err("chunks out of order".into());
            }
            for entry in &chunk.entries {
                let id = jobs.id(entry.slot()).ok_or("an entry about no job")?;
                let key = (entry.time(jobs), id);
                if key < chunk.low || clamp(key) > chunk.high || before.is_some_and(|before| key <= before) {
                    return Err("entries out of order".into());
                }
                before = Some(key);
                len = len.saturating_add(1);
            }
            low_before = before;
        }
        if len == self.len { Ok(()) } else { Err(format!("{len} entries, counted {}", self.len)) }
    }
}

impl ByTime {
    /// The time and the id of the first job.
    pub(crate) fn first_key(&self, jobs: &Jobs) -> Option<Key> {
        let first = self.first()?;
        Some((first.at(), jobs.id(first.slot())?))
    }

    /// The keys of all jobs in order, after one.
    pub(crate) fn keys<'a>(&'a self, after: Option<Key>, jobs: &'a Jobs) -> impl Iterator<Item = Key> + 'a {
        self.after(after, jobs).filter_map(|entry| Some((entry.at(), jobs.id(entry.slot())?)))
    }
}

/// The entries of an [`Order`].
pub(crate) struct Iter<'a, E> {
    order: &'a Order<E>,
    chunk: usize,
    place: usize,
}

impl<E: Copy> Iterator for Iter<'_, E> {
    type Item = E;

    fn next(&mut self) -> Option<E> {
        loop {
            let chunk = self.order.chunks.get(self.chunk)?;
            if let Some(entry) = chunk.entries.get(self.place) {
                self.place = self.place.saturating_add(1);
                return Some(*entry);
            }
            self.chunk = self.chunk.saturating_add(1);
            self.place = 0;
        }
    }
}
