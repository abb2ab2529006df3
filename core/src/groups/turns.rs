//! Whose turn it is: the rings of groups, and the place of the jobs without a group among them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::{Group, GroupId, Groups};
use crate::job::Slot;
use crate::rate::Grants;
use crate::ready::ReadyKey;
use crate::store::{Entry, Jobs};

/// Turns by priority, as a snapshot has them.
pub(crate) type Turns = Vec<(i8, u64)>;
/// The groups that may be served at each priority, by turn.
pub(super) type Rings = BTreeMap<Reverse<i8>, BTreeSet<(u64, GroupId)>>;

impl Groups {
    pub(super) fn next_turn(&mut self) -> u64 {
        self.counter = self.counter.saturating_add(1);
        self.counter
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
}

/// Takes a group's turn out.
pub(super) fn leave_ring(rings: &mut Rings, priority: Reverse<i8>, turn: u64, id: GroupId) {
    if let Some(ring) = rings.get_mut(&priority) {
        ring.remove(&(turn, id));
        if ring.is_empty() {
            rings.remove(&priority);
        }
    }
}
