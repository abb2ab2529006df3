//! The whole queue beside the whole ledger: nothing lost, nothing that came back, nothing unknown.

use super::call::payload_text;
use super::ledger::{broken, rule, Claim, Job, Ledger, State, Verdict};
use super::rules::Jitter;
use super::view::View;

impl Ledger {
    pub fn audit(&self, views: &[View]) -> Verdict {
        for view in views {
            let Some(job) = self.jobs.get(&view.id) else { return broken(format!("nobody pushed {view:?}")) };
            self.same(job, view).map_err(|what| format!("{what}: {view:?}, by the ledger {job:?}"))?;
        }
        let there: std::collections::BTreeSet<_> = views.iter().map(|view| view.id).collect();
        rule(there.len() == views.len(), || "a job is in two states".to_string())?;
        for (id, job) in self.jobs.iter().filter(|(_, job)| job.state != State::Gone) {
            rule(there.contains(id), || format!("{id:?} is lost: {job:?}"))?;
        }
        Ok(())
    }

    fn same(&self, job: &Job, view: &View) -> Verdict {
        let say = |what: &'static str| move || what.to_string();
        let state = match job.state {
            State::Waiting if job.ready => view.state == "ready",
            State::Waiting => view.state == "ready" || view.state == "delayed",
            State::Leased => view.state == "leased",
            State::Dead(reason) => view.state == "dead" && view.reason.as_deref() == Some(reason),
            State::Done => view.state == "done",
            // It was acknowledged, or removed, and is back.
            State::Gone => false,
        };
        rule(state, say("another state"))?;
        rule(view.payload == payload_text(job.payload), say("another payload"))?;
        rule(view.priority == i64::from(job.options.priority), say("another priority"))?;
        let named = |letter: char, n: Option<u8>| n.map(|n| format!("{letter}{n}"));
        rule(view.group == named('g', job.options.group), say("another group"))?;
        rule(view.key == named('k', job.options.key), say("another key"))?;
        rule((view.deliveries, view.max_deliveries) == (job.deliveries, self.max_deliveries(job)), say("other deliveries"))?;
        rule((view.failures, view.expiries) == (job.all_failures, job.all_expiries), say("other failures or expiries"))?;
        rule(job.claim == Claim::None || view.token == job.token, say("another token"))?;
        rule(job.state != State::Leased || view.deadline == job.deadline, say("another deadline"))?;
        if view.state != "delayed" {
            return Ok(());
        }
        let (least, most) = job.due;
        let exact = self.rules.jitter == Jitter::None || least == most;
        let within = (least..=most).contains(&view.due_at) && (!exact || view.due_at == most);
        rule(within, || format!("due at {}, which is not within {:?}", view.due_at, job.due))
    }
}
