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

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use crate::job::Slot;
use crate::pause::Pause;
use crate::policy::Policy;
use crate::rate::Grants;
use crate::ready::{Lanes, ReadyKey};
use crate::store::{ByTime, Entry, Jobs, Order};

/// The number of a group within a queue.
pub(crate) type GroupId = u32;
/// Turns by priority, as a snapshot has them.
pub(crate) type Turns = Vec<(i8, u64)>;

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
    rings: BTreeMap<Reverse<i8>, BTreeSet<(u64, GroupId)>>,
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

/// Why a group is not served now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Barred {
    /// Until a job of it ends, or a pause without end.
    ByState,
    /// By its rate or a pause, until this time, Unix ms.
    Until(u64),
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

    fn next_turn(&mut self) -> u64 {
        self.counter = self.counter.saturating_add(1);
        self.counter
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

    /// A group, or the jobs without one, was served at a priority: it goes to the end of the ring.
    pub(crate) fn served(&mut self, id: Option<GroupId>, priority: Reverse<i8>) {
        if self.is_empty() {
            return;
        }
        let turn = self.next_turn();
        self.set_turn(id, priority, turn);
    }

    /// The turn of a group, or of the jobs without one, at a priority; 0: none is noted.
    pub(crate) fn turn(&self, id: Option<GroupId>, priority: Reverse<i8>) -> u64 {
        match id {
            None => self.bare_turn(priority),
            Some(id) => self.get(id).and_then(|group| group.ready.get(&priority)).map_or(0, |member| member.turn),
        }
    }

    /// Sets a turn; 0 has no effect on a group.
    pub(crate) fn set_turn(&mut self, id: Option<GroupId>, priority: Reverse<i8>, turn: u64) {
        let Some(id) = id else {
            match turn {
                0 => self.bare.remove(&priority),
                turn => self.bare.insert(priority, turn),
            };
            return;
        };
        let Some(group) = self.groups.get_mut(id as usize).and_then(Option::as_mut) else { return };
        let Some(member) = group.ready.get_mut(&priority).filter(|_| turn > 0) else { return };
        let old = std::mem::replace(&mut member.turn, turn);
        if !group.parked {
            leave_ring(&mut self.rings, priority, old, id);
            self.rings.entry(priority).or_default().insert((turn, id));
        }
    }

    /// Jobs without group come to a priority where there were none.
    pub(crate) fn bare_arrives(&mut self, priority: Reverse<i8>) {
        if !self.is_empty() {
            let turn = self.next_turn();
            self.bare.insert(priority, turn);
        }
    }

    pub(crate) fn bare_turn(&self, priority: Reverse<i8>) -> u64 {
        self.bare.get(&priority).copied().unwrap_or(0)
    }

    /// The priorities at which some group may be served, highest first.
    pub(crate) fn priorities(&self) -> impl Iterator<Item = Reverse<i8>> + '_ {
        self.rings.keys().copied()
    }

    /// Who is next at a priority: its turn, and its first job.
    pub(crate) fn head(&self, priority: Reverse<i8>, stored: &Jobs) -> Option<(u64, GroupId, ReadyKey, Slot)> {
        let (turn, id) = *self.rings.get(&priority)?.first()?;
        let first = self.get(id)?.ready.get(&priority)?.jobs.first()?;
        Some((turn, id, (priority, first.at(), stored.id(first.slot())?), first.slot()))
    }

    /// Whether nothing new of a group may be leased at `now`.
    pub(crate) fn barred(&self, id: GroupId, policy: &Policy, now: u64) -> Option<Barred> {
        let group = self.get(id)?;
        if group.is_full(policy, false) {
            return Some(Barred::ByState);
        }
        if let Some(pause) = Pause::on(group.pause.as_ref(), now) {
            return Some(pause.until.map_or(Barred::ByState, Barred::Until));
        }
        group.grants.barred_until(now, policy.group_rate()).map(Barred::Until)
    }

    /// Takes a group out of the rings.
    pub(crate) fn park(&mut self, id: GroupId, why: Barred) {
        let Some(group) = self.groups.get_mut(id as usize).and_then(Option::as_mut) else { return };
        group.parked = true;
        for (priority, member) in &group.ready {
            leave_ring(&mut self.rings, *priority, member.turn, id);
        }
        if let Barred::Until(at) = why {
            self.wake.remove(&(group.wake_at, id));
            group.wake_at = at;
            self.wake.insert((at, id));
        }
    }

    /// What barred a group may be over.
    pub(crate) fn unpark(&mut self, id: GroupId) {
        let Some(group) = self.groups.get_mut(id as usize).and_then(Option::as_mut) else { return };
        if !std::mem::take(&mut group.parked) {
            return;
        }
        let wake_at = std::mem::take(&mut group.wake_at);
        self.wake.remove(&(wake_at, id));
        for (priority, member) in &group.ready {
            self.rings.entry(*priority).or_default().insert((member.turn, id));
        }
    }

    /// The same for all, after a change of the policy.
    pub(crate) fn unpark_all(&mut self) {
        (0..self.groups.len()).filter_map(|id| GroupId::try_from(id).ok()).for_each(|id| self.unpark(id));
    }

    /// Groups have another rate, or none. One that is set anew begins with no grants known, and
    /// those that are only remembered for it may have to go.
    pub(crate) fn settle_all(&mut self, policy: &Policy) {
        if policy.group_rate().is_none() {
            self.groups.iter_mut().flatten().for_each(|group| group.grants = Grants::default());
        }
        (0..self.groups.len()).filter_map(|id| GroupId::try_from(id).ok()).for_each(|id| self.settle(id, Some(policy)));
    }

    /// Groups whose time has come may be served again.
    pub(crate) fn wake(&mut self, now: u64) {
        while let Some((_, id)) = self.wake.first().copied().filter(|(at, _)| *at <= now) {
            self.unpark(id);
        }
    }

    /// Whether a group may be served, or will be looked at at `now`.
    pub(crate) fn any_in_turn(&self, now: u64) -> bool {
        !self.rings.is_empty() || self.wake.first().is_some_and(|(at, _)| *at <= now)
    }

    /// Whether something of a group would be leased at `now`, whatever has been parked or not. It
    /// looks at a thousand groups at most; LEASE parks those that it meets in vain.
    pub(crate) fn any_free(&self, policy: &Policy, now: u64) -> bool {
        let woken = self.wake.iter().take_while(|(at, _)| *at <= now);
        let ids = self.rings.values().flatten().chain(woken).map(|(_, id)| *id).take(1_000);
        ids.filter(|id| self.get(*id).is_some_and(|group| !group.ready.is_empty())).any(|id| self.barred(id, policy, now).is_none())
    }

    /// When the next parked group comes back by time, after `now`.
    pub(crate) fn next_wake(&self, now: u64) -> Option<u64> {
        self.wake.range((now.saturating_add(1), 0)..).next().map(|(at, _)| *at)
    }

    /// When a group can be forgotten.
    pub(crate) fn next_idle(&self) -> Option<u64> {
        self.idle.first().map(|(until, _)| *until)
    }

    /// The group whose pause ends first.
    pub(crate) fn next_pause_end(&self) -> Option<(u64, &Group)> {
        let (until, id) = self.pause_ends.first()?;
        Some((*until, self.get(*id)?))
    }

    /// Pauses a group, or ends its pause.
    pub(crate) fn set_pause(&mut self, id: GroupId, pause: Option<Pause>, policy: &Policy) {
        let until = pause.as_ref().and_then(|pause| pause.until);
        let Some(group) = self.get_mut(id) else { return };
        let old = std::mem::replace(&mut group.pause, pause).and_then(|pause| pause.until);
        if let Some(old) = old {
            self.pause_ends.remove(&(old, id));
        }
        if let Some(until) = until {
            self.pause_ends.insert((until, id));
        }
        self.unpark(id);
        self.settle(id, Some(policy));
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

    /// The counter and the turns of the jobs without group, for a snapshot.
    pub(crate) fn turns(&self) -> (u64, Turns) {
        (self.counter, self.bare.iter().map(|(priority, turn)| (priority.0, *turn)).collect())
    }

    /// The turns of one group.
    pub(crate) fn turns_of(group: &Group) -> Turns {
        group.ready.iter().map(|(priority, member)| (priority.0, member.turn)).collect()
    }

    /// Sets what [`Groups::turns`] gave; the counter never goes back.
    pub(crate) fn set_turns(&mut self, counter: u64, bare: &[(i8, u64)]) {
        self.counter = counter;
        self.bare = bare.iter().map(|(priority, turn)| (Reverse(*priority), *turn)).collect();
    }

    /// Sets the turns and grants of a group from a snapshot.
    pub(crate) fn set_group(&mut self, id: GroupId, turns: &[(i8, u64)], grants: Grants) {
        let Some(group) = self.get_mut(id) else { return };
        group.grants = grants;
        for (priority, turn) in turns {
            self.set_turn(Some(id), Reverse(*priority), *turn);
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.name_bytes.saturating_add(self.ids.len().saturating_mul(1_000)).saturating_add(self.all.bytes().saturating_mul(2))
    }

    /// Whether it is consistent; `jobs` are all jobs of groups: group, key and slot if ready,
    /// whether leased, whether waiting for a retry.
    pub(crate) fn check(&self, jobs: &BTreeMap<GroupId, Seen>, stored: &Jobs) -> Result<(), String> {
        self.all.check(stored)?;
        let (mut ready, mut in_rings) = (0usize, 0usize);
        for (id, group) in self.after(None) {
            let nothing = Seen::default();
            let seen = jobs.get(&id).unwrap_or(&nothing);
            let kept = (group.jobs, group.leased, group.retrying);
            if kept != (seen.jobs, seen.leased, seen.retrying) {
                return Err(format!("group {id}: {kept:?} kept, {seen:?} counted"));
            }
            if seen.jobs == 0 && group.pause.is_none() && group.idle_until == 0 {
                return Err(format!("group {id} is kept for nothing"));
            }
            for (priority, member) in &group.ready {
                member.jobs.check(stored)?;
                ready = ready.saturating_add(member.jobs.len());
                let stands = self.rings.get(priority).is_some_and(|ring| ring.contains(&(member.turn, id)));
                if stands == group.parked || member.jobs.is_empty() {
                    return Err(format!("group {id} parked {} and in its ring {stands}", group.parked));
                }
                in_rings = in_rings.saturating_add(usize::from(stands));
            }
        }
        let rings: usize = self.rings.values().map(BTreeSet::len).sum();
        if ready != self.all.len() || rings != in_rings {
            return Err(format!("groups: {ready} ready, {} kept; {in_rings} in rings, {rings} kept", self.all.len()));
        }
        if jobs.keys().any(|id| self.get(*id).is_none()) {
            return Err("a job of a group that is not there".into());
        }
        Ok(())
    }
}

/// What a check has seen of a group.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) jobs: u64,
    pub(crate) leased: u64,
    pub(crate) retrying: u64,
}

fn leave_ring(rings: &mut BTreeMap<Reverse<i8>, BTreeSet<(u64, GroupId)>>, priority: Reverse<i8>, turn: u64, id: GroupId) {
    if let Some(ring) = rings.get_mut(&priority) {
        ring.remove(&(turn, id));
        if ring.is_empty() {
            rings.remove(&priority);
        }
    }
}
