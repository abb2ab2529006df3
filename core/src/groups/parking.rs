//! Groups that may not be served now are parked outside the rings until that may have changed.

use super::turns::leave_ring;
use super::{GroupId, Groups};
use crate::pause::Pause;
use crate::policy::Policy;

/// Why a group is not served now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Barred {
    /// Until a job of it ends, or a pause without end.
    ByState,
    /// By its rate or a pause, until this time, Unix ms.
    Until(u64),
}

impl Groups {
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

    /// The group whose pause ends first.
    pub(crate) fn next_pause_end(&self) -> Option<(u64, &super::Group)> {
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
}
