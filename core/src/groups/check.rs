//! Whether the groups are consistent with the jobs, for tests and for data from outside.

use std::collections::{BTreeMap, BTreeSet};

use super::{GroupId, Groups};
use crate::store::Jobs;

/// What a check has seen of a group.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) jobs: u64,
    pub(crate) leased: u64,
    pub(crate) retrying: u64,
}

impl Groups {
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
