//! A packed sorted map in two levels: a row of chunks, each a short sorted run of entries.
//!
//! Ascending inserts leave full chunks behind them, taking from the front moves nothing, and no
//! step ever moves more than one chunk and the row. Compared with a B-tree of the same entries
//! it has one allocation per 256 entries and no half-full leaves.

use std::collections::VecDeque;

/// The most entries of a chunk.
const CHUNK: usize = 256;

/// A sorted map from small keys to small values.
#[derive(Debug, Clone)]
pub(crate) struct Sorted<K, V> {
    chunks: VecDeque<Chunk<K, V>>,
    len: usize,
}

#[derive(Debug, Clone)]
struct Chunk<K, V> {
    /// Not above the first key, above every key of the chunk before: the search needs no look
    /// into the chunks.
    low: K,
    entries: VecDeque<(K, V)>,
}

impl<K: Ord + Copy, V: Copy> Sorted<K, V> {
    pub(crate) fn new() -> Sorted<K, V> {
        Sorted { chunks: VecDeque::new(), len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The chunk in which `key` is or would be.
    fn chunk_of(&self, key: &K) -> usize {
        self.chunks.partition_point(|chunk| chunk.low <= *key).saturating_sub(1)
    }

    /// Puts an entry in; the old value if the key was there.
    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        let at = self.chunk_of(&key);
        let last = at.saturating_add(1) >= self.chunks.len();
        let Some(chunk) = self.chunks.get_mut(at) else {
            self.chunks.push_back(Chunk { low: key, entries: VecDeque::from([(key, value)]) });
            self.len = 1;
            return None;
        };
        let place = match chunk.entries.back() {
            Some((back, _)) if *back < key => chunk.entries.len(),
            _ => match chunk.entries.binary_search_by(|(k, _)| k.cmp(&key)) {
                Ok(there) => {
                    let entry = chunk.entries.get_mut(there)?;
                    return Some(std::mem::replace(&mut entry.1, value));
                }
                Err(place) => place,
            },
        };
        self.len = self.len.saturating_add(1);
        if chunk.entries.len() < CHUNK {
            chunk.low = chunk.low.min(key);
            chunk.entries.insert(place, (key, value));
            return None;
        }
        let after = at.saturating_add(1);
        if place == CHUNK && last {
            self.chunks.push_back(Chunk { low: key, entries: VecDeque::from([(key, value)]) });
            return None;
        }
        let mut upper = chunk.entries.split_off(CHUNK / 2);
        chunk.low = chunk.low.min(key);
        let low = upper.front().map_or(key, |(k, _)| *k);
        match place.checked_sub(CHUNK / 2) {
            Some(place) if place > 0 => upper.insert(place, (key, value)),
            _ => chunk.entries.insert(place, (key, value)),
        }
        self.chunks.insert(after, Chunk { low, entries: upper });
        None
    }

    pub(crate) fn remove(&mut self, key: &K) -> Option<V> {
        let at = self.chunk_of(key);
        let entries = &mut self.chunks.get_mut(at)?.entries;
        let place = match entries.front() {
            Some((front, _)) if front == key => 0,
            _ => entries.binary_search_by(|(k, _)| k.cmp(key)).ok()?,
        };
        let (_, value) = entries.remove(place)?;
        self.len = self.len.saturating_sub(1);
        if entries.is_empty() {
            self.chunks.remove(at);
            if self.chunks.is_empty() {
                self.chunks = VecDeque::new();
            }
        } else if entries.len() < CHUNK / 4 {
            self.merge(at);
        }
        Some(value)
    }

    /// Appends the next chunk to a sparse one if the two fit well into one.
    fn merge(&mut self, at: usize) {
        let next = at.saturating_add(1);
        let room = |chunk: Option<&Chunk<K, V>>| chunk.map_or(CHUNK, |chunk| chunk.entries.len());
        if room(self.chunks.get(at)).saturating_add(room(self.chunks.get(next))) > CHUNK / 2 {
            return;
        }
        let Some(mut taken) = self.chunks.remove(next) else { return };
        if let Some(chunk) = self.chunks.get_mut(at) {
            chunk.entries.append(&mut taken.entries);
            chunk.entries.shrink_to(CHUNK / 2);
        }
    }

    /// The last entry that is not above `key`.
    pub(crate) fn floor(&self, key: &K) -> Option<(K, V)> {
        // Most often it is about the newest or the oldest.
        if let Some(last) = self.chunks.back().and_then(|chunk| chunk.entries.back()).filter(|last| last.0 <= *key) {
            return Some(*last);
        }
        let front = self.chunks.front().map(|chunk| &chunk.entries);
        if let Some((first, second)) = front.and_then(|front| Some((front.front()?, front.get(1)?))) {
            if first.0 <= *key && *key < second.0 {
                return Some(*first);
            }
        }
        let at = self.chunk_of(key);
        let entries = &self.chunks.get(at)?.entries;
        match entries.partition_point(|(k, _)| k <= key).checked_sub(1) {
            Some(last) => entries.get(last).copied(),
            // A chunk's low key may be gone.
            None => self.chunks.get(at.checked_sub(1)?)?.entries.back().copied(),
        }
    }

    /// The entries in order, from the first one above `after`.
    pub(crate) fn after(&self, after: Option<K>) -> Iter<'_, K, V> {
        let (chunk, place) = match after {
            None => (0, 0),
            Some(key) => {
                let at = self.chunk_of(&key);
                let entries = self.chunks.get(at).map(|chunk| &chunk.entries);
                (at, entries.map_or(0, |entries| entries.partition_point(|(k, _)| *k <= key)))
            }
        };
        Iter { sorted: self, chunk, place }
    }

    pub(crate) fn iter(&self) -> Iter<'_, K, V> {
        self.after(None)
    }

    /// About how many bytes it takes.
    pub(crate) fn bytes(&self) -> usize {
        let entry = std::mem::size_of::<(K, V)>();
        let chunk = std::mem::size_of::<Chunk<K, V>>();
        self.len.saturating_mul(entry).saturating_add(self.chunks.len().saturating_mul(chunk.saturating_add(16)))
    }

    /// Whether it is what it claims to be.
    pub(crate) fn check(&self) -> Result<(), String> {
        let mut len = 0usize;
        let mut before: Option<K> = None;
        for chunk in &self.chunks {
            if chunk.entries.is_empty() || chunk.entries.len() > CHUNK {
                return Err(format!("a chunk of {} entries", chunk.entries.len()));
            }
            if before.is_some_and(|before| chunk.low <= before) || chunk.entries.front().is_some_and(|(k, _)| *k < chunk.low) {
                return Err("a chunk's low key is wrong".into());
            }
            for (key, _) in &chunk.entries {
                if before.is_some_and(|before| *key <= before) {
                    return Err("keys out of order".into());
                }
                before = Some(*key);
                len = len.saturating_add(1);
            }
        }
        if len == self.len { Ok(()) } else { Err(format!("{len} entries, counted {}", self.len)) }
    }
}

/// The entries of a [`Sorted`] in order.
pub(crate) struct Iter<'a, K, V> {
    sorted: &'a Sorted<K, V>,
    chunk: usize,
    place: usize,
}

impl<K: Copy, V: Copy> Iterator for Iter<'_, K, V> {
    type Item = (K, V);

    fn next(&mut self) -> Option<(K, V)> {
        loop {
            let chunk = self.sorted.chunks.get(self.chunk)?;
            if let Some(entry) = chunk.entries.get(self.place) {
                self.place = self.place.saturating_add(1);
                return Some(*entry);
            }
            self.chunk = self.chunk.saturating_add(1);
            self.place = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn it_is_a_sorted_map(ops in proptest::collection::vec((0u8..8, 0u32..3000), 1..4000)) {
            let (mut ours, mut truth) = (Sorted::new(), BTreeMap::new());
            let mut top = 3000;
            for (n, (kind, key)) in ops.into_iter().enumerate() {
                match kind {
                    0..=2 => prop_assert_eq!(ours.insert(key, n), truth.insert(key, n)),
                    3 | 4 => { top += 1; prop_assert_eq!(ours.insert(top, n), truth.insert(top, n)); }
                    5 => prop_assert_eq!(ours.remove(&key), truth.remove(&key)),
                    _ => if let Some((first, _)) = ours.iter().next() {
                        prop_assert_eq!(ours.remove(&first), truth.pop_first().map(|(_, v)| v));
                    },
                }
                prop_assert_eq!(ours.floor(&key), truth.range(..=key).next_back().map(|(k, v)| (*k, *v)));
            }
            prop_assert!(ours.check().is_ok(), "{:?}", ours.check());
            prop_assert!(ours.iter().eq(truth.iter().map(|(k, v)| (*k, *v))));
            for from in [0, 1, 1500, 2999, top] {
                prop_assert!(ours.after(Some(from)).eq(truth.range(from + 1..).map(|(k, v)| (*k, *v))));
            }
        }
    }

    #[test]
    fn ascending_inserts_fill_their_chunks() {
        let mut ours = Sorted::new();
        for key in 0..10_000u32 {
            ours.insert(key, ());
        }
        assert_eq!(ours.chunks.len(), 10_000usize.div_ceil(CHUNK));
        for key in 0..10_000 {
            assert!(ours.remove(&key).is_some());
        }
        assert_eq!((ours.len(), ours.chunks.capacity()), (0, 0));
    }
}
