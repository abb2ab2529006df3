//! Dedup keys: one owner per key, and what is held behind it.
//!
//! A key without window belongs to its job until that finishes, dies or is removed. A key with a
//! window stays for a time, whatever becomes of the job. Behind a job that was delivered, the
//! newest duplicate can be held; it is pushed when that job ends.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::id::JobId;
use crate::limits::MAX_TIME_MS;
use crate::op::Contents;
use crate::request::{JobOptions, When};

/// A key's bytes, shared by the job and the table.
pub(crate) type Key = Arc<[u8]>;

/// Who has a key.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Owner {
    /// The job that won. With a window it may be gone.
    pub(crate) job: JobId,
    /// The end of the window, Unix ms; 0: as long as the job lives.
    pub(crate) until: u64,
    pub(crate) held: Option<Box<Held>>,
}

/// A duplicate that waits for its owner's end.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Held {
    pub(crate) payload: Box<[u8]>,
    pub(crate) options: JobOptions,
    pub(crate) group: Option<Box<[u8]>>,
    /// When it is due, Unix ms, if it was pushed with a delay.
    pub(crate) due: Option<u64>,
    pub(crate) window_ms: u64,
}

impl Owner {
    /// Whether exactly this is held behind it.
    pub(crate) fn holds(&self, contents: &Contents<'_>) -> bool {
        // `due` says when.
        let options = |options: JobOptions| JobOptions { when: When::Now, ..options };
        self.held.as_deref().is_some_and(|held| {
            *held.payload == *contents.payload
                && options(held.options) == options(contents.options)
                && (held.due, held.window_ms) == (contents.due, contents.dedup.map_or(0, |dedup| dedup.window_ms))
                && held.group.as_deref() == contents.group
        })
    }

    /// The end of its window when what waits is replaced at `now`: a window that is given begins
    /// anew, none that is not there.
    pub(crate) fn renewed(&self, window_ms: u64, now: u64) -> u64 {
        if self.until > 0 && window_ms > 0 { window_end(window_ms, now) } else { self.until }
    }
}

/// The end of a window, Unix ms; 0: there is none.
pub(crate) fn window_end(window_ms: u64, now: u64) -> u64 {
    if window_ms == 0 { 0 } else { now.saturating_add(window_ms).min(MAX_TIME_MS) }
}

/// The keys of a queue.
#[derive(Debug, Clone)]
pub(crate) struct Dedup {
    owners: BTreeMap<Key, Owner>,
    /// The keys that end by time: with a window, and nothing held.
    windows: BTreeSet<(u64, Key)>,
    /// The ended jobs whose held duplicate is to be pushed.
    pending: BTreeMap<JobId, Key>,
    held_count: u64,
    held_bytes: u64,
    key_bytes: usize,
}

impl Dedup {
    pub(crate) const fn new() -> Dedup {
        Dedup { owners: BTreeMap::new(), windows: BTreeSet::new(), pending: BTreeMap::new(), held_count: 0, held_bytes: 0, key_bytes: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.owners.len()
    }

    pub(crate) fn held(&self) -> (u64, u64) {
        (self.held_count, self.held_bytes)
    }

    /// Who has a key at `now`.
    pub(crate) fn owner(&self, key: &[u8], now: u64) -> Option<&Owner> {
        self.owners.get(key).filter(|owner| owner.until == 0 || owner.until > now || owner.held.is_some())
    }

    /// Who has a key, also if its window is over but not closed yet.
    pub(crate) fn find(&self, key: &[u8]) -> Option<(&Key, &Owner)> {
        self.owners.get_key_value(key)
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (&Key, &Owner)> {
        self.owners.iter()
    }

    /// Sets a key's owner, with all that follows; `live` says whether its job still is to be done.
    pub(crate) fn set(&mut self, key: Key, owner: Owner, live: bool) {
        self.remove(&key);
        if let Some(held) = &owner.held {
            self.held_count = self.held_count.saturating_add(1);
            self.held_bytes = self.held_bytes.saturating_add(held.payload.len() as u64);
            if !live {
                self.pending.insert(owner.job, key.clone());
            }
        } else if owner.until > 0 {
            self.windows.insert((owner.until, key.clone()));
        }
        self.key_bytes = self.key_bytes.saturating_add(key.len());
        self.owners.insert(key, owner);
    }

    pub(crate) fn remove(&mut self, key: &[u8]) -> Option<Owner> {
        let (key, owner) = self.owners.remove_entry(key)?;
        self.key_bytes = self.key_bytes.saturating_sub(key.len());
        if let Some(held) = &owner.held {
            self.held_count = self.held_count.saturating_sub(1);
            self.held_bytes = self.held_bytes.saturating_sub(held.payload.len() as u64);
            if self.pending.get(&owner.job) == Some(&key) {
                self.pending.remove(&owner.job);
            }
        } else if owner.until > 0 {
            self.windows.remove(&(owner.until, key));
        }
        Some(owner)
    }

    /// A job has ended: its key is free, or held open for what comes next.
    pub(crate) fn ended(&mut self, key: &Key, job: JobId, deleted: bool) {
        let Some(owner) = self.owners.get(key).filter(|owner| owner.job == job) else { return };
        if owner.held.is_some() {
            self.pending.insert(job, key.clone());
        } else if owner.until == 0 || deleted {
            self.remove(key);
        }
    }

    /// An ended job whose held duplicate is to be pushed.
    pub(crate) fn next_pending(&self) -> Option<(JobId, &Held)> {
        let (job, key) = self.pending.first_key_value()?;
        Some((*job, self.owners.get(key)?.held.as_deref()?))
    }

    pub(crate) fn is_pending(&self, job: JobId) -> bool {
        self.pending.contains_key(&job)
    }

    /// Takes out the key whose held duplicate waits for the end of `job`, if that has come.
    pub(crate) fn take_pending(&mut self, job: JobId) -> Option<(Key, Box<Held>)> {
        let key = self.pending.get(&job)?.clone();
        let held = self.remove(&key)?.held?;
        Some((key, held))
    }

    pub(crate) fn first_window(&self) -> Option<&(u64, Key)> {
        self.windows.first()
    }

    /// The last of the first `n` windows that end at `now` or before, and how many that are.
    pub(crate) fn ended_windows(&self, now: u64, n: u32) -> Option<(u64, Key, u32)> {
        let ended = self.windows.iter().take_while(|(until, _)| *until <= now).take(n.max(1) as usize);
        ended.fold(None, |count, (until, key)| {
            Some((*until, key.clone(), count.map_or(1, |(_, _, n): (u64, Key, u32)| n.saturating_add(1))))
        })
    }

    /// Forgets the keys whose windows end no later than this one in their order.
    pub(crate) fn close_windows(&mut self, until: u64, key: &[u8]) -> Option<()> {
        let mut any = None;
        while let Some((at, first)) = self.windows.first() {
            if (*at, &first[..]) > (until, key) {
                break;
            }
            let first = first.clone();
            any = self.remove(&first).map(|_| ());
        }
        any
    }

    pub(crate) fn bytes(&self) -> usize {
        let held = usize::try_from(self.held_bytes).unwrap_or(usize::MAX);
        let each = self.owners.len().saturating_mul(120);
        held.saturating_add(self.key_bytes).saturating_add(each).saturating_add(self.windows.len().saturating_mul(48))
    }

    /// Whether it is consistent; `state` tells whether a job is live and which key it carries.
    pub(crate) fn check(&self, state: impl Fn(JobId) -> Option<(bool, Option<Key>)>) -> Result<(), String> {
        let (mut count, mut bytes, mut windows, mut pending) = (0u64, 0u64, 0usize, 0usize);
        for (key, owner) in &self.owners {
            let job = state(owner.job);
            let live = matches!(&job, Some((true, Some(carried))) if carried == key);
            if let Some(held) = &owner.held {
                count = count.saturating_add(1);
                bytes = bytes.saturating_add(held.payload.len() as u64);
                if !live {
                    pending = pending.saturating_add(1);
                    if self.pending.get(&owner.job) != Some(key) {
                        return Err(format!("what is held behind {} is not pending", owner.job));
                    }
                }
            } else if owner.until > 0 {
                windows = windows.saturating_add(1);
                if !self.windows.contains(&(owner.until, key.clone())) {
                    return Err(format!("the window of {} is not found", owner.job));
                }
            } else if !live {
                return Err(format!("{} has ended and keeps its dedup key", owner.job));
            }
        }
        let kept = (self.held_count, self.held_bytes, self.windows.len(), self.pending.len());
        if kept == (count, bytes, windows, pending) {
            Ok(())
        } else {
            Err(format!("dedup: {:?} counted, {kept:?} kept", (count, bytes, windows, pending)))
        }
    }
}
