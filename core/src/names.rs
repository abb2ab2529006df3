//! Consumers: their names, stored once per queue for as long as a job remembers them, and the
//! jobs that they have leased.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use crate::job::{NameId, Slot};
use crate::store::{Entry, Jobs, Key, Lease, Order};

/// The consumers of a queue.
#[derive(Debug, Clone, Default)]
pub(crate) struct Names {
    ids: BTreeMap<Box<[u8]>, NameId>,
    names: Vec<Option<Name>>,
    free: Vec<NameId>,
    /// Those with leases, by the time of their oldest one.
    oldest: BTreeSet<(u64, NameId)>,
    /// The name that was used last. It is kept when no job remembers it any more, so that a worker
    /// that takes one job after the other is not made anew each time.
    recent: Option<NameId>,
    bytes: usize,
}

/// One consumer.
#[derive(Debug, Clone)]
pub(crate) struct Name {
    pub(crate) text: Box<[u8]>,
    /// How many jobs remember it.
    pub(crate) jobs: u64,
    /// The jobs that it has leased, by the time of their delivery.
    pub(crate) leases: Order<Lease>,
    /// When it last called, Unix ms, as far as this process knows: in no snapshot, and on no
    /// replica. 0: it does not.
    pub(crate) seen: u64,
}

impl Names {
    /// The number of a name, counting one job more that remembers it.
    pub(crate) fn hold(&mut self, text: &[u8]) -> NameId {
        if let Some(recent) = self.recent {
            if let Some(name) = self.get_mut(recent).filter(|name| *name.text == *text) {
                name.jobs = name.jobs.saturating_add(1);
                return recent;
            }
        }
        let id = match self.ids.get(text) {
            Some(id) => *id,
            None => self.make(text),
        };
        if let Some(name) = self.get_mut(id) {
            name.jobs = name.jobs.saturating_add(1);
        }
        if let Some(before) = self.recent.replace(id) {
            self.forget_unused(before);
        }
        id
    }

    fn make(&mut self, text: &[u8]) -> NameId {
        let name = Name { text: text.into(), jobs: 0, leases: Order::new(), seen: 0 };
        let id = match self.free.pop() {
            Some(id) => {
                if let Some(place) = self.names.get_mut(id as usize) {
                    *place = Some(name);
                }
                id
            }
            None => {
                self.names.push(Some(name));
                // As many names as jobs at most, and those are counted in 32 bits.
                NameId::try_from(self.names.len().saturating_sub(1)).unwrap_or(NameId::MAX)
            }
        };
        self.ids.insert(text.into(), id);
        self.bytes = self.bytes.saturating_add(text.len().saturating_mul(2));
        id
    }

    /// A consumer has called.
    pub(crate) fn saw(&mut self, text: &[u8], now: u64) {
        let recent = self.recent.filter(|recent| self.get(*recent).is_some_and(|name| *name.text == *text));
        if let Some(id) = recent.or_else(|| self.ids.get(text).copied()) {
            self.saw_number(id, now);
        }
    }

    /// The same.
    pub(crate) fn saw_number(&mut self, id: NameId, now: u64) {
        if let Some(name) = self.get_mut(id) {
            name.seen = now;
        }
    }

    /// One job less remembers it; the last one takes the name along.
    pub(crate) fn drop_hold(&mut self, id: NameId) {
        let Some(name) = self.get_mut(id) else { return };
        name.jobs = name.jobs.saturating_sub(1);
        if self.recent != Some(id) {
            self.forget_unused(id);
        }
        self.let_go();
    }

    /// When nobody is left but the one that was used last, what many others took is given back.
    fn let_go(&mut self) {
        let unused = |id: NameId| self.get(id).is_none_or(|name| name.jobs == 0);
        if self.names.capacity() > 64 && self.ids.len() <= 1 && self.recent.is_none_or(unused) {
            *self = Names::default();
        }
    }

    fn forget_unused(&mut self, id: NameId) {
        let Some(place) = self.names.get_mut(id as usize) else { return };
        let Some(name) = place.take_if(|name| name.jobs == 0) else { return };
        self.ids.remove(&name.text);
        self.bytes = self.bytes.saturating_sub(name.text.len().saturating_mul(2));
        self.free.push(id);
        if self.ids.is_empty() {
            *self = Names::default();
        }
    }

    pub(crate) fn get(&self, id: NameId) -> Option<&Name> {
        self.names.get(id as usize)?.as_ref()
    }

    fn get_mut(&mut self, id: NameId) -> Option<&mut Name> {
        self.names.get_mut(id as usize)?.as_mut()
    }

    /// The jobs that a consumer has leased, by the time of their delivery.
    pub(crate) fn leases(&self, text: &[u8]) -> impl Iterator<Item = Slot> + '_ {
        let name = self.ids.get(text).and_then(|id| self.get(*id));
        name.into_iter().flat_map(|name| name.leases.iter()).map(Entry::slot)
    }

    /// A consumer was given a lease at the time of the key.
    pub(crate) fn lease(&mut self, id: NameId, key: Key, slot: Slot, jobs: &Jobs) {
        let Some(name) = self.names.get_mut(id as usize).and_then(Option::as_mut) else { return };
        let before = name.leases.first();
        name.leases.insert(key, slot, jobs);
        if name.leases.first().is_some_and(|first| first.slot() == slot) {
            if let Some(before) = before {
                self.oldest.remove(&(before.time(jobs), id));
            }
            self.oldest.insert((key.0, id));
        }
    }

    /// A lease has ended that began at the time of the key.
    pub(crate) fn unlease(&mut self, id: NameId, key: Key, slot: Slot, jobs: &Jobs) {
        let Some(name) = self.names.get_mut(id as usize).and_then(Option::as_mut) else { return };
        let was_first = name.leases.first().is_some_and(|first| first.slot() == slot);
        name.leases.remove(key, slot);
        if was_first {
            let after = name.leases.first().map(|first| first.time(jobs));
            if after != Some(key.0) {
                self.oldest.remove(&(key.0, id));
                self.oldest.extend(after.map(|after| (after, id)));
            }
        }
    }

    /// Whether a consumer has a lease, for checks.
    pub(crate) fn has(&self, id: NameId, key: Key, slot: Slot, jobs: &Jobs) -> bool {
        self.get(id).is_some_and(|name| name.leases.has(key, slot, jobs))
    }

    /// When the oldest lease began.
    pub(crate) fn oldest(&self) -> Option<u64> {
        self.oldest.first().map(|(since, _)| *since)
    }

    /// Consumers that a job remembers, by name, from the first one after `after`.
    pub(crate) fn after(&self, after: Option<&[u8]>) -> impl Iterator<Item = &Name> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let names = self.ids.range::<[u8], _>((from, Bound::Unbounded)).filter_map(|(_, id)| self.get(*id));
        names.filter(|name| name.jobs > 0)
    }

    /// About how many bytes they take.
    pub(crate) fn bytes(&self, leases: usize) -> usize {
        self.bytes.saturating_add(self.ids.len().saturating_mul(250)).saturating_add(leases.saturating_mul(4))
    }

    /// Whether they are consistent; `jobs` tells how many jobs remember each, and how many of
    /// these are leased.
    pub(crate) fn check(&self, seen: &BTreeMap<NameId, (u64, usize)>, jobs: &Jobs) -> Result<(), String> {
        let mut oldest = BTreeSet::new();
        for id in self.ids.values() {
            let name = self.get(*id).ok_or("a name without a consumer")?;
            name.leases.check(jobs)?;
            let counted = seen.get(id).copied().unwrap_or_default();
            if counted != (name.jobs, name.leases.len()) || (name.jobs == 0 && self.recent != Some(*id)) {
                return Err(format!("a consumer: {counted:?} counted, {} jobs and {} leases kept", name.jobs, name.leases.len()));
            }
            oldest.extend(name.leases.first().map(|first| (first.time(jobs), *id)));
        }
        if oldest != self.oldest {
            return Err(format!("oldest leases: {oldest:?}, kept {:?}", self.oldest));
        }
        if seen.keys().any(|id| self.get(*id).is_none()) {
            return Err("a job remembers a consumer that is not there".into());
        }
        Ok(())
    }
}
