//! Groups: the tenants of a queue, who take turns.
//!
//! At each priority the groups with ready jobs form a ring, in the order of their turns; the jobs
//! without a group are one member of it (their turns are kept here, the jobs themselves in
//! [`crate::ready`]). Whoever is served goes to the end, and so does whoever comes anew.
//!
//! A group that may not be served now (GROUPLIMIT, GROUPRATE, GROUPORDER, a pause) is *parked*
//! outside the rings when LEASE meets it, and comes back when that may have changed. So LEASE
//! meets it once, not each time, however many jobs it has. Parking is a cache of what can be
//! derived: it is in no op and in no snapshot, and a replica may have it otherwise.

mod check;
mod parking;
mod turns;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use crate::job::Slot;
use crate::pause::Pause;
use crate::policy::Policy;
use crate::rate::Grants;
use crate::ready::{Lanes, ReadyKey};
use crate::store::{ByTime, Jobs, Order};

pub(crate) use check::Seen;
pub(crate) use parking::Barred;
pub(crate) use turns::Turns;
use turns::{leave_ring, Rings};

/// The number of a group within a queue.
pub(crate) type GroupId = u32;

/// One group.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    pub(crate) name: Box<[u8]>,
    /// How many jobs, in any state, are of it.
    pub(crate) jobs: u64,
    pub(crate) leased: u64,
    /// Delayed jobs that a worker has had: with GROUPORDER they hold the group.
    pub(crate) retrying: u64,
    pub(crate) pause: Option<Pause>,
    pub(crate) grants: Grants,
    ready: BTreeMap<Reverse<i8>, Member>,
    parked: bool,
    /// Where it stands in `wake` and `idle`; 0: nowhere.
    wake_at: u64,
    idle_until: u64,
}

/// The ready jobs of one group at one priority.
#[derive(Debug, Clone)]
struct Member {
    turn: u64,
    jobs: ByTime,
}

/// The groups of a queue.
#[derive(Debug, Clone)]
pub(crate) struct Groups {
    ids: BTreeMap<Box<[u8]>, GroupId>,
    groups: Vec<Option<Group>>,
    free: Vec<GroupId>,
    /// The groups that may be served, by turn.
    rings: Rings,
    /// All ready jobs of groups, in the order of PEEK.
    all: Lanes,
    /// Parked groups that come back by time.
    wake: BTreeSet<(u64, GroupId)>,
    /// Pauses of groups that end.
    pause_ends: BTreeSet<(u64, GroupId)>,
    /// Groups without jobs, kept because their grants still count.
    idle: BTreeSet<(u64, GroupId)>,
    /// The last turn that was given out.
    counter: u64,
    /// The turns of the jobs without group.
    bare: BTreeMap<Reverse<i8>, u64>,
    name_bytes: usize,
}

impl Group {
    /// Whether GROUPLIMIT or GROUPORDER leave no place for one lease more. `own_retry`: the job in
    /// question is one of those that hold the group by waiting for their retry.
    pub(crate) fn is_full(&self, policy: &Policy, own_retry: bool) -> bool {
        let retrying = self.retrying.saturating_sub(u64::from(own_retry));
        policy.group_limit().is_some_and(|limit| self.leased >= limit) || (policy.group_order() && (self.leased > 0 || retrying > 0))
    }

    /// How many of its jobs are ready; one look per priority in use.
    pub(crate) fn ready(&self) -> u64 {
        self.ready.values().fold(0, |sum, member| sum.saturating_add(member.jobs.len() as u64))
    }

    /// The place of the oldest of them, Unix ms; likewise.
    pub(crate) fn oldest_ready(&self) -> Option<u64> {
        self.ready.values().filter_map(|member| member.jobs.first()).map(|first| first.at()).min()
    }
}

impl Groups {
    pub(crate) const fn new() -> Groups {
        Groups {
            ids: BTreeMap::new(),
            groups: Vec::new(),
            free: Vec::new(),
            rings: BTreeMap::new(),
            all: Lanes::new(),
            wake: BTreeSet::new(),
            pause_ends: BTreeSet::new(),
            idle: BTreeSet::new(),
            counter: 0,
            bare: BTreeMap::new(),
            name_bytes: 0,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }

    /// How many jobs of groups are ready.
    pub(crate) fn ready(&self) -> usize {
        self.all.len()
    }

    pub(crate) fn get(&self, id: GroupId) -> Option<&Group> {
        self.groups.get(id as usize)?.as_ref()
    }

    fn get_mut(&mut self, id: GroupId) -> Option<&mut Group> {
        self.groups.get_mut(id as usize)?.as_mut()
    }

    pub(crate) fn find(&self, name: &[u8]) -> Option<GroupId> {
        self.ids.get(name).copied()
    }

    /// Groups by name, from the first one after `after`.
    pub(crate) fn after(&self, after: Option<&[u8]>) -> impl Iterator<Item = (GroupId, &Group)> {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.ids.range::<[u8], _>((from, Bound::Unbounded)).filter_map(|(_, id)| Some((*id, self.get(*id)?)))
    }

    /// The group of this name, made if there is none.
    pub(crate) fn make(&mut self, name: &[u8]) -> GroupId {
        if let Some(id) = self.find(name) {
            return id;
        }
        let group = Group {
            name: name.into(),
            jobs: 0,
            leased: 0,
            retrying: 0,
            pause: None,
            grants: Grants::default(),
            ready: BTreeMap::new(),
            parked: false,
            wake_at: 0,
            idle_until: 0,
        };
        let id = match self.free.pop() {
            Some(id) => {
                if let Some(place) = self.groups.get_mut(id as usize) {
                    *place = Some(group);
                }
                id
            }
            None => {
                self.groups.push(Some(group));
                // As many groups as jobs and pauses at most, and those do not reach 2^32.
                GroupId::try_from(self.groups.len().saturating_sub(1)).unwrap_or(GroupId::MAX)
            }
        };
        self.ids.insert(name.into(), id);
        self.name_bytes = self.name_bytes.saturating_add(name.len().saturating_mul(2));
        id
    }

    /// One job more is of the group.
    pub(crate) fn hold(&mut self, name: &[u8]) -> GroupId {
        let id = self.make(name);
        if let Some(group) = self.get_mut(id) {
            group.jobs = group.jobs.saturating_add(1);
        }
        self.settle(id, None);
        id
    }

    /// One job less is of the group.
    pub(crate) fn drop_hold(&mut self, id: GroupId, policy: &Policy) {
        if let Some(group) = self.get_mut(id) {
            group.jobs = group.jobs.saturating_sub(1);
        }
        self.settle(id, Some(policy));
    }

    /// Forgets a group that nothing needs, or notes until when its grants count.
    pub(crate) fn settle(&mut self, id: GroupId, policy: Option<&Policy>) {
        let Some(group) = self.get_mut(id) else { return };
        let unused = group.jobs == 0 && group.pause.is_none();
        let window = policy.and_then(|policy| policy.group_rate()).map(|rate| rate.ms);
        let until = window.and_then(|ms| Some(group.grants.last()?.saturating_add(ms)));
        let old = std::mem::take(&mut group.idle_until);
        if let (true, Some(until)) = (unused, until) {
            group.idle_until = until;
        }
        if old > 0 {
            self.idle.remove(&(old, id));
        }
        match (unused, until) {
            (true, Some(until)) => {
                self.idle.insert((until, id));
            }
            (true, None) => self.forget(id),
            (false, _) => {}
        }
    }

    fn forget(&mut self, id: GroupId) {
        let Some(group) = self.groups.get_mut(id as usize).and_then(Option::take) else { return };
        self.ids.remove(&group.name);
        self.wake.remove(&(group.wake_at, id));
        self.idle.remove(&(group.idle_until, id));
        self.name_bytes = self.name_bytes.saturating_sub(group.name.len().saturating_mul(2));
        self.free.push(id);
        if self.ids.is_empty() {
            *self = Groups::new();
        }
    }

    /// How many groups, `max` at most, are without jobs and have no grants that count at `now`.
    pub(crate) fn idle(&self, now: u64, max: u32) -> u32 {
        let over = self.idle.iter().take_while(|(until, _)| *until <= now).take(max as usize);
        over.fold(0, |count, _| count.saturating_add(1))
    }

    /// Forgets some of the groups whose grants do not count any more at `now`.
    pub(crate) fn tidy(&mut self, now: u64, max: u32) -> Option<()> {
        let mut any = None;
        for _ in 0..max {
            let Some((_, id)) = self.idle.first().copied().filter(|(until, _)| *until <= now) else { break };
            self.forget(id);
            any = Some(());
        }
        any
    }

    pub(crate) fn insert_ready(&mut self, id: GroupId, key: ReadyKey, slot: Slot, stored: &Jobs) {
        self.all.insert(key, slot, stored);
        let turn = self.next_turn();
        let Some(group) = self.groups.get_mut(id as usize).and_then(Option::as_mut) else { return };
        let (priority, place, job) = key;
        match group.ready.get_mut(&priority) {
            Some(member) => {
                member.jobs.insert((place, job), slot, stored);
            }
            None => {
                let mut jobs = Order::new();
                jobs.insert((place, job), slot, stored);
                group.ready.insert(priority, Member { turn, jobs });
                if !group.parked {
                    self.rings.entry(priority).or_default().insert((turn, id));
                }
            }
        }
    }

    pub(crate) fn remove_ready(&mut self, id: GroupId, key: ReadyKey, slot: Slot) {
        self.all.remove(key, slot);
        let Some(group) = self.groups.get_mut(id as usize).and_then(Option::as_mut) else { return };
        let (priority, place, job) = key;
        let Some(member) = group.ready.get_mut(&priority) else { return };
        member.jobs.remove((place, job), slot);
        if member.jobs.is_empty() {
            let turn = member.turn;
            group.ready.remove(&priority);
            leave_ring(&mut self.rings, priority, turn, id);
        }
    }

    /// Groups have another rate, or none. One that is set anew begins with no grants known, and
    /// those that are only remembered for it may have to go.
    pub(crate) fn settle_all(&mut self, policy: &Policy) {
        if policy.group_rate().is_none() {
            self.groups.iter_mut().flatten().for_each(|group| group.grants = Grants::default());
        }
        (0..self.groups.len()).filter_map(|id| GroupId::try_from(id).ok()).for_each(|id| self.settle(id, Some(policy)));
    }

    /// When a group can be forgotten.
    pub(crate) fn next_idle(&self) -> Option<u64> {
        self.idle.first().map(|(until, _)| *until)
    }

    /// A job of the group was leased, or is not any more.
    pub(crate) fn count_leased(&mut self, id: GroupId, more: bool) {
        let Some(group) = self.get_mut(id) else { return };
        if more {
            group.leased = group.leased.saturating_add(1);
        } else {
            group.leased = group.leased.saturating_sub(1);
            self.unpark(id);
        }
    }

    /// A job that a worker has had waits for its time, or does not any more.
    pub(crate) fn count_retrying(&mut self, id: GroupId, more: bool) {
        let Some(group) = self.get_mut(id) else { return };
        if more {
            group.retrying = group.retrying.saturating_add(1);
        } else {
            group.retrying = group.retrying.saturating_sub(1);
            self.unpark(id);
        }
    }

    /// A lease was granted at `now`.
    pub(crate) fn granted(&mut self, id: GroupId, now: u64, policy: &Policy) {
        if let Some(group) = self.get_mut(id) {
            group.grants.add(now, policy.group_rate());
        }
    }

    /// A grant does not count after all.
    pub(crate) fn give_back(&mut self, id: GroupId, at: u64) {
        if let Some(group) = self.get_mut(id) {
            group.grants.give_back(at);
        }
        self.unpark(id);
    }

    /// Whether a ready job is there, for checks.
    pub(crate) fn has_ready(&self, key: ReadyKey, slot: Slot, stored: &Jobs) -> bool {
        self.all.has(key, slot, stored)
    }

    /// All ready jobs of groups in the order of PEEK, from the first one after `after`.
    pub(crate) fn ready_after<'a>(&'a self, after: Option<ReadyKey>, stored: &'a Jobs) -> impl Iterator<Item = (ReadyKey, Slot)> + 'a {
        self.all.after(after, stored)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.name_bytes.saturating_add(self.ids.len().saturating_mul(1_000)).saturating_add(self.all.bytes().saturating_mul(2))
    }
}
