//! Consumers' names, stored once per queue for as long as a job remembers them.

use std::collections::BTreeMap;
use std::ops::Bound;

use crate::job::{NameId, Slot};

/// The names of a queue's consumers.
#[derive(Debug, Clone, Default)]
pub(crate) struct Names {
    ids: BTreeMap<Box<[u8]>, NameId>,
    names: Vec<Option<Name>>,
    free: Vec<NameId>,
    bytes: usize,
}

/// One name.
#[derive(Debug, Clone)]
pub(crate) struct Name {
    pub(crate) text: Box<[u8]>,
    /// How many jobs remember it.
    pub(crate) jobs: u64,
    /// The first of the jobs that it has leased, and how many these are.
    pub(crate) leased: Option<Slot>,
    pub(crate) leases: u64,
}

impl Names {
    /// The number of a name, counting one job more that remembers it.
    pub(crate) fn hold(&mut self, text: &[u8]) -> NameId {
        if let Some(id) = self.ids.get(text).copied() {
            if let Some(name) = self.get_mut(id) {
                name.jobs = name.jobs.saturating_add(1);
            }
            return id;
        }
        let name = Name { text: text.into(), jobs: 1, leased: None, leases: 0 };
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

    /// One job less remembers it; the last one takes the name along.
    pub(crate) fn drop_hold(&mut self, id: NameId) {
        let Some(place) = self.names.get_mut(id as usize) else { return };
        let Some(name) = place.as_mut() else { return };
        name.jobs = name.jobs.saturating_sub(1);
        if name.jobs > 0 {
            return;
        }
        if let Some(name) = place.take() {
            self.ids.remove(&name.text);
            self.bytes = self.bytes.saturating_sub(name.text.len().saturating_mul(2));
        }
        self.free.push(id);
        if self.ids.is_empty() {
            *self = Names::default();
        }
    }

    pub(crate) fn get(&self, id: NameId) -> Option<&Name> {
        self.names.get(id as usize)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, id: NameId) -> Option<&mut Name> {
        self.names.get_mut(id as usize)?.as_mut()
    }

    pub(crate) fn find(&self, text: &[u8]) -> Option<&Name> {
        self.get(*self.ids.get(text)?)
    }

    /// Names in order, from the first one after `after`.
    pub(crate) fn after(&self, after: Option<&[u8]>) -> impl Iterator<Item = &Name> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.ids.range::<[u8], _>((from, Bound::Unbounded)).filter_map(|(_, id)| self.get(*id))
    }

    /// All names with their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (NameId, &Name)> {
        self.ids.values().filter_map(|id| Some((*id, self.get(*id)?)))
    }

    /// About how many bytes they take.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.saturating_add(self.ids.len().saturating_mul(120))
    }
}
